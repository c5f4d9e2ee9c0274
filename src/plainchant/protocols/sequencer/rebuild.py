"""Rebuilding the history from what the survivors hold (section 5).

The winner of an election has the longest history without a gap. Beyond its end others may hold what it lacks, out of order:
as long as each number reached somebody who voted, the history can be rebuilt up to the first that reached nobody. The winner
asks the voters for those entries before it begins its epoch. It does not insist: a voter that dies now takes what only it
held with it, as if it had died a moment earlier.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ...core.model import ProcessId
from .packets import Elected, Fetch, Held

if TYPE_CHECKING:
    from .member import Member

ROUNDS: Final = 3
"""The voters are asked so often."""


class Rebuild:
    """Exists at a winner that lacks what other voters hold, until it has it or stops asking."""

    def __init__(self, member: Member, elected: Elected) -> None:
        self._member = member
        self.elected = elected
        self._rounds = 0
        member.host.record(
            "elect",
            member.group,
            stage="rebuild",
            epoch=elected.epoch,
            after=member.log.contiguous,
            upto=elected.reach,
            situation="history rebuilt from survivors",
        )
        self._go_on()

    def _go_on(self) -> None:
        member = self._member
        member.accept_later()
        if member.log.contiguous >= self.elected.reach or self._rounds == ROUNDS:
            member.become_sequencer(self.elected)
            return
        self._rounds += 1
        voters = tuple(process for process in self.elected.voters if process != member.me)
        member.host.send(
            voters,
            Fetch(
                member.group, self.elected.epoch, (member.epoch, member.sequencer), member.log.contiguous + 1, self.elected.reach
            ),
        )
        member.host.set_timer("election", member.host.now + member.parameters.suspect_after // (2 * ROUNDS))

    def expire(self) -> None:
        self._go_on()

    def on_held(self, source: ProcessId, packet: Held) -> None:
        log = self._member.log
        reach = min(self.elected.reach, log.contiguous + self._member.parameters.reach)
        asked = source in self.elected.voters and packet.epoch == self.elected.epoch
        if asked and log.contiguous < packet.number <= reach:
            log.later[packet.number] = packet.entry
            self._member.accept_later()
            if log.contiguous >= self.elected.reach:
                self._member.become_sequencer(self.elected)


def give(member: Member, source: ProcessId, packet: Fetch) -> None:
    """Gives the winner of the epoch that we promised what it lacks."""
    same = packet.followed == (member.epoch, member.sequencer)
    if same and packet.epoch == member.promised and member.listening < 0:
        log = member.log
        for number in sorted(number for held in (log.entries, log.later) for number in held):
            if packet.first <= number <= packet.last:
                entry = log.entries.get(number) or log.later[number]
                member.host.send((source,), Held(member.group, packet.epoch, number, entry))
