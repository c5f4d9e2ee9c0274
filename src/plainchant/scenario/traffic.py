"""What a scenario says about its senders, for every host: which of them send, and what a message holds."""

from __future__ import annotations

from typing import Final

from .model import Workload

WAITING: Final = 64  # messages that a sender without a rate keeps waiting in its process's queue


def sends(workload: Workload, place: str, group: str) -> bool:
    """Whether a place sends a workload's messages in a group."""
    return (not workload.senders or place in workload.senders) and workload.group in ("", group)


def payload_of(sender: str, group: str, n: int, size: int) -> bytes:
    """What a workload's message holds: who sent it, padded or truncated to its size.

    >>> payload_of("p1", "g", 7, 12)
    b'p1/g/7......'
    """
    return f"{sender}/{group}/{n}".encode().ljust(size, b".")[:size]
