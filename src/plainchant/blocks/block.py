"""A block: a state machine with a copy at every member of a group. Here is what a block is, and how to write one.

How to write a block
--------------------
Derive from :class:`Block`; give it a ``kind``, ``apply``, ``snapshot``, ``restore`` and ``merge``, and methods for the program
that call ``execute``::

    class Register(Block):
        kind = "register"

        def __init__(self) -> None:
            super().__init__()
            self.value = 0

        async def write(self, value: int) -> int:          # what the program calls
            return await self.execute(value)

        def apply(self, command: Command) -> int:          # at every member, in the same order
            before, self.value = self.value, command.body
            return before

        def snapshot(self) -> int:
            return self.value

        def restore(self, snapshot: int) -> None:
            self.value = snapshot

        def merge(self, parts: Sequence[Part], view: View) -> None:
            self.value = max(part.state for part in parts)

Rules, without which members differ:

1. ``apply``, ``changed``, ``merge`` use nothing but the state and what they are given: no clock, no chance, no order of a set, no
   ``replica.group``, no ``me``. (They may *tell* this process something: set a future, wake a task.)
2. They do not wait. What takes long is done by a task that sends another command when it is done.
3. ``snapshot`` has the whole state, in terms of MessagePack (no tuples: lists; keys are texts), and shares nothing with it that
   changes later.
4. A command that cannot be carried out raises :class:`CommandRefused` before it has changed anything; the error is the outcome.
5. What a program reads of a block without a command is the state as far as this member has come. :meth:`Replica.catch_up` first,
   if it must not be older than the call.

A block is used through its :class:`~.replica.Replica`.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import math
from collections.abc import AsyncIterator, Callable, Sequence
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, ClassVar

import msgspec

from ..core.model import PlainchantError, ProcessId, Reason, UsageError, View
from ..group import GroupError, Message

if TYPE_CHECKING:
    from .replica import Replica

encode = msgspec.msgpack.Encoder(order="deterministic").encode
decode = msgspec.msgpack.Decoder().decode


class ReplicaOver(GroupError):
    """This process follows the group no longer: nothing was sent. ``reason`` says why; join again to go on."""


class OutcomeUnknown(ReplicaOver):
    """The process was stopped before its command came back: the others may have applied it, or not."""


class NoOutcome(GroupError):
    """A command was not applied in time. It is sent, and may be applied later."""


class CommandRefused(PlainchantError):
    """A command that a block does not carry out, at any member; nothing has changed."""


@dataclasses.dataclass(frozen=True, slots=True)
class Command:
    """A command in its place in the order, the same at every member."""

    body: Any
    sender: ProcessId
    number: int  # which of its sender's commands, counted over all blocks: with the sender, its name for ever
    message: Message


@dataclasses.dataclass(frozen=True, slots=True)
class Part:
    """A part of a group that has come together with others: who was in it, a block's state there, and who said it."""

    members: tuple[ProcessId, ...]
    state: Any
    speaker: ProcessId = ""


class Block:
    """A state machine with a copy at every member. See the module's docstring; override what stands under the first heading."""

    kind: ClassVar[str]  # what its rows in the trace are about (``note`` in their detail)

    def __init__(self) -> None:
        self._replica: Replica | None = None
        self.name = ""  # its name in the group

    def apply(self, command: Command) -> Any:
        """Carries out a command, and returns its outcome, for the process that gave it."""
        raise NotImplementedError

    def snapshot(self) -> Any:
        """The whole state."""
        raise NotImplementedError

    def restore(self, snapshot: Any) -> None:
        """Takes a state instead of its own."""
        raise NotImplementedError

    def merge(self, parts: Sequence[Part], view: View) -> None:
        """Parts have come together in a view: makes one state of theirs. The parts are in the same order at every member."""
        raise NotImplementedError

    def changed(self, view: View) -> None:
        """A view, in its place: the first one, and those in which members come or go. (A merge is told by ``merge`` alone.)"""

    def digest(self) -> str:
        """A short text that is the same for equal states and, as good as always, different for others."""
        return digest_of(self.snapshot())

    def told(self, command: Command | None) -> dict[str, Any]:
        """What rows of this replica say besides what all blocks' do: those about a command, and those about anything else."""
        return {}

    def merged_detail(self, parts: Sequence[Part]) -> dict[str, Any]:
        """What a ``merge`` row says besides; called after ``merge``."""
        return {}

    def farewell(self) -> Any:
        """The body of a last command, which is sent when the program closes the replica; None: there is nothing to say."""
        return None

    def ended(self, reason: Reason) -> None:
        """This process follows the group no longer."""

    @property
    def replica(self) -> Replica:
        if self._replica is None:
            raise UsageError(f"this {self.kind} is in no group yet; write `async with Replica(group, name=block)` first")
        return self._replica

    @property
    def me(self) -> ProcessId:
        return self.replica.group.me

    async def execute(self, body: Any, *, timeout: float | None = None) -> Any:
        """Sends a command; returns its outcome when it has been applied here. ``timeout``: seconds, instead of the replica's
        ``patience`` (``math.inf``: as long as it takes). Whoever is cancelled here has sent the command, or not."""
        return await self.replica.execute(self.name, body, timeout)

    def tell(self, body: Any) -> None:
        """Sends a command and does not wait: for blocks that answer what they applied. A process on its way out tells nothing."""
        self.replica.tell(self.name, body)

    async def _say(self, body: Any, timeout: float | None = None) -> None:
        """Sends a command and waits, whatever comes of it: it may be too late and not count, or this process may be out."""
        with contextlib.suppress(CommandRefused, NoOutcome, ReplicaOver):
            await self.execute(body, timeout=timeout)

    def note(self, event: str, message: Message | None = None, **detail: Any) -> None:
        """Writes a row about this block into the trace."""
        self.replica.group.note(self.kind, message, block=self.name, event=event, **detail)

    def _tell(self, event: str, message: Message | None = None, **detail: Any) -> None:
        """The same, if a trace is recorded."""
        if self.replica.group.is_traced:
            self.note(event, message, **detail)

    def attach(self, replica: Replica, name: str) -> None:
        """What the replica calls: from now on the block is one of its own."""
        if self._replica is not None:
            raise UsageError(f"this {self.kind} is in a group already, as {self.name!r}; make another one")
        self._replica, self.name = replica, name


@contextlib.asynccontextmanager
async def within(limit: float, why: Callable[[], Reason]) -> AsyncIterator[None]:
    """Bounds what is awaited inside, in seconds (infinite: not at all); raises :class:`NoOutcome` when the time is over."""
    try:
        async with asyncio.timeout(limit if limit < math.inf else None) as scope:
            yield
    except TimeoutError:
        if not scope.expired():
            raise
        raise NoOutcome(why()) from None


def digest_of(state: Any) -> str:
    """A short text for a state in terms of MessagePack.

    >>> digest_of({"a": 1, "b": 2}) == digest_of({"b": 2, "a": 1})
    True
    """
    return blake2b(encode(state), digest_size=8).hexdigest()
