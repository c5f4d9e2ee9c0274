"""When a process is at rest: every member has what it sent, whatever signs of life are under way."""

from __future__ import annotations

import pytest

from plainchant.core.model import MS

from .by_hand import link
from .members_by_hand import Changing


@pytest.mark.parametrize("order", ["total", "fast"])
def test_a_sender_is_not_at_rest_before_every_member_has_its_message(order: str) -> None:
    """b shows that it lives at the moment when a sends: the block is complete at a, and b knows of no message."""
    hands = Changing("a b", order=order)
    hands.say("a", "g", "m")
    hands["b"]._null(hands.part("b", "g"), 1, "alive")
    hands.carry(lose=link("a", "b"))
    assert hands.delivered("a") == ["m"]
    assert hands.matrix("a", "g").complete == 1
    assert {name: reason.code for name, reason in hands.waiting().items()} == {"a": "unstable"}
    hands.pass_time(1000 * MS)
    assert hands.delivered("b") == ["m"]
    assert not hands.waiting()


def test_signs_of_life_that_overtake_each_other_keep_no_process_from_rest() -> None:
    """The first of two null messages of a is late. b would deliver nothing more if it came."""
    hands = Changing("a b")
    part = hands.part("a", "g")
    hands["a"]._null(part, 1, "alive")
    late, hands.mail = hands.mail, []
    hands["a"]._null(part, 2, "alive")
    hands.carry(lose=link("b", "a"))
    assert hands.matrix("b", "g").columns["a"].gaps() == [(0, 1)]
    assert not hands.waiting()
    hands.mail += late
    hands.carry()
    assert not hands.matrix("b", "g").columns["a"].gaps()
    assert not hands.waiting()


def test_a_gap_before_a_message_keeps_a_process_from_rest() -> None:
    hands = Changing("a b")
    hands.say("a", "g", "first")
    hands.mail.clear()
    hands.say("a", "g", "second")
    hands.carry(lose=link("b", "a"))
    assert hands.waiting()["b"].code == "gap"
