"""What a transport is: packets to addresses and back, without waiting and without promises.

A transport carries packets of bytes between addresses. It may lose, repeat and reorder them; protocols repair that. It never
waits: what the network does not take now leaves when the socket is ready, together with what has accumulated until then. That is
all the batching there is: no timer trades latency for throughput.

Reading is bounded: at most :data:`READ_AT_ONCE` packets in a turn of the event loop, each handed to ``receive`` (the bytes are
valid during that call only), then one call of ``turn_over``, at which the host writes its trace and lets its own packets go. A
packet to a transport's own address comes back like any other.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Final, Protocol, TypeAlias

Address: TypeAlias = tuple[str, int]  # host (a numeric IP address) and port
Data: TypeAlias = bytes | bytearray | memoryview
Receive: TypeAlias = Callable[[Address, Data], None]
TurnOver: TypeAlias = Callable[[], None]
Send: TypeAlias = Callable[[Sequence[Address], Data], None]

READ_AT_ONCE: Final = 64  # packets read in one turn of the loop: enough to share its cost, few enough that others do not wait
READ_BYTES: Final = 1 << 20  # large packets are fewer


@dataclasses.dataclass(frozen=True, slots=True)
class Limits:
    """What a transport can do."""

    packet: int  # bytes that one packet may have, everything of ours included
    buffer: int
    """Bytes that wait at a receiver that does not read; further packets are lost. 0: the transport slows the sender down."""


@dataclasses.dataclass(slots=True)
class Counters:
    """What a transport has done."""

    sent: int = 0
    sent_bytes: int = 0
    received: int = 0
    received_bytes: int = 0
    queued: int = 0  # packets that had to wait for the socket
    dropped: int = 0  # packets that were given up: too many waited, or no process was there
    errors: int = 0  # refusals of the network (no route, no listener): packets may be lost, so they are only counted


class Transport(Protocol):
    """Carries packets. ``address`` is where it is reached, once it is open."""

    @property
    def limits(self) -> Limits: ...
    @property
    def address(self) -> Address: ...
    @property
    def counters(self) -> Counters: ...

    async def open(self, receive: Receive, turn_over: TurnOver) -> None:
        """Binds, and from now on reads."""

    def send(self, to: Sequence[Address], data: Data) -> None:
        """Sends a packet to each address. Never waits; never raises for trouble of the network."""

    def catch_up(self) -> bool:
        """Reads what has come, once, as if the loop had come round; whether there may be more. (A transport may do without: then
        a timer can expire at a process that was stopped before it has read what came meanwhile.)"""

    async def close(self) -> None:
        """Lets go what still waits, as far as the network takes it at once, and closes."""


MakeTransport: TypeAlias = Callable[[Address, int], Transport]  # from a node's address and the size of its packets (bytes)


def senders_of(transport: Transport) -> tuple[Send, ...]:
    """What sends on each network: one, unless the transport has several (:mod:`.lans`)."""
    senders = getattr(transport, "senders", None)
    return senders() if senders is not None else (transport.send,)
