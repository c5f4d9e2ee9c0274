"""The shipped scenarios of mailbox show what they say."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from plainchant.lab.properties import verify
from plainchant.lab.show import decode
from plainchant.scenario import find, load
from plainchant.sim import Simulation
from plainchant.trace import TraceBuffer


class Shown:
    """A run of a shipped scenario."""

    def __init__(self, name: str, *settings: str) -> None:
        trace = TraceBuffer()
        self.scenario = load(find(name), settings)
        self.summary = Simulation(self.scenario, trace=trace).run()
        assert self.summary.quiet
        table = trace.table()
        self.rows = [row | {"detail": decode(row["detail"])} for row in table.to_pylist()]
        outcomes = verify(table).properties
        self.violated = {name for name, outcome in outcomes.items() if outcome.verdict == "violated"}

    def of(self, kind: str) -> list[dict[str, Any]]:
        return [row for row in self.rows if row["kind"] == kind]

    def who(self, kind: str) -> set[str]:
        return {row["process"] for row in self.of(kind)}

    def timing_faults(self) -> set[str]:
        return {row["process"] for row in self.of("fault") if row["detail"].get("timing")}

    def delivered(self, process: str) -> list[tuple[str, int]]:
        return [(row["sender"], row["seq"]) for row in self.of("deliver") if row["process"] == process]

    def latest(self, senders: Iterable[str]) -> int:
        """The longest time from the Send of a message to its delivery."""
        began = {(row["sender"], row["seq"]): row["detail"]["stamp"] for row in self.of("sent")}
        keys = [(row["true_time"], (row["sender"], row["seq"])) for row in self.of("deliver") if row["sender"] in senders]
        return max(int(time) - int(began[key]) for time, key in keys if key in began)


def test_a_sender_dies_in_the_middle_of_a_send() -> None:
    crash = Shown("mailbox-crash")
    assert crash.violated == set()
    (died,) = [row for row in crash.of("crash") if row["process"] == "ann"]
    assert died["detail"]["mid_broadcast"]
    assert died["detail"]["operation"] in ("write", "flag")
    assert crash.delivered("ben") == crash.delivered("dan")
    assert crash.delivered("cyd#1")
    assert {row["detail"]["module"] for row in crash.of("fault") if "module" in row["detail"]} == {1, 3}
    assert crash.timing_faults() == set()


def test_who_is_late_sends_again_and_nobody_disagrees() -> None:
    timing = Shown("mailbox-timing")
    assert timing.violated == set()
    assert timing.timing_faults() == {"ann", "eve"}
    assert {row["sender"] for row in timing.of("late")} == {"ann"}
    assert len({tuple(timing.delivered(name)) for name in timing.scenario.members}) == 1
    assert len(timing.delivered("ben")) == timing.summary.messages_sent


def test_who_is_late_stops_if_it_is_told_to() -> None:
    timing = Shown("mailbox-timing", "parameters.rejected=halt")
    assert timing.violated == set()
    assert {row["process"]: row["detail"]["reason"] for row in timing.of("crash")} == {"ann": "rejected"}
    assert {"ben", "cyd", "dan"} <= timing.who("reject")


@pytest.mark.parametrize("tolerate", ["crash", "timing"])
def test_one_copy_of_four_is_enough(tolerate: str) -> None:
    modules = Shown("mailbox-modules", f"parameters.tolerate={tolerate}")
    assert modules.violated == set()
    assert modules.who("crash") == set()
    after = [row for row in modules.of("deliver") if row["true_time"] > 60_000_000]
    assert len(after) > 100


def test_without_a_copy_everybody_stops() -> None:
    modules = Shown("mailbox-modules", "parameters.copies=3")
    reasons = {row["process"]: row["detail"]["reason"] for row in modules.of("crash")}
    assert reasons == dict.fromkeys(("ann", "ben", "cyd"), "no copy")


def test_an_early_receiver_breaks_the_first_protocol_only() -> None:
    first = Shown("mailbox-early-receiver")
    assert first.scenario.expect == "violation"
    assert first.violated == {"bounded"}
    assert first.timing_faults() == {"eve"}
    second = Shown("mailbox-early-receiver", "parameters.tolerate=timing", "expect=holds")
    assert second.violated == set()
    assert second.of("late") == []


def test_a_late_sender_breaks_the_first_protocol_only() -> None:
    first = Shown("mailbox-late-sender")
    assert first.scenario.expect == "violation"
    assert "agreement" in first.violated
    assert first.timing_faults() == {"ann"}
    second = Shown("mailbox-late-sender", "parameters.tolerate=timing", "expect=holds")
    assert second.violated == set()
    assert {row["sender"] for row in second.of("late")} == {"ann"}


def test_with_a_schedule_messages_are_read_earlier() -> None:
    scheduled = Shown("mailbox-schedule")
    polled = Shown("mailbox-schedule", "parameters.schedule=0s", "parameters.poll=2ms")
    assert scheduled.violated == polled.violated == set()
    assert {row["detail"]["stamp"] % 2_000_000 for row in scheduled.of("sent")} == {0}
    everybody = scheduled.scenario.members
    assert scheduled.latest(everybody) < polled.latest(everybody)


def test_receivers_come_and_go_by_timestamps() -> None:
    join = Shown("mailbox-join")
    assert join.violated == set()
    assert join.who("join") == {"ann", "ben", "cyd", "dan"}
    assert join.delivered("sensor") == []
    (entered,) = [row["rank"] for row in join.of("join") if row["process"] == "dan"]
    (left,) = [row["rank"] for row in join.of("leave")]
    ranks = {name: [row["rank"] for row in join.of("deliver") if row["process"] == name] for name in ("ann", "ben", "dan")}
    assert ranks["dan"] == [rank for rank in ranks["ann"] if rank >= entered]
    assert ranks["ben"] == [rank for rank in ranks["ann"] if rank < left]
    assert {"ann", "cyd", "sensor"} <= join.who("block")
