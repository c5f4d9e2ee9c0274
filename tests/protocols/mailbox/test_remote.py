"""Remote members (A.2): through a slave a process elsewhere is in the group like any other, and fails like any other."""

from __future__ import annotations

import json
from collections.abc import Generator
from typing import Any

import pytest

from plainchant.core.memory import Copy, Operate, Request, Until
from plainchant.core.model import MS, SECOND, Batch, Due, Duration, Failure, Pressure, Reason, ScenarioError, UsageError
from plainchant.lab.properties import verify
from plainchant.protocols.mailbox import DESCRIPTION
from plainchant.protocols.mailbox.parameters import Parameters
from plainchant.protocols.mailbox.remote_link import WINDOW, Link, silence
from plainchant.protocols.mailbox.remote_packets import (
    AnyItem,
    Data,
    Enter,
    Halted,
    Heard,
    Piece,
    Pressed,
    Untimely,
    Wanted,
    item_from_bytes,
    item_to_bytes,
)
from plainchant.protocols.mailbox.remote_slave import Acting, Slave
from plainchant.protocols.variants import replaced
from plainchant.scenario import find
from plainchant.scenario.load import parse
from plainchant.sim import Simulation
from plainchant.trace import TraceBuffer
from tests.fakes import FakeHost, as_host

PARAMETERS = Parameters(remote={"p4": "p1"})

SCENARIO = """
protocol = "mailbox"
members = ["p1", "p2", "p3", "p4"]
duration = "200ms"

[parameters]
remote = { p4 = "p1" }
poll = "4ms"

[network]
delay = { uniform = ["100us", "2400us"] }
wire = true

[[workload]]
rate = 50
"""

FIVE = 'members=["p1", "p2", "p3", "p4", "p5"]'
LOSSY = ("network.loss=0.2", "network.duplicate=0.1", "network.reorder=0.2", 'parameters.datagram="400ms"')
LONG = ('duration="2500ms"', "workload.0.rate=4", 'parameters.poll="10ms"')
"""Long enough for a link to be given up."""


def fault(kind: str, process: str, at: str) -> str:
    return f'\n[[fault]]\nkind = "{kind}"\nprocess = "{process}"\nat = "{at}"\n'


def cut(source: str, target: str, at: str, length: str) -> str:
    return f'\n[[fault]]\nkind = "cut"\nsource = "{source}"\ntarget = "{target}"\nat = "{at}"\nlength = "{length}"\n'


class Run:
    """A simulated run that came to rest."""

    def __init__(self, faults: str = "", *settings: str, seed: int = 1, text: str = SCENARIO) -> None:
        trace = TraceBuffer()
        scenario = parse(text + faults, "remote.toml", [f"seed={seed}", *settings])
        self.simulation = Simulation(scenario, trace=trace)
        self.summary = self.simulation.run()
        assert self.summary.quiet, self.summary.not_quiet
        table = trace.table()
        self.rows: list[dict[str, Any]] = table.to_pylist()
        self.verification = verify(table)
        self.cases = {name: outcome.cases for name, outcome in self.verification.properties.items()}
        self.bound = json.loads(next(row["detail"] for row in self.rows if row["kind"] == "start"))["bounds"]["deliver"]

    @property
    def violated(self) -> list[str]:
        return [name for name, outcome in self.verification.properties.items() if outcome.violations]

    def of(self, process: str, kind: str) -> list[dict[str, Any]]:
        return [row for row in self.rows if row["process"] == process and row["kind"] == kind]

    def delivered(self, process: str) -> list[tuple[str, int]]:
        return [(row["sender"], row["seq"]) for row in self.of(process, "deliver")]

    def count(self, process: str, *senders: str) -> int:
        """How many messages of these a process has delivered."""
        return len([sender for sender, _ in self.delivered(process) if sender in senders])

    def reason(self, process: str) -> str:
        """Why a process was halted."""
        return str(json.loads(self.of(process, "crash")[0]["detail"]).get("reason"))

    def is_untimely(self, process: str) -> bool:
        return any(json.loads(row["detail"]).get("timing") for row in self.of(process, "fault"))

    def slowest(self, process: str) -> int:
        """The longest time that a message of this process took until it came back to it."""
        return max(int(row["true_time"] - row["sent"]) for row in self.of(process, "deliver") if row["sender"] == process)

    @property
    def connected(self) -> set[str]:
        """Who has a place in the mailbox at the end."""
        assert self.simulation.memory is not None
        return set(self.simulation.memory.server.mailboxes["g"].places.values())


# --- bounds -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("tolerate", ["crash", "timing"])
def test_a_slave_keeps_the_bounds_if_the_datagrams_do(tolerate: str) -> None:
    run = Run("", f'parameters.tolerate="{tolerate}"', 'memory.duration="max"')
    assert not run.violated
    assert run.cases["bounded"] > 150
    assert run.cases["validity"] == 4 * 40
    assert not run.is_untimely("p4")
    assert run.count("p4", "p1", "p2", "p3", "p4") == 40
    there = DESCRIPTION.bounds(Parameters(tolerate=tolerate, poll=Duration(4 * MS)), {"g": ["p1", "p2", "p3", "p4"]})["deliver"]
    assert run.bound > there + 2 * PARAMETERS.datagram
    assert run.slowest("p4") <= run.bound
    assert max(run.slowest(process) for process in ("p1", "p2", "p3")) <= there


def test_datagrams_beyond_their_bound_are_a_timing_failure_of_the_remote_process_alone() -> None:
    beyond = 'network.delay={uniform=["4ms", "20ms"]}'
    run = Run("", beyond)
    assert run.is_untimely("p4")
    assert not any(run.is_untimely(process) for process in ("p1", "p2", "p3"))
    assert run.slowest("p4") > run.bound
    assert not run.violated
    assert run.delivered("p4") == run.delivered("p2")
    with replaced(Link, "_tell_overdue", lambda link, took: None):
        assert Run("", beyond).violated == ["bounded"]


def test_what_the_slave_does_late_is_a_timing_failure_of_the_remote_process() -> None:
    slow = '\n[[fault]]\nkind = "slow"\nprocess = "p1"\nat = "60ms"\nlength = "40ms"\ndelay = "3ms"\n'
    run = Run(slow, FIVE)
    assert run.is_untimely("p1")
    assert run.is_untimely("p4")
    assert not any(run.is_untimely(process) for process in ("p2", "p3", "p5"))
    assert not run.violated
    assert run.cases["bounded"] > 50


# --- the network ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("tolerate", ["crash", "timing"])
def test_loss_repetition_and_reordering_on_the_link(tolerate: str, seed: int) -> None:
    run = Run("", *LOSSY, f'parameters.tolerate="{tolerate}"', seed=seed)
    assert not run.violated
    assert not run.is_untimely("p4")
    assert run.summary.packets_lost > 10
    assert run.count("p4", "p1", "p2", "p3", "p4") == 40
    assert run.delivered("p4") == run.delivered("p2")


def test_large_messages_go_through_in_pieces() -> None:
    run = Run("", "network.loss=0.1", "workload.0.size=150000", "workload.0.rate=10", 'parameters.datagram="400ms"')
    assert not run.violated
    assert run.count("p4", "p1", "p2", "p3", "p4") == 8
    assert run.delivered("p4") == run.delivered("p1")


def test_two_remote_members_and_one_that_acts_for_both() -> None:
    run = Run("", FIVE, 'parameters.remote={p4="p1", p5="p1"}', *LOSSY)
    assert not run.violated
    assert run.delivered("p4") == run.delivered("p5") == run.delivered("p2")
    assert len(run.delivered("p4")) == 50


def test_a_remote_process_may_only_send() -> None:
    run = Run("", 'parameters.senders=["p4"]', *LOSSY)
    assert not run.violated
    assert not run.of("p4", "join")
    assert not run.delivered("p4")
    assert run.count("p1", "p4") == 10


# --- failures ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("at", ["100us", "1500us", "3ms", "80ms"])
def test_a_remote_process_crashes(at: str) -> None:
    run = Run(fault("crash", "p4", at))
    assert not run.violated
    assert run.connected == {"p1", "p2", "p3"}
    assert run.count("p2", "p1", "p2", "p3") == 30


@pytest.mark.parametrize("at", ["1500us", "80ms"])
def test_who_acts_for_others_takes_them_with_it(at: str) -> None:
    run = Run(fault("crash", "p1", at), FIVE)
    assert not run.violated
    assert run.reason("p4") == "failed"
    assert run.connected == {"p2", "p3", "p5"}
    assert run.count("p2", "p2", "p3", "p5") == 30


def test_both_come_back() -> None:
    faults = fault("crash", "p1", "60ms") + fault("restart", "p1", "90ms") + fault("restart", "p4", "110ms")
    run = Run(faults, FIVE, *LOSSY)
    assert not run.violated
    assert run.connected == {"p2", "p3", "p5", "p1#1", "p4#1"}
    assert run.of("p4#1", "join")
    assert run.count("p2", "p4#1") == len(run.of("p4#1", "send")) > 0


def test_a_remote_process_comes_back_to_who_acted_for_it() -> None:
    run = Run(fault("crash", "p4", "60ms") + fault("restart", "p4", "80ms"), *LOSSY)
    assert not run.violated
    assert run.connected == {"p1", "p2", "p3", "p4#1"}
    assert run.count("p2", "p4#1") == len(run.of("p4#1", "send")) > 0


def test_who_dies_while_the_group_is_formed_is_seen_by_all() -> None:
    """p5 dies before p4 has come, whose packets take long: its place must not be p4's before all have seen it."""
    remote = 'parameters.remote={p4="p1", p5="p1"}'
    settings = (FIVE, remote, 'parameters.datagram="150ms"', 'parameters.poll="10ms"', 'drain="4s"')
    late = '\n[[network.link]]\nsource = "p4"\ndelay = "60ms"\n'
    run = Run(late + fault("crash", "p5", "20ms"), *settings)
    assert not run.violated
    assert run.of("p5", "crash")[0]["true_time"] < min(row["true_time"] for row in run.rows if row["kind"] == "join")
    assert run.connected == {"p1", "p2", "p3", "p4"}
    assert run.count("p4", "p1", "p2", "p3", "p4") == 40
    alone = replaced(Acting, "_is_forming_with", lambda acting, process: False)
    with alone, pytest.raises(AssertionError, match="p2 is on its way into g"):
        Run(late + fault("crash", "p5", "20ms"), *settings)


def test_who_is_not_heard_is_given_up_and_stops() -> None:
    run = Run(cut("p4", "p1", "50ms", "2400ms") + cut("p1", "p4", "50ms", "2400ms"), *LONG)
    assert not run.violated
    assert run.reason("p4") == "silence"
    assert run.connected == {"p1", "p2", "p3"}


def test_who_was_given_up_is_told_so() -> None:
    """The slave hears nothing, the remote process still does: it is the slave's last word that stops it."""
    run = Run(cut("p4", "p1", "50ms", "2400ms"), *LONG)
    assert not run.violated
    assert run.reason("p4") == "silence"
    assert "p1 has heard nothing from p4" in run.of("p4", "crash")[0]["detail"]
    assert run.connected == {"p1", "p2", "p3"}


def test_a_group_is_formed_without_a_remote_process_that_never_comes() -> None:
    run = Run('\n[[network.link]]\nsource = "p4"\nloss = 1.0\n', *LONG)
    assert not run.violated
    assert run.of("p4", "refused")
    assert not run.of("p4", "join")
    joined = [run.of(process, "join")[0]["true_time"] for process in ("p1", "p2", "p3")]
    assert min(joined) >= silence(PARAMETERS)
    assert run.count("p2", "p1", "p2", "p3") == 30
    assert run.connected == {"p1", "p2", "p3"}


def test_the_shipped_scenario_shows_what_it_says() -> None:
    run = Run(text=find("mailbox-remote").read_text(encoding="utf-8"), seed=0)
    assert not run.violated
    assert run.connected == {"controller", "station-1", "station-2", "sensor", "console#1"}
    assert 2 < run.count("station-1", "console") <= len(run.of("console", "send"))
    assert run.count("station-1", "console#1") == len(run.of("console#1", "send")) > 2
    assert run.delivered("sensor") == run.delivered("station-1")
    assert run.summary.packets_lost > 5


# --- leaving ----------------------------------------------------------------------------------------------------------


def test_a_remote_process_leaves_after_what_it_has_sent() -> None:
    run = Run(fault("leave", "p4", "80ms"), *LOSSY)
    assert not run.violated
    assert run.of("p4", "leave")
    assert run.count("p2", "p4") == len(run.of("p4", "send")) > 2
    assert run.connected == {"p1", "p2", "p3"}


def test_who_acts_for_others_leaves_after_them() -> None:
    run = Run(fault("leave", "p1", "80ms"), *LOSSY)
    assert not run.violated
    left = {process: run.of(process, "leave")[0] for process in ("p1", "p4")}
    assert left["p4"]["rank"] < left["p1"]["rank"]
    assert run.count("p2", "p4") == len(run.of("p4", "send")) > 2
    assert run.connected == {"p2", "p3"}


# --- what is wrong ----------------------------------------------------------------------------------------------------


def test_who_acts_must_be_in_the_group() -> None:
    with pytest.raises(ScenarioError, match="p1 acts for p4, which is in g, but is not in g itself"):
        parse(SCENARIO, "remote.toml", ['members=["p2", "p3", "p4"]'])


def test_who_acts_must_not_be_remote_itself() -> None:
    with pytest.raises(UsageError, match="p1 acts for p4, but is remote itself"):
        Parameters(remote={"p4": "p1", "p1": "p2"})


# --- one slave, by hand -----------------------------------------------------------------------------------------------


class Bench:
    """The engine of ``p1`` on a host that does nothing, and what ``p4`` says to it."""

    def __init__(self) -> None:
        self.host = FakeHost("p1")
        self.acting = Acting(as_host(self.host), "g", PARAMETERS)
        self.number = 0

    def say(self, item: AnyItem, source: str = "p4") -> None:
        self.number += 1
        self.acting.receive(source, Piece("g", 5, self.number, 0, False, item_to_bytes(item)))

    def enter(self) -> Slave:
        self.say(Enter(True, ("p1", "p4")))
        return self.acting.slaves["p4"]

    @property
    def said(self) -> list[AnyItem]:
        packets = [packet for _, packet in self.host.called("send") if isinstance(packet, Piece)]
        return [item_from_bytes(packet.body) for packet in packets]


def requests(*all_of_them: Request) -> Generator[Request, Any, None]:
    yield from all_of_them


def test_nothing_is_taken_elsewhere_before_there_is_a_slot() -> None:
    bench = Bench()
    slave = bench.enter()
    assert slave.peek("g") == Due(b"", 0)
    assert slave.take("g", 100) is None
    assert bench.said == [Wanted()]
    assert slave.peek("g") is None
    batch = Batch(1, 1, b"hello")
    bench.say(Data(batch))
    assert slave.peek("g") == Due(b"hello", 0)
    assert slave.take("g", 100) == batch
    assert slave.peek("g") == Due(b"", 0)


def test_a_full_application_elsewhere_and_a_full_link_slow_the_senders_down() -> None:
    bench = Bench()
    slave = bench.enter()
    pressed = []
    for full in (True, False):
        bench.say(Pressed(full))
        pressed.append(slave.inner.receiver.pressed)
    for number in range(WINDOW + 1):
        pressed.append(slave.inner.receiver.pressed)
        slave.deliver("g", "p1", Batch(number + 1, 1, b"x"), number)
    pressed.append(slave.inner.receiver.pressed)
    bench.acting.receive("p4", Heard("g", 5, WINDOW))
    pressed.append(slave.inner.receiver.pressed)
    assert pressed == [True, False, *[False] * (WINDOW + 1), True, False]
    bench.acting.notice(Pressure("g", True))
    assert (slave.inner.receiver.pressed, bench.acting.own.receiver.pressed) == (False, True)


def test_a_slave_that_stops_does_nothing_more_not_even_what_it_has_begun() -> None:
    bench = Bench()
    slave = bench.enter()
    done: list[Any] = []
    procedure = slave._act(requests(*(Operate("g", copy, "look", done.append, 10) for copy in range(3))))
    first: Any = next(procedure)
    first.step("copy 0")
    second: Any = procedure.send(None)
    bench.acting.notice(Failure("p4"))
    second.step("copy 1")
    with pytest.raises(StopIteration):
        procedure.send(None)
    assert done == ["copy 0"]


def test_an_operation_that_takes_too_long_is_told_once() -> None:
    def look(copy: Copy) -> None:
        pass

    def timed(*lasting: int) -> list[AnyItem]:
        """What is said when an operation, a wait and another operation take so long."""
        bench = Bench()
        begin = bench.host.clock()
        operation, wait = Operate("g", 0, "look", look, 10), Until(begin + 500)
        procedure = bench.enter()._act(requests(operation, wait, operation, wait))
        next(procedure)
        for took in lasting:
            bench.host.time += took
            procedure.send(None)
        return bench.said

    assert timed(10, 490, 10) == []
    assert timed(11, 489, 10) == [Untimely("look", 11, 10)]
    assert timed(10, 495, 6) == [Untimely("look", 11, 10)]
    assert timed(20, 495, 20) == [Untimely("look", 20, 10)]


def test_strangers_are_not_heard() -> None:
    bench = Bench()
    bench.say(Enter(True, ("p1", "p9")), source="p9")
    assert not bench.acting.slaves
    assert not bench.host.calls


def test_what_cannot_be_said_stops_the_slave() -> None:
    bench = Bench()
    bench.say(Data(Batch(1, 1, b"x")))
    assert bench.acting.slaves["p4"].stopped
    assert [item.reason.code for item in bench.said if isinstance(item, Halted)] == ["garbled"]


def test_a_reason_reaches_the_remote_process() -> None:
    bench = Bench()
    reason = Reason("rejected", "it was late", {"stamp": 3})
    bench.enter().halt(reason)
    assert bench.said == [Halted(reason)]
    assert silence(PARAMETERS) >= 1 * SECOND
