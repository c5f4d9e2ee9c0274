"""The life of a message: when it was sent, which processes delivered it and when, what held it up, and which never got it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np

from ...core.model import UsageError
from ...core.words import braces, crash_words, listed, reason, span
from ...protocols.story import Event, Message
from ..show import summarise
from .rows import Rows, Told
from .why import Why, asks_for

_LISTED_MAX: Final = 8
"""Names that a sentence lists; the others are counted."""
_ACTS: Final = {
    "stable": "knows that everybody has it",
    "reject": "rejects it",
    "drop": "drops it",
    "block": "holds it back",
    "retransmit": "sends it again",
}


class MessageExplainer:
    """Tells the life of one message."""

    def __init__(self, rows: Rows, why: Why, message: Message) -> None:
        naming = rows.naming(message)
        if not naming:
            hint = "list those there are with: plainchant trace DIR --kind send"
            raise UsageError(f"there is no message {_name(message)} in this run; {hint}")
        self._rows = rows
        self._why = why
        self._story = why.story
        self._message = message
        self._group, self._sender, _ = message
        self._naming = [*naming, *why.story.about(message)]
        self._send = next((event for event in naming if event.kind == "send"), None)
        deliveries = [event for event in naming if event.kind == "deliver"]
        first = {event.process: event for event in reversed(deliveries)}
        self._delivered = {event.process: first[event.process] for event in deliveries}
        self._told: Told = []

    def tell(self) -> tuple[str, Told, str]:
        """The title, the steps and the conclusion."""
        self._tell_accepted()
        for event in self._naming:
            because = self._why.delivery(event, alone=False) if event.kind == "deliver" else self._why.clause(event)
            self._told.append((event, self._sentence(event), because))
        if self._send is not None:
            self._told += self._story.steps(self._message, self._send, max(event.when for event in self._naming))
        self._tell_gaps()
        self._tell_crashes()
        return f"The life of message {_name(self._message)}", self._told, self._conclusion(self._tell_missing())

    def _sentence(self, event: Event) -> str:
        who = event.process
        does = self._story.message_act(event)
        if does is not None:
            return f"{who} {does}"
        match event.kind:
            case "send":
                view = self._rows.view_at(event, self._group)
                where = "" if view is None else f" in view {view.view} {braces(view.members)}"
                size = "" if event.size is None else f" ({event.size} B)"
                due = f"; due {span(event.due - event.when)} later" if event.due is not None else ""
                out = f"; {event.packets} packet{'s' * (event.packets > 1)} out" if event.packets else ""
                return f"{who} sends it{size}{where}{self._story.sent_in(event)}{out}{due}"
            case "deliver":
                sent_in = self._send.view if self._send is not None else None
                view_of_it = f", in view {event.view}" if event.view is not None and event.view != sent_in else ""
                due_at = self._due_of(event)
                told = f"{who} delivers it{self._after_send(event)}{self._story.place(event)}{view_of_it}"
                if due_at is None:
                    return told
                return f"{told}, {span(abs(due_at - event.when))} {'before' if event.when <= due_at else 'after'} its deadline"
            case "receive":
                return f"{who} receives it{self._after_send(event)}"
            case kind if kind in _ACTS:
                return f"{who} {_ACTS[kind]}"
        detail = f" ({reason(event.detail) or summarise(str(event.detail))})" if event.detail else ""
        return f"{who}: {event.kind}{detail}"

    def _after_send(self, event: Event) -> str:
        since = self._send.when if self._send is not None else event.sent
        # Clocks of different processes may contradict each other; then a difference says nothing.
        if since is None or event.when < since:
            return ""
        return f", {span(event.when - since)} after its send" if event.when > since else ", at once"

    def _due_of(self, event: Event) -> int | None:
        """The message's deadline at a delivery: the row's own, else that of the send."""
        return event.due if event.due is not None or self._send is None else self._send.due

    def _tell_accepted(self) -> None:
        """``accept`` rows have no number yet: the n-th one of a sender and group is its n-th message."""
        if self._send is None:
            return
        accepted = np.flatnonzero(self._rows.mask("accept", process=self._sender) & self._rows.within(self._group))
        number = self._message[2]
        for event in self._rows.events(accepted[number - 1 : number]):
            waited = self._send.when - event.when
            waits = f"; the protocol takes it {span(waited)} later" if waited > 0 else ""
            self._told.append((event, f"{event.process} accepts it from its application{waits}", None))

    def _tell_gaps(self) -> None:
        """Requests for its number in the order, by processes that lacked it."""
        if self._send is None:
            return
        for process, delivery in self._delivered.items():
            if delivery.rank is None:
                continue
            rows = self._rows.find("retransmit", process=process, group=self._group, after=self._send.when, until=delivery.when)
            for event in rows:
                if asks_for(event, delivery.rank):
                    first, last = event.detail["first"], event.detail["last"]
                    what = f"number {first} and asks for it" if first == last else f"numbers {first} to {last} and asks for them"
                    self._told.append((event, f"{process} misses {what}", None))

    def _tell_crashes(self) -> None:
        """Whoever sent or delivered it and crashed afterwards took it along, unless others had it."""
        if len(self._delivered) >= len(self._expected()):
            return
        for process in dict.fromkeys([self._sender, *self._delivered]):
            last = self._rows.last_row(process)
            if last is not None and last.kind == "crash" and (self._send is None or last.when >= self._send.when):
                self._told.append((last, crash_words(process, last.detail), self._story.stopped(last)))

    def _expected(self) -> list[str]:
        """Processes that should deliver it: the view at its send, or at its first delivery; without views, all in the group."""
        events = [self._send] if self._send is not None else []
        events += list(self._delivered.values())[:1]
        for event in events:
            view = self._rows.view_at(event, self._group)
            if view is not None:
                return list(view.members)
        description = self._rows.description
        if description is not None and not description.views and self._naming:
            return self._receivers()
        rows = self._rows
        codes = set(rows.process[rows.mask("join", "deliver") & rows.within(self._group)].tolist())
        return [name for name in rows.processes() if rows.names["process"][name] in codes]

    def _receivers(self) -> list[str]:
        """The receivers of the message, by the ranks of ``join`` and ``leave`` rows, or, where there are none, by the time."""
        rank = next((event.rank for event in self._delivered.values() if event.rank is not None), None)
        sent = self._send.when if self._send is not None else self._naming[0].when
        found = []
        for join in self._rows.find("join", group=self._group):
            if not _is_past(join, rank, sent):
                continue
            left = [row for row in self._rows.find("leave", process=join.process, group=self._group) if row.index > join.index]
            if not left or not _is_past(left[0], rank, sent):
                found.append(join.process)
        return list(dict.fromkeys(found))

    def _tell_missing(self) -> dict[str, str]:
        """A step for each member that never delivers it, and why not, by name."""
        missing: dict[str, str] = {}
        for process in self._expected():
            if process in self._delivered:
                continue
            last = self._rows.last_row(process)
            if last is None:
                missing[process] = "it has no rows in this trace"
                continue
            why = self._why_not(process, last)
            missing[process] = why
            # One that had crashed before is told of at the end only.
            if self._send is None or not self._rows.is_global or last.when > self._send.when:
                self._told.append((last, f"{process} never delivers it", why))
        return missing

    def _why_not(self, process: str, last: Event) -> str:
        if last.kind == "crash":
            rule = self._story.stopped(last)
            return f"at {self._why.moment(last.when)} {crash_words(process, last.detail)}" + (f" ({rule})" if rule else "")
        left = self._rows.find("leave", process=process)
        if left:
            return f"it left {self._group} at {self._why.moment(left[-1].when)}"
        if last.kind != "end":
            return f"its history breaks off at {self._why.moment(last.when)}"
        sender_end = self._rows.last_row(self._sender)
        lost = sender_end is not None and sender_end.kind == "crash"
        # A fault that stood between the sender and the process when the message was sent.
        sent = self._send.when if self._send is not None else None
        found = self._why.faults(process, self._sender, sent - 1, sent) if sent is not None else []
        between = f"; {found[0]}" if found else ""
        if not self._delivered:
            nobody = "nobody delivers it" + (f"; {self._sender} crashed, and it was lost" if lost else "") + between
            decided = self._story.outcome(self._message)
            return nobody if decided is None else decided
        where = listed(self._delivered, most=_LISTED_MAX)
        if parted := self._parted(process):
            return parted
        if all(map(self._crashed, self._delivered)):
            lost_with = "it was lost with that process" if len(self._delivered) == 1 else "it was lost with them"
            return f"only {where} had it, and crashed: {lost_with}{between}{self._cut_off()}"
        return f"it is alive at the end, and {where} delivered it: probably a violation; ask plainchant verify"

    def _cut_off(self) -> str:
        """Whether a process that was elected later continues the order before the message's place."""
        ranks = [event.rank for event in self._delivered.values() if event.rank is not None]
        after = min((event.when for event in self._delivered.values()), default=0)
        for event in self._rows.find("elect", group=self._group, after=after):
            base = event.detail.get("base")
            if ranks and event.detail.get("stage") == "elected" and isinstance(base, int) and base < ranks[0]:
                return (
                    f"; {event.process}, elected at {self._why.moment(event.when)}, goes on after number {base}, "
                    f"and number {ranks[0]} is given anew"
                )
        return ""

    def _crashed(self, process: str) -> bool:
        last = self._rows.last_row(process)
        return last is not None and last.kind != "end"

    def _parted(self, process: str) -> str | None:
        """The view in which the message was delivered may be one that this process never came to."""
        views = dict.fromkeys(event.view for event in self._delivered.values() if event.view is not None)
        own = {event.view for event in self._rows.find("view", process=process, group=self._group)}
        if not views or own & views.keys():
            return None
        numbers = listed(map(str, views))
        return f"it never installed view {numbers} of {self._group}, in which the others delivered it"

    def _conclusion(self, missing: dict[str, str]) -> str:
        sentences = [self._outcome(missing)]
        if self._send is None:
            sentences.append("Its send is not in the trace.")
        delivered = sorted(self._delivered.values(), key=lambda event: (event.when, event.process))
        if delivered and self._send is not None:
            first, last = delivered[0], delivered[-1]
            if first.when >= self._send.when:
                sentences.append(self._timing(first, last))
            why = self._why.everybody(first, self._send, self._naming)
            if why:
                sentences.append(f"What held it up: {why.split('; ')[0]}.")
        sentences += self._deadline(missing)
        ranks = {event.rank: event.process for event in reversed(delivered) if event.rank is not None}
        if len(ranks) > 1:
            numbers = listed(f"{rank} (at {process})" for rank, process in sorted(ranks.items()))
            sentences.append(f"It was delivered under different numbers, {numbers}: there was more than one order.")
        return " ".join([*sentences, *self._rows.clocks])

    def _deadline(self, missing: Mapping[str, str]) -> list[str]:
        """What became of its deadline, and why it was missed."""
        if self._send is None or self._send.due is None:
            return []
        send, due = self._send, self._send.due
        late = {
            name: event.when - at
            for name, event in self._delivered.items()
            if (at := self._due_of(event)) is not None and event.when > at
        }
        never = [name for name in missing if (last := self._rows.last_row(name)) is not None and last.when >= due]
        if not late and not never:
            return [f"Its deadline, {span(due - send.when)} after its send, was met."]
        if self._crashed(self._sender):
            return [f"Its deadline was not met everywhere, but nothing is guaranteed of {self._sender}, which crashed."]
        where = [f"{name} (by {span(length)})" for name, length in late.items()] + [f"{name} (for ever)" for name in never]
        told = f"Its deadline, {span(due - send.when)} after its send, was missed at {listed(where, most=_LISTED_MAX)}"
        until = max([due, *(event.when for event in self._delivered.values())])
        # What made its turn come late stands before its send.
        since = send.when - max(due - send.when, self._rows.bounds.get("rotation", 0))
        broken = self._story.meanwhile(since, until)
        return [f"{told}." + (f" Meanwhile: {'; '.join(broken)}." if broken else "")]

    def _timing(self, first: Event, last: Event) -> str:
        assert self._send is not None
        passed = first.when - self._send.when
        told = f"First by {first.process}, {f'{span(passed)} after the send' if passed else 'at once'}"
        if last.when > first.when:
            told += f", last by {last.process}, after {span(last.when - self._send.when)}"
        usual = self._rows.usual
        return told + (f" (a usual delivery of this run: {span(usual)})." if usual else ".")

    def _outcome(self, missing: dict[str, str]) -> str:
        expected = self._expected()
        others = [name for name in self._delivered if name not in expected]
        count = len(expected) - len(missing)
        if not self._delivered:
            return "Nobody delivered it."
        told = f"Delivered by all {count}" if not missing else f"Delivered by {count} of {len(expected)}"
        told += " that were members when it was sent"
        if others:
            told += f", and by {listed(others, most=_LISTED_MAX)}"
        if missing:
            whom = listed(missing, most=_LISTED_MAX)
            reasons = list(dict.fromkeys(missing.values()))
            told += f"; not by {whom}" + (f": {reasons[0]}" if len(reasons) == 1 else "")
        return told + "."


def _name(message: Message) -> str:
    return f"{message[0]}/{message[1]}/{message[2]}"


def _is_past(row: Event, rank: int | None, when: int) -> bool:
    """Whether a ``join`` or ``leave`` comes before a message."""
    if row.rank is not None and rank is not None:
        return row.rank < rank
    return row.when <= when
