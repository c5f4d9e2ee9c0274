"""A member of a group: sends through the sequencer, receives in order, and may become the sequencer.

Theory of operation
-------------------
A member hands its batches to the sequencer as numbered requests (:mod:`.requests`). It accepts broadcasts without gaps,
buffers what is ahead, asks for what is missing (:mod:`.gaps`), and delivers. It always listens to exactly one epoch,
``listening``; while it takes part in an election, or is no member yet, it listens to nobody.

The sequencer is a member too: it then has an :class:`~.office.Office`, which numbers, keeps acknowledgements, empties the
history and changes the view. A member that calls an election has an :class:`~.election.Election`.

Two numbers govern delivery: ``log.contiguous`` (what is here without a gap) and ``allowed`` (what the sequencer permits).
Messages need permission only with ``resilience`` > 0, views always: a view takes effect when a majority of the view before
it has it, so that two views can never both follow the same one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from ...core.engine import Engine, Host
from ...core.model import Form, GroupId, Join, Packet, Pressure, ProcessId, Propose, ProtocolError, Reason, Timer, View
from .door import Door
from .election import Election
from .gaps import Gaps
from .log import Log
from .office import Office
from .packets import (
    Ack,
    AckCommit,
    Announce,
    AskJoin,
    AskLeave,
    Broadcast,
    Change,
    Elected,
    Entry,
    Excluded,
    Fetch,
    Held,
    Invite,
    Nack,
    Phase1,
    Phase2,
    Promise,
    Refuse,
    Request,
    Stage,
    Stale,
    Welcome,
    Where,
)
from .parameters import Parameters
from .pause import Pause
from .rebuild import Rebuild, give
from .requests import Requests
from .room import Room
from .watch import Watch

NOBODY: Final = -1
"""The epoch that one listens to while an election runs, or before one is a member."""
FARTHEST: Final = 1 << 16
"""Epochs go on in small steps; one that is further ahead than this is no epoch of this group."""


class Member(Engine):
    """One process's part in one group."""

    __slots__ = (  # not to save memory, but because attributes beyond thirty are slow without them
        "_claims",
        "_deliver",
        "_handlers",
        "_immediate",
        "_interval",
        "acked",
        "allowed",
        "base",
        "done",
        "door",
        "election",
        "epoch",
        "gaps",
        "group",
        "host",
        "joined_later",
        "leaving",
        "listening",
        "log",
        "me",
        "office",
        "parameters",
        "pause",
        "promised",
        "promised_to",
        "rebuild",
        "requests",
        "room",
        "sequencer",
        "undecided_since",
        "view",
        "voters",
        "vouched",
        "watch",
    )

    def __init__(self, host: Host, group: GroupId, parameters: Parameters) -> None:
        self.host = host
        self._deliver = host.deliver
        self.group = group
        self.parameters = parameters
        self.me: ProcessId = host.me
        self.log = Log()
        self.epoch = 0
        self.base = 0
        """The order of earlier epochs ends here."""
        self.voters: tuple[ProcessId, ...] = ()
        self.listening = NOBODY
        self.promised = 0
        """No epoch below this one is listened to any more."""
        self.promised_to: ProcessId = ""
        self.sequencer: ProcessId = ""
        self._claims: tuple[int, ProcessId, int] = (NOBODY, "", 0)
        """Which epoch somebody whom we do not know says to be the sequencer of, and since when."""
        self.vouched: tuple[int, ProcessId] = (NOBODY, "")
        """Whom a member has named as the sequencer of an epoch that this one has promised and knows nothing of."""
        self.view: Change | None = None
        """The view in force here; None before one is a member."""
        self.allowed = 0
        self.undecided_since: int | None = None
        """Since when a view has been proposed, by us or in histories that we continue, without taking effect."""
        self.office: Office | None = None
        self.election: Election | None = None
        self.rebuild: Rebuild | None = None
        self.requests = Requests(self)
        self.gaps = Gaps(self)
        self.door = Door(self)
        self.pause = Pause(self)
        self.room = Room(self)
        self.acked = 0
        """The last acknowledgement sent in this epoch."""
        self.joined_later = False
        self.leaving = False
        self.done = False
        self._interval = parameters.acknowledgement_interval
        self._immediate = parameters.resilience == 0
        self.watch = Watch(self)
        self._handlers: dict[type[Packet], Callable[[ProcessId, Any], None]] = {
            Broadcast: self._on_broadcast,
            Request: self._to_office,
            Ack: self._to_office,
            Nack: self._to_office,
            AckCommit: self._to_office,
            AskLeave: self._to_office,
            Announce: self._on_announce,
            Phase1: self.pause.on_phase1,
            Phase2: self.pause.on_phase2,
            AskJoin: self.door.on_ask_join,
            Where: self.door.on_where,
            Welcome: self.door.on_welcome,
            Excluded: self.door.on_excluded,
            Stale: self._on_stale,
            Invite: self._on_invite,
            Promise: self._on_promise,
            Refuse: self._on_refuse,
            Elected: self._on_elected,
            Fetch: self._on_fetch,
            Held: self._on_held,
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
        self.watch.begin()

    def _form(self, members: tuple[ProcessId, ...]) -> None:
        """All members start with the same first view and epoch; the first of them is the sequencer."""
        first = Change(1, members, members, (), 0)
        self.epoch = self.promised = self.listening = 1
        self.base = NOBODY
        self.voters = members
        self.sequencer = members[0]
        self.log.newest = self.view = first
        self.host.install(View(self.group, 1, members, joined=members, rank=0))
        self._choose_interval()
        if self.sequencer == self.me:
            self.office = Office(self, self.voters)

    def leave(self, group: GroupId) -> None:
        self.leaving = True
        self.door.go_on_leaving()

    def ready(self, group: GroupId) -> None:
        self.requests.pump()

    def notice(self, event: Any) -> None:
        if isinstance(event, Pressure) and not self.done:
            self.room.notice(event.full)

    def receive(self, source: ProcessId, packet: Packet) -> None:
        self._handlers[packet.__class__](source, packet)

    def expire(self, timer: Timer) -> None:
        if self.done:
            return
        if timer == "tick":
            self.watch.expire()
        elif timer == "retry":
            self.requests.expire()
        elif timer == "nack":
            self.gaps.expire()
        elif timer == "sync":
            if self.office is not None:
                self.office.full_for_long()
        elif timer == "election":
            self._election_timer()
        else:
            raise ProtocolError(f"the sequencer protocol has no timer {timer!r}")

    def waiting(self) -> Reason | None:
        if self.done:
            return None
        log = self.log
        if self.view is None:
            return Reason("joining", f"{self.me} waits to be let in")
        if self.election is not None or self.listening == NOBODY:
            return Reason("election", f"{self.me} waits for a new sequencer after epoch {self.epoch}")
        if self.leaving:
            return Reason("leaving", f"{self.me} waits to be let go")
        if self.requests.outstanding:
            request = min(self.requests.outstanding)
            return Reason("outstanding", f"{self.me} waits for its request {request} to come back numbered")
        if log.contiguous < log.highest:
            return Reason("gap", f"{self.me} waits for number {log.contiguous + 1}; there is {log.highest}")
        if log.delivered < log.contiguous:
            return Reason("permission", f"{self.me} waits for permission to deliver number {log.delivered + 1}")
        if self.pause.phase:
            return Reason("synchronisation", f"{self.me} is in synchronisation phase {self.pause.phase}")
        return self.office.waiting() if self.office is not None else None

    # --- what the parts ask -----------------------------------------------------------------------------------------

    @property
    def follows(self) -> bool:
        """There is a sequencer, and it is somebody else."""
        return self.listening != NOBODY and self.office is None

    @property
    def may_send(self) -> bool:
        """Requests may go out: there is a sequencer, a view, and no synchronisation phase."""
        return self.listening != NOBODY and self.view is not None and not self.pause.phase

    def knows(self, source: ProcessId) -> bool:
        """Whether a process is a member, as far as is known here; before one is a member, whether it was asked to be let in.
        What only members can say is not heeded from anybody else."""
        if source == self.sequencer or (self.view is not None and source in self.view.members):
            return True
        newest = self.log.newest
        if newest is None:
            return source in self.door.contacts
        if source in newest.members or (self.view is None and source in self.door.contacts):
            return True
        return any(entry.change is not None and source in entry.change.members for entry in self.log.later.values())

    def is_near(self, epoch: int) -> bool:
        """Whether there can be an election of this number."""
        return epoch <= self.promised + FARTHEST

    def speak(self, packet: Packet) -> None:
        """Sends the sequencer a packet that carries an acknowledgement."""
        self.acked = self.log.contiguous
        self.watch.spoke = True
        self.host.send((self.sequencer,), packet)

    def finish(self) -> None:
        """This member has nothing more to do."""
        self.done = True
        self._handlers = dict.fromkeys(self._handlers, self._ignore)
        self.office = self.election = self.rebuild = None
        self.listening = NOBODY
        for timer in ("tick", "retry", "nack", "sync", "election"):
            self.host.cancel_timer(timer)

    def _ignore(self, source: ProcessId, packet: Packet) -> None:
        """What reaches a member that is done."""

    def halt(self, reason: Reason) -> None:
        self.finish()
        self.host.halt(reason)

    def halt_as_minority(self, reached: int, of: int, tried: int) -> None:
        """A minority does not wait for ever: the others may have gone on without it."""
        text = (
            f"{self.me} reached {reached} of the {of} members of its view for {tried // 1_000_000} ms; "
            "a majority is needed to go on"
        )
        self.halt(Reason("minority", text, {"reached": reached, "members": of}))

    def be_let_in(self, sequencer: ProcessId, welcome: Welcome) -> None:
        """The log begins with the view that lets us in; it takes effect like any view."""
        self.epoch = self.promised = self.listening = welcome.epoch
        self.base, self.voters, self.sequencer = welcome.base, welcome.voters, sequencer
        self.allowed = welcome.allowed
        self.pause = Pause(self)
        self.gaps.reset()
        self.room.start_anew()
        self.watch.heard = True
        self.deliver_ready()
        if self.log.contiguous < self.log.highest:
            self.gaps.check()

    def follow_nobody(self) -> None:
        """A joiner that was let in by nobody who lasts: what it knows is worth nothing."""
        self.listening = NOBODY
        self.log.newest = None
        self.watch.start_anew()

    # --- receiving --------------------------------------------------------------------------------------------------

    def _on_broadcast(self, source: ProcessId, packet: Broadcast) -> None:
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
            if (
                number > log.highest
                and log.delivered == log.contiguous
                and self._immediate
                and batch is not None
                and not self.pause.phase
            ):
                # Most of what any member ever does is this: the rest of this method, where nothing is out of order.
                log.entries[number] = entry
                log.table[sender] = entry.request
                log.contiguous = log.delivered = log.highest = number
                self.allowed = packet.allowed
                self._deliver(self.group, sender, batch, number)
                if packet.stable > log.low:
                    self.settle(packet.stable)
                if sender == self.me:
                    self.requests.came_back(entry.request)
                if number - self.acked >= self._interval:
                    self.acknowledge("count")
                return
            self._accept(entry)
            if log.later:
                self.accept_later()
        elif number > log.contiguous:
            if number > log.contiguous + self.parameters.reach:
                return  # no sequencer numbers so far beyond what we have acknowledged
            log.later[number] = packet.entry
            if number > log.highest:
                log.highest = number
        if packet.allowed > self.allowed:
            self.allowed = packet.allowed
        if log.delivered < log.contiguous:
            self.deliver_ready()
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
            self.pause.go_on()

    def _accept(self, entry: Entry) -> None:
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
            self.requests.came_back(entry.request)

    def accept_later(self) -> None:
        """What waited beyond a gap and no longer does."""
        log = self.log
        while (entry := log.later.pop(log.contiguous + 1, None)) is not None:
            self._accept(entry)

    def deliver_ready(self) -> None:
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

    def _is_permitted(self, number: int, entry: Entry) -> bool:
        """Views need permission, messages only with ``resilience`` > 0."""
        return number <= self.allowed or (self._immediate and entry.change is None)

    def _install(self, number: int, change: Change) -> None:
        left = {process: Reason(code, text) for process, code, text in change.left}
        self.door.note(change)
        if self.me not in change.members:
            reason = left.get(self.me) or Reason("excluded", f"it is not in view {change.number}, which does not say why")
            self.acknowledge("view")  # so that whoever excluded us does not wait for us
            text = f"{self.me} was excluded in view {change.number}: {reason.text}"
            self.door.go_out(Reason(reason.code, text), number)
            return
        self.view = change
        self.undecided_since = None
        self.log.forget(left)
        self.host.install(View(self.group, change.number, change.members, joined=change.joined, left=left, rank=number))
        self.pause.end(change.phase_over)
        self._choose_interval()
        if self.office is not None:
            self.office.installed(change)
        else:
            self.requests.pump()

    def hears(self, source: ProcessId, epoch: int) -> bool:
        """Whether a sequencer's packet is from the one that we follow; if not, its sender may learn why."""
        if epoch == self.listening and source == self.sequencer:
            self.watch.heard = True
            return True
        self._fence(source, epoch)
        return False

    def settle(self, stable: int) -> None:
        """Everybody has everything up to here."""
        if stable > self.log.low:
            self.log.purge(stable)
            self.log.trim()
            self.host.stable(self.group, stable)

    def _choose_interval(self) -> None:
        """With resilience r, the r members after the sequencer acknowledge every batch at once."""
        self._interval = self.parameters.acknowledgement_interval
        if self.view is not None and self.parameters.resilience and self.sequencer in self.view.members:
            members = self.view.members
            distance = (members.index(self.me) - members.index(self.sequencer)) % len(members)
            if 0 < distance <= self.parameters.resilience:
                self._interval = 1

    def acknowledge(self, why: str) -> None:
        if self.office is None:
            self.host.record("null", self.group, why=why, ack=self.log.contiguous)
            self.speak(Ack(self.group, self.epoch, self.log.contiguous, self.room.behind))

    def _on_announce(self, source: ProcessId, packet: Announce) -> None:
        # Its voters have promised this very epoch, and one that promised a later one follows that.
        is_new = packet.epoch > self.epoch and packet.epoch == self.promised
        if is_new and self.me in packet.voters and self.log.newest is not None:
            if self.knows(source) or self._is_vouched_for(source, packet.epoch):
                self._follow(source, packet)
            return
        if not self.hears(source, packet.epoch):
            return
        log = self.log
        self._learn_highest(packet.highest)
        if packet.allowed > self.allowed:
            self.allowed = packet.allowed
        self.deliver_ready()
        if self.done:
            return
        self.settle(packet.stable)
        self.pause.end(packet.phase_over)
        if log.contiguous < log.highest:
            self.gaps.check()
        elif packet.allowed < packet.highest:
            self.acknowledge("permission")

    def _learn_highest(self, highest: int) -> None:
        """The last message of a burst may be missing: nothing later would reveal its loss."""
        if highest > self.log.highest:
            self.log.highest = highest

    def _is_vouched_for(self, source: ProcessId, epoch: int) -> bool:
        """Whether one who says to be the sequencer of the epoch that we have promised, and was in no view that we know of, is it:
        it may have joined while we were behind, or be a stranger. Members who follow it will say so (``Stale``). If there is
        nobody any more whom we know, it is believed when it has repeated itself for a while, and no vote has overtaken it."""
        if self.vouched[0] == epoch:
            return self.vouched[1] == source
        now = self.host.now
        if self._claims[:2] != (epoch, source):
            self._claims = (epoch, source, now)
            self._ask_about()
        return now - self._claims[2] >= self.parameters.suspect_after // 2

    def _ask_about(self) -> None:
        members = dict.fromkeys((*(self.view.members if self.view is not None else ()), *self._newest_members))
        others = tuple(process for process in members if process != self.me)
        self.host.send(others, Ack(self.group, self.epoch, self.log.contiguous, self.room.behind))

    @property
    def _newest_members(self) -> tuple[ProcessId, ...]:
        return self.log.newest.members if self.log.newest is not None else ()

    # --- packets for the sequencer's office -------------------------------------------------------------------------

    def _to_office(self, source: ProcessId, packet: Any) -> None:
        if self.office is not None and packet.epoch == self.epoch:
            self.office.receive(source, packet)
        else:
            self.answer_stranger(source, packet.epoch)

    def answer_stranger(self, source: ProcessId, epoch: int) -> None:
        """A packet for a sequencer, and I am not (or no longer, or in another epoch) the one that is meant."""
        if self.door.tell_excluded(source) or epoch >= self.epoch:
            return
        if self.office is not None:
            self.office.introduce(source)
        elif self.follows and source != self.sequencer:
            self.host.send((source,), Stale(self.group, self.epoch, self.sequencer))

    # --- epochs -----------------------------------------------------------------------------------------------------

    def _fence(self, source: ProcessId, epoch: int) -> None:
        """A sequencer's packet of an epoch that is not listened to. (A new epoch begins with its announcement, which its
        sequencer repeats.)"""
        if self.view is not None and epoch < self.promised:
            self.host.record("drop", self.group, epoch=epoch, situation="superseded epoch")
            if not self.door.tell_excluded(source):
                sequencer = self.sequencer if self.listening != NOBODY else ""
                self.host.send((source,), Stale(self.group, self.promised, sequencer))

    def _on_stale(self, source: ProcessId, packet: Stale) -> None:
        """Somebody follows a later epoch: a deposed sequencer stops at once."""
        if not self.knows(source):
            return
        if packet.epoch == self.promised and packet.sequencer and self.listening == NOBODY:
            self.vouched = (packet.epoch, packet.sequencer)
        if self.view is None or packet.epoch <= self.promised or not self.is_near(packet.epoch):
            return
        if self.door.tell_excluded(source):
            return
        self.election = None
        self.step_down(packet.epoch, "")
        if packet.sequencer:
            self.host.send((packet.sequencer,), Ack(self.group, self.epoch, self.log.contiguous, self.room.behind))

    def step_down(self, epoch: int, promised_to: ProcessId) -> None:
        """From here on no epoch below this one exists for us. What is numbered here stays: the election counts it."""
        self._close_office(epoch)
        self.pause.cut_short(epoch)
        self.promised = epoch
        self.promised_to = promised_to
        self.rebuild = None
        self.listening = NOBODY
        wait = self.parameters.suspect_after  # longer than a coordinator takes, or elections would interrupt each other
        self.host.set_timer("election", self.host.now + 3 * wait + self.host.random.randrange(wait))

    def _close_office(self, epoch: int) -> None:
        if self.office is not None:
            self.office.unblock()
            during = "synchronisation" if self.office.phase is not None else "view change" if self.office.proposed else ""
            self.host.record(
                "state", self.group, epoch=self.epoch, superseded_by=epoch, during=during, situation="sequencer deposed"
            )
            own = [number for number, _ in self.office.proposed if number > self.base]
            if own:
                # It is we who would have said that it is in force. Kept, it could bind those who survive to one who does not:
                # {a, b, c} without c becomes {a, b}, b crashes, c comes back, and a majority of {a, b} never comes.
                self.log.withdraw(own[0], self.view)
            self.office = None

    def _follow(self, source: ProcessId, packet: Announce) -> None:
        """A new epoch: its sequencer's order continues ours, which it has looked at."""
        self._enter(packet.epoch, packet.base, packet.voters, source)
        if not self.log.is_part_of(packet.lineage, packet.stable):
            # Not every earlier view was decided with us: what we hold at its number is something else.
            text = f"{self.me} holds number {self.log.contiguous}, which is not that of epoch {packet.epoch}"
            self.halt(Reason("diverged", text))
            return
        self.log.lineage = list(packet.lineage)
        self.log.highest = packet.highest
        self.watch.heard = True
        self.host.record("state", self.group, epoch=packet.epoch, sequencer=source)
        self.speak(Ack(self.group, self.epoch, self.log.contiguous, self.room.behind))
        self.requests.send_all_again()
        if self.log.contiguous < self.log.highest:
            self.gaps.check()
        self._choose_interval()

    def _enter(self, epoch: int, base: int, voters: tuple[ProcessId, ...], sequencer: ProcessId) -> None:
        log = self.log
        self._close_office(epoch)
        log.close_epoch(self._stage)
        if voided := log.void_later():
            self.host.record(
                "drop", self.group, epoch=epoch, count=voided, situation="out-of-order message voided by a new epoch"
            )
        self.pause.cut_short(epoch)
        self.epoch = self.promised = self.listening = epoch
        self.base, self.voters, self.sequencer = base, voters, sequencer
        self.allowed = min(self.allowed, base)  # what was permitted beyond is numbered anew
        self.election = self.rebuild = None
        self.acked = 0
        self.gaps.reset()
        self.watch.start_anew()
        self.host.cancel_timer("election")

    def take_office(self, elected: Elected) -> None:
        """Elected: our history is the longest without a gap. What others hold beyond its end is fetched first."""
        if elected.reach > self.log.contiguous:
            self.rebuild = Rebuild(self, elected)
        else:
            self.become_sequencer(elected)

    def become_sequencer(self, elected: Elected) -> None:
        """Our history is that of the group: the epoch begins."""
        log = self.log
        views = [number for number, change in log.changes_after(log.delivered) if change.number <= elected.view]
        in_force = max((min(max(self.allowed, elected.allowed), log.contiguous), *views))
        self._enter(elected.epoch, log.contiguous, elected.voters, self.me)
        log.highest = log.contiguous
        self.allowed = in_force
        self.host.record(
            "elect",
            self.group,
            stage="elected",
            epoch=self.epoch,
            voters=list(self.voters),
            base=log.contiguous,
            why=elected.why,
            situation="joiner elected" if self.joined_later else "sequencer elected",
        )
        self.office = Office(self, self.voters)
        self.deliver_ready()
        if self.done:
            return  # the view that let us go was in force
        self._choose_interval()
        self.office.begin(elected.why)
        self.requests.hand_to_office(self.office)

    # --- elections --------------------------------------------------------------------------------------------------

    def suspect_sequencer(self, reason: Reason) -> None:
        if self.election is None and self.office is None and self.view is not None:
            self.host.record("suspect", self.group, process=self.sequencer, **reason.to_detail())
            self.election = Election(self, reason)

    def resign(self, reason: Reason) -> None:
        """A sequencer that nobody follows calls an election itself."""
        self.election = Election(self, reason, binding=True)

    def _election_timer(self) -> None:
        if self.rebuild is not None:
            self.rebuild.expire()
        elif self.election is not None:
            self.election.expire()
        elif self.listening == NOBODY and self.view is not None:
            self.election = Election(self, Reason("no result", f"no sequencer came out of epoch {self.promised}"))

    def hear_again(self) -> None:
        """The others hear the sequencer: wait for it as long as at the beginning."""
        self.election = None
        self.watch.start_anew()

    def _on_invite(self, source: ProcessId, packet: Invite) -> None:
        if self.log.newest is None or self.door.tell_excluded(source):
            return
        content = self.office is not None or (self.follows and self.watch.hears_sequencer())
        if packet.trial:
            if content:
                self.host.send((source,), Refuse(self.group, self.promised, packet.epoch, True))
            else:
                self.host.send((source,), self.status(packet.epoch, trial=True))
        elif not self.is_near(packet.epoch) or (self._is_settled and not self.knows(source)):
            # Who is in no view that we know of may have joined while we were behind; but nobody is missed here yet.
            self.host.send((source,), Refuse(self.group, self.promised, packet.epoch, False))
        elif packet.epoch > self.promised:
            self.election = None
            self.step_down(packet.epoch, source)
            self.host.send((source,), self.status(packet.epoch, trial=False))
        elif packet.epoch == self.promised and source == self.promised_to and self.listening == NOBODY:
            self.host.send((source,), self.status(packet.epoch, trial=False))
        else:
            self.host.send((source,), Refuse(self.group, self.promised, packet.epoch, False))

    @property
    def _is_settled(self) -> bool:
        """There is a sequencer, and this member does not miss it."""
        return self.office is not None or (self.follows and self.election is None)

    def status(self, epoch: int, *, trial: bool) -> Promise:
        """What we hold: by this the winner is chosen. (A joiner that has been let in but does not know yet whether its view
        is in force votes too: it may be needed for a majority of that view.)"""
        log = self.log
        view, members = (self.view.number, self.view.members) if self.view is not None else (0, ())
        return Promise(
            self.group,
            epoch,
            trial,
            log.synced(self._stage),
            log.contiguous,
            min(self.allowed, log.contiguous),
            view,
            members,
            (self.epoch, self.sequencer),
            tuple(sorted(log.later)),
        )

    @property
    def _stage(self) -> Stage:
        """The part of the history that belongs to the epoch we follow, or followed last."""
        return self.epoch, self.base, self.sequencer

    def _on_promise(self, source: ProcessId, packet: Promise) -> None:
        if self.election is not None:
            self.election.on_promise(source, packet)

    def _on_refuse(self, source: ProcessId, packet: Refuse) -> None:
        if self.election is not None:
            self.election.on_refuse(source, packet)

    def _on_elected(self, source: ProcessId, packet: Elected) -> None:
        waiting = self.listening == NOBODY and self.rebuild is None
        by_coordinator = source == self.promised_to and self.knows(source) and self.me in packet.voters
        if self.view is not None and packet.epoch == self.promised and waiting and by_coordinator:
            self.take_office(packet)

    def _on_fetch(self, source: ProcessId, packet: Fetch) -> None:
        give(self, source, packet)

    def _on_held(self, source: ProcessId, packet: Held) -> None:
        if self.rebuild is not None:
            self.rebuild.on_held(source, packet)
