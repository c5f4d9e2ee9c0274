"""How large the ring's own packets become, from the names that are in them.

What the ring sends beside messages has the names of members in it, so its size grows with the ring and with the names. Admission
control and P have to reckon with the largest packet that can come. Instead of counting fields by hand, the largest packet of each
kind is built and encoded: a field that is added to a packet is in the reckoning at once.

Three lists in packets have a limit, so that their size has one: processes that join by one change (:data:`JOINERS`), processes at
the door that a heartbeat mentions (:data:`MENTIONED`), and requests for lost packets for which a heartbeat keeps room
(:data:`ASKS`; more go with it where the turn has time left). A list of eliminated members needs no limit: each of them stood on
the ring, where its name and its T took as many bytes.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence
from typing import Final

import msgspec

from ...core.model import Batch, GroupId, Packet, ProcessId
from ...core.names import incarnation_of, place_of, process_name
from .packets import Beat, Change, Data, Here, JoinAck, Knock, Request, Where

JOINERS: Final = 8  # Processes that are invited to one join slot, and that one change lets in; others come with the next
MENTIONED: Final = 4  # Processes at the door that one heartbeat mentions
ASKS: Final = 2  # Requests for lost packets that a heartbeat always has room for
GONE: Final = 2  # Eliminated members in a change that were not on the ring before: not all had heard of their elimination
SILENT: Final = 4  # Members that a question about the token names, at least; more where more may fail in one rotation
FRAME: Final = 9  # Bytes that the wire format adds to a packet (``core.wire``)
LATEST: Final = 99  # Incarnation that sizes assume for each member, so that a process that comes back needs no more of P
GROUP: Final = 16  # Bytes of the name of a group, at least: P does not depend on a short name
CHANGE: Final = 512  # Bytes reserved for a membership change, at least
BEAT: Final = 192  # Bytes reserved for a heartbeat, at least
ACKNOWLEDGEMENT: Final = 512  # Bytes reserved for a join acknowledgement, at least
_NUMBER: Final = (1 << 63) - 1  # Encoded, as long as a number can be
_SHORT: Final = (1 << 32) - 1  # A sequence number, or a T, that is as long as it can be
_WORD: Final = (1 << 16) - 1  # Number of a piece; a larger one takes a few bytes more, which ``header`` can spare
_encode: Final = msgspec.msgpack.Encoder().encode


@dataclasses.dataclass(frozen=True, slots=True)
class Sizes:
    """Bytes of the largest packet of each kind on a ring, with the frame that the wire format adds."""

    change: int  # A data packet with a membership change
    beat: int
    acknowledgement: int
    knock: int
    request: int
    where: int
    here: int  # The short answer to a question about the token
    tale: int  # The long one, with the last heartbeat and the last change


def size_of(packet: Packet) -> int:
    """Bytes of a packet on the wire."""
    return len(_encode(packet)) + FRAME


@functools.lru_cache(maxsize=256)
def sizes_of(group: GroupId, ring: tuple[ProcessId, ...], silent: int) -> Sizes:
    """The largest packets of a ring of these members; a question about the token names ``silent`` of them at most."""
    name = max(ring, key=lambda process: len(process.encode()), default="")
    numbers = tuple((process, _SHORT) for process in ring)
    holds = (_SHORT,) * len(ring)
    one = (name, _SHORT)
    lets_in = Change(_NUMBER, ring, holds, _NUMBER, True, joined=(name,) * min(JOINERS, len(ring)), by=name)
    eliminates = Change(_NUMBER, ring, holds, _NUMBER, True, (one,) * GONE, _NUMBER, left=name, left_at=_SHORT, by=name)
    change = max((lets_in, eliminates), key=lambda word: len(_encode(word)))
    asks = ((name, _NUMBER, name, _SHORT, _SHORT),) * ASKS
    beat = functools.partial(Beat, group, name, _NUMBER, _NUMBER, _SHORT, name, True, _NUMBER, True, _NUMBER, by=name)
    at_the_door = beat(asks=asks, got=_NUMBER, voting=(name,) * JOINERS, mentioned=(name,) * MENTIONED)
    changing = beat(asks=asks, got=_NUMBER, change=change)
    data = functools.partial(Data, group, name, _NUMBER, _NUMBER, name, _SHORT, True, _NUMBER, by=name)
    here = functools.partial(Here, group, name, _NUMBER, _NUMBER, name, _NUMBER, (one,) * min(silent, len(ring)), _NUMBER, True)
    ack = JoinAck(
        group, name, _NUMBER, ring, holds, (name,) * JOINERS, _NUMBER, True, _NUMBER, name, True, numbers, _NUMBER, _SHORT
    )
    return Sizes(
        change=max(CHANGE, size_of(data(word=change))),
        beat=max(BEAT, size_of(at_the_door), size_of(changing)),
        acknowledgement=max(ACKNOWLEDGEMENT, size_of(ack)),
        knock=size_of(Knock(group, name)),
        request=size_of(Request(group, name, _SHORT)),
        where=size_of(Where(group, name, _NUMBER, _NUMBER, (name,) * min(silent, len(ring)), True)),
        here=size_of(here()),
        tale=size_of(here(beat=beat(), change=change)),
    )


def largest(group: GroupId, ring: Sequence[ProcessId], silent: int = SILENT) -> Sizes:
    """The largest packets of a ring of these members, or of later incarnations of them."""
    return sizes_of(group.ljust(GROUP), tuple(_latest(process) for process in ring), silent)


def _latest(process: ProcessId) -> ProcessId:
    return process if incarnation_of(process) > LATEST else process_name(place_of(process), LATEST)


def envelope_of(group: GroupId, ring: Sequence[ProcessId]) -> int:
    """Bytes that a data packet with a piece of a message has besides it."""
    name = max(ring, key=lambda process: len(process.encode()), default="")
    return size_of(Data(group, name, _WORD, _SHORT, name, _WORD, True, _NUMBER, Batch(_SHORT, _WORD, b"", _WORD, _WORD), by=name))
