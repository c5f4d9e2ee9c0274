"""The work queue: one order, each job with its effect once, whoever crashes, fails or is slow; and queues that are wrong."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

import plainchant
from plainchant import UsageError
from plainchant.blocks import JobFailed, NoOutcome, QueueFull, Replica, ReplicaOver, Task, WorkQueue
from plainchant.core.names import is_place
from plainchant.sim import Result

from . import queue_runs
from .queue_mutants import MUTANTS

SEEDS = 12
SITUATIONS = (
    "begun again",
    "waited for room",
    "put again",
    "halted",
    "a joiner works",
    "refused",
    "refused by the store",
    "back: gone",
    "back: other",
)
"""What has to occur somewhere in the sweep."""
Program = Callable[[Replica, WorkQueue], Awaitable[Any]]


def together(program: Program, members: int = 3, *, work: bool = True, **settings: Any) -> Result:
    """Runs a program at p1; the others only work, if they do, by doubling what they get."""
    made = {name: settings.pop(name) for name in ("capacity", "keep", "attempts", "largest") if name in settings}

    async def double(task: Task) -> Any:
        await asyncio.sleep(0.01)
        return task.payload * 2

    async def main(group: plainchant.Group) -> Any:
        queue = WorkQueue(**made)
        async with Replica(group, jobs=queue) as replica, asyncio.TaskGroup() as tasks:
            if group.me != "p1":
                working = tasks.create_task(queue.work(double)) if work else None
                await replica.until(lambda: "p1" not in (replica.view.members if replica.view else ()))
                if working is not None:
                    working.cancel()
                return None
            return await program(replica, queue)

    return plainchant.sim.run(main, members=members, state=True, **settings)


def value(result: Result) -> Any:
    assert result.verdict == "holds", result.violations
    return result.returned["p1"]


# --- what a queue does ------------------------------------------------------------------------------------------------


def test_jobs_are_done_by_others_and_whoever_put_them_gets_the_results() -> None:
    async def program(replica: Replica, queue: WorkQueue) -> list[int]:
        jobs = [await queue.put(number) for number in range(5)]
        return [await queue.result(job) for job in jobs]

    assert value(together(program)) == [0, 2, 4, 6, 8]


def test_jobs_are_handed_out_in_the_order_in_which_they_were_put() -> None:
    async def program(replica: Replica, queue: WorkQueue) -> list[int]:
        begun: list[int] = []

        async def note(task: Task) -> None:
            begun.append(task.payload)
            if task.payload == 1 and task.attempt == 1:
                raise ValueError("not yet")

        jobs = [await queue.put(number) for number in range(4)]
        async with asyncio.TaskGroup() as tasks:
            working = tasks.create_task(queue.work(note))
            for job in jobs:
                await queue.result(job)
            working.cancel()
        return begun

    assert value(together(program, work=False)) == [0, 1, 1, 2, 3]


def test_a_full_queue_lets_putters_wait_and_refuses_who_does_not_want_to() -> None:
    async def program(replica: Replica, queue: WorkQueue) -> list[int]:
        for number in range(2):
            await queue.put(number)
        with pytest.raises(QueueFull, match="jobs has 2 jobs that are not done"):
            await queue.try_put(2)
        with pytest.raises(NoOutcome, match="wait, or let more work"):
            await queue.put(2, timeout=0.5)
        assert queue.is_full
        assert queue.unfinished == 2
        done: list[int] = []

        async def work(task: Task) -> None:
            await asyncio.sleep(0.01)
            done.append(task.payload)

        async with asyncio.TaskGroup() as tasks:
            putting = [tasks.create_task(queue.put(number)) for number in range(2, 8)]
            working = tasks.create_task(queue.work(work))
            for job in await asyncio.gather(*putting):
                await queue.result(job)
            working.cancel()
        return sorted(done)

    assert value(together(program, work=False, capacity=2)) == list(range(8))


def test_a_job_of_a_known_key_is_the_same_job() -> None:
    async def program(replica: Replica, queue: WorkQueue) -> Any:
        first = await queue.put(1, key="order 17")
        assert await queue.put(1, key="order 17") == first
        assert await queue.result(first) == 2
        assert await queue.put(1, key="order 17") == first
        for number in range(3):  # now the first result is forgotten, and its key
            await queue.result(await queue.put(number))
        with pytest.raises(UsageError, match=f"there is no job '{first}' here"):
            await queue.result(first)
        return await queue.put(1, key="order 17") != first

    assert value(together(program, keep=2))


def test_a_job_that_fails_goes_to_another_and_is_given_up_in_the_end() -> None:
    async def program(replica: Replica, queue: WorkQueue) -> Any:
        tried: list[int] = []

        async def fail(task: Task) -> bytes:
            tried.append(task.attempt)
            if task.payload == "slow":
                await asyncio.sleep(100)
            return b"x" * (10 if task.payload == "long" else 0)

        async with asyncio.TaskGroup() as tasks:
            working = tasks.create_task(queue.work(fail, limit=0.05))
            told = []
            for payload in ("slow", "long"):
                with pytest.raises(JobFailed) as failed:
                    await queue.result(await queue.put(payload))
                told.append(str(failed.value))
            working.cancel()
        return tried, told

    tried, told = value(together(program, work=False, attempts=3, largest=8))
    assert tried == [1, 2, 3, 1, 2, 3]
    assert "has failed in 3 attempts: TimeoutError" in told[0]
    assert "its result has 12 bytes" in told[1]


def test_a_job_that_takes_too_long_can_be_handed_on() -> None:
    async def program(replica: Replica, queue: WorkQueue) -> Any:
        async def sleep(task: Task) -> str:
            await asyncio.sleep(100)
            return "too late"

        async with asyncio.TaskGroup() as tasks:
            working = tasks.create_task(queue.work(sleep))
            await replica.until(lambda: len(queue.workers) == 3)
            jobs = [await queue.put(number) for number in range(3)]
            await replica.until(lambda: bool(queue.workers["p1"]))
            mine = queue.workers["p1"][0]
            await queue.hand_on(mine)
            finished = await queue.finished(mine)
            assert mine in jobs
            working.cancel()
        return finished.worker in ("p2", "p3"), finished.attempt

    assert value(together(program)) == (True, 2)


def test_what_makes_no_sense_is_refused() -> None:
    with pytest.raises(UsageError, match="the attempts of a work queue is 0"):
        WorkQueue(attempts=0)

    async def program(replica: Replica, queue: WorkQueue) -> Any:
        async def nothing(task: Task) -> None: ...

        with pytest.raises(UsageError, match="a job of 12 bytes: jobs takes 8"):
            await queue.put(b"0123456789")
        with pytest.raises(UsageError, match="takes 0 jobs at once"):
            await queue.work(nothing, at_once=0)
        async with asyncio.TaskGroup() as tasks:
            working = tasks.create_task(queue.work(nothing))
            await replica.until(lambda: "p1" in queue.workers)
            with pytest.raises(UsageError, match="p1 works for jobs already"):
                await queue.work(nothing)
            working.cancel()
        await replica.until(lambda: "p1" not in queue.workers)
        return True

    assert value(together(program, work=False, largest=8))


def test_who_joins_with_other_bounds_is_told() -> None:
    async def main(group: plainchant.Group) -> Any:
        async with Replica(group, jobs=WorkQueue(capacity=6 if is_place(group.me) else 5)) as replica:
            await replica.ended()

    faults = [{"kind": "crash", "process": "p3", "at": "10ms"}, {"kind": "restart", "process": "p3", "at": "50ms"}]
    with pytest.raises(plainchant.PlainchantError, match="give all members the same"):
        plainchant.sim.run(main, members=3, state=True, faults=faults, duration="1s")


def test_a_worker_whose_replica_is_over_is_told() -> None:
    async def main(group: plainchant.Group) -> str:
        async def nothing(task: Task) -> None: ...

        queue = WorkQueue()
        async with Replica(group, jobs=queue):
            try:
                await queue.work(nothing)
            except ReplicaOver as over:
                return over.reason.code
            return ""

    cut = {"kind": "partition", "at": "50ms", "length": "3s", "parts": [["p1", "p2"], ["p3"]]}
    result = plainchant.sim.run(main, members=3, state=True, faults=[cut], duration="3s", raises=False)
    assert result.outcomes["p3"].value or result.outcomes["p3"].state == "halted"


def test_who_closes_its_replica_leaves_its_jobs_to_others_though_it_stays_in_the_group() -> None:
    async def main(group: plainchant.Group) -> Any:
        async def work(task: Task) -> str:
            await asyncio.sleep(0.2)
            return group.me

        queue = WorkQueue()
        async with Replica(group, jobs=queue) as replica:
            working = asyncio.create_task(queue.work(work))
            if group.me == "p1":
                await replica.until(lambda: len(queue.workers) == 3)
                finished = [await queue.finished(job) for job in [await queue.put(number) for number in range(3)]]
                working.cancel()
                return {one.worker for one in finished}, max(one.attempt for one in finished)
            await replica.until(lambda: bool(queue.workers.get(group.me)))
            if group.me == "p3":
                await replica.until(lambda: "p1" not in (replica.view.members if replica.view else ()))
        await asyncio.gather(working, return_exceptions=True)  # p2 has closed its replica with a job in hand
        await asyncio.sleep(2)
        return None

    assert value(plainchant.sim.run(main, members=3, state=True)) == ({"p1", "p3"}, 2)


def test_parts_that_come_together_agree_on_one_queue() -> None:
    """Each part does the jobs: that is an effect in each, as ``jobs-once`` says; but there is one queue again."""
    queues: dict[str, WorkQueue] = {}

    async def main(group: plainchant.Group) -> None:
        async def work(task: Task) -> str:
            await asyncio.sleep(0.05)
            return group.me

        queue = queues[group.me] = WorkQueue()
        async with Replica(group, jobs=queue) as replica, asyncio.TaskGroup() as tasks:
            await asyncio.sleep(0.2)
            await queue.put(f"before {group.me}", key=group.me)
            await asyncio.sleep(0.4)
            await queue.put(f"apart {group.me}")
            tasks.create_task(queue.work(work))
            await replica.ended()

    parts = {"kind": "partition", "at": "300ms", "length": "900ms", "parts": [["p1", "p2"], ["p3", "p4", "p5"]]}
    result = plainchant.sim.run(main, members=5, protocol="newtop", state=True, faults=[parts], duration="2s")
    assert {violation.property for violation in result.violations} == {"jobs-once"}
    assert any("has two effects" in violation.sentence for violation in result.violations)
    assert len({queue.digest() for queue in queues.values()}) == 1
    assert len(queues["p1"]._results) == 10
    assert queues["p1"].unfinished == 0

    only_one = plainchant.sim.run(
        main,
        members=5,
        protocol="newtop",
        parameters={"partitions": "majority"},
        state=True,
        faults=[parts],
        duration="2s",
        raises=False,
    )
    assert only_one.verdict == "holds"
    assert only_one.verification.properties["jobs-once"].cases > 0  # type: ignore[union-attr]


# --- under faults -----------------------------------------------------------------------------------------------------


@pytest.mark.sweep
def test_every_job_has_its_effect_once_whatever_goes_wrong(times: int) -> None:
    occurred: Counter[str] = Counter()
    for seed in range(times * SEEDS):
        ran = queue_runs.run(seed)
        assert ran.violated == [], f"tests.blocks.queue_runs.run({seed})"
        assert ran.result.summary.quiet
        for job, finished in ran.finished.items():
            assert finished.error is None
            assert ran.store.rows[job][0] == finished.attempt, f"seed {seed}: the store has another attempt at {job}"
        assert all(told.startswith(f"{payload} by ") for payload, told in ran.answers)
        payloads = Counter(finished.value.partition(" by ")[0] for finished in ran.finished.values())
        assert set(payloads.values()) == {1}, f"seed {seed}: {payloads}"
        occurred += ran.situations
    missing = [situation for situation in SITUATIONS if not occurred[situation]]
    assert not missing, f"the sweep never came to: {', '.join(missing)}; it came to {dict(occurred)}"


@pytest.mark.parametrize(
    ("protocol", "parameters"),
    [
        ("sequencer", {"resilience": 1}),
        ("newtop", {"partitions": "majority"}),
        ("rtcast", {}),
        ("mailbox", {}),
        ("dedos", {"reach": "node"}),
    ],
)
def test_it_runs_over_every_order(protocol: str, parameters: dict[str, Any]) -> None:
    faults = [{"kind": "crash", "process": "p2", "at": "60ms"}]
    ran = queue_runs.run(1, protocol=protocol, parameters=parameters, faults=faults, network={})
    assert ran.violated == []
    assert len(ran.finished) >= 24
    assert ran.situations["back: gone"] > 0


@pytest.mark.parametrize("mutant", MUTANTS)
def test_a_queue_without_one_of_its_rules_is_caught(mutant: str) -> None:
    """Only ``unsettled`` takes more than two seeds: it needs a member that is partitioned with what no other has."""
    with MUTANTS[mutant].applied(must_act=True):
        for seed in (13, 0, *range(1, 24)):
            if any(sentence.startswith("jobs-once") for sentence in queue_runs.run(seed).violated):
                return
    raise AssertionError(f"{mutant} was not caught")
