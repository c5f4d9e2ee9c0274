"""A member's copy of the order: what is numbered, what is delivered, what is still missing.

The paper keeps a history at the sequencer alone; its section 5 needs it at every member, because the next sequencer is
one of them. An entry is dropped when everybody has it (``stable``), and not before it is delivered here."""

from __future__ import annotations

from typing import Final

from ...core.model import ProcessId
from .packets import Change, Entry, Stage

_SPARE_ROWS: Final = 64  # rows beyond twice the number of members before the table is trimmed


class Log:
    """Numbers ``low + 1 .. contiguous`` are in ``entries``; beyond a gap they wait in ``later``."""

    __slots__ = ("contiguous", "delivered", "entries", "highest", "later", "lineage", "low", "newest", "purged", "table")

    def __init__(self) -> None:
        self.entries: dict[int, Entry] = {}
        self.later: dict[int, Entry] = {}
        self.low = 0
        self.contiguous = 0  # the last number received without a gap (the paper's LastSeqReceived, in the sense of its text)
        self.delivered = 0
        self.highest = 0  # the highest number known to exist
        self.lineage: list[Stage] = []  # the earlier epochs of the history that is followed
        # The newest epoch (and its sequencer) that ``lineage`` no longer names, because every member is past its beginning.
        self.purged: tuple[int, ProcessId] = (0, "")
        # Sender to its last request in the order: how duplicates are known, also after their entries are gone.
        self.table: dict[ProcessId, int] = {}
        self.newest: Change | None = None  # the last view in the order, whether or not it is in force yet

    def begin_at(self, number: int, entry: Entry, table: dict[ProcessId, int]) -> None:
        """A joiner's history begins with the view that lets it in."""
        self.__init__()  # type: ignore[misc]  # a fresh log, in place: others hold references to it
        self.low = self.delivered = self.contiguous = number - 1
        self.table.update(table)
        self.append(entry)

    def append(self, entry: Entry) -> int:
        """Adds the next entry; returns its number."""
        number = self.contiguous + 1
        self.entries[number] = entry
        self.contiguous = number
        if number > self.highest:
            self.highest = number
        change = entry.change
        if change is None:
            self.table[entry.sender] = entry.request
        else:
            self.newest = change
        return number

    def withdraw(self, number: int, in_force: Change | None) -> None:
        """Takes back the views from that number on, which their own sequencer knows to be in force nowhere."""
        for withdrawn in range(number, self.contiguous + 1):
            del self.entries[withdrawn]
        self.contiguous = self.highest = number - 1
        earlier = self.changes_after(self.low)
        self.newest = earlier[-1][1] if earlier else in_force

    def trim(self) -> None:
        """Keeps the table to those who can send, should anybody else have got into it."""
        newest = self.newest
        if newest is not None and len(self.table) > 2 * len(newest.members) + _SPARE_ROWS:
            self.table = {process: last for process, last in self.table.items() if process in newest.members}

    def void_later(self) -> int:
        """A new epoch gives new numbers: what waits beyond a gap was numbered by the old one. Returns how many went."""
        voided = len(self.later)
        self.later.clear()
        return voided

    def purge(self, stable: int) -> None:
        """Drops what every member has, as far as it is delivered here."""
        upto = stable if stable < self.delivered else self.delivered
        entries = self.entries
        for number in range(self.low + 1, upto + 1):
            del entries[number]
        if upto > self.low:
            self.low = upto

    def synced(self, current: Stage) -> tuple[int, ProcessId]:
        """The newest epoch whose beginning this history holds, and its sequencer, given the one that is followed now."""
        passed = [(epoch, sequencer) for epoch, base, sequencer in (*self.lineage, current) if self.contiguous > base]
        return max((self.purged, *passed))

    def close_epoch(self, current: Stage) -> None:
        """An epoch is over. What did not come as far as here is no part of our history."""
        passed = [stage for stage in (*self.lineage, current) if self.contiguous > stage[1]]
        self.purged = max((self.purged, *((epoch, sequencer) for epoch, base, sequencer in passed if base < self.low)))
        self.lineage = [stage for stage in passed if stage[1] >= self.low]

    def is_part_of(self, lineage: tuple[Stage, ...], stable: int) -> bool:
        """Whether this history is the beginning of one with that lineage. (What is stable is everybody's.)"""
        mine = [stage for stage in self.lineage if self.contiguous > stage[1]]
        if any(stage not in lineage and stage[1] >= stable for stage in mine):
            return False
        return all(stage in mine or self.contiguous <= stage[1] or stage[1] < self.low for stage in lineage)

    def missing(self, most: int) -> list[tuple[int, int]]:
        """The first gaps, as (first, last), with at most that number of entries; the first one is told as a whole."""
        gaps: list[tuple[int, int]] = []
        expected, room = self.contiguous + 1, most
        for number in (*sorted(self.later), self.highest + 1):
            if number > expected:
                gaps.append((expected, number - 1 if not gaps else min(number - 1, expected + room - 1)))
                room -= gaps[-1][1] - expected + 1
                if room <= 0:
                    break
            expected = number + 1
        return gaps

    def find(self, sender: ProcessId, request: int) -> int | None:
        """The number of a request that is still held."""
        for number in range(self.contiguous, self.low, -1):
            entry = self.entries[number]
            if entry.sender == sender and entry.request == request and entry.change is None:
                return number
        return None

    def changes_after(self, number: int) -> list[tuple[int, Change]]:
        """The views in the order after that number, oldest first (what is not held is long in force)."""
        start = max(number, self.low) + 1
        found = ((n, self.entries[n].change) for n in range(start, self.contiguous + 1))
        return [(n, change) for n, change in found if change is not None]
