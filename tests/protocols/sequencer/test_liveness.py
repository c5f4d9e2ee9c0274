"""Groups that could go on do: cases in which members halted, or never came to an end, although nothing was in their way."""

from __future__ import annotations

import pytest

from plainchant.core.model import MS, Duration
from plainchant.lab.properties import verify
from plainchant.scenario.model import Delay, Fault, Network, Scenario, Workload
from plainchant.sim import Simulation, Summary
from plainchant.trace import TraceBuffer


def run(scenario: Scenario) -> Summary:
    trace = TraceBuffer()
    summary = Simulation(scenario, trace=trace).run()
    verification = verify(trace.table())
    assert verification.verdict == "holds", [violation.sentence for violation in verification.violations]
    assert summary.quiet, summary.not_quiet
    return summary


@pytest.mark.parametrize(
    ("at", "seed", "loss"),
    [(32, 1, 0), (36, 0, 0), (36, 3, 0), (38, 2, 0), (42, 2, 0.05), (54, 1, 0.05), (42, 1, 0.2), (56, 0, 0.2)],
)
def test_the_sequencer_may_die_while_it_lets_somebody_in(at: int, seed: int, loss: float) -> None:
    """Two join three. The view with them is proposed, and its sequencer dies before they have heard of it. The survivors cannot
    decide on the next view without the joiners, so the next sequencer has to tell these."""
    scenario = Scenario(
        protocol="sequencer",
        seed=seed,
        members=("p1", "p2", "p3"),
        later=("j1", "j2"),
        network=Network(delay=Delay("uniform", Duration(1 * MS), Duration(4 * MS)), loss=loss),
        workload=(Workload(rate=60.0),),
        fault=(
            Fault(kind="join", process="j1", at=Duration(20 * MS)),
            Fault(kind="join", process="j2", at=Duration(20 * MS)),
            Fault(kind="crash", process="p1", at=Duration(at * MS)),
        ),
        duration=Duration(250 * MS),
    )
    ends = {name: end.state for name, end in run(scenario).processes.items()}
    assert ends == {"p1": "crashed", "p2": "alive", "p3": "alive", "j1": "alive", "j2": "alive"}


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("together", [0, 7])
def test_everybody_may_leave_at_once_on_a_bad_network(seed: int, together: int) -> None:
    """The last one stays until the one before has heard that it was let go: nobody else could tell it."""
    names = ("p1", "p2", "p3")
    scenario = Scenario(
        protocol="sequencer",
        seed=seed,
        members=names,
        network=Network(delay=Delay("uniform", Duration(1 * MS), Duration(3 * MS)), loss=0.15, duplicate=0.05, reorder=0.05),
        workload=(Workload(count=5),),
        fault=tuple(
            Fault(kind="leave", process=name, at=Duration((50 + number * together) * MS)) for number, name in enumerate(names)
        ),
        duration=Duration(60 * MS + 20 * MS),
    )
    ends = {name: end.state for name, end in run(scenario).processes.items()}
    assert set(ends.values()) == {"left"}, ends
