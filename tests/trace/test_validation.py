"""What is malformed, one test an item, and the look-alikes that are not."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from plainchant.trace import SCHEMA, Malformed, read, validate

Event = dict[str, Any]


def history(*events: Event, run: str = "r0", process: str = "p1") -> list[Event]:
    """Events with their places: index and time count from 0."""
    return [{"run": run, "process": process, "index": at, "time": at, **event} for at, event in enumerate(events)]


def event(kind: str, **values: Any) -> Event:
    return {"kind": kind, **values}


def send(seq: int | None, sender: str | None = "p1", group: str | None = "g", **values: Any) -> Event:
    return event("send", group=group, sender=sender, seq=seq, **values)


def view(number: int | None, *members: str | None, group: str | None = "g") -> Event:
    return event("view", group=group, view=number, members=list(members))


def start(detail: str | None) -> Event:
    return event("start", detail=detail)


def check(*histories: list[Event]) -> list[Malformed]:
    return validate(pa.Table.from_pylist([row for rows in histories for row in rows], SCHEMA))


def the_problem(*histories: list[Event]) -> tuple[str | None, int | None, str]:
    """The process, index and text of the one problem that there is."""
    (only,) = check(*histories)
    return only.process, only.index, only.problem


def whole_run(run: str = "r0") -> list[list[Event]]:
    """A correct run with a bit of everything in it."""
    first = history(
        start('{"version":1,"protocol":"x","parameters":{"a":[1]},"promises":["fifo"],"bounds":{"send":5}}'),
        event("join", group="g"),
        view(4, "p1", "p2"),
        send(1, view=4),
        event("deliver", group="g", sender="p1", seq=1, view=4),
        view(5, "p1"),
        send(2, view=5),
        event("deliver", group="g", sender="p1", seq=2, view=5),
        event("end", detail='{"drained":true}'),
        run=run,
    )
    second = history(
        start(None),
        view(4, "p2", "p1"),
        event("deliver", group="g", sender="p1", seq=1, view=4),
        event("crash", detail='{"by":"fault"}'),
        run=run,
        process="p2",
    )
    return [first, second]


def test_a_correct_run_is_not_malformed() -> None:
    assert check(*whole_run()) == []


def test_an_empty_table_is_not_malformed() -> None:
    assert check() == []


def test_rows_may_come_in_any_order_and_of_several_runs() -> None:
    rows = [row for run in ("r0", "r1") for part in whole_run(run) for row in part]
    random.Random(7).shuffle(rows)
    assert check(rows) == []


# --- index ----------------------------------------------------------------------------------------------------------


def test_a_gap_in_index() -> None:
    rows = history(event("state"), event("state"), event("state"), event("state"))
    del rows[1:3]
    assert the_problem(rows) == ("p1", 3, "a gap: index 1 to 2 is missing")


def test_a_history_that_does_not_begin_at_zero() -> None:
    rows = history(event("state"), event("state"))
    assert the_problem(rows[1:]) == ("p1", 1, "a gap: index 0 is missing")


def test_a_repeat_in_index() -> None:
    rows = history(event("state"), event("state"), event("state"))
    rows[2]["index"] = 1
    assert the_problem(rows) == ("p1", 1, "index 1 stands here twice")


def test_a_negative_index() -> None:
    rows = history(event("state"), event("state"))
    rows[0]["index"] = -1
    rows[1]["index"] = 0
    assert the_problem(rows) == ("p1", -1, "a negative index: histories count from 0")


def test_a_repeat_names_the_file_of_the_second_row(tmp_path: Path) -> None:
    rows = history(event("state"))
    for name in ("a", "b"):
        pq.write_table(pa.Table.from_pylist(rows, SCHEMA), tmp_path / f"{name}.parquet")
    (only,) = validate(*read(tmp_path))
    assert only == Malformed(str(tmp_path / "b.parquet"), "r0", "p1", 0, "index 0 stands here twice")


def test_times_need_not_rise() -> None:
    rows = history(event("state"), event("state"))
    rows[1]["time"] = -1_000
    assert check(rows) == []


# --- nulls ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("column", ["run", "process", "index", "time", "kind"])
def test_a_null_where_every_row_has_a_value(column: str) -> None:
    rows = history(event("state"), event("state"))
    rows[1][column] = None
    (only,) = check(rows)
    assert only.problem == f"column '{column}' is null"


# --- messages -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["send", "deliver"])
@pytest.mark.parametrize("column", ["group", "sender", "seq"])
def test_a_message_event_without_a_message(kind: str, column: str) -> None:
    message: Event = {"group": "g", "sender": "p1", "seq": 1}
    message[column] = None
    assert the_problem(history(event(kind, **message))) == ("p1", 0, f"'{kind}' without a message: {column} is null")


@pytest.mark.parametrize("kind", ["accept", "receive", "usend", "udeliver", "null", "retransmit", "of their own"])
def test_other_events_need_no_message(kind: str) -> None:
    assert check(history(event(kind))) == []


def test_a_send_by_somebody_else_than_its_sender() -> None:
    process, index, problem = the_problem(history(send(1, "p2")))
    assert (process, index) == ("p1", 0)
    assert problem == "a send of 'p2''s message 1, which stands at another process"


def test_a_new_incarnation_sends_in_its_own_name_and_counts_from_one() -> None:
    old = history(send(1), send(2), event("crash"))
    new = history(send(1, "p1#1"), process="p1#1")
    assert check(old, new) == []
    assert the_problem(old, history(send(3), process="p1#1"))[0] == "p1#1"


def test_a_message_sent_twice() -> None:
    rows = history(send(1), send(2), send(2), send(3))
    assert the_problem(rows) == ("p1", 2, "message 2 of group 'g' is sent twice")


def test_a_message_sent_twice_later() -> None:
    assert the_problem(history(send(1), send(2), send(1), send(3)))[1:] == (2, "message 1 of group 'g' is sent twice")


@pytest.mark.parametrize("numbers", [(2,), (0,), (1, 3), (1, 2, 4, 5)])
def test_numbers_that_are_not_dense(numbers: tuple[int, ...]) -> None:
    (only,) = check(history(*(send(number) for number in numbers)))
    assert "numbers are dense, from 1" in only.problem


def test_numbers_that_are_out_of_order() -> None:
    problems = check(history(send(1), send(3), send(2)))
    assert [(problem.index, problem.problem) for problem in problems] == [
        (1, "seq 3 of group 'g' where 2 was due: numbers are dense, from 1"),
        (2, "seq 2 of group 'g' where 4 was due: numbers are dense, from 1"),
    ]


def test_each_group_run_and_sender_counts_for_itself() -> None:
    first = history(send(1), send(1, group="h"), send(2), send(2, group="h"))
    second = history(send(1, "p2"), process="p2")
    other_run = history(send(1), run="r1")
    assert check(first, second, other_run) == []


def test_what_only_a_verifier_may_judge_is_not_malformed() -> None:
    never_sent = event("deliver", group="g", sender="p9", seq=40)
    twice = view(1, "p2")
    assert check(history(never_sent, never_sent, twice, twice)) == []


# --- views ----------------------------------------------------------------------------------------------------------


def test_a_row_in_a_view_that_is_not_the_last() -> None:
    rows = history(view(1, "p1"), view(2, "p1"), send(1, view=1))
    assert the_problem(rows) == ("p1", 2, "'send' in view 1 of group 'g', but the last one installed here is 2")


def test_a_row_in_a_view_before_there_is_one() -> None:
    rows = history(event("join", group="g", view=1), view(1, "p1"))
    assert the_problem(rows) == ("p1", 0, "'join' in view 1 of group 'g', but no view of it was installed here")


def test_kinds_of_their_own_are_in_a_view_like_all() -> None:
    assert the_problem(history(view(1, "p1"), event("of their own", group="g", view=2)))[1] == 1


def test_views_are_those_of_the_group_and_of_the_process() -> None:
    first = history(view(1, "p1"), view(7, "p1", group="h"), send(1, view=1), send(1, group="h", view=7))
    second = history(view(2, "p2"), send(1, "p2", view=2), process="p2")
    assert check(first, second) == []


def test_a_row_need_not_say_its_view_and_numbers_may_fall() -> None:
    assert check(history(view(3, "p1"), send(1), view(2, "p1"), send(2, view=2))) == []


def test_leaving_does_not_take_the_last_view_away() -> None:
    assert check(history(view(3, "p1"), event("leave", group="g", view=3), event("state", group="g", view=3))) == []


@pytest.mark.parametrize("members", [[], None])
def test_a_view_without_members(members: list[str] | None) -> None:
    assert the_problem(history(event("view", group="g", view=1, members=members)))[2] == "a view without members"


def test_a_view_with_repeated_members() -> None:
    rows = history(view(1, "p2", "p1", "p2"))
    assert the_problem(rows) == ("p1", 0, "a view with repeated members: p2")


def test_a_view_with_a_member_that_is_null() -> None:
    assert the_problem(history(view(1, "p1", None)))[2] == "a view with a member that is null"


@pytest.mark.parametrize("row", [view(None, "p1"), view(1, "p1", group=None)])
def test_a_view_of_nothing(row: Event) -> None:
    assert the_problem(history(row))[2] == "a view without a group or a number"


# --- ends -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("final", ["crash", "end"])
def test_rows_after_the_end_are_reported_once(final: str) -> None:
    rows = history(event(final), event("state"), event("end"))
    assert the_problem(rows) == ("p1", 1, f"a row after the history ended with '{final}'")


def test_a_history_may_have_no_end_and_go_on_after_it_left() -> None:
    assert check(history(event("leave", group="g"), event("join", group="g"))) == []


# --- start and detail -----------------------------------------------------------------------------------------------


def test_a_newer_version_is_all_that_is_said_about_its_run() -> None:
    odd = history(event("end"), event("end"), process="p0")
    newer = history(start('{"version":2,"promises":{"of":"another kind"}}'), send(5))
    (only,) = check(odd, newer)
    assert (only.process, only.index) == ("p1", 0)
    assert only.problem == "version 2 is newer than 1, the newest that this program reads; use a newer plainchant"


def test_a_newer_run_does_not_hide_problems_of_another() -> None:
    newer = history(start('{"version":2}'))
    old = history(event("end"), event("end"), run="r1")
    assert [malformed.run for malformed in check(newer, old)] == ["r0", "r1"]


@pytest.mark.parametrize(
    "detail",
    [
        "",
        "{",
        "[]",
        '{"version":"1"}',
        '{"promises":"fifo"}',
        '{"promises":[1]}',
        '{"bounds":{"send":"5ms"}}',
        '{"parameters":' + "[" * 100_000,
    ],
    ids=range(8),
)
def test_a_start_that_cannot_be_read(detail: str) -> None:
    assert the_problem(history(start(detail)))[2].startswith("the detail of 'start' cannot be read")


@pytest.mark.parametrize("detail", [None, "{}", '{"version":1,"of our own":[1,2]}', '{"promises":[],"bounds":{}}'])
def test_a_start_may_say_little_or_more(detail: str | None) -> None:
    assert check(history(start(detail))) == []


@pytest.mark.parametrize("detail", ["not JSON", "[1]", '{"a":1'])
def test_the_detail_of_a_known_kind_is_an_object(detail: str) -> None:
    assert "not a JSON object" in the_problem(history(event("fault", detail=detail)))[2]
    assert check(history(event("of their own", detail=detail))) == []


# --- how much is said -----------------------------------------------------------------------------------------------


def test_problems_come_in_the_order_of_their_places_and_not_without_end() -> None:
    rows = [row for process in ("p2", "p1") for row in history(*(send(1) for _ in range(200)), process=process)]
    table = pa.Table.from_pylist([row | {"sender": row["process"]} for row in rows], SCHEMA)
    found = validate(table, most=250)
    assert len(found) == 250
    places = [(malformed.process, malformed.index) for malformed in found]
    assert places == [("p1", at) for at in range(1, 200)] + [("p2", at) for at in range(1, 52)]
