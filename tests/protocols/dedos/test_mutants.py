"""Each rule is needed: without it the sweep, or a scenario made for it, finds a violation. (The table: ``mutants``.)

That the protocol itself has none there is what the sweep shows, among whose seeds are those of the table, and the test of the
scenarios below.
"""

from __future__ import annotations

import dataclasses

import pytest

from plainchant.protocols.dedos.rules import RULES, Rules

from .. import sweeping
from . import scripted, sweep
from .mutants import MUTANTS, SEARCHED, catch, table

CAUGHT = {name: row for name, row in table().items() if "survives" not in row}
SURVIVORS = {name: row for name, row in table().items() if "survives" in row}
ERRATA = range(1, 16)
"""The errata of the pseudo-code that change what it does, by their numbers in ``docs/errata.md``."""
WITHOUT_MUTANT = {7}
"""What is only undefined there: arrays that hold two kinds of values, a name that is set nowhere."""


def test_the_table_names_every_mutant_and_no_other() -> None:
    assert sorted(table()) == sorted(MUTANTS)


def test_every_rule_that_has_a_name_is_taken_away() -> None:
    taken = [mutant.rules for mutant in MUTANTS.values() if mutant.rules != RULES]
    for field in dataclasses.fields(Rules):
        assert any(getattr(rules, field.name) != getattr(RULES, field.name) for rules in taken), field.name


def test_every_erratum_has_a_mutant_that_is_caught() -> None:
    for number in ERRATA:
        named = [name for name in CAUGHT if name.startswith(f"erratum {number}:")]
        assert bool(named) != (number in WITHOUT_MUTANT), number


def test_every_rule_that_a_mutant_replaces_is_one_of_the_protocol() -> None:
    sweeping.check_patches({name: mutant.patches for name, mutant in MUTANTS.items()})


def test_mutants_are_caught_within_the_seeds_that_are_searched_by_regressions_or_by_what_exists() -> None:
    searched = {name: row for name, row in CAUGHT.items() if row.get("seed") not in sweep.REGRESSIONS}
    sweeping.check_catches(searched, SEARCHED, scenario=scripted.SCENARIOS)


def test_the_few_that_survive_say_why() -> None:
    assert all(len(row["survives"]) > 40 for row in SURVIVORS.values())


@pytest.mark.sweep
@pytest.mark.parametrize("name", CAUGHT)
def test_the_mutant_is_caught(name: str) -> None:
    assert CAUGHT[name]["property"] in catch(name, CAUGHT[name])  # an exception would be no catch: it fails this test


@pytest.mark.parametrize("name", scripted.SCENARIOS)
def test_the_protocol_comes_through_every_scripted_scenario(name: str) -> None:
    assert not catch(None, {"scenario": name})
