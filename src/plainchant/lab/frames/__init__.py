"""The laboratory for data engineers: DataFrames in, DataFrames out, lazily, in any session of Spark's, Connect included.

``source`` makes a trace of paths, tables and DataFrames; ``verified``, ``measured`` and ``swept`` have what can be asked of one;
``schema`` has the columns of every answer. Nothing runs until an action, and every function takes and returns DataFrames that go
together with the caller's own SQL. ``plainchant.lab`` offers the functions: ``from plainchant import lab``.
"""

from __future__ import annotations

from .measured import detections, metrics
from .source import trace
from .swept import sweep
from .verified import malformed, outcomes, violations

__all__ = ["detections", "malformed", "metrics", "outcomes", "sweep", "trace", "violations"]
