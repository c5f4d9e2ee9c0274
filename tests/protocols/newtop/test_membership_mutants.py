"""Each rule of membership is needed: without it the sweep, or a scenario made for it, finds a violation. (The table: see
``membership_mutants``.)

That the protocol itself has none there is what the sweep shows, among whose seeds are those of the table, and the test of the
scenarios below.
"""

from __future__ import annotations

import pytest

from .. import sweeping
from . import membership_mutants
from . import membership_scripted as scripted
from . import membership_sweep as sweep
from .membership_mutants import MUTANTS, SEARCHED, catch, table

CAUGHT = {name: row for name, row in table().items() if "survives" not in row}
SURVIVORS = {name: row for name, row in table().items() if "survives" in row}


def test_the_table_names_every_mutant_and_no_other() -> None:
    assert sorted(table()) == sorted(MUTANTS)


def test_every_method_of_a_mutant_is_one_of_the_protocol() -> None:
    """One that has another name by now would change nothing, and its mutant survive."""
    for variant in vars(membership_mutants).values():
        if isinstance(variant, type) and variant.__module__ == membership_mutants.__name__:
            own = [name for name in vars(variant) if not name.startswith("__")]
            assert [name for name in own if not any(hasattr(base, name) for base in variant.__bases__)] == [], variant.__name__


def test_mutants_are_caught_within_the_seeds_that_are_searched_or_by_a_scenario_that_exists() -> None:
    sweeping.check_catches(CAUGHT, SEARCHED, scenario=scripted.SCENARIOS)


def test_the_few_that_survive_say_why() -> None:
    assert all(len(row["survives"]) > 40 for row in SURVIVORS.values())


@pytest.mark.sweep
@pytest.mark.parametrize("name", CAUGHT)
def test_the_mutant_is_caught(name: str) -> None:
    assert CAUGHT[name]["property"] in catch(MUTANTS[name], CAUGHT[name])  # an exception would be no catch: it fails this test


@pytest.mark.parametrize("name", scripted.SCENARIOS)
def test_the_protocol_comes_through_every_scripted_scenario(name: str) -> None:
    assert not sweep.run(0, scenario=scripted.SCENARIOS[name]).violated
