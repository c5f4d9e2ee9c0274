"""Processes of one machine share its processor."""

from __future__ import annotations

import dataclasses

import pytest

from plainchant.core.model import ScenarioError
from plainchant.scenario import dump, parse
from plainchant.scenario.model import Delay, Network, Workload

from .conftest import MS, Run, run_toy
from .toy import Flood

ONE = Workload(senders=("p1",), rate=1000.0, count=1)


def delivered(run: Run, process: str) -> list[int]:
    return [row["true_time"] for row in run.of("deliver", process) if row["sender"] != process]


def run_on(machines: tuple[tuple[str, ...], ...], *workload: Workload, **costs: int) -> Run:
    network = Network(machines=machines, delay=Delay("constant", 10 * MS), **costs)  # type: ignore[arg-type]
    return run_toy(Flood, network=network, workload=workload)


def test_two_receivers_on_one_machine_take_turns() -> None:
    run = run_on((("p2", "p3"),), ONE, receive_cost=2 * MS)
    assert (delivered(run, "p2"), delivered(run, "p3")) == ([12 * MS], [14 * MS])


def test_on_machines_of_their_own_they_do_not() -> None:
    run = run_on((("p1", "p2"), ("p3",)), ONE, receive_cost=2 * MS)
    assert delivered(run, "p2") == delivered(run, "p3") == [12 * MS]


def test_a_sender_keeps_its_neighbour_from_sending() -> None:
    both = Workload(senders=("p1", "p2"), rate=1000.0, count=1)
    assert delivered(run_on((("p1", "p2"),), both, send_cost=3 * MS), "p3") == [13 * MS, 16 * MS]
    assert delivered(run_on((), both, send_cost=3 * MS), "p3") == [13 * MS, 13 * MS]


def test_an_application_keeps_its_neighbour_from_receiving() -> None:
    """Also where packets cost nothing."""
    busy = Workload(senders=("p2",), rate=1000.0, count=1, cost=30 * MS)
    assert delivered(run_on((("p2", "p3"),), ONE, busy), "p3")[0] == 30 * MS
    assert delivered(run_on((), ONE, busy), "p3")[0] == 10 * MS


def test_nothing_overtakes_on_a_busy_machine() -> None:
    many = Workload(rate=1000.0, count=8)
    run = run_on((("p1", "p2", "p3"),), many, send_cost=1 * MS, receive_cost=1 * MS)
    for process in ("p1", "p2", "p3"):
        for sender in ("p1", "p2", "p3"):
            assert [seq for _, seq in run.delivered(process, sender)] == list(range(1, 9))


@pytest.mark.parametrize(
    ("machines", "message"),
    [
        ((("p1", "p2"), ("p2",)), '"p2" is in machines 1 and 2'),
        ((("p1",), ()), "a machine is empty"),
        ((("p1", "p9"),), 'there is no process "p9"'),
    ],
)
def test_machines_that_cannot_be_are_refused(machines: tuple[tuple[str, ...], ...], message: str) -> None:
    with pytest.raises(ScenarioError, match=message):
        run_toy(Flood, network=Network(machines=machines))


def test_a_scenario_file_can_say_it_and_replays_it() -> None:
    scenario = parse("protocol = 'sequencer'\nmembers = 3\n[network]\nmachines = [['p1', 'p2'], ['p3']]\nreceive_cost = '1ms'\n")
    assert scenario.network.machines == (("p1", "p2"), ("p3",))
    assert dataclasses.asdict(parse(dump(scenario))) == dataclasses.asdict(scenario)
