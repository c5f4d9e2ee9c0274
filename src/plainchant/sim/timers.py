"""A process's timers, kept so that moving one is cheap.

Protocols set the same few timers again and again and rarely let them expire. A timer therefore has one heap entry, and
moving it to a later time only changes a number: when the entry comes up too early it is pushed again at the due time.
Moving it to an earlier time pushes a second entry; the first is recognised as stale when it comes up.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from ..core.model import Timer

if TYPE_CHECKING:
    from .host import SimHost
    from .kernel import Kernel


@dataclasses.dataclass(slots=True, eq=False)
class Timers:
    """For each timer ``[due, armed]``: when it is due (None: cancelled) and the time of its heap entry."""

    _kernel: Kernel
    _host: SimHost
    _timers: dict[Timer, list[int | None]] = dataclasses.field(default_factory=dict)

    def set(self, timer: Timer, at: int) -> None:
        entry = self._timers.get(timer)
        armed = entry[1] if entry is not None else None
        if entry is not None and armed is not None and at >= armed:
            entry[0] = at
        else:
            at = max(at, self._kernel.now)
            self._timers[timer] = [at, at]
            self._kernel.at(at, self._fire, timer)

    def cancel(self, timer: Timer) -> None:
        entry = self._timers.get(timer)
        if entry is not None:
            entry[0] = None

    def clear(self) -> None:
        self._timers.clear()

    def take_due(self, timer: Timer) -> bool:
        """Whether a timer that waited for a busy process is still due; it is taken off if so."""
        entry = self._timers.get(timer)
        if entry is None or entry[1] is not None:
            return False
        if entry[0] is None:
            del self._timers[timer]
            return False
        if entry[0] > self._kernel.now:
            entry[1] = entry[0]
            self._kernel.at(entry[0], self._fire, timer)
            return False
        del self._timers[timer]
        return True

    def _fire(self, timer: Timer) -> None:
        entry = self._timers.get(timer)
        now = self._kernel.now
        if entry is None or entry[1] != now:
            return
        due = entry[0]
        if due is None:
            del self._timers[timer]
        elif due > now:
            entry[1] = due
            self._kernel.at(due, self._fire, timer)
        elif self._host.special:
            entry[1] = None  # no heap entry while it waits in the inbox of a process that is paused or busy
            self._host.expire(timer)
        else:
            del self._timers[timer]
            self._host.expire(timer)
