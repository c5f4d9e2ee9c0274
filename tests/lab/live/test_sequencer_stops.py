"""The sequencer protocol live: a member that is stopped for ten seconds, and a crash at a long round trip.

No assertion depends on how fast this machine is: ``progress`` is judged with the bound that the protocol states, and a
fail-over by the votes that it took.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from plainchant.cli.live import LiveResult, execute
from plainchant.core.model import MS, SECOND, Duration
from plainchant.core.names import place_of
from plainchant.scenario.model import Delay, Fault, Network, RandomFaults, Scenario, Workload
from plainchant.trace import read

MEMBERS = ("p1", "p2", "p3", "p4")


def run(scenario: Scenario, directory: Path) -> tuple[LiveResult, list[dict[str, Any]]]:
    given = frozenset(scenario.parameters)
    result = execute(scenario, directory, verify_it=True, options={"given": given, "drain_at_most": 60 * SECOND})
    assert result.verification is not None
    assert [violation.sentence for violation in result.verification.violations] == []
    assert result.summary.unexpected == {}
    return result, read(directory / "trace").table.to_pylist()


@pytest.mark.parametrize("stopped", ["p1", "p3"], ids=["the-sequencer", "a-member"])
def test_a_process_stopped_for_ten_seconds_is_told_and_comes_back(stopped: str, tmp_path: Path) -> None:
    scenario = Scenario(
        protocol="sequencer",
        name="stopped",
        members=MEMBERS,
        groups={"g": MEMBERS},
        duration=Duration(17 * SECOND),
        drain=Duration(60 * SECOND),
        workload=(Workload(rate=20.0, size=64),),
        fault=(Fault(kind="pause", at=Duration(2 * SECOND), process=stopped, length=Duration(10 * SECOND)),),
        random=RandomFaults(restart_halted=1.0, restart_after=Duration(100 * MS)),
    )
    result, rows = run(scenario, tmp_path)
    assert result.verification is not None
    assert result.verification.properties["progress"].cases > 0
    others = [name for name in MEMBERS if name != stopped]
    assert all(result.summary.processes[name].state == "alive" for name in others)
    end = result.summary.processes[stopped]
    assert end.state == "halted"
    assert "was excluded" in end.reason
    continued = next(row["time"] for row in rows if row["kind"] == "fault" and row["process"] == stopped) + 10 * SECOND
    during = {row["process"] for row in rows if row["kind"] == "deliver" and row["sent"] is not None and row["time"] < continued}
    assert during >= set(others)
    back = [row for row in rows if row["kind"] == "deliver" and row["process"] != stopped and place_of(row["process"]) == stopped]
    assert {place_of(row["sender"]) for row in back} >= set(others)


def test_a_crash_at_a_round_trip_of_400_ms_takes_one_election(tmp_path: Path) -> None:
    scenario = Scenario(
        protocol="sequencer",
        name="far-apart",
        members=MEMBERS,
        groups={"g": MEMBERS},
        duration=Duration(12 * SECOND),
        drain=Duration(60 * SECOND),
        network=Network(delay=Delay("uniform", Duration(190 * MS), Duration(210 * MS))),
        workload=(Workload(rate=5.0, size=64),),
        fault=(Fault(kind="crash", at=Duration(3 * SECOND), process="p1"),),
    )
    result, rows = run(scenario, tmp_path)
    assert all(result.summary.processes[name].state == "alive" for name in MEMBERS[1:])
    votes = [row for row in rows if row["kind"] == "elect" and json.loads(row["detail"]).get("stage") == "vote"]
    assert 1 <= len(votes) <= 2  # a second one if a process waited for its processor in the wrong moment; there were dozens


def test_the_other_of_two_goes_on_where_partitions_are_none(tmp_path: Path) -> None:
    pair = ("p1", "p2")
    scenario = Scenario(
        protocol="sequencer",
        name="pair",
        members=pair,
        groups={"g": pair},
        parameters={"partitions": "none"},
        duration=Duration(6 * SECOND),
        drain=Duration(60 * SECOND),
        workload=(Workload(rate=10.0, size=64),),
        fault=(Fault(kind="crash", at=Duration(2 * SECOND), process="p1"),),
    )
    result, rows = run(scenario, tmp_path)
    assert result.summary.processes["p2"].state == "alive"
    alone = [row["time"] for row in rows if row["kind"] == "view" and row["process"] == "p2" and row["members"] == ["p2"]]
    assert len(alone) == 1
    assert any(row["kind"] == "deliver" and row["process"] == "p2" and row["time"] > alone[0] for row in rows)
