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
:class:`~plainchant.core.model.WireError` and nothing else: networks and strangers send anything, and that is never our
defect. Whatever goes wrong in :meth:`Codec.encode` is a :class:`~plainchant.core.model.ProtocolError`, because we made it.
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

VERSION: Final = 0xC1  # the first byte of everything that we send

MAX_BYTES: Final = 16 * 1024 * 1024
"""How long an encoded packet may be unless the codec is told otherwise: above any datagram, and a bound for streams."""

_HEADER: Final = struct.Struct(">BI")
HEADER_BYTES: Final = _HEADER.size
STAMP_BYTES: Final = 4
FRAME_BYTES: Final = HEADER_BYTES + STAMP_BYTES

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
            size = len(body) + HEADER_BYTES
            raise ProtocolError(f"{_name(packet)} takes {size} bytes of at most {self._max_bytes}; put less into it")
        return _HEADER.pack(VERSION, zlib.crc32(body)) + body

    def decode(self, data: bytes | bytearray | memoryview) -> Packet:
        """The packet in these bytes, or a WireError that says why they are not one."""
        return self._read(data, HEADER_BYTES)

    def _read(self, data: bytes | bytearray | memoryview, start: int) -> Packet:
        """The packet that begins at ``start``; everything behind the header is under the checksum."""
        if len(data) <= start:
            raise WireError(f"{len(data)} bytes are too short for a packet; it was cut off, or another program sent it")
        if len(data) > self._max_bytes:
            raise WireError(f"{len(data)} bytes are too long for a packet of at most {self._max_bytes}; it is not ours")
        version, checksum = _HEADER.unpack_from(data)
        if version != VERSION:
            problem = f"the first byte is {version:#04x} and not {VERSION:#04x}: another program or another version"
            raise WireError(f"{problem}; run the same version of plainchant everywhere")
        view = memoryview(data)
        if zlib.crc32(view[HEADER_BYTES:]) != checksum:
            raise WireError("the checksum does not fit: the packet was damaged on its way and must be sent again")
        try:
            packet: Packet = self._decode(view[start:])
        except _UNREADABLE as error:
            problem = f"this is no packet of this protocol ({error})"
            raise WireError(f"{problem}; run the same protocol and version at all members") from error
        return packet


class Stamped(Codec):
    """Encodes with a stamp in front of the packet: four bytes that say which incarnation of a process sent it.

    >>> class Ping(Packet, frozen=True, array_like=True, gc=False, tag=1):
    ...     number: int
    >>> codec = Stamped((Ping,), b"boot")
    >>> data = codec.encode_frame(Ping(7))
    >>> stamp_of(data), codec.decode_frame(data)
    (b'boot', Ping(number=7))
    """

    def __init__(self, packets: Sequence[type[Packet]], stamp: bytes, *, max_bytes: int = MAX_BYTES) -> None:
        super().__init__(packets, max_bytes=max_bytes)
        if len(stamp) != STAMP_BYTES:
            raise ProtocolError(f"a stamp has {STAMP_BYTES} bytes, not {len(stamp)}")
        self._stamp: Final = stamp
        self._frame: Final = bytearray(HEADER_BYTES) + stamp
        self._encode_into: Final = msgspec.msgpack.Encoder().encode_into

    def encode_frame(self, packet: Packet) -> bytearray:
        """The bytes of a packet, in a buffer that is used again for the next one."""
        if type(packet) not in self._known:
            raise ProtocolError(f"{_name(packet)} is not a packet of this protocol; add it to the protocol's packets")
        frame = self._frame
        try:
            self._encode_into(packet, frame, FRAME_BYTES)
        except _UNWRITABLE as error:
            raise ProtocolError(f"{_name(packet)} cannot be encoded ({error}); check its fields' values") from error
        if len(frame) > self._max_bytes:
            raise ProtocolError(f"{_name(packet)} takes {len(frame)} bytes of at most {self._max_bytes}; put less into it")
        with memoryview(frame) as whole, whole[HEADER_BYTES:] as checked:
            checksum = zlib.crc32(checked)
        _HEADER.pack_into(frame, 0, VERSION, checksum)
        return frame

    def decode_frame(self, data: bytes | bytearray | memoryview) -> Packet:
        """The packet in these bytes, whoever sent it, or a WireError that says why they are not one."""
        return self._read(data, FRAME_BYTES)


def stamp_of(data: bytes | bytearray | memoryview) -> bytes:
    """The stamp in a frame's bytes."""
    return bytes(data[HEADER_BYTES:FRAME_BYTES])


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
