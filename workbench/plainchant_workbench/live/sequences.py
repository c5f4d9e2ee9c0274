"""Did every member deliver the same messages in the same order, each sender's without a gap? Checked while it is measured.

Theory of operation
-------------------
Looking at every message would cost as much as some of what is measured. But each sender's messages are numbered, so that they
are delivered in *runs*: consecutive messages of one sender. If a message and the one ``k`` further on have the same sender and
numbers that differ by ``k``, then all between them belong to that run, unless numbers within it are out of order. So the end of
a run is found by a few probes. That each run begins where its sender's last one ended is always checked, and so are the
payloads at its ends; the digest of all runs (sender, first number, length) is the same at two members only if their orders
are the same. What probes may miss, an exchange within a run, is looked for message by message while the measurement warms up
(``thorough``).
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from typing import Any

from .processes import BenchError, MemberLost


class Order:
    """What one member has delivered."""

    def __init__(self) -> None:
        self.total = 0
        self.counts: dict[str, int] = {}
        self._next: dict[str, int] = {}
        """For each sender, the number of its next message."""
        self._sender = ""
        self._first = 0
        """Where the run began that may go on."""
        self._digest = 0

    @property
    def digest(self) -> int:
        """Of all runs until now, the open one included."""
        return self._with_open_run() if self._sender else 0

    def run(self, sender: str, first: int, length: int) -> None:
        """The sender's messages ``first`` and so on were delivered."""
        expected = self._next.get(sender, first)
        if first != expected:
            raise BenchError(f"after message {expected - 1} of {sender} came its message {first}")
        if sender != self._sender:
            if self._sender:
                self._digest = self._with_open_run()
            self._sender = sender
            self._first = first
        self.total += length
        self._next[sender] = first + length
        self.counts[sender] = self.counts.get(sender, 0) + length

    def _with_open_run(self) -> int:
        sender = self._sender
        return zlib.crc32(b"%s %d %d;" % (sender.encode(), self._first, self._next[sender]), self._digest)


class Runs:
    """Finds the runs in batches of messages. ``message`` is their type; anything else must not come any more."""

    def __init__(self, order: Order, message: type[Any], size: int) -> None:
        self._order = order
        self._message = message
        self._size = size
        self._guess = 1
        self.thorough = True

    def add(self, batch: Sequence[Any]) -> None:
        """Takes the next deliveries."""
        at, end, size = 0, len(batch), self._size
        while at < end:
            message = batch[at]
            if message.__class__ is not self._message:
                lost = getattr(message, "left", None)
                if lost:
                    raise MemberLost(f"while it was measured the group lost {', '.join(lost)}: {next(iter(lost.values())).text}")
                raise BenchError(f"while it was measured came, instead of messages, {message!r}")
            sender, first = message.sender, message.seq
            after = self._end(batch, at, sender, first - at)
            if len(message.payload) != size or len(batch[after - 1].payload) != size:
                raise BenchError(f"a message of {sender} has not {size} bytes, as it was sent")
            self._order.run(sender, first, after - at)
            at = after

    def _end(self, batch: Sequence[Any], at: int, sender: str, base: int) -> int:
        """The index after the last message of the run at ``at``, whose numbers are ``base`` more than their indices."""

        def belongs(index: int) -> bool:
            message = batch[index]
            return message.__class__ is self._message and message.sender == sender and message.seq - index == base

        end = len(batch)
        if self.thorough:
            return next((index for index in range(at + 1, end) if not belongs(index)), end)
        guess = min(end, at + self._guess)  # runs are often of one length: as much as a packet holds
        if belongs(guess - 1) and (guess == end or not belongs(guess)):
            return guess
        inside, outside = at, end
        step = 1
        while inside + step < outside:
            if not belongs(inside + step):
                outside = inside + step
                break
            inside += step
            step *= 2
        while outside - inside > 1:
            middle = (inside + outside) // 2
            if belongs(middle):
                inside = middle
            else:
                outside = middle
        self._guess = outside - at
        return outside
