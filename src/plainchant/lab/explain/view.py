"""A view change explained: what set it off, what was agreed, when processes installed this view or another, how long it took.

``change`` has the facts, ``membership`` the sentences about single rows. The views of a group, to choose one from, are listed
here too.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Final

import numpy as np
import pyarrow as pa

from ...core.model import UsageError
from ...core.names import place_of
from ...core.words import braces, crash_words, fault_words, left_reasons, listed, names_in, natural, reason, span, times, whole
from ...protocols.story import Event
from . import membership
from .change import Change, installations, known, variants
from .rows import Ints, Rows, Told, once, unless_said
from .why import Why

_STEPS_MAX: Final = 200
_NAMED: Final = 4
_LISTED: Final = 10


class ViewExplainer:
    """Tells how one view of one group came to be."""

    def __init__(self, rows: Rows, why: Why, group: str, number: int, process: str | None = None) -> None:
        """``process`` chooses among several views with that number: the one that it installed."""
        self._rows = rows
        self._why = why
        self._story = why.story
        self._change = Change(rows, group, number, process)
        self._name = f"view {number}"
        self._left_out = 0

    def tell(self) -> tuple[str, Told, str]:
        """The title, the steps and the conclusion."""
        change = self._change
        origins = [f"view {origin.view} {braces(origin.members)}" for origin in change.origins]
        after = f"view {change.origins[0].view}" if len(origins) == 1 else listed(origins)
        title = f"How {self._name} of {change.group} {braces(change.members)} came to be{f', after {after}' if after else ''}"
        told = self._agreement()
        told += self._faults(min((event.when for event, _, _ in told), default=change.first.when))
        told += [self._installation(event) for event in change.installed]
        for event in change.others:
            what = f"{event.process} goes another way: it installs view {event.view} {braces(event.members)}"
            told.append((event, what, self._why.clause(event)))
        told += self._afterwards()
        return title, told, self._conclusion(told)

    def _agreement(self) -> Told:
        """Suspicions, elections, formations, decisions, crashes and leaves that led to it; each once."""
        told: Told = []
        seen: set[tuple[str, str, int | None]] = set()
        for together in _together(self._change.led_to_it()):
            event = together[0]
            what, because = self._step(together)
            # A process that suspects another again has received more of it meanwhile.
            key = (event.process, what, whole(event.detail, "last") if event.kind == "suspect" else None)
            if not what or key in seen:
                continue
            seen.add(key)
            if len(told) < _STEPS_MAX:
                told.append((event, what, unless_said(what, because)))
            else:
                self._left_out += 1
        return told

    def _step(self, together: Sequence[Event]) -> tuple[str, str | None]:
        """What rows of one process and instant say, and why."""
        event = together[0]
        if self._story.is_aside(event):
            return "", None
        match event.kind:
            case "suspect" if len(together) > 1:
                whom = dict.fromkeys(name for row in together for name in membership.about(row))
                return f"{event.process} suspects {listed(whom, most=_LISTED)}", membership.suspected_because(together)
            case "crash":
                return crash_words(event.process, event.detail), self._story.stopped(event)
            case "leave":
                return f"{event.process} has left {self._change.group}", self._why.clause(event)
            case "refute" if names_in(event.detail.get("of")) and not event.detail.get("late"):
                fates = [self._fate(event, name, membership.about(event)) for name in names_in(event.detail["of"])]
                return membership.sentence(event, self._story) or "", listed(filter(None, fates)) or None
            case "form" if event.detail.get("stage") == "enter":
                return "", None  # its installation says so
            case "block" if event.detail.get("condition") == "moving":
                return "", None  # that it is to move says so
            case "drop":
                # Drops are told only where the protocol says that the change caused them.
                is_told = "epoch" in str(reason(event.detail))
                what = f"{event.process} drops {event.detail.get('count', 'what it held')}"
                return what if is_told else "", self._why.clause(event)
        return membership.sentence(event, self._story) or "", self._why.clause(event)

    def _fate(self, event: Event, suspecting: str, whom: Sequence[str]) -> str:
        """How a refutation ended where it was to be heard: it was heard, discarded, or the suspicion was confirmed."""
        for row in self._rows.find("refute", "confirm", process=suspecting, group=self._change.group, after=event.when - 1):
            if not set(membership.about(row)) & set(whom):
                continue
            when = self._why.moment(row.when)
            if row.kind == "confirm":
                return f"in vain: {suspecting} confirmed its suspicion at {when}"
            if row.detail.get("heard"):
                return f"in time: {suspecting} dropped its suspicion at {when}"
            if row.detail.get("late") and row.detail.get("by") == event.process:
                return f"too late: {suspecting} discarded it at {when}"
        return ""

    def _faults(self, trigger: int) -> Told:
        """Faults that were in force when it began, or came during it; the same one written at several places, once."""
        change = self._change
        began, last = change.began, change.last.when
        after = began if len(change.origins) > 1 else trigger
        lasting = [row for row in self._why.faults_in_force(trigger, last) if row.when > began]
        places = {place_of(name) for name in (*change.lost, *change.new)}
        of_one = ("restart", "join", "leave", "pause")
        faults = self._rows.find("fault", after=began, until=last)
        single = [row for row in faults if row.detail.get("process") in places and row.detail.get("fault") in of_one]
        healed = [row for row in self._rows.find("fault", after=after, until=last) if row.detail.get("fault") == "heal"]
        over = [
            dataclasses.replace(row, when=ends, detail={"fault": "over", "of": row.detail["fault"]})
            for row, ends in self._why.faults_over(after, last)
        ]
        return once((row, _fault_sentence(row), None) for row in (*lasting, *single, *healed, *over))

    def _between(self, event: Event, before: Event) -> Ints:
        """Positions of the group's deliveries at a process between two of its views."""
        own = self._rows.mask("deliver", process=event.process) & self._rows.within(self._change.group)
        places: Ints = np.flatnonzero(own)
        return places[(places > before.at) & (places < event.at)]

    def _installation(self, event: Event) -> tuple[Event, str, str | None]:
        before = self._change.before[event.process]
        what = f"{event.process} installs {self._name}"
        if before is None:
            what += ", its first" if self._change.origins else ""
            return event, what, self._why.clause(event) if event is self._change.first else None
        places = self._between(event, before)
        what += f", after {times(len(places), 'delivery')} in view {before.view}"
        if len(places):
            what += f", the last {self._rows.events(places[-1:])[0].name}"
        # All that came from the same view have the same reason, which is told once.
        befores = ((other, self._change.before[other.process]) for other in self._change.installed)
        first = next(other for other, its in befores if its is not None and known(its) == known(before))
        return event, what, self._why.clause(event) if event is first else None

    def _afterwards(self) -> Told:
        """What became of members of the views before, or of this one, that installed neither this one nor another."""
        change = self._change
        told: Told = []
        came = {*change.own, *(event.process for event in change.others)}
        for process in change.concerned:
            last = self._rows.last_row(process)
            if process in came or last is None or last.when <= change.last.when:
                continue
            if last.kind == "crash":
                told.append((last, crash_words(process, last.detail), self._story.stopped(last)))
            elif process in change.members:
                told.append((last, f"{process} never installs {self._name}, though it is a member of it", None))
        return told

    def _conclusion(self, told: Told) -> str:
        sentences = [self._difference(), self._spread(), *self._agreed(), *self._duration(told)]
        event = next((event for event in self._change.installed if self._change.before[event.process] is not None), None)
        besides = self._story.after_view(event) if event is not None else None
        sentences += [f"{besides}."] if besides is not None else []
        sentences += [*self._blocked(), *self._parted()]
        sentences += [same for origin in self._change.origins for same in self._same_deliveries(origin)]
        sentences += self._namesakes()
        if not self._change.is_first and all(event.kind == "view" for event, _, _ in told):
            sentences.append("The trace has no row that tells what led to it.")
        if self._left_out:
            sentences.append(f"{times(self._left_out, 'further step')} on the way to it are not told.")
        return " ".join([*sentences, *self._rows.clocks])

    def _difference(self) -> str:
        change = self._change
        if change.is_first:
            called = f"; the group was called {change.former_name} before" if change.former_name is not None else ""
            return f"View {change.number} is the first of {change.group}: {listed(change.members, most=10)}{called}."
        if len(change.origins) > 1 or len(change.parts) > 1:
            return self._merge()
        parts = [f"without {listed(change.lost)}"] if change.lost else []
        parts += [f"with {listed(change.new)} joined"] if change.new else []
        gone = left_reasons(change.first.detail)
        reasons = [gone[name] for name in change.lost if name in gone]
        why = f" ({listed(reasons)})" if 0 < len(reasons) <= 2 else ""
        follows = f"View {change.number} follows view {change.origins[0].view}"
        return f"{follows} {' and '.join(parts) or 'with the same members'}{why}."

    def _merge(self) -> str:
        """What came together: the parts that the view itself names, else those that came from one view."""
        change = self._change
        newcomers = names_in(change.first.detail.get("newcomers"))
        parts = change.parts or [
            *([name for name in origin.members if name in change.members] for origin in change.origins),
            *([name] for name in change.new),
        ]
        told = []
        for part in parts:
            before = next((event for name in part if (event := change.before.get(name)) is not None), None)
            if before is not None:
                told.append(f"{braces(part)}, from view {before.view}")
            else:
                is_new = set(part) <= set(newcomers) or any(name in change.own for name in part)
                told.append(braces(part) + (", new" if is_new else ""))
        without = f"; without {listed(change.lost, most=_LISTED)}" if change.lost else ""
        return f"In view {change.number} came together: {'; '.join(told)}{without}."

    def _spread(self) -> str:
        change = self._change
        came = [event.process for event in change.installed]
        missing = [name for name in change.members if name not in came]
        whole = f"All {len(came)} members" if len(came) > 1 else "Its only member"
        told = f"{f'Only {len(came)} of its {len(change.members)} members' if missing else whole} installed it"
        if self._rows.is_global and change.last.when > change.first.when:
            told += f", within {span(change.last.when - change.first.when)}"
        if missing:
            told += f"; {listed(missing, most=10)} did not"
        return told + "."

    def _agreed(self) -> list[str]:
        """One cut for all, and what fell behind it."""
        confirmed: dict[str, list[Event]] = {}
        for event in self._change.led_to_it():
            if event.kind == "confirm" and "detection" in event.detail:
                confirmed.setdefault(event.process, []).append(event)
        cuts: dict[str, dict[str, int]] = {}
        for process, rows in confirmed.items():  # all that a process cut in several confirmations
            found = [row.detail["cut"] for row in rows if isinstance(row.detail.get("cut"), dict)]
            cuts[process] = {str(name): block for cut in found for name, block in cut.items()}
        told = []
        if cuts:
            agreed = next(iter(cuts.values()))
            words = membership.cut_words(agreed)
            if any(cut != agreed for cut in cuts.values()):
                named = (f"{membership.cut_words(cut)} (at {process})" for process, cut in cuts.items() if cut)
                told.append(f"Not all of them have the same cut: {'; '.join(named)}.")
            elif words:
                told.append(f"Agreed by {listed(confirmed, most=_LISTED)}: {words}.")
        lost = {item for rows in confirmed.values() for row in rows for item in membership.replaced(row.detail)}
        if lost:
            told.append(f"Replaced by nulls: {membership.replaced_words(self._change.group, list(lost))}.")
        return told

    def _duration(self, told: Told) -> list[str]:
        """How long it took from what set it off: the crash of a lost member, else the first suspicion or request."""
        change = self._change
        if not self._rows.is_global or not change.origins:
            return []
        causes = [event for event, _, _ in told if event.when <= change.first.when and event.kind != "view"]
        causes.sort(key=lambda event: (event.when, event.process, event.index))
        crashes = [event for event in causes if event.kind == "crash" and event.process in change.lost]
        for event in (*crashes[:1], *causes[: 0 if crashes else 1]):
            what = f"{event.process}'s crash" if event.kind == "crash" else "the first sign of it"
            if event.kind == "fault":
                fault = event.detail.get("fault")
                named = {"over": f"the end of the {event.detail.get('of')}", "heal": "the healing"}
                what = named.get(str(fault), f"the {fault}" if fault in ("partition", "cut", "pause") else what)
            until = f"{span(change.first.when - event.when)} from {what} to the first installation"
            suspected = [e for e in causes if e.kind == "suspect" and e.when >= event.when] if crashes else []
            noticed = f", {span(suspected[0].when - event.when)} of them until somebody suspected it" if suspected else ""
            bound = self._rows.bounds.get("detection") if crashes else None
            stated = f"; the run states that it takes at most {span(bound)}" if bound is not None else ""
            return [f"It took {until}{noticed}{stated}."]
        return []

    def _blocked(self) -> list[str]:
        """For how long its members were kept from sending because of it."""
        spans = {process: length for process in self._change.own if (length := self._blocked_at(process))}
        if not spans:
            return []
        longest = max(spans, key=lambda process: spans[process])
        if len(spans) == 1:
            return [f"{longest} might not send for {span(spans[longest])}."]
        least = min(spans.values())
        if least == spans[longest]:
            return [f"Sending was blocked for {span(least)} at {len(spans)} of them."]
        lengths = f"{span(least)} to {span(spans[longest])}"
        return [f"Sending was blocked for {lengths} at {len(spans)} of them, at {longest} the longest."]

    def _blocked_at(self, process: str) -> int:
        start, stop = self._change.stretches[process]
        since: int | None = None
        length = 0
        for row in self._rows.find("block", "unblock", process=process, group=self._change.group):
            if row.at <= start or row.detail.get("condition") not in membership.CONDITIONS:
                continue
            if row.kind == "block" and since is None and row.at < stop:
                since = row.when
            elif row.kind == "unblock" and since is not None:
                length += row.when - since
                since = None
        return length

    def _parted(self) -> list[str]:
        """Which other views there were at the same time."""
        change = self._change
        told = [
            f"{listed((event.process for event in found), most=_LISTED)} went another way, to view {found[0].view} "
            f"{braces(found[0].members)}."
            for found in variants(change.others).values()
        ]
        for event in change.others:
            mine = next((name for name in change.own if name in event.members), None)
            if mine is not None and event.process in change.members:
                told.append(
                    f"After the same view {mine} installed one with {event.process} in it, and {event.process} another one with "
                    f"{mine} in it, which breaks view-order."
                )
                break
        return told

    def _same_deliveries(self, previous: Event) -> list[str]:
        """Whether processes that came from the same view delivered the same in it."""
        together = [
            (event, before)
            for event in self._change.installed
            if (before := self._change.before[event.process]) is not None and known(before) == known(previous)
        ]
        if len(together) < 2:
            return []
        places = [self._between(event, before) for event, before in together]
        keys = ["sender", "seq"]
        chosen = self._rows.table.take(pa.array(np.concatenate(places))).group_by(["process", *keys]).aggregate([])
        counted = chosen.group_by(keys).aggregate([("process", "count")]).rename_columns({"process_count": "count"})
        counted = counted.sort_by([(key, "ascending") for key in keys])
        differing = counted.filter(pa.array(counted.column("count").to_numpy() != len(together)))
        names = [event.process for event, _ in together]
        if not differing.num_rows:
            what = f"the same {times(counted.num_rows, 'message')}" if counted.num_rows else "no message"
            return [f"{listed(names, most=10)} delivered {what} between the two views."]
        shown = [f"{self._change.group}/{row['sender']}/{row['seq']}" for row in differing.slice(0, _NAMED).to_pylist()]
        shown += [f"{differing.num_rows - _NAMED:,} more"] if differing.num_rows > _NAMED else []
        who = f"Of those who came from view {previous.view}, not all delivered"
        return [f"{who} {listed(shown)} in it, which breaks view-atomicity."]

    def _namesakes(self) -> list[str]:
        """Other views with this number that have not been told of."""
        return [
            f"Another view {self._change.number}, {braces(found[0].members)}, was installed by "
            f"{listed((event.process for event in found), most=_LISTED)}: --process {found[0].process} tells of it."
            for found in self._change.namesakes
        ]


class ViewList:
    """Lists the views of one group, to choose from."""

    def __init__(self, rows: Rows, why: Why, group: str, process: str | None = None) -> None:
        """``process``: only those that this process installed."""
        self._why = why
        self._group = group
        self._process = process
        views = installations(rows, group)
        if not views:
            groups = sorted(rows.names["group"], key=natural)
            there = f"its groups are {listed(groups, most=10)}" if groups else "it names no group"
            raise UsageError(f"no view of a group {group!r} is recorded in this run; {there}")
        found = variants(views).values()
        self._views = [events for events in found if process is None or any(event.process == process for event in events)]
        if not self._views:
            raise UsageError(f"{process} installed no view of group {group!r}; leave out --process to see who did")

    def tell(self) -> tuple[str, Told, str]:
        """The title, a step for each view, and how to go on."""
        whose = f" that {self._process} installed" if self._process is not None else ""
        told = [(events[0], self._line(events), self._why.clause(events[0])) for events in self._views]
        chosen = f" --process {self._process}" if self._process is not None else ""
        conclusion = f"{times(len(told), 'view')}. The story of the last: --view {self._group}/{self._views[-1][0].view}{chosen}"
        return f"The views of {self._group}{whose}", told, conclusion

    def _line(self, events: Sequence[Event]) -> str:
        first = events[0]
        came = {event.process for event in events}
        if all(name in came for name in first.members):
            by = f"all {len(came)}" if len(came) > 1 else first.process
        else:
            by = f"{listed(sorted(came, key=natural), most=_LISTED)} only"
        return f"view {first.view} {braces(first.members)}, installed by {by}"


def _fault_sentence(row: Event) -> str:
    told = {
        "restart": f"{row.process} comes back, a new process, and asks to be let in",
        "join": f"{row.process} asks to be let in",
        "leave": f"{row.process} asks to leave",
        "heal": "the network heals",
        "over": f"the {row.detail.get('of')} is over",
        "pause": f"fault: {fault_words(row.detail)} at {row.process}",
    }
    return told.get(str(row.detail.get("fault"))) or f"fault: {fault_words(row.detail)}"


def _together(rows: Sequence[Event]) -> Iterator[list[Event]]:
    """The rows in order; suspicions that one process raises at one instant for one reason, together."""

    def key(event: Event) -> tuple[object, ...]:
        if event.kind != "suspect" or "text" in event.detail:
            return (event.at,)
        return (event.process, event.when, *(str(event.detail.get(name)) for name in ("why", "block", "silence")))

    ordered = sorted(rows, key=lambda event: (event.when, event.process, event.index))
    yield from (list(found) for _, found in groupby(ordered, key=key))
