"""Checks on a growing trace: view-order, view-atomicity, sender-in-view, same-view, disjoint-views."""

from __future__ import annotations

from itertools import islice
from typing import Any, Final, TypeAlias

from ....trace.fact import Fact
from ..facts import Message, detail_of
from ..growth import Delivery, History, Installed, Intervals, Letter, RunState, ViewId
from ..report import say

MOST_STEPS: Final = 20_000  # steps from a view to the next, and signatures, that are remembered
MOST_STRANGERS: Final = 100  # deliveries that are remembered of a sender that no known view names

Segment: TypeAlias = dict[str, Intervals]  # what a process delivered between two views: numbers by sender
_Kept: TypeAlias = tuple[str, Installed, Segment]


class ViewOrder:
    """Members that stay together install the same views in the same order."""

    def __init__(self) -> None:
        self._next: dict[ViewId, dict[str, tuple[int, Installed]]] = {}  # after each view: its index and the next, by process

    def installed(self, run: RunState, history: History, new: Installed, before: Installed | None) -> None:
        view = run.views[new.view]
        run.book.case("view-order")
        if new.view in history.installed:
            sentence = f"{history.name} installs {view} of {view.group} twice"
            events = [(history.name, history.installed[new.view]), (history.name, new.index)]
            run.book.violation("view-order", sentence, new.time, events, group=view.group)
        if history.name not in view.members:
            sentence = f"{history.name} installs {view} of {view.group}, in which it is not"
            run.book.violation("view-order", sentence, new.time, [(history.name, new.index)], group=view.group)
        if before is not None and history.installed[before.view] == before.index:
            self._compare(run, history, before, new)

    def _compare(self, run: RunState, history: History, before: Installed, new: Installed) -> None:
        following = self._next.setdefault(before.view, {})
        mine, common = run.views[new.view], run.views[before.view]
        for other, (at, theirs) in following.items():
            their_view = run.views[theirs.view]
            if other not in mine.members or history.name not in their_view.members:
                continue
            run.book.case("view-order")
            if theirs.view != new.view:
                sentence = f"after {common} of {common.group}, {other} installs {their_view} and {history.name} installs {mine}"
                events = [(other, at), (history.name, before.index), (other, theirs.index), (history.name, new.index)]
                time = max(new.time, theirs.time)
                run.book.violation("view-order", sentence, time, events, group=common.group)
        following[history.name] = (before.index, new)
        _forget(self._next, run)


class ViewAtomicity:
    """Members that install the same two consecutive views deliver the same messages between them."""

    def __init__(self) -> None:
        self._since: dict[tuple[str, str], Segment] = {}  # what each process has delivered in each group since its last view
        self._steps: dict[tuple[ViewId, ViewId], _Kept] = {}  # the segment of the first process that had both views

    def delivered(self, history: History, message: Message) -> None:
        segment = self._since.get((history.name, message[0]))
        if segment is not None:
            segment.setdefault(message[1], Intervals()).add(message[2])

    def installed(self, run: RunState, history: History, new: Installed, before: Installed | None) -> None:
        key = (history.name, run.views[new.view].group)
        segment = self._since.pop(key, {})
        self._since[key] = {}
        if before is None:
            return
        step = (before.view, new.view)
        known = self._steps.setdefault(step, (history.name, new, segment))
        if known[1] is not new:
            run.book.case("view-atomicity")
            self._compare(run, step, known, (history.name, new, segment))
        _forget(self._steps, run)

    def _compare(self, run: RunState, step: tuple[ViewId, ViewId], one: _Kept, other: _Kept) -> None:
        first, second = run.views[step[0]], run.views[step[1]]
        for has, lacks in ((one, other), (other, one)):
            for sender, numbers in has[2].items():
                seq = numbers.difference(lacks[2].get(sender, Intervals()))
                if seq is not None:
                    message = (first.group, sender, seq)
                    between = f"{has[0]} delivers {say(message)} between {first} and {second}"
                    sentence = f"{between}; {lacks[0]} installs both and does not"
                    events = [(has[0], has[1].index), (lacks[0], lacks[1].index)]
                    time = max(one[1].time, other[1].time)
                    run.book.violation("view-atomicity", sentence, time, events, messages=[message])
                    return

    def left(self, history: History, group: str) -> None:
        self._since.pop((history.name, group), None)


class SenderInView:
    """The sender of a delivered message is in the view it is delivered in, unless it is in no view and joins never."""

    def __init__(self) -> None:
        self._strangers: dict[tuple[str, str], list[tuple[Message, str, Delivery]]] = {}

    def delivered(self, run: RunState, history: History, message: Message, delivery: Delivery) -> None:
        if delivery.view is None:
            return
        group, sender, _ = message
        if sender in run.views[delivery.view].members:
            run.book.case("sender-in-view")
        elif (group, sender) in run.named:
            self._stranger(run, message, history.name, delivery)
        else:
            waiting = self._strangers.setdefault((group, sender), [])
            if len(waiting) < MOST_STRANGERS:
                waiting.append((message, history.name, delivery))

    def named(self, run: RunState, group: str, process: str) -> None:
        """A view names this process, or it joins."""
        for message, where, delivery in self._strangers.pop((group, process), ()):
            self._stranger(run, message, where, delivery)

    def _stranger(self, run: RunState, message: Message, process: str, delivery: Delivery) -> None:
        assert delivery.view is not None
        run.book.case("sender-in-view")
        sentence = f"{process} delivers {say(message)} in {run.views[delivery.view]}, in which {message[1]} is not"
        run.book.violation("sender-in-view", sentence, delivery.time, [(process, delivery.index)], messages=[message])


class SameView:
    """A message is delivered in the view in which it was sent."""

    def delivered(self, run: RunState, process: str, letter: Letter, delivery: Delivery) -> None:
        """Called when both are known, whichever came first."""
        sent = letter.sent
        if sent is None or sent.view is None:
            return
        run.book.case("same-view")
        if delivery.view != sent.view:
            where = "no view" if delivery.view is None else str(run.views[delivery.view])
            sentence = f"{say(letter.message)} is sent in {run.views[sent.view]}; {process} delivers it in {where}"
            events = [(letter.message[1], sent.index), (process, delivery.index)]
            time = max(sent.time, delivery.time)
            run.book.violation("same-view", sentence, time, events, messages=[letter.message])


class DisjointViews:
    """Two different views of a group share no signature."""

    def __init__(self) -> None:
        self._users: dict[tuple[str, str, str], tuple[ViewId, str, int]] = {}

    def installed(self, run: RunState, history: History, new: Installed, fact: Fact) -> None:
        signatures = detail_of(fact.detail).get("signatures")
        group = run.views[new.view].group
        for process, number in sorted((signatures or {}).items()):
            run.book.case("disjoint-views")
            user = self._users.setdefault((group, process, str(number)), (new.view, history.name, new.index))
            if user[0] != new.view:
                one, other = run.views[user[0]], run.views[new.view]
                sentence = f"{one} and {other} of {group} share signature {number} of {process}"
                events = [(user[1], user[2]), (history.name, new.index)]
                run.book.violation("disjoint-views", sentence, new.time, events, group=group)
        _forget(self._users, run)


def _forget(kept: dict[Any, Any], run: RunState) -> None:
    """Forgets the oldest half when there are too many."""
    if len(kept) > MOST_STEPS:
        for key in list(islice(kept, MOST_STEPS // 2)):
            del kept[key]
            run.late += 1
