"""What a delivery on a token ring waited for, why a member of the ring stopped, and what deadlines became.

Theory of operation
-------------------
On a ring a message is sent in its sender's turn, whose ``token`` row stands at the same instant. It is delivered when it comes in
its order: what holds it up is a packet before it that is missing (an ``ask`` row, and a ``retransmit`` row with this process
among those that it goes to), or a view that waits until all its members have spoken. A member that stops says by which rule
(``reason``); what led to it stands in the rows before: what was missing and asked for in vain, or who eliminated it, and why.

A deadline is promised as long as the assumptions hold that P was reckoned with. So beside a deadline that was missed stands what
was seen to be broken meanwhile (``state`` rows with ``broken``), faults that were in force, and members that crashed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from .ring_words import STOPS, broken, ground, missing, packets
from .rows import Event, Rows
from .words import listed, often, span, times, whole

_TOLD: Final = 3
"""So many things of one kind are named; the rest is counted."""


class Ring:
    """Answers for one run; about a run of another protocol it has nothing to say."""

    def __init__(self, rows: Rows, moment: Callable[[int], str]) -> None:
        self._rows = rows
        self._moment = moment
        self.is_there = rows.protocol() == "rtcast"
        """Whether the run is that of a token ring."""
        self._parameters: dict[str, Any] = rows.parameters() if self.is_there else {}

    # --- turns --------------------------------------------------------------------------------------------------------

    def turn_of(self, event: Event) -> Event | None:
        """The turn in which something was sent: the process's ``token`` row of that instant."""
        if not self.is_there:
            return None
        found = self._rows.find("token", process=event.process, group=event.group, after=event.when - 1, until=event.when)
        return next((row for row in found if row.index > event.index), None)

    def sent_in(self, event: Event) -> str:
        """In which turn a message was sent, and, if that came too late, how late, for the end of a sentence."""
        turn = self.turn_of(event)
        if turn is None or "visit" not in turn.detail:
            return ""
        told = f", in turn {turn.detail['visit']}"
        rotation, bound = whole(turn.detail, "rotation"), whole(turn.detail, "bound")
        if rotation is not None and bound is not None and rotation > bound:
            told += f", {span(rotation)} after the turn before, and P is {span(bound)}"
        return told

    # --- what a delivery waited for ------------------------------------------------------------------------------------

    def safe(self) -> str | None:
        """Why nobody delivers a message at once; None if that is not so."""
        if self._parameters.get("delivery") != "safe":
            return None
        return "delivery is safe: nobody delivers it before the heartbeats of all members have said that they have it"

    def waited(self, event: Event, since: int) -> str | None:
        """What was missing at a process when it could have delivered a message: the last that it asked for."""
        if not self.is_there:
            return None
        asked = self._rows.find("ask", process=event.process, group=event.group, after=since, until=event.when)
        if not asked:
            return None
        ask = asked[-1]
        first, last = whole(ask.detail, "first"), whole(ask.detail, "last")
        what = packets(ask.sender, first, last) if first is not None and last is not None else "a packet"
        told = f"{what}, which had to come before it, {'was' if first == last else 'were'} missing here: {event.process} "
        told += f"asked in its turn at {self._moment(ask.when)}"
        for row in self._rows.find("retransmit", group=event.group, after=ask.when, until=event.when):
            if event.process in _targets(row) and row.sender == ask.sender:
                return f"{told}, and {row.process} sent {'it' if first == last else 'them'} again at {self._moment(row.when)}"
        return told

    # --- changes ------------------------------------------------------------------------------------------------------

    def change_of(self, view: Event) -> Event | None:
        """The change by which a view was installed: the ``confirm`` row right before it."""
        rows = self._rows.find("confirm", process=view.process, group=view.group, after=view.when - 1, until=view.when)
        return next((row for row in rows if row.index < view.index and row.detail.get("number") == view.view), None)

    def grown(self, view: Event) -> str | None:
        """How a change of the ring changed P."""
        change = self.change_of(view) if self.is_there else None
        if change is None:
            return None
        # Who gives back what P has too much says so once, for everybody.
        rows = self._rows.find("confirm", group=view.group, until=change.when)
        before = [row for row in rows if whole(row.detail, "number") != view.view]
        rotation = whole(change.detail, "rotation")
        known = whole(before[-1].detail, "rotation") if before else None
        if rotation is None or known is None:
            return None
        return f"P stays {span(rotation)}" if rotation == known else f"P was {span(known)} and is now {span(rotation)}"

    # --- why a member stopped -----------------------------------------------------------------------------------------

    def stopped(self, event: Event) -> str | None:
        """Why a process halted, beyond what its ``crash`` row says."""
        code = event.detail.get("reason")
        if not self.is_there or not isinstance(code, str) or code not in STOPS:
            return None
        clauses = [STOPS[code]]
        match code:
            case "omission":
                clauses += self._omitted(event)
            case "eliminated":
                clauses = [*self._eliminated(event)] or clauses
            case "minority":
                clauses += self._outvoted(event)
        return "; ".join(clauses)

    def _omitted(self, event: Event) -> list[str]:
        """What was missing, how often it was asked for, and what was thrown away."""
        evidence = event.detail.get("evidence")
        lost = missing(evidence) if isinstance(evidence, dict) else []
        for row in self._rows.find("receive", process=event.process, after=event.when - 1, until=event.when):
            lost += missing(row.detail) if row.detail.get("omission") else []
        if not lost:
            return []
        sender, first, last = lost[0]
        told = [f"missing was {packets(sender, first, last)}"]
        asked = [
            row
            for row in self._rows.find("ask", process=event.process, until=event.when)
            if (row.sender, whole(row.detail, "first")) == (sender, first)
        ]
        if asked:
            when = f"at {self._moment(asked[0].when)}" if len(asked) == 1 else f"from {self._moment(asked[0].when)} on"
            told[0] += f", which it had asked for {often(len(asked))}, {when}"
            answered = [
                row
                for row in self._rows.find("retransmit", after=asked[0].when, until=event.when)
                if event.process in _targets(row) and (row.sender, whole(row.detail, "number")) == (sender, first)
            ]
            told[0] += f" ({_sent_again(answered)})" if answered else " (nobody sent it again)"
        elif self._parameters.get("retransmissions") == 0:
            told[0] += " (with r = 0 nothing is sent again)"
        late = [
            row
            for row in self._rows.find("drop", process=event.process, until=event.when)
            if row.detail.get("why") == "late" and row.detail.get("source") == sender
        ]
        if late:
            were = "was" if len(late) == 1 else "were"
            told.append(f"{times(len(late), 'packet')} of {sender} had come too late and {were} thrown away")
        return told

    def _eliminated(self, event: Event) -> list[str]:
        rows = self._rows.find("suspect", until=event.when)
        by = [row for row in rows if event.process in _named(row) and row.process != event.process]
        if not by:
            return []
        row = by[-1]
        why = ground("suspect", row.detail)
        return [f"{row.process} had eliminated it at {self._moment(row.when)}" + (f" ({why})" if why else "")]

    def _outvoted(self, event: Event) -> list[str]:
        evidence = event.detail.get("evidence")
        known = evidence if isinstance(evidence, dict) else {}
        silent, base = ([str(name) for name in known.get(key) or ()] for key in ("silent", "base"))
        return [f"of the ring {{{', '.join(base)}}} it did not hear {listed(silent)}"] if silent and base else []

    # --- deadlines ----------------------------------------------------------------------------------------------------

    def meanwhile(self, after: int, until: int) -> list[str]:
        """What was seen to be broken in that time, of what P was reckoned with."""
        found: dict[tuple[str, str], list[Event]] = {}
        for row in self._rows.find("state", after=after, until=until):
            if isinstance(row.detail.get("broken"), str):
                found.setdefault((row.process, row.detail["broken"]), []).append(row)
        told = []
        for (process, _), rows in list(found.items())[:_TOLD]:
            worst = max(rows, key=lambda row: whole(row.detail, "measured") or 0)
            more = f" (the worst of {len(rows):,})" if len(rows) > 1 else ""
            told.append(f"at {self._moment(worst.when)} {process} {broken(worst.detail)}{more}")
        return told


def _targets(row: Event) -> Sequence[str]:
    to = row.detail.get("to")
    return to if isinstance(to, list) else ()


def _named(row: Event) -> Sequence[str]:
    named = row.detail.get("processes")
    return named if isinstance(named, list) else ()


def _sent_again(rows: Sequence[Event]) -> str:
    who = listed(dict.fromkeys(row.process for row in rows))
    return f"{who} sent it again{f' {often(len(rows))}' if len(rows) > 1 else ''}, in vain"
