"""The order of the ring as one member has it: which packet is next (4.2), and what a packet that is not says.

The order is turn after turn around the ring, and within a turn by number. After a packet that is not the last of its turn its
sender's next number is due; after the last one that of the ring's next member, whose turn bears the next visit. Every member says
something in every turn, so nothing can be missing unnoticed.

A change that eliminates members explains why their turns are missing. It says how far each of them had come (``out``) and which
turn was the last that anybody spoke in (``after``). Who stands exactly there has missed nothing and goes on (the "false omission"
of 4.2); who stands before misses something; who has more than the change knows of must stop, for the others will never have it.
A member may also die after a heartbeat of whose turn no data packet has reached any member. Then no member can repair that turn:
turns of eliminated members (``gone``) that have no packets left are passed over.

Nothing here sends, waits or knows of time: :class:`Order` is asked and told.
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Mapping

from ...core.model import ProcessId
from .packets import Ask, Change, Data


class Place(enum.Enum):
    """Where a packet stands in the order."""

    NEXT = "next"
    OLD = "old"
    EARLY = "early"
    CONTRADICTS = "contradicts"


@dataclasses.dataclass(slots=True, eq=False)
class Order:
    """The ordered part of a member's knowledge: the ring at this place of the order, the sequence vector M, whose turn it is."""

    members: tuple[ProcessId, ...]
    numbers: int
    _: dataclasses.KW_ONLY
    visit: int
    holder: ProcessId
    complete: bool
    seqs: dict[ProcessId, int]  # M: the last number of each member that is in order
    rank: int = 0  # How many packets there were in the order so far
    gone: Mapping[ProcessId, int] = dataclasses.field(default_factory=dict)
    """Members that were eliminated by a change that is not in order yet, as far as is known, and their last numbers."""
    _following: ProcessId = ""

    def __post_init__(self) -> None:
        self.seqs = dict(self.seqs)
        self._following = self._after(self.holder)

    def _after(self, process: ProcessId) -> ProcessId:
        place = self.members.index(process)
        return self.members[(place + 1) % len(self.members)]

    def following(self, seq: int) -> int:
        return (seq + 1) % self.numbers

    def ahead(self, one: int, other: int) -> int:
        """How far a number is ahead of another; negative: behind. Numbers that roll over compare over half their range."""
        distance = (one - other) % self.numbers
        return distance if distance <= self.numbers // 2 else distance - self.numbers

    def lacks(self, process: ProcessId, seq: int) -> bool:
        """Whether a packet is still to come in the order."""
        return process in self.seqs and self.ahead(seq, self.seqs[process]) > 0

    def place(self, data: Data) -> Place:
        """Where a packet stands. A change that would be next, on a ring with a member that is gone here, comes from a member that
        has not heard of its removal: two members eliminated others at the same time."""
        place, change = self._place(data), data.word
        if place is Place.NEXT and isinstance(change, Change) and not {*self.members, *change.joined}.issuperset(change.ring):
            return Place.CONTRADICTS
        return place

    def _place(self, data: Data) -> Place:
        if data.visit < self.visit:
            return Place.OLD
        known = self.seqs.get(data.sender)
        if known is None or data.sender not in self.members:
            return Place.EARLY if data.visit > self.visit else Place.OLD
        ahead = self.ahead(data.seq, known)
        if ahead <= 0:
            return Place.OLD
        if data.visit == self.visit:
            if data.sender != self.holder:
                return Place.CONTRADICTS
            return Place.NEXT if ahead == 1 and not self.complete else Place.EARLY
        if isinstance(data.word, Change) and data.word.out:
            return self._explained(data.word, ahead)
        expected = ahead == 1 and self._at(data.visit) == data.sender and self._is_over(data.visit - 1, self.gone)
        return Place.NEXT if expected else Place.EARLY

    def _at(self, visit: int) -> ProcessId:
        """Whose turn one after the present one is."""
        return self.members[(self.members.index(self._following) + visit - self.visit - 1) % len(self.members)]

    def _is_over(self, visit: int, gone: Mapping[ProcessId, int]) -> bool:
        """Whether no packet is still to come in any turn up to one: there is none after the present turn, or they are of members
        that are gone."""

        def is_empty(process: ProcessId) -> bool:
            return process in gone and self.seqs.get(process) == gone[process]

        return (self.complete or is_empty(self.holder)) and all(is_empty(self._at(at)) for at in range(self.visit + 1, visit + 1))

    def _explained(self, change: Change, ahead: int) -> Place:
        """Whether an elimination explains all that lies between here and there."""
        gone = dict(change.out)
        differences = [self.ahead(last, self.seqs[process]) for process, last in change.out if process in self.seqs]
        if self.visit > change.after or any(difference < 0 for difference in differences):
            return Place.CONTRADICTS
        here = ahead == 1 and self._is_over(change.after, {**self.gone, **gone})
        return Place.NEXT if here and not any(differences) else Place.EARLY

    def step(self, data: Data) -> None:
        """Goes on by a packet that is next."""
        self.seqs[data.sender] = data.seq
        self.visit, self.holder, self.complete = data.visit, data.sender, data.last
        self.rank += 1
        self._following = self._after(data.sender)
        if isinstance(data.word, Change):
            self._change(data.word)

    def _change(self, change: Change) -> None:
        following, before, self.members = self._following, self.members, change.ring
        for process in change.joined:
            self.seqs[process] = self.numbers - 1
        for process in [process for process in self.seqs if process not in change.ring]:
            del self.seqs[process]
        if self.holder in change.ring:
            self._following = self._after(self.holder)
        else:
            place = before.index(self.holder)
            order = (*before[place + 1 :], *before[:place])
            self._following = next((process for process in order if process in change.ring), following)

    def missing(
        self, heard: int, have: Mapping[ProcessId, set[int]], ends: Mapping[int, int], out: Mapping[ProcessId, int]
    ) -> list[Ask]:
        """What lies between here and the turns heard of, and is not there: ``have`` are the numbers of packets that came too
        early, ``ends`` the last numbers of turns whose heartbeat was heard, ``out`` those of members that were eliminated. The
        turn ``heard`` may go on still."""
        asks: list[Ask] = []
        members = self.members
        if self.holder in members:
            index = members.index(self.holder)
            walk = [(self.visit, self.holder)] if not self.complete else []
        else:
            index = members.index(self._following) - 1
            walk = []
        for visit in range(self.visit + 1, min(heard, self.visit + len(members)) + 1):
            walk.append((visit, members[(index + visit - self.visit) % len(members)]))
        for visit, process in walk:
            ask = self._ask(process, visit, heard, have.get(process, set()), ends, out)
            if ask is not None and all(ask[0] != other for other, _, _ in asks):
                asks.append(ask)
        return asks

    def _ask(
        self, process: ProcessId, visit: int, heard: int, have: set[int], ends: Mapping[int, int], out: Mapping[ProcessId, int]
    ) -> Ask | None:
        first = self.following(self.seqs[process])
        while first in have:
            first = self.following(first)
        if process in out:
            last = out[process]
        elif visit in ends:
            last = ends[visit]
        elif visit < heard:
            return process, first, -1
        else:
            later = [seq for seq in have if self.ahead(seq, first) > 0]
            if not later:
                return None
            last = (max(later, key=lambda seq: self.ahead(seq, first)) - 1) % self.numbers
        while last in have and self.ahead(last, first) >= 0:
            last = (last - 1) % self.numbers
        return (process, first, last) if self.ahead(last, first) >= 0 else None
