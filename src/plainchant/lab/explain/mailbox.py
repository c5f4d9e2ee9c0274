"""Stories of messages in common memory: who decided what on a message, why it was rejected, what kept it waiting.

Theory of operation
-------------------
A message goes into the mailbox in a batch with others of its sender, and is rejected with the batch or not at all. Rows about
the batch (``sent``, ``decide``) name its last message; each attempt to send it has a timestamp (``stamp``), which all of them
tell. So the rows about a message are those that name it, and those that name the last of its batch: the first number, from its
own on, that any such row names.

A message is rejected if it was not there in time, for which its sender is the cause (it crashed, or its Send took longer than
bounds allow), or if receivers were early. Which of these it was is read off the ``sent`` row of that timestamp and the timing
faults of the run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cached_property
from typing import Any, Final

from .rows import Event, Message, Rows
from .words import listed, often, operation_words, span, whole

_ABOUT: Final = ("sent", "decide", "late", "reject")
_OF_BATCHES: Final = ("sent", "decide")
_TOLD: Final = 3
"""So many things of one kind are named; the rest is counted."""


def act(event: Event) -> str | None:
    """What happens in a row about a message in common memory, without its subject; None if it is not about one."""
    does = _act(event)
    remote = event.detail.get("acting_for")
    return f"{does} (for {remote})" if does is not None and isinstance(remote, str) else does


def _act(event: Event) -> str | None:
    detail = event.detail
    stamp = whole(detail, "stamp")
    match event.kind:
        case "sent" if stamp is not None:
            return f"has written it into every copy and set all flags{_in(whole(detail, 'took_ns'))}{_attempt(detail)}"
        case "decide" if stamp is not None:
            verdict = "to accept it" if detail.get("decision") else "to reject it"
            return f"decides {verdict}{_where(detail)}{_after(whole(detail, 'after_ns'))}"
        case "late" if stamp is not None:
            return "does not deliver it" if event.seq is None else "takes it for late: it is rejected, and may be sent again"
        case "reject" if stamp is not None:
            return "rejects it for good"
        case "block" if detail.get("reason") == "slots":
            return "may not send: it has no free slot"
        case "state" if detail.get("state") == "entered":
            return f"is entered as a receiver of {event.group}"
        case "state" if detail.get("state") == "leaving":
            return f"has said in every copy that it leaves {event.group}"
        case "state" if detail.get("state") == "collected" and isinstance(detail.get("process"), str):
            return f"has set the flags of {detail['process']}, which is gone"
    return None


def _in(took: int | None) -> str:
    return f", in {span(took)}" if took is not None else ""


def _attempt(detail: dict[str, Any]) -> str:
    attempt = whole(detail, "attempt")
    return f", at attempt {attempt}" if attempt is not None and attempt > 1 else ""


def _where(detail: dict[str, Any]) -> str:
    """In which copy a decision was found or made; people count copies from 1."""
    copy = whole(detail, "copy")
    if copy is None or copy < 0:
        return ""
    match detail.get("own"):
        case True:
            return f", by its flag in copy {copy + 1}"
        case False:
            return f", as others had decided in copy {copy + 1}"
    return f", in copy {copy + 1}"


def _after(passed: int | None) -> str:
    return f", {span(passed)} after its timestamp" if passed is not None else ""


class Mailbox:
    """Answers for one run; about a run of another protocol it has nothing to say."""

    def __init__(self, rows: Rows, moment: Callable[[int], str]) -> None:
        self._rows = rows
        self._moment = moment
        self.is_there = rows.protocol() == "mailbox"
        """Whether the run is one on common memory."""
        self.has_lists = rows.protocol() in ("mailbox", "dedos")
        """Whether who is in a group follows from the ranks of joins and leaves, not from views."""

    # --- rows about a message -----------------------------------------------------------------------------------------

    def about(self, message: Message) -> list[Event]:
        """The rows about the batch of a message that do not name the message itself."""
        last = self._last_of_batch(message)
        if last is None:
            return []
        group, sender, seq = message
        found = [row for row in self._rows.naming((group, sender, last)) if row.kind in _OF_BATCHES] if last != seq else []
        stamps = self._stamps([*found, *self._rows.naming(message)])
        # Who could not tell which messages a batch has names its sender and its timestamp.
        nameless = [row for row in self._rows.find(*_ABOUT, group=group) if row.seq is None and row.detail.get("of") == sender]
        return found + [row for row in nameless if whole(row.detail, "stamp") in stamps]

    def _last_of_batch(self, message: Message) -> int | None:
        if not self.is_there:
            return None
        rows = self._rows
        group, sender, seq = message
        numbers = rows.seq[rows.mask(*_OF_BATCHES, group=group, sender=sender) & (rows.seq >= seq)]
        return int(numbers.min()) if len(numbers) else None

    @staticmethod
    def _stamps(rows: Iterable[Event]) -> set[int]:
        return {stamp for row in rows if row.kind in _ABOUT and (stamp := whole(row.detail, "stamp")) is not None}

    def members(self, message: Message, rank: int | None, when: int) -> list[str]:
        """Who is a receiver of a message, by the ranks of ``join`` and ``leave``, or, where it has none, by the time."""
        group = message[0]
        found = []
        for join in self._rows.find("join", group=group):
            if not _is_past(join, rank, when):
                continue
            left = [row for row in self._rows.find("leave", process=join.process, group=group) if row.index > join.index]
            if not left or not _is_past(left[0], rank, when):
                found.append(join.process)
        return list(dict.fromkeys(found))

    # --- why ----------------------------------------------------------------------------------------------------------

    def clause(self, event: Event) -> str | None:
        """Why a row about a message says what it says; None if there is nothing to add."""
        stamp = whole(event.detail, "stamp")
        if not self.is_there or stamp is None:
            return None
        given = event.detail.get("text")
        said = given if isinstance(given, str) else None
        if event.kind == "decide" and not event.detail.get("decision"):
            return self.rejected(event, stamp)
        return said if event.kind in ("late", "reject") and event.seq is None else None

    def rejected(self, event: Event, stamp: int) -> str:
        """Why a message was not there in time."""
        sender = event.sender or str(event.detail.get("of", ""))
        rows = [row for row in self._rows.find("sent", sender=sender) if whole(row.detail, "stamp") == stamp]
        bound = self._rows.bounds().get("send")
        if not rows:
            last = self._rows.last_row(sender)
            if last is not None and last.kind == "crash" and last.when <= event.when:
                return f"{sender} crashed at {self._moment(last.when)}, before it had set all flags"
            return f"{sender} had not set all flags by then" + self._late_operations([sender], event.when)
        took = whole(rows[0].detail, "took_ns")
        if took is not None and bound is not None and took > bound:
            told = f"its Send took {span(took)}, and should take {span(bound)} at the most"
            return told + self._late_operations([sender], event.when)
        others = [name for name in self._untimely if name != sender]
        told = f"its Send was in time{_in(took)}"
        return told + (f", but receivers were not: {listed(others)} had timing faults" if others else "")

    def _late_operations(self, processes: Iterable[str], until: int) -> str:
        found = [fault for name in processes for fault in self._untimely.get(name, ()) if fault.when <= until]
        found = [fault for fault in found if isinstance(fault.detail.get("operation"), str)]
        named = dict.fromkeys(operation_words(fault.detail) for fault in found[-_TOLD:])
        return f" ({listed(named)})" if named else ""

    @cached_property
    def _untimely(self) -> dict[str, list[Event]]:
        """The timing faults of each process that has any."""
        found: dict[str, list[Event]] = {}
        for row in self._rows.find("fault"):
            if row.detail.get("timing") is True or row.detail.get("fault") == "timing":
                found.setdefault(row.process, []).append(row)
        return found

    def waited(self, naming: Iterable[Event], first: Event) -> list[str]:
        """What kept everybody from delivering a message: that it was rejected before, and sent again."""
        rejected: dict[int, list[Event]] = {}
        for row in naming:
            stamp = whole(row.detail, "stamp")
            if row.kind == "decide" and stamp is not None and not row.detail.get("decision") and row.when <= first.when:
                rejected.setdefault(stamp, []).append(row)
        if not rejected:
            return []
        stamp, rows = next(iter(rejected.items()))
        told = f"it was rejected {often(len(rejected))}, first at {self._moment(rows[0].when)}, and sent again"
        return [f"{told}: {self.rejected(rows[0], stamp)}"]

    def own(self, event: Event, since: int) -> list[str]:
        """What this process did late in that time."""
        found = [
            fault
            for fault in self._untimely.get(event.process, ())
            if since <= fault.when <= event.when and isinstance(fault.detail.get("operation"), str)
        ]
        named = dict.fromkeys(operation_words(fault.detail) for fault in found)
        return [f"{event.process} was late: {listed(named, most=_TOLD)}"] if found else []

    def outcome(self, message: Message) -> str | None:
        """What was decided on a message that nobody delivers."""
        if not self.is_there:
            return None
        rows = [row for row in (*self._rows.naming(message), *self.about(message)) if row.kind == "decide"]
        rejects = [row for row in rows if not row.detail.get("decision")]
        if not rejects:
            return None
        last = max(rejects, key=lambda row: row.when)
        stamp = whole(last.detail, "stamp")
        why = self.rejected(last, stamp) if stamp is not None else ""
        who = listed(dict.fromkeys(row.process for row in rejects))
        return f"{who} decided to reject it" + (f": {why}" if why else "")


def _is_past(row: Event, rank: int | None, when: int) -> bool:
    """Whether a ``join`` or ``leave`` comes before a message."""
    if row.rank is not None and rank is not None:
        return row.rank < rank
    return row.when <= when
