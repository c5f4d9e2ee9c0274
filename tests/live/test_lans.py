"""Several networks: sockets on each, one identity, and faults of one of them."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from plainchant import Node
from plainchant.core.model import GroupId, Packet, ProcessId, UsageError
from plainchant.group import Group
from plainchant.lab.live.faulty import HARMLESS, FaultyTransport
from plainchant.live.lans import Lans
from plainchant.live.ports import free_addresses
from plainchant.live.transport import Address, Transport
from plainchant.live.udp import UdpTransport
from plainchant.protocols.registry import Placement
from plainchant.scenario.model import Fault

from .endpoints import PATIENCE, opened, run, until
from .guild import GUILD, Guildsman, Word
from .test_api import payloads, read

NAMES = ("a", "b")


def places() -> tuple[dict[str, Address], dict[str, Address]]:
    """Where two processes are, on each of two networks."""
    found = list(free_addresses(range(4)).values())
    return dict(zip(NAMES, found[:2], strict=True)), dict(zip(NAMES, found[2:], strict=True))


def lans(peers: dict[str, Address], backup: dict[str, Address], me: str, known: tuple[str, ...] = NAMES) -> Lans:
    transports = (UdpTransport(peers[me], packet=1400), UdpTransport(backup[me], packet=1200))
    return Lans(transports, [{peers[name]: backup[name] for name in known}])


def test_packets_of_all_networks_come_from_the_addresses_of_the_first() -> None:
    async def main() -> None:
        peers, backup = places()
        a, b = lans(peers, backup, "a"), lans(peers, backup, "b")
        async with opened(a, b) as (_, hearing):
            assert a.address == peers["a"]
            assert a.limits.packet == 1200
            first, second = a.senders()
            first((peers["b"],), b"one")
            second((peers["b"],), b"two")
            await hearing.hears_all(b"one", b"two")
            assert {source for source, _ in hearing.heard} == {peers["a"]}
            assert (a.counters.sent, a.counters.sent_bytes, b.counters.received) == (2, 6, 2)

    run(main())


def test_who_is_not_on_the_second_network_is_neither_reached_nor_heard_there() -> None:
    async def main() -> None:
        peers, backup = places()
        a, b = lans(peers, backup, "a", known=("a",)), lans(peers, backup, "b")
        async with opened(a, b) as (one, other):
            a.senders()[1]((peers["a"], peers["b"]), b"x")
            await one.hears(b"x")
            b.senders()[1]((peers["a"],), b"from a stranger")
            b.senders()[0]((peers["a"],), b"y")
            await one.hears(b"x", b"y")
            await until(lambda: a.counters.received == 3)
            assert one.packets == [b"x", b"y"]
            assert other.packets == []
            assert a.counters.dropped == 1

    run(main())


def test_without_the_second_network_the_first_is_not_kept_open() -> None:
    async def main() -> None:
        peers, backup = places()
        async with opened(UdpTransport(backup["a"])):
            with pytest.raises(UsageError, match="cannot listen"):
                await lans(peers, backup, "a").open(lambda source, data: None, lambda: None)
        async with opened(lans(peers, backup, "a")):
            return

    run(main())


@pytest.mark.parametrize("lan", [1, 2])
def test_a_network_that_has_crashed_carries_nothing_and_the_other_all(lan: int) -> None:
    async def main() -> None:
        peers, backup = places()

        def faulty(number: int, address: Address) -> FaultyTransport:
            return FaultyTransport(UdpTransport(address), HARMLESS, Random(1), me="a", names={}, lan=number)

        transports = (faulty(1, peers["a"]), faulty(2, backup["a"]))
        a = Lans(transports, [{peers[name]: backup[name] for name in NAMES}])
        async with opened(a, lans(peers, backup, "b")) as (_, hearing):
            for transport in transports:
                transport.apply(Fault(kind="lan", lan=lan))
            for number, send in enumerate(a.senders(), 1):
                send((peers["b"],), b"%d" % number)
            await hearing.hears(b"%d" % (3 - lan))
            assert [transport.spoiled.lost for transport in transports] == [int(lan == 1), int(lan == 2)]
            for transport in transports:
                transport.heal()
            a.senders()[lan - 1]((peers["b"],), b"healed")
            await hearing.hears(b"%d" % (3 - lan), b"healed")

    run(main())


# --- processes ------------------------------------------------------------------------------------------------------------


class Ferryman(Guildsman):
    """Sends each message on the network whose number it has, counted from 0."""

    def ready(self, group: GroupId) -> None:
        while (batch := self.host.take(group, self.host.max_packet, 1)) is not None:
            self.host.send(self.members, Word(group, batch), int(batch.body))

    def receive(self, source: ProcessId, packet: Packet) -> None:
        assert isinstance(packet, Word)
        self.host.deliver(packet.group, source, packet.batch)


def ferry(number: int) -> Any:
    return dataclasses.replace(GUILD, make=Ferryman, placement=Placement(lans=lambda parameters: number))


async def ferried(act: Callable[[list[Group]], Any], transport: Any = "udp") -> None:
    peers, backup = places()
    inside = asyncio.Barrier(2)

    async def member(name: str) -> None:
        async with Node(me=name, peers=peers, backup=backup, description=ferry(2), transport=transport) as node:
            group = await node.enter("g", NAMES, PATIENCE)
            groups.append(group)
            await inside.wait()
            if name == "a":
                await act(groups)
            await inside.wait()

    groups: list[Group] = []
    async with asyncio.timeout(PATIENCE):
        await asyncio.gather(*map(member, NAMES))


@pytest.mark.parametrize("transport", ["udp", "tcp"])
def test_processes_hear_each_other_and_themselves_on_both_networks(transport: str) -> None:
    async def act(groups: list[Group]) -> None:
        for number in (b"0", b"1"):
            await groups[0].send(number)
            for group in groups:
                assert payloads(await read(group, 1)) == [number]

    run(ferried(act, transport))


def test_processes_find_each_other_though_the_first_network_has_crashed() -> None:
    made: list[FaultyTransport] = []

    def faulty(address: Address, packet: int) -> Transport:
        lan = len(made) % 2 + 1
        made.append(FaultyTransport(UdpTransport(address, packet=packet), HARMLESS, Random(1), me="a", names={}, lan=lan))
        made[-1].apply(Fault(kind="lan", lan=1))
        return made[-1]

    async def act(groups: list[Group]) -> None:
        await groups[0].send(b"0")
        await groups[0].send(b"1")
        for group in groups:
            assert payloads(await read(group, 1)) == [b"1"]

    async def main() -> None:
        # Each process makes both of its transports before another one makes any.
        await ferried(act, faulty)

    run(main())
    assert len(made) == 4
    assert made[0].spoiled.lost > 0


def test_a_protocol_that_sends_where_there_is_no_network_is_halted() -> None:
    async def main() -> None:
        async with Node(me="a", peers=free_addresses(["a"]), description=ferry(1)) as node:
            group = await node.enter("g", ("a",), PATIENCE)
            await group.send(b"1")
            reason = await node.halted()
            assert "sends over network 1: there are 1, counted from 0" in reason.text

    run(main())


@pytest.mark.parametrize(
    ("number", "backup", "problem"),
    [
        (1, {"a": "127.0.0.1:7003"}, "set lans to 2, or leave backup out"),
        (2, {"a": "127.0.0.1:7003"}, "b missing in backup"),
        (2, {}, "a, b missing in backup"),
        (2, {"a": "127.0.0.1:7003", "b": "127.0.0.1:7004", "c": "127.0.0.1:7005"}, "c not among the peers in backup"),
        (2, {"a": "127.0.0.1:7003", "b": "127.0.0.1:0"}, "port 0"),
        (2, {"a": "127.0.0.1:7003", "b": "127.0.0.1:7001"}, "backup gives b an address that is in peers already"),
    ],
)
def test_what_is_wrong_with_addresses_on_a_second_network_is_said(number: int, backup: dict[str, str], problem: str) -> None:
    with pytest.raises(UsageError, match=problem):
        Node(me="a", peers={"a": "127.0.0.1:7001", "b": "127.0.0.1:7002"}, backup=backup, description=ferry(number))
