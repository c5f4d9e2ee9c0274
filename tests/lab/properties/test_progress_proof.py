"""Progress from certificates: clean runs are proved without a search, whole or in pieces, with exactly the reference's cases."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from plainchant.core.model import MS, SECOND, Duration
from plainchant.lab.properties import verify
from plainchant.lab.properties.certificates.unit import Unit
from plainchant.lab.verify.check import Found, proved
from plainchant.scenario.model import Fault, Network

from ...trace.build import trace
from ..agreement import check_in_pieces, differences
from .test_progress import BAD, CHANGES, GOOD, NOTHING, run, scenario

PLANTED = [
    *(pytest.param(options, histories, id=name) for name, options, histories, _ in BAD),
    *(pytest.param(options, histories, id=name) for name, options, histories in (*GOOD, *NOTHING)),
]


def proof(table: pa.Table, rows: int | None = None) -> Found:
    """What certificates say of one run's progress, made of all rows at once or of so many at a time."""
    size = rows or table.num_rows
    units = [Unit(table.slice(first, size)) for first in range(0, table.num_rows, size)]
    return next(proved(units, ["progress"]))


def assert_proved(table: pa.Table) -> None:
    cases = verify(table, ["progress"]).properties["progress"].cases
    for rows in (None, 1_000):
        found = proof(table, rows)
        assert found.doubtful == ()
        assert (found.outcomes["progress"].cases, found.outcomes["progress"].violations) == (cases, 0)
    assert cases > 500


@pytest.mark.parametrize("rows", [1, 2, 5, 100])
@pytest.mark.parametrize(("options", "histories"), PLANTED)
def test_planted_traces_are_judged_as_by_the_reference_however_they_are_torn(
    options: dict[str, Any], histories: dict[str, str], rows: int
) -> None:
    table = trace(histories, **options)
    found = check_in_pieces(table, rows, ["progress"])
    assert differences(found.to_json(), verify(table, ["progress"]).to_json()) == []


def test_what_holds_is_proved_in_most_planted_traces() -> None:
    doubtful = [name for name, options, histories in GOOD if proof(trace(histories, **options)).doubtful]
    assert len(doubtful) <= len(GOOD) // 5, doubtful


@pytest.mark.parametrize("protocol", ["sequencer", "newtop"])
def test_a_run_with_changes_of_members_is_proved(protocol: str) -> None:
    assert_proved(run(scenario(protocol, 4, *CHANGES), within=2 * SECOND, answered=2 * SECOND))


def test_a_run_with_faults_that_excuse_is_proved() -> None:
    cut = Fault(kind="partition", at=Duration(3 * SECOND), length=Duration(2 * SECOND), parts=(("p1", "p2", "p3"), ("p4",)))
    pause = Fault(kind="pause", process="p2", at=Duration(1 * SECOND), length=Duration(300 * MS))
    noisy = scenario("sequencer", 4, pause, cut, network=Network(loss=0.05))
    assert_proved(run(noisy, within=2 * SECOND, answered=2 * SECOND))


def test_messages_that_were_handed_in_long_before_are_proved_by_their_predecessors() -> None:
    """The clock of a message starts with the delivery of the one before it, so a backlog is no standstill."""
    backlog = " | ".join(["accept time=20"] * 200)
    taken = " | ".join(f"send time={20 + 5 * n} | deliver a {n} time={25 + 5 * n}" for n in range(1, 201))
    table = trace({"a": f"view 1 a time=0 | {backlog} | {taken} | end time=2000"}, bounds={"progress": 10})
    assert proof(table).doubtful == ()
    assert proof(table, 50).doubtful == ()


def test_one_wait_too_long_in_a_long_run_leaves_the_verdict_to_the_reference() -> None:
    sends = " | ".join(f"accept time={10 * n} | send time={10 * n} | deliver a {n} time={10 * n + 5}" for n in range(1, 500))
    late = sends.replace("deliver a 300 time=3005", "deliver a 300 time=3009")
    for text, doubtful in ((sends, ()), (late, ("progress",))):
        table = trace({"a": f"view 1 a time=0 | {text} | end time=6000"}, bounds={"progress": 8})
        assert proof(table).doubtful == doubtful
        assert proof(table, 100).doubtful == doubtful
        assert verify(table, ["progress"]).ok == (not doubtful)
