"""Verification of traces of any size on Spark.

One job. Its tasks take a chunk each (``parts``), make certificates of every row group (``properties.certificates``), settle the
runs that are whole there (``check``), and pass on the certificates of runs that may continue elsewhere. One shuffle brings those
of a run together, and a second function settles these runs (``properties.proof``) and adds up what tasks have settled, so that
the driver gets one sum a partition (``results``). Of what the certificates of a run have in common, one copy is kept on the way,
by one more shuffle where there are many chunks: they grow with its messages, and not with its deliveries.

Where certificates leave a large run in doubt, its doubtful messages are named (``properties.narrowing``); their rows alone are
fetched by a second job and searched. Only what cannot be narrowed down is read again, whole, by one task a run, and the reference
checks decide.

Two kinds of input go through Spark's own reader and are verified as DataFrames (``frame``): addresses that Arrow cannot open, and
files whose rows stand in another order than their histories'. Between driver and tasks there are only Arrow tables, and nothing
needs more than a SparkSession: it is the same on one machine, on a cluster, and behind Spark Connect.
"""

from __future__ import annotations

import dataclasses
import functools
import pickle
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from functools import partial
from itertools import accumulate
from typing import TYPE_CHECKING, Any, Final, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from ...core.model import TraceError
from ...trace.reader import Part, within
from ...trace.schema import SCHEMA, Malformed, MalformedTrace
from ...trace.validation import null_problems
from ..properties import Verification
from ..properties.certificates.evidence import Messages
from ..properties.certificates.records import Slice
from ..properties.certificates.unit import Unit
from ..properties.certificates.untimed import Untimed
from ..properties.certificates.waits import stated_bound
from ..properties.facts import COLUMNS
from ..properties.narrowing.portion import WHOLE_UP_TO
from ..properties.reference import require_known
from ..properties.report import MAX_SHOWN
from ..properties.timing import deadlines
from ..properties.timing.deadlines import Timed, timed
from ..session import send_code
from ..session import slots as slots_of
from ..session.progress import watched
from . import frame, parts
from .beside import AGAIN, APART, Beside, Rows
from .check import Found, Needed, look_closely, needed_of, plain, proved, rows_of, settle_narrowed
from .results import LARGE_ROWS, MAX_PROBLEMS, RESULTS_SQL, TOLD, Options, Sum, packed_row, slice_rows, sql_of, verification_of
from .results import rows_of as result_rows
from .tasks import tasks

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_TRACE: Final = pa.schema([(name, SCHEMA.field(name).type) for name in COLUMNS])
DIGEST_SCHEMA: Final = pa.schema(
    [("run", pa.string()), ("group", pa.string()), ("sender", pa.string()), ("seq", pa.int64()), ("digest", pa.int64())]
)
_LATE_SQL: Final = "late array<struct<group: string, sender: string, low: bigint, high: bigint>>"
_TIMED_SQL: Final = f"run string, cases bigint, {_LATE_SQL}"
_MESSAGES: Final = pa.struct([(name, pa.string()) for name in ("group", "sender")] + [(n, pa.int64()) for n in ("low", "high")])
_TIMED: Final = pa.schema([("run", pa.string()), ("cases", pa.int64()), ("late", pa.list_(_MESSAGES))])

T = TypeVar("T")

_FILE: Final = "file"  # the column with the file from which a row is
_SUMS_HERE: Final = 64  # sums of more tasks do not come to the driver one by one
_SPLIT_HERE: Final = 16  # what slices of more chunks have in common is brought together by tasks, before they meet
_LEAST_UNIT: Final = 100_000  # rows; smaller row groups are put together
_ROWS_A_PARTITION: Final = 5_000_000


def verify(
    spark: SparkSession,
    paths: Sequence[str],
    properties: Sequence[str] | None = None,
    *,
    most: int | None = MAX_SHOWN,
    chunk_rows: int = parts.CHUNK_ROWS,
    least_rows: int = parts.LEAST_ROWS,
    large_rows: int = LARGE_ROWS,
    search_up_to: int = WHOLE_UP_TO,
    progress: Callable[[str, float], None] | None = None,
    beside: Beside | None = None,
    results: dict[str, bytes] | None = None,
) -> Verification:
    """Verifies every run of some traces: files, directories, globs, addresses.

    ``properties`` is as for ``lab.properties.verify``, whose verdicts and counts these are. ``most`` limits how many violations
    of a property are described for each run (None: all). ``progress`` is called now and then with what is being done and the
    share of it that is done. ``search_up_to``: rows of a run that are searched whole; of a larger one, a portion. ``beside`` is
    computed of the same rows; its results are put into ``results``, by run."""
    require_known(properties or ())
    send_code(spark)
    paths = [str(path) for path in paths]
    options = Options(tuple(properties) if properties is not None else None, most, large_rows, search_up_to, beside)
    try:
        plan = parts.plan(paths, slots_of(spark), chunk_rows=chunk_rows, least_rows=least_rows, spark=spark)
        total = Sum()
        with watched(spark, progress, "reading"):
            open_runs = _verify_chunks(spark, plan, options, total) if plan.chunks else []
        if total.malformed:  # nothing is verified then
            return verification_of(total, options)
        apart = {found.run for found in open_runs if found.out_of_order and found.rows >= large_rows}
        if apart:
            open_runs = [found for found in open_runs if found.run not in apart]
            for source in _sources_of(plan, apart):
                with watched(spark, progress, "sorting"):
                    _verify_sorted(spark, source, options, total)
        for path in plan.foreign:
            with watched(spark, progress, "sorting"):
                _verify_sorted(spark, _Source(path, (path,), f"{path}:" if len(set(paths)) > 1 else ""), options, total)
        if any(found.unresolved for found in open_runs):
            with watched(spark, progress, "comparing"):
                messages = _unresolved(open_runs)
                digests = tasks(spark, plan.pieces_with_any(messages), partial(_digests, messages), sql_of(DIGEST_SCHEMA))
                open_runs = _compare(digests, open_runs, total)
        if any(found.untimed is not None for found in open_runs):
            with watched(spark, progress, "timing"):
                wanted = _untimed(open_runs)
                moments = tasks(spark, plan.pieces_with_any(wanted), partial(_times, wanted), sql_of(deadlines.BLOCKS))
                open_runs = _time(moments, _partitions(spark, plan.rows), open_runs, total)
        if any(found.is_narrowed for found in open_runs):
            with watched(spark, progress, "searching"):
                open_runs = _search_narrowed(
                    lambda wanted: tasks(spark, plan.pieces_with_any(wanted), partial(_about, wanted), sql_of(_TRACE)),
                    *(_partitions(spark, plan.rows), open_runs, options, total),
                )
        if open_runs:
            with watched(spark, progress, "searching"):
                _search(spark, plan, open_runs, options, total)
        again = {run for run, result in total.beside.items() if result == AGAIN}
        if again and beside is not None and not total.malformed:
            with watched(spark, progress, "measuring"):
                total.beside |= compute(spark, plan, beside, again)
        if results is not None:
            results |= total.beside
    except MalformedTrace as error:
        return verification_of(Sum(malformed=list(error.malformed)), options)
    return verification_of(total, options)


def planned(spark: SparkSession, paths: Sequence[str], properties: Sequence[str] | None = None) -> tuple[int, DataFrame]:
    """How many chunks ``verify`` reads, and the DataFrame of its first job, which settles what can be settled."""
    plan = parts.plan(paths, slots_of(spark), spark=spark)
    return len(plan.chunks), _settled(spark, plan, Options(tuple(properties) if properties is not None else None, MAX_SHOWN))


def compute(spark: SparkSession, plan: parts.Plan, beside: Beside, runs: Set[str]) -> dict[str, bytes]:
    """The results of some runs, from partials with everything in them and without verification."""
    made = tasks(spark, plan.pieces_with_any(runs), partial(_partials, beside, frozenset(runs)), RESULTS_SQL)
    return _settled_beside(made, _partitions(spark, plan.rows), beside)


def _partials(beside: Beside, runs: Set[str], piece: parts.Piece) -> Iterator[pa.RecordBatch]:
    for table in parts.read(piece, columns=beside.columns):
        yield from _shipped(beside, ((run, each) for run, each in beside.partials(Rows(table), everything=True) if run in runs))


def _partials_in(beside: Beside, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for table in frame.units_of(batches):
        yield from _shipped(beside, beside.partials(Rows(table), everything=True))


def _shipped(beside: Beside, partials: Iterable[tuple[str, Any]]) -> Iterator[pa.RecordBatch]:
    return (packed_row(run, "partial", beside.shipped(each)) for run, each in partials)


def _settled_beside(partials: DataFrame, partitions: int, beside: Beside) -> dict[str, bytes]:
    """Brings the partials of each run together."""
    settle, total = partial(_settle, Options((), 0, beside=beside)), Sum()
    total.add_rows(partials.repartition(partitions, "key").mapInArrow(settle, RESULTS_SQL).toArrow())
    return total.beside


def _verify_chunks(spark: SparkSession, plan: parts.Plan, options: Options, total: Sum) -> list[Found]:
    """Settles what can be settled; returns the runs that have to be searched."""
    return _collect(_settled(spark, plan, options), options, total)


def _settled(spark: SparkSession, plan: parts.Plan, options: Options) -> DataFrame:
    """What tasks settle, and the runs that are open. Sums of many tasks are added up by tasks."""
    split = sum(chunk.elsewhere is None or len(chunk.elsewhere) > 0 for chunk in plan.chunks)
    partitions, apart = _partitions(spark, plan.rows), split > _SPLIT_HERE
    found = tasks(spark, _work(plan), partial(_certify_chunk, options, apart=apart), RESULTS_SQL)
    if apart:
        found = found.repartition(partitions, "key").mapInArrow(_each_once, RESULTS_SQL)
    if split or len(plan.chunks) > _SUMS_HERE:
        settle = partial(_settle, options, tasks=partitions)
        found = found.repartition(partitions, "key").mapInArrow(settle, RESULTS_SQL)
    return found


def _work(plan: parts.Plan) -> list[tuple[int, parts.Chunk]]:
    """The chunks, with their numbers. Those that hold several runs, and settle them, take longest: they are begun first."""
    return sorted(enumerate(plan.chunks), key=lambda work: work[1].is_of_one_run)


def _partitions(spark: SparkSession, rows: int) -> int:
    """One for every few million events, so that a partition's certificates are some megabytes."""
    return max(slots_of(spark), rows // _ROWS_A_PARTITION)


def _collect(rows: DataFrame, options: Options, total: Sum) -> list[Found]:
    """Adds results to the sum; returns what is known of runs that are open."""
    table = rows.toArrow()
    total.add_rows(table)
    total.thinned(options.most)
    values = table.filter(pc.equal(table.column("kind"), "open")).column("value").to_pylist()
    return sorted(map(pickle.loads, values), key=lambda found: found.run)


def _unresolved(open_runs: Sequence[Found]) -> dict[str, tuple[Messages, ...]]:
    return {found.run: found.unresolved for found in open_runs if found.unresolved}


def _compare(digests: DataFrame, open_runs: list[Found], total: Sum) -> list[Found]:
    """Compares the digests that certificates could not; returns the runs that are still open."""
    from pyspark.sql import functions as F

    kinds = digests.groupBy("run", "group", "sender", "seq").agg(F.count_distinct("digest").alias("kinds"))
    differing = kinds.filter("kinds > 1")
    wrong = {row["run"] for row in differing.select("run").distinct().collect()}
    for found in open_runs:
        if found.run not in wrong:
            found.unresolved = ()
    return _still_open(open_runs, total)


def _still_open(runs: list[Found], total: Sum) -> list[Found]:
    """The runs that are not settled yet; the others go into the sum."""
    for found in runs:
        if not found.is_open:
            total.add(found)
    return [found for found in runs if found.is_open]


def _time(moments: DataFrame, partitions: int, open_runs: list[Found], total: Sum) -> list[Found]:
    """Holds deliveries against the deadlines of their sends; returns the runs that are still open."""
    wanted = _untimed(open_runs)
    together = moments.repartition(partitions, "run", "group", "sender", "block")
    seen = together.mapInArrow(partial(_timed, wanted), _TIMED_SQL).toArrow().to_pylist()
    by_run: dict[str, list[Timed]] = {}
    for row in seen:
        late = None if row["late"] is None else tuple(tuple(each.values()) for each in row["late"])
        by_run.setdefault(row["run"], []).append(Timed(row["cases"], late))
    for found in open_runs:
        found.settle_times(deadlines.together(by_run.get(found.run, [])))
    return _still_open(open_runs, total)


def _untimed(open_runs: Sequence[Found]) -> dict[str, Untimed]:
    return {found.run: found.untimed for found in open_runs if found.untimed is not None}


def _search_narrowed(
    rows_about: Callable[[Mapping[str, Needed]], DataFrame],
    partitions: int,
    open_runs: list[Found],
    options: Options,
    total: Sum,
) -> list[Found]:
    """Brings the rows about doubtful messages together, run by run, and searches them; returns the runs that are still open."""
    chosen = {found.run: found for found in open_runs if found.is_narrowed}
    if not chosen:
        return open_runs
    rows = rows_about({run: needed_of(found) for run, found in chosen.items()})
    together = rows.repartition(min(len(chosen), partitions), "run")
    settled = together.mapInArrow(partial(_settle_narrowed, chosen, options), RESULTS_SQL)
    return _collect(settled, options, total) + [found for found in open_runs if found.run not in chosen]


def _about(wanted: Mapping[str, Needed], piece: parts.Piece) -> Iterator[pa.RecordBatch]:
    """The rows of a piece that decide what was narrowed down; and an empty one of each run, so that a run without such rows is
    settled as well."""
    here = {run: needed for run, needed in wanted.items() if piece.may_hold(run)}
    for run, needed in here.items():

        def chosen(keys: pa.Table, run: str = run, needed: Needed = needed) -> pa.ChunkedArray | None:
            kept = pc.and_(pc.equal(keys.column("run"), run), needed.among(keys))
            return kept if pc.any(kept).as_py() else None

        yield from pa.Table.from_pylist([{"run": run}], _TRACE).to_batches()
        for table in parts.rows_about(piece, chosen, needed.columns, spans=needed.spans):
            yield from plain(table.select(_TRACE.names)).cast(_TRACE).to_batches()


def _settle_narrowed(
    chosen: Mapping[str, Found], options: Options, batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    table = pa.Table.from_batches(batches, _TRACE)
    total = Sum()
    for run in sorted(table.column("run").unique().to_pylist()):
        found = chosen[run]
        own = pc.and_(pc.equal(table.column("run"), run), pc.is_valid(table.column("process")))
        settle_narrowed(found, table.filter(own), options.most)
        if found.is_open:
            yield packed_row(run, "open", found)
        else:
            total.add(found)
    yield from result_rows(total.thinned(options.most), "sum")


def _search(spark: SparkSession, plan: parts.Plan, open_runs: list[Found], options: Options, total: Sum) -> None:
    """Reads these runs again, whole: a large one in a task of its own, small ones together."""
    pieces = plan.pieces_of(found.run for found in open_runs)
    bundles: list[list[Found]] = [[]]
    for found in open_runs:
        if sum(other.rows for other in bundles[-1]) + found.rows > parts.LEAST_ROWS and bundles[-1]:
            bundles.append([])
        bundles[-1].append(found)
    work = [(bundle, tuple(dict.fromkeys(p for found in bundle for p in pieces[found.run]))) for bundle in bundles]
    _collect(tasks(spark, work, partial(_search_runs, options), RESULTS_SQL), options, total)


@dataclasses.dataclass(frozen=True, slots=True)
class _Source:
    """Files that Spark's reader takes: those of one path."""

    path: str
    files: tuple[str, ...]
    label: str  # stands before the names of its runs
    runs: tuple[str, ...] | None = None  # these alone; None: all


def _sources_of(plan: parts.Plan, runs: Set[str]) -> Iterator[_Source]:
    """The files that can hold some runs, path by path."""
    by_path: dict[tuple[str, str], dict[str, None]] = {}
    for piece in plan.pieces_with_any(runs):
        by_path.setdefault((piece.path, piece.label), {})[piece.file] = None
    for (path, label), files in by_path.items():
        mine = tuple(sorted(run for run in runs if run.startswith(label)))
        yield _Source(path, tuple(parts.addresses(path, list(files))), label, mine)


def _verify_sorted(spark: SparkSession, source: _Source, options: Options, total: Sum) -> None:
    """The way through Spark's reader. Where some runs are named, it is because they are out of order."""
    rows = _frame(spark, source)
    if source.runs is None and not rows.take(1):
        raise TraceError(parts.without_rows(source.path))
    found = frame.summed(frame.results(rows.drop(_FILE), options, in_order=source.runs is None), options)
    found.malformed = _with_files(rows, found.malformed)
    total.add(found)
    if options.beside is not None and not found.malformed:
        ordered = frame.sorted_rows(rows.select(*options.beside.columns))
        made = ordered.mapInArrow(partial(_partials_in, options.beside), RESULTS_SQL)
        total.beside |= _settled_beside(made, slots_of(spark), options.beside)


def _with_files(trace: DataFrame, malformed: Sequence[Malformed]) -> list[Malformed]:
    """Problems with the files of their rows, which sorting forgets. Where a row stands twice, the last of its files counts."""
    from pyspark.sql import functions as F

    if not malformed:
        return []

    places = [(problem.run, problem.process, problem.index) for problem in malformed]
    is_one = F.lit(False)
    for run, process, index in places:
        same = F.col("run").eqNullSafe(F.lit(run)) & F.col("process").eqNullSafe(F.lit(process))
        is_one = is_one | (same & F.col("index").eqNullSafe(F.lit(index)))
    rows = trace.filter(is_one).select("run", "process", "index", "file").sort("file").collect()
    files = {(row["run"], row["process"], row["index"]): row["file"] for row in rows}
    return [dataclasses.replace(p, file=p.file or files.get(at)) for p, at in zip(malformed, places, strict=True)]


def _frame(spark: SparkSession, source: _Source) -> DataFrame:
    """The rows of some files as Spark reads them, in our columns and types, with the file each came from."""
    from pyspark.errors import AnalysisException
    from pyspark.sql import functions as F

    try:
        read = spark.read.parquet(*source.files)
        rows = frame.conformed(read.withColumn(_FILE, F.col("_metadata.file_path")), source.path)
    except AnalysisException as error:
        reason = str(error).splitlines()[0]
        raise TraceError(
            f"cannot read a trace at {source.path}: {reason}; check the address, and that Spark knows its kind"
        ) from error
    if source.runs is not None:
        rows = rows.filter(F.col("run").isin([run[len(source.label) :] for run in source.runs]))
    run = F.concat(F.lit(source.label), F.col("run"))
    return rows.withColumn("run", run) if source.label else rows


def _certify_chunk(options: Options, work: tuple[int, parts.Chunk], *, apart: bool = False) -> Iterator[pa.RecordBatch]:
    number, chunk = work
    for found in certify_chunk(chunk, options):
        if isinstance(found, Sum):
            yield from result_rows(found.thinned(options.most), f"sum {number}")
        elif isinstance(found, Slice):
            yield from slice_rows([frame.compact(found)], apart=apart)
        else:
            yield packed_row(*found)


def _each_once(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Rows for the tasks that settle their runs: of what slices share, one copy."""
    known: set[str] = set()
    for batch in batches:
        keys, runs, kinds = (batch.column(name).to_pylist() for name in ("key", "run", "kind"))
        kept = []
        for at, (key, kind) in enumerate(zip(keys, kinds, strict=True)):
            if kind != "shared" or key not in known:
                kept.append(at)
            if kind == "shared":
                known.add(key)
                keys[at] = runs[at]
        place = batch.schema.get_field_index("key")
        yield batch.set_column(place, "key", pa.array(keys, pa.string())).take(pa.array(kept, pa.int64()))


def certify_chunk(chunk: parts.Chunk, options: Options) -> Iterator[Slice | tuple[str, str, bytes] | Sum]:
    """What a chunk has to say: slices of runs that are split, their partials (run, kind, bytes) of what is computed beside, and
    the sum of those that are whole."""
    total = Sum()
    try:
        table, files = parts.gathered(chunk.pieces, columns=options.columns)
    except MalformedTrace as error:
        total.malformed = list(error.malformed)
        yield total
        return
    bounds = _bound_elsewhere(chunk, table)
    bundles = [(table.slice(first, rows), within(files, first, rows)) for first, rows in _bundles(files)]
    units = [Unit(rows, came_from, options.columns, bounds) for rows, came_from in bundles]
    if any(unit.without_place for unit in units):
        total.malformed = list(null_problems(table, files))[:MAX_PROBLEMS]
    split = {run for unit in units for run in unit.runs if chunk.is_split(run)}
    for unit in units:
        for place, run in enumerate(unit.runs):
            if run in split:
                yield unit.slice(place, alone=True)
    if options.beside is not None and not total.malformed:
        for run, partials in _beside(units, options.beside).items():
            if run in split:
                yield from ((run, "partial", options.beside.shipped(each)) for each in partials)
            else:
                total.beside[run] = _settled_here(run, partials, table, options.beside)
    for found in _whole(units, split, table, files, options):
        total.add(found)
    yield total


def _bound_elsewhere(chunk: parts.Chunk, table: pa.Table) -> dict[str, int]:
    """The time that the first run of a chunk states for ``progress``, from where it begins, if no row here tells."""
    run, columns = chunk.pieces[0].low, ("run", "kind", "detail")
    if chunk.begin is None or run is None or len(_start_details(table, run)):
        return {}
    try:
        stated = [stated_bound(value) for rows in parts.read(chunk.begin, columns=columns) for value in _start_details(rows, run)]
    except MalformedTrace:
        return {}  # the task that verifies that file tells it
    return {run: max(stated)} if stated else {}


def _start_details(table: pa.Table, run: str) -> list[str | None]:
    rows = table.filter(pc.and_(pc.equal(table.column("kind"), "start"), pc.equal(table.column("run"), run)))
    found: list[str | None] = rows.column("detail").unique().to_pylist()
    return found


def _beside(units: Sequence[Unit], beside: Beside) -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = {}
    for unit in units:
        for run, each in beside.partials(unit.rows):
            found.setdefault(run, []).append(each)
    return found


def _settled_here(run: str, partials: Sequence[Any], table: pa.Table, beside: Beside) -> bytes:
    """The result of a run that is all here; where its partials do not do, they are made once more, of all its rows at once."""
    result = beside.settled(run, partials)
    if result not in (AGAIN, APART):
        return result
    rows = Rows(table.filter(pc.equal(table.column("run"), run)))
    return beside.settled(run, [each for _, each in beside.partials(rows, everything=True)])


def _bundles(files: Sequence[Part]) -> Iterator[tuple[int, int]]:
    """Row groups as units, small ones together: each unit of a run costs something, however few rows it has."""
    first = rows = 0
    for part in files:
        rows += part.rows
        if rows >= _LEAST_UNIT:
            yield first, rows
            first, rows = first + rows, 0
    if rows:
        yield first, rows


def _whole(units: Sequence[Unit], split: set[str], table: pa.Table, files: Sequence[Part], options: Options) -> Iterator[Found]:
    """The runs that are all here, settled. If rows of histories stand apart in the row groups, they are sorted first."""
    found = list(proved(units, options.properties, options.most, split, options.large_rows, options.whole_up_to))
    if len(units) > 1 and any(run.out_of_order for run in found):
        kept = table.filter(pc.invert(pc.is_in(table.column("run"), pa.array(sorted(split), pa.string())))) if split else table
        found = list(proved([Unit(kept)], options.properties, options.most, (), options.large_rows, options.whole_up_to))
    for run in found:
        run.tell_misplaced(options.large_rows)
        if run.is_narrowed:
            about = pc.and_(needed_of(run).among(table), pc.equal(table.column("run"), run.run))
            settle_narrowed(run, plain(table.filter(about)), options.most)
        if run.is_open:
            rows, parts_of_run = rows_of(table, files, run.run)
            look_closely(run, rows, parts_of_run, options.properties, options.most)
        yield run


def _settle(options: Options, batches: Iterator[pa.RecordBatch], *, tasks: int = 1) -> Iterator[pa.RecordBatch]:
    """Brings the slices of each run together, and adds up what is settled, in one of some tasks."""
    total, partials = Sum(), dict[str, list[bytes]]()

    def certificates() -> Iterator[pa.RecordBatch]:
        travelling = pa.array(["slice", "shared"])
        for batch in batches:
            kinds = batch.column("kind")
            yield batch.filter(pc.is_in(kinds, travelling))
            for row in batch.filter(pc.equal(kinds, "partial")).select(["key", "value"]).to_pylist():
                partials.setdefault(row["key"], []).append(pickle.loads(row["value"]))
            total.add_rows(batch.filter(pc.is_in(kinds, pa.array([*TOLD, "beside"]))))

    for batch in frame.settle(options, certificates()):
        yield batch.filter(pc.equal(batch.column("kind"), "open"))
        total.add_rows(batch)
    if options.beside is not None:
        total.beside |= {run: options.beside.settled(run, mine) for run, mine in partials.items()}
    yield from result_rows(total.thinned(options.most, tasks), "sum")


def _digests(wanted: Mapping[str, Sequence[Messages]], piece: parts.Piece) -> Iterator[pa.RecordBatch]:
    """The digests that rows give for some messages, each once."""
    names = ["run", "group", "sender", "seq", "digest"]
    spans = {(low, high) for run, messages in wanted.items() if piece.may_hold(run) for _, _, low, high in messages}

    def near(keys: pa.Table) -> pa.ChunkedArray | None:
        seq = keys.column("seq")
        inside = (pc.and_(pc.greater_equal(seq, low), pc.less_equal(seq, high)) for low, high in spans)
        kept = pc.and_(pc.is_in(keys.column("run"), pa.array(wanted)), functools.reduce(pc.or_, inside))
        return kept if pc.any(kept).as_py() else None

    for table in parts.rows_about(piece, near, ("run", "seq"), spans=spans, columns=(*names, "kind")):
        for run, messages in _present(wanted, table):
            about = pc.is_in(table.column("kind"), pa.array(["send", "deliver"]))
            about = pc.and_(pc.equal(table.column("run"), run), about)
            rows = table.filter(pc.and_(about, pc.is_valid(table.column("digest")))).select(names)
            for group, sender, low, high in messages:
                same = pc.and_(pc.equal(rows.column("group"), group), pc.equal(rows.column("sender"), sender))
                inside = pc.and_(pc.greater_equal(rows.column("seq"), low), pc.less_equal(rows.column("seq"), high))
                plain = rows.filter(pc.and_(same, inside)).cast(DIGEST_SCHEMA)
                yield from plain.group_by(names).aggregate([]).to_batches()


def _times(wanted: Mapping[str, Untimed], piece: parts.Piece) -> Iterator[pa.RecordBatch]:
    """The rows that show when messages with deadlines were sent and delivered."""
    for table in parts.read(piece, columns=("run", *deadlines.COLUMNS)):
        for run, untimed in _present(wanted, table):
            yield from deadlines.blocks(table.filter(pc.equal(table.column("run"), run)), run, untimed)


def _timed(wanted: Mapping[str, Untimed], batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """What the rows of a partition say of each run."""
    tables = [pa.Table.from_batches([batch]) for batch in batches if batch.num_rows]
    table = pa.concat_tables(tables) if tables else deadlines.BLOCKS.empty_table()
    for run in table.column("run").unique().to_pylist():
        seen = timed(table.filter(pc.equal(table.column("run"), run)), wanted[run])
        names = ("group", "sender", "low", "high")
        late = None if seen.late is None else [dict(zip(names, each, strict=True)) for each in seen.late]
        yield pa.RecordBatch.from_pydict({"run": [run], "cases": [seen.cases], "late": [late]}, schema=_TIMED)


def _present(wanted: Mapping[str, T], table: pa.Table) -> Iterator[tuple[str, T]]:
    """What is wanted of the runs that have rows in a table."""
    for run in table.column("run").unique().to_pylist():
        if run in wanted:
            yield run, wanted[run]


def _is_malformed(found: Found, pieces: Sequence[parts.Piece], total: Sum) -> bool:
    """Whether something is malformed in the rows of a run that may be; if so, adds it to the sum."""
    if found.odd is None:
        return False
    wanted = found.odd.wanted

    def chosen(keys: pa.Table) -> pa.ChunkedArray | None:
        kept = pc.and_(pc.equal(keys.column("run"), found.run), wanted.among(keys))
        return kept if pc.any(kept).as_py() else None

    here = [piece for piece in pieces if piece.may_hold(found.run)]
    rows = [(piece.file, table) for piece in here for table in parts.rows_about(piece, chosen, wanted.columns)]
    ends = [0, *accumulate(table.num_rows for _, table in rows)]
    files = [Part(file, first, table.num_rows) for (file, table), first in zip(rows, ends, strict=False)]
    found.settle_odd(pa.concat_tables([table for _, table in rows]).unify_dictionaries(), files)
    if found.malformed:
        total.add(found)
    return bool(found.malformed)


def _search_runs(options: Options, work: tuple[list[Found], tuple[parts.Piece, ...]]) -> Iterator[pa.RecordBatch]:
    """Reads some runs whole and lets the reference checks decide what is open."""
    bundle, pieces = work
    total = Sum()
    try:
        left = [found for found in bundle if not _is_malformed(found, pieces, total)]
        table, files = parts.gathered(pieces if left else (), {found.run for found in left}, options.columns)
        for found in left:
            rows, parts_of_run = rows_of(table, files, found.run)
            look_closely(found, rows, parts_of_run, options.properties, options.most)
            total.add(found)
            if options.beside is not None and not found.malformed:
                total.beside[found.run] = _settled_here(found.run, [], rows, options.beside)
    except MalformedTrace as error:
        total.malformed = list(error.malformed)
    yield from result_rows(total.thinned(options.most), "sum")
