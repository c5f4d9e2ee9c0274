"""Spark sessions: start or find Spark, end all of it, and turn its failures into sentences.

``spark`` has :func:`session`, and :func:`explained_session` for those who talk to people; ``java`` finds a Java runtime, ``jvm``
starts and ends the Java process, ``code`` packs our own code for executors, ``failures`` explains Spark's errors, ``progress``
tells how far a job is, ``warmup`` prepares the machine during set-up.
"""

from __future__ import annotations

from .code import code_digest, send_code
from .failures import explain_failure, failures_as_sentences
from .spark import explained_session, session, slots

__all__ = ["code_digest", "explain_failure", "explained_session", "failures_as_sentences", "send_code", "session", "slots"]
