"""Which own messages have their time taken, so that a histogram of latencies costs next to nothing.

A group compares the receipt of each accepted message with one number, ``sample_at``. When a message has come so far, the sample
is taken, and the next number chosen: on average ``stride`` messages on, at random, so that no rhythm of the application is in
step with it. Every tick the stride is fitted to the rate: about :data:`PER_TICK` samples per tick, and every message where there
are fewer. A burst after a silence doubles the stride each time that it has given as many.

The latency is from the call of ``send``, when there is room, until the message is delivered here: what ``receipt.delivered()``
waits for. At most :data:`PENDING` samples of a group wait for that.
"""

from __future__ import annotations

from bisect import bisect_left
from itertools import accumulate
from random import Random
from typing import Final

PER_TICK: Final = 8
PENDING: Final = 64
LATENCIES: Final = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
"""Bounds of the buckets, in seconds."""
LAGS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)


class Histogram:
    """How many values there were up to each bound.

    >>> histogram = Histogram((0.1, 1.0))
    >>> for value in (0.05, 0.1, 0.5, 7.0): histogram.add(value)
    >>> histogram.buckets()
    [('0.1', 2), ('1.0', 3), ('+Inf', 4)]
    """

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.sum = 0.0

    def add(self, value: float) -> None:
        self.counts[bisect_left(self.bounds, value)] += 1
        self.sum += value

    def copy(self) -> Histogram:
        """As it is now."""
        made = Histogram(self.bounds)
        made.counts, made.sum = self.counts.copy(), self.sum
        return made

    def buckets(self) -> list[tuple[str, int]]:
        """Bounds as Prometheus writes them, and how many values were no larger."""
        return list(zip([*map(str, self.bounds), "+Inf"], accumulate(self.counts), strict=True))


class Pace:
    """When the next message of one group is a sample."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self.stride = 1
        self.pending = 0
        self.next: float = 1
        self._taken = self._accepted = 0

    def take(self, accepted: int) -> bool:
        """Message ``accepted`` has come so far: whether it is a sample. Chooses the next."""
        self._taken += 1
        if self._taken % PER_TICK == 0:
            self.stride *= 2
        self.next = accepted + self._random.randint(1, 2 * self.stride - 1)
        return self.pending < PENDING

    def tick(self, accepted: int) -> None:
        """Fits the stride to what was accepted since the last tick."""
        self.stride = max(1, (accepted - self._accepted) // PER_TICK)
        self._accepted, self._taken = accepted, 0
        self.next = min(self.next, accepted + self._random.randint(1, 2 * self.stride - 1))
