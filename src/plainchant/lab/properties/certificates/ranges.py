"""Sets of message numbers as ranges: what a process delivers of one sender is nearly always one range."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeAlias

Range: TypeAlias = tuple[int, int]  # the first and the last number
Ranges: TypeAlias = tuple[Range, ...]  # ranges in ascending order, with a hole between any two


def size(ranges: Sequence[Range]) -> int:
    return sum(high - low + 1 for low, high in ranges)


def overlap(ranges: Ranges, low: int, high: int) -> int:
    """How many of the numbers from ``low`` to ``high`` the ranges hold."""
    found = 0
    for bottom, top in ranges:
        found += max(0, min(top, high) - max(bottom, low) + 1)
    return found


def missing(ranges: Ranges, low: int, high: int) -> list[Range]:
    """The numbers from ``low`` to ``high`` that the ranges lack.

    >>> missing(((2, 3), (6, 9)), 1, 7)
    [(1, 1), (4, 5)]
    """
    found = []
    for bottom, top in ranges:
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
    for first, last in wanted:
        for low, high in ranges:
            if low <= first and last <= high:
                break
        else:
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
