"""A run of the simulator into which hostile packets are handed, and what came of it.

Theory of operation
-------------------
A :class:`Tap` around each engine remembers the packets that come, of which most hostile ones are bent copies: they are near what
the engine expects just now. At times that the dice choose, an engine in the middle of the run gets some, as from its network:
they have to pass the protocol's own codec, as from a live one. Who is said to send them is a matter of the *sources*:

- ``strangers``: processes that never were in a group, and incarnations that have been followed by another one that is in. Nobody
  may halt, no promise may be broken, and the run comes to rest.
- ``members``: also current members and the process itself, which lie; then no promise can hold, and processes may halt with a
  reason. But no engine may raise, go round for ever, or hold more than its bound.
"""

from __future__ import annotations

import contextlib
import dataclasses
import signal
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any, Final

import pyarrow as pa

from plainchant.core.engine import Engine, Host, Layer
from plainchant.core.model import Packet, ProcessId, ProtocolError, WireError
from plainchant.core.wire import Codec
from plainchant.lab.properties import verify
from plainchant.sim import Simulation, Summary
from plainchant.sim.host import SimHost
from plainchant.trace import TraceBuffer

from .courses import Course
from .dice import Dice
from .packets import Pool, bend, make, parts_of
from .sizes import largest_in, size_of

STRANGERS: Final = "strangers"
MEMBERS: Final = "members"
RECENT: Final = 48
"""Packets that are remembered, to be bent."""
MOST_PACKETS: Final = 400
"""Hostile packets in a run."""
LONGEST: Final = 30
"""Seconds of processor time after which a run that takes one or two is taken for one that goes round for ever."""


class Endless(Exception):
    """An engine does not come to an end with a packet."""


@dataclasses.dataclass
class Result:
    """What came of an attack."""

    summary: Summary
    table: pa.Table
    handed: int
    """Hostile packets that engines got,"""
    refused: int
    """and those that the decoder refused."""
    sizes: dict[ProcessId, int]
    largest: dict[ProcessId, list[str]]

    @property
    def halted(self) -> dict[ProcessId, str]:
        return {name: end.reason for name, end in self.summary.processes.items() if end.state == "halted"}

    @property
    def violated(self) -> list[str]:
        return [name for name, outcome in verify(self.table).properties.items() if outcome.violations]


class Tap(Layer):
    """Remembers what comes."""

    def __init__(self, host: Host, inside: Callable[[Host], Engine], seen: deque[tuple[ProcessId, Packet]]) -> None:
        self._seen = seen
        super().__init__(host, inside)

    def receive(self, source: ProcessId, packet: Packet) -> None:
        self._seen.append((self.me, packet))
        self.inner.receive(source, packet)


class Attack:
    """One attacked run. ``make`` replaces the protocol's engines, by defective ones."""

    def __init__(self, course: Course, dice: Dice, sources: str, *, seed: int = 1, make: Any = None) -> None:
        self.course = course
        self.dice = dice
        self.sources = sources
        self.seen: deque[tuple[ProcessId, Packet]] = deque(maxlen=RECENT)
        self.handed = self.refused = 0
        self.sizes: dict[ProcessId, int] = {}
        self.largest: dict[ProcessId, list[str]] = {}
        scenario = dataclasses.replace(course.scenario, seed=seed)
        self.trace = TraceBuffer()
        self.simulation = Simulation(scenario, trace=self.trace, wrap=self._wrap, make=make)
        self.kernel = self.simulation._kernel
        self.codec = Codec(self.simulation.description.packets)
        self.kinds = self.simulation.description.packets
        self.length = scenario.duration

    def _wrap(self, host: SimHost, inside: Callable[[Host], Engine]) -> Engine:
        return Tap(host, inside, self.seen)

    def run(self) -> Result:
        """Runs it; raises what an engine raises."""
        for _moment in range(1 + self.dice.pick(12)):
            self.kernel.at(1 + self.length * self.dice.pick(1000) // 1000, self._strike)
        self.kernel.at(self.length - 1, self._measure)
        with _not_for_ever():
            summary = self.simulation.run()
        self._measure(None)
        return Result(summary, self.trace.table(), self.handed, self.refused, self.sizes, self.largest)

    # --- hostile packets ----------------------------------------------------------------------------------------------

    def _strike(self, _: None) -> None:
        """Some packets to one process, from one source."""
        targets = [host for host in self.simulation.hosts if host.alive]
        if not targets or self.handed >= MOST_PACKETS:
            return
        target = self.dice.choose(targets)
        source = self.dice.choose(self._sources(target))
        for _packet in range(1 + self.dice.pick(6)):
            packet = self._packet(target)
            for _again in range(1 + (self.dice.pick(32) if self.dice.chance(8) else 0)):
                self.hand(target, source, packet)
                packet = bend(packet, self.dice, self._pool(), ())

    def hand(self, target: SimHost, source: ProcessId, packet: Packet) -> None:
        """Gives a process a packet as its network would, if it can be sent at all."""
        try:
            received = self.codec.decode(self.codec.encode(packet))
        except (WireError, ProtocolError):
            self.refused += 1
            return
        self.handed += 1
        self.kernel.arrive(self.kernel.now, (target,), source, received)

    def _packet(self, target: SimHost) -> Packet:
        near = [packet for name, packet in self.seen if name == target.me] or [packet for _, packet in self.seen]
        if not near or self.dice.chance(5):
            return make(self.dice.choose(self.kinds), self.dice, self._pool())
        packet = self.dice.choose(near)
        if self.dice.chance(6):
            return packet
        others = [part for _, other in self.seen for part in parts_of(other) if not isinstance(part, bool)]
        return bend(packet, self.dice, self._pool(), others[-400:])

    def _pool(self) -> Pool:
        names = [host.me for host in self.simulation.hosts]
        numbers = [part for _, packet in list(self.seen)[-8:] for part in parts_of(packet) if type(part) is int]
        groups = list(self.simulation.groups)
        odd = ("", "p1#x", "#", "g\0x.y", "é" * 30, "n1.a#" + "9" * 60)
        return Pool((*names, *self.course.strangers, *groups, "other", *odd), numbers or [1], (b"", b"x" * 30, b"\x92\xa1a"))

    def _sources(self, target: SimHost) -> list[ProcessId]:
        hosts = self.simulation.hosts
        old = [
            host.me for host in hosts
            if not host.alive and (latest := self.simulation.latest[host.place]) is not host and latest.joined
        ]  # fmt: skip
        strangers = [*self.course.strangers, *old]
        if self.sources == STRANGERS:
            return strangers
        return [*(host.me for host in hosts), *strangers]

    # --- what they hold -----------------------------------------------------------------------------------------------

    def _measure(self, _: None) -> None:
        for host in self.simulation.hosts:
            if host.alive:
                held = self._held(host)
                size = size_of(held)
                if size > self.sizes.get(host.me, -1):
                    self.sizes[host.me] = size
                    self.largest[host.me] = largest_in(held)

    def _held(self, host: SimHost) -> list[Any]:
        """An engine, its timers, and the procedures that run for it."""
        running = host.memory._running.get(host.me, {}) if host.memory is not None else {}
        procedures = [getattr(each.send, "__self__", None) for each in running]
        return [host.engine, list(vars_of(host.timers)), procedures]


def vars_of(value: Any) -> Iterator[Any]:
    for name in type(value).__slots__:
        part = getattr(value, name)
        if isinstance(part, dict | list | set):
            yield list(part)


def attacked(course: Course, dice: Dice, sources: str, *, seed: int = 1) -> Result:
    """Runs an attack and checks what must hold; AssertionError says what does not."""
    result = Attack(course, dice, sources, seed=seed).run()
    most = course.most if sources == STRANGERS else course.lies
    too_much = {name: size for name, size in result.sizes.items() if size > most}
    assert not too_much, f"{too_much} of {most} are held: {[result.largest[name] for name in too_much]}"
    if sources == STRANGERS:
        assert not result.halted, f"halted by strangers: {result.halted}"
        assert not result.violated, f"broken by strangers: {result.violated}"
        assert result.summary.quiet, f"does not come to rest: {result.summary.not_quiet}"
    return result


@contextlib.contextmanager
def _not_for_ever() -> Iterator[None]:
    def over(*_: Any) -> None:
        raise Endless(f"a run has not ended after {LONGEST} s")

    before = signal.signal(signal.SIGVTALRM, over)
    signal.setitimer(signal.ITIMER_VIRTUAL, LONGEST)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


__all__ = ["MEMBERS", "STRANGERS", "Attack", "Endless", "Result", "attacked"]
