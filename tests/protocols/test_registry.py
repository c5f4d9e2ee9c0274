"""Protocols are found by their folders: a new one needs nothing but a folder of its own."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import plainchant.protocols
from plainchant.lab.explain.explainer import Explainer
from plainchant.lab.properties import verify
from plainchant.protocols import registry
from plainchant.scenario import parse
from plainchant.sim import Simulation
from plainchant.trace import TraceBuffer

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "own-protocol" / "plainchant_fifo.py"
SCENARIO = """
protocol = "fifo"
members = 3
duration = "200ms"

[network]
loss = 0.1
"""


@pytest.fixture
def sixth(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A folder beside those of the other protocols, with the example of docs/your-own-protocol.md in it."""
    (tmp_path / "fifo").mkdir()
    shutil.copy(EXAMPLE, tmp_path / "fifo" / "__init__.py")
    monkeypatch.setattr(plainchant.protocols, "__path__", [*plainchant.protocols.__path__, str(tmp_path)])
    registry._own_names.cache_clear()
    yield "fifo"
    registry._own_names.cache_clear()
    sys.modules.pop("plainchant.protocols.fifo", None)


def test_ours_come_in_the_order_in_which_people_should_meet_them() -> None:
    assert list(registry.protocols())[:5] == ["sequencer", "newtop", "rtcast", "mailbox", "dedos"]


def test_a_sixth_protocol_needs_only_a_folder(sixth: str) -> None:
    assert list(registry.protocols())[5] == sixth
    scenario = parse(SCENARIO, "sixth.toml")
    trace = TraceBuffer()
    summary = Simulation(scenario, trace=trace).run()
    table = trace.table()
    assert summary.quiet
    assert verify(table).verdict == "holds"
    message = next(row for row in table.to_pylist() if row["kind"] == "send")
    story = Explainer(table).message((message["group"], message["sender"], message["seq"]))
    assert "deliver" in story.conclusion or story.steps
