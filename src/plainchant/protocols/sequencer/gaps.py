"""What is missing: negative acknowledgements, with retry (RETRANS, 2.1).

A member asks for what it lacks once when a gap appears and then every ``nack_after`` until it is filled. It asks for several gaps
at once: where many packets are lost and round trips are long, one gap for each round trip would never catch up, and a member that
does not catch up holds up synchronisation phases. An old number never asks for anything (as printed, Fig. 5 would start a storm).
After ``nack_retries`` requests that brought nothing the sequencer is suspected."""

from __future__ import annotations

from typing import Final

from ...core.model import Reason
from .packets import Nack
from .standing import Standing

BROUGHT_AT_ONCE: Final = 32  # missing entries sent for one negative acknowledgement; the member then asks for the rest


class Gaps:
    """Asks the sequencer for what this member's history lacks."""

    __slots__ = ("_armed", "_asked", "_standing", "_stood_at", "_tries")

    def __init__(self, standing: Standing) -> None:
        self._standing = standing
        self._armed = False
        self._asked = 0  # the last number that was asked for
        self._stood_at = 0  # the last number without a gap when the last request expired
        self._tries = 0

    def reset(self) -> None:
        """A new epoch: its sequencer is asked from now on."""
        self._armed = False
        self._tries = 0

    def check(self) -> None:
        """There is a gap: asks for what is missing, unless that is under way."""
        standing, log = self._standing, self._standing.log
        if self._armed and log.contiguous < self._asked:
            return
        if standing.parameters.gap_patience and not self._armed:
            self._armed = True
            self._asked = log.highest
            standing.host.set_timer("nack", standing.host.now + standing.parameters.gap_patience)
        else:
            self.ask()

    def ask(self) -> None:
        """Asks for the first missing numbers, if there are any and a sequencer to ask."""
        standing, log = self._standing, self._standing.log
        if not standing.follows:
            return
        gaps = log.missing(BROUGHT_AT_ONCE)
        if not gaps:
            return
        first, last = gaps[0]
        self._asked = gaps[-1][1]
        self._armed = True
        standing.host.record("retransmit", standing.group, what="numbers", first=first, last=last)
        standing.speak(Nack(standing.group, standing.epoch, first, last, log.contiguous, standing.room.behind, tuple(gaps[1:])))
        standing.host.set_timer("nack", standing.host.now + standing.parameters.nack_after)

    def expire(self) -> Reason | None:
        """The answer is late. Returns a reason to suspect the sequencer if it was asked too often; the caller then asks again."""
        self._armed = False
        standing, log = self._standing, self._standing.log
        if log.contiguous >= log.highest:
            self._tries = 0
            return None
        self._tries = self._tries + 1 if log.contiguous == self._stood_at else 1
        self._stood_at = log.contiguous
        if self._tries <= standing.parameters.nack_retries:
            return None
        self._tries = 0
        missing, retries = log.contiguous + 1, standing.parameters.nack_retries
        text = f"the sequencer {standing.sequencer} did not bring number {missing} after {retries} requests"
        return Reason("no answer", text)
