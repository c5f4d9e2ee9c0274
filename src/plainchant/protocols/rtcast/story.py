"""What is told about runs of ``rtcast``: turns, missing packets, eliminations, and what became of deadlines.

A message is sent in its sender's turn, whose ``token`` row stands at the same instant. It is delivered when its place in the
order comes. It is held up by an earlier packet that is missing (an ``ask`` row, and a ``retransmit`` row with this process among
its destinations), or by a view that waits until all its members have spoken. A member that stops says by which rule (``reason``);
the rows before tell what led to it: what was missing and asked for in vain, or which member eliminated it, and why.

A deadline is promised as long as the assumptions hold from which P was computed. So beside a missed deadline stands what was seen
to be broken meanwhile (``state`` rows with ``broken``), the faults in force, and the members that crashed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Final

from ...core.words import listed, names_in, often, short, span, times, whole
from ..story import Event, Sign, Story
from .story_words import STOPS, act, broken, ground, missing, packets

_NAMED_MAX: Final = 3  # Broken assumptions that are named; the rest is left out
_LABEL_MAX: Final = 8  # Characters of a sender's name in a label


class RingStory(Story):
    """The story of a run on a token ring."""

    view_kinds: ClassVar = ("request", "query", "usend", "collision", "reject")
    process_kinds: ClassVar = ("confirm", "query", "collision", "request", "reject", "admit", "release", "receive", "drop")
    drawn_kinds: ClassVar = ("request", "query", "usend", "collision", "reject", "ask", "retransmit", "receive")
    sheets: ClassVar = ("ring",)
    has_turns: ClassVar = True

    act = staticmethod(act)
    ground = staticmethod(ground)

    @staticmethod
    def likeness(event: Event) -> tuple[str, ...] | None:
        detail = event.detail
        if event.kind == "state" and isinstance(detail.get("broken"), str):
            return event.process, "broken", detail["broken"], str(detail.get("source"))
        if event.kind == "drop" and "packet" in detail:
            return event.process, "drop", str(detail.get("why")), str(detail.get("source"))
        if event.kind == "reject" and whole(detail, "period_ns") == 0:
            return event.process, "reject", str(detail.get("reason"))
        return None

    @staticmethod
    def sign(event: Event) -> Sign | None:
        detail = event.detail
        match event.kind:
            case "token":
                return "beat", str(detail.get("visit", "")), "bad" if detail.get("by") == "timeout" else "soft"
            case "ask" | "retransmit":
                packet = f"{short(event.sender or '', _LABEL_MAX)}:{detail.get('first', detail.get('number', ''))}"
                return "ask" if event.kind == "ask" else "again", packet, "asktext"
            case "receive":
                return "omission", "omission", "bad"
        vote = "yes" if detail.get("vote") else "no"
        forms = {"request": "asks in", "usend": vote, "reject": "not let in", "confirm": "P smaller"}
        return ("form", forms[event.kind], "formtext") if event.kind in forms else None

    @staticmethod
    def is_quiet(event: Event) -> bool:
        match event.kind:
            case "confirm" if "kinds" in event.detail:
                return "reclaim" not in names_in(event.detail["kinds"])
            case "reject":
                return "stream" in event.detail
            case "receive":
                return not event.detail.get("omission")
        return False

    def sent_in(self, event: Event) -> str:
        found = self.run.find("token", process=event.process, group=event.group, after=event.when - 1, until=event.when)
        turn = next((row for row in found if row.index > event.index), None)
        if turn is None or "visit" not in turn.detail:
            return ""
        told = f", in turn {turn.detail['visit']}"
        rotation, bound = whole(turn.detail, "rotation"), whole(turn.detail, "bound")
        if rotation is not None and bound is not None and rotation > bound:
            told += f", {span(rotation)} after the turn before, and P is {span(bound)}"
        return told

    def held_up(self, first: Event, sent: int, naming: Sequence[Event]) -> list[str]:
        if self.run.parameters.get("delivery") != "safe":
            return []
        return ["delivery is safe: nobody delivers it before the heartbeats of all members have said that they have it"]

    def lacked(self, event: Event, since: int) -> str | None:
        run = self.run
        asked = run.find("ask", process=event.process, group=event.group, after=since, until=event.when)
        if not asked:
            return None
        ask = asked[-1]
        first, last = whole(ask.detail, "first"), whole(ask.detail, "last")
        what = packets(ask.sender, first, last) if first is not None and last is not None else "a packet"
        told = f"{what}, which had to come before it, {'was' if first == last else 'were'} missing here: {event.process} "
        told += f"asked in its turn at {run.moment(ask.when)}"
        for row in run.find("retransmit", group=event.group, after=ask.when, until=event.when):
            if event.process in _processes(row, "to") and row.sender == ask.sender:
                return f"{told}, and {row.process} sent {'it' if first == last else 'them'} again at {run.moment(row.when)}"
        return told

    def admitted_by(self, view: Event) -> str | None:
        change = self._change_of(view)
        by = change.detail.get("by") if change is not None else None
        return by if isinstance(by, str) else None

    def _change_of(self, view: Event) -> Event | None:
        """The change that installed a view: the ``confirm`` row right before it."""
        rows = self.run.find("confirm", process=view.process, group=view.group, after=view.when - 1, until=view.when)
        return next((row for row in rows if row.index < view.index and row.detail.get("number") == view.view), None)

    def after_view(self, view: Event) -> str | None:
        change = self._change_of(view)
        if change is None:
            return None
        # One process records that P shrinks, for all of them.
        rows = self.run.find("confirm", group=view.group, until=change.when)
        before = [row for row in rows if whole(row.detail, "number") != view.view]
        rotation = whole(change.detail, "rotation")
        known = whole(before[-1].detail, "rotation") if before else None
        if rotation is None or known is None:
            return None
        return f"P stays {span(rotation)}" if rotation == known else f"P was {span(known)} and is now {span(rotation)}"

    def is_aside(self, event: Event) -> bool:
        match event.kind:
            case "sync":
                return "master" in event.detail
            case "reject":
                return "stream" in event.detail
            case "confirm":
                return "kinds" in event.detail  # its installation says so
            case "state" if event.detail.get("state") == "crashed":
                return self._is_beside(event, "crash")
            case "state":
                return "broken" in event.detail or event.detail.get("state") == "running"
        return False

    def _is_beside(self, event: Event, *kinds: str) -> bool:
        """Whether the same process has a row of one of these kinds at the same instant."""
        return bool(self.run.find(*kinds, process=event.process, after=event.when - 1, until=event.when))

    def is_told(self, event: Event) -> bool:
        match event.kind:
            case "state" if event.detail.get("state") in ("running", "crashed"):
                return not self._is_beside(event, "view", "crash")
            case "state":
                return event.detail.get("broken") != "P3"  # the packet that it throws away says so
            case "admit":
                return whole(event.detail, "period_ns") != 0
            case "confirm":
                return "reclaim" in names_in(event.detail.get("kinds"))
        return True

    def summary(self, process: str) -> list[str]:
        return [*self._turns(process), *self._asked(process), *self._admitted(process)]

    def _turns(self, process: str) -> list[str]:
        rows = self.run.find("token", process=process)
        measured = sorted(length for row in rows if (length := whole(row.detail, "rotation")) is not None)
        if not measured:
            return []
        usual = measured[len(measured) // 2]
        told = f"It had {times(len(rows), 'turn')}, usually {span(usual)} apart, at most {span(measured[-1])}"
        bounds = [bound for row in rows if (bound := whole(row.detail, "bound")) is not None]
        told += f" (P was {span(max(bounds))} at most)" if bounds else ""
        alone = sum(row.detail.get("by") == "timeout" for row in rows)
        return [told + (f"; {times(alone, 'turn')} came by its timeout." if alone else ".")]

    def _asked(self, process: str) -> list[str]:
        asked, again = (len(self.run.find(kind, process=process)) for kind in ("ask", "retransmit"))
        parts = [f"asked {often(asked)} for packets that had not come"] if asked else []
        parts += [f"sent {times(again, 'packet')} again"] if again else []
        return [f"It {' and '.join(parts)}."] if parts else []

    def _admitted(self, process: str) -> list[str]:
        """How many single messages were to be guaranteed."""
        admitted, rejected = (
            [row for row in self.run.find(kind, process=process) if whole(row.detail, "period_ns") == 0]
            for kind in ("admit", "reject")
        )
        if not admitted and not rejected:
            return []
        asked = times(len(admitted) + len(rejected), "single message")
        return [f"It asked for the deadlines of {asked}, of which {len(admitted):,} were admitted."]

    def stopped(self, crash: Event) -> str | None:
        code = crash.detail.get("reason")
        if not isinstance(code, str) or code not in STOPS:
            return None
        if code == "eliminated":
            return "; ".join(self._eliminated(crash) or [STOPS[code]])
        more = {"omission": self._omitted, "minority": self._outvoted}.get(code)
        return "; ".join([STOPS[code], *(more(crash) if more else ())])

    def _omitted(self, crash: Event) -> list[str]:
        """What was missing, how often it was asked for, and what was thrown away."""
        run = self.run
        evidence = crash.detail.get("evidence")
        lost = missing(evidence) if isinstance(evidence, dict) else []
        for row in run.find("receive", process=crash.process, after=crash.when - 1, until=crash.when):
            lost += missing(row.detail) if row.detail.get("omission") else []
        if not lost:
            return []
        sender, first, last = lost[0]
        told = [f"missing was {packets(sender, first, last)}"]
        rows = run.find("ask", process=crash.process, until=crash.when)
        asked = [row for row in rows if (row.sender, whole(row.detail, "first")) == (sender, first)]
        if asked:
            when = f"at {run.moment(asked[0].when)}" if len(asked) == 1 else f"from {run.moment(asked[0].when)} on"
            told[0] += f", which it had asked for {often(len(asked))}, {when}"
            rows = run.find("retransmit", after=asked[0].when, until=crash.when)
            same = [row for row in rows if (row.sender, whole(row.detail, "number")) == (sender, first)]
            answered = [row for row in same if crash.process in _processes(row, "to")]
            who = listed(dict.fromkeys(row.process for row in answered)) or "nobody"
            again = f" {often(len(answered))}" if len(answered) > 1 else ""
            told[0] += f" ({who} sent it again{again}{', in vain' if answered else ''})"
        elif run.parameters.get("retransmissions") == 0:
            told[0] += " (with r = 0 nothing is sent again)"
        rows = run.find("drop", process=crash.process, until=crash.when)
        late = [row for row in rows if row.detail.get("why") == "late" and row.detail.get("source") == sender]
        if late:
            were = "was" if len(late) == 1 else "were"
            told.append(f"{times(len(late), 'packet')} of {sender} had come too late and {were} thrown away")
        return told

    def _eliminated(self, crash: Event) -> list[str]:
        rows = self.run.find("suspect", until=crash.when)
        by = [row for row in rows if crash.process in _processes(row, "processes") and row.process != crash.process]
        if not by:
            return []
        row = by[-1]
        why = ground("suspect", row.detail)
        return [f"{row.process} had eliminated it at {self.run.moment(row.when)}" + (f" ({why})" if why else "")]

    def _outvoted(self, crash: Event) -> list[str]:
        evidence = crash.detail.get("evidence")
        known = evidence if isinstance(evidence, dict) else {}
        silent, base = ([str(name) for name in known.get(key) or ()] for key in ("silent", "base"))
        return [f"of the ring {{{', '.join(base)}}} it did not hear {listed(silent)}"] if silent and base else []

    def meanwhile(self, after: int, until: int) -> list[str]:
        found: dict[tuple[str, str], list[Event]] = {}
        for row in self.run.find("state", after=after, until=until):
            if isinstance(row.detail.get("broken"), str):
                found.setdefault((row.process, row.detail["broken"]), []).append(row)
        told = []
        for (process, _), rows in list(found.items())[:_NAMED_MAX]:
            worst = max(rows, key=lambda row: whole(row.detail, "measured") or 0)
            more = f" (the worst of {len(rows):,})" if len(rows) > 1 else ""
            told.append(f"at {self.run.moment(worst.when)} {process} {broken(worst.detail)}{more}")
        return told


def _processes(row: Event, key: str) -> Sequence[str]:
    named = row.detail.get(key)
    return named if isinstance(named, list) else ()
