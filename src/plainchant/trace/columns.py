"""From a host's raw rows to Arrow columns.

Theory of operation
-------------------
Rows are converted many at a time: those of all histories are laid end to end in the order (run, process, index), flattened into
one list, and each column is every twelfth element of it. Columns that most rows do not have (members, deadline, detail, packets)
are filled in from the few that do. ``run``, ``process`` and ``index`` are not in the rows: they follow from a row's position.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, chain
from typing import Any, Final

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ..core.model import TraceError
from .history import History, Row
from .schema import SCHEMA

_ROW: Final = ("kind", "time", "true_time", "group", "view", "sender", "seq", "sent", "rank", "digest", "size", "extra")
STRINGS: Final = ("run", "process", "kind", "group", "sender", "detail")
_ENCODED: Final = pa.dictionary(pa.int32(), pa.string())
FILE_SCHEMA: Final = pa.schema([pa.field(field.name, _ENCODED) if field.name in STRINGS else field for field in SCHEMA])
"""What ``convert`` makes and files are written from: SCHEMA with dictionaries for strings."""
_SHARING: Final = 4  # histories that can be half shared rows: with fewer, those of senders alone are too many

_encode_detail: Final = msgspec.json.Encoder(order="sorted").encode


def convert(histories: Sequence[History]) -> pa.Table:
    """The rows of these histories, one history after the other, as a table. Strings are dictionary-encoded (``.cast(SCHEMA)``
    makes them plain). Raises TraceError if a value does not fit its column."""
    lengths = [len(history.rows) for history in histories]
    count = sum(lengths)
    rows: list[Row] = list(chain.from_iterable(history.rows for history in histories))
    # Processes that deliver the same message at the same instant share one row object: it is converted once.
    spread = _shared(rows) if len(histories) >= _SHARING else None
    if spread is not None:
        # The numbers of objects count up, so an object is met first where its number is larger than all before.
        firsts = np.flatnonzero(np.diff(np.maximum.accumulate(spread), prepend=-1))
        rows = [rows[first] for first in firsts.tolist()]
    flat: list[Any] = []
    for row in rows:
        flat.extend(row)
    if len(flat) != len(rows) * len(_ROW):
        raise TraceError(f"a raw row of a trace has {len(_ROW)} values; a host appended one that has not")
    columns: dict[str, pa.Array] = {}
    for place, name in enumerate(_ROW[:-1]):
        columns[name] = column_of(name, flat[place :: len(_ROW)])
    columns.update(_extras(flat[len(_ROW) - 1 :: len(_ROW)]))
    if spread is not None:
        columns = {name: spread_column(column, pa.array(spread)) for name, column in columns.items()}
    columns["run"] = repeated_column([history.run for history in histories], lengths)
    columns["process"] = repeated_column([history.process for history in histories], lengths)
    begins = np.cumsum(lengths, dtype=np.int64) - lengths
    firsts = np.array([history.first for history in histories], dtype=np.int64)
    columns["index"] = pa.array(np.arange(count) + np.repeat(firsts - begins, lengths))
    columns["packets"] = _packets(histories, lengths, count)
    return pa.table([columns[field.name] for field in FILE_SCHEMA], schema=FILE_SCHEMA)


def _shared(rows: list[Row]) -> np.ndarray[Any, np.dtype[np.int32]] | None:
    """Each row's number among the different objects that there are, in the order in which they are met; None: few are shared."""
    objects = pa.array(np.fromiter(map(id, rows), dtype=np.int64, count=len(rows))).dictionary_encode()
    return objects.indices.to_numpy() if 2 * len(objects.dictionary) < len(rows) else None


def spread_column(column: pa.Array, places: pa.Array) -> pa.Array:
    """The value at each place; a column without values stays one."""
    return pa.nulls(len(places), column.type) if column.null_count == len(column) else pc.take(column, places)


def column_of(name: str, values: list[Any]) -> pa.Array:
    """These values as a column of that name; TraceError if one does not fit."""
    # Often a whole column is one value (the group, the view, the size). Counting it is several times cheaper than
    # converting it, and the ends give away most columns for which it is not worth trying.
    if len(values) > 1 and values[0] is values[-1] and values.count(values[0]) == len(values):
        return pc.take(column_of(name, values[:1]), pa.array(np.zeros(len(values), dtype=np.int64)))
    try:
        array = pa.array(values, SCHEMA.field(name).type)
    except (pa.ArrowException, OverflowError, TypeError, ValueError) as error:
        raise TraceError(f"a value in column {name!r} of a trace row does not fit: {error}; its host is defective") from error
    return array.dictionary_encode() if name in STRINGS else array


def repeated_column(values: list[str], lengths: list[int]) -> pa.Array:
    """Each value as often as its history has rows; equal values (the run) share a code."""
    codes = {value: code for code, value in enumerate(dict.fromkeys(values))}
    indices = np.repeat(np.array([codes[value] for value in values], dtype=np.int32), lengths)
    return pa.DictionaryArray.from_arrays(pa.array(indices), pa.array(list(codes), pa.string()))


def _packets(histories: Sequence[History], lengths: list[int], count: int) -> pa.Array:
    positions: list[int] = []
    values: list[int] = []
    for begin, history in zip(accumulate(lengths, initial=0), histories, strict=False):
        positions += map(begin.__add__, history.packets)
        values += history.packets.values()
    return sparse_column("packets", positions, values, count)


def _extras(extras: list[dict[str, Any] | None]) -> dict[str, pa.Array]:
    """The columns that a row carries only in its ``extra``."""
    present = [(at, extra) for at, extra in enumerate(extras) if extra is not None]
    columns: dict[str, pa.Array] = {}
    for name in ("members", "deadline", "detail"):
        having = [(at, extra[name]) for at, extra in present if extra.get(name) is not None]
        values = [_json(value) if name == "detail" else value for _, value in having]
        columns[name] = sparse_column(name, [at for at, _ in having], values, len(extras))
    return columns


def _json(detail: dict[str, Any]) -> str:
    try:
        return _encode_detail(detail).decode()
    except (TypeError, ValueError, msgspec.MsgspecError) as error:
        raise TraceError(f"the detail {detail!r} of a trace row is not JSON: {error}; its host is defective") from error


def sparse_column(name: str, positions: list[int], values: list[Any], count: int) -> pa.Array:
    """A column of ``count`` rows that is null except at these positions."""
    kind = FILE_SCHEMA.field(name).type
    if not positions:
        return pa.nulls(count, kind)
    places = np.zeros(count, dtype=np.int64)
    absent = np.ones(count, dtype=np.bool_)
    places[positions] = np.arange(len(positions))
    absent[positions] = False
    return pc.take(column_of(name, values), pa.array(places, mask=absent))
