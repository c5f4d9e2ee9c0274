"""Small helpers for tasks that wait: waking a future, measuring how long a condition lasts, the event loop's time."""

from __future__ import annotations

import asyncio
from typing import Any

from ..core.model import SECOND, Nanoseconds


def wake(future: asyncio.Future[None] | None) -> None:
    """Completes a future that a task may be waiting for."""
    if future is not None and not future.done():
        future.set_result(None)


def fail(future: asyncio.Future[Any] | None, error: Exception) -> None:
    """Completes a future with an error, and retrieves it, so that asyncio does not complain where no task waits."""
    if future is not None and not future.done():
        future.set_exception(error)
        future.exception()


def now() -> Nanoseconds:
    """The event loop's time, which is the host's."""
    return round(asyncio.get_running_loop().time() * SECOND)


class Stopwatch:
    """Total time for which a condition has held, over all its occurrences, by the event loop's time."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._before = 0.0
        self._since: float | None = None

    def start(self) -> None:
        self._since = self._loop.time()

    def stop(self) -> None:
        if self._since is not None:
            self._before += self._loop.time() - self._since
            self._since = None

    @property
    def total(self) -> Nanoseconds:
        running = self._loop.time() - self._since if self._since is not None else 0.0
        return round((self._before + running) * SECOND)
