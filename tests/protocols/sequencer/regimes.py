"""Regimes in which groups once stood still: from a seed to a scenario, and how long its members had to wait.

Beside the sweep (``sweep``), whose delays are a few milliseconds and whose faults are over before any timeout: here round trips
are above and below every timeout, pauses are longer than every timeout and meet every role, groups have 2 to 40 members, a third
of the packets is lost, and with ``partitions = "none"`` all but one of the members may crash.
"""

from __future__ import annotations

from random import Random
from typing import Any

from plainchant.core.model import MS, SECOND, Duration
from plainchant.protocols.sequencer.parameters import Parameters
from plainchant.scenario.model import Delay, Fault, Network, RandomFaults, Scenario, Workload

from ..sweeping import ms
from . import sweep
from .sweep import Outcome

REGIMES = ("round trips", "long pauses", "large groups", "heavy loss", "survivors", "readers")
ROUND_TRIPS_MS = (5, 40, 100, 140, 160, 250, 400, 700)
"""Below and above every duration of the defaults but ``patience``: a member further away than that counts as dead."""
DEFAULTS = Parameters()
PATIENT = {"suspect_after": Duration(400 * MS), "patience": Duration(2 * SECOND)}
"""With the defaults silence is eight packets long: where a third of them is lost, members that live would be excluded."""


def scenario_of(seed: int) -> Scenario:
    """The scenario of a seed; ``about`` is its regime."""
    random = Random(f"sequencer regimes {seed}")
    regime = REGIMES[seed % len(REGIMES)]
    size = random.choice((3, 3, 4, 5, 5, 7))
    loss = random.choice((0.0, 0.02, 0.1))
    round_trip = random.choice((2, 5, 20))
    parameters: dict[str, Any] = {"history": random.choice((16, 64, 256)), "window": random.choice((2, 8))}
    faults: list[Fault] = []
    rates = RandomFaults()
    later: tuple[str, ...] = ()
    rate = 20.0
    if regime == "long pauses" and seed // len(REGIMES) % 4 > 1:  # two of them fail
        size = random.choice((5, 7))
    if regime == "round trips":
        round_trip = random.choice(ROUND_TRIPS_MS)
    elif regime == "large groups":
        parameters["history"] = 256
        size = random.choice((2, 8, 12, 20, 40))
        loss = random.choice((0.0, 0.1, 0.3))
        parameters |= PATIENT
        round_trip = random.choice((2, 40, 160))
        rate = 80.0 / size
    elif regime == "heavy loss":
        loss = 0.3
        round_trip = random.choice((2, 20, 100))
        parameters |= PATIENT
    elif regime == "survivors":
        size = random.choice((2, 2, 3, 4, 4, 6))
        parameters |= {"partitions": "none"}
        if random.random() < 0.3 and size > 2:
            parameters["resilience"] = random.randrange(1, size - 1)
    names = tuple(f"p{number + 1}" for number in range(size))
    if regime in ("round trips", "heavy loss", "large groups") and size > 2:
        crashes = names[: 1 if size < 5 or random.random() < 0.6 else 2]
        at = ms(1500, 2000, random)
        faults += [Fault(kind="crash", at=at, process=name, mid_broadcast=random.random() < 0.3) for name in crashes]
        if random.random() < 0.4:
            later = ("q1",)
            faults.append(Fault(kind="join", at=ms(1000, 3500, random), process="q1"))
        if random.random() < 0.3 and size > 3:
            faults.append(Fault(kind="leave", at=ms(800, 3500, random), process=names[-1]))
    elif regime == "long pauses":
        faults += _pauses(random, names, seed // len(REGIMES) % 4)
        rates = RandomFaults(restart_halted=1.0)
    elif regime == "survivors":
        dead = random.sample(names, random.randrange(1, size))
        together = ms(1000, 1500, random)
        apart = random.random() < 0.5
        faults += [Fault(kind="crash", at=ms(1000, 4000, random) if apart else together, process=name) for name in dead]
        if random.random() < 0.5:
            faults.append(Fault(kind="restart", at=Duration(6 * SECOND), process=dead[0]))
    elif regime == "readers":
        reader = random.choice(names)
        faults.append(Fault(kind="sluggish", at=Duration(SECOND), process=reader, length=ms(500, 4000, random), count=5))
        rate = 60.0
        if random.random() < 0.5:
            faults.append(Fault(kind="crash", at=ms(1100, 2500, random), process=next(name for name in names if name != reader)))
        rates = RandomFaults(restart_halted=1.0)
    if regime == "heavy loss" and seed // len(REGIMES) % 2:
        faults += _bursts(Random(f"sequencer regimes, bursts {seed}"), names)
    if regime in ("long pauses", "readers", "survivors"):
        faults, later = _come_and_go(Random(f"sequencer regimes, others {seed}"), names, faults)
    return Scenario(
        protocol="sequencer",
        name=f"regime-{seed}",
        about=regime,
        seed=seed,
        duration=Duration(8 * SECOND),
        drain=Duration(60 * SECOND),
        members=names,
        later=later,
        groups={"g": names},
        parameters=parameters,
        network=Network(delay=_delay(random, round_trip), loss=loss, duplicate=0.02, reorder=random.choice((0.0, 0.05))),
        workload=(Workload(rate=rate, arrivals="poisson"),),
        fault=tuple(faults),
        random=rates,
    )


def _come_and_go(random: Random, names: tuple[str, ...], faults: list[Fault]) -> tuple[list[Fault], tuple[str, ...]]:
    """A process joins, and a member that nothing else happens to leaves, while others are stopped."""
    at = faults[0].at
    free = [name for name in names if name not in {fault.process for fault in faults}]
    found = [*faults]
    if len(free) > 2 and random.random() < 0.4:
        found.append(Fault(kind="leave", at=Duration(at + ms(-300, 2000, random)), process=free[-1]))
    if random.random() < 0.6:
        found.append(Fault(kind="join", at=Duration(at + ms(-300, 2000, random)), process="q1"))
    return found, ("q1",) if found[-1].kind == "join" else ()


def _delay(random: Random, round_trip: int) -> Delay:
    mean = round_trip * MS // 2
    spread = mean * random.choice((0, 0, 3)) // 10
    return Delay("uniform", Duration(mean - spread), Duration(mean + spread)) if spread else Delay("constant", Duration(mean))


def _bursts(random: Random, names: tuple[str, ...]) -> list[Fault]:
    """Again and again a link, a member or the network loses everything for up to two fifths of ``suspect_after``."""
    longest = 0.4 * PATIENT["suspect_after"] / MS
    found, at = [], 1000.0
    while at < 7000:
        length, source, target = random.uniform(20, longest), random.choice(("", *names)), random.choice(("", *names))
        found.append(
            Fault(kind="loss", at=ms(at, at, random), length=ms(length, length, random), source=source, target=target, rate=1)
        )
        at += length + random.uniform(100, 600)
    return found


def _pauses(random: Random, names: tuple[str, ...], how: int) -> list[Fault]:
    """A pause longer than every timeout: of the sequencer, a member, the sequencer and then its successor, or a member that would
    coordinate the election after a crash."""
    length = Duration(DEFAULTS.patience + DEFAULTS.suspect_after + ms(50, 3000, random))
    at = ms(800, 1500, random)
    if how == 0:
        return [Fault(kind="pause", at=at, process=names[0], length=length)]
    if how == 1:
        return [Fault(kind="pause", at=at, process=random.choice(names[1:]), length=length)]
    if how == 2:
        soon = Duration(at + ms(100, 400, random))
        return [
            Fault(kind="pause", at=at, process=names[0], length=length),
            Fault(kind="pause", at=soon, process=names[1], length=length),
        ]
    soon = Duration(at + DEFAULTS.suspect_after + ms(-20, 60, random))
    return [Fault(kind="crash", at=at, process=names[0]), Fault(kind="pause", at=soon, process=names[1], length=length)]


def run(seed: int, scenario: Scenario | None = None) -> Outcome:
    """Runs and verifies one seed."""
    return sweep.run(seed, scenario=scenario or scenario_of(seed), least_events=0)


def troubles_of(outcome: Outcome) -> list[str]:
    """What went wrong. The time of ``progress`` is stated for round trips below ``suspect_after``; others: ``failover``."""
    scenario = outcome.scenario
    delay = scenario.network.delay
    slow = 2 * max(delay.low, delay.high) >= scenario.parameters.get("suspect_after", DEFAULTS.suspect_after)
    troubles = [name for name in outcome.violated if not (slow and name == "progress")]
    if outcome.lost_needlessly:
        troubles.append("halted although a majority survived")
    touched = scenario.about in ("long pauses", "readers")  # there a fault of its own lets a process be excluded
    for process, end in outcome.summary.processes.items():
        if end.state == "halted" and "was excluded" in end.reason and not touched:
            troubles.append(f"{process} was excluded")
    return troubles
