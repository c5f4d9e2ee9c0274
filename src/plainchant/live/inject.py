"""Makes the faults of a scenario happen to real processes, at their times.

What happens and who writes it down is as in the simulator (``sim.inject``): a fault of a process is a row at that process; a
partition is one at the first live process of each part; a cut, clog or loss is one at its source, or at its target if it comes
from anybody; a memory module's crash is one at every live process of its node, a node's or processor's one at everybody who dies
with it; what else concerns everybody is a row at the first live process. Rows are written before the fault happens: a process
that is to be killed or stopped is asked to write, and has answered.

A process that is to omit packets writes a row for each when it drops it. Processes that their protocol halts come back if
``restart_halted`` says so: drawn when they are gone, because nobody knows before who will.

A fault that finds nobody to happen to is *skipped*, with the reason. Real processes take their time, so that happens more often
than in the simulator: a process that is to come back may not be gone yet.
"""

from __future__ import annotations

import asyncio
import functools
import heapq
import itertools
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from random import Random
from types import MappingProxyType
from typing import Final

from ..core.model import MS, SECOND
from ..scenario.faults import describe_fault
from ..scenario.model import Fault, RandomFaults
from . import control
from .crew import GONE_SECONDS, Crew
from .memory.server import MailboxServer
from .process import Process

Action = Callable[[], Awaitable[None]]
_SHORTEST_ABSENCE: Final = 1 * MS


class Injector:
    """Puts a schedule of faults into effect until the time of faults is over."""

    def __init__(
        self,
        crew: Crew,
        faults: Sequence[Fault],
        rates: RandomFaults,
        returning: Random,
        servers: Mapping[str, MailboxServer] = MappingProxyType({}),
    ) -> None:
        """``servers``: of common memory, by node."""
        self._crew = crew
        self._servers = servers
        self._faults = faults
        self._rates = rates
        self._returning = returning
        """Draws who comes back of those that were halted, and when."""
        self._agenda: list[tuple[int, int, Action]] = []
        self._order = itertools.count()
        self._over = False
        self._waiting: dict[str, Fault] = {}
        """Restarts of processes that have yet to leave."""
        self.skipped: list[tuple[Fault, str]] = []
        self._actions: dict[str, Callable[[Fault], Awaitable[None]]] = {
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
        crew.gone = self._gone

    async def run(self, begin: int, end: int) -> None:
        """Makes faults happen from ``begin`` to ``end``, ns of the monotonic clock; then everything heals."""
        for fault in self._faults:
            if fault.kind == "crash" and fault.after_events:
                self._doom(self._crew.latest[fault.process], fault)
            else:
                self._at(begin + fault.at, functools.partial(self._actions[fault.kind], fault))
        while True:
            moment = min(end, self._agenda[0][0]) if self._agenda else end
            now = time.monotonic_ns()
            if now >= end:
                break
            if now < moment:
                # Not longer than this: who is gone may have something to do in our agenda at once.
                await asyncio.sleep(min(moment - now, SECOND // 100) / SECOND)
            else:
                await heapq.heappop(self._agenda)[2]()
        self._over = True
        for place, fault in self._waiting.items():
            self._skip(fault, f"{place} was still leaving when the time of faults was over")
        self._crew.heal()

    def _at(self, moment: int, action: Action) -> None:
        heapq.heappush(self._agenda, (moment, next(self._order), action))

    def _skip(self, fault: Fault, why: str) -> None:
        self.skipped.append((fault, why))

    # --- processes ----------------------------------------------------------------------------------------------------

    def _running(self, fault: Fault) -> Process | None:
        process = self._crew.running(fault.process)
        if process is None:
            self._skip(fault, f"{fault.process} was not there")
        return process

    def _member(self, fault: Fault) -> Process | None:
        """The process of a fault that is about a group which it must be in."""
        process = self._running(fault)
        if process is not None and fault.group not in process.entered:
            self._skip(fault, f"{process.name} was not in {fault.group}")
            return None
        return process

    def _gone(self, process: Process) -> None:
        """A process is gone; one that was to come back after leaving does so now."""
        fault = self._waiting.pop(process.place, None)
        if fault is not None and not self._over:
            self._at(0, functools.partial(self._follow, process, fault))
        elif process.end is not None and process.end.state == "halted" and self._rates.restart_halted and not self._over:
            comes = self._returning.random() < self._rates.restart_halted
            away = round(self._returning.expovariate(1 / max(self._rates.restart_after, 1)))
            if comes:
                restart = Fault(kind="restart", process=process.place)
                self._at(time.monotonic_ns() + max(away, _SHORTEST_ABSENCE), functools.partial(self._restart, restart))

    async def _crash(self, fault: Fault) -> None:
        process = self._running(fault)
        if process is None:
            return
        if fault.mid_broadcast:
            self._doom(process, fault)
        else:
            await self._write(process, fault)
            process.kill("by a fault")

    def _doom(self, process: Process, fault: Fault) -> None:
        process.doomed = True
        process.tell(control.Doom(describe_fault(fault), fault.after_events))

    async def _restart(self, fault: Fault) -> None:
        process = self._crew.latest.get(fault.process)
        if process is None:
            self._skip(fault, f"{fault.process} was never there")
            return
        if process.running and not process.killed and process.listens and await self._lives(process):
            # One that is leaving comes back when it has left.
            if process.leaving:
                self._waiting[process.place] = fault
            else:
                self._skip(fault, f"{process.name} was alive")
            return
        if process.paused_until:
            self._skip(fault, f"{process.name} was alive, and stopped")
            return
        await self._crew.come(fault.process, self._crew.groups_of(fault.process), fault)

    async def _follow(self, process: Process, fault: Fault) -> None:
        """Somebody follows a process that has left, unless somebody has meanwhile: a place has one process at a time."""
        if self._crew.latest.get(process.place) is process:
            await self._crew.come(process.place, self._crew.groups_of(process.place), fault)
        else:
            self._skip(fault, f"{self._crew.latest[process.place].name} had come already")

    async def _lives(self, process: Process) -> bool:
        """Whether a process is there, even if it is too busy to answer; a doomed one that has found no broadcast to die in lives
        on."""
        if await process.ask(control.Spare) is not None:
            process.doomed = False
            return True
        return not await process.gone(GONE_SECONDS)

    async def _join(self, fault: Fault) -> None:
        groups = (fault.group,) if fault.group else self._crew.groups_of(fault.process)
        process = self._crew.running(fault.process)
        if process is None:
            await self._crew.come(fault.process, groups, fault)
            return
        again = [group for group in groups if group in process.entered]
        if again:
            self._skip(fault, f"{process.name} has been in {', '.join(again)}; live, who comes back to a group is a new process")
        new = tuple(group for group in groups if group not in again)
        self._crew.note_entering(fault.process, new)
        process.tell(control.Enter(new, describe_fault(fault)))

    async def _leave(self, fault: Fault) -> None:
        process = self._running(fault)
        if process is not None:
            process.leaving = not fault.group or set(process.entered) <= {fault.group}
            process.tell(control.Leave(fault.group, describe_fault(fault)))

    async def _form(self, fault: Fault) -> None:
        process = self._running(fault)
        if process is not None:
            process.tell(control.Form(fault.group, fault.members, describe_fault(fault)))

    async def _refuse(self, fault: Fault) -> None:
        process = self._running(fault)
        if process is not None:
            process.tell(control.Refuse(fault.group, describe_fault(fault)))

    async def _close(self, fault: Fault) -> None:
        process = self._member(fault)
        if process is not None:
            self._crew.note_name(fault.group, "")
            process.tell(control.Close(fault.group, describe_fault(fault)))

    async def _rename(self, fault: Fault) -> None:
        process = self._member(fault)
        if process is not None:
            self._crew.note_name(fault.group, fault.name)
            process.tell(control.Rename(fault.group, fault.name, describe_fault(fault)))

    async def _pause(self, fault: Fault) -> None:
        process = self._running(fault)
        if process is None:
            return
        await self._write(process, fault)
        self._at(process.pause(fault.length), functools.partial(self._resume, process))

    async def _resume(self, process: Process) -> None:
        # A longer pause that began in the meantime goes on.
        if process.paused_until <= time.monotonic_ns():
            process.resume()

    async def _omit(self, fault: Fault) -> None:
        process = self._running(fault)
        if process is not None:
            process.tell(control.Omit(fault))

    async def _step(self, fault: Fault) -> None:
        # A clock goes on, and can be set, while the process is down.
        self._crew.offsets[fault.process] += fault.offset
        process = self._crew.running(fault.process)
        if process is not None:
            process.tell(control.Step(fault.offset, describe_fault(fault)))

    async def _sluggish(self, fault: Fault) -> None:
        process = self._running(fault)
        if process is not None:
            process.tell(control.Laze(fault.length, describe_fault(fault)))

    async def _busy(self, fault: Fault) -> None:
        process = self._running(fault)
        if process is not None:
            await self._write(process, fault)
            process.keep_busy(fault.length, fault.rate)

    async def _disk(self, fault: Fault) -> None:
        process = self._running(fault)
        if process is not None:
            process.tell(control.Fill(fault.room, describe_fault(fault)))

    # --- nodes and common memory --------------------------------------------------------------------------------------

    async def _module(self, fault: Fault) -> None:
        node = fault.node or next(iter(self._servers))
        for process in self._on(self._crew.node_of, node):
            await self._write(process, fault)
        self._servers[node].crash_module(fault.module)

    async def _node(self, fault: Fault) -> None:
        killed = self._on(self._crew.node_of, fault.node)
        await self._crash_all(killed, fault, f"with node {fault.node}")
        if fault.node in self._servers and all([await process.gone(GONE_SECONDS) for process in killed]):
            self._servers[fault.node].remove_all()

    async def _processor(self, fault: Fault) -> None:
        await self._crash_all(self._on(self._crew.processor_of, fault.processor), fault, f"with processor {fault.processor}")

    def _on(self, unit_of: Callable[[str], str], unit: str) -> list[Process]:
        """The processes of a node or processor that run."""
        return [process for process in self._crew.all_running if unit_of(process.place) == unit]

    async def _crash_all(self, processes: Sequence[Process], fault: Fault, why: str) -> None:
        if not processes:
            self._skip(fault, "nobody was there")
        await asyncio.gather(*(self._write(process, fault) for process in processes))
        for process in processes:
            process.kill(why)

    async def _slow(self, fault: Fault) -> None:
        process = self._running(fault)
        if process is not None:
            process.tell(control.Slow(fault.delay, fault.length, describe_fault(fault)))

    async def _write(self, process: Process, fault: Fault) -> None:
        """Has a process write a fault down; one that is stopped cannot."""
        if process.listens:
            detail = describe_fault(fault)
            await process.ask(lambda number: control.Note(number, detail))

    # --- the network --------------------------------------------------------------------------------------------------

    async def _partition(self, fault: Fault) -> None:
        await self._put(fault, [self._first(part) for part in fault.parts])

    async def _on_link(self, fault: Fault) -> None:
        named = fault.source or fault.target
        await self._put(fault, [self._first([named] if named else self._crew.latest)])

    async def _lan(self, fault: Fault) -> None:
        await self._put(fault, [self._first(self._crew.latest)])

    async def _heal(self, fault: Fault) -> None:
        await self._put(fault, [self._first(self._crew.latest)])

    async def _put(self, fault: Fault, told: Iterable[Process | None]) -> None:
        self._crew.spoil(fault, [process for process in told if process is not None])
        if fault.length:
            self._at(time.monotonic_ns() + fault.length, self._divide)

    async def _divide(self) -> None:
        self._crew.divide()

    def _first(self, places: Iterable[str]) -> Process | None:
        return next((process for place in places if (process := self._crew.running(place)) is not None), None)
