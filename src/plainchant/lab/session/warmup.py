"""``python -m plainchant.lab.session.warmup``: what makes later sessions start faster, done once, as part of set-up.

It runs a little of everything that the laboratory does in one session, so that the archive of classes which that session
leaves behind (see ``jvm``) has what the others will need. If there is an archive already, it does nothing.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from .java import find_java
from .jvm import has_archive
from .spark import session

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession


def main() -> None:
    """Makes the archive if there is none."""
    with tempfile.TemporaryDirectory() as scratch:
        if has_archive(find_java(Path(scratch))):
            return
        with session("local[2]", memory="1g", quick=True) as spark:
            exercise(spark, Path(scratch))


def exercise(spark: SparkSession, directory: Path) -> None:
    """Reads, writes, groups, joins, sorts, numbers and passes through Python, on next to nothing."""
    from pyspark.sql import Window
    from pyspark.sql import functions as F

    numbers = spark.range(0, 100, 1, 2).select("id", (F.col("id") % 7).alias("part"), F.col("id").cast("string").alias("name"))
    numbers.write.parquet(str(directory / "numbers"))
    read = spark.read.parquet(str(directory / "numbers")).mapInArrow(_unchanged, numbers.schema)
    ordered = read.withColumn("rank", F.row_number().over(Window.partitionBy("part").orderBy("id")))
    counts = read.groupBy("part").agg(F.count("*").alias("count"), F.collect_list("name").alias("names"))
    ordered.join(counts, "part").filter(F.array_contains("names", F.col("name"))).orderBy("part", "id").toPandas()
    read.groupBy("part").applyInArrow(lambda table: table, numbers.schema).collect()


def _unchanged(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield from batches


if __name__ == "__main__":
    main()
