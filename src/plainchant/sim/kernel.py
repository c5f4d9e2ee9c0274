"""Virtual time: a heap of events and the one loop that handles them.

Theory of operation
-------------------
An event is a tuple ``(time, order, targets, first, second)``. ``order`` counts up, so events of one instant are handled
in the order in which they were asked for and nothing else is ever compared. There are two kinds:

- ``targets`` is a tuple of hosts: packet ``second`` from process ``first`` arrives at each of them. A packet to many
  over links of the same delay is *one* entry, because the heap is what a simulation spends its time in; each arrival
  still counts as an event.
- ``targets`` is None: ``first(second)`` is called (timers, workload, faults).

The loop has its own copy of a turn (:meth:`.core.process.Process.turn`) for packets that arrive at an ordinary host, and performs
the most frequent effects there, those of a turn that only delivers one message: without both, simulations of small groups take a
tenth longer. A host that is not ordinary (paused, crashed, busy, with a clock of its own) says so by ``special`` and is asked
instead.
"""

from __future__ import annotations

import gc
from collections.abc import Callable
from heapq import heappop, heappush
from itertools import count
from typing import TYPE_CHECKING, Any, Final

from ..core.model import ProtocolError, format_duration
from ..core.process import DELIVER

if TYPE_CHECKING:
    from .host import SimHost
    from .sends import SendTimes

HOUSEKEEPING: Final = 512  # heap entries between two rounds of housekeeping (flushing the trace, reporting progress)
STANDSTILL: Final = 1_000_000  # heap entries at one instant after which virtual time counts as stuck
COLLECT: Final = 2_000_000  # heap entries between two collections of cyclic garbage; engines make next to none

Event = tuple[int, int, Any, Any, Any]


class Kernel:
    """The event heap and virtual time in ns."""

    __slots__ = ("events", "heap", "interrupts", "now", "order", "running", "sends")

    def __init__(self) -> None:
        self.now = 0
        self.sends: SendTimes  # the rows of the latest delivery; set by the simulation
        self.heap: list[Event] = []
        self.order = count()
        self.running = False
        self.events = 0  # packet arrivals and timers that engines handled
        self.interrupts: dict[type, int] = {}  # packet arrivals that engines handled, by type of packet

    def at(self, time: int, function: Callable[[Any], None], argument: Any = None) -> None:
        """Calls ``function(argument)`` at that time, or now if it has passed."""
        now = self.now
        heappush(self.heap, (time if time > now else now, next(self.order), None, function, argument))

    def arrive(self, time: int, targets: tuple[SimHost, ...], source: str, packet: Any) -> None:
        heappush(self.heap, (time, next(self.order), targets, source, packet))

    def stop(self) -> None:
        self.running = False

    def run(self, housekeeping: Callable[[], None]) -> None:
        """Handles events until it is stopped. Young garbage collections are off meanwhile: they would go through the rows of the
        trace, which are no garbage, again and again."""
        if self.running:
            raise ProtocolError("the simulation is running already; a callback must not run it again")
        self.running = True
        collecting = gc.isenabled()
        gc.disable()
        try:
            self._loop(housekeeping)
        finally:
            self.running = False
            if collecting:
                gc.enable()

    def _loop(self, housekeeping: Callable[[], None]) -> None:
        heap, sends, pop, interrupts = self.heap, self.sends, heappop, self.interrupts
        steps, last_time = 0, -1
        while True:
            now, _, targets, first, second = pop(heap)
            self.now = now
            if targets is None:
                first(second)
                if not self.running:
                    return
            else:
                handled = 0
                for host in targets:
                    if host.special:
                        host.arrive(first, second)
                        continue
                    handled += 1
                    host.now = host.local = now
                    host.inside = True
                    try:
                        host.receive(first, second)
                    except Exception as error:
                        host.failed(error)
                    host.inside = False
                    effects = host.effects
                    if not effects:
                        continue
                    if len(effects) == 1 and not host.listens and not host.owed:
                        effect = effects[0]
                        if effect[0] == DELIVER:
                            # A broadcast that arrives everywhere at one instant is the same row at every process.
                            if now is not sends.instant or effect != sends.effect:
                                sends.write(effect, now, now)
                            if now is sends.instant:
                                host.rows.append(sends.row)
                                host.delivered += 1
                                effects.clear()
                                continue
                    host.perform()
                if handled:
                    kind = second.__class__
                    interrupts[kind] = interrupts.get(kind, 0) + handled
                    self.events += handled
            steps += 1
            if not steps % HOUSEKEEPING:
                housekeeping()
                if not steps % COLLECT:
                    gc.collect()
                if not steps % STANDSTILL:
                    if now == last_time:
                        raise ProtocolError(
                            f"{STANDSTILL} events at {format_duration(now)} and time stands still: an engine sets "
                            f"timers that are due at once, or answers its own packets; look at the end of the trace"
                        )
                    last_time = now
