"""What the fault sweeps of all protocols share: runs that are verified, and the situations in them.

A protocol's ``sweep`` makes scenarios of seeds; :func:`run_and_verify` runs one. (Mutants: ``mutating``.)
"""

from __future__ import annotations

import dataclasses
import json
import multiprocessing
import os
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from random import Random
from typing import Any, TypeAlias, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from plainchant.core.engine import Engine, Host, Layer
from plainchant.core.model import MS, Batch, Duration, GroupId, ProcessId, View
from plainchant.lab.properties import Verification, verify
from plainchant.scenario.model import Scenario
from plainchant.sim import Simulation, Summary
from plainchant.trace import TraceBuffer
from tests.collector import collect_seldom

Make: TypeAlias = Callable[[Host, Any], Engine]
"""Makes the engine of a process: the protocol's own, or a variant's."""

Examined: TypeAlias = tuple[int, list[str], Counter[str]]
"""A seed, what it violates, and the situations in it."""

TRIES = 8
"""A run with too few events is run again, longer and with another seed for what is drawn, at most so often."""


@dataclasses.dataclass(frozen=True)
class Outcome:
    """What a run of a sweep came to."""

    seed: int
    scenario: Scenario
    summary: Summary
    table: pa.Table
    verification: Verification
    situations: Counter[str]

    @property
    def violated(self) -> list[str]:
        """The properties that do not hold, and ``quiet`` if the run did not come to rest."""
        names = [name for name, outcome in self.verification.properties.items() if outcome.violations]
        return names if self.summary.quiet else [*names, "quiet"]


@dataclasses.dataclass
class Watched:
    """What the processes of one run got, and what was in the memory when it ended."""

    order: dict[tuple[ProcessId, GroupId], list[tuple[int, View | None]]] = dataclasses.field(default_factory=dict)
    """Ranks of what each got in a group, and the view if it was one; not of views that stand nowhere in the order."""
    left_over: list[str] = dataclasses.field(default_factory=list)


class Watch(Layer):
    """A layer around a process's engine that notes the order of views and messages."""

    def __init__(self, host: Host, inside: Callable[[Host], Engine], watched: Watched) -> None:
        self.watched = watched
        super().__init__(host, inside)

    def install(self, view: View) -> None:
        if view.rank is not None:
            self.watched.order.setdefault((self.me, view.group), []).append((view.rank, view))
        self.host.install(view)

    def deliver(self, group: GroupId, sender: ProcessId, batch: Batch, rank: int | None = None) -> None:
        assert rank is not None
        self.watched.order.setdefault((self.me, group), []).append((rank, None))
        self.host.deliver(group, sender, batch, rank)


_Outcome = TypeVar("_Outcome", bound=Outcome)


def processes() -> ProcessPoolExecutor:
    """Processes for the runs of a sweep: as many as there are cores."""
    return ProcessPoolExecutor(os.cpu_count(), mp_context=multiprocessing.get_context("spawn"), initializer=collect_seldom)


def ordinary(times: int, seeds: int, short: Sequence[int]) -> Sequence[int]:
    """The seeds of a sweep: ``times`` as many as it has, or, in ``make test``, the few that still come to every situation."""
    return short if times == 1 else range(times * seeds)


def ms(low: float, high: float, random: Random) -> Duration:
    return Duration(round(random.uniform(low, high) * MS))


def run_and_verify(seed: int, scenario: Scenario, make: Make | None, least_events: int) -> Outcome:
    """Runs and verifies a scenario; one with too few events is made longer."""
    for _ in range(TRIES):
        trace = TraceBuffer()
        summary = Simulation(scenario, trace=trace, run=scenario.name, make=make).run()
        if summary.events >= least_events:
            break
        scenario = dataclasses.replace(scenario, seed=scenario.seed + 1_000_000, duration=Duration(scenario.duration * 3 // 2))
    table = trace.table()
    return Outcome(seed, scenario, summary, table, verify(table), situations_in(table))


def situations_in(table: pa.Table) -> Counter[str]:
    """What happened, by the names that the protocol's records give it."""
    details = table.filter(pc.match_substring(table["detail"], '"situation"'))["detail"].to_pylist()
    return Counter(json.loads(text)["situation"] for text in details)


def kinds_of_fault(scenario: Scenario) -> int:
    """How many kinds of fault a scenario has: of packets, scheduled, and drawn."""
    network = scenario.network
    rates = scenario.random
    packets = [rate for rate in (network.loss, network.duplicate, network.reorder, network.corrupt) if rate]
    drawn = [rate for rate in (rates.crash, rates.pause, rates.partition, rates.cut, rates.clog, rates.leave, rates.step) if rate]
    return len(packets) + len(drawn) + len({fault.kind for fault in scenario.fault})


def examine(run: Callable[[int], _Outcome], situations: Callable[[_Outcome], Counter[str]], seed: int) -> Examined:
    """One seed, told so briefly that it travels between processes."""
    outcome = run(seed)
    return seed, outcome.violated, situations(outcome)


def run_all(
    examine: Callable[[int], Examined], seeds: Iterable[int], about: Callable[[int], str], module: str, chunksize: int
) -> Counter[str]:
    """The situations that occur with these seeds; no promise may be broken. ``module`` has the ``run`` that replays a seed."""
    occurred: Counter[str] = Counter()
    troubled: list[str] = []
    with processes() as pool:
        for seed, troubles, found in pool.map(examine, seeds, chunksize=chunksize):
            occurred += found
            if troubles:
                troubled.append(f"seed {seed} ({about(seed)}): {', '.join(troubles)}")
    assert not troubled, f"replay with {module}.run(SEED):\n" + "\n".join(troubled)
    return occurred


def demand(occurred: Counter[str], expected: Mapping[str, int]) -> None:
    """Each situation has to occur so often; a sweep that never goes there proves nothing about it."""
    seldom = {name: occurred[name] for name, least in expected.items() if occurred[name] < least}
    assert not seldom, f"the sweep seldom came to: {seldom}"
