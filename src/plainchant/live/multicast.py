"""IP multicast: a packet to several members is one datagram on the network.

A packet to one member is an ordinary datagram, sent as :class:`~.udp.UdpTransport` sends it. A packet to several goes once to an
IP multicast group that all members have joined, with a list of its destinations in front::

    | number of destinations | address and port of each | packet |
      1                        6 each

A member that is not on the list does not look at the rest. Both leave from the same socket, so that a multicast too comes from
the address at which its sender is reached. Another socket, bound to the group's port, which all members on a machine share,
takes multicasts in; so datagrams with and without a list are never confused.

Opening finds out whether this machine's interface carries multicasts, by one to itself; switches and routers are not tested.
IPv4 only.
"""

from __future__ import annotations

import asyncio
import ipaddress
import secrets
import socket
import struct
from collections.abc import Sequence
from typing import Final

from ..core.model import UsageError
from .addresses import family_of, format_address
from .transport import READ_AT_ONCE, Address, Data, Limits, Receive, TurnOver
from .udp import LARGEST, UdpTransport, enlarge

DEFAULT_GROUP: Final[Address] = ("239.193.7.1", 7000)  # of the range for one organisation's own use
MOST_DESTINATIONS: Final = 16  # on one list; a packet to more is several multicasts
PROBE_SECONDS: Final = 2.0  # how long a multicast to ourselves may take

_DESTINATION: Final = struct.Struct(">4sH")
_LIST_BYTES: Final = 1 + MOST_DESTINATIONS * _DESTINATION.size


class MulticastTransport(UdpTransport):
    """Packets as datagrams, those to several members as multicasts. ``interface`` is the address of the interface that multicasts
    use, by default the one that ``bind`` is an address of; ``ttl`` is how many networks they may cross: 1 is this one."""

    def __init__(
        self, bind: Address, group: Address = DEFAULT_GROUP, interface: str = "", ttl: int = 1, packet: int = LARGEST, **more: int
    ) -> None:
        super().__init__(bind, packet=packet, **more)
        _check(bind, group, interface, ttl, packet)
        self.group = group
        self._interface = interface or bind[0]
        self._ttl = ttl
        self._group_socket: socket.socket | None = None
        self._lists: dict[tuple[Address, ...], list[bytes]] = {}
        self.limits = Limits(packet - _LIST_BYTES, 0)

    async def open(self, receive: Receive, turn_over: TurnOver) -> None:
        await super().open(receive, turn_over)
        assert self._socket is not None
        assert self._loop is not None
        try:
            self._group_socket = _group_socket(self.group, self._interface)
            granted = enlarge(self._group_socket, self._wanted)
            self._socket.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, socket.inet_aton(self._interface))
            self._socket.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_TTL, self._ttl)
            self._socket.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_LOOP, 1)
            await asyncio.wait_for(self._probe(), PROBE_SECONDS)
        except (OSError, TimeoutError) as error:
            reason = error.strerror if isinstance(error, OSError) and error.strerror else "a multicast to itself does not arrive"
            await self.close()
            text = f"no multicasts to {format_address(self.group)} by the interface of {self._interface}: {reason}"
            raise UsageError(f"{text}; name another interface, or use the transport udp") from error
        except asyncio.CancelledError:
            await self.close()
            raise
        self.limits = Limits(self.limits.packet, min(self.limits.buffer, granted))
        self._entry = _entry(self.address)
        self._loop.add_reader(self._group_socket.fileno(), self._read_group)

    async def _probe(self) -> None:
        """Sends a multicast to nobody, and waits until it comes back to us."""
        assert self._socket is not None
        assert self._group_socket is not None
        assert self._loop is not None
        sign = b"\0" + secrets.token_bytes(16)
        await self._loop.sock_sendto(self._socket, sign, self.group)
        while await self._loop.sock_recv(self._group_socket, 1 << 16) != sign:
            pass

    def send(self, to: Sequence[Address], data: Data) -> None:
        if len(to) < 2:
            super().send(to, data)
            return
        lists = self._lists.get(tuple(to))
        if lists is None:
            lists = self._lists[tuple(to)] = _lists(to)
            if len(self._lists) > 64:
                del self._lists[next(iter(self._lists))]
        for each in lists:
            super().send((self.group,), each + data)

    def catch_up(self) -> bool:
        more = super().catch_up()
        return (self._group_socket is not None and self._read_group()) or more

    def _read_group(self) -> bool:
        assert self._group_socket is not None
        recvfrom_into = self._group_socket.recvfrom_into
        into, view, own, counters = self._into, self._views, self._entry, self.counters
        heard = False
        more = True
        for _ in range(READ_AT_ONCE):
            try:
                length, source = recvfrom_into(into)
            except BlockingIOError:
                more = False
                break
            except OSError:
                counters.errors += 1
                break
            after = 1 + _DESTINATION.size * into[0]
            if length > after and _is_listed(own, into, after):
                heard = True
                counters.received += 1
                counters.received_bytes += length - after
                self._receive(source, view[after:length])
        if heard:
            self._turn_over()
        return more

    async def close(self) -> None:
        if self._group_socket is not None:
            assert self._loop is not None
            self._loop.remove_reader(self._group_socket.fileno())
            self._group_socket.close()
            self._group_socket = None
        await super().close()


def _entry(address: Address) -> bytes:
    return _DESTINATION.pack(socket.inet_aton(address[0]), address[1])


def _lists(to: Sequence[Address]) -> list[bytes]:
    """The lists of destinations, each short enough for a packet."""
    entries = [_entry(address) for address in to]
    parts = [entries[first : first + MOST_DESTINATIONS] for first in range(0, len(entries), MOST_DESTINATIONS)]
    return [bytes((len(part),)) + b"".join(part) for part in parts]


def _is_listed(own: bytes, data: bytearray, after: int) -> bool:
    """Whether an entry stands in the list at the front of a datagram.

    >>> _is_listed(b"10.0p1", bytearray(b"\\x0210.0p210.0p1..."), 13)
    True
    >>> _is_listed(b"10.0p1", bytearray(b"\\x02..10.0p1......"), 13)
    False
    """
    at = data.find(own, 1, after)
    while at >= 0 and (at - 1) % _DESTINATION.size:
        at = data.find(own, at + 1, after)
    return at >= 0


def _group_socket(group: Address, interface: str) -> socket.socket:
    made = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    try:
        made.setblocking(False)
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind(group)
        member = socket.inet_aton(group[0]) + socket.inet_aton(interface)
        made.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, member)
    except OSError:
        made.close()
        raise
    return made


def _check(bind: Address, group: Address, interface: str, ttl: int, packet: int) -> None:
    for address in (bind, group, (interface or bind[0], 0)):
        if family_of(address) != socket.AF_INET:
            raise UsageError(f"multicast is for IPv4, and {format_address(address)} is not: use the transport udp")
    if ipaddress.ip_address(bind[0]).is_unspecified:
        raise UsageError(f"{format_address(bind)} is every address of this machine: with multicast, give the one that peers know")
    if not ipaddress.ip_address(group[0]).is_multicast or not group[1]:
        raise UsageError(f"{format_address(group)} is no multicast group: give one such as {format_address(DEFAULT_GROUP)}")
    if not 0 <= ttl <= 255:
        raise UsageError(f"a time to live of {ttl} cannot be: it is 0 (this machine) to 255, and 1 is this network")
    if packet < 64 + _LIST_BYTES:
        raise UsageError(f"a multicast packet has at least {64 + _LIST_BYTES} bytes, and {packet} were asked for")
