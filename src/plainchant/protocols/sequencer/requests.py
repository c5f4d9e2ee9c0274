"""A sender's requests: numbered 1, 2, 3, ..., kept until they come back in the order, repeated until then.

Several may be under way (``window``); the sequencer holds one that overtook an earlier one, so that each sender's order is
kept. A repeated request carries the same number, by which duplicates are known.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ...core.engine import Host
from ...core.model import Batch
from .packets import Request

if TYPE_CHECKING:
    from .member import Member
    from .office import Office

REPEATED_AT_ONCE: Final = 8
"""So many requests are repeated at a time."""


class Requests:
    """What this process has asked the sequencer to broadcast."""

    __slots__ = ("_armed", "_mark", "_member", "_most", "_window", "last", "outstanding", "wants_number")

    def __init__(self, member: Member) -> None:
        self._member = member
        self._window = member.parameters.window
        self._most = 0 if member.parameters.pack else 1
        self._armed = False
        self._mark = 0
        self.last = 0
        self.outstanding: dict[int, Batch] = {}
        self.wants_number = False
        """At the sequencer: whether there may be more to send than it could number."""

    def pump(self) -> None:
        """Takes messages as long as they may be sent. Not taking is the back-pressure."""
        member = self._member
        if member.leaving:
            return
        host = member.host
        office = member.office
        if office is not None:
            # What was asked for before we had the office comes first.
            while not self.outstanding and office.has_turn and office.open:
                batch = host.take(member.group, host.max_packet, self._most)
                if batch is None:
                    self.wants_number = False
                    return
                self.last += 1
                office.number(member.me, self.last, batch)
            self.wants_number = True
            office.wait_for_room()
        elif len(self.outstanding) < self._window and member.may_send:
            self._ask(host)

    def _ask(self, host: Host) -> None:
        """Sends requests as long as the window is open and there is something to send."""
        group, most = self._member.group, host.max_packet
        while len(self.outstanding) < self._window:
            batch = host.take(group, most, self._most)
            if batch is None:
                return
            self.last = request = self.last + 1
            self.outstanding[request] = batch
            self._send(request, batch)
            if not self._armed:
                self._arm()

    def came_back(self, request: int) -> None:
        """Our request has its place in the order."""
        self.outstanding.pop(request, None)
        if self._member.leaving:
            self._member.door.go_on_leaving()
        else:
            self.pump()

    def _send(self, request: int, batch: Batch) -> None:
        member = self._member
        member.speak(Request(member.group, member.epoch, request, member.log.contiguous, batch, member.room.behind))

    def _arm(self) -> None:
        member = self._member
        self._armed = True
        self._mark = self.last
        member.host.set_timer("retry", member.host.now + member.parameters.retry_after)

    def expire(self) -> None:
        """Repeats what was under way at the last expiry already: each request waits one to two intervals."""
        self._armed = False
        member = self._member
        if not self.outstanding:
            return
        if member.may_send:
            old = [request for request in self.outstanding if request <= self._mark]
            for request in old[:REPEATED_AT_ONCE]:
                member.host.record("retransmit", member.group, what="request", request=request)
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

    def hand_to_office(self, office: Office) -> None:
        """We are the sequencer now. What is not numbered yet stays here too: the office may not last."""
        for request, batch in list(self.outstanding.items()):
            office.ask_number(self._member.me, request, batch)
