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
    """The first number that is not in the mailbox. After a recovery there may be higher ones: every number that is missing
    is asked for, not only those after the highest."""
    while oldest in there:
        oldest += 1
    return oldest


def count_acked(copy: Copy, there: dict[int, tuple[int, Entry]], oldest: int, next_: int) -> int:
    """SetAcks: the largest number such that it and all before it were read by every local receiver. A node without receivers
    acknowledges what it has stored (erratum 11)."""
    number = oldest
    senders = boxes.deaf(copy)
    while number < next_:
        if number not in there:
            break
        entry = there[number][1]
        if entry.listed & ~entry.done:
            break
        number += 1
    # Who has restored what it knows of has read more than is there, if others have removed it.
    read = [
        max(connection.read, connection.entry - 1)
        for _, connection in copy.connections()
        if connection.entry and not connection.only_sends
    ]
    # A member that only sends has not read a change that is still here.
    unread = [stamp for stamp, (_, entry) in there.items() if senders & entry.listed & ~entry.done]
    acked = max(number - 1, min(read, default=0))
    return min(acked, min(unread) - 1) if unread else acked


def floor(copy: Copy, connection: Connection, acked: int) -> int:
    """The sender's own number of its last message that every local receiver has read."""
    last = connection.last
    for _, entry in copy.entries():
        if entry.sender == connection.process and 0 < entry.stamp <= acked and entry.kind == MESSAGES:
            last = max(last, entry.number)
    return last


def turn(copy: Copy, *, packet: SyncInit) -> None:
    """Brings a box to the beginning of an epoch: numbers that the new distributor did not find anywhere are void."""
    begin, header = packet.begin, copy.header()
    if header.epoch > packet.epoch or (header.epoch == packet.epoch and header.oldest >= packet.start):
        return
    here = {connection.process for _, connection in copy.connections()}
    for slot, entry in tuple(copy.entries()):
        if packet.start:
            # All that were here before are gone.
            copy.put(slot, boxes.changed(entry, removed=True))
        elif entry.stamp >= begin:
            is_local = entry.kind == MESSAGES and entry.sender in here
            void = boxes.changed(entry, stamp=0, listed=0, done=0) if is_local else boxes.changed(entry, removed=True)
            copy.put(slot, void)
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
