"""What a verification says: outcomes, violations, and their JSON.

Reference checks write into a :class:`Report`, one for each (run, property). It counts what was examined, because a property
without a case has not been shown to hold, and puts the smallest and earliest violations first. A :class:`Result` adds up
reports, of one run or many.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import field
from operator import add
from typing import Any, Final, Literal

from ...core.model import GroupId, ProcessId
from ...trace.properties import PROPERTIES
from ...trace.schema import Malformed
from .facts import Event, Message, Place, Run, View
from .owing import Owing

MAX_SHOWN: Final = 20  # violations of one property that are described for each run; all are counted


@dataclasses.dataclass(frozen=True, slots=True)
class Violation:
    """One way in which a run breaks a property, with everything a person needs to find it in the trace."""

    run: str
    property: str
    group: GroupId | None
    processes: tuple[ProcessId, ...]
    messages: tuple[Message, ...]
    events: tuple[Place, ...]
    sentence: str

    def __str__(self) -> str:
        return f"{self.run}: {self.property}: {self.sentence}"

    def to_json(self) -> dict[str, Any]:
        """Messages become [group, sender, seq], events [process, index]."""
        messages, events = ([list(each) for each in several] for several in (self.messages, self.events))
        places = {"processes": list(self.processes), "messages": messages, "events": events}
        return {"run": self.run, "property": self.property, "group": self.group, **places, "sentence": self.sentence}


@dataclasses.dataclass(frozen=True, slots=True)
class Outcome:
    """What was found about one property: runs it was checked in, their events, cases examined, violations.

    Of some runs only a portion may have been searched (``in_part``). Then there are at least so many cases and violations, and a
    property without a violation is not decided."""

    runs: int = 0
    events: int = 0
    cases: int = 0
    violations: int = 0
    in_part: int = 0  # how many of the runs were searched in part

    @property
    def verdict(self) -> Literal["holds", "violated", "unknown", "nothing to check"]:
        if self.violations:
            return "violated"
        if self.in_part:
            return "unknown"
        return "holds" if self.cases else "nothing to check"

    def __add__(self, other: Outcome) -> Outcome:
        return Outcome(*map(add, dataclasses.astuple(self), dataclasses.astuple(other)))

    def to_json(self) -> dict[str, int]:
        """``in_part`` is there where it is not 0."""
        found = dataclasses.asdict(self)
        return found if self.in_part else {name: found[name] for name in found if name != "in_part"}


@dataclasses.dataclass(frozen=True, slots=True)
class Verification:
    """The result of :func:`plainchant.lab.properties.verify`."""

    properties: Mapping[str, Outcome]
    violations: Sequence[Violation] = ()
    malformed: Sequence[Malformed] = ()
    warnings: Sequence[str] = ()  # what a person should know though it is no violation, such as members that were not observed

    @property
    def verdict(self) -> Literal["holds", "violated", "unknown", "malformed"]:
        if self.malformed:
            return "malformed"
        if self.violations:
            return "violated"
        return "unknown" if any(outcome.verdict == "unknown" for outcome in self.properties.values()) else "holds"

    @property
    def ok(self) -> bool:
        return self.verdict == "holds"

    def to_json(self) -> dict[str, Any]:
        """The object that TRACE.md describes."""
        return {
            "verdict": self.verdict,
            "properties": {name: outcome.to_json() for name, outcome in self.properties.items()},
            "violations": [violation.to_json() for violation in self.violations],
            "malformed": [problem.to_json() for problem in self.malformed],
        }


class Report:
    """Where the check of one property writes what it examined and found in one run."""

    def __init__(self, run: Run, owing: Owing, name: str, *, until_end: bool) -> None:
        self.run = run
        self.owing = owing
        self.name = name
        self.until_end = until_end  # check clauses about ``end``: the run was drained, or the property asked for
        self.cases = 0
        self._found: dict[tuple[Any, ...], Violation] = {}

    def violation(
        self,
        sentence: str,
        *,
        events: Sequence[Event | Place],
        group: GroupId | None = None,
        processes: Sequence[ProcessId] = (),
        messages: Sequence[Message] = (),
    ) -> None:
        """Records a violation. Processes of the events and their messages' groups need not be said again."""
        places = tuple(event.place if isinstance(event, Event) else event for event in events)
        involved = tuple(dict.fromkeys((*processes, *(process for process, _ in places))))
        if group is None and messages and len({message[0] for message in messages}) == 1:
            group = messages[0][0]
        found = Violation(self.run.name, self.name, group, involved, tuple(messages), places, sentence)
        self._found.setdefault((places, tuple(messages), sentence), found)

    @property
    def count(self) -> int:
        return len(self._found)

    def limit(self, most: int) -> None:
        """Forgets all but the first violations that would be shown."""
        kept = {(v.events, v.messages, v.sentence): v for _, v in self.shown(most)}
        self._found = dict(kept)

    def shown(self, most: int | None = MAX_SHOWN) -> list[tuple[tuple[Any, ...], Violation]]:
        """The violations to describe, with the key that puts small and early ones first; None: all of them."""
        keyed: list[tuple[tuple[Any, ...], Violation]] = []
        for found in self._found.values():
            seen_at = max((self.run.when(place) for place in found.events), default=0)
            key = (len(found.messages) + len(found.events), seen_at, found.events, found.messages, found.sentence)
            keyed.append((key, found))
        return sorted(keyed, key=lambda pair: pair[0])[:most]


@dataclasses.dataclass(slots=True)
class Result:
    """What one run or several come to."""

    outcomes: dict[str, Outcome] = field(default_factory=dict)
    violations: list[tuple[tuple[Any, ...], Violation]] = field(default_factory=list)  # with the keys that order them
    warnings: list[str] = field(default_factory=list)
    malformed: list[Malformed] = field(default_factory=list)

    def add_report(
        self, report: Report, checked: int, events: int, most: int | None = MAX_SHOWN, *, in_part: bool = False
    ) -> None:
        """Adds a property of a run with that many ``events``; ``checked`` is 0 if the run was not fit for it."""
        outcome = Outcome(checked, checked * events, report.cases, report.count, int(in_part))
        self.outcomes[report.name] = self.outcomes.get(report.name, Outcome()) + outcome
        place = (report.run.name, report.name)
        self.violations += [((*key[:2], *place, *key[2:]), violation) for key, violation in report.shown(most)]

    def add(self, other: Result) -> None:
        for name, outcome in other.outcomes.items():
            self.outcomes[name] = self.outcomes.get(name, Outcome()) + outcome
        self.violations += other.violations
        self.warnings += other.warnings
        self.malformed += other.malformed

    def verification(self, asked: Sequence[str] | None) -> Verification:
        """The result in the order of the properties and of the violations; with what is malformed there is no verdict."""
        outcomes = {name: Outcome() for name in PROPERTIES if asked is not None and name in asked}
        if self.malformed:
            return Verification(outcomes, malformed=tuple(self.malformed))
        outcomes.update(self.outcomes)
        ordered = {name: outcomes[name] for name in PROPERTIES if name in outcomes}
        shown = sorted(self.violations, key=lambda pair: pair[0])
        return Verification(ordered, tuple(violation for _, violation in shown), (), tuple(self.warnings))


def say(message: Message) -> str:
    """A message, for a sentence."""
    group, sender, seq = message
    return f"message {seq} of {sender} in {group}"


def said_view(view: View | None) -> str:
    return "no view" if view is None else str(view)
