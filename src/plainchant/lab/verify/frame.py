"""Verification of a DataFrame as a DataFrame: a lazy plan, in which nothing comes to the driver.

The stages are those of ``job``, with a DataFrame's means:

1. *Certify*, as rows come (``mapInArrow``), and bring the certificates of each run together (half a byte to two bytes an event).
2. *Settle* each run. Large runs whose rows come in another order than their histories' are sorted by Spark and certified again.
3. *Search* the runs in doubt, each in a task of its own (``cogroup``): their rows are a semi-join of the input with a small
   broadcast table that says which rows are wanted, those about doubtful messages or all.

Every stage is in the plan whether it will be needed or not. Where it is not, the broadcast table is empty, which adaptive
execution sees before it reads: the input is read once. What several stages need is shuffled once more as it is (``_kept``), so
that Spark finds the shuffle again instead of computing it again; the functions after it choose among its rows, because filters
would be pushed through the shuffle and make different ones of it.
"""

from __future__ import annotations

import dataclasses
import pickle
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from ...trace.reader import conform
from ...trace.schema import SCHEMA, Malformed, MalformedTrace
from ...trace.validation import null_problems
from ..properties import PROPERTIES, Verification
from ..properties.certificates.evidence import Doubtful, Evidence
from ..properties.certificates.records import NOWHERE, Slice
from ..properties.certificates.shared import Shared, spliced, unpacked
from ..properties.certificates.unit import Unit
from ..properties.certificates.wanted import joined
from ..properties.facts import COLUMNS, Columns, Run
from ..properties.narrowing.narrow import Narrowed, narrow
from ..properties.report import MAX_SHOWN
from ..session import send_code
from . import parts
from .check import Found, judge_alone, look_closely, needed_of, plain, settle_narrowed
from .results import (
    MAX_PROBLEMS,
    RESULTS,
    RESULTS_SQL,
    TOLD,
    Options,
    Sum,
    packed_row,
    rows_of,
    slice_rows,
    sql_of,
    unzipped,
    verification_of,
)

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

UNIT_ROWS: Final = 500_000  # rows that come through Spark are put together to units of this size
_SLICES_A_BATCH: Final = 100
_PIECE_ROWS: Final = 1_000_000  # rows of a history that are sorted together
_RANGES: Final = 64  # ranges of numbers in which a run's doubtful messages are looked for; more are put together
_OPEN_SQL: Final = "key string, value binary"
_WANTED: Final = pa.schema(
    [
        *((name, pa.string()) for name in ("wanted_run", "wanted_sender", "wanted_process")),
        *((name, pa.int64()) for name in ("low", "high", "took", "waited")),  # of numbers or indices; longer sends and deliveries
        ("all", pa.bool_()),
    ]
)


def conformed(frame: DataFrame, said: str) -> DataFrame:
    """The columns of a trace in their types, then the others; ``said`` names the frame in what is said of it.

    Raises MalformedTrace if a column is missing, stands there twice, or has a type that cannot hold its values."""
    from pyspark.sql import functions as F
    from pyspark.sql.pandas.types import to_arrow_schema

    problems = conform(to_arrow_schema(frame.schema).empty_table())[1]
    if problems:
        raise MalformedTrace([Malformed(said, None, None, None, problem) for problem in problems])
    types = [part.rsplit(" ", 1) for part in sql_of(SCHEMA).split(", ")]
    columns = [F.col(name).cast(type_).alias(name.strip("`")) for name, type_ in types]
    return frame.select(*columns, *(F.col(f"`{name}`") for name in frame.columns if name not in SCHEMA.names))


def results(trace: DataFrame, options: Options, *, in_order: bool = True) -> DataFrame:
    """What verification finds in a trace, as rows of ``results.RESULTS``: a lazy DataFrame.

    ``trace`` has the columns of a trace in their types (``conformed``), and gives the same rows whenever it is read. A run in
    which something is malformed has no other rows than those that say so. ``in_order=False`` if it is known that rows are in
    another order than their histories': they are sorted first then."""
    send_code(trace.sparkSession)
    rows = trace.select(*COLUMNS)
    if in_order:
        first = _kept(_settled(rows, options, sort_later=True))
        again = _of_runs(rows, _chosen(first, _unsorted, "wanted_run string"))
        second = _settled(sorted_rows(again), options)
        settled = _kept(first.mapInArrow(_without_unsorted, RESULTS_SQL).unionByName(second))
    else:
        settled = _kept(_settled(sorted_rows(rows), options))
    return settled.mapInArrow(_told, RESULTS_SQL).unionByName(_searched(rows, settled, options))


def verification_in(found: DataFrame, properties: Sequence[str] | None = None, *, most: int | None = MAX_SHOWN) -> Verification:
    """What ``results`` come to, as ``job.verify`` says it. Those of a partition are added up where they are."""
    options = Options(tuple(properties) if properties is not None else None, most)
    return verification_of(summed(found, options), options)


def summed(found: DataFrame, options: Options) -> Sum:
    """Results added up, first by partition, then here."""
    total = Sum()
    total.add_rows(found.mapInArrow(partial(_summed, options), RESULTS_SQL).toArrow())
    return total


def _summed(options: Options, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    total = Sum()
    for batch in batches:
        total.add_rows(batch)
        total.thinned(options.most)
    yield from rows_of(total, "sum")


# --- the plan -----------------------------------------------------------------------------------------------------------


def _kept(frame: DataFrame) -> DataFrame:
    """Rows that several stages need: behind a shuffle, which Spark makes once."""
    return frame.repartition("key")


def _chosen(kept: DataFrame, choose: Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]], schema: str) -> DataFrame:
    from pyspark.sql import functions as F

    return F.broadcast(kept.mapInArrow(choose, schema))


def _settled(rows: DataFrame, options: Options, *, sort_later: bool = False) -> DataFrame:
    certified = rows.mapInArrow(certify, RESULTS_SQL)
    return certified.repartition("key").mapInArrow(partial(settle, options, sort_later=sort_later), RESULTS_SQL)


def sorted_rows(rows: DataFrame) -> DataFrame:
    """The rows in the order of their histories, a million rows of a history at a time: no sample has to be taken for that."""
    from pyspark.sql import functions as F

    piece = F.floor(F.col("index") / _PIECE_ROWS)
    return rows.repartition("run", "process", piece).sortWithinPartitions("run", "process", "index")


def _of_runs(rows: DataFrame, runs: DataFrame) -> DataFrame:
    from pyspark.sql import functions as F

    return rows.join(runs, F.col("run") == F.col("wanted_run"), "left_semi")


def _searched(rows: DataFrame, settled: DataFrame, options: Options) -> DataFrame:
    """The open runs, decided by the rows about them."""
    wanted = _chosen(settled, _wanted, sql_of(_WANTED))
    rows = rows.join(wanted, _is_wanted(), "left_semi")
    still_open = settled.mapInArrow(_open, _OPEN_SQL)
    return still_open.groupBy("key").cogroup(rows.groupBy("run")).applyInArrow(partial(_search, options), RESULTS_SQL)


def _is_wanted() -> Column:
    from pyspark.sql import functions as F

    kind, is_near = F.col("kind"), {name: F.col(name).between(F.col("low"), F.col("high")) for name in ("seq", "index")}
    about = (F.col("sender") == F.col("wanted_sender")) & is_near["seq"]
    there = (F.col("process") == F.col("wanted_process")) & is_near["index"]
    took = F.get_json_object("detail", "$.took_ns").cast("bigint") > F.col("took")
    waited = F.col("true_time") - F.col("sent") > F.col("waited")
    slow = (kind.isin("send", "sent") & took) | ((kind == "deliver") & waited)
    return (F.col("run") == F.col("wanted_run")) & F.coalesce(F.col("all") | about | there | slow, F.lit(False))


# --- what its tasks do --------------------------------------------------------------------------------------------------


def certify(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Rows in, certificates out, a unit at a time."""
    for table in units_of(batches):
        yield from _certified(table)


def units_of(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
    """Rows that come through Spark, put together to tables that are worth a unit."""
    waiting: list[pa.RecordBatch] = []
    for batch in batches:
        waiting.append(batch)
        if sum(part.num_rows for part in waiting) >= UNIT_ROWS:
            yield parts.typed(pa.Table.from_batches(waiting), None)
            waiting = []
    if waiting:
        yield parts.typed(pa.Table.from_batches(waiting), None)


def _certified(table: pa.Table) -> Iterator[pa.RecordBatch]:
    unit = Unit(table)
    by_run: dict[str | None, list[Malformed]] = {}
    for problem in null_problems(table, ()) if unit.without_place else ():
        mine = by_run.setdefault(problem.run, [])
        if len(mine) < MAX_PROBLEMS:
            mine.append(problem)
    for run, problems in by_run.items():
        yield from rows_of(Sum(malformed=problems), run)
    places = [place for place, run in enumerate(unit.runs) if run not in by_run]
    for first in range(0, len(places), _SLICES_A_BATCH):
        slices = (compact(unit.slice(place, alone=True)) for place in places[first : first + _SLICES_A_BATCH])
        yield from slice_rows(slices)


def compact(part: Slice) -> Slice:
    """A slice as it travels: its skeleton without the rest of the unit's, of which it is a view. Where rows stand in any order
    there is an interval for almost every row; then the run is sorted or searched, and only what says so is sent."""
    skeleton = part.skeleton
    if any(extent.jumps for extent in part.extents):
        part = dataclasses.replace(part, suspect=True, delivered=[], sent=[], own=[], tapes=[], weaves=[], stops=[], moves=[])
        part = dataclasses.replace(part, claims=[], timed=[], taken=[], ranks=None, blocks=[], turns=[], dated=[], waits=None)
        skeleton = None if skeleton is None else skeleton.slice(0, 0)
    if skeleton is not None:
        skeleton = plain(skeleton).take(pa.array(range(skeleton.num_rows), pa.int64()))
    tapes = [tape._replace(kept=spliced(tape.codes, tape.cuts, part.senders), cuts=NOWHERE) for tape in part.tapes]
    part = dataclasses.replace(part, skeleton=skeleton, tapes=tapes, blocks=[each.put_together() for each in part.blocks])
    if part.waits is not None:
        part.waits = dataclasses.replace(part.waits, handed=[each.folded() for each in part.waits.handed])
    return part


def settle(options: Options, batches: Iterator[pa.RecordBatch], *, sort_later: bool = False) -> Iterator[pa.RecordBatch]:
    """Brings the certificates of each run together. Passes on what is settled, and what is known of runs that are not."""
    slices: dict[str, list[bytes]] = {}
    known: dict[str, dict[bytes, Shared]] = {}
    malformed: set[str | None] = set()
    for batch in batches:
        for row in _of_kinds(batch, ("slice", "shared")).select(["kind", "run", "value"]).to_pylist():
            if row["kind"] == "slice":
                slices.setdefault(row["run"], []).append(row["value"])
            else:
                shared = Shared(unzipped(row["value"]))
                known.setdefault(row["run"], {}).setdefault(shared.key, shared)
        problems = _of_kinds(batch, ("malformed",))
        malformed.update(problems.column("key").to_pylist())
        yield problems
    for run in sorted(slices.keys() - malformed):
        values, named = slices.pop(run)[::-1], known.pop(run, {})
        found = settled_run(run, [unpacked(unzipped(values.pop()), named) for _ in range(len(values))], options)
        if sort_later and found.out_of_order and found.rows >= options.large_rows:
            yield packed_row(run, "unsorted", None)
        elif found.is_open:
            yield packed_row(run, "open", found)
        else:
            yield from rows_of(found, run, run)


def settled_run(run: str, slices: Sequence[Slice], options: Options) -> Found:
    """What the certificates of a run come to. Digests of a large run that are left to compare are narrowed down like doubts."""
    found = judge_alone(
        run, slices, options.properties, options.most, narrow_from=options.large_rows, whole_up_to=options.whole_up_to
    )
    found.tell_misplaced(options.large_rows)
    if found.unresolved and found.rows >= options.large_rows and not found.doubtful:
        skeleton = pa.concat_tables([part.skeleton for part in slices], promote_options="permissive")
        evidence = Evidence(Run(run, Columns(skeleton), range(skeleton.num_rows)), slices)
        doubts = {"integrity", *(_names(found.narrowed) if found.narrowed is not None else ())}
        try:
            narrowed = narrow(evidence, [name for name in PROPERTIES if name in doubts], options.properties)
        except Doubtful:
            return found
        if doubts <= _names(narrowed):
            found.narrowed, found.unresolved = narrowed, ()
            found.outcomes.pop("integrity", None)
    return found


def _of_kinds(batch: pa.RecordBatch, kinds: Sequence[str]) -> pa.RecordBatch:
    return batch.filter(pc.is_in(batch.column("kind"), pa.array(kinds)))


def _told(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        yield _of_kinds(batch, TOLD)


def _without_unsorted(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        yield _of_kinds(batch, (*TOLD, "open"))


def _unsorted(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        yield _of_kinds(batch, ("unsorted",)).select(["key"]).rename_columns(["wanted_run"])


def _open(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        yield _of_kinds(batch, ("open",)).select(["key", "value"])


def _wanted(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Which rows the search of open runs needs: all of a run, or those about some messages of its."""
    for batch in _open(batches):
        rows = [row for packed in batch.column("value").to_pylist() for row in wanted_of(pickle.loads(packed))]
        yield pa.RecordBatch.from_pylist(rows, schema=_WANTED)


def wanted_of(found: Found) -> list[dict[str, Any]]:
    """The rows of one run that decide what is open of it."""
    is_left = bool(found.doubtful or found.unresolved) and not found.is_partial
    if not found.is_narrowed or is_left or found.suspect or found.untimed is not None:
        return [{"wanted_run": found.run, "all": True}]
    wanted = []
    if found.narrowed is not None:
        messages = found.narrowed.messages.items()
        wanted += [("wanted_sender", *span) for span in _in_ranges([(sender, ranges) for (_, sender), ranges in messages])]
    few = needed_of(found).wanted
    if few is not None:
        senders = joined((((sender,), low, high) for _, sender, low, high in few.messages))
        processes = joined((((process,), low, high) for process, low, high in few.rows))
        for name, spans in (("wanted_sender", senders), ("wanted_process", processes)):
            wanted += [(name, *span) for span in _in_ranges([(one, ranges) for (one,), ranges in spans.items()])]
    rows: list[dict[str, Any]] = [{name: of, "low": low, "high": high} for name, of, low, high in wanted]
    if few is not None and (few.send is not None or few.deliver is not None):
        rows.append({"took": few.send, "waited": few.deliver})
    return [{"wanted_run": found.run, "all": False, **row} for row in rows]


def _in_ranges(spans: Sequence[tuple[str, Sequence[tuple[int, int]]]]) -> Iterator[tuple[str, int, int]]:
    per_name = max(1, _RANGES // max(1, len(spans)))
    for name, ranges in spans:
        size = -(-len(ranges) // per_name)  # neighbours are put together: rows between them are read for nothing
        for first in range(0, len(ranges), size):
            yield name, ranges[first][0], ranges[min(first + size, len(ranges)) - 1][1]


def _search(options: Options, left: pa.Table, right: pa.Table) -> pa.Table:
    """Decides what is open of one run."""
    batches: list[pa.RecordBatch] = []
    for packed in left.column("value").to_pylist():
        found: Found = pickle.loads(packed)
        batches += rows_of(decided(found, right, options), found.run, found.run)
    return pa.Table.from_batches(batches, RESULTS)


def decided(found: Found, rows: pa.Table, options: Options) -> Found:
    """A run whose open questions the exact checks have answered, from the rows that were wanted, in any order."""
    table = parts.typed(rows, None)
    if found.is_narrowed:
        settle_narrowed(found, plain(table.filter(needed_of(found).among(table))), options.most)
    if found.is_open:
        look_closely(found, table, (), options.properties, options.most)
    return found


# --- what is needed of ``Narrowed`` -------------------------------------------------------------------------------------


def _names(narrowed: Narrowed) -> set[str]:
    return set(narrowed.cases)
