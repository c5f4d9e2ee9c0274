"""The synchronisation phase (2.2): :class:`Phases` is how a member takes part in it, :class:`Phase` what the sequencer keeps.

A member stops sending, gets everything, says so, and goes on when told. What it remembers of phases is a :class:`~.pause.Pause`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ...core.model import GroupId, ProcessId
from .gaps import Gaps
from .packets import AckCommit, Phase1, Phase2
from .standing import Standing


class Phases:
    """A member's part in the phases of its sequencer. ``hears`` says whether a packet is from the sequencer that it follows,
    ``pump`` sends what waited during a pause."""

    __slots__ = ("_gaps", "_hears", "_pump", "_standing")

    def __init__(self, standing: Standing, gaps: Gaps, hears: Callable[[ProcessId, int], bool], pump: Callable[[], None]) -> None:
        self._standing, self._gaps, self._hears, self._pump = standing, gaps, hears, pump

    def on_phase1(self, source: ProcessId, packet: Phase1) -> None:
        standing = self._standing
        if not self._hears(source, packet.epoch):
            return
        if not standing.pause.begin(packet.phase, packet.highest):
            standing.host.record("drop", standing.group, what="PHASE1", phase=packet.phase, situation="late phase packet")
            return
        standing.log.highest = max(standing.log.highest, packet.highest)
        self.go_on()

    def on_phase2(self, source: ProcessId, packet: Phase2) -> None:
        standing = self._standing
        if not self._hears(source, packet.epoch):
            return
        if packet.phase < standing.pause.phase:
            standing.host.record("drop", standing.group, what="PHASE2", phase=packet.phase, situation="late phase packet")
            return
        standing.settle(packet.stable)
        self.end(packet.phase)
        self._commit(packet.phase, 2)

    def go_on(self) -> None:
        """More of what the phase asks for may be here: says that everything is as soon as it is."""
        pause = self._standing.pause
        if pause.is_complete(self._standing.log.contiguous):
            self._commit(pause.phase, 1)
        else:
            self._gaps.check()

    def _commit(self, phase: int, step: int) -> None:
        standing = self._standing
        standing.speak(AckCommit(standing.group, standing.epoch, phase, step, standing.log.contiguous, standing.room.behind))

    def end(self, over: int) -> None:
        """A view or an announcement says that phases up to this one are over."""
        if self._standing.pause.end(over):
            self._pump()

    def cut_short(self, epoch: int) -> None:
        """The sequencer of the phase is superseded by a new epoch."""
        standing = self._standing
        if standing.pause.cut_short():
            standing.host.record("elect", standing.group, epoch=epoch, situation="election during synchronisation")


@dataclass(slots=True)
class Phase:
    """A synchronisation phase under way, at the sequencer."""

    number: int
    highest: int
    waiting: dict[ProcessId, None]
    since: int
    step: int = 1

    def packet(self, group: GroupId, epoch: int, stable: int) -> Phase1 | Phase2:
        """What the members are told in this step."""
        return Phase1(group, epoch, self.number, self.highest) if self.step == 1 else Phase2(group, epoch, self.number, stable)
