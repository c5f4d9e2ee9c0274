"""A user's own asyncio program on simulated members: the same coroutine as live, on virtual time, with faults and a trace.

Theory of operation
-------------------
Every incarnation of a member has an event loop of its own (:mod:`.virtual_loop`) and a task that joins its groups, runs
``main``, and leaves, as ``async with plainchant.join(...)`` does. :mod:`.program` says how loop and simulator take turns.

**Faults.** A crash: the loop is never stepped again, and nothing of the program runs, not even ``finally``. A pause: its
steps wait with the packets in the processor's inbox. A restart: ``main`` begins anew, as a new process. A leave: ``main`` is
cancelled, as by Ctrl-C, and the process leaves. If the protocol halts the process (it was excluded, or is in a minority) the
program goes on and is told, as it would be live.

**The end.** Without a duration the run ends when every ``main`` has. With one, faults end then and the network heals; the run
goes on until nothing moves any more, and there the trace and the summary end. Then each ``main`` that still runs is
cancelled, off the record: in the trace its process is alive at the end, so that a verifier may ask everything of it (of
processes that leave it can ask little). Where groups do not change no process leaves: processes outlive their programs, and the
run ends when all programs have ended and nothing moves any more.
"""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

from ..core.engine import Engine, Host
from ..core.model import (
    MS,
    SECOND,
    Duration,
    Form,
    Invitation,
    Join,
    PlainchantError,
    UsageError,
    format_duration,
    parse_duration,
)
from ..core.plugins import need
from ..group import OUTGOING, UNREAD, Buffers, Guarantees
from ..layers.state import StateTransfer
from ..layers.state_parts import STATE_PACKETS
from ..protocols.registry import DEFAULT_PROTOCOL, describe
from ..scenario.load import build, load
from ..scenario.model import Fault, Memory, Network, RandomFaults, Scenario
from ..scenario.read import Reader, as_document
from ..scenario.shipped import find
from ..trace.buffer import TraceBuffer
from ..trace.history import History as TraceHistory
from ..trace.verifier import Verification, Violation, verifier
from .host import History, SimHost
from .program import Main, Outcome, Program, State, Terms
from .simulation import Simulation, Trace
from .summary import Summary

if TYPE_CHECKING:
    import pyarrow as pa

# What `run` takes instead of a scenario.
_DESCRIBED: Final = (*("members", "protocol", "group", "groups", "later", "parameters", "network", "memory", "faults", "random"),)
_TABLES: Final[dict[str, type[Any]]] = {"network": Network, "memory": Memory, "random": RandomFaults}
_SHUTDOWN: Final = 30 * SECOND  # what a program gets, besides the time to leave, to end after it was cancelled


class Unfinished(PlainchantError):
    """Programs did not end; ``waiting`` says of each where it is and what its process waits for."""

    def __init__(self, text: str, waiting: Mapping[str, str]) -> None:
        super().__init__("\n".join([text, *(f"  {name}: {what}" for name, what in waiting.items())]))
        self.waiting = dict(waiting)


@dataclasses.dataclass(frozen=True)
class Result:
    """What a run came to. ``outcomes`` has every incarnation by name (``p1``, then ``p1#1``), in the order of their beginning.
    The run is kept as Python rows. ``trace``, ``verification``, ``verdict`` and ``violations`` convert them when first asked for,
    which needs the extra ``cli``; without it they raise UsageError."""

    scenario: Scenario
    outcomes: dict[str, Outcome]
    summary: Summary
    _verify: bool
    _rows: TraceBuffer = dataclasses.field(repr=False)
    _written: Path | None  # where the trace was written, if it was

    @cached_property
    def trace(self) -> pa.Table:
        """The trace as an Arrow table."""
        if self._written is not None:
            from ..trace import read

            return read(self._written).table
        table = self._rows.table()
        self._rows.abort()  # nothing reads the rows after this
        return table

    @cached_property
    def verification(self) -> Verification | None:
        """What was found about the properties that the protocol promises; None if ``run`` was called with ``verify=False``."""
        if not self._verify:
            return None
        return verifier("verifying a run needs")(self.trace, self.scenario.verify or None)

    @property
    def returned(self) -> dict[str, Any]:
        """The value of each ``main`` that returned."""
        return {name: outcome.value for name, outcome in self.outcomes.items() if outcome.state == "returned"}

    @property
    def verdict(self) -> Literal["holds", "violated", "unknown", "malformed"] | None:
        """Whether the protocol kept its promises; None if ``run`` was called with ``verify=False``."""
        return self.verification.verdict if self.verification is not None else None

    @property
    def violations(self) -> Sequence[Violation]:
        return self.verification.violations if self.verification is not None else ()

    @property
    def virtual_time(self) -> int:
        """When the run ended, ns."""
        return self.summary.virtual_time


class _Simulation(Simulation):
    """A run whose applications are programs."""

    def __init__(self, scenario: Scenario, trace: Trace, terms: Terms, *, ends_by_itself: bool, state: bool) -> None:
        if scenario.random.sluggish or any(fault.kind == "sluggish" for fault in scenario.fault):
            raise UsageError("a program takes messages when it reads them: let it wait instead of a fault of kind sluggish")
        super().__init__(scenario, trace=trace, wrap=self._with_state if state else None, packets=STATE_PACKETS if state else ())
        self._terms = terms
        self._ends_by_itself = ends_by_itself
        self._changes = self.description.changes(self.parameters)
        self._proposes = self.description.proposes(self.parameters)
        self.programs: list[Program] = []
        self._handled: dict[str, int] = {}
        self._closing = False
        self._resting = False  # whether all programs have ended, and their processes, which cannot leave, come to rest
        self._recorded: Summary | None = None

    @property
    def now(self) -> int:
        return self._kernel.now

    def at(self, time: int, function: Callable[[Any], None], argument: Any = None) -> None:
        self._kernel.at(time, function, argument)

    def run(self) -> Summary:
        summary = super().run()
        return self._recorded if self._recorded is not None else summary

    # --- processes --------------------------------------------------------------------------------------------------

    def _new_host(self, name: str, place: str, history: History) -> SimHost:
        host = super()._new_host(name, place, history)
        program = host.application = Program(self, host, self._terms)
        self.programs.append(program)
        return host

    def _application_side(self, host: SimHost) -> Program:
        assert isinstance(host.application, Program)
        return host.application

    def _create(self, place: str) -> SimHost:
        before = self.latest.get(place)
        if before is not None:
            # Its process is gone; a program that has not ended since goes with it.
            state: State = "halted" if before.end.state == "halted" else "crashed"
            self._application_side(before).crash(state, before.end.reason)
        host = super()._create(place)
        self._application_side(host).count_packets()
        return host

    def _with_state(self, host: SimHost, inside: Callable[[Host], Engine]) -> Engine:
        keeper = self._application_side(host).keeper
        keeper.layer = StateTransfer(host, inside, keeper)
        return keeper.layer

    def _start(self, host: SimHost, groups: Mapping[str, Form | Join], fault: Fault | None) -> None:
        program = self._application_side(host)
        if not groups:
            # It is there to serve the others, and has no program.
            self.programs.remove(program)
            super()._start(host, groups, fault)
            return
        guarantees = {group: self.guarantees(group, self.groups.get(group, self.scenario.members)) for group in groups}
        formed = [group for group, how in groups.items() if isinstance(how, Form)]
        program.prepare(guarantees, formed=formed, changes=self._changes, proposes=self._proposes, settle=self._settle / SECOND)
        super()._start(host, groups, fault)
        program.begin()

    def enter(self, host: SimHost, group: str, how: Form | Join) -> None:
        if group not in self._application_side(host).groups:
            raise UsageError(f"a fault lets {host.me} join {group} while its program runs; it joins all its groups when it comes")
        super().enter(host, group, how)

    def guarantees(self, group: str, members: Sequence[str]) -> Guarantees:
        description = self.description
        promises = description.promises(self.parameters, {group: tuple(members)})
        return Guarantees(promises, description.faults, description.beyond(self.parameters))

    def name_at(self, place: str) -> str | None:
        return self.latest[place].me if place in self.latest else None

    # --- the end ----------------------------------------------------------------------------------------------------

    def program_ended(self) -> None:
        self.at(self.now, self._check_over)

    def _check_over(self, _: None) -> None:
        if not all(program.over for program in self.programs):
            return
        if self._closing:
            self._kernel.stop()
        elif self._ends_by_itself:
            comings = [fault.at for fault in self._faults if fault.kind in ("restart", "join")]
            to_come = [moment for moment in (*comings, *self._injector.returns.values()) if moment > self.now]
            if to_come:
                self.at(min(to_come), self._check_over)
            elif self._changes:
                self._quiet = True
                self._kernel.stop()
            elif not self._resting:
                self._resting = True
                self._injector.stop()
                self._check_quiet(None)

    def _end_of_duration(self, _: None) -> None:
        if self._ends_by_itself:
            self._kernel.stop()
            return
        self._injector.stop()
        if self.scenario.drain:
            self._check_quiet(None)
        else:
            self._drained()

    def _waiting(self) -> dict[str, str]:
        waiting = super()._waiting()
        for program in self.programs:
            handled = program.loop.handled
            if handled != self._handled.get(program.name, 0):
                waiting.setdefault(program.name, "its program is doing something")
            self._handled[program.name] = handled
        return waiting

    def _drained(self) -> None:
        """The recorded part is over; programs that still run are cancelled."""
        self._write_end()
        self._recorded = self._summary()
        for host in self.hosts:
            host.history = TraceHistory("off the record", host.me)
            host.rows = host.history.rows
        self._closing = True
        self.at(self.now + round(self._terms.leave_timeout * SECOND) + _SHUTDOWN, lambda _: self._kernel.stop())
        for program in self.programs:
            program.stop()
        self.at(self.now, self._check_over)

    def _write_end(self) -> None:
        if self._recorded is None:
            super()._write_end()


def run(
    main: Main,
    *,
    members: int | Sequence[str] | None = None,
    seed: int | None = None,
    protocol: str | None = None,
    group: str | None = None,
    groups: Mapping[str, Sequence[str]] | None = None,
    later: Sequence[str] | None = None,
    parameters: Mapping[str, Any] | None = None,
    network: Mapping[str, Any] | Network | None = None,
    memory: Mapping[str, Any] | Memory | None = None,
    faults: Sequence[Fault | Mapping[str, Any]] | None = None,
    random: Mapping[str, Any] | RandomFaults | None = None,
    scenario: str | Path | Scenario | None = None,
    duration: str | None = None,
    limit: str = "60s",
    drain: str | None = None,
    state: bool = False,
    trace: str | Path | None = None,
    verify: bool = True,
    raises: bool = True,
    timeout: float = 30.0,
    leave_timeout: float = 10.0,
    outgoing: int = OUTGOING,
    unread: int = UNREAD,
    agree: Callable[[Invitation], bool] | None = None,
) -> Result:
    """Runs ``await main(group)`` at every member of a simulated group, on virtual time; the same seed gives the same run.

    ``members`` is a number (p1, p2, ...) or names. ``protocol``, ``group``, ``later``, ``parameters``, ``network``, ``memory``,
    ``faults`` and ``random`` say what a scenario file would say, with durations as text (``"50ms"``). With ``groups`` (names to
    their first members) ``main`` gets a dictionary of the groups that its process is in. Instead of all these, ``scenario`` is
    the name of a shipped scenario, a file or a :class:`Scenario`. Its workload is left out: ``main`` is the workload.

    Without ``duration`` the run ends when every ``main`` has; if that takes longer than ``limit`` of virtual time, with
    :class:`Unfinished`. With one, faults end then; when nothing moves any more, or ``drain`` is over, each ``main`` that
    still runs is cancelled. (A scenario has a duration.)

    With ``state`` a process that joins gets a state (``StateRequest``, ``State``). ``trace`` is a new directory for the trace.
    With ``verify`` the result has a verdict on the protocol's promises. With ``raises`` the first error of a ``main`` is raised
    when the run is over; being crashed, halted or excluded is the effect of a fault and not an error. ``timeout``,
    ``leave_timeout``, ``outgoing`` and ``unread`` are those of ``plainchant.join``.

    Programs form other groups with ``group.node.form``; ``agree`` is asked for those to whom one is proposed, and they take
    it with ``group.node.next_group``. Without ``agree`` they are in the groups that they were given and no others.
    """
    if asyncio._get_running_loop() is not None:
        raise UsageError("sim.run does not return before the run is over: call it from a function that is not async")
    if not callable(main):
        raise UsageError("main is an async function with one parameter, the group: async def main(group): ...")
    given = locals()
    described = {name: given[name] for name in _DESCRIBED if given[name] is not None}
    if scenario is not None:
        if described:
            raise UsageError(f"a scenario says everything itself: put {', '.join(described)} into it, or leave the scenario out")
        whole = scenario if isinstance(scenario, Scenario) else load(find(str(scenario)))
        as_mapping = len(whole.groups) > 1
    else:
        whole = _scenario_of(duration is None, limit, described)
        as_mapping = groups is not None
    changes: dict[str, Any] = {} if seed is None else {"seed": seed}
    changes |= {key: _ns(given[key], key) for key in ("duration", "drain") if given[key] is not None}
    whole = dataclasses.replace(whole, workload=(), **changes)
    terms = Terms(main, as_mapping, timeout, leave_timeout, Buffers(outgoing, unread), agree)
    ends_by_itself = scenario is None and duration is None
    return _run(whole, terms, ends_by_itself=ends_by_itself, state=state, trace=trace, check=verify, raises=raises)


def _run(
    scenario: Scenario, terms: Terms, *, ends_by_itself: bool, state: bool, trace: str | Path | None, check: bool, raises: bool
) -> Result:
    writer = TraceBuffer() if trace is None else _writer(trace)
    simulation: _Simulation | None = None
    try:
        simulation = _Simulation(scenario, writer, terms, ends_by_itself=ends_by_itself, state=state)
        summary = simulation.run()
        unfinished = {program.name: program.describe() for program in simulation.programs if not program.over}
    except BaseException:
        writer.abort()
        raise
    finally:
        for program in simulation.programs if simulation is not None else ():
            program.let_go()
    writer.close()
    outcomes = {program.name: program.outcome for program in simulation.programs}
    if raises:
        _raise_first(outcomes, unfinished, scenario, ends_by_itself)
    result = Result(scenario, outcomes, summary, check, writer, Path(trace) / "trace" if trace is not None else None)
    if trace is not None:
        _ = result.trace  # read now: a caller may remove the directory before it looks at the result
    return result


def _writer(directory: str | Path) -> TraceBuffer:
    for package in ("numpy", "pyarrow"):
        need(package, "sim.run(trace=...) needs", "cli")
    from ..trace import TraceWriter

    return TraceWriter(directory)


def _raise_first(
    outcomes: Mapping[str, Outcome], unfinished: Mapping[str, str], scenario: Scenario, ends_by_itself: bool
) -> None:
    raised = sorted((name for name, outcome in outcomes.items() if outcome.state == "raised"), key=lambda name: outcomes[name].at)
    if raised:
        name, *others = raised
        error, at = outcomes[name].error, outcomes[name].at
        assert error is not None
        error.add_note(f"in the program of {name}, which ended at {at / SECOND:g} s of virtual time (seed {scenario.seed})")
        if others:
            error.add_note(f"so did those of {', '.join(others)}: see the outcomes, with raises=False")
        if unfinished:
            error.add_note(f"still running when the run ended: {', '.join(unfinished)}")
        raise error
    if unfinished and ends_by_itself:
        late = f"not all programs have ended after {format_duration(scenario.duration)} of virtual time (seed {scenario.seed})"
        remedy = "give a duration after which they are cancelled, or a larger limit, or let them end"
        raise Unfinished(f"{late}; {remedy}:", unfinished)
    if unfinished:
        raise Unfinished("programs were cancelled and do not end; let CancelledError pass:", unfinished)


def _scenario_of(ends_by_itself: bool, limit: str, given: Mapping[str, Any]) -> Scenario:
    if "group" in given and "groups" in given:
        raise UsageError("give one group, or groups with their members, not both")
    document: dict[str, Any] = {"protocol": given.get("protocol", DEFAULT_PROTOCOL), "workload": [], "name": "sim.run"}
    if "members" not in given and "groups" not in given:
        document["members"] = 3
    document |= {key: _lists(given[key]) for key in ("groups", "members", "later") if key in given}
    if "parameters" in given:
        document["parameters"] = as_document(describe(document["protocol"]).parameters, given["parameters"])
    ready = {key: given[key] for key, cls in _TABLES.items() if isinstance(given.get(key), cls)}
    document |= {key: _lists(given[key]) for key in _TABLES if key in given and key not in ready}
    whole = build(document, "sim.run")
    changes: dict[str, Any] = {"fault": _faults(given.get("faults", ()))}
    if ends_by_itself:
        changes["duration"] = _ns(limit, "limit")
    if "group" in given:
        changes["groups"] = {given["group"]: whole.members}
    return dataclasses.replace(whole, **changes, **ready)


def _faults(given: Sequence[Fault | Mapping[str, Any]]) -> tuple[Fault, ...]:
    reader = Reader("", "sim.run", {})
    return tuple(
        fault if isinstance(fault, Fault) else Fault(**reader.fields(Fault, _lists(fault), ("fault", number), "in a fault"))
        for number, fault in enumerate(given)
    )


def _lists(value: Any) -> Any:
    """Python's sequences and mappings as those of a document."""
    if isinstance(value, Mapping):
        return {key: _lists(one) for key, one in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str | bytes):
        return [_lists(one) for one in value]
    return value


def _ns(given: str, what: str) -> Duration:
    if not isinstance(given, str):
        raise UsageError(f'{what} is {given!r}: write a number and a unit, such as "1.5s" or "200ms"')
    length = parse_duration(given)
    if length < 0 or (length < MS and what != "drain"):
        raise UsageError(f"{what} is {format_duration(length)}: it must be at least 1ms")
    return length
