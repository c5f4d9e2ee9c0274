"""A process's processor: it does one thing at a time, and what cannot be done yet waits in the inbox.

Arrivals, timers and calls of a paused or busy process wait in order. Receiving a packet occupies the processor for
``receive_cost`` before the engine sees it; sending occupies it for ``send_cost`` before the packet leaves; an
application's call occupies it for as long as its workload says. Of packets that wait no more than ``buffer`` are kept
(the one that is being received does not count); further ones are lost.

Processes of one machine share its :class:`Core`: what one of them does keeps it from the others. Each has its first task
queued there and the rest in its own inbox, so that they take turns.
"""

from __future__ import annotations

import dataclasses
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any

from ..scenario.model import Network
from .kernel import Kernel


@dataclasses.dataclass(slots=True)
class Core:
    """What can do one thing at a time; ``free_at`` says when it has done all that it has begun or promised."""

    shared: bool = False
    free_at: int = 0


def cores(machines: Iterable[Iterable[str]]) -> dict[str, Core]:
    """The core of each process that shares one."""
    return {name: core for machine in machines for core in (Core(shared=True),) for name in machine}


class Processor:
    """What a process has to do, and when it gets to it."""

    __slots__ = ("_core", "_idle_again", "_inbox", "_kernel", "_packets", "_pumping", "_settings", "_token", "paused_until")

    def __init__(self, kernel: Kernel, settings: Network, idle_again: Callable[[], None], core: Core) -> None:
        self._kernel = kernel
        self._core = core
        self._settings = settings
        self._idle_again = idle_again  # called when the inbox has run empty
        self._inbox: deque[tuple[Callable[..., None], tuple[Any, ...], bool, int]] = deque()
        self._packets = 0
        self._pumping = False
        self._token = 0
        self.paused_until = 0

    @property
    def ordinary(self) -> bool:
        """Whether everything is done at once."""
        costly = self._settings.send_cost or self._settings.receive_cost or self._core.shared
        return not (costly or self.paused_until or self._inbox)

    @property
    def busy(self) -> bool:
        """Whether what is to be done now has to wait."""
        return bool(self.paused_until or self._inbox or self._core.free_at > self._kernel.now)

    def receive(self, function: Callable[..., None], *arguments: Any) -> bool:
        """A packet arrives; False if there is no room for it."""
        limit = self._settings.buffer
        if limit and self._packets >= limit + self._pumping:
            return False
        self._packets += 1
        self._post(function, arguments, True, self._settings.receive_cost)
        return True

    def post(self, function: Callable[..., None], *arguments: Any, cost: int = 0) -> None:
        """Does something that takes ``cost``, as soon as the processor is free."""
        self._post(function, arguments, False, cost)

    def occupy(self, cost: int) -> int:
        """Occupies the processor; returns when that is over: when a packet leaves, for a send."""
        core = self._core
        core.free_at = max(self._kernel.now, core.free_at) + cost
        return core.free_at

    def hold(self, until: int) -> None:
        """Occupies the processor until a time: it waits for something."""
        self._core.free_at = max(self._core.free_at, until)

    def pause(self, until: int) -> None:
        self.paused_until = max(self.paused_until, until)
        self._pumping = False

    def resume(self) -> None:
        """Goes on; what waits is handled in order, before anything that arrives now."""
        self.paused_until = 0
        self._arm()

    def clear(self) -> None:
        self._inbox.clear()
        self._pumping = False

    def _post(self, function: Callable[..., None], arguments: tuple[Any, ...], packet: bool, cost: int) -> None:
        if cost or self.busy:
            self._inbox.append((function, arguments, packet, cost))
            self._arm()
        else:
            self._do(function, arguments, packet)

    def _do(self, function: Callable[..., None], arguments: tuple[Any, ...], packet: bool) -> None:
        if packet:
            self._packets -= 1
        function(*arguments)

    def _arm(self) -> None:
        """Has the first thing in the inbox done when the processor gets to it."""
        if self._pumping or self.paused_until or not self._inbox:
            return
        self._pumping = True
        self._token += 1
        self._kernel.at(self.occupy(self._inbox[0][3]), self._pump, self._token)

    def _pump(self, token: int) -> None:
        # A pause in the meantime made this call void; the packet is received anew when the process goes on.
        if token != self._token or not self._pumping:
            return
        self._pumping = False
        function, arguments, packet, _ = self._inbox.popleft()
        self._do(function, arguments, packet)
        if self._inbox:
            self._arm()
        else:
            self._idle_again()
