"""Properties of single messages and rows: in a large run they are decided by a few rows, as by the reference on the whole run.

Equal must be cases and violations of every property, and each violation's sentence, events and messages. Small runs are taken for
large ones; each hand-written case also stands in a long correct run, whose processes and group are others.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from plainchant.core.model import SECOND
from plainchant.lab.properties import PROPERTIES, verify
from plainchant.lab.properties.catalogue import CATALOGUE as CHECKS
from plainchant.lab.properties.narrowing.narrow import NARROWED
from plainchant.lab.properties.proof import ON_SKELETON
from plainchant.trace.properties import BLOCK_PROPERTIES
from plainchant.trace.schema import SCHEMA
from tests.lab.properties import blocks_all
from tests.lab.properties.test_progress import CHANGES, run, scenario
from tests.trace.build import trace

from ..agreement import check_narrowed, differences
from ..catalogue import CATALOGUE, Case
from ..layouts import ORDER
from ..mailbox_traces import mailbox_run
from ..mutations import CAUGHT, HARMLESS, histories_of, mutated
from ..overlapping_traces import trace as overlapping
from ..random_traces import RandomRun, table
from .test_deadlines import ring_run
from .test_narrowing import flat

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ASKED = tuple(name for name, checks in CHECKS.items() if checks.question is not None)
"""Properties that a few rows decide."""

SEARCHED = frozenset(
    {
        *(
            "prompt: it waits for one that never comes, until it crashes",
            "prompt: it waits for a message of a sender without rows",
        ),
        "prompt: what it waits for was sent in a group that it has left",
        "prompt: an outsider's first message waits, and the process crashes",
        "deadline: late by the global clock, the receiver's own being behind",
        "progress: a member of a group without views never delivers, others do",
        "progress: nobody delivers a message of a process that only sends",
        "progress: a message is larger than bounds are for",
        "bounded: larger messages are not bounded",
        "bounded: a message is taken late and then delivered at once",
        "bounded: a message is delivered too long after it was accepted",
        "bounded: a message is delivered in the last nanosecond after it was accepted",
        "bounded: a process with a timing fault delivers long after the accept, and others what it sends",
        "bounded: a message of which no row says when it was accepted",
        "bounded: a message that is accepted and not delivered",
    }
)
"""Cases that are searched whole: causes that a process lacks, clocks that go back, groups whose members nothing tells, messages
that are too large for their bounds, and bounds that count from acceptance."""

MUTATIONS = CAUGHT + HARMLESS


def agrees(rows: pa.Table, unit: int, properties: list[str] | None) -> set[str]:
    """The properties that are searched whole though a few rows could decide them; fails where the results differ."""
    found, before = check_narrowed(rows, unit, properties)
    reference = verify(rows, properties)
    assert differences(found.to_json(), reference.to_json()) == []
    assert found.violations == reference.violations
    return {name for each in before.values() for name in each.doubtful} & set(ASKED)


def among_others(rows: pa.Table, messages: int) -> pa.Table:
    """A run with a long correct one beside it."""
    other = flat(messages, prefix="z")
    long = table([RandomRun("r0", other.histories, [])])
    group = pa.array(["z" if group else None for group in long.column("group").to_pylist()], pa.string())
    long = long.set_column(long.column_names.index("group"), "group", group)
    return pa.concat_tables([rows, long.select(SCHEMA.names).cast(rows.schema)]).sort_by(ORDER)


def block_cases() -> Iterator[tuple[str, Mapping[str, str]]]:
    yield from ((f"{about}: {name}", histories) for name, about, histories, _ in blocks_all.BAD)
    yield from ((f"{about}: {name}", histories) for name, about, histories in (*blocks_all.GOOD, *blocks_all.NOTHING))


def test_every_property_is_decided_by_part_of_a_large_run() -> None:
    assert {*ON_SKELETON, *NARROWED, *ASKED} == set(PROPERTIES)
    assert set(ASKED) == {"unanimity", "deadline", "bounded", "progress", "prompt", *BLOCK_PROPERTIES}


@pytest.mark.parametrize("case", [case for case in CATALOGUE if case.property in ASKED], ids=lambda case: str(case.name))
def test_hand_written_cases_need_a_few_rows(case: Case) -> None:
    left = agrees(case.table().sort_by(ORDER), 5, [case.property])
    assert bool(left) == (case.name in SEARCHED)
    if case.property != "progress":  # the other run would be disturbed by faults, and disturb by its views
        left = agrees(among_others(case.table(), 60), 50, [case.property])
        assert not left or case.name in SEARCHED


@pytest.mark.parametrize(("name", "histories"), list(block_cases()), ids=lambda value: value if isinstance(value, str) else "")
def test_blocks_need_their_own_rows(name: str, histories: Mapping[str, str]) -> None:
    assert agrees(among_others(trace(histories), 60), 50, list(BLOCK_PROPERTIES)) == set()


@pytest.mark.parametrize("rows", [97, 1_000_000])
@pytest.mark.parametrize("fault", ["late", "slow"])
def test_one_miss_in_a_long_run_is_decided_by_its_own_rows(fault: str, rows: int) -> None:
    made = ring_run(200, **{fault: True}).sort_by(ORDER)
    assert agrees(made, rows, None) == set()
    assert agrees(made, rows, ["deadline", "bounded"]) == set()


def long_runs() -> dict[str, tuple[RandomRun, list[str]]]:
    """Correct runs of several kinds, and which of the properties have cases in them."""
    real = run(scenario("sequencer", 4, *CHANGES), within=2 * SECOND, answered=2 * SECOND)
    kinds = {
        "ring": (ring_run(60), ["deadline", "bounded"]),
        "mailbox": (table([mailbox_run(5, "r0", messages=120, joins=True)]), ["unanimity", "bounded"]),
        "causal": (overlapping("chain", "causal", 2_000), ["prompt"]),
        "real": (real, ["progress"]),
    }
    return {name: (RandomRun(name, histories_of(rows), []), names) for name, (rows, names) in kinds.items()}


@pytest.fixture(scope="module")
def runs() -> dict[str, tuple[RandomRun, list[str]]]:
    return long_runs()


@pytest.mark.sweep
@pytest.mark.parametrize("kind", ["ring", "mailbox", "causal", "real"])
def test_long_runs_with_mistakes_agree(kind: str, runs: dict[str, tuple[RandomRun, list[str]]], times: int) -> None:
    correct, names = runs[kind]
    seen, left = Counter[str](), Counter[str]()
    for seed in range(len(MUTATIONS) * times):
        random, changed = Random(f"{kind} {seed}"), correct
        for number in range(1 + seed % 2):
            mutation = MUTATIONS[(seed + 7 * number) % len(MUTATIONS)]
            changed = mutated(random, changed, f"r{seed}", mutation) or changed
        rows = table([changed]).sort_by(ORDER)
        left.update(agrees(rows, random.choice((53, 311)), random.choice((names, list(ASKED)))))
        seen["runs"] += 1
    print(kind, seen, left)
    assert all(left[name] <= seen["runs"] // 3 for name in names), left


@pytest.mark.sweep
@pytest.mark.parametrize("about", ASKED)
def test_a_violation_among_a_hundred_thousand_rows(about: str, times: int) -> None:
    """And among a million, if the sweep is long."""
    bad = [case.table() for case in CATALOGUE if (case.property, case.expected) == (about, "violated")]
    bad += [trace(histories) for _, name, histories, _ in blocks_all.BAD if name == about]
    rows = among_others(bad[0], 20_000 if times < 4 else 200_000)
    assert rows.num_rows > 90_000
    assert agrees(rows, 50_000, [about]) == set()
    assert verify(rows, [about]).verdict == "violated"


@pytest.mark.parametrize("way", ["paths", "frame"])
@pytest.mark.parametrize("chunk_rows", [10**6, 300], ids=["in one task", "over tasks"])
def test_spark_fetches_a_few_rows(spark: SparkSession, tmp_path: Path, chunk_rows: int, way: str) -> None:
    from plainchant.lab.verify import frame
    from plainchant.lab.verify import verify as verify_on_spark
    from plainchant.lab.verify.results import Options

    bad = [case for case in CATALOGUE if case.property in ASKED and case.expected == "violated" and case.name not in SEARCHED]
    tables = [among_others(case.table(), 40) for case in bad[:: max(1, len(bad) // 12)]]
    tables += [among_others(trace(histories), 40) for _, _, histories, _ in blocks_all.BAD[::12]]
    tables += [ring_run(40, late=True), ring_run(40, slow=True)]
    names = [pa.array([f"r{number:02d}"] * each.num_rows) for number, each in enumerate(tables)]
    place = SCHEMA.names.index("run")
    chosen = [each.select(SCHEMA.names).cast(SCHEMA) for each in tables]
    rows = pa.concat_tables([each.set_column(place, SCHEMA.field("run"), n) for each, n in zip(chosen, names, strict=True)])
    rows = rows.sort_by(ORDER)
    pq.write_table(rows, tmp_path / "t.parquet", row_group_size=150)
    reference = verify(rows, list(ASKED))
    if way == "paths":
        found = verify_on_spark(spark, [str(tmp_path)], list(ASKED), chunk_rows=chunk_rows, least_rows=1, large_rows=100)
    else:
        results = frame.results(spark.read.parquet(str(tmp_path)), Options(tuple(ASKED), 20, 100))
        found = frame.verification_in(results, list(ASKED))
    assert differences(found.to_json(), reference.to_json()) == []
    assert pc.count_distinct(rows.column("run")).as_py() == len(tables)
