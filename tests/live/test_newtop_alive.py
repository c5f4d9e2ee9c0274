"""``newtop`` between real sockets on loopback: no process that hangs, does not read or is not heard stops the others for good.

No test depends on how fast the machine is: each waits for the event that must come, within the time that all live tests have.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import time
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any

import pytest

from plainchant import Group, Halted, Message, View
from plainchant.live.transport import Address
from plainchant.live.udp import UdpTransport

from ..cli.test_node import Running
from .test_api import addresses, members, read_view, run

QUICK = {"suspect_after": "400ms", "alive_every": "100ms", "merge_after": "200ms"}
STOPPED = 10.0
"""Seconds for which a process is stopped."""


class Faulty(UdpTransport):
    """A transport that loses what it is told to: everything to some addresses, and a share of all packets."""

    def __init__(self, address: Address, packet: int, random: Random) -> None:
        super().__init__(address, packet=packet)
        self.unreachable: set[Address] = set()
        self.loss = 0.0
        self._random = random

    def send(self, to: Sequence[Address], data: bytes | bytearray | memoryview) -> None:
        for one in to:
            if one not in self.unreachable and self._random.random() >= self.loss:
                super().send((one,), data)


class Faults:
    """Makes such transports, and finds them by the address of their member."""

    def __init__(self, peers: dict[str, str]) -> None:
        self.peers = peers
        self.made: dict[str, Faulty] = {}

    def __call__(self, address: Address, packet: int) -> Faulty:
        text = f"{address[0]}:{address[1]}"
        made = self.made[text] = Faulty(address, packet, Random(text.rpartition(":")[2]))
        return made

    def of(self, name: str) -> Faulty:
        return self.made[self.peers[name]]

    def cut(self, source: str, target: str) -> None:
        host, _, port = self.peers[target].rpartition(":")
        self.of(source).unreachable.add((host, int(port)))


async def read_until(group: Group, payload: bytes) -> None:
    async for event in group:
        if isinstance(event, Message) and event.payload == payload:
            return
    raise AssertionError("the group is over")


@pytest.mark.parametrize("partitions", ["all", "majority"])
def test_suspicions_in_a_circle_end_when_the_links_work_again(partitions: str) -> None:
    async def main() -> None:
        peers = addresses("a", "b", "c")
        faults = Faults(peers)
        parameters = {**QUICK, "partitions": partitions, "patience": "60s"}
        async with members("a", "b", "c", peers=peers, protocol="newtop", transport=faults, parameters=parameters) as groups:
            for source, target in (("a", "b"), ("b", "c"), ("c", "a")):
                faults.cut(source, target)
            await asyncio.gather(*(suspects(group) for group in groups))
            for name in "abc":
                faults.of(name).unreachable.clear()
            for group in groups:
                await group.send(group.me.encode())
            for group in groups:
                for _ in groups:
                    message = await _next_message(group)
                    assert message.payload in (b"a", b"b", b"c")
                assert group.view is not None
                assert group.view.members == ("a", "b", "c")

    run(main())


async def suspects(group: Group) -> None:
    """Waits until a member waits for suspicions to be settled."""
    while (reason := group.waiting()) is None or reason.code != "suspects":
        await asyncio.sleep(0.01)


async def _next_message(group: Group) -> Message:
    async for event in group:
        if isinstance(event, Message):
            return event
    raise AssertionError("the group is over")


def test_a_member_that_does_not_read_is_excluded_and_told() -> None:
    async def main() -> None:
        parameters = {**QUICK, "suspect_after": "2s", "patience": "4s", "blocks": 8}
        async with members("a", "b", "c", protocol="newtop", parameters=parameters, unread=20_000) as (a, b, c):

            async def send() -> None:
                while True:
                    await a.send(bytes(1000))

            async def reads(group: Group) -> View:
                return await read_view(group, "a", "b")

            sending = asyncio.create_task(send())
            views = await asyncio.gather(reads(a), reads(b))
            sending.cancel()
            assert all(view.left["c"].code == "not reading" for view in views)
            await b.send(b"on we go")
            await asyncio.gather(read_until(a, b"on we go"), read_until(b, b"on we go"))
            with pytest.raises(Halted, match="has not read"):
                async for _ in c:
                    pass

    with pytest.raises(Halted, match="has not read"):  # c's ``async with`` says it too
        run(main())


def test_one_crash_costs_no_member_of_a_majority_where_packets_are_lost() -> None:
    went_on: list[str] = []

    async def main() -> None:
        peers = addresses("a", "b", "c")
        faults = Faults(peers)
        parameters = {"partitions": "majority", "suspect_after": "1s"}
        async with members("a", "b", "c", peers=peers, protocol="newtop", transport=faults, parameters=parameters) as (a, b, _):
            for name in "abc":
                faults.of(name).loss = 0.3
            faults.of("c").loss = 1.0  # for the others it has crashed
            await asyncio.gather(read_view(a, "a", "b"), read_view(b, "a", "b"))
            await a.send(b"on we go")
            await asyncio.gather(read_until(a, b"on we go"), read_until(b, b"on we go"))
            for name in "abc":
                faults.of(name).loss = 0.0
            went_on.extend((a.me, b.me))

    with contextlib.suppress(Halted):  # c, which is in a minority
        run(main())
    assert went_on == ["a", "b"]


def test_a_process_that_was_stopped_for_ten_seconds_is_told_and_comes_back(tmp_path: Path) -> None:
    """The others go on meanwhile; the stopped one installs a view without them, and then one in which all have come together."""
    config = tmp_path / "desk.toml"
    peers = "".join(f'{name} = "{address}"\n' for name, address in addresses("a", "b", "c").items())
    config.write_text(f'group = "desk"\nprotocol = "newtop"\n[peers]\n{peers}[parameters]\nsuspect_after = "800ms"\n')
    running: list[Running] = []

    def sees(node: Running, names: set[str]) -> dict[str, Any]:
        return node.until(lambda event: event["event"] == "view" and set(event["members"]) == names)[-1]

    def hears(node: Running, payload: str) -> None:
        node.until(lambda event: event["event"] == "message" and event["payload"] == payload)

    try:
        for name in "abc":
            running.append(Running(config, "--me", name, "--json"))
        a, b, c = running
        for node in running:
            sees(node, {"a", "b", "c"})
        os.kill(b.process.pid, signal.SIGSTOP)
        stopped = time.monotonic()
        for node in (a, c):
            assert list(sees(node, {"a", "c"})["left"]) == ["b"]
        number = 0
        while time.monotonic() - stopped < STOPPED:  # they go on for as long as it lasts
            number += 1
            a.say({"send": f"{number}"})
            for node in (a, c):
                hears(node, f"{number}")
        os.kill(b.process.pid, signal.SIGCONT)
        told = b.until(lambda event: event["event"] == "view")[-1]
        assert set(told["members"]) != {"a", "b", "c"} or "parts" in told
        for node in (a, b, c):
            merge = node.until(lambda event: event["event"] == "view" and "parts" in event and len(event["members"]) == 3)
            assert set(merge[-1]["members"]) == {"a", "b", "c"}
        b.say({"send": "back"})
        for node in (a, b, c):
            hears(node, "back")
    finally:
        for each in running:
            each.stop()
