"""Each rule of a block is needed: without it the property that it serves is violated; the block itself comes through that run."""

from __future__ import annotations

import pytest

from . import scripted, sweep
from .mutants import MUTANTS


def test_the_table_says_of_every_mutant_what_catches_it() -> None:
    MUTANTS.check_table(scenario=scripted.SCRIPTED)
    assert not MUTANTS.survivors


@pytest.mark.parametrize("name", MUTANTS.variants)
def test_a_mutant_is_caught(name: str) -> None:
    assert MUTANTS.rows[name]["property"] in MUTANTS.catch(name)


@pytest.mark.parametrize("name", scripted.SCRIPTED)
def test_what_is_scripted_goes_well(name: str) -> None:
    assert MUTANTS.survive({"scenario": name}) == []


def test_the_seeds_that_catch_mutants_go_well() -> None:
    """Those that the sweep itself does not run."""
    others = set(MUTANTS.with_needed(())) - set(range(sweep.SEEDS))
    assert {seed: violated for seed in sorted(others) if (violated := sweep.run(seed).violated)} == {}
