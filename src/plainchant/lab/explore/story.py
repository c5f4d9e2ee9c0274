"""A run as people read it, line by line, and as a trace that everything else reads."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol

from .world import World


class Trace(Protocol):
    """Where rows go: ``trace.TraceBuffer`` or ``trace.TraceWriter``."""

    def history(self, run: str, process: str) -> Any: ...


def timeline(world: World) -> Iterator[str]:
    """What happened, from the first send until a promise was broken; times count from that send."""
    begin = world.story[0].time if world.story else 0
    width = max((len(line.who) for line in world.story), default=0)
    time = None
    for line in world.story:
        at = "" if line.time == time else f"{line.time - begin}"
        time = line.time
        yield f"{at:>6}  {line.who:<{width}}  {line.text}" if line.who else f"{at:>6}  BROKEN: {line.text}"
        if not line.who:
            return


def write(world: World, trace: Trace, run: str = "r0") -> None:
    """Puts a run's rows into a trace."""
    for process, rows in world.rows.items():
        trace.history(run, process).rows.extend(rows)
