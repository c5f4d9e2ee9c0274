"""Frames on a TCP connection: four bytes of length (big-endian), then that many bytes. The first one each way is a greeting."""

from __future__ import annotations

import ipaddress
import re
import struct
from typing import Final

from ..core.model import UsageError
from .addresses import format_address, parse_address
from .transport import Address

MAGIC: Final = b"plainchant/1 "  # beginning of a greeting; token, number and listening address follow
LARGEST: Final = 16 << 20  # bytes of the largest packet that is accepted: a bound of memory, and a test for garbage
LENGTH: Final = struct.Struct(">I")
_GREETING: Final = re.compile(re.escape(MAGIC) + rb"([0-9a-f]{16}) ([0-9]{1,18}) ([!-~]{3,100})")
_LONGEST_GREETING: Final = 160
_BUFFER: Final = 1 << 20
_FIRST_BUFFER: Final = 1 << 12  # bytes of buffer before the greeting: an unknown process costs little


class BadFrame(Exception):
    """A length that no frame has."""


class FrameBuffer:
    """Bytes that were read from a connection, and the frames in them. Until it is ``greeted`` it takes only a greeting."""

    def __init__(self) -> None:
        self._buffer = bytearray(_FIRST_BUFFER)
        self.view = memoryview(self._buffer)
        self._start = self._end = 0
        self.greeted = False

    def free(self) -> memoryview:
        """Where the next bytes go."""
        return self.view[self._end :]

    def fill(self, size: int) -> None:
        """Bytes were read into the free part."""
        self._end += size

    def take(self) -> memoryview | None:
        """The next frame, valid until :meth:`make_room`; None if it is not complete. Raises :class:`BadFrame`."""
        first = self._start + 4
        if first > self._end:
            return None
        length: int = LENGTH.unpack_from(self._buffer, self._start)[0]
        if not 0 < length <= (LARGEST if self.greeted else _LONGEST_GREETING):
            raise BadFrame(f"a frame of {length} bytes")
        end = first + length
        if end > self._end:
            return None
        self._start = end
        return self.view[first:end]

    def has_frame(self) -> bool:
        """Whether a complete frame is there. Raises :class:`BadFrame`."""
        start = self._start
        is_there = self.take() is not None
        self._start = start
        return is_there

    def make_room(self) -> None:
        """Makes room for the rest of a frame that has begun; frames that were taken are invalid."""
        rest = self.view[self._start : self._end]
        size = len(self._buffer)
        if self.greeted:
            length = LENGTH.unpack_from(rest)[0] + 4 if len(rest) >= 4 else 0
            # Not more than what has arrived warrants: a length is only a claim.
            size = max(size, _BUFFER, min(length, 4 * len(rest)))
        if size > len(self._buffer):
            self._buffer = bytearray(size)
            self.view = memoryview(self._buffer)
        elif not self._start:
            return
        self.view[: len(rest)] = rest
        self._start, self._end = 0, len(rest)


def make_greeting(token: str, number: int, address: Address) -> bytes:
    """The frame of a greeting: the sender's token, the greeting's number among all of its sender's, the listening address."""
    greeting = MAGIC + f"{token} {number} {format_address(address)}".encode()
    return LENGTH.pack(len(greeting)) + greeting


def read_greeting(frame: memoryview) -> tuple[str, int, Address] | None:
    """Token, number and address of a greeting; None if it is none."""
    found = _GREETING.fullmatch(bytes(frame))
    address = None if found is None else _numeric(found[3].decode())
    return (found[1].decode(), int(found[2]), address) if found is not None and address is not None else None


def _numeric(text: str) -> Address | None:
    """The address that a greeting names, if packets can come from it."""
    try:
        address = parse_address(text)
        return None if is_any(address[0]) or not address[1] else address
    except (UsageError, ValueError):
        return None


def is_any(host: str) -> bool:
    return ipaddress.ip_address(host.partition("%")[0]).is_unspecified
