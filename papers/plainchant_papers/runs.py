"""Scenarios of reproductions, and what their traces say: what all papers share. Times are in ms."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any, Final, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from plainchant.core.model import MS, Duration, GroupId, ProcessId
from plainchant.lab.properties import verify
from plainchant.scenario.model import Delay, Fault, Memory, Network, Scenario, Workload
from plainchant.sim import Summary

ONE_MILLISECOND: Final = Network(delay=Delay("constant", Duration(1 * MS)))

Given: TypeAlias = dict[str, Any]  # Keyword arguments of scenarios.
Views: TypeAlias = dict[tuple[ProcessId, GroupId], list[tuple[int, int, tuple[ProcessId, ...]]]]
"""By process and group: the views that it installed, as (when, number, members)."""


def names(count: int) -> tuple[str, ...]:
    """``p1``, ``p2``, ..."""
    return tuple(f"p{number + 1}" for number in range(count))


def milliseconds(value: float) -> Duration:
    return Duration(round(value * MS))


def fault(kind: str, at: float, *, length: float = 0, **settings: Any) -> Fault:
    """A fault that begins at a time and lasts for a time."""
    return Fault(kind=kind, at=milliseconds(at), length=milliseconds(length), **settings)


_FIELDS: Final = {"faults": "fault", "random_faults": "random", "seed": "seed", "groups": "groups", "network": "network"}


def scenario(protocol: str, members: Sequence[str], *workload: Workload, length: float, drain: float, **given: Any) -> Scenario:
    """A scenario of this length, which may take up to ``drain`` to get quiet after that; 0: it is not drained.

    ``given`` are fields of the scenario (seed, groups, later, network, memory, clock, faults, random_faults) and parameters of
    its protocol, by name.
    """
    fields: dict[str, Any] = {"network": ONE_MILLISECOND}
    fields |= {field: given.pop(name) for name, field in _FIELDS.items() if name in given}
    fields |= {name: tuple(given.pop(name, ())) for name in ("later", "clock")}
    fields |= {"fault": tuple(fields.get("fault", ())), "memory": Memory(**given.pop("memory", {}))}
    fields |= {"duration": milliseconds(length), "drain": milliseconds(drain), "parameters": given, "workload": workload}
    return Scenario(protocol=protocol, name="reproduce", members=tuple(members), **fields)


# What runs and traces say
def came_to_rest(summary: Summary) -> bool:
    """Whether a run got quiet, or was not asked to."""
    return summary.quiet or not summary.drained


def violations(table: pa.Table, properties: Sequence[str]) -> int:
    """How often a trace violates these properties, all together."""
    return sum(outcome.violations for outcome in verify(table, properties).properties.values())


def violated(table: pa.Table, properties: Sequence[str] | None = None) -> tuple[str, ...]:
    """The properties, of these or of all, that a trace violates."""
    outcomes = verify(table, properties).properties
    return tuple(name for name, outcome in outcomes.items() if outcome.violations)


def rows_of(table: pa.Table, kind: str, process: str | None = None) -> Iterator[dict[str, Any]]:
    """The rows of a kind, of one process or of all, each with its detail as a mapping."""
    chosen = pc.equal(table["kind"], kind)
    if process is not None:
        chosen = pc.and_(chosen, pc.equal(table["process"], process))
    for row in table.filter(chosen).to_pylist():
        row["detail"] = json.loads(row["detail"]) if row["detail"] else {}
        yield row


def views_of(table: pa.Table) -> Views:
    views: Views = {}
    for row in rows_of(table, "view"):
        installed = (row["true_time"], row["view"], tuple(row["members"]))
        views.setdefault((row["process"], row["group"]), []).append(installed)
    return views
