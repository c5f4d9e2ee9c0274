"""Small runs of dedos within a node: a group of named processes, what is verified and asserted, and what can be read off.

How long operations take, and what fails after which, is in scripts (:mod:`plainchant.sim.scripted`); times are in µs. In every
run the lemmas of appendix C are asked after every operation (:mod:`plainchant_papers.dedos.watch`).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from plainchant.core.engine import Engine, Host, Layer, PerGroup
from plainchant.core.model import MS, SECOND, US, Duration, GroupId, View
from plainchant.lab.properties import verify
from plainchant.protocols.dedos import DESCRIPTION
from plainchant.protocols.dedos.intra import Intra
from plainchant.scenario.model import Fault, Memory, Scenario, Workload
from plainchant.sim import Summary
from plainchant.sim.scripted import Script, ScriptedSimulation
from plainchant.trace import TraceBuffer
from plainchant_papers.dedos.watch import Lemmas

from ..runs import Run

PROMISES = ("integrity", "fifo", "identical", "validity", "agreement")
OPERATION = 10
"""How long an operation takes at the most."""
POLL = 500


def us(count: float) -> Duration:
    return Duration(round(count * US))


def message(sender: str, at: float, **settings: Any) -> Workload:
    """One message."""
    return Workload(senders=(sender,), closed=1, count=1, start=us(at), **settings)


def fault(kind: str, at: float, *, length: float = 0, delay: float = 0, **settings: Any) -> Fault:
    return Fault(kind=kind, at=us(at), length=us(length), delay=us(delay), **settings)


class Watch(Layer):
    """A layer around a process's engine that notes its views."""

    def __init__(self, host: Host, inside: Callable[[Host], Engine], views: list[View]) -> None:
        self.noted = views
        super().__init__(host, inside)

    def install(self, view: View) -> None:
        self.noted.append(view)
        self.host.install(view)


@dataclasses.dataclass(frozen=True)
class WithinRun(Run):
    """A finished run; times in µs. ``violated`` also has ``quiet`` if it did not come to rest, ``halted`` if a member stopped
    itself and ``views`` if views differ."""

    broken: list[str]
    """Lemmas that did not hold, in words."""
    asked: int
    """How often a lemma was asserted."""
    views: Mapping[str, Sequence[View]]
    """What each process saw."""

    def ranks(self, process: str) -> list[int]:
        return [row["rank"] for row in self.of("deliver", process)]

    def operations(self, process: str, *names: str) -> list[tuple[str, int]]:
        """What a process did: operation and box, counted from 1."""
        found = self.details("operation", process)
        return [(each["operation"], each["copy"] + 1) for each in found if not names or each["operation"] in names]

    @property
    def clean(self) -> bool:
        return not self.violated and not self.broken


def run_scenario(scenario: Scenario, script: Script | None = None, settle: float = 4 * POLL) -> WithinRun:
    """Runs a scenario, verifies what is promised and asserts the lemmas."""
    views: dict[str, list[View]] = {}
    lemmas = Lemmas()

    def make(host: Host, parameters: Any) -> Engine:
        def member(inner: Host, group: GroupId) -> Engine:
            return Watch(inner, lambda outer: Intra(outer, group, parameters), views.setdefault(host.me, []))

        return PerGroup(host, member)

    trace = TraceBuffer()
    simulation = ScriptedSimulation(
        script, scenario, settle=us(settle), trace=trace, make=make, watch=lemmas, description=DESCRIPTION
    )
    summary = simulation.run()
    table = trace.table()
    violated = [name for name, outcome in verify(table, PROMISES).properties.items() if outcome.violations]
    violated += [] if summary.quiet else ["quiet"]
    violated += ["halted"] if any(end.state == "halted" for end in summary.processes.values()) else []
    violated += ["views"] if _views_differ(views, summary) else []
    rows = sorted(table.to_pylist(), key=lambda row: (row["true_time"], row["process"], row["index"]))
    return WithinRun(summary, rows, violated, lemmas.broken, sum(lemmas.asked.values()), views)


def _views_differ(views: Mapping[str, Sequence[View]], summary: Summary) -> bool:
    """Whether processes that stay see different views, miss one, or end in a view with a process that has ended."""
    alive = {name for name, end in summary.processes.items() if end.state == "alive"}
    seen = [[(view.group, view.number, view.members) for view in noted] for process, noted in views.items() if process in alive]
    for group in {view[0] for noted in seen for view in noted}:
        orders = [[view for view in noted if view[0] == group] for noted in seen]
        longest = max(orders, key=len)
        if any(order != longest[len(longest) - len(order) :] for order in orders if order):
            return True
        if not set(longest[-1][2]) <= alive:
            return True
    return False


def run(
    members: str,
    *workload: Workload,
    script: Script | None = Script(usual=1),  # noqa: B008 - it is frozen
    faults: Sequence[Fault] = (),
    later: str = "",
    length: float = 5_000,
    seed: int = 0,
    memory: Mapping[str, Any] | None = None,
    **parameters: Any,
) -> WithinRun:
    """Runs a group of these. Operations take their bound, unless the script says otherwise or is None."""
    scenario = Scenario(
        protocol="dedos", name="within", seed=seed, members=tuple(members.split()), later=tuple(later.split()),
        duration=us(length), drain=Duration(SECOND // 5), workload=workload, fault=tuple(faults),
        memory=Memory(**{"operations": True, "detection": us(100), **(memory or {})}),
        parameters={
            "reach": "node", "reserve": 0, "elements": 8, "places": 8, "room": 256, "operation": us(OPERATION), "poll": us(POLL),
            "present_every": Duration(100 * MS), **parameters,
        },
    )  # fmt: skip
    return run_scenario(scenario, script)
