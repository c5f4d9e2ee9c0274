"""What the simulator's tests share: a way to run a toy scenario and look at its rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from plainchant.core import model
from plainchant.core.engine import Engine
from plainchant.scenario.model import Network, Scenario, Workload
from plainchant.sim import Simulation, Summary
from plainchant.trace import TraceBuffer
from plainchant.trace.validation import validate

from .toy import Flood, describe_toy

MS: Any = model.MS
US: Any = model.US
SECOND: Any = model.SECOND
"""Scenarios want durations, tests have numbers: the type is left open."""

Rows = list[dict[str, Any]]
ONE_EACH_10MS = Workload(rate=100.0)


class Run:
    """A finished run: its summary, its table and its rows as dictionaries."""

    def __init__(self, summary: Summary, trace: TraceBuffer) -> None:
        self.summary = summary
        self.table = trace.table()
        self.rows: Rows = self.table.to_pylist()

    def of(self, kind: str, process: str | None = None) -> Rows:
        return [row for row in self.rows if row["kind"] == kind and process in (None, row["process"])]

    def history(self, process: str) -> list[str]:
        return [row["kind"] for row in self.rows if row["process"] == process]

    def delivered(self, process: str, sender: str | None = None) -> list[tuple[str, int]]:
        rows = self.of("deliver", process)
        return [(row["sender"], row["seq"]) for row in rows if sender in (None, row["sender"])]


def run_toy(engine: type[Engine] = Flood, *, valid: bool = True, options: dict[str, Any] | None = None, **settings: Any) -> Run:
    """Runs a toy protocol with three members for 100 ms and drains it, unless told otherwise."""
    given: dict[str, Any] = {
        "protocol": engine.__name__,
        "members": ("p1", "p2", "p3"),
        "duration": 100 * MS,
        "drain": 1000 * MS,
        "network": Network(),
        "workload": (ONE_EACH_10MS,),
    }
    trace = TraceBuffer()
    simulation = Simulation(Scenario(**{**given, **settings}), trace=trace, description=describe_toy(engine), **(options or {}))
    run = Run(simulation.run(), trace)
    if valid:
        assert validate(run.table) == []
    return run


@pytest.fixture
def toy() -> Callable[..., Run]:
    return run_toy
