"""What the documents compare themselves with, as small protocols that the simulator runs and counts.

They do what is needed to count packets and interrupts where nothing is lost, and no more: no retransmission, no
membership. Both deliver every message at every member.

- :class:`RemoteCalls`: broadcasting by remote procedure calls, one to each of the others: request, reply, and an
  acknowledgement of the reply.
- :class:`TokenSite`: Chang and Maxemchuk's ordering by a token that moves. A sender broadcasts its message; the member with
  the token broadcasts an acknowledgement with the message's number, which makes the next member the token site. That one
  accepts by its own next acknowledgement, or by a packet of its own if there is nothing to acknowledge for a while.
"""

from __future__ import annotations

import dataclasses
from typing import Any

from plainchant.core.engine import Engine, Host
from plainchant.core.model import (
    MS,
    Batch,
    Duration,
    Form,
    GroupId,
    Join,
    Packet,
    ProcessId,
    Propose,
    Timer,
    UsageError,
    View,
    parameter,
)
from plainchant.protocols.registry import Description


class Call(Packet, frozen=True, array_like=True, gc=False, tag=1):
    group: GroupId
    batch: Batch


class Reply(Packet, frozen=True, array_like=True, gc=False, tag=2):
    group: GroupId
    first: int


class Confirm(Packet, frozen=True, array_like=True, gc=False, tag=3):
    """The caller has the reply: its callee may forget it."""

    group: GroupId
    first: int


class Data(Packet, frozen=True, array_like=True, gc=False, tag=4):
    group: GroupId
    batch: Batch


class Order(Packet, frozen=True, array_like=True, gc=False, tag=5):
    """The token site's acknowledgement: this message has this number, and the token is the next member's."""

    group: GroupId
    number: int
    sender: ProcessId
    first: int


class Accept(Packet, frozen=True, array_like=True, gc=False, tag=6):
    """The next token site has everything up to this number and takes over."""

    group: GroupId
    number: int


@dataclasses.dataclass(frozen=True, slots=True)
class Parameters:
    """What can be set."""

    accept_after: Duration = parameter(
        Duration(10 * MS), "a new token site that has nothing to acknowledge for so long says that it took over", unit="duration"
    )


class _Baseline(Engine):
    """A member of one group that never changes."""

    def __init__(self, host: Host, parameters: Parameters) -> None:
        self.host = host
        self.parameters = parameters
        self.group: GroupId = ""
        self.members: tuple[ProcessId, ...] = ()
        self.others: tuple[ProcessId, ...] = ()

    def join(self, group: GroupId, how: Form | Join | Propose) -> None:
        if not isinstance(how, Form):
            raise UsageError("a baseline's group has its members from the beginning")
        self.group = group
        self.members = how.members
        self.others = tuple(name for name in how.members if name != self.host.me)
        self.host.install(View(group, 1, how.members, joined=how.members, rank=0))


class RemoteCalls(_Baseline):
    """A broadcast is a call to each of the others; it is over when all have replied."""

    def __init__(self, host: Host, parameters: Parameters) -> None:
        super().__init__(host, parameters)
        self._waiting: dict[int, tuple[Batch, dict[ProcessId, None]]] = {}

    def ready(self, group: GroupId) -> None:
        while (batch := self.host.take(group, self.host.max_packet, 1)) is not None:
            self._waiting[batch.first] = (batch, dict.fromkeys(self.others))
            for other in self.others:  # one packet each: a call has one callee
                self.host.send((other,), Call(group, batch))

    def receive(self, source: ProcessId, packet: Packet) -> None:
        if isinstance(packet, Call):
            self.host.deliver(self.group, source, packet.batch)
            self.host.send((source,), Reply(self.group, packet.batch.first))
        elif isinstance(packet, Reply):
            self.host.send((source,), Confirm(self.group, packet.first))
            batch, missing = self._waiting[packet.first]
            del missing[source]
            if not missing:
                del self._waiting[packet.first]
                self.host.deliver(self.group, self.host.me, batch)


class TokenSite(_Baseline):
    """A broadcast is a message to all and an acknowledgement to all, by a member that is another one each time."""

    def __init__(self, host: Host, parameters: Parameters) -> None:
        super().__init__(host, parameters)
        self._messages: dict[tuple[ProcessId, int], Batch] = {}
        self._order: dict[int, tuple[ProcessId, int]] = {}
        self._ordered: dict[tuple[ProcessId, int], None] = {}
        self._highest = 0
        self._delivered = 0
        self._accepted = 0

    @property
    def _has_token(self) -> bool:
        return self.members[self._highest % len(self.members)] == self.host.me

    def ready(self, group: GroupId) -> None:
        while (batch := self.host.take(group, self.host.max_packet, 1)) is not None:
            self._messages[self.host.me, batch.first] = batch
            self.host.send(self.others, Data(group, batch))
            self._acknowledge()

    def receive(self, source: ProcessId, packet: Packet) -> None:
        if isinstance(packet, Data):
            self._messages[source, packet.batch.first] = packet.batch
            self._acknowledge()
        elif isinstance(packet, Order):
            self._note(packet.number, packet.sender, packet.first)
            self._acknowledge()
            if self._has_token and self._accepted < self._highest:
                self.host.set_timer("accept", self.host.now + self.parameters.accept_after)

    def expire(self, timer: Timer) -> None:
        if self._has_token and self._accepted < self._highest:
            self._accepted = self._highest
            before = self.members[(self._highest - 1) % len(self.members)]
            self.host.send((before,), Accept(self.group, self._highest))

    def _acknowledge(self) -> None:
        """Numbers the oldest message that has no number, if the token is here."""
        waiting = next((key for key in self._messages if key not in self._ordered), None)
        if waiting is not None and self._has_token:
            self.host.cancel_timer("accept")
            sender, first = waiting
            self.host.send(self.others, Order(self.group, self._highest + 1, sender, first))
            self._note(self._highest + 1, sender, first)

    def _note(self, number: int, sender: ProcessId, first: int) -> None:
        self._order[number] = (sender, first)
        self._ordered[sender, first] = None
        self._highest = max(self._highest, number)
        while (following := self._order.get(self._delivered + 1)) in self._messages:
            assert following is not None
            self._delivered += 1
            self.host.deliver(self.group, following[0], self._messages.pop(following), self._delivered)


def _describe(name: str, about: str, engine: type[_Baseline], packets: tuple[type[Packet], ...]) -> Description:
    given: dict[str, Any] = {"name": name, "paper": "004", "about": about, "make": engine, "packets": packets, "faults": ()}
    given |= {"promises": lambda parameters, groups: (), "settle": lambda parameters: int(parameters.accept_after)}
    return Description(parameters=Parameters, **given)


BASELINES: dict[str, Any] = {
    "remote-calls": _describe("remote-calls", "A broadcast is a remote call to each.", RemoteCalls, (Call, Reply, Confirm)),
    "token-site": _describe("token-site", "Ordered by a token that moves.", TokenSite, (Data, Order, Accept)),
}
"""Name to description: ``Simulation(scenario, description=BASELINES[name], ...)``."""
