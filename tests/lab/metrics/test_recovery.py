"""What a failure did to those who survived it: every figure by hand, then from runs, and on the report's page."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from plainchant.cli.live import execute
from plainchant.core.model import MS, SECOND
from plainchant.lab.metrics import measure
from plainchant.lab.metrics import recovery as measured
from plainchant.lab.metrics.recovery import AFTER, LOAD_ENDED, NOT_READ, NOT_SOON, TOO_LITTLE, Recovery, recoveries
from plainchant.lab.report import page, source, subject_at
from plainchant.lab.report import recovery as section
from plainchant.scenario import find, load
from plainchant.scenario.load import parse
from plainchant.sim import Simulation
from plainchant.trace import TraceBuffer, read
from plainchant.trace.schema import SCHEMA
from tests.lab.report.test_report import read_page

ALL = ("a", "b", "c", "d")
GAP = 5 * MS
"""A survivor sends so often: 600 messages a second are delivered."""
JOURNEY = 1 * MS


class Story:
    """A run, written by what happens when; everything is counted from the clock's start."""

    def __init__(self, start: int = 0) -> None:
        self.start = start
        self._rows: list[dict[str, Any]] = []
        self._numbers: dict[str, int] = {}

    def row(self, at: int, process: str, kind: str, **columns: Any) -> None:
        detail = columns.pop("detail", None)
        columns.setdefault("group", None if kind in ("crash", "end", "fault") else "g")
        row = {"run": "r0", "process": process, "time": self.start + at, "kind": kind, **columns}
        self._rows.append({**row, "detail": json.dumps(detail) if detail is not None else None})

    def view(self, at: int, number: int, members: Sequence[str], *, by: Iterable[str] | None = None) -> None:
        for process in members if by is None else by:
            self.row(at, process, "view", view=number, members=list(members))

    def message(self, at: int, sender: str, delivered: int, to: Iterable[str], *, accepted: int | None = None) -> None:
        self._numbers[sender] = number = self._numbers.get(sender, 0) + 1
        if accepted is not None:
            self.row(accepted, sender, "accept", sender=sender)
        self.row(at, sender, "send", sender=sender, seq=number)
        for process in to:
            self.row(delivered, process, "deliver", sender=sender, seq=number, sent=self.start + at)

    def load(
        self,
        begin: int,
        end: int,
        *,
        senders: Iterable[str] = "abc",
        to: Callable[[int], Iterable[str]] = lambda at: "abc",
        delivered: Callable[[int], int] = lambda at: at + JOURNEY,
    ) -> None:
        """Everybody sends every 5 ms; ``delivered`` says when what was sent at a moment is."""
        for at in range(begin, end, GAP):
            for sender in senders:
                self.message(at, sender, delivered(at), to(at))

    def table(self) -> pa.Table:
        """The trace, with the rows of a process in the order of time."""
        rows = sorted(self._rows, key=lambda row: (row["process"], row["time"]))
        places: dict[str, int] = {}
        for row in rows:
            row["index"] = places.get(row["process"], 0)
            places[row["process"]] = row["index"] + 1
        return pa.Table.from_pylist(rows, schema=SCHEMA)

    def recoveries(self) -> list[Recovery]:
        return recoveries([self.table()])


def stalled(begin: int, end: int) -> Callable[[int], int]:
    """What would be delivered from ``begin`` to ``end`` is delivered at the end."""
    return lambda at: end if begin <= at + JOURNEY < end else at + JOURNEY


def crash_of_d(*, suspect: int = 1_200 * MS, views: Sequence[int] = (1_250 * MS, 1_280 * MS, 1_300 * MS)) -> Story:
    """d crashes after a second; a suspects it, and the others go to a view without it."""
    story = Story()
    story.view(0, 1, ALL)
    story.row(1_000 * MS, "d", "fault", detail={"fault": "crash", "process": "d"})
    story.row(1_000 * MS, "d", "crash", detail={"by": "collector"})
    story.row(suspect, "a", "suspect", detail={"process": "d"})
    for process, at in zip("abc", views, strict=True):
        story.view(at, 2, "abc", by=process)
    return story


# --- one failure, by hand ---------------------------------------------------------------------------------------------


def test_every_figure_of_one_failure() -> None:
    story = crash_of_d()
    story.load(0, 2 * SECOND, delivered=stalled(1_000 * MS, 1_300 * MS))
    (found,) = story.recoveries()
    assert (found.group, found.process, found.how, found.at) == ("g", "d", "crash", 1_000 * MS)
    assert found.survivors == ("a", "b", "c")
    assert found.noticed == 200 * MS
    assert found.viewed == 300 * MS
    assert found.before == pytest.approx(600, rel=0.01)
    assert found.window == 20 * MS  # 10 ms hold fewer than 10 messages
    assert found.lowest_before == pytest.approx(1, abs=0.01)
    assert found.deepest == 0
    assert found.back == 300 * MS
    assert found.standstill == 300 * MS
    # A message of 1 ms is late above 2 ms: those that would have come by 1,297 ms, every 5 ms, from three senders.
    assert found.late == 3 * 60
    assert found.slowest == 300 * MS
    assert found.remark == ""


def test_a_rate_is_back_only_when_it_has_been_for_most_of_a_window() -> None:
    story = crash_of_d()
    story.load(0, 1_000 * MS)
    story.load(1_300 * MS, 2 * SECOND)  # who waits for answers sends nothing meanwhile: nothing is late
    (found,) = story.recoveries()
    assert found.window == 20 * MS
    assert found.back is not None
    assert 300 * MS + JOURNEY <= found.back <= 320 * MS + JOURNEY
    assert found.standstill == pytest.approx(301 * MS, abs=JOURNEY)
    assert (found.late, found.slowest) == (0, None)


def test_deliveries_that_never_fall_are_no_dip() -> None:
    story = crash_of_d()
    story.load(0, 2 * SECOND)
    (found,) = story.recoveries()
    assert found.back == 0
    assert found.deepest == pytest.approx(1, abs=0.01)
    assert (found.late, found.standstill) == (0, GAP)


def test_what_stops_when_all_is_over_is_not_the_deepest_dip() -> None:
    story = crash_of_d()
    story.load(0, 2 * SECOND, delivered=stalled(1_600 * MS, 1_900 * MS))
    (found,) = story.recoveries()
    assert found.back == 0
    assert found.deepest == pytest.approx(1, abs=0.01)


def test_half_the_rate_is_a_dip_to_a_half() -> None:
    story = crash_of_d()
    story.load(0, 1_000 * MS)
    story.load(1_000 * MS, 1_300 * MS, to=lambda at: "abc" if at % (2 * GAP) else "")
    story.load(1_300 * MS, 2 * SECOND)
    (found,) = story.recoveries()
    assert found.deepest == pytest.approx(0.5, abs=0.01)
    assert found.back is not None
    assert 300 * MS <= found.back <= 320 * MS


def test_what_the_dead_one_does_not_send_any_more_is_no_dip() -> None:
    story = crash_of_d()
    story.load(0, 1_000 * MS, senders="dddabc")
    story.load(1_000 * MS, 2 * SECOND)
    (found,) = story.recoveries()
    assert found.before == pytest.approx(600, rel=0.01)
    assert found.back == 0


def test_a_dip_that_begins_after_the_new_view_is_not_the_failures() -> None:
    story = crash_of_d()
    both = [stalled(1_000 * MS, 1_300 * MS), stalled(1_600 * MS, 1_900 * MS)]
    story.load(0, 2 * SECOND, delivered=lambda at: both[at >= 1_500 * MS](at))
    (found,) = story.recoveries()
    assert found.back == 300 * MS
    assert found.late == 3 * 60


def test_a_second_dip_before_the_new_view_is_the_failures() -> None:
    story = crash_of_d(views=(1_500 * MS, 1_600 * MS, 1_900 * MS))
    both = [stalled(1_000 * MS, 1_300 * MS), stalled(1_600 * MS, 1_800 * MS)]
    story.load(0, 2 * SECOND, delivered=lambda at: both[at >= 1_500 * MS](at))
    (found,) = story.recoveries()
    assert found.viewed == 900 * MS
    assert found.back == 800 * MS
    assert found.standstill == 300 * MS


def test_without_a_new_view_only_the_first_dip_counts() -> None:
    story = Story()
    story.view(0, 1, ALL)
    story.row(1_000 * MS, "d", "crash")
    both = [stalled(1_000 * MS, 1_300 * MS), stalled(1_600 * MS, 1_800 * MS)]
    story.load(0, 2 * SECOND, delivered=lambda at: both[at >= 1_500 * MS](at))
    (found,) = story.recoveries()
    assert (found.noticed, found.viewed, found.back) == (None, None, 300 * MS)


def test_a_view_that_one_survivor_does_not_install_is_not_everybodys() -> None:
    story = Story()
    story.view(0, 1, ALL)
    story.row(1_000 * MS, "d", "crash")
    story.view(1_200 * MS, 2, "abc", by="ab")
    story.load(0, 2 * SECOND)
    (found,) = story.recoveries()
    assert (found.noticed, found.viewed) == (200 * MS, None)


def test_a_load_that_comes_in_bursts_is_measured_over_longer_windows() -> None:
    random = Random(7)
    story = crash_of_d()
    at, freed = 0, 1_300 * MS
    while at < 3 * SECOND:
        arrives = at + JOURNEY
        story.message(at, random.choice("abc"), freed if 1_000 * MS <= arrives < freed else arrives, "abc")
        at += round(random.expovariate(1_000) * SECOND)
    (found,) = story.recoveries()
    assert found.window is not None
    assert found.window > 20 * MS
    assert found.lowest_before is not None
    assert found.lowest_before >= 0.9 or found.window == 200 * MS  # the longest that fits four times into a second
    assert found.deepest == 0
    assert found.back == 300 * MS


def test_a_rate_that_falls_no_lower_than_before_is_no_dip() -> None:
    """Every 300 ms the load pauses for 100: no window is long enough to be even."""
    story = crash_of_d()
    for begin in range(0, 3 * SECOND, 300 * MS):
        story.load(begin, begin + 200 * MS)
    (found,) = story.recoveries()
    assert found.lowest_before is not None
    assert found.lowest_before < 0.9
    assert found.deepest == pytest.approx(found.lowest_before, abs=0.03)
    assert found.back == 0


def test_late_counts_from_when_the_application_handed_a_message_over() -> None:
    """The protocol takes no messages for 300 ms: each is quick once it is taken, and late all the same."""
    story = crash_of_d()
    for at in range(0, 2 * SECOND, GAP):
        taken = 1_300 * MS if 1_000 * MS <= at < 1_300 * MS else at
        for sender in "abc":
            story.message(taken, sender, taken + JOURNEY, "abc", accepted=at)
    (found,) = story.recoveries()
    assert found.late == 3 * 60
    assert found.slowest == 301 * MS


def test_without_send_times_nothing_is_called_late() -> None:
    story = crash_of_d()
    story.load(0, 2 * SECOND, delivered=stalled(1_000 * MS, 1_300 * MS))
    table = story.table()
    place = table.column_names.index("sent")
    (found,) = recoveries([table.set_column(place, "sent", pa.nulls(table.num_rows, pa.int64()))])
    assert (found.late, found.slowest, found.back) == (None, None, 300 * MS)


def test_a_load_that_ends_before_deliveries_are_back() -> None:
    story = crash_of_d()
    story.load(0, 1_200 * MS, delivered=stalled(1_000 * MS, 1_300 * MS))
    (found,) = story.recoveries()
    assert (found.back, found.deepest, found.remark) == (None, 0, LOAD_ENDED)
    assert found.standstill == 300 * MS  # it is followed to its end
    assert found.late == 3 * 40
    story = crash_of_d()
    story.load(0, 1_000 * MS)
    (found,) = story.recoveries()
    assert (found.back, found.deepest, found.remark) == (None, None, LOAD_ENDED)
    assert found.before == pytest.approx(600, rel=0.01)


def test_a_group_that_does_not_come_back_is_not_waited_for_for_ever() -> None:
    story = crash_of_d()
    story.load(0, 1_000 * MS)
    story.message(AFTER + 2 * SECOND, "a", AFTER + 3 * SECOND, "abc")
    (found,) = story.recoveries()
    assert (found.back, found.deepest, found.remark) == (None, 0, NOT_SOON)


def test_a_group_that_did_little_before_is_not_compared() -> None:
    for begin in (990 * MS, 1_100 * MS):
        story = crash_of_d()
        story.load(begin, 2 * SECOND)
        (found,) = story.recoveries()
        assert (found.before, found.deepest, found.back, found.remark) == (None, None, None, TOO_LITTLE)
        assert (found.noticed, found.viewed) == (200 * MS, 300 * MS)
    silent = crash_of_d().recoveries()
    assert [found.remark for found in silent] == [TOO_LITTLE]


# --- what is a failure ------------------------------------------------------------------------------------------------


def test_who_is_halted_by_its_protocol_or_was_no_member_any_more_did_not_fail() -> None:
    story = Story()
    story.view(0, 1, ALL)
    story.view(500 * MS, 2, "abc")
    story.row(600 * MS, "d", "crash")
    story.row(700 * MS, "c", "crash", detail={"by": "protocol", "reason": "minority"})
    story.load(0, 2 * SECOND, senders="ab", to=lambda at: "ab")
    assert story.recoveries() == []


def test_nobody_survives_a_crash_of_all() -> None:
    story = crash_of_d()
    story.load(0, 1_900 * MS)
    for process in "abc":
        story.row(2 * SECOND, process, "crash")
    assert story.recoveries() == []


def test_a_pause_that_nobody_acts_upon_lasts_as_long_as_it_says() -> None:
    story = Story()
    story.view(0, 1, ALL)
    story.row(1_000 * MS, "d", "fault", detail={"fault": "pause", "process": "d", "length": 100 * MS})
    story.row(1_150 * MS, "a", "suspect", detail={"process": "d"})  # it is back by then
    both = [stalled(1_000 * MS, 1_100 * MS), stalled(1_600 * MS, 1_800 * MS)]
    story.load(0, 2 * SECOND, delivered=lambda at: both[at >= 1_500 * MS](at))
    (found,) = story.recoveries()
    assert (found.how, found.noticed, found.viewed, found.back) == ("pause", None, None, 100 * MS)
    story.view(1_900 * MS, 2, "abc")  # nor is that because of it
    (found,) = story.recoveries()
    assert (found.noticed, found.viewed, found.back) == (None, None, 100 * MS)


def test_groups_are_measured_one_by_one() -> None:
    story = crash_of_d()
    story.load(0, 2 * SECOND, delivered=stalled(1_000 * MS, 1_300 * MS))
    one = story.table()
    place = one.column_names.index("group")
    other = one.set_column(place, "group", pa.array(["h" if each else None for each in one.column("group").to_pylist()]))
    rows = [row for row in other.to_pylist() if row["kind"] not in ("crash", "fault", "suspect")]
    for row in rows:
        if row["kind"] == "deliver":
            row["time"] = row["sent"] + JOURNEY  # in h nothing stops
    first, second = recoveries([one, pa.Table.from_pylist(rows, schema=SCHEMA)])
    assert (first.group, first.back, first.noticed) == ("g", 300 * MS, 200 * MS)
    assert (second.group, second.back, second.noticed) == ("h", 0, 250 * MS)  # the suspicion is in g


def test_a_trace_without_views_has_the_receivers_that_joined() -> None:
    story = Story()
    for process in ALL:
        story.row(0, process, "join")
    story.row(1_000 * MS, "d", "crash")
    story.load(0, 2 * SECOND, delivered=stalled(1_000 * MS, 1_300 * MS))
    (found,) = story.recoveries()
    assert (found.survivors, found.viewed, found.back) == (("a", "b", "c"), None, 300 * MS)


# --- several failures -------------------------------------------------------------------------------------------------


def test_each_failure_is_compared_with_the_time_since_the_one_before() -> None:
    """After the first crash the load is half of what it was; the second brings nothing down."""
    story = Story()
    story.view(0, 1, (*ALL, "e"))
    story.row(1_000 * MS, "d", "crash")
    story.view(1_200 * MS, 2, ("a", "b", "c", "e"))
    story.row(2_000 * MS, "e", "crash")
    story.view(2_200 * MS, 3, "abc")
    story.load(0, 1_200 * MS, senders="abcabc", delivered=stalled(1_000 * MS, 1_200 * MS))
    story.load(1_200 * MS, 3 * SECOND)
    first, second = story.recoveries()
    assert [first.process, second.process] == ["d", "e"]
    assert first.survivors == second.survivors == ("a", "b", "c")
    assert first.before == pytest.approx(1_200, rel=0.01)
    assert second.before == pytest.approx(600, rel=0.05)
    assert (second.back, second.viewed) == (0, 200 * MS)


def test_failures_that_overlap_are_compared_with_the_time_before_the_first() -> None:
    story = Story()
    story.view(0, 1, (*ALL, "e"))
    story.row(1_000 * MS, "d", "crash")
    story.row(1_100 * MS, "e", "crash")
    story.view(1_500 * MS, 2, "abc")
    story.load(0, 3 * SECOND, delivered=stalled(1_000 * MS, 1_500 * MS))
    first, second = story.recoveries()
    assert first.before == second.before == pytest.approx(600, rel=0.01)
    assert (first.back, second.back) == (500 * MS, 400 * MS)
    assert (first.deepest, second.deepest) == (0, 0)


# --- rows as they come ------------------------------------------------------------------------------------------------


def test_rows_may_come_in_any_order_and_in_pieces() -> None:
    story = crash_of_d()
    for at in range(0, 2 * SECOND, GAP):
        for sender in "abc":
            story.message(at, sender, stalled(1_000 * MS, 1_300 * MS)(at), "abc", accepted=at)
    table = story.table()
    expected = recoveries([table])
    shuffled = table.take(np.random.default_rng(3).permutation(table.num_rows))
    pieces = [shuffled.slice(at, 700) for at in range(0, shuffled.num_rows, 700)]
    assert recoveries(pieces) == expected
    assert expected[0].late == 3 * 60


def test_clocks_may_tell_the_time_of_day() -> None:
    began = 1_794_821_916_959_281_242
    story, later = crash_of_d(), Story(began)
    later._rows = [{**row, "time": began + row["time"]} for row in story._rows]
    for each in (story, later):
        each.load(0, 2 * SECOND, delivered=stalled(1_000 * MS, 1_300 * MS))
    (here,), (there,) = story.recoveries(), later.recoveries()
    assert there.at == began + here.at
    for name in ("noticed", "viewed", "window", "deepest", "back", "standstill", "late", "slowest"):
        assert getattr(there, name) == getattr(here, name), name


def test_without_deliveries_views_and_suspicions_are_told() -> None:
    story = crash_of_d()
    story.load(0, 2 * SECOND)
    table = story.table()
    few = table.filter(pa.compute.is_in(table.column("kind"), pa.array(measured.KINDS_BUT_DELIVERIES)))
    (found,) = recoveries([few], deliveries_left_out=True)
    assert (found.noticed, found.viewed, found.back, found.remark) == (200 * MS, 300 * MS, None, NOT_READ)


# --- runs and the page ------------------------------------------------------------------------------------------------


def simulated(name: str, *overrides: str) -> pa.Table:
    buffer = TraceBuffer()
    Simulation(load(find(name), list(overrides)), trace=buffer).run()
    return buffer.table()


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("killed")
    pq.write_table(simulated("killed-under-load", "protocol=sequencer"), directory / "trace.parquet")
    return directory


def test_a_sequencer_is_missed_and_another_member_is_not(killed: Path) -> None:
    table = read(killed).table
    member, sequencer = recoveries([table])
    assert (member.process, sequencer.process) == ("p5", "p1")
    assert member.survivors == sequencer.survivors == ("p2", "p3", "p4")
    for found in (member, sequencer):
        assert found.before == pytest.approx(600, rel=0.01)
        assert found.noticed is not None
        assert found.viewed is not None
        assert 0 < found.noticed <= found.viewed
    assert member.noticed is not None
    assert sequencer.noticed is not None
    assert (member.back, member.late) == (0, 0)
    assert sequencer.deepest == 0
    assert sequencer.back is not None
    assert sequencer.standstill is not None
    assert sequencer.noticed < sequencer.back <= sequencer.standstill + 20 * MS
    assert sequencer.late
    assert sequencer.slowest is not None
    metrics = measure(table).to_pylist()[0]
    assert metrics["failures"] == 2
    assert metrics["detection_max_ns"] == max(member.noticed, sequencer.noticed)


def test_where_everybody_has_a_part_in_the_order_everybody_is_missed() -> None:
    found = recoveries([simulated("killed-under-load")])
    assert [each.process for each in found] == ["p5", "p1"]
    for each in found:
        assert each.before == pytest.approx(600, rel=0.01)
        assert each.deepest == 0
        assert each.noticed is not None
        assert 250 * MS <= each.noticed <= 400 * MS  # its patience is 300 ms
        assert each.viewed is not None
        assert each.back is not None
        assert each.noticed < each.back < each.viewed + 20 * MS < each.noticed + 100 * MS
        assert each.late is not None
        assert 120 <= each.late <= 300  # 600 a second, for as long


def test_the_page_has_a_row_and_a_picture_for_each_failure(killed: Path) -> None:
    text = page(subject_at(str(killed), most=1))
    reading = read_page(text)
    assert "Throughput around failures" in reading.text
    assert "p5 crashes" in reading.text
    assert "never below" in reading.text
    labels = [attributes.get("aria-label") or "" for tag, attributes in reading.tags if tag == "svg"]
    assert [label for label in labels if label.startswith("Messages a second while p5 fails: the lowest rate is 100%")]
    (told,) = [label for label in labels if label.startswith("Messages a second while p1 fails: the lowest rate is 0%")]
    _, sequencer = recoveries([read(killed).table])
    assert sequencer.back is not None
    assert f"back at 90 % after {sequencer.back / MS:.0f} ms" in told
    assert f"{sequencer.late:,}, slowest" in reading.text


def test_a_run_that_is_not_read_whole_has_the_same_section(killed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def told() -> str:
        text = page(subject_at(str(killed), most=1))
        return text[text.index("<h2>Throughput") : text.index("<h2>Standstills")]

    expected = told()
    monkeypatch.setattr(source, "WHOLE_RUN_MAX", 1_000)
    assert told() == expected
    monkeypatch.setattr(section, "DELIVERIES_MAX", 1_000)
    without = told()
    assert NOT_READ in without
    assert "<svg" not in without


def test_a_run_without_failures_has_no_such_section(tmp_path: Path) -> None:
    pq.write_table(simulated("first-steps"), tmp_path / "trace.parquet")
    text = page(subject_at(str(tmp_path), most=1))
    read_page(text)
    assert "Throughput around failures" not in text


@pytest.mark.parametrize("name", ["sequencer-crash", "chaos", "slow-member", "partition"])
def test_every_kind_of_trouble_makes_a_well_formed_page(name: str, tmp_path: Path) -> None:
    table = simulated(name)
    pq.write_table(table, tmp_path / "trace.parquet")
    read_page(page(subject_at(str(tmp_path), most=1)))
    failures = measure(table).to_pylist()[0]["failures"]
    assert len(recoveries([table])) <= failures
    assert failures or not recoveries([table])


def test_many_failures_and_odd_names_are_told_within_bounds(tmp_path: Path) -> None:
    names = [f"<b>&{number}" for number in range(40)]
    story = Story()
    story.view(0, 1, ["a", "b", "c", *names])
    for number, name in enumerate(names):
        story.row(1_000 * MS + number * MS, name, "crash")
    story.view(1_500 * MS, 2, "abc")
    story.load(0, 2 * SECOND, delivered=stalled(1_000 * MS, 1_500 * MS))
    pq.write_table(story.table(), tmp_path / "trace.parquet")
    reading = read_page(page(subject_at(str(tmp_path), most=1)))
    assert "Showing 30 of 40" in reading.text
    assert "Showing 6 of 40 failures in pictures" in reading.text
    assert "<b>&7 crashes" in reading.text


LIVE = """
protocol = "newtop"
members = 3
duration = "1500ms"

[parameters]
suspect_after = "300ms"

[[workload]]
senders = ["p2", "p3"]
rate = 200

[[fault]]
kind = "crash"
process = "p1"
at = "700ms"
"""


def had_in_view(table: pa.Table, process: str, other: str) -> bool:
    """Whether a process had another one in its view when that one crashed."""
    rows = table.to_pylist()
    (crashed,) = [row["time"] for row in rows if row["kind"] == "crash" and row["process"] == other]
    mine = [row for row in rows if row["kind"] == "view" and row["process"] == process and row["time"] <= crashed]
    return other in max(mine, key=lambda row: row["index"])["members"]


def test_a_process_that_is_killed_for_real_is_in_the_report(tmp_path: Path) -> None:
    result = execute(parse(LIVE, "live.toml"), tmp_path, options={"drain_at_most": 60 * SECOND})
    assert result.passes
    table = read(tmp_path).table
    survivors = tuple(name for name in ("p2", "p3") if had_in_view(table, name, "p1"))
    if not survivors:
        pytest.skip("the machine was so busy that p1 was taken for dead before it was killed")
    (found,) = recoveries([table])
    assert (found.process, found.how, found.survivors) == ("p1", "crash", survivors)
    assert found.noticed is not None
    assert found.viewed is not None
    assert 0 < found.noticed <= found.viewed
    assert found.remark or found.before
    reading = read_page(page(subject_at(str(tmp_path), most=1)))
    assert "p1 crashes" in reading.text
