"""One process of the explorer: what its engine sees of the world, and what is remembered of it.

The contract is that of ``engine.Host``; a process here has no network. What an engine or a procedure asks for while it runs is
done when it has returned (``apply``).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from itertools import count
from random import Random
from typing import TYPE_CHECKING, Any, NamedTuple
from zlib import crc32

from ...core.engine import Engine
from ...core.memory import Procedure, Request
from ...core.model import Batch, Due, GroupId, Invitation, Packet, ProcessId, ProtocolError, Reason, Timer, View, pack, unpack

if TYPE_CHECKING:
    from .world import World


class Event(NamedTuple):
    """Something that is due: a request of a task (of that name and number), a timer, a notice, or a message to send."""

    process: ProcessId
    what: str
    number: int
    touches: int | None = None
    """The copy that it has an effect on; None: nobody else can tell when it happens."""

    def is_independent(self, other: Event) -> bool:
        """Whether the two come to the same in either order: different processes, and not one copy."""
        return self.process != other.process and (self.touches is None or self.touches != other.touches)


class Task:
    """A procedure that runs, and what it waits for."""

    __slots__ = ("began", "event", "name", "number", "procedure", "request", "time")

    def __init__(self, number: int, name: str, procedure: Procedure) -> None:
        self.number = number
        """Of those with this name that run at the same time."""
        self.name = name
        self.procedure = procedure
        self.request: Request | None = None
        self.began = 0
        self.time = 0
        """When the request is fulfilled."""
        self.event = Event("", name, number)
        """Its being fulfilled."""


class ExploredHost:
    """One process. ``ahead``: how far its clock is ahead of the world's time."""

    def __init__(self, world: World, me: ProcessId, ahead: int) -> None:
        self._world = world
        self.me = me
        self.ahead = ahead
        self.random = Random(me)
        self.max_packet = 64
        self.engine = Engine()
        self.alive = True
        self.halted = False
        self.faulty = False
        """It has had a timing fault."""
        self.stops = 0
        """How often it may still be stopped for a while."""
        self.aside = False
        """It has sent everything, and is looked at again at the end."""
        self.stopped = 0
        """Until when it is stopped."""
        self.queue: deque[bytes] = deque()
        self.taken = 0
        self.members: tuple[ProcessId, ...] = ()
        self.delivered: list[tuple[ProcessId, int]] = []
        self.ranks: list[int | None] = []
        self.decided: dict[tuple[ProcessId, int], int] = {}
        self.tasks: dict[tuple[str, int], Task] = {}
        self.timers: dict[Timer, int] = {}
        self.notices: list[tuple[int, Any]] = []
        self.mark: bytes | None = None
        """The digest of its state, until it does something."""
        self._later: list[tuple[Callable[..., None], tuple[Any, ...]]] = []

    @property
    def now(self) -> int:
        return self._world.now

    def clock(self) -> int:
        return self._world.now + self.ahead

    # --- turns --------------------------------------------------------------------------------------------------------

    def apply(self) -> None:
        """Does what was asked for."""
        while self._later:
            calls, self._later = self._later, []
            for call, arguments in calls:
                if self.alive:
                    call(*arguments)

    def turn(self, call: Callable[..., object], *arguments: Any) -> None:
        call(*arguments)
        self.apply()

    def _start(self, name: str, procedure: Procedure) -> None:
        number = next(number for number in count() if (name, number) not in self.tasks)
        task = self.tasks[name, number] = Task(number, name, procedure)
        self._world.advance(self, task, None)

    # --- what engines ask for -----------------------------------------------------------------------------------------

    def take(self, group: GroupId, max_bytes: int, most: int = 0, stream: str = "") -> Batch | None:
        if not self.queue or self.me not in self._world.case.senders:
            return None
        payload = self.queue.popleft()
        self.taken += 1
        self._world.note(self, "send", sender=self.me, seq=self.taken, digest=crc32(payload), size=len(payload))
        self._world.checks.taken(self, self.taken)
        return pack(self.taken, [payload])

    def peek(self, group: GroupId, stream: str = "") -> Due | None:
        return Due(self.queue[0], 0) if self.queue else None

    def deliver(self, group: GroupId, sender: ProcessId, batch: Batch, rank: int | None = None) -> None:
        for seq, payload in enumerate(unpack(batch), batch.first):
            self.delivered.append((sender, seq))
            self.ranks.append(rank)
            self._world.note(
                self,
                "deliver",
                sender=sender,
                seq=seq,
                rank=rank,
                digest=crc32(payload),
                size=len(payload),
                sent=self._world.checks.sent.get((sender, seq)),
            )
            self._world.checks.delivered(self, sender, seq)

    def install(self, view: View) -> None:
        if self.me in view.members and self.me not in self.members:
            self._world.note(self, "join", rank=view.rank)
        self.members = view.members
        self._world.installed(self)

    def left(self, group: GroupId, rank: int | None = None) -> None:
        self._world.note(self, "leave", rank=rank)

    def record(self, kind: str, group: GroupId | None = None, **detail: Any) -> None:
        sender, seq, rank = detail.pop("sender", None), detail.pop("seq", None), detail.pop("rank", None)
        detail.pop("deadline", None)
        self._world.note(self, kind, sender=sender, seq=seq, rank=rank, detail=detail)
        self._world.checks.recorded(self, kind, sender, seq, detail)
        if kind == "sent":
            self._later.append((self._world.set_aside, (self,)))

    def halt(self, reason: Reason) -> None:
        self._later.append((self._world.halt, (self, reason)))

    def spawn(self, name: str, procedure: Procedure) -> None:
        self._later.append((self._start, (name, procedure)))

    def report(self, process: ProcessId, reason: Reason) -> None:
        self._later.append((self._world.report, (process,)))

    def set_timer(self, timer: Timer, at: int) -> None:
        self.timers[timer] = max(at, self.now)

    def cancel_timer(self, timer: Timer) -> None:
        self.timers.pop(timer, None)

    def stable(self, group: GroupId, rank: int) -> None:
        """Nothing is kept that stability would let go."""

    def send(self, to: Sequence[ProcessId], packet: Packet, lan: int = 0) -> None:
        raise ProtocolError(f"{self.me} sends a packet; the explorer has common memory only")

    def admitted(self, group: GroupId, stream: str) -> None:
        raise ProtocolError(f"{self.me} admits a stream; the explorer has none")

    def rejected(self, group: GroupId, stream: str, reason: Reason) -> None:
        raise ProtocolError(f"{self.me} rejects a stream; the explorer has none")

    def invited(self, invitation: Invitation) -> None:
        raise ProtocolError(f"{self.me} is invited; the explorer has one group")

    def refused(self, group: GroupId, reason: Reason) -> None:
        raise ProtocolError(f"{self.me} is refused in {group}: {reason}")

    def renamed(self, group: GroupId, view: View, returned: Sequence[bytes] = ()) -> None:
        raise ProtocolError(f"{self.me} renames {group}; the explorer has one group")
