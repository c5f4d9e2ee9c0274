"""Each rule of membership is needed: without it the sweep, or a scenario made for it, finds a violation.

The table: ``membership_mutants``.

That the protocol itself has none there is shown by the sweep, which also runs the seeds of the table, and by the test of the
scenarios below.
"""

from __future__ import annotations

import pytest

from . import alive_sweep
from . import membership_scripted as scripted
from . import membership_sweep as sweep
from .membership_mutants import MUTANTS


def test_the_table_says_of_every_mutant_what_catches_it_or_why_it_survives() -> None:
    MUTANTS.check_table(also=sweep.REGRESSIONS, scenario=scripted.SCENARIOS, alive=range(alive_sweep.SEEDS))


@pytest.mark.sweep
@pytest.mark.parametrize("name", MUTANTS.caught)
def test_the_mutant_is_caught(name: str) -> None:
    assert MUTANTS.caught[name]["property"] in MUTANTS.catch(name)  # an exception would be no catch: it fails this test


@pytest.mark.parametrize("name", scripted.SCENARIOS)
def test_the_protocol_comes_through_every_scripted_scenario(name: str) -> None:
    assert not MUTANTS.survive({"scenario": name})
