"""A toy protocol on common memory: every process runs the procedure that a test gives it."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

from plainchant.core.engine import Engine, Host
from plainchant.core.memory import Connect, Copy, Entry, Layout, Operate, Procedure
from plainchant.core.model import MS, US, Failure, Form, Join, Propose, Reason, View
from plainchant.protocols.mailbox.box import send_length
from plainchant.protocols.registry import Description, Placement, Promise
from plainchant.scenario.model import Scenario
from plainchant.sim import Simulation
from plainchant.trace import TraceBuffer
from plainchant.trace.validation import validate

from .conftest import Run

GROUP = "g"
BOUND = 100 * US


@dataclasses.dataclass(frozen=True, slots=True)
class MemoryParameters:
    settle: int = 1 * MS
    copies: int = 2
    places: int = 8
    skew: int = 50 * US
    senders: tuple[str, ...] = ()
    elsewhere: tuple[str, ...] = ()


Script = Callable[[Host], Procedure]


class Scripted(Engine):
    """Installs a view of everybody, runs the procedure, writes failures into ``failures``."""

    def __init__(self, host: Host, script: Script, senders: tuple[str, ...], failures: list[tuple[int, str, str]]) -> None:
        self.host = host
        self.script = script
        self.senders = senders
        self.failures = failures

    def join(self, group: str, how: Form | Join | Propose) -> None:
        members = how.members if not isinstance(how, Join) else (*how.contacts, self.host.me)
        self.host.install(View(group, 1, tuple(name for name in members if name not in self.senders), rank=7))
        self.host.spawn("script", self.script(self.host))

    def leave(self, group: str) -> None:
        self.host.left(group)

    def notice(self, event: Any) -> None:
        if isinstance(event, Failure):
            self.failures.append((self.host.now, self.host.me, event.process))


def describe_memory(script: Script, failures: list[tuple[int, str, str]]) -> Description:
    def layout(parameters: MemoryParameters) -> Layout:
        return Layout(parameters.copies, parameters.places, 1, 1000)

    return Description(
        name="scripted",
        about="a toy",
        parameters=MemoryParameters,
        packets=(),
        make=lambda host, parameters: Scripted(host, script, parameters.senders, failures),
        promises=lambda parameters, groups: (Promise("integrity", "always"),),
        faults=(),
        settle=lambda parameters: parameters.settle,
        views=False,
        placement=Placement(
            memory=layout,
            remote=lambda parameters: dict.fromkeys(parameters.elsewhere, "p1"),
            skew=lambda parameters: int(parameters.skew),
            send_length=send_length,
            only_send=lambda parameters: frozenset(parameters.senders),
            room=lambda parameters: 1000,
        ),
    )


class MemoryRun(Run):
    """A run of a script, with what the simulation knows of its memory."""

    def __init__(self, simulation: Simulation, trace: TraceBuffer, failures: list[tuple[int, str, str]]) -> None:
        super().__init__(simulation.run(), trace)
        assert simulation.memory is not None
        self.server = simulation.memory.server
        self.failures = failures


def play(script: Script, *, options: dict[str, Any] | None = None, **settings: Any) -> MemoryRun:
    """Runs a procedure at each of two processes, for 10 ms unless told otherwise."""
    given: dict[str, Any] = {
        "protocol": "scripted",
        "members": ("p1", "p2"),
        "duration": 10 * MS,
        "drain": 50 * MS,
        "workload": (),
    }
    trace, failures = TraceBuffer(), []  # type: tuple[TraceBuffer, list[tuple[int, str, str]]]
    simulation = Simulation(
        Scenario(**{**given, **settings}), trace=trace, description=describe_memory(script, failures), **(options or {})
    )
    run = MemoryRun(simulation, trace, failures)
    assert validate(run.table) == []
    return run


def connect(host: Host) -> Connect:
    return Connect(GROUP, Layout(2, 8, 1, 1000))


def operate(step: Callable[[Copy], Any], copy: int = 0, bound: int = BOUND, name: str = "look") -> Operate:
    return Operate(GROUP, copy, name, step, bound)


def count_up(copy: Copy) -> int:
    """Adds one to a number in the copy and gives it."""
    entry = copy.entry(0)
    number = 1 if entry is None else entry.stamp + 1
    copy.put(0, Entry(stamp=number, place=0, sender="p1"))
    return number


def reading(copy: Copy) -> int:
    entry = copy.entry(0)
    return 0 if entry is None else entry.stamp


def why(text: str) -> Reason:
    return Reason("test", text)
