"""The protocol keeps its promises, simulated and live; and the verifier notices when a rule is missing."""

from __future__ import annotations

import asyncio
import dataclasses
import socket

import pytest
from plainchant_fifo import DESCRIPTION, Ack, Data, Member

import plainchant
from plainchant.lab.properties import Verification, verify
from plainchant.protocols.variants import Variants
from plainchant.scenario.load import parse
from plainchant.sim import Simulation
from plainchant.trace import TraceBuffer

SCENARIO = parse("""
    protocol = "fifo"
    members = 4
    duration = "500ms"

    [network]
    delay = {exponential = "1ms", minimum = "500us"}
    loss = 0.2
    duplicate = 0.05
    reorder = 0.1

    [[workload]]
    rate = 200
    arrivals = "poisson"
""")


def run(seed: int) -> Verification:
    """One simulated run, verified for what the description promises."""
    trace = TraceBuffer()
    summary = Simulation(dataclasses.replace(SCENARIO, seed=seed), trace=trace, description=DESCRIPTION).run()
    assert summary.quiet
    return verify(trace.table())


@pytest.mark.parametrize("seed", range(10))
def test_promises_hold_on_a_network_that_loses_a_fifth(seed: int) -> None:
    found = run(seed)
    assert found.violations == ()
    assert all(outcome.cases > 0 for outcome in found.properties.values())


VARIANTS = Variants()
ON_DATA = Member.on_data


@VARIANTS.replaces("hasty", Member, "on_data")
def hasty(self: Member, source: str, packet: Data) -> None:
    """Delivers whatever comes, as soon as it comes."""
    if packet.number >= self.expected[source]:
        self.expected[source] = packet.number + 1
        self.host.deliver(self.group, source, packet.batch)
    self.host.send((source,), Ack(self.group, self.expected[source]))


@VARIANTS.replaces("forgetful", Member, "on_data")
def forgetful(self: Member, source: str, packet: Data) -> None:
    """Delivers repeated packets again."""
    ON_DATA(self, source, packet)
    if packet.number < self.expected[source] - 1:
        self.host.deliver(self.group, source, packet.batch)


@pytest.mark.parametrize(("variant", "breaks"), [("hasty", "fifo"), ("forgetful", "integrity")])
def test_a_member_without_one_of_the_rules_is_caught(variant: str, breaks: str) -> None:
    with VARIANTS[variant].applied(must_act=True):
        assert breaks in {violation.property for violation in run(0).violations}


def test_three_live_members_deliver_everything_in_each_senders_order() -> None:
    async def member(me: str, peers: dict[str, str]) -> list[tuple[str, bytes]]:
        async with plainchant.join("g", me=me, peers=peers, protocol="fifo") as group:
            for number in range(100):
                await group.send(b"%d" % number)
            read = []
            async for event in group:
                if isinstance(event, plainchant.Message):
                    read.append((event.sender, event.payload))
                if len(read) == 300:
                    return read
        raise AssertionError("the group ended early")

    async def main() -> list[list[tuple[str, bytes]]]:
        peers = {name: f"127.0.0.1:{port}" for name, port in zip("abc", free_ports(3), strict=True)}
        return await asyncio.gather(*(member(me, peers) for me in peers))

    for read in asyncio.run(main()):
        for sender in "abc":
            assert [payload for name, payload in read if name == sender] == [b"%d" % number for number in range(100)]


def free_ports(count: int) -> list[int]:
    sockets = [socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(count)]
    for each in sockets:
        each.bind(("127.0.0.1", 0))
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports
