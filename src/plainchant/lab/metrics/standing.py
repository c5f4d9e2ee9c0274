"""Standstills by pieces: the longest time in which a member delivers nothing although a message waits for it.

``lab.standstills`` has the definition. Of a member's deliveries in order, with their clocks c and the moments w since which
their messages waited, delivery i ends a standstill of min(c[i] - c[i-1], c[i] - (the least w from i on)), and the longest is
wanted. So a piece of a history can forget a delivery unless its distance from the one before exceeds the longest standstill
that the piece shows by itself: whatever later deliveries waited for, no longer one can end there. For the others it depends
on the least w from there on, which later pieces, accepts and sends tell; among those for which that is the same moment, one
that is followed by a larger distance can be forgotten too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

import numpy as np

from ..arrays import NOTHING, Flags, Integers

NEVER: Final = np.iinfo(np.int64).max
BEFORE: Final = np.iinfo(np.int64).min


class Deliveries(NamedTuple):
    """What a piece of a member's history in a group says of its deliveries."""

    first: int  # clocks
    last: int
    latest: int
    floor: int  # the longest standstill that ends after the first delivery, as far as this piece knows
    least: int  # the least of the moments since which messages waited, as far as they are known here
    clocks: Integers  # of deliveries that may end a longer one,
    gaps: Integers  # their distances from the ones before, and
    before: Integers  # how many of the deliveries below stand before them
    senders: Integers  # of the deliveries whose messages waited since a moment that is not known here, their messages,
    seqs: Integers
    sents: Integers  # since when they waited if nothing else is known (NEVER: not even that),
    own: Flags  # whether the member sent them,
    delivered: Integers  # and their clocks


def deliveries(clocks: Integers, sents: Integers, senders: Integers, seqs: Integers, own: Flags) -> Deliveries:
    """The deliveries of a member in order; ``sents`` is NEVER where it is not known."""
    open_ones = np.flatnonzero(own | (sents == NEVER))
    known = sents
    if len(open_ones):
        known = sents.copy()
        known[open_ones] = NEVER
    pending = np.minimum.accumulate(known[::-1])[::-1]
    gaps = np.diff(clocks)
    later, awaited = clocks[1:], pending[1:]
    waited = np.minimum(gaps, later - np.where(awaited == NEVER, later, awaited))
    floor = int(waited[awaited < NEVER].max(initial=BEFORE)) if len(waited) else BEFORE
    chosen = np.flatnonzero(gaps > floor)
    before = np.searchsorted(open_ones, chosen + 1)
    if len(chosen) > 1 and bool(np.all(np.diff(later[chosen]) >= 0)):
        # Backwards, what exceeds all distances seen so far in its block: ranks of distances under the block's number.
        ranks = np.unique(gaps[chosen], return_inverse=True)[1]
        heights = ((before[-1] - before) * len(chosen) + ranks)[::-1]
        is_higher = np.append(True, heights[1:] > np.maximum.accumulate(heights)[:-1])
        chosen, before = chosen[is_higher[::-1]], before[is_higher[::-1]]
    ends = int(clocks[0]), int(clocks[-1]), int(clocks.max()), floor, int(pending[0])
    open_columns = senders[open_ones], seqs[open_ones], sents[open_ones]
    return Deliveries(*ends, later[chosen], gaps[chosen], before, *open_columns, own[open_ones], clocks[open_ones])


def longest(
    pieces: Sequence[tuple[Deliveries, Integers]],
    accepts: Integers,
    sends: tuple[Integers, Integers],
    last: int,
    *,
    left: bool,
) -> int | None:
    """The longest standstill of a member; None if no message ever waited.

    ``pieces`` stand in order, each with since when its open messages waited by their ``send`` rows. ``accepts`` are the clocks of
    the member's accepts in order, ``sends`` numbers and clocks of its sends, ``last`` the last clock of its history."""
    found: list[int] = []
    least = NEVER
    for at in range(len(pieces) - 1, -1, -1):
        piece, sents = pieces[at]
        told = piece.own & (piece.seqs >= 1) & (piece.seqs <= len(accepts))
        waits = sents.copy()
        waits[told] = accepts[piece.seqs[told] - 1]
        pending = np.append(np.minimum.accumulate(np.minimum(waits, least)[::-1])[::-1], least)
        if piece.floor > BEFORE:
            found.append(piece.floor)
        awaited = pending[piece.before]
        there = awaited < NEVER
        if there.any():
            found.append(int(np.minimum(piece.gaps, piece.clocks - awaited)[there].max()))
        first = min(int(pending[0]), piece.least)
        if first < NEVER:
            found.append(piece.first - (max(pieces[at - 1][0].last, first) if at else first))
        least = min(least, first)
    numbers, times = (np.arange(1, len(accepts) + 1), accepts) if len(accepts) else sends
    delivered = [piece.seqs[piece.own] for piece, _ in pieces]
    lacking = times[~np.isin(numbers, np.concatenate(delivered))] if delivered else times
    if len(lacking) and not left:
        found.append(last - max([int(lacking.min()), *(piece.latest for piece, _ in pieces)]))
    return max(0, *found) if found else None


def sent_at(piece: Deliveries, look_up: Callable[[Integers, Integers], tuple[Integers, Flags]]) -> Integers:
    """Since when the open messages of a piece waited, by their own rows or by ``look_up`` of senders and numbers."""
    lacking = piece.sents == NEVER
    if not lacking.any():
        return piece.sents
    times, found = look_up(piece.senders[lacking], piece.seqs[lacking])
    sents = piece.sents.copy()
    sents[lacking] = np.where(found, times, NEVER)
    return sents


NO_SENDS: Final = NOTHING, NOTHING
