"""Reference checks of integrity, self-delivery, validity, agreement, uniform and unanimity."""

from __future__ import annotations

from ....core.model import GroupId
from ..facts import Event, History, Message
from ..order.reference import compare_orders
from ..owing import drops, parted
from ..report import Report, say


def integrity(report: Report) -> None:
    """A process delivers a message at most once, after its ``send`` where both are in one history, only if its sender
    sent it in that group (no demand on a cut sender beyond its last row), only while it is a member, with the same
    digest where there is one.

    A sender without rows is excused if some view of the group names it (it is unobserved), and not otherwise. Where the ``send``
    has no digest, deliveries are compared with the first delivery that has one."""
    for history in report.run.all:
        report.cases += len(history.first) + len(history.repeats)
        for again in history.repeats:
            first = history.first[again.message]
            told = f"{history.name} delivers {say(again.message)} twice"
            report.violation(told, events=[first, again], messages=[again.message])
        for delivery in history.first.values():
            _was_sent(report, delivery)
            if not report.run.is_member_at(history, delivery.message[0], delivery.index):
                told = f"{history.name} delivers {say(delivery.message)} while it is no member"
                report.violation(told, events=[delivery], messages=[delivery.message])
    _same_digests(report)


def _was_sent(report: Report, delivery: Event) -> None:
    group, sender, seq = message = delivery.message
    send = report.run.sends.get(message)
    if send is None:
        history = report.run.histories.get(sender)
        excused = history.cut if history is not None else sender in report.run.named[group]
        # Numbers begin at 1; and what a cut process delivers itself, it delivers before its last row.
        excused = excused and seq > 0 and sender != delivery.process
        if not excused:
            told = f"{delivery.process} delivers {say(message)}, which {sender} never sent"
            report.violation(told, events=[delivery], messages=[message])
    elif send.process == delivery.process and send.index > delivery.index:
        told = f"{delivery.process} delivers {say(message)} before it sends it"
        report.violation(told, events=[delivery, send], messages=[message])


def _same_digests(report: Report) -> None:
    digests = report.run.columns.digest
    originals: dict[Message, Event] = {m: send for m, send in report.run.sends.items() if digests[send.row] is not None}
    for history in report.run.all:
        for delivery in (*history.first.values(), *history.repeats):
            if digests[delivery.row] is None:
                continue
            original = originals.setdefault(delivery.message, delivery)
            if digests[original.row] != digests[delivery.row]:
                told = f"{history.name} delivers {say(delivery.message)} with another content than at {original.process}"
                report.violation(told, events=[original, delivery], messages=[delivery.message])


def self_delivery(report: Report) -> None:
    """A sender that is correct in g and a member when it sends delivers its own message before ``end``."""
    for history in report.run.all:
        for send in history.sends:
            group = send.message[0]
            if history.is_correct_in(group) and report.run.is_member_at(history, group, send.index):
                report.cases += 1
                if send.message not in history.first:
                    told = f"{history.name} never delivers its own {say(send.message)}"
                    report.violation(told, events=[send], messages=[send.message])


def validity(report: Report) -> None:
    """A message of a sender correct in g is delivered before ``end`` by every process correct in g that owes it; of a
    sender that is no member (when it sends): by some correct member, if there is one, and, in a group without views, if there is
    one that owes it."""
    correct = {group: report.run.correct_in(group) for group in report.run.groups}
    for sender in report.run.all:
        for send in sender.sends:
            group = send.message[0]
            if not sender.is_correct_in(group):
                continue
            if report.run.is_member_at(sender, group, send.index):
                _reaches_all(report, send, correct[group])
            else:
                _reaches_some(report, send, correct[group])


def _reaches_all(report: Report, send: Event, correct: list[History]) -> None:
    for q in correct:
        if send.message in q.first:
            report.cases += 1
        elif report.owing.owes(q, send.message):
            report.cases += 1
            told = f"{q.name} is correct and owes {say(send.message)}, and never delivers it"
            report.violation(told, events=[send], processes=[send.process, q.name], messages=[send.message])


def _reaches_some(report: Report, send: Event, correct: list[History]) -> None:
    members = [q for q in correct if report.run.is_ever_member(q, send.message[0])]
    if send.message[0] not in report.run.viewed:
        members = [q for q in members if send.message in q.first or report.owing.owes(q, send.message)]
    if members:
        report.cases += 1
        if not any(send.message in q.first for q in members):
            told = f"no correct member delivers {say(send.message)}, whose sender is no member"
            report.violation(told, events=[send], processes=[send.process, *(q.name for q in members)], messages=[send.message])


def agreement(report: Report) -> None:
    """p, correct in g, delivers m in view U: every q correct in g that installed U delivers m, unless they part after U.

    It speaks of ``end``: q has until then. (In a run that stops while m is under way no process did anything wrong.) A group
    without views has no U; there every correct q that owes m delivers it."""
    for group in report.run.groups:
        _agree(report, group, [p for p in report.run.all if p.is_correct_in(group)])


def uniform(report: Report) -> None:
    """``agreement`` when p crashed as well (then only p's views decide on parting); and ``identical`` with crashed processes
    included.

    Its first half speaks of ``end`` as ``agreement`` does; its second half is checked in every run. "The same when p crashed" is
    read as in *uniform agreement*: what a correct p delivers is included."""
    for group in report.run.groups:
        if report.until_end:
            _agree(report, group, [p for p in report.run.all if p.is_correct_in(group) or p.crashed])
        compare_orders(report, report.run.all, group)


def _agree(report: Report, group: GroupId, deliverers: list[History]) -> None:
    correct = report.run.correct_in(group)
    blamed: set[tuple[str, Message]] = set()
    for p in deliverers:
        by_view: dict[object, list[Event]] = {}
        for message, delivery in p.first.items():
            if message[0] == group:
                by_view.setdefault(delivery.view, []).append(delivery)
        for deliveries in by_view.values():
            for q in correct:
                if q is not p:
                    _agrees(report, p, q, deliveries, blamed)


def _agrees(report: Report, p: History, q: History, deliveries: list[Event], blamed: set[tuple[str, Message]]) -> None:
    """What p delivered in one view, q delivers too; a message that q lacks is reported once for all p that delivered it."""
    view = deliveries[0].view
    if view is not None:
        if view not in q.installed or (drops(p, q, view) if p.crashed else parted(p, q, view)):
            return
    elif deliveries[0].message[0] in report.run.viewed:
        return
    for delivery in deliveries:
        message = delivery.message
        if message in q.first:
            report.cases += 1
        elif view is not None or report.owing.owes(q, message):
            report.cases += 1
            if (q.name, message) not in blamed:
                blamed.add((q.name, message))
                where = f"in {view}, which {q.name} installed too" if view else f"and {q.name} is a member"
                who = f"{p.name}, which crashes later," if p.crashed else p.name
                told = f"{who} delivers {say(message)} {where}; {q.name} is correct and never delivers it"
                events = [delivery.place, *([(q.name, q.installed[view])] if view else [])]
                report.violation(told, events=events, processes=[p.name, q.name], messages=[message])


def unanimity(report: Report) -> None:
    """What one correct member rejects (a ``reject`` row with a message) none delivers."""
    for p in report.run.all:
        for reject in p.rejects:
            group = reject.message[0]
            if not p.is_correct_in(group) or not report.run.is_member_at(p, group, reject.index):
                continue
            report.cases += 1
            for delivery in report.run.deliveries_of(reject.message):
                told = f"{p.name} rejects {say(reject.message)}, and {delivery.process} delivers it"
                report.violation(told, events=[reject, delivery], messages=[reject.message])
