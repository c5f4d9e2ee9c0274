"""One trace, written as different people would write it: in order or not, in one file or many, in small row groups."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from random import Random

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

ORDER = [("run", "ascending"), ("process", "ascending"), ("index", "ascending")]


def ordered(table: pa.Table, directory: Path) -> None:
    """As our own writers do it."""
    pq.write_table(table.sort_by(ORDER), directory / "part-00000.parquet", compression="zstd")


def shuffled(table: pa.Table, directory: Path) -> None:
    places = list(range(table.num_rows))
    Random("shuffled").shuffle(places)
    pq.write_table(table.take(places), directory / "shuffled.parquet")


def file_a_process(table: pa.Table, directory: Path) -> None:
    """Each process writes its own file, as live ones do."""
    for number, process in enumerate(sorted(table.column("process").unique().to_pylist())):
        own = table.filter(pc.equal(table["process"], process))
        pq.write_table(own.sort_by(ORDER), directory / f"{number}.parquet")


def small_row_groups(table: pa.Table, directory: Path) -> None:
    pq.write_table(table.sort_by(ORDER), directory / "small.parquet", row_group_size=7)


def many_files(table: pa.Table, directory: Path) -> None:
    """Cut anywhere, into files in nested directories whose names are in another order than their rows."""
    rows = table.sort_by(ORDER)
    size = max(1, rows.num_rows // 12)
    for number, first in enumerate(range(0, rows.num_rows, size)):
        folder = directory / f"{number % 3}"
        folder.mkdir(exist_ok=True)
        pq.write_table(rows.slice(first, size), folder / f"{100 - number:03d}.parquet")


def by_time(table: pa.Table, directory: Path) -> None:
    """As a collector receives it: all processes' rows mixed, in small row groups."""
    pq.write_table(table.sort_by([("index", "ascending"), ("process", "descending")]), directory / "t.parquet", row_group_size=97)


def other_types(table: pa.Table, directory: Path) -> None:
    """The same values in other types, columns in another order, and one column more."""
    columns = {}
    for name in reversed(table.column_names):
        column = table.column(name)
        if pa.types.is_string(column.type):
            column = column.cast(pa.large_string()) if name == "run" else column.dictionary_encode()
        elif name in ("index", "seq", "view"):
            column = column.cast(pa.int32())
        columns[name] = column
    pq.write_table(pa.table({**columns, "of their own": pa.nulls(table.num_rows, pa.float64())}), directory / "other.parquet")


Layout = Callable[[pa.Table, Path], None]
LAYOUTS: Mapping[str, Layout] = {
    layout.__name__: layout for layout in (ordered, shuffled, file_a_process, small_row_groups, many_files, by_time, other_types)
}


def written(layout: str, table: pa.Table, directory: Path) -> str:
    """Writes a trace in a layout; returns the path to give to a verifier."""
    place = directory / layout
    place.mkdir(parents=True)
    LAYOUTS[layout](table, place)
    return str(place)
