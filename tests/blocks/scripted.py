"""Runs in which something happens just when it is most awkward: the moment is found in a first run; the second one is the same
up to there."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any, TypeAlias

from plainchant import Group, Message, View, sim
from plainchant.blocks import Command, Counter, Dictionary, Lock, Replica
from plainchant.blocks.office import ACK

Ran: TypeAlias = tuple[sim.Result, set[str]]
PARTS = [["p1", "p2"], ["p3", "p4"]]
ALONE = [["p1", "p2", "p3"], ["p4"]]


def run(parts: list[list[str]], *faults: dict[str, Any]) -> tuple[sim.Result, set[str]]:
    """Every member adds and writes all the time; the run, and who has come to an end with it."""
    finished: set[str] = set()

    async def main(group: Group) -> None:
        lock, counter, book = Lock(), Counter(), Dictionary()
        async with Replica(group, lock=lock, counter=counter, book=book) as replica:
            for number in range(40):
                await counter.add(number)
                await book.set(group.me, number)
                await asyncio.sleep(0.05)
            finished.add(group.me)
            await replica.ended()

    apart = {"kind": "partition", "at": "300ms", "length": "700ms", "parts": parts}
    return sim.run(
        main, members=4, later=["q1"], protocol="newtop", seed=5, state=True, duration="4s", raises=False, faults=[apart, *faults]
    ), finished


def met_at(parts: list[list[str]], process: str) -> int:
    """When a process installs the view in which the parts come together, ns."""
    rows = run(parts)[0].trace.to_pylist()
    views = [row for row in rows if row["kind"] == "view" and row["process"] == process]
    times: list[int] = [row["true_time"] for row in views if len(json.loads(row["detail"] or "{}").get("parts", ())) > 1]
    return times[0]


def speaker_dies() -> list[str]:
    """The one that is to speak for its part dies as soon as it knows of the merge: the next one has to."""
    return violated(run(PARTS, {"kind": "crash", "process": "p3", "at": f"{met_at(PARTS, 'p3') + 1000}ns"}))


def part_dies() -> list[str]:
    """A part of one dies before it has said anything: the others go on without it."""
    return violated(run(ALONE, {"kind": "crash", "process": "p4", "at": f"{met_at(ALONE, 'p4') + 1000}ns"}))


def joiner_comes() -> list[str]:
    """Somebody joins in the very view in which the parts come together."""
    return violated(run(PARTS, {"kind": "join", "process": "q1", "at": f"{met_at(PARTS, 'p1') - 3_000_000}ns"}))


class ByHand(Lock):
    """A lock of one process, which is told everything by hand."""

    def __init__(self, process: str) -> None:
        super().__init__()
        self._process = process

    @property
    def me(self) -> str:
        return self._process

    def tell(self, body: Any) -> None:
        """Nobody hears it."""

    def see(self, number: int, *members: str) -> None:
        self.changed(View("g", number, members))

    def hear(self, *members: str) -> None:
        """Members acknowledge what this one has applied."""
        for member in members:
            self.apply(Command([ACK, self._mark()], member, 1, Message(member, b"", 1, "g")))


def shrinks_twice() -> list[str]:
    """Two members see the group shrink to three and then to two; the third has never heard of that, and is with the others."""
    near, far = ByHand("p1"), ByHand("p3")
    for lock in (near, far):
        lock.see(1, "p1", "p2", "p3", "p4", "p5")
        lock.hear("p1", "p2", "p3", "p4", "p5")
    near.see(2, "p1", "p2", "p3")
    near.see(3, "p1", "p2")
    far.see(2, "p3", "p4", "p5")
    return ["two primary parts"] if near.is_primary and far.is_primary else []


SCRIPTED: dict[str, Callable[[], list[str]]] = {
    "speaker dies": speaker_dies,
    "part dies": part_dies,
    "joiner comes": joiner_comes,
    "shrinks twice": shrinks_twice,
}
"""What is wrong with each."""


def violated(ran: Ran) -> list[str]:
    """What is wrong with a run; ``stuck``: somebody who is there to the end has not come to an end."""
    result, finished = ran
    assert result.verification is not None
    names = [name for name, outcome in result.verification.properties.items() if outcome.violations]
    alive = {name for name, end in result.summary.processes.items() if end.state == "alive"}
    return names if result.summary.quiet and alive <= finished else [*names, "stuck"]
