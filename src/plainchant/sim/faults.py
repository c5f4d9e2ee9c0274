"""Faults in the simulator: what the injector (``scenario.faults``) asks for is done to hosts, networks and shared memory."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from random import Random
from typing import Any, Protocol

from ..core.model import Form, Join
from ..scenario.faults import Action, Omission, Population, State, describe_fault
from ..scenario.model import SLICE, Fault
from .clocks import ProcessClock
from .host import SimHost
from .kernel import Kernel
from .memory import SimMemory
from .network import Networks


class Simulated(Population[SimHost], Protocol):
    """What the backend needs of the simulation: the processes, and how one starts."""

    memories: dict[str, SimMemory]  # shared memory by node

    @property
    def timely(self) -> bool:
        """Whether missing a shared-memory deadline, or a clock that is off, counts as a failure."""

    def come(self, place: str, groups: Mapping[str, Form | Join], fault: Fault) -> None:
        """Starts the next incarnation of a place, which enters these groups."""

    def enter(self, host: SimHost, group: str, how: Form | Join) -> None:
        """A live process enters a group, and its workload there begins."""

    def contacts(self, place: str, group: str) -> Join:
        """The processes to ask when a place's process joins a group."""

    def closed(self, group: str) -> None:
        """A process closes the group: later incarnations do not return to it."""

    def clock(self, place: str) -> ProcessClock:
        """The clock of a place, whether or not a process runs there."""


@dataclasses.dataclass
class SimFaults:
    """The simulator's ``Backend``; ``_middle`` draws how a broadcast is cut short."""

    _kernel: Kernel
    _networks: Networks
    _population: Simulated
    _middle: Random
    _over: bool = False

    @property
    def now(self) -> int:
        return self._kernel.now

    def at(self, moment: int, action: Action) -> None:
        self._kernel.at(moment, _complete, action)

    def running(self, place: str) -> SimHost | None:
        host = self._population.latest.get(place)
        return host if host is not None and host.alive else None

    def name_of(self, process: SimHost) -> str:
        return process.me

    async def state_of(self, process: SimHost) -> State:
        if not process.alive:
            return "gone"
        process.mid_crash = None
        return "leaving" if process.application.is_going else "alive"

    async def record(self, processes: Sequence[SimHost], fault: Fault) -> None:
        for host in processes:
            _note(host, fault)

    def crash(self, process: SimHost, why: str, detail: dict[str, Any]) -> None:
        process.crash(detail, why)

    def doom(self, process: SimHost, fault: Fault) -> None:
        if fault.after_events:
            process.countdown = fault.after_events
            process.doom = describe_fault(fault)
            process.refresh()
        else:
            _note(process, fault)
            process.mid_crash = self._middle

    def pause(self, process: SimHost, until: int) -> None:
        process.pause(until)
        self._kernel.at(until, self._resume, process)

    def _resume(self, process: SimHost) -> None:
        if process.alive and 0 < process.processor.paused_until <= self._kernel.now:
            process.resume()

    def keep_busy(self, process: SimHost, until: int, share: float) -> None:
        self._stop_and_go((process, round(share * SLICE), until))

    def _stop_and_go(self, task: tuple[SimHost, int, int]) -> None:
        host, stopped, until = task
        now = self._kernel.now
        if not self._over and host.alive and now < until:
            host.pause(now + stopped)
            self._kernel.at(now + stopped, self._resume, host)
            self._kernel.at(now + SLICE, self._stop_and_go, task)

    def step_clock(self, fault: Fault) -> None:
        host = self.running(fault.process)
        if host is not None:
            # Protocols on shared memory compare clocks, which may differ by their skew and no more.
            _note(host, fault, timing=host.memory is not None and self._population.timely)
        self._population.clock(fault.process).step(fault.offset)
        if host is not None:
            host.refresh()
            if host.memory is not None:
                host.memory.clock_was_set(host)

    def inflict(self, process: SimHost, fault: Fault) -> None:
        until, latest = self._kernel.now + fault.length, self._population.latest
        if fault.kind == "omit":
            process.omit(Omission(fault))  # it writes a row for each packet that it drops
            return
        if fault.kind == "form" and fault.group in process.entered:
            return
        _note(process, fault, timing=fault.kind == "slow" and self._population.timely)
        match fault.kind:
            case "form":
                process.propose(fault.group, [latest[name].me if name in latest else name for name in fault.members])
            case "slow":
                assert process.memory is not None
                process.memory.slow_down(process, until, fault.delay)
            case "sluggish":
                process.stop_reading(until, fault.count)
                self._kernel.at(until, self._read_again, process)
            case "leave":
                process.application.asked_to_leave(fault.group)
            case "refuse":
                process.refusing[fault.group] = None
            case "close":
                self._population.closed(fault.group)
                process.close_group(fault.group)
            case "rename":
                process.rename(fault.group, fault.name)
            case "disk":
                process.lose_disk()
            case _:
                raise AssertionError(f"{fault.kind} does not happen inside a process")

    def _read_again(self, host: SimHost) -> None:
        # One that began in the meantime and lasts longer goes on.
        if host.unread is not None and host.unread.until <= self._kernel.now:
            host.read_again()

    def entered(self, process: SimHost) -> Mapping[str, None]:
        return process.entered

    def joined(self, process: SimHost) -> Mapping[str, Any]:
        return process.joined

    async def come(self, place: str, groups: Sequence[str], fault: Fault) -> None:
        self._population.come(place, {group: self._population.contacts(place, group) for group in groups}, fault)

    def enter(self, process: SimHost, groups: Sequence[str], fault: Fault) -> None:
        for group in groups:
            _note(process, fault)
            self._population.enter(process, group, self._population.contacts(process.place, group))

    @property
    def nodes(self) -> Mapping[str, SimMemory]:
        return self._population.memories

    def has_module(self, node: str, module: int) -> bool:
        return module in self._population.memories[node].working

    def crash_module(self, node: str, module: int) -> None:
        self._population.memories[node].crash_module(module)

    async def lose_memory(self, node: str, processes: Sequence[SimHost]) -> None:
        memory = self._population.memories.get(node)
        if memory is not None:
            memory.lose_all()

    def spoil(self, fault: Fault, recording: Sequence[SimHost]) -> None:
        for host in recording:
            _note(host, fault)
        if fault.kind == "heal":
            self._networks.heal()
        else:
            self._networks.add(fault)

    def mend(self, fault: Fault) -> None:
        self._networks.remove(fault)

    def calm(self) -> None:
        self._over = True
        first = next((host for host in self._population.latest.values() if host.alive), None)
        if first is not None and first.notes_requests:
            first.note("fault", {"fault": "calm"})
        self._networks.calm()
        for memory in self._population.memories.values():
            memory.calm()
        for host in self._population.latest.values():
            host.countdown = 0
            host.mid_crash = None
            if host.alive:
                host.stop_omitting()
                host.read_again()
                if host.processor.paused_until:
                    host.resume()


def _note(host: SimHost, fault: Fault, *, timing: bool = False) -> None:
    host.note("fault", describe_fault(fault) | ({"timing": True} if timing else {}))


def _complete(action: Action) -> None:
    """Runs an action to its end: nothing in the simulator waits."""
    try:
        action().send(None)
    except StopIteration:
        return
    raise AssertionError("an action of the simulator waits")
