"""The lock: tokens, crashes, parts, interruptions. On virtual time."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from plainchant import Group, UsageError, sim
from plainchant.blocks import Fence, Lock, LockLost, Replica, StaleToken

APART = {"kind": "partition", "at": "300ms", "length": "2s", "parts": [["p1", "p2"], ["p3", "p4", "p5"]]}


def run(main: Any, **options: Any) -> sim.Result:
    result = sim.run(main, **{"state": True, "raises": True, **options})
    assert result.verdict == "holds", [violation.sentence for violation in result.violations]
    return result


def test_one_holds_it_at_a_time_and_tokens_grow() -> None:
    inside: list[str] = []
    tokens: list[int] = []

    async def main(group: Group) -> None:
        lock = Lock()
        async with Replica(group, lock=lock):
            for _ in range(3):
                async with lock as token:
                    assert not inside
                    inside.append(group.me)
                    tokens.append(token)
                    await asyncio.sleep(0.02)
                    inside.remove(group.me)

    result = run(main, members=3)
    assert tokens == list(range(1, 10))
    assert result.verification is not None
    assert result.verification.properties["lock-exclusion"].cases == 9


def test_the_next_one_gets_it_when_its_holder_crashes() -> None:
    held: list[tuple[int, str]] = []

    async def main(group: Group) -> None:
        lock = Lock()
        async with Replica(group, lock=lock):
            await asyncio.sleep(0.01 * int(group.me[1:]))
            async with lock as token:
                held.append((token, group.me))
                await asyncio.sleep(0.5)

    run(main, members=3, faults=[{"kind": "crash", "process": "p1", "at": "200ms"}])
    assert held == [(1, "p1"), (2, "p2"), (3, "p3")]


def test_a_holder_without_a_majority_is_interrupted_and_the_others_go_on() -> None:
    story: list[tuple[str, str, Any]] = []

    async def main(group: Group) -> None:
        lock = Lock()
        async with Replica(group, lock=lock):
            await asyncio.sleep(0.01 * int(group.me[1:]))
            try:
                async with lock as token:
                    story.append((group.me, "holds", token))
                    await asyncio.sleep(10 if group.me == "p1" else 0.1)
            except LockLost as lost:
                story.append((group.me, "loses", lost.reason.code))
            await asyncio.sleep(4)

    run(main, members=5, protocol="newtop", faults=[APART])
    assert story[:2] == [("p1", "holds", 1), ("p1", "loses", "lost")]
    assert [entry[0] for entry in story if entry[1] == "holds"] == ["p1", "p3", "p4", "p5", "p2"]
    tokens = [entry[2] for entry in story if entry[1] == "holds"]
    assert tokens == sorted(set(tokens))


def test_each_part_has_a_holder_where_that_is_wanted() -> None:
    held: dict[str, int] = {}

    async def main(group: Group) -> None:
        lock = Lock(quorum="part")
        async with Replica(group, lock=lock):
            await asyncio.sleep(1.5)
            if group.me in ("p1", "p3"):
                async with lock as token:
                    held[group.me] = token
            await asyncio.sleep(3)

    run(main, members=5, protocol="newtop", faults=[APART])
    assert held == {"p1": 1, "p3": 1}


def test_who_is_halted_loses_it() -> None:
    async def main(group: Group) -> str:
        lock = Lock()
        async with Replica(group, lock=lock):
            if group.me != "p3":
                await asyncio.sleep(3)
                return ""
            try:
                async with lock:
                    await asyncio.sleep(10)
            except LockLost as lost:
                return lost.reason.text
            return ""

    cut = {"kind": "partition", "at": "200ms", "length": "5s", "parts": [["p1", "p2"], ["p3"]]}
    assert "p3" in run(main, members=3, faults=[cut], raises=False).outcomes["p3"].value


def test_who_waits_no_longer_does_not_get_it() -> None:
    held: list[str] = []

    async def main(group: Group) -> None:
        lock = Lock()
        async with Replica(group, lock=lock) as replica:
            await asyncio.sleep(0.01 * int(group.me[1:]))
            if group.me == "p2":
                with pytest.raises(TimeoutError):
                    await lock.acquire(timeout=0.1)
            else:
                async with lock:
                    held.append(group.me)
                    await asyncio.sleep(0.3)
            await replica.until(lambda: lock.owner is None and lock.token == 2)

    run(main, members=3)
    assert held == ["p1", "p3"]


def test_a_holding_can_be_kept_without_async_with() -> None:
    async def main(group: Group) -> None:
        lock = Lock()
        async with Replica(group, lock=lock) as replica:
            if group.me == "p1":
                holding = await lock.acquire()
                assert "token 1, held" in repr(holding)
                await holding.release()
                assert "token 1, given up" in repr(holding)
                assert await holding.ended() is None
                await holding.release()
            await replica.until(lambda: lock.token == 1 and lock.owner is None)

    run(main, members=2)


def test_another_cancellation_is_not_taken_for_the_loss_of_the_lock() -> None:
    async def main(group: Group) -> bool:
        lock = Lock()
        async with Replica(group, lock=lock) as replica:

            async def hold() -> None:
                async with lock:
                    await asyncio.sleep(10)

            task = asyncio.create_task(hold())
            await replica.until(lambda: lock.owner == group.me and lock.is_confirmed)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            await replica.until(lambda: lock.owner != group.me)
            return True

    assert all(run(main, members=2).returned.values())


def test_a_fence_refuses_older_tokens() -> None:
    fence = Fence("disk")
    noted: list[dict[str, Any]] = []
    for token in (1, 3, 3):
        fence.admit(token, lambda **detail: noted.append(detail))
    with pytest.raises(StaleToken, match="disk: token 2 is older than 3"):
        fence.admit(2)
    assert [(row["token"], row["number"]) for row in noted] == [(1, 1), (3, 2), (3, 3)]


@pytest.mark.parametrize("protocol", ["sequencer", "newtop"])
def test_a_holder_that_was_paused_does_no_harm_behind_a_fence(protocol: str) -> None:
    """It goes on when another has held the lock: it is told, or, if it writes before it hears of that, the fence refuses it."""
    fence, lines, late = Fence("disk"), list[tuple[int, str]](), list[str]()

    async def main(group: Group) -> None:
        lock = Lock()
        async with Replica(group, lock=lock):
            await asyncio.sleep(0.01 * int(group.me[1:]))
            try:
                async with lock as token:
                    for line in ("begins", "ends"):
                        fence.admit(token)
                        lines.append((token, f"{group.me} {line}"))
                        await asyncio.sleep(0.2)
            except (LockLost, StaleToken) as problem:
                late.append(type(problem).__name__)
            await asyncio.sleep(4)

    paused = {"kind": "pause", "process": "p1", "at": "100ms", "length": "2s"}
    result = sim.run(main, members=3, protocol=protocol, state=True, faults=[paused], raises=False)
    assert result.verdict == "holds"
    assert lines == [(1, "p1 begins"), (2, "p2 begins"), (2, "p2 ends"), (3, "p3 begins"), (3, "p3 ends")]
    assert len(late) == 1


def test_a_quorum_that_there_is_not_is_refused() -> None:
    with pytest.raises(UsageError, match="majority or part"):
        Lock(quorum="most")  # type: ignore[arg-type]


def test_a_lock_that_counts_a_majority_is_refused_where_any_survivor_goes_on() -> None:
    """With one of two members the lock would be lost for good, though the other one goes on."""
    refused: list[str] = []
    held: list[str] = []

    async def main(group: Group) -> None:
        try:
            Replica(group, lock=Lock())
        except UsageError as error:
            refused.append(str(error))
        lock = Lock(quorum="part")
        async with Replica(group, lock=lock):
            await asyncio.sleep(0.5)
            async with lock:
                held.append(group.me)

    faults = [{"kind": "crash", "process": "p1", "at": "300ms"}]
    run(main, members=2, parameters={"partitions": "none"}, faults=faults)
    assert held == ["p2"]
    assert len(refused) == 2
    assert 'choose quorum="part"' in refused[0]
