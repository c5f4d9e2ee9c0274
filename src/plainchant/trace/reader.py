"""From Parquet files, anybody's, to one Arrow table with the columns of the schema.

A path is a file, a directory (everything ``*.parquet`` in it, at any depth, except what is hidden or temporary: names
that begin with ``.`` or ``_``; of a run's or a sweep's directory, what is in its ``trace``), a glob, or an address that
Arrow can open (``s3://``, ``hdfs://``, ``file://``). Types that hold the same values (int32 for int64, large or
dictionary-encoded strings) are cast; anything else is malformed, and all files are looked at before that is said, so that
one reading shows everything to mend. Columns that we do not know are kept.

The rows come as they stand in the files, file after file in the order of their names. What is wrong with them as rows
is for ``validate`` to say: ``validate(*read(path))``.
"""

from __future__ import annotations

import glob
import os
from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import fs

from ..core.model import TRACE_VERSION, TraceError
from .schema import REQUIRED, SCHEMA, VERSION_KEY, Malformed, MalformedTrace


class Part(NamedTuple):
    """The rows ``first`` to ``first + rows - 1`` of a table came from this file."""

    path: str
    first: int
    rows: int


class Trace(NamedTuple):
    """A table and where its rows came from."""

    table: pa.Table
    files: tuple[Part, ...]


def read(path: str | Path) -> Trace:
    """Reads a trace. Raises MalformedTrace for files that are not Parquet, lack a column or have one of a wrong type, and
    TraceError if there is nothing to read."""
    filesystem, paths = find_files(str(path))
    results = [_read_file(filesystem, name) for name in paths]
    problems = [(name, problem) for name, (_, of_file) in zip(paths, results, strict=True) for problem in of_file]
    if problems:
        raise MalformedTrace([Malformed(name, None, None, None, problem) for name, problem in problems])
    tables = [table for table, _ in results]
    firsts = accumulate((table.num_rows for table in tables), initial=0)
    files = [Part(name, first, table.num_rows) for name, first, table in zip(paths, firsts, tables, strict=False)]
    return Trace(_together(tables, paths), tuple(files))


def file_of(files: Sequence[Part], row: int) -> str | None:
    """The file that this row of the table came from; None if the table did not come from files.

    >>> file_of([Part("a.parquet", 0, 3), Part("b.parquet", 3, 2)], 3)
    'b.parquet'
    """
    place = bisect_right(files, row, key=lambda part: part.first) - 1
    # An empty file shares its first row with the next one, which bisect_right prefers; past the end there is nothing.
    return files[place].path if place >= 0 and row < files[place].first + files[place].rows else None


def within(files: Sequence[Part], first: int, rows: int) -> list[Part]:
    """Where some rows of a table came from, counted from the first of them.

    >>> within([Part("a.parquet", 0, 3), Part("b.parquet", 3, 2)], 2, 2)
    [Part(path='a.parquet', first=0, rows=1), Part(path='b.parquet', first=1, rows=1)]
    """
    cut = [(part.path, max(part.first, first), min(part.first + part.rows, first + rows)) for part in files]
    return [Part(path, low - first, high - low) for path, low, high in cut if low < high]


def filesystem_of(path: str) -> tuple[fs.FileSystem, str]:
    """The file system that a path or address lies in, and the path inside it."""
    return fs.FileSystem.from_uri(path) if "://" in path else (fs.LocalFileSystem(), path)


def find_files(path: str) -> tuple[fs.FileSystem, list[str]]:
    """The files that a path means, in the order of their names; TraceError if there are none."""
    try:
        filesystem, inside = filesystem_of(path)
        roots = [inside]
        if isinstance(filesystem, fs.LocalFileSystem) and glob.has_magic(inside) and not os.path.exists(inside):
            roots = sorted(glob.glob(inside, recursive=True))
        found = [file for root in roots for file in _below(filesystem, root)]
    except (OSError, pa.ArrowException) as error:
        raise TraceError(f"cannot look for a trace at {path}: {error}; check the path or address") from error
    if found:
        return filesystem, list(dict.fromkeys(found))
    is_local, spools = isinstance(filesystem, fs.LocalFileSystem), os.path.join(inside, "**", "*.spool")
    if is_local and os.path.exists(os.path.join(inside, "sweep.json")):
        raise TraceError(f"the sweep in {path} kept no traces; sweep with --keep all into another directory, or replay a run")
    if is_local and next(glob.iglob(spools, recursive=True), None) is not None:
        raise TraceError(f"{path} holds spools of live processes; make a trace of them: plainchant collect {path} --out TRACE")
    raise TraceError(f"there is no trace at {path}: no *.parquet file; give a file, a directory or a glob of them")


def _below(filesystem: fs.FileSystem, path: str) -> list[str]:
    """The file itself, or the Parquet files in the directory."""
    info = filesystem.get_file_info(path)
    if info.type == fs.FileType.NotFound:
        return []
    if info.type == fs.FileType.File:
        return [path]
    inside = f"{path.rstrip('/')}/trace"
    if filesystem.get_file_info(inside).type == fs.FileType.Directory:
        return _below(filesystem, inside)
    selector = fs.FileSelector(path, recursive=True)
    found = [entry.path for entry in filesystem.get_file_info(selector) if entry.type == fs.FileType.File]
    # Files that are hidden or temporary, or in a directory below this one that is, do not count.
    names = {file: os.path.relpath(file, path).split("/") for file in found if file.endswith(".parquet")}
    return sorted(file for file, parts in names.items() if not any(part.startswith((".", "_")) for part in parts))


def _read_file(filesystem: fs.FileSystem, name: str) -> tuple[pa.Table, list[str]]:
    """A file's table in the types of the schema, and what is wrong with it as a file."""
    try:
        with filesystem.open_input_file(name) as source, pq.ParquetFile(source) as file:
            newer = newer_file(file.metadata)
            if newer is not None:
                return SCHEMA.empty_table(), [newer]
            table = file.read()
    except (pa.ArrowException, OSError) as error:
        return SCHEMA.empty_table(), [unreadable(name, error)]
    return conform(table.replace_schema_metadata(None))


def newer_file(metadata: pq.FileMetaData) -> str | None:
    """The problem of a file whose footer names a newer version. Its columns may differ: complaining of them would mislead."""
    version = (metadata.metadata or {}).get(VERSION_KEY, b"")
    return newer_version(int(version)) if version.isdigit() and int(version) > TRACE_VERSION else None


def unreadable(name: str, error: pa.ArrowException | OSError) -> str:
    """The problem of a file that is no Parquet or is damaged; TraceError if it cannot be opened at all."""
    # Arrow reports damage inside a file as an OSError without a number; one with a number is about opening it.
    if isinstance(error, OSError) and error.errno is not None:
        raise TraceError(f"cannot read {name}: {error.strerror}; check the path and its permissions") from error
    return f"not a readable Parquet file: {error}"


def newer_version(version: int) -> str:
    """The problem of a trace that this program is too old for."""
    return f"version {version} is newer than {TRACE_VERSION}, the newest that this program reads; use a newer plainchant"


def conform(table: pa.Table) -> tuple[pa.Table, list[str]]:
    """The columns of the schema, cast and in order, then the others."""
    columns: dict[str, pa.ChunkedArray] = {}
    problems: list[str] = []
    for field in SCHEMA:
        count = table.column_names.count(field.name)
        if count != 1:
            problems.append(f"column {field.name!r} " + ("is missing" if count == 0 else f"stands {count} times"))
            continue
        column = table.column(field.name)
        if not _holds_same(column.type, field.type, nullable=field.name not in REQUIRED):
            problems.append(f"column {field.name!r} has type {column.type}, wanted {field.type}")
            continue
        try:
            columns[field.name] = column.cast(field.type)
            columns[field.name].validate(full=True)
        except pa.ArrowException as error:
            problems.append(f"column {field.name!r} has values that are no {field.type}: {error}")
    if problems:
        return SCHEMA.empty_table(), problems
    for position, name in enumerate(table.column_names):
        if name not in columns:
            columns[name] = table.column(position)
    return pa.table(columns), []


def _holds_same(given: pa.DataType, wanted: pa.DataType, *, nullable: bool) -> bool:
    """Whether the given type's values can be the wanted one's without loss (integers are then checked one by one)."""
    if pa.types.is_null(given):
        # What a writer without types makes of a column in which there is nothing.
        return nullable
    if pa.types.is_dictionary(given):
        return _holds_same(given.value_type, wanted, nullable=nullable)
    if pa.types.is_list(wanted):
        is_list = pa.types.is_list(given) or pa.types.is_large_list(given) or pa.types.is_fixed_size_list(given)
        return is_list and _holds_same(given.value_type, wanted.value_type, nullable=True)
    if pa.types.is_string(wanted):
        return bool(pa.types.is_string(given) or pa.types.is_large_string(given) or pa.types.is_string_view(given))
    return bool(pa.types.is_integer(given))


def _together(tables: list[pa.Table], paths: list[str]) -> pa.Table:
    try:
        return pa.concat_tables(tables, promote_options="permissive")
    except pa.ArrowException as error:
        problem = f"a column of these files' own has types that do not go together: {error}"
        raise MalformedTrace([Malformed(paths[0], None, None, None, problem)]) from error
