"""Programs with building blocks under faults: each seed is a run with crashes, restarts, joins and partitions, and every run is
verified.

All members of a run have a lock (which protects a disk with a fence), an election, a counter and a dictionary, and do things with
them at random moments. :func:`run` runs a seed; the same seed is the same run.
"""

from __future__ import annotations

import asyncio
import dataclasses
import functools
import json
from collections import Counter as Counts
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from plainchant import Group, sim
from plainchant.blocks import Counter, Dictionary, Election, Fence, Lock, LockLost, Replica, StaleToken
from plainchant.blocks.dictionary import POLICIES

SEEDS = 18
"""In the sweep of ``make test``."""
ROUNDS = 5
PROTOCOLS = ("sequencer", "sequencer", "newtop", "newtop", "newtop", "newtop", "rtcast", "mailbox")
NOT_OF_JOINERS = "bounded"
"""Of ``mailbox``: what comes while a joiner waits for its state is delivered when the state is there, whatever the bound."""


@dataclasses.dataclass(frozen=True)
class Outcome:
    """What a run came to: what is wrong with it, and how often everything happened."""

    seed: int
    violated: list[str]
    situations: Counts[str]
    result: sim.Result


def scenario_of(seed: int) -> dict[str, Any]:
    """What is asked of the simulator."""
    random = Random(seed)
    protocol = random.choice(PROTOCOLS)
    names = [f"p{number}" for number in range(1, random.choice((3, 4, 5, 5)) + 1)]
    told: dict[str, Any] = {"members": names, "protocol": protocol, "seed": seed}
    faults: list[dict[str, Any]] = []
    if random.random() < 0.7:
        faults += _crash(random, names, mid_broadcast=protocol in ("sequencer", "newtop") and random.random() < 0.6)
    if random.random() < 0.4:
        told["later"] = ["q1"]
        faults.append({"kind": "join", "process": "q1", "at": _ms(random, 200, 1500)})
    if protocol in ("sequencer", "newtop"):
        told["network"] = {"loss": random.choice((0.0, 0.02, 0.1))}
        if random.random() < 0.75:
            faults.append(_partition(random, names, 100, 700))
            if random.random() < 0.3:
                faults.append(_partition(random, names, 1900, 2300))
        elif protocol == "sequencer":
            told["parameters"] = {"resilience": 1}
    return {**told, "faults": faults}


def _crash(random: Random, names: list[str], *, mid_broadcast: bool) -> list[dict[str, Any]]:
    who, at = random.choice(names), random.randint(50, 600)
    crash = {"kind": "crash", "process": who, "at": f"{at}ms", "mid_broadcast": mid_broadcast}
    if random.random() < 0.3:
        return [crash]
    return [crash, {"kind": "restart", "process": who, "at": f"{at + random.randint(600, 1200)}ms"}]


def _partition(random: Random, names: list[str], low: int, high: int) -> dict[str, Any]:
    order = random.sample(names, len(names))
    cut = random.randint(1, len(names) - 1)
    parts = [order[:cut], order[cut:]]
    return {"kind": "partition", "at": _ms(random, low, high), "length": _ms(random, 300, 1500), "parts": parts}


def _ms(random: Random, low: int, high: int) -> str:
    return f"{random.randint(low, high)}ms"


class Member:
    """What each member does."""

    def __init__(self, group: Group, seed: int, disk: Fence, seen: Counts[str]) -> None:
        self._random = Random(f"{seed}/{group.me}")
        self._group = group
        self._disk = disk
        self._seen = seen
        shared = Random(seed)
        quorum: Any = shared.choice(("majority", "majority", "majority", "part"))
        self.lock = Lock(quorum=quorum)
        self.election = Election(quorum=quorum)
        self.counter = Counter()
        self.book = Dictionary(merge=shared.choice((*POLICIES, POLICIES[0], _all_of_them)))

    async def main(self) -> None:
        random = self._random
        async with Replica(self._group, door=self.lock, chief=self.election, sum=self.counter, book=self.book) as replica:
            for number in range(ROUNDS):
                await self._write(long=number < 2 and random.random() < 0.5)
                await self.counter.add(random.randint(-5, 10))
                await self.book.set(f"k{random.randint(0, 5)}", f"{self._group.me}/{number}")
                if random.random() < 0.3:
                    await self.book.delete(f"k{random.randint(0, 5)}")
                if random.random() < 0.2:
                    await self.election.resign()
                await asyncio.sleep(random.uniform(0, 0.4))
            await replica.ended()

    async def _write(self, *, long: bool) -> None:
        """Something with the disk, under the lock; and long after it has lost the lock, as programs do that have not noticed."""
        token = 0
        try:
            async with self.lock as token:
                self._to_disk(token)
                await asyncio.sleep(self._random.uniform(0, 1.5 if long else 0.1))
        except LockLost:
            await asyncio.sleep(0.5)
            self._to_disk(token)

    def _to_disk(self, token: int) -> None:
        try:
            self._disk.admit(token, functools.partial(self.lock.note, "admit"))
        except StaleToken:
            self._seen["refused by the fence"] += 1


def _all_of_them(parts: Any) -> dict[str, Any]:
    """A merge policy of the program's own: of each key the largest value."""
    keys = sorted({key for part in parts for key in part})
    return {key: max(part[key] for part in parts if key in part) for key in keys}


def run(seed: int) -> Outcome:
    """Runs and verifies a seed."""
    disk, seen = Fence("disk"), Counts[str]()

    async def main(group: Group) -> None:
        await Member(group, seed, disk, seen).main()

    result = sim.run(main, state=True, duration="4s", raises=False, **scenario_of(seed))
    assert result.verification is not None
    violated = [name for name, outcome in result.verification.properties.items() if outcome.violations]
    if scenario_of(seed)["protocol"] == "mailbox" and NOT_OF_JOINERS in violated:
        violated.remove(NOT_OF_JOINERS)
    if not result.summary.quiet:
        violated.append("quiet")
    violated += [f"{name} {end.state}" for name, end in result.outcomes.items() if end.state in ("raised", "unfinished")]
    return Outcome(seed, violated, seen + _situations(result.trace), result)


def _situations(table: pa.Table) -> Counts[str]:
    """What happened to blocks, by event."""
    details = table.filter(pc.equal(table["kind"], "note"))["detail"].to_pylist()
    notes = [json.loads(text) for text in details]
    return Counts(f"{note['note']}: {note['event']}" for note in notes)
