"""Processes' clocks: true time, off by an offset, a drift and steps.

A clock belongs to the machine, so all incarnations of a process read the same one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence


class ProcessClock:
    """Reads ``true time x (1 + drift) + offset``; a step moves the offset."""

    __slots__ = ("drift", "exact", "offset")

    def __init__(self, offset: int = 0, drift: float = 0.0) -> None:
        self.offset = offset
        self.drift = drift
        self.exact = not offset and not drift  # whether it shows true time

    def read(self, now: int) -> int:
        return now + int(now * self.drift) + self.offset

    def when(self, reading: int) -> int:
        """The true time at which it shows this, or more, for the first time."""
        if not self.drift:
            return reading - self.offset
        now = int((reading - self.offset) / (1 + self.drift))
        while self.read(now) < reading:
            now += 1
        while self.read(now - 1) >= reading:
            now -= 1
        return now

    def lowest(self, until: int) -> int:
        """How far it is at least ahead of true time until a time."""
        return self.offset + min(0, int(until * self.drift))

    def highest(self, until: int) -> int:
        return self.offset + max(0, int(until * self.drift))

    def step(self, offset: int) -> None:
        self.offset += offset
        self.exact = not self.offset and not self.drift


def agreeing(clocks: Sequence[ProcessClock], skew: int, until: int) -> tuple[int, int]:
    """The range of how far clocks are ahead of true time, ``skew`` wide, that holds as many of them as possible until a time.
    Clocks outside of it are wrong."""
    ranges = Counter((clock.lowest(until), clock.highest(until)) for clock in clocks)

    def inside(low: int) -> int:
        return sum(count for (lowest, highest), count in ranges.items() if low <= lowest and highest <= low + skew)

    low = max((lowest for lowest, _ in ranges), key=inside, default=0)
    return low, low + skew
