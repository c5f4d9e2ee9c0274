"""Small runs of mailbox with a script that says how long each operation takes, and what fails after which.

Theory of operation
-------------------
A :class:`Plan` is a scenario and a :class:`~plainchant.sim.scripted.Script`, which says how long operations take.

Times are in µs. A sender is intact if it neither crashes nor has a timing fault; where a message of one is rejected, what the
paper calls validity is broken. Sends begin with a look for a free slot, which takes up to ``decide`` a copy.
"""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeAlias

import pyarrow as pa

from plainchant.core.model import US, Duration
from plainchant.protocols.mailbox.parameters import Parameters
from plainchant.protocols.mailbox.times import Times
from plainchant.protocols.mailbox.variants import times_of, variant_of
from plainchant.scenario.model import Clock, Fault, Network, Scenario, Workload
from plainchant.sim import Summary
from plainchant.sim.memory import SimMemory
from plainchant.sim.scripted import Script, ScriptedMemory, ScriptedSimulation
from plainchant.trace import TraceBuffer

from ..runs import rows_of, scenario, violated
from .timing import DECIDE, FINISH, FLAG, POLL, READ, SKEW, WRITE

Rules: TypeAlias = Mapping[str, str | bool]
"""Rules of mailbox by name, and their values (``plainchant.protocols.mailbox.variants``)."""
AS_BUILT: Final[Rules] = {}
PLAIN: Final[Mapping[str, Any]] = {
    "write": WRITE, "flag": FLAG, "decide": DECIDE, "read": READ, "finish": FINISH, "skew": SKEW, "poll": POLL,
    "rejected": "halt", "places": 8,
}  # fmt: skip
_AT_ONCE: Final = Script()
QUIETLY: Final = {"operations": False}  # A memory that does not write operations into the trace.
PROTOCOLS: Final = ("crash", "timing")  # What the first and the second protocol tolerate.
WORDS: Final = {"crash": "first", "timing": "second"}
PROMISES: Final = ("integrity", "identical", "total", "agreement", "uniform", "validity", "unanimity", "bounded")
BEGIN: Final = 5000.0  # By then every group here has formed.
_STEPS: Final = ("decide", "read", "finish")
_TIMES: Final = ("write", "flag", "decide", "read", "finish", "skew", "poll", "schedule", "expiry", "datagram")


def us(count: float) -> Duration:
    return Duration(round(count * US))


def parameters(**given: Any) -> dict[str, Any]:
    """Parameters of a run, with times in µs."""
    return {name: us(value) if name in _TIMES else value for name, value in {**PLAIN, **given}.items()}


def times(rules: Rules = AS_BUILT, **given: Any) -> Times:
    """The bounds that go with these parameters."""
    return times_of(Parameters(**parameters(**given)), rules)


def message(sender: str, at: float, **settings: Any) -> Workload:
    """One message."""
    return Workload(senders=(sender,), closed=1, count=1, start=us(at), **settings)


def load(senders: Sequence[str], rate: float, begin: float, end: float) -> Workload:
    return Workload(senders=tuple(senders), rate=rate, start=us(begin), stop=us(end))


def fault(kind: str, at: float, *, length: float = 0, delay: float = 0, offset: float = 0, **settings: Any) -> Fault:
    return Fault(kind=kind, at=us(at), length=us(length), delay=us(delay), offset=int(offset * US), **settings)


def modules(at: float, copies: int) -> list[Fault]:
    """All copies but the last die."""
    return [fault("module", at, module=number) for number in range(1, copies)]


# What is run
@dataclasses.dataclass(frozen=True, slots=True)
class Plan:
    """A run that can travel to a task."""

    scenario: Scenario
    script: Script | None
    rules: Rules = dataclasses.field(default_factory=dict)  # Those that are not the protocol's own, and their values.
    settle: int = 0
    label: str = ""


def plan(
    members: str,
    *workload: Workload,
    script: Script | None = _AT_ONCE,
    usual: float | None = 0,
    rules: Rules = AS_BUILT,
    clocks: Mapping[str, float] | None = None,
    memory: Mapping[str, Any] | None = None,
    length: float = 10_000,
    drain: float = 1.0,
    settle: float = 7_000,
    label: str = "",
    **given: Any,
) -> Plan:
    """A group of these, whose clocks are ahead by ``clocks``; ``drain`` is in seconds, ``settle`` is how long nothing has to be
    left to do until it is at rest. Instead of a script, ``usual`` is the share of its bound that every operation takes; None:
    what the simulator draws."""
    clock = [Clock(process=name, offset=int(ahead * US)) for name, ahead in (clocks or {}).items()]
    memory = {"operations": True, "detection": us(2000), **(memory or {})}
    fields: dict[str, Any] = {"network": Network(), "clock": clock, "memory": memory}
    of_run: dict[str, Any] = {name: given.pop(name) for name in ("faults", "later", "network", "seed") if name in given}
    settings: dict[str, Any] = {**parameters(**given), **fields, **of_run}
    planned = scenario("mailbox", members.split(), *workload, length=length / 1000, drain=1000 * drain, **settings)
    return Plan(planned, Script(usual=usual) if script is _AT_ONCE else script, rules, us(settle), label)


def bound_of(one: Plan) -> Times:
    """The bounds of a run."""
    return times_of(Parameters(**one.scenario.parameters), one.rules)


# What came of it
@dataclasses.dataclass(frozen=True, slots=True)
class Found:
    """A run, verified; times in µs."""

    label: str
    decisions: Mapping[str, tuple[int, ...]]  # What each receiver decided, in the order of timestamps.
    delivered: Mapping[str, tuple[tuple[str, int], ...]]
    sent: int
    violated: tuple[str, ...]
    untimely: tuple[str, ...]  # Processes that had a timing fault.
    accused: tuple[str, ...]  # Intact senders that had a message rejected.
    quiet: bool
    latest: float  # Longest time from a Send's timestamp to the last delivery of its message.
    longest_send: float  # Of processes without a timing fault.
    operations: Mapping[str, tuple[tuple[str, int, float, float], ...]]
    """Steps of Receives by process: operation, copy (from 1), begin and end; in the order of their ends."""
    flagged: Mapping[tuple[str, int, int], frozenset[str]]
    """Who had a decision flag when a message was written: by sender, timestamp and copy."""
    states: Mapping[tuple[str, str], int]  # Entries and exits by process and state.
    decided_after: tuple[float, ...]  # From timestamps to decisions, by the clocks of who decided.
    waited: tuple[float, ...]  # From timestamps to deliveries, by the clocks of who delivered.

    def row(self) -> dict[str, Any]:
        """For a file."""
        names = {name: " ".join(getattr(self, name)) for name in ("violated", "untimely", "accused")}
        times = {"latest_us": self.latest, "longest_send_us": self.longest_send}
        return {"run": self.label, "sent": self.sent, "decisions": str(dict(self.decisions)), **names, **times}


def found_of(one: Plan) -> Found:
    """Runs and verifies what all runs promise, whether it has come to rest or not."""
    table, summary, memory = run(one)
    assert isinstance(memory, ScriptedMemory)
    untimely = {row["process"] for row in rows_of(table, "fault") if row["detail"].get("timing")}
    crashed = {row["process"] for row in rows_of(table, "crash") if row["detail"].get("by") == "fault"}
    rejected = {row["sender"] for kind in ("reject", "late") for row in rows_of(table, kind) if row["sender"]}
    decided, deliveries, sent = (list(rows_of(table, kind)) for kind in ("decide", "deliver", "sent"))
    decisions: defaultdict[str, list[tuple[int, int]]] = defaultdict(list)
    for row in decided:
        decisions[row["process"]].append((row["detail"]["stamp"], row["detail"]["decision"]))
    delivered: defaultdict[str, list[tuple[str, int]]] = defaultdict(list)
    for row in deliveries:
        delivered[row["process"]].append((row["sender"], row["seq"]))
    operations: defaultdict[str, list[tuple[str, int, float, float]]] = defaultdict(list)
    for row in rows_of(table, "operation"):
        name, copy, began = (row["detail"][key] for key in ("operation", "copy", "began"))
        if name in _STEPS:
            operations[row["process"]].append((name, copy + 1, began / US, row["true_time"] / US))
    stamps = {(row["sender"], row["seq"]): row["detail"]["stamp"] for row in sent}
    waited = [(row["time"] - stamps[key]) / US for row in deliveries if (key := (row["sender"], row["seq"])) in stamps]
    states = {(row["process"], row["detail"]["state"]): row["detail"] for row in rows_of(table, "state")}
    return Found(
        label=one.label,
        decisions={name: tuple(value for _, value in sorted(values)) for name, values in decisions.items()},
        delivered={name: tuple(values) for name, values in delivered.items()},
        sent=sum(1 for _ in rows_of(table, "send")),
        violated=violated(table, PROMISES),
        untimely=tuple(sorted(untimely)),
        accused=tuple(sorted(rejected - crashed - untimely)),
        quiet=summary.quiet,
        latest=max((row["true_time"] - row["sent"] for row in deliveries), default=0) / US,
        longest_send=max((row["detail"]["took_ns"] for row in sent if row["sender"] not in untimely), default=0) / US,
        operations={name: tuple(steps) for name, steps in operations.items()},
        flagged=memory.flagged,
        states={key: detail.get("entry", detail.get("exit", 0)) for key, detail in states.items()},
        decided_after=tuple((row["detail"]["after_ns"] - row["detail"]["took_ns"]) / US for row in decided),
        waited=tuple(waited),
    )


def table_of(one: Plan) -> pa.Table:
    """The trace of a run."""
    return run(one)[0]


def run(one: Plan) -> tuple[pa.Table, Summary, SimMemory | None]:
    """Its trace, its summary, and its memory."""
    trace = TraceBuffer()
    with variant_of(one.rules).applied():
        simulation = ScriptedSimulation(one.script, one.scenario, settle=one.settle, trace=trace)
        summary = simulation.run()
    return trace.table(), summary, simulation.memory
