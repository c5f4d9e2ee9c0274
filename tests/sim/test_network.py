"""What the network does to packets, link by link, and what faults on it do."""

from __future__ import annotations

from typing import Any

import pytest

from plainchant.core.model import Batch, ProtocolError
from plainchant.scenario.model import Delay, Fault, LinkOverride, Network, Workload
from plainchant.sim.network import ESTIMATED_OVERHEAD, estimated_size

from .conftest import MS, US, Run, run_toy
from .toy import Data, Flood, Hello, Sequencer


def run_network(network: Network = Network(), *faults: Fault, size: int = 32, count: int = 90, **settings: Any) -> Run:  # noqa: B008
    workload = Workload(senders=("p1",), rate=1000.0, count=count, size=size)
    return run_toy(Flood, network=network, fault=faults, **{"workload": (workload,), **settings})


def latencies(run: Run, process: str) -> list[int]:
    return [row["true_time"] - row["sent"] for row in run.of("deliver", process)]


def numbers(run: Run, process: str) -> list[int]:
    return [seq for _, seq in run.delivered(process)]


def test_constant_delay() -> None:
    assert set(latencies(run_network(Network(delay=Delay("constant", 3 * MS))), "p2")) == {3 * MS}


def test_uniform_delay() -> None:
    delays = latencies(run_network(Network(delay=Delay("uniform", 1 * MS, 5 * MS))), "p2")
    assert 1 * MS <= min(delays) < 1.5 * MS
    assert 4.5 * MS < max(delays) <= 5 * MS


def test_exponential_delay_with_a_minimum() -> None:
    delays = latencies(run_network(Network(delay=Delay("exponential", 1 * MS, 2 * MS))), "p2")
    assert min(delays) >= 1 * MS
    assert 2 * MS < sum(delays) / len(delays) < 4 * MS


def test_loss_is_per_destination() -> None:
    run = run_network(Network(loss=0.3))
    assert 0.4 * 90 < len(numbers(run, "p2")) < 0.9 * 90
    assert numbers(run, "p2") != numbers(run, "p3")
    assert run.summary.packets_lost == 180 - len(numbers(run, "p2")) - len(numbers(run, "p3"))


def test_duplicates_arrive_twice() -> None:
    run = run_network(Network(duplicate=0.3))
    assert run.summary.packets_duplicated > 20
    assert len(numbers(run, "p2") + numbers(run, "p3")) == 180 + run.summary.packets_duplicated


def test_reordered_packets_are_overtaken() -> None:
    run = run_network(Network(reorder=0.3))
    assert numbers(run, "p2") != sorted(numbers(run, "p2"))
    assert max(latencies(run, "p2")) <= 5 * MS


def test_corrupted_packets_are_dropped() -> None:
    run = run_network(Network(corrupt=0.3))
    assert run.summary.packets_corrupted > 20
    assert len(numbers(run, "p2") + numbers(run, "p3")) == 180 - run.summary.packets_corrupted


def test_in_wire_mode_bits_are_flipped_and_the_decoder_refuses() -> None:
    run = run_network(Network(corrupt=0.3, wire=True))
    assert run.summary.packets_corrupted > 20
    assert len(numbers(run, "p2") + numbers(run, "p3")) == 180 - run.summary.packets_corrupted


def test_a_decoder_that_accepts_flipped_bits_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("plainchant.core.wire.Codec.decode", lambda self, data: Hello("g"))
    with pytest.raises(ProtocolError, match="flipped bits"):
        run_network(Network(corrupt=1.0, wire=True))


def test_the_wire_changes_nothing_else() -> None:
    plain, wire = run_network(), run_network(Network(wire=True))
    assert [row for row in plain.rows if row["kind"] != "start"] == [row for row in wire.rows if row["kind"] != "start"]


def test_bandwidth_of_a_link_makes_packets_queue() -> None:
    # 100 bytes and the estimated overhead are 928 bits: 928 us at 1 Mbit/s.
    bits = (100 + ESTIMATED_OVERHEAD) * 8
    burst = Workload(senders=("p1",), rate=1000.0, burst=3, count=3, size=100)
    run = run_toy(Flood, network=Network(bandwidth=1_000_000), workload=(burst,))
    assert latencies(run, "p2") == latencies(run, "p3") == [1 * MS + n * bits * US for n in (1, 2, 3)]


def test_header_and_minimum_frame_take_time_too() -> None:
    run = run_network(Network(bandwidth=1_000_000, header=50, minimum_frame=400), count=1, size=100)
    assert latencies(run, "p2") == [1 * MS + 400 * 8 * US]
    run = run_network(Network(bandwidth=1_000_000, header=500, minimum_frame=400), count=1, size=100)
    assert latencies(run, "p2") == [1 * MS + (616) * 8 * US]


def test_a_shared_medium_carries_one_packet_at_a_time() -> None:
    network = Network(bandwidth=1_000_000, shared=True)
    run = run_toy(Flood, network=network, workload=(Workload(rate=100.0, count=1, size=100),))
    bits = (100 + ESTIMATED_OVERHEAD) * 8
    arrivals = sorted({row["true_time"] for row in run.of("deliver") if row["process"] != row["sender"]})
    assert arrivals == [1 * MS + n * bits * US for n in (1, 2, 3)]


def test_estimated_size_counts_the_bytes_of_messages() -> None:
    assert estimated_size(Data("g", Batch(1, 1, b"12345"))) == 5 + ESTIMATED_OVERHEAD


def test_costs_occupy_the_processors() -> None:
    network = Network(send_cost=1 * MS, receive_cost=2 * MS, delay=Delay("constant", 10 * MS))
    burst = Workload(senders=("p1",), rate=1000.0, burst=3, count=3)
    run = run_toy(Flood, network=network, workload=(burst,))
    # Packet n leaves after n ms; the receiver needs 2 ms for each, one after the other.
    assert [row["true_time"] for row in run.of("deliver", "p2")] == [13 * MS, 15 * MS, 17 * MS]


def test_without_hardware_broadcast_every_copy_costs_a_send() -> None:
    network = Network(send_cost=1 * MS, broadcast=False, delay=Delay("constant", 10 * MS))
    run = run_network(network, count=1)
    assert (latencies(run, "p2"), latencies(run, "p3")) == ([11 * MS], [12 * MS])


def test_a_busy_sender_handles_packets_later() -> None:
    network = Network(send_cost=5 * MS, delay=Delay("constant", 1 * MS))
    run = run_toy(Sequencer, network=network, workload=(Workload(senders=("p2",), rate=1000.0, burst=2, count=2),))
    # Requests leave p2 at 5 and 10 ms; the head is free at 6 ms, numbers, and is busy until 11 ms, when the next comes.
    assert [row["true_time"] for row in run.of("deliver", "p1")] == [6 * MS, 11 * MS]
    assert [row["true_time"] for row in run.of("deliver", "p3")] == [12 * MS, 17 * MS]


def test_a_full_buffer_loses_packets() -> None:
    network = Network(receive_cost=20 * MS, buffer=2)
    run = run_network(network, count=10)
    # One is being received, two wait, the others are lost: the receiver is busy for 20 ms and ten come in 10 ms.
    assert numbers(run, "p2") == [1, 2, 3]
    assert run.summary.packets_overflowed == run.summary.packets_lost == 14


def test_a_link_can_differ_in_one_direction() -> None:
    slow = LinkOverride(source="p1", target="p3", delay=Delay("constant", 9 * MS))
    run = run_toy(Flood, network=Network(link=(slow,)))
    assert {row["true_time"] - row["sent"] for row in run.of("deliver", "p3") if row["sender"] == "p1"} == {9 * MS}
    assert {row["true_time"] - row["sent"] for row in run.of("deliver", "p1") if row["sender"] == "p3"} == {1 * MS}


def test_a_partition_separates_parts_until_it_ends() -> None:
    fault = Fault(kind="partition", at=20_500 * US, length=30 * MS, parts=(("p1", "p2"),))
    run = run_network(Network(), fault)
    assert numbers(run, "p2") == list(range(1, 91))
    assert numbers(run, "p3") == [*range(1, 22), *range(52, 91)]
    assert [row["process"] for row in run.of("fault")] == ["p1"]
    assert '"parts":[["p1","p2"]]' in run.of("fault")[0]["detail"].replace(" ", "")


def test_a_cut_is_one_way() -> None:
    fault = Fault(kind="cut", at=20_500 * US, source="p1", target="p2")
    run = run_network(Network(), fault, workload=(Workload(rate=1000.0, count=50),))
    assert len(run.delivered("p2", "p1")) == 21
    assert len(run.delivered("p1", "p2")) == 50
    assert [row["process"] for row in run.of("fault")] == ["p1"]


def test_a_clog_adds_delay() -> None:
    fault = Fault(kind="clog", at=20_500 * US, length=10 * MS, source="p1", target="p2", delay=4 * MS)
    run = run_network(Network(), fault)
    assert latencies(run, "p2").count(5 * MS) == 10
    assert latencies(run, "p3").count(1 * MS) == 90


def test_loss_as_a_fault_of_everybody() -> None:
    fault = Fault(kind="loss", at=20_500 * US, length=10 * MS, rate=1.0)
    run = run_network(Network(), fault)
    assert len(numbers(run, "p2")) == len(numbers(run, "p3")) == 80


def test_heal_ends_everything() -> None:
    faults = (
        Fault(kind="cut", at=10_500 * US, source="p1", target="p2"),
        Fault(kind="partition", at=10_500 * US, parts=(("p1", "p2"), ("p3",))),
        Fault(kind="heal", at=30_500 * US),
    )
    run = run_network(Network(), *faults)
    assert numbers(run, "p2") == numbers(run, "p3") == [*range(1, 12), *range(32, 91)]
    assert len(run.of("fault")) == 4


def test_draining_heals_the_network_and_ends_all_rates() -> None:
    class Late(Sequencer):
        """The head greets everybody right after the end of the duration."""

        def start(self) -> None:
            self.host.set_timer("late", 101 * MS)

        def expire(self, timer: Any) -> None:
            if self.host.me == "p1":
                self.host.send(self.others, Hello("g"))

        def receive(self, source: str, packet: Any) -> None:
            if isinstance(packet, Hello):
                self.host.record("receive", "g")
            else:
                super().receive(source, packet)

    cut = Fault(kind="cut", at=10 * MS, source="p1")
    workload = Workload(senders=("p1",), rate=1.0, count=1)
    run = run_toy(Late, network=Network(loss=1.0), fault=(cut,), workload=(workload,))
    assert run.delivered("p2") == []
    assert len(run.of("receive")) == 2
