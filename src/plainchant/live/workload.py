"""Who sends what, for real: the workloads of a scenario through the interface that applications use.

A :class:`Sender` is one process's share of one ``[[workload]]`` in one group, as ``sim.workload.Source`` is in the simulator, and
its messages hold the same. An open loop hands over at its rate, counted from its first message, and makes up for what it missed
while it was stopped; a closed loop waits until its oldest messages have come back; one that is as fast as accepted waits for
room only. All of them wait when the group's outgoing buffer is full, and end when the group accepts no more.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Sequence
from random import Random
from typing import Final

from ..group import MESSAGE_COST, OUTGOING, Group, Lost, Receipt, Refused
from ..model import SECOND
from ..scenario.model import Workload
from ..sim.workload import WAITING, payload_of

_BURST: Final = 16
"""Messages that a sender as fast as accepted hands over at once."""


class Numbering:
    """Numbers the messages of one process in one group, over all its senders, which take turns."""

    def __init__(self) -> None:
        self.count = 0
        self.turn = asyncio.Lock()


class Sender:
    """Sends one workload's messages in one group. ``begin`` and ``end`` are ns of the monotonic clock."""

    def __init__(
        self, group: Group, workload: Workload, numbering: Numbering, random: Random, *, begin: int, end: int
    ) -> None:
        self._group = group
        self._workload = workload
        self._numbering = numbering
        self._random = random
        self._start = begin + workload.start
        self._end = min(end, begin + workload.stop) if workload.stop else end
        self._left = workload.count or -1

    async def run(self) -> None:
        """Sends until there is nothing more to send, the time is over, or the group takes no more."""
        await _sleep_until(self._start)
        try:
            if self._workload.closed:
                await self._closed_loop()
            elif self._workload.rate:
                await self._open_loop()
            else:
                while await self._hand_over(_BURST):
                    pass
        except (Refused, Lost):
            return  # the process leaves, or was stopped; whoever reads the group is told why

    async def _open_loop(self) -> None:
        workload = self._workload
        gap = workload.burst / workload.rate * SECOND
        due = float(max(self._start, time.monotonic_ns()))
        while await self._hand_over(workload.burst):
            due += self._random.expovariate(1 / gap) if workload.arrivals == "poisson" else gap
            await _sleep_until(round(due))

    async def _closed_loop(self) -> None:
        together = min(self._workload.burst, self._workload.closed)
        under_way: deque[Receipt] = deque()
        while more := await self._hand_over(self._workload.closed - len(under_way)):
            under_way += more
            room = together - (self._workload.closed - len(under_way))
            if room > 0:
                await under_way[room - 1].delivered()
            done = self._group.metrics()["own_delivered"]
            while under_way and under_way[0].seq <= done:
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
    """Waits; whoever is late lets the others have a turn all the same."""
    await asyncio.sleep(max(0, moment - time.monotonic_ns()) / SECOND)


def outgoing_for(workloads: Sequence[Workload]) -> int:
    """The outgoing buffer, in bytes, of a process with these workloads in a group.

    One that only sends as fast as accepted shall not have seconds of messages waiting when the time is over.
    """
    if not workloads or any(workload.closed or workload.rate for workload in workloads):
        return OUTGOING
    return WAITING * (max(workload.size for workload in workloads) + MESSAGE_COST)
