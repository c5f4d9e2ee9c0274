"""Chaos: real members killed, stopped, cut off and started again under load. Nothing is lost, nobody hangs.

The time is bounded (each run has its duration and its drain), and nothing depends on how fast the machine is: a slow one
suspects more members and lets them in again, which is part of the test.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from plainchant.live.supervisor import supervise
from plainchant.scenario import find, load
from plainchant.trace import read, validate
from plainchant.trace.collect import collect
from plainchant.trace.reference import verify

SEEDS = (2, 4)


@pytest.fixture(scope="module", params=SEEDS)
def chaos(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, pa.Table]:
    """A run of the shipped scenario, shortened: its summary and its trace."""
    directory: Path = tmp_path_factory.mktemp("chaos")
    scenario = load(find("chaos"), [f"seed={request.param}", "duration=5s"])
    summary = supervise(scenario, directory / "spools", given=set(scenario.parameters))
    collect([directory / "spools"], directory / "trace", alive=[])
    return summary, read(directory / "trace").table


def test_faults_happened(chaos: tuple[Any, pa.Table]) -> None:
    summary, table = chaos
    kinds = Counter(fault.kind for fault in summary.faults)
    assert all(kinds[kind] for kind in ("crash", "restart", "pause", "partition", "cut")), kinds
    assert table.filter(pa.compute.equal(table["kind"], "deliver")).num_rows > 100


def test_nobody_hangs_and_nobody_ends_as_nobody_meant(chaos: tuple[Any, pa.Table]) -> None:
    summary, _ = chaos
    assert summary.quiet, summary.not_quiet
    assert not summary.unexpected


def test_every_promise_is_kept(chaos: tuple[Any, pa.Table]) -> None:
    _, table = chaos
    assert validate(table) == []
    verification = verify(table)
    assert verification.verdict == "holds", [violation.sentence for violation in verification.violations[:5]]
    assert "uniform" in verification.properties


def test_what_a_survivor_was_promised_came_exactly_once(chaos: tuple[Any, pa.Table]) -> None:
    """Each message that the API accepted at a member that lives at the end is delivered, once, there and wherever that survivor's
    view was shared to the end."""
    _, table = chaos
    rows = table.select(["process", "kind", "sender", "seq", "view"]).to_pylist()
    ended = {row["process"] for row in rows if row["kind"] == "end"}
    assert ended, "somebody survives"
    accepted = Counter(row["process"] for row in rows if row["kind"] == "accept")
    delivered = Counter((row["process"], row["sender"], row["seq"]) for row in rows if row["kind"] == "deliver")
    assert max(delivered.values()) == 1
    for survivor in ended:
        numbers = range(1, accepted[survivor] + 1)
        for other in ended:
            got = sorted(seq for process, sender, seq in delivered if process == other and sender == survivor)
            # Who joined later got those from there on, up to the last.
            assert got == list(numbers[len(numbers) - len(got) :]), (survivor, other)
            assert other != survivor or len(got) == len(numbers), survivor
