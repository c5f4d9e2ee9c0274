"""The sweep of regimes in which groups once stood still: long pauses, readers that stop, circles of cuts, long ways, much loss.

It goes on where ``membership_sweep`` ends, with its checks, and with times as short as there. ``progress`` judges how long
everything takes, for round trips for which it is stated (``FARTHEST``). One more check:

- *cost*: where packets are lost and one process crashes, no other process halts; nor does any where the way is long only.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from random import Random

import pyarrow.compute as pc

from plainchant.core.model import SECOND, Duration, GroupId, ProcessId
from plainchant.protocols.newtop.parameters import FARTHEST
from plainchant.scenario.model import Delay, Fault, Network, Scenario

from .. import sweeping
from ..sweeping import Make, ms
from . import membership_sweep
from .membership_sweep import KINDS, OMEGA, Schedule, draw_groups, draw_parameters, draw_workload

REGIMES = ("pauses", "readers", "circles", "far", "loss")
SEEDS = 5 * 7 * 6
"""Each kind of order with each regime, six times."""
SHORT = (*range(5 * 7 * 3), 111, 212)
"""In ``make test``, three times; and two runs that abandon calls, which is seldom."""
LARGE = 0.04
"""Share of runs with a large group."""
SITUATIONS = (
    "asked for a sign of life",
    "suspicions repeated",
    "does not read",
    "abandons a call",
    "parts take their time",
    "suspected by another",
    "refutes",
    "calls",
    "plan of 2 parts",
    "member leaves",
    "lets joiners in",
)
"""What has to happen in it."""


@dataclasses.dataclass(frozen=True)
class Outcome(membership_sweep.Outcome):
    """What a run of the sweep came to."""

    @property
    def violated(self) -> list[str]:
        names = super().violated
        if self._costs_no_member and self.halts():
            names.append("cost")
        if round_trip(self.scenario) > FARTHEST * OMEGA:
            names = [name for name in names if name != "progress"]
        return names

    @property
    def _costs_no_member(self) -> bool:
        """One process crashes, or none, and the network stays whole."""
        harmless = regime_of(self.seed) == "far" and all(fault.kind in ("join", "leave") for fault in self.scenario.fault)
        return harmless or regime_of(self.seed) == "loss"

    def _halted(self) -> list[str]:
        readers = {fault.process for fault in self.scenario.fault if fault.kind == "sluggish"}
        return [reason for process, reason in self.halts().items() if not (reason == "not reading" and process in readers)]

    def halts(self) -> dict[ProcessId, str]:
        """Processes that the protocol stopped, and why. A minority may halt, except where one crash leaves a majority."""
        rows = self.table.filter(pc.equal(self.table["kind"], "crash"))
        details = {
            process: json.loads(text)
            for process, text in zip(rows["process"].to_pylist(), rows["detail"].to_pylist(), strict=True)
        }
        excused = {"no group", "nobody agreed"}
        if self._only_a_majority and not self._costs_no_member:
            excused.add("minority")
        return {
            process: detail["reason"]
            for process, detail in details.items()
            if detail.get("by") != "fault" and detail["reason"] not in excused
        }


def run(seed: int, variant: Make | None = None, scenario: Scenario | None = None) -> Outcome:
    found = sweeping.run_and_verify(seed, scenario or scenario_of(seed), variant, 0)
    fields = {field.name: getattr(found, field.name) for field in dataclasses.fields(sweeping.Outcome)}
    return Outcome(**fields)


def regime_of(seed: int) -> str:
    return REGIMES[seed // len(KINDS) % len(REGIMES)]


def about(seed: int) -> str:
    return f"{KINDS[seed % len(KINDS)]}, {regime_of(seed)}"


def scenario_of(seed: int) -> Scenario:
    """The scenario of a seed."""
    random = Random(f"newtop alive {seed}")
    regime = regime_of(seed)
    members = tuple(f"p{number + 1}" for number in range(_size(random, regime)))
    groups = draw_groups(random, members) if len(members) < 8 else {"g1": members}
    if regime == "loss":  # one crash in a group of two may cost its majority
        groups = {group: names if len(names) > 2 else members for group, names in groups.items()}
    duration = ms(1400, 2000, random) if regime == "readers" else ms(300, 600, random)
    later = ("q1",)[: random.choice((0, 1))]
    faults = _Regime(random, members, later, groups, duration).of(regime)
    parameters = draw_parameters(random, KINDS[seed % len(KINDS)], groups, faults)
    if regime == "loss":
        parameters |= {"partitions": "majority", "suspect_after": Duration(2 * OMEGA)}
    if regime == "readers":  # else there is room for all that is sent
        parameters["blocks"] = random.choice((3, 4, 8))
    return Scenario(
        protocol="newtop",
        name=f"alive-{seed}",
        about=about(seed),
        seed=seed,
        duration=duration,
        drain=Duration(8 * SECOND),
        members=members,
        later=later,
        groups=groups,
        parameters=parameters,
        network=_network(random, regime),
        workload=draw_workload(random, groups, duration, 20),
        fault=faults,
    )


def round_trip(scenario: Scenario) -> int:
    return 2 * int(scenario.network.delay.low)


def _size(random: Random, regime: str) -> int:
    if random.random() < LARGE:
        return random.randint(20, 40)
    return random.choice((3, 4, 5)) if regime in ("loss", "circles") else random.choice((2, 3, 3, 4, 5))


def _network(random: Random, regime: str) -> Network:
    if regime == "far":
        is_farther = random.random() < 0.5
        way = random.uniform(FARTHEST / 2, 5.0) if is_farther else random.triangular(0.15, FARTHEST / 2, 0.15)
        delay = Delay("constant", Duration(round(OMEGA * way)))
        return Network(delay=delay, loss=random.choice((0.0, 0.1, 0.3) if is_farther else (0.0, 0.0, 0.05)))
    loss = 0.3 if regime == "loss" else random.choice((0.0, 0.0, 0.05))
    return Network(delay=Delay("uniform", Duration(100_000), Duration(500_000)), loss=loss)


class _Regime(Schedule):
    """Draws the faults of a scenario. Members come and go meanwhile."""

    def __init__(
        self,
        random: Random,
        members: Sequence[ProcessId],
        later: Sequence[ProcessId],
        groups: Mapping[GroupId, Sequence[ProcessId]],
        duration: Duration,
    ) -> None:
        super().__init__(random, members, later, groups, duration)
        self._left: set[ProcessId] = set()

    def of(self, trouble: str) -> tuple[Fault, ...]:
        getattr(self, trouble)(self._moment(0.05, 0.3))
        if trouble != "loss":
            self._come_and_go(self._moment(0.1, 0.5))
        last = self.duration - 1
        faults = [dataclasses.replace(fault, at=Duration(min(fault.at, last))) for fault in self.faults]
        return tuple(sorted(faults, key=lambda fault: fault.at))

    def _come_and_go(self, at: int) -> None:
        if self.random.random() < 0.4:
            self.add("leave", at, process=self.random.choice(self.members))
        self._newcomers(self._soon(at))

    def pauses(self, at: int) -> None:
        """Longer than every timeout, of several members in turn."""
        when: int = at
        for process in self.random.sample(self.members, min(len(self.members), self.random.choice((1, 2, 3)))):
            length = self._length(3, 14)
            self.add("pause", when, process=process, length=length)
            when = round(when + length * self.random.uniform(0.2, 1.2))

    def readers(self, at: int) -> None:
        """For less and for more than ``patience``."""
        for process in self.random.sample(self.members, min(len(self.members) - 1, self.random.choice((1, 1, 2)))):
            length, count = self._length(2, 90), self.random.choice((1, 3, 10))
            self.add("sluggish", self._soon(at, 3), process=process, length=length, count=count)

    def circles(self, at: int) -> None:
        """No member hears the one before it in a circle of all or some of them."""
        circle = self.random.sample(self.members, self.random.randint(2, len(self.members)))
        length = self._length(1.2, 20)
        for source, target in zip(circle, (*circle[1:], circle[0]), strict=True):
            self.add("cut", at, source=source, target=target, length=length)

    def far(self, at: int) -> None:
        """The way is long already."""
        self.random.choice((self.crashes, self.partitions, self._come_and_go))(at)

    def loss(self, at: int) -> None:
        """One crash, where much is lost already."""
        self.add("crash", at, process=self.random.choice(self.members), mid_broadcast=self.random.random() < 0.5)
