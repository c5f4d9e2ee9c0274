"""Stage 2 of verification: what the certificates of a run prove.

For each property there is a *sufficient* condition on the certificates and a way to count the cases that the reference
verifier would have examined. Where the condition holds, the property holds, and the count is exact. Where it does not, the
property is *doubtful*, and the exact search (the reference verifier on the run's rows) decides: only it says "violated", so
every violation has its sentence and its events. Properties of views alone are decided here, by the reference verifier's
own functions on the skeleton, which has all they look at.

The conditions are written for what correct runs look like; each docstring says why it suffices. The central one is
:class:`~plainchant.lab.order.Order`: in each view of a group, what each process delivers is a beginning of what the one
that delivers most does, and whoever goes on to another view has delivered all of it. Then there is *one* sequence of the
group's messages, view after view, of which every process delivers a stretch without holes. (That no message is delivered
in two views has to be looked at as well: two processes may have no view in common.)

A group that partitions and merges has no such sequence, and its members deliver with holes: what another part had. There orders
are compared message by message (:class:`~plainchant.lab.sequences.Sequences`), causes by clocks, and a hole is no doubt if the
views of the process alone, or a view that both installed later, show that it had parted from the sender.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from itertools import pairwise
from typing import Final

from ...trace.properties import BLOCK_PROPERTIES
from . import SPEAK_OF_END, check_run, is_held_to_names, names_for
from .certificates.evidence import Evidence, Messages, Range, Ranges
from .certificates.unit import Dated, Delivered
from .certificates.woven import Woven
from .facts import History, Run, View
from .order.causes import Clocks, by_one_order
from .order.one_sequence import Doubtful, Order, merge
from .order.sequences import Sequences
from .owing import Owing, drops, parted
from .report import Report
from .timing.deadlines import Lacking, Untimed
from .timing.reference import Moment, bounds_of, detections


@dataclasses.dataclass(slots=True)
class Proof:
    """What the certificates say of a run."""

    smells: bool = False
    """Something may be malformed: nothing was judged."""
    cases: dict[str, tuple[int, int]] = dataclasses.field(default_factory=dict)
    """Property to (1 if it was checked, cases), for those that hold."""
    decided: list[tuple[Report, int]] = dataclasses.field(default_factory=list)
    """Reports of properties that were decided here, whichever way."""
    doubtful: list[str] = dataclasses.field(default_factory=list)
    unresolved: list[Messages] = dataclasses.field(default_factory=list)
    """``integrity`` holds if digests of these messages agree, which certificates cannot tell."""
    untimed: Untimed | None = None
    """``deadline`` holds if deliveries were in time, which certificates cannot tell."""


ON_VIEWS: Final = frozenset({"view-order", "view-exclusion", "convergence", "disjoint-views"})
"""Properties that look at nothing but what the skeleton has."""


def prove(evidence: Evidence, properties: Sequence[str] | None) -> Proof:
    """Proves what can be proved of what the run is to be checked for (see ``reference.verify`` about ``properties``)."""
    if evidence.smells:
        return Proof(smells=True)
    proof = Proof()
    run = evidence.facts
    until_end = properties is not None or run.drained
    held = is_held_to_names(run, properties)
    names = names_for(run, properties)
    proof.decided = check_run(run, properties, ON_VIEWS)
    prover = Prover(evidence, until_end)
    for name in names:
        if name in ON_VIEWS:
            continue
        checked = until_end or name not in SPEAK_OF_END
        if not checked:
            if held:
                proof.cases[name] = 0, 0
            continue
        try:
            cases = prover.cases(name)
        except Doubtful:
            proof.doubtful.append(name)
            continue
        if cases or held:
            proof.cases[name] = 1, cases
    if "integrity" in proof.cases:
        proof.unresolved = evidence.unresolved
    if prover.untimed is not None and "deadline" not in proof.doubtful:
        proof.cases.pop("deadline", None)
        proof.untimed = dataclasses.replace(prover.untimed, events=evidence.rows, is_held=held)
    return proof


class Prover:
    """Counts the cases of each property of one run, or raises Doubtful."""

    def __init__(self, evidence: Evidence, until_end: bool) -> None:
        self.evidence = evidence
        self.run: Run = evidence.facts
        self.until_end = until_end
        self.owing = Owing(self.run)
        self.untimed: Untimed | None = None
        """What is left to be seen of ``deadline``, where that was proved but for it."""
        self._orders: dict[str, Order] = {}
        self._known: dict[str, int | None] = {}

    def cases(self, name: str) -> int:
        """The number of cases of a property that holds."""
        if name not in self._known:
            try:
                self._known[name] = PROVERS[name](self)
            except Doubtful:
                self._known[name] = None
        known = self._known[name]
        if known is None:
            raise Doubtful
        return known

    @cached_property
    def _correct(self) -> dict[str, list[History]]:
        return {group: self.run.correct_in(group) for group in self.run.groups}

    @property
    def sets(self) -> Mapping[tuple[str, str], Mapping[str, Ranges]]:
        sets = self.evidence.sets
        if sets is None:
            raise Doubtful
        return sets

    def order(self, group: str) -> Order:
        if group not in self._orders:
            self._orders[group] = Order(self.evidence, group)
        return self._orders[group]

    def of_blocks(self) -> int:
        """What building blocks promise is left to the exact search, unless there is no row of such a block."""
        if self.run.noted:
            raise Doubtful
        return 0

    # --- delivery -----------------------------------------------------------------------------------------------------

    def integrity(self) -> int:
        """Each process delivers each sender's numbers in order, so nothing twice; they lie in what the sender
        sent, or the sender is excused; deliveries of own messages never run ahead of the sends; membership is the same
        all through an interval; digests were compared, or are named in ``unresolved``."""
        if not self.evidence.digests_agree or not self._are_sound:
            raise Doubtful
        return self.evidence.count

    @cached_property
    def _are_sound(self) -> bool:
        """What ``integrity`` asks, but for digests."""
        evidence, run = self.evidence, self.run
        if evidence.leads:
            return False
        for (process, group), by_sender in self.sets.items():
            for sender, ranges in by_sender.items():
                if ranges[-1][1] > evidence.sent_up_to(sender, group):
                    history = run.histories.get(sender)
                    excused = history.cut if history is not None else sender in run.named[group]
                    if not excused or sender == process:
                        return False
        for (process, group), intervals in evidence.delivered.items():
            history = run.histories[process]
            for of_sender in intervals.values():
                if not all(run.is_member_at(history, group, interval.first) for interval in of_sender):
                    return False
        return True

    def fifo(self) -> int:
        """Numbers are in order. What a process lacks below the highest it must not owe: it installed none of the views in which
        that was sent, or it had parted from the sender when it delivered the next."""
        cases = 0
        for (process, group), by_sender in self.sets.items():
            history = self.run.histories[process]
            for sender, ranges in by_sender.items():
                cases += _size(ranges) - 1
                if len(ranges) > 1 or ranges[0][0] > 1:
                    cases += self._holes(history, group, sender, self.evidence.delivered[process, group][sender])
        return cases

    def _holes(self, history: History, group: str, sender: str, intervals: Sequence[Delivered]) -> int:
        """How many messages were missing when the next one was delivered, of those sent in views that the process installed. Who
        has a timing fault may lack any."""
        if history.timing_fault:
            return 0
        if group not in self.run.viewed or self.evidence.sent_up_to(sender, group) < intervals[-1].high:
            raise Doubtful
        cases = 0
        delivered = 0
        for interval in intervals:
            for span in self.evidence.sent[sender, group]:
                common = _overlap(((delivered + 1, interval.low - 1),), span.low, span.high)
                if not common:
                    continue
                view = self.evidence.view_at(sender, span.first)
                if view is None:
                    raise Doubtful
                if view in history.installed:
                    if history.installed[view] > interval.first or not self.owing.have_parted(
                        history, sender, view, span.first, interval.first
                    ):
                        raise Doubtful
                    cases += common
            delivered = interval.high
        return cases

    def _in_stretches(self) -> int:
        """``fifo`` where everybody delivers one range of each sender's messages, and was in no view before."""
        cases = 0
        for (process, group), by_sender in self.sets.items():
            history = self.run.histories[process]
            for sender, ranges in by_sender.items():
                (low, high), *others = ranges
                if others or (low > 1 and self._holes(history, group, sender, self.evidence.delivered[process, group][sender])):
                    raise Doubtful
                cases += high - low
        return cases

    def self_delivery(self) -> int:
        """What the sender delivers of its own numbers is all that it sent."""
        cases = 0
        for (process, group), spans in self.evidence.sent.items():
            history = self.run.histories[process]
            if not history.is_correct_in(group):
                continue
            mine = self._set(process, group, process)
            for span in spans:
                if self.run.is_member_at(history, group, span.first):
                    cases += span.high - span.low + 1
                    if not _contains(mine, ((span.low, span.high),)):
                        raise Doubtful
        return cases

    def _set(self, process: str, group: str, sender: str) -> Ranges:
        return self.sets.get((process, group), {}).get(sender, ())

    def validity(self) -> int:
        """Of each interval of sends, every correct process has all, or lacks only what it does not owe; parting and
        installing are the same for a whole interval, so its first message decides."""
        cases = 0
        for (process, group), spans in self.evidence.sent.items():
            sender = self.run.histories[process]
            if not sender.is_correct_in(group):
                continue
            for span in spans:
                size = span.high - span.low + 1
                if not self.run.is_member_at(sender, group, span.first):
                    cases += self._reaches_some(process, group, (span.low, span.high))
                    continue
                for q in self._correct[group]:
                    common = _overlap(self._set(q.name, group, process), span.low, span.high)
                    if common < size:
                        self._may_lack(q, group, process, span.first, span.low)
                    cases += common
        return cases

    def _may_lack(self, q: History, group: str, sender: str, first: int, low: int) -> None:
        """What was sent in one view, q need not deliver. Without views, owing differs from message to message."""
        if not self._can_owe(q, group):
            return
        seen = self.evidence.view_at(sender, first)
        if group not in self.run.viewed or seen is None or self.owing.owes(q, (group, sender, low)):
            raise Doubtful

    def _can_owe(self, q: History, group: str) -> bool:
        """Whether a process can owe anything in a group: who only sends to one without views cannot."""
        return group in self.run.viewed or self.run.is_ever_member(q, group)

    def _reaches_some(self, sender: str, group: str, sent: Range) -> int:
        members = [q for q in self._correct[group] if self.run.is_ever_member(q, group)]
        if not members:
            return 0
        if not any(_overlap(self._set(q.name, group, sender), *sent) == sent[1] - sent[0] + 1 for q in members):
            raise Doubtful
        return sent[1] - sent[0] + 1

    def agreement(self) -> int:
        """What p delivers in a view is delivered by each q that installed it too and did not part from p."""
        return sum(self._agree(group, self._correct[group]) for group in self.run.groups)

    def uniform(self) -> int:
        """``agreement`` with crashed processes as deliverers, and one order with them included."""
        cases = 0
        for group in self.run.groups:
            if self.until_end:
                cases += self._agree(group, [p for p in self.run.all if p.is_correct_in(group) or p.crashed])
            cases += self._pairs(group, self.run.all)
        return cases

    def _agree(self, group: str, deliverers: Iterable[History]) -> int:
        correct, sets = self._correct[group], self.sets
        cases = 0
        for p in deliverers:
            for view, by_sender in self.evidence.in_views((p.name, group)).items():
                size = sum(map(_size, by_sender.values()))
                for q in correct:
                    if q is p or not self._is_bound(p, q, view, group):
                        continue
                    theirs = sets.get((q.name, group), {})
                    if not theirs and not self._can_owe(q, group):
                        continue
                    if not all(_contains(theirs.get(sender, ()), wanted) for sender, wanted in by_sender.items()):
                        raise Doubtful
                    cases += size
        return cases

    def _is_bound(self, p: History, q: History, view: View | None, group: str) -> bool:
        """Whether what p delivers in a view is asked of q."""
        if view is None:
            return group not in self.run.viewed
        return view in q.installed and not (drops(p, q, view) if p.crashed else parted(p, q, view))

    def unanimity(self) -> int:
        """Nobody delivers a rejected message."""
        cases = 0
        for p in self.run.all:
            for reject in p.rejects:
                group, sender, seq = reject.message
                if not p.is_correct_in(group) or not self.run.is_member_at(p, group, reject.index):
                    continue
                cases += 1
                if any(_overlap(self._set(q.name, group, sender), seq, seq) for q in self.run.all):
                    raise Doubtful
        return cases

    # --- views --------------------------------------------------------------------------------------------------------

    def view_atomicity(self) -> int:
        """Processes that go from one view to the next deliver the same in the first."""
        cases = 0
        for group in self.run.groups:
            between: dict[tuple[View, View], dict[str, Ranges]] = {}
            for history in self.run.all:
                installations = history.views.get(group, [])
                if len({installed.view for installed in installations}) < len(installations):
                    raise Doubtful
                self.sets  # noqa: B018 - repeated deliveries are not looked at, and here there are none
                mine = self.evidence.in_views((history.name, group))
                for one, other in pairwise(installations):
                    if one.stay != other.stay:
                        continue
                    delivered = mine.get(one.view, {})
                    cases += (one.view, other.view) in between
                    if between.setdefault((one.view, other.view), delivered) != delivered:
                        raise Doubtful
        return cases

    def sender_in_view(self) -> int:
        cases = 0
        self.sets  # noqa: B018 - repeated deliveries are not looked at, and here there are none
        for (_, group), by_sender in self.evidence.delivered.items():
            for sender, intervals in by_sender.items():
                known = self.run.histories.get(sender)
                is_member = sender in self.run.named[group] or (known is not None and group in known.joined)
                for interval in intervals:
                    view = self.evidence.view_at(interval.process, interval.first)
                    if view is not None and sender in view.members:
                        cases += interval.high - interval.low + 1
                    elif view is not None and is_member:
                        raise Doubtful
        return cases

    def same_view(self) -> int:
        """Each interval of deliveries lies in intervals of sends of the same view."""
        cases = 0
        self.sets  # noqa: B018 - as above
        for (process, group), by_sender in self.evidence.delivered.items():
            for sender, intervals in by_sender.items():
                spans = self.evidence.sent.get((sender, group), [])
                for interval in intervals:
                    view = self.evidence.view_at(process, interval.first)
                    for span in spans:
                        common = _overlap(((interval.low, interval.high),), span.low, span.high)
                        sent_in = self.evidence.view_at(sender, span.first) if common else None
                        if sent_in is None:
                            continue
                        if sent_in is not view:
                            raise Doubtful
                        cases += common
        return cases

    # --- order --------------------------------------------------------------------------------------------------------

    def identical(self) -> int:
        """One sequence for all, or no two that differ."""
        alive = [history for history in self.run.all if not history.crashed]
        return sum(self._pairs(group, alive) for group in self.run.groups)

    def _pairs(self, group: str, histories: Sequence[History]) -> int:
        try:
            return self.order(group).pairs(histories)
        except Doubtful:
            return self._sequences.pairs(histories, group)

    def total(self) -> int:
        """One sequence a group, and no two processes share two groups, or there is one order across them; or no two processes
        differ."""
        try:
            pairs = self._across_groups()
        except Doubtful:
            pairs = self._sequences.pairs(self.run.all)
        return pairs + self.cases("causal")

    def _across_groups(self) -> int:
        common: dict[tuple[str, str], list[int]] = {}
        for group in self.run.groups:
            for pair, count in self.order(group).in_common():
                common.setdefault(pair, []).append(count)
        if any(len(counts) > 1 for counts in common.values()):
            self._one_order_across_groups()
        return sum(sum(counts) >= 2 for counts in common.values())

    def acyclic(self) -> int:
        """One sequence a group, and no process delivers in two groups, or there is one order across them; or all messages can be
        put into one order. The cases are the messages that two processes deliver."""
        try:
            return self._shared_in_one_order()
        except Doubtful:
            if not self._sequences.is_acyclic:
                raise
            return self._sequences.shared

    def _shared_in_one_order(self) -> int:
        """As many as the second longest stretch of each view has."""
        delivering = [process for process, _ in self.evidence.delivered]
        if len(set(delivering)) < len(delivering):
            self._one_order_across_groups()
        return sum(self.order(group).shared for group in self.run.groups)

    def _one_order_across_groups(self) -> None:
        """Ranks show it, or else the sequences of the groups can be merged."""
        if not self._is_ranked and not self._can_be_merged:
            raise Doubtful

    @cached_property
    def _is_ranked(self) -> bool:
        """Processes in several groups deliver by rank, from the beginning of each group's sequence on.

        So what they deliver of a group is the beginning of its sequence, and ranks grow along it; what others deliver beyond it
        comes after it in the sequence and in no other group. No order leads back to a smaller rank, or from beyond.
        """
        if not self.evidence.is_ranked:
            return False
        in_several = self.evidence.in_several.items()
        return all(self.order(group).begins_with(process) is not None for process, groups in in_several for group in groups)

    @cached_property
    def _can_be_merged(self) -> bool:
        delivered = {process: self._woven.stretches(process) for process in self.evidence.in_several}
        try:
            merge({group: self.order(group) for group in self.run.groups}, delivered)
        except Doubtful:
            return False
        return True

    def causal(self) -> int:
        """In one of three ways, each with conditions of its own."""
        if not self._are_sound:
            raise Doubtful
        for way in (self._causal_in_one_sequence, self._causal_by_one_order, self._causal_by_clocks):
            try:
                return way()
            except Doubtful:
                continue
        raise Doubtful

    def _causal_in_one_sequence(self) -> int:
        """Everybody takes part in one group only, and that has one sequence. A sender delivers its own messages after
        sending them, and those that it sent and did not deliver come after all that it delivered: so the sequence has
        everything after what happened before it. Each process delivers a stretch of it without holes, and owes nothing
        from before that stretch (``fifo``)."""
        if any(len(groups) > 1 for groups in self.evidence.participates.values()):
            raise Doubtful
        cases = self._in_stretches()
        for group in self.run.groups:
            order = self.order(group)
            order.sends_come_after()
            cases += order.with_a_cause()
        return cases

    def _causal_by_one_order(self) -> int:
        """There is one order across all groups, and happened-before is part of it (see ``causes``). Every message but the first
        that a process delivers of a sender and group has a cause, as ``fifo`` counts them."""
        stretches = self._in_stretches()
        self.cases("acyclic")
        return stretches + by_one_order(self.evidence, self._woven)

    def _causal_by_clocks(self) -> int:
        return self._clocks.in_causal_order(self.owing, until_end=self.until_end)

    @cached_property
    def _woven(self) -> Woven:
        return Woven(self.evidence)

    @cached_property
    def _sequences(self) -> Sequences:
        return Sequences(self.evidence, self._woven)

    @cached_property
    def _clocks(self) -> Clocks:
        return Clocks(self.evidence, self._woven)

    # --- times --------------------------------------------------------------------------------------------------------

    def deadline(self) -> int:
        """Whatever brings a deadline of its own is in time. What was sent with one is left to ``untimed``: whether those who
        delivered it did so in time, and whether those who lack it, and had installed the view it was sent in, had ended, left or
        dropped its sender by then. Parting and installing are the same for all that was sent in one interval."""
        evidence = self.evidence
        if not evidence.dated and not evidence.dating:
            return 0
        self.sets  # noqa: B018 - repeated deliveries are not looked at, and here there are none
        cases = sum(self._dated(dated) for dated in evidence.dated)
        senders = [(process, group) for process, group in evidence.dating if not self.run.histories[process].crashed]
        if senders:
            lacking = tuple(lacks for place in senders for lacks in self._lacking(*place))
            self.untimed = Untimed(tuple((group, process) for process, group in senders), lacking, cases)
        return cases

    def _dated(self, dated: Dated) -> int:
        sender = self.run.histories.get(dated.sender)
        if sender is None or sender.crashed:
            return 0
        delivered = self._set(dated.process, dated.group, dated.sender)
        if dated.latest > 0 or delivered[-1][1] > self.evidence.sent_up_to(dated.sender, dated.group):
            raise Doubtful
        return dated.deliveries

    def _lacking(self, sender: str, group: str) -> Iterable[Lacking]:
        """What processes that might owe it do not deliver of a sender's messages."""
        for q in self.run.all:
            mine = self._set(q.name, group, sender)
            for span in self.evidence.sent[sender, group]:
                holes = _without(mine, span.low, span.high)
                if not holes:
                    continue
                view = self.evidence.view_at(sender, span.first)
                if view is not None:
                    if view in q.installed:
                        freed = self._freed(q, group, sender, q.installed[view])
                        yield from (Lacking(group, sender, low, high, self._moment(q.last_row), freed) for low, high in holes)
                elif q.views.get(group) if group in self.run.viewed else self.run.is_ever_member(q, group):
                    raise Doubtful

    def _freed(self, q: History, group: str, sender: str, since: int) -> tuple[Moment, ...]:
        """When q, after it installed a view, left the group, or first installed one without the sender."""
        rows = [stay.end_row for stay in q.stays.get(group, ()) if stay.end is not None and stay.end > since]
        if sender != q.name:
            left = q.first_view_without(group, sender, since)
            rows += [q.rows[left]] if left is not None else []
        return tuple(self._moment(row) for row in rows if row is not None)

    def _moment(self, row: int) -> Moment:
        return self.run.columns.true_time[row], self.run.columns.time[row]

    def bounded(self) -> int:
        """The longest of all is not too long; crashes and views are all in the skeleton."""
        bounds = bounds_of(self.run)
        cases = 0
        if bounds.send is not None:
            cases += self._of_size(*self.evidence.longest_send(), bounds.send, bounds.size)
        if bounds.deliver is not None:
            self.sets  # noqa: B018 - repeated deliveries are not looked at, and here there are none
            cases += self._of_size(*self.evidence.longest_delivery(), bounds.deliver, bounds.size)
        if bounds.rotation is not None:
            cases += self._within(*self.evidence.rotations, bounds.rotation)
        if bounds.detection is not None:
            for detection in detections(self.run, bounds.detection):
                cases += 1
                if detection.is_late:
                    raise Doubtful
        return cases

    def _of_size(self, count: int, longest: int, largest: int, bound: int, size: int | None) -> int:
        """As ``_within``, where no message is too large for the bound; which of them are too long, certificates cannot tell."""
        if size is not None and largest > size and count:
            raise Doubtful
        return self._within(count, longest, bound)

    def _within(self, count: int, longest: int, bound: int) -> int:
        if count and longest > bound:
            raise Doubtful
        return count

    def prompt(self) -> int:
        """What waits has a cause that is delivered later, and no longer than until the last of them is."""
        if not any(history.blocks for history in self.run.all):
            return 0
        if not self._are_sound:
            raise Doubtful
        return self._clocks.waited_for_a_cause()


PROVERS: Final[Mapping[str, Callable[[Prover], int]]] = {
    "integrity": Prover.integrity,
    "fifo": Prover.fifo,
    "causal": Prover.causal,
    "identical": Prover.identical,
    "total": Prover.total,
    "acyclic": Prover.acyclic,
    "self-delivery": Prover.self_delivery,
    "validity": Prover.validity,
    "agreement": Prover.agreement,
    "uniform": Prover.uniform,
    "view-atomicity": Prover.view_atomicity,
    "sender-in-view": Prover.sender_in_view,
    "same-view": Prover.same_view,
    "unanimity": Prover.unanimity,
    "deadline": Prover.deadline,
    "bounded": Prover.bounded,
    "prompt": Prover.prompt,
    **dict.fromkeys(BLOCK_PROPERTIES, Prover.of_blocks),
}


def _size(mine: Ranges) -> int:
    return sum(high - low + 1 for low, high in mine)


def _overlap(mine: Ranges, low: int, high: int) -> int:
    found = 0
    for bottom, top in mine:
        found += max(0, min(top, high) - max(bottom, low) + 1)
    return found


def _without(mine: Ranges, low: int, high: int) -> list[Range]:
    """The numbers from low to high that are not there, as ranges."""
    found = []
    for bottom, top in mine:
        if top < low:
            continue
        if bottom > high:
            break
        if low < bottom:
            found.append((low, bottom - 1))
        low = top + 1
    return [*found, (low, high)] if low <= high else found


def _contains(mine: Ranges, wanted: Ranges) -> bool:
    """Whether all of some numbers are there. Said without ``any`` and ``all``: it is asked for every two processes and sender."""
    for first, last in wanted:
        for low, high in mine:
            if low <= first and last <= high:
                break
        else:
            return False
    return True
