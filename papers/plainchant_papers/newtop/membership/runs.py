"""Runs in which members fail, and what their traces say about views.

Over links that lose packets: a partition loses them, so that the lossless streams of chapters 3 to 5 would not do.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import Any, Final

import pyarrow as pa

from plainchant.core.model import GroupId, ProcessId
from plainchant.scenario.model import Delay, Fault, Network, RandomFaults, Scenario, Workload

from ...runs import milliseconds, names, rows_of
from ...runs import scenario as any_scenario
from ..runs import Groups, anything, chain, clique, members_of, star

ORDERS: Final = ("total", "slow", "fast", "relative")


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
    return any_scenario(
        "newtop",
        members_of(groups),
        *workload,
        length=length,
        drain=1000 * drain,
        parameters=parameters,
        groups=groups,
        network=network or Network(delay=Delay("uniform", milliseconds(0.5), milliseconds(1.5))),
        faults=faults,
        random_faults=random_faults,
        seed=seed,
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
            delay=Delay("uniform", milliseconds(0.5), milliseconds(draw.choice((1, 5)))),
            loss=draw.choice((0, 0.02, 0.1)),
            reorder=draw.choice((0, 0.1)),
        ),
        random_faults=RandomFaults(
            crash=draw.choice((0.0, rate, 2 * rate)),
            restart=0.5,
            partition=draw.choice((rate, 2 * rate)),
            cut=draw.choice((0.0, rate)),
            pause=draw.choice((0.0, rate)),
            pause_length=milliseconds(300),
            network_length=milliseconds(draw.choice((150, 500))),
            most_lost=len(members_of(groups)),
        ),
        length=1500,
        order=order,
        **parameters,
    )


# --- what traces say ------------------------------------------------------------------------------------------------


def suspicions_of(table: pa.Table) -> Mapping[GroupId, set[tuple[ProcessId, ProcessId]]]:
    """By group: who ever suspected whom."""
    found: dict[GroupId, set[tuple[ProcessId, ProcessId]]] = {}
    for row in rows_of(table, "suspect"):
        found.setdefault(row["group"], set()).add((row["process"], row["detail"]["process"]))
    return found
