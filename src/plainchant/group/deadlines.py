"""Deadlines: streams of messages whose delivery in time the protocol guarantees.

A process asks for a stream (or for the deadline of one message, which is a stream of its own), and the protocol admits or
rejects it. Messages of an admitted stream overtake others, so each stream is a lane of its own (:mod:`.receipts`).
"""

from __future__ import annotations

import asyncio
from itertools import count
from typing import Final

from ..core.model import SECOND, Nanoseconds, Reason, UsageError, format_duration, parse_duration
from ..core.model import Stream as Wanted
from .errors import Refused, Rejected
from .port import Link
from .profile import LARGEST_MESSAGE
from .receipts import Lane, Progress, Receipt
from .sending import Outgoing, as_bytes
from .waiting import fail, now, wake

BACKLOG: Final = 16  # queued messages of a stream from which on sending in it waits
_UNNAMED: Final = "~"  # prefix of the names of streams of one message
_RELEASED: Final = "released"


class Admissions:
    """The streams of this process in one group."""

    def __init__(self, link: Link, outgoing: Outgoing, progress: Progress, *, admits: bool) -> None:
        self._link, self._outgoing, self._progress, self._admits = link, outgoing, progress, admits
        self._lanes: dict[str, Lane] = {}  # the streams by name
        self._unnamed = count(1)

    async def stream(self, name: str, size: int, deadline: str, period: str) -> Guaranteed:
        """Asks for a stream, and waits for the protocol's answer."""
        if not isinstance(name, str) or not name or name.startswith(_UNNAMED):
            raise UsageError(f"the name of a stream is {name!r}; choose a text that is not empty and begins with no {_UNNAMED}")
        if name in self._lanes:
            raise UsageError(f"there is a stream {name!r} in {self._link.group} already; send in it, or release it and ask again")
        if size.__class__ is not int or not 0 <= size <= LARGEST_MESSAGE:
            raise UsageError(f"the size of stream {name!r} is {size!r}; it is the bytes of a message, up to {LARGEST_MESSAGE}")
        wanted = Wanted(name, size, _length(deadline, "deadline", name), _length(period, "period", name))
        if wanted.deadline > wanted.period:
            text = f"the deadline of stream {name!r} is {deadline} and its period {period}: the next one would come before"
            raise UsageError(f"{text}; give a deadline of at most the period")
        lane = await self._ask_for(wanted, None)
        return Guaranteed(self, lane, wanted)

    async def send_by(self, payload: bytes, deadline: str) -> Receipt:
        """Asks for the deadline of one message, and waits for the protocol's answer."""
        payload = as_bytes(payload)
        length = _length(deadline, "deadline", "")
        lane = await self._ask_for(Wanted(f"{_UNNAMED}{next(self._unnamed)}", len(payload), length), payload)
        return Receipt(lane, 1)

    async def _ask_for(self, wanted: Wanted, payload: bytes | None) -> Lane:
        link = self._link
        if not self._admits:
            text = f"deadlines cannot be guaranteed in {link.group}: this protocol, with its parameters, has no admission control"
            raise UsageError(f"{text}; choose the protocol rtcast, with admission")
        self._outgoing.refuse_if_over(wanted.size)
        self._progress.add_streams()
        lane = self._lanes[wanted.name] = Lane(link, wanted.name)
        if payload is not None:
            self._accept(lane)
        answer = lane.answer = asyncio.get_running_loop().create_future()
        link.port.admit(link.group, wanted, payload, now())
        try:
            await answer
        except asyncio.CancelledError:
            if lane.answer is not None and lane.over is None and link.over is None:
                self._forget(lane)
                link.port.release(link.group, lane.stream)
            elif payload is None:
                self.release(lane)
            raise
        return lane

    def offer(self, lane: Lane, payload: bytes, arrived: Nanoseconds) -> Receipt:
        """Accepts the next message of an admitted stream."""
        self._accept(lane)
        self._link.port.offer(self._link.group, lane.stream, payload, arrived)
        return Receipt(lane, lane.accepted)

    def _accept(self, lane: Lane) -> None:
        lane.accepted += 1
        lane.queued += 1
        self._outgoing.streams_accepted += 1
        self._outgoing.streams_queued += 1

    def check(self, lane: Lane) -> None:
        """Fails if the stream accepts no more messages."""
        if self._outgoing.refusal is not None:
            raise Refused(self._outgoing.refusal)
        reason = lane.over
        if reason is not None:
            raise Refused(reason) if reason.code == _RELEASED else Rejected(reason)

    def release(self, lane: Lane) -> None:
        """Ends a stream; the protocol is told when its queued messages are taken."""
        if lane.over is None:
            group = self._link.group
            lane.over = Reason(_RELEASED, f"stream {lane.stream!r} in {group} was released; ask for it again to send in it")
            wake(lane.waiter)
            if not lane.queued:
                self._tell_released(lane)

    def _tell_released(self, lane: Lane) -> None:
        del self._lanes[lane.stream]
        if self._link.over is None:
            self._link.port.release(self._link.group, lane.stream)

    def _forget(self, lane: Lane) -> None:
        """Removes a stream; its queued messages will not be sent."""
        del self._lanes[lane.stream]
        self._outgoing.streams_queued -= lane.queued
        self._outgoing.streams_accepted -= lane.queued
        lane.queued = 0
        self._outgoing.check_sent()

    def admitted(self, stream: str) -> None:
        """The protocol guarantees the deadlines of a stream."""
        lane = self._lanes.get(stream)
        if lane is not None and lane.answer is not None:
            wake(lane.answer)
            lane.answer = None

    def rejected(self, stream: str, reason: Reason) -> None:
        """The protocol cannot guarantee the deadlines of a stream, or no longer: queued messages are not sent."""
        lane = self._lanes.get(stream)
        if lane is None:
            return
        lane.over = reason
        lane.end(reason, lane.taken)
        self._forget(lane)
        wake(lane.waiter)
        if lane.answer is not None and not lane.answer.done():
            lane.answer.set_exception(Rejected(reason))

    def took(self, stream: str, messages: int) -> Lane:
        """The protocol took messages of a stream."""
        lane = self._lanes[stream]
        lane.queued -= messages
        self._outgoing.streams_queued -= messages
        if lane.answer is not None:
            self.admitted(stream)
        if stream.startswith(_UNNAMED):
            del self._lanes[stream]
        elif lane.over is not None and not lane.queued:
            self._tell_released(lane)
        wake(lane.waiter)
        return lane

    def wake_senders(self) -> None:
        """Lets senders look again whether messages are accepted."""
        for lane in self._lanes.values():
            wake(lane.waiter)

    def end(self, reason: Reason) -> None:
        """The process is out of the group."""
        for lane in self._lanes.values():
            lane.end(reason)
            fail(lane.answer, Refused(reason))


class Guaranteed:
    """A stream of messages with guaranteed deadlines; :meth:`Group.stream` returns one. Times are in nanoseconds."""

    __slots__ = ("_admissions", "_earliest", "_lane", "_turnstile", "deadline", "name", "period", "size")

    def __init__(self, admissions: Admissions, lane: Lane, wanted: Wanted) -> None:
        self._admissions, self._lane = admissions, lane
        self._turnstile = asyncio.Lock()
        self._earliest = 0  # when the period since the last message is over
        self.name, self.size, self.deadline, self.period = wanted.name, wanted.size, wanted.deadline, wanted.period

    async def send(self, payload: bytes) -> Receipt:
        """Sends the next message. One that comes before its period is over waits, and its deadline counts from then on. Raises
        :class:`Rejected` if the protocol can no longer keep the stream's deadlines, :class:`Refused` if the stream was released
        or the group is over. A send that is cancelled while it waits has sent nothing."""
        payload = as_bytes(payload)
        if len(payload) > self.size:
            raise UsageError(f"{len(payload)} bytes are more than a message of stream {self.name!r} has ({self.size}); send less")
        admissions, lane = self._admissions, self._lane
        async with self._turnstile:
            while True:
                admissions.check(lane)
                arrived = now()
                if lane.queued < BACKLOG and arrived >= self._earliest:
                    break
                await self._wait(self._earliest if lane.queued < BACKLOG else None)
            self._earliest = arrived + self.period
            return admissions.offer(lane, payload, arrived)

    def release(self) -> None:
        """Ends the stream, so that the protocol need not keep room for it. What was accepted is sent."""
        self._admissions.release(self._lane)

    async def _wait(self, until: int | None) -> None:
        """Waits until a message is taken, the stream is over, or that time."""
        loop = asyncio.get_running_loop()
        waiter = self._lane.waiter = loop.create_future()
        timer = loop.call_at(until / SECOND, wake, waiter) if until is not None else None
        try:
            await waiter
        finally:
            self._lane.waiter = None
            if timer is not None:
                timer.cancel()

    def __repr__(self) -> str:
        lengths = f"size={self.size}, deadline={format_duration(self.deadline)}, period={format_duration(self.period)}"
        return f"<Guaranteed {self.name!r} in {self._lane.link.group!r}: {lengths}>"


def _length(given: str, what: str, stream: str) -> Nanoseconds:
    of = f" of stream {stream!r}" if stream else ""
    if not isinstance(given, str):
        raise UsageError(f'the {what}{of} is {given!r}: write a number and a unit, such as "50ms" or "2s"')
    length = parse_duration(given)
    if length < 1:
        raise UsageError(f"the {what}{of} is {given}; give it a positive one")
    return length
