"""The fault sweep of the sequencer: from a seed to a scenario, and from a run to a verdict and its situations.

A seed decides the shape of the group, the parameters, the network and the faults. Seeds fall into families, so that every
kind of trouble has its share; within a family everything is drawn. The larger sweeps of the lab use the same scenarios.
"""

from __future__ import annotations

import dataclasses
import json
from collections import Counter
from random import Random
from typing import Any, Literal

import pyarrow as pa
import pyarrow.compute as pc

from plainchant.core.model import MS, SECOND, Duration
from plainchant.protocols.sequencer import Parameters
from plainchant.scenario.model import Delay, Fault, Network, RandomFaults, Scenario, Workload
from plainchant.sim import Summary

from .. import sweeping
from ..sweeping import Make, kinds_of_fault, ms

__all__ = ["FAMILIES", "LEAST_EVENTS", "Outcome", "kinds_of_fault", "run", "scenario_of"]

LEAST_EVENTS = 2_000
LOAD = {
    "packets": 850.0,
    "crashes": 1_800.0,
    "churn": 1_300.0,
    "pauses": 1_900.0,
    "partitions": 1_500.0,
    "bursts": 450.0,
    "uniform": 1_200.0,
    "mixed": 1_000.0,
}
"""Messages a second of each sender, times the square of the group's size: so many that a run of two seconds has the events."""
FAMILIES = tuple(LOAD)


class Outcome(sweeping.Outcome):
    """What a run of the sweep came to."""

    @property
    def lost_needlessly(self) -> bool:
        """Nobody is left, although majorities of the last view, and of each view proposed after it (which may have been in
        force somewhere), neither crashed nor left. (Who is away for longer than the others' patience is lost to them.)"""
        ends = self.summary.processes
        patience = self.scenario.parameters.get("patience", Parameters().patience)
        away = any(fault.length + Parameters().suspect_after > patience for fault in self.summary.faults)
        if away or any(end.state == "alive" for end in ends.values()):
            return False
        rows = self.table.filter(pc.is_in(self.table["kind"], pa.array(["view", "confirm"]))).to_pylist()
        last = max((row for row in rows if row["kind"] == "view"), key=lambda row: int(row["view"]))
        proposals = [json.loads(row["detail"]) for row in rows if row["kind"] == "confirm"]
        views = [last["members"], *(one["members"] for one in proposals if one["proposed"] > last["view"])]
        return all(2 * sum(ends[process].state == "halted" for process in view) > len(view) for view in views)


def scenario_of(seed: int) -> Scenario:
    """The scenario of a seed: always at least two kinds of fault."""
    random = Random(f"sequencer sweep {seed}")
    family = FAMILIES[seed % len(FAMILIES)]
    size = random.choice((3, 4, 5, 5, 6, 7)) if family != "uniform" else random.choice((3, 4, 5, 5))
    members = tuple(f"p{i + 1}" for i in range(size))
    parameters: dict[str, Any] = {
        "history": random.choice((4, 8, 16, 64)),
        "window": random.choice((1, 2, 4, 8)),
        "pack": random.random() < 0.5,
        "sync_after": random.choice((Duration(0), Duration(2 * MS), Duration(10 * MS))),
    }
    if random.random() < 0.3:
        parameters["acknowledge_every"] = parameters["history"]
    if random.random() < 0.2:
        parameters["gap_patience"] = Duration(2 * MS)
    if family == "uniform":
        parameters["resilience"] = size // 2
    elif random.random() < 0.1:  # a majority together with the sequencer, also when others have joined
        parameters["resilience"] = (size + 2) // 2
    network = Network(
        delay=_delay(random),
        loss=random.choice((0.01, 0.03, 0.08, 0.15)),
        duplicate=random.choice((0.0, 0.02, 0.1)),
        reorder=random.choice((0.0, 0.05, 0.2)),
        corrupt=random.choice((0.0, 0.0, 0.02)),
        wire=random.random() < 0.1,
    )
    faults: list[Fault] = []
    rates = RandomFaults()
    if family == "crashes":
        rates = RandomFaults(crash=2.0, restart=0.5, restart_after=ms(100, 500, random))
        faults.append(_sequencer_crash(random, members))
    elif family == "churn":
        rates = RandomFaults(crash=0.5, leave=2.0, restart_after=ms(50, 300, random))
        if random.random() < 0.5:
            faults.append(Fault(kind="leave", at=ms(100, 800, random), process=members[0]))
        else:  # after others have joined: one of them may be elected
            faults.append(Fault(kind="crash", at=ms(1200, 1400, random), process=members[0]))
    elif family == "pauses":
        rates = RandomFaults(pause=4.0, pause_length=ms(60, 400, random), crash=0.5, step=1.0)
    elif family == "partitions":
        rates = RandomFaults(partition=1.5, cut=1.5, clog=1.0, network_length=ms(60, 500, random))
    elif family == "bursts":
        rates = RandomFaults(crash=1.0, pause=1.0, pause_length=ms(60, 250, random))
    elif family == "uniform" and size == 5 and random.random() < 0.5:
        faults += _two_cut_off_and_dead(random, members)
        rates = RandomFaults(step=1.0, clog=1.0)
    elif family == "uniform":
        rates = RandomFaults(crash=1.0, restart=0.0, pause=1.0, partition=0.5, most_lost=max(1, size // 2) if size > 3 else 1)
    elif family == "mixed":
        rates = RandomFaults(crash=1.0, pause=1.0, partition=0.7, cut=0.7, clog=0.5, leave=0.7, step=0.5)
    workload = _workload(random, family, size)
    if family == "packets" and network.duplicate + network.reorder + network.corrupt == 0:
        network = dataclasses.replace(network, duplicate=0.05)
    if family == "churn":  # somebody who sends at the beginning and at the end: a joiner has not seen it send
        workload = (
            *(dataclasses.replace(load, senders=members[:-1]) for load in workload[-1:]),
            Workload(senders=members[-1:], rate=200.0, stop=Duration(50 * MS)),
            Workload(senders=members[-1:], rate=20.0, start=Duration(1_500 * MS)),
        )
    later = ("q1", "q2") if family in ("churn", "mixed") and random.random() < 0.7 else ()
    faults += [Fault(kind="join", at=ms(80, 900, random), process=process) for process in later]
    if family == "crashes" and random.random() < 0.25:
        faults += _heavy_loss(members[:3])
    return Scenario(
        protocol="sequencer",
        name=f"sweep-{seed}",
        about=family,
        seed=seed,
        duration=Duration(2_000 * MS),
        drain=Duration(20 * SECOND),
        members=members,
        later=later,
        groups={"g": members},
        parameters=parameters,
        network=network,
        workload=workload,
        fault=tuple(faults),
        random=rates,
    )


def _why(reason: str) -> str:
    for words, why in (("a majority is needed", "minority"), ("to be let in", "nobody answered"), ("which is not", "diverged")):
        if words in reason:
            return why
    return reason


def _delay(random: Random) -> Delay:
    kinds: tuple[Literal["constant", "uniform", "exponential"], ...] = ("constant", "uniform", "exponential")
    kind = random.choice(kinds)
    low = Duration(random.choice((200_000, 500_000, 1 * MS)))
    return Delay(kind, low, Duration(3 * MS) if kind != "constant" else Duration(0))


def _sequencer_crash(random: Random, members: tuple[str, ...]) -> Fault:
    """The first sequencer crashes: at a time, after so many events, or in the middle of a broadcast."""
    how = random.randrange(3)
    if how == 0:
        return Fault(kind="crash", at=ms(20, 600, random), process=members[0])
    if how == 1:
        return Fault(kind="crash", after_events=random.randrange(20, 800), process=members[0])
    return Fault(kind="crash", at=ms(20, 600, random), process=members[0], mid_broadcast=True)


def _heavy_loss(some: tuple[str, ...]) -> list[Fault]:
    """The sequencer, its successor and another hear half of what they say to each other: they hold much that is out of order
    when the sequencer crashes, and lack much of what the next one says."""
    return [
        Fault(kind="loss", at=Duration(0), length=Duration(900 * MS), source=source, target=target, rate=0.45)
        for source in some
        for target in some
        if source != target
    ]


def _two_cut_off_and_dead(random: Random, members: tuple[str, ...]) -> list[Fault]:
    """The sequencer and the member after it are cut off together, go on for a moment, and die: what they delivered alone
    nobody else will ever have."""
    when = ms(200, 1000, random)
    pair, rest = members[:2], members[2:]
    return [
        Fault(kind="partition", at=when, length=Duration(80 * MS), parts=(pair, rest)),
        *(Fault(kind="crash", at=Duration(when + 60 * MS), process=process) for process in pair),
    ]


def _workload(random: Random, family: str, size: int) -> tuple[Workload, ...]:
    if family == "bursts":
        return (
            Workload(rate=LOAD[family] / size**2, burst=random.choice((5, 12)), size=random.choice((8, 40))),
            Workload(senders=("p2",), rate=3.0, size=4000),
        )
    kind = random.randrange(3)
    rate = LOAD[family] / size**2
    if kind == 0:
        return (Workload(rate=rate, arrivals="poisson", size=random.choice((0, 8, 40))),)
    if kind == 1:
        return (Workload(senders=("p2",), closed=1, stop=Duration(700 * MS)), Workload(rate=rate * 0.7, arrivals="poisson"))
    return (Workload(rate=rate, burst=2),)


def run(seed: int, make: Make | None = None, scenario: Scenario | None = None, least_events: int = LEAST_EVENTS) -> Outcome:
    """Runs and verifies one seed, with the protocol or a variant of it."""
    found = sweeping.run_and_verify(seed, scenario or scenario_of(seed), make, least_events)
    found.situations.update(_halts(found.summary))
    return Outcome(**{field.name: getattr(found, field.name) for field in dataclasses.fields(found)})


def _halts(summary: Summary) -> Counter[str]:
    """Who halted, and why."""
    reasons = [end.reason for end in summary.processes.values() if end.state == "halted"]
    return Counter("halted: excluded" if "was excluded" in reason else "halted: " + _why(reason) for reason in reasons)
