"""A member of a live group, as a process: it works and answers. ``a`` puts jobs and asks; ``b`` begins and never ends."""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

import plainchant
from plainchant.blocks import Question, Replica, Requests, Task, WorkQueue

JOBS = 8


async def main(task: dict[str, Any]) -> dict[str, Any] | None:
    me = task["me"]

    async def work(job: Task) -> str:
        if me == "b":
            print(json.dumps("begun"), flush=True)
            await asyncio.Event().wait()
        return f"{job.payload} by {me}"

    async def answer(question: Question) -> str:
        if me == "b":
            await asyncio.Event().wait()
        return f"here is {me}"

    async with plainchant.join(
        "shop", me=me, peers=task["peers"], state=True, parameters=task["parameters"], trace=task["trace"]
    ) as group:
        queue, requests = WorkQueue(), Requests(answer)
        async with Replica(group, jobs=queue, members=requests, patience=60.0) as replica:
            working = asyncio.create_task(queue.work(work))
            try:
                if me != "a":
                    await replica.until(lambda: "a" not in (replica.view.members if replica.view else ()))
                    return None
                await replica.until(lambda: len(queue.workers) == 3)  # so that b is dealt one of the first jobs
                asking = asyncio.create_task(requests.ask("who is there?", need="all"))
                jobs = [await queue.put(f"job {number}") for number in range(JOBS)]
                finished = [await queue.finished(job) for job in jobs]
                outcome = await asking
                return {
                    "results": [[one.worker, one.attempt, one.value] for one in finished],
                    "gone": list(outcome.gone),
                    "answers": outcome.answers,
                }
            finally:
                working.cancel()
                await asyncio.gather(working, return_exceptions=True)


if __name__ == "__main__":
    print(json.dumps(asyncio.run(main(json.loads(sys.argv[1])))), flush=True)
