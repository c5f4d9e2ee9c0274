"""Live groups that are formed, closed and renamed while processes run: real sockets on loopback, several nodes in one loop."""

from __future__ import annotations

import asyncio
import dataclasses
import json
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from plainchant import Group, Halted, Invitation, JoinTimeout, Lost, Message, Node, NotFormed, Refused, UsageError, View
from plainchant.core.model import Reason
from plainchant.live.pipe import JsonLines, Text
from plainchant.trace import read as read_trace
from plainchant.trace import validate
from plainchant.trace.collect import collect

from ..salon import SALON, Salon
from ..sim.test_forming import Slow, Unkind
from .test_api import addresses, run

PEERS = {"a": "127.0.0.1:7001", "b": "127.0.0.1:7002"}
"""For what never opens a socket."""


@asynccontextmanager
async def nodes(
    *places: str, agree: Mapping[str, Callable[[Invitation], bool]] | None = None, **options: Any
) -> AsyncIterator[list[Node]]:
    """Nodes that are open and can be asked, all in this process."""
    peers = addresses(*places)
    agrees = agree or {}
    async with AsyncExitStack() as stack:
        made = [
            Node(me=place, peers=peers, description=SALON, agree=agrees.get(place, lambda invitation: True), **options)
            for place in places
        ]
        await asyncio.gather(*(stack.enter_async_context(node) for node in made))
        yield made


async def messages(group: Group, count: int) -> list[tuple[str, str, bytes]]:
    """The next so many messages: group, sender and payload."""
    found: list[tuple[str, str, bytes]] = []
    async for event in group:
        if isinstance(event, Message):
            found.append((event.group, event.sender, event.payload))
        if len(found) == count:
            break
    return found


async def view(group: Group) -> View:
    """The next view."""
    async for event in group:
        if isinstance(event, View):
            return event
    raise AssertionError("the group is over")


# --- forming ----------------------------------------------------------------------------------------------------------


def test_those_who_agree_form_a_group_and_speak_in_it() -> None:
    asked: list[Invitation] = []

    def not_i(invitation: Invitation) -> bool:
        asked.append(invitation)
        return False

    async def main() -> None:
        async with nodes("a", "b", "c", agree={"c": not_i}) as (a, b, c):
            room = await a.form("room", ["b", "c"])
            assert room.formed
            assert room.members == ("a", "b")
            other = await b.next_group()
            assert (other.name, other.me, other.members) == ("room", "b", ("a", "b"))
            assert (await view(other)).members == ("a", "b")
            receipt = await room.send(b"hello")
            await receipt.delivered()
            assert await messages(other, 1) == [("room", "a", b"hello")]
            assert asked == [Invitation("room", "a", ("a", "b", "c"), 1)]
            assert c._memberships.proposals._arrived.empty()
            await other.leave()
            assert (await view(room)).members == ("a", "b")
            assert (await view(room)).members == ("a",)

    run(main())


def test_a_group_that_nobody_agrees_to_is_not_formed() -> None:
    async def main() -> None:
        async with nodes("a", "b", agree={"b": lambda invitation: False}) as (a, _):
            with pytest.raises(NotFormed, match="nobody agreed to room: b does not agree"):
                await a.form("room", ["b"])
            with pytest.raises(NotFormed):
                await a.form("room", ["b"])

    run(main())


def test_who_cannot_say_whether_it_agrees_does_not_and_tells_its_loop() -> None:
    problems: list[dict[str, Any]] = []

    def cannot(invitation: Invitation) -> bool:
        raise KeyError("secretary")

    async def main() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: problems.append(context))
        async with nodes("a", "b", agree={"b": cannot}) as (a, _):
            with pytest.raises(NotFormed):
                await a.form("room", ["b"])

    run(main())
    (problem,) = problems
    assert problem["message"] == "b could not say whether it agrees to room, so it does not"


def test_who_is_not_there_is_named() -> None:
    async def main() -> None:
        async with nodes("a", "b") as (a, b):
            await b.close()
            late = Node(me="a", peers={**{"a": "127.0.0.1:0"}, "z": addresses("z")["z"]}, description=SALON)
            async with late:
                with pytest.raises(JoinTimeout, match=r"could not form group 'room' in 0.3 s: not heard: z"):
                    await late.form("room", ["z"], timeout=0.3)
                with pytest.raises(JoinTimeout):
                    await late.form("room", ["z"], timeout=0.1)
            with pytest.raises(JoinTimeout, match=r"a could not form group 'room' in 0\.1 s: no answer"):
                await a.form("room", ["b"], timeout=0.1)

    run(main())


def test_a_group_that_is_formed_when_nobody_waits_for_it_any_more_is_left() -> None:
    answers: list[Callable[[], None]] = []

    class Hesitant(Salon):
        def notice(self, event: Any) -> None:
            if self.host.me == "b":
                answers.append(lambda: Salon.notice(self, event))
            else:
                super().notice(event)

    async def main() -> None:
        peers = addresses("a", "b")
        description = dataclasses.replace(SALON, make=Hesitant)
        async with (
            Node(me="a", peers=peers, description=description, agree=lambda invitation: True) as a,
            Node(me="b", peers=peers, description=description, agree=lambda invitation: True) as b,
        ):
            with pytest.raises(JoinTimeout):
                await a.form("room", ["b"], timeout=0.3)
            with pytest.raises(UsageError, match="a is in 'room' already"):
                await a.form("room", ["b"], timeout=0.3)
            b.host.later(answers[0])
            other = await b.next_group()
            assert (await view(other)).members == ("a", "b")
            assert (await view(other)).members == ("b",)
            assert a.host.groups == {}

    run(main())


def test_a_process_that_is_in_a_group_is_not_asked_about_it() -> None:
    async def main() -> None:
        async with nodes("a", "b", "c") as (a, b, c):
            room = await a.form("room", ["b"])
            await b.next_group()
            with pytest.raises(UsageError, match="a is in 'room' already; leave it first"):
                await a.form("room", ["c"])
            with pytest.raises(NotFormed, match="b is in room, has been, or is on its way there"):
                await c.form("room", ["b"])
            assert room.members == ("a", "b")

    run(main())


def test_who_was_in_no_group_can_be_spoken_to_and_has_its_name() -> None:
    async def main() -> None:
        peers = addresses("a", "b")
        options: dict[str, Any] = {"peers": peers, "description": SALON, "agree": lambda invitation: True}
        async with Node(me="a", **options) as a:
            async with Node(me="b", **options) as first:
                assert first.name == "b"
            async with Node(me="b", **options) as second:
                assert second.name == "b#1"
                room = await a.form("room", ["b"])
                assert room.members == ("a", "b#1")

    run(main())


def test_who_is_not_let_in_is_told_and_may_try_again() -> None:
    async def main() -> None:
        peers = addresses("a", "b")
        unkind = dataclasses.replace(SALON, make=Unkind)
        async with (
            Node(me="a", peers=peers, description=unkind) as a,
            a.join("g", members=["a"]),
            Node(me="b", peers=peers, description=unkind) as b,
        ):
            for _ in range(2):
                with pytest.raises(Halted, match="nobody let b into g"):
                    async with b.join("g", members=["a"]):
                        raise AssertionError("it was let in")
            assert b.host.groups == {}
            assert b.host.alive

    run(main())


# --- closing ----------------------------------------------------------------------------------------------------------


def test_a_closed_group_ends_every_stream_and_loses_no_message_of_who_closed_it() -> None:
    async def main() -> None:
        async with nodes("a", "b") as (a, b):
            room = await a.form("room", ["b"])
            other = await b.next_group()
            await room.send_many([b"one", b"two"])
            await room.close()
            with pytest.raises(Refused, match="room was closed by a"):
                await room.send(b"three")
            events = [event async for event in other]
            assert [event.payload for event in events if isinstance(event, Message)] == [b"one", b"two"]
            with pytest.raises(Refused, match="room was closed by another member"):
                await other.send(b"three")
            await other.leave()
            await other.close()
            assert other.members == ()

    run(main())


def test_what_others_had_not_sent_is_lost_and_their_receipts_say_so() -> None:
    class Mute(Salon):
        def ready(self, group: str) -> None:
            if self.host.me != "b":
                super().ready(group)

    async def main() -> None:
        peers = addresses("a", "b")
        options: dict[str, Any] = {
            "peers": peers,
            "description": dataclasses.replace(SALON, make=Mute),
            "agree": lambda invitation: True,
        }
        async with Node(me="a", **options) as a, Node(me="b", **options) as b:
            room = await a.form("room", ["b"])
            other = await b.next_group()
            receipt = await other.send(b"never")
            await room.close()
            with pytest.raises(Lost, match="room was closed by another member"):
                await receipt.delivered()

    run(main())


# --- other names ------------------------------------------------------------------------------------------------------


def test_a_renamed_group_goes_on_under_its_new_name(tmp_path: Path) -> None:
    async def main() -> None:
        async with nodes("a", "b", trace=tmp_path / "spool") as (a, b):
            room = await a.form("room", ["b"])
            other = await b.next_group()
            await room.send(b"one")
            assert await messages(other, 1) == [("room", "a", b"one")]
            told = await other.rename("hall")
            assert (told.group, told.members, other.name) == ("hall", ("a", "b"), "hall")
            receipt = await other.send(b"two")
            await receipt.delivered()
            assert await messages(room, 2) == [("room", "a", b"one"), ("hall", "b", b"two")]
            assert room.name == "hall"
            later = await room.send(b"three")
            assert (later.seq, room.metrics()["accepted"]) == (2, 2)
            await later.delivered()
            assert [event async for event in _first(other, 3)][-1] == Message("a", b"three", 1, "hall")
            assert await other.rename("hall") is other.view
            await room.leave()
            with pytest.raises(Refused, match="a has left hall"):
                await room.rename("attic")

    run(main())
    collect([tmp_path / "spool"], tmp_path / "out", alive=())
    trace = read_trace(tmp_path / "out" / "trace")
    assert validate(trace.table, trace.files) == []
    rows = [(row["kind"], row["group"]) for row in trace.table.to_pylist() if row["process"] == "b"]
    at = rows.index(("leave", "room"))
    assert rows[at : at + 3] == [("leave", "room"), ("join", "hall"), ("view", "hall")]


async def _first(group: Group, count: int) -> AsyncIterator[Any]:
    async for event in group:
        yield event
        count -= 1
        if not count:
            return


def test_a_message_that_a_new_name_cuts_off_comes_whole_and_its_receipt_knows() -> None:
    """b's large message is on its way in pieces, and more wait, when a renames the group."""

    async def main() -> None:
        peers = addresses("a", "b")
        options: dict[str, Any] = {
            "peers": peers,
            "description": dataclasses.replace(SALON, make=Slow),
            "agree": lambda invitation: True,
        }
        async with Node(me="a", **options) as a, Node(me="b", **options) as b:
            room = await a.form("room", ["b"])
            other = await b.next_group()
            large = bytes(range(256)) * 40
            receipts = [await other.send(payload) for payload in (b"one", large, b"two")]
            await receipts[0].delivered()
            assert other.metrics()["queued"] >= 1
            await room.rename("hall")
            await receipts[2].delivered()
            assert [receipt.seq for receipt in receipts] == [1, 2, 3]
            assert other.metrics()["queued"] == other.metrics()["queued_bytes"] == 0
            assert await messages(room, 3) == [("room", "b", b"one"), ("hall", "b", large), ("hall", "b", b"two")]

    run(main())


def test_who_waits_for_a_name_when_the_group_ends_is_told() -> None:
    class Deaf(Salon):
        def rename(self, group: str, name: str) -> None:
            return None

    async def main() -> None:
        peers = addresses("a", "b")
        options: dict[str, Any] = {
            "peers": peers,
            "description": dataclasses.replace(SALON, make=Deaf),
            "agree": lambda invitation: True,
        }
        async with Node(me="a", **options) as a, Node(me="b", **options) as b:
            room = await a.form("room", ["b"])
            other = await b.next_group()
            waiting = asyncio.create_task(room.rename("hall"))
            await asyncio.sleep(0)
            await other.close()
            with pytest.raises(Halted, match="room was closed by another member"):
                await waiting
            with pytest.raises(UsageError, match=r"the name '' has 0 bytes"):
                b.host.rename("room", "")

    run(main())


# --- what is refused --------------------------------------------------------------------------------------------------


def test_protocols_that_cannot_say_so() -> None:
    with pytest.raises(UsageError, match="with sequencer and these parameters processes do not form groups while they run"):
        Node(me="a", peers=PEERS, agree=lambda invitation: True)

    async def main() -> None:
        async with Node(me="a", peers=addresses("a")) as node, node.join("g") as group:
            with pytest.raises(UsageError, match="with sequencer and these parameters"):
                await node.form("room", ["a"])
            with pytest.raises(UsageError, match="with sequencer and these parameters"):
                await node.next_group()
            with pytest.raises(UsageError, match="g cannot be closed"):
                await group.close()
            with pytest.raises(UsageError, match="g cannot be renamed"):
                await group.rename("h")

    run(main())


def test_a_pipe_tells_of_parts() -> None:
    parts = (("a", "b"), ("c",), ("d",))
    merge = View("g", 9, ("a", "b", "c", "d"), ("c", "d"), parts=parts, newcomers=("d",))
    assert Text().event(merge, "a") == b"* view 9: a, b, c, d (together again: a, b and c; d joined)\n"
    assert json.loads(JsonLines().event(merge, "a"))["parts"] == [["a", "b"], ["c"], ["d"]]
    joined = View("g", 9, ("a", "d"), ("d",), parts=(("a",), ("d",)), newcomers=("d",))
    assert Text().event(joined, "a") == b"* view 9: a, d (d joined)\n"
    assert "parts" not in json.loads(JsonLines().event(joined, "a"))


def test_a_view_tells_of_parts_and_reasons() -> None:
    merge = View("g", 9, ("a", "b", "c"), ("c",), {"d": Reason("crashed", "d was silent")}, parts=(("a", "b"), ("c",)))
    assert merge.is_merge
    assert (merge.part_of("a"), merge.part_of("c")) == (("a", "b"), ("c",))
    joined = View("g", 9, ("a", "b", "c"), ("c",), parts=(("a", "b"), ("c",)), newcomers=("c",))
    assert not joined.is_merge
    plain = View("g", 9, ("a", "b", "c"))
    assert (plain.is_merge, plain.part_of("c")) == (False, ("a", "b", "c"))
    with pytest.raises(UsageError, match="'d' is not in view 9 of g; its members: a, b, c"):
        merge.part_of("d")
