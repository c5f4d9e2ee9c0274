"""The simulator's Host: one process, its outbox, its processor, its timers and its history.

Theory of operation
-------------------
**Turn.** An engine's method is called, and what it asks for is collected: rows of the trace in ``out``, everything
else (packets, halting, callbacks) in ``effects``, each with its position among the rows. When the method has returned
the turn is applied: packets leave in order, rows join the history, then application callbacks run, and what they ask
for becomes new turns, first in, first out. If the method raises, ``out`` and ``effects`` are dropped and the process
halts. A crash in the middle of a broadcast, and ``halt``, cut both off at that position. Timers need no place in the
outbox: a process whose effects are dropped is dead, and so are its timers. Procedures on common memory are resumed in turns too
(:mod:`.memory`).

**Events.** The kernel hands packets straight to an ordinary process. One that is not ordinary (``special``: dead,
paused, busy, with a clock of its own, to crash after so many events) gets everything by way of its :class:`Processor`.

**Deadlines.** Messages of a stream (``ask``, ``accept_in``) wait under its name until the protocol has admitted it and takes
them; their ``send`` rows have a deadline, on the process's own clock.

**Charging.** Packets sent in a turn are charged to the last row of that turn, or else to the process's next row.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import TYPE_CHECKING, Any, Final, Protocol
from zlib import crc32

from ..core.engine import Engine
from ..core.memory import Procedure
from ..core.model import (
    PACK_OVERHEAD,
    Admit,
    Batch,
    Consent,
    Due,
    Invitation,
    Packet,
    Pressure,
    Propose,
    ProtocolError,
    Reason,
    Release,
    Stream,
    Timer,
    UsageError,
    View,
    format_duration,
    pack,
    unpack,
)
from ..scenario.faults import Omission
from ..scenario.outcome import EndState, ProcessEnd
from .clocks import ProcessClock
from .processor import Processor
from .sends import STRETCH, Part, Window
from .streams import Streams, Waiting
from .timers import Timers

if TYPE_CHECKING:
    from .network import Route, SimNetwork
    from .world import World

Row = tuple[Any, ...]

_SEND: Final = 0
_HALT: Final = 1
_CALL: Final = 2
_SEND_OVER: Final = 3
"""A packet over another network than the first."""
_FACTS: Final = frozenset({"start", "join", "send", "deliver", "view", "leave", "crash", "end"})


class History(Protocol):
    """Where a process's rows go (the trace's writer makes it)."""

    rows: list[Row]
    packets: dict[int, int]


class Watcher(Protocol):
    """What wants to know about a process's deliveries and views: its application and its workload."""

    def delivered(self, group: str, sender: str, seq: int, payload: bytes) -> None: ...

    def installed(self, view: View) -> None: ...

    def left(self, group: str) -> None: ...

    def refused(self, group: str, reason: Reason) -> None: ...

    def renamed(self, group: str, view: View) -> None: ...

    def taken(self, group: str) -> None: ...

    def taken_from(self, group: str, stream: str, first: int, count: int) -> None:
        """The protocol took messages of a stream, which got these numbers."""

    def admitted(self, group: str, stream: str) -> None: ...

    def rejected(self, group: str, stream: str, reason: Reason) -> None: ...


class Unread:
    """What waits for an application that takes nothing: messages by group, and what it will be told, in order."""

    __slots__ = ("calls", "counts", "full", "most", "until")

    def __init__(self, most: int) -> None:
        self.most = most
        self.until = 0
        self.counts: dict[str, int] = {}
        self.full: dict[str, None] = {}
        """Groups whose messages are too many."""
        self.calls: list[tuple[Callable[..., object], tuple[Any, ...]]] = []

    def add(self, group: str, count: int) -> bool:
        """Whether the messages of this group are too many from now on."""
        self.counts[group] = self.counts.get(group, 0) + count
        if self.counts[group] < self.most or group in self.full:
            return False
        self.full[group] = None
        return True


class SimHost:
    """One process in the simulator; ``name`` is that of its incarnation, ``base`` that of the process."""

    __slots__ = (
        "_calls",
        "_lans",
        "_names",
        "_network",
        "_routes",
        "_routes_over",
        "_sends",
        "_sequence",
        "_settling",
        "_to",
        "_windows",
        "_world",
        "alive",
        "base",
        "clock_",
        "countdown",
        "delivered",
        "doom",
        "dropped",
        "effects",
        "end",
        "engine",
        "groups",
        "history",
        "inside",
        "joined",
        "last_route",
        "leaving",
        "local",
        "marks",
        "max_packet",
        "me",
        "memory",
        "mid_crash",
        "now",
        "omissions",
        "out",
        "owed",
        "processor",
        "queues",
        "random",
        "receive",
        "refusing",
        "rows",
        "sent",
        "special",
        "streams",
        "timers",
        "unread",
        "views",
        "watch_all",
        "watcher",
        "work",
    )

    def __init__(self, world: World, name: str, base: str, history: History, clock: ProcessClock) -> None:
        self._world = world
        self._sends = world.sends
        self._lans = world.networks.lans
        self._network = self._lans[0]
        self.me = name
        self.base = base
        self.memory = world.memory_of(base)
        """The common memory of its node, if there is any."""
        self.history = history
        self.rows = history.rows
        self.random = Random(f"{world.seed}/engine/{name}")
        self.max_packet = world.max_packet
        self.clock_ = clock
        self.now = self.local = world.kernel.now
        self.alive = True
        self.end = ProcessEnd("alive")
        self.engine = Engine()
        self.receive: Callable[[str, Any], None] = self.engine.receive
        self.watcher: Watcher | None = None
        self.watch_all = False
        self.timers = Timers(world.kernel, self)
        self.processor = Processor(world.kernel, world.networks.settings, self.refresh, world.networks.core(base))
        # the outbox
        self.out: list[Row] = []
        self.effects: list[tuple[int, int, Any, Any]] = []
        self.inside = False
        self.owed = 0
        self._calls: deque[tuple[Callable[..., object], tuple[Any, ...]]] = deque()
        self._settling = False
        self._to: Sequence[str] = ()
        self.last_route: Route | None = None
        self._routes: dict[tuple[str, ...], Route] = {}
        self._routes_over: dict[tuple[int, tuple[str, ...]], Route] = {}
        """Those over other networks than the first."""
        # groups and messages
        self.groups: dict[str, None] = {}
        self.views: dict[str, int] = {}
        self.joined: dict[str, None] = {}
        self.queues: dict[str, deque[bytes]] = {}
        self.streams = Streams()
        self._sequence: dict[str, int] = {}
        self._windows: dict[str, Window] = {}
        self.marks: dict[tuple[str, str], int] = {}
        self.sent = 0
        self.delivered = 0
        self.dropped = 0
        self.unread: Unread | None = None
        """What the application has not taken, while it takes nothing."""
        self.work = 0
        """Processor time that the application's next call takes."""
        self.leaving: dict[str, None] = {}
        """Groups that it was asked to leave and is still in: it takes no more messages for them."""
        self._names: dict[str, str] = {}
        """What groups are called now that were called otherwise."""
        self.refusing: dict[str, None] = {}
        """Groups that it does not agree to be in when they are proposed; an empty name stands for all."""
        # faults to come
        self.countdown = 0
        self.doom: dict[str, Any] = {}
        """The fault that happens when the countdown ends."""
        self.mid_crash: Random | None = None
        self.omissions: list[Omission] = []
        self.special = False
        self.refresh()

    # --- what engines ask for -----------------------------------------------------------------------------------------

    def clock(self) -> int:
        return self.local

    def take(self, group: str, max_bytes: int, most: int = 0, stream: str = "") -> Batch | None:
        if stream:
            return self._take_from(group, stream, max_bytes, most)
        queue = self.queues.get(group)
        if not queue:
            return None
        payload = queue.popleft()
        first = self._sequence.get(group, 0) + 1
        if most == 1 or not queue:
            batch = Batch(first, 1, payload)
            self._sends.remember(group, self.me, batch, self._note_send(group, first, payload))
        else:
            payloads = [payload]
            room = max_bytes - len(payload) - 2 * PACK_OVERHEAD
            while queue and len(payloads) != most:
                room -= len(queue[0]) + PACK_OVERHEAD
                if room < 0:
                    break
                payloads.append(queue.popleft())
            batch = pack(first, payloads)
            for seq, body in enumerate(payloads, first):
                self._note_send(group, seq, body)
        if self.watcher is not None:
            self.watcher.taken(group)
        return batch

    def _take_from(self, group: str, name: str, max_bytes: int, most: int) -> Batch | None:
        waiting = self._admitted(group, name)
        if waiting is None or not waiting.messages:
            return None
        first = self._sequence.get(group, 0) + 1
        taken = [waiting.messages.popleft()]
        room = max_bytes - len(taken[0].payload) - 2 * PACK_OVERHEAD
        while waiting.messages and len(taken) != most:
            room -= len(waiting.messages[0].payload) + PACK_OVERHEAD
            if room < 0:
                break
            taken.append(waiting.messages.popleft())
        batch = pack(first, [due.payload for due in taken])
        for seq, due in enumerate(taken, first):
            # What is left of the time, because the clock may have been set since the message arrived.
            self._note_send(group, seq, due.payload, {"deadline": self.local + due.deadline - self.now})
        if waiting.is_over:
            self.streams.remove(group, name)
            if waiting.released:
                self.call(self.post, self.turn, self.engine.notice, Release(group, name))
        if self.watcher is not None:
            self.watcher.taken_from(group, name, first, batch.count)
        return batch

    def peek(self, group: str, stream: str = "") -> Due | None:
        if stream:
            waiting = self._admitted(group, stream)
            return waiting.messages[0] if waiting is not None and waiting.messages else None
        queue = self.queues.get(group)
        return Due(queue[0], 0) if queue else None

    def _admitted(self, group: str, name: str) -> Waiting | None:
        waiting = self.streams.find(group, name)
        return waiting if waiting is not None and waiting.admitted else None

    def admitted(self, group: str, stream: str) -> None:
        waiting = self.streams.find(group, stream)
        if waiting is None or waiting.admitted:
            return
        waiting.admitted = True
        self.streams.admitted += 1
        if self.watcher is not None:
            self.call(self.watcher.admitted, group, stream)
        self.call(self._offer, group)

    def rejected(self, group: str, stream: str, reason: Reason) -> None:
        waiting = self.streams.remove(group, stream)
        if waiting is None:
            return
        self.streams.rejected += 1
        if waiting.admitted:
            self._note_drop(group, waiting.unsent, f"{stream} of {self.me} is no longer admitted in {group}")
        if self.watcher is not None:
            self.call(self.watcher.rejected, group, stream, reason)

    def _note_send(self, group: str, seq: int, payload: bytes, extra: dict[str, Any] | None = None) -> Part:
        """Writes down that a message has its number now."""
        window = self._windows.get(group)
        if window is None:
            window = self._windows[group] = self._sends.window(group, self.me)
        now = self.now
        digest, size = crc32(payload), len(payload)
        self._sequence[group] = seq
        window.times.append(now)
        self.out.append(("send", self.local, now, group, self.views.get(group), self.me, seq, None, None, digest, size, extra))
        self.sent += 1
        if not seq % STRETCH:
            self._sends.prune(group, self.me)
        return seq, now, digest, size

    def send(self, to: Sequence[str], packet: Packet, lan: int = 0) -> None:
        # A list may be changed by the engine before this turn is applied; a tuple cannot.
        names = to if to.__class__ is tuple else tuple(to)
        if lan:
            if not 0 < lan < len(self._lans):
                raise ProtocolError(f"{self.me} sends over network {lan}: there are {len(self._lans)}, counted from 0")
            self.effects.append((len(self.out), _SEND_OVER, (lan, names), packet))
        else:
            self.effects.append((len(self.out), _SEND, names, packet))

    def set_timer(self, timer: Timer, at: int) -> None:
        self.timers.set(timer, at)

    def cancel_timer(self, timer: Timer) -> None:
        self.timers.cancel(timer)

    def deliver(self, group: str, sender: str, batch: Batch, rank: int | None = None) -> None:
        sends = self._sends
        view = self.views.get(group)
        # A broadcast that arrives everywhere at one instant is the same row at every process. Identity shows most of
        # that quickly, and what is equal but not identical is only written anew.
        if not (
            sends.batch is batch
            and sends.now is self.now
            and sends.local is self.local
            and sends.rank == rank
            and sends.view == view
            and sends.sender is sender
            and sends.group is group
        ):
            sends.write(group, sender, batch, rank, view, self.now, self.local)
        if sends.row is not None:
            self.out.append(sends.row)
            self.delivered += 1
        else:
            self.out += sends.rows
            self.delivered += batch.count
        if sends.milestone:
            self.marks[group, sender] = sends.milestone
        if self.unread is not None:
            self._add_unread(group, batch.count)
        if self.watcher is not None and (self.watch_all or sender == self.me):
            self.effects.append((len(self.out), _CALL, self._tell_delivered, (group, sender, batch)))

    def install(self, view: View) -> None:
        group = view.group
        extra: dict[str, Any] = {"members": view.members}
        detail = view.to_detail()
        if detail:
            extra["detail"] = detail
        first = group not in self.joined and (self.me in view.members or self.only_sends)
        if first:
            self.joined[group] = None
            if not self.only_sends:
                self._row("join", group, rank=view.rank)
        if self._world.views:
            self.views[group] = view.number
            self._row("view", group, extra=extra)
        if group not in self.groups:
            self.groups[group] = None
            self.effects.append((len(self.out), _CALL, self._world.entered, (self, group)))
        if first:
            self.effects.append((len(self.out), _CALL, self._offer, (group,)))
        self.effects.append((len(self.out), _CALL, self._tell_installed, (view,)))

    def invited(self, invitation: Invitation) -> None:
        self.effects.append((len(self.out), _CALL, self._answer, (invitation,)))

    def refused(self, group: str, reason: Reason) -> None:
        self._row("refused", group, extra={"detail": reason.to_detail()})
        if self.watcher is not None:
            self.effects.append((len(self.out), _CALL, self._tell, (self.watcher.refused, group, reason)))
        if group in self.groups:
            self._drop_unsent(group)
            self._forget(group)
            if not self.groups:
                self.halt(reason)

    def renamed(self, group: str, view: View, returned: Sequence[bytes] = ()) -> None:
        waiting = [*returned, *self.queues.pop(group, ())]
        self._note_drop(group, self.streams.remove_all(group), f"{group} got another name, and has no streams any more,")
        self._names = {old: view.group if new == group else new for old, new in self._names.items() if old != view.group}
        self._names[group] = view.group
        shift = self.taken(view.group) - self.taken(group) + len(returned)
        was_leaving = group in self.leaving
        self._row("leave", group, rank=view.rank)
        self._forget(group)
        self.groups[view.group] = None
        if was_leaving:
            self.leaving[view.group] = None
        if waiting:
            self.queues[view.group] = deque(waiting)
        self.effects.append((len(self.out), _CALL, self._world.renamed, (self, group, view.group, shift)))
        if self.watcher is not None:
            self.effects.append((len(self.out), _CALL, self._tell, (self.watcher.renamed, group, view)))
        self.install(view)

    def left(self, group: str, rank: int | None = None) -> None:
        self._drop_unsent(group)
        if not self.only_sends:
            self._row("leave", group, rank=rank)
        self._forget(group)
        if self.watcher is not None:
            self.effects.append((len(self.out), _CALL, self._tell, (self.watcher.left, group)))
        if not self.groups:
            # Packets of this turn still leave (others may wait for a last word); then nothing is asked of it any more.
            self.effects.append((len(self.out), _CALL, self._gone, ()))

    def _drop_unsent(self, group: str) -> None:
        unsent = len(self.queues.pop(group, ())) + self.streams.remove_all(group)
        self._note_drop(group, unsent, f"{self.me} left {group}")

    def _note_drop(self, group: str, unsent: int, what: str) -> None:
        if unsent:
            text = f"{what} before the protocol took {unsent} accepted messages: nobody gets them"
            self._row("drop", group, extra={"detail": {"messages": unsent, "text": text}})
            self.dropped += unsent

    def _forget(self, group: str) -> None:
        for names in (self.groups, self.joined, self.leaving):
            names.pop(group, None)
        self.views.pop(group, None)

    def stable(self, group: str, rank: int) -> None:
        """The simulator keeps nothing that stability would let go."""

    def record(self, kind: str, group: str | None = None, **detail: Any) -> None:
        if kind in _FACTS:
            raise ProtocolError(f"{self.me} records {kind!r}, which hosts alone write")
        sender, seq, rank = detail.pop("sender", None), detail.pop("seq", None), detail.pop("rank", None)
        extra: dict[str, Any] = {}
        if "deadline" in detail:
            extra["deadline"] = detail.pop("deadline")
        if detail:
            extra["detail"] = {name: value.to_detail() if isinstance(value, Reason) else value for name, value in detail.items()}
        self._row(kind, group, sender=sender, seq=seq, rank=rank, extra=extra or None)

    def halt(self, reason: Reason) -> None:
        self.effects.append((len(self.out), _HALT, reason, None))

    def spawn(self, name: str, procedure: Procedure) -> None:
        if self.memory is None:
            raise ProtocolError(f"{self.me} spawns {name!r}, but its protocol is described as one without common memory")
        self.effects.append((len(self.out), _CALL, self.memory.begin, (self, name, procedure)))

    def report(self, process: str, reason: Reason) -> None:
        if self.memory is not None:
            self.effects.append((len(self.out), _CALL, self.memory.reported, (self, process)))

    # --- turns --------------------------------------------------------------------------------------------------------

    def turn(self, method: Callable[..., None], *arguments: Any) -> None:
        """Calls the engine and applies what it asked for. The kernel inlines this for arrivals of packets."""
        if self.inside:
            raise ProtocolError(f"{self.me} is called while it is being called; entry points are not re-entrant")
        if not self.alive:
            return
        self.now = self.local = now = self._world.kernel.now
        if not self.clock_.exact:
            self.local = self.clock_.read(now)
        self.inside = True
        try:
            method(*arguments)
        except Exception as error:
            self.failed(error)
        self.inside = False
        if self.effects:
            self.apply()
        elif self.out:
            self._keep()

    def apply(self) -> None:
        """Applies the effects of a turn, in order, up to what stops the process."""
        effects = self.effects
        self.effects = []
        charge = 0
        for position, what, first, second in effects:
            if what == _SEND:
                route = self.last_route
                if route is None or first is not self._to:
                    route = self._route(first)
                if self.mid_crash is not None and len(route.others) > 1:
                    charge += self._crash_in(self._network, route, second, position, self.mid_crash)
                    break
                charge += self._network.send(self, route, second)
            elif what == _CALL:
                self._calls.append((first, second))
            elif what == _SEND_OVER:
                network, route = self._lans[first[0]], self._route_over(first)
                if self.mid_crash is not None and len(route.others) > 1:
                    charge += self._crash_in(network, route, second, position, self.mid_crash)
                    break
                charge += network.send(self, route, second)
            else:
                self._undo(position)
                self._stop("halted", first.text, {"by": "protocol", **first.to_detail()})
                break
        if self.out:
            if self.owed:
                self.pay()
            rows = self.rows
            rows += self.out
            self.out.clear()
            if charge:
                # What was owed may have gone to the same row.
                last = len(rows) - 1
                packets = self.history.packets
                packets[last] = packets.get(last, 0) + charge
        else:
            self.owed += charge
        if self._calls:
            self._settle()

    def _keep(self) -> None:
        if self.owed:
            self.pay()
        self.rows += self.out
        self.out.clear()

    def pay(self) -> None:
        """Charges packets of earlier turns to the row that is written next."""
        following = len(self.rows)
        packets = self.history.packets
        packets[following] = packets.get(following, 0) + self.owed
        self.owed = 0

    def _undo(self, position: int) -> None:
        """Drops the rows from a position on, as if the engine had not got there."""
        for row in self.out[position:]:
            if row[0] == "deliver":
                self.delivered -= 1
            elif row[0] == "send":
                self.sent -= 1
        del self.out[position:]

    def failed(self, error: Exception) -> None:
        """The engine raised: its effects are dropped and the process halts."""
        self.inside = False
        self.effects.clear()
        self._undo(0)
        text = f"{type(error).__name__}: {error}"
        self._stop("halted", text, {"by": "protocol", "reason": "exception", "text": text})
        self._keep()
        if not self._world.tolerate:
            where = f"{self.me} at {format_duration(self.now)}"
            again = "replay the scenario with this seed to see it again"
            raise ProtocolError(f"the engine of {where} raised {text}; {again}") from error

    def _settle(self) -> None:
        """Runs callbacks and what they ask for, first in, first out; a nested turn only adds to the queue."""
        if self._settling:
            return
        self._settling = True
        try:
            while self._calls and self.alive:
                function, arguments = self._calls.popleft()
                function(*arguments)
        finally:
            self._settling = False
            self._calls.clear()

    def later(self, function: Callable[..., object], *arguments: Any) -> None:
        """Queues a request of an application behind those that came first."""
        self._calls.append((function, arguments))
        if not self.inside:
            self._settle()

    def call(self, function: Callable[..., None], *arguments: Any) -> None:
        """Calls the application from inside a turn: after it, in the order of what else the engine asked for."""
        self.effects.append((len(self.out), _CALL, function, arguments))

    def _tell_installed(self, view: View) -> None:
        if self.watcher is not None:
            self._tell(self.watcher.installed, view)

    def _tell(self, function: Callable[..., object], *arguments: Any) -> None:
        """Tells the application something, now or when it takes messages again."""
        if self.unread is None:
            function(*arguments)
        else:
            self.unread.calls.append((function, arguments))

    def _tell_delivered(self, group: str, sender: str, batch: Batch) -> None:
        watcher = self.watcher
        if watcher is None:
            return
        if self.unread is not None:
            self.unread.calls.append((self._tell_delivered, (group, sender, batch)))
            return
        if batch.count == 1:
            watcher.delivered(group, sender, batch.first, batch.body)
            return
        for seq, payload in enumerate(unpack(batch), batch.first):
            watcher.delivered(group, sender, seq, payload)

    # --- an application that takes nothing for a while ----------------------------------------------------------------

    def stop_reading(self, until: int, most: int) -> None:
        """The application takes nothing until a time; when so many messages of a group wait for it, the engine is told."""
        if self.unread is None:
            self.unread = Unread(most)
        self.unread.until = max(self.unread.until, until)

    def read_again(self) -> None:
        """The application takes all that waits for it, and the engine is told that there is room again."""
        unread, self.unread = self.unread, None
        if unread is not None and self.alive:
            self._read_clock()
            for function, arguments in unread.calls:
                self.later(function, *arguments)
            for group in unread.full:
                if group in self.groups:
                    self.post(self.turn, self.engine.notice, Pressure(group, False))

    def _add_unread(self, group: str, count: int) -> None:
        """Inside a turn: messages wait for the application."""
        assert self.unread is not None
        if self.unread.add(group, count):
            self.call(self.post, self.turn, self.engine.notice, Pressure(group, True))

    # --- starting, messages, stopping ---------------------------------------------------------------------------------

    def enter(self, group: str, how: Any) -> None:
        """Asks the engine to join a group, and offers what waits there."""
        self.groups[group] = None
        self.post(self.turn, self.engine.join, group, how)
        self._offer(group)

    def propose(self, group: str, members: Sequence[str]) -> None:
        """Asks the engine to form a group with these; this process is in it when it is formed."""
        self.post(self.turn, self.engine.join, group, Propose(tuple(members)))

    def close(self, group: str) -> None:
        """Asks the engine to close a group for everybody; no more messages are accepted there."""
        if group in self.joined and group not in self.leaving:
            self.leaving[group] = None
            self.post(self._ask, self.engine.close, group)

    def rename(self, group: str, name: str) -> None:
        """Asks the engine to give a group another name."""
        if group in self.joined and group not in self.leaving:
            self.post(self._ask, self.engine.rename, group, name)

    def _ask(self, method: Callable[..., None], group: str, *arguments: str) -> None:
        """Asks the engine for something about a group, which may have got another name or come to its end meanwhile."""
        group = self._names.get(group, group)
        if group in self.groups:
            self.turn(method, group, *arguments)

    def _answer(self, invitation: Invitation) -> None:
        """The world answers for the application: it agrees, or says why not."""
        why_not = self._world.agrees(self, invitation)
        self.post(self.turn, self.engine.notice, Consent(invitation, not why_not, why_not))

    def accept(self, group: str, payloads: Sequence[bytes]) -> bool:
        """Takes messages of the application into the queue; False if this process can send no more."""
        if not self._can_send(group):
            return False
        self.check_size(max(map(len, payloads), default=0))
        queue = self.queues.get(group)
        if queue is None:
            queue = self.queues[group] = deque()
        was_empty = not queue
        queue.extend(payloads)
        self._note_accepted(group, payloads)
        if was_empty and queue:
            self._offer(group)
        return True

    @property
    def only_sends(self) -> bool:
        """Whether it is in groups without receiving anything there."""
        return self.base in self._world.only_send

    def check_size(self, size: int) -> None:
        """Refuses what a process that only sends cannot send: who gets nothing back does not see when a piece has arrived."""
        if size > self.max_packet and self.only_sends:
            raise UsageError(
                f"{self.me} only sends, so its messages have at most {self.max_packet} bytes, not {size}: send less, give the "
                f"protocol more room, or let it receive as well"
            )

    def _can_send(self, group: str) -> bool:
        return self.alive and group in self.groups and group not in self.leaving

    def _note_accepted(self, group: str, payloads: Sequence[bytes]) -> None:
        if self._world.accept_rows:
            self._read_clock()
            for payload in payloads:
                self._row("accept", group, sender=self.me, digest=crc32(payload), size=len(payload))
            self._keep()

    def write_note(self, group: str, sender: str | None, seq: int | None, detail: dict[str, Any]) -> None:
        """A row of the application's own."""
        if self.alive:
            self._read_clock()
            self._row("note", group, sender=sender, seq=seq, extra={"detail": detail})
            self._keep()

    def ask(self, group: str, stream: Stream, payload: bytes | None = None) -> bool:
        """Asks the protocol to guarantee a stream's deadlines; of an aperiodic one with its message, whose time runs from now on.
        False if this process can send no more."""
        if not self._can_send(group):
            return False
        if self.streams.find(group, stream.name) is not None:
            raise UsageError(f"{self.me} has a stream {stream.name!r} in {group!r}; release it first, or take another name")
        waiting = self.streams.open(group, stream)
        if payload is not None:
            waiting.add(payload, waiting.arrival(self._world.kernel.now))
            self._note_accepted(group, [payload])
        self._call_engine(self.engine.notice, Admit(group, stream))
        return True

    def new_stream_name(self) -> str:
        """A name for the stream of a single message."""
        self.streams.named += 1
        return f"~{self.streams.named}"

    def check_stream(self, group: str, stream: str, size: int) -> None:
        """Refuses what cannot be sent in a stream."""
        waiting = self._admitted(group, stream)
        if waiting is None or waiting.released:
            raise UsageError(f"{self.me} has no stream {stream!r} in {group!r} now: ask for it, and send when it is admitted")
        if size > waiting.stream.size:
            raise UsageError(
                f"{self.me} sends {size} bytes in stream {stream!r}, whose messages have {waiting.stream.size} at the most; send "
                f"less, or ask for a stream of that size"
            )

    def accept_in(self, group: str, stream: str, payload: bytes) -> bool:
        """Takes a message of a periodic stream that was admitted; False if this process can send no more there."""
        waiting = self._admitted(group, stream)
        if not self._can_send(group) or waiting is None or waiting.released:
            return False
        kernel = self._world.kernel
        arrival = waiting.arrival(kernel.now)
        waiting.coming += 1
        if arrival > kernel.now:
            kernel.at(arrival, self._arrive_in_stream, (group, stream, waiting, payload))
        else:
            self._arrive_in_stream((group, stream, waiting, payload))
        return True

    def _arrive_in_stream(self, message: tuple[str, str, Waiting, bytes]) -> None:
        group, stream, waiting, payload = message
        if not self.alive or self.streams.find(group, stream) is not waiting:
            return
        was_empty = not waiting.messages
        waiting.coming -= 1
        waiting.add(payload, self._world.kernel.now)
        self._note_accepted(group, [payload])
        if was_empty:
            self._offer(group)

    def release(self, group: str, stream: str) -> None:
        """Nothing more comes in this stream; what waits in it is sent, if the stream was admitted."""
        waiting = self.streams.find(group, stream)
        if waiting is None or waiting.released:
            return
        waiting.released = True
        if waiting.is_over or not waiting.admitted:
            self.streams.remove(group, stream)
            self.post(self.turn, self.engine.notice, Release(group, stream))

    def taken(self, group: str) -> int:
        """How many messages of this process in the group have a number."""
        return self._sequence.get(group, 0)

    def _offer(self, group: str) -> None:
        if self.queues.get(group) or self.streams.has_messages(group):
            self._call_engine(self.engine.ready, group)

    def _call_engine(self, method: Callable[..., None], argument: Any) -> None:
        """An engine's turn for the application, which may take its processor a while."""
        if self.work:
            cost, self.work = self.work, 0
            self.processor.work(cost, self.turn, method, argument)
            self.refresh()
        elif self.special:
            self.post(self.turn, method, argument)
        else:
            self.turn(method, argument)

    def asked_to_leave(self, group: str) -> None:
        """Somebody wants this process to leave a group, or, if none is named, all of them."""
        for name in [group] if group else list(self.groups):
            self.leave(name)

    def leave(self, group: str) -> None:
        """Asks the engine to leave a group; no more messages are accepted there."""
        if group in self.groups and group not in self.leaving:
            self.leaving[group] = None
            self.post(self._ask, self.engine.leave, group)

    @property
    def is_going(self) -> bool:
        """Whether it is on its way out of all its groups."""
        return bool(self.groups) and all(group in self.leaving for group in self.groups)

    def note(self, kind: str, detail: dict[str, Any] | None = None) -> None:
        """Writes a row of the host's own: start, fault, end."""
        if self.alive:
            self._read_clock()
            self._row(kind, None, extra={"detail": detail} if detail else None)
            self._keep()

    def note_inside(self, kind: str, detail: dict[str, Any], group: str | None = None) -> None:
        """Writes a row of the host's own during a turn."""
        self._row(kind, group, extra={"detail": detail})

    def crash_inside(self, detail: dict[str, Any]) -> None:
        """Stops for ever during a turn, which does nothing more."""
        self._stop("crashed", "in the middle of a broadcast", {"by": "fault", **detail})

    def crash(self, detail: dict[str, Any], text: str = "by a fault") -> None:
        """Stops for ever, between two events."""
        if self.alive:
            self._read_clock()
            self._stop("crashed", text, {"by": "fault", **detail})
            self._keep()

    def lose_disk(self) -> None:
        """Its history cannot be written any more: it halts, as a live process does. Nothing of this turn is lost here."""
        if self.alive:
            self._read_clock()
            text = "its trace cannot be written: the disk is full"
            self._stop("halted", text, {"by": "host", "reason": "trace", "text": text})
            self._keep()

    def _crash_in(self, network: SimNetwork, route: Route, packet: Any, position: int, random: Random) -> int:
        """Crashes while a packet leaves: a random part of its destinations gets it, some at least, never all."""
        reached = sorted(random.sample(range(len(route.others)), random.randrange(1, len(route.others))))
        names = tuple(route.others[index] for index in reached)
        charge = network.send_to(self, names, packet)
        self._undo(position)
        detail = {"by": "fault", "mid_broadcast": True, "reached": list(names)}
        if len(self._lans) > 1:
            detail["lan"] = network.number
        self._stop("crashed", "in the middle of a broadcast", detail)
        return charge

    def _stop(self, state: EndState, text: str, detail: dict[str, Any]) -> None:
        self._row("crash", None, extra={"detail": detail})
        self._die(state, text)

    def _gone(self) -> None:
        self._die("left", "")

    def _die(self, state: EndState, text: str) -> None:
        self.alive = False
        self.end = ProcessEnd(state, text)
        self.special = True
        self.timers.clear()
        self.processor.clear()
        self.queues.clear()
        self.streams.clear()
        self._world.stopped(self)

    # --- events -------------------------------------------------------------------------------------------------------

    def refresh(self) -> None:
        """Works out whether the kernel may hand packets straight to the engine."""
        self.special = bool(
            not self.alive or not self.processor.ordinary or self.countdown or self.omissions or not self.clock_.exact
        )

    def post(self, function: Callable[..., None], *arguments: Any) -> None:
        """Does something as soon as the processor is free."""
        if self.alive:
            self.processor.post(function, *arguments)
            self.refresh()

    def pause(self, until: int) -> None:
        self.processor.pause(until)
        self.refresh()

    def resume(self) -> None:
        self.processor.resume()
        self.refresh()

    def arrive(self, source: str, packet: Any) -> None:
        """A packet reaches a process that is not ordinary just now."""
        if not self.alive or (self.omissions and self._omit(source, packet)):
            return
        if not self.processor.receive(self._receive, source, packet):
            self._network.overflow(packet)

    def omit(self, omission: Omission) -> None:
        """From now on this process drops what the omission says."""
        if self.alive:
            self.omissions.append(omission)
            self.refresh()

    def stop_omitting(self) -> None:
        self.omissions.clear()
        self.refresh()

    def _omit(self, source: str, packet: Any) -> bool:
        """Whether an incoming packet is dropped by a fault, which is written down."""
        for omission in self.omissions:
            if omission.hits(source, packet):
                self.note("fault", omission.describe(source, packet))
                self._network.counters.lost += 1
                if omission.is_over:
                    self.omissions.remove(omission)
                    self.refresh()
                return True
        return False

    def arrive_own(self, packet: Any) -> None:
        """A packet to oneself: an ordinary event, but not the network's: it costs no receiving and takes no buffer."""
        self.post(self._receive_own, packet)

    def expire(self, timer: Timer) -> None:
        """A timer has come due (called by the timers)."""
        if self.special:
            self.post(self._expire, timer)
        else:
            self._world.kernel.events += 1
            self.turn(self.engine.expire, timer)

    def _receive(self, source: str, packet: Any) -> None:
        kernel = self._world.kernel
        kernel.events += 1
        kind = packet.__class__
        kernel.interrupts[kind] = kernel.interrupts.get(kind, 0) + 1
        self.turn(self.receive, source, packet)
        self.count_down()

    def _receive_own(self, packet: Any) -> None:
        self._world.kernel.events += 1
        self.turn(self.receive, self.me, packet)
        self.count_down()

    def _expire(self, timer: Timer) -> None:
        if self.timers.take_due(timer):
            self._world.kernel.events += 1
            self.turn(self.engine.expire, timer)
            self.count_down()

    def count_down(self) -> None:
        """An event was handled: perhaps it was the last before a crash."""
        if self.countdown:
            self.countdown -= 1
            if not self.countdown:
                self.note("fault", self.doom)
                self.crash({})

    # --- small things -------------------------------------------------------------------------------------------------

    @property
    def admits(self) -> bool:
        """Whether the protocol can guarantee deadlines."""
        return self._world.admits

    def admission(self, group: str) -> Mapping[str, Any] | None:
        """What the protocol guarantees in a group, and how much room it has left."""
        self._read_clock()
        return self.engine.admission(group)

    def waiting(self) -> Reason | None:
        """What this process still has to do before it is at rest."""
        self._read_clock()
        reason = self.engine.waiting()
        if reason is not None:
            return reason
        for group, queue in self.queues.items():
            if queue:
                text = f"{len(queue)} messages wait in group {group} and the protocol does not take them"
                return Reason("queue", text, {"messages": len(queue)})
        waits = self.streams.why_waiting()
        return Reason("stream", waits[0], {"messages": waits[1]}) if waits is not None else None

    def forget_routes(self) -> None:
        self._routes.clear()
        self._routes_over.clear()
        self._to = ()
        self.last_route = None

    def _route(self, to: tuple[str, ...]) -> Route:
        route = self._routes.get(to)
        if route is None:
            route = self._routes[to] = self._network.route(self, to)
        self._to = to
        self.last_route = route
        return route

    def _route_over(self, over: tuple[int, tuple[str, ...]]) -> Route:
        route = self._routes_over.get(over)
        if route is None:
            route = self._routes_over[over] = self._lans[over[0]].route(self, over[1])
        return route

    def _read_clock(self) -> None:
        self.now = self.local = self._world.kernel.now
        if not self.clock_.exact:
            self.local = self.clock_.read(self.now)

    def _row(
        self,
        kind: str,
        group: str | None,
        *,
        sender: str | None = None,
        seq: int | None = None,
        rank: int | None = None,
        digest: int | None = None,
        size: int | None = None,
        extra: dict[str, Any] | None = None,
    ) -> None:
        view = self.views.get(group) if group is not None else None
        self.out.append((kind, self.local, self.now, group, view, sender, seq, None, rank, digest, size, extra))
