"""Regimes that the sweep does not draw: from a seed to a scenario. Times are the defaults.

Beside the sweep (``sweep``), whose nodes are few and whose network is quick and loses at most a tenth: here groups have 2 to 40
members on 2 to 8 nodes, nodes share one medium, a third of the packets is lost, round trips are below and above ``retry`` and
``acknowledge``, and a relay, a distributor, another receiver or a process that only sends stops, or an application does not read,
for longer than every timeout, while others join, leave and crash. The relays of two nodes stop at once, a relay with a member of
its node, or a process that joins; and all packets of a process, or to one, are lost in bursts of up to half of a node's timeout.

Delays stay below ``delta``, on which the membership of nodes rests.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from random import Random
from typing import Any

from plainchant.core.model import MS, SECOND, Duration, ProcessId
from plainchant.protocols.dedos.parameters import Parameters
from plainchant.protocols.dedos.places import node_of
from plainchant.scenario.model import Delay, Fault, Network, Scenario, Workload

from .. import sweeping
from ..sweeping import ms

NETWORKS = ("shared medium", "heavy loss", "far")
STOPS = ("two relays stop", "relay and member stop", "joiner stops")
TROUBLES = ("relay stops", "member stops", "sender stops", "does not read", "crash", *STOPS, "bursts")
SEEDS = 30
"""The ordinary sweep: each network with each trouble, and the first trouble again: in 28 a relay alone on its node stops."""
SIZES = (2, 3, 5, 8, 12, 20, 40)
ROUND_TRIPS_MS = (10, 40, 80)
"""Below and above ``acknowledge`` (20 ms) and ``retry`` (30 ms)."""
BANDWIDTH = 10_000_000
SITUATIONS = (
    *NETWORKS,
    *TROUBLES,
    "20 members or more",
    "joined meanwhile",
    "left meanwhile",
    "excluded",
    "not-reading",
)
"""What has to occur."""


def network_of(seed: int) -> str:
    return NETWORKS[seed % len(NETWORKS)]


def trouble_of(seed: int) -> str:
    return TROUBLES[seed // len(NETWORKS) % len(TROUBLES)]


@dataclasses.dataclass(frozen=True)
class Outcome(sweeping.Outcome):
    """What a run came to."""

    @property
    def violated(self) -> list[str]:
        """The promises that are not kept, and ``halted`` if a process halted that no fault touched."""
        faulty = {fault.process for fault in self.scenario.fault if fault.kind in ("pause", "sluggish")}
        ends = self.summary.processes.items()
        halted = [name for name, end in ends if end.state == "halted" and not self._is_excused(name, faulty)]
        return [*super().violated, *(["halted"] if halted else [])]

    def _is_excused(self, name: ProcessId, faulty: set[ProcessId]) -> bool:
        """A process that only stopped, or one whose node had no other process to go on without it."""
        parameters = Parameters(**self.scenario.parameters)
        there = [other for other in self.summary.processes if node_of(parameters, other) == node_of(parameters, name)]
        return name in faulty or (bool(faulty.intersection(there)) and len([one for one in there if one not in faulty]) == 1)


def run(seed: int) -> Outcome:
    """Runs and verifies one seed."""
    found = sweeping.run_and_verify(seed, scenario_of(seed), None, 0)
    return Outcome(**{field.name: getattr(found, field.name) for field in dataclasses.fields(sweeping.Outcome)})


def situations(outcome: Outcome) -> Counter[str]:
    """What happened in a run; each situation counts once."""
    rows = outcome.table.select(["process", "kind", "detail"]).to_pylist()
    told = [row["detail"] or "" for row in rows if row["kind"] == "crash"]
    asked = {fault.kind: fault.process for fault in outcome.scenario.fault}
    came = {row["process"] for row in rows if row["kind"] == "join"}
    left = {row["process"] for row in rows if row["kind"] == "leave"}
    found = {
        network_of(outcome.seed): True,
        trouble_of(outcome.seed): True,
        "20 members or more": len(outcome.scenario.members) >= 20,
        "joined meanwhile": asked.get("join") in came,
        "left meanwhile": asked.get("leave") in left,
        "excluded": any('"excluded"' in detail for detail in told),
        "not-reading": any('"not-reading"' in detail for detail in told),
    }
    return Counter([name for name, occurs in found.items() if occurs])


def scenario_of(seed: int) -> Scenario:
    """The scenario of a seed: networks, troubles and sizes take turns."""
    random = Random(f"dedos regimes {seed}")
    network, trouble = network_of(seed), trouble_of(seed)
    size = SIZES[seed % len(SIZES)] if trouble in ("relay stops", "crash") else max(3, SIZES[seed % len(SIZES)])
    nodes = random.choice([count for count in (2, 2, 3, 4, 8) if count <= max(2, size // 2)])
    names = tuple(f"n{number * nodes // size + 1}.p{number}" for number in range(size))
    parameters: dict[str, Any] = {"places": 62}
    relay, last = names[0], names[-1]
    if trouble == "sender stops":
        parameters["senders"] = (last,)
    victim = {"relay stops": relay, "sender stops": last, "crash": random.choice(names)}.get(trouble, names[1])
    at = ms(1000, 1500, random)
    silence = Parameters(**parameters)
    length = Duration(2 * max(silence.patience, silence.node_timeout, silence.longest_silence) + SECOND)
    if trouble == "crash":
        faults = [Fault(kind="crash", at=at, process=victim, mid_broadcast=random.random() < 0.5)]
        length = Duration(2 * SECOND)
    elif trouble == "does not read":
        faults = [Fault(kind="sluggish", at=at, process=victim, length=length, count=5)]
    elif trouble == "bursts":
        faults = _bursts(random, names, at, length)
    elif trouble in STOPS:
        other = {"two relays stop": next(name for name in names if name[:2] != "n1"), "relay and member stop": names[1]}
        stop = Fault(kind="pause", at=at, process=relay, length=length)
        faults = [stop, dataclasses.replace(stop, process=other[trouble])] if trouble in other else []
    else:
        faults = [Fault(kind="pause", at=at, process=victim, length=length)]
    faults.append(Fault(kind="join", at=Duration(at + ms(-300, 1200, random)), process="n1.q", group="g"))
    if trouble == "joiner stops":
        faults.append(Fault(kind="pause", at=Duration(faults[-1].at + ms(1, 80, random)), process="n1.q", length=length))
    leaver = next((name for name in names[2:-1] if name != victim), None)
    if leaver is not None and size > 4:
        faults.append(Fault(kind="leave", at=Duration(at + ms(-300, 1200, random)), process=leaver))
    rate = 60.0 if trouble == "does not read" else 20.0
    return Scenario(
        protocol="dedos",
        name=f"regime-{seed}",
        about=f"{network}, {trouble}, {size} members on {nodes} nodes",
        seed=seed,
        duration=Duration(at + length + SECOND),
        drain=Duration(30 * SECOND),
        members=names,
        later=("n1.q",),
        groups={"g": names},
        parameters=parameters,
        network=_network(random, network),
        workload=(Workload(rate=rate / size, arrivals="poisson", size=random.choice((20, 300))),),
        fault=tuple(sorted(faults, key=lambda fault: fault.at)),
    )


def _bursts(random: Random, names: tuple[ProcessId, ...], at: int, length: int) -> list[Fault]:
    found, longest = [], Parameters().node_timeout // 2 / MS
    for _ in range(length // (500 * MS)):
        end, name = random.choice(("source", "target")), random.choice(names)
        source, target = (name, "") if end == "source" else ("", name)
        found.append(Fault(kind="loss", at=Duration(at), length=ms(20, longest, random), rate=1, source=source, target=target))
        at += found[-1].length + ms(100, 600, random)
    return found


def _network(random: Random, network: str) -> Network:
    if network == "far":
        return Network(delay=Delay("constant", Duration(random.choice(ROUND_TRIPS_MS) * MS // 2)))
    near = Delay("uniform", Duration(MS // 10), Duration(MS // 2))
    if network == "heavy loss":
        return Network(delay=near, loss=0.3)
    return Network(delay=near, bandwidth=BANDWIDTH, shared=True, header=28, loss=random.choice((0.0, 0.02)))
