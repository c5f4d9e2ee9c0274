"""Room at the applications: who does not read fast enough slows the senders down.

A host says when its application has no room for more, and when it has room again (:class:`~....model.Pressure`). What arrives
meanwhile is accepted, acknowledged and delivered as always, so that the member is not taken for silent, histories are emptied,
views take effect and elections find what they need. But beside each acknowledgement the member says how many of the acknowledged
numbers it has no room for. The sequencer numbers nothing beyond a whole history after the last number for which *every*
application had room, its own included: at most ``history`` batches more come to a full member, senders' requests stay
outstanding, their windows close, and nothing is taken from their applications. Losing or reordering these counts does no harm:
the number that a member had room for only grows, and every packet to the sequencer says it again.

A member that holds the group up like that for longer than ``patience`` is excluded; a sequencer hands its office over first."""

from __future__ import annotations

from ...core.engine import Host
from ...core.model import GroupId, ProcessId, Reason
from .log import Log
from .parameters import Parameters


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


class Capacity:
    """At the sequencer: whether there is room for another number, in the history and at every application."""

    __slots__ = (
        "_blocked_by_history", "_group", "_host", "_log", "_own", "_parameters", "full_since", "limit", "read_upto", "stride",
    )  # fmt: skip

    def __init__(self, host: Host, group: GroupId, parameters: Parameters, log: Log, own: Room) -> None:
        self._host, self._group, self._parameters, self._log, self._own = host, group, parameters, log, own
        # Members whose applications have no room: the last number for which each had, and since when.
        self.read_upto: dict[ProcessId, tuple[int, int]] = {}
        self.stride = max(1, parameters.history // 8)
        self.limit = 0  # the last number that may be given, as far as is known; see :meth:`extend`
        self.full_since: int | None = None  # since when a number has been wanted and there was no room for it
        # What is recorded: that the history is full (True), or that an application does not read; None: nothing is.
        self._blocked_by_history: bool | None = None

    def note(self, source: ProcessId, upto: int, acked: int, now: int) -> bool:
        """A member had room up to that number, and has it still if it acknowledged no more. Whether there is more than before."""
        before = self.read_upto.get(source)
        if upto >= acked:
            return self.read_upto.pop(source, None) is not None
        if before is None or upto > before[0]:
            self.read_upto[source] = (upto, now)
        return before is not None and upto > before[0]

    def keep(self, members: tuple[ProcessId, ...]) -> None:
        self.read_upto = {process: room for process, room in self.read_upto.items() if process in members}

    def extend(self) -> bool:
        """Whether there is room by now: in the history, and at every application that said how far it has read."""
        low, own = self._log.low, self._own.upto
        lowest = min(low, *(upto for upto, _ in self.read_upto.values()), low if own is None else own)
        if lowest <= self._blocking:
            return False
        self.limit = lowest + self._parameters.history
        return True

    @property
    def _blocking(self) -> int:
        """A member that has not acknowledged, or not read, more than this leaves no room. Once there was none, a single place is
        not enough: stopping and going on for each would cost more than it brings."""
        needed = 1 if self.full_since is None else self.stride
        return self._log.contiguous - self._parameters.history + needed - 1

    @property
    def is_history_full(self) -> bool:
        return self._log.low <= self._blocking

    def wait(self, acked: dict[ProcessId, int]) -> None:
        """A number is wanted and there is no room: the clock runs. Records why, when that changes."""
        if self.full_since is None:
            self.full_since = self._host.now
            self._host.set_timer("sync", self._host.now + self._parameters.sync_after)
        by_history = self.is_history_full
        if by_history is not self._blocked_by_history:
            self._blocked_by_history = by_history
            history = {"history": self._log.contiguous - self._log.low} if by_history else {}
            self._host.record("block", self._group, **self.why(acked).to_detail(), **history)

    def why(self, acked: dict[ProcessId, int]) -> Reason:
        """Why there is no room, given each member's last acknowledgement."""
        if self.is_history_full:
            low = self._log.low
            late = [process for process, ack in acked.items() if ack <= low]
            return Reason("history full", f"the history is full: number {low + 1} has yet to be acknowledged", {"missing": late})
        names = ", ".join(self.not_reading())
        return Reason("not reading", f"a history of batches waits for the applications of {names} to read it")

    def not_reading(self) -> dict[ProcessId, int]:
        """The members whose applications are a history behind, and since when each has not read."""
        own, blocking = self._own, self._blocking
        found = {process: since for process, (upto, since) in self.read_upto.items() if upto <= blocking}
        if own.upto is not None and own.upto <= blocking:
            found[self._host.me] = own.since
        return found

    def unblock(self) -> None:
        """There is room, or the office ends."""
        if self.full_since is not None:
            self.full_since = None
            self._blocked_by_history = None
            self._host.record("unblock", self._group, number=self._log.contiguous)


def not_reading(process: ProcessId, held_up: int) -> Reason:
    """Why a member cannot stay whose application does not read."""
    text = f"the application of {process} has not read what it was given and held the group up for {held_up // 1_000_000} ms"
    return Reason("not reading", text, {"held_up_ns": held_up})
