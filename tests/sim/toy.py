"""Small protocols to try the simulator with.

``Flood`` sends each message to everybody and hopes. ``Sequencer`` asks the first member to number messages: correct
as long as nothing is lost and nobody stops. ``Warden`` is a ``Flood`` with admission control, ``Stubborn`` sends everything
several times, ``Echo`` hears itself over the network.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, ClassVar

from plainchant.core.engine import Engine, Host
from plainchant.core.model import MS, Admit, Batch, Form, Join, Packet, Propose, Reason, Release, Timer, View
from plainchant.protocols.registry import Description, Promise


class Data(Packet, frozen=True, array_like=True, gc=False, tag=1):
    group: str
    batch: Batch


class Request(Packet, frozen=True, array_like=True, gc=False, tag=2):
    group: str
    batch: Batch


class Ordered(Packet, frozen=True, array_like=True, gc=False, tag=3):
    group: str
    number: int
    sender: str
    batch: Batch


class Hello(Packet, frozen=True, array_like=True, gc=False, tag=4):
    group: str


class Copy(Packet, frozen=True, array_like=True, gc=False, tag=5):
    group: str
    sender: str
    attempt: int
    batch: Batch

    @property
    def identity(self) -> tuple[str, int]:
        return (self.sender, self.batch.first)


@dataclasses.dataclass(frozen=True, slots=True)
class ToyParameters:
    settle: int = 20 * MS
    window: int = 8


class Flood(Engine):
    """Unreliable: whoever gets a packet delivers it. Joiners greet their contacts and are members of their own view."""

    def __init__(self, host: Host, parameters: ToyParameters) -> None:
        self.host = host
        self.members: dict[str, tuple[str, ...]] = {}

    def join(self, group: str, how: Form | Join | Propose) -> None:
        if isinstance(how, Form):
            self.members[group] = how.members
        elif isinstance(how, Join):
            self.members[group] = (*how.contacts, self.host.me)
            self.host.send(how.contacts, Hello(group))
        self.host.install(View(group, 1, self.members[group]))

    def leave(self, group: str) -> None:
        self.host.left(group)

    def ready(self, group: str) -> None:
        while (batch := self.host.take(group, self.host.max_packet, 1)) is not None:
            self.host.send([name for name in self.members[group] if name != self.host.me], Data(group, batch))
            self.host.deliver(group, self.host.me, batch)

    def receive(self, source: str, packet: Any) -> None:
        if isinstance(packet, Hello):
            self.members[packet.group] = (*self.members[packet.group], source)
        else:
            self.host.deliver(packet.group, source, packet.batch)


class Sequencer(Engine):
    """The first member numbers messages. A window of messages a sender; no recovery at all."""

    def __init__(self, host: Host, parameters: ToyParameters) -> None:
        self.host = host
        self.window = parameters.window
        self.under_way = 0
        self.number = 0

    def join(self, group: str, how: Form | Join | Propose) -> None:
        assert isinstance(how, Form)
        self.group = group
        self.head = how.members[0]
        self.to_head = (self.head,)
        self.others = tuple(name for name in how.members if name != self.host.me)
        self.host.install(View(group, 1, how.members, rank=0))

    def ready(self, group: str) -> None:
        while self.under_way < self.window:
            batch = self.host.take(group, 1400, 1)
            if batch is None:
                return
            self.under_way += 1
            if self.host.me == self.head:
                self.order(self.host.me, batch)
            else:
                self.host.send(self.to_head, Request(group, batch))

    def order(self, sender: str, batch: Batch) -> None:
        self.number += 1
        self.host.send(self.others, Ordered(self.group, self.number, sender, batch))
        self.deliver(sender, batch, self.number)

    def deliver(self, sender: str, batch: Batch, number: int) -> None:
        self.host.deliver(self.group, sender, batch, number)
        if sender == self.host.me:
            self.under_way -= 1
            self.ready(self.group)

    def receive(self, source: str, packet: Any) -> None:
        if packet.__class__ is Ordered:
            self.deliver(packet.sender, packet.batch, packet.number)
        else:
            self.order(source, packet.batch)

    def waiting(self) -> Reason | None:
        if self.under_way:
            return Reason("under-way", f"{self.under_way} messages of {self.host.me} have no number yet")
        return None


class Warden(Flood):
    """Admits streams with deadlines of at least 10 ms, two at a time, and takes their messages before others, a message a turn
    at the most every millisecond."""

    ADMITS: ClassVar = True
    SOONEST: ClassVar = 10 * MS
    MOST: ClassVar = 2

    def __init__(self, host: Host, parameters: ToyParameters) -> None:
        super().__init__(host, parameters)
        self.streams: dict[str, dict[str, Admit]] = {}

    def notice(self, event: Any) -> None:
        if isinstance(event, Release):
            self.host.record("release", event.group, stream=event.stream)
            del self.streams[event.group][event.stream]
        elif isinstance(event, Admit):
            self.answer(event, self.streams.setdefault(event.group, {}))

    def answer(self, event: Admit, admitted: dict[str, Admit]) -> None:
        stream = event.stream
        if stream.deadline < self.SOONEST:
            self.host.rejected(event.group, stream.name, Reason("too soon", "that is too soon"))
        elif len(admitted) >= self.MOST:
            self.host.rejected(event.group, stream.name, Reason("too much", "there are too many"))
        else:
            admitted[stream.name] = event
            self.host.record("admit", event.group, stream=stream.name)
            self.host.admitted(event.group, stream.name)

    def ready(self, group: str) -> None:
        self.host.set_timer(("turn", group), self.host.now + MS)

    def expire(self, timer: Timer) -> None:
        group = timer[1]
        for name, admitted in list(self.streams.get(group, {}).items()):
            due = self.host.peek(group, name)
            if due is not None:
                batch = self.host.take(group, self.host.max_packet, 1, name)
                assert batch is not None
                assert batch.body == due.payload
                if not admitted.stream.period:
                    del self.streams[group][name]
                self.send_out(group, batch)
                self.ready(group)
                return
        batch = self.host.take(group, self.host.max_packet, 1)
        if batch is not None:
            self.send_out(group, batch)
            self.ready(group)

    def send_out(self, group: str, batch: Batch) -> None:
        self.host.send([name for name in self.members[group] if name != self.host.me], Data(group, batch))
        self.host.deliver(group, self.host.me, batch)

    def admission(self, group: str) -> Mapping[str, Any]:
        return {"streams": sorted(self.streams.get(group, {}))}


class Stubborn(Flood):
    """Sends everything four times, 5 ms apart."""

    TIMES: ClassVar = 4

    def __init__(self, host: Host, parameters: ToyParameters) -> None:
        super().__init__(host, parameters)
        self.heard: set[tuple[str, int]] = set()
        self.batches: dict[int, Batch] = {}

    def ready(self, group: str) -> None:
        while (batch := self.host.take(group, self.host.max_packet, 1)) is not None:
            self.batches[batch.first] = batch
            self.host.deliver(group, self.host.me, batch)
            for attempt in range(self.TIMES):
                self.host.set_timer((group, batch.first, attempt), self.host.now + attempt * 5 * MS)

    def expire(self, timer: Timer) -> None:
        assert isinstance(timer, tuple)
        group, first, attempt = timer
        others = [name for name in self.members[group] if name != self.host.me]
        self.host.send(others, Copy(group, self.host.me, int(attempt), self.batches[int(first)]))

    def receive(self, source: str, packet: Any) -> None:
        if (source, packet.batch.first) not in self.heard:
            self.heard.add((source, packet.batch.first))
            self.host.deliver(packet.group, source, packet.batch)


class Echo(Flood):
    """Delivers its own messages when it hears them."""

    LOOPBACK: ClassVar = True

    def ready(self, group: str) -> None:
        while (batch := self.host.take(group, self.host.max_packet, 1)) is not None:
            self.host.send(self.members[group], Data(group, batch))


def describe_toy(engine: type[Engine]) -> Description:
    return Description(
        name=engine.__name__.lower(),
        about="a toy",
        parameters=ToyParameters,
        packets=(Data, Request, Ordered, Hello, Copy),
        make=engine,
        promises=lambda parameters, groups: (Promise("integrity", "always"),),
        faults=(),
        settle=lambda parameters: parameters.settle,
        admits=lambda parameters: getattr(engine, "ADMITS", False),
        loopback=getattr(engine, "LOOPBACK", False),
    )
