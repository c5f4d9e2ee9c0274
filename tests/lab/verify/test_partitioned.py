"""Runs that partition and merge are proved, not searched: sweeps of a partitionable protocol consist of little else."""

from __future__ import annotations

import pyarrow as pa
import pytest

from plainchant.lab.properties import verify
from plainchant.lab.properties.certificates.unit import Unit
from plainchant.lab.verify.check import check_each, proved
from plainchant.scenario import load
from plainchant.scenario.shipped import find
from plainchant.sim import run_scenario
from plainchant.trace import TraceBuffer

from ..agreement import differences
from ..layouts import ORDER
from ..random_traces import random_run, table

HIDDEN = frozenset({"no views", "outsider", "cut", "unobserved", "sizes"})
"""With these, certificates lack what would tell who owes what, or which messages are too large for a bound."""


@pytest.fixture(scope="module")
def merging() -> list[pa.Table]:
    """Correct runs, one a table."""
    runs = [random_run(seed) for seed in range(700)]
    chosen = [table([run]) for run in runs if "merge" in run.features and not run.features & HIDDEN]
    assert len(chosen) >= 30
    return chosen


@pytest.mark.parametrize("rows", [None, 53], ids=["whole", "torn"])
def test_a_correct_run_that_partitions_and_merges_is_proved(merging: list[pa.Table], rows: int | None) -> None:
    """Where one moment of a process is torn in two, whether a message was delivered in the same moment as its last cause is left
    to the search (``prompt``)."""
    doubtful: list[str] = []
    for whole in merging:
        ordered = whole.sort_by(ORDER)
        size = rows or whole.num_rows
        units = [Unit(ordered.slice(first, size)) for first in range(0, whole.num_rows, size)]
        (found,) = proved(units, None)
        assert not found.suspect, found.run
        doubtful += found.doubtful
    assert doubtful in ([], ["prompt"] if rows else [])


def test_a_minority_that_halts_leaves_no_doubt_about_the_order_of_the_others() -> None:
    trace = TraceBuffer()
    run_scenario(load(find("partition"), ["duration=1s"]), trace)
    (found,) = proved([Unit(trace.table())], None)
    assert found.doubtful == ()
    assert found.outcomes["identical"].cases


def test_many_small_runs_are_checked_at_once_as_one_by_one(merging: list[pa.Table]) -> None:
    for rows, found in zip(merging, check_each(merging), strict=True):
        assert differences(found.to_json(), verify(rows).to_json()) == []
    assert check_each([merging[0].slice(0, 0), merging[1]])[0].properties == {}
