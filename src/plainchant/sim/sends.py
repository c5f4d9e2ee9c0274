"""When messages were sent, so that deliveries can say it, without growing with the length of the run.

Each sender and group has a window of send times. A process notes its progress at every 1024th message of a sender; when
a window has grown by as much, everything that all live members are past (and one stretch more, for deliveries out of
order) is forgotten. A member that never delivers holds a window at :data:`LONGEST` at most; what is delivered later than
that has no send time in its row.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final
from zlib import crc32

from ..model import Batch, ProtocolError, unpack

if TYPE_CHECKING:
    from .host import SimHost

STRETCH: Final = 1024
LONGEST: Final = 1 << 20

Part = tuple[int, int | None, int, int]
"""Of one delivered message: seq, send time, digest, size."""


class SendTimes:
    """Send times of the messages under way, and what is in the batch that was opened last.

    The same batch object is delivered at every member, mostly one right after the other, so its digest (of the very
    same immutable bytes) and send time are worked out once.
    """

    __slots__ = ("_hosts", "_windows", "batch", "one", "parts", "sender")

    def __init__(self, hosts: Iterable[SimHost]) -> None:
        self._hosts = hosts
        self._windows: dict[tuple[str, str], Window] = {}
        self.batch: Batch | None = None
        self.sender = ""
        self.one: Part | None = None
        self.parts: list[Part] = []

    def window(self, group: str, sender: str) -> Window:
        """The window of a sender, made when it sends first."""
        return self._windows.setdefault((group, sender), Window())

    def prune(self, group: str, sender: str) -> None:
        """Forgets what every live member of the group is past."""
        key = (group, sender)
        marks = [host.marks.get(key, 0) for host in self._hosts if host.alive and group in host.views]
        self._windows[key].forget(min(marks, default=0) - STRETCH)

    def open(self, group: str, sender: str, batch: Batch) -> None:
        """Looks into a batch: sets ``parts``, and ``one`` if it holds one message."""
        if batch.total:
            raise ProtocolError(f"a fragment of {sender}'s message {batch.first} reached the host; Fragmentation must be at the top")
        window = self._windows.get((group, sender))
        at = window.at if window is not None else _never
        if batch.count == 1:
            self.one = (batch.first, at(batch.first), crc32(batch.body), len(batch.body))
            self.parts = [self.one]
        else:
            self.one = None
            self.parts = [(seq, at(seq), crc32(body), len(body)) for seq, body in enumerate(unpack(batch), batch.first)]
        self.batch = batch
        self.sender = sender


class Window:
    """Send times of one sender's consecutive messages; ``base`` is the number of the first."""

    __slots__ = ("base", "times")

    def __init__(self) -> None:
        self.base = 1
        self.times = array("q")

    def at(self, seq: int) -> int | None:
        index = seq - self.base
        return self.times[index] if 0 <= index < len(self.times) else None

    def forget(self, seq: int) -> None:
        """Forgets the times up to message ``seq``, and whatever makes the window too long."""
        drop = max(seq - self.base + 1, len(self.times) - LONGEST)
        if drop > 0:
            del self.times[:drop]
            self.base += drop


def _never(seq: int) -> int | None:
    return None
