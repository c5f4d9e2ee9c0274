"""Common memory for the explorer: modules that work or are dead, and the mailbox server.

Nothing here takes time: ``world`` decides when an operation has its effect and whether its module is still there.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...core.memory import Connection, Entry, Header, Layout, Port
from ...core.model import GroupId, ProcessId


class ExploredCopy:
    """One copy of a mailbox."""

    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        self.places: list[Connection | None] = [None] * layout.places
        self.slots: list[Entry | None] = [None] * (layout.places * layout.slots)
        self.bodies: dict[int, bytes] = {}
        self.head = Header()

    def header(self) -> Header:
        return self.head

    def put_header(self, header: Header) -> None:
        self.head = header

    def connections(self) -> Iterator[tuple[int, Connection]]:
        return iter([(place, connection) for place, connection in enumerate(self.places) if connection is not None])

    def connection(self, place: int) -> Connection | None:
        return self.places[place]

    def connect(self, place: int, connection: Connection) -> None:
        self.places[place] = connection

    def disconnect(self, place: int) -> None:
        self.places[place] = None

    def entries(self) -> Iterator[tuple[int, Entry]]:
        return iter([(slot, entry) for slot, entry in enumerate(self.slots) if entry is not None and not entry.removed])

    def entry(self, slot: int) -> Entry | None:
        return self.slots[slot]

    def put(self, slot: int, entry: Entry) -> None:
        self.slots[slot] = entry

    def data(self, slot: int) -> bytes:
        return self.bodies[slot]

    def fill(self, slot: int, data: bytes) -> None:
        self.bodies[slot] = data


class ExploredMemory:
    """All modules and the mailboxes in them."""

    def __init__(self, modules: int) -> None:
        self.alive = [True] * modules
        self.mailboxes: dict[GroupId, list[ExploredCopy]] = {}
        self.connected: dict[GroupId, dict[int, ProcessId]] = {}
        self._epochs: dict[GroupId, int] = {}

    def connect(self, mailbox: GroupId, layout: Layout, process: ProcessId, clock: int) -> Port | str:
        """A place at a mailbox, which is made if it is not there; or why not."""
        if mailbox not in self.mailboxes:
            self.mailboxes[mailbox] = [ExploredCopy(layout) for _ in range(layout.copies)]
            self.connected[mailbox] = {}
            self._epochs[mailbox] = clock
        taken = self.connected[mailbox]
        free = next((place for place in range(layout.places) if place not in taken), None)
        if free is None:
            return f"all {layout.places} places of {mailbox} are taken"
        taken[free] = process
        return Port(free, self._epochs[mailbox])

    def disconnect(self, mailbox: GroupId, place: int, process: ProcessId) -> None:
        taken = self.connected.get(mailbox, {})
        if taken.get(place) == process:
            del taken[place]
            if not taken:
                del self.mailboxes[mailbox], self.connected[mailbox], self._epochs[mailbox]

    def directory(self) -> dict[GroupId, tuple[ProcessId, ...]]:
        """Who is connected to each mailbox, in the order in which they were."""
        return {mailbox: tuple(taken.values()) for mailbox, taken in sorted(self.connected.items())}

    def left_behind(self) -> list[tuple[int, Entry]]:
        """The entries that nobody has removed, by copy, in modules that work."""
        return [
            (number, entry)
            for copies in self.mailboxes.values()
            for number, copy in enumerate(copies)
            if self.alive[number]
            for _, entry in copy.entries()
        ]
