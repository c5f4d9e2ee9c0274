"""Figures about runs: counts, delays and costs, failures that were detected, and how groups recover.

``partials`` reads pieces of runs once, ``merged`` defines the metrics from a run's partials (``realtime`` those of deadlines,
``standing`` those of waiting members, ``samples`` percentiles); ``measures`` does both for a table of whole runs, ``frames`` for
traces of any size beside their verification, ``paths`` chooses between this process and Spark. ``detections`` matches failures
with how they were noticed, ``recovery`` describes a group after a failure.
"""

from __future__ import annotations

from ...core.lazily import callable_as
from .measures import Timings, measure, timings
from .schema import COLUMNS, METRICS, OPTIONAL, REAL_TIME

__all__ = ["COLUMNS", "METRICS", "OPTIONAL", "REAL_TIME", "Timings", "measure", "timings"]

callable_as(__name__, "plainchant.lab.frames")
