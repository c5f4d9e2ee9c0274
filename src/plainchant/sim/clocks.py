"""Processes' clocks: true time, off by an offset, a drift and steps.

A clock belongs to the machine, so all incarnations of a process read the same one.
"""

from __future__ import annotations

from collections.abc import Iterable

from ..scenario.model import Clock


class ProcessClock:
    """Reads ``true time x (1 + drift) + offset``; a step moves the offset."""

    __slots__ = ("drift", "exact", "offset")

    def __init__(self, offset: int = 0, drift: float = 0.0) -> None:
        self.offset = offset
        self.drift = drift
        self.exact = not offset and not drift
        """Whether it shows true time."""

    def read(self, now: int) -> int:
        return now + int(now * self.drift) + self.offset

    def step(self, offset: int) -> None:
        self.offset += offset
        self.exact = not self.offset and not self.drift


def clock_of(process: str, clocks: Iterable[Clock]) -> ProcessClock:
    """The clock that a scenario gives a process: the last entry that names it, else the last for every process."""
    named = [clock for clock in clocks if clock.process == process]
    found = named or [clock for clock in clocks if not clock.process]
    return ProcessClock(found[-1].offset, found[-1].drift) if found else ProcessClock()
