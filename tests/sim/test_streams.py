"""Messages with deadlines: asked for, admitted or rejected, taken by name, written down with when they are due."""

from __future__ import annotations

import json
from typing import Any

import pytest

from plainchant.core.model import PlainchantError, Reason, ScenarioError, Stream, UsageError
from plainchant.scenario.model import Clock, Fault, Workload
from plainchant.sim import ApplicationError, functions
from plainchant.sim.workload import Numbering, Source

from .conftest import MS, SECOND, Run, run_toy
from .toy import Flood, Warden


def alone(on_start: Any, engine: type[Any] = Warden, *, valid: bool = True, **callbacks: Any) -> Run:
    """A run in which only p1's application sends."""
    application = functions(on_start=on_start, **callbacks)
    return run_toy(engine, valid=valid, workload=(), options={"applications": {"p1": application}})


def dues(run: Run) -> list[tuple[int, int | None]]:
    return [(row["time"], row["deadline"]) for row in run.of("send")]


# --- one message ------------------------------------------------------------------------------------------------------


def test_a_message_is_due_a_deadline_after_it_was_handed_over() -> None:
    run = alone(lambda member: member.send("g", b"x", deadline=30 * MS))
    assert dues(run) == [(1 * MS, 30 * MS)]
    assert run.delivered("p2") == [("p1", 1)]
    assert (run.summary.streams_asked, run.summary.streams_admitted, run.summary.streams_rejected) == (1, 1, 0)


def test_messages_without_deadlines_have_none() -> None:
    run = alone(lambda member: member.send("g", b"x"))
    assert dues(run) == [(1 * MS, None)]
    assert run.summary.streams_asked == 0


def test_the_deadline_is_on_the_senders_own_clock() -> None:
    application = functions(on_start=lambda member: member.send("g", b"x", deadline=30 * MS))
    run = run_toy(
        Warden, workload=(), clock=(Clock(process="p1", offset=7 * SECOND),), options={"applications": {"p1": application}}
    )
    assert dues(run) == [(7 * SECOND + 1 * MS, 7 * SECOND + 30 * MS)]


def test_a_clock_that_is_set_in_between_does_not_move_the_deadline() -> None:
    """What is written is what is left of the time."""
    application = functions(on_start=lambda member: member.send("g", b"x", deadline=30 * MS))
    step = Fault(kind="step", process="p1", at=MS // 2, offset=5 * SECOND)
    run = run_toy(Warden, workload=(), fault=(step,), options={"applications": {"p1": application}})
    assert dues(run) == [(5 * SECOND + 1 * MS, 5 * SECOND + 30 * MS)]


def test_what_is_rejected_is_not_sent_and_its_sender_is_told() -> None:
    told: list[tuple[str, str]] = []
    run = alone(
        lambda member: member.send("g", b"x", deadline=9 * MS),
        on_rejected=lambda member, group, stream, reason: told.append((stream, reason.code)),
        on_admitted=lambda member, group, stream: told.append((stream, "admitted")),
    )
    assert told == [("~1", "too soon")]
    assert run.of("send") == []
    assert (run.summary.streams_asked, run.summary.streams_rejected, run.summary.messages_dropped) == (1, 1, 0)
    assert run.summary.quiet


def test_names_of_single_messages_are_their_own_and_end_with_them() -> None:
    names: list[str] = []
    admission: list[Any] = []

    def start(member: Any) -> None:
        names.extend(member.send("g", body, deadline=20 * MS) for body in (b"x", b"y"))

    def view(member: Any, group: str, sender: str, payload: bytes, seq: int) -> None:
        admission.append((seq, member.admission("g")["streams"]))

    run = alone(start, on_deliver=view)
    assert names == ["~1", "~2"]
    assert admission == [(1, ["~2"]), (2, [])]
    assert [row["deadline"] for row in run.of("send")] == [20 * MS, 20 * MS]


def test_messages_with_deadlines_overtake_and_numbers_are_those_of_taking() -> None:
    def start(member: Any) -> None:
        member.send("g", b"slow")
        member.send("g", b"fast", deadline=20 * MS)

    run = alone(start)
    assert [(row["seq"], row["size"], row["deadline"]) for row in run.of("send")] == [(1, 4, 20 * MS), (2, 4, None)]


# --- streams ----------------------------------------------------------------------------------------------------------


def test_a_stream_is_asked_for_once_and_its_messages_are_a_period_apart() -> None:
    """Three at once: the others arrive when their periods begin, and their deadlines count from then."""

    def admitted(member: Any, group: str, stream: str) -> None:
        for body in (b"a", b"b", b"c"):
            member.send(group, body, stream=stream)

    run = alone(lambda member: member.ask("g", Stream("s", 8, 15 * MS, 20 * MS)), on_admitted=admitted)
    assert dues(run) == [(1 * MS, 15 * MS), (21 * MS, 35 * MS), (41 * MS, 55 * MS)]
    assert len(run.of("admit")) == run.summary.streams_asked == 1


def test_a_stream_that_is_released_first_sends_what_it_has() -> None:
    def admitted(member: Any, group: str, stream: str) -> None:
        member.send(group, b"a", stream=stream)
        member.send(group, b"b", stream=stream)
        member.release(group, stream)

    run = alone(lambda member: member.ask("g", Stream("s", 8, 15 * MS, 20 * MS)), on_admitted=admitted)
    assert len(run.of("send")) == 2
    assert [(row["time"], json.loads(row["detail"])["stream"]) for row in run.of("release")] == [(21 * MS, "s")]


def test_a_stream_that_is_released_before_the_answer_is_over_at_once() -> None:
    """The engine hears of it; a late answer means nothing."""
    told: list[str] = []

    def start(member: Any) -> None:
        member.ask("g", Stream("s", 8, 15 * MS, 20 * MS))
        member.release("g", "s")

    run = alone(start, on_admitted=lambda member, group, stream: told.append(stream))
    assert len(run.of("release")) == 1
    assert run.summary.quiet


class Fickle(Warden):
    """Takes its word back after 10 ms."""

    def answer(self, event: Any, admitted: dict[str, Any]) -> None:
        super().answer(event, admitted)
        self.host.set_timer(("back", event.group, event.stream.name), self.host.now + 10 * MS)

    def ready(self, group: str) -> None:
        """Takes nothing."""

    def expire(self, timer: Any) -> None:
        self.host.rejected(timer[1], timer[2], Reason("no longer", "it cannot be kept"))


def test_a_guarantee_that_is_taken_back_drops_what_waits() -> None:
    told: list[str] = []
    run = alone(
        lambda member: member.ask("g", Stream("s", 8, 15 * MS, 20 * MS)),
        Fickle,
        on_admitted=lambda member, group, stream: member.send(group, b"a", stream=stream) and None,
        on_rejected=lambda member, group, stream, reason: told.append(reason.code),
    )
    assert told == ["no longer"]
    assert [json.loads(row["detail"])["messages"] for row in run.of("drop")] == [1]
    assert run.summary.messages_dropped == 1
    assert (run.summary.streams_admitted, run.summary.streams_rejected) == (1, 1)


def test_what_waits_in_streams_when_its_sender_leaves_is_dropped_and_counted() -> None:
    def admitted(member: Any, group: str, stream: str) -> None:
        member.send(group, b"a", stream=stream)
        member.send(group, b"b", stream=stream)
        member.leave(group)

    run = alone(lambda member: member.ask("g", Stream("s", 8, 15 * MS, 20 * MS)), Fickle, on_admitted=admitted)
    assert [json.loads(row["detail"])["messages"] for row in run.of("drop", "p1")] == [2]
    assert run.summary.messages_dropped == 2
    assert run.summary.processes["p1"].state == "left"


class Silent(Warden):
    def notice(self, event: Any) -> None:
        """Never says anything."""


def test_an_answer_that_never_comes_is_what_a_run_waits_for() -> None:
    run = alone(lambda member: member.send("g", b"x", deadline=30 * MS), Silent)
    assert run.summary.not_quiet == {"p1": "the protocol has not said whether it admits stream ~1 in group g"}
    assert run.of("send") == []


class Deaf(Fickle):
    def expire(self, timer: Any) -> None:
        """Does nothing."""


def test_messages_that_are_never_taken_are_what_a_run_waits_for() -> None:
    run = alone(lambda member: member.send("g", b"x", deadline=30 * MS), Deaf)
    assert run.summary.not_quiet == {"p1": "1 messages of stream ~1 wait in group g and the protocol does not take them"}


def test_accept_rows_are_there_for_streams_too() -> None:
    application = functions(on_start=lambda member: member.send("g", b"xy", deadline=30 * MS))
    run = run_toy(Warden, workload=(), options={"applications": {"p1": application}, "accept_rows": True})
    assert [(row["process"], row["size"]) for row in run.of("accept")] == [("p1", 2)]


class Packer(Warden):
    """Takes all that waits in a stream at once, when two messages have come."""

    def ready(self, group: str) -> None:
        self.host.set_timer("all", self.host.now + 30 * MS)

    def expire(self, timer: Any) -> None:
        batch = self.host.take("g", self.host.max_packet, 0, "s")
        if batch is not None:
            self.send_out("g", batch)


def test_several_messages_of_a_stream_are_one_batch_each_with_its_own_deadline() -> None:
    def admitted(member: Any, group: str, stream: str) -> None:
        for body in (b"a", b"b"):
            member.send(group, body, stream=stream)

    run = alone(lambda member: member.ask("g", Stream("s", 8, 15 * MS, 20 * MS)), Packer, on_admitted=admitted)
    assert [row["seq"] for row in run.of("send")] == [1, 2]
    assert dues(run) == [(30 * MS, 15 * MS), (30 * MS, 35 * MS)]
    assert run.delivered("p3") == [("p1", 1), ("p1", 2)]


# --- mistakes ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("ask", "problem"),
    [
        (lambda member: member.send("g", b"x", stream="s"), "p1 has no stream 's' in 'g' now: ask for it"),
        (lambda member: member.send("g", b"x", stream="s", deadline=5), "has that stream's deadline; leave one of them out"),
        (lambda member: member.ask("g", Stream("s", 8, 15 * MS)), "is no periodic stream"),
        (lambda member: member.ask("g", Stream("~1", 8, 15 * MS, MS)), "is no periodic stream"),
        (lambda member: member.ask("g", Stream("s", 8, 15 * MS, 14 * MS)), "has a deadline after its next message"),
        (lambda member: member.ask("h", Stream("s", 8, 15 * MS, MS)), "p1 is not in group 'h'"),
    ],
)
def test_mistakes_are_refused_at_once(ask: Any, problem: str) -> None:
    with pytest.raises(ApplicationError, match=problem):
        alone(ask)


def test_a_message_larger_than_its_stream_says_is_refused() -> None:
    with pytest.raises(ApplicationError, match="sends 9 bytes in stream 's', whose messages have at most 8"):
        alone(
            lambda member: member.ask("g", Stream("s", 8, 15 * MS, 20 * MS)),
            on_admitted=lambda member, group, stream: member.send(group, bytes(9), stream=stream),
        )


def test_two_streams_of_one_name_are_refused() -> None:
    def twice(member: Any) -> None:
        for _ in range(2):
            member.ask("g", Stream("s", 8, 15 * MS, 20 * MS))

    with pytest.raises(UsageError, match="p1 has a stream 's' in 'g'; release it first"):
        alone(twice)


def test_a_protocol_without_admission_control_is_not_asked() -> None:
    for ask in (lambda member: member.send("g", b"x", deadline=MS), lambda member: member.ask("g", Stream("s", 8, MS, MS))):
        with pytest.raises(ApplicationError, match="guarantees no deadlines; set others, or take one that has admission control"):
            alone(ask, Flood)


# --- workloads --------------------------------------------------------------------------------------------------------


def test_a_regular_workload_asks_for_a_stream_and_gives_it_back() -> None:
    workload = Workload(senders=("p1",), rate=100.0, deadline=10 * MS, stop=50 * MS, start=10 * MS)
    run = run_toy(Warden, workload=(workload,))
    assert dues(run) == [(k * 10 * MS + 1 * MS, k * 10 * MS + 10 * MS) for k in range(1, 5)]
    assert [json.loads(row["detail"]) for row in run.of("admit")] == [{"stream": "w0"}]
    assert [(row["time"], json.loads(row["detail"])["stream"]) for row in run.of("release")] == [(50 * MS, "w0")]


def test_a_regular_workload_that_is_rejected_sends_nothing() -> None:
    run = run_toy(Warden, workload=(Workload(rate=100.0, deadline=9 * MS),))
    assert run.of("send") == []
    assert (run.summary.streams_asked, run.summary.streams_rejected) == (3, 3)


def test_a_random_workload_asks_for_every_message() -> None:
    run = run_toy(Warden, workload=(Workload(rate=300.0, arrivals="poisson", deadline=10 * MS),), duration=300 * MS)
    summary = run.summary
    assert summary.streams_asked == summary.streams_admitted + summary.streams_rejected
    assert summary.streams_rejected > 0
    assert summary.messages_sent == summary.streams_admitted == len(run.of("admit")) > 0
    assert all(row["deadline"] is not None for row in run.of("send"))


def test_a_count_is_of_messages_asked_for() -> None:
    run = run_toy(Warden, workload=(Workload(senders=("p1",), rate=100.0, arrivals="poisson", deadline=10 * MS, count=3),))
    assert run.summary.streams_asked == 3
    run = run_toy(Warden, workload=(Workload(senders=("p1",), rate=100.0, deadline=10 * MS, count=3),))
    assert (run.summary.streams_asked, run.summary.messages_sent) == (1, 3)


def test_closed_loops_go_on_beside_streams() -> None:
    """Messages of streams get numbers in between, and the closed loop still knows its own."""
    both = (
        Workload(senders=("p1",), closed=3, count=20),
        Workload(senders=("p1",), rate=100.0, deadline=10 * MS),
    )
    run = run_toy(Warden, workload=both)
    plain = [row for row in run.of("send") if row["deadline"] is None]
    assert len(plain) == 20
    assert len(run.of("send")) == 30
    assert run.summary.quiet


def test_numbers_that_are_inserted_move_those_that_wait() -> None:
    numbering = Numbering(5)
    first, second, third = (object.__new__(Source) for _ in range(3))
    numbering.owners = {3: first, 4: second, 5: third}
    numbering.inserted(4, 2)
    assert numbering.owners == {3: first, 6: second, 7: third}
    assert numbering.count == 7


def test_the_same_seed_gives_the_same_run() -> None:
    aperiodic = Workload(rate=300.0, arrivals="poisson", deadline=10 * MS)
    load = (aperiodic, Workload(rate=50.0, deadline=20 * MS), Workload(rate=100.0))
    runs = [run_toy(Warden, workload=load, seed=seed) for seed in (3, 3, 4)]
    assert runs[0].table.equals(runs[1].table)
    assert not runs[0].table.equals(runs[2].table)


def test_who_comes_back_asks_again() -> None:
    faults = (Fault(kind="crash", process="p1", at=25 * MS), Fault(kind="restart", process="p1", at=50 * MS))
    run = run_toy(Warden, workload=(Workload(senders=("p1",), rate=100.0, deadline=10 * MS),), fault=faults)
    assert [row["process"] for row in run.of("admit")] == ["p1", "p1#1"]
    assert len(run.of("send", "p1#1")) == 5


@pytest.mark.parametrize(
    ("engine", "workload", "problem"),
    [
        (Flood, Workload(rate=10.0, deadline=MS), "with these parameters flood guarantees no deadlines; leave the deadline out"),
        (Warden, Workload(deadline=MS), "messages with a deadline are those of an open loop"),
        (Warden, Workload(closed=1, deadline=MS), "messages with a deadline are those of an open loop"),
        (Warden, Workload(rate=100.0, deadline=11 * MS), "messages come every 10ms and are due 11ms later, after the next one"),
        (Warden, Workload(rate=10.0, burst=2, deadline=MS), "sends one message a period: leave burst out"),
    ],
)
def test_deadlines_that_cannot_be_are_refused(engine: type[Any], workload: Workload, problem: str) -> None:
    with pytest.raises(ScenarioError, match=f"scenario, workload.0.deadline: .*{problem}") as caught:
        run_toy(engine, workload=(workload,))
    assert isinstance(caught.value, PlainchantError)
