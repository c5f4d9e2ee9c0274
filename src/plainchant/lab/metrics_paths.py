"""Metrics of whatever a path means: computed ones are read, small traces are measured here, large ones on Spark.

A directory with ``metrics/*.parquet`` in it (a sweep's, or what ``plainchant metrics --out`` wrote) has been measured already.
A trace of up to :data:`HERE_UP_TO` rows is read, validated and measured in this process, in less time than Spark takes to
start; a larger one is never in one memory. Runs of different paths are different runs: where several paths are given, a
run's name has its path before it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from ..model import UsageError
from ..trace import MalformedTrace, read, validate
from ..trace.reader import find_files
from ..trace.schema import SCHEMA
from .errors import LabError
from .metrics import COLUMNS, METRICS, measure
from .parts import addresses, only_spark_knows, plan

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

HERE_UP_TO: Final = 500_000
"""Rows of a trace that are measured without Spark."""


def measure_paths(
    paths: Sequence[str],
    *,
    spark: Callable[[], AbstractContextManager[SparkSession]],
    run: str | None = None,
    here_up_to: int = HERE_UP_TO,
) -> pa.Table:
    """The metrics of all paths in the schema ``METRICS``, ordered by run and group.

    ``spark`` opens a session; it is called only if a trace has more than ``here_up_to`` rows. ``run`` asks for the run of
    that name alone.
    """
    different = list(dict.fromkeys(paths))
    tables: dict[str, pa.Table] = {}
    large: dict[str, list[str]] = {}
    for path in different:
        if "://" not in path and any(Path(path).glob("metrics/*.parquet")):
            tables[path] = _of_run(_computed(path), run)
            continue
        if only_spark_knows(path):
            large[path] = [path]
            continue
        if plan([path], 1).rows <= here_up_to:
            tables[path] = _measure_here(path, run)
        else:
            large[path] = addresses(path, find_files(path)[1])
    if large:
        with spark() as session:
            tables.update((path, _measure_on(session, files, run)) for path, files in large.items())
    if run is not None and not any(table.num_rows for table in tables.values()):
        raise UsageError(f"there is no run {run!r} with a group in {', '.join(different)}; see them all without --run")
    found = [_labelled(tables[path], path if len(different) > 1 else None) for path in different]
    return pa.concat_tables(found).sort_by([("run", "ascending"), ("group", "ascending")])


def _computed(path: str) -> pa.Table:
    """Metrics that somebody computed before."""
    found = []
    for file in sorted(Path(path).glob("metrics/*.parquet")):
        try:
            table = pq.read_table(file)
            found.append(table.select(METRICS.names).cast(METRICS))
        except (OSError, pa.ArrowException, KeyError, ValueError) as error:
            raise LabError(f"{file} holds no metrics of this version ({error}); measure the traces again") from error
    return pa.concat_tables(found)


def _measure_here(path: str, run: str | None) -> pa.Table:
    found = read(path)
    malformed = validate(found.table, found.files)
    if malformed:
        raise MalformedTrace(malformed)
    return measure(_of_run(found.table, run))


def _measure_on(spark: SparkSession, files: Sequence[str], run: str | None) -> pa.Table:
    from .metrics_frames import measure_frame

    trace = _conforming(spark.read.parquet(*files))
    return measure_frame(trace if run is None else trace.where(trace["run"] == run))


def _conforming(trace: DataFrame) -> DataFrame:
    """The columns that metrics read, in the types of the trace format: other writers' may be narrower."""
    types = {pa.string(): "string", pa.int64(): "bigint", pa.int32(): "int", pa.list_(pa.string()): "array<string>"}
    return trace.select(*(trace[name].cast(types[SCHEMA.field(name).type]).alias(name) for name in COLUMNS))


def _of_run(table: pa.Table, run: str | None) -> pa.Table:
    return table if run is None else table.filter(pc.equal(table.column("run"), run))


def _labelled(table: pa.Table, path: str | None) -> pa.Table:
    if path is None:
        return table
    names = pc.binary_join_element_wise(pa.scalar(path), table.column("run"), ":")
    return table.set_column(0, METRICS.field("run"), names)
