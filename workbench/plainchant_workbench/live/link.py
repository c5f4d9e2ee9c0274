"""Links between the processes of a measurement: loopback as it is, or with a delay, and how long a packet takes there and back.

Two processes on asyncio, as members are, over the same transport and with the same pins, and with no protocol: one asks, the
other answers. That is the round trip of the link as a protocol finds it.
"""

from __future__ import annotations

import asyncio
import statistics
import time
from random import Random
from typing import Any, Final

from plainchant.core.model import MS, Duration
from plainchant.lab.live.faulty import FaultyTransport
from plainchant.live.ports import free_ports
from plainchant.live.transport import Address, Data, MakeTransport, Transport
from plainchant.live.udp import LARGEST, UdpTransport
from plainchant.scenario.model import Delay, Network

from .processes import BenchError, Crew, enter, listen_apart, tell, telling_errors
from .raw import HEADERS

MODULE: Final = "plainchant_workbench.live.link"
LOST: Final = 5.0
"""Seconds after which an answer does not come any more."""


def over_link(link_ms: int) -> str | MakeTransport:
    """What ``join`` takes as its transport, for links of so many milliseconds one way."""
    if not link_ms:
        return "udp"
    network = Network(delay=Delay(low=Duration(link_ms * MS)))
    return lambda address, packet: FaultyTransport(UdpTransport(address, packet=packet), network, Random(0), me="", names={})


def measure_link(size: int, link_ms: int, *, seconds: float, pause: float) -> float:
    """The median round trip of a message of that size, in µs: every ``pause`` seconds one."""
    ports = free_ports(2)
    tasks = [{"port": ports[number], "to": ports[1 - number], "link_ms": link_ms} for number in range(2)]
    with Crew(MODULE, tasks) as crew:
        crew.answers()
        trips = crew.ask({"size": size + HEADERS, "seconds": seconds, "pause": pause}, seconds=seconds)[1]["trips_us"]
    return float(statistics.median(trips))


class _End:
    """One end of the link: answers, or asks."""

    def __init__(self, task: dict[str, Any]) -> None:
        here: Address = ("127.0.0.1", task["port"])
        maker = over_link(task["link_ms"])
        self._transport: Transport = UdpTransport(here) if isinstance(maker, str) else maker(here, LARGEST)
        self._other: Address = ("127.0.0.1", task["to"])
        self._answers: bool = task["number"] == 0
        self._answer: asyncio.Future[None] | None = None
        self._echoes: list[bytes] = []

    async def open(self) -> None:
        await self._transport.open(self._on_packet, self._on_turn_over)

    def _on_packet(self, source: Address, data: Data) -> None:
        if self._answers:
            self._echoes.append(bytes(data))
        elif self._answer is not None and not self._answer.done():
            self._answer.set_result(None)

    def _on_turn_over(self) -> None:
        for data in self._echoes:
            self._transport.send((self._other,), data)
        self._echoes.clear()

    async def trips(self, question: dict[str, Any]) -> dict[str, Any]:
        if self._answers:
            return {}
        trips: list[float] = []
        packet = bytes(question["size"])
        end = time.monotonic() + question["seconds"]
        while not trips or time.monotonic() < end:
            began = time.monotonic_ns()
            self._answer = asyncio.get_running_loop().create_future()
            self._transport.send((self._other,), packet)
            try:
                await asyncio.wait_for(self._answer, LOST)
            except TimeoutError:
                raise BenchError("a packet was lost on loopback: is a firewall in the way?") from None
            trips.append((time.monotonic_ns() - began) / 1_000)
            await asyncio.sleep(question["pause"])
        return {"trips_us": trips}


async def run(task: dict[str, Any]) -> None:
    """One of the two processes."""
    loop = asyncio.get_running_loop()
    questions: asyncio.Queue[dict[str, Any] | None] = asyncio.Queue()
    listen_apart(lambda question: loop.call_soon_threadsafe(questions.put_nowait, question))
    end = _End(task)
    await end.open()
    tell({})
    while (question := await questions.get()) is not None:
        tell(await end.trips(question))


def main() -> None:
    with telling_errors():
        asyncio.run(run(enter()))


if __name__ == "__main__":
    main()
