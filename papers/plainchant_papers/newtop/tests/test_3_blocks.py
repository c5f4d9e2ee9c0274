"""Paper 001, chapter 3: block counters, Causal Blocks, the Block Matrix, completion, missing messages.

Tests are named after the section whose statement they check. Statements about all runs are checked after every step of random
runs, against what happened before what as the events themselves show it (``newtop_by_hand``).
"""

from __future__ import annotations

from itertools import combinations
from random import Random
from typing import Any

import pytest

from plainchant.core.model import Batch
from plainchant.protocols.newtop.matrix import BlockMatrix
from plainchant.protocols.newtop.packets import Again, Ask, Data, Null
from tests.protocols.newtop.by_hand import ORDERS, SHAPES, ByHand, link, name_of, to

by_order = pytest.mark.parametrize("parameters", ORDERS, ids=name_of)
by_shape = pytest.mark.parametrize("groups", SHAPES.values(), ids=list(SHAPES))

FIGURE_3_1 = {"p1": (1, 3, 4), "p2": (2, 5), "p3": (3,), "p4": (1, 3), "p5": (2, 4), "p6": (2,)}


def message(block: int, previous: int = 0) -> Data:
    return Data("g", block, previous, block, 0, 0, 0, Batch(block, 1, b""))


def figure(columns: dict[str, tuple[int, ...]]) -> BlockMatrix:
    """A matrix with these messages in it, received over a FIFO transport."""
    matrix = BlockMatrix(list(columns), fifo=True)
    for process, blocks in columns.items():
        for block in blocks:
            matrix.represent(matrix.columns[process], message(block))
    return matrix


# --- 3.2 Block counters ------------------------------------------------------------------------------------------------


@by_order
@by_shape
def test_3_2_pr1_pr2_pr3_over_random_runs(groups: dict[str, str], parameters: dict[str, Any]) -> None:
    causes = equal = 0
    for seed in range(2):
        hands = ByHand(groups, **parameters)
        for _ in hands.wander(Random(seed), 250):
            pass
        hands.rest()
        for cause, text in hands.pairs():
            assert hands.block(cause) < hands.block(text), "pr1 and pr2: m -> m' implies m.b < m'.b"
            causes += 1
        for one, other in combinations(hands.data, 2):
            if hands.block(one) == hands.block(other):
                assert hands.concurrent(one, other), "pr3"
                assert hands.senders[one] != hands.senders[other]
                equal += 1
    assert causes > 100
    assert equal > 5


def test_3_2_the_reverse_of_pr1_is_not_always_true() -> None:
    """The section's own example: m0 is received and not delivered when m1 and m2 are sent."""
    hands = ByHand({"g": "i j k"}, order="total")
    hands.say("j", "g", "m0")
    hands.carry(only=link("j", "i"))
    assert hands.delivered("i") == []
    hands.say("i", "g", "m1", "m2")
    assert hands.block("m0") == hands.block("m1") < hands.block("m2")
    assert hands.concurrent("m0", "m1")
    assert hands.concurrent("m0", "m2")


def test_3_2_counters_advance_on_delivery_and_not_on_receipt() -> None:
    hands = ByHand({"g": "i j k"}, order="fast", transport="lossy")
    hands.say("j", "g", "m1", "m2")
    first, second = (letter for letter in hands.mail if letter.target == "i")
    hands.bring(second)
    assert hands["i"].counter == 0, "m2 came before m1: it is here, but not delivered"
    hands.bring(first)
    assert hands["i"].counter == 2


# --- 3.3 Causal Blocks and the Block Matrix ------------------------------------------------------------------------------


@by_order
def test_3_3_PR1_PR2_rows_hold_concurrent_messages_and_causes_stand_in_rows_above(parameters: dict[str, Any]) -> None:
    rows = above = 0
    hands = ByHand(SHAPES["one"], **parameters)
    for _ in hands.wander(Random(1), 250):
        for _, part in hands.parts():
            kept = [packet for column in part.matrix.members for packet in column.kept if isinstance(packet, Data)]
            for one, other in combinations(kept, 2):
                texts = one.batch.body.decode(), other.batch.body.decode()
                if one.block == other.block:
                    assert hands.concurrent(*texts), "PR1"
                    rows += 1
                elif texts[0] in hands.causes[texts[1]] or texts[1] in hands.causes[texts[0]]:
                    first = texts[0] in hands.causes[texts[1]]
                    assert (one.block < other.block) == first, "PR2"
                    above += 1
    assert rows > 10
    assert above > 10


def test_3_3_fig_3_1_the_matrix_as_drawn() -> None:
    assert figure(FIGURE_3_1).picture() == (
        "    p1 p2 p3 p4 p5 p6\n"
        "  1  +  .  .  +  .  .\n"
        "  2  .  +  .  .  +  +\n"
        "  3  +  .  +  +  .  .\n"
        "  4  +  .  .  .  +  .\n"
        "  5  .  +  .  .  .  ."
    )


# --- 3.4 Block completion and 3.5 The Last Received Vector ---------------------------------------------------------------


def test_3_4_fig_3_1_block_2_is_complete_by_its_messages_and_by_those_with_block_3() -> None:
    matrix = figure(FIGURE_3_1)
    assert [block for block in range(1, 6) if matrix.is_complete(block)] == [1, 2]
    for process in FIGURE_3_1:
        fewer = {name: blocks if name != process else tuple(b for b in blocks if b < 2) for name, blocks in FIGURE_3_1.items()}
        assert not figure(fewer).is_complete(2), f"without {process}'s completive message it is not"


def test_3_5_fig_3_1_LRV_is_4_5_3_3_4_2_and_three_blocks_are_incomplete() -> None:
    matrix = figure(FIGURE_3_1)
    last = [column.last for column in matrix.members]
    assert last == [4, 5, 3, 3, 4, 2]
    assert (matrix.complete, matrix.largest) == (min(last), max(last)) == (2, 5)
    assert [block for block in range(1, 6) if not matrix.is_complete(block)] == [3, 4, 5]


def complete_by_definition(marks: dict[str, list[int]], block: int) -> bool:
    """3.4: everybody has a '+' in this row, or a blank and a '+' in a later one."""
    return all(any(mark >= block for mark in column) for column in marks.values())


@by_order
@pytest.mark.parametrize("groups", [SHAPES["one"], SHAPES["two"]], ids=["one", "two"])
def test_3_5_PR3_and_completion_in_order_over_FIFO(groups: dict[str, str], parameters: dict[str, Any]) -> None:
    """After every step, at every process: blocks are complete, by definition, up to min(LRV), and none after it."""
    hands = ByHand(groups, blocks=0, **parameters)
    incomplete = 0
    for _ in hands.wander(Random(2), 100):
        for _, part in hands.parts():
            matrix = part.matrix
            last = [column.last for column in matrix.members]
            assert matrix.complete == min(last)
            assert matrix.largest == max(last)
            for block in range(max(1, matrix.complete - 2), matrix.largest + 2):
                marks = {column.process: [packet.block for packet in column.kept] + [column.last] for column in matrix.members}
                assert complete_by_definition(marks, block) == (block <= matrix.complete) == matrix.is_complete(block)
            incomplete += matrix.largest - matrix.complete > 2
    assert incomplete > 20


# --- 3.6 Message ordering -------------------------------------------------------------------------------------------------


def test_3_6_CO1_messages_with_block_1_are_delivered_on_arrival_in_causal_order() -> None:
    hands = ByHand({"g": "a b c"}, order="slow")
    hands.say("a", "g", "m")
    hands.carry(only=link("a", "b"))
    assert hands.delivered("b") == ["m"]
    assert hands.matrix("b", "g").complete == 0


def test_3_6_CO2_messages_of_a_block_wait_until_the_block_before_it_is_complete_and_delivered() -> None:
    hands = ByHand({"g": "a b c"}, order="slow")
    hands.say("a", "g", "m1", "m2")
    hands.carry(only=link("a", "b"))
    assert hands.delivered("b") == ["m1"]
    hands.say("c", "g", "m3")
    hands.carry(only=link("c", "b"))
    assert hands.delivered("b") == ["m1", "m3"], "b itself has sent nothing with block 1 yet"
    hands.expire("b", ("silence", "g"))
    assert hands.delivered("b") == ["m1", "m3", "m2"]


def test_3_6_TO1_a_block_is_delivered_in_one_fixed_order_when_it_is_complete() -> None:
    hands = ByHand({"g": "a b c"}, order="total")
    hands.say("a", "g", "ma")
    hands.say("c", "g", "mc")
    hands.carry(only=to("b"))
    assert hands.delivered("b") == []
    hands.expire("b", ("silence", "g"))
    assert hands.matrix("b", "g").complete == 1
    assert sorted(hands.delivered("b")) == ["ma", "mc"]
    hands.rest()
    assert hands.delivered("a") == hands.delivered("b") == hands.delivered("c")


def test_3_6_TO2_messages_of_a_block_are_delivered_after_those_of_the_block_before_it() -> None:
    hands = ByHand({"g": "a b"}, order="total")
    hands.say("a", "g", "m1", "m2")
    hands.say("b", "g", "n1", "n2")
    hands.rest()
    for name in "ab":
        assert [hands.block(text) for text in hands.delivered(name)] == [1, 1, 2, 2]


def test_3_6_total_order_over_random_runs() -> None:
    for seed in range(10):
        hands = ByHand(SHAPES["one"], order="total")
        for _ in hands.wander(Random(seed), 200):
            pass
        hands.rest()
        assert hands.in_order()
        assert hands.order_violations() == []


# --- 3.7 Missing messages -------------------------------------------------------------------------------------------------


def missing(third: Data | None = None) -> BlockMatrix:
    """Fig. 3.4: of p3's messages that with block 3 is missing."""
    matrix = BlockMatrix(("p1", "p2", "p3", "p4"))
    for process, blocks in {"p1": (1, 3, 5), "p2": (2, 4), "p4": (1, 5)}.items():
        for previous, block in zip((0, *blocks), blocks, strict=False):
            matrix.represent(matrix.columns[process], message(block, previous))
    matrix.represent(matrix.columns["p3"], message(1))
    matrix.represent(matrix.columns["p3"], message(4, previous=3))
    if third is not None:
        matrix.represent(matrix.columns["p3"], third)
    return matrix


def test_3_7_fig_3_4_block_4_is_complete_and_2_and_3_are_not() -> None:
    matrix = missing()
    assert matrix.picture() == (
        "    p1 p2 p3 p4\n  1  +  .  +  +\n  2  .  +  .  .\n  3  +  .  -  .\n  4  .  +  +  .\n  5  +  .  .  +"
    )
    assert [block for block in range(1, 6) if matrix.is_complete(block)] == [1, 4]
    assert matrix.complete == 1, "deliveries go by the complete prefix"


def test_3_7_fig_3_4_whether_there_was_a_block_2_is_known_when_block_3_is_here() -> None:
    without = missing(message(3, previous=1))
    assert [block for block in range(1, 6) if without.is_complete(block)] == [1, 2, 3, 4]
    assert without.complete == 4
    there_is = missing(message(3, previous=2))
    assert there_is.columns["p3"].minus() == [2]
    assert [block for block in range(1, 6) if there_is.is_complete(block)] == [1, 3, 4]
    assert there_is.complete == 1


def test_3_7_the_minimum_of_what_was_received_is_not_completion_where_there_are_gaps() -> None:
    matrix = missing()
    largest = [max(column.plus()) for column in matrix.members]
    assert min(largest) == 4
    assert matrix.complete == 1


def test_3_7_a_message_says_which_one_came_before_it_in_its_group() -> None:
    hands = ByHand({"g1": "a b", "g2": "a c"}, order="total", transport="lossy")
    hands.say("a", "g1", "m1")
    hands.say("a", "g2", "m2")
    hands.say("a", "g1", "m3")
    chains: dict[str, int] = {}
    for name, packet in hands.multicasts:
        if name == "a":
            assert packet.previous == chains.get(packet.group, 0)
            chains[packet.group] = packet.block
    assert hands.data["m3"].previous == 2, "the null of 4.4 that m2 brought into g1"


def test_3_7_when_a_minus_is_entered_the_source_is_asked_at_once() -> None:
    hands = ByHand({"g": "a b c"}, order="fast", transport="lossy")
    hands.say("a", "g", "m1", "m2")
    hands.mail = [letter for letter in hands.mail if letter.target == "b" and letter.packet.block == 2]
    hands.carry(only=to("b"))
    assert hands.matrix("b", "g").columns["a"].minus() == [1]
    (ask,) = hands.sent("b", Ask)
    assert (ask.source, ask.after, ask.last) == ("a", 0, 1)
    assert hands.mail[0].target == "a"
    hands.carry()
    assert hands.delivered("b") == ["m1", "m2"]
    assert len(hands.sent("a", Again)) == 1


def test_3_7_who_does_not_get_an_answer_asks_another_than_the_source() -> None:
    hands = ByHand({"g": "a b c"}, order="fast", transport="lossy")
    hands.say("a", "g", "m1")
    hands.carry(lose=to("b"))
    hands.say("a", "g", "m2")
    deaf = link("b", "a")
    hands.carry(lose=deaf)
    assert hands.delivered("b") == []
    hands.expire("b", ("ask", "g", "a"))
    hands.carry(lose=deaf)
    (again,) = hands.sent("c", Again)
    assert (again.source, again.packet) == ("a", hands.data["m1"])
    assert hands.sent("a", Again) == []
    assert hands.delivered("b") == ["m1", "m2"]


def test_3_7_who_has_a_message_can_give_it_to_others_until_it_is_stable() -> None:
    hands = ByHand({"g": "a b c"}, order="total", transport="lossy")
    hands.say("a", "g", "m1")
    hands.carry(lose=to("b"))
    assert [packet.block for packet in hands.matrix("c", "g").columns["a"].kept] == [1]
    hands.rest()
    hands.say("a", "g", "m2")
    hands.rest()
    hands.say("a", "g", "m3")
    hands.rest()
    kept = [packet.block for packet in hands.matrix("c", "g").columns["a"].kept]
    assert kept == [3], "what everybody has said to have is forgotten"
    assert hands.delivered("b") == ["m1", "m2", "m3"]


@pytest.mark.parametrize("order", ["total", "slow", "fast", "relative", "cbcast"])
def test_3_7_the_last_message_of_a_burst_is_missed_by_nobody(order: str) -> None:
    """Nothing later names it as its predecessor: whoever sees its block stay incomplete probes."""
    hands = ByHand({"g": "a b c"}, order=order, transport="lossy")
    hands.say("a", "g", "m1")
    hands.rest()
    hands.say("a", "g", "m2")
    hands.carry(lose=to("b"))
    assert hands.matrix("b", "g").columns["a"].minus() == []
    hands.rest()
    assert hands.delivered("b") == ["m1", "m2"]
    assert any(hands.records(name, "probe") for name in "abc")
    assert not hands.waiting()


def test_3_7_the_only_message_is_missed_by_nobody_even_if_everybody_missed_it() -> None:
    hands = ByHand({"g": "a b c"}, order="total", transport="lossy")
    hands.say("a", "g", "m")
    hands.carry(lose=lambda letter: True)
    hands.rest()
    assert [hands.delivered(name) for name in "abc"] == [["m"]] * 3


def test_3_7_a_message_that_comes_twice_or_late_is_delivered_once() -> None:
    hands = ByHand({"g": "a b c"}, order="fast", transport="lossy")
    hands.say("a", "g", "m1", "m2")
    letters = [letter for letter in hands.mail if letter.target == "b"]
    for letter in (letters[1], letters[0], letters[0], letters[1]):
        hands.bring(letter)
    assert hands.delivered("b") == ["m1", "m2"]
    assert hands.matrix("b", "g").held() == 2


@by_order
def test_3_7_random_runs_over_a_network_that_loses_and_overtakes(parameters: dict[str, Any]) -> None:
    asked = 0
    for seed in range(4):
        hands = ByHand(SHAPES["two"], transport="lossy", **parameters)
        for _ in hands.wander(Random(seed), 250, loss=0.2):
            for _, part in hands.parts():
                assert all(part.matrix.is_complete(block) for block in range(1, part.matrix.complete + 1))
        hands.rest()
        assert hands.in_order()
        assert not hands.waiting()
        assert parameters["order"] != "total" or hands.order_violations() == []
        asked += hands.count(Ask)
    assert asked > 20


def test_3_7_nulls_are_repaired_like_messages() -> None:
    hands = ByHand({"g": "a b c"}, order="total", transport="lossy")
    hands.say("a", "g", "m1")
    hands.carry(only=to("b", "c"))
    hands.expire("b", ("silence", "g"))
    (null,) = hands.sent("b", Null)
    hands.carry(lose=lambda letter: letter.packet is null and letter.target == "c")
    hands.rest()
    assert hands.delivered("c") == ["m1"]
