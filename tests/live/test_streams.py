"""Messages with deadlines and own packets over the network, between real nodes; and that packets come before timers."""

from __future__ import annotations

import asyncio
import dataclasses
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest

from plainchant import Group, Lost, Message, Node, Receipt, Refused, Rejected, UsageError
from plainchant.core.engine import Engine
from plainchant.core.model import MS, SECOND, Batch, Packet, ProcessId, Reason, Timer
from plainchant.lab.live.faulty import HARMLESS, FaultyTransport
from plainchant.live.host import LiveHost
from plainchant.live.timers import LATE
from plainchant.live.transport import READ_AT_ONCE, Address, Data
from plainchant.live.udp import UdpTransport
from plainchant.scenario.faults import Omission
from plainchant.scenario.model import Fault
from plainchant.trace import read
from plainchant.trace.collect import collect

from .endpoints import run, until
from .guild import GUILD, SHORTEST, Guildsman, Word
from .test_api import addresses
from .test_api import read as read_messages


@asynccontextmanager
async def guild(*names: str, **options: Any) -> AsyncIterator[tuple[list[Node], list[Group]]]:
    """Nodes and their groups, in this process."""
    peers = addresses(*names)
    async with AsyncExitStack() as stack:
        nodes = [
            await stack.enter_async_context(Node(me=name, peers=peers, description=GUILD, groups={"g": names}, **options))
            for name in names
        ]
        joins = [stack.enter_async_context(node.join("g")) for node in nodes]
        yield nodes, list(await asyncio.gather(*joins))


def engine_of(node: Node) -> Guildsman:
    """The protocol inside the stack."""
    engine = node.host.engine.inner  # type: ignore[attr-defined]
    assert isinstance(engine, Guildsman)
    return engine


async def comes_back(receipt: Receipt) -> bool:
    """Whether a message that has reached somebody else by now comes back in a while."""
    try:
        async with asyncio.timeout(0.05):
            await receipt.delivered()
    except TimeoutError:
        return False
    return True


# --- messages with deadlines ----------------------------------------------------------------------------------------


def test_a_stream_overtakes_and_every_receipt_is_right(tmp_path: Path) -> None:
    async def main() -> None:
        async with guild("a", "b", trace=tmp_path / "spools") as (nodes, (a, b)):
            engine = engine_of(nodes[0])
            pulse = await a.stream("pulse", size=8, deadline="50ms", period="100ms")
            engine.mute = True
            slow = [await a.send(b"slow 1"), await a.send(b"slow 2")]
            quick = await pulse.send(b"quick")
            alarm = await a.send(b"alarm", deadline="20ms")
            assert a.metrics()["queued"] == 4
            assert "messages wait in group g" in str(a.waiting())
            engine.mute = False
            slow.append(await a.send(b"slow 3"))
            for receipt in (*slow, quick, alarm):
                await receipt.delivered()
            order = [b"quick", b"alarm", b"slow 1", b"slow 2", b"slow 3"]
            for group in (a, b):
                assert [(m.payload, m.seq) for m in await read_messages(group, 5)] == list(zip(order, range(1, 6), strict=True))
            assert a.metrics()["own_delivered"] == a.metrics()["sent"] == 5
            with pytest.raises(Lost, match="no total order"):
                await quick.stable()
            assert a.admission == {"streams": {"pulse": {"deadline": 50 * MS}}}
            pulse.release()
            await until(lambda: a.admission == {"streams": {}})

    run(main())
    rows = traced(tmp_path)
    sent = {row["seq"]: row for row in rows if row["kind"] == "send"}
    accepted = sorted(row["time"] for row in rows if row["kind"] == "accept")
    assert [sent[seq]["deadline"] is None for seq in range(1, 6)] == [False, False, True, True, True]
    for seq, place, length in ((1, 2, 50 * MS), (2, 3, 20 * MS)):
        # By the same clock, about; between the moment and its row the processor may do something else.
        assert abs(sent[seq]["deadline"] - length - accepted[place]) < 10 * SECOND
    assert {row["size"] for row in rows if row["kind"] == "send"} == {5, 6}


def traced(directory: Path) -> list[dict[str, Any]]:
    collect([directory / "spools"], directory, alive=())
    table: pa.Table = read(directory / "trace").table
    return [row for row in table.to_pylist() if row["process"] == "a"]


def test_what_cannot_be_guaranteed_is_rejected_and_not_sent() -> None:
    async def main() -> None:
        async with guild("a", "b") as (_, (a, b)):
            with pytest.raises(Rejected, match="there is no room") as caught:
                await a.send(b"too soon", deadline="1ms")
            assert caught.value.reason.evidence["nearest_ns"] == SHORTEST
            streams = [await a.stream(name, size=8, deadline="1s", period="1s") for name in ("one", "two")]
            with pytest.raises(Rejected):
                await a.stream("three", size=8, deadline="1s", period="1s")
            streams[0].release()
            await a.stream("three", size=8, deadline="1s", period="1s")
            await b.send(b"last")
            assert [m.payload for m in await read_messages(a, 1)] == [b"last"]
            assert a.metrics()["accepted"] == 0

    run(main())


def test_a_stream_that_loses_its_guarantee_loses_what_waits() -> None:
    async def main() -> None:
        async with guild("a") as ((node,), (a,)):
            engine = engine_of(node)
            pulse = await a.stream("pulse", size=8, deadline="1s", period="1s")
            engine.mute = True
            receipt = await pulse.send(b"beat")
            node.host.call(engine.host.rejected, "g", "pulse", Reason("no room", "P has grown"))
            with pytest.raises(Lost, match="P has grown"):
                await receipt.delivered()
            with pytest.raises(Rejected, match="P has grown"):
                await pulse.send(b"beat")
            assert a.waiting() is None
            assert engine.host.peek("g", "pulse") is None

    run(main())


def test_streams_end_with_the_group() -> None:
    async def main() -> None:
        async with guild("a") as ((node,), (a,)):
            pulse = await a.stream("pulse", size=8, deadline="1s", period="1s")
            await a.leave()
            with pytest.raises(Refused):
                await pulse.send(b"beat")
            pulse.release()
            assert a.admission is None
            assert engine_of(node).streams  # nobody tells a protocol that has left

    run(main())


# --- own packets over the network -----------------------------------------------------------------------------------


class Deaf(UdpTransport):
    """A transport that loses what is sent to itself."""

    def send(self, to: Sequence[Address], data: Data) -> None:
        super().send([address for address in to if address != self.address], data)


@pytest.mark.parametrize("transport", ["udp", "tcp"])
def test_own_packets_come_back_by_the_network(transport: str) -> None:
    async def main() -> None:
        async with guild("a", "b", transport=transport) as (nodes, (a, b)):
            before = nodes[0].host.counters()["packets_received"]
            receipt = await a.send(b"to all of us")
            assert a.metrics()["own_delivered"] == 0  # it has left and is not back
            await receipt.delivered()
            assert nodes[0].host.counters()["packets_received"] == before + 1
            (message,) = await read_messages(b, 1)
            assert message == Message("a", b"to all of us", 1, "g")

    run(main())


def test_own_packets_can_be_lost() -> None:
    async def main() -> None:
        def make(address: Address, packet: int) -> UdpTransport:
            return Deaf(address, packet=packet)

        async with guild("a", "b", transport=make) as (_, (a, b)):
            receipt = await a.send(b"unheard")
            (message,) = await read_messages(b, 1)
            assert message.payload == b"unheard"
            assert not await comes_back(receipt)

    run(main())


def test_a_cut_that_names_the_sender_cuts_it_off_from_itself() -> None:
    async def main() -> None:
        made: list[FaultyTransport] = []

        def make(address: Address, packet: int) -> FaultyTransport:
            transport = FaultyTransport(UdpTransport(address, packet=packet), HARMLESS, Random(7), me="a", names={address: "a"})
            made.append(transport)
            return transport

        async with guild("a", transport=make) as (_, (a,)):
            made[0].apply(Fault(kind="cut", source="a"))
            receipt = await a.send(b"unheard")
            assert not await comes_back(receipt)
            made[0].heal()
            await (await a.send(b"heard")).delivered()
            assert made[0].spoiled.lost == 1

    run(main())


def test_packets_that_a_fault_omits_are_not_received_and_each_is_a_row(tmp_path: Path) -> None:
    async def main() -> None:
        async with guild("a", "b", trace=tmp_path / "spools") as (nodes, (a, b)):
            nodes[0].host.omissions.append(Omission(Fault(kind="omit", process="a", source="b", packet="Word", count=1)))
            for payload in (b"missed", b"heard"):
                await b.send(payload)
            (message,) = await read_messages(a, 1)
            assert (message.payload, message.seq) == (b"heard", 2)
            assert nodes[0].host.omissions == []

    run(main())
    (fault,) = [row for row in traced(tmp_path) if row["kind"] == "fault"]
    assert '"identity":[1]' in fault["detail"]
    assert '"source":"b"' in fault["detail"]


# --- packets before timers ------------------------------------------------------------------------------------------


class Patient(Engine):
    """Notes how much it has heard when its timer expires; the timer is cancelled when it has heard ``content_at``."""

    def __init__(self, host: LiveHost, content_at: int = 0) -> None:
        self.host = host
        self.heard = 0
        self.content_at = content_at
        self.at_expiry: list[int] = []

    def leave(self, group: str) -> None:
        self.host.left(group)

    def receive(self, source: ProcessId, packet: Packet) -> None:
        self.heard += 1
        if self.heard == self.content_at:
            self.host.cancel_timer("wait")

    def expire(self, timer: Timer) -> None:
        self.at_expiry.append(self.heard)


async def wait_with(packets: int, act: Callable[[Patient, LiveHost, Callable[[], None]], None], content_at: int = 0) -> Patient:
    """One node whose timer and whose packets are ready at the same moment: ``act`` sets them up."""
    async with guild("a", "b") as (nodes, _):
        host = nodes[0].host
        engine = Patient(host, content_at)
        word = bytes(nodes[1]._codec.encode_frame(Word("g", Batch(1, 1, b"."))))
        address = nodes[0].address

        def arrive() -> None:
            for _ in range(packets):
                nodes[1]._transport.send([address], word)

        host.engine = engine
        act(engine, host, arrive)
        await until(lambda: engine.heard == packets)
        await asyncio.sleep(0)
        return engine


def set_timer(host: LiveHost, after: int) -> None:
    host.set_timer("wait", host.now + after)


def test_what_comes_in_the_turn_in_which_a_timer_is_due_is_received_first() -> None:
    def act(engine: Patient, host: LiveHost, arrive: Callable[[], None]) -> None:
        host.turn(set_timer, host, MS)
        asyncio.get_running_loop().call_soon(arrive)  # the loop looks at its sockets, then at its timers, then it runs this
        time.sleep(0.001)

    async def main() -> None:
        assert (await wait_with(5, act)).at_expiry == [5]
        assert (await wait_with(5, act, content_at=5)).at_expiry == []

    run(main())


def test_a_process_that_was_stopped_reads_everything_before_its_late_timers() -> None:
    def act(engine: Patient, host: LiveHost, arrive: Callable[[], None]) -> None:
        host.turn(set_timer, host, MS)
        arrive()
        time.sleep(0.001 + 2 * LATE)  # as if it had been stopped

    async def main() -> None:
        many = 3 * READ_AT_ONCE
        assert (await wait_with(many, act)).at_expiry == [many]
        assert (await wait_with(many, act, content_at=many)).at_expiry == []

    run(main())


# --- a process in one group only ------------------------------------------------------------------------------------


def test_where_a_process_is_in_one_group_only_it_need_not_say_which_and_a_second_is_refused() -> None:
    def check(parameters: Any, groups: Mapping[str, Sequence[str]]) -> str | None:
        return f"one group only, and not {' and '.join(groups)}" if len(groups) > 1 else None

    async def main() -> None:
        single = dataclasses.replace(GUILD, check=check)
        async with Node(me="a", peers=addresses("a"), description=single) as node:
            async with node.join("g") as group:
                assert group.members == ("a",)
                with pytest.raises(UsageError, match="one group only, and not g and h"):
                    node.join("h")
            both = [node.join("h"), node.join("i")]
            async with both[0]:
                with pytest.raises(UsageError, match="one group only, and not h and i"):
                    await both[1].__aenter__()

    run(main())
