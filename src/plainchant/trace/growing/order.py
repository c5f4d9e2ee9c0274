"""In which order messages are delivered: fifo, identical, and the order of uniform and total, on a trace that grows.

**Two orders are compared with four numbers.** Take two processes and the messages that both have delivered, as far as is
known. When the second of them is told to have delivered a message, that is the latest one at that process. So the orders agree
exactly if it is the latest one at the other process, too, among the messages that they have in common; it is enough to
remember, for each pair, how far their common messages reach at each of them.

**A hole that is owed stays wrong.** If a process delivers a message of a sender without an earlier one that it owes, then
either it never delivers that one, or it does so later, and then out of order.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Final

from .book import Condition, Message, say
from .state import Delivery, History, Letter

if TYPE_CHECKING:
    from .run import Growing

ROUNDS: Final = 2
"""Ends of rounds after which everything that somebody can have known is read."""
MOST_HOLES: Final = 10_000
"""Holes that wait to be judged; of a gap, only so many numbers are looked at."""
MOST_PAIRS: Final = 100_000


@dataclasses.dataclass(slots=True)
class _Reach:
    """How far the common messages of two processes reach, at each of them: index and message."""

    first: tuple[int, Message]
    second: tuple[int, Message]


class Orders:
    """identical and uniform, group by group, and total, across groups."""

    def __init__(self) -> None:
        self._reaches: dict[tuple[str, str, str | None], _Reach] = {}

    def delivered(self, run: Growing, history: History, letter: Letter, delivery: Delivery) -> None:
        for other, theirs in letter.delivered.items():
            if other != history.name:
                for group in (letter.message[0], None):
                    self._common(run, group, (history.name, delivery), (other, theirs), letter.message)

    def _common(
        self, run: Growing, group: str | None, one: tuple[str, Delivery], other: tuple[str, Delivery], message: Message
    ) -> None:
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
        self,
        run: Growing,
        group: str | None,
        one: tuple[str, Delivery],
        other: tuple[str, Delivery],
        message: Message,
        reach: _Reach,
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
    """A process delivered message ``seq`` of a sender and not those from ``low`` to ``high``."""

    process: str
    group: str
    sender: str
    low: int
    high: int
    seq: int
    index: int
    time: int
    round: int


class Fifo:
    """Messages of a sender are delivered in the order in which it sent them, without holes that are owed."""

    def __init__(self) -> None:
        self._holes: list[_Hole] = []
        self._open: dict[tuple[str, str, str], list[_Hole]] = {}
        """Holes that were not owed when they were judged: a view that is installed later may make them so."""

    def delivered(self, run: Growing, history: History, message: Message, index: int, time: int, highest: int) -> None:
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
        if seq > highest + 1:
            low = max(highest + 1, seq - MOST_HOLES)
            self._wait(run, _Hole(history.name, group, sender, low, seq - 1, seq, index, time, run.round))
        for hole in self._open.pop((history.name, group, sender), ()):
            if seq > hole.high:
                self._wait(run, dataclasses.replace(hole, seq=seq, index=index, time=time, round=run.round))

    def _wait(self, run: Growing, hole: _Hole) -> None:
        if len(self._holes) < MOST_HOLES:
            self._holes.append(hole)
        else:
            run.late += 1

    def tick(self, run: Growing, *, over: bool = False) -> None:
        waiting = [hole for hole in self._holes if not over and run.round - hole.round < ROUNDS]
        judged = [hole for hole in self._holes if over or run.round - hole.round >= ROUNDS]
        self._holes = waiting
        for hole in judged:
            self._judge(run, hole)

    def _judge(self, run: Growing, hole: _Hole) -> None:
        history = run.histories[hole.process]
        undecided = []
        for seq in range(hole.low, hole.high + 1):
            letter = run.letters.get((hole.group, hole.sender, seq))
            if letter is None or letter.sent is None or hole.process in letter.delivered:
                continue
            if not run.owes(history, letter, hole.index):
                undecided.append(seq)
                continue
            missing, found = letter.message, (hole.group, hole.sender, hole.seq)
            sentence = f"{hole.process} delivers {say(found)} without {say(missing)}, which it owes"
            events = [(hole.process, hole.index), (hole.sender, letter.sent.index)]
            unless = [Condition("timing", hole.process)]
            run.book.violation("fifo", sentence, hole.time, events, messages=[missing, found], unless=unless)
        if undecided and history.views.get(hole.group, [])[-1:] and not history.final:
            kept = self._open.setdefault((hole.process, hole.group, hole.sender), [])
            if len(kept) < ROUNDS:
                kept.append(dataclasses.replace(hole, low=undecided[0], high=undecided[-1]))

    @property
    def waiting(self) -> int:
        return len(self._holes)
