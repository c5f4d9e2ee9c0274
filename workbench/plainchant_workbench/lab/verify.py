"""How fast traces are verified, beside a database that everybody knows, on the same files in the same run.

The peer is DuckDB with two threads on the one question that verification of an order cannot do without: at which
position does each process deliver each message, and is it the same at all of them. (It is a part of what is verified
here, and says nothing about holes, views, causes or digests.) Machines are noisy, so the two take turns and the best of
the rounds counts on both sides.

Traces are made by a process of its own, and the peer works in another one, so that the memory that is measured, the
proportional set size of our whole process tree, is Spark's and ours alone.
"""

from __future__ import annotations

import importlib
import multiprocessing
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from plainchant.core.model import UsageError
from plainchant.lab.errors import LabError

from . import planted
from .memory import Peak
from .planted import Violated
from .traces import Shape, make

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PEER_THREADS: Final = 2
SHELL_EVENTS: Final = 1_000
SMALL_RUN: Final = 1_000
"""Events of a run where many small ones are held against a long one."""
FEW: Final = 5
MANY: Final = 50
"""Members of a group: of the usual one, and of the one that is held against it."""

PLAIN: Final = "one run"
MANY_MEMBERS: Final = "many members"
MANY_RUNS: Final = "many runs"
"""What a trace is there for: its size, or to be held against the plain one of that size."""

_QUERY: Final = """
    SELECT count(*), max(positions) FROM (
        SELECT run, "group", sender, seq, count(DISTINCT position) AS positions FROM (
            SELECT run, "group", sender, seq,
                   row_number() OVER (PARTITION BY run, "group", process ORDER BY "index") AS position
            FROM read_parquet(?) WHERE kind = 'deliver'
        ) GROUP BY run, "group", sender, seq
    )
"""


@dataclass(frozen=True)
class Row:
    """One measurement: a full verification, warm, best of the rounds, start-up apart."""

    shape: str
    events: int
    members: int
    runs: int
    seconds: float
    events_per_s: int
    ratio_to_duckdb: float
    duckdb_seconds: float
    peak_mb: int | None


@dataclass(frozen=True)
class Target:
    """Something wanted of the figures, and whether it was reached; None where it was not measured."""

    wanted: str
    limit: float
    measured: float | None

    @property
    def met(self) -> bool | None:
        return None if self.measured is None else self.measured <= self.limit


@dataclass(frozen=True)
class Figures:
    """All that a benchmark of verification measured."""

    rows: tuple[Row, ...]
    shell_seconds: float
    session_seconds: float
    targets: tuple[Target, ...]
    violated: tuple[Violated, ...] = ()

    def to_json(self) -> dict[str, Any]:
        return {
            "rows": [asdict(row) for row in self.rows],
            "shell": {"events": SHELL_EVENTS, "seconds": self.shell_seconds},
            "session_seconds": self.session_seconds,
            "targets": [{**asdict(target), "met": target.met} for target in self.targets],
            "violated": [asdict(row) for row in self.violated],
        }


def measure(
    sizes: Sequence[int],
    directory: Path,
    *,
    rounds: int = 3,
    master: str | None = None,
    remote: str | None = None,
    violations: bool = False,
    progress: Callable[[str], None] = lambda what: None,
) -> Figures:
    """Measures verification of traces of these sizes, and of other shapes of one of them; with ``violations``, also of that one
    with violations in it.

    The traces are made below ``directory``, where later measurements find them again.
    """
    shapes = _shapes(sizes)
    paths = {}
    for shape in [*(shape for _, shape in shapes), Shape(SHELL_EVENTS)]:
        progress(f"making a trace of {said(shape)}")
        paths[shape] = apart(make, directory, shape)
    progress(f"a trace of {SHELL_EVENTS:,} events from the shell")
    shell = min(from_shell(paths[Shape(SHELL_EVENTS)], master=master, remote=remote) for _ in range(rounds))
    with peer_process() as peer, timed_session(master, remote) as (spark, session_seconds):
        progress("warming up")
        verify_once(spark, paths[Shape(SHELL_EVENTS)])
        rows = []
        for name, shape in shapes:
            progress(f"verifying {said(shape)}")
            path = paths[shape]
            turns = partial(peer.seconds, path), partial(verify_once, spark, path)
            rows.append(best_of(peer, name, shape, rounds, *turns))
        violated: tuple[Violated, ...] = ()
        if violations:
            shape = Shape(_compared(sizes), FEW)
            violated = tuple(
                planted.measure(spark, directory, shape, apart, rounds=rounds, without=[peer.pid], progress=progress)
            )
    wanted = (*targets(rows, shell), *_found_soon(violated))
    return Figures(tuple(rows), round(shell, 3), round(session_seconds, 3), wanted, violated)


def targets(rows: Sequence[Row], shell_seconds: float) -> Iterator[Target]:
    """What is wanted of the figures, said with the sizes that were measured (10 and 50 million unless others were)."""
    plain = {row.events: row for row in rows if row.shape == PLAIN}
    base, largest = plain[_compared(list(plain))], plain[max(plain)]
    size = f"{base.events:,} events"
    yield Target(f"{size} in at most 3 times DuckDB's time", 3, base.ratio_to_duckdb)
    if largest is not base:
        # A fifth more than in proportion: 50 million in 6 times the time of 10 million.
        limit = round(1.2 * largest.events / base.events, 2)
        wanted = f"{largest.events:,} events in at most {limit:g} times the time of {base.events:,}"
        yield Target(wanted, limit, round(largest.seconds / base.seconds, 3))
    yield Target(f"{size} within 4,000 MB", 4_000, base.peak_mb)
    for row in rows:
        if row.shape == MANY_MEMBERS:
            wanted = f"{size} of {row.members} members in at most 1.5 times the time of {base.members}"
            yield Target(wanted, 1.5, round(row.seconds / base.seconds, 3))
        elif row.shape == MANY_RUNS:
            wanted = f"one run of {size} in at most 1.5 times the time of {row.runs:,} runs of {SMALL_RUN:,}"
            yield Target(wanted, 1.5, round(base.seconds / row.seconds, 3))
    yield Target(f"{SHELL_EVENTS:,} events from the shell within 10 s, start-up included", 10, round(shell_seconds, 3))


def _found_soon(violated: Sequence[Violated]) -> Iterator[Target]:
    """What is wanted of the time in which violations are found: of one, and of many."""
    for count, limit in ((1, 3), (planted.SEVERAL, 5)):
        ratios = [row.ratio_to_clean for row in violated if row.planted == count]
        if ratios:
            yield Target(f"{count:,} violations of any kind in at most {limit} times the clean trace's time", limit, max(ratios))
    peaks = [row.peak_mb for row in violated if row.peak_mb is not None]
    if peaks:
        yield Target("violations found within 4,000 MB", 4_000, max(peaks))


def verify_once(spark: SparkSession, path: Path) -> float:
    """Seconds for a verification of all that the trace promises; an error if it does not find the trace correct."""
    from plainchant.lab.verify import verify

    began = time.perf_counter()
    result = verify(spark, [str(path)])
    seconds = time.perf_counter() - began
    if result.verdict != "holds":
        raise LabError(f"the trace at {path} does not verify ({result.verdict}); remove that directory and measure again")
    return seconds


def from_shell(path: Path, *, master: str | None = None, remote: str | None = None) -> float:
    """Seconds for ``plainchant verify`` as a command, from its start to its end."""
    command = [sys.executable, "-m", "plainchant", "verify", str(path)]
    command += ["--master", master] if master else []
    command += ["--remote", remote] if remote else []
    began = time.perf_counter()
    done = subprocess.run(command, capture_output=True, text=True)
    seconds = time.perf_counter() - began
    if done.returncode != 0:
        said = (done.stderr or done.stdout).strip().splitlines()
        why = said[-1] if said else "in silence"
        raise LabError(f"`plainchant verify {path}` ended with {done.returncode} ({why}); run it by hand to see more")
    return seconds


def _shapes(sizes: Sequence[int]) -> list[tuple[str, Shape]]:
    """The traces of a measurement, with what each is there for."""
    if not sizes:
        raise UsageError("there is nothing to measure; give at least one size with --events")
    shapes = [(PLAIN, Shape(size, FEW)) for size in dict.fromkeys(sizes)]
    compared = _compared(sizes)
    shapes.append((MANY_MEMBERS, Shape(compared, MANY)))
    if compared > SMALL_RUN and compared % SMALL_RUN == 0:
        shapes.append((MANY_RUNS, Shape(compared, FEW, compared // SMALL_RUN)))
    return shapes


def _compared(sizes: Sequence[int]) -> int:
    """The size at which shapes are held against each other: the middle one, as 10 million is."""
    ordered = sorted(set(sizes))
    return ordered[len(ordered) // 2]


def best_of(peer: Peer, name: str, shape: Shape, rounds: int, ask: Callable[[], float], do: Callable[[], float]) -> Row:
    """The best of some rounds, in which the peer is asked and we do the same, in turns; both tell their seconds."""
    ours, theirs, peaks = [], [], []
    for _ in range(rounds):
        theirs.append(ask())
        with Peak(without=[peer.pid]) as peak:
            ours.append(do())
        peaks.append(peak.bytes)
    best, best_peer = min(ours), min(theirs)
    taken = [peak for peak in peaks if peak is not None]
    return Row(
        name,
        shape.events,
        shape.members,
        shape.runs,
        round(best, 3),
        round(shape.events / best),
        round(best / best_peer, 3),
        round(best_peer, 3),
        round(max(taken) / 1_000_000) if taken else None,
    )


@contextmanager
def timed_session(master: str | None, remote: str | None) -> Iterator[tuple[SparkSession, float]]:
    from plainchant.lab.session import session

    began = time.perf_counter()
    with session(master, remote) as spark:
        yield spark, time.perf_counter() - began


def apart(work: Callable[..., Path], *args: Any) -> Path:
    """The result of a function that runs in a process of its own, whose memory is gone afterwards."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(work, args)


class Peer:
    """DuckDB in a process of its own."""

    def __init__(self, connection: Connection, pid: int) -> None:
        self._connection = connection
        self.pid = pid

    def seconds(self, path: Path) -> float:
        """How long the peer takes for the question that verification cannot do without."""
        return self.answer(path, _QUERY)[0]

    def answer(self, path: Path, query: str) -> tuple[float, list[dict[str, Any]]]:
        """How long a query takes on the files of a trace, and what it gives."""
        self._connection.send((query, str(path)))
        try:
            answer = self._connection.recv()
        except EOFError:
            raise LabError("DuckDB's process died, probably for want of memory; measure fewer events with --events") from None
        if isinstance(answer, str):
            raise LabError(f"DuckDB cannot answer: {answer}; measure fewer events with --events, or make room")
        return float(answer[0]), list(answer[1])


@contextmanager
def peer_process() -> Iterator[Peer]:
    require_peer()
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe()
    process = context.Process(target=_serve, args=(there,), daemon=True)
    process.start()
    there.close()
    try:
        assert process.pid is not None
        yield Peer(here, process.pid)
    finally:
        here.close()
        process.join(timeout=10)
        process.kill()


def require_peer() -> None:
    """Says what to install where there is nothing to measure against."""
    try:
        importlib.import_module("duckdb")
    except ImportError:
        raise UsageError("DuckDB is not installed; `pip install plainchant[bench]` brings it, and so does `make setup`") from None


def _serve(connection: Connection) -> None:
    """Answers each query of a path with its seconds and its rows, or a sentence, until no more comes."""
    import duckdb

    database = duckdb.connect(config={"threads": PEER_THREADS})
    while True:
        try:
            query, path = connection.recv()
        except EOFError:
            return
        try:
            connection.send(_ask(database, query, path))
        except duckdb.Error as error:
            connection.send(str(error).splitlines()[0])


def _ask(database: Any, query: str, path: str) -> tuple[float, list[dict[str, Any]]]:
    began = time.perf_counter()
    answer = database.execute(query, [f"{path}/*.parquet"])
    names = [column[0] for column in answer.description]
    rows = [dict(zip(names, row, strict=True)) for row in answer.fetchall()]
    return time.perf_counter() - began, rows


def said(shape: Shape) -> str:
    runs = "one run" if shape.runs == 1 else f"{shape.runs:,} runs"
    return f"{shape.events:,} events, {shape.members} members, {runs}"
