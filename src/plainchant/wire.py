"""Packets to bytes and back.

Theory of operation
-------------------
A datagram is one byte that says whose it is and of which version, four bytes of CRC-32 (big-endian) over the rest, and
the rest: the packet as a MessagePack array whose first element is the packet's integer tag (msgspec does that part)::

    | 0xC1 | crc32 of body | body = [tag, field, field, ...] |
      1      4               1 to max_bytes - 5

0xC1 is the one byte that MessagePack never uses, so a bare MessagePack value is not mistaken for ours; a later version
of the layout takes another byte.

Whatever comes out of :meth:`Codec.decode` is a packet whose fields have their declared types, or it is a
:class:`~plainchant.model.WireError` and nothing else: networks and strangers send anything, and that is never our
defect. Whatever goes wrong in :meth:`Codec.encode` is a :class:`~plainchant.model.ProtocolError`, because we made it.
The checksum is against accidents; it keeps no attacker out.

This module imports ``model`` and nothing else of ours.
"""

from __future__ import annotations

import functools
import operator
import struct
import zlib
from collections.abc import Sequence
from typing import Any, Final

import msgspec

from .model import Packet, ProtocolError, WireError

VERSION: Final = 0xC1
"""The first byte of everything that we send."""

MAX_BYTES: Final = 16 * 1024 * 1024
"""How long an encoded packet may be unless the codec is told otherwise: above any datagram, and a bound for streams."""

_HEADER: Final = struct.Struct(">BI")
HEADER_BYTES: Final = _HEADER.size

# What msgspec may raise for bytes that it cannot read (bad UTF-8 is a ValueError, a tower of nested arrays where it
# skips a field is a RecursionError), and for objects that it cannot write.
_UNREADABLE: Final = (msgspec.MsgspecError, ValueError, RecursionError, OverflowError, MemoryError)
_UNWRITABLE: Final = (msgspec.MsgspecError, ValueError, RecursionError, OverflowError, TypeError)


class Codec:
    """Encodes and decodes the packets of one protocol.

    >>> class Ping(Packet, frozen=True, array_like=True, gc=False, tag=1):
    ...     group: str
    ...     number: int
    >>> codec = Codec((Ping,))
    >>> codec.decode(codec.encode(Ping("g", 7)))
    Ping(group='g', number=7)
    """

    def __init__(self, packets: Sequence[type[Packet]], *, max_bytes: int = MAX_BYTES) -> None:
        _check(packets)
        self._known: Final = frozenset(packets)
        self._max_bytes: Final = max_bytes
        self._encode: Final = msgspec.msgpack.Encoder().encode
        self._decode: Final = _decoder(packets).decode

    def encode(self, packet: Packet) -> bytes:
        """The bytes of a packet of this protocol."""
        if type(packet) not in self._known:
            raise ProtocolError(f"{_name(packet)} is not a packet of this protocol; add it to the protocol's packets")
        try:
            body = self._encode(packet)
        except _UNWRITABLE as error:
            raise ProtocolError(f"{_name(packet)} cannot be encoded ({error}); check its fields' values") from error
        if len(body) + HEADER_BYTES > self._max_bytes:
            raise ProtocolError(
                f"{_name(packet)} takes {len(body) + HEADER_BYTES} bytes of at most {self._max_bytes}; put less into it"
            )
        return _HEADER.pack(VERSION, zlib.crc32(body)) + body

    def decode(self, data: bytes | bytearray | memoryview) -> Packet:
        """The packet in these bytes, or a WireError that says why they are not one."""
        if len(data) <= HEADER_BYTES:
            raise WireError(f"{len(data)} bytes are too short for a packet; it was cut off, or another program sent it")
        if len(data) > self._max_bytes:
            raise WireError(f"{len(data)} bytes are too long for a packet of at most {self._max_bytes}; it is not ours")
        version, checksum = _HEADER.unpack_from(data)
        if version != VERSION:
            raise WireError(
                f"the first byte is {version:#04x} and not {VERSION:#04x}: another program or another version; "
                "run the same version of plainchant everywhere"
            )
        body = memoryview(data)[HEADER_BYTES:]
        if zlib.crc32(body) != checksum:
            raise WireError("the checksum does not fit: the packet was damaged on its way and must be sent again")
        try:
            packet: Packet = self._decode(body)
        except _UNREADABLE as error:
            raise WireError(
                f"this is no packet of this protocol ({error}); run the same protocol and version at all members"
            ) from error
        return packet


def _check(packets: Sequence[type[Packet]]) -> None:
    """Refuses packet types that could not be told apart on the wire, and names the one to change."""
    if not packets:
        raise ProtocolError("a codec needs at least one packet type; give the protocol's packets")
    types: dict[int, type[Packet]] = {}
    for packet in packets:
        config = packet.__struct_config__
        tag: Any = config.tag
        if type(tag) is not int:
            raise ProtocolError(f"{packet.__name__} has no integer tag; declare it with tag=N, where N is free")
        if not config.array_like:
            raise ProtocolError(f"{packet.__name__} is not array_like; declare it with array_like=True")
        if tag in types:
            raise ProtocolError(f"{types[tag].__name__} and {packet.__name__} both have tag {tag}; change one of them")
        types[tag] = packet


def _decoder(packets: Sequence[type[Packet]]) -> msgspec.msgpack.Decoder[Any]:
    union: Any = functools.reduce(operator.or_, packets)
    try:
        return msgspec.msgpack.Decoder(union)
    except (TypeError, NameError) as error:
        names = ", ".join(packet.__name__ for packet in packets)
        raise ProtocolError(f"a field of {names} has a type that cannot travel: {error}") from error


def _name(packet: object) -> str:
    return type(packet).__name__
