"""What the fault sweeps of all protocols share: runs that are verified, the situations in them, and tables of mutants.

A protocol's ``sweep`` makes scenarios of seeds; :func:`run_and_verify` runs one. Its ``mutants`` are variants of the protocol
with one rule taken out, and the table beside them says what catches each: :func:`look_for_seeds` makes it anew.
"""

from __future__ import annotations

import dataclasses
import json
import multiprocessing
import os
import tomllib
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from random import Random
from typing import Any, TypeAlias, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from plainchant.core.engine import Engine, Host, Layer
from plainchant.core.model import MS, Batch, Duration, GroupId, PlainchantError, ProcessId, View
from plainchant.lab.properties import Verification, verify
from plainchant.scenario.model import Scenario
from plainchant.sim import Simulation, Summary
from plainchant.trace import TraceBuffer
from tests.collector import collect_seldom

Make: TypeAlias = Callable[[Host, Any], Engine]
"""Makes the engine of a process: the protocol's own, or a variant's."""

Examined: TypeAlias = tuple[int, list[str], Counter[str]]
"""A seed, what it violates, and the situations in it."""
Patch: TypeAlias = tuple[Any, str, Any]
"""What a mutant replaces: the class or module, the name in it, and by what."""

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


# --- tables of mutants ------------------------------------------------------------------------------------------------


def read_table(path: Path) -> dict[str, dict[str, Any]]:
    """What is checked in: mutant to what catches it, or to why it survives. Nothing, before the table is made first."""
    if not path.exists():
        return {}
    with path.open("rb") as file:
        return tomllib.load(file)


def with_needed(table: Mapping[str, Mapping[str, Any]], seeds: Iterable[int]) -> list[int]:
    """These seeds, and those that mutants need."""
    return sorted({*seeds, *(row["seed"] for row in table.values() if "seed" in row)})


def check_patches(mutants: Mapping[str, Iterable[Patch]]) -> None:
    """Every rule that a mutant replaces is one of the protocol."""
    for name, patches in mutants.items():
        for owner, attribute, _ in patches:
            assert attribute in vars(owner), f"{name}: {owner.__name__} has no {attribute}"


def check_catches(caught: Mapping[str, Mapping[str, Any]], searched: int, **made: Collection[str]) -> None:
    """Mutants are caught by what was made for them and exists (scenarios, courses), or within the seeds that are searched."""
    for name, row in caught.items():
        by = [kind for kind in made if kind in row]
        if by:
            assert all(row[kind] in made[kind] for kind in by), f"{name}: there is no {by[0]} {row[by[0]]}"
        else:
            assert 0 <= row["seed"] < searched, f"{name}: seed {row['seed']} is not searched"


def write_table(path: Path, rows: Iterable[tuple[str, dict[str, Any]]]) -> None:
    lines = ["# mutant -> the seed of the sweep that catches it, and the property; made by mutants.py\n"]
    for name, row in rows:
        lines.append(f'["{name}"]')
        lines += [f"{key} = {json.dumps(value)}" for key, value in row.items()]
        lines.append("")
    path.write_text("\n".join(lines))


def first_that_catches(
    run: Callable[[int, Make | None], Outcome], variant: Make, seeds: Iterable[int]
) -> tuple[int, list[str]] | None:
    """The first seed that catches a mutant by a property, a bound, or by not getting quiet, and that the protocol itself comes
    through. (An exception does not count.)"""
    for seed in seeds:
        try:
            outcome = run(seed, variant)
        except PlainchantError:
            continue
        if outcome.violated and not run(seed, None).violated:
            return seed, outcome.violated
    return None


def known_first(path: Path, name: str, seeds: Iterable[int]) -> list[int]:
    """The seed that caught a mutant before, if one did, and then these."""
    known = read_table(path).get(name, {})
    return [*([known["seed"]] if "seed" in known else []), *seeds]


def look_for_seeds(
    path: Path, names: Sequence[str], chosen: Sequence[str], search: Callable[[str], tuple[int, list[str]] | None]
) -> None:
    """Looks for a seed that catches each of the chosen mutants, and writes the table anew.

    ``search`` gives the seed and the properties. If none is chosen, all are but those that a scripted scenario catches.
    """
    known = read_table(path)
    wanted = [name for name in names if name in chosen or (not chosen and "scenario" not in known.get(name, {}))]
    with processes() as pool:
        for name, found in zip(wanted, pool.map(search, wanted), strict=True):
            print(name, found or "SURVIVES", flush=True)
            why = known.get(name, {}).get("survives", "unexplained")
            known[name] = {"seed": found[0], "property": found[1][0]} if found is not None else {"survives": why}
    write_table(path, [(name, known[name]) for name in names if name in known])
