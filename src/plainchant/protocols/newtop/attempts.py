"""What a process remembers of calls, plans and wishes until a formation comes of them (:mod:`.formation`)."""

from __future__ import annotations

import dataclasses
from typing import Final

from ...core.model import ProcessId
from .packets import Answer, Plan

ENTRY_ROUNDS: Final = 8  # round trips that it takes to come in, where packets are lost: a plan, the end of a formation, the next
ENTRY_LIMIT: Final = 3  # so many times as long as a near process waits, a far one waits more at most


@dataclasses.dataclass(slots=True)
class Attempt:
    """A call of ours."""

    number: int
    started: int
    deadline: int
    called: dict[ProcessId, Answer | None]
    invited: bool = False


@dataclasses.dataclass(frozen=True, slots=True)
class Followed:
    """A call that this part follows, until then; without a caller: its plan has been said, and nobody else's is followed yet."""

    caller: ProcessId
    attempt: int
    until: int

    def is_of(self, caller: ProcessId, attempt: int) -> bool:
        return (self.caller, self.attempt) == (caller, attempt)

    def gives_way_to(self, caller: ProcessId, attempt: int) -> bool:
        """A caller has one call at a time: a later one says that it has given up the one before."""
        return self.caller == caller and self.attempt <= attempt


@dataclasses.dataclass(frozen=True, slots=True)
class Convened:
    """A plan of ours that not all of these leaders may have."""

    plan: Plan
    attempt: int
    leaders: tuple[ProcessId, ...]


@dataclasses.dataclass(slots=True)
class Entry:
    """A group that this process wants to be in: it asks ``contacts``, or has agreed with somebody's proposal."""

    contacts: tuple[ProcessId, ...]
    started: int
    deadline: int
    agreed_with: ProcessId = ""
    attempt: int = 0
    invited: tuple[ProcessId, ...] = ()  # those to whom it was proposed
    distance: int = 0  # time (ns) until a member first answered; 0: none has

    def noted(self, now: int) -> None:
        """A member has answered. Where that takes long it takes so many times as long to come in, but there is a limit."""
        if not self.distance:
            self.distance = max(1, now - self.started)
            self.deadline += min(ENTRY_ROUNDS * self.distance, ENTRY_LIMIT * (self.deadline - self.started))

    def knows(self, process: ProcessId) -> bool:
        """Whether this process can have let us in."""
        return process == self.agreed_with or process in self.contacts or process in self.invited
