"""Metrics, and matched failures, of whatever a path means: computed ones are read, small traces are measured here, large ones
on Spark.

A directory with ``metrics/*.parquet`` in it (a sweep's, or what ``plainchant metrics --out`` wrote) has been measured already.
A trace of up to :data:`HERE_UP_TO` rows is read, validated and measured in this process, in less time than Spark takes to
start. Runs of different paths are different runs: where several paths are given, a run's name has its path before it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from ...core.model import UsageError
from ...trace import MalformedTrace
from ..errors import LabError
from ..verify import is_small, verify, verify_here
from .frames import DetectionsOfRuns, Figures, MetricsOfRuns
from .schema import METRICS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

HERE_UP_TO: Final = 2_000_000  # rows of a trace that are measured without Spark


def _of_paths(
    figures: type[Figures],
    paths: Sequence[str],
    *,
    spark: Callable[[], AbstractContextManager[SparkSession]],
    run: str | None = None,
    here_up_to: int = HERE_UP_TO,
) -> pa.Table:
    """The figures of all paths, ordered by run and group.

    ``spark`` opens a session; it is called only if a trace has more than ``here_up_to`` rows. ``run`` asks for the run of that
    name alone."""
    different = list(dict.fromkeys(paths))
    tables: dict[str, pa.Table] = {}
    large: list[str] = []
    for path in different:
        computed = _computed(path) if figures.schema is METRICS else None
        if computed is not None:
            tables[path] = _of_run(computed, run)
        elif is_small([path], here_up_to):
            tables[path] = _measured(verify_here, path, figures, run)
        else:
            large.append(path)
    if large:
        with spark() as session:
            for path in large:
                tables[path] = _measured(partial(verify, session), path, figures, run)
    if run is not None and not any(table.num_rows for table in tables.values()):
        raise UsageError(f"there is no run {run!r} with a group in {', '.join(different)}; see them all without --run")
    found_in = [_labelled(tables[path], path if len(different) > 1 else None) for path in different]
    order = [(name, "ascending") for name in ("run", "group") if name in figures.schema.names]
    return pa.concat_tables(found_in).sort_by(order)


def _measured(verifying: Callable[..., Any], path: str, figures: type[Figures], run: str | None) -> pa.Table:
    """The figures of a path, which is validated in the same pass: verified for no property."""
    beside, results = figures(run), dict[str, bytes]()
    if malformed := verifying([path], [], beside=beside, results=results).malformed:
        raise MalformedTrace(malformed)
    return beside.table(results)


measure_paths: Final = partial(_of_paths, MetricsOfRuns)
match_paths: Final = partial(_of_paths, DetectionsOfRuns)


def _computed(path: str) -> pa.Table | None:
    """Metrics that a sweep computed before."""
    files = sorted(Path(path).glob("metrics/*.parquet")) if "://" not in path else []
    found = []
    for file in files:
        try:
            table = pq.read_table(file)
            found.append(table.select(METRICS.names).cast(METRICS))
        except (OSError, pa.ArrowException, KeyError, ValueError) as error:
            raise LabError(f"{file} holds no metrics of this version ({error}); measure the traces again") from error
    return pa.concat_tables(found) if found else None


def _of_run(table: pa.Table, run: str | None) -> pa.Table:
    return table if run is None else table.filter(pc.equal(table.column("run"), run))


def _labelled(table: pa.Table, path: str | None) -> pa.Table:
    if path is None:
        return table
    names = pc.binary_join_element_wise(pa.scalar(path), table.column("run"), ":")
    return table.set_column(0, METRICS.field("run"), names)
