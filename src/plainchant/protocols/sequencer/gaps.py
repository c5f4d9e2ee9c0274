"""What is missing: negative acknowledgements, with retry (RETRANS, 2.1).

A gap is asked for once when it shows and then every ``nack_after`` until it is filled. An old number never asks for
anything (as printed, Fig. 5 would start a storm). After ``nack_retries`` requests without an answer the sequencer is
suspected.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ...core.model import Reason
from .packets import Nack

if TYPE_CHECKING:
    from .member import Member

BROUGHT_AT_ONCE: Final = 32
"""So many missing entries come for one negative acknowledgement; then the rest is asked for."""


class Gaps:
    """Asks the sequencer for what this member's history lacks."""

    __slots__ = ("_armed", "_asked", "_member", "_tries")

    def __init__(self, member: Member) -> None:
        self._member = member
        self._armed = False
        self._asked = 0
        self._tries = 0

    def reset(self) -> None:
        """A new epoch: another sequencer is asked from now on."""
        self._armed = False
        self._tries = 0

    def check(self) -> None:
        """There is a gap: asks for the first part of it, unless that is under way."""
        member = self._member
        log = member.log
        if self._armed and log.contiguous < self._asked:
            return
        if member.parameters.gap_patience and not self._armed:
            self._armed = True
            self._asked = log.highest
            member.host.set_timer("nack", member.host.now + member.parameters.gap_patience)
        else:
            self._ask()

    def _ask(self) -> None:
        member = self._member
        gap = member.log.missing()
        if gap is None or not member.follows:
            return
        first, last = gap
        self._asked = min(last, first + BROUGHT_AT_ONCE - 1)
        self._armed = True
        member.host.record("retransmit", member.group, what="numbers", first=first, last=last)
        member.speak(Nack(member.group, member.epoch, first, last, member.log.contiguous, member.room.behind))
        member.host.set_timer("nack", member.host.now + member.parameters.nack_after)

    def expire(self) -> None:
        self._armed = False
        member = self._member
        log = member.log
        if log.missing() is None:
            self._tries = 0
            return
        self._tries = self._tries + 1 if log.contiguous < self._asked else 1
        if self._tries > member.parameters.nack_retries:
            self._tries = 0
            member.suspect_sequencer(
                Reason(
                    "no answer",
                    f"the sequencer {member.sequencer} did not bring number {log.contiguous + 1} after "
                    f"{member.parameters.nack_retries} requests",
                )
            )
        self._ask()
