"""The report: what it says, that it is one well-formed file that needs nothing else, and that it stays small."""

from __future__ import annotations

import dataclasses
import json
from contextlib import nullcontext
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from plainchant.core.model import TraceError
from plainchant.lab.errors import LabError
from plainchant.lab.metrics import measure
from plainchant.lab.properties import Outcome, Verification, Violation, verify
from plainchant.lab.report import SIZE_MAX, Subject, page, source, subject_at
from plainchant.lab.report.choose import prepare, scene_of_violation
from plainchant.lab.report.overview import in_bins, overview
from plainchant.lab.report.source import Rows
from plainchant.lab.report.timeline import left_out, timeline
from plainchant.lab.tables import OUTCOMES, RUNS, violation_rows
from plainchant.scenario import find, load
from plainchant.sim import Simulation
from plainchant.trace import MalformedTrace, TraceBuffer
from tests.trace.build import trace

from ..verify.test_deadlines import ring_run

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

VOID = {"meta", "br", "hr", "img", "input", "link"}


class Reading(HTMLParser):
    """A page as a browser would take it: complains about what does not nest, and collects what tests ask for."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.problems: list[str] = []
        self.ids: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(text)
        self.close()
        self.problems += [f"<{tag}> is never closed" for tag in self.open]

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attributes)))
        self.ids += [value or "" for name, value in attributes if name == "id"]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attributes)))

    def handle_endtag(self, tag: str) -> None:
        if not self.open or self.open.pop() != tag:
            self.problems.append(f"</{tag}> closes something else, at {self.getpos()}")

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] != "style":
            self.text += data


def read_page(text: str) -> Reading:
    """The page, after everything that holds for all of them was looked at."""
    reading = Reading(text)
    assert reading.problems == []
    assert len(reading.ids) == len(set(reading.ids))
    assert len(text.encode()) < SIZE_MAX
    assert "://" not in text, "a page that works without network names no address"
    names = {tag for tag, _ in reading.tags}
    assert not names & {"script", "link", "img", "iframe"}
    for tag, attributes in reading.tags:
        assert not any(name.startswith("on") for name in attributes)
        if tag == "svg" and attributes.get("role") == "img":
            assert attributes["aria-label"]
        if tag == "th":
            assert attributes["scope"] in ("col", "row")
    return reading


def written(table: pa.Table, directory: Path) -> str:
    directory.mkdir(exist_ok=True)
    pq.write_table(table, directory / "trace.parquet")
    return str(directory)


def run_directory(name: str, directory: Path) -> Path:
    """What ``plainchant run NAME --out`` leaves, without the summary of the run."""
    scenario = load(find(name))
    buffer = TraceBuffer()
    Simulation(scenario, trace=buffer).run()
    table = buffer.table()
    (directory / "trace").mkdir(parents=True)
    pq.write_table(table, directory / "trace" / "part.parquet")
    (directory / "scenario.toml").write_text('about = "what it shows"\n')
    verification = verify(table, scenario.verify or None).to_json()
    summary = {"scenario": name, "protocol": "sequencer", "seed": 0, "expect": scenario.expect, "verification": verification}
    (directory / "summary.json").write_text(json.dumps(summary))
    return directory


@pytest.fixture(scope="module")
def clean(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return run_directory("first-steps", tmp_path_factory.mktemp("clean") / "run")


@pytest.fixture(scope="module")
def violated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return run_directory("why-resilience", tmp_path_factory.mktemp("violated") / "run")


# --- a run ------------------------------------------------------------------------------------------------------------


def test_a_clean_run_shows_its_verdict_its_time_line_and_one_messages_life(clean: Path) -> None:
    reading = read_page(page(subject_at(str(clean), most=10)))
    assert "none is violated" in reading.text
    assert "what it shows" in reading.text
    for heading in ("Properties", "The run over time", "The life of one message", "Distributions", "Words on this page"):
        assert heading in reading.text
    assert "messages of one sender are delivered in the order" in reading.text
    assert "2 properties had nothing to check" in reading.text
    labels = [attributes.get("aria-label") or "" for tag, attributes in reading.tags if tag == "svg"]
    assert any("Time line of run r0: 5 processes" in label for label in labels)
    assert any("Delivery latency: 50% are at most" in label for label in labels)
    assert any("Space-time diagram of the message g/" in label for label in labels)


def test_a_violation_has_sentence_picture_reasons_rows_and_command(violated: Path) -> None:
    text = page(subject_at(str(violated), most=2))
    reading = read_page(text)
    assert "1 property is violated, 24 violations in all" in reading.text
    assert "This scenario is meant to show a violation, and it does" in reading.text
    assert "Showing 2 of 24 violations" in reading.text
    assert "p2 is correct and never delivers it" in reading.text
    assert reading.ids == ["violation-1", "violation-2"]
    assert "Space-time diagram of the violation" in text
    assert "cut: packets from p1 to anybody are lost" in reading.text
    assert "p2 never delivers g/p1/31" in reading.text
    assert "because" in reading.text
    assert "What became of g/p1/31" in reading.text
    assert f"plainchant run {violated}/scenario.toml" in reading.text
    assert f"plainchant explain {violated} --run r0 --message g/p1/31" in reading.text
    marked = [attributes for tag, attributes in reading.tags if tag == "tr" and attributes.get("class") == "marked"]
    assert len(marked) == 4  # two events a violation


def test_the_same_input_gives_the_same_bytes(violated: Path) -> None:
    assert page(subject_at(str(violated), most=3)) == page(subject_at(str(violated), most=3))


def test_a_summary_that_is_not_ours_says_what_to_do(clean: Path, tmp_path: Path) -> None:
    (tmp_path / "trace").symlink_to(clean / "trace")
    (tmp_path / "summary.json").write_text("{")
    with pytest.raises(LabError, match="report on the trace beside it"):
        subject_at(str(tmp_path), most=1)
    (tmp_path / "summary.json").write_text('{"verification": {"properties": 7}}')
    with pytest.raises(LabError, match=r"plainchant report .*trace"):
        subject_at(str(tmp_path), most=1)


# --- any trace --------------------------------------------------------------------------------------------------------

BROKEN = {
    "two orders": {
        "p": "view 1 p,q | send | deliver p 1 | deliver q 1 | end",
        "q": "view 1 p,q | send | deliver q 1 | deliver p 1 | end",
    },
    "two views with one number": {
        "p": "view 1 p,q,r | send | deliver p 1 | view 2 p,q | end",
        "q": "view 1 p,q,r | deliver p 1 | view 2 q,r | end",
        "r": "view 1 p,q,r | deliver p 1 | end",
    },
    "twice, and what nobody sent": {"p": "view 1 p | send | deliver p 1 | deliver p 1 | deliver p 7 | end"},
    "across groups": {
        "p": "view 1 p,q | view 1 p,q group=h | send | send group=h | deliver p 1 | deliver p 1 group=h | end",
        "q": "view 1 p,q | view 1 p,q group=h | deliver p 1 group=h | deliver p 1 | end",
    },
    "a crash, an unknown fault and a member without rows": {
        "p": 'view 1 p,q,ghost | send | deliver p 1 | fault detail={"fault":"weird"} | crash',
        "q": "view 1 p,q,ghost | end",
    },
    "no views at all": {"p": "send | deliver p 1 | end", "q": "join | end"},
}


@pytest.mark.parametrize("name", BROKEN)
def test_every_violation_of_a_trace_is_told_and_drawn(name: str, tmp_path: Path) -> None:
    table = trace(BROKEN[name])
    verification = verify(table)
    reading = read_page(page(subject_at(written(table, tmp_path), most=100)))
    assert f"{sum(outcome.violations for outcome in verification.properties.values()):,} violation" in reading.text
    for violation in verification.violations:
        assert violation.sentence in reading.text
    pictures = [attributes for tag, attributes in reading.tags if tag == "svg" and attributes.get("role") == "img"]
    assert len(pictures) >= len(verification.violations)
    assert "No command runs this again" in reading.text


def test_names_from_outside_cannot_become_markup(tmp_path: Path) -> None:
    evil = '<script>alert("1")</script>&\x00'
    long = "q" * 5_000
    table = trace({"p": "view 1 p,q | send | deliver p 1 | end", "q": "view 1 p,q | end"})
    for column in ("process", "sender"):
        names = [{"p": evil, "q": long}.get(name, name) for name in table.column(column).to_pylist()]
        table = table.set_column(table.column_names.index(column), column, pa.array(names, pa.string()))
    members = [[evil, long] if each else None for each in table.column("members").to_pylist()]
    table = table.set_column(table.column_names.index("members"), "members", pa.array(members, pa.list_(pa.string())))
    text = page(subject_at(written(table, tmp_path), most=10))
    reading = read_page(text)
    assert "\x00" not in text
    assert "<script>" in reading.text  # as text, not as an element


def test_times_of_a_trace_without_a_global_clock_count_from_its_first_row(tmp_path: Path) -> None:
    began = 1_800_000_000_000_000_000
    table = trace({"p": "view 1 p,q | send | deliver p 1 | end", "q": "view 1 p,q | deliver p 1 | deliver p 1 | end"})
    times = [began + index * 1_000_000 for index in table.column("time").to_pylist()]
    table = table.set_column(table.column_names.index("time"), "time", pa.array(times, pa.int64()))
    reading = read_page(page(subject_at(written(table, tmp_path), most=1)))
    assert "counted from the first row" in reading.text
    assert "1.000 ms" in reading.text
    assert "1,800,000" not in reading.text


def test_types_that_other_writers_use_are_read(tmp_path: Path) -> None:
    table = trace(BROKEN["two orders"])
    for column in ("process", "kind", "sender"):
        encoded = table.column(column).combine_chunks().dictionary_encode()
        table = table.set_column(table.column_names.index(column), column, encoded)
    for column, kind in (("run", pa.large_string()), ("index", pa.int32()), ("seq", pa.int16())):
        table = table.set_column(table.column_names.index(column), column, table.column(column).cast(kind))
    assert "Space-time" in page(subject_at(written(table, tmp_path), most=1))


def test_an_empty_trace_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="has no rows"):
        subject_at(written(trace({}), tmp_path), most=1)


def test_a_malformed_trace_is_refused(tmp_path: Path) -> None:
    table = trace({"p": "send | deliver p 1 | end"})
    with pytest.raises(MalformedTrace, match="index"):
        subject_at(written(table.slice(1), tmp_path), most=1)


def test_damage_that_shows_only_when_rows_are_read_is_a_sentence(clean: Path, tmp_path: Path) -> None:
    data = bytearray((clean / "trace" / "part.parquet").read_bytes())
    data[4:2_000] = bytes(1_996)
    (tmp_path / "trace").mkdir()
    (tmp_path / "trace" / "part.parquet").write_bytes(data)
    (tmp_path / "summary.json").write_text((clean / "summary.json").read_text())
    with pytest.raises(LabError, match="find the damaged file"):
        page(subject_at(str(tmp_path), most=1))


# --- large ------------------------------------------------------------------------------------------------------------


def test_what_is_selected_from_a_large_run_is_what_would_be_taken_of_a_whole_one(
    violated: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    violations = subject_at(str(violated), most=5).violations
    whole = [scene_of_violation(Rows(str(violated / "trace")), violation) for violation in violations]
    monkeypatch.setattr(source, "WHOLE_RUN_MAX", 10)
    rows = Rows(str(violated / "trace"))
    assert rows.whole("r0") is None
    assert [scene_of_violation(rows, violation) for violation in violations] == whole
    prepare(rows, violations)
    assert [scene_of_violation(rows, violation) for violation in violations] == whole


@pytest.mark.parametrize("which", ["clean", "violated"])
def test_a_run_too_large_to_be_read_whole_has_a_report(
    which: str, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(source, "WHOLE_RUN_MAX", 10)
    reading = read_page(page(subject_at(str(request.getfixturevalue(which)), most=3)))
    assert "Step by step" in reading.text or "The life of one message" in reading.text


def test_many_violations_stop_at_the_budget_and_say_so() -> None:
    sentence = "it went wrong " * 80
    violations = tuple(
        Violation(f"r{number}", "fifo", "g", ("p",), (("g", "p", number),), (("p", number),), sentence)
        for number in range(20_000)
    )
    subject = Subject("sweep", "much", "much", {"fifo": Outcome(1, 1, 1, 20_000)}, violations, "all are in violations", None)
    reading = read_page(page(subject))
    assert "of 20,000 violations" in reading.text
    assert "all are in violations" in reading.text
    assert 100 < len(reading.ids) < 20_000


def test_many_processes_views_and_faults_are_cut_and_said_to_be(tmp_path: Path) -> None:
    members = ",".join(f"p{number}" for number in range(60))
    views = " | ".join(f"view {number} {members}" for number in range(1, 80))
    histories = {f"p{number}": f"{views} | end" for number in range(60)}
    faults = " | ".join(["fault"] * 210)
    histories["p0"] = f"{faults} | {views} | send | deliver p0 1 | end"
    table = trace(histories)
    path = written(table, tmp_path)
    subject = Subject("trace", "much", path, {"agreement": Outcome(1, 1, 1, 1)}, (), "nowhere", Rows(path))
    reading = read_page(page(subject))
    assert "40 of 60 processes have a lane here" in reading.text
    assert "are left out" in reading.text
    assert "200 of 210 faults are drawn" in reading.text
    involved = tuple(histories)
    broken = Violation("r0", "agreement", "g", involved, (("g", "p0", 1),), (("p0", 290),), "nobody else delivers it")
    reading = read_page(page(dataclasses.replace(subject, violations=(broken,))))
    assert "Showing 8 of 60 processes involved" in reading.text


def in_groups(*groups: str) -> str:
    return " | ".join(f"view 1 p,q group={group}" for group in groups) + " | end"


def drawn_over_time(histories: dict[str, str], directory: Path) -> tuple[Reading, list[str]]:
    """The time line of a trace, and what is said to be left out of it."""
    rows = Rows(written(trace(histories), directory))
    run = in_bins(rows, "r0", overview(rows).runs["r0"])
    return Reading(timeline(run, "title")), left_out(run)


def places(reading: Reading, tag: str, style: str) -> list[float]:
    return [
        float(attributes["y"] or 0) for name, attributes in reading.tags if name == tag and style in (attributes["class"] or "")
    ]


def test_a_lane_has_a_bar_for_each_group_of_its_process_and_none_for_others(tmp_path: Path) -> None:
    alone = [f"g{number}" for number in range(1, 6)]
    reading, cut = drawn_over_time({"p": in_groups(*alone, "h"), "q": in_groups("h"), "r": "end"}, tmp_path)
    bars = places(reading, "rect", "view")
    assert cut == []
    assert all(f"{group} view 1" in reading.text for group in [*alone, "h"])
    assert [below - above for above, below in pairwise(bars)] == [13, 13, 13, 13, 13, 13 + 8]
    of_p, of_q, of_r = places(reading, "text", "lane")
    assert bars[0] < of_p < bars[5]
    assert bars[6] < of_q <= bars[6] + 13 < of_r


def test_groups_of_one_process_beyond_the_limit_are_left_out_and_said_to_be(tmp_path: Path) -> None:
    many = [f"g{number}" for number in range(1, 11)]
    reading, cut = drawn_over_time({"p": in_groups(*many), "q": in_groups("g10")}, tmp_path)
    assert len(places(reading, "rect", "view")) == 6 + 1
    assert cut == ["a lane shows the views of 6 groups at most; a process is in up to 10"]
    assert "g10 view 1" in reading.text, "q has room for it"


def test_a_mark_is_beside_the_bar_of_its_group(tmp_path: Path) -> None:
    history = "view 1 p group=g | view 1 p group=h | leave group=h | end"
    reading, _ = drawn_over_time({"p": history}, tmp_path)
    of_g, of_h = places(reading, "rect", "view")
    (left,) = places(reading, "rect", "left")
    assert of_g + 12 < left + 4 < of_h + 12


def test_latencies_are_counted_with_three_digits(clean: Path) -> None:
    seen = overview(Rows(str(clean / "trace")))
    assert seen.runs["r0"].sends == 300
    assert sum(seen.latencies.values()) == seen.runs["r0"].deliveries == 1_500
    assert all(len(str(value).rstrip("0")) <= 3 for value in seen.latencies)


# --- a sweep ----------------------------------------------------------------------------------------------------------


def sweep_directory(directory: Path, *, keep: bool, units: bool = False) -> Path:
    """A sweep of four runs at two grid points: two hold, one violates, one fails."""
    good = trace({"p": "view 1 p,q | send | deliver p 1 | end", "q": "view 1 p,q | deliver p 1 | end"}, run="loss=0,seed=0")
    bad = trace(BROKEN["two orders"], run="loss=1,seed=0")
    found: Verification = verify(bad, ["identical"])
    runs = [
        ("loss=0,seed=0", 0, ["loss=0"], "holds", None),
        ("loss=0,seed=1", 1, ["loss=0"], "holds", None),
        ("loss=1,seed=0", 0, ["loss=1"], "violated", None),
        ("loss=1,seed=1", 1, ["loss=1"], "failed", "it raised"),
    ]
    rows = [
        {"run": run, "seed": seed, "point": point, "verdict": verdict, "problem": problem, "events": 7, "simulated": 9}
        | {"sent": 3 + seed, "delivered": 6, "packets": 8, "kept": keep, "replay": f"plainchant run x.toml --seed {seed}"}
        for run, seed, point, verdict, problem in runs
    ]
    outcomes = [
        {"run": run, "property": "identical", "runs": 1, "events": 7, "cases": 1, "violations": int(verdict == "violated")}
        for run, _, _, verdict, _ in runs
    ]
    tables = {
        "runs": pa.Table.from_pylist(rows, schema=RUNS),
        "outcomes": pa.Table.from_pylist(outcomes, schema=OUTCOMES),
        "violations": violation_rows([(violation, 3) for violation in found.violations[:1]]),
        "metrics": measure(pa.concat_tables([good, bad])),
    }
    if keep:
        tables["trace"] = pa.concat_tables([good, bad])
    for name, table in tables.items():
        (directory / name).mkdir(parents=True)
        pq.write_table(table, directory / name / "unit-00000.parquet")
    if units:
        (directory / "units").mkdir()
        (directory / "units" / "unit-00000.json").write_text("{}")
        pq.write_table(tables["outcomes"], directory / "outcomes" / "unit-00001.parquet")
    (directory / "sweep.json").write_text(json.dumps({"scenario": "x.toml", "runs": 8 if units else 4}))
    return directory


def test_a_sweep_shows_its_points_its_troubled_runs_and_how_to_replay_a_violation(tmp_path: Path) -> None:
    reading = read_page(page(subject_at(str(sweep_directory(tmp_path / "sweep", keep=True)), most=10)))
    assert "1 property is violated, 1 violation in all" in reading.text
    assert "loss=0" in reading.text
    assert "it raised" in reading.text
    assert "This is run loss=1,seed=0: the run of the first violation shown below" in reading.text
    assert "plainchant run x.toml --seed 0" in reading.text
    assert "Step by step" in reading.text
    assert "Messages a run" in reading.text


def test_a_sweep_that_kept_no_trace_still_tells_its_violations(tmp_path: Path) -> None:
    reading = read_page(page(subject_at(str(sweep_directory(tmp_path / "sweep", keep=False)), most=10)))
    assert "The trace of this run was not kept" in reading.text
    assert "plainchant run x.toml --seed 0" in reading.text


def test_an_interrupted_sweep_counts_its_committed_units_only_and_says_that_it_is_not_complete(tmp_path: Path) -> None:
    subject = subject_at(str(sweep_directory(tmp_path / "sweep", keep=True, units=True)), most=10)
    assert subject.outcomes["identical"].runs == 4
    assert "4 of 8 runs are done" in read_page(page(subject)).text


def test_a_sweep_without_results_says_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "sweep.json").write_text("{}")
    with pytest.raises(LabError, match="run the same `plainchant sweep` command again"):
        subject_at(str(tmp_path), most=1)


# --- real time --------------------------------------------------------------------------------------------------------


def test_real_time_has_a_section_with_tables_and_histograms_only_where_there_is_any(tmp_path: Path) -> None:
    made = ring_run(30)
    pq.write_table(made, tmp_path / "ring.parquet")
    text = page(subject_at(str(tmp_path / "ring.parquet"), most=3))
    read = Reading(text)
    assert read.problems == []
    assert "<h2>Real time</h2>" in text
    for told in ("messages due at their destinations", "rotation, stated bound", "crash to view without it, longest"):
        assert told in read.text
    assert "<b>Rotation</b>" in text
    assert "<b>Slack</b>" in text
    pq.write_table(trace({"p": "view 1 p | send | deliver p 1 | end"}), tmp_path / "plain.parquet")
    assert "Real time" not in page(subject_at(str(tmp_path / "plain.parquet"), most=3))


def test_the_longest_standstill_of_each_member_is_told_with_what_it_waited_for(tmp_path: Path) -> None:
    pause = 'fault time=20 detail={"fault":"pause","process":"b","length":600}'
    table = trace({
        "a": f"view 1 a,b time=0 | {pause} | send time=50 | deliver a 1 time=51 | end time=900",
        "b": "view 1 a,b time=0 | deliver a 1 time=621 | end time=900",
    })  # fmt: skip
    text = read_page(page(subject_at(written(table, tmp_path), most=5))).text
    assert "Standstills" in text
    assert "fault: pause, length 600ns at b" in text
    assert text.index("571") < text.index("1 ns")  # b before a
    calm = read_page(page(subject_at(written(trace({"a": "view 1 a time=0 | end time=9"}), tmp_path / "calm"), most=5))).text
    assert "Standstills" not in calm


def test_a_trace_too_large_to_be_read_whole_has_metrics_from_the_pass_that_verified_it(
    tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = ring_run(30)
    pq.write_table(table, tmp_path / "ring.parquet", row_group_size=100)
    monkeypatch.setattr(source, "WHOLE_RUN_MAX", 10)
    large = subject_at(str(tmp_path / "ring.parquet"), most=3, spark=lambda: nullcontext(spark), here_up_to=10)
    assert large.measured is not None
    assert large.measured.to_pylist() == measure(table).to_pylist()
    text = read_page(page(large)).text
    assert "In numbers, by group." in text
    assert "Real time" in text
    here = subject_at(str(tmp_path / "ring.parquet"), most=3)
    assert here.measured is None
    assert "In numbers, by group." not in read_page(page(here)).text
