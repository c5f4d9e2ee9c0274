"""Small simulations of mailbox for paper tests: how long each operation takes, and what fails after which, is written down.

A script names an operation by its process, what it does and the copy, counted from 1: ``"a decide 1"``, or ``"a look"`` for every
copy. ``durations`` are shares of the operation's bound, one for all or a list, one after the other, of which the last stays; what
is not named takes ``usual``. Above 1 the operation is late, which is a timing fault. ``after`` says what crashes right after an
operation, the first of a name or, with ``"a decide 1 #3"``, the third: the process itself, or ``module 1``.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from plainchant.memory import Entry, Operate
from plainchant.model import SECOND, US, Duration
from plainchant.protocols import mailbox
from plainchant.protocols.mailbox.parameters import Parameters
from plainchant.protocols.mailbox.rules import RULES, Rules
from plainchant.protocols.mailbox.times import Times
from plainchant.scenario.model import Clock, Fault, Memory, Scenario, Workload
from plainchant.sim import Simulation
from plainchant.sim.host import SimHost
from plainchant.sim.memory import SimMailbox, SimMemory
from plainchant.sim.summary import describe_fault
from plainchant.trace.reference import verify
from plainchant.trace.writer import TraceBuffer

from .runs import Run

GROUP: Final = "g"
PLAIN: Final[dict[str, Any]] = {
    "write": 20, "flag": 20, "decide": 10, "read": 20, "finish": 10, "skew": 4, "poll": 100, "rejected": "halt", "places": 8,
}
"""Bounds in µs; the clocks' difference is small against an operation."""
_TIMES: Final = ("write", "flag", "decide", "read", "finish", "skew", "poll", "schedule", "expiry")
PROMISES: Final = ("integrity", "identical", "total", "agreement", "uniform", "validity", "unanimity", "bounded")


@dataclasses.dataclass(frozen=True)
class Script:
    """How long operations take, and what crashes after them."""

    durations: Mapping[str, float | Sequence[float]] = dataclasses.field(default_factory=dict)
    after: Mapping[str, str] = dataclasses.field(default_factory=dict)
    usual: float = 0


class _ScriptedMemory(SimMemory):
    """Operations take what a script says."""

    script: Script
    counted: Counter[str]
    hosts: Sequence[SimHost]
    flagged: dict[tuple[str, int, int], set[str]]
    changed: Counter[tuple[str, str]]

    def _duration(self, running: Any, bound: int) -> int:
        request = running.request
        share = self.script.usual
        name = f"{running.host.me} {request.name}"
        for key in (name, f"{name} {request.copy + 1}"):
            given = self.script.durations.get(key, share)
            if isinstance(given, int | float):
                share = given
            else:
                self.counted[key] += 1
                share = given[min(self.counted[key], len(given)) - 1]
        return int(bound * share)

    def _effect(self, running: Any) -> Any:
        request, host = running.request, running.host
        mailbox = self.server.mailboxes[request.mailbox]
        before = dict(mailbox.copies[request.copy].entries())
        result = super()._effect(running)
        self._note(host.me, request, mailbox, before)
        name = f"{host.me} {request.name} {request.copy + 1}"
        self.counted["after " + name] += 1
        number = self.counted["after " + name]
        fails = self.script.after.get(f"{name} #{number}" if number > 1 else name, "")
        if fails == host.me:
            host.crash_inside({"operation": request.name, "copy": request.copy})
        elif fails:
            self._crash_and_tell(int(fails.removeprefix("module ")))
        return result

    def _note(self, process: str, request: Operate, mailbox: SimMailbox, before: dict[int, Entry]) -> None:
        """Remembers who has a decision flag in what was written, and whose operations have changed entries."""
        after = dict(mailbox.copies[request.copy].entries())
        if after != before:
            self.changed[process, request.name] += 1
        for entry in after.values():
            if request.name == "write" and entry.sender == process and entry not in before.values():
                names = {name for place, name in mailbox.places.items() if entry.listed >> place & 1}
                self.flagged[process, entry.stamp, request.copy + 1] = names

    def _crash_and_tell(self, number: int) -> None:
        if self.crash_module(number):
            self._kernel.at(self._kernel.now, self._tell_of_module, Fault(kind="module", module=number))

    def _tell_of_module(self, fault: Fault) -> None:
        for host in self.hosts:
            host.note("fault", describe_fault(fault))


class ScriptedSimulation(Simulation):
    """A simulation whose memory follows a script. ``settle``: how long nothing has to be left to do until it is at rest."""

    def __init__(self, script: Script | None, scenario: Scenario, *, settle: int = 0, **settings: Any) -> None:
        self._script = script
        super().__init__(scenario, **settings)
        self._settle = settle or self._settle

    def _make_memory(self) -> SimMemory | None:
        if self._script is None:
            return super()._make_memory()
        assert self.description.memory is not None
        layout = self.description.memory(self.parameters)
        memory = _ScriptedMemory(self._kernel, self.scenario.memory, layout, self.scenario.seed, self.hosts)
        memory.script, memory.counted, memory.hosts = self._script, Counter(), self.hosts
        memory.flagged, memory.changed = {}, Counter()
        return memory


@dataclasses.dataclass(frozen=True)
class MailboxRun(Run):
    """A finished run of one group; times in µs."""

    sentences: list[str]
    """What was violated, in words."""
    flagged: dict[tuple[str, int, int], set[str]]
    """Who had a decision flag when a message was written: by sender, timestamp and copy. Of runs with a script."""
    changed: Counter[tuple[str, str]]
    """How many operations of a process, by name, changed an entry. Of runs with a script."""

    def details(self, kind: str, process: str = "") -> list[dict[str, Any]]:
        return [msgspec.json.decode(row["detail"]) for row in self.of(kind, process) if row["detail"]]

    def decisions(self, process: str) -> list[int]:
        """What a receiver decided, message by message, in the order of their timestamps."""
        found = sorted(self.details("decide", process), key=lambda detail: detail["stamp"])
        return [detail["decision"] for detail in found]

    def operations(self, process: str, *names: str) -> list[tuple[str, int, float, float]]:
        """What a process did: operation, copy (from 1), begin and end."""
        found = [(row, msgspec.json.decode(row["detail"])) for row in self.of("operation", process)]
        return [
            (detail["operation"], detail["copy"] + 1, detail["began"] / US, row["true_time"] / US)
            for row, detail in found
            if not names or detail["operation"] in names
        ]

    def timing_faults(self) -> list[str]:
        """Who had a timing fault."""
        return sorted({row["process"] for row in self.of("fault") if '"timing":true' in row["detail"].replace(" ", "")})

    def accused(self) -> list[str]:
        """Senders that keep time and had a message rejected: what the seed calls validity is broken."""
        rejected = {row["sender"] for row in self.rows if row["kind"] in ("reject", "late") and row["sender"]}
        crashed = {row["process"] for row in self.of("crash") if '"by":"fault"' in row["detail"].replace(" ", "")}
        return sorted(rejected - crashed - set(self.timing_faults()))

    def latest(self) -> float:
        """From a Send to the last delivery of its message, at the most."""
        return max(float(row["true_time"] - row["sent"]) for row in self.of("deliver")) / US


def us(count: float) -> Duration:
    return Duration(round(count * US))


def parameters(**given: Any) -> dict[str, Any]:
    """Parameters of a run, with times in µs."""
    values = {**PLAIN, **given}
    return {name: us(value) if name in _TIMES else value for name, value in values.items()}


def times(rules: Rules = RULES, **given: Any) -> Times:
    """The bounds that go with these parameters."""
    return Times(Parameters(**parameters(**given)), rules)


def message(sender: str, at: float, **settings: Any) -> Workload:
    """One message at a time (µs)."""
    return Workload(senders=(sender,), closed=1, count=1, start=us(at), **settings)


def fault(kind: str, at: float, *, length: float = 0, delay: float = 0, offset: float = 0, **settings: Any) -> Fault:
    """A fault at a time; times in µs."""
    return Fault(kind=kind, at=us(at), length=us(length), delay=us(delay), offset=int(offset * US), **settings)


def simulate(
    members: str,
    *workload: Workload,
    script: Script | None = None,
    rules: Rules = RULES,
    clocks: Mapping[str, float] | None = None,
    faults: Sequence[Fault] = (),
    memory: Mapping[str, Any] | None = None,
    length: float = 10_000,
    drain: float = 1,
    settle: float = 7_000,
    settings: Mapping[str, Any] | None = None,
    **given: Any,
) -> MailboxRun:
    """Runs a group of these, whose clocks are ahead by ``clocks`` (µs), and verifies all that is promised, drained or not."""
    names = tuple(members.split())
    scenario = Scenario(
        protocol="mailbox",
        members=names,
        duration=us(length),
        drain=Duration(int(drain * SECOND)),
        workload=workload or (message(names[0], 5000),),
        parameters=parameters(**given),
        clock=tuple(Clock(process=name, offset=int(ahead * US)) for name, ahead in (clocks or {}).items()),
        memory=Memory(**{"operations": True, "detection": us(2000), **(memory or {})}),
        fault=tuple(faults),
        **(settings or {}),
    )
    trace = TraceBuffer()
    simulation = ScriptedSimulation(script, scenario, settle=us(settle), trace=trace, make=mailbox.maker(rules))
    summary = simulation.run()
    table = trace.table()
    found = verify(table, PROMISES)
    violated = [name for name, outcome in found.properties.items() if outcome.violations]
    sentences = [violation.sentence for violation in found.violations]
    watched = simulation.memory
    if not isinstance(watched, _ScriptedMemory):
        return MailboxRun(summary, table.to_pylist(), violated, sentences, {}, Counter())
    return MailboxRun(summary, table.to_pylist(), violated, sentences, watched.flagged, watched.changed)
