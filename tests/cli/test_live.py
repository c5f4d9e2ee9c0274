"""``plainchant live``: what it prints and writes, and how it ends."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from plainchant.cli import main
from plainchant.cli.console import output
from plainchant.cli.live import LiveResult, tell
from plainchant.lab.live.supervisor import LiveSummary
from plainchant.lab.properties import Outcome, Verification, Violation
from plainchant.scenario import load
from plainchant.scenario.outcome import ProcessEnd
from plainchant.trace import read
from plainchant.trace.collect import CollectSummary

SMALL = """\
protocol = "sequencer"
members = 3
duration = "200ms"
[parameters]
suspect_after = "300ms"
[network]
delay = "200us"
[[workload]]
rate = 50
[[fault]]
kind = "crash"
process = "p3"
at = "100ms"
"""


@pytest.fixture
def small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    (tmp_path / "small.toml").write_text(SMALL)
    return "small.toml"


def test_a_run_is_told_and_written(small: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["live", small, "--seed", "5", "--out", "out"]) == 0
    told = capsys.readouterr().out
    assert "small (seed 5), live" in told
    assert "1 crashed" in told
    assert "1 crash" in told
    assert "self-delivery" in told
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["scenario.toml", "summary.json", "trace"]
    summary = json.loads((tmp_path / "out" / "summary.json").read_text())
    assert summary["command"] == "live"
    assert summary["as_expected"] is True
    assert summary["run"]["processes"]["p3"]["state"] == "crashed"
    assert summary["run"]["messages_delivered"] > 0
    assert summary["run"]["packets_sent"] > 0
    again = load(tmp_path / "out" / "scenario.toml")
    assert again.seed == 5
    assert again.parameters["suspect_after"] == 300_000_000
    assert again.parameters == summary["run"]["parameters"]
    assert read(tmp_path / "out").table.num_rows == summary["trace_events"]
    assert main(["verify", "--help"]) == 0


def test_json_goes_to_standard_output(small: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["live", small, "--json", "--no-verify", "--set", "fault=[]", "--set", "members=2"]) == 0
    summary = json.loads(capsys.readouterr().out)
    assert summary["verification"] is None
    assert summary["as_expected"] is None
    assert summary["run"]["quiet"] is True


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["nowhere"], "nowhere"),
        (["small.toml", "--set", "members=0"], "members"),
        (["small.toml", "--drain-at-most", "soon"], "is not a duration"),
        (["small.toml", "--time-scale", "0"], "above 0"),
    ],
)
def test_wrong_input_starts_nothing(
    arguments: list[str], complaint: str, small: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["live", *arguments, "--out", "out"]) == 2
    assert complaint in capsys.readouterr().err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["small.toml"]


# --- what a result means --------------------------------------------------------------------------------------------


def result_of(small: str, *, expect: str = "holds", violations: int = 0, verified: bool = True, **summary: Any) -> LiveResult:
    scenario = load(small, [f"expect={expect}"])
    settings: dict[str, Any] = {
        "run": "r0", "protocol": "sequencer", "seed": 0, "elapsed": 1, "processes": {"p1": ProcessEnd("alive")},
        "unexpected": {}, "parameters": {}, "packets_lost": 0, "packets_duplicated": 0, "packets_corrupted": 0,
        "faults": scenario.fault, "skipped": (), "partitions": "transport", "not_applied": (), "time_scale": 1.0,
        "drained": True, "drain": 5, "quiet": True, "not_quiet": {},
    }  # fmt: skip
    outcome = Outcome(runs=1, events=1, cases=1, violations=violations)
    violation = Violation("r0", "uniform", "g", ("p1",), (), (("p1", 0),), "p1 is alone with it")
    verification = Verification({"uniform": outcome}, (violation,) * violations) if verified else None
    return LiveResult(scenario, LiveSummary(**settings | summary), CollectSummary((), {}, ()), 3, verification, ())


def test_a_violation_fails_unless_it_is_to_be_shown(small: str) -> None:
    assert result_of(small).passes
    assert not result_of(small, violations=1).passes
    assert result_of(small, expect="violation").passes
    assert result_of(small, expect="violation", violations=1).passes


def test_what_fails_a_run_besides_violations(small: str) -> None:
    assert result_of(small, verified=False).passes
    assert not result_of(small, verified=False, quiet=False).passes
    assert not result_of(small, unexpected={"p1": "was ended by signal 9"}).passes
    assert not result_of(small, expect="violation", unexpected={"p1": "was ended by signal 9"}).passes


def test_everything_unusual_is_told(small: str, capsys: pytest.CaptureFixture[str]) -> None:
    result = result_of(
        small,
        expect="violation",
        violations=1,
        quiet=False,
        not_quiet={"p2": "p2 waits for p1"},
        unexpected={"p1": "was ended by signal 9, without a word"},
        processes={"p1": ProcessEnd("crashed"), "p3": ProcessEnd("halted", "p3 is alone")},
        parameters={"suspect_after": 1},
        not_applied=("network.slot",),
        skipped=((load(small).fault[0], "p3 was not there"),),
    )
    tell(result, output())
    told = capsys.readouterr().out
    for words in (
        "1 crashed, 1 halted",
        "network.slot",
        "p1 was ended by signal 9, without a word",
        "p3 halted: p3 is alone",
        "Nobody was left",
        "skipped: crash at 100ms: p3 was not there",
        "It did not get quiet within 5ns",
        "p2: p2 waits for p1",
        "meant to show a violation; live, chance decides: one was found",
    ):
        assert words in told
