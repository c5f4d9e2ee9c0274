"""A shared medium with collisions and small interfaces, and applications that cost their processor time."""

from __future__ import annotations

import dataclasses

import pytest

from plainchant.core.model import MS, SECOND, US, Batch, Duration
from plainchant.protocols.sequencer.packets import Broadcast, Entry
from plainchant.scenario.model import Network, Scenario, Workload
from plainchant.sim import Simulation, Summary
from plainchant.sim.network import ESTIMATED_OVERHEAD, contention, estimated_size
from plainchant.trace import TraceBuffer

HOUR = Duration(3600 * SECOND)
CALM = {"heartbeat": HOUR, "quiet_after": HOUR, "retry_after": HOUR, "suspect_after": 3 * HOUR, "patience": 6 * HOUR}
SLOT = Duration(50 * US)
FRAME = 100 * US  # 125 bytes at 10 Mbit/s
ETHERNET = Network(bandwidth=10_000_000, shared=True, minimum_frame=125)
COLLIDING = dataclasses.replace(ETHERNET, slot=SLOT)


def run(network: Network, *workload: Workload, members: int = 3) -> tuple[Summary, list[tuple[str, str, int]]]:
    """A calm run of 20 ms: its summary, and who delivered whose message when."""
    names = tuple(f"p{number + 1}" for number in range(members))
    scenario = Scenario(
        protocol="sequencer",
        members=names,
        network=network,
        workload=workload,
        duration=Duration(20 * MS),
        drain=Duration(0),
        parameters={**CALM, "pack": False, "history": 100_000},
    )
    trace = TraceBuffer()
    summary = Simulation(scenario, trace=trace).run()
    rows = [row for row in trace.table().to_pylist() if row["kind"] == "deliver"]
    return summary, [(row["process"], row["sender"], row["true_time"]) for row in rows]


def at_sequencer(network: Network) -> dict[str, int]:
    """When the requests of p2 and p3, sent at one instant, are numbered."""
    _, deliveries = run(network, Workload(senders=("p2", "p3"), closed=1, count=1, size=1))
    return {sender: time for process, sender, time in deliveries if process == "p1"}


def test_stations_that_want_the_medium_at_once_lose_a_slot() -> None:
    queued, collided = at_sequencer(ETHERNET), at_sequencer(COLLIDING)
    assert queued["p3"] - queued["p2"] == FRAME
    assert collided["p2"] == queued["p2"]
    assert collided["p3"] == queued["p3"] + SLOT


def test_a_station_alone_loses_nothing() -> None:
    load = Workload(senders=("p2",), closed=1, size=1)
    assert run(COLLIDING, load)[1] == run(ETHERNET, load)[1]


@pytest.mark.parametrize(("stations", "slots"), [(1, 0.0), (2, 1.0), (3, 1.25), (10_000, 1.718)])
def test_slots_lost_are_those_that_metcalfe_and_boggs_expect(stations: int, slots: float) -> None:
    assert contention(stations) == pytest.approx(slots, abs=0.001)


def test_a_message_costs_its_senders_processor_the_time_that_its_workload_says() -> None:
    load = Workload(senders=("p1",), closed=1, size=1, cost=Duration(3 * MS))
    _, deliveries = run(Network(), load)
    assert [time for process, _, time in deliveries if process == "p1"] == [3 * MS, 6 * MS, 9 * MS, 12 * MS, 15 * MS, 18 * MS]


def test_packets_are_received_in_turn_with_the_applications_work() -> None:
    """A request that arrives while the application works waits for it, and the application's next work for the request."""
    own = Workload(senders=("p1",), closed=1, size=1, cost=Duration(3 * MS))
    other = Workload(senders=("p2",), closed=1, count=1, size=1)
    _, deliveries = run(Network(receive_cost=Duration(1 * MS)), own, other)
    assert [(sender, time // MS) for process, sender, time in deliveries if process == "p1"][:3] == [
        ("p1", 3),
        ("p2", 4),
        ("p1", 7),
    ]


def test_a_processor_waits_while_its_interface_is_full() -> None:
    """Else a sender on the sequencer's node, whose messages come back at once, would fill an interface without end."""
    load = Workload(senders=("p1",), closed=1, size=109, cost=Duration(10 * US))
    unlimited, _ = run(ETHERNET, load)
    limited, _ = run(dataclasses.replace(ETHERNET, outgoing=2), load)
    fit = 20 * MS // FRAME
    assert unlimited.messages_sent > 5 * fit
    assert fit <= limited.messages_sent <= fit + 4


def test_a_message_within_a_numbered_entry_counts_as_bytes_on_the_wire() -> None:
    packet = Broadcast("g", 1, 1, 0, 0, Entry("p1", 1, Batch(1, 1, b"x" * 1000)))
    assert estimated_size(packet) == ESTIMATED_OVERHEAD + 1000
