"""A sender's requests: numbered 1, 2, 3, ..., kept until they come back in the order, repeated until then.

Up to ``window`` of them are under way at once. The sequencer holds a request that overtook an earlier one, so that each sender's
order is kept. A repeated request carries the same number, by which the sequencer recognises duplicates."""

from __future__ import annotations

from typing import Final

from ...core.model import Batch
from .packets import Request
from .standing import Standing

REPEATED_AT_ONCE: Final = 8  # requests repeated at a time


class Requests:
    """What this process has asked the sequencer to broadcast."""

    __slots__ = ("_armed", "_mark", "_standing", "_window", "last", "max_messages", "outstanding", "wants_number")

    def __init__(self, standing: Standing) -> None:
        self._standing = standing
        self._window = standing.parameters.window
        self.max_messages = 0 if standing.parameters.pack else 1  # messages taken for one batch; 0: as many as fit
        self._armed = False
        self._mark = self.last = 0
        self.outstanding: dict[int, Batch] = {}
        self.wants_number = False  # at the sequencer: whether there may be more to send than it could number

    def pump(self) -> None:
        """Takes messages and sends them as requests while the window is open. Not taking is the backpressure."""
        standing = self._standing
        if len(self.outstanding) >= self._window or not standing.may_send:
            return
        host = standing.host
        group, most = standing.group, host.max_packet
        while len(self.outstanding) < self._window:
            batch = host.take(group, most, self.max_messages)
            if batch is None:
                return
            self.last = request = self.last + 1
            self.outstanding[request] = batch
            self._send(request, batch)
            if not self._armed:
                self._arm()

    def _send(self, request: int, batch: Batch) -> None:
        standing = self._standing
        standing.speak(Request(standing.group, standing.epoch, request, standing.log.contiguous, batch, standing.room.behind))

    def _arm(self) -> None:
        standing = self._standing
        self._armed = True
        self._mark = self.last
        standing.host.set_timer("retry", standing.host.now + standing.parameters.retry_after)

    def expire(self) -> None:
        """Repeats what was under way at the last expiry already: each request waits one to two intervals."""
        self._armed = False
        standing = self._standing
        if not self.outstanding:
            return
        if standing.may_send:
            old = [request for request in self.outstanding if request <= self._mark]
            for request in old[:REPEATED_AT_ONCE]:
                standing.host.record("retransmit", standing.group, what="request", request=request)
                self._repeat(request)
        self._arm()

    def _repeat(self, request: int) -> None:
        """The request or its number may have been lost; a duplicate is known by its request number."""
        self._send(request, self.outstanding[request])

    def send_all_again(self) -> None:
        """There is a new sequencer: what died with the old one is repeated, what did not is known by its number."""
        for request, batch in self.outstanding.items():
            self._send(request, batch)
        if self.outstanding and not self._armed:
            self._arm()
