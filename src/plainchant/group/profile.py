"""What is fixed when a process enters a group: what the group promises and allows, and the sizes of its two buffers."""

from __future__ import annotations

import dataclasses
from typing import Final

from ..core.model import UsageError
from ..protocols.registry import Promise

OUTGOING: Final = 4 << 20  # bytes of messages that wait to be sent before ``send`` waits
UNREAD: Final = 64 << 20  # bytes of events that wait to be read before the group is slowed down
MESSAGE_COST: Final = 64  # what a message counts for in these buffers besides its bytes
LARGEST_MESSAGE: Final = 1 << 30


@dataclasses.dataclass(frozen=True, slots=True)
class Guarantees:
    """What the protocol promises, and the faults under which it does."""

    promises: tuple[Promise, ...]
    faults: tuple[str, ...]
    """Kinds of fault under which the promises hold, unless they are ``beyond``."""
    beyond: frozenset[str] = frozenset()
    """Kinds of fault that the protocol tolerates with other parameters, but not with these."""

    @property
    def any_survivor(self) -> bool:
        """Whether the group goes on without a majority: with these parameters the protocol tolerates no partitions."""
        return "partition" in self.beyond

    def __contains__(self, name: object) -> bool:
        return any(promise.name == name for promise in self.promises)

    def __str__(self) -> str:
        lines = [f"{promise.name}: {promise.provided}" for promise in self.promises]
        tolerated = (kind for kind in self.faults if kind not in self.beyond)
        return "\n".join([*lines, f"under {', '.join(tolerated)}"])


NOTHING: Final = -1  # the size of the largest message of a process that does not send


@dataclasses.dataclass(frozen=True, slots=True)
class Profile:
    """What a group promises and allows, as far as one process is concerned."""

    guarantees: Guarantees
    formed: bool = True
    """Whether this process formed the group, so that nothing was sent before; otherwise it joined a group that existed."""
    changes: bool = True
    """Whether members can join and leave; if not, the group is formed once and ends as a whole."""
    proposes: bool = False
    """Whether the group can be closed and renamed."""
    admits: bool = False
    """Whether the protocol can guarantee deadlines."""
    settle: float = 0.0
    """Seconds that a group that does not change must be idle before a member has finished."""
    largest: int = LARGEST_MESSAGE
    """Bytes of the largest message; a process that only sends is limited to what fits into one packet,
    and one that only receives to :data:`NOTHING`."""


@dataclasses.dataclass(frozen=True, slots=True)
class Buffers:
    """The two buffers of a membership."""

    outgoing: int = OUTGOING
    """Bytes of messages that wait to be sent before ``send`` waits."""
    unread: int = UNREAD
    """Bytes of events that wait to be read before the group's senders are slowed down."""
    listen: bool = True
    """Whether the application reads; if not, events are discarded as they arrive."""

    def __post_init__(self) -> None:
        if self.outgoing < 1 or self.unread < 1:
            raise UsageError("the outgoing and unread buffers of a group hold at least one byte; make them larger")
