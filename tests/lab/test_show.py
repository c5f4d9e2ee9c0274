"""A trace as a listing for people."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from plainchant.core.model import UsageError
from plainchant.lab.show import lines, parse_message, summarise
from plainchant.trace import SCHEMA


def table(*events: dict[str, Any]) -> pa.Table:
    """Events of run r0; a process's index counts its events here."""
    counts: dict[tuple[str, str], int] = {}
    rows = []
    for event in events:
        row = {"run": "r0", "process": "p1", "kind": "state", "time": 0, **event}
        place = (row["run"], row["process"])
        row["index"] = counts[place] = counts.get(place, -1) + 1
        rows.append(row)
    return pa.Table.from_pylist(rows, SCHEMA)


def message(kind: str, process: str, seq: int, time: int, group: str = "g") -> dict[str, Any]:
    return {"process": process, "kind": kind, "group": group, "sender": "p1", "seq": seq, "time": time, "view": 1}


TWO_MESSAGES = table(
    message("send", "p1", 1, 1_000_000),
    message("deliver", "p1", 1, 1_000_000),
    message("send", "p1", 2, 2_000_000),
    message("deliver", "p2", 1, 3_500_000),
    message("deliver", "p2", 2, 4_000_000),
    message("send", "p1", 1, 5_000_000, group="h"),
)


def test_a_line_says_when_where_what_and_about_which_message() -> None:
    delivery = message("deliver", "p2", 7, 12_345_000) | {"size": 32, "rank": 9, "packets": 1, "deadline": 20_000_000}
    assert list(lines(table(delivery))) == [
        "      12.345 ms  p2  deliver  g view 1  g/p1/7  32 B, rank 9, packets 1, deadline 20.000 ms"
    ]


def test_a_view_shows_its_members_and_a_reason_its_sentence() -> None:
    shown = list(
        lines(
            table(
                {"kind": "view", "group": "g", "view": 2, "members": ["p1", "p2"]},
                {"kind": "suspect", "group": "g", "sender": "p2", "detail": '{"reason":"x","text":"p2 is silent"}'},
                {"kind": "end"},
            )
        )
    )
    assert shown == [
        "       0.000 ms  p1  view     g view 2  members p1 p2",
        "       0.000 ms  p1  suspect  g         of p2  p2 is silent",
        "       0.000 ms  p1  end",
    ]


def test_columns_line_up() -> None:
    shown = list(lines(table({"process": "p1"}, {"process": "longer#1", "kind": "retransmit"}, {"process": "p1"})))
    assert {text.index(kind) for text, kind in zip(shown, ("retransmit", "state", "state"), strict=True)} == {27}


def test_the_order_is_that_of_the_global_clock_where_there_is_one() -> None:
    shown = list(
        lines(
            table(
                {"process": "p1", "kind": "send", "time": 900, "true_time": 5},
                {"process": "p2", "kind": "deliver", "time": 1, "true_time": 6},
            )
        )
    )
    assert [text.split()[3] for text in shown] == ["send", "deliver"]


def test_a_clock_that_steps_back_does_not_reorder_a_history() -> None:
    shown = list(
        lines(
            table(
                {"process": "p1", "kind": "a", "time": 100},
                {"process": "p1", "kind": "b", "time": 10},
                {"process": "p2", "kind": "c", "time": 50},
                {"process": "p2", "kind": "d", "time": 200},
            )
        )
    )
    assert [text.split()[3] for text in shown] == ["c", "a", "b", "d"]


@pytest.mark.parametrize(
    ("filters", "shown"),
    [
        ({}, 6),
        ({"process": "p2"}, 2),
        ({"kind": "deliver"}, 3),
        ({"group": "h"}, 1),
        ({"message": "g/p1/1"}, 3),
        ({"message": "g/p1/1", "process": "p2"}, 1),
        ({"message": "g/p1/1", "kind": "send"}, 1),
        ({"message": "g/p1/1", "group": "h"}, 0),
        ({"message": "g/p1/1", "group": "g"}, 3),
        ({"run": "r0", "kind": "send", "group": "g"}, 2),
        ({"run": "r1"}, 0),
        ({"kind": "nothing"}, 0),
    ],
)
def test_filters_combine(filters: dict[str, Any], shown: int) -> None:
    assert len(list(lines(TWO_MESSAGES, **filters))) == shown


def test_several_runs_are_told_apart() -> None:
    both = table({"run": "r1"}, {"run": "r0"})
    assert [text for text in lines(both) if text.startswith("run")] == ["run r0", "run r1"]
    assert len(list(lines(both, run="r1"))) == 1


def test_an_empty_trace_has_no_lines() -> None:
    assert list(lines(SCHEMA.empty_table())) == []


def test_a_group_may_have_a_slash_in_its_name() -> None:
    assert parse_message("a/b/p1/3") == {"group": "a/b", "sender": "p1", "seq": 3}


@pytest.mark.parametrize("text", ["", "g/p1", "g/p1/x", "g/p1/-1", "7"])
def test_a_message_that_is_not_one_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(UsageError, match="g/p1/7"):
        list(lines(TWO_MESSAGES, message=text))


@pytest.mark.parametrize(
    ("detail", "summary"),
    [
        ('{"a":1,"b":{"c":true}}', 'a=1 b={"c":true}'),
        ('{"text":5}', "text=5"),
        ('{"a":{"b":1},"c":[2,3],"d":4,"e":{},"f":[],"g":null}', 'd=4 c=2,3 a={"b":1}'),
        ('{"parts":[["p1","p2"],["p3"]]}', "parts=p1,p2|p3"),
        ("[1,2]", "1,2"),
        ("no JSON\nat all", "no JSON at all"),
    ],
)
def test_details_of_any_shape_are_summarised(detail: str, summary: str) -> None:
    assert summarise(detail) == summary


def test_a_long_detail_is_cut() -> None:
    assert summarise('{"text":"' + "word " * 100 + '"}').endswith("...")
    assert len(summarise('{"text":"' + "word " * 100 + '"}')) == 120
