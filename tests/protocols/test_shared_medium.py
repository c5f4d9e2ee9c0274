"""Regimes of ``sequencer`` and ``newtop`` once more, with one medium for all: packets wait for each other.

``rtcast`` and ``dedos`` draw shared media in sweeps of their own (``rtcast.alive``, ``dedos.regimes``); members of ``mailbox``
exchange no packets.
"""

from __future__ import annotations

import dataclasses
from collections import Counter

import pytest

from plainchant.scenario.model import Scenario

from . import sweeping
from .newtop import alive_sweep, membership_sweep
from .sequencer import regimes

BANDWIDTH = 10_000_000
SEEDS = 36
"""Of each protocol: each regime of ``sequencer`` six times, each regime of ``newtop`` with each kind of order once."""


def shared(scenario: Scenario) -> Scenario:
    return dataclasses.replace(
        scenario, network=dataclasses.replace(scenario.network, bandwidth=BANDWIDTH, shared=True, header=28)
    )


def examine_sequencer(seed: int) -> sweeping.Examined:
    outcome = regimes.run(seed, shared(regimes.scenario_of(seed)))
    return seed, regimes.troubles_of(outcome), outcome.situations


def examine_newtop(seed: int) -> sweeping.Examined:
    outcome = alive_sweep.run(seed, None, shared(alive_sweep.scenario_of(seed)))
    return seed, outcome.violated, membership_sweep.situations(outcome)


@pytest.mark.sweep
def test_every_regime_of_the_sequencer_on_a_shared_medium(times: int) -> None:
    found = sweeping.run_all(
        examine_sequencer, range(times * SEEDS), lambda seed: regimes.scenario_of(seed).about, regimes.__name__, chunksize=2
    )
    sweeping.demand(found, dict.fromkeys(("sequencer elected", "sequencer does not read", "halted: excluded"), 1))


@pytest.mark.sweep
def test_every_regime_of_newtop_on_a_shared_medium(times: int) -> None:
    found = sweeping.run_all(examine_newtop, range(times * SEEDS), alive_sweep.about, alive_sweep.__name__, chunksize=2)
    sweeping.demand(found, dict.fromkeys(("suspected by another", "refutes", "does not read", "lets joiners in"), 1))


def test_the_seeds_have_every_regime() -> None:
    about = Counter(regimes.scenario_of(seed).about for seed in range(SEEDS))
    assert about == dict.fromkeys(regimes.REGIMES, SEEDS // len(regimes.REGIMES))
    assert {alive_sweep.regime_of(seed) for seed in range(SEEDS)} == set(alive_sweep.REGIMES)
