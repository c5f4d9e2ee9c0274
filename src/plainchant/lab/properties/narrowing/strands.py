"""The message rows of every history of a run, of any kind: which message each is about.

Messages are numbered through the run: those of one group and sender are consecutive, in the order of their numbers. There is a
message for each that was sent, and for each that is delivered though no row tells that it was sent.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ..certificates.columns import Ints, Mask, stable_order, starts_of
from ..certificates.evidence import Evidence
from ..certificates.ranges import Range
from ..certificates.woven import Woven
from ..facts import History

Key: TypeAlias = tuple[str, str]  # (group, sender)


@dataclasses.dataclass(slots=True)
class Strand:
    """The message rows of one history."""

    history: History
    groups: NDArray[Any]  # of each row, as places in ``Strands.groups``
    codes: NDArray[Any]  # 0 for a send, else 1 + the sender's place in ``Strands.senders``
    is_send: Mask
    messages: Ints
    is_first: Mask  # rows that deliver what the process has not delivered before


class Strands:
    """The numbered rows of a run."""

    def __init__(self, evidence: Evidence, woven: Woven) -> None:
        self.evidence = evidence
        self.groups, self.senders = woven.groups, woven.senders
        self._woven = woven
        self._count()
        self.all = [self._strand(history) for history in evidence.facts.all]

    def _count(self) -> None:
        """Finds all messages, and gives those of each group and sender their place."""
        evidence = self.evidence
        sent = {(group, sender): spans[-1].high for (sender, group), spans in evidence.sent.items()}
        beyond: dict[Key, list[Ints]] = {}
        for (_, group), by_sender in evidence.delivered.items():
            for sender, intervals in by_sender.items():
                last = sent.setdefault((group, sender), 0)
                for low, high in ((each.low, each.high) for each in intervals):
                    if low < 1 or high > last:
                        numbers = np.arange(low, high + 1)
                        beyond.setdefault((group, sender), []).append(numbers[(numbers < 1) | (numbers > last)])
        self.keys: list[Key] = sorted(sent)
        self.places: dict[Key, int] = {key: place for place, key in enumerate(self.keys)}
        self.sent = sent
        parts: list[Ints] = []
        for key in self.keys:
            numbers = np.arange(1, sent[key] + 1)
            if key in beyond:
                numbers = np.union1d(np.concatenate(beyond[key]), numbers)
            parts.append(numbers)
        self.counts: Ints = np.array([len(part) for part in parts], np.int64)
        self.bases: Ints = np.cumsum(self.counts) - self.counts
        self.numbers: Ints = np.concatenate([np.zeros(0, np.int64), *parts])
        self.size = len(self.numbers)
        self.odd: dict[Key, Ints] = {key: np.unique(np.concatenate(found)) for key, found in beyond.items()}

    def of(self, key: Key, numbers: Ints) -> Ints:
        """The messages of some numbers."""
        place = self.places[key]
        first, count = int(self.bases[place]), int(self.counts[place])
        if key not in self.odd:
            return numbers + (first - 1)
        return first + np.searchsorted(self.numbers[first : first + count], numbers)

    def numbers_of(self, key: Key) -> Ints:
        """The numbers of a sender's messages in a group."""
        first = int(self.bases[self.places[key]])
        return self.numbers[first : first + int(self.counts[self.places[key]])]

    def within(self, key: Key, low: int, high: int) -> Ints:
        """The messages with numbers from one to another."""
        if key not in self.places:
            return np.zeros(0, np.int64)
        place = self.places[key]
        first, count = int(self.bases[place]), int(self.counts[place])
        begin, end = np.searchsorted(self.numbers[first : first + count], (low, high + 1))
        return np.arange(first + begin, first + end)

    def key_of(self, messages: Ints) -> Ints:
        """The places of the keys of some messages."""
        return np.searchsorted(self.bases + self.counts, messages, side="right")

    def ranges(self, messages: Iterable[int]) -> dict[Key, tuple[Range, ...]]:
        """Some messages as ranges of numbers."""
        chosen = np.unique(np.fromiter(messages, np.int64))
        found: dict[Key, tuple[Range, ...]] = {}
        if not len(chosen):
            return found
        keys, numbers = self.key_of(chosen), self.numbers[chosen]
        starts = starts_of(np.diff(keys) != 0, np.diff(numbers) != 1)
        ends = np.append(starts[1:], len(chosen)) - 1
        for key, low, high in zip(keys[starts].tolist(), numbers[starts].tolist(), numbers[ends].tolist(), strict=True):
            found[self.keys[key]] = (*found.get(self.keys[key], ()), (low, high))
        return found

    def deliveries(self, strand: Strand, group: str | None = None) -> Ints:
        """What a process delivers, of a group or all, each message once, in order."""
        chosen = strand.is_first
        if group is not None and len(self.groups) > 1:
            chosen = chosen & (strand.groups == self.groups.index(group))
        return strand.messages[chosen]

    def streams(self, strand: Strand) -> Iterator[Ints]:
        """What a process delivers of each sender in each group, each message once, in order."""
        mine = self.deliveries(strand)
        if not len(mine):
            return
        keys = self.key_of(mine)
        order = stable_order(keys, len(self.keys))
        starts = starts_of(np.diff(keys[order]) != 0).tolist()
        for first, last in zip(starts, [*starts[1:], len(mine)], strict=True):
            yield mine[order[first:last]]

    def _strand(self, history: History) -> Strand:
        plain = self._woven.strand(history.name)
        groups = plain.groups
        is_send = plain.senders == 0
        messages = np.empty(len(groups), np.int64)
        for group in np.unique(groups[is_send]).tolist():
            key = self.groups[group], history.name
            at = np.flatnonzero(is_send & (groups == group))
            messages[at] = self.of(key, np.arange(1, len(at) + 1))
        at, found = self._woven.numbered(history.name)
        for each in found:
            messages[at[each.places]] = self.of((each.group, each.sender), each.numbers)
        is_first = ~is_send
        delivered = messages[at]
        where = np.full(self.size, -1, np.int64)
        where[delivered[::-1]] = at[::-1]
        is_first[at[where[delivered] != at]] = False
        return Strand(history, groups, plain.senders, is_send, messages, is_first)
