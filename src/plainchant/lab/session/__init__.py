"""Spark sessions: start or find Spark, end all of it, and turn its failures into sentences.

``spark`` has :func:`session`; ``java`` finds a Java runtime, ``jvm`` starts and ends the Java process, ``code`` packs our own
code for executors, ``failures`` explains Spark's errors, ``progress`` tells how far a job is, ``warmup`` prepares the machine
during set-up.
"""

from __future__ import annotations

from .failures import explain_failure, failures_as_sentences
from .spark import session, slots

__all__ = ["explain_failure", "failures_as_sentences", "session", "slots"]
