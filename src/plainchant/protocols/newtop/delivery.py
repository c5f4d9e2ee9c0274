"""Delivery: which received message is next, in whatever order its group has.

Theory of operation
-------------------
*Block orders* (total, slow) go by block numbers alone. ``complete`` is the smallest complete block over all groups of the
process (Bmin, safe1'): a total message is delivered when its block is complete everywhere, in the order of (block, emitter);
a slow one when all blocks before it are. *Dependency orders* (the others) deliver a message as soon as its dependencies are
settled. A message that has to wait is put on the list of the first dependency that is not met, and looked at again when that
one is; nothing is looked at in between.

**Where kinds meet.** A message of a block order is delivered after everything with a smaller number, of whatever order: that is
all here, because the blocks before are complete, it waits for smaller numbers only, and it is looked at first.
A message of a dependency order carries the ``floor``: the largest number of anything of another kind that happened before it. It
waits until every group of the receiver is complete and delivered up to the floor, as a slow message would. All waiting is for
smaller numbers, so that kinds cannot wait for each other in a circle.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from heapq import heapify, heappop, heappush
from itertools import count
from typing import TYPE_CHECKING, Any, Final
from zlib import crc32

from ...core.model import ProcessId
from .matrix import FOREVER, Column
from .packets import Data, Vector, Word
from .part import BLOCK, Part
from .vectors import VECTORS, Vectors

if TYPE_CHECKING:
    from .process import Process

RANK_BITS: Final = 24  # of a rank, what is below the block


def emitter_hash(process: ProcessId) -> int:
    """The part of a rank that stands for who numbered the message: the same at all processes, and nearly always different."""
    return crc32(process.encode()) & ((1 << RANK_BITS) - 1)


class Delivery:
    """What waits at one process."""

    def __init__(self, process: Process) -> None:
        self.process = process
        self.complete = 0  # Bmin: all blocks up to this one are complete in every group
        self.totals: list[tuple[int, int, ProcessId, int, Part, Column, Data]] = []
        self.slows: list[tuple[int, int, Part, Column, Data]] = []
        self.candidates: deque[tuple[Part, Column]] = deque()
        self.vectors: dict[str, Vectors] = {}
        self.floors: dict[str, int] = {}
        self.watchers: list[tuple[int, int, Any]] = []  # who waits until every group is settled up to a floor (a heap)
        self.mixed = False
        self.controls = 0  # ordered words that wait for their places, in all groups
        self._hashes: dict[ProcessId, int] = {}
        self._order = count()

    def add(self, part: Part) -> None:
        """A group begins."""
        kind = part.kind
        if kind != BLOCK and kind not in self.vectors:
            name = self.process.parameters.vectors if kind == "fast" else kind
            self.vectors[kind] = VECTORS[name](self.process.host.me, self.process.parts)
            self.floors[kind] = self.process.counter  # whatever was sent or delivered here before
        elif kind != BLOCK:
            self.vectors[kind].entered(part)
        self.mixed = len({one.kind for one in self.process.parts.values()}) > 1
        self.recount()

    def forget(self, part: Part) -> None:
        """A group, or its formation, has ended here; nothing of it waits."""
        self._filter(lambda one, column, block: one is not part)
        self._wake(part.watchers, FOREVER)
        for column in part.matrix.roster:
            self._wake(column.watchers, FOREVER)
            column.queue.clear()
        if part.membership is not None:
            self.controls -= len(part.membership.controls)
            part.membership.controls.clear()
            part.membership.held_back.clear()
        self.mixed = len({one.kind for one in self.process.parts.values()}) > 1
        self.reopened()

    def ended(self, part: Part, columns: Sequence[Column]) -> None:
        """Members have failed or left: nothing of theirs beyond their cuts waits any more, nor anybody for it."""
        self._filter(lambda one, column, block: column.cut is None or block <= column.cut)
        part.matrix.recount()
        self.recount()
        for column in columns:
            self.settled_in(part, column)
        self.process.touched[part] = None

    def _filter(self, stays: Callable[[Part, Column, int], bool]) -> None:
        self.totals = [entry for entry in self.totals if stays(entry[4], entry[5], entry[0])]
        heapify(self.totals)
        self.slows = [entry for entry in self.slows if stays(entry[2], entry[3], entry[0])]
        heapify(self.slows)

    def recount(self) -> None:
        """Works Bmin out anew. What will be sent in a group that has not begun has a larger number than our first one there."""
        parts = self.process.parts.values()
        self.complete = min([part.matrix.complete if part.open else part.first for part in parts], default=0)

    def fits(self, part: Part, packet: Data) -> bool:
        """Whether a message carries what the group's order needs: else its sender has other parameters."""
        return self.vectors[part.kind].fits(part, packet.vector) if part.kind != BLOCK else not packet.vector

    def arrived(self, part: Part, column: Column, packet: Data) -> None:
        """A message is here without a gap before it (or is one's own)."""
        column.queue.append(packet)
        if part.order == "total":
            emitter = column.process
            number = self._hashes.get(emitter)
            if number is None:
                number = self._hashes[emitter] = emitter_hash(emitter)
            heappush(self.totals, (packet.block, number, emitter, next(self._order), part, column, packet))
        elif part.order == "slow":
            heappush(self.slows, (packet.block, next(self._order), part, column, packet))
        elif len(column.queue) == 1:
            self.candidates.append((part, column))

    def ordered(self, part: Part, column: Column, word: Word) -> None:
        """A word that has a place among the messages is here."""
        if part.membership is not None:
            part.membership.arrived(column, word, emitter_hash(column.process))
            self.controls += 1

    def settled_in(self, part: Part, column: Column) -> None:
        """More of a column is settled: whoever waited for it is looked at again."""
        if column.watchers:
            self._wake(column.watchers, column.settled)
        if part.watchers:
            self._wake(part.watchers, part.matrix.settled())
        if self.watchers:
            self._wake(self.watchers, self.settled())

    def settled(self) -> int:
        """Up to this block everything is complete and delivered in every group."""
        parts = self.process.parts.values()
        return min([part.matrix.settled() if part.open else part.first for part in parts], default=0)

    def reopened(self) -> None:
        """A group has begun, or will begin at a larger number: what waits may go on."""
        self.recount()
        if self.watchers:
            self._wake(self.watchers, self.settled())

    def _wake(self, watchers: list[tuple[int, int, Any]], reached: int) -> None:
        while watchers and watchers[0][0] <= reached:
            self.candidates.append(heappop(watchers)[2])

    def advance(self) -> None:
        """Delivers whatever can be."""
        while True:
            while self.candidates:
                self._examine(*self.candidates.popleft())
            if self.controls and self._control():
                continue
            if self.mixed or self.slows:
                if not self._block_order():
                    return
            elif not self._totals():
                return

    def _control(self) -> bool:
        """Gives one ordered word its turn, if one has it."""
        for part in list(self.process.parts.values()):
            if part.membership is not None and part.membership.controls:
                turn = part.membership.next_control()
                if turn is not None:
                    self.controls -= 1
                    part.membership.deliver(*turn)
                if turn is not None or self.candidates:
                    return True
        return False

    def _examine(self, part: Part, column: Column) -> None:
        """Delivers the first message of a column, or lets it wait for the first thing that it lacks."""
        if not column.queue:
            return
        packet = column.queue[0]
        membership = part.membership
        if membership is not None and membership.holds(column, packet.block):
            membership.held_back.append(column)
            return
        need: Any
        if packet.floor and self.settled() < packet.floor:
            need = self, packet.floor
        elif column is part.me:
            need = self._own_before(packet)
        else:
            need = self.vectors[part.kind].unmet(part, packet)
        if need is None:
            self._deliver(part, column, packet, None)
            return
        owner, number = need
        if isinstance(owner, Column) and part.order == "cbcast":
            number = owner.queue[0].block if owner.queue else owner.last + 1
        elif isinstance(owner, Part) and owner.matrix.largest < number and owner.membership is not None:
            owner.demand = max(owner.demand, number)  # it is another part's: nobody here has such a block
            self.process.touched[owner] = None
        heappush(owner.watchers, (number, next(self._order), (part, column)))
        self.process.waits(part, column, packet, owner, need[1])

    def _own_before(self, packet: Data) -> Any:
        """One's own messages are delivered as they were sent; whatever else happened before them is delivered here already."""
        for part in self.process.parts.values():
            queue = part.me.queue
            if queue and queue[0].block < packet.block:
                return part.me, queue[0].block
        return None

    def _totals(self) -> bool:
        """Delivers messages of total order where there is no other order; True: something else may have its turn now."""
        totals = self.totals
        found = False
        while totals and self.ripe(totals[0][4], totals[0][0]):
            if self.controls and self._comes_after_a_word(totals[0][4], totals[0][0]):
                break
            block, number, _, _, part, column, packet = heappop(totals)
            self._deliver(part, column, packet, block << RANK_BITS | number)
            found = True
        return found and bool(self.controls or self.candidates)

    def _comes_after_a_word(self, part: Part, block: int) -> bool:
        """Total order: an ordered word with a smaller number has its turn first."""
        controls = part.membership.controls if part.membership is not None else []
        return bool(controls) and controls[0][0] < block

    def _block_order(self) -> bool:
        """Delivers one message of a block order, if one can be; slow and total ones in the order of their blocks."""
        if self.totals and (not self.slows or self.totals[0][0] <= self.slows[0][0]):
            block, number, _, _, part, column, packet = self.totals[0]
            after_a_word = self.controls and self._comes_after_a_word(part, block)
            if self.ripe(part, block) and not after_a_word and not self._behind(block):
                heappop(self.totals)
                self._deliver(part, column, packet, block << RANK_BITS | number)
                return True
        if self.slows:
            block, _, part, column, packet = self.slows[0]
            ripe = block <= self.complete + 1 and (not self.totals or self.totals[0][0] >= block)
            held = part.membership is not None and part.membership.holds(column, block)  # a view changes
            if ripe and not held and not self._behind(block):
                heappop(self.slows)
                self._deliver(part, column, packet, None)
                return True
        return False

    def _behind(self, block: int) -> bool:
        """Whether a message of another kind with a smaller number is held back, because a view changes or a group begins."""
        if not self.mixed or not self.process.parameters.suspect_after:
            return False
        others = [part.matrix.roster for part in self.process.parts.values() if part.kind != BLOCK]
        return any(column.queue and column.queue[0].block < block for roster in others for column in roster)

    def ripe(self, part: Part, block: int) -> bool:
        """safe1': the block is complete in every group of this process, not only in the message's own."""
        return block <= self.complete

    def _deliver(self, part: Part, column: Column, packet: Data, rank: int | None) -> None:
        process = self.process
        column.queue.popleft()
        column.count += 1
        process.advance_on_delivery(part, packet)
        process.host.deliver(part.group, packet.sender or column.process, packet.batch, rank)
        process.touched[part] = None
        if part.kind == BLOCK:
            if self.vectors:
                self.raise_floors(part.kind, packet.block, 0)
                self.settled_in(part, column)
            return
        # of a message in fragments nothing is learnt before its last one: until then it is not delivered.
        if column is not part.me and (packet.batch.count or not packet.batch.total):
            self.vectors[part.kind].learn(part, column, packet, column.count)
            self.raise_floors(part.kind, packet.block, packet.floor)
        if column.queue:
            self.candidates.append((part, column))
        self.settled_in(part, column)

    def stamp(self, part: Part) -> Vector:
        """What a message that is sent now carries."""
        return self.vectors[part.kind].stamp(part) if part.kind != BLOCK else ()

    def floor(self, part: Part) -> int:
        return self.floors[part.kind] if part.kind != BLOCK else 0

    def sent(self, part: Part, packet: Data) -> None:
        """One's own message goes out: what is sent from now on happens after it."""
        if part.kind != BLOCK:
            mine = part.me
            self.vectors[part.kind].learn(part, mine, packet, mine.count + len(mine.queue) + 1)
        if self.floors:
            self.raise_floors(part.kind, packet.block, packet.floor)

    def raise_floors(self, kind: str, block: int, floor: int) -> None:
        """Something of a kind was sent or delivered: messages of other kinds that follow it have it below them."""
        for other, low in self.floors.items():
            high = floor if other == kind else block
            if high > low:
                self.floors[other] = high
