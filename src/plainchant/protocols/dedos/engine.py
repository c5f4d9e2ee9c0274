"""The engine of ``dedos`` over nodes: one process, with whatever it is: member, relay of its node, distributor.

Theory of operation
-------------------
Every process takes a seat at its node's mailbox (:data:`SEATS`), and stamps its presence there (:mod:`.presence`). The networked
process that has had its seat longest is the relay of the node, for all groups that have a mailbox here. A process that crashes or
hangs loses its seat for good, so the relay after it has a higher seat number. That number is the relay's fencing token: a relay
that was stopped and goes on finds the token of a later one in every box. After a stop of ``silence`` it also sends no packets
before it has looked at its seat. A node without networked processes counts as crashed, and its processes halt.

The relay hosts the distributors of groups that were assigned to its node. A relay that starts a distributor, because a group is
formed or the distributor is lost, takes the node with the fewest (``load``); if several start one, the later epoch wins."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping
from functools import partial
from typing import Any, Final, TypeAlias

from ...core.engine import Engine, Host
from ...core.memory import FAILED, Connect, Connection, Copy, Directory, Disconnect, Layout, Nap, Port, Procedure, Request
from ...core.model import Failure, Form, GroupId, Join, Met, Packet, Pressure, ProcessId, Propose, ProtocolError, Reason, Timer
from . import box as boxes
from . import packets as wire
from .box import SEATS, Box
from .distributor import Distributor
from .member import Member
from .nodes import Appeared, Formed, Gone, Nodes, NodesEvent, Replaced, Returned
from .nodes_packets import Claim
from .packets import count_of, epoch_of, is_epoch_of
from .parameters import Parameters
from .places import is_networked, node_of
from .ports import Ports
from .presence import Presence
from .relay import Relay

_ForRelay: TypeAlias = wire.Highest | wire.DistLoad | wire.SyncInit | wire.Multicast | wire.Retrans | wire.Fence
FARTHEST: Final = 1 << 16  # A group has not had so many more distributors than this node knows of
MOST_DISTRIBUTORS: Final = 1024  # Groups that a process distributes, at the most


class Dedos(Engine):
    """One process, in all its groups."""

    def __init__(self, host: Host, parameters: Parameters) -> None:
        self.host, self.parameters = host, parameters
        self.node, self.networked = node_of(parameters, host.me), is_networked(parameters, host.me)
        self.members: dict[GroupId, Member] = {}
        self.relays: dict[GroupId, Relay] = {}
        self.distributors: dict[GroupId, Distributor] = {}
        self.failed: dict[ProcessId, None] = {}  # Processes of this node that have crashed
        self.place, self.life = -1, 0
        self.relay: ProcessId = ""  # The relay of this node; empty: it is not known yet
        self.local: tuple[ProcessId, ...] = ()  # The networked processes of this node, in the order of their seats
        self.seats = Box(host, SEATS, parameters)  # Where the processes of this node stamp their presence
        self.presence = Presence(parameters)
        self.seat = 0  # This process's number among all that have taken a seat: its fencing token as a relay
        self.stamped = 0  # This process has stamped its presence after this time (``host.now``); 0: never
        self.silent: tuple[ProcessId, ...] = ()  # Processes that have lost their seats, when this process last looked
        self.cleared: set[GroupId] = set()  # Groups that this process has served until they had no member here
        self._freed = 0  # When the places of processes that have failed were last freed
        self._failures = False  # Whether processes have failed since
        self.ports = Ports(host, parameters)
        self.nodes = Nodes(host, self.node, parameters, self._nodes_changed, self._claims, self._load)
        self.nodes.learn(parameters.networked)
        self.wished: dict[GroupId, tuple[ProcessId, ...]] = {}  # Groups that somebody on this node forms, and with whom
        self.forming: dict[GroupId, frozenset[str]] = {}  # The nodes of those
        self.lost: dict[GroupId, int] = {}  # Groups without a distributor, as far as this relay knows, and since when
        self.tried: dict[GroupId, tuple[int, ProcessId]] = {}  # When this relay has started a distributor, and whom
        self.refused: dict[GroupId, int] = {}  # The latest epoch that somebody else has promised

    # --- the node -----------------------------------------------------------------------------------------------------

    def start(self) -> None:
        self.host.spawn("watch", self.seats.run(self._watch()))

    def _watch(self) -> Procedure:
        """Takes a seat, and sees to it that the node has a relay that serves all its mailboxes."""
        parameters = self.parameters
        port = yield Connect(SEATS, Layout(parameters.boxes, parameters.places, 1, 64))
        if not isinstance(port, Port):
            self.host.halt(Reason("no seat", port))
            return
        self.place, self.life = port.place, port.epoch
        self.seats.place = port.place
        yield from self._take_seat()
        looked = self.host.now
        while self.place >= 0 and self.seats.active >= 0:
            if self.host.now - looked > parameters.present_every + parameters.poll:
                self.nodes.listen_anew()
            looked = self.host.now
            yield from self._look_once()
            if self.place < 0:
                return
            yield self.seats.nap(parameters.poll)

    def _take_seat(self) -> Generator[Request, Any, None]:
        """Gets a number larger than that of every process seated before; it is seated when the number is in all live boxes."""
        box, me = self.seats, self.host.me

        def sit(copy: Copy, *, number: int) -> int:
            header = copy.header()
            if number and any(other.entry == number and other.process != me for _, other in copy.connections()):
                return 0
            number = number or header.next
            copy.put_header(boxes.changed(header, next=max(header.next, number + 1)))
            copy.connect(box.place, Connection(me, number))
            return number

        while (active := box.active) >= 0:
            # The active box gives the number, and the spare boxes take it over.
            number = yield from box.on_active("seat", partial(sit, number=0))
            if number is FAILED:
                continue
            self.seat = number
            taken = []
            for copy in [spare for spare in box.spares_first() if spare != active]:
                taken.append((yield box.operate(copy, "seat", partial(sit, number=number))))
                if taken[-1] is FAILED:
                    box.found_dead(copy)
            if 0 not in taken:
                break
            # The active box crashed meanwhile, and the next one has given the number to another process.
        box.listed.update(copy for copy in range(box.copies) if copy not in box.dead)

    def _look_once(self) -> Procedure:
        """Stamps this process's presence, excludes processes that are silent, and acts upon what has changed on the node."""
        directory = yield Directory()
        box = self.seats
        seats: Any = FAILED
        while seats is FAILED:
            asked, copy = self.host.now, box.active
            if self.place < 0 or copy < 0 or not box.listed:
                return
            seats = yield box.operate(copy, "stamp", self._stamp)
            if seats is FAILED and self.place >= 0:
                box.found_dead(copy)
        if self.place < 0:
            return
        self.stamped = asked
        yield from self._exclude(seats)
        yield from self._free_places(directory)
        if self.place >= 0:
            self._look_round(directory, seats)
            self._tend()

    def _stamp(self, copy: Copy) -> tuple[ProcessId, ...]:
        """Who has a seat, in the order of the seats. Who has failed or is silent loses it."""
        self._mark_failed(copy)
        self.presence.attend(copy, self.place, self.host.now)
        seats = sorted((connection.entry, connection.process) for _, connection in copy.connections() if not connection.gone)
        self.silent = tuple(connection.process for _, connection in copy.connections() if connection.gone)
        return tuple(name for _, name in seats)

    def _mark_failed(self, copy: Copy) -> None:
        for place, connection in tuple(copy.connections()):
            if connection.process in self.failed and not connection.gone:
                copy.connect(place, boxes.changed(connection, gone=True))

    def _exclude(self, seats: tuple[ProcessId, ...]) -> Generator[Request, Any, None]:
        """Goes on without processes that have lost their seats: a spare box that becomes active knows it, too."""
        excluded = [process for process in self.silent if process not in self.failed]
        for process in excluded:
            if self.presence.saw_silence(process, self.host.now):
                self.host.record("suspect", None, process=process, **self.presence.why(process).to_detail())
            self._fail(process)
        if excluded:
            yield from self.seats.on_each("exclude", self._mark_failed)

    def _free_places(self, directory: Mapping[str, tuple[ProcessId, ...]]) -> Generator[Request, Any, None]:
        """Frees the places of processes that have failed. A live mailbox server does so only when they have ended."""
        if self.host.now - self._freed < self.parameters.present_every and not self._failures:
            return
        self._freed, self._failures = self.host.now, False
        for mailbox, there in directory.items():
            relay = self.relays.get(mailbox)
            for process in there:
                is_deleted = process in relay.deleted if relay is not None else mailbox == SEATS or mailbox in self.cleared
                if process in self.failed and is_deleted:
                    yield Disconnect(mailbox, -1, process)

    def _look_round(self, directory: Mapping[str, tuple[ProcessId, ...]], seats: tuple[ProcessId, ...]) -> None:
        seats = tuple(name for name in seats if name not in self.failed)
        local = tuple(name for name in seats if is_networked(self.parameters, name))
        relay = local[0] if local else ""
        if not relay and self.relay:
            text = f"{self.node} has no networked process any more: it counts as crashed"
            self.host.halt(Reason("node crashed", text, {"node": self.node}))
            return
        if self.networked and relay and (relay, local) != (self.relay, self.local):
            if self.relay:
                self.nodes.local(relay, local)
            else:
                self.nodes.start(self.life, relay, local)
        if relay != self.relay:
            self.host.record("state", None, state="relay", relay=relay, node=self.node)
        self.relay, self.local = relay, local
        if relay != self.host.me:
            return
        for group, there in directory.items():
            is_cleared = group in self.cleared and all(name in self.failed for name in there)
            if group != SEATS and there and not is_cleared:
                self._serve(group)
                for name in there:
                    if name not in directory[SEATS]:  # It has ended in good order.
                        self.relays[group].fail(name)

    def _serve(self, group: GroupId) -> None:
        if group in self.relays:
            return
        self.cleared.discard(group)
        relay = Relay(self.host, group, self.node, self.parameters, self._transmit, self._emptied)
        self.relays[group] = relay
        self.host.spawn("relay", relay.serve(self.ports, self.seat))
        for process in self.failed:
            relay.fail(process)
        claim = self._claim_of(group)
        if claim is not None and group not in self.distributors:
            relay.distributor = claim.distributor

    def _emptied(self, relay: Relay) -> None:
        """The group has no member on this node any more."""
        if self.relays.get(relay.group) is relay:
            del self.relays[relay.group]
            self.wished.pop(relay.group, None)
            self.cleared.add(relay.group)

    # --- coming and going ---------------------------------------------------------------------------------------------

    def join(self, group: GroupId, how: Form | Join | Propose) -> None:
        if isinstance(how, Propose):
            raise ProtocolError("dedos has no proposed groups")
        if group in self.members:
            raise ProtocolError(f"{self.host.me} joins {group!r} a second time; leave it first")
        member = self.members[group] = Member(self.host, group, self.parameters, self.ports, self._wish, self._departed)
        if self.networked:
            self.nodes.learn(how.members if isinstance(how, Form) else how.contacts)
        self.host.spawn("member", member.box.run(member.enter(how)))

    def leave(self, group: GroupId) -> None:
        self.members[group].leave()

    def _wish(self, member: Member) -> None:
        """A member wishes something, which the relay has to know."""
        if self.relay == self.host.me:
            self._wished(member.group, member.forms, member.contacts)
        elif self.relay:
            self.host.send((self.relay,), wire.Wish(member.group, self.host.me, member.forms, member.contacts))

    def _wished(self, group: GroupId, forms: tuple[ProcessId, ...], contacts: tuple[ProcessId, ...]) -> None:
        self.nodes.learn((*forms, *contacts))
        if forms and group not in self.wished:
            self.wished[group] = forms
            self.forming[group] = frozenset(node_of(self.parameters, name) for name in forms)
        if self.relay == self.host.me:
            self._serve(group)

    def _departed(self, member: Member) -> Generator[Request, Any, None]:
        """A member has left; if it was in no other group its process is about to end."""
        del self.members[member.group]
        if not self.members:
            self.relay, place, self.place = "", self.place, -1
            for relay in self.relays.values():
                relay.stopped = True
            while self.relays:
                yield Nap(self.host.clock() + self.parameters.operation)
            self.seats.listed.clear()
            yield from self.seats.on_each("unseat", partial(boxes.delete, process=self.host.me))
            yield Disconnect(SEATS, place, self.host.me)

    # --- what comes in ------------------------------------------------------------------------------------------------

    def ready(self, group: GroupId) -> None:
        if (member := self.members.get(group)) is not None:
            member.send()

    @property
    def _is_stale(self) -> bool:
        """Whether this process was stopped for so long that its node may have excluded it. Until it has looked, it says nothing
        to others: another process may be the relay, and know better."""
        return self.place >= 0 and bool(self.stamped) and self.host.now - self.stamped >= self.parameters.longest_silence

    def receive(self, source: ProcessId, packet: Packet) -> None:
        if self._is_stale or self.nodes.receive(source, packet):
            return
        if isinstance(packet, wire.Wish):
            if source == packet.process and node_of(self.parameters, source) == self.node:
                self._wished(packet.group, packet.forms, packet.contacts)
            return
        if self.node not in self.nodes.alive or not self.nodes.is_listed(source):
            return  # of a node that is not there, as far as is known here: who is will say it again
        if isinstance(packet, wire.Outcast):
            if packet.node == self.node and packet.life == self.nodes.alive[self.node].life and self.relay == self.host.me:
                self.host.record("state", None, state="outcast", node=self.node)
                self.nodes.begin_anew(max(packet.life + 1, self.host.clock()))
        elif isinstance(packet, wire.Said):
            distributor = self.distributors.get(packet.group)
            speaks_for = packet.node == node_of(self.parameters, source)
            if distributor is not None and speaks_for and self._is_near(packet.group, packet.epoch):
                distributor.receive(source, packet)
        elif isinstance(packet, wire.StartDist):
            self._start_distributor(source, packet)
        elif isinstance(packet, wire.NotSent):
            self._not_sent(source, packet)
        elif isinstance(packet, _ForRelay):
            self._for_relay(source, packet)

    def _for_relay(self, source: ProcessId, packet: _ForRelay) -> None:
        if not is_epoch_of(packet.epoch, source) or not self._is_near(packet.group, packet.epoch):
            return  # an epoch is its distributor's
        relay = self.relays.get(packet.group)
        if relay is None:
            said = (packet.group, packet.epoch, self.host.clock(), self.node, -1, 0, True, 0, 1)
            if isinstance(packet, wire.Highest) and self.relay == self.host.me:
                self._transmit((source,), wire.Held(*said, packet.round, False, 0, 1, (), (), 0, False))
            elif isinstance(packet, wire.Multicast | wire.SyncInit) and self.relay == self.host.me:
                self._transmit((source,), wire.Report(*said, ()))
        elif isinstance(packet, wire.Highest):
            relay.highest(source, packet)
            self._step_down(packet.group, relay.promised)
        elif isinstance(packet, wire.DistLoad):
            relay.load(source, packet)
        elif isinstance(packet, wire.SyncInit):
            relay.synchronise(source, packet)
        elif isinstance(packet, wire.Multicast):
            relay.multicast(source, packet)
        elif isinstance(packet, wire.Retrans):
            relay.retransmitted(source, packet)
        elif packet.node == self.node and packet.life == relay.box.life and packet.epoch >= relay.promised:
            relay.fence(packet.epoch)
            self._step_down(packet.group, packet.epoch)

    def _step_down(self, group: GroupId, epoch: int) -> None:
        """There is a later epoch."""
        distributor = self.distributors.get(group)
        if distributor is not None and distributor.epoch < epoch:
            distributor.step_down(epoch)

    def _not_sent(self, source: ProcessId, packet: wire.NotSent) -> None:
        relay = self.relays.get(packet.group)
        if packet.why == "promised":
            if (relay is None and packet.group not in self.distributors) or not self._is_near(packet.group, packet.promised):
                return
            self.refused[packet.group] = max(self.refused.get(packet.group, 0), packet.promised)
            distributor = self.distributors.get(packet.group)
            if distributor is not None and distributor.epoch == packet.epoch < packet.promised:
                distributor.step_down(packet.promised)
        elif relay is not None and source == relay.distributor:
            relay.heard()
            if packet.why == "released":
                relay.released()

    def _is_near(self, group: GroupId, epoch: int) -> bool:
        """Whether a group can have had as many distributors as an epoch says."""
        relay, distributor = self.relays.get(group), self.distributors.get(group)
        known = max(self.refused.get(group, 0), relay.promised if relay else 0, distributor.epoch if distributor else 0)
        return 0 <= count_of(epoch) <= count_of(known) + FARTHEST

    def expire(self, timer: Timer) -> None:
        if self._is_stale:
            self.host.set_timer(timer, self.host.now + self.parameters.poll)
            return
        if not self.nodes.expire(timer):
            assert isinstance(timer, tuple), timer
            if (distributor := self.distributors.get(timer[1])) is not None:
                distributor.expire()

    def notice(self, event: Any) -> None:
        if isinstance(event, Pressure):
            if (member := self.members.get(event.group)) is not None:
                member.pressed = event.full
        elif isinstance(event, Met):
            if self.networked:
                self.nodes.learn((event.process,))
        elif isinstance(event, Failure) and event.process != self.host.me:
            if event.process in self.failed:
                self._failures = True  # It was excluded, and has ended now: its places can be freed.
            else:
                self._fail(event.process)
            if self.relay:
                self.host.spawn("look", self.seats.run(self._look_once()))

    def _fail(self, process: ProcessId) -> None:
        """A process of this node has crashed, or was excluded."""
        self.failed[process], self._failures = None, True
        for relay in list(self.relays.values()):
            relay.fail(process)

    # --- nodes --------------------------------------------------------------------------------------------------------

    def _transmit(self, to: Iterable[ProcessId], packet: Packet) -> None:
        names = tuple(name for name in to if name)
        if names and not self._is_stale:
            self.host.send(names, packet, self.nodes.lan())

    def _relays_alive(self) -> dict[str, ProcessId]:
        """The relays of all nodes that are alive, this one included."""
        return {node: state.relay for node, state in self.nodes.alive.items()} | {self.node: self.relay}

    def _claims(self) -> tuple[Claim, ...]:
        relays = sorted(self.relays.items())
        return tuple(Claim(name, each.promised, each.distributor) for name, each in relays if each.promised and each.epoch)

    def _load(self) -> int:
        return len(self.distributors)

    def _nodes_changed(self, event: NodesEvent) -> None:
        if isinstance(event, Gone):
            for distributor in list(self.distributors.values()):
                distributor.lose(event.node, "node crashed", event.until)
        elif isinstance(event, Replaced):
            for distributor in list(self.distributors.values()):
                distributor.replace(event.state.node, event.state.relay)
        elif isinstance(event, Returned):
            if self.relay == self.host.me:
                self._transmit((event.state.relay,), wire.Outcast(event.state.node, event.state.life))
        elif isinstance(event, Formed):
            for distributor in list(self.distributors.values()):
                if distributor.starting:
                    distributor.expire()
        if not isinstance(event, Appeared):
            self._tend()

    # --- distributors -------------------------------------------------------------------------------------------------

    def _tend(self) -> None:
        """Sees to it that every group on this node has a distributor."""
        if self.relay != self.host.me or not self.nodes.identity:
            return
        for node, state in self.nodes.alive.items():
            for claim in state.claims:
                if claim.group in self.distributors and self.distributors[claim.group].epoch == claim.epoch:
                    self.distributors[claim.group].estranged(node, state.relay)
        for group, relay in sorted(self.relays.items()):
            if relay.stopped or not relay.ready:
                continue
            why = self._why_lost(group, relay)
            if not why:
                self.lost.pop(group, None)
                self.tried.pop(group, None)
            elif why == "new" or self.nodes.knows_all:
                self.lost.setdefault(group, self.host.now)
                self._replace_distributor(group, relay, why)

    def _why_lost(self, group: GroupId, relay: Relay) -> str:
        """Why a group has no distributor; empty: it has one."""
        claim = self._claim_of(group)
        if claim is not None and (claim.epoch > relay.promised or not relay.distributor) and self._is_there(claim.distributor):
            # Somebody listens to a later one: this relay asks to be told where it stands.
            if relay.distributor != claim.distributor or self.host.now - relay.heard_at > self.parameters.retry:
                relay.distributor, relay.heard_at = claim.distributor, self.host.now
                relay.report()
            return ""
        if claim is not None and claim.epoch > relay.promised and self.nodes.will_be(claim.distributor):
            return ""
        if not relay.distributor:
            return "unknown" if relay.epoch else "new" if group in self.wished else ""
        silent = self.host.now - relay.heard_at
        is_known = self.nodes.state_of(relay.distributor) is not None
        if not self._is_there(relay.distributor) and (is_known or silent > self.parameters.node_timeout // 2):
            return "gone"
        if relay.unanswered_since and self.host.now - relay.unanswered_since > self.parameters.node_timeout:
            return "silent"
        return "silent" if relay.epoch != relay.promised and silent > self.parameters.node_timeout else ""

    def _claim_of(self, group: GroupId) -> Claim | None:
        """Who distributes in a group, as far as any node has said that can be right."""
        claim = self.nodes.claim_of(group)
        if claim is None or not is_epoch_of(claim.epoch, claim.distributor) or not self._is_near(group, claim.epoch):
            return None
        return claim

    def _is_there(self, distributor: ProcessId) -> bool:
        """Whether a process can be a distributor now: it is the relay of a node that is alive."""
        return distributor == self.host.me or self._relays_alive().get(node_of(self.parameters, distributor)) == distributor

    def _replace_distributor(self, group: GroupId, relay: Relay, why: str) -> None:
        """Starts a distributor, if it is this node's turn: that of the first at once, of the others later."""
        forms = self.wished.get(group, ())
        if why == "new":
            wanted, there = self.forming[group], self.nodes.alive.keys() | {self.node}
            nodes = sorted(wanted & there)
            if not wanted <= there and self.host.now - self.lost[group] < self.parameters.node_timeout:
                return
        else:
            nodes = sorted(self._claiming(group) & self._relays_alive().keys())
        turn = nodes.index(self.node) if self.node in nodes else len(nodes)
        if self.host.now < self.lost[group] + turn * (self.parameters.retry + 2 * self.parameters.delta):
            return
        tried_at, tried = self.tried.get(group, (-(1 << 62), ""))
        if self.host.now - tried_at < self.parameters.node_timeout and (not tried or self._is_there(tried)):
            return
        chosen = self._choose(group, relay, tried)
        claim = self._claim_of(group)
        seen = max(relay.promised, self.refused.get(group, 0), 0 if claim is None else claim.epoch)
        epoch = epoch_of(count_of(seen) + 1, chosen)
        self.tried[group] = (self.host.now, chosen)
        relay.heard()
        self.host.record("elect", group, stage="call", epoch=epoch, distributor=chosen, reason=why)
        self._transmit((chosen,), wire.StartDist(group, epoch, forms))

    def _claiming(self, group: GroupId) -> set[str]:
        """The nodes that have members of a group, this one included."""
        alive = self.nodes.alive.items()
        return {self.node} | {node for node, state in alive if any(claim.group == group for claim in state.claims)}

    def _choose(self, group: GroupId, relay: Relay, tried: ProcessId) -> ProcessId:
        """NextDist: the relay of the node with the least to do, of those that have members of the group if there are any."""
        lost = {relay.distributor, tried}
        here = self._claiming(group) | self.forming.get(group, frozenset())
        loads = {node: state.load for node, state in self.nodes.alive.items()} | {self.node: self._load()}
        for other, (_, called) in self.tried.items():
            node = node_of(self.parameters, called)
            if other != group and node in loads:
                loads[node] += 1
        alive = self._relays_alive()
        candidates = [node for node in alive if node in here and alive[node] not in lost] or [self.node]
        return alive[min(candidates, key=lambda node: (loads.get(node, 0), node))]

    def _start_distributor(self, source: ProcessId, packet: wire.StartDist) -> None:
        if self.relay != self.host.me or not is_epoch_of(packet.epoch, self.host.me):
            return
        if not self._is_near(packet.group, packet.epoch) or len(self.distributors) >= MOST_DISTRIBUTORS:
            return
        current, relay = self.distributors.get(packet.group), self.relays.get(packet.group)
        if count_of(packet.epoch) > 1 and not self.nodes.knows_all:
            return
        if (current is not None and current.epoch >= packet.epoch) or (relay is not None and relay.promised >= packet.epoch):
            return
        self._step_down(packet.group, packet.epoch)
        asks = (self._relays_alive, self.nodes.knows, self._transmit, self._stepped_down)
        self.distributors[packet.group] = Distributor(self.host, packet.group, packet.epoch, packet.forms, self.parameters, *asks)

    def _stepped_down(self, distributor: Distributor) -> None:
        if self.distributors.get(distributor.group) is distributor:
            del self.distributors[distributor.group]

    # --- what is left to do -------------------------------------------------------------------------------------------

    def waiting(self) -> Reason | None:
        everything: tuple[Mapping[GroupId, Member | Relay | Distributor], ...] = (self.members, self.relays, self.distributors)
        for known in everything:
            for _, part in sorted(known.items()):
                if (reason := part.waiting()) is not None:
                    return reason
        return self.nodes.waiting() if self.relay == self.host.me else None
