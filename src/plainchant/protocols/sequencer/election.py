"""Electing a new sequencer (section 5 of the paper, made safe).

Theory of operation
-------------------
Whoever misses the sequencer *coordinates*. First a trial: would the others take part? Members that hear the sequencer
refuse, so that one deaf member does not disturb a healthy group. If a majority would, the vote binds: a member that
promises an epoch listens to no earlier one, from that instant, and says how far its history goes. The winner is the voter
with the longest *contiguous* history, not the highest number seen: somebody may hold 11 and nobody 10. (What others hold
beyond its end it fetches, see :class:`Rebuild`.) Histories are
compared by (newest epoch whose beginning they hold, last contiguous number), as in Raft, because a history that was
continued by a later epoch is the one that may have been delivered.

Why a majority: the members of a view decide on its successor. Two majorities of one view share a voter, who promised the
later epoch and therefore never acknowledges the earlier one's view. Majorities of two successive views need not share one: a
member that has not heard that its view is superseded may gather those who have not either, even for an epoch of the same
number. Such a winner finds the newer view in the history of one of its voters (a majority holds it), has to have it decided
again by a majority of its members, and cannot: those promised elsewhere, and follow only the sequencer that they voted for.
A minority tries for ``patience`` and halts.

Safety rests on two things: nobody ever overwrites an entry, and a view needs a majority of those who decide on it. With
``resilience`` r, an election that hears all but r members loses nothing that anybody delivered; at the deadline it goes on
with a majority, which may be fewer: then it is uniformity that is given up, not progress.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from ...core.model import ProcessId, Reason
from .packets import Elected, Fetch, Held, Invite, Promise, Refuse
from .standing import Standing

ROUNDS: Final = 4
"""Members that have not answered are asked so often before an election goes on without them."""
VOTES: Final = 3
"""A vote that a member refused, because it had promised as much to another coordinator, is repeated with a higher epoch so
often before it goes on without that member."""
REBUILD_ROUNDS: Final = 3
"""Times that a winner asks the voters for the entries it lacks."""


class Election:
    """Exists at a member that coordinates, until a new epoch begins.

    ``binding``: there is no trial. It is the sequencer itself that calls the election, to leave or because it is alone.
    What an election does to its member: ``step_down`` promises an epoch to a process, ``take_office`` begins the epoch that this
    member won, ``hear_again`` ends an election because the others hear the sequencer, ``halt`` ends the member.
    """

    def __init__(
        self,
        standing: Standing,
        reason: Reason,
        *,
        binding: bool,
        step_down: Callable[[int, ProcessId], None],
        take_office: Callable[[Elected], None],
        hear_again: Callable[[], None],
        halt: Callable[[Reason], None],
    ) -> None:
        self.standing = standing
        self.host = standing.host
        self.group = standing.group
        self._step_down = step_down
        self._take_office = take_office
        self._hear_again = hear_again
        self._halt = halt
        self.reason = reason
        self.binding = binding
        self.epoch = 0
        self.since = self.host.now
        """Since when no majority has answered anything."""
        self.seen = standing.promised
        self.stage = ""
        self.rounds = 0
        self.votes = 0
        self.yes: dict[ProcessId, Promise] = {}
        self.refused: dict[ProcessId, None] = {}
        self.invited: dict[ProcessId, None] = {}
        """Who was asked: nobody else has an answer."""
        self.winner: ProcessId = ""
        self.elected: Elected | None = None
        self.due = 0
        if binding:
            self._vote()
        else:
            self._try()

    def _try(self) -> None:
        self.epoch = self.seen + 1
        self.votes = 0
        self._start("trial")

    def _vote(self) -> None:
        standing = self.standing
        self.epoch = max(self.seen, standing.promised) + 1
        self.votes += 1
        self.host.record("elect", self.group, stage="vote", epoch=self.epoch, **self.reason.to_detail())
        self._step_down(self.epoch, standing.me)
        self._start("vote")

    def _start(self, stage: str) -> None:
        self.stage = stage
        self.rounds = 0
        self.refused = {}
        self.yes = {self.standing.me: self.standing.status(self.epoch, trial=stage == "trial")}
        self._ask()
        self._judge()

    def _ask(self) -> None:
        """Invites each process that has not answered, and sets the timer for the next round."""
        assert self.standing.view is not None
        known = dict.fromkeys((*self.standing.view.members, *self._electorate()))
        silent = tuple(p for p in known if p not in self.yes and p not in self.refused)
        self.invited = known
        self.host.send(silent, Invite(self.group, self.epoch, self.stage == "trial"))
        self._arm()

    def _arm(self) -> None:
        wait = self.standing.parameters.suspect_after // (2 * ROUNDS)
        self.due = self.host.now + wait + self.host.random.randrange(wait)
        self.host.set_timer("election", self.due)

    # --- answers ----------------------------------------------------------------------------------------------------

    def on_promise(self, source: ProcessId, packet: Promise) -> None:
        if source not in self.invited:
            return
        if packet.epoch == self.epoch and packet.trial == (self.stage == "trial") and self.stage in ("trial", "vote"):
            self.yes[source] = packet
            self._judge()

    def on_refuse(self, source: ProcessId, packet: Refuse) -> None:
        if source not in self.invited:
            return
        if self.standing.is_near(packet.epoch):
            self.seen = max(self.seen, packet.epoch)
        if packet.asked == self.epoch and packet.trial == (self.stage == "trial"):
            self.refused[source] = None

    def _electorate(self) -> tuple[ProcessId, ...]:
        """The members of the newest view in force at anybody who answered: it is they who decide."""
        return max(self.yes.values(), key=lambda status: status.view).members

    def _judge(self, *, deadline: bool = False) -> None:
        electorate = self._electorate()
        voters = tuple(process for process in electorate if process in self.yes)
        if 2 * len(voters) <= len(electorate):
            return
        if self.stage == "trial":
            self._vote()
        elif self.stage == "vote" and (deadline or len(voters) == len(electorate)):
            # Waiting for all of them keeps what only one of them may hold (with resilience r: all but r).
            self._decide(voters)

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
        self.rounds = 0
        synced = self.yes[winner].synced
        allowed = max(self.yes[process].allowed for process in voters if self.yes[process].synced == synced)
        view = max(self.yes[process].view for process in voters)
        self.host.record("elect", self.group, stage="decided", epoch=self.epoch, winner=winner, voters=list(voters))
        self.elected = Elected(self.group, self.epoch, voters, allowed, view, self._reach(voters), self.reason.text)
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

    # --- time -------------------------------------------------------------------------------------------------------

    def expire(self) -> None:
        """Asks again; after the last round decides with those who answered, gives way, or starts anew."""
        if self.host.now - self.due > self.standing.parameters.suspect_after // 2:
            self.since = self.host.now  # this process was stopped; the others were not silent
        self.rounds += 1
        if self.rounds < ROUNDS:
            if self.stage == "decided":
                self._tell_winner()
            else:
                self._ask()
            return
        if self.stage == "vote":
            if self.refused and self.votes < VOTES:
                self._vote()
                return
            self._judge(deadline=True)
            if self.stage != "vote":
                return
        self._start_anew()

    def _start_anew(self) -> None:
        standing = self.standing
        assert standing.view is not None
        size = len(standing.view.members)
        reached = len(self.yes) + len(self.refused)
        now = self.host.now
        if 2 * reached > size or self.stage == "decided":
            self.since = now
        elif now - self.since > standing.parameters.patience:
            self._halt(_minority(standing.me, reached, size, now - self.since))
            return
        if self.stage == "trial" and self.refused and standing.listening >= 0:
            self._hear_again()
        else:
            self._try()


def _minority(me: ProcessId, reached: int, of: int, tried: int) -> Reason:
    """Why a minority does not wait for ever: the others may have gone on without it."""
    text = f"{me} reached {reached} of the {of} members of its view for {tried // 1_000_000} ms; a majority is needed to go on"
    return Reason("minority", text, {"reached": reached, "members": of})


class Rebuild:
    """Rebuilds the history from what the survivors hold (section 5).

    Exists at a winner that lacks what other voters hold, until it has it or stops asking. The winner has the longest history
    without a gap. Beyond its end others may hold entries that it lacks, out of order: as long as each number reached a voter, the
    history can be rebuilt up to the first that reached none. The winner asks the voters for those entries before it begins its
    epoch. It does not insist: a voter that dies now takes what only it held with it, as if it had died a moment earlier.

    ``accept_later`` moves what is no longer beyond a gap into the order, ``become_sequencer`` begins the epoch.
    """

    def __init__(
        self,
        standing: Standing,
        elected: Elected,
        *,
        accept_later: Callable[[], None],
        become_sequencer: Callable[[Elected], None],
    ) -> None:
        self._standing = standing
        self._accept_later = accept_later
        self._become_sequencer = become_sequencer
        self.elected = elected
        self._rounds = 0
        standing.host.record(
            "elect",
            standing.group,
            stage="rebuild",
            epoch=elected.epoch,
            after=standing.log.contiguous,
            upto=elected.reach,
            situation="history rebuilt from survivors",
        )
        self.ask()

    def ask(self) -> None:
        """Asks the voters for what is missing; begins the epoch if nothing is, or after the last round."""
        standing, elected = self._standing, self.elected
        self._accept_later()
        first = standing.log.contiguous + 1
        if first > elected.reach or self._rounds == REBUILD_ROUNDS:
            self._become_sequencer(elected)
            return
        self._rounds += 1
        voters = tuple(process for process in elected.voters if process != standing.me)
        followed = (standing.epoch, standing.sequencer)
        standing.host.send(voters, Fetch(standing.group, elected.epoch, followed, first, elected.reach))
        wait = standing.parameters.suspect_after // (2 * REBUILD_ROUNDS)
        standing.host.set_timer("election", standing.host.now + wait)

    def on_held(self, source: ProcessId, packet: Held) -> None:
        log = self._standing.log
        reach = min(self.elected.reach, log.contiguous + self._standing.parameters.reach)
        asked = source in self.elected.voters and packet.epoch == self.elected.epoch
        if asked and log.contiguous < packet.number <= reach:
            log.later[packet.number] = packet.entry
            self._accept_later()
            if log.contiguous >= self.elected.reach:
                self._become_sequencer(self.elected)


def give(standing: Standing, source: ProcessId, packet: Fetch) -> None:
    """Gives the winner of the epoch that we promised what it lacks."""
    same = packet.followed == (standing.epoch, standing.sequencer)
    if same and packet.epoch == standing.promised and standing.listening < 0:
        log = standing.log
        for number in sorted(number for held in (log.entries, log.later) for number in held):
            if packet.first <= number <= packet.last:
                entry = log.entries.get(number) or log.later[number]
                standing.host.send((source,), Held(standing.group, packet.epoch, number, entry))
