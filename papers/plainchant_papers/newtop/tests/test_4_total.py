"""Paper 001, chapter 4: total order in overlapping groups, time-silence, the second liveness mechanism; 7.3.1 on ticks."""

from __future__ import annotations

from collections import Counter
from itertools import combinations
from random import Random

import pytest

from plainchant.core.model import MS, Duration
from plainchant.core.wire import Codec
from plainchant.protocols.newtop.packets import PACKETS, Data, Null
from plainchant.protocols.newtop.parameters import Parameters
from plainchant.protocols.newtop.silence import Silence
from plainchant_papers.newtop.variants import VARIANTS
from tests.fakes import FakeHost, as_host
from tests.protocols.newtop.by_hand import SHAPES, ByHand, link, nothing, to

by_shape = pytest.mark.parametrize("groups", SHAPES.values(), ids=list(SHAPES))

FIGURE_4_1 = {"g1": "p1 p2 p3 p4", "g2": "p3 p4 p5 p6"}
FIGURE_4_2A = {"g1": "p q r", "g2": "p q s"}
FIGURE_4_2B = {"g1": "p q", "g2": "p r", "g3": "q r"}


# --- 4.2 Construction of Causal Blocks for total order --------------------------------------------------------------------


@by_shape
def test_4_2_CA2_is_redundant_for_total_order(groups: dict[str, str]) -> None:
    """The same packets go out with and without it, in the same order."""
    for seed in range(3):
        runs = []
        for variant in ("", "without CA2"):
            with VARIANTS[variant].applied(must_act=True):
                hands = ByHand(groups, order="total")
                for _ in hands.wander(Random(seed), 250):
                    pass
                hands.rest()
            runs.append([host.calls for host in hands.hosts.values()])
        assert runs[0] == runs[1]


def test_5_4_CA2_is_needed_again_for_slow_order() -> None:
    blocks = {}
    for variant in ("", "without CA2"):
        with VARIANTS[variant].applied(must_act=True):
            hands = ByHand({"g": "a b c"}, order="slow")
            hands.say("a", "g", "cause")
            hands.carry(only=link("a", "b"))
            assert hands.delivered("b") == ["cause"]
            hands.say("b", "g", "effect")
            blocks[variant] = hands.block("cause"), hands.block("effect")
            hands.carry(only=link("b", "c"))
            hands.rest()
        violated = [("c", "cause", "effect")] if variant else []
        assert hands.causal_violations() == violated
    assert blocks == {"": (1, 2), "without CA2": (1, 1)}


# --- 4.3 Time-silence -----------------------------------------------------------------------------------------------------


@by_shape
@pytest.mark.parametrize("order", ["total", "slow", "relative"])
def test_4_3_every_created_block_completes(groups: dict[str, str], order: str) -> None:
    for seed in range(3):
        hands = ByHand(groups, order=order)
        for _ in hands.wander(Random(seed), 150):
            pass
        hands.rest()
        for _, part in hands.parts():
            assert part.matrix.complete == part.matrix.largest
        assert hands.in_order()
        assert not hands.waiting()


def test_4_3_a_null_message_is_due_a_time_silence_after_the_block_came_to_be() -> None:
    hands = ByHand({"g": "a b"}, order="total", silence=Duration(7 * MS))
    hands.time = 5 * MS
    hands.say("a", "g", "m")
    hands.carry()
    assert hands.hosts["b"].timers == {("silence", "g"): 12 * MS}
    assert not hands.hosts["a"].timers, "the sender has completed its own block"


def test_4_3_a_null_bears_the_largest_number_seen_and_completes_all_blocks_up_to_it() -> None:
    hands = ByHand({"g": "a b"}, order="total")
    hands.say("a", "g", "m1", "m2", "m3")
    hands.carry()
    hands.expire("b", ("silence", "g"))
    (null,) = hands.sent("b", Null)
    assert null.block == 3
    assert hands["b"].counter == 3, "CA2 of this section"
    hands.rest()
    assert len(hands.sent("b", Null)) == 1
    assert hands.delivered("b") == ["m1", "m2", "m3"]


def test_4_3_a_multicast_in_the_group_cancels_the_time_outs_of_all_blocks_up_to_its_own() -> None:
    hands = ByHand({"g": "a b"}, order="total")
    hands.say("a", "g", "m1")
    hands.carry()
    hands.say("b", "g", "n1")
    hands.rest()
    assert hands.count(Null) == 0


def test_4_3_a_prepared_null_is_void_if_a_message_as_large_has_gone_out_in_that_group() -> None:
    """The timer may be late: what counts is what is owed when it expires."""
    hands = ByHand({"g": "a b"}, order="total")
    hands.say("a", "g", "m1")
    hands.carry(only=to("b"))
    assert ("silence", "g") in hands.hosts["b"].timers
    hands.say("b", "g", "n1")
    hands["b"].expire(("silence", "g"))
    assert hands.sent("b", Null) == []


def test_4_3_a_null_creates_a_block_that_others_complete() -> None:
    hands = ByHand({"g": "a b c"}, order="total")
    hands.say("a", "g", "m1")
    hands.carry(only=to("b"))
    hands.expire("b", ("silence", "g"))
    hands.carry(only=link("b", "c"))
    assert ("silence", "g") in hands.hosts["c"].timers
    assert hands.delivered("c") == []


def test_4_3_nulls_are_not_delivered() -> None:
    hands = ByHand({"g": "a b c"}, order="total")
    hands.say("a", "g", "m1")
    hands.rest()
    assert hands.count(Null) == 2
    assert [hands.delivered(name) for name in "abc"] == [["m1"]] * 3


def test_4_3_nulls_alone_set_nothing_going() -> None:
    """A group in which nobody has sent is silent for ever."""
    hands = ByHand(SHAPES["ring"], order="total")
    hands.rest()
    assert hands.multicasts == []


def test_4_3_a_process_that_sends_often_enough_sends_no_nulls() -> None:
    hands = ByHand({"g": "a b c"}, order="total")
    for number in range(20):
        for name in "abc":
            hands.say(name, "g", f"{name}{number}")
        hands.carry()
    hands.rest()
    assert hands.count(Null) == 0
    assert hands.in_order()


# --- 7.3.1 Ticks ----------------------------------------------------------------------------------------------------------


def test_7_3_1_a_time_out_of_four_ticks_of_50_ms_lasts_150_to_200_ms() -> None:
    """A time-out begins anywhere between two ticks and ends with the fourth tick from then on."""
    lengths: Counter[int] = Counter()
    parameters = Parameters(
        silence_by="ticks",
        silence=Duration(200 * MS),
        tick=Duration(50 * MS),
        probe_after=Duration(1000 * MS),
        suspect_after=Duration(0),
    )
    for seed in range(200):
        host = FakeHost()
        host.random = Random(seed)
        silence = Silence(as_host(host), parameters)
        for _ in range(10):
            now = host.random.randrange(10_000 * MS)
            length = silence.due(now) - now
            assert 150 * MS < length <= 200 * MS
            lengths[length // (10 * MS)] += 1
    assert sum(lengths.values()) == 2000
    assert sorted(lengths) in ([15, 16, 17, 18, 19], [15, 16, 17, 18, 19, 20])
    assert all(300 < lengths[tens] < 500 for tens in range(15, 20)), "evenly, as phases are"


def test_7_3_1_ticks_of_different_processes_have_different_phases() -> None:
    parameters = Parameters(
        silence_by="ticks", silence=Duration(50 * MS), probe_after=Duration(1000 * MS), suspect_after=Duration(0)
    )
    due = set()
    for seed in range(20):
        host = FakeHost()
        host.random = Random(seed)
        due.add(Silence(as_host(host), parameters).due(1000 * MS))
    assert len(due) > 15


# --- 4.4 Overlapping groups -----------------------------------------------------------------------------------------------


def test_4_4_fig_4_1_an_effect_in_another_group_has_a_larger_number_than_its_cause() -> None:
    hands = ByHand(FIGURE_4_1, order="total")
    hands.say("p1", "g1", "m1")
    hands.rest()
    assert hands.delivered("p3") == ["m1"]
    hands.say("p3", "g2", "m2")
    assert hands.causes["m2"] == {"m1"}
    assert hands.block("m1") < hands.block("m2")


def test_4_4_with_a_counter_a_group_a_later_message_can_have_a_smaller_number() -> None:
    """A null from a third group has made g2's blocks large, so that nothing tells p3's counter there how far the one in g1 is."""
    for variant, number in (("counter a group", 1), ("", 4)):
        with VARIANTS[variant].applied(must_act=True):
            hands = ByHand({**FIGURE_4_1, "g3": "p6 p7"}, order="total")
            hands.say("p7", "g3", "b1", "b2", "b3", "b4")
            hands.carry(only=lambda letter: letter.source in ("p6", "p7"))
            hands.say("p3", "g1", "a1", "a2", "a3")
            hands.say("p3", "g2", "effect")
            assert hands.causes["effect"] >= {"a1", "a2", "a3"}
            assert hands.block("effect") == number
            hands.rest()
        assert hands.undelivered() == []
        broken = {("p4", "a2", "effect"), ("p4", "a3", "effect")} if variant else set()
        assert broken <= set(hands.causal_violations())
        assert bool(broken) == bool(hands.causal_violations())


def fig_4_2a() -> ByHand:
    """m1 in g1 and m2 in g2 with one block number; m1 reaches p first, m2 reaches q first, and both are followed by more."""
    hands = ByHand(FIGURE_4_2A, order="total")
    hands.say("r", "g1", "m1", "m1'", "m1''")
    hands.say("s", "g2", "m2", "m2'", "m2''")
    assert hands.block("m1") == hands.block("m2") == 1
    late_at_p, late_at_q = link("s", "p"), link("r", "q")
    hands.rest(keep=lambda letter: late_at_p(letter) or late_at_q(letter))
    assert hands.mail
    return hands


@pytest.mark.usefixtures("variant")
@pytest.mark.parametrize("variant", ["safe1"], indirect=True)
def test_4_4_fig_4_2a_safe1_lets_p_and_q_disagree() -> None:
    hands = fig_4_2a()
    hands.carry(keep=nothing)
    hands.rest()
    assert hands.order_violations()
    assert hands.delivered("p").index("m1") < hands.delivered("p").index("m2")
    assert hands.delivered("q").index("m2") < hands.delivered("q").index("m1")


def test_4_4_fig_4_2a_safe1_prime_keeps_one_order() -> None:
    hands = fig_4_2a()
    assert hands.delivered("p") == hands.delivered("q") == [], "neither knows what else has block 1 in the other group"
    hands.rest()
    assert hands.delivered("p") == hands.delivered("q")
    assert len(hands.delivered("p")) == 6
    assert [hands.block(text) for text in hands.delivered("p")] == [1, 1, 2, 2, 3, 3]


def test_4_4_safe1_fails_in_random_runs_and_safe1_prime_holds() -> None:
    def violations() -> int:
        found = 0
        for seed in range(6):
            hands = ByHand(SHAPES["clique"], order="total")
            for _ in hands.wander(Random(seed), 200, timers=0.3):
                pass
            hands.rest()
            found += len(hands.order_violations()) + len(hands.causal_violations())
        return found

    with VARIANTS["safe1"].applied():
        assert violations() > 0
    assert violations() == 0


def test_4_4_time_silence_alone_is_not_enough_if_s_sends_nothing() -> None:
    for variant, delivered in (("no second liveness", []), ("", ["m1"])):
        with VARIANTS[variant].applied(must_act=True):
            hands = ByHand(FIGURE_4_2A, order="total")
            hands.say("r", "g1", "m1")
            hands.rest()
        assert [hands.delivered(name) for name in "pq"] == [delivered] * 2
        assert hands.delivered("r") == ["m1"]
        assert bool(hands.waiting()) == (not delivered)


def test_4_4_who_sends_or_receives_a_message_puts_a_null_with_its_number_into_its_other_groups() -> None:
    hands = ByHand(FIGURE_4_2A, order="total")
    hands.say("p", "g1", "m")
    (null,) = hands.sent("p", Null)
    assert (null.group, null.block) == ("g2", hands.block("m"))
    hands.carry(only=lambda letter: letter.target == "q" and letter.packet is null)
    hands.carry(only=link("p", "q"))
    assert hands.sent("q", Null, "g2") == [], "p's null had come to g2 before the message came to g1"
    other = ByHand(FIGURE_4_2A, order="total")
    other.say("r", "g1", "m")
    other.carry(only=link("r", "q"))
    (null,) = other.sent("q", Null)
    assert (null.group, null.block) == ("g2", other.block("m"))


def test_4_4_a_group_that_has_a_block_as_large_gets_no_null() -> None:
    hands = ByHand(FIGURE_4_2A, order="total")
    hands.say("s", "g2", "n1", "n2")
    hands.carry(only=to("p"))
    before = len(hands.sent("p", Null, "g2"))
    hands.say("r", "g1", "m1")
    hands.carry(only=link("r", "p"))
    assert len(hands.sent("p", Null, "g2")) == before == 0


def test_4_4_nulls_do_not_breed_nulls() -> None:
    """A chain of ten groups, a message in the first: its nulls stay with the neighbours; if they bred, they went all along."""
    chain = {f"g{i}": f"p{i} p{i + 1}" for i in range(10)}
    reached = {}
    for variant in ("", "nulls breed nulls"):
        with VARIANTS[variant].applied(must_act=True):
            hands = ByHand(chain, order="total")
            hands.say("p0", "g0", "m")
            hands.rest()
        reached[variant] = len({packet.group for _, packet in hands.multicasts}), hands.count(Null)
    assert reached[""] == (2, 3), "p1 in g0 and, for it, in g1, which p2 completes"
    assert reached["nulls breed nulls"] == (10, 19)


def test_4_4_with_nulls_that_breed_the_packets_of_a_steady_load_multiply() -> None:
    chain = {f"g{i}": f"p{i} p{i + 1}" for i in range(10)}

    def nulls() -> int:
        hands = ByHand(chain, order="total")
        for number in range(20):
            hands.say("p0", "g0", f"m{number}")
            hands.rest()
        return hands.count(Null)

    assert nulls() == 3 * 20
    with VARIANTS["nulls breed nulls"].applied():
        assert nulls() > 6 * 3 * 20


@pytest.mark.usefixtures("variant")
@pytest.mark.parametrize("variant", ["no second liveness"], indirect=True)
def test_4_4_time_silence_works_for_each_group_as_if_there_were_no_other() -> None:
    hands = ByHand({"g1": "a b", "g2": "b c"}, order="total")
    hands.say("a", "g1", "m")
    hands.carry(only=link("a", "b"))
    assert ("silence", "g1") in hands.hosts["b"].timers
    hands.say("b", "g2", "n")
    assert hands.block("n") >= hands.block("m")
    hands.expire("b", ("silence", "g1"))
    (null,) = hands.sent("b", Null)
    assert (null.group, null.block) == ("g1", 1), "a message in g2 has not cancelled it, and the null goes to g1 alone"


def test_4_4_fig_4_2b_causes_are_kept_round_a_cycle_of_groups() -> None:
    """m1 (p to r) -> m2 (p to q) -> m3 (q to r), and m1 is slow."""
    hands = ByHand(FIGURE_4_2B, order="total")
    late = link("p", "r")
    hands.say("p", "g2", "m1")
    hands.say("p", "g1", "m2")
    hands.rest(keep=late, most=50)
    assert hands.delivered("q") == ["m2"]
    hands.say("q", "g3", "m3")
    assert hands.causes["m3"] == {"m1", "m2"}
    hands.rest(keep=late, most=50)
    matrix = hands.matrix("r", "g3")
    assert matrix.complete >= hands.block("m3"), "(i) it is complete in g3,"
    assert hands.matrix("r", "g2").complete < hands.block("m3"), "but not in g2"
    assert hands.delivered("r") == []
    hands.rest()
    assert hands.delivered("r") == ["m1", "m3"]
    assert any(packet.block >= hands.block("m3") for packet in hands.sent("p", Null, "g2")), "(ii) p contributes a null"


@pytest.mark.usefixtures("variant")
@pytest.mark.parametrize("variant", ["safe1"], indirect=True)
def test_4_4_fig_4_2b_with_safe1_the_cycle_breaks_causality() -> None:
    hands = ByHand(FIGURE_4_2B, order="total")
    late = link("p", "r")
    hands.say("p", "g2", "m1")
    hands.say("p", "g1", "m2")
    hands.rest(keep=late, most=50)
    hands.say("q", "g3", "m3")
    hands.rest(keep=late, most=50)
    assert hands.delivered("r") == ["m3"]


# --- 4.5 The protocol -----------------------------------------------------------------------------------------------------


@by_shape
def test_4_5_observation_1_lemma_I_and_lemma_II(groups: dict[str, str]) -> None:
    """Counters never decrease; a process's multicasts in a group have increasing numbers, and so have its messages in all."""
    nulls = 0
    for seed in range(4):
        hands = ByHand(groups, order="total")
        counters: dict[str, int] = dict.fromkeys(hands.processes, 0)
        for _ in hands.wander(Random(seed), 250, timers=0.3):
            for name, process in hands.processes.items():
                assert process.counter >= counters[name], "observation 1"
                counters[name] = process.counter
        hands.rest()
        last: dict[tuple[str, str], int] = {}
        last_message: dict[str, int] = {}
        for name, packet in hands.multicasts:
            assert packet.block > last.get((name, packet.group), 0), "Lemma I (pr1')"
            last[name, packet.group] = packet.block
            if isinstance(packet, Data):
                assert packet.block > last_message.get(name, 0), "Lemma II"
                last_message[name] = packet.block
            else:
                nulls += 1
    assert nulls > 20


@pytest.mark.usefixtures("variant")
@pytest.mark.parametrize("variant", ["no second liveness"], indirect=True)
def test_4_5_observation_2_nulls_of_different_groups_need_not_have_increasing_numbers() -> None:
    """The section's example: 4 is received in gx, then 2 in gy; gx's time-out comes first."""
    hands = ByHand({"gx": "i a", "gy": "i b"}, order="total")
    hands.say("a", "gx", *"1234")
    hands.carry(only=to("i"))
    hands.say("b", "gy", *"56")
    hands.carry(only=to("i"))
    hands.expire("i", ("silence", "gx"))
    hands.expire("i", ("silence", "gy"))
    assert [(packet.group, packet.block) for packet in hands.sent("i", Null)] == [("gx", 4), ("gy", 2)]
    assert hands["i"].counter == 4, "the counter does not decrease"
    hands.say("i", "gy", "7")
    assert hands.block("7") == 5


@by_shape
def test_4_5_2_safety_and_liveness_over_random_runs(groups: dict[str, str]) -> None:
    for seed in range(6):
        hands = ByHand(groups, order="total")
        for _ in hands.wander(Random(seed), 200, timers=0.2):
            pass
        hands.rest()
        assert hands.order_violations() == []
        assert hands.causal_violations() == []
        assert hands.undelivered() == []
        for one, other in combinations(hands.processes, 2):
            ranks = [{b.body: rank for _, _, b, rank in hands.hosts[name].called("deliver")} for name in (one, other)]
            assert all(ranks[1][body] == rank for body, rank in ranks[0].items() if body in ranks[1])


# --- 4.6 Overhead ---------------------------------------------------------------------------------------------------------


def test_4_6_the_overhead_of_a_message_does_not_depend_on_members_or_groups() -> None:
    codec = Codec(PACKETS)
    sizes: dict[str, set[int]] = {"total": set(), "slow": set(), "fast": set(), "relative": set(), "cbcast": set()}
    for order, found in sizes.items():
        for members, overlapping in ((2, 1), (10, 1), (3, 4), (10, 4)):
            names = [f"p{i:02}" for i in range(members)]
            hands = ByHand({f"g{i}": " ".join(names) for i in range(overlapping)}, order=order, blocks=0)
            for number, name in enumerate(names[:2]):
                for group in hands.groups:
                    hands.say(name, group, f"{number}{group}")
                hands.carry()
            hands.say(names[0], "g0", "last")
            packet = hands.data["last"]
            assert packet.block < 128, "numbers of one size"
            found.add(len(codec.encode(packet)))
    assert len(sizes["total"]) == 1
    assert len(sizes["slow"]) == 1
    assert all(len(sizes[order]) == 4 for order in ("fast", "relative", "cbcast"))
