"""``plainchant chaos``: what it plans, prints and writes, and how it ends. The rounds themselves are in ``test_rounds``."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import Any

import pytest

from plainchant.cli import main
from plainchant.lab.live.process import LiveError
from plainchant.lab.live.supervisor import LiveSummary
from plainchant.lab.properties import Outcome, Verification
from plainchant.lab.properties.accepted import AcceptedOnce
from plainchant.scenario.model import Fault
from plainchant.scenario.outcome import ProcessEnd
from plainchant_workbench.chaos.figures import Figure
from plainchant_workbench.chaos.plan import DIETS, Round
from plainchant_workbench.chaos.rounds import Result
from plainchant_workbench.chaos.trend import Trend
from plainchant_workbench.commands import chaos


def result_of(each: Round, *problems: str, grows: bool = False) -> Result:
    summary = LiveSummary(
        run="r0",
        protocol=each.protocol,
        seed=each.seed,
        elapsed=1,
        parameters={},
        unexpected={},
        processes={"p1": ProcessEnd("alive"), "p2": ProcessEnd("crashed")},
        packets_lost=0,
        packets_duplicated=0,
        packets_corrupted=0,
        faults=(Fault(kind="crash", process="p2"), Fault(kind="disk", process="p3")),
        skipped=(),
        partitions="transport",
        not_applied=(),
        time_scale=1.0,
        drained=True,
        drain=1,
        quiet=True,
        not_quiet={},
    )
    figures = (
        Figure("p1", "files", 8, 9, 9, Trend(60, 8.0, 40.0 if grows else 0.5, 5.0, 3.0)),
        Figure("p1", "memory", 2**21, 2**21, 2**21, Trend(60, 2.0**21, 2.0**19, 5.0, 2.0**20)),
        Figure("p2", "files", 8, 8, 8, None),
    )
    return Result(
        each,
        each.scenario(),
        summary,
        {"deliver": 1200},
        Verification({"total": Outcome(1, 1, 9)}),
        AcceptedOnce(survivors=2, accepted=500, deliveries=1000),
        figures,
        problems,
        {"excluded": 1},
        30.0,
    )


@pytest.fixture
def played(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[Round]:
    """Rounds are not run, but remembered; the one of mailbox leaves something, as a round with a problem does."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    seen: list[Round] = []

    def play(each: Round, directory: Path, **options: Any) -> Result:
        seen.append(each)
        if each.protocol == "rtcast":
            raise LiveError("processes cannot be started")
        if each.protocol == "mailbox":
            directory.mkdir(parents=True)
            return result_of(each, "p1 hangs: somewhere", "files of p1 grow", grows=True)
        return result_of(each)

    monkeypatch.setattr(chaos, "run_round", play)
    return seen


def test_all_is_well(played: list[Round], capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(["chaos", "--minutes", "1", "--protocol", "newtop", "--protocol", "dedos"]) == 0
    told = capsys.readouterr().out
    assert [each.protocol for each in played] == ["newtop", "dedos"]
    assert "newtop-1 (seed 1, 10 s): well. Processes: 1 alive, 1 crashed. 1,200 events; 500 messages accepted of 2" in told
    assert "2 of 2 rounds are well" in told
    assert "Faults: 2 crash, 2 disk." in told
    assert "Halted by their protocols, with reasons: 2 excluded." in told
    memory = next(line.split() for line in told.splitlines() if "memory" in line)
    assert memory == ["newtop", "memory", "1", "2.00", "MiB", "2.00", "MiB", "0.50", "MiB", "1.00", "MiB", "no"]
    assert list(tmp_path.iterdir()) == []


def test_a_problem_is_told_kept_and_the_exit_status(played: list[Round], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["chaos", "--minutes", "1", "--protocol", "mailbox", "--protocol", "newtop", "--seed", "4", "--out", "out"]) == 1
    told = capsys.readouterr().out
    assert "mailbox-1 (seed 4000003, 10 s): NOT WELL" in told
    assert "  p1 hangs: somewhere" in told
    assert "kept in out/mailbox-1; again: plainchant chaos --protocol mailbox --round-seed 4000003 --seconds 10" in told
    assert "1 of 2 rounds are well" in told
    assert "not well: mailbox-1" in told
    lines = [json.loads(line) for line in Path("out", "rounds.jsonl").read_text().splitlines()]
    assert [(line["round"], bool(line["problems"])) for line in lines] == [("mailbox-1", True), ("newtop-1", False)]
    assert lines[0]["figures"][0]["grows"] is True


def test_a_round_that_cannot_run_does_not_end_the_others(played: list[Round], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["chaos", "--minutes", "1", "--protocol", "rtcast", "--protocol", "newtop", "--json"]) == 1
    ended = capsys.readouterr()
    assert "rtcast-1 (seed 2): processes cannot be started; again: plainchant chaos --protocol rtcast" in ended.err
    told = json.loads(ended.out)
    assert (told["well"], list(told["failed"]), [each["round"] for each in told["rounds"]]) == (False, ["rtcast-1"], ["newtop-1"])


def test_an_interruption_says_how_far_it_came(
    played: list[Round], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(each: Round, directory: Path, **options: Any) -> Result:
        if played:
            raise KeyboardInterrupt
        played.append(each)
        return result_of(each)

    monkeypatch.setattr(chaos, "run_round", interrupted)
    assert main(["chaos", "--minutes", "1", "--protocol", "newtop", "--protocol", "dedos", "--out", "out"]) == 130
    assert "interrupted after 1 rounds of 2; out/rounds.jsonl has them" in capsys.readouterr().err


def test_one_round_again(played: list[Round]) -> None:
    assert main(["chaos", "--protocol", "dedos", "--round-seed", "1004", "--seconds", "12"]) == 0
    assert played == [Round("dedos", 1, 1004, 12.0)]


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--minutes", "0"], "chaos cannot last 0 minutes"),
        (["--protocol", "raft"], "there is no live protocol 'raft'"),
        (["--round-seed", "5"], "give one --protocol"),
        (["--seconds", "5"], "give its --round-seed too"),
        (["--protocol", "newtop", "--round-seed", "5", "--seconds", "1"], "a round has 4 to 3600 seconds"),
        (["--out", "."], "exists and is not empty"),
    ],
)
def test_wrong_options(options: list[str], sentence: str, played: list[Round], capsys: pytest.CaptureFixture[str]) -> None:
    Path("something").touch()
    assert main(["chaos", *options]) == 2
    assert sentence in capsys.readouterr().err
    assert played == []


def test_the_plan(played: list[Round], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["chaos", "--plan"]) == 0
    told = capsys.readouterr().out
    assert all(f"{name}-1" in told for name in DIETS)
    assert "rtcast does not get partition: to each part the others are dead" in told
    assert main(["chaos", "--plan", "--json", "--protocol", "dedos"]) == 0
    planned = json.loads(capsys.readouterr().out)
    assert planned["rounds"][0]["faults"]["crash"] > 0
    assert "step" in planned["left_out"]["dedos"]
    assert played == []


def test_the_supervisor_itself_must_not_keep_files(
    played: list[Round], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    counts = iter((10, 15))
    monkeypatch.setattr(chaos, "own_files", lambda: next(counts))
    assert main(["chaos", "--minutes", "1", "--protocol", "newtop", "--protocol", "dedos"]) == 1
    assert "the supervisor had 10 files open after the first round and has 15 now" in capsys.readouterr().out


def test_large_rounds_are_verified_on_spark(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    called: list[tuple[str, list[str]]] = []

    def on_spark(spark: str, paths: list[str], names: None) -> str:
        called.append((spark, paths))
        return "verified"

    monkeypatch.setattr(chaos, "REFERENCE_UP_TO", 2)
    monkeypatch.setattr("plainchant.cli.spark.explained_session", lambda *given, **options: contextlib.nullcontext("spark"))
    monkeypatch.setattr("plainchant.lab.verify.verify", on_spark)
    table: Any = type("Table", (), {"num_rows": 3})()
    verified: Any = chaos._verify(tmp_path, table)
    assert verified == "verified"
    assert called == [("spark", [str(tmp_path)])]
