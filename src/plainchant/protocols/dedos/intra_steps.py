"""The steps on one box that only the protocol within a node has (appendix C).

Numbers are given here by whoever sends, in the step that stores the element. Each step puts the header before the elements: a
process that is killed between the two has used a number for nothing, which readers skip, or has said what is free and not freed
it, which the next one does.
"""

from __future__ import annotations

from collections.abc import Container
from typing import Final

from ...core.memory import Connection, Copy, Header
from ...core.model import Batch, ProcessId, ProtocolError
from .box import CHANGE, JOINS, Element, changed, deaf, delete, free_slot, numbered, purge, put, receivers, restore, set_present
from .packets import Change, change_from_bytes, change_to_bytes

ROOM: Final = 3  # A wish: a free element


def everybody_is_present(copy: Copy, but: int = -1) -> bool:
    """Whether all P-flags are set, but for that in one place: nobody restores anything in this box any more."""
    return all(connection.present for place, connection in copy.connections() if place != but)


def accepts_new(copy: Copy) -> bool:
    """Whether this box takes new messages: not before all processes have restored what they know of, for which they need room."""
    return everybody_is_present(copy)


def receivers_listed(copy: Copy, but: int = -1) -> list[ProcessId]:
    """The receivers of what is numbered from now on, by place, but for that in one place."""
    return [one.process for place, one in copy.connections() if one.entry and not one.only_sends and place != but]


def give_number(copy: Copy, element: Element, most: int) -> int:
    """The atomic part of Send: a free element, if fewer than ``most`` are taken, gets the next number and the receivers; or 0."""
    if len(tuple(copy.entries())) >= most or free_slot(copy) < 0:
        return 0
    header = copy.header()
    number = header.next
    copy.put_header(changed(header, next=number + 1))
    put(copy, element, number, receivers(copy, number, element.kind))
    free_complete(copy)
    return number


def free_complete(copy: Copy) -> bool:
    """Moves what all have read to Fset: up to the last element whose flags are all set, since flags are set in order. (Members
    that only send have flags on changes alone; a change stays until they have read it.) Whether there was anything."""
    entries = [entry for _, entry in copy.entries() if entry.stamp]
    oldest = max((entry.stamp for entry in entries if not entry.listed & ~entry.done), default=0) + 1
    senders = deaf(copy)
    if senders:
        oldest = min([oldest, *(entry.stamp for entry in entries if senders & entry.listed & ~entry.done)])
    if oldest <= copy.header().oldest:
        return False
    purge(copy, oldest)
    return True


def put_change(copy: Copy, known: tuple[ProcessId, ...], last: int, failed: Container[ProcessId]) -> tuple[int, Element] | None:
    """Puts a change into the order if the receivers in the list are not those of the last one: that is the newest that is stored
    after ``last``, or what this process knows. Also if a member that only sends waits for its first change. Gives it, with its
    number."""
    if changes := [each for each in numbered(copy).values() if each[1].kind == CHANGE and each[1].stamp > last]:
        known = change_from_bytes(copy.data(max(changes, key=lambda each: each[1].stamp)[0])).members
    listed = receivers_listed(copy)
    wishing = [(place, connection) for place, connection in copy.connections() if connection.wish == JOINS]
    if set(listed) == set(known) and not wishing:
        return None
    joined = (*(name for name in listed if name not in known), *(connection.process for _, connection in wishing))
    gone = tuple((name, "crashed" if name in failed else "left") for name in known if name not in listed)
    change = Change((*(name for name in known if name in listed), *(name for name in listed if name not in known)), joined, gone)
    element = Element("", 0, CHANGE, Batch(0, 0, change_to_bytes(change)))
    number = give_number(copy, element, copy.layout.places * copy.layout.slots)
    if not number:
        return None
    for place, connection in wishing:
        copy.connect(place, changed(connection, wish=0))
    return number, element


def excuse(copy: Copy, place: int, below: int) -> None:
    """Nobody waits for a process to read what is numbered lower than this."""
    mask = 1 << place
    for slot, entry in tuple(copy.entries()):
        if entry.stamp < below and mask & entry.listed:
            copy.put(slot, changed(entry, listed=entry.listed & ~mask, done=entry.done & ~mask))


def list_at(copy: Copy, place: int, connection: Connection) -> None:
    """Lists a process from its entry on: no process waits for it to read what is earlier. Its presence stamp stays."""
    before = copy.connection(place)
    stamp = before.stamp if before is not None and before.process == connection.process else 0
    copy.connect(place, changed(connection, stamp=stamp))
    excuse(copy, place, connection.entry or copy.header().next)


def start_recovery(copy: Copy, place: int, connection: Connection, known: Header) -> Header:
    """StartRecovery: numbers go on from where this process knows them to be, also if there is nothing to restore; what all have
    read is free. A spare box lists it as a receiver of everything; now it says from which number on (``connection``)."""
    before = copy.header()
    copy.put_header(changed(before, next=max(before.next, known.next)))
    list_at(copy, place, connection)
    purge(copy, known.oldest)
    free_complete(copy)
    return copy.header()


def recover(copy: Copy, number: int, element: Element, mask: int) -> Header:
    """Recover, for one message; ``mask`` is this process's flag. What live processes keep was in one box: there is room."""
    header = copy.header()
    copy.put_header(changed(header, next=max(header.next, number + 1)))
    if not restore(copy, number, element, mask):
        raise ProtocolError(f"there is no free element to restore message {number}, though all were in one box; report this")
    free_complete(copy)
    return copy.header()


def be_present(copy: Copy, place: int, last: int) -> Header:
    """The end of a recovery: the P-flag, and this process's flags on what it has read."""
    set_present(copy, place, last, copy.header().oldest)
    free_complete(copy)
    return copy.header()


def delete_member(copy: Copy, process: ProcessId) -> bool:
    """DeleteMember: nobody waits for this process any more. Whether it was listed."""
    place = delete(copy, process)
    free_complete(copy)
    return place is not None


def waits_for_room(copy: Copy) -> bool:
    """Whether somebody does; from now on it is told."""
    waiting = [(place, connection) for place, connection in copy.connections() if connection.wish == ROOM]
    for place, connection in waiting:
        copy.connect(place, changed(connection, wish=0))
    return bool(waiting)
