"""Figures about runs: counts, delays and costs, failures that were detected, and how groups recover.

``measures`` defines the metrics on a table of whole runs (``realtime`` those about deadlines, ``lab.standstills`` those about
waiting members), ``detections`` matches failures with how they were noticed; ``frames`` computes both on Spark, ``paths``
chooses between this process and Spark. ``recovery`` describes a group after a failure.
"""

from __future__ import annotations

from .measures import Timings, measure, timings
from .schema import COLUMNS, METRICS, OPTIONAL, REAL_TIME

__all__ = ["COLUMNS", "METRICS", "OPTIONAL", "REAL_TIME", "Timings", "measure", "timings"]
