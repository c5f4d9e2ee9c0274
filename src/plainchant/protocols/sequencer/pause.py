"""The synchronisation phase (2.2) as members see it: stop sending, get everything, say so, go on when told. ``Phase`` is what the
sequencer keeps of it.

Phases are numbered, growing also from epoch to epoch, so that a late packet of one neither ends nor begins another. Which
phases are over is also said by views and announcements: a phase that was given up ends no member's patience.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...core.model import ProcessId
from .packets import AckCommit, Phase1, Phase2

if TYPE_CHECKING:
    from .member import Member


class Pause:
    """While ``phase`` is not 0 this member sends no requests."""

    __slots__ = ("_highest", "_member", "_over", "phase")

    def __init__(self, member: Member) -> None:
        self._member = member
        self._over = 0
        self._highest = 0
        self.phase = 0

    def on_phase1(self, source: ProcessId, packet: Phase1) -> None:
        member = self._member
        if not member.hears(source, packet.epoch):
            return
        if packet.phase <= self._over or packet.phase < self.phase:
            member.host.record("drop", member.group, what="PHASE1", phase=packet.phase, situation="late phase packet")
            return
        self.phase = packet.phase
        self._highest = packet.highest
        member.log.highest = max(member.log.highest, packet.highest)
        self.go_on()

    def go_on(self) -> None:
        """Says that everything is here as soon as it is."""
        member = self._member
        if member.log.contiguous >= self._highest:
            member.speak(AckCommit(member.group, member.epoch, self.phase, 1, member.log.contiguous, member.room.behind))
        else:
            member.gaps.check()

    def on_phase2(self, source: ProcessId, packet: Phase2) -> None:
        member = self._member
        if not member.hears(source, packet.epoch):
            return
        if packet.phase < self.phase:
            member.host.record("drop", member.group, what="PHASE2", phase=packet.phase, situation="late phase packet")
            return
        member.settle(packet.stable)
        self.end(packet.phase)
        member.speak(AckCommit(member.group, member.epoch, packet.phase, 2, member.log.contiguous, member.room.behind))

    def end(self, over: int) -> None:
        """Phases up to this one are over."""
        self._over = max(self._over, over)
        if self.phase and self.phase <= self._over:
            self.phase = 0
            self._member.requests.pump()

    def cut_short(self, epoch: int) -> None:
        """Its sequencer is no more; the next one begins its own phases."""
        if self.phase:
            self._member.host.record("elect", self._member.group, epoch=epoch, situation="election during synchronisation")
            self.phase = 0


class Phase:
    """A synchronisation phase under way, at the sequencer."""

    __slots__ = ("highest", "number", "since", "step", "waiting")

    def __init__(self, number: int, highest: int, waiting: list[ProcessId], since: int) -> None:
        self.number = number
        self.highest = highest
        self.waiting = dict.fromkeys(waiting)
        self.step = 1
        self.since = since
