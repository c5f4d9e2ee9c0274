"""Remote members (A.2): a process that is not where the memory is, through another that acts for it.

The remote process (:class:`Remote`) forwards: what it is asked goes over a link (``remote_link``) to the process that the
parameter ``remote`` names, where a *slave* (``remote_slave``) is the member of the group: it has the place in the mailbox, and
sends, decides and reads with the memory and the clock that are there. What it would hand to an application comes back the same
way.

**One message at a time**, as with every member: the remote process takes a batch when its slave has said that there is a slot for
it (``Wanted``). So it is sent as soon as it has arrived, in order and in time like any other, plus two datagrams.

**Failures.** A process that acts for others takes them with it: if it crashes, the process membership service reports their
places, and they halt when they hear of that, or hear nothing any more. If the remote process crashes, or is not heard, its slave
stops between two operations, and its place is vacated. If the slave or the link misses a bound, that is a timing failure of the
remote process, and it says so in its trace."""

from __future__ import annotations

from typing import Any

from ...core.engine import Engine, Host
from ...core.model import Failure, Form, GroupId, Join, Packet, Pressure, ProcessId, Propose, Reason, Timer, format_duration
from ...core.names import place_of
from . import remote_packets as items
from .box import unless_proposed
from .parameters import Parameters
from .remote_link import Link
from .remote_packets import AnyItem, Heard, Piece


class Remote(Engine):
    """One process elsewhere, in one group."""

    def __init__(self, host: Host, group: GroupId, parameters: Parameters) -> None:
        self.host, self.group, self.parameters = host, group, parameters
        self.acting = parameters.remote[place_of(host.me)]  # acts for this process; its name is without, later with incarnation
        self.link: Link | None = None
        self.entered = self.wanted = self.leaving = False
        self.sends_rest = True  # whether what waits is sent before this process leaves
        self.departed = self.over = False

    def join(self, group: GroupId, how: Form | Join | Propose) -> None:
        how = unless_proposed(how)
        names = how.members if isinstance(how, Form) else how.contacts
        there = [name for name in names if place_of(name) == self.acting]
        if not there:
            text = f"{self.acting}, which acts for {self.host.me}, is not in {group}; let it join first"
            self._refuse(Reason("nobody acts", text, {"acting": self.acting}))
            return
        self.acting = there[-1]
        calls = (self._hear, self._lost, self._overdue)
        self.link = Link(self.host, group, self.acting, self.host.now, self.parameters, *calls)
        self.link.say(items.Enter(isinstance(how, Form), names))

    def leave(self, group: GroupId) -> None:
        self.leaving = True
        self._depart_if_done()

    def _depart_if_done(self) -> None:
        if self.link is None or not self.leaving or self.departed or self.over:
            return
        if self.sends_rest and self.host.peek(self.group) is not None:
            return
        self.departed = True
        self.link.say(items.Depart())

    def _refuse(self, reason: Reason) -> None:
        self._end()
        self.host.refused(self.group, reason)

    def _halt(self, reason: Reason) -> None:
        self._end()
        self.host.halt(reason)

    def _end(self) -> None:
        self.over = True
        if self.link is not None:
            self.link.close()

    def _lost(self, reason: Reason) -> None:
        """The link is at its end."""
        if self.over:
            return
        text = f"{self.acting} no longer acts for {self.host.me}: {reason.text}"
        end = self._halt if self.entered else self._refuse
        end(Reason(reason.code, text, reason.evidence))

    def receive(self, source: ProcessId, packet: Packet) -> None:
        link = self.link
        if link is not None and source == link.peer and isinstance(packet, Piece | Heard) and packet.session == link.session:
            link.receive(packet)

    def expire(self, timer: Timer) -> None:
        if self.link is not None:
            self.link.expire()

    def notice(self, event: Any) -> None:
        if isinstance(event, Pressure):
            if self.link is not None:
                self.link.say(items.Pressed(event.full))
        elif isinstance(event, Failure) and event.process == self.acting:
            self._lost(Reason("failed", f"{event.process} has failed", {"peer": event.process}))

    def ready(self, group: GroupId) -> None:
        if self.link is None or not self.wanted or self.departed or self.over:
            return
        batch = self.host.take(self.group, self.parameters.room)
        if batch is not None:
            self.wanted = False
            self.link.say(items.Data(batch))
        self._depart_if_done()

    def _hear(self, item: AnyItem) -> None:
        host = self.host
        match item:
            case items.Delivered(sender=sender, batch=batch, rank=rank):
                host.deliver(self.group, sender, batch, rank)
            case items.Wanted():
                self.wanted = True
                self.ready(self.group)
            case items.Installed(view=view):
                self.entered = True
                host.install(view)
            case items.Gone(rank=rank):
                self._end()
                host.left(self.group, rank)
            case items.Refused(reason=reason):
                self._refuse(reason)
            case items.Halted(reason=reason):
                self._halt(reason)
            case items.Away():
                self.leaving, self.sends_rest = True, False
                self._depart_if_done()
            case items.Untimely(what=what, took=took, bound=bound):
                self._tell_untimely(what, took, bound)
            case _:
                self._lost(Reason("garbled", f"{self.acting} says {type(item).__name__}, which only a remote process may"))

    def _overdue(self, took: int) -> None:
        self._tell_untimely("datagram", took, self.parameters.datagram)

    def _tell_untimely(self, what: str, took: int, bound: int) -> None:
        text = f"a {what} for {self.host.me} took {format_duration(took)}, and {format_duration(bound)} are allowed"
        told = {"operation": what, "took_ns": took, "bound_ns": bound, "text": text}
        self.host.record("fault", self.group, fault="timing", timing=True, **told)

    def waiting(self) -> Reason | None:
        if self.over:
            return None
        if not self.entered or self.leaving:
            return Reason("changing", f"{self.host.me} is on its way into {self.group}, or out of it")
        return self.link.waiting() if self.link is not None else None
