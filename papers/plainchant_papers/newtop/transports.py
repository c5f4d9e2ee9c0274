"""Claim 62 (9.2): UDP, with what is missing asked for (3.7), against TCP.

This is the one claim that is measured on the machine, with sockets, and not in the simulator. Three members in one program
talk over loopback; both transports take turns. What counts is the program's processor time, for a message when all send as
fast as they can and for a round trip when one message is under way: other programs on the machine change it less than they
change the time that passes.
"""

from __future__ import annotations

import asyncio
import dataclasses
import socket
import statistics
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final

from plainchant.core.model import US
from plainchant.group import Message
from plainchant.live.node import join
from plainchant.live.ports import free_ports

from ..claims import Context, Measured, judge, rows

_MEMBERS: Final = ("a", "b", "c")
_TOGETHER: Final = 64
_TRIPS: Final = 200
_SECONDS: Final = 120.0  # How long a round may take before it is given up.
_CLEARLY: Final = 0.8  # Less than so much of the other's time is clearly less.
_BELOW: Final = {"udp": "lossy", "tcp": "fifo"}


@dataclasses.dataclass(frozen=True, slots=True)
class Round:
    """Processor time of the whole program, in µs."""

    transport: str
    a_message: float
    a_trip: float


class _Member:
    """Sends its messages, and reads everybody's; the first one then sends one by one."""

    def __init__(self, group: Any, each: int) -> None:
        self._group = group
        self._each = each
        self._read = 0
        self.flooded = 0  # Processor time when it had read everything that was sent at once.

    async def send(self) -> None:
        for _ in range(0, self._each, _TOGETHER):
            await self._group.send_many([bytes(32)] * _TOGETHER)

    async def read(self, first: bool) -> None:
        total = self._each * len(_MEMBERS)
        async for batch in self._group.batches():
            self._read += sum(isinstance(event, Message) for event in batch)
            if self._read >= total and not self.flooded:
                self.flooded = time.process_time_ns()
            if self._read >= total + _TRIPS:
                return
            if self._read >= total and first:
                await self._group.send(bytes(32))


@asynccontextmanager
async def _members(transport: str, each: int) -> AsyncIterator[list[_Member]]:
    ports = free_ports(len(_MEMBERS), socket.SOCK_STREAM if transport == "tcp" else socket.SOCK_DGRAM)
    peers = {name: f"127.0.0.1:{port}" for name, port in zip(_MEMBERS, ports, strict=True)}
    parameters = {"transport": _BELOW[transport], "pack": False, "suspect_after": "0s"}
    joining = [
        join("g", me=name, peers=peers, protocol="newtop", transport=transport, parameters=parameters) for name in _MEMBERS
    ]
    groups = await asyncio.gather(*(one.__aenter__() for one in joining))
    try:
        yield [_Member(group, each) for group in groups]
    finally:
        await asyncio.gather(*(one.__aexit__(None, None, None) for one in joining))


async def _round(transport: str, each: int) -> Round:
    async with _members(transport, each) as members:
        began = time.process_time_ns()
        async with asyncio.timeout(_SECONDS), asyncio.TaskGroup() as tasks:
            for member in members:
                tasks.create_task(member.read(member is members[0]))
                tasks.create_task(member.send())
        flooded = max(member.flooded for member in members)
        ended = time.process_time_ns()
    return Round(transport, (flooded - began) / US / (each * len(members)), (ended - flooded) / US / _TRIPS)


def measure_round(transport: str, each: int) -> Round:
    """All members send so many messages each, as fast as they can; then one of them one by one."""
    return asyncio.run(_round(transport, each))


def udp_and_tcp(context: Context) -> Measured:
    each = context.of(4, 16) * _TOGETHER
    return compare([measure_round(transport, each) for _ in range(context.of(3, 7)) for transport in _BELOW])


def compare(rounds: Sequence[Round]) -> Measured:
    """What rounds over UDP and TCP, by turns, come to."""
    pairs = list(zip(rounds[::2], rounds[1::2], strict=True))
    message = statistics.median(udp.a_message / tcp.a_message for udp, tcp in pairs)
    trip = statistics.median(udp.a_trip / tcp.a_trip for udp, tcp in pairs)
    return Measured(
        f"processor time over UDP to that over TCP, on loopback: {message:.2f} for a message when all send, {trip:.2f} for a "
        f"round trip (medians of {len(pairs)} pairs)",
        judge(holds=max(message, trip) < _CLEARLY, nearly=min(message, trip) < _CLEARLY and max(message, trip) < 1 / _CLEARLY),
        "alike, or UDP a little dearer: over TCP packets that are ready together leave by one system call, over UDP each by its "
        "own. What the thesis hoped for may be so of its TCP, which passed several processes at each member; nothing is lost on "
        "loopback, so that this says nothing of repair",
        rows(rounds),
    )
