"""What a run cost and how long things took: one row of figures for each (run, group), from the trace alone.

:func:`measure` is for tables of whole runs: it makes one partial of each run and tells its figures. Sweeps call it for every
run, commands for traces of moderate size. The runs of large traces are measured by the same functions, from many partials
(``frames``).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from ..arrays import NOTHING, Integers
from ..verify.beside import Rows
from .merged import Merged
from .partials import Source
from .samples import Sample
from .schema import COLUMNS, METRICS


def measure(table: pa.Table) -> pa.Table:
    """The metrics of every (run, group) in a table of whole runs, in the schema ``METRICS``, ordered by run and group.

    >>> from plainchant.trace import SCHEMA
    >>> measure(SCHEMA.empty_table()).num_rows
    0
    """
    rows: list[dict[str, Any]] = [row for run in _runs(table) for row in run.metrics()]
    return pa.Table.from_pylist(rows, schema=METRICS)


@dataclasses.dataclass(frozen=True, slots=True)
class Timings:
    """The times behind a group's figures."""

    group: str
    rotations: Integers
    lateness: Integers


def timings(table: pa.Table) -> list[Timings]:
    """Every rotation and every lateness in a table of one run, for each of its groups that has one."""
    found = [_timings(run, group) for run in _runs(table) for group in run.groups]
    return [each for each in found if len(each.rotations) or len(each.lateness)]


def _timings(run: Merged, group: str) -> Timings:
    rotations, late = (np.concatenate([NOTHING, *(sample.values() for sample in samples)]) for samples in _samples(run, group))
    return Timings(group, rotations, late)


def _samples(run: Merged, group: str) -> tuple[Sequence[Sample], Sequence[Sample]]:
    return run.rotations(group), run.lateness(group).values


def _runs(table: pa.Table) -> list[Merged]:
    source = Source(Rows(table.select(COLUMNS)))
    return [Merged(run, [source.partial(place)]) for place, run in enumerate(source.runs)]
