"""The explorer's driver of a process: what it does with the effects of a turn, and what is remembered of the process.

The process itself is :class:`~plainchant.core.process.Process`. It has no network, no streams and one group; effects that need
more are refused. Rows and deliveries are checked as they are performed. What touches the world (procedures, a halt, a report) is
called afterwards, when the world has asked its questions about the request that ended the turn (:meth:`ExploredHost.settle`).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from itertools import count
from random import Random
from typing import TYPE_CHECKING, Any, NamedTuple
from zlib import crc32

from ...core.memory import Procedure, Request
from ...core.model import Batch, GroupId, ProcessId, Reason, Timer, View
from ...core.process import Process
from ...protocols.exploration import GROUP

if TYPE_CHECKING:
    from .world import World


class Event(NamedTuple):
    """Something that is due: a request of a task (of that name and number), a timer, a notice, or a message to send."""

    process: ProcessId
    what: str
    number: int
    touches: int | None = None  # The copy that it has an effect on; None: no other process can tell when it happens.

    def is_independent(self, other: Event) -> bool:
        """Whether the two come to the same in either order: different processes, and not one copy."""
        return self.process != other.process and (self.touches is None or self.touches != other.touches)


@dataclasses.dataclass(slots=True, eq=False)
class Task:
    """A procedure that runs, and what it waits for."""

    number: int  # Among those with this name that run at the same time.
    name: str
    procedure: Procedure
    event: Event  # The fulfilment of the request.
    request: Request | None = None
    began: int = 0
    time: int = 0  # When the request is fulfilled.


class ExploredHost(Process):
    """One process. ``ahead``: how far its clock is ahead of the world's time."""

    def __init__(self, world: World, me: ProcessId, ahead: int) -> None:
        super().__init__(me, Random(me), 64, world.now)
        self._world = world
        self.ahead = ahead
        self.has_views = False
        self.memory = world.memory
        self.halted = False
        self.faulty = False  # Whether it has had a timing fault.
        self.stops = 0  # How often it may still be stopped for a while.
        self.aside = False  # It has sent everything, and goes on only at the end.
        self.stopped = 0  # Until when it is stopped.
        self.members: tuple[ProcessId, ...] = ()
        self.delivered: list[tuple[ProcessId, int]] = []
        self.decided: dict[tuple[ProcessId, int], int] = {}
        self.tasks: dict[tuple[str, int], Task] = {}
        self.timers: dict[Timer, int] = {}
        self.notices: list[tuple[int, Any]] = []
        self.mark: bytes | None = None  # The digest of its state, until it does something.

    def clock(self) -> int:
        return self._world.now + self.ahead

    def read_clock(self) -> None:
        self.now = self._world.now

    def take(self, group: GroupId, max_bytes: int, most: int = 0, stream: str = "") -> Batch | None:
        """One message at a time, so that there is something between two of them."""
        return super().take(group, max_bytes, 1, stream)

    # Turns
    def call(self, method: Callable[..., object], *arguments: Any) -> None:
        """A turn with its end."""
        self.turn(method, *arguments)
        self.settle()

    def resume(self, task: Task, result: Any) -> None:
        """Inside a turn: lets a procedure go on to its next request; it has none when it has returned."""
        task.request = None
        try:
            task.request = task.procedure.send(result)
        except StopIteration:
            del self.tasks[task.name, task.number]

    def failed(self, error: Exception) -> None:
        raise error

    # Effects
    def do_timer(self, timer: Timer, at: int | None) -> None:
        if at is None:
            self.timers.pop(timer, None)
        else:
            self.timers[timer] = max(at, self.now)

    def do_took(self, group: GroupId, view: int | None, stream: str, batch: Batch, messages: None) -> None:
        body = batch.body
        self._world.note(self, "send", sender=self.me, seq=batch.first, digest=crc32(body), size=len(body))
        self._world.checks.taken(self, batch.first)

    def do_deliver(
        self, group: GroupId, view: int | None, sender: ProcessId, batch: Batch, payloads: list[bytes] | None, rank: int | None
    ) -> None:
        checks = self._world.checks
        for seq, payload in enumerate(payloads if payloads is not None else (batch.body,), batch.first):
            self.delivered.append((sender, seq))
            columns = {"sender": sender, "seq": seq, "rank": rank, "digest": crc32(payload), "size": len(payload)}
            self._world.note(self, "deliver", **columns, sent=checks.sent.get((sender, seq)))
            checks.delivered(self, sender, seq)

    def do_row(self, kind: str, *columns: Any) -> None:
        _, _, sender, seq, rank, extra = columns
        self._world.note(self, kind, sender=sender, seq=seq, rank=rank, **(extra or {}))

    def do_record(self, kind: str, *columns: Any) -> None:
        self.do_row(kind, *columns)
        _, _, sender, seq, _, extra = columns
        self._world.checks.recorded(self, kind, sender, seq, (extra or {}).get("detail", {}))
        if kind == "sent":
            self.calls.append((self._world.set_aside, (self,)))

    def do_view(self, view: View, is_new: bool, is_first: bool) -> None:
        self.members = view.members
        self._world.say(self.me, f"sees {', '.join(self.members)}")

    def do_left(self, group: GroupId, is_last: bool) -> None:
        """The row says it all."""

    def do_stable(self, group: GroupId, rank: int) -> None:
        """Nothing is kept that stability would release."""

    def do_drop(self, group: GroupId, view: int | None, number: int, text: str) -> None:
        """Messages that were not sent concern no promise."""

    def do_spawn(self, name: str, procedure: Procedure) -> None:
        self.calls.append((self._begin, (name, procedure)))

    def _begin(self, name: str, procedure: Procedure) -> None:
        number = next(number for number in count() if (name, number) not in self.tasks)
        task = self.tasks[name, number] = Task(number, name, procedure, Event("", name, number))
        self._world.advance(self, task, None)

    def do_report(self, process: ProcessId, reason: Reason) -> None:
        self.calls.append((self._world.report, (process,)))

    def do_halt(self, reason: Reason) -> None:
        self.calls.append((self._world.halt, (self, reason)))

    def postpone(self, time: int) -> None:
        """Nothing of what it waits for comes before this time."""
        for task in self.tasks.values():
            task.time = max(task.time, time)
        self.timers = {timer: max(at, time) for timer, at in self.timers.items()}
        self.notices = [(max(at, time), notice) for at, notice in self.notices]

    def messages(self) -> list[bytes]:
        """The messages that wait to be taken."""
        return [*self.queues.get(GROUP, ())]
