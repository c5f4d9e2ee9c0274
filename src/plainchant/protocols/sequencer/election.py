"""Electing a new sequencer (section 5 of the paper, made safe).

A member that misses the sequencer *coordinates*. First a trial: would the others take part? Members that hear the sequencer
refuse, so that one deaf member does not disturb a healthy group. If a majority would, the vote binds: a member that promises an
epoch listens to no earlier one, from that instant, and says how far its history goes. The winner is the voter with the longest
*contiguous* history, not the highest number seen: a member may hold 11 and none 10. (What others hold beyond its end it fetches,
see :class:`Rebuild`.) Histories are compared by (newest epoch whose beginning they hold, last contiguous number), as in Raft,
because a history that was continued by a later epoch is the one that may have been delivered.

**Elections do not displace each other.** All members miss a dead sequencer at about the same time. Of two coordinators the one
that comes first in the view goes on. A coordinator that hears the trial of a preceding one gives up its own, and a member that
would take part in a trial begins none for a while (:meth:`Election.yields_to`, ``Calling.defer``). If both trials are over
before either coordinator knows, the epochs decide: within a round of elections the preceding coordinator has the higher epoch
(:func:`next_epoch`), so that every voter, and the other coordinator, ends with it after one journey of its invitation.

**No fixed time is compared with a round trip.** A trial binds no member, so it goes on until a majority has answered. How long
that took is the *pace*; the vote that follows, its voters and the winner wait for a multiple of it where that is longer than
their own timeouts. The dead sequencer is not waited for. A fail-over without loss is: suspicion, a round trip for the trial, one
for the vote, half of one to tell the winner, one for its view, and half of one until its members know that it is in force.

Why a majority: the members of a view decide on its successor. Two majorities of one view share a voter, who promised the
later epoch and therefore never acknowledges the earlier one's view. Majorities of two successive views need not share one: a
member that has not heard that its view is superseded may gather those who have not either, even for an epoch of the same
number. Such a winner finds the newer view in the history of one of its voters (a majority holds it), has to have it decided
again by a majority of its members, and cannot: those promised elsewhere, and follow only the sequencer that they voted for.
A minority tries for ``patience`` and halts.

With ``partitions = "none"`` (the failure model of section 5) there is no majority to wait for: a member that does not answer has
crashed. An election then needs the answer of every member that lives, so it asks for twice as long before it goes on without
one, and it never goes on against a member that refuses: that one lives.

Safety rests on two things: no entry is ever overwritten, and a view needs a majority of those who decide on it (with
``partitions = "none"``: all of them that live). With ``resilience`` r, an election that hears all but r members loses nothing
that any member delivered; at the deadline it goes on with a majority, maybe with fewer: it gives up uniformity, not progress."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from ...core.model import ProcessId, Reason
from .packets import Elected, Fetch, Held, Invite, Lacks, Promise, Refuse
from .standing import Standing

# Times that members that do not answer are asked in ``suspect_after``, at least: at 30 % loss one of 200 does not get through.
ROUNDS: Final = 8
# A vote that a member refused, because it had promised as much to another coordinator, is repeated with a higher epoch at most
# this number of times before it goes on without that member.
VOTES: Final = 3
ALIVE: Final = 2  # multiple of ``suspect_after`` for which a vote waits for a member that is known to live


def next_epoch(latest: int, rank: int, members: int) -> int:
    """The epoch of a vote after ``latest``: rounds of ``members`` epochs, in which a preceding coordinator has a higher one.

    >>> [next_epoch(latest, rank, 3) for latest in (1, 4) for rank in (0, 1, 2)]
    [5, 4, 3, 8, 7, 6]
    """
    return (latest // members + 1) * members + members - 1 - rank


class Election:
    """Exists at a member that coordinates, until a new epoch begins. What it does to its member: ``step_down`` promises an epoch
    to a process, ``take_office`` begins the epoch that this member won, ``hear_again`` ends an election because the others hear
    the sequencer, ``halt`` ends the member. ``missed``: processes that the coordinator has not heard for long; the vote does not
    wait for them if all others answered. ``heard``: those that it knows to live."""

    def __init__(
        self, standing: Standing, reason: Reason,
        step_down: Callable[[int, ProcessId], None], take_office: Callable[[Elected], None],
        hear_again: Callable[[], None], halt: Callable[[Reason], None],
        *, missed: frozenset[ProcessId], heard: frozenset[ProcessId],
    ) -> None:  # fmt: skip
        self.standing = standing
        self.host, self.group = standing.host, standing.group
        self._step_down = step_down
        self._take_office, self._hear_again, self._halt, self._missed = take_office, hear_again, halt, missed
        self._any_survivor = standing.parameters.any_survivor
        self.reason = reason
        self.epoch = 0
        self.since = self.host.now  # since when no majority has answered anything
        self.seen = standing.promised
        self.stage = ""
        self.began = 0  # when the stage began
        self.answered = 0  # when the last answer came that counts
        self.deadline = 0  # when the stage goes on without members that have not answered, or ends
        self.pace = 0  # how long it took until enough members had answered: a round trip, or more if packets were lost
        self.votes = 0
        self.yes: dict[ProcessId, Promise] = {}
        self.refused: dict[ProcessId, None] = {}
        self.invited: dict[ProcessId, None] = {}  # the processes that were asked; answers of others do not count
        self.alive: dict[ProcessId, None] = dict.fromkeys(heard)  # the processes that live: they answered in this election
        self.winner: ProcessId = ""
        self.elected: Elected | None = None
        self.due = 0

    def begin(self, *, binding: bool) -> None:
        """Asks for the first time. ``binding``: there is no trial. It is the sequencer itself that calls the election, to leave
        or because it is alone. (If no other member is needed, it is over when this returns.)"""
        if binding:
            self._vote()
        else:
            self._try()

    def yields_to(self, source: ProcessId) -> bool:
        """Whether this election ends for the trial of that coordinator: no member has promised anything yet, and it precedes."""
        view = self.standing.view
        assert view is not None
        members = view.members
        return self.stage == "trial" and source in members and members.index(source) < members.index(self.standing.me)

    def _try(self) -> None:
        if self.stage != "trial":  # else answers to what was asked before count too
            self.began = self.host.now
            self.standing.trials += 1
        self.epoch = self.standing.trials
        self.votes = 0
        self._start("trial")

    def _vote(self) -> None:
        standing = self.standing
        view = standing.view
        assert view is not None
        latest = max(self.seen, standing.promised)
        self.epoch = next_epoch(latest, view.members.index(standing.me), len(view.members))
        self.votes += 1
        self.host.record("elect", self.group, stage="vote", epoch=self.epoch, **self.reason.to_detail())
        self._step_down(self.epoch, standing.me)
        self.began = self.host.now
        self._start("vote")

    def _start(self, stage: str) -> None:
        self.stage = stage
        self.refused = {}
        self.deadline = self.host.now + self._longest(self.standing.parameters.suspect_after, 2)
        self.yes = {self.standing.me: self.standing.status(self.epoch, trial=stage == "trial")}
        self._ask()
        self._judge()

    def _longest(self, wait: int, round_trips: int) -> int:
        """A time that is also enough for that number of round trips."""
        return max(wait * 2 if self._any_survivor else wait, round_trips * self.pace)

    def _ask(self) -> None:
        """Invites each process that has not answered, and sets the timer for the next round."""
        assert self.standing.view is not None
        known = dict.fromkeys((*self.standing.view.members, *self._electorate()))
        silent = tuple(p for p in known if p not in self.yes and p not in self.refused)
        self.invited = known
        self.host.send(silent, Invite(self.group, self.epoch, self.stage == "trial", self.pace))
        self._arm()

    def _arm(self) -> None:
        longest = max(1, self.standing.parameters.suspect_after // ROUNDS)
        self.due = self.host.now + longest - self.host.random.randrange(max(1, longest // 3))
        self.host.set_timer("election", self.due)

    def on_answer(self, source: ProcessId, packet: Promise | Refuse) -> None:
        if source not in self.invited:
            return
        self.alive[source] = None
        is_asked = packet.trial == (self.stage == "trial")
        if isinstance(packet, Refuse):
            if self.standing.is_near(packet.epoch):
                self.seen = max(self.seen, packet.epoch)
            if packet.asked == self.epoch and is_asked:
                self.refused[source] = None
        elif packet.epoch == self.epoch and is_asked and self.stage in ("trial", "vote"):
            self.yes[source] = packet
            self.answered = self.host.now
            self._judge()

    def on_rebuilding(self) -> None:
        """The winner asks the voters for what it lacks: it knows that it is elected, and needs time."""
        if self.stage == "decided":
            self.deadline = self.host.now + self._longest(self.standing.parameters.suspect_after, 3)

    def _electorate(self) -> tuple[ProcessId, ...]:
        """The members of the newest view in force at any process that answered: it is they who decide."""
        return max(self.yes.values(), key=lambda status: status.view).members

    def _judge(self, *, deadline: bool = False) -> None:
        electorate = self._electorate()
        voters = tuple(process for process in electorate if process in self.yes)
        all_answered = all(process in self.yes or process in self._missed for process in electorate)
        if self._any_survivor:
            if self.refused or not (all_answered or deadline):
                return
        elif 2 * len(voters) <= len(electorate) or not self._can_decide():
            return
        if self.stage == "trial":
            self._keep_pace()
            if self._any_survivor:
                self._missed |= (
                    frozenset(electorate) - self.yes.keys()
                )  # asked for so long, they would not answer the vote either
            self._vote()
        elif self.stage == "vote" and (deadline or all_answered):
            # Waiting for all of them keeps what only one of them may hold (with resilience r: all but r).
            self._keep_pace()
            self._decide(voters)

    def _can_decide(self) -> bool:
        """Whether a member of the newest view in the longest history has answered, if that view is not in force yet.

        Such a view stays in the history, because the sequencer that proposed it may have seen it in force, and nothing is decided
        without its members. Without any of them the next view would have no members (seed 2 of the sweep of blocks: two elections
        in turn, each without the other's winner)."""
        best = max(self._history(process) for process in self.yes)
        histories = [status for process, status in self.yes.items() if self._history(process) == best]
        newest = {status.pending for status in histories if status.pending}
        return all(not self.yes.keys().isdisjoint(members) for members in newest)

    def _keep_pace(self) -> None:
        """Waiting for members that never answered is no part of it."""
        taken = self.answered - self.began
        self.pace = min(max(self.pace, taken), self.standing.parameters.patience)

    def _decide(self, voters: tuple[ProcessId, ...]) -> None:
        standing = self.standing
        eligible = [process for process in voters if self.yes[process].view]  # not a joiner whose view is not in force yet
        if not eligible:
            return
        best = max(self._history(process) for process in eligible)
        longest = [process for process in eligible if self._history(process) == best]
        if (standing.leaving or standing.room.upto is not None) and len(longest) > 1:
            longest = [process for process in longest if process != standing.me]
        self.winner = winner = standing.me if standing.me in longest else longest[0]
        self.stage = "decided"
        self.deadline = self.host.now + self._longest(standing.parameters.suspect_after, 3)
        synced = self.yes[winner].synced
        allowed = max(self.yes[process].allowed for process in voters if self.yes[process].synced == synced)
        view = max(self.yes[process].view for process in voters)
        self.host.record("elect", self.group, stage="decided", epoch=self.epoch, winner=winner, voters=list(voters))
        reach = self._reach(voters)
        self.elected = Elected(self.group, self.epoch, voters, allowed, view, reach, self.reason.text, self.pace)
        if winner == standing.me:
            self._take_office(self.elected)
        else:
            self._tell_winner()

    def _tell_winner(self) -> None:
        assert self.elected is not None
        self.host.send((self.winner,), self.elected)
        self._arm()

    def _reach(self, voters: tuple[ProcessId, ...]) -> int:
        """How far the history can be rebuilt: up to the first number that reached no voter (section 5)."""
        best = self.yes[self.winner]
        held = {n for process in voters if self.yes[process].followed == best.followed for n in self.yes[process].later}
        reach = best.contiguous
        while reach + 1 in held:
            reach += 1
        return reach

    def _history(self, process: ProcessId) -> tuple[int, int]:
        status = self.yes[process]
        return status.synced[0], status.contiguous

    def expire(self) -> None:
        """Asks again; after the deadline decides with those who answered, gives way, or starts anew."""
        now = self.host.now
        if now - self.due > self.standing.parameters.suspect_after // 2:
            # This process was stopped; the others were not silent, and may answer yet.
            self.since = self.began = now
            self.deadline = max(self.deadline, now + self.standing.parameters.suspect_after // 2)
        if now < self.deadline or self._waits_for_the_living(now):
            if self.stage == "decided":
                self._tell_winner()
            else:
                self._ask()
            return
        if self.stage != "decided":
            if self.stage == "vote" and self.refused and self.votes < VOTES:
                self._vote()
                return
            stage = self.stage
            self._judge(deadline=True)
            if self.stage != stage:
                return
        self._start_anew()

    def _waits_for_the_living(self, now: int) -> bool:
        """Whether a vote waits longer, because a member that has not voted is known to live: without it, it would be excluded."""
        if self.stage != "vote" or now >= self.deadline + (ALIVE - 1) * self.standing.parameters.suspect_after:
            return False
        return any(process in self.alive and process not in self.yes for process in self._electorate()) and not self.refused

    def _start_anew(self) -> None:
        standing = self.standing
        assert standing.view is not None
        size = len(standing.view.members)
        reached = len(self.yes) + len(self.refused)
        now = self.host.now
        is_enough = 2 * reached > size and self._can_decide()
        if is_enough or self.stage == "decided" or self._any_survivor:
            self.since = now
        elif now - self.since > standing.parameters.patience:
            # A minority does not wait for ever: the others may have gone on without it.
            tried = f"{(now - self.since) // 1_000_000} ms"
            text = f"{standing.me} reached {reached} of the {size} members of its view for {tried}; a majority is needed to go on"
            if 2 * reached > size:
                text = f"{text}, and a member of the view that the last sequencer proposed"
            self._halt(Reason("minority", text, {"reached": reached, "members": size}))
            return
        if self.stage == "trial" and self.refused and standing.listening >= 0:
            self._hear_again()
        else:
            self._try()


class Rebuild:
    """Rebuilds the history from what the survivors hold (section 5), at a winner that lacks what other voters hold.

    Beyond the end of its history others may hold entries that it lacks, out of order: the history can be rebuilt up to the first
    number that reached no voter. The winner asks the voters for those entries before it begins its epoch, and goes on asking as
    long as a voter that may hold the next one answers, with what it holds or that it lacks the first of them (``Lacks``). A voter
    that is silent for ``suspect_after`` (and the election's round trips) is dead: what only it held is lost, as if it had died a
    moment before. ``accept_later`` moves what no longer is beyond a gap into the order, ``become_sequencer`` begins the epoch."""

    def __init__(
        self, standing: Standing, elected: Elected, accept_later: Callable[[], None], become_sequencer: Callable[[Elected], None]
    ) -> None:
        self._standing = standing
        self._accept_later, self._become_sequencer, self.elected = accept_later, become_sequencer, elected
        self._heard = {process: standing.host.now for process in elected.voters if process != standing.me}
        self._lacking: dict[ProcessId, int] = {}  # voter to the number that it said it does not hold
        self._due = standing.host.now
        told = {"after": standing.log.contiguous, "upto": elected.reach, "situation": "history rebuilt from survivors"}
        standing.host.record("elect", standing.group, stage="rebuild", epoch=elected.epoch, **told)
        self.ask()

    def ask(self) -> None:
        """Asks the voters for what is missing; begins the epoch if nothing is, or if no voter is left that may hold it."""
        standing, elected = self._standing, self.elected
        host, log = standing.host, standing.log
        self._accept_later()
        if host.now - self._due > standing.parameters.suspect_after // 2:
            self._heard = dict.fromkeys(self._heard, host.now)  # this process was stopped; the voters were not silent
        first = log.contiguous + 1
        if first > elected.reach or not self._may_be_held(first):
            self._become_sequencer(elected)
            return
        followed = (standing.epoch, standing.sequencer)
        host.send(tuple(self._heard), Fetch(standing.group, elected.epoch, followed, first, elected.reach))
        self._due = host.now + max(1, standing.parameters.suspect_after // ROUNDS)
        host.set_timer("election", self._due)

    def _may_be_held(self, number: int) -> bool:
        """Whether a voter that lives has not said that it lacks that number."""
        oldest = self._standing.host.now - self._standing.parameters.suspect_after - 2 * self.elected.pace
        return any(heard >= oldest and self._lacking.get(process) != number for process, heard in self._heard.items())

    def on_answer(self, source: ProcessId, packet: Held | Lacks) -> None:
        if packet.epoch != self.elected.epoch or source not in self._heard:
            return
        self._heard[source] = self._standing.host.now
        log = self._standing.log
        if isinstance(packet, Lacks):
            self._lacking[source] = packet.number
            if not self._may_be_held(log.contiguous + 1):
                self._become_sequencer(self.elected)
        elif log.contiguous < packet.number <= min(self.elected.reach, log.contiguous + self._standing.parameters.reach):
            log.later[packet.number] = packet.entry
            self._accept_later()
            if log.contiguous >= self.elected.reach:
                self._become_sequencer(self.elected)


def give(standing: Standing, source: ProcessId, packet: Fetch) -> bool:
    """Gives the winner of the epoch that we promised what it lacks; False if it is not the winner."""
    if packet.epoch != standing.promised or standing.listening >= 0:
        return False
    log = standing.log
    same = packet.followed == (standing.epoch, standing.sequencer)
    held = sorted(number for held in (log.entries, log.later) for number in held) if same else []
    asked = [number for number in held if packet.first <= number <= packet.last]
    for number in asked:
        entry = log.entries.get(number) or log.later[number]
        standing.host.send((source,), Held(standing.group, packet.epoch, number, entry))
    if packet.first not in asked:
        standing.host.send((source,), Lacks(standing.group, packet.epoch, packet.first))
    return True
