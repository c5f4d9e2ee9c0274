"""Traces to measure verification with: what long runs of ``sequencer`` look like, made without running one.

A simulator writes some ten thousand events a second; fifty million of them would take hours. Here everything is a
column: the one order of a run is an array of senders, a sender's numbers are how often it stands before, and a process's
history is its sends and its deliveries (of everything, in that order, a moment later) merged by time. What comes out
keeps all that ``sequencer`` promises, carries every column that the simulator fills (digest, rank, sent, true_time, size,
packets), and is laid out as traces are: sorted by (run, process, index), row groups of up to a million rows, the
writer's encodings.

Of one long run only one history's order is in memory at a time, and only one row group's columns; of several, one run.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from plainchant.core.model import TRACE_VERSION, UsageError
from plainchant.protocols.sequencer import DESCRIPTION, Parameters
from plainchant.trace.writer import TraceWriter

Ints = npt.NDArray[np.int64]

GROUP_ROWS: Final = 1_000_000
"""Rows of a row group, at most."""
TEMPLATES: Final = 50
"""So many different runs are made; where more are wanted, they are the same ones under other names."""

_OWN_ROWS: Final = 4  # start, join, view and end, of each process
SPACING_NS: Final = 40_000  # between two messages, on average
_WAY_NS: Final = 1_000_000  # to the sequencer, and from it
_SIZE: Final = 32

_KINDS: Final = ("start", "join", "view", "send", "deliver", "null", "end")
_CODE: Final = {kind: code for code, kind in enumerate(_KINDS)}
_STRING: Final = pa.dictionary(pa.int32(), pa.string())


@dataclass(frozen=True)
class Shape:
    """How large a trace is: events in all, in how many runs of how many members."""

    events: int
    members: int = 5
    runs: int = 1

    def __post_init__(self) -> None:
        least = self.runs * (self.members * (_OWN_ROWS + 1) + 1)
        if self.members < 1 or self.runs < 1 or self.events < least:
            raise UsageError(
                f"{self.events} events are too few for {self.runs} runs of {self.members} members; ask for {least} or more"
            )
        if self.events % self.runs:
            raise UsageError(f"{self.events} events cannot be shared by {self.runs} runs; ask for a multiple")

    @property
    def name(self) -> str:
        return f"{self.events}-events-{self.members}-members-{self.runs}-runs"


def make(directory: Path, shape: Shape) -> Path:
    """The trace of a shape, below a directory; made if it is not there already. Returns the directory of its files.

    >>> import tempfile
    >>> from plainchant.trace import read
    >>> with tempfile.TemporaryDirectory() as directory:
    ...     read(make(Path(directory), Shape(1_000))).table.num_rows
    1000
    """
    target = directory / shape.name
    if not (target / "trace").is_dir():
        writer = SortedWriter(target)
        with writer:
            for table in tables(shape):
                writer.write(table)
    return target / "trace"


class SortedWriter(TraceWriter):
    """A trace's files, from tables that are already in order."""

    def write(self, table: pa.Table) -> None:
        self._attempt(lambda: self._write(table))

    def _write(self, table: pa.Table) -> None:
        assert self._sink is not None
        if self._sink.tell() >= self._file_bytes:
            self._close_part()
            self._open()
        assert self._parquet is not None
        self._parquet.write_table(table, row_group_size=GROUP_ROWS)


def tables(shape: Shape) -> Iterator[pa.Table]:
    """The trace in order, a row group at a time."""
    events = shape.events // shape.runs
    if shape.runs == 1:
        # A row group takes the end of one history and the beginning of the next, so that there are few small ones.
        yield from _regrouped(_run("r0", _Order(events, shape.members, seed=0)))
        return

    def template(seed: int) -> pa.Table:
        return pa.concat_tables(_run("", _Order(events, shape.members, seed=seed)))

    if shape.runs > TEMPLATES:
        template = functools.cache(template)
    digits = len(str(shape.runs - 1))
    named = (_renamed(template(run % TEMPLATES), f"r{run:0{digits}d}") for run in range(shape.runs))
    yield from _regrouped(named)


def _regrouped(tables: Iterator[pa.Table]) -> Iterator[pa.Table]:
    waiting: list[pa.Table] = []
    rows = 0
    for table in tables:
        while rows + table.num_rows >= GROUP_ROWS:
            yield _joined([*waiting, table.slice(0, GROUP_ROWS - rows)])
            table, waiting, rows = table.slice(GROUP_ROWS - rows), [], 0
        waiting.append(table)
        rows += table.num_rows
    if rows:
        yield _joined(waiting)


def _joined(tables: list[pa.Table]) -> pa.Table:
    return pa.concat_tables(tables).unify_dictionaries().combine_chunks()


def _renamed(table: pa.Table, run: str) -> pa.Table:
    return table.set_column(0, table.schema.field(0), _constant(run, table.num_rows))


class _Order:
    """The one order of a run: who sent each message, its number, when it was numbered, its digest."""

    def __init__(self, events: int, members: int, *, seed: int) -> None:
        random = np.random.default_rng(seed)
        self.names = [f"p{number + 1}" for number in range(members)]
        self.count = (events - _OWN_ROWS * members) // (members + 1)
        self.nulls = events - _OWN_ROWS * members - self.count * (members + 1)
        """Rows that are left over: the sequencer says so often that it has nothing to say."""
        self.sender = random.integers(0, members, self.count, dtype=np.int16)
        self.seq = np.empty(self.count, dtype=np.int64)
        for code in range(members):
            own = np.flatnonzero(self.sender == code)
            self.seq[own] = np.arange(1, len(own) + 1)
        self.numbered: Ints = np.cumsum(random.integers(1, 2 * SPACING_NS, self.count)) + 2 * _WAY_NS
        self.digest = random.integers(0, 2**32, self.count, dtype=np.int64)

    def sent(self, messages: Ints) -> Ints:
        """When these were sent: the sequencer, the first member, has no way to itself."""
        return self.numbered[messages] - np.where(self.sender[messages] == 0, 0, _WAY_NS)


def _run(run: str, order: _Order) -> Iterator[pa.Table]:
    """The histories of a run, in pieces, in the order (process, index)."""
    for process in sorted(range(len(order.names)), key=order.names.__getitem__):
        yield from _history(run, order, process)


def _history(run: str, order: _Order, process: int) -> Iterator[pa.Table]:
    own: Ints = np.flatnonzero(order.sender == process)
    arrives = 0 if process == 0 else _WAY_NS
    times = np.concatenate([order.sent(own), order.numbered + arrives])
    # Stable, and sends first: a message that the sequencer numbers at once is sent before it is delivered.
    places: Ints = np.argsort(times, kind="stable")
    nulls = order.nulls if process == 0 else 0
    rows = 3 + len(places) + nulls + 1
    for first in range(0, rows, GROUP_ROWS):
        last = min(rows, first + GROUP_ROWS)
        piece = _Piece(first, last)
        piece.own_rows(order, nulls, rows, int(times.max(initial=0)))
        begin, end = max(first, 3), min(last, 3 + len(places))
        if begin < end:
            piece.traffic(order, own, places[begin - 3 : end - 3], times, slice(begin - first, end - first), process)
        yield piece.table(run, order, process)


class _Piece:
    """Rows ``first`` to ``last - 1`` of a history, as columns that are filled in."""

    def __init__(self, first: int, last: int) -> None:
        self.first, self.last = first, last
        size = last - first
        self.kind = np.full(size, _CODE["null"], dtype=np.int32)
        self.sender = np.zeros(size, dtype=np.int32)
        self.is_message = np.zeros(size, dtype=np.bool_)
        self.delivered = np.zeros(size, dtype=np.bool_)
        self.time, self.seq, self.sent, self.rank, self.digest = (np.zeros(size, dtype=np.int64) for _ in range(5))
        self.packets = np.zeros(size, dtype=np.int32)
        self.final = False

    def own_rows(self, order: _Order, nulls: int, rows: int, last_time: int) -> None:
        """The kinds and times of what is not about a message."""
        for index, kind in ((0, "start"), (1, "join"), (2, "view"), (rows - 1, "end")):
            if self.first <= index < self.last:
                self.kind[index - self.first] = _CODE[kind]
        self.final = self.last == rows
        late = max(0, rows - 1 - nulls - self.first)
        self.time[late:] = last_time + _WAY_NS * np.arange(1, len(self.time) - late + 1)

    def traffic(self, order: _Order, own: Ints, places: Ints, times: Ints, where: slice, process: int) -> None:
        delivered = places >= len(own)
        messages = places - len(own)
        messages[~delivered] = own[places[~delivered]]
        self.kind[where] = np.where(delivered, _CODE["deliver"], _CODE["send"])
        self.is_message[where] = True
        self.delivered[where] = delivered
        self.time[where] = times[places]
        self.sender[where] = order.sender[messages]
        self.seq[where] = order.seq[messages]
        self.sent[where] = order.sent(messages)
        self.rank[where] = messages + 1
        self.digest[where] = order.digest[messages]
        # A member asks the sequencer with one packet; the sequencer tells all with one when it delivers.
        self.packets[where] = delivered if process == 0 else ~delivered

    def table(self, run: str, order: _Order, process: int) -> pa.Table:
        size = self.last - self.first
        plain = ~self.is_message
        undelivered = ~self.delivered
        about_group = ~np.isin(self.kind, (_CODE["start"], _CODE["end"]))
        viewed = about_group & (self.kind != _CODE["join"])
        details, members = self._details(order)
        joins = self.kind == _CODE["join"]
        columns: dict[str, pa.Array] = {
            "run": _constant(run, size),
            "process": _constant(order.names[process], size),
            "index": pa.array(np.arange(self.first, self.last)),
            "time": pa.array(self.time),
            "true_time": pa.array(self.time),
            "kind": pa.DictionaryArray.from_arrays(pa.array(self.kind), pa.array(_KINDS)),
            "group": pa.DictionaryArray.from_arrays(pa.array(np.zeros(size, np.int32), mask=~about_group), pa.array(["g"])),
            "view": pa.array(np.ones(size, np.int64), mask=~viewed),
            "sender": pa.DictionaryArray.from_arrays(pa.array(self.sender, mask=plain), pa.array(order.names)),
            "seq": pa.array(self.seq, mask=plain),
            "members": members,
            "deadline": pa.nulls(size, pa.int64()),
            "sent": pa.array(self.sent, mask=undelivered),
            "rank": pa.array(self.rank, mask=undelivered & ~joins),
            "digest": pa.array(self.digest, mask=plain),
            "size": pa.array(np.full(size, _SIZE, np.int32), mask=plain),
            "packets": pa.array(self.packets, mask=self.packets == 0),
            "detail": details,
        }
        return pa.table(columns)

    def _details(self, order: _Order) -> tuple[pa.Array, pa.Array]:
        """The few rows that have a detail, and the one that has members."""
        size = self.last - self.first
        codes = np.zeros(size, dtype=np.int32)
        codes[self.kind == _CODE["end"]] = 1
        has = np.isin(self.kind, (_CODE["start"], _CODE["end"]))
        texts = pa.array([start_detail(), '{"drained":true}'])
        details = pa.DictionaryArray.from_arrays(pa.array(codes, mask=~has), texts)
        views = self.kind == _CODE["view"]
        places = pa.array(np.zeros(size, dtype=np.int64), mask=~views)
        members = pa.array([order.names], pa.list_(pa.string())).take(places)
        return details, members


def start_detail() -> str:
    """What ``start`` rows of such a run say: all that ``sequencer`` promises by default."""
    promises = [promise.name for promise in DESCRIPTION.promises(Parameters(), {"g": ("p1", "p2")})]
    detail: dict[str, Any] = {"bounds": {}, "promises": promises, "protocol": "sequencer", "version": TRACE_VERSION}
    return json.dumps(detail, separators=(",", ":"), sort_keys=True)


def _constant(value: str, size: int) -> pa.Array:
    return pa.DictionaryArray.from_arrays(pa.array(np.zeros(size, dtype=np.int32)), pa.array([value]))
