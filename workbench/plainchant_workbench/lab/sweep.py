"""How fast sweeps are: simulated runs a second through Spark, beside the same runs in a plain pool of processes.

Both sides do the same work, down to the files: simulate, verify, measure, write every trace, commit unit by unit. The pool
hands out units one at a time, which is the best that a pool can do; Spark has what ``plainchant sweep`` does, a job with one
task a slot. Both are warm (workers started, modules imported), they take turns, and the best round of each counts. Starting
Spark is apart.
"""

from __future__ import annotations

import dataclasses
import multiprocessing
import tempfile
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from plainchant.lab.sweep import Definition, Store, define, sweep, swept
from plainchant.lab.sweep.task import Job, Task

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SCENARIO: Final = "sweep-faults"
"""Runs of about a thousand events."""


@dataclasses.dataclass(frozen=True)
class Rate:
    """What was measured."""

    runs: int
    events_per_run: int
    spark_runs_per_s: float
    pool_runs_per_s: float

    @property
    def ratio(self) -> float:
        return self.spark_runs_per_s / self.pool_runs_per_s

    def to_json(self) -> dict[str, Any]:
        return {
            "runs": self.runs,
            "events_per_run": self.events_per_run,
            "spark_runs_per_s": round(self.spark_runs_per_s, 1),
            "pool_runs_per_s": round(self.pool_runs_per_s, 1),
            "ratio": round(self.ratio, 3),
        }


def measure_sweeps(
    spark: SparkSession, *, runs: int, rounds: int, processes: int, progress: Callable[[str], None] = lambda what: None
) -> Rate:
    """Measures both sides; ``processes`` are the pool's, and should be as many as Spark has slots."""
    definition = define(SCENARIO, f"0:{runs}", keep="all")
    warming = define(SCENARIO, f"{runs}:{runs + 8 * processes}", keep="all")
    by_spark: list[float] = []
    by_pool: list[float] = []
    context = multiprocessing.get_context("spawn")  # forking a process that talks to a JVM copies its connections
    with tempfile.TemporaryDirectory() as place, ProcessPoolExecutor(processes, mp_context=context) as pool:
        progress("warming up")
        _through_spark(spark, warming, Path(place) / "spark-warm")
        _through_pool(pool, warming, Path(place) / "pool-warm")
        for number in range(rounds):
            progress(f"round {number + 1} of {rounds}")
            events = _through_spark(spark, definition, Path(place) / f"spark-{number}", by_spark)
            _through_pool(pool, definition, Path(place) / f"pool-{number}", by_pool)
    return Rate(runs, round(events / runs), runs / min(by_spark), runs / min(by_pool))


def _through_spark(spark: SparkSession, definition: Definition, directory: Path, seconds: list[float] | None = None) -> int:
    began = time.perf_counter()
    result = sweep(spark, definition, directory)
    if seconds is not None:
        seconds.append(time.perf_counter() - began)
    return result.events


def _through_pool(pool: ProcessPoolExecutor, definition: Definition, directory: Path, seconds: list[float] | None = None) -> None:
    began = time.perf_counter()
    store = Store(directory)
    definition = store.enter(definition)
    job = Job(definition, str(store.directory), tuple(range(definition.units)), 1)
    _exhaust(pool.map(_do, [(job, unit) for unit in job.todo]))
    if swept(definition, directory)[1] is None:
        raise AssertionError("the pool did not do every unit")
    if seconds is not None:
        seconds.append(time.perf_counter() - began)


def _do(what: tuple[Job, int]) -> None:
    """One unit, in a process of the pool."""
    job, unit = what
    Task(job, 0).do(unit)


def _exhaust(results: Iterable[None]) -> None:
    for _ in results:
        pass
