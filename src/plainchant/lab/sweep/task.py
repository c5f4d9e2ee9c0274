"""What a task of a sweep does: simulate run by run; then verify, measure and write, unit by unit.

Task ``p`` of ``k`` owns every ``k``-th unit that is to be done, and is finished when all of them are committed, by any task.
After its own units it helps the others, from the ends of their lists, so that no task waits long for a slow one; a *claim* keeps
two tasks from doing the same unit where it can. A claim may be left by a task that died, so at the end the owner does what is
still not committed, claimed or not. Doing a unit twice only costs time, because a commit replaces equal files (``store``):
retried and speculative tasks are harmless.

The runs of a unit are verified together: most of what stage 1 costs a small run does not depend on its size, and is paid once. A
run that raises, or cannot be verified, is a row with the verdict ``failed``, and the others go on.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from typing import Any, Final, TypeAlias

import pyarrow as pa

from ...core.model import format_duration
from ...scenario import Scenario
from ...sim import Simulation, Summary
from ...trace import TraceBuffer
from ..metrics import METRICS, measure
from ..properties import Verification
from ..tables import OUTCOMES, RUNS, violation_rows
from ..verify.check import check_each
from .plan import Definition
from .store import Store, Tally

RESULT: Final = "task long, problem string"
"""What a task gives back, as Spark says it; no problem is null."""
_RESULT: Final = pa.schema([("task", pa.int64()), ("problem", pa.string())])


@dataclasses.dataclass(frozen=True)
class Performed:
    """A run that has been performed: what it did."""

    summary: Summary
    table: pa.Table
    properties: tuple[str, ...] | None
    """What it is to be checked for; None: what it promises."""


Perform: TypeAlias = Callable[[Scenario, str, Sequence[str]], Performed]
"""From a scenario, the run's name and the properties asked for (empty: those of the scenario) to what came of it."""


def perform(scenario: Scenario, name: str, properties: Sequence[str]) -> Performed:
    """Simulates one run."""
    trace = TraceBuffer()
    summary = Simulation(scenario, trace=trace, run=name).run()
    return Performed(summary, trace.table(), tuple(properties or scenario.verify or ()) or None)


@dataclasses.dataclass(frozen=True)
class Job:
    """What travels to every task."""

    definition: Definition
    directory: str
    todo: tuple[int, ...]
    """Units that were not committed when the job began."""
    tasks: int
    perform: Perform = perform

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """For ``mapInArrow``: rows are numbers of tasks."""
        for batch in batches:
            for number in batch.column(0).to_pylist():
                yield pa.RecordBatch.from_pylist([{"task": number, "problem": Task(self, number).work()}], schema=_RESULT)


class Task:
    """One task at work."""

    def __init__(self, job: Job, number: int) -> None:
        self._job, self._number, self._definition = job, number, job.definition
        self._store = Store(job.directory)

    def work(self) -> str | None:
        """Commits all its units; what keeps it from that, in words, if something does."""
        if not self._store.is_here(self._definition):
            unseen = f"the machine that a task ran on does not see the sweep's directory {self._store.directory}"
            return f"{unseen}; name one with --out that this machine and all executors share"
        try:
            # First its own units, then the others', the last ones first.
            others = ((self._number + distance) % self._job.tasks for distance in range(1, self._job.tasks))
            for unit in chain(self._own(self._number), *(reversed(self._own(number)) for number in others)):
                if not self._store.is_committed(unit) and self._store.claim(unit):
                    self.do(unit)
            for unit in self._own(self._number):
                if not self._store.is_committed(unit):
                    self.do(unit)
        except OSError as error:
            reason = error.strerror or str(error)
            return f"cannot write to {self._store.directory}: {reason}; make room there, then give the same command again"
        return None

    def _own(self, number: int) -> Sequence[int]:
        return self._job.todo[number :: self._job.tasks]

    def do(self, unit: int) -> None:
        """Performs the runs of a unit and commits it, unless another task has."""
        gathered = _Gathered(self._definition)
        for number in self._definition.unit(unit):
            if self._store.is_committed(unit):
                return  # another task was faster
            gathered.add(number, self._job.perform)
        gathered.judge()
        try:
            self._store.commit(unit, gathered.tables(always=unit == 0), gathered.tally)
        except FileNotFoundError:
            # Another driver of the same sweep saw it complete and tidied up. If the directory itself is gone, that is an error.
            if not self._store.is_committed(unit):
                raise


def unit_tables(definition: Definition, unit: int) -> dict[str, pa.Table]:
    """What a unit's runs come to, table by table, without a directory."""
    gathered = _Gathered(definition)
    for number in definition.unit(unit):
        gathered.add(number, perform)
    gathered.judge()
    return gathered.tables(always=True)


class _Gathered:
    """The results of a unit's runs, until they are written."""

    def __init__(self, definition: Definition) -> None:
        self._definition = definition
        self._runs: list[dict[str, Any]] = []
        self._waiting: list[tuple[int, dict[str, Any], Performed]] = []
        """Runs that were performed and are not yet judged: their numbers and rows."""
        self._outcomes: list[dict[str, Any]] = []
        self._violations: list[pa.Table] = []
        self._metrics: list[pa.Table] = []
        self._traces: dict[str, pa.Table] = {}
        self._unexpected = 0

    def add(self, number: int, perform: Perform) -> None:
        """Performs a run."""
        definition, name = self._definition, self._definition.name(number)
        scenario = definition.scenario_of(number)
        point, seed = definition.point_and_seed(number)
        row = dict.fromkeys(RUNS.names) | {"run": name, "seed": seed, "point": list(point), "kept": False}
        self._runs.append(row)
        try:
            self._waiting.append((number, row, perform(scenario, name, definition.properties)))
        except Exception as error:  # whatever a defective protocol raises: the run is reported, and the others go on
            self._fail(number, row, _said(error))

    def _fail(self, number: int, row: dict[str, Any], problem: str) -> None:
        row |= {"verdict": "failed", "problem": problem, "events": 0, "replay": self._definition.replay(number)}
        self._unexpected += 1

    def judge(self) -> None:
        """Verifies and measures what was performed."""
        alike: dict[tuple[str, ...] | None, list[tuple[int, dict[str, Any], Performed]]] = {}
        for each in self._waiting:
            alike.setdefault(each[2].properties, []).append(each)
        self._waiting = []
        for properties, performed in alike.items():
            judged = _verified([done.table for _, _, done in performed], properties)
            for (number, row, done), found in zip(performed, judged, strict=True):
                if isinstance(found, str):
                    self._fail(number, row, found)
                else:
                    row |= self._judged(self._definition.scenario_of(number), done, found)
                    row["replay"] = self._definition.replay(number, events=done.table.num_rows)
                    self._take(row, done, found)

    def _judged(self, scenario: Scenario, done: Performed, verification: Verification) -> dict[str, Any]:
        summary = done.summary
        restless = bool(scenario.drain) and not summary.quiet
        waits = "; ".join(f"{process}: {text}" for process, text in summary.not_quiet.items())
        problem = f"it did not get quiet within {format_duration(scenario.drain)} of the end of traffic ({waits})"
        violated = verification.verdict == "violated"
        # As for `plainchant run`: where a violation is meant to be shown, nothing else is asked.
        expected = violated if scenario.expect == "violation" else not violated and not restless
        self._unexpected += not expected
        return {
            "verdict": "violated" if violated else "restless" if restless else "holds",
            "problem": problem if restless else None,
            "events": done.table.num_rows,
            "simulated": summary.events,
            "sent": summary.messages_sent,
            "delivered": summary.messages_delivered,
            "packets": summary.packets_sent,
        }

    def _take(self, row: dict[str, Any], done: Performed, verification: Verification) -> None:
        for name, outcome in verification.properties.items():
            self._outcomes.append({"run": row["run"], "property": name, **dataclasses.asdict(outcome)})
        if verification.violations:
            self._violations.append(_described(done.table, verification))
        self._metrics.append(measure(done.table))
        if self._definition.keep == "all" or (self._definition.keep == "violations" and row["verdict"] != "holds"):
            self._traces[row["run"]] = done.table
            row["kept"] = True

    def tables(self, *, always: bool) -> dict[str, pa.Table]:
        """Tables without rows are left out, unless one file ``always`` has to show what their columns are."""
        tables = {
            "runs": pa.Table.from_pylist(self._runs, schema=RUNS),
            "outcomes": pa.Table.from_pylist(self._outcomes, schema=OUTCOMES),
            "violations": pa.concat_tables([violation_rows([]), *self._violations]),
            "metrics": pa.concat_tables([METRICS.empty_table(), *self._metrics]),
        }
        tables = {name: table for name, table in tables.items() if always or table.num_rows}
        if self._traces:
            tables["trace"] = pa.concat_tables([self._traces[name] for name in sorted(self._traces)])
        return tables

    def tally(self, files: dict[str, int]) -> Tally:
        properties: dict[str, tuple[int, int, int, int]] = {}
        for row in self._outcomes:
            runs, events, cases, violations = properties.get(row["property"], (0, 0, 0, 0))
            counts = runs + row["runs"], events + row["events"], cases + row["cases"], violations + row["violations"]
            properties[row["property"]] = counts
        verdicts = Counter(row["verdict"] for row in self._runs)
        events = sum(row["events"] for row in self._runs)
        return Tally(files, dict(sorted(verdicts.items())), self._unexpected, events, properties)


def _verified(tables: Sequence[pa.Table], properties: Sequence[str] | None) -> list[Verification | str]:
    """The verification of each run, or what keeps it from being verified."""
    try:
        found = check_each(tables, properties)
    except Exception as error:  # of one run, which is found by looking at each
        if len(tables) == 1:
            return [f"it cannot be verified: {_said(error)}"]
        return [one for table in tables for one in _verified([table], properties)]
    return [f"its trace is malformed: {each.malformed[0]}" if each.malformed else each for each in found]


def _said(error: Exception) -> str:
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__


def _described(table: pa.Table, verification: Verification) -> pa.Table:
    """The violations of a run, each with when it can be seen."""
    processes = table.column("process").to_pylist()
    first = {process: processes.index(process) for process in set(processes)}
    times = table.column("true_time").to_pylist()
    return violation_rows(
        (violation, max((times[first[process] + index] for process, index in violation.events), default=0))
        for violation in verification.violations
    )
