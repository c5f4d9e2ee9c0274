"""Scenarios of processes on nodes: ``dedos``, or the flat ``sequencer``, on a LAN. Times are in ms.

A :class:`Plan` is a scenario that can travel to a task, with what is counted and asked in its run (``metered``).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any, Final

from plainchant.core.model import MS, SECOND, US, Duration, ProcessId
from plainchant.scenario.model import Delay, Network, Scenario, Workload

from ..runs import milliseconds, scenario

BANDWIDTH: Final = 100_000_000
HEADER: Final = 66  # Bytes that a packet adds on the wire: UDP and IP 28, an Ethernet frame with preamble and gap 38.
SMALLEST: Final = 84  # Bytes of the smallest Ethernet frame, with preamble and gap.
LAN: Final = Network(
    delay=Delay("constant", Duration(100 * US)), bandwidth=BANDWIDTH, shared=True, header=HEADER, minimum_frame=SMALLEST
)
LOADED: Final = 300.0
"""By then every group here has formed (ms): senders may begin. All of them send their first message at once."""
FORMED: Final = 700.0  # By then that is over: counting may begin.


def town(nodes: int, members: int) -> tuple[str, ...]:
    """Names of processes: so many on each of so many nodes.

    >>> town(2, 2)
    ('n0001.p01', 'n0001.p02', 'n0002.p01', 'n0002.p02')
    """
    return tuple(f"n{node:04d}.p{member:02d}" for node in range(1, nodes + 1) for member in range(1, members + 1))


def node(process: ProcessId) -> str:
    return process.partition(".")[0]


def frame_time(size: int) -> float:
    """How long a packet of so many bytes occupies the LAN, in µs."""
    return max(size + HEADER, SMALLEST) * 8 * SECOND / BANDWIDTH / US


# What is run
@dataclasses.dataclass(frozen=True, slots=True)
class Plan:
    """A run that can travel to a task."""

    scenario: Scenario
    variants: tuple[str, ...] = ()  # By name: the rules that are taken out, and other choices (``variants``).
    begin: int = 0  # The window in which is counted, ns;
    end: int = 1 << 62
    lemmas: bool = False  # Whether the paper's invariants are asked.
    handled: tuple[str, ...] = ()  # Whose incoming packets are counted; none given: everybody's. It takes time with many nodes.
    seated: tuple[str, ...] = ()
    """Processes that take their seats before the others of their nodes, and so are the relays there. Without it the durations
    of operations decide which networked process of a node is its relay."""
    label: str = ""


_OF_PLAN: Final = ("variants", "lemmas", "handled", "seated", "label")


def plan(
    members: Sequence[str],
    *workload: Workload,
    length: float,
    drain: float = 20_000,
    protocol: str = "dedos",
    network: Network = LAN,
    counted: tuple[float, float] | None = None,
    **given: Any,
) -> Plan:
    """A group of these processes, or several; ``counted`` is from when to when packets and operations are. Times in ms. ``given``
    are fields of :class:`Plan` and what :func:`..runs.scenario` takes."""
    fields: dict[str, Any] = {name: given.pop(name) for name in _OF_PLAN if name in given}
    if counted is not None:
        fields |= {"begin": round(counted[0] * MS), "end": round(counted[1] * MS)}
    return Plan(scenario(protocol, members, *workload, length=length, drain=drain, network=network, **given), **fields)


def load(
    senders: Sequence[str], rate: float, begin: float, end: float, *, size: int = 64, group: str = "", arrivals: str = "poisson"
) -> Workload:
    """So many messages a second, of all these senders together."""
    return Workload(
        senders=tuple(senders), rate=rate / len(senders), start=milliseconds(begin), stop=milliseconds(end), size=size,
        group=group, arrivals=arrivals,
    )  # fmt: skip


def message(sender: str, at: float, *, count: int = 1, size: int = 64, group: str = "") -> Workload:
    """Messages at a time, as many as wanted at once."""
    return Workload(senders=(sender,), closed=count, count=count, start=milliseconds(at), size=size, group=group)
