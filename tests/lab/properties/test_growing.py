"""Checkers on growing traces, held against the reference verifier: the same verdict at the end, and in time.

``decided`` is the part of the reference's violations that the checks claim to find before the end (the catalogue says what is
left open). It is compared on random runs and on runs that were spoilt in one place, fed in random portions.
"""

from __future__ import annotations

import pickle
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from random import Random

import pyarrow as pa
import pytest

from plainchant.cli import main
from plainchant.lab.properties import Violation
from plainchant.lab.properties.catalogue import CATALOGUE as CHECKS
from plainchant.lab.properties.facts import Run, runs_of
from plainchant.lab.properties.growing import Growing, Limits
from plainchant.lab.properties.order import growing as order
from plainchant.lab.properties.reference import check_run
from plainchant.trace import read
from plainchant.trace.fact import Fact, facts_of
from plainchant.trace.properties import PROPERTIES
from tests.lab.catalogue import CATALOGUE
from tests.lab.mutations import CAUGHT, HARMLESS, mutated
from tests.lab.random_traces import RandomRun, random_run, table

from ...trace.build import trace

DECIDED = [name for name in PROPERTIES if CHECKS[name].growing is not None]


def decided(run: Run) -> Iterator[Violation]:
    """The violations that can be known before the end."""
    for report, _ in check_run(run, DECIDED):
        for _, violation in report.shown(None):
            if not is_open(run, violation):
                yield violation


def is_open(run: Run, violation: Violation) -> bool:
    """Whether only the end decides on this; each clause is in the catalogue."""
    sentence = violation.sentence
    match violation.property:
        case "uniform" | "total":
            return "the other way round" not in sentence
        case "view-order":
            return "ends without it" in sentence
        case "bounded":
            return "which crashed" in sentence
        case "integrity" if "never sent" in sentence:
            sender = run.histories.get(violation.messages[0][1])
            if violation.messages[0][1] == violation.events[0][0] or violation.messages[0][2] < 1:
                return False  # its own message, which it would have to send before; a number that nothing has
            return sender is None or sender.cut or not (sender.end or sender.crashed)
        case "fifo" if "which it owes" in sentence:
            return is_open_owing(run, violation, violation.events[0][0])
        case "deadline" if "which owes it" in sentence:
            lacking = run.histories[violation.events[1][0]]
            return bool(lacking.left) or is_open_owing(run, violation, lacking.name)
        case "progress":
            return is_open_wait(run, violation)
        case "unanimity":
            group = violation.messages[0][0]
            return group not in run.viewed and group not in run.joined
    return False


def is_open_owing(run: Run, violation: Violation, lacking: str) -> bool:
    """Where the sender is in no view, or has parted from who lacks the message."""
    missing = violation.messages[0]
    send = run.sends.get(missing)
    if send is None or send.view is None:
        return True
    return run.histories[missing[1]].first_view_without(missing[0], lacking, send.index) is not None


def is_open_wait(run: Run, violation: Violation) -> bool:
    """Requests, groups without views, senders in no view, holes before later deliveries, timing faults, and what others lack of
    messages that were never taken."""
    group = violation.group
    if "halted by" in violation.sentence:
        return False
    if "asks to" in violation.sentence or group is None or group not in run.viewed:
        return True
    p, q = (run.histories[name] for name in (violation.processes[0], violation.processes[-1]))
    if not violation.messages:
        return p is not q or p.timing_fault or p.denied != set()
    send = run.sends[violation.messages[0]]
    later = any(message[:2] == send.message[:2] and message[2] > send.message[2] for message in q.first)
    lacks_before_later = send.message not in q.first and later
    return send.view is None or not p.views.get(group) or p.timing_fault or q.timing_fault or lacks_before_later


def portions(rows: pa.Table, random: Random) -> Iterator[list[Fact]]:
    """The facts of a run as somebody who reads one history after the other gets them: a few of one, then a few of another. Hosts
    state the same bounds at all processes; here some do not, so what they state comes first."""
    histories: dict[str, list[Fact]] = {}
    for fact in facts_of(rows):
        histories.setdefault(fact.process, []).append(fact)
    for own in histories.values():
        if own and own[0].kind == "start":
            yield own[:1]
    while histories:
        process = random.choice(sorted(histories))
        count = random.randint(1, 6)
        yield histories[process][:count]
        histories[process] = histories[process][count:]
        if not histories[process]:
            del histories[process]


def violated(growing: Growing) -> set[str]:
    growing.promises = None  # whatever was promised, all is looked at
    return {finding.property for finding in growing.findings()}


def grown(rows: pa.Table, seed: str) -> Growing:
    growing = Growing("x")
    for portion in portions(rows, Random(seed)):
        growing.feed(portion)
    growing.finish()
    return growing


@cache
def runs(seed: int) -> list[tuple[str, RandomRun]]:
    """A correct run and everything that can be spoilt about it in one place."""
    correct = random_run(seed)
    spoilt = [(m.__name__, mutated(Random(f"{seed} {m.__name__}"), correct, "x", m)) for m in (*CAUGHT, *HARMLESS)]
    return [("correct", correct), *((name, run) for name, run in spoilt if run is not None)]


def test_the_verdict_at_the_end_is_the_references(times: int) -> None:
    found: Counter[str] = Counter()
    differing = []
    for seed in range(8 * times):
        for name, random in runs(seed):
            rows = table([random])
            (run,) = runs_of(rows)
            expected = {violation.property for violation in decided(run)}
            mine = violated(grown(rows, f"{seed} {name}"))
            found.update(expected)
            if mine != expected:
                differing.append(f"{seed} {name}: here {sorted(mine - expected)}, the reference {sorted(expected - mine)}")
    assert not differing, "\n".join(differing)
    # A property that nothing ever spoils would not be compared at all.
    assert set(DECIDED) - set(found) <= {"sender-in-view", "disjoint-views", "unanimity", "view-order", "progress"}, found


def test_progress_is_judged_as_by_the_reference_also_while_the_trace_grows(times: int) -> None:
    """Runs that state a time are few, so there are more of them here. Before the end, nothing is said that the end takes back."""
    found: Counter[bool] = Counter()
    for seed in range(40 * times):
        if "waits" not in random_run(seed).features:
            continue
        for name, random in runs(seed):
            rows = table([random])
            (run,) = runs_of(rows)
            expected = any(violation.property == "progress" for violation in decided(run))
            found[expected] += 1
            assert ("progress" in violated(grown(rows, f"{seed} {name}"))) == expected, (seed, name)
            if not runs_backwards(rows):
                is_violated = any(report.count for report, _ in check_run(run, ["progress"]))
                assert is_violated or "progress" not in found_on_the_way(as_they_happened(rows)), (seed, name)
    assert found[True] > 20
    assert found[False] > 100


def runs_backwards(rows: pa.Table) -> bool:
    """Whether the clock of a history runs backwards: a mutation has moved a row."""
    reached: dict[tuple[str, str], int] = {}
    for fact in facts_of(rows.sort_by([("process", "ascending"), ("index", "ascending")])):
        for clock, at in (("own", fact.time), ("global", fact.true_time)):
            if at is not None and at < reached.get((fact.process, clock), at):
                return True
            reached[fact.process, clock] = at if at is not None else 0
    return False


def found_on_the_way(facts: Sequence[Fact]) -> set[str]:
    """All that is said at the end of some round."""
    growing, found = Growing("x"), set[str]()
    for number, fact in enumerate(facts):
        growing.feed([fact])
        if number % 7 == 0:
            growing.tick()
            found |= violated(growing)
    return found


def test_a_standstill_is_reported_while_it_lasts() -> None:
    """b does not deliver. A third process hangs and its last row is older than the wait; after two rounds it holds up nothing."""
    later = "null time=29 | null time=32 | null time=33"
    stuck = {
        "a": f"view 1 a,b,c time=0 | accept time=20 | send time=20 | deliver a 1 time=21 | {later}",
        "b": f"view 1 a,b,c time=0 | {later}",
        "c": "view 1 a,b,c time=0",
    }
    rows = trace(stuck, bounds={"progress": 10})
    facts = list(facts_of(rows))
    growing = Growing("r0")
    growing.feed(fact for fact in facts if fact.time < 30)
    for _ in range(3):
        growing.tick()
    assert "progress" not in violated(growing)
    growing.feed(fact for fact in facts if fact.time < 33)
    growing.tick()
    (finding,) = [finding for finding in growing.findings() if finding.property == "progress"]
    assert finding.sentence == (
        "b does not deliver message 1 of a in g: it waits 12 ns while nothing disturbs the run; the bound is 10 ns"
    )
    growing.feed(facts)
    growing.finish()
    assert len([finding for finding in growing.findings() if finding.property == "progress"]) == 1


def test_a_disturbance_that_is_read_late_still_excuses() -> None:
    """c's history is read up to time 5 when the wait is over; its fault at 25 is read a round later."""
    cut = 'fault time=25 detail={"fault":"cut","length":2}'
    rows = trace(
        {
            "a": "view 1 a,b,c time=0 | accept time=20 | send time=20 | deliver a 1 time=21 | null time=60",
            "b": "view 1 a,b,c time=0 | deliver a 1 time=34 | null time=60",
            "c": f"view 1 a,b,c time=0 | null time=5 | deliver a 1 time=22 | {cut} | null time=60",
        },
        bounds={"progress": 10},
    )
    facts = list(facts_of(rows))
    growing = Growing("r0")
    growing.feed(fact for fact in facts if fact.process != "c" or fact.time <= 5)
    growing.tick()
    growing.feed(facts)
    for _ in range(3):
        growing.tick()
        assert "progress" not in violated(growing)


@pytest.mark.parametrize(
    ("name", "histories"),
    [
        ("sender-in-view", {"p": "view 1 p,q | view 2 p | deliver q 1", "q": "view 1 p,q | send"}),
        (
            "disjoint-views",
            {
                "p": 'view 1 p,q detail={"signatures":{"p":1}}',
                "q": 'view 2 p,q detail={"signatures":{"p":1}}',
            },
        ),
        ("unanimity", {"p": "view 1 p,q | reject q 1", "q": "view 1 p,q | send | deliver q 1"}),
        ("view-order", {"p": "view 1 p,q | view 2 p,q", "q": "view 1 p,q | view 3 p,q"}),
        ("view-atomicity", {"p": "view 1 p,q | send | deliver p 1 | view 2 p,q", "q": "view 1 p,q | view 2 p,q"}),
        ("fifo", {"p": "view 1 p,q | send | send", "q": "view 1 p,q | deliver p 2"}),
        (
            "identical",
            {
                "p": "view 1 p,q | send | deliver p 1 | deliver q 1",
                "q": "view 1 p,q | send | deliver q 1 | deliver p 1",
            },
        ),
        ("same-view", {"p": "view 1 p,q | send", "q": "view 1 p,q | view 2 p,q | deliver p 1"}),
        ("integrity", {"p": "view 1 p,q | deliver p 1"}),
        ("deadline", {"p": "view 1 p,q | send deadline=2", "q": "view 1 p,q | null | null | null | deliver p 1"}),
    ],
)
def test_each_is_found_while_everybody_still_runs(name: str, histories: dict[str, str]) -> None:
    """No history has an end; two ends of rounds are enough, and nothing is said that nobody did."""
    growing = Growing("r0")
    for fact in facts_of(trace(histories)):
        growing.feed([fact])
    growing.tick()
    growing.tick()
    assert name in violated(growing)


def test_a_violation_is_found_with_its_last_event(times: int) -> None:
    """Fed in the order in which things happened, up to its last event and not further, it is there after two ends of rounds."""
    looked_at = 0
    for seed in range(4 * times):
        for name, random in runs(seed):
            rows = table([random])
            (run,) = runs_of(rows)
            wanted = [each for each in decided(run) if each.property in ("integrity", "fifo", "total", "same-view", "view-order")]
            facts = as_they_happened(rows)
            for violation in wanted[:1]:
                if "no member" in violation.sentence or "never sent" in violation.sentence:
                    continue  # that there are members, or that nothing follows, may show later
                looked_at += 1
                places = [number for number, fact in enumerate(facts) if (fact.process, fact.index) in violation.events]
                assert violation.property in found_after(facts[: max(places) + 1]), (seed, name, violation)
    assert looked_at > 20


def as_they_happened(rows: pa.Table) -> list[Fact]:
    """The facts of all histories by time; each history in its own order, also where a mutation has moved its rows."""
    reached: dict[str, int] = {}
    timed = []
    for fact in facts_of(rows.sort_by([("process", "ascending"), ("index", "ascending")])):
        reached[fact.process] = max(reached.get(fact.process, 0), fact.time)
        timed.append((reached[fact.process], fact.process, fact.index, fact))
    return [fact for *_, fact in sorted(timed, key=lambda each: each[:3])]


def found_after(facts: Sequence[Fact]) -> set[str]:
    growing = Growing("x")
    growing.feed(facts)
    growing.tick()
    growing.tick()
    return violated(growing)


def test_order_and_repetition_of_facts_do_not_matter() -> None:
    for seed in range(3):
        for name, random in runs(seed)[:12]:
            facts = list(facts_of(table([random])))
            Random(seed).shuffle(facts)
            shuffled = Growing("x")
            shuffled.feed([*facts, *facts])
            shuffled.finish()
            assert violated(shuffled) == violated(grown(table([random]), f"{seed} {name}")), name
            assert shuffled.events == len(facts)


def test_a_state_that_was_put_away_goes_on_where_it_was() -> None:
    """The stream pickles it after each micro-batch."""
    for name, random in runs(1):
        rows = table([random])
        whole = grown(rows, name)
        growing = Growing("x")
        for portion in portions(rows, Random(name)):
            growing.feed(portion)
            growing = pickle.loads(pickle.dumps(growing))
        growing.finish()
        assert growing.to_json() == whole.to_json()


def test_what_depends_on_the_future_is_withdrawn() -> None:
    """identical speaks of processes that do not crash: a violation stands until one of the two does."""
    bad = {
        "p": "view 1 p,q | send | deliver p 1 | deliver q 1",
        "q": "view 1 p,q | send | deliver q 1 | deliver p 1",
    }
    growing = Growing("r0")
    growing.feed(facts_of(trace(bad)))
    (before,) = [finding for finding in growing.findings() if finding.property == "identical"]
    assert [str(condition) for condition in before.unless] == ["p crashes", "q crashes"]
    growing.feed([Fact("r0", "q", 4, "crash", 9)])
    assert "identical" not in violated(growing)
    assert "uniform" in violated(growing)
    assert [each["property"] for each in growing.to_json()["withdrawn"]] == ["identical"]


def test_a_hole_is_no_violation_if_the_sender_had_gone_its_way() -> None:
    """Who is excluded by the sender need not deliver what it missed: as in the reference, only the end decides."""
    parted = {
        "p": "view 1 p,q | send | view 2 p | send",
        "q": "view 1 p,q | deliver p 2",
    }
    growing = Growing("r0")
    growing.feed(facts_of(trace(parted)))
    for _ in range(3):
        growing.tick()
    assert "fifo" not in violated(growing)


def _long_run(count: int) -> Iterator[Fact]:
    """Two processes, each of which delivers everything; facts come message by message."""
    for process in ("p", "q"):
        yield Fact("r", process, 0, "view", 0, "g", 1, members=("p", "q"))
    places = {"p": 1, "q": 1}
    for seq in range(1, count + 1):
        yield Fact("r", "p", places["p"], "send", seq, "g", 1, "p", seq, digests=(seq,))
        places["p"] += 1
        for process in ("p", "q"):
            yield Fact("r", process, places[process], "deliver", seq, "g", 1, "p", seq, digests=(seq,))
            places[process] += 1


def test_memory_is_bounded_by_what_is_under_way() -> None:
    growing = Growing("r", Limits(kept=50, most=500))
    sizes = []
    for number, fact in enumerate(_long_run(2_000)):
        growing.feed([fact])
        if number % 100 == 0:
            growing.tick()
            sizes.append(len(pickle.dumps(growing)))
    assert len(growing.letters) <= 150
    assert max(sizes[len(sizes) // 2 :]) <= 1.1 * max(sizes[: len(sizes) // 2])
    assert growing.late == 0
    assert violated(growing) == set()


def test_what_comes_for_a_forgotten_message_is_counted_and_a_repetition_is_still_found() -> None:
    growing = Growing("r", Limits(kept=10, most=500))
    facts = list(_long_run(100))
    growing.feed(facts)
    growing.tick()
    growing.feed([Fact("r", "q", 101, "deliver", 200, "g", 1, "p", 3, digests=(3,))])
    assert growing.late == 1
    assert violated(growing) == {"integrity"}


def test_a_member_that_hangs_does_not_make_memory_grow_for_ever() -> None:
    growing = Growing("r", Limits(kept=10, most=200))
    growing.feed(fact for fact in _long_run(1_000) if fact.process == "p" or fact.kind == "view")
    growing.tick()
    assert len(growing.letters) <= 210
    assert growing.late > 0


def test_every_property_says_what_only_the_end_decides() -> None:
    told = Growing("r0")
    told.feed(facts_of(trace({"p": "view 1 p | send | deliver p 1"}, promises=["integrity", "validity", "same-view"])))
    properties = told.to_json()["properties"]
    assert {name: each["state"] for name, each in properties.items()} == {
        "integrity": "holds",
        "validity": "open",
        "same-view": "holds",
    }


def test_hand_written_traces_are_judged_as_by_the_reference() -> None:
    """Every smallest way of breaking a property, and the correct runs that look like it."""
    differing = []
    for case in CATALOGUE:
        if case.property not in DECIDED:
            continue
        rows = case.table("x")
        (run,) = runs_of(rows)
        expected = {violation.property for violation in decided(run)} & {case.property}
        mine = violated(grown(rows, case.name)) & {case.property}
        if mine != expected:
            differing.append(f"{case.name}: here {mine or 'nothing'}, the reference {expected or 'nothing'}")
    assert not differing, "\n".join(differing)


@pytest.mark.parametrize("scenario", ["newtop-partition", "rtcast-partition", "join-and-leave"])
def test_runs_of_protocols_are_judged_as_by_the_reference(scenario: str, tmp_path: Path) -> None:
    """All properties, promised or not, with the portions and rounds of somebody who follows."""
    assert main(["run", scenario, "--out", str(tmp_path / "out"), "--no-verify"]) == 0
    rows = read(tmp_path / "out").table
    (run,) = runs_of(rows)
    growing = Growing("x")
    for number, portion in enumerate(portions(rows, Random(scenario))):
        growing.feed(portion)
        if number % 50 == 0:
            growing.tick()
    growing.finish()
    assert violated(growing) == {violation.property for violation in decided(run)}
    assert growing.late == 0


@pytest.mark.parametrize("rounds", [2, 0])
def test_who_judges_before_everything_is_read_accuses_the_innocent(rounds: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """p has excluded q before it sends on, but that is read a round later than q's delivery: two ends of rounds have to pass. The
    mutant does not wait."""
    monkeypatch.setattr(order, "ROUNDS", rounds)
    facts = list(facts_of(trace({"p": "view 1 p,q | send | view 2 p | send", "q": "view 1 p,q | deliver p 2"})))
    growing = Growing("r0")
    growing.feed(fact for fact in facts if fact.process == "q" or fact.index < 2)
    growing.tick()
    growing.feed(facts)
    growing.tick()
    growing.tick()
    assert ("fifo" in violated(growing)) == (rounds == 0)


def test_a_reader_that_starts_anew_may_join_other_rows_together() -> None:
    """A stream that continues has rows of which it is told again, in other portions."""
    others = [Fact("r", "p", 1, "others", 1, count=2), Fact("r", "p", 1, "others", 1, count=5)]
    growing = Growing("r")
    growing.feed([Fact("r", "p", 0, "start", 0), others[0], Fact("r", "p", 4, "others", 1, count=4)])
    assert (growing.events, growing.early) == (3, 1)
    growing.feed([others[1]])
    assert (growing.events, growing.early) == (8, 0), "all that is known, each row once"
    growing.feed([Fact("r", "p", 8, "end", 2)])
    assert growing.events == 9
