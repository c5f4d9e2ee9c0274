"""What stands between the network and the ring: packets that come too early wait for those before them.

**Overtaking.** Only a broadcast medium delivers packets of different senders in the order in which they were sent. Elsewhere N1's
packet to B may take d_max while the token and N2's packet take less. So an early packet waits d_max: everything before it in the
order was sent before it, and comes by then or not at all (P3). What is missing after that is an omission; the next packet is
passed up to the ring, which finds it (4.2).

**Retransmission** (4.6; with r > 0). What is lost (a later packet of its sender is here, or d_max has passed) is asked for
instead, on the heartbeat of our next turn. Every heartbeat passes requests on to the sender, which may hear the token before it
hears us; it sends the packet again, first thing in its own next turn. A counter begins at r with the turn that asks, and every
later turn takes one from it: so each of r requests has a whole rotation to be answered. (If the asking turn counted too, r = 1
would ask and give up at once.) When it is used up and d_max more has passed, the omission is passed up. Requests for packets of
an eliminated member are answered by every member that has them, unless another has done so.

Tokens and changes do not wait here: the ring hears of them at once (``Ring.hears``), or a member that misses something would wait
for a token from the dead. Only their place in the order is kept.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Final

from ...core.engine import Host, Layer
from ...core.model import Packet, ProcessId, Reason, Timer
from .order import Order, Place
from .packets import Ask, Asked, Data

if TYPE_CHECKING:
    from .ring import Ring

MOST_EARLY: Final = 4096  # Packets that wait for those before them; further ones are lost, and asked for
MOST_FOREIGN: Final = 64  # Of these, packets of senders that are not on the ring, as far as is known
MOST_PASSED: Final = 128  # Requests of others that are passed on at once
_TIMER: Final = ("gaps", "hold")


class Gaps(Layer):
    """The queue Q_I, the requests and the packets that are kept to be sent again."""

    inner: Ring

    def __init__(self, host: Host, inside: Callable[[Host], Ring], retransmissions: int) -> None:
        super().__init__(host, inside)
        self._retransmissions = retransmissions
        self._queue: dict[tuple[ProcessId, int], tuple[int, Data]] = {}  # Early packets by sender and number, with when they came
        self._kept: dict[ProcessId, dict[int, Data]] = {}
        self._wanted: dict[tuple[ProcessId, int], dict[ProcessId, None]] = {}  # Packets that we are to send again, and to whom
        self._head: tuple[ProcessId, int] | None = None  # What was missing first when we last asked
        self._left = 0  # Turns that may still pass before it is an omission
        self._given_up = False
        self._passing: dict[tuple[ProcessId, ProcessId, int], Asked] = {}  # Recent requests, by asker, sender and first number
        self._turn_before = 0
        self._noticed: dict[tuple[ProcessId, int], int] = {}  # What is missing, and when that was noticed
        self.inner.gaps = self

    def reset(self) -> None:
        """The ring is another one."""
        self.host.cancel_timer(_TIMER)
        for known in (self._queue, self._kept, self._wanted, self._noticed, self._passing):
            known.clear()
        self._head, self._left, self._given_up, self._turn_before = None, 0, False, 0

    def receive(self, source: ProcessId, packet: Packet) -> None:
        if isinstance(packet, Data):
            if self.inner.hears(source, packet):
                self.accept(source, packet)
                self.inner.let_out()
        else:
            self.inner.receive(source, packet)

    def accept(self, source: ProcessId, data: Data) -> None:
        """Takes a packet that the ring has heard into the order, or keeps it until its turn comes."""
        if source != data.sender:
            self._wanted.pop((data.sender, data.seq), None)
        order = self.inner.order
        if order is None:
            return
        place = order.place(data)
        if place is Place.OLD:
            return
        if place is Place.EARLY:
            if self._has_room(data):
                self._queue.setdefault((data.sender, data.seq), (self.host.now, data))
            if self.inner.out:
                self._drain()  # turns of members that are gone may have been all that lay between
            self._arm()
            return
        self._pass_up(data)
        if self._queue:
            self._drain()

    def _is_foreign(self, data: Data) -> bool:
        """Whether its sender is on no ring that we know of: a change may have let it in that we have not heard of."""
        order = self.inner.order
        known = data.sender in self.inner.ring or data.sender in self.inner.out
        return not known and (order is None or data.sender not in order.members)

    def _has_room(self, data: Data) -> bool:
        if self._is_foreign(data):
            return sum(1 for _, other in self._queue.values() if self._is_foreign(other)) < MOST_FOREIGN
        return len(self._queue) < MOST_EARLY + MOST_FOREIGN

    def _pass_up(self, data: Data) -> None:
        if self._retransmissions:
            self._kept.setdefault(data.sender, {})[data.seq] = data
        self.inner.ordered(data)

    def _drain(self) -> None:
        """Passes up what is no longer early."""
        while (order := self.inner.order) is not None and (data := self._next(order)) is not None:
            self._pass_up(data)
        self._arm()

    def _next(self, order: Order) -> Data | None:
        for key, (_, data) in sorted(self._queue.items(), key=lambda item: item[1][1].visit):
            place = order.place(data)
            if place is Place.EARLY:
                continue
            del self._queue[key]
            if place is not Place.OLD:
                return data
        return None

    def _arm(self) -> None:
        if not self._queue:
            self.host.cancel_timer(_TIMER)
            self._given_up = False
            return
        if not self._retransmissions:
            oldest = min(came for came, _ in self._queue.values())
            self.host.set_timer(_TIMER, oldest + self.inner.interface.hold_back)

    def expire(self, timer: Timer) -> None:
        if timer != _TIMER:
            self.inner.expire(timer)
            return
        for key in [key for key, (_, data) in self._queue.items() if self._is_foreign(data)]:
            del self._queue[key]  # nobody has said that it was let in, and the others' packets tell if something is missing
        if self._queue and self.inner.order is not None and (not self._retransmissions or self._given_up):
            # What is missing does not come. The ring finds the omission itself, as it would without us.
            self.inner.ordered(min((data for _, data in self._queue.values()), key=lambda data: data.visit))

    def asks(self) -> tuple[Asked, ...]:
        """In our turn: what we miss, and what members miss that spoke since our last turn: requests come with the token."""
        if not self._retransmissions:
            return ()
        visit = self.inner.visit
        passing = [asked for asked in self._passing.values() if asked[1] > self._turn_before]
        self._turn_before = visit
        return (*((self.me, visit, *ask) for ask in self._own_asks()), *passing)

    def _own_asks(self) -> tuple[Ask, ...]:
        """What we miss. Counts the turns that a gap has had."""
        order = self.inner.order
        if order is None:
            return ()
        found, now = self._missing(order), self.host.now
        self._noticed = {key: since for key, since in self._noticed.items() if order.lacks(*key)}
        for sender, seq, _ in found:
            self._noticed.setdefault((sender, seq), now)
        missing = [ask for ask in found if self._is_lost(ask)]
        if not missing:
            self._head = None
            return ()
        head = missing[0][:2]
        if head != self._head:
            self._head, self._left, self._given_up = head, self._retransmissions, False
        else:
            self._left -= 1
            if self._left <= 0:
                self._give_up()
                return ()
        for sender, first, last in missing:
            self.host.record("ask", self.inner.group, sender=sender, first=first, last=last, left=self._left)
        return tuple(missing)

    def _missing(self, order: Order) -> list[Ask]:
        """What is not there; one's own packets are, and come back from the network."""
        have: dict[ProcessId, set[int]] = {}
        for sender, seq in self._queue:
            have.setdefault(sender, set()).add(seq)
        found = order.missing(self.inner.heard_visit, have, self.inner.ends, self.inner.out)
        return [ask for ask in found if ask[0] != self.me]

    def _is_lost(self, ask: Ask) -> bool:
        """Whether a missing packet can only be lost: its sender's later heartbeat is here (P2), or d_max has passed."""
        waited = self.host.now - self._noticed[ask[:2]]
        return waited >= self.inner.interface.hold_back or (ask[2] != -1 and ask[0] not in self.inner.disordered)

    def _give_up(self) -> None:
        if not self._given_up:
            self._given_up = True
            self.host.set_timer(_TIMER, self.host.now + self.inner.interface.hold_back)

    def heard_asks(self, source: ProcessId, visit: int, asks: Iterable[Asked]) -> None:
        """Somebody's heartbeat asks for packets, or passes on that others do."""
        order = self.inner.order
        if order is None:
            return
        self._passing = {key: asked for key, asked in self._passing.items() if asked[0] != source or asked[1] >= visit}
        for asked in list(asks)[:MOST_PASSED]:
            asker, turn, sender, first, last = asked
            if len(self._passing) >= MOST_PASSED:
                break
            key = asker, sender, first
            known = self._passing.get(key)
            if asker == self.me or asker not in self.inner.ring or (known is not None and known[1] >= turn):
                continue
            self._passing[key] = asked
            if sender != self.me and sender in self.inner.ring:
                continue
            for seq in self._sent_or_kept(sender):
                if order.ahead(seq, first) >= 0 and (last == -1 or order.ahead(seq, last) <= 0):
                    self._wanted.setdefault((sender, seq), {})[asker] = None

    def _sent_or_kept(self, sender: ProcessId) -> dict[int, Data]:
        return self._kept.get(sender, {}) | {seq: data for (other, seq), (_, data) in self._queue.items() if other == sender}

    def bring_back(self) -> None:
        """What we have sent and not heard ourselves, though our heartbeat has come back: only our own copy is lost."""
        order = self.inner.order
        if order is None or not self._retransmissions:
            return
        for data in sorted(self._kept.get(self.me, {}).values(), key=lambda data: order.ahead(data.seq, order.seqs[self.me])):
            if order.place(data) in (Place.NEXT, Place.EARLY) and (self.me, data.seq) not in self._queue:
                self.accept(self.me, data)
                if self.inner.order is None:
                    return

    def sent(self, data: Data) -> None:
        """A packet of our own: kept from the moment that it leaves, whether we hear it or not."""
        if self._retransmissions:
            self._kept.setdefault(self.me, {})[data.seq] = data

    def resends(self) -> list[tuple[tuple[ProcessId, ...], Data]]:
        """In our turn: what others have asked for, and who, in the order of the ring. It is theirs to be sent now."""
        if not self._wanted:
            return []
        asked = ((tuple(targets), self._sent_or_kept(sender).get(seq)) for (sender, seq), targets in self._wanted.items())
        found = [(targets, data) for targets, data in asked if data is not None]
        self._wanted.clear()
        return sorted(found, key=lambda item: (item[1].visit, item[1].seq))

    def want_again(self, rest: Iterable[tuple[tuple[ProcessId, ...], Data]]) -> None:
        """What our turn had no time for stays for the next."""
        for targets, data in rest:
            self._wanted.setdefault((data.sender, data.seq), {}).update(dict.fromkeys(targets))

    @property
    def has_resends(self) -> bool:
        return bool(self._wanted)

    def forget(self, before: int) -> None:
        """Nobody will ask for packets of turns before this one any more."""
        recent = (
            (sender, {seq: data for seq, data in kept.items() if data.visit >= before}) for sender, kept in self._kept.items()
        )
        self._kept = {sender: kept for sender, kept in recent if kept}

    def waits(self, sender: ProcessId, seq: int) -> bool:
        """Whether a packet waits here."""
        return (sender, seq) in self._queue

    def waiting(self) -> Reason | None:
        waiting = [data for _, data in self._queue.values() if data.batch is not None or data.word is not None]
        if waiting:
            return Reason("gap", f"{len(waiting)} packets at {self.me} wait for what comes before them")
        return self.inner.waiting()
