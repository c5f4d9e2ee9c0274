"""Does something grow with time? One rule for every figure, stated here and nowhere else.

A figure (open files, memory, ...) is sampled many times while a process lives. It **grows** if all of this is so:

1. *After the start.* Only the second half of the samples counts: what a process fills once (caches, windows, buffers) it has by
   then.
2. *Enough was seen.* The half has at least :data:`FEWEST` samples. Otherwise nothing is said.
3. *Steadily.* The half is cut into :data:`BLOCKS` blocks of the same number of samples, and the median of each is taken, so a
   spike is nothing. Of the pairs of blocks, so many more rise than fall that chance does not do that: Mann and Kendall's
   statistic, with Kendall's correction for ties, is above :data:`SURE` standard deviations (less than one series without a
   trend in a thousand).
4. *By an amount that matters.* The slope of Theil and Sen (the median of the slopes of all pairs), over the length of the half,
   is at least a figure's *floor*: a number, or a share of its level, whichever is more. A garbage collector's breath is below
   it.

The rule knows nothing of what the figure is. It is robust to a third of the blocks being anything, and it cannot see a leak
that is slower than the floor in half of the run: longer runs see slower leaks.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
import statistics
from collections import Counter
from collections.abc import Sequence
from typing import Final

FEWEST: Final = 24
BLOCKS: Final = 12
SURE: Final = 3.1


@dataclasses.dataclass(frozen=True, slots=True)
class Floor:
    """The least growth that matters: ``number``, or ``share`` of the level, whichever is more."""

    number: float
    share: float = 0.0

    def of(self, level: float) -> float:
        return max(self.number, self.share * level)


@dataclasses.dataclass(frozen=True, slots=True)
class Trend:
    """What became of a figure in the second half of its samples."""

    samples: int
    """In the half that counts."""
    level: float
    """The median."""
    growth: float
    """By how much it grew in that half, by the slope of Theil and Sen."""
    certainty: float
    """Mann and Kendall's statistic, in standard deviations."""
    floor: float

    @property
    def grows(self) -> bool:
        return self.certainty > SURE and self.growth >= self.floor


def trend(samples: Sequence[tuple[float, float]], floor: Floor) -> Trend | None:
    """The trend of samples (time, value), in the order of time; None if there are too few to say.

    >>> steady = [(t, 100 + t % 3) for t in range(100)]
    >>> leaking = [(t, 100 + t) for t in range(100)]
    >>> [trend(each, Floor(5)).grows for each in (steady, leaking)]
    [False, True]
    """
    half = samples[len(samples) // 2 :]
    if len(half) < FEWEST:
        return None
    blocks = _blocks(half)
    slopes = [(b[1] - a[1]) / (b[0] - a[0]) for a, b in itertools.combinations(blocks, 2) if b[0] > a[0]]
    level = statistics.median(value for _, value in half)
    growth = statistics.median(slopes) * (half[-1][0] - half[0][0]) if slopes else 0.0
    return Trend(len(half), level, growth, mann_kendall([value for _, value in blocks]), floor.of(level))


def _blocks(half: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """The medians of blocks of the same number of samples, one more or less."""
    edges = [round(number * len(half) / BLOCKS) for number in range(BLOCKS + 1)]
    parts = [half[first:last] for first, last in itertools.pairwise(edges)]
    return [(statistics.median(t for t, _ in part), statistics.median(value for _, value in part)) for part in parts]


def mann_kendall(values: Sequence[float]) -> float:
    """How many more pairs rise than fall, in standard deviations of what chance does; 0 if all are the same.

    >>> round(mann_kendall(range(12)), 1), mann_kendall([7] * 12)
    (4.5, 0.0)
    """
    rising = sum((b > a) - (b < a) for a, b in itertools.combinations(values, 2))
    n = len(values)
    ties = sum(t * (t - 1) * (2 * t + 5) for t in Counter(values).values())
    variance = (n * (n - 1) * (2 * n + 5) - ties) / 18
    if not variance or not rising:
        return 0.0
    return (rising - math.copysign(1, rising)) / math.sqrt(variance)
