"""What a member does for the ring besides speaking: lets joiners in, asks for votes on a larger P, gives P back (4.4, 4.5).

The first member of the ring comes after the join slot, so it gets the requests: it is the *sponsor*. It lets all askers in at
once, at the end of the ring, in front of the slot: so every member has a turn in which to acknowledge before the joiner's first.
If the ring with them needs no more than P, that is all. Else it asks (``Query``); every member votes by an unreliable message
once its admission control knows, and repeats the vote in every turn until the outcome is in the order: a change with the new P,
or ``Decided``.

**T is negotiated** (4.4). A joiner asks for its T. What it gets is part of the change, so all members compute with it, whatever
their own parameters say of that process. If P with it is voted down, the refusal offers the T that P has room for; a joiner whose
``least_hold`` allows it asks again with that.

The sponsor tells joiners of messages that are partly there, in the turn of the change; if that takes longer than what is left of
its turn beside its promises, the joiner waits.

A sponsor acts only when it has the whole order up to its turn and has delivered it. So it knows P at that place: an earlier
reclaim is in it, and no process is let in on the strength of a P that has been given back.

**P after members have gone** (4.5) is kept for them: a process that comes back soon needs no vote. When the balance has not been
used for ``reclaim_after`` the member of the smallest id gives it back, unless a process is about to join.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Final

from ...core.model import ProcessId, format_duration
from .packets import Change, Decided, Query, Reclaim, Refuse, Request, Vote, Word
from .sizes import JOINERS, size_of

if TYPE_CHECKING:
    from .ring import Ring
    from .turn import Turn

NAMED: Final = 4  # Members that a refusal names: it has to fit into a turn
ROUNDS: Final = 64  # Turns of the sponsor that a vote may take: messages that are under way have to be finished first


@dataclasses.dataclass(slots=True)
class _Vote:
    """A query of ours."""

    attempt: int
    rotation: int
    joiners: dict[ProcessId, int]
    votes: dict[ProcessId, bool]
    turns: int = 0


class Sponsor:
    """One member's duties."""

    def __init__(self, ring: Ring) -> None:
        self._ring, self._host = ring, ring.host
        self.newcomers: dict[ProcessId, None] = {}  # Members that were let in; they may not have spoken yet
        self.change_seq = 0  # The number of our last change
        self._requests: dict[ProcessId, int] = {}
        self._refusals: dict[tuple[ProcessId, ...], str] = {}  # Joiners that are refused in our turn, and why
        self._collided = False
        self._attempt = 0
        self._vote: _Vote | None = None
        self._asked: tuple[ProcessId, Query] | None = None  # The query that is voted on, as ordered, and its sponsor
        self._unused_since: int | None = None

    def reset(self) -> None:
        for known in (self.newcomers, self._requests, self._refusals):
            known.clear()
        self._vote = self._asked = self._unused_since = None

    def requested(self, source: ProcessId, request: Request) -> None:
        ring = self._ring
        if request.ring != ring.name or source in ring.ring or ring.entrance.looks_elsewhere or self._collided:
            return
        if ring.parameters.collisions and self._requests and source not in self._requests:
            # Both were on the wire at once: nothing of either was heard.
            self._host.record("collision", ring.group, processes=[*self._requests, source])
            self._requests.clear()
            self._collided = True
            return
        wrong = self._wrong_hold(source, request.hold)
        if wrong:
            self._refusals[source,] = wrong
        elif source in self._requests or len(self._requests) < JOINERS:
            self._requests[source] = request.hold

    def _wrong_hold(self, source: ProcessId, hold: int) -> str:
        """Why a T cannot be granted, whatever members vote; empty: it can. A turn is no longer than the wait for a group to
        form."""
        ring = self._ring
        least, most = ring.interface.least_hold((*ring.ring, source)), int(ring.parameters.gather)
        if least <= hold <= most:
            return ""
        return f"a T of {format_duration(hold)} is not between {format_duration(least)} and {format_duration(most)}"

    @property
    def has_words(self) -> bool:
        """Whether there is something to be said in our turn."""
        ring = self._ring
        forms = not ring.will_form and ring.ring[0] == ring.me and ring.entrance.should_form()
        return bool(self._requests or self._vote or self._asked or forms)

    def word(self, turn: Turn) -> Word | None:
        """What we say to the ring first in our turn, if anything."""
        ring = self._ring
        self._collided = False
        self._cast(turn)
        if not ring.is_up_to_date:
            return None
        if self._vote is not None:
            return self._outcome(self._vote)
        if self._requests and self._has_room():
            return self._let_in()
        if not ring.will_form:
            if ring.ring[0] == ring.me and ring.entrance.should_form():
                return self._change({}, ring.rotation, formed=True)
            return None
        return self._reclaim()

    def _change(self, joiners: dict[ProcessId, int], rotation: int, *, formed: bool) -> Change:
        ring = self._ring
        members = (*ring.ring, *joiners)
        holds = (*(ring.holds[process] for process in ring.ring), *joiners.values())
        return Change(ring.number + 1, members, holds, rotation, formed, joined=tuple(joiners), by=ring.me)

    def _has_room(self) -> bool:
        """Whether the messages that are partly there, which a joiner has to be told of, can be sent in this turn without taking
        time from what is promised. (The change and the acknowledgement have theirs.)"""
        spare, parts, interface = self._ring.advisor.spare(), self.parts(), self._ring.interface
        envelope = interface.envelope(self._ring.ring)  # A packet with a part has fewer names than one with messages.
        return spare is None or not parts or sum(interface.cost(len(part) + envelope) for part in parts) <= spare

    def parts(self) -> list[bytes]:
        """What a joiner has to be told of them, as much as a packet holds at a time."""
        partial, most = self._ring.advisor.partial(), self._host.max_packet
        return [partial[at : at + most] for at in range(0, len(partial), most)]

    def _let_in(self) -> Word:
        ring = self._ring
        joiners = dict(sorted(self._requests.items()))
        self._requests.clear()
        holds = [*(ring.holds[process] for process in ring.ring), *joiners.values()]
        needed = ring.interface.rotation((*ring.ring, *joiners), holds)
        if not ring.will_form or needed <= ring.rotation:
            return self._change(joiners, max(needed, ring.rotation), formed=ring.will_form)
        self._attempt += 1
        self._vote = _Vote(self._attempt, needed, joiners, {})
        asked = {"attempt": self._attempt, "rotation": needed, "present": ring.rotation}
        self._host.record("query", ring.group, **asked, joiners=list(joiners))
        return Query(self._attempt, needed, tuple(joiners))

    def _outcome(self, vote: _Vote) -> Word | None:
        ring = self._ring
        vote.turns += 1
        missing = [process for process in ring.ring if process not in vote.votes]
        against = [process for process in ring.ring if vote.votes.get(process) is False]
        if not missing and not against:
            if vote.turns <= ROUNDS and not self._has_room():
                return None
            self._vote = None
            return self._change(vote.joiners, vote.rotation, formed=True)
        if against or vote.turns > ROUNDS:
            who = ", ".join((against or missing)[:NAMED])
            text = f"{who} cannot keep its guarantees with P = {vote.rotation} ns" if against else f"{who} did not vote"
            self._refusals[tuple(vote.joiners)] = text
            self._vote = None
            return Decided(vote.attempt)
        return None

    def refuse(self, turn: Turn) -> None:
        """Refuses joiners, in a turn in which we acknowledge no change: it takes that time, and the rest are told in the next."""
        interface = self._ring.interface
        room = interface.cost(turn.sizes.acknowledgement)
        for joiners, text in list(self._refusals.items()):
            packet = self._refusal(joiners, text)
            size = size_of(packet)
            room -= interface.cost(size)
            if room < 0:
                return
            del self._refusals[joiners]
            self._host.send(joiners, packet)
            turn.charge(size)

    def _refusal(self, joiners: tuple[ProcessId, ...], text: str) -> Refuse:
        """Refuses joiners, and offers each of them an equal part of what is left of P, if that is enough for a turn (4.5: a
        process that needs no more of P than there is needs no vote)."""
        ring = self._ring
        together = (*ring.ring, *joiners)
        holds = [*(ring.holds[process] for process in ring.ring), *(0 for _ in joiners)]
        offer = (ring.rotation - ring.interface.rotation(together, holds)) // len(joiners)
        enough = offer >= ring.interface.least_hold(together)
        return Refuse(ring.group, ring.name, text, offer if enough else 0)

    def asked(self, sponsor: ProcessId, query: Query) -> None:
        """A query has its place in the order."""
        self._asked = sponsor, query

    def _cast(self, turn: Turn) -> None:
        """Votes, in our turn, and again in every turn until the outcome is known: votes may be lost."""
        if self._asked is None:
            return
        ring = self._ring
        sponsor, query = self._asked
        agrees = ring.advisor.carries(query.rotation, (*ring.ring, *query.joiners))
        if agrees is None:
            return
        if sponsor == ring.me:
            self._count(ring.me, query.attempt, agrees)
            return
        self._host.record("usend", ring.group, vote=agrees, attempt=query.attempt, to=sponsor, rotation=query.rotation)
        vote = Vote(ring.group, ring.name, query.attempt, agrees)
        self._host.send((sponsor,), vote)
        turn.charge(size_of(vote))

    def voted(self, source: ProcessId, vote: Vote) -> None:
        ring = self._ring
        if vote.ring == ring.name and source in ring.ring:
            self._host.record("udeliver", ring.group, vote=vote.agrees, attempt=vote.attempt, source=source)
            self._count(source, vote.attempt, vote.agrees)

    def _count(self, process: ProcessId, attempt: int, agrees: bool) -> None:
        if self._vote is not None and self._vote.attempt == attempt:
            self._vote.votes[process] = agrees

    def decided(self, sponsor: ProcessId, word: Decided) -> None:
        if self._asked is not None and self._asked[0] == sponsor and self._asked[1].attempt == word.attempt:
            self._end_vote()

    @property
    def voting(self) -> tuple[ProcessId, ...]:
        """On whom a vote is under way."""
        return () if self._asked is None else self._asked[1].joiners

    def _end_vote(self) -> None:
        self._asked = None
        self._ring.advisor.decided()

    def changed(self, change: Change) -> None:
        """A change was heard of."""
        for process in change.joined:
            self.newcomers[process] = None
            self._requests.pop(process, None)
        for process in [process for process in self.newcomers if process not in change.ring]:
            del self.newcomers[process]

    def ordered_change(self, change: Change) -> None:
        """A change has its place in the order: a vote that led to it, or whose sponsor is gone, is over."""
        if self._asked is None:
            return
        sponsor, query = self._asked
        if sponsor not in change.ring or (change.joined and change.rotation == query.rotation):
            self._end_vote()

    def _reclaim(self) -> Reclaim | None:
        ring = self._ring
        used = ring.interface.rotation(ring.ring, [ring.holds[process] for process in ring.ring])
        if ring.me != min(ring.ring) or used >= ring.rotation:
            self._unused_since = None
            return None
        now = self._host.now
        if self._unused_since is None:
            self._unused_since = now
        busy = self._asked is not None or ring.entrance.knockers()
        if busy or now - self._unused_since < ring.parameters.reclaim_after:
            return None
        self._unused_since = None
        self._host.record("confirm", ring.group, kinds=["reclaim"], rotation=used, present=ring.rotation)
        return Reclaim(used)
