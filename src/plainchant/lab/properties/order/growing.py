"""Checks on a growing trace: fifo, identical, and the order of uniform and total.

**Two orders are compared with four numbers.** Of the messages that two processes have both delivered, as far as is known, a
delivery that is seen now is the latest of its process. So the orders agree exactly if the message is also the latest at the other
process, among those in common. It is enough to remember, for each pair, how far their common messages reach at each of the two.

**A hole that is owed stays wrong.** If a process delivers a message of a sender without an earlier one that it owes, then either
it never delivers that one, or it does so later, and then out of order.
"""

from __future__ import annotations

import dataclasses
from typing import Final, TypeAlias

from ..facts import Message
from ..growth import Condition, Delivery, History, Letter, RunState
from ..report import say

ROUNDS: Final = 2  # ends of rounds after which everything that a process can have known is read
MOST_HOLES: Final = 10_000  # holes that wait to be judged
MOST_FOUND: Final = 8  # later deliveries at which a hole is judged in one round
SIGHT: Final = 10  # rounds without a further message after which a hole that was not owed is forgotten
GAP: Final = 5_000  # numbers of a gap that are examined from each end: a process that has just joined lacks everything before
MOST_PAIRS: Final = 100_000


_Delivered: TypeAlias = tuple[str, Delivery]  # a process, and how it delivered a message


@dataclasses.dataclass(slots=True)
class _Reach:
    """How far the common messages of two processes reach, at each of them: index and message."""

    first: tuple[int, Message]
    second: tuple[int, Message]


class Orders:
    """identical and uniform, group by group, and total, across groups."""

    def __init__(self) -> None:
        self._reaches: dict[tuple[str, str, str | None], _Reach] = {}

    def delivered(self, run: RunState, history: History, letter: Letter, delivery: Delivery) -> None:
        for other, theirs in letter.delivered.items():
            if other != history.name:
                for group in (letter.message[0], None):
                    self._common(run, group, (history.name, delivery), (other, theirs), letter.message)

    def _common(self, run: RunState, group: str | None, one: _Delivered, other: _Delivered, message: Message) -> None:
        """Both have delivered the message, the first of the two last."""
        if one[0] > other[0]:
            one, other = other, one
        mine, theirs = (one[1].index, message), (other[1].index, message)
        key = (one[0], other[0], group)
        reach = self._reaches.get(key)
        if reach is None:
            if len(self._reaches) < MOST_PAIRS:
                self._reaches[key] = _Reach(mine, theirs)
            else:
                run.late += 1
            return
        run.book.case("total" if group is None else "identical")
        if group is not None:
            run.book.case("uniform")
        if (mine > reach.first) != (theirs > reach.second):
            self._differ(run, group, one, other, message, reach)
        reach.first, reach.second = max(reach.first, mine), max(reach.second, theirs)

    def _differ(
        self, run: RunState, group: str | None, one: _Delivered, other: _Delivered, message: Message, reach: _Reach
    ) -> None:
        ahead = one if one[1].index < reach.first[0] else other
        behind = other if ahead is one else one
        before = reach.first if ahead is one else reach.second
        latest = before[1]
        sentence = f"{ahead[0]} delivers {say(message)} before {say(latest)}, {behind[0]} the other way round"
        events = [(ahead[0], ahead[1].index), (ahead[0], before[0]), (behind[0], behind[1].index)]
        time = max(one[1].time, other[1].time)
        if group is None:
            run.book.violation("total", sentence, time, events, messages=[message, latest])
            return
        crashes = [Condition("crash", one[0]), Condition("crash", other[0])]
        run.book.violation("identical", sentence, time, events, messages=[message, latest], unless=crashes)
        run.book.violation("uniform", sentence, time, events, messages=[message, latest])


@dataclasses.dataclass(slots=True)
class _Hole:
    """A process delivered a message of a sender and not those from ``low`` to ``high``."""

    process: str
    group: str
    sender: str
    low: int
    high: int
    round: int
    found: list[tuple[int, int, int]]  # later messages that it delivered: number, index, time; one may show it owed


class Fifo:
    """Messages of a sender are delivered in the order in which it sent them, without holes that are owed."""

    def __init__(self) -> None:
        self._holes: dict[tuple[str, str, str], list[_Hole]] = {}  # by process, group and sender: not judged or not owed yet
        self._count = 0

    def delivered(self, run: RunState, history: History, message: Message, index: int, time: int, highest: int) -> None:
        """A first delivery; ``highest`` is the highest number of that sender that was delivered before."""
        group, sender, seq = message
        last = history.last.get((group, sender))
        if last is not None:
            run.book.case("fifo")
            if last[0] > seq:
                before = (group, sender, last[0])
                sentence = f"{history.name} delivers {say(message)} only after {say(before)}"
                events = [(history.name, last[1]), (history.name, index)]
                run.book.violation("fifo", sentence, time, events, messages=[message, before])
        history.last[group, sender] = (seq, index)
        for hole in self._holes.get((history.name, group, sender), ()):
            if seq > hole.high and len(hole.found) < MOST_FOUND:
                hole.found.append((seq, index, time))
                hole.round = run.round
        if seq > highest + 1:
            low, high = highest + 1, seq - 1
            ends = [(low, high)] if high - low < 2 * GAP else [(low, low + GAP), (high - GAP, high)]
            for first, final in ends:
                if self._count >= MOST_HOLES:
                    run.late += 1
                    continue
                self._count += 1
                hole = _Hole(history.name, group, sender, first, final, run.round, [(seq, index, time)])
                self._holes.setdefault((history.name, group, sender), []).append(hole)

    def tick(self, run: RunState, *, over: bool = False) -> None:
        """Judges holes that have waited long enough; one that is not owed by then may become owed until it is out of sight."""
        for key, holes in list(self._holes.items()):
            kept = [hole for hole in holes if self._waits(run, hole, over)]
            self._count -= len(holes) - len(kept)
            if kept:
                self._holes[key] = kept
            else:
                del self._holes[key]

    def _waits(self, run: RunState, hole: _Hole, over: bool) -> bool:
        """Whether a hole is still to be judged, now that another round is over."""
        if not over and run.round - hole.round < ROUNDS:
            return True
        if hole.found:
            return not self._judge(run, hole)
        return run.round - hole.round < SIGHT

    def _judge(self, run: RunState, hole: _Hole) -> bool:
        """Whether nothing of it is left to be judged."""
        history = run.histories[hole.process]
        left = False
        for seq in range(hole.low, hole.high + 1):
            letter = run.letters.get((hole.group, hole.sender, seq))
            if letter is None or letter.sent is None or hole.process in letter.delivered:
                continue
            owed = next((found for found in hole.found if run.owes(history, letter, found[1])), None)
            if owed is None:
                left = True
                continue
            missing, found = letter.message, (hole.group, hole.sender, owed[0])
            sentence = f"{hole.process} delivers {say(found)} without {say(missing)}, which it owes"
            events = [(hole.process, owed[1]), (hole.sender, letter.sent.index)]
            unless = [Condition("timing", hole.process)]
            run.book.violation("fifo", sentence, owed[2], events, messages=[missing, found], unless=unless)
        hole.found.clear()
        return not left

    @property
    def waiting(self) -> int:
        return sum(bool(hole.found) for holes in self._holes.values() for hole in holes)
