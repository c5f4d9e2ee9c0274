"""What waits for an application that reads nothing for a while (a fault of kind ``sluggish``)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class Unread:
    """The number of unread messages of each group, and what the application will be told, in order."""

    __slots__ = ("calls", "counts", "full", "most", "until")

    def __init__(self, most: int) -> None:
        self.most = most  # from this number of unread messages of a group on, the protocol is told that there is no room
        self.until = 0
        self.counts: dict[str, int] = {}
        self.full: dict[str, None] = {}  # groups with too many unread messages
        self.calls: list[tuple[Callable[..., object], tuple[Any, ...]]] = []

    def add(self, group: str, count: int) -> bool:
        """Counts messages; True when the group has just come to have too many."""
        self.counts[group] = self.counts.get(group, 0) + count
        if self.counts[group] < self.most or group in self.full:
            return False
        self.full[group] = None
        return True
