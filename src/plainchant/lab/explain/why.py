"""Why an event happened, or why it came late, as a clause.

Theory of operation
-------------------
Protocols write their reasons into ``detail`` (``text`` is a sentence, ``situation`` a few words); those are simply
repeated. A delivery has no reason of its own, so it is derived. Its delay has two parts. Until the *first* delivery
anywhere it is everybody's: the sender had to repeat its request, the message was held back, the group had nobody to
order it, members had to hold it first. From then on it is this process's own: a packet was missing and was asked for,
an earlier message was missing, the process was paused or cut off. What rows say is told as a fact; what they only
suggest is called probable; if they do not even do that, the clause says so.

Conventions that are read where they are kept (and do no harm where they are not): ``retransmit`` with ``first`` and
``last`` asks for these ranks; ``retransmit``, ``block`` and ``drop`` with ``request`` are about the sender's n-th batch;
``null`` with ``ack`` acknowledges all ranks up to it; ``elect`` with the stage ``elected``, and ``sync`` until the one
with ``over``, keep a group from ordering anything.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any, Final

import numpy as np

from ...core.model import MS
from ...core.names import place_of
from .blocks import Blocks
from .mailbox import Mailbox
from .membership import evidence, parts_in
from .ring import Ring
from .ring_words import act, ground
from .rows import Event, Message, Rows, ints
from .words import braces, fault_words, left_reasons, listed, span, times

_TOLD: Final = 3
"""So many moments of the same kind are named; the rest is counted."""


_CAUSES: Final = {"join": "somebody asks to join"}
"""Single words that protocols give as causes."""


class Why:
    """Answers for one run."""

    def __init__(self, rows: Rows, origin: int, *, is_whole: bool = True) -> None:
        """``is_whole``: the rows are all of the run."""
        self._rows = rows
        self._origin = origin
        self.blocks = Blocks(rows, self.moment, is_whole=is_whole)
        self.ring = Ring(rows, self.moment)
        self.mailbox = Mailbox(rows, self.moment)
        self._plausible: dict[tuple[str, str], bool] = {}

    def moment(self, when: int) -> str:
        """When, as the run's readers count."""
        return f"{(when - self._origin) / MS:.3f} ms"

    def clause(self, event: Event) -> str | None:
        """Why this event happened; None if there is nothing to say that its kind does not say."""
        match event.kind:
            case "deliver":
                return self.delivery(event)
            case "send":
                return self._send(event)
            case "view":
                return self._view(event)
            case "leave":
                return self._leave(event)
            case "elect" | "sync" if isinstance(event.detail.get("why"), str):
                return _CAUSES.get(event.detail["why"], str(event.detail["why"]))
            case "form" | "bye" | "remove":
                return evidence(event)  # their situation says no more than they do
            case "crash":
                return self.ring.stopped(event) or given(event)
        return self.mailbox.clause(event) or given(event)

    # --- deliveries ---------------------------------------------------------------------------------------------------

    def delivery(self, event: Event, *, alone: bool = True) -> str | None:
        """What a delivery waited for. If it does not stand ``alone``, what held up everybody is left to the first."""
        naming = self._rows.naming(event.message)
        delivered = [other for other in naming if other.kind == "deliver"]
        if any(other.process == event.process and other.index < event.index for other in delivered):
            return "it was delivered here before"
        send = next((other for other in naming if other.kind == "send"), None)
        first = delivered[0] if delivered else event
        if event.at == first.at:
            return self.everybody(event, send, naming)
        own = self.own(event, send, first, naming)
        if own is not None or not alone:
            return own
        shared = self.everybody(first, send, naming)
        return None if shared is None else f"like everybody's: {shared}"

    def everybody(self, first: Event, send: Event | None, naming: Sequence[Event]) -> str | None:
        """What lay between the send and the first delivery anywhere."""
        sent = send.when if send is not None else first.sent
        if sent is None:
            return "its send is not in the trace" if send is None else None
        delay = first.when - sent
        is_late = self._is_late(delay)
        clauses = [
            *self._blocked(naming, first.process, sent, first.when),
            *self._no_order(first, sent),
            *(self.faults(first.process, first.sender or "", sent, first.when) if is_late else ()),
            *self._repeated(first, sent),
            *self._held(first, sent),
            *self._resilience(first, sent),
            *self.mailbox.waited((*naming, *self.mailbox.about(first.message)), first),
        ]
        safe = self.ring.safe()
        clauses += [safe] if safe is not None else []
        if clauses or not is_late:
            return "; ".join(clauses) or None
        waited = self.blocks.waited(first, sent)
        if waited is not None:
            return waited
        before = [row for row in self._rows.burst(first) if row.sender == first.sender]
        if before:
            return f"it probably waited for {before[0].name} of the same sender, which was delivered at the same instant"
        return f"the trace does not say why it took {span(delay)} (usual: {span(self._rows.usual)})"

    def own(self, event: Event, send: Event | None, first: Event, naming: Sequence[Event]) -> str | None:
        """What held up this process while another had delivered already."""
        since = send.when if send is not None else first.when
        clauses = list(self._blocked(naming, event.process, since, event.when))
        late = self._is_late(event.when - first.when)
        if late:
            clauses += self._no_order(event, first.when)
        waited = self.blocks.waited(event, since) if late else None
        if waited is not None:
            return "; ".join([*clauses, *self.faults(event.process, first.process, first.when, event.when), waited])
        lacked = self.ring.waited(event, since) if late else None
        if lacked is not None:
            return "; ".join([*clauses, lacked, *self.faults(event.process, first.process, first.when, event.when)])
        missing = self._asked_for(event, event.rank, since)
        behind, asked = self._behind(event, since)
        if missing and asked == missing and behind is not None:
            both = f"its packet{_number(event)} and that of {behind.name}{_number(behind)}, which comes before it,"
            clauses.append(f"{both} were missing here: {event.process} asked for them {missing}")
        elif missing:
            clauses.append(f"its packet{_number(event)} was missing here: {event.process} asked for it {missing}")
        elif behind is not None and asked:
            before = f"{behind.name}{_number(behind)}, which comes before it,"
            clauses.append(f"{before} was missing here: {event.process} asked for it {asked}")
        elif behind is not None and not clauses:
            clauses.append(f"it probably waited for {behind.name}, which comes before it and came at the same instant")
        if late:
            clauses += self.faults(event.process, first.process, first.when, event.when)
            clauses += self.mailbox.own(event, since)
            if not clauses and self._rows.is_global and not self.mailbox.is_there:
                received = [row.when for row in naming if row.kind == "receive" and row.process == event.process]
                clauses.append(self._unknown(event, first, received))
        return "; ".join(clauses) or None

    def _is_late(self, delay: int) -> bool:
        return self._rows.usual > 0 and delay > 2 * self._rows.usual

    def _unknown(self, event: Event, first: Event, received: Sequence[int]) -> str:
        after = f"it came {span(event.when - first.when)} after {first.process}'s delivery"
        if received and received[0] < event.when:
            return f"{after}; it was received at {self.moment(received[0])}, and the trace does not say what it waited for"
        if event.process == event.sender:
            return f"{after}, though {event.process} itself sent it: the trace does not say what it waited for"
        return f"{after}; probably its packet was late, or lost and sent again: the trace does not say"

    def _blocked(self, naming: Sequence[Event], process: str, after: int, until: int) -> Iterator[str]:
        """Rows that say that this very message is held back."""
        for row in naming:
            if row.kind == "block" and row.process == process and after <= row.when <= until:
                yield f"it was held back from {self.moment(row.when)} on: {reason(row.detail) or 'no reason given'}"
                return

    def _asked_for(self, event: Event, rank: int | None, after: int) -> str:
        """When this process asked for a number of the order; empty if it did not."""
        if rank is None:
            return ""
        asked = self._rows.find("retransmit", process=event.process, group=event.group, after=after, until=event.when)
        return self._moments([row.when for row in asked if _covers(row.detail, rank, rank)])

    def _behind(self, event: Event, since: int) -> tuple[Event | None, str]:
        """Something earlier in the order that was missing (what came free at the same instant begins with it), and when
        it was asked for; or what only seems to have been missing, and nothing."""
        burst = self._rows.burst(event)
        earlier = [row for row in burst if row.rank is not None and event.rank is not None and row.rank < event.rank]
        # The first of them is what all the others had to wait for.
        for row in earlier:
            asked = self._asked_for(row, row.rank, min(since, row.sent if row.sent is not None else since))
            if asked:
                return row, asked
        return (burst[0] if burst and self._came_here_last(event, burst[0]) else None), ""

    def _came_here_last(self, event: Event, head: Event) -> bool:
        """Whether others delivered the head of a burst clearly before: then it, and not the message, was late here."""
        others = [row.when for row in self._rows.naming(head.message) if row.kind == "deliver" and row.at != head.at]
        return bool(others) and self._is_late(event.when - min(others))

    def _repeated(self, first: Event, sent: int) -> Iterator[str]:
        """The sender asked again for a place in the order."""
        request = self.request_of(first.message)
        rows = self._rows.find("retransmit", process=first.sender, group=first.group, after=sent, until=first.when)
        again = [row for row in rows if request is not None and row.detail.get("request") == request]
        named = [row for row in rows if row.message == first.message]
        held = next(self._holds(first, sent), None)
        # What was repeated while it was held back was repeated for nothing.
        found = [row for row in again or named if held is None or row.when < held.when]
        if found:
            yield f"{first.sender}'s request for it went unanswered and was repeated {self._moments([r.when for r in found])}"

    def _held(self, first: Event, sent: int) -> Iterator[str]:
        """Who gives numbers kept the request back."""
        for row in self._holds(first, sent):
            before = self._before(first.message, row.detail["request"])
            waiting = f": {before}, which comes before it, had not arrived yet" if before else ""
            yield f"{row.process} held it back at {self.moment(row.when)} ({reason(row.detail)}){waiting}"
            return

    def _holds(self, first: Event, sent: int) -> Iterator[Event]:
        request = self.request_of(first.message)
        for row in self._rows.find("block", group=first.group, after=sent, until=first.when):
            if request is not None and row.detail.get("request") == request and row.detail.get("process") == first.sender:
                yield row

    def _before(self, message: Message, request: int) -> str:
        """What its sender sent in the batch before, if that was numbered only after this one had been sent."""
        rows = self._rows
        group, sender, _ = message
        own = np.flatnonzero(rows.mask("deliver", process=sender, group=group, sender=sender) & (rows.rank >= 0))
        ranks = np.unique(rows.rank[own])
        if not 2 <= request <= len(ranks):
            return ""
        return rows.events(own[rows.rank[own] == ranks[request - 2]][:1])[0].name

    def _no_order(self, first: Event, sent: int) -> Iterator[str]:
        """An election, a synchronisation or a view change lay in between."""
        where: dict[str, Any] = {"group": first.group, "after": sent, "until": first.when}
        elected = [row for row in self._rows.find("elect", **where) if row.detail.get("stage") == "elected"]
        for row in elected[-1:]:
            why = row.detail.get("why")
            yield (
                f"the group had nobody to order it until {row.process} was elected at {self.moment(row.when)}"
                f"{f' ({why})' if why else ''}"
            )
        for row in [row for row in self._rows.find("sync", **where) if "master" not in row.detail][:1]:
            if not row.detail.get("over"):
                yield f"a synchronisation stopped the group at {self.moment(row.when)} ({self.clause(row) or 'no reason given'})"
        if elected:
            return
        for row in self._rows.find("view", process=first.process, **where)[-1:]:
            why = self._view(row)
            yield f"view {row.view} had to be installed first, at {self.moment(row.when)}{f' ({why})' if why else ''}"

    def _resilience(self, first: Event, sent: int) -> Iterator[str]:
        """With resilience, others must hold a message before anybody delivers it."""
        needed = self._rows.parameters().get("resilience")
        if not isinstance(needed, int) or needed < 1 or first.rank is None:
            return
        acknowledged: dict[str, int] = {}
        for row in self._rows.find("null", group=first.group, after=sent, until=first.when):
            if row.process != first.process and any(ack >= first.rank for ack in ints([row.detail.get("ack")])):
                acknowledged.setdefault(row.process, row.when)
        if acknowledged:
            who = listed([f"{name} at {self.moment(when)}" for name, when in list(acknowledged.items())[:needed]])
            others = "1 other member holds" if needed == 1 else f"{needed} other members hold"
            yield f"with resilience {needed} nobody delivers it before {others} it: acknowledged by {who}"

    def faults(self, process: str, other: str, after: int, until: int) -> list[str]:
        """Faults in force in that time that touch the process, or lie between the two."""
        found = [
            f"in force: {fault_words(row.detail)} (since {self.moment(row.when)})"
            for row in self.faults_in_force(after, until)
            if touches(row.detail, process, other)
        ]
        return list(dict.fromkeys(found))[:_TOLD]

    def faults_over(self, after: int, until: int) -> list[tuple[Event, int]]:
        """Faults that end by themselves in this time, and when."""
        return [
            (row, ends)
            for row, ends in self._lasting
            if ends is not None and after < ends <= until and isinstance(row.detail.get("length"), int)
        ]

    def faults_in_force(self, after: int, until: int) -> list[Event]:
        """Faults with a duration that overlaps this time: until their length is over, or somebody heals the network."""
        return [row for row, ends in self._lasting if row.when <= until and (ends is None or ends > after)]

    @cached_property
    def _lasting(self) -> list[tuple[Event, int | None]]:
        """Faults with a duration, and when each is over; None: never."""
        rows = self._rows.find("fault")
        healed = sorted(row.when for row in rows if row.detail.get("fault") == "heal")
        found: list[tuple[Event, int | None]] = []
        for row in rows:
            if row.detail.get("fault") not in ("pause", "slow", "partition", "cut", "clog", "loss"):
                continue
            length = row.detail.get("length")
            place = bisect_right(healed, row.when)
            ends = row.when + length if isinstance(length, int) else healed[place] if place < len(healed) else None
            found.append((row, ends))
        return found

    def request_of(self, message: Message) -> int | None:
        """Which of its sender's batches the message travelled in: each batch has one rank, and they come in order.

        None if that cannot be told, as when a sender's numbers of requests run ahead of its messages (fragments).
        """
        rows = self._rows
        group, sender, seq = message
        own = rows.mask("deliver", process=sender, group=group, sender=sender) & (rows.rank >= 0)
        mine = own & (rows.seq == seq)
        if not mine.any():
            return None
        if not self._counts_batches(sender, group):
            return None
        rank = int(rows.rank[np.flatnonzero(mine)[0]])
        return len(np.unique(rows.rank[own & (rows.rank <= rank)]))

    def _counts_batches(self, sender: str, group: str) -> bool:
        """Whether a sender's numbers of requests can be those of its batches: never more than messages taken by then."""
        if (sender, group) not in self._plausible:
            rows = self._rows
            sends = np.sort(rows.when[rows.mask("send", process=sender, group=group)])
            asked = rows.find("retransmit", process=sender, group=group)
            self._plausible[sender, group] = all(
                number <= np.searchsorted(sends, row.when, side="right")
                for row in asked
                for number in ints([row.detail.get("request")])
            )
        return self._plausible[sender, group]

    def _moments(self, when: Sequence[int]) -> str:
        """``at A``, ``at A and B``, or the first few and a count."""
        if not when:
            return ""
        if len(when) <= _TOLD:
            return "at " + listed(self.moment(each) for each in when)
        return f"{times(len(when), 'time')}, from {self.moment(when[0])} to {self.moment(when[-1])}"

    # --- other kinds --------------------------------------------------------------------------------------------------

    def _send(self, event: Event) -> str | None:
        """A send that had to wait: the last block of its group here, if it was lifted at that instant."""
        rows = self._rows.find("block", "unblock", process=event.process, group=event.group, until=event.when)
        rows = [row for row in rows if row.index < event.index and "request" not in row.detail]
        if len(rows) < 2 or rows[-1].kind != "unblock" or rows[-1].when < event.when:
            return None
        why = reason(rows[-2].detail)
        return f"sending was blocked from {self.moment(rows[-2].when)} on{f': {why}' if why else ''}"

    def _view(self, event: Event) -> str | None:
        """Why the view differs from the one before."""
        gone = left_reasons(event.detail)
        clauses = list(gone.values())
        joined = event.detail.get("joined")
        newcomers = event.detail.get("newcomers") or []
        met = [part for part in parts_in(event.detail) if part and part[0] not in newcomers]
        if len(met) > 1:
            clauses.append(f"{listed(map(braces, met))} came together")
            joined = newcomers
        before = self._rows.view_at(event, event.group or "")
        if isinstance(joined, list) and joined and (before is not None or len(joined) < len(event.members)):
            change = self.ring.change_of(event) if self.ring.is_there else None
            by = f", let in by {change.detail['by']}" if change is not None and isinstance(change.detail.get("by"), str) else ""
            clauses.append(f"{listed(str(name) for name in joined)} joined{by}")
        if before is not None and not clauses:
            lost = [name for name in before.members if name not in event.members]
            new = [name for name in event.members if name not in before.members]
            clauses += [f"without {listed(lost)}"] if lost else []
            clauses += [f"with {listed(new)} joined"] if new else []
        return "; ".join(clauses) or None

    def _leave(self, event: Event) -> str | None:
        asked = [
            row for row in self._rows.find("fault", process=event.process, until=event.when) if row.detail.get("fault") == "leave"
        ]
        return f"it asked to leave at {self.moment(asked[-1].when)}" if asked else reason(event.detail)


def given(event: Event) -> str | None:
    """Why an event happened, as its own row has it."""
    if act(event.kind, event.detail, event.sender) is not None:
        return ground(event.kind, event.detail)
    return evidence(event) or reason(event.detail)


def reason(detail: dict[str, Any]) -> str | None:
    """The reason that a row itself gives."""
    given = detail.get("reason")
    for name in ("text", "situation", "why", "reason"):
        # A protocol's Reason has its sentence inside.
        value = given.get("text") if name == "text" and isinstance(given, dict) else detail.get(name)
        if isinstance(value, str) and value:
            return value
    return None


def touches(detail: dict[str, Any], process: str, other: str) -> bool:
    """Whether a fault stops a process or stands between two of them. (Faults name places: ``p3`` is also ``p3#1``.)"""
    place, opposite = place_of(process), place_of(other)
    match detail.get("fault"):
        case "pause" | "slow":
            return detail.get("process") == place
        case "partition":
            parts = [part for part in detail.get("parts", []) if place in part]
            return bool(parts) and opposite not in parts[0]
        case "cut" | "clog" | "loss":
            ends = detail.get("source"), detail.get("target")
            return place in ends or (opposite in ends and None in ends) or ends == (None, None)
    return False


def _covers(detail: dict[str, Any], first: int, last: int) -> bool:
    """Whether a row asks for one of these numbers of the order."""
    low, high = detail.get("first"), detail.get("last")
    return isinstance(low, int) and isinstance(high, int) and low <= last and first <= high


def _number(event: Event) -> str:
    return f" (number {event.rank})" if event.rank is not None else ""
