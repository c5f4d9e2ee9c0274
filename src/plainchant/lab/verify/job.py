"""Verification of traces of any size on Spark.

One job. Its tasks take a chunk each (``parts``), make certificates of every row group (``properties.certificates``), settle the
runs that are whole there (``check``), and pass on the certificates of runs that may continue elsewhere. One shuffle brings those
of a run together (about two bytes per event), and a second function settles these runs (``properties.proof``). Sums and
violations come to the driver. Where certificates leave a large run in doubt, its doubtful messages are named
(``properties.narrowing``); their rows alone are fetched by a second job and searched. Only what cannot be narrowed down is read
again, whole, by one task a run, and the reference checks decide.

Two kinds of input go through Spark's own reader and are sorted by (run, process, index) first: addresses that Arrow cannot open,
and files whose rows stand in another order than their histories'. Between driver and tasks there are only Arrow tables of (key,
kind, value), and nothing needs more than a SparkSession: it is the same on one machine, on a cluster, and behind Spark Connect.
"""

from __future__ import annotations

import dataclasses
import pickle
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from ...core.model import TraceError
from ...trace.reader import Part, conform, within
from ...trace.schema import REQUIRED, Malformed, MalformedTrace
from ...trace.validation import null_problems
from ..properties import Verification, Violation
from ..properties.certificates.columns import STRINGS, Rows
from ..properties.certificates.evidence import Messages
from ..properties.certificates.records import Slice
from ..properties.certificates.unit import Unit
from ..properties.certificates.untimed import Untimed
from ..properties.facts import COLUMNS
from ..properties.narrowing.narrow import Narrowed
from ..properties.reference import require_known
from ..properties.report import MAX_SHOWN, Result
from ..properties.timing import deadlines
from ..properties.timing.deadlines import Timed, timed
from ..session import send_code
from ..session import slots as slots_of
from ..session.progress import watched
from . import parts
from .beside import AGAIN, APART, Beside
from .check import Found, judge_alone, look_closely, plain, proved, rows_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

T = TypeVar("T")

CERTIFICATE_SQL: Final = "key string, kind string, value binary"
PACKED_SQL: Final = "run string, rows binary"
CERTIFICATE_SCHEMA: Final = pa.schema([("key", pa.string()), ("kind", pa.string()), ("value", pa.binary())])
DIGEST_SCHEMA: Final = pa.schema(
    [("run", pa.string()), ("group", pa.string()), ("sender", pa.string()), ("seq", pa.int64()), ("digest", pa.int64())]
)

MAX_PROBLEMS: Final = 100  # malformed rows that are reported
MAX_WARNINGS: Final = 100

_UNIT_ROWS: Final = 500_000  # rows that come through Spark's reader are put together to units of this size
_LEAST_UNIT: Final = 100_000
LARGE_ROWS: Final = 200_000
"""From this size a run is not simply read again by one task: out of order, Spark sorts it, and doubts are narrowed down."""
_DESCRIBED: Final = 20_000  # a task that finds more violations describes one for each run and property


@dataclasses.dataclass(slots=True)
class Sum(Result):
    """What many runs come to, with a limit to what is reported."""

    beside: dict[str, bytes] = dataclasses.field(default_factory=dict)  # by run, what was computed beside

    def add(self, other: Result) -> None:
        Result.add(self, other)
        if isinstance(other, Sum):
            self.beside |= other.beside
        del self.warnings[MAX_WARNINGS:]
        del self.malformed[MAX_PROBLEMS:]

    def thinned(self, most: int | None) -> Sum:
        """Limits what a task sends if everything is wrong."""
        if most is not None and len(self.violations) > _DESCRIBED:
            first: dict[tuple[str, str], tuple[tuple[Any, ...], Violation]] = {}
            for key, violation in sorted(self.violations, key=lambda pair: pair[0]):
                first.setdefault((violation.run, violation.property), (key, violation))
            self.violations = list(first.values())
        return self


def verify(
    spark: SparkSession,
    paths: Sequence[str],
    properties: Sequence[str] | None = None,
    *,
    most: int | None = MAX_SHOWN,
    chunk_rows: int = parts.CHUNK_ROWS,
    least_rows: int = parts.LEAST_ROWS,
    large_rows: int = LARGE_ROWS,
    progress: Callable[[str, float], None] | None = None,
    beside: Beside | None = None,
    results: dict[str, bytes] | None = None,
) -> Verification:
    """Verifies every run of some traces: files, directories, globs, addresses.

    ``properties`` is as for ``lab.properties.verify``, whose verdicts and counts these are. ``most`` limits how many violations
    of a property are described for each run (None: all). ``progress`` is called now and then with what is being done and the
    share of it that is done. ``beside`` is computed of the same rows; its results are put into ``results``, by run."""
    require_known(properties or ())
    send_code(spark)
    paths = [str(path) for path in paths]
    options = Options(tuple(properties) if properties is not None else None, most, large_rows, beside)
    try:
        plan = parts.plan(paths, slots_of(spark), chunk_rows=chunk_rows, least_rows=least_rows)
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
                digests = tasks(spark, plan.pieces_with_any(messages), partial(_digests, messages), _sql(DIGEST_SCHEMA))
                open_runs = _compare(digests, open_runs, total)
        if any(found.untimed is not None for found in open_runs):
            with watched(spark, progress, "timing"):
                wanted = _untimed(open_runs)
                moments = tasks(spark, plan.pieces_with_any(wanted), partial(_times, wanted), _sql(deadlines.BLOCKS))
                open_runs = _time(moments, _partitions(spark, plan.rows), open_runs, total)
        if any(found.narrowed is not None for found in open_runs):
            with watched(spark, progress, "searching"):
                open_runs = _search_narrowed(
                    lambda wanted: tasks(spark, plan.pieces_with_any(wanted), partial(_about, wanted), PACKED_SQL),
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


@dataclasses.dataclass(frozen=True, slots=True)
class Options:
    """What tasks have to know."""

    properties: tuple[str, ...] | None
    most: int | None
    large_rows: int = LARGE_ROWS
    beside: Beside | None = None

    @property
    def columns(self) -> tuple[str, ...]:
        """What is read of a trace."""
        return tuple(dict.fromkeys((*COLUMNS, *(self.beside.columns if self.beside is not None else ()))))


def compute(spark: SparkSession, plan: parts.Plan, beside: Beside, runs: Set[str]) -> dict[str, bytes]:
    """The results of some runs, from partials with everything in them and without verification."""
    pieces = plan.pieces_with_any(runs)
    made = tasks(spark, pieces, partial(_partials, beside, frozenset(runs)), CERTIFICATE_SQL)
    settled = made.repartition(_partitions(spark, plan.rows), "key").mapInArrow(
        partial(_settle, Options((), 0, beside=beside)), CERTIFICATE_SQL
    )
    total = Sum()
    _collect(settled, total)
    return total.beside


def _partials(beside: Beside, runs: Set[str], piece: parts.Piece) -> Iterator[pa.RecordBatch]:
    for table in parts.read(piece, columns=beside.columns):
        found = beside.partials(Rows(table), everything=True)
        yield from _rows((run, "partial", beside.shipped(each)) for run, each in found if run in runs)


def verification_of(total: Sum, options: Options) -> Verification:
    """The same result whichever task finished first."""
    total.malformed.sort(key=lambda p: (p.file or "", p.run or "", p.process or "", p.index or 0, p.problem))
    del total.malformed[MAX_PROBLEMS:]
    total.warnings = sorted(set(total.warnings))
    return total.verification(options.properties)


def _verify_chunks(spark: SparkSession, plan: parts.Plan, options: Options, total: Sum) -> list[Found]:
    """Settles what can be settled; returns the runs that have to be searched."""
    frame = tasks(spark, list(enumerate(plan.chunks)), partial(_certify_chunk, options), CERTIFICATE_SQL)
    if any(chunk.elsewhere is None or chunk.elsewhere for chunk in plan.chunks):
        frame = frame.repartition(_partitions(spark, plan.rows), "key").mapInArrow(partial(_settle, options), CERTIFICATE_SQL)
    return _collect(frame, total)


def _partitions(spark: SparkSession, rows: int) -> int:
    """One for every few million events, so that a partition's certificates are some megabytes."""
    return int(min(64, max(slots_of(spark), rows // 5_000_000)))


def _collect(frame: DataFrame, total: Sum) -> list[Found]:
    open_runs: list[Found] = []
    table = frame.toArrow()
    for row in table.to_pylist():
        if row["kind"] == "sum":
            total.add(pickle.loads(row["value"]))
        else:
            open_runs.append(pickle.loads(row["value"]))
    return sorted(open_runs, key=lambda found: found.run)


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
    seen = together.mapInArrow(partial(_timed, wanted), "run string, cases bigint, in_time boolean").toArrow().to_pylist()
    for found in open_runs:
        mine = [row for row in seen if row["run"] == found.run]
        found.settle_times(Timed(sum(row["cases"] for row in mine), all(row["in_time"] for row in mine)))
    return _still_open(open_runs, total)


def _untimed(open_runs: Sequence[Found]) -> dict[str, Untimed]:
    return {found.run: found.untimed for found in open_runs if found.untimed is not None}


def _search_narrowed(
    rows_about: Callable[[Mapping[str, Narrowed]], DataFrame],
    partitions: int,
    open_runs: list[Found],
    options: Options,
    total: Sum,
) -> list[Found]:
    """Brings the rows about doubtful messages together, run by run, and searches them; returns the runs that are still open."""
    chosen = {found.run: found for found in open_runs if found.narrowed is not None}
    if not chosen:
        return open_runs
    rows = rows_about({run: found.narrowed.without_skeleton() for run, found in chosen.items() if found.narrowed is not None})
    together = rows.repartition(min(len(chosen), partitions), "run")
    settled = together.mapInArrow(partial(_settle_narrowed, chosen, options), CERTIFICATE_SQL)
    return _collect(settled, total) + [found for found in open_runs if found.run not in chosen]


def _about_in(wanted: Mapping[str, Narrowed], batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Of rows as Spark reads them, those about doubtful messages, packed run by run."""
    for batch in batches:
        table = pa.Table.from_batches([batch])
        for run, narrowed in wanted.items():
            about = narrowed.is_about(table.column("sender"), table.column("seq"))
            rows = table.filter(pc.and_(pc.equal(table.column("run"), run), about))
            if rows.num_rows:
                yield pa.RecordBatch.from_pydict({"run": [run], "rows": [packed(parts.typed(rows, None))]})


def _about(wanted: Mapping[str, Narrowed], piece: parts.Piece) -> Iterator[pa.RecordBatch]:
    """The rows of a piece that are about doubtful messages, packed run by run."""
    spans = [narrowed.span for narrowed in wanted.values()]
    for run, narrowed in wanted.items():

        def chosen(keys: pa.Table, run: str = run, narrowed: Narrowed = narrowed) -> pa.ChunkedArray | None:
            about = narrowed.is_about(keys.column("sender"), keys.column("seq"))
            kept = pc.and_(pc.equal(keys.column("run"), run), about)
            return kept if pc.any(kept).as_py() else None

        low, high = min(span[0] for span in spans), max(span[1] for span in spans)
        for table in parts.rows_about(piece, (low, high), chosen):
            yield pa.RecordBatch.from_pydict({"run": [run], "rows": [packed(table)]})


def packed(rows: pa.Table) -> bytes:
    """Rows as bytes, with strings as dictionaries."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema, options=pa.ipc.IpcWriteOptions(compression="lz4")) as stream:
        stream.write_table(rows.unify_dictionaries())
    content: bytes = sink.getvalue().to_pybytes()
    return content


def _settle_narrowed(
    chosen: Mapping[str, Found], options: Options, batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    tables: dict[str, list[pa.Table]] = {}
    for batch in batches:
        for row in batch.to_pylist():
            tables.setdefault(row["run"], []).append(plain(pa.ipc.open_stream(row["rows"]).read_all()))
    total = Sum()
    for run, pieces in sorted(tables.items()):
        found = chosen[run]
        found.settle_narrowed(pa.concat_tables(pieces), options.most)
        if found.is_open:
            yield from _rows([(run, "open", found)])
        else:
            total.add(found)
    if total.outcomes:
        yield from _rows([("#", "sum", total.thinned(options.most))])


def _search(spark: SparkSession, plan: parts.Plan, open_runs: list[Found], options: Options, total: Sum) -> None:
    """Reads each of these runs again, whole, in one task."""
    work = [(found, tuple(plan.pieces_with(found.run))) for found in open_runs]
    _collect(tasks(spark, work, partial(_search_run, options), CERTIFICATE_SQL), total)


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
    """The way through Spark's reader: sorted, certified, settled; what is left is gathered by run and searched."""
    from pyspark.sql import functions as F

    frame = _frame(spark, source, options.columns)
    if source.runs is None and not frame.take(1):
        raise TraceError(parts.without_rows(source.path))
    keys = ["run", "process", "index"]
    nothing = frame.filter(" or ".join(f"{name} is null" for name in REQUIRED))
    for row in nothing.limit(MAX_PROBLEMS).collect():
        missing = [name for name in REQUIRED if row[name] is None]
        total.malformed.append(Malformed(row["file"], row["run"], row["process"], row["index"], f"column {missing[0]!r} is null"))
    if total.malformed:
        return
    ordered = frame.drop("file").repartitionByRange(*keys).sortWithinPartitions(*keys)
    certified = ordered.mapInArrow(partial(_certify_sorted, options), CERTIFICATE_SQL)
    settled = certified.repartition("key").mapInArrow(partial(_settle, options), CERTIFICATE_SQL)
    open_runs = _collect(settled, total)
    if total.malformed:
        total.malformed = _with_files(frame, total.malformed)
        return
    if any(found.unresolved for found in open_runs):
        open_runs = _compare(_digests_in(frame, _unresolved(open_runs)), open_runs, total)
    untimed = _untimed(open_runs)
    if untimed:
        block = F.call_function("div", F.col("seq"), F.lit(deadlines.BLOCK)).alias("block")
        told = frame.filter(F.col("run").isin(list(untimed)) & F.col("kind").isin("send", "deliver"))
        moments = told.select(*deadlines.COLUMNS, block, "run")
        open_runs = _time(moments, slots_of(spark), open_runs, total)
    rows = frame.drop("file")
    open_runs = _search_narrowed(
        lambda wanted: rows.filter(F.col("run").isin(list(wanted))).mapInArrow(partial(_about_in, wanted), PACKED_SQL),
        *(slots_of(spark), open_runs, options, total),
    )
    if open_runs:
        wanted = frame.filter(F.col("run").isin([found.run for found in open_runs]))
        found = {found.run: found for found in open_runs}
        _collect(wanted.repartition("run").mapInArrow(partial(_search_gathered, found, options), CERTIFICATE_SQL), total)


def _with_files(frame: DataFrame, malformed: Sequence[Malformed]) -> list[Malformed]:
    """Problems with the files of their rows, which sorting forgets. Where a row stands twice, the last of its files counts."""
    from pyspark.sql import functions as F

    places = [(problem.run, problem.process, problem.index) for problem in malformed]
    is_one = F.lit(False)
    for run, process, index in places:
        is_one = is_one | ((F.col("run") == run) & (F.col("process") == process) & (F.col("index") == index))
    rows = frame.filter(is_one).select("run", "process", "index", "file").sort("file").collect()
    files = {(row["run"], row["process"], row["index"]): row["file"] for row in rows}
    return [dataclasses.replace(p, file=p.file or files.get(at)) for p, at in zip(malformed, places, strict=True)]


def _digests_in(frame: DataFrame, wanted: Mapping[str, Sequence[Messages]]) -> DataFrame:
    """The digests that rows give for some messages."""
    from pyspark.sql import functions as F

    is_wanted = F.lit(False)
    for run, messages in wanted.items():
        for group, sender, low, high in messages:
            of_sender = (F.col("run") == run) & (F.col("group") == group) & (F.col("sender") == sender)
            is_wanted = is_wanted | (of_sender & F.col("seq").between(low, high))
    about = F.col("kind").isin("send", "deliver") & F.col("digest").isNotNull()
    return frame.filter(about & is_wanted).select(DIGEST_SCHEMA.names)


def _frame(spark: SparkSession, source: _Source, wanted: Sequence[str]) -> DataFrame:
    """The rows of some files as Spark reads them, in our columns and types, with the file each came from."""
    from pyspark.errors import AnalysisException
    from pyspark.sql import functions as F
    from pyspark.sql.pandas.types import to_arrow_schema

    try:
        frame = spark.read.parquet(*source.files)
        problems = conform(to_arrow_schema(frame.schema).empty_table())[1]
    except AnalysisException as error:
        reason = str(error).splitlines()[0]
        raise TraceError(
            f"cannot read a trace at {source.path}: {reason}; check the address, and that Spark knows its kind"
        ) from error
    if problems:
        raise MalformedTrace([Malformed(source.path, None, None, None, problem) for problem in problems])
    types = {"members": "array<string>", **dict.fromkeys(STRINGS, "string")}
    others = [name for name in wanted if name != "run"]
    columns = [F.col(f"`{name}`").cast(types.get(name, "bigint")).alias(name) for name in others]
    run, file = F.concat(F.lit(source.label), F.col("run")), F.col("_metadata.file_path").alias("file")
    if source.runs is not None:
        frame = frame.filter(F.col("run").isin([run[len(source.label) :] for run in source.runs]))
    return frame.select(run.alias("run"), *columns, file)


def tasks(spark: SparkSession, work: Sequence[T], task: Callable[[T], Iterator[pa.RecordBatch]], schema: str) -> DataFrame:
    """One task for each piece of work, and what all of them yield."""
    return spark.range(0, len(work), 1, len(work)).mapInArrow(partial(_perform, work, task), schema)


def _perform(
    work: Sequence[T], task: Callable[[T], Iterator[pa.RecordBatch]], batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        for number in batch.column("id").to_pylist():
            yield from task(work[number])


def _sql(schema: pa.Schema) -> str:
    return ", ".join(f"`{field.name}` {'string' if pa.types.is_string(field.type) else 'bigint'}" for field in schema)


def _rows(told: Iterable[tuple[str, str, object]]) -> Iterator[pa.RecordBatch]:
    for key, kind, value in told:
        row = {"key": key, "kind": kind, "value": pickle.dumps(value, protocol=5)}
        yield pa.RecordBatch.from_pylist([row], schema=CERTIFICATE_SCHEMA)


def _certify_chunk(options: Options, work: tuple[int, parts.Chunk]) -> Iterator[pa.RecordBatch]:
    yield from _rows(certify_chunk(work[1], work[0], options))


def certify_chunk(chunk: parts.Chunk, number: int, options: Options) -> Iterator[tuple[str, str, object]]:
    """What a chunk has to say: slices of runs that are split, and the sum of those that are whole."""
    total = Sum()
    try:
        table, files = parts.gathered(chunk.pieces, columns=options.columns)
    except MalformedTrace as error:
        total.malformed = list(error.malformed)
        yield f"#{number}", "sum", total
        return
    units = [Unit(table.slice(first, rows), within(files, first, rows), options.columns) for first, rows in _bundles(files)]
    if any(unit.without_place for unit in units):
        total.malformed = list(null_problems(table, files))[:MAX_PROBLEMS]
    split = {run for unit in units for run in unit.runs if chunk.is_split(run)}
    for unit in units:
        for place, run in enumerate(unit.runs):
            if run in split:
                yield run, "slice", unit.slice(place, alone=True)
    if options.beside is not None and not total.malformed:
        for run, partials in _beside(units, options.beside).items():
            if run in split:
                yield from ((run, "partial", options.beside.shipped(each)) for each in partials)
            else:
                total.beside[run] = _settled_here(run, partials, table, options.beside)
    for found in _whole(units, split, table, files, options):
        total.add(found)
    yield f"#{number}", "sum", total.thinned(options.most)


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
    found = list(proved(units, options.properties, options.most, split, options.large_rows))
    if len(units) > 1 and any(run.out_of_order for run in found):
        kept = table.filter(pc.invert(pc.is_in(table.column("run"), pa.array(sorted(split), pa.string())))) if split else table
        found = list(proved([Unit(kept)], options.properties, options.most, (), options.large_rows))
    for run in found:
        run.tell_misplaced(options.large_rows)
        if run.narrowed is not None:
            about = run.narrowed.is_about(table.column("sender"), table.column("seq"))
            about = pc.and_(about, pc.equal(table.column("run"), run.run))
            run.settle_narrowed(plain(table.filter(about)), options.most)
        if run.is_open:
            rows, parts_of_run = rows_of(table, files, run.run)
            look_closely(run, rows, parts_of_run, options.properties, options.most)
        yield run


def _settle(options: Options, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Brings the slices of each run together; passes on what is settled already."""
    slices: dict[str, list[Slice]] = {}
    partials: dict[str, list[bytes]] = {}
    for batch in batches:
        yield batch.filter(pc.invert(pc.is_in(batch.column("kind"), pa.array(["slice", "partial"]))))
        for row in batch.filter(pc.equal(batch.column("kind"), "slice")).to_pylist():
            slices.setdefault(row["key"], []).append(pickle.loads(row["value"]))
        for row in batch.filter(pc.equal(batch.column("kind"), "partial")).to_pylist():
            partials.setdefault(row["key"], []).append(pickle.loads(row["value"]))
    total = Sum()
    if options.beside is not None:
        total.beside |= {run: options.beside.settled(run, mine) for run, mine in partials.items()}
    for run in sorted(slices):
        found = judge_alone(run, slices.pop(run), options.properties, options.most, narrow_from=options.large_rows)
        found.tell_misplaced(options.large_rows)
        if found.is_open:
            yield from _rows([(run, "open", found)])
        else:
            total.add(found)
    if total.outcomes or total.warnings or total.malformed or total.beside:
        yield from _rows([("#", "sum", total.thinned(options.most))])


def _digests(wanted: Mapping[str, Sequence[Messages]], piece: parts.Piece) -> Iterator[pa.RecordBatch]:
    """The digests that rows give for some messages, each once."""
    names = ["run", "group", "sender", "seq", "digest"]
    for table in parts.read(piece, columns=(*names, "kind")):
        for run, messages in wanted.items():
            about = pc.is_in(table.column("kind"), pa.array(["send", "deliver"]))
            about = pc.and_(pc.equal(table.column("run"), run), about)
            rows = table.filter(pc.and_(about, pc.is_valid(table.column("digest")))).select(names)
            for group, sender, low, high in messages:
                same = pc.and_(pc.equal(rows.column("group"), group), pc.equal(rows.column("sender"), sender))
                near = pc.and_(pc.greater_equal(rows.column("seq"), low), pc.less_equal(rows.column("seq"), high))
                plain = rows.filter(pc.and_(same, near)).cast(DIGEST_SCHEMA)
                yield from plain.group_by(names).aggregate([]).to_batches()


def _times(wanted: Mapping[str, Untimed], piece: parts.Piece) -> Iterator[pa.RecordBatch]:
    """The rows that show when messages with deadlines were sent and delivered."""
    for table in parts.read(piece, columns=("run", *deadlines.COLUMNS)):
        for run, untimed in wanted.items():
            yield from deadlines.blocks(table.filter(pc.equal(table.column("run"), run)), run, untimed)


def _timed(wanted: Mapping[str, Untimed], batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """What the rows of a partition say of each run."""
    tables = [pa.Table.from_batches([batch]) for batch in batches if batch.num_rows]
    table = pa.concat_tables(tables) if tables else deadlines.BLOCKS.empty_table()
    for run in table.column("run").unique().to_pylist():
        seen = timed(table.filter(pc.equal(table.column("run"), run)), wanted[run])
        yield pa.RecordBatch.from_pydict({"run": [run], "cases": [seen.cases], "in_time": [seen.in_time]})


def _search_run(options: Options, work: tuple[Found, tuple[parts.Piece, ...]]) -> Iterator[pa.RecordBatch]:
    """Reads a run whole and lets the reference checks decide what is open."""
    found, pieces = work
    total = Sum()
    try:
        table, files = parts.gathered(pieces, found.run, options.columns)
        look_closely(found, table, files, options.properties, options.most)
        total.add(found)
        if options.beside is not None and not found.malformed:
            total.beside[found.run] = _settled_here(found.run, [], table, options.beside)
    except MalformedTrace as error:
        total.malformed = list(error.malformed)
    yield from _rows([(found.run, "sum", total.thinned(options.most))])


def _certify_sorted(options: Options, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for table in units_of(batches):
        unit = Unit(table, (), options.columns)
        yield from _rows((run, "slice", unit.slice(place, alone=True)) for place, run in enumerate(unit.runs))
        if options.beside is not None:
            found = options.beside.partials(unit.rows, everything=True)
            yield from _rows((run, "partial", options.beside.shipped(each)) for run, each in found)


def units_of(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
    """Rows that come through Spark, put together to tables that are worth a unit."""
    waiting: list[pa.RecordBatch] = []
    for batch in batches:
        waiting.append(batch)
        if sum(part.num_rows for part in waiting) >= _UNIT_ROWS:
            yield parts.typed(pa.Table.from_batches(waiting), None)
            waiting = []
    if waiting:
        yield parts.typed(pa.Table.from_batches(waiting), None)


def _search_gathered(
    open_runs: dict[str, Found], options: Options, batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Runs that came together through a shuffle: their rows, and the files these came from."""
    tables = [pa.Table.from_batches([batch]) for batch in batches if batch.num_rows]
    if not tables:
        return
    table = pa.concat_tables(tables).sort_by("file")
    names = table.column("file").to_pylist()
    places = [at for at in range(len(names)) if at == 0 or names[at] != names[at - 1]]
    files = [Part(names[a], a, b - a) for a, b in zip(places, [*places[1:], len(names)], strict=True)]
    rows = parts.typed(table.drop_columns(["file"]), None)
    total = Sum()
    for run in sorted(set(rows.column("run").to_pylist())):
        found = open_runs[run]
        look_closely(found, *rows_of(rows, files, run), options.properties, options.most)
        total.add(found)
    yield from _rows([("#", "sum", total.thinned(options.most))])
