"""Leader election: every member is a candidate, and the one that has been there longest leads.

An election is an :class:`~.office.Office` that the members of the view wait for, in the view's order; a joiner is last. The
first one leads until it is gone or resigns. Each leader has a *term*, the office's token, which grows; what a leader does
outside the group bears it, as a lock's token.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from ..core.model import ProcessId, View
from .block import Command, Part
from .office import DROP, Holding, Office, OfficeLost, Quorum


class LeadershipLost(OfficeLost):
    """This process leads no longer. ``reason`` says why."""


class Election(Office):
    """``election.leader`` and ``election.term`` as far as this member has come; ``await election.lead()`` to lead. With
    ``quorum="majority"`` at most one part of a group that is cut in two has a leader, with ``"part"`` each has one."""

    kind: ClassVar[str] = "election"
    lost_error: ClassVar[type[OfficeLost]] = LeadershipLost

    def __init__(self, *, quorum: Quorum = "majority") -> None:
        super().__init__(quorum=quorum)

    @property
    def leader(self) -> ProcessId | None:
        """Who leads; None where there is no majority, or before enough members know of a new one."""
        return self.owner if self.is_confirmed else None

    @property
    def term(self) -> int:
        return self.token

    async def lead(self, *, timeout: float | None = None) -> Holding:
        """Waits until this process leads; ``async with await election.lead() as term`` is interrupted when it leads no longer."""
        limit = float("inf") if timeout is None else timeout
        await self.replica.until(lambda: self._holding is not None, timeout=limit)
        assert self._holding is not None
        return self._holding

    async def resign(self) -> None:
        """Lets the next one lead; this process becomes the last candidate."""
        holding = self._holding
        if holding is not None:
            await holding.release()

    def apply(self, command: Command) -> Any:
        super().apply(command)
        if command.body[0] == DROP:
            self._stand()
            self._appoint()
            self._tell_holder()

    def changed(self, view: View) -> None:
        self._waiting = [entry for entry in self._waiting if entry[0] in view.members]
        self._stand(view.members)
        super().changed(view)

    def merge(self, parts: Sequence[Part], view: View) -> None:
        super().merge(parts, view)
        self._stand()
        self._appoint()
        self._tell_holder()

    def _stand(self, members: Sequence[ProcessId] | None = None) -> None:
        """Every member is a candidate, once."""
        for member in self._members if members is None else members:
            if member != self.owner and member not in self._quit and [member, 0] not in self._waiting:
                self._waiting.append([member, 0])
