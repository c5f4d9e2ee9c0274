"""Electing a new sequencer (section 5 of the paper, made safe).

Theory of operation
-------------------
Whoever misses the sequencer *coordinates*. First a trial: would the others take part? Members that hear the sequencer
refuse, so that one deaf member does not disturb a healthy group. If a majority would, the vote binds: a member that
promises an epoch listens to no earlier one, from that instant, and says how far its history goes. The winner is the voter
with the longest *contiguous* history, not the highest number seen: somebody may hold 11 and nobody 10. (What others hold
beyond its end it fetches, see :mod:`.rebuild`.) Histories are
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

from typing import TYPE_CHECKING, Final

from ...core.model import ProcessId, Reason
from .packets import Elected, Invite, Promise, Refuse

if TYPE_CHECKING:
    from .member import Member


ROUNDS: Final = 4
"""Members that have not answered are asked so often before an election goes on without them."""
VOTES: Final = 3
"""A vote that a member refused, because it had promised as much to another coordinator, is repeated with a higher epoch so
often before it goes on without that member."""


class Election:
    """Exists at a member that coordinates, until somebody's new epoch begins.

    ``binding``: there is no trial. It is the sequencer itself that calls the election, to leave or because it is alone.
    """

    def __init__(self, member: Member, reason: Reason, *, binding: bool = False) -> None:
        self.member = member
        self.host = member.host
        self.group = member.group
        self.reason = reason
        self.binding = binding
        self.epoch = 0
        self.since = self.host.now
        """Since when no majority has answered anything."""
        self.seen = member.promised
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
        member = self.member
        self.epoch = max(self.seen, member.promised) + 1
        self.votes += 1
        self.host.record("elect", self.group, stage="vote", epoch=self.epoch, **self.reason.to_detail())
        member.step_down(self.epoch, member.me)
        self._start("vote")

    def _start(self, stage: str) -> None:
        self.stage = stage
        self.rounds = 0
        self.refused = {}
        self.yes = {self.member.me: self.member.status(self.epoch, trial=stage == "trial")}
        self._ask()
        self._judge()

    def _ask(self) -> None:
        """Invites everybody who has not answered, and sets the timer for the next round."""
        assert self.member.view is not None
        known = dict.fromkeys((*self.member.view.members, *self._electorate()))
        silent = tuple(p for p in known if p not in self.yes and p not in self.refused)
        self.invited = known
        self.host.send(silent, Invite(self.group, self.epoch, self.stage == "trial"))
        self._arm()

    def _arm(self) -> None:
        wait = self.member.parameters.suspect_after // (2 * ROUNDS)
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
        if self.member.is_near(packet.epoch):
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
        member = self.member
        eligible = [process for process in voters if self.yes[process].view]  # not who does not know yet that it is in
        if not eligible:
            return
        best = max(self._history(process) for process in eligible)
        longest = [process for process in eligible if self._history(process) == best]
        if (member.leaving or member.room.upto is not None) and len(longest) > 1:
            longest = [process for process in longest if process != member.me]
        self.winner = winner = member.me if member.me in longest else longest[0]
        self.stage = "decided"
        self.rounds = 0
        synced = self.yes[winner].synced
        allowed = max(self.yes[process].allowed for process in voters if self.yes[process].synced == synced)
        view = max(self.yes[process].view for process in voters)
        self.host.record("elect", self.group, stage="decided", epoch=self.epoch, winner=winner, voters=list(voters))
        self.elected = Elected(self.group, self.epoch, voters, allowed, view, self._reach(voters), self.reason.text)
        if winner == member.me:
            member.take_office(self.elected)
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
        if self.host.now - self.due > self.member.parameters.suspect_after // 2:
            self.since = self.host.now  # it was we who slept
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
        member = self.member
        assert member.view is not None
        size = len(member.view.members)
        reached = len(self.yes) + len(self.refused)
        now = self.host.now
        if 2 * reached > size or self.stage == "decided":
            self.since = now
        elif now - self.since > member.parameters.patience:
            member.halt_as_minority(reached, size, now - self.since)
            return
        if self.stage == "trial" and self.refused and member.listening >= 0:
            member.hear_again()  # the others hear the sequencer: so shall we
        else:
            self._try()
