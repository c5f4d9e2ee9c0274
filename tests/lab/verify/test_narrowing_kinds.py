"""Runs of every kind are narrowed down: several groups, several views at a time or none, causal order only, senders that are cut
or not observed, timing faults.

``KINDS`` says which kinds there are. In none of them may a property of ``NARROWED`` fall back to the search of the whole run, but
for what ``searched_whole`` says; and what is found must be what the reference finds in the whole run, to the last sentence.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from functools import lru_cache
from random import Random
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from plainchant.lab.properties import PROPERTIES, verify
from plainchant.lab.properties.narrowing.narrow import NARROWED
from plainchant.trace.schema import SCHEMA

from ..agreement import check_narrowed, differences
from ..layouts import ORDER
from ..mailbox_traces import mailbox_run
from ..mutations import (
    CAUGHT,
    HARMLESS,
    change_digest,
    cut_tail,
    deliver_before_send,
    drop_delivery,
    drop_history,
    drop_own_delivery,
    duplicate_delivery,
    duplicate_view,
    forge_number,
    histories_of,
    move_delivery,
    mutated,
    swap_far,
    swap_neighbours,
)
from ..overlapping_traces import SHAPES, trace
from ..random_traces import RandomRun, random_run, table
from .test_narrowing import agrees, spoilt

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from ..mutations import Mutation

PLANTED = (
    *(swap_neighbours, swap_far, move_delivery, drop_delivery, drop_own_delivery, duplicate_delivery),
    *(deliver_before_send, forge_number, change_digest, duplicate_view),
)
MUTATIONS = CAUGHT + HARMLESS


@lru_cache
def overlapping(shape: str, order: str, rows: int = 500) -> RandomRun:
    return RandomRun("overlapping", histories_of(trace(shape, order, rows)), [])


@lru_cache
def merging(number: int) -> RandomRun:
    """A run that partitions and merges, with members that come back."""
    hidden = {"no views", "outsider", "cut", "unobserved"}
    seeds = (seed for seed in range(2_000) if (run := random_run(seed)) and "merge" in run.features and not run.features & hidden)
    return random_run([seed for _, seed in zip(range(number + 1), seeds, strict=False)][number])


@lru_cache
def parted(messages: int) -> RandomRun:
    """Two parts of a group deliver messages of their own, come together, and go on; a message in two is sent in the parts."""
    random = Random(f"parted {messages}")
    names = ["p0", "p1", "p2", "p3"]
    histories: dict[str, list[dict[str, object]]] = {name: [{"kind": "start", "time": 0}] for name in names}
    numbers = dict.fromkeys(names, 0)
    stages = [[names], [names[:2], names[2:]], [names]]
    views = iter(range(1, 10))
    now = 0
    for share, stage in zip((4, 2, 4), stages, strict=True):
        for part in stage:
            view = {"kind": "view", "group": "g", "view": next(views), "members": part}
            for name in part:
                histories[name].append(view | {"time": now})
        for _ in range(messages // share):
            now += 1
            sender = random.choice(names)
            numbers[sender] += 1
            message = {"group": "g", "sender": sender, "seq": numbers[sender], "digest": random.getrandbits(30), "time": now}
            histories[sender].append(message | {"kind": "send"})
            for name in next(part for part in stage if sender in part):
                histories[name].append(message | {"kind": "deliver"})
    for events in histories.values():
        events.append({"kind": "end", "time": now, "detail": '{"drained": true}'})
    return RandomRun("parted", histories, [])


def without(run: RandomRun, mutation: Mutation, name: str) -> RandomRun:
    changed = mutated(Random(name), run, name, mutation)
    assert changed is not None
    return changed


KINDS: Mapping[str, Callable[[], RandomRun]] = {
    **{f"several groups, {shape}": lambda shape=shape: overlapping(shape, "total") for shape in SHAPES},  # type: ignore[misc]
    **{f"causal order, {shape}": lambda shape=shape: overlapping(shape, "causal") for shape in SHAPES},  # type: ignore[misc]
    **{f"partition and merge {number}": lambda number=number: merging(number) for number in range(4)},  # type: ignore[misc]
    "two parts": lambda: parted(200),
    "no views": lambda: mailbox_run(1, "mailbox", messages=60),
    "no views, a crash": lambda: mailbox_run(2, "mailbox", messages=60, crashes=True),
    "no views, a leave": lambda: mailbox_run(3, "mailbox", messages=60, leaves=True),
    "no views, a timing fault": lambda: mailbox_run(4, "mailbox", messages=60, faulty=True),
    "a sender is not observed": lambda: without(overlapping("chain", "total"), drop_history, "unobserved"),
    "a sender is cut": lambda: without(overlapping("ring", "causal"), cut_tail, "cut"),
}


def searched_whole(rows: pa.Table) -> set[str]:
    """``fifo``, where a number below 1 is delivered; nothing else."""
    return {"fifo"} if pc.min(rows["seq"]).as_py() < 1 else set()


@pytest.mark.parametrize("kind", KINDS)
def test_every_property_is_narrowed_down_in_every_kind_of_run(kind: str) -> None:
    run = KINDS[kind]()
    seen: set[str] = set()
    for mutation in PLANTED:
        rows = spoilt(run, [mutation], f"{kind} {mutation.__name__}")
        if rows is None:
            continue
        for unit in (97, 10_000):
            _, before = check_narrowed(rows, unit, list(NARROWED))
            (found,) = before.values()
            assert set(found.doubtful) == searched_whole(rows), mutation.__name__
            assert not found.suspect
            assert set(agrees(rows, unit, list(NARROWED))) == set(found.narrowed.cases if found.narrowed else ())
            seen.update(found.narrowed.cases if found.narrowed else ())
    assert seen == set(NARROWED)


@pytest.mark.sweep
@pytest.mark.parametrize("kind", ["total", "causal", "mailbox", "merging"])
def test_random_runs_with_mistakes_agree(kind: str, times: int) -> None:
    """Whatever is done to them, and however small they are."""
    seen: Counter[str] = Counter()
    for seed in range(16 * times):
        random = Random(f"{kind} {seed}")
        if kind == "mailbox":
            features = {name: random.random() < 0.5 for name in ("joins", "leaves", "crashes", "faulty")}
            run = mailbox_run(seed, "mailbox", **features)
        elif kind == "merging":
            run = merging(seed % 40)
        else:
            run = overlapping(random.choice(list(SHAPES)), kind, random.choice((200, 400)))
        mutations = [random.choice((*PLANTED, *MUTATIONS)) for _ in range(1 + seed % 2)]
        rows = spoilt(run, mutations, f"{kind} {seed}")
        if rows is not None:
            properties = random.choice((None, list(NARROWED), list(PROPERTIES)))
            seen.update(agrees(rows, random.choice((23, 97, 1_000)), properties))
    assert {name for name in ("integrity", "causal", "total", "agreement") if not seen[name]} == set()


@pytest.mark.sweep
@pytest.mark.parametrize("order", ["total", "causal"])
def test_many_mistakes_in_a_long_run_of_several_groups_agree(order: str) -> None:
    run = overlapping("chain", order, 6_000)
    rows = spoilt(run, [*[move_delivery] * 6, *[drop_delivery] * 6, *[swap_neighbours] * 6], f"many {order}")
    assert rows is not None
    assert set(agrees(rows, 2_000, list(NARROWED)))


@pytest.mark.parametrize("chunk_rows", [10**6, 1_000], ids=["in one task", "over tasks"])
def test_spark_searches_a_few_messages_of_several_groups(spark: SparkSession, tmp_path: Path, chunk_rows: int) -> None:
    from plainchant.lab.verify import verify as verify_on_spark

    runs = [
        without(overlapping("ring", "total"), drop_own_delivery, "r0"),
        without(overlapping("star", "causal"), drop_delivery, "r1"),
        without(mailbox_run(1, "mailbox", messages=60), duplicate_delivery, "r2"),
        overlapping("clique", "total"),
    ]
    rows = table(runs).sort_by(ORDER)
    pq.write_table(rows.select(SCHEMA.names), tmp_path / "t.parquet", row_group_size=300)
    reference = verify(rows, list(NARROWED))
    found = verify_on_spark(spark, [str(tmp_path)], list(NARROWED), chunk_rows=chunk_rows, least_rows=1, large_rows=200)
    assert differences(found.to_json(), reference.to_json()) == []
    assert {violation.run for violation in found.violations} == {"r0", "r1", "r2"}
