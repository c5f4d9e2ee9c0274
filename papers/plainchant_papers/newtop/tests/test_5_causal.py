"""Paper 001, chapter 5: the three causal orders, what their vectors say, and where the chapter is wrong as printed."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from plainchant.protocols.newtop.packets import Data, Null
from plainchant.scenario.model import Workload
from plainchant_papers.newtop.variants import VARIANTS
from tests.protocols.newtop.by_hand import CAUSAL, ORDERS, SHAPES, ByHand, link, name_of, to
from tests.protocols.newtop.runs import mean_delay, simulate, uneven

by_shape = pytest.mark.parametrize("groups", SHAPES.values(), ids=list(SHAPES))

TOTAL, SLOW, FAST, COMPACT, RELATIVE, CBCAST = ORDERS
FIGURE_5_1 = {"g1": "p1 p2 p3 p4", "g2": "p3 p4 p5 p6", "g3": "p5 p6 p7 p8", "g4": "p1 p2 p7 p8"}
WIDE = {name: SHAPES[name] for name in ("one", "two", "star", "clique")} | {"figure 5.1": FIGURE_5_1}
"""Groups with more than two members, where messages do overtake their causes."""
FOREIGN = {"g1": "i j k", "g3": "j k"}
"""i is in g1 alone; k and j also talk in g3."""


def late(hands: ByHand) -> list[tuple[str, str]]:
    """Messages that are here and not delivered although everything that happened before them is."""
    found = []
    for name, part in hands.parts():
        for column in part.matrix.members:
            if column.queue:
                text = column.queue[0].batch.body.decode()
                mine = {cause for cause in hands.causes[text] if name in hands.groups[hands.data[cause].group]}
                if mine <= set(hands.delivered(name)):
                    found.append((name, text))
    return found


# --- 5.1 Representing causal relationship precisely -----------------------------------------------------------------------


def ldv(packet: Data) -> tuple[int, ...]:
    (group, numbers), *others = packet.vector
    assert group == packet.group
    assert not others, "there is one group only"
    return numbers


@pytest.mark.parametrize("seed", range(6))
def test_5_1_pr1_pr2_pr3_LDV_is_as_precise_as_vector_clocks(seed: int) -> None:
    hands = ByHand(SHAPES["one"], order="relative", blocks=0)
    for _ in hands.wander(Random(seed), 300, timers=0.0):
        pass
    place = {name: index for index, name in enumerate(hands.groups["g"])}
    before = apart = 0
    for text, packet in hands.data.items():
        assert packet.block == max(ldv(packet)) + 1, "pr1"
        for cause, other in hands.data.items():
            if cause != text:
                less = all(a <= b for a, b in zip(ldv(other), ldv(packet), strict=True)) and ldv(other) != ldv(packet)
                represented = less and other.block <= ldv(packet)[place[hands.senders[cause]]]
                assert represented == (cause in hands.causes[text]), "pr2, and with it pr3"
                before += represented
                apart += hands.concurrent(cause, text)
    assert before > 50
    assert apart > 20


@pytest.mark.parametrize("seed", range(4))
def test_5_1_LDV_and_vector_clocks_deliver_at_the_same_moments(seed: int) -> None:
    calls = []
    for parameters in (RELATIVE, FAST, CBCAST):
        hands = ByHand(SHAPES["one"], blocks=0, **parameters)
        for _ in hands.wander(Random(seed), 300, timers=0.0):
            pass
        calls.append([host.called("deliver") for host in hands.hosts.values()])
    assert calls[0] == calls[1] == calls[2]


def test_5_1_pr1_with_time_silence_a_null_may_have_raised_the_counter_above_LDV() -> None:
    """The section has no null messages; with them pr1 is an inequality, and what follows from it still holds."""
    hands = ByHand({"g": "a b c"}, order="relative", transport="lossy")
    hands.say("a", "g", "m1", "m2")
    hands.mail = [letter for letter in hands.mail if letter.target == "b" and letter.packet.block == 2]
    hands.carry(only=link("a", "b"))
    hands.expire("b", ("silence", "g"))
    assert [null.block for null in hands.sent("b", Null)] == [2]
    hands.say("b", "g", "n")
    assert hands.block("n") == 3 > max(ldv(hands.data["n"])) + 1


# --- 5.2 Causal order in overlapping groups -------------------------------------------------------------------------------


def round_the_cycle(**parameters: Any) -> ByHand:
    """m1 in g1 -> m2 in g2 -> m3 in g3 -> m4 in g4; m1 has not reached p2 when m4 has."""
    hands = ByHand(FIGURE_5_1, **parameters)
    slow = link("p1", "p2")
    chain = (("p1", "g1"), ("p3", "g2"), ("p6", "g3"), ("p7", "g4"))
    for number, (sender, group) in enumerate(chain, 1):
        assert number == 1 or f"m{number - 1}" in hands.delivered(sender)
        hands.say(sender, group, f"m{number}")
        hands.rest(keep=slow)
    assert hands.causes["m4"] == {"m1", "m2", "m3"}
    return hands


@pytest.mark.parametrize("parameters", ORDERS, ids=name_of)
def test_5_2_fig_5_1_m1_before_m4(parameters: dict[str, Any]) -> None:
    hands = round_the_cycle(**parameters)
    assert hands.delivered("p2") == []
    assert "m4" in hands.delivered("p8")
    hands.rest()
    assert hands.delivered("p2") == ["m1", "m4"]
    assert hands.in_order()


@pytest.mark.usefixtures("variant")
@pytest.mark.parametrize("variant", ["truncated GLDV"], indirect=True)
def test_5_2_without_cycles_it_is_enough_to_carry_what_concerns_the_senders_own_groups() -> None:
    """In a chain the truncated update does no harm."""
    for seed in range(10):
        hands = ByHand(SHAPES["chain"], order="fast", vectors="compact")
        for _ in hands.wander(Random(seed), 200):
            pass
        hands.rest()
        assert hands.in_order()


def test_5_5_with_the_truncated_update_information_is_lost_round_a_cycle() -> None:
    with VARIANTS["truncated GLDV"].applied(must_act=True):
        hands = round_the_cycle(order="fast", vectors="compact")
    assert "p1" not in dict(hands.data["m3"].vector), "p6 shares no group with p1"
    assert hands.delivered("p2") == ["m4"], "before m1, which is still under way"
    whole = round_the_cycle(order="fast", vectors="compact")
    assert dict(whole.data["m4"].vector)["p1"] == (whole.block("m1"),)


# --- 5.3 The property -----------------------------------------------------------------------------------------------------


@by_shape
@pytest.mark.parametrize("parameters", CAUSAL, ids=name_of)
def test_5_3_causal_order_delivery_over_random_runs(groups: dict[str, str], parameters: dict[str, Any]) -> None:
    for seed in range(2):
        hands = ByHand(groups, **parameters)
        for _ in hands.wander(Random(seed), 200):
            pass
        hands.rest()
        assert hands.causal_violations() == []
        assert hands.undelivered() == []
        assert not hands.waiting()


@by_shape
def test_5_3_groups_with_different_orders_may_overlap(groups: dict[str, str]) -> None:
    """An order is chosen for each group; causality holds across all of them."""
    names = ("total", "slow", "fast", "relative", "cbcast")
    for seed in range(5):
        random = Random(seed)
        orders = {group: random.choice(names) for group in groups}
        hands = ByHand(groups, orders=orders, vectors=random.choice(("keyed", "compact")))
        for _ in hands.wander(random, 200, timers=0.2):
            pass
        hands.rest()
        assert hands.causal_violations() == []
        assert hands.undelivered() == []
        assert not hands.waiting()


# --- 5.4 Slow -------------------------------------------------------------------------------------------------------------


def test_5_4_slow_delivers_the_block_after_the_last_complete_one_and_no_further() -> None:
    hands = ByHand({"g1": "a b", "g2": "b c"}, order="slow")
    hands.say("a", "g1", "m1", "m2")
    hands.carry(only=link("a", "b"))
    assert hands["b"].delivery.complete == 0
    assert hands.delivered("b") == ["m1"], "Bmin + 1"
    hands.rest()
    assert hands.delivered("b") == ["m1", "m2"]


def test_5_4_slow_delivers_concurrent_messages_in_any_order() -> None:
    hands = ByHand({"g": "a b c d"}, order="slow")
    hands.say("a", "g", "ma")
    hands.say("d", "g", "md")
    hands.carry(only=link("a", "b"))
    hands.carry(only=link("d", "c"))
    hands.rest()
    assert hands.delivered("b") == ["ma", "md"]
    assert hands.delivered("c") == ["md", "ma"]


# --- 5.5 Fast -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("groups", WIDE.values(), ids=list(WIDE))
@pytest.mark.parametrize("parameters", [FAST, CBCAST], ids=name_of)
def test_5_5_keyed_vectors_and_CBCAST_deliver_as_early_as_possible(groups: dict[str, str], parameters: dict[str, Any]) -> None:
    """After no step is there a message that could have been delivered."""
    waits = 0
    for seed in range(3):
        hands = ByHand(groups, **parameters)
        for _ in hands.wander(Random(seed), 250, timers=0.05):
            assert late(hands) == []
            waits += any(column.queue for _, part in hands.parts() for column in part.matrix.members)
    assert waits > 10


def foreign(**parameters: Any) -> ByHand:
    """k sends in g3 up to block 7, j delivers it and sends m in g1."""
    hands = ByHand(FOREIGN, order="fast", **parameters)
    hands.say("k", "g3", *"1234567")
    hands.carry(only=link("k", "j"))
    assert hands.block("7") == 7
    assert hands.delivered("j") == list("1234567")
    hands.say("j", "g1", "m")
    return hands


def test_5_5_as_early_as_possible_is_false_as_printed_for_foreign_groups() -> None:
    """i never gets anything from k with number 7: m is never delivered there, although nothing before it concerns i."""
    with VARIANTS.together("GLDV of messages alone", "no second liveness").applied(must_act=True):
        hands = foreign(vectors="compact")
        assert dict(hands.data["m"].vector)["k"] == (7,)
        hands.rest()
    assert hands.delivered("i") == []
    assert hands.waiting()["i"].code == "undelivered"
    assert hands.delivered("k") == [*"1234567", "m"]


def test_5_5_remedy_one_vectors_keyed_by_group_deliver_at_once() -> None:
    hands = foreign(vectors="keyed")
    hands.carry(only=link("j", "i"))
    assert hands.delivered("i") == ["m"]


def test_5_5_remedy_two_the_nulls_of_4_4_end_the_wait() -> None:
    hands = foreign(vectors="compact")
    hands.carry(only=link("j", "i"))
    assert hands.delivered("i") == [], "it cannot know that 7 was not for it"
    (wait,) = hands.records("i", "block")
    assert wait["waits_for"] == "k up to 7"
    assert [null.block for null in hands.sent("k", Null, "g1")][-1] == 7, "sent with the message in g3, not asked for"
    hands.carry(only=link("k", "i"))
    assert hands.delivered("i") == ["m"], "k's nulls have the time that a message takes, no more"


def test_5_5_the_compact_form_sometimes_waits_for_what_it_need_not() -> None:
    waited = 0
    for seed in range(5):
        hands = ByHand(SHAPES["two"], order="fast", vectors="compact")
        for _ in hands.wander(Random(seed), 200):
            waited += len(late(hands))
        hands.rest()
        assert hands.in_order()
    assert waited > 0


@pytest.mark.parametrize("shape", [name for name in SHAPES if name != "one"])
def test_5_5_GLDV_is_smaller_than_the_sum_of_the_groups_sizes_where_groups_overlap(shape: str) -> None:
    sizes = {}
    for parameters in (COMPACT, CBCAST, RELATIVE):
        hands = ByHand(SHAPES[shape], **parameters)
        for _ in range(3):
            for group, members in hands.groups.items():
                for name in members:
                    hands.say(name, group, f"{len(hands.data)}")
                    hands.rest()
        sizes[name_of(parameters)] = max(sum(len(numbers) for _, numbers in packet.vector) for packet in hands.data.values())
    total = sum(len(members.split()) for members in SHAPES[shape].values())
    processes = len({name for members in SHAPES[shape].values() for name in members.split()})
    assert sizes["fast-compact"] == processes < total == sizes["cbcast"]
    largest = max(len(members.split()) for members in SHAPES[shape].values())
    assert sizes["relative"] == largest + len(SHAPES[shape]) - 1, "LDV of the own group, a number for each other group"


def test_5_5_without_overlapping_GLDV_is_as_large_as_vector_clocks() -> None:
    for parameters in (COMPACT, CBCAST):
        hands = ByHand(SHAPES["one"], **parameters)
        for name in "abcda":
            hands.say(name, "g", f"{len(hands.data)}")
            hands.rest()
        assert sum(len(numbers) for _, numbers in hands.data["4"].vector) == 4


# --- 5.6 Relative ---------------------------------------------------------------------------------------------------------


def test_5_6_relative_is_as_early_as_possible_within_one_group() -> None:
    for seed in range(5):
        hands = ByHand(SHAPES["one"], order="relative")
        for _ in hands.wander(Random(seed), 250, timers=0.05):
            assert late(hands) == []


def test_5_6_relative_waits_for_blocks_of_other_groups_as_long_as_they_are_incomplete() -> None:
    hands = ByHand({"gx": "a b c", "gy": "b c d"}, order="relative")
    hands.say("a", "gx", "mx")
    hands.carry(only=link("a", "b"))
    hands.say("b", "gy", "my")
    hands.carry(only=link("a", "c"))
    hands.carry(only=link("b", "c"))
    assert hands.delivered("c") == ["mx"]
    assert late(hands) == [("c", "my")], "gx is not complete up to mx"
    hands.rest()
    assert hands.delivered("c") == ["mx", "my"]


TRAP = {"gx": "a c e i", "gy": "a c d i"}


def relative_trap() -> ByHand:
    """a delivers y1 to y7 and sends m in gx; c delivers x1 to x6 and sends m'' in gy."""
    hands = ByHand(TRAP, order="relative")
    hands.say("d", "gy", *(f"y{i}" for i in range(1, 8)))
    hands.say("e", "gx", *(f"x{i}" for i in range(1, 7)))
    hands.carry(only=link("d", "a"))
    hands.carry(only=link("e", "c"))
    hands.say("a", "gx", "m")
    hands.say("c", "gy", "m''")
    assert dict(hands.data["m"].vector)["gy"] == (7,)
    assert dict(hands.data["m''"].vector)["gx"] == (6,)
    hands.rest()
    return hands


@pytest.mark.usefixtures("variant")
@pytest.mark.parametrize("variant", ["counter a group"], indirect=True)
def test_5_6_liveness_is_false_as_printed_with_a_counter_a_group_relative_order_deadlocks() -> None:
    hands = relative_trap()
    assert (hands.block("m"), hands.block("m''")) == (1, 1)
    assert {"m", "m''"}.isdisjoint(hands.delivered("i")), "m waits for gy up to 7, m'' in it; m'' for gx up to 6, m in it"
    waits = {record["waits_for"] for record in hands.records("i", "block")}
    assert {"gy up to block 7", "gx up to block 6"} <= waits
    assert hands.waiting()["i"].code == "undelivered"


def test_5_6_with_one_counter_a_process_relative_order_does_not_deadlock() -> None:
    hands = relative_trap()
    assert (hands.block("m"), hands.block("m''")) == (8, 7)
    assert hands.in_order()
    assert not hands.waiting()


@pytest.mark.usefixtures("variant")
@pytest.mark.parametrize("variant", ["reversed inequality"], indirect=True)
def test_5_6_fig_5_5_the_inequality_is_reversed_as_printed() -> None:
    """As printed an effect is delivered before its cause, and what is concurrent with something delivered never is."""
    hands = ByHand({"g": "a b c"}, order="relative")
    hands.say("a", "g", "cause")
    hands.carry(only=link("a", "b"))
    hands.say("b", "g", "effect")
    hands.carry(only=link("b", "c"))
    assert hands.delivered("c") == ["effect"]
    stuck = ByHand({"g": "a b c"}, order="relative")
    stuck.say("a", "g", "m1")
    stuck.carry(only=link("a", "c"))
    stuck.say("b", "g", "m2")
    stuck.rest()
    assert stuck.delivered("c") == ["m1"], "m2 knows nothing of m1: its vector is smaller for ever"


def group_number() -> ByHand:
    """b delivers x2 (block 2) and then the concurrent y (block 1) in gx, and sends m in gy."""
    hands = ByHand({"gx": "a b c d", "gy": "b c"}, order="relative")
    hands.say("a", "gx", "x1", "x2")
    hands.say("d", "gx", "y")
    hands.carry(only=link("a", "b"))
    hands.carry(only=link("d", "b"))
    assert hands.delivered("b") == ["x1", "x2", "y"]
    hands.say("b", "gy", "m")
    last = hands.data["x2"]
    hands.rest(keep=lambda letter: letter.target == "c" and letter.source == "a" and letter.packet.block >= last.block, most=20)
    return hands


def test_5_6_GBN_of_the_messages_own_group_must_be_a_maximum() -> None:
    with VARIANTS["GBN assigned"].applied(must_act=True):
        printed = group_number()
    assert dict(printed.data["m"].vector)["gx"] == (1,)
    assert ("c", "x2", "m") in printed.causal_violations()
    right = group_number()
    assert dict(right.data["m"].vector)["gx"] == (2,)
    assert "m" not in right.delivered("c")
    right.rest()
    assert right.in_order()


# --- 5.7 The trade-off ----------------------------------------------------------------------------------------------------


def test_5_7_the_same_messages_are_delivered_earlier_by_fast_than_by_relative_than_by_slow() -> None:
    """Arrivals in one script; after how many of them the last message is delivered at c."""
    script = [link("b", "c"), link("d", "c"), link("a", "c")]
    moments = {}
    for parameters in ORDERS:
        hands = ByHand({"gx": "a b c", "gy": "b c d"}, **parameters)
        hands.say("a", "gx", "m1")
        hands.carry(only=link("a", "b"))
        hands.say("b", "gy", "m2")
        moments[name_of(parameters)] = 99
        for moment, arrival in enumerate([*script, to("a", "b", "d"), *script, to("a", "b", "c", "d")]):
            if moment == 3:
                for name, timer in [(name, timer) for name, host in hands.hosts.items() for timer in host.timers]:
                    hands.expire(name, timer)
            hands.carry(only=arrival)
            if "m2" in hands.delivered("c"):
                moments[name_of(parameters)] = min(moments[name_of(parameters)], moment)
    assert moments["fast"] == moments["cbcast"] <= moments["relative"] <= moments["slow"] <= moments["total"]
    assert moments["fast"] < moments["relative"]


@pytest.mark.parametrize("seed", range(2))
def test_5_7_mean_delays_fast_relative_slow_total(seed: int) -> None:
    """Over links with very different delays. (Of a single message it need not be true: who delivers earlier has more causes.)"""
    groups = {"g1": "a b c d", "g2": "c d e f", "g3": "a b e f"}
    means = {}
    for parameters in (FAST, RELATIVE, SLOW, TOTAL):
        run = simulate(
            groups, Workload(rate=20.0, arrivals="poisson"), parameters=parameters, network=uneven("a b c d e f", seed), seed=seed
        )
        assert run.summary.quiet
        assert run.violated == []
        means[parameters["order"]] = mean_delay(run)
    assert means["fast"] < means["relative"] < means["slow"] < means["total"]
