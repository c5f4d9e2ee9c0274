"""What a member sends in one turn (4.1), and how much of its T that takes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from ...core.model import Batch, ProcessId
from .packets import Change, Data, Word
from .sizes import Sizes

if TYPE_CHECKING:
    from .gaps import Gaps
    from .ring import Ring


class Turn:
    """What is sent in one turn, and how much of T it takes."""

    def __init__(self, ring: Ring, budget: int) -> None:
        self._ring, self._budget = ring, budget
        self._envelope = 0
        self.sizes: Sizes
        self.fit(ring.ring)
        self._most = max(4, ring.parameters.numbers // (2 * (ring.parameters.retransmissions + 3)))
        """Packets in a turn: numbers that begin again must not be taken for those of the turns before."""
        self._pending: tuple[Data, tuple[ProcessId, ...]] | None = None
        self._has_ended = False
        self.spent = self.packets = 0
        self.word: Word | None = None
        self.word_is_last = False

    def fit(self, ring: tuple[ProcessId, ...]) -> None:
        """Reckons with the packets of this ring: it may be about to grow."""
        self.sizes = self._ring.interface.sizes(ring)
        self._envelope = self._ring.interface.envelope(ring)

    @property
    def left(self) -> int:
        """Time that is left of the turn besides the heartbeats."""
        beats = self._ring.parameters.heartbeats * self._ring.interface.cost(self.sizes.beat)
        return self._budget - beats - self.spent

    def charge(self, size: int) -> None:
        self.spent += self._ring.interface.cost(size)
        self.packets += 1

    def say(self, word: Word, to: tuple[ProcessId, ...]) -> None:
        self.word = word
        self._queue(word=word, to=to)
        if isinstance(word, Change):
            self._ring.sponsor.change_seq = self._ring.seq

    def go_ahead(self, *, is_goodbye: bool) -> None:
        """Sends what is kept back: other packets follow, and a membership change comes first (4.3). A goodbye is its sender's
        last packet, though it may send those of others again after it."""
        self._has_ended = is_goodbye
        self._flush(last=is_goodbye)

    def resend(self, gaps: Gaps) -> None:
        ring = self._ring
        wanted = gaps.resends()
        for place, (targets, data) in enumerate(wanted):
            size = self._size(data.batch, data.word)
            if ring.interface.cost(size) > self.left:
                gaps.want_again(wanted[place:])
                return
            ring.host.record("retransmit", ring.group, to=list(targets), sender=data.sender, number=data.seq, visit=data.visit)
            self.charge(size)
            ring.host.send(targets, msgspec.structs.replace(data, at=ring.stamp(self.spent)))

    def take(self) -> bool:
        """Takes messages as far as the time goes; whether there may be more."""
        ring = self._ring
        while True:
            room = min(ring.host.max_packet, ring.interface.room(self.left) - self._envelope)
            if room < 1 or self.packets >= self._most:
                return True
            batch = ring.host.take(ring.group, room)
            if batch is None:
                return False
            self._queue(batch=batch, to=ring.ring)

    def _queue(self, *, batch: Batch | None = None, word: Word | None = None, to: tuple[ProcessId, ...]) -> None:
        """Keeps one packet back: only when the next one comes is it known that it was not the last."""
        self._flush(last=False)
        ring = self._ring
        ring.seq = (ring.seq + 1) % ring.parameters.numbers
        size = self._size(batch, word)
        at = ring.stamp(self.spent + ring.interface.cost(size))
        data = Data(ring.group, ring.name, ring.number, ring.visit, ring.me, ring.seq, False, at, batch, word, ring.changed_by)
        self._pending = data, to
        if batch is not None:
            ring.said = ring.seq
        self.charge(size)

    def _size(self, batch: Batch | None, word: Word | None) -> int:
        if word is not None:
            return self.sizes.change
        return self._envelope + (len(batch.body) if batch is not None else 0)

    def _flush(self, *, last: bool) -> None:
        if self._pending is None:
            return
        data, to = self._pending
        self._pending = None
        if last:
            data = msgspec.structs.replace(data, last=True)
            self.word_is_last = data.word is not None
        ring = self._ring
        if isinstance(data.word, Change) and data.word.left == ring.me:
            ring.farewell = data
        if ring.gaps is not None:
            ring.gaps.sent(data)
        ring.host.send(tuple(dict.fromkeys((*to, ring.me))), data)

    def end(self) -> None:
        """Marks the last packet; every turn has one."""
        if self._has_ended:
            return
        if self._pending is None:
            self._queue(to=self._ring.ring)
        self._flush(last=True)
