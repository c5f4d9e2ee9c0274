"""The live verdict: properties of runs that are under way, with Spark Structured Streaming over their spools.

Each round's facts (``trace.following``) go to a :class:`Staging`, which writes them as one small Parquet file, whole by a rename.
A row is what one process appended in that round, its facts as MessagePack: nullable times of 64 bits would not survive pandas.
The stream groups by run and keeps a :class:`.properties.growing.Growing` as each run's state. In each micro-batch the task of a
run replaces the file with that run's verdict; the stream's own sink takes nothing. (The callback server of ``foreachBatch`` hangs
when a session is closed; a file sink keeps a list of all files for ever.)

Files may reach the stream in another order, or again after a failure: histories have indices, so a state takes what is next and
ignores what it has. The stream deletes files that it is done with, and old checkpoints; what is kept is bounded by ``growing``.
The directory of a :class:`State` has all of it: the files that wait, Spark's checkpoint, the verdicts. A later stream on the same
directory continues, even if spools have gone meanwhile. On a cluster all machines must share it. A violation shows after the
follower's pause, the trigger interval and one micro-batch; ``docs/watch.md`` has what was measured.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import pickle
import time
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from ...core.model import UsageError
from ...trace.fact import Fact
from ...trace.spool import file_name
from ..errors import LabError
from ..properties.growing import Growing
from ..session import code_digest, explain_failure, send_code

if TYPE_CHECKING:
    import pandas as pd
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.state import GroupState

INTERVAL: Final = 0.5
"""Seconds between two micro-batches."""
PARTITIONS: Final = 1
"""Tasks of a micro-batch: nearly always there is one run, and each further task costs time."""
NOBODY: Final = "\0"
"""The run of the first, empty micro-batch."""
_SETTINGS: Final = {
    "spark.sql.shuffle.partitions": str(PARTITIONS),
    "spark.sql.streaming.minBatchesToRetain": "2",
    "spark.sql.streaming.numRecentProgressUpdates": "2",
}
_ROUNDS_MAX: Final = 10**12
"""Rounds of one stream; a file's name is never used twice, as Spark takes a name that it knows for a file that it has."""
_STAGED: Final = pa.schema(
    [("run", pa.string()), ("round", pa.int64()), ("process", pa.string()), ("rows", pa.int64()), ("facts", pa.binary())]
)
_STAGED_SQL: Final = "run string, round bigint, process string, rows bigint, facts binary"
_JUDGED: Final = frozenset(
    {"start", "join", "send", "deliver", "view", "leave", "crash", "end", "fault", "token", "reject", "sent", "note"}
)
"""Kinds that checkers look at; of the others only that they were there."""
_encode: Final = msgspec.msgpack.Encoder().encode
_decode: Final = msgspec.msgpack.Decoder(list[Fact]).decode


class State:
    """The directory of a live verdict, for one stream at a time: ``facts``, ``checkpoint`` and ``verdicts``."""

    def __init__(self, directory: str | Path) -> None:
        """Takes the directory; LabError if another stream has it, or if its state is from other code."""
        self.directory = Path(os.path.abspath(directory))
        try:
            (self.directory / "verdicts").mkdir(parents=True, exist_ok=True)
            self._lock = (self.directory / "lock").open("a+")
        except OSError as error:
            raise LabError(f"cannot write to {directory}: {error.strerror}; name another directory with --state") from error
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self._lock.close()
            raise LabError(f"another watch keeps its state in {directory}: name another directory with --state") from None
        try:
            self.staging = Staging(self.directory / "facts", starts=self._begin())
        except BaseException:
            self.close()
            raise

    def _begin(self) -> int:
        """How often a stream has begun here, this one included."""
        file, starts, code = self.directory / "state.json", 0, code_digest()
        if file.is_file():
            told = json.loads(file.read_text(encoding="utf-8"))
            if told["code"] != code:
                raise LabError(f"the state in {self.directory} is of other code of plainchant's: name another with --state")
            starts = told["starts"]
        hidden = file.with_name("_state.json")
        hidden.write_text(json.dumps({"code": code, "starts": starts + 1}) + "\n", encoding="utf-8")
        hidden.replace(file)
        return starts + 1

    def close(self) -> None:
        """Leaves the directory to the next."""
        self._lock.close()


class Staging:
    """Facts as small files in a directory, one a round. Rounds of a later stream have larger numbers."""

    def __init__(self, directory: str | Path, *, starts: int = 0) -> None:
        self.directory = Path(directory)
        self.directory.mkdir(parents=True, exist_ok=True)
        self._first = self._round = starts * _ROUNDS_MAX
        self._runs: dict[str, int] = {}
        """Runs, and how many rounds without facts each is told of: what waits for an end of rounds gets it."""

    def warm_up(self) -> None:
        """A file about nobody: the first micro-batch starts Python's workers and compiles, which takes seconds."""
        self._put([{"run": NOBODY, "round": self._first, "rows": 0}])

    def write(self, facts: Iterable[Fact]) -> int:
        """One round: its facts become a file, if it has any or a run waits for ends of rounds; how many rows they stand for."""
        histories: dict[tuple[str, str], list[Fact]] = {}
        for fact in facts:
            histories.setdefault((fact.run, fact.process), []).append(fact)
            self._runs[fact.run] = 3
        told = [run for run, left in self._runs.items() if left]
        if not told:
            return 0
        self._round += 1
        rows: list[dict[str, Any]] = [{"run": run, "round": self._round, "rows": 0} for run in told]
        for (run, process), own in histories.items():
            row = {"run": run, "round": self._round, "process": process, "rows": sum(fact.count for fact in own)}
            rows.append({**row, "facts": _encode(list(_thinned(own)))})
        for run in told:
            self._runs[run] -= 1
        self._put(rows)
        return sum(row["rows"] for row in rows)

    def _put(self, rows: list[dict[str, Any]]) -> None:
        number = rows[0]["round"]
        hidden = self.directory / f"_{number:018d}"
        pq.write_table(pa.Table.from_pylist(rows, schema=_STAGED), hidden, compression="lz4")
        hidden.rename(self.directory / f"{number:018d}.parquet")


def _thinned(facts: list[Fact]) -> Iterator[Fact]:
    """The same history; neighbours that no checker looks at become one fact that only counts them."""
    others: Fact | None = None
    for fact in facts:
        if fact.kind not in _JUDGED:
            count = fact.count + (others.count if others is not None else 0)
            first = fact.index if others is None else others.index
            others = Fact(fact.run, fact.process, first, "others", fact.time, count=count, true_time=fact.true_time)
            continue
        if others is not None:
            yield others
            others = None
        yield fact
    if others is not None:
        yield others


def judge(verdicts: str, key: tuple[str], batches: Iterator[pd.DataFrame], state: GroupState) -> Iterator[pd.DataFrame]:
    """One run in one micro-batch: its state, what is new, and the verdict so far, which goes into a file."""
    import pandas as pd

    (run,) = key
    growing: Growing = pickle.loads(state.get[0]) if state.exists else Growing(run)
    rounds: dict[int, list[bytes]] = {}
    for batch in batches:
        for number, facts in zip(batch["round"], batch["facts"], strict=True):
            rounds.setdefault(int(number), []).extend([facts] if facts is not None else [])
    for number in sorted(rounds):
        for facts in rounds[number]:
            growing.feed(_decode(facts))
        growing.tick()
    state.update((pickle.dumps(growing, pickle.HIGHEST_PROTOCOL),))
    text = json.dumps({**growing.to_json(), "judged": time.time_ns()})
    file = Path(verdicts, f"{file_name(run)}.json")
    hidden = file.with_name(f"_{file.name}.{os.getpid()}")
    hidden.write_text(text, encoding="utf-8")
    hidden.replace(file)
    yield pd.DataFrame({"run": [run], "events": [growing.events]})


class LiveVerdict:
    """The stream over a state's facts, while the block lasts: ``with LiveVerdict(spark, state) as verdict``."""

    def __init__(self, spark: SparkSession, state: State, *, interval: float = INTERVAL) -> None:
        if "connect" in type(spark).__module__:
            raise UsageError("a live verdict needs Spark's driver here, where the spools are: use --master instead of --remote")
        self._spark = spark
        self._staging = state.staging
        self._verdicts = state.directory / "verdicts"
        self._checkpoint = state.directory / "checkpoint"
        self._interval = interval
        self._query: Any = None
        self._kept: dict[str, str | None] = {}
        self._read: dict[Path, tuple[int, dict[str, Any]]] = {}

    def __enter__(self) -> LiveVerdict:
        from pyspark.sql.streaming.state import GroupStateTimeout

        spark = self._spark
        send_code(spark)
        self._warm.unlink(missing_ok=True)
        self._kept = {name: spark.conf.get(name, None) for name in _SETTINGS}
        for name, value in _SETTINGS.items():
            spark.conf.set(name, value)
        self._staging.warm_up()
        staged = (
            spark.readStream.schema(_STAGED_SQL)
            .option("cleanSource", "delete")
            .option("maxFileAge", "1h")
            .parquet(str(self._staging.directory))
        )
        schemas = ("run string, events bigint", "growing binary", "update", GroupStateTimeout.NoTimeout)
        judged = staged.groupBy("run").applyInPandasWithState(partial(judge, str(self._verdicts)), *schemas)
        self._query = (
            judged.writeStream.outputMode("update")
            .format("noop")
            .trigger(processingTime=f"{round(self._interval * 1000)} milliseconds")
            .option("checkpointLocation", str(self._checkpoint))
            .start()
        )
        return self

    def __exit__(self, *error: object) -> None:
        with contextlib.suppress(Exception):  # a session that is gone has ended the query by itself
            self._query.stop()
            for name, value in self._kept.items():
                if value is None:
                    self._spark.conf.unset(name)
                else:
                    self._spark.conf.set(name, value)

    @property
    def runs(self) -> dict[str, dict[str, Any]]:
        """The verdict so far of each run: what :meth:`Growing.to_json` says, and when it was ``judged``, ns since 1970."""
        for file in self._verdicts.glob("[!_]*.json"):
            changed = file.stat().st_mtime_ns
            if self._read.get(file, (0, {}))[0] != changed:
                self._read[file] = (changed, json.loads(file.read_bytes()))
        return {told["run"]: told for _, told in self._read.values() if told["run"] != NOBODY}

    @property
    def is_warm(self) -> bool:
        """Whether the first micro-batch is done."""
        return self._warm.exists()

    @property
    def _warm(self) -> Path:
        return self._verdicts / f"{file_name(NOBODY)}.json"

    @property
    def problem(self) -> str | None:
        """Why the stream has stopped; None while it goes on."""
        error = self._query.exception() if self._query is not None and not self._query.isActive else None
        return None if error is None else str(explain_failure(error) or str(error).splitlines()[0])
