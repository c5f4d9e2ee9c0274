"""Which messages can be promised (section 5): reckoning only, no engine.

A member has T of sending time in each turn, and its turns begin at most P apart (:class:`.interface.Interface`). A message with
deadline d may take n = floor((d - Delta) / P) turns to be sent, with Delta = (r + 1) P for the way of its last packet, r
retransmissions among it. It is cut into n pieces; each of them takes C / n of a turn. A set of messages is schedulable (Theorem
1) if these shares, of all its messages and of what the ring itself sends (:func:`overhead`), are at most T together.

**What is really needed.** The lemmas say it in terms of the flow of messages (C2, C3 of Lemma 2; "C1" there means T). C3 asks for
a *lower* bound of what has arrived, which no argument uses. The reason why the theorem holds is simpler: *a stream releases at
most one piece in any half-open interval of length P.* Within a message pieces are P apart; from one message to the next the same
is true because n P <= d - Delta < d <= period. Hence between the beginnings of two turns in a row each stream releases one piece
at the most, together at most T, and the later of the two turns sends them all. By induction nothing is ever left over.

**Where the bound lies.** A piece goes out in a turn that *begins* within P of its release. Lemma 1 says "sent within P", which is
true of time that can be divided at will; a packet that comes when a turn has been given away or has no room left for it is
through up to T later. This T is in Delta: the last of r retransmissions begins its turn within r P of the message's, and from
there it is T for the turn and two d_max for the way and for what overtakes; P is longer than these together.

**Pieces and packets.** Costs are those of packets with their headers. A message is never cut into pieces smaller than the header
that each of them costs, so a short one goes out whole though it had n turns; its share is larger than C / n then, and it is
reckoned as it is. A piece larger than a packet takes several. All shares are rounded up to whole nanoseconds.
"""

from __future__ import annotations

import bisect
import dataclasses
from collections.abc import Mapping, Sequence

from ...core.model import MS, SECOND, US, GroupId, Nanoseconds, ProcessId, format_duration
from .interface import Interface
from .parameters import Parameters

NUMBER: int = 2  # Bytes by which a packet says to which stream a piece belongs
SMALLEST: int = 16  # Bytes of the smallest piece into which a message is ever cut, whatever a header costs
TERMS: Mapping[str, str] = {"period": "d > period", "visits": "n < 1", "load": "sum of C/n > T"}  # What fails


def readable(time: Nanoseconds) -> str:
    """A time for people: three decimals at the most, in the largest unit that makes it at least 1.

    >>> readable(7569600), readable(250), readable(0)
    ('7.57 ms', '250 ns', '0')
    """
    for unit, size in (("s", SECOND), ("ms", MS), ("us", US)):
        if abs(time) >= size:
            return f"{time / size:.3f}".rstrip("0").rstrip(".") + f" {unit}"
    return f"{time} ns" if time else "0"


def enough(time: Nanoseconds) -> str:
    """A time that is at least this, to be given as it stands: whole microseconds.

    >>> enough(110028800)
    '110029us'
    """
    return format_duration(-(-time // US) * US)


@dataclasses.dataclass(frozen=True, slots=True)
class Demand:
    """Messages whose deadlines are to be promised. ``period`` 0: a single message. Its time follows from ``size``, or is given as
    ``cost`` (C), which is then cut into equal pieces."""

    name: str
    deadline: Nanoseconds
    period: Nanoseconds = 0
    size: int = 0
    cost: Nanoseconds | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class Item:
    """Something that the ring may have to send in any turn."""

    name: str
    bytes: int
    cost: Nanoseconds


@dataclasses.dataclass(frozen=True, slots=True)
class Verdict:
    """Whether a demand can be promised beside others, and why not."""

    demand: Demand
    visits: int  # n: turns in which it may be sent; less than 1: the deadline is too short
    pieces: int  # How many pieces a message is cut into; 0: it cannot be
    share: Nanoseconds  # What its largest piece takes of a turn; 0: it cannot be sent in time, however much of a turn it had
    load: Nanoseconds  # What everything takes of a turn, with this demand
    term: str = ""  # The condition that fails, a key of ``TERMS``; empty: none
    text: str = ""  # The failure in one sentence
    nearest: Nanoseconds | None = None  # The shortest deadline from the demanded one on that could be promised; None: none could
    hopeless: str = ""  # Why no deadline could be promised

    @property
    def is_admitted(self) -> bool:
        return not self.term


def overhead(parameters: Parameters, interface: Interface, max_packet: int, ring: Sequence[ProcessId] = ()) -> tuple[Item, ...]:
    """What a member of this ring may have to send in a turn for the ring itself: always in G, with n = 1. No ring: one of a few
    members with short names. (A vote takes the place of an acknowledgement: what it led to is acknowledged after it.)"""
    sizes = interface.sizes(ring)
    sent = [("membership", sizes.change)]
    sent += [(f"heartbeat {number + 1}", sizes.beat) for number in range(parameters.heartbeats)]
    sent += [("dummy", 0), ("join acknowledgement", sizes.acknowledgement)]
    if parameters.clocks == "synchronised":
        sent.append(("question about the time", 0))
    if parameters.retransmissions:
        sent += [(f"retransmission {number + 1}", max_packet) for number in range(parameters.resends)]
    return tuple(Item(name, size, interface.cost(size)) for name, size in sent)


class Turn:
    """A member's turn: its T, what the ring needs of it, and P; everything that a set of demands is judged by."""

    def __init__(
        self,
        parameters: Parameters,
        process: ProcessId,
        rotation: Nanoseconds,
        max_packet: int,
        ring: Sequence[ProcessId] = (),
        group: GroupId = "",
        hold: Nanoseconds = 0,
    ) -> None:
        self.interface = Interface(parameters, group)
        self._envelope = self.interface.envelope(ring)
        self._smallest = max(parameters.header, SMALLEST)
        self._max_packet = max_packet
        self.hold = hold or self.interface.hold(process)  # T
        self.rotation = rotation  # P
        self.delay = (parameters.retransmissions + 1) * rotation  # Delta
        self.overhead = overhead(parameters, self.interface, max_packet, ring)
        self.reserved = sum(item.cost for item in self.overhead)  # What the ring needs of each turn

    def visits(self, deadline: Nanoseconds) -> int:
        """n of a message with this deadline; may be 0 or negative."""
        return (deadline - self.delay) // self.rotation

    def cost(self, demand: Demand) -> Nanoseconds:
        """C: how long a message of the demand takes if it is sent in one turn."""
        return self.share(demand, 1)

    def pieces(self, demand: Demand, visits: int) -> int:
        """How many pieces a message is cut into that may be sent in so many turns."""
        return max(1, min(visits, demand.cost if demand.cost is not None else demand.size // self._smallest))

    def share(self, demand: Demand, visits: int) -> Nanoseconds:
        """What the largest piece of a message takes that may be sent in so many turns (at least 1)."""
        pieces = self.pieces(demand, visits)
        if demand.cost is not None:
            return -(-demand.cost // pieces)
        if pieces == 1 and demand.size <= self._max_packet:
            return self.interface.cost(demand.size + self._envelope)
        largest = -(-demand.size // pieces)
        room = self._max_packet - NUMBER
        full = (largest - 1) // room
        last = largest - full * room + NUMBER
        return full * self.interface.cost(self._max_packet + self._envelope) + self.interface.cost(last + self._envelope)

    def judge(self, demand: Demand, used: Nanoseconds, *, waited: Nanoseconds = 0) -> Verdict:
        """Whether a demand can be promised where ``used`` of each turn is taken (with what the ring needs), ``waited`` after the
        application has asked; only a message that is handed over when it is asked for can have waited."""
        visits = self.visits(demand.deadline - waited)
        pieces = self.pieces(demand, visits) if visits >= 1 else 0
        share = self.share(demand, visits) if visits >= 1 else 0
        verdict = Verdict(demand, visits, pieces, share, used + share)
        deadline = f"the deadline of {demand.name} ({format_duration(demand.deadline)}"
        if 0 < demand.period < demand.deadline:
            period = format_duration(demand.period)
            text = f"{deadline}) is longer than its period ({period})"
            hopeless = f"a deadline must not be longer than the period, {period}"
            return dataclasses.replace(verdict, term="period", text=f"{TERMS['period']}: {text}", hopeless=hopeless)
        if visits >= 1 and used + share <= self.hold:
            return verdict
        nearest, hopeless = self._nearest(demand, used, waited)
        if visits < 1:
            passed = f", of which {readable(waited)} have passed" if waited else ""
            term, text = "visits", f"{deadline}{passed}) is shorter than Delta + P = {readable(self.delay + self.rotation)}"
        else:
            term, text = "load", f"with {demand.name} ({readable(share)} in each of {visits} turns) a turn would take "
            text += f"{readable(used + share)}, and T is {readable(self.hold)}"
        return dataclasses.replace(verdict, term=term, text=f"{TERMS[term]}: {text}", nearest=nearest, hopeless=hopeless)

    def admit(self, demands: Sequence[Demand]) -> tuple[list[Verdict], Nanoseconds]:
        """Judges demands as they come: each beside those that were admitted before it. What was not admitted is judged again
        beside all that were, so that its nearest deadline is one with which it could be asked for now. And: what of T is used."""
        used = self.reserved
        verdicts = []
        for demand in demands:
            verdict = self.judge(demand, used)
            used += verdict.share if verdict.is_admitted else 0
            verdicts.append(verdict)
        return [verdict if verdict.is_admitted else self.judge(verdict.demand, used) for verdict in verdicts], used

    def demanded(self, demands: Sequence[Demand]) -> Nanoseconds:
        """What all demands would take of a turn together, those that cannot be promised among them (with n = 1 at the least)."""
        return self.reserved + sum(self.share(demand, max(1, self.visits(demand.deadline))) for demand in demands)

    def _nearest(self, demand: Demand, used: Nanoseconds, waited: Nanoseconds) -> tuple[Nanoseconds | None, str]:
        """The shortest deadline from the demanded one on that can be promised; or None, and why."""
        room = self.hold - used
        most = max(1, demand.cost if demand.cost is not None else demand.size // self._smallest)
        if self.share(demand, most) > room:
            return None, (
                f"even cut into {most} pieces, the smallest there are, it takes {readable(self.share(demand, most))} of a "
                f"turn, and {readable(max(room, 0))} of T are left"
            )
        least = 1 + bisect.bisect_left(range(1, most), True, key=lambda pieces: self.share(demand, pieces) <= room)
        nearest = max(demand.deadline, self.delay + least * self.rotation + waited)
        if 0 < demand.period < nearest:
            return None, (
                f"{enough(nearest)} would do, but a deadline must not be longer than the period, {format_duration(demand.period)}"
            )
        return nearest, ""
