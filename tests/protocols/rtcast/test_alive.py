"""No crash, join, pause or reader that stops costs a member that is well: rings of 2 to 32 on every medium (``alive``)."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest

from plainchant.core import wire
from plainchant.core.engine import Engine, Host, Layer
from plainchant.core.model import MS, SECOND, Duration, Packet, ProcessId
from plainchant.protocols.rtcast import DESCRIPTION
from plainchant.protocols.rtcast.interface import KNOCK, REQUEST
from plainchant.protocols.rtcast.packets import Data, Here
from plainchant.protocols.rtcast.sizes import FRAME, largest, size_of
from plainchant.scenario.model import Fault
from plainchant.sim import Simulation
from plainchant.trace import TraceBuffer

from .. import sweeping
from . import alive
from .sweep import GROUP


def examine(seed: int) -> sweeping.Examined:
    return sweeping.examine(alive.run, alive.situations, seed)


def about(seed: int) -> str:
    return alive.scenario_of(seed).about


@pytest.mark.sweep
def test_every_run_goes_on_and_every_situation_occurs() -> None:
    occurred = sweeping.run_all(examine, range(alive.SEEDS), about, "tests.protocols.rtcast.alive", 2)
    sweeping.demand(occurred, dict.fromkeys(alive.SITUATIONS, 1))


def test_the_seeds_cover_sizes_media_and_retransmissions() -> None:
    scenarios = [alive.scenario_of(seed) for seed in range(alive.SEEDS)]
    pairs: Counter[tuple[str, int]] = Counter()
    for scenario in scenarios:
        network = scenario.network
        medium = "shared" if network.shared else "switched" if network.bandwidth else "plain"
        pairs[medium, scenario.parameters["retransmissions"]] += 1
    assert {len(scenario.members) for scenario in scenarios} >= {2, 3, 16, 17, 32}
    assert len(pairs) == len(alive.MEDIA) * 4
    kinds = {fault.kind for scenario in scenarios for fault in scenario.fault}
    assert kinds == {"crash", "restart", "join", "leave", "pause", "sluggish"}


@pytest.mark.parametrize("size", [2, 16, 32])
def test_no_packet_is_larger_than_what_is_reserved_for_it(size: int) -> None:
    """With names of twelve letters: a change of sixteen members had 438 bytes in a heartbeat for which 192 were reserved."""
    members = tuple(f"station-{number:04}" for number in range(size))
    scenario = dataclasses.replace(
        alive.scenario_of(0),
        members=members,
        later=("station-late",),
        groups={GROUP: members},
        duration=Duration(2 * SECOND),
        parameters={"gather": Duration(SECOND), "hold": Duration(6 * MS)},
        fault=(
            Fault(kind="crash", at=Duration(1200 * MS), process=members[-1]),
            Fault(kind="join", at=Duration(1500 * MS), process="station-late"),
        ),
    )
    sent: Counter[str] = Counter()
    reserved = largest(GROUP, (*members, "station-late"))
    limits = {
        "Beat": reserved.beat,
        "JoinAck": reserved.acknowledgement,
        "Knock": KNOCK,
        "Request": REQUEST,
        "Where": reserved.where,
        "Here": reserved.here,
        "Data": reserved.change,
    }

    class Weighing(Layer):
        def send(self, to: Sequence[ProcessId], packet: Packet) -> None:
            kind = type(packet).__name__
            sent[kind] += 1
            whole = isinstance(packet, Here) and (packet.beat is not None or packet.change is not None)
            if not isinstance(packet, Data) or packet.word is not None:
                assert size_of(packet) <= (reserved.tale if whole else limits[kind]), packet
            self.host.send(to, packet)

    def weighed(host: Host, parameters: Any) -> Engine:
        return Weighing(host, lambda inner: DESCRIPTION.make(inner, parameters))

    trace = TraceBuffer()
    Simulation(scenario, trace=trace, make=weighed).run()
    views = [row["members"] for row in trace.table().to_pylist() if row["kind"] == "view"]
    assert set(views[-1]) == {*members[:-1], "station-late"}
    assert set(limits) - set(sent) <= ({"Here"} if size == 2 else set())


def test_the_frame_is_that_of_the_wire_format() -> None:
    assert FRAME == wire.FRAME_BYTES
