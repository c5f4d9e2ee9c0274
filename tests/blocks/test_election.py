"""Leader election, on virtual time."""

from __future__ import annotations

import asyncio
from typing import Any

from plainchant import Group, sim
from plainchant.blocks import Election, LeadershipLost, Replica

APART = {"kind": "partition", "at": "300ms", "length": "2s", "parts": [["p1", "p2"], ["p3", "p4", "p5"]]}


def run(main: Any, **options: Any) -> sim.Result:
    result = sim.run(main, **{"state": True, **options})
    assert result.verdict == "holds", [violation.sentence for violation in result.violations]
    return result


def test_the_one_that_has_been_there_longest_leads_and_then_the_next() -> None:
    terms: list[tuple[int, str]] = []

    async def main(group: Group) -> tuple[str | None, int]:
        election = Election()
        async with Replica(group, election=election) as replica:

            async def lead() -> None:
                async with await election.lead() as term:
                    terms.append((term, group.me))
                    await replica.ended()

            leading = asyncio.create_task(lead())
            await replica.until(lambda: election.term == 2 and "p1#1" in group.members and election.leader is not None)
            seen = election.leader, election.term
            await asyncio.sleep(1)
            leading.cancel()
            return seen

    crash = [{"kind": "crash", "process": "p1", "at": "300ms"}, {"kind": "restart", "process": "p1", "at": "700ms"}]
    result = run(main, members=3, faults=crash)
    assert terms[:2] == [(1, "p1"), (2, "p2")]
    assert {result.returned[name] for name in ("p2", "p3", "p1#1")} == {("p2", 2)}


def test_who_resigns_is_the_last_candidate() -> None:
    async def main(group: Group) -> Any:
        election, led = Election(), list[int]()
        async with Replica(group, election=election) as replica:
            for _ in range(2 if group.me == "p1" else 1):
                led.append((await election.lead()).token)
                await election.resign()
            await replica.until(lambda: election.term == 5 and election.leader is not None)
            seen = election.leader
            await asyncio.sleep(1)
            return seen, led

    assert run(main, members=3).returned == {"p1": ("p2", [1, 4]), "p2": ("p2", [2]), "p3": ("p2", [3])}


def test_a_part_without_a_majority_has_no_leader_and_its_old_one_learns_it() -> None:
    story: list[Any] = []

    async def main(group: Group) -> Any:
        election = Election()
        async with Replica(group, election=election) as replica:
            if group.me == "p1":
                try:
                    async with await election.lead():
                        await replica.ended()
                except LeadershipLost as lost:
                    story.append((election.leader, lost.reason.code))
            await replica.until(lambda: election.term == 2 and election.leader is not None)
            seen = election.leader
            await asyncio.sleep(5)
            return seen

    assert set(run(main, members=5, protocol="newtop", faults=[APART]).returned.values()) == {"p3"}
    assert story == [(None, "lost")]


def test_each_part_has_a_leader_where_that_is_wanted() -> None:
    async def main(group: Group) -> Any:
        election = Election(quorum="part")
        async with Replica(group, election=election) as replica:
            await asyncio.sleep(1.5)
            apart = election.leader
            await replica.until(lambda: len(group.members) == 5 and election.leader == "p1")
            await asyncio.sleep(1)
            return apart

    returned = run(main, members=5, protocol="newtop", faults=[APART]).returned
    assert returned == {"p1": "p1", "p2": "p1", "p3": "p3", "p4": "p3", "p5": "p3"}
