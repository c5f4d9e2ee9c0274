"""The verdict beside the page: why there is none where there is none, and the command that waits for it."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

import pyarrow.parquet as pq
import pytest

from plainchant.cli import main
from plainchant.lab import session as sessions
from plainchant.lab.errors import LabError
from plainchant.lab.session import spark
from plainchant.lab.watch.verdict import NoVerdict, SparkVerdict, collected
from plainchant.trace.fact import Fact
from tests.lab.mutations import duplicate_delivery, mutated
from tests.lab.random_traces import random_run, table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture
def no_java(monkeypatch: pytest.MonkeyPatch) -> None:
    """No session of anybody's, and no Java to start one with."""

    def refuse(*arguments: object, **options: object) -> None:
        raise LabError("Spark needs Java 17, 21 or 25, and there is none")

    monkeypatch.setattr(spark, "_active", lambda: None)
    monkeypatch.setattr(spark, "find_java", refuse)


def test_without_java_there_is_no_verdict_and_it_says_why(no_java: None) -> None:
    verdict = SparkVerdict(None)
    verdict.start()
    verdict.take([Fact("r0", "p", 0, "start", 1)])
    verdict.wait(60)
    told = verdict.told("r0")
    assert told["state"] == "failed"
    assert "needs Java" in told["why"]
    assert verdict.is_settled
    verdict.take([Fact("r0", "p", 1, "end", 2)])  # the page goes on
    verdict.stop()


def test_whatever_goes_wrong_there_is_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*arguments: object, **options: object) -> None:
        raise ValueError("nobody thought of this\nand of that")

    monkeypatch.setattr(sessions, "explained_session", fail)
    verdict = SparkVerdict(None)
    verdict.start()
    verdict.wait(60)
    assert verdict.told(None)["why"] == "ValueError: nobody thought of this"
    verdict.stop()


def test_spools_that_are_too_large_are_left_to_the_commands(tmp_path: Path) -> None:
    with pytest.raises(Exception, match="plainchant collect"):
        collected(tmp_path, lambda: 1 << 40)(tmp_path / "out")


def test_nobody_judges_where_nobody_is_asked() -> None:
    none = NoVerdict("because")
    none.take([])
    none.ended()
    assert none.told("r0") == {"state": "off", "why": "because", "so_far": None, "final": None}


def test_the_command_shows_a_finished_trace_and_ends_with_its_verdict(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    spoilt = mutated(Random(3), random_run(3), "r0", duplicate_delivery)
    assert spoilt is not None
    pq.write_table(table([spoilt]), tmp_path / "spoilt.parquet")
    assert main(["watch", str(tmp_path / "spoilt.parquet"), "--at", "127.0.0.1:0", "--until-end"]) == 1
    out = capsys.readouterr().out
    assert "http://127.0.0.1:" in out
    assert "verdict: violated" in out
    assert "integrity" in out


def test_without_a_verdict_the_command_ends_with_the_trace(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pq.write_table(table([random_run(1, "r0")]), tmp_path / "run.parquet")
    assert main(["watch", str(tmp_path / "run.parquet"), "--at", "127.0.0.1:0", "--until-end", "--no-verdict"]) == 2
    assert "no verdict: it was not asked for" in capsys.readouterr().err
    assert main(["watch", str(tmp_path / "nowhere")]) == 2
    assert "does not exist" in capsys.readouterr().err
