"""Each safety rule is needed: without it the sweep finds a violation. (The table: ``mutants``.)

That the protocol itself has none with the same seeds is shown by the sweep: they are among its own.
"""

from __future__ import annotations

import pytest

from .cases import CASES
from .mutants import MUTANTS


def test_the_table_says_of_every_mutant_what_catches_it_or_why_it_survives() -> None:
    MUTANTS.check_table(scenario=CASES)
    assert len(MUTANTS.survivors) <= 2


@pytest.mark.sweep
@pytest.mark.parametrize("name", MUTANTS.caught)
def test_the_mutant_is_caught(name: str) -> None:
    assert MUTANTS.caught[name]["property"] in MUTANTS.catch(name)  # an exception would be no catch: it fails this test
