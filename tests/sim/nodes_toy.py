"""A toy protocol on nodes: every process runs the procedure that a test gives it, and writes down what it hears."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

from plainchant.core.engine import Engine, Host
from plainchant.core.memory import Connect, Copy, Layout, Operate, Procedure
from plainchant.core.model import MS, US, Failure, Form, Join, Packet, Pressure, Propose, View
from plainchant.protocols.dedos.box import send_length
from plainchant.protocols.registry import Description, Placement, Promise
from plainchant.scenario.model import Scenario
from plainchant.sim import Simulation
from plainchant.trace import TraceBuffer
from plainchant.trace.validation import validate

from .conftest import Run

LAYOUT = Layout(2, 8, 1, 1000)
BOUND = 100 * US
MAILBOX = "@node"


class Word(Packet, frozen=True, array_like=True, gc=False, tag=1):
    group: str
    text: str


@dataclasses.dataclass(frozen=True, slots=True)
class NodeParameters:
    lans: int = 1
    settle: int = 1 * MS


Script = Callable[[Host], Procedure]
Line = tuple[int, str, Any]


class Noded(Engine):
    """Runs the procedure from its start on, in a group or in none; what it hears goes into ``lines``."""

    def __init__(self, host: Host, script: Script, lines: list[Line]) -> None:
        self.host = host
        self.script = script
        self.lines = lines

    def start(self) -> None:
        self.host.spawn("script", self.script(self.host))

    def join(self, group: str, how: Form | Join | Propose) -> None:
        members = how.members if isinstance(how, Form) else (self.host.me,)
        self.host.install(View(group, 1, members, rank=0))

    def leave(self, group: str) -> None:
        self.host.left(group)

    def receive(self, source: str, packet: Any) -> None:
        self.lines.append((self.host.now, self.host.me, packet.text))

    def notice(self, event: Any) -> None:
        if isinstance(event, Failure):
            self.lines.append((self.host.now, self.host.me, f"{event.process} has failed"))
        elif isinstance(event, Pressure):
            self.lines.append((self.host.now, self.host.me, "full" if event.full else "room"))


def node_of(parameters: NodeParameters, process: str) -> str:
    return process.partition(".")[0]


def processor_of(parameters: NodeParameters, process: str) -> str:
    return process.rpartition(".")[0] if process.count(".") > 1 else process


def describe_nodes(script: Script, lines: list[Line]) -> Description:
    return Description(
        name="noded",
        about="a toy",
        parameters=NodeParameters,
        packets=(Word,),
        make=lambda host, parameters: Noded(host, script, lines),
        promises=lambda parameters, groups: (Promise("integrity", "always"),),
        faults=(),
        settle=lambda parameters: parameters.settle,
        views=False,
        placement=Placement(
            memory=lambda parameters: LAYOUT,
            node_of=node_of,
            processor_of=processor_of,
            timely=False,
            send_length=send_length,
            lans=lambda parameters: parameters.lans,
            idle=True,
        ),
    )


class NodesRun(Run):
    """A run, what processes heard, and the simulation."""

    def __init__(self, simulation: Simulation, trace: TraceBuffer, lines: list[Line]) -> None:
        self.simulation = simulation
        self.lines = lines
        super().__init__(simulation.run(), trace)

    def heard(self, process: str) -> list[tuple[int, Any]]:
        return [(time, what) for time, name, what in self.lines if name == process]


TWO_BY_TWO = ("a.p1", "a.p2", "b.p1", "b.p2")


def play(script: Script, *, options: dict[str, Any] | None = None, **settings: Any) -> NodesRun:
    """Runs a procedure at each of four processes on two nodes, for 10 ms unless told otherwise."""
    given: dict[str, Any] = {
        "protocol": "noded",
        "members": TWO_BY_TWO,
        "duration": 10 * MS,
        "drain": 50 * MS,
        "workload": (),
    }
    trace, lines = TraceBuffer(), []  # type: tuple[TraceBuffer, list[Line]]
    description = describe_nodes(script, lines)
    simulation = Simulation(Scenario(**{**given, **settings}), trace=trace, description=description, **(options or {}))
    run = NodesRun(simulation, trace, lines)
    assert validate(run.table) == []
    return run


def connect(mailbox: str = MAILBOX) -> Connect:
    return Connect(mailbox, LAYOUT)


def operate(
    step: Callable[[Copy], Any], *, copy: int = 0, news: bool = False, mailbox: str = MAILBOX, name: str = "look"
) -> Operate:
    return Operate(mailbox, copy, name, step, BOUND, news)


def nothing(host: Host) -> Procedure:
    yield connect()
