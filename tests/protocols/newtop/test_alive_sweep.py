"""The sweep of regimes in which groups once stood still, and proof that its runs go where it is dangerous."""

from __future__ import annotations

from collections import Counter
from functools import partial

import pytest

from .. import sweeping
from . import alive_sweep as sweep
from . import membership_sweep

LEAST = 8
"""How often each situation has to occur."""


@pytest.mark.sweep
def test_every_run_keeps_every_promise_and_comes_to_rest_and_every_situation_occurs(times: int) -> None:
    occurred = sweeping.run_all(
        partial(sweeping.examine, sweep.run, membership_sweep.situations),
        sweeping.ordinary(times, sweep.SEEDS, sweep.SHORT),
        sweep.about,
        sweep.__name__,
        chunksize=4,
    )
    sweeping.demand(occurred, dict.fromkeys(sweep.SITUATIONS, LEAST))


def test_the_seeds_cover_what_is_promised() -> None:
    scenarios = [sweep.scenario_of(seed) for seed in range(sweep.SEEDS)]
    sizes = [len(scenario.members) for scenario in scenarios]
    assert min(sizes) == 2
    assert sum(size >= 20 for size in sizes) >= 4
    assert set(Counter(scenario.about for scenario in scenarios).values()) == {6}
    faults = [fault for scenario in scenarios for fault in scenario.fault]
    omega = membership_sweep.OMEGA
    pauses = [fault.length for fault in faults if fault.kind == "pause"]
    assert sum(length > 8 * omega for length in pauses) >= 20
    assert sum(fault.kind == "sluggish" and fault.length > 8 * omega for fault in faults) >= 20
    far = [scenario.network.delay.low for scenario in scenarios if scenario.about.endswith("far")]
    assert sum(2 * delay < omega for delay in far) >= 4
    assert sum(2 * delay > 2 * omega for delay in far) >= 10
    assert sum(fault.kind in ("join", "leave") for fault in faults) >= 80
