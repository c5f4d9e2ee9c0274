"""A work queue: jobs in one order, each handed to one worker at a time, each with its effect exactly once.

Any member puts jobs; any member works. Put, done, given back and gone are events in the group's order, and after each of them
every member deals what waits, in the order of the jobs, to the workers with the fewest jobs in hand. So all copies of the queue
are the same, and no process decides.

**Begun more than once, done once.** A worker may crash when it has begun a job. At the place of the view without it, its jobs go
back to their places in the queue. So a job can be *begun* again, which cannot be prevented: a crash in the middle looks the same
whether the work was done or not. Its *effect*, its result in the queue, is what a command in the order records. Each time a job
is dealt it gets the next **attempt** number, and a result counts only for the last attempt, from the worker that it was dealt
to, if the job has no result. Anything else is refused, at every member.

**Effects elsewhere** (a payment, a row in a database) the group cannot take back. The attempt number is for them: a store that
remembers the highest attempt of each job, and refuses lower ones, is safe from an excluded worker that does not know it yet. A
worker begins only when its attempt is *settled* (:meth:`.Replica.settle`): if it dies then, the others have dealt that number
too, and never deal it again.

**Failing.** If the handler raises, or exceeds its limit, the job goes back, preferably to another worker. After ``attempts`` of
them, crashes included, it is over with an error: a job that kills its workers does not kill all of them. A stuck worker needs no
timeout here: it does not answer its protocol either, and is excluded. A slow one can be relieved of a job (``hand_on``).

**Bounds.** At most ``capacity`` jobs are not done: ``put`` waits for room, ``try_put`` is refused. The last ``keep`` results are
kept; a job or a result has at most ``largest`` bytes. Joiners get the whole queue with the state. Jobs stay when their putters
go.

**Parts** (``newtop`` without ``partitions = "majority"``) each go on with their own copy, so a job can have an effect in each;
when they come together all agree on that of the first part that has it, and what is not done is dealt again. Exactly once needs
a group that goes on in one part only.
"""

from __future__ import annotations

import asyncio
import dataclasses
import math
from bisect import insort
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from operator import attrgetter
from typing import Any, ClassVar, Final, TypeAlias

from ..core.model import PlainchantError, ProcessId, Reason, UsageError, View
from .block import Block, Command, CommandRefused, NoOutcome, Part, ReplicaOver, digest_of, encode, within

CAPACITY: Final = 1_000
KEEP: Final = 1_000
ATTEMPTS: Final = 10
LARGEST: Final = 1 << 20
_PUT, _WORK, _REST, _DONE, _BACK, _HAND_ON = "put", "work", "rest", "done", "back", "hand on"


class QueueFull(CommandRefused):
    """There are as many jobs as the queue has room for, and none was added; ``put`` waits until there is room."""


class JobFailed(PlainchantError):
    """A job is over without a result; ``finished`` has the error of the last attempt."""

    def __init__(self, finished: Finished) -> None:
        told = f"job {finished.job} has failed in {finished.attempt} attempts: {finished.error}"
        super().__init__(f"{told}; mend it and put it again")
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
    worker: ProcessId | None  # none: it was given up when its last worker was gone
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
    mark: str  # a digest of the payload
    key: str | None
    attempt: int = 0
    worker: ProcessId | None = None
    last: ProcessId | None = None  # the worker that had it last; others are preferred
    is_taken_away: bool = False  # whether it was taken from that worker, which gets it again only if no other works


Handler: TypeAlias = Callable[[Task], Awaitable[Any]]
_told = attrgetter("name", "place", "mark", "key", "attempt", "worker", "last", "is_taken_away")


class WorkQueue(Block):
    """A work queue with a copy at every member: ``await queue.put(payload)`` here, ``await queue.work(handler)`` there. All
    members give the same numbers: ``capacity`` (jobs that are not done), ``keep`` (results that can still be read), ``attempts``
    (after which a job is given up) and ``largest`` (bytes of a job or a result)."""

    kind: ClassVar[str] = "work-queue"

    def __init__(self, *, capacity: int = CAPACITY, keep: int = KEEP, attempts: int = ATTEMPTS, largest: int = LARGEST) -> None:
        super().__init__()
        for what, number in (("capacity", capacity), ("keep", keep), ("attempts", attempts), ("largest", largest)):
            if number < 1:
                raise UsageError(f"the {what} of a work queue is {number}; make it 1 or more")
        self.capacity, self.keep, self.attempts, self.largest = capacity, keep, attempts, largest
        self._jobs: dict[str, _Job] = {}  # jobs that are not over, by name
        self._waiting: list[tuple[int, str]] = []  # jobs that no worker has: place and name, in order
        self._workers: dict[ProcessId, int] = {}  # workers in the order in which they began, and how many jobs each takes at once
        self._hands: dict[ProcessId, list[str]] = {}  # the jobs that each worker has, in the order in which it got them
        self._members: list[ProcessId] = []
        self._results: dict[str, Finished] = {}  # the last results, the oldest first
        self._keys: dict[str, str] = {}  # the job of each key, as long as the job or its result is here
        self._places = 0
        self._history = ""  # digest of all results ever, so that a digest of the state need not look at each
        self._finishing: dict[str, list[asyncio.Future[Finished]]] = {}  # what waits here for a job to be over
        self._dealt = asyncio.Event()  # something may have changed for the worker here
        self._turnstile = asyncio.Lock()  # of the putters of this process that wait for room, one tries at a time

    # --- what programs call -------------------------------------------------------------------------------------------
    async def put(self, payload: Any, *, key: str | None = None, timeout: float | None = None) -> str:
        """Puts a job, as soon as there is room; returns its name when it has its place. ``payload`` is anything that MessagePack
        has. With a ``key``, a job of the same key that is still here, or whose result is, is the same job: a program that does
        not know whether a put got through (``OutcomeUnknown``) puts again under the same key."""
        limit = self.replica.patience if timeout is None else timeout
        async with within(limit, lambda: self._no_room(limit)):
            name = await self._put_when_there_is_room(payload, key)
        return name

    def _no_room(self, limit: float) -> Reason:
        text = f"a job got no place in {self.name} in {limit:g} s ({len(self._jobs)} are not done); wait, or let more work"
        return Reason("no room", text)

    async def _put_when_there_is_room(self, payload: Any, key: str | None) -> str:
        try:
            return await self.try_put(payload, key=key, timeout=math.inf)
        except QueueFull:
            async with self._turnstile:  # one of this process tries again, not all at once
                while True:
                    await self.replica.until(lambda: not self.is_full, timeout=math.inf)
                    with suppress(QueueFull):
                        return await self.try_put(payload, key=key, timeout=math.inf)

    async def try_put(self, payload: Any, *, key: str | None = None, timeout: float | None = None) -> str:
        """The same without waiting for room: :class:`QueueFull`."""
        size = len(encode(payload))
        if size > self.largest:
            raise UsageError(f"a job of {size} bytes: {self.name} takes {self.largest}; store it elsewhere, and put its address")
        return str(await self.execute([_PUT, payload, key], timeout=timeout))

    async def result(self, job: str, *, timeout: float | None = None) -> Any:
        """Waits until a job is over, whoever put it, and returns its value. Raises :class:`JobFailed` if it has none."""
        finished = await self.finished(job, timeout=timeout)
        if finished.error is not None:
            raise JobFailed(finished)
        return finished.value

    async def finished(self, job: str, *, timeout: float | None = None) -> Finished:
        """Waits until a job is over, and says how."""
        if job not in self._results and job not in self._jobs:
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
            waiting = [each for each in self._finishing.pop(job, ()) if each is not future]
            if waiting:
                self._finishing[job] = waiting

    async def work(self, handler: Handler, *, at_once: int = 1, limit: float | None = None) -> None:
        """Works until it is cancelled or the replica is over (:class:`ReplicaOver`): awaits ``handler(task)`` for each job that
        is dealt to this process, ``at_once`` of them at a time. What the handler returns is the job's result; if it raises, or
        takes longer than ``limit`` seconds, the job goes to another. One call at a time."""
        if at_once < 1:
            raise UsageError(f"a worker that takes {at_once} jobs at once does none; make it 1 or more")
        if self.me in self._workers:
            raise UsageError(f"{self.me} works for {self.name} already; use at_once for more than one job at a time")
        await self.execute([_WORK, at_once])
        running: dict[tuple[str, int], asyncio.Task[None]] = {}
        try:
            while self.replica.over is None:
                self._dealt.clear()
                self._keep_up(running, handler, limit)
                await self._dealt.wait()
            raise ReplicaOver(self.replica.over)
        finally:
            for task in running.values():
                task.cancel()
            await asyncio.gather(*running.values(), return_exceptions=True)
            if self.replica.over is None:
                await asyncio.shield(self._say([_REST]))

    async def hand_on(self, job: str) -> None:
        """Takes a slow job from its worker and gives it to the next; what the first one still says of it does not count."""
        await self.execute([_HAND_ON, job])

    @property
    def is_full(self) -> bool:
        """Whether there is no room for a job now, as far as this member has come."""
        return len(self._jobs) >= self.capacity

    @property
    def unfinished(self) -> int:
        """Jobs that are not over, as far as this member has come."""
        return len(self._jobs)

    @property
    def workers(self) -> dict[ProcessId, tuple[str, ...]]:
        """Who works, and the jobs that each has in hand, as far as this member has come."""
        return {worker: tuple(jobs) for worker, jobs in self._hands.items()}

    # --- jobs at their worker -----------------------------------------------------------------------------------------
    def _keep_up(self, running: dict[tuple[str, int], asyncio.Task[None]], handler: Handler, limit: float | None) -> None:
        """Begins what was dealt to this process, and ends what is not its own any more."""
        jobs = [self._jobs[name] for name in self._hands.get(self.me, ())]
        mine = {(job.name, job.attempt): job for job in jobs}
        for attempt, doing in list(running.items()):
            if doing.done():
                del running[attempt]
                if not doing.cancelled():
                    doing.result()  # what the handler raises is said to the group; this would be a mistake of ours
            elif attempt not in mine:
                doing.cancel()
        for attempt, job in mine.items():
            if attempt not in running:
                task = Task(job.name, job.attempt, job.payload, job.putter)
                running[attempt] = asyncio.create_task(self._do(handler, task, limit))
                running[attempt].add_done_callback(lambda _: self._dealt.set())

    async def _do(self, handler: Handler, task: Task, limit: float | None) -> None:
        try:
            await self._settle()
        except (NoOutcome, ReplicaOver) as problem:
            await self._say([_BACK, task.job, task.attempt, f"it was not begun: {problem}"], math.inf)
            return
        job = self._jobs.get(task.job)
        if job is None or (job.attempt, job.worker) != (task.attempt, self.me):
            return  # it has gone to somebody else meanwhile
        self._tell("start", job=task.job, attempt=task.attempt)
        value, error = None, None
        try:
            async with asyncio.timeout(limit):
                value = await handler(task)
            size = len(encode(value))
            if size > self.largest:
                error = f"its result has {size} bytes, and the queue takes {self.largest}"
        except Exception as problem:
            error = f"{type(problem).__name__}: {problem}"
        self._tell("stop", job=task.job, attempt=task.attempt, failed=error is not None)
        word, rest = (_DONE, value) if error is None else (_BACK, error)
        await self._say([word, task.job, task.attempt, rest], math.inf)  # until this has its place, nobody else gets the job

    async def _settle(self) -> None:
        """Returns when an attempt that was dealt to this process is one at every member that stays."""
        await self.replica.settle()

    # --- the state machine --------------------------------------------------------------------------------------------
    def apply(self, command: Command) -> Any:
        word, *rest = command.body
        outcome: Any = None
        if word == _PUT:
            outcome = self._put(command, *rest)
        elif word == _WORK:
            self._begin(command.sender, *rest)
        elif word == _REST:
            self._retire(command.sender, "rests")
        elif word == _DONE:
            name, attempt, value = rest
            job = self._counting(command.sender, name, attempt)
            self._finish(job, Finished(name, command.sender, attempt, value))
        elif word == _BACK:
            name, attempt, why = rest
            self._give_back(self._counting(command.sender, name, attempt), why)
        elif word == _HAND_ON and rest[0] in self._jobs and self._jobs[rest[0]].worker is not None:
            self._jobs[rest[0]].is_taken_away = True
            self._give_back(self._jobs[rest[0]], f"{command.sender} hands it on")
        self._deal()
        return outcome

    def _put(self, command: Command, payload: Any, key: str | None) -> str:
        if key is not None and key in self._keys:
            return self._keys[key]
        if self.is_full:
            raise QueueFull(f"{self.name} has {len(self._jobs)} jobs that are not done, and no room for more; wait for some")
        self._places += 1
        job = _Job(f"{command.sender}/{command.number}", self._places, command.sender, payload, digest_of(payload), key)
        self._jobs[job.name] = job
        if key is not None:
            self._keys[key] = job.name
        insort(self._waiting, (job.place, job.name))
        self._tell("put", job=job.name)
        return job.name

    def _begin(self, worker: ProcessId, at_once: int) -> None:
        if worker not in self._members:
            raise CommandRefused(f"{worker} is gone, and cannot work for {self.name}")
        self._workers[worker] = at_once
        self._hands.setdefault(worker, [])
        self._tell("work", worker=worker, at_once=at_once)

    def _counting(self, worker: ProcessId, name: str, attempt: int) -> _Job:
        """The job, if the attempt is the one that counts: the last that was dealt, of a job that is not over."""
        job = self._jobs.get(name)
        if job is None or job.attempt != attempt or job.worker != worker:
            raise CommandRefused(f"attempt {attempt} at job {name} by {worker} does not count any more")
        return job

    def _give_back(self, job: _Job, why: str) -> None:
        """The job is nobody's, and waits in its old place; or it is over, if it was tried often enough."""
        self._put_down(job)
        self._tell("back", job=job.name, attempt=job.attempt, worker=job.last, why=why)
        if job.attempt >= self.attempts:
            self._finish(job, Finished(job.name, None, job.attempt, error=why))
        else:
            insort(self._waiting, (job.place, job.name))

    def _put_down(self, job: _Job) -> None:
        if job.worker is not None:
            self._hands[job.worker].remove(job.name)
            job.worker, job.last = None, job.worker

    def _retire(self, worker: ProcessId, why: str) -> None:
        """Somebody works no longer; what it had in hand goes back."""
        if worker in self._workers:
            for name in list(self._hands[worker]):
                self._give_back(self._jobs[name], f"{worker} {why}")
            del self._workers[worker], self._hands[worker]
            self._tell("rest", worker=worker, why=why)

    def _finish(self, job: _Job, finished: Finished) -> None:
        """The effect: from here on the job has its result, and no other one ever."""
        self._put_down(job)
        del self._jobs[job.name]
        value = digest_of([finished.value, finished.error])
        attempt, worker, failed = finished.attempt, finished.worker, finished.error is not None
        self._tell("effect", job=job.name, attempt=attempt, worker=worker, failed=failed, value=value)
        self._results[job.name] = finished
        self._history = digest_of([self._history, job.name, attempt, worker, value])
        self._forget()
        self._answer(finished)

    def _forget(self) -> None:
        """Results are kept for so many jobs, and their keys with them."""
        forgotten = list(self._results)[: max(0, len(self._results) - self.keep)]
        for name in forgotten:
            del self._results[name]
        if forgotten:
            self._keys = {key: name for key, name in self._keys.items() if name not in forgotten}

    def _answer(self, finished: Finished) -> None:
        for future in self._finishing.pop(finished.job, ()):
            if not future.done():
                future.set_result(finished)

    def _deal(self) -> None:
        """Deals what waits to workers with a hand free: the fewest jobs first, but preferably not to the one that had the job."""
        while (chosen := self._next()) is not None:
            job, worker = chosen
            self._waiting.remove((job.place, job.name))
            job.worker, job.attempt, job.is_taken_away = worker, job.attempt + 1, False
            self._hands[worker].append(job.name)
            self._tell("deal", job=job.name, attempt=job.attempt, worker=worker)
        self._dealt.set()

    def _next(self) -> tuple[_Job, ProcessId] | None:
        """The first job that somebody can have, and who gets it."""
        free = [worker for worker, most in self._workers.items() if len(self._hands[worker]) < most]
        for _, name in self._waiting if free else ():
            job = self._jobs[name]
            others = [worker for worker in free if worker != job.last]
            if others:
                return job, min(others, key=lambda worker: len(self._hands[worker]))
            if not job.is_taken_away or len(self._workers) == 1:
                return job, free[0]
        return None

    def changed(self, view: View) -> None:
        self._members = list(view.members)
        for worker in [worker for worker in self._workers if worker not in view.members]:
            self._retire(worker, "is gone")
        self._deal()

    # --- joiners and parts --------------------------------------------------------------------------------------------
    def snapshot(self) -> Any:
        return {
            "bounds": [self.capacity, self.keep, self.attempts, self.largest],
            "jobs": [list(dataclasses.astuple(job)) for job in self._jobs.values()],
            "workers": [[worker, most, list(self._hands[worker])] for worker, most in self._workers.items()],
            "results": [list(dataclasses.astuple(finished)) for finished in self._results.values()],
            "keys": [[key, name] for key, name in self._keys.items()],
            "members": list(self._members),
            "places": self._places,
            "history": self._history,
        }

    def digest(self) -> str:
        jobs = [list(_told(job)) for job in self._jobs.values()]
        workers = [[worker, most, self._hands[worker]] for worker, most in self._workers.items()]
        return digest_of([jobs, workers, self._members, self._places, len(self._results), len(self._keys), self._history])

    def restore(self, snapshot: Any) -> None:
        bounds = [self.capacity, self.keep, self.attempts, self.largest]
        if snapshot["bounds"] != bounds:
            text = f"the others have a work queue with capacity, keep, attempts and largest {snapshot['bounds']}"
            raise UsageError(f"{text}, and here they are {bounds}; give all members the same")
        self._jobs = {fields[0]: _Job(*fields) for fields in snapshot["jobs"]}
        self._waiting = sorted((job.place, job.name) for job in self._jobs.values() if job.worker is None)
        self._workers = {worker: most for worker, most, _ in snapshot["workers"]}
        self._hands = {worker: list(jobs) for worker, _, jobs in snapshot["workers"]}
        self._results = {fields[0]: Finished(*fields) for fields in snapshot["results"]}
        self._keys = dict(snapshot["keys"])
        self._members = list(snapshot["members"])
        self._places, self._history = snapshot["places"], snapshot["history"]
        self._dealt.set()

    def merge(self, parts: Sequence[Part], view: View) -> None:
        """What is over in one part is over; where it is so in several, the first of them counts. All else is dealt anew, under
        numbers that no part has used: first the jobs of the first part, then what only others have."""
        states = [part.state for part in parts]
        self._results = {}
        jobs: dict[str, _Job] = {}
        for state in states:
            for fields in state["results"]:
                self._results.setdefault(fields[0], Finished(*fields))
            for fields in state["jobs"]:
                job = jobs.setdefault(fields[0], _Job(*fields))
                job.attempt = max(job.attempt, _Job(*fields).attempt)
        self._jobs = {name: job for name, job in jobs.items() if name not in self._results}
        for place, job in enumerate(self._jobs.values(), 1):
            job.place, job.worker = place, None
        self._places = len(self._jobs)
        self._waiting = [(job.place, job.name) for job in self._jobs.values()]
        self._keys = {key: name for state in reversed(states) for key, name in state["keys"]}
        self._members = list(view.members)
        self._workers = {worker: most for state in states for worker, most, _ in state["workers"] if worker in view.members}
        self._hands = {worker: [] for worker in self._workers}
        self._history = digest_of([list(dataclasses.astuple(finished)) for finished in self._results.values()])
        self._tell("anew", jobs=len(self._jobs))
        for finished in list(self._results.values()):
            self._answer(finished)
        self._forget()
        self._deal()

    def farewell(self) -> Any:
        """Who closes its replica works no longer."""
        return [_REST] if self.me in self._workers else None

    def ended(self, reason: Reason) -> None:
        self._dealt.set()
