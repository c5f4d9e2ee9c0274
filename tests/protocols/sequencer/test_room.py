"""Applications that do not read: senders slow down, nothing is lost, and who holds the group up for too long goes."""

from __future__ import annotations

import dataclasses
import json
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from plainchant.core.engine import Engine, Host, Layer
from plainchant.core.model import MS, SECOND, Batch, Duration, GroupId, Pressure, ProcessId, Reason, Timer, View
from plainchant.lab.properties import verify
from plainchant.protocols.sequencer import make
from plainchant.protocols.sequencer.packets import Ack, Announce, Phase1
from plainchant.scenario.model import Delay, Network, Scenario, Workload
from plainchant.sim import Simulation
from plainchant.trace import TraceBuffer
from tests.protocols.sequencer.by_hand import GROUP, Letter, request, to

from . import sweep
from .packets_by_hand import Script, of_type

THREE = ("p1", "p2", "p3")
HISTORY = 8
MANY = [str(number) for number in range(40)]
PATIENCE_MS = 1_000


def three(**parameters: Any) -> Script:
    return Script(*THREE, **{"history": HISTORY, **parameters})


def fill(group: Script, name: ProcessId, full: bool = True) -> None:
    group[name].notice(Pressure(GROUP, full))
    group.carry()


def rows(group: Script, name: ProcessId, kind: str) -> list[dict[str, Any]]:
    return [detail for what, _, detail in group.hosts[name].called("record") if what == kind]


def largest_log(group: Script) -> int:
    return max(len(member.log.entries) + len(member.log.later) for member in group.members.values())


def code(reason: Reason | None) -> str:
    return reason.code if reason is not None else ""


# --- a member that is full ------------------------------------------------------------------------------------------


def test_a_full_member_gets_one_history_more_and_no_packet_is_lost_or_kept_for_ever() -> None:
    group = three()
    group.broadcast("a", "b")
    fill(group, "p3")
    group.say("p2", *MANY)
    group.carry()
    for _ in range(8):
        group.pass_time(100)
        assert group.delivered("p3") == ["a", "b", *MANY[:HISTORY]]
        assert largest_log(group) <= HISTORY
    assert len(group["p2"].requests.outstanding) == group.parameters.window, "the sender's window is closed"
    assert group.hosts["p2"].has_messages(GROUP)
    fill(group, "p3", full=False)
    group.wait_until(lambda: len(group.delivered("p3")) == 2 + len(MANY))
    assert [group.delivered(name) for name in THREE] == [["a", "b", *MANY]] * 3
    assert [group.last_view(name) for name in THREE] == [THREE] * 3


def test_a_full_member_is_no_reason_for_a_synchronisation_phase() -> None:
    group = three()
    fill(group, "p3")
    group.say("p2", *MANY)
    group.carry()
    group.pass_time(PATIENCE_MS // 2)
    assert not group.sent("p1", Phase1)
    assert group["p1"].log.low == HISTORY, "what a full member acknowledged is in nobody's history"


def test_it_goes_on_when_the_word_of_there_being_room_is_lost() -> None:
    group = three()
    fill(group, "p3")
    group.say("p2", *MANY)
    group.carry()
    group["p3"].notice(Pressure(GROUP, False))
    group.mail.clear()
    group.wait_until(lambda: len(group.delivered("p3")) == len(MANY))
    assert group.time < 100 * MS


def test_one_history_more_is_all_even_if_nothing_that_the_full_one_says_arrives() -> None:
    group = three(suspect_after=900 * MS, patience=2 * SECOND)
    fill(group, "p3")
    group.say("p2", *MANY)
    group.carry(lose=lambda letter: letter.source == "p3")
    group.pass_time(300, lose=lambda letter: letter.source == "p3")
    assert len(group.delivered("p3")) == HISTORY


def test_an_old_packet_that_comes_late_makes_no_room() -> None:
    group = three()
    group.broadcast(*"abcd")
    fill(group, "p3")
    group.say("p2", *MANY)
    group.carry()
    group.pass_time(100)
    numbered = group["p1"].log.contiguous
    assert numbered == 4 + HISTORY
    group["p1"].receive("p3", Ack(GROUP, 1, 3))
    group["p1"].receive("p3", Ack(GROUP, 1, 3 + HISTORY, HISTORY - 1))
    group.carry()
    group.pass_time(100)
    assert group["p1"].log.contiguous == numbered


def test_requests_carry_it_too() -> None:
    """Who sends all the time says nothing else."""
    group = three(acknowledge_every=1_000)
    fill(group, "p2")
    for number in range(1, 4 * HISTORY):
        group.say("p2", str(number))
        group.carry(lose=of_type(Ack))
        group["p1"].receive("p3", Ack(GROUP, 1, group["p3"].log.contiguous))
        group.carry(lose=of_type(Ack))
    assert group["p1"].log.contiguous == HISTORY
    group["p1"].receive("p2", request(HISTORY + 1, str(HISTORY + 1), ack=HISTORY))
    group.carry()
    assert group["p1"].log.contiguous > HISTORY, "a request that says that there is room is as good as an acknowledgement"


def test_blocked_and_unblocked_are_in_the_trace_with_their_reasons() -> None:
    group = three()
    fill(group, "p3")
    group.say("p2", *MANY)
    group.carry()
    group.pass_time(100)
    assert [row["reason"] for row in rows(group, "p3", "block")] == ["full"]
    assert [row["reason"] for row in rows(group, "p1", "block")] == ["history full", "not reading"]
    assert rows(group, "p1", "block")[0]["history"] == HISTORY, "that was before the acknowledgements came"
    assert "p3" in rows(group, "p1", "block")[1]["text"]
    assert not rows(group, "p1", "unblock")
    assert code(group["p1"].waiting()) == "not reading"
    fill(group, "p3", full=False)
    group.pass_time(200)
    assert len(rows(group, "p3", "unblock")) == 1
    assert rows(group, "p1", "unblock")
    assert all(group[name].waiting() is None for name in THREE)


def test_what_is_said_twice_is_said_once() -> None:
    group = three()
    for full in (False, True, True, False, False):
        fill(group, "p3", full)
    assert (len(rows(group, "p3", "block")), len(rows(group, "p3", "unblock"))) == (1, 1)


# --- for too long ---------------------------------------------------------------------------------------------------


def test_who_holds_the_group_up_for_longer_than_patience_is_excluded_with_the_reason() -> None:
    group = three()
    fill(group, "p3")
    group.say("p2", *MANY)
    group.carry()
    group.pass_time(PATIENCE_MS - 50)
    assert group.halted("p3") is None
    group.wait_until(lambda: group.halted("p3") is not None)
    reason = group.halted("p3")
    assert reason is not None
    assert reason.code == "not reading"
    assert "the application of p3 has not read what it was given" in reason.text
    group.pass_time(100)
    assert [group.delivered(name) for name in ("p1", "p2")] == [MANY] * 2
    assert group.last_view("p1") == ("p1", "p2")
    assert group.delivered("p3") == MANY[:HISTORY]


def test_nobody_is_excluded_for_not_reading_what_nobody_sends() -> None:
    group = three()
    fill(group, "p3")
    group.say("p2", *MANY[:HISTORY])
    group.carry()
    group.pass_time(5 * PATIENCE_MS)
    assert [group.last_view(name) for name in THREE] == [THREE] * 3


def test_who_reads_slowly_but_reads_stays() -> None:
    group = three()
    group.say("p2", *MANY)
    for _ in range(5):
        fill(group, "p3")
        group.pass_time(PATIENCE_MS * 3 // 5)
        fill(group, "p3", full=False)
    group.wait_until(lambda: len(group.delivered("p3")) == len(MANY))
    assert [group.last_view(name) for name in THREE] == [THREE] * 3


def test_who_reads_too_little_to_go_on_with_is_excluded_too() -> None:
    """Numbering goes on when an eighth of the history is free, not for each place: what is less is as bad as nothing."""
    group = three(history=64, window=100)
    fill(group, "p3")
    group.say("p2", *(str(number) for number in range(200)))
    group.carry()
    group.pass_time(100)
    assert group["p1"].log.contiguous == 64
    group["p1"].receive("p3", Ack(GROUP, 1, 64, 64 - 7))
    group["p3"].room.upto = 7
    group.pass_time(100)
    assert group["p1"].log.contiguous == 64
    group.wait_until(lambda: group.halted("p3") is not None)
    assert code(group.halted("p3")) == "not reading"
    group.pass_time(100)
    assert len(group.delivered("p1")) == len(group.delivered("p2")) == 200


def test_who_acknowledges_too_little_to_go_on_with_is_brought_up_to_date() -> None:
    group = three(
        history=64, window=100, acknowledge_every=1_000, quiet_after=80 * MS, suspect_after=900 * MS, patience=2 * SECOND
    )
    group.say("p2", *(str(number) for number in range(200)))
    group.carry()
    group["p1"].receive("p2", Ack(GROUP, 1, 64))
    group["p1"].receive("p3", Ack(GROUP, 1, 7))
    assert group["p1"].log.contiguous == 64
    group.expire("p1", "sync")
    assert group.sent("p1", Phase1)
    assert group["p1"].log.contiguous > 64


def test_a_majority_that_does_not_read_is_excluded_and_agrees_to_it() -> None:
    group = three()
    for name in ("p2", "p3"):
        fill(group, name)
    group.say("p1", *MANY)
    group.carry()
    group.pass_time(2 * PATIENCE_MS)
    assert [code(group.halted(name)) for name in ("p2", "p3")] == ["not reading"] * 2
    assert group.delivered("p1") == MANY
    assert group.last_view("p1") == ("p1",)


def test_a_sequencer_that_slept_for_long_blames_nobody() -> None:
    group = three()
    fill(group, "p3")
    group.say("p2", *MANY)
    group.carry()
    group.time += 3 * PATIENCE_MS * MS
    group.expire("p1", "tick")
    group.pass_time(20)
    assert group.last_view("p1") == THREE


# --- the sequencer --------------------------------------------------------------------------------------------------


def test_a_full_sequencer_numbers_one_history_more_its_own_messages_among_them() -> None:
    group = three()
    fill(group, "p1")
    group.say("p1", *MANY[:4])
    group.say("p2", *MANY[4:])
    group.carry()
    group.pass_time(PATIENCE_MS // 2)
    assert len(group.delivered("p1")) == HISTORY
    group.say("p1", "mine")
    assert group.hosts["p1"].has_messages(GROUP)
    fill(group, "p1", full=False)
    group.wait_until(lambda: len(group.delivered("p3")) == len(MANY) + 1)
    assert group.delivered("p1") == group.delivered("p2") == group.delivered("p3")
    assert group.sequencers() == ["p1"]


def test_a_sequencer_that_does_not_read_hands_over_and_is_excluded_by_its_successor() -> None:
    group = three()
    fill(group, "p1")
    group.say("p2", *MANY)
    group.carry()
    group.wait_until(lambda: group.sequencers() not in ([], ["p1"]))
    assert PATIENCE_MS * MS < group.time < 2 * PATIENCE_MS * MS
    assert len(group.delivered("p1")) == HISTORY
    group.wait_until(lambda: group.halted("p1") is not None)
    assert code(group.halted("p1")) == "not reading"
    group.pass_time(200)
    assert [group.delivered(name) for name in ("p2", "p3")] == [MANY] * 2
    group.assert_one_history()


def test_alone_a_full_sequencer_waits_for_itself() -> None:
    group = Script("p1", history=HISTORY)
    fill(group, "p1")
    group.say("p1", *MANY)
    group.pass_time(3 * PATIENCE_MS)
    assert len(group.delivered("p1")) == HISTORY
    fill(group, "p1", full=False)
    assert group.delivered("p1") == MANY


def test_a_successor_knows_who_is_full() -> None:
    group = three()
    fill(group, "p3")
    group.say("p2", *MANY)
    group.carry()
    group.kill("p1")
    group.wait_until(lambda: group.sequencers() == ["p2"])
    group.pass_time(200)
    assert len(group.delivered("p3")) <= 2 * HISTORY
    assert group.hosts["p2"].has_messages(GROUP)
    fill(group, "p3", full=False)
    group.wait_until(lambda: len(group.delivered("p3")) == len(MANY))
    assert group.delivered("p2") == group.delivered("p3") == MANY


# --- views ----------------------------------------------------------------------------------------------------------


def test_views_take_effect_while_everybody_is_full() -> None:
    group = three()
    for name in THREE:
        fill(group, name)
    group.say("p2", *MANY)
    group.carry()
    group.enter("p4")
    group.carry()
    group.pass_time(200)
    assert [group.last_view(name) for name in (*THREE, "p4")] == [(*THREE, "p4")] * 4
    for name in THREE:
        fill(group, name, full=False)
    group.wait_until(lambda: len(group.delivered("p1")) == len(MANY))
    group.pass_time(100)
    assert group.delivered("p4") == group.delivered("p1")[-len(group.delivered("p4")) :]


def test_a_joiner_that_is_full_before_it_is_in_holds_up_only_what_comes_after() -> None:
    group = three()
    group.broadcast(*MANY[:20])
    group.enter("p4")
    group["p4"].notice(Pressure(GROUP, True))
    group.carry()
    group.pass_time(100)
    assert group.last_view("p4") == (*THREE, "p4")
    group.say("p2", *MANY[20:])
    group.carry()
    group.pass_time(100)
    assert 0 < len(group.delivered("p4")) <= HISTORY


def test_who_is_full_may_leave() -> None:
    group = three()
    fill(group, "p3")
    group.say("p2", *MANY)
    group.carry()
    group["p3"].leave(GROUP)
    group.carry()
    group.wait_until(lambda: group.has_left("p3"))
    group.pass_time(100)
    assert group.delivered("p1") == group.delivered("p2") == MANY
    group["p3"].notice(Pressure(GROUP, False))
    assert not rows(group, "p3", "unblock"), "who is gone has nothing to say"


# --- everybody knows soon that everybody has it ---------------------------------------------------------------------


def test_the_last_message_is_known_to_be_everywhere_after_one_quiet_interval_and_two_journeys() -> None:
    journey = 1 * MS
    when: dict[str, int] = {}

    class Told(Layer):
        def stable(self, group: GroupId, rank: int) -> None:
            when[self.me] = self.now
            self.host.stable(group, rank)

    scenario = Scenario(
        protocol="sequencer",
        members=THREE,
        duration=Duration(SECOND),
        drain=Duration(5 * SECOND),
        network=Network(delay=Delay("constant", Duration(journey))),
        workload=(Workload(senders=("p2",), closed=1, count=10),),
    )
    for seed in range(5):
        trace = TraceBuffer()
        chosen = dataclasses.replace(scenario, seed=seed)
        Simulation(chosen, trace=trace, make=lambda host, parameters: Told(host, lambda inner: make(inner, parameters))).run()
        last = max(row["true_time"] for row in trace.table().to_pylist() if row["kind"] == "deliver")
        assert max(when.values()) - last <= 20 * MS + 2 * journey
        assert len(when) == 3


def test_stability_is_told_only_once_a_quiet_time() -> None:
    group = three()
    group.broadcast(*"abc")
    before = len(group.sent("p1", Announce))
    for name in ("p2", "p3", "p2", "p3"):
        group.expire(name, "tick")
    told = group.sent("p1", Announce)[before:]
    assert [packet.stable for packet in told] == [3]


# --- in the simulator -----------------------------------------------------------------------------------------------


class Moody(Layer):
    """An application that stops reading now and then, for a moment or for long, until it is told to read for good."""

    until = 2 * SECOND

    def __init__(self, host: Host, inside: Callable[[Host], Engine], history: int) -> None:
        self._full = False
        self._since_full = 0
        self._most = 2 * history
        super().__init__(host, inside)

    def start(self) -> None:
        self.inner.start()
        self._again()

    def _again(self) -> None:
        chances = self.host.random
        if self._full:
            length = chances.choice((5, 20, 100, 300, 1_500) if chances.random() < 0.3 else (5, 20, 100)) * MS
        else:
            length = chances.randrange(20, 400) * MS
        if self._full:
            self.host.record("fault", "g", fault="sluggish", length=length)
        self.host.set_timer("mood", self.host.now + length)

    def expire(self, timer: Timer) -> None:
        if timer != "mood":
            self.inner.expire(timer)
        elif self._full or self.host.now < self.until:
            self._full = not self._full
            self._since_full = 0
            self.inner.notice(Pressure("g", self._full))
            self._again()

    def deliver(self, group: GroupId, sender: ProcessId, batch: Batch, rank: int | None = None) -> None:
        self._since_full += 1
        assert not self._full or self._since_full <= self._most, "more than what was on its way and a history"
        self.host.deliver(group, sender, batch, rank)

    def install(self, view: View) -> None:
        self._since_full = 0  # another sequencer may not know yet
        self.host.install(view)


def moody(seed: int) -> sweep.Outcome:
    """A run of the sweep with its faults, and with applications that stop reading."""
    scenario = sweep.scenario_of(seed)
    history = scenario.parameters["history"]
    return sweep.run(
        seed, lambda host, parameters: Moody(host, lambda inner: make(inner, parameters), history), scenario, least_events=0
    )


@pytest.mark.sweep
def test_no_promise_is_broken_by_applications_that_stop_reading(times: int) -> None:
    reasons: dict[str, int] = {}
    for seed in range(0, times * 504, 12):
        outcome = moody(seed)
        assert not outcome.violated, f"seed {seed}: {outcome.violated}"
        for row in outcome.table.to_pylist():
            if row["kind"] == "block" and "reason" in (detail := json.loads(row["detail"])):
                reasons[detail["reason"]] = reasons.get(detail["reason"], 0) + 1
    assert set(reasons) == {"full", "not reading", "history full"}


@pytest.mark.parametrize(("stuck", "seed"), [("p3", 0), ("p2", 1), ("p1", 2)])
def test_an_application_that_never_reads_again_costs_the_others_nothing_but_time(stuck: str, seed: int) -> None:
    class Stuck(Layer):
        def start(self) -> None:
            self.inner.start()
            self.host.set_timer("stuck", self.host.now + 200 * MS)

        def expire(self, timer: Timer) -> None:
            if timer == "stuck":
                self.host.record("fault", "g", fault="sluggish", length=20 * SECOND)
                self.inner.notice(Pressure("g", True))
            else:
                self.inner.expire(timer)

    def build(host: Host, parameters: Any) -> Engine:
        return Stuck(host, lambda inner: make(inner, parameters)) if host.me == stuck else make(host, parameters)

    scenario = Scenario(
        protocol="sequencer",
        members=THREE,
        seed=seed,
        duration=Duration(SECOND),
        drain=Duration(20 * SECOND),
        groups={"g": THREE},
        parameters={"history": 16, "pack": False},
        workload=(Workload(rate=300.0, count=250),),
    )
    trace = TraceBuffer()
    summary = Simulation(scenario, trace=trace, make=build).run()
    assert summary.quiet
    assert not verify(trace.table()).violations
    end = summary.processes[stuck]
    assert end.state == "halted"
    assert f"the application of {stuck} has not read" in end.reason
    others = [name for name in THREE if name != stuck]
    assert all(summary.processes[name].state == "alive" for name in others)
    delivered = [row for row in trace.table().to_pylist() if row["kind"] == "deliver" and row["sender"] in others]
    for name in others:
        assert sum(row["process"] == name for row in delivered) == 500


def test_letters_to_a_full_member_go_on() -> None:
    """Heartbeats in both directions: nobody takes a full application for a dead process."""
    group = three()
    fill(group, "p3")
    group.say("p2", *MANY)
    group.carry()
    seen: list[Letter] = []

    def look(letter: Letter) -> bool:
        seen.append(letter)
        return False

    group.pass_time(200, lose=look)
    assert any(letter.source == "p3" and isinstance(letter.packet, Ack) for letter in seen)
    assert any(to("p3")(letter) and isinstance(letter.packet, Announce) for letter in seen)


@pytest.mark.parametrize("packet", [200, 1400])
def test_whoever_sends_gets_about_his_share(packet: int) -> None:
    """Three that send as fast as they may, with a history that is always full: neither does the sequencer fill it by itself, nor
    do the others keep it out."""
    scenario = Scenario(
        protocol="sequencer",
        members=("p1", "p2", "p3"),
        parameters={"history": 32, "window": 8},
        network=Network(max_packet=packet, delay=Delay("uniform", Duration(1 * MS), Duration(2 * MS))),
        workload=(Workload(size=50),),
        duration=Duration(300 * MS),
    )
    trace = TraceBuffer()
    Simulation(scenario, trace=trace).run()
    senders = Counter(row["sender"] for row in trace.table().to_pylist() if row["kind"] == "deliver" and row["process"] == "p2")
    assert min(senders.values()) > max(senders.values()) / 3, senders
