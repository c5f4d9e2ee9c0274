"""Proofs from certificates: integrity, self-delivery, validity, agreement, uniform, unanimity.

What a process delivers of a sender is a set of number ranges, so these properties compare ranges instead of messages. The
definitions are in ``reference``; each docstring says why its condition suffices.
"""

from __future__ import annotations

from collections.abc import Iterable

from ..certificates.evidence import Doubtful
from ..certificates.prover import Prover
from ..certificates.ranges import Range, contains, difference, missing, overlap, size
from ..certificates.records import Sent
from ..certificates.wanted import Question, Wanted, about, joined
from ..facts import History, View
from ..order.proof import pairs
from ..owing import drops, parted
from . import reference


def integrity(prover: Prover) -> int:
    """Each process delivers each sender's numbers in ascending order, hence nothing twice, and :attr:`Prover.is_sound` covers
    the rest but the digests. Those were compared, or are listed in ``unresolved``."""
    if not prover.evidence.digests_agree or not prover.is_sound:
        raise Doubtful
    return prover.evidence.count


def self_delivery(prover: Prover) -> int:
    """What the sender delivers of its own numbers is all that it sent."""
    run, cases = prover.run, 0
    for (process, group), spans in prover.evidence.sent.items():
        history = run.histories[process]
        if not history.is_correct_in(group):
            continue
        mine = prover.set_of(process, group, process)
        for span in spans:
            if run.is_member_at(history, group, span.first):
                cases += span.high - span.low + 1
                if not contains(mine, ((span.low, span.high),)):
                    prover.doubt(group, process, missing(mine, span.low, span.high))
    return cases


def validity(prover: Prover) -> int:
    """Of each interval of sends, every correct process has all, or lacks only what it does not owe. Parting and installing
    are the same for a whole interval, so its first message decides."""
    cases = 0
    for (process, group), spans in prover.evidence.sent.items():
        sender = prover.run.histories[process]
        if not sender.is_correct_in(group):
            continue
        for span in spans:
            if not prover.run.is_member_at(sender, group, span.first):
                cases += _reaches_some(prover, process, group, (span.low, span.high))
                continue
            for q in prover.correct[group]:
                common = overlap(prover.set_of(q.name, group, process), span.low, span.high)
                if common < span.high - span.low + 1:
                    _may_lack(prover, q, process, span)
                cases += common
    return cases


def _may_lack(prover: Prover, q: History, sender: str, span: Sent) -> None:
    """Doubtful unless q need not deliver what was sent in one view. Without views, owing differs from message to message."""
    group = span.group
    if not prover.can_owe(q, group):
        return
    seen = prover.evidence.view_at(sender, span.first)
    if group not in prover.run.viewed or seen is None or prover.owing.owes(q, (group, sender, span.low)):
        prover.doubt(group, sender, missing(prover.set_of(q.name, group, sender), span.low, span.high))


def _reaches_some(prover: Prover, sender: str, group: str, sent: Range) -> int:
    members = [q for q in prover.correct[group] if prover.run.is_ever_member(q, group)]
    if not members:
        return 0
    lacking = min((missing(prover.set_of(q.name, group, sender), *sent) for q in members), key=size)
    if lacking:
        prover.doubt(group, sender, lacking)
    return sent[1] - sent[0] + 1


def agreement(prover: Prover) -> int:
    """What p delivers in a view is delivered by each q that installed it too and did not part from p."""
    return sum(_agree(prover, group, prover.correct[group]) for group in prover.run.groups)


def uniform(prover: Prover) -> int:
    """``agreement`` with crashed processes as deliverers, and one order with them included."""
    return uniform_sets(prover) + sum(pairs(prover, group, prover.run.all) for group in prover.run.groups)


def uniform_sets(prover: Prover) -> int:
    """``uniform`` without its order."""
    if not prover.until_end:
        return 0
    correct_or_crashed = {
        group: [p for p in prover.run.all if p.is_correct_in(group) or p.crashed] for group in prover.run.groups
    }
    return sum(_agree(prover, group, deliverers) for group, deliverers in correct_or_crashed.items())


def _agree(prover: Prover, group: str, deliverers: Iterable[History]) -> int:
    correct, sets = prover.correct[group], prover.sets
    cases = 0
    for p in deliverers:
        for view, by_sender in prover.evidence.in_views((p.name, group)).items():
            delivered = sum(map(size, by_sender.values()))
            for q in correct:
                if q is p or not _is_bound(prover, p, q, view, group):
                    continue
                theirs = sets.get((q.name, group), {})
                if not theirs and not prover.can_owe(q, group):
                    continue
                for sender, wanted in by_sender.items():
                    if not contains(theirs.get(sender, ()), wanted):
                        prover.doubt(group, sender, difference(wanted, theirs.get(sender, ())))
                cases += delivered
    return cases


def _is_bound(prover: Prover, p: History, q: History, view: View | None, group: str) -> bool:
    """Whether q must deliver what p delivers in a view."""
    if view is None:
        return group not in prover.run.viewed
    return view in q.installed and not (drops(p, q, view) if p.crashed else parted(p, q, view))


def unanimity(prover: Prover) -> int:
    """No process delivers a rejected message."""
    cases = 0
    for p in prover.run.all:
        for reject in p.rejects:
            group, sender, seq = reject.message
            if not p.is_correct_in(group) or not prover.run.is_member_at(p, group, reject.index):
                continue
            cases += 1
            if any(overlap(prover.set_of(q.name, group, sender), seq, seq) for q in prover.run.all):
                raise Doubtful
    return cases


def rejected(prover: Prover) -> Question:
    """``reject`` rows are in the skeleton; deliveries of what they reject are wanted beside it."""
    every = (((i.group, i.sender), i.low, i.high) for part in prover.evidence.slices for i in part.delivered)
    delivered = joined(every)
    named = {reject.message for p in prover.run.all for reject in p.rejects}
    wanted = [message for message in named if overlap(delivered.get(message[:2], ()), message[2], message[2])]
    return Question(Wanted(messages=about(wanted)), reference.unanimity)
