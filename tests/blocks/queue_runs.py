"""Runs of a work queue under faults: workers crash, are excluded, fail and are slow; putters come back and put again."""

from __future__ import annotations

import asyncio
import dataclasses
import json
from collections import Counter
from random import Random
from typing import Any

import plainchant
from plainchant.blocks import Finished, Replica, ReplicaOver, Task, WorkQueue
from plainchant.core.names import is_place, place_of
from plainchant.sim import Result

JOBS = 6
"""That each member puts."""
DURATION = "900ms"


class Store:
    """Something outside the group: it keeps one row for each job, and refuses who comes with a lower attempt than it knows."""

    def __init__(self) -> None:
        self.rows: dict[str, tuple[int, str]] = {}
        self.refused = 0

    def write(self, task: Task, worker: str) -> bool:
        if task.attempt < self.rows.get(task.job, (0, ""))[0]:
            self.refused += 1
            return False
        self.rows[task.job] = task.attempt, worker
        return True


@dataclasses.dataclass
class Ran:
    result: Result
    queues: dict[str, WorkQueue]
    store: Store
    answers: list[tuple[str, Any]]
    """What putters were told: the payload of a job, and its result."""
    situations: Counter[str]

    @property
    def finished(self) -> dict[str, Finished]:
        """What a survivor says of every job."""
        alive = [name for name, end in self.result.summary.processes.items() if end.state == "alive"]
        return dict(self.queues[alive[0]]._results) if alive else {}

    @property
    def violated(self) -> list[str]:
        raised = [outcome.traceback for outcome in self.result.outcomes.values() if outcome.state == "raised"]
        return [*(f"{violation.property}: {violation.sentence}" for violation in self.result.violations), *raised]


def faults_of(seed: int) -> list[dict[str, Any]]:
    """A crash (of p1, which is the sequencer, in the middle of a broadcast, or it is cut off) with a restart, and two pauses, of
    which one is long enough to be excluded in every other run."""
    chance = Random(f"faults {seed}")
    victims = ["p1" if seed % 3 == 0 else "p2", *chance.sample(["p3", "p4", "p5"], 2)]
    crash, back, pause = (chance.randrange(20, 80) for _ in range(3))
    if seed % 4 == 1:
        others = ["p2", "p3", "p4", "p5"]
        return [{"kind": "partition", "at": f"{crash}ms", "length": "500ms", "parts": [["p1"], others]}]
    return [
        {"kind": "crash", "process": victims[0], "at": f"{crash}ms", "mid_broadcast": victims[0] == "p1"},
        {"kind": "restart", "process": victims[0], "at": f"{crash + 40 + back}ms"},
        {"kind": "pause", "process": victims[1], "at": f"{pause}ms", "length": "60ms"},
        {"kind": "pause", "process": victims[2], "at": f"{pause + 150}ms", "length": "400ms" if seed % 2 else "50ms"},
    ]


def run(seed: int, **settings: Any) -> Ran:
    """One run of five members that put and work."""
    queues: dict[str, WorkQueue] = {}
    store, situations = Store(), Counter[str]()
    writings: set[asyncio.Task[None]] = set()
    answers: list[tuple[str, Any]] = []

    async def main(group: plainchant.Group) -> None:
        chance = Random(f"{seed} {group.me}")
        jobs = queues[group.me] = WorkQueue(capacity=12)

        async def handle(task: Task) -> str:
            situations["begun again"] += task.attempt > 1
            await asyncio.sleep(chance.uniform(0.001, 0.04))
            if chance.random() < 0.15:
                raise ValueError("out of paper")
            # Whoever writes does not hear that the job has gone to another: a thread, another machine.
            writing = asyncio.create_task(write(task, chance.choice((0.0, 0.01, 0.12))))
            writings.add(writing)
            await asyncio.shield(writing)
            return f"{task.payload} by {group.me}"

        async def write(task: Task, after: float) -> None:
            await asyncio.sleep(after)
            store.write(task, group.me)

        async def put() -> None:
            place = place_of(group.me)
            for number in range(JOBS):
                await asyncio.sleep(chance.uniform(0.001, 0.05))
                name = await jobs.put(f"{place}/{number}", key=f"{place}/{number}")
                situations["waited for room"] += jobs.is_full
                situations["put again"] += name.partition("/")[0] != group.me
                if number % 2:
                    await asyncio.sleep(chance.uniform(0.0, 0.08))
                    await jobs.hand_on(name)
                if number % 3 == 2:
                    answers.append((f"{place}/{number}", await jobs.result(name)))

        try:
            async with Replica(group, jobs=jobs, patience=20.0) as replica, asyncio.TaskGroup() as tasks:
                tasks.create_task(jobs.work(handle, at_once=1))
                tasks.create_task(put())
                await replica.ended()
        except* ReplicaOver:
            situations["halted"] += 1

    result = plainchant.sim.run(
        main,
        members=5,
        seed=seed,
        state=True,
        duration=DURATION,
        raises=False,
        **{"network": {"loss": 0.03, "delay": {"uniform": ["500us", "4ms"]}}, "faults": faults_of(seed), **settings},
    )
    ran = Ran(result, queues, store, answers, situations)
    _look(ran)
    return ran


def _look(ran: Ran) -> None:
    """What has happened in the run."""
    for row in ran.result.trace.select(["kind", "process", "detail"]).to_pylist():
        if row["kind"] == "note":
            detail = json.loads(row["detail"])
            if detail["event"] == "apply" and detail.get("refused"):
                ran.situations["refused"] += 1  # a full queue, or a result that comes late
            elif detail["event"] == "start" and not is_place(row["process"]):
                ran.situations["a joiner works"] += 1
            elif detail["event"] == "back":
                ran.situations["back: " + ("gone" if "is gone" in detail["why"] else "other")] += 1
    ran.situations["refused by the store"] += ran.store.refused
