"""Every command of the laboratory on a real cluster, and what fails there: the long form, ``make cluster-test``.

A standalone master with two workers, and a Connect server whose application runs on the same workers. Their Python has NumPy,
PyArrow and msgspec, and no plainchant. What commands say and write there is what they say and write on this machine, byte for
byte, also if a worker is lost while a task runs on it. Whatever is killed is killed at a condition that its log shows.
"""

from __future__ import annotations

import functools
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Final, Literal

import pyarrow.parquet as pq
import pytest
from plainchant_workbench.lab.traces import Shape, make

from tests.environments import new_environment

from .cluster import ONE_CORE_A_WORKER, Cluster, connect_server, eventually, standalone_cluster
from .mutations import duplicate_delivery, mutated
from .random_traces import random_run, table

pytestmark = pytest.mark.cluster

Where = Literal["--master", "--remote"]
WHERE: Final[tuple[Where, ...]] = ("--master", "--remote")
ENDS_WITHIN: Final = 400
"""Seconds for a command that loses a worker on a busy machine."""
COMMANDS: Final = {
    "sweep": ("sweep", "sweep-faults", "--seeds", "0:64", "--keep", "all", "--out", "swept"),
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


def contents(directory: Path) -> dict[str, bytes]:
    return {str(path.relative_to(directory)): path.read_bytes() for path in sorted(directory.rglob("*")) if path.is_file()}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory that all machines share: ``traces``, and what commands write."""
    directory = tmp_path_factory.mktemp("shared")
    made = make(directory, Shape(600_000, members=5, runs=6))
    made.rename(directory / "traces")
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
    with standalone_cluster(tmp_path_factory.mktemp("cluster"), workers=0, python=bare) as cluster:
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
def run(cluster: Cluster, bare: Path, place: Path, tmp_path: Path, request: pytest.FixtureRequest) -> Callable[..., Command]:
    """Starts a command on the cluster: ``run("--master", "verify", ...)``."""

    def start(where: Where, *arguments: str, directory: Path | None = None, **conf: str) -> Command:
        if where == "--remote":
            options = [where, request.getfixturevalue("server")]
            eventually(lambda: len(cluster.executors()) == 2 or None, "the executors of the Connect server")
        else:
            given = {**ONE_CORE_A_WORKER, **conf}
            options = [where, cluster.master, *(word for key, value in given.items() for word in ("--conf", f"{key}={value}"))]
        return Command(directory or place / "out" / tmp_path.name, [*arguments, *options], bare)

    return start


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
