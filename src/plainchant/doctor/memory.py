"""Measures shared memory on this machine: how long the operations of ``mailbox`` take between real processes.

Three processes are a group with the real protocol, on real segments, with generous bounds, and each sends one message after the
other. The stepper of each tells how long every operation took from when it was due, which is what bounds are about: waiting for
the lock, for the processor and for the loop counts. It also tells how late waits ended, and how long after a ring it was heard.
The proposed bound is what all but one in a thousand of the operations kept, rounded up. The others are timing failures, which the
second protocol tolerates as long as most receivers have none at that moment.

Run as a module this is one of the processes: it reads its task from standard input and writes its readings to standard output.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from array import array
from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from ..core.model import MS, US
from ..group import Group
from ..live.memory.segments import CommonMemoryError
from ..live.memory.server import MailboxServer
from ..live.node import Node
from ..live.ports import free_addresses
from ..live.transport import Address
from ..protocols.mailbox import DESCRIPTION

OPERATIONS: Final = ("write", "flag", "decide", "read", "finish")
"""The bounds that there are, by the operation that is measured for each."""
NAMES: Final = {"look": "decide", "list": "flag"}
"""Operations that have the bound of another."""
WAITS: Final = ("wake", "bell")
GENEROUS: Final = "1ms"
GENEROUS_POLL: Final = "2ms"
GENEROUS_NOTICE: Final = "200ms"
START_SECONDS: Final = 30.0
"""How long the processes may take to start and to end, beside measuring."""
STEP: Final = 10 * US
SMALLEST: Final = 20 * US
_GROUP: Final = "doctor"
_ROUND: Final = 2 * MS


class Task(msgspec.Struct, frozen=True):
    """Who a process is, and what it does."""

    me: str
    peers: dict[str, Address]
    memory: str
    copies: int
    size: int
    seconds: float


class Reading(msgspec.Struct, frozen=True):
    """How long something took, ns."""

    count: int
    median: int
    most: int
    """99 % did not take longer."""
    nearly_all: int
    """Nor 99.9 %."""
    longest: int


class Measurement(msgspec.Struct, frozen=True):
    """What was measured, by operation or kind of wait."""

    processes: int
    copies: int
    size: int
    readings: dict[str, Reading]

    @property
    def proposal(self) -> dict[str, int]:
        """Parameters: bounds that nearly all operations keep, ns. There is one clock; ``skew`` is for reading it."""
        kept = {name: max(SMALLEST, -(-self.readings[name].nearly_all // STEP) * STEP) for name in OPERATIONS}
        return {**kept, "skew": STEP, "poll": 2 * kept["decide"]}


def measure(*, copies: int, size: int, seconds: float, processes: int = 3) -> Measurement:
    """Lets processes work on real segments for so long, and returns what they have measured."""
    server = MailboxServer(f"doctor {os.urandom(8).hex()}")
    places = [f"p{number}" for number in range(1, processes + 1)]
    peers = free_addresses(places)
    command = [sys.executable, "-m", __name__]
    running = [subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) for _ in places]
    readings: dict[str, array[int]] = {}
    try:
        for place, process in zip(places, running, strict=True):
            assert process.stdin is not None
            with process.stdin as pipe:
                pipe.write(msgspec.json.encode(Task(place, peers, server.namespace, copies, size, seconds)))
            process.stdin = None
        for process in running:
            said, _ = process.communicate(timeout=seconds + START_SECONDS)
            if process.returncode != 0:
                raise CommonMemoryError(f"a process that measured ended with status {process.returncode}; see what it said above")
            for name, values in msgspec.json.decode(said, type=dict[str, list[int]]).items():
                readings.setdefault(NAMES.get(name, name), array("q")).extend(values)
    except subprocess.TimeoutExpired:
        late = f"did not end in {seconds + START_SECONDS:g} s"
        raise CommonMemoryError(f"the processes that measure {late}; is the machine overloaded?") from None
    finally:
        for process in running:
            process.kill()
            with process:
                pass  # closes its pipes, and waits
        server.remove_all()
    missing = [name for name in OPERATIONS if name not in readings]
    if missing:
        raise CommonMemoryError(f"in {seconds:g} s nobody came to {', '.join(missing)}; measure for longer")
    known = [name for name in (*OPERATIONS, *WAITS) if name in readings]
    return Measurement(processes, copies, size, {name: summary(readings[name]) for name in known})


def summary(values: Sequence[int]) -> Reading:
    """The numbers that people want to see.

    >>> summary(range(1001))
    Reading(count=1001, median=500, most=990, nearly_all=999, longest=1000)
    """
    ordered = sorted(values)
    last = len(ordered) - 1
    return Reading(len(ordered), ordered[last // 2], ordered[round(last * 0.99)], ordered[round(last * 0.999)], ordered[last])


def parameters(copies: int, size: int) -> Mapping[str, object]:
    """Those of the group that is measured."""
    bounds = {**dict.fromkeys((*OPERATIONS, "skew"), GENEROUS), "poll": GENEROUS_POLL, "notice": GENEROUS_NOTICE}
    return {"copies": copies, "room": max(size, 1024), **bounds}


async def take_part(task: Task) -> dict[str, array[int]]:
    """One process of the group; returns what it has measured."""
    readings: dict[str, array[int]] = {}

    def meter(name: str, took: int) -> None:
        readings.setdefault(name, array("q")).append(took)

    given = parameters(task.copies, task.size)
    async with Node(description=DESCRIPTION, me=task.me, peers=task.peers, parameters=given, memory=task.memory) as node:
        group = await node.enter(_GROUP, tuple(task.peers), START_SECONDS)
        assert node.host.memory is not None
        node.host.memory.meter = meter
        reading = asyncio.create_task(_read(group))
        payload = bytes(task.size)
        loop = asyncio.get_running_loop()
        end = loop.time() + task.seconds
        while loop.time() < end:
            await group.send(payload)
            await asyncio.sleep(_ROUND / 1e9)
        node.host.memory.meter = None
        reading.cancel()
        await asyncio.wait([reading])
    return readings


async def _read(group: Group) -> None:
    async for _ in group.batches():
        continue


def main() -> None:
    readings = asyncio.run(take_part(msgspec.json.decode(sys.stdin.buffer.read(), type=Task)))
    sys.stdout.buffer.write(msgspec.json.encode({name: values.tolist() for name, values in readings.items()}))


if __name__ == "__main__":
    main()
