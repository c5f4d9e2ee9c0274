"""Paper 001, section 9.2: the asymmetric variant that the thesis leaves open, and its rules (``asymmetric.py``), one by one."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from plainchant.protocols.newtop.packets import Data, Emit, Null, Request
from plainchant_papers.newtop.variants import VARIANTS
from tests.protocols.newtop.by_hand import SHAPES, ByHand, link, to

GROUPS = {"g": "s b c", "h": "b c"}
"""g is asymmetric, its sequencer s; h is symmetric."""
MIXTURES: dict[str, tuple[dict[str, str], dict[str, str]]] = {
    "one": (SHAPES["one"], {"g": "b"}),
    "two, one asymmetric": (SHAPES["two"], {"g1": "a"}),
    "two, a sequencer in both": (SHAPES["two"], {"g1": "c"}),
    "two, both asymmetric": (SHAPES["two"], {"g1": "a", "g2": "d"}),
    "ring": (SHAPES["ring"], {"g2": "b"}),
    "ring, all asymmetric": (SHAPES["ring"], {"g1": "a", "g2": "b", "g3": "c"}),
    "star": (SHAPES["star"], {"g1": "b", "g3": "a"}),
    "clique": (SHAPES["clique"], {"g1": "a", "g3": "d"}),
}


def asymmetric(**parameters: Any) -> ByHand:
    return ByHand(GROUPS, order="total", sequencers={"g": "s"}, **parameters)


def carries(kind: type) -> Any:
    return lambda letter: type(letter.packet) is kind


# --- how it works ---------------------------------------------------------------------------------------------------------


def test_9_2_the_sequencer_numbers_and_multicasts_and_the_others_are_silent() -> None:
    hands = ByHand({"g": "s b c"}, order="total", sequencers={"g": "s"})
    hands.say("b", "g", "m")
    (request,) = hands.sent("b", Request)
    assert hands.mail[0].target == "s"
    hands.carry()
    (data,) = hands.sent("s", Data)
    assert (data.sender, data.request) == ("b", request.request)
    assert [hands.delivered(name) for name in "sbc"] == [["m"]] * 3, "no time has passed"
    hands.rest()
    assert hands.count(Null) == 0


def test_9_2_only_the_sequencers_column_makes_blocks_complete() -> None:
    hands = ByHand({"g": "s b c"}, order="total", sequencers={"g": "s"})
    hands.say("s", "g", "1", "2")
    hands.carry(only=to("b"))
    matrix = hands.matrix("b", "g")
    assert (matrix.complete, matrix.columns["c"].last, matrix.columns["b"].last) == (2, 0, 0)
    assert hands.delivered("b") == ["1", "2"]


def test_9_2_requests_are_numbered_in_their_senders_order_whatever_overtakes() -> None:
    hands = ByHand({"g": "s b c"}, order="total", sequencers={"g": "s"}, transport="lossy")
    hands.say("b", "g", "1", "2", "3")
    hands.mail.reverse()
    hands.rest()
    assert hands.delivered("c") == ["1", "2", "3"]


def test_9_2_a_request_that_is_lost_is_sent_again_and_numbered_once() -> None:
    hands = ByHand({"g": "s b c"}, order="total", sequencers={"g": "s"}, transport="lossy")
    hands.say("b", "g", "1")
    hands.carry(lose=carries(Request))
    hands.expire("b", ("request", "g"))
    again = next(letter for letter in hands.mail if letter.target == "s")
    hands.rest()
    hands.bring(again)
    hands.rest()
    assert hands.delivered("c") == ["1"]


# --- rule 1: a request carries its sender's block counter, and its number is larger ----------------------------------------


@pytest.mark.parametrize(("variant", "right"), [("requests without a number", False), ("", True)], indirect=["variant"])
def test_9_2_rule_1_a_request_is_numbered_above_what_happened_before_it(variant: str, right: bool) -> None:
    """b has sent in h; what would tell the sequencer of it otherwise (Emit) is lost."""
    hands = asymmetric(transport="lossy")
    hands.say("b", "h", "1", "2", "3")
    hands.say("b", "g", "m")
    hands.carry(lose=carries(Emit), keep=link("b", "c"))
    assert (hands.block("m") > hands.block("3")) == right
    hands.rest()
    assert hands.undelivered() == []
    assert (hands.causal_violations() == []) == right


# --- rule 2: with a request under way, nothing is sent elsewhere -----------------------------------------------------------


@pytest.mark.parametrize(("variant", "right"), [("sends meanwhile", False), ("", True)], indirect=["variant"])
def test_9_2_rule_2_a_later_message_of_its_sender_does_not_get_a_smaller_number(variant: str, right: bool) -> None:
    hands = asymmetric()
    hands.say("s", "g", "1", "2")
    slow = link("s", "b")
    hands.say("b", "g", "m")
    hands.say("b", "h", "n")
    assert ("n" in hands.senders) == (not right), "it waits in b's queue"
    hands.carry(keep=slow)
    hands.rest()
    assert "m" in hands.causes["n"]
    assert (hands.block("n") > hands.block("m")) == right
    assert hands.undelivered() == []
    assert (hands.causal_violations() == []) == right
    assert not right or hands.delivered("c") == ["1", "2", "m", "n"]


def test_9_2_rule_2_a_sequencer_goes_on_numbering_others_requests_meanwhile() -> None:
    """s is sequencer of g and has a request of its own under way in k: only its own messages wait."""
    hands = ByHand({"g": "s b", "k": "t s b"}, order="total", sequencers={"g": "s", "k": "t"})
    hands.say("s", "k", "own")
    hands.say("s", "g", "waits")
    hands.say("b", "g", "numbered")
    hands.carry(keep=to("t"))
    assert "numbered" in hands.data
    assert "waits" not in hands.data
    hands.rest()
    assert hands.in_order()
    assert hands.order_violations() == []


# --- rule 3: silent members, idle sequencers -------------------------------------------------------------------------------


def test_9_2_rule_3_who_only_delivers_advances_its_counter_by_delivery() -> None:
    counters = {}
    for variant in ("", "without CA2"):
        with VARIANTS[variant].applied(must_act=True):
            hands = ByHand({"g": "s b c"}, order="total", sequencers={"g": "s"})
            hands.say("s", "g", "1", "2", "3")
            hands.rest()
        assert hands.delivered("c") == ["1", "2", "3"]
        counters[variant] = hands["c"].counter
    assert counters == {"": 3, "without CA2": 0}


@pytest.mark.parametrize("name", MIXTURES)
def test_9_2_rule_3_numbers_do_not_depend_on_it(name: str) -> None:
    """What is delivered is complete in all groups: a sequencer's counter is as large there, elsewhere one's own is."""
    groups, sequencers = MIXTURES[name]
    for seed in range(3):
        runs = []
        for variant in ("", "without CA2"):
            with VARIANTS[variant].applied(must_act=True):
                hands = ByHand(groups, order="total", sequencers=sequencers)
                for _ in hands.wander(Random(seed), 200):
                    pass
                hands.rest()
            runs.append({text: packet.block for text, packet in hands.data.items()})
        assert runs[0] == runs[1]


@pytest.mark.parametrize(("variant", "right"), [("without Emit", False), ("", True)], indirect=["variant"])
def test_9_2_rule_3_an_idle_sequencer_is_asked_for_a_number(variant: str, right: bool) -> None:
    """A message in h can be delivered when g's blocks up to its number are complete, and nobody sends in g."""
    hands = asymmetric()
    hands.say("b", "h", "m")
    hands.rest()
    assert (hands.delivered("c") == ["m"]) == right
    assert bool(hands.waiting()) == (not right)
    assert not right or [null.block for null in hands.sent("s", Null)] == [hands.block("m")]


def test_9_2_rule_3_a_lost_emit_is_repeated() -> None:
    hands = asymmetric(transport="lossy")
    hands.say("b", "h", "m")
    hands.carry(lose=carries(Emit))
    assert hands.delivered("c") == []
    hands.rest()
    assert hands.in_order()


# --- symmetric and asymmetric groups together ------------------------------------------------------------------------------


@pytest.mark.parametrize("name", MIXTURES)
def test_9_2_total_order_holds_where_symmetric_and_asymmetric_groups_overlap(name: str) -> None:
    groups, sequencers = MIXTURES[name]
    for seed in range(6):
        hands = ByHand(groups, order="total", sequencers=sequencers)
        for _ in hands.wander(Random(seed), 200, timers=0.2):
            pass
        hands.rest()
        assert hands.order_violations() == []
        assert hands.in_order()
        assert len(hands.data) == 30
        assert not hands.waiting()


@pytest.mark.parametrize("name", MIXTURES)
def test_9_2_the_same_over_a_network_that_loses_and_overtakes(name: str) -> None:
    groups, sequencers = MIXTURES[name]
    for seed in range(3):
        hands = ByHand(groups, order="total", sequencers=sequencers, transport="lossy")
        for _ in hands.wander(Random(seed), 250, timers=0.2, loss=0.15):
            pass
        hands.rest()
        assert hands.order_violations() == []
        assert hands.in_order()
        assert len(hands.data) == 30
        assert not hands.waiting()


@pytest.mark.parametrize("order", ["slow", "fast", "relative", "cbcast"])
def test_9_2_an_asymmetric_group_beside_a_causal_one_keeps_causality(order: str) -> None:
    """m has come back numbered and is not delivered when its sender sends n in the other group."""
    hands = ByHand(GROUPS, orders={"g": "total", "h": order}, sequencers={"g": "s"})
    hands.say("b", "g", "m")
    hands.say("b", "h", "n")
    hands.carry(keep=link("s", "c"))
    assert hands.causes["n"] == {"m"}
    assert hands.delivered("c") == []
    hands.rest()
    assert hands.delivered("c") == ["m", "n"]


@pytest.mark.parametrize("bound", [3, 8])
def test_9_2_flow_control_of_an_asymmetric_group_bounds_what_members_hold(bound: int) -> None:
    hands = asymmetric(blocks=bound)
    for name in "sbc":
        hands.say(name, "g", *(f"{name}{number}" for number in range(10)))
    for _ in hands.wander(Random(bound), 800, messages=0, timers=0.2):
        for name, part in hands.parts():
            part.flow.refresh()
            assert part.flow.unstable <= bound, name
    hands.rest()
    assert len(hands.data) == 30
    assert hands.in_order()
