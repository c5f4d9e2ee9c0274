"""Verification on Spark: whole runs, split runs, rows out of order, digests at a crash, and what people see."""

from __future__ import annotations

import json
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from plainchant.cli import main
from plainchant.core.model import TraceError
from plainchant.lab.errors import LabError
from plainchant.lab.properties import PROPERTIES, Outcome, Verification
from plainchant.lab.properties import verify as by_reference
from plainchant.lab.properties.certificates.unit import Unit
from plainchant.lab.verify import is_small, parts, results, verify
from plainchant.lab.verify import job as module
from plainchant.lab.verify.check import together
from plainchant.lab.verify.frame import compact, decided, settled_run, wanted_of
from plainchant.lab.verify.results import Options, Sum, verification_of
from tests.protocols.sequencer import sweep
from tests.trace.build import trace

from ..cluster import run_python

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FROM_A_SHELL = """
import sys
from plainchant.cli import main
from plainchant.lab.verify import parts
from plainchant.lab.verify import job as verify, tasks
verify.verify.__kwdefaults__.update(chunk_rows=600, least_rows=1)
verify._SPLIT_HERE, tasks.MAX_WITH_FUNCTION = 2, 0
sys.exit(main(["verify", *sys.argv[1:], "--engine", "spark"]))
"""

SWAPPED = {"p": "view 1 p,q | send | deliver p 1 | deliver q 1 | end", "q": "view 1 p,q | send | deliver q 1 | deliver p 1 | end"}


@pytest.fixture(scope="module")
def crash() -> pa.Table:
    """A run in which processes crash in the middle of the traffic."""
    tables = (sweep.run(seed).table for seed in range(200))
    return next(table for table in tables if "crash" in table.column("kind").to_pylist() and table.num_rows > 2_500)


def same(mine: Verification, theirs: Verification) -> None:
    assert mine.to_json() == theirs.to_json()


@pytest.mark.parametrize("rows", [100_000, 400])
def test_a_run_gets_the_verdict_of_the_reference_whole_and_split(
    spark: SparkSession, crash: pa.Table, tmp_path: Path, rows: int
) -> None:
    pq.write_table(crash, tmp_path / "t.parquet", row_group_size=200)
    found = verify(spark, [str(tmp_path)], list(PROPERTIES), chunk_rows=rows, least_rows=1)
    same(found, by_reference(crash, list(PROPERTIES)))


def test_of_many_chunks_what_slices_share_is_brought_together_first(
    spark: SparkSession, crash: pa.Table, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pq.write_table(crash, tmp_path / "t.parquet", row_group_size=500)
    plan = parts.plan([str(tmp_path)], 1, chunk_rows=600, least_rows=1)
    for least, levels in ((100, 2), (2, 3)):
        monkeypatch.setattr(module, "_SPLIT_HERE", least)
        found = module._settled(spark, plan, Options(None, None))
        assert found._jdf.queryExecution().analyzed().toString().count("MapInArrow") == levels
        same(verify(spark, [str(tmp_path)], chunk_rows=600, least_rows=1), by_reference(crash))


def cut_in_a_block(digest: int) -> pa.Table:
    """A run whose last block of digests is whole at p and q and broken off at r, so that only its rows can tell."""
    sends = " | ".join(["send digest=7"] * 600)
    all_of_them = " | ".join(f"deliver p {n} digest=7" for n in range(1, 601))
    some = " | ".join(f"deliver p {n} digest=7" for n in range(1, 400))
    histories = {
        "p": f"view 1 p,q,r | {sends} | {all_of_them} | end",
        "q": f"view 1 p,q,r | {all_of_them} | end",
        "r": f"view 1 p,q,r | {some} | deliver p 400 digest=DIGEST | crash",
    }
    return trace({name: text.replace("DIGEST", str(digest)) for name, text in histories.items()})


def test_a_digest_that_differs_just_where_a_process_crashed_is_found(spark: SparkSession, tmp_path: Path) -> None:
    for digest, verdict in ((7, "holds"), (8, "violated")):
        table = cut_in_a_block(digest)
        path = tmp_path / f"{digest}.parquet"
        pq.write_table(table, path, row_group_size=601)
        found = verify(spark, [str(path)], ["integrity"], chunk_rows=600, least_rows=1)
        same(found, by_reference(table, ["integrity"]))
        assert found.verdict == verdict


@pytest.mark.parametrize("changed", [None, 450, 300], ids=["clean", "in the rest", "before the cut"])
def test_a_block_that_the_end_of_a_row_group_cuts_needs_no_second_look(changed: int | None) -> None:
    """q's history is cut at message 400, in the middle of a block that r, in the second part, delivers whole."""
    sends = " | ".join(["send digest=7"] * 600)
    theirs = [f"deliver p {n} digest=7" for n in range(1, 601)]
    odd = [text.replace("7", "8") if n == changed else text for n, text in enumerate(theirs, 1)]
    told = {"p": [sends, *theirs], "q": odd, "r": theirs}
    table = trace({name: f"view 1 p,q,r | {' | '.join(rows)} | end" for name, rows in told.items()})
    bounds = [0, 1202, 1202 + 401, table.num_rows]
    slices = [compact(Unit(table.slice(a, b - a)).slice(0, alone=True)) for a, b in pairwise(bounds)]
    found = settled_run("r0", slices, Options(("integrity",), None))
    assert not found.unresolved
    assert found.is_open == (changed is not None)


def test_a_process_that_joins_in_the_middle_of_a_block_needs_no_second_look() -> None:
    """Those who were there install the view in which it does, and so tell that block's digests one by one."""
    rows = [f"deliver p {n} digest=7" for n in range(1, 601)]
    sends = ["send digest=7"] * 600
    p = ["view 1 p,q", *sends[:400], *rows[:400], "view 2 p,q,r", *sends[400:], *rows[400:], "end"]
    q = ["view 1 p,q", *rows[:400], "view 2 p,q,r", *rows[400:], "end"]
    table = trace({"p": " | ".join(p), "q": " | ".join(q), "r": " | ".join(["view 2 p,q,r", *rows[400:], "end"])})
    bounds = [0, len(p), len(p) + len(q), table.num_rows]
    slices = [compact(Unit(table.slice(a, b - a)).slice(0, alone=True)) for a, b in pairwise(bounds)]
    found = settled_run("r0", slices, Options(("integrity",), None))
    assert not found.is_open
    same(together([found], ["integrity"]), by_reference(table, ["integrity"]))


@pytest.mark.parametrize("large_rows", [0, 10**9])
def test_rows_in_any_order_over_any_files(spark: SparkSession, crash: pa.Table, tmp_path: Path, large_rows: int) -> None:
    """Sorted by Spark where that is worth it, or where the run is read again."""
    places = pa.array(range(crash.num_rows))
    scattered = crash.take(pc.sort_indices(pc.bit_wise_and(pc.multiply(places, 7919), 4095)))
    pq.write_table(scattered, tmp_path / "t.parquet", row_group_size=500)
    found = verify(spark, [str(tmp_path)], chunk_rows=600, least_rows=1, large_rows=large_rows)
    same(found, by_reference(crash))


def test_what_arrow_cannot_open_goes_through_sparks_reader(
    spark: SparkSession, crash: pa.Table, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(path: str) -> object:
        raise OSError(f"Unrecognized filesystem type in URI: {path}")

    (tmp_path / "trace").mkdir()
    pq.write_table(crash, tmp_path / "trace" / "1.parquet")
    monkeypatch.setattr("plainchant.trace.reader.filesystem_of", refuse)
    monkeypatch.setattr("plainchant.lab.verify.parts.filesystem_of", refuse)
    found = verify(spark, [f"file://{tmp_path}/trace"], list(PROPERTIES))
    same(found, by_reference(crash, list(PROPERTIES)))
    with pytest.raises(TraceError, match="check the address"):
        verify(spark, [f"file://{tmp_path}/missing"])


@pytest.mark.parametrize("where", ["standalone", "connect"])
def test_a_cluster_and_a_connect_server_say_the_same(
    where: str, crash: pa.Table, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """From the shell, split over many small row groups, so that certificates travel between executors."""
    for number in range(3):
        run = pa.array([f"r{number}"] * crash.num_rows)
        place = crash.column_names.index("run")
        pq.write_table(crash.set_column(place, "run", run), tmp_path / f"{number}.parquet", row_group_size=500)
    found = tmp_path / "found.json"
    service = request.getfixturevalue(where)
    option = ["--master", service.master] if where == "standalone" else ["--remote", service]
    done = run_python(FROM_A_SHELL, str(tmp_path / "*.parquet"), "--json", str(found), *option)
    assert done.returncode == 0, done.stderr
    expected = by_reference(crash).properties
    told = json.loads(found.read_text())["properties"]
    assert {name: (o["runs"], o["cases"]) for name, o in told.items()} == {n: (3, 3 * o.cases) for n, o in expected.items()}


def test_a_missing_row_is_malformed_whichever_way_it_goes(spark: SparkSession, crash: pa.Table, tmp_path: Path) -> None:
    gone = crash.column("kind").to_pylist().index("deliver", 1_000)
    holed = pa.concat_tables([crash.slice(0, gone), crash.slice(gone + 1)])
    pq.write_table(holed, tmp_path / "t.parquet", row_group_size=300)
    for rows in (10**6, 300):
        found = verify(spark, [str(tmp_path)], chunk_rows=rows, least_rows=1)
        assert found.verdict == "malformed"
        (problem,) = found.malformed
        assert problem.index == crash.column("index")[gone + 1].as_py()
        assert "is missing" in problem.problem


@pytest.mark.parametrize("large_rows", [0, 10**9], ids=["told at once", "read again"])
@pytest.mark.parametrize("spoil", ["a gap", "a repeat that a gap hides", "a file that is there twice"])
def test_rows_that_no_order_mends_are_malformed(
    spark: SparkSession, crash: pa.Table, tmp_path: Path, large_rows: int, spoil: str
) -> None:
    """Also where the two rows are in different files, as they are here."""
    at = crash.column("kind").to_pylist().index("deliver", 1_000)
    place = crash.column_names.index("index")
    index = crash.column("index").to_pylist()
    rows, due = crash, (index[at], "stands here twice")
    if spoil == "a gap":
        rows, due = pa.concat_tables([crash.slice(0, at), crash.slice(at + 1)]), (index[at + 1], "is missing")
    elif spoil == "a repeat that a gap hides":
        due = (index[at] - 1, "stands here twice")
        rows = crash.set_column(place, "index", pa.array([*index[:at], index[at] - 1, *index[at + 1 :]]))
    else:
        pq.write_table(rows.slice(at, 1), tmp_path / "2b.parquet")
    pq.write_table(rows.slice(0, at), tmp_path / "1.parquet", row_group_size=500)
    pq.write_table(rows.slice(at), tmp_path / "2.parquet", row_group_size=500)
    found = verify(spark, [str(tmp_path)], chunk_rows=600, least_rows=1, large_rows=large_rows)
    assert found.verdict == "malformed"
    problem = found.malformed[0]
    assert (problem.process, problem.index) == (crash.column("process")[at].as_py(), due[0])
    assert due[1] in problem.problem
    assert Path(problem.file or "").name in ("2.parquet", "2b.parquet")


def test_only_the_run_that_is_out_of_order_is_sorted(
    spark: SparkSession, crash: pa.Table, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sorted_runs = []
    sort = module._verify_sorted

    def noted(spark: SparkSession, source: Any, *rest: Any) -> None:
        sorted_runs.append(source)
        sort(spark, source, *rest)

    monkeypatch.setattr(module, "_verify_sorted", noted)
    places = pa.array(range(crash.num_rows))
    scattered = crash.take(pc.sort_indices(pc.bit_wise_and(pc.multiply(places, 7919), 4095)))
    for name, rows in (("r1", crash), ("r2", scattered), ("r3", crash)):
        run = pa.array([name] * crash.num_rows)
        pq.write_table(rows.set_column(0, "run", run), tmp_path / f"{name}.parquet", row_group_size=500)
    found = verify(spark, [str(tmp_path)], chunk_rows=600, least_rows=1, large_rows=0)
    assert [(source.runs, len(source.files)) for source in sorted_runs] == [(("r2",), 1)]
    expected = by_reference(crash).properties
    assert {n: (o.runs, o.cases) for n, o in found.properties.items()} == {n: (3, 3 * o.cases) for n, o in expected.items()}


def test_digests_of_a_large_run_are_compared_by_the_rows_about_those_messages_alone() -> None:
    for digest, verdict in ((7, "holds"), (8, "violated")):
        table = cut_in_a_block(digest)
        slices = [compact(Unit(table.slice(first, 601)).slice(0, alone=True)) for first in range(0, table.num_rows, 601)]
        options = Options(("integrity",), None, large_rows=0)
        found = settled_run("r0", slices, options)
        wanted = wanted_of(found)
        assert all(each["wanted_sender"] == "p" and each["low"] > 1 for each in wanted), wanted
        rows = table.filter(found.narrowed.is_about(table)) if found.narrowed else table
        assert rows.num_rows < table.num_rows // 2
        total = Sum()
        total.add(decided(found, rows, options))
        same(verification_of(total, options), by_reference(table, ["integrity"]))
        assert total.verification(None).verdict == verdict


def test_sums_of_many_tasks_are_added_up_by_tasks(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whole runs, a task each: what comes to the driver depends on the number of partitions, not on that of the tasks."""
    runs = [trace(SWAPPED, run=f"r{n:02d}", promises=["identical", "fifo"]) for n in range(70)]
    pq.write_table(pa.concat_tables(runs), tmp_path / "t.parquet", row_group_size=runs[0].num_rows)
    came = []
    collect = module._collect

    def noted(rows: Any, *rest: Any) -> Any:
        came.append([row["kind"] for row in rows.select("kind").collect()])
        return collect(rows, *rest)

    monkeypatch.setattr(module, "_collect", noted)
    found = verify(spark, [str(tmp_path)], chunk_rows=1, least_rows=1)
    same(found, by_reference(pa.concat_tables(runs)))
    assert came[0].count("outcome") <= 2 * 2
    assert came[0].count("violation") == 70


def test_of_very_many_violations_the_driver_gets_some_and_the_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(results, "_DESCRIBED", 5)
    total = Sum()
    for n in range(12):
        check_one = by_reference(trace(SWAPPED, run=f"r{n:02d}"), ["identical"])
        total.violations += [((2, 0, v.run, v.property, v.events, v.messages, v.sentence), v) for v in check_one.violations]
        total.outcomes["identical"] = total.outcomes.get("identical", Outcome()) + check_one.properties["identical"]
    thinned = total.thinned(20)
    assert [v.run for _, v in thinned.violations] == [f"r{n:02d}" for n in range(5)]
    assert thinned.outcomes["identical"].violations == 12
    monkeypatch.setattr(results, "_DESCRIBED_IN_ALL", 9)
    assert [v.run for _, v in total.thinned(20, tasks=3).violations] == [f"r{n:02d}" for n in range(3)], (
        "of many tasks fewer each"
    )


def test_two_paths_with_runs_of_the_same_name(spark: SparkSession, tmp_path: Path) -> None:
    good = trace({"p": "view 1 p | send | deliver p 1 | end"})
    pq.write_table(good, tmp_path / "1.parquet")
    pq.write_table(trace(SWAPPED), tmp_path / "2.parquet")
    found = verify(spark, [str(tmp_path / "1.parquet"), str(tmp_path / "2.parquet")], ["identical", "integrity"])
    assert found.properties["integrity"].runs == 2
    assert {violation.run for violation in found.violations} == {f"{tmp_path / '2.parquet'}:r0"}


def test_every_violation_is_written_when_asked(spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    twice = "view 1 p | " + " | ".join("send | deliver p {0} | deliver p {0}".format(n) for n in range(1, 41)) + " | end"  # noqa: UP032
    pq.write_table(trace({"p": twice}), tmp_path / "t.parquet")
    path = str(tmp_path / "t.parquet")
    assert main(["verify", path, "--property", "integrity", "--json", str(tmp_path / "some.json")]) == 1
    assert len(json.loads((tmp_path / "some.json").read_text())["violations"]) == 20
    assert "40 violations in all" in capsys.readouterr().out
    for name in ("all.jsonl", "all.parquet"):
        assert main(["verify", path, "--property", "integrity", "--violations", str(tmp_path / name)]) == 1
    assert len((tmp_path / "all.jsonl").read_text().splitlines()) == 40
    assert pq.read_table(tmp_path / "all.parquet").num_rows == 40


def test_the_command_tells_what_it_checked_and_found(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pq.write_table(trace(SWAPPED, promises=["identical", "fifo"]), tmp_path / "t.parquet")
    assert main(["verify", str(tmp_path / "t.parquet")]) == 1
    said = capsys.readouterr().out
    assert "nothing to check" in said  # fifo: nobody sends two
    assert "p delivers message 1 of p in g before message 1 of q in g, q the other way round" in said
    assert "p at index 3" in said


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["missing"], "there is no trace at missing"),
        (["x", "--property", "totl"], "did you mean 'total'?"),
        (["x", "--violations", "all.txt"], "name such a file"),
        (["x", "--master", "local[2]", "--remote", "sc://h"], "exclude each other"),
    ],
)
def test_mistakes_are_sentences(
    arguments: list[str], sentence: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    pq.write_table(trace(SWAPPED), "x")
    assert main(["verify", *arguments]) == 2
    assert sentence in capsys.readouterr().err


def test_small_traces_are_verified_without_spark(crash: pa.Table, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pq.write_table(crash, tmp_path / "t.parquet")
    command = import_module("plainchant.cli.verify")
    asked: list[tuple[object, ...]] = []

    def never(*where: object, **options: object) -> None:
        asked.append(where)
        raise LabError("no Spark here")

    monkeypatch.setattr(command, "spark_for", never)
    path, out = str(tmp_path / "t.parquet"), ["--json", str(tmp_path / "found.json")]
    assert main(["verify", path, *out]) == main(["verify", path, "--engine", "local"]) == 0
    assert asked == []
    assert json.loads((tmp_path / "found.json").read_text())["properties"] == by_reference(crash).to_json()["properties"]
    for about in (["--engine", "spark"], ["--master", "local[2]"], ["--memory", "2g"], ["--conf", "spark.a=b"], ["--spark-ui"]):
        assert main(["verify", path, *about]) == 2
    assert len(asked) == 5
    assert main(["verify", path, "--engine", "local", "--master", "local[2]"]) == 2
    assert is_small([path])
    assert not is_small([path], crash.num_rows - 1)
    monkeypatch.setattr("plainchant.lab.verify.parts.MANY_FILES", 0)
    assert not is_small([path])


FROM_A_SHELL_HERE = """
import sys
from plainchant.cli import main
status = main(["verify", sys.argv[1]])
assert not any(name.partition(".")[0] == "pyspark" for name in sys.modules), "it costs a second to import"
sys.exit(status)
"""


def test_a_small_trace_needs_no_pyspark(crash: pa.Table, tmp_path: Path) -> None:
    pq.write_table(crash, tmp_path / "t.parquet")
    done = run_python(FROM_A_SHELL_HERE, str(tmp_path / "t.parquet"))
    assert (done.returncode, done.stderr) == (0, "")
