"""The sequencer's office: numbering, acknowledgements, the history, the synchronisation phase, and view changes.

A request gets the next number, goes into the log (the paper's history buffer), and is broadcast. Acknowledgements come in on
every packet; what every member has is *stable* and leaves the history. If the history stays full, a numbered two-phase
synchronisation (2.2) brings all members up to date and empties it. No number is given that is further than a history away from
what an application without room has read (:mod:`.room`).

A view is an entry of the order with two differences. It is *proposed*: no further number is given until a majority of the view
before it has it, then it is in force everywhere (``allowed``). And a view that lets a process in follows a synchronisation phase,
so that a joiner, whose history begins there, can serve all members should it be elected."""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import Any, Final

from ...core.model import Batch, Packet, ProcessId, Reason
from ...core.names import incarnation_of, place_of
from .door import LEFT, Door
from .gaps import BROUGHT_AT_ONCE
from .hearing import Hearing
from .packets import Ack, AckCommit, Announce, Ask, AskLeave, Broadcast, Change, Entry, Nack, Request, Welcome
from .phases import Phase
from .requests import Requests
from .room import Capacity, not_reading
from .standing import Standing

PHASES_AN_EPOCH: Final = 1 << 20
ROUND_TRIPS: Final = 4  # round trips from the suspicion of a sequencer to the view of the next one
JOINING: Final = 256  # processes let in at once; further ones ask again


class Ending(enum.Enum):
    """How a sequencer ends its office by itself."""

    RESIGN = "calls an election"
    HALT = "halts"


class Office:
    """Exists at the sequencer of an epoch. ``pace``: how long the voters took to answer; they are not missed before they can have
    heard of the epoch and answered. ``deliver_ready`` delivers what ``allowed`` permits."""

    def __init__(
        self, standing: Standing, requests: Requests, door: Door, *, pace: int, deliver_ready: Callable[[], None]
    ) -> None:
        log = standing.log
        assert log.newest is not None
        self.standing, self.requests, self._door, self._deliver_ready = standing, requests, door, deliver_ready
        self.host, self.group, self.epoch, self.voters = standing.host, standing.group, standing.epoch, standing.voters
        self.since = standing.host.now
        self._pace = pace
        self._deliver = standing.host.deliver
        self.log = log
        self.parameters = standing.parameters
        self._immediate = standing.parameters.resilience == 0
        self._any_survivor = standing.parameters.any_survivor
        self.stable = log.low
        self.acked: dict[ProcessId, int] = {}  # member to its last acknowledgement in this epoch; only ever grows
        self.held: dict[ProcessId, dict[int, Batch]] = {}
        self.proposed: list[tuple[int, tuple[ProcessId, ...]]] = []  # views not in force yet: (number, members that decide on it)
        self.phase: Phase | None = None
        self.phase_number = standing.epoch * PHASES_AN_EPOCH  # they grow from epoch to epoch, as views carry them across
        self.joining: dict[ProcessId, None] = {}
        self.leaving: dict[ProcessId, None] = {}
        self.welcomes: dict[ProcessId, Welcome] = {}
        self._turns = 0  # how many of its own batches the sequencer may number because it is its turn
        self._had_turn: dict[ProcessId, None] = {}  # processes that had a turn since
        self.capacity = Capacity(standing.host, standing.group, standing.parameters, log, standing.room)
        self._stride = self.capacity.stride
        self._busy = self._asking = False
        self.hearing = Hearing(standing.host, standing.group, standing.parameters, pace)
        # Members whose applications have held the group up for too long. They are heard, and vote on the view without them.
        self._stuck: dict[ProcessId, Reason] = {}
        self.others: tuple[ProcessId, ...] = ()
        self._handlers: dict[type[Packet], Callable[[ProcessId, Any], None]] = {
            Ack: self._on_ack,
            Nack: self._on_nack,
            AckCommit: self._on_ack_commit,
            AskLeave: self._on_ask_leave,
        }
        self._admit(log.newest.members)

    def _admit(self, members: tuple[ProcessId, ...]) -> None:
        """These are the processes that we speak to."""
        me = self.standing.me
        self.others = tuple(process for process in members if process != me)
        self.acked = {process: self.acked.get(process, -1) for process in self.others}
        self.hearing.keep(self.others)
        self.held = {process: held for process, held in self.held.items() if process in members}
        self.capacity.keep(self.others)

    def begin(self, why: str) -> None:
        """A new epoch begins with a view of those who elected us."""
        newest = self.log.newest
        assert newest is not None
        joiners: dict[ProcessId, int] = {}
        for number, change in self.log.changes_after(self.standing.allowed):
            # The last sequencer proposed it and may have seen it in force: it stays, and is decided anew.
            self._add_proposal(number, change)
            self.host.record("elect", self.group, view=change.number, situation="undecided view carried over")
            # Its joiners may never have heard that they are let in, and the next view may need their word.
            joiners |= {process: number for process in change.joined if process not in self.voters}
        silent = [process for process in newest.members if process not in self.voters and process not in joiners]
        text = f"did not answer the election of epoch {self.epoch} ({why})"
        left = {process: Reason("not heard", f"{process} {text}") for process in silent}
        if self._any_survivor:
            self.hearing.miss(left)  # they cannot follow this epoch: a view that was proposed with them does not wait for them
        self.announce(self.others)  # a new epoch is followed from its announcement on
        for process, number in joiners.items():
            self._welcome(process, number)
        self._propose(left, ())

    def _welcome(self, process: ProcessId, number: int) -> None:
        """Lets a joiner know the view at that number, and again with each tick until it has acknowledged."""
        standing, entry, table = self.standing, self.log.entries[number], tuple(self.log.table.items())
        welcome = Welcome(self.group, self.epoch, standing.base, self.voters, number, entry, table, number, standing.allowed)
        self.welcomes[process] = welcome
        self.host.send((process,), welcome)

    def _add_proposal(self, number: int, change: Change) -> None:
        """A view is decided by a majority of the view before it, and by one of those who stay: else those who leave could
        decide, and be gone before the others know. Where any survivor goes on, all of those who stay decide."""
        stay = tuple(process for process in change.members if process not in change.joined)
        before = (*stay, *(process for process, _, _ in change.left))
        self.proposed += [(number, stay)] if self._any_survivor else [(number, before), (number, stay)]
        if self.standing.undecided_since is None:
            self.standing.undecided_since = self.host.now

    # --- numbering --------------------------------------------------------------------------------------------------

    @property
    def open(self) -> bool:
        """Whether a number may be given now."""
        if self.proposed or self.phase is not None:
            return False
        if self.standing.leaving and not self.requests.outstanding:
            return False  # closed, so that all members catch up and the office can be handed over
        return self.log.contiguous < self.capacity.limit or self._has_room()

    def _has_room(self) -> bool:
        self._update_stable()
        return self.capacity.extend()

    @property
    def has_turn(self) -> bool:
        """Whether the sequencer may number something of its own. While requests of others wait it has one turn after each of
        those who send has had one, or it would fill the history by itself, or never get in."""
        return self._turns > 0 or not self.held

    def wait_for_room(self) -> None:
        """Something wants a number. If it is for want of room that there is none, the clock runs."""
        if self.proposed or self.phase is not None:
            return
        if self.capacity.full_since is not None or not self._has_room():
            self.capacity.wait(self.acked)

    def pump(self) -> None:
        """Takes messages of the own application and numbers them, while there is room and it is their turn. Not taking is the
        backpressure. Requests made before this member had the office come first."""
        standing = self.standing
        if standing.leaving or standing.done:
            return
        host, requests = self.host, self.requests
        while not requests.outstanding and self.has_turn and self.open:
            batch = host.take(self.group, host.max_packet, requests.max_messages)
            if batch is None:
                requests.wants_number = False
                return
            requests.last += 1
            self.number(standing.me, requests.last, batch)
        requests.wants_number = True
        self.wait_for_room()

    def number_outstanding(self) -> None:
        """Numbers the own requests that the last sequencer did not. They stay in ``requests`` too: the office may not last."""
        for request, batch in list(self.requests.outstanding.items()):
            self.ask_number(self.standing.me, request, batch)

    def number(self, sender: ProcessId, request: int, batch: Batch) -> None:
        """Gives the next number to a batch and broadcasts it."""
        standing = self.standing
        log = self.log
        entry = Entry(sender, request, batch)
        number = log.append(entry)
        if sender == standing.me:
            self.requests.outstanding.pop(request, None)
            if self._turns:
                self._turns -= 1
        elif sender in self._had_turn:
            self._had_turn = {sender: None}
            if self._turns < self.parameters.window:
                self._turns += 1
        else:
            self._had_turn[sender] = None
        if not number % self._stride:
            self._update_stable()
        if self._immediate and log.delivered == number - 1:
            # Most of what a sequencer ever does is this; no view is proposed, or there would be no number.
            standing.allowed = log.delivered = number
            self._deliver(self.group, sender, batch, number)
        else:
            self._advance()
            self._deliver_ready()
        self._busy = True
        self.host.send(self.others, Broadcast(self.group, self.epoch, number, self.stable, standing.allowed, entry))

    def receive(self, source: ProcessId, packet: Any) -> None:
        """A packet for the sequencer of this epoch; whatever it is, it carries an acknowledgement."""
        if not self._note(source, packet.ack, packet.behind):
            return
        if packet.__class__ is Request:
            self.ask_number(source, packet.request, packet.batch)
        else:
            self._handlers[packet.__class__](source, packet)

    def ask_number(self, source: ProcessId, request: int, batch: Batch) -> None:
        """A request: it is numbered now, held until it may be, or known."""
        last = self.log.table.get(source, 0)
        if request <= last:
            self._duplicate(source, request)
        elif request == last + 1 and self.open:
            self.number(source, request, batch)
            if source in self.held:
                self.held[source].pop(request, None)
                self._number_held()
            else:
                self._take_turn()
        elif request <= last + self.parameters.window:
            held = self.held.setdefault(source, {})
            held[request] = batch
            if request == last + 1:
                self.wait_for_room()
            elif request - 1 not in held:
                situation = "request overtook an earlier one"
                self.host.record("block", self.group, request=request, process=source, situation=situation)

    def _duplicate(self, source: ProcessId, request: int) -> None:
        """Its sender timed out. Tell it what became of the request (2.1); it is never broadcast again."""
        number = self.log.find(source, request)
        situation = "duplicate request" if number is not None else "duplicate of a purged request"
        self.host.record("drop", self.group, process=source, request=request, situation=situation)
        if number is not None:
            self._bring(source, number, number)

    def _number_held(self) -> None:
        """Numbers what had to wait, one of each sender in turn, in each sender's own order. There may be room for a few only; a
        sender that had its turn goes to the end, and the sequencer takes its own as soon as it is due; or some would starve."""
        progress = True
        while progress:
            progress = False
            for source in list(self.held):
                self._take_turn()
                held = self.held[source]
                request = self.log.table.get(source, 0) + 1
                if request in held and self.open:
                    self.number(source, request, held.pop(request))
                    self._end_turn(source)
                    progress = True
                if not held:
                    del self.held[source]
        self._take_turn()

    def _take_turn(self) -> None:
        if self._turns and self.requests.wants_number:
            self.pump()

    def _end_turn(self, source: ProcessId) -> None:
        self.held[source] = self.held.pop(source)

    def resume(self) -> None:
        """There may be room again."""
        if self.open:
            self.capacity.unblock()
            self._number_held()
            self.pump()
        if self.held or self.requests.wants_number:
            self.wait_for_room()

    # --- acknowledgements -------------------------------------------------------------------------------------------

    def _note(self, source: ProcessId, ack: int, behind: int) -> bool:
        """Takes an acknowledgement; False if its sender is no member."""
        known = self.acked.get(source)
        if known is None:
            self._door.tell_excluded(source)
            return False
        self.hearing.note(source)
        if ack > self.log.contiguous:
            ack = self.log.contiguous  # nobody has more than there is
        news = known <= self.stable or not self._immediate  # it was one of the last, or what it has may be delivered
        if behind or self.capacity.read_upto:
            news |= self.capacity.note(source, ack - behind, max(ack, known), self.host.now)
        if ack > known:  # packets can be reordered: the table keeps the maximum
            self.acked[source] = ack
            if self.welcomes:
                self.welcomes.pop(source, None)
            if self.proposed or self.parameters.resilience:
                self._advance()
        if news and self.capacity.full_since is not None:
            self.resume()
        elif ack > known and self.requests.wants_number:
            self._update_stable()
            self.pump()
        return source in self.acked  # what was just decided may have removed it

    def _on_ack(self, source: ProcessId, packet: Ack) -> None:
        """From somebody who had nothing else to say. That everybody has everything is news for who waits for it."""
        if packet.ack == self.log.contiguous and packet.ack > self.stable:
            self._update_stable()
            if packet.ack == self.stable:
                self._busy = True
                self.announce(self.others)

    def _on_nack(self, source: ProcessId, packet: Nack) -> None:
        room = BROUGHT_AT_ONCE
        for first, last in ((packet.first, packet.last), *packet.further):
            last = min(last, first + room - 1, self.log.contiguous)
            self._bring(source, first, last)
            room -= max(0, last - first + 1)
            if room <= 0:
                return

    def _bring(self, source: ProcessId, first: int, last: int) -> None:
        log = self.log
        for number in range(max(first, log.low + 1), last + 1):
            entry = log.entries[number]
            self.host.send((source,), Broadcast(self.group, self.epoch, number, self.stable, self.standing.allowed, entry))

    def _update_stable(self) -> None:
        """Every member has everything up to the lowest acknowledgement: it leaves the history."""
        self._settle(min(self.acked.values(), default=self.log.contiguous))

    def _settle(self, stable: int) -> None:
        if stable > self.stable:
            self.stable = stable
            self.host.stable(self.group, stable)
        self.log.purge(self.stable)

    def _advance(self) -> None:
        """Moves ``allowed`` as far as acknowledgements permit: messages need ``resilience`` members, a view a majority."""
        standing = self.standing
        limit = self.proposed[0][0] - 1 if self.proposed else self.log.contiguous
        needed = min(self.parameters.resilience, len(self.others))
        if needed:
            held = self._held_by(needed)
            # Holding an old epoch's entry is not enough: a longer history of another epoch could still win over it.
            limit = min(limit, held) if held > standing.base else standing.allowed
        decided = bool(self.proposed) and self._decided()
        if decided:
            limit = self.proposed[-1][0]
            self.proposed.clear()
        if limit > standing.allowed:
            standing.allowed = limit
            if decided or self.parameters.resilience:
                audience = self.others
                self._deliver_ready()
                if not standing.done:
                    self.announce(audience)
        if decided and not standing.done:
            self._next_step()

    def _held_by(self, needed: int) -> int:
        """The last number that at least ``needed`` others have acknowledged."""
        return sorted(self.acked.values(), reverse=True)[needed - 1]

    def _decided(self) -> bool:
        """A majority of each view holds its successor, and with it the beginning of this epoch. Where any survivor goes on: all
        that live do, or the next sequencer might not find what is in force here."""
        last = self.proposed[-1][0]
        for _, deciders in self.proposed:
            lacking = [p for p in deciders if p != self.standing.me and self.acked.get(p, -1) < last]
            if self._any_survivor:
                if any(process in self.acked and process not in self.hearing.suspects for process in lacking):
                    return False
            elif 2 * len(lacking) >= len(deciders):
                return False
        return True

    def announce(self, to: tuple[ProcessId, ...]) -> None:
        standing = self.standing
        over = self.phase_number - 1 if self.phase is not None else self.phase_number
        lineage, highest = tuple(self.log.lineage), self.log.contiguous
        begun = (self.group, self.epoch, standing.base, lineage, self.voters)
        self.host.send(to, Announce(*begun, highest, self.stable, standing.allowed, over))

    def introduce(self, source: ProcessId) -> None:
        """Tells a member that has not heard of this epoch."""
        if source in self.acked:
            self.announce((source,))

    # --- synchronisation phase (2.2) --------------------------------------------------------------------------------

    def full_for_long(self) -> None:
        if self.capacity.full_since is None or self.phase is not None or self.proposed:
            return
        if self.open:
            self.resume()
        elif self.capacity.is_history_full:
            self._start_phase("history full")

    def _start_phase(self, why: str) -> None:
        self.phase_number += 1
        highest = self.log.contiguous
        self.phase = Phase(self.phase_number, highest, dict.fromkeys(self.others), self.host.now)
        situation = f"synchronisation: {why}"
        self.host.record("sync", self.group, phase=self.phase_number, highest=highest, why=why, situation=situation)
        if self.others:
            self.host.send(self.others, self.phase.packet(self.group, self.epoch, self.stable))
        else:
            self._end_phase_step()

    def _on_ack_commit(self, source: ProcessId, packet: AckCommit) -> None:
        current = self.phase
        if current is None or packet.phase != current.number or packet.step != current.step:
            return  # of an earlier phase or step: phases are numbered so that a late answer ends nothing
        current.waiting.pop(source, None)
        if not current.waiting:
            self._end_phase_step()

    def _end_phase_step(self) -> None:
        phase = self.phase
        assert phase is not None
        if phase.step == 1:
            phase.step = 2
            phase.since = self.host.now
            self._settle(phase.highest)
            phase.waiting = dict.fromkeys(self.others)
            self.host.send(self.others, phase.packet(self.group, self.epoch, self.stable))
            if self.others:
                return
        self.phase = None
        self.host.record("sync", self.group, phase=phase.number, over=True)
        if self.joining and not self.hearing.suspects:
            self._let_in()
        else:
            self._next_step()

    # --- views ------------------------------------------------------------------------------------------------------

    def ask_join(self, source: ProcessId) -> None:
        welcome = self.welcomes.get(source)
        if welcome is not None:
            self.hearing.note(source)  # it lives, though it has not got its welcome yet
            self.host.send((source,), welcome)
        elif source not in self.acked and not self._is_outdated(source):
            if len(self.joining) < JOINING:
                self.joining[source] = None
            self._next_step()

    def _is_outdated(self, source: ProcessId) -> bool:
        """Whether a later incarnation of a joiner is a member or joins: then this packet comes from a dead process."""
        place, number = place_of(source), incarnation_of(source)
        later = any(place_of(p) == place and incarnation_of(p) > number for p in (*self.acked, *self.joining))
        self.joining = {p: None for p in self.joining if place_of(p) != place or incarnation_of(p) >= number}
        return later

    def _on_ask_leave(self, source: ProcessId, packet: AskLeave) -> None:
        self.leaving[source] = None
        self._next_step()

    def _next_step(self) -> None:
        """Starts the next view change that is due, or goes on numbering."""
        if self.proposed or self.standing.done:
            return
        removable = {p: reason for p, reason in (self._stuck | self.hearing.suspects).items() if p in self.acked}
        removable |= {p: Reason(LEFT, f"{p} asked to leave") for p in self.leaving if p in self.acked}
        # A view of which half is silent already would be decided by too few: wait until they are heard or suspected too.
        if removable and self._majority_heard() and self.hearing.all_lately(removable):
            if self.phase is not None:
                self.host.record("sync", self.group, phase=self.phase.number, situation="view change during synchronisation")
                self.phase = None
            self._propose(removable, ())
        elif self.joining and self.phase is None and not self.hearing.suspects:
            self._start_phase("join")
        elif self.phase is None:
            self.resume()

    def _let_in(self) -> None:
        """Everybody is up to date: the next entry is a view with the joiners. An older incarnation of a joiner is dead."""
        joiners = tuple(self.joining)
        self.joining.clear()
        places = {place_of(process) for process in joiners}
        former = [process for process in self.acked if place_of(process) in places]
        self._propose({process: Reason("restarted", f"{process} came back as a new process") for process in former}, joiners)

    def _propose(self, left: dict[ProcessId, Reason], joined: tuple[ProcessId, ...]) -> None:
        newest = self.log.newest
        assert newest is not None
        members = self._staying(newest, left) + joined
        gone = tuple((process, reason.code, reason.text) for process, reason in left.items())
        change = Change(newest.number + 1, members, joined, gone, self.phase_number)
        entry = Entry(self.standing.me, 0, None, change)
        assert members, "a view has members"
        number = self.log.append(entry)
        self._add_proposal(number, change)
        self.host.record("confirm", self.group, proposed=change.number, members=list(members), number=number)
        everybody = (*newest.members, *joined)
        for _, deciders in self.proposed:
            everybody += tuple(process for process in deciders if process not in everybody)
        self._admit(everybody)
        for process in joined:
            self._welcome(process, number)
        self._busy = True
        old = tuple(process for process in self.others if process not in joined)
        self.host.send(old, Broadcast(self.group, self.epoch, number, self.stable, self.standing.allowed, entry))
        self._advance()

    def _staying(self, newest: Change, left: dict[ProcessId, Reason]) -> tuple[ProcessId, ...]:
        return tuple(process for process in newest.members if process not in left)

    def installed(self, change: Change) -> None:
        """A view that we proposed is in force."""
        self.hearing.forget(change.members)
        self.leaving = {p: None for p in self.leaving if p in change.members}
        if not self.proposed:
            self._admit(change.members)
            self.welcomes = {p: welcome for p, welcome in self.welcomes.items() if p in change.members}

    # --- the clock's tick -------------------------------------------------------------------------------------------

    def tick(self, stopped: bool, *, electing: bool) -> tuple[Ending, Reason] | None:
        """Suspects silent members and repeats what may be lost. Returns how and why the office has to end, if it does."""
        now = self.host.now
        if stopped:
            self._forgive(now)
        self.hearing.look(now)
        if not self._asking:
            self.ask()
        if self._any_survivor and self.proposed and self.hearing.suspects:
            self._advance()
            if self.standing.done:
                return None
        reason = self._alone() or self._look_for_stuck(now, electing)
        if reason is not None:
            return Ending.RESIGN, reason
        since = self.standing.undecided_since
        if self.proposed and since is not None and now - since > self.parameters.patience + ROUND_TRIPS * self._pace:
            number = self.proposed[0][0]
            text = f"{self.standing.me} has tried for long to decide on the view at number {number}, of which too few are left"
            return Ending.HALT, Reason("minority", text)
        self._update_stable()
        if not self._busy or self.proposed or self.welcomes:
            self.announce(self.others)
        self._busy = False
        for process, welcome in list(self.welcomes.items()):
            self.host.send((process,), welcome)
        if self.phase is not None:
            self._repeat_phase(now)
        elif not self.proposed:
            self._next_step()
            full_since = self.capacity.full_since
            if full_since is not None and now - full_since >= self.parameters.sync_after:
                self.full_for_long()
        return None

    def ask(self) -> None:
        """Asks members that will be suspected if they are not heard soon, and again after ``ask_every`` until that is settled."""
        silent = self.hearing.silent(self.host.now)
        self._asking = bool(silent)
        if silent:
            self.host.send(silent, Ask(self.group, self.epoch))
            self.host.set_timer("ask", self.host.now + self.parameters.ask_every)

    def _forgive(self, now: int) -> None:
        """This process was stopped: the other members were neither silent nor late."""
        self.hearing.forgive(now)
        if self.phase is not None:
            self.phase.since = now
        if self.capacity.full_since is not None:
            self.capacity.full_since = now

    def _alone(self) -> Reason | None:
        """Why the sequencer resigns if it hears no majority: only an election brings back members that did not vote for it."""
        if self._majority_heard():
            return None
        missing = ", ".join(self.hearing.suspects)
        return Reason("alone", f"the sequencer {self.standing.me} hears no majority without {missing}")

    def _look_for_stuck(self, now: int, electing: bool) -> Reason | None:
        """Finds members whose applications hold the group up for too long; returns why to hand over, if only ours does."""
        since = self.capacity.full_since
        held_up = {} if since is None else {p: now - max(since, full) for p, full in self.capacity.not_reading().items()}
        stuck = {p: not_reading(p, length) for p, length in held_up.items() if length > self.parameters.patience}
        own = stuck.pop(self.standing.me, None)
        for process, reason in stuck.items():
            if process not in self._stuck:
                self.host.record("suspect", self.group, process=process, **reason.to_detail())
        self._stuck = stuck
        if own is not None and not stuck and self.others and self.may_be_handed_over() and not electing:
            self.host.record("elect", self.group, stage="hand-over", situation="sequencer does not read")
            return own
        return None

    def _majority_heard(self) -> bool:
        """Whether we hear a majority of all whose word is needed."""
        assert self.standing.view is not None
        return self._any_survivor or all(
            2 * sum(1 for process in deciders if process not in self.hearing.suspects) > len(deciders)
            for deciders in (self.standing.view.members, *(deciders for _, deciders in self.proposed))
        )

    def _repeat_phase(self, now: int) -> None:
        phase = self.phase
        assert phase is not None
        if now - phase.since > self.parameters.patience:
            for process in phase.waiting:
                reason = Reason("synchronisation", f"{process} has not completed synchronisation phase {phase.number} in time")
                self.hearing.suspects.setdefault(process, reason)
        if any(process in self.hearing.suspects for process in phase.waiting):
            self._next_step()
        if self.phase is phase:
            self.host.send(tuple(phase.waiting), phase.packet(self.group, self.epoch, self.stable))

    def close(self, superseded_by: int) -> None:
        """A later epoch deposes this sequencer."""
        self.capacity.unblock()
        during = "synchronisation" if self.phase is not None else "view change" if self.proposed else ""
        situation = "sequencer deposed"
        self.host.record("state", self.group, epoch=self.epoch, superseded_by=superseded_by, during=during, situation=situation)
        own = [number for number, _ in self.proposed if number > self.standing.base]
        if own:
            # Only we could have said that it is in force. Kept, it could bind the survivors to a member that does not survive:
            # {a, b, c} without c becomes {a, b}, b crashes, c comes back, and a majority of {a, b} never comes.
            self.log.withdraw(own[0], self.standing.view)

    def may_be_handed_over(self) -> bool:
        """Nothing is under way, and everybody has everything."""
        return not self.proposed and self.phase is None and self._behind() is None

    def _behind(self) -> ProcessId | None:
        return next((process for process, ack in self.acked.items() if ack < self.log.contiguous), None)

    def waiting(self) -> Reason | None:
        """What the office still has to do."""
        if self.proposed:
            return Reason("view", f"a majority has yet to acknowledge view number {self.proposed[0][0]} of the order")
        if self.phase is not None:
            return Reason("synchronisation", f"phase {self.phase.number} waits for {', '.join(self.phase.waiting)}")
        if self.joining or self.leaving or self.welcomes:
            return Reason("membership", "somebody waits to be let in or go")
        if self.hearing.suspects:
            return Reason("suspects", f"{', '.join(self.hearing.suspects)} are suspected and still members")
        if self.capacity.full_since is not None:
            return self.capacity.why(self.acked)
        if self.held:
            return Reason("held", f"requests of {', '.join(self.held)} wait for earlier ones")
        if (process := self._behind()) is not None:
            return Reason("acknowledgement", f"{process} has not acknowledged number {self.log.contiguous}")
        return None
