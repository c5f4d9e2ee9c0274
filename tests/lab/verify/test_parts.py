"""Planning: which row groups make a chunk, and which runs may go on elsewhere."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from plainchant.core.model import TraceError
from plainchant.lab.verify import parts
from plainchant.trace.schema import SCHEMA, MalformedTrace


def rows(*runs: str) -> pa.Table:
    """One row a name, each the beginning of a history."""
    made = [{"run": run, "process": f"p{n}", "index": 0, "time": 0, "kind": "end"} for n, run in enumerate(runs)]
    return pa.Table.from_pylist(made, schema=SCHEMA)


def chunks(path: Path, wanted: int) -> tuple[parts.Chunk, ...]:
    return parts.plan([str(path)], 1, chunk_rows=wanted, least_rows=wanted).chunks


def test_runs_are_split_only_where_row_groups_share_them(tmp_path: Path) -> None:
    pq.write_table(rows("a", "a", "b", "b", "c", "c", "d", "d"), tmp_path / "t.parquet", row_group_size=3)
    first, second, third = chunks(tmp_path, 3)
    assert [run for run in "ab" if first.is_split(run)] == ["b"]
    assert [run for run in "bc" if second.is_split(run)] == ["b"]
    assert not third.is_split("d")


def test_one_chunk_has_everything(tmp_path: Path) -> None:
    pq.write_table(rows("a", "b"), tmp_path / "1.parquet")
    pq.write_table(rows("a", "c"), tmp_path / "2.parquet")
    (only,) = chunks(tmp_path, 100)
    assert only.rows == 4
    assert not any(only.is_split(run) for run in "abc")


def test_without_statistics_every_run_may_be_split(tmp_path: Path) -> None:
    pq.write_table(rows("a", "b"), tmp_path / "t.parquet", row_group_size=1, write_statistics=False)
    assert [chunk.is_split(run) for chunk in chunks(tmp_path, 1) for run in "ab"] == [True] * 4


def test_runs_of_two_paths_do_not_collide(tmp_path: Path) -> None:
    pq.write_table(rows("a"), tmp_path / "1.parquet")
    pq.write_table(rows("a"), tmp_path / "2.parquet")
    paths = [str(tmp_path / f"{n}.parquet") for n in (1, 2)]
    plan = parts.plan(paths, 1)
    table, _ = parts.gathered([piece for chunk in plan.chunks for piece in chunk.pieces])
    assert table.column("run").to_pylist() == [f"{path}:a" for path in paths]


def test_a_run_is_found_again_by_its_name(tmp_path: Path) -> None:
    pq.write_table(rows("a", "b", "c"), tmp_path / "t.parquet", row_group_size=1)
    plan = parts.plan([str(tmp_path)], 1, chunk_rows=1, least_rows=1)
    table, files = parts.gathered(plan.pieces_with("b"), "b")
    assert table.column("run").to_pylist() == ["b"]
    assert files[0].path.endswith("t.parquet")


def test_every_file_that_is_wrong_is_named(tmp_path: Path) -> None:
    (tmp_path / "1.parquet").write_bytes(b"no")
    pq.write_table(rows("a").drop_columns(["kind"]), tmp_path / "2.parquet")
    with pytest.raises(MalformedTrace) as error:
        parts.plan([str(tmp_path)], 1)
    assert [(Path(p.file or "").name, p.problem.split(":")[0]) for p in error.value.malformed] == [
        ("1.parquet", "not a readable Parquet file"),
        ("2.parquet", "column 'kind' is missing"),
    ]


def test_nothing_to_read_is_said_at_once(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match=r"no \*\.parquet file"):
        parts.plan([str(tmp_path)], 1)


def test_an_address_that_arrow_does_not_know_is_left_to_spark() -> None:
    assert parts.plan(["dbfs://bucket/trace"], 1).foreign == ("dbfs://bucket/trace",)
