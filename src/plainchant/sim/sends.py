"""When messages were sent, so that deliveries can say it, without growing with the length of the run.

Each sender and group has a window of send times. A process notes its progress at every 1024th message of a sender;
when a window has grown by as much, everything that all live members are past (and one stretch more, for deliveries
out of order) is forgotten. A member that never delivers holds a window at :data:`LONGEST` at most; what is delivered
later than that has no send time in its row.
"""

from __future__ import annotations

import dataclasses
from array import array
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final
from zlib import crc32

from ..core.model import Batch, unpack
from ..core.process import Effect

if TYPE_CHECKING:
    from .host import SimHost

STRETCH: Final = 1024
LONGEST: Final = 1 << 20
RECENT: Final = 512  # batches whose contents are remembered

Part = tuple[int, int | None, int, int]  # of one delivered message: seq, send time, digest, size


class SendTimes:
    """Send times of the messages under way, and the rows of the batch that was delivered last. The same batch object is delivered
    at every member, mostly one right after the other and often at the same instant. So its digest (of the very same immutable
    bytes) and its send time are worked out once, and the rows themselves are shared as long as nothing in them differs:
    ``effect``, ``now`` and ``local`` are what they are made of."""

    def __init__(self, hosts: Iterable[SimHost]) -> None:
        self._hosts = hosts
        self._windows: dict[tuple[str, str], Window] = {}
        self._recent: dict[int, tuple[Batch, str, str, tuple[Part]]] = {}
        self._parts: Sequence[Part] = ()
        self._unpacked: Batch | None = None
        self._payloads: list[bytes] = []
        self._batch: Batch | None = None
        self._group = ""
        self._sender = ""
        self.effect: Effect = ()
        self.now = 0
        self.local = 0
        self.instant = -1  # when `row` is all that an equal effect writes, at a process whose clock is exact; -1: never
        self.row: tuple[Any, ...] | None = None
        self.rows: list[tuple[Any, ...]] = []
        self.milestone = 0  # the last number in the batch at which progress is noted; 0 if there is none

    def window(self, group: str, sender: str) -> Window:
        """The window of a sender, made when it sends first."""
        return self._windows.setdefault((group, sender), Window())

    def prune(self, group: str, sender: str) -> None:
        """Forgets what every live member of the group is past."""
        marks = [host.marks.get((group, sender), 0) for host in self._hosts if host.alive and group in host.joined]
        self._windows[group, sender].forget(min(marks, default=0) - STRETCH)

    def remember(self, group: str, sender: str, batch: Batch, part: Part) -> None:
        """What a batch of one message holds, known when it was taken."""
        if len(self._recent) >= RECENT:
            self._recent.clear()
        self._recent[id(batch)] = (batch, group, sender, (part,))

    def unpack(self, batch: Batch) -> list[bytes]:
        """The messages of a batch; not to be changed, since all members get the same list."""
        if batch is not self._unpacked:
            self._payloads = unpack(batch)
            self._unpacked = batch
        return self._payloads

    def write(self, effect: Effect, now: int, local: int) -> None:
        """Makes the rows of an effect ``DELIVER``: ``row`` if it is of one message, else ``rows``."""
        _, group, view, sender, batch, payloads, rank = effect
        self.effect = effect
        self.now = now
        self.local = local
        if batch is not self._batch or sender != self._sender or group != self._group:
            self._batch, self._sender, self._group = batch, sender, group
            known = self._recent.get(id(batch))
            if known is not None and known[0] is batch and known[1] == group and known[2] == sender:
                # The entry holds on to its batch, so the number of the object cannot have become another's.
                self._parts = known[3]
            else:
                self._parts = self._look_into(group, sender, batch, payloads)
        self.instant = -1
        if payloads is None:
            seq, sent, digest, size = self._parts[0]
            self.row = ("deliver", local, now, group, view, sender, seq, sent, rank, digest, size, None)
            if seq % STRETCH:
                self.milestone = 0
                if local is now:
                    self.instant = now
            else:
                self.milestone = seq
            return
        last = self._parts[-1][0]
        milestone = last - last % STRETCH
        self.milestone = milestone if milestone >= batch.first else 0
        self.row = None
        self.rows = [
            ("deliver", local, now, group, view, sender, seq, sent, rank, digest, size, None)
            for seq, sent, digest, size in self._parts
        ]

    def _look_into(self, group: str, sender: str, batch: Batch, payloads: list[bytes] | None) -> list[Part]:
        at = self._windows.get((group, sender), _NEVER).at
        bodies = payloads if payloads is not None else (batch.body,)
        return [(seq, at(seq), crc32(body), len(body)) for seq, body in enumerate(bodies, batch.first)]


@dataclasses.dataclass(slots=True, eq=False)
class Window:
    """Send times of one sender's consecutive messages; ``base`` is the number of the first."""

    base: int = 1
    times: array[int] = dataclasses.field(default_factory=lambda: array("q"))

    def at(self, seq: int) -> int | None:
        index = seq - self.base
        return self.times[index] if 0 <= index < len(self.times) else None

    def forget(self, seq: int) -> None:
        """Forgets the times up to message ``seq``, and whatever makes the window too long."""
        drop = max(seq - self.base + 1, len(self.times) - LONGEST)
        if drop > 0:
            del self.times[:drop]
            self.base += drop


_NEVER: Final = Window()  # of a sender that has sent nothing here
