"""A process's membership in one group, as its host sees it.

A :class:`Membership` stands between an application's coroutines and a host, real (``live``) or simulated (``sim``). The host
calls it when the protocol takes messages, delivers, installs views, or ends the membership; applications use it through
:class:`~.group.Group`. Its parts are leaves that know nothing of it: the outgoing buffer (:mod:`.sending`), the incoming one
(:mod:`.reading`), receipts (:mod:`.receipts`) and streams with deadlines (:mod:`.deadlines`). They share a :class:`~.port.Link`.

A membership begins with its first view. It ends when the process leaves, when the group is closed, when the protocol stops the
process, or, in a group whose members stay the same, when the process has finished. A renamed group stays the same object.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from ..core.model import GroupId, ProcessId, Reason, UsageError, View
from .deadlines import Admissions
from .errors import Halted, Refused
from .events import Event, State
from .port import Link, Port
from .profile import MESSAGE_COST, Buffers, Profile
from .reading import Incoming
from .receipts import Progress
from .sending import Outgoing
from .waiting import fail

IDLE_CHECKS: Final = 4  # consecutive idle checks before ``finish()`` returns, in a group that cannot be left
_DEFAULT: Final = Buffers()


class Membership:
    """One process's membership in one group. Hosts make it and call it; :class:`~.group.Group` shows it to the application."""

    def __init__(self, port: Port, name: GroupId, me: ProcessId, profile: Profile, buffers: Buffers = _DEFAULT) -> None:
        self.profile = profile
        self.view: View | None = None  # the view in force. (The application reads it in its place among the messages.)
        self.link = Link(port, name, me)
        self.outgoing = Outgoing(self.link, buffers.outgoing, profile.largest)
        self.progress = Progress(self.link, self.outgoing.lane)
        self.admissions = Admissions(self.link, self.outgoing, self.progress, admits=profile.admits)
        self.incoming = Incoming(self.link, buffers.unread, listen=buffers.listen)
        self._closing = False  # whether this process closes the group rather than leaving it
        self._renaming: list[asyncio.Future[View]] = []
        self._joined: asyncio.Future[View] = asyncio.get_running_loop().create_future()
        self._state = asyncio.Event()
        self._ended = asyncio.Event()
        self._received = self._received_bytes = self._sent_bytes = self._views = 0
        self.delivery_observer: Callable[[Membership, ProcessId, int, int], None] | None = None  # see :meth:`observe`

    @property
    def name(self) -> GroupId:
        """The group's name now."""
        return self.link.group

    @property
    def me(self) -> ProcessId:
        return self.link.me

    @property
    def members(self) -> tuple[ProcessId, ...]:
        """The members of the view in force; empty before the first view and after the end."""
        return self.view.members if self.view is not None and self.link.over is None else ()

    @property
    def is_over(self) -> bool:
        """Whether this process is out of the group."""
        return self.link.over is not None

    def took(self, messages: int, size: int, stream: str = "") -> None:
        """The protocol took messages of that many bytes, of a stream or of those without a deadline: there is room again."""
        self._sent_bytes += size
        lane = self.admissions.took(stream, messages) if stream else self.outgoing.took(messages, size)
        self.progress.took(messages, lane)
        if self.outgoing.when_sent is not None:
            self.outgoing.check_sent()

    def deliver(self, sender: ProcessId, first: int, payloads: list[bytes], rank: int | None, size: int) -> None:
        """Messages of one sender, in their place in the order; ``size`` is about their bytes."""
        number = len(payloads)
        self._received += number
        self._received_bytes += size
        if self.delivery_observer is not None:
            self.delivery_observer(self, sender, first, number)
        if sender == self.link.me:
            self.progress.deliver(first + number - 1, rank)
        self.incoming.put(sender, first, payloads, rank, size + MESSAGE_COST * number)

    def add(self, event: Event) -> None:
        """Any other event, in its place in the order."""
        if isinstance(event, View):
            has_new_name = self.view is not None and self.view.group != event.group
            self.view = event
            self._views += 1
            if not self._joined.done():
                self._joined.set_result(event)
            if has_new_name:
                renaming, self._renaming = self._renaming, []
                for future in renaming:
                    if not future.done():
                        future.set_result(event)
        elif isinstance(event, State):
            self._state.set()
        self.incoming.put_event(event)

    def stable(self, rank: int) -> None:
        """Every member holds all messages with a rank up to this one, delivered here or not."""
        self.progress.stabilise(rank)

    def admitted(self, stream: str) -> None:
        """The protocol guarantees the deadlines of a stream."""
        self.admissions.admitted(stream)

    def rejected(self, stream: str, reason: Reason) -> None:
        """The protocol cannot guarantee the deadlines of a stream, or no longer: queued messages are not sent."""
        self.admissions.rejected(stream, reason)

    def renamed(self, name: GroupId, returned: Sequence[bytes], numbered: int) -> None:
        """The group has another name; its view follows. The messages ``returned`` were taken and will be taken again;
        ``numbered`` messages of this process had numbers under that name before."""
        self.link.group = name
        self.outgoing.returned(returned)
        self.progress.returned(len(returned), numbered)

    def left(self) -> None:
        """This process is out of the group: it asked to leave, or a member closed the group."""
        link = self.link
        if self.outgoing.when_sent is not None and not self._closing:
            self._end(Reason("left", f"{link.me} has left {link.group}"))
        else:
            by = link.me if self._closing else "another member"
            self._end(Reason("closed", f"{link.group} was closed by {by}"))

    def halted(self, reason: Reason) -> None:
        """The protocol stopped this process."""
        if self.link.over is None:
            self.link.is_halted = True
            self._end(reason)

    def _end(self, reason: Reason) -> None:
        self.link.over = reason
        self.refuse(reason)
        self.outgoing.lane.end(reason)
        self.admissions.end(reason)
        self.progress.end(reason)
        for future in (self._joined, *self._renaming):
            fail(future, Halted(reason))
        self.incoming.end()
        self._state.set()
        self._ended.set()

    async def joined(self) -> View:
        """Waits for the first view."""
        return await asyncio.shield(self._joined)

    async def has_state(self) -> None:
        """Waits until the application's state has arrived, at a process that joined a group with state transfer."""
        await self._state.wait()
        if self.link.over is not None:
            raise Halted(self.link.over)

    async def ended(self) -> None:
        """Waits until this process is out of the group, for whatever reason."""
        await self._ended.wait()

    async def leave(self) -> None:
        """Leaves the group when all accepted messages are sent."""
        link = self.link
        if not self.profile.changes:
            text = f"{link.me} cannot leave {link.group}: with this protocol the members of a group stay the same"
            raise UsageError(f"{text}; end the `async with`, or call finish(), when all members are done")
        if link.over is None:
            self.refuse(Reason("leaving", f"{link.me} is leaving {link.group} and sends nothing there any more"))
            await self._depart()
        self._raise_if_halted()

    async def close(self) -> None:
        """Closes the group for all members when the messages accepted here are sent."""
        self._check_proposes("closed")
        link = self.link
        if link.over is None:
            self.refuse(Reason("closing", f"{link.me} is closing {link.group} and sends nothing there any more"))
            self._closing = self._closing or self.outgoing.when_sent is None
            await self._depart()
        self._raise_if_halted()

    async def finish(self) -> None:
        """Leaves, or, in a group that cannot be left, waits until the group is idle."""
        if self.profile.changes:
            await self.leave()
            return
        link, outgoing = self.link, self.outgoing
        if link.over is None:
            self.refuse(Reason("finished", f"{link.me} has finished in {link.group} and sends nothing there any more"))
            idle = 0
            while link.over is None and idle < IDLE_CHECKS:
                await asyncio.sleep(self.profile.settle / IDLE_CHECKS)
                idle = idle + 1 if not outgoing.queued and not outgoing.streams_queued and self.waiting() is None else 0
            if link.over is None:
                self._end(Reason("finished", f"{link.me} has finished in {link.group}"))
        self._raise_if_halted()

    async def rename(self, name: GroupId) -> View:
        """Renames the group at all members; returns the view with the new name."""
        self._check_proposes("renamed")
        if self.outgoing.refusal is not None:
            raise Refused(self.outgoing.refusal)
        if name == self.link.group and self.view is not None:
            return self.view
        renaming: asyncio.Future[View] = asyncio.get_running_loop().create_future()
        self._renaming.append(renaming)
        self.link.port.rename(self.link.group, name)
        return await renaming

    def refuse(self, reason: Reason) -> None:
        """Accepts no more messages, for that reason."""
        self.outgoing.refuse(reason)
        self.admissions.wake_senders()

    async def _depart(self) -> None:
        """Asks the protocol to let this process go, or to close the group, once everything is sent; waits for the end."""
        if self.outgoing.when_sent is None:
            self.outgoing.when_sent = self._ask_to_go
            self.outgoing.check_sent()
        await self._ended.wait()

    def _ask_to_go(self) -> None:
        port = self.link.port
        (port.close_group if self._closing else port.leave)(self.link.group)

    def _check_proposes(self, done: str) -> None:
        if not self.profile.proposes:
            raise UsageError(f"{self.link.group} cannot be {done}: with this protocol and its parameters groups are formed once")

    def _raise_if_halted(self) -> None:
        if self.link.is_halted and self.link.over is not None:
            raise Halted(self.link.over)

    def waiting(self) -> Reason | None:
        """What the protocol still has to do."""
        return self.link.port.waiting(self.link.group)

    def admission(self) -> Mapping[str, Any] | None:
        """What the protocol guarantees here now; None if it guarantees nothing."""
        return self.link.port.admission(self.link.group) if self.profile.admits and self.link.over is None else None

    def figures(self) -> dict[str, int]:
        """Numbers about this membership. Bytes delivered are those of batches: a few more per message."""
        outgoing, incoming = self.outgoing, self.incoming
        accepted = outgoing.accepted + outgoing.streams_accepted
        queued = outgoing.queued + outgoing.streams_queued
        return {
            "accepted": accepted,
            "sent": accepted - queued,
            "queued": queued,
            "queued_bytes": outgoing.cost - MESSAGE_COST * outgoing.queued,
            "own_delivered": self.progress.delivered,
            "own_stable": self.progress.stable,
            "delivered": self._received,
            "unread_bytes": incoming.unread,
            "views": self._views,
            "members": len(self.members),
            "sent_bytes": self._sent_bytes,
            "delivered_bytes": self._received_bytes,
            "outgoing_limit": outgoing.limit,
            "unread_limit": incoming.limit,
            "blocked_ns": outgoing.blocked.total,
            "blocked_senders": outgoing.waiters,
            "overfull_ns": incoming.overfull.total,
        }

    @property
    def accepted(self) -> int:
        """Number of the last receipt of a message without a deadline."""
        return self.outgoing.accepted

    @property
    def numbered_before(self) -> int | None:
        """By how much a receipt exceeds the number of its message; None where streams make that unknown."""
        return self.progress.numbered_before

    def observe(
        self, sample: Callable[[Membership], None], delivered: Callable[[Membership, ProcessId, int, int], None] | None
    ) -> None:
        """``sample`` is called before the message of the next sampled receipt goes to the host (:meth:`sample_at`),
        ``delivered`` with the sender, the number of the first message and how many there are."""
        self.outgoing.sample = lambda: sample(self)
        self.delivery_observer = delivered

    def sample_at(self, receipt: float) -> None:
        """Chooses the next receipt to sample; infinite: none."""
        self.outgoing.sample_at = receipt

    def stop_observing(self) -> None:
        self.outgoing.stop_sampling()
        self.delivery_observer = None

    def when_delivered(self, receipt: int, callback: Callable[[asyncio.Future[None]], None]) -> None:
        """Calls back when a message without a deadline that is not delivered yet is, or is known to be lost."""
        self.outgoing.lane.delivered.call_back(receipt, callback)
