"""Small cases of a protocol on shared memory, of which the explorer (``lab.explore``) tries every run.

A protocol that can be explored says so in its description (``Description.exploration``) and has its cases in its own package.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Mapping
from typing import Any, Final

from ..core.engine import Engine, Host
from ..core.model import Nanoseconds, ProcessId, UsageError
from .variants import AS_BUILT, Variant

GROUP: Final = "g"


@dataclasses.dataclass(frozen=True)
class Case:
    """A small group, and what may happen to it. Times are whole units (of the bounds: ns)."""

    receivers: tuple[ProcessId, ...]
    senders: tuple[ProcessId, ...]  # Processes that send; those that are not receivers only send
    copies: int
    make: Callable[[Host], Engine]
    skew: Nanoseconds  # Clocks are ahead by nothing or by this
    poll: Nanoseconds
    complete: Nanoseconds  # A message may be decided on this long after its timestamp
    bounds: Mapping[str, Nanoseconds]  # What is promised: ``send``, ``deliver``
    operations: frozenset[str] = frozenset()  # Names of the operations on shared memory (``memory.Operate``)
    crashes: int = 1  # Number of processes that may crash
    modules: int = 0  # Number of modules that may fail
    failures: int | None = None  # Number of receivers among the processes that may crash; None: all of them
    detections: tuple[Nanoseconds, ...] = (1, 100)  # Delays until all hear of a crash, each tried; never 0: none acts at once
    # Timing failures: processes whose clocks are ahead by this; processes that stop once for this, between any two operations.
    early: Mapping[ProcessId, Nanoseconds] = dataclasses.field(default_factory=dict)
    late: Mapping[ProcessId, Nanoseconds] = dataclasses.field(default_factory=dict)
    phases: tuple[Nanoseconds, ...] = (0, 1)
    """When sends may begin, counted from the last moment for which the next look comes late enough; each sender tries each."""
    varied: frozenset[str] = frozenset()  # Operations (by name) that take nothing or their bound, others their bound; empty: all
    struck: frozenset[str] = frozenset()  # Operations (by name) before which something may go wrong; empty: all of them
    # Procedures (by name) of which no other process can tell when their operations happen. Those of ``unseen`` take no time: it
    # cannot be told either whether they came before or after a module's crash. Those of ``private`` take their whole bound.
    unseen: frozenset[str] = frozenset()
    private: frozenset[str] = frozenset()
    reduced: bool = True  # Whether one run stands for several equivalent ones; False: to see that they are equivalent
    messages: int = 1  # Messages that each sender sends
    scheduled: bool = False  # Sends begin when the protocol says so
    start: Mapping[str, Any] = dataclasses.field(default_factory=dict)  # The detail of ``start`` rows in traces
    constants: tuple[Any, ...] = ()  # Objects that are the same in all runs
    variant: Variant = AS_BUILT  # The protocol's rules that are taken out or replaced
    still: tuple[type, ...] = ()  # Types whose objects never change

    def __post_init__(self) -> None:
        if not self.receivers or not self.senders:
            raise UsageError("a case needs at least one receiver and one sender")
        if not 0 <= self.modules < self.copies:
            raise UsageError(f"one of {self.copies} modules has to remain: let 0 to {self.copies - 1} of them fail (--modules)")
        for name in (self.varied | self.struck) - self.operations:
            raise UsageError(f"there is no operation {name!r}; there are: {', '.join(sorted(self.operations))}")
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
        """Receivers that only receive: with the same clocks they are interchangeable."""
        special = () if self.reduced else self.receivers
        return tuple(name for name in self.receivers if name not in (*special, *self.senders, *self.early, *self.late))

    @property
    def horizon(self) -> Nanoseconds:
        """A run that is still going on this long after its sends never ends."""
        faulty = sum(self.early.values()) + sum(self.late.values())
        delivering = self.messages * len(self.senders) * (self.bounds["deliver"] + self.poll)
        return 4 * delivering + 2 * faulty + 2 * max(self.detections)


@dataclasses.dataclass(frozen=True, slots=True)
class Exploration:
    """What ``plainchant explore`` can do with a protocol."""

    case: Callable[..., Case]
    """Makes a case from ``receivers``, ``senders`` and ``both``, ``rules`` and ``parameters`` by name, and fields of the case."""
    rules: Mapping[str, Mapping[str, Any]]  # Rules of the protocol that can be changed, each with its values by their words
    units: Mapping[str, int]  # Its bounds in units, unless others are given
