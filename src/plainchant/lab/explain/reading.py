"""Brings from a trace of any size the rows of one run that a story needs.

Filters go down to the Parquet files, so row groups of other runs are not even read. A small run is read whole and validated. Of a
larger one, a first pass finds the rows that name the message (or install the view) and with them a stretch of time; a second pass
reads rare rows (views, suspicions, crashes, ...) wherever they stand and common ones only in that stretch and group. So memory is
bounded by the stretch. Large runs are not validated: ``plainchant verify`` does that.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from ...core.model import SECOND, UsageError
from ...protocols.story import Message
from ...trace.reader import conform, find_files
from ...trace.schema import SCHEMA, Malformed, MalformedTrace
from ...trace.validation import validate
from ..reading import reading, whole
from ..standstills import COLUMNS as MEASURED
from ..standstills import KINDS, standstills
from .explainer import Explainer
from .rows import COLUMNS

SMALL: Final = 500_000
"""A run with at most this many rows is read and validated whole."""
_COMMON: Final = (
    *("send", "deliver", "null", "receive", "retransmit", "drop", "block", "unblock"),
    *("accept", "token", "stable", "sent", "decide", "late", "operation"),
)
_MOMENT: Final = pc.coalesce(pc.field("true_time"), pc.field("time"))


@dataclasses.dataclass(frozen=True)
class Found:
    """An explainer of one run, and what it explains."""

    run: str
    explainer: Explainer
    is_whole: bool
    """Whether all rows of the run were read and validated."""


def explainer_of(
    path: str | Path,
    run: str | None,
    *,
    message: Message | None = None,
    view: tuple[str, int | None] | None = None,
    process: str | None = None,
    is_standstill: bool = False,
    small: int = SMALL,
) -> Found:
    """The explainer for a question about a message, a view (without a number: all of its group), a process, or, with
    ``is_standstill``, why the process, or any, stood still. ``run`` may be left out if there is only one."""
    dataset = _open(path)
    run = _choose(dataset, run)
    of_run = pc.field("run") == run
    if dataset.count(of_run) <= small:
        table = dataset.table(of_run)
        malformed = validate(table)
        if malformed:
            raise MalformedTrace(malformed)
        return Found(run, Explainer(table), True)
    origin, is_global = _begin(dataset, of_run)
    if is_standstill:
        return _standing(dataset, run, process, origin)
    group = message[0] if message is not None else view[0] if view is not None else ""
    about = ~pc.field("kind").isin(_COMMON)
    if message is not None or (view is not None and view[1] is not None):
        first, last = _stretch(dataset, of_run, message, view, is_global=is_global)
        in_group = pc.field("group").is_valid() & (pc.field("group") == group) & (first <= _MOMENT)
        about = about | (in_group & (last >= _MOMENT))
        # A process that may not send while a view changes may do so some time after it.
        about = about | (in_group & pc.field("kind").isin(["block", "unblock"]) & (last + SECOND >= _MOMENT))
    if message is not None:
        about = about | _own_messages(message)
    if process is not None:
        _, last = _extent(dataset, of_run & (pc.field("process") == process))
        # What others sent it again last may be what it stopped for want of.
        again = (pc.field("kind") == "retransmit") & (last - SECOND <= _MOMENT) & (last + (not is_global) * SECOND >= _MOMENT)
        about = about | again | (pc.field("process") == process) | (pc.field("sender") == process)
    table = dataset.table(of_run & about, COLUMNS)
    return Found(run, Explainer(table, origin=origin, is_whole=False), False)


def _standing(dataset: _Rows, run: str, process: str | None, origin: int) -> Found:
    """The standstills of a large run, and the rows around the longest."""
    of_run = pc.field("run") == run
    found = standstills(dataset.table(of_run & pc.field("kind").isin(KINDS), MEASURED))
    about = ~pc.field("kind").isin(_COMMON)
    for longest in [each for each in found if process in (None, each.process)][:1]:
        within = (longest.since <= _MOMENT) & (longest.until >= _MOMENT)
        about = about | (within & pc.field("group").is_valid() & (pc.field("group") == longest.group))
        about = about | (pc.field("kind").isin(["block", "unblock"]) & (longest.until >= _MOMENT))
    table = dataset.table(of_run & about, COLUMNS)
    return Found(run, Explainer(table, origin=origin, is_whole=False, stood_still=found), False)


def _open(path: str | Path) -> _Rows:
    """The files as one dataset in the types of the schema; what is wrong with a file as a file is said first."""
    place = Path(path)
    if "://" not in str(path) and (place / "sweep.json").is_file():
        path = place / "trace"  # beside it stand tables of results, which are no trace
    filesystem, names = find_files(str(path))
    malformed: list[Malformed] = []
    for name in names:
        try:
            with filesystem.open_input_file(name) as source:
                schema = pq.read_schema(source)
            problems = conform(schema.empty_table())[1]
        except (OSError, pa.ArrowException) as error:
            problems = [f"not a readable Parquet file: {error}"]
        malformed += [Malformed(name, None, None, None, problem) for problem in problems]
    if malformed:
        raise MalformedTrace(malformed)
    return _Rows(str(path), ds.dataset(names, schema=SCHEMA, format="parquet", filesystem=filesystem))


class _Rows:
    """The rows of a path. Damage that shows only now is a sentence."""

    def __init__(self, path: str, data: ds.Dataset) -> None:
        self._path, self._data = path, data

    def count(self, where: Any) -> int:
        with reading(self._path):
            return int(self._data.count_rows(filter=where))

    def table(self, where: Any, columns: Sequence[str] | None = None) -> pa.Table:
        with reading(self._path):
            return whole(self._data.to_table(columns=None if columns is None else list(columns), filter=where))

    def batches(self, columns: Sequence[str], where: Any = None) -> Iterator[pa.Table]:
        with reading(self._path):
            for batch in self._data.to_batches(columns=list(columns), filter=where):
                yield whole(pa.Table.from_batches([batch]))


def _choose(dataset: _Rows, run: str | None) -> str:
    batches = (batch.column("run").unique().to_pylist() for batch in dataset.batches(["run"]))
    names = sorted({str(name) for batch in batches for name in batch if name is not None})
    shown = ", ".join(names[:5]) + (", ..." if len(names) > 5 else "")
    if not names:
        raise UsageError("there are no rows in this trace; give another path")
    if run is None and len(names) > 1:
        raise UsageError(f"there are {len(names):,} runs in this trace; choose one with --run: {shown}")
    if run is not None and run not in names:
        raise UsageError(f'there is no run "{run}" in this trace; there are: {shown}')
    return run if run is not None else names[0]


def _begin(dataset: _Rows, of_run: Any) -> tuple[int, bool]:
    """When the run began, as its readers count, and whether it has a global clock."""
    batches = (batch for batch in dataset.batches(["time", "true_time"], of_run) if batch.num_rows)
    facts = [(batch.column("true_time").null_count == 0, pc.min(batch.column("time")).as_py()) for batch in batches]
    is_global = all(has_all for has_all, _ in facts)
    return (0 if is_global else min(least for _, least in facts)), is_global


def _stretch(
    dataset: _Rows, of_run: Any, message: Message | None, view: tuple[str, int | None] | None, *, is_global: bool
) -> tuple[int, int]:
    """The time that a story covers. Without a global clock it is made wider, as clocks differ."""
    if message is not None:
        group, sender, seq = message
        wanted = (pc.field("group") == group) & (pc.field("sender") == sender) & (pc.field("seq") == seq)
        first, last = _extent(dataset, of_run & wanted)
    else:
        assert view is not None
        group, number = view
        views = of_run & (pc.field("kind") == "view") & (pc.field("group") == group)
        first, last = _extent(dataset, views & (pc.field("view") == number))
        # The view before may have lasted for ever; what was delivered in it is part of the story.
        before = [when for when in _moments(dataset, views) if when < first]
        first = max(before, default=first)
        first = min((when for when in before if when > first - SECOND), default=first)
    margin = 0 if is_global else SECOND + (last - first)
    return first - margin, last + margin


def _extent(dataset: _Rows, wanted: Any) -> tuple[int, int]:
    moments = _moments(dataset, wanted)
    return (min(moments), max(moments)) if moments else (0, -1)


def _moments(dataset: _Rows, wanted: Any) -> list[int]:
    table = dataset.table(wanted, ["time", "true_time"])
    return sorted(pc.coalesce(table.column("true_time"), table.column("time")).to_pylist())


def _own_messages(message: Message) -> Any:
    """The sender's sends and own deliveries, which tell its batches apart, and ``accept`` rows, which are only counted."""
    group, sender, seq = message
    there = (pc.field("process") == sender) & (pc.field("group") == group)
    own = pc.field("kind").isin(["send", "deliver"]) & (pc.field("sender") == sender) & (pc.field("seq") <= seq)
    return there & (own | (pc.field("kind") == "accept"))
