"""Spark's failures as commands end with them: a sentence and the status 2, told before the JVM that knows the reason is gone.

Sessions end here, so that everything runs in processes of its own.
"""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from plainchant.cli.spark import settings_of
from plainchant.core.model import UsageError
from tests.lab.cluster import run_python
from tests.lab.random_traces import random_run, table

FAILING = r"""
import contextlib, io, json, os, signal, sys
from pathlib import Path
from plainchant.cli import main
from plainchant.cli.console import guarded
from plainchant.cli.spark import spark_for

def dying(marker):
    def task(batches):
        first = not Path(marker).exists()
        Path(marker).touch()
        if first or marker.endswith("always"):
            os.kill(os.getpid(), signal.SIGKILL)  # as the kernel does where memory is short
        yield from batches
    return task

def broken(batches):
    raise KeyError("a defect of ours")
    yield

def killed(marker):
    with spark_for("local[1]", None, "1g", quick=True) as spark:
        print(spark.range(0, 3, 1, 1).mapInArrow(dying(marker), "id long").count())

def defect():
    with spark_for("local[1]", None, "1g", quick=True) as spark:
        spark.range(0, 3, 1, 1).mapInArrow(broken, "id long").count()

told = {}
def status(name, call):
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            end = call()
        except Exception as error:
            end = type(error).__name__ + ": " + str(error)
    told[name] = [getattr(end, "exit_code", end), out.getvalue(), err.getvalue()]

def ended(call, *arguments):
    from typer import Exit
    try:
        return guarded(call)(*arguments)
    except Exit as end:
        return end.exit_code

place = Path(sys.argv[1])
status("once", lambda: ended(killed, str(place / "once")))
status("always", lambda: ended(killed, str(place / "always")))
status("defect", lambda: ended(defect))
spark = ["--master", "local[2]", "--memory", "1g"]
status("names", lambda: main(["verify", str(place / "names"), *spark]))
status("corrupt", lambda: main(["metrics", str(place / "corrupt"), *spark]))
print(json.dumps(told))
"""


@pytest.fixture(scope="module")
def ends(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[int | str | None, str, str]]:
    """How commands end: status, standard output and standard error."""
    place = tmp_path_factory.mktemp("failing")
    run = table([random_run(1, "r0")])
    (place / "names").mkdir()
    (place / "corrupt").mkdir()
    names = pa.array([b"p\xff" if name == "p2" else name.encode() for name in run.column("process").to_pylist()], pa.binary())
    unreadable = pa.Array.from_buffers(pa.string(), len(names), names.buffers())
    position = run.column_names.index("process")
    pq.write_table(run.set_column(position, "process", unreadable), place / "names" / "a.parquet")
    pq.write_table(run, place / "corrupt" / "a.parquet", compression="zstd")
    content = bytearray((place / "corrupt" / "a.parquet").read_bytes())
    for index in range(60, 600):
        content[index] ^= 0x5A
    (place / "corrupt" / "a.parquet").write_bytes(content)
    done = run_python(FAILING, str(place))
    assert done.returncode == 0, done.stderr
    return {name: tuple(end) for name, end in json.loads(done.stdout).items()}


def test_a_task_whose_worker_is_killed_is_run_again(ends: dict[str, tuple[int | str | None, str, str]]) -> None:
    assert ends["once"] == (None, "3\n", "")


def test_workers_that_are_killed_again_and_again_are_a_sentence(ends: dict[str, tuple[int | str | None, str, str]]) -> None:
    status, _, complaint = ends["always"]
    assert status == 2
    assert "lost its workers again and again" in complaint


def test_a_defect_in_a_task_keeps_its_traceback(ends: dict[str, tuple[int | str | None, str, str]]) -> None:
    status, _, complaint = ends["defect"]
    assert str(status).startswith("RuntimeError")
    assert "KeyError: 'a defect of ours'" in str(status)
    assert complaint == ""


def test_names_that_are_no_utf8_are_malformed(ends: dict[str, tuple[int | str | None, str, str]]) -> None:
    status, _, complaint = ends["names"]
    assert status == 2
    assert "a.parquet: column 'process' has values that are no string" in complaint


def test_metrics_of_a_corrupt_file_name_it(ends: dict[str, tuple[int | str | None, str, str]]) -> None:
    status, _, complaint = ends["corrupt"]
    assert status == 2
    assert "corrupt/a.parquet" in complaint
    assert "Traceback" not in complaint


WITHOUT_ROOM = r"""
import resource, sys
from plainchant.cli import main
resource.setrlimit(resource.RLIMIT_FSIZE, (8192, 8192))
sys.exit(main(["verify", sys.argv[1], "--engine", "spark"]))
"""


def test_a_disk_without_room_is_a_sentence(tmp_path: Path) -> None:
    pq.write_table(table([random_run(1, "r0")]), tmp_path / "run.parquet")
    done = run_python(WITHOUT_ROOM, str(tmp_path / "run.parquet"))
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("plainchant: Spark cannot write its files (File too large): make room")


def test_settings_are_written_as_name_and_value() -> None:
    assert settings_of(["spark.executor.memory=8g", "spark.a=b=c"], ui=True) == {
        "spark.ui.enabled": "true",
        "spark.executor.memory": "8g",
        "spark.a": "b=c",
    }
    with pytest.raises(UsageError, match=r"write a setting of Spark's as spark\.executor\.memory=8g"):
        settings_of(["spark.executor.memory"], ui=False)


GIVEN = r"""
import json, sys, urllib.request
from plainchant.cli.spark import spark_for
given = ["spark.sql.shuffle.partitions=3", "spark.plainchant.mine=yes"]
with spark_for("local[1]", None, "1g", given, ui=True, quick=True) as spark:
    page = urllib.request.urlopen(spark.sparkContext.uiWebUrl).read().decode()
    print(json.dumps([spark.conf.get("spark.sql.shuffle.partitions"), spark.conf.get("spark.plainchant.mine"), "Spark" in page]))
"""


def test_settings_and_sparks_own_page_are_options() -> None:
    done = run_python(GIVEN)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == ["3", "yes", True]
    assert done.stderr.startswith("plainchant: Spark's page is at http://")
