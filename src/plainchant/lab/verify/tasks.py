"""Work for Spark's tasks that is no table: one task for each piece of work, and Arrow batches back.

A few pieces travel with the function, which every task gets: each as bytes of its own, so that a task unpacks the piece that is
its. Many are rows of a DataFrame, a partition each: a task gets its own piece alone, and all of them together leave the driver
once.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final, TypeVar

import pyarrow as pa

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

MAX_WITH_FUNCTION: Final = 100_000  # bytes of pieces that go to every task

T = TypeVar("T")


def tasks(spark: SparkSession, work: Sequence[T], task: Callable[[T], Iterator[pa.RecordBatch]], schema: str) -> DataFrame:
    """One task for each piece of work, and what all of them yield."""
    pieces = [pickle.dumps(each, protocol=5) for each in work]
    if sum(map(len, pieces)) > MAX_WITH_FUNCTION:
        from pyspark.sql import functions as F

        rows = pa.table({"id": pa.array(range(len(pieces)), pa.int32()), "piece": pa.array(pieces, pa.binary())})
        apart = spark.createDataFrame(rows).repartitionById(len(pieces), F.col("id"))
        return apart.mapInArrow(partial(_perform_own, task), schema)
    return spark.range(0, len(pieces), 1, max(1, len(pieces))).mapInArrow(partial(_perform, pieces, task), schema)


def _perform_own(task: Callable[[T], Iterator[pa.RecordBatch]], batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        for piece in batch.column("piece").to_pylist():
            yield from task(pickle.loads(piece))


def _perform(
    pieces: Sequence[bytes], task: Callable[[T], Iterator[pa.RecordBatch]], batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        for number in batch.column("id").to_pylist():
            yield from task(pickle.loads(pieces[number]))
