"""What a member process writes down while it is measured: how much it had delivered when, and how long round trips took."""

from __future__ import annotations

import bisect
import statistics
import time
from collections.abc import Sequence
from typing import Any, Final

from .sequences import Order

EVERY: Final = 5_000_000
"""Nanoseconds between samples, at the least."""
Sample = tuple[int, int, int]
"""Monotonic time, messages delivered until then, processor time of the process until then (ns)."""


class Recorder:
    """Of one member process."""

    def __init__(self) -> None:
        self.order = Order()
        self.samples: list[Sample] = []
        self._due = 0

    def sample(self, now: int) -> None:
        """Called after deliveries."""
        if now >= self._due:
            self._due = now + EVERY
            self.samples.append((now, self.order.total, time.process_time_ns()))

    def report(self) -> dict[str, Any]:
        """Everything, for whoever compares members; samples start anew."""
        samples, self.samples = self.samples, []
        return {"digest": self.order.digest, "counts": self.order.counts, "samples": samples}


def summary(trips: Sequence[int]) -> dict[str, Any]:
    """Round trips of one member, in µs."""
    if not trips:
        return {"count": 0}
    ordered = sorted(trips)
    return {
        "count": len(ordered),
        "p50": statistics.median(ordered) / 1_000,
        "p90": ordered[int(0.9 * len(ordered))] / 1_000,
        "p99": ordered[int(0.99 * len(ordered))] / 1_000,
    }


def at(samples: Sequence[Sample], when: int) -> Sample:
    """The last sample up to a time, or the first of all."""
    found = bisect.bisect_right(samples, (when, float("inf")), key=lambda sample: (sample[0], sample[1]))
    return samples[max(0, found - 1)]


def delivered(samples: Sequence[Sample], since: int, until: int) -> int:
    """Messages that were delivered in an interval."""
    return at(samples, until)[1] - at(samples, since)[1] if samples else 0
