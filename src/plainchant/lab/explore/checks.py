"""What every run must keep: the four requirements of the seed, that runs end, and that nothing is left in the memory.

Promises are to processes that are *intact*: they neither crash nor have a timing fault. What a process delivered before it
crashed counts for the order and for consensus too.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any, Final

from ...core.model import ProcessId

if TYPE_CHECKING:
    from .host import ExploredHost
    from .world import World


PROMISES: Final = ("integrity", "consensus", "validity", "order", "bounded", "termination", "left-behind")


@dataclasses.dataclass(frozen=True)
class Violation:
    """What a run broke: one of :data:`PROMISES`, and how."""

    promise: str
    text: str


class Broken(Exception):
    """Ends a run that has broken a promise."""

    def __init__(self, promise: str, text: str) -> None:
        super().__init__(text)
        self.violation = Violation(promise, text)


class Checks:
    """The checks of one run. Those of times are made when things happen, so that states need not remember when they did."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.sent: dict[tuple[ProcessId, int], int] = {}  # When messages were taken.

    # As things happen
    def taken(self, host: ExploredHost, seq: int) -> None:
        self.sent[host.me, seq] = self._world.now

    def delivered(self, host: ExploredHost, sender: ProcessId, seq: int) -> None:
        world = self._world
        if (sender, seq) not in self.sent:
            world.breaks("integrity", f"{host.me} delivers message {seq} of {sender}, which was never sent")
        if host.delivered.count((sender, seq)) > 1:
            world.breaks("integrity", f"{host.me} delivers message {seq} of {sender} a second time")
        took, bound = world.now - self.sent[sender, seq], world.case.bounds["deliver"]
        if took > bound and not host.faulty and not world.hosts[sender].faulty:
            world.breaks("bounded", f"{host.me} delivers message {seq} of {sender} after {took}, bound {bound}")
        for other in world.hosts.values():
            if other is not host and not host.faulty and not other.faulty:
                mine, others = _in_common(host, other)
                if mine != others:
                    world.breaks("order", f"{host.me} delivers {_told(mine)}, {other.me} {_told(others)}")

    def recorded(self, host: ExploredHost, kind: str, sender: ProcessId | None, seq: int | None, detail: dict[str, Any]) -> None:
        world = self._world
        if kind == "sent":
            bound = world.case.bounds["send"]
            if detail["took_ns"] > bound and not host.faulty:
                world.breaks("bounded", f"{host.me} takes {detail['took_ns']} to send message {seq}, bound {bound}")
        elif kind == "decide" and sender is not None and seq is not None:
            self._decided(host, sender, seq, int(detail["decision"]))
        elif kind == "reject" and sender is not None and not host.faulty and _is_intact(world.hosts[sender]):
            world.breaks("validity", f"{host.me} rejects message {seq} of {sender}, which is intact")

    def _decided(self, host: ExploredHost, sender: ProcessId, seq: int, decision: int) -> None:
        world = self._world
        host.decided[sender, seq] = decision
        if host.faulty:
            return
        words = ("rejects", "accepts")
        for other in world.hosts.values():
            before = other.decided.get((sender, seq))
            if before is not None and before != decision and not other.faulty:
                text = f"{host.me} {words[decision]} message {seq} of {sender}, which {other.me} {words[before]}"
                world.breaks("consensus", text)

    # At the end
    def ended(self) -> None:
        """The run is at rest."""
        world = self._world
        receivers = [world.hosts[name] for name in world.case.receivers]
        intact = [host for host in receivers if host.alive and not host.faulty]
        for host in intact:
            for other in receivers:
                for message in other.delivered if not other.faulty else ():
                    if message not in host.delivered:
                        world.breaks("consensus", f"{other.me} delivered message {message[1]} of {message[0]}, {host.me} did not")
            for sender, seq in self.sent:
                if _is_intact(world.hosts[sender]) and (sender, seq) not in host.delivered:
                    world.breaks("validity", f"{host.me} did not deliver message {seq} of {sender}, which is intact")

    def unending(self) -> None:
        """The run has had more time than it can need."""
        for copy, entry in self._world.memory.left_behind():
            raise Broken("left-behind", f"the message of {entry.sender} with timestamp {entry.stamp} stays in copy {copy + 1}")
        waits = {name: host.engine.waiting() for name, host in self._world.hosts.items() if host.alive}
        told = "; ".join(f"{name}: {reason}" for name, reason in waits.items() if reason is not None)
        raise Broken("termination", f"the run does not end: {told or 'operations are under way'}")


def _is_intact(host: ExploredHost) -> bool:
    """One that halts because its message was rejected has not crashed."""
    return (host.alive or host.halted) and not host.faulty


def _in_common(one: ExploredHost, other: ExploredHost) -> tuple[list[tuple[ProcessId, int]], list[tuple[ProcessId, int]]]:
    """The messages that both deliver, in the order of each."""
    mine = [message for message in one.delivered if message in other.delivered]
    return mine, [message for message in other.delivered if message in one.delivered]


def _told(messages: list[tuple[ProcessId, int]]) -> str:
    return ", ".join(f"{sender}/{seq}" for sender, seq in messages)
