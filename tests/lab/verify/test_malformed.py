"""Input that is wrong as a trace: told with file, run, process and index, exit status 2, and never called a violation.

Every kind of problem that the format knows stands in a run of its own, among correct ones. The plain validation of
``plainchant.trace`` (whose own tests are in ``tests/trace/test_validation.py``) is the measure: Spark says the same, in every
layout.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from plainchant.cli import main
from plainchant.lab.verify.check import check
from plainchant.trace import SCHEMA, read, validate
from plainchant.trace.schema import VERSION_KEY
from tests.trace.build import trace

from ..layouts import LAYOUTS, written

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Row = dict[str, Any]

AB = "view 1 a,b"
FINE = {
    "a": f"{AB} | send | deliver a 1 | send | deliver a 2 | view 2 a,b | send | deliver a 3 | end",
    "b": f"{AB} | deliver a 1 | deliver a 2 | view 2 a,b | deliver a 3 | end",
}


def rows_of(histories: dict[str, str], run: str) -> list[Row]:
    rows: list[Row] = trace(histories, run=run, promises=["integrity", "fifo", "causal", "agreement"]).to_pylist()
    return rows


def at(rows: list[Row], process: str, index: int) -> Row:
    return next(row for row in rows if row["process"] == process and row["index"] == index)


def change(process: str, place: int, **values: Any) -> Callable[[list[Row]], None]:
    return lambda rows: at(rows, process, place).update(values)


def remove(process: str, index: int) -> Callable[[list[Row]], None]:
    return lambda rows: rows.remove(at(rows, process, index))


def again(process: str, index: int) -> Callable[[list[Row]], None]:
    return lambda rows: rows.append(dict(at(rows, process, index)))


# The start row is index 0: then view, send, deliver, send, deliver, view, send, deliver, end at process a.
PROBLEMS: dict[str, tuple[Callable[[list[Row]], None], str, int, str]] = {
    "a gap in index": (remove("a", 3), "a", 4, "a gap: index 3 is missing"),
    "a history that does not begin": (remove("b", 0), "b", 1, "a gap: index 0 is missing"),
    "a repeat in index": (again("b", 2), "b", 2, "index 2 stands here twice"),
    "a repeat that a gap hides": (change("a", 3, index=2), "a", 2, "index 2 stands here twice"),
    "a negative index": (change("b", 0, index=-1), "b", -1, "a negative index"),
    "a message event without a group": (change("a", 3, group=None), "a", 3, "without a message"),
    "a message event without a sender": (change("b", 2, sender=None), "b", 2, "without a message"),
    "a message event without a number": (change("b", 3, seq=None), "b", 3, "without a message"),
    "a send by somebody else": (change("a", 2, sender="b"), "a", 2, "stands at another process"),
    "a message sent twice": (change("a", 4, seq=1), "a", 4, "is sent twice"),
    "numbers with a gap": (change("a", 7, seq=4), "a", 7, "numbers are dense"),
    "a view that is not the last": (change("a", 8, view=1), "a", 8, "the last one installed here is 2"),
    "a view before there is one": (change("b", 2, group="h", view=1), "b", 2, "no view of it was installed here"),
    "a view without members": (change("a", 6, members=[]), "a", 6, "a view without members"),
    "a view without even a list": (change("b", 4, members=None), "b", 4, "a view without members"),
    "a view with repeated members": (change("a", 1, members=["a", "b", "a"]), "a", 1, "repeated members: a"),
    "a view without a number": (change("b", 1, view=None), "b", 1, "a view without a group or a number"),
    "rows after a crash": (change("b", 3, kind="crash"), "b", 4, "after the history ended with 'crash'"),
    "rows after the end": (change("a", 8, kind="end"), "a", 9, "after the history ended with 'end'"),
    "a newer version": (change("a", 0, detail='{"version":2}'), "a", 0, "version 2 is newer than 1"),
    "a start that cannot be read": (change("a", 0, detail="{"), "a", 0, "cannot be read"),
    "promises of a wrong type": (change("b", 0, detail='{"promises":"fifo"}'), "b", 0, "cannot be read"),
    "a detail that is no JSON": (change("a", 9, detail="{"), "a", 9, "not a JSON object"),
    "a fault that is no JSON": (change("b", 3, kind="fault", detail="slow"), "b", 3, "not a JSON object"),
    "a detail that is no object": (change("a", 9, detail="[1]"), "a", 9, "not a JSON object"),
    "a time that took words": (change("a", 2, detail='{"took_ns":"long"}'), "a", 2, "cannot be read"),
    "a leave of nothing": (change("b", 4, kind="leave", group=None, members=None, view=None), "b", 4, "without a group"),
    "no kind": (change("a", 3, kind=None), "a", 3, "'kind' is null"),
    "no time": (change("b", 5, time=None), "b", 5, "'time' is null"),
}


def spoilt(kind: str, run: str) -> list[Row]:
    rows = rows_of(FINE, run)
    PROBLEMS[kind][0](rows)
    return rows


def all_kinds() -> pa.Table:
    """A run for each kind of problem, and a correct one before and after each."""
    rows: list[Row] = []
    for number, kind in enumerate(PROBLEMS):
        rows += rows_of(FINE, f"{2 * number:02d}") + spoilt(kind, f"{2 * number + 1:02d}")
    return pa.Table.from_pylist(rows, SCHEMA)


def places(malformed: list[Row]) -> set[tuple[Any, ...]]:
    return {tuple(problem[key] for key in ("file", "run", "process", "index", "problem")) for problem in malformed}


@pytest.mark.parametrize("kind", PROBLEMS)
def test_the_kinds_are_what_they_say(kind: str) -> None:
    found = validate(pa.Table.from_pylist(spoilt(kind, "r0"), SCHEMA))
    _, process, index, problem = PROBLEMS[kind]
    assert any((each.process, each.index) == (process, index) and problem in each.problem for each in found)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_spark_tells_every_kind_in_any_layout(layout: str, spark: SparkSession, tmp_path: Path) -> None:
    from plainchant.lab.verify import verify

    path = written(layout, all_kinds(), tmp_path)
    found = verify(spark, [path], ["integrity"])
    result = found.to_json()
    expected = places([problem.to_json() for problem in validate(*read(path))])
    assert result["verdict"] == "malformed"
    assert result["violations"] == []
    assert places(result["malformed"]) == expected
    assert {problem["run"] for problem in result["malformed"]} == {f"{2 * number + 1:02d}" for number in range(len(PROBLEMS))}


@pytest.mark.parametrize("kind", PROBLEMS)
def test_the_check_of_tasks_tells_every_kind(kind: str) -> None:
    table = pa.Table.from_pylist(spoilt(kind, "r0"), SCHEMA)
    found = check(table)
    assert found.verdict == "malformed"
    assert places(found.to_json()["malformed"]) == places([problem.to_json() for problem in validate(table)])


def test_a_malformed_run_is_not_a_violation_even_among_violated_ones(spark: SparkSession, tmp_path: Path) -> None:
    from plainchant.lab.verify import verify

    twice = {"a": f"{AB} | send | end", "b": f"{AB} | deliver a 1 | deliver a 1 | end"}
    rows = rows_of(twice, "r0") + spoilt("a gap in index", "r1")
    path = tmp_path / "both.parquet"
    pq.write_table(pa.Table.from_pylist(rows, SCHEMA), path)
    found = verify(spark, [str(path)])
    assert (found.verdict, list(found.violations)) == ("malformed", [])
    assert [problem.run for problem in found.malformed] == ["r1"]


# --- the command ------------------------------------------------------------------------------------------------------


def fine_table() -> pa.Table:
    return pa.Table.from_pylist(rows_of(FINE, "r0"), SCHEMA)


def write_corrupt(path: Path) -> None:
    pq.write_table(fine_table(), path)
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])


def write_damaged_inside(path: Path) -> None:
    """The footer is whole, the pages are not."""
    pq.write_table(fine_table(), path, compression="zstd")
    content = bytearray(path.read_bytes())
    content[4:400] = b"\xff" * 396
    path.write_bytes(bytes(content))


def write_no_parquet(path: Path) -> None:
    path.write_text("p3 deliver g1 p1 42\n", encoding="utf-8")


def write_empty_file(path: Path) -> None:
    path.touch()


def write_newer_file(path: Path) -> None:
    pq.write_table(fine_table().replace_schema_metadata({VERSION_KEY: b"2"}).select(["run", "process"]), path)


def write_newer_rows(path: Path) -> None:
    pq.write_table(pa.Table.from_pylist(spoilt("a newer version", "r0"), SCHEMA), path)


def write_without_a_column(path: Path) -> None:
    pq.write_table(fine_table().drop_columns(["seq"]), path)


def write_wrong_type(path: Path) -> None:
    table = fine_table()
    place = table.schema.get_field_index("index")
    texts = pa.array([f"number {index}" for index in table.column("index").to_pylist()])
    pq.write_table(table.set_column(place, "index", texts), path)


FILES: dict[str, tuple[Callable[[Path], None], str]] = {
    "cut in the middle": (write_corrupt, "not a readable Parquet file"),
    "damaged inside": (write_damaged_inside, "not a readable Parquet file"),
    "no Parquet at all": (write_no_parquet, "not a readable Parquet file"),
    "an empty file": (write_empty_file, "not a readable Parquet file"),
    "a newer version, by its metadata": (write_newer_file, "version 2 is newer than 1"),
    "a newer version, by its rows": (write_newer_rows, "version 2 is newer than 1"),
    "a missing column": (write_without_a_column, "seq"),
    "a wrong type": (write_wrong_type, "index"),
}


@pytest.mark.parametrize("among", [False, True], ids=["alone", "among correct files"])
@pytest.mark.parametrize("kind", FILES)
def test_a_file_that_is_no_trace_is_named_with_status_2(
    kind: str, among: bool, spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write, problem = FILES[kind]
    traces, told = tmp_path / "traces", tmp_path / "told.json"
    traces.mkdir()
    bad = traces / "bad.parquet"
    write(bad)
    if among:
        for number in range(3):
            pq.write_table(pa.Table.from_pylist(rows_of(FINE, f"f{number}"), SCHEMA), traces / f"{number}.parquet")
    assert main(["verify", str(traces), "--json", str(told)]) == 2
    shown = capsys.readouterr()
    assert "Traceback" not in shown.out + shown.err
    assert "bad.parquet" in shown.out + shown.err
    assert problem in shown.out + shown.err
    result = json.loads(told.read_text(encoding="utf-8"))
    assert result["verdict"] == "malformed"
    assert {Path(each["file"]).name for each in result["malformed"]} == {"bad.parquet"}
    assert any(problem in each["problem"] for each in result["malformed"])


def test_malformed_rows_are_told_with_their_place_and_status_2(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, told = tmp_path / "t.parquet", tmp_path / "told.json"
    pq.write_table(pa.Table.from_pylist(spoilt("a gap in index", "r7"), SCHEMA), path)
    assert main(["verify", str(path), "--json", str(told)]) == 2
    shown = capsys.readouterr()
    for word in ("t.parquet", "run r7", "process a", "index 4"):
        assert word in shown.out + shown.err
    (problem, *_) = json.loads(told.read_text(encoding="utf-8"))["malformed"]
    assert (problem["run"], problem["process"], problem["index"]) == ("r7", "a", 4)


def test_a_trace_without_rows_is_a_sentence_and_status_2(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pq.write_table(SCHEMA.empty_table(), tmp_path / "empty.parquet")
    for command in ("verify", "metrics"):
        assert main([command, str(tmp_path)]) == 2
        assert "has no rows" in capsys.readouterr().err
    pq.write_table(fine_table(), tmp_path / "full.parquet")
    assert main(["verify", str(tmp_path)]) == 0


@pytest.mark.parametrize("make_it", [True, False], ids=["an empty directory", "a path that is not there"])
def test_nothing_to_read_is_a_sentence_and_status_2(
    make_it: bool, spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place = tmp_path / "nothing"
    if make_it:
        place.mkdir()
    assert main(["verify", str(place)]) == 2
    said = capsys.readouterr().err
    assert said.startswith("plainchant: ")
    assert str(place) in said
    assert len(said.strip().splitlines()) == 1


def test_an_unknown_property_is_refused_with_status_2(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["verify", str(tmp_path), "--property", "casual"]) == 2
    assert "did you mean 'causal'" in capsys.readouterr().err
