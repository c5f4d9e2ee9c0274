"""A message as a receiver knows it, from its first look to the end."""

from __future__ import annotations

from typing import Any

from ...core.memory import Entry
from .box import Key


class Message:
    """Its name, where it is, and what has become of it."""

    __slots__ = ("begun", "copy", "decided", "entry", "finished", "found", "is_read", "key", "slot", "verdict", "wanted")

    def __init__(self, slot: int, entry: Entry, *, wanted: bool) -> None:
        self.slot = slot
        self.key: Key = (entry.stamp, entry.place)
        self.entry = entry
        self.wanted = wanted  # whether it is delivered if it is accepted: it was sent while this process was a receiver
        self.begun = False
        self.verdict: bool | None = None  # the decision of the copies so far
        self.copy = -1  # the copy whose decision was the first that it followed
        self.decided = False  # the verdict is final
        self.finished = False  # this process's flags are set, in every copy
        self.is_read = False
        self.found: tuple[Entry, bytes] | None = None  # what was read, until it is delivered

    @property
    def stamp(self) -> int:
        return self.key[0]

    @property
    def name(self) -> dict[str, Any]:
        """How the trace names it: by the last message of its batch, or by its sender if no message ends in it."""
        entry = self.entry
        return {"sender": entry.sender, "seq": entry.first + entry.count - 1} if entry.count else {"of": entry.sender}

    def follow(self, copy: int) -> None:
        if self.copy < 0 and self.verdict is not None:
            self.copy = copy
