"""Scenarios with real processes on common memory: the faults that only it has, and that no segment is left."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from plainchant.cli.live import execute
from plainchant.lab.live import supervisor
from plainchant.live.memory.server import MailboxServer
from plainchant.scenario.load import parse
from plainchant.trace import read

SCENARIO = """
protocol = "mailbox"
members = 3
duration = "2s"
drain = "30s"

[parameters]
copies = 3
write = "2ms"
flag = "2ms"
decide = "2ms"
read = "2ms"
finish = "2ms"
poll = "4ms"
notice = "200ms"

[memory]
operations = true

[[workload]]
rate = 20

[[fault]]
kind = "module"
module = 2
at = "50ms"

[[fault]]
kind = "slow"
process = "p1"
at = "100ms"
delay = "5ms"
length = "200ms"

[[fault]]
kind = "step"
process = "p2"
at = "150ms"
offset = "1ms"

[[fault]]
kind = "crash"
process = "p3"
at = "200ms"
mid_broadcast = true
"""


def test_faults_of_common_memory_happen_for_real_and_nothing_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    servers: list[MailboxServer] = []

    class Noted(MailboxServer):
        def __init__(self, namespace: str) -> None:
            super().__init__(namespace)
            servers.append(self)

    monkeypatch.setattr(supervisor, "MailboxServer", Noted)
    result = execute(parse(SCENARIO, str(tmp_path / "memory.toml")), tmp_path)
    assert result.passes
    assert {name: end.state for name, end in result.summary.processes.items()} == {"p1": "alive", "p2": "alive", "p3": "crashed"}
    (server,) = servers
    assert server.names() == []
    table: pa.Table = read(tmp_path / "trace").table
    rows: list[dict[str, Any]] = [{**row, "detail": json.loads(row["detail"] or "{}")} for row in table.to_pylist()]
    faults = [(row["process"], row["detail"]) for row in rows if row["kind"] == "fault"]
    assert {process for process, detail in faults if detail["fault"] == "module" and detail["module"] == 2} == {"p1", "p2", "p3"}
    assert [process for process, detail in faults if detail["fault"] == "slow" and detail["timing"] is True] == ["p1"]
    assert [process for process, detail in faults if detail["fault"] == "step" and detail["timing"] is True] == ["p2"]
    assert "p1" in {process for process, detail in faults if detail["fault"] == "timing"}
    operations = [(row["process"], row["detail"]) for row in rows if row["kind"] == "operation"]
    assert {detail["copy"] for _, detail in operations if detail["failed"]} == {1}
    # In the middle of a send, which may be another attempt at one.
    assert result.summary.processes["p3"].reason == "killed itself, as a fault wanted it"
