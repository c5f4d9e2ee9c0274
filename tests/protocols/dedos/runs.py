"""Small simulations of dedos for paper tests: processes on nodes, their run, and what can be read off it.

Times are in ms. Operations on common memory take 50 µs and packets 1 ms, unless a test says otherwise. Relays are processes of
their own (``n1.r``, and ``n1.t``, which takes over from it), so that they can crash without a member.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import msgspec

from plainchant.core.engine import Engine, Host
from plainchant.core.model import MS, Duration
from plainchant.lab.properties import verify
from plainchant.protocols.dedos import DESCRIPTION
from plainchant.scenario.model import Fault, Memory, Network, Scenario, Workload
from plainchant.sim.memory import Watch
from plainchant.sim.scripted import Script, ScriptedSimulation
from plainchant.trace import TraceBuffer
from plainchant_papers.dedos.variants import without

from ..runs import Run

_DURATIONS = ("length", "delay")
ONE_EACH: dict[str, Any] = {"max_packet": 64}
"""A network whose packets carry one message of ours each, and so does an element of a mailbox."""


@dataclasses.dataclass(frozen=True)
class DedosRun(Run):
    """A finished run."""

    sentences: list[str]
    """What was violated, in words."""
    simulation: ScriptedSimulation

    @property
    def is_good(self) -> bool:
        """Nothing is violated, and nobody waits for anything."""
        return not self.violated and self.summary.quiet

    def details(self, kind: str, process: str = "", **wanted: Any) -> list[dict[str, Any]]:
        """What rows of a kind say, with when that was and where; those that say what is wanted."""
        found = [
            {"at": row["true_time"] / MS, "process": row["process"], **msgspec.json.decode(row["detail"] or "{}")}
            for row in self.of(kind, process)
        ]
        return [each for each in found if all(each.get(key) == value for key, value in wanted.items())]

    def states(self, state: str, process: str = "") -> list[dict[str, Any]]:
        return self.details("state", process, state=state)

    def stages(self, stage: str, process: str = "") -> list[dict[str, Any]]:
        """What was said about distributors: ``call``, ``start``, ``promise``, ``begin``, ``fence``, ``steps down``."""
        return self.details("elect", process, stage=stage)

    def ranks(self, process: str) -> list[int]:
        return [row["rank"] for row in self.of("deliver", process)]

    def halted(self) -> list[str]:
        return sorted(name for name, end in self.summary.processes.items() if end.state == "halted")


def fault(kind: str, at: float, **settings: Any) -> Fault:
    for name in _DURATIONS:
        if name in settings:
            settings[name] = Duration(round(settings[name] * MS))
    return Fault(kind=kind, at=Duration(round(at * MS)), **settings)


def crash(at: float, *processes: str) -> list[Fault]:
    return [fault("crash", at, process=process) for process in processes]


def modules(at: float, *places: str) -> list[Fault]:
    """Boxes crash: ``n1/1`` is the first module of n1."""
    return [fault("module", at, node=place.partition("/")[0], module=int(place.partition("/")[2])) for place in places]


def slow(process: str, at: float, length: float = 8, delay: float = 20) -> Fault:
    """What the process begins at the mailbox during this time has its effect so much later: it has not read what others have."""
    return fault("slow", at, process=process, length=length, delay=delay)


def messages(sender: str, at: float, count: int = 1, group: str = "g", rate: float = 0, **settings: Any) -> Workload:
    """So many messages at once, or one after the other."""
    if not rate:
        settings |= {"burst": count, "rate": 1}
    return Workload(
        senders=(sender,), group=group, start=Duration(round(at * MS)), count=count, **{"rate": rate, "size": 40, **settings}
    )


def simulate(
    members: str,
    *workload: Workload,
    faults: list[Fault] | tuple[Fault, ...] = (),
    relays: str = "n1.r n1.t n2.r n2.t",
    groups: Mapping[str, str] | None = None,
    later: str = "",
    rules: Mapping[str, bool] | None = None,
    script: Script | None = None,
    watch: Watch | None = None,
    layer: Callable[[Host, Callable[[Host], Engine]], Engine] | None = None,
    network: Mapping[str, Any] | None = None,
    until: float = 1000,
    drain: float = 8000,
    seed: int = 0,
    operations: bool = False,
    **parameters: Any,
) -> DedosRun:
    """Runs one group of these members, or several, and verifies all that is promised, drained or not. ``relays`` are networked
    and in no group; if there are any, members are not networked. ``layer`` stands around every engine."""
    idle = tuple(relays.split())
    if idle:
        parameters.setdefault("networked", idle)
    scenario = Scenario(
        protocol="dedos",
        seed=seed,
        members=(*idle, *members.split()),
        later=tuple(later.split()),
        groups={name: tuple(names.split()) for name, names in (groups or {"g": members}).items()},
        workload=workload,
        fault=tuple(faults),
        duration=Duration(round(until * MS)),
        drain=Duration(round(drain * MS)),
        network=Network(**(network or {})),
        memory=Memory(duration="max", operations=operations),
        parameters=parameters,
    )
    trace = TraceBuffer()
    settings: dict[str, Any] = {} if layer is None else {"make": partial(_layered, layer)}
    with without(rules or {}).applied():
        simulation = ScriptedSimulation(script, scenario, trace=trace, watch=watch, **settings)
        summary = simulation.run()
    table = trace.table()
    names = [promise.name for promise in DESCRIPTION.promises(simulation.parameters, simulation.groups)]
    found = verify(table, names)
    violated = [name for name, outcome in found.properties.items() if outcome.violations]
    return DedosRun(summary, table.to_pylist(), violated, [each.sentence for each in found.violations], simulation)


def _layered(layer: Callable[[Host, Callable[[Host], Engine]], Engine], host: Host, parameters: Any) -> Engine:
    return layer(host, lambda inner: DESCRIPTION.make(inner, parameters))
