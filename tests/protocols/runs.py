"""Small simulations for tests of protocols and papers: a scenario, its run, and what can be read off it."""

from __future__ import annotations

import dataclasses
from typing import Any

import msgspec

from plainchant.core.model import SECOND, Duration
from plainchant.lab.properties import verify
from plainchant.scenario.model import Scenario, Workload
from plainchant.sim import Simulation, Summary
from plainchant.trace import TraceBuffer

HOUR = Duration(3600 * SECOND)
CALM: dict[str, Any] = {
    "heartbeat": HOUR,
    "quiet_after": HOUR,
    "retry_after": HOUR,
    "suspect_after": 3 * HOUR,
    "patience": 6 * HOUR,
}
"""Nothing is sent because time has passed: what is counted is the protocol's own traffic."""


@dataclasses.dataclass(frozen=True)
class Run:
    """A finished run."""

    summary: Summary
    rows: list[dict[str, Any]]
    violated: list[str]

    def of(self, kind: str, process: str = "") -> list[dict[str, Any]]:
        return [row for row in self.rows if row["kind"] == kind and process in ("", row["process"])]

    def details(self, kind: str, process: str = "") -> list[dict[str, Any]]:
        """What rows of a kind say."""
        return [msgspec.json.decode(row["detail"]) for row in self.of(kind, process) if row["detail"]]

    def delivered(self, process: str) -> list[tuple[str, int]]:
        return [(row["sender"], row["seq"]) for row in self.of("deliver", process)]

    def sent(self, process: str) -> list[tuple[str, int]]:
        return [(row["sender"], row["seq"]) for row in self.of("send", process)]

    def delays(self, process: str) -> list[int]:
        """From the send of each message to its delivery at that process."""
        return [row["true_time"] - row["sent"] for row in self.of("deliver", process)]

    def packets(self, *kinds: str) -> int:
        counted = self.summary.packets_by_type
        return sum(counted.get(kind, 0) for kind in kinds) if kinds else sum(counted.values())


def names(count: int) -> tuple[str, ...]:
    return tuple(f"p{i + 1}" for i in range(count))


def simulate(count: int, *workload: Workload, parameters: dict[str, Any], **settings: Any) -> Run:
    """Runs a group of that many members, one message a packet."""
    parameters = {"pack": False, **parameters}
    return verified(Scenario(protocol="sequencer", members=names(count), workload=workload, parameters=parameters, **settings))


def verified(scenario: Scenario, make: Any = None) -> Run:
    """Runs a scenario, with another engine if one is given, and verifies what it promises."""
    trace = TraceBuffer()
    summary = Simulation(scenario, trace=trace, make=make).run()
    table = trace.table()
    violated = [name for name, outcome in verify(table).properties.items() if outcome.violations]
    return Run(summary, table.to_pylist(), violated)
