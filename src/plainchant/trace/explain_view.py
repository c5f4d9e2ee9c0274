"""The story of a view change: what set it off, what was agreed, who installed it when, and what lay around it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final, TypeAlias

import numpy as np
import pyarrow as pa

from ..model import UsageError
from .explain_rows import Event, Ints, Rows
from .explain_why import Why, reason
from .explain_words import braces, crash_words, fault_words, left_reasons, listed, span, times

Told: TypeAlias = list[tuple[Event, str, str | None]]

_AGREEING: Final = ("suspect", "refute", "confirm", "elect", "sync", "state", "leave", "crash", "drop")
_STEPS_MAX: Final = 200
_NAMED: Final = 4


class ViewStory:
    """Tells how one view of one group came to be."""

    def __init__(self, rows: Rows, why: Why, group: str, number: int) -> None:
        self._rows = rows
        self._why = why
        self._group = group
        self._number = number
        views = rows.mask("view") & (rows.group == rows.code("group", group))
        self._installed = rows.events(np.flatnonzero(views & (rows.view == number)))
        if not self._installed:
            known = sorted(set(rows.view[np.flatnonzero(views)].tolist()))
            there = f"its views are {listed((str(view) for view in known), most=10)}" if known else "no view of it is recorded"
            raise UsageError(f"there is no view {number} of group {group!r} in this run; {there}")
        self._before = {event.process: rows.view_at(event, group) for event in self._installed}
        known_before = [event for event in self._before.values() if event is not None]
        common = Counter((event.view, event.members) for event in known_before).most_common(1)
        self._previous = next((e for e in known_before if (e.view, e.members) == common[0][0]), None) if common else None
        self._first, self._last = self._installed[0], self._installed[-1]

    def tell(self) -> tuple[str, Told, str]:
        """The title, the steps and the conclusion."""
        before = "" if self._previous is None else f", after view {self._previous.view}"
        title = f"How view {self._number} of {self._group} {braces(self._first.members)} came to be{before}"
        told = self._agreement()
        trigger = min((event.when for event, _, _ in told), default=self._first.when)
        told += self._faults(trigger)
        told += [self._installation(event) for event in self._installed]
        told += self._afterwards()
        return title, told, self._conclusion(told)

    @property
    def _lost(self) -> list[str]:
        previous = self._previous.members if self._previous is not None else ()
        return [name for name in previous if name not in self._first.members]

    @property
    def _new(self) -> list[str]:
        previous = self._previous.members if self._previous is not None else ()
        return [name for name in self._first.members if name not in previous]

    # --- what led to it -----------------------------------------------------------------------------------------------

    def _began(self) -> int:
        """When the view before was first installed by anybody who is in this story."""
        if self._previous is None:
            return self._first.when - 1
        rows = self._rows
        mask = rows.mask("view") & (rows.group == rows.code("group", self._group)) & (rows.view == self._previous.view)
        return int(rows.when[np.flatnonzero(mask)].min())

    def _agreement(self) -> Told:
        """Suspicions, elections, synchronisations, decisions, crashes and leaves since the view before; each once."""
        told: Told = []
        seen: set[tuple[str, str]] = set()
        rows = self._rows.find(*_AGREEING, group=self._group, after=self._began(), until=self._last.when)
        concerned = {*self._lost, *self._first.members}
        for event in rows:
            if event.kind in ("crash", "leave") and event.process not in concerned:
                continue  # it was gone before
            sentence = self._sentence(event)
            key = (event.process, sentence)
            if not sentence or key in seen or len(told) >= _STEPS_MAX:
                continue
            seen.add(key)
            told.append((event, sentence, self._because(event, sentence)))
        return told

    def _because(self, event: Event, sentence: str) -> str | None:
        why = self._why.clause(event)
        return None if why is not None and why in sentence else why

    def _sentence(self, event: Event) -> str:
        who, detail = event.process, event.detail
        match event.kind:
            case "crash":
                return crash_words(who, detail)
            case "leave":
                return f"{who} has left {self._group}"
            case "suspect":
                return f"{who} suspects {detail.get('process', detail.get('suspect', 'somebody'))}"
            case "refute":
                return f"{who} takes a suspicion back" + (f" of {detail['process']}" if "process" in detail else "")
            case "confirm":
                return self._proposal(event)
            case "sync":
                return f"{who} ends the synchronisation" if detail.get("over") else f"{who} starts a synchronisation"
            case "elect":
                return self._election(event)
            case "state":
                return self._state(event)
        # Drops are told only where the protocol says that the change caused them.
        return f"{who} drops {detail.get('count', 'what it held')}" if "epoch" in str(reason(detail)) else ""

    def _proposal(self, event: Event) -> str:
        members = event.detail.get("members")
        if not isinstance(members, list):
            return f"{event.process} confirms"
        number = event.detail.get("number")
        place = f" at place {number} of the order" if number is not None else ""
        return f"{event.process} proposes view {event.detail.get('proposed')} {braces([str(name) for name in members])}{place}"

    def _election(self, event: Event) -> str:
        who, detail = event.process, event.detail
        voters = listed([str(name) for name in detail.get("voters", [])])
        match detail.get("stage"):
            case "vote":
                return f"{who} calls an election for epoch {detail.get('epoch')}"
            case "decided":
                return f"{who} has heard {voters}: {detail.get('winner')} wins epoch {detail.get('epoch')}"
            case "elected":
                return f"{who} takes office for epoch {detail.get('epoch')}; the order goes on after number {detail.get('base')}"
            case "hand-over":
                return f"{who} hands its office over"
        return f"{who} takes part in an election"

    def _state(self, event: Event) -> str:
        detail = event.detail
        if "sequencer" in detail:
            return f"{event.process} follows {detail['sequencer']} in epoch {detail.get('epoch')}"
        if "superseded_by" in detail:
            return f"{event.process} gives up its office of epoch {detail.get('epoch')}"
        return f"{event.process} changes its state"

    def _faults(self, trigger: int) -> Told:
        """Faults that were in force when it began, or came during it; the same one written at several places, once."""
        began = self._began()
        lasting = [row for row in self._why.faults_in_force(trigger, self._last.when) if row.when > began]
        places = {name.partition("#")[0] for name in (*self._lost, *self._new)}
        single = [
            row for row in self._rows.find("fault", after=began, until=self._last.when)
            if row.detail.get("process") in places and row.detail.get("fault") in ("restart", "join", "leave", "pause")
        ]
        healed = [
            row for row in self._rows.find("fault", after=trigger, until=self._last.when) if row.detail.get("fault") == "heal"
        ]
        told: Told = []
        seen: set[str] = set()
        for row in (*lasting, *single, *healed):
            words = self._fault_sentence(row)
            if words not in seen:
                seen.add(words)
                told.append((row, words, None))
        return told

    def _fault_sentence(self, row: Event) -> str:
        match row.detail.get("fault"):
            case "restart":
                return f"{row.process} comes back, a new process, and asks to be let in"
            case "join":
                return f"{row.process} asks to be let in"
            case "leave":
                return f"{row.process} asks to leave"
            case "heal":
                return "the network heals"
        return f"fault: {fault_words(row.detail)}" + (
            f" at {row.process}" if row.detail.get("fault") == "pause" else "")

    # --- who came to it, and with what --------------------------------------------------------------------------------

    def _between(self, event: Event, before: Event) -> Ints:
        """Positions of the group's deliveries at a process between two of its views."""
        rows = self._rows
        own = rows.mask("deliver", process=event.process) & (rows.group == rows.code("group", self._group))
        places: Ints = np.flatnonzero(own)
        return places[(places > before.at) & (places < event.at)]

    def _installation(self, event: Event) -> tuple[Event, str, str | None]:
        before = self._before[event.process]
        what = f"{event.process} installs view {self._number}"
        if event.members != self._first.members:
            what += f" as {braces(event.members)}, other members than at {self._first.process}"
        if before is not None:
            places = self._between(event, before)
            what += f", after {times(len(places), 'delivery')} in view {before.view}"
            if len(places):
                what += f", the last {self._rows.events(places[-1:])[0].name}"
        elif self._previous is not None:
            what += ", its first"
        why = self._why.clause(event) if event is self._first else None
        return event, what, why

    def _afterwards(self) -> Told:
        """What became of members of the view before, or of this one, that did not install it."""
        told: Told = []
        came = {event.process for event in self._installed}
        for process in (*self._lost, *self._first.members):
            last = self._rows.last_row(process)
            if process in came or last is None or last.when <= self._last.when:
                continue
            if last.kind == "crash":
                told.append((last, crash_words(process, last.detail), None))
            elif process in self._first.members:
                told.append((last, f"{process} never installs view {self._number}, though it is a member of it", None))
        return told

    # --- the end ------------------------------------------------------------------------------------------------------

    def _conclusion(self, told: Told) -> str:
        sentences = [self._change(), self._spread()]
        sentences += self._duration(told)
        sentences += self._atomicity()
        if not self._rows.is_global:
            sentences.append("Times are of each process's own clock.")
        return " ".join(sentences)

    def _change(self) -> str:
        if self._previous is None:
            return f"View {self._number} is the first of {self._group}: {listed(self._first.members, most=10)}."
        parts = [f"without {listed(self._lost)}"] if self._lost else []
        parts += [f"with {listed(self._new)} joined"] if self._new else []
        gone = left_reasons(self._first.detail)
        reasons = [gone[name] for name in self._lost if name in gone]
        why = f" ({listed(reasons, most=2)})" if reasons else ""
        return f"View {self._number} follows view {self._previous.view} {' and '.join(parts) or 'with the same members'}{why}."

    def _spread(self) -> str:
        came = [event.process for event in self._installed]
        missing = [name for name in self._first.members if name not in came]
        whole = f"All {len(came)} members" if len(came) > 1 else "Its only member"
        told = f"{f'Only {len(came)} of its {len(self._first.members)} members' if missing else whole} installed it"
        if self._rows.is_global and self._last.when > self._first.when:
            told += f", within {span(self._last.when - self._first.when)}"
        if missing:
            told += f"; {listed(missing, most=10)} did not"
        variants = {event.members for event in self._installed}
        if len(variants) > 1:
            told += f"; {len(variants)} different sets of members go by this number, which breaks view-order"
        return told + "."

    def _duration(self, told: Told) -> list[str]:
        """How long it took from what set it off: the crash of somebody lost, else the first suspicion or request."""
        if not self._rows.is_global or self._previous is None:
            return []
        causes = [event for event, _, _ in told if event.when <= self._first.when and event.kind != "view"]
        causes.sort(key=lambda event: (event.when, event.process, event.index))
        crashes = [event for event in causes if event.kind == "crash" and event.process in self._lost]
        for event in (*crashes[:1], *causes[:0 if crashes else 1]):
            what = f"{event.process}'s crash" if event.kind == "crash" else "the first sign of it"
            if event.kind == "fault" and event.detail.get("fault") in ("partition", "cut", "pause"):
                what = f"the {event.detail['fault']}"
            until = f"{span(self._first.when - event.when)} from {what} to the first installation"
            suspected = [e for e in causes if e.kind == "suspect" and e.when >= event.when] if crashes else []
            noticed = f", {span(suspected[0].when - event.when)} of them until somebody suspected it" if suspected else ""
            return [f"It took {until}{noticed}."]
        return []

    def _atomicity(self) -> list[str]:
        """Whether those who came from the same view delivered the same in it."""
        previous = self._previous
        if previous is None:
            return []
        together = [
            (event, before) for event in self._installed
            if (before := self._before[event.process]) is not None
            and (before.view, before.members) == (previous.view, previous.members)
        ]
        if len(together) < 2:
            return []
        places = [self._between(event, before) for event, before in together]
        counted = self._counted(np.concatenate(places))
        differing = counted.filter(pa.array(counted.column("count").to_numpy() != len(together)))
        names = [event.process for event, _ in together]
        if not differing.num_rows:
            what = times(counted.num_rows, "message") if counted.num_rows else "no message"
            return [f"{listed(names, most=10)} delivered the same {what} between the two views."]
        shown = [f"{self._group}/{row['sender']}/{row['seq']}" for row in differing.slice(0, _NAMED).to_pylist()]
        return [
            f"Of those who came from view {previous.view}, not all delivered "
            f"{_and_others(shown, differing.num_rows)} in it, which breaks view-atomicity."
        ]

    def _counted(self, places: Ints) -> pa.Table:
        """How many processes delivered each message among these rows."""
        chosen = self._rows.table.take(pa.array(places)).select(["process", "sender", "seq"])
        chosen = chosen.group_by(["process", "sender", "seq"]).aggregate([])
        counted = chosen.group_by(["sender", "seq"]).aggregate([("process", "count")])
        return counted.rename_columns({"process_count": "count"}).sort_by([("sender", "ascending"), ("seq", "ascending")])


def _and_others(shown: Sequence[str], count: int) -> str:
    more = count - len(shown)
    return listed([*shown, f"{more:,} more"] if more else shown)
