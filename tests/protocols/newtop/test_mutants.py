"""Each rule is needed: without it the sweep, or a scenario made for it, finds a violation. (The table: see ``mutants``.)

That the protocol itself has none there is what the sweep shows, among whose seeds are those of the table, and the tests of the
scenarios below.
"""

from __future__ import annotations

import pytest

from plainchant.protocols.newtop import Process

from . import scripted, sweep
from .mutants import MUTANTS, SEARCHED, catch, table

CAUGHT = {name: row for name, row in table().items() if "survives" not in row}
SURVIVORS = {name: row for name, row in table().items() if "survives" in row}


def test_the_table_names_every_mutant_and_no_other() -> None:
    assert sorted(table()) == sorted(MUTANTS)


def test_mutants_are_caught_within_the_ordinary_seeds_or_by_a_scenario_that_exists() -> None:
    made = {*scripted.SCENARIOS, *scripted.COURSES}
    for row in CAUGHT.values():
        assert row["scenario"] in made if "scenario" in row else 0 <= row["seed"] < SEARCHED


def test_the_few_that_survive_say_why() -> None:
    assert all(len(row["survives"]) > 40 for row in SURVIVORS.values())
    assert len(SURVIVORS) <= 2


@pytest.mark.sweep
@pytest.mark.parametrize("name", CAUGHT)
def test_the_mutant_is_caught(name: str) -> None:
    assert CAUGHT[name]["property"] in catch(MUTANTS[name], CAUGHT[name])  # an exception would be no catch: it fails this test


@pytest.mark.parametrize("name", scripted.SCENARIOS)
def test_the_protocol_comes_through_every_scripted_scenario(name: str) -> None:
    assert not sweep.run(0, scenario=scripted.SCENARIOS[name], least_events=0).violated


@pytest.mark.parametrize("name", scripted.COURSES)
def test_the_protocol_comes_through_every_course_of_events(name: str) -> None:
    assert not scripted.COURSES[name](Process)
