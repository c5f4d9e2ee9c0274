"""The facts of a view change: the processes that installed the view or another one, the views before, the rows that led to it.

A view is a group, a number and members. Concurrent views of a partitioned group may have the same number: that of the process
asked for is meant, else the one that most processes installed. Processes that came from the same view but installed another one
are its *others*. A view that merges parts follows several views at once, its *origins*.

What led to it stands, process by process, between the installations of the two views. What concerns a process that this view lost
may stand before, since failures can be suspected and agreed on while an earlier change is still under way.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Final, TypeAlias

import numpy as np

from ...core.model import UsageError
from ...core.words import listed, whole
from ...protocols.story import Event
from .membership import about, parts_in
from .rows import Rows

Known: TypeAlias = tuple[int | None, frozenset[str]]
_AGREEING: Final = ("suspect", "refute", "confirm", "remove", "bye", "form", "refused", "block", "elect", "sync", "state", "drop")
_EARLIER: Final = ("suspect", "confirm", "remove", "bye")
"""What may concern this change although it stands before the view before."""
_OF_OTHERS: Final = ("suspect", "refute", "bye", "elect", "sync", "state")
"""What is told about processes that did not install this view."""
_LISTED: Final = 10


class Change:
    """The change to one view of one group."""

    def __init__(self, rows: Rows, group: str, number: int, process: str | None = None) -> None:
        self._rows = rows
        self.group = group
        self.number = number
        views = installations(rows, group)
        numbered = [event for event in views if event.view == number]
        if not numbered:
            known = sorted({event.view for event in views if event.view is not None})
            there = f"its views are {listed((str(view) for view in known), most=10)}" if known else "no view of it is recorded"
            raise UsageError(f"there is no view {number} of group {group!r} in this run; {there}")
        self._variants = variants(numbered)
        self.installed = self._chosen(process)
        """Its installations, in the order in which they happened."""
        self.first, self.last = self.installed[0], self.installed[-1]
        self.members = self.first.members
        self._histories: dict[str, list[Event]] = {}
        for event in sorted(views, key=lambda event: event.at):
            self._histories.setdefault(event.process, []).append(event)
        self.own = {event.process: event for event in self.installed}
        self.before = {event.process: self._view_before(event) for event in self.installed}
        """The view that each one's installation replaced; None if it was not in the group just before."""

    def _chosen(self, process: str | None) -> list[Event]:
        if process is None:
            return max(self._variants.values(), key=lambda found: (len(found), len(found[0].members), -found[0].at))
        for found in self._variants.values():
            if any(event.process == process for event in found):
                return found
        who = listed((event.process for found in self._variants.values() for event in found), most=_LISTED)
        raise UsageError(f"{process} did not install view {self.number} of group {self.group!r}; it was installed by {who}")

    def _view_before(self, event: Event) -> Event | None:
        mine = [other for other in self._histories[event.process] if other.at < event.at]
        if not mine:
            return None
        left = np.flatnonzero(self._rows.mask("leave", process=event.process) & self._rows.within(self.group))
        return None if any(mine[-1].at < place < event.at for place in left) else mine[-1]

    @cached_property
    def origins(self) -> list[Event]:
        """The views that it follows, the one with the most common members first."""
        found = variants([event for event in self.before.values() if event is not None]).values()
        return [events[0] for events in sorted(found, key=lambda events: (-len(events), events[0].at))]

    @cached_property
    def lost(self) -> list[str]:
        """Members of the views before that are not in this one."""
        members = dict.fromkeys(name for origin in self.origins for name in origin.members)
        return [name for name in members if name not in self.members]

    @cached_property
    def new(self) -> list[str]:
        """Members of this view that are in none of those before."""
        members = {name for origin in self.origins for name in origin.members}
        return [name for name in self.members if name not in members]

    @property
    def parts(self) -> list[list[str]]:
        """The parts that came together in this view, by its own row."""
        return parts_in(self.first.detail)

    @property
    def is_first(self) -> bool:
        """Whether it follows no view, as far as the trace tells."""
        return not self.origins and all(len(part) == 1 for part in self.parts)

    @property
    def former_name(self) -> str | None:
        """What the group was called before, if it was renamed: its members left the one and joined the other at one instant."""
        places = [self._rows.at(event.process, event.index - 2) for event in self.installed]
        names = {
            row.group
            for row, event in zip(places, self.installed, strict=True)
            if row is not None and row.kind == "leave" and row.when == event.when
        }
        return names.pop() if len(names) == 1 else None

    @cached_property
    def others(self) -> list[Event]:
        """The views that members of the views before, or of this one, installed instead of this one."""
        return [
            event
            for process in self.concerned
            for event in (self._histories.get(process, []) if process not in self.own else ())
            if (before := self._view_before(event)) is not None and known(before) in self._from
        ]

    @cached_property
    def _from(self) -> set[Known]:
        return {known(origin) for origin in self.origins}

    @cached_property
    def namesakes(self) -> list[list[Event]]:
        """Other views with this number, each by its installations, that are not among the others."""
        told = {known(event) for event in (*self.others, self.first)}
        return [found for found in self._variants.values() if known(found[0]) not in told]

    @cached_property
    def concerned(self) -> list[str]:
        """Processes that were in a view before or are in this one."""
        return list(dict.fromkeys([*self.own, *self.lost, *self.members]))

    @cached_property
    def began(self) -> int:
        """When the first of the views before was first installed by anybody."""
        moments = [event.when for events in self._histories.values() for event in events if known(event) in self._from]
        return min(moments, default=self.first.when - 1)

    @cached_property
    def stretches(self) -> dict[str, tuple[int, int]]:
        """For each process concerned that has rows, the positions between which its rows led to this view, or past it."""
        stretches: dict[str, tuple[int, int]] = {}
        for process in self.concerned:
            places = np.flatnonzero(self._rows.process == self._rows.code("process", process))
            history = self._histories.get(process, [])
            since = [event.at for event in history if known(event) in self._from]
            if process in self.own:
                before = self.before[process]
                stretches[process] = (before.at if before is not None else int(places[0]) - 1, self.own[process].at)
            elif len(places) and (since or not history):
                start = since[-1] if since else int(places[0]) - 1
                after = [event.at for event in history if event.at > start]
                stretches[process] = (start, after[0] if after else int(places[-1]) + 1)
        return stretches

    def led_to_it(self) -> list[Event]:
        """The rows that led to it, in the order in which they happened."""
        until = max(event.when for event in (self.last, *self.others))
        rows = self._rows.find(*_AGREEING, *self._rows.story.view_kinds, group=self.group, until=until)
        ends = self._rows.find("crash", "leave", group=self.group, until=self.last.when)
        led = [event for event in rows if self.is_about(event)]
        for event in ends:  # the end of a lost member, at any time, or of a concerned process on the way
            start, stop = self.stretches.get(event.process, (0, 0))
            led += [event] if start < event.at < stop or (event.process in self.lost and event.kind == "crash") else []
        return led

    def is_about(self, event: Event) -> bool:
        """Whether a row led to this view."""
        if event.process not in self.stretches:
            return False
        if event.kind not in _OF_OTHERS and event.process not in self.own:
            return False
        if event.kind in ("form", "refused") and not (self.parts and whole(event.detail, "number") in (None, self.number)):
            return False  # another view's formation
        start, stop = self.stretches[event.process]
        if event.when > self.last.when and event.process not in {other.process for other in self.others}:
            return False
        if event.at > start:
            before, named = self.before.get(event.process), about(event)
            return event.at < stop and (before is None or not named or any(name in before.members for name in named))
        return event.kind in _EARLIER and event.process in self.own and self._still_meant(event)

    def _still_meant(self, event: Event) -> bool:
        """Whether an earlier row is about a member lost here, in the same membership, and was not taken back since."""
        start, _ = self.stretches[event.process]
        refutations = self._rows.find("refute", process=event.process, group=self.group)
        refuted = [row for row in refutations if row.detail.get("heard") and event.at < row.at < start]
        taken_back = {name for row in refuted for name in about(row)}
        named = [name for name in about(event) if name in self.lost and name not in taken_back]
        return any(event.at > self._first_with(event.process, name) for name in named)

    def _first_with(self, process: str, name: str) -> int:
        """The position of the first of a process's consecutive views, up to the one before this, that have this member."""
        place, _ = self.stretches[process]
        for event in reversed([event for event in self._histories.get(process, []) if event.at <= place]):
            if name not in event.members:
                break
            place = event.at
        return place


def installations(rows: Rows, group: str) -> list[Event]:
    """Every installation of a view of the group, in the order in which they happened."""
    return rows.events(np.flatnonzero(rows.mask("view") & rows.within(group)))


def known(event: Event) -> Known:
    """What a view is known by, beside its group."""
    return event.view, frozenset(event.members)


def variants(views: Sequence[Event]) -> dict[Known, list[Event]]:
    """Views, each with its installations in order."""
    found: dict[Known, list[Event]] = {}
    for event in views:
        found.setdefault(known(event), []).append(event)
    return found
