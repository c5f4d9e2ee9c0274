"""Where processes deliver in different orders, in runs of any kind: what ``identical``, ``total``, ``uniform`` and ``acyclic``
blame.

Two processes are compared as the reference checks do it: what both deliver, in the order of the one, and where that stands in
the other. Both of every two neighbours that stand the other way round are doubtful. Then messages that are neighbours among the
doubtful ones alone stand the other way round only if some neighbours between them do, and those are all doubtful: so the
doubtful messages alone show the same violations. Pairs are counted in the whole run.

A cycle lies in a *knot*, messages each of which comes before and after each other one. Whatever stands between two messages of
a knot belongs to it, so knots alone show the same shortest cycles.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ..certificates.columns import Ints
from ..certificates.evidence import Doubtful
from .doubts import MAX_DOUBTFUL, Doubts
from .strands import Strands


class Orders:
    """The delivery orders of a run, compared two by two."""

    def __init__(self, strands: Strands, doubts: Doubts) -> None:
        self.cases = dict.fromkeys(("identical", "uniform", "total"), 0)
        self._strands = strands
        self._doubts = doubts
        self._delivered = [strands.deliveries(strand) for strand in strands.all]
        self._groups = np.array([strands.groups.index(group) for group, _ in strands.keys], np.int64)
        where: NDArray[np.int32] = np.full(strands.size, -1, np.int32)
        taking_part = [set(np.unique(strand.groups).tolist()) for strand in strands.all]
        for q, theirs in enumerate(self._delivered):
            where[:] = -1
            where[theirs] = np.arange(len(theirs), dtype=np.int32)
            for p in range(q):
                if taking_part[p] & taking_part[q]:
                    self._compare(p, q, where)

    def _compare(self, p: int, q: int, where: NDArray[np.int32]) -> None:
        places = where[self._delivered[p]]
        is_common = places >= 0
        common, places = self._delivered[p][is_common], places[is_common]
        if len(common) < 2:
            return
        self.cases["total"] += 1
        descends = bool((np.diff(places) < 0).any())
        if descends:
            self._doubt(common, places)
        alive = not (self._strands.all[p].history.crashed or self._strands.all[q].history.crashed)
        groups = self._groups[self._strands.key_of(common)] if len(self._strands.groups) > 1 else np.zeros(len(common), np.int64)
        for group, count in enumerate(np.bincount(groups).tolist()):
            if count >= 2:
                self.cases["identical"] += alive
                self.cases["uniform"] += 1
                if descends and count < len(common):
                    self._doubt(common[groups == group], places[groups == group])

    def _doubt(self, common: Ints, places: NDArray[np.int32]) -> None:
        at = np.flatnonzero(np.diff(places) < 0)
        self._doubts.add(common[np.concatenate([at, at + 1])])


def knots(strands: Strands, doubts: Doubts) -> int:
    """Makes knots doubtful; returns how many messages are delivered by several processes.

    Messages are taken, each as the next one of all who deliver it. Where none can be, the next ones of some processes are before
    each other in a circle; all that is before these is looked through for knots, and taken."""
    every = [strands.deliveries(strand) for strand in strands.all]
    receivers = np.zeros(strands.size, np.int32)
    for delivered in every:
        receivers[delivered] += 1
    is_shared = receivers > 1
    merge = _Merge([delivered[is_shared[delivered]].tolist() for delivered in every], receivers.tolist())
    while merge.advance():
        window = merge.before_a_circle()
        doubts.add(_left_backwards(window))
        merge.take(window)
    return int(np.count_nonzero(is_shared))


class _Merge:
    """Orders of messages while they are merged to one."""

    def __init__(self, orders: Sequence[list[int]], missing: list[int]) -> None:
        self._orders = orders
        self._missing = missing  # by message: how many processes deliver it and are not there yet
        self._heads = [0] * len(orders)
        self._waiting: dict[int, list[int]] = {}  # by message: the processes whose next one it is
        self._taken: set[int] = set()  # messages that were taken before their turn
        self._work = list(range(len(orders)))
        self._places: list[NDArray[np.int32]] = []

    def advance(self) -> bool:
        """Takes what can be taken; returns whether something is left."""
        orders, heads, missing, waiting, work = self._orders, self._heads, self._missing, self._waiting, self._work
        while work:
            place = work.pop()
            mine, head = orders[place], heads[place]
            while head < len(mine) and mine[head] in self._taken:
                head += 1
            heads[place] = head
            if head == len(mine):
                continue
            message = mine[head]
            missing[message] -= 1
            waiting.setdefault(message, []).append(place)
            if not missing[message]:
                ready = waiting.pop(message)
                for other in ready:
                    heads[other] += 1
                work += ready
        return bool(waiting)

    def before_a_circle(self) -> list[list[int]]:
        """By process, the next messages, up to the last that is before one of a circle."""
        if not self._places:
            self._places = [self._where(mine) for mine in self._orders]
        seen: set[int] = set()
        message = min(self._waiting)
        while message not in seen:
            seen.add(message)
            behind = next(place for place in self._receivers(message) if self._next(place) != message)
            message = self._next(behind)
        ends = list(self._heads)
        found, work = {message}, [message]
        while work:
            message = work.pop()
            for place in self._receivers(message):
                upto = int(self._places[place][message]) + 1
                for other in self._orders[place][ends[place] : upto]:
                    if other not in found and other not in self._taken:
                        found.add(other)
                        work.append(other)
                ends[place] = max(ends[place], upto)
            if len(found) > MAX_DOUBTFUL:
                raise Doubtful
        parts = zip(self._orders, self._heads, ends, strict=True)
        return [[message for message in mine[head:end] if message not in self._taken] for mine, head, end in parts]

    def take(self, window: Sequence[Sequence[int]]) -> None:
        """Takes the messages of a window."""
        for message in {message for mine in window for message in mine}:
            self._taken.add(message)
            self._work += self._waiting.pop(message, [])

    def _next(self, place: int) -> int:
        return self._orders[place][self._heads[place]]

    def _receivers(self, message: int) -> list[int]:
        return [place for place, where in enumerate(self._places) if where[message] >= 0]

    def _where(self, order: Sequence[int]) -> NDArray[np.int32]:
        """Where each message stands in an order; -1 if it does not."""
        found = np.full(len(self._missing), -1, np.int32)
        found[np.array(order, np.int64)] = np.arange(len(order))
        return found


def _left_backwards(orders: Sequence[Sequence[int]]) -> list[int]:
    """The messages of some orders without those that can be taken from the end, each as the last one of all who deliver it."""
    receivers: dict[int, int] = {}
    for mine in orders:
        for message in mine:
            receivers[message] = receivers.get(message, 0) + 1
    ends = [len(mine) for mine in orders]
    waiting: dict[int, list[int]] = {}
    work = list(range(len(orders)))
    while work:
        place = work.pop()
        if not ends[place]:
            continue
        message = orders[place][ends[place] - 1]
        waiting.setdefault(message, []).append(place)
        if len(waiting[message]) == receivers[message]:
            ready = waiting.pop(message)
            for other in ready:
                ends[other] -= 1
            work += ready
    return sorted({message for mine, end in zip(orders, ends, strict=True) for message in mine[:end]})
