"""Metrics, and matched failures, of traces of any size, on Spark and here.

What is computed is a ``Beside`` of verification (``lab.verify.beside``): tasks make partials of the rows that they have
decoded for certificates, the shuffle that brings the certificates of a run together brings these too, and the figures are
told where they meet. So a large trace is validated and measured, or verified and measured for a report, in one pass over its
rows. The same functions take a DataFrame and give one.
"""

from __future__ import annotations

import pickle
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Final

import numpy as np
import pyarrow as pa

from ...trace.schema import SCHEMA, Malformed, MalformedTrace
from ..session import send_code
from ..verify.beside import AGAIN, APART, Rows
from ..verify.check import plain
from ..verify.frame import sorted_rows, units_of
from . import detections
from .detections import DETECTIONS, match
from .merged import Incomplete, Merged, is_whole
from .partials import Source
from .samples import from_bytes, to_bytes
from .schema import COLUMNS, METRICS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_PARTIALS: Final = "run string, partial binary"
_SQL: Final = {pa.string(): "string", pa.int64(): "bigint", pa.int32(): "int", pa.list_(pa.string()): "array<string>"}


@dataclass(frozen=True, slots=True)
class Figures(ABC):
    """What can be computed of whole runs: a ``Beside`` of verification, and a function from DataFrame to DataFrame."""

    run: str | None = None  # this one alone
    columns: ClassVar[Sequence[str]]
    schema: ClassVar[pa.Schema]

    @abstractmethod
    def partials(self, rows: Rows, *, everything: bool = False) -> Iterator[tuple[str, Any]]:
        """What a unit of rows says of each run in it."""

    @abstractmethod
    def shipped(self, partial: Any) -> bytes:
        """A partial as bytes."""

    @abstractmethod
    def settled(self, run: str, partials: Sequence[Any]) -> bytes:
        """The figures of a run, from all its partials; or ``AGAIN``, or ``APART``."""

    def table(self, results: Mapping[str, bytes]) -> pa.Table:
        """What was settled of some runs, ordered by run and group."""
        return pa.Table.from_pylist([row for run in sorted(results) for row in pickle.loads(results[run])], schema=self.schema)

    def _runs(self, rows: Rows) -> Iterator[tuple[int, str]]:
        return ((place, run) for place, run in enumerate(rows.run.values) if self.run in (None, run))

    def frame(self, trace: DataFrame) -> DataFrame:
        """The figures of every run of a DataFrame with the columns of the trace format, lazily, in the columns of ``schema``.

        Its types may be narrower. Spark sorts it by (run, process, index). Gaps and repeated indices are an error, which Spark
        tells when the figures are asked for; nothing else is validated."""
        from pyspark.sql.pandas.types import from_arrow_schema

        send_code(trace.sparkSession)
        types = {name: _SQL[SCHEMA.field(name).type] for name in self.columns}
        rows = trace.select(*(trace[name].cast(sql).alias(name) for name, sql in types.items()))
        partials = sorted_rows(rows).mapInArrow(partial(_partials, self), _PARTIALS)
        return partials.repartition("run").mapInArrow(partial(_told, self), from_arrow_schema(self.schema))

    def of_frame(self, trace: DataFrame) -> pa.Table:
        """The figures of every run of a DataFrame, ordered by run and group."""
        names = [name for name in ("run", "group") if name in self.schema.names]
        return self.frame(trace).toArrow().cast(self.schema).sort_by([(name, "ascending") for name in names])


def _partials(figures: Figures, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for table in units_of(batches):
        for run, each in figures.partials(Rows(table), everything=True):
            yield pa.RecordBatch.from_pydict({"run": [run], "partial": [figures.shipped(each)]})


def _told(figures: Figures, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    partials: dict[str, list[bytes]] = {}
    for batch in batches:
        for row in batch.to_pylist():
            partials.setdefault(row["run"], []).append(row["partial"])
    for run in sorted(partials):
        result = figures.settled(run, partials.pop(run))
        if result == APART:
            raise MalformedTrace([Malformed(None, run, None, None, _APART)])
        yield from figures.table({run: result}).to_batches()


_APART: Final = "indices of a history are missing or repeated; verify the trace to see which"


class MetricsOfRuns(Figures):
    columns = COLUMNS
    schema = METRICS

    def partials(self, rows: Rows, *, everything: bool = False) -> Iterator[tuple[str, Any]]:
        source = Source(rows)
        return ((run, source.partial(place, everything=everything)) for place, run in self._runs(rows))

    def shipped(self, partial: Any) -> bytes:
        return to_bytes(partial.shipped())

    def settled(self, run: str, partials: Sequence[Any]) -> bytes:
        told = [from_bytes(each) if isinstance(each, bytes) else each for each in partials]
        if not told or not is_whole(told):
            return APART
        try:
            return pickle.dumps(list(Merged(run, told).metrics()), protocol=5)
        except Incomplete:
            return AGAIN


class DetectionsOfRuns(Figures):
    """These need few rows: a partial is a table of them."""

    columns = (*detections.COLUMNS, "view", "seq")  # ``Rows`` has these too
    schema = DETECTIONS

    def partials(self, rows: Rows, *, everything: bool = False) -> Iterator[tuple[str, Any]]:
        is_needed = rows.index == 0  # so that all runs are known
        for kind in detections.KINDS:
            is_needed |= rows.kind.equals(kind)
        for place, run in self._runs(rows):
            yield run, rows.rows(np.flatnonzero(is_needed & (rows.run.codes == place))).select(list(detections.COLUMNS))

    def shipped(self, partial: Any) -> bytes:
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, partial.schema, options=pa.ipc.IpcWriteOptions(compression="lz4")) as stream:
            stream.write_table(partial.unify_dictionaries())
        content: bytes = sink.getvalue().to_pybytes()
        return content

    def settled(self, run: str, partials: Sequence[Any]) -> bytes:
        tables = [pa.ipc.open_stream(each).read_all() if isinstance(each, bytes) else each for each in partials]
        if not tables:
            return APART
        return pickle.dumps(match(pa.concat_tables(map(plain, tables))).to_pylist(), protocol=5)
