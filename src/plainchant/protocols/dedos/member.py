"""A member of a group that reaches over nodes: Join, Send_inter, Receive_inter, Recover, Leave (3.6, 3.7).

Theory of operation
-------------------
- **Joining.** A process lists itself in all boxes with a wish and tells its relay. It is a member from the number of the change
  that says so; the relay that stores that change writes the number into its connection.
- **Sending.** A message goes into all boxes, spares first, without a number. It stays there until all receivers of the group have
  read it, so a sender keeps nothing.
- **Receiving.** Messages are read in the order of their numbers. One step sets the flag and copies the message into private
  memory, where it stays until all have read it (the header's ``oldest``): when the mailbox crashes it may be nowhere else. The
  procedure looks at the mailbox even if the application does not read, since a crash has to be noticed.
- **Recovering.** In a box that has become the active one the P-flags are not set. Each receiver restores what it keeps, one
  message per step, and sets its own; then it goes on. While any flag is missing nothing new is stored there."""

from __future__ import annotations

from collections.abc import Callable, Container, Generator
from functools import partial
from typing import Any, Final, TypeAlias

import msgspec

from ...core.engine import Host
from ...core.memory import FAILED, Connection, Copy, Entry, Nap, Port, Procedure, Request
from ...core.model import SENDS, Batch, Form, GroupId, Join, ProcessId, Reason, View, format_duration
from ...core.names import place_of
from . import box as boxes
from .box import FENCED, JOINS, LEAVES, MESSAGES, Box, Element
from .packets import Change, change_from_bytes
from .parameters import Parameters
from .ports import Ports

_Numbered: TypeAlias = tuple[tuple[int, Element], ...]
_READ_AT_ONCE: Final = 64
_FOREVER: Final = 1 << 62
JOINING: Final = 12  # A process that is not let in gives up after this multiple of the time for which a node may be silent


class Reading(msgspec.Struct, frozen=True):
    """What a receiver finds in the mailbox."""

    status: str  # read, wait (not a member yet), void (not any more: no process has read that it was one), restore, fenced
    connection: Connection | None = None
    elements: _Numbered = ()
    oldest: int = 1
    earlier: _Numbered = ()  # Of who has just become a member: what others may still have to read
    unread: bool = False  # Whether the application does not read, and there is something for it


class Member:
    """One process in one group. ``ask`` tells the relay what it wishes; ``over`` is run when it is out of the group."""

    def __init__(
        self, host: Host, group: GroupId, parameters: Parameters, ports: Ports, ask: Callable[[Member], None],
        over: Callable[[Member], Generator[Request, Any, None]],
    ) -> None:  # fmt: skip
        self.host, self.group, self.parameters = host, group, parameters
        self.box = Box(host, group, parameters)
        self.only_sends = place_of(host.me) in parameters.senders
        self.forms: tuple[ProcessId, ...] = ()
        self.contacts: tuple[ProcessId, ...] = ()
        self.entered = False  # Whether it is a member
        self.last = 0  # The last number that was read
        self.oldest = 1
        self.kept: dict[int, Element] = {}  # The Hbuffer
        self.changes: dict[int, Element] = {}  # Of a member that only sends: the changes that it has read and others may not have
        self.number = 0
        self.sending = self.blocked = self.pressed = self.leaving = self.gone = False
        self.wishing = False  # Whether the wish to leave is in the boxes
        self.members: tuple[ProcessId, ...] = ()
        self.following = False  # Of a member that only sends: whether it has seen a view
        self._ports, self._ask, self._over = ports, ask, over
        self._since = host.now
        self._asked_at = -_FOREVER

    def enter(self, how: Form | Join) -> Procedure:
        box, self.only_sends = self.box, self.only_sends or how.role == SENDS
        if isinstance(how, Form):
            self.forms = how.members
        else:
            self.contacts = how.contacts
        port = yield from self._ports.connect(self.group, box.layout)
        if not isinstance(port, Port):
            self.host.refused(self.group, Reason("no place", port))
            return
        box.place, box.mask, box.life = port.place, 1 << port.place, port.epoch

        def list_(copy: Copy) -> None:
            copy.connect(box.place, Connection(self.host.me, sends=True, wish=JOINS, only_sends=self.only_sends))

        for copy in list(box.spares_first()):
            if (yield box.operate(copy, "list", list_, news=True)) is FAILED:
                box.found_dead(copy)
            else:
                box.listed.add(copy)
        self.host.record("state", self.group, state="wishes to join", place=box.place)
        yield from self._run()

    def _run(self) -> Procedure:
        box = self.box
        while box.active >= 0:
            copy = box.active
            found = yield box.operate(copy, "read", self._read)
            if found is FAILED:
                box.found_dead(copy)
            elif found.status == "fenced":
                self.host.halt(Reason("fenced", f"{self.group} goes on without this node: it was taken for crashed"))
                return
            elif box.is_overdue(found.unread):
                box.halt_unread()
                return
            elif found.status == "restore":
                yield from self._recover(copy)
            else:
                if found.status == "read" and not self.entered:
                    self._begin(found.connection)
                    for number, element in found.earlier:
                        self._keep(number, element)
                self._purge(found.oldest)
                leaves = self._take_in(found.elements)
                if found.status == "void":
                    self._begin_again()
                if leaves:
                    yield from self._depart()
                    return
                self._leave_if_idle()
                if len(found.elements) < _READ_AT_ONCE:
                    if found.status in ("wait", "void") or found.connection.wish:
                        self._ask_again()
                    if found.status == "wait" and not self.forms and self.host.now - self._since > self._patience:
                        yield from self._give_up()
                        return
                    yield self._nap(found.status in ("wait", "void"))

    def _nap(self, soon: bool) -> Nap:
        """Until there is news, and not too long: crashes of boxes are noticed whether or not the application reads."""
        return self.box.nap(self.parameters.retry if soon else self.parameters.poll)

    @property
    def _patience(self) -> int:
        return JOINING * self.parameters.node_timeout

    def _give_up(self) -> Generator[Request, Any, None]:
        """No process lets this one in."""
        self.box.listed.clear()
        yield from self.box.on_each("delete", partial(boxes.delete, process=self.host.me))
        self.gone = True
        yield from self._ports.disconnect(self.group)
        yield from self._over(self)
        text = f"nobody has let {self.host.me} into {self.group} for {format_duration(self._patience)}: it has no members left"
        self.host.refused(self.group, Reason("nobody", text))

    def _ask_again(self) -> None:
        if self.host.now - self._asked_at >= self.parameters.retry:
            self._asked_at = self.host.now
            self._ask(self)

    def _read(self, copy: Copy) -> Reading:
        """Receive_inter, as one step."""
        box, header, connection = self.box, copy.header(), copy.connection(self.box.place)
        assert connection is not None, "every step checks first whether this process is listed"
        if not connection.entry:
            return Reading("void" if self.entered else "wait", connection)
        if header.state == FENCED:
            return Reading("fenced")
        if not connection.present:
            return Reading("restore", connection)
        there = boxes.numbered(copy)
        if self.only_sends:
            return Reading("read", connection, self._read_changes(copy, there), header.oldest)
        found: list[tuple[int, Element]] = []
        earlier = self._earlier(copy, connection, there)
        if not self.pressed:
            number = self.last or connection.entry - 1
            while (next_one := there.get(number + 1)) is not None and len(found) < _READ_AT_ONCE:
                slot, entry = next_one
                number += 1
                if not boxes.receives(connection, number):
                    break
                found.append((number, boxes.element_of(copy, slot, entry)))
                if not entry.done & box.mask:
                    copy.put(slot, boxes.changed(entry, done=entry.done | box.mask))
        unread = self.pressed and (self.last or connection.entry - 1) + 1 in there
        return Reading("read", connection, tuple(found), header.oldest, earlier, unread)

    def _read_changes(self, copy: Copy, there: dict[int, tuple[int, Entry]]) -> _Numbered:
        """What a member that only sends reads: the changes that it has no flag on yet, in order. One that it has read may come
        again when another process restores it late; one that was void comes again as another change."""
        found: list[tuple[int, Element]] = []
        for number, (slot, entry) in sorted(there.items()):
            if entry.listed & ~entry.done & self.box.mask:
                element = boxes.element_of(copy, slot, entry)
                if self.changes.get(number) != element:
                    found.append((number, element))
                copy.put(slot, boxes.changed(entry, done=entry.done | self.box.mask))
        return tuple(found)

    def _earlier(self, copy: Copy, connection: Connection, there: dict[int, tuple[int, Entry]]) -> _Numbered:
        """What a process that has just become a member keeps of the earlier messages: all, like those that have read them. It
        will keep later ones too, and a process that has read a number must have all before it."""
        if self.entered or self.only_sends:
            return ()
        return tuple((number, boxes.element_of(copy, *found)) for number, found in there.items() if number < connection.entry)

    def _begin(self, connection: Connection) -> None:
        self.entered = True
        self.last = max(0, connection.entry - 1)
        self.host.record("state", self.group, state="entered", entry=connection.entry)

    def _begin_again(self) -> None:
        """The change that made this process a member was lost before anybody had read it."""
        assert self.only_sends or not self.members, self.members
        self.entered, self.last = False, 0
        self.kept.clear()

    def _purge(self, oldest: int) -> None:
        """Forgets what all receivers of all nodes have read."""
        if oldest <= self.oldest:
            return
        self.oldest = oldest
        for kept in (self.kept, self.changes):
            for number in [number for number in kept if number < oldest]:
                del kept[number]
        if self.members and not self.only_sends:
            self.host.stable(self.group, oldest - 1)

    def _take_in(self, elements: _Numbered) -> bool:
        """Hands to the application what was read; whether it was this process's leave."""
        leaves = False
        for number, element in elements:
            self.last = max(self.last, number)
            if self.only_sends:
                self.changes[number] = element
            else:
                self._keep(number, element)
            if element.kind == MESSAGES:
                self.host.deliver(self.group, element.sender, element.batch, number)
            else:
                leaves = self._install(number, change_from_bytes(element.batch.body)) or leaves
        return leaves

    def _keep(self, number: int, element: Element) -> None:
        """A receiver keeps what it has read until every receiver has read it, and restores it after a crash of the box."""
        self.kept[number] = element

    def _install(self, number: int, change: Change) -> bool:
        if self.only_sends:
            return self._follow(number, change)
        if self.host.me not in change.members:
            return True
        was_in, joined = self.host.me in self.members, self._joined(change)
        self._show(number, change, joined, [name for name, _ in change.gone])
        if not was_in:
            self.send()
        return False

    def _show(self, number: int, change: Change, joined: tuple[ProcessId, ...], known: Container[ProcessId]) -> None:
        left = {name: Reason(why.replace(" ", "-"), f"{name} {_SAID[why]}") for name, why in change.gone if name in known}
        self.members = change.members
        self.host.install(View(self.group, number, change.members, joined, left, rank=number))

    def _follow(self, number: int, change: Change) -> bool:
        """A member that only sends is in no view, but sees the views of the others."""
        if any(name == self.host.me for name, _ in change.gone):
            return True
        self._show(number, change, tuple(name for name in change.members if name not in self.members), self.members)
        if not self.following:
            self.following = True
            self.send()
        return False

    def _joined(self, change: Change) -> tuple[ProcessId, ...]:
        """The members that are new in a change: the same at all of them, so that they know alike which member has the state."""
        if self.host.me in self.members:
            return tuple(name for name in change.members if name not in self.members)
        return tuple(name for name in change.members if name in change.joined)

    def _recover(self, copy: int) -> Generator[Request, Any, None]:
        """Restores what this process keeps in a box that has become the active one."""
        box = self.box
        self.host.record("state", self.group, state="recovers", box=copy, kept=len(self.kept))
        for number in sorted(self.kept):
            while True:
                element = self.kept[number]
                step = partial(boxes.restore, number=number, element=element, mask=box.mask)
                done = yield box.operate(copy, "restore", step, size=len(element.batch.body))
                if done is FAILED:
                    box.found_dead(copy)
                    return
                if done:
                    break
                yield box.nap(self.parameters.retry)
        present = partial(boxes.set_present, place=box.place, last=self.last, oldest=self.oldest)
        header = yield box.operate(copy, "present", present, news=True)
        if header is FAILED:
            box.found_dead(copy)
            return
        self._purge(header.oldest)
        self.host.record("state", self.group, state="recovered", box=copy)

    def send(self) -> None:
        """There may be something to send."""
        may_send = self.entered and (self.following or not self.only_sends) and not self.sending and not self.wishing
        if may_send and self.host.peek(self.group) is not None:
            self.sending = True
            self.host.spawn("send", self.box.run(self._send()))

    def _send(self) -> Procedure:
        box = self.box
        while self.host.peek(self.group) is not None:
            if box.active < 0:
                return
            room = yield from box.on_active("look", self._has_room)
            if room is FAILED:
                continue
            if not room:
                self._note_blocked(True)
                yield box.nap(self.parameters.retry)
                continue
            self._note_blocked(False)
            batch = self.host.take(self.group, min(self.parameters.room, self.host.max_packet))
            if batch is None:
                break
            yield from self._store(batch)
        self.sending = False
        self._leave_if_idle()

    def _has_room(self, copy: Copy) -> bool:
        """Whether an element may be taken: the box is restored, and enough are left for messages that have numbers."""
        if not boxes.accepts_new(copy):
            return False
        senders = [entry.sender for _, entry in boxes.unnumbered(copy)]
        return senders.count(self.host.me) < self.parameters.window and self._is_element_left(copy, len(senders))

    def _is_element_left(self, copy: Copy, waiting: int) -> bool:
        """Some elements are reserved for messages with a number: a mailbox full of others could take none and never empty."""
        return waiting < self.parameters.elements - self.parameters.reserve

    def _store(self, batch: Batch) -> Generator[Request, Any, None]:
        """Send_inter: the message goes into all boxes, without a number."""
        box = self.box
        self.number += 1
        element = Element(self.host.me, self.number, MESSAGES, batch)
        step = partial(boxes.put, element=element, stamp=0, listed=0, place=box.place)
        copies = box.stores_into()
        for copy in copies:
            while not (done := (yield box.operate(copy, "store", step, news=copy == copies[-1], size=len(batch.body)))):
                yield box.nap(self.parameters.retry)
            if done is FAILED:
                box.found_dead(copy)

    def _note_blocked(self, blocked: bool) -> None:
        if blocked != self.blocked:
            self.blocked = blocked
            if blocked:
                text = f"no element of the mailbox of {self.group} is free for messages of {self.host.me}"
                self.host.record("block", self.group, reason="full", text=text)
            else:
                self.host.record("unblock", self.group)

    def leave(self) -> None:
        self.leaving = True
        self._leave_if_idle()

    def _leave_if_idle(self) -> None:
        is_in = self.following or self.host.me in self.members
        if self.leaving and self.entered and is_in and not self.sending and not self.wishing:
            self.wishing = True
            self.host.spawn("leave", self.box.run(self._wish_to_leave()))

    def _wish_to_leave(self) -> Procedure:
        """Says so in all boxes as soon as all its messages have numbers."""
        box = self.box

        def is_idle(copy: Copy) -> bool:
            return boxes.is_restored(copy) and not any(entry.sender == self.host.me for _, entry in boxes.unnumbered(copy))

        while box.active >= 0:
            idle = yield from box.on_active("look", is_idle)
            if idle is not FAILED:
                if idle:
                    break
                yield box.nap(self.parameters.retry)

        def wish(copy: Copy) -> None:
            connection = copy.connection(box.place)
            if connection is not None and connection.process == self.host.me and not connection.exit:
                copy.connect(box.place, boxes.changed(connection, wish=LEAVES))

        yield from box.on_each("list", wish)
        self._ask(self)

    def _depart(self) -> Generator[Request, Any, None]:
        """Leave: what this process keeps goes into the spare boxes, then it deletes itself from all."""
        self.entered = False
        yield from self._restore_into_spares()
        self.box.listed.clear()
        step = partial(boxes.delete, process=self.host.me, drop=False)
        yield from self.box.on_each("delete", step, self.box.deletes_from())
        self.gone = True
        yield from self._ports.disconnect(self.group)
        yield from self._over(self)
        self.host.left(self.group, None if self.only_sends else self.last)

    def _restore_into_spares(self) -> Generator[Request, Any, None]:
        """A process that leaves may be the only one that has read what it keeps."""
        box = self.box
        for copy in list(box.spares_first())[:-1]:
            for number, element in sorted(self.kept.items()):
                step = partial(boxes.restore, number=number, element=element, mask=0)
                if (yield box.operate(copy, "restore", step, size=len(element.batch.body))) is FAILED:
                    box.found_dead(copy)
                    break

    def waiting(self) -> Reason | None:
        if self.gone:
            return None
        if self.sending:
            return Reason("sending", f"{self.host.me} has messages in {self.group} to send")
        if not self.entered or self.leaving:
            return Reason("changing", f"{self.host.me} is on its way into {self.group}, or out of it")
        return None


_SAID: Final = {"left": "has left", "crashed": "has crashed", "node crashed": "was on a node that has crashed"}
