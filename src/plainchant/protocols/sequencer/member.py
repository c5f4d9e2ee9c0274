"""A member of a group: sends through the sequencer, receives in order, and may become the sequencer.

A member hands its batches to the sequencer as numbered requests (:mod:`.requests`). It accepts broadcasts without gaps, buffers
what is ahead, asks for what is missing (:mod:`.gaps`), and delivers. It listens to at most one epoch, ``listening``: during an
election, and before it is a member, to none. Its state is its :class:`~.standing.Standing`; this module is how it reacts.

A member that is the sequencer has an :class:`~.office.Office`, which numbers, keeps acknowledgements, empties the history and
changes the view. A member that calls an election has an :class:`~.election.Election`. These parts do not know the member: they
return what they decided, or are given the functions that they call.

Two numbers govern delivery: ``log.contiguous`` (what is here without a gap) and ``allowed`` (what the sequencer permits).
Messages need permission only with ``resilience`` > 0, views always: a view takes effect when a majority of the view before it
has it, so that two views can never both follow the same one."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final

from ...core.engine import Engine, Host
from ...core.model import Form, GroupId, Join, Packet, Pressure, ProcessId, Propose, ProtocolError, Reason, Timer, View
from . import packets
from .calling import Calling
from .door import LEFT, Door
from .election import Election, Rebuild, give
from .gaps import Gaps
from .office import Ending, Office
from .parameters import Parameters
from .pause import Pause
from .phases import Phases
from .requests import Requests
from .standing import NO_EPOCH, Standing

NONE: Final[frozenset[ProcessId]] = frozenset()


class Member(Engine, Standing):
    """One process's part in one group."""

    __slots__ = (  # see Standing
        "_deliver", "_handlers", "_immediate", "_interval", "calling", "door", "election", "gaps", "joined_later", "office",
        "phases", "rebuild", "requests",
    )  # fmt: skip

    def __init__(self, host: Host, group: GroupId, parameters: Parameters) -> None:
        Standing.__init__(self, host, group, parameters)
        self._deliver = host.deliver
        self.office: Office | None = None
        self.election: Election | None = None
        self.rebuild: Rebuild | None = None
        self.requests = Requests(self)
        self.gaps = Gaps(self)
        self.calling = Calling(self)
        self.door = Door(self, self.finish, self._be_let_in)
        self.phases = Phases(self, self.gaps, self._hears, partial(self.ready, group))
        self.joined_later = False
        self._interval = parameters.acknowledgement_interval
        self._immediate = parameters.resilience == 0
        self._handlers: dict[type[Packet], Callable[[ProcessId, Any], None]] = {
            packets.Broadcast: self._on_broadcast,
            packets.Request: self._to_office,
            packets.Ack: self._to_office,
            packets.Nack: self._to_office,
            packets.AckCommit: self._to_office,
            packets.AskLeave: self._to_office,
            packets.Announce: self._on_announce,
            packets.Phase1: self.phases.on_phase1,
            packets.Phase2: self.phases.on_phase2,
            packets.AskJoin: self._on_ask_join,
            packets.Where: self.door.on_where,
            packets.Welcome: self.door.on_welcome,
            packets.Excluded: self.door.on_excluded,
            packets.Stale: self._on_stale,
            packets.Invite: self._on_invite,
            packets.Promise: self._to_election,
            packets.Refuse: self._to_election,
            packets.Elected: self._on_elected,
            packets.Fetch: self._on_fetch,
            packets.Held: self._to_rebuild,
            packets.Lacks: self._to_rebuild,
            packets.Ask: self._on_ask,
        }

    # --- what the host calls ----------------------------------------------------------------------------------------

    def join(self, group: GroupId, how: Form | Join | Propose) -> None:
        if isinstance(how, Form):
            self._form(how.members)
        elif isinstance(how, Join):
            self.joined_later = True
            self.door.ask_to_join(how.contacts)
        else:
            raise ProtocolError(f"{self.me} cannot propose {group!r}: all first members of a group form it together")
        self.watch.begin(presides=self.presides)

    def _form(self, members: tuple[ProcessId, ...]) -> None:
        """All members start with the same first view and epoch; the first of them is the sequencer."""
        first = packets.Change(1, members, members, (), 0)
        self.epoch = self.promised = self.listening = 1
        self.base = NO_EPOCH
        self.voters = members
        self.sequencer = members[0]
        self.log.newest = self.view = first
        self.host.install(View(self.group, 1, members, joined=members, rank=0))
        self._choose_interval()
        if self.sequencer == self.me:
            self._open_office(self.parameters.patience - self.parameters.suspect_after)  # nothing is known of the network yet

    def leave(self, group: GroupId) -> None:
        self.leaving = True
        self._go_on_leaving()

    def ready(self, group: GroupId) -> None:
        office = self.office
        if office is not None:
            office.pump()
        elif not self.leaving:
            self.requests.pump()

    def notice(self, event: Any) -> None:
        if not isinstance(event, Pressure) or self.done or event.full == (self.room.upto is not None):
            return
        if event.full:
            self.room.fill(self.host.now)
            reason = Reason("full", f"the application of {self.me} has no room for more", {"after": self.room.upto})
            self.host.record("block", self.group, **reason.to_detail())
            return
        behind = self.room.clear()
        self.host.record("unblock", self.group, process=self.me, behind=behind)
        if self.office is not None:
            self.office.resume()
        elif behind and self.follows:
            self.acknowledge("room")

    def receive(self, source: ProcessId, packet: Packet) -> None:
        self._handlers[packet.__class__](source, packet)

    def expire(self, timer: Timer) -> None:
        if self.done:
            return
        if timer == "tick":
            self._tick()
        elif timer == "retry":
            self.requests.expire()
        elif timer == "nack":
            reason = self.gaps.expire()
            if reason is not None:
                self._suspect_sequencer(reason)
            self.gaps.ask()
        elif timer == "sync":
            if self.office is not None:
                self.office.full_for_long()
        elif timer == "ask":
            if self.office is not None:
                self.office.ask()
        elif timer == "election":
            self._election_timer()
        else:
            raise ProtocolError(f"the sequencer protocol has no timer {timer!r}")

    def waiting(self) -> Reason | None:
        if self.done:
            return None
        if self.view is not None and (self.election is not None or self.listening == NO_EPOCH):
            return Reason("election", f"{self.me} waits for a new sequencer after epoch {self.epoch}")
        own = self.unfinished(min(self.requests.outstanding, default=0))
        return self.office.waiting() if own is None and self.office is not None else own

    def finish(self) -> None:
        """This member has nothing more to do."""
        self.done = True
        self._handlers = dict.fromkeys(self._handlers, self._ignore)
        self.office = self.election = self.rebuild = None
        self.presides = False
        self.listening = NO_EPOCH
        for timer in ("tick", "retry", "nack", "sync", "ask", "election"):
            self.host.cancel_timer(timer)

    def _ignore(self, source: ProcessId, packet: Packet) -> None:
        """What reaches a member that is done."""

    def _halt(self, reason: Reason) -> None:
        self.finish()
        self.host.halt(reason)

    def _be_let_in(self, sequencer: ProcessId, welcome: packets.Welcome) -> None:
        """The log begins with the view that lets us in; it takes effect like any view."""
        self.epoch = self.promised = self.listening = welcome.epoch
        self.base, self.voters, self.sequencer = welcome.base, welcome.voters, sequencer
        self.allowed = welcome.allowed
        self.pause = Pause()
        self.gaps.reset()
        self.room.start_anew()
        self.watch.heard = True
        self._deliver_ready()
        if self.log.contiguous < self.log.highest:
            self.gaps.check()

    # --- the clock's tick, and leaving ------------------------------------------------------------------------------

    def _tick(self) -> None:
        stopped = self.watch.was_stopped()
        if self.office is not None:
            ending = self.office.tick(stopped, electing=self.election is not None)
            if ending is not None and ending[0] is Ending.RESIGN:
                self._resign(self.office, ending[1])
            elif ending is not None:
                self._halt(ending[1])
        elif self.follows:
            self._tick_of_follower(stopped)
        elif self.view is None:
            self.door.ask_again()
        if self.leaving:
            self._go_on_leaving()
        if not self.done:
            self.watch.wait(presides=self.presides)

    def _tick_of_follower(self, stopped: bool) -> None:
        if not self.watch.spoke or self.acked < self.log.contiguous:
            self.acknowledge("quiet")
        silent = self.watch.tick(stopped)
        if silent is None:
            return
        if self.view is not None:
            text = f"{self.me} has not heard the sequencer {self.sequencer} for {silent // 1_000_000} ms"
            self._suspect_sequencer(Reason("silence", text, {"silent_ns": silent}))
        elif silent > self.parameters.patience:  # until then a joiner's vote may be needed
            self.follow_none()

    def _go_on_leaving(self) -> None:
        """The next step on the way out, if it can be made now; every tick tries again. Everything that this member sent has to be
        in the order first, and a sequencer hands its office over."""
        if self.done or self.view is None or self.requests.outstanding or not (self.follows or self.office):
            return
        if self.office is None:
            self.speak(packets.AskLeave(self.group, self.epoch, self.log.contiguous, self.room.behind))
        elif len(self.view.members) == 1:
            if self.door.may_close():
                self.finish()
                self.host.left(self.group, self.log.delivered + 1)
        elif self.office.may_be_handed_over() and self.election is None:
            if self.host.now < self.office.since + 2 * self.parameters.quiet_after:
                return  # the member that handed us the office may want to leave too, and has yet to ask: it would get it back
            self.host.record("elect", self.group, stage="hand-over", situation="sequencer leaves")
            self._resign(self.office, Reason(LEFT, f"the sequencer {self.me} leaves"))

    def _on_ask_join(self, source: ProcessId, packet: packets.AskJoin) -> None:
        if self.office is not None:
            self.office.ask_join(source)
        elif self.view is not None and self.follows:
            self.host.send((source,), packets.Where(self.group, self.sequencer))

    # --- receiving --------------------------------------------------------------------------------------------------

    def _on_broadcast(self, source: ProcessId, packet: packets.Broadcast) -> None:
        if packet.epoch != self.listening or source != self.sequencer:
            self._fence(source, packet.epoch)
            return
        self.watch.heard = True
        log = self.log
        number = packet.number
        if number == log.contiguous + 1:
            entry = packet.entry
            batch = entry.batch
            sender = entry.sender
            in_order = number > log.highest and log.delivered == log.contiguous
            if in_order and self._immediate and batch is not None and not self.pause.phase:
                # Most of what any member ever does is this: the rest of this method, where nothing is out of order.
                log.entries[number] = entry
                log.table[sender] = entry.request
                log.contiguous = log.delivered = log.highest = number
                self.allowed = packet.allowed
                self._deliver(self.group, sender, batch, number)
                if packet.stable > log.low:
                    self.settle(packet.stable)
                if sender == self.me:
                    self._came_back(entry.request)
                if number - self.acked >= self._interval:
                    self.acknowledge("count")
                return
            self._accept(entry)
            if log.later:
                self._accept_later()
        elif number > log.contiguous:
            if number > log.contiguous + self.parameters.reach:
                return  # no sequencer numbers so far beyond what we have acknowledged
            log.later[number] = packet.entry
            if number > log.highest:
                log.highest = number
        if packet.allowed > self.allowed:
            self.allowed = packet.allowed
        if log.delivered < log.contiguous:
            self._deliver_ready()
            if self.done:
                return
        if packet.stable > log.low:
            self.settle(packet.stable)
        if log.contiguous < log.highest:
            self.gaps.check()
        elif log.contiguous - self.acked >= self._interval:
            self.acknowledge("count")
        elif log.delivered < log.contiguous and self.acked < log.contiguous and log.changes_after(log.delivered):
            self.acknowledge("view")  # a view takes effect when a majority has said so
        if self.pause.phase:
            self.phases.go_on()

    def _accept(self, entry: packets.Entry) -> None:
        """The next entry of the order. A message is delivered at once if nothing is in its way."""
        log = self.log
        number = log.append(entry)
        batch = entry.batch
        if batch is None:
            return
        if self._immediate and log.delivered == number - 1:
            log.delivered = number
            self.host.deliver(self.group, entry.sender, batch, number)
        if entry.sender == self.me:
            self._came_back(entry.request)

    def _came_back(self, request: int) -> None:
        """Our request has its place in the order."""
        self.requests.outstanding.pop(request, None)
        if self.leaving:
            self._go_on_leaving()
        else:
            self.ready(self.group)

    def _accept_later(self) -> None:
        """What waited beyond a gap and no longer does."""
        log = self.log
        while (entry := log.later.pop(log.contiguous + 1, None)) is not None:
            self._accept(entry)

    def _deliver_ready(self) -> None:
        """Delivers, in order, what is here and permitted."""
        log = self.log
        while log.delivered < log.contiguous and not self.done:
            number = log.delivered + 1
            entry = log.entries[number]
            if not self._is_permitted(number, entry):
                return
            log.delivered = number
            if entry.batch is not None:
                self.host.deliver(self.group, entry.sender, entry.batch, number)
            elif entry.change is not None:
                self._install(number, entry.change)

    def _is_permitted(self, number: int, entry: packets.Entry) -> bool:
        """Views need permission, messages only with ``resilience`` > 0."""
        return number <= self.allowed or (self._immediate and entry.change is None)

    def _install(self, number: int, change: packets.Change) -> None:
        left = {process: Reason(code, text) for process, code, text in change.left}
        self.door.note(change)
        if self.me not in change.members:
            reason = left.get(self.me) or Reason("excluded", f"it is not in view {change.number}, which does not say why")
            self.acknowledge("view")  # so that the sequencer that excluded us does not wait for us
            text = f"{self.me} was excluded in view {change.number}: {reason.text}"
            self.door.go_out(Reason(reason.code, text), number)
            return
        self.view = change
        self.undecided_since = None
        for process in left:  # it never comes back under its name: the table stays small
            self.log.table.pop(process, None)
        self.host.install(View(self.group, change.number, change.members, joined=change.joined, left=left, rank=number))
        self.phases.end(change.phase_over)
        self._choose_interval()
        if self.office is not None:
            self.office.installed(change)
        else:
            self.ready(self.group)

    def _hears(self, source: ProcessId, epoch: int) -> bool:
        """Whether a sequencer's packet is from the one that we follow; if not, its sender may learn why."""
        if epoch == self.listening and source == self.sequencer:
            self.watch.heard = True
            return True
        self._fence(source, epoch)
        return False

    def _choose_interval(self) -> None:
        """With resilience r, the r members after the sequencer acknowledge every batch at once."""
        self._interval = self.parameters.acknowledgement_interval
        if self.view is not None and self.parameters.resilience and self.sequencer in self.view.members:
            members = self.view.members
            distance = (members.index(self.me) - members.index(self.sequencer)) % len(members)
            if 0 < distance <= self.parameters.resilience:
                self._interval = 1

    def _on_announce(self, source: ProcessId, packet: packets.Announce) -> None:
        # Its voters have promised this very epoch, and one that promised a later one follows that.
        is_new = packet.epoch > self.epoch and packet.epoch == self.promised
        if is_new and self.me in packet.voters and self.log.newest is not None:
            if self.door.knows(source) or self.door.is_vouched_for(source, packet.epoch):
                self._follow(source, packet)
            return
        if not self._hears(source, packet.epoch):
            return
        self._learn_highest(packet.highest)
        self.allowed = max(self.allowed, packet.allowed)
        self._deliver_ready()
        if self.done:
            return
        self.settle(packet.stable)
        self.phases.end(packet.phase_over)
        if self.log.contiguous < self.log.highest:
            self.gaps.check()
        elif packet.allowed < packet.highest:
            self.acknowledge("permission")

    def _learn_highest(self, highest: int) -> None:
        """The last message of a burst may be missing: nothing later would reveal its loss."""
        self.log.highest = max(self.log.highest, highest)

    def _on_ask(self, source: ProcessId, packet: packets.Ask) -> None:
        if self._hears(source, packet.epoch):
            self.acknowledge("asked")

    def _to_office(self, source: ProcessId, packet: Any) -> None:
        if self.office is not None and packet.epoch == self.epoch:
            self.office.receive(source, packet)
        else:
            self._answer_stranger(source, packet.epoch)

    def _answer_stranger(self, source: ProcessId, epoch: int) -> None:
        """A packet for a sequencer, and I am not (or no longer, or in another epoch) the one that is meant."""
        if self.door.tell_excluded(source) or epoch >= self.epoch:
            return
        if self.office is not None:
            self.office.introduce(source)
        elif self.follows and source != self.sequencer:
            self.host.send((source,), packets.Stale(self.group, self.epoch, self.sequencer))

    # --- epochs -----------------------------------------------------------------------------------------------------

    def _fence(self, source: ProcessId, epoch: int) -> None:
        """A sequencer's packet of an epoch that is not listened to. (A new epoch begins with its announcement.)"""
        if self.view is not None and epoch < self.promised:
            self.host.record("drop", self.group, epoch=epoch, situation="superseded epoch")
            if not self.door.tell_excluded(source):
                sequencer = self.sequencer if self.listening != NO_EPOCH else ""
                self.host.send((source,), packets.Stale(self.group, self.promised, sequencer))

    def _on_stale(self, source: ProcessId, packet: packets.Stale) -> None:
        """Somebody follows a later epoch: a deposed sequencer stops at once."""
        if not self.door.knows(source):
            return
        if packet.epoch == self.promised and packet.sequencer and self.listening == NO_EPOCH:
            self.door.vouch(packet.epoch, packet.sequencer)
        is_later = self.view is not None and packet.epoch > self.promised and self.is_near(packet.epoch)
        if not is_later or self.door.tell_excluded(source):
            return
        self.election = None
        self.step_down(packet.epoch, "")
        if packet.sequencer:
            self.host.send((packet.sequencer,), self.acknowledgement())

    def step_down(self, epoch: int, promised_to: ProcessId, pace: int = 0) -> None:
        """From here on no epoch below this one exists for us. What is numbered here stays: the election counts it."""
        self._close_office(epoch)
        self.phases.cut_short(epoch)
        self.promised = epoch
        self.promised_to = promised_to
        self.rebuild = None
        self.listening = NO_EPOCH
        self.calling.wait_for_result(pace)

    def _close_office(self, epoch: int) -> None:
        if self.office is not None:
            self.office.close(epoch)
            self.office = None
            self.presides = False

    def _open_office(self, pace: int = 0) -> Office:
        self.office = Office(self, self.requests, self.door, pace=pace, deliver_ready=self._deliver_ready)
        self.presides = True
        return self.office

    def _follow(self, source: ProcessId, packet: packets.Announce) -> None:
        """A new epoch: its sequencer's order continues ours, which it has looked at."""
        self._enter(packet.epoch, packet.base, packet.voters, source)
        if not self.log.is_part_of(packet.lineage, packet.stable):
            # Not every earlier view was decided with us: what we hold at its number is something else.
            text = f"{self.me} holds number {self.log.contiguous}, which is not that of epoch {packet.epoch}"
            self._halt(Reason("diverged", text))
            return
        self.log.lineage = list(packet.lineage)
        self.log.highest = packet.highest
        self.watch.heard = True
        self.host.record("state", self.group, epoch=packet.epoch, sequencer=source)
        self.speak(self.acknowledgement())
        self.requests.send_all_again()
        if self.log.contiguous < self.log.highest:
            self.gaps.check()
        self._choose_interval()

    def _enter(self, epoch: int, base: int, voters: tuple[ProcessId, ...], sequencer: ProcessId) -> None:
        log = self.log
        self._close_office(epoch)
        log.close_epoch(self.stage)
        if voided := log.void_later():
            situation = "out-of-order message voided by a new epoch"
            self.host.record("drop", self.group, epoch=epoch, count=voided, situation=situation)
        self.phases.cut_short(epoch)
        self.epoch = self.promised = self.listening = epoch
        self.base, self.voters, self.sequencer = base, voters, sequencer
        self.allowed = min(self.allowed, base)  # what was permitted beyond is numbered anew
        self.election = self.rebuild = None
        self.acked = 0
        self.gaps.reset()
        self.watch.start_anew()
        self.host.cancel_timer("election")

    def _take_office(self, elected: packets.Elected) -> None:
        """Elected: our history is the longest without a gap. What others hold beyond its end is fetched first."""
        if elected.reach > self.log.contiguous:
            self.rebuild = Rebuild(self, elected, self._accept_later, self._become_sequencer)
        else:
            self._become_sequencer(elected)

    def _become_sequencer(self, elected: packets.Elected) -> None:
        """Our history is that of the group: the epoch begins."""
        log = self.log
        views = [number for number, change in log.changes_after(log.delivered) if change.number <= elected.view]
        in_force = max((min(max(self.allowed, elected.allowed), log.contiguous), *views))
        self._enter(elected.epoch, log.contiguous, elected.voters, self.me)
        log.highest = log.contiguous
        self.allowed = in_force
        situation = "joiner elected" if self.joined_later else "sequencer elected"
        told = {"voters": list(self.voters), "base": log.contiguous, "why": elected.why, "situation": situation}
        self.host.record("elect", self.group, stage="elected", epoch=self.epoch, **told)
        office = self._open_office(elected.pace)
        self._deliver_ready()
        if self.done:
            return  # the view that let us go was in force
        self._choose_interval()
        office.begin(elected.why)
        office.number_outstanding()

    # --- elections --------------------------------------------------------------------------------------------------

    def _suspect_sequencer(self, reason: Reason) -> None:
        if self.election is None and self.office is None and self.view is not None and self.calling.is_free:
            self.host.record("suspect", self.group, process=self.sequencer, **reason.to_detail())
            # One that is heard but does not bring a number may only be far away: it has a vote, and may refuse.
            heard = self.watch.hears_sequencer()
            self._elect(reason, missed=NONE if heard else frozenset((self.sequencer,)))

    def _resign(self, office: Office, reason: Reason) -> None:
        """A sequencer that has no followers, or wants to hand its office over, calls an election itself. It knows which members
        it hears, and no trial has measured the round trip: the vote waits for them."""
        suspects = frozenset(office.hearing.suspects)
        self._elect(reason, binding=True, missed=suspects, heard=frozenset(office.others) - suspects)

    def _elect(
        self, reason: Reason, *, binding: bool = False, missed: frozenset[ProcessId] = NONE, heard: frozenset[ProcessId] = NONE
    ) -> None:
        calls = (self.step_down, self._take_office, self._hear_again, self._halt)
        self.election = Election(self, reason, *calls, missed=missed, heard=heard)
        self.election.begin(binding=binding)

    def _election_timer(self) -> None:
        if self.rebuild is not None:
            self.rebuild.ask()
        elif self.election is not None:
            self.election.expire()
        elif self.listening == NO_EPOCH and self.view is not None:
            self._elect(Reason("no result", f"no sequencer came out of epoch {self.promised}"))

    def _hear_again(self) -> None:
        """The others hear the sequencer: wait for it as long as at the beginning."""
        self.election = None
        self.watch.start_anew()

    def _on_invite(self, source: ProcessId, packet: packets.Invite) -> None:
        if self.log.newest is None or self.door.tell_excluded(source):
            return
        content = self.office is not None or (self.follows and self.watch.hears_sequencer())
        if packet.trial:
            if content:
                self.host.send((source,), packets.Refuse(self.group, self.promised, packet.epoch, True))
            else:
                self.host.send((source,), self.status(packet.epoch, trial=True))
                self._let_precede(source)
        elif not self.is_near(packet.epoch) or (self._is_settled and not self.door.knows(source)):
            # A process in no view that we know of may have joined while we were behind; but no sequencer is missed here yet.
            self.host.send((source,), packets.Refuse(self.group, self.promised, packet.epoch, False))
        elif packet.epoch > self.promised:
            self.election = None
            self.step_down(packet.epoch, source, packet.pace)
            self.host.send((source,), self.status(packet.epoch, trial=False))
        elif packet.epoch == self.promised and source == self.promised_to and self.listening == NO_EPOCH:
            self.host.send((source,), self.status(packet.epoch, trial=False))
        else:
            self.host.send((source,), packets.Refuse(self.group, self.promised, packet.epoch, False))

    def _let_precede(self, source: ProcessId) -> None:
        """Of two trials at a time only that of the preceding member goes on."""
        if self.election is None and self.rebuild is None and self.view is not None:
            if self.listening != NO_EPOCH:
                self.calling.defer()
        elif self.election is not None and self.election.yields_to(source):
            situation = "coordinator yields to a preceding one"
            self.host.record("elect", self.group, stage="yield", process=source, situation=situation)
            self.election = None
            self.calling.defer()

    @property
    def _is_settled(self) -> bool:
        """There is a sequencer, and this member does not miss it."""
        return self.office is not None or (self.follows and self.election is None)

    def _to_election(self, source: ProcessId, packet: packets.Promise | packets.Refuse) -> None:
        if self.election is not None:
            self.election.on_answer(source, packet)

    def _on_elected(self, source: ProcessId, packet: packets.Elected) -> None:
        waiting = self.listening == NO_EPOCH and self.rebuild is None
        by_coordinator = source == self.promised_to and self.door.knows(source) and self.me in packet.voters
        if self.view is not None and packet.epoch == self.promised and waiting and by_coordinator:
            self._take_office(packet)

    def _on_fetch(self, source: ProcessId, packet: packets.Fetch) -> None:
        if give(self, source, packet):
            if self.election is not None:
                self.election.on_rebuilding()
            else:
                self.calling.wait_for_result(0)

    def _to_rebuild(self, source: ProcessId, packet: packets.Held | packets.Lacks) -> None:
        if self.rebuild is not None:
            self.rebuild.on_answer(source, packet)
