"""``fifo``: reliable multicast in each sender's order, over acknowledgements.

A sender numbers its batches, sends each to all other members, and keeps it until every one of them has acknowledged it. A
receiver delivers a sender's batches in the order of their numbers, holds those that come early, and acknowledges with the
number that it expects next. What is not acknowledged in time is sent again. Groups do not change: all members form the group
together, and none may crash.
"""

from __future__ import annotations

import dataclasses
from typing import Any

from plainchant.core.engine import Engine, Host, PerGroup
from plainchant.core.model import MS, Batch, Duration, Form, GroupId, Number, Packet, ProcessId, Reason, Timer, View, parameter
from plainchant.protocols.registry import Description, Promise


class Data(Packet, frozen=True, array_like=True, gc=False, tag=1):
    """A batch of its sender's messages."""

    group: GroupId
    number: Number
    batch: Batch


class Ack(Packet, frozen=True, array_like=True, gc=False, tag=2):
    """Every batch below this number has been delivered."""

    group: GroupId
    expected: Number


@dataclasses.dataclass(frozen=True, slots=True)
class Parameters:
    """What a user may set."""

    window: int = parameter(16, "batches that a sender keeps until all members have acknowledged them", minimum=1)
    resend_after: Duration = parameter(Duration(20 * MS), "time after which a batch is sent again", unit="duration", minimum=1)


class Member(Engine):
    """One process in one group."""

    def __init__(self, host: Host, group: GroupId, parameters: Parameters) -> None:
        self.host = host
        self.group = group
        self.parameters = parameters
        self.next_number = 0
        self.unacknowledged: dict[int, Batch] = {}
        self.acknowledged: dict[ProcessId, int] = {}
        """The number that each other member expects from us."""
        self.expected: dict[ProcessId, int] = {}
        """The number that we expect from each other member."""
        self.early: dict[tuple[ProcessId, int], Batch] = {}
        """Batches that came before one with a smaller number."""

    def join(self, group: GroupId, how: Any) -> None:
        assert isinstance(how, Form)  # the description says that groups do not change
        others = [name for name in how.members if name != self.host.me]
        self.acknowledged = dict.fromkeys(others, 0)
        self.expected = dict.fromkeys(others, 0)
        self.host.install(View(group, 1, how.members))

    def ready(self, group: GroupId) -> None:
        """The application has messages: take as many as the window has room for. Not taking is backpressure."""
        while len(self.unacknowledged) < self.parameters.window:
            batch = self.host.take(group, self.host.max_packet)
            if batch is None:
                return
            self.host.deliver(group, self.host.me, batch)
            if self.acknowledged:
                if not self.unacknowledged:
                    self.host.set_timer("resend", self.host.now + self.parameters.resend_after)
                self.unacknowledged[self.next_number] = batch
                self.host.send(tuple(self.acknowledged), Data(group, self.next_number, batch))
                self.next_number += 1

    def receive(self, source: ProcessId, packet: Packet) -> None:
        if source not in self.expected:
            return  # a stranger
        if isinstance(packet, Data):
            self.on_data(source, packet)
        elif isinstance(packet, Ack):
            self.on_ack(source, packet)

    def on_data(self, source: ProcessId, packet: Data) -> None:
        expected = self.expected[source]
        # No sender is further ahead than its window: larger numbers are not ours, and must not fill the memory.
        if expected <= packet.number < expected + self.parameters.window:
            self.early[source, packet.number] = packet.batch
        while (batch := self.early.pop((source, expected), None)) is not None:
            self.host.deliver(self.group, source, batch)
            expected += 1
        self.expected[source] = expected
        self.host.send((source,), Ack(self.group, expected))  # also for a repeated batch: its acknowledgement may be lost

    def on_ack(self, source: ProcessId, packet: Ack) -> None:
        if not self.acknowledged[source] < packet.expected <= self.next_number:
            return  # old, or of a batch that does not exist
        self.acknowledged[source] = packet.expected
        for number in [each for each in self.unacknowledged if each < min(self.acknowledged.values())]:
            del self.unacknowledged[number]
        if not self.unacknowledged:
            self.host.cancel_timer("resend")
        self.ready(self.group)

    def expire(self, timer: Timer) -> None:
        for name, expected in self.acknowledged.items():
            for number, batch in self.unacknowledged.items():
                if number >= expected:
                    self.host.send((name,), Data(self.group, number, batch))
                    self.host.record("retransmit", self.group, to=name, number=number)
        self.host.set_timer("resend", self.host.now + self.parameters.resend_after)

    def waiting(self) -> Reason | None:
        if not self.unacknowledged:
            return None
        return Reason("unacknowledged", f"{len(self.unacknowledged)} batches of {self.host.me} are not acknowledged by all")


def make(host: Host, parameters: Any) -> Engine:
    """A process's engine: one member for each of its groups."""
    return PerGroup(host, lambda inner, group: Member(inner, group, parameters))


CONDITION = "no member crashes and every partition heals"

DESCRIPTION = Description(
    name="fifo",
    about="Every message goes to all members in its sender's order, and is sent again until all have acknowledged it.",
    parameters=Parameters,
    packets=(Data, Ack),
    make=make,
    promises=lambda parameters, groups: tuple(
        Promise(name, CONDITION) for name in ("integrity", "fifo", "self-delivery", "validity", "agreement")
    ),
    faults=("loss", "duplication", "reordering", "corruption", "pause", "partition", "cut", "clog", "clock steps"),
    settle=lambda parameters: 4 * parameters.resend_after,
    changes=lambda parameters: False,
    recorded=frozenset({"retransmit"}),
)
