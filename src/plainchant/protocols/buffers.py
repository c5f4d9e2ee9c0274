"""What packets take of a receiver's buffer, for protocols that fit their windows to it."""

from __future__ import annotations

from typing import Final

UNLIMITED: Final = 16 << 20
"""What a process may hold of packets where the transport has back-pressure of its own: it is kept in memory."""


def charge(size: int) -> int:
    """What a datagram takes of a receiver's buffer: not its bytes but what the kernel reserves for it, which is a power of two
    that holds the data and 364 bytes beside it, and 256 bytes (Linux).

    >>> charge(1_400), charge(60_000)
    (2304, 65792)
    """
    return 256 + (1 << (size + 363).bit_length())


def room(buffer: int, packet: int) -> int:
    """Packets of a size that three quarters of a buffer hold; the rest is for acknowledgements and what is sent again."""
    return (buffer or UNLIMITED) * 3 // 4 // charge(packet)
