"""The live driver of a process: its engine on an asyncio event loop, over a transport.

The process itself is :class:`~plainchant.core.process.Process`; this module performs its effects.

**Turn.** A packet, a timer, or a request of the application makes the host call one method of its engine. Then the effects are
performed in order: rows go to the spool, deliveries and views to their groups, packets to a list of those that are to leave.

**End of a turn.** Many methods share one end (:meth:`LiveHost.turn_over`): all packets that the transport had ready, or one
timer, or everything that the application sent since the loop came round. Timers that were set for now expire there, once for all
packets of the turn. Then the spool is written, once, and only then do packets leave: a process that is killed has left behind
everything that others can have seen of it.

**Natural batching.** The first message that an application sends goes to the engine at once; further ones are queued until the
loop comes round. So a message alone does not wait, many go together into one packet, and there is no timer.

**Shared memory.** Procedures that engines spawn run after turns, in turns of their own (:mod:`.memory.stepper`). **Loopback.**
What an engine sends to its own process comes back in the same turn, unless the protocol wants it from the network
(``Description.loopback``): then it goes through the socket like all other packets, and can be lost there.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import TYPE_CHECKING, Any, Final, Protocol

from ..core.engine import Engine
from ..core.memory import Procedure
from ..core.model import (
    Admit,
    Batch,
    Consent,
    Due,
    Form,
    Invitation,
    Join,
    Packet,
    PlainchantError,
    Reason,
    Stream,
    Timer,
    TraceError,
    UsageError,
    View,
)
from ..core.process import Process
from ..core.queues import Waiting
from ..core.wire import FRAME_BYTES, Stamped
from ..group import Membership
from .gate import Gate
from .presence import LONGEST_NAME, Presence
from .refusals import Refusals
from .routes import Routes
from .timers import LoopTimers
from .transport import Address, Data, Transport, senders_of

if TYPE_CHECKING:
    from ..scenario.faults import Omission
    from ..trace.spool import Spool
    from .memory.stepper import Stepper
    from .observe.observer import Observer

MARGIN: Final = 160  # bytes of a packet not for messages: its fields, and two names of ``LONGEST_NAME`` with incarnations
AT_ONCE: Final = 50_000  # nanoseconds within which two readings of clocks count as simultaneous; else they are repeated
READINGS: Final = 3  # readings of the clocks at most

monotonic_ns = time.monotonic_ns


def check_name(name: str) -> None:
    """Names stand in every packet, where there is little room for them."""
    length = len(name.encode(errors="surrogatepass"))
    if not 0 < length <= LONGEST_NAME:
        what = "a longer" if not length else "a shorter"
        raise UsageError(f"the name {name!r} has {length} bytes, of {LONGEST_NAME} at the most; choose {what} one")


class Owner(Protocol):
    """The node, which a host tells of groups that the node did not enter itself. It does not call back from inside these."""

    def formed(self, view: View) -> Membership:
        """This process is in a group that it proposed, or that was proposed to it: makes what the application sees of it."""

    def invited(self, invitation: Invitation) -> str:
        """Why the application does not agree to be in a group; empty: it agrees."""

    def refused(self, group: str, reason: Reason) -> None:
        """This process is not in a group that it proposed, agreed to or asked to join."""

    def renamed(self, group: str, name: str) -> None:
        """The group has another name from here on."""


class LiveHost(Process):
    """One process. It exists before it has a name; :meth:`begin` gives it its name, its engine and its spool."""

    memory: Stepper | None  # runs procedures, where the protocol has shared memory and this process is on that machine

    notes_leave_of_senders = True

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
        super().__init__("", random, transport.limits.packet - FRAME_BYTES - MARGIN, monotonic_ns())
        self.end_reason: Reason | None = None
        self.clock_offset = 0
        self.groups: dict[str, Membership] = {}  # the memberships of this process
        self.spool: Spool | None = None
        self.observer: Observer | None = None  # told of what happens rarely, for metrics and spans
        self.transport = transport
        self._further = senders_of(transport)[1:]  # what sends on each network but the first
        self.lans = 1 + len(self._further)
        self._codec, self._stopped, self._owner, self._accept_rows = codec, stopped, owner, accept_rows
        self._loopback = loopback  # whether packets to oneself go over the network
        self.refusals = refusals if refusals is not None else Refusals()  # packets that came and changed nothing, by reason
        self.gate = Gate(codec, self.refusals, loopback=loopback)
        self.routes = Routes(transport.address if loopback else None)
        self._timers = LoopTimers(self._expire, getattr(transport, "catch_up", lambda: False))
        self._loop = asyncio.get_running_loop()
        self._leaving: list[tuple[tuple[Address, ...], Packet, int]] = []
        self._own: deque[Packet] = deque()
        self._offered: dict[str, None] = {}
        self._round_asked = False
        # counters
        self.packets_sent = self.packets_received = 0
        # faults of tests
        self.omissions: list[Omission] = []  # packets that are dropped when they come
        self.countdown = 0  # the number of events after which ``doom`` is called
        self.doom: Callable[[], None] = lambda: None

    @property
    def presence(self) -> Presence:
        """The address book."""
        return self.gate.presence

    @presence.setter
    def presence(self, presence: Presence) -> None:
        self.gate.presence = self.routes.presence = presence

    def clock(self) -> int:
        """The process's clock. While the engine is called it stands still, as ``now`` does: both are of the same instant."""
        if not self.inside:
            return time.time_ns() + self.clock_offset
        for _ in range(READINGS):
            before = monotonic_ns()
            shown = time.time_ns()
            after = monotonic_ns()
            if after - before < AT_ONCE:
                break
        return shown - (after - self.now) + self.clock_offset

    def read_clock(self) -> None:
        self.now = monotonic_ns()

    def record(self, kind: str, group: str | None = None, **detail: Any) -> None:
        super().record(kind, group, **detail)
        if self.observer is not None:
            self.observer.recorded(kind, group, detail)

    # --- turns --------------------------------------------------------------------------------------------------------
    def begin(self, me: str, engine: Callable[[LiveHost], Engine], spool: Spool | None) -> None:
        """Gives the process its name, and starts its engine."""
        self.me = me
        self.spool = spool
        self.engine = engine(self)
        self.call(self.engine.start)

    def packet(self, source: Address, data: Data) -> None:
        """Bytes of the transport's. What is not for this process, or not whole, is counted and forgotten."""
        read = self.gate.read(source, data, self.me)
        if read is None or not self.alive or not self.me:
            return
        sender, packet = read
        self.packets_received += 1
        if self.omissions and self._omits(sender, packet):
            return
        self.turn(self.engine.receive, sender, packet)
        if self.countdown:
            self.count_down()

    def _omits(self, source: str, packet: Packet) -> bool:
        for omission in self.omissions:
            if omission.hits(source, packet):
                if omission.is_over:
                    self.omissions.remove(omission)
                if self.spool is not None:
                    self.spool.row("fault", self.clock(), detail=omission.describe(source, packet))
                return True
        return False

    def call(self, method: Callable[..., object], *arguments: Any) -> None:
        """A turn with its end."""
        self.turn(method, *arguments)
        self.turn_over()

    def turn_over(self) -> None:
        """The end of a turn: calls that wait, timers that are due already, the spool, then the packets."""
        due = self._timers.due
        while (self._own or self.calls or due) and self.alive:
            if self._own:
                self.turn(self.engine.receive, self.me, self._own.popleft())
            elif self.calls:
                method, arguments = self.calls.popleft()
                self.turn(method, *arguments)
            else:
                self._expire_due()
        self._timers.ending = False
        leaving = self._leaving
        spool = self.spool
        if spool is not None:
            try:
                if leaving:
                    spool.packets(len(leaving))
                spool.flush()
            except TraceError as error:
                # A process whose trace cannot be written does not go on: there would be no record of what it did.
                leaving.clear()
                self.spool = None
                self.stop(Reason("trace", str(error)), {})
                return
        if leaving:
            self._leaving = []
            senders, encode = (self.transport.send, *self._further), self._codec.encode_frame
            try:
                for addresses, packet, lan in leaving:
                    senders[lan](addresses, encode(packet))
            except PlainchantError as error:
                self.stop(Reason("transport", str(error)), {"by": "protocol", "reason": "transport", "text": str(error)})
        if self.memory is not None:
            self.memory.run()

    def later(self, method: Callable[..., object], *arguments: Any) -> None:
        self.calls.append((method, arguments))
        self._ask_for_round()

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

    def _expire(self, timer: Timer) -> None:
        self.call(self.engine.expire, timer)
        if self.countdown:
            self.count_down()

    def _expire_due(self) -> None:
        """Timers that were set for now. What is set for now from here on waits for the loop: a turn has an end."""
        self._timers.ending = True
        while self._timers.due and self.alive:
            self.turn(self.engine.expire, self._timers.next_due())
            if self.countdown:
                self.count_down()

    def count_down(self) -> None:
        """An event has been handled."""
        self.countdown -= 1
        if not self.countdown:
            self.turn_over()
            self.doom()

    # --- effects ------------------------------------------------------------------------------------------------------
    def do_send(self, to: tuple[str, ...], packet: Packet, lan: int) -> None:
        if self.me in to and not self._loopback:
            self._own.append(packet)
        addresses = self.routes.ready.get(to)
        if addresses is None:
            addresses = self.routes.find(to, self.me)
        if addresses:
            self.packets_sent += 1
            self._leaving.append((addresses, packet, lan))

    def do_timer(self, timer: Timer, at: int | None) -> None:
        self._timers.set(timer, at, self.now)

    def do_took(self, group: str, view: int | None, stream: str, batch: Batch, messages: Sequence[Any] | None) -> None:
        if messages is None:
            messages = (batch.body,)
        elif stream:
            self._took_from(group, view, stream, batch, messages)
            return
        if self.spool is not None:
            self.spool.send(self.clock(), group, view, batch.first, messages)
        self.groups[group].took(len(messages), sum(map(len, messages)))

    def _took_from(self, group: str, view: int | None, stream: str, batch: Batch, messages: Sequence[Due]) -> None:
        if self.spool is not None:
            # What is left of the time, because the clock may have been set since the message arrived.
            now, ahead = self.clock(), monotonic_ns()
            for seq, due in enumerate(messages, batch.first):
                self.spool.send(now, group, view, seq, (due.payload,), now + due.deadline - ahead)
        self.groups[group].took(len(messages), sum(len(due.payload) for due in messages), stream)

    def do_deliver(
        self, group: str, view: int | None, sender: str, batch: Batch, payloads: list[bytes] | None, rank: int | None
    ) -> None:
        messages = payloads if payloads is not None else [batch.body]
        if self.spool is not None:
            self.spool.deliver(self.clock(), group, view, sender, batch.first, messages, rank)
        self.groups[group].deliver(sender, batch.first, messages, rank, len(batch.body))

    def do_row(
        self,
        kind: str,
        group: str | None,
        view: int | None,
        sender: str | None,
        seq: int | None,
        rank: int | None,
        extra: dict[str, Any] | None,
    ) -> None:
        if self.spool is not None:
            self.spool.row(kind, self.clock(), group, view, sender, seq, rank, **(extra or {}))

    do_record = do_row

    def do_drop(self, group: str, view: int | None, count: int, text: str) -> None:
        """The group itself tells its senders what was not sent."""

    def do_view(self, view: View, is_new: bool, is_first: bool) -> None:
        group = view.group
        if is_new:
            assert self._owner is not None, "a host without an owner is in no groups that are proposed"
            self.groups[group] = self._owner.formed(view)
        if not self.has_views and not self.sends_only(group) and self.me not in view.members:
            return
        self.groups[group].add(view)
        if self.observer is not None:
            self.observer.installed(self.groups[group], view)
        if is_first and self.queues.get(group):
            self._offered[group] = None
            self._ask_for_round()

    def do_left(self, group: str, is_last: bool) -> None:
        self.groups.pop(group).left()
        if self.observer is not None:
            self.observer.left(group)

    def do_refused(self, group: str, reason: Reason, is_last: bool) -> None:
        if self._owner is not None:
            self._owner.refused(group, reason)
        outside = self.groups.pop(group, None)
        if outside is not None:
            outside.halted(reason)
            if self.observer is not None:
                self.observer.left(group)

    def do_renamed(self, group: str, view: View, returned: Sequence[bytes], numbered: int, shift: int) -> None:
        name = view.group
        if group in self._offered:
            del self._offered[group]
            self._offered[name] = None
        member = self.groups[name] = self.groups.pop(group)
        member.renamed(name, returned, numbered)
        if self._owner is not None:
            self._owner.renamed(group, name)
        if self.observer is not None:
            self.observer.renamed(group, name)

    def do_invited(self, invitation: Invitation) -> None:
        why_not = self._owner.invited(invitation) if self._owner is not None else f"{self.me} is in no groups that are proposed"
        self.later(self.engine.notice, Consent(invitation, not why_not, why_not))

    def do_stable(self, group: str, rank: int) -> None:
        self.groups[group].stable(rank)

    def do_admitted(self, group: str, stream: str) -> None:
        self.groups[group].admitted(stream)
        self._offered[group] = None
        self._ask_for_round()

    def do_rejected(self, group: str, stream: str, reason: Reason) -> None:
        self.groups[group].rejected(stream, reason)

    def do_spawn(self, name: str, procedure: Procedure) -> None:
        assert self.memory is not None
        self.memory.start(name, procedure)

    def do_report(self, process: str, reason: Reason) -> None:
        """The presences of others are checked when this turn is over."""
        assert self.memory is not None
        self._loop.call_soon(self.memory.look)

    def do_later(self, method: Callable[..., object], arguments: tuple[Any, ...]) -> None:
        self.later(method, *arguments)

    # --- the end ------------------------------------------------------------------------------------------------------
    def stop(self, reason: Reason, detail: dict[str, Any]) -> None:
        if not self.alive:
            return
        if self.spool is not None:
            self.spool.row("crash", self.clock(), detail=detail)
        self._end(reason)
        if self.observer is not None:
            self.observer.stopped(reason)
        for group in list(self.groups.values()):
            group.halted(reason)
        if self.memory is not None:
            # Others see that this process is gone: by then its last rows are written.
            with contextlib.suppress(TraceError):  # the end of the turn meets it again
                if self.spool is not None:
                    self.spool.flush()
            self.memory.stop()
        self._stopped(reason)

    def _end(self, reason: Reason) -> None:
        self.alive = False
        self.end_reason = reason
        self._timers.clear()
        self._own.clear()
        self.calls.clear()

    def close(self, detail: dict[str, Any] | None = None) -> None:
        """The end of a process that goes in good order; ``detail`` is for its ``end`` row."""
        if self.alive:
            if self.spool is not None:
                self.spool.row("end", self.clock(), detail=detail)
            self._end(Reason("closed", f"{self.me} was closed"))
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

    # --- what groups ask for (Port) -----------------------------------------------------------------------------------
    def enter(self, group: Membership, how: Form | Join) -> None:
        """Asks the engine to join a group."""
        self.groups[group.name] = group
        self._enter(group.name)
        self.call(self._join, group.name, how)

    def accept(self, group: str, payloads: Sequence[bytes]) -> None:
        self.queue_of(group).items += payloads
        if payloads and self.spool is not None and self._accept_rows:
            self.spool.accept(self.clock(), group, payloads)
        # The engine hears of it at once, or when the loop comes round.
        if self._round_asked or self.inside:
            self._offered[group] = None
        else:
            self._ask_for_round()
            self.turn(self.engine.ready, group)
            self.turn_over()

    def admit(self, group: str, wanted: Stream, payload: bytes | None, arrived: int) -> None:
        waiting = self.streams.open(group, wanted)
        if payload is not None:
            self._add_to(waiting, group, payload, arrived)
        self.later(self._ask_to_admit, group, waiting)

    def _ask_to_admit(self, group: str, waiting: Waiting) -> None:
        if self.streams.find(group, waiting.stream.name) is waiting:
            self.engine.notice(Admit(group, waiting.stream))

    def offer(self, group: str, stream: str, payload: bytes, arrived: int) -> None:
        waiting = self.streams.find(group, stream)
        assert waiting is not None
        self._add_to(waiting, group, payload, arrived)
        self.accept(group, ())

    def _add_to(self, waiting: Waiting, group: str, payload: bytes, arrived: int) -> None:
        waiting.add(payload, arrived)
        if self.spool is not None and self._accept_rows:
            self.spool.accept(self.clock(), group, (payload,))

    def _depart(self, group: str, method: Callable[[str], None]) -> None:
        if self.observer is not None and group not in self.leaving:
            self.observer.leaving(group)
        super()._depart(group, method)

    def rename(self, group: str, name: str) -> None:
        check_name(name)
        super().rename(group, name)

    def write_note(self, group: str, sender: str | None, seq: int | None, detail: dict[str, Any]) -> None:
        """A row of the application's; it is on disk before any packet leaves that the program sends from now on."""
        if self.spool is not None and self.alive:
            self.spool.row("note", self.clock(), group=group, view=self.views.get(group), sender=sender, seq=seq, detail=detail)
            self._ask_for_round()

    def is_traced(self) -> bool:
        return self.spool is not None

    def counters(self) -> Mapping[str, int]:
        transport, refused = self.transport.counters, self.refusals
        packets = {"sent": transport.sent, "received": self.packets_received, "damaged": refused.broken}
        packets |= {"foreign": refused.foreign, "queued": transport.queued}
        packets |= {"dropped": transport.dropped + self.routes.unroutable}
        size = {"bytes_sent": transport.sent_bytes, "bytes_received": transport.received_bytes}
        return {f"packets_{name}": count for name, count in packets.items()} | size

    # --- what nodes and faults ask for --------------------------------------------------------------------------------
    def note(self, kind: str, detail: dict[str, Any] | None = None, group: str | None = None) -> None:
        """Writes a row of the host's own: start, fault, operation."""
        if self.spool is not None and self.alive:
            self.spool.row(kind, self.clock(), group=group, detail=detail)
            self.turn_over()

    def set_clock(self, offset: int) -> None:
        """The process's clock jumps."""
        self.clock_offset += offset
        if self.memory is not None:
            self.memory.run()
