"""Admission control over the real ring, in the simulator: full turns, long messages, alarms, and a flood without deadlines."""

from __future__ import annotations

import json
from typing import Any

from plainchant.core.model import Batch, GroupId
from plainchant.protocols import rtcast
from plainchant.protocols.rtcast.admission import Admission
from plainchant.protocols.variants import replaced
from plainchant.scenario.load import parse
from plainchant.sim import Simulation
from plainchant.trace import TraceBuffer

SCENARIO = """
protocol = "rtcast"
members = 3
duration = "700ms"

[network]
delay = { uniform = ["100us", "1000us"] }
bandwidth = 10_000_000
shared = true

[parameters]
hold = "6ms"
retransmissions = 0

[[workload]]
rate = 10
size = 1200
deadline = "93ms"
arrivals = "regular"
start = "300ms"

[[workload]]
senders = ["p1", "p2"]
rate = 3
size = 9000
deadline = "300ms"
arrivals = "regular"
start = "300ms"

[[workload]]
senders = ["p3", "p1"]
rate = 150
size = 1300
deadline = "100ms"
arrivals = "poisson"
start = "300ms"

[[workload]]
rate = 400
size = 1350
start = "300ms"
"""


def run() -> list[dict[str, Any]]:
    trace = TraceBuffer()
    Simulation(parse(SCENARIO), trace=trace).run()
    rows: list[dict[str, Any]] = trace.table().to_pylist()
    return rows


def lateness(rows: list[dict[str, Any]], *, least: int = 20) -> list[int]:
    """Of each delivery of a message with a deadline, at each member, how long after the deadline it comes (ns)."""
    sent = [row for row in rows if row["kind"] == "send" and row["deadline"] is not None]
    deadlines = {(row["process"], row["seq"]): row["deadline"] for row in sent}
    found = [
        row["time"] - deadlines[row["sender"], row["seq"]]
        for row in rows
        if row["kind"] == "deliver" and (row["sender"], row["seq"]) in deadlines
    ]
    assert len(deadlines) > least
    assert len(found) == 3 * len(deadlines)
    return found


def test_every_admitted_message_comes_in_time_everywhere_and_the_turns_are_nearly_full() -> None:
    rows = run()
    assert max(lateness(rows)) <= 0
    admitted = [json.loads(row["detail"]) for row in rows if row["kind"] == "admit"]
    rejected = [json.loads(row["detail"]) for row in rows if row["kind"] == "reject"]
    assert max(row["used"] / row["hold"] for row in admitted) > 0.9
    assert [row for row in rejected if row.get("reason") == "load"]
    without = sum(row["kind"] == "send" and row["deadline"] is None for row in rows)
    assert without > 100, "what is left is used"


def test_a_layer_that_sends_messages_without_deadlines_first_is_late() -> None:
    """That the check above can fail."""

    class Careless(Admission):
        def take(self, group: GroupId, max_bytes: int, most: int = 0, stream: str = "") -> Batch | None:
            return self._take_unpromised(max_bytes, most) or super().take(group, max_bytes, most, stream)

    with replaced(rtcast, "Admission", Careless):
        assert max(lateness(run(), least=5)) > 0
