"""A work queue: jobs in one order, each handed to one worker at a time, each with its effect exactly once.

Theory of operation
-------------------
Any member puts jobs; any member works. Put, done, given back and gone are events in the group's order, and who gets which job follows
from them: after each event every member deals what waits, in the order of the jobs, to the workers with the fewest jobs in hand. So
nobody is asked and nobody decides; all copies of the queue are the same.

**Started more than once, done once.** A worker may crash when it has begun a job. The view without it comes at one place in the order,
and there its jobs go back to the head of the queue and to others. So a job can be *begun* again, and nobody can prevent that: a
crash in the middle looks the same whether the work was done or not. But its *effect*, its result in the queue, is what a command in the
order records, and the order has a first one. Each time a job is dealt it gets the next **attempt** number, and a result counts
only if it is of the attempt that was dealt last and the job has none. What comes later is refused, at every member.

**Effects elsewhere.** What a worker does outside the group (a payment, a row in a database) the group cannot take back. The attempt number
is for that: it grows whenever the job goes to somebody else, so a store that remembers the highest attempt of each job, and refuses
lower ones, is not touched by a worker that was excluded and does not know it yet. That an attempt number means the same at a worker
that crashes as at the others needs ``uniform`` delivery (``resilience`` 1 or more with ``sequencer``).

**Failing.** If the handler raises, or takes longer than its limit, the job goes back and to another worker. After ``attempts`` of them,
crashes included, the job is over with an error for its effect: a job that kills its workers does not kill all of them. A worker whose
program is stuck needs no time-out here: it does not answer its protocol either, and is excluded.

**Bounds.** At most ``capacity`` jobs are not done: ``put`` waits for room, ``try_put`` is refused. The last ``keep`` results are kept, for
whoever asks; a job or a result has at most ``largest`` bytes. Joiners get the whole queue with the state. Jobs stay when their putters go.

**Parts** (``newtop`` without ``partitions = "majority"``) each go on with their own copy, so a job can have an effect in each of them; when they
come together all copies agree on one (that of the first part that has it). Exactly once needs a group that goes on in one part only.
"""

from __future__ import annotations

import asyncio
import dataclasses
from bisect import insort
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, ClassVar, Final, TypeAlias

import msgspec

from ..model import PlainchantError, ProcessId, Reason, UsageError, View
from .replica import Block, Command, CommandRefused, NoOutcome, Part, ReplicaOver, digest_of

CAPACITY: Final = 1_000
KEEP: Final = 1_000
ATTEMPTS: Final = 10
LARGEST: Final = 1 << 20
_PUT: Final = "put"
_WORK: Final = "work"
_REST: Final = "rest"
_DONE: Final = "done"
_BACK: Final = "back"


class QueueFull(CommandRefused):
    """There are as many jobs as the queue has room for, and none was added; ``put`` waits until there is room."""


class JobFailed(PlainchantError):
    """A job is over without a result; ``finished`` has the error of the last attempt."""

    def __init__(self, finished: Finished) -> None:
        super().__init__(
            f"job {finished.job} has failed in {finished.attempt} attempts: {finished.error}; mend it and put it again"
        )
        self.finished = finished


@dataclasses.dataclass(frozen=True, slots=True)
class Task:
    """A job in the hands of a worker. ``attempt`` grows whenever the job goes to somebody: give it to whatever the work changes
    outside the group, which refuses lower ones."""

    job: str
    attempt: int
    payload: Any
    putter: ProcessId


@dataclasses.dataclass(frozen=True, slots=True)
class Finished:
    """A job that is over: whose attempt it was, and its value, or why there is none."""

    job: str
    worker: ProcessId | None
    """None: it was given up when its last worker was gone."""
    attempt: int
    value: Any = None
    error: str | None = None


@dataclasses.dataclass(slots=True)
class _Job:
    """A job that is not over. ``place`` orders jobs, ``worker`` has it now."""

    name: str
    place: int
    putter: ProcessId
    payload: Any
    key: str | None
    attempt: int = 0
    worker: ProcessId | None = None


Handler: TypeAlias = Callable[[Task], Awaitable[Any]]


class WorkQueue(Block):
    """A work queue with a copy at every member: ``await queue.put(payload)`` here, ``await queue.work(handler)`` there.

    All members give the same numbers: ``capacity`` (jobs that are not done), ``keep`` (results that can still be read), ``attempts``
    (after which a job is given up) and ``largest`` (bytes of a job or a result).
    """

    kind: ClassVar[str] = "work queue"

    def __init__(
        self, *, capacity: int = CAPACITY, keep: int = KEEP, attempts: int = ATTEMPTS, largest: int = LARGEST
    ) -> None:
        super().__init__()
        for what, number in (("capacity", capacity), ("keep", keep), ("attempts", attempts), ("largest", largest)):
            if number < 1:
                raise UsageError(f"the {what} of a work queue is {number}; make it 1 or more")
        self.capacity, self.keep, self.attempts, self.largest = capacity, keep, attempts, largest
        self._jobs: dict[str, _Job] = {}
        """Jobs that are not over, by name."""
        self._waiting: list[tuple[int, str]] = []
        """Jobs that nobody has: place and name, in order."""
        self._workers: dict[ProcessId, int] = {}
        """Who works, in the order in which they began, and how many jobs it takes at once."""
        self._results: dict[str, Finished] = {}
        """The last results, the oldest first."""
        self._keys: dict[str, str] = {}
        """The job of each key, as long as the job or its result is here."""
        self._places = 0
        self._finishing: dict[str, list[asyncio.Future[Finished]]] = {}
        """Who waits here for a job to be over."""
        self._dealt = asyncio.Event()
        """Something may have changed for the worker here."""

    # --- what programs call -------------------------------------------------------------------------------------------

    async def put(self, payload: Any, *, key: str | None = None, timeout: float | None = None) -> str:
        """Puts a job, as soon as there is room for it; returns its name when it has its place. ``payload`` is anything that
        MessagePack has.

        With a ``key``, a job of the same key that is still here, or whose result is, is the same job: who does not know whether a
        put got through (``OutcomeUnknown``) puts again under the same key.
        """
        while True:
            try:
                return await self.try_put(payload, key=key, timeout=timeout)
            except QueueFull:
                await self.replica.until(lambda: not self.is_full, timeout=timeout)

    async def try_put(self, payload: Any, *, key: str | None = None, timeout: float | None = None) -> str:
        """The same without waiting for room: :class:`QueueFull`."""
        size = len(msgspec.msgpack.encode(payload))
        if size > self.largest:
            raise UsageError(f"a job of {size} bytes is more than this queue takes ({self.largest}); store it, and put its address")
        name: str = await self.execute([_PUT, payload, key], timeout=timeout)
        return name

    async def result(self, job: str, *, timeout: float | None = None) -> Any:
        """Waits until a job is over, whoever put it, and returns its value. Raises :class:`JobFailed` if it has none."""
        finished = await self.finished(job, timeout=timeout)
        if finished.error is not None:
            raise JobFailed(finished)
        return finished.value

    async def finished(self, job: str, *, timeout: float | None = None) -> Finished:
        """Waits until a job is over, and says how."""
        if job in self._results:
            return self._results[job]
        if job not in self._jobs:
            await self.replica.catch_up()
            if job in self._results:
                return self._results[job]
            if job not in self._jobs:
                raise UsageError(f"there is no job {job!r} here; results are kept for the last {self.keep} jobs")
        future: asyncio.Future[Finished] = asyncio.get_running_loop().create_future()
        self._finishing.setdefault(job, []).append(future)
        try:
            await self.replica.until(future.done, timeout=timeout)
            return future.result()
        finally:
            waiting = self._finishing.get(job, [])
            if future in waiting:
                waiting.remove(future)
                if not waiting:
                    del self._finishing[job]

    async def work(self, handler: Handler, *, at_once: int = 1, limit: float | None = None) -> None:
        """Works until it is cancelled or the replica is over: awaits ``handler(task)`` for each job that is dealt to this process,
        ``at_once`` of them at a time. What the handler returns is the job's result; if it raises, or takes longer than ``limit``
        seconds, the job goes to another. One call at a time."""
        if at_once < 1:
            raise UsageError(f"a worker that takes {at_once} jobs at once does none; make it 1 or more")
        if self.me in self._workers:
            raise UsageError(f"{self.me} works for {self.name} already; use at_once for more than one job at a time")
        await self.execute([_WORK, at_once])
        running: dict[tuple[str, int], asyncio.Task[None]] = {}
        try:
            while self.replica.over is None:
                self._dealt.clear()
                mine = {(job.name, job.attempt): job for job in self._jobs.values() if job.worker == self.me}
                for attempt, task in list(running.items()):
                    if task.done():
                        task.result()  # its own errors are in results; what is raised here is a mistake of this module
                        del running[attempt]
                    elif attempt not in mine:
                        task.cancel()
                for attempt, job in mine.items():
                    if attempt not in running:
                        running[attempt] = asyncio.create_task(self._do(handler, job, limit))
                        running[attempt].add_done_callback(lambda _: self._dealt.set())
                await self._dealt.wait()
        finally:
            for task in running.values():
                task.cancel()
            await asyncio.gather(*running.values(), return_exceptions=True)
            if self.replica.over is None:
                await asyncio.shield(self._finally([_REST]))

    @property
    def is_full(self) -> bool:
        """Whether there is no room for a job now, as far as this member has come."""
        return len(self._jobs) >= self.capacity

    @property
    def unfinished(self) -> int:
        """Jobs that are not over, as far as this member has come."""
        return len(self._jobs)

    @property
    def workers(self) -> dict[ProcessId, list[str]]:
        """Who works, and the jobs that each has in hand."""
        return {worker: [job.name for job in self._jobs.values() if job.worker == worker] for worker in self._workers}

    # --- a job at its worker ------------------------------------------------------------------------------------------

    async def _do(self, handler: Handler, job: _Job, limit: float | None) -> None:
        task = Task(job.name, job.attempt, job.payload, job.putter)
        self.note("start", job=task.job, attempt=task.attempt)
        value, error = None, None
        try:
            async with asyncio.timeout(limit):
                value = await handler(task)
            size = len(msgspec.msgpack.encode(value))
            if size > self.largest:
                error = f"its result has {size} bytes, more than this queue takes ({self.largest})"
        except Exception as problem:
            error = f"{type(problem).__name__}: {problem}"
        if error is None:
            await self._finally([_DONE, task.job, task.attempt, value])
        else:
            await self._finally([_BACK, task.job, task.attempt, error])

    async def _finally(self, body: Any) -> None:
        """Says something that is to be said whatever comes of it."""
        try:
            await self.execute(body)
        except (NoOutcome, ReplicaOver):
            return  # it is sent and will have its place, or this process is out, which the others learn by a view
        except CommandRefused:
            return  # another attempt counts; its row is in the trace

    # --- the state machine --------------------------------------------------------------------------------------------

    def apply(self, command: Command) -> Any:
        word, *rest = command.body
        outcome: Any = None
        if word == _PUT:
            outcome = self._put(command, *rest)
        elif word == _WORK:
            self._workers[command.sender] = rest[0]
            self._tell("work", worker=command.sender, at_once=rest[0])
        elif word == _REST:
            self._retire(command.sender, "rests")
        elif word == _DONE:
            self._complete(command.sender, *rest)
        else:
            self._return(command.sender, *rest)
        self._deal()
        return outcome

    def _put(self, command: Command, payload: Any, key: str | None) -> str:
        if key is not None and key in self._keys:
            return self._keys[key]
        if self.is_full:
            raise QueueFull(f"{self.name} has {len(self._jobs)} jobs that are not done, and room for no more; wait for some to be done")
        self._places += 1
        job = _Job(f"{command.sender}/{command.number}", self._places, command.sender, payload, key)
        self._jobs[job.name] = job
        if key is not None:
            self._keys[key] = job.name
        insort(self._waiting, (job.place, job.name))
        self._tell("put", job=job.name)
        return job.name

    def _complete(self, worker: ProcessId, name: str, attempt: int, value: Any) -> None:
        job = self._counting(worker, name, attempt)
        self._finish(job, Finished(name, worker, attempt, value))

    def _return(self, worker: ProcessId, name: str, attempt: int, error: str) -> None:
        job = self._counting(worker, name, attempt)
        self._give_back(job, error)

    def _counting(self, worker: ProcessId, name: str, attempt: int) -> _Job:
        """The job, if the attempt is the one that counts: the last that was dealt, of a job that is not over."""
        job = self._jobs.get(name)
        if job is None or job.attempt != attempt or job.worker != worker:
            raise CommandRefused(f"attempt {attempt} at job {name} by {worker} does not count any more")
        return job

    def _give_back(self, job: _Job, why: str) -> None:
        """The job is nobody's, and waits in its old place; or it is over, if it was tried often enough."""
        worker, job.worker = job.worker, None
        self._tell("back", job=job.name, attempt=job.attempt, worker=worker, why=why)
        if job.attempt >= self.attempts:
            self._finish(job, Finished(job.name, None, job.attempt, error=why))
        else:
            insort(self._waiting, (job.place, job.name))

    def _retire(self, worker: ProcessId, why: str) -> None:
        """Somebody works no longer; what it had in hand goes back."""
        if self._workers.pop(worker, None) is not None:
            self._tell("rest", worker=worker, why=why)
        for job in [job for job in self._jobs.values() if job.worker == worker]:
            self._give_back(job, f"{worker} {why}")

    def _finish(self, job: _Job, finished: Finished) -> None:
        del self._jobs[job.name]
        self._results[job.name] = finished
        self._tell(
            "effect", job=job.name, attempt=finished.attempt, worker=finished.worker, failed=finished.error is not None,
            value=digest_of([finished.value, finished.error]),
        )
        if job.key is not None and self._keys.get(job.key) != job.name:
            raise AssertionError(f"job {job.name} has lost its key")
        while len(self._results) > self.keep:
            oldest = next(iter(self._results))
            del self._results[oldest]
            self._keys = {key: name for key, name in self._keys.items() if name != oldest}
        for future in self._finishing.pop(job.name, ()):
            if not future.done():
                future.set_result(finished)

    def _deal(self) -> None:
        """What waits goes to workers that have a hand free, those with the fewest jobs first."""
        hands = dict.fromkeys(self._workers, 0)
        for job in self._jobs.values():
            if job.worker is not None:
                hands[job.worker] += 1
        while self._waiting:
            free = [worker for worker, most in self._workers.items() if hands[worker] < most]
            if not free:
                break
            worker = min(free, key=hands.__getitem__)
            job = self._jobs[self._waiting.pop(0)[1]]
            job.worker, job.attempt = worker, job.attempt + 1
            hands[worker] += 1
            self._tell("deal", job=job.name, attempt=job.attempt, worker=worker)
        self._dealt.set()

    def changed(self, view: View) -> None:
        for worker in [worker for worker in self._workers if worker not in view.members]:
            self._retire(worker, "is gone")
        self._deal()

    def _tell(self, event: str, **detail: Any) -> None:
        if self.replica.group.is_traced:
            self.note(event, **detail)

    # --- joiners and parts --------------------------------------------------------------------------------------------

    def snapshot(self) -> Any:
        return {
            "bounds": [self.capacity, self.keep, self.attempts, self.largest],
            "jobs": [[job.name, job.place, job.putter, job.payload, job.key, job.attempt, job.worker] for job in self._jobs.values()],
            "workers": [[worker, most] for worker, most in self._workers.items()],
            "results": [list(dataclasses.astuple(finished)) for finished in self._results.values()],
            "keys": [[key, name] for key, name in self._keys.items()],
            "places": self._places,
        }

    def restore(self, snapshot: Any) -> None:
        bounds = [self.capacity, self.keep, self.attempts, self.largest]
        if snapshot["bounds"] != bounds:
            raise UsageError(
                f"the others have a work queue of (capacity, keep, attempts, largest) {snapshot['bounds']}, and here it is {bounds}; "
                f"give all members the same"
            )
        self._jobs = {fields[0]: _Job(*fields) for fields in snapshot["jobs"]}
        self._waiting = sorted((job.place, job.name) for job in self._jobs.values() if job.worker is None)
        self._workers = {worker: most for worker, most in snapshot["workers"]}
        self._results = {fields[0]: Finished(*fields) for fields in snapshot["results"]}
        self._keys = {key: name for key, name in snapshot["keys"]}
        self._places = snapshot["places"]
        self._dealt.set()

    def merge(self, parts: Sequence[Part], view: View) -> None:
        """What is over in one part is over (where it is in several, as in the first of them); all else is dealt anew, so that an
        attempt number means one worker."""
        raise NotImplementedError

    def ended(self, reason: Reason) -> None:
        self._dealt.set()
