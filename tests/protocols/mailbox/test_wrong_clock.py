"""A sender whose clock is far behind: chaos has found one that sent the same message for ever."""

from __future__ import annotations

from plainchant.protocols.mailbox import engine
from plainchant.protocols.mailbox.sending import HOPELESS
from plainchant.protocols.variants import replaced
from plainchant.scenario import parse
from plainchant.sim import Simulation
from plainchant.sim.summary import Summary
from plainchant.trace import TraceBuffer

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
