"""What metrics and standstills compute with: a trace's columns as NumPy arrays, and a few exact sums and look-ups over them."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Integers: TypeAlias = npt.NDArray[np.int64]
Flags: TypeAlias = npt.NDArray[np.bool_]

NOTHING: Final[Integers] = np.empty(0, dtype=np.int64)


@dataclasses.dataclass(frozen=True, slots=True)
class Coded:
    """A column of strings as codes (-1: null) and the names they stand for."""

    codes: Integers
    names: list[str]

    def code(self, name: str) -> int:
        """The code of a name; one that no row has if it does not occur."""
        return self.names.index(name) if name in self.names else len(self.names)


def coded(column: pa.ChunkedArray) -> Coded:
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    encoded = _single(column).dictionary_encode()
    codes = pc.fill_null(encoded.indices, -1).to_numpy(zero_copy_only=False).astype(np.int64)
    return Coded(codes, encoded.dictionary.to_pylist())


def by_run(table: pa.Table) -> Iterator[tuple[str, pa.Table]]:
    """The runs of a table, in the order of their names; their rows keep their order."""
    runs = coded(table.column("run"))
    if len(runs.names) == 1:
        yield runs.names[0], table
        return
    order = np.argsort(runs.codes, kind="stable")
    ends = np.cumsum(np.bincount(runs.codes, minlength=len(runs.names)))
    together = table.take(pa.array(order)).combine_chunks()
    for name in sorted(runs.names):
        code = runs.names.index(name)
        first = int(ends[code - 1]) if code else 0
        yield name, together.slice(first, int(ends[code]) - first)


def nullable(column: pa.ChunkedArray) -> tuple[Integers, Flags]:
    """A column's values (0: null) and which are there."""
    if not column.null_count:
        return integers(column), np.ones(len(column), dtype=np.bool_)
    single = _single(column)
    return integers(pc.fill_null(single, 0)), single.is_valid().to_numpy(zero_copy_only=False)


def integers(column: pa.ChunkedArray | pa.Array) -> Integers:
    values: Integers = _single(column).to_numpy(zero_copy_only=False).astype(np.int64, copy=False)
    return values


def _single(column: pa.ChunkedArray | pa.Array) -> pa.Array:
    if isinstance(column, pa.Array):
        return column
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def sums(codes: Integers, values: Integers, length: int = 0) -> Integers:
    """The sum of the values of each code, exactly (``bincount`` would add doubles)."""
    totals = np.zeros(max(length, int(codes.max(initial=-1)) + 1), dtype=np.int64)
    np.add.at(totals, codes, values)
    return totals


def look_up(keys: Integers, values: Integers, wanted: Integers) -> tuple[Integers, Flags]:
    """For each wanted key the smallest value under it, and whether there is one."""
    if not len(keys):
        return np.zeros(len(wanted), dtype=np.int64), np.zeros(len(wanted), dtype=np.bool_)
    order = np.lexsort((values, keys))
    places = np.searchsorted(keys[order], wanted)
    places[places == len(keys)] = 0
    return values[order][places], keys[order][places] == wanted


def percentile(ordered: Integers, percent: int) -> int:
    """The percentile of values in ascending order, between the two nearest in proportion, rounded down.

    >>> percentile(np.array([10, 20]), 50), percentile(np.array([10, 20, 31]), 90)
    (15, 28)
    """
    place, rest = divmod((len(ordered) - 1) * percent, 100)
    low = int(ordered[place])
    return low if not rest else low + (int(ordered[place + 1]) - low) * rest // 100
