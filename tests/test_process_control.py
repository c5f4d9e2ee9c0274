"""The example of process control: on virtual time, where no deadline is missed, and as real processes, one of them killed."""

from __future__ import annotations

import asyncio
import dataclasses
from pathlib import Path
from typing import Any

import pytest

from examples import process_control
from examples.process_control import KILLED, STATIONS, VIRTUAL, Outcome, Times, account, free_peers, live, problems, simulate
from plainchant.lab.properties import verify
from plainchant.trace import read
from plainchant.trace.collect import collect

SHORT = Times(period="1500ms", deadline="1400ms", alarm="1350ms", shift=2)


@pytest.fixture(scope="module")
def good() -> Outcome:
    return simulate()


def test_on_virtual_time_every_deadline_is_met_though_a_station_dies(good: Outcome) -> None:
    outcome = good
    assert problems(outcome) == []
    assert set(outcome.reports) == {"boiler", "control", "console"}
    properties = outcome.result.verification.properties
    assert properties["deadline"].cases > 0
    assert properties["bounded"].cases > 0
    for report in outcome.reports.values():
        assert report.met > VIRTUAL.shift
        assert report.nearest is not None
        assert report.nearest > 0
        assert f"control alarm {KILLED} is gone" in report.log
        assert report.notes == VIRTUAL.shift + 1
    assert list(outcome.reports["boiler"].rejected) == ["vibration"]
    assert set(outcome.reports["control"].admitted) == {"cool", "alarm"}


def test_a_network_that_loses_packets_costs_no_deadline() -> None:
    outcome = simulate(seed=1, loss=0.002)
    assert outcome.result.summary.packets_lost > 0
    assert problems(outcome) == []


def test_what_is_wrong_is_told(good: Outcome) -> None:
    boiler = good.reports["boiler"]
    log = boiler.log

    def with_boiler(**changes: Any) -> list[str]:
        return problems(Outcome({**good.reports, "boiler": dataclasses.replace(boiler, **changes)}, good.result))

    assert with_boiler(log=[*log[1:], log[0]]) == [f"{name} has another log than boiler" for name in ("control", "console")]
    assert with_boiler(gone={}) == [f"boiler does not know that {KILLED} is gone"]
    assert with_boiler(late=["an alarm by 3 ms"]) == ["boiler: late: an alarm by 3 ms"]
    assert with_boiler(halted="omission", log=log[:5]) == ["boiler was stopped: omission"]
    assert problems(Outcome({"boiler": dataclasses.replace(boiler, halted="omission")})) != []


def test_real_processes_agree_though_one_is_killed(tmp_path: Path) -> None:
    outcome = asyncio.run(live(peers=free_peers(), times=SHORT, trace=str(tmp_path / "spools")))
    assert problems(outcome) == []
    assert set(outcome.reports) == set(STATIONS) - {KILLED}
    assert any(report.met for report in outcome.reports.values())
    assert all(f"{report.station}:" in account(outcome) for report in outcome.reports.values())
    collect([tmp_path / "spools"], tmp_path)
    result = verify(read(tmp_path / "trace").table)
    assert [violation.sentence for violation in result.violations] == []


def test_a_station_that_cannot_start_ends_the_run(capfd: pytest.CaptureFixture[str]) -> None:
    peers = {name: address for name, address in free_peers().items() if name != "control"}
    with pytest.raises(Exception, match="has ended with status 1"):
        asyncio.run(live(peers=peers, parameters={"hold": "0s"}))
    assert "hold" in capfd.readouterr().err


def test_one_command_runs_it(good: Outcome, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(process_control, "simulate", lambda: good)
    assert process_control.main(["--simulated"]) == 0
    assert "all stations have the same log" in capsys.readouterr().out
