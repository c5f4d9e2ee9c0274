"""One process's hold on a mailbox: its place, the copies it has found dead, and how it asks for operations."""

from __future__ import annotations

from typing import Final

import msgspec

from ...core.engine import Host
from ...core.memory import Connection, Copy, Entry, Layout, Operate, Step
from ...core.model import Form, GroupId, Join, Propose, ProtocolError, Reason
from .parameters import Parameters
from .times import Times

Key = tuple[int, int]  # timestamp and place of the sender: the name of a message, and its place in the order


class Box:
    """What all procedures of a process share."""

    def __init__(self, host: Host, group: GroupId, parameters: Parameters) -> None:
        self.host, self.group, self.parameters = host, group, parameters
        self.times = Times(parameters)
        self.copies = parameters.copies
        self.layout = layout(parameters)
        self.place = -1
        self.mask = self.epoch = 0
        self.first = 0  # the first copy that this process has not found dead when it looked for messages

    @property
    def clock(self) -> int:
        return self.host.clock()

    def rank(self, stamp: int, place: int = 0) -> int:
        """A timestamp as the trace's order key."""
        return (stamp - self.epoch) * 64 + place

    def give_up(self) -> None:
        """Halts: there is no copy left."""
        self.host.halt(Reason("no copy", f"all {self.copies} copies of {self.group} have failed", {"copies": self.copies}))

    def write(self, copy: int, step: Step, size: int) -> Operate:
        # Receivers wake up while the sender goes on: they find out when the message is complete, or never will be.
        return Operate(self.group, copy, "write", step, self.parameters.write, news=copy == self.first, size=size)

    def flag(self, copy: int, step: Step) -> Operate:
        return Operate(self.group, copy, "flag", step, self.parameters.flag)

    def look(self, copy: int, step: Step) -> Operate:
        return Operate(self.group, copy, "look", step, self.parameters.decide)

    def decide(self, copy: int, step: Step) -> Operate:
        return Operate(self.group, copy, "decide", step, self.parameters.decide)

    def read(self, copy: int, step: Step, size: int) -> Operate:
        return Operate(self.group, copy, "read", step, self.parameters.read, size=size)

    def finish(self, copy: int, step: Step) -> Operate:
        return Operate(self.group, copy, "finish", step, self.parameters.finish)

    def list(self, copy: int, step: Step) -> Operate:
        return Operate(self.group, copy, "list", step, self.parameters.flag, news=True)

    def is_over(self, entry: Entry) -> bool:
        """Whether everybody has done with an entry, and it has been kept for as long as it has to be."""
        return not entry.listed & ~entry.done and self.host.clock() >= entry.stamp + self.times.kept

    def sweep(self, copy: Copy) -> None:
        """Removes what is over."""
        for slot, entry in list(copy.entries()):
            if self.is_over(entry):
                copy.put(slot, changed(entry, removed=True))


def unless_proposed(how: Form | Join | Propose) -> Form | Join:
    if isinstance(how, Propose):
        raise ProtocolError("mailbox has no proposed groups")
    return how


def layout(parameters: Parameters) -> Layout:
    return Layout(parameters.copies, parameters.places, parameters.slots, parameters.room)


def send_length(operation: Operate, copies: int) -> int | None:
    """A Send writes into every copy and then sets its flag in every copy."""
    return {"write": 2 * copies, "flag": 0}.get(operation.name)


def receivers(copy: Copy, stamp: int) -> int:
    """Who gets a decision flag in a message with this timestamp."""
    return sum(1 << place for place, connection in copy.connections() if receives(connection, stamp))


def receives(connection: Connection, stamp: int) -> bool:
    """Whether a connection is a receiver's at this time.

    >>> [receives(Connection("p", entry=5, exit=9), stamp) for stamp in (4, 5, 8, 9)]
    [False, True, True, False]
    """
    return bool(connection.entry) and not connection.gone and connection.entry <= stamp and not 0 < connection.exit <= stamp


def find(copy: Copy, slot: int, key: Key) -> Entry | None:
    """The entry of a message in a copy, removed or not; None: it is not there."""
    entry = copy.entry(slot)
    return entry if entry is not None and (entry.stamp, entry.place) == key else None


changed: Final = msgspec.structs.replace  # the same entry with other fields


def majority(listed: int) -> int:
    """How many of these receivers make a quorum.

    >>> [majority((1 << count) - 1) for count in (1, 2, 3, 4, 5)]
    [1, 2, 2, 3, 3]
    """
    return listed.bit_count() // 2 + 1
