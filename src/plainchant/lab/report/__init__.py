"""The report: one HTML file that says what was verified and found, and explains each violation with a picture.

``source`` finds out what stands at a path (a run, a sweep, any trace) and reads from it only the rows that are needed;
``overview`` aggregates a trace of any size into a few numbers and bins; ``choose`` picks the rows that tell one violation,
or one message's life; ``spacetime``, ``timeline``, ``recovery`` and ``charts`` draw, on ``trace.svg``; ``words`` has the
sentences; ``sections`` and ``page`` put the file together, within a budget of bytes. The pictures take their colours from the
page's style sheet (``style``), so that they are readable in light and in dark.

Nothing here needs Spark, a script or the network. Start with ``page``."""

from __future__ import annotations

from ..verify import HERE_UP_TO
from .page import SIZE_MAX, page
from .source import Subject, outcomes_of, subject_at

__all__ = ["HERE_UP_TO", "SIZE_MAX", "Subject", "outcomes_of", "page", "subject_at"]
