"""Applications that take nothing for a while."""

from __future__ import annotations

import json
from typing import Any

import pytest

from plainchant.core.engine import Host
from plainchant.core.model import Pressure, ScenarioError, UsageError
from plainchant.lab.properties import verify
from plainchant.scenario.model import Fault, RandomFaults, Scenario, Workload
from plainchant.sim import Simulation, functions
from plainchant.sim import run as run_program
from plainchant.trace import TraceBuffer

from .conftest import MS, SECOND, Run, run_toy
from .toy import Flood, ToyParameters

ONE_EACH_10MS = Workload(senders=("p1",), rate=100.0)


def sluggish(at: int, length: int, count: int = 1, process: str = "p2") -> Fault:
    return Fault(kind="sluggish", process=process, at=at * MS, length=length * MS, count=count)


class Listener:
    """A flood that writes down when it is told of pressure, and an application that writes down when it gets what."""

    def __init__(self) -> None:
        self.told: list[tuple[int, bool]] = []
        self.taken: list[tuple[int, int]] = []
        self.views: list[int] = []

    def run(self, *faults: Fault, **settings: Any) -> Run:
        listener = self

        class Flooded(Flood):
            def __init__(self, host: Host, parameters: ToyParameters) -> None:
                super().__init__(host, parameters)

            def notice(self, event: Any) -> None:
                if isinstance(event, Pressure):
                    assert self.host.me == "p2"
                    listener.told.append((self.host.now // MS, event.full))

        def on_deliver(member: Any, group: str, sender: str, payload: bytes, seq: int) -> None:
            listener.taken.append((member.now // MS, seq))

        def on_view(member: Any, view: Any) -> None:
            listener.views.append(member.now // MS)

        applications = {"p2": functions(on_deliver=on_deliver, on_view=on_view)}
        given: dict[str, Any] = {"workload": (ONE_EACH_10MS,), "options": {"applications": applications}, **settings}
        return run_toy(Flooded, fault=faults, **given)


def test_messages_wait_and_the_engine_is_told_when_they_are_too_many_and_when_they_are_taken() -> None:
    listener = Listener()
    run = listener.run(sluggish(15, 40, count=3))
    # A message every 10 ms, from 1 ms on: the third that waits comes at 41 ms.
    assert listener.told == [(41, True), (55, False)]
    assert listener.taken == [(1, 1), (11, 2), (55, 3), (55, 4), (55, 5), (55, 6), (61, 7), (71, 8), (81, 9), (91, 10)]
    assert [row["true_time"] // MS for row in run.of("deliver", "p2")] == [1, 11, 21, 31, 41, 51, 61, 71, 81, 91]
    (detail,) = [json.loads(row["detail"]) for row in run.of("fault", "p2")]
    assert detail == {"fault": "sluggish", "process": "p2", "length": 40 * MS, "count": 3}


def test_the_engine_is_not_told_where_few_messages_wait() -> None:
    listener = Listener()
    listener.run(sluggish(15, 40, count=10))
    assert listener.told == []
    assert len(listener.taken) == 10


def test_a_longer_one_that_begins_meanwhile_goes_on() -> None:
    listener = Listener()
    listener.run(sluggish(15, 20), sluggish(25, 40))
    assert listener.told == [(21, True), (65, False)]
    assert [time for time, _ in listener.taken] == [1, 11, 65, 65, 65, 65, 65, 71, 81, 91]


def test_what_was_under_way_at_the_end_of_the_faults_is_taken() -> None:
    listener = Listener()
    listener.run(sluggish(95, 1000), workload=(Workload(senders=("p1",), rate=100.0, start=97 * MS),))
    assert listener.told == [(98, True), (100, False)]
    assert listener.taken == [(100, 1)]


def test_views_are_told_in_the_order_of_messages() -> None:
    listener = Listener()
    listener.run(sluggish(0, 40), workload=(Workload(senders=("p1",), rate=100.0, count=1),))
    assert listener.views == [0]
    later = Listener()
    join = Fault(kind="join", process="p2", at=5 * MS)
    later.run(sluggish(6, 40), join, members=("p1", "p3"), later=("p2",))
    assert later.views == [5]


def test_a_process_that_crashes_takes_nothing_any_more() -> None:
    listener = Listener()
    run = listener.run(sluggish(15, 40), Fault(kind="crash", process="p2", at=30 * MS))
    assert listener.told == [(21, True)]
    assert [time for time, _ in listener.taken] == [1, 11]
    assert run.history("p2")[-1] == "crash"


def test_a_closed_loop_waits_for_its_sluggish_sender() -> None:
    run = run_toy(Flood, fault=(sluggish(15, 40, process="p1"),), workload=(Workload(senders=("p1",), closed=1),))
    sends = [row["true_time"] // MS for row in run.of("send", "p1")]
    assert [time for time in sends if 15 < time < 55] == []
    assert 55 in sends


def test_a_sequencer_keeps_its_promises_to_sluggish_members() -> None:
    """The real protocol stops numbering while a member has no room, and goes on."""
    scenario = Scenario(
        protocol="sequencer",
        members=("p1", "p2", "p3"),
        duration=1 * SECOND,
        workload=(Workload(rate=300.0),),
        fault=(sluggish(100, 300, count=20, process="p3"),),
        random=RandomFaults(sluggish=3.0),
        seed=5,
        parameters={"history": 16},
    )
    trace = TraceBuffer()
    summary = Simulation(scenario, trace=trace).run()
    assert summary.quiet
    assert verify(trace.table()).verdict == "holds"
    rows = [row for row in trace.table().to_pylist() if row["kind"] == "send"]
    assert [row for row in rows if 250 * MS < row["true_time"] < 400 * MS] == []
    assert sum(fault.kind == "sluggish" for fault in summary.faults) > 2


def test_programs_read_when_they_want_to() -> None:
    async def main(group: Any) -> None: ...

    with pytest.raises(UsageError, match="a program takes messages when it reads them"):
        run_program(main, faults=[{"kind": "sluggish", "process": "p1", "at": "1ms", "length": "1ms"}])


def test_it_needs_a_length() -> None:
    with pytest.raises(ScenarioError, match='a fault of kind sluggish needs "length"'):
        run_toy(Flood, fault=(Fault(kind="sluggish", process="p1", at=1 * MS),))
