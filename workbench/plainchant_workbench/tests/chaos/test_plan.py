"""The plan: which rounds there are, and that no protocol gets what it is not made to survive."""

from __future__ import annotations

import dataclasses
from collections import Counter

import pytest

from plainchant.core.model import SECOND, UsageError
from plainchant.lab.live.supervisor import stretched
from plainchant.protocols.registry import describe
from plainchant.scenario.model import RandomFaults
from plainchant_workbench.chaos.plan import BESIDE, DIETS, LONGEST, SHORTEST, Round, rounds

ASSUMED = {"step": ("step", "clock steps"), "omit": ("omit", "loss")}
"""What protocols call some kinds of fault in their assumptions."""
OF_THE_HOST = {"busy", "disk", "sluggish", "leave", "processor"}
"""A processor that is shared is a pause, a full disk a crash, a processor's crash one of its processes; to leave is no fault, and
who does not read is the host's to handle."""


@pytest.mark.parametrize("protocol", DIETS)
def test_a_protocol_gets_only_what_it_is_made_to_survive(protocol: str) -> None:
    random = Round(protocol, 1, 5, 20.0).scenario().random
    kinds = {field.name for field in dataclasses.fields(RandomFaults) if field.type == "float" and getattr(random, field.name)}
    kinds -= {"restart", "restart_halted"}
    assert kinds >= {"crash", "pause", "busy", "disk", "sluggish", "leave"}
    faults = describe(protocol).faults
    outside = {kind for kind in kinds - OF_THE_HOST if not set(ASSUMED.get(kind, (kind,))) & set(faults)}
    assert outside == set()
    left_out = ", ".join(DIETS[protocol].left_out)
    network = {"partition", "cut", "clog"}
    assert all(kind in left_out for kind in network - kinds)


@pytest.mark.parametrize("protocol", DIETS)
def test_every_kind_that_a_protocol_gets_is_drawn_sooner_or_later_and_some_stay(protocol: str) -> None:
    drawn: Counter[str] = Counter()
    for seed in range(30):
        scenario = stretched(Round(protocol, 1, seed, 60.0).scenario(), 1.0)
        drawn.update(fault.kind for fault in scenario.fault)
        assert len(scenario.random.steady) == 2
        lost = {fault.process for fault in scenario.fault if fault.kind in ("crash", "disk", "leave", "pause")}
        assert not lost & set(scenario.random.steady)
    random = Round(protocol, 1, 0, 60.0).scenario().random
    wanted = {field.name for field in dataclasses.fields(RandomFaults) if field.type == "float" and getattr(random, field.name)}
    assert wanted - {"restart_halted"} <= set(drawn)


def test_who_stays_and_how_the_network_is_differ_from_round_to_round() -> None:
    scenarios = [Round("sequencer", 1, seed, 20.0).scenario() for seed in range(20)]
    assert len({scenario.random.steady for scenario in scenarios}) > 5
    assert len({scenario.network.loss for scenario in scenarios}) == 3
    assert {bool(scenario.network.bandwidth) for scenario in scenarios} == {False, True}


def test_the_same_round_is_the_same_schedule() -> None:
    first, second = (stretched(Round("dedos", 1, 77, 20.0).scenario(), 1.0) for _ in range(2))
    assert first == second
    assert Round("dedos", 1, 77, 20.0).command == "plainchant chaos --protocol dedos --round-seed 77 --seconds 20"


def test_rounds_fill_the_time_and_none_is_too_long() -> None:
    for minutes in (0.1, 1, 5, 60, 600):
        planned = rounds(minutes)
        assert {each.protocol for each in planned} == set(DIETS)
        assert all(SHORTEST <= each.seconds <= LONGEST for each in planned)
        if minutes > 3:
            assert sum(each.seconds + BESIDE for each in planned) == pytest.approx(60 * minutes, rel=0.05)
    assert len({each.seed for each in rounds(60)}) == len(rounds(60))
    assert {each.seed for each in rounds(60, seed=1)}.isdisjoint(each.seed for each in rounds(60, seed=2))


def test_a_protocol_alone_has_the_rounds_that_it_has_among_others() -> None:
    alone, among = rounds(10, ["mailbox"]), rounds(50)
    assert [each.seed for each in alone] == [each.seed for each in among if each.protocol == "mailbox"]


def test_nonsense_is_refused() -> None:
    with pytest.raises(UsageError, match="0 minutes"):
        rounds(0)
    with pytest.raises(UsageError, match="there is no live protocol 'raft'"):
        rounds(1, ["raft"])


@pytest.mark.parametrize("protocol", DIETS)
def test_every_round_has_a_long_stop_and_a_reader_that_stops(protocol: str) -> None:
    for seed in range(5):
        scenario = Round(protocol, 1, seed, 60.0).scenario()
        long = [fault for fault in scenario.fault if fault.length == 12 * SECOND]
        assert {fault.kind for fault in long} == {"pause", "sluggish"}
        assert len({fault.process for fault in long}) == 2
        assert not {fault.process for fault in long} & set(scenario.random.steady)
        first, second = sorted(long, key=lambda fault: fault.at)
        assert first.at + first.length < second.at
        assert second.at + second.length < scenario.duration
