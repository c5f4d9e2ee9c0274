"""``plainchant sweep`` as a command: what it prints, how it ends, and what it refuses before Spark is even started."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import NamedTuple

import pytest

from plainchant.cli import main
from plainchant.lab.sweep import Definition, Store, define, driver
from plainchant.lab.sweep.task import Job, Task

SMALL = """\
protocol = "sequencer"
members = 3
duration = "100ms"
[network]
delay = "1ms"
[[workload]]
rate = 200
[[fault]]
kind = "cut"
source = "p1"
at = "30ms"
[[fault]]
kind = "crash"
process = "p1"
at = "60ms"
"""


class Ended(NamedTuple):
    status: int
    out: str
    err: str


@pytest.fixture
def plainchant(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Ended]:
    """Runs a command in an empty directory that holds ``small.toml``; it must not need Spark."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    (tmp_path / "small.toml").write_text(SMALL)

    def call(*arguments: str) -> Ended:
        status = main(arguments)
        captured = capsys.readouterr()
        return Ended(status, captured.out, captured.err)

    return call


def complete(definition: Definition, directory: str) -> None:
    """Does in this process what Spark's tasks would do."""
    job = Job(Store(directory).enter(definition), directory, tuple(range(definition.units)), 1)
    assert Task(job, 0).work() is None


def test_a_complete_sweep_is_reported_without_spark(plainchant: Callable[..., Ended]) -> None:
    complete(define("small.toml", "0:3"), "out")
    ended = plainchant("sweep", "small.toml", "--seeds", "0:3", "--out", "out")
    assert ended.status == 0, ended.err
    assert "All 3 runs are already in out." in ended.out
    assert "3 runs" in ended.out
    assert any(line.split()[:2] == ["integrity", "3"] and line.split()[-1] == "holds" for line in ended.out.splitlines())


def test_each_violation_is_followed_by_the_command_that_replays_it(plainchant: Callable[..., Ended]) -> None:
    complete(define("small.toml", "0:2", properties=["uniform"]), "out")
    ended = plainchant("sweep", "small.toml", "--seeds", "0:2", "--property", "uniform", "--out", "out")
    assert ended.status == 1
    lines = ended.out.splitlines()
    (place,) = [number for number, line in enumerate(lines) if line.startswith("uniform, run seed=0: ")]
    command = lines[place + 1].strip()
    assert command == "plainchant run small.toml --set 'verify=[\"uniform\"]' --seed 0 --out seed-0"
    replayed = plainchant("run", "small.toml", "--set", 'verify=["uniform"]', "--seed", "0", "--out", "seed-0")
    assert replayed.status == 1
    sentence = lines[place].removeprefix("uniform, run seed=0: ")
    assert sentence in replayed.out


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("nowhere.toml", "--seeds", "0:3"), "there is no scenario file nowhere.toml"),
        (("small.toml", "--seeds", "a:b"), "--seeds a:b"),
        (("small.toml", "--seeds", "0:3", "--grid", "network.los=1"), "network.los"),
        (("small.toml", "--seeds", "0:3", "--grid", "seed=1,2"), "--seeds"),
        (("small.toml", "--seeds", "0:3", "--property", "fife"), "did you mean 'fifo'?"),
    ],
)
def test_wrong_input_is_a_sentence_and_leaves_nothing(
    plainchant: Callable[..., Ended], tmp_path: Path, arguments: tuple[str, ...], said: str
) -> None:
    ended = plainchant("sweep", *arguments, "--out", "out")
    assert ended.status == 2
    assert said in ended.err
    assert ended.err.count("\n") == 1
    assert not (tmp_path / "out").exists()


def test_another_definition_in_the_same_directory_is_refused(plainchant: Callable[..., Ended]) -> None:
    complete(define("small.toml", "0:2"), "out")
    ended = plainchant("sweep", "small.toml", "--seeds", "0:3", "--out", "out")
    assert ended.status == 2
    assert "holds another sweep (seeds 0:2 there, 0:3 here)" in ended.err


def test_interrupted_it_says_how_to_continue(
    plainchant: Callable[..., Ended], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*arguments: object, **options: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(import_module("plainchant.cli.sweep"), "spark_for", interrupted)
    ended = plainchant("sweep", "small.toml", "--seeds", "0:3", "--out", "out")
    assert ended.status == 130
    assert "what is done is in out, and the same command continues it" in ended.err
    monkeypatch.undo()
    monkeypatch.chdir(tmp_path)
    assert driver.swept(define("small.toml", "0:3"), "out")[1] is None
