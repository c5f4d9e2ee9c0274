"""Shared memory: what a protocol on mailboxes may ask for, and what hosts have to provide.

Theory of operation
-------------------
Protocols on shared memory are *procedures*: generators that yield one request at a time and get its result back.

- :class:`Operate` is one atomic step on one copy of a mailbox. The host runs ``step(copy)`` so that no other process sees that
  copy meanwhile, and sends back what it returns, or :data:`FAILED` if the module that holds the copy has crashed (it stays so,
  for every process). While the step runs ``host.clock()`` reads the clock afresh.
- :class:`Until` waits until the process's own clock shows a time. :class:`Nap` does the same, for a procedure that looks at the
  memory now and then: a host that knows when something new was written (``Operate.news``) ends it then, and otherwise at its
  latest time. :class:`Rest` goes by the monotonic clock.
- :class:`Connect`, :class:`Disconnect` and :class:`Directory` are calls of the mailbox server. Each node has its own, with its
  own modules; processes of one node do not reach the memory of another.

A procedure can be stopped for ever at every ``yield`` (its process crashes), and may be resumed late (its process is slow): an
operation that takes longer than its ``bound``, counted from the moment at which it was due, is a timing fault, which the host
writes into the trace. Several procedures of one process run at the same time, each with one request under way.

A mailbox has ``copies`` copies, copy i in module i, and each copy has a :class:`Header` and two tables of fixed size: a
:class:`Connection` for each place, and ``slots`` entries for each place. With ``mailbox`` only the process in a place fills its
slots, so that a process with a free slot always has room, and an entry has the same number in all copies; with ``dedos`` slots
are for all. Records are immutable; a step replaces a record at once: a process that is killed leaves the old record or the new
one.

This module imports ``model`` and nothing else of ours.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from typing import Any, Final, Protocol, TypeAlias

import msgspec

from .model import GroupId, Nanoseconds, ProcessId

MOST_PLACES: Final = 62  # processes that can be connected to a mailbox: masks of them are 64-bit numbers


class Layout(msgspec.Struct, frozen=True):
    """How large a mailbox is."""

    copies: int
    places: int  # processes that can be connected at once, at most `MOST_PLACES`
    slots: int  # entries of each place
    room: int  # bytes of message data that an entry holds


class Connection(msgspec.Struct, frozen=True):
    """Who is in a place of a mailbox; a receiver from ``entry`` (a timestamp) to ``exit``."""

    process: ProcessId
    entry: Nanoseconds = 0  # 0: it only sends
    exit: Nanoseconds = 0  # 0: it has not left
    gone: bool = False  # it has crashed, or left for good: no process waits for it
    # of dedos, where entry is the first sequence number that it receives
    sends: bool = False
    present: bool = False  # the P-flag: it has restored in this copy what it knows of
    wish: int = 0  # what it asks for: a code of the protocol's
    last: int = 0  # its own number of the last of its messages that has been removed
    read: int = 0  # the last sequence number that it had read when it restored what it knows of
    only_sends: bool = False  # it reads changes of members, but no messages
    stamp: int = 0  # the presence stamp: it grows as long as the process is alive
    # of mailbox
    reports: int = 0  # receivers that report it as overdue, as a mask of their places


class Entry(msgspec.Struct, frozen=True):
    """A message in a copy, without its data. Sets of processes are masks: bit k stands for place k."""

    stamp: Nanoseconds
    place: int  # of its sender; stamp and place together name the message
    sender: ProcessId
    # the batch
    first: int = 0
    count: int = 0
    offset: int = 0
    total: int = 0
    size: int = 0  # bytes of its data
    filled: bool = False
    """Whether its sender has written it; False: a receiver has made room for the decision before (second protocol)."""
    available: bool = False  # the a-flag
    listed: int = 0  # members with a d-flag
    done: int = 0  # members whose d-flag is set
    seen: int = 0  # members that saw it before it expired (second protocol: nxp)
    voted: int = 0  # members that took part in the decision in this copy (second protocol: nrd)
    local: bool = False  # the decision that is being made in this copy (second protocol: LD)
    decision: bool | None = None  # D: accepted, rejected, or not decided
    removed: bool = False  # all receivers are done with it: the slot is free; what is left tells its sender how it ended.
    # of dedos, where stamp is the sequence number (0: none yet)
    number: int = 0  # its sender's own number of it: 1, 2, 3, ...
    kind: int = 0  # what it is: a code of the protocol's; 0: messages


class Header(msgspec.Struct, frozen=True):
    """What a copy says of itself, for protocols that number messages (dedos)."""

    next: int = 1  # the next sequence number
    oldest: int = 1  # all receivers have all messages with lower numbers
    state: int = 0  # a code of the protocol's
    epoch: int = 0  # of the distributor whose numbers are here
    promised: int = 0  # the latest epoch that this node has promised to listen to, and to no earlier one
    before: int = 0  # what it had promised before that
    nodes: int = 0  # which nodes were there when the epoch began, as a mask of the protocol's (62 bits)
    life: int = 0  # when this copy was made anew for processes that were not members before; 0: never
    token: int = 0  # fencing token: the highest of the processes that have served this copy. Lower ones are refused.


class Copy(Protocol):
    """One copy of a mailbox, for the time of a step."""

    layout: Layout

    def header(self) -> Header: ...
    def put_header(self, header: Header) -> None: ...

    def connections(self) -> Iterable[tuple[int, Connection]]:
        """Who is connected, by place, in order; those that are gone too until somebody else has their place."""

    def connection(self, place: int) -> Connection | None: ...

    def connect(self, place: int, connection: Connection) -> None:
        """Puts a connection into its place."""

    def disconnect(self, place: int) -> None:
        """Nobody is in this place any more."""

    def entries(self) -> Iterable[tuple[int, Entry]]:
        """The entries that are not removed, by slot, in order."""

    def entry(self, slot: int) -> Entry | None:
        """What is in a slot, removed or not; None: nothing ever was."""

    def put(self, slot: int, entry: Entry) -> None:
        """Puts an entry into its slot."""

    def data(self, slot: int) -> bytes:
        """The data of the message in a slot, ``Entry.size`` bytes."""

    def fill(self, slot: int, data: bytes) -> None:
        """Writes the data of a message, before its entry is put."""


class _Failed:
    __slots__ = ()

    def __repr__(self) -> str:
        return "FAILED"


FAILED: Final = _Failed()  # what an operation gives whose module has crashed

Step: TypeAlias = Callable[[Copy], Any]


class Operate(msgspec.Struct, frozen=True):
    """One atomic step on one copy; copies are counted from 0."""

    mailbox: GroupId
    copy: int
    name: str  # what is done: `write`, `flag`, `look`, `decide`, `read`, `finish`, `list`
    step: Step
    bound: Nanoseconds
    news: bool = False  # others may want to look at the memory now
    size: int = 0  # bytes that are copied


class Until(msgspec.Struct, frozen=True):
    """Waits until the process's clock shows this, or more."""

    time: Nanoseconds


class Rest(msgspec.Struct, frozen=True):
    """Waits for so long on the monotonic clock, whatever the process's clock shows meanwhile."""

    length: Nanoseconds


class Nap(msgspec.Struct, frozen=True):
    """Waits until the process's clock shows ``time``; where a host knows of what is new, until then or until ``latest``."""

    time: Nanoseconds
    latest: Nanoseconds = 0  # 0: as late as the host thinks right
    mailbox: GroupId = ""
    """If given, every host knows of what is new in this mailbox, and ends the nap at ``latest`` or with the next news that there
    have been since the procedure's last operation on it."""


class Connect(msgspec.Struct, frozen=True):
    """Asks the mailbox server for a place at a mailbox, which is made if it does not exist. Gives a :class:`Port`, or why not."""

    mailbox: GroupId
    layout: Layout
    process: ProcessId = ""  # the process to connect; empty: the process that asks, which may act for one elsewhere


class Port(msgspec.Struct, frozen=True):
    """A place at a mailbox."""

    place: int
    epoch: Nanoseconds  # the clock's reading when the mailbox was made: timestamps in ranks count from it


class Disconnect(msgspec.Struct, frozen=True):
    """Tells the mailbox server that a place is free: this process's own, or that of one that is ``gone`` in all copies and has
    left nothing behind. While that one still runs a live server ignores it. Gives nothing. A mailbox to which no process is
    connected is removed."""

    mailbox: GroupId
    place: int  # -1: wherever that process is; no copy lists it
    process: ProcessId


class Directory(msgspec.Struct, frozen=True):
    """Asks the mailbox server which mailboxes there are on this node. Gives a mapping of their names to those who are connected,
    in the order in which they were; those who have died are among them until they are disconnected."""


Request: TypeAlias = Operate | Until | Rest | Nap | Connect | Disconnect | Directory
Procedure: TypeAlias = Generator[Request, Any, None]
