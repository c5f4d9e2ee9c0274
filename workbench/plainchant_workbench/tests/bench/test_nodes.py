"""The benchmark of nodes: what it compares, and that it measures. How fast anything is depends on the machine and is no test."""

from __future__ import annotations

import json
from typing import Any

import pytest

from plainchant.cli import main
from plainchant.live.memory.server import MailboxServer, mailboxes
from plainchant_workbench.live import nodes
from plainchant_workbench.live.nodes import FLAT, HIERARCHY, NODE, Found, compare, measure, row
from plainchant_workbench.live.processes import BenchError
from plainchant_workbench.live.raw import RawUdp
from plainchant_workbench.live.session import Flood


def found(rate: float, **delays: int) -> Found:
    """Delays in µs, by way: ``n1_n2`` is from n1 to n2."""
    return Found(Flood(rate, 2.0, ()), {(way[:2], way[3:]): (1_000 * delay,) for way, delay in delays.items()})


def test_delays_are_told_apart_by_the_nodes_of_sender_and_receiver() -> None:
    one = found(1_000.0, n1_n1=100, n1_n2=300, n2_n1=500, n2_n2=200)
    assert (one.inside, one.across) == (150.0, 400.0)
    assert one.median(("n2", "n1")) == 500.0
    alone = found(1_000.0, n1_n1=100)
    assert (alone.inside, alone.across) == (100.0, None)
    line = row(HIERARCHY, [one, None], "the second round failed")
    assert (line["rounds"], line["error"], line["messages_per_s"]) == (1, "the second round failed", 1_000)
    assert line["from_second_us_p50"] == {"inside": 200.0, "across": 500.0}
    assert row(NODE, [], "it failed")["messages_per_s"] is None


def test_ratios_are_of_one_round_and_the_median_of_them_counts() -> None:
    ours = [found(500.0, n1_n1=100, n1_n2=300), None, found(900.0, n1_n1=100, n1_n2=100), found(300.0, n1_n1=100, n1_n2=200)]
    flat = [found(1_000.0, n1_n1=50, n1_n2=100), found(1.0), found(1_000.0, n1_n1=200, n1_n2=100), found(1_000.0, n1_n1=100)]
    ratio = compare(HIERARCHY, FLAT, {HIERARCHY: ours, FLAT: flat})
    assert ratio is not None
    assert ratio["rounds"] == 3
    assert ratio["messages_per_s"] == {"median": 0.5, "least": 0.3, "largest": 0.9}
    assert ratio["inside"] == {"median": 1.0, "least": 0.5, "largest": 2.0}
    assert ratio["across"] == {"median": 2.0, "least": 1.0, "largest": 3.0}
    assert compare(HIERARCHY, FLAT, {HIERARCHY: [None], FLAT: flat[:1]}) is None


def test_nodes_are_measured_and_nothing_is_left_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[MailboxServer] = []

    def make(namespace: str) -> MailboxServer:
        made.append(MailboxServer(namespace))
        return made[-1]

    monkeypatch.setattr(nodes, "MailboxServer", make)
    monkeypatch.setattr(nodes, "EACH", 2)
    one = measure(HIERARCHY, size=32, warm=0.1, seconds=0.2, messages=5)
    assert isinstance(one.flood.messages_per_s, float)
    ways = [("n1", "n1"), ("n1", "n2"), ("n2", "n1"), ("n2", "n2")]
    assert {way: len(delays) for way, delays in one.delays.items()} == dict.fromkeys(ways, 5 * nodes.EACH)
    assert min(delay for delays in one.delays.values() for delay in delays) > 0
    assert [server.names() for server in made] == [[], []]
    assert not {server.namespace for server in made} & {each.register.namespace for each in mailboxes()}


def test_the_command_shows_what_was_measured_and_tells_failures(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked: list[dict[str, Any]] = []

    def measured(arrangement: nodes.Arrangement, **options: Any) -> Found:
        asked.append(options)
        if arrangement is nodes.FLAT_NODE:
            raise BenchError("it hangs")
        return found(2_000.0 if arrangement is FLAT else 500.0, n1_n1=100, n1_n2=300, n2_n1=500, n2_n2=200)

    monkeypatch.setattr(nodes, "measure", measured)
    monkeypatch.setattr(nodes, "measure_raw", lambda *size, **options: RawUdp(32, 1_400, 20.0, 1e5))
    assert main(["bench", "nodes", "--rounds", "2", "--seconds", "0.5", "--json"]) == 1
    printed = capsys.readouterr()
    result = json.loads(printed.out)
    assert "it hangs" in printed.err
    assert [line["error"] for line in result["rows"]] == [None, None, None, "it hangs"]
    assert [(ratio["name"], ratio["messages_per_s"]["median"]) for ratio in result["ratios"]] == [("dedos, two nodes", 0.25)]
    assert len(asked) == 2 * len(nodes.ARRANGEMENTS)
    assert {options["seconds"] for options in asked} == {0.5}
    assert main(["bench", "nodes", "--rounds", "1"]) == 1
    text = capsys.readouterr().out
    assert "dedos, two nodes" in text
    assert "0.25 (0.25 to 0.25)" in text
    assert "inside 100, across 300" in text
