"""The fault sweep: seeded runs, every one verified, and proof that they go where it is dangerous."""

from __future__ import annotations

from collections import Counter
from functools import partial

import pytest

from .. import sweeping
from . import alive, sweep
from .mutants import seeds

LEAST = 2
"""How often each situation has to occur."""


@pytest.mark.sweep
def test_every_run_keeps_every_promise_and_comes_to_rest_and_every_situation_occurs(times: int) -> None:
    occurred = sweeping.run_all(
        partial(sweeping.examine, sweep.run, sweep.situations),
        seeds(times),
        lambda seed: sweep.scenario_of(seed).about,
        sweep.__name__,
        chunksize=4,
    )
    sweeping.demand(occurred, dict.fromkeys((*sweep.SITUATIONS, *alive.SITUATIONS), LEAST))


def test_the_seeds_cover_what_is_promised() -> None:
    # What is aimed at messages of a first run is left out here: this test has to be quick.
    plain = [seed for seed in range(sweep.SEEDS) if sweep.family_of(seed) not in sweep.AIMED]
    scenarios = [sweep.scenario_of(seed) for seed in plain]
    assert {sweep.family_of(seed) for seed in range(sweep.SEEDS)} == set(sweep.FAMILIES)
    for family in set(sweep.FAMILIES) - set(sweep.ONLY_SECOND):
        protocols = Counter(sweep.protocol_of(seed) for seed in range(sweep.SEEDS) if sweep.family_of(seed) == family)
        assert min(protocols["crash"], protocols["timing"]) >= 8, family
    assert {len(scenario.members) for scenario in scenarios} == {2, 3, 4, 5, 6, 8}
    assert {len(scenario.groups) for scenario in scenarios} == {1, 2, 3}
    for key, values in (
        ("copies", (1, 2, 3, 4)),
        ("rejected", ("again", "halt")),
        ("slots", (1, 2, 3, 8)),
        ("room", (100, 300, 65_536)),
    ):
        for value in values:
            assert sum(scenario.parameters[key] == value for scenario in scenarios) >= 3, (key, value)
    assert sum(bool(scenario.parameters["schedule"]) for scenario in scenarios) >= 8
    assert sum(bool(scenario.parameters["senders"]) for scenario in scenarios) >= 8
    for duration in ("uniform", "max", "min", "extremes"):
        assert sum(scenario.memory.duration == duration for scenario in scenarios) >= 5, duration
    assert sum(scenario.memory.service > 0 for scenario in scenarios) >= 8
    kinds = Counter(fault.kind for scenario in scenarios for fault in scenario.fault)
    assert min(kinds[kind] for kind in ("crash", "restart", "join", "leave", "module")) >= 8


def test_faults_are_aimed_at_decisions() -> None:
    seed = next(seed for seed in range(sweep.SEEDS) if sweep.family_of(seed) == "timing")
    aimed = [sweep.scenario_of(seed + number * len(sweep.FAMILIES)) for number in range(4)]
    kinds = Counter(fault.kind for scenario in aimed for fault in scenario.fault)
    assert kinds["pause"] + kinds["slow"] + kinds["step"] >= 3
    assert kinds["module"] >= 1
