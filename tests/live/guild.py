"""A small protocol with admission control, for tests of the live host: members tell each other everything at once, nothing is
repaired, and own messages come back by the network. A member guarantees two periodic streams, and no deadline below 10 ms."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, Final

from plainchant.core.engine import Engine, Host
from plainchant.core.model import (
    MS,
    Admit,
    Batch,
    Form,
    GroupId,
    Join,
    Packet,
    ProcessId,
    Propose,
    Reason,
    Release,
    Stream,
    Timer,
    View,
)
from plainchant.protocols.registry import Description

MOST_STREAMS: Final = 2
SHORTEST: Final = 10 * MS


class Word(Packet, frozen=True, array_like=True, gc=False, tag=1):
    group: GroupId
    batch: Batch

    @property
    def identity(self) -> tuple[int, ...]:
        return (self.batch.first,)


@dataclasses.dataclass(frozen=True, slots=True)
class Parameters:
    """None."""


class Guildsman(Engine):
    """Takes messages of streams first, then the others, one a packet, unless it is ``mute``."""

    def __init__(self, host: Host, parameters: Parameters) -> None:
        self.host = host
        self.members: tuple[ProcessId, ...] = ()
        self.streams: dict[str, Stream] = {}
        self.mute = False
        self.expired: list[Timer] = []

    def join(self, group: GroupId, how: Form | Join | Propose) -> None:
        assert isinstance(how, Form)
        self.members = how.members
        self.host.install(View(group, 1, how.members))

    def leave(self, group: GroupId) -> None:
        self.host.left(group)

    def notice(self, event: Any) -> None:
        if isinstance(event, Release):
            del self.streams[event.stream]
        elif isinstance(event, Admit):
            stream = event.stream
            periodic = [name for name, other in self.streams.items() if other.period]
            if stream.deadline < SHORTEST or (stream.period and len(periodic) == MOST_STREAMS):
                self.host.rejected(event.group, stream.name, Reason("no room", "there is no room", {"nearest_ns": SHORTEST}))
            else:
                self.streams[stream.name] = stream
                self.host.admitted(event.group, stream.name)

    def ready(self, group: GroupId) -> None:
        if self.mute:
            return
        for name, stream in list(self.streams.items()):
            while (due := self.host.peek(group, name)) is not None:
                batch = self.host.take(group, self.host.max_packet, 1, name)
                assert batch is not None
                assert batch.body == due.payload
                assert due.deadline == due.arrived + stream.deadline
                self.host.send(self.members, Word(group, batch))
                if not stream.period:
                    del self.streams[name]
        while (due := self.host.peek(group)) is not None:
            batch = self.host.take(group, self.host.max_packet, 1)
            assert batch is not None
            assert (batch.body, due.deadline) == (due.payload, 0)
            self.host.send(self.members, Word(group, batch))

    def receive(self, source: ProcessId, packet: Packet) -> None:
        assert isinstance(packet, Word)
        self.host.deliver(packet.group, source, packet.batch)

    def expire(self, timer: Timer) -> None:
        self.expired.append(timer)

    def admission(self, group: GroupId) -> Mapping[str, Any] | None:
        return {"streams": {name: {"deadline": stream.deadline} for name, stream in self.streams.items()}}


GUILD: Final = Description(
    name="guild",
    about="For tests.",
    parameters=Parameters,
    packets=(Word,),
    make=Guildsman,
    promises=lambda parameters, groups: (),
    faults=(),
    settle=lambda parameters: 20 * MS,
    admits=lambda parameters: True,
    loopback=True,
)
