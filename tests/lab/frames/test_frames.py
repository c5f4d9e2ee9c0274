"""DataFrames in, DataFrames out: every kind of input, agreement with ``verify``, laziness, and the commands on top."""

from __future__ import annotations

import json
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from plainchant import lab
from plainchant.cli import main
from plainchant.core.model import TraceError, UsageError
from plainchant.lab.frames.schema import SCHEMAS, spark_schema
from plainchant.lab.metrics import measure
from plainchant.lab.properties import Outcome
from plainchant.lab.properties import verify as by_reference
from plainchant.lab.verify import verify_here
from plainchant.lab.verify.frame import results, verification_in
from plainchant.lab.verify.results import Options
from plainchant.trace.schema import SCHEMA, MalformedTrace
from tests.trace.build import trace

from ..agreement import differences
from ..catalogue import packed
from ..cluster import run_python
from ..layouts import written
from .test_plan import shuffled, spoilt

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ROOT = Path(__file__).resolve().parents[3]
SWAPPED = {"p": "view 1 p,q | send | deliver p 1 | deliver q 1 | end", "q": "view 1 p,q | send | deliver q 1 | deliver p 1 | end"}
FINE = {"p": "view 1 p | send | deliver p 1 | end"}


def as_json(frame: DataFrame, *order: str) -> list[dict[str, Any]]:
    return [row.asDict(recursive=True) for row in frame.sort(*order).collect()]


def said(outcomes: list[dict[str, Any]]) -> dict[str, dict[str, int]]:
    """Outcomes added up by property, as in the JSON of ``verify``."""
    found: dict[str, dict[str, int]] = {}
    for row in outcomes:
        sums = found.setdefault(row["property"], dict.fromkeys(("runs", "events", "cases", "violations", "in_part"), 0))
        for name in sums:
            sums[name] += row[name]
    return {name: Outcome(**sums).to_json() for name, sums in found.items()}


# --- agreement ----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def everything() -> pa.Table:
    """The whole catalogue and random runs with mutations, in one trace."""
    return pa.concat_tables([packed(promised=True), spoilt(40)])


def test_outcomes_and_violations_are_those_of_verify(spark: SparkSession, everything: pa.Table, tmp_path: Path) -> None:
    path = written("ordered", everything, tmp_path)
    expected = verify_here([path], most=None).to_json()
    df = lab.trace(spark, path)
    outcomes = as_json(lab.outcomes(df), "run", "property")
    assert said(outcomes) == {name: {**sums} for name, sums in expected["properties"].items()}
    assert all(row["verdict"] == ("violated" if row["violations"] else "holds") for row in outcomes if row["cases"])
    names = ("run", "property", "group", "processes", "messages", "events", "sentence")
    found = [{name: row[name] for name in names} for row in as_json(lab.violations(df), "run")]
    for row in found:
        row["messages"] = [[m["group"], m["sender"], m["seq"]] for m in row["messages"]]
        row["events"] = [[e["process"], e["index"]] for e in row["events"]]
    assert sorted(found, key=json.dumps) == sorted(expected["violations"], key=json.dumps)
    assert len(found) > 300


def test_rows_in_no_order_are_sorted_by_spark_and_get_the_same_verdicts(spark: SparkSession) -> None:
    rows = spoilt(8)
    frame = lab.trace(spark, spark.createDataFrame(shuffled(rows)).repartition(3))
    found = results(frame, Options(None, 20, large_rows=0))
    assert differences(verification_in(found).to_json(), by_reference(rows).to_json()) == []
    assert "_unsorted" in plan_of(found)


def plan_of(frame: DataFrame) -> str:
    text: str = frame._jdf.queryExecution().executedPlan().toString()
    return text


def test_a_clean_trace_is_read_once(spark: SparkSession, tmp_path: Path) -> None:
    path = written("ordered", trace(FINE, promises=["integrity"]), tmp_path)
    outcomes = lab.outcomes(lab.trace(spark, path))
    assert [row["verdict"] for row in outcomes.collect()] == ["holds"]
    final = plan_of(outcomes).partition("== Initial Plan ==")[0]
    assert "Final Plan" in final
    assert final.count("FileScan") == 1
    assert plan_of(lab.outcomes(lab.trace(spark, path))).count("FileScan") > 1


# --- what goes in -------------------------------------------------------------------------------------------------------


@pytest.fixture
def warehouse(spark: SparkSession, tmp_path: Path) -> Iterator[str]:
    """A database whose tables are in a directory of this test."""
    spark.sql(f"CREATE DATABASE lake LOCATION '{(tmp_path / 'lake').as_uri()}'")
    yield "lake"
    spark.sql("DROP DATABASE lake CASCADE")


def test_tables_views_and_partitioned_layouts(
    spark: SparkSession, warehouse: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = pa.concat_tables([trace(FINE, run="007", promises=["integrity"]), trace(SWAPPED, run="2", promises=["identical"])])
    frame = lab.trace(spark, spark.createDataFrame(rows))
    frame.write.partitionBy("run").parquet(str(tmp_path / "by-run"))
    frame.write.saveAsTable(f"{warehouse}.traces")
    frame.createOrReplaceTempView("seen")
    expected = [("007", "integrity", "holds"), ("2", "identical", "violated")]
    for source in (str(tmp_path / "by-run"), f"{warehouse}.traces", f"spark_catalog.{warehouse}.traces", "seen"):
        taken = lab.trace(spark, source)
        assert taken.columns == SCHEMA.names
        got = lab.outcomes(taken).select("run", "property", "verdict").collect()
        assert sorted(map(tuple, got)) == expected, source
    with pytest.raises(UsageError, match=r"neither a table nor a trace lake\.nothing"):
        lab.trace(spark, "lake.nothing")
    for command in (["verify"], ["metrics"]):
        status = main([*command, "--table", f"{warehouse}.traces"])
        assert status == (command == ["verify"]), capsys.readouterr()
        assert main([*command, "--table", f"{warehouse}.traces", "--explain"]) == 0
        assert "MapInArrow" in capsys.readouterr().out
    assert main(["verify", "--table", f"{warehouse}.traces", "--write-to", str(tmp_path / "out")]) == 1
    outcomes = spark.read.parquet(str(tmp_path / "out" / "outcomes"))
    assert sorted(row["property"] for row in outcomes.collect()) == ["identical", "integrity"]
    assert (tmp_path / "out" / "violations" / "property=identical").is_dir()
    assert main(["verify", "--table", f"{warehouse}.traces", "--write-to", str(tmp_path / "out")]) == 2
    assert main(["verify"]) == 2
    assert main(["verify", str(tmp_path / "by-run"), "--table", "seen"]) == 2
    spark.sql(f"CREATE TABLE {warehouse}.empty AS SELECT * FROM {warehouse}.traces WHERE false")
    assert main(["verify", "--table", f"{warehouse}.empty"]) == 2
    assert "has no rows" in capsys.readouterr().err


def test_narrower_types_and_further_columns_are_taken(spark: SparkSession) -> None:
    from pyspark.sql import functions as F

    frame = spark.createDataFrame(trace(FINE, promises=["integrity"]))
    narrow = frame.withColumn("index", F.col("index").cast("smallint")).withColumn("mine", F.lit(1))
    taken = lab.trace(spark, narrow)
    assert taken.columns == [*SCHEMA.names, "mine"]
    assert dict(taken.dtypes)["index"] == "bigint"
    assert lab.outcomes(narrow).filter("verdict = 'holds'").count() == 1


def test_a_column_that_is_missing_or_wrong_is_an_error_at_once(spark: SparkSession, tmp_path: Path) -> None:
    from pyspark.sql import functions as F

    frame = spark.createDataFrame(trace(FINE))
    with pytest.raises(MalformedTrace, match="column 'kind' is missing"):
        lab.outcomes(frame.drop("kind"))
    with pytest.raises(MalformedTrace, match="column 'index' has type double"):
        lab.trace(spark, frame.withColumn("index", F.col("index").cast("double")))
    pq.write_table(trace(FINE).drop_columns(["seq"]), tmp_path / "t.parquet")
    with pytest.raises(MalformedTrace, match="column 'seq' is missing"):
        lab.trace(spark, tmp_path)
    with pytest.raises(TraceError, match="there is no trace"):
        lab.trace(spark, tmp_path / "nowhere")
    with pytest.raises(UsageError, match="did you mean 'total'"):
        lab.outcomes(frame, ["totl"])


# --- what is malformed --------------------------------------------------------------------------------------------------


def test_a_malformed_run_is_in_every_answer_and_spoils_no_other(spark: SparkSession) -> None:
    gap = trace(FINE, run="gap", promises=["integrity"])
    gap = gap.filter(pc.not_equal(gap["index"], 2))
    null = trace(FINE, run="null", promises=["integrity"])
    kinds = [None if n == 4 else kind for n, kind in enumerate(null["kind"].to_pylist())]
    null = null.set_column(null.column_names.index("kind"), "kind", pa.array(kinds, pa.string()))
    nameless = trace(FINE, run="x").slice(0, 1)
    nameless = nameless.set_column(0, "run", pa.array([None], pa.string()))
    rows = pa.concat_tables([gap, null, nameless, trace(FINE, run="fine", promises=["integrity"])])
    from pyspark.sql import functions as F

    frame = spark.createDataFrame(rows).withColumn("file", F.concat(F.lit("s3://"), "run"))
    got = [(row["run"], row["property"], row["verdict"]) for row in lab.outcomes(frame).collect()]
    wrong = [(run, None, "malformed") for run in (None, "gap", "null")]
    assert sorted(got, key=str) == sorted([*wrong, ("fine", "integrity", "holds")], key=str)
    told = {row["run"]: (row["property"], row["sentence"]) for row in lab.violations(frame).collect()}
    assert told == {
        "gap": ("malformed", "a gap: index 2 is missing"),
        "null": ("malformed", "column 'kind' is null"),
        None: ("malformed", "column 'run' is null"),
    }
    places = {row["run"]: (row["file"], row["process"], row["index"]) for row in lab.malformed(frame).collect()}
    assert places == {"gap": ("s3://gap", "p", 3), "null": ("s3://null", "p", 4), None: (None, "p", 0)}


# --- figures and sweeps -------------------------------------------------------------------------------------------------


def test_metrics_and_sweeps(spark: SparkSession) -> None:
    runs = lab.sweep(spark, "first-steps", range(2))
    assert as_json(runs.select("run", "verdict"), "run") == [{"run": f"seed={n}", "verdict": "holds"} for n in range(2)]
    traces = lab.sweep(spark, "first-steps", "0:2", table="trace")
    table = traces.toArrow().cast(SCHEMA)
    assert set(table["run"].to_pylist()) == {"seed=0", "seed=1"}
    assert sorted(lab.metrics(traces).toArrow().to_pylist(), key=str) == sorted(measure(table).to_pylist(), key=str)
    assert lab.detections(traces).count() == 2
    swept = as_json(lab.sweep(spark, "first-steps", "0:2", table="outcomes"), "run", "property")
    assert swept == as_json(lab.outcomes(traces, [*{row["property"] for row in swept}]), "run", "property")


def test_packages_that_are_functions_are_packages() -> None:
    for name, attribute in (("metrics", "measure"), ("sweep", "define")):
        package = import_module(f"plainchant.lab.{name}")
        assert callable(package)
        assert callable(getattr(package, attribute))
        assert getattr(lab, name) is package


# --- laziness and schemas -----------------------------------------------------------------------------------------------


def test_nothing_runs_until_an_action_and_answers_go_on_in_sql(spark: SparkSession, tmp_path: Path) -> None:
    rows = pa.concat_tables([trace(FINE, run="a", promises=["integrity"]), trace(SWAPPED, run="b", promises=["identical"])])
    frame = spark.createDataFrame(rows)
    before = jobs(spark)
    answers = [lab.outcomes(frame), lab.violations(frame), lab.malformed(frame), lab.metrics(frame), lab.detections(frame)]
    assert jobs(spark) == before
    for frame_of, name in zip(answers, ("outcomes", "violations", "malformed", "metrics", "detections"), strict=True):
        assert types(frame_of.schema) == types(spark_schema(name)), name
    answers[0].createOrReplaceTempView("outcomes")
    worst = spark.sql("SELECT run, sum(violations) AS n FROM outcomes GROUP BY run HAVING n > 0")
    answers[1].join(worst, "run").write.partitionBy("property").parquet(str(tmp_path / "out"))
    assert spark.read.parquet(str(tmp_path / "out")).select("run").distinct().collect()[0]["run"] == "b"
    assert jobs(spark) > before


def jobs(spark: SparkSession) -> int:
    return len(spark.sparkContext.statusTracker().getJobIdsForGroup(None))


def types(schema: Any) -> list[tuple[str, str]]:
    return [(field.name, field.dataType.simpleString()) for field in schema]


def test_the_documented_schemas_are_the_real_ones() -> None:
    page = (ROOT / "docs" / "lab.md").read_text()
    for name in ("outcomes", "violations", "malformed", "runs"):
        expected = ", ".join(f"`{field.name}` {field.dataType.simpleString()}" for field in spark_schema(name))
        assert f"| `{name}` | {expected} |" in page, f"| `{name}` | {expected} |"
    assert set(SCHEMAS) == {"trace", "outcomes", "violations", "malformed", "metrics", "detections", "runs"}


# --- elsewhere ----------------------------------------------------------------------------------------------------------

CONNECTED = """
import json, sys
from plainchant import lab
from plainchant.lab.session import session

with session(remote=sys.argv[1]) as spark:
    df = lab.trace(spark, sys.argv[2])
    outcomes = sorted((row.run, row.property, row.verdict, row.cases) for row in lab.outcomes(df).collect())
    swept = lab.sweep(spark, "first-steps", "0:1")
    print(json.dumps([outcomes, lab.violations(df).count(), lab.metrics(df).count(), swept.count()]))
"""


def test_a_connect_server_says_the_same(connect: str, tmp_path: Path) -> None:
    rows = spoilt(6)
    path = written("ordered", rows, tmp_path)
    done = run_python(CONNECTED, connect, path)
    assert done.returncode == 0, done.stderr
    outcomes, violations, measured, swept = json.loads(done.stdout)
    expected = verify_here([path], most=None)
    assert {row[1] for row in outcomes} == expected.properties.keys()
    for name, outcome in expected.properties.items():
        assert sum(row[3] for row in outcomes if row[1] == name) == outcome.cases
    assert (violations, measured, swept) == (len(expected.violations), measure(rows).num_rows, 1)
