"""The ordinary fault sweep: seeded runs, every one verified, and proof that they go where it is dangerous."""

from __future__ import annotations

from collections import Counter

import pytest

from .. import sweeping
from . import sweep
from .mutants import seeds

SITUATIONS = (
    "sequencer elected",
    "joiner elected",
    "election during synchronisation",
    "out-of-order message voided by a new epoch",
    "superseded epoch",
    "sequencer deposed",
    "undecided view carried over",
    "history rebuilt from survivors",
    "duplicate request",
    "duplicate of a purged request",
    "request overtook an earlier one",
    "synchronisation: history full",
    "synchronisation: join",
    "view change during synchronisation",
    "late phase packet",
    "sequencer leaves",
    "halted: minority",
    "halted: excluded",
)
"""What has to occur somewhere in the sweep; a sweep that never goes there proves nothing about it."""


def examine(seed: int) -> tuple[int, list[str], int, int, Counter[str]]:
    """One seed, told so briefly that it travels between processes."""
    outcome = sweep.run(seed)
    troubles = outcome.violated
    if outcome.lost_needlessly:
        troubles.append("halted although a majority survived")
    return seed, troubles, outcome.summary.events, sweep.kinds_of_fault(outcome.scenario), outcome.situations


@pytest.mark.sweep
def test_every_run_of_the_sweep_keeps_every_promise_and_every_situation_occurs(times: int) -> None:
    occurred: Counter[str] = Counter()
    troubled: list[str] = []
    with sweeping.processes() as pool:
        for seed, troubles, events, faults, situations in pool.map(examine, seeds(times), chunksize=8):
            assert events >= sweep.LEAST_EVENTS, f"seed {seed} handled only {events} events"
            assert faults >= 2, f"seed {seed} has only {faults} kind of fault"
            occurred += situations
            if troubles:
                troubled.append(f"seed {seed} ({sweep.FAMILIES[seed % len(sweep.FAMILIES)]}): {', '.join(troubles)}")
    assert not troubled, "replay with tests.protocols.sequencer.sweep.run(SEED):\n" + "\n".join(troubled)
    missing = [situation for situation in SITUATIONS if not occurred[situation]]
    assert not missing, f"the sweep never came to: {', '.join(missing)}; it came to {dict(occurred)}"
