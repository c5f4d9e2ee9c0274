"""Planning: which row groups make a chunk, and which runs may go on elsewhere."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from plainchant.core.model import TraceError
from plainchant.lab.verify import job, parts
from plainchant.trace.schema import SCHEMA, MalformedTrace

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


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
    table, files = parts.gathered(plan.pieces_with_any(["b"]), {"b"})
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


def piece(number: int, low: str, high: str, size: int = 1) -> parts.Piece:
    return parts.Piece("path", f"{number:05d}.parquet", (0,), size, "", low, high)


@pytest.mark.parametrize("seed", range(40))
def test_runs_are_split_exactly_where_two_chunks_can_hold_them(seed: int) -> None:
    """Held against the definition: a name is split if it lies within a span of its chunk and within one of another."""
    random = Random(seed)
    names = [f"r{n:02d}" for n in range(30)]
    spans = [sorted(random.choices(names, k=2)) for _ in range(random.randint(2, 12))]
    if seed % 2:
        spans.sort()
    pieces = [piece(n, low, high, random.randint(1, 3)) for n, (low, high) in enumerate(spans)]
    found = list(parts._chunks(pieces, random.randint(1, 6)))
    assert [p.file for chunk in found for p in chunk.pieces] == [p.file for p in pieces]
    for chunk in found:
        for name in names:
            here = any(p.may_hold(name) for p in pieces if p.file in {own.file for own in chunk.pieces})
            elsewhere = any(p.may_hold(name) for other in found if other is not chunk for p in other.pieces)
            if here:
                assert chunk.is_split(name) == elsewhere, (name, spans)


def test_what_chunks_know_of_each_other_grows_with_their_number_only() -> None:
    """One wide chunk among many narrow ones, and row groups that follow each other, each of which shares a run with the next."""
    narrow = [piece(n, f"r{n:05d}", f"r{n + 1:05d}") for n in range(2_000)]
    wide = piece(9_999, "r", "s")
    for pieces in (narrow, [*narrow, wide], [*narrow[::2], wide]):
        chunks = list(parts._chunks(pieces, 1))
        assert sum(len(chunk.elsewhere or ()) for chunk in chunks) <= 3 * len(pieces)


def test_a_long_run_among_many_small_ones_is_shared_by_tasks() -> None:
    small = [piece(n, f"a{n:05d}", f"a{n:05d}", 1_000) for n in range(10_000)]
    long = [piece(10_000 + n, "b", "b", 1_000_000) for n in range(9)]
    chunks = list(parts._chunks([*small, *long], 1_000_000))
    assert max(chunk.rows for chunk in chunks) == 1_000_000
    assert sum(chunk.is_split("b") for chunk in chunks) == 9
    assert not any(chunk.is_split("a00017") for chunk in chunks)
    work = job._work(parts.Plan(tuple(reversed(chunks)), ()))
    assert [chunk.rows for _, chunk in work][10:] == [1_000_000] * 9
    assert [chunk.is_split("b") for _, chunk in work] == [False] * 10 + [True] * 9, "small runs do not wait for the long one"


def test_footers_that_tasks_read_make_the_same_plan(spark: SparkSession, tmp_path: Path) -> None:
    for number in range(7):
        pq.write_table(rows(f"r{number}", f"r{number + 1}"), tmp_path / f"{number}.parquet", row_group_size=1)
    here = parts.plan([str(tmp_path)], 2)
    assert parts.plan([str(tmp_path)], 2, spark=spark, many_files=3) == here
    (tmp_path / "8.parquet").write_bytes(b"no")
    for among in (3, 100):
        with pytest.raises(MalformedTrace, match="not a readable Parquet file") as error:
            parts.plan([str(tmp_path)], 2, spark=spark, many_files=among)
        assert [Path(p.file or "").name for p in error.value.malformed] == ["8.parquet"]


def test_pieces_of_many_runs_are_found_at_once() -> None:
    plan = parts.Plan(tuple(parts._chunks([piece(n, f"r{n}", f"r{n + 1}") for n in range(8)], 1)), ())
    assert {run: [p.file for p in those] for run, those in plan.pieces_of(["r3", "r0", "z"]).items()} == {
        "r0": ["00000.parquet"],
        "r3": ["00002.parquet", "00003.parquet"],
        "z": [],
    }
    assert [p.file for p in plan.pieces_with_any(["r3", "r4"])] == ["00002.parquet", "00003.parquet", "00004.parquet"]
