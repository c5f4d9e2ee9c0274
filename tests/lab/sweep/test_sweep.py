"""Sweeps on Spark: every run once, whatever is killed; runs that fail are reported and take nobody with them."""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from plainchant.lab.errors import LabError
from plainchant.lab.sweep import Definition, Progress, Store, Swept, define, sweep, swept
from plainchant.lab.sweep.task import Job, Performed, Task, perform
from plainchant.scenario import Scenario
from plainchant.trace import read, validate

from ..cluster import Driver, run_python
from .test_plan import SMALL
from .test_store import contents

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

VIOLATED = """\
protocol = "sequencer"
members = 3
duration = "100ms"
verify = ["uniform"]
[network]
delay = "1ms"
[[workload]]
rate = 200
[[fault]]
kind = "cut"
source = "p1"
at = "30ms"
[[fault]]
kind = "crash"
process = "p1"
at = "60ms"
"""


@pytest.fixture
def definition(tmp_path: Path) -> Definition:
    (tmp_path / "small.toml").write_text(SMALL)
    return define(str(tmp_path / "small.toml"), "0:16", keep="all")


def rows(directory: Path, table: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for file in sorted((directory / table).glob("*.parquet")):
        found += pq.read_table(file).to_pylist()
    return found


def undisturbed(definition: Definition, directory: Path) -> dict[str, bytes]:
    """What a sweep leaves that was done in one go, in one process, without Spark."""
    store = Store(directory)
    job = Job(store.enter(definition), str(directory), tuple(range(definition.units)), 1)
    assert Task(job, 0).work() is None
    _, result = swept(definition, directory)
    assert result is not None
    return contents(directory)


def violated(tmp_path: Path, *, text: str = VIOLATED, **options: Any) -> Definition:
    (tmp_path / "violated.toml").write_text(text)
    return define(str(tmp_path / "violated.toml"), "0:4", **options)


def test_a_sweep_leaves_the_same_files_as_one_process_would(spark: SparkSession, definition: Definition, tmp_path: Path) -> None:
    result = sweep(spark, definition, tmp_path / "out")
    assert result.passes
    assert result.verdicts == {"holds": 16}
    assert contents(tmp_path / "out") == undisturbed(definition, tmp_path / "plain")
    assert [row["run"] for row in rows(tmp_path / "out", "runs")] == [f"seed={seed}" for seed in range(16)]
    assert {row["run"] for row in rows(tmp_path / "out", "metrics")} == {f"seed={seed}" for seed in range(16)}
    trace = read(tmp_path / "out" / "trace")
    assert validate(trace.table, trace.files) == []
    assert trace.table.num_rows == result.events == sum(row["events"] for row in rows(tmp_path / "out", "runs"))


def test_the_summary_adds_up_what_the_tables_say(spark: SparkSession, definition: Definition, tmp_path: Path) -> None:
    result = sweep(spark, definition, tmp_path / "out", tasks=3)
    outcomes = rows(tmp_path / "out", "outcomes")
    for name, outcome in result.verification.properties.items():
        mine = [row for row in outcomes if row["property"] == name]
        for key, value in outcome.to_json().items():
            assert value == sum(row[key] for row in mine)
    summary = json.loads((tmp_path / "out" / "summary.json").read_text())
    assert summary["verdict"] == "holds"
    assert summary["runs"] == {"all": 16, "holds": 16, "violated": 0, "restless": 0, "failed": 0, "unexpected": 0}
    assert summary["properties"]["integrity"]["runs"] == 16
    assert summary["violations"] == summary["malformed"] == []


# --- interrupted, killed, continued -----------------------------------------------------------------------------------


def test_an_interrupted_sweep_continues_where_it_stopped(spark: SparkSession, definition: Definition, tmp_path: Path) -> None:
    place = tmp_path / "out"
    performed = tmp_path / "performed"
    store = Store(place)
    first = Job(store.enter(definition), str(place), tuple(range(0, definition.units, 3)), 1)
    Task(first, 0).work()
    # A killed task's traces: files that were renamed without their marker, and files that were not even renamed.
    (place / "runs" / "unit-00001.parquet").write_bytes(b"half")
    (place / "runs" / ".unit-00002.parquet.gone-1.partial").write_bytes(b"half")
    assert store.claim(4)

    def noted(scenario: Scenario, name: str, properties: Sequence[str]) -> Performed:
        with open(performed, "a") as file:
            file.write(f"{name}\n")
        return perform(scenario, name, properties)

    done = {definition.name(number) for unit in first.todo for number in definition.unit(unit)}
    sweep(spark, definition, place, perform=noted)
    again = performed.read_text().split()
    assert not done & set(again)
    assert len(done | set(again)) == 16
    assert contents(place) == undisturbed(definition, tmp_path / "plain")
    performed.unlink()
    assert sweep(spark, definition, place, perform=noted).passes
    assert not performed.exists(), "a complete sweep is only reported"


def test_a_killed_worker_costs_nothing_although_the_master_never_retries(
    spark: SparkSession, definition: Definition, tmp_path: Path
) -> None:
    killed = tmp_path / "killed"

    def killed_once(scenario: Scenario, name: str, properties: Sequence[str]) -> Performed:
        if name == "seed=9" and not killed.exists():
            killed.touch()
            os._exit(1)
        return perform(scenario, name, properties)

    sweep(spark, definition, tmp_path / "out", perform=killed_once)
    assert killed.exists()
    assert contents(tmp_path / "out") == undisturbed(definition, tmp_path / "plain")


ELSEWHERE = """
import os, signal, sys
from pathlib import Path
from plainchant.lab.sweep import driver
from plainchant.lab.session import session
from plainchant.lab.sweep.task import perform

master, scenario, out, killed, victim = sys.argv[1:]

def killed_once(scenario, name, properties):
    if name == "seed=9" and not os.path.exists(killed):
        Path(killed).touch()
        daemon = os.getppid()
        executor = int(Path(f"/proc/{daemon}/stat").read_text().rpartition(")")[2].split()[1])
        os.kill(executor if victim == "executor" else os.getpid(), signal.SIGKILL)
    return perform(scenario, name, properties)

jobs = []
run = driver._run
driver._run = lambda *arguments: (jobs.append(1), run(*arguments))[1]
try:
    with session(master or None, memory="1g", quick=True) as spark:
        driver.sweep(spark, driver.define(scenario, "0:16", keep="all"), out, perform=killed_once)
finally:
    driver._run = run
print(len(jobs))
"""


@pytest.mark.parametrize(
    ("where", "victim", "jobs"),
    [
        ("local[2,4]", "worker", "1"),  # Spark itself gives the task to another worker
        ("standalone", "executor", "1"),  # or starts another executor
        ("connect", "worker", "2"),  # this server's master never retries: we begin another job
    ],
)
def test_whoever_is_killed_wherever_it_runs_nothing_is_missing_and_nothing_twice(
    definition: Definition, tmp_path: Path, request: pytest.FixtureRequest, where: str, victim: str, jobs: str
) -> None:
    out, killed = tmp_path / "out", tmp_path / "killed"
    given = (definition.scenario, str(out), str(killed), victim)
    if where in ("standalone", "connect"):
        driver: Driver = request.getfixturevalue(f"at_{where}")
        ended = driver.run(ELSEWHERE, "", *given)
    else:
        ended = run_python(ELSEWHERE, where, *given)
    assert ended.returncode == 0, ended.stderr
    assert killed.exists()
    assert int(ended.stdout) <= int(jobs)  # another task may have done what the killed one had begun
    assert contents(out) == undisturbed(definition, tmp_path / "plain")


def test_a_sweep_that_does_not_get_on_says_which_run_to_look_at(
    spark: SparkSession, definition: Definition, tmp_path: Path
) -> None:
    def killed_always(scenario: Scenario, name: str, properties: Sequence[str]) -> Performed:
        os._exit(1)

    alone = define(definition.scenario, "7:8")
    with pytest.raises(LabError, match=r"--seed 7 --out seed-7.*the same command continues"):
        sweep(spark, alone, tmp_path / "out", perform=killed_always)
    assert sweep(spark, alone, tmp_path / "out").passes


def test_a_watcher_sees_runs_come_in(spark: SparkSession, definition: Definition, tmp_path: Path) -> None:
    seen: list[Progress] = []
    sweep(spark, definition, tmp_path / "out", watch=seen.append)
    assert seen[-1] == Progress(16, 16, 0, 0)
    assert [progress.runs for progress in seen] == sorted(progress.runs for progress in seen)


# --- runs that do not hold --------------------------------------------------------------------------------------------


def test_a_run_that_raises_is_reported_and_the_others_go_on(spark: SparkSession, definition: Definition, tmp_path: Path) -> None:
    def raising(scenario: Scenario, name: str, properties: Sequence[str]) -> Performed:
        if scenario.seed == 11:
            raise ValueError("eleven is too many")
        return perform(scenario, name, properties)

    result = sweep(spark, definition, tmp_path / "out", perform=raising)
    assert not result.passes
    assert result.verdict == "failed"
    assert result.verdicts == {"failed": 1, "holds": 15}
    (failed,) = result.troubled
    assert (failed["run"], failed["problem"]) == ("seed=11", "ValueError: eleven is too many")
    assert failed["replay"].endswith("small.toml --seed 11 --out seed-11")
    assert result.verification.properties["integrity"].runs == 15


def test_a_run_that_cannot_be_verified_takes_no_other_with_it(definition: Definition, tmp_path: Path) -> None:
    """Its unit is verified at once; what is wrong with one run's trace is told of that run alone."""

    def spoiling(scenario: Scenario, name: str, properties: Sequence[str]) -> Performed:
        done = perform(scenario, name, properties)
        if scenario.seed == 3:  # a row is missing
            return dataclasses.replace(done, table=pa.concat_tables([done.table.slice(0, 5), done.table.slice(6)]))
        if scenario.seed == 4:  # a defective recorder, on which verification itself gives up
            return dataclasses.replace(done, table=done.table.drop_columns(["kind"]))
        return done

    whole = dataclasses.replace(definition, unit_runs=16)
    store = Store(tmp_path / "out")
    assert Task(Job(store.enter(whole), str(store.directory), (0,), 1, spoiling), 0).work() is None
    _, result = swept(whole, store.directory)
    assert result is not None
    assert result.verdicts == {"failed": 2, "holds": 14}
    malformed, unverified = result.troubled
    assert (malformed["run"], unverified["run"]) == ("seed=3", "seed=4")
    assert malformed["problem"].startswith("its trace is malformed: ")
    assert unverified["problem"].startswith("it cannot be verified: ")
    assert result.verification.properties["integrity"].runs == 14


def test_a_run_that_does_not_get_quiet_is_restless(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "restless.toml").write_text(SMALL.replace("loss = 0.05", "loss = 0.05\ndelay = '40ms'"))
    definition = define(str(tmp_path / "restless.toml"), "0:2", grid=["drain=30s,1ms"])
    result = sweep(spark, definition, tmp_path / "out")
    assert not result.passes
    assert result.verdict == "restless"
    assert [(row["run"], row["verdict"]) for row in result.troubled] == [
        ("drain=1ms,seed=0", "restless"),
        ("drain=1ms,seed=1", "restless"),
    ]
    assert "did not get quiet within 1ms" in result.troubled[0]["problem"]


def test_violations_come_smallest_first_with_the_command_that_replays_them(spark: SparkSession, tmp_path: Path) -> None:
    definition = violated(tmp_path, grid=["parameters.resilience=0,1"])
    result = sweep(spark, definition, tmp_path / "out")
    assert result.verdict == "violated"
    assert not result.passes
    found = result.verification.violations
    assert {violation.property for violation in found} == {"uniform"}
    assert [len(violation.events) for violation in found] == sorted(len(violation.events) for violation in found)
    assert all(violation.run.startswith("parameters.resilience=0,") for violation in found)
    stored = rows(tmp_path / "out", "violations")
    assert len(stored) >= len(found) == result.verdicts["violated"]
    assert all(row["seen_at"] > 0 for row in stored)
    assert "--set parameters.resilience=0 --seed" in result.replays[found[0].run]
    summary = json.loads((tmp_path / "out" / "summary.json").read_text())
    assert len(summary["violations"]) == len(found)


def test_traces_are_kept_as_asked(spark: SparkSession, tmp_path: Path) -> None:
    for keep, wanted in (("none", set()), ("violations", {"0"}), ("all", {"0", "1"})):
        place = tmp_path / keep
        sweep(spark, violated(tmp_path, grid=["parameters.resilience=0,1"], keep=keep), place)
        kept = {row["run"] for row in rows(place, "trace")}
        assert {run.split(",")[0].partition("=")[2] for run in kept} == wanted
        assert kept == {row["run"] for row in rows(place, "runs") if row["kept"]}


def test_a_violation_that_is_to_be_shown_must_be_in_every_run(spark: SparkSession, tmp_path: Path) -> None:
    text = 'expect = "violation"\n' + VIOLATED

    def swept_with(out: str, **options: Any) -> Swept:
        return sweep(spark, violated(tmp_path, text=text, **options), tmp_path / out)

    shown = swept_with("shown")
    assert shown.verdict == "violated"
    assert shown.passes
    half = swept_with("half", grid=["parameters.resilience=0,1"])
    assert not half.passes
    assert half.unexpected == half.verdicts["holds"] == 4


def test_properties_that_are_asked_for_replace_the_promised_ones(
    spark: SparkSession, definition: Definition, tmp_path: Path
) -> None:
    asked = define(definition.scenario, "0:2", properties=["total", "acyclic"])
    assert list(sweep(spark, asked, tmp_path / "out").verification.properties) == ["total", "acyclic"]
