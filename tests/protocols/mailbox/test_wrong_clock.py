"""Clocks that are far off: a sender that is behind (chaos found one that sent the same message for ever), or an hour ahead."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import pytest

from plainchant.core.model import SECOND, Duration
from plainchant.lab.properties import verify
from plainchant.protocols.mailbox import engine, membership
from plainchant.protocols.mailbox.sending import HOPELESS
from plainchant.protocols.variants import replaced
from plainchant.scenario import parse
from plainchant.scenario.model import Fault, Scenario
from plainchant.sim import Simulation
from plainchant.sim.summary import Summary
from plainchant.trace import TraceBuffer

HOUR = Duration(3600 * SECOND)
CLOCK = """\
[[clock]]
process = "p5"
offset = "1h"
"""
AHEAD = """\
protocol = "mailbox"
members = 5
later = ["q1"]
duration = "5s"
drain = "6s"
parameters = { tolerate = "timing" }
[[workload]]
rate = 10
"""

SCENARIO = """\
protocol = "mailbox"
members = 3
duration = "1s"
drain = "{drain}"
[parameters]
skew = "1us"
poll = "4ms"
patience = "{patience}"
[[clock]]
process = "p3"
offset = "{offset}"
[[workload]]
rate = 20
count = 5
"""


def run(offset: str, drain: str = "100s", patience: str = "1s") -> Summary:
    return Simulation(parse(SCENARIO.format(offset=offset, drain=drain, patience=patience)), trace=TraceBuffer()).run()


def test_who_is_behind_by_more_than_the_longest_lead_gives_up_with_a_reason() -> None:
    summary = run("-3s", patience="0s")
    assert summary.quiet, summary.not_quiet
    end = summary.processes["p3"]
    assert end.state == "halted"
    assert "times: it is too slow, or its clock is off, and halts" in end.reason
    assert {summary.processes[name].state for name in ("p1", "p2")} == {"alive"}
    assert summary.virtual_time < 60 * 10**9


def test_a_receiver_behind_by_more_than_patience_is_excluded() -> None:
    summary = run("-3s")
    assert summary.quiet, summary.not_quiet
    assert summary.processes["p3"].state == "halted"
    assert "p3 was excluded from g" in summary.processes["p3"].reason
    assert {summary.processes[name].state for name in ("p1", "p2")} == {"alive"}
    assert summary.virtual_time < 5 * 10**9


def test_who_is_behind_by_less_makes_it_good() -> None:
    summary = run("-500ms")
    assert summary.quiet, summary.not_quiet
    assert {end.state for end in summary.processes.values()} == {"alive"}


def test_without_the_rule_it_never_ends() -> None:
    with replaced(engine, "HOPELESS", 1 << 30):
        summary = run("-3s", drain="60s", patience="0s")
    assert not summary.quiet
    assert summary.not_quiet == {"p3": "a message of p3 in g is being sent"}
    assert HOPELESS < 60


# --- the second protocol, and a clock that is an hour ahead -----------------------------------------------------------


def _come_and_go(ahead: str) -> Scenario:
    """p5 is an hour ahead from the beginning, or from 500 ms on. q1 joins, p4 leaves, p3 crashes and comes back."""
    scenario = parse(AHEAD + (CLOCK if ahead == "always" else ""))
    events = (("join", "q1", 1.0), ("leave", "p4", 2.0), ("crash", "p3", 3.0), ("restart", "p3", 3.5))
    faults = [Fault(kind=kind, process=process, at=Duration(round(at * SECOND))) for kind, process, at in events]
    step = Fault(kind="step", process="p5", at=Duration(SECOND // 2), offset=HOUR)
    return dataclasses.replace(scenario, fault=tuple(faults if ahead == "always" else [step, *faults]))


def _waiting(scenario: Scenario) -> tuple[Sequence[str], list[str]]:
    """What is violated, and the processes that are well and were not answered."""
    trace = TraceBuffer()
    Simulation(scenario, trace=trace).run()
    table = trace.table()
    rows = table.to_pylist()
    asked = {(row["process"], row["kind"]) for row in rows if row["kind"] in ("join", "leave")}
    expected = {*((name, "join") for name in ("p1", "p2", "p3", "p4", "q1", "p3#1")), ("p4", "leave")}
    broken = [name for name, outcome in verify(table).properties.items() if outcome.violations]
    return broken, sorted(f"{process} {kind}" for process, kind in expected - asked)


@pytest.mark.parametrize("ahead", ["always", "from 500 ms on"])
def test_no_process_that_is_well_waits_for_a_clock_that_is_an_hour_ahead(ahead: str) -> None:
    """Processes joined and left after the message of p5, an hour later; and the group was not formed before."""
    assert _waiting(_come_and_go(ahead)) == ([], [])


@pytest.mark.parametrize("ahead", ["always", "from 500 ms on"])
def test_without_that_rule_they_do(ahead: str) -> None:
    with replaced(membership, "is_plausible", lambda box, stamp: True):
        broken, waiting = _waiting(_come_and_go(ahead))
    assert broken == ["progress"]
    assert {"q1 join", "p4 leave"} <= set(waiting)
