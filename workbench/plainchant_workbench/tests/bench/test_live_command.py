"""``plainchant bench live``: that it measures what it says. How fast anything is depends on the machine and is no test."""

from __future__ import annotations

import json
from typing import Any

import pytest

from plainchant.cli import main
from plainchant_workbench.live import sealing as sealing_bench
from plainchant_workbench.live.measure import compare_encrypted, wanted_of_encryption
from plainchant_workbench.live.plan import MEASURED, QUEUE, Case, Idle, Plan, make_encrypted_plan
from plainchant_workbench.live.session import Flood
from plainchant_workbench.live.us import Round

ONE = Plan((Case(),), (), (), 0.1, 0.3, 0.1, idle=(Idle(),), idle_seconds=0.2)
"""One case, and one nearly idle group, as short as it goes."""
COLUMNS = {"protocol", "members", "size", "senders", "packet", "encrypted", "traced"}
FIGURES = {"messages_per_s", "rtt_us_p50", "rtt_ratio_to_raw_udp"}


@pytest.fixture
def plan(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """Replaces every plan by the shortest one; what was asked for is in the list."""
    asked: list[dict[str, Any]] = []

    def make_plan(level: str, **options: Any) -> Plan:
        asked.append({"level": level, **options})
        return ONE

    monkeypatch.setattr("plainchant_workbench.live.plan.make_plan", make_plan)
    return asked


def test_it_prints_rows_peers_machine_and_targets(plan: list[dict[str, Any]], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "live", "--quick", "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert set(result) == {
        "rows",
        "idle",
        "timed",
        "local",
        "peers",
        "machine",
        "newtop_to_sequencer",
        "mailbox_to",
        "wanted",
        "encrypted_to_plain",
        "sealing",
    }
    (row,) = result["rows"]
    assert set(row) >= COLUMNS | FIGURES
    assert {name: row[name] for name in COLUMNS} == {
        "protocol": "sequencer",
        "members": 3,
        "size": 32,
        "senders": "all",
        "packet": 65_507,
        "encrypted": False,
        "traced": False,
    }
    assert row["error"] is None
    assert isinstance(row["messages_per_s"], int)
    assert row["rtt_us_p50"] > 0
    assert row["rtt_ratio_to_raw_udp"] > 0
    (idle,) = result["idle"]
    assert idle["error"] is None
    assert idle["everywhere_us_p50"] >= idle["own_us_p50"] > 0
    assert idle["simulated_round_trips"] == 1.0
    assert result["newtop_to_sequencer"] == []  # newtop's rate was not measured
    raw, *others = result["peers"]
    assert raw["protocol"] == "raw UDP"
    assert raw["rtt_us_p50"] > 0
    assert raw["datagrams_per_s"] > 0
    assert all(set(peer) >= COLUMNS | FIGURES for peer in result["peers"])
    assert all(peer["messages_per_s"] or peer["why"] for peer in others)
    measured = [target for target in result["wanted"] if target["measured"] is not None]
    assert measured
    assert all(isinstance(target["reached"], bool) for target in measured)
    assert all(target["reached"] is None for target in result["wanted"] if target["measured"] is None)
    assert plan == [{"level": "quick", "rounds": 3, "seconds": 1.0, "stall_seconds": 0.0, "protocols": MEASURED}]


def test_with_a_key_is_measured_beside_without(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def make_plan(**options: Any) -> Plan:
        made = make_encrypted_plan(**options)
        assert [case.encrypted for case in made.cases] == [False, True] * 3
        return Plan(made.cases[:2], (), (), 0.1, 0.2, 0.1)

    monkeypatch.setattr("plainchant_workbench.live.plan.make_encrypted_plan", make_plan)
    monkeypatch.setattr(sealing_bench, "MESSAGES", {(32, 65_507): 3000})
    assert main(["bench", "live", "--encrypted", "--protocol", "sequencer", "--rounds", "1", "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert [row["encrypted"] for row in result["rows"]] == [False, True]
    assert all(row["error"] is None for row in result["rows"])
    (sealing,) = result["sealing"]
    assert 0 < sealing["least"] == sealing["median"] == sealing["largest"]
    assert sealing["plain_us"] > 0
    assert main(["bench", "live", "--encrypted", "--quick"]) == 2


def test_rates_with_a_key_are_compared_round_by_round() -> None:
    def flooded(rate: float, trip: float) -> Round:
        return Round(Flood(rate, None, ()), {"p50": trip}, None, {}, {})

    plain, sealed = Case(), Case(encrypted=True)
    rounds = {plain: [flooded(100, 10), flooded(200, 20)], sealed: [flooded(80, 20), flooded(90, 30)]}
    (ratio,) = compare_encrypted(rounds)
    assert (ratio["least"], ratio["largest"], ratio["median"], ratio["round_trip"]) == (0.45, 0.8, 0.625, 1.75)
    (target,) = wanted_of_encryption([ratio])
    assert target["reached"] is True
    assert wanted_of_encryption([{**ratio, "median": 0.4}])[0]["reached"] is False
    assert compare_encrypted({plain: rounds[plain]}) == []


def test_a_failed_case_is_an_error_and_not_a_figure(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    asked: list[dict[str, Any]] = []

    def make_plan(level: str, **options: Any) -> Plan:
        asked.append({"level": level, **options})
        return Plan((Case(protocol="no-such-protocol"),), (), (), 0.1, 0.2, 0.1)

    monkeypatch.setattr("plainchant_workbench.live.plan.make_plan", make_plan)
    assert main(["bench", "live", "--no-peers", "--stall", "--seconds", "0.2", "--protocol", "newtop", "--json"]) == 1
    streams = capsys.readouterr()
    (row,) = json.loads(streams.out)["rows"]
    assert "no-such-protocol" in row["error"]
    assert row["messages_per_s"] is None
    assert "1 of 1 cases failed" in streams.err
    assert asked == [{"level": "default", "rounds": 3, "seconds": 0.2, "stall_seconds": 30.0, "protocols": ("newtop",)}]


def test_a_protocol_that_is_not_there_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "live", "--protocol", "newtp"]) == 2
    assert "there is no protocol 'newtp' to measure; there are: sequencer, newtop, rtcast, mailbox" in capsys.readouterr().err


def test_quick_and_full_exclude_each_other(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "live", "--quick", "--full"]) == 2
    assert "exclude each other" in capsys.readouterr().err


TIMED = {
    "protocol": "rtcast",
    "members": 3,
    "size": 256,
    "flooded": True,
    "delay_max_ms": None,
    "rounds": 1,
    "halted": None,
    "error": None,
    "deadline_ms": 3_780.0,
    "deliveries": 1_200,
    "missed": 3,
    "miss_ratio": 0.0025,
    "rejected": 0,
    **{f"{what}_ms_{which}": 12.0 for what in ("delivery", "rotation") for which in ("p50", "p99", "max")},
    "rotation_ms_bound": 1_260.0,
    "turns": 99,
    "late_packets": 7,
    "broken": {"P3": 7},
    "beside_per_s": 31_000,
}


def test_deadlines_and_rotations_have_a_table(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    lost = {"delay_max_ms": 25, "flooded": False, "rounds": 0, "halted": "Halted: it has not heard itself"}
    result = {
        "rows": [],
        "idle": [],
        "peers": [],
        "wanted": [],
        "newtop_to_sequencer": [],
        "local": [],
        "mailbox_to": [],
        "timed": [TIMED, {**TIMED, **lost}, {**TIMED, "delay_max_ms": 24, "halted": "Halted: too late"}],
        "machine": {"cores": 2, "pins": {}, "load_average_before": 0.1, "sequencer": "member 0", "measured": "member 1"},
    }
    monkeypatch.setattr("plainchant_workbench.live.measure.run", lambda *plan, **options: result)
    assert main(["bench", "live", "--quick", "--protocol", "rtcast"]) == 0
    shown = capsys.readouterr().out
    for word in (
        "3 (0.25%)",
        "1,260",
        "P3: 7",
        "31,000",
        "with 25 ms, after 0 rounds: Halted: it has not heard itself",
        "with 24 ms, after 1 rounds: Halted: too late",
    ):
        assert word in shown


LOCAL = {
    "how": "mailbox",
    "members": 3,
    "size": 65_536,
    "senders": "one",
    "rounds": 1,
    "error": None,
    "messages_per_s": 4_321,
    "megabytes_per_s": 283.2,
    "cpu_us_per_message": 210.5,
    "delay_us_p50": 456.7,
    "delay_us_p99": 1_234.5,
}


def test_common_memory_has_a_table_beside_what_else_there_is(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    failed = {name: None for name in LOCAL if name.endswith(("_s", "_p50", "_p99", "_message"))}
    result = {
        "rows": [],
        "idle": [],
        "peers": [],
        "wanted": [],
        "newtop_to_sequencer": [],
        "timed": [],
        "local": [LOCAL, {**LOCAL, "how": QUEUE, "messages_per_s": 999}, {**LOCAL, **failed, "error": "it hangs"}],
        "mailbox_to": [
            {"to": QUEUE, "size": 65_536, "senders": "one", "rounds": 1, "messages_per_s": 4.33, "delay_us_p50": 0.89}
        ],
        "machine": {"cores": 2, "pins": {}, "load_average_before": 0.1, "sequencer": "member 0", "measured": "member 1"},
    }
    monkeypatch.setattr("plainchant_workbench.live.measure.run", lambda *plan, **options: result)
    assert main(["bench", "live", "--quick", "--protocol", "mailbox"]) == 1
    streams = capsys.readouterr()
    for word in ("4,321", "283", "457", "1,234", "999", "4.33", "0.89"):
        assert word in streams.out
    assert "1 of 3 cases failed, the first with: it hangs" in streams.err
