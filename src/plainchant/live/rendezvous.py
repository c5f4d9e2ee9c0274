"""How a process meets the others: hellos at ticks, and waiting until enough has been heard.

:mod:`.presence` is the address book and decides what to say; this gives it a clock. Hellos are repeated while an answer is
missing. A change of the address book wakes the tasks that wait: for a way into a group, for the own name, for other places.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from typing import Final

from ..core.model import Form, Join, Reason
from ..group import Halted
from .presence import Presence

TICK: Final = 0.05  # seconds between two hellos while an answer is missing
SETTLE: Final = 0.2  # seconds that a joining process waits to hear that its name is taken, if not all are heard before
LOST_BEGINNING: Final = "lost beginning"  # why a process has to start again before it ever was a member


class Rendezvous:
    """The ticks of one process's presence. ``changed`` is called when the address book changes."""

    def __init__(self, changed: Callable[[], None]) -> None:
        self._changed = changed
        self._news = asyncio.Event()
        self._timer: asyncio.TimerHandle | None = None
        self._stopped = False
        self.presence: Presence

    def on_news(self) -> None:
        """The address book has changed (called by the presence)."""
        self._changed()
        self._news.set()
        if self.presence.seeking:
            self._ask_for_tick()

    def stop(self) -> None:
        self._stopped = True
        if self._timer is not None:
            self._timer.cancel()

    def _ask_for_tick(self) -> None:
        if self._timer is None and not self._stopped:
            self._timer = asyncio.get_running_loop().call_later(TICK, self._tick)

    def _tick(self) -> None:
        self._timer = None
        if self.presence.tick():
            self._ask_for_tick()
        self._news.set()

    async def find_way(self, group: str, first: tuple[str, ...]) -> Form | Join:
        """Waits until it is known how to enter a group."""
        presence = self.presence
        loop = asyncio.get_running_loop()
        asked = loop.time()
        presence.want(group, first)
        self._ask_for_tick()
        while True:
            self._news.clear()
            how = presence.way_in(group)
            heard_all = all(peer.knows_us for peer in presence.peers.values())
            if isinstance(how, Form) or (how is not None and (presence.settled or heard_all or loop.time() > asked + SETTLE)):
                return how
            lost = presence.lost(group)
            if lost is not None:
                raise Halted(Reason(LOST_BEGINNING, lost))
            await self._news.wait()

    async def hear_all(self, enough: Callable[[], bool]) -> None:
        """Waits until all peers know this process, until that is ``enough``, or for :data:`SETTLE` seconds."""
        presence = self.presence
        loop = asyncio.get_running_loop()
        end = loop.time() + SETTLE
        while not enough() and loop.time() < end and not all(peer.knows_us for peer in presence.peers.values()):
            presence.seek()
            self._news.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout_at(end):
                    await self._news.wait()

    async def hear(self, places: Sequence[str], missing: list[str]) -> None:
        """Waits until the processes at these places are known; ``missing`` has those that are not."""
        while True:
            missing[:] = [place for place in places if self.presence.name_at(place) is None]
            if not missing:
                return
            self.presence.seek()
            self._news.clear()
            await self._news.wait()
