"""What processes take of the system while they run: sampled from outside, from ``/proc``.

A :class:`Sampler` is a :class:`~..supervisor.Watch`. At each look it reads, of every process: open files, threads, memory of
its own (``RssAnon``: what it allocated; pages of files come and go as the system likes) and all its memory but common memory
(``VmRSS``), and of the run as a whole: the segments in common memory, by number and by size. Every figure but the last two is a
process's own: a process that comes back is another one. What processes record on disk is allowed to grow and is not looked at.

Floors (see :mod:`.trend`) are what one process may take more in half of its life without being called a leak: some files,
threads or segments, and of memory one MiB or a fiftieth of what it has.
"""

from __future__ import annotations

import dataclasses
import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from plainchant.lab.live.process import LiveError, Process
from plainchant.live.memory.server import MailboxServer

from .trend import Floor, Trend, trend

EVERY: Final = 1.0
"""Seconds between two looks, at the most."""
LONG_ENOUGH: Final = 10.0
"""Seconds that somebody must have been seen in its groups before it is asked whether it grows."""
MIB: Final = 1 << 20
FLOORS: Final[Mapping[str, Floor]] = {
    "files": Floor(3),
    "threads": Floor(2),
    "memory": Floor(MIB, 0.02),
    "resident": Floor(2 * MIB, 0.04),
    "segments": Floor(3),
    "shared": Floor(256 << 10, 0.02),
}
"""The least growth of each figure that matters. ``shared`` are the bytes that all segments may take: what of it is in use grows
until every slot was used once, and no further."""
OF_ALL: Final = ("segments", "shared")
"""Figures of the run as a whole."""
ALL: Final = "all"
"""Under this name."""
_PROC: Final = Path("/proc")
_WANTED: Final = {"VmRSS": "resident", "RssShmem": "", "RssAnon": "memory", "Threads": "threads"}


@dataclasses.dataclass(frozen=True, slots=True)
class Figure:
    """One figure of one process, or of all."""

    process: str
    name: str
    first: float
    last: float
    most: float
    trend: Trend | None
    """None: it was not there for long enough."""

    @property
    def grows(self) -> bool:
        return self.trend is not None and self.trend.grows

    def to_json(self) -> dict[str, Any]:
        plain: dict[str, Any] = {"process": self.process, "figure": self.name, "grows": self.grows}
        plain |= {"first": self.first, "last": self.last, "most": self.most}
        return plain | ({} if self.trend is None else {"trend": dataclasses.asdict(self.trend)})


class Sampler:
    """Looks at processes, and remembers."""

    def __init__(self, every: float = EVERY, long_enough: float = LONG_ENOUGH) -> None:
        if not _PROC.joinpath("self/status").exists():
            raise LiveError("what processes take can only be seen where there is /proc (Linux); run chaos on such a system")
        self.every = every
        self.looks = 0
        self._long_enough = long_enough
        self._samples: dict[tuple[str, str], list[tuple[float, float]]] = {}

    def look(self, processes: Sequence[Process], servers: Mapping[str, MailboxServer]) -> None:
        """Takes one sample of everything."""
        self.looks += 1
        now = time.monotonic()
        for process in processes:
            if process.entered or process.serves:  # until then it is starting
                for figure, value in of_process(process.pid).items():
                    self._add(process.name, figure, now, value)
        if servers:
            files = [size for server in servers.values() for size in server.sizes()]
            self._add(ALL, "segments", now, len(files))
            self._add(ALL, "shared", now, sum(files))

    def _add(self, process: str, figure: str, now: float, value: float) -> None:
        self._samples.setdefault((process, figure), []).append((now, value))

    def figures(self) -> list[Figure]:
        """Every figure of every process that was seen."""
        return [self._figure(process, name, samples) for (process, name), samples in self._samples.items()]

    def _figure(self, process: str, name: str, samples: list[tuple[float, float]]) -> Figure:
        lasted = samples[-1][0] - samples[0][0]
        found = trend(samples, FLOORS[name]) if lasted >= self._long_enough else None
        return Figure(process, name, samples[0][1], samples[-1][1], max(value for _, value in samples), found)


def of_process(pid: int) -> dict[str, int]:
    """The figures of a process; nothing if it is gone, or about to be.

    >>> sorted(of_process(os.getpid()))
    ['files', 'memory', 'resident', 'threads']
    """
    home = _PROC / str(pid)
    try:
        lines = (home / "status").read_text().splitlines()
        files = len(os.listdir(home / "fd"))
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return {}
    told = dict(line.split(":", 1) for line in lines if ":" in line)
    if not _WANTED.keys() <= told.keys():
        return {}  # a zombie has no memory
    figures = {name: int(told[key].split()[0]) * (1 if name == "threads" else 1024) for key, name in _WANTED.items()}
    figures["resident"] -= figures.pop("")  # common memory is one for all, and counted by its segments
    return {"files": files, **figures}
