"""Senders of a live run: the workloads of a scenario, through the interface that applications use.

A :class:`Sender` is one process's share of one ``[[workload]]`` in one group, with the same messages as ``sim.workload.Source``.
An open loop hands over at its rate, counted from its first message, and makes up for what it missed while it was stopped; a
closed loop waits until its oldest messages have come back; one that is as fast as accepted waits for room only. All of them wait
when the outgoing buffer is full, and end when the group accepts no more.

A regular sender with deadlines asks for a stream when it begins, and sends as long as it is admitted; one with random arrivals
asks for each message as it comes, and those that are rejected are not sent.
"""

from __future__ import annotations

import asyncio
import itertools
import time
from collections import deque
from collections.abc import Sequence
from random import Random
from typing import Final

from ...core.model import SECOND, format_duration
from ...group import MESSAGE_COST, OUTGOING, Group, Lost, Receipt, Refused, Rejected
from ...scenario.model import Workload
from ...scenario.traffic import WAITING, payload_of

_BURST: Final = 16  # messages that a sender as fast as accepted hands over at once


class Numbering:
    """Numbers the messages of one process in one group, over all its senders, which take turns."""

    def __init__(self) -> None:
        self.count = 0
        self.turn = asyncio.Lock()


class Sender:
    """Sends one workload's messages in one group. ``begin`` and ``end`` are ns of the monotonic clock."""

    def __init__(
        self, group: Group, workload: Workload, numbering: Numbering, random: Random, *, begin: int, end: int, stream: str = ""
    ) -> None:
        self._group, self._workload, self._numbering, self._random = group, workload, numbering, random
        self._start = begin + workload.start
        self._end = min(end, begin + workload.stop) if workload.stop else end
        self._left = workload.count or -1
        self._stream = stream  # the name of its stream, where its messages have a deadline

    async def run(self) -> None:
        """Sends until there is nothing more to send, the time is over, or the group takes no more."""
        await _sleep_until(self._start)
        try:
            if self._workload.deadline:
                await self._open_loop_with_deadlines()
            elif self._workload.closed:
                await self._closed_loop()
            elif self._workload.rate:
                await self._open_loop()
            else:
                while await self._hand_over(_BURST):
                    pass
        except (Refused, Lost, Rejected):
            return  # the process leaves, or was stopped, or there is no room for its stream; the trace says why

    async def _open_loop(self) -> None:
        workload = self._workload
        gap = workload.burst / workload.rate * SECOND
        due = float(max(self._start, time.monotonic_ns()))
        while await self._hand_over(workload.burst):
            due += self._random.expovariate(1 / gap) if workload.arrivals == "poisson" else gap
            await _sleep_until(round(due))

    async def _open_loop_with_deadlines(self) -> None:
        workload, group = self._workload, self._group
        deadline = format_duration(workload.deadline)
        if workload.arrivals == "poisson":
            await self._ask_one_by_one(deadline)
            return
        gap = workload.burst * SECOND / workload.rate
        stream = await group.stream(self._stream, size=workload.size, deadline=deadline, period=format_duration(int(gap)))
        try:
            due = float(max(self._start, time.monotonic_ns()))
            for number in itertools.count(1):
                if self._is_over(number):
                    return
                await stream.send(self._payload(number))
                due += gap
                await _sleep_until(round(due))
        finally:
            stream.release()

    async def _ask_one_by_one(self, deadline: str) -> None:
        gap = self._workload.burst * SECOND / self._workload.rate
        due = float(max(self._start, time.monotonic_ns()))
        numbers = itertools.count(1)
        while True:
            for number in itertools.islice(numbers, self._workload.burst):
                if self._is_over(number):
                    return
                try:
                    await self._group.send(self._payload(number), deadline=deadline)
                except Rejected:
                    continue
            due += self._random.expovariate(1 / gap)
            await _sleep_until(round(due))

    def _is_over(self, number: int) -> bool:
        """Whether a message with a deadline is one too many, or comes too late."""
        return 0 <= self._left < number or time.monotonic_ns() >= self._end

    def _payload(self, number: int) -> bytes:
        return payload_of(self._group.me, f"{self._group.name}/{self._stream}", number, self._workload.size)

    async def _closed_loop(self) -> None:
        together = min(self._workload.burst, self._workload.closed)
        under_way: deque[Receipt] = deque()
        while more := await self._hand_over(self._workload.closed - len(under_way)):
            under_way += more
            room = together - (self._workload.closed - len(under_way))
            if room > 0:
                await under_way[room - 1].delivered()
            while under_way and under_way[0].is_delivered:
                under_way.popleft()

    async def _hand_over(self, count: int) -> list[Receipt]:
        """Hands over messages; nothing when this sender has nothing more to say."""
        if self._left >= 0:
            count = min(count, self._left)
        receipts: list[Receipt] = []
        numbering, group = self._numbering, self._group
        async with numbering.turn:
            while len(receipts) < count and time.monotonic_ns() < self._end:
                payload = payload_of(group.me, group.name, numbering.count + 1, self._workload.size)
                receipts.append(await group.send(payload))
                numbering.count += 1
        if self._left > 0:
            self._left -= len(receipts)
        return receipts


async def _sleep_until(moment: int) -> None:
    """Waits until a time; yields to other tasks even if that is past."""
    await asyncio.sleep(max(0, moment - time.monotonic_ns()) / SECOND)


def outgoing_for(workloads: Sequence[Workload]) -> int:
    """The outgoing buffer, in bytes, for these workloads in a group: one that sends as fast as accepted queues little at the
    end."""
    if not workloads or any(workload.closed or workload.rate for workload in workloads):
        return OUTGOING
    return WAITING * (max(workload.size for workload in workloads) + MESSAGE_COST)
