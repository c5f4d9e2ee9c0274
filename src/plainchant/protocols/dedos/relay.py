"""A relay's part in one group: the intermediate of the thesis, outgoing and incoming (3.6.2), for one mailbox of its node.

Theory of operation
-------------------
- **Outgoing.** A procedure looks at the mailbox when there is news, and now and then. Elements without a number are sent to the
  distributor, again after ``retry`` until they have one. What all local receivers have read is acknowledged, with every packet
  and after ``acknowledge`` at the latest. Wishes of processes that want to join or to leave are reported.
- **Incoming.** What comes from the distributor waits in private memory and is stored in the order of the numbers: a local
  sender's message gets its number in all boxes, spares first, everything else goes into the active mailbox. While the mailbox is
  full or being restored, it waits. Every number from the first that is not in the mailbox is asked for, since a message that a
  local sender stored may be there with a higher one.
- **Nothing in private memory matters.** The epoch of the numbers and the promised epoch stand in the headers of all boxes; the
  next number follows from the mailbox. So a relay that takes over reads the mailbox and reports to the distributor.
- **Epochs.** A relay that promises an epoch stores nothing of an earlier one from then on, and answers with what the mailbox
  holds. The epoch begins here with its SYNCINIT: numbers that the new distributor did not find anywhere are void."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator
from functools import partial
from itertools import islice
from typing import Any, Final

from ...core.engine import Host
from ...core.memory import FAILED, Copy, Disconnect, Nap, Port, Procedure, Request
from ...core.model import GroupId, Packet, ProcessId, Reason, WireError
from . import box as boxes
from . import packets as wire
from . import relay_steps as steps
from .box import CHANGE, FENCED, JOINS, MESSAGES, Box, Element
from .packets import Change, Local, change_from_bytes, packed
from .parameters import Parameters
from .places import node_of
from .ports import Ports
from .relay_steps import Snapshot

_ASKED_AT_ONCE: Final = 64
_BUSY: Final = 64  # Procedures that a relay begins at once because of packets; further ones come again


class Relay:
    """One group on this node. ``transmit`` sends packets; ``empty`` is called when the group has no member here any more."""

    def __init__(
        self, host: Host, group: GroupId, node: str, parameters: Parameters,
        transmit: Callable[[Iterable[ProcessId], Packet], None], empty: Callable[[Relay], None],
    ) -> None:  # fmt: skip
        self.host, self.group, self.node, self.parameters = host, group, node, parameters
        self.transmit, self._empty = transmit, empty
        self.box = Box(host, group, parameters)
        self.ready = False  # Whether the mailbox has been looked at
        self.stopped = False
        self.distributor: ProcessId = ""
        self.promised = 0
        self.epoch = 0  # Whose numbers are in the mailbox
        self.next = self.oldest = self.purged = 1
        self.acked = 0
        self.high = 0  # The highest number that is known to exist
        self.members: tuple[Local, ...] = ()
        self.forms: tuple[ProcessId, ...] = ()
        self.early: dict[int, Element] = {}  # What has come and is not stored yet, by number
        self.requested: dict[tuple[ProcessId, int], int] = {}  # Messages that were sent to the distributor, and when
        self.heard_at = host.now  # When the distributor was heard last, or there was nothing to hear
        self.unanswered_since = 0  # Since when the distributor owes an answer; 0: it does not
        self.syncing = 0  # The number up to which everything has to be there in the synchronisation phase; 0: there is none
        self.elements_waiting = 0
        self.failed: dict[ProcessId, None] = {}
        self._storing = False
        self._turning = False  # Whether the mailbox is being brought to another epoch
        self._told_acked, self._told_at, self._told_full = -1, 0, 0
        self._asked_at, self._reported_at = 0, -(1 << 62)
        self.wants_report: int | None = host.clock()  # Since when (by the clock) a report is due; None: it is not
        self._fencing = False
        self._busy = 0  # Procedures of this relay that run beside the one that looks at the mailbox
        self.deleted: set[ProcessId] = set()  # Processes that this relay has deleted from all boxes: their places can be freed

    # --- serving ------------------------------------------------------------------------------------------------------

    def serve(self, ports: Ports, token: int) -> Procedure:
        """Serves the mailbox until no process but the relay is connected to it. ``token`` fences earlier relays off."""
        self.box.token = token
        return self.box.run(self._serve_all(ports))

    def _serve_all(self, ports: Ports) -> Procedure:
        port = yield from ports.connect(self.group, self.box.layout)
        if isinstance(port, Port):
            yield from self._serve(port)
            self.stopped = True
            while self._busy:
                yield Nap(self.host.clock() + self.parameters.operation)
            yield from ports.disconnect(self.group)
        self._empty(self)

    def _spawn(self, name: str, procedure: Procedure) -> None:
        self._busy += 1
        self.host.spawn(name, self.box.run(self._counted(procedure)))

    def _counted(self, procedure: Procedure) -> Procedure:
        yield from procedure
        self._busy -= 1

    def _serve(self, port: Port) -> Generator[Request, Any, None]:
        box = self.box
        box.place, box.mask, box.life = port.place, 1 << port.place, port.epoch
        while not self.stopped and box.active >= 0:
            yield from self._purge()
            if box.active < 0:
                return
            found = yield from self._look_once()
            if found is FAILED:
                continue
            self._seen(found)
            if found.state == FENCED and steps.is_fresh(found.members):
                if found.members:
                    yield from self._renew()
                return
            if not found.members and not self.epoch:
                return
            # The look is the last operation before the nap: news that comes after it ends the nap. After a purge it would not.
            if self._removable() <= self.purged:
                yield box.nap(self._patience(found))

    def _look_once(self) -> Generator[Request, Any, Any]:
        """Looks at the active mailbox; FAILED: it has crashed."""
        found = yield from self.box.on_active("look", self._look)
        if found is FAILED:
            self._forget()
        return found

    def _patience(self, found: Snapshot) -> int:
        """How long until the mailbox is looked at again, if there is no news."""
        incomplete = not found.restored or self.early or self.high >= self.next
        owes = self.acked < self.next - 1 or self.acked != self._told_acked or self.wants_report is not None
        if incomplete or owes or found.waiting or not found.members or any(member.wish for member in found.members):
            return min(self.parameters.acknowledge, self.parameters.retry)
        return self.parameters.poll

    def _forget(self) -> None:
        """The mailbox has crashed: what was stored may not be there any more."""
        self.requested.clear()

    def _look(self, copy: Copy) -> Snapshot:
        header, there = copy.header(), boxes.numbered(copy)
        next_ = steps.first_missing(there, header.oldest)
        waiting, restored = boxes.unnumbered(copy), boxes.is_restored(copy)
        requests: list[Element] = []
        if restored and self.distributor and self.epoch == self.promised and not self.syncing:
            since = self.host.now - self.parameters.retry
            coming = {(element.sender, element.number) for element in self.early.values()}
            for slot, entry in waiting:
                name = (entry.sender, entry.number)
                if name not in coming and self.requested.get(name, since) <= since:
                    requests.append(boxes.element_of(copy, slot, entry))
        acked = steps.count_acked(copy, there, header.oldest, next_)
        members = tuple(
            Local(one.process, one.wish, steps.floor(copy, one, acked), one.entry, one.exit, one.only_sends)
            for _, one in copy.connections()
            if one.process not in self.failed
        )
        beyond = tuple(sorted(number for number in there if number > next_))
        receives = any(one.entry and not one.only_sends for _, one in copy.connections())
        return Snapshot(
            header.state, restored, header.epoch, header.promised, header.before, header.nodes, header.oldest, next_, acked,
            beyond, len(waiting), tuple(requests), members, receives, header.life,
        )  # fmt: skip

    def _seen(self, found: Snapshot) -> None:
        """Acts upon what is in the mailbox."""
        if not self.ready:
            self.ready = True
            self.box.life = max(self.box.life, found.life)
            self.epoch, self.promised = max(self.epoch, found.epoch), max(self.promised, found.promised)
        self.oldest = max(self.oldest, found.oldest)
        self.acked, self.members, self.elements_waiting = found.acked, found.members, found.waiting
        if not found.waiting:
            self.requested.clear()
        if not self._storing and not self._turning:
            self.next = found.next
        for number in [number for number in self.early if number < found.oldest]:
            del self.early[number]
        if not found.restored or self._turning:
            return
        if self.distributor and self.epoch == self.promised and self.epoch:
            self._request(found.requests)
            self._ask_for_missing()
            self._acknowledge()
        self._report()
        self._store_early()

    # --- outgoing -----------------------------------------------------------------------------------------------------

    def said(self) -> tuple[GroupId, int, int, str, int, int, bool, int, int]:
        """What every packet to the distributor begins with."""
        self._told_acked, self._told_at = self.acked, self.host.now
        at, life, fresh = self.host.clock(), self.box.life, steps.is_fresh(self.members)
        return (self.group, self.promised, at, self.node, life, self.epoch, fresh, self.acked, self.next)

    def tell(self, packet: Packet) -> None:
        self.transmit((self.distributor,), packet)

    def _request(self, elements: tuple[Element, ...]) -> None:
        """MC_REQUEST, as many messages in a packet as fit."""
        for element in elements:
            self.requested[element.sender, element.number] = self.host.now
        for part in packed(((0, element) for element in elements), self.host.max_packet):
            self.tell(wire.McRequest(*self.said(), tuple(element for _, element in part)))
        if elements:
            self._await_answer()

    def _await_answer(self) -> None:
        self.unanswered_since = self.unanswered_since or self.host.now

    def _ask_for_missing(self) -> None:
        missing = list(islice(self._missing(), _ASKED_AT_ONCE))
        if missing and self.host.now - self._asked_at >= self.parameters.retry:
            self._asked_at = self.host.now
            self.host.record("state", self.group, state="asks for missing", first=missing[0], count=len(missing))
            self.tell(wire.RetransRequest(*self.said(), tuple(missing)))
            self._await_answer()

    def _missing(self) -> Iterator[int]:
        """The numbers that exist and have not come."""
        last = max(self.high, max(self.early, default=0))
        return (number for number in range(self.next, last + 1) if number not in self.early)

    def _acknowledge(self) -> None:
        if self.syncing and self.next > self.syncing:
            self.syncing = 0
            self.tell(wire.UpToDate(*self.said()))
        elif self.acked != self._told_acked and self.host.now - self._told_at >= self.parameters.acknowledge:
            self.tell(wire.AcksOnly(*self.said()))

    def _report(self) -> None:
        """Wishes, and whoever is not here any more: said until it is done."""
        if not self.distributor or self.host.now - self._reported_at < self.parameters.retry:
            return
        if self.wants_report is not None or not self.members or any(member.wish for member in self.members):
            self.report()

    def report(self) -> None:
        self._reported_at = self.host.now
        self.members = tuple(member for member in self.members if member.process not in self.failed)
        self.tell(wire.Report(*self.said(), self.members))
        self._await_answer()

    # --- incoming -----------------------------------------------------------------------------------------------------

    def multicast(self, source: ProcessId, packet: wire.Multicast) -> None:
        if self._is_current(source, packet.epoch):
            self.high = max(self.high, packet.next - 1)
            self._receive(packet.oldest, enumerate(packet.elements, packet.first))
            if not packet.elements and packet.first and self.epoch == self.promised:  # The distributor wants to know.
                self.tell(wire.AcksOnly(*self.said()))

    def retransmitted(self, source: ProcessId, packet: wire.Retrans) -> None:
        if self._is_current(source, packet.epoch):
            self._receive(0, packet.elements)

    def _is_current(self, source: ProcessId, epoch: int) -> bool:
        if self._listens_to(epoch):
            self.heard(source)
            if self.epoch != epoch and self.ready and self.host.now - self._reported_at >= self.parameters.retry:
                # It has not been said yet where that epoch begins.
                self.report()
            return True
        if epoch < self.promised:
            self.transmit((source,), wire.NotSent(self.group, epoch, "promised", self.promised))
        return False

    def _listens_to(self, epoch: int) -> bool:
        """A node that has promised an epoch takes no numbers of another one."""
        return epoch == self.promised

    def _refuses(self, epoch: int) -> bool:
        """A node that has promised an epoch answers no distributor of an earlier one."""
        return epoch < self.promised

    def heard(self, source: ProcessId = "") -> None:
        """The distributor lives; ``source``: this is the one."""
        self.distributor = source or self.distributor
        self.heard_at, self.unanswered_since = self.host.now, 0

    def _receive(self, oldest: int, elements: Iterable[tuple[int, Element]]) -> None:
        self.oldest = max(self.oldest, oldest)
        for number, element in elements:
            if number >= self.next + self.parameters.most_unread or not self._is_sound(element):
                continue
            self.high = max(self.high, number)
            if self._keeps(number):
                self.early[number] = element
        self._store_early()
        if self._is_settled:
            self._ask_for_missing()

    def _keeps(self, number: int) -> bool:
        """Whether a number is needed; what arrives early is kept too (4.2)."""
        return number >= self.next

    def _is_sound(self, element: Element) -> bool:
        """Whether an element can be put into a mailbox and read there."""
        if element.kind == CHANGE:
            try:
                change_from_bytes(element.batch.body)
            except WireError:
                return False
        elif element.kind != MESSAGES:
            return False
        return len(element.batch.body) <= self.box.layout.room

    @property
    def _is_settled(self) -> bool:
        """Whether the mailbox has numbers of the epoch that was promised."""
        return self.ready and not self._turning and not self.stopped and self._listens_to(self.epoch)

    def _store_early(self) -> None:
        if self.next in self.early and not self._storing and self._is_settled:
            self._storing = True
            self._spawn("store", self._store())

    def _store(self) -> Procedure:
        """Stores what has come, in order, until something is missing or there is no room."""
        while self.next in self.early and self._is_settled:
            number, element = self.next, self.early[self.next]
            result = yield from self._store_one(number, element)
            if result == "full" and self.purged < self.oldest:
                yield from self._purge()
                continue
            if result in ("full", "recovering"):
                self._put_off(number, result)
                break
            self.early.pop(number, None)
            self.requested.pop((element.sender, element.number), None)
            if self.next == number:
                self.next += 1
        self._storing = False
        if self._is_settled:
            self._ask_for_missing()
            if self.syncing:
                self._acknowledge()

    def _put_off(self, number: int, why: str) -> None:
        """A message that cannot be stored now stays, and is stored when it can be (erratum 3)."""
        if number != self._told_full:
            self._told_full = number
            self.host.record("state", self.group, state=f"cannot store: {why}", number=number)

    def _store_one(self, number: int, element: Element) -> Generator[Request, Any, str]:
        box = self.box
        is_local = element.kind == MESSAGES and node_of(self.parameters, element.sender) == self.node
        change = change_from_bytes(element.batch.body) if element.kind == CHANGE else None
        place, active = partial(self._place, number=number, element=element, change=change, is_local=is_local), box.active
        for copy in list(box.spares_first()):
            if copy != active and not is_local and change is None:
                continue
            step, is_first = partial(place, is_active=copy == active), number != self._told_full
            result = yield box.operate(copy, "store", step, news=copy == active and is_first, size=len(element.batch.body))
            if result is FAILED:
                box.found_dead(copy)
                if copy == active:
                    self._forget()
                    return "recovering"
            elif copy == active:
                if result == "stored" and not is_first:
                    # Attempts that come to nothing are no news to anybody, or they would wake each other for ever.
                    yield box.operate(copy, "ring", lambda copy: None, news=True)
                return str(result)
        return "recovering"

    def _place(self, copy: Copy, *, number: int, element: Element, change: Change | None, is_local: bool, is_active: bool) -> str:
        """StoreMsgIm, as one step on one box."""
        if is_active and not boxes.accepts_new(copy):
            return "recovering"
        if is_active and not is_local and number not in boxes.numbered(copy) and self._is_full(copy, number):
            return "full"
        if change is not None:
            self._admit(copy, number, change, is_active)
        if is_active and number in boxes.numbered(copy):
            return "there"
        listed = boxes.receivers(copy, number, element.kind)
        if is_local:
            found = boxes.own(copy, element.sender, element.number)
            if found is not None:
                slot, entry = found
                if entry.stamp != number:
                    copy.put(slot, boxes.changed(entry, stamp=number, listed=listed, done=0))
                return "stored"
            if not self._stores_for_gone(is_active):
                return "stored"
            if self._is_full(copy, number):
                return "full"
        if is_active and not boxes.put(copy, element, number, listed):
            return "full"
        return "stored"

    def _stores_for_gone(self, is_active: bool) -> bool:
        """Whether this box takes the message of a local sender that has crashed, like one from elsewhere (erratum 12)."""
        return is_active

    def _is_full(self, copy: Copy, number: int) -> bool:
        """Whether there is no room for this number. Higher ones that are there do not count: they wait for this one."""
        stamps = [entry.stamp for _, entry in copy.entries()]
        return len(stamps) >= self.parameters.elements and sum(0 < stamp < number for stamp in stamps) >= self.parameters.reserve

    def _admit(self, copy: Copy, number: int, change: Change, is_active: bool) -> None:
        """A change says that processes of this node are members from now on, or none any more."""
        gone = {name for name, _ in change.gone}
        here = {connection.process for _, connection in copy.connections()}
        if any(node_of(self.parameters, name) == self.node and name not in here for name in change.joined):
            self.wants_report = self.host.clock()
        for place, connection in tuple(copy.connections()):
            if connection.wish == JOINS and connection.process in change.joined:
                copy.connect(place, boxes.changed(connection, entry=number, wish=0, present=is_active))
            elif connection.entry and connection.process in gone and not connection.exit:
                # One that wishes to join again is not meant: it never learned that it had been a member.
                copy.connect(place, boxes.changed(connection, exit=number, wish=0))

    def _purge(self) -> Generator[Request, Any, None]:
        """CheckAcksIm: what everybody has read is removed from all boxes."""
        oldest = self._removable()
        if oldest <= self.purged:
            return
        step = partial(boxes.purge, oldest=oldest)
        for copy in list(self.box.spares_first()):
            if (yield self.box.operate(copy, "purge", step, news=copy == self.box.active)) is FAILED:
                self.box.found_dead(copy)
        self.purged = oldest

    def _removable(self) -> int:
        """Elements before this number are removed: those that the receivers of all nodes have read, not only the local ones."""
        return self.oldest

    # --- epochs -------------------------------------------------------------------------------------------------------

    def highest(self, source: ProcessId, packet: wire.Highest) -> None:
        """A new distributor asks what there is."""
        if self._refuses(packet.epoch):
            self.transmit((source,), wire.NotSent(self.group, packet.epoch, "promised", self.promised))
            return
        if packet.epoch != self.promised:
            self.promised = packet.epoch
            self.early.clear()
            self.syncing = 0
            self.host.record("elect", self.group, stage="promise", epoch=packet.epoch, distributor=source)
        self.heard(source)
        if self._busy < _BUSY:
            self._spawn("answer", self._answer(packet))

    def _answer(self, packet: wire.Highest) -> Procedure:
        """Writes the promise into all boxes, and says what the mailbox holds."""
        box = self.box

        def promise(copy: Copy) -> None:
            header = copy.header()
            if header.promised < packet.epoch:
                copy.put_header(boxes.changed(header, promised=packet.epoch, before=header.promised))

        while (self._storing or self._turning or not self.ready) and not self.stopped:
            yield Nap(self.host.clock() + self.parameters.operation)
        while packet.epoch == self.promised and not self.stopped:
            for copy in list(box.spares_first()):
                if (yield box.operate(copy, "promise", promise)) is FAILED:
                    box.found_dead(copy)
                    self._forget()
            if box.active < 0:
                return
            found = yield from self._look_once()
            if found is FAILED:
                continue
            if found.state == FENCED:
                return
            if found.restored:
                self._seen(found)
                said = (*self.said()[:5], found.epoch, steps.is_fresh(found.members), found.acked, found.next)
                held = (found.before, found.oldest, found.beyond, found.members, found.nodes, found.receives)
                if packet.epoch == self.promised:
                    self.tell(wire.Held(*said, packet.round, True, *held))
                return
            yield Nap(self.host.clock() + self.parameters.retry, 0, self.group)

    def load(self, source: ProcessId, packet: wire.DistLoad) -> None:
        if packet.epoch == self.promised and source == self.distributor and self._busy < _BUSY:
            self.heard()
            self._spawn("load", self._load(packet))

    def _load(self, packet: wire.DistLoad) -> Procedure:
        numbers = set(packet.numbers)

        def read(copy: Copy) -> list[tuple[int, Element]]:
            there = boxes.numbered(copy).items()
            return [(number, boxes.element_of(copy, *found)) for number, found in there if number in numbers]

        found = [] if self.box.active < 0 else (yield from self.box.on_active("look", read))
        if found is FAILED:
            self._forget()
            found = []
        missing = tuple(sorted(numbers - {number for number, _ in found}))
        parts = list(packed(sorted(found, key=lambda each: each[0]), self.host.max_packet))
        for part in parts or [[]]:
            self.tell(wire.DistLoaded(*self.said(), packet.round, tuple(part), missing))

    def synchronise(self, source: ProcessId, packet: wire.SyncInit) -> None:
        """An epoch begins here, this relay is known to the distributor, or everybody has to catch up."""
        if self._refuses(packet.epoch):
            return
        self.heard(source)
        if packet.epoch != self.epoch or packet.start > max(self.next, self.oldest):
            if packet.epoch != self.promised:
                self.promised = packet.epoch
                self.early.clear()
            if not self._turning:
                self._turning = True
                self._spawn("turn", self._turn(packet))
            return
        self._answered(packet)
        self.high = max(self.high, packet.last)
        self.oldest = max(self.oldest, packet.oldest)
        if packet.sync:
            self.syncing = packet.last
            if self.ready and not self._storing and self.next > packet.last:
                self.syncing = 0
                self.tell(wire.UpToDate(*self.said()))
            elif self.ready and not self._storing:
                self._ask_for_missing()

    def _answered(self, packet: wire.SyncInit) -> None:
        if self.wants_report is not None and packet.reported >= self.wants_report:
            self.wants_report = None

    def _turn(self, packet: wire.SyncInit) -> Procedure:
        """Brings all boxes to the beginning of an epoch."""
        box = self.box
        while (self._storing or not self.ready) and not self.stopped:
            yield Nap(self.host.clock() + self.parameters.operation)
        if packet.epoch < self.promised:
            self._turning = False
            return
        for copy in list(box.spares_first()):
            if (yield box.operate(copy, "turn", partial(steps.turn, packet=packet), news=True)) is FAILED:
                box.found_dead(copy)
                self._forget()
        self.host.record("state", self.group, state="epoch begins", epoch=packet.epoch, begin=packet.begin, start=packet.start)
        self.epoch = packet.epoch
        self.high = max(packet.last, 0)
        self.oldest = max(self.oldest, packet.oldest, packet.start)
        self.requested.clear()
        self._answered(packet)
        copy = box.active
        found: Any = FAILED if copy < 0 else (yield box.operate(copy, "look", self._look))
        self._turning = False
        if found is FAILED:
            box.found_dead(copy)
            return
        self._seen(found)
        if self.epoch == self.promised:
            self._ask_for_missing()
            self.tell(wire.AcksOnly(*self.said()))

    # --- who is gone --------------------------------------------------------------------------------------------------

    def fail(self, process: ProcessId) -> None:
        """A process of this node has crashed."""
        if process not in self.failed:
            self.failed[process] = None
            self._spawn("delete", self._delete(process))

    def _delete(self, process: ProcessId) -> Procedure:
        """DeleteMember: in all boxes, spares first; then its place is free."""
        box = self.box
        while not self.ready and not self.stopped:
            yield Nap(self.host.clock() + self.parameters.operation)
        place = -1
        for copy in box.deletes_from():
            found = yield box.operate(copy, "delete", partial(self._delete_from, process=process), news=True)
            if found is FAILED:
                box.found_dead(copy)
            elif found is not None:
                place = found
        yield Disconnect(self.group, place, process)
        self.deleted.add(process)
        self.host.record("state", self.group, state="deleted", who=process)
        self.wants_report = self.host.clock()
        if self.distributor:
            self.report()

    def _delete_from(self, copy: Copy, *, process: ProcessId) -> int | None:
        """The messages without a number of a sender that has crashed are removed too (erratum 12)."""
        return boxes.delete(copy, process)

    def released(self) -> None:
        """The distributor knows that the group has no member here any more."""
        if not self.members and self.ready:
            self.stopped = True

    def fence(self, epoch: int) -> None:
        if not self.stopped and not self._fencing:
            self._fencing = True
            self.host.record("state", self.group, state="fenced", epoch=epoch)
            self._spawn("fence", self._fence())

    def _fence(self) -> Procedure:
        """The members of this group on this node have to halt."""

        def mark(copy: Copy) -> None:
            copy.put_header(boxes.changed(copy.header(), state=FENCED))

        yield from self.box.on_each("fence", mark)

    def _renew(self) -> Generator[Request, Any, None]:
        """The members of a group that went on without this node have halted, or are excluded. Processes that wish to join begin
        with empty boxes: those have a new life, so that the distributor can tell them from the old ones."""
        life = max(self.box.life + 1, self.host.clock())
        yield from self.box.on_each("renew", partial(steps.renew, life=life))
        self.host.record("state", self.group, state="renewed", life=life)

    # --- what is left to do -------------------------------------------------------------------------------------------

    def waiting(self) -> Reason | None:
        if self.stopped:
            return None
        if self._fencing:
            return Reason("fenced", f"{self.group} on {self.node} has to halt") if self.members else None
        if not self.ready or self._turning or self.epoch != self.promised:
            return Reason("turning", f"{self.group} has no distributor on {self.node} yet")
        if self.elements_waiting:
            return Reason("unnumbered", f"{self.elements_waiting} messages of {self.group} on {self.node} have no number")
        if self.next <= self.high:
            return Reason("behind", f"{self.node} has {self.group} up to {self.next - 1}, of {self.high}")
        if self.acked < self.next - 1:
            return Reason("unread", f"receivers of {self.group} on {self.node} have read up to {self.acked}, of {self.next - 1}")
        if not self.members or any(member.wish for member in self.members):
            return Reason("changing", f"somebody on {self.node} is on its way into {self.group}, or out of it")
        return None
