"""What a path means to metrics: traces small and large, computed metrics, several paths, and what is wrong with them."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from plainchant.core.model import TraceError, UsageError
from plainchant.lab.errors import LabError
from plainchant.lab.metrics import METRICS, measure
from plainchant.lab.metrics.paths import match_paths, measure_paths
from plainchant.scenario import find, load
from plainchant.sim import Simulation
from plainchant.trace import MalformedTrace, TraceBuffer
from tests.lab.catalogue import packed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="module")
def trace() -> pa.Table:
    buffer = TraceBuffer()
    Simulation(load(find("first-steps"), ["duration=100ms"]), trace=buffer).run()
    return buffer.table()


def no_spark() -> NoReturn:
    raise AssertionError("Spark is not needed for this")


def test_a_small_trace_is_measured_without_spark(trace: pa.Table, tmp_path: Path) -> None:
    pq.write_table(trace, tmp_path / "one.parquet")
    assert measure_paths([str(tmp_path)], spark=no_spark).equals(measure(trace))


def test_a_large_trace_is_measured_on_spark_and_the_same(trace: pa.Table, tmp_path: Path, spark: SparkSession) -> None:
    half = trace.num_rows // 2
    pq.write_table(trace.slice(half), tmp_path / "a b [1].parquet")
    pq.write_table(trace.slice(0, half), tmp_path / "c.parquet")

    def session() -> AbstractContextManager[SparkSession]:
        return nullcontext(spark)

    found = measure_paths([str(tmp_path)], spark=session, here_up_to=100)
    assert found.to_pylist() == measure(trace).to_pylist()


def test_every_catalogued_trace_has_the_same_figures_here_and_on_spark(tmp_path: Path, spark: SparkSession) -> None:
    pq.write_table(packed(promised=True), tmp_path / "cases.parquet")
    here = measure_paths([str(tmp_path)], spark=no_spark)
    assert here.num_rows >= 100
    assert measure_paths([str(tmp_path)], spark=lambda: nullcontext(spark), here_up_to=-1).to_pylist() == here.to_pylist()
    matched = match_paths([str(tmp_path)], spark=no_spark)
    assert match_paths([str(tmp_path)], spark=lambda: nullcontext(spark), here_up_to=-1).to_pylist() == matched.to_pylist()


def test_metrics_that_a_directory_holds_are_read(trace: pa.Table, tmp_path: Path) -> None:
    (tmp_path / "metrics").mkdir()
    pq.write_table(measure(trace), tmp_path / "metrics" / "unit-00000.parquet")
    (tmp_path / "runs.parquet").write_text("not to be looked at")
    assert measure_paths([str(tmp_path)], spark=no_spark).equals(measure(trace))


def test_metrics_of_another_version_are_refused(tmp_path: Path) -> None:
    (tmp_path / "metrics").mkdir()
    pq.write_table(METRICS.empty_table().drop_columns(["fairness"]), tmp_path / "metrics" / "unit-00000.parquet")
    with pytest.raises(LabError, match="measure the traces again"):
        measure_paths([str(tmp_path)], spark=no_spark)


def test_runs_of_different_paths_are_different_runs(trace: pa.Table, tmp_path: Path) -> None:
    paths = [str(tmp_path / name) for name in ("a.parquet", "b.parquet")]
    for path in paths:
        pq.write_table(trace, path)
    found = measure_paths(paths, spark=no_spark)
    assert found.column("run").to_pylist() == [f"{path}:r0" for path in paths]
    assert found.schema == METRICS


def test_one_run_can_be_asked_for(trace: pa.Table, tmp_path: Path) -> None:
    pq.write_table(trace, tmp_path / "one.parquet")
    assert measure_paths([str(tmp_path)], spark=no_spark, run="r0").num_rows == 1
    with pytest.raises(UsageError, match="no run 'r9'"):
        measure_paths([str(tmp_path)], spark=no_spark, run="r9")


def test_nothing_to_read_is_said(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="there is no trace"):
        measure_paths([str(tmp_path / "nowhere")], spark=no_spark)


@pytest.mark.parametrize("rows", [0, 10**9])
def test_files_that_are_no_traces_are_refused_with_their_names(tmp_path: Path, rows: int) -> None:
    (tmp_path / "broken.parquet").write_text("PAR1")
    pq.write_table(pa.table({"run": ["r0"]}), tmp_path / "other.parquet")
    with pytest.raises(MalformedTrace, match=r"broken\.parquet"):
        measure_paths([str(tmp_path)], spark=no_spark, here_up_to=rows)


@pytest.mark.parametrize("here_up_to", [10**9, 100], ids=["here", "on Spark"])
def test_a_malformed_trace_is_not_measured(trace: pa.Table, tmp_path: Path, spark: SparkSession, here_up_to: int) -> None:
    for name in ("once.parquet", "twice.parquet"):
        pq.write_table(trace, tmp_path / name)
    for figures in (measure_paths, match_paths):
        with pytest.raises(MalformedTrace, match="index"):
            figures([str(tmp_path)], spark=lambda: nullcontext(spark), here_up_to=here_up_to)
