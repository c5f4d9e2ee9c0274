"""The Block Matrix (ch. 3): what a process knows of everything that is sent in a group, one column a member.

Theory of operation
-------------------
A block is a row: the messages that bear one number, at most one of each member, none of which happened before another. The
matrix is not stored as one. A member numbers what it sends in a group in increasing order, so that its column is a list, and
all that has to be known of the column is up to where it is here without a gap (``last``, the Last Received Vector of 3.5):
all blocks up to the smallest of these are complete.

Over a transport that loses and overtakes (3.7), each message also says which one came before it. A message beyond a gap is
kept aside (``early``) under the number of the one that it follows, and that number is the '-' of the thesis. Then a block may be
complete although one before it is not (:meth:`BlockMatrix.is_complete`, Fig. 3.4); deliveries go by the complete prefix.

What has been received is kept until it is stable, because any member may ask for it.

**Members that fail (6.3.2, vii)** leave their column behind: it *ends*, and from there on is full of virtual null messages, which
are complete and stable at everybody. The view that removes the member takes the column out of those that count; its place
(``index``) in the ``roster`` stays, because vectors go by it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Container, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from ...core.model import ProcessId
from .packets import Data, Null, Word

Multicast: TypeAlias = Data | Null | Word
FOREVER: Final = 1 << 62  # a column that has ended is complete, and stable, up to here


@dataclass(slots=True, eq=False)
class Column:
    """One member: what it sent in the group, as far as that is known here, and what it said about itself."""

    process: ProcessId
    index: int
    last: int = 0  # everything that it sent up to this block is here
    flow: int = 0  # the same in flow numbers
    early: dict[int, Multicast] = field(default_factory=dict)  # what came beyond a gap, by the block of the message before it
    announced: int = 0  # the last block that it says it has sent
    queue: deque[Data] = field(default_factory=deque)  # what is here without a gap and not yet delivered
    count: int = 0  # batches of it that were delivered
    kept: deque[Multicast] = field(default_factory=deque)  # what may be asked for, oldest first
    complete: int = 0  # what it said last: it has everything up to this flow number (lcb),
    stable: int = 0  # it knows that every member has everything up to this one (lsb),
    done: int = 0  # and it has delivered everything up to this one
    tries: int = 0  # how often its gap was asked for without getting further
    asked_at: int = 0  # ``last`` when it was asked for
    heard: int = -1  # when something last came from it; -1: never
    probed: int = -1  # when it was last asked for a sign of life; -1: never
    cut: int | None = None  # it has ended: of what it sent, what is up to here counts
    waited: int = 0  # the block of the last message whose wait was recorded
    watchers: list[tuple[int, int, Any]] = field(default_factory=list)  # what waits until ``settled`` reaches a number (a heap)

    @property
    def settled(self) -> int:
        """Up to this block everything of it is here and delivered."""
        return self.queue[0].block - 1 if self.queue else self.last

    def end(self, cut: int) -> list[Data]:
        """Nothing of it after ``cut`` counts; virtual null messages follow. Returns the messages that are not to be delivered."""
        lost = [packet for packet in self.queue if packet.block > cut]
        self.queue = deque(packet for packet in self.queue if packet.block <= cut)
        self.kept = deque(packet for packet in self.kept if packet.block <= cut)
        self.early.clear()
        self.announced = self.tries = 0
        self.cut = cut
        self.last = self.flow = self.complete = self.stable = self.done = FOREVER
        return lost

    def gaps(self) -> list[tuple[int, int]]:
        """Blocks that are missing, as (after, up to and including)."""
        found, here = [], self.last
        for packet in sorted(self.early.values(), key=lambda packet: packet.block):
            if packet.previous > here:
                found.append((here, packet.previous))
            here = packet.block
        if self.announced > here:
            found.append((here, self.announced))
        return found

    def plus(self) -> list[int]:
        """Blocks of it that are here and still kept."""
        return sorted([packet.block for packet in self.kept] + [packet.block for packet in self.early.values()])

    def minus(self) -> list[int]:
        """Blocks of it that are known to be missing."""
        return [last for _, last in self.gaps()]


class BlockMatrix:
    """A group's matrix at one process. ``counted`` are the members whose columns make a block complete."""

    __slots__ = ("columns", "complete", "counted", "fifo", "largest", "largest_flow", "members", "roster", "spoken")

    def __init__(self, members: Sequence[ProcessId], *, counted: Sequence[ProcessId] = (), fifo: bool = False) -> None:
        self.columns = {process: Column(process, index) for index, process in enumerate(members)}
        self.roster = self.members = tuple(self.columns.values())
        self.counted = tuple(self.columns[process] for process in (counted or members))
        self.fifo = fifo
        self.largest = 0  # the largest block that there is
        self.spoken = 0  # the largest block with a message, or a word, in it
        self.largest_flow = 0
        self.complete = 0  # all blocks up to this one are complete

    def enter(self, column: Column, packet: Multicast) -> bool:
        """Enters a message; False if it is here already, or waits for one before it."""
        block = packet.block
        if block <= column.last:
            return False
        if block > self.largest:
            self.largest = block
        if block > self.spoken and type(packet) is not Null:
            self.spoken = block
        if packet.flow > self.largest_flow:
            self.largest_flow = packet.flow
        if packet.previous != column.last and not self.fifo:
            if packet.previous > column.last:
                column.early.setdefault(packet.previous, packet)
            return False
        before = column.last
        column.last = block
        column.flow = packet.flow
        column.kept.append(packet)
        if before == self.complete:
            self.recount()
        return True

    def represent(self, column: Column, packet: Multicast) -> Sequence[Multicast]:
        """Enters a message; returns what is in sequence now and was not before."""
        found: list[Multicast] = []
        following: Multicast | None = packet
        while following is not None and self.enter(column, following):
            found.append(following)
            following = column.early.pop(column.last, None)
        return found

    def recount(self) -> None:
        """Works out what is complete, after columns have ended or gone."""
        self.complete = min([counted.last for counted in self.counted])

    def drop(self, processes: Container[ProcessId]) -> None:
        """These are no members any more."""
        self.members = tuple(column for column in self.members if column.process not in processes)
        self.counted = tuple(column for column in self.counted if column.process not in processes)
        self.columns = {column.process: column for column in self.members}
        self.recount()

    def is_complete(self, block: int) -> bool:
        """Whether this block is complete, by the definition of 3.7, whatever is missing before it."""
        for column in self.counted:
            known = [(plus, True) for plus in column.plus()] + [(minus, False) for minus in column.minus()]
            if column.last < block and not min((entry for entry in known if entry[0] >= block), default=(0, False))[1]:
                return False
        return True

    def settled(self) -> int:
        """Up to this block everything is complete and delivered."""
        return min([column.settled for column in self.counted])

    def discard(self, stable: int) -> None:
        """Forgets what everybody has (flow numbers)."""
        for column in self.roster:
            kept = column.kept
            while kept and kept[0].flow <= stable:
                kept.popleft()

    def held(self) -> int:
        """Messages kept here: delivered but not stable, waiting, or early. (Nulls are a few numbers, at most N a member.)"""
        total = 0
        for column in self.members:
            total += sum(1 for packet in (*column.kept, *column.early.values()) if type(packet) is Data)
            oldest = column.kept[0].flow if column.kept else column.flow + 1
            total += sum(1 for packet in column.queue if packet.flow < oldest)
        return total

    def picture(self, first: int = 1) -> str:
        """The matrix as the thesis draws it, '+' for what is here and '-' for what is missing."""
        rows = {column.process: (set(column.plus()), set(column.minus())) for column in self.members}
        width = max(len(name) for name in rows)
        lines = [" " * 4 + " ".join(name.rjust(width) for name in rows)]
        for block in range(first, self.largest + 1):
            marks = ("+" if block in plus else "-" if block in minus else "." for plus, minus in rows.values())
            lines.append(f"{block:3} " + " ".join(mark.rjust(width) for mark in marks))
        return "\n".join(lines)
