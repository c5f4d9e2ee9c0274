"""The sweep of regimes that the other one does not draw, and proof that its runs go where it is dangerous."""

from __future__ import annotations

from functools import partial

import pytest

from .. import sweeping
from . import regimes


@pytest.mark.sweep
def test_every_regime_keeps_every_promise_and_halts_no_process_that_is_well(times: int) -> None:
    occurred = sweeping.run_all(
        partial(sweeping.examine, regimes.run, regimes.situations),
        range(times * regimes.SEEDS),
        lambda seed: regimes.scenario_of(seed).about, regimes.__name__, chunksize=2,
    )  # fmt: skip
    sweeping.demand(occurred, dict.fromkeys(regimes.SITUATIONS, 1))


def test_the_seeds_cover_what_is_promised() -> None:
    scenarios = [regimes.scenario_of(seed) for seed in range(regimes.SEEDS)]
    pairs = {(regimes.network_of(seed), regimes.trouble_of(seed)) for seed in range(regimes.SEEDS)}
    assert len(pairs) == len(regimes.NETWORKS) * len(regimes.TROUBLES)
    sizes = [len(scenario.members) for scenario in scenarios]
    assert min(sizes) == 2
    assert max(sizes) == 40
    assert all(len({name.partition(".")[0] for name in scenario.members}) > 1 for scenario in scenarios)
    delays = {scenario.network.delay.low for scenario in scenarios if scenario.about.startswith("far")}
    assert len(delays) > 1
    assert sum(scenario.network.loss == 0.3 for scenario in scenarios) == 10
    assert sum(scenario.network.shared for scenario in scenarios) == 10
