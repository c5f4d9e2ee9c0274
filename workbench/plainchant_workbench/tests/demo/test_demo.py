"""``plainchant demo``: the story that it tells, and the directory that it leaves."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from plainchant.cli import main


class Ended(NamedTuple):
    status: int
    out: str
    err: str


@pytest.fixture
def demo(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], Ended]:
    """Runs the demo in an empty directory."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")

    def call() -> Ended:
        status = main(["demo"])
        return Ended(status, *capsys.readouterr())

    return call


@pytest.mark.usefixtures("spark")
def test_the_demo_tells_the_story_and_replaces_only_its_own(demo: Callable[[], Ended], tmp_path: Path) -> None:
    first = demo()
    assert first.status == 0
    for part in (
        "The group",
        "What happened",
        "crashes in the middle of a broadcast",
        "suspects ann",
        "is elected",
        "ann#1",
        "And groups that overlap?",
        "acyclic",
        "And if the network falls apart?",
        "came together",
        "And if it has to be in time?",
        "no, but ",
        "deadline ",
        "And without a network?",
        "longest delivery",
        "And with many processes on few machines?",
        "mailbox 1 of n3 dies",
        "And what is it good for?",
        "begins, and never ended",
        "lock-exclusion",
        "holds",
    ):
        assert part in first.out
    directory = tmp_path / "demo-out"
    made = sorted(str(path.relative_to(directory)) for path in directory.rglob("*") if path.is_file())
    assert [file for file in made if "/" not in file] == ["report.html", "scenario.toml", "summary.json"]
    assert {"trace/part-00000.parquet", "live/report.html", "sweep/report.html", "sweep/summary.json"} <= set(made)
    for part in ("overlapping", "parted", "timed", "shared", "nodes"):
        assert {f"{part}/trace/part-00000.parquet", f"{part}/report.html"} <= set(made)
    assert_reports_name_what_exists(directory, tmp_path)
    assert_one_order(first.out)
    assert "40 runs" in first.out
    again = demo()
    simulated, _, rest = first.out.partition("And for real?")
    assert again.out.partition("And for real?")[0] == simulated
    assert again.out.partition("And groups that overlap?")[2] == rest.partition("And groups that overlap?")[2]
    (directory / "mine").write_text("mine")
    ended = demo()
    assert ended.status == 2
    assert "demo-out exists and is not empty" in ended.err


def assert_reports_name_what_exists(directory: Path, home: Path) -> None:
    """The demo writes into a hidden directory, which is renamed at the end: reports name the directory that stays."""
    reports = sorted(directory.rglob("report.html"))
    assert len(reports) == 8
    for report in reports:
        text = report.read_text(encoding="utf-8")
        assert ".partial" not in text
        (named,) = re.findall("<code>plainchant report ([^<]*)</code>", text)
        assert home / named == report.parent


def assert_one_order(out: str) -> None:
    """The demo shows the one order: each process's deliveries count up, one by one, down its column."""
    heading, *lines = out.partition("every message was:")[2].partition("property")[0].strip().splitlines()
    columns = [heading.index(name) for name in ("ann", "ben", "cyd", "dan", "eve", "fay")]
    assert len(lines) == 10
    seen = 0
    for start, end in zip(columns, [*columns[1:], None], strict=True):
        places = [int(line[start:end]) for line in lines if line[start:end].strip()]
        if places:
            assert places == list(range(places[0], places[0] + len(places)))
        seen += len(places)
    assert seen >= 20
