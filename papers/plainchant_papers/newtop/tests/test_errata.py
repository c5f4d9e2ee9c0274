"""Counter-examples of ``errata.md`` that no figure of the thesis shows: each as printed, and as it is here."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from plainchant.core.engine import Engine, Host
from plainchant.core.model import MS, SECOND, Duration, GroupId, ProcessId
from plainchant.lab.properties import verify
from plainchant.protocols.newtop import Process
from plainchant.protocols.newtop.packets import Confirmed, Remove
from plainchant.scenario.model import Delay, Fault, LinkOverride, Network, Scenario, Workload
from plainchant.sim import Simulation
from plainchant.sim.summary import Summary
from plainchant.trace import TraceBuffer
from tests.lab.explain.script import Script
from tests.protocols.newtop.by_hand import ORDERS, name_of, to
from tests.protocols.newtop.by_hand import link as letters
from tests.protocols.newtop.members_by_hand import Changing, between, either, saying
from tests.protocols.newtop.runs import simulate

Maker = Callable[[Host, Any], Engine]


def sends(sender: ProcessId, group: GroupId, count: int, at: int = 0) -> Workload:
    """So many messages at once, one a packet, at a time (ms)."""
    return Workload(senders=(sender,), group=group, rate=1000.0, burst=count, count=count, start=Duration(at * MS))


def link(source: ProcessId, target: ProcessId, delay: int) -> LinkOverride:
    return LinkOverride(source=source, target=target, delay=Delay("constant", Duration(delay * MS)))


def perform(scenario: Scenario, make: Maker = Process) -> Summary:
    return Simulation(scenario, trace=TraceBuffer(), run="r", make=make).run()


# --- 8: a counter of its own for each group ---------------------------------------------------------------------------


@pytest.mark.parametrize(("variant", "quiet"), [("nulls by block numbers", False), ("", True)], indirect=["variant"])
def test_8_a_member_whose_block_counter_is_ahead_owes_null_messages_all_the_same(variant: str, quiet: bool) -> None:
    """q sends 1, 2 and 4 in y, and null messages in x for them: the third has block 4 and is q's third in x. p's own block 4 is
    its fourth. By its block number q owes nothing more, and p's fifth waits for q's fourth."""
    scenario = Scenario(
        protocol="newtop",
        members=("p", "q", "s"),
        groups={"x": ("p", "q"), "y": ("q", "s")},
        duration=Duration(100 * MS),
        drain=Duration(5 * SECOND),
        parameters={"blocks": 3, "pack": False, "order": "slow", "suspect_after": 0},
        network=Network(delay=Delay("constant", Duration(1 * MS))),
        workload=(sends("q", "y", 3), sends("p", "x", 4, at=2)),
    )
    summary = perform(scenario)
    assert summary.quiet is quiet
    assert (summary.messages_sent == 7) is quiet


# --- 8: stable is not delivered ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(("variant", "bounded"), [("without room", False), ("", True)], indirect=["variant"])
def test_8_stability_alone_does_not_bound_what_waits(variant: str, bounded: bool) -> None:
    """p is in x and y. Blocks of x are complete and stable within milliseconds, delivered only when y's are, whose s is far."""
    most = 0

    class Counting(Process):
        def _settle(self) -> None:
            nonlocal most
            super()._settle()
            most = max([most, *(len(column.queue) for part in self.parts.values() for column in part.matrix.members)])

    scenario = Scenario(
        protocol="newtop",
        members=("p", "q", "s"),
        groups={"x": ("p", "q"), "y": ("p", "s")},
        duration=Duration(200 * MS),
        parameters={"blocks": 8, "pack": False, "probe_after": Duration(SECOND), "suspect_after": 0},
        network=Network(delay=Delay("constant", Duration(1 * MS)), link=(link("s", "p", 80),)),
        workload=(Workload(senders=("q",), group="x", rate=1000.0),),
    )
    summary = perform(scenario, Counting)
    assert summary.quiet
    assert (most <= 8) is bounded


# --- 6.3.2: a refutation erases what is recorded -----------------------------------------------------------------------


def refuted_before_it_is_suspected() -> Changing:
    """k's second message has reached l only. i suspects k for the first; l refutes that, with the message, and i takes it back.
    j has heard both, and suspects k only now, for the first message; l has crashed meanwhile, and i and j suspect it."""
    hands = Changing("i j k l")
    hands.say("k", "g", "k1")
    hands.carry()
    hands.complete()
    hands.say("k", "g", "k2")
    hands.crash("k", reaches="l")
    hands.carry()
    hands.notify("i", "k")
    hands.carry()
    hands.crash("l")
    hands.notify("i", "l")
    hands.carry()
    hands.notify("j", "k", "l")
    return hands


@pytest.mark.usefixtures("variant")
@pytest.mark.parametrize("variant", ["recorded is not erased"], indirect=True)
def test_6_3_2_a_refutation_that_concerns_only_those_who_suspect_leaves_two_detections() -> None:
    hands = refuted_before_it_is_suspected()
    assert hands.records("j", "confirm")[0]["detection"]["k"] == hands.block("k1"), "with i's suspicion, which i has taken back"
    hands.carry()
    hands.notify("i", "k")
    hands.carry()
    hands.complete()
    assert hands.suspicions("i")["k"] == hands.block("k2")
    assert hands.views("j")[-1] == "i j"
    assert hands.views("i")[-1] == "i j k l", "i waits for j's agreement for ever"


def test_6_3_2_a_refutation_erases_what_is_recorded() -> None:
    hands = refuted_before_it_is_suspected()
    assert not hands.records("j", "confirm")
    hands.carry()
    assert hands.suspicions("j") == {"l": hands.last("j", "l")}, "i has refuted: j has k2"
    hands.notify("i", "k")
    hands.notify("j", "k")
    hands.carry()
    hands.complete()
    assert hands.history("i") == hands.history("j") == ["{i j k l}", "k1", "k2", "{i j}"]


# --- 6.3.2 (vi) --------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("variant")
@pytest.mark.parametrize("variant", ["counting detections"], indirect=True)
def test_6_3_2_vi_is_never_before_its_suspicions() -> None:
    """Packets and time-outs in any order, and crashes: who hears a detection of others suspects all of it, or has removed it."""
    told = []
    for seed in range(900):
        random = Random(seed)
        hands = Changing("a b c d", order=random.choice(["total", "fast", "slow"]))
        hands.say("a", "g", "a1")
        hands.carry()  # now all know how long a block takes, and do not wait longer
        timers, loss = random.choice([0.05, 0.2, 0.5]), random.choice([0.0, 0.1, 0.4])
        for _ in hands.wander(random, 400, messages=20, timers=timers, loss=loss):
            if random.random() < 0.006 and len(hands.crashed) < 2:
                hands.crash(random.choice([name for name in "abcd" if name not in hands.crashed]))
        told += [detail["early"] for name in "abcd" for detail in hands.records(name, "told")]
    assert len(told) > 5
    assert not any(told)


# --- 6.3.2 (viii) ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("variant", "mutual"), [("not mutual", False), ("", True)], indirect=["variant"])
def test_6_3_2_viii_speaks_of_oneself_in_anothers_detection(variant: str, mutual: bool) -> None:
    """Printed is P_j, the sender, in its own detection: that is never so, and whoever is excluded has to wait for omega."""
    hands = Changing("i j k")
    hands.say("k", "g", "k1")
    hands.carry()
    hands.notify("i", "k")
    hands.notify("j", "k")
    hands.carry()
    assert all("k" not in hands.views(name)[-1] for name in "ij")
    assert bool(hands.words("k")) is mutual
    assert (hands.views("k")[-1] == "k") is mutual


# --- 6.4: "<=" ----------------------------------------------------------------------------------------------------------


def behind_another(order: str) -> Changing:
    """Nothing of a has reached b yet; c and d crash."""
    hands = Changing("a b c d e", order=order)
    hands.say("c", "g", "c1")
    hands.carry(keep=letters("a", "b"))
    for name in "abde":
        if ("silence", "g") in hands.hosts[name].timers:
            hands.expire(name, ("silence", "g"))
    hands.carry(keep=letters("a", "b"))
    return hands


def take_over(hands: Changing, *failed: ProcessId) -> None:
    """All suspect these; b hears another's detection before a's suspicion, and takes it over (vi)."""
    for name in failed:
        hands.crash(name)
    for name in "abcde":
        if name not in failed:
            hands.notify(name, *failed)
    hands.carry(keep=letters("a", "b"))
    assert hands.records("b", "confirm")[0]["by"] in "de"
    hands.carry()
    hands.complete()


@pytest.mark.parametrize(("variant", "same"), [("below the minimum", False), ("", True)], indirect=["variant"])
def test_6_4_what_bears_the_minimum_lbn_is_not_discarded(variant: str, same: bool) -> None:
    """c1 is complete and delivered at a and e. At b a's null message for it is under way."""
    hands = behind_another("total")
    assert hands.delivered("a") == hands.delivered("e") == ["c1"]
    assert hands.delivered("b") == []
    take_over(hands, "c")
    assert all(hands.views(name)[-1] == "a b d e" for name in "abe")
    assert (hands.delivered("b") == ["c1"]) is same


# --- 6.3.2 (vii) and causal orders ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("variant", "same"), [("minimum cut", False), ("", True)], indirect=["variant"])
def test_6_5_fast_order_may_have_delivered_above_the_minimum_lbn(variant: str, same: bool) -> None:
    """d1 follows a1, which is under way to b. a and e have delivered it; c's last block is smaller."""
    hands = behind_another("fast")
    hands.say("a", "g", "a1")
    hands.carry(keep=letters("a", "b"))
    hands.say("d", "g", "d1")
    hands.carry(keep=letters("a", "b"))
    assert hands.delivered("a") == hands.delivered("e") == ["c1", "a1", "d1"]
    assert hands.delivered("b") == ["c1"]
    take_over(hands, "c", "d")
    assert hands.block("d1") > hands.records("a", "confirm")[0]["detection"]["c"]
    assert all(hands.views(name)[-1] == "a b e" for name in "abe")
    assert (hands.delivered("b") == ["c1", "a1", "d1"]) is same


@pytest.mark.parametrize(("variant", "same"), [("minimum cut", False), ("", True)], indirect=["variant"])
def test_6_5_slow_order_delivers_one_block_above_the_minimum_lbn(variant: str, same: bool) -> None:
    """Block 1 is complete at a and e, which deliver d1, with block 2; at b it is not."""
    hands = behind_another("slow")
    hands.say("d", "g", "d1")
    hands.carry(keep=letters("a", "b"))
    assert hands.block("d1") == 2
    assert hands.delivered("a") == hands.delivered("e") == ["c1", "d1"]
    assert hands.delivered("b") == ["c1"]
    take_over(hands, "c", "d")
    assert hands.records("a", "confirm")[0]["detection"] == {"c": 1, "d": 2}
    assert all(hands.views(name)[-1] == "a b e" for name in "abe")
    assert (hands.delivered("b") == ["c1", "d1"]) is same


# --- 6.3.2 (vii): lsb -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("variant", "goes_on"), [("virtual nulls are not stable", False), ("", True)], indirect=["variant"])
def test_6_3_2_virtual_null_messages_are_stable_as_well(variant: str, goes_on: bool) -> None:
    """fl1 asks for what everybody knows to be stable. c, which has failed, will never know more than it has said."""
    hands = Changing("a b c")
    for number in range(4):
        hands.say("a", "g", f"a{number}")
        hands.carry()
        hands.complete()
    hands.crash("c")
    hands.say("a", "g", "a4")
    hands.carry()
    hands.complete()
    part = hands.part("a", "g")
    said = part.matrix.columns["c"].stable
    assert part.matrix.columns["b"].stable > said
    for name in "ab":
        hands.notify(name, "c")
    hands.carry(only=to("a"))
    assert hands.failed("a") == ["c"]
    part.flow.refresh()
    assert part.flow.fl1(said + part.flow.bound + 1) is goes_on


# --- flow control against membership ------------------------------------------------------------------------------------


@pytest.mark.parametrize(("variant", "goes_on"), [("words wait", False), ("", True)], indirect=["variant"])
def test_6_3_2_and_8_suspicions_do_not_wait_for_flow_control(variant: str, goes_on: bool) -> None:
    """N = 3. c has crashed, so nothing gets stable, and a is held up; so would be whatever it has to say about c."""
    hands = Changing("a b c", blocks=3)
    hands.crash("c")
    hands.say("a", "g", *(f"a{number}" for number in range(6)))
    hands.carry()
    hands.complete()
    assert hands.part("a", "g").blocked
    for name in "ab":
        hands.notify(name, "c")
    hands.pass_time(2 * SECOND)
    assert bool(hands.words("a")) is goes_on
    assert (hands.views("a")[-1] == "a b") is goes_on
    assert (len(hands.delivered("b")) == 6) is goes_on


@pytest.mark.parametrize(("variant", "goes_on"), [("signs of life wait", False), ("", True)], indirect=["variant"])
def test_6_3_iii_and_8_signs_of_life_do_not_wait_for_flow_control(variant: str, goes_on: bool) -> None:
    """N = 3. The words about c, which do not wait, have taken flow numbers far above what is stable: whatever would tell that
    they have arrived has a larger one, and waits. A sign of life does not, and tells. If it waits too, all delivery ends."""
    run = simulate(
        {"g": "a b c"},
        Workload(senders=("a",), rate=100.0, count=30),
        parameters={**LIVELY, "blocks": 3},
        fault=(Fault(kind="crash", process="c", at=Duration(100 * MS)),),
        drain=Duration(3 * SECOND),
    )
    assert run.of("view", "a")[-1]["members"] == ["a", "b"]
    assert run.summary.quiet is goes_on
    assert (len(run.delivered("b")) == 30) is goes_on


LIVELY: dict[str, Any] = {"transport": "lossy", "suspect_after": Duration(250 * MS), "merge_after": Duration(0)}


# --- overlapping groups ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("parameters", ORDERS, ids=name_of)
def test_6_2_across_groups_the_answer_to_a_lost_message_comes_when_its_sender_is_confirmed_to_have_failed(
    parameters: dict[str, Any],
) -> None:
    """r's m in g1 reaches s only. s delivers it, sends m' in g2, and crashes. x, in both, never gets m, which is nowhere, and
    delivers m': after it has confirmed that r has failed (it waits for g1, or for r in it), and before the view says so."""
    hands = Changing({"g1": "r s x y", "g2": "s x"}, **parameters)
    hands.say("r", "g1", "m")
    hands.crash("r", reaches="s")
    hands.carry()
    for _ in range(2):
        hands.complete(group="g1")
        hands.complete(group="g2")
    assert hands.delivered("s") == ["m"]
    hands.say("s", "g2", "m'")
    hands.crash("s")
    hands.carry()
    hands.notify("x", "s", group="g2")
    assert hands.records("x", "confirm")[0]["cut"] == {"s": hands.block("m'")}, "in g2 it is s alone, and m' counts"
    for name in "xy":
        hands.notify(name, "r", "s", group="g1")
    assert hands.delivered("x") == [], "g1 is not complete up to m'"
    hands.carry()
    hands.complete(group="g1")
    assert hands.records("x", "confirm")[1]["cut"]["r"] < hands.block("m")
    assert hands.history("x") == ["{r s x y}", "{s x}", "m'", "{x}", "{x y}"]
    assert hands.causal_violations() == [("x", "m", "m'")]


# --- 6.4: signatures ------------------------------------------------------------------------------------------------------


def two_views_that_exclude_two() -> Changing:
    """z suspects j and k, then i and l. i and l hear the first and suspect j and k themselves; j and k hear the second and
    suspect i and l. So {i, l, z} and {j, k, z} come to be at once. (z, which trusts nobody, is alone.)"""
    hands = Changing("i j k l z", signatures=True)
    hands.notify("z", "j", "k")
    hands.say("z", "g", *(f"z{number}" for number in range(9)))
    hands.carry(only=to("i", "l"))
    hands.notify("z", "i", "l")
    hands.lose(either(to("i", "l"), saying(Confirmed, Remove)))
    hands.carry()
    for one, others in (("i", "jk"), ("l", "jk"), ("j", "il"), ("k", "il")):
        hands.notify(one, *others)
    hands.carry(lose=either(between("i l", "j k"), to("z")))
    return hands


def disjoint(hands: Changing) -> bool:
    """What the checker says about the views that were installed."""
    script = Script()
    for name in hands.processes:
        for place, view in enumerate(hands.installed(name)):
            script.view(place, name, view.number, " ".join(view.members), signatures=dict(view.signatures))
    return not verify(script.table()).properties["disjoint-views"].violations


@pytest.mark.parametrize(("variant", "is_disjoint"), [("exclusions counted", False), ("", True)], indirect=["variant"])
def test_6_4_two_concurrent_views_may_have_excluded_as_many(variant: str, is_disjoint: bool) -> None:
    hands = two_views_that_exclude_two()
    assert hands.views("i") == hands.views("l") == ["i j k l z", "i l z"]
    assert hands.views("j") == hands.views("k") == ["i j k l z", "j k z"]
    of_z = [hands.installed(name)[1].signatures["z"] for name in "ij"]
    assert (of_z[0] != of_z[1]) is is_disjoint
    assert disjoint(hands) is is_disjoint


@pytest.mark.parametrize(("variant", "is_disjoint"), [("exclusions counted", False), ("", True)], indirect=["variant"])
def test_6_4_who_joins_excludes_nobody(variant: str, is_disjoint: bool) -> None:
    """c crashes and comes back: {a, b} and the view with it have excluded one process each."""
    run = simulate(
        {"g": "a b c"},
        Workload(rate=20.0),
        parameters={**LIVELY, "signatures": True},
        duration=Duration(2 * SECOND),
        fault=(
            Fault(kind="crash", process="c", at=Duration(100 * MS)),
            Fault(kind="restart", process="c", at=Duration(800 * MS)),
        ),
    )
    assert [len(row["members"]) for row in run.of("view", "a")] == [3, 2, 3]
    assert run.violated == ([] if is_disjoint else ["disjoint-views"])
