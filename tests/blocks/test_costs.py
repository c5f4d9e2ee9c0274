"""What an operation of each block costs, in messages, as the page says."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from plainchant import Group, sim
from plainchant.blocks import Block, Counter, Dictionary, Election, Lock, Replica

TIMES = 10


async def _lock_and_release(lock: Any) -> None:
    async with lock:
        return


OPERATIONS: list[tuple[type[Block], Callable[[Any], Awaitable[Any]], Callable[[int], int]]] = [
    (Dictionary, lambda book: book.set("k", 1), lambda members: 1),
    (Counter, lambda counter: counter.add(1), lambda members: 1),
    (Lock, _lock_and_release, lambda members: members + 2),
]


def sends(kind: type[Block], operation: Callable[[Any], Awaitable[Any]], members: int, times: int) -> int:
    """Messages of a run in which one member does something so often."""

    async def main(group: Group) -> None:
        block = kind()
        async with Replica(group, block=block) as replica:
            await asyncio.sleep(0.5)
            for _ in range(times if group.me == "p1" else 0):
                await operation(block)
            await replica.ended()

    rows: list[str] = sim.run(main, members=members, state=True, duration="2s", verify=False).trace["kind"].to_pylist()
    return rows.count("send")


@pytest.mark.parametrize("members", [3, 5])
@pytest.mark.parametrize(("kind", "operation", "cost"), OPERATIONS, ids=[kind.__name__ for kind, _, _ in OPERATIONS])
def test_an_operation_costs_so_many_messages(
    kind: type[Block], operation: Callable[[Any], Awaitable[Any]], cost: Callable[[int], int], members: int
) -> None:
    spent = sends(kind, operation, members, TIMES) - sends(kind, operation, members, 0)
    assert spent == TIMES * cost(members)


def test_a_change_of_leader_costs_a_message_of_each_member() -> None:
    async def main(group: Group) -> None:
        election = Election()
        async with Replica(group, election=election) as replica:
            if group.me == "p1":
                await asyncio.sleep(0.5)
                await election.resign()
            await replica.ended()

    rows = sim.run(main, members=5, state=True, duration="2s", verify=False).trace["kind"].to_pylist()
    assert rows.count("send") == 5 + 1 + 5  # the first leader, the resignation, the second leader
