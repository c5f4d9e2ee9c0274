"""Section 5, what happens when the sequencer fails; the resilience degree; and the words that are used.

Where the paper is wrong or silent, the test says what is done instead (``errata.md``).
"""

from __future__ import annotations

import pytest

from plainchant.core.model import MS, SECOND, Duration, Packet
from plainchant.protocols.sequencer.packets import (
    Ack,
    AckCommit,
    Announce,
    Broadcast,
    Nack,
    Phase1,
    Phase2,
    Promise,
    Request,
    Stale,
)
from plainchant.scenario.model import Delay, Fault, Network, Workload
from tests.protocols.runs import CALM, simulate
from tests.protocols.sequencer.by_hand import GROUP, ByHand, Letter, broadcast, request, to

from .sending import DELAY, THREE, carries, closed, cut, full

# --- 5. Conclusions: when the sequencer fails ------------------------------------------------------------------------


def test_5_the_newly_elected_sequencer_brings_the_others_up_to_date() -> None:
    group = ByHand("p1", "p2", "p3", "p4")
    group.broadcast("a")
    group.broadcast("b", lose=to("p2", "p4"))
    group.kill("p1")
    group.wait_until(lambda: len(group.views("p4")) == 2)
    assert group.sequencers() == ["p3"]
    assert [group.delivered(name) for name in ("p2", "p3", "p4")] == [["a", "b"]] * 3
    assert group.views("p2")[1] == ("p2", "p3", "p4")


def test_5_elected_is_the_highest_contiguous_number_not_the_highest() -> None:
    """Somebody may hold 3 and nobody 2."""
    group = ByHand("p1", "p2", "p3", "p4")
    group.broadcast("a", by="p4")
    group.broadcast("b", by="p4", lose=to("p3", "p4"))
    group.broadcast("c", by="p4", lose=lambda letter: letter.target in ("p2", "p4") or type(letter.packet) is Nack)
    assert sorted(group["p3"].log.later) == [3]
    group.kill("p1")
    group.wait_until(lambda: all(len(group.delivered(name)) == 3 for name in ("p2", "p3", "p4")))
    assert group.sequencers() == ["p2"]
    assert [group.delivered(name) for name in ("p2", "p3", "p4")] == [["a", "b", "c"]] * 3


def test_5_a_new_epoch_voids_what_is_buffered_out_of_order_from_the_old_one() -> None:
    group = ByHand("p1", "p2", "p3", "p4")
    group.broadcast("a", by="p1")
    group.broadcast("b", by="p1", lose=to("p2", "p3", "p4"))
    group.broadcast("lost", by="p1", lose=lambda letter: letter.target in ("p2", "p4") or type(letter.packet) is Nack)
    group.kill("p1")
    group.wait_until(lambda: len(group.views("p3")) == 2)
    group.broadcast("new")
    group.wait_until(lambda: len(group.delivered("p3")) == 2)
    assert group.delivered("p3") == group.delivered("p2") == group.delivered("p4") == ["a", "new"]


def test_5_a_slow_sequencer_cannot_number_messages_beside_the_new_one() -> None:
    group = ByHand("p1", "p2", "p3", "p4")
    group.broadcast("a")
    slow = group.hosts["p1"].timers.copy()
    group.kill("p1")
    group.wait_until(lambda: len(group.views("p3")) == 2)
    del group.dead["p1"]
    group.hosts["p1"].timers = slow
    group.say("p1", "mine")
    assert group.sent("p1", Broadcast)[-1].number == 2
    group.carry()
    group.broadcast("b")
    for name in ("p2", "p3", "p4"):
        assert group.delivered(name) == ["a", "b"]
    reason = group.halted("p1")
    assert reason is not None
    assert "excluded in view 2" in reason.text


def test_5_who_has_promised_a_new_epoch_obeys_the_old_one_no_more() -> None:
    group = ByHand(*THREE)
    group["p3"].step_down(2, "p2")
    group["p3"].receive("p1", broadcast(1, "p1", "a"))
    assert group.delivered("p3") == []
    assert group.sent("p3", Stale)[0].epoch == 2


def test_5_a_request_that_died_with_the_sequencer_is_repeated_to_the_new_one() -> None:
    never = Duration(3600 * SECOND)
    group = ByHand("p1", "p2", "p3", "p4", retry_after=never)
    group.broadcast("x", by="p3", lose=to("p2", "p4"))
    group.say("p2", "a", "b")
    group.carry(lose=to("p1"))
    group.kill("p1")
    group.wait_until(lambda: all(group.delivered(name) == ["x", "a", "b"] for name in ("p2", "p3", "p4")))
    assert group.sequencers() == ["p3"]
    assert group.time < never, "at once, not by its timer"


def test_5_a_request_that_the_new_sequencer_knows_is_not_delivered_twice() -> None:
    group = ByHand("p1", "p2", "p3", "p4")
    group.broadcast("a", lose=to("p2", "p3"))
    group.kill("p1")
    group.wait_until(lambda: len(group.views("p2")) == 2 and not group["p2"].requests.outstanding)
    group.broadcast("b", by="p3")
    assert [group.delivered(name) for name in ("p2", "p3", "p4")] == [["a", "b"]] * 3


def test_5_a_request_that_overtook_another_is_held_after_an_election_too() -> None:
    group = ByHand("p1", "p2", "p3", "p4")
    group.say("p2", "a", "b")
    group.carry(lose=to("p1"))
    group.kill("p1")
    first = [True]

    def lose(letter: Letter) -> bool:
        packet = letter.packet
        lost = first[0] and isinstance(packet, Request) and packet.epoch > 1 and packet.request == 1
        first[0] &= not lost
        return lost

    group.wait_until(lambda: all(len(group.delivered(name)) == 2 for name in ("p2", "p3", "p4")), lose)
    assert [group.delivered(name) for name in ("p2", "p3", "p4")] == [["a", "b"]] * 3


def test_5_a_sequencer_that_dies_in_the_synchronisation_phase_is_replaced() -> None:
    group = full()
    group.expire("p1", "sync", lose=carries(AckCommit))
    assert group["p2"].pause.phase
    assert group["p3"].pause.phase
    group.kill("p1")
    group.wait_until(lambda: group.delivered("p2") == group.delivered("p3") == ["a", "b", "c"])


def test_5_a_sequencer_that_dies_while_everybody_is_idle_is_noticed() -> None:
    group = ByHand(*THREE)
    group.kill("p1")
    group.wait_until(lambda: group.views("p2")[1:] == group.views("p3")[1:] == [("p2", "p3")])
    assert len(group.sequencers()) == 1


def test_5_one_deaf_member_does_not_depose_a_healthy_sequencer() -> None:
    group = ByHand("p1", "p2", "p3", "p4")
    group.wait_until(lambda: group.time > 2 * group.parameters.heartbeat)  # until it has heard the sequencer it is more patient
    deaf_until = 6 * group.parameters.suspect_after
    group.wait_until(lambda: group.time > deaf_until, lose=lambda letter: letter[:2] == ("p1", "p4"))
    assert any(kind == "suspect" for kind, _, _ in group.hosts["p4"].called("record"))
    assert group.sequencers() == ["p1"]
    assert group.views("p2") == [("p1", "p2", "p3", "p4")]


def test_5_a_minority_halts_with_a_reason() -> None:
    group = ByHand("p1", "p2", "p3", "p4", "p5")
    minority = ("p1", "p2")
    group.wait_until(
        lambda: all(group.halted(name) for name in minority) and len(group.views("p5")) == 2,
        lose=lambda letter: (letter.source in minority) != (letter.target in minority),
    )
    for name in minority:
        reason = group.halted(name)
        assert reason is not None
        assert reason.code == "minority"
        assert "a majority is needed to go on" in reason.text
    group.broadcast("a", by="p4")
    assert [group.delivered(name) for name in ("p3", "p4", "p5")] == [["a"]] * 3


def test_5_a_joiner_that_is_elected_knows_the_last_request_of_every_sender() -> None:
    """Else it would number again a repeated request whose entry was purged before it came."""
    group = ByHand("p1", "p2", "p3")
    group.say("p2", "a")
    old = group.mail[0]
    group.carry()
    group.enter("q1")
    group.wait_until(lambda: len(group.views("q1")) == 1)
    assert 1 not in group["q1"].log.entries
    group.broadcast("b", by="p3", lose=to("p2", "p3"))
    group.kill("p1")
    group.wait_until(lambda: group.sequencers() == ["q1"] and len(group.views("p2")) == 3)
    repeated = request(1, "a", epoch=group["q1"].epoch)
    assert isinstance(old.packet, Request)
    assert repeated.batch == old.packet.batch
    group["q1"].receive("p2", repeated)
    group.carry()
    assert group.delivered("p3") == ["a", "b"]
    assert group.delivered("q1") == ["b"]


@pytest.mark.parametrize("seed", range(20))
def test_5_only_messages_of_the_sequencers_own_node_are_lost(seed: int) -> None:
    """Whether a survivor had received a lost one is not looked at here: see the two tests below."""
    crash = Fault(kind="crash", process="p1", at=Duration((40 + 3 * seed) * MS), mid_broadcast=bool(seed % 2))
    loss = Network(loss=0.1, delay=Delay("uniform", Duration(DELAY), Duration(2 * DELAY)))
    deaf = cut("p1", "", 36 + 3 * seed) if seed % 4 == 0 else cut("p1", "p3", 36 + 3 * seed)
    load = Workload(rate=250.0, stop=Duration(300 * MS))
    parameters = {"suspect_after": Duration(60 * MS), "patience": Duration(400 * MS)}
    run = simulate(4, load, parameters=parameters, network=loss, fault=(deaf, crash), duration=500 * MS, seed=seed)
    survivors = ("p2", "p3", "p4")
    assert run.summary.quiet, run.summary.not_quiet
    assert run.violated == []
    delivered = run.delivered("p2")
    for name in survivors:
        assert run.delivered(name) == delivered
        assert set(run.sent(name)) <= set(delivered), "a survivor's message is never lost"
    lost = [pair for pair in run.sent("p1") if pair not in delivered]
    assert {sender for sender, _ in lost} <= {"p1"}
    kept = len(run.sent("p1")) - len(lost)
    assert lost == run.sent("p1")[kept:], "the last ones: nothing is kept beyond the first that is lost"
    if seed % 4 == 0:
        assert lost, "nobody heard the sequencer any more before it crashed"


def test_5_what_follows_a_message_that_no_survivor_received_is_lost_with_it() -> None:
    """The paper would lose only the missed one; its successor cannot be delivered without a hole in the order."""
    group = ByHand("p1", "p2", "p3", "p4")
    group.broadcast("nobody has it", by="p1", lose=to("p2", "p3", "p4"))
    group.broadcast("p3 has it", by="p1", lose=lambda letter: letter.target != "p3")
    group.kill("p1")
    group.wait_until(lambda: all(len(group.views(name)) == 2 for name in ("p2", "p3", "p4")))
    assert [group.delivered(name) for name in ("p2", "p3", "p4")] == [[]] * 3


def test_5_as_long_as_one_survivor_received_each_broadcast_the_entire_history_is_reconstructed() -> None:
    group = ByHand("p1", "p2", "p3", "p4")
    group.broadcast("a", by="p1", lose=lambda letter: letter.target != "p2")
    group.broadcast("b", by="p1", lose=lambda letter: letter.target != "p3")
    group.kill("p1")
    group.wait_until(lambda: all(len(group.views(name)) == 2 for name in ("p2", "p3", "p4")))
    assert [group.delivered(name) for name in ("p2", "p3", "p4")] == [["a", "b"]] * 3


# --- the resilience degree (Amoeba; paper 001 mentions it) ------------------------------------------------------------


def test_r_1_a_message_is_delivered_only_after_another_member_acknowledged_it() -> None:
    group = ByHand(*THREE, resilience=1)
    group.say("p3", "a")
    group.carry(lose=carries(Ack))
    assert [group.delivered(name) for name in THREE] == [[]] * 3
    group["p1"].receive("p2", Ack(GROUP, 1, 1))
    group.carry()
    assert [group.delivered(name) for name in THREE] == [["a"]] * 3


def test_r_2_waits_for_two_members() -> None:
    group = ByHand("p1", "p2", "p3", "p4", "p5", resilience=2)
    group.say("p1", "a")
    group.carry(lose=carries(Ack))
    group["p1"].receive("p4", Ack(GROUP, 1, 1))
    assert group.delivered("p1") == []
    group["p1"].receive("p5", Ack(GROUP, 1, 1))
    assert group.delivered("p1") == ["a"]


def own_message_then_crash(resilience: int) -> ByHand:
    """The sequencer numbers a message of its own that nobody else receives, and dies; the others go on."""
    group = ByHand(*THREE, resilience=resilience)
    group.broadcast("own", by="p1", lose=to("p2", "p3"))
    group.kill("p1")
    group.wait_until(lambda: len(group.views("p2")) == len(group.views("p3")) == 2)
    group.broadcast("b")
    group.wait_until(lambda: group.delivered("p2") == group.delivered("p3") == ["b"])
    return group


def test_r_0_survivors_may_not_deliver_what_a_dead_sequencer_delivered() -> None:
    assert own_message_then_crash(resilience=0).delivered("p1") == ["own"]


def test_r_1_a_dead_sequencer_has_delivered_nothing_that_the_survivors_do_not() -> None:
    assert own_message_then_crash(resilience=1).delivered("p1") == []


@pytest.mark.parametrize("resilience", [1, 2])
def test_r_the_sequencer_tells_r_members_to_answer_at_once(resilience: int) -> None:
    """2 packets, r acknowledgements, and one announcement that permits delivery."""
    parameters = {**CALM, "history": 1000, "resilience": resilience}
    run = simulate(5, closed("p5", 50), parameters=parameters, duration=1 * SECOND, drain=0)
    assert run.packets("Request", "Broadcast") == 100
    assert run.packets("Ack") == 50 * resilience
    assert run.packets("Announce") == 50
    assert set(run.delays("p1")) == {3 * DELAY}


# --- vocabulary ------------------------------------------------------------------------------------------------------


def test_2_1_packet_types_are_those_of_the_papers_table() -> None:
    table: dict[str, type[Packet]] = {
        "DATA": Request,
        "BROADCAST": Broadcast,
        "RETRANS": Nack,
        "PHASE1": Phase1,
        "PHASE2": Phase2,
        "ACK_COMMIT": AckCommit,
    }
    for name, kind in table.items():
        assert kind.__doc__ is not None
        assert kind.__doc__.startswith(name)
    numbered: list[type[Packet]] = [*table.values(), Announce, Promise]
    for kind in numbered:
        assert "epoch" in kind.__struct_fields__, "a superseded sequencer is known by it"


def test_4_one_sequencer_a_group() -> None:
    """Overlapping groups have a sequencer each: order is within a group."""
    groups = {"g": ("p1", "p2", "p3"), "h": ("p4", "p3", "p2")}
    run = simulate(4, Workload(rate=50.0), parameters={}, groups=groups, duration=200 * MS)
    assert run.violated == []
    assert {row["group"] for row in run.of("deliver", "p2")} == {"g", "h"}
    assert {row["group"] for row in run.of("deliver", "p4")} == {"h"}
