"""Merged partials give the figures of whole runs; percentiles of very many values are as near as is stated."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.errors import PySparkException

from plainchant.lab.arrays import percentile
from plainchant.lab.metrics import COLUMNS, METRICS, measure, samples
from plainchant.lab.metrics.detections import match
from plainchant.lab.metrics.frames import DetectionsOfRuns, MetricsOfRuns
from plainchant.lab.metrics.merged import Incomplete, Merged, is_whole
from plainchant.lab.metrics.partials import Partial, Source
from plainchant.lab.metrics.samples import ERROR, Sample, from_bytes, rounded, spread, to_bytes
from plainchant.lab.standstills import standstills
from plainchant.lab.verify import verify, verify_here
from plainchant.lab.verify.beside import AGAIN, APART, Rows
from plainchant.trace import SCHEMA, read
from tests.lab.layouts import LAYOUTS, ORDER, written
from tests.lab.metrics.test_metrics import assert_same, random_trace, simulated
from tests.lab.random_traces import random_run
from tests.lab.random_traces import table as table_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SCENARIOS = (
    "first-steps",
    "slow-member",
    "sequencer-crash",
    "rtcast-realtime",
    "rtcast-join",
    "mailbox-timing",
    "newtop-overlapping",
)


def pieces(trace: pa.Table, random: Random) -> list[pa.Table]:
    """A trace in its order, cut anywhere; the pieces in any order."""
    cuts = sorted({0, trace.num_rows, *(random.randint(0, trace.num_rows) for _ in range(random.randint(0, 4)))})
    ordered = trace.sort_by(ORDER).select(COLUMNS)
    found = [ordered.slice(begin, end - begin) for begin, end in pairwise(cuts)]
    random.shuffle(found)
    return found


def partials(tables: Sequence[pa.Table], *, everything: bool) -> dict[str, list[Partial]]:
    """By run, as they arrive where they are merged."""
    found: dict[str, list[Partial]] = {}
    for table in tables:
        source = Source(Rows(table))
        for place, run in enumerate(source.runs):
            shipped = to_bytes(source.partial(place, everything=everything).shipped())
            found.setdefault(run, []).append(from_bytes(shipped))
    return found


def figures(parts: Mapping[str, Sequence[Partial]]) -> list[dict[str, Any]]:
    return [row for run in sorted(parts) for row in Merged(run, parts[run]).metrics()]


def in_pieces(tables: Sequence[pa.Table]) -> tuple[list[dict[str, Any]], bool]:
    """The figures, and whether partials had to be made again with everything in them."""
    parts = partials(tables, everything=False)
    assert all(map(is_whole, parts.values()))
    try:
        return figures(parts), False
    except Incomplete:
        return figures(partials(tables, everything=True)), True


def made(count: int, seed: int = 22) -> Iterator[pa.Table]:
    random = Random(seed)
    for number in range(count):
        yield random_trace(random, f"r{number:03}")
        yield table_of([random_run(number, f"s{number:03}")])


# --- agreement --------------------------------------------------------------------------------------------------------


def test_runs_in_pieces_have_the_figures_of_whole_runs() -> None:
    random = Random("pieces")
    again = 0
    for trace in made(80):
        if trace.num_rows:
            found, was_incomplete = in_pieces(pieces(trace, random))
            assert known(found) == known(measure(trace).to_pylist())
            again += was_incomplete
    assert again, "no random trace needed what its pieces had left out"


def known(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The figures that are not null, so that what is left out of a row is null in it."""
    return [{name: value for name, value in row.items() if value is not None} for row in rows]


@pytest.mark.parametrize("name", SCENARIOS)
def test_simulated_runs_in_pieces_have_the_figures_of_whole_runs(name: str) -> None:
    trace = simulated(name)
    wanted = known(measure(trace).to_pylist())
    for seed in range(3):
        assert known(in_pieces(pieces(trace, Random(seed)))[0]) == wanted


def test_the_longest_standstill_is_that_of_the_stories() -> None:
    for trace in made(60, seed=5):
        longest: dict[str, int] = {}
        for each in standstills(trace) if trace.num_rows else ():
            longest[each.group] = max(each.length, longest.get(each.group, 0))
        told = {row["group"]: row["standstill_max_ns"] for row in measure(trace).to_pylist()}
        assert {group: length for group, length in told.items() if length is not None} == longest


def replaced(part: Partial, **tables: Callable[[Any], Any]) -> Partial:
    """A partial in which each entry of some tables is another."""
    changed: dict[str, Any] = {
        name: {key: change(each) for key, each in getattr(part, name).items()} for name, change in tables.items()
    }
    return dataclasses.replace(part, **changed)


def without_last(sample: Sample) -> Sample:
    return Sample.of(sample.values()[:-1]) if sample.total > 1 else sample


MUTANTS: dict[str, Callable[[Partial], Partial]] = {
    "a latency is lost": lambda part: replaced(part, latencies=without_last),
    "a delivery is counted twice": lambda part: replaced(part, delivers=lambda each: each._replace(rows=each.rows + 1)),
    "sizes are not summed": lambda part: replaced(part, sends=lambda each: each._replace(size=0)),
    "kinds of rows are lost": lambda part: dataclasses.replace(part, kinds={}),
    "the first moment is late": lambda part: replaced(part, first=lambda at: at + 1),
    "the token's turns end with their pieces": lambda part: replaced(part, turns=lambda each: each._replace(last=None)),
    "openings close": lambda part: replaced(part, blocks=lambda each: each._replace(closing=~each.closing)),
    "stable rows stand first": lambda part: replaced(part, stability=lambda each: each._replace(before=each.before * 0)),
    "nothing stands still": lambda part: replaced(
        part, deliveries=lambda each: each._replace(floor=0, gaps=each.gaps * 0, first=each.last)
    ),
    "accepts are lost": lambda part: dataclasses.replace(part, accepts={}),
    "histories end early": lambda part: replaced(part, ends=lambda each: each._replace(time=0, true_time=None, clock=0)),
    "deliveries' own deadlines are lost": lambda part: dataclasses.replace(part, lateness={}),
    "sends' deadlines are lost": lambda part: dataclasses.replace(part, due={}),
    "the story is lost": lambda part: dataclasses.replace(part, story=[]),
    "arrivals are lost": lambda part: dataclasses.replace(part, arrivals={}),
}


@pytest.mark.parametrize("mutant", MUTANTS)
def test_a_mutated_partial_is_caught(mutant: str) -> None:
    random = Random("mutants")
    for trace in made(100):
        if trace.num_rows:
            parts = partials(pieces(trace, random), everything=True)
            wrong = {run: [MUTANTS[mutant](part) for part in each] for run, each in parts.items()}
            if known(figures(wrong)) != known(measure(trace).to_pylist()):
                return
    raise AssertionError("the figures were the same in all traces")


def test_pieces_that_do_not_make_whole_histories_are_told() -> None:
    trace = simulated("first-steps").sort_by(ORDER).select(COLUMNS)
    one, other = trace.slice(0, 500), trace.slice(500)

    def settled(*tables: pa.Table) -> bytes:
        return MetricsOfRuns().settled("first-steps", partials(tables, everything=False)["first-steps"])

    assert settled(one, other) == settled(other, one) not in (APART, AGAIN)
    for tables in ([one, other, one], [one.slice(0, 499), other], [other], [one, one.slice(499), other]):
        assert settled(*tables) == APART
    mixed = trace.take(pa.array(Random(1).sample(range(trace.num_rows), trace.num_rows)))
    assert settled(mixed) == settled(one, other)
    assert settled(mixed.slice(0, 900), mixed.slice(900)) == APART


# --- both engines, and rows as they come ---------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def proper() -> pa.Table:
    """Runs that validation accepts."""
    runs = [random_run(seed, f"r{seed:03}") for seed in range(25)]
    return pa.concat_tables([table_of(runs), simulated("rtcast-realtime"), simulated("slow-member")])


@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_layout_has_the_same_figures_in_both_engines(
    layout: str, proper: pa.Table, tmp_path: Path, spark: SparkSession
) -> None:
    path = written(layout, proper, tmp_path)
    for beside, wanted in ((MetricsOfRuns(), measure(proper)), (DetectionsOfRuns(), match(proper))):
        here, there = dict[str, bytes](), dict[str, bytes]()
        assert not verify_here([path], [], beside=beside, results=here).malformed
        assert_same(beside.table(here), wanted)
        small = partial(verify, spark, chunk_rows=900, least_rows=900, large_rows=2_000)
        assert not small([path], [], beside=beside, results=there).malformed
        assert_same(beside.table(there), wanted)


def test_what_pieces_left_out_is_asked_for_again(tmp_path: Path, spark: SparkSession) -> None:
    """One process sends with deadlines and delivers nothing, and the others' rows, which have none, are in other files."""
    start: dict[str, Any] = {"kind": "start", "group": None}
    view: dict[str, Any] = {"kind": "view", "group": "g", "view": 1, "members": ["p", "q"]}
    sends = [{"kind": "send", "group": "g", "view": 1, "sender": "p", "seq": seq, "deadline": 10 * seq} for seq in range(1, 9)]
    delivers = [{"kind": "deliver", "group": "g", "view": 1, "sender": "p", "seq": seq} for seq in range(1, 8)]
    for process, messages in (("p", sends), ("q", delivers)):
        events: list[dict[str, Any]] = [start, view, *messages]
        rows = [{"run": "r", "process": process, "index": at, "time": 7 * at, **row} for at, row in enumerate(events)]
        pq.write_table(pa.Table.from_pylist(rows, schema=SCHEMA), tmp_path / f"{process}.parquet")
    results: dict[str, bytes] = {}
    verify(spark, [str(tmp_path)], [], chunk_rows=8, least_rows=8, beside=MetricsOfRuns(), results=results)
    assert_same(MetricsOfRuns().table(results), measure(read(str(tmp_path)).table))
    assert MetricsOfRuns().table(results).column("due").to_pylist() == [7 + 6], "what p owed itself when its history ended too"
    apart = [pq.read_table(tmp_path / f"{process}.parquet").select(COLUMNS) for process in "pq"]
    assert MetricsOfRuns().settled("r", partials(apart, everything=False)["r"]) == AGAIN


@pytest.mark.parametrize("defect", ["a file that is there twice", "a gap", "an index that stands twice"])
def test_malformed_runs_in_pieces_have_no_figures(defect: str, tmp_path: Path, spark: SparkSession) -> None:
    trace = simulated("first-steps").sort_by(ORDER)
    head, tail = trace.slice(0, 1_000), trace.slice(1_000)
    tables = {"a file that is there twice": [head, tail, head], "a gap": [head.slice(0, 999), tail]}
    for number, table in enumerate(tables.get(defect, [head, tail, trace.slice(700, 1)])):
        pq.write_table(table, tmp_path / f"{number}.parquet", row_group_size=400)
    for verifying in (verify_here, partial(verify, spark, chunk_rows=500, least_rows=500)):
        results: dict[str, bytes] = {}
        assert verifying([str(tmp_path)], [], beside=MetricsOfRuns(), results=results).malformed


def test_a_dataframe_gives_a_dataframe_lazily(proper: pa.Table, spark: SparkSession) -> None:
    trace = spark.createDataFrame(
        proper.take(pa.array(Random(2).sample(range(proper.num_rows), proper.num_rows))).combine_chunks()
    )
    found = MetricsOfRuns().frame(trace)
    assert found.columns == METRICS.names
    assert found.where("deliveries > 0 and run like 'r0%'").count() == sum(
        row["deliveries"] > 0 and row["run"].startswith("r0") for row in measure(proper).to_pylist()
    )
    assert_same(MetricsOfRuns().of_frame(trace), measure(proper))
    with pytest.raises(PySparkException, match="missing or repeated"):
        MetricsOfRuns().frame(trace.where("index != 3")).collect()


# --- very many values -------------------------------------------------------------------------------------------------


def spreads(values: np.ndarray[Any, Any], cuts: int) -> dict[str, int | None]:
    return spread("latency", [Sample.of(part) for part in np.array_split(values, cuts)])


@pytest.mark.parametrize("seed", range(6))
def test_percentiles_of_many_values_are_as_near_as_is_stated(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    random = np.random.default_rng(seed)
    drawn = random.choice(
        [random.lognormal(12, 3, 20_000), random.normal(0, 10.0**seed, 20_000), random.integers(-9, 2_000, 20_000)]
    )
    values = drawn.astype(np.int64)
    exact = spreads(values, 7)
    monkeypatch.setattr(samples, "EXACT_BELOW", len(values))
    near = spreads(values, 7)
    ordered = np.sort(values)
    for name, percent in zip(exact, (50, 90, 99), strict=False):
        told, wanted = near[name], percentile(ordered, percent)
        assert exact[name] == wanted
        place = (len(values) - 1) * percent // 100
        between = np.abs(ordered[place : place + 2]).max()
        assert told is not None
        assert abs(told - wanted) <= ERROR * between + 1
    assert near["latency_max_ns"] == exact["latency_max_ns"] == values.max()
    shipped = [from_bytes(to_bytes(Sample.of(part).shipped())) for part in np.array_split(values, 3)]
    assert spread("latency", shipped) == near, "it does not depend on how values were shared out"


def test_rounding_keeps_order_and_sign_and_is_as_near_as_is_stated() -> None:
    edges = [(1 << bits) + off for bits in range(62) for off in (-1, 0, 1)]
    values = np.array(sorted({*edges, *(-each for each in edges)}), np.int64)
    near = rounded(values)
    assert np.all(np.diff(near) >= 0)
    assert np.array_equal(np.sign(near), np.sign(values))
    assert np.all(np.abs(near - values) <= np.abs(values) * ERROR)
    assert np.array_equal(rounded(near), near)


def test_a_coarser_rounding_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(samples, "BITS", 9)
    with pytest.raises(AssertionError):
        test_rounding_keeps_order_and_sign_and_is_as_near_as_is_stated()


def test_a_run_with_many_values_has_near_percentiles_and_all_else_exactly(monkeypatch: pytest.MonkeyPatch) -> None:
    trace = simulated("slow-member")
    (exact,) = measure(trace).to_pylist()
    monkeypatch.setattr(samples, "EXACT_BELOW", exact["deliveries"])
    (near,) = measure(trace).to_pylist()
    differing = {name for name in METRICS.names if near[name] != exact[name]}
    assert differing
    assert differing <= {f"{time}_p{percent}_ns" for time in ("latency", "overhead") for percent in (50, 90, 99)}
    assert all(abs(near[name] - exact[name]) <= ERROR * exact["latency_max_ns"] for name in differing)
    (in_parts,) = in_pieces(pieces(trace, Random(4)))[0]
    assert known([in_parts]) == known([near])
