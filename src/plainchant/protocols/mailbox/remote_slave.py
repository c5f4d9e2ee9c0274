"""Acting for remote processes: slaves, each of them a member through which a process elsewhere is in the group (A.2).

A :class:`Slave` is the host of an ordinary :class:`~.engine.Mailbox` under the remote process's name, and :class:`Acting` is the
engine of the process in which slaves run, beside its own membership. When a slave stops, everything that it runs stops between
two operations, as if it had crashed; then only the process in which it ran vacates its place, as long as that process lives,
because only it knows that no operation of the slave is under way."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any, Final

import msgspec

from ...core.engine import Engine, Host, Layer
from ...core.memory import Connect, Connection, Copy, Disconnect, Nap, Operate, Port, Procedure, Request, Until
from ...core.model import Batch, Due, Failure, Form, GroupId, Join, Packet, Pressure, ProcessId, Propose, Reason, Timer, View
from ...core.names import incarnation_of, place_of
from . import membership
from . import remote_packets as items
from .box import Box
from .engine import Mailbox
from .parameters import Parameters
from .remote_link import WINDOW, Link, silence
from .remote_packets import AnyItem, Heard, Piece

_ROOM: Final = Due(b"", 0)  # stands for the next message of the remote process: a slot is looked for before it is taken there
_INCOMING: Final = 4  # messages of a remote process that wait for a slot: it sends one when it has been told of one
_LOOKS: Final = 20  # a process that forms a group looks at least once in this number of intervals


class Slave(Layer):
    """The member that stands for one remote process; ``ended`` is told when it is none any more."""

    inner: Mailbox

    def __init__(
        self, host: Host, group: GroupId, process: ProcessId, session: int, parameters: Parameters, ended: Callable[[Slave], None]
    ) -> None:
        def inside(layer: Host) -> Mailbox:
            layer.me = process
            return Mailbox(layer, group, parameters)

        self.group = group
        self.session = session
        self.entered = False
        self.stopped = False  # nothing more is done for the remote process
        self._ended = ended
        self._incoming: deque[Batch] = deque()
        self._wanted = False  # the remote process knows of a slot
        self._departing = False
        self._pressed = False
        self._is_full = False  # the application of the remote process has no room
        self._untimely = False
        self.link = Link(host, group, process, session, parameters, self._hear, self._lost, self._overdue)
        super().__init__(host, inside)

    @property
    def place(self) -> int:
        """Its place in the mailbox; -1: it has none."""
        return self.inner.box.place

    @property
    def is_busy(self) -> bool:
        """Whether it is a member, or has something to say that was not heard."""
        return not self.stopped or (self.link.backlog > 0 and not self.link.resting)

    def receive(self, source: ProcessId, packet: Packet) -> None:
        if isinstance(packet, Piece | Heard):
            self.link.receive(packet)
            self._press()

    def expire(self, timer: Timer) -> None:
        self.link.expire()

    def _hear(self, item: AnyItem) -> None:
        if self.stopped:
            return
        match item:
            case items.Enter(forms=forms, names=names) if not self.entered:
                self.entered = True
                self.inner.join(self.group, Form(names) if forms else Join(names))
            case items.Data(batch=batch) if self.entered and self._takes(batch):
                self._incoming.append(batch)
                self.inner.ready(self.group)
            case items.Depart() if self.entered:
                self._departing = True
                self.inner.leave(self.group)
            case items.Pressed(full=full):
                self._is_full = full
            case _:
                self._lost(Reason("garbled", f"{self.me} says {type(item).__name__} at the wrong time"))

    def _takes(self, batch: Batch) -> bool:
        """Whether the remote process can have sent this: one message at a time, which fits into a slot."""
        return len(self._incoming) < _INCOMING and len(batch.body) <= self.inner.box.parameters.room

    def _lost(self, reason: Reason) -> None:
        if not self.stopped:
            self.halt(reason)
        if reason.code == "silence":
            self.link.rest()

    def send_away(self) -> None:
        """Asks the remote process to leave."""
        if not self._departing:
            self.link.say(items.Away())

    def _press(self) -> None:
        """Slows the senders down as long as the remote process, or the link, has no room."""
        full = self._is_full or self.link.backlog > WINDOW
        if full != self._pressed and not self.stopped:
            self._pressed = full
            self.inner.notice(Pressure(self.group, full))

    def _overdue(self, took: int) -> None:
        self._tell_untimely("datagram", took, self.inner.box.parameters.datagram)

    def _tell_untimely(self, what: str, took: int, bound: int) -> None:
        if not self._untimely:
            self._untimely = True
            self.link.say(items.Untimely(what, took, bound))

    def peek(self, group: GroupId, stream: str = "") -> Due | None:
        if self._incoming:
            return Due(self._incoming[0].body, 0)
        return None if self._wanted or self._departing else _ROOM

    def take(self, group: GroupId, max_bytes: int, most: int = 0, stream: str = "") -> Batch | None:
        if self._incoming:
            self._wanted = False
            return self._incoming.popleft()
        if not self._wanted and not self._departing:
            self._wanted = True
            self.link.say(items.Wanted())
        return None

    def deliver(self, group: GroupId, sender: ProcessId, batch: Batch, rank: int | None = None) -> None:
        self.link.say(items.Delivered(sender, batch, rank))
        self._press()

    def install(self, view: View) -> None:
        self.link.say(items.Installed(view))

    def left(self, group: GroupId, rank: int | None = None) -> None:
        self.link.say(items.Gone(rank))
        self.stopped = True

    def refused(self, group: GroupId, reason: Reason) -> None:
        self.link.say(items.Refused(reason))
        self.stopped = True

    def halt(self, reason: Reason) -> None:
        late, bound = self.link.unacknowledged, self.inner.box.parameters.datagram
        if late > bound:  # no acknowledgement has told how late it is
            self._tell_untimely("datagram", late, bound)
        self.link.say(items.Halted(reason))
        self.stopped = True
        self._ended(self)

    def record(self, kind: str, group: GroupId | None = None, **detail: Any) -> None:
        self.host.record(kind, group, acting_for=self.me, **detail)

    def spawn(self, name: str, procedure: Procedure) -> None:
        self.host.spawn(f"{name} for {self.me}", self._act(procedure))

    def _act(self, procedure: Procedure) -> Procedure:
        """A procedure of the member, which stops when the slave does, and is watched for what takes too long."""
        due = self.host.clock()
        result: Any = None
        while self._acts():
            try:
                request = procedure.send(result)
            except StopIteration:
                return
            if isinstance(request, Connect):
                request = Connect(request.mailbox, request.layout, self.me)
            elif isinstance(request, Operate):
                request = msgspec.structs.replace(request, step=self._unless_stopped(request.step))
            result = yield request
            if not self._acts() and isinstance(result, Port):
                self.inner.box.place = result.place
                self._ended(self)
            due = self._judge(request, due)
        procedure.close()

    def _acts(self) -> bool:
        return not self.stopped

    def _unless_stopped(self, step: Callable[[Copy], Any]) -> Callable[[Copy], Any]:
        return lambda copy: None if self.stopped else step(copy)

    def _judge(self, request: Request, due: int) -> int:
        """When the next request is due."""
        now = self.host.clock()
        if isinstance(request, Until):
            return max(due, request.time)
        if isinstance(request, Nap):
            return now
        if isinstance(request, Operate) and now - due > request.bound:
            self._tell_untimely(request.name, now - due, request.bound)
        return now


def vacate(box: Box, place: int, process: ProcessId, wait: Procedure) -> Procedure:
    """Excuses a process that is gone, and gives its place back after a wait. It is listed first: all who form the group wait."""

    def list_it(copy: Copy) -> None:
        there = copy.connection(place)
        if there is None or there.process != process:
            copy.connect(place, Connection(process))

    for copy in range(box.copies):
        yield box.list(copy, list_it)
    yield from membership.spread(box, place, process)
    yield from wait
    yield Disconnect(box.group, place, process)


class Acting(Engine):
    """A process that is in the group itself and acts for others."""

    def __init__(self, host: Host, group: GroupId, parameters: Parameters) -> None:
        self.host, self.group, self.parameters = host, group, parameters
        self.own = Mailbox(host, group, parameters)
        self.slaves: dict[ProcessId, Slave] = {}
        self.expected: dict[ProcessId, None] = {}  # processes that are to form the group: the others wait for them
        self.lost: dict[ProcessId, Reason] = {}  # processes for which nobody acts any more, and why
        self.vacating = 0
        self.leaving = False
        me = place_of(host.me)
        self._charges = frozenset(process for process, acting in parameters.remote.items() if acting == me)

    def join(self, group: GroupId, how: Form | Join | Propose) -> None:
        self.own.join(group, how)
        if isinstance(how, Form):
            for name in how.members:
                if place_of(name) in self._charges:
                    self.expected[name] = None
                    self.host.set_timer(("absent", name), self.host.now + silence(self.parameters))

    def leave(self, group: GroupId) -> None:
        self.leaving = True
        for slave in self.slaves.values():
            if not slave.stopped:
                slave.send_away()
        self._leave_if_alone()

    def _leave_if_alone(self) -> None:
        """Leaves when nobody is left for whom it acts."""
        is_needed = self.vacating or any(slave.is_busy for slave in self.slaves.values())
        if self.leaving and not self.own.leaving and not is_needed:
            self.own.leave(self.group)

    def ready(self, group: GroupId) -> None:
        self.own.ready(group)

    def receive(self, source: ProcessId, packet: Packet) -> None:
        if place_of(source) not in self._charges or not isinstance(packet, Piece | Heard):
            return
        slave = self.slaves.get(source)
        if slave is None or slave.session < packet.session:
            if not isinstance(packet, Piece) or self._is_outdated(source):
                return
            self._forget_former(source)
            if slave is not None and not slave.stopped:
                slave.halt(Reason("again", f"{source} has begun anew"))
            slave = self._begin(source, packet.session)
        if slave.session == packet.session:
            slave.receive(source, packet)
        self._leave_if_alone()

    def _is_outdated(self, process: ProcessId) -> bool:
        """Whether a later incarnation of a remote process has been heard: then this packet comes from a dead process."""
        place, number = place_of(process), incarnation_of(process)
        return any(place_of(other) == place and incarnation_of(other) > number for other in self.slaves)

    def _forget_former(self, process: ProcessId) -> None:
        """Of a process that has come back its former incarnations need not be known, when they are done with."""
        for other, slave in list(self.slaves.items()):
            if place_of(other) == place_of(process) and other != process and slave.stopped and not slave.is_busy:
                slave.link.close()
                del self.slaves[other]
                self.lost.pop(other, None)

    def _begin(self, process: ProcessId, session: int) -> Slave:
        slave = self.slaves[process] = Slave(self.host, self.group, process, session, self.parameters, self._clear_up)
        if process in self.lost:
            slave.halt(self.lost[process])
        elif self.leaving:
            slave.refused(self.group, Reason("leaving", f"{self.host.me}, which acts for {process}, is leaving {self.group}"))
        else:
            for failed in self.own.failed:
                slave.inner.notice(Failure(failed))
        return slave

    def _clear_up(self, slave: Slave) -> None:
        """A slave has stopped before its time."""
        if slave.place >= 0:
            self._vacate(slave.me, slave.place)

    def _vacate(self, process: ProcessId, place: int) -> None:
        self.vacating += 1
        self.host.spawn("vacate", self._vacating(process, place))

    def _vacating(self, process: ProcessId, place: int) -> Procedure:
        """Clears up after a process; one that never came gets a place first, for those who wait to see it in the list."""
        box = self.own.box
        if place < 0:
            port = yield Connect(self.group, box.layout, process)
            place = port.place if isinstance(port, Port) else -1
        if place >= 0:
            yield from vacate(box, place, process, self._until_formed(process))
        self.vacating -= 1
        self._leave_if_alone()

    def _until_formed(self, process: ProcessId) -> Procedure:
        """Waits until everybody had time to see a process in the list that was to form the group with them."""
        box = self.own.box
        if self._is_forming_with(process):
            while self._is_forming_with(process):
                yield Until(box.times.instant(box.clock + 1))
            yield Until(box.clock + _LOOKS * (box.parameters.schedule or box.parameters.poll))

    def _is_forming_with(self, process: ProcessId) -> bool:
        return process in self.expected and not self.own.sends

    def _lose(self, process: ProcessId, reason: Reason) -> None:
        """A remote process has failed."""
        if process in self.lost:
            return
        self.lost[process] = reason
        slave = self.slaves.get(process)
        if slave is not None:
            was_member, slave.stopped = not slave.stopped, True
            slave.link.close()
            if was_member:
                self._clear_up(slave)
        if process in self.expected and not (slave is not None and slave.entered):
            self._vacate(process, -1)
        self._leave_if_alone()

    def expire(self, timer: Timer) -> None:
        assert isinstance(timer, tuple), timer
        kind, process = timer
        slave = self.slaves.get(process)
        if kind != "absent":
            if slave is not None:
                slave.expire(timer)
            self._leave_if_alone()
        elif slave is None or not slave.entered:
            text = f"{process}, for which {self.host.me} acts, was not heard"
            self._lose(process, Reason("absent", text, {"process": process}))

    def notice(self, event: Any) -> None:
        if isinstance(event, Failure) and place_of(event.process) in self._charges:
            self._lose(event.process, Reason("failed", f"{event.process} has failed", {"process": event.process}))
            return
        self.own.notice(event)
        if isinstance(event, Failure):
            for slave in self.slaves.values():
                slave.inner.notice(event)

    def waiting(self) -> Reason | None:
        if self.vacating:
            return Reason("collecting", f"{self.host.me} clears up after a process for which it acted")
        if self.leaving and not self.own.leaving:
            return Reason("changing", f"{self.host.me} waits for those to leave for which it acts")
        for slave in self.slaves.values():
            reason = None if slave.stopped else slave.inner.waiting() or slave.link.waiting()
            if reason is not None:
                return reason
        return self.own.waiting()
