"""What a member remembers of synchronisation phases (2.2): which one it is in, and which are over.

Phases are numbered, and the numbers grow from epoch to epoch too, so that a late packet of one phase neither ends nor begins
another. Views and announcements also say which phases are over: a member does not wait for a phase that was given up."""

from __future__ import annotations


class Pause:
    """While ``phase`` is not 0 this member sends no requests."""

    __slots__ = ("_highest", "_over", "phase")

    def __init__(self) -> None:
        self._over = self._highest = self.phase = 0

    def begin(self, phase: int, highest: int) -> bool:
        """The sequencer asks for everything up to a number. False if that phase is over, or a later one has begun."""
        if phase <= self._over or phase < self.phase:
            return False
        self.phase = phase
        self._highest = highest
        return True

    def is_complete(self, contiguous: int) -> bool:
        """Whether a member with this last number has all that the phase asks for."""
        return contiguous >= self._highest

    def end(self, over: int) -> bool:
        """Phases up to this one are over. True if that ends the pause."""
        self._over = max(self._over, over)
        if self.phase and self.phase <= self._over:
            self.phase = 0
            return True
        return False

    def cut_short(self) -> bool:
        """The sequencer of the phase is gone; the next one begins its own phases. True if that ends the pause."""
        interrupted = self.phase != 0
        self.phase = 0
        return interrupted
