"""The simulator's driver of a process: virtual time, a processor, networks, a history, and the faults of a scenario.

Theory of operation
-------------------
The process itself is :class:`~plainchant.core.process.Process`; this module performs its effects.

**Performing.** Effects are performed in order: rows join the history, timers are set, the application is told. Packets are
collected meanwhile and leave at the end, so that at one instant timers come before packets. Then the calls run that the effects
left behind (callbacks of the application, procedures, requests), and what they ask for becomes new turns, first in, first out. An
effect that stops the process ends this: the packets before it leave, nothing behind it happens. A crash in the middle of a
broadcast stops at the broadcast.

**Events.** The kernel hands packets straight to an ordinary process. A process that is not ordinary (``special``: dead, paused,
busy, with a clock of its own, to crash after a number of events) gets everything by way of its :class:`Processor`.

**Charging.** Packets sent in a turn are charged to the last row of that turn, or else to the next row of the process.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from random import Random
from typing import TYPE_CHECKING, Any, Protocol
from zlib import crc32

from ..core.memory import Procedure
from ..core.model import Batch, Consent, Due, Invitation, ProtocolError, Reason, Timer, View, format_duration
from ..core.process import DELIVER, SEND, TIMER, TOOK, Effect, Process
from ..scenario.faults import Omission
from ..scenario.outcome import EndState, ProcessEnd
from .clocks import ProcessClock
from .kernel import Kernel
from .listener import SILENT, Listener, Unread
from .processor import Processor
from .sends import STRETCH, SendTimes, Window
from .timers import Timers

if TYPE_CHECKING:
    from .memory import SimMemory
    from .network import Networks, Route

Row = tuple[Any, ...]


class History(Protocol):
    """Where a process's rows go (the trace's writer makes it)."""

    rows: list[Row]
    packets: dict[int, int]


@dataclasses.dataclass(slots=True)
class World:
    """Virtual time, the networks, the table of send times, and the settings that hosts look at."""

    seed: int
    kernel: Kernel
    networks: Networks
    sends: SendTimes
    stopped: Callable[[SimHost], None]  # called when a process has stopped for ever
    entered: Callable[[SimHost, str], None]
    """Called when a process is in a group that it was not made to enter: it proposed the group, or was invited."""
    renamed: Callable[[SimHost, str, str, int], None]
    """Called when a group of a process is renamed: the old name, the new one, and the shift of waiting messages' numbers."""
    max_packet: int  # bytes of messages that go together
    memory_of: Callable[[str], SimMemory | None] = lambda place: None
    """The shared memory of a process's node, if the protocol uses one."""
    views: bool = True  # whether views are written into the trace
    only_send: frozenset[str] = frozenset()  # processes that are in groups without receiving anything there
    admits: bool = False  # whether the protocol, with its parameters, can guarantee deadlines
    tolerate: bool = False  # an engine that raises halts its process, and the run goes on
    accept_rows: bool = False  # write an `accept` row when a message enters the queue
    request_rows: bool = False
    """Write a ``request`` row when a process is asked to enter or leave a group, and a ``fault`` row when faults are over: what
    ``progress`` needs, where the protocol promises it."""


class SimHost(Process):
    """One process in the simulator: ``name`` is its own, ``place`` where it runs."""

    __slots__ = (
        *("_charge", "_lans", "_leaving", "_network", "_routes", "_routes_over", "_sends", "_to", "_windows", "_world"),
        *("application", "clock_", "countdown", "crashing", "delivered", "doom", "dropped", "end", "history", "kernel"),
        *("last_route", "listens", "local", "marks", "mid_crash", "omissions", "owed", "packets_sent", "place", "processor"),
        *("receive", "refusing", "rows", "sent", "special", "timers", "unread", "watch_all", "watcher", "work"),
    )

    application: Listener  # set before the process starts
    memory: SimMemory | None  # the shared memory of its node, if there is any

    def __init__(self, world: World, name: str, place: str, history: History, clock: ProcessClock) -> None:
        super().__init__(name, Random(f"{world.seed}/engine/{name}"), world.max_packet, world.kernel.now)
        self._world = world
        self.kernel = world.kernel
        self._sends = world.sends
        self._lans = world.networks.lans
        self._network = self._lans[0]
        self.lans = len(self._lans)
        self.place = place
        self.memory = world.memory_of(place)
        self.has_views = world.views
        self.only_sends = place in world.only_send
        self.unpack = world.sends.unpack
        self.history = history
        self.rows = history.rows
        self.clock_ = clock
        self.local = self.now
        self.end = ProcessEnd("alive")
        self.receive: Callable[[str, Any], None] = self.engine.receive
        self.watcher: Listener = SILENT  # the application, if it wants to be told
        self.watch_all = False  # whether it is told of what others sent, too
        self.listens = False  # whether anything happens with a delivery beside its row
        self.timers = Timers(world.kernel, self)
        self.processor = Processor(world.kernel, world.networks.settings, self.refresh, world.networks.core(place))
        # packets
        self._leaving: list[Effect] = []
        self._charge = 0  # packets that this turn has sent
        self.owed = 0  # packets of earlier turns that no row is charged with
        self.packets_sent = 0  # counted where the application wants to know
        self._to: Sequence[str] = ()
        self.last_route: Route | None = None
        self._routes: dict[tuple[str, ...], Route] = {}
        self._routes_over: dict[tuple[int, tuple[str, ...]], Route] = {}  # those over other networks than the first
        # messages
        self._windows: dict[str, Window] = {}
        self.marks: dict[tuple[str, str], int] = {}
        self.sent = self.delivered = self.dropped = 0
        self.unread: Unread | None = None  # what the application has not taken, while it takes nothing
        self.work = 0  # processor time that the application's next call takes
        self.notes_requests = world.request_rows
        # faults
        self.refusing: dict[str, None] = {}  # proposed groups that it does not agree to be in; an empty name stands for all
        self.countdown = 0
        self.doom: dict[str, Any] = {}  # the fault that happens when the countdown ends
        self.mid_crash: Random | None = None
        self.crashing = False  # whether it crashes when the effects so far are performed
        self.omissions: list[Omission] = []
        self.special = False
        self.refresh()

    def clock(self) -> int:
        return self.local

    def read_clock(self) -> None:
        self.now = self.local = now = self.kernel.now
        if not self.clock_.exact:
            self.local = self.clock_.read(now)

    def stable(self, group: str, rank: int) -> None:
        if self.watch_all:
            super().stable(group, rank)

    def watch(self, watcher: Listener, *, all_messages: bool = False) -> None:
        """From here on the application is told, of deliveries only if they are its own messages or if it wants all of them."""
        self.watcher = watcher
        self.watch_all = self.watch_all or all_messages
        self.listens = True

    # --- effects ------------------------------------------------------------------------------------------------------

    def perform(self) -> None:
        effects, leaving, rows, sends = self.effects, self._leaving, self.rows, self._sends
        start = len(rows)
        for effect in effects:
            kind = effect[0]
            # Those that a simulation spends its time with are here, the others have methods.
            if kind == DELIVER:
                # A broadcast that arrives everywhere at one instant is the same row at every process.
                if self.now is not sends.now or self.local is not sends.local or effect != sends.effect:
                    sends.write(effect, self.now, self.local)
                if sends.row is not None:
                    rows.append(sends.row)
                    self.delivered += 1
                else:
                    rows += sends.rows
                    self.delivered += len(sends.rows)
                if sends.milestone:
                    self.marks[effect[1], effect[3]] = sends.milestone
                if self.listens:
                    self._tell_delivered(*effect[1:])
            elif kind == SEND:
                if self.mid_crash is not None and self._crashes_in(effect, self.mid_crash):
                    break
                leaving.append(effect)
            elif kind == TOOK:
                self._took(effect)
            elif kind == TIMER:
                if effect[2] is not None:
                    self.timers.set(effect[1], effect[2])
                else:
                    self.timers.cancel(effect[1])
            else:
                self._handlers[kind](*effect[1:])
                if not self.alive:
                    break
        effects.clear()
        if leaving:
            self._send_off()
        if self.owed:
            self._pay(start)
        if self._charge:
            last = len(rows) - 1
            if last < start:
                self.owed += self._charge
            else:
                # What was owed may have gone to the same row.
                packets = self.history.packets
                packets[last] = packets.get(last, 0) + self._charge
            self._charge = 0
        if self.calls:
            self.settle()

    def _send_off(self) -> None:
        """The packets that wait leave."""
        leaving, network, charge = self._leaving, self._network, self._charge
        for _, to, packet, lan in leaving:
            if lan:
                charge += self._lans[lan].send(self, self._route_over((lan, to)), packet)
            else:
                route = self.last_route
                if route is None or (to is not self._to and to != self._to):
                    route = self._route(to)
                charge += network.send(self, route, packet)
        self._charge = charge
        if self.watch_all:
            self.packets_sent += sum(len(effect[1]) for effect in leaving)
        leaving.clear()

    def _pay(self, start: int) -> None:
        """Charges packets of earlier turns to the first row since ``start``."""
        if self.owed and len(self.rows) > start:
            packets = self.history.packets
            packets[start] = packets.get(start, 0) + self.owed
            self.owed = 0

    def _tell_delivered(
        self, group: str, view: int | None, sender: str, batch: Batch, payloads: list[bytes] | None, rank: int | None
    ) -> None:
        if self.unread is not None and self.unread.add(group, batch.count):
            self.do_later(self._press, (group, True))
        if self.watch_all or sender == self.me:
            self.watcher.delivered(group, sender, batch, payloads, rank)

    def _crashes_in(self, effect: Effect, random: Random) -> bool:
        """Crashes while a packet to several others leaves: a random part of them gets it, at least one, never all."""
        _, to, packet, lan = effect
        network = self._lans[lan]
        others = (self._route_over((lan, to)) if lan else self._route(to)).others
        if len(others) < 2:
            return False
        self._send_off()
        names = tuple(others[index] for index in sorted(random.sample(range(len(others)), random.randrange(1, len(others)))))
        self._charge += network.send_to(self, names, packet)
        number = {"lan": network.number} if self.lans > 1 else {}
        self._crash("in the middle of a broadcast", {"mid_broadcast": True, "reached": list(names), **number})
        return True

    def _took(self, effect: Effect) -> None:
        _, group, view, stream, batch, messages = effect
        window = self._windows.get(group)
        if window is None:
            window = self._windows[group] = self._sends.window(group, self.me)
        sends, rows, me, now, local = self._sends, self.rows, self.me, self.now, self.local
        if messages is None:
            seq, body = batch.first, batch.body
            digest, size = crc32(body), len(body)
            window.times.append(now)
            rows.append(("send", local, now, group, view, me, seq, None, None, digest, size, None))
            sends.remember(group, me, batch, (seq, now, digest, size))
            if not seq % STRETCH:
                sends.prune(group, me)
        else:
            for seq, message in enumerate(messages, batch.first):
                extra = None
                if isinstance(message, Due):
                    # What is left of the time, because the clock may have been set since the message arrived.
                    extra = {"deadline": local + message.deadline - now}
                    message = message.payload
                window.times.append(now)
                rows.append(("send", local, now, group, view, me, seq, None, None, crc32(message), len(message), extra))
                if not seq % STRETCH:
                    sends.prune(group, me)
        self.sent += batch.count
        if self.listens:
            self.watcher.took(group, stream, batch)

    def do_row(self, kind: str, group: Any, view: Any, sender: Any, seq: Any, rank: Any, extra: Any) -> None:
        self.rows.append((kind, self.local, self.now, group, view, sender, seq, None, rank, None, None, extra))

    do_record = do_row

    def do_drop(self, group: str, view: int | None, count: int, text: str) -> None:
        self.do_row("drop", group, view, None, None, None, {"detail": {"messages": count, "text": text}})
        self.dropped += count

    def do_view(self, view: View, is_new: bool, is_first: bool) -> None:
        if is_new:
            self.calls.append((self._world.entered, (self, view.group)))
        if is_first:
            self.calls.append((self.offer, (view.group,)))
        self.watcher.installed(view)

    def do_left(self, group: str, is_last: bool) -> None:
        self.watcher.left(group)
        if is_last:
            # Packets of this turn still leave, since others may wait for a last word; then nothing is asked of it any more.
            self.calls.append((self._die, ("left", Reason("left", ""))))

    def do_refused(self, group: str, reason: Reason, is_last: bool) -> None:
        self.watcher.refused(group, reason)
        if is_last:
            self.do_halt(reason)

    def do_renamed(self, group: str, view: View, returned: Sequence[bytes], numbered: int, shift: int) -> None:
        self.calls.append((self._world.renamed, (self, group, view.group, shift)))
        self.watcher.renamed(group, view, returned, numbered)

    def do_invited(self, invitation: Invitation) -> None:
        self.calls.append((self._answer, (invitation,)))

    def do_stable(self, group: str, rank: int) -> None:
        self.watcher.stable(group, rank)

    def do_admitted(self, group: str, stream: str) -> None:
        self.watcher.admitted(group, stream)
        self.calls.append((self.offer, (group,)))

    def do_rejected(self, group: str, stream: str, reason: Reason) -> None:
        self.watcher.rejected(group, stream, reason)

    def do_spawn(self, name: str, procedure: Procedure) -> None:
        assert self.memory is not None
        self.calls.append((self.memory.begin, (self, name, procedure)))

    def do_report(self, process: str, reason: Reason) -> None:
        assert self.memory is not None
        self.calls.append((self.memory.reported, (self, process)))

    def do_later(self, method: Callable[..., object], arguments: tuple[Any, ...]) -> None:
        self.calls.append((self.later, (method, *arguments)))

    def after(self, function: Callable[..., object], *arguments: Any) -> None:
        """Inside a turn: calls a function when its effects are performed, in the order of what else they leave to be called."""
        self.defer(self.calls.append, (function, arguments))

    def request(self, function: Callable[..., object], *arguments: Any) -> None:
        """Queues a request of an application behind those that came first."""
        self.calls.append((function, arguments))
        if not self.inside:
            self.settle()

    # --- rows of its own ----------------------------------------------------------------------------------------------

    def note(self, kind: str, detail: dict[str, Any] | None = None) -> None:
        """Writes a row outside turns: start, fault, end."""
        if self.alive:
            self._write(kind, None, None, None, detail or None)

    def write_note(self, group: str, sender: str | None, seq: int | None, detail: dict[str, Any]) -> None:
        """A row of the application's own."""
        if self.alive:
            self._write("note", group, sender, seq, detail)

    def note_accepted(self, group: str, payloads: Sequence[bytes]) -> None:
        if self._world.accept_rows:
            start = len(self.rows)
            self.read_clock()
            me, now, local, view = self.me, self.now, self.local, self.views.get(group)
            self.rows += [
                ("accept", local, now, group, view, me, None, None, None, crc32(payload), len(payload), None)
                for payload in payloads
            ]
            self._pay(start)

    def _write(self, kind: str, group: str | None, sender: str | None, seq: int | None, detail: dict[str, Any] | None) -> None:
        self.read_clock()
        view = self.views.get(group) if group is not None else None
        self.do_row(kind, group, view, sender, seq, None, {"detail": detail} if detail is not None else None)
        self._pay(len(self.rows) - 1)

    # --- stopping -----------------------------------------------------------------------------------------------------

    def stop(self, reason: Reason, detail: dict[str, Any]) -> None:
        self._stop("halted", reason, detail)

    def failed(self, error: Exception) -> None:
        start = len(self.rows)
        super().failed(error)
        self._pay(start)
        if not self._world.tolerate:
            where = f"{self.me} at {format_duration(self.now)}"
            again = "replay the scenario with this seed to see it again"
            raise ProtocolError(f"the engine of {where} raised {self.end.reason}; {again}") from error

    def crash(self, detail: dict[str, Any], text: str = "by a fault") -> None:
        """Crashes between two events."""
        self._stop_now("crashed", Reason("exception", text), {"by": "fault", **detail})

    def crash_inside(self, detail: dict[str, Any]) -> None:
        """Crashes in the course of a turn: what it has asked for so far is performed, and nothing more."""
        self.crashing = True
        self.defer(self._crash, "in the middle of a broadcast", detail)

    def lose_disk(self) -> None:
        """Its history cannot be written any more: it halts, as a live process does. Nothing of this turn is lost here."""
        text = "its trace cannot be written: the disk is full"
        self._stop_now("halted", Reason("exception", text), {"by": "host", "reason": "trace", "text": text})

    def _stop_now(self, state: EndState, reason: Reason, detail: dict[str, Any]) -> None:
        if self.alive:
            start = len(self.rows)
            self.read_clock()
            self._stop(state, reason, detail)
            self._pay(start)

    def _crash(self, text: str, detail: dict[str, Any]) -> None:
        self._stop("crashed", Reason("exception", text), {"by": "fault", **detail})

    def _stop(self, state: EndState, reason: Reason, detail: dict[str, Any]) -> None:
        self._send_off()
        self.do_row("crash", None, None, None, None, None, {"detail": detail})
        self._die(state, reason)

    def _die(self, state: EndState, reason: Reason) -> None:
        self.alive = False
        self.end = ProcessEnd(state, reason.text)
        self.special = True
        self.timers.clear()
        self.processor.clear()
        self.queues.clear()
        self.streams.clear()
        self._world.stopped(self)
        self.watcher.stopped(state, reason)

    # --- an application that takes nothing for a while ----------------------------------------------------------------

    def stop_reading(self, until: int, most: int) -> None:
        """The application takes nothing until a time; the engine is told when ``most`` messages of a group wait for it."""
        self.listens = True
        if self.unread is None:
            self.unread = Unread(most)
        self.unread.until = max(self.unread.until, until)

    def read_again(self) -> None:
        """The application takes all that waits for it, and the engine is told that there is room again."""
        unread, self.unread = self.unread, None
        if unread is not None and self.alive:
            self.read_clock()
            for function, arguments in unread.calls:
                self.request(function, *arguments)
            for group in unread.full:
                self.pressure(group, False)

    # --- what applications ask for ------------------------------------------------------------------------------------

    def later(self, method: Callable[..., object], *arguments: Any) -> None:
        self.post(self.turn, method, *arguments)

    def enter(self, group: str, how: Any) -> None:
        """Asks the engine to join a group, and offers the messages that wait there."""
        self._enter(group)
        self.later(self._join, group, how)
        self.offer(group)

    def _answer(self, invitation: Invitation) -> None:
        """The application agrees to be in a group, or says why not."""
        if invitation.group in self.refusing or "" in self.refusing:
            why_not = f"{self.me} refuses to be in {invitation.group}"
        else:
            why_not = self.application.invited(invitation)
        self.later(self.engine.notice, Consent(invitation, not why_not, why_not))

    def offer(self, group: str) -> None:
        """Tells the engine that there is something to send, if there is."""
        if self.queues.get(group) or self.streams.has_messages(group):
            self.call_engine(self.engine.ready, group)

    def call_engine(self, method: Callable[..., None], argument: Any) -> None:
        """An engine's turn for the application, which may take its processor a while."""
        if self.work:
            cost, self.work = self.work, 0
            self.processor.post(self.turn, method, argument, cost=cost)
            self.refresh()
        elif self.special:
            self.later(method, argument)
        else:
            self.turn(method, argument)

    @property
    def admits(self) -> bool:
        """Whether the protocol can guarantee deadlines."""
        return self._world.admits

    # --- events -------------------------------------------------------------------------------------------------------

    def refresh(self) -> None:
        """Works out whether the kernel may hand packets straight to the engine."""
        ordinary = self.alive and self.processor.ordinary and self.clock_.exact
        self.special = not ordinary or bool(self.countdown or self.omissions)

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
        """Whether a fault drops an incoming packet; if so, it is written down."""
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
        self.post(self._event, self.receive, self.me, packet)

    def expire(self, timer: Timer) -> None:
        """A timer has come due (called by the timers)."""
        if self.special:
            self.post(self._expire, timer)
        else:
            self.kernel.events += 1
            self.turn(self.engine.expire, timer)

    def _receive(self, source: str, packet: Any) -> None:
        interrupts, kind = self.kernel.interrupts, packet.__class__
        interrupts[kind] = interrupts.get(kind, 0) + 1
        self._event(self.receive, source, packet)

    def _expire(self, timer: Timer) -> None:
        if self.timers.take_due(timer):
            self._event(self.engine.expire, timer)

    def _event(self, method: Callable[..., object], *arguments: Any) -> None:
        self.kernel.events += 1
        self.turn(method, *arguments)
        self.count_down()

    def count_down(self) -> None:
        """An event was handled: perhaps it was the last before a crash."""
        if self.countdown:
            self.countdown -= 1
            if not self.countdown:
                self.note("fault", self.doom)
                self.crash({})

    # --- routes -------------------------------------------------------------------------------------------------------

    def forget_routes(self) -> None:
        self._routes.clear()
        self._routes_over.clear()
        self._to = ()
        self.last_route = None

    def _route(self, to: tuple[str, ...]) -> Route:
        if to not in self._routes:
            self._routes[to] = self._network.route(self, to)
        self._to = to
        self.last_route = route = self._routes[to]
        return route

    def _route_over(self, over: tuple[int, tuple[str, ...]]) -> Route:
        if over not in self._routes_over:
            self._routes_over[over] = self._lans[over[0]].route(self, over[1])
        return self._routes_over[over]
