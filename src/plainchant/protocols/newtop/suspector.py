"""The suspector (6.3.2, 7.2.12): who lets a block be incomplete for too long.

Theory of operation
-------------------
A timeout runs for every block from when it came to be here. If the block is not complete when it ends, those whose part of it
is missing are suspected, with the block of the last message that was received of each. Time-silence sees to it that a member
that lives completes every block, so that the timeout (omega) has to be longer than that takes: the local time-silence and the
way there and back. How long blocks do take is observed, and omega grows to twice the mean and four deviations where that is more.

A group in which nobody sends has no blocks. The extended time-silence (6.3, iii) makes them: a member that has sent nothing for
``alive_every`` sends a null message in a new block, and the others complete it.

**Lost packets.** A missing part is not yet a silent member: where packets get lost, its repair may take longer than omega. So a
member is suspected only if *nothing at all* has come from it for omega, and in the second half of that time it is asked for a
sign of life :data:`PROBES` times. At 30 % loss a question and its answer both arrive with probability 0.49, and all of them fail
for a member that lives with probability 0.51 ** 16, once in 48,000 silences of half an omega, each of which is rare by itself. A
member that is heard but completes nothing suspects this one, and what others say about that settles it; if they cannot, it is
suspected when undecided members are (:meth:`.membership.Membership.parts_at`).

A process that was itself stopped for a while finds all timeouts expired and its mail unread. It begins them anew.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from ...core.model import ProcessId
from .parameters import LONGEST

if TYPE_CHECKING:
    from .matrix import Column
    from .membership import Membership

GAIN: Final = 8  # a block counts for so much of a part in the mean
DEVIATIONS: Final = 4
OPENING: Final = 2  # members that have not been heard in a formation yet have this many times as long to appear in it
MOST_LEARNED: Final = 32  # what is learned about a slow network has this limit, a multiple of ``suspect_after``
REPAIRS: Final = 2  # a block whose words are lost is given this many times what blocks are seen to take
PROBES: Final = 16  # signs of life that a member is asked for before it is suspected


@dataclass(slots=True, eq=False)
class Suspector:
    """The timeouts of one group at one process."""

    _membership: Membership
    _blocks: deque[tuple[int, int]] = field(default_factory=deque)  # blocks that are not complete, and when they came to be
    _newest: int = 0
    _since: dict[ProcessId, int] = field(default_factory=dict)  # a suspicion was refuted: the member's timeouts began anew
    _due: int = 0  # when the timer ends; 0: it is not set
    _mean: int = 0
    _deviation: int = 0
    _disturbed: int = -1  # when a suspicion last ended
    _experienced: bool = False  # a block has become complete, or others have said how long that takes

    def begin_with(self, patience: int) -> None:
        """What former formations have learned: omega has to be so long."""
        self._experienced = True
        self._mean = max(self._mean, patience // 2)

    @property
    def learned(self) -> int:
        """Omega as blocks have shown it: time for a block, a question and its answer; 0: ``suspect_after`` is enough."""
        base = int(self._membership.parameters.suspect_after)
        learned = min(2 * self._mean + DEVIATIONS * self._deviation, MOST_LEARNED * base)
        return learned if learned > base else 0

    @property
    def patience(self) -> int:
        """Omega, now. Members that have been heard send signs of life, however long these travel, so that it has a limit. Before,
        all that is known is how long others have taken."""
        base = int(self._membership.parameters.suspect_after)
        patience = max(base, self.learned)
        return min(patience, LONGEST * base) if self._membership.part.open else OPENING * patience

    def repair(self) -> int:
        """How long a block can take where packets are lost, beyond the longest omega; before one is known: twice that omega."""
        return REPAIRS * (self.learned if self.is_experienced() else LONGEST * int(self._membership.parameters.suspect_after))

    def is_experienced(self) -> bool:
        """Whether it is known how long blocks take. Until then omega is as long as it can be: where round trips are longer than
        ``suspect_after``, members would part, or halt as minorities, before they have heard each other."""
        return self._experienced

    def _patience_with(self, column: Column) -> int:
        """Omega for this member. Another that suspects it has seen a block complete, so it knows how long blocks take."""
        if not self.is_experienced() and column.process not in self._membership.recorded:
            return LONGEST * int(self._membership.parameters.suspect_after)
        return OPENING * self.patience if self._membership.part.open and column.heard < 0 else self.patience

    def watch(self) -> None:
        """Something happened in the group: begins and ends timeouts."""
        membership = self._membership
        matrix, now = membership.part.matrix, membership.host.now
        blocks = self._blocks
        if matrix.largest > self._newest:
            self._newest = matrix.largest
            blocks.append((matrix.largest, now))
        while blocks and blocks[0][0] <= matrix.complete:
            since = blocks.popleft()[1]
            if since > self._disturbed and not membership.suspicions and not membership.failed:
                self._learn(now - since)
        if blocks and not self._due and not membership.bye:
            due = [moment for column in matrix.members if (moment := self._due_of(column))]
            if due:
                self._set(min(due))

    def shorten(self) -> None:
        """Omega is no longer the longest: the timer has to be set anew, which ``watch`` does."""
        if not self._experienced and self._due:
            self._due = 0
            self._membership.host.cancel_timer(("suspect", self._membership.part.group))

    def _set(self, due: int) -> None:
        self._due = max(due, self._membership.host.now + 1)
        self._membership.host.set_timer(("suspect", self._membership.part.group), self._due)

    def _learn(self, delay: int) -> None:
        if not self._experienced:  # there is nothing to take the mean of
            self.shorten()
            self._experienced = True
            self._mean = max(self._mean, delay)
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

    def disturbed(self) -> None:
        """A suspicion has ended, or this process was stopped: how late blocks are that began before says nothing of the way."""
        self._disturbed = self._membership.host.now

    def rearm(self, process: ProcessId) -> None:
        """This member's timeouts begin anew."""
        self._since[process] = self._membership.host.now
        self.disturbed()

    def expire(self) -> None:
        """Suspects those whose time is over."""
        membership = self._membership
        now = membership.host.now
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
            silent_since, patience = max(since, column.heard), self._patience_with(column)
            if now - silent_since >= patience or 0 < membership.parts_at(since) <= now:
                found.append((column, {"block": block, "silence": now - since, "patience": patience}))
                continue
            if now - silent_since >= patience // 2:
                self.probe(column)
            due = self._due_of(column)
            following = min(due, following or due)
        if found:
            membership.suspect(found)
        if following:
            self._set(following)

    def probe(self, column: Column) -> None:
        """Asks a member that is silent for a sign of life."""
        membership = self._membership
        if not membership.process.lossy:
            return
        if column.probed < max(column.heard, 0):
            evidence = {"probed": [column.process], "block": membership.part.matrix.largest}
            membership.host.record("probe", membership.part.group, **evidence, situation="asked for a sign of life")
        column.probed = membership.host.now
        membership.host.send((column.process,), membership.process.status(membership.part, have=column.last))

    def _due_of(self, column: Column) -> int:
        """When there is something to do about this member: to ask it for a sign of life, or to suspect it. 0: never."""
        started = self._started(column)
        if started is None:
            return 0
        since, patience = started[1], self._patience_with(column)
        silent_since, now = max(since, column.heard), self._membership.host.now
        due = silent_since + patience
        if self._membership.process.lossy:
            ask_from = silent_since + patience // 2
            due = ask_from if now < ask_from else min(due, now + patience // (2 * PROBES))
        return min(due, self._membership.parts_at(since) or due)

    def _started(self, column: Column) -> tuple[int, int] | None:
        """The first block that lacks this member's part, and since when it is waited for."""
        membership = self._membership
        if column is membership.part.me or column.cut is not None or column.process in membership.suspicions:
            return None
        place = bisect_right(self._blocks, column.last, key=lambda entry: entry[0])
        if place == len(self._blocks):
            return None
        return self._blocks[place][0], max(self._blocks[place][1], self._since.get(column.process, 0))
