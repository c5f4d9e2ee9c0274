"""Flow control (ch. 8): a group never has more than N unstable blocks, anywhere.

Theory of operation
-------------------
Everything here is in *flow numbers*: a counter for each group, because a process's block counter jumps in a group when the
process sends in others (8, last paragraph before 8.1). Every packet says up to where its sender has everything (``complete``),
and up to where it knows that everybody has (``stable``). A message with flow number b may go out if

- fl1: block b - N is stable at everybody (n²-stable): nobody holds more than N blocks afterwards;
- fl2: block b + 1 - N is stable here; fl3: block b + 2 - N is complete here. Without these two, fl1 could wait for ever for
  information that only travels with messages that wait for fl1 themselves. With them, the completion of a block makes the
  first two true for the next one, and completion is what time-silence sees to. N is at least 3.
- room (messages only): block b - N has been *delivered* everywhere. In a single group that is implied, because what is complete
  is delivered. Where groups overlap, a block may be stable in one group and wait for another group's blocks, and an application
  may not read; then messages pile up that stability alone would let go. Nulls wait for the first three only: messages wait for
  them. A process that is held up by it alone says so (``Status.wanted``), and is told as soon as it is so.

So a process holds at most N messages of each member in each group, whatever the load, and at most as many nulls, which are a few
numbers each. The sequencer of an asymmetric group also holds at most N requests of each member. Counters start at 0, the first
block is 1.
"""

from __future__ import annotations

from dataclasses import dataclass

from .matrix import BlockMatrix, Column


@dataclass(slots=True, eq=False)
class Flow:
    """What a process knows about stability in one group."""

    matrix: BlockMatrix
    mine: Column
    bound: int
    everywhere: int = 0  # stable at every member (n²-stable) up to here
    roomy: int = 0  # delivered by every member up to here
    full: bool = False  # the application has no room: what it gets does not count as delivered

    def stable_block(self) -> int:
        """Everything up to this block is held by every member, as far as is known here."""
        return min([column.kept[0].block - 1 if column.kept else column.last for column in self.matrix.counted])

    def refresh(self) -> None:
        """Works out what can be said now, from what the others have said."""
        matrix, mine = self.matrix, self.mine
        members = matrix.members
        mine.complete = complete = min([column.flow for column in matrix.counted])
        if not self.full:
            done = complete
            for column in members:
                if column.queue and column.queue[0].flow <= done:
                    done = column.queue[0].flow - 1
            if done > mine.done:
                mine.done = done
        stable = min([column.complete for column in members])
        if stable > mine.stable:
            mine.stable = stable
            matrix.discard(stable)
        self.everywhere = min([column.stable for column in members])
        self.roomy = min([column.done for column in members])

    @property
    def unstable(self) -> int:
        """Blocks that there are and that are not known to be stable."""
        return self.matrix.largest_flow - self.mine.stable

    def waited_for(self, behind: int) -> bool:
        """Whether senders wait, or soon will, for what a process has to say that is so many blocks behind."""
        if not self.bound:
            return False
        quarter = max(1, self.bound // 4)
        if behind >= quarter:
            return True
        self.refresh()
        return behind > 0 and self.matrix.largest_flow - self.everywhere >= self.bound - quarter

    def acknowledged(self) -> int:
        """Everybody has said that it has everything up to here."""
        self.refresh()
        return min([column.complete for column in self.matrix.members])

    def closed(self, flow: int, *, null: bool = False) -> str:
        """Which condition keeps a message with this number back; empty: none. ``refresh`` first."""
        if not self.bound:
            return ""
        if not self.fl1(flow):
            return "fl1"
        if not self.fl2(flow):
            return "fl2"
        if not self.fl3(flow):
            return "fl3"
        return "" if null or self.room(flow) else "room"

    def fl1(self, flow: int) -> bool:
        return self.everywhere >= flow - self.bound

    def fl2(self, flow: int) -> bool:
        return self.mine.stable >= flow + 1 - self.bound

    def fl3(self, flow: int) -> bool:
        return self.mine.complete >= flow + 2 - self.bound

    def room(self, flow: int) -> bool:
        return self.roomy >= flow - self.bound


class OneWay(Flow):
    """Flow control of an asymmetric group: its sequencer has the only column, and the others acknowledge to it."""

    __slots__ = ()

    def refresh(self) -> None:
        super().refresh()
        # a member hears the others only through the sequencer, which says what is stable.
        stable = self.matrix.counted[0].stable
        if stable > self.mine.stable:
            self.mine.stable = stable
            self.matrix.discard(stable)
        if self.mine is not self.matrix.counted[0]:
            self.everywhere = self.mine.stable

    def closed(self, flow: int, *, null: bool = False) -> str:
        """The sequencer keeps within N of what everybody has, and messages within N of what everybody has delivered."""
        if not self.bound:
            return ""
        if self.mine.stable < flow - self.bound:
            return "fl1"
        return "" if null or self.room(flow) else "room"
