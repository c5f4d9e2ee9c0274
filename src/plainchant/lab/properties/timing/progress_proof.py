"""Proof from certificates: progress. The definition is in ``progress``.

Certificates keep when each message was accepted and sent, and of deliveries where they pause (``certificates.waits``). The
skeleton has every row about views, members, faults and requests. So each wait that may be longer than the bound is found and
judged as in the reference check, and the cases are counted exactly. What is violated, or cannot be told, stays doubtful.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

import numpy as np

from ..certificates.columns import Ints, Mask
from ..certificates.evidence import Doubtful
from ..certificates.prover import Prover
from ..certificates.ranges import Range, Ranges, added, missing, overlap, size
from ..certificates.records import Calls, Handed, Steps, Waits
from ..certificates.wanted import Question, Wanted, distinct
from ..facts import History, Place
from ..report import Report
from .disturbances import FOREVER, Stretch
from .halts import halts
from .progress import Judge, matched


def progress(prover: Prover) -> int:
    """Within a step, each message is delivered at most a quantum after its predecessor, so a bound of at least a quantum is kept
    there. The first message of each step is judged by its own ``accept`` and the end of the step before. Messages that
    a process lacks are judged as in the reference check: what is owed is the same all through an interval of sends. Requests are
    answered by rows of the skeleton, which also has every crash."""
    cases, waits = _judged(prover)
    report = Report(prover.run, prover.owing, "progress", until_end=prover.until_end)
    _decide((), cases, report)
    if waits or report.count:
        raise Doubtful
    return report.cases


def in_doubt(prover: Prover) -> Question:
    """Of each wait that is too long, two rows are wanted: where the message was accepted and where it was delivered."""
    cases, waits = _judged(prover)
    rows = tuple((process, index, index) for wait in waits for process, index in wait.seen)
    return Question(Wanted(rows=rows), partial(_decide, tuple(waits), cases))


class _Wait(NamedTuple):
    """A message of p that q waits for too long; ``number`` 0: one that was never taken."""

    p: str
    q: str
    group: str
    since: int
    until: int
    number: int
    seen: tuple[Place, Place]


def _judged(prover: Prover) -> tuple[int, list[_Wait]]:
    """How many cases messages are, and those that wait too long."""
    within = prover.run.bounds.get("progress")
    if within is None:
        return 0, []
    judge = Judge(Report(prover.run, prover.owing, "progress", until_end=prover.until_end))
    waiting = _Waiting(prover, judge, within, prover.run.bounds.get("size"))
    return waiting.judged(), waiting.found


def _decide(waits: Sequence[_Wait], cases: int, report: Report) -> None:
    """``progress`` of a run whose messages are that many cases, and wait too long where it is said."""
    bounds = report.run.bounds
    within, answered = bounds.get("progress"), bounds.get("answer")
    if within is None and answered is None:
        return
    judge = Judge(report)
    halts(report, judge.placed, judge.disturbances, max(within or 0, answered or 0))
    for wait in waits:
        p, q = (report.run.histories[name] for name in (wait.p, wait.q))
        message = (wait.group, wait.p, wait.number) if wait.number else None
        judge.wait(p, q, wait.group, (wait.since, wait.until), within or 0, message, *wait.seen)
    if answered is not None:
        for history in report.run.all:
            judge.requests(history, answered)
    report.cases += cases


@dataclasses.dataclass(slots=True)
class _Accepted:
    """When the messages of a process in a group were accepted: those that were taken, by number, and the first that was not."""

    times: Ints
    indices: Ints  # of the rows that say so
    untaken: tuple[int, int] | None  # its index and time


class _Delivered(NamedTuple):
    """What q delivers of p's messages, as steps without repetitions; of some, times are known within ``slack``."""

    numbers: Ints
    lasts: Ints
    begins: Ints  # when the first message of a step is delivered, or later
    ends: Ints  # when the last one is, or earlier
    indices: Ints  # index of the first delivery
    is_exact: Mask
    has_repetitions: bool

    @property
    def before(self) -> Ints:
        """When the last message before each step was delivered."""
        return np.append(np.int64(-FOREVER), self.ends[:-1])[: len(self.ends)]

    def time_of(self, number: int) -> int:
        """When a number was delivered that is the last of its step; long ago, if it was not."""
        places = np.flatnonzero(self.lasts == number)
        return int(self.ends[places[0]]) if len(places) else -FOREVER


class _Waiting:
    """Judges how long messages waited."""

    def __init__(self, prover: Prover, judge: Judge, bound: int, size: int | None) -> None:
        self._prover, self._judge, self._bound = prover, judge, bound
        self.found: list[_Wait] = []
        waits = [part.waits for part in prover.evidence.slices]
        self._quantum = max((part.quantum for part in waits if part is not None), default=0)
        self._handed: dict[tuple[str, str], list[Handed]] = {}
        self._steps: dict[tuple[str, str, str], list[Steps]] = {}
        for part in waits:
            self._add(part, size)

    def _add(self, part: Waits | None, size: int | None) -> None:
        if part is None or part.quantum > self._bound or (size is not None and part.largest > size):
            raise Doubtful
        for handed in part.handed:
            self._handed.setdefault(handed[:2], []).append(handed)
        for steps in part.steps:
            self._steps.setdefault(steps[:3], []).append(steps)

    def judged(self) -> int:
        """How many cases there are; those that are not within the bound are in ``found``."""
        run, cases = self._prover.run, 0
        for group in run.groups:
            receivers = [history for history in self._judge.placed if run.is_ever_member(history, group)]
            for p in self._judge.placed:
                pieces = self._handed.get((p.name, group))
                if pieces is None:
                    continue
                accepted = self._accepted(p, group, pieces)
                for q in receivers:
                    steps = sorted(self._steps.get((q.name, group, p.name), ()), key=lambda each: each.first)
                    delivered = self._without_repetitions(steps)
                    cases += self._late(p, q, group, accepted, delivered)
                    latest = max((each.latest for each in steps), default=-FOREVER)
                    cases += self._lacking(p, q, group, accepted, delivered, latest)
        return cases

    def _accepted(self, p: History, group: str, pieces: Sequence[Handed]) -> _Accepted:
        accepts = _joined([piece.accepts for piece in pieces])
        sends = _joined([piece.sends for piece in pieces])
        taken = len(sends.times)
        if taken != self._prover.evidence.sent_up_to(p.name, group):
            raise Doubtful
        same = accepts.contents[:taken]
        if len(same) == taken and np.array_equal(same, sends.contents) and (accepts.indices[:taken] < sends.indices).all():
            times, indices, untaken = accepts.times[:taken], accepts.indices[:taken], [*range(taken, len(accepts.times))][:1]
        else:
            rows = (list(zip(calls.indices.tolist(), calls.contents.tolist(), strict=True)) for calls in (accepts, sends))
            origins, untaken = matched(*rows)
            known = np.array([-1 if origin is None else origin for origin in origins], np.int64)
            times, indices = (
                np.where(known < 0, mine, np.append(theirs, 0)[known])
                for mine, theirs in ((sends.times, accepts.times), (sends.indices, accepts.indices))
            )
        if not untaken or not self._judge.counts_untaken(p, group, taken > 0):
            return _Accepted(times, indices, None)
        return _Accepted(times, indices, (int(accepts.indices[untaken[0]]), int(accepts.times[untaken[0]])))

    def _without_repetitions(self, steps: Sequence[Steps]) -> _Delivered:
        """What is delivered for the first time. Where a step begins or ends with a repetition, its first or last new message is
        delivered later or earlier by at most one quantum for each repetition in it."""
        columns = zip(*((s.numbers, s.lasts, s.begins, s.ends, s.indices) for s in steps), strict=True)
        numbers, lasts, begins, ends, indices = [np.concatenate(column) for column in columns] or [np.zeros(0, np.int64)] * 5
        if self._prover.evidence.sets is not None:
            return _Delivered(numbers, lasts, begins, ends, indices, np.ones(len(numbers), np.bool_), False)
        seen: Ranges = ()
        kept: list[tuple[int, ...]] = []
        every = zip(*(column.tolist() for column in (numbers, lasts, begins, ends, indices)), strict=True)
        for low, high, begin, end, index in every:
            new = missing(seen, low, high)
            again = (high - low + 1 - size(tuple(new))) * self._quantum
            if new and again + self._quantum > self._bound:
                raise Doubtful
            for part in new:
                times = begin if part[0] == low else min(begin + again, end), max(begin, end - again)
                kept.append((*part, *times, index, not again))
            seen = added(seen, new)
        table = np.array(kept, np.int64).reshape(-1, 6)
        before = len(numbers)
        numbers, lasts, begins, ends, indices = (table[:, column] for column in range(5))
        is_exact = table[:, 5] == 1
        return _Delivered(numbers, lasts, begins, ends, indices, is_exact, len(kept) < before or not is_exact.all())

    def _late(self, p: History, q: History, group: str, accepted: _Accepted, delivered: _Delivered) -> int:
        """Messages of p that q delivers."""
        taken = len(accepted.times)
        numbers, before = delivered.numbers, delivered.before
        is_case = (numbers >= 1) & (numbers <= taken)
        since = np.where(is_case, np.maximum(before, np.append(accepted.times, 0)[np.where(is_case, numbers, 1) - 1]), FOREVER)
        is_exact = delivered.is_exact & np.append(True, delivered.is_exact[:-1])[: len(numbers)]
        for at in np.flatnonzero(delivered.begins - since > self._bound).tolist():
            span = int(since[at]), int(delivered.begins[at])
            if self._judge.waited(p, q, group, span, self._bound):
                if not is_exact[at]:
                    raise Doubtful
                number = int(numbers[at])
                seen = (p.name, int(accepted.indices[number - 1])), (q.name, int(delivered.indices[at]))
                self.found.append(_Wait(p.name, q.name, group, *span, number, seen))
        return overlap(distinct(self._prover.evidence, q.name, group, p.name), 1, taken)

    def _lacking(self, p: History, q: History, group: str, accepted: _Accepted, delivered: _Delivered, last: int) -> int:
        """Messages of p that q never delivers: of those that follow each other, the first that it owes; and the first of those
        that were never taken, unless it follows one. ``last``: when q delivers the last of p's messages."""
        judge = self._judge
        taken = len(accepted.times)
        known = distinct(self._prover.evidence, q.name, group, p.name)
        if size(known) == taken and accepted.untaken is None:
            return 0
        latest = min(judge.at(p.last_row), judge.at(q.last_row)) - self._bound
        cases, is_behind = 0, False
        for hole in missing(known, 1, taken):
            found = self._first_owed(p, q, group, accepted, hole, delivered.time_of(hole[0] - 1), latest)
            if found is not None:
                is_behind = hole[1] == taken
                number, *span = found
                if span[0] < latest:
                    cases += 1
                    self._lacks(p, q, group, (span[0], span[1]), number, int(accepted.indices[number - 1]))
        if is_behind or accepted.untaken is None:
            return cases
        if delivered.has_repetitions:
            raise Doubtful
        index, time = accepted.untaken
        leaves = [stay.end_row for stay in p.stays.get(group, ()) if stay.end is not None and stay.end > index]
        until = min((judge.at(row) for row in leaves if row is not None), default=FOREVER)
        since = max(time, last)
        if since < latest and judge.together(p, q, group, since, until):
            cases += 1
            self._lacks(p, q, group, (since, until), 0, index)
        return cases

    def _lacks(self, p: History, q: History, group: str, span: Stretch, number: int, index: int) -> None:
        if self._judge.waited(p, q, group, span, self._bound):
            self.found.append(_Wait(p.name, q.name, group, *span, number, ((p.name, index), (q.name, q.last_index))))

    def _first_owed(
        self, p: History, q: History, group: str, accepted: _Accepted, hole: Range, before: int, latest: int
    ) -> tuple[int, int, int] | None:
        """The number of the first message of a hole that q owes, and from when to when it is asked for it; None: it owes none."""
        for span in self._prover.evidence.sent[p.name, group]:
            low, high = max(span.low, hole[0]), min(span.high, hole[1])
            if low > high:
                continue
            send = self._prover.evidence.event(p.name, span.first)
            if send.view is None:  # owing differs from message to message
                if (accepted.times[low - 1 : high] < latest).any():
                    raise Doubtful
                continue
            until = self._judge.owed_until(p, q, group, send)
            if until is not None:
                since = int(accepted.times[low - 1])
                return low, max(since, before) if low == hole[0] else since, until
        return None


def _joined(pieces: Sequence[Calls]) -> Calls:
    """The calls of several pieces of a history, in their order."""
    if len(pieces) == 1:
        return pieces[0]
    indices = np.concatenate([piece.indices for piece in pieces])
    order = np.argsort(indices, kind="stable")
    return Calls(*(np.concatenate(column)[order] for column in zip(*pieces, strict=True)))
