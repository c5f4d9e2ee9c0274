"""Room at the applications: who does not read fast enough slows the senders down.

Theory of operation
-------------------
A host says when its application has no room for more, and when it has room again (:class:`~....model.Pressure`). What arrives
meanwhile is accepted, acknowledged and delivered as always, so that nobody takes the member for silent, histories are emptied,
views take effect and elections find what they need. But beside each acknowledgement the member says how many of the numbers
that it acknowledges it has no room for. The sequencer numbers nothing beyond a whole history after the last number for which
*every* application had room, its own included: so at most ``history`` batches more come to somebody who is full, senders'
requests stay outstanding, their windows close, and nothing is taken from their applications.

As in credits of other protocols, losing or reordering what is said does no harm: the number that a member had room for only
ever grows, and every packet to the sequencer says it again.

Who holds the group up like that for longer than ``patience`` is excluded; a sequencer that does hands its office over first.
"""

from __future__ import annotations

from ...core.model import ProcessId, Reason
from .log import Log


class Room:
    """Whether this member's application has room. ``upto`` is the last number that it had room for, None if it has room now."""

    __slots__ = ("_log", "since", "upto")

    def __init__(self, log: Log) -> None:
        self._log = log
        self.upto: int | None = None
        self.since = 0

    @property
    def behind(self) -> int:
        """The count of numbers received here for which the application has no room."""
        return 0 if self.upto is None else max(0, self._log.contiguous - self.upto)

    def fill(self, now: int) -> None:
        """The application has no room for anything after the last number received."""
        self.upto = self._log.contiguous
        self.since = now

    def clear(self) -> int:
        """The application has room again. Returns how far it was behind."""
        behind = self.behind
        self.upto = None
        return behind

    def start_anew(self) -> None:
        """The history begins here: this application need not read what lies before."""
        if self.upto is not None:
            self.upto = self._log.contiguous


class Readers:
    """At the sequencer: whose applications have no room, the last number for which each had, and since when."""

    __slots__ = ("upto",)

    def __init__(self) -> None:
        self.upto: dict[ProcessId, tuple[int, int]] = {}

    def note(self, source: ProcessId, upto: int, acked: int, now: int) -> bool:
        """A member had room up to that number. One that has acknowledged no more than that has room still. Returns whether
        there is more room than before."""
        before = self.upto.get(source)
        if upto >= acked:
            return self.upto.pop(source, None) is not None
        if before is None or upto > before[0]:
            self.upto[source] = (upto, now)
        return before is not None and upto > before[0]

    def keep(self, members: tuple[ProcessId, ...]) -> None:
        self.upto = {process: room for process, room in self.upto.items() if process in members}

    def lowest(self, otherwise: int) -> int:
        return min((upto for upto, _ in self.upto.values()), default=otherwise)

    def at_or_below(self, number: int) -> dict[ProcessId, int]:
        """Who has had no room for anything after that number, and since when."""
        return {process: since for process, (upto, since) in self.upto.items() if upto <= number}


def not_reading(process: ProcessId, held_up: int) -> Reason:
    """Why a member cannot stay whose application does not read."""
    return Reason(
        "not reading",
        f"the application of {process} has not read what it was given and held the group up for {held_up // 1_000_000} ms",
        {"held_up_ns": held_up},
    )
