"""Whatever Parquet people bring: found, brought into our types, or refused with the file's name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from plainchant.core.model import TraceError
from plainchant.trace import SCHEMA, MalformedTrace, TraceWriter, read
from plainchant.trace.reader import Part, file_of


def small_table(run: str = "r0", rows: int = 2) -> pa.Table:
    events = [{"run": run, "process": "p1", "index": at, "time": at, "kind": "state"} for at in range(rows)]
    return pa.Table.from_pylist(events, SCHEMA)


def save(table: pa.Table, path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(table, path)
    return path


def recast(table: pa.Table, name: str, kind: pa.DataType) -> pa.Table:
    """The table with one column in another type."""
    return table.set_column(table.column_names.index(name), name, table.column(name).cast(kind))


def problems(path: Path) -> list[tuple[str | None, str]]:
    with pytest.raises(MalformedTrace) as caught:
        read(path)
    return [(malformed.file, malformed.problem) for malformed in caught.value.malformed]


# --- finding files --------------------------------------------------------------------------------------------------


def test_a_file_is_read(tmp_path: Path) -> None:
    path = save(small_table(), tmp_path / "a.parquet")
    table, files = read(path)
    assert table.equals(small_table())
    assert files == (Part(str(path), 0, 2),)


def test_what_our_writer_wrote_is_read(tmp_path: Path) -> None:
    with TraceWriter(tmp_path) as trace:
        trace.history("r0", "p1").rows.append(("end", 7, None, None, None, None, None, None, None, None, None, None))
    table, _ = read(tmp_path)
    assert table.schema.equals(SCHEMA)
    assert table.select(["run", "process", "index", "time", "kind"]).to_pylist() == [
        {"run": "r0", "process": "p1", "index": 0, "time": 7, "kind": "end"}
    ]


def test_a_directory_is_read_at_any_depth_in_the_order_of_names(tmp_path: Path) -> None:
    for name in ("b.parquet", "a/deep/z.parquet", "c.parquet"):
        save(small_table(run=name), tmp_path / name)
    table, files = read(tmp_path)
    assert [Path(part.path).relative_to(tmp_path).as_posix() for part in files] == [
        "a/deep/z.parquet",
        "b.parquet",
        "c.parquet",
    ]
    assert table.column("run").to_pylist()[::2] == ["a/deep/z.parquet", "b.parquet", "c.parquet"]


@pytest.mark.parametrize("name", [".trace.partial/part-00000.parquet", "_temporary/a.parquet", ".a.parquet", "a.txt"])
def test_hidden_temporary_and_other_files_are_not_part_of_a_directory(tmp_path: Path, name: str) -> None:
    save(small_table(), tmp_path / "good.parquet")
    save(small_table(), tmp_path / name)
    assert len(read(tmp_path).files) == 1


def test_a_hidden_directory_can_be_asked_for(tmp_path: Path) -> None:
    save(small_table(), tmp_path / ".cache" / "a.parquet")
    assert len(read(tmp_path / ".cache").files) == 1


def test_a_glob_means_files_and_directories_each_once(tmp_path: Path) -> None:
    for name in ("run-1/a.parquet", "run-2/b.parquet", "other/c.parquet"):
        save(small_table(run=name), tmp_path / name)
    assert len(read(tmp_path / "run-*").files) == 2
    assert len(read(tmp_path / "**" / "*.parquet").files) == 3
    assert len(read(tmp_path / "**").files) == 3


def test_an_address_is_read(tmp_path: Path) -> None:
    path = save(small_table(), tmp_path / "a.parquet")
    assert read(path.as_uri()).table.num_rows == 2


@pytest.mark.parametrize("name", ["nothing.parquet", "none-*", "empty"])
def test_nothing_to_read_is_an_error_that_says_what_to_give(tmp_path: Path, name: str) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(TraceError, match="give a file, a directory or a glob"):
        read(tmp_path / name)


@pytest.mark.parametrize("path", ["nosuch://host/path", "x" * 5000], ids=["unknown scheme", "name too long"])
def test_a_place_that_cannot_be_looked_at_is_an_error(path: str) -> None:
    with pytest.raises(TraceError, match="check the path or address"):
        read(path)


def test_a_row_knows_its_file(tmp_path: Path) -> None:
    for name, rows in (("a", 2), ("b", 0), ("c", 3)):
        save(small_table(run=name, rows=rows), tmp_path / f"{name}.parquet")
    _, files = read(tmp_path)
    names = [Path(file_of(files, row) or "").stem for row in range(5)]
    assert names == ["a", "a", "c", "c", "c"]
    assert file_of(files, 5) is None
    assert file_of((), 0) is None


# --- types ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("column", "kind"),
    [
        ("index", pa.int32()),
        ("time", pa.uint64()),
        ("size", pa.int64()),
        ("run", pa.large_string()),
        ("kind", pa.dictionary(pa.int32(), pa.string())),
        ("members", pa.large_list(pa.large_string())),
    ],
)
def test_types_that_hold_the_same_values_are_accepted(tmp_path: Path, column: str, kind: pa.DataType) -> None:
    path = save(recast(small_table(), column, kind), tmp_path / "a.parquet")
    assert read(path).table.equals(small_table())


def test_a_column_with_nothing_in_it_may_have_no_type(tmp_path: Path) -> None:
    table = small_table()
    untyped = table.set_column(table.column_names.index("rank"), "rank", pa.nulls(2))
    assert read(save(untyped, tmp_path / "a.parquet")).table.equals(table)


@pytest.mark.parametrize(
    ("column", "values"),
    [
        ("time", pa.array([1.0, 2.0])),
        ("seq", pa.array(["1", "2"])),
        ("run", pa.array([1, 2])),
        ("kind", pa.array([b"a", b"b"])),
        ("members", pa.array(["p1", "p2"])),
        ("members", pa.array([[1], [2]])),
        ("process", pa.nulls(2)),
    ],
)
def test_a_wrong_type_is_malformed(tmp_path: Path, column: str, values: pa.Array) -> None:
    table = small_table()
    path = save(table.set_column(table.column_names.index(column), column, values), tmp_path / "a.parquet")
    ((file, problem),) = problems(path)
    assert file == str(path)
    assert problem.startswith(f"column '{column}' has type")


def test_a_number_too_large_for_its_column_is_malformed(tmp_path: Path) -> None:
    table = small_table()
    sizes = pa.array([1, 2**40], pa.int64())
    path = save(table.set_column(table.column_names.index("size"), "size", sizes), tmp_path / "a.parquet")
    ((_, problem),) = problems(path)
    assert problem.startswith("column 'size' has values that are no int32")


def test_text_that_is_not_utf8_is_malformed(tmp_path: Path) -> None:
    table = small_table()
    offsets = pa.array([0, 1, 2], pa.int32()).buffers()[1]
    broken = pa.Array.from_buffers(pa.string(), 2, [None, offsets, pa.py_buffer(b"\xff\xfe")])
    path = save(table.set_column(table.column_names.index("group"), "group", broken), tmp_path / "a.parquet")
    ((_, problem),) = problems(path)
    assert problem.startswith("column 'group' has values that are no string")


def test_a_missing_column_is_malformed_even_if_it_would_be_null(tmp_path: Path) -> None:
    path = save(small_table().drop_columns(["rank", "seq"]), tmp_path / "a.parquet")
    assert problems(path) == [(str(path), "column 'seq' is missing"), (str(path), "column 'rank' is missing")]


def test_the_order_of_columns_does_not_matter(tmp_path: Path) -> None:
    table = small_table()
    path = save(table.select(list(reversed(table.column_names))), tmp_path / "a.parquet")
    assert read(path).table.equals(table)


def test_unknown_columns_and_kinds_are_kept(tmp_path: Path) -> None:
    extended = small_table("a").append_column("colour", pa.array(["red", "blue"]))
    save(extended, tmp_path / "a.parquet")
    save(small_table("b"), tmp_path / "b.parquet")
    table, _ = read(tmp_path)
    assert table.column_names == [*SCHEMA.names, "colour"]
    assert table.column("colour").to_pylist() == ["red", "blue", None, None]
    assert set(table.column("kind").to_pylist()) == {"state"}


def test_unknown_columns_that_do_not_go_together_are_malformed(tmp_path: Path) -> None:
    for name, values in (("a", pa.array(["red", "blue"])), ("b", pa.array([[1], [2]]))):
        save(small_table(name).append_column("colour", values), tmp_path / f"{name}.parquet")
    ((_, problem),) = problems(tmp_path)
    assert "do not go together" in problem


# --- files that are no traces ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("content", [b"", b"hello", b"PAR1 and then nothing PAR1"])
def test_a_file_that_is_not_parquet_is_malformed(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "a.parquet"
    path.write_bytes(content)
    ((file, problem),) = problems(path)
    assert file == str(path)
    assert "not a readable Parquet file" in problem


@pytest.mark.parametrize("keep", [0.3, 0.9])
def test_a_truncated_file_is_malformed(tmp_path: Path, keep: float) -> None:
    path = save(small_table(rows=1000), tmp_path / "a.parquet")
    content = path.read_bytes()
    path.write_bytes(content[: int(len(content) * keep)])
    ((_, problem),) = problems(path)
    assert "not a readable Parquet file" in problem


def test_a_damaged_page_is_malformed(tmp_path: Path) -> None:
    path = save(small_table(rows=1000), tmp_path / "a.parquet")
    content = bytearray(path.read_bytes())
    content[4:60] = bytes(56)
    path.write_bytes(content)
    ((_, problem),) = problems(path)
    assert "not a readable Parquet file" in problem


def test_all_files_are_looked_at_before_anything_is_said(tmp_path: Path) -> None:
    (tmp_path / "a.parquet").write_bytes(b"hello")
    save(small_table().drop_columns(["seq"]), tmp_path / "b.parquet")
    save(small_table(), tmp_path / "c.parquet")
    assert [Path(file or "").name for file, _ in problems(tmp_path)] == ["a.parquet", "b.parquet"]


def test_a_file_of_a_newer_version_is_refused_for_that_alone(tmp_path: Path) -> None:
    table: Any = small_table().drop_columns(["seq"]).replace_schema_metadata({"plainchant.trace.version": "2"})
    ((_, problem),) = problems(save(table, tmp_path / "a.parquet"))
    assert problem.startswith("version 2 is newer than 1")


def test_of_a_directory_of_results_only_the_trace_is_read(tmp_path: Path) -> None:
    (tmp_path / "trace").mkdir()
    (tmp_path / "runs").mkdir()
    pq.write_table(SCHEMA.empty_table(), tmp_path / "trace" / "part-00000.parquet")
    pq.write_table(pa.table({"run": ["r0"]}), tmp_path / "runs" / "part-00000.parquet")
    assert [Path(part.path).parent.name for part in read(tmp_path).files] == ["trace"]


def test_a_sweep_that_kept_nothing_says_so(tmp_path: Path) -> None:
    (tmp_path / "sweep.json").write_text("{}")
    with pytest.raises(TraceError, match="kept no traces"):
        read(tmp_path)
