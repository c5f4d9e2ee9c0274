"""Processes in the simulator that have nothing but the membership service of nodes, and write down what it tells them."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

from plainchant.core.engine import Engine, Host
from plainchant.core.model import MS, Duration, Form, Join, Packet, Propose, Reason, Timer, View
from plainchant.protocols.dedos.nodes import Appeared, Formed, Gone, Nodes, NodesEvent, Replaced, Returned
from plainchant.protocols.dedos.nodes_packets import PACKETS, Claim
from plainchant.protocols.dedos.parameters import Parameters
from plainchant.protocols.dedos.places import node_of
from plainchant.protocols.registry import Description, Placement, Promise
from plainchant.scenario.model import Clock, Fault, Network, Scenario
from plainchant.sim import Simulation, Summary
from plainchant.trace import TraceBuffer

PI = 100 * MS
DELTA = 50 * MS


@dataclasses.dataclass(frozen=True, slots=True)
class Told:
    """One event, and what the clock showed; ``group`` are the nodes that were alive then."""

    process: str
    clock: int
    kind: str
    node: str = ""
    identity: int = 0
    group: tuple[str, ...] = ()


Seats = Mapping[str, tuple[tuple[float, str], ...]]
"""The relays of a node, and from when on (ms). Nobody named: the first process of the node, always."""


class Speaker(Engine):
    """A process of a node. Its node's relay is who a test says."""

    def __init__(self, host: Host, parameters: Parameters, town: Town) -> None:
        self.host = host
        self.parameters = parameters
        self.town = town
        self.node = node_of(parameters, host.me)
        self.claims: tuple[Claim, ...] = ()
        self.nodes = Nodes(host, self.node, parameters, self.told, lambda: self.claims, lambda: 0)

    def join(self, group: str, how: Form | Join | Propose) -> None:
        names = how.members if not isinstance(how, Join) else (*how.contacts, self.host.me)
        self.host.install(View(group, 1, names))
        self.neighbours = tuple(name for name in names if node_of(self.parameters, name) == self.node)
        self.nodes.learn(names)
        seats = self.town.seats.get(self.node, ())
        for at, relay in seats[1:]:
            self.host.set_timer(("seat", relay), round(at * MS))
        relay = seats[0][1] if seats else self.neighbours[0] if isinstance(how, Form) else self.host.me
        self.nodes.start(self.host.clock(), relay, self.neighbours if relay in self.neighbours else (relay,))
        self.town.started(self)

    def told(self, event: NodesEvent) -> None:
        node, identity = "", 0
        if isinstance(event, Appeared | Replaced | Returned):
            node = event.state.node
        elif isinstance(event, Gone):
            node = event.node
        elif isinstance(event, Formed):
            identity = event.identity
        group = tuple(sorted(self.nodes.alive))
        self.town.log.append(Told(self.host.me, self.host.clock(), type(event).__name__, node, identity, group))

    def receive(self, source: str, packet: Packet) -> None:
        assert self.nodes.receive(source, packet)

    def expire(self, timer: Timer) -> None:
        if timer[0] == "seat":
            self.nodes.local(timer[1], tuple(name for name in self.neighbours if name >= timer[1]))
        elif timer[0] == "claim":
            self.claims = (Claim("g", int(timer[1]), timer[2]),)
        else:
            assert self.nodes.expire(timer)

    def waiting(self) -> Reason | None:
        return self.nodes.waiting()


class Town:
    """A run: who was told what, and when."""

    def __init__(
        self,
        members: str,
        *faults: Fault,
        seats: Seats | None = None,
        begin: Callable[[Speaker], None] = lambda speaker: None,
        clocks: Mapping[str, float] | None = None,
        length: float = 1000,
        drain: float = 0,
        network: Network | None = None,
        seed: int = 0,
        later: tuple[str, ...] = (),
        **parameters: Any,
    ) -> None:
        self.seats = seats or {}
        self.log: list[Told] = []
        self.speakers: dict[str, Speaker] = {}
        self._begin = begin
        names = tuple(members.split())
        scenario = Scenario(
            protocol="speakers",
            members=names,
            later=later,
            parameters={"misses": 1, **parameters},
            clock=tuple(Clock(process=name, offset=round(offset * MS)) for name, offset in (clocks or {}).items()),
            duration=Duration(round(length * MS)),
            drain=Duration(round(drain * MS)),
            network=network or Network(),
            fault=faults,
            seed=seed,
        )
        self.summary: Summary = Simulation(scenario, trace=TraceBuffer(), description=self._describe()).run()

    def started(self, speaker: Speaker) -> None:
        self.speakers[speaker.host.me] = speaker
        self._begin(speaker)

    def of(self, kind: str, process: str | None = None, node: str | None = None) -> list[Told]:
        return [told for told in self.log if told.kind == kind and process in (None, told.process) and node in (None, told.node)]

    def groups(self, process: str) -> list[tuple[int, int, tuple[str, ...]]]:
        """The processor groups that a process was in: identity, clock time at which it was formed, members."""
        return [(told.identity, told.clock, told.group) for told in self.of("Formed", process)]

    def alive(self, process: str) -> list[str]:
        return sorted(self.speakers[process].nodes.alive)

    def _describe(self) -> Description:
        return Description(
            name="speakers",
            paper="002",
            about="a toy",
            parameters=Parameters,
            packets=PACKETS,
            make=lambda host, parameters: Speaker(host, parameters, self),
            promises=lambda parameters, groups: (Promise("integrity", "always"),),
            faults=(),
            settle=lambda parameters: PI,
            placement=Placement(lans=lambda parameters: int(parameters.lans)),
        )


def fault(kind: str, at: float, **settings: Any) -> Fault:
    """A fault at a time in ms."""
    if "length" in settings:
        settings["length"] = round(settings["length"] * MS)
    if "offset" in settings:
        settings["offset"] = round(settings["offset"] * MS)
    return Fault(kind=kind, at=Duration(round(at * MS)), **settings)


def town_of(count: int) -> str:
    """So many nodes of one process each."""
    return " ".join(f"n{number}.a" for number in range(1, count + 1))
