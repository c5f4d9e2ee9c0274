"""Raw UDP with blocking sockets: what Python and this machine allow, with nothing on top.

Two processes, pinned like a group's measured member and its sequencer. *Ping-pong*: a message of ``size`` bytes goes over in
datagrams of at most ``packet`` bytes and comes back; the median of the round trips. *One way*: datagrams as fast as one process
sends, counted where they arrive (the rest is lost, as nothing slows the sender down).

With a pause between round trips both cores fall asleep meanwhile, as they do where a group is idle.
"""

from __future__ import annotations

import dataclasses
import socket
import statistics
import struct
import time
from typing import Any, Final

from plainchant.live.ports import free_ports

from .processes import BenchError, Crew, enter, listen, tell, telling_errors

MODULE: Final = "plainchant_workbench.live.raw"
HEADERS: Final = 64
"""Bytes of a packet that are not the message's, about: a datagram of raw UDP carries what a packet of ours does."""
BUFFER: Final = 4 << 20
WAIT: Final = struct.pack("ll", 5, 0)
"""SO_RCVTIMEO: a datagram that does not come in 5 s is lost. (A socket with Python's own timeout would not be a blocking one.)"""
WARM: Final = 200


@dataclasses.dataclass(frozen=True)
class RawUdp:
    """What raw UDP did."""

    size: int
    packet: int
    rtt_us_p50: float
    datagrams_per_s: float
    """Arrived, one way."""


def measure_raw(
    size: int, packet: int, *, seconds: float, pinned: tuple[int, int] = (0, 1), one_way: bool = True, pause: float = 0.0
) -> RawUdp:
    """Measures between two processes with the pins of members number ``pinned``: who answers, who asks. ``pause``: seconds."""
    ports = free_ports(2)
    with Crew(MODULE, [{"port": ports[number], "to": ports[1 - number]} for number in range(2)], pins=pinned) as crew:
        crew.answers()
        parts = max(1, -(-size // max(1, packet - HEADERS)))
        ping_pong = {"do": "ping-pong", "size": -(-size // parts), "parts": parts, "seconds": seconds, "pause": pause}
        trips = crew.ask(ping_pong, seconds=seconds)[1]["trips_us"]
        if not trips:
            raise BenchError("raw UDP lost every datagram on loopback: is a firewall in the way?")
        arrived = 0.0
        if one_way:
            flood = {"do": "one-way", "size": min(packet, -(-size // parts)), "seconds": seconds}
            arrived = crew.ask(flood, seconds=seconds)[0]["per_s"]
    return RawUdp(size, packet, statistics.median(trips), arrived)


def _ping_pong(mine: socket.socket, number: int, question: dict[str, Any]) -> dict[str, Any]:
    """Process 1 asks, process 0 answers until it gets an empty datagram."""
    part, parts = bytes(question["size"]), range(question["parts"])
    into = bytearray(1 << 16)
    send, receive = mine.send, mine.recv_into
    if number == 0:
        while receive(into):
            for _ in parts[1:]:
                receive(into)
            for _ in parts:
                send(part)
        return {}
    trips: list[int] = []
    pause = question["pause"]
    end = time.perf_counter_ns() + round(question["seconds"] * 1e9)
    now = 0
    while now < end:
        began = time.perf_counter_ns()
        for _ in parts:
            send(part)
        for _ in parts:
            receive(into)
        now = time.perf_counter_ns()
        trips.append(now - began)
        if pause:
            time.sleep(pause)
    send(b"")
    return {"trips_us": [trip / 1_000 for trip in trips[min(WARM, len(trips) // 4) :]]}


def _one_way(mine: socket.socket, number: int, question: dict[str, Any]) -> dict[str, Any]:
    """Process 1 sends, process 0 counts until it gets an empty datagram."""
    datagram = bytes(question["size"])
    into = bytearray(1 << 16)
    if number == 1:
        end = time.perf_counter() + question["seconds"]
        while time.perf_counter() < end:
            for _ in range(64):
                mine.send(datagram)
        time.sleep(0.1)
        mine.send(b"")
        return {}
    count = 0
    began = last = 0.0
    receive = mine.recv_into
    while receive(into):
        last = time.perf_counter()
        began = began or last
        count += 1
    return {"per_s": (count - 1) / (last - began) if last > began else 0.0}


def main() -> None:
    """One of the two processes."""
    with telling_errors():
        task = enter()
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as mine:
            for option in (socket.SO_RCVBUF, socket.SO_SNDBUF):
                mine.setsockopt(socket.SOL_SOCKET, option, BUFFER)
            mine.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, WAIT)
            mine.bind(("127.0.0.1", task["port"]))
            mine.connect(("127.0.0.1", task["to"]))
            tell({})
            while (question := listen()) is not None:
                do = _ping_pong if question["do"] == "ping-pong" else _one_way
                tell(do(mine, task["number"], question))


if __name__ == "__main__":
    main()
