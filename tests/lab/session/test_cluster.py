"""Spark elsewhere than in this process: a standalone cluster and a Connect server, started for real."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ..cluster import Cluster, Driver, eventually

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
