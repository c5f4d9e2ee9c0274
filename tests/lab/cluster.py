"""Real Spark services for tests, as processes of this machine: a standalone cluster and a Connect server.

Each listens on 127.0.0.1 at a port that it chose itself and that is read from its log, so that several test processes
can have theirs at the same time. Each is the leader of a process group of its own; ending that group ends its executors too.
Workers can run another Python than ours, can be lost as a machine is, and replaced.

A process has a classic session or one of Connect, not both, and tests share a classic one: what runs against these
services runs in another process. :class:`Driver` is one that has a session at a service and runs what several tests send it;
:func:`run_python` starts one for a single test.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Final, NamedTuple, TypeVar

import pyspark

from plainchant.lab.session.java import find_java

T = TypeVar("T")

READY_WITHIN: Final = 300
"""Seconds for a service to come up on a busy machine."""

ONE_CORE_A_WORKER: Final = {"spark.cores.max": "2", "spark.executor.cores": "1", "spark.executor.memory": "512m"}
"""A session on a cluster takes all cores that it may: others want some too."""
SPARK_HOME: Final = Path(pyspark.__file__).parent
_EXECUTOR: Final = "CoarseGrainedExecutorBackend"
_SMALL: Final = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"
_LOG4J: Final = """\
status = off
rootLogger.level = info
rootLogger.appenderRef.stderr.ref = stderr
appender.stderr.type = Console
appender.stderr.name = stderr
appender.stderr.target = SYSTEM_ERR
appender.stderr.layout.type = PatternLayout
appender.stderr.layout.pattern = %p %c{1}: %m%n%ex
"""


def run_python(source: str, *arguments: str, environment: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    """Runs ``source`` in a Python process of its own."""
    return subprocess.run(
        [sys.executable, "-c", source, *arguments],
        env={**os.environ, **(environment or {})},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


_DRIVER: Final = """
import contextlib, io, json, sys, traceback
import plainchant_papers  # executors get the packages that are there when the session begins
from plainchant.lab.session import session

master, remote = (argument or None for argument in sys.argv[1:3])
conf = json.loads(sys.argv[3]) if master else None
with session(master, remote, memory="1g", quick=True, conf=conf):
    for line in sys.stdin:
        source, sys.argv[1:] = json.loads(line)
        status, said = 0, io.StringIO()
        with contextlib.redirect_stdout(said):
            try:
                exec(compile(source, "<test>", "exec"), {"__name__": "__main__"})
            except BaseException:
                traceback.print_exc()
                status = 1
        print(json.dumps([status, said.getvalue()]), flush=True)
"""


class Driver:
    """A Python process with one session at a service. Programs that are sent to it run one after another, and a session that
    they ask for is that one; each has ``sys.argv`` and what it prints to itself."""

    def __init__(self, directory: Path, master: str, remote: str) -> None:
        self._complaints = directory / "stderr"
        self._heard = 0
        with self._complaints.open("wb") as file:
            command = [sys.executable, "-c", _DRIVER, master, remote, json.dumps(ONE_CORE_A_WORKER)]
            pipe = subprocess.PIPE
            self._process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=file, text=True)

    def __enter__(self) -> Driver:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        with self._process:  # it ends when its input does
            assert self._process.stdin is not None
            self._process.stdin.close()
            self._process.wait(READY_WITHIN)

    def run(self, source: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Runs ``source``, as :func:`run_python` does."""
        self.start(source, *arguments)
        return self.result()

    def start(self, source: str, *arguments: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps([source, arguments]) + "\n")
        self._process.stdin.flush()

    def result(self) -> subprocess.CompletedProcess[str]:
        """What came of the program that was started; the complaints are all since the one before."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        complaints = self._complaints.read_text(errors="replace")
        new, self._heard = complaints[self._heard :], len(complaints)
        status, said = json.loads(line) if line else (self._process.wait(), "")
        return subprocess.CompletedProcess([], status, said, new)


@dataclass
class Service:
    """A running JVM of Spark's and its log."""

    process: subprocess.Popen[bytes]
    log: Path

    def said(self, pattern: str) -> str:
        """Waits until the log has a line with ``pattern`` and returns the first group of it."""

        def look() -> str | None:
            assert self.process.poll() is None, f"it ended: {self.log.read_text(errors='replace')[-2000:]}"
            found = re.search(pattern, self.log.read_text(errors="replace"))
            return found[1] if found else None

        return eventually(look, f"{pattern!r} in {self.log}")

    def end(self) -> None:
        """Ends the process and whatever it started."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGTERM)
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            pass  # the group is killed either way
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()


class Attempt(NamedTuple):
    """An attempt at a task: the log of its executor, and its number in the application."""

    log: Path
    number: int


@dataclass
class Cluster:
    """A standalone master and its workers."""

    master: str
    directory: Path
    python: Path
    cores: int
    workers: list[Service]

    def add_worker(self) -> None:
        """Another worker, which the master knows when this returns."""
        place = self.directory / f"worker-{len(list(self.directory.glob('worker-*')))}"
        options = ["--host", "127.0.0.1", "--webui-port", "0", "--cores", str(self.cores), "--memory", f"{self.cores}g"]
        main = "org.apache.spark.deploy.worker.Worker"
        worker = _spark_class(place, [main, *options, "--work-dir", str(place), self.master], python=self.python)
        self.workers.append(worker)
        worker.said(r"(Successfully registered) with master")

    def end(self) -> None:
        """Ends the workers."""
        for worker in self.workers:
            worker.end()

    def begun(self) -> set[Attempt]:
        """The attempts at tasks that executors have begun so far, also those of workers that are gone."""
        return self._attempts("Running task")

    def failed(self) -> set[Attempt]:
        """The attempts that failed so far."""
        return self._attempts("Exception in task")

    @contextlib.contextmanager
    def caught_at_work(self, known: set[Attempt], spared: int, is_over: Callable[[], bool]) -> Iterator[Service | None]:
        """A worker on which a task runs, for the duration of the block; None if all is over before. Tasks in ``known`` do not
        count, nor do the first ``spared`` others. The worker's executors are stopped before their logs are read for the last
        time: a task that has not ended then reports no end within the block."""
        stopped: list[int] = []

        def go_on() -> None:
            while stopped:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(stopped.pop(), signal.SIGCONT)

        def look() -> list[Service] | None:
            new = self.begun() - known
            for worker in self.workers if len(new) > spared else ():
                at_work = {attempt for attempt in new if attempt.log.is_relative_to(worker.log.parent)}
                if not at_work - self.ended():
                    continue
                for executor in children(worker.process.pid, _EXECUTOR):
                    os.kill(executor, signal.SIGSTOP)
                    stopped.append(executor)
                if at_work - self.ended():
                    return [worker]
                go_on()
            return [] if is_over() else None

        try:
            yield next(iter(eventually(look, "a task at work")), None)
        finally:
            go_on()

    def lose_a_worker(self, known: set[Attempt], spared: int, is_over: Callable[[], bool]) -> Service | None:
        """Kills a worker with its executors, as if the machine failed, while it is :meth:`caught_at_work`."""
        with self.caught_at_work(known, spared, is_over) as worker:
            if worker is not None:
                os.killpg(worker.process.pid, signal.SIGKILL)
                worker.process.wait()
                self.workers.remove(worker)
        return worker

    def ended(self) -> set[Attempt]:
        """The attempts that ended so far, well or not."""
        return self._attempts("Finished task") | self.failed()

    def _attempts(self, what: str) -> set[Attempt]:
        logs = self.directory.glob("worker-*/app-*/*/stderr")
        found = ((log, re.findall(rf"{what} \S+ in stage \S+ \(TID (\d+)\)", log.read_text(errors="replace"))) for log in logs)
        return {Attempt(log, int(number)) for log, numbers in found for number in numbers}

    def executors(self) -> list[int]:
        """The process ids of the executors that run now, in order of the workers."""
        return [pid for worker in self.workers for pid in children(worker.process.pid, _EXECUTOR)]

    def kill_an_executor(self) -> int:
        """Kills an executor as soon as there is one, and returns its process id."""
        pid = eventually(lambda: next(iter(self.executors()), None), "an executor")
        os.kill(pid, signal.SIGKILL)
        return pid


@contextlib.contextmanager
def standalone_cluster(directory: Path, workers: int = 2, python: Path | None = None, cores: int = 2) -> Iterator[Cluster]:
    """A master and ``workers`` workers with two cores each: one for the session of tests that share one, one for others.
    Where workers are lost, the others need twice as many."""
    with contextlib.ExitStack() as stack:
        main = "org.apache.spark.deploy.master.Master"
        master = _spark_class(directory / "master", [main, "--host", "127.0.0.1", "--port", "0", "--webui-port", "0"])
        stack.callback(master.end)
        url = master.said(r"Starting Spark master at (spark://\S+)")
        cluster = Cluster(url, directory, python or Path(sys.executable), cores, [])
        stack.callback(cluster.end)
        for _ in range(workers):
            cluster.add_worker()
        yield cluster


@contextlib.contextmanager
def connect_server(directory: Path, master: str = "local[2]", python: Path | None = None) -> Iterator[str]:
    """The address of a Connect server, whose workers run ``python``."""
    settings = {
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": "0",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.driver.extraJavaOptions": f"{_SMALL} {_logging(directory)}",
        **ONE_CORE_A_WORKER,
    }
    options = [word for key, value in settings.items() for word in ("--conf", f"{key}={value}")]
    main = ["--class", "org.apache.spark.sql.connect.service.SparkConnectServer", "--master", master]
    # To Spark this server is a daemon: its memory is that of daemons, whatever it was told about the driver's.
    server = _spark_class(directory, ["org.apache.spark.deploy.SparkSubmit", *main, *options, "spark-internal"], "1g", python)
    try:
        yield "sc://127.0.0.1:" + server.said(r"Spark Connect server started at:? \S*?:(\d+)")
    finally:
        server.end()


def eventually(look: Callable[[], T | None], what: str) -> T:
    """The first answer of ``look``, asked again and again for a bounded time."""
    pause, deadline = threading.Event(), time.monotonic() + READY_WITHIN
    while time.monotonic() < deadline:
        answer = look()
        if answer is not None:
            return answer
        pause.wait(0.05)
    raise AssertionError(f"not within {READY_WITHIN} s: {what}")


def _spark_class(directory: Path, arguments: list[str], memory: str = "256m", python: Path | None = None) -> Service:
    directory.mkdir(parents=True, exist_ok=True)
    log = directory / "spark.log"
    environment = {
        **os.environ,
        "JAVA_HOME": str(find_java(directory).home),
        "SPARK_HOME": str(SPARK_HOME),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_LOCAL_DIRS": str(directory / "local"),
        "SPARK_DAEMON_MEMORY": memory,
        "SPARK_DAEMON_JAVA_OPTS": f"{_SMALL} {_logging(directory)}",
        "SPARK_LAUNCHER_OPTS": _SMALL,
        "PYSPARK_PYTHON": str(python or sys.executable),
    }
    with log.open("wb") as file:
        process = subprocess.Popen(
            [SPARK_HOME / "bin" / "spark-class", *arguments],
            env=environment,
            cwd=directory,
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    return Service(process, log)


def _logging(directory: Path) -> str:
    directory.mkdir(parents=True, exist_ok=True)
    file = directory / "log4j2.properties"
    file.write_text(_LOG4J)
    return f"-Dlog4j2.configurationFile=file:{file}"


def children(parent: int, kind: str) -> list[int]:
    """Process ids of the children of ``parent`` whose command line has ``kind`` in it."""
    found = []
    for process in sorted(int(path.name) for path in Path("/proc").iterdir() if path.name.isdecimal()):
        with contextlib.suppress(OSError):  # it may end while we look
            above = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[1]
            if int(above) == parent and kind in Path(f"/proc/{process}/cmdline").read_text():
                found.append(process)
    return found
