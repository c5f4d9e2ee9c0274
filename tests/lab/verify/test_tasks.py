"""Work for Spark's tasks: each task gets its own piece, however many there are."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from plainchant.lab.verify import tasks

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def lengths(about: str, piece: tuple[int, bytes]) -> Iterator[pa.RecordBatch]:
    yield pa.RecordBatch.from_pydict({"about": [about], "n": [piece[0]], "size": [len(piece[1])]})


def test_many_pieces_do_not_travel_with_the_function(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    from pyspark.sql import functions as F

    work = [(n, b"x" * n * 100) for n in range(7)]
    for limit, with_function in ((10**6, True), (0, False)):
        monkeypatch.setattr(tasks, "MAX_WITH_FUNCTION", limit)
        made = tasks.tasks(spark, work, partial(lengths, "x"), "about string, n bigint, size bigint")
        rows = made.select("*", F.spark_partition_id().alias("at")).collect()
        assert sorted((row["about"], row["n"], row["size"]) for row in rows) == [("x", n, n * 100) for n in range(7)]
        assert sorted(row["at"] for row in rows) == list(range(7))
        plan = made._jdf.queryExecution().toString()
        assert ("Exchange" in plan) != with_function


def test_a_task_unpacks_its_own_piece_alone() -> None:
    good = pickle.dumps((1, b"x"))
    batch = pa.RecordBatch.from_pydict({"piece": [good]})
    (made,) = tasks._perform_own(partial(lengths, "y"), iter([batch]))
    assert made.to_pylist() == [{"about": "y", "n": 1, "size": 1}]
