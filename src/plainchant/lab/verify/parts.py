"""What there is to read: from paths to chunks of row groups, a chunk for each task.

The driver reads footers only. A chunk is some row groups, of one file or of several small ones, that fill a task for about a
second. The statistics of the column ``run`` tell which runs a row group can hold, so a chunk knows which of its runs may go on
elsewhere: those are *split*, and their certificates have to meet; all others are *whole*, and the task that reads them settles
them. Without statistics every run may be split, which costs a shuffle. If there are several paths, a run is called by its path
and its name.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import groupby
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyarrow import fs

from ...core.model import TraceError
from ...trace.reader import Part, conform, filesystem_of, find_files, newer_file, unreadable
from ...trace.schema import SCHEMA, Malformed, MalformedTrace
from ..properties.certificates.columns import STRINGS
from ..properties.facts import COLUMNS

CHUNK_ROWS: Final = 1_000_000  # a chunk is closed when it has this many rows
LEAST_ROWS: Final = 200_000  # chunks are not smaller: starting a task costs more than such a piece

_FOOTERS_AT_ONCE: Final = 16


@dataclasses.dataclass(frozen=True, slots=True)
class Piece:
    """Some row groups of one file. ``path`` is the path that was asked for, which tells the file system."""

    path: str
    file: str
    groups: tuple[int, ...]
    rows: int
    label: str  # stands before the names of its runs; empty if there is only one path
    low: str | None
    high: str | None  # the first and the last run that it can hold, by name; None: unknown


@dataclasses.dataclass(frozen=True, slots=True)
class Chunk:
    """What one task reads, and between which names runs may also stand elsewhere (None: everywhere)."""

    pieces: tuple[Piece, ...]
    elsewhere: tuple[tuple[str, str], ...] | None

    @property
    def rows(self) -> int:
        return sum(piece.rows for piece in self.pieces)

    def is_split(self, run: str) -> bool:
        return self.elsewhere is None or any(low <= run <= high for low, high in self.elsewhere)


@dataclasses.dataclass(frozen=True, slots=True)
class Plan:
    """Everything there is to read."""

    chunks: tuple[Chunk, ...]
    foreign: tuple[str, ...]  # paths that Arrow cannot open; Spark may

    @property
    def rows(self) -> int:
        return sum(chunk.rows for chunk in self.chunks)

    def pieces_with(self, run: str) -> list[Piece]:
        """The pieces that can hold rows of a run."""
        every = (piece for chunk in self.chunks for piece in chunk.pieces)
        return [p for p in every if p.low is None or p.high is None or p.low <= run <= p.high]

    def pieces_with_any(self, runs: Iterable[str]) -> list[Piece]:
        """The pieces that can hold rows of some runs, each once."""
        pieces = {piece for run in runs for piece in self.pieces_with(run)}
        return sorted(pieces, key=lambda piece: (piece.path, piece.file, piece.groups))


def plan(paths: Sequence[str], slots: int, *, chunk_rows: int = CHUNK_ROWS, least_rows: int = LEAST_ROWS) -> Plan:
    """Looks at the footers of everything that the paths mean.

    Raises TraceError if there is nothing or no row in it, and MalformedTrace for files that are no Parquet, lack a column or are
    too new."""
    groups: list[Piece] = []
    malformed: list[Malformed] = []
    foreign: list[str] = []
    for path in dict.fromkeys(paths):
        label = f"{path}:" if len(set(paths)) > 1 else ""
        try:
            filesystem, files = find_files(path)
            if "://" not in path:  # a task may run in another directory
                files = [os.path.abspath(file) for file in files]
        except TraceError:
            if not only_spark_knows(path):
                raise
            foreign.append(path)
            continue
        before = len(groups), len(malformed)
        with ThreadPoolExecutor(_FOOTERS_AT_ONCE) as pool:
            for found, problems in pool.map(lambda file: _footer(filesystem, path, file, label), files):  # noqa: B023
                groups += found
                malformed += problems
        if len(malformed) == before[1] and not any(piece.rows for piece in groups[before[0] :]):
            raise TraceError(without_rows(path))
    if malformed:
        raise MalformedTrace(malformed)
    rows = sum(piece.rows for piece in groups)
    wanted = min(chunk_rows, max(least_rows, rows // (4 * slots)))
    return Plan(tuple(_chunks(groups, wanted)), tuple(foreign))


def without_rows(path: str) -> str:
    return f"the trace at {path} has no rows: nothing happened in it that could be right or wrong; check what wrote it"


def only_spark_knows(path: str) -> bool:
    """Whether an address is of a kind that Arrow has no file system for."""
    if "://" not in path:
        return False
    try:
        filesystem_of(path)
    except (OSError, pa.ArrowException):
        return True
    return False


def _footer(filesystem: fs.FileSystem, path: str, file: str, label: str) -> tuple[list[Piece], list[Malformed]]:
    """The row groups of a file, or what is wrong with it."""
    try:
        with filesystem.open_input_file(file) as source, pq.ParquetFile(source) as parquet:
            metadata = parquet.metadata
            newer = newer_file(metadata)
            problems = [newer] if newer else conform(parquet.schema_arrow.empty_table())[1]
            if not problems:
                return list(_row_groups(metadata, path, file, label)), []
    except (pa.ArrowException, OSError) as error:
        problems = [unreadable(file, error)]
    return [], [Malformed(file, None, None, None, problem) for problem in problems]


def _row_groups(metadata: pq.FileMetaData, path: str, file: str, label: str) -> Iterator[Piece]:
    names = [metadata.schema.column(place).path for place in range(metadata.num_columns)]
    run = names.index("run")
    for number in range(metadata.num_row_groups):
        group = metadata.row_group(number)
        statistics = group.column(run).statistics
        low = high = None
        with contextlib.suppress(UnicodeDecodeError):  # a name that is no UTF-8 is told when its row is read
            if statistics is not None and statistics.has_min_max and isinstance(statistics.min, str):
                low, high = label + statistics.min, label + statistics.max
        yield Piece(path, file, (number,), group.num_rows, label, low, high)


def _chunks(groups: Sequence[Piece], wanted: int) -> Iterator[Chunk]:
    bundles: list[list[Piece]] = [[]]
    size = 0
    for piece in groups:
        if bundles[-1] and size + piece.rows > wanted:
            bundles.append([])
            size = 0
        bundles[-1].append(piece)
        size += piece.rows
    spans = [None if any(p.low is None for p in bundle) else _union((p.low, p.high) for p in bundle) for bundle in bundles]
    for number, bundle in enumerate(bundles):
        if bundle:
            yield Chunk(tuple(_merged(bundle)), _elsewhere(spans, number))


def _elsewhere(spans: Sequence[list[tuple[str, str]] | None], number: int) -> tuple[tuple[str, str], ...] | None:
    """The names between which other chunks' runs lie, as far as they can be this one's."""
    mine = spans[number]
    others = [span for place, span in enumerate(spans) if place != number]
    if not others:
        return ()
    if mine is None or any(span is None for span in others):
        return None
    low, high = mine[0][0], mine[-1][1]
    near = [(a, b) for span in others if span is not None for a, b in span if a <= high and low <= b]
    return tuple(_union(near))


def _union(spans: Iterable[tuple[Any, Any]]) -> list[tuple[str, str]]:
    joined: list[tuple[str, str]] = []
    for low, high in sorted(spans):
        if joined and low <= joined[-1][1]:
            joined[-1] = joined[-1][0], max(high, joined[-1][1])
        else:
            joined.append((low, high))
    return joined


def _merged(pieces: Sequence[Piece]) -> Iterator[Piece]:
    """Neighbouring row groups of a file as one piece."""
    for _, near in groupby(pieces, key=lambda piece: (piece.path, piece.file)):
        these = list(near)
        known = all(piece.low is not None and piece.high is not None for piece in these)
        low, high = min(piece.low or "" for piece in these), max(piece.high or "" for piece in these)
        groups = tuple(group for piece in these for group in piece.groups)
        rows = sum(piece.rows for piece in these)
        yield dataclasses.replace(these[0], groups=groups, rows=rows, low=low if known else None, high=high if known else None)


def addresses(path: str, files: Sequence[str]) -> list[str]:
    """The files as Spark names them, which on a cluster may have another default file system than this machine."""
    if "://" not in path:
        return [f"file://{_GLOB.sub(_ESCAPED, os.path.abspath(file))}" for file in files]
    filesystem, inside = filesystem_of(path)
    if isinstance(filesystem, fs.LocalFileSystem):
        return [f"file://{_GLOB.sub(_ESCAPED, file)}" for file in files]
    place = path.removesuffix(inside) if path.endswith(inside) else f"{filesystem.type_name}://"
    return [place + _GLOB.sub(_ESCAPED, file) for file in files]


_GLOB: Final = re.compile(r"[][{}*?\\]")
_ESCAPED: Final = r"\\\g<0>"  # in a file's name these characters are themselves


def read(piece: Piece, run: str | None = None, columns: Sequence[str] = COLUMNS) -> Iterator[pa.Table]:
    """The row groups of a piece, one by one, in the columns and types that stage 1 works with; of one run, if named.

    Raises MalformedTrace if the file is damaged inside."""
    filesystem, _ = filesystem_of(piece.path)
    try:
        with filesystem.open_input_file(piece.file) as source:
            parquet = pq.ParquetFile(source, read_dictionary=list(STRINGS))
            wanted = [name for name in columns if name in parquet.schema_arrow.names]
            for group in piece.groups:
                table = parquet.read_row_group(group, columns=wanted, use_threads=False)
                table = renamed(typed(table.replace_schema_metadata(None), piece.file), piece.label)
                yield table if run is None else table.filter(pc.equal(table.column("run"), run))
    except (pa.ArrowException, OSError) as error:
        raise MalformedTrace([Malformed(piece.file, None, None, None, unreadable(piece.file, error))]) from error


def rows_about(piece: Piece, span: tuple[int, int], chosen: Callable[[pa.Table], pa.ChunkedArray | None]) -> Iterator[pa.Table]:
    """Some rows of a piece, chosen by their run, sender and number; row groups whose numbers all lie outside a span are not
    read, and of the others only these three columns, unless there is a row to read."""
    filesystem, _ = filesystem_of(piece.path)
    with filesystem.open_input_file(piece.file) as source:
        metadata = pq.ParquetFile(source).metadata
        seq = next(at for at in range(metadata.num_columns) if metadata.schema.column(at).path == "seq")
        ranges = {group: metadata.row_group(group).column(seq).statistics for group in piece.groups}
    for group, numbers in ranges.items():
        if numbers is not None and numbers.has_min_max and (numbers.max < span[0] or span[1] < numbers.min):
            continue
        only = dataclasses.replace(piece, groups=(group,))
        (keys,) = read(only, columns=("run", "sender", "seq"))
        kept = chosen(keys)
        if kept is not None:
            (table,) = read(only)
            yield table.filter(kept)


def typed(table: pa.Table, file: str | None) -> pa.Table:
    """The columns in the types of the schema, strings as dictionaries; MalformedTrace for values that do not fit."""
    columns: dict[str, Any] = {}
    for name in table.column_names:
        column = table.column(name)
        wanted = _TYPES[name]
        if column.type != wanted:
            try:
                is_coded = pa.types.is_dictionary(column.type)
                column = column.cast(wanted if is_coded else _PLAIN[name])
                column = column.dictionary_encode() if name in STRINGS and not is_coded else column
            except pa.ArrowException as error:
                problem = f"column {name!r} has values that are no {_PLAIN[name]}: {error}"
                raise MalformedTrace([Malformed(file, None, None, None, problem)]) from error
        columns[name] = column
        _check_text(name, column, file)
    return pa.table(columns)


def _check_text(name: str, column: pa.ChunkedArray, file: str | None) -> None:
    """Refuses strings that are no UTF-8, which Arrow reads as they are. Of coded ones only the codes' values are looked at."""
    if name not in STRINGS and name != "members":
        return
    try:
        for chunk in column.chunks:
            (chunk.dictionary if name in STRINGS else chunk).validate(full=True)
    except pa.ArrowException as error:
        problem = f"column {name!r} has values that are no {_PLAIN[name]}: {error}"
        raise MalformedTrace([Malformed(file, None, None, None, problem)]) from error


def renamed(table: pa.Table, label: str) -> pa.Table:
    """The rows with a label before the names of their runs."""
    if not label:
        return table
    place = table.column_names.index("run")
    chunks = []
    for chunk in table.column("run").chunks:
        names = [None if name is None else label + name for name in chunk.dictionary.to_pylist()]
        chunks.append(pa.DictionaryArray.from_arrays(chunk.indices, pa.array(names, pa.string())))
    return table.set_column(place, "run", pa.chunked_array(chunks, pa.dictionary(pa.int32(), pa.string())))


_PLAIN: Final = {field.name: field.type for field in SCHEMA}
_TYPES: Final = {**_PLAIN, **dict.fromkeys(STRINGS, pa.dictionary(pa.int32(), pa.string()))}


def gathered(pieces: Iterable[Piece], run: str | None = None, columns: Sequence[str] = COLUMNS) -> tuple[pa.Table, list[Part]]:
    """All rows of some pieces (of one run, if named), and where they came from."""
    tables: list[pa.Table] = []
    parts: list[Part] = []
    first = 0
    for piece in pieces:
        for table in read(piece, run, columns):
            tables.append(table)
            parts.append(Part(piece.file, first, table.num_rows))
            first += table.num_rows
    return pa.concat_tables(tables).unify_dictionaries(), parts
