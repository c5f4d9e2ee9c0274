"""What each process delivers, message by message, where no one sequence is common to all: a group that partitions and merges has
several views at a time, and its members deliver with holes.

A strand (``woven``) gives the group and the sender of each delivery, the sets (``evidence``) its number: so a history is an array
of messages, each a small integer, and orders are compared as they are defined, without regard to views. To show that the union of
all orders has no cycle, messages are taken one by one, each when it is the next one of all processes that deliver it. Memory and
time grow with the number of deliveries, about a microsecond each.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from ..certificates.columns import Ints
from ..certificates.evidence import Doubtful, Evidence
from ..certificates.woven import Woven
from ..facts import History


class Sequences:
    """The deliveries of all histories of a run; Doubtful if a process delivers a message twice or out of order."""

    def __init__(self, evidence: Evidence, woven: Woven) -> None:
        if evidence.sets is None:
            raise Doubtful
        self._names = [history.name for history in evidence.facts.all]
        bases: dict[tuple[str, str], int] = {}  # by group and sender: the message of number 0
        highest: dict[tuple[str, str], int] = {}
        for (_, group), by_sender in evidence.sets.items():
            for sender, ranges in by_sender.items():
                highest[group, sender] = max(ranges[-1][1], highest.get((group, sender), 0))
        self._columns: dict[str, list[tuple[int, int]]] = {}  # by group: where its messages lie
        size = 0
        for (group, sender), high in highest.items():
            bases[group, sender] = size - 1
            self._columns.setdefault(group, []).append((size, size + high))
            size += high
        self._size = size
        self.delivered: list[Ints] = []  # by process: its deliveries of all groups, in order
        for name in self._names:
            at, found = woven.numbered(name)
            messages = np.empty(len(at), np.int64)
            for group, sender, numbers, places in found:
                messages[places] = numbers + bases[group, sender]
            self.delivered.append(messages)

    @cached_property
    def _who(self) -> NDArray[np.float32]:
        """Which process (row) delivers which message (column). Sums of these are whole numbers below 2 to the 24th, or are not
        asked for exactly: two or more is all that counts."""
        who = np.zeros((len(self._names), self._size), np.float32)
        for place, messages in enumerate(self.delivered):
            who[place, messages] = 1
        return who

    @cached_property
    def _is_shared(self) -> NDArray[np.bool_]:
        counts = np.zeros(self._size, np.int32)
        for messages in self.delivered:
            counts[messages] += 1
        found: NDArray[np.bool_] = counts > 1
        return found

    @property
    def shared(self) -> int:
        """Messages that more than one process delivers."""
        return int(np.count_nonzero(self._is_shared))

    def pairs(self, histories: Sequence[History], group: str | None = None) -> int:
        """Pairs of processes with an order to compare, two messages or more in common, of one group or of all; Doubtful if some
        two differ."""
        chosen = [place for place, name in enumerate(self._names) if any(name == history.name for history in histories)]
        who = self._who[chosen]
        if group is not None:
            columns = [np.arange(low, high) for low, high in self._columns.get(group, ())]
            who = who[:, np.concatenate(columns)] if columns else who[:, :0]
        common = who @ who.T
        compared = [(p, q) for p, q in combinations(range(len(chosen)), 2) if common[p, q] >= 2]
        if compared and not self.is_acyclic:
            for p, q in compared:
                self._compare(chosen[p], chosen[q], group)
        return len(compared)

    def _compare(self, p: int, q: int, group: str | None) -> None:
        where = np.full(self._size, -1, np.int64)
        where[self.delivered[q]] = np.arange(len(self.delivered[q]))
        mine = self.delivered[p]
        if group is not None:
            of_group = np.zeros(self._size, np.bool_)
            for low, high in self._columns.get(group, ()):
                of_group[low:high] = True
            mine = mine[of_group[mine]]
        theirs = where[mine]
        if (np.diff(theirs[theirs >= 0]) < 0).any():
            raise Doubtful

    @cached_property
    def is_acyclic(self) -> bool:
        """Whether all shared messages can be taken, each as the next one of all who deliver it."""
        sequences = [messages[self._is_shared[messages]].tolist() for messages in self.delivered]
        missing: dict[int, int] = {}
        for messages in sequences:
            for message in messages:
                missing[message] = missing.get(message, 0) + 1
        waiting: dict[int, list[int]] = {}
        heads = [iter(messages) for messages in sequences]
        work = list(range(len(sequences)))
        while work:
            place = work.pop()
            message = next(heads[place], None)
            if message is None:
                continue
            missing[message] -= 1
            waiting.setdefault(message, []).append(place)
            if not missing[message]:
                del missing[message]
                work += waiting.pop(message)
        return not missing
