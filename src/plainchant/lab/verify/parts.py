"""What there is to read: from paths to chunks of row groups, a chunk for each task.

Planning reads footers only, those of many files in Spark's tasks, and takes time in proportion to the row groups. A chunk is some
row groups, of one file or of several small ones, that fill a task for about a second. The statistics of the column ``run`` tell
which runs a row group can hold, so a chunk knows which of its runs may go on elsewhere: those are *split*, and their certificates
have to meet; all others are *whole*, and the task that reads them settles them. Without statistics every run may be split, which
costs a shuffle. If there are several paths, a run is called by its path and its name.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from itertools import accumulate, groupby
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyarrow import fs

from ...core.model import TraceError
from ...trace.reader import Part, conform, filesystem_of, find_files, newer_file, unreadable
from ...trace.schema import SCHEMA, Malformed, MalformedTrace
from ..properties.certificates.columns import STRINGS
from ..properties.facts import COLUMNS
from .tasks import tasks

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Span: TypeAlias = tuple[str, str]  # from one run to another, by name, both included

CHUNK_ROWS: Final = 1_000_000  # a chunk is closed when it has this many rows
LEAST_ROWS: Final = 200_000  # chunks are not smaller: starting a task costs more than such a piece

MANY_FILES: Final = 500  # from this number on, Spark's tasks read the footers
_FOOTERS_AT_ONCE: Final = 16
_FOOTERS_A_TASK: Final = 250
_FOOTERS_SQL: Final = "file bigint, `group` bigint, rows bigint, low string, high string, problem string"


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

    def may_hold(self, run: str) -> bool:
        return self.low is None or self.high is None or self.low <= run <= self.high


@dataclasses.dataclass(frozen=True, slots=True)
class Chunk:
    """What one task reads, and between which names runs may also stand elsewhere, in order (None: everywhere)."""

    pieces: tuple[Piece, ...]
    elsewhere: tuple[Span, ...] | None

    @property
    def rows(self) -> int:
        return sum(piece.rows for piece in self.pieces)

    def is_split(self, run: str) -> bool:
        return self.elsewhere is None or _is_within(self.elsewhere, run)


@dataclasses.dataclass(frozen=True)
class Plan:
    """Everything there is to read."""

    chunks: tuple[Chunk, ...]
    foreign: tuple[str, ...]  # paths that Arrow cannot open; Spark may

    @cached_property
    def rows(self) -> int:
        return sum(chunk.rows for chunk in self.chunks)

    def pieces_of(self, runs: Iterable[str]) -> dict[str, list[Piece]]:
        """For each of some runs, the pieces that can hold rows of it. (A piece knows its runs by name: no search a run.)"""
        names = sorted(runs)
        found: dict[str, list[Piece]] = {name: [] for name in names}
        for piece in (piece for chunk in self.chunks for piece in chunk.pieces):
            if piece.low is None or piece.high is None:
                those = names
            else:
                those = names[bisect_left(names, piece.low) : bisect_right(names, piece.high)]
            for name in those:
                found[name].append(piece)
        return found

    def pieces_with_any(self, runs: Iterable[str]) -> list[Piece]:
        """The pieces that can hold rows of some runs, each once."""
        pieces = {piece for those in self.pieces_of(runs).values() for piece in those}
        return sorted(pieces, key=lambda piece: (piece.path, piece.file, piece.groups))


def plan(
    paths: Sequence[str],
    slots: int,
    *,
    chunk_rows: int = CHUNK_ROWS,
    least_rows: int = LEAST_ROWS,
    spark: SparkSession | None = None,
    many_files: int = MANY_FILES,
) -> Plan:
    """Looks at the footers of everything that the paths mean: here, or, of many files, by tasks of ``spark``.

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
        before = len(malformed)
        if spark is not None and len(files) > many_files:
            found = _footers_by_tasks(spark, path, files)
        else:
            found = _footers(filesystem, files)
        own = [_piece(path, files, label, each) for each in found if each.problem is None]
        malformed += [Malformed(files[each.file], None, None, None, each.problem) for each in found if each.problem is not None]
        if len(malformed) == before and not any(piece.rows for piece in own):
            raise TraceError(without_rows(path))
        groups += own
    if malformed:
        raise MalformedTrace(malformed)
    rows = sum(piece.rows for piece in groups)
    wanted = min(chunk_rows, max(least_rows, rows // (4 * slots)))
    return Plan(tuple(_chunks(groups, wanted)), tuple(foreign))


def files_of(paths: Sequence[str]) -> int:
    """How many files some paths mean, as far as Arrow can tell."""
    return sum(len(find_files(path)[1]) for path in dict.fromkeys(paths) if not only_spark_knows(path))


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


@dataclasses.dataclass(frozen=True, slots=True)
class _Footer:
    """A row group of a file, or what is wrong with the file; ``file`` is its number."""

    file: int
    group: int
    rows: int
    low: str | None
    high: str | None
    problem: str | None


def _piece(path: str, files: Sequence[str], label: str, of: _Footer) -> Piece:
    low, high = (None if name is None else label + name for name in (of.low, of.high))
    return Piece(path, files[of.file], (of.group,), of.rows, label, low, high)


def _footers(filesystem: fs.FileSystem, files: Sequence[str], first: int = 0) -> list[_Footer]:
    """The row groups of some files, whose numbers begin with ``first``."""
    checked: dict[pa.Schema, list[str]] = {}
    with ThreadPoolExecutor(_FOOTERS_AT_ONCE) as pool:
        read = pool.map(lambda file: _footer(filesystem, file, checked), files)
        return [dataclasses.replace(each, file=number) for number, found in enumerate(read, first) for each in found]


def _footers_by_tasks(spark: SparkSession, path: str, files: Sequence[str]) -> list[_Footer]:
    """The same, where there are too many files for one process: what comes back is an Arrow row for each row group."""
    work = [(path, first, files[first : first + _FOOTERS_A_TASK]) for first in range(0, len(files), _FOOTERS_A_TASK)]
    table = tasks(spark, work, _footers_of, _FOOTERS_SQL).toArrow().sort_by([("file", "ascending"), ("group", "ascending")])
    return [_Footer(*row) for row in zip(*(column.to_pylist() for column in table.columns), strict=True)]


def _footers_of(work: tuple[str, int, Sequence[str]]) -> Iterator[pa.RecordBatch]:
    path, first, files = work
    found = _footers(filesystem_of(path)[0], files, first)
    names = [field.name for field in dataclasses.fields(_Footer)]
    strings = {"low", "high", "problem"}
    columns = [pa.array([getattr(f, n) for f in found], pa.string() if n in strings else pa.int64()) for n in names]
    yield pa.RecordBatch.from_arrays(columns, names)


def _footer(filesystem: fs.FileSystem, file: str, checked: dict[pa.Schema, list[str]]) -> list[_Footer]:
    """The row groups of a file, or what is wrong with it. ``checked``: what is wrong with schemas that have been seen."""
    try:
        with filesystem.open_input_file(file) as source, pq.ParquetFile(source) as parquet:
            metadata = parquet.metadata
            newer = newer_file(metadata)
            schema = parquet.schema_arrow.remove_metadata()
            if newer is None and schema not in checked:
                checked[schema] = conform(schema.empty_table())[1]
            problems = [newer] if newer else checked[schema]
            if not problems:
                return list(_row_groups(metadata))
    except (pa.ArrowException, OSError) as error:
        problems = [unreadable(file, error)]
    return [_Footer(0, 0, 0, None, None, problem) for problem in problems]


def _row_groups(metadata: pq.FileMetaData) -> Iterator[_Footer]:
    run = next(place for place in range(metadata.num_columns) if metadata.schema.column(place).path == "run")
    for number in range(metadata.num_row_groups):
        group = metadata.row_group(number)
        statistics = group.column(run).statistics
        low = high = None
        with contextlib.suppress(UnicodeDecodeError):  # a name that is no UTF-8 is told when its row is read
            if statistics is not None and statistics.has_min_max and isinstance(statistics.min, str):
                low, high = statistics.min, statistics.max
        yield _Footer(0, number, group.num_rows, low, high, None)


def _chunks(groups: Sequence[Piece], wanted: int) -> Iterator[Chunk]:
    bundles: list[list[Piece]] = [[]]
    size = 0
    for piece in groups:
        if bundles[-1] and size + piece.rows > wanted:
            bundles.append([])
            size = 0
        bundles[-1].append(piece)
        size += piece.rows
    bundles = [bundle for bundle in bundles if bundle]
    spans = [None if any(p.low is None for p in bundle) else _union((p.low, p.high) for p in bundle) for bundle in bundles]
    known = [span for span in spans if span is not None]
    shared = _shared(known) if len(known) == len(spans) else None
    for bundle, own in zip(bundles, spans, strict=True):
        if len(bundles) == 1:
            elsewhere: tuple[Span, ...] | None = ()
        else:
            elsewhere = None if shared is None or own is None else tuple(_common(own, shared))
        yield Chunk(tuple(_merged(bundle)), elsewhere)


def _shared(spans: Sequence[Sequence[Span]]) -> list[Span]:
    """The names that lie within spans of more than one chunk, in order. A chunk's own spans do not overlap, so these are the
    names at which two or more spans are open.

    >>> _shared([[("a", "c")], [("c", "e"), ("x", "z")], [("d", "d"), ("f", "w")]])
    [('c', 'c'), ('d', 'd')]
    """
    ends = sorted((name, is_end) for those in spans for span in those for is_end, name in enumerate(span))
    found: list[Span] = []
    begin = ""
    for (name, is_end), now in zip(ends, accumulate(-1 if is_end else 1 for _, is_end in ends), strict=True):
        if not is_end and now == 2:
            begin = name
        elif is_end and now == 1:
            found.append((begin, name))
    return found


def _common(own: Sequence[Span], shared: Sequence[Span]) -> Iterator[Span]:
    """The shared spans that can be a chunk's own, in order; both are in order, and have no overlap."""
    before = 0
    for low, high in own:
        first = max(before, bisect_left(shared, low, key=lambda span: span[1]))
        before = bisect_right(shared, high, key=lambda span: span[0])
        yield from shared[first:before]


def _is_within(spans: Sequence[Span], name: str) -> bool:
    place = bisect_left(spans, name, key=lambda span: span[1])
    return place < len(spans) and spans[place][0] <= name


def _union(spans: Iterable[tuple[Any, Any]]) -> list[Span]:
    joined: list[Span] = []
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
    """Some rows of a piece, chosen by their run, group, sender and number; row groups whose numbers all lie outside a span are
    not read, and of the others only these columns, unless there is a row to read."""
    filesystem, _ = filesystem_of(piece.path)
    with filesystem.open_input_file(piece.file) as source:
        metadata = pq.ParquetFile(source).metadata
        seq = next(at for at in range(metadata.num_columns) if metadata.schema.column(at).path == "seq")
        ranges = {group: metadata.row_group(group).column(seq).statistics for group in piece.groups}
    for group, numbers in ranges.items():
        if numbers is not None and numbers.has_min_max and (numbers.max < span[0] or span[1] < numbers.min):
            continue
        only = dataclasses.replace(piece, groups=(group,))
        (keys,) = read(only, columns=("run", "group", "sender", "seq"))
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


def gathered(
    pieces: Iterable[Piece], runs: Collection[str] | None = None, columns: Sequence[str] = COLUMNS
) -> tuple[pa.Table, list[Part]]:
    """All rows of some pieces (of some runs, if they are named), and where they came from."""
    tables: list[pa.Table] = []
    parts: list[Part] = []
    first = 0
    for piece in pieces:
        for table in read(piece, columns=columns):
            if runs is not None:
                table = table.filter(pc.is_in(table.column("run"), pa.array(sorted(runs), pa.string())))
            tables.append(table)
            parts.append(Part(piece.file, first, table.num_rows))
            first += table.num_rows
    return pa.concat_tables(tables).unify_dictionaries(), parts
