"""The ring: turns, the token, crashes (sections 4.1 to 4.3), and the engine that the other parts of RTCast belong to.

**Two kinds of knowledge.** What is *heard* (who spoke last, the newest ring, heartbeats) serves the token: it is used as it
comes, so that the ring turns even if a member misses something. What is *in order* (:class:`~.order.Order`) serves the
application: a change becomes a view at its place in the order. Both come in by :meth:`Ring.hears` and :meth:`Ring.ordered`, which
the layer below (:class:`~.gaps.Gaps`) calls.

**A turn.** The token has come, or we have gone on without it. If the join slot is before us, it passes first. A member without
messages waits ``idle_hold`` for some. Then everything is sent at once, in this order: a membership change, join acknowledgements,
packets that are asked for, messages as far as T goes; a dummy if there was nothing; the last one is marked; then the heartbeat,
several times, since no member can ask for it.

**Timeouts do not cascade.** A member that hears a turn knows how far away it is on the ring, and waits for as many turns as lie
between (:meth:`~.interface.Interface.patience`). So the successor of a dead member is always the first to act. It asks around
first (``Where``): the token may only be lost, or others may have heard something from the dead member. If none has heard more, it
eliminates its silent immediate predecessors, back to the first that was heard (Fig. 5).

**Who stops.** A member that misses something for good (``omission``), is eliminated, does not hear itself (a send omission),
hears no member and gets no answer (``deaf``), knows more of a dead member than the others ever will, or, by the majority rule, is
in the smaller part. It may come back as a new incarnation.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final
from zlib import crc32

import msgspec

from ...core.engine import Engine, Host
from ...core.model import MS, Form, GroupId, Join, Packet, Pressure, ProcessId, Propose, ProtocolError, Reason, Timer, View
from . import packets
from .advisor import Advisor
from .entrance import Entrance
from .inquiry import PROBE, TOKEN, Inquiry
from .interface import Interface
from .order import Order, Place
from .outlet import Outlet
from .packets import Ask, Asked, Beat, Change, Data, Decided, JoinAck, Numbers, Query, Reclaim, Word
from .parameters import Parameters
from .sizes import ASKS, size_of
from .sponsor import Sponsor
from .turn import Turn

if TYPE_CHECKING:
    from .gaps import Gaps

WOKEN: Final = "woken"
SLOT: Final = "slot"
IDLE: Final = "idle"
OWN: Final = "own"
READING: Final = "reading"
ASK_NUMBERS: Final = 24  # Bytes of a request for lost packets besides its two names


class Ring(Engine):
    """One process in one group."""

    def __init__(
        self,
        host: Host,
        group: GroupId,
        parameters: Parameters,
        interface: Interface,
        advisor: Advisor | None = None,
        clock_error: Callable[[], int | None] | None = None,
    ) -> None:
        self.host, self.group, self.me = host, group, host.me
        self.parameters, self.interface = parameters, interface
        self.advisor = advisor or Advisor()
        self.gaps: Gaps | None = None
        self._clock_error = clock_error or (lambda: int(parameters.clock_error))
        self._clear("", (), {}, 0, False)
        self.seq = 0
        self.disordered: set[ProcessId] = set()  # Processes whose channel to us does not keep order; recorded once for each
        self.order: Order | None = None
        self.rotation = 0  # P
        self._installed: tuple[ProcessId, ...] = ()  # The members of the last view that was installed
        self._awaits_order = False  # Our turn waits for earlier packets: what it has to say needs the whole order
        self._awaits_ack = False  # Our turn waits for the change that lets a process in, which we have to acknowledge
        self._turn_at = 0
        self._begun_at = 0  # When our time began to run: after the slot, and after the turn before ours
        self._not_before = 0  # When the turn before ours is over, as far as its heartbeat shows
        self._by = ""
        self._ready = False
        self._woke_at = -(1 << 62)  # When a turn was heard that we should have asked for long before: we may have been stopped
        self.aside: Callable[[], None] | None = None  # Sends another layer's packet that is in no order, in our next turn
        self._leaving = False
        self.due: dict[str, int] = {}  # When timers are due
        self._excused: set[str] = set()  # Timers that came late and have been set again
        self.farewell: Data | None = None  # The packet by which we leave
        self.entrance, self.sponsor, self.inquiry = Entrance(self), Sponsor(self), Inquiry(self)
        self._handlers: dict[type[Packet], Callable[[ProcessId, Any], None]] = {
            Beat: self._receive_beat,
            packets.Where: self.inquiry.asked,
            packets.Here: self.inquiry.answered,
            packets.Vote: self.sponsor.voted,
            packets.Request: self.sponsor.requested,
            packets.Knock: self.entrance.knocked,
            packets.JoinAck: self.entrance.acknowledged,
            packets.Partial: self.entrance.told,
            packets.Refuse: lambda _, packet: self.entrance.refused(packet),
        }

    def _clear(
        self, name: ProcessId, ring: tuple[ProcessId, ...], holds: dict[ProcessId, int], number: int, formed: bool
    ) -> None:
        """What belongs to one ring, as it is at its beginning."""
        # what is heard
        self.name = name  # The ring's founder; empty: we are in none
        self.ring = self._before = ring
        self.base = ring  # The last ring of which a whole rotation was heard: what a majority is counted by
        self.holds, self.number, self.formed = holds, number, formed
        self.heard_visit, self.heard_holder, self.heard_at = 0, self.me, self.host.now
        self.beats: dict[ProcessId, Beat] = {}
        self.ends: dict[int, int] = {}  # The last number of turns whose heartbeat was heard, by visit
        self._past: deque[tuple[int, int]] = deque()  # Rank and turn that the order had reached at our recent turns
        self.out: dict[ProcessId, int] = {}  # Eliminated members that are in the order still, and their last numbers
        self._highest: dict[ProcessId, int] = {}
        self._spoke: dict[ProcessId, tuple[int, ProcessId]] = {}  # The newest change each member has shown to know, and its maker
        self.change: Change | None = None
        # what is in order
        self.outlet = self._new_outlet()
        self._got = dict.fromkeys(ring, 0)
        self._acks: list[JoinAck] = []
        self._snapshot: JoinAck | None = None
        self._acknowledged = number  # The last change that we have acknowledged, or have made
        self._stable = 0
        # our turn
        self.said: int | None = None  # The number of our last packet with messages in it, until it is in the order
        self.visit = 0  # That of our last turn, or of the one that we are in
        self._phase = ""  # Where we are in our turn: in the slot, waiting for messages; empty: it is not ours
        self._spoke_at: int | None = None
        self._deferred: Beat | None = None  # A token with which our turn begins when all else that has come is heard
        self._own_heard = 0
        self._own_visit = 0  # Our oldest turn whose heartbeat we have not heard; 0: none

    # --- the application's side ---------------------------------------------------------------------------------------
    def join(self, group: GroupId, how: Form | Join | Propose) -> None:
        if isinstance(how, Propose):
            raise ProtocolError("rtcast cannot propose groups; form them or join them")
        self.entrance.begin(how)

    def leave(self, group: GroupId) -> None:
        self._leaving = True
        if self.order is None or not self.formed:
            self.entrance.stop()
            self.host.left(group)
            self._stop_timers()
            self.name = ""
        elif self._phase == IDLE and self.host.now <= self.due[IDLE]:
            self._speak_soon()

    def ready(self, group: GroupId) -> None:
        self._ready = True
        if self._phase == IDLE and not (self._awaits_order or self._awaits_ack) and self.host.now <= self.due[IDLE]:
            self._speak_soon()

    def waiting(self) -> Reason | None:
        if not self.formed or self.order is None:
            return Reason("joining", f"{self.me} is not in {self.group} yet")
        if self._leaving:
            return Reason("leaving", f"{self.me} leaves {self.group} in its next turn")
        if len(self.outlet):
            return Reason("order", f"{len(self.outlet)} packets at {self.me} are in order and not delivered")
        if self.said is not None:
            return Reason("unheard", f"{self.me} has not had its own messages in the order yet")
        return None

    def notice(self, event: Any) -> None:
        """An application that does not read holds no other member up, as no delivery is acknowledged. But what is unread grows:
        after ``patience`` this member halts, and the others go on without it."""
        if isinstance(event, Pressure):
            if event.full:
                self.set_due(READING, self.host.now + int(self.parameters.patience))
            else:
                self.host.cancel_timer(READING)

    # --- packets ------------------------------------------------------------------------------------------------------
    def receive(self, source: ProcessId, packet: Packet) -> None:
        if isinstance(packet, Data):
            if self.hears(source, packet):
                self._take_in(packet)
        elif (handle := self._handlers.get(type(packet))) is not None:
            handle(source, packet)

    def expire(self, timer: Timer) -> None:
        if timer == TOKEN:
            self._timed_out()
        elif timer == WOKEN:
            self._take_deferred()
        elif timer == PROBE:
            self.inquiry.decide()
        elif timer in (SLOT, IDLE):
            self._go_on(timer)
        elif timer == OWN:
            self._check_own()
        elif timer == READING:
            if self.name:
                patience = int(self.parameters.patience)
                text = f"the application of {self.me} has not read what it was given for {patience // MS} ms"
                self.halt("not reading", text, patience_ns=patience)
        else:
            self.entrance.expire(timer)

    def fresh(self, source: ProcessId, at: int, kind: str) -> bool:
        """P3: what is older than the largest delay of its path is thrown away, and then it was lost. Where time is soft it counts
        all the same: a machine that stood still for a while made omissions of packets that were there, and cost well members."""
        if not at or self.parameters.clocks == "none" or source == self.me:
            return True
        error = self._clock_error()
        if error is None:
            return True
        age = self.host.clock() - at
        bound = self.interface.delay(source, self.me) + self.interface.slack + self.interface.stray + error
        if age <= bound:
            return True
        is_used = self.parameters.timing == "soft"
        if not is_used:
            self.host.record("drop", self.group, why="late", packet=kind, source=source, age=age, bound=bound)
        self.host.record("state", self.group, broken="P3", measured=age, bound=bound, source=source)
        return is_used

    @property
    def hold(self) -> int:
        """T."""
        return self.holds.get(self.me, self.interface.hold(self.me))

    def stamp(self, spent: int) -> int:
        """When a packet leaves that is sent now, after so much time of other packets: for ``at``."""
        if self.parameters.clocks == "none":
            return 0
        error = self._clock_error() if self.parameters.clocks == "synchronised" else 0
        return 0 if error is None else self.host.clock() + spent + error

    # --- hearing ------------------------------------------------------------------------------------------------------
    def hears(self, source: ProcessId, data: Data, *, came: int | None = None) -> bool:
        """Notes what a data packet tells the ring; whether it may go into the order. ``came``: when, if before we were in."""
        if self.entrance.keeps(source, data) or data.ring != self.name or not self.name:
            return False
        order = self.order
        if not 0 <= data.seq < self.parameters.numbers or not self._is_sound(data.word):
            return False
        if (source not in self.ring and source != data.sender) or not self._belongs(data):
            if self.number >= data.number or source != data.sender or source in self.ring:
                self.host.record("drop", self.group, why="foreign", packet="Data", source=source)
                return False
            # From somebody that a change lets in which we have not heard of, or from a stranger: it waits for that.
            return order is not None
        if came is None and not self.fresh(source, data.at, "Data"):
            if isinstance(data.word, Change) and self.me not in data.word.ring:
                self.glimpse(data.word)  # However late it comes, we are out.
            return False
        self._knows(source, data.number, data.by)
        if source == data.sender:
            self._check_channel(source, data)
            self.hears_of(data.visit, source, 0 if came is None else self.host.now - came)
        if order is not None:
            known = self._highest.get(data.sender)
            if known is None or order.ahead(data.seq, known) > 0:
                self._highest[data.sender] = data.seq
        if isinstance(data.word, Change):
            self.glimpse(data.word)
        return bool(self.name)

    def _is_sound(self, word: Word | None) -> bool:
        """Whether a change, if it is one, can be one of a ring that we know."""
        if not isinstance(word, Change):
            return True
        ring = set(word.ring)
        if len(ring) < len(word.ring) or len(word.holds) != len(word.ring) or not set(word.joined) <= ring:
            return False
        if (not ring and not word.left) or word.left in ring or any(process in ring for process, _ in word.out):
            return False
        here = {*self.ring, *self._before, *(self.order.members if self.order is not None else ()), *word.joined}
        # What we have not heard of may lie between: then it has its members told by those who know.
        return word.number > self.number + 1 or ring <= here

    def let_out(self) -> None:
        """A packet has been heard and has its place, if it has one: what waited for it may go."""
        if self.name:
            self.outlet.flush()

    def _check_channel(self, source: ProcessId, data: Data) -> None:
        """P2: a channel between two processes keeps the order. If it does not, a packet is only early: see ``Gaps``."""
        beat = self.beats.get(source)
        if beat is not None and beat.visit == data.visit and data.at and data.at < beat.at and source not in self.disordered:
            self.disordered.add(source)
            self.host.record("state", self.group, broken="P2", source=source, visit=data.visit)

    def replay(self, source: ProcessId, data: Data, came: int) -> None:
        """Takes in a packet that came before we were in."""
        if not self.hears(source, data, came=came):
            return
        if self.gaps is None:
            self._take_in(data)
        else:
            self.gaps.accept(source, data)
            self.let_out()

    def _take_in(self, data: Data) -> None:
        """Without a layer below: what is not next was missed."""
        if self.order is not None and self.order.place(data) is not Place.OLD:
            self.ordered(data)
        self.let_out()

    def replay_beat(self, source: ProcessId, beat: Beat, came: int) -> None:
        """The same for a heartbeat; it may be our first token."""
        if self.name and source in self.ring:
            self.hears_of(beat.visit, source, self.host.now - came)
            self.note_beat(source, beat)

    def _belongs(self, data: Data) -> bool:
        """Whether a packet's sender is in the ring, or was and had sent it before it was eliminated."""
        if data.sender in self.ring or data.sender == self.me:
            return True
        last = self.out.get(data.sender)
        return last is not None and self.order is not None and self.order.ahead(data.seq, last) <= 0

    def hears_of(self, visit: int, holder: ProcessId, ago: int = 0) -> None:
        if visit > self.heard_visit:
            if self.host.now > self.due.get(TOKEN, self.host.now) + self.interface.slack:
                self._woke_at = self.host.now
            self.heard_visit, self.heard_holder, self.heard_at = visit, holder, self.host.now - ago
            self.inquiry.close()
            self._arm()

    def _knows(self, process: ProcessId, number: int, by: ProcessId) -> None:
        if self._spoke.get(process, (-1, ""))[0] < number:
            self._spoke[process] = number, by

    def glimpse(self, change: Change) -> None:
        """A change was heard of: the token goes by it from now on, whatever its place in the order."""
        if change.number <= self.number or not self._is_sound(change):
            return
        if self.me not in change.ring and change.left != self.me:
            text = f"{self.me} was eliminated from {self.group}: its heartbeat was not heard"
            self.halt("eliminated", text, number=change.number, last=dict(change.out).get(self.me))
            return
        self._adopt(change)
        if self.heard_holder in change.ring or not self._phase:
            self._arm()

    def _adopt(self, change: Change) -> None:
        self._before, self.ring, self.number, self.change = self.ring, change.ring, change.number, change
        self.holds = dict(zip(change.ring, change.holds, strict=True))
        there = {*self._before, *self.out, *(self.order.members if self.order is not None else ())}
        self.out.update((process, last) for process, last in change.out if process in there)
        if change.left:
            self.out[change.left] = change.left_at
        for known in (self.beats, self._spoke, self._highest, self._got):
            for process in [process for process in known if process not in change.ring]:
                del known[process]
        self._got.update({process: 0 for process in change.ring if process not in self._got})
        self.sponsor.changed(change)
        self.entrance.let_in(change.ring)

    def _receive_beat(self, source: ProcessId, beat: Beat) -> None:
        if beat.ring != self.name or not self.name or self.entrance.is_outside:
            self.entrance.hears_ring(source, beat)
            return
        is_known = source in self.ring or (source, beat.visit) == (self.heard_holder, self.heard_visit)
        if is_known and self.fresh(source, beat.at, "Beat"):
            self.note_beat(source, beat)

    def note_beat(self, source: ProcessId, beat: Beat) -> None:
        """A heartbeat that counts, heard ourselves or by somebody who tells us."""
        if beat.change is not None:
            self.glimpse(beat.change)
            if not self.name:
                return
        known = self.beats.get(source)
        if known is not None and known.visit >= beat.visit:
            return
        self.beats[source] = beat
        self.entrance.mentioned(beat.mentioned)
        self.ends[beat.visit] = beat.seq
        while len(self.ends) > (self.parameters.retransmissions + 4) * max(1, len(self.ring)) + 64:
            del self.ends[min(self.ends)]
        self._knows(source, beat.number, beat.by)
        self._got[source] = max(self._got.get(source, 0), beat.got)
        if source == self.me:
            self._own_heard = beat.visit
            self._measure_hold(beat.visit)
            if self._own_visit and self._own_heard >= self._own_visit and not self._is_gone:
                self._own_visit = 0
                self.host.cancel_timer(OWN)
            if self.gaps is not None:
                self.gaps.bring_back()
        elif self.gaps is not None:
            self.gaps.heard_asks(source, beat.visit, beat.asks)
        self.hears_of(beat.visit, source)
        self._count_rotation()
        self.outlet.flush()
        is_due = beat.visit == self.heard_visit and beat.visit >= self.visit and not self._phase and self.me in self.ring
        if is_due and self._heir(beat.next) == self.me and not self._is_silent:
            self._deferred = beat if self._may_have_slept else None
            if self._deferred is None:
                self._take_token(beat)
            else:
                # Not by ``TOKEN``: one that came due while we were stopped may be handled before the packets after it.
                self.host.set_timer(WOKEN, self.host.now)

    @property
    def _may_have_slept(self) -> bool:
        """Whether a token may be an old one: it comes when we should have asked for it already, or we have just come in and do
        not know how long it has been here. Then all that has come is heard before the turn begins; a process that was stopped
        would speak in another member's turn, by the first packets that it finds. (Packets before the token count too: each begins
        our patience anew. A process that woke up so took the turn of an old token, and on a shared medium the member whose turn
        it was did not hear itself and stopped.)"""
        now, slack = self.host.now, self.interface.slack
        return self._spoke_at is None or now > self.due.get(TOKEN, now) + slack or now <= self._woke_at + slack

    def _measure_hold(self, visit: int) -> None:
        """Our heartbeat has come back: how long our turn really took, the way back included, against T."""
        took = self.host.now - self._begun_at
        bound = self.hold + self.interface.delay(self.me, self.me) + self.interface.slack
        if visit == self.visit and took > bound and self.entrance.is_installed:
            self.host.record("state", self.group, broken="hold", measured=took, bound=bound)

    def _heir(self, process: ProcessId) -> ProcessId:
        """Who has the turn that somebody gave to a process: the next after it that is still there."""
        if process in self.ring or process not in self._before:
            return process
        place = self._before.index(process)
        order = (*self._before[place + 1 :], *self._before[:place])
        return next((other for other in order if other in self.ring), process)

    def _count_rotation(self) -> None:
        """Whether every member of the ring has had a turn in it since our last one."""
        if self.base != self.ring and all(
            process == self.me or ((beat := self.beats.get(process)) is not None and beat.number >= self.number)
            for process in self.ring
        ):
            self.base = self.ring

    # --- waiting for the token ----------------------------------------------------------------------------------------
    def path(self) -> list[ProcessId]:
        """Those whose turns come before ours, from the one heard last."""
        ring = self.ring
        mine = ring.index(self.me)
        if self.heard_holder in ring:
            heard = ring.index(self.heard_holder)
            return [ring[(heard + step) % len(ring)] for step in range((mine - heard - 1) % len(ring) + 1)]
        gone = self._before.index(self.heard_holder) if self.heard_holder in self._before else -1
        following = [process for process in (*self._before[gone + 1 :], *self._before[:gone]) if process in ring]
        first = ring.index(following[0]) if following else mine
        return [self.heard_holder, *(ring[(first + step) % len(ring)] for step in range((mine - first) % len(ring)))]

    def _arm(self) -> None:
        """Waits for the token as long as it can take from the turn heard last."""
        if not self.name or self._phase or self.me not in self.ring:
            return
        path = self.path()
        holds = [self.holds.get(process, int(self.parameters.hold)) for process in path]
        wait = self.interface.patience(holds)
        if self.ring.index(self.me) < len(path):
            wait += self.interface.slot(self.ring)
        self.set_due(TOKEN, max(self.heard_at + wait, self.host.now))

    def _timed_out(self) -> None:
        if self._phase or not self.name or self._deferred is not None or self._is_late(TOKEN):
            return
        if len(self.ring) > 1:
            self.inquiry.begin()
        elif self._is_silent:
            self.set_due(TOKEN, self.host.now + self.hold)
        else:
            self.take_turn("alone", self.heard_visit + 1, False)

    def _take_deferred(self) -> None:
        """All that had come is heard: if the token is still the newest, our turn begins."""
        beat, self._deferred = self._deferred, None
        if beat is None or self._phase or not self.name:
            return
        if beat.visit == self.heard_visit and self._heir(beat.next) == self.me:
            self._take_token(beat)
        else:
            self._arm()

    @property
    def _is_silent(self) -> bool:
        """Whether we are alone before the group is formed and say nothing: it would only disturb processes on a shared medium."""
        if len(self.ring) > 1 or self.will_form or self._leaving:
            return False
        return not self.sponsor.has_words and not self.entrance.knockers()

    def take_lost_token(self) -> None:
        """The token is lost: our predecessor's heartbeat says whose it was. If it is not ours, the others have another ring."""
        beat = self.beats.get(self.ring[self.ring.index(self.me) - 1])
        if beat is not None and self._heir(beat.next) == self.me:
            self.take_turn("timeout", self.heard_visit + len(self.path()), False)
        else:
            self.omission([], "the token passes us by: a change of the ring has not reached us")

    @property
    def in_turn(self) -> bool:
        return bool(self._phase)

    @property
    def heard_end(self) -> bool:
        """Whether the heartbeat of the turn heard last was heard."""
        beat = self.beats.get(self.heard_holder)
        return beat is not None and beat.visit == self.heard_visit

    def successor(self, process: ProcessId) -> ProcessId:
        """The member whose turn comes after that of another, which may be gone."""
        if process in self.ring:
            return self.ring[(self.ring.index(process) + 1) % len(self.ring)]
        return self._heir(process)

    def highest_of(self, processes: Sequence[ProcessId]) -> Numbers:
        """The highest number that we have heard of each of these members."""
        return tuple((process, self._highest[process]) for process in processes if process in self._highest)

    def note_highest(self, numbers: Numbers) -> None:
        """Others have heard packets of members up to these numbers."""
        order = self.order
        for process, seq in numbers:
            known = self._highest.get(process)
            if process in self.ring and order is not None and (known is None or order.ahead(seq, known) > 0):
                self._highest[process] = seq

    # --- our turn -----------------------------------------------------------------------------------------------------
    def _take_token(self, beat: Beat) -> None:
        """The first copy of a heartbeat gives us the token. On a shared medium the other copies are before us still: they are in
        the turn of their sender, which is not over. Without this wait each turn left its copies to the next; where delays are
        short and heartbeats long or many, its packets waited for the medium for longer than d_max. Half of ``slack`` is time
        enough for a short rest: the ring need not be slower for that."""
        rest = (self.parameters.heartbeats - 1) * self.interface.cost(size_of(beat))
        self._not_before = self.host.now + max(0, rest - self.interface.slack // 2)
        self.take_turn("token", beat.visit + 1, beat.slot)

    def take_turn(self, by: str, visit: int, slot: bool, change: Change | None = None) -> None:
        self.inquiry.close()
        self.host.cancel_timer(TOKEN)
        self.visit, self._by = visit, by
        self._turn_at = self._begun_at = self.host.now
        self._phase = SLOT if slot and change is None else IDLE
        if change is not None:
            self._speak(change)
        elif slot:
            self.set_due(SLOT, self.host.now + self.interface.slot(self.ring))
        else:
            self._begin()

    def _go_on(self, timer: str) -> None:
        """The slot is over, or the time in which something to say might have come."""
        late = self.host.now - self.due[timer]
        if self._is_late(timer):
            return
        if late > self.hold:
            # The others have gone on without us: this turn is not ours any more.
            self._phase = ""
            self.set_due(TOKEN, self.host.now)
        elif timer == SLOT:
            self._phase = IDLE
            self._begin()
        else:
            self._speak()

    def _is_late(self, timer: str) -> bool:
        """Whether a timer comes late, for the first time: we were not there, and what has come meanwhile is heard first."""
        now, due = self.host.now, self.due[timer]
        if timer in self._excused or now <= due + self.interface.slack:
            self._excused.discard(timer)
            return False
        self._excused.add(timer)
        self.host.record("state", self.group, broken="reaction", measured=now - due, bound=self.interface.slack)
        self.host.set_timer(timer, now)
        return True

    def set_due(self, timer: str, at: int) -> None:
        self.due[timer] = at
        self._excused.discard(timer)
        self.host.set_timer(timer, at)

    def _begin(self) -> None:
        """The slot, if there was one, is over: speaks, or waits a little for something to say."""
        now = self.host.now
        self._begun_at = max(now, self._not_before)
        resends = self.gaps is not None and self.gaps.has_resends
        self._awaits_order = (self._leaving or self.sponsor.has_words) and not self.is_up_to_date
        self._awaits_ack = self._owes_ack
        if self._awaits_ack:
            # A change lets a process in, and its packet is still under way. In our next turn the joiner would be gone.
            sizes = self.interface.sizes(self.ring)
            needed = self.interface.cost(sizes.acknowledgement) + self.parameters.heartbeats * self.interface.cost(sizes.beat)
            wait = min(self.interface.hold_back, self.hold - needed)
        elif self._awaits_order:
            # What is to be said needs the whole order; an earlier packet may still be on its way.
            wait = min(self.interface.hold_back, self.hold // 2)
        elif self._ready or self._leaving or self._acks or resends or self.sponsor.has_words:
            self._speak_soon()
            return
        elif len(self.ring) == 1:
            wait = self.hold // (2 if self.formed else 1)
        else:
            wait = min(int(self.parameters.idle_hold), self.hold)
        self.set_due(IDLE, max(now + wait, self._begun_at))

    def _speak_soon(self) -> None:
        """Speaks, as soon as the turn before ours is over."""
        if self.host.now < self._begun_at:
            self.set_due(IDLE, self._begun_at)
        else:
            self._speak()

    def _speak(self, change: Change | None = None) -> None:
        """Sends all that this turn has, and passes the token on."""
        self._phase = ""
        self.host.cancel_timer(IDLE)
        now = self.host.now
        turn = Turn(self, self.hold - (now - self._begun_at))
        if self.aside is not None:
            send, self.aside = self.aside, None
            send()
            turn.charge(0)
        word: Word | None = change
        if word is None:
            word = self.sponsor.word(turn)
            if word is None and self._leaving and self.is_up_to_date and not self._has_messages():
                word = self._goodbye()
        if word is not None:
            to = self.ring
            if isinstance(word, Change):
                self._adopt(word)
                to = tuple(dict.fromkeys((*to, *word.ring)))
                turn.fit(to)
            turn.say(word, to)
            if isinstance(word, Change) and word.joined:
                envelope = self.interface.envelope(self.ring)
                for size in (turn.sizes.acknowledgement, *(len(part) + envelope for part in self.sponsor.parts())):
                    turn.charge(size)
        if self._acks or (self.gaps is not None and self.gaps.has_resends):
            turn.go_ahead(is_goodbye=self._is_gone)
        for ack in self._acks:
            if set(ack.joined) <= set(self.ring):
                self.host.send(ack.joined, ack)
                turn.charge(turn.sizes.acknowledgement)
        if not self._acks and not (isinstance(word, Change) and word.joined):
            self.sponsor.refuse(turn)
        self._acks = []
        if self.gaps is not None:
            turn.resend(self.gaps)
        if self.formed and self.order is not None and not self._is_gone:
            self._ready = turn.take()
        turn.end()
        self.inquiry.pay(turn)
        if isinstance(turn.word, Change) and turn.word.joined:
            self._acknowledge_own(turn.word, turn.word_is_last)
        self._pass_on(turn, now)

    @property
    def is_up_to_date(self) -> bool:
        """Whether the whole order up to our turn is here, and delivered as far as it may be."""
        order = self.order
        if order is None or not (order.complete and order.visit == self.visit - 1):
            return False
        return not len(self.outlet) or self.parameters.delivery == "safe"

    @property
    def _is_gone(self) -> bool:
        return self.change is not None and self.change.left == self.me

    @property
    def changed_by(self) -> ProcessId:
        """Who made the last change that we know of."""
        return self.change.by if self.change is not None else ""

    @property
    def will_form(self) -> bool:
        """Whether the group has begun, as far as is heard: the change that says so may have to wait for its place."""
        return self.formed or (self.change is not None and self.change.formed)

    def _has_messages(self) -> bool:
        return self.host.peek(self.group) is not None or self._ready or self.advisor.has_messages()

    def _goodbye(self) -> Change:
        ring = tuple(process for process in self.ring if process != self.me)
        holds = tuple(self.holds[process] for process in ring)
        left_at = (self.seq + 1) % self.parameters.numbers
        return Change(self.number + 1, ring, holds, 0, self.will_form, left=self.me, left_at=left_at, by=self.me)

    def _pass_on(self, turn: Turn, now: int) -> None:
        ring = self.ring
        gone = self.me not in ring
        following = self._heir(self.me) if gone else ring[(ring.index(self.me) + 1) % len(ring)]
        knockers = self.entrance.invited() if not gone and ring[-1] == self.me else ()
        change = self._unconfirmed()
        asks = self._fitting(turn, self.gaps.asks()) if self.gaps is not None else ()
        voting = self.sponsor.voting if change is None else ()
        mentioned = self.entrance.mentions() if change is None else ()
        at = self.stamp(turn.spent + self.interface.cost(turn.sizes.beat))
        told = (asks, self.order.rank if self.order is not None else 0, change, self.changed_by, voting, mentioned)
        turn_is = (self.number, self.visit, self.seq, following, bool(knockers), at)
        beat = Beat(self.group, self.name, *turn_is, self.will_form, self.rotation, *told)
        to = tuple(dict.fromkeys((*ring, self.me, *knockers)))
        size = turn.sizes.beat + max(0, len(asks) - ASKS) * self._ask_size
        for copy in range(self.parameters.heartbeats):
            if copy:  # A copy is not late because it leaves after the others.
                beat = msgspec.structs.replace(beat, at=self.stamp(turn.spent + self.interface.cost(turn.sizes.beat)))
            self.host.send(to, beat)
            turn.charge(size)
        rotation = None if self._spoke_at is None else self._turn_at - self._spoke_at
        self._spoke_at = self._turn_at
        self._record_turn(turn, rotation)
        self._tell_stable()
        self.heard_visit, self.heard_holder, self.heard_at = self.visit, self.me, now
        self._forget()
        if gone or not self._own_visit:
            self._own_visit = self.visit
            self.set_due(OWN, now + turn.spent + self.interface.delay(self.me, self.me) + 2 * self.interface.slack)
        if not gone:
            self._arm()

    @property
    def _ask_size(self) -> int:
        """Bytes of a request for lost packets."""
        return 2 * max(len(process.encode()) for process in (self.me, *self.ring)) + ASK_NUMBERS

    def _fitting(self, turn: Turn, asks: tuple[Asked, ...]) -> tuple[Asked, ...]:
        """The requests that the heartbeat has room for: our own come first, and a few always fit."""
        each = self.parameters.heartbeats * (self.interface.cost(self._ask_size) - self.interface.cost(0) + 1)
        return asks[: ASKS + max(0, turn.left) // each]

    def _tell_stable(self) -> None:
        """Once a turn: what every member has said to have in order."""
        stable = self._all_have() if self.entrance.is_installed and not len(self.outlet) else 0
        if stable > self._stable:
            self._stable = stable
            self.host.stable(self.group, stable)

    def _record_turn(self, turn: Turn, rotation: int | None) -> None:
        if not self.entrance.is_installed:
            return
        held = turn.spent + self.host.now - self._begun_at
        printed = self.interface.printed(self.ring, list(self.holds.values()))
        times = {"rotation": rotation, "hold": held, "bound": self.rotation, "printed": printed}
        self.host.record("token", self.group, by=self._by, visit=self.visit, **times, packets=turn.packets)
        if rotation is not None and self.formed and self._by == "token" and rotation > self.rotation:
            self.host.record("state", self.group, broken="rotation", measured=rotation, bound=self.rotation)

    def _forget(self) -> None:
        """Lets go of what every member has said to have in order: no member asks for that again. Counting turns or time would not
        do: a ring with little to send turns many times within d_max, and no member asks while a slow one holds the token."""
        order = self.order
        if order is None:
            return
        self._past.append((order.rank, order.visit))
        stable = self._all_have()
        while len(self._past) > 1 and self._past[1][0] <= stable:
            self._past.popleft()
        rank, keep = self._past[0]
        if rank > stable:
            return
        self.ends = {visit: last for visit, last in self.ends.items() if visit >= keep}
        if self.gaps is not None:
            self.gaps.forget(keep)

    def _check_own(self) -> None:
        """A member that does not hear itself has a send omission: it stops (A1). Whoever leaves has its whole order behind it."""
        if self._is_gone and self.name and self.farewell is not None and self.order is not None:
            self.ordered(self.farewell)
            return
        if not self.name or self._is_late(OWN):
            return
        visit, self._own_visit = self._own_visit, 0
        if self._own_heard < visit and len(self.ring) > 1:
            self.halt("unheard", f"{self.me} has not heard its own heartbeat", visit=self.visit)

    # --- the order ----------------------------------------------------------------------------------------------------
    def ordered(self, data: Data) -> None:
        """The next packet of the order, as far as the layer below could tell; if it is not, something was missed for good."""
        order = self.order
        assert order is not None
        place = order.place(data)
        if place is Place.CONTRADICTS:
            text = f"{self.me} has packets that {data.sender} knows nothing of: the others will never have them"
            self.halt("omission", text, sender=data.sender, visit=data.visit)
            return
        if place is not Place.NEXT:
            self.omission(self._missing(), f"{self.me} has missed a packet before turn {data.visit} of {data.sender}")
            return
        order.step(data)
        if data.sender == self.me and data.seq == self.said:
            self.said = None
        word = data.word
        if isinstance(word, Change):
            self._ordered_change(word)
        elif isinstance(word, Query):
            self.sponsor.asked(data.sender, word)
        elif isinstance(word, Decided):
            self.sponsor.decided(data.sender, word)
        elif isinstance(word, Reclaim):
            self.set_rotation(word.rotation)
        if data.batch is not None or isinstance(word, Change):
            self.outlet.put(order.rank, data)
            self.outlet.flush(everything=isinstance(word, Change) and word.left == self.me)
        has_come = (self._awaits_order and self.is_up_to_date) or (self._awaits_ack and not self._owes_ack)
        if has_come and self._phase == IDLE and self.host.now <= self.due[IDLE]:
            self._speak_soon()

    def _ordered_change(self, change: Change) -> None:
        order = self.order
        assert order is not None
        for process in [process for process in self.out if process not in order.members]:
            del self.out[process]
        for process in change.joined:
            self._highest.setdefault(process, order.seqs[process])
        self.sponsor.ordered_change(change)
        if change.joined:
            self._snapshot = self._acknowledgement(change, order.visit, order.holder, order.complete, order.seqs, order.rank)
            if self.parameters.delivery == "safe":
                self._reached(change)
        if change.rotation and change.rotation != self.rotation:
            self.set_rotation(change.rotation)

    def _acknowledgement(
        self, change: Change, visit: int, holder: ProcessId, complete: bool, seqs: Mapping[ProcessId, int], rank: int
    ) -> JoinAck:
        changed = (change.number, change.ring, change.holds, change.joined, change.rotation, change.formed)
        vector = tuple((process, seqs[process]) for process in change.ring)
        digest = crc32(self.advisor.partial())
        return JoinAck(self.group, self.name, *changed, visit, holder, complete, vector, rank, digest)

    def _reached(self, change: Change) -> None:
        """All that comes before a change has been delivered: who joins by it is told how things stand."""
        snapshot = self._snapshot
        if snapshot is None or change.number != snapshot.number or snapshot.holder == self.me or self.me in change.joined:
            return
        self._snapshot = None
        self._acknowledged = change.number
        self._acks.append(msgspec.structs.replace(snapshot, digest=crc32(self.advisor.partial())))

    @property
    def _owes_ack(self) -> bool:
        """Whether we have heard of a change that lets a process in, and could not acknowledge it yet."""
        change = self.change
        if change is None or not change.joined or self.me in change.joined or change.by == self.me:
            return False
        return self._acknowledged < change.number

    def _acknowledge_own(self, change: Change, is_last: bool) -> None:
        """The sponsor stands at the end of the order, or it would not let anybody in: it acknowledges at once."""
        order = self.order
        assert order is not None
        seqs = dict(order.seqs)
        seqs[self.me] = self.sponsor.change_seq
        for process in change.joined:
            seqs[process] = self.parameters.numbers - 1
        ack = self._acknowledgement(change, self.visit, self.me, is_last, seqs, order.rank + 1)
        self.host.send(change.joined, ack)
        parts = self.sponsor.parts()
        for index, part in enumerate(parts):
            self.host.send(change.joined, packets.Partial(self.group, self.name, change.number, index, len(parts), part))

    def _new_outlet(self) -> Outlet:
        got = self._all_have if self.parameters.delivery == "safe" else None
        return Outlet(self._confirmed, self._reached, self._let_out, got)

    def _confirmed(self, change: Change) -> bool:
        """Whether everybody in the ring has been heard to know of a change; who has just joined has not spoken yet."""
        if not change.formed or change.left == self.me:
            return True
        return all(process == self.me or self._knows_of(process, change) for process in self.ring)

    def _knows_of(self, process: ProcessId, change: Change) -> bool:
        spoke = self._spoke.get(process)
        if spoke is None:
            return process in self.sponsor.newcomers
        return spoke[0] > change.number or spoke == (change.number, change.by)

    def _unconfirmed(self) -> Change | None:
        """The last change, unless everybody knows of it."""
        change = self.change
        others = [process for process in self.ring if process != self.me]
        if change is None or all(process in self._spoke and self._knows_of(process, change) for process in others):
            return None
        return change

    def _all_have(self) -> int:
        """How far all members have the order."""
        mine = self.order.rank if self.order is not None else 0
        return min((mine if process == self.me else self._got.get(process, 0) for process in self.ring), default=0)

    def _let_out(self, rank: int, data: Data) -> None:
        if isinstance(data.word, Change):
            self._install(data.word, rank, data.sender)
        elif data.batch is not None:
            self.host.deliver(self.group, data.sender, data.batch, rank)

    def _install(self, change: Change, rank: int, by: ProcessId) -> None:
        forms = change.formed and not self.formed
        said = {"eliminate": change.out, "join": change.joined, "leave": change.left, "form": forms}
        kinds = [name for name, applies in said.items() if applies]
        self.host.record("confirm", self.group, number=change.number, kinds=kinds, by=by, rotation=self.rotation)
        if change.left == self.me:
            self.host.left(self.group, rank)
            self._stop_timers()
            self.name = ""
            return
        if not change.formed:
            return
        first = not self.entrance.is_installed
        self.formed = True
        self.entrance.installed()
        left = {
            process: Reason("crashed", f"{by} heard no heartbeat of {process}", {"last": last, "by": by})
            for process, last in change.out
        }
        if change.left:
            left[change.left] = Reason("left", f"{change.left} left")
        for process in self._installed:
            if process not in change.ring and process not in left:
                left[process] = Reason("crashed", f"{process} was eliminated by a change before this one")
        left = {process: reason for process, reason in left.items() if process in self._installed}
        self._installed = change.ring
        self.host.install(View(self.group, change.number, change.ring, () if first else change.joined, left, rank))
        if first:
            self._ready = True

    def set_rotation(self, rotation: int) -> None:
        self.rotation = rotation
        self.advisor.rotation(rotation, self.ring, self.hold)

    # --- stopping -----------------------------------------------------------------------------------------------------
    def _missing(self) -> list[Ask]:
        assert self.order is not None
        return self.order.missing(self.heard_visit, {}, self.ends, self.out)

    def omission(self, missing: Sequence[Ask], text: str) -> None:
        """Something is missing for good."""
        found = [list(ask) for ask in missing]
        self.host.record("receive", self.group, omission=True, missing=found)
        self.halt("omission", text, missing=found)

    def halt(self, code: str, text: str, **evidence: Any) -> None:
        if not self.name and self.entrance.is_outside:
            return
        self.abandon()
        self.host.record("state", self.group, state="crashed", reason=code)
        if self.entrance.is_installed:
            self.host.halt(Reason(code, text, evidence))
        else:
            self.entrance.again(code)

    def _stop_timers(self) -> None:
        for timer in (TOKEN, WOKEN, PROBE, SLOT, IDLE, OWN, READING):
            self.host.cancel_timer(timer)

    def abandon(self) -> None:
        """Is on no ring any more."""
        self.name = ""
        self.order = None
        self._phase = ""
        self._stop_timers()
        if self.gaps is not None:
            self.gaps.reset()

    # --- beginning ----------------------------------------------------------------------------------------------------
    def found(self, name: ProcessId) -> None:
        """Begins a ring of our own."""
        hold = self.interface.hold(self.me)
        self._enter(name, (self.me,), {self.me: hold}, 0, False)
        seqs = {self.me: self.parameters.numbers - 1}
        me, numbers = (self.me,), self.parameters.numbers
        self.order = Order(me, numbers, visit=0, holder=self.me, complete=True, seqs=seqs, gone=self.out)
        self.set_rotation(self.interface.rotation(self.ring, [hold]))
        self.set_due(TOKEN, self.host.now)

    def enter(self, ack: JoinAck, heard_at: int) -> None:
        """Takes a place on a ring, as its members have told us that it is; ``heard_at``: when we heard of the change."""
        self._enter(ack.ring, ack.members, dict(zip(ack.members, ack.holds, strict=True)), ack.number, ack.formed)
        numbers, self._highest = self.parameters.numbers, dict(ack.seqs)
        members, visit, holder, rank = ack.members, ack.visit, ack.holder, ack.rank
        self.order = Order(
            members, numbers, visit=visit, holder=holder, complete=ack.complete, seqs=self._highest, rank=rank, gone=self.out
        )
        self.heard_visit, self.heard_holder, self.heard_at = ack.visit, ack.holder, heard_at
        self.visit = self._own_heard = ack.visit
        old = (process for process in ack.members if process not in ack.joined)
        self._spoke = dict.fromkeys(old, (ack.number, ack.holder))
        self.change = Change(ack.number, ack.members, ack.holds, ack.rotation, ack.formed, joined=ack.joined, by=ack.holder)
        self._installed = ack.members
        self.sponsor.newcomers.update(dict.fromkeys(ack.joined))
        self.set_rotation(ack.rotation)
        self._arm()

    def _enter(
        self, name: ProcessId, ring: tuple[ProcessId, ...], holds: dict[ProcessId, int], number: int, formed: bool
    ) -> None:
        self._stop_timers()
        self._clear(name, ring, holds, number, formed)
        self.seq = self.parameters.numbers - 1
        self.sponsor.reset()
        self.inquiry.reset()
        if self.gaps is not None:
            self.gaps.reset()
