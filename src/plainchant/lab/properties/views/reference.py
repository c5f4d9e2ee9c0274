"""Reference checks of view-order, view-atomicity, view-exclusion, convergence, sender-in-view, same-view, disjoint-views."""

from __future__ import annotations

from itertools import combinations, pairwise
from typing import TypeAlias

from ....core.model import GroupId
from ..facts import Event, History, Installed, Message, Place, View
from ..report import Report, said_view, say

_Segment: TypeAlias = tuple[History, Installed, Installed, dict[Message, Event]]  # what a process delivers between two views


def view_order(report: Report) -> None:
    """VC1: after each view that two processes both install, their views are equal one by one until one lacks the other or a
    history ends; two correct ones end equal; no process installs a view twice or a view without itself.

    Equal next views are common views again, so it is enough to look one step beyond each common view. "Two correct ones end
    equal" speaks of ``end``: there one installed a further view, with the other in it, that the other never installs."""
    for history in report.run.all:
        for group, installations in history.views.items():
            _own_views(report, history, group, installations)
    for p, q in combinations(report.run.all, 2):
        for group in sorted(p.views.keys() & q.views.keys()):
            _compare_next(report, p, q, group)


def _own_views(report: Report, history: History, group: GroupId, installations: list[Installed]) -> None:
    first: dict[View, Installed] = {}
    for installed in installations:
        report.cases += 1
        before = first.setdefault(installed.view, installed)
        if before is not installed:
            told, events = f"{history.name} installs {installed.view} of {group} twice", [before.index, installed.index]
            report.violation(told, events=[(history.name, index) for index in events], group=group)
        if history.name not in installed.view.members:
            told = f"{history.name} installs {installed.view} of {group}, in which it is not"
            report.violation(told, events=[(history.name, installed.index)], group=group)


def _compare_next(report: Report, p: History, q: History, group: GroupId) -> None:
    after_p, after_q = _next_views(p, group), _next_views(q, group)
    both_correct = p.is_correct_in(group) and q.is_correct_in(group)
    for view in after_p:
        if view not in after_q:
            continue
        next_p, next_q = after_p[view], after_q[view]
        parts = [nxt is not None and lacks.name not in nxt.view.members for nxt, lacks in ((next_p, q), (next_q, p))]
        if any(parts) or (next_p is None and next_q is None):
            continue
        common: list[Place] = [(p.name, p.installed[view]), (q.name, q.installed[view])]
        if next_p is not None and next_q is not None:
            report.cases += 1
            if next_p.view is not next_q.view:
                told = f"after {view} of {group}, {p.name} installs {next_p.view} and {q.name} installs {next_q.view}"
                report.violation(told, events=[*common, (p.name, next_p.index), (q.name, next_q.index)], group=group)
        elif both_correct and report.until_end:
            report.cases += 1
            ahead, behind, following = (p, q, next_p) if next_p is not None else (q, p, next_q)
            assert following is not None
            told = f"after {view} of {group}, {ahead.name} installs {following.view}, and {behind.name} ends without it"
            report.violation(told, events=[*common, (ahead.name, following.index)], group=group)


def _next_views(history: History, group: GroupId) -> dict[View, Installed | None]:
    """For each view, at its first installation, the one installed next in the same membership."""
    following: dict[View, Installed | None] = {}
    installations = history.views[group]
    for place, installed in enumerate(installations):
        after = installations[place + 1] if place + 1 < len(installations) else None
        following.setdefault(installed.view, after if after is not None and after.stay == installed.stay else None)
    return following


def view_atomicity(report: Report) -> None:
    """VC3: two processes that install the same two consecutive views deliver the same set of that group's messages
    between them. Crashed processes are included: they did install both."""
    for group in report.run.groups:
        between: dict[tuple[View, View], list[_Segment]] = {}
        for history in report.run.all:
            delivered = _by_view(history, group)
            for one, other in pairwise(history.views.get(group, [])):
                if one.stay == other.stay:
                    found = (history, one, other, delivered.get(one.index, {}))
                    between.setdefault((one.view, other.view), []).append(found)
        for segments in between.values():
            for segment in segments[1:]:
                report.cases += 1
                if segment[3].keys() != segments[0][3].keys():
                    _report_difference(report, segments[0], segment)


def _by_view(history: History, group: GroupId) -> dict[int, dict[Message, Event]]:
    """First deliveries of the group by the index of the ``view`` row that they follow."""
    starts = [installed.index for installed in history.views.get(group, [])]
    found: dict[int, dict[Message, Event]] = {}
    place = -1
    for message, delivery in history.first.items():
        if message[0] != group:
            continue
        while place + 1 < len(starts) and starts[place + 1] < delivery.index:
            place += 1
        if place >= 0:
            found.setdefault(starts[place], {})[message] = delivery
    return found


def _report_difference(report: Report, one: _Segment, other: _Segment) -> None:
    for (has, first, second, mine), (lacks, begin, end, theirs) in ((one, other), (other, one)):
        for message, delivery in mine.items():
            if message in theirs:
                continue
            elsewhere = lacks.first.get(message)
            told = f"{has.name} delivers {say(message)} between {first.view} and {second.view}; {lacks.name} installs both"
            told += " and delivers it elsewhere" if elsewhere else " and never delivers it"
            events = [delivery.place, (lacks.name, begin.index), (lacks.name, end.index)] + (
                [elsewhere.place] if elsewhere else []
            )
            report.violation(told, events=events, messages=[message])


def view_exclusion(report: Report) -> None:
    """VC2: a process that crashed, was cut or left is gone from the view of every process correct in g before ``end``.

    One that left and is a member again need not be gone."""
    for group in sorted(report.run.viewed):
        gone = [h for h in report.run.all if h.crashed or (group in h.left and not h.is_member_last(group))]
        for q in report.run.correct_in(group):
            installations = q.views.get(group, [])
            for p in gone:
                if not any(p.name in installed.view.members for installed in installations):
                    continue
                report.cases += 1
                last = installations[-1]
                if p.name in last.view.members:
                    how = "was cut off" if p.cut else "crashed" if p.crashed else "left"
                    told = f"{p.name} {how}, and {q.name} ends in {last.view} of {group}"
                    report.violation(told, events=[(p.name, p.last_index), (q.name, last.index)], group=group)


def convergence(report: Report) -> None:
    """In a drained, healed run all correct members of a group end in the same view.

    That the run was drained and healed belongs to the property: elsewhere there is nothing to check, even if asked. A member that
    joined and has no view is not in the same one."""
    if not (report.run.drained and report.run.healed):
        return
    for group in sorted(report.run.viewed):
        last: list[tuple[str, View | None, int]] = []  # of a member without a view, the index of its ``join``
        for member in report.run.correct_in(group):
            if group in member.views:
                last.append((member.name, member.views[group][-1].view, member.views[group][-1].index))
            elif group in member.stays:
                last.append((member.name, None, member.stays[group][-1].begin))
        for (p, one, at), (q, other, there) in pairwise(last):
            report.cases += 1
            if one is not other:
                told = f"{p} ends in {said_view(one)} of {group} and {q} in {said_view(other)}"
                report.violation(told, events=[(p, at), (q, there)], group=group)


def sender_in_view(report: Report) -> None:
    """The sender of a delivered message is a member of the view it is delivered in, unless it is no member at all: no
    view of the group ever names it and it never joins."""
    joining = report.run.histories
    for history in report.run.all:
        for (group, sender, _), delivery in history.first.items():
            if delivery.view is None:
                continue
            if sender in delivery.view.members:
                report.cases += 1
            elif sender in report.run.named[group] or (sender in joining and group in joining[sender].joined):
                report.cases += 1
                told = f"{history.name} delivers {say(delivery.message)} in {delivery.view}, in which {sender} is not"
                events = [(history.name, history.installed[delivery.view]), delivery.place]
                report.violation(told, events=events, messages=[delivery.message])


def same_view(report: Report) -> None:
    """Original virtual synchrony: a message is delivered in the view in force at its ``send``. Messages that are sent without a
    view are no cases."""
    for history in report.run.all:
        for message, delivery in history.first.items():
            send = report.run.sends.get(message)
            if send is None or send.view is None:
                continue
            report.cases += 1
            if delivery.view is not send.view:
                told = f"{say(message)} is sent in {send.view}; {history.name} delivers it in {said_view(delivery.view)}"
                report.violation(told, events=[send, delivery], messages=[message])


def disjoint_views(report: Report) -> None:
    """With signatures (``detail {"signatures": {"a": 3}}`` of ``view``): two different views of a group share no
    signature, that is, no pair of a process and its number."""
    users: dict[tuple[GroupId, str, str], tuple[View, Place]] = {}
    for history in report.run.all:
        for group, installations in history.views.items():
            for installed in installations:
                signatures = report.run.columns.detail(installed.row).get("signatures") or {}
                for process, number in sorted(signatures.items()):
                    report.cases += 1
                    place = (history.name, installed.index)
                    view, there = users.setdefault((group, process, str(number)), (installed.view, place))
                    if view is not installed.view:
                        told = f"{view} and {installed.view} of {group} share signature {number} of {process}"
                        report.violation(told, events=[there, place], group=group)
