"""Clock synchronisation (P4): Cristian's probabilistic reading of a master's clock, as a layer.

**Master and slaves.** The member with the smallest id of the last installed view is the master; the others read its clock. Before
the first view there is no correction, and the error is unknown.

**Running.** Our clock is the host's clock without its steps (:class:`Steady`), plus an offset. The host's clock and its ``now``
run at most rho (``clock_drift``) faster or slower than true time.

**A reading** (Cristian 1989). A slave asks, and the answer with the time T comes after a round trip D, measured by ``now``. With
m the least delay of a packet (``least``; 0 if unknown), the master's clock is between T + m(1 - rho) and T + (D(1 + rho) - m)(1 +
rho). The slave takes the middle, with the error e = D(1 + rho)^2 / 2 - m (the paper's form leaves out the square of rho). A
reading with e > ``clock_precision`` is thrown away and tried again after a random time, so as not to meet the same congestion
twice. After ``clock_tries`` consecutive failures, or when the reading is too old (:attr:`ClockSync.lifetime`), the clock is lost:
:meth:`ClockSync.error` is None, and the process goes on asking. A good reading is renewed every ``clock_every``; meanwhile its
error grows by 2 rho per unit of time, as both clocks may drift. Two readings of one clock both hold, so their overlap counts; if
they do not overlap, an assumption is broken, and the clock is lost.

**Requests go out in our turn** (``post``): on a shared medium they would disturb the member whose turn it is. The answer cannot
wait for a turn, or it would say nothing about the time: every hop of the token has time for it
(:attr:`~.interface.Interface.stray`).

**Monotone.** A correction forwards is a jump. Backwards the clock runs at half its speed until it is right;
:meth:`ClockSync.error` includes the part still to be taken off. A process that reads such a clock gets the corrected value. A
clock that was lost and is read anew may jump back: nothing may have relied on it between.

**What the errors mean.** At any moment two members with a known clock are apart by at most the sum of their errors. Each error is
a distance from one reference, the master's clock.

**A new master** goes on with its own corrected clock, which then is the reference; it never jumps to its raw clock. It is off the
old reference by its error e, and some members still have readings of the old master. So for two lifetimes of a reading the new
master counts its e, growing, as its own error, and its answers carry it, so that readers add it to theirs. All errors then are
distances from the old reference as well. After that no reading of the old reference is left (one lifetime for members that learn
of the new view late, one for their readings): the master's error is 0. So across the change two members are apart by no more than
their errors say.

**A master without a time** (a joiner with the smallest id, or one whose clock was lost) asks the others in turn and goes on with
what it reads, as a new master does. Slaves ask only the master. So when all others have answered that they know no time, none can
get one except from this master: it begins with its own clock, like the first master of a group that is formed.

**Steps.** A host's clock that advances differently from ``now`` has been set, or the machine has slept. :class:`Steady` filters
such a difference out; one above :data:`STEP` also voids the reading at once, because it is unknown which of the two is right. A
master does not answer then, and reads its time back from the others. (A step too small to be found can make a clock differ from
``now`` by rho. In the simulator ``now`` is true time, and the bounds still hold; where ``now`` itself drifts by rho, such a step
is not covered.)
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import Final

from ...core.engine import Engine, Host, Layer
from ...core.model import MS, GroupId, Nanoseconds, Number, Packet, ProcessId, Timer, View
from .parameters import Parameters

STEP: Final = 1 * MS  # A clock that differs from ``now`` by more, beyond drift, was stepped (looks are not simultaneous)

_TIMER: Final = ("clocks",)
_UNKNOWN: Final = -1
_SLOWED: Final = 2  # A clock that is ahead runs at (1 - 1 / this) of its speed


class TimeRequest(Packet, frozen=True, array_like=True, gc=False, tag=64):
    """What time is it? ``number`` tells the requests of a process apart."""

    group: GroupId
    number: Number


class TimeReply(Packet, frozen=True, array_like=True, gc=False, tag=65):
    """The answer to request ``number``. ``error``: how far ``clock`` may be off the reference; negative: no time is known here.
    ``era`` changes whenever this clock is corrected: readings of different eras are of different clocks."""

    group: GroupId
    number: Number
    clock: Nanoseconds
    error: Nanoseconds
    era: Number


CLOCK_PACKETS: Final[tuple[type[Packet], ...]] = (TimeRequest, TimeReply)


class Steady:
    """A host's clock without its steps: between two looks it differs from ``now`` by no more than ``drift`` allows."""

    def __init__(self, host: Host, drift: float) -> None:
        self._host = host
        self._drift = drift
        self._now = host.now
        self._raw = self._time = host.clock()

    def look(self) -> tuple[Nanoseconds, Nanoseconds]:
        """What it shows, and how far it was stepped since the last look (0: within what drift and looking explain)."""
        now = self._host.now
        elapsed = now - self._now
        if not elapsed:  # In one turn of the engine time stands still, here as for `now`.
            return self._time, 0
        raw = self._host.clock()
        difference = raw - self._raw - elapsed
        allowed = math.ceil(elapsed * self._drift)
        self._now, self._raw = now, raw
        self._time += elapsed + max(-allowed, min(difference, allowed))
        return self._time, difference if abs(difference) > allowed + STEP else 0


@dataclasses.dataclass(frozen=True, slots=True)
class Reading:
    """What is known of the reference: it was ``offset`` ahead of the steady clock at ``at`` (``now``), give or take ``error``.
    ``source`` and ``era`` say whose clock it is."""

    offset: Nanoseconds
    error: Nanoseconds
    at: Nanoseconds
    source: ProcessId
    era: int


class ClockSync(Layer):
    """Gives the engine inside a ``clock`` that agrees with that of the other members, and ``error``, how well."""

    def __init__(
        self,
        host: Host,
        inside: Callable[[Host], Engine],
        group: GroupId,
        parameters: Parameters,
        *,
        least: Nanoseconds = 0,
        post: Callable[[Callable[[], None]], None] = lambda send: send(),
    ) -> None:
        self._group = group
        self._post = post  # Calls what sends a request when this process may send: at once, or in its turn on the ring
        self._to_ask: ProcessId | None = None  # The member to be asked when we may send
        self._drift = parameters.clock_drift
        self._precision = int(parameters.clock_precision)
        self._every = int(parameters.clock_every)
        self._most_tries = parameters.clock_tries
        self._least = least
        self._wait = 2 * (self._precision + least) + 1  # No answer that comes later is good enough
        self._pause = max(self._wait, self._every // self._most_tries)  # The longest time between two tries
        self.lifetime = self._every + self._most_tries * (self._wait + self._pause)  # So old a reading may be at the most
        self._steady = Steady(host, self._drift)
        self._reading: Reading | None = None
        self._offset = 0
        self._ahead = 0  # How far the clock was ahead of its reading when corrected, at ``_corrected_at`` of the steady clock
        self._corrected_at = 0
        self._era = 0
        self._others: tuple[ProcessId, ...] = ()
        self._master: ProcessId | None = None
        self._master_since = 0  # When this process became the master, or last read its time from another member as such
        self._asked: tuple[int, ProcessId, Nanoseconds] | None = None  # Number, member and time of the open request
        self._number = 0
        self._tries = 0
        self._lost = False  # Whether the trace says already that the clock is lost
        self._without: set[ProcessId] = set()  # Members that have told this master that they know no time
        super().__init__(host, inside)

    def clock(self) -> Nanoseconds:
        """The group's time; without a reading the host's clock, as it was corrected last."""
        time = self._look()
        return time + self._offset + self._still_ahead(time)

    def error(self) -> Nanoseconds | None:
        """How far ``clock()`` is off the reference at the most, now; None: nobody knows."""
        time = self._look()
        bound = self._bound()
        return None if bound is None else bound + self._still_ahead(time)

    def install(self, view: View) -> None:
        self.host.install(view)
        self._look()
        is_first = self._master is None
        master = min(view.members)
        self._others = tuple(sorted(name for name in view.members if name != self.me))
        if master != self._master:
            self._change_master(master)
            if is_first and master == self.me and _all_are_new(view):
                self._begin()
            else:
                self.host.set_timer(_TIMER, self.host.now + self.host.random.randrange(self._wait))

    def left(self, group: GroupId, rank: int | None = None) -> None:
        self.host.cancel_timer(_TIMER)
        self._master, self._asked, self._to_ask, self._reading, self._others = None, None, None, None, ()
        self.host.left(group, rank)

    def receive(self, source: ProcessId, packet: Packet) -> None:
        if isinstance(packet, TimeRequest):
            self._answer(source, packet.number)
        elif isinstance(packet, TimeReply):
            self._heard(source, packet)
        else:
            self.inner.receive(source, packet)

    def expire(self, timer: Timer) -> None:
        if timer != _TIMER:
            self.inner.expire(timer)
        elif self._asked is not None:
            self._failed()
        else:
            self._ask()

    def _ask(self) -> None:
        """Asks the master; as a master without a time, the others in turn, until one of them knows it or all have said no."""
        self._to_ask = None
        if not self._is_master:
            self._to_ask = self._master
        elif self._bound() is None and self._without.issuperset(self._others):
            self._begin()
        elif self._bound() is None:
            self._to_ask = self._others[self._number % len(self._others)]
        if self._to_ask is not None:
            self._post(self._send_request)

    def _send_request(self) -> None:
        """We may send; the member to be asked may be another one by now, or none."""
        source, self._to_ask = self._to_ask, None
        if source is not None:
            self._number += 1
            self._tries += 1
            self._asked = self._number, source, self.host.now
            self.host.send((source,), TimeRequest(self._group, self._number))
            self.host.set_timer(_TIMER, self.host.now + self._wait)

    def _answer(self, source: ProcessId, number: int) -> None:
        """Says what time it is; that it is not known here only to the master, from whom alone it can be learnt then."""
        time = self._look() + self._offset
        bound = self._bound()
        if bound is not None or source == self._master:
            error = _UNKNOWN if bound is None else bound
            self.host.send((source,), TimeReply(self._group, number, time, error, self._era))

    def _heard(self, source: ProcessId, reply: TimeReply) -> None:
        time = self._look()
        asked = self._asked
        if asked is None or asked[:2] != (reply.number, source):
            return
        if reply.error < 0 and self._is_master:
            self._without.add(source)
        round_trip = self.host.now - asked[2]
        error = self._error_of(round_trip)
        if reply.error < 0 or not self._accepts(error):
            self._failed()
            return
        self._asked = None
        estimate = reply.clock + self._widest(round_trip) // 2 - math.floor(self._drift * self._least)
        self._adopt(Reading(estimate - time, error + reply.error, self.host.now, source, reply.era), time, round_trip)

    def _failed(self) -> None:
        """A try was in vain. The next comes a little later; when there were too many the clock is lost."""
        self._asked = None
        if self._tries >= self._most_tries:
            self._tries = 0
            age = None if self._reading is None else self.host.now - self._reading.at
            self._lose("unread", age, self.lifetime)
        pause = self._wait if self._bound() is None else self._pause
        self.host.set_timer(_TIMER, self.host.now + self.host.random.randrange(pause))

    def _widest(self, round_trip: Nanoseconds) -> Nanoseconds:
        """How far the clock that was read can have gone on during the round trip, at the most."""
        return math.ceil(round_trip * (1 + self._drift) ** 2)

    def _error_of(self, round_trip: Nanoseconds) -> Nanoseconds:
        return -(-self._widest(round_trip) // 2) - self._least + 1

    def _accepts(self, error: Nanoseconds) -> bool:
        """Whether a reading is good enough. A negative error says that ``least`` is wrong: it is no reading."""
        return 0 <= error <= self._precision

    def _growth(self, time: Nanoseconds) -> Nanoseconds:
        """How far two clocks can drift apart in this time (of ``now``)."""
        return math.ceil(time * 2 * self._drift / (1 - self._drift))

    @property
    def _is_master(self) -> bool:
        return self._master == self.me

    def _bound(self) -> Nanoseconds | None:
        """How far the corrected clock is off the reference; None: unknown."""
        reading = self._reading
        if reading is None:
            return None
        if self._is_master and self.host.now - self._master_since > 2 * self.lifetime:
            return 0
        age = self.host.now - reading.at
        if age > self.lifetime and not self._is_master:
            return None
        return reading.error + self._growth(age)

    def _still_ahead(self, time: Nanoseconds) -> Nanoseconds:
        return max(0, self._ahead - (time - self._corrected_at) // _SLOWED)

    def _adopt(self, reading: Reading, time: Nanoseconds, round_trip: Nanoseconds) -> None:
        """Corrects the clock by a reading, or loses it if an earlier reading of the same clock contradicts."""
        bound = self._bound()
        before = self._reading
        if before is not None and bound is not None and (before.source, before.era) == (reading.source, reading.era):
            earliest = max(reading.offset - reading.error, before.offset - bound)
            latest = min(reading.offset + reading.error, before.offset + bound)
            if earliest > latest:
                self._lose("contradiction", abs(reading.offset - before.offset), reading.error + bound)
                self.host.set_timer(_TIMER, self.host.now)
                return
            middle = (earliest + latest) // 2
            reading = dataclasses.replace(reading, offset=middle, error=latest - middle)
        shown = time + self._offset + self._still_ahead(time)
        self._ahead = max(0, shown - (time + reading.offset)) if bound is not None else 0
        self._corrected_at, self._offset, self._reading, self._lost = time, reading.offset, reading, False
        self._era += 1
        self._without.clear()
        if self._is_master:
            self._master_since = self.host.now
            self.host.cancel_timer(_TIMER)
        else:
            self.host.set_timer(_TIMER, self.host.now + self._every - self.host.random.randrange(self._every // 8 + 1))
        self._record(reading.source, round_trip)
        self._tries = 0

    def _begin(self) -> None:
        """Nobody knows a time: this master's clock is the reference from now on."""
        now = self.host.now
        self._era += 1
        self._reading = Reading(self._offset, 0, now, self.me, self._era)
        self._master_since = now - 2 * self.lifetime - 1
        self._tries, self._lost = 0, False
        self._without.clear()
        self.host.cancel_timer(_TIMER)
        self._record(self.me, 0)

    def _change_master(self, master: ProcessId) -> None:
        """Who becomes the master keeps its reading; who is no longer the master has one of itself, as good as it is now."""
        bound = self._bound()
        now = self.host.now
        if self._is_master:
            self._reading = None if bound is None else Reading(self._offset, bound, now, self.me, self._era)
        elif master == self.me:
            self._master_since = now
            if bound is None:
                self._reading = None
        self._master = master
        self._asked, self._to_ask, self._tries = None, None, 0
        self._without.clear()

    def _look(self) -> Nanoseconds:
        """What the steady clock shows; a step of the host's makes the reading void."""
        time, step = self._steady.look()
        if step and self._master is not None:
            self._asked, self._tries = None, 0
            if self._reading is not None:
                self._lose("step", abs(step), STEP)
            self.host.set_timer(_TIMER, self.host.now)
        return time

    def _lose(self, why: str, measured: Nanoseconds | None, bound: Nanoseconds) -> None:
        self._reading = None
        if not self._lost:
            self._lost = True
            self.host.record("state", self._group, broken="P4", why=why, measured=measured, bound=bound)

    def _record(self, source: ProcessId, round_trip: Nanoseconds) -> None:
        self.host.record(
            "sync", self._group, master=source, error=self.error(), clock=self.clock(), tries=self._tries, round_trip=round_trip
        )


def _all_are_new(view: View) -> bool:
    """Whether nobody in this first view can have been a member before."""
    return not view.joined or set(view.joined) == set(view.members)
