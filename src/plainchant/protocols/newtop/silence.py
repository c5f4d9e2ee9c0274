"""Time-silence (4.3): when a member that has nothing to send completes a block all the same.

``timeout``: so long after the block came to be. ``ticks``: as the thesis built it (7.2.11, 7.3.1), with a clock that ticks every
``tick``; a time-out of k ticks lasts between k - 1 and k of them. ``adaptive``: a member that sends regularly waits for its next
own message, which will do; one that does not answers at once, so that a message in an otherwise idle group is delivered after
one round trip, for one null message of each member.
"""

from __future__ import annotations

from ...core.engine import Host
from .parameters import Parameters

GAIN = 8  # an interval between sends counts for so much of a part in the mean


class Silence:
    """When the null message for a block that came to be now is due."""

    __slots__ = ("_by", "_interval", "_last", "_phase", "_silence", "_tick")

    def __init__(self, host: Host, parameters: Parameters) -> None:
        self._by = parameters.silence_by
        self._silence = parameters.silence
        self._tick = parameters.tick
        self._phase = host.now + (host.random.randrange(parameters.tick) if self._by == "ticks" else 0)
        self._last = -1
        self._interval = 0

    def sent(self, now: int) -> None:
        """A message went out."""
        if self._last >= 0:
            interval = now - self._last
            self._interval = interval if not self._interval else self._interval + (interval - self._interval) // GAIN
        self._last = now

    def due(self, now: int) -> int:
        if self._by == "timeout":
            return now + self._silence
        if self._by == "ticks":
            ticks = (now - self._phase) // self._tick + self._silence // self._tick
            return self._phase + ticks * self._tick
        expected = self._last + 2 * self._interval
        is_regular = self._last >= 0 and self._interval < self._silence
        return min(expected, now + self._silence) if is_regular and expected > now else now
