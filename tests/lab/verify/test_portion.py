"""Runs in which too much is wrong to be narrowed down, and that are too large to be searched whole: a portion is searched.

What it shows must be true of the whole run, there must not be more of it than the reference finds, and what it does not show must
never be said to hold. Small runs are taken for large ones.
"""

from __future__ import annotations

import dataclasses
import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from plainchant.cli import main
from plainchant.lab.properties import PROPERTIES, Violation, verify
from plainchant.lab.properties.certificates.evidence import Evidence
from plainchant.lab.properties.certificates.evidence import Messages as Span
from plainchant.lab.properties.certificates.unit import Unit
from plainchant.lab.properties.facts import Columns, Run, runs_of
from plainchant.lab.properties.narrowing import doubts, orders, walks
from plainchant.lab.properties.narrowing.narrow import NARROWED
from plainchant.lab.properties.narrowing.portion import Portion, portion_of
from plainchant.lab.properties.owing import Owing
from plainchant.lab.properties.report import Report
from plainchant.lab.properties.timing import deadlines
from plainchant.lab.verify import verify_here
from plainchant.trace.schema import SCHEMA
from tests.trace.build import trace

from ..agreement import check_narrowed
from ..catalogue import CATALOGUE, Case
from ..layouts import ORDER
from ..mailbox_traces import mailbox_run
from ..mutations import CAUGHT, HARMLESS
from ..random_traces import RandomRun, random_run, table
from .test_deadlines import ring_run
from .test_narrowing import flat, spoilt
from .test_narrowing_kinds import merging, overlapping, parted

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Spans = tuple[Span, ...]

Events = list[dict[str, Any]]

EXACT = frozenset(
    {"integrity", "self-delivery", "validity", "agreement", "view-atomicity", "sender-in-view", "same-view", "unanimity"}
    | {"deadline", "bounded"}
)
"""Properties of single messages: the portion gives the reference's own sentences. For the others it may name other witnesses."""


@pytest.fixture
def little(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three doubtful messages are too many."""
    for module in (doubts, orders, walks):
        monkeypatch.setattr(module, "MAX_DOUBTFUL", 3)
    monkeypatch.setattr(deadlines, "MAX_LATE", 3)


def portion(rows: pa.Table, unit: int, whole_up_to: int, names: Sequence[str]) -> Portion | None:
    """A portion of a run in which some properties are in doubt; None if the run is malformed, and not verified at all."""
    slices = [Unit(rows.slice(first, unit)).slice(0, alone=True) for first in range(0, rows.num_rows, unit)]
    if any(part.suspect for part in slices):
        return None
    skeleton = pa.concat_tables([part.skeleton for part in slices], promote_options="permissive")
    evidence = Evidence(Run("r0", Columns(skeleton), range(skeleton.num_rows)), slices)
    return None if evidence.suspect else portion_of(evidence, names, whole_up_to, until_end=True)


def reports(rows: pa.Table, unit: int, whole_up_to: int, names: Sequence[str]) -> list[Report]:
    found = portion(rows, unit, whole_up_to, names)
    return [] if found is None else found.searched(rows.filter(found.wanted.among(rows)), names)


def is_true(violation: Violation, run: Run, owing: Owing) -> bool:
    """Whether the whole run says what a sentence says that the reference does not have."""
    told, messages = violation.sentence, violation.messages
    if "the other way round" in told:
        (p, _), _, _, (q, _) = violation.events
        one, other = (run.histories[name].first for name in (p, q))
        return one[messages[0]].index < one[messages[1]].index and other[messages[0]].index > other[messages[1]].index
    if "delivers it after" in told or "only after" in told:  # the first before the second: by cause, or by number
        first = run.histories[violation.processes[0]].first
        return first[messages[0]].index > first[messages[1]].index and precedes(messages[0], messages[1], owing)
    if "which it owes" in told:
        name = violation.events[0][0] if told.split()[1] == "delivers" else told.split(" which ")[1].split()[0]
        lacks = run.histories[name].first
        return messages[0] not in lacks and messages[1] in lacks and precedes(messages[0], messages[1], owing)
    if "form a cycle" in told:
        at = [run.histories[process] for process, _ in violation.events]
        pairs = zip(violation.events[::2], violation.events[1::2], strict=True)
        return len(at) > 2 and all(one[0] == other[0] and one[1] < other[1] for one, other in pairs)
    return False


def precedes(one: tuple[str, str, int], other: tuple[str, str, int], owing: Owing) -> bool:
    if one[:2] == other[:2] and one[2] < other[2]:
        return True
    causality = owing.causality()
    return causality.clocks[other][causality.place[one]] >= causality.number[one]


def check_portion(rows: pa.Table, unit: int, whole_up_to: int) -> Counter[str]:
    """What a portion shows of each property; fails if that is not so in the whole run."""
    names = list(PROPERTIES)
    reference = verify(rows, names)
    (run,) = runs_of(rows)
    owing, seen = Owing(run), Counter[str]()
    told = {(v.property, v.sentence, v.events, v.messages) for _, v in _all_of(rows, names)}
    for report in reports(rows, unit, whole_up_to, names):
        seen[report.name] = report.count
        assert report.count <= reference.properties[report.name].violations, report.name
        for _, violation in report.shown(None):
            known = (violation.property, violation.sentence, violation.events, violation.messages) in told
            assert known or (report.name not in EXACT and is_true(violation, run, owing)), violation
    return seen


def _all_of(rows: pa.Table, names: Sequence[str]) -> list[tuple[Any, Violation]]:
    from plainchant.lab.properties.reference import check_run

    return [each for run in runs_of(rows) for report, _ in check_run(run, names) for each in report.shown(None)]


def kinds(seed: int) -> RandomRun:
    """A run of some kind: one group or several, in one order or causal, with views that part and merge, or none."""
    random = Random(f"portion {seed}")
    makers: list[Callable[[], RandomRun]] = [
        lambda: flat(150),
        lambda: random_run(seed),
        lambda: merging(seed % 40),
        lambda: parted(120),
        lambda: overlapping(random.choice(("ring", "chain", "star")), random.choice(("total", "causal")), 300),
        lambda: mailbox_run(seed, "mailbox", messages=40, leaves=seed % 2 == 0, crashes=seed % 3 == 0),
    ]
    return makers[seed % len(makers)]()


@pytest.mark.sweep
def test_what_a_portion_shows_is_so_in_the_whole_run(times: int) -> None:
    seen: Counter[str] = Counter()
    for seed in range(90 * times):
        random = Random(seed)
        mutations = [random.choice(CAUGHT + HARMLESS) for _ in range(1 + seed % 9)]
        rows = spoilt(kinds(seed), mutations, f"portion {seed}")
        if rows is not None:
            seen += check_portion(rows, random.choice((53, 10_000)), random.choice((200, 600, 2_000)))
    found = {*NARROWED} - {"same-view", "sender-in-view"}
    assert {name for name in found if not seen[name]} == set()


@pytest.mark.parametrize("case", CATALOGUE, ids=lambda case: str(case.name))
def test_a_portion_of_everything_blames_nobody_falsely(case: Case) -> None:
    """All messages: of single messages it shows just what the reference finds."""
    rows = case.table().sort_by(ORDER)
    reference = verify(rows, [case.property])
    for report in reports(rows, 5, 10**9, [case.property]):
        count = reference.properties[case.property].violations
        assert report.count <= count
        if case.property in EXACT - {"bounded", "deadline"}:
            assert report.count == count


def of_messages(rows: pa.Table, messages: Spans, name: str) -> Report:
    """What some messages of a run show of a property; the reference finds nothing in the whole run."""
    assert verify(rows, [name]).properties[name].violations == 0
    made = portion(rows, 10_000, 10**9, [name])
    assert made is not None
    made = dataclasses.replace(made, messages=messages)
    (report,) = made.searched(rows.filter(made.wanted.among(rows)), [name])
    return report


EXCUSED: Mapping[str, tuple[str, Spans, Mapping[str, str]]] = {
    "q learns from r, whose message is not in the portion, that p went on without it": (
        "fifo",
        (("g", "p", 1, 2),),
        {
            "p": "view 1 p,q,r | send | send | view 2 p,r | send | end",
            "q": "view 1 p,q,r | deliver r 1 | deliver p 2 | end",
            "r": "view 1 p,q,r | deliver p 1 | deliver p 2 | view 2 p,r | deliver p 3 | send | end",
        },
    ),
    "a number that is in the run and not in the portion is no hole": (
        "fifo",
        (("g", "a", 1, 1), ("g", "a", 3, 3)),
        {"a": "send | send | send | end", "b": "deliver a 1 | deliver a 2 | deliver a 3 | end"},
    ),
    "that a history is cut is told by a row that is not in the portion": (
        "identical",
        (("g", "b", 1, 2),),
        {
            "a": "view 1 a,b | deliver b 2 | deliver b 1 | leave | deliver b 3",
            "b": "view 1 a,b | send | send | send | deliver b 1 | deliver b 2 | deliver b 3 | end",
        },
    ),
    "a number below 1 is asked only of who lacks others": (
        "fifo",
        (("g", "b", 0, 0), ("g", "b", 2, 2)),
        {"a": "deliver b 0 | deliver b 1 | end", "b": "send | send | end", "c": "deliver b 1 | deliver b 2 | end"},
    ),
}


@pytest.mark.parametrize("excuse", EXCUSED)
def test_what_only_the_whole_run_excuses_is_no_violation(excuse: str) -> None:
    name, messages, histories = EXCUSED[excuse]
    assert of_messages(trace(histories).sort_by(ORDER), messages, name).count == 0


def test_a_portion_shows_who_is_a_member_of_a_group_without_views() -> None:
    every = " | ".join(f"deliver a {number}" for number in range(1, 41))
    histories = {"a": "send | " * 40 + "end", "b": f"deliver c 1 | {every} | end", "c": "send | end"}
    made = portion(trace(histories).sort_by(ORDER), 10_000, 4, ["validity"])
    assert made is not None
    assert ("g", "c", 1, 1) in made.messages
    assert sum(high - low + 1 for *_, low, high in made.messages) < 10


def everywhere(change: Callable[[Random, Events], Events], member: str = "p1") -> pa.Table:
    run = flat(400)
    return table([RandomRun("r0", {**run.histories, member: change(Random(1), run.histories[member])}, [])]).sort_by(ORDER)


def swapped(random: Random, events: Events) -> Events:
    """Every delivery changes places with its neighbour."""
    at = [place for place, event in enumerate(events) if event["kind"] == "deliver"]
    found = list(events)
    for one, other in zip(at[::2], at[1::2], strict=False):
        found[one], found[other] = events[other], events[one]
    return found


def shuffled(random: Random, events: Events) -> Events:
    at = [place for place, event in enumerate(events) if event["kind"] == "deliver"]
    found = list(events)
    for place, other in zip(at, random.sample(at, len(at)), strict=True):
        found[place] = events[other]
    return found


def altered(random: Random, events: Events) -> Events:
    return [event | {"digest": event["digest"] ^ 1} if event["kind"] == "deliver" else event for event in events]


def thinned(random: Random, events: Events) -> Events:
    """Half of the deliveries are missing, own ones among them."""
    return [event for place, event in enumerate(events) if event["kind"] != "deliver" or place % 2]


def doubled(random: Random, events: Events) -> Events:
    return [event for event in events for _ in range(1 + (event["kind"] == "deliver"))]


def silent(random: Random, events: Events) -> Events:
    return [event for event in events if event["kind"] != "deliver"]


def early(random: Random, events: Events) -> Events:
    """All that is delivered is delivered before anything is sent."""
    return sorted(events, key=lambda event: event["kind"] in ("send", "end"))


WRONG: Mapping[str, tuple[Callable[[Random, Events], Events], frozenset[str]]] = {
    "neighbours swapped": (swapped, frozenset({"identical", "total", "acyclic", "uniform", "fifo", "causal"})),
    "in random order": (shuffled, frozenset({"identical", "total", "acyclic", "uniform", "fifo", "causal"})),
    "other contents": (altered, frozenset({"integrity"})),
    "half of it missing": (
        thinned,
        frozenset({"fifo", "causal", "total", "self-delivery", "validity", "agreement", "uniform", "view-atomicity"}),
    ),
    "all of it missing": (silent, frozenset({"self-delivery", "validity", "agreement", "uniform", "view-atomicity"})),
    "twice": (doubled, frozenset({"integrity"})),
    "before it is sent": (early, frozenset({"integrity", "causal", "total"})),
}


@pytest.mark.usefixtures("little")
@pytest.mark.parametrize("wrong", WRONG)
def test_where_everything_is_wrong_there_is_an_answer(wrong: str) -> None:
    change, expected = WRONG[wrong]
    rows = everywhere(change)
    reference = verify(rows, list(NARROWED))
    assert expected <= {name for name, outcome in reference.properties.items() if outcome.violations}
    for unit in (211, 10_000):
        found, before = check_narrowed(rows, unit, list(NARROWED), whole_up_to=1_000)
        assert before["r0"].doubtful or before["r0"].unresolved
        for name, outcome in found.properties.items():
            whole = reference.properties[name]
            assert outcome.violations <= whole.violations
            assert outcome.in_part or outcome == whole
            if name in expected:
                assert (outcome.verdict, outcome.in_part) == ("violated", 1), name
            elif outcome.in_part:
                assert outcome.verdict in ("unknown", whole.verdict), name
        assert found.verdict == "violated"


@pytest.mark.usefixtures("little")
def test_late_everywhere_is_a_lower_bound() -> None:
    rows = ring_run(60)
    kinds = rows.column("kind").to_pylist()
    time, late = rows.column("time").to_pylist(), []
    for kind, at in zip(kinds, time, strict=True):
        late.append(at + 10**12 if kind in ("deliver", "end") else at)
    names = ["deadline"]
    spoiled = rows
    for column in ("time", "true_time"):
        spoiled = spoiled.set_column(spoiled.column_names.index(column), column, pa.array(late, pa.int64()))
    whole = verify(spoiled, names).properties["deadline"]
    found, _ = check_narrowed(spoiled, 10_000, names, whole_up_to=300)
    outcome = found.properties["deadline"]
    assert outcome.in_part == 1
    assert 0 < outcome.violations < whole.violations
    assert set(found.violations) <= {violation for _, violation in _all_of(spoiled, names)}


@pytest.mark.usefixtures("little")
@pytest.mark.parametrize("wrong", WRONG)
def test_what_is_too_much_for_one_property_is_not_narrowed_down(wrong: str) -> None:
    """Spans that stand in the way of one proof, and are too many, are not among those that are searched for the others."""
    rows = everywhere(WRONG[wrong][0])
    found, _ = check_narrowed(rows, 211, list(NARROWED))
    assert found.properties == verify(rows, list(NARROWED)).properties


@pytest.mark.usefixtures("little")
@pytest.mark.parametrize("case", CATALOGUE, ids=lambda case: str(case.name))
def test_what_is_not_decided_never_holds(case: Case) -> None:
    rows = case.table().sort_by(ORDER)
    whole = verify(rows, [case.property]).properties[case.property]
    found, _ = check_narrowed(rows, 5, [case.property], whole_up_to=4)
    outcome = found.properties[case.property]
    if outcome.in_part:
        assert outcome.verdict == ("violated" if outcome.violations else "unknown")
        assert found.verdict == outcome.verdict
        assert outcome.violations <= whole.violations
        assert any("not decided" in warning for warning in found.warnings) == (not outcome.violations)
    else:
        assert outcome == whole


def late_run(members: int = 3, messages: int = 100) -> pa.Table:
    """Every second delivery takes too long. Bounds count from acceptance too, so that few rows do not decide it."""
    run = flat(messages, members)
    bounds = json.dumps({"promises": ["bounded", "progress"], "bounds": {"accepted": 10**6, "deliver": 10, "progress": 1}})
    for events in run.histories.values():
        for place, event in enumerate(events):
            event |= {"true_time": event["time"]}
            if event["kind"] == "deliver":
                event["sent"] = event["true_time"] - 20 * (place % 2)
        events[0]["detail"] = bounds
    return table([RandomRun("r0", run.histories, [])]).sort_by(ORDER)


def test_every_way_to_verify_searches_the_same_portion(spark: SparkSession, tmp_path: Path) -> None:
    from plainchant.lab.frames import verified
    from plainchant.lab.verify import verify as verify_on_spark
    from plainchant.lab.verify.frame import verification_in

    rows = late_run()
    pq.write_table(rows.select(SCHEMA.names), tmp_path / "t.parquet", row_group_size=90)
    whole = verify(rows).properties["bounded"]
    here = verify_here([str(tmp_path)], search_up_to=200)
    outcome = here.properties["bounded"]
    assert (outcome.verdict, outcome.in_part) == ("violated", 1)
    assert 0 < outcome.violations < whole.violations
    split = verify_on_spark(spark, [str(tmp_path)], chunk_rows=200, least_rows=1, search_up_to=200)
    assert (split.properties, split.violations) == (here.properties, here.violations)
    frame = spark.read.parquet(tmp_path.as_uri())
    lazily = verified.found_in(frame, search_up_to=200, most=20)
    assert verification_in(lazily).properties == here.properties
    (row,) = verified.outcomes_in(lazily).filter("property = 'bounded'").collect()
    assert (row["verdict"], row["violations"], row["in_part"]) == ("violated", outcome.violations, 1)
    assert verify_here([str(tmp_path)], search_up_to=rows.num_rows).properties["bounded"] == whole


def test_the_command_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "t.parquet"
    pq.write_table(late_run().select(SCHEMA.names), path)
    asked = ["verify", str(path), "--search-up-to", "200", "--property"]
    assert main([*asked, "bounded"]) == 1
    assert "at least" in capsys.readouterr().out
    rows = next(case for case in CATALOGUE if case.name == "progress: a message is larger than bounds are for").table()
    pq.write_table(rows.sort_by(ORDER).select(SCHEMA.names), path)
    assert main(["verify", str(path), "--property", "progress"]) in (0, 1)
    assert (
        main(["verify", str(path), "--search-up-to", "3", "--property", "progress", "--json", str(tmp_path / "found.json")]) == 2
    )
    said = capsys.readouterr().out
    assert "unknown" in said
    assert f"--search-up-to {rows.num_rows}" in " ".join(said.split())
    told = json.loads((tmp_path / "found.json").read_text())
    assert (told["verdict"], told["properties"]["progress"]["in_part"]) == ("unknown", 1)
