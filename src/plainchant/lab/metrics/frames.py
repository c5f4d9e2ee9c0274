"""Metrics, and matched failures, of traces of any size, on Spark.

Tasks read chunks of row groups (``verify.parts``) and pack the rows of each run as Arrow bytes, with strings as dictionaries. One
shuffle brings the rows of a run together, and the function that measures a small trace measures it. Only addresses that Arrow
cannot open go through Spark's own reader, which takes several times as long.

A task holds the rows of its runs: about a hundred bytes for each event.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from ...trace.schema import SCHEMA
from ..arrays import by_run
from ..session import send_code
from ..verify import parts
from ..verify.job import tasks
from . import detections
from .detections import DETECTIONS, match
from .measures import measure
from .schema import COLUMNS, METRICS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_PACKED: Final = "run string, rows binary"
_SQL: Final = {pa.string(): "string", pa.int64(): "bigint", pa.int32(): "int", pa.list_(pa.string()): "array<string>"}


@dataclasses.dataclass(frozen=True, slots=True)
class Figures:
    """What can be computed of whole runs: how, from which columns and rows of a trace, and as what."""

    compute: Callable[[pa.Table], pa.Table]
    columns: Sequence[str]
    schema: pa.Schema
    needed: Callable[[pa.Table], pa.Table] = lambda rows: rows  # the rows that it needs

    def of_chunks(self, spark: SparkSession, chunks: Sequence[parts.Chunk], run: str | None = None) -> pa.Table:
        """The figures of every run of some chunks, or of one run."""
        if not chunks:
            return self.schema.empty_table()
        send_code(spark)
        return self._of_packed(tasks(spark, chunks, partial(_pack_chunk, self, run), _PACKED))

    def of_frame(self, trace: DataFrame) -> pa.Table:
        """The figures of every run of a DataFrame with the columns of the trace format, which may be of narrower types."""
        send_code(trace.sparkSession)
        types = {name: _SQL[SCHEMA.field(name).type] for name in self.columns}
        trace = trace.select(*(trace[name].cast(sql).alias(name) for name, sql in types.items()))
        return self._of_packed(trace.mapInArrow(partial(_pack_batches, self), _PACKED))

    def _of_packed(self, packed: DataFrame) -> pa.Table:
        from pyspark.sql.pandas.types import from_arrow_schema

        found = packed.repartition("run").mapInArrow(partial(_compute, self), from_arrow_schema(self.schema)).toArrow()
        return self.ordered(found.cast(self.schema))

    def ordered(self, found: pa.Table) -> pa.Table:
        """By run, then by group where there are groups."""
        return found.sort_by([(name, "ascending") for name in ("run", "group") if name in self.schema.names])


METRICS_OF_RUNS: Final = Figures(measure, COLUMNS, METRICS)
DETECTIONS_OF_RUNS: Final = Figures(match, detections.COLUMNS, DETECTIONS, detections.needed)


def _pack_chunk(figures: Figures, run: str | None, chunk: parts.Chunk) -> Iterator[pa.RecordBatch]:
    return _packed(figures, (table for piece in chunk.pieces for table in parts.read(piece, run, figures.columns)))


def _pack_batches(figures: Figures, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    return _packed(figures, (parts.typed(pa.Table.from_batches([batch]), None) for batch in batches))


def _packed(figures: Figures, tables: Iterable[pa.Table]) -> Iterator[pa.RecordBatch]:
    for table in tables:
        for run, rows in by_run(figures.needed(table)):
            sink = pa.BufferOutputStream()
            with pa.ipc.new_stream(sink, rows.schema, options=pa.ipc.IpcWriteOptions(compression="lz4")) as stream:
                stream.write_table(rows.unify_dictionaries())
            yield pa.RecordBatch.from_pydict({"run": [run], "rows": [sink.getvalue().to_pybytes()]})


def _compute(figures: Figures, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    tables = [pa.ipc.open_stream(rows).read_all() for batch in batches for rows in batch.column("rows").to_pylist()]
    if tables:
        yield from figures.compute(pa.concat_tables(tables)).to_batches()
