"""The interface between a simulated process and its application, whichever kind that is.

A process has one of two kinds of application: callbacks and workloads (:class:`.application.Attendant`), or an asyncio program
(:class:`.program.Program`). Both are told and asked by the methods of :class:`Listener`, and both hand over what they send by
:class:`.outgoing.Outgoing`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, Final, Protocol

from ..core.model import Batch, Invitation, Reason, View
from ..scenario.outcome import EndState


class Listener(Protocol):
    """The application's side of a process: what it is told, and what it is asked. It is told in the order of the effects, after
    the engine's method has returned. It does not call the engine from there: what it wants to run it adds to ``host.calls``,
    which run when the effects are performed."""

    def started(self) -> None:
        """The process has started, and has asked to enter its groups."""

    def took(self, group: str, stream: str, batch: Batch) -> None:
        """The protocol took messages, which got the numbers of the batch."""

    def delivered(self, group: str, sender: str, batch: Batch, payloads: list[bytes] | None, rank: int | None) -> None:
        """``payloads`` is None for a single message, which is the body of the batch."""

    def stable(self, group: str, rank: int) -> None: ...
    def installed(self, view: View) -> None: ...
    def left(self, group: str) -> None: ...
    def refused(self, group: str, reason: Reason) -> None: ...
    def renamed(self, group: str, view: View, returned: Sequence[bytes], numbered: int) -> None: ...
    def admitted(self, group: str, stream: str) -> None: ...
    def rejected(self, group: str, stream: str, reason: Reason) -> None: ...

    def stopped(self, state: EndState, reason: Reason) -> None:
        """The process has stopped for ever."""

    def invited(self, invitation: Invitation) -> str:
        """Why the application does not agree to be in a group that is proposed; empty: it agrees."""

    def asked_to_leave(self, group: str) -> None:
        """The scenario has this process leave a group, or, if none is named, all of them."""

    @property
    def is_going(self) -> bool:
        """Whether it is on its way out of all its groups."""


class _Silent(Listener):
    """Ignores what it is told: the listener of a process whose application does not want to know."""


SILENT: Final = _Silent()  # type: ignore[abstract]  # methods without a body do nothing


@dataclasses.dataclass(slots=True)
class Unread:
    """What waits for an application that reads nothing for a while (a fault of kind ``sluggish``): the number of unread messages
    of each group, and what the application will be told, in order."""

    most: int  # from this number of unread messages of a group on, the protocol is told that there is no room
    until: int = 0
    counts: dict[str, int] = dataclasses.field(default_factory=dict)
    full: dict[str, None] = dataclasses.field(default_factory=dict)  # groups with too many unread messages
    calls: list[tuple[Callable[..., object], tuple[Any, ...]]] = dataclasses.field(default_factory=list)

    def add(self, group: str, count: int) -> bool:
        """Counts messages; True when the group has just come to have too many."""
        self.counts[group] = self.counts.get(group, 0) + count
        if self.counts[group] < self.most or group in self.full:
            return False
        self.full[group] = None
        return True
