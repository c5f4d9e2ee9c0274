"""Formations (9.2): how a group comes to be, how processes come into it, and how its parts come together again.

Theory of operation
-------------------
Within a *formation* a group's view only shrinks. Whatever makes it grow is a new formation of the group: a group that is formed,
a process that joins (a part of one member), and parts of a partitioned group that meet again are the same thing, a set of
*parts* that come together. Each part goes over as one, so that its members have delivered the same messages before.

**Finding each other.** The first member of a view is its part's *leader*. It shows itself to all whom the part has lost
(``Beacon``, every ``merge_after``). Of two leaders that know of each other the one with the smaller name calls the other. A
joiner asks whomever it knows (``AskJoin``); that is passed on to the leader, and answered (``NOTED``), by which the joiner
knows how far the group is.

**Coming together.** The leader calls the other leaders (``Call``), who follow one call at a time (``Answer``). Then it makes a
``Plan``: a tag that no other formation has, the number of the first view, larger than any that a part can have reached by then,
the members of all parts. Each leader multicasts it in its part (``Move``), where it has a place in the order. The first Move
that is delivered is followed: everybody stops sending and says ``Close``; at the last Close the part has delivered everything
that it sent, and each member enters the new formation: it installs the view, and says so with its block counter (``Opening``).
A joiner enters by the first Opening that names it. Nobody sends before everybody's Opening is there, and then with larger
numbers, so that the order of messages holds across formations and groups.

**What fails on the way.** A part whose leader dies in between may not come. Then the others miss its members' Openings, suspect
them and remove them like any member; what is left on both sides finds each other again. A late answer or plan, and an Opening of
another formation, are recognised by tags and names: an attempt is (caller, its number), a formation is its tag, a restarted
process has another name.

**Slow networks.** An answer can take longer than the caller waits. The caller says so (``Abandon``) and waits twice as long the
next time; a later call of the same caller takes the place of the one that is followed. What each part knows about how long
blocks take, and how long the answer took, goes into the plan, so that a formation does not begin with an omega that has been too
short before. If a formation loses a member soon all the same, the next attempt to come together waits, twice as long each time.

**Forming** a group from processes that agree: the proposer calls each of them (``Call.invited``), their applications are asked,
and those who agree are in the plan. **Closing and renaming** (2.3) are moves too: to no formation, or to one with another name.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final
from zlib import crc32

from msgspec import structs

from ...core.model import Consent, GroupId, Invitation, ProcessId, Reason, View
from .attempts import Attempt, Convened, Entry, Followed
from .delivery import RANK_BITS
from .membership import DEPARTED
from .packets import Abandon, Answer, AskJoin, Beacon, Call, Convene, Members, Move, Opening, Plan
from .parameters import LONGEST
from .suspector import MOST_LEARNED

if TYPE_CHECKING:
    from .part import Part
    from .process import Process

LOST: Final = 256  # lost members that are looked for; the oldest are given up
PASSED_ON: Final = 32  # lost members that a plan tells newcomers of
ASKERS: Final = 256  # processes noted that want to be let in; further ones ask again
FOUND: Final = 64  # parts that are called together
PROPOSED: Final = 64  # proposals before the application, and proposals it may have agreed to; further ones are not answered
SMALL: Final = 64  # members that can always come together
FARTHEST: Final = 1 << 20  # numbers of views of two parts do not differ by more
# A process that wants to join, or has proposed a group, gives up after this multiple of ``suspect_after``: four of the longest
# omegas, because a group first agrees on who has failed, and then moves.
ENTRY_PATIENCE: Final = 32
ANSWER_PATIENCE: Final = 2  # multiple of ``suspect_after`` that a call first waits for answers, and a plan to be in force
DOUBLINGS: Final = 4  # waits that grow are doubled at most this often
SHORT_LIVED: Final = 8  # a formation that loses a member within this multiple of ``suspect_after`` was a failure
NOTED: Final = 0  # number of no attempt, in the answer to a process that asks to be let in
CALLS: Final = 8  # calls whose answers tell how far other parts are
FIRST_TAG: Final = 2  # tags of plans begin here: 1 is the first formation of a group that is formed by all at once


class Formations:
    """Everything about forming, for all groups of a process."""

    def __init__(self, process: Process) -> None:
        self.process = process
        self.host = process.host
        self.parameters = process.parameters
        self.entries: dict[GroupId, Entry] = {}
        self.attempts: dict[GroupId, Attempt] = {}
        self.lost: dict[GroupId, dict[ProcessId, None]] = {}  # members that have failed, or seem to have
        self.askers: dict[GroupId, dict[ProcessId, None]] = {}
        self.found: dict[GroupId, dict[ProcessId, Beacon]] = {}  # other parts' leaders, whom this process would call
        self.followed: dict[GroupId, Followed] = {}
        self.plans: dict[GroupId, Convened] = {}
        self.wishes: dict[GroupId, GroupId] = {}  # groups to be renamed, or, empty, closed
        self._wished: dict[GroupId, int] = {}  # the formation in which that was last said; another move may have come first
        self._timers: dict[GroupId, int] = {}
        self._asked: dict[tuple[GroupId, ProcessId, int], None] = {}  # proposals that the application has been asked about
        self._count = 0
        self._calls: dict[GroupId, dict[int, int]] = {}  # when the latest calls began, also those that were given up
        self._slowest: dict[GroupId, int] = {}  # the time that the slowest answer took since the formation in force began
        self._unanswered: dict[GroupId, int] = {}  # calls in a row that ended without an answer that agrees
        self._failures: dict[GroupId, int] = {}  # formations in a row that lost a member soon
        self._entered: dict[GroupId, int] = {}  # when the formation in force began here
        self._not_before: dict[GroupId, int] = {}  # when other parts may be called again

    # --- coming in ----------------------------------------------------------------------------------------------------

    def ask_to_join(self, group: GroupId, contacts: Members) -> None:
        self.entries[group] = Entry(contacts, self.host.now, self._after(ENTRY_PATIENCE))
        self._ask(group)

    def _after(self, patience: int) -> int:
        """So many times ``suspect_after`` from now."""
        return self.host.now + patience * self.parameters.suspect_after

    def _ask(self, group: GroupId) -> None:
        self.host.send(self.entries[group].contacts, AskJoin(group, self.host.me))
        self._timer(group, self.parameters.alive_every)

    def propose(self, group: GroupId, members: Members) -> None:
        """Forms a group of those of these processes that agree."""
        others = tuple(member for member in members if member != self.host.me)
        self._count += 1
        deadline = self._after(ENTRY_PATIENCE)
        self.attempts[group] = Attempt(self._count, self.host.now, deadline, dict.fromkeys(others), invited=True)
        self.host.record("form", group, stage="propose", members=list(members), situation="proposes")
        self._call(group)
        if not others:
            self._conclude(group)

    def _call(self, group: GroupId) -> None:
        """Calls those who have not answered."""
        attempt = self.attempts[group]
        invited = (self.host.me, *attempt.called) if attempt.invited else ()
        for process, answer in attempt.called.items():
            if answer is None:
                self.host.send((process,), Call(group, attempt.number, invited, attempt.deadline - self.host.now))
        self._timer(group, self.parameters.alive_every)

    def consent(self, consent: Consent) -> None:
        """The application has decided about a proposal."""
        invitation, agrees, text = consent.invitation, consent.agrees, consent.text
        group = invitation.group
        if agrees and (group in self.process.parts or not self._is_free(group, invitation.proposer)):
            agrees, text = False, f"{self.host.me} is in {group} already, or about to be"
        if agrees:
            self.attempts.pop(group, None)
            deadline = self._after(ENTRY_PATIENCE)
            self.entries[group] = Entry((), self.host.now, deadline, invitation.proposer, invitation.attempt, invitation.members)
            self._timer(group, self.parameters.alive_every)
        self.host.send((invitation.proposer,), Answer(group, invitation.attempt, agrees, text=text))
        if not agrees:
            self._asked.pop((group, invitation.proposer, invitation.attempt), None)

    def _is_free(self, group: GroupId, proposer: ProcessId) -> bool:
        """Whether another's proposal may be followed: a proposer follows one with a smaller name."""
        entry = self.entries.get(group)
        if entry is not None:
            return entry.agreed_with == proposer
        return group not in self.attempts or proposer < self.host.me

    def awaits(self, source: ProcessId, plan: Plan) -> bool:
        """Whether this process enters by an Opening with this plan, from somebody of whom it knows."""
        entry = self.entries.get(plan.name)
        is_new = plan.name not in self.process.parts and is_sound(plan, source, self.host.me)
        return entry is not None and is_new and entry.knows(source)

    # --- packets ------------------------------------------------------------------------------------------------------

    def receive(self, source: ProcessId, packet: Any) -> None:
        if type(packet) is Answer:
            self._answered(source, packet)
            return
        if type(packet) is Call and packet.invited:
            self._invited(source, packet)
            return
        part = self.process.parts.get(packet.group)
        if type(packet) is Beacon and not packet.members:
            return
        if part is None and type(packet) is Beacon and packet.group in self.entries:
            self.host.send((packet.members[0],), AskJoin(packet.group, self.host.me))
        if part is None or part.membership is None or part.membership.bye:
            return
        leader = self._leader(part)
        if type(packet) is Call:
            self._called(part, leader, source, packet)
        elif type(packet) is Abandon:
            followed = self.followed.get(part.group)
            if followed is not None and followed.is_of(source, packet.attempt):
                del self.followed[part.group]
        elif type(packet) is AskJoin and (column := part.matrix.columns.get(packet.process)) is not None:
            if not column.last:
                column.heard = self.host.now  # it lives, and the Opening is still on its way to it
        elif leader != self.host.me:
            if type(packet) is not Convene and source != leader:
                self.host.send((leader,), packet)
            if type(packet) is AskJoin and source == packet.process:  # the leader may be dead
                self.host.send((source,), Answer(part.group, NOTED, False))
        elif type(packet) is Beacon:
            self._saw(part, packet)
        elif type(packet) is AskJoin:
            self._asked_by(part, packet.process)
        else:
            self._convened(part, source, packet)

    def _asked_by(self, part: Part, process: ProcessId) -> None:
        """A process wants to be let in."""
        askers = self.askers.setdefault(part.group, {})
        if process and (process in askers or len(askers) < ASKERS):
            askers[process] = None
            self.host.send((process,), Answer(part.group, NOTED, False))
            self._timer(part.group, 0)

    def _leader(self, part: Part) -> ProcessId:
        assert part.membership is not None
        return part.membership.survivors[0]

    def _saw(self, part: Part, beacon: Beacon) -> None:
        """Another part shows itself."""
        leader = beacon.members[0]
        if any(member in part.members for member in beacon.members) or not self.parameters.merge_after:
            return
        if leader < self.host.me:
            self.host.send((leader,), self._beacon(part))
            return
        found = self.found.setdefault(part.group, {})
        if leader in found or len(found) < FOUND:
            found[leader] = beacon
            self._timer(part.group, self.parameters.merge_after // 4)

    def _beacon(self, part: Part) -> Beacon:
        return Beacon(part.group, part.number, part.members)

    def _called(self, part: Part, leader: ProcessId, source: ProcessId, call: Call) -> None:
        """Follows one call at a time."""
        membership = part.membership
        assert membership is not None
        followed = self.followed.get(part.group)
        busy = followed is not None and not followed.gives_way_to(source, call.attempt) and followed.until > self.host.now
        refusal = ""
        if leader != self.host.me:
            refusal = f"{leader} leads"
        elif source in part.members:
            refusal = f"{source} is a member here"
        elif busy or not part.open or not membership.calm or (part.group in self.attempts and source > self.host.me):
            refusal = "busy"
        if refusal:
            self.host.send((source,), Answer(part.group, call.attempt, False, text=refusal))
            self.host.record("form", part.group, stage="refuse", caller=source, why=refusal, situation="refuses a call")
            return
        self._give_up(part.group)
        wait = min(call.wait, ANSWER_PATIENCE * self.parameters.suspect_after << DOUBLINGS)
        self.followed[part.group] = Followed(source, call.attempt, self._after(ANSWER_PATIENCE) + wait)
        self.host.record("form", part.group, stage="answer", caller=source, situation="follows a call")
        number, patience = part.reach, membership.suspector.learned
        self.host.send((source,), Answer(part.group, call.attempt, True, number, part.members, patience=patience))

    def _give_up(self, group: GroupId) -> None:
        """Our own call, if there is one, is void: those who follow it are told."""
        attempt = self.attempts.pop(group, None)
        if attempt is not None and not attempt.invited:
            self._abandon(group, attempt.number, tuple(attempt.called))

    def _abandon(self, group: GroupId, attempt: int, leaders: Members) -> None:
        if leaders:
            self.host.send(leaders, Abandon(group, attempt))
            self.host.record("form", group, stage="abandon", called=list(leaders), situation="abandons a call")

    def _invited(self, source: ProcessId, call: Call) -> None:
        group = call.group
        entry = self.entries.get(group)
        if entry is not None and (entry.agreed_with, entry.attempt) == (source, call.attempt):
            self.host.send((source,), Answer(group, call.attempt, True))
        elif group in self.process.parts or not self._is_free(group, source):
            text = f"{self.host.me} is in {group} already, or about to be"
            self.host.send((source,), Answer(group, call.attempt, False, text=text))
        elif group in self.attempts:  # it wants this group anyway
            self.consent(Consent(Invitation(group, source, call.invited, call.attempt), True))
        elif (group, source, call.attempt) not in self._asked:
            agreed = sum(1 for entry in self.entries.values() if entry.agreed_with)
            if len(self._asked) < PROPOSED and agreed < PROPOSED:
                self._asked[group, source, call.attempt] = None
                self.host.invited(Invitation(group, source, call.invited, call.attempt))

    def _answered(self, source: ProcessId, answer: Answer) -> None:
        attempt = self.attempts.get(answer.group)
        self._learn(source, answer)
        if attempt is None or attempt.number != answer.attempt or source not in attempt.called:
            convened = self.plans.get(answer.group)
            is_planned = convened is not None and convened.attempt == answer.attempt
            if answer.agrees and not is_planned and answer.group in self.process.parts:
                self._abandon(answer.group, answer.attempt, (source,))
            return
        attempt.called[source] = answer
        if all(one is not None for one in attempt.called.values()):
            self._conclude(answer.group)

    def _learn(self, source: ProcessId, answer: Answer) -> None:
        """How long an answer takes, be it too late: a call waits for twice that."""
        group = answer.group
        entry = self.entries.get(group)
        if answer.attempt == NOTED and entry is not None:
            entry.noted(self.host.now)
        started = self._calls.get(group, {}).get(answer.attempt)
        if started is None:
            return
        limit = MOST_LEARNED * self.parameters.suspect_after
        self._slowest[group] = min(max(self._slowest.get(group, 0), self.host.now - started), limit)
        attempt = self.attempts.get(group)
        if attempt is not None and not attempt.invited:
            attempt.deadline = max(attempt.deadline, attempt.started + self._wait_for_answers(group))

    def _convened(self, part: Part, source: ProcessId, convene: Convene) -> None:
        """The plan of a call that this part follows."""
        followed = self.followed.get(part.group)
        if followed is None or not followed.is_of(source, convene.attempt):
            return
        plan = convene.plan
        is_merge = plan.name == part.group and plan.form != part.form and part.number < plan.number <= part.number + FARTHEST
        if not is_merge or not set(part.members) <= set(plan.members) or not is_sound(plan, source, self.host.me):
            return
        self.followed[part.group] = Followed("", 0, self._after(ANSWER_PATIENCE))
        self.process.say(part, Move(convene.plan))

    # --- time ---------------------------------------------------------------------------------------------------------

    def _timer(self, group: GroupId, after: int) -> None:
        """Sees to it that the group is looked at after so long, or earlier."""
        due = self.host.now + after
        if group not in self._timers or due < self._timers[group]:
            self._timers[group] = due
            self.host.set_timer(("form", group), due)

    def expire(self, group: GroupId) -> None:
        self._timers.pop(group, None)
        entry = self.entries.get(group)
        if entry is not None:
            self._go_on_entering(group, entry)
        attempt = self.attempts.get(group)
        if attempt is not None:
            if self.host.now >= attempt.deadline:
                self._conclude(group)
            else:
                self._call(group)
        part = self.process.parts.get(group)
        if part is not None and part.membership is not None and not part.membership.bye:
            self._look_around(part)

    def _go_on_entering(self, group: GroupId, entry: Entry) -> None:
        if self.host.now < entry.deadline:
            self._ask(group)
            return
        del self.entries[group]
        whom = ", ".join(entry.contacts) or entry.agreed_with
        text = f"{self.host.me} asked {whom} to be let into {group}; nobody did"
        self.host.record("form", group, stage="gave up", text=text, situation="joiner gives up")
        self.host.refused(group, Reason("no group", text, {"asked": list(entry.contacts)}))

    def _look_around(self, part: Part) -> None:
        group, membership = part.group, part.membership
        assert membership is not None
        convened = self.plans.get(group)
        if convened is not None:
            self._convene_again(part, convened)
        if self._leader(part) == self.host.me:
            if part.open and membership.calm and group not in self.attempts and not self._is_following(group):
                self._come_together(part)
            lost = self.lost.get(group)
            if lost and part.open and self.parameters.merge_after:
                self.host.send(tuple(lost), self._beacon(part))
        if group in self.wishes:
            self._move_as_wished(part)
        if convened is not None or group in self.attempts or self.askers.get(group):
            self._timer(group, self.parameters.alive_every)
        if self.lost.get(group) and self.parameters.merge_after:
            self._timer(group, self.parameters.merge_after)

    def _convene_again(self, part: Part, convened: Convened) -> None:
        """Leaders who may not have the plan get it again, until it is in force here, or overtaken."""
        plan = convened.plan
        there = part.form == plan.form
        if (there and part.open) or (not there and plan.number <= part.number):
            del self.plans[part.group]
            return
        for leader in convened.leaders:
            column = part.matrix.columns.get(leader)
            if not there or (column is not None and column.last == 0):
                self.host.send((leader,), Convene(part.group, convened.attempt, plan))

    def _is_following(self, group: GroupId) -> bool:
        if group in self.followed and self.followed[group].until <= self.host.now:
            del self.followed[group]
        return group in self.followed

    # --- plans --------------------------------------------------------------------------------------------------------

    def _come_together(self, part: Part) -> None:
        """Calls the other parts that were found; lets joiners in."""
        group, found = part.group, {}
        if group in self.plans:
            return
        if self.host.now >= self._not_before.get(group, 0):
            found = {leader: beacon for leader, beacon in self.found.pop(group, {}).items() if leader not in part.members}
        if found:
            self._count += 1
            deadline = self.host.now + self._wait_for_answers(group)
            calls = self._calls.setdefault(group, {})
            calls[self._count] = self.host.now
            while len(calls) > CALLS:
                del calls[next(iter(calls))]
            self.attempts[group] = Attempt(self._count, self.host.now, deadline, dict.fromkeys(found))
            self.host.record("form", group, stage="call", called=list(found), situation="calls")
            self._call(group)
        elif self.askers.get(group):
            self._plan(part, [], 0)

    def _wait_for_answers(self, group: GroupId) -> int:
        """How long a call waits: twice as long as the one before, if that came to nothing, and as the slowest answer took."""
        wait = ANSWER_PATIENCE * self.parameters.suspect_after << min(self._unanswered.get(group, 0), DOUBLINGS)
        return max(wait, 2 * self._slowest.get(group, 0))

    def _conclude(self, group: GroupId) -> None:
        """All have answered, or had time to."""
        attempt = self.attempts.pop(group)
        answers = [(process, answer) for process, answer in attempt.called.items() if answer is not None and answer.agrees]
        if attempt.invited:
            self._found_group(group, attempt, answers)
            return
        self._unanswered[group] = 0 if answers else self._unanswered.get(group, 0) + 1
        part = self.process.parts.get(group)
        ready = part is not None and part.membership is not None and part.open and part.membership.calm
        if part is not None and ready and self._leader(part) == self.host.me and (answers or self.askers.get(group)):
            self._plan(part, answers, attempt.number)
        convened = self.plans.get(group)
        planned = convened.leaders if convened is not None and convened.attempt == attempt.number else ()
        self._abandon(group, attempt.number, tuple(process for process, _ in answers if process not in planned))

    def _plan(self, part: Part, answers: list[tuple[ProcessId, Answer]], attempt: int) -> None:
        group, number, leaders = part.group, part.reach, list[ProcessId]()
        parts, members = [part.members], dict.fromkeys(part.members)
        for leader, answer in answers:
            is_proper = leader in answer.members and len(set(answer.members)) == len(answer.members)
            if not is_proper or answer.number > part.number + FARTHEST or not self._has_room((*members, *answer.members)):
                continue
            if not any(member in members for member in answer.members):
                parts.append(answer.members)
                members.update(dict.fromkeys(answer.members))
                number = max(number, answer.number)
                leaders.append(leader)
        newcomers = tuple(process for process in self.askers.get(group, {}) if process not in members)
        while newcomers and not self._has_room((*members, *newcomers)):
            newcomers = newcomers[: len(newcomers) // 2]  # the others ask again
        parts += [(process,) for process in newcomers]
        if len(parts) == 1:
            return
        members.update(dict.fromkeys(newcomers))
        assert part.membership is not None
        failed = self.parameters.suspect_after << min(self._failures.get(group, 0), LONGEST.bit_length() - 1)
        slowest = self._slowest.get(group, 0) if answers else 0
        patience = max(part.membership.suspector.learned, 2 * slowest, failed, *(answer.patience for _, answer in answers))
        plan = self.make_plan(group, number + 1, tuple(members), tuple(parts), newcomers)
        plan = structs.replace(plan, patience=patience if patience > self.parameters.suspect_after else 0)
        self.plans[group] = Convened(plan, attempt, tuple(leaders))
        known = {"form": plan.form, "number": plan.number, "members": list(members), "parts": [list(one) for one in parts]}
        situation = f"plan of {len(parts)} parts" if leaders else "lets joiners in"
        self.host.record("form", group, stage="plan", **known, situation=situation)
        self.process.say(part, Move(plan))
        for leader in leaders:
            self.host.send((leader,), Convene(group, attempt, plan))
        self._timer(group, self.parameters.alive_every)

    def _has_room(self, members: Members) -> bool:
        """Whether a plan with these, who are named twice in it, goes into a packet whatever else it says."""
        return len(members) <= SMALL or 4 * sum(len(member) + 3 for member in members) <= self.host.max_packet

    def make_plan(
        self, group: GroupId, number: int, members: Members, parts: tuple[Members, ...] = (), newcomers: Members = ()
    ) -> Plan:
        """A plan whose tag no other has: it is of this process, and of this moment."""
        self._count += 1
        text = f"{group}/{number}/{self.host.me}/{self._count}/{','.join(members)}"
        form = FIRST_TAG + (crc32(text.encode()) & 0x7FFF_FFFF)
        lost = tuple(process for process in self.lost.get(group, {}) if process not in members)[-PASSED_ON:]
        return Plan(form, group, number, members, parts, newcomers, lost)

    def _found_group(self, group: GroupId, attempt: Attempt, answers: list[tuple[ProcessId, Answer]]) -> None:
        """Forms the group of those who have agreed."""
        if not answers and attempt.called:
            texts = [f"{process}: {answer.text or 'no'}" for process, answer in attempt.called.items() if answer is not None]
            silent = [process for process, answer in attempt.called.items() if answer is None]
            said = "; ".join([*texts, *(f"{process}: no answer" for process in silent)])
            self.host.refused(group, Reason("nobody agreed", f"nobody forms {group} with {self.host.me} ({said})"))
            return
        members = (self.host.me, *(process for process, _ in answers))
        self.enter(self.make_plan(group, 1, members), None)

    def wish(self, group: GroupId, name: GroupId) -> None:
        """The group is to be renamed, or, with no name, closed."""
        self.wishes[group] = name
        self._timer(group, 0)

    def _move_as_wished(self, part: Part) -> None:
        membership = part.membership
        assert membership is not None
        if part.open and membership.moving is None and self._wished.get(part.group) != part.form:
            self._wished[part.group] = part.form
            self.process.say(part, Move(self.make_plan(self.wishes[part.group], part.reach + 1, part.members)))
        self._timer(part.group, self.parameters.alive_every)

    # --- entering -----------------------------------------------------------------------------------------------------

    def finish(self, part: Part, plan: Plan) -> None:
        """A formation has ended here: everything that was sent in it is delivered."""
        self.host.record("form", part.group, stage="close", form=part.form)
        taken = plan.name != part.group and (plan.name in self.process.parts or plan.name in self.entries)
        if not plan.name or taken:  # in another group of that name: it cannot follow
            self.process.gone(part)
        else:
            self.enter(plan, part)

    def enter(self, plan: Plan, old: Part | None) -> None:
        """This process is in a new formation."""
        group, process = plan.name, self.process
        if old is not None:
            process.retire(old)
        part = process.begin(group, plan.members, plan.form, plan.number)
        self._entered[group] = self.host.now
        if part.membership is not None:
            learned = old.membership.suspector.learned if old is not None and old.membership is not None else 0
            part.membership.suspector.begin_with(max(plan.patience, learned))
            part.membership.origins = origins(plan, old)
        part.previous, part.open = old, False
        if old is not None:
            process.goes_on(old, part if old.group == group else None)
            if old.membership is not None and part.membership is not None:
                part.membership.wants_out = old.membership.wants_out
                part.membership.expelled = old.membership.expelled
            part.flow.full = old.flow.full
        joined = tuple(member for member in plan.members if old is None or member not in old.members)
        rank = (process.counter + 1) << RANK_BITS if part.order == "total" else None  # after all that was delivered here
        view = View(group, plan.number, plan.members, joined, {}, rank, plan.parts, plan.newcomers, process.signatures(part))
        situation = f"enters with {len(plan.parts)} parts"
        self.host.record("form", group, stage="enter", form=plan.form, number=plan.number, situation=situation)
        if old is not None and old.group != group:
            self.host.renamed(old.group, view)
        else:
            self.host.install(view)
        contacts = self.entries[group].contacts if group in self.entries else ()
        known_of = (*plan.lost, *contacts, *self.lost.get(group, {}), *(self.lost.get(old.group, {}) if old is not None else ()))
        for known in (self.entries, self.attempts, self.followed, self.found, self._slowest):
            known.pop(group, None)
        self._asked = {asked: None for asked in self._asked if asked[0] != group}
        lost = dict.fromkeys(one for one in known_of if one not in plan.members)
        self.lost[group] = dict.fromkeys(list(lost)[-LOST:])
        self.askers[group] = {one: None for one in self.askers.get(group, {}) if one not in plan.members}
        if old is not None and old.group != group:
            self.forget(old.group)
        part.first = process.say(part, Opening(plan))
        process.delivery.reopened()
        process.replay_early()
        if self.lost[group] or self.askers[group] or group in self.plans:
            self._timer(group, self.parameters.merge_after or self.parameters.alive_every)

    def stays(self, group: GroupId) -> None:
        """A move is void: whoever wanted it begins anew."""
        for known in (self.plans, self.followed, self._wished):
            known.pop(group, None)
        self._timer(group, self.parameters.alive_every)

    def parted(self, group: GroupId, gone: dict[ProcessId, Reason]) -> None:
        """Members are gone from the view: they are looked for, unless they have left."""
        lost = self.lost.setdefault(group, {})
        for process, reason in gone.items():
            if reason.code not in DEPARTED:
                lost[process] = None
                self._back_off(group)
        while len(lost) > LOST:
            del lost[next(iter(lost))]
        if lost and self.parameters.merge_after:
            self._timer(group, self.parameters.merge_after)

    def _back_off(self, group: GroupId) -> None:
        """A member is lost. If that happens again and again soon after parts have come together, they take more time."""
        entered = self._entered.pop(group, None)  # counted once
        if entered is not None:
            soon = self.host.now - entered < SHORT_LIVED * self.parameters.suspect_after
            failures = self._failures[group] = min(self._failures.get(group, 0) + 1, DOUBLINGS) if soon else 0
            if failures:
                self._not_before[group] = self.host.now + (self.parameters.merge_after << failures)
                self.host.record("state", group, failures=failures, situation="parts take their time")

    def forget(self, group: GroupId) -> None:
        """This process is no longer in the group."""
        if self._timers.pop(group, None) is not None:
            self.host.cancel_timer(("form", group))
        for known in vars(self).values():
            if isinstance(known, dict):  # all that is kept by group
                known.pop(group, None)

    def unfinished(self) -> Reason | None:
        for group in self.entries:
            return Reason("entering", f"{self.host.me} is not in {group} yet", {"group": group})
        for group in self.attempts:
            return Reason("calling", f"{self.host.me} has called for a meeting of {group}", {"group": group})
        for group in self.wishes:
            return Reason("moving", f"{group} is to be closed or renamed", {"group": group})
        return None


def origins(plan: Plan, old: Part | None) -> tuple[Members, ...]:
    """The parts that a formation comes from, without newcomers: those of their members that do not come may go on there."""
    if not plan.parts:
        return (plan.members,) if old is not None else ()  # a new name, or a new group
    return tuple(part for part in plan.parts if not set(part) <= set(plan.newcomers))


def is_sound(plan: Plan, source: ProcessId, me: ProcessId) -> bool:
    """Whether a plan can be one of these two: both are in it, nobody twice, and its parts are its members."""
    members = set(plan.members)
    if source not in members or me not in members or len(members) < len(plan.members):
        return False
    together = [member for part in plan.parts for member in part]
    return not together or (sorted(together) == sorted(plan.members) and all(plan.parts) and set(plan.newcomers) <= members)
