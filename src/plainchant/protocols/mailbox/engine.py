"""The engine of ``mailbox``: one process in one group, its procedures on the group's mailbox, and what starts them."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

from ...core.engine import Engine, Host
from ...core.memory import FAILED, Connect, Connection, Copy, Disconnect, Nap, Port, Procedure, Request, Until
from ...core.model import Batch, Failure, Form, GroupId, Join, Pressure, ProcessId, Propose, Reason, View, format_duration
from ...core.names import place_of
from . import membership
from .box import Box, unless_proposed
from .message import Message
from .parameters import Parameters
from .receiving import Receiver
from .remote_link import silence
from .sending import HOPELESS, LONGEST_LEAD, Outgoing, Sender
from .times import TICK
from .watching import ATTENTIVE

_NOTHING = Outgoing(Batch(0, 0, b""))  # stands for a message that is not taken yet: a slot is waited for


class Mailbox(Engine):
    """One group. It sends one message at a time; the next is taken when the last was decided."""

    def __init__(self, host: Host, group: GroupId, parameters: Parameters) -> None:
        self.host, self.group = host, group
        self.box = Box(host, group, parameters)
        self.only_sends = place_of(host.me) in parameters.senders
        self.sender = Sender(self.box, tells_dead=self.only_sends)
        self.receiver = Receiver(self.box, self._decided, self._go)
        self.connected = False
        self.sends = False  # whether the group is formed, so that messages may be sent
        self.outgoing: Outgoing | None = None
        self.writing = False  # whether a Send is under way
        self.outcome: bool | None = None  # what became of the message, if that is known before its Send is over
        self.failed: dict[ProcessId, None] = {}  # processes that have failed, as far as the membership service has said
        self.collecting = 0
        self.leaving = self.going = False
        self.departing = False  # nothing is left to read: this process is about to give its place back

    def join(self, group: GroupId, how: Form | Join | Propose) -> None:
        self.host.spawn("join", self._enter(unless_proposed(how)))

    def _enter(self, how: Form | Join) -> Procedure:
        box, receiver = self.box, self.receiver
        port = yield Connect(self.group, box.layout)
        if not isinstance(port, Port):
            self.host.refused(self.group, Reason("no place", port))
            return
        box.place, box.mask, box.epoch = port.place, 1 << port.place, port.epoch
        self.connected = True
        for process in list(self.failed):
            self._collect(process)
        if isinstance(how, Join):
            yield from membership.wait_for_place(box)
        if self.only_sends:
            yield from membership.connect(box)
        else:
            receiver.forms = isinstance(how, Form)
            receiver.entry = yield from membership.enter(box)
            if not receiver.entry:
                text = f"{self.host.me} was too slow to enter {self.group}, and has to begin again"
                self.host.halt(Reason("lost beginning", text))
                return
            self.sender.last = receiver.entry
            self.host.record("state", self.group, state="entered", entry=receiver.entry)
            self.host.spawn("scan", receiver.scan())
            if box.parameters.patience:
                self.host.spawn("watch", receiver.guard.run())
        if isinstance(how, Form) or self.only_sends:
            yield from self._know(how.members if isinstance(how, Form) else ())
        while not (self.only_sends or receiver.started):
            yield Until(box.times.instant(box.clock + 1))
        self.sends = True
        self.ready(self.group)
        self._leave_if_idle()

    def _know(self, members: tuple[ProcessId, ...]) -> Generator[Request, Any, None]:
        """Waits until all of these are connected, and begins with those that receive. A process that does not come for
        ``patience`` is not waited for: if it is connected later, it enters like one that joins."""
        box = self.box
        waited, before, patience = 0, self.host.now, box.parameters.patience
        # The process that acts for a remote one lists it when that has not come for so long.
        absent = silence(box.parameters) if box.parameters.remote else 0
        while True:
            found = yield from self._connections()
            if found is None:
                return
            there = {connection.process: connection for connection in found}
            missing = [name for name in members if name not in there and name not in self.failed]
            if not missing:
                break
            # A process that was itself stopped has not waited meanwhile.
            waited += min(self.host.now - before, patience // ATTENTIVE)
            before = self.host.now
            if patience and waited > patience + absent:
                text = f"{', '.join(missing)} did not come for {format_duration(patience)}: {self.group} is formed without"
                self.host.record("state", self.group, state="formed without", processes=missing, text=text)
                break
            yield Nap(box.times.instant(box.clock + 1))
        receiving = [connection for connection in found if connection.entry and not connection.gone]
        plausible = [connection for connection in receiving if membership.is_plausible(box, connection.entry)]
        if 2 * len(plausible) > len(receiving):  # else it is this process whose clock is wrong
            receiving = plausible
        formed = [connection for connection in receiving if connection.process in members] or receiving
        last = max((connection.entry for connection in formed), default=box.clock)
        self.sender.last = last  # whatever the clock shows: nobody receives what is earlier
        yield Until(last + box.parameters.skew + TICK)
        names = tuple(connection.process for connection in formed)
        if self.only_sends:
            self.host.install(View(self.group, max(1, last - box.epoch), names, names, rank=box.rank(last)))
        else:
            self.receiver.start(names, last)

    def _connections(self) -> Generator[Request, Any, list[Connection] | None]:
        """Who is connected, by the first copy that is alive."""

        def listed(copy: Copy) -> list[Connection]:
            return [connection for _, connection in copy.connections()]

        for copy in range(self.box.copies):
            found = yield self.box.look(copy, listed)
            if found is not FAILED:
                return list(found)
        self.box.give_up()
        return None

    def leave(self, group: GroupId) -> None:
        self.leaving = True
        self._leave_if_idle()

    def _leave_if_idle(self) -> None:
        """Leaves once what was taken has been decided."""
        if self.leaving and self.outgoing is None and self.sends and not self.going:
            self.going = True
            if self.only_sends:
                self._go()
            else:
                self.host.spawn("leave", self._leave())

    def _leave(self) -> Procedure:
        self.receiver.exit = yield from membership.leave(self.box, self.receiver.entry)
        self.host.record("state", self.group, state="leaving", exit=self.receiver.exit)

    def _go(self) -> None:
        self.departing = True
        self.host.spawn("leave", self._disconnect())

    def _disconnect(self) -> Procedure:
        while self.collecting or not self.receiver.is_idle:
            yield Until(self.box.times.instant(self.box.clock + 1))
        yield from membership.collect(self.box, self.box.place, self.host.me)
        self.connected = self.sends = False
        self.host.left(self.group, self.box.rank(self.receiver.exit) if self.receiver.exit else None)

    def ready(self, group: GroupId) -> None:
        if self.sends and self.outgoing is None and not self.going and self.host.peek(self.group) is not None:
            # Nothing is taken before there is a slot for it, and this is no message yet.
            self.outgoing = _NOTHING
            self.host.spawn("send", self._send())

    def _send(self) -> Procedure:
        box, sender = self.box, self.sender
        outgoing = self.outgoing
        # Before it waits for a slot: receivers that have done with the message where it was not yet set no flags there.
        if outgoing is not None and outgoing.attempts and box.times.first and not (yield from sender.withdraw(outgoing)):
            self._ended(True)
            return
        if not (yield from sender.wait_for_slot()):
            box.give_up()
            return
        outgoing = self.outgoing
        stamp = sender.stamp()
        if box.parameters.schedule:
            yield Until(stamp - sender.lead)
        if outgoing is None or outgoing is _NOTHING:
            batch = self.host.take(self.group, box.parameters.room)
            if batch is None:
                self.outgoing = None
                self._leave_if_idle()
                return
            outgoing = self.outgoing = Outgoing(batch)
        began, self.writing = box.clock, True
        if not (yield from sender.send(outgoing, stamp)):
            box.give_up()
            return
        self.writing = False
        batch, took, attempt = outgoing.batch, box.clock - began, outgoing.attempts
        if batch.count:
            seq = batch.first + batch.count - 1
            self.host.record("sent", self.group, sender=self.host.me, seq=seq, took_ns=took, stamp=stamp, attempt=attempt)
        if self.only_sends:
            self.outcome = yield from sender.outcome(outgoing)
        self._end_if_over()

    def _decided(self, message: Message) -> None:
        outgoing = self.outgoing
        if outgoing is not None and message.key == outgoing.key:
            self.outcome = bool(message.verdict)
            self._end_if_over()
        elif not message.verdict and message.entry.sender not in self.failed:
            sender = message.entry.sender
            text = f"a message of {sender} was rejected by {self.host.me}: it was late, or its sender has crashed"
            self.host.report(sender, Reason("rejected", text, {"stamp": message.stamp}))

    def _end_if_over(self) -> None:
        """A late Send may be decided before it is over. Only then it is sent again, or the next message: what it still writes
        would not be withdrawn, and two Sends would look for free slots at once."""
        if self.outcome is not None and not self.writing:
            accepted, self.outcome = self.outcome, None
            self._ended(accepted)

    def _ended(self, accepted: bool) -> None:
        """It is known what became of this process's own message."""
        outgoing = self.outgoing
        assert outgoing is not None
        if accepted:
            self.sender.was_punctual()
            self.outgoing = None
            self.ready(self.group)
            self._leave_if_idle()
            return
        outgoing.hopeless += self.sender.lead >= LONGEST_LEAD
        given_up = outgoing.attempts >= self.box.parameters.attempts or outgoing.hopeless >= HOPELESS
        if self.box.parameters.rejected == "halt" or given_up:
            times = f"{outgoing.attempts} times" if outgoing.attempts > 1 else "once"
            text = f"a message of {self.host.me} was rejected {times}: it is too slow, or its clock is off, and halts"
            self.host.halt(Reason("rejected", text, {"stamp": outgoing.key[0]}))
            return
        self.sender.was_late()
        self.host.spawn("send", self._send())

    def notice(self, event: Any) -> None:
        if isinstance(event, Failure):
            if event.process not in self.failed and event.process != self.host.me:
                self.failed[event.process] = None
                if self.connected and not self.departing:
                    self._collect(event.process)
        elif isinstance(event, Pressure):
            self.receiver.press(event.full)

    def _collect(self, process: ProcessId) -> None:
        self.collecting += 1
        self.host.spawn("collect", self._collect_from(process))

    def _collect_from(self, process: ProcessId) -> Procedure:
        """Sees to what a process that has failed leaves behind, in whatever place it was."""

        def place_of(copy: Copy) -> int | None:
            return next((place for place, connection in copy.connections() if connection.process == process), None)

        for copy in range(self.box.copies):
            place = yield self.box.look(copy, place_of)
            if place is not FAILED and place is not None:
                yield from membership.collect(self.box, place, process)
                break
        else:
            # It may have crashed before any copy that is alive had it in its list.
            yield Disconnect(self.group, -1, process)
        self.collecting -= 1

    def waiting(self) -> Reason | None:
        if self.outgoing is not None:
            return Reason("undecided", f"a message of {self.host.me} in {self.group} is being sent")
        if self.collecting:
            return Reason("collecting", f"{self.host.me} collects what a process that has failed has left behind")
        if (self.leaving and self.connected) or not self.sends:
            return Reason("changing", f"{self.host.me} is on its way into {self.group}, or out of it")
        return self.receiver.waiting()
