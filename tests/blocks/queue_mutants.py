"""Mutants of the work queue: a function in place of each rule.

Each is caught by ``jobs-once`` in the sweep, or by what its docstring names.
"""

from __future__ import annotations

from typing import Any, Final

from plainchant.blocks import Finished, WorkQueue
from plainchant.blocks.work_queue import _Job
from plainchant.core.model import View
from plainchant.protocols.variants import Variants

MUTANTS: Final = Variants()
_COUNTING = WorkQueue._counting
_CHANGED = WorkQueue.changed
_GIVE_BACK = WorkQueue._give_back
_DEAL = WorkQueue._deal
_RESTORE = WorkQueue.restore


@MUTANTS.replaces("late counts", WorkQueue, "_counting")
def _late_counts(self: WorkQueue, worker: str, name: str, attempt: int) -> _Job:
    """Takes a result whatever attempt it is of."""
    return self._jobs[name] if name in self._jobs else _COUNTING(self, worker, name, attempt)


@MUTANTS.replaces("every result counts", WorkQueue, "_counting")
def _every_result_counts(self: WorkQueue, worker: str, name: str, attempt: int) -> _Job:
    """Takes every result, also when there is one."""
    return self._jobs.setdefault(name, _Job(name, 0, worker, None, "", None, attempt))


@MUTANTS.replaces("keeps the dead", WorkQueue, "changed")
def _keeps_the_dead(self: WorkQueue, view: View) -> None:
    """Leaves to a worker that is gone what it had."""
    self._members = list(view.members)
    self._deal()


@MUTANTS.replaces("forgets the dead", WorkQueue, "changed")
def _forgets_the_dead(self: WorkQueue, view: View) -> None:
    """Drops what a worker had that is gone."""
    for worker in [worker for worker in self._workers if worker not in view.members]:
        for name in list(self._hands[worker]):
            self._put_down(self._jobs[name])
            del self._jobs[name]
    _CHANGED(self, view)


@MUTANTS.replaces("drops putters", WorkQueue, "changed")
def _drops_putters(self: WorkQueue, view: View) -> None:
    """Drops what a member has put that is gone."""
    for job in [job for job in self._jobs.values() if job.putter not in view.members]:
        self._put_down(job)
        del self._jobs[job.name]
        self._waiting = [waiting for waiting in self._waiting if waiting[1] != job.name]
    _CHANGED(self, view)


@MUTANTS.replaces("one number", WorkQueue, "_give_back")
def _one_number(self: WorkQueue, job: _Job, why: str) -> None:
    """Deals a job again under the same attempt number."""
    _GIVE_BACK(self, job, why)
    job.attempt -= 1


@MUTANTS.replaces("deals twice", WorkQueue, "_deal")
def _deals_twice(self: WorkQueue) -> None:
    """Deals the first job in hand to another worker as well, as soon as one has nothing to do."""
    _DEAL(self)
    idle = next((worker for worker, jobs in self._hands.items() if not jobs), None)
    held = next((job for job in self._jobs.values() if job.worker is not None), None)
    if idle is not None and held is not None and not self._waiting:
        self._put_down(held)
        self._waiting.append((held.place, held.name))
        _DEAL(self)


@MUTANTS.replaces("unsettled", WorkQueue, "_settle")
async def _unsettled(self: WorkQueue) -> None:
    """Begins before it is certain that the others know."""
    return


@MUTANTS.replaces("forgets attempts", WorkQueue, "restore")
def _forgets_attempts(self: WorkQueue, snapshot: Any) -> None:
    """A process that joins does not get the numbers of attempts (``replica-agreement`` sees that too)."""
    _RESTORE(self, snapshot)
    for job in self._jobs.values():
        job.attempt = 0


@MUTANTS.replaces("impatient", WorkQueue, "_give_back")
def _impatient(self: WorkQueue, job: _Job, why: str) -> None:
    """Calls a job done, without any value, when it is given back."""
    self._tell("back", job=job.name, attempt=job.attempt, worker=job.worker, why=why)
    self._finish(job, Finished(job.name, job.worker, job.attempt, None))
