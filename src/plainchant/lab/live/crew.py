"""The processes of a live run: which there are, what task each gets, and which of them run now.

A place (``p3``) has one process at a time: ``p3``, then ``p3#1``. All of a place's processes have its address, its clock and its
links. Starting a process takes long, so a few of those that are needed later (for a restart or a join) are started at the
beginning and wait for their task; the others start when they are due.
"""

from __future__ import annotations

import asyncio
import dataclasses
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from ...core.model import Duration, PlainchantError
from ...core.wire import FRAME_BYTES
from ...live.host import MARGIN
from ...live.ports import free_addresses
from ...live.transport import Address
from ...protocols.registry import describe
from ...scenario.faults import describe_fault
from ...scenario.links import part_of
from ...scenario.model import Fault, Scenario, clock_of, first_groups, groups_ever
from . import control
from .namespaces import PORT, Namespaces
from .process import LiveError, Process

START_SECONDS: Final = 60.0  # how long the first members may take to start and to form their groups
COMPLAINTS: Final = "complaints"  # under the spools: what processes wrote to standard error
GONE_SECONDS: Final = 2.0  # how long a new process waits for its place's last one, which must have given its address back
_SPARES: Final = 4  # processes for later that are started at the beginning


class Crew:
    """Starts processes, keeps them by place, and knows how the network is at the moment."""

    def __init__(
        self,
        scenario: Scenario,
        spools: Path,
        processes: list[Process],
        *,
        namespaces: Namespaces | None,
        given: Mapping[str, Any],
        run: str,
        memory: str = "",
        key: str = "",
    ) -> None:
        """``processes`` gets every process that is started; the caller has to end them."""
        self.latest: dict[str, Process] = {}  # the last process of each place
        self.employed: list[Process] = []  # all processes that ever had a task
        self.begin: int | None = None  # when the scenario began, ns of the monotonic clock
        self.calm = False
        self.gone: Callable[[Process], None] = lambda process: None  # called when a process is gone
        places = (*scenario.members, *scenario.later)
        self.offsets = {place: clock_of(place, scenario.clock).offset for place in places}  # the offset of each place's clock, ns
        self._scenario, self._spools, self._processes, self._namespaces = scenario, spools, processes, namespaces
        self._description = describe(scenario.protocol)
        self._parameters = self._description.parameters(**scenario.parameters)
        self._peers, backup = _addresses(places, namespaces, self._description.placement.lans(self._parameters))
        network, workload, duration, seed = scenario.network, scenario.workload, scenario.duration, str(scenario.seed)
        task: dict[str, Any] = {"peers": self._peers, "backup": backup, "protocol": scenario.protocol, "parameters": dict(given)}
        task |= {"packet": network.max_packet + FRAME_BYTES + MARGIN, "groups": groups_ever(scenario.groups, scenario.fault)}
        task |= {"network": network, "workload": workload, "duration": duration, "seed": seed, "trace": str(spools), "run": run}
        task |= {"memory": memory, "operations": scenario.memory.operations, "key": key, "insecure": namespaces is not None}
        self._task = task  # what all tasks have in common
        self._incarnations: dict[str, int] = {}
        self._entered: dict[str, dict[str, None]] = {}
        self._spares: dict[str, list[Process]] = {}
        self._on_network: list[tuple[Fault, int]] = []  # network faults and their ends, monotonic ns (0: until healed)
        self._news = asyncio.Event()
        (spools / COMPLAINTS).mkdir()

    async def form(self, later: Sequence[str]) -> None:
        """Starts the first members, and returns when their groups are formed. ``later``: places that need a further process."""
        groups = self._scenario.groups
        first = {place: self._make(place) for place in self._scenario.members}
        for place in later[:_SPARES]:
            self._spares.setdefault(place, []).append(self._make(place))
        for place, process in first.items():
            mine = tuple(group for group, members in groups.items() if place in members)
            await self._employ(process, place, mine, forms=True, note=None)
        try:
            async with asyncio.timeout(START_SECONDS):
                while self._outside():
                    await self._news.wait()
                    self._news.clear()
                    self._fail_if_dead()
        except TimeoutError:
            text = f"in {START_SECONDS:g} s not all processes got into their groups: {', '.join(self._outside())} did not"
            raise LiveError(f"{text}; is the machine overloaded, or does the network lose everything?") from None

    async def come(self, place: str, groups: Sequence[str], fault: Fault) -> None:
        """Starts a place's next process, which joins these groups."""
        last = self.latest.get(place)
        if last is not None:
            await last.gone(GONE_SECONDS)
        spares = self._spares.get(place)
        process = spares.pop() if spares else self._make(place)
        await self._employ(process, place, tuple(groups), forms=False, note=describe_fault(fault))

    def groups_of(self, place: str) -> tuple[str, ...]:
        """The groups that a place's next process enters: those of the process before, by their present names."""
        if place in self._entered:
            return tuple(self._entered[place])
        return first_groups(place, self._scenario.groups, self._scenario.members)

    def note_name(self, group: str, name: str) -> None:
        """A group gets another name, or is closed if that is empty: a process that restarts joins the groups that are left."""
        for entered in self._entered.values():
            if group in entered:
                del entered[group]
                if name:
                    entered[name] = None

    def note_entering(self, place: str, groups: Iterable[str]) -> None:
        self._entered.setdefault(place, {}).update(dict.fromkeys(groups))

    def _make(self, place: str) -> Process:
        within = self._namespaces.inside(place) if self._namespaces is not None else ()
        process = Process(self._spools / COMPLAINTS / f"{len(self._processes)}-{place}.txt", within)
        self._processes.append(process)
        return process

    async def _employ(
        self, process: Process, place: str, groups: tuple[str, ...], *, forms: bool, note: dict[str, Any] | None
    ) -> None:
        incarnation = self._incarnations.get(place, -1) + 1
        self._incarnations[place] = incarnation
        self.latest[place] = process
        self.employed.append(process)
        self.note_entering(place, groups)
        who = {"place": place, "incarnation": incarnation, "enter": groups, "forms": forms, "note": note}
        now = {"faults": self._still_on_network(), "calm": self.calm, "begin": self.begin, "clock_offset": self.offsets[place]}
        await process.employ(control.Task(**self._task | who | now), self._on_change)

    def _on_change(self, process: Process) -> None:
        self._news.set()
        if not process.running:
            self.gone(process)

    def _outside(self) -> list[str]:
        """Members that are not in all of their groups yet, or, if they have none, do not serve yet."""
        found = []
        for place, process in self.latest.items():
            groups = [group for group, members in self._scenario.groups.items() if place in members]
            if any(group not in process.entered for group in groups) or not (groups or process.serves):
                found.append(place)
        return found

    def _fail_if_dead(self) -> None:
        for process in self.latest.values():
            if process.end is not None:
                raise LiveError(f"{process.name} was gone before the scenario began: {process.end.reason or process.end.state}")

    def running(self, place: str) -> Process | None:
        """The process of a place, if there is one."""
        process = self.latest.get(place)
        return process if process is not None and process.running else None

    def node_of(self, place: str) -> str:
        """The node of a place; empty: there are no nodes."""
        node_of = self._description.placement.node_of
        return node_of(self._parameters, place) if node_of is not None else ""

    def processor_of(self, place: str) -> str:
        return self._description.placement.processor_of(self._parameters, place)

    @property
    def all_running(self) -> list[Process]:
        return [process for process in self.latest.values() if process.running]

    def tell_all(self, command: control.Command) -> None:
        for process in self.all_running:
            process.tell(command)

    def spoil(self, fault: Fault, told: Iterable[Process]) -> None:
        """Puts a fault on the network, or heals it; ``told`` are the processes that record it."""
        writing = list(told)
        if fault.kind == "heal":
            self._on_network.clear()
        else:
            self._on_network.append((fault, time.monotonic_ns() + fault.length if fault.length else 0))
        by_kernel = self._namespaces is not None and fault.kind == "partition"
        for process in self.all_running:
            if not by_kernel:
                process.tell(control.Spoil(fault, recorded=process in writing))
            elif process in writing:
                process.tell(control.Note(0, describe_fault(fault)))
        self.divide()

    def divide(self) -> None:
        """Applies the partitions of the moment, where the kernel makes them."""
        if self._namespaces is None:
            return
        parts: dict[tuple[int | str, ...], list[str]] = {}
        now = time.monotonic_ns()
        lasting = [fault for fault, end in self._on_network if fault.kind == "partition" and not 0 < end <= now]
        partitions = [part_of(fault.parts) for fault in lasting]
        for place in self._peers:
            parts.setdefault(tuple(part.get(place, place) for part in partitions), []).append(place)
        self._namespaces.divide(parts.values())

    def heal(self) -> None:
        """The time of faults is over."""
        self.calm = True
        self._on_network.clear()
        self.divide()
        for process in self.all_running:
            process.relax()
            process.tell(control.Quieten())

    def _still_on_network(self) -> tuple[Fault, ...]:
        """The faults of the network that a new process has to apply, with the time that each has left."""
        now = time.monotonic_ns()
        by_transport = [(fault, end) for fault, end in self._on_network if self._namespaces is None or fault.kind != "partition"]
        lasting = [(fault, Duration(end - now if end else fault.length)) for fault, end in by_transport if not 0 < end <= now]
        return tuple(dataclasses.replace(fault, length=left) for fault, left in lasting)


def _addresses(places: Sequence[str], namespaces: Namespaces | None, lans: int) -> tuple[dict[str, Address], dict[str, Address]]:
    """The addresses of all places on the first network, and on the second, if there is one."""
    if namespaces is not None:
        peers = {place: namespaces.address(place) for place in places}
        return peers, {place: (host, PORT + 1) for place, (host, _) in peers.items()} if lans > 1 else {}
    try:
        found = list(free_addresses(range(len(places) * lans)).values())
    except PlainchantError as error:
        raise LiveError(str(error)) from error
    return dict(zip(places, found, strict=False)), dict(zip(places, found[len(places) :], strict=False))
