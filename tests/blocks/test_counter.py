"""The replicated counter."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from plainchant import Group, UsageError, View, sim
from plainchant.blocks import Counter, Part, Replica

APART = {"kind": "partition", "at": "300ms", "length": "2s", "parts": [["p1", "p2"], ["p3", "p4", "p5"]]}


def test_every_addition_counts_once_also_apart() -> None:
    async def main(group: Group) -> tuple[int, int]:
        counter = Counter()
        async with Replica(group, counter=counter) as replica:
            for _ in range(5):
                await counter.add(3)
                await counter.add(-1)
                await asyncio.sleep(0.3)
            apart = counter.value
            await replica.until(lambda: counter.value == 50)
            return apart, await counter.read()

    result = sim.run(main, members=5, protocol="newtop", state=True, faults=[APART])
    assert result.verdict == "holds"
    assert {value for _, value in result.returned.values()} == {50}
    assert all(apart < 50 for apart, _ in result.returned.values())
    assert result.verification is not None
    assert result.verification.properties["counter-sum"].cases > 100


def test_parts_that_share_a_beginning_do_not_count_it_twice() -> None:
    counter = Counter()
    view = View("g", 3, ("a", "b"), parts=(("a",), ("b",)))
    parts: list[Any] = [{"a": [5, 9], "b": [1, 1]}, {"a": [3, 4], "b": [6, 8]}]
    counter.merge([Part((name,), state) for name, state in zip("ab", parts, strict=True)], view)
    assert counter.value == 11


@pytest.mark.parametrize("amount", [1.5, True, "3", 2**63])
def test_only_whole_numbers_are_added(amount: Any) -> None:
    with pytest.raises(UsageError, match="whole number"):
        asyncio.run(Counter().add(amount))
