"""A small protocol on common memory, for tests of the live host: a blackboard. Who has something to say writes it into every copy
and sets its flag; everybody reads what it has not read yet, by time, in the first copy that lives. A message stays until its slot
is needed again, so a test must not send more than there are slots before all have read. Nothing is decided, nobody is in time."""

from __future__ import annotations

import dataclasses
from collections.abc import Generator, Mapping
from functools import partial
from typing import Any, Final

from plainchant.core.engine import Engine, Host
from plainchant.core.memory import (
    FAILED,
    Connect,
    Connection,
    Copy,
    Disconnect,
    Entry,
    Layout,
    Nap,
    Operate,
    Port,
    Procedure,
    Request,
    Step,
)
from plainchant.core.model import MS, SECOND, Batch, Failure, Form, GroupId, Join, ProcessId, Propose, Reason, View, parameter
from plainchant.protocols.registry import Description, Placement

POLL: Final = 1 * MS


@dataclasses.dataclass(frozen=True, slots=True)
class Parameters:
    """How large a board is, and how long an operation may take."""

    copies: int = parameter(2, "copies", minimum=1)
    bound: int = parameter(10 * SECOND, "of an operation", minimum=0)
    mute: str = parameter("", "who only sends")


def layout(parameters: Parameters) -> Layout:
    return Layout(parameters.copies, 8, 16, 4096)


class Writer(Engine):
    """One process at a board."""

    def __init__(self, host: Host, parameters: Parameters) -> None:
        self.host = host
        self.parameters = parameters
        self.group = ""
        self.port: Port | None = None
        self.mine: set[tuple[int, int]] = set()
        self.read: set[tuple[int, int]] = set()
        self.failed: list[ProcessId] = []
        self.leaving = False
        self.writing = False
        self.slot = 0

    def join(self, group: GroupId, how: Form | Join | Propose) -> None:
        assert isinstance(how, Form | Join)
        self.group = group
        self.host.spawn("life", self.live(how))

    def leave(self, group: GroupId) -> None:
        self.leaving = True
        self.host.spawn("leave", self.go())

    def notice(self, event: Any) -> None:
        if isinstance(event, Failure):
            self.failed.append(event.process)
            self.host.record("state", self.group, failed=event.process)
            self.host.spawn("free", self.free(event.process))

    def ready(self, group: GroupId) -> None:
        if self.port is not None and not self.writing:
            self.writing = True
            self.host.spawn("write", self.write())

    def waiting(self) -> Reason | None:
        return Reason("writing", "it is writing") if self.writing else None

    # --- procedures ---------------------------------------------------------------------------------------------------

    def operate(self, copy: int, name: str, step: Step, news: bool = False) -> Operate:
        return Operate(self.group, copy, name, step, self.parameters.bound, news)

    def everywhere(self, name: str, step: Step) -> Generator[Request, Any, list[Any]]:
        results = []
        for copy in range(self.parameters.copies):
            results.append((yield self.operate(copy, name, step, news=copy == self.parameters.copies - 1)))
        return [result for result in results if result is not FAILED]

    def live(self, how: Form | Join) -> Procedure:
        host = self.host
        port = yield Connect(self.group, layout(self.parameters))
        if not isinstance(port, Port):
            host.refused(self.group, Reason("memory", port))
            return
        self.port = port
        entry = 0 if host.me == self.parameters.mute else host.clock()
        yield from self.everywhere("list", lambda copy: copy.connect(port.place, Connection(host.me, entry)))
        wanted = set(how.members) if isinstance(how, Form) else set()
        members: tuple[str, ...] = ()
        while not members:
            there = yield from self.first(lambda copy: [each for _, each in copy.connections() if not each.gone])
            if wanted <= {each.process for each in there}:
                members = tuple(each.process for each in there if each.entry)
            else:
                yield Nap(host.clock() + POLL)
        host.install(View(self.group, 1, members, rank=entry - port.epoch if entry else None))
        self.ready(self.group)
        while not self.leaving:
            for slot, found in sorted((yield from self.first(lambda copy: list(copy.entries()))), key=_age):
                key = (found.stamp, slot)
                if found.available and key not in self.read and found.stamp >= entry > 0:
                    self.read.add(key)
                    body = yield from self.first(partial(_data, slot))
                    batch = Batch(found.first, found.count, body, found.offset, found.total)
                    host.deliver(self.group, found.sender, batch, found.stamp - port.epoch)
            yield Nap(host.clock() + POLL)

    def first(self, step: Step) -> Generator[Request, Any, Any]:
        """What the first copy that lives gives."""
        for copy in range(self.parameters.copies):
            result = yield self.operate(copy, "look", step)
            if result is not FAILED:
                return result
        self.host.halt(Reason("memory", "all copies are lost"))
        return []

    def write(self) -> Procedure:
        host, port = self.host, self.port
        assert port is not None
        while (batch := host.take(self.group, layout(self.parameters).room)) is not None:
            slot = port.place * layout(self.parameters).slots + self.slot
            self.slot = (self.slot + 1) % layout(self.parameters).slots
            fields = (batch.first, batch.count, batch.offset, batch.total, len(batch.body))
            entry = Entry(host.clock(), port.place, host.me, *fields, filled=True)

            def put(copy: Copy, slot: int = slot, entry: Entry = entry, body: bytes = batch.body) -> None:
                copy.fill(slot, body)
                copy.put(slot, entry)

            def flag(copy: Copy, slot: int = slot) -> None:
                there = copy.entry(slot)
                assert there is not None
                copy.put(slot, changed(there, available=True))

            for copy in range(self.parameters.copies):
                yield self.operate(copy, "write", put)
            yield from self.everywhere("flag", flag)
        self.writing = False

    def go(self) -> Procedure:
        port = self.port
        assert port is not None
        yield from self.everywhere("list", lambda copy: copy.connect(port.place, Connection(self.host.me, gone=True)))
        yield Disconnect(self.group, port.place, self.host.me)
        self.host.left(self.group, self.host.clock() - port.epoch)

    def free(self, process: ProcessId) -> Procedure:
        def bury(copy: Copy) -> int | None:
            for place, connection in copy.connections():
                if connection.process == process:
                    copy.connect(place, Connection(process, gone=True))
                    return place
            return None

        places = yield from self.everywhere("list", bury)
        if places and places[0] is not None:
            yield Disconnect(self.group, places[0], process)


def changed(entry: Entry, **fields: Any) -> Entry:
    values: Mapping[str, Any] = {name: getattr(entry, name) for name in entry.__struct_fields__}
    return Entry(**{**values, **fields})


def _data(slot: int, copy: Copy) -> bytes:
    return copy.data(slot)


def _age(found: tuple[int, Entry]) -> tuple[int, int]:
    return (found[1].stamp, found[0])


BOARD: Final = Description(
    name="board",
    about="a toy",
    parameters=Parameters,
    packets=(),
    make=Writer,
    promises=lambda parameters, groups: (),
    faults=(),
    settle=lambda parameters: 100 * MS,
    views=False,
    placement=Placement(
        memory=layout,
        only_send=lambda parameters: frozenset({parameters.mute}) if parameters.mute else frozenset(),
        room=lambda parameters: 4096,
    ),
)
