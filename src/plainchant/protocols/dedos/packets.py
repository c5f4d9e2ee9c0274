"""What relays and distributors say to each other (3.8.1), and what members say to their relay.

An epoch is a number that no two distributors share: how many there were before, and a digest of the distributor's name
(:func:`epoch_of`). ``life`` is when a node's mailbox of the group was made, and tells it from one that the node had before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Final
from zlib import crc32

import msgspec

from ...core.model import GroupId, Number, Packet, ProcessId, WireError
from .box import Element

_COUNTED: Final = 32
_BITS: Final = 62
_OVERHEAD: Final = 96  # Bytes of an element in a packet beside its body, about


def epoch_of(count: int, distributor: ProcessId) -> int:
    """The epoch of a group's first, second, third ... distributor."""
    return count << _COUNTED | crc32(distributor.encode())


def count_of(epoch: int) -> int:
    """How many distributors the group has had, by its epoch.

    >>> count_of(epoch_of(3, "n1.a"))
    3
    """
    return epoch >> _COUNTED


def is_epoch_of(epoch: int, distributor: ProcessId) -> bool:
    """Whether a distributor has this epoch, or one like it.

    >>> is_epoch_of(epoch_of(3, "n1.a"), "n1.a"), is_epoch_of(epoch_of(3, "n1.a"), "n2.a")
    (True, False)
    """
    return epoch == epoch_of(count_of(epoch), distributor)


def mask_of(nodes: Iterable[str]) -> int:
    """Nodes as a mask, by digests of their names: it fits into a mailbox's header. Two names may share a bit.

    >>> mask_of(["n1", "n2"]) & mask_of(["n2"]) == mask_of(["n2"])
    True
    """
    mask = 0
    for node in nodes:
        mask |= 1 << crc32(node.encode()) % _BITS
    return mask


class Change(msgspec.Struct, frozen=True, array_like=True):
    """Who is in the group, from this number on: what an element of kind CHANGE carries."""

    members: tuple[ProcessId, ...]  # Those who receive
    joined: tuple[ProcessId, ...] = ()  # Those who are new, who only send among them
    gone: tuple[tuple[ProcessId, str], ...] = ()  # Those who are no members now, and why: ``left``, ``crashed``, ``node crashed``


class Local(msgspec.Struct, frozen=True, array_like=True):
    """A member, as its relay finds it in the mailbox."""

    process: ProcessId
    wish: Number
    floor: Number  # All its messages up to this one of its own numbers were read by all receivers of its node
    entry: Number  # The number of the change that made it a member; 0: none has
    exit: Number  # The number of the change that has said that it is no member any more; 0: none has
    only_sends: bool = False  # Whether it reads changes of members only


class Said(Packet, frozen=True, array_like=True, gc=False):
    """What every packet of a relay to a distributor begins with."""

    group: GroupId
    epoch: Number  # That of the distributor that it is meant for
    at: Number  # When this was said, by the clock: of two reports of a node the later one counts
    node: str
    life: Number
    line: Number  # The epoch whose numbers are in the node's mailbox; 0: there are none yet
    fresh: bool  # Nobody on the node is a member; somebody may wish to be
    acked: Number  # All receivers of the node have read everything up to this number
    next: Number  # The first number that is not in the node's mailbox


class McRequest(Said, frozen=True, array_like=True, gc=False, tag=80):
    """Messages to be numbered."""

    elements: tuple[Element, ...]


class AcksOnly(Said, frozen=True, array_like=True, gc=False, tag=81):
    """Nothing but what every packet says."""


class UpToDate(Said, frozen=True, array_like=True, gc=False, tag=82):
    """Everything that there was when the synchronisation phase began is in the node's mailbox."""


class RetransRequest(Said, frozen=True, array_like=True, gc=False, tag=83):
    """Numbers that are missing."""

    numbers: tuple[Number, ...]


class Report(Said, frozen=True, array_like=True, gc=False, tag=84):
    """Who is connected to the node's mailbox, and what they wish."""

    members: tuple[Local, ...]


class Held(Said, frozen=True, array_like=True, gc=False, tag=85):
    """The answer to HIGHEST: what the node's mailbox holds."""

    round: Number
    serves: bool  # Whether there is a mailbox of the group on this node at all
    before: Number  # The epoch that this node had promised before it promised this one
    oldest: Number  # Everything from here to ``next`` is there
    beyond: tuple[Number, ...]  # Numbers after ``next`` that are there
    members: tuple[Local, ...]
    nodes: Number  # The nodes that were there when the epoch of ``line`` began (:func:`mask_of`)
    receives: bool  # Whether somebody on the node receives


class DistLoaded(Said, frozen=True, array_like=True, gc=False, tag=86):
    """The answer to DISTLOAD."""

    round: Number
    elements: tuple[tuple[Number, Element], ...]
    missing: tuple[Number, ...]  # Numbers that are not there any more


class StartDist(Packet, frozen=True, array_like=True, gc=False, tag=87):
    """You are the distributor of this epoch."""

    group: GroupId
    epoch: Number
    forms: tuple[ProcessId, ...]  # Those who form the group, as far as the node that says so knows


class Highest(Packet, frozen=True, array_like=True, gc=False, tag=88):
    """A new distributor asks what there is; who answers listens to no earlier one any more."""

    group: GroupId
    epoch: Number
    round: Number


class DistLoad(Packet, frozen=True, array_like=True, gc=False, tag=89):
    """A new distributor asks for messages."""

    group: GroupId
    epoch: Number
    round: Number
    numbers: tuple[Number, ...]


class SyncInit(Packet, frozen=True, array_like=True, gc=False, tag=90):
    """Where a node has to stand: an epoch begins, a relay is new, or everybody has to catch up."""

    group: GroupId
    epoch: Number
    begin: Number  # Numbers of earlier epochs are void from here on
    start: Number  # The first number that this node gets; 0: it goes on with what it has
    last: Number
    oldest: Number
    nodes: Number  # The nodes that were there when the epoch began (:func:`mask_of`)
    reported: Number  # When the last report of this node that the distributor has heeded was made
    sync: bool  # Whether this begins a synchronisation phase: UPTODATE is expected when everything up to ``last`` is there


class Multicast(Packet, frozen=True, array_like=True, gc=False, tag=91):
    """Consecutive messages with their numbers; without any it says only what there is."""

    group: GroupId
    epoch: Number
    first: Number  # 0: there are none, and no answer is wanted
    oldest: Number  # All receivers of all nodes have everything before this
    next: Number
    elements: tuple[Element, ...]


class Retrans(Packet, frozen=True, array_like=True, gc=False, tag=92):
    """Messages that were asked for."""

    group: GroupId
    epoch: Number
    elements: tuple[tuple[Number, Element], ...]


class NotSent(Packet, frozen=True, array_like=True, gc=False, tag=76):
    """The distributor lives, but does not number messages just now; or a node has promised a later epoch."""

    group: GroupId
    epoch: Number
    why: str
    promised: Number


class Fence(Packet, frozen=True, array_like=True, gc=False, tag=77):
    """The group goes on without this node."""

    group: GroupId
    epoch: Number
    node: str
    life: Number


class Wish(Packet, frozen=True, array_like=True, gc=False, tag=78):
    """A member tells the relay of its node that it wants to join or to leave, and whom it knows."""

    group: GroupId
    process: ProcessId
    forms: tuple[ProcessId, ...]
    contacts: tuple[ProcessId, ...]


class Outcast(Packet, frozen=True, array_like=True, gc=False, tag=79):
    """A node was reported as crashed, and is heard: whoever was a member there is none any more, and the node begins anew."""

    node: str
    life: Number


PACKETS: Final = (
    McRequest, AcksOnly, UpToDate, RetransRequest, Report, Held, DistLoaded, StartDist, Highest, DistLoad, SyncInit, Multicast,
    Retrans,     NotSent, Fence, Wish, Outcast,
)  # fmt: skip

change_to_bytes: Final[Callable[[Change], bytes]] = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Change).decode


def change_from_bytes(data: bytes) -> Change:
    """A change, or a WireError if these bytes are none.

    >>> change_from_bytes(change_to_bytes(Change(("n1.a",)))).members
    ('n1.a',)
    """
    try:
        return _decode(data)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise WireError(f"{len(data)} bytes are no change of a group ({error}); run the same version everywhere") from error


def packed(elements: Iterable[tuple[int, Element]], most: int) -> Iterator[list[tuple[int, Element]]]:
    """Splits numbered elements into parts that fit into packets of ``most`` bytes; a larger element has a part of its own."""
    part: list[tuple[int, Element]] = []
    size = 0
    for number, element in elements:
        length = len(element.batch.body) + _OVERHEAD
        if part and size + length > most:
            yield part
            part, size = [], 0
        part.append((number, element))
        size += length
    if part:
        yield part
