"""The example of a controller in three copies: on virtual time, within its bound, and as real processes, one of them killed."""

from __future__ import annotations

import asyncio
import dataclasses
from pathlib import Path
from typing import Any

import pytest

from examples import replicated_controller
from examples.replicated_controller import (
    CONTROLLERS,
    KILLED,
    PARAMETERS,
    VIRTUAL,
    Outcome,
    Times,
    account,
    bound,
    free_peers,
    live,
    problems,
    simulate,
)
from plainchant.lab.properties import verify
from plainchant.trace import read
from plainchant.trace.collect import collect

SHORT = Times(period=0.01, values=60)
PATIENT = {
    **PARAMETERS,
    "write": "2ms",
    "flag": "2ms",
    "decide": "2ms",
    "read": "2ms",
    "finish": "2ms",
    "skew": "1us",
    "poll": "4ms",
}


@pytest.fixture(scope="module")
def good() -> Outcome:
    return simulate()


def test_on_virtual_time_everything_is_within_its_bound_though_the_acting_controller_dies(good: Outcome) -> None:
    assert problems(good) == []
    assert set(good.reports) == set(CONTROLLERS) - {KILLED}
    assert good.result.verification.properties["bounded"].cases > 0
    for report in good.reports.values():
        assert 0 < max(report.delays) <= bound()
        assert len({valve for _, _, valve in report.commands}) > 5
    first = good.reports["middle"].acted[0]
    assert 0 < first < len(good.reports["middle"].commands) - VIRTUAL.values // 2


@pytest.mark.parametrize("seed", range(1, 4))
def test_whenever_values_come_the_copies_stay_copies(seed: int) -> None:
    assert problems(simulate(seed=seed, times=Times(period=0.003, values=40))) == []


def test_what_is_wrong_is_told(good: Outcome) -> None:
    middle, right = good.reports["middle"], good.reports["right"]

    def changed(name: str, **changes: Any) -> list[str]:
        report = dataclasses.replace(good.reports[name], **changes)
        return problems(Outcome({**good.reports, name: report}, good.values, good.result))

    exchanged = [right.commands[1], right.commands[0], *right.commands[2:]]
    assert changed("right", commands=exchanged) == ["right has other commands than middle"]
    assert changed("right", commands=right.commands[2:])[1:] == [
        f"right has not read every value of {sensor} once, in order" for sensor in ("level", "inflow")
    ]
    assert changed("right", gone={}) == [f"right does not know that {KILLED} is gone"]
    assert changed("right", acted=[3]) == [f"middle, right acted after {KILLED} was killed"]
    assert changed("middle", acted=[]) == [f"nobody acted after {KILLED} was killed"]
    assert changed("middle", acted=[*middle.acted[:5], *middle.acted[6:]]) == [
        "middle left a command out, or carried one out twice"
    ]


def test_real_processes_agree_though_the_acting_one_is_killed(tmp_path: Path) -> None:
    outcome = asyncio.run(live(peers=free_peers(), times=SHORT, parameters=PATIENT, trace=str(tmp_path / "spools")))
    assert problems(outcome) == []
    assert set(outcome.reports) == set(CONTROLLERS) - {KILLED}
    assert all(values >= SHORT.values for values in outcome.values.values())
    assert f"middle: {sum(outcome.values.values())} values, acted from value" in account(outcome)
    collect([tmp_path / "spools"], tmp_path)
    result = verify(read(tmp_path / "trace").table)
    assert [violation.sentence for violation in result.violations] == []


def test_a_place_that_cannot_start_ends_the_run(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(Exception, match="has ended with status 1"):
        asyncio.run(live(peers=free_peers(), parameters={"copies": 0}))
    assert "copies" in capfd.readouterr().err


def test_one_command_runs_it(good: Outcome, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(replicated_controller, "simulate", lambda: good)
    assert replicated_controller.main(["--simulated"]) == 0
    assert "the same commands, and none is missing" in capsys.readouterr().out
