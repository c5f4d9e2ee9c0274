"""The fault sweep: seeded runs, every one verified, and proof that they go where it is dangerous."""

from __future__ import annotations

from collections import Counter

import pytest

from .. import sweeping
from . import sweep
from .mutants import seeds

LEAST = 2
"""How often each situation has to occur; a sweep that never goes there proves nothing about it."""


def examine(seed: int) -> tuple[int, list[str], Counter[str], dict[str, int]]:
    """One seed, told so briefly that it travels between processes."""
    outcome = sweep.run(seed)
    return seed, outcome.violated, sweep.situations(outcome), sweep.detections(outcome)


@pytest.mark.sweep
def test_every_run_keeps_every_promise_and_comes_to_rest_and_every_situation_occurs(times: int) -> None:
    occurred: Counter[str] = Counter()
    instrumented: Counter[str] = Counter()
    troubled: list[str] = []
    with sweeping.processes() as pool:
        for seed, troubles, found, counts in pool.map(examine, seeds(times), chunksize=4):
            occurred += found
            if sweep.family_of(seed) == "instrumented" and not sweep.scenario_of(seed).about.endswith("r = 0"):
                instrumented += Counter(counts)
            if troubles:
                troubled.append(f"seed {seed} ({sweep.scenario_of(seed).about}): {', '.join(troubles)}")
    assert not troubled, "replay with tests.protocols.rtcast.sweep.run(SEED):\n" + "\n".join(troubled)
    seldom = {name: occurred[name] for name in sweep.SITUATIONS if occurred[name] < LEAST}
    assert not seldom, f"the sweep seldom came to: {seldom}"
    # 6.3: what was injected was found, in one way or another. (With r = 0 a crash in a broadcast may leave nobody to find it.)
    assert instrumented["crashes"] >= 5
    assert instrumented["crashes_matched"] == instrumented["crashes"]
    assert min(instrumented[f"omissions_{became}"] for became in ("halted", "repaired", "without_effect")) > 0


def test_the_seeds_cover_what_is_promised() -> None:
    scenarios = [sweep.scenario_of(seed) for seed in range(sweep.SEEDS)]
    about = Counter(scenario.about for scenario in scenarios)
    assert set(about) == {f"{family}, r = {r}" for family in sweep.FAMILIES for r in range(4)}
    assert {len(scenario.members) for scenario in scenarios} == {2, 3, 4, 5, 6}
    for key, values in (
        ("admission", (True, False)),
        ("overtaking", (True, False)),
        ("clocks", ("assumed", "synchronised", "none")),
        ("delivery", ("immediate", "safe")),
        ("heartbeats", (1, 2, 3)),
        ("numbers", (sweep.NUMBERS, 65_536)),
        ("partitions", ("any", "majority")),
        ("collisions", (True, False)),
    ):
        for value in values:
            assert sum(scenario.parameters[key] == value for scenario in scenarios) >= 3, (key, value)
    assert sum(scenario.network.shared for scenario in scenarios) == 16
    assert sum(scenario.network.delay.kind == "uniform" for scenario in scenarios) >= 20
    assert sum(scenario.network.wire for scenario in scenarios) >= 3
    assert sum(scenario.network.corrupt > 0 for scenario in scenarios) >= 3
    kinds = Counter(fault.kind for scenario in scenarios for fault in scenario.fault)
    assert min(kinds[kind] for kind in ("crash", "restart", "join", "leave", "omit")) >= 3
    omitted = {
        (scenario.parameters["retransmissions"], fault.count)
        for scenario in scenarios
        for fault in scenario.fault
        if fault.kind == "omit"
    }
    assert {(1, 1), (2, 2), (3, 3)} <= omitted
