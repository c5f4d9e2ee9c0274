"""Groups go on: fail-over within four round trips of the suspicion, survivors without a majority, rebuilding under loss.

The cases are in ``cases``, the drawn regimes in ``regimes``; ``mutants`` has a variant for each rule, which a case catches.
"""

from __future__ import annotations

from collections import Counter

import pytest

from plainchant.core.model import MS, SECOND, Duration, UsageError
from plainchant.protocols.registry import describe
from plainchant.protocols.sequencer import Parameters
from plainchant.protocols.sequencer.election import next_epoch
from plainchant.protocols.sequencer.packets import Phase1, Phase2
from plainchant.scenario.load import parse

from .. import sweeping
from . import failover, regimes
from .by_hand import GROUP, Letter
from .cases import CASES
from .packets_by_hand import Script

REGIME_SEEDS = 96
"""Each regime sixteen times."""
REGIME_SHORT = range(REGIME_SEEDS // 2)
"""What ``make test`` has of it."""
SITUATIONS = (
    "sequencer elected",
    "coordinator yields to a preceding one",
    "history rebuilt from survivors",
    "synchronisation: history full",
    "synchronisation: join",
    "sequencer does not read",
    "sequencer deposed",
    "halted: excluded",
)


@pytest.mark.parametrize("name", CASES)
def test_nothing_goes_wrong(name: str) -> None:
    assert CASES[name]() == []


def examine(seed: int) -> tuple[int, list[str], Counter[str]]:
    """One seed, told so briefly that it travels between processes."""
    outcome = regimes.run(seed)
    return seed, regimes.troubles_of(outcome), outcome.situations


@pytest.mark.sweep
def test_every_regime_keeps_every_promise_and_loses_no_member(times: int) -> None:
    occurred: Counter[str] = Counter()
    troubled: list[str] = []
    with sweeping.processes() as pool:
        for seed, troubles, situations in pool.map(examine, sweeping.ordinary(times, REGIME_SEEDS, REGIME_SHORT), chunksize=4):
            occurred += situations
            if troubles:
                troubled.append(f"seed {seed} ({regimes.scenario_of(seed).about}): {', '.join(troubles)}")
    assert not troubled, "replay with tests.protocols.sequencer.regimes.run(SEED):\n" + "\n".join(troubled)
    missing = [situation for situation in SITUATIONS if not occurred[situation]]
    assert not missing, f"the regimes never came to: {', '.join(missing)}; they came to {dict(occurred)}"


def test_the_regimes_cover_what_is_promised() -> None:
    scenarios = [regimes.scenario_of(seed) for seed in range(REGIME_SEEDS)]
    sizes = {len(scenario.members) for scenario in scenarios}
    assert {2, 40} <= sizes
    trips = {2 * scenario.network.delay.low // MS for scenario in scenarios if scenario.about == "round trips"}
    assert min(trips) < regimes.DEFAULTS.suspect_after // MS < max(trips)
    assert sum(scenario.network.loss == 0.3 for scenario in scenarios) >= 16
    kinds = Counter(fault.kind for scenario in scenarios for fault in scenario.fault)
    assert min(kinds[kind] for kind in ("crash", "join", "leave", "pause", "sluggish", "restart")) >= 4, kinds
    paused = [(fault.process == scenario.members[0], fault.length) for scenario in scenarios for fault in scenario.fault
              if fault.kind == "pause"]  # fmt: skip
    assert all(length > regimes.DEFAULTS.patience + regimes.DEFAULTS.suspect_after for _, length in paused)
    assert Counter(is_sequencer for is_sequencer, _ in paused)[True] >= 3
    assert Counter(is_sequencer for is_sequencer, _ in paused)[False] >= 3
    readers = {fault.process == scenario.members[0] for scenario in scenarios for fault in scenario.fault
               if fault.kind == "sluggish"}  # fmt: skip
    assert readers == {True, False}, "the sequencer and another member"


def test_within_a_round_a_preceding_coordinator_has_the_higher_epoch() -> None:
    for members in range(1, 8):
        for latest in range(20):
            epochs = [next_epoch(latest, rank, members) for rank in range(members)]
            assert epochs == sorted(epochs, reverse=True)
            assert min(epochs) > latest
            assert max(epochs) < min(next_epoch(epoch, rank, members) for epoch in epochs for rank in range(members))


def test_a_process_that_joined_later_stops_sending_in_a_synchronisation_phase() -> None:
    """Its handlers once kept the pause from before it was let in, and it went on sending."""
    group = Script("p1", "p2", "p3")
    group.broadcast("a")
    group.enter("q")
    group.carry()
    assert group.last_view("q") == ("p1", "p2", "p3", "q")
    phase = 2 << 20
    group.bring(Letter("p1", "q", Phase1(GROUP, 1, phase, group["q"].log.contiguous)))
    group.mail.clear()
    group.say("q", "during the phase")
    assert not group.mail
    assert group["q"].pause.phase == phase
    group.bring(Letter("p1", "q", Phase2(GROUP, 1, phase, group["q"].log.contiguous)))
    group.carry()
    assert group.delivered("p2")[-1] == "during the phase"


@pytest.mark.sweep
@pytest.mark.parametrize("jitter", [0.0, 0.3])
@pytest.mark.parametrize("members", [3, 5])
def test_a_fail_over_takes_a_suspicion_and_at_most_four_round_trips(members: int, jitter: float, times: int) -> None:
    """Round trips from a tenth of ``suspect_after`` to ten times it, with the durations of a live host."""
    patience = Duration(20 * SECOND)
    for round_trip in (0.1, 0.2, 0.5, 1, 2, 5, 10):
        for seed in range(2 * times):
            scenario = failover.crash_of_the_sequencer(
                seed, members=members, round_trip_ms=1_000 * round_trip, jitter=jitter, patience=patience
            )
            found = failover.run(scenario)
            time = failover.fail_over(found)
            assert not found.violated, (round_trip, seed)
            assert time is not None, (round_trip, seed)
            assert time <= failover.bound(scenario), (round_trip, seed, time)


def test_the_time_of_progress_grows_with_suspicion_and_patience() -> None:
    state = describe("sequencer").progress
    short, long = (state(Parameters(patience=Duration(ms * MS)), {"g": ("p1", "p2")}) for ms in (1_000, 3_000))
    assert short.within is not None
    assert long.within is not None
    assert short.within < long.within
    assert "pause" in short.despite
    assert "pause" not in state(Parameters(partitions="none"), {"g": ("p1", "p2")}).despite


def test_promises_without_partitions_say_so() -> None:
    description = describe("sequencer")
    default = description.promises(Parameters(), {"g": ("p1", "p2")})
    survivors = description.promises(Parameters(partitions="none", resilience=1), {"g": ("p1", "p2")})
    assert {promise.provided for promise in default} == {"a majority of each view survives"}
    assert all("never falls apart" in promise.provided or "the same" in promise.provided for promise in survivors)
    assert description.beyond(Parameters()) == frozenset()
    assert "partition" in description.beyond(Parameters(partitions="none"))


def test_partitions_are_majority_or_none() -> None:
    with pytest.raises(UsageError, match="majority"):
        parse('protocol = "sequencer"\nmembers = 2\n[parameters]\npartitions = "all"\n')
