"""UDP: one datagram for each packet and destination, one socket for each process.

The socket is read by ``loop.add_reader`` and a bounded loop, because asyncio's datagram protocol costs a third to two thirds of
the rate of small packets (docs/architecture.md has the figures). Datagrams are read into one buffer, which stays in the
processor's cache; a receiver that keeps bytes copies them, as decoding does anyway.

A datagram that the kernel does not take waits, in order, until the socket is writable. Protocols bound how much waits; behind
that stands a bound of bytes, where the oldest are given up.

The kernel's buffers are made as large as it allows. Protocols choose their windows by what they really are (``limits.buffer``),
so that a receiver that falls behind slows its senders down before it loses anything.
"""

from __future__ import annotations

import asyncio
import socket
from collections import deque
from collections.abc import Sequence
from typing import Final

from ..core.model import UsageError
from .transport import READ_AT_ONCE, READ_BYTES, Address, Counters, Data, Limits, Receive, TurnOver

LARGEST: Final = 65_507  # bytes of the largest UDP datagram over IPv4
WANTED_BUFFER: Final = 8 << 20  # bytes of socket buffer that we ask for; the kernel gives what its settings allow
QUEUED_BYTES: Final = 256 << 20  # more than this does not wait for the socket
_FORCE: Final = {socket.SO_RCVBUF: 33, socket.SO_SNDBUF: 32}  # Linux: SO_RCVBUFFORCE and SO_SNDBUFFORCE, where the process may


class UdpTransport:
    """Packets as datagrams from one bound socket."""

    def __init__(self, bind: Address, *, packet: int = LARGEST, buffer: int = WANTED_BUFFER) -> None:
        if not 64 <= packet <= LARGEST:
            raise UsageError(f"a UDP packet has 64 to {LARGEST} bytes, and {packet} were asked for")
        self._bind = bind
        self._wanted = buffer
        self._socket: socket.socket | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._queue: deque[tuple[Data, Address]] = deque()
        self._queued_bytes = 0
        self._into = bytearray(1 << 16)
        self._views = memoryview(self._into)
        self.address = bind
        self.limits = Limits(packet, 0)
        self.counters = Counters()

    async def open(self, receive: Receive, turn_over: TurnOver) -> None:
        self._loop = asyncio.get_running_loop()
        self._socket = bound_socket(self._bind)
        granted = enlarge(self._socket, self._wanted)
        self.limits = Limits(self.limits.packet, granted)
        self.address = self._socket.getsockname()[:2]
        self._receive = receive
        self._turn_over = turn_over
        self._loop.add_reader(self._socket.fileno(), self._read_some)

    def catch_up(self) -> bool:
        return self._socket is not None and self._read_some()

    def _read_some(self) -> bool:
        """Reads as much as one turn of the loop may; whether there may be more."""
        assert self._socket is not None
        recvfrom_into = self._socket.recvfrom_into
        into, view, receive = self._into, self._views, self._receive
        read = size = 0
        more = True
        for _ in range(READ_AT_ONCE):
            try:
                length, source = recvfrom_into(into)
            except BlockingIOError:
                more = False
                break
            except OSError:
                self.counters.errors += 1  # an ICMP answer to something that we sent: nobody listens there
                continue
            read += 1
            size += length
            receive(source if len(source) == 2 else source[:2], view[:length])
            if size >= READ_BYTES:
                break
        if read:
            self.counters.received += read
            self.counters.received_bytes += size
            self._turn_over()
        return more

    def send(self, to: Sequence[Address], data: Data) -> None:
        if len(data) > LARGEST:
            taken = f"the network takes no packet of {len(data)} bytes"
            raise UsageError(f"{taken}; choose a smaller packet size (1400 fits everywhere)")
        counters = self.counters
        if self._queue or self._socket is None:
            for address in to:
                self._wait(data, address)
            return
        sendto = self._socket.sendto
        for at, address in enumerate(to):
            try:
                sendto(data, address)
            except BlockingIOError:
                for later in to[at:]:
                    self._wait(data, later)
                return
            except OSError:
                counters.errors += 1
            else:
                counters.sent += 1
                counters.sent_bytes += len(data)

    def _wait(self, data: Data, address: Address) -> None:
        if self._socket is None:
            self.counters.dropped += 1
            return
        if not self._queue:
            assert self._loop is not None
            self._loop.add_writer(self._socket.fileno(), self._write)
        self._queue.append((bytes(data), address))
        self._queued_bytes += len(data)
        self.counters.queued += 1
        while self._queued_bytes > QUEUED_BYTES:
            oldest, _ = self._queue.popleft()
            self._queued_bytes -= len(oldest)
            self.counters.dropped += 1

    def _write(self) -> None:
        assert self._socket is not None
        assert self._loop is not None
        counters = self.counters
        while self._queue:
            data, address = self._queue[0]
            try:
                self._socket.sendto(data, address)
            except BlockingIOError:
                return
            except OSError:
                counters.errors += 1
            else:
                counters.sent += 1
                counters.sent_bytes += len(data)
            self._queue.popleft()
            self._queued_bytes -= len(data)
        self._loop.remove_writer(self._socket.fileno())

    async def close(self) -> None:
        if self._socket is None or self._loop is None:
            return
        if self._queue:
            self._write()
        self.counters.dropped += len(self._queue)
        self._queue.clear()
        self._queued_bytes = 0
        self._loop.remove_reader(self._socket.fileno())
        self._loop.remove_writer(self._socket.fileno())
        self._socket.close()
        self._socket = None


def bound_socket(bind: Address) -> socket.socket:
    """A non-blocking UDP socket at that address, or an error that says what to do."""
    family = socket.AF_INET6 if ":" in bind[0] else socket.AF_INET
    made = socket.socket(family, socket.SOCK_DGRAM)
    try:
        made.setblocking(False)
        made.bind(bind)
    except OSError as error:
        made.close()
        reason = error.strerror or str(error)
        where = f"cannot listen at {bind[0]}:{bind[1]}: {reason}"
        raise UsageError(f"{where}; is another member running there, is it an address of this machine?") from error
    return made


def enlarge(made: socket.socket, wanted: int) -> int:
    """Makes both buffers as large as the kernel allows; returns what the receive buffer really holds."""
    for option in (socket.SO_RCVBUF, socket.SO_SNDBUF):
        try:
            made.setsockopt(socket.SOL_SOCKET, _FORCE[option], wanted)
        except OSError:
            made.setsockopt(socket.SOL_SOCKET, option, wanted)
    return made.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF)
