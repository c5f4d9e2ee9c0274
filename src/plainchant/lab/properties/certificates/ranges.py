"""Sets of message numbers as ranges: what a process delivers of one sender is nearly always one range."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from operator import itemgetter
from typing import Final, TypeAlias

Range: TypeAlias = tuple[int, int]  # the first and the last number
Ranges: TypeAlias = tuple[Range, ...]  # ranges in ascending order, with a hole between any two
_FEW: Final = 8


def size(ranges: Sequence[Range]) -> int:
    return sum(high - low + 1 for low, high in ranges)


def overlap(ranges: Ranges, low: int, high: int) -> int:
    """How many of the numbers from ``low`` to ``high`` the ranges hold."""
    found = 0
    for at in range(_first_to(ranges, low), len(ranges)):
        bottom, top = ranges[at]
        if bottom > high:
            break
        found += max(0, min(top, high) - max(bottom, low) + 1)
    return found


def _first_to(ranges: Ranges, low: int) -> int:
    """The place of the first range that ends there or later; 0 will do where there are few."""
    return bisect_left(ranges, low, key=itemgetter(1)) if len(ranges) > _FEW else 0


def missing(ranges: Ranges, low: int, high: int) -> list[Range]:
    """The numbers from ``low`` to ``high`` that the ranges lack.

    >>> missing(((2, 3), (6, 9)), 1, 7)
    [(1, 1), (4, 5)]
    """
    found = []
    for at in range(_first_to(ranges, low), len(ranges)):
        bottom, top = ranges[at]
        if top < low:
            continue
        if bottom > high:
            break
        if low < bottom:
            found.append((low, bottom - 1))
        low = top + 1
    return [*found, (low, high)] if low <= high else found


def difference(wanted: Ranges, ranges: Ranges) -> list[Range]:
    """The wanted numbers that the ranges lack.

    >>> difference(((1, 4), (9, 9)), ((2, 3),))
    [(1, 1), (4, 4), (9, 9)]
    """
    return [hole for low, high in wanted for hole in missing(ranges, low, high)]


def contains(ranges: Ranges, wanted: Ranges) -> bool:
    """Whether the ranges hold all wanted numbers. Written as loops: it runs for every two processes and each sender."""
    at = 0
    for first, last in wanted:
        while at < len(ranges) and ranges[at][1] < last:
            at += 1
        if at == len(ranges) or ranges[at][0] > first:
            return False
    return True


def added(ranges: Ranges, more: Iterable[Range]) -> Ranges:
    """The ranges with some more numbers.

    >>> added(((1, 3), (7, 8)), [(4, 5), (10, 10)])
    ((1, 5), (7, 8), (10, 10))
    """
    found: list[Range] = []
    for low, high in sorted((*ranges, *more)):
        if found and low <= found[-1][1] + 1:
            found[-1] = found[-1][0], max(high, found[-1][1])
        else:
            found.append((low, high))
    return tuple(found)
