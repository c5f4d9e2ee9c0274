"""The benchmark of verification: its traces are correct ones of the shape asked for, and its figures are figures."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from plainchant.core.model import UsageError
from plainchant.lab.properties import verify
from plainchant.trace import SCHEMA, read, validate
from plainchant_workbench.lab import traces as bench_traces
from plainchant_workbench.lab.memory import Peak, tree_bytes
from plainchant_workbench.lab.traces import Shape, make, start_detail
from plainchant_workbench.lab.verify import MANY_MEMBERS, MANY_RUNS, PLAIN, Row, Target, peer_process, targets

SHAPES = [Shape(2_000), Shape(2_003, 50), Shape(2_000, 5, 4), Shape(2_000, 1), Shape(6_000, 3, 60)]
LINUX = pytest.mark.skipif(not Path("/proc/self/smaps_rollup").exists(), reason="needs Linux's account of memory")


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.name)
def test_a_trace_to_measure_with_is_correct_and_has_the_shape_asked_for(shape: Shape, tmp_path: Path) -> None:
    trace = read(make(tmp_path, shape))
    assert validate(*trace) == []
    assert trace.table.num_rows == shape.events
    assert len(trace.table.column("run").unique()) == shape.runs
    assert len(trace.table.column("process").unique()) == shape.members
    found = verify(trace.table)
    assert found.ok, found.violations
    assert {outcome.runs for outcome in found.properties.values()} == {shape.runs}
    assert found.properties["integrity"].verdict == "holds"


def test_it_looks_like_what_the_simulator_leaves(tmp_path: Path) -> None:
    table = read(make(tmp_path, Shape(2_000))).table
    assert '"self-delivery"' in start_detail()
    deliveries = table.filter(pc.equal(table["kind"], "deliver"))
    for column in ("true_time", "group", "view", "sender", "seq", "sent", "rank", "digest", "size"):
        assert deliveries[column].null_count == 0, column
    own = deliveries.filter(pc.not_equal(deliveries["sender"], "p1"))
    assert pc.min(pc.subtract(own["true_time"], own["sent"])).as_py() > 0


def test_its_files_are_sorted_in_row_groups_and_made_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench_traces, "GROUP_ROWS", 300)
    path = make(tmp_path, Shape(2_000))
    (file,) = path.iterdir()
    metadata = pq.ParquetFile(file).metadata
    assert [metadata.row_group(at).num_rows for at in range(metadata.num_row_groups)] == [300] * 6 + [200]
    table = read(path).table
    order = [("run", "ascending"), ("process", "ascending"), ("index", "ascending")]
    assert table.equals(table.sort_by(order))
    assert table.schema.equals(SCHEMA)
    before = file.stat().st_mtime_ns
    assert make(tmp_path, Shape(2_000)) == path
    assert file.stat().st_mtime_ns == before


def test_two_makings_are_the_same_bytes(tmp_path: Path) -> None:
    made = [make(tmp_path / name, Shape(3_000, 4, 3)) for name in ("one", "other")]
    one, other = ([file.read_bytes() for file in sorted(path.iterdir())] for path in made)
    assert one == other


@pytest.mark.parametrize("asked", [(10, 5, 1), (1_000, 0, 1), (1_000, 5, 3), (1_000, 5, 500)])
def test_an_impossible_shape_is_refused_in_a_sentence(asked: tuple[int, int, int]) -> None:
    with pytest.raises(UsageError, match="ask for"):
        Shape(*asked)


def row(shape: str, events: int, seconds: float, *, ratio: float = 1.0, runs: int = 1, members: int = 5) -> Row:
    return Row(shape, events, members, runs, seconds, round(events / seconds), ratio, seconds / ratio, 900)


def test_targets_are_held_against_the_middle_size() -> None:
    rows = [
        row(PLAIN, 1_000_000, 1.0, ratio=9.0),
        row(PLAIN, 10_000_000, 4.0, ratio=2.9),
        row(PLAIN, 50_000_000, 25.0, ratio=9.0),
        row(MANY_MEMBERS, 10_000_000, 5.0, members=50),
        row(MANY_RUNS, 10_000_000, 2.0, runs=10_000),
    ]
    found = list(targets(rows, 6.5))
    assert [target.met for target in found] == [True, False, True, True, False, True]
    assert [target.measured for target in found] == [2.9, 6.25, 900, 1.25, 2.0, 6.5]
    assert found[1].wanted == "50,000,000 events in at most 6 times the time of 10,000,000"


def test_what_was_not_measured_is_neither_met_nor_missed() -> None:
    assert Target("memory", 4_000, None).met is None


def test_the_peer_answers_in_seconds_from_a_process_of_its_own(tmp_path: Path) -> None:
    pytest.importorskip("duckdb")
    path = make(tmp_path, Shape(1_000))
    with peer_process() as peer:
        assert peer.pid != os.getpid()
        assert 0 < peer.seconds(path) < 60


@LINUX
def test_memory_of_a_tree_has_the_children_in_it_unless_they_are_left_out() -> None:
    hold = "import sys; block = bytearray(100_000_000); print('ready', flush=True); sys.stdin.read()"
    with subprocess.Popen([sys.executable, "-c", hold], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        child.stdout.readline()
        with Peak() as peak, Peak(without=[child.pid]) as own:
            together, alone = tree_bytes(), tree_bytes(without=[child.pid])
        child.communicate()
    assert together is not None
    assert alone is not None
    assert together - alone > 100_000_000
    assert peak.bytes is not None
    assert own.bytes is not None
    assert peak.bytes - own.bytes > 100_000_000
