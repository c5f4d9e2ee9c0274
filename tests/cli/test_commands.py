"""The commands, end to end: what they print and write, how they end, and that mistakes leave nothing behind."""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import plainchant as plainchant_package
from plainchant import __version__
from plainchant.cli import main, running
from plainchant.cli import run as run_command
from plainchant.scenario import dump, load, shipped
from plainchant.trace import TraceWriter, read, validate

SMALL = """\
protocol = "sequencer"
members = 3
duration = "100ms"
[[workload]]
rate = 50
"""


class Ended(NamedTuple):
    status: int
    out: str
    err: str


@pytest.fixture
def plainchant(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Ended]:
    """Runs a command in an empty directory that holds ``small.toml``."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    (tmp_path / "small.toml").write_text(SMALL)

    def call(*arguments: str) -> Ended:
        status = main(arguments)
        captured = capsys.readouterr()
        return Ended(status, captured.out, captured.err)

    return call


def files(directory: Path) -> list[str]:
    return sorted(str(path.relative_to(directory)) for path in directory.rglob("*") if path.is_file())


# --- run --------------------------------------------------------------------------------------------------------------


def test_run_writes_trace_scenario_and_summary(plainchant: Callable[..., Ended], tmp_path: Path) -> None:
    ended = plainchant("run", "small.toml", "--seed", "5", "--out", "out")
    assert ended.status == 0, ended.err
    assert files(tmp_path) == ["out/scenario.toml", "out/summary.json", "out/trace/part-00000.parquet", "small.toml"]
    trace = read(tmp_path / "out" / "trace")
    assert validate(trace.table, trace.files) == []
    summary = json.loads((tmp_path / "out" / "summary.json").read_text())
    assert summary["as_expected"] is True
    assert summary["seed"] == 5
    assert summary["trace_events"] == trace.table.num_rows
    assert summary["verification"]["verdict"] == "holds"
    assert "integrity" in ended.out
    assert "Written to out" in ended.out


def test_the_written_scenario_replays_the_run(plainchant: Callable[..., Ended], tmp_path: Path) -> None:
    plainchant("run", "lossy-network", "--seed", "9", "--set", "duration=100ms", "--out", "first")
    ended = plainchant("run", "first/scenario.toml", "--out", "second")
    assert ended.status == 0
    for name in ("scenario.toml", "summary.json", "trace/part-00000.parquet"):
        assert (tmp_path / "first" / name).read_bytes() == (tmp_path / "second" / name).read_bytes()


def test_run_says_how_many_deadlines_were_admitted(plainchant: Callable[..., Ended], tmp_path: Path) -> None:
    kept, refused = '[[workload]]\nrate = 2\ndeadline = "400ms"\n', '[[workload]]\nrate = 500\ndeadline = "2ms"\n'
    (tmp_path / "due.toml").write_text('protocol = "rtcast"\nmembers = 2\n' + kept + refused)
    ended = plainchant("run", "due.toml", "--out", "out")
    assert ended.status == 0, ended.err
    assert "4 streams and single messages asked for, 2 admitted, 2 rejected" in " ".join(ended.out.split())
    run = json.loads((tmp_path / "out" / "summary.json").read_text())["run"]
    assert (run["streams_asked"], run["streams_admitted"], run["streams_rejected"]) == (4, 2, 2)


def test_options_win_over_the_file_and_seed_over_set(plainchant: Callable[..., Ended], tmp_path: Path) -> None:
    plainchant("run", "small.toml", "--set", "seed=3", "--seed", "4", "--set", "network.loss=0.05", "--out", "out")
    written = tomllib.loads((tmp_path / "out" / "scenario.toml").read_text())
    assert written["seed"] == 4
    assert written["network"]["loss"] == 0.05


def test_without_out_nothing_is_written(plainchant: Callable[..., Ended], tmp_path: Path) -> None:
    ended = plainchant("run", "small.toml")
    assert ended.status == 0
    assert "holds" in ended.out
    assert files(tmp_path) == ["small.toml"]


def test_no_verify(plainchant: Callable[..., Ended]) -> None:
    ended = plainchant("run", "small.toml", "--no-verify")
    assert ended.status == 0
    assert "Not verified, as asked." in ended.out


def test_what_was_not_verified_is_neither_expected_nor_unexpected(plainchant: Callable[..., Ended], tmp_path: Path) -> None:
    assert plainchant("run", "small.toml", "--no-verify", "--out", "out").status == 0
    assert json.loads((tmp_path / "out" / "summary.json").read_text())["as_expected"] is None


def test_a_violation_that_nobody_looked_for_was_not_shown(plainchant: Callable[..., Ended]) -> None:
    ended = plainchant("run", "why-resilience", "--no-verify")
    assert ended.status == 1
    assert "not verified: cannot tell" in ended.out


def test_halted_processes_are_named_with_their_reasons(plainchant: Callable[..., Ended]) -> None:
    lines = plainchant("run", "partition").out.splitlines()
    halted = [line for line in lines if " halted: " in line]
    assert halted
    assert all("majority" in line for line in halted)
    assert not any(line.endswith(" more") for line in lines)


def test_of_many_halted_processes_the_first_are_named(plainchant: Callable[..., Ended], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("plainchant.cli.run._HALTED", 1)
    lines = plainchant("run", "partition").out.splitlines()
    assert sum(" halted: " in line for line in lines) == 1
    assert "and 1 more" in lines


def test_large_runs_are_verified_only_when_asked(plainchant: Callable[..., Ended], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running, "VERIFY_UP_TO", 50)
    ended = plainchant("run", "small.toml")
    assert ended.status == 0
    assert "integrity" not in ended.out
    ended = plainchant("run", "small.toml", "--verify")
    assert "integrity" in ended.out


def test_a_violation_that_is_expected_is_success(plainchant: Callable[..., Ended]) -> None:
    ended = plainchant("run", "why-resilience")
    assert ended.status == 0
    assert "violated" in ended.out
    assert "meant to show a violation, and one was found" in ended.out


@pytest.mark.parametrize(
    ("sets", "says"),
    [
        (("expect=holds",), "violated"),
        (("parameters.resilience=1",), "meant to show a violation, but none was found"),
    ],
)
def test_what_was_not_expected_is_status_1(plainchant: Callable[..., Ended], sets: tuple[str, ...], says: str) -> None:
    ended = plainchant("run", "why-resilience", *(part for one in sets for part in ("--set", one)))
    assert ended.status == 1
    assert says in ended.out


def test_a_run_that_does_not_get_quiet_is_status_1(plainchant: Callable[..., Ended]) -> None:
    ended = plainchant("run", "small.toml", "--set", "drain=1ms")
    assert ended.status == 1
    assert "It did not get quiet within 1ms" in ended.out


@pytest.mark.parametrize("name", [name for name in shipped() if name != "why-resilience"])
def test_every_shipped_scenario_is_as_it_says(name: str) -> None:
    scenario = load(shipped()[name])
    assert scenario.about
    assert scenario.name == name
    result = running.execute(scenario)
    assert result.as_expected
    assert result.verification is not None


# --- mistakes ---------------------------------------------------------------------------------------------------------

MISTAKES: dict[str, tuple[tuple[str, ...], str]] = {
    "no such file": (("run", "frist-steps"), 'no shipped scenario of that name; did you mean "first-steps"?'),
    "no file": (("run",), "which scenario? Name a file or a shipped one"),
    "a directory": (("run", "."), "is a directory"),
    "a wrong option": (("run", "small.toml", "--set", "network.los=1"), '--set network.los=1: unknown key "los"'),
    "a wrong seed": (("run", "small.toml", "--seed", "-1"), "--seed"),
    "a wrong flag": (("run", "small.toml", "--sed", "1"), "--sed"),
    "no such command": (("rnu",), "rnu"),
    "a member that is not there": (
        ("run", "sequencer-crash", "--set", "fault.0.process=p9"),
        '--set fault.0.process=p9: fault.0.process: there is no process "p9"',
    ),
    "a directory that is taken": (("run", "small.toml", "--out", "taken"), "taken exists and is not empty"),
    "a file as a directory": (("run", "small.toml", "--out", "small.toml"), "small.toml exists and is not a directory"),
    "no such protocol": (("protocols", "sequenser"), "there is no protocol 'sequenser'; did you mean 'sequencer'?"),
    "no such trace": (("trace", "nowhere"), "there is no trace at nowhere"),
    "more resilience than members": (
        ("run", "small.toml", "--set", "parameters.resilience=3"),
        "--set parameters.resilience=3: resilience is 3, but group g has 3 members, the sequencer among them; make it",
    ),
    "half an export": (("trace", "nowhere", "--export", "chrome"), "--export and --out go together"),
    "no such format": (("trace", "nowhere", "--export", "crome", "--out", "x"), "crome"),
    "a wrong message": (("trace", "nowhere", "--message", "7"), "does not name a message"),
}


@pytest.mark.parametrize(("arguments", "says"), MISTAKES.values(), ids=MISTAKES.keys())
def test_a_mistake_is_a_sentence_status_2_and_nothing_written(
    plainchant: Callable[..., Ended], tmp_path: Path, arguments: tuple[str, ...], says: str
) -> None:
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken" / "mine").write_text("mine")
    if arguments[0] == "run" and "--out" not in arguments and arguments[1:]:
        arguments = (*arguments, "--out", "new")
    ended = plainchant(*arguments)
    assert ended.status == 2
    assert says in ended.err
    assert "Traceback" not in ended.err
    assert files(tmp_path) == ["small.toml", "taken/mine"]


def test_a_full_disk_leaves_nothing(plainchant: Callable[..., Ended], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(TraceWriter, "_flush", full)
    ended = plainchant("run", "small.toml", "--out", "deep/out")
    assert ended.status == 2
    assert "No space left on device" in ended.err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["small.toml"]


def test_a_full_disk_after_the_trace_leaves_nothing(
    plainchant: Callable[..., Ended], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any, **__: Any) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(Path, "write_text", full)
    ended = plainchant("run", "first-steps", "--out", "out")
    assert ended.status == 2
    assert "No space left on device; nothing was kept there" in ended.err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["small.toml"]


def test_an_unforeseen_exception_is_not_hidden_and_leaves_nothing(
    plainchant: Callable[..., Ended], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: Any, **__: Any) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(running, "verify", broken)
    with pytest.raises(ZeroDivisionError):
        plainchant("run", "small.toml", "--out", "out")
    assert files(tmp_path) == ["small.toml"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_is_a_sentence_status_130_and_nothing_left(tmp_path: Path, number: signal.Signals) -> None:
    (tmp_path / "long.toml").write_text(SMALL.replace("100ms", "10h"))
    command = [sys.executable, "-m", "plainchant", "run", "long.toml", "--out", "out"]
    environment = {**os.environ, "PYTHONPATH": str(Path(plainchant_package.__file__).parent.parent)}
    pipe = subprocess.PIPE
    with subprocess.Popen(command, cwd=tmp_path, env=environment, stderr=pipe, stdout=pipe, text=True) as process:
        while not list(tmp_path.glob(".out.partial-*/.trace.partial")):
            assert process.poll() is None, process.communicate()
        process.send_signal(number)
        out, err = process.communicate(timeout=30)
    assert process.returncode == 130
    assert err == "plainchant: interrupted; nothing was kept\n"
    assert out == ""
    assert [path.name for path in tmp_path.iterdir()] == ["long.toml"]


# --- the other commands -----------------------------------------------------------------------------------------------


def test_version_and_help(plainchant: Callable[..., Ended]) -> None:
    assert plainchant("--version").out == f"plainchant {__version__}\n"
    for command in ("run", "trace", "protocols", "demo"):
        ended = plainchant(command, "--help")
        assert ended.status == 0
        assert f"plainchant {command}" in ended.out


def test_the_list_of_scenarios(plainchant: Callable[..., Ended]) -> None:
    ended = plainchant("run", "--list")
    assert ended.status == 0
    assert all(name in ended.out for name in shipped())


def test_protocols(plainchant: Callable[..., Ended]) -> None:
    assert "sequencer" in plainchant("protocols").out
    shown = plainchant("protocols", "sequencer").out
    assert "suspect_after" in shown
    assert "150ms" in shown
    assert "view-atomicity" in shown
    assert "as long as" in shown
    facts = json.loads(plainchant("protocols", "sequencer", "--json").out)
    assert facts["name"] == "sequencer"
    assert {"name", "type", "default", "unit", "minimum", "maximum", "choices", "example", "about"} == set(facts["parameters"][0])
    assert {"name": "fifo", "provided": "a majority of each view survives"} in facts["promises"]
    names = [one["name"] for one in json.loads(plainchant("protocols", "--json").out)]
    assert names == ["sequencer", "newtop", "rtcast", "mailbox", "dedos"]


def test_a_promise_with_two_conditions_is_shown_once(plainchant: Callable[..., Ended]) -> None:
    shown = plainchant("protocols", "newtop").out
    for name in ("identical", "total", "acyclic"):
        assert len([line for line in shown.splitlines() if line.startswith(f"{name} ")]) == 1
    words = " ".join(shown.split())
    assert 'acyclic whatever fails; liveness, if the network heals, and every group has order "total" (the default)' in words
    assert "(blocks)" not in words


def test_trace_filters_and_limits(plainchant: Callable[..., Ended]) -> None:
    plainchant("run", "small.toml", "--out", "out")
    assert len(plainchant("trace", "out", "--limit", "4").out.splitlines()) == 4
    lines = plainchant("trace", "out", "--process", "p2", "--kind", "deliver").out.splitlines()
    assert lines
    assert all("p2" in line and "deliver" in line for line in lines)
    assert len(plainchant("trace", "out", "--message", "g/p1/1").out.splitlines()) == 4
    assert plainchant("trace", "out", "--kind", "leave") == Ended(0, "", "")
    ended = plainchant("trace", "out", "--process", "p9")
    assert ended.status == 2
    assert 'there is no process "p9" in this trace; did you mean' in ended.err


@pytest.mark.parametrize(
    ("message", "hint"),
    [
        ("g/p1/99999", "the last of p1 is g/p1/5"),
        (f"g/p1/{10**30}", "the last of p1 is g/p1/5"),
        ("g/p9/1", "p9 has none in g"),
    ],
)
def test_a_message_that_is_not_in_the_trace_is_refused(plainchant: Callable[..., Ended], message: str, hint: str) -> None:
    plainchant("run", "small.toml", "--out", "out")
    ended = plainchant("trace", "out", "--message", message)
    assert ended.status == 2
    assert f"there is no message {message} in this trace; {hint}" in ended.err


def test_trace_exports(plainchant: Callable[..., Ended], tmp_path: Path) -> None:
    plainchant("run", "small.toml", "--out", "out")
    assert plainchant("trace", "out", "--export", "chrome", "--out", "run.json").status == 0
    assert json.loads((tmp_path / "run.json").read_text())["traceEvents"]
    assert plainchant("trace", "out", "--export", "shiviz", "--out", "run.log").status == 0
    assert (tmp_path / "run.log").read_text()
    ended = plainchant("trace", "out", "--export", "shiviz", "--out", "run.log")
    assert ended.status == 2
    assert "run.log exists" in ended.err


def test_a_malformed_trace_is_status_2_with_its_place(plainchant: Callable[..., Ended], tmp_path: Path) -> None:
    with TraceWriter(tmp_path / "bad") as writer:
        ending: Any = ("end", 1, 1, None, None, None, None, None, None, None, None, None)
        writer.history("r7", "p1").rows.extend([ending, ending])
    ended = plainchant("trace", "bad")
    assert ended.status == 2
    assert "part-00000.parquet, run r7, process p1, index 1: a row after the history ended" in ended.err
    assert "mend or leave out that file" in ended.err


def test_dumps_of_the_shipped_scenarios_read_back(tmp_path: Path) -> None:
    for name, path in shipped().items():
        scenario = load(path)
        (tmp_path / f"{name}.toml").write_text(dump(scenario))
        assert load(tmp_path / f"{name}.toml") == scenario


def test_a_run_that_is_too_large_to_be_verified_unasked_says_so(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (run_command, running):
        monkeypatch.setattr(module, "VERIFY_UP_TO", 100)
    assert main(["run", "first-steps"]) == 0
    assert "are more than are checked without being asked (100). Add --verify" in capsys.readouterr().out.replace("\n", " ")
