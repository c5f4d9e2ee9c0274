"""Who sends what, and the application on top."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

from plainchant.core.model import UsageError, View
from plainchant.scenario.model import Delay, Fault, Network, Workload
from plainchant.scenario.traffic import WAITING, payload_of
from plainchant.sim import ApplicationError, Member, functions

from .conftest import MS, SECOND, run_toy
from .toy import Flood, Sequencer


def test_a_message_says_who_sent_it_and_has_its_size() -> None:
    assert payload_of("p1", "g", 12, 10) == b"p1/g/12..."
    assert payload_of("p1", "g", 12, 3) == b"p1/"
    assert payload_of("p1", "g", 12, 0) == b""


def test_a_regular_open_loop_keeps_its_rate_exactly() -> None:
    run = run_toy(workload=(Workload(senders=("p1",), rate=300.0),), duration=SECOND)
    times = [row["true_time"] for row in run.of("send")]
    assert times == [round(n * SECOND / 300) for n in range(300)]


def test_poisson_arrivals_have_the_same_rate_on_average() -> None:
    run = run_toy(workload=(Workload(senders=("p1",), rate=1000.0, arrivals="poisson"),), duration=SECOND)
    times = [row["true_time"] for row in run.of("send")]
    assert 900 < len(times) < 1100
    assert len({second - first for first, second in pairwise(times)}) > 800


def test_start_stop_burst_and_count() -> None:
    workload = Workload(senders=("p1",), rate=1000.0, burst=3, start=20 * MS, stop=50 * MS)
    times = [row["true_time"] for row in run_toy(workload=(workload,)).of("send")]
    assert times == [at * MS for at in range(20, 50, 3) for _ in range(3)]
    assert len(run_toy(workload=(Workload(senders=("p1",), rate=1000.0, burst=4, count=10),)).of("send")) == 10


def test_a_closed_loop_has_so_many_messages_under_way() -> None:
    run = run_toy(Sequencer, workload=(Workload(senders=("p2",), closed=2),), network=Network(delay=Delay("constant", 5 * MS)))
    times = [row["true_time"] for row in run.of("send")]
    assert times == [at * MS for at in range(0, 100, 10) for _ in range(2)]


def test_as_fast_as_accepted_follows_the_protocols_window_with_a_bounded_queue() -> None:
    longest = 0

    class Watching(Sequencer):
        def ready(self, group: str) -> None:
            nonlocal longest
            host: Any = self.host
            while not hasattr(host, "queues"):
                host = host.host
            longest = max(longest, len(host.queues.get(group, ())))
            super().ready(group)

    run = run_toy(Watching, workload=(Workload(senders=("p2",)),))
    # A window of 8 and 2 ms there and back: 4 messages a ms, and no more than 64 in the queue.
    assert 380 <= run.summary.messages_sent <= 400 + WAITING + 8
    assert longest == WAITING
    assert run.summary.quiet


def test_as_fast_as_accepted_does_not_make_time_stand_still() -> None:
    run = run_toy(Flood, workload=(Workload(senders=("p1",)),), duration=1 * MS)
    assert run.summary.virtual_time > 1 * MS


def test_a_closed_loop_that_is_served_at_once_does_not_make_time_stand_still() -> None:
    run = run_toy(Flood, workload=(Workload(senders=("p1",), closed=1),), duration=1 * MS)
    assert 50 < run.summary.messages_sent <= 110


def test_senders_and_groups_are_chosen_by_name() -> None:
    groups = {"g": ("p1", "p2"), "h": ("p2", "p3")}
    run = run_toy(groups=groups, workload=(Workload(rate=100.0, group="h"),))
    assert {(row["process"], row["group"]) for row in run.of("send")} == {("p2", "h"), ("p3", "h")}
    run = run_toy(groups=groups, workload=(Workload(rate=100.0, senders=("p2",)),))
    assert {(row["process"], row["group"]) for row in run.of("send")} == {("p2", "g"), ("p2", "h")}


def test_functions_are_called_on_start_deliver_and_view() -> None:
    log: list[Any] = []
    application = functions(
        on_start=lambda member: log.append(("start", member.name, member.now)),
        on_deliver=lambda member, group, sender, payload, seq: log.append((sender, seq, payload[:6], member.now)),
        on_view=lambda member, view: log.append(view.members),
    )
    run_toy(
        Sequencer,
        workload=(Workload(senders=("p2",), rate=100.0, count=1),),
        options={"applications": {"p3": application}},
    )
    assert log == [("p1", "p2", "p3"), ("start", "p3", 0), ("p2", 1, b"p2/g/1", 2 * MS)]


def test_what_callbacks_ask_for_comes_first_in_first_out_after_the_effects() -> None:
    seen: list[bytes] = []

    def start(member: Member) -> None:
        member.send("g", b"one")
        member.send("g", b"two")

    def deliver(member: Member, group: str, sender: str, payload: bytes, seq: int) -> None:
        seen.append(payload)
        if len(payload) == 3:
            member.send(group, payload + b" again")

    application = functions(on_start=start, on_deliver=deliver)
    run = run_toy(Flood, workload=(), options={"applications": {"p1": application}})
    assert seen == [b"one", b"two", b"one again", b"two again"]
    assert run.history("p1")[3:-1] == ["send", "deliver"] * 4
    assert [row["size"] for row in run.of("deliver", "p2")] == [3, 3, 9, 9]


def test_every_incarnation_can_have_an_application_of_its_own() -> None:
    made: list[str] = []

    class Counting:
        def __init__(self, name: str) -> None:
            made.append(name)
            self.views: list[View] = []

        def on_view(self, member: Member, view: View) -> None:
            self.views.append(view)

    faults = (Fault(kind="crash", process="p2", at=20 * MS), Fault(kind="restart", process="p2", at=30 * MS))
    run_toy(Flood, fault=faults, options={"applications": Counting})
    assert made == ["p1", "p2", "p3", "p2#1"]


def test_a_callback_that_raises_is_reported_with_process_and_time() -> None:
    def deliver(member: Member, group: str, sender: str, payload: bytes, seq: int) -> None:
        raise KeyError("lost")

    with pytest.raises(ApplicationError, match="application of p2 at 1ms raised KeyError: 'lost'"):
        run_toy(
            workload=(Workload(senders=("p1",), rate=100.0),),
            options={"applications": {"p2": functions(on_deliver=deliver)}},
        )


def test_an_application_cannot_send_in_a_group_it_is_not_in() -> None:
    application = functions(on_start=lambda member: member.send("elsewhere", b""))
    with pytest.raises(ApplicationError, match="not in group 'elsewhere'; it is in: g") as caught:
        run_toy(options={"applications": {"p2": application}})
    assert isinstance(caught.value.__cause__, UsageError)


def test_accepting_can_be_traced() -> None:
    run = run_toy(workload=(Workload(senders=("p1",), rate=1000.0, count=2, burst=2),), options={"accept_rows": True})
    assert run.history("p1")[3:7] == ["accept", "accept", "send", "deliver"]


def test_a_message_is_bytes() -> None:
    refused: list[str] = []

    def on_start(member: Member) -> None:
        with pytest.raises(UsageError, match="encode it first") as error:
            member.send("g", "text")  # type: ignore[arg-type]
        refused.append(str(error.value))

    run_toy(options={"applications": {"p1": functions(on_start=on_start)}})
    assert refused == ["p1 sends a str; a message is bytes, so encode it first"]


def test_a_process_that_is_leaving_sends_nothing_more() -> None:
    class Reluctant(Flood):
        def leave(self, group: str) -> None:
            self.host.set_timer(group, self.host.clock() + 30 * MS)

        def expire(self, timer: Any) -> None:
            self.host.left(timer)

    groups: dict[int, tuple[str, ...]] = {}

    def on_deliver(member: Member, group: str, sender: str, payload: bytes, seq: int) -> None:
        groups[member.now] = member.groups
        if not member.groups:
            with pytest.raises(UsageError, match="p1 is leaving 'g'"):
                member.send("g", b"too late")

    leave = Fault(kind="leave", process="p1", at=55 * MS)
    run = run_toy(Reluctant, fault=(leave,), options={"applications": {"p1": functions(on_deliver=on_deliver)}})
    assert {now: there for now, there in groups.items() if now < 55 * MS}.popitem()[1] == ("g",)
    assert groups[max(groups)] == ()
    assert max(row["true_time"] for row in run.of("send", "p1")) == 50 * MS


@pytest.mark.parametrize(
    ("applications", "sentence"),
    [
        ({"p9": functions(on_start=print)}, "'p9', which is no process"),
        ({"p1": object()}, "has none of on_start, on_deliver, on_view"),
        (lambda name: "no application", "application of p1 .of type str."),
    ],
)
def test_applications_that_nobody_would_call_are_refused(applications: Any, sentence: str) -> None:
    with pytest.raises(UsageError, match=sentence):
        run_toy(options={"applications": applications})
