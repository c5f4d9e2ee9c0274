"""What the checks on a growing trace share: what is remembered of a run (histories, letters, views), and the book of what they
find in it.

A violation that depends on how the run goes on is kept with its conditions, and asked for them each time the book is read. Of
each property and each set of conditions a few violations are described and all are counted, so a book stays small, and a
violation that stands is never hidden behind those that were withdrawn.
"""

from __future__ import annotations

import dataclasses
from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import field
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from ...trace.fact import Fact
from ...trace.properties import PROPERTIES
from .facts import Message, Place, View

DESCRIBED: Final = 10  # violations of a property with the same conditions that are described; the others are counted
ViewId: TypeAlias = int  # a view (group, number, set of members) by the order in which it was first seen


class Condition(NamedTuple):
    """A violation stands as long as this process has no crash, no timing fault, no leave of that group, no fault of its clock, or
    sends what it accepts in that group, in order."""

    kind: Literal["crash", "timing", "leave", "clock", "untaken"]
    process: str
    group: str | None = None

    def __str__(self) -> str:
        what = {"crash": "crashes", "timing": "has a timing fault", "clock": "has a timing fault, or its clock is set"}
        what |= {"leave": f"leaves {self.group}", "untaken": f"is not admitted in {self.group}, or sends out of order"}
        return f"{self.process} {what[self.kind]}"


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
        events, messages = ([list(each) for each in several] for several in (self.events, self.messages))
        told = {"property": self.property, "group": self.group, "sentence": self.sentence, "events": events}
        return {**told, "messages": messages, "unless": [str(condition) for condition in self.unless], "time": self.time}


@dataclasses.dataclass(slots=True)
class _Shelf:
    """The violations of one property that stand on the same conditions."""

    count: int = 0
    described: list[Finding] = field(default_factory=list)


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


class Intervals:
    """A set of numbers as intervals: what a process has delivered of one sender is nearly always one.

    >>> numbers = Intervals()
    >>> [numbers.add(each) for each in (1, 2, 4, 2, 3)], numbers.spans
    ([True, True, True, False, True], [[1, 4]])
    """

    __slots__ = ("spans",)

    def __init__(self) -> None:
        self.spans: list[list[int]] = []

    def __contains__(self, number: int) -> bool:
        place = bisect_right(self.spans, number, key=lambda span: span[0]) - 1
        return place >= 0 and number <= self.spans[place][1]

    def add(self, number: int) -> bool:
        """Whether it was not there yet."""
        spans = self.spans
        if spans and number == spans[-1][1] + 1:
            spans[-1][1] = number
            return True
        place = bisect_right(spans, number, key=lambda span: span[0]) - 1
        if place >= 0 and number <= spans[place][1]:
            return False
        if place >= 0 and number == spans[place][1] + 1:
            spans[place][1] = number
        else:
            place += 1
            spans.insert(place, [number, number])
        if place + 1 < len(spans) and spans[place + 1][0] == number + 1:
            spans[place][1] = spans.pop(place + 1)[1]
        return True

    @property
    def highest(self) -> int:
        return self.spans[-1][1] if self.spans else 0

    def difference(self, other: Intervals) -> int | None:
        """The smallest number that is here and not in the other set."""
        for low, high in self.spans:
            number = low
            while number <= high:
                place = bisect_right(other.spans, number, key=lambda span: span[0]) - 1
                if place < 0 or number > other.spans[place][1]:
                    return number
                number = other.spans[place][1] + 1
        return None


@dataclasses.dataclass(slots=True)
class Delivery:
    """The first delivery of a message at a process."""

    index: int
    view: ViewId | None
    time: int
    true_time: int | None
    deadline: int | None


@dataclasses.dataclass(slots=True)
class Sent:
    """Where a message was sent."""

    index: int
    view: ViewId | None
    time: int
    true_time: int | None
    deadline: int | None
    size: int | None


@dataclasses.dataclass(slots=True)
class Letter:
    """What is known of a message that some member has not passed yet."""

    message: Message
    sent: Sent | None = None
    delivered: dict[str, Delivery] = field(default_factory=dict)
    digest: int | None = None
    digest_at: tuple[str, int] | None = None  # where that digest was first seen
    rejected: list[tuple[str, int]] = field(default_factory=list)


@dataclasses.dataclass(slots=True)
class Installed:
    """A ``view`` row; ``stay`` counts the leaves before it."""

    view: ViewId
    index: int
    stay: int
    time: int
    true_time: int | None


@dataclasses.dataclass(slots=True)
class History:
    """One process, as far as its history is known."""

    name: str
    expected: int = 0  # index of the next row
    early: dict[int, Fact] = field(default_factory=dict)  # facts that came before those that precede them
    time: int = 0
    true_time: int | None = None
    in_force: dict[str, ViewId] = field(default_factory=dict)
    views: dict[str, list[Installed]] = field(default_factory=dict)
    installed: dict[ViewId, int] = field(default_factory=dict)  # index of the first installation of each view
    member: dict[str, bool] = field(default_factory=dict)  # by group, once it was a member: whether it is one now
    leaves: dict[str, list[int]] = field(default_factory=dict)
    sent: dict[str, int] = field(default_factory=dict)  # the highest number of its own messages in each group
    delivered: dict[tuple[str, str], Intervals] = field(default_factory=dict)  # by group and sender: numbers
    last: dict[tuple[str, str], tuple[int, int]] = field(default_factory=dict)  # by group and sender: number, index
    taking_part: bool = False
    crashed: bool = False
    ended: bool = False
    untimely: bool = False

    @property
    def final(self) -> bool:
        """Nothing can follow."""
        return self.crashed or self.ended

    @property
    def is_cut(self) -> bool:
        """If nothing followed, this history would have no end."""
        return not (self.final or (bool(self.leaves) and not self.taking_part))

    def has_passed(self, message: Message) -> bool:
        """Whether it has delivered this message, or a later one of its sender."""
        group, sender, seq = message
        mine = self.delivered.get((group, sender))
        return mine is not None and mine.highest >= seq


class RunState:
    """What the checks read of a run: its histories, its views, the messages that it has not yet passed."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.round = 0  # rounds of reading that are over
        self.late = 0  # what could not be compared, because what it belongs to is forgotten
        self.book = Book()
        self.bounds: dict[str, int] = {}
        self.histories: dict[str, History] = {}
        self.letters: dict[Message, Letter] = {}
        self.views: list[View] = []
        self.declared: set[str] = set()  # groups of which a join or a view is known
        self.named: set[tuple[str, str]] = set()  # (group, process): the process is in a view of the group or has joined it

    def owes(self, history: History, letter: Letter, at: int) -> bool:
        """Whether a process certainly owes a message up to its event ``at``: it installed the view in force at the ``send``
        and, as far as anything is known, neither of the two has left or installed a view without the other since. (If the sender
        did, it depends on what was known of it: only the end decides.)"""
        sent = letter.sent
        if sent is None or sent.view is None:
            return False
        group, sender, _ = letter.message
        since = history.installed.get(sent.view)
        if since is None or since > at:
            return False
        if any(since < left <= at for left in history.leaves.get(group, ())):
            return False
        if sender == history.name:
            return True
        parted = self._drops(history, group, sender, since, at)
        return not (parted or self._drops(self.histories[sender], group, history.name, sent.index))

    def _drops(self, history: History, group: str, other: str, after: int, upto: int | None = None) -> bool:
        """Whether it installed a view without another process after an event and up to another."""
        lacking = [each.index for each in history.views.get(group, ()) if other not in self.views[each.view].members]
        return any(after < index and (upto is None or index <= upto) for index in lacking)
