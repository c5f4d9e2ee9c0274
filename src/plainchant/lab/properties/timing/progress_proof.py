"""Proof from certificates: progress. The definition is in ``progress``.

Certificates keep when each message was accepted and sent, and of deliveries where they pause (``certificates.waits``). The
skeleton has every row about views, members, faults and requests. So each wait that may be longer than the bound is found and
judged as in the reference check, and the cases are counted exactly. What is violated, or cannot be told, stays doubtful.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np

from ..certificates.columns import Ints
from ..certificates.evidence import Doubtful
from ..certificates.prover import Prover
from ..certificates.ranges import Range, missing, overlap
from ..certificates.records import Calls, Handed, Steps, Waits
from ..facts import History
from ..report import Report
from .disturbances import FOREVER
from .halts import halts
from .progress import Judge, matched


def progress(prover: Prover) -> int:
    """Within a step, each message is delivered at most a quantum after its predecessor, so a bound of at least a quantum is kept
    there. The first message of each step is judged by its own ``accept`` and the end of the step before. Messages that
    a process lacks are judged as in the reference check: what is owed is the same all through an interval of sends. Requests are
    answered by rows of the skeleton, which also has every crash."""
    bounds = prover.run.bounds
    within, answered = bounds.get("progress"), bounds.get("answer")
    if within is None and answered is None:
        return 0
    report = Report(prover.run, prover.owing, "progress", until_end=prover.until_end)
    judge = Judge(report)
    halts(report, judge.placed, judge.disturbances, max(within or 0, answered or 0))
    cases = 0
    if within is not None:
        cases += _Waiting(prover, judge, within, bounds.get("size")).judged()
    if answered is not None:
        for history in prover.run.all:
            judge.requests(history, answered)
    if report.count:
        raise Doubtful
    return cases + report.cases


@dataclasses.dataclass(slots=True)
class _Accepted:
    """When the messages of a process in a group were accepted: those that were taken, by number, and the first that was not."""

    times: Ints
    untaken: tuple[int, int] | None  # its index and time


class _Waiting:
    """Judges how long messages waited."""

    def __init__(self, prover: Prover, judge: Judge, bound: int, size: int | None) -> None:
        prover.require_sets()
        self._prover, self._judge, self._bound = prover, judge, bound
        waits = [part.waits for part in prover.evidence.slices]
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
        """How many cases there are, all of them within the bound."""
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
                    cases += self._late(p, q, group, accepted, steps)
                    cases += self._lacking(p, q, group, accepted, steps)
        return cases

    def _accepted(self, p: History, group: str, pieces: Sequence[Handed]) -> _Accepted:
        accepts = _joined([piece.accepts for piece in pieces])
        sends = _joined([piece.sends for piece in pieces])
        taken = len(sends.times)
        if taken != self._prover.evidence.sent_up_to(p.name, group):
            raise Doubtful
        same = accepts.contents[:taken]
        if len(same) == taken and np.array_equal(same, sends.contents) and (accepts.indices[:taken] < sends.indices).all():
            times, untaken = accepts.times[:taken], [*range(taken, len(accepts.times))][:1]
        else:
            rows = (list(zip(calls.indices.tolist(), calls.contents.tolist(), strict=True)) for calls in (accepts, sends))
            origins, untaken = matched(*rows)
            known = np.array([-1 if origin is None else origin for origin in origins], np.int64)
            times = np.where(known < 0, sends.times, np.append(accepts.times, 0)[known])
        if not untaken or not self._judge.counts_untaken(p, group, taken > 0):
            return _Accepted(times, None)
        return _Accepted(times, (int(accepts.indices[untaken[0]]), int(accepts.times[untaken[0]])))

    def _late(self, p: History, q: History, group: str, accepted: _Accepted, steps: Sequence[Steps]) -> int:
        """Messages of p that q delivers."""
        if not steps:
            return 0
        delivered = self._prover.set_of(q.name, group, p.name)
        if delivered[-1][1] > len(accepted.times):
            raise Doubtful
        numbers, begins, ends = map(np.concatenate, zip(*((each.numbers, each.begins, each.ends) for each in steps), strict=True))
        before = np.append(-FOREVER, ends[:-1])
        since = np.maximum(before, accepted.times[numbers - 1])
        for at in np.flatnonzero(begins - since > self._bound).tolist():
            if self._judge.waited(p, q, group, (int(since[at]), int(begins[at])), self._bound):
                raise Doubtful
        return overlap(delivered, 1, len(accepted.times))

    def _lacking(self, p: History, q: History, group: str, accepted: _Accepted, steps: Sequence[Steps]) -> int:
        """Messages of p that q never delivers: of those that follow each other, the first that it owes; and the first of those
        that were never taken, unless it follows one."""
        judge, bound = self._judge, self._bound
        taken = len(accepted.times)
        delivered = self._prover.set_of(q.name, group, p.name)
        holes = missing(delivered, 1, taken) if taken else []
        if not holes and accepted.untaken is None:
            return 0
        latest = min(judge.at(p.last_row), judge.at(q.last_row)) - bound
        cases, is_behind = 0, False
        for hole in holes:
            found = self._first_owed(p, q, group, accepted, hole, self._before(hole[0], steps), latest)
            if found is not None:
                is_behind = hole[1] == taken
                if found[0] < latest:
                    cases += 1
                    if judge.waited(p, q, group, found, bound):
                        raise Doubtful
        if is_behind or accepted.untaken is None:
            return cases
        index, time = accepted.untaken
        leaves = [stay.end_row for stay in p.stays.get(group, ()) if stay.end is not None and stay.end > index]
        until = min((judge.at(row) for row in leaves if row is not None), default=FOREVER)
        since = max([time, *(each.latest for each in steps)])
        if since < latest and judge.together(p, q, group, since, until):
            cases += 1
            if judge.waited(p, q, group, (since, until), bound):
                raise Doubtful
        return cases

    def _first_owed(
        self, p: History, q: History, group: str, accepted: _Accepted, hole: Range, before: int, latest: int
    ) -> tuple[int, int] | None:
        """From when to when q is asked for the first message of a hole that it owes; None: for none."""
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
                return max(since, before) if low == hole[0] else since, until
        return None

    @staticmethod
    def _before(number: int, steps: Sequence[Steps]) -> int:
        """When the message before a number was delivered, which is the last of its step."""
        found = -FOREVER
        for each in steps:
            place = int(np.searchsorted(each.numbers, number)) - 1
            if place >= 0:
                found = int(each.ends[place])
        return found


def _joined(pieces: Sequence[Calls]) -> Calls:
    """The calls of several pieces of a history, in their order."""
    if len(pieces) == 1:
        return pieces[0]
    indices = np.concatenate([piece.indices for piece in pieces])
    order = np.argsort(indices, kind="stable")
    return Calls(*(np.concatenate(column)[order] for column in zip(*pieces, strict=True)))
