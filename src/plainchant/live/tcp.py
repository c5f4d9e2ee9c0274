"""TCP: a mesh of connections, for networks that do not let UDP through.

Two members share one connection; the first that has something to send opens it. Everything on it is a frame
(:mod:`.tcp_frames`), and the first frame each way is a greeting: a random token of the sender, the number of the greeting among
all of its sender's, and the address at which it listens. The opener waits for the answer before it sends packets. A process that
does not begin with a greeting, or sends an impossible length, loses that connection and nothing else.

If both open at once, the connection of the smaller address stays: it turns the other's down, and the other takes it in place of
its own attempt. An attempt that has not come through yet gives way to one that has. Where there is a connection already, the one
with the later greeting of the other end stays: either they have lost the old one, or the call was made before they took it. So
no connection that is dead at one end keeps a live one away.

The first packet of a turn of the loop leaves at once; what follows in the same turn, or what the socket does not take, leaves
together in one ``sendmsg``. Packets for a peer that is not connected wait, up to a bound of bytes and of time, while connecting
is tried again, after 20 ms at first and up to a second later on. What is under way when a connection breaks is lost; protocols
repair that, as for datagrams.

A receiver that does not read fills its socket and then its sender's, whose packets then wait here: how many there can be is the
protocol's window. So ``limits.buffer`` is 0.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import itertools
import secrets
import socket
from collections import deque
from collections.abc import Sequence
from random import Random
from typing import Final

from ..core.model import UsageError
from .tcp_frames import LARGEST, LENGTH, BadFrame, FrameBuffer, is_any, make_greeting, read_greeting
from .tcp_sockets import listening_socket, outgoing_socket, prepare
from .transport import READ_AT_ONCE, Address, Counters, Data, Limits, Receive, TurnOver

DEFAULT_PACKET: Final = 65_536
WAITING_BYTES: Final = 64 << 20  # more than this does not wait for one peer
PATIENCE: Final = 5.0  # seconds until a connection attempt, a missing greeting, or packets for an unreachable peer are given up
FIRST_PAUSE: Final = 0.02
LONGEST_PAUSE: Final = 1.0  # seconds between two attempts to connect
MOST_CONNECTIONS: Final = 256
"""Connections that are open at once, those of strangers included. When there are more, the oldest that has not said whose it is
makes room; if all have, the new one does not come in."""
LINGER: Final = 0.25  # most seconds that closing waits for the other ends to have taken everything

_FRAMES_AT_ONCE: Final = 256  # in one sendmsg: a frame is two pieces, and systems take 1,024
_SHORT_OF_FILES: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})


class TcpTransport:
    """Packets as frames on connections, one to each peer."""

    def __init__(
        self,
        bind: Address,
        *,
        packet: int = DEFAULT_PACKET,
        waiting: int = WAITING_BYTES,
        patience: float = PATIENCE,
        random: Random | None = None,
    ) -> None:
        if not 64 <= packet <= LARGEST:
            raise UsageError(f"a TCP packet has 64 to {LARGEST} bytes, and {packet} were asked for")
        self._bind = bind
        self._listener: socket.socket | None = None
        self._peers: dict[Address, _Peer] = {}
        self._used: list[_Connection] = []  # connections that have sent a packet in this turn of the loop
        self.connections: dict[_Connection, None] = {}  # all that are open, strangers' and attempts included, the oldest first
        self.waiting = waiting
        self.patience = patience
        self.random = random or Random()
        self.token = secrets.token_hex(8)
        self.greetings = itertools.count()
        self.address = bind
        self.limits = Limits(packet, 0)
        self.counters = Counters()

    async def open(self, receive: Receive, turn_over: TurnOver) -> None:
        self.loop = asyncio.get_running_loop()
        self.receive = receive
        self.turn_over = turn_over
        self._listener = listening_socket(self._bind)
        self.address = self._listener.getsockname()[:2]
        self.loop.add_reader(self._listener.fileno(), self._accept)

    @property
    def closed(self) -> bool:
        return self._listener is None

    # --- sending ------------------------------------------------------------------------------------------------------
    def send(self, to: Sequence[Address], data: Data) -> None:
        size = len(data)
        if size > self.limits.packet:
            raise UsageError(f"a packet of {size} bytes is above the limit of {self.limits.packet}; choose a larger packet size")
        if self._listener is None:
            self.counters.dropped += len(to)
            return
        length = LENGTH.pack(size)
        kept: bytes | None = None
        for address in to:
            peer = self._peers.get(address)
            if peer is None:
                if address == self.address:
                    self.loop.call_soon(self._receive_own, bytes(data))
                    continue
                peer = self._peer(address)
            connection = peer.connection
            if connection is not None and connection.idle:
                if not self._used:
                    self.loop.call_soon(self._end_of_turn)
                self._used.append(connection)
                connection.send_at_once(length, data)
                continue
            if kept is None:
                kept = bytes(data)
            peer.wait(length, kept)

    def catch_up(self) -> bool:
        before = self.counters.received
        for peer in list(self._peers.values()):
            if peer.connection is not None:
                peer.connection.catch_up()
        return self.counters.received - before >= READ_AT_ONCE

    def _end_of_turn(self) -> None:
        used, self._used = self._used, []
        for connection in used:
            connection.used = False
            connection.flush()

    def _receive_own(self, data: bytes) -> None:
        if self._listener is not None:
            counters = self.counters
            counters.sent += 1
            counters.sent_bytes += len(data)
            counters.received += 1
            counters.received_bytes += len(data)
            self.receive(self.address, data)
            self.turn_over()

    def _peer(self, address: Address) -> _Peer:
        peer = self._peers.get(address)
        if peer is None:
            peer = self._peers[address] = _Peer(self, address)
        return peer

    # --- connections from others --------------------------------------------------------------------------------------
    def _accept(self) -> None:
        assert self._listener is not None
        for _ in range(READ_AT_ONCE):
            try:
                made, _source = self._listener.accept()
                prepare(made)
            except BlockingIOError:
                return
            except OSError as error:
                self.counters.errors += 1
                if error.errno in _SHORT_OF_FILES:
                    self.loop.remove_reader(self._listener.fileno())
                    self.loop.call_later(LONGEST_PAUSE, self._accept_again)
                    return
                continue
            if len(self.connections) >= MOST_CONNECTIONS and not self._make_room():
                self.counters.errors += 1
                made.close()
                continue
            connection = _Connection(self, made)
            connection.begin_reading()
            connection.expect_greeting()

    def _make_room(self) -> bool:
        """Closes the oldest connection that nobody has greeted on."""
        for connection in self.connections:
            if connection.peer is None:
                connection.fail()
                return True
        return False

    def _accept_again(self) -> None:
        if self._listener is not None:
            self.loop.add_reader(self._listener.fileno(), self._accept)

    def greeted(self, connection: _Connection, address: Address) -> None:
        """A connection that was accepted has said whose it is: take it or turn it down."""
        own = connection.own_address()
        if address in (own, self.address):
            connection.fail()
            return
        self._peer(address).called(connection, own)

    # --- the end ------------------------------------------------------------------------------------------------------
    async def close(self) -> None:
        if self._listener is None:
            return
        self.loop.remove_reader(self._listener.fileno())
        self._listener.close()
        self._listener = None
        peers = list(self._peers.values())
        for peer in peers:
            peer.stop_trying()
        leaving = [peer.connection.leave() for peer in peers if peer.connection is not None]
        if leaving:
            await asyncio.wait(leaving, timeout=LINGER)
        for connection in list(self.connections):
            connection.discard()
        for peer in peers:
            peer.give_up()
        self._peers.clear()


class _Peer:
    """Somebody to whom packets go: the connection, or the attempts to make one, and what waits for it."""

    def __init__(self, transport: TcpTransport, address: Address) -> None:
        self.transport = transport
        self.address = address
        self.connection: _Connection | None = None  # greetings are exchanged on it
        self.queue: deque[tuple[bytes, bytes]] = deque()
        self.queued_bytes = 0
        self._attempt: _Connection | None = None
        self._retry: asyncio.TimerHandle | None = None
        self._pause = FIRST_PAUSE
        self._since: float | None = None  # since when connecting has failed

    def wait(self, length: bytes, data: bytes) -> None:
        """Keeps a packet until it can leave, and sees to it that it will."""
        counters = self.transport.counters
        counters.queued += 1
        self.queue.append((length, data))
        self.queued_bytes += len(data)
        while self.queued_bytes > self.transport.waiting:
            _, oldest = self.queue.popleft()
            self.queued_bytes -= len(oldest)
            counters.dropped += 1
        if self.connection is None:
            self._connect()

    def give_up(self) -> None:
        self.transport.counters.dropped += len(self.queue)
        self.queue.clear()
        self.queued_bytes = 0

    # --- connecting ---------------------------------------------------------------------------------------------------
    def _connect(self) -> None:
        if self._attempt is not None or self._retry is not None:
            return
        try:
            made = outgoing_socket(self.transport.address, self.address)
        except OSError:
            self.transport.counters.errors += 1
            self._failed()
            return
        self._attempt = _Connection(self.transport, made, self)
        self._attempt.connect(self.address)

    def called(self, connection: _Connection, own: Address) -> None:
        """They have opened a connection themselves."""
        if self.connection is not None:
            if connection.greeted_before(self.connection):
                connection.discard()
                return
            self.connection.discard()
        elif self._attempt is not None:
            if self._attempt.established and own < self.address:
                connection.discard()
                return
            self._attempt.discard()
        connection.peer = self
        self._adopt(connection)
        connection.greet()

    def answered(self, connection: _Connection) -> None:
        """They have answered our greeting."""
        self._adopt(connection)
        connection.flush()

    def _adopt(self, connection: _Connection) -> None:
        self.connection = connection
        self._attempt = None
        self._since = None
        self._pause = FIRST_PAUSE
        self.stop_trying()

    def lost(self, connection: _Connection) -> None:
        """The connection broke, or the attempt failed."""
        if connection is self.connection:
            self.connection = None
            self._try_later()
        elif connection is self._attempt:
            self._attempt = None
            self._failed()

    def _failed(self) -> None:
        now = self.transport.loop.time()
        if self._since is None:
            self._since = now
        if now - self._since > self.transport.patience:
            self.give_up()
        self._try_later()

    def _try_later(self) -> None:
        if not self.queue:
            self.transport._peers.pop(self.address, None)
        elif not self.transport.closed:
            pause = self._pause * self.transport.random.uniform(0.5, 1)
            self._pause = min(2 * self._pause, LONGEST_PAUSE)
            self._retry = self.transport.loop.call_later(pause, self._try_again)

    def _try_again(self) -> None:
        self._retry = None
        self._connect()

    def stop_trying(self) -> None:
        if self._retry is not None:
            self._retry.cancel()
            self._retry = None


class _Connection:
    """One socket: frames out, frames in."""

    def __init__(self, transport: TcpTransport, made: socket.socket, peer: _Peer | None = None) -> None:
        transport.connections[self] = None
        self._transport = transport
        self._socket = made
        self._closed = False
        self.peer = peer  # whose it is; unknown until an accepted one has been greeted
        self.established = False  # we opened it, it came about, and we have greeted
        self.used = False  # it has sent a packet in this turn: the next ones accumulate
        self._deadline: asyncio.TimerHandle | None = None  # when the other end's greeting must have come; none once it has
        self._greeting = ("", 0)  # token and number of the other end's greeting
        self._left: asyncio.Future[None] | None = None  # we are leaving; done when the other end has closed
        self._started: memoryview | None = None  # the rest of a frame that the socket took in part
        self._writing = False  # the socket is full; the loop tells us when it is not
        self._frames = FrameBuffer()  # what was read and not handed on
        self._busy = False  # there are more whole frames in the buffer than one turn may have

    # --- making -------------------------------------------------------------------------------------------------------
    def connect(self, address: Address) -> None:
        self.expect_greeting()
        try:
            code = self._socket.connect_ex(address)
        except OSError:
            code = errno.EADDRNOTAVAIL
        if code in (0, errno.EINPROGRESS):
            self._writing = True
            self._transport.loop.add_writer(self._socket.fileno(), self._connected)
        else:
            # Not here: whoever sends must not meet the consequences of a failure in the middle of it.
            self._transport.loop.call_soon(self.fail)

    def _connected(self) -> None:
        self._stop_writing()
        failed = bool(self._socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR))
        with contextlib.suppress(OSError):  # it broke at once; reading will tell
            # A port that no process listens at, and that the system happens to choose for our end, connects to itself.
            failed = failed or self._socket.getsockname() == self._socket.getpeername()
        if failed:
            self.fail()
            return
        self.established = True
        self.begin_reading()
        self.greet()

    def begin_reading(self) -> None:
        self._transport.loop.add_reader(self._socket.fileno(), self._read)

    def expect_greeting(self) -> None:
        self._deadline = self._transport.loop.call_later(self._transport.patience, self.fail)

    def own_address(self) -> Address:
        """Where others reach us: if we listen at every address, it is this end's."""
        host, port = self._transport.address
        if is_any(host) and not self._closed:
            host = self._socket.getsockname()[0]
        return host, port

    def greet(self) -> None:
        transport = self._transport
        self._started = memoryview(make_greeting(transport.token, next(transport.greetings), self.own_address()))
        self.flush()

    def greeted_before(self, other: _Connection) -> bool:
        """Whether one and the same process greeted here before it greeted there."""
        return self._greeting[0] == other._greeting[0] and self._greeting[1] < other._greeting[1]

    # --- writing ------------------------------------------------------------------------------------------------------
    @property
    def idle(self) -> bool:
        """A packet can leave at once."""
        return not (self.used or self._writing) and self.peer is not None and not self.peer.queue

    def send_at_once(self, length: bytes, data: Data) -> None:
        """The first packet of a turn."""
        assert self.peer is not None
        self.used = True
        try:
            taken = self._socket.sendmsg((length, data))
        except BlockingIOError:
            taken = 0
        except OSError:
            self.peer.wait(length, bytes(data))
            self._transport.loop.call_soon(self.fail)
            return
        counters = self._transport.counters
        counters.sent += 1
        counters.sent_bytes += len(data)
        if taken < len(data) + 4:
            counters.queued += 1
            self._started = memoryview(length + bytes(data))[taken:]
            self._start_writing()

    def flush(self) -> None:
        """Sends what has accumulated, as far as the socket takes it."""
        while not self._closed:
            pieces: list[Data] = [] if self._started is None else [self._started]
            if self.peer is not None and self.peer.connection is self:
                for frame in itertools.islice(self.peer.queue, _FRAMES_AT_ONCE):
                    pieces += frame
            if not pieces:
                self._stop_writing()
                if self._left is not None:
                    self._shut()
                return
            try:
                taken = self._socket.sendmsg(pieces)
            except BlockingIOError:
                self._start_writing()
                return
            except OSError:
                self.fail()
                return
            self._strike_out(taken)
            if taken < sum(map(len, pieces)):
                self._start_writing()
                return

    def _strike_out(self, taken: int) -> None:
        """Forgets what the socket took. A frame of which it took a part counts as sent."""
        if self._started is not None:
            if taken < len(self._started):
                self._started = self._started[taken:]
                return
            taken -= len(self._started)
            self._started = None
        counters = self._transport.counters
        while taken:
            assert self.peer is not None
            length, data = self.peer.queue.popleft()
            self.peer.queued_bytes -= len(data)
            counters.sent += 1
            counters.sent_bytes += len(data)
            if taken < len(data) + 4:
                self._started = memoryview(length + data)[taken:]
                return
            taken -= len(data) + 4

    def _start_writing(self) -> None:
        if not self._writing and not self._closed:
            self._writing = True
            self._transport.loop.add_writer(self._socket.fileno(), self.flush)

    def _stop_writing(self) -> None:
        if self._writing and not self._closed:
            self._writing = False
            self._transport.loop.remove_writer(self._socket.fileno())

    # --- reading ------------------------------------------------------------------------------------------------------
    def _read(self) -> None:
        if self._busy:
            return
        try:
            size = self._socket.recv_into(self._frames.free())
        except BlockingIOError:
            return
        except OSError:
            self.fail()
            return
        if not size:
            self.drop()
            return
        self._frames.fill(size)
        self._hand_on()

    def catch_up(self) -> None:
        """Reads what has come, as if the loop had come round."""
        if self._busy:
            self._hand_on_more()
        elif not self._closed and self._left is None:
            self._read()

    def _hand_on_more(self) -> None:
        if not self._closed and self._left is None:
            self._hand_on()

    def _hand_on(self) -> None:
        """Hands whole frames on, as many as one turn may have, and the rest in the next turn."""
        counters, frames = self._transport.counters, self._frames
        before = counters.received
        try:
            while counters.received - before < READ_AT_ONCE:
                frame = frames.take()
                if frame is None:
                    break
                if self._deadline is not None:
                    self._greeted(frame)
                else:
                    assert self.peer is not None
                    counters.received += 1
                    counters.received_bytes += len(frame)
                    self._transport.receive(self.peer.address, frame)
                if self._closed:
                    break
        except BadFrame:
            self.fail()
        finally:
            self._prepare_to_read()
            if counters.received > before and not self._transport.closed:
                self._transport.turn_over()

    def _prepare_to_read(self) -> None:
        """Makes room for the rest of a frame that has begun, or has whole frames handed on in the next turn."""
        self._busy = False
        if self._closed:
            return
        try:
            self._busy = self._frames.has_frame()
        except BadFrame:
            self.fail()
            return
        if self._busy:
            self._transport.loop.call_soon(self._hand_on_more)
        else:
            self._frames.make_room()

    def _greeted(self, frame: memoryview) -> None:
        """The first frame: whether it is a greeting, and whose."""
        found = read_greeting(frame)
        if found is None:
            self.fail()
            return
        assert self._deadline is not None
        self._deadline.cancel()
        self._deadline = None
        self._frames.greeted = True
        token, number, address = found
        self._greeting = (token, number)
        if self.peer is None:
            self._transport.greeted(self, address)
        else:
            self.peer.answered(self)

    # --- the end ------------------------------------------------------------------------------------------------------
    def fail(self) -> None:
        """The network broke it, or the other end is no peer."""
        if not self._closed:
            self._transport.counters.errors += 1
            self.drop()

    def drop(self) -> None:
        """Closes, and tells whose it is."""
        self.discard()
        if self.peer is not None:
            self.peer.lost(self)

    def discard(self) -> None:
        """Closes and tells nobody."""
        if self._closed:
            return
        if self._deadline is not None:
            self._deadline.cancel()
        self._transport.loop.remove_reader(self._socket.fileno())
        self._transport.loop.remove_writer(self._socket.fileno())
        self._socket.close()
        self._closed = True
        self._transport.connections.pop(self, None)
        if self._left is not None and not self._left.done():
            self._left.set_result(None)

    def leave(self) -> asyncio.Future[None]:
        """Sends what waits, says that no more will come, and is done when the other end has closed. Closing outright would
        discard what the other end has not acknowledged, if it has sent something that we did not read."""
        self._left = self._transport.loop.create_future()
        if self._closed:
            self._left.set_result(None)
        else:
            self._transport.loop.add_reader(self._socket.fileno(), self._read_to_the_end)
            self.flush()
        return self._left

    def _shut(self) -> None:
        try:
            self._socket.shutdown(socket.SHUT_WR)
        except OSError:
            self.discard()

    def _read_to_the_end(self) -> None:
        try:
            if self._socket.recv_into(self._frames.view):
                return
        except BlockingIOError:
            return
        except OSError:
            self._transport.counters.errors += 1
        self.discard()
