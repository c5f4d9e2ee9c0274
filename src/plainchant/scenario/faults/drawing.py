"""Draws faults from the seed: rates become a schedule of ordinary faults, before the run begins.

Drawn in advance, the schedule can be listed, written into a scenario file and shrunk. A process is *lost* while it is crashed,
gone, paused or partitioned; the schedule never loses more than ``most_lost`` processes at once, and leaves out a fault that
would. A partition loses every process outside its largest part, a one-way cut loses its source, and a process that leaves is lost
until it is back.

Members that are ``steady`` are never lost: a fault that would lose one is left out, too.

Where processes are on nodes, at least ``keep_nodes`` nodes always have a process that is not lost. Processes that are lost with
their node do not count for ``most_lost``; those of a processor that crashes do. Each comes back separately.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from random import Random
from typing import Any, Final

from ...core.model import MS, SECOND, Duration
from ...protocols.registry import Description
from ..model import Fault, RandomFaults, Scenario

_KINDS: Final = (
    *("crash", "pause", "partition", "cut", "clog", "leave", "step", "omit"),
    *("module", "slow", "node", "processor", "lan", "sluggish", "busy", "disk"),
)
_FOREVER: Final = 1 << 62
_CLOG: Final = 20 * MS  # mean delay that a slow link adds
_SHARES: Final = (0.5, 0.75, 0.9)  # shares of the time for which a busy process is stopped
_ROOM: Final = 4096  # bytes; a full disk has room for fewer than this: some blocks of a trace, or a part of one


@dataclasses.dataclass(frozen=True, slots=True)
class Units:
    """What can fail besides processes: the nodes and processors of members, and networks."""

    nodes: Mapping[str, str] = dataclasses.field(default_factory=dict)  # the node of each member; empty where there are no nodes
    processors: Mapping[str, str] = dataclasses.field(default_factory=dict)
    lans: int = 1


def schedule_of(scenario: Scenario, description: Description, parameters: Any) -> tuple[Fault, ...]:
    """All faults of a scenario: its own, then those drawn from its seed."""
    random, placement = Random(f"{scenario.seed}/faults/drawn"), description.placement
    node_of, processor_of = placement.node_of, placement.processor_of
    members = scenario.members if node_of is not None else ()
    nodes = {name: node_of(parameters, name) for name in members} if node_of is not None else {}
    units = Units(nodes, {name: processor_of(parameters, name) for name in members}, placement.lans(parameters))
    return (*scenario.fault, *draw_faults(scenario, random, placement.copies(parameters), units))


_NOTHING: Final = Units()


def draw_faults(scenario: Scenario, random: Random, copies: int = 0, units: Units = _NOTHING) -> tuple[Fault, ...]:
    """The random faults of a scenario, in order of time; ``copies`` is the number of memory modules, of each node."""
    rates = scenario.random
    moments: list[tuple[int, str]] = []
    for kind in _KINDS:
        rate = getattr(rates, kind)
        time = 0.0
        while rate:
            time += random.expovariate(rate) * SECOND
            if time >= scenario.duration:
                break
            moments.append((int(time), kind))
    drawn = _Schedule(scenario, random, copies, units)
    for time, kind in sorted(moments):
        drawn.add(time, kind)
    # A process that would come back after the time of faults does not.
    within = [fault for fault in drawn.faults if fault.at < scenario.duration]
    return tuple(sorted(within, key=lambda fault: fault.at))


@dataclasses.dataclass(slots=True)
class _Absence:
    """A process is lost from ``start`` until ``end``."""

    process: str
    start: int
    end: int
    counts: bool = True  # for `most_lost`


class _Schedule:
    """Adds faults one by one, in order of time, as long as not too many processes are lost."""

    def __init__(self, scenario: Scenario, random: Random, copies: int, units: Units) -> None:
        self.faults: list[Fault] = []
        self._members = scenario.members
        self._rates: RandomFaults = scenario.random
        self._random = random
        self._copies = copies
        self._scheduled = scenario.fault
        self._limit = self._rates.most_lost or (len(self._members) - 1) // 2
        self._units = units
        self._absences = _scheduled_absences(scenario.fault, self._members, units)

    def add(self, time: int, kind: str) -> None:
        present = [name for name in self._members if not self._lost_during(name, time, time)]
        if len(present) > 1:
            getattr(self, f"_{kind}")(Duration(time), present)

    def _crash(self, time: Duration, present: list[str]) -> None:
        process = self._random.choice(present)
        middle = self._random.random() < 0.5
        back = self._perhaps_back(time)
        if self._lose([process], time, back):
            self.faults.append(Fault("crash", time, process, mid_broadcast=middle))
            self._come_back(process, back)

    def _leave(self, time: Duration, present: list[str]) -> None:
        process = self._random.choice(present)
        back = time + self._length(self._rates.restart_after)
        if self._lose([process], time, back):
            self.faults.append(Fault("leave", time, process))
            self._come_back(process, back)

    def _pause(self, time: Duration, present: list[str]) -> None:
        process = self._random.choice(present)
        length = self._length(self._rates.pause_length)
        if self._lose([process], time, time + length):
            self.faults.append(Fault("pause", time, process, length=length))

    def _partition(self, time: Duration, present: list[str]) -> None:
        count = min(self._random.choice((2, 2, 3)), len(self._members))
        shuffled = self._random.sample(self._members, len(self._members))
        cut_off = self._random.randint(count - 1, max(count - 1, self._limit))
        rest = shuffled[:cut_off]
        parts = [shuffled[cut_off:], *(rest[number :: count - 1] for number in range(count - 1))]
        length = self._length(self._rates.network_length)
        if self._lose(rest, time, time + length):
            ordered = tuple(tuple(name for name in self._members if name in part) for part in parts if part)
            self.faults.append(Fault(kind="partition", at=time, parts=ordered, length=length))

    def _cut(self, time: Duration, present: list[str]) -> None:
        source, target = self._random.sample(present, 2)
        length = self._length(self._rates.network_length)
        if self._lose([source], time, time + length):
            self.faults.append(Fault(kind="cut", at=time, source=source, target=target, length=length))

    def _clog(self, time: Duration, present: list[str]) -> None:
        source, target = self._random.sample(present, 2)
        delay = self._length(Duration(_CLOG))
        length = self._length(self._rates.network_length)
        self.faults.append(Fault(kind="clog", at=time, source=source, target=target, delay=delay, length=length))

    def _step(self, time: Duration, present: list[str]) -> None:
        offset = self._random.randint(-self._rates.step_most, self._rates.step_most)
        process = self._random.choice(present)
        # Where clocks are compared, a clock that was set is wrong from then on.
        if not self._copies or self._units.nodes or self._lose([process], time, _FOREVER):
            self.faults.append(Fault(kind="step", at=time, process=process, offset=offset))

    def _omit(self, time: Duration, present: list[str]) -> None:
        process = self._random.choice(present)
        count = self._random.randint(1, self._rates.omit_most)
        self.faults.append(Fault(kind="omit", at=time, process=process, packet=self._rates.omit_packet, count=count))

    def _module(self, time: Duration, present: list[str]) -> None:
        nodes = list(dict.fromkeys(self._units.nodes.values()))
        crashed = [fault for fault in (*self._scheduled, *self.faults) if fault.kind == "module"]
        node = self._random.choice(nodes) if nodes else ""
        # With a single node, a fault need not name it.
        gone = {fault.module for fault in crashed if fault.node in ("", node)}
        left = [number for number in range(1, self._copies + 1) if number not in gone]
        if len(left) > 1:
            self.faults.append(Fault(kind="module", at=time, module=self._random.choice(left), node=node))

    def _node(self, time: Duration, present: list[str]) -> None:
        node = self._random.choice(list(dict.fromkeys(self._units.nodes[name] for name in present)))
        self._crash_unit(time, [name for name in present if self._units.nodes[name] == node], Fault("node", time, node=node))

    def _processor(self, time: Duration, present: list[str]) -> None:
        processor = self._units.processors[self._random.choice(present)]
        processes = [name for name in present if self._units.processors[name] == processor]
        self._crash_unit(time, processes, Fault("processor", time, processor=processor))

    def _crash_unit(self, time: Duration, processes: list[str], fault: Fault) -> None:
        """Crashes a node or a processor; its processes come back one by one."""
        back = {name: self._perhaps_back(time) for name in processes}
        if self._lose(processes, time, max(back.values()), counts=fault.kind != "node"):
            for absence in self._absences[-len(processes) :]:
                absence.end = back[absence.process]
            self.faults.append(fault)
            for name in processes:
                self._come_back(name, back[name])

    def _lan(self, time: Duration, present: list[str]) -> None:
        length = self._length(self._rates.network_length)
        lans = range(1, self._units.lans + 1)
        down = [lan for lan in lans if self._is_down(lan, time, time + length)]
        if len(down) + 1 < len(lans):
            lan = self._random.choice([lan for lan in lans if lan not in down])
            self.faults.append(Fault(kind="lan", at=time, lan=lan, length=length))

    def _is_down(self, lan: int, start: int, end: int) -> bool:
        """Whether a network is down at some time in this interval; heals are not taken into account."""
        return any(
            fault.kind == "lan" and fault.lan == lan and fault.at < end and (not fault.length or start < fault.at + fault.length)
            for fault in (*self._scheduled, *self.faults)
        )

    def _sluggish(self, time: Duration, present: list[str]) -> None:
        length = self._length(self._rates.sluggish_length)
        self.faults.append(Fault(kind="sluggish", at=time, process=self._random.choice(present), length=length))

    def _busy(self, time: Duration, present: list[str]) -> None:
        process = self._random.choice(present)
        length = self._length(self._rates.busy_length)
        share = self._random.choice(_SHARES)
        # Where processes have deadlines on shared memory, one that is this slow misses them.
        if not self._copies or self._units.nodes or self._lose([process], time, time + length):
            self.faults.append(Fault(kind="busy", at=time, process=process, length=length, rate=share))

    def _disk(self, time: Duration, present: list[str]) -> None:
        process = self._random.choice(present)
        back = self._perhaps_back(time)
        if self._lose([process], time, back):
            self.faults.append(Fault("disk", time, process, room=self._random.randrange(_ROOM)))
            self._come_back(process, back)

    def _slow(self, time: Duration, present: list[str]) -> None:
        process = self._random.choice(present)
        length = self._length(self._rates.slow_length)
        if self._lose([process], time, time + length):
            delay = self._length(self._rates.slow_delay)
            self.faults.append(Fault(kind="slow", at=time, process=process, delay=delay, length=length))

    def _come_back(self, process: str, back: int) -> None:
        if back != _FOREVER:
            self.faults.append(Fault(kind="restart", at=Duration(back), process=process))

    def _perhaps_back(self, time: int) -> int:
        """When a process that is lost at a time comes back, if it does."""
        return time + self._length(self._rates.restart_after) if self._random.random() < self._rates.restart else _FOREVER

    def _length(self, mean: Duration) -> Duration:
        return Duration(1 + int(self._random.expovariate(1 / max(mean, 1))))

    def _lose(self, processes: list[str], start: int, end: int, *, counts: bool = True) -> bool:
        """Notes absences if the limits allow them at every instant from start to end; ``counts``: for ``most_lost``."""
        if any(name in self._rates.steady or self._lost_during(name, start, end) for name in processes):
            return False
        # The number of lost processes is highest at the start of some absence.
        instants = [start] + [absence.start for absence in self._absences if start < absence.start < end]
        for instant in instants:
            there = [absence for absence in self._absences if absence.start <= instant < absence.end]
            lost = {absence.process for absence in there if absence.counts}.union(processes)
            too_many = counts and len(lost) > self._limit
            if too_many or not self._keeps_nodes({absence.process for absence in there}.union(processes)):
                return False
        self._absences += [_Absence(name, start, end, counts) for name in processes]
        return True

    def _keeps_nodes(self, lost: set[str]) -> bool:
        nodes = self._units.nodes
        return not nodes or len({nodes[name] for name in self._members if name not in lost}) >= self._rates.keep_nodes

    def _lost_during(self, process: str, start: int, end: int) -> bool:
        return any(a.process == process and a.start <= end and start < a.end for a in self._absences)


def _scheduled_absences(faults: tuple[Fault, ...], members: tuple[str, ...], units: Units) -> list[_Absence]:
    """The absences that the scenario's own faults cause."""
    absences: list[_Absence] = []
    cut_off: list[_Absence] = []  # absences that a heal ends
    for fault in sorted(faults, key=lambda fault: fault.at):
        end = fault.at + fault.length if fault.length else _FOREVER
        if fault.kind in ("crash", "leave", "disk"):
            absences.append(_Absence(fault.process, fault.at, _FOREVER))
        elif fault.kind == "node":
            absences += [_Absence(name, fault.at, _FOREVER, counts=False) for name in members if units.nodes[name] == fault.node]
        elif fault.kind == "processor":
            absences += [_Absence(name, fault.at, _FOREVER) for name in members if units.processors[name] == fault.processor]
        elif fault.kind in ("pause", "slow"):
            absences.append(_Absence(fault.process, fault.at, end))
        elif fault.kind == "cut" and fault.source:
            cut_off.append(_Absence(fault.source, fault.at, end))
        elif fault.kind == "partition" and fault.parts:
            # A process that is in no part is alone.
            connected = max(fault.parts, key=len)
            cut_off += [_Absence(name, fault.at, end) for name in members if name not in connected]
        elif fault.kind == "heal":
            for absence in cut_off:
                absence.end = min(absence.end, fault.at)
        elif fault.kind in ("restart", "join"):
            for absence in absences:
                if absence.process == fault.process and absence.end == _FOREVER:
                    absence.end = fault.at
    return absences + cut_off
