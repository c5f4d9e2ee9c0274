"""Sections 2, 4.1, 4.2, 4.6 and Lemma 3: turns, order, omissions and retransmissions (claims 70, 74, 77)."""

from __future__ import annotations

from itertools import pairwise

import pytest

from plainchant.protocols.rtcast.interface import Interface
from plainchant.protocols.rtcast.packets import Beat, Data
from plainchant.protocols.rtcast.parameters import Parameters
from plainchant.scenario.model import Fault, Workload

from .runs import fault, message, ms, simulate, uneven

ALL = Workload(rate=200.0, size=100)


def test_4_1_turns_go_round_the_ring_and_everybody_says_something_in_each() -> None:
    run = simulate("a b c d")
    formed = [sent.packet for sent in run.packets_of(Beat) if sent.packet.formed]
    assert [beat.visit for beat in formed] == list(range(formed[0].visit, formed[0].visit + len(formed)))
    assert {(sent.source, sent.packet.next) for sent in run.packets_of(Beat) if sent.packet.formed} == {
        ("a", "b"),
        ("b", "c"),
        ("c", "d"),
        ("d", "a"),
    }
    turns: dict[int, list[Data]] = {}
    for sent in run.packets_of(Data):
        if sent.packet.ring == "a" and sent.packet.visit >= formed[0].visit:
            turns.setdefault(sent.packet.visit, []).append(sent.packet)
    assert all(beat.visit in turns for beat in formed)
    for packets in turns.values():
        assert [packet.last for packet in packets] == [False] * (len(packets) - 1) + [True]


def test_4_1_numbers_of_a_sender_follow_each_other() -> None:
    run = simulate("a b c", ALL)
    for name in "abc":
        numbers = [sent.packet.seq for sent in run.packets_of(Data) if sent.source == name and sent.packet.ring == "a"]
        assert all(after == before + 1 for before, after in pairwise(numbers[1:]))


@pytest.mark.parametrize("load", [Workload(rate=20.0), Workload(rate=2000.0, size=1000, stop=ms(200))])
def test_4_1_nobody_holds_the_token_longer_than_T(load: Workload) -> None:
    run = simulate("a b c", load, parameters={"holds": {"b": ms(2)}})
    held: dict[str, list[int]] = {name: [detail["hold"] for detail in run.details("token", name)] for name in "abc"}
    assert max(held["b"]) <= ms(2)
    assert max(held["a"] + held["c"]) <= ms(4)
    if load.rate > 100:
        assert max(held["b"]) > ms(1), "it had enough to say"
        assert max(held["a"]) > ms(3)
    assert run.violated == []


def test_4_2_a_message_is_delivered_when_it_comes_and_nobody_acknowledges_it() -> None:
    run = simulate("a b c", message("a", 45))
    assert [row["true_time"] - row["sent"] for row in run.of("deliver")] == [ms(1)] * 3
    assert {type(sent.packet) for sent in run.sent_packets if sent.time > ms(40)} == {Data, Beat}


@pytest.mark.parametrize("seed", range(3))
def test_74_lemma_3_one_order_on_a_network_where_packets_overtake(seed: int) -> None:
    """Claim 74. P2 and P3 hold, and a packet to one may take ten times as long as to another."""
    run = simulate("a b c d", ALL, network=uneven("a b c d", seed), seed=seed)
    orders = [run.delivered(name) for name in "abcd"]
    assert len(orders[0]) > 100
    assert orders[0] == orders[1] == orders[2] == orders[3]
    assert run.alive() == ["a", "b", "c", "d"]
    assert run.violated == []


@pytest.mark.parametrize("seed", range(2))
def test_74_lemma_3_is_not_trivial_without_the_hold(seed: int) -> None:
    run = simulate("a b c d", ALL, network=uneven("a b c d", seed), seed=seed, parameters={"overtaking": False})
    assert "omission" in run.halted().values(), "nothing was lost"


# --- retransmission -------------------------------------------------------------------------------------------------------


STEADY = tuple(Workload(senders=(name,), rate=1000.0, start=ms(40), stop=ms(120)) for name in "ac")
"""a and c have something to say in each of their turns."""


def lost(times: int) -> list[Fault]:
    """A packet with messages of a, and what is sent again of it, does not reach b."""
    return [fault("omit", 60, process="b", packet="Data", source="a", count=times)]


@pytest.mark.parametrize(("retransmissions", "times"), [(1, 1), (2, 1), (2, 2), (3, 3)])
def test_70_a_message_lost_r_times_is_delivered_within_r_plus_1_rotations(retransmissions: int, times: int) -> None:
    """Claim 70: Delta = (r + 1) P."""
    run = simulate("a b c", *STEADY, parameters={"retransmissions": retransmissions}, faults=lost(times))
    assert run.violated == []
    assert run.alive() == ["a", "b", "c"]
    rotation = Interface(Parameters()).rotation("abc", [ms(4)] * 3)
    assert max(run.delays("c")) == ms(1)
    assert times * ms(3) < max(run.delays("b")) <= (times + 1) * rotation


@pytest.mark.parametrize("retransmissions", [0, 1, 2])
def test_4_6_one_loss_more_than_r_is_an_omission(retransmissions: int) -> None:
    parameters = {"retransmissions": retransmissions}
    run = simulate("a b c", *STEADY, parameters=parameters, faults=lost(retransmissions + 1))
    assert run.halted() == {"b": "omission"}
    assert run.delivered("a") == run.delivered("c")
    assert run.delivered("b") == run.delivered("a")[: len(run.delivered("b"))] != run.delivered("a")
    assert run.views("a")[-1] == ("a", "c")
    assert run.violated == []


def test_77_only_the_requester_is_delayed_by_a_retransmission() -> None:
    """Claim 77."""
    calm = simulate("a b c d", *STEADY, parameters={"retransmissions": 1})
    late = simulate("a b c d", *STEADY, parameters={"retransmissions": 1}, faults=lost(1))
    for name in "acd":
        assert late.delays(name) == calm.delays(name)
    assert late.delivered("b") == calm.delivered("b")
    assert max(late.delays("b")) > ms(3) > max(calm.delays("b")) == ms(1)
