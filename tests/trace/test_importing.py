"""Logs of any system as traces: what lines mean, how names become numbers, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from plainchant.lab.properties import verify
from plainchant.trace import TraceBuffer, validate
from plainchant.trace.importing import Imported, import_logs
from plainchant.trace.importing_mapping import ImportProblem, load_mapping

PLAIN = r"""
[[line]]
match = '^(?P<process>\S+) (?P<kind>send|deliver) (?P<group>\S+) (?P<sender>\S+) (?P<id>\S+)$'
[[line]]
match = '^(?P<process>\S+) (?P<kind>view) (?P<group>\S+) (?P<view>\S+) (?P<members>.+)$'
[[line]]
match = '^(?P<process>\S+) (?P<kind>join|leave) (?P<group>\S+)$'
[[line]]
match = '^(?P<process>\S+) (?P<kind>start|crash|end)$'
"""


class Bench:
    """Imports logs that are given as text."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def run(self, log: str | dict[str, str], mapping: str = PLAIN) -> tuple[pa.Table, Imported]:
        (self.directory / "map.toml").write_text(mapping)
        logs = log if isinstance(log, dict) else {"the.log": log}
        for name, text in logs.items():
            (self.directory / name).write_text(text)
        trace = TraceBuffer()
        imported = import_logs([self.directory / name for name in logs], load_mapping(self.directory / "map.toml"), trace)
        table = trace.table()
        assert validate(table) == []
        return table, imported

    def rows(self, log: str | dict[str, str], mapping: str = PLAIN, **wanted: Any) -> list[dict[str, Any]]:
        found = self.run(log, mapping)[0].to_pylist()
        return [row for row in found if all(row[name] == value for name, value in wanted.items())]

    def refused(self, log: str | dict[str, str], mapping: str = PLAIN) -> str:
        with pytest.raises(ImportProblem) as problem:
            self.run(log, mapping)
        return str(problem.value)


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


# --- messages ---------------------------------------------------------------------------------------------------------


def test_a_history_begins_with_a_start_row_and_follows_the_lines(bench: Bench) -> None:
    rows = bench.rows("p1 send g p1 41\np2 deliver g p1 41\np1 deliver g p1 41\n", process="p1")
    assert [(row["index"], row["kind"], row["seq"]) for row in rows] == [(0, "start", None), (1, "send", 1), (2, "deliver", 1)]
    assert rows[0]["run"] == "the"
    assert rows[1]["detail"] == '{"id":"41"}'


def test_any_ids_become_dense_numbers_in_the_order_of_sends(bench: Bench) -> None:
    log = "q deliver g p zulu\np send g p zulu\np send g p 900\np send h p zulu\nq deliver g p 900\n"
    sends = bench.rows(log, kind="send")
    assert [(row["group"], row["seq"]) for row in sends] == [("g", 1), ("g", 2), ("h", 1)]
    assert [row["seq"] for row in bench.rows(log, kind="deliver")] == [1, 2]


def test_what_nobody_sent_is_numbered_after_it_and_warned_about(bench: Bench) -> None:
    log = "q deliver g p x\nq deliver g p y\np send g p a\nq deliver g p a\np end\n"
    table, imported = bench.run(log)
    delivered = [row["seq"] for row in table.to_pylist() if row["kind"] == "deliver"]
    assert delivered == [2, 3, 1]
    assert len(imported.warnings) == 2
    assert "line 1: message x of p in g has no send; it becomes number 2" in imported.warnings[0]
    assert verify(table, ["integrity"]).verdict == "violated"


def test_a_delivery_without_a_sender_is_of_whoever_sent_that_id(bench: Bench) -> None:
    mapping = (
        PLAIN
        + """
[[line]]
match = '^(?P<process>\\S+) applied (?P<id>\\S+)$'
kind = "deliver"
set = { group = "g" }
"""
    )
    log = "q applied 7\np send g p 7\nq send g q 8\np applied 8\np applied 9\n"
    rows = bench.rows(log, mapping, kind="deliver")
    assert [(row["process"], row["sender"], row["seq"]) for row in rows] == [("p", "q", 1), ("p", "unknown", 1), ("q", "p", 1)]


def test_deliveries_that_a_system_gets_wrong_are_kept(bench: Bench) -> None:
    log = "p send g p 1\np deliver g p 1\np deliver g p 1\np end\n"
    assert verify(bench.run(log)[0], ["integrity"]).verdict == "violated"


def test_a_payload_becomes_a_digest_and_a_size(bench: Bench) -> None:
    mapping = r"""
[[line]]
match = '^(?P<process>\S+) (?P<kind>send|deliver) (?P<sender>\S+) (?P<id>\d+) (?P<payload>.*)$'
set = { group = "g" }
"""
    table, _ = bench.run("p send p 1 hello\nq deliver p 1 hello\nr deliver p 1 jello\n", mapping)
    rows = [row for row in table.to_pylist() if row["kind"] != "start"]
    assert [row["size"] for row in rows] == [5, 5, 5]
    assert rows[0]["digest"] == rows[1]["digest"] != rows[2]["digest"]


# --- views ------------------------------------------------------------------------------------------------------------


def test_views_with_numbers_keep_them_and_others_are_counted(bench: Bench) -> None:
    numbered = bench.rows("p view g 7 p,q\np send g p 1\nq view g 7 p q\n", kind="view")
    assert [(row["view"], row["members"]) for row in numbered] == [(7, ["p", "q"]), (7, ["p", "q"])]
    named = bench.rows("p view g p|0 p\np view g p|1 p,q\nq view g p|1 p,q\n", kind="view")
    assert [(row["process"], row["view"]) for row in named] == [("p", 1), ("p", 2), ("q", 2)]


def test_views_without_names_are_told_apart_by_members_and_repetition(bench: Bench) -> None:
    mapping = '[[line]]\nmatch = \'^(?P<process>\\S+) sees (?P<members>.+)$\'\nkind = "view"\nset = { group = "g" }\n'
    rows = bench.rows("p sees p q\nq sees q p\np sees p\np sees p q\nq sees p q\n", mapping, kind="view")
    assert [(row["process"], row["view"]) for row in rows] == [("p", 1), ("p", 2), ("p", 3), ("q", 1), ("q", 3)]


def test_rows_carry_the_view_in_force(bench: Bench) -> None:
    rows = bench.rows("p join g\np view g 1 p\np send g p a\np leave g\n", process="p")
    assert [row["view"] for row in rows] == [None, None, 1, 1, 1]


# --- time, files, names -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("setting", "text", "expected"),
    [
        ("", "1700000000.123456789", 1_700_000_000_123_456_789),
        ('time = { unit = "ms" }', "12.5", 12_500_000),
        ('time = { unit = "ns" }', "7", 7),
        ('time = { format = "iso" }', "1970-01-01T00:00:01.5", 1_500_000_000),
        ('time = { format = "iso" }', "1970-01-01T01:00:01+01:00", 1_000_000_000),
        ('time = { format = "%d/%m/%Y %H:%M:%S,%f" }', "02/01/1970 00:00:00,001", 86_400_001_000_000),
    ],
)
def test_times_are_exact_nanoseconds(bench: Bench, setting: str, text: str, expected: int) -> None:
    mapping = setting + "\n[[line]]\nmatch = '^(?P<time>.+) (?P<process>\\w+) ends$'\nkind = \"end\"\n"
    assert [row["time"] for row in bench.rows(f"{text} p ends\n", mapping)] == [expected, expected]


def test_a_log_out_of_order_can_be_ordered_by_time(bench: Bench) -> None:
    mapping = """
time = { unit = "ms", order = "time" }
[[line]]
match = '^(?P<time>\\d+) (?P<process>\\w+) (?P<kind>send|deliver) (?P<sender>\\w+) (?P<id>\\w+)$'
set = { group = "g" }
"""
    rows = bench.rows("3 p deliver p b\n2 p send p b\n1 p send p a\n", mapping, process="p")
    assert [(row["kind"], row["seq"]) for row in rows] == [("start", None), ("send", 1), ("send", 2), ("deliver", 2)]


def test_the_process_may_stand_in_the_name_of_the_file(bench: Bench) -> None:
    mapping = """
files = { name = '^(?P<run>\\w+)-(?P<process>\\w+)\\.log$' }
names = { n1 = "ann", n2 = "ben" }
[[line]]
match = '^(?P<kind>send|got) (?P<sender>\\w+) (?P<id>\\d+)$'
set = { group = "g" }
[kinds]
got = "deliver"
"""
    table, imported = bench.run({"r1-n1.log": "send n1 5\n", "r1-n2.log": "got n1 5\n"}, mapping)
    assert (imported.processes, imported.runs) == (["ann", "ben"], ["r1"])
    rows = table.to_pylist()
    assert [(row["process"], row["kind"], row["sender"]) for row in rows if row["seq"]] == [
        ("ann", "send", "ann"),
        ("ben", "deliver", "ann"),
    ]


# --- what ends a history ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("setting", "last"),
    [
        ("", ("send", None)),
        ('end = { otherwise = "end" }', ("end", None)),
        ('end = { otherwise = "end", drained = true }', ("end", '{"drained":true}')),
        ('end = { otherwise = "crash" }', ("crash", '{"by":"collector"}')),
    ],
)
def test_the_mapping_says_what_ends_a_history(bench: Bench, setting: str, last: tuple[str, str | None]) -> None:
    row = bench.rows("p send g p 1\n", setting + PLAIN)[-1]
    assert (row["kind"], row["detail"] if row["kind"] != "send" else None) == last


def test_who_crashed_or_left_its_last_group_has_ended(bench: Bench) -> None:
    rows = bench.rows("p join g\np leave g\nq join g\nq crash\n", 'end = { otherwise = "end" }' + PLAIN)
    assert [row["kind"] for row in rows] == ["start", "join", "leave", "start", "join", "crash"]


def test_promises_stand_in_the_start_rows(bench: Bench) -> None:
    table, _ = bench.run("p send g p 1\n", 'protocol = "raft"\npromises = ["fifo"]' + PLAIN)
    assert list(verify(table).properties) == ["fifo"]


# --- what is refused --------------------------------------------------------------------------------------------------


def test_lines_that_match_nothing_are_counted_and_shown(bench: Bench) -> None:
    log = "p send g p 1\n" + "".join(f"chatter {number}\n" for number in range(7))
    problem = bench.refused(log)
    assert problem.startswith("7 of 8 lines match no [[line]] and no ignore of the mapping: the.log:2 'chatter 0'; ")
    assert "and 2 more; add a pattern for them, or ignore them" in problem
    _, imported = bench.run(log, "ignore = ['^chatter']" + PLAIN)
    assert (imported.lines, imported.ignored) == (8, 7)


@pytest.mark.parametrize(
    ("log", "problem"),
    [
        ("p send g p 1\np send g p 1\n", "line 2: p sends message 1 of group g a second time"),
        ("p send g q 1\n", "line 1: p sends a message of q"),
        ("p crash\np send g p 1\n", "line 2: p does something after its crash"),
        ("p send g p 1\np start\n", "line 2: p starts a second time"),
        ("p view g 1 p,p\n", "line 1: a view in which a member stands twice"),
        ("", "no line of"),
    ],
)
def test_what_would_be_malformed_is_refused_with_its_line(bench: Bench, log: str, problem: str) -> None:
    assert problem in bench.refused(log)


@pytest.mark.parametrize(
    ("mapping", "problem"),
    [
        ("line = [", "is not TOML"),
        ("", "line"),
        ("line = []", "there is no [[line]]"),
        ("colour = 1" + PLAIN, "colour"),
        ("[[line]]\nmatch = '('\nkind = \"end\"", "line 1 is not a regular expression"),
        ("[[line]]\nmatch = '(?P<process>x)'", "line 1 says nothing about its kind"),
        ("[[line]]\nmatch = 'x'\nkind = \"end\"", "line 1 does not tell the process"),
        ("[[line]]\nmatch = '(?P<process>x)(?P<kind>y)'\nkind = \"end\"", "both in the pattern and as a constant"),
        ('time = { order = "time" }\n[[line]]\nmatch = \'(?P<process>x)\'\nkind = "end"', "needs a group (?P<time>...)"),
        ('time = { unit = "h" }' + PLAIN, "unit"),
    ],
)
def test_a_wrong_mapping_is_refused_before_the_log_is_read(bench: Bench, mapping: str, problem: str) -> None:
    assert problem in bench.refused("p send g p 1\n", mapping)


@pytest.mark.parametrize("text", ["soon", "1.x", "1."])
def test_a_time_that_is_none_is_refused_with_its_line(bench: Bench, text: str) -> None:
    mapping = "[[line]]\nmatch = '^(?P<time>\\S+) (?P<process>\\w+)$'\nkind = \"end\"\n"
    assert f"line 1: {text!r} is no time" in bench.refused(f"{text} p\n", mapping)


def test_a_log_that_is_not_there_is_a_sentence(bench: Bench, tmp_path: Path) -> None:
    (tmp_path / "map.toml").write_text(PLAIN)
    with pytest.raises(ImportProblem, match=r"cannot read .*gone\.log"):
        import_logs([tmp_path / "gone.log"], load_mapping(tmp_path / "map.toml"), TraceBuffer())
    with pytest.raises(ImportProblem, match="cannot read the mapping"):
        load_mapping(tmp_path / "gone.toml")
