"""Members of a mailbox that are not where the memory is, with real processes: one of two that act for others is killed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from plainchant.cli.live import execute
from plainchant.core.model import MS
from plainchant.lab.show import decode
from plainchant.scenario.load import parse
from plainchant.trace import read

SCENARIO = """
protocol = "mailbox"
members = ["p1", "p2", "p3", "p4", "p5"]
duration = "600ms"

[parameters]
remote = { p4 = "p1", p5 = "p2" }
write = "4ms"
flag = "4ms"
decide = "4ms"
read = "4ms"
finish = "4ms"
poll = "10ms"
datagram = "250ms"

[network]
loss = 0.05

[[workload]]
rate = 10

[[fault]]
kind = "crash"
process = "p2"
at = "300ms"
"""


def test_who_acts_for_another_is_killed_and_takes_it_along(tmp_path: Path) -> None:
    scenario = parse(SCENARIO, "remote.toml", [])
    result = execute(scenario, tmp_path, verify_it=True, options={"drain_at_most": 60_000 * MS})
    assert result.verification is not None
    assert not [name for name, outcome in result.verification.properties.items() if outcome.violations]
    rows: list[dict[str, Any]] = read(tmp_path / "trace").table.to_pylist()

    def delivered(process: str) -> list[tuple[str, int]]:
        return [(row["sender"], row["seq"]) for row in rows if row["process"] == process and row["kind"] == "deliver"]

    halted = {row["process"]: decode(row["detail"]).get("reason") for row in rows if row["kind"] == "crash"}
    assert halted == {"p2": None, "p5": "silence"}
    alive = ("p1", "p3", "p4")
    sent = {(row["sender"], row["seq"]) for row in rows if row["kind"] == "send" and row["process"] in alive}
    assert len(sent) == len([row for row in rows if row["kind"] == "accept" and row["process"] in alive]) > 3
    assert sent <= set(delivered("p4"))
    assert delivered("p4") == delivered("p1")
    assert set(delivered("p5")) <= set(delivered("p1"))
