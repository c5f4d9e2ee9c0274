"""What is told about runs of ``mailbox``: who decided what about a message, why it was rejected, what kept it waiting.

A message goes into the mailbox in a batch with others of its sender, and is rejected with the batch or not at all. Rows about
the batch (``sent``, ``decide``) name its last message; each attempt to send it has a timestamp (``stamp``), which all these rows
have. The rows about a message name it, or the last of its batch: the first number, from its own on, that any such row names.

A message is rejected if it was not there in time because of its sender (which crashed, or whose Send took longer than bounds
allow), or if receivers were early. The ``sent`` row of that timestamp and the timing faults of the run tell which of these."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any, ClassVar, Final

from ...core.words import listed, often, operation_words, span, whole
from ..story import Event, Message, Sign, Story

_ABOUT: Final = ("sent", "decide", "late", "reject")
_OF_BATCHES: Final = ("sent", "decide")
_NAMED_MAX: Final = 3  # late operations that are named; the rest is counted or left out


class MailboxStory(Story):
    """The story of a run of ``mailbox``."""

    process_kinds: ClassVar = ("join", "late", "block", "reject")
    drawn_kinds: ClassVar = ("late", "reject")
    sheets: ClassVar = ("memory",)
    polls: ClassVar = True
    operations: ClassVar = {
        "write": ("write", "write a message"),
        "flag": ("flag", "set its availability flag"),
        "decide": ("decide", "decide"),
        "read": ("read", "read a message"),
        "finish": ("finish", "set decision flags and remove"),
        "look": ("look", "look for messages"),
        "list": ("list", "enter the list of receivers"),
    }
    last_operation: ClassVar = "finish"

    @staticmethod
    def message_act(event: Event) -> str | None:
        does = _act(event)
        remote = event.detail.get("acting_for")
        return f"{does} (for {remote})" if does is not None and isinstance(remote, str) else does

    @staticmethod
    def sign(event: Event) -> Sign | None:
        is_rejected = event.kind in ("late", "reject") and "stamp" in event.detail
        return ("rejected", "rejects", "bad") if is_rejected else None

    @staticmethod
    def caption(event: Event) -> str | None:
        if event.kind not in ("late", "reject") or "stamp" not in event.detail:
            return None
        return f"{event.process} rejects {event.name if event.seq is not None else 'a message'}"

    def about(self, message: Message) -> list[Event]:
        group, sender, seq = message
        last = self.run.least_seq(*_OF_BATCHES, group=group, sender=sender, seq=seq)
        if last is None:
            return []
        found = [row for row in self.run.naming((group, sender, last)) if row.kind in _OF_BATCHES] if last != seq else []
        stamps = {whole(row.detail, "stamp") for row in (*found, *self.run.naming(message)) if row.kind in _ABOUT} - {None}
        nameless = self._nameless(group).get(sender, ())
        return found + [row for row in nameless if whole(row.detail, "stamp") in stamps]

    def _nameless(self, group: str) -> dict[object, list[Event]]:
        """By sender, rows of a group that name the sender and its timestamp: who wrote them could not tell what the batch has."""
        if group not in self._groups:
            of = self._groups[group] = {}
            for row in self.run.find(*_ABOUT, group=group):
                if row.seq is None:
                    of.setdefault(row.detail.get("of"), []).append(row)
        return self._groups[group]

    @cached_property
    def _groups(self) -> dict[str, dict[object, list[Event]]]:
        """What :meth:`_nameless` has looked for before."""
        return {}

    def place(self, event: Event) -> str:
        return ""

    def outcome(self, message: Message) -> str | None:
        rows = [row for row in (*self.run.naming(message), *self.about(message)) if row.kind == "decide"]
        rejects = [row for row in rows if not row.detail.get("decision")]
        if not rejects:
            return None
        last = max(rejects, key=lambda row: row.when)
        stamp = whole(last.detail, "stamp")
        why = self._rejected(last, stamp) if stamp is not None else ""
        who = listed(dict.fromkeys(row.process for row in rejects))
        return f"{who} decided to reject it" + (f": {why}" if why else "")

    def reason(self, event: Event) -> str | None:
        stamp = whole(event.detail, "stamp")
        if stamp is None:
            return None
        text = event.detail.get("text")
        if event.kind == "decide" and not event.detail.get("decision"):
            return self._rejected(event, stamp)
        return text if event.kind in ("late", "reject") and event.seq is None and isinstance(text, str) else None

    def _rejected(self, event: Event, stamp: int) -> str:
        """Why a message was not there in time."""
        run = self.run
        sender = event.sender or str(event.detail.get("of", ""))
        rows = [row for row in run.find("sent", sender=sender) if whole(row.detail, "stamp") == stamp]
        bound = run.bounds.get("send")
        if not rows:
            last = run.last_row(sender)
            if last is not None and last.kind == "crash" and last.when <= event.when:
                return f"{sender} crashed at {run.moment(last.when)}, before it had set all flags"
            return f"{sender} had not set all flags by then" + self._late_operations(sender, event.when)
        took = whole(rows[0].detail, "took_ns")
        if took is not None and bound is not None and took > bound:
            told = f"its Send took {span(took)}, and should take {span(bound)} at the most"
            return told + self._late_operations(sender, event.when)
        others = [name for name in self._untimely if name != sender]
        told = f"its Send was in time{_in(took)}"
        return told + (f", but receivers were not: {listed(others)} had timing faults" if others else "")

    def _late_operations(self, process: str, until: int) -> str:
        found = [fault for fault in self._operations(process) if fault.when <= until]
        named = dict.fromkeys(operation_words(fault.detail) for fault in found[-_NAMED_MAX:])
        return f" ({listed(named)})" if named else ""

    @cached_property
    def _untimely(self) -> dict[str, list[Event]]:
        """The timing faults of each process that has any."""
        found: dict[str, list[Event]] = {}
        for row in self.run.find("fault"):
            if row.detail.get("timing") is True or row.detail.get("fault") == "timing":
                found.setdefault(row.process, []).append(row)
        return found

    def held_up(self, first: Event, sent: int, naming: Sequence[Event]) -> list[str]:
        rejected: dict[int, list[Event]] = {}
        for row in (*naming, *self.about(first.message)):
            stamp = whole(row.detail, "stamp")
            if row.kind == "decide" and stamp is not None and not row.detail.get("decision") and row.when <= first.when:
                rejected.setdefault(stamp, []).append(row)
        if not rejected:
            return []
        stamp, rows = next(iter(rejected.items()))
        told = f"it was rejected {often(len(rejected))}, first at {self.run.moment(rows[0].when)}, and sent again"
        return [f"{told}: {self._rejected(rows[0], stamp)}"]

    def own_delays(self, event: Event, since: int) -> list[str]:
        found = [fault for fault in self._operations(event.process) if since <= fault.when <= event.when]
        named = dict.fromkeys(operation_words(fault.detail) for fault in found)
        return [f"{event.process} was late: {listed(named, most=_NAMED_MAX)}"] if found else []

    def _operations(self, process: str) -> list[Event]:
        """The timing faults of a process that are about an operation."""
        return [fault for fault in self._untimely.get(process, ()) if isinstance(fault.detail.get("operation"), str)]


def _act(event: Event) -> str | None:
    detail = event.detail
    stamp = whole(detail, "stamp")
    match event.kind:
        case "sent" if stamp is not None:
            attempt = whole(detail, "attempt")
            again = f", at attempt {attempt}" if attempt is not None and attempt > 1 else ""
            return f"has written it into every copy and set all flags{_in(whole(detail, 'took_ns'))}{again}"
        case "decide" if stamp is not None:
            verdict = "to accept it" if detail.get("decision") else "to reject it"
            passed = whole(detail, "after_ns")
            return f"decides {verdict}{_where(detail)}" + (f", {span(passed)} after its timestamp" if passed is not None else "")
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


def _where(detail: dict[str, Any]) -> str:
    """The copy in which a decision was found or made; people count copies from 1."""
    copy = whole(detail, "copy")
    if copy is None or copy < 0:
        return ""
    match detail.get("own"):
        case True:
            return f", by its flag in copy {copy + 1}"
        case False:
            return f", as others had decided in copy {copy + 1}"
    return f", in copy {copy + 1}"
