"""Simulated runs as a DataFrame: they are made, verified and measured in tasks when an action asks for them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Literal, TypeAlias

import pyarrow as pa

from ..properties import Outcome
from ..session import send_code
from ..sweep import Definition, define
from ..sweep.task import unit_tables
from ..verify.results import sql_of
from ..verify.tasks import tasks
from .schema import SCHEMAS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Table: TypeAlias = Literal["runs", "outcomes", "violations", "metrics", "trace"]


def sweep(
    spark: SparkSession,
    scenario: str,
    seeds: str | Sequence[int],
    *,
    grid: Sequence[str] = (),
    properties: Sequence[str] = (),
    table: Table = "runs",
) -> DataFrame:
    """A run of a scenario for each seed and grid point: a row for each run, or the rows of another ``table`` of the runs.

    ``seeds`` is ``"0:1000"`` or numbers. Equal arguments give equal rows. Nothing is kept: for a directory that a sweep can be
    continued in, there is ``plainchant sweep``."""
    wanted = seeds if isinstance(seeds, str) else ",".join(map(str, seeds))
    keep = "all" if table == "trace" else "none"
    definition = define(scenario, wanted, grid=grid, keep=keep, properties=properties)
    send_code(spark)
    return tasks(spark, range(definition.units), partial(_perform, definition, table), sql_of(SCHEMAS[table]))


def _perform(definition: Definition, table: Table, unit: int) -> Iterator[pa.RecordBatch]:
    found = unit_tables(definition, unit).get(table)
    if found is None:
        return
    if table == "outcomes":
        counts = found.select(["runs", "events", "cases", "violations", "in_part"]).to_pylist()
        found = found.append_column("verdict", pa.array([Outcome(**row).verdict for row in counts], pa.string()))
    schema = SCHEMAS[table]
    yield from found.select(schema.names).cast(schema).combine_chunks().to_batches()
