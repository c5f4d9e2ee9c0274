"""The distributor of a group (3.6.2): it numbers messages, keeps them until all receivers have read them, and knows the members.

Theory of operation
-------------------
- **Numbering.** Each message gets the next number and is multicast to the relays of the group's nodes. A sender's messages are
  numbered in the order of its own numbers: one that comes early waits, one that comes again is answered with its number. A
  message stays in the history until every node has acknowledged it; with a full history nothing is numbered, and all nodes are
  asked to catch up (the synchronisation phase).
- **Members.** Relays report which processes are connected to their mailboxes. Joins, leaves and crashes become changes, numbered
  like messages: all members see them at the same point, and a process that joins knows its first number.
- **Starting.** A new distributor asks all nodes that are alive what their mailboxes hold, waits for all of them, and goes on from
  the latest epoch that any of them knows. Nodes that had not promised that epoch went another way, and are fenced. It loads
  everything that not every receiver has read, up to the first number that no node holds: receivers read in order, so no process
  has read that one or any after it; they are void, and their messages are numbered again. Then the epoch begins, with a change
  that names all members."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping
from typing import Final, TypeAlias

from ...core.engine import Host
from ...core.model import Batch, GroupId, Packet, ProcessId, Reason
from . import packets as wire
from .box import CHANGE, JOINS, LEAVES, MESSAGES, Element
from .packets import Change, Local, change_from_bytes, change_to_bytes, mask_of, packed
from .parameters import Parameters
from .places import node_of

_Kept: TypeAlias = dict[str, tuple[ProcessId, wire.Held]]  # What the relays of nodes have answered
_LOADED_AT_ONCE: Final = 64
_ASKED_AGAIN: Final = 4  # Nodes that have not acknowledged everything are asked every so many times that the others are reminded
_FORMING: Final = 4  # Those who form a group are waited for so many times as long as a node that is silent


@dataclasses.dataclass(slots=True, eq=False)
class Peer:
    """A node of the group, as its distributor knows it."""

    node: str
    relay: ProcessId
    life: int
    acked: int
    next: int
    start: int = 0  # The first number that it gets, if it came later; 0: it was there when the epoch began
    up_to_date: bool = True


class Distributor:
    """One group, for one epoch. ``relays`` has the relays of nodes that are alive, and a node that it ``knows`` will be, or gone;
    ``transmit`` sends packets; ``over`` is called when it steps down."""

    def __init__(
        self, host: Host, group: GroupId, epoch: int, forms: tuple[ProcessId, ...], parameters: Parameters,
        relays: Callable[[], Mapping[str, ProcessId]], knows: Callable[[str], bool],
        transmit: Callable[[Iterable[ProcessId], Packet], None], over: Callable[[Distributor], None],
    ) -> None:  # fmt: skip
        self.host, self.group, self.epoch, self.forms, self.parameters = host, group, epoch, forms, parameters
        self.relays, self.knows, self.transmit, self._over = relays, knows, transmit, over
        self.starting, self.stopped = True, False
        self.since = host.now
        self._ran_at = host.now  # When something was done here last
        self.listening: int | None = None  # After a stop: nothing is numbered until all have spoken since then (by the clock)
        self._silent: set[str] = set()  # Nodes that have not spoken since
        self.peers: dict[str, Peer] = {}
        self.history: dict[int, Element] = {}
        self.next = self.begin = 1
        self.oldest = 1  # All receivers have read everything before this
        self.members: dict[ProcessId, str] = {}  # Who is in the group, and on which node
        self.only_send: set[ProcessId] = set()  # Processes of the group, or about to be, that receive no messages
        self.expected: dict[ProcessId, int] = {}  # The sender's own number of the next message of each sender
        self.early: dict[ProcessId, dict[int, Element]] = {}  # Messages that cannot be numbered yet
        self.joining: dict[ProcessId, tuple[str, int, ProcessId]] = {}  # Who joins: node, life of the mailbox there, relay
        self.going: dict[ProcessId, str] = {}  # Who is no member any more, and why, and is still named in the last change
        self.first_nodes = 0  # The nodes that were there when the epoch began
        self.lost: dict[str, int] = {}  # Nodes taken for crashed, which do not know what they missed: lives of their mailboxes
        self.reported: dict[str, int] = {}  # When the last report of each node was made
        self.syncing = False
        self._told_oldest, self._ticks = 1, 0
        self._sync_last = 0  # The last number when the synchronisation phase began
        self._before = 0  # The next number, when the others were last reminded of it
        self._out: list[tuple[int, Element]] = []
        self.round = 0  # From here on: of a distributor that starts
        self.held: _Kept = {}
        self.absent: set[str] = set()  # Nodes that have no mailbox of the group
        self.needed: dict[int, str] = {}  # Numbers that are still to be loaded, and from which node
        self.fenced: dict[str, tuple[int, int]] = {}  # Nodes that have to halt: their lives, and when they were told so last
        self.host.record("elect", group, stage="start", epoch=epoch)
        self._ask_everybody()

    # --- a process that was stopped -----------------------------------------------------------------------------------

    def _look_up(self) -> None:
        """A distributor that was stopped for so long that others may have taken its node for crashed, and have another one, asks
        them first, instead of going on with what it knows or what has come meanwhile."""
        stopped = self.host.now - self._ran_at > self.parameters.node_timeout // 2
        self._ran_at = self.host.now
        if not stopped or self.stopped:
            return
        self.host.record("elect", self.group, stage="listens", epoch=self.epoch)
        if self.starting:
            self._ask_everybody()
        else:
            self.listening, self._silent = self.host.clock() + self.parameters.delta, set(self.peers)
            self._ask_silent()

    def _set_timer(self) -> None:
        """The next tick: so soon that a distributor that has nothing to do does not take itself for stopped."""
        pause = min(self.parameters.retry, self.parameters.node_timeout // 4)
        self.host.set_timer(("distributor", self.group), self.host.now + pause)

    def _ask_silent(self) -> None:
        """Who has promised a later epoch will say so."""
        self._multicast([self.peers[node].relay for node in sorted(self._silent)], self.next)

    def _hear(self, node: str) -> None:
        """A node listens to this distributor, or is gone: when there is no other one left it goes on."""
        self._silent.discard(node)
        if self.listening is not None and not self._silent:
            self.listening = None
            self._change()
            self._number_early()

    # --- starting -----------------------------------------------------------------------------------------------------

    def _ask_everybody(self) -> None:
        """A round of HIGHEST."""
        self.round += 1
        for known in (self.held, self.absent, self.needed, self.history):
            known.clear()
        self._ask_missing()

    def _ask_missing(self) -> None:
        if missing := self._unheard():
            self.transmit([relay for _, relay in missing], wire.Highest(self.group, self.epoch, self.round))
        self._set_timer()

    def _unheard(self) -> list[tuple[str, ProcessId]]:
        """Nodes that are alive and have not answered, and their relays."""
        return [
            (node, relay) for node, relay in sorted(self.relays().items())
            if node not in self.absent and (node not in self.held or self.held[node][0] != relay)
        ]  # fmt: skip

    def answered(self, source: ProcessId, held: wire.Held) -> None:
        if not self.starting or held.epoch != self.epoch or held.round != self.round or held.node not in self.relays():
            # Who counts as crashed and answers is asked when it is there again, or nobody would say that it is gone.
            return
        if not held.serves:
            self.absent.add(held.node)
        elif held.node not in self.held or self.held[held.node][0] != source:
            self.held[held.node] = (source, held)
        self._go_on()

    def _go_on(self) -> None:
        """Begins as soon as everybody has answered and everything is loaded."""
        if not self.starting or self.needed or self._waits_for_answers():
            return
        known = [held for _, held in self.held.values()]
        line = max((held.line for held in known), default=0)
        if not line:
            return self._form(known)
        kept = self._former()
        for node, (relay, held) in list(kept.items()):
            if not self._went_along(held, line):
                self._fence(relay, held.node, held.life)
                del kept[node]
        if kept:
            self._load(kept)
        else:
            # All who were in the group are gone: who wants to join goes on after them.
            self.oldest = self.begin = max(held.next for held in known)
            self._begin({})

    def _waits_for_answers(self) -> bool:
        """A new distributor waits for all nodes that are alive (erratum 14)."""
        return bool(self._unheard())

    def _went_along(self, held: wire.Held, line: int) -> bool:
        """Whether a node can go on from the latest epoch: it knows it or was there when it began, and lacks nothing lost."""
        known = [other for _, other in self.held.values()]
        oldest = max(other.oldest for other in known if other.line == line)
        if held.receives and held.acked < oldest - 1 and held.next < oldest:
            return False
        if held.line == line:
            return True
        there = max(other.nodes for other in known if other.line == line)
        return held.before >= line and bool(mask_of([held.node]) & there)

    def _form(self, known: list[wire.Held]) -> None:
        """Nobody has ever numbered anything: the group is new."""
        there = {member.process for held in known for member in held.members if member.wish == JOINS}
        waited = self.host.now - self.since >= _FORMING * self.parameters.node_timeout
        if there and (waited or there.issuperset(self.forms)):
            self.begin = self.next = self.oldest = 1
            self._begin({})

    def _load(self, kept: _Kept) -> None:
        """Which numbers are needed, and who has them."""
        base_ = self._read_by_all(kept)
        number = base_ + 1
        while number <= base_ + self.parameters.most_unread:
            holders = [node for node, (_, held) in kept.items() if held.oldest <= number < held.next or number in held.beyond]
            if not holders:
                break
            if number not in self.history:
                self.needed[number] = holders[number % len(holders)]
            number += 1
        self.oldest, self.begin = base_ + 1, number
        if self.needed:
            self._ask_for_needed()
        else:
            self._begin(kept)

    def _read_by_all(self, kept: _Kept) -> int:
        """The last number that need not be loaded: all receivers, not only all mailboxes, have it. A mailbox may crash later."""
        return max(min(held.acked for _, held in kept.values()), max(held.oldest for _, held in kept.values()) - 1)

    def _ask_for_needed(self) -> None:
        by_node: dict[str, list[int]] = {}
        for number, node in self.needed.items():
            by_node.setdefault(node, []).append(number)
        for node, numbers in by_node.items():
            if node in self.held:
                part = tuple(numbers[:_LOADED_AT_ONCE])
                self.transmit([self.held[node][0]], wire.DistLoad(self.group, self.epoch, self.round, part))

    def loaded(self, source: ProcessId, packet: wire.DistLoaded) -> None:
        if not self.starting or packet.epoch != self.epoch or packet.round != self.round:
            return
        for number, element in packet.elements:
            if self.needed.pop(number, None) is not None:
                self.history[number] = element
        if any(self.needed.get(number) == packet.node for number in packet.missing):
            # Its mailbox has crashed since it answered: what is left has to be found out anew.
            self._ask_everybody()
        elif not self.needed:
            if not self._waits_for_answers():
                self._begin({node: each for node, each in self._former().items() if node not in self.fenced})
        elif packet.elements and packet.node not in self.needed.values():
            self._ask_for_needed()

    def _former(self) -> _Kept:
        """The nodes that have answered and have members already."""
        return {node: each for node, each in self.held.items() if each[1].line and not each[1].fresh}

    def _begin(self, kept: _Kept) -> None:
        """The epoch begins."""
        self.starting, self.next = False, self.begin
        floors: dict[ProcessId, int] = {}
        for node, (relay, held) in sorted(kept.items()):
            self.peers[node] = Peer(node, relay, held.life, held.acked, min(held.next, self.begin))
            for member in held.members:
                self._note_role(member)
                floors[member.process] = max(floors.get(member.process, 0), member.floor)
                if member.entry >= self.begin:
                    # The change that let it in is void.
                    self.joining[member.process] = (node, held.life, relay)
                elif member.wish != JOINS and not 0 < member.exit < self.begin:
                    self.members[member.process] = node
        for number, element in sorted(self.history.items()):
            if element.kind == MESSAGES:
                floors[element.sender] = max(floors.get(element.sender, 0), element.number)
            else:
                self._follow(number, change_from_bytes(element.batch.body), kept)
        self._expect(floors)
        found = {"begin": self.begin, "oldest": self.oldest, "loaded": len(self.history), "nodes": sorted(self.peers)}
        self.host.record("elect", self.group, stage="begin", epoch=self.epoch, **found)
        self.first_nodes = mask_of(self.peers)
        for peer in self.peers.values():
            self._tell_where(peer)
        for _, (relay, held) in sorted(self.held.items()):
            if held.fresh or not held.line:
                self._consider(relay, held, held.members)
        if self.peers:
            self._change(always=True)
        else:
            self._begin_group()
        self.flush()
        self._tick()

    def _begin_group(self) -> None:
        """The first change names those that form the group. Processes that join it come with the next one: they get the state."""
        later = {name: how for name, how in self.joining.items() if name not in self.forms}
        if later and len(later) < len(self.joining):
            self.joining = {name: how for name, how in self.joining.items() if name in self.forms}
            self._change()
            self.joining |= later
        self._change()

    def _expect(self, floors: dict[ProcessId, int]) -> None:
        """A new distributor knows how far each sender's messages are numbered."""
        self.expected = {name: floor + 1 for name, floor in floors.items()}

    def _follow(self, number: int, change: Change, kept: _Kept) -> None:
        """A change that some nodes have not got yet."""
        lacking = {node: held for node, (_, held) in kept.items() if held.next <= number}
        for name in change.joined:
            node = node_of(self.parameters, name)
            if node in lacking and any(one.process == name for one in lacking[node].members):
                self.members[name] = node
        for name, _ in change.gone:
            if node_of(self.parameters, name) in lacking:
                self.members.pop(name, None)

    def _tell_where(self, peer: Peer, *, sync: bool = False) -> None:
        where = (self.begin, peer.start, self.next - 1, self.oldest, self.first_nodes, self.reported.get(peer.node, -1), sync)
        self.transmit([peer.relay], wire.SyncInit(self.group, self.epoch, *where))

    def _fence(self, relay: ProcessId, node: str, life: int) -> None:
        known, at = self.fenced.get(node, (-1, 0))
        if known == life and self.host.now - at < self.parameters.retry:
            return
        self.fenced[node] = (life, self.host.now)
        self.host.record("elect", self.group, stage="fence", node=node, epoch=self.epoch)
        self.transmit([relay], wire.Fence(self.group, self.epoch, node, life))

    # --- what relays say ----------------------------------------------------------------------------------------------

    def receive(self, source: ProcessId, packet: wire.Said) -> None:
        self._look_up()
        if packet.epoch > self.epoch:
            return self.step_down(packet.epoch)
        if isinstance(packet, wire.Held):
            if self.starting:
                self.answered(source, packet)
            elif packet.epoch == self.epoch and packet.node not in self.peers and packet.line and not packet.fresh:
                # It answers too late: the epoch has begun without it.
                self._from_stranger(source, packet)
            return
        if isinstance(packet, wire.DistLoaded):
            return self.loaded(source, packet)
        if self.starting:
            return self.transmit([source], wire.NotSent(self.group, self.epoch, "starting", self.epoch))
        if isinstance(packet, wire.Report):
            if packet.at <= self.reported.get(packet.node, -1):
                return
            self.reported[packet.node] = packet.at
        peer = self.peers.get(packet.node)
        if peer is not None and (packet.life > peer.life or packet.life < 0):
            # The mailbox that the node had is no more.
            self.lose(packet.node, "crashed")
            peer = None
        if peer is None:
            self._from_stranger(source, packet)
        elif packet.epoch == self.epoch:
            self._from_peer(source, peer, packet)
        elif isinstance(packet, wire.Report):
            peer.relay = source
            self._tell_where(peer)

    def _from_stranger(self, source: ProcessId, packet: wire.Said) -> None:
        """A node speaks that is not in the group: it wants to be, it was not told yet that it is not, or it went another way."""
        if isinstance(packet, wire.Report) and not packet.members:
            self._release(source)
        elif self._must_halt(packet):
            self._fence(source, packet.node, packet.life)
        elif isinstance(packet, wire.Report) and self.knows(packet.node):
            self._consider(source, packet, packet.members)
            self._change()
            self.flush()

    def _must_halt(self, packet: wire.Said) -> bool:
        """Whether a node that is not in the group was in it, and does not know what it has missed since."""
        return bool(packet.line and not packet.fresh) or packet.life <= self.lost.get(packet.node, -1)

    def _release(self, relay: ProcessId) -> None:
        """A node has no members any more."""
        self.transmit([relay], wire.NotSent(self.group, self.epoch, "released", self.epoch))

    def _from_peer(self, source: ProcessId, peer: Peer, packet: wire.Said) -> None:
        if isinstance(packet, wire.Report):
            peer.relay = source
        if self.listening is not None and packet.at >= self.listening:
            self._hear(peer.node)
        if packet.line != self.epoch:
            self._tell_where(peer)
            if not isinstance(packet, wire.Report):
                return
        else:
            self._count(peer, packet)
        if self.syncing and self._has_caught_up(packet):
            peer.up_to_date = True
            self._end_sync()
        if isinstance(packet, wire.McRequest):
            for element in packet.elements:
                self._requested(source, element)
            self._number_early()
        elif isinstance(packet, wire.RetransRequest):
            self._retransmit(source, packet.numbers)
        elif isinstance(packet, wire.Report):
            self._compare(source, peer, packet)
            if peer.node in self.peers:
                self._tell_where(peer)
        self.flush()

    def _has_caught_up(self, packet: wire.Said) -> bool:
        """In the synchronisation phase only UPTODATE marks a node as up to date (erratum 13)."""
        return isinstance(packet, wire.UpToDate) and packet.next > self._sync_last

    def _count(self, peer: Peer, packet: wire.Said) -> None:
        """UpdateAcks. An acknowledgement that comes late does not take back a later one (erratum 5)."""
        peer.acked, peer.next = max(peer.acked, packet.acked), max(peer.next, packet.next)
        self._purge()

    def _purge(self) -> None:
        oldest = min((peer.acked for peer in self.peers.values()), default=self.next - 1) + 1
        if oldest > self.oldest:
            self.oldest = oldest
            for number in [number for number in self.history if number < oldest]:
                del self.history[number]
            self._end_sync()
            self._change()
            self._number_early()

    # --- numbering ----------------------------------------------------------------------------------------------------

    def _requested(self, source: ProcessId, element: Element) -> None:
        sender, number = element.sender, element.number
        if sender not in self.members:
            return
        self.expected.setdefault(sender, number)
        if self._is_numbered(sender, number):
            history = self.history.items()
            if again := tuple(each for each in history if each[1].sender == sender and each[1].number == number):
                self.transmit([source], wire.Retrans(self.group, self.epoch, again))
            return
        early = self.early.setdefault(sender, {})
        if len(early) < self.parameters.most_unread:
            early[number] = element

    def _is_numbered(self, sender: ProcessId, number: int) -> bool:
        """A message is numbered once (erratum 1): one that comes again is answered with what it got."""
        return number < self.expected[sender]

    def _next_of(self, sender: ProcessId, early: dict[int, Element]) -> int | None:
        """Which of a sender's messages can be numbered now: they are numbered in the order in which it sent them."""
        number = self.expected.get(sender, 1)
        return number if number in early else None

    def _number_early(self) -> None:
        """Numbers what can be numbered."""
        if self.listening is not None:
            return
        for sender in list(self.early):
            early = self.early[sender]
            while early and (number := self._next_of(sender, early)) is not None:
                if not self._has_room():
                    return self._start_sync()
                element = early.pop(number)
                self.expected[sender] = max(self.expected.get(sender, 1), element.number + 1)
                self._number(element)
            if not early:
                del self.early[sender]

    def _has_room(self) -> bool:
        return len(self.history) < self.parameters.history and not self.syncing

    def _number(self, element: Element) -> None:
        """MULTICAST: with the others of this turn."""
        self.history[self.next] = element
        self._out.append((self.next, element))
        self.next += 1

    def flush(self) -> None:
        """Sends what was numbered, as many messages in a packet as fit."""
        for part in packed(self._out, self.host.max_packet):
            self._told_oldest = self.oldest
            self._multicast([peer.relay for peer in self.peers.values()], part[0][0], tuple(element for _, element in part))
        self._out.clear()

    def _multicast(self, relays: list[ProcessId], first: int, elements: tuple[Element, ...] = ()) -> None:
        self.transmit(relays, wire.Multicast(self.group, self.epoch, first, self.oldest, self.next, elements))

    def _retransmit(self, source: ProcessId, numbers: Iterable[int]) -> None:
        found = [(number, element) for number in numbers if (element := self.history.get(number)) is not None]
        for number, _ in found:
            self.host.record("retransmit", self.group, rank=number, to=source)
        for part in packed(found, self.host.max_packet):
            self.transmit([source], wire.Retrans(self.group, self.epoch, tuple(part)))

    # --- the synchronisation phase --------------------------------------------------------------------------------------

    def _start_sync(self) -> None:
        """The history is full: nothing is numbered until everybody has caught up."""
        if self.syncing:
            return
        self.flush()
        self.syncing, self._sync_last = True, self.next - 1
        self.host.record("sync", self.group, stage="begin", last=self.next - 1, oldest=self.oldest)
        for peer in self.peers.values():
            peer.up_to_date = False
            self._tell_where(peer, sync=True)

    def _end_sync(self) -> None:
        if self.syncing and all(peer.up_to_date for peer in self.peers.values()) and len(self.history) < self.parameters.history:
            self.syncing = False
            self.host.record("sync", self.group, stage="end", oldest=self.oldest)
            self._change()
            self._number_early()

    # --- members ------------------------------------------------------------------------------------------------------

    def _consider(self, source: ProcessId, said: wire.Said, members: Iterable[Local]) -> None:
        """Wishes of a node that is not in the group yet."""
        for member in members:
            if member.wish == JOINS and member.process not in self.members:
                self._note_role(member)
                self.joining[member.process] = (said.node, said.life, source)

    def _note_role(self, member: Local) -> None:
        if member.only_sends:
            self.only_send.add(member.process)

    def _compare(self, source: ProcessId, peer: Peer, report: wire.Report) -> None:
        """Compares who is connected on a node with who is a member."""
        there = {member.process: member for member in report.members}
        for name in [name for name, each in self.joining.items() if each[0] == peer.node and name not in there]:
            del self.joining[name]
        for name, node in list(self.members.items()):
            if node == peer.node and name not in there:
                self._lose_member(name, "crashed")
        for name, member in there.items():
            if member.wish == LEAVES and name in self.members:
                self._lose_member(name, "left")
            elif member.wish == JOINS and name not in self.members:
                self._note_role(member)
                self.joining[name] = (peer.node, peer.life, source)
        if there:
            return self._change()
        self.lose(peer.node, "crashed")
        self._release(source)

    def _lose_member(self, name: ProcessId, why: str) -> None:
        del self.members[name]
        self.only_send.discard(name)
        self.going[name] = why
        self.early.pop(name, None)

    def lose(self, node: str, why: str, life: int | None = None) -> None:
        """A node has crashed, or its mailbox is another one now; ``life``: mailboxes from then on are not meant."""
        self._look_up()
        peer = self.peers.get(node)
        if life is not None and peer is not None and peer.life >= life:
            return
        self.held.pop(node, None)
        self.absent.discard(node)
        if peer is not None:
            del self.peers[node]
            if why == "node crashed":
                self.lost[node] = peer.life
            for name in [name for name, where in self.members.items() if where == node]:
                self._lose_member(name, why)
        for name in [name for name, each in self.joining.items() if each[0] == node and (life is None or each[1] < life)]:
            del self.joining[name]
        if self.starting:
            return self._ask_everybody() if node in self.needed.values() else self._go_on()
        self._hear(node)
        self._purge()
        self._end_sync()
        self._change()
        self.flush()

    def estranged(self, node: str, relay: ProcessId) -> None:
        """A node that was taken for crashed takes itself for a part of the group, and has nothing to say: it is told."""
        if node in self.lost and node not in self.peers and not self.starting:
            self._fence(relay, node, self.lost[node])

    def replace(self, node: str, relay: ProcessId) -> None:
        """A node has another relay, which will report."""
        self._look_up()
        if self.starting and node in self.needed.values():
            self._ask_everybody()
        elif self.starting:
            self._ask_missing()
        elif node in self.peers:
            self.peers[node].relay = relay
            self._tell_where(self.peers[node])

    def _change(self, *, always: bool = False) -> None:
        """Numbers a change, if there is one to make and room for it."""
        if not always and (not (self.joining or self.going) or not self._has_room() or self.listening is not None):
            return
        joined = tuple(sorted(self.joining))
        for name, (node, life, relay) in sorted(self.joining.items()):
            self.members[name] = node
            self.expected.setdefault(name, 1)
            peer = self.peers.get(node)
            if peer is None:
                start = self._first_for_joiner()
                peer = self.peers[node] = Peer(node, relay, life, start - 1, start, start)
                self._tell_where(peer)
        gone = tuple(sorted(self.going.items()))
        members = tuple(sorted(name for name in self.members if name not in self.only_send))
        self.joining.clear()
        self.going.clear()
        self._number(Element("", 0, CHANGE, Batch(0, 0, change_to_bytes(Change(members, joined, gone)))))
        change = {"members": len(members), "joined": list(joined), "gone": dict(gone)}
        self.host.record("state", self.group, state="change", rank=self.next - 1, **change)

    def _first_for_joiner(self) -> int:
        """A node that joins gets everything that some receiver has not read, so that a receiver of a number has all before it."""
        return self.oldest

    # --- time ---------------------------------------------------------------------------------------------------------

    def expire(self) -> None:
        if self.stopped:
            return
        self._look_up()
        if not self.starting:
            return self._tick()
        if self.needed:
            self._ask_for_needed()
        else:
            self._go_on()
        if self.starting:
            self._ask_missing()

    def _tick(self) -> None:
        """Repeats what others may have missed."""
        self._repeat_last()
        for peer in self.peers.values():
            if self.syncing and not peer.up_to_date:
                self._tell_where(peer, sync=True)
        if self._silent:
            self._ask_silent()
        self._set_timer()

    def _repeat_last(self) -> None:
        """The distributor repeats its last number until every node has it."""
        self._ticks += 1
        lagging = [peer.relay for peer in self.peers.values() if peer.next < self._before]
        if not self._ticks % _ASKED_AGAIN:
            lagging = [peer.relay for peer in self.peers.values() if peer.acked < self._before - 1]
        if lagging:
            self._multicast(lagging, self.next)
        others = [peer.relay for peer in self.peers.values() if peer.relay not in lagging]
        if self.oldest > self._told_oldest and others:
            self._multicast(others, 0)
        self._told_oldest, self._before = self.oldest, self.next

    def step_down(self, epoch: int) -> None:
        """There is a later epoch."""
        if not self.stopped:
            self.stopped = True
            self.host.cancel_timer(("distributor", self.group))
            self.host.record("elect", self.group, stage="steps down", epoch=self.epoch, later=epoch)
            self._over(self)

    def waiting(self) -> Reason | None:
        if self.stopped:
            return None
        if self.starting:
            return Reason("starting", f"{self.host.me} is about to distribute {self.group}")
        if self.listening is not None:
            return Reason("listening", f"{self.host.me} was stopped, and asks whether {self.group} has another distributor")
        if self.early or self.joining or self.going:
            return Reason("unnumbered", f"{self.host.me} has messages or changes of {self.group} to number")
        for peer in self.peers.values():
            if peer.next < self.next or peer.acked < self.next - 1:
                return Reason("unacknowledged", f"{peer.node} has not acknowledged all of {self.group}")
        return None
