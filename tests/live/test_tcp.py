"""The TCP mesh: connections that come about, break, cross and come back; frames that are split, huge or garbage."""

from __future__ import annotations

import asyncio
import errno
import os
import socket
import struct
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from random import Random

import pytest

from plainchant.core.model import UsageError
from plainchant.live import tcp
from plainchant.live.tcp import TcpTransport
from plainchant.live.tcp_frames import LARGEST, MAGIC
from plainchant.live.transport import READ_AT_ONCE, Address, Transport

from .endpoints import HOST, Endpoint, opened, run, until

ANY: Address = (HOST, 0)


def made(**settings: float) -> TcpTransport:
    return TcpTransport(ANY, random=Random(7), **settings)  # type: ignore[arg-type]


def numbered(count: int, size: int = 4) -> list[bytes]:
    return [struct.pack(">I", number) + bytes(size - 4) for number in range(count)]


def connections_of(transport: Transport) -> int:
    """Open sockets of a transport besides the listening one."""
    assert isinstance(transport, TcpTransport)
    return len(transport.connections)


def free_address() -> Address:
    """An address at which nobody listens, and at which somebody may listen later."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        probe.bind(ANY)
        address: Address = probe.getsockname()
    return address


@contextmanager
def stranger(address: Address) -> Iterator[socket.socket]:
    """A connection of somebody who is not a transport of ours."""
    with socket.create_connection(address, timeout=10) as connection:
        yield connection


def frame(data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + data


def greeting(address: Address, *, token: str = "0123456789abcdef", number: int = 0) -> bytes:
    return frame(MAGIC + f"{token} {number} {address[0]}:{address[1]}".encode())


async def ended(connection: socket.socket) -> bool:
    """Whether the other end closes a blocking connection; what comes before that is skipped. The loop goes on meanwhile."""

    def read() -> bool:
        try:
            while connection.recv(1 << 16):
                pass
        except ConnectionResetError:
            return True
        return True

    return await asyncio.to_thread(read)


# --- packets ----------------------------------------------------------------------------------------------------------


def test_packets_go_both_ways_on_one_connection() -> None:
    async def main() -> None:
        async with opened(made(), made()) as (a, b):
            a.transport.send([b.address], b"one")
            await b.hears(b"one")
            assert b.heard[0][0] == a.address
            b.transport.send([a.address], memoryview(b"two"))
            await a.hears(b"two")
            assert a.heard[0][0] == b.address
            assert connections_of(a.transport) == connections_of(b.transport) == 1
            assert (a.transport.counters.sent, a.transport.counters.sent_bytes) == (1, 3)
            assert (a.transport.counters.received, a.transport.counters.received_bytes) == (1, 3)
            assert a.transport.limits.buffer == 0

    run(main())


def test_a_packet_to_several_reaches_each_and_oneself() -> None:
    async def main() -> None:
        async with opened(made(), made(), made()) as all_three:
            a = all_three[0]
            a.transport.send([each.address for each in all_three], bytearray(b"all"))
            for each in all_three:
                await each.hears(b"all")
                assert each.heard[0][0] == a.address

    run(main())


def test_ipv6() -> None:
    async def main() -> None:
        async with opened(TcpTransport(("::1", 0)), TcpTransport(("::1", 0))) as (a, b):
            a.transport.send([b.address], b"six")
            await b.hears(b"six")
            assert b.heard[0][0] == a.address == ("::1", a.address[1])

    run(main())


def test_who_listens_at_every_address_is_known_by_the_one_it_calls_from() -> None:
    async def main() -> None:
        async with opened(TcpTransport(("0.0.0.0", 0)), made()) as (a, b):
            a.transport.send([b.address], b"hello")
            await b.hears(b"hello")
            assert b.heard[0][0] == (HOST, a.address[1])
            b.transport.send([b.heard[0][0]], b"back")
            await a.hears(b"back")
            assert connections_of(b.transport) == 1

    run(main())


def test_many_packets_of_all_sizes_stay_in_order_and_turns_are_bounded() -> None:
    async def main() -> None:
        random = Random(3)
        packets = [random.randbytes(random.choice((1, 2, 5, 60, 1400, 60_000))) for _ in range(1_000)] + numbered(1_000)
        async with opened(made(), made()) as (a, b):
            for packet in packets:
                a.transport.send([b.address], packet)
            await b.hears(*packets)
            assert max(b.turns) == READ_AT_ONCE
            assert min(b.turns) > 0
            assert a.transport.counters.sent == b.transport.counters.received == len(packets)
            assert a.transport.counters.dropped == 0

    run(main())


def test_the_largest_packet_and_no_larger_one() -> None:
    async def main() -> None:
        async with opened(TcpTransport(ANY, packet=LARGEST), made()) as (a, b):
            huge = Random(1).randbytes(LARGEST)
            a.transport.send([b.address], huge)
            a.transport.send([b.address], b"after")
            await b.hears(huge, b"after")
            with pytest.raises(UsageError, match="larger packet size"):
                b.transport.send([a.address], bytes(tcp.DEFAULT_PACKET + 1))

    run(main())


@pytest.mark.parametrize("packet", [63, LARGEST + 1])
def test_packet_sizes_that_cannot_be_are_refused(packet: int) -> None:
    with pytest.raises(UsageError, match="64 to"):
        TcpTransport(ANY, packet=packet)


def test_a_turns_packets_leave_in_one_call(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[int] = []

    class Counted(socket.socket):
        def sendmsg(self, buffers, *rest):  # type: ignore[no-untyped-def]
            calls.append(len(buffers))
            return super().sendmsg(buffers, *rest)

    async def main() -> None:
        async with opened(made(), made()) as (a, b):
            monkeypatch.setattr(socket, "socket", Counted)
            a.transport.send([b.address], b"first")
            await b.hears(b"first")
            calls.clear()
            for packet in numbered(50):
                a.transport.send([b.address], packet)
            assert calls == [2]
            await b.hears(b"first", *numbered(50))
            assert calls == [2, 98]

    run(main())


def test_a_receiver_that_does_not_read_makes_packets_wait_and_loses_none() -> None:
    async def main() -> None:
        async with opened(made(), made()) as (a, b):
            a.transport.send([b.address], b"first")
            await b.hears(b"first")
            (peer,) = b.transport._peers.values()  # type: ignore[attr-defined]
            connection = peer.connection._socket
            asyncio.get_running_loop().remove_reader(connection.fileno())
            packets = numbered(600, 60_000)
            for packet in packets:
                a.transport.send([b.address], packet)
                await asyncio.sleep(0)
            assert a.transport.counters.queued > 0
            assert a.transport.counters.sent < len(packets)
            peer.connection.begin_reading()
            await b.hears(b"first", *packets)
            assert a.transport.counters.dropped == 0

    run(main())


# --- connections that do not come about, and come back ----------------------------------------------------------------


def test_packets_wait_for_somebody_who_comes_later() -> None:
    async def main() -> None:
        async with opened(made()) as (a,):
            address = free_address()
            for packet in numbered(3):
                a.transport.send([address], packet)
            await until(lambda: a.transport.counters.errors >= 2)
            async with opened(TcpTransport(address)) as (b,):
                await b.hears(*numbered(3))

    run(main())


def test_too_many_waiting_bytes_push_the_oldest_out() -> None:
    async def main() -> None:
        async with opened(made(waiting=1_000)) as (a,):
            address = free_address()
            for packet in numbered(30, 100):
                a.transport.send([address], packet)
            assert a.transport.counters.dropped == 20
            async with opened(TcpTransport(address)) as (b,):
                await b.hears(*numbered(30, 100)[20:])

    run(main())


def test_who_cannot_be_reached_for_long_is_given_up_until_the_next_packet() -> None:
    async def main() -> None:
        async with opened(made(patience=0.2)) as (a,):
            address = free_address()
            a.transport.send([address], b"never")
            await until(lambda: a.transport.counters.dropped == 1)
            tried = a.transport.counters.errors
            assert 2 <= tried <= 20
            await asyncio.sleep(0.1)
            assert a.transport.counters.errors == tried
            async with opened(TcpTransport(address)) as (b,):
                a.transport.send([address], b"again")
                await b.hears(b"again")

    run(main())


@pytest.mark.parametrize("address", [("::1", 9), ("203.0.113.1", 9), ("255.255.255.255", 9), ("not-a-number", 9)])
def test_addresses_that_cannot_be_reached_do_not_raise(address: Address) -> None:
    async def main() -> None:
        async with opened(made(patience=0.1)) as (a,):
            a.transport.send([address], b"x")
            await until(lambda: a.transport.counters.dropped == 1)
            assert a.transport.counters.errors >= 1

    run(main())


def test_a_broken_connection_is_made_again_when_there_is_something_to_send() -> None:
    async def main() -> None:
        async with opened(made(), made()) as (a, b):
            a.transport.send([b.address], b"one")
            await b.hears(b"one")
            for peer in b.transport._peers.values():  # type: ignore[attr-defined]
                peer.connection._socket.shutdown(socket.SHUT_RDWR)
            await until(lambda: connections_of(a.transport) == 0)
            assert a.transport._peers == {}  # type: ignore[attr-defined]
            a.transport.send([b.address], b"two")
            await b.hears(b"one", b"two")

    run(main())


def test_a_member_that_comes_back_at_its_address_is_reached() -> None:
    async def main() -> None:
        async with opened(made()) as (a,):
            async with opened(made()) as (b,):
                address = b.address
                a.transport.send([address], b"one")
                await b.hears(b"one")
            a.transport.send([address], b"two")
            async with opened(TcpTransport(address)) as (b,):
                await b.until(lambda: bool(b.heard))
                assert b.packets == [b"two"]
                b.transport.send([a.address], b"back")
                await a.hears(b"back")

    run(main())


def test_a_new_process_at_an_address_replaces_a_connection_that_only_we_still_have() -> None:
    async def main() -> None:
        async with opened(made()) as (a,):
            address = free_address()
            with stranger(a.address) as old, stranger(a.address) as new:
                old.sendall(greeting(address) + frame(b"old"))
                await a.hears(b"old")
                new.sendall(greeting(address, token="f" * 16) + frame(b"new"))
                await a.hears(b"old", b"new")
                assert await ended(old)
                assert connections_of(a.transport) == 1

    run(main())


def test_the_later_greeting_of_one_process_wins() -> None:
    async def main() -> None:
        async with opened(made()) as (a,):
            address = free_address()
            with stranger(a.address) as second, stranger(a.address) as first, stranger(a.address) as third:
                second.sendall(greeting(address, number=2) + frame(b"second"))
                await a.hears(b"second")
                first.sendall(greeting(address, number=1) + frame(b"first"))
                assert await ended(first)
                third.sendall(greeting(address, number=3) + frame(b"third"))
                await a.hears(b"second", b"third")
                assert await ended(second)
                assert connections_of(a.transport) == 1

    run(main())


# --- both at once -----------------------------------------------------------------------------------------------------


def test_both_open_at_once_and_one_connection_stays() -> None:
    async def main() -> None:
        for seed in range(20):
            async with opened(*(made() for _ in range(4))) as members:
                random = Random(seed)
                for member in random.sample(members, 4):
                    others = [other.address for other in members if other is not member]
                    for packet in numbered(20):
                        member.transport.send(others, packet)
                    for _ in range(random.randrange(4)):
                        await asyncio.sleep(0)
                for member in members:
                    await member.until(lambda member=member: len(member.heard) == 60)  # type: ignore[misc]
                    for other in members:
                        expected = [] if other is member else numbered(20)
                        assert [data for source, data in member.heard if source == other.address] == expected
                for member in members:
                    await until(lambda member=member: connections_of(member.transport) == 3)  # type: ignore[misc]

    run(main())


@pytest.mark.parametrize("smaller", [True, False])
def test_a_call_that_crosses_ours_is_turned_down_by_the_smaller_address_and_taken_by_the_larger(smaller: bool) -> None:
    async def main() -> None:
        async with opened(made()) as (a,):
            with server(lambda address: (a.address < address) is smaller) as listener:
                theirs: Address = listener.getsockname()
                a.transport.send([theirs], b"waits")
                ours, _ = await asyncio.to_thread(listener.accept)
                with ours, stranger(a.address) as call:
                    assert MAGIC in await asyncio.to_thread(ours.recv, 1_000)
                    call.sendall(greeting(theirs, number=1))
                    closed, kept = (call, ours) if smaller else (ours, call)
                    assert await ended(closed)
                    if smaller:
                        ours.sendall(greeting(theirs, number=2))
                    kept.sendall(frame(b"taken"))
                    await a.hears(b"taken")
                    assert connections_of(a.transport) == 1
                    a.transport.send([theirs], b"more")
                    assert await received(kept, frame(b"waits") + frame(b"more"))

    run(main())


def test_an_attempt_that_has_not_come_through_gives_way_to_a_call() -> None:
    async def main() -> None:
        async with opened(made()) as (a,):
            with server(lambda address: a.address < address, backlog=0) as listener, occupied(listener):
                theirs: Address = listener.getsockname()
                a.transport.send([theirs], b"waits")
                with stranger(a.address) as call:
                    call.sendall(greeting(theirs))
                    assert await received(call, frame(b"waits"))
                    assert connections_of(a.transport) == 1

    run(main())


@contextmanager
def server(wanted: Callable[[Address], bool], backlog: int = 100) -> Iterator[socket.socket]:
    """A plain listening socket at an address of the wanted kind."""
    for _ in range(1_000):
        with socket.create_server(ANY, backlog=backlog) as listener:
            listener.settimeout(10)
            if wanted(listener.getsockname()):
                yield listener
                return
    raise AssertionError("the system gives no port of the wanted kind")


@contextmanager
def occupied(listener: socket.socket) -> Iterator[None]:
    """Fills the queue of a listening socket, so that further connections do not come about."""
    with ExitStack() as stack:
        for _ in range(16):
            connection = stack.enter_context(socket.socket())
            connection.settimeout(0.02)
            try:
                connection.connect(listener.getsockname())
            except TimeoutError:
                break
        else:
            pytest.skip("this system accepts connections beyond a listening socket's queue")
        yield


async def received(connection: socket.socket, data: bytes) -> bool:
    """Whether a blocking connection brings some bytes, at the end of whatever comes."""

    def read() -> bool:
        got = b""
        while not got.endswith(data):
            got += connection.recv(1 << 16)
        return True

    return await asyncio.to_thread(read)


# --- strangers --------------------------------------------------------------------------------------------------------


def test_connections_are_bounded_and_who_says_nothing_makes_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tcp, "MOST_CONNECTIONS", 4)

    async def main() -> None:
        async with opened(made(), made()) as (a, b):
            a.transport.send([b.address], b"one")
            await b.hears(b"one")
            with ExitStack() as stack:
                silent = [stack.enter_context(stranger(a.address)) for _ in range(3)]
                await until(lambda: connections_of(a.transport) == 4)
                greeted = [stack.enter_context(stranger(a.address)) for _ in range(3)]
                for number, connection in enumerate(greeted):
                    connection.sendall(greeting((HOST, 7001 + number)))
                assert all([await ended(connection) for connection in silent])
                await until(lambda: connections_of(a.transport) == 4)
                late = stack.enter_context(stranger(a.address))  # all have said whose they are
                assert await ended(late)
                assert connections_of(a.transport) == 4
            b.transport.send([a.address], b"two")
            await a.hears(b"two")

    run(main())


@pytest.mark.parametrize(
    "bytes_sent",
    [
        b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
        b"\0\0\0\0",
        frame(b"x" * 20),
        frame(b"plainchant/9 0123456789abcdef 0 127.0.0.1:1"),
        frame(MAGIC),
        frame(MAGIC + b"0123456789abcdef 0 localhost:7001"),
        frame(MAGIC + b"0123456789abcdef 0 0.0.0.0:7001"),
        frame(MAGIC + b"0123456789abcdef 0 127.0.0.1:0"),
        frame(MAGIC + b"0123456789abcdef 0 127.0.0.1:99999"),
        frame(MAGIC + b"0123456789abcdef 0 \xff\xff\xff\xff"),
        frame(MAGIC + b"0123456789abcdef -1 127.0.0.1:7001"),
        greeting((HOST, 7001)) + b"\xff\xff\xff\xff",
        greeting((HOST, 7001)) + frame(b"")[:4],
    ],
)
def test_garbage_closes_its_connection_and_no_other(bytes_sent: bytes) -> None:
    async def main() -> None:
        async with opened(made(), made()) as (a, b):
            a.transport.send([b.address], b"one")
            await b.hears(b"one")
            with stranger(a.address) as connection:
                connection.sendall(bytes_sent)
                assert await ended(connection)
            assert a.transport.counters.errors == 1
            b.transport.send([a.address], b"two")
            await a.hears(b"two")
            assert connections_of(a.transport) == 1

    run(main())


def test_whoever_claims_our_own_address_is_turned_away() -> None:
    async def main() -> None:
        async with opened(made()) as (a,):
            with stranger(a.address) as connection:
                connection.sendall(greeting(a.address))
                assert await ended(connection)
            assert a.transport.counters.errors == 1

    run(main())


def test_who_does_not_greet_is_closed_after_a_while() -> None:
    async def main() -> None:
        async with opened(made(patience=0.05)) as (a,):
            with stranger(a.address) as connection:
                connection.sendall(b"\0")
                assert await ended(connection)

    run(main())


def test_frames_in_single_bytes_are_put_together() -> None:
    async def main() -> None:
        async with opened(made()) as (a,):
            with stranger(a.address) as connection:
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                address = free_address()
                for byte in greeting(address) + frame(b"abc") + frame(b"d"):
                    connection.sendall(bytes((byte,)))
                    await asyncio.sleep(0)
                await a.hears(b"abc", b"d")
                assert {source for source, _ in a.heard} == {address}

    run(main())


def test_packets_that_came_before_the_connection_ended_are_heard() -> None:
    async def main() -> None:
        async with opened(made()) as (a,):
            packets = numbered(1_000)
            with stranger(a.address) as connection:
                connection.sendall(greeting((HOST, 7001)) + b"".join(map(frame, packets)))
            await a.hears(*packets)

    run(main())


def test_without_file_descriptors_accepting_goes_on_later(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tcp, "LONGEST_PAUSE", 0.05)
    failing = iter((True, True, False))

    class Scarce(socket.socket):
        def accept(self):  # type: ignore[no-untyped-def]
            if next(failing, False):
                raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
            return super().accept()

    async def main() -> None:
        monkeypatch.setattr(socket, "socket", Scarce)
        async with opened(made(), made()) as (a, b):
            a.transport.send([b.address], b"x")
            await b.hears(b"x")
            assert b.transport.counters.errors == 2

    run(main())


# --- an error in the receiver, and the end ----------------------------------------------------------------------------


def test_an_exception_of_the_receiver_costs_one_packet() -> None:
    async def main() -> None:
        async with opened(made()) as (a,):
            problems: list[str] = []
            asyncio.get_running_loop().set_exception_handler(lambda _, context: problems.append(str(context["exception"])))
            endpoint = Endpoint(a.transport)

            def receive(source: Address, data: object) -> None:
                endpoint.receive(source, data)  # type: ignore[arg-type]
                if len(endpoint.heard) == 2:
                    raise ValueError("receiver")

            a.transport.receive, a.transport.turn_over = receive, endpoint.turn_over  # type: ignore[attr-defined]
            with stranger(a.address) as connection:
                connection.sendall(greeting((HOST, 7001)) + b"".join(map(frame, numbered(200))))
                await endpoint.hears(*numbered(200))
            assert problems == ["receiver"]

    run(main())


def test_what_was_sent_before_closing_arrives() -> None:
    async def main() -> None:
        async with opened(made()) as (b,):
            async with opened(made()) as (a,):
                a.transport.send([b.address], b"first")
                await b.hears(b"first")
                packets = numbered(300, 10_000)
                for packet in packets:
                    a.transport.send([b.address], packet)
                    b.transport.send([a.address], packet)
            await b.hears(b"first", *packets)
            a.transport.send([b.address], b"late")
            assert a.transport.counters.dropped == 1

    run(main())


def test_closing_does_not_wait_for_somebody_who_does_not_read() -> None:
    async def main() -> None:
        async with opened(made()) as (a,):
            with stranger(a.address) as connection:
                address = free_address()
                connection.sendall(greeting(address) + frame(b"x"))
                await a.hears(b"x")
                for packet in numbered(500, 60_000):
                    a.transport.send([address], packet)
                await asyncio.wait_for(a.transport.close(), 10)
                assert a.transport.counters.dropped > 0
                assert connections_of(a.transport) == 0

    run(main())


def test_closing_ends_attempts_and_is_done_once() -> None:
    async def main() -> None:
        async with opened(made()) as (a,):
            a.transport.send([free_address()], b"x")
            await a.transport.close()
            await a.transport.close()
            assert a.transport.counters.dropped == 1
            assert connections_of(a.transport) == 0

    run(main())


def test_an_address_that_is_taken_is_refused_with_advice() -> None:
    async def main() -> None:
        async with opened(made()) as (a,):
            with pytest.raises(UsageError, match="another member running there"):
                await TcpTransport(a.address).open(a.receive, a.turn_over)

    run(main())
