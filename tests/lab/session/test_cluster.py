"""Spark elsewhere than in this process: a standalone cluster and a Connect server, started for real."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow
import pyarrow.parquet as pq
import pytest

from plainchant.cli import main

from ..cluster import Cluster, Driver, eventually, run_python
from ..random_traces import random_run, table
from ..sweep.test_store import contents

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

JOB = """
import json
import pyarrow as pa
from plainchant.lab.session import session, slots

def look(batches):
    import plainchant.lab.properties
    import plainchant_papers.claims
    for batch in batches:
        modules = plainchant.lab.properties, plainchant_papers.claims
        where = [modules[index % 2].__file__ for index in range(len(batch))]
        yield pa.RecordBatch.from_pydict({"id": batch["id"], "where": where})

with session() as spark:
    rows = spark.range(0, 100, 1, 4).mapInArrow(look, "id long, where string").collect()
    ids, where = sorted(row.id for row in rows), sorted({row.where for row in rows})
    print(json.dumps({"ids": ids, "where": where, "slots": slots(spark)}))
"""


@pytest.mark.parametrize("kind", ["standalone", "connect"])
def test_the_packages_own_code_reaches_the_executors_as_a_zip(kind: str, request: pytest.FixtureRequest) -> None:
    driver: Driver = request.getfixturevalue(f"at_{kind}")
    done = driver.run(JOB)
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    assert answer["ids"] == list(range(100))
    assert answer["slots"] == 2
    assert sorted(where.partition(".zip/")[2] for where in answer["where"]) == [
        "plainchant/lab/properties/__init__.py",
        "plainchant_papers/claims.py",
    ]
    assert done.stderr == ""


OWN_SESSION = """
import json, sys
from pyspark.sql import SparkSession

master, trace = sys.argv[1:]
here = {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1", "spark.ui.enabled": "false"}
spark = SparkSession.builder.master(master).config(map=here).getOrCreate()

from plainchant.lab.metrics.frames import MetricsOfRuns
from plainchant.lab.verify import verify

def jobs():
    return len(spark.sparkContext.statusTracker().getJobIdsForGroup(None))

found = verify(spark, [trace])
before = jobs()
again = verify(spark, [trace])
needed = jobs() - before
results = {}
before = jobs()
beside = verify(spark, [trace], beside=MetricsOfRuns(), results=results)
needed = max(needed, jobs() - before)
print(json.dumps([found.verdict, again == found == beside, MetricsOfRuns().table(results).num_rows, needed]))
spark.stop()
"""


WITHOUT_PLAINCHANT = """\
#!/bin/sh
# Python with everything that is installed, except what editable installations and directories of plainchant's add.
kept={site}
IFS=:
for place in $PYTHONPATH; do
  [ -d "$place/plainchant" ] || [ -d "$place/plainchant_papers" ] || kept="$kept:$place"
done
unset IFS
PYTHONPATH="$kept" exec {python} -S "$@"
"""


def test_a_users_own_session_gets_the_code_and_few_jobs(standalone: Cluster, tmp_path: Path) -> None:
    python = tmp_path / "python"
    python.write_text(WITHOUT_PLAINCHANT.format(site=Path(pyarrow.__file__).parent.parent, python=sys.executable))
    python.chmod(0o755)
    lacking = subprocess.run([python, "-c", "import pyarrow, plainchant"], capture_output=True, text=True, check=False)
    assert "No module named 'plainchant'" in lacking.stderr
    pq.write_table(table([random_run(1, "r0"), random_run(2, "r1")]), tmp_path / "runs.parquet")
    environment = {"PYSPARK_PYTHON": str(python), "SPARK_LOCAL_IP": "127.0.0.1"}
    done = run_python(OWN_SESSION, standalone.master, str(tmp_path / "runs.parquet"), environment=environment)
    assert done.returncode == 0, done.stderr
    verdict, is_same, measured, jobs = json.loads(done.stdout)
    assert (verdict, is_same) == ("holds", True)
    assert measured >= 2
    assert jobs == 1, "the verification itself, with and without metrics: how many tasks run at once is known without a job"


DYNAMIC = """
import json, sys
from plainchant.lab.session import session, slots
dynamic = {"spark.dynamicAllocation.enabled": "true", "spark.executor.cores": "1"}
limited = {**dynamic, "spark.dynamicAllocation.maxExecutors": "6"}
told = []
for conf in (limited, dynamic):
    with session(sys.argv[1], memory="1g", quick=True, conf=conf) as spark:
        told.append(slots(spark))
print(json.dumps(told))
"""


def test_where_executors_come_as_tasks_wait_slots_are_what_there_may_be(standalone: Cluster) -> None:
    done = run_python(DYNAMIC, standalone.master)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == [6, 128]


WAITING_JOB = """
import sys
from pathlib import Path
from plainchant.lab.session import failures_as_sentences, session

def wait(directory):
    def task(batches):
        import threading
        from pathlib import Path
        for batch in batches:
            Path(directory, f"started-{batch['id'][0]}").touch()
            while not Path(directory, "go on").exists():
                threading.Event().wait(0.05)
            yield batch
    return task

with failures_as_sentences(), session() as spark:
    print(sorted(row.id for row in spark.range(0, 2, 1, 2).mapInArrow(wait(sys.argv[1]), "id long").collect()))
"""


def test_a_job_that_loses_an_executor_finishes_with_nothing_missing(
    standalone: Cluster, at_standalone: Driver, tmp_path: Path
) -> None:
    at_standalone.start(WAITING_JOB, str(tmp_path))
    try:
        eventually(lambda: len(list(tmp_path.glob("started-*"))) == 2 or None, "both tasks")
        standalone.kill_an_executor()
    finally:
        (tmp_path / "go on").touch()
        done = at_standalone.result()
    assert (done.returncode, done.stdout, done.stderr) == (0, "[0, 1]\n", "")


AS_A_COMMAND = """
import sys
from plainchant.cli import main
status = main(sys.argv[1:])
assert not status, status
"""


def written(place: Path, call: Callable[..., None]) -> dict[str, bytes]:
    """What metrics, a report and a reproduction leave in a directory that is given to ``call`` word by word."""
    trace, out = str(place / "runs.parquet"), place / "out"
    out.mkdir()
    call("metrics", trace, "--csv", str(out / "metrics.csv"), "--json", str(out / "metrics.json"))
    call("report", trace, "--out", str(out / "report.html"))
    call("reproduce", "sequencer", "--quick", "--claim", "4", "--out", str(out / "claims"))
    found = contents(out)
    out.rename(place / f"out-{len(list(place.iterdir()))}")
    return found


@pytest.fixture(scope="module")
def here(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, bytes]]:
    """A trace, and what is written of it on this machine."""
    place = tmp_path_factory.mktemp("written")
    pq.write_table(table([random_run(1, "r0"), random_run(2, "r1")]), place / "runs.parquet")

    def call(*words: str) -> None:
        assert not main(list(words))

    return place, written(place, call)


@pytest.mark.parametrize("kind", ["standalone", "connect"])
def test_metrics_reports_and_reproductions_write_there_what_they_write_here(
    kind: str, here: tuple[Path, dict[str, bytes]], request: pytest.FixtureRequest
) -> None:
    """The whole, with machines that are lost in the middle, is ``tests/lab/test_on_a_cluster.py``."""
    driver: Driver = request.getfixturevalue(f"at_{kind}")

    def call(*words: str) -> None:
        done = driver.run(AS_A_COMMAND, *words, "--master" if kind == "standalone" else "--remote", "the session that is there")
        assert (done.returncode, done.stderr) == (0, "")

    assert written(here[0], call) == here[1]
