"""What messages carry for the causal orders (ch. 5), and what it makes them wait for.

Theory of operation
-------------------
A :class:`Vectors` stamps what is sent, says which dependency of a received message is not met, and learns from what is
delivered. A dependency is met when a column is *settled* up to a block (everything of that member is here and delivered), or a
whole matrix is. There is one block counter a process for every order: then m -> m' implies m.b < m'.b, whatever the groups, so
that a message waits only for messages with smaller numbers, and nothing can wait in a circle. (Relative order with a
counter a group, as 5.6 has it, can; see docs/errata.md.)

- :class:`Keyed` (fast): a number for each (process, group). As early as possible: what a message that is here waits for is a
  message that happened before it, nothing else. (Over a lossy transport it is here when its column has no gap before it.)
- :class:`Compact` (fast): a number for each process (GLDV, 5.5), as printed, except that a number of another group is
  settled by a null message of that process in *this* group: 4.4 has it send one. The wait is bounded by time-silence.
- :class:`Relative` (5.6): numbers of the members of the message's own group (LDV), one number for each other group (GBN).
- :class:`Counted` (CBCAST): counts of messages for each (process, group), to compare with.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, TypeAlias, TypeVar

from ...core.model import GroupId, ProcessId
from .matrix import Column
from .packets import Data, Vector
from .part import FORM, Part

Need: TypeAlias = tuple[Column | Part, int]  # something that has to be settled up to a number
# Groups that were closed, and processes that are gone, cannot be told from those known by hearsay only. The numbers of at most
# this many are passed on; those that have not changed for the longest time go first.
MOST: Final = 64
FORMATIONS: Final = 8  # formations of a group whose numbers are passed on: the latest
_T = TypeVar("_T")


def age(key: str) -> int:
    """The number of the first view of a formation."""
    number = key.partition(FORM)[2].partition(".")[0]
    return int(number) if number.isdecimal() and len(number) < 20 else 1


@dataclass(eq=False)
class Vectors(ABC):
    """One kind of causal order, for all groups of a process that have it."""

    me: ProcessId
    parts: Mapping[GroupId, Part]

    @abstractmethod
    def stamp(self, part: Part) -> Vector:
        """What a message that is sent now carries."""

    @abstractmethod
    def fits(self, part: Part, vector: Vector) -> bool:
        """Whether a vector has the shape of this order."""

    @abstractmethod
    def unmet(self, part: Part, packet: Data) -> Need | None:
        """A dependency that is not met here yet."""

    @abstractmethod
    def learn(self, part: Part, column: Column, packet: Data, nth: int) -> None:
        """The message, the n-th of its sender in the group, is delivered (or, one's own, sent)."""

    def is_met(self, column: Column, number: int) -> bool:
        return column.settled >= number

    @abstractmethod
    def within(self, part: Part, packet: Data) -> Iterator[tuple[Column, int]]:
        """What the message depends on in its own group."""

    def is_beyond(self, column: Column, number: int, cut: int) -> bool:
        """Whether that is lost, if nothing of the column after ``cut`` counts."""
        return number > cut

    def here(self, key: str) -> Part | None:
        """This process's part in that formation. (Nobody sends anything in a formation before all its members are in it: what
        this process is not in it has left, or never was in.)"""
        part = self.parts.get(key.partition(FORM)[0])
        return part if part is not None and part.key == key else None

    def keep(self, known: dict[str, _T], key: str, value: _T) -> None:
        """Keeps a value by the key of a formation: of each group's formations the latest, and the one that this process is in."""
        if key not in known:
            group = key.partition(FORM)[0]
            others = [one for one in known if one.partition(FORM)[0] == group]
            part = self.parts.get(group)
            if len(others) >= FORMATIONS:
                oldest = min([one for one in (*others, key) if part is None or one != part.key], key=age)
                if oldest == key:
                    return
                del known[oldest]
            elif len(known) >= MOST:
                mine = {part.key for part in self.parts.values()}
                del known[next((one for one in known if one not in mine), next(iter(known)))]
        known[key] = value

    def entered(self, part: Part) -> None:
        """The group is in a new formation: what was known by the columns of the one before is void."""
        return


@dataclass(eq=False)
class Keyed(Vectors):
    """Fast causal order with a number for each process and group."""

    known: dict[str, tuple[int, ...]] = field(default_factory=dict)  # by the key of a group's formation

    def stamp(self, part: Part) -> Vector:
        return tuple(self.known.items())

    def fits(self, part: Part, vector: Vector) -> bool:
        known = self.known
        for key, numbers in vector:
            here = self.here(key)
            if len(numbers) != len(here.matrix.roster if here is not None else known.get(key, numbers)):
                return False
        return True

    def within(self, part: Part, packet: Data) -> Iterator[tuple[Column, int]]:
        for key, numbers in packet.vector:
            if key == part.key:
                yield from zip(part.matrix.roster, numbers, strict=False)

    def unmet(self, part: Part, packet: Data) -> Need | None:
        for key, numbers in packet.vector:
            here = self.here(key)
            if here is not None:
                for column, number in zip(here.matrix.roster, numbers, strict=False):
                    if number and not self.is_met(column, number):
                        return column, number
        return None

    def learn(self, part: Part, column: Column, packet: Data, nth: int) -> None:
        for key, numbers in packet.vector:
            self.merge(key, numbers)
        mine = self.known.get(part.key) or (0,) * len(part.matrix.roster)
        place = column.index
        self.keep(self.known, part.key, (*mine[:place], max(mine[place], self.number(packet, nth)), *mine[place + 1 :]))

    def merge(self, key: str, numbers: tuple[int, ...]) -> None:
        """Keeps the larger numbers, also of groups that this process is not in: causes travel round cycles of groups."""
        mine = self.known.get(key)
        if mine is None:
            self.keep(self.known, key, numbers)
        elif mine != numbers:
            self.known[key] = tuple(map(max, mine, numbers))

    def number(self, packet: Data, nth: int) -> int:
        return packet.block


class Counted(Keyed):
    """CBCAST: vector clocks that count messages, one for each group."""

    def is_met(self, column: Column, number: int) -> bool:
        return column.count >= number or (column.cut is not None and not column.queue)

    def is_beyond(self, column: Column, number: int, cut: int) -> bool:
        return number > column.count + sum(1 for packet in column.queue if packet.block <= cut)

    def number(self, packet: Data, nth: int) -> int:
        return nth


@dataclass(eq=False)
class Compact(Vectors):
    """Fast causal order with one number for each process (GLDV)."""

    known: dict[ProcessId, int] = field(default_factory=dict)

    def stamp(self, part: Part) -> Vector:
        return tuple([(process, (number,)) for process, number in self.known.items()])

    def fits(self, part: Part, vector: Vector) -> bool:
        return all([len(numbers) == 1 for _, numbers in vector])

    def unmet(self, part: Part, packet: Data) -> Need | None:
        for process, (number,) in packet.vector:
            for here in self.parts.values():
                column = here.matrix.columns.get(process)
                if column is not None and here.kind == part.kind and not self.is_met(column, number):
                    return column, number
        return None

    def within(self, part: Part, packet: Data) -> Iterator[tuple[Column, int]]:
        for process, (number,) in packet.vector:
            column = part.matrix.columns.get(process)
            if column is not None:
                yield column, number

    def is_met(self, column: Column, number: int) -> bool:
        if column.process == self.me:  # what one has not sent in a group does not come
            return not column.queue or column.queue[0].block > number
        return column.settled >= number

    def learn(self, part: Part, column: Column, packet: Data, nth: int) -> None:
        known = self.known
        for process, (number,) in packet.vector:
            if number > known.get(process, 0) and self.keeps(process):
                known.pop(process, None)
                known[process] = number
        known[column.process] = max(known.pop(column.process, 0), packet.block)
        if len(known) > MOST:
            mine = {member for here in self.parts.values() for member in here.members}
            for process in [process for process in known if process not in mine][: len(known) - MOST]:
                del known[process]

    def keeps(self, process: ProcessId) -> bool:
        """Whose numbers are passed on: everybody's, also of those whom this process shares no group with (5.5, at the end)."""
        return True


@dataclass(eq=False)
class Relative(Vectors):
    """Relative causal order: numbers of the own group's members, one number for each other group."""

    last: dict[GroupId, list[int]] = field(default_factory=dict)  # LDV, by group: the last block of each member delivered or sent
    groups: dict[str, int] = field(default_factory=dict)  # GBN, by the key of a formation: the largest block delivered or sent

    def stamp(self, part: Part) -> Vector:
        last = self.last.get(part.group)
        own = (part.group, tuple(last) if last is not None else (0,) * len(part.matrix.roster))
        return (own, *[(key, (number,)) for key, number in self.groups.items() if key != part.key])

    def fits(self, part: Part, vector: Vector) -> bool:
        if not vector or vector[0][0] != part.group or len(vector[0][1]) != len(part.matrix.roster):
            return False
        return all([len(numbers) == 1 for _, numbers in vector[1:]])

    def within(self, part: Part, packet: Data) -> Iterator[tuple[Column, int]]:
        yield from zip(part.matrix.roster, packet.vector[0][1], strict=False)

    def entered(self, part: Part) -> None:
        self.last.pop(part.group, None)

    def unmet(self, part: Part, packet: Data) -> Need | None:
        (_, numbers), *others = packet.vector
        for column, number in zip(part.matrix.roster, numbers, strict=False):
            if number and not self.is_met(column, number):
                return column, number
        for key, (number,) in others:
            here = self.here(key)
            if here is not None and here.matrix.settled() < number:
                return here, number
        return None

    def learn(self, part: Part, column: Column, packet: Data, nth: int) -> None:
        _, *others = packet.vector
        groups = self.groups
        for key, (number,) in others:
            if number > groups.get(key, 0):
                self.keep(groups, key, number)
        self.keep(groups, part.key, max(groups.get(part.key, 0), packet.block))
        self.last.setdefault(part.group, [0] * len(part.matrix.roster))[column.index] = packet.block


VECTORS: Mapping[str, type[Vectors]] = {"keyed": Keyed, "compact": Compact, "relative": Relative, "cbcast": Counted}
