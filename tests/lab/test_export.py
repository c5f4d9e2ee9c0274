"""What other people's tools get to see: it parses, and its happened-before is the trace's."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from plainchant.lab.export import to_chrome, to_shiviz
from plainchant.trace import SCHEMA

Event = dict[str, Any]


def history(process: str, *events: Event, run: str = "r0") -> list[Event]:
    return [{"run": run, "process": process, "index": at, "time": at * 1000, **event} for at, event in enumerate(events)]


def table(*histories: list[Event]) -> pa.Table:
    return pa.Table.from_pylist([row for rows in histories for row in rows], SCHEMA)


def send(sender: str, seq: int) -> Event:
    return {"kind": "send", "group": "g", "sender": sender, "seq": seq}


def deliver(sender: str, seq: int) -> Event:
    return {"kind": "deliver", "group": "g", "sender": sender, "seq": seq}


CHAIN = table(
    history("a", send("a", 1), {"kind": "end"}),
    history("b", {"kind": "start"}, deliver("a", 1), send("b", 1)),
    history("c", deliver("b", 1), {"kind": "crash"}),
)
"""a's message reaches b, which sends one that reaches c."""


# --- ShiViz ---------------------------------------------------------------------------------------------------------

Clock = dict[str, int]


def parse_shiviz(text: str) -> dict[str, list[tuple[str, Clock, str]]]:
    """Reads a log as ShiViz does: by the two expressions in its first lines, run by run."""
    first, second, log = text.split("\n", 2)
    event, delimiter = (re.compile(line.replace("(?<", "(?P<"), re.MULTILINE) for line in (first, second))
    parts = delimiter.split(log)
    assert parts[0].strip() == ""
    return {
        run: [(found["host"], json.loads(found["clock"]), found["event"]) for found in event.finditer(body)]
        for run, body in zip(parts[1::2], parts[2::2], strict=True)
    }


def before(one: Clock, other: Clock) -> bool:
    return one != other and all(count <= other.get(name, 0) for name, count in one.items())


def test_shiviz_reads_every_event_and_its_clock() -> None:
    events = parse_shiviz(to_shiviz(CHAIN))["r0"]
    assert {(host, text): clock for host, clock, text in events} == {
        ("a", "send g/a/1"): {"a": 1},
        ("a", "end"): {"a": 2},
        ("b", "start"): {"b": 1},
        ("b", "deliver g/a/1"): {"a": 1, "b": 2},
        ("b", "send g/b/1"): {"a": 1, "b": 3},
        ("c", "deliver g/b/1"): {"a": 1, "b": 3, "c": 1},
        ("c", "crash"): {"a": 1, "b": 3, "c": 2},
    }


def test_each_host_counts_from_one_without_gaps_as_shiviz_demands() -> None:
    counts: dict[str, list[int]] = {}
    for host, clock, _ in parse_shiviz(to_shiviz(CHAIN))["r0"]:
        counts.setdefault(host, []).append(clock[host])
    assert counts == {"a": [1, 2], "b": [1, 2, 3], "c": [1, 2]}


def test_happened_before_is_that_of_send_and_deliver_and_nothing_else() -> None:
    clocks = {(host, text): clock for host, clock, text in parse_shiviz(to_shiviz(CHAIN))["r0"]}
    assert before(clocks["a", "send g/a/1"], clocks["c", "deliver g/b/1"])
    assert not before(clocks["b", "start"], clocks["a", "end"])
    assert not before(clocks["a", "end"], clocks["c", "crash"])
    assert not before(clocks["c", "crash"], clocks["a", "end"])


def test_clocks_of_processes_are_not_trusted() -> None:
    late_sender = history("z", send("z", 1))
    late_sender[0]["time"] = 10**12
    events = parse_shiviz(to_shiviz(table(history("a", deliver("z", 1)), late_sender)))["r0"]
    assert [text for _, _, text in events] == ["send g/z/1", "deliver g/z/1"]


def test_a_delivery_of_what_nobody_is_seen_to_send_has_no_edge() -> None:
    ((_, clock, _),) = parse_shiviz(to_shiviz(table(history("a", deliver("gone", 1)))))["r0"]
    assert clock == {"a": 1}


def test_a_circle_of_deliveries_is_still_shown() -> None:
    impossible = table(history("a", deliver("b", 1), send("a", 1)), history("b", deliver("a", 1), send("b", 1)))
    assert len(parse_shiviz(to_shiviz(impossible))["r0"]) == 4


def test_runs_are_separate_executions() -> None:
    both = table(history("a", send("a", 1)), history("b", deliver("a", 1), run="r1"))
    runs = parse_shiviz(to_shiviz(both))
    assert list(runs) == ["r0", "r1"]
    assert runs["r1"][0][1] == {"b": 1}


def test_names_and_details_never_break_the_log() -> None:
    odd = table(history("two words", {"kind": "fault", "detail": '{"text":"line\\nbreak {\\"a\\": 1}"}'}))
    assert parse_shiviz(to_shiviz(odd))["r0"] == [("two_words", {"two_words": 1}, 'fault line break {"a": 1}')]


# --- Chrome ---------------------------------------------------------------------------------------------------------


def chrome(source: pa.Table, *phases: str) -> Iterator[Event]:
    for event in json.loads(to_chrome(source))["traceEvents"]:
        if event["ph"] in phases:
            yield event


def test_runs_and_processes_have_their_names() -> None:
    both = table(history("a", {"kind": "end"}), history("b", {"kind": "end"}), history("a", {"kind": "end"}, run="r1"))
    names = {(e["pid"], e["tid"], e["name"]): e["args"] for e in chrome(both, "M") if e["name"] != "thread_sort_index"}
    assert names == {
        (1, 0, "process_name"): {"name": "run r0"},
        (1, 1, "thread_name"): {"name": "a"},
        (1, 2, "thread_name"): {"name": "b"},
        (2, 0, "process_name"): {"name": "run r1"},
        (2, 1, "thread_name"): {"name": "a"},
    }


def test_every_event_is_there_at_its_time_in_microseconds() -> None:
    shown = sorted((e["tid"], e["ts"], e["ph"], e["name"]) for e in chrome(CHAIN, "X", "i"))
    assert shown == [
        (1, 0.0, "X", "send g/a/1"),
        (1, 1.0, "i", "end"),
        (2, 0.0, "i", "start"),
        (2, 1.0, "X", "deliver g/a/1"),
        (2, 2.0, "X", "send g/b/1"),
        (3, 0.0, "X", "deliver g/b/1"),
        (3, 1.0, "i", "crash"),
    ]


def test_arrows_go_from_each_send_to_each_delivery_of_it() -> None:
    fan = table(
        history("a", send("a", 1), deliver("a", 1)),
        history("b", {"kind": "start"}, deliver("a", 1)),
        history("c", deliver("gone", 1)),
    )
    begins = {e["id"]: (e["tid"], e["ts"], e["name"]) for e in chrome(fan, "s")}
    ends = {e["id"]: (e["tid"], e["ts"], e["name"]) for e in chrome(fan, "f")}
    assert set(begins) == set(ends)
    assert sorted((begins[arrow], ends[arrow]) for arrow in begins) == [
        ((1, 0.0, "g/a/1"), (1, 1.0, "g/a/1")),
        ((1, 0.0, "g/a/1"), (2, 1.0, "g/a/1")),
    ]


def test_arrows_are_tied_to_slices() -> None:
    slices = {(e["pid"], e["tid"], e["ts"]) for e in chrome(CHAIN, "X")}
    assert {(e["pid"], e["tid"], e["ts"]) for e in chrome(CHAIN, "s", "f")} <= slices


def test_slices_of_a_process_do_not_overlap() -> None:
    close = history("a", send("a", 1), send("a", 2), send("a", 3))
    close[1]["time"], close[2]["time"] = 300, 5_000
    assert [(e["ts"], e["dur"]) for e in chrome(table(close), "X")] == [(0.0, 0.3), (0.3, 1.0), (5.0, 1.0)]


def test_blocks_and_faults_with_a_length_are_spans() -> None:
    rows = history(
        "a",
        {"kind": "block", "group": "g"},
        {"kind": "fault", "detail": '{"fault":"pause","length":50000}'},
        {"kind": "unblock", "group": "g"},
        {"kind": "block", "group": "h"},
        {"kind": "fault", "detail": '{"fault":"crash"}'},
        {"kind": "crash"},
    )
    spans: dict[str, list[tuple[str, float]]] = {}
    for event in chrome(table(rows), "b", "e"):
        spans.setdefault(event["id"], []).append((event["name"], event["ts"]))
    assert spans == {
        "a/0": [("block", 0.0), ("block", 2.0)],
        "a/1": [("pause", 1.0), ("pause", 51.0)],
        "a/3": [("block", 3.0), ("block", 5.0)],
    }


def test_what_a_row_says_can_be_clicked_on() -> None:
    (event,) = chrome(table(history("a", {"kind": "fault", "detail": '{"fault":"crash"}'})), "i")
    assert event["args"] == {"index": 0, "time": 0, "kind": "fault", "detail": {"fault": "crash"}}


def test_an_empty_trace_is_valid_for_both() -> None:
    assert json.loads(to_chrome(SCHEMA.empty_table()))["traceEvents"] == []
    assert parse_shiviz(to_shiviz(SCHEMA.empty_table())) == {}
