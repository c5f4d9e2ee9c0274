"""A trace as a DataFrame, from whatever a session can read."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ...core.model import TraceError, UsageError
from ...trace.reader import find_files
from ..verify.frame import conformed
from ..verify.parts import addresses

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_TABLE = re.compile(r"(?:`[^`]+`|\w+)(?:\.(?:`[^`]+`|\w+)){0,2}")


def trace(spark: SparkSession, source: str | os.PathLike[str] | DataFrame) -> DataFrame:
    """A trace: its 18 columns in their types, then any others that the source has.

    ``source`` is a path or address of Parquet files (a file, a directory, a glob, directories named ``run=...``), the name of a
    table or view of the session's catalogue, or a DataFrame. A name is taken for a table unless there is a file of that name; a
    :class:`~pathlib.Path` is never a table. A column that is missing, or of a type that cannot hold its values, is an error here,
    at once; rows are looked at when they are verified."""
    if not isinstance(source, str | os.PathLike):
        return conformed(source, "the DataFrame")
    name = str(source)
    if isinstance(source, str) and _TABLE.fullmatch(name) and not Path(name).exists():
        return table(spark, name)
    return _files(spark, name)


def table(spark: SparkSession, name: str) -> DataFrame:
    """A table or view of the session's catalogue, of whatever format."""
    from pyspark.errors import AnalysisException

    try:
        return conformed(spark.table(name), f"table {name}")
    except AnalysisException as error:
        raise UsageError(f"there is neither a table nor a trace {name}: {_reason(error)}") from error


def _files(spark: SparkSession, path: str) -> DataFrame:
    """Files of Spark's own reader. It finds directories' columns, and which files of a large directory there are, by itself."""
    from pyspark.errors import AnalysisException

    try:
        where = _places(path)
        frame = spark.read.parquet(*where)
        if "run" in frame.columns and dict(frame.dtypes)["run"] != "string":
            frame = _with_names(spark, frame, where)
        return conformed(frame, path)
    except AnalysisException as error:
        raise TraceError(
            f"cannot read a trace at {path}: {_reason(error)}; check the address, and that Spark's workers see it"
        ) from error


def _places(path: str) -> Sequence[str]:
    """What Spark is to read: of a directory of this machine the directory, of a glob its files."""
    if "://" in path or os.path.isdir(path):
        inside = os.path.join(path, "trace")
        return [path] if "://" in path else addresses(path, [os.path.abspath(inside if os.path.isdir(inside) else path)])
    return addresses(path, find_files(path)[1])


def _with_names(spark: SparkSession, frame: DataFrame, where: Sequence[str]) -> DataFrame:
    """Names of runs that stand in directories (``run=007``), as they are: Spark takes them for numbers, or dates, if it can."""
    from pyspark.sql.types import StringType, StructField, StructType

    in_files = spark.read.option("recursiveFileLookup", "true").parquet(*where).columns
    if "run" in in_files:
        return frame
    fields = [StructField("run", StringType()) if field.name == "run" else field for field in frame.schema]
    return spark.read.schema(StructType(fields)).parquet(*where)


def _reason(error: Exception) -> str:
    return str(error).splitlines()[0]
