"""Work for Spark's tasks that is no table: one task for each piece of work, and Arrow batches back.

The pieces travel with the function, each as bytes of its own: a task unpacks the piece that is its, however many there are.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, TypeVar

import pyarrow as pa

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

T = TypeVar("T")


def tasks(spark: SparkSession, work: Sequence[T], task: Callable[[T], Iterator[pa.RecordBatch]], schema: str) -> DataFrame:
    """One task for each piece of work, and what all of them yield."""
    pieces = [pickle.dumps(each, protocol=5) for each in work]
    return spark.range(0, len(pieces), 1, max(1, len(pieces))).mapInArrow(partial(_perform, pieces, task), schema)


def _perform(
    pieces: Sequence[bytes], task: Callable[[T], Iterator[pa.RecordBatch]], batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        for number in batch.column("id").to_pylist():
            yield from task(pickle.loads(pieces[number]))
