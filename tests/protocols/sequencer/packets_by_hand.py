"""Scripts at the level of packets: elections held among chosen members, time that passes, and one history for everybody.

Adds to :class:`ByHand` what brings a group into the corners of its protocol: a vote that reaches only some members, whose
outcome the test then delivers to the members of its choice.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from plainchant.core.model import MS, Packet, ProcessId, Reason
from plainchant.protocols.sequencer.packets import Elected, Fetch, Held, Invite, Lacks, Promise, Refuse
from tests.protocols.sequencer.by_hand import GROUP, MOST_TIMERS, ByHand, Choice, Letter, nothing

ELECTION: tuple[type[Packet], ...] = (Invite, Promise, Refuse, Elected, Fetch, Held, Lacks)
MOST_ROUNDS = 64
"""A vote is over after at most this number of rounds of invitations."""


def outside(*names: ProcessId) -> Choice:
    """Chooses what does not go between these processes: they are cut off from the others."""
    return lambda letter: letter.source not in names or letter.target not in names


def of_type(*kinds: type[Packet], to: ProcessId = "") -> Choice:
    """Chooses packets of these types, to anybody or to that process."""
    return lambda letter: isinstance(letter.packet, kinds) and to in ("", letter.target)


def either(*choices: Choice) -> Choice:
    return lambda letter: any(choice(letter) for choice in choices)


class Script(ByHand):
    """The group, with elections and time."""

    def pass_time(self, ms: int, lose: Choice = nothing) -> None:
        """Timers expire, earliest first, until so much time has passed."""
        end = self.time + ms * MS
        self.wait_until(lambda: self.time >= end, lose)

    def let_one_expire(self, name: ProcessId, *, until: Callable[[], bool]) -> None:
        """Only that process's timers expire, and its packets are lost: the others are slow."""
        timers = self.hosts[name].timers
        for _ in range(MOST_TIMERS):
            if until():
                return
            self.expire(name, min(timers, key=lambda timer: (timers[timer], timer)), lose=lambda letter: True)
        raise AssertionError("it never came about")

    def vote(self, coordinator: ProcessId, *others: ProcessId) -> list[Letter]:
        """A member whose trial succeeded holds its vote among these; returns the winner's first packets, not yet brought."""
        self.mail.clear()
        lose = outside(coordinator, *others)
        self[coordinator]._elect(Reason("scripted", "the script wants an election"), binding=True)
        kept = self.carry(lose, _is_no_vote)
        for _ in range(MOST_ROUNDS):
            election = self[coordinator].election
            if election is None or election.stage == "decided":
                return kept
            kept += self.expire(coordinator, "election", lose, _is_no_vote)
        raise AssertionError("the vote does not end")

    def carry_these(self, letters: list[Letter], lose: Choice = nothing) -> None:
        """Brings these packets and what they cause."""
        self.mail = list(letters)
        self.carry(lose)

    def history(self, name: ProcessId) -> dict[int, Any]:
        """Number to what the application got under it: a message, or a view."""
        messages = {rank: (sender, batch.body) for _, sender, batch, rank in self.hosts[name].called("deliver")}
        views = {view.rank: (view.number, view.members) for (view,) in self.hosts[name].called("install")}
        assert not messages.keys() & views.keys(), f"{name} got two things under one number"
        return messages | views

    def assert_one_history(self) -> None:
        """No two who go on got different things under one number, and nobody at all two views of one number."""
        order: dict[int, Any] = {}
        views: dict[int, tuple[ProcessId, ...]] = {}
        for name in self.members:
            if name not in self.dead and not self.halted(name):
                for number, event in self.history(name).items():
                    assert order.setdefault(number, event) == event, f"{name} has something else at number {number}"
            for (view,) in self.hosts[name].called("install"):
                assert views.setdefault(view.number, view.members) == view.members, f"{name} has another view {view.number}"

    def last_view(self, name: ProcessId) -> tuple[ProcessId, ...]:
        return self.views(name)[-1]

    def has_left(self, name: ProcessId) -> bool:
        return bool(self.hosts[name].called("left"))

    def leave_together(self, sequencer: ProcessId, first: ProcessId, second: ProcessId, lose: Choice) -> None:
        """Two members ask to leave, and one view lets both go."""
        office = self[sequencer].office
        assert office is not None
        self[first].leave(GROUP)
        self.mail.clear()
        office.leaving[first] = None  # as if it had been heard, but a view was not possible then
        self[second].leave(GROUP)
        self.carry(lose)


def _is_no_vote(letter: Letter) -> bool:
    return not isinstance(letter.packet, ELECTION)
