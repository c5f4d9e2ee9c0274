"""Runs of the clock layer in the simulator, without a ring: views come by a script, and every clock is looked at at every event.

A seed decides the clocks (offset, drift), the network (delays that vary, other ones back than forth, loss, duplicates) and what
goes wrong: steps, slow links, pauses, the master's crash, its return as a joiner with the smallest id.
"""

from __future__ import annotations

import dataclasses
import json
from random import Random
from statistics import median
from typing import Any

from plainchant.core.engine import Engine, Host, PerGroup
from plainchant.core.model import MS, SECOND, US, Duration, Form, GroupId, Join, Packet, ProcessId, Propose, Timer, View
from plainchant.protocols.registry import Description
from plainchant.protocols.rtcast.clocks import CLOCK_PACKETS, ClockSync
from plainchant.protocols.rtcast.parameters import Parameters
from plainchant.scenario.model import Clock, Delay, Fault, LinkOverride, Network, Scenario
from plainchant.sim import Simulation
from plainchant.trace import TraceBuffer

GROUP = "g"
DRIFTS = (0.001, 0.001, 0.00001)
PRECISION = 2 * MS
TICK = 20 * MS
LAG = 15 * MS
"""How much later than the first a member may install a view."""


@dataclasses.dataclass(frozen=True)
class Course:
    """What happens in a run, as far as the simulator does not know it: the views after the first."""

    scenario: Scenario
    views: tuple[tuple[int, View], ...]
    situations: frozenset[str]


@dataclasses.dataclass
class Outcome:
    """What was seen: bounds that did not hold, each as a sentence; how large errors were against what they bound."""

    violations: list[str]
    ratios: list[float]
    looks: int = 0
    known: int = 0
    rows: list[dict[str, Any]] = dataclasses.field(default_factory=list)

    @property
    def typical_ratio(self) -> float:
        """The median of error against actual distance from the master."""
        return median(self.ratios)


class Script(Engine):
    """Installs the views of a course, each a little later at some than at others, and ticks."""

    def __init__(self, host: Host, course: Course, observer: Observer) -> None:
        self.host = host
        self.course = course
        self.observer = observer

    def join(self, group: GroupId, how: Form | Join | Propose) -> None:
        if isinstance(how, Form):
            self.host.install(View(group, 1, how.members))
        for at, view in self.course.views:
            if self.host.me in view.members:
                self.host.set_timer(f"view {view.number}", at + self.host.random.randrange(LAG))
        self.host.set_timer("tick", self.host.now + TICK)

    def expire(self, timer: Timer) -> None:
        if timer == "tick":
            self.host.set_timer("tick", self.host.now + TICK)
        else:
            self.host.install(next(view for _, view in self.course.views if f"view {view.number}" == timer))

    def receive(self, source: ProcessId, packet: Packet) -> None:
        raise AssertionError(f"{packet} should not have come through")


class Observer:
    """Looks at all clocks of a simulation whenever anything has happened."""

    def __init__(self) -> None:
        self.outcome = Outcome([], [])
        self.layers: dict[ProcessId, ClockSync] = {}
        self.simulation: Simulation | None = None
        self._last: dict[ProcessId, int] = {}

    def look(self, me: ProcessId) -> None:
        assert self.simulation is not None
        seen: dict[ProcessId, tuple[int, int]] = {}
        for host in self.simulation.hosts:
            layer = self.layers[host.me]

            def sample(name: ProcessId = host.me, layer: ClockSync = layer) -> None:
                self.outcome.looks += 1
                clock, error = layer.clock(), layer.error()
                if error is not None:
                    seen[name] = clock, error

            if host.me == me:
                sample()
            elif host.alive and host.entered and not host.processor.paused_until and not host.inside:
                host.turn(sample)
            if host.me not in seen:
                self._last.pop(host.me, None)
        self.outcome.known += len(seen)
        self._judge(seen, self.layers[me].host.now)

    def _judge(self, seen: dict[ProcessId, tuple[int, int]], now: int) -> None:
        outcome = self.outcome
        names = sorted(seen)
        for index, one in enumerate(names):
            clock, error = seen[one]
            if clock < self._last.get(one, clock):
                outcome.violations.append(f"{now}: {one} went back by {self._last[one] - clock}")
            self._last[one] = clock
            for other in names[index + 1 :]:
                apart = abs(clock - seen[other][0])
                allowed = error + seen[other][1]
                if apart > allowed:
                    outcome.violations.append(f"{now}: {one} and {other} are {apart} apart, and say {allowed}")
                if index == 0 and apart:
                    outcome.ratios.append(allowed / apart)


def run(course: Course) -> Outcome:
    """Runs a course with the clock layer."""
    observer = Observer()

    class Watched(ClockSync):
        def receive(self, source: ProcessId, packet: Packet) -> None:
            super().receive(source, packet)
            observer.look(self.me)

        def expire(self, timer: Timer) -> None:
            super().expire(timer)
            observer.look(self.me)

    def make(host: Host, parameters: Parameters) -> Engine:
        def one_group(host: Host, group: GroupId) -> Engine:
            layer = Watched(host, lambda inner: Script(inner, course, observer), group, parameters)
            observer.layers[host.me] = layer
            return layer

        return PerGroup(host, one_group)

    description = Description(
        name="clocks",
        paper="003",
        about="clocks alone",
        parameters=Parameters,
        packets=CLOCK_PACKETS,
        make=make,
        promises=lambda parameters, groups: (),
        faults=(),
        settle=lambda parameters: 1 * MS,
    )
    trace = TraceBuffer()
    observer.simulation = Simulation(course.scenario, trace=trace, description=description)
    observer.simulation.run()
    outcome = observer.outcome
    outcome.rows = [{**row, "detail": json.loads(row["detail"] or "{}")} for row in trace.table().to_pylist()]
    for row in outcome.rows:
        if row["detail"].get("why") == "contradiction":
            outcome.violations.append(f"{row['true_time']}: readings of {row['process']} contradict each other")
        if row["kind"] == "sync" and row["detail"]["round_trip"] > 2 * PRECISION:
            outcome.violations.append(f"{row['true_time']}: {row['process']} accepts {row['detail']['round_trip']}")
    return outcome


def course_of(seed: int) -> Course:
    """The course that a seed decides."""
    random = Random(f"clocks/{seed}")
    members = tuple(f"p{number}" for number in range(1, random.randint(3, 5) + 1))
    everybody = [*members]
    duration = 5 * SECOND
    situations: set[str] = set()
    faults: list[Fault] = []
    views: list[tuple[int, View]] = []
    drift = random.choice(DRIFTS)
    clocks = [
        Clock(name, random.randrange(-SECOND, SECOND), random.choice((-drift, drift, random.uniform(-drift, drift))))
        for name in members
    ]
    slow_back = random.random() < 0.5
    back = Delay("uniform", Duration(100 * US), Duration(random.randint(1, 6) * MS))
    links = tuple(LinkOverride(delay=back, source=name, target="p1") for name in members[1:]) if slow_back else ()
    network = Network(
        delay=Delay("exponential", Duration(50 * US), Duration(random.randint(2, 30) * 100 * US)),
        loss=random.choice((0.0, 0.05, 0.2)),
        duplicate=0.05,
        wire=True,
        link=links,
    )
    if random.random() < 0.5:
        for _ in range(random.randint(1, 4)):
            name = random.choice(("p1", *members))
            offset = random.choice((-1, 1)) * random.choice((300 * US, 5 * MS, 200 * MS, 40 * SECOND))
            faults.append(Fault("step", at=Duration(random.randrange(duration)), process=name, offset=offset))
            situations.add("master steps" if name == "p1" else "slave steps")
    if random.random() < 0.4:
        at, length = random.randrange(duration), random.randrange(200 * MS)
        name = random.choice(members)
        faults.append(Fault("pause", at=Duration(at), process=name, length=Duration(length)))
        situations.add("pause")
    if random.random() < 0.3:
        at, length = random.randrange(duration), random.randrange(900 * MS)
        name = random.choice(members)
        faults.append(Fault("clog", at=Duration(at), source=name, delay=Duration(3 * MS), length=Duration(length)))
        situations.add("slow links")
    if random.random() < 0.7:
        at = random.randrange(200 * MS, 2 * SECOND)
        faults.append(Fault("crash", at=Duration(at), process="p1"))
        everybody.remove("p1")
        views.append((at + 30 * MS, View(GROUP, 2, tuple(everybody))))
        situations.add("master crashes")
        if random.random() < 0.6:
            at += random.randrange(100 * MS, SECOND)
            faults.append(Fault("restart", at=Duration(at), process="p1"))
            everybody.insert(0, "p1#1")
            views.append((at + 40 * MS, View(GROUP, 3, tuple(everybody), joined=("p1#1",))))
            situations.add("joiner is master")
    scenario = Scenario(
        protocol="clocks",
        seed=seed,
        duration=Duration(duration),
        drain=Duration(0),
        members=members,
        groups={GROUP: members},
        parameters={"clock_drift": drift, "clock_precision": PRECISION, "clocks": "synchronised"},
        network=network,
        clock=tuple(clocks),
        fault=tuple(faults),
    )
    return Course(scenario, tuple(views), frozenset(situations))
