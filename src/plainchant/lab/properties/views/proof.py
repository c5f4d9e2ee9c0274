"""Proofs from certificates: view-atomicity, sender-in-view, same-view.

The other properties of views need none: the certificates keep every row that they look at, and the functions of ``reference``
decide on those rows.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from itertools import pairwise

from ..certificates.prover import Prover
from ..certificates.ranges import Range, Ranges, difference, overlap
from ..certificates.records import Delivered
from ..facts import Installed, View


def view_atomicity(prover: Prover) -> int:
    """Processes that go from one view to the next deliver the same numbers in the first."""
    cases = 0
    for group in prover.run.groups:
        between: dict[tuple[View, View], dict[str, Ranges]] = {}
        for history in prover.run.all:
            installations = history.views.get(group, [])
            prover.require_sets()
            mine = _since(installations, prover.evidence.delivered.get((history.name, group), {}))
            for delivered, (one, other) in zip(mine, pairwise(installations), strict=False):
                if one.stay != other.stay:
                    continue
                cases += (one.view, other.view) in between
                first = between.setdefault((one.view, other.view), delivered)
                if first != delivered:
                    for sender in sorted(first.keys() | delivered.keys()):
                        mine_of, theirs = delivered.get(sender, ()), first.get(sender, ())
                        prover.doubt(group, sender, difference(mine_of, theirs) + difference(theirs, mine_of))
    return cases


def _since(installations: Sequence[Installed], intervals: Mapping[str, Sequence[Delivered]]) -> list[dict[str, Ranges]]:
    """What a process delivers after each of its installations and before the next."""
    starts = [installed.index for installed in installations]
    found: list[dict[str, list[Range]]] = [{} for _ in installations]
    for sender, mine in intervals.items():
        for interval in mine:
            place = bisect_right(starts, interval.first) - 1
            if place < 0:
                continue
            here = found[place].setdefault(sender, [])
            if here and here[-1][1] + 1 == interval.low:
                here[-1] = here[-1][0], interval.high
            else:
                here.append((interval.low, interval.high))
    return [{sender: tuple(ranges) for sender, ranges in by_sender.items()} for by_sender in found]


def sender_in_view(prover: Prover) -> int:
    """The view is the same all through an interval of deliveries, so its first row decides."""
    cases = 0
    prover.require_sets()
    for (_, group), by_sender in prover.evidence.delivered.items():
        for sender, intervals in by_sender.items():
            known = prover.run.histories.get(sender)
            is_member = sender in prover.run.named[group] or (known is not None and group in known.joined)
            for interval in intervals:
                view = prover.evidence.view_at(interval.process, interval.first)
                if view is not None and sender in view.members:
                    cases += interval.high - interval.low + 1
                elif view is not None and is_member:
                    prover.doubt(group, sender, [(interval.low, interval.high)])
    return cases


def same_view(prover: Prover) -> int:
    """Each interval of deliveries lies in intervals of sends of the same view."""
    cases = 0
    prover.require_sets()
    evidence = prover.evidence
    for (process, group), by_sender in evidence.delivered.items():
        for sender, intervals in by_sender.items():
            spans = evidence.sent.get((sender, group), [])
            for interval in intervals:
                view = evidence.view_at(process, interval.first)
                for span in spans:
                    common = overlap(((interval.low, interval.high),), span.low, span.high)
                    sent_in = evidence.view_at(sender, span.first) if common else None
                    if sent_in is None:
                        continue
                    if sent_in is not view:
                        prover.doubt(group, sender, [(max(interval.low, span.low), min(interval.high, span.high))])
                    cases += common
    return cases
