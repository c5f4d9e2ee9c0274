"""Sending: the bounded buffer between ``send`` and the protocol.

``send`` waits for room, ``try_send`` does not; an accepted message is accepted for good. The protocol takes messages when it may
send, which makes room. Senders that wait are served in the order in which they came.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Sequence
from typing import Any, Final

from ..core.model import Reason, UsageError
from .errors import Refused
from .port import Link
from .profile import LARGEST_MESSAGE, MESSAGE_COST, NOTHING
from .receipts import Lane, Receipt
from .waiting import Stopwatch, wake

_ONLY_BYTES: Final = {bytes}


class Outgoing:
    """Messages of this process that were accepted and that the protocol has not taken."""

    # Slots, because every `send` goes through here.
    # fmt: off
    __slots__ = (
        "_link", "_room", "_turnstile", "accepted", "blocked", "cost", "lane", "largest", "limit", "queued", "refusal", "sample",
        "sample_at", "streams_accepted", "streams_queued", "waiters", "when_sent",
    )
    # fmt: on

    def __init__(self, link: Link, limit: int, largest: int) -> None:
        self._link, self.limit, self.largest = link, limit, largest
        self.lane = Lane(link)  # messages without a deadline
        self.queued = 0  # how many of them are queued
        self.cost = 0  # what they count for in the buffer
        self.accepted = 0  # how many were accepted so far: the number of the last receipt
        self.streams_queued = 0  # queued messages of streams
        self.streams_accepted = 0  # accepted messages of streams
        self.refusal: Reason | None = None  # why no more messages are accepted
        self.waiters = 0
        self.blocked = Stopwatch()  # runs while a sender waits for room
        self._turnstile = asyncio.Lock()
        self._room: asyncio.Future[None] | None = None
        self.when_sent: Callable[[], None] | None = None  # called when all accepted messages are taken; set by leaving
        self.sample_at: float = math.inf  # number of the next receipt to sample; infinite without an observer
        self.sample: Callable[[], None] = self.stop_sampling  # called just before messages up to that receipt go to the host

    async def send(self, payload: bytes) -> Receipt:
        if payload.__class__ is not bytes:
            payload = as_bytes(payload)
        size = len(payload)
        cost = size + MESSAGE_COST
        if size > self.largest:
            self._refuse_size(size)
        if self.refusal is not None or self.waiters or (self.cost + cost > self.limit and not self._fits_alone(cost)):
            await self._wait_for_room(cost)
        # As _accept does; a call of it would be a twentieth of the cost of sending.
        self.queued += 1
        self.cost += cost
        self.accepted += 1
        if self.accepted >= self.sample_at:
            self.sample()
        link = self._link
        link.port.accept(link.group, (payload,))
        return Receipt(self.lane, self.accepted)

    def try_send(self, payload: bytes) -> Receipt | None:
        if payload.__class__ is not bytes:
            payload = as_bytes(payload)
        size = len(payload)
        cost = size + MESSAGE_COST
        if size > self.largest:
            self._refuse_size(size)
        if self.refusal is not None or cost > LARGEST_MESSAGE:
            self.refuse_if_over(cost)
        if self.waiters or (self.cost + cost > self.limit and not self._fits_alone(cost)):
            return None
        return self._accept((payload,), cost)

    async def send_many(self, payloads: Sequence[bytes]) -> Receipt:
        if not payloads:
            return Receipt(self.lane, self.accepted)
        if set(map(type, payloads)) != _ONLY_BYTES:
            payloads = [as_bytes(payload) for payload in payloads]
        if self.largest < LARGEST_MESSAGE and (largest := max(map(len, payloads))) > self.largest:
            self._refuse_size(largest)
        cost = sum(map(len, payloads)) + MESSAGE_COST * len(payloads)
        if self.refusal is not None or self.waiters or (self.cost + cost > self.limit and not self._fits_alone(cost)):
            await self._wait_for_room(cost, max(map(len, payloads)))
        return self._accept(payloads, cost)

    def _accept(self, payloads: Sequence[bytes], cost: int) -> Receipt:
        messages = len(payloads)
        self.queued += messages
        self.cost += cost
        self.accepted += messages
        if self.accepted >= self.sample_at:
            self.sample()
        link = self._link
        link.port.accept(link.group, payloads)
        return Receipt(self.lane, self.accepted)

    def _fits_alone(self, cost: int) -> bool:
        """Whether messages larger than the buffer fit: they do when it is empty."""
        return not self.queued and cost <= LARGEST_MESSAGE

    async def _wait_for_room(self, cost: int, largest: int = 0) -> None:
        """Waits behind the senders that came before. ``largest`` is the size of the largest of many messages."""
        self.refuse_if_over(largest or cost)
        self.waiters += 1
        if self.waiters == 1:
            self.blocked.start()
        try:
            async with self._turnstile:
                while True:
                    self.refuse_if_over(largest or cost)
                    if self.cost + cost <= self.limit or not self.queued:
                        return
                    self._room = asyncio.get_running_loop().create_future()
                    try:
                        await self._room
                    finally:
                        self._room = None
        finally:
            self.waiters -= 1
            if not self.waiters:
                self.blocked.stop()

    def _refuse_size(self, size: int) -> None:
        if self.largest == LARGEST_MESSAGE:
            self.refuse_if_over(size)
        if self.largest == NOTHING:
            raise UsageError(f'{self._link.me} has joined {self._link.group} to receive only; join with role="both" to send')
        raise UsageError(
            f"{self._link.me} only sends in {self._link.group}, so its messages go in one piece and have at most {self.largest} "
            f"bytes, not {size}; send it in parts, or choose parameters with more room"
        )

    def refuse_if_over(self, size: int) -> None:
        """Raises :class:`Refused` if no message, or none of this size, is accepted."""
        if self.refusal is not None:
            raise Refused(self.refusal)
        if size > LARGEST_MESSAGE:
            text = f"{size} bytes are more than a message may have ({LARGEST_MESSAGE}); send it in parts"
            raise Refused(Reason("too large", text))

    def took(self, messages: int, size: int) -> Lane:
        """The protocol took messages without a deadline: there is room again."""
        self.queued -= messages
        self.cost -= size + MESSAGE_COST * messages
        wake(self._room)
        return self.lane

    def returned(self, payloads: Sequence[bytes]) -> None:
        """The protocol gave messages back and will take them again."""
        self.queued += len(payloads)
        self.cost += sum(map(len, payloads)) + MESSAGE_COST * len(payloads)

    def check_sent(self) -> None:
        """Calls ``when_sent`` if nothing is queued any more."""
        if self.when_sent is not None and not self.queued and not self.streams_queued and self._link.over is None:
            self.when_sent()

    def refuse(self, reason: Reason) -> None:
        """Accepts no more messages, for that reason."""
        self.refusal = reason
        wake(self._room)

    def stop_sampling(self) -> None:
        """No receipt is sampled any more."""
        self.sample_at, self.sample = math.inf, self.stop_sampling


def as_bytes(payload: Any) -> bytes:
    if isinstance(payload, bytes | bytearray | memoryview):
        return bytes(payload)
    raise UsageError(f"a message is bytes, and a {type(payload).__name__} was given; encode it first")
