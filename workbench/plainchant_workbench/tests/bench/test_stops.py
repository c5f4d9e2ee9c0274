"""The benchmark of stopped members: what it reads from a trace. How fast anything is depends on the machine and is no test."""

from __future__ import annotations

import json
from typing import Any

import pytest

from plainchant.cli import main
from plainchant.cli.live import LiveResult
from plainchant.core.model import SECOND
from plainchant_workbench.live import stops
from plainchant_workbench.live.stops import CASES, Case, measured, scenario_of

CASE = Case("sequencer", "a member", ("p1", "p2", "p3"), "p3", {})


def event(kind: str, process: str, seconds: float, **columns: Any) -> dict[str, Any]:
    base = {"sender": None, "sent": None, "view": None, "members": None, "detail": None}
    return {**base, "kind": kind, "process": process, "time": round(seconds * SECOND), **columns}


def delivery(process: str, sender: str, seconds: float) -> dict[str, Any]:
    return event("deliver", process, seconds, sender=sender, sent=round(seconds * SECOND) - 1)


STOP = event("fault", "p3", 3.0, detail=json.dumps({"fault": "pause", "process": "p3", "length": 10 * SECOND}))
LAST = event("accept", "p1", 20.0)


class Summary:
    def __init__(self) -> None:
        self.parameters: dict[str, Any] = {}
        self.unexpected: dict[str, str] = {}
        self.processes: dict[str, Any] = {}


class Result:
    def __init__(self) -> None:
        self.summary = Summary()
        self.verification = None


def of(*events: dict[str, Any]) -> stops.Stop:
    result: Any = Result()
    found: LiveResult = result
    return measured(CASE, found, [STOP, *events, LAST])


def test_the_longest_time_without_a_delivery_is_taken_at_the_worst_of_the_others() -> None:
    steady = [delivery("p1", "p2", 3.0 + second) for second in range(1, 17)]
    found = of(*steady, delivery("p2", "p1", 5.0), delivery("p2", "p1", 9.5), delivery("p2", "p1", 19.0))
    assert found.standstill == 9.5  # 9.5 to 19.0 at p2; p1 never waited longer than a second


def test_messages_of_the_stopped_member_are_no_progress_of_the_others() -> None:
    found = of(delivery("p1", "p3", 4.0), delivery("p1", "p2", 19.0), delivery("p2", "p1", 19.0))
    assert found.standstill == 16.0


def test_a_stopped_member_was_told_what_it_recorded_first() -> None:
    ended = event("crash", "p3", 13.5, detail=json.dumps({"reason": "silence", "text": "the others excluded it"}))
    assert of(ended).told == "halted: the others excluded it"
    assert of(event("view", "p3", 13.1, view=4, members=["p3"])).told == "view 4 of 1"
    assert of().told == "nothing: it stayed a member"


def test_a_place_is_back_when_it_delivers_what_all_the_others_sent_since() -> None:
    old = event("deliver", "p3", 13.2, sender="p1", sent=4 * SECOND)
    assert of(old, delivery("p3", "p2", 13.3)).back is None
    assert of(delivery("p3#1", "p2", 13.5), delivery("p3#1", "p1", 15.0)).back == 2.0


def test_every_protocol_has_a_case_and_its_scenario_is_valid() -> None:
    assert {case.protocol for case in CASES} == {"sequencer", "newtop", "rtcast", "mailbox", "dedos"}
    for case in CASES:
        scenario = scenario_of(case, seconds=10, rate=50)
        assert case.stopped in scenario.members
        assert scenario.duration > 13 * SECOND


def test_the_command_refuses_what_it_does_not_know(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "stops", "--protocol", "paxos"]) == 2
    assert "there is no measurement of 'paxos'" in capsys.readouterr().err
