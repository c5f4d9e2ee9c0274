"""What is explored: who takes part, how long things take, and what may go wrong."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Mapping
from typing import Any, Final

from ...core.engine import Engine, Host, _GroupHost
from ...core.memory import Layout
from ...core.model import Nanoseconds, ProcessId, UsageError
from ..variants import AS_BUILT, Calls, Variant

GROUP: Final = "g"
OPERATIONS: Final = frozenset({"decide", "finish", "flag", "list", "look", "read", "write"})
"""What operations are called (``memory.Operate``)."""


@dataclasses.dataclass(frozen=True)
class Case:
    """A small group, and what may happen to it. Times are whole units (of the bounds: ns)."""

    receivers: tuple[ProcessId, ...]
    senders: tuple[ProcessId, ...]
    """Who sends; those who are no receivers only send."""
    copies: int
    make: Callable[[Host], Engine]
    skew: Nanoseconds
    """Clocks are ahead by nothing or by this."""
    poll: Nanoseconds
    complete: Nanoseconds
    """After its timestamp a message may be decided on."""
    bounds: Mapping[str, Nanoseconds]
    """What is promised: ``send``, ``deliver``."""
    crashes: int = 1
    """How many processes may crash."""
    modules: int = 0
    """How many modules may fail."""
    failures: int | None = None
    """How many of the crashes may be receivers'; None: all."""
    detections: tuple[Nanoseconds, ...] = (1, 100)
    """How long after a crash everybody is told; each is tried. Not at once: nobody acts upon a crash at its very moment."""
    early: Mapping[ProcessId, Nanoseconds] = dataclasses.field(default_factory=dict)
    """Processes whose clocks are ahead by this: a timing failure."""
    late: Mapping[ProcessId, Nanoseconds] = dataclasses.field(default_factory=dict)
    """Processes that stop once, between any two operations, for this: a timing failure."""
    phases: tuple[Nanoseconds, ...] = (0, 1)
    """When sends may begin, counted from the last moment for which the next look comes late enough; each is tried by each."""
    varied: frozenset[str] = frozenset()
    """The operations (by name) that take nothing or their whole bound, where the others take their bound; empty: all of them."""
    struck: frozenset[str] = frozenset()
    """The operations (by name) before which something may go wrong; empty: all of them."""
    unseen: frozenset[str] = frozenset()
    """Procedures (by name) of which nobody else can tell when their operations happen, nor whether they came before or after a
    module's crash: these take no time."""
    private: frozenset[str] = frozenset()
    """Procedures (by name) of which nobody else can tell when their operations happen: these take their whole bound."""
    reduced: bool = True
    """Whether one of several runs that come to the same is enough; False to see that they do."""
    messages: int = 1
    """That each sender sends."""
    scheduled: bool = False
    """Sends begin when the protocol says so."""
    start: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    """The detail of ``start`` rows in traces."""
    constants: tuple[Any, ...] = ()
    """Objects that are the same in all runs."""
    still: tuple[type, ...] = ()
    """Types whose objects never change."""
    variant: Variant = AS_BUILT
    """The protocol's rules that are taken out or replaced."""

    def __post_init__(self) -> None:
        if not self.receivers or not self.senders:
            raise UsageError("a case needs at least one receiver and one sender")
        if not 0 <= self.modules < self.copies:
            raise UsageError(f"one of {self.copies} modules has to remain: let 0 to {self.copies - 1} of them fail (--modules)")
        for name in (self.varied | self.struck) - OPERATIONS:
            raise UsageError(f"there is no operation {name!r}; there are: {', '.join(sorted(OPERATIONS))}")
        if not self.detections or min(self.detections) < 1:
            raise UsageError("a crash is told after 1 unit at least; give --detection such a time")
        for process in (*self.early, *self.late):
            if process not in self.processes:
                raise UsageError(f"there is no process {process!r} in this case; there are: {', '.join(self.processes)}")

    @property
    def processes(self) -> tuple[ProcessId, ...]:
        return tuple(dict.fromkeys((*self.receivers, *self.senders)))

    @functools.cached_property
    def alike(self) -> tuple[ProcessId, ...]:
        """Receivers that only receive: with the same clocks, one is as good as another."""
        special = () if self.reduced else self.receivers
        return tuple(name for name in self.receivers if name not in (*special, *self.senders, *self.early, *self.late))

    @property
    def horizon(self) -> Nanoseconds:
        """A run that goes on for so long after its sends goes on for ever."""
        faulty = sum(self.early.values()) + sum(self.late.values())
        delivering = self.messages * len(self.senders) * (self.bounds["deliver"] + self.poll)
        return 4 * delivering + 2 * faulty + 2 * max(self.detections)


def mailbox_case(
    *,
    receivers: int = 2,
    senders: int = 1,
    both: bool = False,
    rules: Mapping[str, Any] | None = None,
    parameters: Mapping[str, Any] | None = None,
    **settings: Any,
) -> Case:
    """A case of ``mailbox``: receivers ``r1``, ``r2``..., senders ``s1``..., or, with ``both``, the first receivers."""
    from ...protocols import mailbox
    from ...protocols.mailbox.parameters import Parameters
    from ...protocols.mailbox.times import Times
    from .rules import variant_of

    listening = tuple(f"r{number}" for number in range(1, receivers + 1))
    sending = listening[:senders] if both else tuple(f"s{number}" for number in range(1, senders + 1))
    if len(sending) < senders:
        raise UsageError(f"{senders} of {receivers} receivers cannot send; name fewer senders, or leave out --both")
    only = tuple(name for name in sending if name not in listening)
    given = {**UNITS, **(parameters or {})}
    known = {field.name for field in dataclasses.fields(Parameters)}
    for name in given:
        if name not in known:
            raise UsageError(f"there is no number {name!r} in mailbox; see: plainchant protocols mailbox")
    chosen = Parameters(**{"rejected": "halt", "slots": 2, "places": receivers + len(only), "room": 64, **given, "senders": only})
    variant = variant_of(rules or {})
    times = Times(chosen)
    description = mailbox.DESCRIPTION
    groups = {GROUP: (*listening, *only)}
    bounds = dict(description.bounds(chosen, groups))
    settings.setdefault("modules", chosen.copies - 1)
    settings.setdefault("detections", (1, bounds["deliver"]))
    if chosen.tolerate == "timing":
        faulty = {*settings.get("early", ()), *settings.get("late", ())}
        settings.setdefault("failures", max(0, (receivers - 1) // 2 - len(faulty.intersection(listening))))
    if settings.get("reduced", True) and not variant.replacements and settings.get("messages", 1) <= chosen.slots:
        settings.setdefault("private", _private(settings))
        settings.setdefault("unseen", _unseen(chosen.tolerate == "crash", settings))
    return Case(
        receivers=listening,
        senders=sending,
        copies=chosen.copies,
        make=lambda host: mailbox.make(host, chosen),
        skew=chosen.skew,
        poll=chosen.poll,
        complete=times.complete,
        bounds=bounds,
        scheduled=bool(chosen.schedule),
        start={
            "version": 1,
            "protocol": description.name,
            "parameters": dataclasses.asdict(chosen),
            "promises": [promise.name for promise in description.promises(chosen, groups)],
            "bounds": bounds,
        },
        constants=(chosen,),
        still=(Times, Layout, _GroupHost, Calls),
        variant=variant,
        **settings,
    )


def _private(settings: Mapping[str, Any]) -> frozenset[str]:
    """What is read is for the reader alone, and stays until it has set its flag. The longest time is what bounds are for."""
    return frozenset() if settings.get("early") or settings.get("late") else frozenset({"read"})


def _unseen(crash: bool, settings: Mapping[str, Any]) -> frozenset[str]:
    """Decision flags are looked at by nobody but who removes the message, in the step that sets the last: then nobody that is in
    time looks at it again, unless its sender wants the slot. Who is collected is marked as gone, which concerns only messages
    that are sent later, and has flags set in its name; with the second protocol it has votes too, if it is a receiver, and
    when these are cast can be told. In a module that fails none of this matters, and all go on to the next alike.

    Whether anything is left behind does depend on when flags are set: of that, not all is tried.
    """
    if settings.get("early") or settings.get("late"):
        return frozenset()
    only_senders = not settings.get("failures", 1) or not settings.get("crashes", 1)
    return frozenset({"finish", "collect"} if crash or only_senders else {"finish"})


UNITS: Final = {"write": 2, "flag": 2, "decide": 10, "read": 2, "finish": 2, "skew": 4, "poll": 60}
"""Bounds in units, unless others are given: e is small against dd."""
