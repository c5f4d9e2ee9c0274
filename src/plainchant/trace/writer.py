"""From a host's raw rows to Parquet files.

Theory of operation
-------------------
Hosts append rows to histories (:mod:`.history`). :class:`TraceWriter` converts a few thousand rows at a time (:mod:`.columns`)
and empties the histories *in place*, because hosts hold references to the lists. The batches are small because tuples that are
still in the processor's cache convert almost twice as fast. When enough is converted it is put in order and becomes a row group.
Until ``close`` has succeeded, the files are in a hidden directory, which becomes ``trace`` by one rename: a trace that is there
is whole.

The same rows give the same bytes: nothing in a file depends on the time, the machine or the order of a set.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import IO, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from ..core.model import TRACE_VERSION, TraceError, UsageError
from .buffer import TraceBuffer
from .columns import FILE_SCHEMA, STRINGS, convert
from .schema import VERSION_KEY

_DELTAS: Final = ("index", "time", "true_time", "view", "seq", "deadline", "sent", "rank", "size", "packets")
"""Integers that are close to the row before. A digest is not: it is written plain."""

_BATCH_ROWS: Final = 16_384
_FILE_BYTES: Final = 128 * 1024 * 1024
_GROUP_ROWS_MAX: Final = 1_000_000


class TraceWriter(TraceBuffer):
    """A trace that goes to ``directory/trace/part-*.parquet``, a row group at a time.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as directory:
    ...     with TraceWriter(directory) as trace:
    ...         trace.history("r0", "p1").rows.append(("end", 7) + (None,) * 10)
    ...     [str(path.relative_to(directory)) for path in Path(directory).rglob("*.parquet")]
    ['trace/part-00000.parquet']

    As a context manager it closes at the end and aborts on any exception, Ctrl-C included. ``row_group`` is how many
    rows make ``flush_if_full`` write; ``file_bytes`` how large a file gets before the next one is begun.
    """

    def __init__(self, directory: str | Path, *, row_group: int = 131_072, file_bytes: int = _FILE_BYTES) -> None:
        super().__init__()
        self._row_group = row_group
        self._file_bytes = file_bytes
        self._directory = Path(directory)
        self._final = self._directory / "trace"
        self._hidden = self._directory / ".trace.partial"
        self._made: list[Path] = []
        self._began = False
        self._converted: list[pa.Table] = []
        self._converted_rows = 0
        self._parts = 0
        self._sink: IO[bytes] | None = None
        self._parquet: pq.ParquetWriter | None = None
        self._attempt(self._prepare)

    def __enter__(self) -> TraceWriter:
        return self

    def __exit__(self, kind: type[BaseException] | None, *error: object) -> None:
        if kind is None:
            self.close()
        else:
            self.abort()

    def table(self) -> pa.Table:
        """Refused: most of it is in files. Read those when they are whole."""
        raise UsageError(f"this trace is written to {self._final}; close it, then read it from there")

    def flush_if_full(self) -> None:
        """Takes the rows out of the histories if there are enough, and writes a row group if there are enough of those. It looks
        at each history: call it every few thousand events."""
        waiting = sum([len(history.rows) for history in self._histories.values()])
        if waiting >= min(_BATCH_ROWS, self._row_group):
            self._attempt(self._take)
        if self._converted_rows >= self._row_group:
            self._attempt(self._flush)

    def append(self, table: pa.Table) -> None:
        """Takes rows that are converted already (FILE_SCHEMA): the next ones of each history that has any in them. So that files
        are in order, whole histories come in the order (run, process)."""
        self._add(table)
        if self._converted_rows >= self._row_group:
            self._attempt(self._flush)

    def _add(self, table: pa.Table) -> None:
        assert self._parquet is not None, "a trace takes no rows after it was closed"
        self._converted.append(table)
        self._converted_rows += table.num_rows

    def close(self) -> None:
        """Writes the rest and gives the trace its name. Once that is done, or aborted, there is nothing left to do."""
        if self._parquet is not None:
            self._attempt(self._finish)

    def abort(self) -> None:
        """Removes everything that was written, also directories that were made for it."""
        super().abort()
        self._converted, self._converted_rows = [], 0
        parquet, sink, self._parquet, self._sink = self._parquet, self._sink, None, None
        # A disk that is full refuses the footer as well; that error says nothing new, and the file goes anyway.
        for closeable in (parquet, sink):
            with suppress(OSError, pa.ArrowException):
                if closeable is not None:
                    closeable.close()
        if self._began:
            shutil.rmtree(self._hidden, ignore_errors=True)
        for path in self._made:
            if path.is_dir() and not any(path.iterdir()):
                path.rmdir()

    def _attempt(self, step: Callable[[], None]) -> None:
        """Runs a step that writes; if it fails, nothing stays behind."""
        try:
            step()
        except (OSError, pa.ArrowException) as error:
            self.abort()
            reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
            remedy = "nothing was left there; make room or choose another directory"
            raise TraceError(f"cannot write the trace to {self._final}: {reason}; {remedy}") from error
        except BaseException:
            self.abort()
            raise

    def _prepare(self) -> None:
        # Opened before the run begins: a directory that cannot be written to should be known before hours of work.
        if self._final.exists() and any(self._final.iterdir()):
            raise TraceError(f"{self._final} already holds a trace; choose another directory or remove it first")
        self._made = [path for path in (self._directory, *self._directory.parents) if not path.exists()]
        self._directory.mkdir(parents=True, exist_ok=True)
        # What a killed run left here is of no use to anybody.
        shutil.rmtree(self._hidden, ignore_errors=True)
        self._hidden.mkdir()
        self._began = True
        self._open()

    def _open(self) -> None:
        self._sink = open(self._hidden / f"part-{self._parts:05d}.parquet", "wb")  # noqa: SIM115 - open across calls
        self._parts += 1
        self._parquet = _parquet_writer(self._sink)

    def _take(self) -> None:
        histories = self._ordered()
        self._add(convert(histories))
        for history in histories:
            history.first += len(history.rows)
            history.clear()

    def _flush(self) -> None:
        assert self._sink is not None
        if self._sink.tell() >= self._file_bytes:
            self._close_part()
            self._open()
        assert self._parquet is not None
        self._parquet.write_table(_merge(self._converted), row_group_size=_GROUP_ROWS_MAX)
        self._converted, self._converted_rows = [], 0

    def _close_part(self) -> None:
        assert self._sink is not None
        assert self._parquet is not None
        self._parquet.add_key_value_metadata(_FILE_METADATA)
        self._parquet.close()
        self._sink.close()
        self._parquet = self._sink = None

    def _finish(self) -> None:
        if self._ordered():
            self._take()
        if self._converted:
            self._flush()
        self._close_part()
        # On POSIX a rename replaces an empty directory, and nothing else.
        self._hidden.rename(self._final)


def write_table(table: pa.Table, path: str | Path) -> None:
    """Writes a table of the trace's schema, whole runs in the order (run, process, index), as one file like any other of ours.

    >>> import tempfile
    >>> from plainchant.trace.schema import SCHEMA
    >>> with tempfile.TemporaryDirectory() as directory:
    ...     write_table(SCHEMA.empty_table(), Path(directory) / "some-runs.parquet")
    ...     pq.read_schema(Path(directory) / "some-runs.parquet").names == SCHEMA.names
    True
    """
    with _parquet_writer(path) as parquet:
        if table.num_rows:
            parquet.write_table(table.combine_chunks().cast(FILE_SCHEMA), row_group_size=_GROUP_ROWS_MAX)
        parquet.add_key_value_metadata(_FILE_METADATA)


def _merge(tables: list[pa.Table]) -> pa.Table:
    """Tables of ``convert``, in the order in which they were made, as one in the order (run, process, index)."""
    table = pa.concat_tables(tables).unify_dictionaries().combine_chunks()
    key = np.zeros(table.num_rows, dtype=np.int64)
    for name in ("run", "process"):
        column = table.column(name).chunk(0)
        values = column.dictionary.to_pylist()
        ranks = {value: rank for rank, value in enumerate(sorted(values))}
        key *= len(values)
        key += np.array([ranks[value] for value in values])[column.indices.to_numpy()]
    # Each table has the rows of a history in order, and the next table has later ones: a stable sort keeps that.
    return table.take(pa.array(np.argsort(key, kind="stable")))


_FILE_METADATA: Final = {VERSION_KEY.decode(): str(TRACE_VERSION)}


def _parquet_writer(where: IO[bytes] | str | Path) -> pq.ParquetWriter:
    """A writer of files in our encoding."""
    return pq.ParquetWriter(
        where,
        FILE_SCHEMA,
        compression="zstd",
        use_dictionary=[*STRINGS, "members.list.element"],
        column_encoding=dict.fromkeys(_DELTAS, "DELTA_BINARY_PACKED"),
        # Readers are to see strings, not the dictionaries that we happen to build them with. (This also drops the
        # schema's metadata, so the version is added before the file is closed.)
        store_schema=False,
    )
