"""The live Host: one process's engine on an asyncio event loop, over a transport.

Theory of operation
-------------------
**Turn.** A packet, a timer, or a request of the application makes the host call one method of its engine. What the method asks
for goes into the outbox. When it has returned the outbox is applied in order: rows into the spool, deliveries and views to
their groups, packets into a list of those to leave. If the method raised, the outbox is dropped and the process halts.

**End of a turn.** Many methods share one end (:meth:`LiveHost.turn_over`): all packets that the transport had ready, or one
timer, or everything that the application sent since the loop came round. Timers that were set for now expire there, once for all
packets of the turn. Then the spool is written, once, and only then do packets leave: whoever is killed has left behind everything
that others can have seen of it.

**Natural batching.** The first message that an application sends goes to the engine at once; what it sends further before the
loop comes round is only queued, and the engine is told when it does. So a message alone does not wait, many go together into
one packet, and there is no timer.

Messages in the queue are bytes in a list with a position; a batch is cut off with a few calls that run in C. Messages with
deadlines wait stream by stream, each with the moment at which it arrived, and can be taken when the stream is admitted.

**Timers come after packets.** A process that was stopped finds both when it goes on: packets in its socket, and timers that are
late. What has come is received before a timer expires, and the timer does not if the engine has moved it meanwhile. So nobody
takes somebody for dead whose packets are here. (:data:`CATCH_UP` bounds what is read at once.)

**Common memory.** Where the protocol has it, what engines spawn runs after turns, in turns of its own (:mod:`.memory.stepper`).

**Loopback.** What an engine sends to its own process comes back in the same turn, unless the protocol wants it from the network
(``Description.loopback``): then it goes through the socket as what others get does, and can be lost there.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from itertools import accumulate
from random import Random
from typing import TYPE_CHECKING, Any, Final, Protocol

from ..core.engine import Engine
from ..core.model import (
    PACK_OVERHEAD,
    Admit,
    Batch,
    Consent,
    Due,
    Form,
    Invitation,
    Join,
    Packet,
    PlainchantError,
    Pressure,
    Propose,
    ProtocolError,
    Reason,
    Release,
    Stream,
    Timer,
    TraceError,
    UsageError,
    View,
    WireError,
    pack,
    unpack,
)
from ..core.wire import FRAME_BYTES, HEADER_BYTES, MAX_BYTES, VERSION, Stamped
from ..group import Group
from .presence import HELLO_TAG, LARGEST_HELLO, LONGEST_NAME, Hello, Presence
from .refusals import Refusals
from .transport import Address, Data, Transport, senders_of

if TYPE_CHECKING:
    from ..core.memory import Procedure
    from ..scenario.faults import Omission
    from ..trace.spool import Spool
    from .memory.stepper import Stepper
    from .observe.observer import Observer

MARGIN: Final = 160
"""Bytes of a packet that are not for messages: the fields of the packet, and two names of ``LONGEST_NAME`` with incarnations."""
CATCH_UP: Final = 16
"""So often the transport is read before a timer that is late expires; one that is not waits for one reading."""
AT_ONCE: Final = 50_000
"""Nanoseconds between which two clocks are read at the same instant, as far as anybody minds; else they are read again."""
LOOKS: Final = 3
MOST_ROUTES: Final = 1024
"""Lists of receivers whose addresses are kept ready."""
LATE: Final = 0.002
"""Seconds after its time at which a timer is late."""
_FACTS: Final = frozenset({"start", "join", "send", "deliver", "view", "leave", "crash", "end"})
_SHRINK: Final = 4096
"""A queue forgets what was taken from it when that is so much."""

monotonic_ns = time.monotonic_ns


def check_name(name: str) -> None:
    """Names stand in every packet, where there is little room for them."""
    length = len(name.encode(errors="surrogatepass"))
    if not 0 < length <= LONGEST_NAME:
        what = "a longer" if not length else "a shorter"
        raise UsageError(f"the name {name!r} has {length} bytes, of {LONGEST_NAME} at the most; choose {what} one")


class Queue:
    """Messages that wait to be taken: ``items[at:]``."""

    __slots__ = ("at", "guess", "items")

    def __init__(self) -> None:
        self.items: list[bytes] = []
        self.at = 0
        self.guess = 64
        """About how many messages the next packet takes."""

    def __len__(self) -> int:
        return len(self.items) - self.at

    def cut(self, max_bytes: int, most: int) -> list[bytes]:
        """Takes as many messages as fit; one alone may be larger."""
        items, at = self.items, self.at
        waiting = len(items) - at
        if most == 1 or waiting == 1:
            taken = [items[at]]
        else:
            room = max_bytes - PACK_OVERHEAD
            guess = self.guess
            while True:
                part = items[at : at + guess]
                ends = list(accumulate(map(len, part)))
                fitting = bisect_right(range(len(part)), room, key=lambda index: ends[index] + PACK_OVERHEAD * (index + 1))
                if fitting < len(part) or len(part) == waiting:
                    break
                guess *= 2
            if most:
                fitting = min(fitting, most)
            taken = part[: max(1, fitting)]
            self.guess = len(taken) + len(taken) // 8 + 8
        self.at = at = at + len(taken)
        if at == len(items):
            items.clear()
            self.at = 0
        elif at > _SHRINK and 2 * at > len(items):
            del items[:at]
            self.at = 0
        return taken


class Waiting:
    """The messages of a stream that wait to be taken."""

    __slots__ = ("is_admitted", "messages", "stream")

    def __init__(self, stream: Stream) -> None:
        self.stream = stream
        self.is_admitted = False
        self.messages: deque[Due] = deque()

    def add(self, payload: bytes, arrived: int) -> None:
        self.messages.append(Due(payload, arrived, arrived + self.stream.deadline))

    def cut(self, max_bytes: int, most: int) -> list[Due]:
        """Takes as many messages as fit; one alone may be larger."""
        taken = [self.messages.popleft()]
        room = max_bytes - len(taken[0].payload) - 2 * PACK_OVERHEAD
        while self.messages and len(taken) != most:
            room -= len(self.messages[0].payload) + PACK_OVERHEAD
            if room < 0:
                break
            taken.append(self.messages.popleft())
        return taken


class Owner(Protocol):
    """Whom a host tells of groups that nobody made it enter: the node. It does not call back from inside these."""

    def formed(self, view: View) -> Group:
        """This process is in a group that it proposed, or that was proposed to it: makes what the application sees of it."""

    def invited(self, invitation: Invitation) -> str:
        """Whether the application agrees to be in a group: why not, or nothing."""

    def refused(self, group: str, reason: Reason) -> None:
        """This process is not in a group that it proposed, agreed to or asked to join."""

    def renamed(self, group: str, name: str) -> None:
        """The group has another name from here on."""


class LiveHost:
    """One process. It exists before it has a name; :meth:`begin` gives it its name, its engine and its spool."""

    def __init__(
        self,
        transport: Transport,
        codec: Stamped,
        *,
        random: Random,
        stopped: Callable[[Reason], None] = lambda reason: None,
        owner: Owner | None = None,
        accept_rows: bool = True,
        loopback: bool = False,
        refusals: Refusals | None = None,
    ) -> None:
        self.me = ""
        self.random = random
        self.max_packet = transport.limits.packet - FRAME_BYTES - MARGIN
        self.now = monotonic_ns()
        self.engine = Engine()
        self.alive = True
        self.end_reason: Reason | None = None
        self.clock_offset = 0
        self.groups: dict[str, Group] = {}
        self.spool: Spool | None = None
        self.presence: Presence
        self.memory: Stepper | None = None
        """Runs procedures, where the protocol has common memory and this process is where that is."""
        self.has_views = True
        """Whether views are written into the trace; see ``Description.views``."""
        self.observer: Observer | None = None
        """Who is told of what happens seldom, for metrics and spans."""
        self.only_sends = False
        """Whether this process is in groups without ever being a member that receives."""
        self._transport = transport
        self._further = senders_of(transport)[1:]
        """What sends on each network but the first."""
        self._codec = codec
        self._stopped = stopped
        self._owner = owner
        self._accept_rows = accept_rows
        self._loopback = loopback
        """Whether packets to oneself go over the network."""
        self._loop = asyncio.get_running_loop()
        # the outbox
        self._out: list[tuple[Any, ...]] = []
        self._leaving: list[tuple[tuple[Address, ...], Packet, int]] = []
        self._inside = False
        self._own: deque[Packet] = deque()
        self._calls: deque[tuple[Callable[..., None], tuple[Any, ...]]] = deque()
        # messages
        self._queues: dict[str, Queue] = {}
        self._streams: dict[str, dict[str, Waiting]] = {}
        """Streams that were asked for, by group and name."""
        self._sequence: dict[str, int] = {}
        self._views: dict[str, int | None] = {}
        """The view of each group that this process is in; None where views are not numbered in the trace."""
        self._offered: dict[str, None] = {}
        self._leaving_groups: dict[str, None] = {}
        self._round_asked = False
        self._timers: dict[Timer, asyncio.TimerHandle] = {}
        self._catch_up: Callable[[], bool] = getattr(transport, "catch_up", lambda: False)
        self._due: dict[Timer, None] = {}
        """Timers that were set for now: they expire at the end of this turn, when everything that was there has been received."""
        self._ending = False
        self._routes: dict[tuple[str, ...], tuple[Address, ...]] = {}
        # counters
        self.packets_sent = 0
        self.packets_received = 0
        self.packets_unroutable = 0
        self.refusals = refusals if refusals is not None else Refusals()
        """Packets that came and changed nothing, by reason."""
        self.place_at: Callable[[Address], str | None] | None = None
        """Where packets are sealed: the place that has proved itself at an address."""
        self.events = 0
        self.omissions: list[Omission] = []
        """A test's faults: packets that are dropped when they come."""
        self.countdown = 0
        """A test's fault: when so many events have been handled, ``doom`` is called."""
        self.doom: Callable[[], None] = lambda: None

    # --- what engines ask for -----------------------------------------------------------------------------------------

    def clock(self) -> int:
        """The process's clock. While the engine is called it stands still, as ``now`` does: both are of the same instant."""
        if not self._inside:
            return time.time_ns() + self.clock_offset
        for _ in range(LOOKS):
            before = monotonic_ns()
            shown = time.time_ns()
            after = monotonic_ns()
            if after - before < AT_ONCE:
                break
        return shown - (after - self.now) + self.clock_offset

    def take(self, group: str, max_bytes: int, most: int = 0, stream: str = "") -> Batch | None:
        if stream:
            return self._take_from(group, stream, max_bytes, most)
        queue = self._queues.get(group)
        if queue is None or not queue.items:
            return None
        payloads = queue.cut(max_bytes, most)
        first = self._sequence.get(group, 0) + 1
        self._sequence[group] = first + len(payloads) - 1
        self._out.append((_took, group, first, payloads))
        return pack(first, payloads)

    def _take_from(self, group: str, name: str, max_bytes: int, most: int) -> Batch | None:
        waiting = self._admitted(group, name)
        if waiting is None or not waiting.messages:
            return None
        taken = waiting.cut(max_bytes, most)
        first = self._sequence.get(group, 0) + 1
        self._sequence[group] = first + len(taken) - 1
        if not waiting.stream.period:
            del self._streams[group][name]
        self._out.append((_took_from, group, name, first, taken))
        return pack(first, [due.payload for due in taken])

    def peek(self, group: str, stream: str = "") -> Due | None:
        if stream:
            waiting = self._admitted(group, stream)
            return waiting.messages[0] if waiting is not None and waiting.messages else None
        queue = self._queues.get(group)
        return Due(queue.items[queue.at], 0) if queue else None

    def _admitted(self, group: str, name: str) -> Waiting | None:
        waiting = self._streams.get(group, {}).get(name)
        return waiting if waiting is not None and waiting.is_admitted else None

    def admitted(self, group: str, stream: str) -> None:
        waiting = self._streams.get(group, {}).get(stream)
        if waiting is not None and not waiting.is_admitted:
            waiting.is_admitted = True
            self._out.append((_tell_admitted, group, stream))

    def rejected(self, group: str, stream: str, reason: Reason) -> None:
        if self._streams.get(group, {}).pop(stream, None) is not None:
            self._out.append((_tell_rejected, group, stream, reason))

    def send(self, to: Sequence[str], packet: Packet, lan: int = 0) -> None:
        if lan > len(self._further):
            raise ProtocolError(f"{self.me} sends on network {lan + 1}, and there are {1 + len(self._further)}")
        self._out.append((_send, to if to.__class__ is tuple else tuple(to), packet, lan))

    def set_timer(self, timer: Timer, at: int) -> None:
        self.cancel_timer(timer)
        if at <= self.now and not self._ending:
            self._due[timer] = None
        else:
            self._timers[timer] = self._loop.call_at(at / 1e9, self._expire, timer)

    def cancel_timer(self, timer: Timer) -> None:
        self._due.pop(timer, None)
        handle = self._timers.pop(timer, None)
        if handle is not None:
            handle.cancel()

    def deliver(self, group: str, sender: str, batch: Batch, rank: int | None = None) -> None:
        self._out.append((_deliver, group, sender, batch.first, unpack(batch), rank, len(batch.body)))

    def install(self, view: View) -> None:
        self._out.append((_install, view))

    def left(self, group: str, rank: int | None = None) -> None:
        self._out.append((_left, group, rank))

    def invited(self, invitation: Invitation) -> None:
        self._out.append((_invited, invitation))

    def refused(self, group: str, reason: Reason) -> None:
        self._out.append((_refused, group, reason))

    def renamed(self, group: str, view: View, returned: Sequence[bytes] = ()) -> None:
        # What waits is taken under the new name in this very turn, perhaps: it must be there at once.
        queue = self._queues.pop(group)
        queue.items[queue.at : queue.at] = returned
        self._queues[view.group] = queue
        self._out.append((_renamed, group, view, returned, self._sequence.setdefault(view.group, 0)))

    def stable(self, group: str, rank: int) -> None:
        self._out.append((_stable, group, rank))

    def record(self, kind: str, group: str | None = None, **detail: Any) -> None:
        if kind in _FACTS:
            raise ProtocolError(f"{self.me} records {kind!r}, which hosts alone write")
        if self.observer is not None:
            self.observer.recorded(kind, group, detail)
        if self.spool is not None:
            self._out.append((_record, kind, group, detail))

    def halt(self, reason: Reason) -> None:
        self._out.append((_halt, reason))

    def place(self, function: Callable[..., None], *arguments: Any) -> None:
        """A call in its place among what the engine asks for: for layers that speak to the application."""
        self._out.append((_call, function, arguments))

    def spawn(self, name: str, procedure: Procedure) -> None:
        if self.memory is None:
            raise ProtocolError(f"{self.me} spawns {name!r}, but it has no common memory")
        self._out.append((_spawn, self.memory, name, procedure))

    def report(self, process: str, reason: Reason) -> None:
        """The presences of others are looked at when this turn is over; without common memory nobody knows."""
        if self.memory is not None:
            self._loop.call_soon(self.memory.look)

    # --- turns --------------------------------------------------------------------------------------------------------

    def begin(self, me: str, engine: Callable[[LiveHost], Engine], spool: Spool | None) -> None:
        """From here on this process is somebody."""
        self.me = me
        self.spool = spool
        self.engine = engine(self)
        self.call(self.engine.start)

    def packet(self, source: Address, data: Data) -> None:
        """A packet of the transport's. Bytes that are not for us, or not whole, are counted and forgotten; a stranger's are not
        even decoded, unless it says hello."""
        known = self.presence.sources.get(source)
        stamp = data[HEADER_BYTES:FRAME_BYTES]
        if (known is None or stamp != known[0]) and not _is_hello(data):
            if not self._loopback or stamp != self.presence.boot:
                self._refuse_stranger(source, data, known is None)
                return
            known = (self.presence.boot, self.me)
        try:
            packet = self._codec.decode_frame(data)
        except WireError:
            self.refusals.unreadable(data)
            return
        if packet.__class__ is Hello:
            self._on_hello(source, packet, data)
            return
        if known is None or stamp != known[0]:
            self.refusals.damaged += 1  # it looked like a hello
            return
        if not self.alive or not self.me:
            return
        self.packets_received += 1
        if self.omissions and self._omits(known[1], packet):
            return
        self.now = monotonic_ns()
        self._inside = True
        try:
            self.engine.receive(known[1], packet)
        except Exception as error:
            self.failed(error)
        self._inside = False
        if self._out:
            self._apply()
        if self.countdown:
            self.count_down()

    def _refuse_stranger(self, source: Address, data: Data, unknown: bool) -> None:
        """Not from anybody whom we know and who knows us: it is asked who it is, if these are bytes of ours at all."""
        if len(data) <= FRAME_BYTES or len(data) > MAX_BYTES or data[0] != VERSION:
            self.refusals.unreadable(data)
            return
        if unknown:
            self.refusals.stranger += 1
        else:
            self.refusals.old += 1
        self.presence.meet(source)

    def _on_hello(self, source: Address, hello: Hello, data: Data) -> None:
        if len(data) > LARGEST_HELLO:
            self.refusals.oversized += 1
        elif hello.boot != data[HEADER_BYTES:FRAME_BYTES]:
            self.refusals.hello += 1
        elif self.place_at is not None and self.place_at(source) != hello.base:
            self.refusals.redirected += 1  # sealed by somebody who is at another place
        else:
            self.presence.on_hello(source, hello)

    def _omits(self, source: str, packet: Packet) -> bool:
        """Whether a fault has this packet dropped."""
        for omission in self.omissions:
            if omission.hits(source, packet):
                if omission.is_over:
                    self.omissions.remove(omission)
                if self.spool is not None:
                    self.spool.row("fault", self.clock(), detail=omission.describe(source, packet))
                return True
        return False

    def turn(self, method: Callable[..., None], *arguments: Any) -> None:
        """Calls the engine and applies what it asked for; the end of the turn is the caller's."""
        if self._inside:
            raise ProtocolError(f"{self.me} is called while it is being called; entry points are not re-entrant")
        if not self.alive:
            return
        self.now = monotonic_ns()
        self._inside = True
        try:
            method(*arguments)
        except Exception as error:
            self.failed(error)
        self._inside = False
        if self._out:
            self._apply()

    def call(self, method: Callable[..., None], *arguments: Any) -> None:
        """A turn with its end."""
        self.turn(method, *arguments)
        self.turn_over()

    def turn_over(self) -> None:
        """The end of a turn: callbacks that wait, timers that are due already, the spool, then the packets."""
        while (self._own or self._calls or self._due) and self.alive:
            if self._own:
                self.turn(self.engine.receive, self.me, self._own.popleft())
            elif self._calls:
                method, arguments = self._calls.popleft()
                self.turn(method, *arguments)
            else:
                self._expire_due()
        self._ending = False
        leaving = self._leaving
        spool = self.spool
        if spool is not None:
            try:
                if leaving:
                    spool.packets(len(leaving))
                spool.flush()
            except TraceError as error:
                leaving.clear()
                self._trace_is_lost(error)
                return
        if leaving:
            self._leaving = []
            senders, encode = (self._transport.send, *self._further), self._codec.encode_frame
            try:
                for addresses, packet, lan in leaving:
                    senders[lan](addresses, encode(packet))
            except PlainchantError as error:
                self._stop(Reason("transport", str(error)), {"by": "protocol", "reason": "transport", "text": str(error)})
        if self.memory is not None:
            self.memory.run()

    def later(self, method: Callable[..., None], *arguments: Any) -> None:
        """A call of the engine, as soon as it can be."""
        self._calls.append((method, arguments))
        self._ask_for_round()

    def _apply(self) -> None:
        """Applies the outbox, in order, up to what stops the process."""
        out, self._out = self._out, []
        for entry in out:
            entry[0](self, *entry[1:])
            if not self.alive:
                return

    def failed(self, error: Exception) -> None:
        """The engine raised, or a step of its procedures: what it asked for is dropped and the process halts."""
        self._out.clear()
        text = f"{type(error).__name__}: {error}"
        self._stop(Reason("exception", text), {"by": "protocol", "reason": "exception", "text": text})

    def _trace_is_lost(self, error: PlainchantError) -> None:
        """A process whose trace cannot be written does not go on: nobody could tell any more what it did."""
        self.spool = None
        self._stop(Reason("trace", str(error)), {})

    def _stop(self, reason: Reason, detail: dict[str, Any]) -> None:
        if not self.alive:
            return
        if self.spool is not None:
            self.spool.row("crash", self.clock(), detail=detail)
        self._over(reason)
        if self.observer is not None:
            self.observer.stopped(reason)
        for group in list(self.groups.values()):
            group.halted(reason)
        if self.memory is not None:
            self._leave_memory()
        self._stopped(reason)

    def _leave_memory(self) -> None:
        """Others see that this process is gone: by then its last word is written."""
        assert self.memory is not None
        if self.spool is not None:
            with contextlib.suppress(TraceError):  # whoever ends the turn hears of it
                self.spool.flush()
        self.memory.stop()

    def _over(self, reason: Reason) -> None:
        self.alive = False
        self.end_reason = reason
        for handle in self._timers.values():
            handle.cancel()
        self._timers.clear()
        self._due.clear()
        self._own.clear()
        self._calls.clear()

    def close(self, detail: dict[str, Any] | None = None) -> None:
        """The end of a process that goes in good order; ``detail`` is for its ``end`` row."""
        if self.alive:
            if self.spool is not None:
                self.spool.row("end", self.clock(), detail=detail)
            self._over(Reason("closed", f"{self.me} was closed"))
        self._leaving.clear()
        try:
            if self.spool is not None:
                try:
                    self.spool.flush()
                finally:
                    self.spool.close()
        finally:
            if self.memory is not None:
                self.memory.stop()

    def set_clock(self, offset: int) -> None:
        """The process's clock jumps."""
        self.clock_offset += offset
        if self.memory is not None:
            self.memory.run()

    def _expire(self, timer: Timer) -> None:
        handle = self._timers[timer]
        is_late = self._loop.time() > handle.when() + LATE
        for _ in range(CATCH_UP if is_late else 1):
            if not self._catch_up():
                break
        if self._timers.get(timer) is not handle:
            return
        del self._timers[timer]
        self.call(self.engine.expire, timer)
        if self.countdown:
            self.count_down()

    def _expire_due(self) -> None:
        """Timers that were set for now. What is set for now from here on waits for the loop: a turn has an end."""
        self._ending = True
        while self._due and self.alive:
            timer = next(iter(self._due))
            del self._due[timer]
            self.turn(self.engine.expire, timer)
            if self.countdown:
                self.count_down()

    def count_down(self) -> None:
        """An event has been handled."""
        self.countdown -= 1
        if not self.countdown:
            self.turn_over()
            self.doom()

    # --- what groups ask for (Port) -----------------------------------------------------------------------------------

    def accept(self, group: str, payloads: Sequence[bytes]) -> None:
        queue = self._queues[group]
        queue.items += payloads
        if self.spool is not None and self._accept_rows:
            self.spool.accept(self.clock(), group, payloads)
        self._tell_ready(group)

    def _tell_ready(self, group: str) -> None:
        """Tells the engine that there is something to send: at once, or when the loop comes round."""
        if self._round_asked or self._inside:
            self._offered[group] = None
        else:
            self._ask_for_round()
            self.call(self.engine.ready, group)

    def admit(self, group: str, wanted: Stream, payload: bytes | None, arrived: int) -> None:
        waiting = self._streams.setdefault(group, {})[wanted.name] = Waiting(wanted)
        if payload is not None:
            self._add_to(waiting, group, payload, arrived)
        self.later(self._ask_to_admit, group, waiting)

    def _ask_to_admit(self, group: str, waiting: Waiting) -> None:
        if self._streams.get(group, {}).get(waiting.stream.name) is waiting:
            self.engine.notice(Admit(group, waiting.stream))

    def offer(self, group: str, stream: str, payload: bytes, arrived: int) -> None:
        self._add_to(self._streams[group][stream], group, payload, arrived)
        self._tell_ready(group)

    def _add_to(self, waiting: Waiting, group: str, payload: bytes, arrived: int) -> None:
        waiting.add(payload, arrived)
        if self.spool is not None and self._accept_rows:
            self.spool.accept(self.clock(), group, (payload,))

    def release(self, group: str, stream: str) -> None:
        if self._streams.get(group, {}).pop(stream, None) is not None:
            self.later(self.engine.notice, Release(group, stream))

    def admission(self, group: str) -> Mapping[str, Any] | None:
        self.now = monotonic_ns()
        return self.engine.admission(group) if self.alive else None

    def leave(self, group: str) -> None:
        self._go(group, self.engine.leave)

    def close_group(self, group: str) -> None:
        self._go(group, self.engine.close)

    def _go(self, group: str, way: Callable[[str], None]) -> None:
        if group in self.groups and group not in self._leaving_groups:
            self._leaving_groups[group] = None
            if self.observer is not None:
                self.observer.leaving(group)
            self.later(self._ask, way, self.groups[group])

    def rename(self, group: str, name: str) -> None:
        check_name(name)
        self.later(self._ask, self.engine.rename, self.groups[group], name)

    def _ask(self, method: Callable[..., None], group: Group, *arguments: str) -> None:
        """Asks the engine for something about a group, which may have got another name or come to its end meanwhile."""
        if self.groups.get(group.name) is group:
            method(group.name, *arguments)

    def propose(self, group: str, members: Sequence[str]) -> None:
        """Asks the engine to form a group with these; the owner hears whether it is."""
        self.later(self.engine.join, group, Propose(tuple(members)))

    def pressure(self, group: str, full: bool) -> None:
        if group in self.groups:
            self.later(self._press, self.groups[group], full)

    def _press(self, group: Group, full: bool) -> None:
        self.engine.notice(Pressure(group.name, full))

    def waiting(self, group: str) -> Reason | None:
        self.now = monotonic_ns()
        reason = self.engine.waiting()
        queue = self._queues.get(group)
        if reason is None and queue:
            text = f"{len(queue)} messages wait in group {group} and the protocol does not take them"
            return Reason("queue", text, {"messages": len(queue)})
        if reason is None:
            for name, waiting in self._streams.get(group, {}).items():
                if not waiting.is_admitted:
                    return Reason("admission", f"the protocol has not said whether it admits stream {name} in group {group}")
                if waiting.messages:
                    number = len(waiting.messages)
                    text = f"{number} messages of stream {name} wait in group {group} and the protocol does not take them"
                    return Reason("queue", text, {"messages": number, "stream": name})
        return reason

    @property
    def transport(self) -> Transport:
        """What carries packets, for those who look on."""
        return self._transport

    def counters(self) -> Mapping[str, int]:
        transport, refused = self._transport.counters, self.refusals
        return {
            "packets_sent": transport.sent,
            "packets_received": self.packets_received,
            "packets_damaged": refused.broken,
            "packets_foreign": refused.foreign,
            "packets_queued": transport.queued,
            "packets_dropped": transport.dropped + self.packets_unroutable,
            "bytes_sent": transport.sent_bytes,
            "bytes_received": transport.received_bytes,
        }

    def is_traced(self) -> bool:
        return self.spool is not None

    def write_note(self, group: str, sender: str | None, seq: int | None, detail: dict[str, Any]) -> None:
        """A row of the application's; it is on disk before any packet leaves that the program sends from now on."""
        if self.spool is not None and self.alive:
            self.spool.row("note", self.clock(), group=group, view=self._views.get(group), sender=sender, seq=seq, detail=detail)
            self._ask_for_round()

    def enter(self, group: Group, how: Form | Join) -> None:
        """Asks the engine to join a group."""
        self.groups[group.name] = group
        self._queues[group.name] = Queue()
        self._sequence.setdefault(group.name, 0)
        self.call(self.engine.join, group.name, how)

    def note(self, kind: str, detail: dict[str, Any] | None = None, group: str | None = None) -> None:
        """Writes a row of the host's own: start, fault, operation."""
        if self.spool is not None and self.alive:
            self.spool.row(kind, self.clock(), group=group, detail=detail)
            self.turn_over()

    def _ask_for_round(self) -> None:
        if not self._round_asked:
            self._round_asked = True
            self._loop.call_soon(self._round)

    def _round(self) -> None:
        """The loop has come round: the engine hears of what was sent meanwhile."""
        self._round_asked = False
        offered, self._offered = self._offered, {}
        for group in offered:
            self.turn(self.engine.ready, group)
        self.turn_over()

    # --- routes -------------------------------------------------------------------------------------------------------

    def forget_routes(self) -> None:
        """The address book has changed."""
        self._routes.clear()

    def _route(self, to: tuple[str, ...]) -> tuple[Address, ...]:
        known = self.presence.routes
        addresses = tuple(known[name] for name in to if name in known)
        if self._loopback and self.me in to:
            addresses = (*addresses, self._transport.address)
        unknown = [name for name in to if name not in known and name != self.me]
        if unknown:
            self.packets_unroutable += len(unknown)
            self.presence.seek()
        else:
            if len(self._routes) >= MOST_ROUTES:
                self._routes.clear()
            self._routes[to] = addresses
        return addresses


def _is_hello(data: Data) -> bool:
    """Whether bytes look like a hello, before they are decoded: an array, whose first element is the tag."""
    return len(data) > FRAME_BYTES + 1 and data[FRAME_BYTES + 1] == HELLO_TAG


# --- the entries of an outbox: what becomes of what an engine asked for ----------------------------------------------------


def _send(host: LiveHost, to: tuple[str, ...], packet: Packet, lan: int) -> None:
    if host.me in to and not host._loopback:
        host._own.append(packet)
    addresses = host._routes.get(to)
    if addresses is None:
        addresses = host._route(to)
    if addresses:
        host.packets_sent += 1
        host._leaving.append((addresses, packet, lan))


def _took(host: LiveHost, group: str, first: int, payloads: list[bytes]) -> None:
    if host.spool is not None:
        host.spool.send(host.clock(), group, host._views.get(group), first, payloads)
    host.groups[group].took(len(payloads), sum(map(len, payloads)))


def _took_from(host: LiveHost, group: str, stream: str, first: int, taken: list[Due]) -> None:
    if host.spool is not None:
        # What is left of the time, because the clock may have been set since the message arrived.
        now, ahead = host.clock(), monotonic_ns()
        for seq, due in enumerate(taken, first):
            host.spool.send(now, group, host._views.get(group), seq, (due.payload,), now + due.deadline - ahead)
    host.groups[group].took(len(taken), sum(len(due.payload) for due in taken), stream)


def _tell_admitted(host: LiveHost, group: str, stream: str) -> None:
    host.groups[group].admitted(stream)
    host._offered[group] = None
    host._ask_for_round()


def _tell_rejected(host: LiveHost, group: str, stream: str, reason: Reason) -> None:
    host.groups[group].rejected(stream, reason)


def _deliver(host: LiveHost, group: str, sender: str, first: int, payloads: list[bytes], rank: int | None, size: int) -> None:
    if host.spool is not None:
        host.spool.deliver(host.clock(), group, host._views.get(group), sender, first, payloads, rank)
    host.groups[group].deliver(sender, first, payloads, rank, size)


def _install(host: LiveHost, view: View) -> None:
    group = view.group
    if group not in host.groups:
        assert host._owner is not None, "a host without an owner is in no groups that are proposed"
        host.groups[group] = host._owner.formed(view)
        host._queues[group] = Queue()
        host._sequence.setdefault(group, 0)
    is_first = group not in host._views
    if host.has_views:
        host._views[group] = view.number
    elif host.me in view.members or host.only_sends:
        host._views[group] = None
    else:
        return
    if host.spool is not None:
        now = host.clock()
        if is_first and not host.only_sends:
            host.spool.row("join", now, group=group, rank=view.rank)
        if host.has_views:
            host.spool.row("view", now, group=group, view=view.number, members=view.members, detail=view.to_detail() or None)
    host.groups[group].add(view)
    if host.observer is not None:
        host.observer.installed(host.groups[group], view)
    if is_first and host._queues[group]:
        host._offered[group] = None
        host._ask_for_round()


def _left(host: LiveHost, group: str, rank: int | None) -> None:
    if host.spool is not None:
        host.spool.row("leave", host.clock(), group=group, view=host._views.get(group), rank=rank)
    host._views.pop(group, None)
    host._queues.pop(group, None)
    host._streams.pop(group, None)
    host._leaving_groups.pop(group, None)
    host.groups.pop(group).left()
    if host.observer is not None:
        host.observer.left(group)


def _invited(host: LiveHost, invitation: Invitation) -> None:
    why_not = host._owner.invited(invitation) if host._owner is not None else f"{host.me} is in no groups that are proposed"
    host.later(host.engine.notice, Consent(invitation, not why_not, why_not))


def _refused(host: LiveHost, group: str, reason: Reason) -> None:
    if host.spool is not None:
        host.spool.row("refused", host.clock(), group=group, detail=reason.to_detail())
    if host._owner is not None:
        host._owner.refused(group, reason)
    outside = host.groups.pop(group, None)
    if outside is not None:
        host._queues.pop(group, None)
        host._streams.pop(group, None)
        host._leaving_groups.pop(group, None)
        outside.halted(reason)
        if host.observer is not None:
            host.observer.left(group)


def _renamed(host: LiveHost, group: str, view: View, returned: Sequence[bytes], numbered: int) -> None:
    name = view.group
    if host.spool is not None:
        host.spool.row("leave", host.clock(), group=group, view=host._views.get(group), rank=view.rank)
    host._views.pop(group, None)
    for names in (host._leaving_groups, host._offered):
        if group in names:
            del names[group]
            names[name] = None
    member = host.groups[name] = host.groups.pop(group)
    member.renamed(name, returned, numbered)
    if host._owner is not None:
        host._owner.renamed(group, name)
    if host.observer is not None:
        host.observer.renamed(group, name)
    _install(host, view)


def _stable(host: LiveHost, group: str, rank: int) -> None:
    host.groups[group].stable(rank)


def _record(host: LiveHost, kind: str, group: str | None, detail: dict[str, Any]) -> None:
    spool = host.spool
    if spool is None:
        return
    fields = {name: detail.pop(name) for name in ("sender", "seq", "rank", "deadline") if name in detail}
    told = {name: value.to_detail() if isinstance(value, Reason) else value for name, value in detail.items()}
    view = host._views.get(group) if group is not None else None
    spool.row(kind, host.clock(), group=group, view=view, detail=told or None, **fields)


def _spawn(host: LiveHost, memory: Stepper, name: str, procedure: Procedure) -> None:
    memory.start(name, procedure)


def _call(host: LiveHost, function: Callable[..., None], arguments: tuple[Any, ...]) -> None:
    function(*arguments)


def _halt(host: LiveHost, reason: Reason) -> None:
    host._stop(reason, {"by": "protocol", **reason.to_detail()})
