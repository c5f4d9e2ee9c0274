"""Packets that a process drops by a fault, own packets over the network, and halted processes that come back."""

from __future__ import annotations

import json
from collections import Counter
from random import Random
from typing import Any, ClassVar

import pytest

from plainchant.core.model import Reason, ScenarioError
from plainchant.core.names import incarnation_of, place_of, process_name
from plainchant.scenario.faults import draw_faults
from plainchant.scenario.model import Fault, Network, RandomFaults, Scenario, Workload

from .conftest import MS, SECOND, Run, run_toy
from .toy import Echo, Flood, Stubborn

ONE = Workload(senders=("p1",), rate=100.0, count=5)
LATER = Workload(senders=("p1",), rate=100.0, count=5, start=1 * MS)
TWO = Workload(senders=("p1", "p2"), rate=100.0, count=5)


def omit(**settings: Any) -> Fault:
    return Fault(kind="omit", process="p3", at=15 * MS, **settings)


def drops(run: Run) -> list[dict[str, Any]]:
    return [json.loads(row["detail"]) for row in run.of("fault", "p3")]


# --- omissions --------------------------------------------------------------------------------------------------------


def test_the_next_packet_is_dropped_once() -> None:
    run = run_toy(Flood, workload=(ONE,), fault=(omit(),))
    assert run.delivered("p3") == [("p1", 1), ("p1", 2), ("p1", 4), ("p1", 5)]
    assert len(run.delivered("p2")) == 5
    assert drops(run) == [{"fault": "omit", "source": "p1", "packet": "Data", "drop": 1, "count": 1}]
    assert [row["time"] for row in run.of("fault")] == [21 * MS]
    assert run.summary.packets_lost == 1


def test_several_are_the_next_ones_where_packets_do_not_say_what_they_carry() -> None:
    run = run_toy(Flood, workload=(ONE,), fault=(omit(count=2),))
    assert run.delivered("p3") == [("p1", 1), ("p1", 2), ("p1", 5)]
    assert [(drop["drop"], drop["count"]) for drop in drops(run)] == [(1, 2), (2, 2)]


def test_only_those_of_a_source() -> None:
    run = run_toy(Flood, workload=(TWO,), fault=(omit(source="p2"),))
    assert run.delivered("p3", "p1") == [("p1", seq) for seq in range(1, 6)]
    assert run.delivered("p3", "p2") == [("p2", seq) for seq in (1, 2, 4, 5)]


def test_only_those_of_a_kind() -> None:
    run = run_toy(Flood, workload=(ONE,), fault=(omit(packet="Hello"),))
    assert len(run.delivered("p3")) == 5
    assert drops(run) == []


@pytest.mark.parametrize("count", [1, 2, 3, 4])
def test_several_are_losses_of_one_packet_where_packets_say_what_they_carry(count: int) -> None:
    """Each message is sent four times, 5 ms apart, and those of others in between; the message is lost when all are."""
    first = Workload(senders=("p1", "p2"), rate=100.0, count=5, start=20 * MS)
    run = run_toy(Stubborn, workload=(first,), fault=(omit(count=count),))
    found = drops(run)
    assert [drop["drop"] for drop in found] == list(range(1, count + 1))
    assert {tuple(drop["identity"]) for drop in found} == {("p1", 1)}
    lost = {("p1", 1)} if count == Stubborn.TIMES else set()
    assert set(run.delivered("p2")) - set(run.delivered("p3")) == lost


def test_omissions_do_not_get_in_each_others_way() -> None:
    run = run_toy(Flood, workload=(TWO,), fault=(omit(source="p1"), omit(source="p2"), omit(source="p1")))
    assert Counter(sender for sender, _ in run.delivered("p3")) == {"p1": 3, "p2": 4}


def test_omissions_work_with_a_processor_and_a_clock_of_its_own() -> None:
    run = run_toy(Flood, workload=(ONE,), fault=(omit(count=2),), network=Network(receive_cost=MS // 10, wire=True))
    assert len(run.delivered("p3")) == 3


def test_nothing_is_omitted_while_draining() -> None:
    last = Workload(senders=("p1",), rate=10_000.0, start=99 * MS, stop=100 * MS)
    run = run_toy(Flood, workload=(last,), fault=(Fault(kind="omit", process="p3", at=98 * MS, count=1000),))
    dropped = len(drops(run))
    assert 0 <= dropped < 10
    assert len(run.delivered("p3")) == len(run.delivered("p2")) - dropped > 0


def test_a_dead_process_omits_nothing() -> None:
    run = run_toy(Flood, workload=(ONE,), fault=(Fault(kind="crash", process="p3", at=5 * MS), omit()))
    assert [json.loads(row["detail"])["fault"] for row in run.of("fault")] == ["crash"]


def test_a_run_with_an_omission_that_never_happens_is_as_one_without() -> None:
    never = run_toy(Flood, workload=(TWO,), fault=(omit(packet="Hello"),))
    without = run_toy(Flood, workload=(TWO,))
    assert never.table.equals(without.table)
    assert (never.summary.events, never.summary.interrupts) == (without.summary.events, without.summary.interrupts)


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({"fault": (omit(packet="Dat"),)}, 'fault.0.packet: .*flood has no packet "Dat"; there are: Data, Request, Ordered'),
        ({"fault": (omit(source="p9"),)}, 'fault.0.source: .*there is no process "p9"'),
        ({"fault": (Fault(kind="omit", at=MS),)}, 'a fault of kind omit needs "process"'),
        ({"fault": (omit(target="p1"),)}, 'a fault of kind omit has no "target"; it has: process, at, source, packet, count'),
        ({"random": RandomFaults(omit_packet="Nil")}, 'random.omit_packet: .*flood has no packet "Nil"'),
    ],
)
def test_omissions_that_cannot_be_are_refused(settings: dict[str, Any], problem: str) -> None:
    with pytest.raises(ScenarioError, match=problem):
        run_toy(Flood, **settings)


def test_omissions_are_drawn_and_other_draws_stay_as_they_are() -> None:
    def drawn(**rates: Any) -> tuple[Fault, ...]:
        members = ("p1", "p2", "p3", "p4", "p5")
        scenario = Scenario(protocol="toy", members=members, duration=20 * SECOND, random=RandomFaults(**rates))
        return draw_faults(scenario, Random("1"))

    found = [fault for fault in drawn(omit=10.0, omit_most=3, omit_packet="Data") if fault.kind == "omit"]
    assert len(found) > 100
    assert {fault.count for fault in found} == {1, 2, 3}
    assert {fault.packet for fault in found} == {"Data"}
    assert {fault.process for fault in found} == {"p1", "p2", "p3", "p4", "p5"}
    assert drawn(pause=5.0) == drawn(pause=5.0, omit_most=9, restart_halted=0.5)


# --- loopback ---------------------------------------------------------------------------------------------------------


def own_times(run: Run, process: str = "p1") -> list[int]:
    return [row["true_time"] - row["sent"] for row in run.of("deliver", process) if row["sender"] == process]


def test_own_packets_take_the_links_delay() -> None:
    run = run_toy(Echo, workload=(ONE,))
    assert own_times(run) == [1 * MS] * 5
    assert len(run.delivered("p2")) == 5
    assert run.summary.packets_sent == 5


def test_without_loopback_they_are_there_at_once() -> None:
    class Here(Echo):
        LOOPBACK: ClassVar = False

    assert own_times(run_toy(Here, workload=(ONE,))) == [0] * 5


def test_a_cut_from_a_process_to_everybody_makes_it_unheard_by_itself() -> None:
    cut = Fault(kind="cut", source="p1", at=15 * MS, length=20 * MS)
    run = run_toy(Echo, workload=(ONE,), fault=(cut,))
    for process in ("p1", "p2", "p3"):
        assert run.delivered(process) == [("p1", seq) for seq in (1, 2, 5)]


def test_what_does_not_concern_the_own_link_does_not_touch_own_packets() -> None:
    elsewhere = (
        Fault(kind="cut", source="p1", target="p2", at=0 * MS),
        Fault(kind="partition", parts=(("p1",), ("p2", "p3")), at=0 * MS),
        Fault(kind="loss", source="p2", rate=1.0, at=0 * MS),
    )
    run = run_toy(Echo, workload=(LATER,), fault=elsewhere)
    assert len(run.delivered("p1")) == 5
    assert run.delivered("p2") == []


def test_losses_that_match_are_losses_and_rates_of_the_network_are_not() -> None:
    run = run_toy(Echo, workload=(ONE,), network=Network(loss=1.0, corrupt=1.0, duplicate=1.0))
    assert len(run.delivered("p1")) == 5
    assert run.delivered("p2") == []
    run = run_toy(Echo, workload=(LATER,), fault=(Fault(kind="loss", source="p1", rate=1.0, at=0 * MS),))
    assert run.delivered("p1") == []


def test_own_packets_wait_for_a_shared_medium_with_the_others() -> None:
    run = run_toy(Echo, workload=(ONE,), network=Network(shared=True, bandwidth=1_000_000, wire=True))
    times = {process: [row["true_time"] for row in run.of("deliver", process)] for process in ("p1", "p2", "p3")}
    assert times["p1"] == times["p2"] == times["p3"]
    assert min(own_times(run)) > 1 * MS


def test_own_packets_can_be_omitted() -> None:
    run = run_toy(Echo, workload=(ONE,), fault=(Fault(kind="omit", process="p1", source="p1", at=15 * MS),))
    assert run.delivered("p1") == [("p1", seq) for seq in (1, 2, 4, 5)]
    assert len(run.delivered("p2")) == 5


def test_a_crash_in_the_middle_of_a_broadcast_reaches_somebody_else() -> None:
    for seed in range(10):
        crash = Fault(kind="crash", process="p1", at=15 * MS, mid_broadcast=True)
        run = run_toy(Echo, workload=(ONE,), fault=(crash,), seed=seed)
        reached = json.loads(run.of("crash", "p1")[0]["detail"])["reached"]
        assert reached in (["p2"], ["p3"])


# --- halted processes that come back ----------------------------------------------------------------------------------


class Brittle(Flood):
    """Halts at the second message of somebody else."""

    def __init__(self, host: Any, parameters: Any) -> None:
        super().__init__(host, parameters)
        self.count = 0

    def receive(self, source: str, packet: Any) -> None:
        super().receive(source, packet)
        self.count += 1
        if self.count == 2:
            self.host.halt(Reason("brittle", "that was enough"))


def brittle(**settings: Any) -> Run:
    return run_toy(Brittle, valid=False, workload=(Workload(rate=100.0),), duration=SECOND, **settings)


def test_halted_processes_stay_away_unless_told_otherwise() -> None:
    assert set(brittle().summary.processes) == {"p1", "p2", "p3"}


def test_halted_processes_come_back_after_a_while() -> None:
    run = brittle(random=RandomFaults(restart_halted=1.0, restart_after=20 * MS))
    names = list(run.summary.processes)
    assert len(names) > 20
    restarts = [row for row in run.of("fault") if json.loads(row["detail"])["fault"] == "restart"]
    assert len(restarts) == len(names) - 3
    assert all(row["true_time"] < SECOND for row in restarts)
    away = [
        row["true_time"] - run.of("crash", before)[0]["true_time"]
        for row in restarts
        for before in [process_name(place_of(row["process"]), incarnation_of(row["process"]) - 1)]
    ]
    assert min(away) >= 1 * MS
    assert max(away) > 20 * MS


def test_a_share_of_them_comes_back() -> None:
    halts = returns = 0
    for seed in range(20):
        run = brittle(random=RandomFaults(restart_halted=0.5, restart_after=MS), seed=seed, drain=0)
        returns += len(run.summary.processes) - 3
        halts += sum(1 for end in run.summary.processes.values() if end.state == "halted")
    assert 0.3 < returns / halts < 0.7


def test_those_who_halt_at_once_do_not_make_a_run_endless() -> None:
    class Hopeless(Flood):
        def join(self, group: str, how: Any) -> None:
            self.host.halt(Reason("hopeless", "there is no hope"))

    run = run_toy(Hopeless, valid=False, workload=(), random=RandomFaults(restart_halted=1.0, restart_after=0 * MS))
    assert len(run.summary.processes) == 3 * 100


def test_nobody_comes_back_while_draining() -> None:
    late = Workload(senders=("p1",), rate=1000.0, start=90 * MS, count=2)
    settings: dict[str, Any] = {"random": RandomFaults(restart_halted=1.0, restart_after=SECOND), "drain": 10 * SECOND}
    run = run_toy(Brittle, valid=False, workload=(late,), **settings)
    assert set(run.summary.processes) == {"p1", "p2", "p3"}
    assert run.summary.processes["p2"].state == "halted"


def test_crashes_by_faults_are_not_halts() -> None:
    crash = Fault(kind="crash", process="p3", at=15 * MS)
    run = run_toy(Flood, fault=(crash,), random=RandomFaults(restart_halted=1.0, restart_after=MS))
    assert set(run.summary.processes) == {"p1", "p2", "p3"}
