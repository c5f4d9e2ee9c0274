"""A process that runs an engine: the one implementation of the contract :class:`~.engine.Host`.

Theory of operation
-------------------
**Turn.** :meth:`Process.turn` calls one method of the engine. Whatever the engine asks for meanwhile is appended to one list, in
order: its *effects*, plain tuples that begin with a kind (:data:`SEND` to :data:`HALT`). When the method has returned, the driver
performs them (:meth:`Process.perform`): it writes rows, sets timers, sends packets, tells the application. Nothing is performed
while the engine runs, so nothing ever calls back into it. If the method raises, its effects are dropped and the process halts.
An effect that stops the process ends the performance: the effects behind it never happen.

**What is answered at once.** ``take`` and ``peek`` read the queues, ``now``, ``clock`` and ``random`` only read. The bookkeeping
(numbers of messages, views, groups, streams) changes when the engine calls, not when the effect is performed: an engine may
install a view and deliver in it within one turn. Effects carry what was true at the call, such as the view of a row.

**Facts.** ``send``, ``deliver``, ``join``, ``view``, ``leave``, ``refused``, ``drop``, ``crash`` and ``end`` are written by the
process, never by the engine. What the engine records itself is a :data:`RECORD`; it cannot be one of the facts.

**Drivers** are the subclasses: the simulator's (virtual time, a modelled network and processor), the live one (event loop,
sockets, spool) and the explorer's (every order of a small case). A driver has a method ``do_<effect>`` for each kind of effect,
and says what time it is, how a method becomes a turn (:meth:`Process.later`) and what stopping means (:meth:`Process.stop`).

This module imports ``model``, ``memory``, ``engine`` and ``queues`` and nothing else of ours.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from random import Random
from typing import Any, Final, TypeAlias

from .engine import Engine
from .memory import Procedure
from .model import (
    SENDS,
    Batch,
    Due,
    Form,
    GroupId,
    Invitation,
    Join,
    Packet,
    Pressure,
    ProcessId,
    Propose,
    ProtocolError,
    Reason,
    Release,
    Timer,
    View,
    pack,
    unpack,
)
from .queues import Queue, Streams

Effect: TypeAlias = tuple[Any, ...]

# A driver performs each kind of effect by its method `do_<name>`; a kind is its place here.
EFFECTS: Final = (
    *("send", "timer", "took", "deliver", "row", "record", "view", "left", "refused", "renamed", "invited", "stable"),
    *("admitted", "rejected", "drop", "spawn", "report", "call", "later", "halt"),
)
SEND: Final = 0  # `(to, packet, lan)`: a packet leaves
TIMER: Final = 1  # `(timer, at)`: a timer is set, or cancelled (`at` is None)
TOOK: Final = 2
"""``(group, view, stream, batch, messages)``: messages got their numbers. Those of a stream are :class:`Due`, others bytes;
None for a single message without a deadline, which is the body of the batch."""
DELIVER: Final = 3
"""``(group, view, sender, batch, payloads, rank)``: ``payloads`` is None for a single message, which is the body of the batch."""
ROW: Final = 4
"""``(kind, group, view, sender, seq, rank, extra)``: a row of the host's own; ``extra``: None, or detail, members or deadline."""
RECORD: Final = 5  # the same, by the engine
VIEW: Final = 6  # `(view, is_new, is_first)`: the process had not entered this group; it is in it from this view on
LEFT: Final = 7  # `(group, is_last)`: the process is out of the group, and in no other
REFUSED: Final = 8  # `(group, reason, is_last)`: the process is not in the group; it had entered this one and no other
RENAMED: Final = 9
"""``(group, view, returned, numbered, shift)``: ``numbered`` messages had numbers under the new name before; those that wait get
numbers that are larger by ``shift`` than under the old name. The view follows as an effect of its own."""
INVITED: Final = 10  # `(invitation,)`: the application is to answer
STABLE: Final = 11  # `(group, rank)`
ADMITTED: Final = 12  # `(group, stream)`
REJECTED: Final = 13  # `(group, stream, reason)`
DROP: Final = 14  # `(group, view, count, text)`: accepted messages that the protocol will not take any more
SPAWN: Final = 15  # `(name, procedure)`
REPORT: Final = 16  # `(process, reason)`
CALL: Final = 17  # `(function, arguments)`: a call in its place among the effects
LATER: Final = 18  # `(method, arguments)`: a further turn, after this one
HALT: Final = 19  # `(reason,)`: the process stops for ever

_FACTS: Final = frozenset({"start", "join", "send", "deliver", "view", "leave", "crash", "end"})


class Process:
    """One process and its engine, without anything that depends on where it runs."""

    __slots__ = (
        *("_handlers", "_names", "_sequence", "_settling", "alive", "calls", "effects", "engine", "entered", "full"),
        *("has_views", "inside", "joined", "lans", "leaving", "max_packet", "me", "memory", "muted", "notes_requests"),
        *("now", "only_sends", "queues", "random", "streams", "unpack", "views"),
    )

    notes_leave_of_senders = False  # whether a process that only sends has a `leave` row, although it has no `join` row

    def __init__(self, me: ProcessId, random: Random, max_packet: int, now: int) -> None:
        self.me = me
        self.random = random
        self.max_packet = max_packet
        self.now = now
        self.engine = Engine()
        self.alive = True
        self.effects: list[Effect] = []  # what the engine has asked for in the turn under way
        self.inside = False  # whether the engine is being called
        self.calls: deque[tuple[Callable[..., object], tuple[Any, ...]]] = deque()  # after the effects are performed, in order
        self.queues: dict[GroupId, Queue] = {}
        self.streams = Streams()
        self.entered: dict[GroupId, None] = {}  # groups that the process has asked to enter, or is in
        self.joined: dict[GroupId, None] = {}  # groups that it is in
        self.full: set[GroupId] = set()  # groups whose application has no room for more messages
        self.leaving: dict[GroupId, None] = {}  # groups that it was asked to leave and has not left: they accept no messages
        self.views: dict[GroupId, int] = {}  # the number of the view in force in each group, where the trace has views
        self.has_views = True  # whether views are written into the trace (`Description.views`)
        self.only_sends = False  # whether this process receives nothing in any group: its parameters say so
        self.muted: set[GroupId] = set()  # groups in which it only sends: it has chosen so when it joined them
        self.notes_requests = False  # whether the trace has requests to enter or leave: `progress` judges when they are answered
        self.lans = 1  # the number of networks
        self.memory: Any = None  # what runs procedures on shared memory, if there is any
        self.unpack: Callable[[Batch], list[bytes]] = unpack
        self._sequence: dict[GroupId, int] = {}
        self._names: dict[GroupId, GroupId] = {}  # the present names of groups that were renamed
        self._settling = False
        self._handlers: tuple[Callable[..., None], ...] = tuple(
            getattr(self, f"do_{name}", None) or partial(self._cannot, name) for name in EFFECTS
        )

    # --- what engines ask for -----------------------------------------------------------------------------------------

    def clock(self) -> int:
        raise NotImplementedError

    def take(self, group: GroupId, max_bytes: int, most: int = 0, stream: str = "") -> Batch | None:
        if stream:
            return self._take_from(group, stream, max_bytes, most)
        queue = self.queues.get(group)
        if queue is None or not queue.items:
            return None
        first = self._sequence.get(group, 0) + 1
        if most == 1 or len(queue.items) - queue.at == 1:
            payloads = None
            batch = Batch(first, 1, queue.pop())
            self._sequence[group] = first
        else:
            payloads = queue.cut(max_bytes, most)
            batch = pack(first, payloads)
            self._sequence[group] = first + len(payloads) - 1
        self.effects.append((TOOK, group, self.views.get(group), "", batch, payloads))
        return batch

    def _take_from(self, group: GroupId, name: str, max_bytes: int, most: int) -> Batch | None:
        waiting = self.streams.find_admitted(group, name)
        if waiting is None or not waiting.messages:
            return None
        taken = waiting.cut(max_bytes, most)
        first = self._sequence.get(group, 0) + 1
        self._sequence[group] = first + len(taken) - 1
        batch = pack(first, [due.payload for due in taken])
        self.effects.append((TOOK, group, self.views.get(group), name, batch, taken))
        if waiting.is_over:
            self.streams.remove(group, name)
            if waiting.released:
                self.effects.append((LATER, self.engine.notice, (Release(group, name),)))
        return batch

    def peek(self, group: GroupId, stream: str = "") -> Due | None:
        if stream:
            waiting = self.streams.find_admitted(group, stream)
            return waiting.messages[0] if waiting is not None and waiting.messages else None
        queue = self.queues.get(group)
        return Due(queue.items[queue.at], 0) if queue else None

    def taken(self, group: GroupId) -> int:
        """The number of this process's messages in the group that have a number."""
        return self._sequence.get(group, 0)

    def admitted(self, group: GroupId, stream: str) -> None:
        waiting = self.streams.find(group, stream)
        if waiting is not None and not waiting.admitted:
            waiting.admitted = True
            self.streams.admitted += 1
            self.effects.append((ADMITTED, group, stream))

    def rejected(self, group: GroupId, stream: str, reason: Reason) -> None:
        waiting = self.streams.remove(group, stream)
        if waiting is None:
            return
        self.streams.rejected += 1
        if waiting.admitted:
            self._drop(group, waiting.unsent, f"{stream} of {self.me} is no longer admitted in {group}")
        self.effects.append((REJECTED, group, stream, reason))

    def send(self, to: Sequence[ProcessId], packet: Packet, lan: int = 0) -> None:
        if lan and not 0 < lan < self.lans:
            raise ProtocolError(f"{self.me} sends over network {lan}: there are {self.lans}, counted from 0")
        # The engine may change a list before the packet leaves; it cannot change a tuple.
        self.effects.append((SEND, to if to.__class__ is tuple else tuple(to), packet, lan))

    def set_timer(self, timer: Timer, at: int) -> None:
        self.effects.append((TIMER, timer, at))

    def cancel_timer(self, timer: Timer) -> None:
        self.effects.append((TIMER, timer, None))

    def deliver(self, group: GroupId, sender: ProcessId, batch: Batch, rank: int | None = None) -> None:
        if batch.total:
            raise ProtocolError(
                f"a fragment of {sender}'s message {batch.first} reached the host; Fragmentation must be at the top"
            )
        payloads = None if batch.count == 1 else self.unpack(batch)
        self.effects.append((DELIVER, group, self.views.get(group), sender, batch, payloads, rank))

    def install(self, view: View) -> None:
        group = view.group
        is_new = group not in self.entered
        if is_new:
            self._enter(group)
        only_sends = self.sends_only(group)
        is_first = group not in self.joined and (self.me in view.members or only_sends)
        if is_first:
            self.joined[group] = None
            if not only_sends:
                self._row("join", group, rank=view.rank)
        if self.has_views:
            self.views[group] = view.number
            detail = view.to_detail()
            self._row("view", group, extra={"members": view.members, **({"detail": detail} if detail else {})})
        self.effects.append((VIEW, view, is_new, is_first))

    def left(self, group: GroupId, rank: int | None = None) -> None:
        self._drop(group, self._forget_messages(group), f"{self.me} left {group}")
        if not self.sends_only(group) or self.notes_leave_of_senders:
            self._row("leave", group, rank=rank)
        self._forget(group)
        self.effects.append((LEFT, group, not self.entered))

    def invited(self, invitation: Invitation) -> None:
        self.effects.append((INVITED, invitation))

    def refused(self, group: GroupId, reason: Reason) -> None:
        self._row("refused", group, extra={"detail": reason.to_detail()})
        was_in = group in self.entered
        if was_in:
            self._drop(group, self._forget_messages(group), f"{self.me} left {group}")
            self._forget(group)
        self.effects.append((REFUSED, group, reason, was_in and not self.entered))

    def renamed(self, group: GroupId, view: View, returned: Sequence[bytes] = ()) -> None:
        name = view.group
        numbered = self.taken(name)
        shift = numbered - self.taken(group) + len(returned)
        # What waits may be taken under the new name within this turn.
        queue = self.queues.pop(group, None) or Queue()
        queue.put_back(returned)
        self._drop(group, self.streams.remove_all(group), f"{group} got another name, and has no streams any more,")
        self._names = {old: name if new == group else new for old, new in self._names.items() if old != name}
        self._names[group] = name
        was_leaving = group in self.leaving
        self._row("leave", group, rank=view.rank)
        self._forget(group)
        self.entered[name] = None
        if was_leaving:
            self.leaving[name] = None
        self.queues[name] = queue
        self.effects.append((RENAMED, group, view, returned, numbered, shift))
        self.install(view)

    def stable(self, group: GroupId, rank: int) -> None:
        self.effects.append((STABLE, group, rank))

    def record(self, kind: str, group: GroupId | None = None, **detail: Any) -> None:
        if kind in _FACTS:
            raise ProtocolError(f"{self.me} records {kind!r}, which hosts alone write")
        sender, seq, rank = detail.pop("sender", None), detail.pop("seq", None), detail.pop("rank", None)
        extra: dict[str, Any] = {"deadline": detail.pop("deadline")} if "deadline" in detail else {}
        if detail:
            extra["detail"] = {name: value.to_detail() if isinstance(value, Reason) else value for name, value in detail.items()}
        view = self.views.get(group) if group is not None else None
        self.effects.append((RECORD, kind, group, view, sender, seq, rank, extra or None))

    def halt(self, reason: Reason) -> None:
        self.effects.append((HALT, reason))

    def spawn(self, name: str, procedure: Procedure) -> None:
        if self.memory is None:
            raise ProtocolError(f"{self.me} spawns {name!r}, but it is a process without shared memory")
        self.effects.append((SPAWN, name, procedure))

    def report(self, process: ProcessId, reason: Reason) -> None:
        if self.memory is not None:
            self.effects.append((REPORT, process, reason))

    def defer(self, function: Callable[..., object], *arguments: Any) -> None:
        """A call that is made when the effects of the turn before it are performed: for layers that speak to the application."""
        self.effects.append((CALL, function, arguments))

    def note_inside(self, kind: str, detail: dict[str, Any], group: GroupId | None = None) -> None:
        """Writes a row of the host's own in the course of a turn."""
        self._row(kind, group, extra={"detail": detail})

    def _row(self, kind: str, group: GroupId | None, *, rank: int | None = None, extra: dict[str, Any] | None = None) -> None:
        view = self.views.get(group) if group is not None else None
        self.effects.append((ROW, kind, group, view, None, None, rank, extra))

    def _drop(self, group: GroupId, count: int, what: str) -> None:
        if count:
            text = f"{what} before the protocol took {count} accepted messages: nobody gets them"
            self.effects.append((DROP, group, self.views.get(group), count, text))

    def _enter(self, group: GroupId) -> None:
        self.entered[group] = None
        self._names.pop(group, None)

    def _forget_messages(self, group: GroupId) -> int:
        return len(self.queues.pop(group, ())) + self.streams.remove_all(group)

    def _forget(self, group: GroupId) -> None:
        for names in (self.entered, self.joined, self.leaving):
            names.pop(group, None)
        self.views.pop(group, None)
        self.muted.discard(group)

    # --- turns --------------------------------------------------------------------------------------------------------

    def turn(self, method: Callable[..., object], *arguments: Any) -> None:
        """Calls the engine and performs what it asked for. (The simulator's kernel has a copy of this for packets.)"""
        if self.inside:
            raise ProtocolError(f"{self.me} is called while it is being called; entry points are not re-entrant")
        if not self.alive:
            return
        self.read_clock()
        self.inside = True
        try:
            method(*arguments)
        except Exception as error:
            self.failed(error)
        self.inside = False
        if self.effects:
            self.perform()

    def perform(self) -> None:
        """Performs the effects of a turn, in order, up to one that stops the process."""
        effects, self.effects = self.effects, []
        handlers = self._handlers
        for effect in effects:
            handlers[effect[0]](*effect[1:])
            if not self.alive:
                return

    def failed(self, error: Exception) -> None:
        """The engine raised: its effects are dropped and the process halts."""
        self.inside = False
        self.effects.clear()
        text = f"{type(error).__name__}: {error}"
        self.stop(Reason("exception", text), {"by": "protocol", "reason": "exception", "text": text})

    def settle(self) -> None:
        """Runs the calls that wait, first in, first out, and those that they add; a nested turn only adds to them."""
        if self._settling:
            return
        self._settling = True
        try:
            while self.calls and self.alive:
                function, arguments = self.calls.popleft()
                function(*arguments)
        finally:
            self._settling = False
            self.calls.clear()

    # --- what a driver has to say -------------------------------------------------------------------------------------

    def read_clock(self) -> None:
        """Sets ``now``, which stands still during a turn."""
        raise NotImplementedError

    def later(self, method: Callable[..., object], *arguments: Any) -> None:
        """Makes a call of the engine, in a turn of its own, as soon as it can be."""
        raise NotImplementedError

    def stop(self, reason: Reason, detail: dict[str, Any]) -> None:
        """Stops for ever; ``detail`` is for the ``crash`` row."""
        raise NotImplementedError

    def _cannot(self, effect: str, *what: Any) -> None:
        raise ProtocolError(f"{self.me} asks for {effect} {what}, which this host does not have")

    def do_call(self, function: Callable[..., object], arguments: tuple[Any, ...]) -> None:
        function(*arguments)

    def do_halt(self, reason: Reason) -> None:
        # A protocol may halt a process for its application's sake; the verifier has to know that from the host.
        unread = {"unread": True} if self.full else {}
        self.stop(reason, {"by": "protocol", **reason.to_detail(), **unread})

    # --- what applications ask for ------------------------------------------------------------------------------------

    def sends_only(self, group: GroupId) -> bool:
        """Whether this process receives nothing in a group."""
        return self.only_sends or group in self.muted

    def queue_of(self, group: GroupId) -> Queue:
        """The messages that wait in a group."""
        if group not in self.queues:
            self.queues[group] = Queue()
        return self.queues[group]

    def propose(self, group: GroupId, members: Sequence[ProcessId]) -> None:
        """Asks the engine to form a group with these; this process is in it when it is formed."""
        self.later(self._join, group, Propose(tuple(members)))

    def _join(self, group: GroupId, how: Form | Join | Propose) -> None:
        """Inside a turn: asks the engine to enter a group."""
        if not isinstance(how, Propose) and how.role == SENDS:
            self.muted.add(group)
        members = {} if isinstance(how, Join) else {"members": list(how.members)}
        self._note_request(group, request=type(how).__name__.lower(), **members)
        self.engine.join(group, how)

    def leave(self, group: GroupId) -> None:
        """Asks the engine to leave a group; no more messages are accepted there."""
        if group in self.entered:
            self._depart(group, self._leave)

    def close_group(self, group: GroupId) -> None:
        """Asks the engine to close a group for all its members; no more messages are accepted there."""
        if group in self.joined:
            self._depart(group, self._close)

    def _depart(self, group: GroupId, method: Callable[[GroupId], None]) -> None:
        if group not in self.leaving:
            self.leaving[group] = None
            self.later(self._ask, method, group)

    def _leave(self, group: GroupId) -> None:
        self._note_request(group, request="leave")
        self.engine.leave(group)

    def _close(self, group: GroupId) -> None:
        self._note_request(group, request="close")
        self.engine.close(group)

    def _note_request(self, group: GroupId, **detail: Any) -> None:
        """A process that only sends has no row that answers it, so its requests are not written."""
        if self.notes_requests and not self.sends_only(group):
            self._row("request", group, extra={"detail": detail})

    def rename(self, group: GroupId, name: GroupId) -> None:
        """Asks the engine to give a group another name."""
        if group in self.joined and group not in self.leaving:
            self.later(self._ask, self.engine.rename, group, name)

    def pressure(self, group: GroupId, full: bool) -> None:
        """Tells the engine that the application has no room for more messages of a group, or has room again."""
        if group in self.entered:
            self.later(self._press, group, full)

    def _ask(self, method: Callable[..., None], group: GroupId, *arguments: str) -> None:
        """Inside a turn: asks for something about a group, which may have been renamed or left meanwhile."""
        group = self._names.get(group, group)
        if group in self.entered:
            method(group, *arguments)

    def _press(self, group: GroupId, full: bool) -> None:
        (self.full.add if full else self.full.discard)(group)
        self.engine.notice(Pressure(self._names.get(group, group), full))

    def release(self, group: GroupId, stream: str) -> None:
        """No more messages come in this stream. Those that wait are sent, if it was admitted; then the engine is told."""
        waiting = self.streams.find(group, stream)
        if waiting is None or waiting.released:
            return
        waiting.released = True
        if waiting.is_over or not waiting.admitted:
            self.streams.remove(group, stream)
            self.later(self.engine.notice, Release(group, stream))

    def admission(self, group: GroupId) -> Mapping[str, Any] | None:
        """What the protocol guarantees in a group, and how much room it has left."""
        self.read_clock()
        return self.engine.admission(group) if self.alive else None

    def waiting(self, group: GroupId | None = None) -> Reason | None:
        """What this process still has to do before it is at rest, in one group or in all."""
        self.read_clock()
        reason = self.engine.waiting()
        if reason is not None:
            return reason
        for name, queue in self.queues.items():
            if queue and group in (None, name):
                text = f"{len(queue)} messages wait in group {name} and the protocol does not take them"
                return Reason("queue", text, {"messages": len(queue)})
        return self.streams.why_waiting(group)
