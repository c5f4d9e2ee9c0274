"""In which rows the reference checks of deadline and bounded have to look, where the proofs leave a doubt.

Certificates count the cases of both whatever is late. What is late is a matter of single rows (a send or a delivery that took too
long), of two neighbouring ``token`` rows, or of one message (a deadline that was missed). ``deadlines`` finds the messages that
missed theirs in the pass over the rows that it makes anyway.
"""

from __future__ import annotations

from functools import partial
from itertools import pairwise
from typing import TypeAlias

from ..certificates.evidence import Doubtful, Evidence, Messages
from ..certificates.prover import Prover
from ..certificates.records import MAX_SLOWEST
from ..certificates.untimed import Untimed
from ..certificates.wanted import Question, Wanted, repeated
from ..facts import between
from ..report import Report
from . import reference
from .deadlines import Timed
from .proof import judge_deadlines
from .reference import Bounds, bounds_stated, detections

Spans: TypeAlias = tuple[tuple[str, str, int, int], ...]  # (process, group, first index, last index)


def deadline(prover: Prover) -> None:
    """Leaves it to the pass over the rows, with the messages about which rows would be counted wrongly."""
    judge_deadlines(prover, in_doubt=True)


def deadline_missed(left: Untimed, seen: Timed) -> Question | None:
    """The messages that missed their deadline, or are odd, as a question; None if there is none, or not all are known."""
    if seen.late is None or not (seen.late or left.odd):
        return None
    named = (*left.odd, *seen.late)
    return Question(Wanted(messages=named), partial(_missed, named, left.cases + seen.cases))


def _missed(named: tuple[Messages, ...], cases: int, report: Report) -> None:
    """Cases are those of the whole run without the rows about these messages, and what the reference check counts of them."""
    run, columns = report.run, report.run.columns
    ranges: dict[tuple[str, str], list[tuple[int, int]]] = {}
    for group, sender, low, high in named:
        ranges.setdefault((group, sender), []).append((low, high))

    def is_named(message: tuple[str, str, int]) -> bool:
        return any(low <= message[2] <= high for low, high in ranges.get(message[:2], ()))

    for history in run.all:
        for event in (*history.first.values(), *history.repeats):
            origin = run.histories.get(event.message[1])
            if origin is not None and not origin.crashed and is_named(event.message):
                send = run.sends.get(event.message)
                is_due = send is not None and columns.deadline[send.row] is not None
                cases -= is_due or columns.deadline[event.row] is not None
    reference.in_time(report, [message for message in sorted(run.sends) if is_named(message)])
    report.cases += cases


def bounded(prover: Prover) -> Question:
    """Sends and deliveries that took too long are chosen by their own rows; the certificates name rotations; rows of the skeleton
    decide detection. Messages that are delivered twice count once."""
    evidence, bounds = prover.evidence, bounds_stated(prover.run.bounds)
    if bounds.accepted is not None:
        raise Doubtful
    cases, wanted = 0, Wanted()
    if bounds.send is not None:
        cases += _counted(*evidence.longest_send(), bounds.size)
        wanted |= Wanted(send=bounds.send if evidence.longest_send()[1] > bounds.send else None)
    if bounds.deliver is not None:
        cases += _counted(*evidence.longest_delivery(), bounds.size)
        is_late = evidence.longest_delivery()[1] > bounds.deliver
        wanted |= Wanted(deliver=bounds.deliver if is_late else None, messages=repeated(evidence))
    spans: Spans = ()
    if bounds.rotation is not None:
        cases += evidence.rotations[0]
        spans = tuple(_slow_rotations(evidence, bounds.rotation))
        wanted |= Wanted(rows=tuple((process, first, last) for process, _, first, last in spans))
    if bounds.detection is not None:
        cases += sum(1 for _ in detections(prover.run, bounds.detection))
    return Question(wanted, partial(_too_long, bounds, spans, cases))


def _counted(count: int, longest: int, largest: int, size: int | None) -> int:
    """The cases; certificates cannot tell how many of them are of messages that are too large for the bound."""
    if size is not None and largest > size and count:
        raise Doubtful
    return count


def _slow_rotations(evidence: Evidence, bound: int) -> list[tuple[str, str, int, int]]:
    """Neighbouring ``token`` rows that are too far apart; where there are many, all between which they stand."""
    pieces = [turns for part in evidence.slices for turns in part.turns]
    pieces.sort(key=lambda turns: (turns.process, turns.group, turns.first))
    found: list[tuple[str, str, int, int]] = []
    for turns in pieces:
        slow = [(*turns[:2], one, other) for took, one, other in turns.slowest if took > bound]
        found += slow if len(slow) < MAX_SLOWEST else [(*turns[:2], turns.first, turns.last)]
    for one, other in pairwise(pieces):
        if one[:2] == other[:2] and between(one.ended, other.began) > bound:
            found.append((*one[:2], one.last, other.first))
    return found


def _too_long(bounds: Bounds, spans: Spans, cases: int, report: Report) -> None:
    run, columns = report.run, report.run.columns
    reference.durations(report, bounds)
    for process, group, first, last in spans:
        turns = [at for at in run.histories[process].turns.get(group, ()) if first <= at <= last]
        reference.rotations(report, run.histories[process], group, turns, bounds.rotation or 0)
    reference.detected(report, bounds)
    report.cases = cases
    if bounds.deliver is not None:
        for again in (again for history in run.all if history.name not in run.untimely for again in history.repeats):
            is_timed = columns.true_time[again.row] is not None and columns.sent[again.row] is not None
            report.cases -= is_timed and again.message[1] not in run.untimely
