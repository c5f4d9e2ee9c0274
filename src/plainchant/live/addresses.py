"""Addresses: read them, write them, resolve them, and how large a packet may be on the way to one.

An address is a host and a port, as text ``"host:port"``, with brackets around an IPv6 host: ``"[::1]:7001"``. Transports work
with numeric hosts in the one spelling that the system uses for where a packet came from, so that addresses can be compared;
:func:`resolve` makes them so.
"""

from __future__ import annotations

import asyncio
import ipaddress
import socket
import sys
from typing import Final

from ..core.model import UsageError
from .transport import Address

DEFAULT_PACKET: Final = 1400  # bytes where the MTU of the way is not known: fits an Ethernet with room for a tunnel's header

MAX_PACKET: Final = 65_507  # most bytes of a UDP datagram (over IPv4, which is less than over IPv6)

_IP_MTU: Final = 14
_IPV6_MTU: Final = 24  # Linux's numbers for the MTU of a connected socket's way; the socket module does not have them
_OF_FAMILY: Final[dict[int, str]] = {socket.AF_INET: " of IPv4", socket.AF_INET6: " of IPv6"}
_HEADERS: Final = {socket.AF_INET: 28, socket.AF_INET6: 48}  # bytes of the IP and UDP headers


def parse_address(text: str) -> Address:
    """Reads ``"host:port"``.

    >>> parse_address("10.0.0.7:7001"), parse_address("[::1]:7001")
    (('10.0.0.7', 7001), ('::1', 7001))
    """
    host, colon, port = text.strip().rpartition(":")
    bracketed = host.startswith("[") and host.endswith("]")
    if bracketed:
        host = host[1:-1]
    elif ":" in host:
        raise UsageError(f'{text!r} is not an address: put an IPv6 host into brackets, such as "[::1]:7001"')
    if not colon or not host or any(sign in host for sign in "[] \t/"):
        raise UsageError(f'{text!r} is not an address: write a host and a port, such as "127.0.0.1:7001"')
    if bracketed and not _is_numeric(host, 6):
        raise UsageError(f"{text!r} is not an address: {host!r} in brackets is no IPv6 host; check it, or take the brackets away")
    if not (port.isascii() and port.isdigit() and int(port) <= 65_535):
        raise UsageError(f"{text!r} is not an address: its port {port!r} is no number from 0 to 65535")
    return host, int(port)


def format_address(address: Address) -> str:
    """Writes an address as :func:`parse_address` reads it.

    >>> format_address(("::1", 7001))
    '[::1]:7001'
    """
    host, port = address
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def is_numeric(address: Address) -> bool:
    """Whether a packet can be sent there without asking anybody what it means.

    >>> is_numeric(("::1", 7001)), is_numeric(("localhost", 7001)), is_numeric(("127.0.0.1", 0))
    (True, False, False)
    """
    host, port = address
    return (_is_numeric(host, 4) or _is_numeric(host, 6)) and 0 < port <= 65_535


def family_of(address: Address) -> socket.AddressFamily:
    """The family of a numeric address.

    >>> family_of(("::1", 7001)).name
    'AF_INET6'
    """
    return socket.AF_INET6 if ":" in address[0] else socket.AF_INET


def is_here(address: Address) -> bool:
    """Whether a numeric address is one of this machine's: then a socket can be bound there.

    >>> is_here(("127.0.0.1", 9)), is_here(("192.0.2.1", 9))
    (True, False)
    """
    with socket.socket(family_of(address), socket.SOCK_DGRAM) as probe:
        try:
            probe.bind((address[0], 0))
        except OSError:
            return False
    return True


def is_loopback(address: Address) -> bool:
    """Whether only this machine reaches a numeric address.

    >>> is_loopback(("127.0.0.1", 9)), is_loopback(("0.0.0.0", 9)), is_loopback(("::1", 9))
    (True, False, True)
    """
    return ipaddress.ip_address(address[0].partition("%")[0]).is_loopback


async def resolve(address: Address, family: int = socket.AF_UNSPEC) -> Address:
    """The numeric address of a host, in the system's own spelling; of the given family where one is given."""
    host, port = address
    numeric = _is_numeric(host, 4) or _is_numeric(host, 6)
    try:
        if numeric:
            found = socket.getaddrinfo(host, port, family=family, type=socket.SOCK_DGRAM, flags=socket.AI_NUMERICHOST)
        else:
            found = await asyncio.get_running_loop().getaddrinfo(host, port, family=family, type=socket.SOCK_DGRAM)
    except (OSError, UnicodeError) as error:
        text = f"the host of {format_address(address)} has no address{_OF_FAMILY.get(family, '')} ({error})"
        raise UsageError(f"{text}; check its name, or give its number") from error
    sockaddr = found[0][4]
    return str(sockaddr[0]), port


def packet_for(address: Address) -> int:
    """Bytes that one UDP packet to a numeric address may have so that no router or interface splits it.

    The system is asked for the MTU of the way, which is that of the interface there unless it has learned of a smaller
    one. Without an answer (another system, no way there, an address for "any") it is :data:`DEFAULT_PACKET`.

    >>> packet_for(("127.0.0.1", 9))
    65507
    """
    family = family_of(address)
    if sys.platform != "linux" or ipaddress.ip_address(address[0].partition("%")[0]).is_unspecified:
        return DEFAULT_PACKET
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            # Connecting a datagram socket sends nothing; it only looks for the way. The port must not be 0.
            probe.connect((address[0], address[1] or 9))
            if family == socket.AF_INET6:
                mtu = probe.getsockopt(socket.IPPROTO_IPV6, _IPV6_MTU)
            else:
                mtu = probe.getsockopt(socket.IPPROTO_IP, _IP_MTU)
    except OSError:
        return DEFAULT_PACKET
    return min(MAX_PACKET, mtu - _HEADERS[family])


def _is_numeric(host: str, version: int) -> bool:
    try:
        return ipaddress.ip_address(host).version == version
    except ValueError:
        return False
