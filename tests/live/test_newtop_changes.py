"""``newtop`` groups that change, between real sockets on loopback: joining with state, leaving, losing members, parts that come
together, forming, closing and renaming. No test depends on who is suspected when: each waits for the views that must come."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

import plainchant
from plainchant import Group, Invitation, Message, Node, NotFormed, State, StateRequest, View
from plainchant.cli.live import execute, given_parameters
from plainchant.lab.properties import verify
from plainchant.scenario import load
from plainchant.trace import read as read_trace
from plainchant.trace.collect import collect

from ..cli.test_node import Running
from .test_api import Cables, addresses, run

QUICK = {"suspect_after": "400ms", "alive_every": "100ms", "merge_after": "200ms"}
"""Quick enough for a test, and slow enough for a busy machine: who is suspected wrongly is merged again."""
CALM = {"suspect_after": "20s"}
"""A busy machine excludes nobody."""


@asynccontextmanager
async def nodes(*places: str, peers: dict[str, str] | None = None, **options: Any) -> AsyncIterator[list[Node]]:
    """Open nodes of newtop, all in this process."""
    addressed = peers or addresses(*places)
    options.setdefault("parameters", CALM)
    async with AsyncExitStack() as stack:
        made = [Node(protocol="newtop", me=place, peers=addressed, **options) for place in places]
        await asyncio.gather(*(stack.enter_async_context(node) for node in made))
        yield made


async def until(group: Group, condition: Callable[[View], bool]) -> list[View]:
    """Reads until a view fulfils a condition; all views on the way."""
    views: list[View] = []
    async for event in group:
        if isinstance(event, View):
            views.append(event)
            if condition(event):
                return views
    raise AssertionError("the group is over")


async def next_message(group: Group) -> Message:
    async for event in group:
        if isinstance(event, Message):
            return event
    raise AssertionError("the group is over")


def verified(directory: Path) -> None:
    """The spools make a trace that keeps what newtop promises."""
    collect([directory / "spool"], directory / "out", alive=())
    verification = verify(read_trace(directory / "out" / "trace").table)
    assert [violation.sentence for violation in verification.violations] == []


def test_who_joins_later_gets_the_state_at_its_view_and_may_leave(tmp_path: Path) -> None:
    async def keep(group: Group, book: list[bytes]) -> None:
        async for event in group:
            if isinstance(event, Message):
                book.append(event.payload)
            elif isinstance(event, StateRequest):
                await event.reply(b"|".join(book))
            elif isinstance(event, State):
                book[:] = event.payload.split(b"|")

    async def main() -> None:
        peers = addresses("a", "b", "c")
        options: dict[str, Any] = {
            "peers": peers,
            "protocol": "newtop",
            "members": ["a", "b"],
            "parameters": CALM,
            "state": True,
            "trace": tmp_path / "spool",
            "run": "r",
        }
        books: dict[str, list[bytes]] = {name: [] for name in peers}
        async with AsyncExitStack() as stack:
            a, b = await asyncio.gather(
                *(stack.enter_async_context(plainchant.join("g", me=name, **options)) for name in ("a", "b"))
            )
            readers = [asyncio.create_task(keep(group, books[group.me])) for group in (a, b)]
            await (await a.send_many([b"one", b"two"])).delivered()
            async with plainchant.join("g", me="c", **options) as c:
                assert set(c.members) == {"a", "b", "c"}
                readers.append(asyncio.create_task(keep(c, books["c"])))
                await (await b.send(b"three")).delivered()
                await (await c.send(b"four")).delivered()
                while len(books["a"]) < 4 or len(books["c"]) < 4:
                    await asyncio.sleep(0.01)
            assert books["a"] == books["c"]
            assert books["c"][:2] == [b"one", b"two"]
            while len(a.members) > 2:
                await asyncio.sleep(0.01)
            assert a.view is not None
            assert {name: reason.code for name, reason in a.view.left.items()} == {"c": "left"}
            for reader in readers:
                reader.cancel()

    run(main())
    verified(tmp_path)


def test_a_member_that_stops_is_removed_with_the_reason_and_comes_back_as_a_new_one() -> None:
    async def main() -> None:
        peers = addresses("a", "b", "c")
        async with nodes("a", "b", peers=peers, parameters=QUICK) as (a, b), AsyncExitStack() as stack:
            dies = await stack.enter_async_context(Node(protocol="newtop", me="c", peers=peers, parameters=QUICK))
            joinings = [stack.enter_async_context(node.join("g")) for node in (a, b)]
            lost = dies.join("g")
            first, _, _ = await asyncio.gather(*joinings, lost.__aenter__())
            await dies.close()
            views = await until(first, lambda view: "c" not in view.members)
            reason = views[-1].left["c"]
            assert reason.code == "crashed"
            assert reason.text
            assert reason.evidence
            again = await stack.enter_async_context(Node(protocol="newtop", me="c", peers=peers, parameters=QUICK))
            async with again.join("g") as back:
                assert back.me == "c#1"
                views = await until(first, lambda view: "c#1" in view.members)
                assert views[-1].newcomers == ("c#1",)
                assert views[-1].parts[-1] == ("c#1",)
                assert not views[-1].is_merge

    run(main())


def test_parts_that_went_on_without_each_other_come_together_and_are_told_which_they_were(tmp_path: Path) -> None:
    """a and b lose c and d; both parts go on; when the cable is in again the application sees the parts before any message."""

    async def main() -> None:
        peers = addresses("a", "b", "c", "d")
        cables = Cables()
        options: dict[str, Any] = {
            "peers": peers,
            "transport": cables,
            "parameters": QUICK,
            "trace": tmp_path / "spool",
            "run": "r",
        }
        async with nodes("a", "b", "c", "d", **options) as made, AsyncExitStack() as stack:
            groups = await asyncio.gather(*(stack.enter_async_context(node.join("g")) for node in made))
            a, b, c, d = groups
            for place in "cd":
                cables.made[peers[place]].cut = True
            for one, other in ((a, "cd"), (b, "cd")):
                await until(one, lambda view, other=other: not set(other) & set(view.members))  # type: ignore[misc]
            await (await a.send(b"among us")).delivered()
            for place in "cd":
                cables.made[peers[place]].cut = False
            for group in groups:
                views = await until(group, lambda view: len(view.members) == 4 and bool(view.parts))
                assert views[-1].is_merge
                assert sorted(name for part in views[-1].parts for name in part) == ["a", "b", "c", "d"]
                assert views[-1].newcomers == ()
                assert set(views[-1].joined) == {"a", "b", "c", "d"} - set(views[-1].part_of(group.me))
            await d.send(b"together again")
            for group in (a, b, c):
                while (await next_message(group)).payload != b"together again":
                    pass

    run(main())
    verified(tmp_path)


def test_groups_are_formed_renamed_and_closed_while_processes_run(tmp_path: Path) -> None:
    def no_attic(invitation: Invitation) -> bool:
        return invitation.group != "attic"

    async def main() -> None:
        async with nodes("a", "b", "c", agree=no_attic, trace=tmp_path / "spool", run="r") as (a, b, c):
            room = await a.form("room", ["b", "c"])
            others = [await node.next_group() for node in (b, c)]
            assert room.members == ("a", "b", "c")
            with pytest.raises(NotFormed, match="b does not agree"):
                await a.form("attic", ["b"])
            await others[0].send(b"from b")
            assert (await next_message(room)).payload == b"from b"
            view = await others[1].rename("hall")
            assert view.group == "hall"
            await others[0].send(b"in the hall")
            assert (await next_message(room)).group == "hall"
            await room.close()
            for other in others:
                async for _ in other:
                    pass
                assert other.members == ()

    run(main())
    verified(tmp_path)


# --- processes --------------------------------------------------------------------------------------------------------


def test_node_processes_are_killed_stopped_and_come_back(tmp_path: Path) -> None:
    """c is killed and comes back as a new process; b is stopped for a while, is missed, and its part comes together again."""
    config = tmp_path / "desk.toml"
    peers = "".join(f'{name} = "{address}"\n' for name, address in addresses("a", "b", "c").items())
    config.write_text(f'group = "desk"\nprotocol = "newtop"\n[peers]\n{peers}[parameters]\nsuspect_after = "800ms"\n')
    running: list[Running] = []

    def start(name: str) -> Running:
        running.append(Running(config, "--me", name, "--json"))
        return running[-1]

    def sees(node: Running, members: set[str]) -> dict[str, Any]:
        return node.until(lambda event: event["event"] == "view" and set(event["members"]) == members)[-1]

    try:
        a, b, c = (start(name) for name in "abc")
        for node in (a, b, c):
            sees(node, {"a", "b", "c"})
        c.process.kill()
        for node in (a, b):
            assert "c" in sees(node, {"a", "b"})["left"]
        again = start("c")
        assert sees(again, {"a", "b", "c#1"})["me"] == "c#1"
        for node in (a, b):
            sees(node, {"a", "b", "c#1"})
        os.kill(b.process.pid, signal.SIGSTOP)
        assert list(sees(a, {"a", "c#1"})["left"]) == ["b"]
        os.kill(b.process.pid, signal.SIGCONT)
        for node in (a, b, again):
            merge = node.until(lambda event: event["event"] == "view" and "parts" in event and len(event["members"]) == 3)[-1]
            assert set(merge["members"]) == {"a", "b", "c#1"}
        b.say({"send": "here I am"})
        assert again.until(lambda event: event["event"] == "message")[-1]["payload"] == "here I am"
        a.say({"leave": True})
        a.ends(0)
        assert a.rest()[-1]["code"] == "left"
        assert "a" in sees(b, {"b", "c#1"})["left"]
    finally:
        for each in running:
            each.stop()


SCENARIO = """
protocol = "newtop"
members = 4
duration = "3s"
drain = "30s"

[parameters]
suspect_after = "600ms"

[[workload]]
rate = 20

[[fault]]
kind = "form"
process = "p1"
group = "room"
members = ["p2", "p3"]
at = "100ms"

[[fault]]
kind = "crash"
process = "p4"
at = "500ms"

[[fault]]
kind = "rename"
process = "p2"
group = "room"
name = "hall"
at = "1s"

[[fault]]
kind = "restart"
process = "p4"
at = "1500ms"

[[fault]]
kind = "close"
process = "p3"
group = "hall"
at = "2500ms"
"""


def test_a_scenario_with_real_processes_forms_renames_closes_kills_and_restarts(tmp_path: Path) -> None:
    (tmp_path / "groups.toml").write_text(SCENARIO)
    given = given_parameters(tmp_path / "groups.toml", [])
    result = execute(load(tmp_path / "groups.toml"), tmp_path / "out", verify_it=True, options={"given": given})
    assert result.summary.quiet
    assert not result.summary.unexpected
    assert result.verification is not None
    assert [violation.sentence for violation in result.verification.violations] == []
    rows = read_trace(tmp_path / "out" / "trace").table.to_pylist()
    assert {row["process"] for row in rows if row["kind"] == "end"} == {"p1", "p2", "p3", "p4#1"}
    # A busy machine may come too late for some of it, which is told; what was done was done.
    skipped = {fault.kind for fault, _ in result.summary.skipped}
    assert skipped <= {"rename", "close"}
    happened = {json.loads(row["detail"])["fault"] for row in rows if row["kind"] == "fault"}
    assert happened == {"form", "crash", "restart", "rename", "close", "calm"} - skipped
    groups = {row["group"] for row in rows if row["kind"] == "view"}
    assert groups == {"g", "room", "hall"} - ({"hall"} if "rename" in skipped else set())
    if not skipped:
        assert {row["process"] for row in rows if row["kind"] == "leave" and row["group"] == "hall"} == {"p1", "p2", "p3"}
