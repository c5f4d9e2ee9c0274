"""Blocks with one rule taken out: each is caught by the property that it breaks; the blocks as they are come through that run."""

from __future__ import annotations

import pytest

from tests.protocols import sweeping

from . import scripted, sweep
from .mutants import MUTANTS, SEARCHED, TABLE, mutated

CAUGHT = sweeping.read_table(TABLE)


def test_every_mutant_is_caught() -> None:
    assert set(CAUGHT) == set(MUTANTS)
    sweeping.check_patches(MUTANTS)
    sweeping.check_catches(CAUGHT, SEARCHED, scenario=scripted.SCRIPTED)


@pytest.mark.parametrize("name", MUTANTS)
def test_a_mutant_is_caught(name: str) -> None:
    row = CAUGHT[name]
    with mutated(name):
        violated = scripted.SCRIPTED[row["scenario"]]() if "scenario" in row else sweep.run(row["seed"]).violated
    assert row["property"] in violated


@pytest.mark.parametrize("name", scripted.SCRIPTED)
def test_what_is_scripted_goes_well(name: str) -> None:
    assert scripted.SCRIPTED[name]() == []


def test_the_seeds_that_catch_mutants_go_well() -> None:
    """Those that the sweep itself does not run."""
    others = {row["seed"] for row in CAUGHT.values() if "seed" in row} - set(range(sweep.SEEDS))
    assert {seed: violated for seed in sorted(others) if (violated := sweep.run(seed).violated)} == {}
