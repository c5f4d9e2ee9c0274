"""Times: deadline and bounded."""

from __future__ import annotations

from .facts import Event, History, Message, Run
from .report import Report, say


def deadline(report: Report) -> None:
    """At every destination whose history does not end before the deadline, and if the sender did not crash, the
    message is delivered by then.

    Destinations are the processes that deliver the message, and those that owe it when the deadline comes. A
    ``deliver`` row with a deadline is judged on its own clock. Otherwise the deadline of the ``send`` row is carried
    over to the other process by the global clock, or, where there is none, taken as it is, as if clocks were
    synchronised."""
    for message in sorted(report.run.sends):
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
    due = own if own is not None else _due_at(report, delivery.message, delivery.row)
    if due is None:
        return
    report.cases += 1
    clock = columns.time if own is not None else _clock(report, delivery.message, delivery.row)
    at = clock[delivery.row]
    if at is not None and at > due:
        report.violation(
            f"{q.name} delivers {say(delivery.message)} {at - due} ns after its deadline",
            events=[report.run.sends[delivery.message], delivery],
            messages=[delivery.message],
        )


def _may_still_come(report: Report, q: History, message: Message) -> None:
    last = q.last_row
    due = _due_at(report, message, last)
    if due is None:
        return
    clock = _clock(report, message, last)
    ends = clock[last]
    if ends is None or ends < due:
        return
    by_then = [index for index, row in q.rows.items() if (at := clock[row]) is not None and at <= due]
    if by_then and report.owing.owes(q, message, by_then[-1]):
        report.cases += 1
        report.violation(
            f"the deadline of {say(message)} passes and {q.name}, which owes it, does not deliver it",
            events=[report.run.sends[message], (q.name, q.last_index)],
            messages=[message],
        )


def _clock(report: Report, message: Message, row: int) -> list[int] | list[int | None]:
    """The clock on which a row of another process can be held against the ``send``'s deadline."""
    columns = report.run.columns
    send = report.run.sends[message]
    if columns.true_time[send.row] is None or columns.true_time[row] is None:
        return columns.time
    return columns.true_time


def _due_at(report: Report, message: Message, row: int) -> int | None:
    """The deadline in the ``send`` row, on the clock that :func:`_clock` chooses."""
    columns = report.run.columns
    send = report.run.sends[message]
    due = columns.deadline[send.row]
    if due is None:
        return None
    start = columns.true_time[send.row]
    if start is None or columns.true_time[row] is None:
        return due
    return start + due - columns.time[send.row]


def bounded(report: Report) -> None:
    """No send (``took_ns`` in its ``detail``) and no delivery (``true_time - sent``) takes longer than the run's
    stated bound.

    ``bounds`` in ``start`` rows names it ``send`` and ``deliver`` (or ``delivery``); a run that states a single bound
    of another name means both."""
    send_bound, deliver_bound = bounds_of(report.run)
    for history in report.run.all:
        if send_bound is not None:
            for send in history.sends:
                _within(report, send, report.run.columns.detail(send.row).get("took_ns"), send_bound, "sends")
        if deliver_bound is not None:
            for delivery in history.first.values():
                ended, began = report.run.columns.true_time[delivery.row], report.run.columns.sent[delivery.row]
                took = None if ended is None or began is None else ended - began
                _within(report, delivery, took, deliver_bound, "delivers")


def bounds_of(run: Run) -> tuple[int | None, int | None]:
    """The bounds of a send and of a delivery that a run states."""
    bounds = run.bounds
    named = bounds.keys() & {"send", "deliver", "delivery"}
    single = next(iter(bounds.values())) if len(bounds) == 1 and not named else None
    return bounds.get("send", single), bounds.get("deliver", bounds.get("delivery", single))


def _within(report: Report, event: Event, took: int | None, bound: int, does: str) -> None:
    if took is None:
        return
    report.cases += 1
    if took > bound:
        report.violation(
            f"{event.process} {does} {say(event.message)} in {took} ns; the bound is {bound} ns",
            events=[event],
            messages=[event.message],
        )
