"""Every property's hand-written traces, as one catalogue: those of ``tests/lab/properties`` and what they leave out.

A case is the smallest trace that shows one way of breaking a property, or a correct one that looks like it, or one in
which the property has nothing to look at. The catalogue is run in three ways: each case through the reference verifier,
each through the check that tasks use, and all together, as one trace of many runs, through Spark.

``situations`` reads off a case what happens in it, so that a test can demand that for every property the whole range is
there: overlapping groups, joins, leaves, crashes, and so on.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import pyarrow as pa

from plainchant.core.names import is_place
from tests.trace.build import trace

from . import cases_delivery, cases_order, cases_views
from .properties import test_audit, test_delivery, test_halts, test_order, test_partitions, test_progress, test_timing, test_views

Expected = Literal["violated", "holds", "nothing to check"]

SITUATIONS = (
    *("overlapping groups", "join", "leave", "crash", "cut history", "partition", "readmission", "merge", "incarnations"),
    "process that only sends",
)


@dataclass(frozen=True)
class Case:
    """A trace with a name, the property it is about, and what that property must say; ``culprit`` is whom it must blame."""

    name: str
    property: str
    histories: Mapping[str, str]
    expected: Expected
    culprit: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict)

    def table(self, run: str = "r0", **options: Any) -> pa.Table:
        """Its trace; what the ``start`` rows promise may be added."""
        return trace(self.histories, run=run, **{**self.options, **options})


def _catalogue() -> Iterator[Case]:
    for module in (test_delivery, test_order, test_views, test_audit, test_partitions):
        yield from (Case(name, about, histories, "violated", culprit) for name, about, histories, culprit in module.BAD)
        yield from (Case(name, about, histories, "holds") for name, about, histories in module.GOOD)
    for module in (cases_delivery, cases_order, cases_views):
        yield from (Case(name, about, histories, "violated", culprit) for name, about, histories, culprit in module.BAD)
        yield from (Case(name, about, histories, "holds") for name, about, histories in module.GOOD)
        yield from (Case(name, about, histories, "nothing to check") for name, about, histories in module.NOTHING)
    yield from _timed()
    for about, module in (("progress", test_progress), ("progress: halts", test_halts)):
        for name, options, histories, culprit in module.BAD:
            yield Case(f"{about}: {name}", "progress", histories, "violated", culprit, options)
        for name, options, histories in module.GOOD:
            yield Case(f"{about}: {name}", "progress", histories, "holds", options=options)
        for name, options, histories in module.NOTHING:
            yield Case(f"{about}: {name}", "progress", histories, "nothing to check", options=options)
    halves = {"a": "view 1 a,b | view 2 a | end", "b": "view 1 a,b | view 3 b | end"}
    yield Case("convergence: not drained", "convergence", halves, "nothing to check", options={"drained": False})


def _timed() -> Iterator[Case]:
    """Deadlines and bounds, which are written down in another shape."""
    timing = test_timing
    for name, histories, culprit in timing.BAD:
        yield Case(f"deadline: {name}", "deadline", histories, "violated", culprit)
    for name, histories in timing.GOOD:
        yield Case(f"deadline: {name}", "deadline", histories, "holds")
    slow: Sequence[tuple[str, dict[str, int], str]] = (
        ("a send takes too long", {"send": 50}, "a"),
        ("a delivery takes too long", {"deliver": 80}, "b"),
        ("each kind has its bound", {"delivery": 80, "send": 51}, "b"),
        ("a single bound is for both", {"round": 80}, "b"),
    )
    for name, bounds, culprit in slow:
        yield Case(f"bounded: {name}", "bounded", timing.SLOW, "violated", culprit, {"bounds": bounds})
    for name, bounds in (("exactly at its bound", {"send": 51, "deliver": 81}), ("another's bound", {"deliver": 81, "view": 1})):
        yield Case(f"bounded: {name}", "bounded", timing.SLOW, "holds", options={"bounds": bounds})
    for name, bounds, histories, culprit in timing.BOUNDED:
        yield Case(f"bounded: {name}", "bounded", histories, "violated", culprit, {"bounds": bounds})
    for name, bounds, histories in timing.BOUNDED_GOOD:
        yield Case(f"bounded: {name}", "bounded", histories, "holds", options={"bounds": bounds})
    for name, bounds, histories in timing.BOUNDED_NOTHING:
        yield Case(f"bounded: {name}", "bounded", histories, "nothing to check", options={"bounds": bounds})
    for name, bounds, histories, culprit in cases_delivery.BOUNDED:
        yield Case(name, "bounded", histories, "violated", culprit, {"bounds": bounds})
    for name, bounds, histories in cases_delivery.BOUNDED_GOOD:
        yield Case(name, "bounded", histories, "holds", options={"bounds": bounds})


CATALOGUE: tuple[Case, ...] = tuple(_catalogue())


def packed(*, promised: bool, every: int = 1) -> pa.Table:
    """All cases, or every so many-th, as the runs of one trace; if ``promised``, each run promises what its case is about."""
    tables = [
        case.table(run=f"c{number:03d}", **({"promises": [case.property]} if promised else {}))
        for number, case in enumerate(CATALOGUE)
        if number % every == 0
    ]
    return pa.concat_tables(tables)


def situations(case: Case) -> set[str]:
    """What happens in a case, read off its trace."""
    rows = case.table().to_pylist()
    kinds = {row["kind"] for row in rows}
    found = {name for name in ("join", "leave", "crash") if name in kinds}
    if any(not is_place(name) for name in case.histories):
        found.add("incarnations")
    viewed = {row["group"] for row in rows if row["kind"] == "view"}
    for name in case.histories:
        own = [row for row in rows if row["process"] == name]
        if len({row["group"] for row in own if row["group"]}) > 1:
            found.add("overlapping groups")
        if own[-1]["kind"] not in ("end", "crash", "leave"):
            found.add("cut history")
        takes_part = {row["group"] for row in own if row["kind"] in ("join", "view")}
        if any(row["kind"] == "send" and row["group"] in viewed - takes_part for row in own):
            found.add("process that only sends")
        lefts = [row["index"] for row in own if row["kind"] == "leave"]
        if any(row["kind"] in ("join", "view") and row["index"] > left for row in own for left in lefts[:1]):
            found.add("readmission")
    return found | _partitions(rows)


def _partitions(rows: Sequence[Mapping[str, Any]]) -> set[str]:
    """Whether two processes go on in views without each other, and whether such views are followed by a common one."""
    views: dict[tuple[str, str], list[frozenset[str]]] = {}
    for row in rows:
        if row["kind"] == "view":
            views.setdefault((row["group"], row["process"]), []).append(frozenset(row["members"]))
    found = set()
    for (group, p), mine in views.items():
        for (other_group, q), theirs in views.items():
            apart = [at for at, members in enumerate(mine) if q not in members]
            if group != other_group or p >= q or not apart or all(p in members for members in theirs):
                continue
            found.add("partition")
            if any(q in members for members in mine[apart[0] :]):
                found.add("merge")
    return found
