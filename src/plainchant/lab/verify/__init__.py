"""Verification of traces of any size: the plan that puts the proofs of ``lab.properties`` to work, on Spark or in one process.

``parts`` decides what each task reads, ``check`` verifies whole runs inside one task, and ``job`` is the Spark job around
them; ``local`` does the same in this process, for small traces. Start reading with ``job``.
"""

from __future__ import annotations

from .job import verify
from .local import HERE_UP_TO, is_small, verify_here

__all__ = ["HERE_UP_TO", "is_small", "verify", "verify_here"]
