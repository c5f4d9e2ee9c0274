"""Work queues with one rule taken out. Each is caught by ``jobs-once`` in the sweep, or by what the class's docstring names."""

from __future__ import annotations

from typing import Any, Final

from plainchant.blocks import Finished, WorkQueue
from plainchant.blocks.work_queue import _Job
from plainchant.core.model import View


class LateCounts(WorkQueue):
    """Takes a result whatever attempt it is of."""

    def _counting(self, worker: str, name: str, attempt: int) -> _Job:
        return self._jobs[name] if name in self._jobs else super()._counting(worker, name, attempt)


class EveryResultCounts(WorkQueue):
    """Takes every result, also when there is one."""

    def _counting(self, worker: str, name: str, attempt: int) -> _Job:
        return self._jobs.setdefault(name, _Job(name, 0, worker, None, "", None, attempt))


class KeepsTheDead(WorkQueue):
    """Leaves to a worker that is gone what it had."""

    def changed(self, view: View) -> None:
        self._members = list(view.members)
        self._deal()


class ForgetsTheDead(WorkQueue):
    """Drops what a worker had that is gone."""

    def changed(self, view: View) -> None:
        for worker in [worker for worker in self._workers if worker not in view.members]:
            for name in list(self._hands[worker]):
                self._put_down(self._jobs[name])
                del self._jobs[name]
        super().changed(view)


class DropsPutters(WorkQueue):
    """Drops what somebody has put that is gone."""

    def changed(self, view: View) -> None:
        for job in [job for job in self._jobs.values() if job.putter not in view.members]:
            self._put_down(job)
            del self._jobs[job.name]
            self._waiting = [waiting for waiting in self._waiting if waiting[1] != job.name]
        super().changed(view)


class OneNumber(WorkQueue):
    """Deals a job again under the same attempt number."""

    def _give_back(self, job: _Job, why: str) -> None:
        super()._give_back(job, why)
        job.attempt -= 1


class DealsTwice(WorkQueue):
    """Deals the first job in hand to another worker as well, as soon as one has nothing to do."""

    def _deal(self) -> None:
        super()._deal()
        idle = next((worker for worker, jobs in self._hands.items() if not jobs), None)
        held = next((job for job in self._jobs.values() if job.worker is not None), None)
        if idle is not None and held is not None and not self._waiting:
            self._put_down(held)
            self._waiting.append((held.place, held.name))
            super()._deal()


class Unsettled(WorkQueue):
    """Begins before it is certain that the others know."""

    async def _settle(self) -> None:
        return


class ForgetsAttempts(WorkQueue):
    """Who joins does not get the numbers of attempts (``replica-agreement`` sees that too)."""

    def restore(self, snapshot: Any) -> None:
        super().restore(snapshot)
        for job in self._jobs.values():
            job.attempt = 0


class Impatient(WorkQueue):
    """Calls a job done, without any value, when it is given back."""

    def _give_back(self, job: _Job, why: str) -> None:
        self._tell("back", job=job.name, attempt=job.attempt, worker=job.worker, why=why)
        self._finish(job, Finished(job.name, job.worker, job.attempt, None))


MUTANTS: Final[tuple[type[WorkQueue], ...]] = (
    LateCounts,
    EveryResultCounts,
    KeepsTheDead,
    ForgetsTheDead,
    DropsPutters,
    OneNumber,
    DealsTwice,
    Unsettled,
    ForgetsAttempts,
    Impatient,
)
