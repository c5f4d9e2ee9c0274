"""A member's watch over the sequencer, and over its own silence: one tick for both.

Every ``quiet_after`` a member that has said nothing, or not yet all that it has, sends the sequencer a dummy message (2.1), and
counts the ticks in which it heard nothing; after ``suspect_after`` of them the sequencer is suspected. Hearing only sets a
flag, because it happens with every packet and time need not be read for it. A tick that comes very late was slept through: then
it was not the others who were silent. At the sequencer the tick is its office's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ...core.model import Reason

if TYPE_CHECKING:
    from .member import Member

HEARD_TICKS: Final = 2
"""Who has heard the sequencer within so many ticks refuses to elect another."""


class Watch:
    """``heard`` and ``spoke`` are set by whoever hears the sequencer or speaks to it, and cleared by the tick."""

    __slots__ = ("_due", "_limit", "_member", "_silent_ticks", "heard", "spoke")

    def __init__(self, member: Member) -> None:
        self._member = member
        self._limit = -(-member.parameters.suspect_after // member.parameters.quiet_after)
        self._silent_ticks = 0
        self._due = 0
        self.heard = False
        self.spoke = False

    def begin(self) -> None:
        """The first tick comes earlier by chance: members that tick in step would all call elections at once."""
        self._set(self._member.host.random.randrange(self._member.parameters.quiet_after))

    def _set(self, less: int = 0) -> None:
        member = self._member
        interval = member.parameters.heartbeat if member.office is not None else member.parameters.quiet_after
        self._due = member.host.now + interval - min(less, interval - 1)
        member.host.set_timer("tick", self._due)

    def start_anew(self) -> None:
        """There is another sequencer, or none, or the others hear it: wait as long as at the beginning."""
        self._silent_ticks = 0

    def hears_sequencer(self) -> bool:
        """Whether it was heard lately."""
        return self.heard or self._silent_ticks < HEARD_TICKS

    def expire(self) -> None:
        member = self._member
        stopped = member.host.now - self._due > member.parameters.suspect_after // 2
        if member.office is not None:
            member.office.tick(stopped)
        elif member.follows:
            self._tick(stopped)
        elif member.view is None:
            member.door.ask_again()
        if member.leaving:
            member.door.go_on_leaving()
        if not member.done:
            self._set()

    def _tick(self, stopped: bool) -> None:
        member = self._member
        if not self.spoke or member.acked < member.log.contiguous:
            member.acknowledge("quiet")
        self.spoke = False
        if self.heard or stopped:
            self._silent_ticks = 0
        else:
            self._silent_ticks += 1
            if self._silent_ticks >= self._limit:
                self._sequencer_is_silent()
        self.heard = False

    def _sequencer_is_silent(self) -> None:
        member = self._member
        silent = self._silent_ticks * member.parameters.quiet_after
        if member.view is None:
            if silent > member.parameters.patience:  # until then a joiner's vote may be needed
                member.follow_nobody()
        else:
            text = f"{member.me} has not heard the sequencer {member.sequencer} for {silent // 1_000_000} ms"
            member.suspect_sequencer(Reason("silence", text, {"silent_ns": silent}))
