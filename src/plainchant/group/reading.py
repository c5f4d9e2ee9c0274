"""Reading: the bounded buffer between a host and its application, and the streams that read it.

Deliveries and views are kept in order until they are read; then event objects are made for many at once, so that a message costs
little. When too much is unread the protocol is told (``Pressure``), which slows all senders of the group down; when enough is
read it is told again. A reader that always finds something never waits, so the event loop gets its turn after some milliseconds
of reading; meanwhile the next events accumulate.

*Several groups.* Each arrival gets a stamp from one counter over all groups of a process. A :class:`Stream` reads one group or
several, always the smallest stamp first. Whatever arrives later has a larger stamp, so no event waits for another group. Events
are taken from the buffers many at a time; if another stream starts to read a group, those not given out go back to their place.
"""

from __future__ import annotations

import asyncio
import heapq
import math
from collections import deque
from collections.abc import AsyncIterator, Iterator
from itertools import count, repeat
from typing import Any, Final, TypeAlias

from ..core.model import ProcessId, UsageError, View
from .errors import Halted
from .events import Event, Message
from .port import Link
from .profile import MESSAGE_COST
from .waiting import Stopwatch, wake

MOST_AT_ONCE: Final = 4096  # a batch of events ends at about this size
READ_FOR: Final = 0.005  # seconds of reading without a pause after which the event loop gets its turn
_stamps: Final = count()  # stamps of arrivals, in whatever group

_Arrival: TypeAlias = tuple[int, ProcessId | None, int, Any, int | None, int]
"""Stamp, sender, number of the first message, payloads, rank, cost. Without a sender, the fourth is any other event."""


class Incoming:
    """Events of one group that have arrived and were not read."""

    def __init__(self, link: Link, limit: int, *, listen: bool) -> None:
        self.link = link
        self._listens = listen
        self.limit = limit
        self.unread = 0  # what the unread events count for in the buffer
        self.arrivals: deque[_Arrival] = deque()
        self._full = False
        self.overfull = Stopwatch()  # runs while too much is unread
        self._name = link.group  # the group's name at the place that reading has reached
        self.stream = Stream((self,))  # reads this group alone
        self.reader = self.stream  # the stream that reads this group, or read it last

    def put(self, sender: ProcessId, first: int, payloads: list[bytes], rank: int | None, cost: int) -> None:
        """Adds messages of one sender."""
        if self._listens:
            self.arrivals.append((next(_stamps), sender, first, payloads, rank, cost))
            self._count(cost)

    def put_event(self, event: Event) -> None:
        """Adds any other event."""
        if self._listens:
            self.arrivals.append((next(_stamps), None, 0, event, None, MESSAGE_COST))
            self._count(MESSAGE_COST)

    def _count(self, cost: int) -> None:
        self.unread += cost
        if self.unread > self.limit and not self._full:
            self._full = True
            self.overfull.start()
            self.link.port.pressure(self.link.group, True)
        wake(self.reader._waiter)

    def take(self, events: list[Event], origins: list[_Origin], before: float) -> None:
        """Moves events with stamps below ``before`` to a list, until it is long; notes their origins."""
        arrivals = self.arrivals
        name = self._name
        while arrivals and arrivals[0][0] < before and len(events) < MOST_AT_ONCE:
            stamp, sender, first, arrived, rank, cost = arrivals.popleft()
            self.unread -= cost
            if sender is None:
                number = 1
                events.append(arrived)
                if arrived.__class__ is View:
                    name = self._name = arrived.group
            else:
                number = len(arrived)
                if number == 1:
                    events.append(Message(sender, arrived[0], first, name, rank))
                else:
                    events += map(Message, repeat(sender), arrived, count(first), repeat(name), repeat(rank))
            origins.append((self, stamp, number))
        if self._full and 2 * self.unread <= self.limit:
            self._relieve()

    def put_back(self, event: Event, stamp: int) -> None:
        """Makes the event that was taken last the next one again. It counts as read already."""
        if self._listens:
            self.arrivals.appendleft((stamp, None, 0, event, None, 0))

    def stop_listening(self) -> None:
        """Discards what is unread and whatever arrives later."""
        self._listens = False
        self.arrivals.clear()
        self.unread = 0
        if self._full:
            self._relieve()

    def _relieve(self) -> None:
        self._full = False
        self.overfull.stop()
        self.link.port.pressure(self.link.group, False)

    def end(self) -> None:
        """Nothing more arrives."""
        self.overfull.stop()
        wake(self.reader._waiter)


_Origin: TypeAlias = tuple[Incoming, int, int]  # origin of consecutive events of a stream: group, stamp, number of events


class Stream:
    """The events of a group, or of several groups of one process (:func:`merged`), in the order in which they arrived. One task
    reads. Breaking out of a loop loses nothing: go on with this stream or another one at any time."""

    def __init__(self, sources: tuple[Incoming, ...]) -> None:
        self._sources = sources
        self._current: Iterator[Event] = iter(())  # events taken from the sources and not given out
        self._origins: list[_Origin] = []
        self._is_read = False  # whether a task waits for events
        self._waiter: asyncio.Future[None] | None = None  # what that task waits for; sources wake it when something arrives
        self._turned = 0.0  # when reading last let the event loop have its turn

    def __aiter__(self) -> Stream:
        return self

    async def __anext__(self) -> Event:
        for event in self._current:
            return event
        events = await self._next_events()
        if events is None:
            raise StopAsyncIteration
        self._current = iter(events)
        return next(self._current)

    async def batches(self) -> AsyncIterator[list[Event]]:
        """Everything that has arrived, as lists of events in order: the fast way to read."""
        while (events := await self._next_events()) is not None:
            yield events

    async def _next_events(self) -> list[Event] | None:
        """The events that arrived since the last call; None at the end."""
        rest = list(self._current)
        if rest:
            return rest
        self._check_free()
        self._take_over()
        self._is_read = True
        loop = asyncio.get_running_loop()
        try:
            if self._has_arrivals() and loop.time() >= self._turned + READ_FOR:
                await asyncio.sleep(0)
                self._turned = loop.time()
            while not self._has_arrivals():
                if self._is_over():
                    return None
                self._waiter = loop.create_future()
                await self._waiter
                self._turned = loop.time()
            if len(self._sources) > 1:
                return self._merge()
            events: list[Event] = []
            self._origins.clear()
            self._sources[0].take(events, self._origins, math.inf)
            return events
        finally:
            self._is_read = False
            self._waiter = None

    def _check_free(self) -> None:
        for source in self._sources:
            if source.reader._is_read:
                raise UsageError(
                    f"two tasks read group {source.link.group!r} at once; let one of them read and pass on what it gets"
                )

    def _take_over(self) -> None:
        """Becomes the reader of these groups; events that other streams took and did not give out go back."""
        for source in self._sources:
            if source.reader is not self:
                source.reader._put_back()
                source.reader = self

    def _put_back(self) -> None:
        rest = list(self._current)
        while rest:
            source, stamp, number = self._origins.pop()
            for event in reversed(rest[-number:]):
                source.put_back(event, stamp)
            del rest[-number:]

    def _has_arrivals(self) -> bool:
        return any([source.arrivals for source in self._sources])

    def _is_over(self) -> bool:
        """Whether all groups have ended; raises if the protocol stopped the process."""
        for source in self._sources:
            if source.link.over is not None and source.link.is_halted:
                raise Halted(source.link.over)
        return all([source.link.over is not None for source in self._sources])

    def _merge(self) -> list[Event]:
        """Makes events of several groups' arrivals; not of more than a program handles in milliseconds: the loop must turn."""
        sources = self._sources
        events: list[Event] = []
        self._origins.clear()
        heads = [(source.arrivals[0][0], index) for index, source in enumerate(sources) if source.arrivals]
        heapq.heapify(heads)
        while heads and len(events) < MOST_AT_ONCE:
            index = heapq.heappop(heads)[1]
            source = sources[index]
            source.take(events, self._origins, heads[0][0] if heads else math.inf)
            if source.arrivals:
                heapq.heappush(heads, (source.arrivals[0][0], index))
        return events


def read_together(sources: tuple[Incoming, ...]) -> Stream:
    """A stream of several groups of one process, none of which a task waits for now."""
    stream = Stream(sources)
    stream._check_free()
    return stream
