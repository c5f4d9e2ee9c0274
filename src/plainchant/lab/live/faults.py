"""Faults of a live run: what the injector (``scenario.faults``) asks for is done to operating-system processes.

Faults inside a process are commands to its worker, which records and carries them out; crashes and pauses are signals. A process
that is to be killed or stopped is asked to record the fault first. The agenda is run by the supervisor, one action at a time.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
import time
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from ...core.model import SECOND
from ...live.memory.server import MailboxServer
from ...scenario.faults import Action, State, describe_fault
from ...scenario.model import Fault
from . import control
from .crew import GONE_SECONDS, Crew
from .process import Process


class LiveFaults:
    """The live ``Backend``. Times are ns of the monotonic clock."""

    def __init__(self, crew: Crew, servers: Mapping[str, MailboxServer] = MappingProxyType({})) -> None:
        """``servers``: of shared memory, by node."""
        self._crew = crew
        self.nodes = servers
        self._agenda: list[tuple[int, int, Action]] = []
        self._order = itertools.count()

    async def run_until(self, end: int) -> None:
        """Performs actions when they are due, until a time."""
        while (now := self.now) < end:
            moment = min(end, self._agenda[0][0]) if self._agenda else end
            if now < moment:
                # No longer than 10 ms: a process that ends may add an action that is due at once.
                await asyncio.sleep(min(moment - now, SECOND // 100) / SECOND)
            else:
                await heapq.heappop(self._agenda)[2]()

    @property
    def now(self) -> int:
        return time.monotonic_ns()

    def at(self, moment: int, action: Action) -> None:
        heapq.heappush(self._agenda, (moment, next(self._order), action))

    def running(self, place: str) -> Process | None:
        return self._crew.running(place)

    def name_of(self, process: Process) -> str:
        return process.name

    async def state_of(self, process: Process) -> State:
        if process.running and not process.killed and process.listens and await self._lives(process):
            return "leaving" if process.leaving else "alive"
        return "stopped" if process.paused_until else "gone"

    async def _lives(self, process: Process) -> bool:
        """Whether a process runs, even if it is too busy to answer."""
        if await process.ask(control.Spare) is not None:
            return True
        return not await process.gone(GONE_SECONDS)

    async def record(self, processes: Sequence[Process], fault: Fault) -> None:
        detail = describe_fault(fault)
        listening = [process for process in processes if process.listens]  # one that is stopped cannot
        await asyncio.gather(*(process.ask(lambda number: control.Note(number, detail)) for process in listening))

    def crash(self, process: Process, why: str, detail: dict[str, Any]) -> None:
        process.kill(why)

    def doom(self, process: Process, fault: Fault) -> None:
        process.doomed = True
        process.tell(control.Inflict(fault))

    def pause(self, process: Process, until: int) -> None:
        process.pause(until)

    def keep_busy(self, process: Process, until: int, share: float) -> None:
        process.keep_busy(until, share)

    def inflict(self, process: Process, fault: Fault) -> None:
        match fault.kind:
            case "leave":
                process.leaving = not fault.group or set(process.entered) <= {fault.group}
            case "close" | "rename":
                self._crew.note_name(fault.group, fault.name)
        process.tell(control.Inflict(fault))

    def step_clock(self, fault: Fault) -> None:
        self._crew.offsets[fault.process] += fault.offset
        process = self._crew.running(fault.process)
        if process is not None:
            process.tell(control.Inflict(fault))

    def entered(self, process: Process) -> Mapping[str, None]:
        return process.entered

    def joined(self, process: Process) -> Mapping[str, None]:
        return process.entered

    async def come(self, place: str, groups: Sequence[str], fault: Fault) -> None:
        await self._crew.come(place, groups, fault)

    def enter(self, process: Process, groups: Sequence[str], fault: Fault) -> None:
        self._crew.note_entering(process.place, groups)
        process.tell(control.Enter(tuple(groups), fault))

    def has_module(self, node: str, module: int) -> bool:
        return True

    def crash_module(self, node: str, module: int) -> None:
        self.nodes[node].crash_module(module)

    async def lose_memory(self, node: str, processes: Sequence[Process]) -> None:
        if node in self.nodes and all([await process.gone(GONE_SECONDS) for process in processes]):
            self.nodes[node].remove_all()

    def spoil(self, fault: Fault, recording: Sequence[Process]) -> None:
        self._crew.spoil(fault, recording)

    def mend(self, fault: Fault) -> None:
        self._crew.divide()  # transports end a fault themselves; partitions in the kernel are made anew

    def calm(self) -> None:
        self._crew.heal()
