"""Spark elsewhere than in this process: a standalone cluster and a Connect server, started for real."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from ..cluster import Cluster, eventually, run_python

JOB = """
import json, sys
import plainchant_papers
import pyarrow as pa
from plainchant.lab.session import session, slots

def look(batches):
    import plainchant.lab.properties
    import plainchant_papers.claims
    for batch in batches:
        modules = plainchant.lab.properties, plainchant_papers.claims
        where = [modules[index % 2].__file__ for index in range(len(batch))]
        yield pa.RecordBatch.from_pydict({"id": batch["id"], "where": where})

master, remote = (argument or None for argument in sys.argv[1:3])
with session(master, remote, memory="1g", quick=True) as spark:
    rows = spark.range(0, 100, 1, 4).mapInArrow(look, "id long, where string").collect()
    ids, where = sorted(row.id for row in rows), sorted({row.where for row in rows})
    print(json.dumps({"ids": ids, "where": where, "slots": slots(spark)}))
"""


@pytest.mark.parametrize("kind", ["standalone", "connect"])
def test_the_packages_own_code_reaches_the_executors_as_a_zip(kind: str, request: pytest.FixtureRequest) -> None:
    if kind == "standalone":
        started: Cluster = request.getfixturevalue("standalone")
        done = run_python(JOB, started.master, "")
    else:
        done = run_python(JOB, "", request.getfixturevalue("connect"))
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    assert answer["ids"] == list(range(100))
    assert answer["slots"] == 2
    assert sorted(where.partition(".zip/")[2] for where in answer["where"]) == [
        "plainchant/lab/properties/__init__.py",
        "plainchant_papers/claims.py",
    ]
    assert done.stderr == ""


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

with failures_as_sentences(), session(sys.argv[1], memory="1g", quick=True) as spark:
    print(sorted(row.id for row in spark.range(0, 2, 1, 2).mapInArrow(wait(sys.argv[2]), "id long").collect()))
"""


def test_a_job_that_loses_an_executor_finishes_with_nothing_missing(standalone: Cluster, tmp_path: Path) -> None:
    command = [sys.executable, "-c", WAITING_JOB, standalone.master, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as job:
        eventually(lambda: len(list(tmp_path.glob("started-*"))) == 2 or None, "both tasks")
        standalone.kill_an_executor()
        (tmp_path / "go on").touch()
        said, complained = job.communicate(timeout=300)
    assert (job.returncode, said, complained) == (0, "[0, 1]\n", "")
