"""Each rule is needed: without it the sweep, or a scenario made for it, finds a violation. (The table: ``mutants``.)

That the protocol itself has none there is shown by the sweep, which also runs the seeds of the table, and by the test of the
scenarios below.
"""

from __future__ import annotations

import pytest

from plainchant.protocols.mailbox.variants import VARIANTS

from . import alive, scripted
from .mutants import MUTANTS


def test_the_table_says_of_every_mutant_what_catches_it_or_why_it_survives() -> None:
    MUTANTS.check_table(also=range(alive.FIRST_SEED, alive.FIRST_SEED + 5 * alive.SEEDS), scenario=scripted.SCENARIOS)


def test_every_rule_that_has_a_name_is_taken_out() -> None:
    taken = [mutant.replacements for mutant in MUTANTS.variants.values()]
    assert all(rule.replacements in taken for rule in VARIANTS.values())


@pytest.mark.sweep
@pytest.mark.parametrize("name", MUTANTS.caught)
def test_the_mutant_is_caught(name: str) -> None:
    assert MUTANTS.caught[name]["property"] in MUTANTS.catch(name)  # an exception would be no catch: it fails this test


@pytest.mark.parametrize("name", scripted.SCENARIOS)
def test_the_protocol_comes_through_every_scripted_scenario(name: str) -> None:
    assert not MUTANTS.survive({"scenario": name})
