"""Traces with violations in them, beside the same trace without: how much longer does a verification take that finds some?

The trace is the one of ``traces``, and states more: sends have deadlines, deliveries and waits have bounds. A plant spoils rows
of one process at places that are evenly spaced, or adds rows to the end of its history; it breaks one property at least.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from plainchant.lab.errors import LabError

from .memory import Peak
from .traces import SPACING_NS, Shape, SortedWriter, start_detail, tables

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Ints = npt.NDArray[np.int64]

SEVERAL: Final = 1_000
"""Violations of a trace that has several."""
FURTHER: Final = ("deadline", "bounded", "progress", "prompt", "unanimity", "lock-exclusion", "replica-agreement")
_LATER: Final = 100 * 10**9
_DUE: Final = 10 * 10**9


@dataclass(frozen=True)
class Violated:
    """One measurement: verification of a trace with violations of a property, and how often as long as without them it took."""

    property: str
    planted: int
    events: int
    seconds: float
    ratio_to_clean: float
    peak_mb: int | None
    violations: int


def made(directory: Path, shape: Shape, plant: str | None, count: int) -> Path:
    """The trace with so many violations of a property, or with none; made if it is not there already."""
    target = directory / f"{shape.name}-stating-{plant or 'clean'}-{count if plant else 0}"
    if not (target / "trace").is_dir():
        writer = SortedWriter(target)
        with writer:
            for table in _spoilt(shape, plant, count):
                writer.write(table)
    return target / "trace"


def measure(
    spark: SparkSession,
    directory: Path,
    shape: Shape,
    apart: Callable[..., Path],
    *,
    rounds: int,
    without: Sequence[int],
    progress: Callable[[str], None],
) -> Iterator[Violated]:
    """The clean trace, then each plant, once and ``SEVERAL`` times; a round of the clean one before each, for the ratio."""
    clean = apart(made, directory, shape, None, 0)
    yield _best(spark, clean, clean, "", 0, shape, rounds, without)
    for plant in PLANTS:
        for count in (1, SEVERAL):
            progress(f"verifying {shape.events:,} events with {count:,} violations of {plant}")
            path = apart(made, directory, shape, plant, count)
            yield _best(spark, clean, path, plant, count, shape, rounds, without)


def _best(
    spark: SparkSession, clean: Path, path: Path, plant: str, count: int, shape: Shape, rounds: int, without: Sequence[int]
) -> Violated:
    ours, base, peaks, violations = [], [], [], 0
    for _ in range(rounds):
        base.append(_verified(spark, clean, "")[0])
        with Peak(without=list(without)) as peak:
            seconds, violations = _verified(spark, path, plant)
        ours.append(seconds)
        peaks.append(peak.bytes)
    taken = [each for each in peaks if each is not None]
    most = round(max(taken) / 1_000_000) if taken else None
    return Violated(plant, count, shape.events, round(min(ours), 3), round(min(ours) / min(base), 2), most, violations)


def _verified(spark: SparkSession, path: Path, plant: str) -> tuple[float, int]:
    """Seconds, and how many violations or malformed rows were found; an error if that is not what was planted."""
    from plainchant.lab.verify import verify

    began = time.perf_counter()
    result = verify(spark, [str(path)])
    seconds = time.perf_counter() - began
    verdict = {"": "holds", MALFORMED: "malformed"}.get(plant, "violated")
    found = result.properties[plant].violations if verdict == "violated" and plant in result.properties else 0
    if result.verdict != verdict or (verdict == "violated" and not found):
        raise LabError(f"the trace at {path} is {result.verdict}, not {verdict}; remove that directory and measure again")
    return seconds, found or len(result.malformed)


def _spoilt(shape: Shape, plant: str | None, count: int) -> Iterator[pa.Table]:
    spoil = PLANTS[plant] if plant is not None else None
    last, span = f"p{shape.members}", SPACING_NS * shape.events // (shape.members + 1)
    for table in tables(shape):
        stated = _stating(table, span)
        if spoil is not None and spoil.rows is None:
            chosen = _places(stated, f"p{min(2, shape.members)}", shape.events // shape.members, count)
            stated = spoil.change(stated, chosen, span)
        kinds, processes = (stated.column(name).cast(pa.string()) for name in ("kind", "process"))
        end = pc.indices_nonzero(pc.and_(pc.equal(kinds, "end"), pc.equal(processes, last))).to_pylist()
        if spoil is not None and spoil.rows is not None and end:
            stated = _with_rows(stated, end[0], list(spoil.rows(count)))
        coded = [name for name in table.column_names if pa.types.is_dictionary(table.schema.field(name).type)]
        for name in coded:
            stated = _set(stated, name, stated.column(name).cast(pa.string()).dictionary_encode())
        yield stated.unify_dictionaries().combine_chunks()


def _stating(table: pa.Table, span: int) -> pa.Table:
    """The rows with deadlines at sends, and with more stated at the start. ``span``: about how long the run takes."""
    detail = json.loads(start_detail())
    detail["promises"] = list(dict.fromkeys((*detail["promises"], *FURTHER)))
    told = json.dumps(
        {**detail, "bounds": {"deliver": _LATER // 10, "progress": span // 8}}, separators=(",", ":"), sort_keys=True
    )
    details = table.column("detail").cast(pa.string())
    table = _set(table, "detail", pc.if_else(pc.equal(details, start_detail()), told, details))
    is_send = pc.equal(table.column("kind").cast(pa.string()), "send")
    return _set(table, "deadline", pc.if_else(is_send, pc.add(table.column("time"), _DUE), pa.scalar(None, pa.int64())))


def _set(table: pa.Table, name: str, column: Any) -> pa.Table:
    return table.set_column(table.column_names.index(name), name, column)


def _places(table: pa.Table, process: str, rows: int, count: int) -> Ints:
    """Deliveries of a process near evenly spaced places of its history, each followed by another."""
    kinds, processes = (table.column(name).cast(pa.string()) for name in ("kind", "process"))
    mine = np.asarray(pc.and_(pc.equal(kinds, "deliver"), pc.equal(processes, process)))
    pairs = np.flatnonzero(mine[:-1] & mine[1:])
    index = table.column("index").to_numpy()[pairs]
    wanted = np.linspace(0, rows, count + 2)[1:-1].astype(np.int64)
    wanted = wanted[(wanted >= index.min(initial=rows)) & (wanted <= index.max(initial=-1))] if len(index) else wanted[:0]
    return pairs[np.unique(np.searchsorted(index, wanted))[: len(wanted)]] if len(wanted) else wanted


@dataclass(frozen=True)
class Plant:
    """How a property is broken: by rows that are changed, or by rows that are added."""

    change: Callable[[pa.Table, Ints, int], pa.Table] = lambda table, at, span: table
    rows: Callable[[int], Iterator[dict[str, Any]]] | None = None


def _swap(table: pa.Table, at: Ints, span: int) -> pa.Table:
    order = np.arange(table.num_rows)
    at = at[np.diff(at, prepend=-2) > 1]
    order[at], order[at + 1] = at + 1, at
    for name in ("sender", "seq", "sent", "rank", "digest"):
        table = _set(table, name, table.column(name).take(pa.array(order)))
    return table


def _shift(by: int, names: Sequence[str], table: pa.Table, at: Ints, span: int) -> pa.Table:
    shift = np.zeros(table.num_rows, np.int64)
    shift[at] = by
    for name in names:
        table = _set(table, name, pc.add(table.column(name), pa.array(shift)))
    return table


def _late(table: pa.Table, at: Ints, span: int) -> pa.Table:
    """By more than ``progress`` allows, and well before the end."""
    return _shift(span // 4, ["time", "true_time"], table, at, span)


def _overdue(table: pa.Table, at: Ints, span: int) -> pa.Table:
    late = np.zeros(table.num_rows, np.bool_)
    late[at] = True
    return _set(table, "deadline", pc.if_else(pa.array(late), pc.subtract(table.column("time"), 1), table.column("deadline")))


def _with_rows(table: pa.Table, at: int, rows: Sequence[Mapping[str, Any]]) -> pa.Table:
    """Rows of the same history before its last one, which is the table's row at that place."""
    plain = pa.schema([(f.name, f.type.value_type if pa.types.is_dictionary(f.type) else f.type) for f in table.schema])
    end = table.slice(at, 1).cast(plain)
    shared = {name: end.column(name)[0].as_py() for name in ("run", "process", "time", "true_time")}
    first = end.column("index")[0].as_py()
    new = [{**shared, "group": "g", "index": first + number, **row} for number, row in enumerate(rows)]
    end = _set(end, "index", pa.chunked_array([pa.array([first + len(rows)])]))
    parts = [table.slice(0, at).cast(plain), pa.Table.from_pylist(new, plain), end, table.slice(at + 1).cast(plain)]
    return pa.concat_tables(parts)


def _about(kind: str, count: int) -> Iterator[dict[str, Any]]:
    """Rows of a kind about messages that have been delivered."""
    return ({"kind": kind, "sender": "p1", "seq": number + 1} for number in range(count))


def _notes(count: int, **detail: Any) -> Iterator[dict[str, Any]]:
    for number in range(2 * count):
        token = {"token": number // 2 + 1} if detail["note"] == "lock" else {}
        yield {"kind": "note", "detail": json.dumps({"block": f"b{number // 2}", **detail, **token})}


def _applied(count: int) -> Iterator[dict[str, Any]]:
    """Commands that are applied to a block, and were not delivered."""
    for number in range(count):
        detail = {"note": "sum", "block": "b", "event": "apply", "digest": str(number)}
        yield {"kind": "note", "sender": "p1", "seq": 10**9 + number, "detail": json.dumps(detail)}


MALFORMED: Final = "malformed"
PLANTS: Final[Mapping[str, Plant]] = {
    "identical": Plant(_swap),
    "bounded": Plant(partial(_shift, -_LATER, ["sent"])),
    "deadline": Plant(_overdue),
    "progress": Plant(_late),
    "unanimity": Plant(rows=partial(_about, "reject")),
    "prompt": Plant(rows=partial(_about, "block")),
    "lock-exclusion": Plant(rows=partial(_notes, note="lock", event="hold", members=["p1"])),
    "replica-agreement": Plant(rows=_applied),
    MALFORMED: Plant(partial(_shift, 7, ["view"])),
}
