"""Large runs: what is doubtful is narrowed down to a few messages, and the result is that of the reference on the whole run.

Equal must be cases and violations of every property, and each violation's sentence, events and messages. The random runs and real
ones are small and taken for large ones; the flat ones are long runs of one group, spoilt in one or two places.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from plainchant.lab.properties import PROPERTIES, verify
from plainchant.lab.properties.narrowing.narrow import NARROWED
from plainchant.trace.schema import SCHEMA
from tests.protocols.sequencer import sweep

from ..agreement import check_narrowed, differences
from ..layouts import ORDER
from ..mutations import (
    CAUGHT,
    HARMLESS,
    Mutation,
    change_digest,
    deliver_before_send,
    drop_delivery,
    drop_own_delivery,
    duplicate_delivery,
    forge_number,
    forge_sender,
    histories_of,
    move_delivery,
    mutated,
    swap_far,
    swap_neighbours,
)
from ..random_traces import RandomRun, random_run, table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MUTATIONS = CAUGHT + HARMLESS
COMMON = (
    *(swap_neighbours, swap_far, move_delivery, drop_delivery, drop_own_delivery, duplicate_delivery),
    *(deliver_before_send, forge_sender, forge_number, change_digest),
)


def flat(messages: int, members: int = 4, views: int = 2, prefix: str = "p") -> RandomRun:
    """A run in which a group delivers everything in one order, in several views; each message has a digest of its own."""
    random = Random(f"flat {messages}")
    names = [f"{prefix}{number}" for number in range(members)]
    histories: dict[str, list[dict[str, object]]] = {name: [{"kind": "start", "time": 0}] for name in names}
    numbers = dict.fromkeys(names, 0)
    for place in range(messages):
        if place % (messages // views) == 0 and place // (messages // views) < views:
            view = {"kind": "view", "group": "g", "view": 1 + place // (messages // views), "members": names}
            for events in histories.values():
                events.append(view | {"time": place})
        sender = random.choice(names)
        numbers[sender] += 1
        message = {"group": "g", "sender": sender, "seq": numbers[sender], "digest": random.getrandbits(30), "time": place}
        histories[sender].append(message | {"kind": "send"})
        for events in histories.values():
            events.append(message | {"kind": "deliver", "rank": place + 1})
    for events in histories.values():
        events.append({"kind": "end", "time": messages, "detail": '{"drained": true}'})
    return RandomRun("flat", histories, [])


def spoilt(run: RandomRun, mutations: Sequence[Mutation], name: str) -> pa.Table | None:
    found: RandomRun | None = run
    for number, mutation in enumerate(mutations):
        found = found and mutated(Random(f"{name} {number}"), found, name, mutation)
    return table([found]).sort_by(ORDER) if found else None


def agrees(rows: pa.Table, unit: int, properties: list[str] | None) -> Iterator[str]:
    """The properties that were narrowed down; fails where the results differ."""
    found, before = check_narrowed(rows, unit, properties)
    reference = verify(rows, properties)
    assert differences(found.to_json(), reference.to_json()) == []
    assert found.violations == reference.violations
    for each in before.values():
        yield from each.narrowed.cases if each.narrowed is not None else ()


@pytest.mark.parametrize("mutation", COMMON, ids=lambda mutation: str(mutation.__name__))
def test_one_mistake_in_a_long_run_is_searched_in_a_few_messages(mutation: Mutation) -> None:
    rows = spoilt(flat(1_500), [mutation], mutation.__name__)
    assert rows is not None
    _, before = check_narrowed(rows, 700, list(NARROWED))
    (found,) = before.values()
    assert found.narrowed is not None
    assert found.doubtful == ()
    assert set(agrees(rows, 700, list(NARROWED))) == set(found.narrowed.cases)


@pytest.mark.sweep
def test_long_runs_with_mistakes_agree(times: int) -> None:
    seen: Counter[str] = Counter()
    runs = [flat(200), flat(901, members=3, views=3), flat(1_500, members=5, views=1)]
    for seed in range(60 * times):
        random = Random(seed)
        mutations = [random.choice(COMMON), *random.sample(MUTATIONS, seed % 3)]
        rows = spoilt(runs[seed % len(runs)], mutations, f"spoilt {seed}")
        if rows is not None:
            seen.update(agrees(rows, random.choice((53, 211, 1_000)), random.choice((None, list(NARROWED)))))
    assert {name for name in NARROWED if not seen[name]} == set()


@pytest.mark.sweep
def test_real_runs_with_mistakes_agree(times: int) -> None:
    """With crashes, views and members that come and go."""
    seen: Counter[str] = Counter()
    for seed in range(12 * times):
        run = RandomRun("sim", histories_of(sweep.run(seed % len(sweep.FAMILIES), least_events=0).table), [])
        rows = spoilt(run, [Random(seed).choice(COMMON)], f"real {seed}")
        if rows is not None:
            seen.update(agrees(rows, 211, list(NARROWED)))
    assert seen["agreement"]
    assert seen["integrity"]


@pytest.mark.sweep
def test_random_runs_with_mistakes_agree(times: int) -> None:
    """Most of them are of a kind that is not narrowed down; they must not be taken for another."""
    for seed in range(100 * times):
        rows = spoilt(random_run(seed), [MUTATIONS[seed % len(MUTATIONS)]], f"random {seed}")
        if rows is not None:
            list(agrees(rows, 23, None if seed % 2 else list(PROPERTIES)))


@pytest.mark.sweep
@pytest.mark.parametrize("mutation", [swap_neighbours, drop_delivery, duplicate_delivery, change_digest])
def test_a_run_of_a_hundred_thousand_rows_agrees(mutation: Mutation) -> None:
    rows = spoilt(flat(20_000), [mutation], f"large {mutation.__name__}")
    assert rows is not None
    assert rows.num_rows > 90_000
    assert set(agrees(rows, 30_000, list(NARROWED)))


@pytest.mark.parametrize("chunk_rows", [10**6, 2_000], ids=["in one task", "over tasks"])
def test_spark_searches_a_few_messages(spark: SparkSession, tmp_path: Path, chunk_rows: int) -> None:
    from plainchant.lab.verify import verify as verify_on_spark

    runs = []
    for number, mutation in enumerate((swap_far, drop_delivery, duplicate_delivery, change_digest)):
        spoilt_run = mutated(Random(number), flat(1_000), f"r{number}", mutation)
        assert spoilt_run is not None
        runs.append(spoilt_run)
    rows = table(runs).sort_by(ORDER)
    pq.write_table(rows.select(SCHEMA.names), tmp_path / "t.parquet", row_group_size=900)
    found = verify_on_spark(spark, [str(tmp_path)], list(NARROWED), chunk_rows=chunk_rows, least_rows=1, large_rows=2_000)
    assert differences(found.to_json(), verify(rows, list(NARROWED)).to_json()) == []
    assert {violation.run for violation in found.violations} == {"r0", "r1", "r2", "r3"}
