"""What waits for an application that reads nothing for a while (a fault of kind ``sluggish``)."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any


@dataclasses.dataclass(slots=True)
class Unread:
    """The number of unread messages of each group, and what the application will be told, in order."""

    most: int  # from this number of unread messages of a group on, the protocol is told that there is no room
    until: int = 0
    counts: dict[str, int] = dataclasses.field(default_factory=dict)
    full: dict[str, None] = dataclasses.field(default_factory=dict)  # groups with too many unread messages
    calls: list[tuple[Callable[..., object], tuple[Any, ...]]] = dataclasses.field(default_factory=list)

    def add(self, group: str, count: int) -> bool:
        """Counts messages; True when the group has just come to have too many."""
        self.counts[group] = self.counts.get(group, 0) + count
        if self.counts[group] < self.most or group in self.full:
            return False
        self.full[group] = None
        return True
