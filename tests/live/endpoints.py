"""What the transports' tests share: an endpoint that keeps what it hears, and waits for it with a bound."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

from plainchant.live.transport import Address, Data, Transport

HOST = "127.0.0.1"
PATIENCE = 20.0
"""Seconds after which a test that waits has failed; nothing takes nearly as long."""


def run(main: Coroutine[Any, Any, None]) -> None:
    """Runs a test's coroutine, and fails if it does not end, or if anything went wrong in a callback."""
    problems: list[dict[str, Any]] = []

    async def bounded() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: problems.append(context))
        await asyncio.wait_for(main, 2 * PATIENCE)

    asyncio.run(bounded())
    assert problems == []


class Endpoint:
    """Keeps what a transport hands over: packets, and how many came in each turn."""

    def __init__(self, transport: Transport) -> None:
        self.transport = transport
        self.heard: list[tuple[Address, bytes]] = []
        self.turns: list[int] = []
        self._changed = asyncio.Event()

    @property
    def address(self) -> Address:
        return self.transport.address

    @property
    def packets(self) -> list[bytes]:
        return [data for _, data in self.heard]

    def receive(self, source: Address, data: Data) -> None:
        self.heard.append((source, bytes(data)))

    def turn_over(self) -> None:
        self.turns.append(len(self.heard) - sum(self.turns))
        self._changed.set()

    async def until(self, condition: Callable[[], bool]) -> None:
        """Waits until something holds that changes with what is heard."""
        async with asyncio.timeout(PATIENCE):
            while not condition():
                self._changed.clear()
                await self._changed.wait()

    async def hears(self, *packets: bytes) -> None:
        """Waits until so many packets have come, and compares them."""
        await self.until(lambda: len(self.heard) >= len(packets))
        assert self.packets == list(packets)

    async def hears_all(self, *packets: bytes) -> None:
        """The same in any order: datagrams overtake each other even on loopback, when their sender changes processors."""
        await self.until(lambda: len(self.heard) >= len(packets))
        assert sorted(self.packets) == sorted(packets)


@asynccontextmanager
async def opened(*transports: Transport) -> AsyncIterator[tuple[Endpoint, ...]]:
    """Opens transports and closes them whatever happens."""
    endpoints = tuple(Endpoint(transport) for transport in transports)
    try:
        for endpoint in endpoints:
            await endpoint.transport.open(endpoint.receive, endpoint.turn_over)
        yield endpoints
    finally:
        for endpoint in endpoints:
            await endpoint.transport.close()


async def until(condition: Callable[[], bool]) -> None:
    """Waits for something that no packet announces."""
    async with asyncio.timeout(PATIENCE):
        while not condition():
            await asyncio.sleep(0.002)
