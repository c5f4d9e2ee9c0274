"""The parts of a state on their way from a donor to a joiner: packets, cutting into parts, putting together again.

An :class:`OutgoingState` cuts the chunks that an application writes into numbered parts of a packet's size, and keeps them until
they are acknowledged. An :class:`IncomingState` puts parts together in order, and keeps what the joiner holds back meanwhile.
Neither sends anything: the layer (:mod:`.state`) does.
"""

from __future__ import annotations

import dataclasses
from collections import deque
from collections.abc import Callable
from typing import Any, Final

from ..core.model import PACK_OVERHEAD, GroupId, Number, Packet, ProcessId, View

AHEAD: Final = 1024  # parts this far beyond a gap are not kept: no donor has that many under way


class StateAsk(Packet, frozen=True, array_like=True, gc=False, tag=110):
    """The process that joined in view ``view`` has all parts up to ``received`` and wants the next."""

    group: GroupId
    view: Number
    received: Number


class StatePart(Packet, frozen=True, array_like=True, gc=False, tag=111):
    """Part ``number`` of the state: chunks of the application. If ``continued``, the last one goes on in the next part."""

    group: GroupId
    view: Number
    number: Number
    pieces: tuple[bytes, ...]
    continued: bool
    last: bool


class StateWait(Packet, frozen=True, array_like=True, gc=False, tag=112):
    """The donor is there and has nothing to send yet."""

    group: GroupId
    view: Number


class StateLost(Packet, frozen=True, array_like=True, gc=False, tag=113):
    """The donor does not have that state, and why."""

    group: GroupId
    view: Number
    text: str


STATE_PACKETS: Final[tuple[type[Packet], ...]] = (StateAsk, StatePart, StateWait, StateLost)
"""What a host's codec must know besides the protocol's packets."""


@dataclasses.dataclass(slots=True, eq=False)
class IncomingState:
    """The state that a joiner waits for, and what it holds back meanwhile. ``view`` is None before its first view."""

    group: GroupId  # the group's name in the packets of donor and joiner
    name: GroupId  # the group's name now
    view: View | None = None
    donor: ProcessId = ""
    received: int = 0  # all parts up to this one are here
    chunks: list[bytes] = dataclasses.field(default_factory=list)
    size: int = 0
    is_complete: bool = False
    unanswered: int = 0  # expiries of the timer since the donor was heard
    held: list[tuple[Callable[..., None], tuple[Any, ...]]] = dataclasses.field(default_factory=list)
    held_bytes: int = 0
    pieces: int = 0  # number of pieces received
    end: Callable[[GroupId], None] | None = None  # what to do when the state is complete: leave the group, or close it
    lost: bool = False  # the state is lost: this process is leaving the group
    _later: dict[int, StatePart] = dataclasses.field(default_factory=dict)
    _pieces: list[bytes] = dataclasses.field(default_factory=list)

    @property
    def number(self) -> int:
        return self.view.number if self.view is not None else 0

    def hold(self, call: Callable[..., None], *arguments: Any) -> None:
        if not self.lost:
            self.held.append((call, arguments))

    def accept(self, part: StatePart) -> None:
        if not self.received < part.number <= self.received + AHEAD:
            return
        self._later[part.number] = part
        while (following := self._later.pop(self.received + 1, None)) is not None:
            self.received += 1
            self._append(following)

    def _append(self, part: StatePart) -> None:
        last = len(part.pieces) - 1
        for place, piece in enumerate(part.pieces):
            self._pieces.append(piece)
            self.size += len(piece)
            self.pieces += 1
            if place < last or not part.continued:
                self.chunks.append(b"".join(self._pieces))
                self._pieces.clear()
        self.is_complete = part.last


@dataclasses.dataclass(slots=True, eq=False)
class OutgoingState:
    """A transfer at its donor: chunks that are not sent, and parts that are not acknowledged."""

    transfer: int
    view: View
    name: GroupId  # the group's name now
    joiner: ProcessId
    delay: int
    asked: bool = False  # whether the joiner has its view: before that it cannot take parts
    closed: bool = False
    failure: str | None = None
    size: int = 0
    backlog: int = 0  # bytes that the joiner does not have yet, with something for each chunk
    under_way: dict[int, StatePart] = dataclasses.field(default_factory=dict)
    equal_acknowledgements: int = 0
    timed: bool = False  # whether the timer runs
    _chunks: deque[bytes] = dataclasses.field(default_factory=deque)
    _offset: int = 0  # where the unsent rest of the first chunk begins
    _made: int = 0
    _made_last: bool = False

    @property
    def is_open(self) -> bool:
        return not self.closed and self.failure is None

    @property
    def is_done(self) -> bool:
        return self._made_last and not self.under_way

    def put(self, chunk: bytes) -> None:
        self._chunks.append(chunk)
        self.size += len(chunk)
        self.backlog += len(chunk) + PACK_OVERHEAD

    def fail(self, text: str) -> None:
        self.failure = text
        self._chunks.clear()
        self.under_way.clear()

    def next_part(self, size: int) -> StatePart | None:
        """The next part, of at most that many bytes; None if there is nothing to send now."""
        if not self._chunks and (not self.closed or self._made_last):
            return None
        pieces: list[bytes] = []
        room = size - PACK_OVERHEAD
        while self._chunks and (room > 0 or not pieces):
            chunk = self._chunks[0]
            piece = chunk[self._offset : self._offset + room]
            pieces.append(piece)
            self._offset += len(piece)
            if self._offset < len(chunk):
                break
            self._chunks.popleft()
            self._offset = 0
            room -= len(piece) + PACK_OVERHEAD
        self._made += 1
        self._made_last = self.closed and not self._chunks
        part = StatePart(self.view.group, self.view.number, self._made, tuple(pieces), self._offset > 0, self._made_last)
        self.under_way[part.number] = part
        return part

    def acknowledge(self, received: int) -> bool:
        """The joiner has all parts up to this one; False if that is not news."""
        news = [number for number in self.under_way if number <= received]
        if not news:
            self.equal_acknowledgements += bool(self.under_way)
            return False
        for number in news:
            part = self.under_way.pop(number)
            self.backlog -= sum(map(len, part.pieces)) + PACK_OVERHEAD * (len(part.pieces) - part.continued)
        self.equal_acknowledgements = 0
        self.timed = False
        return True
