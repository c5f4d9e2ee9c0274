"""Reference checks of deadline and bounded."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Final

from ....core.model import GroupId
from ..facts import Event, History, Message, Place, Run, between
from ..report import Report, say
from .disturbances import moment
from .progress import matched


def deadline(report: Report) -> None:
    """At every destination whose history does not end before the deadline, and if the sender did not crash, the message is
    delivered by then.

    Destinations are the processes that deliver the message, and those that owe it when the deadline comes. A ``deliver`` row with
    a deadline is judged on its own clock. Otherwise the deadline of the ``send`` row is carried over to the other process by the
    global clock, or, where there is none, taken as it is, as if clocks were synchronised."""
    in_time(report, sorted(report.run.sends))


def in_time(report: Report, messages: Iterable[Message]) -> None:
    """``deadline`` for some messages that were sent."""
    for message in messages:
        sender = report.run.histories[message[1]]
        if sender.crashed:
            continue
        for q in report.run.all:
            delivery = q.first.get(message)
            if delivery is not None:
                _in_time(report, q, delivery)
            else:
                _may_still_come(report, q, message)


def _in_time(report: Report, q: History, delivery: Event) -> None:
    columns = report.run.columns
    own = columns.deadline[delivery.row]
    carried = _due_at(report, delivery.message, delivery.row) if own is None else (own, columns.time)
    if carried is None:
        return
    report.cases += 1
    due, clock = carried
    at = clock[delivery.row]
    if at is not None and at > due:
        told = f"{q.name} delivers {say(delivery.message)} {at - due} ns after its deadline"
        report.violation(told, events=[report.run.sends[delivery.message], delivery], messages=[delivery.message])


def _may_still_come(report: Report, q: History, message: Message) -> None:
    carried = _due_at(report, message, q.last_row)
    if carried is None:
        return
    due, clock = carried
    ends = clock[q.last_row]
    if ends is None or ends < due:
        return
    by_then = [index for index, row in q.rows.items() if (at := clock[row]) is not None and at <= due]
    if by_then and report.owing.owes(q, message, by_then[-1]):
        report.cases += 1
        told = f"the deadline of {say(message)} passes and {q.name}, which owes it, does not deliver it"
        report.violation(told, events=[report.run.sends[message], (q.name, q.last_index)], messages=[message])


def _due_at(report: Report, message: Message, row: int) -> tuple[int, list[int] | list[int | None]] | None:
    """The deadline in the ``send`` row, and the clock on which a row of another process is compared with it."""
    columns = report.run.columns
    send = report.run.sends[message]
    due = columns.deadline[send.row]
    if due is None:
        return None
    start = columns.true_time[send.row]
    if start is None or columns.true_time[row] is None:
        return due, columns.time
    return start + due - columns.time[send.row], columns.true_time


NAMED: Final = frozenset(
    {"send", "deliver", "delivery", "rotation", "detection", "clock", "size", "progress", "answer", "accepted"}
)
"""Names of bounds that say what they bound, or for which runs the others hold."""


@dataclasses.dataclass(frozen=True, slots=True)
class Bounds:
    """The bounds that a run states, in ns; None: not stated."""

    send: int | None
    deliver: int | None
    rotation: int | None
    detection: int | None
    size: int | None  # sends and deliveries of messages with more bytes are not bounded
    accepted: int | None  # from the application's call to each delivery


def bounds_stated(bounds: Mapping[str, int]) -> Bounds:
    """The bounds that can be examined, of those that the ``start`` rows of a run state."""
    single = next(iter(bounds.values())) if len(bounds) == 1 and not bounds.keys() & NAMED else None
    deliver = bounds.get("deliver", bounds.get("delivery", single))
    return Bounds(bounds.get("send", single), deliver, *map(bounds.get, ("rotation", "detection", "size", "accepted")))


def bounded(report: Report) -> None:
    """No send (``took_ns`` in its ``detail``, or in that of its ``sent`` row), no delivery (``true_time - sent``), no rotation of
    the token and no detection of a crash takes longer than the run's stated bound.

    ``bounds`` in ``start`` rows names it ``send``, ``deliver`` (or ``delivery``), ``accepted``, ``rotation`` and ``detection``; a
    run that states a single bound of none of these names, nor of ``clock``, means sends and deliveries.

    ``accepted`` is for the time from the ``accept`` row of a message, the application's call, to each delivery of it; messages
    without such a row are no cases. Rows belong together as in ``progress``.

    Sends of a process with a timing fault are no cases, nor are deliveries by it or of its messages: bounds hold for processes
    that keep time themselves. ``size`` in ``bounds`` (bytes) leaves out sends and deliveries of larger messages.

    A *rotation* is from a ``token`` row of a process in a group to the next, unless it installs a view of that group, or
    leaves it, between them; by the global clock, or by its own where one of the two rows lacks that. *Detection* is
    :func:`detections`."""
    bounds = bounds_stated(report.run.bounds)
    durations(report, bounds)
    for history in report.run.all:
        if bounds.accepted is not None and history.name not in report.run.untimely:
            _since_accepted(report, history, bounds.accepted, bounds.size)
        if bounds.rotation is not None:
            for group, turns in history.turns.items():
                rotations(report, history, group, turns, bounds.rotation)
    detected(report, bounds)


def durations(report: Report, bounds: Bounds) -> None:
    """``bounded`` for the sends and deliveries of a run that tell their durations."""
    untimely = report.run.untimely
    for history in report.run.all:
        if bounds.send is not None and history.name not in untimely:
            for send in (*history.sends, *history.completed):
                if _is_too_large(report, report.run.sends.get(send.message), bounds.size):
                    continue
                _within(report, send, report.run.columns.detail(send.row).get("took_ns"), bounds.send, "sends")
        if bounds.deliver is not None and history.name not in untimely:
            for delivery in history.first.values():
                if delivery.message[1] in untimely or _is_too_large(report, delivery, bounds.size):
                    continue
                ended, began = report.run.columns.true_time[delivery.row], report.run.columns.sent[delivery.row]
                took = None if ended is None or began is None else ended - began
                _within(report, delivery, took, bounds.deliver, "delivers")


def detected(report: Report, bounds: Bounds) -> None:
    """``bounded`` for the detection of crashes."""
    if bounds.detection is not None:
        for detection in detections(report.run, bounds.detection):
            report.cases += 1
            if detection.is_late:
                report.violation(detection.sentence, events=detection.events, group=detection.group)


def _is_too_large(report: Report, event: Event | None, most: int | None) -> bool:
    size = report.run.columns.size[event.row] if event is not None else None
    return most is not None and size is not None and size > most


def _within(report: Report, event: Event, took: int | None, bound: int, does: str) -> None:
    if took is None:
        return
    report.cases += 1
    if took > bound:
        told = f"{event.process} {does} {say(event.message)} in {took} ns; the bound is {bound} ns"
        report.violation(told, events=[event], messages=[event.message])


def _since_accepted(report: Report, sender: History, bound: int, size: int | None) -> None:
    """Every delivery of a process's messages at processes without a timing fault, counted from the application's call."""
    run, columns = report.run, report.run.columns
    for group, indices in sender.accepts.items():
        sends = [send for send in sender.sends if send.message[0] == group]
        contents = [(index, (columns.digest[row], columns.size[row])) for index in indices for row in (sender.rows[index],)]
        origins, _ = matched(contents, [(send.index, (columns.digest[send.row], columns.size[send.row])) for send in sends])
        for send, origin in zip(sends, origins, strict=True):
            if origin is None:
                continue
            began = moment(run, sender.rows[indices[origin]])
            for delivery in run.deliveries_of(send.message):
                if delivery.process in run.untimely or _is_too_large(report, delivery, size):
                    continue
                report.cases += 1
                took = moment(run, delivery.row) - began
                if took > bound:
                    told = f"{delivery.process} delivers {say(send.message)} {took} ns after it was accepted"
                    events = [(sender.name, indices[origin]), delivery.place]
                    report.violation(f"{told}; the bound is {bound} ns", events=events, messages=[send.message])


def rotations(report: Report, history: History, group: GroupId, turns: Sequence[int], bound: int) -> None:
    """``bounded`` for ``token`` rows of a process in a group that follow each other."""
    columns = report.run.columns
    for one, other in pairwise(turns):
        if history.is_broken(group, one, other):
            continue
        moments = ((columns.true_time[row], columns.time[row]) for row in (history.rows[one], history.rows[other]))
        took = between(*moments)
        report.cases += 1
        if took > bound:
            told = f"the token of {group} takes {took} ns to come back to {history.name}; the bound is {bound} ns"
            report.violation(told, events=[(history.name, one), (history.name, other)], group=group)


@dataclasses.dataclass(frozen=True, slots=True)
class Detection:
    """A process crashed, and another that had it in its view installed one without it, or had the time to."""

    group: GroupId
    events: tuple[Place, Place]  # the crash, and the view without it, or the last row of the process that has none
    is_late: bool
    sentence: str


def detections(run: Run, bound: int) -> Iterator[Detection]:
    """How long each process correct in g has a crashed one in its view: from the ``crash`` row on, or, if it installs a view
    that names the crashed one after that, from there on, until the first view without it.

    Only the global clock counts. A process that never installs such a view is late if its history goes on for longer than the
    bound; else nothing is known. A process that left g before it crashed need not be detected in g."""
    true_time = run.columns.true_time
    for crashed in run.all:
        if not crashed.crashed or crashed.cut:
            continue
        since = true_time[crashed.last_row]
        if since is None:
            continue
        for group in run.groups:
            if group in crashed.left and not crashed.is_member_last(group):
                continue
            for q in run.correct_in(group):
                found = _detection(run, crashed, since, group, q, bound)
                if found is not None:
                    yield found


def _detection(run: Run, crashed: History, since: int, group: GroupId, q: History, bound: int) -> Detection | None:
    begins: int | None = None
    for installed in q.views.get(group, ()):
        at = run.columns.true_time[installed.row]
        if at is None:
            return None
        if crashed.name in installed.view.members:
            begins = max(since, at) if begins is None else begins
        elif begins is not None and at > since:
            said = f"{q.name} has {crashed.name}, which crashed, in its view of {group} for {at - begins} ns"
            events = (crashed.name, crashed.last_index), (q.name, installed.index)
            return Detection(group, events, at - begins > bound, f"{said}; the bound is {bound} ns")
        else:
            begins = None
    ends = run.columns.true_time[q.last_row]
    if begins is None or ends is None or ends - begins <= bound:
        return None
    said = f"{q.name} has {crashed.name}, which crashed, in its view of {group} for {ends - begins} ns and to its end"
    events = (crashed.name, crashed.last_index), (q.name, q.last_index)
    return Detection(group, events, True, f"{said}; the bound is {bound} ns")
