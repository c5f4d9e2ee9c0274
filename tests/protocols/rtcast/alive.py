"""The second fault sweep of rtcast: rings of 2 to 32 on every kind of medium, pauses, readers that stop, crowds that join.

The first sweep (``sweep``) draws rings of up to six on networks that mostly have no bandwidth. Here sending takes its time and
packets have their real size, delays come close to d_max, and names may be long. Families take turns:

- *media*: a member crashes, another one leaves, processes join and come back, one thing after the other;
- *pauses*: a member is stopped for longer than every timeout: the sponsor, the member that opens the slot, one in between, or a
  process that is about to join;
- *readers*: the application of a member does not read, for less or more than ``patience``;
- *crowds*: many processes ask at once, up to forty, and a member dies meanwhile.

During pauses and while a member does not read, another one leaves, or a process joins.

Everything promised is verified, times too: whatever a correct member hands in is delivered within the time that ``progress``
states, also while a member pauses or does not read. No member may stop but one that was stopped, or whose application was, and a
process that asks to be let in is let in.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Sequence
from random import Random
from typing import Any

from plainchant.core.model import MS, SECOND, Duration, ProcessId
from plainchant.core.names import place_of
from plainchant.protocols.rtcast import Parameters
from plainchant.protocols.rtcast.interface import CROWD, Interface
from plainchant.scenario.model import Delay, Fault, Network, RandomFaults, Scenario, Workload

from ..sweeping import Make
from . import sweep
from .sweep import GROUP

FAMILIES = ("media", "pauses", "readers", "crowds")
SIZES = (2, 3, 4, 5, 6, 8, 10, 12, 14, 16, 17, 20, 24, 28, 32)
MEDIA = ("shared", "switched", "plain")
SEEDS = 60
"""The ordinary sweep: families, sizes, media and r in turn. Large rings cost the most."""
SHORT = (0, 2, 3, 14, 16, 17, 19, 21, 22, 25, 27, 30, 32, 36, 40, 43, 45, 46, 49, 55, 59)
"""What ``make test`` has of it: every medium with every r, every family with either and with a ring of more than 16."""
BANDWIDTH = 10_000_000
PATIENCE = 200 * MS
SITUATIONS = (
    "more than 16 members",
    "long names",
    "shared",
    "switched",
    "the sponsor pauses",
    "the last member pauses",
    "a joiner pauses",
    "told when it wakes",
    "not reading",
    "reads again in time",
    "eight let in at once",
    "forty ask at one instant",
    "crash while a crowd joins",
    "comes back",
)
"""What has to occur."""


def family_of(seed: int) -> str:
    return FAMILIES[seed % len(FAMILIES)]


@dataclasses.dataclass(frozen=True)
class Outcome(sweep.Outcome):
    """A run, judged as the module's docstring says."""

    @property
    def violated(self) -> list[str]:
        stopped = {fault.process for fault in self.scenario.fault if fault.kind in ("pause", "sluggish")}
        late = [violation for violation in self.verification.violations if violation.property in sweep.TIMES]
        of_others = {one.property for one in late if not stopped.issuperset(map(place_of, one.processes))}
        # What a process gets before it is stopped it may deliver when it goes on.
        names = [name for name in self.broken() if name not in sweep.TIMES or name in of_others]
        crashed = [row for row in self.rows("crash") if row["detail"].get("by") != "fault"]
        if any(place_of(row["process"]) not in stopped for row in crashed):
            names.append("halted")
        if [row for row in self.rows("refused") if row["process"] not in stopped]:
            names.append("shut out")
        return names


def run(seed: int, variant: Make | None = None) -> Outcome:
    """Runs and verifies one seed, with the protocol or a variant of it."""
    found = sweep.run(seed, variant, scenario_of(seed))
    return Outcome(**{field.name: getattr(found, field.name) for field in dataclasses.fields(sweep.Outcome)})


def situations(outcome: Outcome) -> Counter[str]:
    """What happened in a run; each situation counts once."""
    scenario = outcome.scenario
    reasons = {row["detail"].get("reason") for row in outcome.rows("crash")}
    joined = [row["detail"].get("joined", []) for row in outcome.rows("view")]
    paused = [fault.process for fault in scenario.fault if fault.kind == "pause"]
    crashes = any(fault.kind == "crash" for fault in scenario.fault)
    found = {
        "more than 16 members": len(scenario.members) > 16,
        "long names": len(scenario.members[0]) > 8,
        "shared": scenario.network.shared,
        "switched": bool(scenario.network.bandwidth) and not scenario.network.shared,
        "the sponsor pauses": scenario.members[0] in paused,
        "the last member pauses": scenario.members[-1] in paused,
        "a joiner pauses": bool(set(scenario.later) & set(paused)),
        "told when it wakes": bool(paused) and "eliminated" in reasons,
        "not reading": "not reading" in reasons,
        "reads again in time": family_of(outcome.seed) == "readers" and "not reading" not in reasons,
        "eight let in at once": any(len(names) >= 8 for names in joined),
        "forty ask at one instant": len(scenario.later) == CROWD,
        "crash while a crowd joins": family_of(outcome.seed) == "crowds" and crashes,
        "comes back": any("#" in name for names in joined for name in names),
    }
    return Counter([name for name, occurs in found.items() if occurs])


# --- from a seed to a scenario ----------------------------------------------------------------------------------------


def scenario_of(seed: int) -> Scenario:
    """The scenario of a seed: families, sizes, media and r take turns, so that few seeds have many pairs of them."""
    random = Random(f"rtcast alive {seed}")
    family = family_of(seed)
    size = SIZES[seed % len(SIZES)] if family != "crowds" else random.choice(SIZES[1:11])
    medium = MEDIA[seed // len(FAMILIES) % len(MEDIA)]
    retransmissions = seed // (len(FAMILIES) * len(MEDIA)) % 4
    name = random.choice(("p{:02}", "p{:02}", "station-{:04}"))
    members = tuple(name.format(number) for number in range(size))
    crowd = random.choice((4, 8, 16, CROWD)) if family == "crowds" else 2
    if crowd < CROWD:
        crowd = min(32 - size, crowd)
    later = tuple(name.replace("{", "q{").format(number) for number in range(crowd)) if size < 32 else ()
    parameters = _parameters(random, retransmissions, medium)
    ring = (*members, *later)
    needed = Interface(Parameters(**parameters), GROUP).least_hold(ring)  # the ring's own packets may take more than 4 ms
    parameters["hold"] = Duration(max(4 * MS, needed + MS))
    declared = Parameters(**parameters)
    interface = Interface(declared, GROUP)
    rotation = interface.rotation(ring, [interface.hold(process) for process in ring])
    apart = (3 + retransmissions) * rotation + interface.timeout(ring)
    begins = 600 * MS
    faults = _faults(random, family, members, later, begins, apart, retransmissions)
    if family in ("pauses", "readers"):
        faults += _come_and_go(Random(f"rtcast alive, others {seed}"), members, later, faults)
    ends = max((int(fault.at) + int(fault.length) for fault in faults), default=begins)
    # Small rings have turns that are full: a process that wakes up with messages to send is in the way of such a turn.
    rates = (3.0, 10.0) if size > 8 else (10.0, 40.0)
    return Scenario(
        protocol="rtcast",
        name=f"rtcast-alive-{seed}",
        about=f"{family}, {size} members, {medium}, r = {retransmissions}",
        seed=seed,
        duration=Duration(ends + apart),
        drain=Duration(6 * SECOND),
        members=members,
        later=later,
        groups={GROUP: members},
        parameters=parameters,
        network=_network(random, medium, declared),
        workload=(Workload(rate=random.choice(rates), size=random.choice((20, 300, 1300)), arrivals="poisson"),),
        fault=faults,
        random=RandomFaults(restart_halted=1.0, restart_after=Duration(50 * MS)) if family == "pauses" else RandomFaults(),
    )


def _parameters(random: Random, retransmissions: int, medium: str) -> dict[str, Any]:
    return {
        "retransmissions": retransmissions,
        "admission": random.random() < 0.5,
        "clocks": random.choice(("assumed", "synchronised", "none")),
        "clock_every": Duration(60 * MS),
        "clock_precision": Duration(3 * MS),
        "heartbeats": random.choice((1, 2, 4)),
        "patience": Duration(PATIENCE),
        "gather": Duration(SECOND),
        "header": 128 if medium == "shared" and random.random() < 0.5 else 64,
    }


def _network(random: Random, medium: str, declared: Parameters) -> Network:
    largest = int(declared.delay_max)
    near = Delay("constant", Duration(largest * 95 // 100))
    if medium == "plain":
        return Network(delay=Delay("uniform", Duration(largest // 10), Duration(largest)), duplicate=random.choice((0.0, 0.05)))
    delay = random.choice((near, Delay("uniform", Duration(largest // 10), near.low)))
    header = declared.header - 64
    return Network(delay=delay, bandwidth=BANDWIDTH, shared=medium == "shared", wire=True, header=header)


def _come_and_go(
    random: Random, members: Sequence[ProcessId], later: Sequence[ProcessId], faults: Sequence[Fault]
) -> tuple[Fault, ...]:
    """A member that nothing else happens to leaves, or a process joins, while another one is stopped or does not read."""
    touched = {fault.process for fault in faults}
    stop = max(faults, key=lambda fault: fault.length)
    at = Duration(stop.at + random.randrange(stop.length))
    leaving = [name for name in members if name not in touched]
    joining = [name for name in later if name not in touched]
    if len(leaving) > 2 and random.random() < 0.5:
        return (Fault(kind="leave", at=at, process=random.choice(leaving)),)
    return (Fault(kind="join", at=at, process=joining[0], group=GROUP),) if joining else ()


def _faults(
    random: Random,
    family: str,
    members: Sequence[ProcessId],
    later: Sequence[ProcessId],
    begins: int,
    apart: int,
    retransmissions: int,
) -> tuple[Fault, ...]:
    at = Duration(begins)
    chosen = random.choice((members[0], members[-1], random.choice(members)))
    joins = [Fault(kind="join", at=at, process=process) for process in later]
    if family == "media":
        half = retransmissions > 0 and random.random() < 0.5
        found = [Fault(kind="crash", at=at, process=chosen, mid_broadcast=half)]
        found.append(Fault(kind="restart", at=Duration(begins + apart), process=chosen))
        found += [dataclasses.replace(join, at=Duration(begins + 2 * apart)) for join in joins]
        if len(members) > 3:
            leaver = random.choice([process for process in members if process != chosen])
            found.append(Fault(kind="leave", at=Duration(begins + 3 * apart), process=leaver))
        return tuple(found)
    if family == "pauses":
        length = Duration(random.choice((2 * apart, SECOND + apart)))
        if later and random.random() < 0.4:
            shortly = Duration(begins + random.randrange(2 * MS, 60 * MS))
            return (*joins[:1], Fault(kind="pause", at=shortly, process=later[0], length=length))
        return (Fault(kind="pause", at=at, process=chosen, length=length), *joins[:1])
    if family == "readers":
        length = Duration(random.choice((PATIENCE // 2, 3 * PATIENCE)))
        return (Fault(kind="sluggish", at=at, process=chosen, length=length, count=random.choice((1, 5))),)
    crash = Fault(kind="crash", at=Duration(begins + random.randrange(4 * MS, 2 * apart)), process=chosen)
    return (*joins, crash)
