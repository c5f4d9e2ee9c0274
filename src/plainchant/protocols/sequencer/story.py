"""What is told about runs of ``sequencer``: requests that were repeated or held back, and acknowledgements for resilience.

A member's messages travel to the sequencer in batches, its requests, which it numbers from 1. ``retransmit``, ``block`` and
``drop`` rows with ``request`` are about one of them. Deliveries do not name their request, but each batch has one rank, and a
member's batches are numbered in order: so the n-th rank among a member's own messages is its n-th request. That is not so when
requests run ahead of messages, as with fragments; then nothing is told about requests."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence

from ...core.words import listed, reason, whole
from ..story import Event, Message, Run, Step, Story


class SequencerStory(Story):
    """The story of a run of ``sequencer``."""

    def __init__(self, run: Run) -> None:
        super().__init__(run)
        self._own: dict[tuple[str, str], list[tuple[int, int]]] = {}
        self._plausible: dict[tuple[str, str], bool] = {}

    @classmethod
    def sentence(cls, event: Event) -> str | None:
        detail = event.detail
        if event.kind == "state" and "sequencer" in detail:
            return f"{event.process} follows {detail['sequencer']} in epoch {detail.get('epoch')}"
        if event.kind == "state" and "superseded_by" in detail:
            return f"{event.process} gives up its office of epoch {detail.get('epoch')}"
        return None

    def steps(self, message: Message, send: Event, until: int) -> list[Step]:
        """The sender's repeated requests for a message, and what the sequencer did with them."""
        group, sender, _ = message
        request = self._request_of(message)
        found: list[Step] = []
        if request is None:
            return found
        for event in self.run.find("retransmit", "block", "drop", group=group, after=send.when, until=until):
            if event.detail.get("request") != request:
                continue
            if event.process == sender and event.kind == "retransmit":
                found.append((event, f"{event.process} repeats its request for it (its request {request})", None))
            elif event.detail.get("process") == sender:
                what = "holds that request back" if event.kind == "block" else "drops that request"
                found.append((event, f"{event.process} {what}", reason(event.detail)))
        return found

    def held_up(self, first: Event, sent: int, naming: Sequence[Event]) -> list[str]:
        return [*self._repeated(first, sent), *self._held(first, sent), *self._acknowledged(first, sent)]

    def _repeated(self, first: Event, sent: int) -> Iterator[str]:
        """The sender repeated its request."""
        request = self._request_of(first.message)
        rows = self.run.find("retransmit", process=first.sender, group=first.group, after=sent, until=first.when)
        again = [row for row in rows if request is not None and row.detail.get("request") == request]
        named = [row for row in rows if row.message == first.message]
        held = next(self._holds(first, sent), None)
        # A request that was repeated while it was held back was repeated for nothing.
        found = [row for row in again or named if held is None or row.when < held.when]
        if found:
            moments = self.run.moments(row.when for row in found)
            yield f"{first.sender}'s request for it went unanswered and was repeated {moments}"

    def _held(self, first: Event, sent: int) -> Iterator[str]:
        """The sequencer held the request back."""
        for row in self._holds(first, sent):
            before = self._before(first.message, row.detail["request"])
            waiting = f": {before}, which comes before it, had not arrived yet" if before else ""
            yield f"{row.process} held it back at {self.run.moment(row.when)} ({reason(row.detail)}){waiting}"
            return

    def _holds(self, first: Event, sent: int) -> Iterator[Event]:
        request = self._request_of(first.message)
        for row in self.run.find("block", group=first.group, after=sent, until=first.when):
            if request is not None and row.detail.get("request") == request and row.detail.get("process") == first.sender:
                yield row

    def _acknowledged(self, first: Event, sent: int) -> Iterator[str]:
        """With resilience, other members must hold a message before any member delivers it."""
        needed = self.run.parameters.get("resilience")
        if not isinstance(needed, int) or needed < 1 or first.rank is None:
            return
        acknowledged: dict[str, int] = {}
        for row in self.run.find("null", group=first.group, after=sent, until=first.when):
            ack = whole(row.detail, "ack")
            if row.process != first.process and ack is not None and ack >= first.rank:
                acknowledged.setdefault(row.process, row.when)
        if acknowledged:
            who = listed([f"{name} at {self.run.moment(when)}" for name, when in list(acknowledged.items())[:needed]])
            others = "1 other member holds" if needed == 1 else f"{needed} other members hold"
            yield f"with resilience {needed} nobody delivers it before {others} it: acknowledged by {who}"

    def _request_of(self, message: Message) -> int | None:
        """The number of the request in which a message travelled; None if that cannot be told."""
        group, sender, seq = message
        own = self._ranks_of(group, sender)
        rank = next((rank for number, rank in own if number == seq), None)
        if rank is None or not self._counts_batches(group, sender):
            return None
        return len({each for _, each in own if each <= rank})

    def _before(self, message: Message, request: int) -> str:
        """What its sender sent in the request before this one, if it was delivered."""
        group, sender, _ = message
        own = self._ranks_of(group, sender)
        ranks = sorted({rank for _, rank in own})
        if not 2 <= request <= len(ranks):
            return ""
        return next(f"{group}/{sender}/{seq}" for seq, rank in own if rank == ranks[request - 2])

    def _ranks_of(self, group: str, sender: str) -> list[tuple[int, int]]:
        """Numbers and ranks of a member's deliveries of its own messages, in order."""
        if (group, sender) not in self._own:
            self._own[group, sender] = self.run.ranks("deliver", process=sender, group=group, sender=sender)
        return self._own[group, sender]

    def _counts_batches(self, group: str, sender: str) -> bool:
        """Whether a sender's request numbers can count its batches: never more than it has sent messages by then."""
        if (group, sender) not in self._plausible:
            sends = sorted(self.run.instants("send", process=sender, group=group))
            asked = self.run.find("retransmit", process=sender, group=group)
            self._plausible[group, sender] = all(
                number <= bisect_right(sends, row.when) for row in asked if (number := whole(row.detail, "request")) is not None
            )
        return self._plausible[group, sender]
