"""Common memory under attack: real members of a mailbox are killed with SIGKILL at random instants, also in the middle of a
message, stopped, and started again, and memory modules crash. Nothing is lost, nothing is torn, nobody waits for a dead one's
lock, and no segment is left.

The time is bounded (each run has its duration and its drain), and nothing depends on how fast the machine is: on a slow one
messages are late and sent again. ``--times N`` makes N times as many runs.
"""

from __future__ import annotations

import dataclasses
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from plainchant.cli.live import given_parameters
from plainchant.lab.live.supervisor import LiveSummary, supervise
from plainchant.lab.properties import verify
from plainchant.live.memory.server import Found, MailboxServer, mailboxes
from plainchant.scenario import find, load
from plainchant.trace import read, validate
from plainchant.trace.collect import collect

FAULTS = ("random.crash=2", "random.pause=1", "random.pause_length=40ms", "random.module=0.7", "duration=3s")
SEED = 5
REGARDLESS_OF_TIME = ("integrity", "identical", "total", "agreement", "uniform", "validity", "unanimity")
"""On one machine, with one clock: a process that is late may hold others up, but not mislead them."""


@dataclasses.dataclass
class Run:
    summary: LiveSummary
    table: pa.Table
    left: list[Found]
    """The mailboxes that its processes left behind when all had ended."""


class Watched(MailboxServer):
    """Looks what is there before it removes it."""

    left: list[Found]

    def remove_all(self) -> None:
        self.left = [found for found in mailboxes(self.root) if found.register.namespace == self.namespace]
        super().remove_all()


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory, pytestconfig: pytest.Config) -> list[Run]:
    """Runs of the shipped scenario, shortened and with more faults."""
    made: list[Run] = []
    servers: list[Watched] = []

    def make(namespace: str) -> Watched:
        servers.append(Watched(namespace))
        return servers[-1]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("plainchant.lab.live.supervisor.MailboxServer", make)
        for seed in range(SEED, SEED + pytestconfig.getoption("--times")):
            directory: Path = tmp_path_factory.mktemp("chaos")
            path, sets = find("mailbox-chaos"), [f"seed={seed}", *FAULTS]
            summary = supervise(load(path, sets), directory / "spools", given=given_parameters(path, sets))
            collect([directory / "spools"], directory / "trace", alive=[])
            made.append(Run(summary, read(directory / "trace").table, servers[-1].left))
    return made


def test_faults_happened(runs: list[Run]) -> None:
    kinds = Counter(fault.kind for run in runs for fault in run.summary.faults)
    assert all(kinds[kind] for kind in ("crash", "restart", "pause", "module")), kinds
    assert any(end.state == "crashed" for run in runs for end in run.summary.processes.values())
    for run in runs:
        assert run.table.filter(pc.equal(run.table["kind"], "deliver")).num_rows > 100


def test_nobody_waits_for_ever_and_nobody_ends_as_nobody_meant(runs: list[Run]) -> None:
    """A lock or a slot of a process that was killed would keep the others from getting quiet."""
    for run in runs:
        assert run.summary.quiet, run.summary.not_quiet
        assert not run.summary.unexpected


def test_only_who_was_too_late_halts(runs: list[Run]) -> None:
    """The protocol stops a process that has missed what others have; it is none that kept its bounds."""
    for run in runs:
        halted = {name for name, end in run.summary.processes.items() if end.state == "halted"}
        rows = run.table.select(["process", "kind", "detail"]).to_pylist()
        assert halted <= {row["process"] for row in rows if row["kind"] == "fault" and is_timing(row["detail"])}


def test_every_promise_is_kept(runs: list[Run]) -> None:
    for run in runs:
        assert validate(run.table) == []
        verification = verify(run.table)
        assert verification.verdict == "holds", [violation.sentence for violation in verification.violations[:5]]


def test_promises_are_kept_to_those_who_were_late_too(runs: list[Run]) -> None:
    """Who missed a bound is owed nothing; on one machine it gets everything all the same, except for the bounds."""
    cases: Counter[str] = Counter()
    for run in runs:
        verification = verify(in_time(run.table), REGARDLESS_OF_TIME)
        assert verification.verdict == "holds", [violation.sentence for violation in verification.violations[:5]]
        cases.update({name: outcome.cases for name, outcome in verification.properties.items()})
    assert all(cases[name] for name in ("integrity", "total", "uniform", "validity")), cases


def test_what_survivors_were_promised_came_exactly_once(runs: list[Run]) -> None:
    """Each message that the API accepted at a member that lives at the end is delivered, once, there and at whoever lives too."""
    assert any(survivors_of(run.table) for run in runs)
    for run in runs:
        rows = run.table.select(["process", "kind", "sender", "seq"]).to_pylist()
        accepted = Counter(row["process"] for row in rows if row["kind"] == "accept")
        delivered = Counter((row["process"], row["sender"], row["seq"]) for row in rows if row["kind"] == "deliver")
        assert max(delivered.values()) == 1
        for survivor in survivors_of(run.table):
            numbers = range(1, accepted[survivor] + 1)
            for other in survivors_of(run.table):
                got = sorted(seq for process, sender, seq in delivered if process == other and sender == survivor)
                # Who joined later got those from there on, up to the last.
                assert got == list(numbers[len(numbers) - len(got) :]), (survivor, other)
                assert other != survivor or len(got) == len(numbers), survivor


def test_no_segment_is_left(runs: list[Run]) -> None:
    for run in runs:
        assert run.left == []


def test_a_mark_that_is_taken_off_does_not_hide_a_violation(runs: list[Run]) -> None:
    """The check of those who were late can fail: a delivery of theirs is missed."""
    table = runs[0].table
    survivor = sorted(survivors_of(table))[0]
    rows = table.select(["process", "kind", "sender"]).to_pylist()
    lost = next(
        number
        for number in reversed(range(len(rows)))
        if (rows[number]["process"], rows[number]["kind"], rows[number]["sender"]) == (survivor, "deliver", survivor)
    )
    without = pa.concat_tables([table.slice(0, lost), table.slice(lost + 1)])
    assert verify(in_time(without), REGARDLESS_OF_TIME).verdict == "violated"


def survivors_of(table: pa.Table) -> set[str]:
    return {row["process"] for row in table.select(["process", "kind"]).to_pylist() if row["kind"] == "end"}


def in_time(table: pa.Table) -> pa.Table:
    """The same trace, as if nobody had missed a bound."""
    column = table.column_names.index("detail")
    rows = table.select(["kind", "detail"]).to_pylist()
    details = [_without_mark(row["kind"], row["detail"]) for row in rows]
    return table.set_column(column, table.schema.field(column), pa.array(details, table.schema.field(column).type))


def _without_mark(kind: str, detail: str | None) -> str | None:
    if kind != "fault" or detail is None:
        return detail
    return None if is_timing(detail) else detail


def is_timing(detail: str) -> bool:
    told: dict[str, Any] = json.loads(detail)
    return told.get("timing") is True
