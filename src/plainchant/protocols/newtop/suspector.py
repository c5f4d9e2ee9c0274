"""The suspector (6.3.2, 7.2.12): who lets a block be incomplete for too long.

Theory of operation
-------------------
A time-out runs for every block from when it came to be here. If the block is not complete when it ends, those whose part of it
is missing are suspected, with the block of the last message that was received of each. Time-silence sees to it that a member
that lives completes every block, so that the time-out (omega) has to be longer than that takes: the local time-silence and the
way there and back. How long blocks do take is observed, and omega grows to the mean and four deviations where that is more.

A group in which nobody sends has no blocks. The extended time-silence (6.3, iii) makes them: a member that has sent nothing for
``alive_every`` sends a null message in a new block, and the others complete it.

A process that was itself stopped for a while finds all time-outs expired and its mail unread. It begins them anew.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from typing import TYPE_CHECKING, Any, Final

from ...core.model import ProcessId

if TYPE_CHECKING:
    from .matrix import Column
    from .membership import Membership

GAIN: Final = 8
"""A block counts for so much of a part in the mean."""
DEVIATIONS: Final = 4
MOST: Final = 8
"""Omega grows to at most so many times ``suspect_after``."""
OPENING: Final = 2
"""So much more time have the members of a new formation to appear in it."""


class Suspector:
    """The time-outs of one group at one process."""

    __slots__ = ("_blocks", "_deviation", "_due", "_mean", "_membership", "_newest", "_since")

    def __init__(self, membership: Membership) -> None:
        self._membership = membership
        self._blocks: deque[tuple[int, int]] = deque()
        """Blocks that are not complete, and when they came to be."""
        self._newest = 0
        self._since: dict[ProcessId, int] = {}
        """A suspicion was refuted: the time-outs of that member began anew."""
        self._due = 0
        """When the timer ends; 0: it is not set."""
        self._mean = 0
        self._deviation = 0

    @property
    def patience(self) -> int:
        """Omega, now."""
        base = int(self._membership.parameters.suspect_after)
        patience = min(max(base, self._mean + DEVIATIONS * self._deviation), MOST * base)
        return patience if self._membership.part.open else OPENING * patience

    def watch(self) -> None:
        """Something happened in the group: begins and ends time-outs."""
        membership = self._membership
        matrix, now = membership.part.matrix, membership.host.now
        blocks = self._blocks
        if matrix.largest > self._newest:
            self._newest = matrix.largest
            blocks.append((matrix.largest, now))
        while blocks and blocks[0][0] <= matrix.complete:
            delay = now - blocks.popleft()[1]
            if not membership.suspicions and not membership.failed:  # else it was late because of those
                self._learn(delay)
        if blocks and not self._due and not membership.bye:
            waited_for = [started[1] for column in matrix.members if (started := self._started(column)) is not None]
            if waited_for:
                self._set(min(waited_for) + self.patience)

    def _set(self, due: int) -> None:
        self._due = max(due, self._membership.host.now + 1)
        self._membership.host.set_timer(("suspect", self._membership.part.group), self._due)

    def _learn(self, delay: int) -> None:
        self._deviation += (abs(delay - self._mean) - self._deviation) // GAIN
        self._mean += (delay - self._mean) // GAIN

    def wants_life(self) -> bool:
        """Whether a block should be made by which a failure could be noticed. Not while there is a young one that is incomplete,
        or while the window of flow control is half used: where blocks take longer than ``alive_every``, signs of life would
        fill it. But always if there was none for half of ``suspect_after``."""
        membership = self._membership
        now, flow = membership.host.now, membership.part.flow
        flow.refresh()
        busy = bool(self._blocks) or (flow.bound and membership.part.matrix.largest_flow - flow.everywhere > flow.bound // 2)
        return not busy or now - membership.part.spoke >= membership.parameters.suspect_after // 2

    def rearm(self, process: ProcessId) -> None:
        """This member's time-outs begin anew."""
        self._since[process] = self._membership.host.now

    def expire(self) -> None:
        """Suspects those whose time is over."""
        membership = self._membership
        now, patience = membership.host.now, self.patience
        late, self._due = now - self._due, 0
        if membership.bye:
            return
        if late > membership.parameters.suspect_after // 4:
            for column in membership.part.matrix.members:
                self.rearm(column.process)
        found: list[tuple[Column, dict[str, Any]]] = []
        following = 0
        for column in membership.part.matrix.members:
            started = self._started(column)
            if started is None:
                continue
            block, since = started
            if now - since >= patience:
                found.append((column, {"block": block, "silence": now - since, "patience": patience}))
            elif not following or since + patience < following:
                following = since + patience
        if found:
            membership.suspect(found)
        if following:
            self._set(following)

    def _started(self, column: Column) -> tuple[int, int] | None:
        """The first block that lacks this member's part, and since when it is waited for."""
        membership = self._membership
        if column is membership.part.me or column.cut is not None or column.process in membership.suspicions:
            return None
        place = bisect_right(self._blocks, column.last, key=lambda entry: entry[0])
        if place == len(self._blocks):
            return None
        block, since = self._blocks[place]
        return block, max(since, self._since.get(column.process, 0))
