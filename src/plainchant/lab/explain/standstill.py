"""Why a member stood still: what happened from its last delivery, or from when a message began to wait, to the delivery that
ended it.

``lab.standstills`` says when members stood still. Here the rows of that time tell what they waited for: reasons of
``block`` rows, faults in force, crashes, suspicions, elections, views, and what the protocol's story adds.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from ...core.model import UsageError
from ...core.words import braces, crash_words, fault_words, listed, reason, span
from ...protocols.story import Event, Step
from ..standstills import Standstill
from .membership import about, sentence
from .rows import Rows, Told, once, unless_said
from .why import Why

_OF_ALL: Final = ("elect", "sync", "crash", "fault")
"""Rows of any process that are told."""
_SUSPICIONS: Final = ("suspect", "refute", "remove", "confirm", "bye")
"""Rows that are told of any process if the member and the sender have none."""
_OF_THE_TWO: Final = ("block", "unblock", "view", "leave", "join", "request", "refused", "state")
"""Rows that are told of the member and of the sender that it waited for."""
_STEPS_MAX: Final = 60
_NAMED_MAX: Final = 3


class StandstillExplainer:
    """Tells the longest standstill of a run, or of one of its processes."""

    def __init__(self, rows: Rows, why: Why, found: Sequence[Standstill], process: str | None = None) -> None:
        """``found``: the longest standstill of each member, the longest first."""
        self._rows = rows
        self._why = why
        self._others = [each for each in found if each.length > 0]
        mine = [each for each in self._others if process in (None, each.process)]
        if process is not None and process not in rows.names["process"]:
            raise UsageError(f"there is no process {process!r} in this run; there are {listed(rows.processes(), most=10)}")
        self._process = process
        self._found = mine[0] if mine else None

    def tell(self) -> tuple[str, Told, str]:
        """The title, the steps and the conclusion."""
        found = self._found
        if found is None:
            whose = "No member" if self._process is None else f"{self._process} never"
            return "Standstills", [], f"{whose} stood still: no message waited for a delivery."
        title = f"The longest standstill{'' if self._process is None else f' of {self._process}'}: {_what(found)}"
        told = [*self._begin(found), *self._faults(found), *self._meanwhile(found)]
        if len(told) > _STEPS_MAX:
            told = [*told[: _STEPS_MAX // 2], *told[-_STEPS_MAX // 2 :]]
        return title, [*told, *self._end(found)], self._conclusion(found)

    def _conclusion(self, found: Standstill) -> str:
        moment = self._rows.moment
        waiting = "a message of its own" if found.sender == found.process else f"a message of {found.sender}"
        told = [f"{_what(found)}, from {moment(found.since)} to {moment(found.until)}, while {waiting} waited."]
        told.append(f"What it waited for: {waited_for(self._rows, self._why, found)}.")
        if found.ended_by is None:
            told.append("It lasted to the end of its history.")
        others = [each for each in self._others if each is not found and self._process is None]
        if others:
            named = (f"{each.process} in {each.group} for {span(each.length)}" for each in others[:_NAMED_MAX])
            more = f", and {len(others) - _NAMED_MAX:,} more" if len(others) > _NAMED_MAX else ""
            told.append(f"The longest of others: {listed(named)}{more}; --process NAME tells theirs.")
        return " ".join([*told, *self._rows.clocks])

    def _begin(self, found: Standstill) -> Iterator[Step]:
        delivered = self._rows.find("deliver", process=found.process, group=found.group, until=found.since)
        delivered = [event for event in delivered if event.index != found.ended_by]
        if delivered:
            yield delivered[-1], f"{found.process} delivers {delivered[-1].name}, and then nothing for {span(found.length)}", None
        where: dict[str, Any] = {"process": found.sender, "group": found.group, "after": found.since - 1, "until": found.since}
        given = self._rows.find("accept", "send", **where)
        if given:
            does = "hands in a message" if given[0].kind == "accept" else f"sends {given[0].name}"
            yield given[0], f"{found.sender} {does}, which waits", None

    def _faults(self, found: Standstill) -> Told:
        """Faults that began before and are still in force."""
        events = self._why.faults_in_force(found.since, found.until)
        return once((event, _fault(event), None) for event in events if event.when <= found.since)

    def _meanwhile(self, found: Standstill) -> Told:
        where: dict[str, Any] = {"group": found.group, "after": found.since, "until": found.until}
        # What the member and the sender suspect and are suspected of; if that is nothing, what others do.
        every, two = self._rows.find(*_SUSPICIONS, **where), {found.process, found.sender}
        suspicions = [event for event in every if event.process in two or two & set(about(event))] or every
        events = self._rows.find(*_OF_ALL, **where) + suspicions
        kinds = (*_OF_THE_TWO, *self._why.story.process_kinds)
        for process in dict.fromkeys((found.process, found.sender)):
            events += self._rows.find(*kinds, process=process, **where)
        ordered = sorted({event.at: event for event in events}.values(), key=lambda event: (event.when, event.at))
        told = [(event, what, self._why.clause(event)) for event in ordered if (what := self._sentence(event))]
        alike = self._rows.alike(told, lambda event, what: (event.process, what))
        return [(event, what, unless_said(what, because)) for event, what, because in alike]

    def _sentence(self, event: Event) -> str | None:
        told = sentence(event, self._why.story)
        if told is not None:
            return told
        if event.kind in ("fault", "crash"):
            return _fault(event) if event.kind == "fault" else crash_words(event.process, event.detail)
        acts = {
            "view": f"installs view {event.view} of {event.group} {braces(event.members)}",
            "block": "is blocked",
            "unblock": "goes on",
            "leave": f"leaves {event.group}",
            "join": f"joins {event.group}",
            "request": f"asks to {event.detail.get('request', 'enter')} {event.group}",
        }
        return f"{event.process} {acts[event.kind]}" if event.kind in acts else None

    def _end(self, found: Standstill) -> Iterator[Step]:
        if found.ended_by is None:
            if (last := self._rows.last_row(found.process)) is not None:
                yield last, f"the history of {found.process} ends, and the message still waits", None
        elif (ended := self._rows.at(found.process, found.ended_by)) is not None:
            yield ended, f"{found.process} delivers {ended.name}, which ends the standstill", self._why.clause(ended)


def _what(found: Standstill) -> str:
    return f"{found.process} delivered nothing in {found.group} for {span(found.length)}"


def waited_for(rows: Rows, why: Why, found: Standstill) -> str:
    """What a member waited for: what blocked it, faults in force, the last crash, election, view or suspicion of that time."""
    clauses = [*_blocked(rows, found)]
    clauses += list(dict.fromkeys(map(_fault, why.faults_in_force(found.since, found.until))))[:_NAMED_MAX]
    where: dict[str, Any] = {"group": found.group, "after": found.since - 1, "until": found.until}
    crashes = dict.fromkeys(event.process for event in rows.find("crash", **where) if event.process != found.process)
    clauses += [f"the crash of {listed(crashes, most=_NAMED_MAX)}"] if crashes else []
    elected = [event for event in rows.find("elect", **where) if event.detail.get("stage") == "elected"]
    clauses += [f"the election of {event.process} at {rows.moment(event.when)}" for event in elected[-1:]]
    views = rows.find("view", process=found.process, **where)
    clauses += [f"view {event.view} {braces(event.members)} at {rows.moment(event.when)}" for event in views[-1:]]
    if not clauses:
        suspicions = rows.find("suspect", **where)
        clauses += [sentence(event, why.story) or f"a suspicion of {event.process}" for event in suspicions[-1:]]
    ended = rows.at(found.process, found.ended_by) if found.ended_by is not None else None
    because = why.clause(ended) if ended is not None and not clauses else None
    return "; ".join(clauses) or because or "the trace does not say"


def _fault(event: Event) -> str:
    process = event.detail.get("process")
    return f"fault: {fault_words(event.detail)}" + (f" at {process}" if isinstance(process, str) else "")


def _blocked(rows: Rows, found: Standstill) -> Iterator[str]:
    """What the member, or the sender that it waited for, was blocked by in that time."""
    for process in dict.fromkeys((found.process, found.sender)):
        opened: Event | None = None
        latest: Event | None = None
        for event in rows.find("block", "unblock", process=process, group=found.group, until=found.until):
            if event.kind == "block":
                opened = opened or event
                latest = event
            else:
                opened = None
                latest = latest if event.when > found.since else None
        if latest is not None:
            whose = "it" if process == found.process else process
            since = (opened or latest).when
            yield f"{whose} was blocked from {rows.moment(since)} on ({reason(latest.detail) or 'no reason given'})"
