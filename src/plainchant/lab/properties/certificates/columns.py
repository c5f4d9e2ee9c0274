"""A table of trace rows as NumPy columns, histories together and in order: what stage 1 computes with.

Strings become codes (-1: null). The codes of runs and processes are ranks of their names, so that rows in the order (run,
process, index), as in every file of our own, are seen to be in order and are not sorted again. Columns of integers that have
nulls come with a mask.
"""

from __future__ import annotations

from typing import Any, Final, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

Ints: TypeAlias = NDArray[np.int64]
Codes: TypeAlias = NDArray[np.int32]
Mask: TypeAlias = NDArray[np.bool_]

STRINGS: Final = ("run", "process", "kind", "group", "sender", "detail")  # columns that are read dictionary-encoded


class Coded:
    """A column of strings: codes into ``values``, -1 for null."""

    def __init__(self, column: pa.ChunkedArray, *, ranked: bool = False) -> None:
        array = _one_dictionary(column)
        self.values: list[str] = array.dictionary.to_pylist()
        indices = array.indices
        if indices.null_count:
            indices = indices.fill_null(-1)
        codes = indices.to_numpy(zero_copy_only=False).astype(np.int32, copy=False)
        # A dictionary may hold a value twice, or null itself (other writers' do); codes must be names.
        firsts: dict[Any, int] = {}
        same = np.array([firsts.setdefault(value, code) for code, value in enumerate(self.values)], np.int32)
        if None in firsts:
            same[firsts[None]] = -1
        if len(same) and not np.array_equal(same, np.arange(len(same))):
            codes = np.append(same, np.int32(-1))[codes]
        if ranked:
            known = sorted({value for value in self.values if value is not None})
            places = {value: place for place, value in enumerate(known)}
            ranks = np.array([-1 if value is None else places[value] for value in self.values] + [-1], np.int32)
            codes, self.values = ranks[codes], known
        self.codes: Codes = codes

    def equals(self, name: str) -> Mask:
        """Which rows have this value."""
        code = self.values.index(name) if name in self.values else len(self.values)
        return np.asarray(self.codes == code)

    def take(self, order: Ints | None) -> None:
        if order is not None:
            self.codes = self.codes[order]


def _one_dictionary(column: pa.ChunkedArray) -> pa.DictionaryArray:
    if not pa.types.is_dictionary(column.type):
        column = column.dictionary_encode()
    if column.num_chunks != 1:
        column = column.unify_dictionaries().combine_chunks()
        return column if isinstance(column, pa.DictionaryArray) else column.chunk(0)
    return column.chunk(0)


def integers(column: pa.ChunkedArray) -> tuple[Ints, Mask | None]:
    """A column of integers and which of them are there; no mask if all are."""
    mask = None if column.null_count == 0 else np.asarray(pc.is_valid(column).to_numpy()).astype(np.bool_)
    filled = column if mask is None else pc.fill_null(column, 0)
    return filled.to_numpy().astype(np.int64, copy=False), mask


class Rows:
    """The rows of a unit, in the order (run, process, index)."""

    def __init__(self, table: pa.Table) -> None:
        self.run = Coded(table.column("run"), ranked=True)
        self.process = Coded(table.column("process"), ranked=True)
        self.index, _ = integers(table.column("index"))
        self.history: Ints = self.run.codes.astype(np.int64) * max(1, len(self.process.values)) + self.process.codes
        self.order: Ints | None = None  # where each row stands in the table; None: in this very order
        later = self.history[1:] > self.history[:-1]
        next_one = (self.history[1:] == self.history[:-1]) & (self.index[1:] > self.index[:-1])
        if not bool(np.all(later | next_one)):
            self.order = np.lexsort((self.index, self.history))
            for coded in (self.run, self.process):
                coded.take(self.order)
            self.index, self.history = self.index[self.order], self.history[self.order]
        self._table = table
        self.kind = self.codes("kind")
        self.group = self.codes("group")
        self.sender = self.codes("sender")
        self.seq, self.has_seq = self.ints("seq")
        self.view, self.has_view = self.ints("view")

    def __len__(self) -> int:
        return len(self.index)

    def codes(self, name: str) -> Coded:
        coded = Coded(self._table.column(name))
        coded.take(self.order)
        return coded

    def ints(self, name: str) -> tuple[Ints, Mask | None]:
        values, mask = integers(self._table.column(name))
        if self.order is None:
            return values, mask
        return values[self.order], None if mask is None else mask[self.order]

    def rows(self, places: Ints) -> pa.Table:
        """The table's rows at some places of this order."""
        return self._table.take(pa.array(places if self.order is None else self.order[places]))


def folded(values: Ints) -> tuple[int, str, bytes]:
    """Numbers that differ little from one to the next, as bytes.

    >>> unfolded(folded(np.array([10**15, 10**15 + 3, 10**15 + 5]))).tolist()
    [1000000000000000, 1000000000000003, 1000000000000005]
    """
    steps = np.diff(values, prepend=values[:1])
    is_small = not len(steps) or (steps.min() >= 0 and steps.max() < 2**32)
    kind = np.dtype(small_type(int(steps.max(initial=0)) + 1) if is_small else np.int64)
    return int(values[0]) if len(values) else 0, kind.str, steps.astype(kind).tobytes()


def unfolded(value: tuple[int, str, bytes]) -> Ints:
    """The numbers again."""
    first, kind, steps = value
    return first + np.cumsum(np.frombuffer(steps, kind), dtype=np.int64)


def small_type(bound: int) -> Any:
    """The smallest unsigned type for numbers up to a bound."""
    return np.uint8 if bound < 256 else np.uint16 if bound < 65_536 else np.uint32


def stable_order(keys: Ints, bound: int) -> Ints:
    """What ``argsort(kind="stable")`` gives, by digits of 16 bits, which NumPy sorts several times faster.

    >>> stable_order(np.array([70000, 3, 70000, 1]), 70001).tolist()
    [3, 1, 0, 2]
    """
    order = np.argsort((keys & 0xFFFF).astype(np.uint16), kind="stable")
    shift = 16
    while bound >> shift:
        order = order[np.argsort(((keys[order] >> shift) & 0xFFFF).astype(np.uint16), kind="stable")]
        shift += 16
    return order


def starts_of(*changes: Mask) -> Ints:
    """Where blocks begin, given for each row but the first whether it differs from the row before."""
    changed = changes[0]
    for other in changes[1:]:
        changed = changed | other
    return np.concatenate(([0], np.flatnonzero(changed) + 1))
