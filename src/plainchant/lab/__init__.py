"""The laboratory: runs with real processes and with every schedule, and what is done with the traces of runs.

- ``properties``: what it means for a run to be correct, and every check of it. Start here: ``verify(table)``.
- ``verify``: the same for traces of any size, on Spark. ``session`` starts Spark or finds it.
- ``frames``: the same as DataFrames: ``lab.trace``, ``lab.outcomes``, ``lab.violations``, ``lab.malformed``, ``lab.metrics``,
  ``lab.detections``, ``lab.sweep``.
- ``sweep``: thousands of simulated runs, verified and measured where they run. ``tables`` has the schemas of what it writes.
- ``live``: scenarios with real processes. ``explore``: every run of a small case.
- ``metrics``: figures about runs, detected failures, and how groups recover.
- ``explain``, ``draw``, ``show``, ``export``: stories, diagrams, lines and other formats of a run.
- ``report``: a page about a run or a sweep. ``watch``: a page about runs that are under way, with a verdict so far.

``pyspark`` is imported inside functions or in modules that only commands with Spark load, so that everything else works without
the ``lab`` extra.
"""

from typing import TYPE_CHECKING

from ..core.lazily import exports

if TYPE_CHECKING:
    from .frames import detections, malformed, metrics, outcomes, sweep, trace, violations

__all__ = ["detections", "malformed", "metrics", "outcomes", "sweep", "trace", "violations"]

__getattr__ = exports(
    __name__,
    {
        **dict.fromkeys(("detections", "malformed", "outcomes", "trace", "violations"), "frames"),
        **{name: name for name in ("metrics", "sweep")},  # packages, which can be called
    },
)
