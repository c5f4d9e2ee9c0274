"""Sections 2 to 4 of Kaashoek, Tanenbaum, Flynn Hummel, Bal, "An efficient reliable broadcast protocol" (1989).

Tests are named after the section whose statement they check, and stand in the paper's order. Where the paper's text or figures
are wrong or silent, the test says what is done instead (``errata.md``). ``pytest -s`` prints what is counted beside the paper's
formula.
"""

from __future__ import annotations

import pytest

from plainchant.core.model import MS, SECOND, Duration
from plainchant.protocols.sequencer.gaps import BROUGHT_AT_ONCE
from plainchant.protocols.sequencer.packets import (
    Ack,
    AckCommit,
    AskLeave,
    Broadcast,
    Nack,
    Phase1,
    Phase2,
    Request,
)
from plainchant.scenario.model import Delay, Network, Workload
from tests.protocols.runs import CALM, names, simulate
from tests.protocols.sequencer.by_hand import GROUP, ByHand, Letter, broadcast, request, to

from .sending import DELAY, THREE, carries, closed, cut, full

# --- 2. The broadcast protocol ---------------------------------------------------------------------------------------


def test_2_all_broadcasts_are_issued_by_the_sequencer() -> None:
    group = ByHand(*THREE)
    for sender in THREE:
        group.broadcast("a", by=sender)
    assert len(group.sent("p1", Broadcast)) == 3
    assert not group.sent("p2", Broadcast)
    assert not group.sent("p3", Broadcast)


def test_2_of_two_simultaneous_broadcasts_everybody_receives_the_same_one_first() -> None:
    group = ByHand(*THREE)
    group.say("p3", "b")
    group.say("p2", "a")
    group.carry()
    assert [group.delivered(name) for name in THREE] == [["b", "a"]] * 3


def test_2_a_gap_is_noticed_immediately_and_the_missing_message_asked_for() -> None:
    group = ByHand(*THREE)
    group.broadcast("a", lose=to("p3"))
    group.broadcast("b", lose=carries(Nack))
    assert group.delivered("p3") == []
    (nack,) = group.sent("p3", Nack)
    assert (nack.first, nack.last) == (1, 1)


def test_2_missing_messages_are_sent_point_to_point_to_the_process_that_asks() -> None:
    group = ByHand(*THREE)
    group.broadcast("a", "b", lose=to("p3"))
    group.broadcast("c")
    answers = [receivers for receivers, packet in group.hosts["p1"].called("send") if type(packet) is Broadcast][3:]
    assert answers == [("p3",), ("p3",)]
    assert group.delivered("p3") == ["a", "b", "c"]


def test_2_a_long_gap_is_filled_in_stretches() -> None:
    group = ByHand(*THREE)
    texts = [f"m{i}" for i in range(3 * BROUGHT_AT_ONCE)]
    group.broadcast(*texts, lose=to("p3"))
    group.broadcast("last")
    group.wait_until(lambda: group.delivered("p3") == [*texts, "last"])


def test_2_every_packet_to_the_sequencer_carries_an_acknowledgement() -> None:
    for kind in (Request, Nack, Ack, AckCommit, AskLeave):
        assert "ack" in kind.__struct_fields__


def test_2_table_8_7_9_8_6_8_purges_up_to_6() -> None:
    nodes = tuple(f"n{i}" for i in range(1, 7))
    group = ByHand("sequencer", *nodes)
    group.broadcast(*"abcdefghi", by="sequencer")
    for node, last in zip(nodes, (8, 7, 9, 8, 6, 8), strict=True):
        group["sequencer"].receive(node, Ack(GROUP, 1, last))
    group.expire("sequencer", "tick")
    assert group["sequencer"].log.low == 6
    assert sorted(group["sequencer"].log.entries) == [7, 8, 9]


def test_2_a_node_that_has_been_quiet_for_a_while_acknowledges_all_received_broadcasts() -> None:
    group = ByHand(*THREE)
    group.broadcast("a", "b")
    assert group.acknowledged("p3") < 2
    group.expire("p3", "tick")
    assert group.acknowledged("p3") == 2
    assert len(group.sent("p3", Ack)) == 1


@pytest.mark.parametrize("count", [2, 3, 5, 10])
def test_2_two_packets_a_broadcast_and_n_interrupts(count: int) -> None:
    run = simulate(count, closed("p2", 100), parameters=CALM, duration=1 * SECOND, drain=0)
    assert run.summary.packets_by_type == {"Request": 100, "Broadcast": 100}
    assert run.summary.interrupts_by_type == {"Request": 100, "Broadcast": 100 * (count - 1)}
    assert run.summary.interrupts == 100 * count


def test_2_a_broadcast_of_the_sequencers_own_node_is_one_packet() -> None:
    run = simulate(5, closed("p1", 100), parameters=CALM, duration=1 * SECOND, drain=0)
    assert run.summary.packets_by_type == {"Broadcast": 100}


def test_2_a_missed_broadcast_only_gets_that_process_behind_for_a_moment() -> None:
    steady = Workload(senders=("p2",), rate=200.0)
    calm = simulate(4, steady, parameters={}, duration=100 * MS)
    lossy = simulate(4, steady, parameters={}, duration=100 * MS, fault=(cut("p1", "p3", 50.5, 2),))
    for unaffected in ("p1", "p2", "p4"):
        assert lossy.delays(unaffected) == calm.delays(unaffected)
    late = [delay for delay, usual in zip(lossy.delays("p3"), calm.delays("p3"), strict=True) if delay != usual]
    gap, round_trip = 5 * MS, 2 * DELAY
    missed, showed_the_gap = 2 * DELAY + gap + round_trip, 2 * DELAY + round_trip
    assert late == [missed, showed_the_gap]


def test_2_under_no_circumstances_are_messages_given_to_the_application_in_the_wrong_order() -> None:
    delay = Delay("uniform", Duration(DELAY), Duration(3 * DELAY))
    network = Network(loss=0.2, duplicate=0.1, reorder=0.3, delay=delay)
    run = simulate(4, Workload(rate=100.0), parameters={"history": 16}, network=network, duration=300 * MS, seed=4)
    orders = [run.delivered(name) for name in names(4)]
    assert orders[0] == orders[1] == orders[2] == orders[3]
    assert len(orders[0]) == run.summary.messages_sent > 100
    assert run.violated == []


# --- 2.1 Normal operation --------------------------------------------------------------------------------------------


def test_2_1_last_sequence_received_is_the_last_one_without_a_gap() -> None:
    """Fig. 5 uses the variable as the next one expected, the text as the last one received: here it is the text's."""
    group = ByHand(*THREE)
    group.broadcast("a")
    group.broadcast("b", lose=to("p3"))
    group.broadcast("c", lose=carries(Nack))
    group.say("p3", "d")
    assert group.sent("p3", Request)[-1].ack == 1, "3 is here, but 2 is not"
    assert group.sent("p3", Nack)[-1].ack == 1


def test_2_1_a_request_that_does_not_come_back_is_sent_again_under_the_same_number() -> None:
    group = ByHand(*THREE)
    group.say("p2", "a")
    group.carry(lose=to("p1"))
    group.expire("p2", "retry")
    first, again = group.sent("p2", Request)
    assert (first.request, first.batch) == (again.request, again.batch)
    assert [group.delivered(name) for name in THREE] == [["a"]] * 3


def test_2_1_a_duplicate_is_never_broadcast_again() -> None:
    group = ByHand(*THREE)
    group.broadcast("a", lose=to("p2"))
    group.expire("p2", "retry")
    first, answer = [receivers for receivers, packet in group.hosts["p1"].called("send") if type(packet) is Broadcast]
    assert first == ("p2", "p3")
    assert answer == ("p2",), "its sender is informed that the message already has been broadcast"
    assert [group.delivered(name) for name in THREE] == [["a"]] * 3


def test_2_1_a_duplicate_is_never_broadcast_again_when_every_packet_comes_twice() -> None:
    run = simulate(4, Workload(rate=200.0), parameters={}, network=Network(duplicate=1.0), duration=200 * MS)
    assert run.summary.packets_duplicated > 500
    told = [row for row in run.of("drop") if "duplicate" in row["detail"]]
    assert len(told) >= 3 * 40, "every request of the three members other than the sequencer"
    for name in names(4):
        assert sorted(run.delivered(name)) == sorted(pair for sender in names(4) for pair in run.sent(sender))
    assert run.violated == []


def test_2_1_fig_4_a_request_not_newer_than_the_last_is_a_duplicate() -> None:
    """Printed is equality with the last number; with several requests under way an older one may come again."""
    group = ByHand(*THREE)
    group.say("p2", "a", "b", "c")
    old = group.mail[0]
    group.carry()
    group.bring(old)
    answer = group.carry(keep=carries(Broadcast))
    assert [(letter.target, letter.packet) for letter in answer] == [("p2", group.sent("p1", Broadcast)[-1])]
    assert group.sent("p1", Broadcast)[-1].number == 1
    assert group["p1"].log.contiguous == 3
    assert group["p1"].office is not None
    assert not group["p1"].office.held, "it does not wait for anything either"


def test_2_1_fig_4_a_duplicate_is_known_after_its_original_was_purged() -> None:
    group = ByHand(*THREE, history=2)
    group.say("p2", "a")
    old = group.mail[0]
    group.carry()
    group.broadcast(*"bcdef")
    assert group["p1"].log.low > 1
    group.bring(old)
    group.carry()
    assert group.delivered("p3") == list("abcdef")


def test_2_1_fig_4_a_request_that_overtook_a_lost_one_is_held_until_that_arrives() -> None:
    group = ByHand(*THREE)
    group.say("p2", "a", "b", "c")
    group.carry(lose=lambda letter: isinstance(letter.packet, Request) and letter.packet.request == 1)
    assert group.delivered("p1") == []
    group.expire("p2", "retry")
    group.wait_until(lambda: not group["p2"].requests.outstanding)
    assert [group.delivered(name) for name in THREE] == [["a", "b", "c"]] * 3


def test_2_1_fig_4_the_acknowledgement_table_keeps_the_maximum() -> None:
    """Printed is an assignment; a late acknowledgement would lower the table and resurrect what was purged."""
    group = ByHand(*THREE)
    group.broadcast("a", "b", "c", by="p1")
    for ack in (3, 1, 2):
        group["p1"].receive("p3", Ack(GROUP, 1, ack))
    assert group.acknowledged("p3") == 3


def test_2_1_fig_4_the_acknowledgement_on_a_duplicate_counts() -> None:
    group = ByHand(*THREE)
    group.broadcast("a", "b")
    group["p1"].receive("p2", request(1, "a", ack=2))
    assert group.acknowledged("p2") == 2


def test_2_1_fig_4_a_request_that_finds_the_history_full_is_not_lost() -> None:
    """Fig. 4 drops it; here it is kept, and numbered in its sender's order as soon as there is room."""
    group = ByHand(*THREE, history=2, acknowledge_every=100)
    group.broadcast("a", "b")
    group.say("p2", "c", "d")
    group.carry()
    assert group.delivered("p1") == ["a", "b"]
    group["p1"].receive("p2", Ack(GROUP, 1, 2))
    group["p1"].receive("p3", Ack(GROUP, 1, 2))
    group.carry()
    assert [group.delivered(name) for name in THREE] == [["a", "b", "c", "d"]] * 3
    assert len(group.sent("p2", Request)) == 4, "nothing had to be repeated"


def test_2_1_fig_5_an_out_of_sequence_broadcast_is_buffered() -> None:
    group = ByHand(*THREE)
    for number, text in ((3, "c"), (2, "b")):
        group["p3"].receive("p1", broadcast(number, "p2", text))
    assert group.delivered("p3") == []
    group["p3"].receive("p1", broadcast(1, "p2", "a"))
    assert group.delivered("p3") == ["a", "b", "c"]
    assert group.numbers("p3") == [1, 2, 3]


def test_2_1_fig_5_an_old_number_asks_for_nothing() -> None:
    """As printed, every number but the expected one asks for a retransmission: a duplicate would start a storm."""
    group = ByHand(*THREE)
    group.broadcast("a", "b")
    for _ in range(10):
        group["p3"].receive("p1", broadcast(1, "p2", "a"))
    assert not group.sent("p3", Nack)
    assert group.delivered("p3") == ["a", "b"]


def test_2_1_fig_5_a_gap_is_asked_for_once_and_not_with_every_later_number() -> None:
    group = ByHand(*THREE)
    for number in range(2, 10):
        group["p3"].receive("p1", broadcast(number, "p2", "x"))
    assert len(group.sent("p3", Nack)) == 1
    group.expire("p3", "nack", lose=to("p1"))
    assert len(group.sent("p3", Nack)) == 2, "a timer makes sure that there is a reply"


def test_2_1_after_a_certain_number_of_retries_the_sequencer_is_assumed_to_have_failed() -> None:
    group = ByHand(*THREE, nack_retries=3)
    group["p3"].receive("p1", broadcast(2, "p2", "b"))
    for _ in range(4):
        assert group["p3"].election is None
        group.expire("p3", "nack", lose=to("p1"))
    (suspicion,) = (detail for kind, _, detail in group.hosts["p3"].called("record") if kind == "suspect")
    assert suspicion["reason"] == "no answer"
    assert group["p3"].election is not None


def test_2_1_a_node_sends_a_dummy_message_after_receiving_a_number_of_messages_without_sending_any() -> None:
    group = ByHand(*THREE, acknowledge_every=5)
    group.broadcast(*"abcd")
    assert not group.sent("p3", Ack)
    group.broadcast("e")
    (dummy,) = group.sent("p3", Ack)
    assert dummy.ack == 5
    assert not group.sent("p2", Ack), "its requests have said as much"


def test_2_1_the_last_message_of_a_burst_is_missed_by_nobody() -> None:
    """No later number shows the gap, and who received nothing sends no dummy: the idle sequencer says how far it is."""
    group = ByHand(*THREE)
    group.broadcast("a")
    group.broadcast("b", lose=to("p3"))
    group.expire("p1", "tick")
    group.expire("p1", "tick")
    assert group.delivered("p3") == ["a", "b"]


def test_2_1_the_only_message_is_missed_by_nobody() -> None:
    group = ByHand(*THREE)
    group.broadcast("a", lose=to("p2", "p3"))
    group.wait_until(lambda: group.delivered("p2") == group.delivered("p3") == ["a"])
    assert group.time <= 3 * group.parameters.heartbeat


@pytest.mark.parametrize("size", [0, 1, 1_400, 1_401, 100_000])
def test_2_1_a_message_larger_than_a_packet_is_broadcast_in_fragments(size: int) -> None:
    """The paper assumes an upper bound to the size of a message."""
    load = Workload(senders=("p2",), rate=20.0, count=3, size=size)
    run = simulate(3, load, parameters={}, network=Network(loss=0.1), duration=200 * MS, drain=20 * SECOND)
    assert run.violated == []
    for name in THREE:
        assert [(row["seq"], row["size"]) for row in run.of("deliver", name)] == [(1, size), (2, size), (3, size)]
    assert run.packets("Broadcast") >= 3 * max(1, size // 1_400)


# --- 2.2 Synchronization phase ---------------------------------------------------------------------------------------


def test_2_2_phase1_contains_the_number_of_the_last_message_broadcast() -> None:
    group = full()
    group.expire("p1", "sync", lose=to("p2", "p3"))
    assert group.sent("p1", Phase1)[0].highest == 2


def test_2_2_a_node_that_missed_messages_gets_them_before_the_second_phase() -> None:
    group = full(lose=to("p3"))
    group.expire("p1", "sync", lose=lambda letter: letter.source == "p3" and isinstance(letter.packet, Nack))
    assert group.sent("p3", Nack)
    assert not group.sent("p1", Phase2), "p3 has not completed the first phase"
    group.expire("p3", "nack")
    assert group.delivered("p3") == ["a", "b", "c"]
    assert len(group.sent("p1", Phase2)) == 1


def test_2_2_after_phase2_the_history_is_empty_and_everybody_has_everything() -> None:
    group = full(lose=to("p3"))
    kept = group.expire("p1", "sync", keep=carries(Phase2))
    assert [letter.target for letter in kept] == ["p2", "p3"]
    assert group["p1"].log.entries == {}
    assert [group.delivered(name) for name in THREE] == [["a", "b"]] * 3
    for letter in kept:
        group.bring(letter)
    group.carry()
    assert [group.delivered(name) for name in THREE] == [["a", "b", "c"]] * 3, "back to normal operation"


def test_2_2_during_the_phase_nobody_sends_and_nothing_is_numbered() -> None:
    group = full()
    group.expire("p1", "sync", lose=carries(AckCommit))
    before = len(group.sent("p2", Request))
    group.say("p2", "d")
    group.say("p3", "e")
    group.say("p1", "f")
    group.carry()
    assert len(group.sent("p2", Request)) == before
    assert not group.sent("p3", Request)
    assert group["p1"].log.contiguous == 2
    group.wait_until(lambda: len(group.delivered("p3")) == 6)
    assert group.delivered("p1") == group.delivered("p2") == group.delivered("p3")
    assert sorted(group.delivered("p1")) == list("abcdef")


def test_2_2_the_sequencer_numbers_nothing_before_everybody_has_confirmed_the_second_phase() -> None:
    group = full()
    group.expire("p1", "sync", lose=lambda letter: letter.source == "p3")
    group.wait_until(
        lambda: bool(group.sent("p3", AckCommit)) and group["p3"].pause.phase == 0,
        lose=lambda letter: isinstance(letter.packet, AckCommit) and letter.packet.step == 2,
    )
    group.say("p3", "d")
    group.carry()
    assert group.sent("p3", Request), "it is back to normal operation"
    assert group["p1"].log.contiguous == 2
    group.wait_until(lambda: group.delivered("p3") == ["a", "b", "c", "d"])


@pytest.mark.parametrize("kind", [Phase1, Phase2, AckCommit])
def test_2_2_a_lost_packet_of_the_phase_is_made_up_for(kind: type) -> None:
    group = full()
    lost: list[Letter] = []

    def lose_first(letter: Letter) -> bool:
        if type(letter.packet) is not kind or "p3" not in letter[:2] or lost:
            return False
        lost.append(letter)
        return True

    group.expire("p1", "sync", lose=lose_first)
    assert lost
    group.wait_until(lambda: group.delivered("p3") == ["a", "b", "c"])


def test_2_2_a_late_phase2_does_not_end_a_later_phase() -> None:
    group = full()
    group.expire("p1", "sync")
    first = group.sent("p1", Phase2)[0]
    group.broadcast("d", lose=to("p2"))
    group.say("p2", "e")
    group.carry()
    group.expire("p1", "sync", lose=carries(AckCommit))
    assert group["p3"].pause.phase == first.phase + 1
    group["p3"].receive("p1", first)
    assert group["p3"].pause.phase == first.phase + 1
    group.say("p3", "f")
    assert not group.sent("p3", Request)


def test_2_2_a_late_ack_commit_does_not_end_a_later_phase() -> None:
    group = full()
    group.expire("p1", "sync")
    old = [packet for packet in group.sent("p3", AckCommit) if packet.step == 1]
    group.broadcast("d", lose=to("p2"))
    group.say("p2", "e")
    group.carry()
    group.expire("p1", "sync", lose=lambda letter: letter.source == "p3")
    group["p1"].receive("p3", old[0])
    office = group["p1"].office
    assert office is not None
    assert office.phase is not None
    assert (office.phase.step, list(office.phase.waiting)) == (1, ["p3"])


@pytest.mark.parametrize(("count", "history"), [(3, 4), (10, 20)])
def test_2_2_a_synchronisation_phase_costs_2n_packets(count: int, history: int) -> None:
    """Section 4 counts one packet of every node; the printed two phases need PHASE1, PHASE2 and two answers of each."""
    parameters = {**CALM, "history": history, "acknowledge_every": 10**9, "sync_after": Duration(0)}
    run = simulate(count, closed("p2", 5 * history + 1), parameters=parameters, duration=2 * SECOND, drain=0)
    assert run.packets("Phase1") == run.packets("Phase2") == 5
    assert run.packets("AckCommit") == 5 * 2 * (count - 1)
    assert run.packets() == 2 * (5 * history + 1) + 5 * 2 * count


# --- 3. Implementation, 4. Discussion: packets a broadcast -----------------------------------------------------------


@pytest.mark.parametrize(
    ("section", "count", "history", "paper"),
    [("3", 10, 20, "2.5"), ("4", 10, 10, "3"), ("4", 10, 1024, "2"), ("3", 2, 20, "nothing"), ("3", 5, 20, "nothing")],
)
def test_3_and_4_packets_a_broadcast_with_one_steady_sender(section: str, count: int, history: int, paper: str) -> None:
    """Exactly 2 + E/H, where E explicit acknowledgements come a history: one of everybody but sender and sequencer."""
    histories = 3
    broadcasts = histories * history
    parameters = {**CALM, "history": history, "acknowledge_every": history}
    run = simulate(count, closed("p2", broadcasts), parameters=parameters, duration=10 * SECOND, drain=0)
    explicit = count - 2
    counted = run.packets() / broadcasts
    print(
        f"section {section}: n = {count}, H = {history}: counted {counted:.4f} = 2 + {explicit}/{history}; "
        f"the paper's nodes/H + 2 = {count / history + 2:.4f}, its text says {paper}"
    )
    expected = {"Request": broadcasts, "Broadcast": broadcasts} | ({"Ack": histories * explicit} if explicit else {})
    assert run.summary.packets_by_type == expected
    assert counted == pytest.approx(2 + explicit / history)
    assert counted <= count / history + 2
    assert len(run.delivered("p2")) == broadcasts


def test_3_by_default_acknowledgements_come_twice_a_history() -> None:
    """They come when half of the history is used, so that a steady sender never waits for room: E is 2 (n - 2)."""
    run = simulate(10, closed("p2", 100), parameters={**CALM, "history": 20}, duration=1 * SECOND, drain=0)
    assert run.packets() / 100 == pytest.approx(2 + 16 / 20)


@pytest.mark.parametrize("history", [10, 20])
def test_3_a_steady_sender_is_not_slowed_down_by_acknowledgements(history: int) -> None:
    parameters = {**CALM, "history": history, "acknowledge_every": history}
    run = simulate(10, closed("p2", 100), parameters=parameters, duration=1 * SECOND, drain=0)
    assert set(run.delays("p2")) == {2 * DELAY}


def test_4_a_message_is_delivered_as_soon_as_its_broadcast_arrives() -> None:
    run = simulate(5, closed("p2", 50), parameters=CALM, duration=1 * SECOND, drain=0)
    assert set(run.delays("p1")) == {DELAY}, "the sequencer delivers when it numbers"
    for name in ("p2", "p3", "p4", "p5"):
        assert set(run.delays(name)) == {2 * DELAY}


def test_4_other_nodes_need_storage_too_and_never_more_than_a_history() -> None:
    """Section 4 says that they need none, section 5 replicates the history: it is kept until all have it."""
    group = ByHand(*THREE, history=8)
    most = 0
    for _ in range(100):
        group.broadcast("x")
        most = max(most, len(group["p3"].log.entries))
    print(f"section 4: at most {most} entries at a member that only receives, history 8; the paper says 0")
    assert 0 < most <= 8
    group.wait_until(lambda: all(not group[name].log.entries for name in THREE))
