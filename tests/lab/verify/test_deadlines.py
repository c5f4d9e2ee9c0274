"""Deadlines and bounds of long runs are proved from certificates and times, without a search; what is late is found."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from plainchant.lab.properties import verify as by_reference
from plainchant.lab.verify import check as checking
from plainchant.lab.verify import job as module
from plainchant.lab.verify import verify
from plainchant.lab.verify.check import check
from plainchant.trace.validation import validate

from ..agreement import check_in_pieces, differences
from ..layouts import ORDER
from ..random_traces import Event, RandomRun, table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NAMES = ["deadline", "bounded"]
PERIOD = 1_000
PROCESSES = ("p1", "p2", "p3", "p4")


def ring_run(rounds: int, *, clocked: bool = True, late: bool = False, slow: bool = False) -> pa.Table:
    """Four processes take turns; each sends in its turn, some messages with deadlines, some without. One crashes in the middle,
    with a message to it under way, and the others install a view without it.

    ``late``: a delivery misses its deadline; ``slow``: a turn comes after its bound."""
    random = Random("a ring")
    histories: dict[str, list[Event]] = {name: [] for name in PROCESSES}
    skew = {name: 100_000 * number for number, name in enumerate(PROCESSES)}
    members = list(PROCESSES)
    taken = dict.fromkeys(PROCESSES, 0)

    def write(process: str, at: int, kind: str, **more: Any) -> None:
        event: Event = {"kind": kind, "time": at + skew[process], **more}
        if clocked:
            event["true_time"] = at
        histories[process].append(event)

    bounds = {"rotation": PERIOD, "detection": 2 * PERIOD, "deliver": 3 * PERIOD}
    detail = json.dumps({"promises": ["deadline", "bounded"], "bounds": bounds})
    for process in members:
        write(process, 0, "start", detail=detail)
        write(process, 0, "view", group="g", view=1, members=list(members))
    for number in range(rounds):
        for turn, process in enumerate(PROCESSES):
            if process not in members:
                continue
            now = number * PERIOD + 1 + 200 * turn
            if number == rounds // 2 and process == "p2":
                write("p3", now + 30, "crash")
                members.remove("p3")
            write(process, now + (5 if slow and number == rounds - 2 and process == "p2" else 0), "token", group="g")
            taken[process] += 1
            due = {"deadline": now + skew[process] + random.choice((60, 600))} if random.random() < 0.5 else {}
            about = {"group": "g", "sender": process, "seq": taken[process]}
            write(process, now, "send", **about, **due)
            quickly = 50 if due and due["deadline"] - now - skew[process] == 60 else 150
            for q in members:
                at = now + random.randint(1, quickly)
                delayed = late and number == rounds - 2 and q == "p4" and process == "p1"
                own = {"deadline": at + skew[q] + 9} if random.random() < 0.1 else {}
                own = {"deadline": at + skew[q] - 1} if delayed else own
                write(q, at, "deliver", **about, **own, **({"sent": now} if clocked else {}))
        if number == rounds // 2:
            for process in members:
                write(process, (number + 1) * PERIOD, "view", group="g", view=2, members=list(members))
    for process in members:
        write(process, rounds * PERIOD + 1, "end", detail='{"drained": true}')
    for events in histories.values():
        events.sort(key=lambda event: event["time"])
    return table([RandomRun("ring", histories, [])])


@pytest.fixture(scope="module", params=[True, False], ids=["global clock", "own clocks"])
def ring(request: pytest.FixtureRequest) -> pa.Table:
    made = ring_run(120, clocked=request.param)
    assert validate(made) == []
    return made


def forbid_search(monkeypatch: pytest.MonkeyPatch) -> None:
    def search(*arguments: object) -> None:
        raise AssertionError("this run was to be proved, not searched")

    monkeypatch.setattr(checking, "check_run", search)
    monkeypatch.setattr(module, "_search", search)


@pytest.mark.parametrize("rows", [97, 1_000_000])
def test_a_ring_that_keeps_its_deadlines_is_proved(monkeypatch: pytest.MonkeyPatch, rows: int) -> None:
    made = ring_run(120)
    reference = by_reference(made)
    assert reference.ok
    assert all(reference.properties[name].cases > 400 for name in NAMES)
    forbid_search(monkeypatch)
    assert differences(check_in_pieces(made.sort_by(ORDER), rows, None).to_json(), reference.to_json()) == []


def test_by_their_own_clocks_processes_that_are_ahead_are_late(ring: pa.Table) -> None:
    """Without a global clock the sender's deadline is taken as it is: those whose clocks are ahead miss it."""
    reference = by_reference(ring, ["deadline"])
    assert reference.ok == ("true_time" in ring.column_names and ring.column("true_time").null_count == 0)
    assert differences(check(ring, ["deadline"]).to_json(), reference.to_json()) == []


@pytest.mark.parametrize("fault", ["late", "slow"])
def test_what_is_late_is_searched_and_found(fault: str) -> None:
    made = ring_run(40, **{fault: True})
    reference = by_reference(made)
    assert {violation.property for violation in reference.violations} == {"deadline" if fault == "late" else "bounded"}
    for rows in (97, 1_000_000):
        assert differences(check_in_pieces(made.sort_by(ORDER), rows, None).to_json(), reference.to_json()) == []


def test_spark_proves_a_run_that_no_task_has(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = ring_run(120)
    pq.write_table(made.sort_by(ORDER), tmp_path / "t.parquet", row_group_size=150)
    forbid_search(monkeypatch)
    found = verify(spark, [str(tmp_path)], chunk_rows=300, least_rows=1)
    assert differences(found.to_json(), by_reference(made).to_json()) == []


def test_spark_proves_what_it_has_to_sort(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = ring_run(60)
    places = list(range(made.num_rows))
    Random("scattered").shuffle(places)
    pq.write_table(made.take(places), tmp_path / "t.parquet", row_group_size=150)
    forbid_search(monkeypatch)
    found = verify(spark, [str(tmp_path)], chunk_rows=300, least_rows=1, large_rows=0)
    assert differences(found.to_json(), by_reference(made).to_json()) == []


def test_spark_finds_what_is_late(spark: SparkSession, tmp_path: Path) -> None:
    made = ring_run(40, late=True)
    pq.write_table(made.sort_by(ORDER), tmp_path / "t.parquet", row_group_size=150)
    found = verify(spark, [str(tmp_path)], chunk_rows=300, least_rows=1)
    assert found.verdict == "violated"
    assert differences(found.to_json(), by_reference(made).to_json()) == []
