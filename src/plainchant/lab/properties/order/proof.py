"""Proofs from certificates: fifo, identical, total, acyclic, causal, prompt. The definitions are in ``reference``.

The central condition is :class:`~.one_sequence.OneSequence`: in each view of a group, what each process delivers is a beginning
of what the process with the most deliveries delivers, and a process that goes on to another view has delivered all of it. Then
there is *one* sequence of the group's messages, view after view, of which every process delivers a stretch without holes. (No
message may be delivered in two views; this is checked as well, because two processes may have no view in common.)

A group that partitions and merges has no such sequence, and its members deliver with holes: the messages of another part. There,
orders are compared message by message (:class:`~.sequences.Sequences`) and causes by clocks (:class:`~.causes.Clocks`). A hole
raises no doubt if the views of the process, or one that both installed later, show that it had parted from the sender.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from ..certificates.evidence import Doubtful
from ..certificates.prover import Prover, once
from ..certificates.ranges import overlap, size
from ..certificates.records import Delivered
from ..certificates.wanted import Question, Wanted, about
from ..certificates.woven import Woven
from ..facts import History, Message
from ..report import Report
from . import reference
from .causes import Clocks, are_recorded, are_senders_known, by_one_order
from .one_sequence import OneSequence, merge
from .sequences import Sequences


def fifo(prover: Prover) -> int:
    """Numbers are in ascending order. What a process lacks below the highest it must not owe: it installed none of the views
    in which that was sent, or it had parted from the sender when it delivered the next."""
    cases = 0
    for (process, group), by_sender in prover.sets.items():
        history = prover.run.histories[process]
        for sender, ranges in by_sender.items():
            cases += size(ranges) - 1
            if len(ranges) > 1 or ranges[0][0] > 1:
                cases += _holes(prover, history, group, sender, prover.evidence.delivered[process, group][sender])
    return cases


def _holes(prover: Prover, history: History, group: str, sender: str, intervals: Sequence[Delivered]) -> int:
    """How many messages were missing when the next one was delivered, of those sent in views that the process installed. A
    process with a timing fault may lack any."""
    evidence = prover.evidence
    if history.timing_fault:
        return 0
    if group not in prover.run.viewed or evidence.sent_up_to(sender, group) < intervals[-1].high:
        raise Doubtful
    cases = 0
    delivered = 0
    for interval in intervals:
        for span in evidence.sent[sender, group]:
            common = overlap(((delivered + 1, interval.low - 1),), span.low, span.high)
            if not common:
                continue
            view = evidence.view_at(sender, span.first)
            if view is None:
                raise Doubtful
            if view in history.installed:
                came_later = history.installed[view] > interval.first
                if came_later or not prover.owing.have_parted(history, sender, view, span.first, interval.first):
                    prover.doubt(group, sender, [(max(delivered + 1, span.low), min(interval.low - 1, span.high))])
                cases += common
        delivered = interval.high
    return cases


def _in_stretches(prover: Prover) -> int:
    """``fifo`` where every process delivers one range of each sender's messages, and was in no view before."""
    cases = 0
    for (process, group), by_sender in prover.sets.items():
        history = prover.run.histories[process]
        for sender, ranges in by_sender.items():
            (low, high), *others = ranges
            delivered = prover.evidence.delivered[process, group][sender]
            if others or (low > 1 and _holes(prover, history, group, sender, delivered)):
                raise Doubtful
            cases += high - low
    return cases


def identical(prover: Prover) -> int:
    """One sequence for all, or no two that differ."""
    alive = [history for history in prover.run.all if not history.crashed]
    return sum(pairs(prover, group, alive) for group in prover.run.groups)


def pairs(prover: Prover, group: str, histories: Sequence[History]) -> int:
    """Pairs of processes that deliver two or more messages of a group in common, all of them in one order."""
    try:
        return _sequence(prover, group).pairs(histories)
    except Doubtful:
        return _sequences(prover).pairs(histories, group)


def total(prover: Prover) -> int:
    """Each group has one sequence, and no two processes share two groups, or there is one order across them; or no two
    processes differ."""
    try:
        found = _across_groups(prover)
    except Doubtful:
        found = _sequences(prover).pairs(prover.run.all)
    return found + causal(prover)


def _across_groups(prover: Prover) -> int:
    common: dict[tuple[str, str], list[int]] = {}
    for group in prover.run.groups:
        for pair, count in _sequence(prover, group).in_common():
            common.setdefault(pair, []).append(count)
    if any(len(counts) > 1 for counts in common.values()):
        _require_one_order(prover)
    return sum(sum(counts) >= 2 for counts in common.values())


@once
def acyclic(prover: Prover) -> int:
    """Each group has one sequence, and no process delivers in two groups, or there is one order across them; or all messages
    can be put into one order. The cases are the messages that two processes deliver."""
    try:
        delivering = [process for process, _ in prover.evidence.delivered]
        if len(set(delivering)) < len(delivering):
            _require_one_order(prover)
        # As many as the second longest stretch of each view has.
        return sum(_sequence(prover, group).shared for group in prover.run.groups)
    except Doubtful:
        if not _sequences(prover).is_acyclic:
            raise
        return _sequences(prover).shared


def _require_one_order(prover: Prover) -> None:
    """Doubtful unless ranks show one order across groups, or the sequences of the groups can be merged."""
    if not _is_ranked(prover) and not _can_be_merged(prover):
        raise Doubtful


@once
def _is_ranked(prover: Prover) -> bool:
    """Processes in several groups deliver by rank, from the beginning of each group's sequence on.

    So what they deliver of a group is the beginning of its sequence, and ranks grow along it; what others deliver beyond it comes
    after it in the sequence and in no other group. No order leads back to a smaller rank, or back from beyond."""
    if not prover.evidence.is_ranked:
        return False
    in_several = prover.evidence.in_several.items()
    return all(_sequence(prover, group).begins_with(process) is not None for process, groups in in_several for group in groups)


@once
def _can_be_merged(prover: Prover) -> bool:
    delivered = {process: _woven(prover).stretches(process) for process in prover.evidence.in_several}
    try:
        merge({group: _sequence(prover, group) for group in prover.run.groups}, delivered)
    except Doubtful:
        return False
    return True


@once
def causal(prover: Prover) -> int:
    """In one of three ways, each with conditions of its own."""
    if not prover.is_sound:
        raise Doubtful
    for way in (_causal_in_one_sequence, _causal_by_one_order):
        try:
            return way(prover)
        except Doubtful:
            continue
    return _clocks(prover).in_causal_order(prover.owing, until_end=prover.until_end)


def _causal_in_one_sequence(prover: Prover) -> int:
    """Every process takes part in one group only, which has one sequence. A sender delivers its own messages after sending
    them, and those that it sent and did not deliver come after all that it delivered: so in the sequence every message comes
    after what happened before it. Each process delivers a stretch of it without holes, and owes nothing from before that
    stretch (``fifo``)."""
    if any(len(groups) > 1 for groups in prover.evidence.participates.values()):
        raise Doubtful
    cases = _in_stretches(prover)
    for group in prover.run.groups:
        sequence = _sequence(prover, group)
        sequence.sends_come_after()
        cases += sequence.with_a_cause()
    return cases


def _causal_by_one_order(prover: Prover) -> int:
    """There is one order across all groups, and happened-before is part of it (see ``causes``). Every message but the first
    that a process delivers of a sender and group has a cause, as ``fifo`` counts them."""
    stretches = _in_stretches(prover)
    acyclic(prover)
    return stretches + by_one_order(prover.evidence, _woven(prover))


def prompt(prover: Prover) -> int:
    """A message that waited has a cause that was delivered later, and it waited only until the last of them was."""
    if not any(history.blocks for history in prover.run.all):
        return 0
    if not prover.is_sound:
        raise Doubtful
    cases, doubtful = _clocks(prover).waits()
    if doubtful:
        raise Doubtful
    return cases


def waiting(prover: Prover) -> Question:
    """Of each message that waited without a cause, or on after the last of them, the rows about both are wanted. Clocks tell
    which causes were missing; the rows, whether the time moved on."""
    if prover.evidence.leads:
        raise Doubtful
    is_recorded = are_recorded(prover.evidence)
    if not (is_recorded or are_senders_known(prover.evidence)):
        raise Doubtful
    clocks = _clocks(prover) if is_recorded else Clocks(prover.evidence, _woven(prover))
    cases, doubtful = clocks.waits()
    if any(clocks.lacks_a_cause(wait) for wait in doubtful):
        raise Doubtful
    messages = {message for wait in doubtful for message in (wait.block.message, wait.cause) if message is not None}
    waits = tuple((*wait.block.place, wait.cause) for wait in doubtful)
    return Question(Wanted(messages=about(messages)), partial(_judge_waits, waits, cases))


def _judge_waits(waits: tuple[tuple[str, int, Message | None], ...], cases: int, report: Report) -> None:
    blocks = {block.place: block for history in report.run.all for block in history.blocks}
    for process, index, cause in waits:
        missing = [cause] if cause is not None else []
        reference.judge_wait(report, report.run.histories[process], blocks[process, index], missing)
    report.cases = cases


@once
def _sequence(prover: Prover, group: str) -> OneSequence:
    return OneSequence(prover.evidence, group)


@once
def _woven(prover: Prover) -> Woven:
    return Woven(prover.evidence)


@once
def _sequences(prover: Prover) -> Sequences:
    prover.require_time()
    return Sequences(prover.evidence, _woven(prover))


@once
def _clocks(prover: Prover) -> Clocks:
    prover.require_time()
    if not are_recorded(prover.evidence):
        raise Doubtful
    return Clocks(prover.evidence, _woven(prover))
