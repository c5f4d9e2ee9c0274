"""Every command of the laboratory on a real cluster, and what fails there: the long form, ``make cluster-test``.

A standalone master with two workers, and a Connect server whose application runs on the same workers. Their Python has NumPy,
PyArrow and msgspec, and no plainchant. What commands say and write there is what they say and write on this machine, byte for
byte, also if a worker is lost while a task runs on it. Whatever is killed is killed at a condition that its log shows.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Final, Literal

import pyarrow.parquet as pq
import pytest

from plainchant_workbench.lab.traces import Shape, make
from tests.environments import new_environment

from .cluster import ONE_CORE_A_WORKER, Cluster, children, connect_server, eventually, run_python, standalone_cluster
from .mutations import duplicate_delivery, mutated
from .random_traces import random_run, table
from .sweep.test_store import contents

pytestmark = pytest.mark.cluster

Where = Literal["--master", "--remote"]
WHERE: Final[tuple[Where, ...]] = ("--master", "--remote")
ENDS_WITHIN: Final = 400
"""Seconds for a command that loses a worker on a busy machine."""
COMMANDS: Final = {
    "sweep": ("sweep", "sweep-faults", "--seeds", "0:48", "--keep", "all", "--out", "swept"),
    "verify": ("verify", "../../traces", "--json", "verdict.json", "--violations", "violations.jsonl"),
    "metrics": ("metrics", "../../traces", "--json", "metrics.json", "--csv", "metrics.csv"),
    "reproduce": ("reproduce", "sequencer", "--quick", "--claim", "5", "--claim", "7", "--out", "claims"),
    "report": ("report", "../../traces", "--out", "report.html"),
}
STATUS: Final = {"sweep": 0, "verify": 1, "metrics": 0, "reproduce": 0, "report": 0}
"""One of the traces is spoilt."""


@dataclass(frozen=True)
class Ended:
    """What came of a command: its status, what it said, and the files that it wrote."""

    status: int
    said: str
    complaints: str
    files: dict[str, bytes]


class Command:
    """A command at work in a directory of its own."""

    def __init__(self, directory: Path, arguments: Sequence[str], python: Path) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self.directory = directory
        self._process = subprocess.Popen(
            [sys.executable, "-m", "plainchant", *arguments],
            cwd=directory,
            env={**os.environ, "PYSPARK_PYTHON": str(python), "SPARK_LOCAL_IP": "127.0.0.1"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    @property
    def is_over(self) -> bool:
        return self._process.poll() is not None

    def kill(self) -> None:
        """Kills the driver, its JVM too."""
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.communicate()

    def ended(self) -> Ended:
        """Waits for its end."""
        try:
            said, complaints = self._process.communicate(timeout=ENDS_WITHIN)
        except BaseException:
            self.kill()
            raise
        return Ended(self._process.returncode, said, complaints, contents(self.directory))


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory that all machines share: ``traces``, and what commands write."""
    directory = tmp_path_factory.mktemp("shared")
    (directory / "traces").mkdir()
    (made,) = make(directory, Shape(800_000, members=5, runs=8)).iterdir()
    # Row groups end in the middle of runs, so that their certificates and rows have to travel between machines.
    pq.write_table(pq.read_table(made), directory / "traces" / "runs.parquet", row_group_size=60_000)
    spoilt = mutated(Random(3), random_run(3), "spoilt", duplicate_delivery)
    assert spoilt is not None
    pq.write_table(table([spoilt]), directory / "traces" / "spoilt.parquet")
    return directory


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Python of the workers: what plainchant requires there, and no plainchant."""
    environment = new_environment(tmp_path_factory.mktemp("bare"))
    environment.copy(["numpy", "pyarrow", "msgspec"])
    lacking = environment.run("-c", "import numpy, pyarrow, msgspec; import plainchant", directory=environment.directory)
    assert lacking.stderr.endswith("No module named 'plainchant'\n")
    return environment.python


@pytest.fixture(scope="module")
def started(bare: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with standalone_cluster(tmp_path_factory.mktemp("cluster"), workers=0, python=bare, cores=4) as cluster:
        yield cluster


@pytest.fixture
def cluster(started: Cluster) -> Cluster:
    """The cluster with two workers, however many a test has lost."""
    while len(started.workers) < 2:
        started.add_worker()
    return started


@pytest.fixture(scope="module")
def server(started: Cluster, bare: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A Connect server whose application runs on the cluster."""
    with connect_server(tmp_path_factory.mktemp("server"), started.master, bare) as address:
        yield address


@pytest.fixture
def run(
    cluster: Cluster, bare: Path, place: Path, tmp_path: Path, request: pytest.FixtureRequest
) -> Iterator[Callable[..., Command]]:
    """Starts a command on the cluster: ``run("--master", "verify", ...)``."""
    commands: list[Command] = []

    def start(where: Where, *arguments: str, **conf: str) -> Command:
        if where == "--remote":
            options = [where, request.getfixturevalue("server")]
            eventually(lambda: len(cluster.executors()) == 2 or None, "the executors of the Connect server")
        else:
            given = {**ONE_CORE_A_WORKER, **conf}
            options = [where, cluster.master, *(word for key, value in given.items() for word in ("--conf", f"{key}={value}"))]
        commands.append(Command(place / "out" / tmp_path.name, [*arguments, *options], bare))
        return commands[-1]

    yield start
    for command in commands:
        if not command.is_over:
            command.kill()


@pytest.fixture(scope="module")
def here(place: Path) -> Callable[[str], Ended]:
    """What a command comes to on this machine."""

    @functools.cache
    def ended(name: str) -> Ended:
        return Command(place / "out" / f"here-{name}", [*COMMANDS[name], "--master", "local[2]"], Path(sys.executable)).ended()

    return ended


def same(there: Ended, here: Ended) -> None:
    assert (there.status, there.said, there.complaints) == (here.status, here.said, here.complaints)
    assert sorted(there.files) == sorted(here.files)
    assert [name for name, content in there.files.items() if content != here.files[name]] == []


@pytest.mark.parametrize("where", WHERE)
@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_says_and_writes_what_it_does_on_this_machine(
    name: str, where: Where, run: Callable[..., Command], here: Callable[[str], Ended]
) -> None:
    there = run(where, *COMMANDS[name]).ended()
    assert (there.status, there.complaints) == (STATUS[name], "")
    same(there, here(name))


@pytest.mark.parametrize("name", ["verify", "metrics"])
def test_hadoops_own_file_systems_are_read_with_the_settings_given(
    name: str, run: Callable[..., Command], here: Callable[[str], Ended], place: Path
) -> None:
    """A mount table over the directory: Arrow cannot open its address."""
    command, _, *others = COMMANDS[name]
    mounted = {"spark.hadoop.fs.viewfs.mounttable.here.link./traces": f"file://{place}/traces"}
    same(run("--master", command, "viewfs://here/traces", *others, **mounted).ended(), here(name))


# --- machines and processes that are lost -----------------------------------------------------------------------------

NO_WORK = """
import json, sys
from plainchant.lab.session import session
where, url = sys.argv[1:]
conf = json.loads(CONF) if where == "--master" else None
with session(**{where.strip("-"): url}, conf=conf):
    pass
"""


@pytest.fixture(scope="module")
def idle_tasks(started: Cluster, bare: Path) -> Callable[[Where, str], int]:
    """How many tasks a session begins that does no work."""

    @functools.cache
    def count(where: Where, url: str) -> int:
        before = started.begun()
        source = f"CONF = {json.dumps(json.dumps(ONE_CORE_A_WORKER))}\n{NO_WORK}"
        done = run_python(source, where, url, environment={"PYSPARK_PYTHON": str(bare), "SPARK_LOCAL_IP": "127.0.0.1"})
        assert (done.returncode, done.stderr) == (0, "")
        return len(started.begun() - before)

    return count


@pytest.fixture
def spared(cluster: Cluster, idle_tasks: Callable[[Where, str], int], request: pytest.FixtureRequest) -> Callable[[Where], int]:
    """The first tasks of a command, which only prove that the cluster can work."""

    def count(where: Where) -> int:
        return idle_tasks(where, cluster.master if where == "--master" else request.getfixturevalue("server"))

    return count


@pytest.mark.parametrize("where", WHERE)
@pytest.mark.parametrize("name", COMMANDS)
def test_a_worker_that_is_lost_in_the_middle_changes_nothing(
    name: str,
    where: Where,
    cluster: Cluster,
    run: Callable[..., Command],
    spared: Callable[[Where], int],
    here: Callable[[str], Ended],
) -> None:
    first, known = spared(where), cluster.begun()
    command = run(where, *COMMANDS[name])
    lost = cluster.lose_a_worker(known, first, lambda: command.is_over)
    there = command.ended()
    assert lost is not None, "the command ended before a task was caught at work"
    same(there, here(name))


@pytest.mark.parametrize("where", WHERE)
def test_a_sweep_goes_on_where_a_killed_driver_left_it(
    where: Where, run: Callable[..., Command], here: Callable[[str], Ended]
) -> None:
    command = run(where, *COMMANDS["sweep"])
    markers = command.directory / "swept" / "units"
    eventually(lambda: command.is_over or len(list(markers.glob("unit-*.json"))) > 1 or None, "some units")
    command.kill()
    assert not (command.directory / "swept" / "summary.json").exists(), "the sweep was complete before the driver was killed"
    done = {file: file.stat().st_mtime_ns for file in markers.glob("unit-*.json")}
    there = run(where, *COMMANDS["sweep"]).ended()
    assert (there.status, there.complaints) == (0, "")
    assert there.files == here("sweep").files
    assert {file: file.stat().st_mtime_ns for file in done} == done, "what was done is not done again"


def kill_python(cluster: Cluster) -> bool:
    """Kills the Python workers of executors, as the kernel does where memory is short; whether there were any."""
    found = False
    for executor in cluster.executors():
        for daemon in children(executor, "pyspark.daemon"):
            for worker in children(daemon, "pyspark.daemon"):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(worker, signal.SIGKILL)
                    found = True
    return found


@pytest.mark.parametrize("where", WHERE)
@pytest.mark.parametrize("name", ["verify", "metrics"])
def test_pythons_that_are_killed_once_change_nothing(
    name: str,
    where: Where,
    cluster: Cluster,
    run: Callable[..., Command],
    spared: Callable[[Where], int],
    here: Callable[[str], Ended],
) -> None:
    first, known = spared(where), cluster.begun()
    failed = cluster.failed()
    command = run(where, *COMMANDS[name])
    while not command.is_over and not cluster.failed() - failed:  # a Python may have said all before it was killed
        with cluster.caught_at_work(known, first, lambda: command.is_over):
            at_work = cluster.begun() - known - cluster.ended() if kill_python(cluster) else set()
        known_end = functools.partial(lambda tasks: command.is_over or not tasks or tasks & cluster.ended() or None, at_work)
        eventually(known_end, "the end of a task whose Python was killed")
    there = command.ended()
    assert cluster.failed() - failed, "a task failed"
    same(there, here(name))


@pytest.mark.parametrize("where", WHERE)
def test_pythons_that_are_killed_again_and_again_are_a_sentence(
    where: Where, cluster: Cluster, run: Callable[..., Command], spared: Callable[[Where], int]
) -> None:
    first, known = spared(where), cluster.begun()
    command = run(where, *COMMANDS["verify"])
    while not command.is_over:
        with cluster.caught_at_work(known, first, lambda: command.is_over):
            kill_python(cluster)
    there = command.ended()
    assert (there.status, there.said) == (2, "")
    assert "Spark lost its workers again and again" in there.complaints
    assert "spark.executor.memory" in there.complaints
    assert "Traceback" not in there.complaints


FILLED = """
import json, sys
from typer import Exit
from plainchant.cli.console import guarded
from plainchant.cli.spark import spark_for

where, url, conf = sys.argv[1:]

@guarded
def fill():
    master, remote = (url, None) if where == "--master" else (None, url)
    given = [f"{key}={value}" for key, value in json.loads(conf).items()] if master else []
    with spark_for(master, remote, conf=given) as spark:
        row = spark.range(0, 1, 1, 1).selectExpr("repeat(cast(id as string), 1000000000) as text")
        print(row.selectExpr("length(concat(text, text))").collect())

try:
    fill()
except Exit as end:
    sys.exit(end.exit_code)
"""


@pytest.mark.parametrize("where", WHERE)
def test_an_executor_that_runs_out_of_memory_is_a_sentence(
    where: Where, cluster: Cluster, bare: Path, request: pytest.FixtureRequest
) -> None:
    """It has 512 MB, for a text of a GB; Spark starts executors anew until the task has failed four times."""
    url = cluster.master if where == "--master" else request.getfixturevalue("server")
    environment = {"PYSPARK_PYTHON": str(bare), "SPARK_LOCAL_IP": "127.0.0.1"}
    done = run_python(FILLED, where, url, json.dumps(ONE_CORE_A_WORKER), environment=environment)
    assert (done.returncode, done.stdout) == (2, "")
    assert "memory" in done.stderr
    assert "spark.executor.memory" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_python_with_too_little_memory_is_a_sentence(run: Callable[..., Command]) -> None:
    there = run("--master", *COMMANDS["verify"], **{"spark.executor.pyspark.memory": "300m"}).ended()
    assert (there.status, there.said) == (2, "")
    assert "memory" in there.complaints
    assert "Traceback" not in there.complaints
