"""Scenarios of reproductions, and what their traces say: what the packages of all documents share. Times are in ms."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from plainchant.core.model import MS, Duration, GroupId, ProcessId
from plainchant.scenario.model import Delay, Fault, Network, RandomFaults, Scenario, Workload

ONE_MILLISECOND: Final = Network(delay=Delay("constant", Duration(1 * MS)))

Views = dict[tuple[ProcessId, GroupId], list[tuple[int, int, tuple[ProcessId, ...]]]]
"""By process and group: the views that it installed, as (when, number, members)."""


def names(count: int) -> tuple[str, ...]:
    """``p1``, ``p2``, ..."""
    return tuple(f"p{number + 1}" for number in range(count))


def milliseconds(value: float) -> Duration:
    return Duration(round(value * MS))


def fault(kind: str, at: float, *, length: float = 0, **settings: Any) -> Fault:
    """A fault at a time, and for a time."""
    return Fault(kind=kind, at=milliseconds(at), length=milliseconds(length), **settings)


def scenario(
    protocol: str,
    members: Sequence[str],
    *workload: Workload,
    length: float,
    drain: float,
    parameters: Mapping[str, Any],
    groups: Mapping[str, tuple[str, ...]] | None = None,
    later: Sequence[str] = (),
    network: Network = ONE_MILLISECOND,
    faults: Sequence[Fault] = (),
    random_faults: RandomFaults | None = None,
    seed: int = 0,
) -> Scenario:
    """A scenario for so long, which may take ``drain`` to get quiet after that; 0: it is not drained."""
    return Scenario(
        protocol=protocol,
        name="reproduce",
        seed=seed,
        members=tuple(members),
        later=tuple(later),
        groups=dict(groups or {}),
        parameters=dict(parameters),
        network=network,
        workload=workload,
        fault=tuple(faults),
        random=random_faults if random_faults is not None else RandomFaults(),
        duration=milliseconds(length),
        drain=milliseconds(drain),
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
