"""Events: what an application reads from a group.

A stream has messages and views, and with state transfer also requests for the application's state and, at a process that
joined, the state itself.
"""

from __future__ import annotations

from typing import Protocol, TypeAlias

import msgspec

from ..core.model import GroupId, ProcessId, View


class Message(msgspec.Struct, frozen=True, gc=False):
    """A message of the group, in its place in the order. ``seq`` counts its sender's messages in the group of that name."""

    sender: ProcessId
    payload: bytes
    seq: int
    group: GroupId
    rank: int | None = None
    """The message's place in the protocol's own order, where there is one."""


class StateAnswer(Protocol):
    """The way back of a :class:`StateRequest`."""

    async def write(self, chunk: bytes) -> None: ...
    async def close(self) -> None: ...
    async def refuse(self, why: str) -> None: ...


class StateRequest(msgspec.Struct, frozen=True):
    """A process joined in the view before this event and needs the application's state as it is now. Answer with ``write`` and
    ``close``, at once or later, from any task. What is written must be the state at this place in the stream, so take a copy
    before reading on."""

    group: GroupId
    joiner: ProcessId
    view: int
    answer: StateAnswer

    async def write(self, chunk: bytes) -> None:
        """Sends a part of the state, of any size; waits while the joiner is behind."""
        await self.answer.write(chunk)

    async def close(self) -> None:
        """Marks the state as complete."""
        await self.answer.close()

    async def reply(self, state: bytes) -> None:
        """Sends the whole state."""
        await self.answer.write(state)
        await self.answer.close()

    async def refuse(self, why: str) -> None:
        """Says that this process has no state to give; the joiner gives up and joins again."""
        await self.answer.refuse(why)


class State(msgspec.Struct, frozen=True):
    """The application's state at the view in which this process joined; what follows in the stream comes after it."""

    group: GroupId
    view: int
    donor: ProcessId
    chunks: tuple[bytes, ...]

    @property
    def payload(self) -> bytes:
        """The state in one piece."""
        return b"".join(self.chunks)


Event: TypeAlias = Message | View | StateRequest | State
