"""The functions of the lazy plan one after the other, without Spark: verdicts, cases and violations are those of the reference,
whatever the size of units, the order of rows and the size from which doubts are narrowed down."""

from __future__ import annotations

import dataclasses
import pickle
from collections import Counter
from collections.abc import Sequence
from random import Random

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from plainchant.lab.properties import PROPERTIES, Verification, verify
from plainchant.lab.properties.certificates.records import Slice
from plainchant.lab.properties.certificates.unit import Unit
from plainchant.lab.properties.facts import COLUMNS
from plainchant.lab.verify import check as checking
from plainchant.lab.verify import frame
from plainchant.lab.verify.check import Found
from plainchant.lab.verify.results import RESULTS, TOLD, Options, Sum, verification_of
from tests.trace.build import trace

from ..agreement import differences
from ..catalogue import CATALOGUE, packed
from ..layouts import ORDER
from ..mutations import CAUGHT, mutated
from ..random_traces import random_run, table
from ..verify.test_deadlines import ring_run

SOME = 24
"""Random runs."""
LEFT_OUT = frozenset({"fifo: a cut sender's rows still count"})
"""Narrowing, not the plan, loses the violation of this case (``check_narrowed`` does too)."""


def by_plan(
    rows: pa.Table, options: Options, *, least: int | None = None, seen: Counter[str] | None = None, leave_out: str = ""
) -> Verification:
    """What the stages come to; ``seen`` counts which of them had something to do. ``leave_out``: a stage that does nothing."""
    seen = Counter() if seen is None else seen
    rows = rows.select(list(COLUMNS))
    batches = rows.to_batches(max_chunksize=least or rows.num_rows)
    first = _table(frame.settle(options, frame.certify(iter(batches)), sort_later=True))
    unsorted = first.filter(pc.equal(first["kind"], "unsorted"))["run"].to_pylist()
    seen["unsorted"] += len(unsorted)
    found = [first]
    if unsorted and leave_out != "sorting":
        again = rows.filter(pc.is_in(rows["run"], pa.array(unsorted))).sort_by(ORDER).to_batches(max_chunksize=least)
        found.append(_table(frame.settle(options, frame.certify(iter(again)))))
    total = Sum()
    for part in found:
        total.add_rows(part.filter(pc.is_in(part["kind"], pa.array(TOLD))))
        for packed_run in part.filter(pc.equal(part["kind"], "open"))["value"].to_pylist():
            run: Found = pickle.loads(packed_run)
            chosen = _chosen(rows, run)
            seen["narrowed" if chosen.num_rows < run.rows else "searched"] += 1
            if leave_out != "searching":
                total.add(frame.decided(run, chosen, options))
    return verification_of(total, options)


def _table(batches: object) -> pa.Table:
    return pa.Table.from_batches(batches, RESULTS)


def _chosen(rows: pa.Table, found: Found) -> pa.Table:
    """The semi-join of the plan, in no order."""
    marks = pc.and_(pc.equal(rows["run"], found.run), False)
    for wanted in frame.wanted_of(found):
        mine = pc.equal(rows["run"], found.run)
        if wanted.get("wanted_sender") is not None:
            near = pc.and_(pc.greater_equal(rows["seq"], wanted["low"]), pc.less_equal(rows["seq"], wanted["high"]))
            mine = pc.and_(mine, pc.fill_null(pc.and_(pc.equal(rows["sender"], wanted["wanted_sender"]), near), False))
        marks = pc.or_(marks, mine)
    return shuffled(rows.filter(marks))


def shuffled(rows: pa.Table) -> pa.Table:
    places = list(range(rows.num_rows))
    Random("shuffled").shuffle(places)
    return rows.take(pa.array(places, pa.int64()))


def spoilt(runs: int) -> pa.Table:
    """Random runs, and most of them again with one mutation."""
    made = [random_run(seed) for seed in range(runs)]
    also = [mutated(Random(run.name), run, f"m/{run.name}", CAUGHT[n % len(CAUGHT)]) for n, run in enumerate(made)]
    return table([*made, *(run for run in also if run is not None)])


@pytest.fixture(params=["catalogue", "random"])
def rows(request: pytest.FixtureRequest) -> pa.Table:
    if request.param == "random":
        return spoilt(SOME)
    cases = packed(promised=True, every=3)
    left_out = [f"c{n:03d}" for n, case in enumerate(CATALOGUE) if case.name in LEFT_OUT]
    return cases.filter(pc.invert(pc.is_in(cases["run"], pa.array(left_out))))


@pytest.mark.parametrize(
    ("large_rows", "unit_rows", "order", "asked"),
    [(10**9, 10**6, "sorted", True), (0, 40, "sorted", False), (0, 400, "shuffled", False), (10**9, 400, "shuffled", True)],
)
def test_the_stages_agree_with_the_reference(
    rows: pa.Table, large_rows: int, unit_rows: int, order: str, asked: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(frame, "UNIT_ROWS", unit_rows)
    properties = tuple(PROPERTIES) if asked else None
    reference = verify(rows, properties)
    assert reference.verdict == "violated"
    ordered = rows.sort_by(ORDER) if order == "sorted" else shuffled(rows)
    seen: Counter[str] = Counter()
    found = by_plan(ordered, Options(properties, 20, large_rows), least=unit_rows, seen=seen)
    assert differences(found.to_json(), reference.to_json()) == []
    assert bool(seen["unsorted"]) == (order == "shuffled" and large_rows == 0)
    assert seen["searched"]


def test_a_stage_that_is_left_out_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frame, "UNIT_ROWS", 400)
    rows = spoilt(12)
    reference = verify(rows).to_json()
    for stage in ("sorting", "searching"):
        found = by_plan(shuffled(rows), Options(None, 20, 0), least=400, leave_out=stage)
        assert differences(found.to_json(), reference)


def swapped(messages: int) -> pa.Table:
    """A run in which one process delivers two messages in the wrong order."""
    sends = " | ".join(["send digest=7"] * messages)
    order = [*range(1, messages + 1)]
    order[40], order[41] = order[41], order[40]
    right, wrong = (" | ".join(f"deliver p {n} digest=7" for n in those) for those in (range(1, messages + 1), order))
    return trace({"p": f"view 1 p,q | {sends} | {right} | end", "q": f"view 1 p,q | {wrong} | end"}, promises=["fifo", "total"])


def test_of_a_large_run_only_rows_about_doubtful_messages_are_wanted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frame, "UNIT_ROWS", 300)
    rows = swapped(1_000)
    seen: Counter[str] = Counter()
    found = by_plan(rows, Options(None, 20, 0), least=300, seen=seen)
    assert found.to_json() == verify(rows).to_json()
    assert seen == Counter(narrowed=1, unsorted=0)


def test_neighbouring_ranges_are_put_together_where_there_are_many() -> None:
    slices = [frame.compact(unit_slice) for unit_slice in _slices(swapped(1_000))]
    found = frame.settled_run("r0", slices, Options(None, 20, 0))
    assert found.narrowed is not None
    many = tuple((n, n) for n in range(1, 2_000, 10))
    found.narrowed = dataclasses.replace(found.narrowed, messages={("g", "p"): many})
    wanted = frame.wanted_of(found)
    assert 1 < len(wanted) <= 64
    assert all(any(one["low"] <= n <= one["high"] for one in wanted) for n in range(1, 2_000, 10))


def _slices(rows: pa.Table) -> Sequence[Slice]:
    return [Unit(rows.slice(first, 300)).slice(0, alone=True) for first in range(0, rows.num_rows, 300)]


def test_deadlines_of_a_run_that_had_to_be_sorted_are_proved(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frame, "UNIT_ROWS", 150)
    monkeypatch.setattr(checking, "check_run", None)  # the exact search
    rows = ring_run(60)
    seen: Counter[str] = Counter()
    found = by_plan(shuffled(rows), Options(None, 20, 0), least=150, seen=seen)
    assert differences(found.to_json(), verify(rows).to_json()) == []
    assert found.properties["deadline"].cases
    assert seen["unsorted"]
