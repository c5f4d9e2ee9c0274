"""Halts: the part of ``progress`` that asks why a protocol stopped a process.

Messages and requests end with a process that its protocol halts, so a protocol that halts everybody would keep every bound. A
``crash`` row by the protocol (``"by": "protocol"``) at a member of a group is a violation, unless one of these happened within
the longer of the two stated times before it:

- a fault of the process itself, or a fault whose kind is not in ``despite``; a partition, a cut or a slow link (``clog``) in any
  case. Crashes, and what processes are asked to do, are no such faults; but a crash in the middle of a broadcast, which some
  members did not get, is a loss of packets.
- half of the members of one of its groups, or more, crashed, left or had a fault of their own. The members are those of the view
  that the process had when that time began, or of its first view; in a group without views, all that were members since then.
- the process that acts for it, if there is one (``acting`` in ``start`` rows), had a fault of its own, or stopped.
- it joined a group within that time, and another member of the group stopped, left or had a fault of its own: a joiner depends on
  the member that lets it in and gives it the state.
- its application did not read (``"unread": true`` in the ``crash`` row, which the host writes).

An exception in the protocol is a violation whatever happened before it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

from ....core.model import GroupId, ProcessId
from ..facts import History, Run, acting_of
from ..growth import Condition, RunState
from ..report import Report
from .disturbances import FOREVER, Disturbances, Stretch, moment

EXCEPTION: Final = "exception"  # the reason code of a halt by an exception


def halts(report: Report, placed: Sequence[History], disturbances: Disturbances, span: int) -> None:
    """Judges every halt of these processes by what happened within ``span`` ns before it."""
    run = report.run
    for history in placed:
        row = history.last_row
        detail = run.columns.detail(row)
        groups = [group for group in history.stays if history.is_member_last(group)]
        if run.columns["kind"][row] != "crash" or not _is_case(detail, groups):
            continue
        report.cases += 1
        until = moment(run, row)
        members = {group: _members_before(run, history, group, until - span) for group in groups}
        new = {name for group in groups if _is_new(run, history, group, until - span) for name in members[group]}
        gone = {other.name for other in run.all if other is not history and _is_gone(run, other, until - span, until)}
        relied = {history.name, run.acting.get(history.name, history.name)}
        if new & (gone | disturbances.faulty(until - span, until)) and detail.get("reason") != EXCEPTION:
            continue
        if is_without_cause(relied, detail, members, gone, disturbances, (until - span, until)):
            told = said_halt(history.name, detail, span)
            report.violation(told, events=[(history.name, history.last_index)], group=groups[0] if groups else None)


def _is_case(detail: Mapping[str, Any], groups: Collection[GroupId]) -> bool:
    return detail.get("by") == "protocol" and (bool(groups) or detail.get("reason") == EXCEPTION)


def _members_before(run: Run, history: History, group: GroupId, time: int) -> frozenset[ProcessId]:
    """The members of the view that a process had at a time, or of its first; without views: all that were members since."""
    views = history.views.get(group)
    if views:
        earlier = [installed for installed in views if moment(run, installed.row) <= time]
        return (earlier[-1] if earlier else views[0]).view.members
    stays = ((other.name, stay) for other in run.all for stay in other.stays.get(group, ()))
    return frozenset(name for name, stay in stays if stay.end_row is None or moment(run, stay.end_row) > time)


def _is_new(run: Run, history: History, group: GroupId, since: int) -> bool:
    """Whether a process became a member of a group after a time because it had asked to join: founders depend on nobody."""
    rows = (history.rows[index] for index in history.requests)
    joined = any(run.columns["group"][row] == group and run.columns.detail(row).get("request") == "join" for row in rows)
    return joined and moment(run, history.stays[group][-1].begin_row) > since


def _is_gone(run: Run, other: History, begin: int, end: int) -> bool:
    """Whether a process has stopped before the end of a span, or left a group within it."""
    ends = [stay.end_row for stays in other.stays.values() for stay in stays if stay.end_row is not None]
    return (other.crashed and moment(run, other.last_row) <= end) or any(begin <= moment(run, row) <= end for row in ends)


def is_without_cause(
    relied: Collection[ProcessId],
    detail: Mapping[str, Any],
    members: Mapping[GroupId, Collection[ProcessId]],
    gone: Collection[ProcessId],
    disturbances: Disturbances,
    span: Stretch,
) -> bool:
    """Whether nothing in a span explains why a process was halted; ``detail`` is that of its ``crash`` row. ``relied``: the
    process, and the one that acts for it; ``members``: of its groups when the span began; ``gone``: the other processes that have
    stopped, or left a group within the span."""
    if detail.get("reason") == EXCEPTION:
        return True
    if detail.get("unread") is True or not set(gone).isdisjoint(relied):
        return False
    if any(disturbances.could_halt(name, *span) for name in relied):
        return False
    ill = disturbances.faulty(*span).union(gone)
    return all(2 * len(set(names) - ill) > len(names) for names in members.values())


def said_halt(process: ProcessId, detail: Mapping[str, Any], span: int) -> str:
    """The sentence for a halt without a cause."""
    reason = detail.get("text") or detail.get("reason") or "without a reason"
    if detail.get("reason") == EXCEPTION:
        return f"{process} is halted by an exception in its protocol: {reason}"
    return f"{process} is halted by its protocol ({reason}), and nothing in the {span} ns before it explains that"


@dataclasses.dataclass(frozen=True, slots=True)
class Halt:
    """A halt in a trace that is still growing."""

    process: ProcessId
    index: int
    at: int
    detail: dict[str, Any]
    members: Mapping[GroupId, Sequence[tuple[int, frozenset[ProcessId]]]]  # views of its groups, by time; none: no views


class GrowingHalts:
    """Halts in a trace that is still growing.

    A halt is judged when every history is known up to it: until then, a row may still come that explains it. A process that
    writes nothing any more leaves the halt to the end of the run, because it may have been killed."""

    def __init__(self) -> None:
        self._waiting: list[Halt] = []
        self._stops: dict[ProcessId, int] = {}
        self._acting: dict[ProcessId, ProcessId] = {}
        self._leaves: list[tuple[int, ProcessId]] = []
        self._stays: dict[tuple[ProcessId, GroupId], int | None] = {}  # when the last membership ended; None: it has not
        self._begins: dict[tuple[ProcessId, GroupId], int] = {}  # when it began, of processes that asked to join
        self._joining: set[tuple[ProcessId, GroupId]] = set()

    def stopped(
        self, run: RunState, process: ProcessId, at: int, index: int, detail: dict[str, Any], views: Mapping[GroupId, Any]
    ) -> None:
        """A ``crash`` row; ``views``: what the process installed, by group and time."""
        self._stops[process] = at
        groups = [group for group, is_member in run.histories[process].member.items() if is_member]
        if _is_case(detail, groups):
            members = {group: list(views.get(group, ())) for group in groups}
            self._waiting.append(Halt(process, index, at, detail, members))

    def entered(self, process: ProcessId, group: GroupId, at: int) -> None:
        self._stays[process, group] = None
        if (process, group) in self._joining:
            self._begins[process, group] = at

    def requested(self, process: ProcessId, group: GroupId, detail: dict[str, Any]) -> None:
        """A ``request`` row."""
        if detail.get("request") == "join":
            self._joining.add((process, group))

    def left(self, process: ProcessId, group: GroupId, at: int) -> None:
        self._leaves.append((at, process))
        self._stays[process, group] = at

    def ready(self, run: RunState, now: Mapping[ProcessId, int], *, over: bool) -> list[Halt]:
        """Takes the halts that nothing still unread can explain. ``now``: up to when each history is known."""
        reached = min(
            (now[history.name] for history in run.histories.values() if not history.final and not over), default=FOREVER
        )
        ready = [halt for halt in self._waiting if halt.at < reached]
        self._waiting = [halt for halt in self._waiting if halt.at >= reached]
        return ready

    def stated(self, detail: dict[str, Any]) -> None:
        """A ``start`` row."""
        self._acting |= acting_of(detail)

    def judge(self, run: RunState, halt: Halt, span: int, disturbances: Disturbances, now: Mapping[ProcessId, int]) -> None:
        run.book.case("progress")
        begin = halt.at - span
        gone = {name for name, at in self._stops.items() if at <= halt.at and name != halt.process}
        gone |= {history.name for history in run.histories.values() if history.is_cut and now[history.name] <= halt.at}
        gone |= {name for at, name in self._leaves if begin <= at <= halt.at and name != halt.process}
        members = {group: _at(views, begin) or self._members(group, begin) for group, views in halt.members.items()}
        new = {
            name for group, names in members.items() if self._begins.get((halt.process, group), begin) > begin for name in names
        }
        if new & (gone | disturbances.faulty(begin, halt.at)) and halt.detail.get("reason") != EXCEPTION:
            return
        relied = {halt.process, self._acting.get(halt.process, halt.process)}
        if is_without_cause(relied, halt.detail, members, gone, disturbances, (begin, halt.at)):
            group, time = next(iter(halt.members), None), run.histories[halt.process].time
            told = said_halt(halt.process, halt.detail, span)
            events, unless = [(halt.process, halt.index)], [Condition("clock", halt.process)]
            run.book.violation("progress", told, time, events, group=group, unless=unless)

    def _members(self, group: GroupId, since: int) -> frozenset[ProcessId]:
        """The members of a group without views since a time."""
        stays = ((name, end) for (name, of), end in self._stays.items() if of == group)
        return frozenset(name for name, end in stays if end is None or end > since)


def _at(views: Sequence[tuple[int, frozenset[ProcessId]]], time: int) -> frozenset[ProcessId]:
    """The members of the view that was in force at a time, or of the first."""
    earlier = [members for at, members in views if at <= time and members]
    return earlier[-1] if earlier else next((members for _, members in views if members), frozenset())
