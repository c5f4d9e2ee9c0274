"""Verification of traces of any size: the plan that puts the proofs of ``lab.properties`` to work, on Spark or in one process.

``parts`` decides what each task reads, ``check`` verifies whole runs inside one task, and ``job`` is the Spark job around
them. Start reading with ``job``.
"""

from __future__ import annotations

from .job import verify

__all__ = ["verify"]
