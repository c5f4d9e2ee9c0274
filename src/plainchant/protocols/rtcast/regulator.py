"""The regulator (Fig. 6): spreads messages over turns, so that what is released within P never takes more than was reckoned.

Each promised stream has one message under way at a time. The message is cut into pieces, which are released a *spacing* apart (P,
as it was when the message was planned), the first of them when the message comes. Two pieces of a stream are never released
closer together than that, not even if a message comes too early: the stream that breaks its word waits, nobody else does.

What is released is sent first in, first out: by the time of release; of those released at once, the stream that was promised
first. A piece that is larger than a packet is sent in several, one after the other.

Nothing here knows a host or a ring; time is what the caller says it is.
"""

from __future__ import annotations

import dataclasses
from typing import Final

from ...core.model import Nanoseconds, ProtocolError
from .analysis import NUMBER

NUMBERS: Final = 1 << (8 * NUMBER)  # Numbers of streams; 0 is the number of all messages that belong to none


@dataclasses.dataclass(frozen=True, slots=True)
class Chunk:
    """What goes into one packet: bytes ``start`` to ``end`` of the message that a stream has under way."""

    stream: str
    number: int
    start: int
    end: int
    total: int
    is_whole: bool  # Whether it is a message of one packet, which needs no number

    @property
    def size(self) -> int:
        """Bytes of the packet's body."""
        return self.end - self.start + (0 if self.is_whole else NUMBER)

    @property
    def is_last(self) -> bool:
        return self.end == self.total


@dataclasses.dataclass(frozen=True, slots=True)
class Plan:
    """How to send a message: in pieces of so many bytes, released so far apart, each of which takes at most ``share``."""

    piece: int
    spacing: Nanoseconds
    share: Nanoseconds


@dataclasses.dataclass(slots=True, eq=False)
class Flow:
    """A promised stream and the message that it has under way."""

    name: str
    number: int
    _room: int  # Bytes of a piece in a packet
    payload: bytes | None = None  # The message under way
    plan: Plan | None = None  # Its plan
    release: Nanoseconds | None = None  # Release of the next piece, or earliest one of the next message; None: any time
    _sent: int = 0  # Bytes that have been given away

    @property
    def is_under_way(self) -> bool:
        return self.payload is not None

    def begin(self, payload: bytes, arrived: Nanoseconds, plan: Plan) -> None:
        if self.payload is not None:
            raise ProtocolError(f"stream {self.name!r} has a message under way and begins another one")
        self.payload, self.plan = payload, plan
        self.release = arrived if self.release is None else max(arrived, self.release)
        self._sent = 0

    def chunk(self) -> Chunk:
        """What comes next of the message under way."""
        assert self.payload is not None
        assert self.plan is not None
        total = len(self.payload)
        is_whole = total <= min(self.plan.piece, self._room + NUMBER)
        end_of_piece = (self._sent // self.plan.piece + 1) * self.plan.piece
        end = total if is_whole else min(self._sent + self._room, end_of_piece, total)
        return Chunk(self.name, self.number, self._sent, end, total, is_whole)

    def advance(self, chunk: Chunk) -> None:
        """What ``chunk`` gave has been taken."""
        assert self.plan is not None
        assert self.release is not None
        self._sent = chunk.end
        if chunk.is_last or chunk.end % self.plan.piece == 0:
            self.release += self.plan.spacing
        if chunk.is_last:
            self.payload = self.plan = None
            self._sent = 0


class Regulator:
    """The promised streams of one member."""

    def __init__(self, max_packet: int) -> None:
        self._room = max_packet - NUMBER
        self._number = 0
        self.flows: dict[str, Flow] = {}  # By name, in the order in which they were promised

    def add(self, name: str) -> Flow:
        """A stream that is promised from now on."""
        taken = {flow.number for flow in self.flows.values()}
        if len(taken) >= NUMBERS - 1:
            raise ProtocolError(f"there are {len(taken)} streams already, and no number is left for {name!r}")
        self._number = self._number % (NUMBERS - 1) + 1
        while self._number in taken:
            self._number = self._number % (NUMBERS - 1) + 1
        flow = self.flows[name] = Flow(name, self._number, self._room)
        return flow

    def remove(self, name: str) -> None:
        del self.flows[name]

    def next(self, now: Nanoseconds) -> Chunk | None:
        """What is to be sent now, of all that is released; None: nothing is."""
        due = ((flow.release, flow) for flow in self.flows.values() if flow.payload is not None and flow.release is not None)
        first = min((each for each in due if each[0] <= now), key=lambda each: each[0], default=None)
        return None if first is None else first[1].chunk()
