"""Which messages stand in the way of proofs that are about single messages and about the messages of one sender, in runs of
any kind.

*Messages.* Whether a message breaks integrity, self-delivery, validity, agreement, view-atomicity, sender-in-view, same-view or
the sets of uniform depends on the rows about that message, on views, memberships and ends: never on other messages. So any set
of messages may be searched apart if the rest is proved. What is odd on its face is in it (repetitions, what was never sent,
deliveries that are out of order, by those who are no members, or with another digest); the proofs themselves name the others
(``Prover.doubt``), round by round, until they go through.

*Streams.* ``fifo`` compares a process's successive deliveries of one sender. Both of every two that are in the wrong order are
in the set; then messages that follow each other in the set alone are in the wrong order only if some between them were. A
message that a process lacks is judged at the first later delivery since it can be owed. If it is in the set, the first delivery
that can be that one in each interval is, too; if it is in the rest, a delivery of the set may not come between it and the
delivery at which the rest judges it, but for one in the same view.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Final

import numpy as np

from ..catalogue import CATALOGUE
from ..certificates.columns import Ints, Mask
from ..certificates.evidence import Doubtful, Evidence
from ..certificates.prover import Prover
from ..certificates.ranges import Range, size
from ..certificates.records import Delivered
from ..delivery.proof import uniform_sets
from ..facts import History
from .remainder import Remainder
from .strands import Key, Strand, Strands

MAX_DOUBTFUL: Final = 200_000  # messages that are worth a search of their own
_MAX_INTERVALS: Final = 2_000  # intervals of one process and sender among which an order is looked for
_ROUNDS: Final = 20

OF_MESSAGES: Final = frozenset(
    {"integrity", "self-delivery", "validity", "agreement", "uniform", "view-atomicity", "sender-in-view", "same-view", "fifo"}
)


class Doubts:
    """The doubtful messages of a run, as they become known."""

    def __init__(self, strands: Strands) -> None:
        self._strands = strands
        self._evidence: Evidence = strands.evidence
        self.found: Mask = np.zeros(strands.size, np.bool_)
        self.count = 0
        self._note_odd()

    def add(self, messages: Ints | Sequence[int]) -> None:
        new = np.unique(np.asarray(messages, np.int64))
        new = new[~self.found[new]]
        if self.count + len(new) > MAX_DOUBTFUL:
            raise Doubtful
        self.found[new] = True
        self.count += len(new)

    def forget(self, found: Mask) -> None:
        """Only some messages are doubtful after all."""
        self.found, self.count = found, int(np.count_nonzero(found))

    def add_contents(self) -> None:
        """The messages whose digests differ, or could not be compared."""
        if self._evidence.differing is None:
            raise Doubtful
        for group, sender, low, high in (*self._evidence.differing, *self._evidence.unresolved):
            self.add(self._strands.within((group, sender), low, high))

    @property
    def partly(self) -> frozenset[Key]:
        """Groups and senders with messages that are not doubtful."""
        return frozenset(
            self._strands.keys[place] for place in np.unique(self._strands.key_of(np.flatnonzero(~self.found))).tolist()
        )

    def _note_odd(self) -> None:
        run, strands = self._evidence.facts, self._strands
        for (process, group), by_sender in self._evidence.delivered.items():
            history = run.histories[process]
            for sender, intervals in by_sender.items():
                for interval in intervals:
                    if not run.is_member_at(history, group, interval.first):
                        self.add(strands.within((group, sender), interval.low, interval.high))
                beyond = strands.odd.get((group, sender))
                if beyond is not None:
                    known = run.histories.get(sender)
                    excused = known.cut if known is not None else sender in run.named[group]
                    self.add(strands.of((group, sender), beyond if sender == process or not excused else beyond[beyond < 1]))
                self._note_disorder((group, sender), intervals)
        for group in set(run.groups) - run.viewed - run.joined:  # who delivers is a member, in every part of the run
            for strand in strands.all:
                self.add(strands.deliveries(strand, group)[:1])
        for strand in strands.all:
            self.add(strand.messages[~strand.is_first & ~strand.is_send])
            self._note_leads(strand)
            if self._evidence.sets is None:
                for stream in strands.streams(strand):
                    at = np.flatnonzero(np.diff(stream) < 0)
                    self.add(stream[np.concatenate([at, at + 1])])

    def _note_disorder(self, key: Key, intervals: Sequence[Delivered]) -> None:
        """All but the most messages that one process delivers in ascending order."""
        if all(other.low > one.high for one, other in pairwise(intervals)):
            return
        if len(intervals) > _MAX_INTERVALS:
            raise Doubtful
        lows, highs = (np.array(ends) for ends in zip(*((each.low, each.high) for each in intervals), strict=True))
        best, before = highs - lows + 1, np.full(len(lows), -1)
        for at in range(1, len(lows)):
            able = np.where(highs[:at] < lows[at], best[:at], 0)
            if able.max() > 0:
                before[at] = int(able.argmax())
                best[at] += able.max()
        kept, at = set[int](), int(best.argmax())
        while at >= 0:
            kept.add(at)
            at = int(before[at])
        for place, interval in enumerate(intervals):
            if place not in kept:
                self.add(self._strands.within(key, interval.low, interval.high))

    def _note_leads(self, strand: Strand) -> None:
        """Own messages that are delivered before they are sent."""
        if not self._evidence.leads or not strand.is_send.any():
            return
        sent = np.full(self._strands.size, -1, np.int64)
        sent[strand.messages[strand.is_send]] = np.flatnonzero(strand.is_send)
        self.add(strand.messages[sent[strand.messages] > np.arange(len(strand.messages))])

    def settled(self, names: Sequence[str], until_end: bool) -> tuple[Remainder, dict[str, int]]:
        """The rest, and the cases of those properties that are proved of it; what stands in the way is doubtful now."""
        left = list(names)
        for _ in range(_ROUNDS):
            before = self.count
            if "fifo" in left:
                self._close_streams(left)
            rest = Remainder(self._strands, self.found)
            prover, cases = Prover(rest.evidence, until_end), dict[str, int]()
            for name in list(left):
                if not self._collect(prover, rest, name, cases):
                    left.remove(name)
                    cases.pop(name, None)  # what stands in its way is too much, and is not among the doubtful messages
            if self.count == before:
                return rest, cases
        raise Doubtful

    def _collect(self, prover: Prover, rest: Remainder, name: str, cases: dict[str, int]) -> bool:
        """Tries one proof; returns whether the property can still be narrowed down."""
        prover.doubts = {}
        found = self.found.copy()
        find = uniform_sets if name == "uniform" else CATALOGUE[name].proof
        assert find is not None
        try:
            cases[name] = find(prover)
            if sum(size(ranges) for ranges in prover.doubts.values()) > len(prover.run.all) * MAX_DOUBTFUL:
                return False
            for key, ranges in prover.doubts.items():
                self.add(rest.originals(key, ranges))
        except Doubtful:
            self.forget(found)
            return False
        return True

    def _close_streams(self, left: list[str]) -> None:
        found = self.found.copy()
        try:
            for _ in range(_ROUNDS):
                before = self.count
                for (process, group), by_sender in self._evidence.delivered.items():
                    history = self._evidence.facts.histories[process]
                    for sender, intervals in by_sender.items():
                        self._close_stream(history, (group, sender), intervals)
                if self.count == before:
                    return
            raise Doubtful
        except Doubtful:
            self.forget(found)
            left.remove("fifo")

    def _close_stream(self, history: History, key: Key, intervals: Sequence[Delivered]) -> None:
        holes = list(_holes(intervals))
        if not holes or history.timing_fault:
            return
        if len(holes) * len(intervals) > _MAX_INTERVALS**2:  # each hole is judged among all intervals
            raise Doubtful
        if key[0] not in self._evidence.facts.viewed and key in self._strands.odd:  # numbers that no process sent may be owed
            first, last = self._strands.numbers_of(key)[[0, -1]].tolist()
            self.add(self._strands.within(key, first, last))
        mine = [self._strands.within(key, each.low, each.high) for each in intervals]
        doubtful = [messages[self.found[messages]] for messages in mine]
        is_left = [len(some) < len(every) for some, every in zip(doubtful, mine, strict=True)]
        stretches = self._stretches(history.name, key[0])
        place = [bisect_right(stretches, each.first) for each in intervals]
        for low, high in holes:
            missing = self._strands.within(key, low, high)
            if not len(missing):
                continue
            later = [at for at, each in enumerate(intervals) if each.high > high]
            if not self.found[missing].all():
                judged = next((place[at] for at in later if is_left[at] and self._has_left(mine[at], high)), None)
                earlier = (
                    at
                    for at in later
                    if judged is None or place[at] < judged
                    if (self._strands.numbers[doubtful[at]] > high).any()
                )
                if next(earlier, None) is not None:
                    self.add(missing)
            if self.found[missing].any():
                self.add([int(mine[at][np.searchsorted(self._strands.numbers[mine[at]], high, side="right")]) for at in later])

    def _has_left(self, messages: Ints, high: int) -> bool:
        beyond = messages[self._strands.numbers[messages] > high]
        return bool((~self.found[beyond]).any())

    def _stretches(self, process: str, group: str) -> list[int]:
        """Where the tapes of a process in a group begin: between two of these, its view and membership are the same."""
        return sorted(t.first for part in self._evidence.slices for t in part.tapes if t.process == process and t.group == group)


def _holes(intervals: Sequence[Delivered]) -> Iterator[Range]:
    """The numbers below the highest that some intervals lack."""
    due = 1
    for low, high in sorted((each.low, each.high) for each in intervals):
        if low > due:
            yield due, low - 1
        due = max(due, high + 1)
