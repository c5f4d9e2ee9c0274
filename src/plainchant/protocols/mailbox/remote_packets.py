"""What a remote process and the one that acts for it say to each other, and the packets that carry it.

*Items* are what is said: they come once and in order. An item travels as the bytes of a tagged array, cut into as many
:class:`Piece` packets as it needs (``remote_link``), because a message in a mailbox may be larger than a datagram."""

from __future__ import annotations

from typing import Final, TypeAlias

import msgspec

from ...core.model import Batch, GroupId, Number, Packet, ProcessId, Reason, View, WireError


class Piece(Packet, frozen=True, array_like=True, gc=False, tag=70):
    """A part of an item, and how much of what the other side has said is there."""

    group: GroupId
    session: Number  # begun by the remote process when it enters: a later one is greater
    number: Number  # pieces are counted from 1, in each direction
    acknowledged: Number  # all pieces up to this one are there
    more: bool  # the item goes on in the next piece
    body: bytes


class Heard(Packet, frozen=True, array_like=True, gc=False, tag=71):
    """Acknowledges pieces, and says that the process is there."""

    group: GroupId
    session: Number
    acknowledged: Number
    seen: Number = 0  # all pieces up to this one are there, but for the missing ones; 0: nothing is known of later ones
    missing: tuple[Number, ...] = ()


class Item(msgspec.Struct, frozen=True, array_like=True):
    """Base of what is said."""


class Enter(Item, frozen=True, array_like=True, tag=1):
    """It wants to be in the group: to form it with these, or to join."""

    forms: bool
    names: tuple[ProcessId, ...]


class Data(Item, frozen=True, array_like=True, tag=2):
    """Messages that it sends."""

    batch: Batch


class Depart(Item, frozen=True, array_like=True, tag=3):
    """It leaves, after all that it has sent."""


class Pressed(Item, frozen=True, array_like=True, tag=4):
    """Its application has no room for more, or has room again."""

    full: bool


class Wanted(Item, frozen=True, array_like=True, tag=11):
    """There is a slot for its next message, which may be sent now."""


class Installed(Item, frozen=True, array_like=True, tag=12):
    view: View


class Delivered(Item, frozen=True, array_like=True, tag=13):
    sender: ProcessId
    batch: Batch
    rank: Number | None


class Gone(Item, frozen=True, array_like=True, tag=14):
    """It is out of the group."""

    rank: Number | None


class Refused(Item, frozen=True, array_like=True, tag=15):
    """It is not let into the group."""

    reason: Reason


class Halted(Item, frozen=True, array_like=True, tag=16):
    """It must stop: who acts for it does so no longer."""

    reason: Reason


class Away(Item, frozen=True, array_like=True, tag=17):
    """Who acts for it leaves the group, so it has to leave first."""


class Untimely(Item, frozen=True, array_like=True, tag=18):
    """Something that was done for it, or a packet to it, took longer than its bound."""

    what: str
    took: Number
    bound: Number


AnyItem: TypeAlias = Enter | Data | Depart | Pressed | Wanted | Installed | Delivered | Gone | Refused | Halted | Away | Untimely

PACKETS: Final = (Piece, Heard)

item_to_bytes = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(AnyItem).decode


def item_from_bytes(data: bytes) -> AnyItem:
    """What was said, or a WireError if it is nothing that can be.

    >>> item_from_bytes(item_to_bytes(Pressed(True)))
    Pressed(full=True)
    """
    try:
        item: AnyItem = _decode(data)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        text = f"{len(data)} bytes say nothing that a remote member can ({error}); run the same version everywhere"
        raise WireError(text) from error
    return item
