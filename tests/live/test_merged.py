"""Several groups of one live process as one stream, and receipts of newtop: real nodes in one event loop, on loopback."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from plainchant import Group, Halted, Lost, Message, Node, Stream, UsageError, View, merged
from plainchant.group import Buffers
from plainchant.lab.properties import verify
from plainchant.trace import read as read_trace
from plainchant.trace.collect import collect

from .test_api import CALM, addresses, run

GROUPS = {"red": ("a", "b", "c"), "blue": ("b", "c", "d")}
Place = tuple[str, str, int]
"""Group, sender, number: which message it is."""


async def enter(node: Node, **buffers: Any) -> dict[str, Group]:
    """The groups that a process is in, which it forms with the others."""
    mine = [name for name, members in GROUPS.items() if node.place in members]
    return {name: await node.enter(name, GROUPS[name], 30.0, Buffers(**buffers)) for name in mine}


@asynccontextmanager
async def processes(**options: Any) -> AsyncIterator[dict[str, dict[str, Group]]]:
    """Four processes in two groups, of whom two are in both; they are closed in the end, by their nodes."""
    peers = addresses("a", "b", "c", "d")
    buffers = {"unread": options.pop("unread")} if "unread" in options else {}
    options = {"protocol": "newtop", "groups": GROUPS, **options}
    async with AsyncExitStack() as stack:
        nodes = [await stack.enter_async_context(Node(me=me, peers=peers, **options)) for me in peers]
        entered = await asyncio.gather(*(enter(node, **buffers) for node in nodes))
        yield dict(zip(peers, entered, strict=True))
        for node in nodes:
            await node.close(drained=True)


async def read_messages(stream: Stream, number: int) -> list[Message]:
    found: list[Message] = []
    async for event in stream:
        if isinstance(event, Message):
            found.append(event)
            if len(found) == number:
                break
    return found


def places(messages: list[Message]) -> list[Place]:
    return [(message.group, message.sender, message.seq) for message in messages]


def delivered(rows: list[dict[str, Any]]) -> dict[str, list[Place]]:
    """What each process was given, in order, as its trace has it."""
    found: dict[str, list[Place]] = {}
    for row in rows:
        if row["kind"] == "deliver":
            found.setdefault(row["process"], []).append((row["group"], row["sender"], row["seq"]))
    return found


@pytest.mark.parametrize("order", ["total", "fast"])
def test_a_process_reads_what_the_protocol_delivers_in_its_order(order: str, tmp_path: Path) -> None:
    found: dict[str, list[Place]] = {}

    async def talk(mine: Mapping[str, Group]) -> list[Place]:
        async def send() -> None:
            for number in range(20):
                receipts = [await group.send(b"%d" % number) for group in mine.values()]
                await asyncio.sleep(0)
            for receipt in receipts:
                await receipt.delivered()

        await send()  # much comes before anything is read
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(send())
            half = await read_messages(merged(*mine.values()), 60 * len(mine))
            rest = await read_messages(merged(*mine.values()), 60 * len(mine))
        for group in mine.values():
            await group.finish()
        return places(half + rest)

    async def main() -> None:
        async with processes(trace=tmp_path / "spool", parameters={"order": order}) as entered:
            read = await asyncio.gather(*(talk(mine) for mine in entered.values()))
            found.update(zip(entered, read, strict=True))

    run(main())
    collect([tmp_path / "spool"], tmp_path / "out", alive=())
    table = read_trace(tmp_path / "out" / "trace").table
    assert found == delivered(table.to_pylist())
    assert verify(table).verdict == "holds"
    if order == "total":
        assert found["b"] == found["c"]


def test_a_process_that_does_not_read_slows_its_groups_down_until_it_does() -> None:
    async def main() -> None:
        async with processes(parameters={"blocks": 8}, unread=20_000, packet=600) as entered:
            for name in ("a", "b", "d"):
                for group in entered[name].values():
                    group.stop_listening()
            mine = entered["c"]

            async def send(group: Group) -> None:
                for _ in range(200):
                    await (await group.send_many([b"x" * 100] * 10)).delivered()

            senders = [asyncio.create_task(send(entered[name][group])) for name, group in (("a", "red"), ("d", "blue"))]
            while min(group.metrics()["unread_bytes"] for group in mine.values()) < 20_000:
                await asyncio.sleep(0.01)
            done, _ = await asyncio.wait(senders, timeout=0.5)
            assert not done
            assert max(group.metrics()["unread_bytes"] for group in mine.values()) < 200_000
            assert len(await read_messages(merged(*mine.values()), 4000)) == 4000
            await asyncio.gather(*senders)

    run(main())


def test_the_end_of_a_process_ends_its_merged_stream() -> None:
    async def main() -> None:
        peers = addresses("a")
        one = Node(me="a", peers=peers, parameters=CALM)
        async with one, one.join("red") as red:
            blue = await one.enter("blue", ("a",), 30.0)
            stream = merged(red, blue)
            assert [event.group for event in [await anext(stream), await anext(stream)]] == ["red", "blue"]
            await red.leave()
            await (await blue.send(b"x")).delivered()
            assert places(await read_messages(stream, 1)) == [("blue", "a", 1)]
            waiting = asyncio.create_task(anext(stream))
            await asyncio.sleep(0)
            await one.close()
            with pytest.raises(Halted, match="a was closed"):
                await waiting

    run(main())


def test_a_stream_of_groups_that_were_left_ends() -> None:
    async def main() -> None:
        node = Node(me="a", peers=addresses("a"), parameters=CALM)
        async with node, node.join("red") as red, node.join("blue") as blue:
            await blue.leave()
            await red.leave()
            assert [type(event) for event in [event async for event in merged(red, blue)]] == [View, View]

    run(main())


def test_groups_of_two_nodes_are_not_merged() -> None:
    async def main() -> None:
        async with processes() as entered:
            with pytest.raises(UsageError, match="'red' at a and 'red' at b are groups of different processes"):
                merged(entered["a"]["red"], entered["b"]["red"])

    run(main())


def test_receipts_become_stable_in_total_order_and_say_so_where_there_is_none() -> None:
    async def main() -> None:
        async with processes(parameters={"orders": {"blue": "fast"}}) as entered:
            for mine in entered.values():
                for name, group in mine.items():
                    receipt = await group.send(b"only this")
                    if name == "red":
                        await receipt.stable()
                        continue
                    with pytest.raises(Lost, match="blue has no total order, so no message is known to be stable"):
                        await receipt.stable()

    run(main())
