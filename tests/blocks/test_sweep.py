"""The sweep of programs with blocks: every run keeps every promise, and they go where it is dangerous."""

from __future__ import annotations

import pytest

from tests.protocols import sweeping

from . import sweep

SITUATIONS = {
    "lock: hold": 100,
    "lock: lost": 1,
    "lock: merge": 10,
    "lock: take": 5,
    "refused by the fence": 1,
    "election: hold": 30,
    "election: release": 5,
    "election: lost": 1,
    "counter: merge": 10,
    "counter: take": 5,
    "dictionary: merge": 10,
    "dictionary: take": 5,
}
"""How often each has to occur in the sweep of ``make test``."""


def examine(seed: int) -> sweeping.Examined:
    """One seed, told so briefly that it travels between processes."""
    outcome = sweep.run(seed)
    return seed, outcome.violated, outcome.situations


@pytest.mark.sweep
def test_every_run_of_the_sweep_keeps_every_promise_and_every_situation_occurs(times: int) -> None:
    occurred = sweeping.run_all(
        examine, range(sweep.SEEDS * times), lambda seed: sweep.scenario_of(seed)["protocol"], "tests.blocks.sweep", 4
    )
    sweeping.demand(occurred, SITUATIONS)


def test_the_seeds_have_all_protocols_and_faults() -> None:
    scenarios = [sweep.scenario_of(seed) for seed in range(sweep.SEEDS)]
    assert {scenario["protocol"] for scenario in scenarios} == set(sweep.PROTOCOLS)
    assert {fault["kind"] for scenario in scenarios for fault in scenario["faults"]} == {"crash", "restart", "join", "partition"}


def test_a_seed_is_one_run() -> None:
    assert sweep.run(1).result.trace.equals(sweep.run(1).result.trace)
