"""How far Spark is, for people who wait: on a session of our own and behind Spark Connect."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_EVERY: Final = 0.25  # seconds


@contextlib.contextmanager
def watched(spark: SparkSession, tell: Callable[[str, float], None] | None, doing: str) -> Iterator[None]:
    """Calls ``tell`` with ``doing`` and the share of tasks that are done, while the block runs jobs; not at all if None."""
    if tell is None:
        yield
        return
    with (_handled if "connect" in type(spark).__module__ else _polled)(spark, tell, doing):
        yield


@contextlib.contextmanager
def _handled(spark: Any, tell: Callable[[str, float], None], doing: str) -> Iterator[None]:
    def handler(stages: Any, *args: Any, **kwargs: Any) -> None:
        tasks = sum(stage.num_tasks for stage in stages or ())
        done = sum(stage.num_completed_tasks for stage in stages or ())
        tell(doing, done / tasks if tasks else 0.0)

    spark.registerProgressHandler(handler)
    try:
        yield
    finally:
        spark.removeProgressHandler(handler)


@contextlib.contextmanager
def _polled(spark: SparkSession, tell: Callable[[str, float], None], doing: str) -> Iterator[None]:
    over = threading.Event()

    def poll() -> None:
        tracker = spark.sparkContext.statusTracker()
        while not over.wait(_EVERY):
            stages = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
            known = [stage for stage in stages if stage is not None]
            tasks = sum(stage.numTasks for stage in known)
            tell(doing, sum(stage.numCompletedTasks for stage in known) / tasks if tasks else 0.0)

    thread = threading.Thread(target=poll, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
