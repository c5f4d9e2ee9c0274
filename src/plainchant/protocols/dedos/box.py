"""One process's hold on the boxes of a group on its node, and the steps that procedures are made of.

Theory of operation
-------------------
The first box that is alive is the *active* mailbox, the others are spares. A step works on one box and is atomic. A primitive
that concerns several boxes is one step each, *spares first*: what is in the active mailbox is in all boxes where it belongs, so a
process that dies in between leaves nothing that others could rely on. Elements with a number are those of the group's order;
elements without one wait for theirs. An element is free (Fset) or in transit (Tset); masks of places say which receivers have to
read it (``listed``) and which have (``done``).

A process may hang between any two steps, and its node goes on without it (:mod:`.presence`). So every atomic step checks first
that this process is still listed and, for a relay, that no later relay has been there (its *token*): an excluded process changes
nothing.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator
from functools import partial
from typing import Any, Final

import msgspec

from ...core.engine import Host
from ...core.memory import FAILED, Connection, Copy, Entry, Header, Layout, Nap, Operate, Procedure, Request, Step
from ...core.model import Batch, GroupId, Number, ProcessId, Reason, format_duration
from .parameters import Parameters

MESSAGES: Final = 0  # Kinds of elements: messages of a sender, or a change of who is in the group
CHANGE: Final = 1
JOINS: Final = 1  # Wishes
LEAVES: Final = 2
SEATS: Final = "@node"  # The mailbox of a node: every process of the node is connected to it
EXCLUDED: Final = object()  # Result of an operation that was not performed, because the node has gone on without this process
FENCED: Final = 1  # State of a box: its node is not in the group any more, and its members have to halt
changed: Final = msgspec.structs.replace  # The same record with other fields


class Element(msgspec.Struct, frozen=True, array_like=True):
    """What a mailbox element carries, wherever it is: in private memory, or in a packet."""

    sender: ProcessId
    number: Number  # Its sender's own number of it
    kind: Number
    batch: Batch


class Box:
    """What all procedures of a process share that work on one group's boxes."""

    def __init__(self, host: Host, group: GroupId, parameters: Parameters) -> None:
        self.host, self.group, self.parameters = host, group, parameters
        self.copies = parameters.boxes
        self.layout = layout(parameters)
        self.place, self.mask = -1, 0
        self.life = 0  # When the mailbox was made: tells it from one that this node had before
        self.dead: set[int] = set()
        self.active = 0  # The first box that this process has not found dead; -1: there is none
        self.listed: set[int] = set()  # Boxes in which this process has listed itself: if it is not there now, it was excluded
        self.unread_since: int | None = None  # Since when the application has no room for what there is to read
        self.token = 0  # Fencing token of a relay; 0: this hold is a member's

    def spares_first(self) -> Iterator[int]:
        """All boxes that are not known to be dead, the active one last."""
        return (copy for copy in reversed(range(self.copies)) if copy not in self.dead)

    def stores_into(self) -> list[int]:
        """The boxes that a sender stores its message into: all, so that the message outlives the active one."""
        return list(self.spares_first())

    def deletes_from(self) -> list[int]:
        """The boxes that a process which left or failed is deleted from: all (erratum 9)."""
        return list(self.spares_first())

    def found_dead(self, copy: int) -> None:
        """A box has crashed. Whoever finds no other halts."""
        if copy in self.dead:
            return
        was_active = copy == self.active
        self.dead.add(copy)
        self.active = next((copy for copy in range(self.copies) if copy not in self.dead), -1)
        if self.group != SEATS:
            self.host.record("state", self.group, state="box crashed", box=copy, active=self.active, was_active=was_active)
        if self.active < 0:
            text = f"all {self.copies} boxes of {self.group} on this node have crashed"
            self.host.halt(Reason("no box", text, {"boxes": self.copies}))

    def operate(self, copy: int, name: str, step: Step, *, news: bool = False, size: int = 0) -> Operate:
        return Operate(self.group, copy, name, partial(self._fenced, copy, step), self.parameters.operation, news=news, size=size)

    def on_active(self, name: str, step: Step) -> Generator[Request, Any, Any]:
        """A step on the active mailbox; FAILED: it has crashed, and the next box is the active one."""
        copy = self.active
        found = yield self.operate(copy, name, step)
        if found is FAILED:
            self.found_dead(copy)
        return found

    def on_each(self, name: str, step: Step, copies: Iterable[int] | None = None) -> Generator[Request, Any, None]:
        """A step on all boxes, spares first, or on these; with news."""
        for copy in list(self.spares_first() if copies is None else copies):
            if (yield self.operate(copy, name, step, news=True)) is FAILED:
                self.found_dead(copy)

    def nap(self, pause: int) -> Nap:
        """Until there is news, and no longer than this."""
        latest = self.host.clock() + pause
        return Nap(latest, latest, self.group)

    def is_overdue(self, unread: bool) -> bool:
        """Whether the application has held up all senders for longer than ``patience``."""
        if not unread:
            self.unread_since = None
        elif self.unread_since is None:
            self.unread_since = self.host.now
        return self.unread_since is not None and self.host.now - self.unread_since > self.parameters.patience

    def halt_unread(self) -> None:
        text = f"{self.host.me} has not read from {self.group} for {format_duration(self.parameters.patience)}"
        self.host.halt(Reason("not-reading", f"{text}, and others wait for it; read, or set patience higher"))

    def _fenced(self, number: int, step: Step, copy: Copy) -> Any:
        """The step, unless this process was excluded: it may have been stopped for any time since it asked for the step."""
        return step(copy) if self._is_served_by_me(copy) and self._is_listed(number, copy) else EXCLUDED

    def _is_listed(self, number: int, copy: Copy) -> bool:
        """Whether a member is still where it has listed itself."""
        if number not in self.listed:
            return True
        connection = copy.connection(self.place)
        return connection is not None and connection.process == self.host.me and not connection.gone

    def _is_served_by_me(self, copy: Copy) -> bool:
        """Whether no later relay has served this box. Every operation of a relay leaves its token there."""
        if not self.token:
            return True
        header = copy.header()
        if header.token < self.token:
            copy.put_header(changed(header, token=self.token))
        return header.token <= self.token

    def run(self, procedure: Procedure) -> Procedure:
        """Runs a procedure until it ends, or until an operation finds that this process was excluded: then it halts."""
        result: Any = None
        while True:
            try:
                request = procedure.send(result)
            except StopIteration:
                return
            result = yield request
            if result is EXCLUDED:
                text = f"{self.host.me} was silent for too long: its node has gone on without it"
                self.host.halt(Reason("excluded", text, {"mailbox": self.group}))
                procedure.close()
                return


def layout(parameters: Parameters) -> Layout:
    """Besides its elements a box has room for messages that each process may store, in three ways, before others count them."""
    capacity = parameters.elements + 3 * parameters.places
    return Layout(parameters.boxes, parameters.places, -(-capacity // parameters.places), parameters.room)


def send_length(operation: Operate, copies: int) -> int | None:
    """A Send stores into every copy, into the last with news; within a node it is two operations on one copy."""
    if operation.name == "store" and not operation.news:
        return copies
    return 2 if operation.name == "send" else None


def receives(connection: Connection, number: int) -> bool:
    """Whether a process is a member at this number.

    >>> [receives(Connection("p", entry=5, exit=9), number) for number in (4, 5, 9, 10)]
    [False, True, True, False]
    """
    return 0 < connection.entry <= number and not 0 < connection.exit < number


def receivers(copy: Copy, number: int, kind: int = MESSAGES) -> int:
    """The processes that read the element with this number, as a mask. Members that only send read changes of members."""
    return sum(
        1 << place
        for place, connection in copy.connections()
        if receives(connection, number) and (kind == CHANGE or not connection.only_sends)
    )


def deaf(copy: Copy) -> int:
    """The members that only send, as a mask."""
    return sum(1 << place for place, connection in copy.connections() if connection.only_sends)


def is_restored(copy: Copy) -> bool:
    """Whether all receivers have restored what they know of in this box."""
    return all(connection.present for _, connection in copy.connections() if connection.entry)


def accepts_new(copy: Copy) -> bool:
    """Whether this box takes new messages (Rflag, Pflag): not while receivers need free elements to restore messages."""
    return is_restored(copy)


def place_of(copy: Copy, process: ProcessId) -> int | None:
    return next((place for place, connection in copy.connections() if connection.process == process), None)


def delete(copy: Copy, process: ProcessId, *, drop: bool = True) -> int | None:
    """DeleteMember, in one box: flags and messages without a number of this process are removed. Gives its place."""
    place = place_of(copy, process)
    mask = 0 if place is None else 1 << place
    for slot, entry in tuple(copy.entries()):
        if drop and not entry.stamp and entry.sender == process:
            copy.put(slot, changed(entry, removed=True))
        elif mask & (entry.listed | entry.done):
            copy.put(slot, changed(entry, listed=entry.listed & ~mask, done=entry.done & ~mask))
    if place is not None:
        copy.disconnect(place)
    return place


def numbered(copy: Copy) -> dict[int, tuple[int, Entry]]:
    """The elements that have a number, by it, with their slots."""
    return {entry.stamp: (slot, entry) for slot, entry in copy.entries() if entry.stamp}


def unnumbered(copy: Copy) -> list[tuple[int, Entry]]:
    """The elements that wait for a number, each sender's in its order."""
    return sorted((each for each in copy.entries() if not each[1].stamp), key=lambda each: (each[1].sender, each[1].number))


def own(copy: Copy, sender: ProcessId, number: int) -> tuple[int, Entry] | None:
    """The element that this sender has stored under its own number."""
    for slot, entry in copy.entries():
        if entry.number == number and entry.sender == sender and entry.kind == MESSAGES:
            return slot, entry
    return None


def free_slot(copy: Copy) -> int:
    """A slot of Fset; -1: there is none."""
    taken = {slot for slot, _ in copy.entries()}
    slots = copy.layout.places * copy.layout.slots
    return next((slot for slot in range(slots) if slot not in taken), -1) if len(taken) < slots else -1


def put(copy: Copy, element: Element, stamp: int, listed: int, done: int = 0, place: int = 0) -> bool:
    """Moves an element from Fset to Tset; False: Fset is empty."""
    slot = free_slot(copy)
    if slot < 0:
        return False
    batch, number, kind = element.batch, element.number, element.kind
    copy.fill(slot, batch.body)
    words = (stamp, place, element.sender, batch.first, batch.count, batch.offset, batch.total, len(batch.body))
    copy.put(slot, Entry(*words, filled=True, listed=listed, done=done, number=number, kind=kind))
    return True


def element_of(copy: Copy, slot: int, entry: Entry) -> Element:
    """What is in a slot, as it travels."""
    batch = Batch(entry.first, entry.count, copy.data(slot), entry.offset, entry.total)
    return Element(entry.sender, entry.number, entry.kind, batch)


def purge(copy: Copy, oldest: int) -> None:
    """Everybody has read everything before this number: those elements are free."""
    header = copy.header()
    if oldest <= header.oldest and header.next >= oldest:
        return
    oldest = max(oldest, header.oldest)
    lasts: dict[ProcessId, int] = {}
    for slot, entry in tuple(copy.entries()):
        if 0 < entry.stamp < oldest:
            copy.put(slot, changed(entry, removed=True))
            if entry.kind == MESSAGES:
                lasts[entry.sender] = max(lasts.get(entry.sender, 0), entry.number)
    for place, connection in tuple(copy.connections()):
        last = lasts.get(connection.process, 0)
        if last > connection.last:
            copy.connect(place, changed(connection, last=last))
    copy.put_header(changed(header, oldest=oldest, next=max(header.next, oldest)))


def find(copy: Copy, number: int, element: Element) -> tuple[int, Entry] | None:
    """A numbered message in a box, also where its sender has stored it and it has no number yet."""
    there = numbered(copy).get(number)
    if there is None and element.kind == MESSAGES:
        there = own(copy, element.sender, element.number)
    return there


def restore(copy: Copy, number: int, element: Element, mask: int) -> bool:
    """Recover, for one message that a receiver has kept; False: there is no free element just now. The receiver also sets its
    flag (``mask``) on a message that others have restored (erratum 8)."""
    if number < copy.header().oldest:
        return True
    there = find(copy, number, element)
    if there is not None:
        slot, entry = there
        if not entry.stamp:
            entry = changed(entry, stamp=number, listed=receivers(copy, number, element.kind), done=0)
        copy.put(slot, changed(entry, done=entry.done | mask))
        return True
    return put(copy, element, number, receivers(copy, number, element.kind), mask)


def set_present(copy: Copy, place: int, last: int, oldest: int) -> Header:
    """A process has restored everything: its P-flag, and its flags on whatever it has read."""
    connection = copy.connection(place)
    assert connection is not None
    purge(copy, oldest)
    mask = 1 << place
    for slot, entry in tuple(copy.entries()):
        if 0 < entry.stamp <= last and entry.listed & ~entry.done & mask:
            copy.put(slot, changed(entry, done=entry.done | mask))
    copy.connect(place, changed(connection, present=True, read=max(last, connection.read)))
    return copy.header()
