"""Each rule is needed: without it the sweep, or a scenario made for it, finds a violation. (The table: ``mutants``.)

That the protocol itself has none there is shown by the sweep, which also runs the seeds of the table, and by the test of the
scenarios below.
"""

from __future__ import annotations

import pytest

from plainchant_papers.dedos.variants import RULES

from . import scripted, sweep
from .mutants import MUTANTS

ERRATA = range(1, 16)
"""The errata of the pseudo-code that change what it does, by their numbers in ``docs/errata.md``."""
WITHOUT_MUTANT = {7}
"""What is only undefined there: arrays that hold two kinds of values, a name that is set nowhere."""


def test_the_table_says_of_every_mutant_what_catches_it_or_why_it_survives() -> None:
    MUTANTS.check_table(also=sweep.REGRESSIONS, scenario=scripted.SCENARIOS)


def test_every_rule_that_has_a_name_is_taken_out() -> None:
    taken = [mutant.replacements for mutant in MUTANTS.variants.values()]
    assert all(rule.replacements in taken for rule in RULES.values())


def test_every_erratum_has_a_mutant_that_is_caught() -> None:
    for number in ERRATA:
        named = [name for name in MUTANTS.caught if name.startswith(f"erratum {number}:")]
        assert bool(named) != (number in WITHOUT_MUTANT), number


@pytest.mark.sweep
@pytest.mark.parametrize("name", MUTANTS.caught)
def test_the_mutant_is_caught(name: str) -> None:
    assert MUTANTS.caught[name]["property"] in MUTANTS.catch(name)  # an exception would be no catch: it fails this test


@pytest.mark.parametrize("name", scripted.SCENARIOS)
def test_the_protocol_comes_through_every_scripted_scenario(name: str) -> None:
    assert not MUTANTS.survive({"scenario": name})
