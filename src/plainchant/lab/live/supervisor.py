"""Runs a scenario with real processes: starts them, makes its faults happen, waits until all is quiet, and ends them.

Each member is a worker process (:mod:`.worker`; seen from here, :mod:`.process`). The scenario's time 0 is when all first
members are in their groups (:mod:`.crew`). From then on it goes as in the simulator (``sim.simulation``): until ``duration``
senders send and faults happen (:mod:`.faults`), those of the scenario and those drawn from its seed; then everything heals, and
the run goes on until no process waits for anything during a whole settle period of the protocol, or until the ``drain`` bound.

**Faults are real.** A crash is SIGKILL; in the middle of a broadcast, the process kills itself there. A pause is SIGSTOP and
SIGCONT. A process that comes back is a new one, at the same address. Faults of packets happen in the processes' transports
(:mod:`.faulty`); so do partitions, or, if asked for, in the kernel (:mod:`.namespaces`).

**Shared memory.** A run has a namespace of its own at the mailbox server, or one for each node, emptied when all processes have
ended. A node crashes with all its processes, each killed by its id, and with its memory.

**Nothing hangs and nothing is left behind.** Every wait is bounded. Processes are ended by their ids whatever happens, and die
with the supervisor if it is killed. An end that neither the scenario nor the supervisor caused is *unexpected*, and reported. A
process that does not answer, never gets quiet, or does not end when it is told to, *hangs*: it is asked for its stacks, by a
signal too, which also reaches an endless loop, and they are in the summary. A :class:`Watch` sees processes twice a second, to
measure them.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Any, Final, Literal, Protocol

import msgspec

from ...core.model import MS, SECOND, Duration, UsageError, format_duration
from ...live.memory.server import MailboxServer, namespace_of
from ...protocols.registry import describe
from ...scenario.faults import Injector, describe_fault, schedule_of
from ...scenario.model import Fault, Network, Scenario
from ...scenario.outcome import ProcessEnd
from . import control
from .crew import Crew
from .faults import LiveFaults
from .namespaces import Namespaces
from .process import LiveError, Process

DRAIN_AT_MOST: Final = Duration(60 * SECOND)
END_SECONDS: Final = 10.0
_HEAD_START: Final = 50 * MS  # between announcing the scenario's beginning and the beginning: all processes have read it
_POLL: Final = 500 * MS
_SILENT: Final = 6  # consecutive status requests (5 s each) left unanswered before a process counts as hanging
_SHORTEST_SETTLE: Final = 100 * MS
_SPOILED: Final = ("lost", "duplicated", "corrupted")
_LEFT_TO_REALITY: Final = ("slot", "outgoing", "send_cost", "receive_cost", "machines", "buffer")


class Watch(Protocol):
    """Looks at the processes of a run while senders send."""

    every: float  # seconds between two calls

    def look(self, processes: Sequence[Process], servers: Mapping[str, MailboxServer]) -> None:
        """Called with the processes that run now and the servers of shared memory, by node."""


@dataclasses.dataclass(frozen=True, slots=True)
class LiveSummary:
    """The outcome of one live run, as far as its processes know; the trace knows the rest."""

    run: str
    protocol: str
    seed: int
    elapsed: int  # from the beginning of the scenario to its end, ns
    processes: dict[str, ProcessEnd]
    unexpected: dict[str, str]  # processes whose end neither the scenario nor the supervisor caused, and how they ended
    parameters: dict[str, Any]  # those that the protocol worked with
    packets_lost: int  # on purpose; of a process that was killed, as far as it had told
    packets_duplicated: int
    packets_corrupted: int
    faults: tuple[Fault, ...]  # the schedule: the scenario's own faults and those drawn from the seed
    skipped: tuple[tuple[Fault, str], ...]  # those among them that found no process to happen to, and why
    partitions: Literal["transport", "namespaces"]  # where partitions are made
    not_applied: tuple[str, ...]  # settings of the scenario that mean nothing live
    time_scale: float
    drained: bool  # whether the run was to be drained
    drain: int  # how long it may have taken to get quiet, ns
    quiet: bool  # whether it was drained and got quiet
    not_quiet: dict[str, str]  # if it did not get quiet: what each process waits for
    stuck: dict[str, str] = dataclasses.field(default_factory=dict)  # the stacks of processes that hang
    left: dict[str, int] = dataclasses.field(default_factory=dict)  # files left in shared memory at the end, by node

    def to_dict(self) -> dict[str, Any]:
        """As plain data, for JSON."""
        plain = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        plain["processes"] = {name: dataclasses.asdict(end) for name, end in self.processes.items()}
        plain["faults"] = [describe_fault(fault, at=True) for fault in self.faults]
        plain["skipped"] = [{**describe_fault(fault, at=True), "because": why} for fault, why in self.skipped]
        return plain


def supervise(
    scenario: Scenario,
    spools: Path,
    *,
    given: Iterable[str] = (),
    run: str = "r0",
    namespaces: bool = False,
    time_scale: float = 1.0,
    drain_at_most: int = DRAIN_AT_MOST,
    encrypted: bool = False,
    progress: Callable[[str], None] = lambda text: None,
    watch: Watch | None = None,
) -> LiveSummary:
    """Runs a scenario with real processes, which record what they do under ``spools``. ``given`` names parameters that the user
    has set: these, and all that are not at their defaults, stay as they are; the protocol fits the others to this machine.
    ``namespaces``: partitions are made by the kernel. ``time_scale`` stretches the times of senders and faults. ``encrypted``:
    packets are sealed with a key that is made for the run. ``progress`` is called with a sentence about the state of the run,
    ``watch`` sees the processes."""
    if not time_scale > 0:
        raise UsageError(f"times cannot be stretched by {time_scale:g}; give a number above 0")
    processes: list[Process] = []
    spools.mkdir(parents=True, exist_ok=True)
    kernel = Namespaces((*scenario.members, *scenario.later)) if namespaces else None
    with kernel if kernel is not None else contextlib.nullcontext():
        supervisor = _Supervisor(stretched(scenario, time_scale), min(scenario.drain, drain_at_most), progress)
        supervisor.time_scale = time_scale
        supervisor.key = _new_key() if encrypted else ""
        supervisor.watch = watch
        try:
            return asyncio.run(supervisor.run(spools, processes, kernel, _kept(scenario, given), run))
        except OSError as error:
            raise LiveError(f"processes cannot be started: {error.strerror or error}; make room and try again") from error
        finally:
            for process in processes:
                process.dismiss()
            for server in supervisor.servers.values():
                server.remove_all()


class _Supervisor:
    """One live run; the scenario is stretched already."""

    def __init__(self, scenario: Scenario, drain: int, progress: Callable[[str], None]) -> None:
        self._scenario = scenario
        self._description = describe(scenario.protocol)
        self._drain = drain
        self._progress = progress
        self._not_quiet: dict[str, str] = {}
        self.time_scale = 1.0
        self.key = ""
        self.watch: Watch | None = None
        self._memory = f"live {os.urandom(8).hex()}" if self._description.placement.memory is not None else ""
        self.servers = self._make_servers()  # the mailbox servers by node; where there are no nodes, under an empty name
        self._crew: Crew
        self._faults: LiveFaults
        self._injector: Injector[Process]
        self._begin = 0

    def _make_servers(self) -> dict[str, MailboxServer]:
        description, scenario = self._description, self._scenario
        if not self._memory:
            return {}
        if description.placement.node_of is None:
            return {"": MailboxServer(self._memory)}
        parameters = description.parameters(**scenario.parameters)
        nodes = dict.fromkeys(description.placement.node_of(parameters, place) for place in (*scenario.members, *scenario.later))
        return {node: MailboxServer(namespace_of(self._memory, node)) for node in nodes}

    async def run(
        self, spools: Path, processes: list[Process], namespaces: Namespaces | None, given: dict[str, Any], run: str
    ) -> LiveSummary:
        """Runs to the end and says what happened."""
        scenario = self._scenario
        self._crew = Crew(
            scenario, spools, processes, namespaces=namespaces, given=given, run=run, memory=self._memory, key=self.key
        )
        returning = Random(f"{scenario.seed}/faults/returning")
        self._faults = LiveFaults(self._crew, self.servers)
        self._injector = Injector(self._faults, self._crew, scenario.random, returning)
        self._crew.gone = self._gone
        try:
            self._progress(f"starting {len(scenario.members)} processes")
            later = sorted((fault for fault in scenario.fault if fault.kind in ("restart", "join")), key=lambda fault: fault.at)
            await self._crew.form([fault.process for fault in later])
            await self._traffic()
            quiet = await self._get_quiet() if self._drain else False
            elapsed = time.monotonic_ns() - self._begin
            await self._end(drained=quiet)
        finally:
            await self._end_all()
        return self._summary(run, elapsed, quiet, namespaces is not None)

    async def _traffic(self) -> None:
        crew = self._crew
        self._begin = crew.begin = time.monotonic_ns() + _HEAD_START
        crew.tell_all(control.Begin(self._begin))
        loop = asyncio.get_running_loop()
        meanwhile = [loop.create_task(self._poll())]
        if self.watch is not None:
            meanwhile.append(loop.create_task(self._look(self.watch)))
        try:
            self._injector.schedule(self._scenario.fault, self._begin)
            await self._faults.run_until(self._begin + self._scenario.duration)
            self._injector.stop()
        finally:
            for task in meanwhile:
                task.cancel()
            await asyncio.wait(meanwhile)
        for task in meanwhile:
            if not task.cancelled() and (error := task.exception()) is not None:
                raise error

    def _gone(self, process: Process) -> None:
        halted = process.end is not None and process.end.state == "halted"
        self._injector.gone(process.place, process, halted=halted)

    async def _look(self, watch: Watch) -> None:
        while True:
            watch.look(self._crew.all_running, self.servers)
            await asyncio.sleep(watch.every)

    async def _poll(self) -> None:
        """Asks for the status twice a second, so that the counters of a process that is killed are known."""
        while True:
            done = max(0, time.monotonic_ns() - self._begin) / self._scenario.duration
            length, processes = format_duration(self._scenario.duration), len(self._crew.all_running)
            self._progress(f"{min(1.0, done):.0%} of {length}, {processes} processes")
            await asyncio.sleep(_POLL / SECOND)
            await self._ask_all()

    async def _ask_all(self) -> None:
        listening = [process for process in self._crew.all_running if process.listens]
        answers = await asyncio.gather(*(process.ask(control.Ask) for process in listening))
        for process, answer in zip(listening, answers, strict=True):
            is_silent = answer is None and process.listens
            process.unanswered = process.unanswered + 1 if is_silent and process.is_awake else 0
            if is_silent:
                process.status = msgspec.structs.replace(process.status, waiting="it does not answer")
            if process.unanswered == _SILENT:
                await self._ask_where([process])

    async def _ask_where(self, processes: Sequence[Process]) -> None:
        places = await asyncio.gather(*(process.where() for process in processes))
        for process, place in zip(processes, places, strict=True):
            process.stuck = process.stuck or place or "it does not say where it is"

    async def _get_quiet(self) -> bool:
        """Waits until no process has waited for anything for long enough; False if that takes too long."""
        self._progress("getting quiet")
        deadline = time.monotonic_ns() + self._drain
        quiet_since: int | None = None
        while True:
            await self._ask_all()
            now = time.monotonic_ns()
            states = {process.name: process.status.waiting for process in self._crew.all_running}
            waiting = self._not_quiet = {name: what for name, what in states.items() if what is not None}
            settle = self._settle()
            if waiting:
                quiet_since = None
            elif quiet_since is None:
                quiet_since = now
            elif now - quiet_since >= settle:
                return True
            if now >= deadline:
                await self._ask_where([process for process in self._crew.all_running if process.name in waiting])
                return False
            await asyncio.sleep(min(settle / 4, deadline - now) / SECOND)

    def _settle(self) -> int:
        """The settle period with the parameters that the protocol really has."""
        made = self._description.parameters
        known = [process.parameters for process in self._crew.employed if process.parameters is not None]
        return max(_SHORTEST_SETTLE, *(self._description.settle(made(**each)) for each in known))

    async def _end(self, *, drained: bool) -> None:
        self._progress("ending")
        running = self._crew.all_running
        for process in running:
            process.tell(control.End(drained))
        for process in running:
            if not await process.gone(END_SECONDS):
                await self._ask_where([process])
                process.unexpected = f"was told to end and did not in {END_SECONDS:g} s"

    async def _end_all(self) -> None:
        for process in self._crew.employed:
            process.relax()
            process.kill("the run was over")
        for process in self._crew.employed:
            await process.gone(END_SECONDS)
            process.hang_up()

    def _summary(self, run: str, elapsed: int, quiet: bool, by_kernel: bool) -> LiveSummary:
        scenario, employed, skipped = self._scenario, self._crew.employed, tuple(self._injector.skipped)
        parameters = [process.parameters for process in employed if process.parameters is not None]
        told: dict[str, Any] = {"run": run, "protocol": scenario.protocol, "seed": scenario.seed, "parameters": parameters[0]}
        told |= {"elapsed": elapsed, "faults": scenario.fault, "skipped": skipped, "not_applied": not_applied(scenario)}
        told |= {"time_scale": self.time_scale, "partitions": "namespaces" if by_kernel else "transport"}
        told |= {"drained": bool(scenario.drain), "drain": self._drain, "quiet": quiet, "not_quiet": self._not_quiet}
        told |= {f"packets_{what}": sum(getattr(process.status, what) for process in employed) for what in _SPOILED}
        return LiveSummary(
            processes={process.name: process.end for process in employed if process.end is not None},
            unexpected={process.name: process.unexpected for process in employed if process.unexpected},
            stuck={process.name: process.stuck for process in employed if process.stuck},
            left={node: left for node, server in self.servers.items() if (left := len(server.sizes()))},
            **told,
        )


def stretched(scenario: Scenario, factor: float) -> Scenario:
    """The scenario with all its faults listed, also those drawn from its seed, and the times of senders and faults stretched."""

    def longer(moment: int) -> Duration:
        return Duration(round(moment * factor))

    description = describe(scenario.protocol)
    faults = schedule_of(scenario, description, description.parameters(**scenario.parameters))
    workloads = [dataclasses.replace(each, start=longer(each.start), stop=longer(each.stop)) for each in scenario.workload]
    later = [dataclasses.replace(fault, at=longer(fault.at), length=longer(fault.length)) for fault in faults]
    return dataclasses.replace(scenario, duration=longer(scenario.duration), workload=tuple(workloads), fault=tuple(later))


def _new_key() -> str:
    from ...live.keys import Key  # brings the ciphers, for which other runs need not wait

    return Key.new().text


def not_applied(scenario: Scenario) -> tuple[str, ...]:
    """The settings of a scenario that a live run leaves to reality."""
    default = Network()
    named = [f"network.{key}" for key in _LEFT_TO_REALITY if getattr(scenario.network, key) != getattr(default, key)]
    further = {
        "network.shared (each process has a medium of its own)": scenario.network.shared,
        "workload.cost": any(workload.cost for workload in scenario.workload),
        "clock.drift": any(clock.drift for clock in scenario.clock),
    }
    return (*named, *(name for name, is_set in further.items() if is_set))


def _kept(scenario: Scenario, given: Iterable[str]) -> dict[str, Any]:
    """The parameters that the protocol may not fit to this machine."""
    names = set(given)
    defaults = dataclasses.asdict(describe(scenario.protocol).parameters())
    return {name: value for name, value in scenario.parameters.items() if name in names or value != defaults[name]}
