"""Where facts come from: spools of living processes, or a finished trace, which is replayed or shown as it ended."""

from __future__ import annotations

import time
from bisect import bisect_right
from pathlib import Path
from typing import Any, Final, Protocol

import pyarrow.compute as pc

from ...core.model import TraceError, UsageError
from ...trace.fact import Fact, facts_of
from ...trace.following import Follower
from ...trace.reader import find_files, read
from ...trace.spool import SUFFIX

ROUND_FACTS: Final = 20_000
"""Rows of a finished trace in one round."""


class Source(Protocol):
    """Something that is watched."""

    @property
    def what(self) -> str:
        """For the page: what is looked at."""

    def poll(self) -> list[Fact]:
        """What is new."""

    def now(self) -> int:
        """The present, on the clock of the facts; ns."""

    def told(self) -> dict[str, Any]:
        """For the page: how the reading stands."""


class Spools:
    """The spools under a directory, as they grow."""

    def __init__(self, directory: Path) -> None:
        self.what = f"spools in {directory}"
        self._follower = Follower(directory)
        self._last = 0
        self._found = False

    def poll(self) -> list[Fact]:
        facts = self._follower.poll()
        self._found = self._found or bool(facts)
        self._last = max(self._last, max((fact.time for fact in facts), default=0))
        return facts

    def now(self) -> int:
        """The time of day while somebody lives; afterwards, when the last thing happened."""
        return max(time.time_ns(), self._last) if self._follower.alive or not self._found else self._last

    @property
    def is_over(self) -> bool:
        """Whether all that were there are dead and everything of them is read."""
        return self._found and not self._follower.alive and not self._follower.behind

    @property
    def size(self) -> int:
        """Bytes of all spools."""
        return sum(file.stat().st_size for file in self._follower.directory.rglob(f"*{SUFFIX}"))

    def told(self) -> dict[str, Any]:
        follower = self._follower
        return {"alive": follower.alive, "behind": follower.behind, "problems": follower.problems, "over": self.is_over}


class Replay:
    """A finished trace: with a speed as if it happened now (2: twice as fast), without as it ended."""

    def __init__(self, path: Path, *, run: str | None = None, speed: float = 0.0) -> None:
        table = read(path).table
        runs = sorted(pc.unique(table.column("run")).to_pylist())
        if not runs:
            raise TraceError(f"the trace at {path} has no rows; there is nothing to watch")
        chosen = run if run is not None else runs[0]
        if chosen not in runs:
            raise UsageError(f"there is no run {chosen!r} in {path}; there are: {', '.join(runs[:20])}")
        self.run = chosen
        # In the order in which things happened, as far as clocks tell; each history in its own order.
        keys = [("time", "ascending"), ("process", "ascending"), ("index", "ascending")]
        self._table = table.filter(pc.equal(table.column("run"), chosen)).sort_by(keys)
        self._speed = speed
        times = self._table.column("time")
        self._first, self._last = times[0].as_py(), pc.max(times).as_py()
        self._begun: int | None = None
        self._at = 0
        others = f", run {chosen} of {len(runs)}" if len(runs) > 1 else ""
        self.what = f"trace {path}{others}" + (f", replayed at {speed:g} times its speed" if speed else "")

    def poll(self) -> list[Fact]:
        if self._begun is None:
            self._begun = time.monotonic_ns()
        following = self._table.slice(self._at, ROUND_FACTS)
        if self._speed:
            following = following.slice(0, bisect_right(following.column("time").to_pylist(), self.now()))
        self._at += following.num_rows
        return list(facts_of(following))

    def now(self) -> int:
        if self.is_over or self._begun is None:
            return int(self._last)
        if not self._speed:
            return int(self._table.column("time")[max(self._at - 1, 0)].as_py())
        return int(self._first + (time.monotonic_ns() - self._begun) * self._speed)

    @property
    def is_over(self) -> bool:
        return bool(self._at >= self._table.num_rows)

    def told(self) -> dict[str, Any]:
        return {"alive": 0, "behind": 0, "problems": [], "over": self.is_over, "left": self._table.num_rows - self._at}


def source_at(path: Path, *, run: str | None, speed: float) -> Spools | Replay:
    """What stands at a path: spools if there are any, a trace, or a directory in which spools will appear."""
    if not path.exists():
        raise UsageError(f"{path} does not exist; give the directory that the processes record to, or a trace")
    if path.is_dir() and (next(path.rglob(f"*{SUFFIX}"), None) is not None or not any(path.iterdir())):
        if run is not None or speed:
            raise UsageError("--run and --speed are for finished traces; spools are watched as they grow")
        return Spools(path)
    find_files(str(path))  # says what is wrong if there is no trace
    return Replay(path, run=run, speed=speed)
