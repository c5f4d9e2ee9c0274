"""A host for tests of engines and layers: it writes down what it is asked for and does nothing else."""

from __future__ import annotations

from collections import deque
from collections.abc import Generator, Sequence
from random import Random
from typing import Any

from plainchant.core.engine import Host
from plainchant.core.model import Batch, Due, GroupId, Invitation, Packet, ProcessId, Reason, Timer, View, pack


class FakeHost:
    """Keeps messages to send (``submit``), timers, and a list of all other calls, in order."""

    def __init__(self, me: ProcessId = "p1", max_packet: int = 1400) -> None:
        self.me = me
        self.random = Random(0)
        self.max_packet = max_packet
        self.time = 0
        self.calls: list[tuple[Any, ...]] = []
        self.timers: dict[Timer, int] = {}
        self._queues: dict[GroupId, deque[bytes]] = {}
        self._next: dict[GroupId, int] = {}

    def submit(self, group: GroupId, *payloads: bytes) -> None:
        self._queues.setdefault(group, deque()).extend(payloads)

    def has_messages(self, group: GroupId) -> bool:
        return bool(self._queues.get(group))

    def called(self, name: str) -> list[tuple[Any, ...]]:
        """The arguments of all calls of this name."""
        return [call[1:] for call in self.calls if call[0] == name]

    @property
    def now(self) -> int:
        return self.time

    def clock(self) -> int:
        return self.time + 1_000

    def take(self, group: GroupId, max_bytes: int, most: int = 0, stream: str = "") -> Batch | None:
        """At least one message if there is one, however large; more as long as they fit. It has no streams."""
        queue = self._queues.get(group) if not stream else None
        if not queue:
            return None
        payloads = [queue.popleft()]
        while queue and len(payloads) != most and len(pack(1, [*payloads, queue[0]]).body) <= max_bytes:
            payloads.append(queue.popleft())
        first = self._next.get(group, 1)
        self._next[group] = first + len(payloads)
        return pack(first, payloads)

    def peek(self, group: GroupId, stream: str = "") -> Due | None:
        queue = self._queues.get(group) if not stream else None
        return Due(queue[0], self.time) if queue else None

    def admitted(self, group: GroupId, stream: str) -> None:
        self.calls.append(("admitted", group, stream))

    def rejected(self, group: GroupId, stream: str, reason: Reason) -> None:
        self.calls.append(("rejected", group, stream, reason))

    def send(self, to: Sequence[ProcessId], packet: Packet, lan: int = 0) -> None:
        self.calls.append(("send", tuple(to), packet, lan) if lan else ("send", tuple(to), packet))

    def set_timer(self, timer: Timer, at: int) -> None:
        self.timers[timer] = at

    def cancel_timer(self, timer: Timer) -> None:
        self.timers.pop(timer, None)

    def deliver(self, group: GroupId, sender: ProcessId, batch: Batch, rank: int | None = None) -> None:
        self.calls.append(("deliver", group, sender, batch, rank))

    def install(self, view: View) -> None:
        self.calls.append(("install", view))

    def left(self, group: GroupId, rank: int | None = None) -> None:
        self.calls.append(("left", group, rank))

    def invited(self, invitation: Invitation) -> None:
        self.calls.append(("invited", invitation))

    def refused(self, group: GroupId, reason: Reason) -> None:
        self.calls.append(("refused", group, reason))

    def renamed(self, group: GroupId, view: View, returned: Sequence[bytes] = ()) -> None:
        """What waits moves to the new name, after what is returned."""
        self.calls.append(("renamed", group, view, tuple(returned)))
        self._queues[view.group] = deque([*returned, *self._queues.pop(group, ())])

    def stable(self, group: GroupId, rank: int) -> None:
        self.calls.append(("stable", group, rank))

    def record(self, kind: str, group: GroupId | None = None, **detail: Any) -> None:
        self.calls.append(("record", kind, group, detail))

    def halt(self, reason: Reason) -> None:
        self.calls.append(("halt", reason))

    def spawn(self, name: str, procedure: Generator[Any, Any, None]) -> None:
        self.calls.append(("spawn", name, procedure))

    def report(self, process: str, reason: Reason) -> None:
        """There is no process membership service here."""


def as_host(host: FakeHost) -> Host:
    """Lets the type checker compare the fake with what an engine may ask for."""
    return host
