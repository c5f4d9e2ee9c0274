"""The live verdict on Spark: the same as without it, whatever the order in which files come, and bounded on disk."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest

from plainchant.lab.errors import LabError
from plainchant.lab.properties.growing import Growing
from plainchant.lab.watch.stream import LiveVerdict, Staging, State, _thinned
from plainchant.trace.fact import Fact, facts_of
from plainchant.trace.spool import file_name
from tests.lab.mutations import duplicate_delivery, mutated, swap_neighbours
from tests.lab.random_traces import random_run, table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PATIENCE = 120.0


def eventually(condition: Callable[[], bool], what: Callable[[], object]) -> None:
    """Waits until it is so; never for a fixed time."""
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end, what()
        time.sleep(0.05)


def test_the_stream_says_what_the_checkers_say(spark: SparkSession, tmp_path: Path) -> None:
    """Two runs at once, a good one and a spoilt one, in portions; a violation is there before its run has ended."""
    spoilt = mutated(Random(3), random_run(3), "spoilt", duplicate_delivery)
    assert spoilt is not None
    facts = sorted(facts_of(table([random_run(5, "good"), spoilt])), key=lambda fact: (fact.time, fact.process, fact.index))
    expected = {name: Growing(name) for name in ("good", "spoilt")}
    for fact in facts:
        expected[fact.run].feed([fact])
    last = max(finding.time for finding in expected["spoilt"].findings())
    before = [fact for fact in facts if fact.time <= last or fact.kind != "end"]
    after = [fact for fact in facts if not (fact.time <= last or fact.kind != "end")]
    state = State(tmp_path)
    staging = state.staging
    with contextlib.closing(state), LiveVerdict(spark, state, interval=0.1) as verdict:
        for first in range(0, len(before), 40):
            staging.write(before[first : first + 40])
        eventually(lambda: bool(verdict.runs.get("spoilt", {}).get("violations")), lambda: (verdict.problem, verdict.runs))
        shown = verdict.runs["spoilt"]
        assert not shown["over"]
        assert shown["violations"][0]["property"] == "integrity"
        assert shown["judged"] > 0
        staging.write(after)
        eventually(
            lambda: (
                {name: told["events"] for name, told in verdict.runs.items()}
                == {name: growing.events for name, growing in expected.items()}
            ),
            lambda: (verdict.problem, verdict.runs),
        )
        for name, growing in expected.items():
            wanted = json.loads(json.dumps(growing.to_json()))
            assert {key: verdict.runs[name][key] for key in ("properties", "violations", "over", "events")} == {
                key: wanted[key] for key in ("properties", "violations", "over", "events")
            }
        assert verdict.problem is None
    assert len(list((tmp_path / "facts").glob("*.parquet"))) < len(before) // 40, "files that are done are deleted"


def test_a_later_stream_on_the_same_state_continues(spark: SparkSession, tmp_path: Path) -> None:
    """The first sees the violation; then the spools lose their beginning; then they are read again from the start."""
    spoilt = mutated(Random(3), random_run(3), "spoilt", duplicate_delivery)
    assert spoilt is not None
    facts = sorted(facts_of(table([spoilt])), key=lambda fact: (fact.time, fact.process, fact.index))
    whole = Growing("spoilt")
    whole.feed(facts)
    last = max(finding.time for finding in whole.findings())
    shown = [fact for fact in facts if fact.time <= last or fact.kind != "end"][:-10]
    assert [fact for fact in facts if fact not in shown]
    read_in_turn = [shown, [fact for fact in facts if fact not in shown][:5], facts]
    growing = Growing("spoilt")
    told: list[dict[str, Any]] = []
    for facts_now in read_in_turn:
        with contextlib.closing(State(tmp_path)) as state, LiveVerdict(spark, state, interval=0.1) as verdict:
            if told:
                assert verdict.runs["spoilt"]["violations"] == told[-1]["violations"], "known before anything is read"
            state.staging.write(facts_now)
            growing.feed(facts_now)
            eventually(
                lambda: verdict.is_warm and verdict.runs.get("spoilt", {}).get("events", 0) == growing.events,
                lambda: (verdict.problem, verdict.runs),
            )
            told.append(verdict.runs["spoilt"])
    wanted = json.loads(json.dumps(whole.to_json()))
    assert {key: told[-1][key] for key in ("properties", "violations", "events")} == {
        key: wanted[key] for key in ("properties", "violations", "events")
    }


KILLED = """
import sys, time
from pathlib import Path
import pyarrow.parquet as pq
from plainchant.lab.session import session
from plainchant.lab.watch.stream import LiveVerdict, State
from plainchant.trace.fact import facts_of

trace, directory, known = sys.argv[1:]
facts = sorted(facts_of(pq.read_table(trace)), key=lambda fact: (fact.time, fact.process, fact.index))
with session("local[2]", memory="1g", quick=True) as spark:
    state = State(directory)
    with LiveVerdict(spark, state, interval=0.1) as verdict:
        while not verdict.is_warm:
            time.sleep(0.05)
        for first in range(0, int(known)):
            state.staging.write(facts[first : first + 1])
            while first == int(known) // 2 and not verdict.runs:
                time.sleep(0.05)
        Path(trace).unlink()
        while True:
            time.sleep(1)
"""


def test_a_stream_that_is_killed_is_continued_by_the_next(spark: SparkSession, tmp_path: Path) -> None:
    """The process and its JVM are killed when some facts are judged and others wait; their spools are gone afterwards."""
    spoilt = mutated(Random(3), random_run(3), "spoilt", duplicate_delivery)
    assert spoilt is not None
    trace, directory = tmp_path / "spoilt.parquet", tmp_path / "state"
    pq.write_table(table([spoilt]), trace)
    facts = sorted(facts_of(table([spoilt])), key=lambda fact: (fact.time, fact.process, fact.index))
    known = len(facts) * 2 // 3
    whole = Growing("spoilt")
    whole.feed(facts)
    verdicts = directory / "verdicts" / f"{file_name('spoilt')}.json"
    command = [sys.executable, "-c", KILLED, str(trace), str(directory), str(known)]
    with subprocess.Popen(command, start_new_session=True) as process:
        try:
            eventually(lambda: not trace.exists() or process.poll() is not None, lambda: "all facts, of which some are judged")
            assert process.poll() is None
        finally:
            os.killpg(process.pid, signal.SIGKILL)
    judged = json.loads(verdicts.read_text())["events"]
    assert 0 < judged <= sum(fact.count for fact in facts[:known])
    with contextlib.closing(State(directory)) as state, LiveVerdict(spark, state, interval=0.1) as verdict:
        state.staging.write(facts[known:])
        eventually(
            lambda: verdict.runs["spoilt"]["events"] == whole.events,
            lambda: (verdict.problem, verdict.runs),
        )
        wanted = json.loads(json.dumps(whole.to_json()))
        assert {key: verdict.runs["spoilt"][key] for key in ("properties", "violations", "events")} == {
            key: wanted[key] for key in ("properties", "violations", "events")
        }


def test_a_state_is_one_streams_at_a_time_and_of_one_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with contextlib.closing(State(tmp_path)), pytest.raises(LabError, match="another watch keeps its state"):
        State(tmp_path)
    State(tmp_path).close()
    monkeypatch.setattr("plainchant.lab.watch.stream.code_digest", lambda: "other")
    with pytest.raises(LabError, match="of other code of plainchant's"):
        State(tmp_path)


def test_facts_that_nobody_judges_only_count() -> None:
    kinds = ["start", "null", "null", "receive", "view", "null"]
    facts = [Fact("r", "p", index, kind, index) for index, kind in enumerate(kinds)]
    thinned = list(_thinned(facts))
    assert [(fact.kind, fact.index, fact.count) for fact in thinned] == [
        ("start", 0, 1),
        ("others", 1, 3),
        ("view", 4, 1),
        ("others", 5, 1),
    ]


def test_thinning_changes_no_verdict() -> None:
    for seed in range(6):
        run = mutated(Random(seed), random_run(seed), "x", swap_neighbours)
        if run is None:
            continue
        whole, thin = Growing("x"), Growing("x")
        histories: dict[str, list[Fact]] = {}
        for fact in facts_of(table([run])):
            histories.setdefault(fact.process, []).append(fact)
        for own in histories.values():
            whole.feed(own)
            thin.feed(_thinned(own))
        assert thin.to_json() == whole.to_json()


def test_a_round_without_facts_is_told_only_while_somebody_may_wait_for_it(tmp_path: Path) -> None:
    staging = Staging(tmp_path)
    staging.write([])
    assert list(tmp_path.iterdir()) == []
    staging.write([Fact("r", "p", 0, "start", 1)])
    for _ in range(10):
        staging.write([])
    assert len(list(tmp_path.glob("*.parquet"))) == 3
