"""Makes faults happen, and writes each into the trace where it hits.

A fault of a process is a ``fault`` row at that process (a crash in the middle of a broadcast: when the process is
doomed, which is before the broadcast). A partition is one row at the first live process of each part; a cut, clog or
loss is one at its source, or at its target if it comes from anybody; what concerns everybody is a row at the first
live process. A process that is to omit packets gets a row for each when it does. A module's crash is a row at every process of
its node; of a node or processor that crashes, every process has its row.

Processes that their protocol halts come back if ``restart_halted`` says so: drawn when they halt, because nobody knows before who
will.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from random import Random
from typing import Final, Protocol

from ..core.model import MS, Form, Join, UsageError
from ..scenario.model import SLICE, Fault, RandomFaults
from .clocks import ProcessClock
from .host import SimHost
from .kernel import Kernel
from .memory import SimMemory
from .network import Networks
from .omissions import Omission
from .summary import describe_fault

_SHORTEST_ABSENCE: Final = 1 * MS
"""A process that halts again and again comes back no sooner than this: a run has so many incarnations and no more."""


class Population(Protocol):
    """Who takes part; the simulation."""

    latest: dict[str, SimHost]
    memories: dict[str, SimMemory]
    """Common memory by node."""

    def node_of(self, base: str) -> str: ...

    def processor_of(self, base: str) -> str: ...

    @property
    def timely(self) -> bool:
        """Whether who is late on common memory, or whose clock is off, has failed."""

    def come(self, base: str, groups: Mapping[str, Form | Join], fault: Fault) -> None:
        """A new incarnation starts and enters these groups."""

    def enter(self, host: SimHost, group: str, how: Form | Join) -> None:
        """A live process enters a group, and its workload there begins."""

    def groups_of(self, base: str) -> tuple[str, ...]:
        """The groups that a process enters when it comes."""

    def contacts(self, base: str, group: str) -> Join: ...

    def closed(self, group: str) -> None:
        """Somebody closes the group: nobody is to come back to it."""

    def clock(self, base: str) -> ProcessClock:
        """The clock of a process's machine, whether or not the process runs."""


class Injector:
    """Puts a schedule of faults into effect until it is told that the faults are over."""

    def __init__(
        self,
        kernel: Kernel,
        networks: Networks,
        population: Population,
        random: Random,
        rates: RandomFaults,
        returning: Random,
    ) -> None:
        self._kernel = kernel
        self._networks = networks
        self._population = population
        self._random = random
        self._rates = rates
        self._returning = returning
        self._over = False
        self.returns: dict[str, int] = {}
        """When processes that were halted come back."""
        self._actions: dict[str, Callable[[Fault], None]] = {
            "crash": self._crash,
            "restart": self._restart,
            "join": self._join,
            "leave": self._leave,
            "form": self._form,
            "refuse": self._refuse,
            "close": self._close,
            "rename": self._rename,
            "pause": self._pause,
            "partition": self._partition,
            "cut": self._on_link,
            "clog": self._on_link,
            "loss": self._on_link,
            "omit": self._omit,
            "lan": self._lan,
            "heal": self._heal,
            "step": self._step,
            "module": self._module,
            "node": self._node,
            "processor": self._processor,
            "slow": self._slow,
            "sluggish": self._sluggish,
            "busy": self._busy,
            "disk": self._disk,
        }

    def schedule(self, faults: Iterable[Fault]) -> None:
        for fault in faults:
            if fault.kind == "crash" and fault.after_events:
                host = self._population.latest.get(fault.process)
                if host is None:
                    raise UsageError(f"{fault.process} is not there at the start: crash it at a time")
                host.countdown = fault.after_events
                host.doom = describe_fault(fault)
                host.refresh()
            else:
                self._kernel.at(fault.at, self._inject, fault)

    def stop(self) -> None:
        """No further faults; those that are under way end."""
        self._over = True
        self._networks.calm()
        for memory in self._population.memories.values():
            memory.calm()
        for host in self._population.latest.values():
            host.countdown = 0
            host.mid_crash = None
            host.restart_waits = False
            if host.alive:
                host.stop_omitting()
                host.read_again()
                if host.processor.paused_until:
                    host.resume()

    def stopped(self, host: SimHost) -> None:
        """A process stopped; one that was to come back after leaving does so now, one that was halted perhaps later."""
        if self._over:
            return
        if host.restart_waits:
            self._kernel.at(self._kernel.now, self._inject, Fault(kind="restart", process=host.base))
        elif host.end.state == "halted" and self._rates.restart_halted:
            self._return_from_halt(host.base)

    def _return_from_halt(self, base: str) -> None:
        comes = self._returning.random() < self._rates.restart_halted
        away = round(self._returning.expovariate(1 / max(self._rates.restart_after, 1)))
        if comes:
            self.returns[base] = self._kernel.now + max(away, _SHORTEST_ABSENCE)
            self._kernel.at(self.returns[base], self._inject, Fault(kind="restart", process=base))

    def _inject(self, fault: Fault) -> None:
        if not self._over:
            self._actions[fault.kind](fault)

    # --- processes ----------------------------------------------------------------------------------------------------

    def _alive(self, base: str) -> SimHost | None:
        host = self._population.latest.get(base)
        return host if host is not None and host.alive else None

    def _crash(self, fault: Fault) -> None:
        host = self._alive(fault.process)
        if host is None:
            return
        host.note("fault", describe_fault(fault))
        if fault.mid_broadcast:
            host.mid_crash = self._random
        else:
            host.crash({})

    def _restart(self, fault: Fault) -> None:
        host = self._population.latest.get(fault.process)
        if host is None:
            return
        if host.alive:
            # A doomed process that has found no broadcast to die in lives on; one that is leaving comes back when it
            # has left.
            host.mid_crash = None
            host.restart_waits = host.application.is_going
            return
        self._come(fault, self._population.groups_of(fault.process))

    def _join(self, fault: Fault) -> None:
        groups = (fault.group,) if fault.group else self._population.groups_of(fault.process)
        host = self._alive(fault.process)
        if host is None:
            self._come(fault, groups)
            return
        for group in groups:
            if group not in host.entered:
                host.note("fault", describe_fault(fault))
                self._population.enter(host, group, self._population.contacts(fault.process, group))

    def _come(self, fault: Fault, groups: tuple[str, ...]) -> None:
        how = {group: self._population.contacts(fault.process, group) for group in groups}
        self._population.come(fault.process, how, fault)

    def _leave(self, fault: Fault) -> None:
        host = self._alive(fault.process)
        if host is None:
            return
        host.note("fault", describe_fault(fault))
        host.application.asked_to_leave(fault.group)

    def _form(self, fault: Fault) -> None:
        host = self._alive(fault.process)
        if host is not None and fault.group not in host.entered:
            host.note("fault", describe_fault(fault))
            latest = self._population.latest
            host.propose(fault.group, [latest[name].me if name in latest else name for name in fault.members])

    def _refuse(self, fault: Fault) -> None:
        host = self._alive(fault.process)
        if host is not None:
            host.note("fault", describe_fault(fault))
            host.refusing[fault.group] = None

    def _close(self, fault: Fault) -> None:
        host = self._alive(fault.process)
        if host is not None and fault.group in host.joined:
            host.note("fault", describe_fault(fault))
            self._population.closed(fault.group)
            host.close_group(fault.group)

    def _rename(self, fault: Fault) -> None:
        host = self._alive(fault.process)
        if host is not None and fault.group in host.joined:
            host.note("fault", describe_fault(fault))
            host.rename(fault.group, fault.name)

    def _pause(self, fault: Fault) -> None:
        host = self._alive(fault.process)
        if host is None:
            return
        host.note("fault", describe_fault(fault))
        host.pause(self._kernel.now + fault.length)
        self._kernel.at(self._kernel.now + fault.length, self._resume, host)

    def _omit(self, fault: Fault) -> None:
        host = self._alive(fault.process)
        if host is not None:
            host.omit(Omission(fault))

    def _sluggish(self, fault: Fault) -> None:
        host = self._alive(fault.process)
        if host is not None:
            host.note("fault", describe_fault(fault))
            host.stop_reading(self._kernel.now + fault.length, fault.count)
            self._kernel.at(self._kernel.now + fault.length, self._read_again, host)

    def _read_again(self, host: SimHost) -> None:
        # One that began in the meantime and lasts longer goes on.
        if host.unread is not None and host.unread.until <= self._kernel.now:
            host.read_again()

    def _busy(self, fault: Fault) -> None:
        host = self._alive(fault.process)
        if host is not None:
            host.note("fault", describe_fault(fault))
            self._stop_and_go((host, round(fault.rate * SLICE), self._kernel.now + fault.length))

    def _stop_and_go(self, task: tuple[SimHost, int, int]) -> None:
        host, stopped, until = task
        now = self._kernel.now
        if not self._over and host.alive and now < until:
            host.pause(now + stopped)
            self._kernel.at(now + stopped, self._resume, host)
            self._kernel.at(now + SLICE, self._stop_and_go, task)

    def _disk(self, fault: Fault) -> None:
        host = self._alive(fault.process)
        if host is not None:
            host.note("fault", describe_fault(fault))
            host.lose_disk()

    def _resume(self, host: SimHost) -> None:
        # A longer pause that began in the meantime goes on.
        if host.alive and 0 < host.processor.paused_until <= self._kernel.now:
            host.resume()

    def _step(self, fault: Fault) -> None:
        host = self._alive(fault.process)
        if host is not None:
            # Protocols on common memory compare clocks, which may differ by their skew and no more.
            wrong = host.memory is not None and self._population.timely
            host.note("fault", describe_fault(fault) | ({"timing": True} if wrong else {}))
        # A clock goes on, and can be set, while the process is down.
        self._population.clock(fault.process).step(fault.offset)
        if host is not None:
            host.refresh()
            if host.memory is not None:
                host.memory.clock_was_set(host)

    # --- nodes and common memory --------------------------------------------------------------------------------------

    def _module(self, fault: Fault) -> None:
        node = fault.node or next(iter(self._population.memories))
        if self._population.memories[node].crash_module(fault.module):
            for host in self._on(self._population.node_of, node):
                host.note("fault", describe_fault(fault))

    def _node(self, fault: Fault) -> None:
        self._crash_all(self._on(self._population.node_of, fault.node), fault)
        memory = self._population.memories.get(fault.node)
        if memory is not None:
            memory.lose_all()

    def _processor(self, fault: Fault) -> None:
        self._crash_all(self._on(self._population.processor_of, fault.processor), fault)

    def _on(self, unit_of: Callable[[str], str], unit: str) -> list[SimHost]:
        """The live processes of a node or processor."""
        return [host for base, host in self._population.latest.items() if host.alive and unit_of(base) == unit]

    def _crash_all(self, hosts: list[SimHost], fault: Fault) -> None:
        detail = {fault.kind: getattr(fault, fault.kind)}
        for host in hosts:
            host.note("fault", describe_fault(fault))
            host.crash(detail, f"with {fault.kind} {detail[fault.kind]}")

    def _slow(self, fault: Fault) -> None:
        host = self._alive(fault.process)
        if host is not None:
            assert host.memory is not None
            host.note("fault", describe_fault(fault) | ({"timing": True} if self._population.timely else {}))
            host.memory.slow_down(host, self._kernel.now + fault.length, fault.delay)

    # --- the network --------------------------------------------------------------------------------------------------

    def _partition(self, fault: Fault) -> None:
        for part in fault.parts:
            self._note(part, fault)
        self._put(fault)

    def _on_link(self, fault: Fault) -> None:
        named = fault.source or fault.target
        self._note([named] if named else self._population.latest, fault)
        self._put(fault)

    def _lan(self, fault: Fault) -> None:
        self._note(self._population.latest, fault)
        self._put(fault)

    def _heal(self, fault: Fault) -> None:
        self._note(self._population.latest, fault)
        self._networks.heal()

    def _put(self, fault: Fault) -> None:
        self._networks.add(fault)
        if fault.length:
            self._kernel.at(self._kernel.now + fault.length, self._networks.remove, fault)

    def _note(self, names: Iterable[str], fault: Fault) -> None:
        for name in names:
            host = self._alive(name)
            if host is not None:
                host.note("fault", describe_fault(fault))
                return
