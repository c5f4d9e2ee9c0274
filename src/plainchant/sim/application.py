"""A user's own functions on a simulated process: called on deliver and view, and able to send.

Callbacks run after the effects of the engine's turn are applied. What they ask for becomes new engine calls, first in,
first out. Attach an object with any of the methods of :class:`Application`, or plain functions by :func:`functions`:

    applications={"p1": functions(on_deliver=lambda member, group, sender, payload, seq: log.append(payload))}
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import SimpleNamespace
from typing import Any, Final, Protocol

from ..core.model import Batch, Invitation, PlainchantError, Reason, Stream, UsageError, View, format_duration
from ..scenario.outcome import EndState
from .host import SimHost
from .outgoing import Outgoing
from .workload import Numbering, Source


class ApplicationError(PlainchantError):
    """A callback of an application raised; the text says at which process and when, the cause says what."""


class Application(Protocol):
    """What an application may have; every method may be left out."""

    def on_start(self, member: Member) -> None: ...
    def on_deliver(self, member: Member, group: str, sender: str, payload: bytes, seq: int) -> None: ...
    def on_view(self, member: Member, view: View) -> None: ...

    def on_invited(self, member: Member, invitation: Invitation) -> bool:
        """Whether this process agrees to be in a group that is proposed to it (without this method it does)."""

    def on_refused(self, member: Member, group: str, reason: Reason) -> None:
        """This process is not in a group that it proposed, agreed to or asked to join, and why."""

    def on_renamed(self, member: Member, group: str, view: View) -> None:
        """The group has the name ``view.group`` from here on; ``on_view`` follows."""

    def on_left(self, member: Member, group: str) -> None:
        """This process is out of the group: it left, or the group was closed."""

    def on_admitted(self, member: Member, group: str, stream: str) -> None:
        """The deadlines of this stream are guaranteed from here on."""

    def on_rejected(self, member: Member, group: str, stream: str, reason: Reason) -> None:
        """The deadlines of this stream cannot be guaranteed, or no longer; a single message was not sent."""


METHODS: Final = tuple(name for name in vars(Application) if name.startswith("on_"))


def functions(
    *,
    on_start: Callable[[Member], object] | None = None,
    on_deliver: Callable[[Member, str, str, bytes, int], object] | None = None,
    on_view: Callable[[Member, View], object] | None = None,
    on_invited: Callable[[Member, Invitation], bool] | None = None,
    on_refused: Callable[[Member, str, Reason], object] | None = None,
    on_renamed: Callable[[Member, str, View], object] | None = None,
    on_left: Callable[[Member, str], object] | None = None,
    on_admitted: Callable[[Member, str, str], object] | None = None,
    on_rejected: Callable[[Member, str, str, Reason], object] | None = None,
) -> Any:
    """An application made of plain functions."""
    return SimpleNamespace(**{name: function for name, function in locals().items() if function is not None})


def check_application(application: Any, process: str) -> None:
    """Fails on an object that nothing would ever be called of."""
    if application is not None and not any(hasattr(application, method) for method in METHODS):
        raise UsageError(
            f"the application of {process} (of type {type(application).__name__}) has none of {', '.join(METHODS)}; "
            f"give it at least one of these methods"
        )


class Member:
    """What an application knows of the process it runs on, and how it sends."""

    def __init__(self, host: SimHost, attendant: Attendant) -> None:
        self._host = host
        self._outgoing = Outgoing(host)
        self._attendant = attendant

    @property
    def name(self) -> str:
        return self._host.me

    @property
    def now(self) -> int:
        """The process's clock, in ns."""
        return self._host.local

    @property
    def groups(self) -> tuple[str, ...]:
        """The groups that it may send to: those it is in, without those it is leaving."""
        return tuple(group for group in self._host.entered if group not in self._host.leaving)

    def send(self, group: str, payload: bytes, *, stream: str = "", deadline: int = 0) -> str:
        """Sends a message to a group of this process: without a deadline, in a ``stream`` that was admitted, or on its own with a
        ``deadline`` (ns from now on), if the protocol admits it. Returns the message's stream, as ``on_admitted`` names it."""
        if not isinstance(payload, bytes | bytearray | memoryview):
            raise UsageError(f"{self.name} sends a {type(payload).__name__}; a message is bytes, so encode it first")
        self._check_may_send(group)
        if stream and deadline:
            raise UsageError(f"a message of stream {stream!r} has that stream's deadline; leave one of them out")
        if deadline:
            self._check_admits()
            stream = self._outgoing.new_stream_name()
            self._host.request(self._outgoing.ask, group, Stream(stream, len(payload), deadline), bytes(payload))
        elif stream:
            self._outgoing.check_stream(group, stream, len(payload))
            self._host.request(self._outgoing.accept_in, group, stream, bytes(payload))
        else:
            self._outgoing.check_size(len(payload))
            self._host.request(self._attendant.accept, group, bytes(payload))
        return stream

    def ask(self, group: str, stream: Stream) -> None:
        """Asks for the deadlines of a periodic stream to be guaranteed; ``on_admitted`` or ``on_rejected`` follows."""
        self._check_may_send(group)
        self._check_admits()
        if stream.period < 1 or stream.deadline < 1 or stream.size < 0 or not stream.name or stream.name.startswith("~"):
            raise UsageError(f"{stream} is no periodic stream: it needs a name of its own, a size, a deadline and a period")
        if stream.deadline > stream.period:
            raise UsageError(f"{stream} has a deadline after its next message; make it at most the period")
        self._host.request(self._outgoing.ask, group, stream)

    def release(self, group: str, stream: str) -> None:
        """There will be no more messages in a stream."""
        self._request(self._host.release, group, stream)

    def admission(self, group: str) -> Mapping[str, Any] | None:
        """What the protocol guarantees in a group, and how much room it has left."""
        self._check_in(group)
        return self._host.admission(group)

    def propose(self, group: str, members: Sequence[str]) -> None:
        """Proposes a group to these processes; those who agree form it, and ``on_view`` or ``on_refused`` follows."""
        if group in self._host.entered:
            raise UsageError(f"{self.name} is in {group!r} already; propose a group of another name")
        self._host.request(self._host.propose, group, tuple(members))

    def leave(self, group: str) -> None:
        """Leaves a group; ``on_left`` follows."""
        self._request(self._host.leave, group)

    def close(self, group: str) -> None:
        """Closes a group for all its members; ``on_left`` follows at each."""
        self._request(self._host.close_group, group)

    def rename(self, group: str, name: str) -> None:
        """Gives a group another name; ``on_renamed`` follows at each member."""
        self._request(self._host.rename, group, name)

    def _request(self, request: Callable[..., object], group: str, *arguments: str) -> None:
        self._check_in(group)
        self._host.request(request, group, *arguments)

    def _check_may_send(self, group: str) -> None:
        self._check_in(group)
        if group in self._host.leaving:
            raise UsageError(f"{self.name} is leaving {group!r} and sends nothing there any more; see `member.groups`")

    def _check_admits(self) -> None:
        if not self._host.admits:
            problem = "with these parameters this protocol guarantees no deadlines"
            raise UsageError(f"{problem}; set others, or take one that has admission control")

    def _check_in(self, group: str) -> None:
        if group not in self._host.entered:
            raise UsageError(f"{self.name} is not in group {group!r}; it is in: {', '.join(self._host.entered) or 'none'}")


class Attendant:
    """The application's side of a process whose application is callbacks, a workload, or both (:class:`.listener.Listener`). What
    it is told becomes calls that run when the effects of the engine's turn are performed. While the application takes nothing
    (``host.unread``), they wait with everything else that is unread."""

    def __init__(self, host: SimHost, application: Any | None) -> None:
        self._host = host
        self._outgoing = Outgoing(host)
        self._member = Member(host, self)
        given = {name: getattr(application, name, None) for name in METHODS}
        self._callbacks: dict[str, Callable[..., Any]] = {name: call for name, call in given.items() if call is not None}
        self._on_deliver = self._callbacks.get("on_deliver")
        self.numbering: dict[str, Numbering] = {}
        self.sources: list[Source] = []
        if application is not None:
            host.watch(self, all_messages=self._on_deliver is not None)

    def attach(self, group: str, sources: list[Source]) -> None:
        """Attends to the workload of a group that the process enters. A process that is not watched is faster."""
        for source in self.sources:
            # One from before the process left this group must not go on beside its successor.
            source.stopped = source.stopped or source.group == group
        self.sources = [source for source in self.sources if source.group != group] + sources
        if any(source.watches for source in self.sources):
            self._host.watch(self)

    def rename(self, old: str, new: str, shift: int) -> None:
        """The workload of a group goes on under its new name; messages that wait get numbers that are larger by ``shift``."""
        numbering = self.numbering.pop(old, None)
        if numbering is None:
            return
        numbering.count += shift
        numbering.owners = {seq + shift: source for seq, source in numbering.owners.items() if seq + shift > 0}
        self.numbering[new] = numbering
        for source in self.sources:
            if source.group == old:
                source.group = new
                source.taken()

    def accept(self, group: str, payload: bytes) -> None:
        """A message of the application itself."""
        if self._outgoing.accept(group, [payload]) and group in self.numbering:
            self.numbering[group].count += 1

    def started(self) -> None:
        self._call("on_start")

    def took(self, group: str, stream: str, batch: Batch) -> None:
        if stream and group in self.numbering:
            self.numbering[group].inserted(batch.first, batch.count)
        for source in self.sources if not stream else ():
            if source.group == group:
                source.taken()

    def delivered(self, group: str, sender: str, batch: Batch, payloads: list[bytes] | None, rank: int | None) -> None:
        self._host.calls.append((self._deliver, (group, sender, batch.first, payloads or [batch.body])))

    def _deliver(self, group: str, sender: str, first: int, payloads: list[bytes]) -> None:
        host = self._host
        if host.unread is not None:
            host.unread.calls.append((self._deliver, (group, sender, first, payloads)))
            return
        owners = self.numbering[group].owners if sender == host.me and group in self.numbering else None
        for seq, payload in enumerate(payloads, first):
            source = owners.pop(seq, None) if owners is not None else None
            if source is not None:
                source.done()
            if self._on_deliver is not None:
                self._call("on_deliver", group, sender, payload, seq)

    def stable(self, group: str, rank: int) -> None:
        """Callbacks are not told of stability."""

    def installed(self, view: View) -> None:
        self._tell("on_view", view)

    def left(self, group: str) -> None:
        self._tell("on_left", group)

    def refused(self, group: str, reason: Reason) -> None:
        self._tell("on_refused", group, reason)

    def renamed(self, group: str, view: View, returned: Sequence[bytes], numbered: int) -> None:
        self._tell("on_renamed", group, view)

    def admitted(self, group: str, stream: str) -> None:
        self._host.calls.append((self._answered, (Source.admitted, "on_admitted", group, stream)))

    def rejected(self, group: str, stream: str, reason: Reason) -> None:
        self._host.calls.append((self._answered, (Source.rejected, "on_rejected", group, stream, reason)))

    def _answered(self, tell: Callable[[Source], None], callback: str, group: str, stream: str, *reason: Reason) -> None:
        for source in self.sources:
            if source.group == group and source.stream == stream:
                tell(source)
        self._call(callback, group, stream, *reason)

    def stopped(self, state: EndState, reason: Reason) -> None:
        """Callbacks are not told that their process has stopped."""

    def invited(self, invitation: Invitation) -> str:
        agrees = "on_invited" not in self._callbacks or self._call("on_invited", invitation)
        return "" if agrees else f"the application of {self._host.me} does not agree"

    def asked_to_leave(self, group: str) -> None:
        for name in [group] if group else list(self._host.entered):
            self._host.leave(name)

    @property
    def is_going(self) -> bool:
        host = self._host
        return bool(host.entered) and all(group in host.leaving for group in host.entered)

    def _tell(self, callback: str, *arguments: Any) -> None:
        """Calls back when the effects are performed, or when the application takes messages again."""
        if callback in self._callbacks:
            self._host.calls.append((self._tell_now, (callback, *arguments)))

    def _tell_now(self, callback: str, *arguments: Any) -> None:
        if self._host.unread is None:
            self._call(callback, *arguments)
        else:
            self._host.unread.calls.append((self._call, (callback, *arguments)))

    def _call(self, callback: str, *arguments: Any) -> Any:
        function = self._callbacks.get(callback)
        if function is None:
            return None
        try:
            return function(self._member, *arguments)
        except Exception as error:
            where = f"{self._host.me} at {format_duration(self._host.now)}"
            raise ApplicationError(f"the application of {where} raised {type(error).__name__}: {error}") from error
