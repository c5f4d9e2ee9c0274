"""Groups within one node (appendix C): Send, Receive, StartRecovery, Recover, Join, Leave, DeleteMember.

Theory of operation
-------------------
- **Order.** A sender gives its message the next number in the step that stores it in the active mailbox; nothing is stored in the
  spare boxes. Receivers read in the order of the numbers. So a message costs one operation to send, and one to read it and
  whatever else is there.
- **Private memory.** Senders keep what they have sent and receivers what they have read until all have read it (``kept``, the
  Hbuffer). If the active mailbox crashes, each message is in the Hbuffer of a live process, or no live process has read it.
- **Recovery.** All processes find the same next box, restore there what they keep, one message per step, and set their P-flags.
  Until all are set no process sends, because the next number is not known, or skips a number, because it may yet be restored.
  Then numbers that are missing are lost for good, with their senders. Numbers do not go back: each process says how far it knows
  them to be given.
- **The list.** A process lists itself in the spare boxes first, as a receiver of everything, since it does not know yet from
  which number on it is one; so whatever box becomes the active one, the others do not go on there without it. In the active
  mailbox it enters at the next number. A process that has failed is deleted from all boxes by every survivor that hears of it.
  Members see this as *changes*, elements of the order with all receivers: in each step a receiver compares the list with the
  newest change, and puts another one if they differ. That makes up for a change that was lost with its box, or found no room.
- **Joining.** A process that enters takes what is in the mailbox into its Hbuffer, though it will not read it. A process that
  keeps a message has to keep those before it that not all have read: otherwise a sender's message could be lost with all that had
  read it, and a later one of the same sender survive with a process that came in between.
- **Leaving** restores what this process keeps in all spare boxes, in the order in which they become active, so that at any moment
  no box with its messages comes after one without. (Otherwise a number could be given again in one box, and the old message come
  back with the next.) Then it deletes itself.
- **Hanging.** Every look at the active mailbox stamps the presence of the process that looks (:mod:`.presence`). A silent process
  is deleted like one that has crashed, so neither a recovery nor a full mailbox waits for it for longer than ``silence``.

A process that dies between two steps leaves entries in lists, which survivors delete, or elements as above.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable
from functools import partial
from typing import Any, Final

import msgspec

from ...core.engine import Engine, Host
from ...core.memory import FAILED, Connect, Connection, Copy, Disconnect, Header, Nap, Port, Procedure, Request, Step, Until
from ...core.model import SENDS, Failure, Form, GroupId, Join, Pressure, ProcessId, Propose, ProtocolError, Reason, View
from ...core.names import place_of
from . import box as boxes
from . import intra_steps as steps
from .box import JOINS, MESSAGES, Box, Element
from .packets import change_from_bytes
from .parameters import Parameters
from .presence import Presence

_READ_AT_ONCE: Final = 64
FORMING: Final = 4  # Processes that form a group are waited for this multiple of the time for which a node may be silent


class Seen(msgspec.Struct, frozen=True):
    """What a receiver finds in the active mailbox."""

    header: Header
    elements: tuple[tuple[int, Element], ...]
    change: tuple[int, Element] | None  # A change that it has put there
    unread: bool  # Whether there is more to read
    present: bool  # Whether all P-flags are set
    wakes: bool  # Whether others may go on now
    excluded: tuple[ProcessId, ...]  # Processes that are silent: the group goes on without them


class Intra(Engine):
    """One process in one group, all whose members are on its node."""

    def __init__(self, host: Host, group: GroupId, parameters: Parameters) -> None:
        self.host, self.group, self.parameters = host, group, parameters
        self.box = Box(host, group, parameters)
        self.only_sends = place_of(host.me) in parameters.senders
        self.first: tuple[ProcessId, ...] = ()  # With whom this process forms the group
        self.since = host.now  # When this process asked to be in the group
        self.forms = self.connected = self.moving = self.joined = False
        self.entry = 0  # The first number that this process receives
        self.restored = -1  # The box in which this process has its P-flag
        self.members: tuple[ProcessId, ...] = ()  # The receivers, by the last change that was read
        self.last = 0  # Lastseqnr
        self.oldest = 1  # Oldestseqnr, as far as this process knows
        self.next = 1  # Nextseqnr, as far as this process knows
        self.kept: dict[int, Element] = {}  # The Hbuffer
        self.number = 0  # This process's own number of its last message
        self.sent = 0  # The number of its last message in the group's order
        self.sending = self.blocked = self.unread = self.pressed = self.leaving = False
        self.settled = False  # Whether all P-flags were set when this process looked last
        self.failed: dict[ProcessId, None] = {}
        self.presence = Presence(parameters)
        self.deleting = self.waking = 0
        self.departing = False  # Whether this process is on its way out of the group, or does not get in

    # --- Join ---------------------------------------------------------------------------------------------------------

    def join(self, group: GroupId, how: Form | Join | Propose) -> None:
        if isinstance(how, Propose):
            raise ProtocolError("dedos has no proposed groups")
        self.only_sends = self.only_sends or how.role == SENDS
        self.since, self.forms = self.host.now, isinstance(how, Form)
        self.first = how.members if isinstance(how, Form) else ()
        self._spawn("join", self._enter())

    def _spawn(self, name: str, procedure: Procedure) -> None:
        self.host.spawn(name, self.box.run(procedure))

    def _enter(self) -> Procedure:
        box = self.box
        port = yield Connect(self.group, box.layout)
        if not isinstance(port, Port):
            self.departing = True
            self.host.refused(self.group, Reason("no place", port))
            return
        box.place, box.mask, box.life = port.place, 1 << port.place, port.epoch
        self.connected = True
        for process in list(self.failed):
            self._delete(process)
        yield from self._list()
        told = -1
        while box.active >= 0:
            copy = box.active
            seen = yield box.operate(copy, "join", self._enter_at)
            if seen is FAILED:
                box.found_dead(copy)
            elif isinstance(seen, list):
                self._exclude(seen)
                if copy != told:
                    told = copy
                    yield box.operate(copy, "wake", _nothing, news=True)
                else:
                    yield self._nap()
            else:
                header, elements = seen
                box.listed.add(copy)
                self.restored = copy
                self.entry, self.last = header.next, header.next - 1
                for number, element in elements:
                    self._keep(number, element)
                self._learn(header)
                self.host.record("state", self.group, state="entered", entry=self.entry, box=copy)
                yield from self._serve()
                return

    def _list(self) -> Generator[Request, Any, None]:
        """Lists this process in the spare boxes."""
        box = self.box
        while (active := box.active) >= 0 and (yield box.operate(active, "look", _nothing)) is FAILED:
            box.found_dead(active)
        connection = self._in_spare_box()
        for copy in [copy for copy in box.spares_first() if copy != active]:
            if (yield box.operate(copy, "list", partial(steps.list_at, place=box.place, connection=connection))) is FAILED:
                box.found_dead(copy)
            else:
                box.listed.add(copy)

    def _connection(self) -> Connection:
        """How this process is listed. A member that only sends asks for a change: it reads nothing else."""
        wish = JOINS if self.only_sends and not self.joined else 0
        return Connection(self.host.me, sends=True, only_sends=self.only_sends, wish=wish)

    def _in_spare_box(self) -> Connection:
        """How a process that joins is listed in a spare box: without its P-flag (erratum 10), since it has restored nothing."""
        return boxes.changed(self._connection(), entry=1)

    def _enter_at(self, copy: Copy) -> tuple[Header, list[tuple[int, Element]]] | list[ProcessId]:
        """Enters the list at the next number, unless another process restores this box, or the group is being formed by others.
        Gives what is in the mailbox, or the processes that are silent."""
        box, header = self.box, copy.header()
        forming = header.next == 1 and not self.forms and bool(steps.receivers_listed(copy, but=box.place))
        if forming or not steps.everybody_is_present(copy, but=box.place):
            if copy.connection(box.place) is not None:
                # It was a spare box when this process listed itself; there is nothing that it could restore.
                steps.list_at(copy, box.place, Connection(self.host.me, sends=True, present=True))
            return self.presence.attend(copy, box.place, self.host.now)
        steps.list_at(copy, box.place, boxes.changed(self._connection(), entry=header.next, present=True))
        return header, self._earlier(copy)

    def _earlier(self, copy: Copy) -> list[tuple[int, Element]]:
        """What a receiver that joins keeps of what is in the mailbox: all, like its readers, since it will keep later ones."""
        if self.only_sends:
            return []
        return [(number, boxes.element_of(copy, *found)) for number, found in sorted(boxes.numbered(copy).items())]

    # --- Receive ------------------------------------------------------------------------------------------------------

    def _serve(self) -> Generator[Request, Any, None]:
        """Reads, and recovers whether or not the application wants to read, until this process has left."""
        box = self.box
        wakes = True
        while box.active >= 0:
            if self.restored != box.active:
                yield from self._recover()
                continue
            if self._may_go():
                yield from self._depart()
                return
            wakes = yield from self._read_once(wakes)

    def _read_once(self, news: bool) -> Generator[Request, Any, bool]:
        """Looks at the mailbox, also while the application has no room: crashes have to be noticed. Whether others may go on."""
        box, copy = self.box, self.box.active
        seen = yield box.operate(copy, "receive", self._receive, news=news)
        if seen is FAILED:
            box.found_dead(copy)
            return False
        self._exclude(seen.excluded)
        self._take_in(seen)
        if box.is_overdue(seen.unread and self.pressed):
            box.halt_unread()
        if not (seen.wakes or len(seen.elements) == _READ_AT_ONCE or self._may_go()):
            yield self._nap()
        return bool(seen.wakes)

    def _exclude(self, silent: Iterable[ProcessId]) -> None:
        """Goes on without processes that are silent: they are deleted like those that have crashed."""
        for process in silent:
            if process not in self.failed:
                if self.presence.saw_silence(process, self.host.now):
                    self.host.record("suspect", self.group, process=process, **self.presence.why(process).to_detail())
                self._fail(process)

    def _nap(self) -> Nap | Until:
        """Until there is news. A member that only sends looks for changes now and then: messages are no news to it."""
        nap = self.box.nap(self.parameters.poll)
        return Until(nap.time) if self.only_sends and self.joined else nap

    def _receive(self, copy: Copy) -> Seen:
        """Receive, as one step: reads what is there, in order, and sets this process's flags; the last flag frees the element."""
        excluded = tuple(self.presence.attend(copy, self.box.place, self.host.now))
        present = steps.everybody_is_present(copy)
        found: list[tuple[int, Element]] = []
        unread = False
        last, known = self.last, self.members
        for number, (slot, entry) in sorted(boxes.numbered(copy).items()):
            if self.only_sends:
                if entry.listed & ~entry.done & self.box.mask:
                    if number > last:
                        found.append((number, boxes.element_of(copy, slot, entry)))
                    copy.put(slot, boxes.changed(entry, done=entry.done | self.box.mask))
            elif number > last:
                may_read = self._may_read(number, last, present)
                if self.pressed or not may_read or len(found) == _READ_AT_ONCE:
                    unread = True
                    break
                element = boxes.element_of(copy, slot, entry)
                found.append((number, element))
                known = known if element.kind == MESSAGES else change_from_bytes(element.batch.body).members
                copy.put(slot, boxes.changed(entry, done=entry.done | self.box.mask))
                last = number
        wakes = steps.free_complete(copy) and steps.waits_for_room(copy)
        change = self._put_change(copy, known, last) if present else None
        return Seen(copy.header(), tuple(found), change, unread, present, wakes or change is not None, excluded)

    def _may_read(self, number: int, last: int, present: bool) -> bool:
        """Whether this is the next number. A number is skipped only when all P-flags are set: then the box is restored."""
        return number == last + 1 or present

    def _put_change(self, copy: Copy, known: tuple[ProcessId, ...], last: int) -> tuple[int, Element] | None:
        """Compares the list with the newest change; ``known`` is that of the last one up to ``last``."""
        if not self.entry or (self.forms and not self.joined and not self._is_formed(copy)):
            return None
        if self.only_sends and (not self.joined or steps.receivers_listed(copy)):
            return None  # It says that a group has no receivers left; everything else the receivers say.
        if not (self.joined or self.forms) and self._is_older_there(copy):
            return None  # Only a member knows which of the others are new.
        return steps.put_change(copy, known, last, self.failed)

    def _is_older_there(self, copy: Copy) -> bool:
        """Whether another receiver was listed before this process."""
        own, listed = (self.entry, self.box.place), copy.connections()
        return any(one.entry and not one.only_sends and (one.entry, place) < own for place, one in listed)

    def _is_formed(self, copy: Copy) -> bool:
        """Whether all with whom this process forms the group are there, or have failed; or it has waited for them long enough."""
        there = {connection.process for _, connection in copy.connections()}
        if copy.header().next > 1 or all(name in there or name in self.failed for name in self.first):
            return True
        return self.host.now - self.since > FORMING * self.parameters.node_timeout

    def _take_in(self, seen: Seen) -> None:
        """Hands to the application what was read."""
        if seen.change is not None:
            self._keep(*seen.change)
        for number, element in seen.elements:
            self.last = max(self.last, number)
            if not self.only_sends:
                self._keep(number, element)
            if element.kind != MESSAGES:
                self._install(number, element)
            elif self.joined:
                self.host.deliver(self.group, element.sender, element.batch, number)
        self.unread, self.settled = seen.unread or seen.change is not None, seen.present
        self._learn(seen.header)

    def _install(self, number: int, element: Element) -> None:
        change = change_from_bytes(element.batch.body)
        if self.host.me not in change.members and not self.only_sends:
            return
        joined: tuple[ProcessId, ...]
        if self.joined or self.only_sends:
            joined = tuple(name for name in change.members if name not in self.members)
        else:
            # The same at all members, so that they know alike which of them has the state.
            joined = tuple(name for name in change.members if name in change.joined)
        gone = {name: why for name, why in change.gone if name in self.members}
        left = {name: Reason(why, f"{name} has {why}") for name, why in gone.items()}
        self.members = change.members
        self.host.install(View(self.group, number, change.members, joined, left, rank=number))
        if not self.joined:
            self.joined = True
            self.ready(self.group)

    def _keep(self, number: int, element: Element) -> None:
        """A process keeps what it has read or sent until every receiver has read it, and restores it after a crash of the box."""
        self.kept[number] = element

    def _keep_sent(self, number: int, element: Element) -> None:
        """A sender keeps its message like those that have read it."""
        self._keep(number, element)

    def _learn(self, header: Header) -> None:
        self.next = max(self.next, header.next)
        if header.oldest > self.oldest:
            self.oldest = header.oldest
            for number in [number for number in self.kept if number < header.oldest]:
                del self.kept[number]
            if self.joined and not self.only_sends:
                self.host.stable(self.group, header.oldest - 1)

    # --- Send ---------------------------------------------------------------------------------------------------------

    def ready(self, group: GroupId) -> None:
        if self.joined and not self.sending and not self.departing and self.host.peek(self.group) is not None:
            self.sending = True
            self._spawn("send", self._send())

    def _send(self) -> Procedure:
        box = self.box
        element: Element | None = None
        while box.active >= 0:
            if self.restored != box.active:
                yield from self._recover()
                continue
            copy = box.active
            if self.blocked:
                may_send = yield from box.on_active("look", self._may_send)
                if not may_send:
                    yield box.nap(self.parameters.poll)
                elif may_send is not FAILED:
                    self._note_blocked(False)
                continue
            if element is None:
                batch = self.host.take(self.group, self.parameters.room)
                if batch is None:
                    break
                self.number += 1
                element = Element(self.host.me, self.number, MESSAGES, batch)
            step = partial(self._store, element=element)
            found = yield box.operate(copy, "send", step, news=True, size=len(element.batch.body))
            if found is FAILED:
                box.found_dead(copy)
                continue
            number, header = found
            if number:
                self.sent, self.unread = number, not self.only_sends
                self._keep_sent(number, element)
                element = None
            else:
                self._note_blocked(True)
            self._learn(header)
        self.sending = False
        if self.leaving:
            self._wake()

    def _may_send(self, copy: Copy) -> bool:
        """Whether there is a free element in a box that is restored; if not, this process wishes for one."""
        if not steps.accepts_new(copy):
            return False
        if len(tuple(copy.entries())) < self.parameters.elements:
            return True
        connection = copy.connection(self.box.place)
        assert connection is not None
        copy.connect(self.box.place, boxes.changed(connection, wish=steps.ROOM))
        return False

    def _store(self, copy: Copy, element: Element) -> tuple[int, Header]:
        number = steps.give_number(copy, element, self.parameters.elements) if self._may_send(copy) else 0
        return number, copy.header()

    def _note_blocked(self, blocked: bool) -> None:
        self.blocked = blocked
        if blocked:
            text = f"no element of the mailbox of {self.group} is free for messages of {self.host.me}, or it is being restored"
            self.host.record("block", self.group, reason="full", text=text)
        else:
            self.host.record("unblock", self.group)

    # --- StartRecovery and Recover ------------------------------------------------------------------------------------

    def _recover(self) -> Generator[Request, Any, None]:
        """Restores what this process keeps in the box that has become the active one. One of its procedures does it."""
        box = self.box
        while self.moving:
            yield box.nap(self.parameters.poll)
        self.moving = True
        while 0 <= box.active != self.restored:
            copy = box.active
            self.host.record("state", self.group, state="recovers", box=copy, kept=len(self.kept))
            is_alive = yield from self._restore(copy)
            if is_alive:
                present = partial(steps.be_present, place=box.place, last=self.last)
                is_alive = yield from self._step(copy, "present", present)
            if is_alive:
                self.restored = copy
                self.host.record("state", self.group, state="recovered", box=copy)
            else:
                box.found_dead(copy)
        self.settled = self.moving = False

    def _restore(self, copy: int) -> Generator[Request, Any, bool]:
        """Restores what this process keeps in a box; whether the box is alive."""
        connection, known = boxes.changed(self._connection(), entry=self.entry), Header(self.next, self.oldest)
        start = partial(steps.start_recovery, place=self.box.place, connection=connection, known=known)
        if not (yield from self._step(copy, "start", start)):
            return False
        for number in sorted(self.kept):
            if number in self.kept:
                element = self.kept[number]
                step = partial(steps.recover, number=number, element=element, mask=self._flag(number))
                if not (yield from self._step(copy, "recover", step, size=len(element.batch.body))):
                    return False
        return True

    def _step(self, copy: int, name: str, step: Step, size: int = 0) -> Generator[Request, Any, bool]:
        """A step of a recovery; whether the box is alive."""
        header = yield self.box.operate(copy, name, step, news=name != "recover", size=size)
        if header is not FAILED:
            self._learn(header)
        return header is not FAILED

    def _flag(self, number: int) -> int:
        """This process's flag on a message that it restores: on what it has read, not on all that it keeps."""
        has_read = not self.only_sends and self.entry <= number <= self.last
        return self.box.mask if has_read else 0

    # --- Leave and DeleteMember ---------------------------------------------------------------------------------------

    def leave(self, group: GroupId) -> None:
        self.leaving = True
        self._wake()

    def _may_go(self) -> bool:
        """Whether what this process has sent has its numbers, and was read by it."""
        return self.leaving and self.joined and not self.sending and (self.only_sends or self.sent <= self.last)

    def _wake(self) -> None:
        """Ends the nap in which this process waits for something to read."""
        if self.connected and not self.departing and self.box.active >= 0:
            self.waking += 1
            self._spawn("wake", self._make_news())

    def _make_news(self) -> Procedure:
        yield self.box.operate(self.box.active, "wake", _nothing, news=True)
        self.waking -= 1

    def _depart(self) -> Generator[Request, Any, None]:
        box = self.box
        self.departing = True
        while self.deleting or self.waking:
            yield Until(self.host.clock() + self.parameters.operation)
        yield from self._restore_into_spares()
        box.listed.clear()
        yield from self._delete_from_all(self.host.me)
        yield Disconnect(self.group, box.place, self.host.me)
        self.connected = False
        self.host.left(self.group, None if self.only_sends else self.last)

    def _restore_into_spares(self) -> Generator[Request, Any, None]:
        """A process that leaves may be the only one that has read what it keeps (erratum 9)."""
        for copy in self._spares():
            if not (yield from self._restore(copy)):
                self.box.found_dead(copy)

    def _spares(self) -> list[int]:
        """The spare boxes in the order in which they become active: a process that leaves restores in this order."""
        box = self.box
        return [copy for copy in range(box.copies) if copy not in box.dead and copy != box.active]

    def _delete(self, process: ProcessId) -> None:
        self.deleting += 1
        self._spawn("delete", self._delete_failed(process))

    def _delete_failed(self, process: ProcessId) -> Procedure:
        yield from self._delete_from_all(process)
        yield Disconnect(self.group, -1, process)
        self.deleting -= 1

    def _delete_from_all(self, process: ProcessId) -> Generator[Request, Any, None]:
        box = self.box
        for copy in box.deletes_from():
            step = partial(self._delete_member, process=process, puts_change=copy == self.restored)
            change = yield box.operate(copy, "delete", step, news=True)
            if change is FAILED:
                box.found_dead(copy)
            elif change is not None:
                self._keep(*change)

    def _delete_member(self, copy: Copy, process: ProcessId, puts_change: bool) -> tuple[int, Element] | None:
        if not steps.delete_member(copy, process) or not puts_change or not steps.everybody_is_present(copy):
            return None
        return self._put_change(copy, self.members, self.last)

    def _fail(self, process: ProcessId) -> None:
        """A process has crashed, or was excluded."""
        self.failed[process] = None
        if self.connected and not self.departing:
            self._delete(process)

    # --- failures and pressure ----------------------------------------------------------------------------------------

    def notice(self, event: Any) -> None:
        if isinstance(event, Failure) and event.process != self.host.me:
            self._fail(event.process)  # If it was excluded before, only its place is left to be freed.
        elif isinstance(event, Pressure):
            self.pressed = event.full
            if not event.full:
                self._wake()

    # --- what is left to do -------------------------------------------------------------------------------------------

    def waiting(self) -> Reason | None:
        me, group = self.host.me, self.group
        if self.departing and not self.connected:
            return None
        if self.sending:
            return Reason("sending", f"{me} has messages in {group} to send")
        if self.deleting:
            return Reason("deleting", f"{me} deletes a process that has failed from {group}")
        if not self.joined or self.leaving:
            return Reason("changing", f"{me} is on its way into {group}, or out of it")
        if self.restored != self.box.active or not self.settled:
            return Reason("recovering", f"a mailbox of {group} has crashed, and {me} restores another, or waits for those who do")
        if self.unread:
            return Reason("unread", f"{me} has messages in {group} to read")
        return None


def _nothing(copy: Copy) -> None:
    return None
