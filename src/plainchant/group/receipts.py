"""Receipts: what becomes of the messages that this process has sent.

Accepted messages are numbered 1, 2, 3, ... in their *lane*, so a receipt is a lane and a number. A lane has two *marks*, the
numbers up to which its messages are delivered and stable; ``delivered`` and ``stable`` wait until a mark reaches the number.

Messages without a deadline are one lane. Each stream with deadlines is a lane of its own, because its messages overtake others.
While there is only one lane, the protocol's number of a message is its number in the lane. From the first stream on, *runs*
record which lanes the taken messages belong to: messages are delivered in the order in which they were taken.

A renamed group counts the protocol's numbers from 1 again, while receipts count on.
"""

from __future__ import annotations

import asyncio
import heapq
from collections import deque
from collections.abc import Callable, Iterator
from itertools import count

from ..core.model import Reason
from .errors import Lost
from .port import Link
from .waiting import wake


class Mark:
    """A number that only grows, and the futures that wait for it to reach a value."""

    __slots__ = ("_final", "_order", "_over", "_waiting", "value")

    def __init__(self) -> None:
        self.value = 0
        self._waiting: list[tuple[int, int, asyncio.Future[None]]] = []
        self._order = count()
        self._over: Reason | None = None
        self._final = 0  # the value up to which it may still grow once it has ended

    async def reach(self, value: int) -> None:
        if self.value >= value:
            return
        if self._over is not None and value > self._final:
            raise Lost(self._over)
        future = asyncio.get_running_loop().create_future()
        heapq.heappush(self._waiting, (value, next(self._order), future))
        await future

    def call_back(self, value: int, callback: Callable[[asyncio.Future[None]], None]) -> None:
        """Calls back when the mark reaches the value, or can no longer reach it."""
        future = asyncio.get_running_loop().create_future()
        heapq.heappush(self._waiting, (value, next(self._order), future))
        future.add_done_callback(callback)

    def advance(self, value: int) -> None:
        self.value = value
        waiting = self._waiting
        while waiting and waiting[0][0] <= value:
            wake(heapq.heappop(waiting)[2])

    def end(self, reason: Reason, final: int = 0) -> None:
        """The mark will not grow beyond ``final``."""
        self._over = reason
        self._final = final
        for value, _, future in self._waiting:
            if value > final and not future.done():
                future.set_exception(Lost(reason))
        self._waiting = [entry for entry in self._waiting if entry[0] <= final]
        heapq.heapify(self._waiting)


class Lane:
    """Messages that do not overtake each other: those of one stream, or those without a deadline."""

    __slots__ = ("accepted", "answer", "delivered", "link", "over", "queued", "stable", "stream", "taken", "waiter")

    def __init__(self, link: Link, stream: str = "") -> None:
        self.link = link
        self.stream = stream  # the stream's name; empty for messages without a deadline
        self.taken = 0  # messages that the protocol has taken
        self.delivered = Mark()
        self.stable = Mark()
        # of a stream
        self.accepted = 0
        self.queued = 0  # messages that were accepted and not taken
        self.answer: asyncio.Future[None] | None = None  # completed when the protocol admits or rejects the stream
        self.over: Reason | None = None  # why no more messages are accepted
        self.waiter: asyncio.Future[None] | None = None  # what a sender in the stream waits for

    def end(self, reason: Reason, final: int = 0) -> None:
        """The outcome of messages beyond ``final`` will not be known."""
        self.delivered.end(reason, final)
        self.stable.end(reason, final)


class Receipt:
    """What ``send`` returns: the number of an accepted message, and a way to wait for what becomes of it."""

    __slots__ = ("_lane", "seq")

    def __init__(self, lane: Lane, seq: int) -> None:
        self._lane = lane
        self.seq = seq  # the message's number among the accepted ones: of its stream, or of those without a deadline

    @property
    def is_delivered(self) -> bool:
        """Whether the message was delivered here, in the group's order."""
        return self._lane.delivered.value >= self.seq

    async def delivered(self) -> None:
        """Waits until the message is delivered here: every member that stays delivers it at that place in the order."""
        await self._lane.delivered.reach(self.seq)

    async def stable(self) -> None:
        """Waits until every member of the view holds the message. (Only where messages have a rank: in a total order.)"""
        await self._lane.stable.reach(self.seq)

    def __repr__(self) -> str:
        stream = f", stream={self._lane.stream!r}" if self._lane.stream else ""
        return f"Receipt(group={self._lane.link.group!r}{stream}, seq={self.seq})"


class _Runs:
    """The lanes of taken messages, as runs of consecutive messages of one lane."""

    def __init__(self) -> None:
        self._runs: deque[tuple[int, int, Lane, int]] = deque()  # first and last number over all lanes, lane, last number there

    def add(self, first: int, last: int, lane: Lane, place: int) -> None:
        """Messages were taken."""
        runs = self._runs
        if runs and runs[-1][2] is lane:
            first = runs.pop()[0]
        runs.append((first, last, lane, place))

    def advance(self, number: int) -> Iterator[tuple[Lane, int]]:
        """Removes messages up to a number; yields each lane concerned with its number there."""
        runs = self._runs
        while runs and runs[0][1] <= number:
            _, _, lane, place = runs.popleft()
            yield lane, place
        if runs and runs[0][0] <= number:
            _, last, lane, place = runs[0]
            yield lane, place - (last - number)

    def lanes(self) -> list[Lane]:
        """The lanes of the messages that are left."""
        return [lane for _, _, lane, _ in self._runs]


class Progress:
    """How far this process's own messages have come: taken, delivered, stable."""

    def __init__(self, link: Link, main: Lane) -> None:
        self._link = link
        self._main = main  # the lane of messages without a deadline
        self._taken = 0  # messages taken, over all lanes
        self.delivered = 0  # number of the last own message delivered, over all names of the group
        self.stable = 0  # number of the last own message known to be stable
        self.has_streams = False  # whether there is, or was, a stream; otherwise every message is of one lane
        self._undelivered = _Runs()  # lanes of the messages taken and not delivered, from the first stream on
        self._unstable = _Runs()  # lanes of the messages taken and not stable, from the first stream on
        self._numbered_before = 0  # difference of a receipt's number and its message's, in a group that had other names before
        self._ranks: deque[tuple[int, int]] = deque()  # numbers and ranks of own messages that were delivered and are not stable
        self._stable_rank = -1

    @property
    def numbered_before(self) -> int | None:
        """By how much a receipt exceeds the number of its message; None where streams make that unknown."""
        return None if self.has_streams else self._numbered_before

    def add_streams(self) -> None:
        """From here on there are several lanes."""
        if not self.has_streams:
            self.has_streams = True
            if self._taken:
                self._undelivered.add(1, self._taken, self._main, self._taken)
                self._unstable.add(1, self._taken, self._main, self._taken)

    def took(self, messages: int, lane: Lane) -> None:
        """The protocol took messages of a lane."""
        first = self._taken + 1
        self._taken += messages
        lane.taken += messages
        if self.has_streams:
            self._undelivered.add(first, self._taken, lane, lane.taken)
            self._unstable.add(first, self._taken, lane, lane.taken)

    def returned(self, messages: int, numbered: int) -> None:
        """The group was renamed: the last ``messages`` will be taken again, and ``numbered`` had numbers under that name."""
        self._taken -= messages
        self._main.taken -= messages
        self._numbered_before = self._main.taken - numbered

    def deliver(self, number: int, rank: int | None) -> None:
        """Own messages were delivered, up to the protocol's ``number``, with a rank where the order has one."""
        last = self.delivered = number + self._numbered_before
        main = self._main
        if not self.has_streams:
            main.delivered.advance(last)
        else:
            for lane, place in self._undelivered.advance(last):
                lane.delivered.advance(place)
        if rank is None:
            text = f"{self._link.group} has no total order, so no message is known to be stable; wait until it is delivered"
            for lane in (main, *(lane for lane, _ in self._unstable.advance(last))):
                lane.stable.end(Reason("no order", text))
        else:
            self._ranks.append((last, rank))
            if rank <= self._stable_rank:  # known before the message was delivered
                self.stabilise(self._stable_rank)

    def stabilise(self, rank: int) -> None:
        """Every member holds all messages with a rank up to this one, delivered here or not."""
        self._stable_rank = rank
        ranks = self._ranks
        if ranks and ranks[0][1] <= rank:
            last = 0
            while ranks and ranks[0][1] <= rank:
                last = ranks.popleft()[0]
            self.stable = last
            if not self.has_streams:
                self._main.stable.advance(last)
            else:
                for lane, place in self._unstable.advance(last):
                    lane.stable.advance(place)

    def end(self, reason: Reason) -> None:
        """The outcome of messages that were taken will not be known."""
        for lane in (*self._undelivered.lanes(), *self._unstable.lanes()):
            lane.end(reason)
