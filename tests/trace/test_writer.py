"""Raw rows become a table, or files that are whole or not there at all."""

from __future__ import annotations

import os
import resource
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from plainchant.core.model import TraceError, UsageError
from plainchant.trace import SCHEMA, TraceBuffer, TraceWriter
from plainchant.trace.history import Row

FIELDS = ("kind", "time", "true_time", "group", "view", "sender", "seq", "sent", "rank", "digest", "size", "extra")


def row(kind: str, time: int = 0, **values: Any) -> Row:
    """A raw row with nothing in it but what is said."""
    values = {"kind": kind, "time": time, **values}
    return tuple(values.get(name) for name in FIELDS)  # type: ignore[return-value]


def delivery(seq: int) -> Row:
    return row("deliver", seq * 10, true_time=seq * 10, group="g", view=1, sender="p1", seq=seq, digest=seq * 7919)


def everything_in(directory: Path) -> list[str]:
    return sorted(str(path.relative_to(directory)) for path in directory.rglob("*"))


# --- in memory ------------------------------------------------------------------------------------------------------


def test_every_value_of_a_raw_row_lands_in_its_column() -> None:
    trace = TraceBuffer()
    history = trace.history("r0", "p1")
    extra = {"members": ("p1", "p2"), "deadline": 99, "detail": {"b": 1, "a": [True, None]}}
    history.rows.append(("view", 1, 2, "g", 3, "p2", 4, 5, 6, -7, 8, extra))
    history.packets[0] = 9
    assert trace.table().to_pylist() == [
        {
            "run": "r0",
            "process": "p1",
            "index": 0,
            "time": 1,
            "true_time": 2,
            "kind": "view",
            "group": "g",
            "view": 3,
            "sender": "p2",
            "seq": 4,
            "members": ["p1", "p2"],
            "deadline": 99,
            "sent": 5,
            "rank": 6,
            "digest": -7,
            "size": 8,
            "packets": 9,
            "detail": '{"a":[true,null],"b":1}',
        }
    ]


def test_what_a_row_does_not_have_is_null() -> None:
    trace = TraceBuffer()
    trace.history("r0", "p1").rows.append(row("end", 5))
    (only,) = trace.table().to_pylist()
    assert {name for name, value in only.items() if value is not None} == {"run", "process", "index", "time", "kind"}


def test_rows_come_sorted_by_run_process_and_index_whatever_the_order_of_histories() -> None:
    trace = TraceBuffer()
    for run, process in (("r1", "p1"), ("r0", "p2"), ("r0", "p1#1"), ("r0", "p1")):
        trace.history(run, process).rows.extend([row("start"), row("end", 1)])
    table = trace.table()
    places = [(r["run"], r["process"], r["index"]) for r in table.to_pylist()]
    assert places == sorted(places)
    assert len(set(places)) == 8


def test_sparse_columns_stay_with_their_rows_across_histories() -> None:
    trace = TraceBuffer()
    for process in ("p1", "p2"):
        history = trace.history("r0", process)
        history.rows.extend(delivery(seq) for seq in (1, 2, 3))
        history.packets[1] = 5
        history.rows.append(row("suspect", 40, extra={"detail": {"whom": process}}))
    rows = trace.table().to_pylist()
    assert [r["packets"] for r in rows] == [None, 5, None, None] * 2
    assert [r["detail"] for r in rows] == [None] * 3 + ['{"whom":"p1"}'] + [None] * 3 + ['{"whom":"p2"}']


def test_a_history_asked_for_again_is_the_same() -> None:
    trace = TraceBuffer()
    assert trace.history("r0", "p1") is trace.history("r0", "p1")
    assert trace.history("r0", "p1") is not trace.history("r1", "p1")


def test_an_empty_buffer_is_an_empty_table_of_the_schema() -> None:
    table = TraceBuffer().table()
    assert table.num_rows == 0
    assert table.schema.equals(SCHEMA)


@pytest.mark.parametrize(
    ("bad", "named"),
    [
        (row("deliver", digest=2**64), "digest"),
        (row("deliver", size=2**40), "size"),
        (row("deliver", seq="seven"), "seq"),
        (row("fault", extra={"detail": {"what": object()}}), "detail"),
    ],
)
def test_a_value_that_does_not_fit_is_refused_by_the_name_of_its_column(bad: Row, named: str) -> None:
    trace = TraceBuffer()
    trace.history("r0", "p1").rows.append(bad)
    with pytest.raises(TraceError, match=named):
        trace.table()


def test_a_row_of_the_wrong_length_is_refused() -> None:
    trace = TraceBuffer()
    trace.history("r0", "p1").rows.append(("end", 1))  # type: ignore[arg-type]
    with pytest.raises(TraceError, match="12 values"):
        trace.table()


# --- on disk --------------------------------------------------------------------------------------------------------


def write(directory: Path, deliveries: int = 300, **options: Any) -> Path:
    """A trace of two processes, flushed whenever it is full."""
    with TraceWriter(directory, **options) as trace:
        histories = [trace.history("r0", process) for process in ("p2", "p1")]
        for seq in range(1, deliveries + 1):
            for history in histories:
                history.rows.append(delivery(seq))
            trace.flush_if_full()
    return directory / "trace"


def test_what_is_written_is_what_a_buffer_would_have_held(tmp_path: Path) -> None:
    buffer = TraceBuffer()
    for process in ("p1", "p2"):
        buffer.history("r0", process).rows.extend(delivery(seq) for seq in range(1, 301))
    written = pq.read_table(write(tmp_path, row_group=64))
    order = [("run", "ascending"), ("process", "ascending"), ("index", "ascending")]
    assert written.sort_by(order).replace_schema_metadata(None).equals(buffer.table())


def test_each_row_group_is_sorted_and_indices_go_on_from_one_to_the_next(tmp_path: Path) -> None:
    file = pq.ParquetFile(write(tmp_path, row_group=64) / "part-00000.parquet")
    assert file.num_row_groups > 3
    following = {"p1": 0, "p2": 0}
    for number in range(file.num_row_groups):
        rows = file.read_row_group(number).to_pylist()
        assert rows == sorted(rows, key=lambda r: (r["run"], r["process"], r["index"]))
        for r in rows:
            assert r["index"] == following[r["process"]]
            following[r["process"]] += 1
    assert following == {"p1": 300, "p2": 300}


def test_flushing_empties_the_lists_that_hosts_hold(tmp_path: Path) -> None:
    with TraceWriter(tmp_path, row_group=3) as trace:
        history = trace.history("r0", "p1")
        rows, packets = history.rows, history.packets
        rows.extend([delivery(1), delivery(2)])
        packets[1] = 1
        trace.flush_if_full()
        assert len(rows) == 2
        rows.append(delivery(3))
        trace.flush_if_full()
        assert rows == []
        assert packets == {}
        assert history.rows is rows
        assert history.packets is packets


def test_the_layout_is_the_one_that_spark_reads_fast(tmp_path: Path) -> None:
    metadata = pq.ParquetFile(write(tmp_path) / "part-00000.parquet").metadata
    assert metadata.metadata == {b"plainchant.trace.version": b"1"}
    group = metadata.row_group(0)
    columns = {group.column(at).path_in_schema: group.column(at) for at in range(group.num_columns)}
    assert {column.compression for column in columns.values()} == {"ZSTD"}
    for name in ("run", "process", "kind", "group", "sender", "detail"):
        assert "RLE_DICTIONARY" in columns[name].encodings
    for name in ("index", "time", "true_time", "seq", "rank", "sent"):
        assert "DELTA_BINARY_PACKED" in columns[name].encodings


def test_readers_see_plain_types(tmp_path: Path) -> None:
    assert pq.read_schema(write(tmp_path) / "part-00000.parquet").remove_metadata().equals(SCHEMA)


def test_a_trace_that_goes_to_files_gives_no_half_of_itself(tmp_path: Path) -> None:
    with TraceWriter(tmp_path) as trace, pytest.raises(UsageError, match="read it from there"):
        trace.table()


def test_a_new_file_begins_when_one_is_large_enough(tmp_path: Path) -> None:
    directory = write(tmp_path, row_group=64, file_bytes=4096)
    parts = everything_in(directory)
    assert len(parts) > 1
    assert parts == [f"part-{number:05d}.parquet" for number in range(len(parts))]
    assert pq.read_table(directory).num_rows == 600


def test_the_same_rows_give_the_same_bytes(tmp_path: Path) -> None:
    one, two = (write(tmp_path / name, row_group=64) / "part-00000.parquet" for name in ("one", "two"))
    assert one.read_bytes() == two.read_bytes()


def test_a_trace_without_rows_is_still_a_trace(tmp_path: Path) -> None:
    with TraceWriter(tmp_path):
        pass
    assert pq.read_table(tmp_path / "trace").num_rows == 0


def test_nothing_looks_whole_before_it_is_closed(tmp_path: Path) -> None:
    trace = TraceWriter(tmp_path, row_group=1)
    trace.history("r0", "p1").rows.append(delivery(1))
    trace.flush_if_full()
    assert [path for path in everything_in(tmp_path) if not path.startswith(".")] == []
    trace.close()
    assert everything_in(tmp_path) == ["trace", "trace/part-00000.parquet"]
    trace.close()
    assert everything_in(tmp_path) == ["trace", "trace/part-00000.parquet"]


@pytest.mark.parametrize("interruption", [RuntimeError, KeyboardInterrupt])
def test_an_exception_leaves_nothing_behind(tmp_path: Path, interruption: type[BaseException]) -> None:
    def interrupted_run() -> None:
        with TraceWriter(tmp_path / "made" / "for it", row_group=1) as trace:
            trace.history("r0", "p1").rows.append(delivery(1))
            trace.flush_if_full()
            raise interruption

    with pytest.raises(interruption):
        interrupted_run()
    assert everything_in(tmp_path) == []


def test_ctrl_c_while_closing_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    trace = TraceWriter(tmp_path / "out")
    trace.history("r0", "p1").rows.append(delivery(1))
    monkeypatch.setattr(pq.ParquetWriter, "write_table", interrupted)
    with pytest.raises(KeyboardInterrupt):
        trace.close()
    assert everything_in(tmp_path) == []


def test_abort_leaves_other_peoples_files_alone(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "notes.txt").write_text("mine")
    TraceWriter(tmp_path / "out").abort()
    assert everything_in(tmp_path) == ["out", "out/notes.txt"]


def test_what_a_killed_run_left_is_replaced(tmp_path: Path) -> None:
    TraceWriter(tmp_path)  # never closed, as if killed
    write(tmp_path)
    assert everything_in(tmp_path) == ["trace", "trace/part-00000.parquet"]


def test_a_trace_is_never_written_over(tmp_path: Path) -> None:
    before = (write(tmp_path) / "part-00000.parquet").read_bytes()
    with pytest.raises(TraceError, match="already holds a trace"):
        TraceWriter(tmp_path)
    assert (tmp_path / "trace" / "part-00000.parquet").read_bytes() == before


def test_a_place_that_cannot_be_written_to_is_refused_before_the_run(tmp_path: Path) -> None:
    (tmp_path / "trace").write_text("not a directory")
    for directory in (tmp_path / "trace" / "out", tmp_path):
        with pytest.raises(TraceError, match="cannot write the trace"):
            TraceWriter(directory)
    assert everything_in(tmp_path) == ["trace"]


@pytest.fixture
def small_disk() -> Iterator[None]:
    """No file may grow beyond 4 kB, which fails like a full disk, in the middle of a write."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.usefixtures("small_disk")
@pytest.mark.parametrize("row_group", [64, 1_000_000], ids=["while running", "at the end"])
def test_a_full_disk_is_a_sentence_and_leaves_nothing_behind(tmp_path: Path, row_group: int) -> None:
    with pytest.raises(TraceError, match="cannot write the trace") as caught:
        write(tmp_path / "out", deliveries=20_000, row_group=row_group)
    assert "make room" in str(caught.value)
    assert os.listdir(tmp_path) == []
