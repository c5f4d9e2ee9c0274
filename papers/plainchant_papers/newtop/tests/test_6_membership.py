"""Paper 001, chapter 6: fault tolerance. The rules of 6.3.2 one by one, packet by packet, and what they are for.

The thesis's processes are i, j, k, l and m. By hand, suspectors speak when the test has them speak; blocks get complete when the
test lets time-silence end.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from itertools import combinations, pairwise
from random import Random
from typing import Any

import msgspec
import pytest

from plainchant.core.model import MS, SECOND, Duration, UsageError, View
from plainchant.protocols.newtop.delivery import RANK_BITS
from plainchant.protocols.newtop.matrix import FOREVER
from plainchant.protocols.newtop.packets import Again, Ask, Confirmed, Data, Remove, Suspect, Word
from plainchant.protocols.newtop.parameters import Parameters
from plainchant.scenario.model import Delay, Fault, Network, Workload
from tests.protocols.newtop.by_hand import CAUSAL, ORDERS, link, name_of, nothing, to
from tests.protocols.newtop.members_by_hand import Changing, between, either, saying
from tests.protocols.newtop.runs import simulate
from tests.protocols.runs import Run

FIVE = "i j k l m"


def five(**parameters: Any) -> Changing:
    """m has sent four messages, which are complete everywhere; then i sends the fifth block, and m is silent."""
    hands = Changing(FIVE, **parameters)
    hands.say("m", "g", "m1", "m2", "m3", "m4")
    hands.carry()
    hands.complete()
    hands.crash("m")
    hands.say("i", "g", "i1")
    hands.carry()
    hands.complete()
    return hands


# --- 6.3.2: the suspector -----------------------------------------------------------------------------------------------


def test_6_3_2_who_leaves_a_block_incomplete_for_omega_is_suspected_with_its_last_block() -> None:
    hands = five()
    assert hands.matrix("j", "g").complete == 4
    assert hands.matrix("j", "g").largest == 5
    hands.lose_patience("j")
    assert hands.words("j") == ["(j, suspect, {m, 4})"]
    (detail,) = hands.records("j", "suspect")
    assert detail["block"] == 5
    assert detail["silence"] >= 250 * MS


def test_6_3_2_a_block_that_is_complete_in_time_accuses_nobody() -> None:
    hands = Changing("i j k")
    hands.say("i", "g", "i1")
    hands.carry()
    hands.complete()
    for name in "ijk":
        if ("suspect", "g") in hands.hosts[name].timers:
            hands.expire(name, ("suspect", "g"))
    assert not any(hands.words(name) for name in "ijk")


@pytest.mark.parametrize("shorter", ["silence", "stability_after", "alive_every", "probe_after"])
def test_6_3_2_omega_is_longer_than_whatever_a_member_that_lives_may_wait(shorter: str) -> None:
    both: dict[str, Any] = {shorter: Duration(250 * MS), "suspect_after": Duration(250 * MS)}
    with pytest.raises(UsageError, match=f"make it longer than {shorter}"):
        Parameters(**both)


@pytest.mark.parametrize(("variant", "noticed"), [("", True), ("silent when idle", False)], indirect=["variant"])
def test_6_3_iii_an_idle_group_notices_a_crash_by_the_extended_time_silence_alone(variant: str, noticed: bool) -> None:
    """Nobody sends a message, ever: there are no blocks but those of the signs of life."""
    crash = Fault(kind="crash", process="b", at=Duration(100 * MS))
    run = simulate({"g": "a b c"}, parameters=CHANGES, fault=(crash,), duration=Duration(SECOND), drain=Duration(SECOND))
    assert ([row["members"] for row in run.of("view", "a")][1:] == [["a", "c"]]) is noticed


CHANGES: dict[str, Any] = {"transport": "lossy", "suspect_after": Duration(250 * MS)}


# --- 6.3.2: the rules -----------------------------------------------------------------------------------------------------


def test_rule_i_a_notification_is_a_suspicion_and_everybody_is_told_the_suspected_one_too() -> None:
    hands = five()
    hands.notify("i", "m")
    assert hands.suspicions("i") == {"m": 4}
    told = [letter.target for letter in hands.mail if saying(Suspect)(letter)]
    assert told == ["j", "k", "l", "m"]
    assert hands.words("i") == ["(i, suspect, {m, 4})"]


def test_rule_i_a_membership_message_is_a_null_message_in_the_block_matrix() -> None:
    hands = five()
    before = hands.delivered("j")
    hands.notify("i", "m")
    (word,) = hands.sent("i", Word)
    hands.carry()
    assert hands.last("j", "i") == word.block == 6
    assert hands.delivered("j") == before


def test_rule_ii_anothers_suspicion_is_recorded_and_no_judgement_made() -> None:
    hands = five()
    hands.notify("i", "m")
    hands.carry()
    assert hands.membership("j").recorded == {"m": {"i": 4}}
    assert not hands.suspicions("j")
    assert not hands.words("j")


def test_rule_ii_who_is_suspected_itself_takes_no_action() -> None:
    hands = Changing("i j k")
    hands.say("i", "g", "i1")
    hands.carry()
    hands.notify("i", "k")
    hands.carry()
    assert hands.words("k") == []
    assert hands.membership("k").recorded == {}


def later_block_of_k() -> Changing:
    """k's second message has reached j, not i, who has had k's first."""
    hands = Changing("i j k")
    hands.say("k", "g", "k1")
    hands.carry()
    hands.say("k", "g", "k2")
    hands.carry(lose=link("k", "i"))
    return hands


def test_rule_iii_who_has_more_refutes_and_sends_it_along() -> None:
    hands = later_block_of_k()
    hands.notify("i", "k")
    hands.carry(only=link("i", "j"))
    assert hands.words("j") == ["(j, refute, {k, 1})"]
    answer = [letter.packet for letter in hands.mail if link("j", "i")(letter)]
    assert [type(packet) for packet in answer] == [Again, Word]
    assert answer[0].packet.batch.body == b"k2"


def test_rule_iii_holds_for_what_arrives_later_too() -> None:
    """The suspicion is recorded first, then comes the message that refutes it."""
    hands = Changing("i j k")
    hands.say("k", "g", "k1")
    hands.carry()
    hands.say("k", "g", "k2")
    hands.notify("i", "k")
    hands.carry(only=link("i", "j"))
    assert hands.words("j") == []
    hands.carry(only=link("k", "j"))
    assert hands.words("j") == ["(j, refute, {k, 1})"]


def test_rule_iii_who_has_no_more_does_not_refute() -> None:
    hands = five()
    hands.notify("i", "m")
    hands.carry()
    hands.complete()
    assert "refute" not in str([hands.words(name) for name in "jkl"])


def test_rule_iv_a_refuted_suspicion_is_void_and_what_was_missing_is_here() -> None:
    hands = later_block_of_k()
    hands.notify("i", "k")
    hands.carry(lose=link("k", "i"))
    assert hands.suspicions("i") == {}
    assert hands.last("i", "k") == hands.block("k2")
    assert hands.words("i") == ["(i, suspect, {k, 1})", "(i, refute, {k, 1})"]
    assert hands.records("i", "refute")[0]["situation"] == "refuted"


def test_rule_iv_after_a_refutation_the_time_out_begins_anew() -> None:
    """i has made three blocks. k's part of the second is lost, that of the third not sent."""
    hands = later_block_of_k()
    hands.say("i", "g", "i1", "i2", "i3")
    hands.carry(lose=link("k", "i"))
    hands.complete("j")
    hands.lose_patience("i")
    assert hands.words("i") == ["(i, suspect, {k, 1})"]
    suspected = hands.time
    hands.time += 100 * MS
    hands.carry(lose=link("k", "i"))
    assert hands.suspicions("i") == {}
    hands.lose_patience("i")
    assert "{k, 2}" in hands.words("i")[2]
    assert hands.time == suspected + 350 * MS, "k's part of block 3 has been missing for longer, but its time began anew"


def test_rule_iv_what_a_suspected_member_sends_is_pending_and_received_when_it_is_refuted() -> None:
    hands = later_block_of_k()
    hands.notify("i", "k")
    hands.say("k", "g", "k3")
    hands.carry(only=link("k", "i"))
    assert hands.last("i", "k") == 1, "it is here, and does not count"
    hands.carry()
    assert hands.last("i", "k") == hands.block("k3")


def test_rule_iv_a_refutation_arrives_before_whatever_its_sender_says_next() -> None:
    """i, refuted, suspects k again, with more: whoever hears the second suspicion has erased the first."""
    hands = later_block_of_k()
    hands.crash("k")
    hands.notify("i", "k")
    hands.carry(only=link("i", "j"))
    hands.carry(only=link("j", "i"))
    hands.notify("i", "k")
    assert hands.words("i") == ["(i, suspect, {k, 1})", "(i, refute, {k, 1})", "(i, suspect, {k, 2})"]
    hands.carry(only=link("i", "j"))
    assert hands.membership("j").recorded == {"k": {"i": 2}}


def test_rule_v_all_who_are_not_suspected_suspect_with_the_same_last_block() -> None:
    hands = five()
    for name in "ijk":
        hands.notify(name, "m")
        hands.carry()
    assert not any("confirmed" in str(hands.words(name)) for name in "ijkl"), "l does not suspect m"
    hands.notify("l", "m")
    assert hands.words("l") == ["(l, suspect, {m, 4})", "(l, confirmed, {{m, 4}})", "(l, remove, {m})"]


def test_rule_v_another_last_block_does_not_confirm() -> None:
    """k's second message has reached j only. As long as i has not recovered it, their suspicions are two."""
    hands = later_block_of_k()
    hands.crash("k")
    hands.notify("i", "k")
    hands.notify("j", "k")
    hands.carry(only=link("i", "j"))
    assert hands.membership("j").recorded == {}, "erased by j's own refutation"
    assert hands.words("j") == ["(j, suspect, {k, 2})", "(j, refute, {k, 1})"]
    hands.carry()
    assert "confirmed" not in str(hands.words("i") + hands.words("j"))
    hands.notify("i", "k")
    hands.carry()
    assert [hands.records(name, "confirm")[0]["detection"] for name in "ij"] == [{"k": 2}, {"k": 2}]


def test_rule_v_all_of_its_suspicions_are_confirmed_together_or_none() -> None:
    """i suspects k and m. j suspects m: that is not all."""
    hands = five()
    hands.crash("k")
    hands.crash("l")
    hands.notify("i", "k", "l", "m")
    hands.carry()
    hands.notify("j", "m")
    hands.carry()
    assert "confirmed" not in str(hands.words("i") + hands.words("j"))
    hands.notify("j", "k", "l")
    hands.carry()
    for name in "ij":
        assert hands.words(name)[-2:] == [
            f"({name}, confirmed, {{{{k, 5}}, {{l, 5}}, {{m, 4}}}})",
            f"({name}, remove, {{k, l, m}})",
        ]


def agreed_by_l() -> Changing:
    """All suspect m; l, whom the others' suspicions have reached, confirms; what it says is under way."""
    hands = five()
    for name in "ijk":
        hands.notify(name, "m")
    hands.carry(only=to("l"))
    hands.notify("l", "m")
    return hands


def test_rule_vi_anothers_detection_is_taken_over_if_all_of_it_is_suspected() -> None:
    hands = agreed_by_l()
    hands.carry(only=link("l", "i"))
    assert hands.words("i") == ["(i, suspect, {m, 4})", "(i, confirmed, {{m, 4}})", "(i, remove, {m})"]
    assert hands.records("i", "confirm")[0]["by"] == "l"


def test_rule_vi_a_detection_that_is_part_of_the_suspicions_is_taken_over_and_the_rest_stays_suspected() -> None:
    hands = agreed_by_l()
    hands.notify("i", "k")
    hands.carry(only=link("l", "i"))
    assert hands.failed("i") == ["m"]
    assert list(hands.suspicions("i")) == ["k"]


def test_rule_vii_virtual_null_messages_complete_blocks_and_are_stable() -> None:
    hands = agreed_by_l()
    assert hands.matrix("l", "g").complete >= 5
    column = hands.matrix("l", "g").columns["m"]
    assert column.cut == 4
    assert column.last == column.complete == column.stable == FOREVER
    assert hands.delivered("l")[-1] == "i1", "deliveries go on"


def test_rule_vii_a_remove_has_a_larger_number_than_the_cut() -> None:
    hands = agreed_by_l()
    hands.carry()
    removes = [word for name in "ijkl" for word in hands.sent(name, Word) if isinstance(word.say, Remove)]
    assert len(removes) == 4
    assert all(remove.block > 4 for remove in removes)


def test_rule_vii_what_comes_from_a_failed_member_is_discarded() -> None:
    hands = Changing("i j k")
    hands.say("k", "g", "k1")
    hands.carry()
    hands.notify("i", "k")
    hands.carry(keep=to("k"))
    hands.notify("j", "k")
    hands.carry(keep=to("k"))
    hands.say("k", "g", "k2")
    hands.carry(keep=to("k"))
    hands.complete("i", "j")
    assert hands.delivered("i") == hands.delivered("j") == ["k1"]
    assert hands.last("i", "j") >= 1


def test_rule_viii_who_finds_itself_excluded_suspects_in_turn_with_a_larger_block_number() -> None:
    hands = Changing("i j k")
    hands.say("k", "g", "k1")
    hands.carry()
    hands.notify("i", "k")
    hands.notify("j", "k")
    hands.carry(only=either(link("i", "j"), link("j", "i")))
    hands.carry(only=link("i", "k"))
    confirmed = next(word for word in hands.sent("i", Word) if isinstance(word.say, Confirmed))
    suspicion = next(word for word in hands.sent("k", Word) if isinstance(word.say, Suspect))
    assert suspicion.say == Suspect((("i", confirmed.block),))
    assert suspicion.block > confirmed.block
    assert hands.records("k", "suspect")[0]["why"] == "mutual"


def test_rule_ix_the_view_is_installed_when_a_remove_is_delivered_and_not_before() -> None:
    hands = agreed_by_l()
    assert hands.failed("l") == ["m"]
    remove = hands.sent("l", Word)[-1]
    hands.carry(only=to("l"))
    assert hands.matrix("l", "g").complete < remove.block
    assert hands.views("l") == [FIVE]
    hands.carry()
    hands.complete()
    assert all(hands.views(name) == [FIVE, "i j k l"] for name in "ijkl")
    assert all(hands.failed(name) == [] for name in "ijkl")
    assert "m" not in hands.matrix("i", "g").columns


def test_rule_ix_the_first_remove_changes_the_view_and_the_others_nothing() -> None:
    hands = agreed_by_l()
    hands.carry()
    hands.complete()
    assert sum(isinstance(word.say, Remove) for name in "ijkl" for word in hands.sent(name, Word)) == 4
    assert [view.number for view in hands.installed("i")] == [1, 2]


def test_rule_ix_the_view_has_the_same_place_among_the_messages_everywhere() -> None:
    """j and k send while the view changes; numbers below the first Remove are delivered before it, the others after it."""
    hands = agreed_by_l()
    hands.say("j", "g", "j1", "j2")
    hands.carry()
    hands.say("k", "g", "k1")
    hands.carry()
    hands.complete()
    hands.complete()
    histories = [hands.history(name) for name in "ijkl"]
    assert all(history == histories[0] for history in histories)
    assert sorted(histories[0][1:]) == sorted(["m1", "m2", "m3", "m4", "i1", "j1", "j2", "k1", "{i j k l}"])
    ranks = [view.rank for view in (hands.installed(name)[1] for name in "ijkl")]
    assert len(set(ranks)) == 1


# --- 6.3.2: the example of P_r and P_s ----------------------------------------------------------------------------------


def r_and_s(**parameters: Any) -> Changing:
    """r's m has reached s only, who delivers it, sends m' and crashes before it could refute."""
    hands = Changing("i j r s", **parameters)
    hands.say("i", "g", "i1")
    hands.carry()
    hands.complete()
    hands.say("r", "g", "m")
    hands.crash("r", reaches="s")
    for name in "ij":
        hands.say(name, "g", f"{name}2")
    hands.carry()
    hands.complete("s")
    assert "m" in hands.delivered("s"), "its arrival completes the block at s"
    hands.say("s", "g", "m'")
    hands.crash("s")
    hands.carry()
    assert hands.causes["m'"] >= {"m"}
    for name in "ij":
        hands.notify(name, "r", "s")
    hands.carry()
    hands.complete()
    return hands


@pytest.mark.parametrize("parameters", ORDERS, ids=name_of)
def test_6_3_2_what_follows_a_message_that_nobody_has_is_not_delivered(parameters: dict[str, Any]) -> None:
    hands = r_and_s(**parameters)
    for name in "ij":
        assert hands.views(name) == ["i j r s", "i j"]
        assert "m" not in hands.delivered(name)
        assert "m'" not in hands.delivered(name)
        assert {"i1", "i2", "j2"} <= set(hands.delivered(name))
    assert hands.causal_violations() == []


@pytest.mark.usefixtures("variant")
@pytest.mark.parametrize("variant", ["failed apart"], indirect=True)
@pytest.mark.parametrize("parameters", ORDERS, ids=name_of)
def test_6_3_2_if_each_ended_at_its_own_last_block_it_would_be(parameters: dict[str, Any]) -> None:
    hands = r_and_s(**parameters)
    assert "m'" in hands.delivered("i")
    assert ("i", "m", "m'") in hands.causal_violations()


# --- 6.3.3: five processes, two partitions ------------------------------------------------------------------------------

APART = between("i j", "k l")


def five_apart(**parameters: Any) -> Changing:
    """All suspect m. What i and j say about it reaches k and l, then the network parts them; i and j have sent more by then."""
    hands = five(**parameters)
    hands.notify("i", "m")
    hands.notify("j", "m")
    hands.say("i", "g", "i2", "i3", "i4", "i5")
    hands.say("j", "g", "j2", "j3", "j4", "j5")
    hands.carry()
    hands.notify("k", "m")
    hands.notify("l", "m")
    hands.carry(lose=APART)
    return hands


def part(hands: Changing, one: str, other: str) -> None:
    """These give those up, and agree."""
    for name in one.split():
        hands.notify(name, *other.split())
    hands.carry(lose=APART)
    for name in one.split():
        if ("silence", "g") in hands.hosts[name].timers:
            hands.expire(name, ("silence", "g"))
    hands.carry(lose=APART)


def test_6_3_3_example() -> None:
    hands = five_apart()
    assert hands.words("i") == ["(i, suspect, {m, 4})"]
    assert hands.words("j") == ["(j, suspect, {m, 4})"]
    assert hands.words("k") == ["(k, suspect, {m, 4})", "(k, confirmed, {{m, 4}})", "(k, remove, {m})"]
    assert hands.words("l") == ["(l, suspect, {m, 4})", "(l, confirmed, {{m, 4}})", "(l, remove, {m})"]
    assert hands.views("k") == hands.views("l") == [FIVE, "i j k l"], "V0, V1"
    part(hands, "i j", "k l")
    for name in "ij":
        assert hands.words(name)[1:] == [
            f"({name}, suspect, {{k, 5}}, {{l, 5}})",
            f"({name}, confirmed, {{{{k, 5}}, {{l, 5}}, {{m, 4}}}})",
            f"({name}, remove, {{k, l, m}})",
        ]
        assert hands.views(name) == [FIVE, "i j"], "V0, V1: not mutually exclusive with V1 of k and l"
    part(hands, "k l", "i j")
    for name in "kl":
        assert hands.words(name)[3:] == [
            f"({name}, suspect, {{i, 10}}, {{j, 10}})",
            f"({name}, confirmed, {{{{i, 10}}, {{j, 10}}}})",
            f"({name}, remove, {{i, j}})",
        ]
        assert hands.views(name) == [FIVE, "i j k l", "k l"], "V0, V1, V2"


def test_6_3_3_vc3_and_vc1_are_met() -> None:
    """In V1 k and l deliver the same messages, sent by processes in V1; so do i and j in V0."""
    hands = five_apart()
    part(hands, "i j", "k l")
    part(hands, "k l", "i j")
    assert hands.history("i") == hands.history("j")
    assert hands.history("k") == hands.history("l")
    inside = hands.history("k")[hands.history("k").index("{i j k l}") + 1 : -1]
    assert {hands.senders[text] for text in inside} == {"i", "j"}
    assert set(hands.delivered("k")) == set(hands.delivered("i")), "k and l had all of it before the network parted"


def test_6_3_3_a_transient_partition_ends_by_rule_viii() -> None:
    """The network heals when i and j have confirmed: k and l hear it, and exclude them without waiting for a suspector."""
    hands = five_apart()
    for name in "ij":
        hands.notify(name, "k", "l")
    hands.carry(lose=APART, keep=either(link("i", "k"), link("i", "l"), link("j", "k"), link("j", "l")))
    hands.carry()
    hands.complete()
    assert [detail["why"] for detail in hands.records("k", "suspect")] == ["silence", "mutual", "mutual"]
    assert hands.views("i") == hands.views("j") == [FIVE, "i j"]
    assert hands.views("k") == hands.views("l") == [FIVE, "i j k l", "k l"]
    assert hands.history("k") == hands.history("l")


@pytest.mark.parametrize("parameters", CAUSAL, ids=name_of)
def test_6_3_3_who_is_cut_off_during_a_view_change_is_not_in_the_view_with_something_missing(parameters: dict[str, Any]) -> None:
    """b has crashed, and a and c remove it, c at a smaller block, above which it sends c1. a, cut off from c, never gets c1: it
    must not install {a, c}, in front of which c delivers c1."""
    hands = Changing("a b c", **parameters)
    hands.crash("b")
    hands.say("a", "g", "a1", "a2", "a3", "a4", "a5")
    hands.notify("c", "b")
    hands.carry(only=link("c", "a"))
    hands.notify("a", "b")
    hands.carry(only=link("a", "c"))
    hands.say("c", "g", "c1")
    hands.carry(only=link("c", "a"), lose=lambda letter: isinstance(letter.packet, Data))
    hands.notify("a", "c")
    hands.pass_time(3 * SECOND, lose=between("a", "c"))
    assert hands.views("a")[-1] == "a"
    assert hands.views("c")[-1] == "c"
    both = set(pairwise(hands.views("a"))) & set(pairwise(hands.views("c")))
    assert not both or "c1" in hands.delivered("a") or "c1" not in hands.delivered("c")


# --- Fig. 2.6 -----------------------------------------------------------------------------------------------------------


def figure_2_6() -> Changing:
    """p4 crashes: m1 takes long to p3, m2 never reaches it. All suspect p4 meanwhile."""
    hands = Changing("p1 p2 p3 p4")
    hands.say("p4", "g", "m1", "m2")
    late = next(letter for letter in hands.mail if letter.target == "p3" and letter.packet.batch.body == b"m1")
    hands.crash("p4", reaches="p1 p2")
    hands.carry()
    for name in ("p1", "p2", "p3"):
        hands.notify(name, "p4")
    hands.carry()
    hands.bring(late)
    hands.carry()
    return hands


@pytest.mark.usefixtures("variant")
@pytest.mark.parametrize("variant", ["transport alone"], indirect=True)
def test_figure_2_6_by_the_transport_and_a_suspector_alone() -> None:
    """VC1 holds and VC3 does not: m2 is missing at p3, and m1 comes after the view that removes its sender."""
    hands = figure_2_6()
    before, after = "{p1 p2 p3 p4}", "{p1 p2 p3}"
    assert hands.history("p1") == hands.history("p2") == [before, "m1", "m2", after]
    assert hands.history("p3") == [before, after, "m1"]


def test_figure_2_6_with_newtop() -> None:
    """p3's suspicion is refuted, with m1 and m2; then everybody suspects p4 for the same block and has the same of it."""
    hands = figure_2_6()
    assert hands.words("p3")[:2] == ["(p3, suspect, {p4, 0})", "(p3, refute, {p4, 0})"]
    hands.notify("p3", "p4")
    hands.carry()
    hands.complete()
    for name in ("p1", "p2", "p3"):
        assert hands.history(name) == ["{p1 p2 p3 p4}", "m1", "m2", "{p1 p2 p3}"]


# --- 6.2 ------------------------------------------------------------------------------------------------------------------


@cache
def troubled(order: str, trouble: str, same_view: bool = False) -> Run:
    """Five members under load, and what happens to them."""
    faults = {
        "a crash in the middle of a multicast": [Fault(kind="crash", process="m", at=Duration(150 * MS), mid_broadcast=True)],
        "two crashes": [
            Fault(kind="crash", process="m", at=Duration(150 * MS), mid_broadcast=True),
            Fault(kind="crash", process="l", at=Duration(390 * MS), mid_broadcast=True),
        ],
        "a partition": [
            Fault(kind="crash", process="m", at=Duration(150 * MS)),
            Fault(kind="partition", at=Duration(400 * MS), parts=(("i", "j"), ("k", "l"))),
        ],
    }[trouble]
    parameters = {**CHANGES, **dict(one for one in zip(("order", "vectors"), order.split("-"), strict=False)), "merge_after": 0}
    return simulate(
        {"g": FIVE},
        Workload(rate=60.0),
        parameters={**parameters, "same_view": same_view},
        fault=tuple(faults),
        duration=Duration(900 * MS),
        network=Network(delay=Delay("uniform", Duration(1 * MS), Duration(9 * MS))),
    )


TROUBLES = ["a crash in the middle of a multicast", "two crashes", "a partition"]
in_trouble = pytest.mark.parametrize(
    ("order", "trouble"), [(name_of(order), trouble) for order in ORDERS for trouble in TROUBLES]
)


class Told:
    """What the processes of a run that did not crash saw."""

    def __init__(self, run: Run) -> None:
        crashed = [row["process"] for row in run.of("crash")]
        self.alive = [name for name in FIVE.split() if name not in crashed]
        self.crashed = crashed
        self.views = {name: [(row["view"], tuple(row["members"])) for row in run.of("view", name)] for name in self.alive}
        self.messages: dict[tuple[str, int], list[tuple[str, int]]] = {}
        for row in run.of("deliver"):
            self.messages.setdefault((row["process"], row["view"]), []).append((row["sender"], row["seq"]))
        self.sent = {name: run.sent(name) for name in self.alive}
        suspects = {(row["process"], msgspec.json.decode(row["detail"])["process"]) for row in run.of("suspect")}
        self.friends = [(one, other) for one, other in combinations(self.alive, 2) if not {(one, other), (other, one)} & suspects]

    def spans(self) -> Iterator[tuple[list[tuple[str, int]], list[tuple[str, int]]]]:
        """What any two delivered between two consecutive views that both installed."""
        for one, other in combinations(self.alive, 2):
            for views in set(pairwise(self.views[one])) & set(pairwise(self.views[other])):
                number = views[0][0]
                yield self.messages.get((one, number), []), self.messages.get((other, number), [])


@in_trouble
def test_6_2_vc1_those_who_do_not_suspect_each_other_install_the_same_views(order: str, trouble: str) -> None:
    told = Told(troubled(order, trouble))
    assert told.friends
    for one, other in told.friends:
        assert told.views[one] == told.views[other]


@in_trouble
def test_6_2_vc2_who_crashes_or_is_cut_off_is_removed(order: str, trouble: str) -> None:
    told = Told(troubled(order, trouble))
    for name in told.alive:
        lost = {*told.crashed, *(set("kl" if name in "ij" else "ij") if trouble == "a partition" else "")}
        assert not lost & set(told.views[name][-1][1])


@in_trouble
def test_6_2_vc3_and_atomicity_the_same_messages_between_the_same_views(order: str, trouble: str) -> None:
    spans = list(Told(troubled(order, trouble)).spans())
    assert any(one for one, _ in spans)
    for one, other in spans:
        assert set(one) == set(other)


@in_trouble
def test_6_2_validity_the_sender_is_in_the_view(order: str, trouble: str) -> None:
    told = Told(troubled(order, trouble))
    for name in told.alive:
        for number, members in told.views[name]:
            assert {sender for sender, _ in told.messages.get((name, number), [])} <= set(members)


@in_trouble
def test_6_2_liveness_who_goes_on_delivers_its_own(order: str, trouble: str) -> None:
    told = Told(troubled(order, trouble))
    for name in told.alive:
        delivered = {message for (process, _), messages in told.messages.items() if process == name for message in messages}
        assert told.sent[name]
        assert set(told.sent[name]) <= delivered


@pytest.mark.parametrize("trouble", TROUBLES)
def test_6_2_total_order_between_the_same_views(trouble: str) -> None:
    for one, other in Told(troubled("total", trouble)).spans():
        assert one == other


@in_trouble
def test_6_2_and_every_other_promise(order: str, trouble: str) -> None:
    run = troubled(order, trouble)
    assert run.summary.quiet, run.summary.not_quiet
    assert not run.violated


# --- 6.3.1 ----------------------------------------------------------------------------------------------------------------


def discarded_too_early(hands: Changing) -> list[tuple[str, str, str, int]]:
    """Who has discarded whose block that another member, not suspected and not failed, has not received."""
    found = []
    blocks: dict[str, list[int]] = {name: [] for name in hands.processes}
    for sender, packet in hands.multicasts:
        blocks[sender].append(packet.block)
    for name, here in hands.parts():
        for column in here.matrix.members:
            held = {one.block for one in column.kept}
            gone = [block for block in blocks[column.process] if block <= column.last and block not in held]
            for other in here.others:
                there = hands[other].parts["g"].matrix.columns.get(column.process)
                if there is not None and column.cut is None and gone and max(gone) > there.last:
                    found.append((name, other, column.process, max(gone)))
    return found


@pytest.mark.parametrize("order", ["total", "fast"])
@pytest.mark.parametrize(("variant", "keeps"), [("", True), ("discards at completion", False)], indirect=["variant"])
def test_6_3_1_nothing_is_discarded_before_it_is_stable(variant: str, keeps: bool, order: str) -> None:
    early = 0
    for seed in range(6):
        hands = Changing("a b c", order=order)
        for _ in hands.wander(Random(seed), 300, messages=60, timers=0.05, loss=0.2):
            early += len(discarded_too_early(hands))
    assert (early == 0) is keeps


@pytest.mark.parametrize("order", ["total", "fast"])
def test_6_3_1_what_is_asked_for_is_unstable_and_can_be_had_from_everybody_who_has_it(order: str) -> None:
    asked = 0
    for seed in range(6):
        hands = Changing("a b c", order=order)
        for _ in hands.wander(Random(seed), 300, messages=60, timers=0.05, loss=0.2):
            for letter in [letter for letter in hands.mail if isinstance(letter.packet, Ask)]:
                column = hands.matrix(letter.target, "g").columns.get(letter.packet.source)
                behind = hands.matrix(letter.source, "g").columns.get(letter.packet.source)
                if column is None or behind is None or column.cut is not None or behind.last >= letter.packet.last:
                    continue
                asked += 1
                wanted = [packet.block for packet in (*column.kept, *column.early.values())]
                if column.last >= letter.packet.last:
                    assert letter.packet.last in wanted
    assert asked


# --- 6.4 ------------------------------------------------------------------------------------------------------------------


def signed(view: View) -> set[tuple[str, int]]:
    return set(view.signatures.items())


def test_6_4_signatures_make_the_concurrent_views_of_the_example_disjoint() -> None:
    hands = five_apart(signatures=True)
    part(hands, "i j", "k l")
    part(hands, "k l", "i j")
    v1_of_i, v1_of_k = hands.installed("i")[1], hands.installed("k")[1]
    assert set(v1_of_i.members) & set(v1_of_k.members) == {"i", "j"}
    views = {view.members: signed(view) for name in "ijkl" for view in hands.installed(name)}
    assert [len(view) for view in views.values()] == [5, 2, 4, 2]
    assert all(not one & other for one, other in combinations(views.values(), 2))
    for one, other in ("ij", "kl"):
        assert [signed(view) for view in hands.installed(one)] == [signed(view) for view in hands.installed(other)]


@pytest.mark.usefixtures("variant")
@pytest.mark.parametrize("variant", ["exclusions counted"], indirect=True)
def test_6_4_the_numbers_of_the_example() -> None:
    """As printed: e is the number of processes that were excluded."""
    hands = five_apart(signatures=True)
    part(hands, "i j", "k l")
    part(hands, "k l", "i j")
    assert [signed(view) for view in hands.installed("i")] == [{(name, 0) for name in "ijklm"}, {("i", 3), ("j", 3)}]
    assert [signed(view) for view in hands.installed("k")] == [
        {(name, 0) for name in "ijklm"},
        {(name, 1) for name in "ijkl"},
        {("k", 3), ("l", 3)},
    ]


def test_6_4_with_original_virtual_synchrony_the_view_of_four_never_exists() -> None:
    """k and l wait for the fourth (remove, {m}), which i and j never send; the second (remove, {i, j, m}) makes V1 = {k, l}."""
    hands = five_apart(same_view=True)
    assert hands.words("k")[-1] == "(k, remove, {m})"
    assert hands.views("k") == [FIVE]
    part(hands, "i j", "k l")
    part(hands, "k l", "i j")
    assert hands.words("k")[-1] == "(k, remove, {i, j, m})"
    assert hands.views("k") == hands.views("l") == [FIVE, "k l"], "V0, V1"
    assert hands.views("i") == hands.views("j") == [FIVE, "i j"]


def test_6_4_the_view_changes_at_the_last_of_as_many_removes_as_it_has_members() -> None:
    hands = five(same_view=True)
    for name in "ijkl":
        hands.notify(name, "m")
    hands.carry(keep=lambda letter: letter.source == "l")
    hands.complete("i", "j", "k")
    hands.carry(keep=nothing)
    hands.complete()
    removes = [word for name in "ijkl" for word in hands.sent(name, Word) if isinstance(word.say, Remove)]
    assert len(removes) == 4
    last = max(removes, key=lambda word: word.block)
    for name in "ijkl":
        rank = hands.installed(name)[1].rank
        assert rank is not None
        assert rank >> RANK_BITS == last.block


def test_6_4_nobody_sends_between_its_remove_and_the_view() -> None:
    """Suspicion does not stop sending (in [Schiper93c] it does); failure does."""
    hands = five(same_view=True)
    hands.notify("k", "m")
    hands.say("k", "g", "k1")
    assert "k1" in hands.data, "only suspected"
    for name in "ijl":
        hands.notify(name, "m")
    hands.carry(only=to("k"))
    assert hands.failed("k") == ["m"]
    hands.say("k", "g", "k2")
    assert "k2" not in hands.data
    hands.carry()
    hands.complete()
    assert hands.views("k") == [FIVE, "i j k l"]
    assert "k2" in hands.data
    hands.complete()
    history = hands.history("j")
    assert history.index("k1") < history.index("{i j k l}") < history.index("k2")


@pytest.mark.parametrize("order", [name_of(order) for order in ORDERS])
def test_6_4_same_view_over_a_run(order: str) -> None:
    run = troubled(order, "two crashes", same_view=True)
    views = {(row["sender"], row["seq"]): row["view"] for row in run.of("send")}
    assert run.of("deliver")
    assert all(views[row["sender"], row["seq"]] == row["view"] for row in run.of("deliver"))


# --- 6.5 ------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("parameters", CAUSAL, ids=name_of)
def test_6_5_what_is_sent_after_ones_remove_waits_for_the_view(parameters: dict[str, Any]) -> None:
    hands = five(**parameters)
    for name in "ijkl":
        hands.notify(name, "m")
    hands.say("j", "g", "before")
    hands.carry(keep=saying(Confirmed, Remove))
    hands.say("j", "g", "after")
    from_l = [letter for letter in hands.mail if letter.source == "l"]
    hands.carry(keep=lambda letter: letter in from_l)
    assert "after" not in hands.delivered("i")
    hands.carry()
    hands.complete()
    hands.complete()
    for name in "ijkl":
        history = hands.history(name)
        assert history.index("before") < history.index("{i j k l}") < history.index("after"), name


@pytest.mark.parametrize("parameters", CAUSAL[1:], ids=name_of)
def test_6_5_suspicion_alone_suspends_nothing(parameters: dict[str, Any]) -> None:
    """6.5 suspends delivery from the first suspicion on; it is enough from one's Remove on."""
    hands = five(**parameters)
    hands.notify("i", "m")
    hands.say("j", "g", "j1")
    hands.carry()
    assert "j1" in hands.delivered("i")
