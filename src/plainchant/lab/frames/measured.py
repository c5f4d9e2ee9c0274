"""Figures about the runs of a trace, as DataFrames. Rows are taken to be well formed: ``malformed`` says whether they are."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from ..metrics.frames import DetectionsOfRuns, Figures, MetricsOfRuns
from ..verify.frame import conformed

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def metrics(trace: DataFrame) -> DataFrame:
    """A row for each run and group, with what ``plainchant metrics`` measures."""
    return _figures(MetricsOfRuns(), trace)


def detections(trace: DataFrame) -> DataFrame:
    """A row for each run: injected crashes and omissions, matched with how they were noticed."""
    return _figures(DetectionsOfRuns(), trace)


def at_once(trace: DataFrame, *, detections: bool = False) -> pa.Table:
    """Either of them as an Arrow table, in order: for the commands."""
    return (DetectionsOfRuns() if detections else MetricsOfRuns()).of_frame(conformed(trace, "the DataFrame"))


def _figures(figures: Figures, trace: DataFrame) -> DataFrame:
    return figures.frame(conformed(trace, "the DataFrame"))
