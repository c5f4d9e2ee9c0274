"""A run as a whole: what is in its trace, how it ends, and that the seed decides everything."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from pathlib import Path
from typing import Any
from zlib import crc32

import pytest

from plainchant.core.engine import Host
from plainchant.core.model import Batch, ProtocolError, Reason, UsageError
from plainchant.scenario.model import Clock, Delay, Fault, Network, RandomFaults, Scenario, Workload
from plainchant.sim import Simulation
from plainchant.trace import TraceBuffer

from .conftest import MS, SECOND, run_toy
from .toy import Data, Flood, Sequencer, ToyParameters, describe_toy

ROUGH = Network(delay=Delay("uniform", 1 * MS, 5 * MS), loss=0.1, duplicate=0.1, reorder=0.1, corrupt=0.05)
EVERYTHING = RandomFaults(
    crash=8,
    pause=8,
    partition=4,
    cut=8,
    clog=10,
    leave=30,
    step=5,
    restart_after=20 * MS,
    pause_length=20 * MS,
    network_length=20 * MS,
)


def fingerprint(seed: int) -> str:
    """Of a run with everything that is drawn at random."""
    members = ("p1", "p2", "p3", "p4", "p5")
    poisson = Workload(rate=200.0, arrivals="poisson")
    run = run_toy(Flood, members=members, network=ROUGH, random=EVERYTHING, workload=(poisson,), seed=seed, duration=300 * MS)
    assert {row["kind"] for row in run.rows} >= {"fault", "crash", "deliver", "view", "leave", "end"}
    return hashlib.sha256(repr(run.rows).encode()).hexdigest()


def test_the_same_seed_gives_the_same_trace() -> None:
    assert fingerprint(7) == fingerprint(7)


def test_another_seed_gives_another_trace() -> None:
    assert fingerprint(7) != fingerprint(8)


def test_the_trace_does_not_depend_on_hashes() -> None:
    root = Path(__file__).parents[2]
    program = "from tests.sim.test_simulation import fingerprint; print(fingerprint(7))"
    path = os.pathsep.join([str(root / "src"), str(root)])
    prints = set()
    for hash_seed in ("1", "2"):
        environment = {**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": path}
        done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True)
        prints.add(done.stdout.strip())
    assert prints == {fingerprint(7)}


def test_a_history_starts_joins_and_ends() -> None:
    run = run_toy(Sequencer)
    history = run.history("p2")
    assert history[:3] == ["start", "join", "view"]
    assert history[-1] == "end"
    assert run.of("view", "p2")[0]["members"] == ["p1", "p2", "p3"]
    assert run.of("join", "p2")[0]["rank"] == 0
    assert '"protocol":"sequencer"' in run.of("start", "p2")[0]["detail"].replace(" ", "")


def test_deliveries_carry_send_time_rank_digest_and_size() -> None:
    run = run_toy(Sequencer, workload=(Workload(senders=("p2",), rate=100.0, size=40, count=1),))
    (sent,) = run.of("send")
    payload = b"p2/g/1".ljust(40, b".")
    assert (sent["process"], sent["seq"], sent["size"], sent["digest"], sent["view"]) == (
        "p2",
        1,
        40,
        crc32(payload),
        1,
    )
    assert len(run.of("deliver")) == 3
    for row in run.of("deliver"):
        assert (row["sent"], row["digest"], row["size"], row["rank"]) == (sent["true_time"], crc32(payload), 40, 1)


def test_a_request_and_a_broadcast_are_two_packets_and_three_interrupts() -> None:
    run = run_toy(Sequencer, workload=(Workload(senders=("p2",), rate=100.0, count=5),))
    summary = run.summary
    assert (summary.packets_sent, summary.interrupts, summary.broadcasts) == (10, 15, 5)
    assert summary.packets_by_type == {"Request": 5, "Ordered": 5}
    assert summary.interrupts_by_type == {"Request": 5, "Ordered": 10}
    assert (summary.messages_sent, summary.messages_delivered) == (5, 15)
    assert sum(row["packets"] or 0 for row in run.rows) == 10
    assert run.of("send")[0]["packets"] == 1


def test_without_hardware_broadcast_a_packet_to_many_is_one_each() -> None:
    run = run_toy(Sequencer, network=Network(broadcast=False), workload=(Workload(senders=("p2",), rate=100.0, count=5),))
    assert run.summary.packets_by_type == {"Request": 5, "Ordered": 10}


def test_packets_of_a_turn_without_rows_are_charged_to_the_next_row() -> None:
    class Greeting(Flood):
        def start(self) -> None:
            self.host.set_timer("greet", 5 * MS)

        def expire(self, timer: Any) -> None:
            self.host.send(("p2",), Data("g", Batch(1, 1, b"")))

        def receive(self, source: str, packet: Any) -> None:
            """Says nothing."""

    run = run_toy(Greeting, workload=())
    (end,) = run.of("end", "p1")
    assert end["packets"] == 1


def test_a_drained_run_ends_quiet_after_the_settle_period() -> None:
    run = run_toy(Sequencer)
    assert run.summary.quiet
    assert run.summary.not_quiet == {}
    assert 120 * MS <= run.summary.virtual_time <= 200 * MS
    assert all(row["detail"] == '{"drained":true}' for row in run.of("end"))


def test_a_run_that_does_not_get_quiet_says_who_waits_for_what() -> None:
    fault = Fault(kind="crash", process="p1", at=50 * MS)
    run = run_toy(Sequencer, fault=(fault,))
    assert not run.summary.quiet
    assert run.summary.virtual_time == 1100 * MS
    assert "have no number yet" in run.summary.not_quiet["p2"]
    assert {row["detail"] for row in run.of("end")} == {None}


def test_a_run_that_is_not_drained_ends_at_its_duration() -> None:
    run = run_toy(Sequencer, drain=0)
    assert run.summary.virtual_time == 100 * MS
    assert not run.summary.quiet
    assert {row["detail"] for row in run.of("end")} == {None}


def test_messages_that_nobody_takes_are_not_quiet() -> None:
    class Lazy(Flood):
        def ready(self, group: str) -> None:
            """Takes nothing."""

    assert "messages wait in group g" in run_toy(Lazy).summary.not_quiet["p1"]


def test_an_engine_that_raises_halts_and_its_effects_are_dropped() -> None:
    class Broken(Flood):
        def ready(self, group: str) -> None:
            super().ready(group)
            if self.host.me == "p2":
                raise ValueError("a defect")

    with pytest.raises(ProtocolError, match="p2 at 0s raised ValueError: a defect"):
        run_toy(Broken)
    run = run_toy(Broken, options={"tolerate": True})
    assert run.history("p2") == ["start", "join", "view", "crash"]
    assert run.delivered("p1", "p2") == []
    assert run.summary.processes["p2"].state == "halted"


def test_a_protocol_that_halts_says_why_and_what_it_asked_for_afterwards_is_lost() -> None:
    class Halting(Flood):
        def receive(self, source: str, packet: Any) -> None:
            if self.host.me == "p3":
                self.host.halt(Reason("minority", "only a minority is left"))
            super().receive(source, packet)

    run = run_toy(Halting)
    (crash,) = run.of("crash")
    assert crash["process"] == "p3"
    assert '"by":"protocol"' in crash["detail"]
    assert "only a minority is left" in crash["detail"]
    assert run.delivered("p3") == [("p3", 1)]
    assert run.summary.processes["p3"].reason == "only a minority is left"


def test_entry_points_are_not_re_entrant() -> None:
    class Impatient(Flood):
        def receive(self, source: str, packet: Any) -> None:
            host: Any = self.host
            while not hasattr(host, "turn"):
                host = host.host
            host.turn(host.engine.ready, "g")

    with pytest.raises(ProtocolError, match="not re-entrant"):
        run_toy(Impatient)


def test_a_packet_to_oneself_is_an_event_of_its_own_and_not_the_networks() -> None:
    class Selfish(Flood):
        def ready(self, group: str) -> None:
            batch = self.host.take(group, 1400)
            if batch is not None:
                self.host.send([self.host.me], Data(group, batch))

    run = run_toy(Selfish, workload=(Workload(senders=("p1",), rate=100.0, count=3),))
    assert run.delivered("p1") == [("p1", 1), ("p1", 2), ("p1", 3)]
    assert all(row["sent"] == row["true_time"] for row in run.of("deliver"))
    assert (run.summary.packets_sent, run.summary.interrupts, run.summary.events) == (0, 0, 3)


def test_timers_can_be_moved_and_cancelled() -> None:
    expired: list[tuple[Any, int]] = []

    class Timed(Flood):
        def start(self) -> None:
            if self.host.me == "p1":
                for timer, at in (("moved later", 5), ("moved earlier", 50), ("cancelled", 7), ("kept", 9)):
                    self.host.set_timer(timer, at * MS)
                self.host.set_timer("moved later", 20 * MS)
                self.host.set_timer("moved earlier", 3 * MS)
                self.host.cancel_timer("cancelled")

        def expire(self, timer: Any) -> None:
            expired.append((timer, self.host.now // MS))

    run = run_toy(Timed, workload=())
    assert expired == [("moved earlier", 3), ("kept", 9), ("moved later", 20)]
    assert run.summary.events == 3


def test_time_that_stands_still_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    class Restless(Flood):
        def start(self) -> None:
            self.host.set_timer("again", self.host.now)

        def expire(self, timer: Any) -> None:
            self.host.set_timer("again", self.host.now)

    monkeypatch.setattr("plainchant.sim.kernel.STANDSTILL", 5_120)
    with pytest.raises(ProtocolError, match="time stands still"):
        run_toy(Restless)


def test_records_of_the_engine_are_rows_and_facts_are_refused() -> None:
    class Talking(Flood):
        def start(self) -> None:
            self.host.record("suspect", "g", sender="p3", rank=4, why=Reason("silent", "nothing heard"))

    row = run_toy(Talking, workload=()).of("suspect", "p1")[0]
    assert (row["group"], row["sender"], row["rank"], row["view"]) == ("g", "p3", 4, None)
    assert "nothing heard" in row["detail"]

    class Lying(Flood):
        def start(self) -> None:
            self.host.record("deliver", "g")

    with pytest.raises(ProtocolError, match="hosts alone write"):
        run_toy(Lying)


def test_clocks_are_off_drift_and_step() -> None:
    clocks = (Clock(process="p1", offset=5 * MS), Clock(process="p2", drift=0.01))
    step = Fault(kind="step", process="p3", at=55 * MS, offset=-7 * MS)
    run = run_toy(Flood, clock=clocks, fault=(step,), duration=100 * MS)
    for row in run.rows:
        true_time = row["true_time"]
        off = {"p1": 5 * MS, "p2": true_time // 100, "p3": -7 * MS if true_time > 55 * MS else 0}[row["process"]]
        assert row["time"] == true_time + off
    assert run.of("fault", "p3")


def test_large_messages_are_cut_into_packets_and_put_together_again() -> None:
    class Ordered(Sequencer):
        pass

    run = run_toy(Ordered, workload=(Workload(senders=("p2",), rate=100.0, count=2, size=10_000),))
    assert [(row["seq"], row["size"]) for row in run.of("deliver", "p3")] == [(1, 10_000), (2, 10_000)]
    assert run.summary.packets_by_type["Request"] >= 16


def test_memory_of_send_times_is_bounded_and_exact() -> None:
    trace = TraceBuffer()
    scenario = Scenario(protocol="toy", members=("p1", "p2"), duration=SECOND, workload=(Workload(senders=("p1",), rate=5000.0),))
    simulation = Simulation(scenario, trace=trace, description=describe_toy(Sequencer))
    simulation.run()
    rows = trace.table().to_pylist()
    sent = {row["seq"]: row["true_time"] for row in rows if row["kind"] == "send"}
    assert len(sent) == 5000
    assert all(row["sent"] == sent[row["seq"]] for row in rows if row["kind"] == "deliver")
    assert len(simulation._world.sends.window("g", "p1").times) < 3100


def test_make_replaces_the_engine() -> None:
    made: list[str] = []

    def make(host: Host, parameters: ToyParameters) -> Flood:
        made.append(host.me)
        return Flood(host, parameters)

    run_toy(Sequencer, options={"make": make})
    assert made == ["p1", "p2", "p3"]


def test_names_are_checked() -> None:
    with pytest.raises(UsageError, match="'p1' is named twice"):
        run_toy(members=("p1", "p1"))
    with pytest.raises(UsageError, match='"p9" of group g is not among'):
        run_toy(groups={"g": ("p1", "p9")})
    with pytest.raises(UsageError, match='no process "p9"'):
        run_toy(fault=(Fault(kind="crash", process="p9"),))


ANY_KIND: Any = "gamma"


def sequencer(**settings: Any) -> Simulation:
    return Simulation(Scenario(**{"protocol": "sequencer", "members": ("p1", "p2"), **settings}), trace=TraceBuffer())


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"protocol": "sequenzer"}, "sequenzer"),
        ({"members": ()}, "give members="),
        ({"members": "p1"}, "a tuple of names"),
        ({"groups": ["p1"]}, "must be a mapping"),
        ({"seed": 1.5}, "seed must be a whole number"),
        ({"duration": "1s"}, "whole number of nanoseconds"),
        ({"duration": -1}, "above 0"),
        ({"drain": 1 << 63}, "146 years"),
        ({"parameters": {"resilienc": 1}}, 'unknown key "resilienc" among the parameters of sequencer'),
        ({"parameters": {"resilience": "1"}}, "parameters.resilience must be a whole number"),
        ({"parameters": None}, "must be a mapping"),
        ({"network": {"loss": 0.1}}, "must be a Network"),
        ({"network": Network(loss=2.0)}, "network.loss must be a number from 0 to 1"),
        ({"network": Network(delay=Delay("uniform", 5 * MS, 1 * MS))}, "smallest delay comes first"),
        ({"network": Network(delay=Delay(ANY_KIND, 5 * MS, 1 * MS))}, "of a delay"),
        ({"workload": Workload()}, "must be a tuple of Workload"),
        ({"workload": (Workload(rate=-5.0),)}, "workload.0.rate must be a number of at least 0"),
        ({"workload": (Workload(senders=("p9",)),)}, 'no process "p9"'),
        ({"fault": (Fault(kind="crush"),)}, "crush"),
        ({"fault": (Fault(kind="leave", process="p1", group="x"),)}, 'no group "x"'),
        ({"fault": (Fault(kind="crash", process="p1", delay=1 * MS),)}, 'kind crash has no "delay"'),
        ({"random": RandomFaults(crash=-1.0)}, "random.crash must be"),
    ],
)
def test_a_scenario_that_cannot_be_is_refused_with_a_sentence(settings: dict[str, Any], sentence: str) -> None:
    with pytest.raises(UsageError, match=sentence):
        sequencer(**settings)


def test_a_scenario_from_python_may_leave_out_groups_and_workload() -> None:
    assert sequencer().run().messages_sent == 0
    assert sequencer(workload=(Workload(rate=10.0, size=0),)).run().messages_sent == 20


def test_a_simulation_runs_once() -> None:
    simulation = sequencer()
    simulation.run()
    with pytest.raises(UsageError, match="runs once"):
        simulation.run()
