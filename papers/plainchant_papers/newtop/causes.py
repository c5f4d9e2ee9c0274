"""What happened before each message of a run, by 3.2; and an application that makes messages depend on each other."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from plainchant.core.model import Batch, GroupId, Packet, ProcessId
from plainchant.protocols.newtop.packets import Data

from ..observe import Observer

Message = tuple[GroupId, ProcessId, int]


class Relay:
    """Sends a message in another group when the first one is delivered in a group."""

    def __init__(self, when: str, group: str, payload: bytes) -> None:
        self._when: str | None = when
        self._group = group
        self._payload = payload

    def on_deliver(self, member: Any, group: str, sender: str, payload: bytes, seq: int) -> None:
        if group == self._when:
            self._when = None
            member.send(self._group, self._payload)


@dataclasses.dataclass(frozen=True, slots=True)
class Sent:
    """A message as it was sent."""

    message: Message
    packet: Data
    clock: Mapping[ProcessId, int]  # How many messages of each process happened before it or are it.
    highest: int  # The largest block of what its sender had sent or delivered before.

    def before(self, other: Sent) -> bool:
        """Whether this one happened before another (3.2: over sends and deliveries)."""
        sender = self.message[1]
        return self is not other and other.clock.get(sender, 0) >= self.clock[sender]


class Causes(Observer):
    """Works out, for every message, what happened before it."""

    def __init__(self) -> None:
        super().__init__()
        self.sent: dict[Message, Sent] = {}
        self._clocks: dict[ProcessId, dict[ProcessId, int]] = {}
        self._highest: dict[ProcessId, int] = {}

    def sending(self, me: ProcessId, to: Sequence[ProcessId], packet: Packet) -> None:
        if isinstance(packet, Data) and packet.sender in ("", me):
            clock = self._clocks.setdefault(me, {})
            clock[me] = clock.get(me, 0) + 1
            message = (packet.group, me, packet.batch.first)
            highest = self._highest.get(me, 0)
            self.sent[message] = Sent(message, packet, dict(clock), highest)
            self._highest[me] = max(highest, packet.block)

    def delivering(self, me: ProcessId, group: GroupId, sender: ProcessId, batch: Batch, rank: int | None) -> None:
        sent = self.sent[group, sender, batch.first]
        clock = self._clocks.setdefault(me, {})
        for process, count in sent.clock.items():
            if count > clock.get(process, 0):
                clock[process] = count
        self._highest[me] = max(self._highest.get(me, 0), sent.packet.block)
