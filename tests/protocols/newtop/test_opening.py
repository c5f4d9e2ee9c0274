"""A group that is formed while its members are in others already begins where the furthest of them is."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from plainchant.core.model import Form
from plainchant.protocols.newtop.packets import Null
from tests.protocols.newtop.by_hand import ByHand, name_of

LATE = ("p", "q", "r")


def far_apart(**parameters: Any) -> ByHand:
    """p has delivered 20 messages of g1 and q none: their packets to q are under way."""
    hands = ByHand({"g1": "p q s"}, **parameters)
    add(hands, "r", **parameters)
    hands.groups["g2"] = LATE
    hands.say("s", "g1", *(f"s{number}" for number in range(20)))
    hands.say("q", "g1", *(f"q{number}" for number in range(20)))
    hands.carry(keep=lambda letter: letter.target == "q")
    while (due := hands.next_timer()) is not None and not hands.delivered("p"):
        hands.expire(*due[1:])
        hands.carry(keep=lambda letter: letter.target == "q")
    return hands


def add(hands: ByHand, name: str, **parameters: Any) -> None:
    """A process that is in no group yet."""
    other = ByHand({"alone": name}, **parameters)
    other.processes[name].parts.clear()
    hands.processes[name], hands.hosts[name] = other.processes[name], other.hosts[name]
    hands.hosts[name]._hands = hands


def test_who_has_got_far_elsewhere_and_who_has_not_deliver_in_one_order() -> None:
    hands = far_apart()
    assert len(hands.delivered("p")) == 40
    assert not hands.delivered("q")
    for name in LATE:
        hands[name].join("g2", Form(LATE))
    hands.say("r", "g2", "late")
    assert [packet.block for packet in hands.sent("r", Null, "g2")] == [1]
    assert [packet.block for packet in hands.sent("p", Null, "g2")] == [hands["p"].counter]
    assert "late" not in hands.data  # r has not heard the others yet
    hands.rest()
    assert hands.block("late") > 20
    assert hands.delivered("p") == hands.delivered("q")
    assert hands.delivered("q")[-1] == "late"
    assert not hands.waiting()


def test_without_the_opening_they_would_not() -> None:
    hands = far_apart()
    for name in LATE:
        hands[name].join("g2", Form(LATE, fresh=True))
    hands.say("r", "g2", "late")
    hands.rest()
    assert hands.block("late") == 1
    assert hands.delivered("p")[-1] == "late"
    assert "late" in hands.delivered("q")[:3]  # among those with block 1


@pytest.mark.parametrize("sequencer", LATE)
def test_the_sequencer_of_an_asymmetric_group_waits_for_all(sequencer: str) -> None:
    parameters: dict[str, Any] = {"sequencers": {"g2": sequencer}}
    hands = far_apart(**parameters)
    hands["r"].join("g2", Form(LATE))
    hands.say("r", "g2", "late")
    hands.carry(keep=lambda letter: letter.target == "q")
    assert "late" not in hands.data
    for name in ("p", "q"):
        hands[name].join("g2", Form(LATE))
    hands.rest()
    assert hands.block("late") > 20
    assert hands.delivered("p") == hands.delivered("q")


@pytest.mark.parametrize(
    "parameters",
    [{}, {"transport": "lossy"}, {"order": "slow"}, {"order": "fast"}, {"order": "relative"}, {"silence_by": "adaptive"}],
    ids=name_of,
)
def test_groups_that_are_formed_at_any_time_keep_the_order(parameters: dict[str, Any]) -> None:
    loss = 0.1 if parameters.get("transport") == "lossy" else 0.0
    for seed in range(12):
        random = Random(f"opening {seed}")
        hands = ByHand({"g1": "p q s"}, **parameters)
        add(hands, "r", **parameters)
        late = list(LATE)
        random.shuffle(late)
        for step, _ in enumerate(hands.wander(random, 150, messages=40, loss=loss)):
            if late and step > 20 and random.random() < 0.1:
                hands.groups["g2"] = LATE
                hands[late.pop()].join("g2", Form(LATE))
            if len(late) < 3 and random.random() < 0.1:
                hands.groups["g2"] = tuple(name for name in LATE if name not in late)
        for name in late:
            hands[name].join("g2", Form(LATE))
        hands.groups["g2"] = LATE
        hands.say("r", "g2", "last")
        hands.rest(most=3_000)
        assert not hands.waiting(), (seed, hands.waiting())
        assert not hands.causal_violations(), seed
        if parameters.get("order", "total") == "total":
            assert not hands.order_violations(), seed
