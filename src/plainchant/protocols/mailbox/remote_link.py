"""A reliable link over datagrams between a remote process and the one that acts for it (A.2).

Items are cut into pieces, which are numbered and kept until they are acknowledged. What arrives is put in order, and repetitions
are dropped. An acknowledgement says up to where everything is there, and which pieces are missing before later ones: those are
sent again at once, the others when twice the usual round trip has passed, and then less and less often. A piece that completes an
item is acknowledged at once. Both sides say something now and then even if there is nothing to say. A side that hears nothing for
the time of :func:`silence` takes the other for gone.

**The bound.** A process cannot see how long a packet took, because the clocks of the two sides are independent; it sees how long
it took until the acknowledgement came. So the parameter ``datagram`` bounds that; a packet alone takes less. What takes longer,
lost packets that were sent again included, is told once (``overdue``), for it is a timing failure."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from ...core.engine import Host
from ...core.model import MS, SECOND, GroupId, ProcessId, Reason, WireError, format_duration
from .parameters import Parameters
from .remote_packets import AnyItem, Heard, Piece, item_from_bytes, item_to_bytes

PIECE: Final = 1200  # bytes of an item in a piece: they go through any network in one datagram
WINDOW: Final = 256  # pieces that are under way at once, in each direction
SPARE: Final = 64 << 10  # bytes of an item beside the message in it, at most
_TOLD_MISSING: Final = 64
_ACKNOWLEDGED_EVERY: Final = 8
_FIRST_GUESS: Final = 10 * MS
_SLOWEST: Final = 5  # how often the interval between two transmissions of a piece doubles


def silence(parameters: Parameters) -> int:
    """How long one side hears nothing before it takes the other for gone."""
    return max(2 * SECOND, 8 * parameters.datagram)


def unnoticed(parameters: Parameters) -> int:
    """How long nobody can know that the other side is gone: its sign of life may just have come, and the next may be late."""
    return silence(parameters) // 2


@dataclass(slots=True)
class _Sent:
    """A piece that is not acknowledged; ``first`` and ``last``: when it was sent."""

    number: int
    more: bool
    body: bytes
    first: int
    last: int = 0
    tries: int = 0


class Link:
    """One side of a link. ``hear`` gets what the other side says, ``lost`` why the link is at its end, ``overdue`` how long a
    packet and its acknowledgement took when that was too long."""

    def __init__(
        self, host: Host, group: GroupId, peer: ProcessId, session: int, parameters: Parameters,
        hear: Callable[[AnyItem], None], lost: Callable[[Reason], None], overdue: Callable[[int], None],
    ) -> None:  # fmt: skip
        self.host, self.group, self.peer, self.session = host, group, peer, session
        self.established = False  # whether the other side has been heard at all
        self.closed = False  # nothing more is said; what comes is still acknowledged
        self.resting = False  # what was said is not said again before the other side is heard
        self._hear, self._lost, self._overdue = hear, lost, overdue
        self._bound = parameters.datagram
        self._silence = silence(parameters)
        self._beat = self._silence // 8
        self._timer = ("link", peer)
        self._heard_at = self._spoke_at = self._begun_at = host.now
        self._was_overdue = False
        self._round_trip = min(parameters.datagram, _FIRST_GUESS)  # about as long as a packet and its acknowledgement take
        self._number = 0
        self._waiting: deque[tuple[bool, bytes]] = deque()
        self._under_way: dict[int, _Sent] = {}
        self._there = 0  # all pieces up to this one have come
        self._early: dict[int, tuple[bool, bytes]] = {}
        self._parts: list[bytes] = []
        self._parts_bytes = 0
        self._longest = parameters.room + SPARE  # bytes of an item, at most
        self._told = 0  # what was acknowledged last

    @property
    def backlog(self) -> int:
        """Pieces that the other side has not acknowledged."""
        return len(self._under_way) + len(self._waiting)

    @property
    def unacknowledged(self) -> int:
        """How long (ns) the oldest packet under way has not been acknowledged; 0: none is."""
        return self.host.now - min((sent.first for sent in self._under_way.values()), default=self.host.now)

    def waiting(self) -> Reason | None:
        """What is under way, or why the other side may be gone; None: nothing is."""
        if self.closed or self.resting:
            return None
        if self.backlog:
            return Reason("link", f"{self.backlog} packets of {self.host.me} to {self.peer} are not acknowledged")
        if self.host.now - self._heard_at > 2 * self._beat:
            return Reason("unheard", f"{self.host.me} has not heard {self.peer} for a while")
        return None

    def say(self, item: AnyItem) -> None:
        if self.closed:
            return
        data = item_to_bytes(item)
        last = (len(data) - 1) // PIECE
        for index in range(last + 1):
            self._waiting.append((index < last, data[index * PIECE : (index + 1) * PIECE]))
        self._push()
        self._arm()

    def _push(self) -> None:
        while self._waiting and self._number < next(iter(self._under_way), self._number + 1) + WINDOW - 1:
            more, body = self._waiting.popleft()
            self._number += 1
            piece = self._under_way[self._number] = _Sent(self._number, more, body, self.host.now)
            self._transmit(piece)

    def _transmit(self, sent: _Sent) -> None:
        self._told = self._there
        self._spoke_at = sent.last = self.host.now
        self.host.send((self.peer,), Piece(self.group, self.session, sent.number, self._there, sent.more, sent.body))

    def _answer(self) -> None:
        self._told = self._there
        self._spoke_at = self.host.now
        seen, missing = 0, list[int]()
        if self._early:
            seen = max(self._early)
            missing = [number for number in range(self._there + 1, seen) if number not in self._early]
            if len(missing) > _TOLD_MISSING:
                seen = missing[_TOLD_MISSING] - 1
                del missing[_TOLD_MISSING:]
        self.host.send((self.peer,), Heard(self.group, self.session, self._there, seen, tuple(missing)))

    def receive(self, packet: Piece | Heard) -> None:
        now = self._heard_at = self.host.now
        self.resting = False
        if not self.established:
            self.established, self._begun_at = True, now
        self._release(packet.acknowledged)
        if isinstance(packet, Heard):
            self._release(packet.seen, packet.missing)
            for number in packet.missing:
                sent = self._under_way.get(number)
                if sent is not None and now - sent.last >= self._round_trip:
                    sent.tries += 1
                    self._transmit(sent)
            items: list[AnyItem] = []
        else:
            try:
                items = self._take_in(packet)
            except WireError as error:
                self._lost(Reason("garbled", f"what {self.peer} says cannot be read: {error}"))
                return
        self._push()
        for item in items:
            if not self.closed:
                self._hear(item)
        self._arm()

    def _release(self, last: int, missing: tuple[int, ...] = ()) -> None:
        """What the other side has got, up to the last but for what is missing, need not be kept."""
        now, under_way, missing_ = self.host.now, self._under_way, frozenset(missing)
        for number in [number for number in under_way if number <= last and number not in missing_]:
            sent = under_way.pop(number)
            took = now - sent.first
            if not sent.tries:
                self._round_trip += (took - self._round_trip) // 4
            else:
                # Which of them was acknowledged nobody knows; if it was the first, the estimate is too short.
                self._round_trip = max(self._round_trip, min(took, self._round_trip * 5 // 4))
            if took > self._bound and sent.first >= self._begun_at:
                self._tell_overdue(took)

    def _tell_overdue(self, took: int) -> None:
        if not self._was_overdue:
            self._was_overdue = True
            self._overdue(took)

    def _take_in(self, piece: Piece) -> list[AnyItem]:
        """The items that are complete with this piece; it is acknowledged if that is worth a packet."""
        if len(piece.body) > PIECE:
            raise WireError(f"a piece of {len(piece.body)} bytes, and {PIECE} are the most")
        is_new = piece.number > self._there and piece.number not in self._early
        if self._there < piece.number <= self._there + WINDOW:
            self._early[piece.number] = (piece.more, piece.body)
        complete: list[bytes] = []
        while (next_one := self._early.pop(self._there + 1, None)) is not None:
            self._there += 1
            more, body = next_one
            self._parts.append(body)
            self._parts_bytes += len(body)
            if self._parts_bytes > self._longest:
                raise WireError(f"what is said does not end after {self._parts_bytes} bytes")
            if not more:
                complete.append(b"".join(self._parts))
                self._parts.clear()
                self._parts_bytes = 0
        if complete or self._early or not is_new or self._there - self._told >= _ACKNOWLEDGED_EVERY:
            self._answer()
        return [item_from_bytes(data) for data in complete]

    def expire(self) -> None:
        """The link's timer."""
        if self.closed:
            return
        now = self.host.now
        if now - self._heard_at >= self._silence:
            text = f"{self.host.me} has heard nothing from {self.peer} for {format_duration(self._silence)}"
            self._lost(Reason("silence", text, {"peer": self.peer, "silence_ns": self._silence}))
            return
        for sent in self._under_way.values():
            if now >= self._due(sent):
                sent.tries += 1
                self._transmit(sent)
        if now - self._spoke_at >= self._beat:
            self._answer()
        self._arm()

    def _due(self, sent: _Sent) -> int:
        return sent.last + min((2 * self._round_trip + MS) << min(sent.tries, _SLOWEST), self._beat)

    def _arm(self) -> None:
        if self.closed or self.resting:
            return
        next_time = min(self._spoke_at + self._beat, self._heard_at + self._silence)
        if self._under_way:
            next_time = min(next_time, self._due(next(iter(self._under_way.values()))))
        self.host.set_timer(self._timer, max(next_time, self.host.now))

    def rest(self) -> None:
        """Waits for the other side, which may be gone."""
        self.resting = True
        self.host.cancel_timer(self._timer)

    def close(self) -> None:
        """The end of it: nothing is said any more."""
        if not self.closed:
            self.closed = True
            self._waiting.clear()
            self._under_way.clear()
            self.host.cancel_timer(self._timer)
