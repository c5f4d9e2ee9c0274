"""Cases of IP multicast, for a process in a network namespace of its own: ``test_multicast`` starts it there.

Run as ``python -m tests.live.multicast_cases CASE OUTSIDE``, where OUTSIDE is the name of the network namespace that it must not
be in.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import socket
import struct
import sys
from collections.abc import Callable, Coroutine
from typing import Any, Final

import pytest

from plainchant.core.model import UsageError
from plainchant.live import multicast
from plainchant.live.multicast import MOST_DESTINATIONS, MulticastTransport
from plainchant.live.transport import READ_AT_ONCE, Address

from .endpoints import HOST, opened, run
from .test_api import addresses, members, payloads, read

GROUP: Final[Address] = ("239.1.2.3", 7000)
_GET_FLAGS: Final = 0x8913
_SET_FLAGS: Final = 0x8914
_UP_RUNNING_MULTICAST: Final = 0x1 | 0x40 | 0x1000


def own_namespace() -> str:
    return os.readlink("/proc/self/ns/net")


def bring_loopback_up() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        name, flags = struct.unpack("16sh", fcntl.ioctl(control, _GET_FLAGS, struct.pack("16sh", b"lo", 0)))
        fcntl.ioctl(control, _SET_FLAGS, struct.pack("16sh", name, flags | _UP_RUNNING_MULTICAST))


def member(**settings: Any) -> MulticastTransport:
    return MulticastTransport((HOST, 0), GROUP, **settings)


async def several_get_one_datagram() -> None:
    async with opened(*(member() for _ in range(4))) as (a, b, c, d):
        a.transport.send([b.address, c.address], b"both")
        a.transport.send([d.address], b"one")
        a.transport.send([b.address, c.address, d.address], memoryview(b"three"))
        await b.hears_all(b"both", b"three")
        await c.hears_all(b"both", b"three")
        await d.until(lambda: len(d.heard) == 2)
        assert sorted(d.packets) == [b"one", b"three"]
        assert {source for each in (b, c, d) for source, _ in each.heard} == {a.address}
        assert a.heard == []
        assert a.transport.counters.sent == 3
        assert d.transport.counters.received == 2
        assert d.transport.counters.received_bytes == len(b"onethree")


async def oneself_can_be_among_them() -> None:
    async with opened(member(), member()) as (a, b):
        a.transport.send([a.address, b.address], b"all")
        await a.hears_all(b"all")
        await b.hears_all(b"all")


async def many_destinations_are_several_datagrams() -> None:
    async with opened(*(member() for _ in range(MOST_DESTINATIONS + 4))) as members:
        a = members[0]
        for _ in range(3):
            a.transport.send([each.address for each in members], b"all")
        for each in members:
            await each.hears_all(b"all", b"all", b"all")
        assert a.transport.counters.sent == 6


async def the_largest_packet_fits() -> None:
    async with opened(*(member() for _ in range(MOST_DESTINATIONS + 1))) as members:
        a, *others = members
        largest = bytes(range(256)) * 256
        largest = largest[: a.transport.limits.packet]
        a.transport.send([each.address for each in others], largest)
        for each in others:
            await each.hears_all(largest)
        assert a.transport.limits.buffer > 0


async def other_programs_datagrams_are_ignored() -> None:
    async with opened(member(), member()) as (a, b):
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as other:
            other.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, socket.inet_aton(HOST))
            own = socket.inet_aton(HOST) + struct.pack(">H", b.address[1])
            cut_off = b"", b"\0", b"\x01" + own, b"\x02" + own + b"x", b"\xff" * 100
            for data in (*cut_off, b"\0" + own + b"x", b"\x01x" + own + b"x", b"\x02xx" + own + b"xxxxx"):
                other.sendto(data, GROUP)
        a.transport.send([a.address, b.address], b"ours")
        await b.hears_all(b"ours")
        assert b.transport.counters.errors == 0


async def an_interface_that_is_not_there_is_refused() -> None:
    with pytest.raises(UsageError, match=r"239\.1\.2\.3:7000 by the interface of 10\.9\.9\.9.* use the transport udp"):
        await member(interface="10.9.9.9").open(lambda source, data: None, lambda: None)


async def where_multicasts_do_not_arrive_it_is_refused() -> None:
    async def swallowed(made: socket.socket, data: bytes, address: Address) -> int:
        return len(data)

    multicast.PROBE_SECONDS = 0.05  # type: ignore[misc]
    loop = asyncio.get_running_loop()
    loop.sock_sendto = swallowed  # type: ignore[method-assign,assignment]
    transport = member()
    with pytest.raises(UsageError, match="a multicast to itself does not arrive"):
        await transport.open(lambda source, data: None, lambda: None)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as again:
        again.bind(transport.address)


async def a_closed_transport_leaves_its_address_free() -> None:
    async with opened(member()) as (a,):
        address = a.address
    async with opened(MulticastTransport(address, GROUP), member()) as (a, b):
        b.transport.send([a.address, b.address], b"again")
        await a.hears_all(b"again")


async def a_burst_is_read_in_bounded_turns() -> None:
    async with opened(member(), member(), member()) as (a, b, c):
        packets = [struct.pack(">I", number) for number in range(500)]
        for packet in packets:
            a.transport.send([b.address, c.address], packet)
        await b.hears_all(*packets)
        await c.hears_all(*packets)
        assert max(b.turns) <= READ_AT_ONCE
        assert min(b.turns) > 0


async def newtop_orders_what_is_sent_once_to_all() -> None:
    peers = addresses("a", "b", "c")
    options: dict[str, Any] = {"peers": peers, "protocol": "newtop", "transport": "multicast", "parameters": {}}
    async with members(*peers, **options) as groups:
        for group in groups:
            await group.send(group.me.encode())
        found = [payloads(await read(group, 3)) for group in groups]
        assert found[0] == found[1] == found[2]
        assert sorted(found[0]) == [b"a", b"b", b"c"]


CASES: Final[dict[str, Callable[[], Coroutine[Any, Any, None]]]] = {
    case.__name__: case
    for case in (
        several_get_one_datagram,
        oneself_can_be_among_them,
        many_destinations_are_several_datagrams,
        the_largest_packet_fits,
        other_programs_datagrams_are_ignored,
        an_interface_that_is_not_there_is_refused,
        where_multicasts_do_not_arrive_it_is_refused,
        a_closed_transport_leaves_its_address_free,
        a_burst_is_read_in_bounded_turns,
        newtop_orders_what_is_sent_once_to_all,
    )
}


if __name__ == "__main__":
    name, outside = sys.argv[1:]
    if own_namespace() == outside:
        sys.exit("this is not a network namespace of its own; nothing was sent")
    bring_loopback_up()
    run(CASES[name]())
    print("done")
