"""``plainchant bench sim``: that it measures what it says. How fast anything is depends on the machine and is no test."""

from __future__ import annotations

import json

import pytest

from plainchant.cli import main
from plainchant_workbench.commands.bench_sim import BURST, scenario, simulate


def test_it_prints_a_row_for_3_10_and_50_members(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "sim", "--events", "10000", "--rounds", "1", "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert [row["members"] for row in result["rows"]] == [3, 10, 50]
    assert all(row["events_per_s"] > 0 and row["ratio_to_simpy"] > 0 for row in result["rows"])
    assert result["time_per_event_at_10x"] > 0
    assert result["memory_at_10x"] > 0


def test_a_run_has_about_the_events_that_were_asked_for() -> None:
    events, seconds = simulate(10, 20_000)
    assert 0.8 * 20_000 < events < 1.2 * 20_000
    assert seconds > 0


def test_each_message_travels_in_a_packet_of_its_own() -> None:
    what = scenario(10, 20_000)
    assert what.parameters["pack"] is False
    assert what.workload[0].burst == BURST
    assert what.network.loss == 0


def test_an_order_that_there_is_not_is_refused_before_anything_is_measured(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "groups", "--order", "fats"]) == 2
    assert capsys.readouterr().err == 'plainchant: there is no order "fats"; did you mean "fast"?\n'


def test_groups_come_to_rest_and_steady_traffic_needs_hardly_a_null_message(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "groups", "--members", "30", "--groups", "3", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)["rows"]
    assert [row["traffic"] for row in rows] == ["sparse", "sparse", "steady", "steady"]
    assert all(row["quiet"] and row["delivered"] == row["sent"] * row["size"] for row in rows)
    assert all(row["nulls_a_message"] < 1 for row in rows if row["traffic"] == "steady")
    assert all(row["nulls_a_message"] > 1 for row in rows if row["traffic"] == "sparse")
