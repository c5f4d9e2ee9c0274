"""Nothing stands still for longer than the protocol states: each course of events in which it once did."""

from __future__ import annotations

import dataclasses
from itertools import pairwise
from typing import Any

import pytest

from plainchant.core.model import MS, SECOND, Duration, parse_duration
from plainchant.scenario.model import Delay, Fault, Network, Scenario, Workload
from tests.protocols.runs import Run, verified

from . import membership_scripted, membership_sweep
from .membership_mutants import MUTANTS

OMEGA = 250
"""``suspect_after`` by default, in milliseconds."""
REPEATED = 1.5 * OMEGA
"""Suspicions that are not settled are repeated so often."""
ABC = ("a", "b", "c")
CRASH = Fault(kind="crash", at=Duration(1 * SECOND), process="c")


def ms(milliseconds: float) -> Duration:
    return Duration(round(milliseconds * MS))


def run(
    members: tuple[str, ...],
    *faults: Fault,
    length: float,
    rate: float = 20.0,
    seed: int = 0,
    delay: float = 1,
    loss: float = 0.0,
    senders: tuple[str, ...] = (),
    **parameters: Any,
) -> Run:
    """A group with default parameters, unless others are given, in which every member sends."""
    return verified(
        Scenario(
            protocol="newtop",
            seed=seed,
            members=members,
            groups={"g": members},
            duration=ms(length),
            drain=Duration(30 * SECOND),
            parameters=parameters,
            workload=(Workload(rate=rate, senders=senders),),
            fault=faults,
            network=Network(delay=Delay("constant", ms(delay)), loss=loss),
        )
    )


def standstill(run: Run, process: str) -> float:
    """The longest time (ms) in which a process delivered nothing, up to its last delivery."""
    moments = [0, *(row["true_time"] for row in run.of("deliver", process))]
    return float(max(after - before for before, after in pairwise(moments))) / MS


def last_delivery(run: Run, process: str) -> float:
    return max(float(row["true_time"]) for row in run.of("deliver", process)) / MS


def circle(length: float) -> tuple[Fault, ...]:
    """One-way cuts: b does not hear a, c does not hear b, a does not hear c."""
    links = (("a", "b"), ("b", "c"), ("c", "a"))
    return tuple(Fault(kind="cut", at=ms(1000), source=source, target=target, length=ms(length)) for source, target in links)


# --- suspicions that form a circle ------------------------------------------------------------------------------------


@pytest.mark.parametrize("partitions", ["all", "majority"])
@pytest.mark.parametrize("seed", range(4))
def test_suspicions_in_a_circle_are_refuted_when_the_links_work_again(partitions: str, seed: int) -> None:
    """Cut for 400 ms: each has suspected another by then, and repeats that at most one and a half omegas after the end."""
    found = run(ABC, *circle(400), length=3000, seed=seed, partitions=partitions)
    assert not found.violated
    assert found.summary.quiet
    assert len(found.of("view")) == len(ABC)
    assert all(standstill(found, name) < 400 + REPEATED for name in ABC)
    assert all(last_delivery(found, name) > 2900 for name in ABC)


def test_members_part_while_the_links_of_a_circle_stay_broken_and_come_together_after() -> None:
    """No member can settle the suspicions: after eight omegas and ``patience`` (as much again) each member goes on alone."""
    found = run(ABC, *circle(9000), length=14_000)
    assert not found.violated
    assert found.summary.quiet
    assert all(standstill(found, name) < 18 * OMEGA for name in ABC)
    assert {tuple(row["members"]) for row in found.of("view")} >= {("a",), ("b",), ("c",), ABC}
    reasons = {reason["reason"] for detail in found.details("view") for reason in detail.get("left", {}).values()}
    assert "unsettled" in reasons
    assert all(tuple(found.of("view", name)[-1]["members"]) == ABC for name in ABC)
    with MUTANTS.variants["members that neither share nor refute a suspicion are waited for"].applied():
        found = run(ABC, *circle(9000), length=14_000)
    assert all(standstill(found, name) > 9000 for name in ABC)


def test_a_majority_waits_while_the_links_of_a_circle_stay_broken() -> None:
    """No majority hears each other, and to part would halt all of them: they go on when the links work."""
    found = run(ABC, *circle(9000), length=12_000, partitions="majority")
    assert not found.violated
    assert found.summary.quiet
    assert not found.of("crash")
    assert all(standstill(found, name) < 9000 + REPEATED for name in ABC)


def test_a_suspicion_that_was_not_heard_is_repeated_soon() -> None:
    """Without that, probes bring it along. After two seconds they are rare."""
    found = run(ABC, *circle(2000), length=4000)
    assert all(standstill(found, name) < 2000 + REPEATED for name in ABC)
    with MUTANTS.variants["suspicions are not repeated"].applied():
        found = run(ABC, *circle(2000), length=4000)
    assert any(standstill(found, name) > 2000 + REPEATED for name in ABC)


# --- one crash where many packets are lost ----------------------------------------------------------------------------

LOSSY_SEEDS = (123, 125, 137, *range(100, 112))
"""The first three halted both survivors; now and then one of the others halted one."""


def halted(found: Run) -> list[str]:
    """Processes that the protocol stopped."""
    return [row["process"] for row in found.of("crash") if '"by":"protocol"' in row["detail"]]


@pytest.mark.parametrize("loss", [0.2, 0.3])
def test_one_crash_costs_no_member_of_a_majority_however_many_packets_are_lost(loss: float) -> None:
    for seed in LOSSY_SEEDS:
        found = run(ABC, CRASH, length=4000, loss=loss, seed=seed, partitions="majority")
        assert not found.violated, seed
        assert not halted(found), seed
        assert all(tuple(found.of("view", name)[-1]["members"]) == ("a", "b") for name in ("a", "b")), seed
        assert all(last_delivery(found, name) > 3500 for name in ("a", "b")), seed


def test_without_signs_of_life_a_crash_and_lost_packets_cost_a_majority() -> None:
    """The rule that this stands on: a member that is heard is not suspected."""
    with MUTANTS.variants["a member that is heard is suspected"].applied():
        found = [run(ABC, CRASH, length=4000, loss=0.3, seed=seed, partitions="majority") for seed in LOSSY_SEEDS]
    assert any(halted(one) for one in found)


def test_without_questions_for_signs_of_life_a_member_that_lives_is_suspected() -> None:
    """Without questions there are few packets in an omega after a crash, and now and then all of them are lost."""
    settings: dict[str, Any] = {"length": 2500, "loss": 0.3, "partitions": "majority"}
    assert not any(halted(run(ABC, CRASH, **settings, seed=seed)) for seed in range(40))
    assert not any(halted(run(ABC, CRASH, **settings, rate=2.0, seed=seed)) for seed in range(60))
    with MUTANTS.variants["no questions for signs of life"].applied():
        assert any(halted(run(ABC, CRASH, **settings, rate=2.0, seed=seed)) for seed in (42, 47, 51))


# --- an application that does not read --------------------------------------------------------------------------------

STOPS_READING = Fault(kind="sluggish", at=Duration(1 * SECOND), process="c", length=Duration(60 * SECOND), count=10)


@pytest.mark.parametrize("order", ["total", "fast", "relative"])
@pytest.mark.parametrize(("patience", "bound"), [("0s", 8 * OMEGA), ("600ms", 600)])
def test_a_member_that_does_not_read_is_excluded_after_patience(order: str, patience: str, bound: float) -> None:
    found = run(ABC, STOPS_READING, length=8000, rate=200.0, order=order, patience=parse_duration(patience))
    assert not found.violated
    assert halted(found) == ["c"]
    assert all(standstill(found, name) < bound + 50 for name in ("a", "b"))
    assert all(last_delivery(found, name) > 7900 for name in ("a", "b"))
    (_, view) = found.details("view", "a")
    assert view["left"]["c"]["reason"] == "not reading"
    assert found.details("crash", "c")[0]["reason"] == "not reading"


def test_a_sender_that_does_not_read_is_excluded_too() -> None:
    found = run(ABC, STOPS_READING, length=8000, rate=200.0, blocks=8, senders=("c",))
    assert not found.violated
    assert halted(found) == ["c"]


def test_a_member_that_reads_in_time_stays() -> None:
    pause = Fault(kind="sluggish", at=Duration(1 * SECOND), process="c", length=ms(8 * OMEGA - 200), count=10)
    found = run(ABC, pause, length=6000, rate=200.0)
    assert not found.violated
    assert not halted(found)
    assert len(found.of("view")) == len(ABC)


def test_a_member_that_does_not_read_stays_where_it_holds_no_sender_up() -> None:
    """Flow control leaves room for all that is sent."""
    found = run(ABC, STOPS_READING, length=8000, rate=5.0)
    assert not halted(found)


def test_the_others_know_at_once_that_a_group_is_still_not_read_when_parts_come_together() -> None:
    """c does not read while the group is split and merged: that counts on in the new formation."""
    split = Fault(kind="partition", at=ms(1200), parts=(("a",), ("b", "c")), length=ms(800))
    found = run(ABC, STOPS_READING, split, length=8000, rate=200.0)
    assert not found.violated
    assert halted(found) == ["c"]
    assert all(last_delivery(found, name) > 7900 for name in ("a", "b"))


# --- round trips longer than omega ------------------------------------------------------------------------------------


@pytest.mark.parametrize("partitions", ["all", "majority"])
@pytest.mark.parametrize(("one_way", "loss"), [(105, 0.1), (200, 0.3), (400, 0.1), (750, 0.3), (1000, 0.1)])
def test_members_that_are_far_stay_together(one_way: float, loss: float, partitions: str) -> None:
    """Round trips of 0.8 to 8 omegas, from the beginning."""
    for members in (("a", "b"), ABC, ("a", "b", "c", "d", "e")):
        found = run(members, length=12_000, rate=5.0, delay=one_way, loss=loss, partitions=partitions)
        assert not found.violated
        assert found.summary.quiet
        assert len(found.of("view")) == len(members)


def test_without_patience_at_the_beginning_members_that_are_far_part_or_halt() -> None:
    """Round trips of six omegas: no member is heard in two."""
    with MUTANTS.variants["omega begins with suspect_after"].applied():
        assert len(run(ABC, length=4000, delay=750).of("view")) > len(ABC)
        assert halted(run(ABC, length=4000, delay=750, partitions="majority")) == list(ABC)


def test_a_crash_after_the_beginning_is_noticed_after_suspect_after() -> None:
    """The timer of the longest omega, with which a group begins, does not count on."""
    crash = Fault(kind="crash", at=ms(100), process="c")
    found = run(ABC, crash, length=1000)
    assert all(found.of("view", name)[-1]["true_time"] < (100 + OMEGA + 80 + 20) * MS for name in ("a", "b"))


@pytest.mark.parametrize(("members", "one_way"), [("ab", 800), ("abc", 375), ("abcde", 375)])
def test_parts_that_are_far_from_each_other_meet_once_and_stay(members: str, one_way: float) -> None:
    """Round trips of three to six omegas. All know how long it takes when the network heals."""
    split = Fault(kind="partition", at=ms(0), parts=(tuple(members[:1]), tuple(members[1:])), length=ms(6000))
    found = run(tuple(members), split, length=20_000, rate=5.0, delay=one_way, loss=0.05)
    assert not found.violated
    assert found.summary.quiet
    assert len(found.of("view")) == 3 * len(members)
    assert all(row["true_time"] < 14_000 * MS for row in found.of("view"))


def test_parts_that_lose_each_other_again_and_again_back_off() -> None:
    """Shown without what parts learn, which would keep them together: they meet, lose each other, and wait longer each time."""
    settings: dict[str, Any] = {"length": 60_000, "rate": 1.0, "delay": 800}
    forgetful = MUTANTS.variants["what was learned about blocks is lost at a merge"]
    forgetful += MUTANTS.variants["omega begins with suspect_after"]
    with forgetful.applied():
        views = len(run(("a", "b"), **settings).of("view"))
    with (forgetful + MUTANTS.variants["parts do not back off"]).applied():
        assert len(run(("a", "b"), **settings).of("view")) > 3 * views // 2


@pytest.mark.parametrize("omega", [20, 23])
def test_a_call_that_was_given_up_does_not_keep_a_part_from_the_next(omega: int) -> None:
    """Sweep seed 2811 with a large window: round trips of 22 ms; once there were 51 further views, and no end."""
    scenario = membership_sweep.scenario_of(2811)
    parameters = {**scenario.parameters, "blocks": 256, "suspect_after": ms(omega)}
    outcome = membership_sweep.run(2811, None, dataclasses.replace(scenario, parameters=parameters))
    assert not outcome.violated
    over = max(fault.at + fault.length for fault in scenario.fault)
    views = [row for row in outcome.table.to_pylist() if row["kind"] == "view" and row["true_time"] > over]
    assert len(views) <= 3 * len(scenario.members)


def test_signs_of_life_do_not_take_a_small_window_for_themselves() -> None:
    """Round trips of five omegas and a window of four blocks: more signs of life are under way than the window has room for."""
    found = run(("a", "b"), length=6000, rate=2.0, delay=600, blocks=4, order="fast")
    assert not found.violated
    assert found.summary.quiet
    with MUTANTS.variants["room is counted in blocks"].applied():
        assert "progress" in run(("a", "b"), length=6000, rate=2.0, delay=600, blocks=4, order="fast").violated


# --- views that differ have different numbers, and one part goes on ---------------------------------------------------


@pytest.mark.parametrize("order", ["total", "slow", "fast", "relative", "cbcast"])
@pytest.mark.parametrize("same_view", [False, True])
def test_a_leave_while_another_member_is_paused_gives_no_number_to_two_views(order: str, same_view: bool) -> None:
    """b installs the view without c when it wakes up, and then hears that it was given up itself."""
    scenario = membership_scripted.SCENARIOS["a leave while another is paused"]
    parameters = {**scenario.parameters, "order": order, "same_view": same_view}
    outcome = membership_sweep.run(0, None, dataclasses.replace(scenario, parameters=parameters))
    assert not outcome.violated
    assert {(row["view"], len(row["members"])) for row in outcome.table.to_pylist() if row["kind"] == "view"} == {
        (1, 3),
        (2, 2),
        (3, 1),
    }


@pytest.mark.parametrize("seed", [1, 2, 21, 36, 37, 39])
def test_a_part_that_has_moved_does_not_go_on_beside_the_majority_that_stayed(seed: int) -> None:
    """b is in a new formation with c, and a, which is first of two, went on without b in the old one: b and c halt."""
    scenario = dataclasses.replace(membership_scripted.SCENARIOS["a member is lost on the way"], seed=seed)
    outcome = membership_sweep.run(0, None, scenario)
    assert not outcome.violated
    reasons = {row["process"]: row["detail"] for row in outcome.table.to_pylist() if row["kind"] == "crash"}
    assert "not a majority" in reasons["b"]
    assert "a" not in reasons


@pytest.mark.parametrize("seed", [8, 24, 28, 34, 36])
def test_members_that_leave_and_fail_together_are_removed_in_one_place(seed: int) -> None:
    scenario = dataclasses.replace(membership_scripted.SCENARIOS["two leave and one crashes"], seed=seed)
    assert not membership_sweep.run(0, None, scenario).violated
