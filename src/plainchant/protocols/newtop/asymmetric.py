"""Asymmetric groups (9.2): one member numbers everything, so that the others may be silent.

Theory of operation
-------------------
A member sends its message to the group's sequencer (``Request``), which gives it the next number of its own block counter and
multicasts it. Only the sequencer's column of the matrix counts: a block is complete when the sequencer has sent something with
that number or a larger one. Everything else stays: pr1' (the sequencer's numbers in the group increase), one block counter a
process, delivery when the block is complete in *every* group of the receiver, in the order of (block, who numbered it). So the
argument for total order over overlapping groups (4.5.2) holds word for word, with "who sent it" read as "who numbered it", and
symmetric and asymmetric groups may overlap in any way. Three rules are new:

1. A request carries its sender's block counter, and its number is larger: m -> m' still implies m.b < m'.b if m was delivered
   or numbered before m' was sent.
2. A process with a request that has not come back numbered sends in no other group: a later message of its own must not get a
   smaller number. Within the group requests are numbered in their order.
3. A process that needs a block of an idle asymmetric group to be complete (4.4) asks its sequencer for one (``Emit``).

What members have, they say to the sequencer alone: with their requests, and after every quarter of N.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Final

from ...core.model import ProcessId
from .packets import Request

AHEAD: Final = 64  # requests of a member that are kept at once, in order or not: nobody has so many under way


@dataclass(slots=True, eq=False)
class Desk:
    """A member's requests that have not come back numbered."""

    open: dict[int, Request] = field(default_factory=dict)
    last: int = 0
    watched: int = 0  # the oldest of them when the timer was set; 0: it is not set
    repeats: int = 0

    def numbered(self, request: int) -> None:
        for number in [number for number in self.open if number <= request]:
            del self.open[number]


@dataclass(slots=True, eq=False)
class Office:
    """What the sequencer has been asked to number."""

    queue: deque[tuple[ProcessId, Request]] = field(default_factory=deque)
    _next: dict[ProcessId, int] = field(default_factory=dict)
    _waiting: dict[ProcessId, int] = field(default_factory=dict)  # how many of each are in the queue
    _early: dict[tuple[ProcessId, int], Request] = field(default_factory=dict)

    def asked(self, source: ProcessId, request: Request) -> None:
        """Takes a request once, in the order of its sender."""
        expected = self._next.get(source, 1)
        if request.request > expected + AHEAD or self._waiting.get(source, 0) > AHEAD:
            return
        if request.request > expected:
            self._early[source, request.request] = request
        elif request.request == expected:
            following: Request | None = request
            while following is not None:
                self._next[source] = following.request + 1
                self.queue.append((source, following))
                self._waiting[source] = self._waiting.get(source, 0) + 1
                following = self._early.pop((source, following.request + 1), None)

    def take(self) -> tuple[ProcessId, Request]:
        """The next one to be numbered."""
        source, request = self.queue.popleft()
        self._waiting[source] = self._waiting.get(source, 1) - 1
        return source, request
