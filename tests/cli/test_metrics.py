"""``plainchant metrics``: what it prints and writes, and how mistakes end."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from plainchant.cli import main
from plainchant.lab.metrics import METRICS
from plainchant.trace import SCHEMA

FIGURES = ("latency", "delay overhead", "packets", "retransmissions", "view changes", "fairness")


@pytest.fixture
def crash(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Path:
    """The directory of a run in which the sequencer crashes; the working directory is the one that holds it."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "120")
    assert main(["run", "sequencer-crash", "--out", "crash", "--no-verify"]) == 0
    capsys.readouterr()
    return Path("crash")


def test_a_run_is_told_figure_by_figure(crash: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["metrics", str(crash)]) == 0
    told = capsys.readouterr().out
    assert told.startswith("run r0, group g\n")
    for figure in FIGURES:
        assert figure in told
    lines = {line.split("  ")[1]: line for line in told.splitlines()[1:]}
    assert "not recorded" in lines["largest history"]
    assert "1, 1 detected" in lines["failures"]


def test_json_and_csv_have_every_metric(crash: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["metrics", str(crash), "--json", "m.json", "--csv", "m.csv"]) == 0
    (row,) = json.loads(Path("m.json").read_text())["metrics"]
    assert list(row) == METRICS.names
    assert row["failures"] == 1
    assert row["history_max"] is None
    (line,) = csv.DictReader(Path("m.csv").read_text().splitlines())
    assert list(line) == METRICS.names
    assert line["history_max"] == ""
    assert int(line["sends"]) == row["sends"]


def test_json_on_standard_output_is_alone_there(crash: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["metrics", str(crash), "--json", "-"]) == 0
    assert len(json.loads(capsys.readouterr().out)["metrics"]) == 1


def test_what_was_written_is_read_again(crash: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["metrics", str(crash), "--out", "measured"]) == 0
    before = capsys.readouterr().out
    assert pq.read_schema("measured/metrics/part-00000.parquet").equals(METRICS)
    assert main(["metrics", "measured"]) == 0
    assert capsys.readouterr().out == before


def test_of_many_runs_the_spread_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = [{"run": f"r{number}", "group": "g", "latency_p50_ns": number * 1_000_000} for number in range(101)]
    (tmp_path / "metrics").mkdir()
    pq.write_table(pa.Table.from_pylist(rows, schema=METRICS), tmp_path / "metrics" / "part-00000.parquet")
    assert main(["metrics", str(tmp_path)]) == 0
    told = capsys.readouterr().out.splitlines()
    assert told[0] == "101 runs, 1 group, 101 measurements:"
    (line,) = [line for line in told if line.startswith("latency p50")]
    assert line.split() == ["latency", "p50", "101", "50", "ms", "90", "ms", "0", "100", "ms"]
    (line,) = [line for line in told if line.startswith("null messages")]
    assert line.split() == ["null", "messages", "0", "not", "recorded"]


def test_real_time_is_told_only_where_there_is_any(crash: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["metrics", str(crash)]) == 0
    told = capsys.readouterr().out
    assert not any(word in told for word in ("deadlines", "rotations", "admission", "assumptions broken"))
    start = {"kind": "start", "detail": '{"bounds": {"rotation": 9}}'}
    view = {"kind": "view", "group": "g", "view": 1, "members": ["p"]}
    send = {"kind": "send", "group": "g", "view": 1, "sender": "p", "seq": 1, "deadline": 5}
    deliver = {"kind": "deliver", "group": "g", "view": 1, "sender": "p", "seq": 1}
    turns = [{"kind": "token", "group": "g", "view": 1}] * 2
    admit = {"kind": "admit", "group": "g", "view": 1, "detail": '{"stream": "s"}'}
    events: list[dict[str, Any]] = [start, view, *turns, admit, send, deliver]
    rows = [{"run": "r0", "process": "p", "index": at, "time": 2 * at, **event} for at, event in enumerate(events)]
    pq.write_table(pa.Table.from_pylist(rows, schema=SCHEMA), "timed.parquet")
    assert main(["metrics", "timed.parquet"]) == 0
    lines = {line[2:].split("  ")[0]: line for line in capsys.readouterr().out.splitlines()[1:]}
    assert "1 missed of 1 (100.000%)" in lines["deadlines"]
    assert "1 admitted, 0 rejected" in lines["admission"]
    assert "1: p50 2 ns, p90 2 ns, p99 2 ns, max 2 ns; stated bound 9 ns" in lines["rotations"]
    assert "joins" not in lines


def test_detections_are_matched_with_injections(crash: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["metrics", str(crash), "--detections", "--json", "found.json"]) == 0
    assert "1: 1 matched by a view without it; 0 more" in capsys.readouterr().out
    (row,) = json.loads(Path("found.json").read_text())["detections"]
    assert (row["crashes"], row["crashes_matched"], row["eliminations_false"]) == (1, 1, 0)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["nowhere"], "there is no trace at nowhere"),
        (["crash", "--group", "gg"], 'did you mean "g"?'),
        (["crash", "--group", "g", "--detections"], "leave out --group and --out"),
        (["crash", "--run", "r7"], "there is no run 'r7'"),
        (["crash", "--out", "crash"], "crash exists and is not empty"),
        (["crash", "--json", "no/such/directory.json"], "cannot write no/such/directory.json"),
        (["crash", "--master", "local[1]", "--remote", "sc://here"], "--master and --remote exclude each other"),
    ],
)
def test_mistakes_are_a_sentence_and_status_2(
    crash: Path, arguments: list[str], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["metrics", *arguments]) == 2
    captured = capsys.readouterr()
    assert sentence in captured.err
    assert captured.err.count("\n") == 1
