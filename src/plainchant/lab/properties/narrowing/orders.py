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
    """Makes knots doubtful; returns how many messages are delivered by several processes."""
    every = [strands.deliveries(strand) for strand in strands.all]
    receivers = np.zeros(strands.size, np.int32)
    for delivered in every:
        receivers[delivered] += 1
    is_shared = receivers > 1
    left = _peeled([delivered[is_shared[delivered]] for delivered in every], strands.size)
    left = [order[::-1] for order in _peeled([order[::-1] for order in left], strands.size)]
    if sum(map(len, left)) > MAX_DOUBTFUL:
        raise Doubtful
    doubts.add(np.concatenate([np.zeros(0, np.int64), *left]))
    return int(np.count_nonzero(is_shared))


def _peeled(orders: Sequence[Ints], size: int) -> list[Ints]:
    """Orders without the messages that can be taken, each as the next one of all who deliver it. What is left are knots, and what
    follows them."""
    receivers = np.zeros(size, np.int32)
    for order in orders:
        receivers[order] += 1
    missing, lists = receivers.tolist(), [order.tolist() for order in orders]
    heads = [0] * len(lists)
    waiting: dict[int, list[int]] = {}
    work = list(range(len(lists)))
    while work:
        place = work.pop()
        mine = lists[place]
        if heads[place] == len(mine):
            continue
        message = mine[heads[place]]
        missing[message] -= 1
        waiting.setdefault(message, []).append(place)
        if not missing[message]:
            concerned = waiting.pop(message)
            for other in concerned:
                heads[other] += 1
            work += concerned
    return [order[head:] for order, head in zip(orders, heads, strict=True)]
