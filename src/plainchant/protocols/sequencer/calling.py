"""When a member may call an election: not while that of another member can still have a result.

Waiting costs time only if the other coordinator dies; calling an election too early costs all the promises that the other one has
got, and at long round trips no election would ever have a result."""

from __future__ import annotations

from .standing import NO_EPOCH, Standing


class Calling:
    """A member's restraint. Its timer is ``election``, which no election of its own needs while it waits."""

    __slots__ = ("_standing", "_until")

    def __init__(self, standing: Standing) -> None:
        self._standing = standing
        self._until = 0

    @property
    def is_free(self) -> bool:
        """Whether no trial of another member is waited for."""
        return self._standing.host.now >= self._until

    def defer(self) -> None:
        """Another member calls an election, and this one would take part: begins none itself before that can have bound us."""
        standing = self._standing
        wait = standing.parameters.suspect_after
        self._until = standing.host.now + wait
        if standing.listening == NO_EPOCH:  # no tick of a follower looks for silence
            standing.host.set_timer("election", self._until + standing.host.random.randrange(wait))

    def wait_for_result(self, pace: int) -> None:
        """Calls an election if none has a result: after longer than a coordinator takes, or elections would interrupt each other
        (``election.ALIVE`` times ``suspect_after`` for voters, or round trips to vote, tell the winner and announce)."""
        standing = self._standing
        wait = standing.parameters.suspect_after
        longest = max(3 * wait, 5 * min(pace, standing.parameters.patience))
        standing.host.set_timer("election", standing.host.now + longest + standing.host.random.randrange(wait))
