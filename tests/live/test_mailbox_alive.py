"""``mailbox`` with real processes: a stopped member, and one that does not read, do not stop the others. A process that joins may
list other peers than the members do."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

import plainchant
from plainchant import Group, Halted, Message, View

from .test_api import addresses, members, payloads, read, run
from .test_mailbox import options, read_view

PATIENCE = "1s"

MEMBER = """
import asyncio, json, sys
import plainchant

async def member(peers, options):
    async with plainchant.join("g", me="c", peers=peers, **options) as group:
        print("in", flush=True)
        async for event in group:
            if isinstance(event, plainchant.Message) and event.payload == b"end":
                return

async def main():
    peers, options = json.loads(sys.argv[1]), json.loads(sys.argv[2])
    try:
        await member(peers, options)
    except plainchant.Halted as halted:
        print(halted, flush=True)
        await member(peers, options)

asyncio.run(main())
"""


@asynccontextmanager
async def member_process(peers: dict[str, str], options: dict[str, Any]) -> AsyncIterator[asyncio.subprocess.Process]:
    """Member ``c`` in a process of its own: it says when it is in the group and why it was halted, and then joins again."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        MEMBER,
        json.dumps(peers),
        json.dumps(options),
        stdout=asyncio.subprocess.PIPE,
        cwd=Path(__file__).parents[2],
    )
    try:
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()


async def line_of(process: asyncio.subprocess.Process) -> str:
    assert process.stdout is not None
    return (await process.stdout.readline()).decode().strip()


async def send_until(group: Group, done: asyncio.Event) -> int:
    """Sends one message after the other; the number of messages sent until the event."""
    count = 0
    while not done.is_set():
        await group.send(b"%d" % count)
        count += 1
        await asyncio.sleep(0.002)
    return count


async def without(group: Group, gone: str) -> View:
    """Reads until the view without a process."""
    async for event in group:
        if isinstance(event, View) and gone in event.left:
            return event
    raise AssertionError(f"the stream of {group.me} ended with {gone} in it")


@pytest.mark.parametrize("tolerate", ["crash", "timing"])
def test_a_stopped_member_is_excluded_while_it_is_stopped_and_comes_back(tolerate: str) -> None:
    async def main() -> None:
        peers, given = addresses("a", "b", "c"), options(tolerate=tolerate, patience=PATIENCE)
        async with AsyncExitStack() as stack:
            joins = [stack.enter_async_context(plainchant.join("g", me=name, peers=peers, **given)) for name in "ab"]
            c = await stack.enter_async_context(member_process(peers, given))
            a, b = await asyncio.gather(*joins)
            assert await line_of(c) == "in"
            os.kill(c.pid, signal.SIGSTOP)
            excluded = asyncio.Event()
            sending = asyncio.create_task(send_until(a, excluded))
            views = await asyncio.gather(without(a, "c"), without(b, "c"))
            assert {view.left["c"].code for view in views} == {"excluded"}
            excluded.set()
            await sending
            await a.send(b"without c")  # c is still stopped: a and b go on without it
            for group in (a, b):
                while (await read(group, 1))[0].payload != b"without c":
                    continue
            os.kill(c.pid, signal.SIGCONT)
            assert "c was excluded from g: it had not set its decision flags for 1s" in await line_of(c)
            assert await line_of(c) == "in"
            await read_view(a, "a", "b", "c#1")
            await b.send(b"end")
            assert await c.wait() == 0

    run(main())


@pytest.mark.parametrize("tolerate", ["crash", "timing"])
def test_a_member_that_does_not_read_is_excluded_after_patience(tolerate: str) -> None:
    async def main() -> None:
        given = options(tolerate=tolerate, patience=PATIENCE)
        peers = addresses("a", "b", "c")
        async with AsyncExitStack() as stack:
            joins = [plainchant.join("g", me=name, peers=peers, unread=20_000, outgoing=20_000, **given) for name in "abc"]
            a, b, c = await asyncio.gather(*(stack.enter_async_context(join) for join in joins[:2]), joins[2].__aenter__())
            excluded = asyncio.Event()

            async def send_all() -> None:
                while not excluded.is_set():
                    await a.send(bytes(1000))

            sending = asyncio.create_task(send_all())
            views = await asyncio.gather(without(a, "c"), without(b, "c"))
            assert {view.left["c"].code for view in views} == {"excluded"}
            excluded.set()
            await sending
            await b.send(b"without c")
            for group in (a, b):
                while (await read(group, 1))[0].payload != b"without c":
                    continue
            with pytest.raises(Halted, match="because its application does not read"):
                await joins[2].__aexit__(None, None, None)
            assert not c.members
            async with plainchant.join("g", me="c", peers=peers, **given):
                await read_view(a, "a", "b", "c#1")

    run(main())


def test_a_process_that_joins_may_list_itself_among_its_peers() -> None:
    async def main() -> None:
        peers = addresses("a", "b", "c")
        async with members("a", "b", "c", peers=peers, protocol="mailbox", parameters={}) as (a, _, _):
            more = {**peers, **addresses("d")}
            async with plainchant.join("g", me="d", peers=more, protocol="mailbox") as d:
                assert d.view is not None
                assert set(d.view.members) == {"a", "b", "c", "d"}
                await a.send(b"to all")
                await d.send(b"from d")
                found: list[Message] = await read(d, 2)
                assert {(message.sender, message.payload) for message in found} == {("a", b"to all"), ("d", b"from d")}
                assert payloads(await read(a, 2)) == payloads(found)

    run(main())
