"""Why an event happened, or why it came late, as a clause.

Reasons that protocols write into ``detail`` (``text`` is a sentence, ``situation`` a few words) are repeated. That of a delivery
is derived. Until the *first* delivery anywhere, a delay concerns all processes: the message was held back, the group had no
sequencer or changed its view, or what the protocol's story tells. From then on it concerns this process: a packet or an earlier
message was missing, or it was paused or partitioned. What rows say is told as a fact, what they only suggest is called probable;
otherwise the clause says that the trace does not tell.

Read in the rows of any protocol: ``retransmit`` with ``first`` and ``last`` asks for these ranks; ``elect`` with the stage
``elected``, and ``sync`` until the one with ``over``, keep a group from ordering anything. The rest is in a protocol's story.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any, Final

from ...core.names import place_of
from ...core.words import braces, fault_words, left_reasons, listed, reason, span
from ...protocols.story import Event
from .membership import evidence, given, parts_in
from .rows import Rows

_NAMED_MAX: Final = 3
"""Moments of the same kind that are named; the rest is counted."""
_CAUSES: Final = {"join": "somebody asks to join"}
"""Single words that protocols give as causes."""


class Why:
    """Answers for one run."""

    def __init__(self, rows: Rows) -> None:
        self._rows = rows
        self.moment = rows.moment
        self.story = rows.story

    def clause(self, event: Event) -> str | None:
        """Why this event happened; None if there is nothing to say that its kind does not say."""
        particular = {"deliver": self.delivery, "send": self._send, "view": self._view, "leave": self._leave}.get(event.kind)
        if particular is not None:
            return particular(event)
        if event.kind in ("elect", "sync") and isinstance(event.detail.get("why"), str):
            return _CAUSES.get(event.detail["why"], str(event.detail["why"]))
        if event.kind in ("form", "bye", "remove"):
            return evidence(event, self.story)  # their situation says no more than they do
        told = self.story.stopped(event) if event.kind == "crash" else self.story.reason(event)
        return told or given(event, self.story)

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
            *self.story.held_up(first, sent, naming),
        ]
        if clauses or not is_late:
            return "; ".join(clauses) or None
        waited = self.story.waited(first, sent)
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
        faults = self.faults(event.process, first.process, first.when, event.when) if late else []
        waited = self.story.waited(event, since) if late else None
        if waited is not None:
            return "; ".join([*clauses, *faults, waited])
        lacked = self.story.lacked(event, since) if late else None
        if lacked is not None:
            return "; ".join([*clauses, lacked, *faults])
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
            clauses += [*faults, *self.story.own_delays(event, since)]
            if not clauses and self._rows.is_global and not self.story.polls:
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
        return self._rows.moments([row.when for row in asked if asks_for(row, rank)])

    def _behind(self, event: Event, since: int) -> tuple[Event | None, str]:
        """The earlier message that was missing, and when it was asked for; or the one that seems to have been, and nothing."""
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

    def _no_order(self, first: Event, sent: int) -> Iterator[str]:
        """An election, a synchronisation or a view change lay in between."""
        where: dict[str, Any] = {"group": first.group, "after": sent, "until": first.when}
        elected = [row for row in self._rows.find("elect", **where) if row.detail.get("stage") == "elected"]
        for row in elected[-1:]:
            why = row.detail.get("why")
            until = f"until {row.process} was elected at {self.moment(row.when)}"
            yield f"the group had nobody to order it {until}{f' ({why})' if why else ''}"
        for row in [row for row in self._rows.find("sync", **where) if "master" not in row.detail][:1]:
            if not row.detail.get("over"):
                yield f"a synchronisation stopped the group at {self.moment(row.when)} ({self.clause(row) or 'no reason given'})"
        if elected:
            return
        for row in self._rows.find("view", process=first.process, **where)[-1:]:
            why = self._view(row)
            yield f"view {row.view} had to be installed first, at {self.moment(row.when)}{f' ({why})' if why else ''}"

    def faults(self, process: str, other: str, after: int, until: int) -> list[str]:
        """Faults in force in that time that touch the process, or lie between the two."""
        found = [
            f"in force: {fault_words(row.detail)} (since {self.moment(row.when)})"
            for row in self.faults_in_force(after, until)
            if touches(row.detail, process, other)
        ]
        return list(dict.fromkeys(found))[:_NAMED_MAX]

    def faults_over(self, after: int, until: int) -> list[tuple[Event, int]]:
        """Faults that end by themselves in this time, and when."""
        own = [(row, ends) for row, ends in self._lasting if ends is not None and isinstance(row.detail.get("length"), int)]
        return [(row, ends) for row, ends in own if after < ends <= until]

    def faults_in_force(self, after: int, until: int) -> list[Event]:
        """Faults with a duration that overlaps this time: until their length is over, or the network is healed."""
        return [row for row, ends in self._lasting if row.when <= until and (ends is None or ends > after)]

    @cached_property
    def _lasting(self) -> list[tuple[Event, int | None]]:
        """Faults with a duration, and when each is over; None: never."""
        rows = self._rows.find("fault")
        healed = sorted(row.when for row in rows if row.detail.get("fault") == "heal")
        found: list[tuple[Event, int | None]] = []
        for row in rows:
            length, healing = row.detail.get("length"), next((when for when in healed if when > row.when), None)
            if row.detail.get("fault") in ("pause", "slow", "partition", "cut", "clog", "loss"):
                found.append((row, row.when + length if isinstance(length, int) else healing))
        return found

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
        clauses = list(left_reasons(event.detail).values())
        joined = event.detail.get("joined")
        newcomers = event.detail.get("newcomers") or []
        met = [part for part in parts_in(event.detail) if part and part[0] not in newcomers]
        if len(met) > 1:
            clauses.append(f"{listed(map(braces, met))} came together")
            joined = newcomers
        before = self._rows.view_at(event, event.group or "")
        if isinstance(joined, list) and joined and (before is not None or len(joined) < len(event.members)):
            sponsor = self.story.admitted_by(event)
            by = f", let in by {sponsor}" if sponsor is not None else ""
            clauses.append(f"{listed(str(name) for name in joined)} joined{by}")
        if before is not None and not clauses:
            lost = [name for name in before.members if name not in event.members]
            new = [name for name in event.members if name not in before.members]
            clauses += [f"without {listed(lost)}"] if lost else []
            clauses += [f"with {listed(new)} joined"] if new else []
        return "; ".join(clauses) or None

    def _leave(self, event: Event) -> str | None:
        faults = self._rows.find("fault", process=event.process, until=event.when)
        asked = [row for row in faults if row.detail.get("fault") == "leave"]
        return f"it asked to leave at {self.moment(asked[-1].when)}" if asked else reason(event.detail)


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


def asks_for(row: Event, rank: int) -> bool:
    """Whether a ``retransmit`` row asks for this number of the order."""
    low, high = row.detail.get("first"), row.detail.get("last")
    return isinstance(low, int) and isinstance(high, int) and low <= rank <= high


def _number(event: Event) -> str:
    return f" (number {event.rank})" if event.rank is not None else ""
