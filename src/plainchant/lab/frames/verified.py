"""Whether the runs of a trace kept their promises, as DataFrames.

The rows of each answer are those of one lazy plan (``verify.frame``); the verdicts, counts and violations are those of
``plainchant verify``. A run in which something is malformed is not verified, and no answer passes over it in silence.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from ..properties.narrowing.portion import WHOLE_UP_TO
from ..properties.reference import require_known
from ..verify.frame import conformed, results
from ..verify.results import Options
from .schema import SCHEMAS

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

MALFORMED: Final = "malformed"
"""The verdict of such a run, and what stands for a property in its rows among the violations."""


def outcomes(trace: DataFrame, properties: Sequence[str] | None = None) -> DataFrame:
    """A row for each run and property that was checked: its verdict, cases and violations.

    ``properties`` is as for ``plainchant verify --property``: exactly these; None: what each run promises, or else every property
    that it has a case of. A malformed run has one row, without a property."""
    return outcomes_in(found_in(trace, properties, most=0))


def outcomes_in(found: DataFrame) -> DataFrame:
    """The outcomes among what was found."""
    from pyspark.sql import functions as F

    of = {name: F.col(f"outcome.{name}") for name in ("runs", "events", "cases", "violations", "in_part")}
    is_malformed = F.col("kind") == MALFORMED
    holds = F.when(of["in_part"] > 0, "unknown").when(of["cases"] > 0, "holds").otherwise("nothing to check")
    verdict = F.when(is_malformed, MALFORMED).when(of["violations"] > 0, "violated").otherwise(holds)
    counts = [F.coalesce(column, F.lit(0).cast("bigint")).alias(name) for name, column in of.items()]
    rows = found.filter(is_malformed | (F.col("kind") == "outcome"))
    return rows.select("run", F.col("outcome.property").alias("property"), verdict.alias("verdict"), *counts).distinct()


def violations(trace: DataFrame, properties: Sequence[str] | None = None, *, most: int | None = None) -> DataFrame:
    """A row for each violation: what, where, and a sentence that says it. ``most``: the smallest of each run and property.

    What is malformed has its rows too, with ``malformed`` in the place of a property: if there is no row, there was no violation,
    and every run could be verified."""
    return violations_in(found_in(trace, properties, most=most))


def violations_in(found: DataFrame) -> DataFrame:
    """The violations among what was found."""
    from pyspark.sql import functions as F

    is_malformed = F.col("kind") == MALFORMED
    where = F.struct(F.col("malformed.process").alias("process"), F.col("malformed.index").alias("index"))
    instead: dict[str, Column] = {
        "property": F.lit(MALFORMED),
        "processes": F.array_compact(F.array("malformed.process")),
        "events": F.when(F.col("malformed.process").isNull(), F.array().cast(_EVENTS)).otherwise(F.array(where)),
        "sentence": F.col("malformed.problem"),
    }
    columns = [
        F.when(is_malformed, instead.get(name, F.lit(None))).otherwise(F.col(f"violation.{name}")).alias(name)
        for name in SCHEMAS["violations"].names
        if name != "run"
    ]
    return found.filter(is_malformed | (F.col("kind") == "violation")).select("run", *columns)


def malformed(trace: DataFrame) -> DataFrame:
    """A row for each thing that is wrong with the trace as a trace. If it has a column ``file``, that is told as well."""
    from pyspark.sql import functions as F

    rows = found_in(trace, [], most=0).filter(F.col("kind") == MALFORMED).select("run", "malformed.*")
    names = SCHEMAS["malformed"].names
    if "file" in trace.columns:
        places = {name: f"its_{name}" for name in ("run", "process", "index")}
        said = trace.select(*(F.col(name).alias(other) for name, other in places.items()), F.col("file").alias("its_file"))
        at_once = [F.col(name).eqNullSafe(F.col(other)) for name, other in places.items()]
        found = said.join(F.broadcast(rows), at_once[0] & at_once[1] & at_once[2], "inner")
        keys = [name for name in names if name != "file"]
        rows = found.groupBy(*keys).agg(F.max("its_file").alias("file"))
    return rows.select(*names)


_EVENTS: Final = "array<struct<process: string, index: bigint>>"


def found_in(
    trace: DataFrame, properties: Sequence[str] | None = None, *, most: int | None = None, search_up_to: int = WHOLE_UP_TO
) -> DataFrame:
    """Everything that verification finds in a trace, which the other functions choose from (``verify.results``)."""
    require_known(properties or ())
    options = Options(tuple(properties) if properties is not None else None, most, whole_up_to=search_up_to)
    return results(conformed(trace, "the DataFrame"), options)
