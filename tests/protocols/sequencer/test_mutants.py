"""Each safety rule is needed: without it the sweep finds a violation. (How the table is made: see ``mutants``.)

That the protocol itself has none with the same seeds is what the sweep shows: they are among its own.
"""

from __future__ import annotations

import pytest

from . import sweep
from .mutants import MUTANTS, SEEDS, by_name, table

CAUGHT = {name: row for name, row in table().items() if "seed" in row}
SURVIVORS = {name: row for name, row in table().items() if "seed" not in row}


def test_the_table_names_every_mutant_and_no_other() -> None:
    assert sorted(table()) == sorted(mutant.name for mutant in MUTANTS)


def test_mutants_are_caught_within_the_ordinary_seeds() -> None:
    assert all(0 <= row["seed"] < SEEDS for row in CAUGHT.values())


def test_the_few_that_survive_say_why() -> None:
    assert all(len(row["survives"]) > 40 for row in SURVIVORS.values())
    assert len(SURVIVORS) <= 2


@pytest.mark.sweep
@pytest.mark.parametrize("name", CAUGHT)
def test_the_mutant_is_caught(name: str) -> None:
    row = CAUGHT[name]
    outcome = sweep.run(row["seed"], by_name(name).make())  # an exception would be no catch: it fails this test
    assert row["property"] in outcome.violated


def test_a_mutant_whose_text_is_gone_is_refused() -> None:
    with pytest.raises(ValueError, match="occurs 0 times"):
        MUTANTS[0].patched("another text")
