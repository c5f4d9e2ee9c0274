"""Groups that do not change: what a program sees of them, simulated and on an event loop without a network."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from plainchant import Group, Halted, Message, Refused, UsageError, View, sim
from plainchant.cli.protocols import facts
from plainchant.core.model import Reason
from plainchant.group.membership import IDLE_CHECKS
from plainchant.protocols import registry

from ..fixed import PLAINSONG
from ..ports import NoStreams, a_membership, member_of


@pytest.fixture(autouse=True)
def _plainsong(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "protocols", lambda: {"plainsong": PLAINSONG})


# --- one group, and what its host says ----------------------------------------------------------------------------------


class Busy(NoStreams):
    """A host whose protocol has something to do as often as it is asked, up to a number."""

    def __init__(self, times: int) -> None:
        self.left = times
        self.asked = 0
        self.accepted: list[bytes] = []

    def accept(self, group: str, payloads: Sequence[bytes]) -> None:
        self.accepted += payloads

    def leave(self, group: str) -> None:
        raise AssertionError("nobody can leave this group")

    def close_group(self, group: str) -> None:
        raise AssertionError("nobody closes this group")

    def rename(self, group: str, name: str) -> None:
        raise AssertionError("nobody renames this group")

    def pressure(self, group: str, full: bool) -> None:
        return

    def waiting(self, group: str) -> Reason | None:
        self.asked += 1
        if self.asked <= self.left:
            return Reason("busy", "there is something to do")
        return None

    def counters(self) -> Mapping[str, int]:
        return {}


def a_group(port: Busy, settle: float = 0.004) -> Group:
    group = Group(a_membership(port, changes=False, settle=settle))
    member_of(group).add(View("g", 1, ("p1", "p2")))
    return group


def test_nobody_leaves() -> None:
    async def main() -> None:
        group = a_group(Busy(0))
        with pytest.raises(UsageError, match="p1 cannot leave g: with this protocol the members of a group stay the same"):
            await group.leave()
        assert group.try_send(b"still here") is not None

    asyncio.run(main())


def test_who_finishes_waits_for_a_whole_period_of_rest() -> None:
    async def main() -> None:
        port = Busy(7)
        group = a_group(port)
        await group.finish()
        assert port.asked == 7 + IDLE_CHECKS
        with pytest.raises(Refused, match="p1 has finished in g"):
            await group.send(b"too late")
        assert [type(event) for event in [event async for event in group]] == [View]

    asyncio.run(main())


def test_who_finishes_sends_first_what_was_accepted() -> None:
    async def main() -> None:
        group = a_group(Busy(0))
        await group.send(b"last words")
        finishing = asyncio.create_task(group.finish())
        done, _ = await asyncio.wait([finishing], timeout=0.05)
        assert not done
        member_of(group).took(1, len(b"last words"))
        async with asyncio.timeout(30):
            await finishing

    asyncio.run(main())


def test_who_finishes_is_told_if_the_process_is_stopped() -> None:
    async def main() -> None:
        group = a_group(Busy(1_000_000))
        finishing = asyncio.create_task(group.finish())
        await asyncio.sleep(0)
        member_of(group).halted(Reason("exception", "it broke"))
        with pytest.raises(Halted, match="it broke"):
            async with asyncio.timeout(30):
                await finishing

    asyncio.run(main())


# --- programs on virtual time -------------------------------------------------------------------------------------------


async def sing(group: Group) -> list[tuple[str, bytes]]:
    """Sends one message and reads everybody's."""
    await group.send(group.me.encode())
    heard: list[tuple[str, bytes]] = []
    async for event in group:
        if isinstance(event, Message):
            heard.append((event.sender, event.payload))
            if len(heard) == len(group.members):
                return sorted(heard)
    raise AssertionError("the stream ended")


def test_programs_end_and_their_processes_stay_until_all_is_quiet() -> None:
    result = sim.run(sing, protocol="plainsong", members=3, parameters={"moods": {"g": "hasty"}})
    assert result.returned == {name: [(f"p{n}", f"p{n}".encode()) for n in (1, 2, 3)] for name in ("p1", "p2", "p3")}
    assert result.verdict == "holds"
    assert result.summary.quiet
    assert {end.state for end in result.summary.processes.values()} == {"alive"}
    rows = result.trace.to_pylist()
    assert {row["kind"] for row in rows}.isdisjoint({"leave", "crash"})
    assert [row["detail"] for row in rows if row["kind"] == "end"] == ['{"drained":true}'] * 3


def test_who_ends_early_still_serves_the_others() -> None:
    async def main(group: Group) -> int:
        if group.me == "p1":
            return 0
        await asyncio.sleep(1)
        receipt = await group.send(b"late")
        await receipt.delivered()
        await group.finish()
        return len([event async for event in group if isinstance(event, Message)])

    result = sim.run(main, protocol="plainsong", members=3)
    assert result.returned == {"p1": 0, "p2": 2, "p3": 2}
    late = [row["process"] for row in result.trace.to_pylist() if row["kind"] == "deliver"]
    assert sorted(late) == ["p1", "p1", "p2", "p2", "p3", "p3"]


def test_with_a_duration_programs_are_cancelled_as_ever() -> None:
    async def main(group: Group) -> None:
        async for _ in group:
            pass

    result = sim.run(main, protocol="plainsong", members=2, duration="50ms")
    assert {outcome.state for outcome in result.outcomes.values()} == {"cancelled"}
    assert result.summary.quiet


def test_a_program_that_leaves_is_told_that_it_cannot() -> None:
    async def main(group: Group) -> None:
        await group.leave()

    with pytest.raises(UsageError, match="p1 cannot leave g"):
        sim.run(main, protocol="plainsong", members=2)


def test_faults_that_change_groups_are_refused() -> None:
    with pytest.raises(UsageError, match=r"fault\.0\.kind: with these parameters plainsong does not survive a crash"):
        sim.run(sing, protocol="plainsong", members=2, faults=[{"kind": "crash", "process": "p1", "at": "1ms"}])


# --- what people are shown ----------------------------------------------------------------------------------------------


def test_what_protocols_shows_of_parameters_by_group(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    from plainchant.cli.protocols import protocols

    protocols("plainsong")
    shown = " ".join(capsys.readouterr().out.split())
    assert 'moods text by group none groups of another mood; one of calm, hasty, solemn; such as { news = "hasty" }' in shown
    assert "pauses duration by group none pauses in a group" in shown
    assert "breaths duration by process none singers that breathe" in shown
    assert "Its groups do not change: they are formed once, nobody joins or leaves, and no member may crash." in shown


def test_what_programs_are_told_of_parameters_by_group() -> None:
    told: dict[str, Any] = facts(PLAINSONG)
    moods = next(one for one in told["parameters"] if one["name"] == "moods")
    assert (moods["type"], moods["default"], moods["choices"]) == ("text by group", {}, ["calm", "hasty", "solemn"])
    assert moods["example"] == '{ news = "hasty" }'
    assert told["changes"] is False
