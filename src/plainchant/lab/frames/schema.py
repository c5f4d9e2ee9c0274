"""The columns of every DataFrame that goes in or out, as Arrow schemas and as Spark's."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from ...trace.schema import SCHEMA
from ..metrics import METRICS
from ..metrics.detections import DETECTIONS
from ..tables import MALFORMED, OUTCOMES, RUNS, VIOLATIONS

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

_RUN, _PROPERTY, *_COUNTS = OUTCOMES
SCHEMAS: Final[Mapping[str, pa.Schema]] = {
    "trace": SCHEMA,
    "outcomes": pa.schema([_RUN, _PROPERTY, ("verdict", pa.string()), *_COUNTS]),
    "violations": VIOLATIONS,
    "malformed": MALFORMED,
    "metrics": METRICS,
    "detections": DETECTIONS,
    "runs": RUNS,
}
"""By the function that returns such a DataFrame; ``runs`` is what ``sweep`` returns."""


def spark_schema(name: str) -> StructType:
    """The schema of that name as Spark says it."""
    from pyspark.sql.pandas.types import from_arrow_schema

    return from_arrow_schema(SCHEMAS[name])
