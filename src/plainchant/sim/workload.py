"""Who sends what: sources that hand messages to processes.

An open loop hands over at its rate, whatever the protocol does. A closed loop keeps a number of messages under way:
one is done when its sender delivers it. A source that is as fast as accepted keeps a bounded queue full. The latter
two refill by an event of their own, never within the engine's turn, and with a little time in between, so that a
protocol that takes everything at once cannot make time stand still.

Messages with a deadline have to be admitted before they are sent. A regular source asks for a stream when it begins, and sends as
long as it is admitted; one with random arrivals asks for each message as it comes.

A message says who sent it: it starts with ``sender/group/n`` and is padded (or cut off) to its size. ``n`` counts
what this process handed over in the group, which is the message's number, because messages are taken in order. (With a
deadline it is ``sender/group/stream/n``, and numbers are those of the moment at which messages are taken.)
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from random import Random
from typing import Final

from ..core.model import SECOND, US, Stream
from ..scenario.model import Workload
from ..scenario.traffic import WAITING, payload_of
from .host import SimHost
from .outgoing import Outgoing

REFILL: Final = 10 * US  # time between two refills of a source that would otherwise fall on one instant


@dataclasses.dataclass(slots=True)
class Numbering:
    """Numbers the messages of one process in one group, over all its sources and its application."""

    count: int = 0
    owners: dict[int, Source] = dataclasses.field(default_factory=dict)

    def inserted(self, first: int, count: int) -> None:
        """Messages that were handed over elsewhere got these numbers: those that wait get larger ones."""
        self.count += count
        if self.owners:
            self.owners = {seq if seq < first else seq + count: source for seq, source in self.owners.items()}


class Source:
    """One process's share of one ``[[workload]]`` in one group."""

    def __init__(
        self, host: SimHost, group: str, workload: Workload, numbering: Numbering, random: Random, stop: int, stream: str = ""
    ) -> None:
        self._kernel = host.kernel
        self._host = host
        self._outgoing = Outgoing(host)
        self.group = group
        self._workload = workload
        self._numbering = numbering
        self._random = random
        self._stop = min(stop, workload.stop or stop)
        self._left = workload.count or -1
        self._under_way = 0
        self._ticks = 0
        self._first_tick = 0
        self._gap = workload.burst / workload.rate * SECOND if workload.rate else 0.0
        self._poisson = workload.arrivals == "poisson"
        self._pending = False
        self._refilled = -1
        self.stopped = False
        self.stream = stream  # the name of its stream, where its messages have a deadline

    @property
    def greedy(self) -> bool:
        return not self._workload.closed and not self._workload.rate

    @property
    def watches(self) -> bool:
        """Whether it needs to know what becomes of its messages."""
        return bool(self._workload.closed or self._workload.deadline) or self.greedy

    @property
    def _has_stream(self) -> bool:
        return bool(self._workload.deadline) and not self._poisson

    def start(self) -> None:
        """Begins at the workload's start, or now for a process that came later."""
        step: Callable[[None], None] = self._tick if self._workload.rate and not self._workload.closed else self._refill
        self._kernel.at(self._workload.start, self._ask if self._has_stream else step)

    def _ask(self, _: None) -> None:
        """Asks for the stream; what follows is up to the protocol."""
        if not self.stopped and self._kernel.now < self._stop:
            workload = self._workload
            self._outgoing.ask(self.group, Stream(self.stream, workload.size, workload.deadline, int(self._gap)))

    def admitted(self) -> None:
        """The stream is there: sending begins."""
        self._kernel.at(self._kernel.now, self._tick)

    def rejected(self) -> None:
        """The stream is not there, or no longer."""
        self.stopped = True

    def taken(self) -> None:
        """The protocol took messages: a queue that runs low is filled again, soon."""
        if self.greedy and self._kernel.now >= self._workload.start and self._waiting() <= WAITING // 2:
            self._refill_soon()

    def _waiting(self) -> int:
        return len(self._host.queues.get(self.group, ()))

    def done(self) -> None:
        """One of this source's messages was delivered at its sender."""
        self._under_way -= 1
        if self._workload.closed:
            self._refill_soon()

    def _tick(self, _: None) -> None:
        """An open loop's next burst."""
        if not self._hand_over(self._workload.burst):
            if self._has_stream:
                self._host.release(self.group, self.stream)
            return
        now = self._kernel.now
        if self._poisson:
            due = now + round(self._random.expovariate(1 / self._gap))
        else:
            # Counted from the first, so that rounding does not add up.
            if not self._ticks:
                self._first_tick = now
            self._ticks += 1
            due = self._first_tick + round(self._ticks * self._gap)
        self._kernel.at(max(now + 1, due), self._tick)

    def _refill_soon(self) -> None:
        if not self._pending:
            self._pending = True
            self._kernel.at(self._kernel.now + (REFILL if self._refilled == self._kernel.now else 0), self._refill)

    def _refill(self, _: None) -> None:
        self._pending = False
        self._refilled = self._kernel.now
        if self._workload.closed:
            room = self._workload.closed - self._under_way
            if room >= min(self._workload.burst, self._workload.closed):
                self._hand_over(room)
        else:
            self._hand_over(WAITING - self._waiting())

    def _hand_over(self, count: int) -> bool:
        """Hands over messages; False when this source has nothing more to say."""
        if self._left >= 0:
            count = min(count, self._left)
        if self.stopped or count <= 0 or self._kernel.now >= self._stop:
            return False
        if self._workload.deadline:
            return self._hand_over_in_time(count)
        numbering = self._numbering
        first = numbering.count + 1
        numbering.count += count
        self._under_way += count
        if self._left > 0:
            self._left -= count
        if self._workload.closed:
            numbering.owners.update(dict.fromkeys(range(first, first + count), self))
        me, size = self._host.me, self._workload.size
        self._host.work += count * self._workload.cost
        return self._outgoing.accept(self.group, [payload_of(me, self.group, n, size) for n in range(first, first + count)])

    def _hand_over_in_time(self, count: int) -> bool:
        """Hands over messages with a deadline."""
        host, workload = self._host, self._workload
        for _ in range(count):
            self._under_way += 1
            host.work += workload.cost
            name = self.stream if self._has_stream else self._outgoing.new_stream_name()
            payload = payload_of(host.me, f"{self.group}/{name}", self._under_way, workload.size)
            if self._has_stream:
                accepted = self._outgoing.accept_in(self.group, name, payload)
            else:
                accepted = self._outgoing.ask(self.group, Stream(name, workload.size, workload.deadline), payload)
            if not accepted:
                return False
        if self._left > 0:
            self._left -= count
        return True
