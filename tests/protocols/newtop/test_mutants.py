"""Each rule is needed: without it the sweep, or a scenario made for it, finds a violation. (The table: ``mutants``.)

That the protocol itself has none there is shown by the sweep, which also runs the seeds of the table, and by the test of the
scenarios below.
"""

from __future__ import annotations

import pytest

from . import scripted
from .mutants import MUTANTS

MADE = (*scripted.SCENARIOS, *scripted.COURSES)


def test_the_table_says_of_every_mutant_what_catches_it_or_why_it_survives() -> None:
    MUTANTS.check_table(scenario=MADE)
    assert len(MUTANTS.survivors) <= 2


@pytest.mark.sweep
@pytest.mark.parametrize("name", MUTANTS.caught)
def test_the_mutant_is_caught(name: str) -> None:
    assert MUTANTS.caught[name]["property"] in MUTANTS.catch(name)  # an exception would be no catch: it fails this test


@pytest.mark.parametrize("name", MADE)
def test_the_protocol_comes_through_every_scripted_scenario_and_course(name: str) -> None:
    assert not MUTANTS.survive({"scenario": name})
