"""Chaos: real members killed, stopped, cut off and started again under load. Nothing is lost, nobody hangs.

The time is bounded (each run has its duration and its drain), and nothing depends on how fast the machine is: a slow one
suspects more members and lets them in again, which is part of the test.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from plainchant.lab.live.supervisor import LiveSummary, supervise
from plainchant.lab.properties import verify
from plainchant.scenario import find, load
from plainchant.trace import read, validate
from plainchant.trace.collect import collect

SEEDS = (2, 4)
CALMER = ("parameters.suspect_after=1s", "parameters.patience=5s")
"""Than the scenario itself: it is to lose members by its faults, not all of them because the machine is slow."""
Run = tuple[LiveSummary, pa.Table]


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> list[Run]:
    """Runs of the shipped scenario, shortened: their summaries and traces."""
    made = []
    for seed in SEEDS:
        directory: Path = tmp_path_factory.mktemp("chaos")
        scenario = load(find("chaos"), [f"seed={seed}", "duration=5s", *CALMER])
        summary = supervise(scenario, directory / "spools", given=set(scenario.parameters))
        collect([directory / "spools"], directory / "trace", alive=[])
        made.append((summary, read(directory / "trace").table))
    return made


def test_faults_happened(runs: list[Run]) -> None:
    for summary, table in runs:
        kinds = Counter(fault.kind for fault in summary.faults)
        assert all(kinds[kind] for kind in ("crash", "restart", "pause", "partition", "cut")), kinds
        assert table.filter(pc.equal(table["kind"], "deliver")).num_rows > 100


def test_nobody_hangs_and_nobody_ends_as_nobody_meant(runs: list[Run]) -> None:
    for summary, _ in runs:
        assert summary.quiet, summary.not_quiet
        assert not summary.unexpected


def test_every_promise_is_kept(runs: list[Run]) -> None:
    for _, table in runs:
        assert validate(table) == []
        verification = verify(table)
        assert verification.verdict == "holds", [violation.sentence for violation in verification.violations[:5]]
        assert "uniform" in verification.properties


def test_what_survivors_were_promised_came_exactly_once(runs: list[Run]) -> None:
    """Each message that the API accepted at a member that lives at the end is delivered, once, there and at whoever lives too."""
    everybody = [survivors_of(table) for _, table in runs]
    assert any(everybody), [summary.processes for summary, _ in runs]
    for (_, table), survivors in zip(runs, everybody, strict=True):
        rows = table.select(["process", "kind", "sender", "seq"]).to_pylist()
        accepted = Counter(row["process"] for row in rows if row["kind"] == "accept")
        delivered = Counter((row["process"], row["sender"], row["seq"]) for row in rows if row["kind"] == "deliver")
        assert max(delivered.values()) == 1
        for survivor in survivors:
            numbers = range(1, accepted[survivor] + 1)
            for other in survivors:
                got = sorted(seq for process, sender, seq in delivered if process == other and sender == survivor)
                # Who joined later got those from there on, up to the last.
                assert got == list(numbers[len(numbers) - len(got) :]), (survivor, other)
                assert other != survivor or len(got) == len(numbers), survivor


def survivors_of(table: pa.Table) -> set[str]:
    return {row["process"] for row in table.select(["process", "kind"]).to_pylist() if row["kind"] == "end"}
