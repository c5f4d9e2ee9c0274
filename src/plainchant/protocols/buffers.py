"""What packets take of a receiver's buffer, for protocols that fit their windows to it."""

from __future__ import annotations

from typing import Final

UNLIMITED: Final = 16 << 20  # Bytes of packets that a process holds in memory where the transport has its own backpressure


def charge(size: int) -> int:
    """What a datagram takes of a receiver's buffer (Linux): a power of two that holds the data and 364 bytes, and 256 bytes.

    >>> charge(1_400), charge(60_000)
    (2304, 65792)
    """
    return 256 + (1 << (size + 363).bit_length())


def room(buffer: int, packet: int) -> int:
    """Packets of a size that three quarters of a buffer hold; the rest is for acknowledgements and what is sent again."""
    return (buffer or UNLIMITED) * 3 // 4 // charge(packet)
