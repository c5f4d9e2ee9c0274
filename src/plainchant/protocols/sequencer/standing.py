"""Where a member stands in its group: the epoch it follows, its view, its copy of the order, and what it may do now.

:class:`~.member.Member` extends this state with the handlers of packets and timers (by inheritance, so that the path of a
broadcast reads these attributes directly). The parts of a member that act (requests, gaps, door, election, office) are given a
``Standing``: they read it and speak through it. They know nothing of ``Member``; a part that has to start something outside
itself is given that function, or returns its decision."""

from __future__ import annotations

from typing import Final

from ...core.engine import Host
from ...core.model import GroupId, Packet, ProcessId, Reason
from .log import Log
from .packets import Ack, Change, Promise, Stage
from .parameters import Parameters
from .pause import Pause
from .room import Room
from .watch import Watch

NO_EPOCH: Final = -1  # the value of ``listening`` during an election and before the process is a member
FARTHEST: Final = 1 << 16  # epochs advance in small steps; a number further ahead than this is not an epoch of this group


class Standing:
    """One process's state in one group, without the protocol's reactions."""

    __slots__ = (  # not to save memory, but because attributes beyond thirty are slow without them
        "acked", "allowed", "base", "done", "epoch", "group", "host", "leaving", "listening", "log", "me", "parameters", "pause",
        "presides", "promised", "promised_to", "room", "sequencer", "trials", "undecided_since", "view", "voters", "watch",
    )  # fmt: skip

    def __init__(self, host: Host, group: GroupId, parameters: Parameters) -> None:
        self.host, self.group, self.parameters = host, group, parameters
        self.me: ProcessId = host.me
        self.log = Log()
        self.room = Room(self.log)
        self.pause = Pause()
        self.watch = Watch(host, parameters)
        self.epoch = 0
        self.base = 0  # the order of earlier epochs ends here
        self.voters: tuple[ProcessId, ...] = ()
        self.sequencer: ProcessId = ""
        self.presides = False  # whether this member is the sequencer, with an office open
        self.listening = NO_EPOCH
        self.promised = 0  # packets of epochs below this one are ignored
        self.promised_to: ProcessId = ""
        self.trials = 0  # of this member so far; a trial has its number in place of an epoch: a late answer counts for no other
        self.view: Change | None = None  # the view in force here; None before the process is a member
        self.allowed = 0
        self.acked = 0  # the last acknowledgement sent in this epoch
        self.undecided_since: int | None = None  # when the oldest view not in force was proposed, here or before an election
        self.leaving = self.done = False

    @property
    def follows(self) -> bool:
        """There is a sequencer, and it is another member."""
        return self.listening != NO_EPOCH and not self.presides

    @property
    def may_send(self) -> bool:
        """Requests may go out: there is a sequencer, a view, and no synchronisation phase."""
        return self.listening != NO_EPOCH and self.view is not None and not self.pause.phase

    def unfinished(self, outstanding: int) -> Reason | None:
        """What this member still waits for, given its first request that has no number yet (0: it has none)."""
        log = self.log
        if self.view is None:
            return Reason("joining", f"{self.me} waits to be let in")
        if self.follows and self.watch.is_new:  # it may be dead, and is missed later than another one
            return Reason("first contact", f"{self.me} has not heard the sequencer {self.sequencer} yet")
        if self.leaving:
            return Reason("leaving", f"{self.me} waits to be let go")
        if outstanding:
            return Reason("outstanding", f"{self.me} waits for its request {outstanding} to come back numbered")
        if log.contiguous < log.highest:
            return Reason("gap", f"{self.me} waits for number {log.contiguous + 1}; there is {log.highest}")
        if log.delivered < log.contiguous:
            return Reason("permission", f"{self.me} waits for permission to deliver number {log.delivered + 1}")
        if self.pause.phase:
            return Reason("synchronisation", f"{self.me} is in synchronisation phase {self.pause.phase}")
        return None

    def is_near(self, epoch: int) -> bool:
        """Whether there can be an election of this number."""
        return epoch <= self.promised + FARTHEST

    @property
    def stage(self) -> Stage:
        """The part of the history that belongs to the epoch we follow, or followed last."""
        return self.epoch, self.base, self.sequencer

    def status(self, epoch: int, *, trial: bool) -> Promise:
        """What we hold, by which the winner of an election is chosen. A joiner that was let in, but does not know yet whether its
        view is in force, votes too: a majority of that view may need it."""
        log = self.log
        view, members = (self.view.number, self.view.members) if self.view is not None else (0, ())
        history = (log.synced(self.stage), log.contiguous, min(self.allowed, log.contiguous))
        later = tuple(sorted(log.later))
        newest = log.newest
        pending = newest.members if newest is not None and newest.number > view else ()
        return Promise(self.group, epoch, trial, *history, view, members, (self.epoch, self.sequencer), later, pending)

    def speak(self, packet: Packet) -> None:
        """Sends the sequencer a packet that carries an acknowledgement."""
        self.acked = self.log.contiguous
        self.watch.spoke = True
        self.host.send((self.sequencer,), packet)

    def acknowledgement(self) -> Ack:
        return Ack(self.group, self.epoch, self.log.contiguous, self.room.behind)

    def acknowledge(self, why: str) -> None:
        if not self.presides:
            self.host.record("null", self.group, why=why, ack=self.log.contiguous)
            self.speak(self.acknowledgement())

    def settle(self, stable: int) -> None:
        """Every member has everything up to this number."""
        if stable > self.log.low:
            self.log.purge(stable)
            self.log.trim()
            self.host.stable(self.group, stable)

    def follow_none(self) -> None:
        """The sequencer that let this joiner in did not last; what the joiner knows from it has no value."""
        self.listening = NO_EPOCH
        self.log.newest = None
        self.watch.start_anew()
