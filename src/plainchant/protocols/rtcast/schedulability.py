"""Whether a set of messages can be promised on a ring, node by node, before anything runs (section 5).

``plainchant schedule`` reads the set, and prints and draws the verdict.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

from .analysis import Demand, Turn, Verdict
from .interface import Interface
from .parameters import Parameters


@dataclasses.dataclass(frozen=True, slots=True)
class MessageSet:
    """Everything that is to be judged: who is on the ring, what it is like, and what each member wants to send."""

    parameters: Parameters
    max_packet: int
    token: int
    """P, if it was given; else 0."""
    demands: Mapping[str, Sequence[Demand]]
    """By node, in the order of the ring."""


@dataclasses.dataclass(frozen=True, slots=True)
class NodeVerdict:
    """What can be promised at one node."""

    node: str
    turn: Turn
    verdicts: tuple[Verdict, ...]
    used: int
    """What is taken of T (ns) by what can be promised and by the ring."""
    demanded: int
    """The same, if everything were promised that was asked for."""

    @property
    def is_schedulable(self) -> bool:
        return self.turn.reserved <= self.turn.hold and all(verdict.is_admitted for verdict in self.verdicts)

    @property
    def slack(self) -> int:
        return self.turn.hold - self.used


@dataclasses.dataclass(frozen=True, slots=True)
class RingVerdict:
    """What can be promised on a ring."""

    given: MessageSet
    interface: Interface
    rotation: int
    """P."""
    printed: int
    """Equation 4.2."""
    nodes: tuple[NodeVerdict, ...]

    @property
    def is_schedulable(self) -> bool:
        return all(node.is_schedulable for node in self.nodes)

    @property
    def delay(self) -> int:
        """Delta."""
        return (self.given.parameters.retransmissions + 1) * self.rotation


def judge(given: MessageSet) -> RingVerdict:
    """Judges a message set, node by node, in the order in which the messages stand there."""
    interface = Interface(given.parameters)
    ring = tuple(given.demands)
    holds = [interface.hold(process) for process in ring]
    rotation = given.token or interface.rotation(ring, holds)
    nodes = []
    for node, demands in given.demands.items():
        turn = Turn(given.parameters, node, rotation, given.max_packet, ring)
        verdicts, used = turn.admit(demands)
        nodes.append(NodeVerdict(node, turn, tuple(verdicts), used, turn.demanded(demands)))
    return RingVerdict(given, interface, rotation, interface.printed(ring, holds), tuple(nodes))
