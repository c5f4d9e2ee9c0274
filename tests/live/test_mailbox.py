"""``mailbox`` in the ordinary API: several real nodes in one event loop, in real shared memory; and the shipped scenarios with
processes."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

import plainchant
from plainchant import Group, Message, Node, UsageError, View
from plainchant.cli.live import execute, given_parameters
from plainchant.core.model import SECOND
from plainchant.lab.properties import verify
from plainchant.scenario import load, shipped
from plainchant.trace import read as read_trace
from plainchant.trace import validate
from plainchant.trace.collect import collect

from .test_api import addresses, members, payloads, read, run

BOUNDS = {
    "write": "2ms",
    "flag": "2ms",
    "decide": "2ms",
    "read": "2ms",
    "finish": "2ms",
    "skew": "1us",
    "poll": "4ms",
    "slots": 2,
    "room": 4096,
}
"""Nodes of one loop wait for each other; what is late all the same is sent again."""
SLOW = "2ms"


def options(**parameters: Any) -> dict[str, Any]:
    return {"protocol": "mailbox", "parameters": {**BOUNDS, **parameters}}


def members_of(group: Group) -> set[str]:
    """Members stand in the order in which they came."""
    assert group.view is not None
    return set(group.view.members)


async def read_view(group: Group, *names: str) -> View:
    """Reads until the view with these members."""
    async for event in group:
        if isinstance(event, View) and set(event.members) == set(names):
            return event
    raise AssertionError(f"the stream of {group.me} ended before the view {names}")


def payloads_of(sender: str, messages: Sequence[Message]) -> list[bytes]:
    return payloads([message for message in messages if message.sender == sender])


@pytest.mark.parametrize("tolerate", ["crash", "timing"])
def test_everybody_reads_the_same_in_the_same_order_whatever_its_size(tolerate: str, tmp_path: Path) -> None:
    sizes = (0, 1, 100, 4096, 50_000)

    async def main() -> None:
        async with members("a", "b", "c", trace=str(tmp_path / "spools"), **options(tolerate=tolerate)) as groups:
            for group in groups:
                assert members_of(group) == {"a", "b", "c"}
            for size in sizes:
                await asyncio.gather(*(group.send(group.me.encode() * size) for group in groups))
            books = await asyncio.gather(*(read(group, 3 * len(sizes)) for group in groups))
            assert payloads(books[0]) == payloads(books[1]) == payloads(books[2])
            for name in "abc":
                assert payloads_of(name, books[0]) == [name.encode() * size for size in sizes]

    run(main())
    collect([tmp_path / "spools"], tmp_path)
    table = read_trace(tmp_path / "trace").table
    assert validate(table) == []
    verification = verify(table)
    assert [violation.sentence for violation in verification.violations] == []
    assert verification.properties["total"].cases > 0


def test_a_member_leaves_and_comes_back() -> None:
    async def main() -> None:
        peers = addresses("a", "b", "c")
        first = plainchant.join("g", me="c", peers=peers, **options())
        async with AsyncExitStack() as stack:
            staying = [stack.enter_async_context(plainchant.join("g", me=name, peers=peers, **options())) for name in "ab"]
            a, b, c = await asyncio.gather(*staying, first.__aenter__())
            await c.send(b"before")
            assert payloads(await read(a, 1)) == [b"before"]
            await first.__aexit__(None, None, None)
            view = await read_view(a, "a", "b")
            assert view.left["c"].code == "left"
            await a.send(b"without")
            assert payloads(await read(b, 2)) == [b"before", b"without"]
            async with plainchant.join("g", me="c", peers=peers, **options()) as again:
                await b.send(b"with")
                assert payloads(await read(again, 1)) == [b"with"]
                await again.send(b"back")
                assert payloads(await read(a, 3)) == [b"without", b"with", b"back"]
                found = await read(b, 2)
                assert payloads(found) == [b"with", b"back"]
                assert found[-1].sender == "c#1"

    run(main())


def test_who_only_sends_is_no_member_and_reads_nothing() -> None:
    async def main() -> None:
        async with members("a", "b", "c", **options(senders=["c"])) as (a, b, c):
            assert members_of(a) == members_of(b) == {"a", "b"}
            for number in range(5):
                await c.send(b"%d" % number)
            await a.send(b"end")
            expected = {b"%d" % number for number in range(5)} | {b"end"}
            books = await asyncio.gather(read(a, 6), read(b, 6))
            assert payloads(books[0]) == payloads(books[1])
            assert set(payloads(books[0])) == expected
            assert payloads_of("c", books[0]) == [b"%d" % number for number in range(5)]

    run(main())


def test_a_member_elsewhere_takes_part_through_one_that_is_here() -> None:
    async def main() -> None:
        async with members("a", "b", "c", **options(remote={"c": "b"}, datagram="1s")) as (a, b, c):
            await asyncio.gather(*(group.send(group.me.encode()) for group in (a, b, c)))
            books = await asyncio.gather(*(read(group, 3) for group in (a, b, c)))
            assert payloads(books[0]) == payloads(books[1]) == payloads(books[2])
            assert {message.sender for message in books[0]} == {"a", "b", "c"}

    run(main())


def test_who_does_not_read_holds_the_senders_up_and_nothing_is_lost() -> None:
    async def main() -> None:
        async with members("a", "b", unread=20_000, outgoing=20_000, **options()) as (a, b):
            payload = bytes(1000)
            sent = 0
            async with asyncio.timeout(30):
                while True:
                    try:
                        async with asyncio.timeout(2):
                            await a.send(payload)
                        sent += 1
                    except TimeoutError:
                        break
            assert sent < 1000
            reading = asyncio.gather(read(a, sent), read(b, sent))
            books = await reading
            assert [message.seq for message in books[1]] == list(range(1, sent + 1))
            await a.send(b"there is room again")
            while (await read(b, 1))[0].payload != b"there is room again":
                continue

    run(main())


def test_what_does_not_fit_is_refused_with_a_reason() -> None:
    peers = {**addresses("a", "b"), "c": "192.0.2.7:7301"}

    async def main() -> None:
        with pytest.raises(UsageError, match="processes on one machine"):
            async with Node(me="a", peers=peers, **options()):
                raise AssertionError("it was let in")

    run(main())


@pytest.mark.parametrize("name", ["mailbox-join"])
def test_a_shipped_scenario_runs_live(name: str, tmp_path: Path) -> None:
    path = shipped()[name]
    sets = (*(f"parameters.{bound}={SLOW}" for bound in ("write", "flag", "decide", "read", "finish")), "parameters.poll=4ms")
    scenario = load(path, sets)
    result = execute(
        scenario, tmp_path, verify_it=True, options={"drain_at_most": 60 * SECOND, "given": given_parameters(path, sets)}
    )
    assert result.summary.unexpected == {}
    assert result.summary.quiet, result.summary.not_quiet
    assert result.verification is not None
    assert [violation.sentence for violation in result.verification.violations] == []
    assert result.passes
    assert result.collected.events["deliver"] > 0
