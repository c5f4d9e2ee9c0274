"""UDP: what leaves arrives in order, waits when the socket is full, and trouble of the network is counted and not raised."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from plainchant.core.model import UsageError
from plainchant.live import udp
from plainchant.live.transport import READ_AT_ONCE, Address
from plainchant.live.udp import LARGEST, UdpTransport
from plainchant.protocols.buffers import charge

from .endpoints import HOST, opened, run

ANY: Address = (HOST, 0)


def numbered(count: int, size: int = 4) -> list[bytes]:
    return [struct.pack(">I", number) + bytes(size - 4) for number in range(count)]


class Gate:
    """Stands in for a transport's socket, writes down what is sent, and refuses to send while it is shut."""

    def __init__(self, transport: UdpTransport) -> None:
        self.shut = False
        self.shuts_after = 0
        """Packets after which it shuts by itself; 0: never."""
        self.sent: list[tuple[bytes, Address]] = []
        self._transport = transport
        self._inner: Any = transport._socket
        transport._socket = self  # type: ignore[assignment]

    def sendto(self, data: bytes, address: Address) -> int:
        if self.shut:
            raise BlockingIOError
        size: int = self._inner.sendto(data, address)
        self.sent.append((bytes(data), address))
        self.shut = len(self.sent) == self.shuts_after
        return size

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


@contextmanager
def gate(transport: object) -> Iterator[Gate]:
    assert isinstance(transport, UdpTransport)
    yield Gate(transport)


# --- packets ----------------------------------------------------------------------------------------------------------


def test_packets_go_both_ways_and_to_several() -> None:
    async def main() -> None:
        async with opened(*(UdpTransport(ANY) for _ in range(3))) as (a, b, c):
            a.transport.send([b.address, c.address], memoryview(b"both"))
            await b.hears_all(b"both")
            await c.hears_all(b"both")
            assert {*b.heard, *c.heard} == {(a.address, b"both")}
            b.transport.send([a.address], bytearray(b"back"))
            await a.hears_all(b"back")
            assert (a.transport.counters.sent, a.transport.counters.sent_bytes) == (2, 8)
            assert (a.transport.counters.received, a.transport.counters.received_bytes) == (1, 4)

    run(main())


def test_ipv6() -> None:
    async def main() -> None:
        async with opened(UdpTransport(("::1", 0)), UdpTransport(("::1", 0))) as (a, b):
            a.transport.send([b.address], b"six")
            await b.hears_all(b"six")
            assert b.heard[0][0] == a.address == ("::1", a.address[1])

    run(main())


def test_the_largest_packet_and_no_larger_one() -> None:
    async def main() -> None:
        async with opened(UdpTransport(ANY), UdpTransport(ANY)) as (a, b):
            largest = bytes(range(256)) * 256
            a.transport.send([b.address], largest[:LARGEST])
            await b.hears_all(largest[:LARGEST])
            with pytest.raises(UsageError, match="smaller packet size"):
                a.transport.send([b.address], largest)

    run(main())


def test_a_packet_that_is_too_large_is_refused_also_while_others_wait() -> None:
    async def main() -> None:
        async with opened(UdpTransport(ANY), UdpTransport(ANY)) as (a, b):
            with gate(a.transport) as socket_of_a:
                socket_of_a.shut = True
                a.transport.send([b.address], b"waits")
                with pytest.raises(UsageError, match="smaller packet size"):
                    a.transport.send([b.address], bytes(LARGEST + 1))
                a.transport.send([b.address], b"waits too")
                socket_of_a.shut = False
                await b.hears_all(b"waits", b"waits too")

    run(main())


@pytest.mark.parametrize("packet", [63, LARGEST + 1])
def test_packet_sizes_that_cannot_be_are_refused(packet: int) -> None:
    with pytest.raises(UsageError, match="64 to"):
        UdpTransport(ANY, packet=packet)


def test_turns_are_bounded() -> None:
    async def main() -> None:
        async with opened(UdpTransport(ANY), UdpTransport(ANY)) as (a, b):
            for packet in numbered(200):
                a.transport.send([b.address], packet)
            await b.hears_all(*numbered(200))
            assert max(b.turns) <= READ_AT_ONCE

    run(main())


# --- buffers ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [100, 1_400, 8_000, 60_000])
def test_what_the_buffer_holds_is_not_lost_while_the_receiver_is_slow(size: int) -> None:
    async def main() -> None:
        async with opened(UdpTransport(ANY), UdpTransport(ANY, buffer=256 << 10)) as (a, b):
            # Nobody reads before we wait. The kernel charges a datagram with more than its bytes.
            packets = numbered(b.transport.limits.buffer * 3 // 4 // charge(size), size)
            assert len(packets) > 2
            for packet in packets:
                a.transport.send([b.address], packet)
            await b.hears_all(*packets)
            assert a.transport.counters.dropped == 0

    run(main())


def test_a_burst_beyond_the_receivers_buffer_loses_packets_and_nothing_else() -> None:
    async def main() -> None:
        async with opened(UdpTransport(ANY), UdpTransport(ANY, buffer=256 << 10)) as (a, b):
            count = 2 * b.transport.limits.buffer // 8_000
            packets = numbered(count, 8_000)
            for packet in packets:
                a.transport.send([b.address], packet)
            await b.until(lambda: len(b.heard) > count // 10)
            a.transport.send([b.address], b"after")
            await b.until(lambda: b"after" in b.packets)
            heard = {data for data in b.packets if data != b"after"}
            assert heard < set(packets)
            assert len(heard) > count // 10

    run(main())


def test_a_wanted_buffer_is_asked_for_and_what_was_granted_is_said() -> None:
    async def main() -> None:
        async with opened(UdpTransport(ANY, buffer=100_000)) as (a,):
            made = a.transport._socket  # type: ignore[attr-defined]
            assert a.transport.limits.buffer == made.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF) >= 100_000

    run(main())


# --- waiting for the socket -------------------------------------------------------------------------------------------


def test_what_the_socket_does_not_take_waits_in_order() -> None:
    async def main() -> None:
        async with opened(UdpTransport(ANY), UdpTransport(ANY)) as (a, b):
            with gate(a.transport) as socket_of_a:
                first, *others = numbered(30)
                a.transport.send([b.address], first)
                socket_of_a.shut = True
                reused = bytearray(4)
                for packet in others[:10]:
                    reused[:] = packet
                    a.transport.send([b.address], reused)
                reused[:] = b"gone"
                assert a.transport.counters.queued == 10
                await b.hears_all(first)
                socket_of_a.shut = False
                for packet in others[10:]:
                    a.transport.send([b.address], packet)
                assert a.transport.counters.queued == 29
                await b.hears_all(first, *others)
                assert [data for data, _ in socket_of_a.sent] == [first, *others]
                assert a.transport.counters.sent == 30
                a.transport.send([b.address], b"direct")
                assert a.transport.counters.queued == 29
                assert a.transport.counters.sent == 31

    run(main())


def test_a_packet_to_several_that_stops_half_way_goes_on_where_it_stopped() -> None:
    async def main() -> None:
        async with opened(*(UdpTransport(ANY) for _ in range(4))) as (a, b, c, d):
            with gate(a.transport) as socket_of_a:
                socket_of_a.shuts_after = 1
                a.transport.send([b.address, c.address, d.address], b"x")
                assert socket_of_a.sent == [(b"x", b.address)]
                socket_of_a.shut = False
                for each in (b, c, d):
                    await each.hears_all(b"x")
                assert [address for _, address in socket_of_a.sent] == [b.address, c.address, d.address]

    run(main())


def test_too_many_waiting_bytes_push_the_oldest_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(udp, "QUEUED_BYTES", 1_000)

    async def main() -> None:
        async with opened(UdpTransport(ANY), UdpTransport(ANY)) as (a, b):
            with gate(a.transport) as socket_of_a:
                socket_of_a.shut = True
                for packet in numbered(30, 100):
                    a.transport.send([b.address], packet)
                assert a.transport.counters.dropped == 20
                socket_of_a.shut = False
                await b.hears_all(*numbered(30, 100)[20:])

    run(main())


# --- trouble ----------------------------------------------------------------------------------------------------------


def test_nobody_listening_is_no_error_of_ours() -> None:
    async def main() -> None:
        async with opened(UdpTransport(ANY), UdpTransport(ANY)) as (a, b):
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
                probe.bind(ANY)
                nobody: Address = probe.getsockname()
            for packet in numbered(5):
                a.transport.send([nobody, b.address], packet)
                await asyncio.sleep(0)
            await b.hears_all(*numbered(5))
            b.transport.send([a.address], b"still here")
            await a.hears_all(b"still here")

    run(main())


@pytest.mark.parametrize("waiting", [False, True])
def test_a_refusal_of_the_network_is_counted_and_the_others_are_sent(waiting: bool) -> None:
    async def main() -> None:
        async with opened(UdpTransport(ANY), UdpTransport(ANY)) as (a, b):
            with gate(a.transport) as socket_of_a:
                if waiting:
                    socket_of_a.shut = True
                    a.transport.send([b.address], b"first")
                # From a socket that is bound to loopback there is no way elsewhere.
                a.transport.send([("203.0.113.1", 9), b.address], b"x")
                socket_of_a.shut = False
                await b.hears_all(*([b"first"] if waiting else []), b"x")
                assert a.transport.counters.errors == 1

    run(main())


def test_an_error_while_reading_is_counted_and_reading_goes_on() -> None:
    async def main() -> None:
        async with opened(UdpTransport(ANY), UdpTransport(ANY)) as (a, b):
            with gate(b.transport) as socket_of_b:
                inner = socket_of_b._inner.recvfrom_into
                errors = iter([ConnectionRefusedError()])

                def refused_once(into: bytearray) -> Any:
                    for error in errors:
                        raise error
                    return inner(into)

                socket_of_b.recvfrom_into = refused_once  # type: ignore[attr-defined]
                a.transport.send([b.address], b"x")
                await b.until(lambda: bool(b.heard))
                assert b.transport.counters.errors == 1

    run(main())


def test_an_address_that_is_taken_is_refused_with_advice() -> None:
    async def main() -> None:
        async with opened(UdpTransport(ANY)) as (a,):
            with pytest.raises(UsageError, match="another member running there"):
                await UdpTransport(a.address).open(a.receive, a.turn_over)

    run(main())


# --- the end ----------------------------------------------------------------------------------------------------------


def test_closing_lets_go_what_waits_if_the_socket_takes_it() -> None:
    async def main() -> None:
        async with opened(UdpTransport(ANY), UdpTransport(ANY)) as (a, b):
            with gate(a.transport) as socket_of_a:
                socket_of_a.shut = True
                for packet in numbered(10):
                    a.transport.send([b.address], packet)
                socket_of_a.shut = False
                await a.transport.close()
            await b.hears_all(*numbered(10))
            assert a.transport.counters.dropped == 0

    run(main())


def test_closing_while_the_socket_is_full_counts_what_is_given_up() -> None:
    async def main() -> None:
        async with opened(UdpTransport(ANY), UdpTransport(ANY)) as (a, b):
            with gate(a.transport) as socket_of_a:
                socket_of_a.shut = True
                for packet in numbered(10):
                    a.transport.send([b.address], packet)
                await a.transport.close()
            assert a.transport.counters.dropped == 10
            a.transport.send([b.address], b"late")
            assert a.transport.counters.dropped == 11
            await a.transport.close()
            async with opened(UdpTransport(a.address)) as (again,):
                again.transport.send([b.address], b"again")
                await b.hears_all(b"again")

    run(main())
