"""Proofs from certificates: deadline and bounded. The definitions are in ``reference``.

Certificates keep the longest of many durations, which proves that none is too long. They cannot keep when each message was
delivered: what ``deadline`` still has to see in the rows is described here and settled by ``deadlines``.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise

from ..certificates.evidence import Doubtful
from ..certificates.prover import Prover
from ..certificates.ranges import missing
from ..certificates.untimed import Lacking, Untimed
from ..certificates.wanted import distinct, repeated, unsent
from ..facts import History, Moment, Run
from .reference import bounds_stated, detections


def deadline(prover: Prover) -> int:
    """Deliveries that carry a deadline of their own are in time. Messages that were *sent* with a deadline are left to
    ``untimed``: whether those who delivered them did so in time, and whether those who lack them, and had installed the view
    they were sent in, had ended, left or dropped the sender by then. Parting and installing are the same for all messages of
    one interval."""
    return judge_deadlines(prover)


def judge_deadlines(prover: Prover, *, in_doubt: bool = False) -> int:
    """The proof of ``deadline``. ``in_doubt``: as far as the pass over the rows can tell more, nothing raises Doubtful."""
    evidence, run = prover.evidence, prover.run
    every = [dated for part in evidence.slices for dated in part.dated]
    if not every and not evidence.dating:
        return 0
    if not in_doubt:
        prover.require_sets()
    dated = [each for each in every if not _is_crashed(run, each.sender)]
    cases = sum(each.deliveries for each in dated)
    late = {(each.group, each.sender) for each in dated if each.latest > 0}
    odd = [*repeated(evidence), *(m for about in {(d.group, d.sender) for d in dated} for m in unsent(evidence, *about))]
    if (late or odd) and not in_doubt:
        raise Doubtful
    senders = [(process, group) for process, group in evidence.dating if not run.histories[process].crashed]
    if senders or in_doubt:
        lacking = tuple(lacks for place in senders for lacks in _lacking(prover, *place))
        named = tuple((group, process) for process, group in senders)
        prover.untimed = Untimed(named, lacking, cases, dated=tuple(sorted(late)), odd=tuple(sorted(odd)))
    return cases


def _is_crashed(run: Run, sender: str) -> bool:
    return sender not in run.histories or run.histories[sender].crashed


def _lacking(prover: Prover, sender: str, group: str) -> Iterable[Lacking]:
    """What processes that might owe it do not deliver of a sender's messages."""
    run, evidence = prover.run, prover.evidence
    for q in run.all:
        mine = distinct(evidence, q.name, group, sender)
        for span in evidence.sent[sender, group]:
            holes = missing(mine, span.low, span.high)
            if not holes:
                continue
            view = evidence.view_at(sender, span.first)
            if view is not None:
                if view in q.installed:
                    freed = _freed(prover, q, group, sender, q.installed[view])
                    ended = _moment(prover, q.last_row)
                    # Otherwise, what q owes depends on what it knows of its sender through all messages.
                    is_clear = run.histories[sender].first_view_without(group, q.name, span.first) is None
                    is_clear = is_clear and _is_steady(prover, q)
                    yield from (Lacking(group, sender, low, high, ended, freed, is_clear) for low, high in holes)
            elif q.views.get(group) if group in run.viewed else run.is_ever_member(q, group):
                raise Doubtful


def _is_steady(prover: Prover, q: History) -> bool:
    """Whether a process's clocks never go back: then the last of a few rows before a deadline tells what the last of all does."""
    if any(q.name in part.unsteady for part in prover.evidence.slices):
        return False
    moments = [_moment(prover, row) for row in q.rows.values()]
    steps = list(pairwise(moments))
    by_own = all(one[1] <= other[1] for one, other in steps)
    known = [(one[0], other[0]) for one, other in steps]
    return by_own and all((a is None) == (b is None) and (a is None or b is None or a <= b) for a, b in known)


def _freed(prover: Prover, q: History, group: str, sender: str, since: int) -> tuple[Moment, ...]:
    """When q, after it installed a view, left the group, or first installed a view without the sender."""
    rows = [stay.end_row for stay in q.stays.get(group, ()) if stay.end is not None and stay.end > since]
    if sender != q.name:
        left = q.first_view_without(group, sender, since)
        rows += [q.rows[left]] if left is not None else []
    return tuple(_moment(prover, row) for row in rows if row is not None)


def _moment(prover: Prover, row: int) -> Moment:
    return prover.run.columns.true_time[row], prover.run.columns.time[row]


def bounded(prover: Prover) -> int:
    """The longest of all durations is within the bound. The certificates keep all rows about crashes and views, so detection
    is decided as in the reference check. A bound from acceptance to delivery is left to the reference check."""
    evidence, bounds = prover.evidence, bounds_stated(prover.run.bounds)
    if bounds.accepted is not None:  # certificates keep when messages were accepted, but not each delivery
        raise Doubtful
    cases = 0
    if bounds.send is not None:
        cases += _of_size(*evidence.longest_send(), bounds.send, bounds.size)
    if bounds.deliver is not None:
        prover.require_sets()
        cases += _of_size(*evidence.longest_delivery(), bounds.deliver, bounds.size)
    if bounds.rotation is not None:
        cases += _within(*evidence.rotations, bounds.rotation)
    if bounds.detection is not None:
        for detection in detections(prover.run, bounds.detection):
            cases += 1
            if detection.is_late:
                raise Doubtful
    return cases


def _of_size(count: int, longest: int, largest: int, bound: int, size: int | None) -> int:
    """As ``_within``, where no message is too large for the bound; certificates cannot tell which durations are of large ones."""
    if size is not None and largest > size and count:
        raise Doubtful
    return _within(count, longest, bound)


def _within(count: int, longest: int, bound: int) -> int:
    if count and longest > bound:
        raise Doubtful
    return count
