"""A member's watch over the sequencer, and over its own silence: one tick for both.

Every ``quiet_after`` a member that has said nothing, or not yet all that it has, sends the sequencer a dummy message (2.1). It
counts the ticks in which it heard nothing; after ``suspect_after`` of them it suspects the sequencer. Hearing only sets a flag:
it happens with every packet, and the clock need not be read for it. A tick that comes very late shows that this process was
stopped; the silence then proves nothing about the others. A group that is just formed knows nothing of its network: the first
packet of the sequencer may take up to ``patience``."""

from __future__ import annotations

from typing import Final

from ...core.engine import Host
from .parameters import Parameters

HEARD_BEATS: Final = 2  # a member that has heard the sequencer within this number of heartbeats refuses to elect another
HEARD_SHARE: Final = 4  # the same within this share of ``suspect_after``: where packets are lost, two heartbeats often are


class Watch:
    """``heard`` and ``spoke`` are set when the member hears the sequencer or speaks to it, and cleared by the tick."""

    __slots__ = ("_due", "_host", "_lately", "_limit", "_parameters", "_silent_ticks", "heard", "spoke")

    def __init__(self, host: Host, parameters: Parameters) -> None:
        self._host, self._parameters = host, parameters
        self._limit = -(-parameters.patience // parameters.quiet_after)
        lately = max(HEARD_BEATS * parameters.heartbeat, parameters.suspect_after // HEARD_SHARE)
        self._lately = -(-lately // parameters.quiet_after)
        self._silent_ticks = self._due = 0
        self.heard = self.spoke = False

    def begin(self, *, presides: bool) -> None:
        """The first tick comes earlier by chance: members that tick in step would all call elections at once."""
        self.wait(presides=presides, less=self._host.random.randrange(self._parameters.quiet_after))

    def wait(self, *, presides: bool, less: int = 0) -> None:
        """Sets the timer for the next tick; the sequencer ticks at the interval of its heartbeat."""
        interval = self._parameters.heartbeat if presides else self._parameters.quiet_after
        self._due = self._host.now + interval - min(less, interval - 1)
        self._host.set_timer("tick", self._due)

    def start_anew(self) -> None:
        """The sequencer changed, or the others hear it: allow it the full time again."""
        self._silent_ticks = 0

    def hears_sequencer(self) -> bool:
        """Whether it was heard lately."""
        return self.heard or self._silent_ticks < self._lately

    @property
    def is_new(self) -> bool:
        """Whether no tick has found that the sequencer was heard."""
        return not self.heard and self._limit > self._parameters.suspect_after // self._parameters.quiet_after + 1

    def was_stopped(self) -> bool:
        """Whether the tick that is due now comes so late that this process must have been stopped."""
        return self._host.now - self._due > self._parameters.suspect_after // 2

    def tick(self, stopped: bool) -> int | None:
        """A tick of a member that follows. Returns how long the sequencer has been silent, if that is too long."""
        heard = self.heard or stopped
        self.heard = self.spoke = False
        self._silent_ticks = 0 if heard else self._silent_ticks + 1
        if heard:
            self._limit = -(-self._parameters.suspect_after // self._parameters.quiet_after)
        if heard or self._silent_ticks < self._limit:
            return None
        return self._silent_ticks * self._parameters.quiet_after
