"""The group as an application sees it: send, and read one ordered stream of messages and views.

A :class:`Group` has only what applications call; the state behind it, and what hosts call, is :class:`~.membership.Membership`.
An application cannot tell whether its host is real (``live``) or simulated (``sim``).
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Coroutine, Mapping, Sequence
from typing import Any, Protocol

import msgspec

from ..core.model import GroupId, ProcessId, Reason, UsageError, View
from .deadlines import Guaranteed
from .events import Event, Message
from .membership import Membership
from .profile import OUTGOING, UNREAD, Guarantees
from .reading import Stream, read_together
from .receipts import Receipt


class Founder(Protocol):
    """The process that is in a group, as far as it forms other groups: the node, or its counterpart in the simulator."""

    async def form(
        self,
        group: GroupId,
        members: Sequence[str],
        *,
        timeout: float = 30.0,
        outgoing: int = OUTGOING,
        unread: int = UNREAD,
        listen: bool = True,
    ) -> Group:
        """Proposes a group to the processes at these places; returns when those that agree have formed it."""

    async def next_group(self) -> Group:
        """Waits for the next group that this process is in because another process proposed it."""


class Group:
    """One process's membership in one group. Made by ``plainchant.join``, ``Node.join`` or ``plainchant.sim``."""

    __slots__ = ("__weakref__", "_membership", "_node", "_outgoing")

    def __init__(self, membership: Membership, node: Founder | None = None) -> None:
        self._membership = membership
        self._outgoing = membership.outgoing
        self._node = node

    def __repr__(self) -> str:
        over, view = self._membership.link.over, self.view
        where = f"view {view.number} of {', '.join(view.members)}" if view is not None else "no view yet"
        return f"<Group {self.name!r} at {self.me!r}: {over.text if over is not None else where}>"

    @property
    def name(self) -> GroupId:
        """The group's name now; see :meth:`rename`."""
        return self._membership.link.group

    @property
    def me(self) -> ProcessId:
        """The name under which this process is known in the group."""
        return self._membership.link.me

    @property
    def view(self) -> View | None:
        """The view in force: the members of the group. (In the stream it comes in its place among the messages.)"""
        return self._membership.view

    @property
    def members(self) -> tuple[ProcessId, ...]:
        """The members now, as far as this process knows; empty before it has joined and after it has left."""
        return self._membership.members

    @property
    def guarantees(self) -> Guarantees:
        """What the protocol promises in this group, and under which faults."""
        return self._membership.profile.guarantees

    @property
    def formed(self) -> bool:
        """Whether this process formed the group, so that nothing was sent before; otherwise it joined a group that existed."""
        return self._membership.profile.formed

    @property
    def changes(self) -> bool:
        """Whether members can join and leave; if not, the group is formed once and ends as a whole."""
        return self._membership.profile.changes

    @property
    def node(self) -> Founder:
        """The process that is in the group: a program asks it for other groups, live and simulated."""
        if self._node is None:
            raise UsageError(f"{self.name} was made without a process that could form other groups")
        return self._node

    @property
    def is_over(self) -> bool:
        """Whether this process is out of the group: it left, or the group was closed, or the process was stopped."""
        return self._membership.link.over is not None

    def send(self, payload: bytes, *, deadline: str | None = None) -> Coroutine[Any, Any, Receipt]:
        """Sends a message; waits while there is no room. Once it returns the message is accepted for good.

        With a ``deadline`` (``"50ms"``, from now on), where the protocol can guarantee one: waits until the protocol has admitted
        the message, and raises :class:`Rejected` if it cannot be delivered in time. For periodic messages :meth:`stream` keeps
        room.

        Raises :class:`Refused` if it cannot be accepted. A send that is cancelled while it waits has sent nothing; if the
        protocol admits it in that very moment, it is sent.
        """
        if deadline is None:
            return self._outgoing.send(payload)
        return self._membership.admissions.send_by(payload, deadline)

    def try_send(self, payload: bytes) -> Receipt | None:
        """Sends a message if there is room now; None if there is not. Raises :class:`Refused` if there never will be."""
        return self._outgoing.try_send(payload)

    def send_many(self, payloads: Sequence[bytes]) -> Coroutine[Any, Any, Receipt]:
        """Sends messages in their order: all of them or, if it is cancelled or refused, none. The fast way to send: one call for
        many messages. The receipt is that of the last."""
        return self._outgoing.send_many(payloads)

    def stream(self, name: str, *, size: int, deadline: str, period: str) -> Coroutine[Any, Any, Guaranteed]:
        """Asks for a stream of messages whose deadlines are guaranteed: each has at most ``size`` bytes, is delivered within
        ``deadline`` of being sent, and comes at least ``period`` after the one before; durations are text (``"50ms"``). Returns
        when the protocol has admitted it, and raises :class:`Rejected` if it cannot. The protocol keeps room for the stream until
        it is released."""
        return self._membership.admissions.stream(name, size, deadline, period)

    @property
    def admission(self) -> Mapping[str, Any] | None:
        """What the protocol guarantees here and how much room it has left, in nanoseconds; None if it guarantees nothing."""
        return self._membership.admission()

    def __aiter__(self) -> Stream:
        return self._membership.incoming.stream

    def __anext__(self) -> Coroutine[Any, Any, Event]:
        return self._membership.incoming.stream.__anext__()

    def batches(self) -> AsyncIterator[list[Event]]:
        """Everything that has arrived, as lists of events in order: the fast way to read."""
        return self._membership.incoming.stream.batches()

    def stop_listening(self) -> None:
        """Reads no more: events are discarded as they arrive, and do not slow the group down."""
        self._membership.incoming.stop_listening()

    async def leave(self) -> None:
        """Leaves the group: what was accepted is sent first. Returns when the group has released this process. The request
        stands: if the caller is cancelled, the process leaves all the same, when it can."""
        await self._membership.leave()

    async def close(self) -> None:
        """Closes the group for all its members: what this process accepted is sent first. Returns when the group is over here.
        The streams of all members end. What others have accepted and not sent by then is lost, as their receipts tell."""
        await self._membership.close()

    async def finish(self) -> None:
        """Ends this process's part in a group that cannot be left: sends what was accepted, and waits until the group is idle.
        Returns when this process has had nothing to do there for so long that no fault can have gone unnoticed. The others still
        count on the process: it stays in the group until its node is closed. A group that can be left is left."""
        await self._membership.finish()

    async def ended(self) -> None:
        """Waits until this process is out of the group, for whatever reason."""
        await self._membership.ended()

    async def rename(self, name: GroupId) -> View:
        """Renames the group, at all members. Returns when it is done, with the view that bears the new name. The group goes on:
        its stream has a view with the new name, and what waits to be sent is sent under it. If two members choose at once, one of
        the names wins everywhere; look at ``view.group``."""
        return await self._membership.rename(name)

    def waiting(self) -> Reason | None:
        """What the protocol still has to do here, or None: for people who ask why nothing moves."""
        return self._membership.waiting()

    def metrics(self) -> dict[str, int]:
        """Numbers about this membership since it began, and the process's counters of packets."""
        return {**self._membership.figures(), **self._membership.link.port.counters()}

    @property
    def is_traced(self) -> bool:
        """Whether a trace is recorded here: if not, a :meth:`note` has no effect and need not be computed."""
        return not self.is_over and self._membership.link.port.is_traced()

    def note(self, about: str, message: Message | None = None, **detail: Any) -> None:
        """Writes a row of kind ``note`` into the trace: what the application did, for its own checks and for explanations.
        ``about`` is the kind of the note (``"payment"``), ``message`` the message that it is about, ``detail`` the rest, in terms
        of JSON. The row stands in this process's history behind everything that the program has read so far. A process's history
        ends when it leaves its last group or is stopped; what is noted later is not part of it."""
        if not isinstance(about, str) or not about or "note" in detail:
            raise UsageError(f"a note is about something: give it a name, not {about!r}, and no detail that is called note")
        whole = {"note": about, **detail}
        try:
            msgspec.json.encode(whole)
        except (TypeError, ValueError, OverflowError, RecursionError, msgspec.MsgspecError) as error:
            raise UsageError(f"a note about {about!r} is not JSON: {error}; note texts, numbers, lists and mappings") from error
        if self.is_traced:
            sender, seq = (message.sender, message.seq) if message is not None else (None, None)
            self._membership.link.port.write_note(self.name, sender, seq, whole)


def merged(*groups: Group) -> Stream:
    """Reads several groups of one process as one stream: ``async for event in merged(red, blue)``. Events come in the order in
    which the protocol delivered them at this process, so what it promises across groups holds in the stream; ``event.group``
    names the group of each. The stream ends when all groups have, and raises :class:`Halted` when the process was stopped."""
    strangers = [type(group).__name__ for group in groups if not isinstance(group, Group)]
    if strangers:
        text = f"merged reads groups, and a {strangers[0]} was given"
        raise UsageError(f"{text}; write merged(red, blue), or merged(*groups.values()) if they are in a dictionary")
    if not groups:
        raise UsageError("merged reads groups, and none was given; name those that are to be read together")
    first = groups[0]
    for group in groups:
        if group._membership.link.port is not first._membership.link.port:
            text = f"{first.name!r} at {first.me} and {group.name!r} at {group.me} are groups of different processes"
            raise UsageError(f"{text}, between which there is no order of delivery; merge groups that were joined from one Node")
    twice = sorted({group.name for group in groups if groups.count(group) > 1})
    if twice:
        raise UsageError(f"merged reads each group once; named twice: {', '.join(twice)}")
    return read_together(tuple(group._membership.incoming for group in groups))
