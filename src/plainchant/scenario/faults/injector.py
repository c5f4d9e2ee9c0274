"""Makes the faults of a scenario happen, on any host.

Theory of operation
-------------------
The :class:`Injector` has the table of faults. It decides which processes a fault concerns, which of them record it, what is done,
and when it is undone. A :class:`Backend` does it: the simulator's to hosts in virtual time (``sim.faults``), the live one's to
operating-system processes (``lab.live.faults``).

**Rows.** A fault of a process is a ``fault`` row at that process. A partition is a row at the first running process of each part;
a cut, clog or loss is a row at its source, or at its target if it has no source; a module's crash is a row at every process of
its node; a node's or processor's crash is a row at every process that crashes with it. What concerns everyone is a row at the
first running process. A row is written before its fault happens: a process that was killed cannot write. Omitted packets are
recorded one by one.

**Coroutines.** Actions are coroutines, because a live process has to be asked and may be slow to answer. The simulator's backend
never waits, so there each action runs to its end at once.

**Skipped faults.** A fault that finds no process to happen to is skipped, with a reason. That is common live: a process that is
to restart may not be gone yet. Processes that their protocol halts come back if ``restart_halted`` says so; that is drawn when
they halt.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Container, Coroutine, Iterable, Mapping, Sequence
from functools import partial
from random import Random
from typing import Any, Final, Generic, Literal, Protocol, TypeAlias, TypeVar

from ...core.model import MS, UsageError
from ..model import Fault, RandomFaults

P = TypeVar("P")  # a process, as its host knows it
P_co = TypeVar("P_co", covariant=True)
Action: TypeAlias = Callable[[], Coroutine[Any, Any, None]]
State: TypeAlias = Literal["gone", "alive", "leaving", "stopped"]

_SHORTEST_ABSENCE: Final = 1 * MS
"""A halted process comes back no sooner than this: one that halts again and again has a bounded number of incarnations."""


class Population(Protocol[P_co]):
    """The processes of a run, by place: the simulation, or the crew of a live run."""

    @property
    def latest(self) -> Mapping[str, P_co]:
        """The last process of each place, running or not."""

    def groups_of(self, place: str) -> tuple[str, ...]:
        """The groups that a place's next process enters."""

    def node_of(self, place: str) -> str: ...
    def processor_of(self, place: str) -> str: ...


class Backend(Protocol[P]):
    """What the injector needs of a host. Methods that take a fault record it where their text says so."""

    @property
    def now(self) -> int:
        """The time, ns."""

    def at(self, moment: int, action: Action) -> None:
        """Performs an action at a time, or as soon as possible after it. Actions of one moment run in the order of the calls."""

    def running(self, place: str) -> P | None:
        """The process of a place, if one runs."""

    def name_of(self, process: P) -> str: ...

    async def state_of(self, process: P) -> State:
        """Whether a place's last process is gone. One that was doomed and found no broadcast to die in is spared: it is alive."""

    async def record(self, processes: Sequence[P], fault: Fault) -> None:
        """Has processes write the fault's row; returns when all have."""

    def crash(self, process: P, why: str, detail: dict[str, Any]) -> None:
        """Ends a process at once. ``detail`` is for its ``crash`` row, where the host writes one."""

    def doom(self, process: P, fault: Fault) -> None:
        """Crashes a process later: after its k-th event, or in the middle of its next broadcast. Records the fault."""

    def pause(self, process: P, until: int) -> None:
        """Stops a process, and lets it go on at a time; a longer pause that is under way stays."""

    def keep_busy(self, process: P, until: int, share: float) -> None:
        """Stops a process for a share of every :data:`SLICE` until a time."""

    def inflict(self, process: P, fault: Fault) -> None:
        """A fault that happens inside a process: it is recorded, if its kind has a row, and carried out there."""

    def step_clock(self, fault: Fault) -> None:
        """Sets the clock of a place, whether or not a process runs there; a process that does records it."""

    def entered(self, process: P) -> Container[str]:
        """The groups that a process is in or has asked to enter."""

    def joined(self, process: P) -> Container[str]:
        """The groups that a process is in."""

    async def come(self, place: str, groups: Sequence[str], fault: Fault) -> None:
        """Starts a place's next process. It records the fault and joins these groups."""

    def enter(self, process: P, groups: Sequence[str], fault: Fault) -> None:
        """A running process joins further groups, and records the fault for each."""

    @property
    def nodes(self) -> Iterable[str]:
        """The nodes that have shared memory."""

    def has_module(self, node: str, module: int) -> bool:
        """Whether a memory module has not crashed before, as far as the host knows."""

    def crash_module(self, node: str, module: int) -> None: ...

    async def lose_memory(self, node: str, processes: Sequence[P]) -> None:
        """What was in a node's memory is lost, when these processes, all that used it, are gone."""

    def spoil(self, fault: Fault, recording: Sequence[P]) -> None:
        """Puts a fault on the network, or heals it; these processes record it."""

    def mend(self, fault: Fault) -> None:
        """A fault of the network has lasted its length."""

    def calm(self) -> None:
        """The time of faults is over: what is under way ends, and rates of loss, damage and the like become 0."""


class Injector(Generic[P]):
    """Makes a schedule of faults happen until it is stopped."""

    def __init__(self, backend: Backend[P], population: Population[P], rates: RandomFaults, returning: Random) -> None:
        """``returning`` draws which halted processes come back, and when."""
        self._backend = backend
        self._population = population
        self._rates = rates
        self._returning = returning
        self._over = False
        self._waiting: dict[str, Fault] = {}  # restarts of processes that have yet to leave, by place
        self.returns: dict[str, int] = {}  # when halted processes come back, by place
        self.skipped: list[tuple[Fault, str]] = []
        self.actions: Final[Mapping[str, Callable[[Fault], Awaitable[None]]]] = {
            "crash": self._crash,
            "restart": self._restart,
            "join": self._join,
            "pause": self._pause,
            "busy": self._busy,
            "step": self._step,
            "module": self._module,
            "node": self._node,
            "processor": self._processor,
            **dict.fromkeys(("leave", "form", "refuse", "omit", "slow", "sluggish", "disk"), self._inside),
            **dict.fromkeys(("close", "rename"), self._inside_group),
            **dict.fromkeys(("partition", "cut", "clog", "loss", "lan", "heal"), self._on_network),
        }

    def schedule(self, faults: Iterable[Fault], begin: int = 0) -> None:
        """Plans faults; ``begin`` is the scenario's time 0 on the backend's clock."""
        for fault in faults:
            if fault.kind == "crash" and fault.after_events:
                process = self._population.latest.get(fault.process)
                if process is None:
                    raise UsageError(f"{fault.process} is not there at the start: crash it at a time")
                self._backend.doom(process, fault)
            else:
                self._backend.at(begin + fault.at, partial(self._inject, fault))

    def stop(self) -> None:
        """No further faults; those that are under way end."""
        self._over = True
        for place, fault in self._waiting.items():
            self._skip(fault, f"{place} was still leaving when the time of faults was over")
        self._waiting.clear()
        self._backend.calm()

    def gone(self, place: str, process: P, *, halted: bool) -> None:
        """The host says that a process is gone: it may be one that comes back."""
        fault = self._waiting.pop(place, None)
        if self._over:
            return
        if fault is not None:
            self._backend.at(self._backend.now, partial(self._follow, place, process, fault))
        elif halted and self._rates.restart_halted:
            comes = self._returning.random() < self._rates.restart_halted
            absence = round(self._returning.expovariate(1 / max(self._rates.restart_after, 1)))
            if comes:
                self.returns[place] = self._backend.now + max(absence, _SHORTEST_ABSENCE)
                self._backend.at(self.returns[place], partial(self._inject, Fault(kind="restart", process=place)))

    async def _inject(self, fault: Fault) -> None:
        if not self._over:
            await self.actions[fault.kind](fault)

    def _skip(self, fault: Fault, why: str) -> None:
        self.skipped.append((fault, why))

    def _running(self, fault: Fault) -> P | None:
        process = self._backend.running(fault.process)
        if process is None:
            self._skip(fault, f"{fault.process} was not there")
        return process

    async def _crash(self, fault: Fault) -> None:
        process = self._running(fault)
        if process is None:
            return
        if fault.mid_broadcast:
            self._backend.doom(process, fault)
        else:
            await self._backend.record([process], fault)
            self._backend.crash(process, "by a fault", {})

    async def _restart(self, fault: Fault) -> None:
        backend, place = self._backend, fault.process
        process = self._population.latest.get(place)
        if process is None:
            self._skip(fault, f"{place} was never there")
            return
        match await backend.state_of(process):
            case "leaving":  # it comes back when it has left
                self._waiting[place] = fault
            case "alive":
                self._waiting.pop(place, None)  # it was leaving, and has joined another group since
                self._skip(fault, f"{backend.name_of(process)} was alive")
            case "stopped":
                self._skip(fault, f"{backend.name_of(process)} was alive, and stopped")
            case "gone":
                await backend.come(place, self._population.groups_of(place), fault)

    async def _follow(self, place: str, process: P, fault: Fault) -> None:
        """The restart of a place whose process has left, unless another process came first: a place has one at a time."""
        backend = self._backend
        if self._over:
            return
        if self._population.latest[place] is process:
            await backend.come(place, self._population.groups_of(place), fault)
        else:
            self._skip(fault, f"{backend.name_of(self._population.latest[place])} had come already")

    async def _join(self, fault: Fault) -> None:
        backend = self._backend
        groups = (fault.group,) if fault.group else self._population.groups_of(fault.process)
        process = backend.running(fault.process)
        if process is None:
            await backend.come(fault.process, groups, fault)
            return
        entered = backend.entered(process)
        known = [group for group in groups if group in entered]
        if known:
            self._skip(fault, f"{backend.name_of(process)} has been in {', '.join(known)}; only a new process returns to a group")
        backend.enter(process, [group for group in groups if group not in known], fault)

    async def _inside(self, fault: Fault) -> None:
        process = self._running(fault)
        if process is not None:
            self._backend.inflict(process, fault)

    async def _inside_group(self, fault: Fault) -> None:
        """A fault about a group that the process must be in."""
        process = self._running(fault)
        if process is None:
            return
        if fault.group in self._backend.joined(process):
            self._backend.inflict(process, fault)
        else:
            self._skip(fault, f"{self._backend.name_of(process)} was not in {fault.group}")

    async def _pause(self, fault: Fault) -> None:
        process = self._running(fault)
        if process is not None:
            await self._backend.record([process], fault)
            self._backend.pause(process, self._backend.now + fault.length)

    async def _busy(self, fault: Fault) -> None:
        process = self._running(fault)
        if process is not None:
            await self._backend.record([process], fault)
            self._backend.keep_busy(process, self._backend.now + fault.length, fault.rate)

    async def _step(self, fault: Fault) -> None:
        self._backend.step_clock(fault)

    async def _module(self, fault: Fault) -> None:
        backend = self._backend
        node = fault.node or next(iter(backend.nodes))
        if backend.has_module(node, fault.module):
            await backend.record(self._on(self._population.node_of, node), fault)
            backend.crash_module(node, fault.module)

    async def _node(self, fault: Fault) -> None:
        crashed = self._on(self._population.node_of, fault.node)
        await self._crash_all(crashed, fault, fault.node)
        await self._backend.lose_memory(fault.node, crashed)

    async def _processor(self, fault: Fault) -> None:
        await self._crash_all(self._on(self._population.processor_of, fault.processor), fault, fault.processor)

    def _on(self, unit_of: Callable[[str], str], unit: str) -> list[P]:
        """The running processes of a node or processor."""
        running = ((place, self._backend.running(place)) for place in self._population.latest)
        return [process for place, process in running if process is not None and unit_of(place) == unit]

    async def _crash_all(self, processes: Sequence[P], fault: Fault, unit: str) -> None:
        if not processes:
            self._skip(fault, "no process was there")
        await self._backend.record(processes, fault)
        for process in processes:
            self._backend.crash(process, f"with {fault.kind} {unit}", {fault.kind: unit})

    async def _on_network(self, fault: Fault) -> None:
        backend = self._backend
        backend.spoil(fault, [process for process in map(self._first, self._concerned(fault)) if process is not None])
        if fault.length:
            backend.at(backend.now + fault.length, partial(self._mend, fault))

    async def _mend(self, fault: Fault) -> None:
        self._backend.mend(fault)

    def _concerned(self, fault: Fault) -> Sequence[Iterable[str]]:
        """The sets of places that record a fault of the network: the first running process of each does."""
        if fault.kind == "partition":
            return fault.parts
        named = fault.source or fault.target
        return [[named] if named else self._population.latest]

    def _first(self, places: Iterable[str]) -> P | None:
        return next((process for place in places if (process := self._backend.running(place)) is not None), None)
