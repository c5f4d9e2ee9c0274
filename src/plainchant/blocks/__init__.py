"""Building blocks: what programs need of a group, made of a group and nothing else.

A *block* is a small state machine that is the same at every member of a group, because every member applies the same commands in
the same order. ``block`` says how to write one, ``replica`` brings them into a group. The blocks are ``dictionary``, ``lock``,
``election`` (``office`` is what it has in common with the lock), ``counter``, ``work_queue`` (each job with its effect once) and
``requests`` (questions, answered by the members).

Blocks are applications: they import nothing of hosts, protocols or traces, and run unchanged over all of them. Start with
``block``, then read ``counter``.
"""

from typing import TYPE_CHECKING

from ..core.lazily import exports

if TYPE_CHECKING:
    from .block import Block, Command, CommandRefused, NoOutcome, OutcomeUnknown, Part, ReplicaOver
    from .counter import Counter
    from .dictionary import Dictionary
    from .election import Election, LeadershipLost
    from .lock import Fence, Lock, LockLost, StaleToken
    from .office import Holding, OfficeLost
    from .replica import Replica
    from .requests import NotEnoughAnswers, Outcome, Question, Requests, TooManyQuestions
    from .work_queue import Finished, JobFailed, QueueFull, Task, WorkQueue

__all__ = ["Block", "Command", "CommandRefused", "Counter", "Dictionary", "Election", "Fence", "Finished", "Holding", "JobFailed"]
__all__ += ["LeadershipLost", "Lock", "LockLost", "NoOutcome", "NotEnoughAnswers", "OfficeLost", "Outcome", "OutcomeUnknown"]
__all__ += ["Part", "Question", "QueueFull", "Replica", "ReplicaOver", "Requests", "StaleToken", "Task", "TooManyQuestions"]
__all__ += ["WorkQueue"]

_WHERE = {
    "block": ("Block", "Command", "CommandRefused", "NoOutcome", "OutcomeUnknown", "Part", "ReplicaOver"),
    "lock": ("Fence", "Lock", "LockLost", "StaleToken"),
    "election": ("Election", "LeadershipLost"),
    "office": ("Holding", "OfficeLost"),
    "work_queue": ("Finished", "JobFailed", "QueueFull", "Task", "WorkQueue"),
    "requests": ("NotEnoughAnswers", "Outcome", "Question", "Requests", "TooManyQuestions"),
    **{name.lower(): (name,) for name in ("Counter", "Dictionary", "Replica")},
}
__getattr__ = exports(__name__, {name: module for module, names in _WHERE.items() for name in names})
