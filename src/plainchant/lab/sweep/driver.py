"""Sweeps: thousands of simulated runs as Spark tasks, verified and measured where they run.

``plan`` cuts the runs into units, ``task`` does units and commits them one by one to the directory (``store``). The driver starts
one job with one long task per slot for the units that are missing, watches markers appear, and adds them up. Nothing of a result
travels through Spark: a task returns one row, which says what kept it from working, if something did. So a sweep can be
interrupted at any time (Ctrl-C, a killed executor, a lost driver), the same command continues it, and it works the same over
Connect. A job that fails is started again as long as each attempt commits something: the loss of a worker does not end a sweep
even where the master never runs a task again (a user's own session on ``local[2]``). The driver and all executors must share the
directory.
"""

from __future__ import annotations

import contextlib
import dataclasses
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import pyarrow as pa

from ... import __version__
from ..errors import LabError
from ..properties import PROPERTIES, Outcome, Verification, Violation
from ..tables import violation_of
from .plan import Definition, define
from .store import Store, Tally
from .task import RESULT, Job, Perform, perform

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["Definition", "Progress", "Store", "Swept", "define", "sweep", "swept"]
_WATCH_EVERY: Final = 0.3
"""Seconds between two looks at the directory."""
_END_WITHIN: Final = 10.0
"""Seconds for a job that was interrupted to end; what it still does afterwards does no harm."""


@dataclasses.dataclass(frozen=True)
class Progress:
    """How far a sweep is."""

    runs: int
    of: int
    violated: int
    troubled: int
    """Runs that failed or did not get quiet."""


Watch: TypeAlias = Callable[[Progress], None]


@dataclasses.dataclass(frozen=True)
class Swept:
    """What a complete sweep came to."""

    definition: Definition
    directory: Path
    verdicts: Mapping[str, int]
    """``holds``, ``violated``, ``restless``, ``failed`` to runs."""
    unexpected: int
    """Runs that did not end as their scenario expects."""
    events: int
    verification: Verification
    """Of all runs together; of violations the smallest of each run and property. All are in ``violations``."""
    troubled: Sequence[Mapping[str, Any]]
    """Rows of the runs that failed or did not get quiet."""
    replays: Mapping[str, str]
    """Run to the command that runs it again, for every run that does not hold."""

    @property
    def verdict(self) -> str:
        """The worst of its runs' verdicts."""
        return next((verdict for verdict in ("violated", "failed", "restless") if self.verdicts.get(verdict)), "holds")

    @property
    def passes(self) -> bool:
        """Whether every run ended as its scenario expects."""
        return not self.unexpected

    def to_json(self) -> dict[str, Any]:
        """What ``summary.json`` says: a verification's JSON, and the counts of runs."""
        verdicts = {verdict: self.verdicts.get(verdict, 0) for verdict in ("holds", "violated", "restless", "failed")}
        head = {"plainchant": __version__, "command": "sweep", "scenario": self.definition.scenario}
        runs = {"all": self.definition.runs, **verdicts, "unexpected": self.unexpected}
        found = {"trace_events": self.events, **self.verification.to_json(), "verdict": self.verdict}
        return {**head, "runs": runs, **found}


def swept(definition: Definition, directory: str | Path) -> tuple[Definition, Swept | None]:
    """Enters the directory; the sweep's result if it is complete, without Spark."""
    store = Store(directory)
    definition = store.enter(definition)
    tallies = store.recover()
    return definition, _finish(definition, store, tallies) if len(tallies) == definition.units else None


def sweep(
    spark: SparkSession,
    definition: Definition,
    directory: str | Path,
    *,
    tasks: int | None = None,
    watch: Watch | None = None,
    perform: Perform = perform,
) -> Swept:
    """Performs the runs that are not yet in the directory, and adds everything up.

    ``tasks``: how many there are; None: one a slot. ``perform`` does one run, where a user has their own way of that.
    """
    from ..session import send_code, slots

    send_code(spark)
    definition, complete = swept(definition, directory)
    store = Store(directory)
    most = tasks or slots(spark)
    while complete is None:
        done = store.tallies()
        todo = tuple(unit for unit in range(definition.units) if unit not in done)
        job = Job(definition, str(store.directory), todo, min(most, len(todo)), perform)
        problem, error = _watched(spark, job, watch)
        if problem is not None:
            raise LabError(problem)
        after = store.tallies()
        if len(after) == definition.units:
            complete = _finish(definition, store, after)
        elif len(after) == len(done):
            raise _stuck(definition, todo, error)
        else:
            store.forget_claims()
    return complete


def _watched(spark: SparkSession, job: Job, watch: Watch | None) -> tuple[str | None, Exception | None]:
    """Runs one job, and meanwhile tells the watcher what was committed: the directory says it, on any kind of cluster alike.

    The job has a thread of its own. Ctrl-C comes to the main one, which must not then be in the middle of a call to Spark.
    """
    outcome: list[tuple[str | None, Exception | None]] = []
    over = threading.Event()

    def run() -> None:
        outcome.append(_run(spark, job))
        over.set()

    store = Store(job.directory)
    tallies: dict[int, Tally] = {}
    threading.Thread(target=run, daemon=True).start()
    try:
        # Not by joining the thread: a join that Ctrl-C interrupts takes the thread for ended from then on (CPython 3.11).
        ended = False
        while not ended:
            ended = over.wait(_WATCH_EVERY)
            if watch is not None:
                tallies = store.tallies(tallies)
                watch(progress_of(job.definition, tallies))
    except BaseException:
        with contextlib.suppress(Exception):  # a server or a JVM that is gone does not go on either
            spark.interruptAll()
        over.wait(_END_WITHIN)
        raise
    return outcome[0]


def _run(spark: SparkSession, job: Job) -> tuple[str | None, Exception | None]:
    """What a job's tasks complain of, or the error that it died of."""
    try:
        rows = spark.range(0, job.tasks, 1, job.tasks).mapInArrow(job, RESULT).collect()
    except Exception as error:  # whatever Spark raises, of several libraries: the directory says whether it was in vain
        return None, error
    problems = sorted(row["problem"] for row in rows if row["problem"] is not None)
    return (problems[0] if problems else None), None


def _stuck(definition: Definition, todo: Sequence[int], error: Exception | None) -> Exception:
    """Nothing was committed any more: why, and what to look at. An unknown failure stays as it is."""
    from ..session.failures import explain_failure

    told = explain_failure(error) if error is not None else LabError("its tasks ended without committing anything")
    if told is None:
        assert error is not None
        return error
    alone = f"Try a run of the first unit that is missing alone: {definition.replay(definition.unit(todo[0])[0])}"
    again = "when the cause is mended, the same command continues the sweep"
    return LabError(f"the sweep does not get on: {told}. {alone}; {again}")


def progress_of(definition: Definition, tallies: Mapping[int, Tally]) -> Progress:
    verdicts = _verdicts(tallies)
    troubled = verdicts["failed"] + verdicts["restless"]
    return Progress(sum(verdicts.values()), definition.runs, verdicts["violated"], troubled)


def _finish(definition: Definition, store: Store, tallies: Mapping[int, Tally]) -> Swept:
    """The result of a complete sweep; its summary is written."""
    verdicts = _verdicts(tallies)
    worth_reading = [unit for unit, tally in tallies.items() if tally.runs != tally.verdicts.get("holds", 0)]
    rows = [row for table in store.read("runs", worth_reading) for row in table.to_pylist() if row["verdict"] != "holds"]
    result = Swept(
        definition=definition,
        directory=store.directory,
        verdicts=dict(sorted(verdicts.items())),
        unexpected=sum(tally.unexpected for tally in tallies.values()),
        events=sum(tally.events for tally in tallies.values()),
        verification=Verification(_outcomes(tallies), _smallest(store.read("violations", worth_reading))),
        troubled=[row for row in rows if row["verdict"] != "violated"],
        replays={row["run"]: row["replay"] for row in rows},
    )
    if sum(verdicts.values()) != definition.runs:
        raise LabError(f"{store.directory} does not have every run once; it was changed by hand: remove it and sweep again")
    store.write_summary(result.to_json())
    store.tidy()
    return result


def _verdicts(tallies: Mapping[int, Tally]) -> Counter[str]:
    verdicts: Counter[str] = Counter()
    for tally in tallies.values():
        verdicts.update(tally.verdicts)
    return verdicts


def _outcomes(tallies: Mapping[int, Tally]) -> dict[str, Outcome]:
    counts: dict[str, list[tuple[int, ...]]] = {}
    for tally in tallies.values():
        for name, numbers in tally.properties.items():
            counts.setdefault(name, []).append(numbers)
    return {name: Outcome(*map(sum, zip(*counts[name], strict=True))) for name in PROPERTIES if name in counts}


def _smallest(tables: Iterator[pa.Table]) -> tuple[Violation, ...]:
    """The first violation of each run and property, the smallest and earliest in front."""
    first: dict[tuple[str, str], tuple[tuple[Any, ...], Violation]] = {}
    for table in tables:
        for row in table.to_pylist():
            violation = violation_of(row)
            key = (row["size"], row["seen_at"], violation.run, violation.property, violation.events, violation.messages)
            place = (violation.run, violation.property)
            if place not in first or key < first[place][0]:
                first[place] = (key, violation)
    return tuple(violation for _, violation in sorted(first.values(), key=lambda pair: pair[0]))
