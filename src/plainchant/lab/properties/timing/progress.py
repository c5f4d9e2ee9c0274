"""Reference check of progress: once faults are over, what processes hand in is delivered, what they ask for is answered, and no
process is halted without a cause.

``bounded`` looks at single sends and deliveries, and counts from when the protocol takes a message. A protocol that takes nothing
keeps every such bound. Here the clock starts with the application's call, the ``accept`` row.
"""

from __future__ import annotations

import dataclasses
from collections import deque
from collections.abc import Hashable, Iterator, Sequence
from typing import Final

from ....core.model import GroupId, ProcessId
from ..facts import Event, History, Message, Place, Run
from ..report import Report, say
from .disturbances import FOREVER, Stretch, disturbances_of, is_out_of_time, moment
from .halts import halts

ENTERING: Final = frozenset({"join", "form", "propose"})
LEAVING: Final = frozenset({"leave", "close"})


def progress(report: Report) -> None:
    """Every message is delivered within ``progress`` ns at every member of its sender's view, and every request is answered
    within ``answer`` ns: counted from the application's call, in time that nothing disturbs (``disturbances``).

    *Messages.* The clock of m, accepted from p in g, starts at a process q when m is accepted, when q delivers p's message before
    it, and when p and q come to be together in g, whichever is last. It stops when q delivers m, when p and q part, when one of
    them leaves or stops, and with the last row of each. It is a violation if a stretch of that time is longer than the bound, no
    disturbance falls into it, and neither p nor q is excused. (Being correct matters during that stretch only: a process that
    crashes or leaves later was correct before.)

    - *Together*: the last view that each has installed names the other. In a group without views: both are members. A sender
      that has no view of the group, or is no member, only sends: then q's membership counts.
    - *Which q owes it*: a message that was taken is owed by the members of the view in force at its ``send``; in a group without
      views, and where the sender has no view, as in ``owing``, or, if no process delivers it, by every member. A message that
      was never taken is owed by every q that is together with p before p leaves. Only the first one that q lacks counts: the
      others wait for it.
    - The k-th ``send`` is of the k-th ``accept`` with the same digest and size. Where no ``accept`` row tells, the ``send``
      starts the clock. Messages that were never taken are no cases where streams are not admitted (``reject`` without a
      message), nor of a process that neither was a member nor sent anything: its request to join is what waits.
    - A message with more bytes than ``size`` in ``bounds`` is no case, nor is one that is never delivered where one of the two
      histories ends within the bound: then nothing is known.

    *Requests.* A ``request`` row to ``join``, ``form`` or ``propose`` a group is answered by the process's next view of the
    group that names it, or its ``join``, or its ``refused`` row; one to ``leave`` or ``close`` it by ``leave``; any of them if
    the process stops. The clock of ``form`` starts when all members that it names have asked, that of ``join`` runs while
    another process is a member. The rules of disturbance are the same.

    *Halts.* A process that its protocol halts must have a reason to be halted: see ``halts``."""
    bounds = report.run.bounds
    within, answered = bounds.get("progress"), bounds.get("answer")
    if within is None and answered is None:
        return
    judge = Judge(report)
    halts(report, judge.placed, judge.disturbances, max(within or 0, answered or 0))
    if within is not None:
        for group in report.run.groups:
            judge.messages(group, within, bounds.get("size"))
    if answered is not None:
        for history in report.run.all:
            judge.requests(history, answered)


@dataclasses.dataclass(slots=True)
class _Handed:
    """What one process handed in, in one group: messages in the order in which they were taken, then those that never were."""

    sends: list[Event]
    accepted: dict[int, tuple[int, Place]]  # by number: when it was accepted, and the row that says so
    untaken: list[int]  # indices of the ``accept`` rows of messages that were never taken


class Judge:
    """Looks at one run, or at the skeleton that certificates keep of it (``progress_proof``)."""

    def __init__(self, report: Report) -> None:
        self._report = report
        self._run: Run = report.run
        self.disturbances = disturbances_of(report.run)
        self.placed = [history for history in self._run.all if not is_out_of_time(report.run, history)]
        self._delivered: dict[tuple[ProcessId, GroupId, ProcessId], list[Event]] = {}
        self._sends: dict[tuple[ProcessId, GroupId], list[Event]] = {}
        for history in self.placed:
            for (group, sender, _), event in history.first.items():
                self._delivered.setdefault((history.name, group, sender), []).append(event)
            for send in history.sends:
                self._sends.setdefault((history.name, send.message[0]), []).append(send)

    def at(self, row: int) -> int:
        """When a row was written."""
        return moment(self._run, row)

    def messages(self, group: GroupId, bound: int, size: int | None) -> None:
        receivers = [history for history in self.placed if self._run.is_ever_member(history, group)]
        for p in self.placed:
            handed = self._handed(p, group)
            if not handed.sends and not handed.untaken:
                continue
            for q in receivers:
                self._late(p, q, group, handed, bound, size)
                self._lacking(p, q, group, handed, bound, size)

    def _handed(self, p: History, group: GroupId) -> _Handed:
        columns = self._run.columns
        digests, sizes = columns.digest, columns.size
        sends = self._sends.get((p.name, group), [])
        indices = p.accepts.get(group, ())
        rows = [p.rows[index] for index in indices]
        accepts = [(index, (digests[row], sizes[row])) for index, row in zip(indices, rows, strict=True)]
        origins, untaken = matched(accepts, [(send.index, (digests[send.row], sizes[send.row])) for send in sends])
        accepted: dict[int, tuple[int, Place]] = {}
        for send, origin in zip(sends, origins, strict=True):
            index = send.index if origin is None else indices[origin]
            accepted[send.message[2]] = self.at(p.rows[index]), (p.name, index)
        counts = self.counts_untaken(p, group, bool(sends))
        return _Handed(sends, accepted, [indices[each] for each in untaken] if counts else [])

    @staticmethod
    def counts_untaken(p: History, group: GroupId, has_sent: bool) -> bool:
        """Whether messages that were never taken from a process are judged."""
        return group not in p.denied and (has_sent or group in p.stays)

    def _late(self, p: History, q: History, group: GroupId, handed: _Handed, bound: int, size: int | None) -> None:
        """Messages of p that q delivers."""
        before = -FOREVER
        for event in self._delivered.get((q.name, group, p.name), ()):
            at = self.at(event.row)
            known = handed.accepted.get(event.message[2])
            if known is not None and not self._is_too_large(event.row, size):
                self._report.cases += 1
                accepted, place = known
                since = max(accepted, before)
                if at - since > bound:
                    self.wait(p, q, group, (since, at), bound, event.message, place, event.place)
            before = at

    def _lacking(self, p: History, q: History, group: GroupId, handed: _Handed, bound: int, size: int | None) -> None:
        """Messages of p that q never delivers: those that are taken, and the first of those that are not."""
        times = {event.message[2]: self.at(event.row) for event in self._delivered.get((q.name, group, p.name), ())}
        if len(times) == len(handed.sends) and not handed.untaken:
            return
        behind = False
        latest = min(self.at(p.last_row), self.at(q.last_row)) - bound
        seen = (q.name, q.last_index)
        for send in handed.sends:
            number = send.message[2]
            if number in times:
                behind = False
                continue
            if behind:
                continue
            accepted, place = handed.accepted[number]
            since = max(accepted, times.get(number - 1, -FOREVER))
            until = self.owed_until(p, q, group, send)
            if until is None or self._is_too_large(send.row, size):
                continue
            behind = True  # later ones wait for it, however short its own time has been
            if since < latest:
                self._report.cases += 1
                self.wait(p, q, group, (since, until), bound, send.message, place, seen)
        if behind or not handed.untaken:
            return
        index = handed.untaken[0]
        leaves = [stay.end_row for stay in p.stays.get(group, ()) if stay.end is not None and stay.end > index]
        until = min((self.at(row) for row in leaves if row is not None), default=FOREVER)
        since = max(self.at(p.rows[index]), max(times.values(), default=-FOREVER))
        if since < latest and not self._is_too_large(p.rows[index], size) and self.together(p, q, group, since, until):
            self._report.cases += 1
            self.wait(p, q, group, (since, until), bound, None, (p.name, index), seen)

    def owed_until(self, p: History, q: History, group: GroupId, send: Event) -> int | None:
        """Up to when q may be asked for a message that it never delivers; None: it does not owe it."""
        if send.view is not None:
            if q.name not in send.view.members:
                return None
            parted = p.first_view_without(group, q.name, send.index)
            left = [stay.end for stay in p.stays.get(group, ()) if stay.end is not None and stay.end > send.index]
            ends = [index for index in (parted, *left) if index is not None]
            return min((self.at(p.rows[index]) for index in ends), default=FOREVER)
        if self._run.deliveries_of(send.message):
            return FOREVER if self._report.owing.owes(q, send.message) else None
        return FOREVER

    def wait(
        self, p: History, q: History, group: GroupId, span: Stretch, bound: int, message: Message | None, *seen: Place
    ) -> None:
        """Judges how long q waits for a message of p (None: one that was never taken)."""
        waited = self.waited(p, q, group, span, bound)
        if not waited:
            return
        is_delivered = message is not None and message in q.first
        what = say(message) if message is not None else f"a message that {p.name} accepted in {group} and never sent"
        does = "delivers" if is_delivered else "does not deliver"
        told = f"{q.name} {does} {what}{' late' if is_delivered else ''}: it waits {waited} ns while nothing disturbs the run"
        events, messages = list(dict.fromkeys(seen)), [message] if message is not None else []
        told = f"{told}; the bound is {bound} ns"
        self._report.violation(told, events=events, group=group, processes=[p.name, q.name], messages=messages)

    def waited(self, p: History, q: History, group: GroupId, span: Stretch, bound: int) -> int:
        """The longest time between two moments in which p and q are together and nothing disturbs or excuses them, if it is
        longer than the bound; else 0. A wider span never gives less."""
        names = (p.name, q.name)
        stretches = self.together(p, q, group, *span)
        return max((self.disturbances.longest_free(*stretch, bound, names) for stretch in stretches), default=0)

    def _is_too_large(self, row: int, most: int | None) -> bool:
        size = self._run.columns.size[row]
        return most is not None and size is not None and size > most

    def together(self, p: History, q: History, group: GroupId, since: int, until: int) -> list[Stretch]:
        """The stretches between two times in which p's view names q and q's names p; without views: both are members."""
        found = [*common(self._naming(q, group, p.name), [(since, until)])]
        return [*common(found, self._naming(p, group, q.name))] if p is not q else found

    def _naming(self, history: History, group: GroupId, other: ProcessId) -> list[Stretch]:
        """When the last view that a process has installed names another process, which may be no member and only send."""
        last = self.at(history.last_row)
        first = self.at(next(iter(history.rows.values())))
        if history.name != other and not self._run.is_ever_member(self._run.histories[other], group):
            return [*self._stays(history, group)]
        if not self._run.is_ever_member(history, group):
            return [(first, last)]
        if group not in self._run.viewed:
            return [*self._stays(history, group)]
        found: list[Stretch] = []
        views = history.views.get(group, [])
        for number, installed in enumerate(views):
            if other not in installed.view.members:
                continue
            begin = self.at(installed.row)
            ends = [self.at(views[number + 1].row)] if number + 1 < len(views) else [last]
            leaves = [stay.end for stay in history.stays[group] if stay.end is not None and stay.end > installed.index]
            end = min([*ends, *(self.at(history.rows[index]) for index in leaves)])
            if found and found[-1][1] == begin:
                found[-1] = (found[-1][0], end)
            else:
                found.append((begin, end))
        return found

    def _stays(self, history: History, group: GroupId) -> Iterator[Stretch]:
        last = self.at(history.last_row)
        if group not in history.stays:
            yield self.at(next(iter(history.rows.values()))), last
        for stay in history.stays.get(group, ()):
            yield self.at(stay.begin_row), last if stay.end_row is None else self.at(stay.end_row)

    def requests(self, history: History, bound: int) -> None:
        if history not in self.placed:
            return
        columns = self._run.columns
        for index in history.requests:
            row = history.rows[index]
            what, group = columns.detail(row).get("request"), columns["group"][row]
            since = self._asked(what, history, index, group)
            if since is None:
                continue
            answer = self._answer(what, history, index, group)
            until = self.at(history.rows[answer if answer is not None else history.last_index])
            self._report.cases += 1
            stretches = [(since, until)]
            if what == "join":
                stretches = [*common(stretches, self._peopled(group, history))]
            names = (history.name,)
            waited = max((self.disturbances.longest_free(*stretch, bound, names) for stretch in stretches), default=0)
            if waited:
                seen = (history.name, answer if answer is not None else history.last_index)
                told = f"{history.name} asks to {what} {group} and waits {waited} ns for an answer while nothing disturbs the run"
                events = list(dict.fromkeys([(history.name, index), seen]))
                self._report.violation(f"{told}; the bound is {bound} ns", events=events, group=group)

    def _asked(self, what: object, history: History, index: int, group: GroupId) -> int | None:
        """When the clock of a request starts; None: it is not judged."""
        own = self.at(history.rows[index])
        if what not in ENTERING | LEAVING:
            return None
        if what != "form":
            return own
        columns = self._run.columns
        members = columns.detail(history.rows[index]).get("members")
        asked = [own]
        for other in {*members} - {history.name} if isinstance(members, list) else ():
            known = self._run.histories.get(other)
            rows = [known.rows[index] for index in known.requests] if known is not None else []
            forming = (row for row in rows if columns["group"][row] == group and columns.detail(row).get("request") == "form")
            first = next(forming, None)
            if first is None:
                return None
            asked.append(self.at(first))
        return max(asked)

    def _answer(self, what: object, history: History, index: int, group: GroupId) -> int | None:
        """Index of the row that answers a request."""
        answers = [at for at in history.refusals.get(group, ()) if at > index]
        if what in ENTERING:
            views = history.views.get(group, ())
            answers += [each.index for each in views if each.index > index and history.name in each.view.members]
            answers += [stay.begin for stay in history.stays.get(group, ()) if stay.begin > index]
        else:
            answers += [stay.end for stay in history.stays.get(group, ()) if stay.end is not None and stay.end > index]
            answers += [at for at in (history.left.get(group),) if at is not None and at > index]
        return min(answers, default=None)

    def _peopled(self, group: GroupId, asking: History) -> list[Stretch]:
        """When a process other than the one that asks is a member of a group."""
        found: list[Stretch] = []
        others = [other for other in self.placed if other is not asking and group in other.stays]
        for begin, end in sorted(stay for other in others for stay in self._stays(other, group)):
            if found and begin <= found[-1][1]:
                found[-1] = (found[-1][0], max(found[-1][1], end))
            else:
                found.append((begin, end))
        return found


def matched(accepts: Sequence[tuple[int, Hashable]], sends: Sequence[tuple[int, Hashable]]) -> tuple[list[int | None], list[int]]:
    """Which ``accept`` row each ``send`` is of, by its place in ``accepts`` (None: no row tells), and the places of those that
    were never taken. Both are given by index and content, in order.

    >>> matched([(1, "x"), (2, "y"), (3, "x")], [(4, "y"), (5, "z"), (6, "x")])
    ([1, None, 0], [2])
    """
    waiting: dict[Hashable, deque[int]] = {}
    for place, (_, content) in enumerate(accepts):
        waiting.setdefault(content, deque()).append(place)
    origins: list[int | None] = []
    for index, content in sends:
        same = waiting.get(content)
        # What is accepted later is another message with the same content.
        origins.append(same.popleft() if same and accepts[same[0]][0] < index else None)
    return origins, sorted(place for same in waiting.values() for place in same)


def common(ones: Sequence[Stretch], others: Sequence[Stretch]) -> Iterator[Stretch]:
    """What two lists of stretches have in common."""
    for one in ones:
        for other in others:
            begin, end = max(one[0], other[0]), min(one[1], other[1])
            if begin < end:
                yield begin, end
