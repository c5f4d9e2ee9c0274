"""The server: what it serves to whom, and that nobody slows it down."""

from __future__ import annotations

import asyncio
import json
import re
import socket
import sys
from collections.abc import Awaitable, Callable
from typing import Any

import aiohttp
import pytest

from plainchant.core.model import UsageError
from plainchant.lab.watch import server
from plainchant.lab.watch.page import page, policy, script, style
from plainchant.lab.watch.server import Watch, is_loopback, parse_place, served
from plainchant.trace.fact import Fact

EVIL = "<script>alert(1)</script>"


class Scripted:
    """A source that hands out what it is given."""

    what = "a script"

    def __init__(self, *facts: Fact) -> None:
        self.facts = list(facts)
        self.fails = False
        self.polls = 0

    def poll(self) -> list[Fact]:
        if self.fails:
            raise RuntimeError("the disk is gone")
        self.polls += 1
        facts, self.facts = self.facts, []
        return facts

    def now(self) -> int:
        return 1_000_000_000

    def told(self) -> dict[str, Any]:
        return {"alive": 1, "behind": 0, "problems": [], "over": False}


def watched(
    check: Callable[[Watch, Scripted, aiohttp.ClientSession], Awaitable[None]], *facts: Fact, place: str = "127.0.0.1:0"
) -> None:
    async def run() -> None:
        source = Scripted(*facts)
        async with Watch(source, place) as watch, aiohttp.ClientSession() as session:
            async with asyncio.timeout(30):
                await check(watch, source, session)

    asyncio.run(run())


async def frames(response: aiohttp.ClientResponse, wanted: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
    """Reads frames until one is as wanted."""
    while True:
        line = (await response.content.readuntil(b"\n\n")).decode()
        told: dict[str, Any] = json.loads(line.removeprefix("data: "))
        if wanted(told):
            return told


def test_the_page_needs_nothing_else_and_runs_no_other_script() -> None:
    async def check(watch: Watch, source: Scripted, session: aiohttp.ClientSession) -> None:
        async with session.get(watch.url) as response:
            text = await response.text()
            rules = response.headers["Content-Security-Policy"]
        assert text == page()
        assert "default-src 'none'" in rules
        assert "unsafe" not in rules
        assert "frame-ancestors 'none'" in rules
        assert response.headers["Cache-Control"] == "no-store"
        for method in ("post", "put", "delete"):
            assert (await session.request(method, watch.url)).status == 405

    watched(check)
    assert not re.search(r"""(src|href)=["'](?!data:|#)""", page())
    assert "://" not in script() + style()
    assert f"<style>{style()}</style>" in page()
    assert f"<script>{script()}</script>" in page()
    assert policy().count("'sha256-") == 2


def test_the_script_never_makes_markup_of_data() -> None:
    for way in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "new Function", 'setAttribute("on'):
        assert way not in script()


def test_frames_come_as_things_happen_and_text_stays_text() -> None:
    async def check(watch: Watch, source: Scripted, session: aiohttp.ClientSession) -> None:
        async with session.get(f"{watch.url}events") as response:
            assert response.headers["Content-Type"].startswith("text/event-stream")
            first = await frames(response, lambda told: told["run"] is None)
            assert first["verdict"]["state"] == "off"
            source.facts = [Fact("r0", "p", 0, "view", 5, EVIL, 1, members=("p",))]
            told = await frames(response, lambda told: told["run"] is not None)
            assert told["run"]["groups"][0]["name"] == EVIL
        async with session.get(f"{watch.url}state") as response:
            assert (await response.json())["run"]["groups"][0]["name"] == EVIL

    watched(check)


def test_who_asks_by_another_name_is_refused() -> None:
    """A page elsewhere whose name was made to point to this machine gets nothing."""

    async def check(watch: Watch, source: Scripted, session: aiohttp.ClientSession) -> None:
        for path in ("", "events", "state"):
            async with session.get(f"{watch.url}{path}", headers={"Host": "evil.example"}) as response:
                assert response.status == 403
        for host in ("localhost:80", "127.0.0.1", "[::1]:9"):
            async with session.get(watch.url, headers={"Host": host}) as response:
                assert response.status == 200

    watched(check)


def test_a_browser_that_reads_nothing_costs_one_frame_and_slows_nobody_down(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "PAUSE", 0.01)

    async def check(watch: Watch, source: Scripted, session: aiohttp.ClientSession) -> None:
        index = 0
        with socket.create_connection(("127.0.0.1", int(watch.url.rsplit(":", 1)[1].strip("/")))) as slow:
            slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            slow.sendall(b"GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n")
            async with session.get(f"{watch.url}events") as response:
                while not any(client.skipped > 3 for client in watch._clients):
                    index += 1
                    source.facts = [Fact("r0", f"p{n}", index, "view", 1, "g" * 99, 1, members=("x" * 99,)) for n in range(99)]
                    await frames(response, lambda told: told["run"] is not None)
            stuck = max(watch._clients, key=lambda client: client.skipped)
            assert stuck.frame is not None
            assert stuck.wants_full

    watched(check)


def test_a_slow_browser_that_comes_back_gets_a_full_frame() -> None:
    client = server._Client(None)
    client.wants_full = False
    client.offer(b"one")
    assert not client.wants_full
    client.offer(b"two")
    assert (client.frame, client.skipped, client.wants_full) == (b"two", 1, True)


def test_there_is_room_for_so_many_browsers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "MOST_CLIENTS", 1)

    async def check(watch: Watch, source: Scripted, session: aiohttp.ClientSession) -> None:
        async with session.get(f"{watch.url}events") as one:
            await frames(one, lambda told: True)
            async with session.get(f"{watch.url}events") as other:
                assert other.status == 503

    watched(check)


def test_a_source_that_fails_is_told_and_the_page_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "PAUSE", 0.01)

    async def check(watch: Watch, source: Scripted, session: aiohttp.ClientSession) -> None:
        async with session.get(f"{watch.url}events") as response:
            source.fails = True
            told = await frames(response, lambda told: bool(told["source"]["problems"]))
            assert "the disk is gone" in told["source"]["problems"][0]
        assert (await session.get(watch.url)).status == 200

    watched(check)


def test_a_place_that_is_taken_or_is_none_is_a_sentence() -> None:
    with served(Scripted(), "127.0.0.1:0") as watch:
        taken = watch.url.removeprefix("http://").strip("/")
        with pytest.raises(UsageError, match="cannot listen at"), served(Scripted(), taken):
            pass
    for wrong in ("8080", "host:", ":80", "a:b", "127.0.0.1:70000"):
        with pytest.raises(UsageError, match="no place to listen at"):
            parse_place(wrong)
    assert [is_loopback(host) for host in ("127.0.0.9", "::1", "localhost", "0.0.0.0", "10.0.0.1", "name")] == [
        True,
        True,
        True,
        False,
        False,
        False,
    ]


def test_without_aiohttp_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "aiohttp", None)
    with pytest.raises(UsageError, match=r"plainchant\[observe\]"), served(Scripted(), "127.0.0.1:0"):
        pass
