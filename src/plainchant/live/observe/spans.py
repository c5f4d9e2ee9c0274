"""Spans for OpenTelemetry: what happens to a process in its groups, and the lives of a few of its messages.

Joining, leaving, a change of the view, a state transfer and a halt are a span each, made when it is over of what the host tells
anyhow. By default they go to the tracer provider that the program has set up (without one, nowhere); with ``otlp`` a provider of
the node's own sends them to a collector, and ends with the node.

**Messages, without a byte in a packet.** Which messages are traced follows from their names: with a ratio of 1 in N, those for
which ``number + digest(group, sender)`` is a multiple of N. So all members choose the same ones. Their trace follows from the
name, too: a digest of group, sender, the random number that the sender drew at its start, and the message's number. So the
sender's span (``plainchant.message``, from ``send`` to its own delivery) and a span at each other member
(``plainchant.deliver``) are in one trace, as children of a span that no member sends. The cost is a comparison per message at
the sender and a table lookup per delivered batch.

In the same way the spans that members have of one view are in one trace. The context in which ``send`` was called is another
trace, the application's: the sender's span has a link to it.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import math
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final
from zlib import crc32

import msgspec

from ... import __version__
from ...core.model import SECOND, Reason, UsageError, View
from ...core.names import place_of
from ...core.plugins import need
from ...group import Membership

if TYPE_CHECKING:
    from ..node import Node

MESSAGES: Final = 0.0001  # the share of messages that are traced
PENDING: Final = 256  # most messages of a group that are traced and not delivered yet
AT_ONCE: Final = 8  # most messages of one ``send_many`` that are traced
SENDERS: Final = 4096  # senders of which the next traced message is remembered; then the table starts again
NOTES: Final = 32  # most events in the span of a view change
STALE: Final = 60 * SECOND  # an older suspicion that led to nothing is not where the next change began
FLUSH: Final = 5.0  # seconds for the last spans to leave when the node closes
CHANGES: Final = frozenset({"suspect", "elect", "form", "confirm", "remove"})  # kinds of records on the way to a new view
_WORDS: Final = ("process", "reason", "text", "stage", "situation", "epoch", "why")


@dataclasses.dataclass(frozen=True, slots=True)
class Spans:
    """What is traced: the share of ``messages`` (0: none, 1: all; the same at all members), and where spans go: ``otlp`` is
    the address of a collector (``"http://127.0.0.1:4318"``); empty: to the tracer provider of the program."""

    messages: float = MESSAGES
    otlp: str = ""

    def __post_init__(self) -> None:
        if not isinstance(self.messages, int | float) or not 0 <= self.messages <= 1:
            raise UsageError(f"the share of messages that are traced is {self.messages!r}; give a number from 0 to 1")
        if self.otlp and not self.otlp.startswith(("http://", "https://")):
            raise UsageError(f'{self.otlp!r} is no address of a collector: write it as "http://127.0.0.1:4318"')

    @property
    def every(self) -> int:
        """One message of so many; 0: none."""
        return round(1 / self.messages) if self.messages else 0

    @property
    def endpoint(self) -> str:
        """Where spans are posted to.

        >>> Spans(otlp="http://127.0.0.1:4318").endpoint
        'http://127.0.0.1:4318/v1/traces'
        """
        return self.otlp if self.otlp.rstrip("/").endswith("/v1/traces") else f"{self.otlp.rstrip('/')}/v1/traces"


def next_traced(number: int, group: str, sender: str, every: int) -> int:
    """The first message of a sender from a number on that is traced.

    >>> numbers = [next_traced(1, "bank", "a", 10), next_traced(2, "bank", "a", 10)]
    >>> numbers[0] % 10 == next_traced(numbers[0] + 1, "bank", "a", 10) % 10
    True
    """
    return number + -(number + crc32(f"{group}\0{sender}".encode())) % every


class _Change:
    """What led to the next view of a group, as far as it has come."""

    def __init__(self) -> None:
        self.began = time.time_ns()
        self.notes: list[tuple[str, dict[str, Any], int]] = []


class Tracing:
    """One node's spans. Times are those of the system's clock, as OpenTelemetry has them."""

    def __init__(self, options: Spans) -> None:
        self._options = options
        self._api = need("opentelemetry.trace", "spans need", "observe")
        self._alone = need("opentelemetry.context", "spans need", "observe").Context()  # no span: not part of a program's call
        self._provider: Any = None
        self._tracer: Any = None
        self._node: Node | None = None
        self._changes: dict[str, _Change] = {}
        self._leaving: dict[str, Any] = {}
        self._awaited: dict[str, tuple[int, View]] = {}  # groups whose state this process waits for, and since when
        self._given: dict[tuple[str, int, str], int] = {}  # states that are being given: group, view, joiner; and since when
        self._messages: dict[str, dict[int, Any]] = {}  # own messages that are traced and not delivered, by group and receipt
        self._due: dict[tuple[str, str], int] = {}  # by group and sender: the next traced message; earlier batches are skipped
        self._next: dict[str, float] = {}  # the receipt of the next own message that is traced

    @property
    def traces_messages(self) -> bool:
        return self._options.every > 0

    def open(self, node: Node) -> None:
        self._node = node
        self._provider = _provider(self._options, node) if self._options.otlp else None
        self._tracer = (self._provider or self._api).get_tracer("plainchant", __version__)

    async def close(self) -> None:
        """Ends what is open; spans that wait to be sent are, if the collector answers."""
        self._abandon("the node was closed")
        provider, self._provider = self._provider, None
        if provider is None:
            return
        executor = ThreadPoolExecutor(1, thread_name_prefix="plainchant-spans")
        try:
            async with asyncio.timeout(FLUSH):
                await asyncio.get_running_loop().run_in_executor(executor, provider.shutdown)
        except TimeoutError:
            problem = {"message": f"spans could not be sent to {self._options.otlp} in {FLUSH:g} s; the last ones are lost"}
            asyncio.get_running_loop().call_exception_handler(problem)
        finally:
            executor.shutdown(wait=False)

    def _attributes(self, group: str, **more: Any) -> dict[str, Any]:
        assert self._node is not None
        whose = {"process": self._node.name, "protocol": self._node.description.name, "group": group or None}
        return {f"plainchant.{name}": value for name, value in (whose | more).items() if value is not None}

    def _end(self, span: Any, error: str = "") -> None:
        """Ends a span, as failed if there was an error."""
        if error:
            span.set_status(self._api.Status(self._api.StatusCode.ERROR, error))
        span.end()

    def _abandon(self, why: str) -> None:
        for group in list(self._messages):
            self._lose(group, why)
        for span in self._leaving.values():
            self._end(span, why)
        self._leaving.clear()

    @contextlib.contextmanager
    def joining(self, group: str) -> Iterator[None]:
        """A span around the way into a group, in the program's own context; what ends it otherwise is its status."""
        assert self._node is not None
        with self._tracer.start_as_current_span("plainchant.join", attributes=self._attributes(group)) as span:
            yield
            member = self._node.host.groups.get(group)
            if member is not None and member.view is not None:
                span.set_attributes(self._attributes(group, formed=member.profile.formed, **_of_view(member.view)))

    def installed(self, group: Membership, view: View, is_first: bool) -> None:
        now = time.time_ns()
        name = view.group
        if is_first and not group.profile.formed and self._node is not None and self._node.has_state:
            self._awaited[name] = now, view
        change = self._changes.pop(name, None)
        if change is None or now - change.began > STALE:
            change = _Change()
        span = self._tracer.start_span(
            "plainchant.view",
            context=self._context(view.members[0], "view", name, view.number, *view.members),
            start_time=min(change.began, now),
            attributes=self._attributes(name, **_of_view(view)),
        )
        for note, attributes, at in change.notes:
            span.add_event(note, attributes, at)
        for process, reason in view.left.items():
            span.add_event("departure", {"process": process, "reason": reason.code, "text": reason.text}, now)
        span.end(now)

    def recorded(self, kind: str, group: str, detail: Mapping[str, Any]) -> None:
        if kind in CHANGES:
            change = self._changes.setdefault(group, _Change())
            if len(change.notes) < NOTES:
                told = {word: _plain(detail[word]) for word in _WORDS if detail.get(word) is not None}
                change.notes.append((kind, told, time.time_ns()))
        elif kind == "refute":
            self._changes.pop(group, None)
        elif kind == "state" and "stage" in detail:
            self._state(group, detail)

    def leaving(self, group: str) -> None:
        self._leaving[group] = self._tracer.start_span("plainchant.leave", attributes=self._attributes(group))

    def left(self, group: str) -> None:
        span = self._leaving.pop(group, None)
        if span is not None:
            span.end()
        self._lose(group, "the process has left")
        for table in self._by_group():
            table.pop(group, None)
        self._next.pop(group, None)
        for given in [given for given in self._given if given[0] == group]:
            del self._given[given]

    def renamed(self, group: str, name: str) -> None:
        """Messages that wait may be numbered anew: which of them are traced is chosen again."""
        self._lose(group, f"the group is called {name} from here on")
        for table in self._by_group():
            if group in table:
                table[name] = table.pop(group)
        self._next.pop(group, None)

    def _by_group(self) -> tuple[dict[str, Any], ...]:
        """What is under way in a group, whatever its name."""
        return self._changes, self._awaited, self._leaving

    def stopped(self, reason: Reason) -> None:
        """The protocol stopped this process: so is everything that was under way."""
        self._abandon(reason.text)
        told = {"reason": reason.code, "text": reason.text}
        if reason.evidence:
            told["evidence"] = _plain(dict(reason.evidence))
        span = self._tracer.start_span("plainchant.halt", context=self._alone, attributes=self._attributes("", **told))
        self._end(span, reason.text)

    def _state(self, group: str, detail: Mapping[str, Any]) -> None:
        """What the layer for state transfer records: by the donor with a ``joiner``, by the joiner with a ``donor``."""
        stage, joiner, view = detail["stage"], detail.get("joiner"), detail.get("at_view", 0)
        if stage == "wanted" and joiner is not None:
            self._given[group, view, joiner] = time.time_ns()
            return
        if joiner is not None:
            began, name = self._given.pop((group, view, joiner), None), "plainchant.state.give"
        else:
            began, name = self._awaited.pop(group, (None, None))[0], "plainchant.state.receive"
        if began is None:
            return
        told = self._attributes(group, view=view, joiner=joiner, donor=detail.get("donor"), bytes=detail.get("bytes"))
        span = self._tracer.start_span(name, context=self._alone, start_time=began, attributes=told)
        self._end(span, str(detail.get("text", "the state is lost")) if stage == "lost" else "")

    def next_of(self, group: Membership) -> float:
        """The receipt of the next own message of a group that is traced; infinite: none."""
        if not self.traces_messages:
            return math.inf
        following = self._next.get(group.name)
        if following is None:
            following = self._next[group.name] = self._following(group, group.accepted + 1)
        return following

    def _following(self, group: Membership, receipt: int) -> float:
        before = group.numbered_before
        if before is None:
            return math.inf  # messages with deadlines overtake: nobody knows what number a message gets
        return next_traced(receipt - before, group.name, group.me, self._options.every) + before

    def accepted(self, group: Membership) -> None:
        """Messages are about to be handed to the host, up to receipt ``group.accepted``."""
        receipt, before = self.next_of(group), group.numbered_before
        begun = 0
        while receipt <= group.accepted and before is not None:
            if begun < AT_ONCE:
                self._begin(group, int(receipt), int(receipt) - before)
                begun += 1
                receipt += self._options.every
            else:
                receipt = self._following(group, group.accepted + 1)
        self._next[group.name] = receipt if before is not None else math.inf

    def _begin(self, group: Membership, receipt: int, number: int) -> None:
        waiting = self._messages.setdefault(group.name, {})
        if len(waiting) >= PENDING:
            return
        current = self._api.get_current_span().get_span_context()
        span = self._tracer.start_span(
            "plainchant.message",
            context=self._context(group.me, "message", group.name, number),
            kind=self._api.SpanKind.PRODUCER,
            attributes=self._of_message(group, group.me, number, "send"),
            links=[self._api.Link(current)] if current.is_valid else [],
        )
        waiting[receipt] = span

        def over(delivered: asyncio.Future[None]) -> None:
            error = None if delivered.cancelled() else delivered.exception()
            if waiting.pop(receipt, None) is not None:  # else it was given up before
                self._end(span, str(error) if error is not None else "")

        group.when_delivered(receipt, over)

    def delivered(self, group: Membership, sender: str, first: int, number: int) -> None:
        """A batch of a sender's; the own messages' spans end by themselves."""
        key = group.name, sender
        end = first + number
        traced = self._due.get(key, 0)
        if end <= traced or sender == group.me:
            return
        every = self._options.every
        traced = next_traced(first, group.name, sender, every)
        if len(self._due) >= SENDERS:
            self._due.clear()
        self._due[key] = next_traced(end, group.name, sender, every)
        for each in range(traced, min(end, traced + AT_ONCE * every), every):
            now = time.time_ns()
            span = self._tracer.start_span(
                "plainchant.deliver",
                context=self._context(sender, "message", group.name, each),
                kind=self._api.SpanKind.CONSUMER,
                attributes=self._of_message(group, sender, each, "process"),
                start_time=now,
            )
            span.end(now)

    def _of_message(self, group: Membership, sender: str, number: int, operation: str) -> dict[str, Any]:
        return {
            **self._attributes(group.name, sender=sender, seq=number, view=group.view.number if group.view is not None else None),
            "messaging.system": "plainchant",
            "messaging.operation.type": operation,
            "messaging.destination.name": group.name,
            "messaging.message.id": f"{group.name}/{sender}/{number}",
        }

    def _context(self, process: str, *name: object) -> Any:
        """The context that all members give their spans of a message or a view: made of its name, and of a process's start."""
        digest = sha256("\0".join(map(str, (process, *name))).encode() + self._boot_of(process)).digest()
        api = self._api
        parent = api.SpanContext(
            trace_id=int.from_bytes(digest[:16]) or 1,
            span_id=int.from_bytes(digest[16:24]) or 1,
            is_remote=True,
            trace_flags=api.TraceFlags(api.TraceFlags.SAMPLED),
        )
        return api.set_span_in_context(api.NonRecordingSpan(parent))

    def _boot_of(self, process: str) -> bytes:
        """What tells this start of a process from others of the same name, where it is known."""
        assert self._node is not None
        presence = self._node.host.presence
        if process == self._node.name:
            return presence.boot
        peer = presence.peers.get(place_of(process))
        return peer.boot if peer is not None and peer.name == process else b""

    def _lose(self, group: str, why: str) -> None:
        """Own messages of which nothing more will be known."""
        waiting = self._messages.pop(group, {})
        for receipt in list(waiting):
            self._end(waiting.pop(receipt), why)


def _of_view(view: View) -> dict[str, Any]:
    reasons = [reason.code for reason in view.left.values()]
    changes = {"joined": list(view.joined) or None, "left": list(view.left) or None, "reasons": reasons or None}
    return {"view": view.number, "members": list(view.members), **changes, "merge": True if view.is_merge else None}


def _plain(value: Any) -> Any:
    """What an attribute may be: a number, a truth, or a text."""
    return value if isinstance(value, bool | int | float | str) else msgspec.json.encode(value, enc_hook=str).decode()


def _provider(options: Spans, node: Node) -> Any:
    parts = ("sdk.trace", "sdk.trace.export", "sdk.resources", "exporter.otlp.proto.http.trace_exporter")
    sdk, export, resources, otlp = (need(f"opentelemetry.{part}", "spans need", "observe") for part in parts)
    about = {"service.name": "plainchant", "service.instance.id": node.place, "service.version": __version__}
    resource = resources.Resource.create(about)
    provider = sdk.TracerProvider(resource=resource, shutdown_on_exit=False)
    exporter = otlp.OTLPSpanExporter(endpoint=options.endpoint, timeout=2)
    provider.add_span_processor(export.BatchSpanProcessor(exporter, schedule_delay_millis=1000))
    return provider
