"""Functions that take any bytes and must come back: what ``make fuzz`` runs, and what replays a finding."""

from __future__ import annotations

import asyncio
import struct
import tempfile
from collections import deque
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any, Final
from zlib import crc32

import msgspec

from plainchant.core.model import Packet, TraceError, WireError
from plainchant.core.wire import HEADER_BYTES, VERSION, Codec, Stamped
from plainchant.layers.state_parts import STATE_PACKETS
from plainchant.live.tcp import TcpTransport, _Connection
from plainchant.protocols import registry
from plainchant.protocols.mailbox.remote_packets import item_from_bytes
from plainchant.trace.collect import collect
from plainchant.trace.spool import Spool

from .attack import MEMBERS, STRANGERS, Attack, attacked
from .courses import COURSES
from .dice import Dice, dice_of

Target = Callable[[bytes], None]


# --- the decoder --------------------------------------------------------------------------------------------------------


@lru_cache
def codecs() -> list[tuple[Codec, Stamped, tuple[type[Packet], ...]]]:
    """Of each protocol, with the packets of state transfer, as live hosts have them."""
    unions = [(*description.packets, *STATE_PACKETS) for description in registry.protocols().values()]
    return [(Codec(packets), Stamped(packets, b"boot"), packets) for packets in unions]


def decoder(data: bytes) -> None:
    """Bytes are refused or are a packet with fields of their types: as they come, behind a good header, and behind a stamp."""
    for codec, stamped, packets in codecs():
        for read, sealed in (
            (codec.decode, data),
            (codec.decode, _sealed(data)),
            (stamped.decode_frame, _sealed(b"boot" + data)),
        ):
            try:
                packet = read(sealed)
            except WireError:
                continue
            if type(packet) not in packets:
                raise AssertionError(f"{type(packet)} is no packet of this protocol")
            # Converting checks the type and the range of every field again.
            msgspec.convert(msgspec.to_builtins(packet, builtin_types=(bytes,)), type(packet))
    try:
        item_from_bytes(data)
    except WireError:
        return


def _sealed(body: bytes) -> bytes:
    return struct.pack(">BI", VERSION, crc32(body)) + body


# --- the receive paths --------------------------------------------------------------------------------------------------


def receive_path(protocol: str) -> Target:
    """Attacks the courses of a protocol: the first bytes say which, by whom, and with which seed."""
    courses = [course for course in COURSES.values() if course.scenario.protocol == protocol]

    def attack(data: bytes) -> None:
        dice = Dice(data)
        course = dice.choose(courses)
        sources = dice.choose((STRANGERS, MEMBERS))
        attacked(course, dice, sources, seed=1 + dice.pick(4))

    return attack


# --- frames on connections ----------------------------------------------------------------------------------------------


class _Wire:
    """Stands for a socket: hands over what it was given, a piece at a time."""

    def __init__(self, pieces: list[bytes]) -> None:
        self.pieces = pieces

    def recv_into(self, view: memoryview) -> int:
        if not self.pieces:
            raise BlockingIOError
        piece = self.pieces.pop(0)
        taken = min(len(piece), len(view))
        view[:taken] = piece[:taken]
        if taken < len(piece):
            self.pieces.insert(0, piece[taken:])
        return taken

    def sendmsg(self, pieces: Any) -> int:
        return sum(map(len, pieces))

    def fileno(self) -> int:
        return -1

    def getsockname(self) -> tuple[str, int]:
        return ("127.0.0.1", 9)

    def getpeername(self) -> tuple[str, int]:
        return ("127.0.0.1", 8)

    def close(self) -> None:
        self.pieces = []


class _Loop:
    """Stands for an event loop: what is to be called soon is called by the target."""

    def __init__(self) -> None:
        self.soon: list[tuple[Callable[..., Any], tuple[Any, ...]]] = []

    def call_soon(self, function: Callable[..., Any], *arguments: Any) -> None:
        self.soon.append((function, arguments))

    def call_later(self, _: float, function: Callable[..., Any], *arguments: Any) -> asyncio.TimerHandle:
        return asyncio.TimerHandle(0.0, function, arguments, self)  # type: ignore[arg-type]

    def time(self) -> float:
        return 0.0

    def add_reader(self, *_: Any) -> None: ...

    add_writer = remove_reader = remove_writer = _timer_handle_cancelled = add_reader

    def get_debug(self) -> bool:
        return False


HELD: Final = 40 << 20
"""Bytes that a connection may hold: the largest frame, and what is copied when it grows."""


def framing(data: bytes) -> None:
    """A stranger's connection: greetings, lengths and frames, in pieces of any size."""
    dice = Dice(data)
    greeting = b"plainchant/1 0123456789abcdef 7 127.0.0.1:8"
    pieces = [_LENGTH.pack(len(greeting)) + greeting] if dice.pick(2) else []
    while not dice.is_over and len(pieces) < 64:
        piece = dice.some_bytes(64)
        pieces.append(_LENGTH.pack(len(piece)) + piece if dice.pick(2) else piece)
    got: list[int] = []
    loop = _Loop()
    transport = TcpTransport(("127.0.0.1", 9))
    transport.loop = loop  # type: ignore[assignment]
    transport._listener = _Wire([])  # type: ignore[assignment]
    transport.receive = lambda source, frame: got.append(len(frame))
    transport.turn_over = lambda: None
    connection = _Connection(transport, _Wire([piece for piece in pieces if piece]))  # type: ignore[arg-type]
    connection.expect_greeting()
    for _ in range(4 * len(pieces) + 8):
        if connection._closed:
            break
        connection._read()
        while loop.soon:
            function, arguments = loop.soon.pop(0)
            function(*arguments)
        if len(connection._frames._buffer) > HELD:
            raise AssertionError(f"a connection holds {len(connection._frames._buffer)} bytes")
    if sum(got) > sum(map(len, pieces)) + len(data):
        raise AssertionError("more came out of a connection than went in")


_LENGTH: Final = struct.Struct(">I")


# --- spools -------------------------------------------------------------------------------------------------------------


def spools(data: bytes) -> None:
    """A spool with damage, also behind good checksums, is read or refused."""
    dice = Dice(data)
    with tempfile.TemporaryDirectory(prefix="fuzz-spool-") as directory:
        root = Path(directory)
        _write_spool(root)
        file = next(root.rglob("*.spool"))
        body = bytearray(file.read_bytes())
        for _ in range(1 + dice.pick(4)):
            body[dice.pick(len(body))] = dice.pick(256)
        if dice.pick(2):
            body = body[: dice.pick(len(body) + 1)]
        if dice.pick(8):
            body = _checksummed(body)
        file.write_bytes(bytes(body))
        try:
            collect([root], root / "trace")
        except TraceError:
            return


def _write_spool(root: Path) -> None:
    start = {"version": 1, "protocol": "sequencer", "parameters": {}, "promises": [], "bounds": {}}
    with Spool(root, run="r0", process="p1", start=start, time=1) as spool:
        spool.send(2, "g", 1, 1, [b"one", b"two"])
        spool.deliver(3, "g", 1, "p2", 1, [b"three", b"four", b"five"], 7)
        spool.row("view", 4, group="g", view=2, members=("p1", "p2"))
        spool.flush()


def _checksummed(body: bytearray) -> bytearray:
    """The same with the checksums of its blocks made right, as far as there are blocks."""
    from plainchant.trace.spool import ALL_BITS, BLOCK, MAGIC

    at = len(MAGIC)
    while at + BLOCK.size <= len(body):
        length, _, _ = BLOCK.unpack_from(body, at)
        length = min(length, len(body) - at - BLOCK.size)
        inside = bytes(body[at + BLOCK.size : at + BLOCK.size + length])
        BLOCK.pack_into(body, at, length, length ^ ALL_BITS, crc32(inside))
        at += BLOCK.size + length
    return body


TARGETS: Final[dict[str, Target]] = {
    "decoder": decoder,
    **{protocol: receive_path(protocol) for protocol in registry.protocols()},
    "framing": framing,
    "spools": spools,
}


def seeds(name: str) -> list[bytes]:
    """What a fuzzer begins with: real packets for the decoder, decisions for the others."""
    if name != "decoder":
        return [dice_of(seed)._data[:512] for seed in range(8)]
    found: dict[type[Packet], bytes] = {}
    for course in COURSES.values():
        attack = Attack(course, Dice(b""), STRANGERS)
        attack._strike = lambda _: None  # type: ignore[method-assign]
        attack.seen = deque()  # all of them
        attack.run()
        for _, packet in attack.seen:
            found.setdefault(type(packet), attack.codec.encode(packet)[HEADER_BYTES:])
    return list(found.values())
