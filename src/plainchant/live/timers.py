"""The timers of a live process, on its event loop.

**Packets come before timers.** A process that was stopped finds both when it goes on. The transport is read before a timer
expires (``catch_up``; :data:`CATCH_UP` bounds it), and the timer does not expire if the engine has moved it meanwhile. So no
process suspects another whose packets have arrived.

**Timers that are set for now** expire at the end of the turn, once for all its packets (:attr:`LoopTimers.due`). What is set for
now while these expire waits for the loop, because a turn has an end.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from ..core.model import Timer

CATCH_UP: Final = 16  # readings of the transport before a late timer expires; a timer in time waits for one reading
LATE: Final = 0.002  # seconds after its time at which a timer is late


class LoopTimers:
    """``expire`` is called with a timer that has come due. ``catch_up`` reads the transport; True: there may be more."""

    def __init__(self, expire: Callable[[Timer], None], catch_up: Callable[[], bool]) -> None:
        self.due: dict[Timer, None] = {}  # timers that were set for now
        self.ending = False  # whether the timers for now expire already
        self._expire = expire
        self._catch_up = catch_up
        self._loop = asyncio.get_running_loop()
        self._handles: dict[Timer, asyncio.TimerHandle] = {}

    def set(self, timer: Timer, at: int | None, now: int) -> None:
        """Sets a timer, or cancels it if there is no time; both end what was set before."""
        self.due.pop(timer, None)
        handle = self._handles.pop(timer, None)
        if handle is not None:
            handle.cancel()
        if at is None:
            return
        if at <= now and not self.ending:
            self.due[timer] = None
        else:
            self._handles[timer] = self._loop.call_at(at / 1e9, self._fire, timer)

    def next_due(self) -> Timer:
        """Takes the first of the timers for now."""
        timer = next(iter(self.due))
        del self.due[timer]
        return timer

    def clear(self) -> None:
        for handle in self._handles.values():
            handle.cancel()
        self._handles.clear()
        self.due.clear()

    def _fire(self, timer: Timer) -> None:
        handle = self._handles[timer]
        is_late = self._loop.time() > handle.when() + LATE
        for _ in range(CATCH_UP if is_late else 1):
            if not self._catch_up():
                break
        if self._handles.get(timer) is handle:
            del self._handles[timer]
            self._expire(timer)
