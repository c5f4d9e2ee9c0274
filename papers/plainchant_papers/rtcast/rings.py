"""Rings, and what is read off their traces.

Networks keep what RTCast assumes (section 3), unless a claim is about what happens otherwise: no packet takes longer than d_max,
and nothing is cut off for good. Times are in ms. Every ring has time to form; what is measured begins after that. Who has
nothing to say keeps the token for a millisecond, so that there are fewer turns to simulate."""

from __future__ import annotations

import dataclasses
import random
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final

import pyarrow as pa

from plainchant.core.model import MS, ProcessId
from plainchant.lab.properties import verify
from plainchant.protocols.rtcast import bounds_of
from plainchant.protocols.rtcast.interface import Interface
from plainchant.protocols.rtcast.parameters import Parameters
from plainchant.protocols.variants import AS_BUILT, Variant
from plainchant.scenario.model import Delay, Fault, Network, RandomFaults, Scenario, Workload
from plainchant.sim import Summary

from ..observe import Make, trace_of
from ..runs import ONE_MILLISECOND, came_to_rest, fault, milliseconds, names, rows_of, scenario

BEGIN: Final = 300.0  # By then every ring here has formed.
DELAY: Final = 2.0  # d_max, as the defaults have it.
WITHIN: Final = Network(delay=Delay("uniform", milliseconds(0.2), milliseconds(DELAY)))
"""Delays of all sizes up to d_max: packets overtake each other."""
SIZES: Final = (2, 3, 4, 6, 8, 12, 16)  # Members of the rings that are compared by size.
BANDWIDTH: Final = 10_000_000
HEADER: Final = 48  # With the 16 bytes that the simulator reckons for a packet, the protocol's own 64.
FULL: Final = Network(delay=Delay("constant", milliseconds(DELAY)), bandwidth=BANDWIDTH, header=HEADER, minimum_frame=256)
"""Every packet takes the time that the ring reckons with, and then d_max."""


def ring(
    members: int | Sequence[str],
    *workload: Workload,
    length: float = 1000,
    drain: float = 20_000,
    network: Network = WITHIN,
    **given: Any,
) -> Scenario:
    """A scenario of one ring."""
    named = names(members) if isinstance(members, int) else tuple(members)
    given = {"idle_hold": milliseconds(1), **given}
    return scenario("rtcast", named, *workload, length=length, drain=drain, network=network, **given)


def parameters_of(run: Scenario) -> Parameters:
    return Parameters(**run.parameters)


def times_of(run: Scenario, members: int = 0) -> Mapping[str, int]:
    """The bounds of a run's ring, or of one of so many members, in ns: rotation (P), deliver, detection; and P as it is printed
    (4.1 and 4.2), the join slot and T."""
    parameters = parameters_of(run)
    interface = Interface(parameters)
    ring = names(members) if members else run.members
    holds = [interface.hold(process) for process in ring]
    printed, slot = interface.printed(ring, holds), interface.slot(ring)
    return {**bounds_of(parameters, ring), "4.1": printed - slot, "4.2": printed, "slot": slot, "hold": holds[0]}


def longest_rotation(members: int, **parameters: Any) -> float:
    """P of a ring of this size, in ms."""
    return times_of(ring(members, **parameters))["rotation"] / MS


def rotations(table: pa.Table, begin: float = BEGIN) -> list[int]:
    """How long the token took from one turn of a member to its next, in ns, from then on."""
    found = [row["detail"]["rotation"] for row in rows_of(table, "token") if row["true_time"] >= begin * MS]
    return [rotation for rotation in found if rotation is not None]


def halts(summary: Summary) -> dict[ProcessId, str]:
    """The processes that their protocol stopped, and why."""
    return {process: end.reason for process, end in summary.processes.items() if end.state == "halted"}


def reasons(table: pa.Table) -> Counter[str]:
    """How often members stopped, by code."""
    stopped = [row for row in rows_of(table, "state") if row["detail"].get("state") == "crashed"]
    return Counter(row["detail"]["reason"] for row in stopped if row["true_time"] >= BEGIN * MS)


# Runs with failures as in 6.3
@dataclasses.dataclass(frozen=True, slots=True)
class Checked:
    """A run, verified."""

    members: int
    retransmissions: int
    crashes: int
    omissions: int  # Packets that a process dropped.
    halted: int  # Members that stopped themselves.
    views: int
    deliveries: int
    quiet: bool
    cases: Mapping[str, int]
    violations: Mapping[str, int]
    first: str  # The first violation, in words.

    def row(self) -> dict[str, Any]:
        return {**dataclasses.asdict(self), "cases": sum(self.cases.values()), "violations": sum(self.violations.values())}


def checked(run: Scenario, properties: Sequence[str], variant: Variant = AS_BUILT, make: Make | None = None) -> Checked:
    """Runs a scenario and verifies these properties."""
    summary, table = trace_of(run, variant, make)
    result = verify(table, properties)
    kinds = Counter(table["kind"].to_pylist())
    omissions = sum(row["detail"].get("fault") == "omit" for row in rows_of(table, "fault"))
    crashes = sum(end.state == "crashed" for end in summary.processes.values())
    cases = {name: outcome.cases for name, outcome in result.properties.items()}
    violations = {name: outcome.violations for name, outcome in result.properties.items()}
    first = str(result.violations[0]) if result.violations else ""
    of_run = (len(run.members), int(parameters_of(run).retransmissions), crashes, omissions, len(halts(summary)))
    return Checked(*of_run, kinds["view"], kinds["deliver"], came_to_rest(summary), cases, violations, first)


def instrumented(seed: int, *, network: Network | None = None, **parameters: Any) -> Scenario:
    """Crashes, half of them within a broadcast, and receive omissions at random; whoever is gone comes back (6.3)."""
    draw = random.Random(f"{seed}/instrumented")
    settings = {"retransmissions": draw.choice((0, 0, 1, 2)), "admission": draw.random() < 0.5, **parameters}
    members = names(draw.randrange(3, 8))
    faults: list[Fault] = []
    for _ in range(draw.randrange(1, 4)):
        at, process = BEGIN + draw.uniform(20, 800), draw.choice(members)
        faults.append(fault("crash", at, process=process, mid_broadcast=draw.random() < 0.5))
        faults.append(fault("restart", at + draw.uniform(100, 400), process=process))
    for _ in range(draw.randrange(1, 6)):
        at, process = BEGIN + draw.uniform(20, 1000), draw.choice(members)
        faults.append(fault("omit", at, process=process, count=draw.randrange(1, 3), packet=draw.choice(("", "Data", "Beat"))))
    start = milliseconds(BEGIN)
    load = Workload(rate=draw.choice((20.0, 60.0)), arrivals="poisson", size=draw.choice((16, 300)), start=start)
    network = network or draw.choice((WITHIN, ONE_MILLISECOND))
    settings |= {"random_faults": RandomFaults(restart_halted=1.0, restart_after=milliseconds(200)), "network": network}
    return ring(members, load, length=BEGIN + 1200, seed=seed, faults=sorted(faults, key=lambda one: one.at), **settings)
