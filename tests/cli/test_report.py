"""``plainchant report``: where the file goes, what is said, and how mistakes end."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from plainchant.cli import main

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

RUN = ("run", "first-steps", "--set", "duration=50ms")


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("report") / "run"
    assert main([*RUN, "--out", str(made)]) == 0
    return made


def test_the_report_goes_beside_what_it_is_about_and_replaces_an_earlier_one(
    directory: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for _ in range(2):
        assert main(["report", str(directory)]) == 0
        told = capsys.readouterr()
        assert told.out == f"no violations; report written to {directory / 'report.html'}\n"
        assert told.err == ""
    assert (directory / "report.html").read_text(encoding="utf-8").startswith("<!DOCTYPE html>")
    assert not list(directory.glob(".*"))


def test_a_violation_is_counted_and_the_status_is_still_0(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "why-resilience", "--out", str(tmp_path / "why")]) == 0
    assert main(["report", str(tmp_path / "why"), "--out", str(tmp_path / "why.html"), "--most", "1"]) == 0
    assert "24 violations; report written to" in capsys.readouterr().out
    assert "Showing 1 of 24 violations" in (tmp_path / "why.html").read_text(encoding="utf-8")


def test_a_trace_that_is_a_file_needs_a_place(directory: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = next((directory / "trace").glob("*.parquet"))
    assert main(["report", str(file)]) == 2
    assert "say --out FILE.html" in capsys.readouterr().err
    assert main(["report", str(file), "--out", str(tmp_path / "file.html")]) == 0


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["{nowhere}", "--out", "{nowhere}.html"], "there is no trace at"),
        (["{nowhere}"], "there is nothing at"),
        (["{run}", "--out", "{run}"], "is a directory; name a file with --out"),
        (["{run}", "--out", "{nowhere}/deep/report.html"], "cannot write"),
        (["{run}", "--most", "0"], "Invalid value for '--most'"),
    ],
)
def test_a_mistake_is_one_sentence_and_status_2(
    arguments: list[str], sentence: str, directory: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    told = [each.format(nowhere=tmp_path / "nowhere", run=directory) for each in arguments]
    assert main(["report", *told]) == 2
    error = capsys.readouterr().err
    assert sentence in error
    assert "Traceback" not in error


def test_a_report_needs_neither_spark_nor_a_plotting_library() -> None:
    code = "import sys, plainchant.lab.report; print([name for name in ('pyspark', 'matplotlib') if name in sys.modules])"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ended.stdout.strip() == "[]"


def test_where_a_trace_without_a_verdict_is_verified_is_an_option(
    directory: Path, tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked: list[tuple[object, ...]] = []

    @contextlib.contextmanager
    def somewhere(*where: object, ui: bool) -> Iterator[SparkSession]:
        asked.append((*where, ui))
        yield spark

    monkeypatch.setattr(import_module("plainchant.cli.report"), "spark_for", somewhere)
    trace, out = str(directory / "trace"), ["--out", str(tmp_path / "report.html")]
    assert main(["report", trace, *out]) == 0
    assert asked == [], "a small one here"
    here = (tmp_path / "report.html").read_bytes()
    assert main(["report", trace, *out, "--master", "local[2]", "--memory", "2g", "--conf", "spark.a=b", "--spark-ui"]) == 0
    assert asked == [("local[2]", None, "2g", ["spark.a=b"], True)]
    assert (tmp_path / "report.html").read_bytes() == here
    assert "no violations" in capsys.readouterr().out
