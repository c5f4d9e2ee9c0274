"""State for joiners (1.3): a process that joins gets the state at the change that lets it in, and what came since."""

from __future__ import annotations

import asyncio
import re
from collections import Counter as Counts
from typing import Any

import pytest

from plainchant import Group, sim
from plainchant.blocks import Counter, Dictionary, Election, Fence, Lock, Question, Replica, Requests, Task, WorkQueue
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


@pytest.mark.parametrize(
    ("members", "later", "parameters", "hung"),
    [
        (NODES, ["n1.x", "n3.z"], {}, "n2.a"),
        (NODES, ["n2.y", "n3.z"], {}, "n1.a"),
        (ONE_NODE, ["n1.x", "n1.y"], {"reach": "node"}, "n1.a"),
    ],
    ids=["a relay hangs", "a relay with a distributor hangs", "within a node"],
)
def test_every_block_works_for_joiners(members: list[str], later: list[str], parameters: dict[str, Any], hung: str) -> None:
    """Processes join, one on a new node, while all blocks are in use, and another process hangs meanwhile."""
    done: dict[str, dict[str, Any]] = {}

    async def here(question: Question) -> str:
        return f"{question.payload} at {question.asker}"

    async def main(group: Group) -> None:
        book, lock, leader, counter = Dictionary(), Lock(), Election(), Counter()
        jobs, members_of = WorkQueue(), Requests(here)

        async def work(task: Task) -> str:
            return f"{task.payload} by {group.me}"

        replica = Replica(group, book=book, lock=lock, leader=leader, counter=counter, jobs=jobs, members=members_of)
        async with replica, asyncio.TaskGroup() as tasks:
            began = dict(book)
            working = tasks.create_task(jobs.work(work))
            for number in range(6):
                await book.set(f"{group.me}/{number}", number)
                async with lock:
                    await counter.add(1)
                answered = await members_of.ask("here?", need="all", timeout=5)
                assert set(answered.answers) | set(answered.gone) == set(answered.asked)
                job = await jobs.put(f"{group.me} {number}")
                assert (await jobs.result(job, timeout=5)).startswith(f"{group.me} {number} by ")
                await asyncio.sleep(0.1)
            stay = [name for name in (*members, *later) if name != hung]
            await replica.until(lambda: all(f"{name}/5" in book for name in stay) and leader.leader is not None, timeout=20)
            working.cancel()
            done[group.me] = {"began": began, "counter": await counter.read(), "leader": leader.leader}

    faults: list[dict[str, Any]] = [{"kind": "join", "process": name, "at": "400ms"} for name in later]
    faults.append({"kind": "pause", "process": hung, "at": "550ms", "length": "3s"})
    result = sim.run(
        main, members=members, later=later, protocol="dedos", parameters=parameters, state=True, faults=faults, duration="10s",
        raises=False,
    )  # fmt: skip
    assert result.verification is not None
    assert [violation.sentence for violation in result.verification.violations] == []
    assert sorted(done) == sorted(name for name in (*members, *later) if name != hung), result.summary.processes
    assert all(done[name]["began"] for name in later)
    assert min(each["counter"] for each in done.values()) >= 6 * len(done)
