"""Runs in which members fail, and what their traces say about views.

Over links that lose packets: a partition loses them, so that the lossless streams of chapters 3 to 5 would not do.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from .....model import MS, SECOND, Duration, GroupId, ProcessId
from .....scenario.model import Delay, Fault, Network, RandomFaults, Scenario, Workload
from ..runs import Groups, anything, chain, clique, members_of, names, star

ORDERS: Final = ("total", "slow", "fast", "relative")
Views = dict[tuple[ProcessId, GroupId], list[tuple[int, int, tuple[ProcessId, ...]]]]
"""By process and group: the views that it installed, as (when, number, members)."""


def milliseconds(value: float) -> Duration:
    return Duration(round(value * MS))


def fault(kind: str, at: float, *, length: float = 0, **settings: Any) -> Fault:
    """A fault at a time, and for a time, in ms."""
    return Fault(kind=kind, at=milliseconds(at), length=milliseconds(length), **settings)


def scenario(
    groups: Groups,
    *workload: Workload,
    seed: int = 0,
    network: Network | None = None,
    faults: Sequence[Fault] = (),
    random_faults: RandomFaults | None = None,
    length: float = 1000,
    drain: float = 30,
    **parameters: Any,
) -> Scenario:
    """A scenario of these groups, for so many ms; if it is drained, then for so many seconds at the most."""
    return Scenario(
        protocol="newtop",
        name="reproduce",
        seed=seed,
        members=members_of(groups),
        groups=groups,
        parameters=parameters,
        network=network if network is not None else Network(delay=Delay("uniform", milliseconds(0.5), milliseconds(1.5))),
        workload=workload,
        fault=tuple(faults),
        random=random_faults if random_faults is not None else RandomFaults(),
        duration=milliseconds(length),
        drain=Duration(round(drain * SECOND)),
    )


def structure(draw: random.Random) -> Groups:
    """One group of two to eight, or two or three that overlap."""
    groups = draw.choice((1, 1, 1, 2, 3))
    if groups == 1:
        return {"g": names(draw.randrange(2, 9))}
    size = draw.randrange(2, 5)
    shape = draw.choice((chain, star, clique))
    return anything(draw, groups, 6) if draw.random() < 0.4 else shape(groups, size)


def faulty_run(seed: int, order: str, **parameters: Any) -> Scenario:
    """Members of overlapping groups send, crash, come back, pause; the network loses packets and falls apart, for a while."""
    draw = random.Random(f"{seed}/{order}/membership")
    groups = structure(draw)
    rate = draw.choice((0.5, 1.0, 2.0))
    return scenario(
        groups,
        Workload(rate=draw.choice((10.0, 40.0)), arrivals="poisson", size=16),
        seed=seed,
        network=Network(
            delay=Delay("uniform", milliseconds(0.5), milliseconds(draw.choice((1, 5)))), loss=draw.choice((0, 0.02, 0.1)),
            reorder=draw.choice((0, 0.1)),
        ),
        random_faults=RandomFaults(
            crash=draw.choice((0.0, rate, 2 * rate)), restart=0.5, partition=draw.choice((rate, 2 * rate)),
            cut=draw.choice((0.0, rate)), pause=draw.choice((0.0, rate)), pause_length=milliseconds(300),
            network_length=milliseconds(draw.choice((150, 500))), most_lost=len(members_of(groups)),
        ),
        length=1500,
        order=order,
        **parameters,
    )


# --- what traces say ------------------------------------------------------------------------------------------------


def rows_of(table: pa.Table, kind: str) -> Iterator[dict[str, Any]]:
    """The rows of a kind, each with its detail as a mapping."""
    for row in table.filter(pc.equal(table["kind"], kind)).to_pylist():
        row["detail"] = json.loads(row["detail"]) if row["detail"] else {}
        yield row


def views_of(table: pa.Table) -> Views:
    views: Views = {}
    for row in rows_of(table, "view"):
        installed = (row["true_time"], row["view"], tuple(row["members"]))
        views.setdefault((row["process"], row["group"]), []).append(installed)
    return views


def suspicions_of(table: pa.Table) -> Mapping[GroupId, set[tuple[ProcessId, ProcessId]]]:
    """By group: who ever suspected whom."""
    found: dict[GroupId, set[tuple[ProcessId, ProcessId]]] = {}
    for row in rows_of(table, "suspect"):
        found.setdefault(row["group"], set()).add((row["process"], row["detail"]["process"]))
    return found
