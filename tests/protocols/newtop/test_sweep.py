"""The ordinary fault sweep: seeded runs, every one verified, and proof that they go where it is dangerous."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

import plainchant.protocols.newtop
from plainchant.protocols.newtop.packets import Null

from .. import sweeping
from . import alive_sweep, membership_sweep, sweep
from .mutants import SEEDS, seeds

SITUATIONS = (
    "null: silence",
    "null: other group",
    "null: flow",
    "null held back",
    "blocked by fl1",
    "blocked by fl2",
    "blocked by fl3",
    "blocked by room",
    "waits",
    "gap",
    "asks another",
    "sends own again",
    "sends another's again",
    "probe",
    "request again",
    "emit",
)
"""All that the protocol has a name for in static groups."""
LEAST = 50
"""How often each has to occur; a sweep that never goes there proves nothing about it."""


def examine(seed: int) -> tuple[int, list[str], int, Counter[str]]:
    """One seed, told so briefly that it travels between processes."""
    outcome = sweep.run(seed)
    return seed, outcome.violated, outcome.summary.events, outcome.situations


@pytest.mark.sweep
def test_every_run_of_the_sweep_keeps_every_promise_and_every_situation_occurs(times: int) -> None:
    occurred: Counter[str] = Counter()
    troubled: list[str] = []
    with sweeping.processes() as pool:
        for seed, troubles, events, situations in pool.map(examine, seeds(times), chunksize=8):
            assert events >= sweep.LEAST_EVENTS, f"seed {seed} handled only {events} events"
            occurred += situations
            if troubles:
                troubled.append(f"seed {seed} ({sweep.family_of(seed)}): {', '.join(troubles)}")
    assert not troubled, "replay with tests.protocols.newtop.sweep.run(SEED):\n" + "\n".join(troubled)
    assert sorted(occurred) == sorted(SITUATIONS)
    rare = {situation: times for situation, times in occurred.items() if times < LEAST}
    assert not rare, f"the sweep seldom came to: {rare}"


def test_the_sweep_looks_for_every_situation_that_the_protocol_can_record() -> None:
    """Names in the source, with what is filled in at run time as a gap."""
    source = "".join(path.read_text() for path in Path(plainchant.protocols.newtop.__file__).parent.glob("*.py"))
    given = re.findall(r'situation ?= ?f?"([^"]+)"(?: if .* else "([^"]+)")?', source)
    names = {name for alternatives in given for name in alternatives if name}
    patterns = [re.compile(re.sub(r"\\{.*?\\}", ".+", re.escape(name))) for name in names]
    looked_for = (*SITUATIONS, *membership_sweep.SITUATIONS, *alive_sweep.SITUATIONS)
    all_names = (*looked_for, *membership_sweep.RARE)
    assert [name for name in looked_for if not any(pattern.fullmatch(name) for pattern in patterns)] == []
    assert [pattern for pattern in patterns if not any(pattern.fullmatch(name) for name in all_names)] == []


def test_the_seeds_cover_the_sizes_shapes_and_parameters_that_are_promised() -> None:
    scenarios = [sweep.scenario_of(seed) for seed in range(SEEDS)]
    assert {len(scenario.groups) for scenario in scenarios} == set(range(1, 9))
    assert set(range(2, 18)) <= {len(scenario.members) for scenario in scenarios} <= set(range(2, 21))
    assert any(scenario.network.wire for scenario in scenarios)
    for key, least in (("sequencers", 30), ("orders", 15), ("order", 120), ("transport", 15), ("gap_patience", 40)):
        assert sum(key in scenario.parameters for scenario in scenarios) >= least, key
    silent = [scenario for scenario in scenarios if {load.group for load in scenario.workload} != set(scenario.groups)]
    assert len(silent) >= 80
    loss = [scenario for scenario in scenarios if scenario.network.loss and scenario.network.reorder]
    assert len(loss) >= 100
    large = [scenario for scenario in scenarios if scenario.network.max_packet == sweep.MAX_PACKET]
    assert {scenario.about for scenario in large} == set(sweep.LARGE)
    assert sum(any(load.size == 3000 for load in scenario.workload) for scenario in large) >= 25


def test_too_many_null_messages_are_noticed() -> None:
    outcome = sweep.run(1)
    assert not outcome.violated
    outcome.watched.sent[next(iter(outcome.scenario.groups)), Null] += 100_000
    assert outcome.violated == ["nulls"]
