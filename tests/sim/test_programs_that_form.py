"""Programs of ``sim.run`` that form groups while they run, as live ones do with their nodes."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest

from plainchant import Group, Invitation, JoinTimeout, Message, NotFormed, Reason, UsageError, sim

from ..ports import NoStreams, a_membership


def agrees(invitation: Invitation) -> bool:
    return invitation.group != "attic"


async def heard(group: Group) -> list[bytes]:
    return [event.payload async for event in group if isinstance(event, Message)]


def test_those_who_agree_speak_in_a_group_that_is_renamed_and_closed() -> None:
    async def main(group: Group) -> Any:
        if group.me == "p1":
            room = await group.node.form("room", ["p2", "p3"])
            assert room.members == ("p1", "p2", "p3")
            assert "total" in room.guarantees
            receipt = await room.send(b"hello")
            await receipt.delivered()
            assert (await room.rename("hall")).group == "hall"
            await (await room.send(b"still here")).delivered()
            await room.close()
            assert room.is_over
            return room.name
        if group.me == "p4":
            await asyncio.sleep(3.0)
            return None
        room = await group.node.next_group()
        assert not room.is_over
        return await heard(room)

    result = sim.run(main, protocol="newtop", members=4, agree=agrees)
    assert result.verdict == "holds"
    assert result.returned == {
        "p1": "hall",
        "p2": [b"hello", b"still here"],
        "p3": [b"hello", b"still here"],
        "p4": None,
    }


def test_a_group_that_nobody_agrees_to_is_not_formed_and_can_be_proposed_again() -> None:
    async def main(group: Group) -> list[str]:
        said = []
        if group.me == "p1":
            for _ in range(2):
                with pytest.raises(NotFormed, match="p2 does not agree") as problem:
                    await group.node.form("attic", ["p2"])
                said.append(problem.value.reason.code)
            assert (await group.node.form("room", ["p2"])).members == ("p1", "p2")
        else:
            said.append((await group.node.next_group()).name)
        await asyncio.sleep(1.0)
        return said

    result = sim.run(main, protocol="newtop", members=2, agree=agrees)
    assert result.verdict == "holds"
    assert result.returned == {"p1": ["nobody agreed"] * 2, "p2": ["room"]}


def test_who_cannot_say_whether_it_agrees_does_not_and_tells_its_loop() -> None:
    problems: list[Mapping[str, Any]] = []

    def cannot(invitation: Invitation) -> bool:
        raise KeyError("secretary")

    async def main(group: Group) -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: problems.append(context))
        if group.me == "p1":
            with pytest.raises(NotFormed):
                await group.node.form("room", ["p2"])
        await asyncio.sleep(1.0)

    sim.run(main, protocol="newtop", members=2, agree=cannot)
    (problem,) = problems
    assert problem["message"] == "p2 could not say whether it agrees to room, so it does not"


def test_a_group_that_is_formed_when_nobody_waits_for_it_any_more_is_left() -> None:
    async def main(group: Group) -> Any:
        if group.me == "p1":
            with pytest.raises(JoinTimeout, match=r"p1 could not form group 'room' in 0\.0001 s: no answer"):
                await group.node.form("room", ["p2"], timeout=0.0001)
            await asyncio.sleep(2.0)
            return None
        room = await group.node.next_group()
        await asyncio.sleep(1.0)
        return room.members

    result = sim.run(main, protocol="newtop", members=2, agree=agrees)
    assert result.verdict == "holds"
    assert result.returned["p2"] == ("p2",)


def test_what_cannot_be_formed_is_refused_at_once() -> None:
    async def main(group: Group) -> None:
        if group.me == "p1":
            with pytest.raises(UsageError, match="p1 is in 'g' already"):
                await group.node.form("g", ["p2"])
            with pytest.raises(UsageError, match="'room' is proposed to p9; name processes that there are"):
                await group.node.form("room", ["p9"])
            with pytest.raises(UsageError, match="'room' is proposed to nobody"):
                await group.node.form("room", [])
            with pytest.raises(UsageError, match="at least one byte"):
                await group.node.form("room", ["p2"], unread=0)

    sim.run(main, protocol="newtop", members=2, group="g", agree=agrees)


def test_protocols_that_form_no_groups_say_so() -> None:
    async def main(group: Group) -> None:
        with pytest.raises(UsageError, match="do not form groups while they run"):
            await group.node.form("room", ["p2"])
        with pytest.raises(UsageError, match="do not form groups while they run"):
            await group.node.next_group()

    sim.run(main, protocol="sequencer", members=2, agree=agrees)


def test_who_is_stopped_while_it_proposes_is_told() -> None:
    async def main(group: Group) -> str:
        await asyncio.sleep(0.2)
        if group.me != "p1":
            await asyncio.sleep(3.0)
            return ""
        try:
            await group.node.form("room", ["p2"])
        except Exception as problem:
            return type(problem).__name__
        return "formed"

    # In a minority of the view before, p1 halts; its proposal, to somebody it cannot reach, is then pending.
    cut = {"kind": "partition", "at": "100ms", "length": "2s", "parts": [["p1"], ["p2", "p3"]]}
    result = sim.run(
        main, protocol="newtop", members=3, agree=agrees, faults=[cut], parameters={"partitions": "majority"}, raises=False
    )
    outcome = result.outcomes["p1"]
    assert "Halted" in (outcome.value, type(outcome.error).__name__)


def test_a_group_without_a_process_says_so() -> None:
    async def main() -> None:
        class Nobody(NoStreams):
            def accept(self, group: str, payloads: Any) -> None: ...
            def leave(self, group: str) -> None: ...
            def close_group(self, group: str) -> None: ...
            def rename(self, group: str, name: str) -> None: ...
            def pressure(self, group: str, full: bool) -> None: ...
            def waiting(self, group: str) -> Reason | None: ...
            def counters(self) -> Mapping[str, int]:
                return {}

        group = Group(a_membership(Nobody()))
        with pytest.raises(UsageError, match="g was made without a process"):
            _ = group.node

    asyncio.run(main())
