"""What checkers find: cases, violations, and the conditions on which a violation stands.

A violation that depends on how the run goes on is kept with its conditions, and asked for them each time the book is read. Of
each property and each set of conditions a few violations are described and all are counted, so a book stays small, and
a violation that stands is never hidden behind those that were withdrawn.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, Final, Literal, NamedTuple

from ....trace.properties import PROPERTIES
from ..facts import Message, Place

DESCRIBED: Final = 10  # violations of a property with the same conditions that are described; the others are counted


class Condition(NamedTuple):
    """A violation stands as long as this process has no crash, no timing fault, no leave of that group, no fault of its clock, or
    sends what it accepts in that group, in order."""

    kind: Literal["crash", "timing", "leave", "clock", "untaken"]
    process: str
    group: str | None = None

    def __str__(self) -> str:
        what = {
            "crash": "crashes",
            "timing": "has a timing fault",
            "leave": f"leaves {self.group}",
            "clock": "has a timing fault, or its clock is set",
            "untaken": f"is not admitted in {self.group}, or sends out of order",
        }[self.kind]
        return f"{self.process} {what}"


@dataclasses.dataclass(frozen=True, slots=True)
class Finding:
    """A violation, with what a person needs to find it in the trace."""

    property: str
    group: str | None
    sentence: str
    events: tuple[Place, ...]
    messages: tuple[Message, ...]
    unless: tuple[Condition, ...]  # it is withdrawn if one of these comes true
    time: int  # of its last event, by the clock of the process where that happened; ns

    def to_json(self) -> dict[str, Any]:
        return {
            "property": self.property,
            "group": self.group,
            "sentence": self.sentence,
            "events": [list(place) for place in self.events],
            "messages": [list(message) for message in self.messages],
            "unless": [str(condition) for condition in self.unless],
            "time": self.time,
        }


@dataclasses.dataclass(slots=True)
class _Shelf:
    """The violations of one property that stand on the same conditions."""

    count: int = 0
    described: list[Finding] = dataclasses.field(default_factory=list)


class Book:
    """What was examined and found in one run."""

    def __init__(self) -> None:
        self.cases: dict[str, int] = {}
        self._shelves: dict[tuple[str, tuple[Condition, ...]], _Shelf] = {}

    def case(self, name: str, count: int = 1) -> None:
        self.cases[name] = self.cases.get(name, 0) + count

    def violation(
        self,
        name: str,
        sentence: str,
        time: int,
        events: Sequence[Place],
        *,
        group: str | None = None,
        messages: Sequence[Message] = (),
        unless: Sequence[Condition] = (),
    ) -> None:
        shelf = self._shelves.setdefault((name, tuple(unless)), _Shelf())
        shelf.count += 1
        if len(shelf.described) < DESCRIBED:
            named = group if group is not None or not messages else messages[0][0]
            shelf.described.append(Finding(name, named, sentence, tuple(events), tuple(messages), tuple(unless), time))

    def standing(self, holds: Callable[[Condition], bool]) -> tuple[dict[str, int], list[Finding]]:
        """How many violations of each property stand, and some of them, the earliest first; ``holds``: a condition came true."""
        return self._those(lambda unless: not any(map(holds, unless)))

    def withdrawn(self, holds: Callable[[Condition], bool]) -> tuple[dict[str, int], list[Finding]]:
        """The same of those that do not stand any more."""
        return self._those(lambda unless: any(map(holds, unless)))

    def _those(self, wanted: Callable[[tuple[Condition, ...]], bool]) -> tuple[dict[str, int], list[Finding]]:
        counts: dict[str, int] = {}
        found: list[Finding] = []
        for (name, unless), shelf in self._shelves.items():
            if wanted(unless):
                counts[name] = counts.get(name, 0) + shelf.count
                found += shelf.described
        places = {name: place for place, name in enumerate(PROPERTIES)}
        return counts, sorted(found, key=lambda finding: (finding.time, places[finding.property], finding.events))
