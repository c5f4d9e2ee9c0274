"""A group as an asyncio program sees it: send, and read one ordered stream of messages and views.

Theory of operation
-------------------
A :class:`Group` stands between an application's coroutines and a host, which may be real (``live``) or simulated (``sim``);
neither it nor the application can tell the difference. Two bounded buffers make it:

- *Outgoing.* ``send`` waits for room, ``try_send`` does not; what is accepted is accepted for good. The protocol takes messages
  when it may send, which makes room. Many senders wait in the order in which they came.
- *Incoming.* Deliveries and views are kept in their order until they are read. Objects are made for all of them at once when
  somebody reads, so that a message costs little. When too much is unread the protocol is told (``Pressure``), which slows the
  whole group's senders down; when enough is read it is told again.

A reader that always finds something never waits, and then nothing else in the program would run. So the event loop gets its
turn after some milliseconds of reading; meanwhile the next events accumulate.

*Several groups.* Whatever comes gets a stamp from one counter, so the order in which a process's groups were delivered to is
known when they are read. A :class:`Stream` reads one group, or several (:func:`merged`): it takes what bears the smallest
stamps. All that comes later bears larger ones, so nothing ever has to wait for another group. Events are taken from the buffers
many at a time; if another stream turns to a group, what was taken from it and not given out goes back to its place.

Accepted messages get the numbers 1, 2, 3, ... in their lane, so a receipt is a number, and ``delivered`` and ``stable`` wait
until the lane's marks have come so far. A group that gets another name stays the same object: receipts count on, while the
messages' own numbers begin again under the new name.

*Lanes.* Messages with deadlines (``stream``, ``send`` with a deadline) overtake others, so each stream is a lane of its own, and
those without deadlines are another. As long as there is only that one, the number of a message says which receipt is meant.
From the first stream on a list of runs says it: so many messages were taken of this lane, then so many of that. Messages come
back in the order in which they were taken.

This module imports ``model`` and the registry; hosts import it.
"""

from __future__ import annotations

import asyncio
import dataclasses
import heapq
import math
from collections import deque
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Mapping, Sequence
from itertools import count, repeat
from typing import Any, Final, Protocol, TypeAlias

import msgspec

from ..core.model import (
    SECOND,
    GroupId,
    Nanoseconds,
    PlainchantError,
    ProcessId,
    Reason,
    UsageError,
    View,
    format_duration,
    parse_duration,
)
from ..core.model import Stream as Wanted
from ..protocols.registry import Promise

OUTGOING: Final = 4 << 20
"""Bytes of messages that wait to be sent before ``send`` waits."""
UNREAD: Final = 64 << 20
"""Bytes of events that wait to be read before the group is slowed down."""
MESSAGE_COST: Final = 64
"""What a message counts for in these buffers besides its bytes."""
LARGEST_MESSAGE: Final = 1 << 30
MOST_AT_ONCE: Final = 4096
"""A reader gets about so many events at a time, at the most."""
READ_FOR: Final = 0.005
"""Seconds that a reader goes on reading what is there before the event loop has its turn."""
LOOKS: Final = 4
"""So often it is looked whether a group is at rest, and always is, before a member that cannot leave it has finished."""
BACKLOG: Final = 16
"""Messages of a stream that wait to be taken before sending in it waits."""
_UNNAMED: Final = "~"
"""What the names of streams of one message begin with."""
_RELEASED: Final = "released"
_ONLY_BYTES: Final = {bytes}
_stamps: Final = count()
"""What comes is numbered with these, in whatever group it comes."""


# --- what an application gets ---------------------------------------------------------------------------------------


class Message(msgspec.Struct, frozen=True, gc=False):
    """A message of the group, in its place in the order. ``seq`` counts its sender's messages in the group of that name."""

    sender: ProcessId
    payload: bytes
    seq: int
    group: GroupId
    rank: int | None = None
    """The message's place in the protocol's own order, where there is one."""


class StateRequest(msgspec.Struct, frozen=True):
    """A process has joined in the view before this event and needs the application's state as it is now.

    Whoever gets it answers with ``write`` and ``close``, at once or later, from any task; what is written must be the state at
    this place in the stream, so take a copy before reading on.
    """

    group: GroupId
    joiner: ProcessId
    view: int
    answer: StateAnswer

    async def write(self, chunk: bytes) -> None:
        """Sends a part of the state, of any size; waits while the joiner is behind."""
        await self.answer.write(chunk)

    async def close(self) -> None:
        """The state is complete."""
        await self.answer.close()

    async def reply(self, state: bytes) -> None:
        """Sends the whole state."""
        await self.answer.write(state)
        await self.answer.close()

    async def refuse(self, why: str) -> None:
        """There is no state to be had here; the joiner gives up and joins again."""
        await self.answer.refuse(why)


class StateAnswer(Protocol):
    """The way back of a :class:`StateRequest`."""

    async def write(self, chunk: bytes) -> None: ...

    async def close(self) -> None: ...

    async def refuse(self, why: str) -> None: ...


class State(msgspec.Struct, frozen=True):
    """The application's state as it was at the view in which this process joined; what follows in the stream comes after it."""

    group: GroupId
    view: int
    donor: ProcessId
    chunks: tuple[bytes, ...]

    @property
    def payload(self) -> bytes:
        """The state in one piece."""
        return b"".join(self.chunks)


Event: TypeAlias = Message | View | StateRequest | State


@dataclasses.dataclass(frozen=True, slots=True)
class Guarantees:
    """What is promised, as long as what."""

    promises: tuple[Promise, ...]
    faults: tuple[str, ...]
    """Kinds of fault under which the promises hold."""

    def __contains__(self, name: object) -> bool:
        return any(promise.name == name for promise in self.promises)

    def __str__(self) -> str:
        lines = [f"{promise.name}: {promise.provided}" for promise in self.promises]
        return "\n".join([*lines, f"under {', '.join(self.faults)}"])


class GroupError(PlainchantError):
    """Something about a group went wrong; ``reason`` says what, for programs and for people."""

    def __init__(self, reason: Reason) -> None:
        super().__init__(reason.text)
        self.reason = reason


class Refused(GroupError):
    """A message was not accepted: nobody will ever get it."""


class Halted(GroupError):
    """The protocol has stopped this process: it was excluded, is in a minority, ... Join again to go on."""


class NotFormed(GroupError):
    """A group that was proposed was not formed: nobody agreed, or nobody answered."""


class Rejected(GroupError):
    """Deadlines cannot be guaranteed beside those that are. ``reason`` says what is too much, and ``reason.evidence`` has the
    nearest deadline that would be accepted (``nearest_ns``), if there is one. Nothing was sent."""


class JoinTimeout(GroupError):
    """The group did not let us in in time."""


class LeaveTimeout(GroupError):
    """The group did not let us go in time: messages that were accepted may not have been sent."""


class Lost(GroupError):
    """What a receipt waited for will not be known: the process left, or was stopped, or nobody tells in this group."""


# --- marks and receipts ---------------------------------------------------------------------------------------------


class _Mark:
    """A number that only grows, and those who wait for it to come so far."""

    __slots__ = ("_order", "_over", "_still", "_waiting", "value")

    def __init__(self) -> None:
        self.value = 0
        self._waiting: list[tuple[int, int, asyncio.Future[None]]] = []
        self._order = count()
        self._over: Reason | None = None
        self._still = 0
        """How far it may grow when it is over."""

    async def reach(self, value: int) -> None:
        if self.value >= value:
            return
        if self._over is not None and value > self._still:
            raise Lost(self._over)
        future = asyncio.get_running_loop().create_future()
        heapq.heappush(self._waiting, (value, next(self._order), future))
        await future

    def tell(self, value: int, callback: Callable[[asyncio.Future[None]], None]) -> None:
        """Calls back when it has come so far, or when it is known that it never will."""
        future = asyncio.get_running_loop().create_future()
        heapq.heappush(self._waiting, (value, next(self._order), future))
        future.add_done_callback(callback)

    def advance(self, value: int) -> None:
        self.value = value
        waiting = self._waiting
        while waiting and waiting[0][0] <= value:
            future = heapq.heappop(waiting)[2]
            if not future.done():
                future.set_result(None)

    def end(self, reason: Reason, still: int = 0) -> None:
        """It will not grow any more, beyond ``still``."""
        self._over = reason
        self._still = still
        for value, _, future in self._waiting:
            if value > still and not future.done():
                future.set_exception(Lost(reason))
        self._waiting = [entry for entry in self._waiting if entry[0] <= still]
        heapq.heapify(self._waiting)


class _Stopwatch:
    """How long something has lasted, all times that it did together, by the event loop's time."""

    __slots__ = ("_before", "_loop", "_since")

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._before = 0.0
        self._since: float | None = None

    def start(self) -> None:
        self._since = self._loop.time()

    def stop(self) -> None:
        if self._since is not None:
            self._before += self._loop.time() - self._since
            self._since = None

    @property
    def total(self) -> Nanoseconds:
        running = self._loop.time() - self._since if self._since is not None else 0.0
        return round((self._before + running) * SECOND)


class _Runs:
    """Which messages the numbers mean that messages get when they are taken, over all lanes: so many of this lane, then so many
    of that."""

    __slots__ = ("_runs",)

    def __init__(self) -> None:
        self._runs: deque[tuple[int, int, _Lane, int]] = deque()
        """Numbers of the first and the last message of a run, their lane, the last one's place in it."""

    def add(self, first: int, last: int, lane: _Lane, place: int) -> None:
        """Messages that were taken."""
        runs = self._runs
        if runs and runs[-1][2] is lane:
            first = runs.pop()[0]
        runs.append((first, last, lane, place))

    def come_to(self, number: int) -> Iterator[tuple[_Lane, int]]:
        """The lanes of which something is among the messages up to a number, and the places in them that this comes to."""
        runs = self._runs
        while runs and runs[0][1] <= number:
            _, _, lane, place = runs.popleft()
            yield lane, place
        if runs and runs[0][0] <= number:
            _, last, lane, place = runs[0]
            yield lane, place - (last - number)

    def lanes(self) -> list[_Lane]:
        """The lanes of messages that have not come."""
        return [lane for _, _, lane, _ in self._runs]


class _Lane:
    """Messages of a group that do not overtake each other: those of one stream, or those without a deadline."""

    __slots__ = ("accepted", "answer", "delivered", "group", "is_over", "name", "queued", "stable", "waiter")

    def __init__(self, group: Group, name: str) -> None:
        self.group = group
        self.name = name
        """The stream's name; empty: messages without a deadline."""
        self.accepted = 0
        self.queued = 0
        """Messages that were accepted and not taken."""
        self.delivered = _Mark()
        self.stable = _Mark()
        self.answer: asyncio.Future[None] | None = None
        """Whoever asked for admission waits for this, until there is an answer."""
        self.is_over: Reason | None = None
        """Why no more messages are accepted."""
        self.waiter: asyncio.Future[None] | None = None
        """Whoever sends in the stream waits for this."""

    def end(self, reason: Reason, still: int = 0) -> None:
        """Nothing more becomes of its messages beyond ``still``."""
        self.delivered.end(reason, still)
        self.stable.end(reason, still)


class Receipt:
    """What ``send`` gives: the number of an accepted message, and a way to wait for what becomes of it."""

    __slots__ = ("_lane", "seq")

    def __init__(self, lane: _Lane, seq: int) -> None:
        self._lane = lane
        self.seq = seq
        """The message's place among those that were accepted: of its stream, or without a deadline."""

    @property
    def is_delivered(self) -> bool:
        """Whether the message has come back in the group's order."""
        return self._lane.delivered.value >= self.seq

    async def delivered(self) -> None:
        """Waits until the message has come back in the group's order: everybody who stays gets it in that place."""
        await self._lane.delivered.reach(self.seq)

    async def stable(self) -> None:
        """Waits until every member of the view holds the message. (Only where messages have a rank: in a total order.)"""
        await self._lane.stable.reach(self.seq)

    def __repr__(self) -> str:
        stream = f", stream={self._lane.name!r}" if self._lane.name else ""
        return f"Receipt(group={self._lane.group.name!r}{stream}, seq={self.seq})"


# --- the group ------------------------------------------------------------------------------------------------------


class Port(Protocol):
    """What a group asks of its host. The host never calls a group from inside these."""

    def accept(self, group: GroupId, payloads: Sequence[bytes]) -> None:
        """Takes messages into the host's queue; the host says ``took`` when the protocol has taken some."""

    def leave(self, group: GroupId) -> None:
        """Asks the protocol to leave; ``left`` is called when it has."""

    def close_group(self, group: GroupId) -> None:
        """Asks the protocol to close the group; ``left`` is called at every member."""

    def rename(self, group: GroupId, name: GroupId) -> None:
        """Asks the protocol to give the group another name; ``renamed`` is called at every member."""

    def pressure(self, group: GroupId, full: bool) -> None:
        """Tells the protocol that too much is unread here, or no longer."""

    def waiting(self, group: GroupId) -> Reason | None:
        """What the protocol still has to do."""

    def counters(self) -> Mapping[str, int]:
        """Counters of the process: packets and the like."""

    def admit(self, group: GroupId, wanted: Wanted, payload: bytes | None, arrived: Nanoseconds) -> None:
        """Asks the protocol to guarantee the deadlines of a stream (``model.Admit``); ``admitted`` or ``rejected`` is called when
        it has answered. ``payload``: the one message of a stream without a period, handed over at ``arrived`` (``host.now``)."""

    def offer(self, group: GroupId, stream: str, payload: bytes, arrived: Nanoseconds) -> None:
        """Takes the next message of a stream that was admitted into the host's queue for it; ``took`` says when it is taken."""

    def release(self, group: GroupId, stream: str) -> None:
        """Tells the protocol that there will be no more messages in a stream (``model.Release``); none of them waits any more."""

    def admission(self, group: GroupId) -> Mapping[str, Any] | None:
        """What is guaranteed now, and how much room is left; None: the protocol does not say."""

    def is_traced(self) -> bool:
        """Whether what happens at this process is recorded in a trace."""

    def write_note(self, group: GroupId, sender: ProcessId | None, seq: int | None, detail: dict[str, Any]) -> None:
        """Writes a ``note`` row into the trace, if there is one and this process is still part of it."""


class Founder(Protocol):
    """The process that a group is a membership of, as far as it forms other groups: the node, or its like in the simulator."""

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
        """Proposes a group to the processes at these places; returns when it is formed, by those who agree."""

    async def next_group(self) -> Group:
        """Waits for the next group that this process is in because somebody proposed it."""


def check_buffers(outgoing: int, unread: int) -> None:
    """Refuses buffers that hold nothing."""
    if outgoing < 1 or unread < 1:
        raise UsageError("the outgoing and unread buffers of a group hold at least one byte; make them larger")


class Group:
    """One process's membership in one group. Made by ``plainchant.join``, ``Node.join`` or ``plainchant.sim``."""

    def __init__(
        self,
        port: Port,
        name: GroupId,
        me: ProcessId,
        guarantees: Guarantees,
        *,
        outgoing: int = OUTGOING,
        unread: int = UNREAD,
        listen: bool = True,
        formed: bool = True,
        changes: bool = True,
        proposes: bool = False,
        admits: bool = False,
        settle: float = 0.0,
        largest: int = LARGEST_MESSAGE,
        node: Founder | None = None,
    ) -> None:
        check_buffers(outgoing, unread)
        self._largest = largest
        """Bytes that a message of this process may have: of one that only sends, no more than go in one piece."""
        self._port = port
        self.name = name
        self.me = me
        self.guarantees = guarantees
        self.formed = formed
        """Whether this process formed the group, so that nothing was sent before; else it was let into one that existed."""
        self.changes = changes
        """Whether the protocol lets members come and go; if not, the group is formed once and ends as a whole."""
        self._node = node
        self._proposes = proposes
        """Whether the protocol can close and rename groups."""
        self._admits = admits
        """Whether the protocol can guarantee deadlines."""
        self._settle = settle
        """Seconds for which such a group is at rest before a member has finished."""
        self.view: View | None = None
        """The view in force: who is in the group. (In the stream it comes in its place among the messages.)"""
        self._limit = outgoing
        self._unread_limit = unread
        self._listen = listen
        # outgoing
        self._queued = 0
        self._queued_cost = 0
        self._accepted = 0
        self._lane = _Lane(self, "")
        """Messages without a deadline; how many are queued and accepted of them is said by the group itself."""
        self._lanes: dict[str, _Lane] = {}
        """The streams, by name."""
        self._streams_queued = 0
        """Messages of streams that wait to be taken."""
        self._streams_accepted = 0
        self._unnamed = count(1)
        self._has_streams = False
        """Whether there is, or was, a stream; else every message is of one lane."""
        self._undelivered = _Runs()
        """What was taken since then and is not delivered."""
        self._unstable = _Runs()
        """What was taken since then and is not stable."""
        self._turnstile = asyncio.Lock()
        self._waiters = 0
        self._room: asyncio.Future[None] | None = None
        self._leaving = False
        """Whether this process leaves, or closes the group, when what was accepted is sent."""
        self._closing = False
        """Whether it is the latter."""
        self._numbered_before = 0
        """What is to be added to a message's number to get that of its receipt, in a group that had other names."""
        self._naming: list[asyncio.Future[View]] = []
        self._name_read = name
        """What the group was called where reading has come to."""
        self._refusal: Reason | None = None
        self._own_delivered = 0
        """The number of the last own message that was delivered, counted over all names."""
        self._own_stable = 0
        self._stable_rank = -1
        self._own: deque[tuple[int, int]] = deque()
        # incoming
        self._incoming: deque[_Arrived] = deque()
        self._unread_cost = 0
        self._full = False
        self._stream = Stream((self,))
        """This group alone."""
        self._reading = self._stream
        """The stream that reads this group, or did so last."""
        self._over: Reason | None = None
        self._halted = False
        self._ended = asyncio.Event()
        self._state = asyncio.Event()
        self._joined: asyncio.Future[View] = asyncio.get_running_loop().create_future()
        self._received = 0
        self._received_bytes = 0
        self._sent_bytes = 0
        self._views = 0
        # who looks on
        self._blocked = _Stopwatch()
        """While somebody waits for room."""
        self._overfull = _Stopwatch()
        """While too much is unread."""
        self.sample_at: float = math.inf
        """The receipt of the next message that somebody wants to know of; infinite: of none."""
        self.take_sample: Callable[[Group], None] = _forget_sample
        """Is called when messages with receipts so large are about to be handed to the host, and says which is the next."""
        self.see_delivery: Callable[[Group, ProcessId, int, int], None] | None = None
        """Is told of what is delivered: the sender, the number of the first message, how many there are."""

    # --- sending ----------------------------------------------------------------------------------------------------

    async def send(self, payload: bytes, *, deadline: str | None = None) -> Receipt:
        """Sends a message; waits while there is no room. Once it returns the message is accepted for good.

        With a ``deadline`` (``"50ms"``, from now on), where the protocol can guarantee one: waits for the protocol's word that
        the message will be delivered in time, and raises :class:`Rejected` if it cannot be. For messages that come again and
        again :meth:`stream` keeps room.

        Raises :class:`Refused` if it cannot be accepted. A send that is cancelled while it waits has sent nothing; if the
        protocol has given its word in that very moment, it is sent.
        """
        if deadline is not None:
            return await self._send_by(payload, deadline)
        if payload.__class__ is not bytes:
            payload = _as_bytes(payload)
        cost = len(payload) + MESSAGE_COST
        if len(payload) > self._largest:
            self._refuse_size(len(payload))
        if self._refusal is not None or self._waiters or not self._fits(cost):
            await self._wait_for_room(cost)
        self._queued += 1
        self._queued_cost += cost
        self._accepted += 1
        if self._accepted >= self.sample_at:
            self.take_sample(self)
        self._port.accept(self.name, (payload,))
        return Receipt(self._lane, self._accepted)

    def try_send(self, payload: bytes) -> Receipt | None:
        """Sends a message if there is room now; None if there is not. Raises :class:`Refused` if there never will be."""
        if payload.__class__ is not bytes:
            payload = _as_bytes(payload)
        cost = len(payload) + MESSAGE_COST
        if len(payload) > self._largest:
            self._refuse_size(len(payload))
        self._refuse_if_over(cost)
        if self._waiters or not self._fits(cost):
            return None
        self._queued += 1
        self._queued_cost += cost
        self._accepted += 1
        if self._accepted >= self.sample_at:
            self.take_sample(self)
        self._port.accept(self.name, (payload,))
        return Receipt(self._lane, self._accepted)

    async def send_many(self, payloads: Sequence[bytes]) -> Receipt:
        """Sends messages, one after the other in the order: all of them or, if it is cancelled or refused, none.

        The fast way to send: one call for many messages. The receipt is that of the last.
        """
        if not payloads:
            return Receipt(self._lane, self._accepted)
        if set(map(type, payloads)) != _ONLY_BYTES:
            payloads = [_as_bytes(payload) for payload in payloads]
        if self._largest < LARGEST_MESSAGE and (largest := max(map(len, payloads))) > self._largest:
            self._refuse_size(largest)
        cost = sum(map(len, payloads)) + MESSAGE_COST * len(payloads)
        if self._refusal is not None or self._waiters or not self._fits(cost):
            await self._wait_for_room(cost, max(map(len, payloads)))
        self._queued += len(payloads)
        self._queued_cost += cost
        self._accepted += len(payloads)
        if self._accepted >= self.sample_at:
            self.take_sample(self)
        self._port.accept(self.name, payloads)
        return Receipt(self._lane, self._accepted)

    def _fits(self, cost: int) -> bool:
        """Whether there is room; something larger than the whole buffer fits when it is empty."""
        return self._queued_cost + cost <= self._limit or (not self._queued and cost <= LARGEST_MESSAGE)

    async def _wait_for_room(self, cost: int, largest: int = 0) -> None:
        """Waits behind those who came before. (``largest``: the size of the largest of many messages.)"""
        self._refuse_if_over(largest or cost)
        self._waiters += 1
        if self._waiters == 1:
            self._blocked.start()
        try:
            async with self._turnstile:
                while True:
                    self._refuse_if_over(largest or cost)
                    if self._queued_cost + cost <= self._limit or not self._queued:
                        return
                    self._room = asyncio.get_running_loop().create_future()
                    try:
                        await self._room
                    finally:
                        self._room = None
        finally:
            self._waiters -= 1
            if not self._waiters:
                self._blocked.stop()

    def _refuse_size(self, size: int) -> None:
        if self._largest == LARGEST_MESSAGE:
            self._refuse_if_over(size)
        raise UsageError(
            f"{self.me} only sends in {self.name}, so its messages go in one piece and have at most {self._largest} bytes, not "
            f"{size}; send it in parts, or choose parameters with more room"
        )

    def _refuse_if_over(self, size: int) -> None:
        if self._refusal is not None:
            raise Refused(self._refusal)
        if size > LARGEST_MESSAGE:
            text = f"{size} bytes are more than a message may have ({LARGEST_MESSAGE}); send it in parts"
            raise Refused(Reason("too large", text))

    # --- sending with deadlines -------------------------------------------------------------------------------------

    async def stream(self, name: str, *, size: int, deadline: str, period: str) -> Guaranteed:
        """Asks for a stream of messages whose deadlines are guaranteed: each has at most ``size`` bytes, is delivered within
        ``deadline`` of being sent, and comes at least ``period`` after the one before; durations are text (``"50ms"``).

        Returns when the protocol has taken it on, and raises :class:`Rejected` if it cannot. It keeps room for the stream until
        it is released.
        """
        if not isinstance(name, str) or not name or name.startswith(_UNNAMED):
            raise UsageError(f"the name of a stream is {name!r}; choose a text that is not empty and begins with no {_UNNAMED}")
        if name in self._lanes:
            raise UsageError(f"there is a stream {name!r} in {self.name} already; send in it, or release it and ask again")
        if size.__class__ is not int or not 0 <= size <= LARGEST_MESSAGE:
            raise UsageError(f"the size of stream {name!r} is {size!r}; it is the bytes of a message, up to {LARGEST_MESSAGE}")
        wanted = Wanted(name, size, _length(deadline, "deadline", name), _length(period, "period", name))
        if wanted.deadline > wanted.period:
            raise UsageError(
                f"the deadline of stream {name!r} is {deadline} and its period {period}: the next one would come before; give "
                f"a deadline of at most the period"
            )
        lane = await self._ask_for(wanted, None)
        return Guaranteed(self, lane, wanted)

    async def _send_by(self, payload: bytes, deadline: str) -> Receipt:
        payload = _as_bytes(payload)
        length = _length(deadline, "deadline", "")
        lane = await self._ask_for(Wanted(f"{_UNNAMED}{next(self._unnamed)}", len(payload), length), payload)
        return Receipt(lane, 1)

    async def _ask_for(self, wanted: Wanted, payload: bytes | None) -> _Lane:
        """Asks the protocol for a stream, and waits for its answer."""
        if not self._admits:
            raise UsageError(
                f"deadlines cannot be guaranteed in {self.name}: this protocol, with its parameters, has no admission control; "
                f"choose the protocol rtcast, with admission"
            )
        self._refuse_if_over(wanted.size)
        if not self._has_streams:
            self._has_streams = True
            if taken := self._accepted - self._queued:
                self._undelivered.add(1, taken, self._lane, taken)
                self._unstable.add(1, taken, self._lane, taken)
        lane = self._lanes[wanted.name] = _Lane(self, wanted.name)
        if payload is not None:
            lane.accepted = lane.queued = 1
            self._streams_queued += 1
            self._streams_accepted += 1
        answer = lane.answer = asyncio.get_running_loop().create_future()
        self._port.admit(self.name, wanted, payload, _now())
        try:
            await answer
        except asyncio.CancelledError:
            if lane.answer is not None and lane.is_over is None and self._over is None:
                self._forget(lane)
                self._port.release(self.name, lane.name)
            elif payload is None:
                self._release(lane)
            raise
        return lane

    def _release(self, lane: _Lane) -> None:
        """No more messages; the protocol is told when those that wait are taken."""
        if lane.is_over is None:
            lane.is_over = Reason(_RELEASED, f"stream {lane.name!r} in {self.name} was released; ask for it again to send in it")
            _wake(lane.waiter)
            if not lane.queued:
                self._say_released(lane)

    def _say_released(self, lane: _Lane) -> None:
        del self._lanes[lane.name]
        if self._over is None:
            self._port.release(self.name, lane.name)

    def _forget(self, lane: _Lane) -> None:
        """A stream is no more; what waits in it will not be sent."""
        del self._lanes[lane.name]
        self._streams_queued -= lane.queued
        self._streams_accepted -= lane.queued
        lane.queued = 0
        self._go_if_sent()

    @property
    def admission(self) -> Mapping[str, Any] | None:
        """What the protocol has guaranteed here and how much room it has left, in nanoseconds; None: it guarantees nothing."""
        return self._port.admission(self.name) if self._admits and self._over is None else None

    # --- reading ----------------------------------------------------------------------------------------------------

    def __repr__(self) -> str:
        where = f"view {self.view.number} of {', '.join(self.view.members)}" if self.view is not None else "no view yet"
        return f"<Group {self.name!r} at {self.me!r}: {self._over.text if self._over is not None else where}>"

    def __aiter__(self) -> Stream:
        return self._stream

    def __anext__(self) -> Coroutine[Any, Any, Event]:
        return self._stream.__anext__()

    def batches(self) -> AsyncIterator[list[Event]]:
        """Everything that has come, as lists of events in their order: the fast way to read."""
        return self._stream.batches()

    def take_events(self, events: list[Event], origins: list[_Origin], before: float) -> None:
        """Makes events of what has come with stamps below ``before``, until there are many (what streams call)."""
        incoming = self._incoming
        name = self._name_read
        while incoming and incoming[0][0] < before and len(events) < MOST_AT_ONCE:
            stamp, sender, first, come, rank, cost = incoming.popleft()
            self._unread_cost -= cost
            if sender is None:
                number = 1
                events.append(come)
                if come.__class__ is View:
                    name = self._name_read = come.group
            else:
                number = len(come)
                if number == 1:
                    events.append(Message(sender, come[0], first, name, rank))
                else:
                    events += map(Message, repeat(sender), come, count(first), repeat(name), repeat(rank))
            origins.append((self, stamp, number))
        if self._full and 2 * self._unread_cost <= self._unread_limit:
            self._full = False
            self._overfull.stop()
            self._port.pressure(self.name, False)

    def put_back(self, event: Event, stamp: int) -> None:
        """The event that was taken last was not given out: it is the next again. It counts as read already."""
        if self._listen:
            self._incoming.appendleft((stamp, None, 0, event, None, 0))

    # --- the rest of what applications call -------------------------------------------------------------------------

    @property
    def members(self) -> tuple[ProcessId, ...]:
        """Who is in the group now, as far as this process knows; empty before it has joined and after it has left."""
        return self.view.members if self.view is not None and self._over is None else ()

    @property
    def node(self) -> Founder:
        """The process that is in the group: whom a program asks for other groups, live and simulated."""
        if self._node is None:
            raise UsageError(f"{self.name} was made without a process that could form other groups")
        return self._node

    @property
    def is_over(self) -> bool:
        """Whether this process is out of the group: it left, or the group was closed, or the process was stopped."""
        return self._over is not None

    def waiting(self) -> Reason | None:
        """What the protocol still has to do here, or None: for people who ask why nothing moves."""
        return self._port.waiting(self.name)

    @property
    def is_traced(self) -> bool:
        """Whether what happens here is recorded: if not, a :meth:`note` goes nowhere and need not be worked out."""
        return self._over is None and self._port.is_traced()

    def note(self, about: str, message: Message | None = None, **detail: Any) -> None:
        """Writes a row of kind ``note`` into the trace: what the application did, for its own checks and for explanations.

        ``about`` says of what kind the note is (``"payment"``), ``message`` which message it is about, ``detail`` the rest, in
        terms of JSON. The row stands in this process's history behind everything that the program has read so far. A process's
        history ends when it leaves its last group or is stopped; what is noted later is not part of it.
        """
        if not isinstance(about, str) or not about or "note" in detail:
            raise UsageError(f"a note is about something: give it a name, not {about!r}, and no detail that is called note")
        whole = {"note": about, **detail}
        try:
            msgspec.json.encode(whole)
        except (TypeError, ValueError, OverflowError, RecursionError, msgspec.MsgspecError) as error:
            raise UsageError(f"a note about {about!r} is not JSON: {error}; note texts, numbers, lists and mappings") from error
        if self.is_traced:
            sender, seq = (message.sender, message.seq) if message is not None else (None, None)
            self._port.write_note(self.name, sender, seq, whole)

    def metrics(self) -> dict[str, int]:
        """Numbers about this membership since it began, and the process's counters of packets."""
        return {**self.figures(), **self._port.counters()}

    def figures(self) -> dict[str, int]:
        """Numbers about this membership alone. Bytes of what was delivered are those of batches: a few more a message."""
        accepted = self._accepted + self._streams_accepted
        queued = self._queued + self._streams_queued
        return {
            "accepted": accepted,
            "sent": accepted - queued,
            "queued": queued,
            "queued_bytes": self._queued_cost - MESSAGE_COST * self._queued,
            "own_delivered": self._own_delivered,
            "own_stable": self._own_stable,
            "delivered": self._received,
            "unread_bytes": self._unread_cost,
            "views": self._views,
            "members": len(self.members),
            "sent_bytes": self._sent_bytes,
            "delivered_bytes": self._received_bytes,
            "outgoing_limit": self._limit,
            "unread_limit": self._unread_limit,
            "blocked_ns": self._blocked.total,
            "blocked_senders": self._waiters,
            "overfull_ns": self._overfull.total,
        }

    @property
    def accepted(self) -> int:
        """The receipt of the last message without a deadline."""
        return self._accepted

    @property
    def numbered_before(self) -> int | None:
        """What a receipt is larger than the number of its message; None: messages with deadlines overtake, so nobody knows."""
        return None if self._has_streams else self._numbered_before

    def look_away(self) -> None:
        """Nobody looks on from outside any more (``live.observe``)."""
        self.sample_at, self.take_sample, self.see_delivery = math.inf, _forget_sample, None

    def when_delivered(self, receipt: int, callback: Callable[[asyncio.Future[None]], None]) -> None:
        """Calls back when a message without a deadline that is not delivered yet is, or is known to be lost."""
        self._lane.delivered.tell(receipt, callback)

    async def leave(self) -> None:
        """Leaves the group: what was accepted is sent first. Returns when the group has let this process go.

        Who asks once leaves: whoever waits here may be cancelled, and the process leaves all the same, when it can.
        """
        if not self.changes:
            raise UsageError(
                f"{self.me} cannot leave {self.name}: with this protocol the members of a group stay the same; end the "
                f"`async with`, or call finish(), when all members are done"
            )
        if self._over is None:
            self._refuse(Reason("leaving", f"{self.me} is leaving {self.name} and sends nothing there any more"))
            await self._go()
        if self._halted and self._over is not None:
            raise Halted(self._over)

    async def close(self) -> None:
        """Closes the group for all its members: what this process accepted is sent first. Returns when the group is over here.

        The streams of all members end. What others have accepted and not sent by then is lost, as their receipts tell.
        """
        self._check_proposes("closed")
        if self._over is None:
            self._refuse(Reason("closing", f"{self.me} is closing {self.name} and sends nothing there any more"))
            self._closing = self._closing or not self._leaving
            await self._go()
        if self._halted and self._over is not None:
            raise Halted(self._over)

    async def rename(self, name: GroupId) -> View:
        """Gives the group another name, at all members. Returns when it has one, with the view that bears it.

        The group goes on: its stream has a view with the new name, and what waits to be sent is sent under it. If two members
        choose at once, one of the names wins everywhere; look at ``view.group``.
        """
        self._check_proposes("renamed")
        if self._refusal is not None:
            raise Refused(self._refusal)
        if name == self.name and self.view is not None:
            return self.view
        naming: asyncio.Future[View] = asyncio.get_running_loop().create_future()
        self._naming.append(naming)
        self._port.rename(self.name, name)
        return await naming

    def _check_proposes(self, done: str) -> None:
        if not self._proposes:
            raise UsageError(f"{self.name} cannot be {done}: with this protocol and its parameters groups are formed once")

    async def _go(self) -> None:
        """Waits until this process is out: it leaves, or closes the group, when what was accepted is sent."""
        if not self._leaving:
            self._leaving = True
            self._go_if_sent()
        await self._ended.wait()

    def _go_if_sent(self) -> None:
        """Who leaves asks to be let go when everything that was accepted is taken."""
        if not self._leaving or self._queued or self._streams_queued or self._over is not None:
            return
        if self._closing:
            self._port.close_group(self.name)
        else:
            self._port.leave(self.name)

    async def finish(self) -> None:
        """Ends this process's part in a group that nobody can leave: sends what was accepted, and waits for the group to rest.

        Returns when this process has had nothing to do there for so long that no fault can have gone unnoticed. The others
        still count on the process: it stays in the group until its node is closed.
        """
        if self.changes:
            await self.leave()
            return
        if self._over is None:
            self._refuse(Reason("finished", f"{self.me} has finished in {self.name} and sends nothing there any more"))
            rested = 0
            while self._over is None and rested < LOOKS:
                await asyncio.sleep(self._settle / LOOKS)
                rested = rested + 1 if not self._queued and not self._streams_queued and self.waiting() is None else 0
            if self._over is None:
                self._end(Reason("finished", f"{self.me} has finished in {self.name}"))
        if self._halted and self._over is not None:
            raise Halted(self._over)

    def stop_listening(self) -> None:
        """Nobody will read any more: what comes is thrown away and slows nobody down."""
        self._listen = False
        self._incoming.clear()
        self._unread_cost = 0
        if self._full:
            self._full = False
            self._overfull.stop()
            self._port.pressure(self.name, False)

    async def joined(self) -> View:
        """Waits for the first view."""
        return await asyncio.shield(self._joined)

    async def ended(self) -> None:
        """Waits until this process is out of the group, one way or the other."""
        await self._ended.wait()

    async def has_state(self) -> None:
        """Waits until the application's state has come (only who joins a group that transfers it gets one)."""
        await self._state.wait()
        if self._over is not None:
            raise Halted(self._over)

    # --- what hosts call --------------------------------------------------------------------------------------------

    def took(self, messages: int, size: int, stream: str = "") -> None:
        """The protocol took messages of so many bytes, of a stream or of those without a deadline: there is room again."""
        self._sent_bytes += size
        if self._has_streams:
            self._number(messages, stream)
        if not stream:
            self._queued -= messages
            self._queued_cost -= size + MESSAGE_COST * messages
            _wake(self._room)
        if self._leaving:
            self._go_if_sent()

    def _number(self, messages: int, stream: str) -> None:
        """Notes of which lane the messages are that were taken."""
        first = self._accepted - self._queued + self._streams_accepted - self._streams_queued + 1
        if stream:
            lane = self._lanes[stream]
            lane.queued -= messages
            self._streams_queued -= messages
            place = lane.accepted - lane.queued
            if lane.answer is not None:
                self.admitted(stream)
            if stream.startswith(_UNNAMED):
                del self._lanes[stream]
            elif lane.is_over is not None and not lane.queued:
                self._say_released(lane)
            _wake(lane.waiter)
        else:
            lane = self._lane
            place = self._accepted - self._queued + messages
        last = first + messages - 1
        self._undelivered.add(first, last, lane, place)
        self._unstable.add(first, last, lane, place)

    def admitted(self, stream: str) -> None:
        """The protocol guarantees the deadlines of a stream."""
        lane = self._lanes.get(stream)
        if lane is not None and lane.answer is not None:
            _wake(lane.answer)
            lane.answer = None

    def rejected(self, stream: str, reason: Reason) -> None:
        """The protocol cannot guarantee the deadlines of a stream, or no longer: what waits in it is not sent."""
        lane = self._lanes.get(stream)
        if lane is None:
            return
        lane.is_over = reason
        lane.end(reason, lane.accepted - lane.queued)
        self._forget(lane)
        _wake(lane.waiter)
        if lane.answer is not None and not lane.answer.done():
            lane.answer.set_exception(Rejected(reason))

    def deliver(self, sender: ProcessId, first: int, payloads: list[bytes], rank: int | None, size: int) -> None:
        """Messages of one sender, in their place; ``size`` is about their bytes."""
        number = len(payloads)
        self._received += number
        self._received_bytes += size
        if self.see_delivery is not None:
            self.see_delivery(self, sender, first, number)
        if sender == self.me:
            last = self._own_delivered = first + number - 1 + self._numbered_before
            if not self._has_streams:
                self._lane.delivered.advance(last)
            else:
                for lane, place in self._undelivered.come_to(last):
                    lane.delivered.advance(place)
            if rank is None:
                text = f"{self.name} has no total order, so nobody tells when a message is stable; wait until it is delivered"
                for lane in (self._lane, *(lane for lane, _ in self._unstable.come_to(last))):
                    lane.stable.end(Reason("no order", text))
            else:
                self._own.append((last, rank))
                if rank <= self._stable_rank:  # it was known before it came
                    self.stable(self._stable_rank)
        if self._listen:
            cost = size + MESSAGE_COST * number
            self._incoming.append((next(_stamps), sender, first, payloads, rank, cost))
            self._note_unread(cost)

    def add(self, event: Event) -> None:
        """Any other event, in its place."""
        if isinstance(event, View):
            has_new_name = self.view is not None and self.view.group != event.group
            self.view = event
            self._views += 1
            if not self._joined.done():
                self._joined.set_result(event)
            if has_new_name:
                naming, self._naming = self._naming, []
                for future in naming:
                    if not future.done():
                        future.set_result(event)
        elif isinstance(event, State):
            self._state.set()
        if self._listen:
            self._incoming.append((next(_stamps), None, 0, event, None, MESSAGE_COST))
            self._note_unread(MESSAGE_COST)

    def _note_unread(self, cost: int) -> None:
        self._unread_cost += cost
        if self._unread_cost > self._unread_limit and not self._full:
            self._full = True
            self._overfull.start()
            self._port.pressure(self.name, True)
        _wake(self._reading.waiter)

    def stable(self, rank: int) -> None:
        """Whatever was delivered, or will be, with a rank up to this one is held by every member."""
        self._stable_rank = rank
        own = self._own
        if own and own[0][1] <= rank:
            last = 0
            while own and own[0][1] <= rank:
                last = own.popleft()[0]
            self._own_stable = last
            if not self._has_streams:
                self._lane.stable.advance(last)
            else:
                for lane, place in self._unstable.come_to(last):
                    lane.stable.advance(place)

    def renamed(self, name: GroupId, returned: Sequence[bytes], numbered: int) -> None:
        """The group has another name; its view follows. What is ``returned`` was taken and has to be taken again; ``numbered``
        messages of this process had numbers under that name before."""
        self.name = name
        self._queued += len(returned)
        self._queued_cost += sum(map(len, returned)) + MESSAGE_COST * len(returned)
        self._numbered_before = self._accepted - self._queued - numbered

    def left(self) -> None:
        """This process is out of the group, as it asked to be, or because somebody closed the group."""
        if self._leaving and not self._closing:
            self._end(Reason("left", f"{self.me} has left {self.name}"))
        else:
            by = self.me if self._closing else "another member"
            self._end(Reason("closed", f"{self.name} was closed by {by}"))

    def halted(self, reason: Reason) -> None:
        """The protocol stopped this process."""
        if self._over is None:
            self._halted = True
            self._end(reason)

    def _end(self, reason: Reason) -> None:
        self._over = reason
        self._overfull.stop()
        self._refuse(reason)
        for lane in (self._lane, *self._lanes.values(), *self._undelivered.lanes(), *self._unstable.lanes()):
            lane.end(reason)
            if lane.answer is not None and not lane.answer.done():
                lane.answer.set_exception(Refused(reason))
                lane.answer.exception()  # as below
        for future in (self._joined, *self._naming):
            if not future.done():
                future.set_exception(Halted(reason))
                future.exception()  # whoever waits gets it; if nobody does, nothing is to be said
        _wake(self._reading.waiter)
        self._state.set()
        self._ended.set()

    def _refuse(self, reason: Reason) -> None:
        """No further messages, for that reason."""
        self._refusal = reason
        _wake(self._room)
        for lane in self._lanes.values():
            _wake(lane.waiter)


# --- messages with deadlines ----------------------------------------------------------------------------------------


class Guaranteed:
    """A stream of messages whose deadlines the protocol guarantees; :meth:`Group.stream` gives one. Times are in nanoseconds."""

    __slots__ = ("_earliest", "_group", "_lane", "_turnstile", "deadline", "name", "period", "size")

    def __init__(self, group: Group, lane: _Lane, wanted: Wanted) -> None:
        self._group = group
        self._lane = lane
        self._turnstile = asyncio.Lock()
        self._earliest = 0
        """When the period since the last message is over."""
        self.name = wanted.name
        self.size = wanted.size
        self.deadline = wanted.deadline
        self.period = wanted.period

    async def send(self, payload: bytes) -> Receipt:
        """Sends the next message. One that comes before its period waits until then, and its deadline counts from then on.

        Raises :class:`Rejected` if the protocol can keep the stream's deadlines no longer, :class:`Refused` if it was released or
        the group is over. A send that is cancelled while it waits has sent nothing.
        """
        payload = _as_bytes(payload)
        if len(payload) > self.size:
            raise UsageError(f"{len(payload)} bytes are more than a message of stream {self.name!r} has ({self.size}); send less")
        group, lane = self._group, self._lane
        async with self._turnstile:
            while True:
                self._check()
                now = _now()
                if lane.queued >= BACKLOG:
                    await self._wait(None)
                elif now < self._earliest:
                    await self._wait(self._earliest)
                else:
                    break
            self._earliest = now + self.period
            lane.accepted += 1
            lane.queued += 1
            group._streams_accepted += 1
            group._streams_queued += 1
            group._port.offer(group.name, self.name, payload, now)
            return Receipt(lane, lane.accepted)

    def release(self) -> None:
        """There will be no more messages: the protocol need not keep room for them any longer. What was accepted is sent."""
        self._group._release(self._lane)

    def _check(self) -> None:
        if self._group._refusal is not None:
            raise Refused(self._group._refusal)
        reason = self._lane.is_over
        if reason is not None:
            raise Refused(reason) if reason.code == _RELEASED else Rejected(reason)

    async def _wait(self, until: int | None) -> None:
        """Waits until something was taken, or the stream is over, or, at the most, for so long."""
        loop = asyncio.get_running_loop()
        waiter = self._lane.waiter = loop.create_future()
        timer = loop.call_at(until / SECOND, _wake, waiter) if until is not None else None
        try:
            await waiter
        finally:
            self._lane.waiter = None
            if timer is not None:
                timer.cancel()

    def __repr__(self) -> str:
        lengths = f"size={self.size}, deadline={format_duration(self.deadline)}, period={format_duration(self.period)}"
        return f"<Guaranteed {self.name!r} in {self._group.name!r}: {lengths}>"


def _now() -> Nanoseconds:
    """The time of the event loop, which is that of its host."""
    return round(asyncio.get_running_loop().time() * SECOND)


def _length(given: str, what: str, stream: str) -> Nanoseconds:
    of = f" of stream {stream!r}" if stream else ""
    if not isinstance(given, str):
        raise UsageError(f'the {what}{of} is {given!r}: write a number and a unit, such as "50ms" or "2s"')
    length = parse_duration(given)
    if length < 1:
        raise UsageError(f"the {what}{of} is {given}; give it a positive one")
    return length


# --- streams --------------------------------------------------------------------------------------------------------


_Arrived: TypeAlias = tuple[int, ProcessId | None, int, Any, int | None, int]
"""What waits to be read: stamp, sender, number of the first message, payloads, rank, cost; or without a sender, any event."""
_Origin: TypeAlias = tuple[Group, int, int]
"""Where consecutive events of a stream were taken from: group, stamp, how many."""


class Stream:
    """The events of a group, or of several groups of one process (:func:`merged`), in the order in which they came.

    One task reads. Breaking out of a loop loses nothing: go on with this stream or another one when you like.
    """

    __slots__ = ("_current", "_groups", "_is_read", "_origins", "_turned", "waiter")

    def __init__(self, groups: tuple[Group, ...]) -> None:
        self._groups = groups
        self._current: Iterator[Event] = iter(())
        """What was taken from the groups and is not given out yet."""
        self._origins: list[_Origin] = []
        self._is_read = False
        """Whether a task waits for events."""
        self.waiter: asyncio.Future[None] | None = None
        """What the task waits for: groups wake it when something has come."""
        self._turned = 0.0
        """When the event loop last had its turn, as far as reading goes."""

    def __aiter__(self) -> Stream:
        return self

    async def __anext__(self) -> Event:
        for event in self._current:
            return event
        events = await self._next_events()
        if events is None:
            raise StopAsyncIteration
        self._current = iter(events)
        return next(self._current)

    async def batches(self) -> AsyncIterator[list[Event]]:
        """Everything that has come, as lists of events in their order: the fast way to read."""
        while (events := await self._next_events()) is not None:
            yield events

    async def _next_events(self) -> list[Event] | None:
        """The events that have come since the last call; None when there will be none any more."""
        rest = list(self._current)
        if rest:
            return rest
        self.check_free()
        self._take_over()
        self._is_read = True
        loop = asyncio.get_running_loop()
        try:
            if self._has_come() and loop.time() >= self._turned + READ_FOR:
                await asyncio.sleep(0)
                self._turned = loop.time()
            while not self._has_come():
                if self._is_over():
                    return None
                self.waiter = loop.create_future()
                await self.waiter
                self._turned = loop.time()
            return self._take_events()
        finally:
            self._is_read = False
            self.waiter = None

    def check_free(self) -> None:
        """Fails if a task waits for events of one of the groups."""
        for group in self._groups:
            if group._reading._is_read:
                raise UsageError(f"two tasks read group {group.name!r} at once; let one of them read and pass on what it gets")

    def _take_over(self) -> None:
        """From now on this stream reads these groups; what others took from them and did not give out goes back."""
        for group in self._groups:
            if group._reading is not self:
                group._reading._put_back()
                group._reading = self

    def _put_back(self) -> None:
        rest = list(self._current)
        while rest:
            group, stamp, number = self._origins.pop()
            for event in reversed(rest[-number:]):
                group.put_back(event, stamp)
            del rest[-number:]

    def _has_come(self) -> bool:
        return any([group._incoming for group in self._groups])

    def _is_over(self) -> bool:
        """Whether all groups have ended; raises if the protocol has stopped the process."""
        for group in self._groups:
            if group._over is not None and group._halted:
                raise Halted(group._over)
        return all([group._over is not None for group in self._groups])

    def _take_events(self) -> list[Event]:
        """Makes events of what has come, but not of more than a program handles in some milliseconds: the loop must turn."""
        groups = self._groups
        events: list[Event] = []
        self._origins.clear()
        heads = [(group._incoming[0][0], index) for index, group in enumerate(groups) if group._incoming]
        heapq.heapify(heads)
        while heads and len(events) < MOST_AT_ONCE:
            index = heapq.heappop(heads)[1]
            group = groups[index]
            group.take_events(events, self._origins, heads[0][0] if heads else math.inf)
            if group._incoming:
                heapq.heappush(heads, (group._incoming[0][0], index))
        return events


def merged(*groups: Group) -> Stream:
    """Reads several groups of one process as one stream: ``async for event in merged(red, blue)``.

    Events come in the order in which the protocol delivered them at this process, so whatever it promises across groups holds
    in the stream; ``event.group`` says where each belongs. The stream ends when all groups have, and raises :class:`Halted` when
    the process was stopped.
    """
    strangers = [type(group).__name__ for group in groups if not isinstance(group, Group)]
    if strangers:
        raise UsageError(
            f"merged reads groups, and a {strangers[0]} was given; write merged(red, blue), or merged(*groups.values()) if they "
            f"are in a dictionary"
        )
    if not groups:
        raise UsageError("merged reads groups, and none was given; name those that are to be read together")
    first = groups[0]
    for group in groups:
        if group._port is not first._port:
            raise UsageError(
                f"{first.name!r} at {first.me} and {group.name!r} at {group.me} are groups of different processes, between which "
                f"there is no order of delivery; merge groups that were joined from one Node"
            )
    twice = sorted({group.name for group in groups if groups.count(group) > 1})
    if twice:
        raise UsageError(f"merged reads each group once; named twice: {', '.join(twice)}")
    stream = Stream(groups)
    stream.check_free()
    return stream


def _forget_sample(group: Group) -> None:
    """Nobody wants to know of messages any more."""
    group.sample_at = math.inf


def _wake(future: asyncio.Future[None] | None) -> None:
    if future is not None and not future.done():
        future.set_result(None)


def _as_bytes(payload: Any) -> bytes:
    if isinstance(payload, bytes | bytearray | memoryview):
        return bytes(payload)
    raise UsageError(f"a message is bytes, and a {type(payload).__name__} was given; encode it first")
