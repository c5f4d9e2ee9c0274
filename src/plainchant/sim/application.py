"""A user's own functions on a simulated process: called on deliver and view, and able to send.

Callbacks run after the effects of the engine's turn are applied. What they ask for becomes new engine calls, first in,
first out. Attach an object with any of the methods of :class:`Application`, or plain functions by :func:`functions`:

    applications={"p1": functions(on_deliver=lambda member, group, sender, payload, seq: log.append(payload))}
"""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Final, Protocol

from ..model import PlainchantError, UsageError, View, format_duration

if TYPE_CHECKING:
    from .host import SimHost
    from .workload import Numbering, Source


METHODS: Final = ("on_start", "on_deliver", "on_view")


class ApplicationError(PlainchantError):
    """A callback of an application raised; the text says at which process and when, the cause says what."""


class Application(Protocol):
    """What an application may have; every method may be left out."""

    def on_start(self, member: Member) -> None: ...

    def on_deliver(self, member: Member, group: str, sender: str, payload: bytes, seq: int) -> None: ...

    def on_view(self, member: Member, view: View) -> None: ...


def functions(
    *,
    on_start: Callable[[Member], None] | None = None,
    on_deliver: Callable[[Member, str, str, bytes, int], None] | None = None,
    on_view: Callable[[Member, View], None] | None = None,
) -> Any:
    """An application made of plain functions."""
    given = {"on_start": on_start, "on_deliver": on_deliver, "on_view": on_view}
    return SimpleNamespace(**{name: function for name, function in given.items() if function is not None})


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
        return tuple(group for group in self._host.groups if group not in self._host.leaving)

    def send(self, group: str, payload: bytes) -> None:
        """Sends a message to a group of this process."""
        if not isinstance(payload, bytes | bytearray | memoryview):
            raise UsageError(f"{self.name} sends a {type(payload).__name__}; a message is bytes, so encode it first")
        if group not in self._host.groups:
            groups = ", ".join(self._host.groups) or "none"
            raise UsageError(f"{self.name} is not in group {group!r}; it is in: {groups}")
        if group in self._host.leaving:
            raise UsageError(f"{self.name} is leaving {group!r} and sends nothing there any more; see `member.groups`")
        self._host.later(self._attendant.accept, group, bytes(payload))


class Attendant:
    """Stands between a process and those who watch it: its application and the sources of its workload."""

    def __init__(self, host: SimHost, application: Any | None) -> None:
        self._host = host
        self._application = application
        self._member = Member(host, self)
        self._on_deliver = getattr(application, "on_deliver", None)
        self._on_view = getattr(application, "on_view", None)
        self.numbering: dict[str, Numbering] = {}
        self.sources: list[Source] = []

    def attach(self, group: str, sources: list[Source]) -> None:
        """Attends to the workload of a group that the process enters. A process that nobody watches is faster."""
        host = self._host
        for source in self.sources:
            # One from before the process left this group must not go on beside its successor.
            source.stopped = source.stopped or source.group == group
        self.sources = [source for source in self.sources if source.group != group] + sources
        host.watch_all = self._on_deliver is not None
        if self._application is not None or any(source.watches for source in self.sources):
            host.watcher = self

    def started(self) -> None:
        on_start = getattr(self._application, "on_start", None)
        if on_start is not None:
            self._call(on_start, self._member)

    def delivered(self, group: str, sender: str, seq: int, payload: bytes) -> None:
        if sender == self._host.me and group in self.numbering:
            source = self.numbering[group].owners.pop(seq, None)
            if source is not None:
                source.done()
        if self._on_deliver is not None:
            self._call(self._on_deliver, self._member, group, sender, payload, seq)

    def installed(self, view: View) -> None:
        if self._on_view is not None:
            self._call(self._on_view, self._member, view)

    def taken(self, group: str) -> None:
        for source in self.sources:
            if source.group == group:
                source.taken()

    def accept(self, group: str, payload: bytes) -> None:
        """A message of the application itself."""
        if self._host.accept(group, [payload]) and group in self.numbering:
            self.numbering[group].count += 1

    def _call(self, function: Callable[..., None], *arguments: Any) -> None:
        try:
            function(*arguments)
        except Exception as error:
            where = f"{self._host.me} at {format_duration(self._host.now)}"
            raise ApplicationError(f"the application of {where} raised {type(error).__name__}: {error}") from error
