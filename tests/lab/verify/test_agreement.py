"""Thousands of small random traces, correct and mutated, and long ones of the simulator: all verifiers say the same.

The reference verifier is the measure. Equal must be, for each property, the runs and events it was checked in, the cases and
the violations, and the set of (run, property) pairs that are violated. There are 400 random runs, up to two come with each that
are mutated in one place and in two, and ``pytest --times N`` makes them N times 1,000. Spark, which runs the check of tasks on
many runs at once, is given every second hundred, and so are runs torn into pieces.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from plainchant.lab.properties import PROPERTIES, Verification, verify
from plainchant.lab.properties.certificates.unit import Unit
from plainchant.lab.verify.check import check, proved
from plainchant.trace.properties import BLOCK_PROPERTIES
from plainchant.trace.validation import validate
from tests.protocols.sequencer import sweep

from ..agreement import check_in_pieces, differences, run_differences, summed
from ..layouts import ORDER, written
from ..mutations import CAUGHT, HARMLESS, Mutation, histories_of, mutated
from ..random_traces import RandomRun, random_run, table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.sweep

RUNS = 1_000
SHORT = 400
"""What ``make test`` has of them."""
EVERYTHING = list(PROPERTIES)
OF_PROTOCOLS = set(PROPERTIES) - set(BLOCK_PROPERTIES)
FEATURES = (
    *("total", "grouped", "causal", "fifo", "overlapping", "no views", "outsider", "unobserved", "join", "leave", "crash"),
    *("cut", "partition", "merge", "never healed", "readmission", "incarnation", "deadlines", "bounds", "block", "not drained"),
    *("concurrent numbers", "hopes", "turns", "detections", "completed sends", "sizes", "waits"),
)


class Corpus:
    """The random runs of this session in tables of a hundred, and what the reference says of each."""

    def __init__(self, runs: int) -> None:
        self.correct = [random_run(seed) for seed in range(runs)]
        self.mutated: list[RandomRun] = []
        self.tried: Counter[str] = Counter()
        mutations = CAUGHT + HARMLESS
        for seed, run in enumerate(self.correct):
            once = self._spoil(run, [mutations[seed % len(mutations)]])
            if once is not None:
                self.tried[once.name.split("/")[0]] += 1
                self._spoil(run, Random(f"two mutations {seed}").sample(mutations, 2))
        self.tables = {"correct": list(_tables(self.correct)), "mutated": list(_tables(self.mutated))}
        self._reference: dict[tuple[str, bool], list[Verification]] = {}

    def _spoil(self, run: RandomRun, mutations: list[Mutation]) -> RandomRun | None:
        """Adds the run, mutated in these ways one after the other, if there is a place for each."""
        name = f"{'+'.join(mutation.__name__ for mutation in mutations)}/{run.name}"
        spoilt: RandomRun | None = run
        for mutation in mutations:
            spoilt = spoilt and mutated(Random(name), spoilt, name, mutation)
        self.mutated += [spoilt] if spoilt else []
        return spoilt

    def reference(self, which: str, asked: bool) -> list[Verification]:
        """What the reference says of each table, for what the runs promise or asked for every property."""
        if (which, asked) not in self._reference:
            self._reference[which, asked] = [verify(rows, EVERYTHING if asked else None) for rows in self.tables[which]]
        return self._reference[which, asked]

    def violated(self, which: str, asked: bool) -> set[tuple[str, str]]:
        """The (run, property) pairs that the reference finds violated."""
        return {(v.run, v.property) for found in self.reference(which, asked) for v in found.violations}


def _tables(runs: list[RandomRun]) -> Iterator[pa.Table]:
    for first in range(0, len(runs), 100):
        yield table(runs[first : first + 100])


@pytest.fixture(scope="module")
def corpus(times: int) -> Corpus:
    return Corpus(SHORT if times == 1 else times * RUNS)


both = pytest.mark.parametrize("which", ["correct", "mutated"])
either_way = pytest.mark.parametrize("asked", [False, True], ids=["promised", "asked"])


# --- the corpus is worth something ------------------------------------------------------------------------------------


def test_random_runs_have_everything_in_them(corpus: Corpus) -> None:
    seen = Counter(feature for run in corpus.correct for feature in run.features)
    assert {feature: seen[feature] for feature in FEATURES if seen[feature] < len(corpus.correct) // 60} == {}


@both
def test_every_random_trace_is_well_formed(corpus: Corpus, which: str) -> None:
    assert [problem for rows in corpus.tables[which] for problem in validate(rows)] == []


def test_correct_runs_keep_what_they_promise(corpus: Corpus) -> None:
    assert corpus.violated("correct", asked=False) == set()
    examined = Counter(name for found in corpus.reference("correct", asked=False) for name in found.properties)
    cases = {name for found in corpus.reference("correct", asked=False) for name in examined if found.properties[name].cases}
    assert cases == OF_PROTOCOLS


def test_every_mutation_is_caught_often_enough(corpus: Corpus) -> None:
    before = corpus.violated("correct", asked=True)
    after = {(*run.split("/"), name) for run, name in corpus.violated("mutated", asked=True)}
    caught = Counter(kind for kind, _ in {(kind, run) for kind, run, name in after if (run, name) not in before})
    tried = {mutation.__name__: corpus.tried[mutation.__name__] for mutation in CAUGHT}
    assert {kind: (caught[kind], times) for kind, times in tried.items() if caught[kind] < max(1, times // 10)} == {}


def test_every_property_is_violated_by_some_mutation(corpus: Corpus) -> None:
    assert {name for _, name in corpus.violated("mutated", asked=False)} == OF_PROTOCOLS


# --- agreement --------------------------------------------------------------------------------------------------------


@both
@either_way
def test_the_check_of_tasks_agrees(corpus: Corpus, which: str, asked: bool) -> None:
    properties = EVERYTHING if asked else None
    for rows, reference in zip(corpus.tables[which], corpus.reference(which, asked), strict=True):
        if differences(check(rows, properties).to_json(), reference.to_json()):
            assert run_differences(rows, properties) == {}


def test_progress_of_most_correct_runs_is_proved_without_a_search(corpus: Corpus) -> None:
    found = [each for rows in corpus.tables["correct"] for each in proved([Unit(rows)], None)]
    doubtful = sum("progress" in each.doubtful for each in found)
    settled = sum(each.outcomes["progress"].cases > 0 for each in found if "progress" in each.outcomes)
    assert settled > len(found) // 5
    assert doubtful <= settled // 5


@both
def test_the_check_of_torn_runs_agrees(corpus: Corpus, which: str) -> None:
    chosen = slice(None, None, 2)
    for rows, reference in zip(corpus.tables[which][chosen], corpus.reference(which, asked=False)[chosen], strict=True):
        torn = check_in_pieces(rows.sort_by(ORDER), 53, None)
        assert differences(torn.to_json(), reference.to_json()) == []


@both
@either_way
@pytest.mark.parametrize("layout", ["ordered", "by_time"])
def test_spark_agrees(corpus: Corpus, which: str, asked: bool, layout: str, spark: SparkSession, tmp_path: Path) -> None:
    from plainchant.lab.verify import verify as verify_on_spark

    # Where every run is in every row group, each pair of them costs: a hundred runs are enough.
    chosen = slice(1) if layout == "by_time" else slice(None, None, 2)
    path = written(layout, pa.concat_tables(corpus.tables[which][chosen]), tmp_path)
    found = verify_on_spark(spark, [path], EVERYTHING if asked else None).to_json()
    assert differences(found, summed(corpus.reference(which, asked)[chosen])) == []


# --- real runs --------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def simulated() -> list[pa.Table]:
    """A run of each family of the sequencer's fault sweep."""
    return [sweep.run(seed, least_events=0).table for seed in range(len(sweep.FAMILIES))]


def spoilt_simulations(simulated: list[pa.Table]) -> pa.Table:
    """Each run as it was, and mutated in several ways."""
    runs = []
    for number, rows in enumerate(simulated):
        run = RandomRun(f"sim/{number}", histories_of(rows), [])
        runs.append(run)
        for turn in range(2):
            mutation = CAUGHT[(2 * number + turn) % len(CAUGHT)]
            spoilt = mutated(Random(f"simulated {number}/{turn}"), run, f"{mutation.__name__}/{number}", mutation)
            runs += [spoilt] if spoilt is not None else []
    return table(runs)


def test_real_runs_and_their_mutations_agree(simulated: list[pa.Table]) -> None:
    rows = spoilt_simulations(simulated)
    assert validate(rows) == []
    reference = verify(rows)
    spoilt = {violation.run.split("/")[0] for violation in reference.violations}
    assert "sim" not in spoilt
    assert len(spoilt) >= 6
    assert differences(check(rows).to_json(), reference.to_json()) == []
    torn = check_in_pieces(rows.sort_by(ORDER), 1_000, None)
    assert differences(torn.to_json(), reference.to_json()) == []
