"""Proof that verification can fail, and that it does not cry wolf: the catalogue, by every way there is to verify.

- by the reference: each case is what it says it is;
- by the check that tasks use (``lab.verify.check``): each case, and all of them packed into one table;
- by Spark: all of them as one trace of many runs, in every layout.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from plainchant.lab.properties import PROPERTIES, verify
from plainchant.lab.verify import verify_here
from plainchant.lab.verify.check import check
from plainchant.trace.properties import BLOCK_PROPERTIES
from plainchant.trace.validation import validate

from ..agreement import check_in_pieces, differences
from ..catalogue import CATALOGUE, SITUATIONS, Case, packed, situations
from ..layouts import LAYOUTS, ORDER, written

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

every_case = pytest.mark.parametrize("case", CATALOGUE, ids=[case.name for case in CATALOGUE])
EVERYTHING = list(PROPERTIES)
OF_PROTOCOLS = [name for name in PROPERTIES if name not in BLOCK_PROPERTIES]
"""Those of building blocks have cases of their own: ``test_blocks``."""


# --- the catalogue itself, by the reference ---------------------------------------------------------------------------


@every_case
def test_the_reference_finds_what_the_case_is_about(case: Case) -> None:
    table = case.table()
    assert validate(table) == []
    found = verify(table, [case.property])
    assert found.properties[case.property].verdict == case.expected, [violation.sentence for violation in found.violations]
    if case.culprit is not None:
        assert any(case.culprit in violation.processes for violation in found.violations)


@pytest.mark.parametrize("name", OF_PROTOCOLS)
def test_a_property_is_broken_passed_and_left_alone_in_enough_ways(name: str) -> None:
    counts = Counter(case.expected for case in CATALOGUE if case.property == name)
    assert counts["violated"] >= 3
    assert counts["holds"] >= 2
    assert counts["nothing to check"] >= 1


@pytest.mark.parametrize("name", OF_PROTOCOLS)
def test_a_property_is_broken_in_every_situation(name: str) -> None:
    broken = [case for case in CATALOGUE if case.property == name and case.expected == "violated"]
    seen = {situation for case in broken for situation in situations(case)}
    assert seen == set(SITUATIONS)


def test_correct_cases_have_every_situation_too() -> None:
    seen = Counter(s for case in CATALOGUE if case.expected == "holds" for s in situations(case))
    assert set(seen) == set(SITUATIONS)
    assert min(seen.values()) >= 3


def test_names_of_cases_tell_them_apart() -> None:
    assert len({case.name for case in CATALOGUE}) == len(CATALOGUE)
    assert all(case.name.startswith(f"{case.property}: ") for case in CATALOGUE)


# --- the check of tasks -----------------------------------------------------------------------------------------------


@every_case
def test_the_check_of_tasks_finds_it_and_says_the_same_about_every_other_property(case: Case) -> None:
    table = case.table()
    found = check(table, EVERYTHING)
    assert found.properties[case.property].verdict == case.expected
    assert differences(found.to_json(), verify(table, EVERYTHING).to_json()) == []


@pytest.mark.parametrize("promised", [True, False], ids=["promised", "asked"])
def test_the_check_of_tasks_takes_many_runs_at_once(promised: bool) -> None:
    table = packed(promised=promised)
    properties = None if promised else EVERYTHING
    ours, reference = check(table, properties), verify(table, properties)
    assert differences(ours.to_json(), reference.to_json()) == []
    assert sorted(ours.warnings) == sorted(reference.warnings)


@pytest.mark.parametrize("rows", [3, 7, 40])
def test_runs_that_are_torn_into_pieces_are_put_together_again(rows: int) -> None:
    table = packed(promised=True).sort_by(ORDER)
    assert differences(check_in_pieces(table, rows, None).to_json(), verify(table).to_json()) == []


# --- in one process, from files -----------------------------------------------------------------------------------


@every_case
def test_without_spark_it_is_found_in_a_file(case: Case, tmp_path: Path) -> None:
    table = case.table()
    found = verify_here([written("ordered", table, tmp_path)], EVERYTHING)
    assert found.properties[case.property].verdict == case.expected
    assert differences(found.to_json(), verify(table, EVERYTHING).to_json()) == []


# --- Spark ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("layout", LAYOUTS)
def test_spark_finds_them_all_in_any_layout(layout: str, spark: SparkSession, tmp_path: Path) -> None:
    from plainchant.lab.verify import verify as verify_on_spark

    # Row groups are what costs: of the smallest ones a fifth of the cases is enough.
    table = packed(promised=True, every=5 if layout == "small_row_groups" else 1)
    path = written(layout, table, tmp_path)
    found = verify_on_spark(spark, [path])
    assert differences(found.to_json(), verify(table).to_json()) == []
    assert verify_here([path]) == found, "both engines, in every word"


@pytest.mark.parametrize("layout", ["ordered", "shuffled"])
def test_spark_asked_for_every_property_says_what_the_reference_says(layout: str, spark: SparkSession, tmp_path: Path) -> None:
    from plainchant.lab.verify import verify as verify_on_spark

    table = packed(promised=False)
    path = written(layout, table, tmp_path)
    found = verify_on_spark(spark, [path], EVERYTHING)
    assert differences(found.to_json(), verify(table, EVERYTHING).to_json()) == []
    assert verify_here([path], EVERYTHING) == found, "both engines, in every word"


def test_spark_reads_several_paths_whose_runs_have_the_same_names(spark: SparkSession, tmp_path: Path) -> None:
    from plainchant.lab.verify import verify as verify_on_spark

    table = packed(promised=True)
    paths = [written(layout, table, tmp_path) for layout in ("ordered", "file_a_process")]
    once, twice = verify(table).to_json(), verify_on_spark(spark, paths).to_json()
    assert {name: [2 * count for count in outcome.values()] for name, outcome in once["properties"].items()} == {
        name: list(outcome.values()) for name, outcome in twice["properties"].items()
    }
