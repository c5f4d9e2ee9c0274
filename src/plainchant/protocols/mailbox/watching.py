"""Receivers that miss a deadline: overdue decision flags, reports, and the agreed exclusion.

A message stays in its slot until every receiver has set its decision flag, in every copy. A receiver that is stopped, too slow,
or whose application does not read would keep every sender waiting. The paper leaves such failures to the process membership
service (2.2, 3.3.2); here the list of receivers in each copy is that service:

- **Overdue.** Several times in ``patience`` a receiver looks at the flags in every copy. A flag is overdue when this receiver has
  *watched* the message for ``patience`` longer than an intact receiver needs. Time is measured on the monotonic clock
  (``host.now``): a clock that was set accuses no process. A receiver that did not look for a quarter of ``patience`` was itself
  stopped, so it begins to watch anew: after the whole machine was suspended no receiver reports another. It is not enough to look
  at the first copy. A process that is stopped between two copies has set its flag in one and not in the other; with one slot no
  later message would ever show that it is overdue.
- **Report.** In the same atomic step the receiver sets its bit in ``Connection.reports`` of each overdue process, and takes the
  bit back when the flags have been set. It reports only what it has done itself. With the second protocol a receiver that voted
  may wait for the votes of others, so until there is a decision those that did not vote are overdue. With the first protocol,
  what a late sender writes into one copy when all have rejected it in another gets no flags there until it is withdrawn.
- **Exclusion.** The step that adds the last necessary report marks the process as gone and sets its votes and flags. With the
  first protocol one report suffices: processes only crash there, so a report is true, and any number of receivers may be
  stopped. With the second protocol most of the *other* receivers have to report it: a minority with timing failures cannot
  exclude an intact process, and cannot prevent an exclusion. Every receiver that sees the mark carries it to the other copies,
  so it survives a crash of the process that made it.
- **Fencing.** The excluded process keeps its place, and so its slots, until it has stopped: an operation that it had begun must
  not hit another process. It sees the mark when it looks again, before it uses anything that the look has shown, and halts. Then
  the others free its place. It may join again."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any, Final

from ...core.memory import FAILED, Connection, Copy, Entry, Request, Rest
from ...core.model import ProcessId, Reason, format_duration
from . import membership
from .box import Box, changed
from .sending import LONGEST_LEAD
from .times import LOOKS_IN_PATIENCE

ATTENTIVE: Final = LOOKS_IN_PATIENCE // 2  # a receiver is attentive as long as it looks at least this many times in ``patience``


class Watch:
    """What one receiver has watched in one copy since when, and the reports that follow from it."""

    def __init__(self, box: Box) -> None:
        self.box = box
        self.reported: dict[int, Connection] = {}  # processes that this receiver reports now, by place
        self._due: dict[tuple[int, int, bool], int] = {}  # when votes (True) or flags become overdue, on the monotonic clock
        self._looked = box.host.now

    def look(self, copy: Copy) -> list[tuple[int, Connection]]:
        """An atomic step: reports what is overdue, excludes processes with enough reports, and shows who is connected then."""
        own = copy.connection(self.box.place)
        if own is not None and own.process == self.box.host.me and not own.gone:
            overdue = self._overdue(copy, own.entry)
            there = list(copy.connections())
            self.reported = {place: each for place, each in there if overdue >> place & 1 and is_receiver(each)}
            everyone = sum(1 << place for place, each in there if is_receiver(each))
            for place, each in there:
                if is_receiver(each) and (each.reports or place in self.reported):
                    self._report(copy, place, each, everyone & ~(1 << place))
        return list(copy.connections())

    def _overdue(self, copy: Copy, entered: int) -> int:
        """Places with an overdue flag, as a mask; ``entered``: this receiver's entry timestamp."""
        now, mask = self.box.host.now, self.box.mask
        if self._was_stopped(now):
            self._due.clear()
        self._looked = now
        before, self._due = self._due, {}
        overdue = 0
        for _, entry in copy.entries():
            missing = self._missing(entry)
            if missing:
                key = (entry.stamp, entry.place, entry.decision is None)
                due = self._due[key] = before.get(key) or self._due_at(entry, now)
                if now > due and not missing & mask and self._is_concerned(entry, entered):
                    overdue |= missing
        return overdue

    def _missing(self, entry: Entry) -> int:
        """Receivers for which a message waits: as long as it has no decision those that have not voted, then those that have not
        set their flags. (A receiver that has voted waits for the others itself.)"""
        missing = entry.listed & ~entry.done
        return missing if self.box.times.first or entry.decision is not None else missing & ~entry.voted

    def _is_concerned(self, entry: Entry, entered: int) -> bool:
        """Whether this receiver decides on a message. (One sent before its entry has its predecessor's flag.)"""
        return bool(entry.listed & self.box.mask) and entered <= entry.stamp

    def _was_stopped(self, now: int) -> bool:
        """Whether this process has not looked for so long that it cannot judge others."""
        return now - self._looked > self.box.parameters.patience // ATTENTIVE

    def _due_at(self, entry: Entry, now: int) -> int:
        """When flags of a message that is seen for the first time become overdue. A late sender's timestamp may lie ahead, but no
        further than :data:`LONGEST_LEAD`, whatever this clock says."""
        ahead = min(max(0, entry.stamp - self.box.clock), LONGEST_LEAD)
        return now + ahead + self.box.times.flagged + self.box.parameters.patience

    def _report(self, copy: Copy, place: int, there: Connection, others: int) -> None:
        own = self.box.mask
        reports = there.reports | own if place in self.reported else there.reports & ~own
        if reports != there.reports:
            there = changed(there, reports=reports)
            copy.connect(place, there)
        if (reports & others).bit_count() >= self._enough(others):
            membership.mark_gone(self.box, copy, place, there, membership.exit_time(self.box))

    def _enough(self, others: int) -> int:
        """Number of reports that exclude a process; ``others``: all receivers but that one."""
        return 1 if self.box.times.first else others.bit_count() // 2 + 1


class Guard:
    """Watches all copies for one receiver; ``excluded`` is called when this process is excluded itself."""

    def __init__(self, box: Box, excluded: Callable[[Connection], None]) -> None:
        self.box = box
        self.looking = False  # whether an operation of its is under way
        self.stopped = False
        self._watches = [Watch(box) for _ in range(box.copies)]
        self._excluded = excluded
        self._reported: dict[ProcessId, None] = {}
        self._carried: dict[ProcessId, None] = {}  # excluded processes whose mark this receiver has carried to all copies

    def run(self) -> Generator[Request, Any, None]:
        """Looks at all copies, again and again, until it is stopped."""
        box = self.box
        while box.parameters.patience:
            yield Rest(box.times.watch)  # a clock that was set back must not keep this process from seeing that it is excluded
            self.looking = not self.stopped
            for copy, watch in enumerate(self._watches):
                if self.stopped:
                    break
                connections = yield box.look(copy, watch.look)
                if connections is not FAILED:
                    self.judge(connections)
                    yield from self._carry(connections)
            self.looking = False
            if self.stopped:
                return
            self._tell_reports()

    def judge(self, connections: list[tuple[int, Connection]]) -> bool:
        """Whether the others have excluded this process: then it has to use nothing of what a look has shown."""
        own = dict(connections).get(self.box.place)
        if own is None or own.process != self.box.host.me or not own.gone or self.stopped:
            return False
        self.stopped = True
        self._excluded(own)
        return True

    def _carry(self, connections: list[tuple[int, Connection]]) -> Generator[Request, Any, None]:
        """Carries exclusions to all copies."""
        box = self.box
        for place, connection in connections:
            name = connection.process
            if is_excluded(connection) and name not in self._carried and not self.stopped:
                self._carried[name] = None
                box.host.record("remove", box.group, process=name, **why_excluded(connection).to_detail())
                yield from membership.spread(box, place, name, connection.reports)

    def _tell_reports(self) -> None:
        """Records reports, and hands them to the process membership service: the process may have crashed."""
        box = self.box
        before, self._reported = self._reported, {}
        for name in [connection.process for watch in self._watches for connection in watch.reported.values()]:
            if name not in before and name not in self._reported:
                text = f"{name} has not set its decision flag for {format_duration(box.parameters.patience)}"
                reason = Reason("overdue", text)
                box.host.record("suspect", box.group, process=name, **reason.to_detail())
                box.host.report(name, reason)
            self._reported[name] = None


def is_receiver(connection: Connection) -> bool:
    """Whether a connection is that of a receiver that others wait for."""
    return bool(connection.entry) and not connection.gone


def is_excluded(connection: Connection) -> bool:
    """Whether a process was excluded by reports, and neither left nor crashed."""
    return connection.gone and bool(connection.reports)


def why_excluded(connection: Connection) -> Reason:
    """Why an excluded process is gone, for applications and the trace."""
    count = connection.reports.bit_count()
    receivers = "1 receiver" if count == 1 else f"{count} receivers"
    text = f"{connection.process} was excluded: {receivers} reported that it had not set its decision flags"
    return Reason("excluded", text, {"reports": count})
