"""What is missing: negative acknowledgements, with retry (RETRANS, 2.1).

A member asks for a gap once when it appears and then every ``nack_after`` until it is filled. An old number never asks for
anything (as printed, Fig. 5 would start a storm). After ``nack_retries`` requests without an answer the sequencer is suspected.
"""

from __future__ import annotations

from typing import Final

from ...core.model import Reason
from .packets import Nack
from .standing import Standing

BROUGHT_AT_ONCE: Final = 32
"""Missing entries sent for one negative acknowledgement; the member then asks for the rest."""


class Gaps:
    """Asks the sequencer for what this member's history lacks."""

    __slots__ = ("_armed", "_asked", "_standing", "_tries")

    def __init__(self, standing: Standing) -> None:
        self._standing = standing
        self._armed = False
        self._asked = 0
        self._tries = 0

    def reset(self) -> None:
        """A new epoch: its sequencer is asked from now on."""
        self._armed = False
        self._tries = 0

    def check(self) -> None:
        """There is a gap: asks for the first part of it, unless that is under way."""
        standing = self._standing
        log = standing.log
        if self._armed and log.contiguous < self._asked:
            return
        if standing.parameters.gap_patience and not self._armed:
            self._armed = True
            self._asked = log.highest
            standing.host.set_timer("nack", standing.host.now + standing.parameters.gap_patience)
        else:
            self.ask()

    def ask(self) -> None:
        """Asks for the first part of the first gap, if there is one and a sequencer to ask."""
        standing = self._standing
        gap = standing.log.missing()
        if gap is None or not standing.follows:
            return
        first, last = gap
        self._asked = min(last, first + BROUGHT_AT_ONCE - 1)
        self._armed = True
        standing.host.record("retransmit", standing.group, what="numbers", first=first, last=last)
        standing.speak(Nack(standing.group, standing.epoch, first, last, standing.log.contiguous, standing.room.behind))
        standing.host.set_timer("nack", standing.host.now + standing.parameters.nack_after)

    def expire(self) -> Reason | None:
        """The answer is late. Returns a reason to suspect the sequencer if it was asked too often; the caller then asks again."""
        self._armed = False
        standing = self._standing
        log = standing.log
        if log.missing() is None:
            self._tries = 0
            return None
        self._tries = self._tries + 1 if log.contiguous < self._asked else 1
        if self._tries <= standing.parameters.nack_retries:
            return None
        self._tries = 0
        return Reason(
            "no answer",
            f"the sequencer {standing.sequencer} did not bring number {log.contiguous + 1} after "
            f"{standing.parameters.nack_retries} requests",
        )
