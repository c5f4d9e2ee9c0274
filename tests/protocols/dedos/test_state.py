"""State for joiners (1.3): a process that joins gets the state at the change that lets it in, and what came since."""

from __future__ import annotations

import asyncio
import re
from collections import Counter as Counts
from typing import Any

import pytest

from plainchant import Group, sim
from plainchant.blocks import Dictionary, Fence, Replica
from tests.blocks.sweep import Member

NODES = ["n1.a", "n1.b", "n2.a", "n2.b"]
ONE_NODE = ["n1.a", "n1.b", "n1.c"]


@pytest.mark.parametrize(
    ("members", "later", "parameters"),
    [
        (NODES, ["n1.x", "n2.y", "n3.z"], {}),
        (ONE_NODE, ["n1.x", "n1.y"], {"reach": "node"}),
    ],
    ids=["between nodes", "within a node"],
)
def test_joiners_get_the_state_and_what_came_since(members: list[str], later: list[str], parameters: dict[str, Any]) -> None:
    """All joiners come at once, while the others write: each has every entry in the end, though it has read only some."""

    books: dict[str, dict[str, Any]] = {}

    async def main(group: Group) -> None:
        book = Dictionary()
        async with Replica(group, book=book) as replica:
            if group.me in later:
                assert book, f"{group.me} begins with nothing"
            for number in range(20):
                await book.set(f"{group.me}/{number}", number)
                await asyncio.sleep(0.05)
            await replica.until(lambda: len(book) == 20 * (len(members) + len(later)), timeout=20)
            books[group.me] = dict(book)
            await replica.ended()

    faults = [{"kind": "join", "process": name, "at": "500ms"} for name in later]
    sim.run(main, members=members, later=later, protocol="dedos", parameters=parameters, state=True, faults=faults, duration="8s")
    assert sorted(books) == sorted((*members, *later))
    assert all(book == books[members[0]] for book in books.values())


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("within", [False, True], ids=["between nodes", "within a node"])
def test_blocks_keep_their_promises_while_processes_crash_hang_and_join(seed: int, within: bool) -> None:
    disk, seen = Fence("disk"), Counts[str]()

    async def main(group: Group) -> None:
        await Member(group, seed, disk, seen).main()

    members = [*ONE_NODE, "n1.d"] if within else NODES
    faults = [
        {"kind": "crash", "process": members[seed % 4], "at": f"{100 + 70 * seed}ms"},
        {"kind": "restart", "process": members[seed % 4], "at": f"{1200 + 70 * seed}ms"},
        {"kind": "pause", "process": members[(seed + 1) % 4], "at": "600ms", "length": "1500ms"},
        {"kind": "join", "process": "n1.x", "at": f"{300 + 150 * seed}ms"},
    ]
    result = sim.run(
        main, members=members, later=["n1.x"], protocol="dedos", parameters={"reach": "node"} if within else {}, state=True,
        duration="4s", raises=False, seed=seed, faults=faults,
    )  # fmt: skip
    assert result.verification is not None
    assert [name for name, outcome in result.verification.properties.items() if outcome.violations] == []
    assert result.summary.quiet
    halted = {name: end.reason for name, end in result.summary.processes.items() if end.state == "halted"}
    for name, reason in halted.items():
        lost_donor = name == "n1.x" and re.search("cannot get the state.*is gone in view", reason)
        assert lost_donor or re.search("silent for too long", reason), (name, reason)
