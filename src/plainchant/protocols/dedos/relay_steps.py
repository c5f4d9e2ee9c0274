"""What a relay reads from a mailbox, and the step that brings a box to another epoch: functions of one box alone."""

from __future__ import annotations

import msgspec

from ...core.memory import Connection, Copy, Entry, Header
from . import box as boxes
from .box import JOINS, LEAVES, MESSAGES, Element
from .packets import Local, SyncInit


class Snapshot(msgspec.Struct, frozen=True):
    """What a relay finds in the mailbox."""

    state: int
    restored: bool
    epoch: int
    promised: int
    before: int
    nodes: int
    oldest: int
    next: int  # The first number that is not there
    acked: int  # All local receivers have read everything up to this
    beyond: tuple[int, ...]
    waiting: int  # Elements without a number
    requests: tuple[Element, ...]  # Those of them that should be sent to the distributor now
    members: tuple[Local, ...]
    receives: bool
    life: int  # When the boxes were made anew; 0: never


def first_missing(there: dict[int, tuple[int, Entry]], oldest: int) -> int:
    """The first number that is not in the mailbox: all missing ones are asked for, also if a recovery left higher ones there."""
    while oldest in there:
        oldest += 1
    return oldest


def count_acked(copy: Copy, there: dict[int, tuple[int, Entry]], oldest: int, next_: int) -> int:
    """SetAcks: the largest number such that it and all before it were read by every local receiver. A node without receivers
    acknowledges what it has stored (erratum 11)."""
    number, senders = oldest, boxes.deaf(copy)
    while number < next_ and number in there and not there[number][1].listed & ~there[number][1].done:
        number += 1
    # A receiver that has restored what it knows of has read more than is there, if others have removed it.
    read = [max(one.read, one.entry - 1) for _, one in copy.connections() if one.entry and not one.only_sends]
    # A member that only sends has not read a change that is still here.
    unread = [stamp for stamp, (_, entry) in there.items() if senders & entry.listed & ~entry.done]
    acked = max(number - 1, min(read, default=0))
    return min(acked, min(unread) - 1) if unread else acked


def floor(copy: Copy, connection: Connection, acked: int) -> int:
    """The sender's own number of its last message that every local receiver has read."""
    own = [entry for _, entry in copy.entries() if entry.sender == connection.process and entry.kind == MESSAGES]
    return max([connection.last, *(entry.number for entry in own if 0 < entry.stamp <= acked)])


def turn(copy: Copy, *, packet: SyncInit) -> None:
    """Brings a box to the beginning of an epoch: numbers that the new distributor did not find anywhere are void."""
    begin, header = packet.begin, copy.header()
    if header.epoch > packet.epoch or (header.epoch == packet.epoch and header.oldest >= packet.start):
        return
    here = {connection.process for _, connection in copy.connections()}
    for slot, entry in tuple(copy.entries()):
        is_local = entry.kind == MESSAGES and entry.sender in here
        if packet.start or (entry.stamp >= begin and not is_local):  # With a start all that were here before are gone.
            copy.put(slot, boxes.changed(entry, removed=True))
        elif entry.stamp >= begin:
            copy.put(slot, boxes.changed(entry, stamp=0, listed=0, done=0))
    for place, connection in tuple(copy.connections()):
        if not packet.start and connection.entry >= begin:
            copy.connect(place, boxes.changed(connection, entry=0, exit=0, wish=JOINS))
        elif not packet.start and connection.exit >= begin:
            copy.connect(place, boxes.changed(connection, exit=0, wish=LEAVES))
    oldest = max(header.oldest, packet.start)
    promised = max(header.promised, packet.epoch)
    copy.put_header(boxes.changed(header, oldest=oldest, epoch=packet.epoch, promised=promised, nodes=packet.nodes))


def renew(copy: Copy, *, life: int) -> None:
    """Empties a box for processes that wish to join; those that were members before are deleted."""
    for slot, entry in tuple(copy.entries()):
        copy.put(slot, boxes.changed(entry, removed=True))
    for place, connection in tuple(copy.connections()):
        if connection.entry or connection.wish != JOINS:
            copy.disconnect(place)
    copy.put_header(Header(life=life, token=copy.header().token))


def is_fresh(members: tuple[Local, ...]) -> bool:
    """Whether none of the connected processes is a member yet."""
    return all(member.wish == JOINS for member in members)
