"""The fault sweep of dedos: from a seed to a scenario, and from a run to a verdict and its situations.

A seed decides the nodes, the processes on them, the groups, the boxes, the sizes, the load and the faults. Seeds fall into
families, which take turns; packets are lost, doubled and overtaken in all that have a network:

- *steady*: nothing else fails;
- *crashes*: processes and processors crash, at any event or in the middle of a multicast, and some come back;
- *boxes*: boxes crash, often one while its predecessor is being recovered, and processes meanwhile;
- *primitives*: processes and boxes crash right after a certain operation on a box;
- *nodes*: nodes crash, and some of their processes come back;
- *churn*: processes join, on new nodes too, leave, crash and come back;
- *pressure*: few elements, a short history, bursts, and applications that do not read, with crashes;
- *lans*: of two networks one crashes, and nodes and processes do;
- *pauses*: processes stop for so long that they are taken for crashed;
- *hung*: processes of every role hang for longer than every timeout, or their applications stop reading, while others join,
  leave and crash; between nodes and within one;
- *within*, *primitives within*: groups on one node (appendix C), with crashes of processes and boxes, joins and leaves.

In every run a node is left with a process that receives, a networked process and a box. Besides the promises, these are
verified:

- *halted*: nobody stops but who was made to, has no networked process left on its node, or was paused for long;
- *views*: those of all processes agree, but of those that crashed with everybody on their node (what they saw last nobody else
  needs to see), and stand in the order of the messages;
- *left over*: in the end no active mailbox holds a message that somebody has not read, and only who is alive has a place;
- *shut out*: who asks to be let in is let in, if the group has somebody left;
- *taken along*: what a process has read that leaves, those on its node read who stay;
- *not synchronised*: no synchronisation phase ends before all nodes have what there was when it began.
"""

from __future__ import annotations

import dataclasses
import json
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import cached_property, lru_cache
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from plainchant.core.engine import Engine, Host
from plainchant.core.memory import Operate
from plainchant.core.model import MS, SECOND, US, Duration, GroupId, Packet, ProcessId
from plainchant.core.names import is_place, place_of
from plainchant.lab.properties import verify
from plainchant.protocols.dedos import DESCRIPTION
from plainchant.protocols.dedos.box import is_restored
from plainchant.protocols.dedos.invariants import consecutive
from plainchant.protocols.dedos.packets import McRequest, Multicast, SyncInit
from plainchant.protocols.dedos.parameters import Parameters
from plainchant.protocols.dedos.places import is_networked, node_of
from plainchant.scenario.model import Clock, Delay, Fault, Memory, Network, Scenario, Workload
from plainchant.sim.host import SimHost
from plainchant.sim.memory import SimMemory
from plainchant.sim.scripted import Script, ScriptedSimulation
from plainchant.trace import TraceBuffer

from .. import sweeping
from ..sweeping import Make, ms

FAMILIES = (
    "steady",
    "crashes",
    "boxes",
    "primitives",
    "nodes",
    "churn",
    "pressure",
    "lans",
    "pauses",
    "within",
    "primitives within",
    "hung",
)
SEEDS = 96
"""The ordinary sweep: each family eight times."""
SHORT = (*range(36), 45, 49, 71, 78, 82, 92)
"""What ``make test`` has of it: each three times, and what comes to the situations that are rare."""
REGRESSIONS: tuple[int, ...] = (2420, 2816, 2864, 3030, 3104, 4615)
"""Seeds of runs that once went wrong; they are run however short the sweep is."""

SITUATIONS = (
    "relay replaced",
    "distributor replaced",
    "distributor gone before it began",
    "distributor gone in a synchronisation phase",
    "node crashed",
    "node back",
    "processor crashed",
    "all networked processes of a node crashed",
    "box crashed",
    "box crashed while recovering",
    "all boxes but one crashed",
    "synchronisation phase",
    "numbers void",
    "node fenced",
    "full for a message with a number",
    "full for a sender",
    "gap after recovery",
    "sender gone before its message had a number",
    "other network",
    "join",
    "join from a new node",
    "leave",
    "restart",
    "only sends",
    "serves only",
    "several groups",
    "pieces",
    "paused",
    "application does not read",
    "recovery within a node",
    "box crashed while recovering within a node",
    "leave within a node",
    "crash inside a primitive",
    "relay hung",
    "distributor hung",
    "member hung",
    "member hung within a node",
    "box crashed while a process hung",
    "joined while a process hung",
    "excluded",
    "application stopped reading",
)
"""What has to occur; see :func:`situations`."""

PRESENT_EVERY = 20 * MS
MISSES = 6
POLL = 8 * MS
SILENCE = MISSES * PRESENT_EVERY
"""A node that is silent for this long counts as crashed, a process of a node after half of it."""


# --- what is watched --------------------------------------------------------------------------------------------------


@dataclasses.dataclass
class Watched(sweeping.Watched):
    """What was sent over networks in one run, and how memory looked."""

    requested: dict[tuple[GroupId, ProcessId, int], int] = dataclasses.field(default_factory=dict)
    """When a message was sent to a distributor first: by group, sender and its own number of it."""
    numbered: dict[tuple[GroupId, ProcessId, int], int] = dataclasses.field(default_factory=dict)
    """When it was multicast first."""
    highest: dict[tuple[GroupId, int], int] = dataclasses.field(default_factory=dict)
    """The highest number that was multicast, by group and epoch."""
    phases: dict[tuple[GroupId, ProcessId], int] = dataclasses.field(default_factory=dict)
    """The last number when a synchronisation phase began, by group and distributor."""
    behind: list[str] = dataclasses.field(default_factory=list)
    """Nodes that did not have that when it ended."""
    found: dict[str, None] = dataclasses.field(default_factory=dict)
    """Situations that are not in the trace."""


class Watch(sweeping.Watch):
    """A layer around a process's engine that notes what relays and distributors say."""

    watched: Watched

    def send(self, to: Sequence[ProcessId], packet: Packet, lan: int = 0) -> None:
        now, watched = self.host.now, self.watched
        if isinstance(packet, McRequest):
            for element in packet.elements:
                watched.requested.setdefault((packet.group, element.sender, element.number), now)
        elif isinstance(packet, Multicast):
            for element in packet.elements:
                watched.numbered.setdefault((packet.group, element.sender, element.number), now)
            key = (packet.group, packet.epoch)
            watched.highest[key] = max(watched.highest.get(key, 0), packet.next - 1)
            if lan:
                watched.found["other network"] = None
        elif isinstance(packet, SyncInit) and not packet.start:
            earlier = [high for (group, epoch), high in watched.highest.items() if group == packet.group and epoch < packet.epoch]
            if max(earlier, default=0) >= packet.begin:
                watched.found["numbers void"] = None
        self.host.send(to, packet, lan)

    def record(self, kind: str, group: GroupId | None = None, **detail: Any) -> None:
        if kind == "sync" and group is not None:
            if detail["stage"] == "begin":
                self.watched.phases[group, self.me] = detail["last"]
            else:
                peers = self.inner.distributors[group].peers.values()  # type: ignore[attr-defined]
                last = self.watched.phases[group, self.me]
                behind = [peer for peer in peers if peer.next <= last]
                self.watched.behind += [f"{peer.node} has {group} up to {peer.next - 1} of {last}" for peer in behind]
        self.host.record(kind, group, **detail)


@dataclasses.dataclass(frozen=True)
class Outcome(sweeping.Outcome):
    """What a run of the sweep came to."""

    watched: Watched

    @property
    def violated(self) -> list[str]:
        """The promises that are not kept, and whatever else is wrong."""
        found: dict[str, Sequence[object]] = {
            "halted": self.halted(), "views": self.views(), "left over": self.watched.left_over, "shut out": self.shut_out(),
            "taken along": self.taken_along(), "not synchronised": self.watched.behind,
        }  # fmt: skip
        return [*super().violated, *(name for name, troubles in found.items() if troubles)]

    @cached_property
    def parameters(self) -> Parameters:
        return Parameters(**self.scenario.parameters)

    def rows(self, *kinds: str) -> list[dict[str, Any]]:
        """The rows of some kinds, in the order of time, with their details."""
        rows: list[dict[str, Any]] = self.table.filter(pc.is_in(self.table["kind"], pa.array(kinds))).to_pylist()
        for row in rows:
            row["detail"] = json.loads(row["detail"]) if row["detail"] else {}
        return sorted(rows, key=lambda row: (row["true_time"], row["process"], row["index"]))

    @cached_property
    def crashed(self) -> dict[ProcessId, int]:
        """Processes that crashed or halted, with the time."""
        return {row["process"]: row["true_time"] for row in self.rows("crash")}

    @cached_property
    def last_to_crash(self) -> set[ProcessId]:
        """Who crashed when the run was about to end: a script goes by operations, not by time. Nobody needs to have noticed."""
        crashes = [row for row in self.rows("crash") if row["detail"].get("by") == "fault"]
        return {row["process"] for row in crashes if row["true_time"] > self.scenario.duration}

    @cached_property
    def forgotten(self) -> set[ProcessId]:
        """Processes that crashed with all that were on their node then, whether at once or one after the other."""
        begun: dict[ProcessId, int] = {}
        for process, time in zip(self.table["process"].to_pylist(), self.table["true_time"].to_pylist(), strict=True):
            begun[process] = min(time, begun.get(process, time))
        faults = {row["process"]: row["true_time"] for row in self.rows("crash") if row["detail"].get("by") == "fault"}
        ends = {name: self.crashed.get(name, 1 << 62) for name in begun}
        return {
            process
            for process, at in faults.items()
            if all(
                ends[other] < 1 << 62
                for other in begun
                if begun[other] < at and node_of(self.parameters, other) == node_of(self.parameters, process)
            )
        }

    def halted(self) -> list[str]:
        """Processes that halted without an excuse: no fault that the protocol answers by halting hit them."""
        stopped = [row for row in self.rows("crash") if row["detail"].get("by") != "fault" and self._is_connected(row["process"])]
        return [f"{row['process']}: {row['detail']}" for row in stopped if row["detail"].get("reason") not in self._excuses(row)]

    def _excuses(self, row: dict[str, Any]) -> set[str]:
        """The reasons for which a process may have halted."""
        excuses = {"node crashed"}
        hung = {name: length for name, length in self.hung.items() if length > self.parameters.longest_silence - 3 * POLL}
        if row["process"] in hung:
            excuses.add("excluded")
        if any(self._is_alone(name) for name in hung):
            excuses.add("fenced")
        if self.unread.get(row["process"], 0) > self.parameters.patience:
            excuses.add("not-reading")
        return excuses

    @cached_property
    def hung(self) -> dict[ProcessId, int]:
        """Processes that were paused, with the longest pause of each."""
        return self._longest("pause")

    @cached_property
    def unread(self) -> dict[ProcessId, int]:
        """Processes whose applications did not read, with the longest time of each."""
        return self._longest("sluggish")

    def _longest(self, kind: str) -> dict[ProcessId, int]:
        found: dict[ProcessId, int] = {}
        for fault in self.scenario.fault:
            if fault.kind == kind:
                found[fault.process] = max(int(fault.length), found.get(fault.process, 0))
        return found

    def _is_alone(self, process: ProcessId) -> bool:
        """Whether a process that hung had no other networked process on its node to go on without it, or hardly any time."""
        node = node_of(self.parameters, process)
        alive = [name for name, end in self.summary.processes.items() if end.state == "alive" and name not in self.hung]
        others = [name for name in alive if name != process and node_of(self.parameters, name) == node]
        return not any(is_networked(self.parameters, name) for name in others)

    def _is_connected(self, process: ProcessId) -> bool:
        """Whether somebody on its node could relay for it in the end."""
        alive = [name for name, end in self.summary.processes.items() if end.state != "crashed"]
        node = node_of(self.parameters, process)
        return any(is_networked(self.parameters, name) and node_of(self.parameters, name) == node for name in alive)

    def shut_out(self) -> list[str]:
        """Who was not let in though somebody is in the group, and was before."""
        staying: dict[GroupId, int] = {}
        for row in self.rows("join"):
            if self.summary.processes[row["process"]].state == "alive":
                staying[row["group"]] = min(row["true_time"], staying.get(row["group"], 1 << 62))
        refused = [row for row in self.rows("refused") if self._is_connected(row["process"])]
        return [f"{row['process']}: {row['group']}" for row in refused if staying.get(row["group"], 1 << 62) < row["true_time"]]

    def taken_along(self) -> list[str]:
        """What somebody read who left, and somebody who stays on its node did not, though it was a member then."""
        delivered: dict[tuple[ProcessId, GroupId], dict[tuple[ProcessId, int], int]] = {}
        for row in self.rows("deliver"):
            delivered.setdefault((row["process"], row["group"]), {})[row["sender"], row["seq"]] = row["rank"]
        staying = [row for row in self.rows("join") if self.summary.processes[row["process"]].state == "alive"]
        found: list[str] = []
        for left in self.rows("leave"):
            node, group = node_of(self.parameters, left["process"]), left["group"]
            for row in staying:
                if row["group"] == group and node_of(self.parameters, row["process"]) == node and row["rank"] is not None:
                    has = delivered.get((row["process"], group), {})
                    for message, rank in delivered.get((left["process"], group), {}).items():
                        if rank > row["rank"] and message not in has:
                            found.append(f"{row['process']} has not read {message} of {group}, which {left['process']} has")
        return found

    def views(self) -> list[str]:
        """Where views of processes that stay differ, or are out of order."""
        found: list[str] = []
        known: dict[tuple[GroupId, int], tuple[ProcessId, tuple[ProcessId, ...]]] = {}
        new: dict[tuple[GroupId, int], tuple[ProcessId, tuple[ProcessId, ...]]] = {}
        spans: dict[GroupId, dict[ProcessId, list[int]]] = {}
        alive = {name for name, end in self.summary.processes.items() if end.state == "alive"}
        for (process, group), items in self.watched.order.items():
            ranks = [rank for rank, _ in items]
            if ranks != sorted(set(ranks)):
                batches = [rank for rank, view in items if view is not None]
                if ranks != sorted(ranks) or len(batches) != len(set(batches)):
                    found.append(f"{process} in {group}: out of order")
            views = [view for _, view in items if view is not None]
            for view in views if process not in self.forgotten else ():
                other, members = known.setdefault((group, view.number), (process, view.members))
                if members != view.members:
                    found.append(f"{group} {view.number}: {process} has {view.members}, {other} has {members}")
                if place_of(process) in self.parameters.senders:
                    continue  # all members are new to it in its first view
                other, joined = new.setdefault((group, view.number), (process, view.joined))
                if joined != view.joined:
                    found.append(f"{group} {view.number}: to {process} {view.joined} are new, to {other} {joined}")
            if process in alive and views:
                spans.setdefault(group, {})[process] = [view.number for view in views]
                if not set(views[-1].members) <= alive | self.last_to_crash:
                    found.append(f"{process} in {group} has {views[-1].members} in the end")
        for group, numbers in spans.items():
            longest = max(numbers.values(), key=len)
            found += [f"{process} in {group} misses views" for process, seen in numbers.items() if seen != longest[-len(seen) :]]
        return found


def run(seed: int, variant: Make | None = None, scenario: Scenario | None = None, script: Script | None = None) -> Outcome:
    """Runs and verifies one seed (or a scenario, with or without a script), with the protocol or a variant of it."""
    if scenario is None:
        scenario, script = course_of(seed)
    engine = variant or DESCRIPTION.make
    watched = Watched()

    def watching(host: Host, parameters: Any) -> Engine:
        return Watch(host, lambda inner: engine(inner, parameters), watched)

    def looking(host: SimHost, request: Operate, memory: SimMemory) -> None:
        if request.name == "present" and memory.working:
            copy = memory.server.mailboxes[request.mailbox].copies[min(memory.working) - 1]
            if is_restored(copy) and consecutive(copy):
                watched.found["gap after recovery"] = None

    trace = TraceBuffer()
    simulation = ScriptedSimulation(script, scenario, trace=trace, run=scenario.name or "scripted", make=watching, watch=looking)
    summary = simulation.run()
    table = trace.table()
    outcome = Outcome(seed, scenario, summary, table, verify(table), Counter(), watched)
    watched.left_over += _left_over(simulation, outcome.last_to_crash)
    return outcome


def _left_over(simulation: ScriptedSimulation, unnoticed: set[ProcessId]) -> list[str]:
    """What is in the memory at the end of a run and should not be."""
    alive = {host.me for host in simulation.hosts if host.alive}
    found = []
    for node, memory in simulation.memories.items():
        if not any(node == simulation.node_of(place_of(name)) for name in alive):
            continue
        for name, mailbox in memory.server.mailboxes.items():
            seated = [process for process in mailbox.places.values() if process not in alive | unnoticed]
            found += [f"{process} has a place in {name} on {node}" for process in seated]
            entries = mailbox.copies[min(memory.working) - 1].entries()
            found += [f"{name} on {node}: {entry}" for _, entry in entries if entry.listed & ~entry.done]
    return found


# --- situations -------------------------------------------------------------------------------------------------------


def situations(outcome: Outcome) -> Counter[str]:
    """What happened in a run; each situation counts once."""
    scenario, parameters = outcome.scenario, outcome.parameters
    found = dict.fromkeys(outcome.watched.found, True)
    found["only sends"] = bool(parameters.senders)
    found["serves only"] = any(all(name not in group for group in scenario.groups.values()) for name in scenario.members)
    found["several groups"] = len(scenario.groups) > 1
    found["pieces"] = any(workload.size > parameters.room for workload in scenario.workload)
    _fault_situations(outcome, found)
    _membership_situations(outcome, found)
    _order_situations(outcome, found)
    _box_situations(outcome, found)
    _hung_situations(outcome, found)
    return Counter([name for name, occurs in found.items() if occurs])


_BY_FAULT = {
    "pause": "paused", "sluggish": "application does not read", "node": "node crashed", "processor": "processor crashed",
    "restart": "restart", "leave": "leave",
}  # fmt: skip


def _fault_situations(outcome: Outcome, found: dict[str, bool]) -> None:
    for row in outcome.rows("fault", "crash"):
        detail = row["detail"]
        name = _BY_FAULT.get(detail.get("fault", ""))
        if name:
            found[name] = True
        for unit in ("node", "processor"):
            if row["kind"] == "crash" and detail.get(unit):
                found[f"{unit} crashed"] = True
        if row["kind"] == "crash" and "operation" in detail:
            found["crash inside a primitive"] = True
        if row["kind"] == "crash" and detail.get("reason") == "node crashed":
            found["all networked processes of a node crashed"] = True
    if outcome.parameters.reach == "node" and any(fault.kind == "leave" for fault in outcome.scenario.fault):
        found["leave within a node"] = found.get("leave", False)


def _membership_situations(outcome: Outcome, found: dict[str, bool]) -> None:
    parameters, first = outcome.parameters, outcome.scenario.members
    nodes = {node_of(parameters, name) for name in first}
    crashed_nodes = {row["detail"]["node"] for row in outcome.rows("crash") if row["detail"].get("node")}
    for row in outcome.rows("join"):
        process, node = row["process"], node_of(parameters, row["process"])
        if process not in first and is_place(process):
            found["join"] = True
            found["join from a new node"] = found.get("join from a new node", False) or node not in nodes
        if not is_place(process) and node in crashed_nodes:
            found["node back"] = True


def _order_situations(outcome: Outcome, found: dict[str, bool]) -> None:
    relays: dict[str, set[str]] = {}
    starting: dict[tuple[GroupId, ProcessId], bool] = {}
    synchronising: dict[tuple[GroupId, ProcessId], bool] = {}
    began: Counter[GroupId] = Counter()
    for row in outcome.rows("state", "elect", "sync", "block", "crash"):
        kind, detail, key = row["kind"], row["detail"], (row["group"], row["process"])
        if kind == "elect" and detail["stage"] in ("start", "begin"):
            starting[key] = detail["stage"] == "start"
            began[row["group"]] += detail["stage"] == "begin"
        elif kind == "elect" and detail["stage"] == "steps down":
            starting[key] = synchronising[key] = False
        elif kind == "sync":
            synchronising[key] = detail["stage"] == "begin"
            found["synchronisation phase"] = True
        elif kind == "block":
            found["full for a sender"] = True
        elif kind == "crash":
            for (_, process), is_starting in starting.items():
                if process == row["process"] and is_starting:
                    found["distributor gone before it began"] = True
            for (_, process), is_synchronising in synchronising.items():
                if process == row["process"] and is_synchronising:
                    found["distributor gone in a synchronisation phase"] = True
        elif detail.get("state") == "relay":
            relays.setdefault(detail["node"], set()).add(detail["relay"])
        elif detail.get("state") == "fenced":
            found["node fenced"] = True
        elif detail.get("state") == "cannot store: full":
            found["full for a message with a number"] = True
    found["relay replaced"] = any(len(each) > 1 for each in relays.values())
    found["distributor replaced"] = max(began.values(), default=0) > 1
    watched, crashed = outcome.watched, outcome.crashed
    for message, at in watched.numbered.items():
        gone = crashed.get(message[1], 1 << 62)
        if watched.requested.get(message, 1 << 62) < gone < at:
            found["sender gone before its message had a number"] = True


def _box_situations(outcome: Outcome, found: dict[str, bool]) -> None:
    within = " within a node" if outcome.parameters.reach == "node" else ""
    recovering: dict[tuple[ProcessId, GroupId], int] = {}
    dead: dict[str, set[int]] = {}
    for row in outcome.rows("state"):
        detail, key = row["detail"], (row["process"], row["group"])
        state = detail.get("state")
        if state == "recovers":
            recovering[key] = detail["box"]
        elif state == "recovered":
            recovering.pop(key, None)
            if within:
                found["recovery within a node"] = True
        elif state == "box crashed":
            dead.setdefault(node_of(outcome.parameters, row["process"]), set()).add(detail["box"])
            found["box crashed"] = True
            if recovering.get(key) == detail["box"]:
                found[f"box crashed while recovering{within}"] = True
    most = outcome.parameters.boxes - 1
    found["all boxes but one crashed"] = most > 1 and any(len(boxes) == most for boxes in dead.values())


def _hung_situations(outcome: Outcome, found: dict[str, bool]) -> None:
    """What hung processes were when they hung, and what happened meanwhile."""
    within = " within a node" if outcome.parameters.reach == "node" else ""
    relays: dict[str, ProcessId] = {}
    distributors: set[ProcessId] = set()
    hanging: dict[ProcessId, int] = {}
    for row in outcome.rows("state", "elect", "fault", "join", "crash"):
        detail, now, process = row["detail"], row["true_time"], row["process"]
        hanging = {name: until for name, until in hanging.items() if until > now}
        if detail.get("state") == "relay":
            relays[detail["node"]] = detail["relay"]
        elif detail.get("stage") == "begin":
            distributors.add(process)
        elif detail.get("stage") == "steps down":
            distributors.discard(process)
        elif detail.get("fault") == "pause" and detail["length"] > 2 * SILENCE:
            hanging[process] = now + detail["length"]
            found[f"member hung{within}"] = True
            found["relay hung"] = found.get("relay hung", False) or process in relays.values()
            found["distributor hung"] = found.get("distributor hung", False) or process in distributors
        elif hanging and detail.get("state") == "box crashed":
            found["box crashed while a process hung"] = True
        elif hanging and row["kind"] == "join":
            found["joined while a process hung"] = True
        elif row["kind"] == "crash" and detail.get("reason") == "excluded":
            found["excluded"] = True
        elif row["kind"] == "crash" and detail.get("reason") == "not-reading":
            found["application stopped reading"] = True


# --- from a seed to a scenario ----------------------------------------------------------------------------------------


def family_of(seed: int) -> str:
    return FAMILIES[seed % len(FAMILIES)]


def scenario_of(seed: int) -> Scenario:
    return course_of(seed)[0]


@lru_cache(maxsize=16)
def course_of(seed: int) -> tuple[Scenario, Script | None]:
    """The scenario of a seed, and what crashes after which operation."""
    plan = _Plan(Random(f"dedos sweep {seed}"), family_of(seed))
    plan.draw()
    scenario = Scenario(
        protocol="dedos", name=f"dedos-{seed}", about=f"{plan.family}, {len(plan.nodes)} nodes, {plan.boxes} boxes", seed=seed,
        duration=plan.duration, drain=Duration(5 * SECOND // 2), members=plan.members, later=plan.later, groups=plan.groups,
        parameters=plan.parameters, network=plan.network(), memory=plan.memory, workload=plan.workload(), clock=plan.clocks(),
        fault=plan.sorted(),
    )  # fmt: skip
    return scenario, Script(usual=None, after=plan.after) if plan.after else None


class _Plan:
    """Processes, groups and faults of a scenario, such that on one node, which stays, a receiver of every group, a networked
    process and a box do."""

    def __init__(self, random: Random, family: str) -> None:
        self.random = random
        self.family = family
        self.within = family.endswith("within") or (family == "hung" and random.random() < 0.35)
        self.duration = ms(1200, 2000, random) if family == "hung" else ms(250, 500, random)
        self.faults: list[Fault] = []
        self.after: dict[str, str] = {}
        self.lost: set[ProcessId] = set()
        few = family in ("steady", "nodes", "churn", "lans", "pauses")
        self.boxes = random.choice((1, 2, 2, 3) if few else (2, 3, 3) if family in ("boxes", "within") else (2, 2, 3))
        self.memory = Memory(
            duration=random.choice(("uniform", "uniform", "extremes", "max", "min")), detection=ms(0, 20, random),
            service=Duration(random.choice((0, 0, 2 * US))),
        )  # fmt: skip
        self._name_processes()
        self.groups = self._groups()
        self.senders = self._only_senders()
        self.stays = self._who_stays()
        self.parameters = self._parameters()
        self.boxes_left = {node: self.boxes for node in self.nodes}

    # --- who and what ---

    def _name_processes(self) -> None:
        random = self.random
        if self.within:
            count = 1
        elif self.family in ("nodes", "lans", "pauses", "hung"):
            count = random.choice((2, 3, 3, 4, 5))
        else:
            count = random.choice((1, 2, 2, 3, 3, 4))
        names = [f"n{number + 1}" for number in range(count)]
        receivers: list[ProcessId] = []
        for node in names:
            each = random.randint(2, 5) if self.within else random.choice((1, 2, 2, 3, 4) if count < 4 else (1, 2, 2))
            if self.family == "hung":
                each = random.choice((1, 2, 3, 3, 8) if count > 1 else (2, 3, 5, 12))
            in_processors = random.random() < 0.25
            receivers += [f"{node}.c{number // 2}.p{number}" if in_processors else f"{node}.p{number}" for number in range(each)]
        serving: list[ProcessId] = []
        self.networked: tuple[ProcessId, ...] = ()
        if not self.within and random.random() < 0.35:
            serving = [f"{node}.r{number}" for node in names for number in range(random.choice((1, 2, 2)))]
            self.networked = (*serving, *(name for name in receivers if random.random() < 0.15))
        elif not self.within and random.random() < 0.15:
            serving = ["x.r0"]
        self.receivers = tuple(receivers)
        self.members = (*serving, *receivers) if random.random() < 0.5 else (*receivers, *serving)
        self.nodes = list(dict.fromkeys(name.partition(".")[0] for name in self.members))
        self.later: tuple[ProcessId, ...] = ()
        if self.family in ("churn", "hung") or (self.within and random.random() < 0.5):
            places = names if self.within else [*names, "m1"]
            self.later = tuple(f"{random.choice(places)}.q{number}" for number in range(random.choice((1, 2))))
        if self.networked:
            self.networked = (*self.networked, *self.later)

    def _groups(self) -> dict[GroupId, tuple[ProcessId, ...]]:
        groups = {"g": self.receivers}
        for name in ("h", "i")[: self.random.choice((0, 0, 0, 1, 2)) if len(self.receivers) > 2 else 0]:
            chosen = self.random.sample(self.receivers, self.random.randint(2, len(self.receivers)))
            groups[name] = tuple(process for process in self.receivers if process in chosen)
        return groups

    def _only_senders(self) -> tuple[ProcessId, ...]:
        if len(self.receivers) < 3 or self.random.random() > 0.25:
            return ()
        senders = self.random.sample(self.receivers, 1 if len(self.receivers) < 5 else 2)
        self.groups = {group: members for group, members in self.groups.items() if any(name not in senders for name in members)}
        return tuple(senders)

    def _who_stays(self) -> set[ProcessId]:
        """A receiver of each group, and on each of their nodes one that is networked."""
        stays: set[ProcessId] = set()
        for members in self.groups.values():
            receiving = [name for name in members if name not in self.senders]
            if not stays.intersection(receiving):
                stays.add(self.random.choice(receiving))
        for name in sorted(stays):
            networked = [
                other for other in self.members if _node(other) == _node(name) and (not self.networked or other in self.networked)
            ]
            if not stays.intersection(networked):
                stays.add(self.random.choice(networked))
        return stays

    def _parameters(self) -> dict[str, Any]:
        random, tight = self.random, self.family == "pressure" or self.random.random() < 0.2
        parameters: dict[str, Any] = {
            "boxes": self.boxes, "networked": self.networked, "senders": self.senders, "places": 16,
            "elements": random.choice((4, 6, 8)) if tight else random.choice((32, 64)),
            "history": random.choice((2, 3, 4, 8)) if tight else random.choice((16, 64)),
            "window": random.choice((1, 2, 4, 8)),
            "room": random.choice((300, 8192)) if tight else 8192,
            "poll": Duration(POLL), "operation": Duration(random.choice((10, 50, 200)) * US), "retry": Duration(6 * MS),
            "acknowledge": Duration(random.choice((2, 4)) * MS), "present_every": Duration(PRESENT_EVERY),
            "delta": Duration(9 * MS), "misses": MISSES,
        }  # fmt: skip
        parameters["reserve"] = random.choice((1, 2, 3)) if tight else 8
        if self.family == "hung":
            parameters["patience"] = Duration(150 * MS)
        if self.within:
            parameters["reach"] = "node"
        if self.family == "lans":
            parameters["lans"] = 2
        return parameters

    def network(self) -> Network:
        random = self.random
        return Network(
            delay=Delay("uniform", Duration(100 * US), Duration(random.choice((300, 1_000, 1_500)) * US)),
            loss=random.choice((0.0, 0.02, 0.05, 0.1)), duplicate=random.choice((0.0, 0.05, 0.2)),
            reorder=random.choice((0.0, 0.05, 0.2)),
        )  # fmt: skip

    def workload(self) -> tuple[Workload, ...]:
        random, room = self.random, self.parameters["room"]
        rate = random.choice((30.0, 80.0, 160.0)) / len(self.groups) / (1 + len(self.receivers) // 4)
        largest = room if self.senders else 1_000
        size = min(largest, random.choice((20, 20, 90, 500)))
        start = Duration(random.choice((0, 30)) * MS)
        loads = [Workload(rate=rate, arrivals=random.choice(("regular", "poisson")), size=size, start=start)]
        if self.family == "pressure" or random.random() < 0.15:
            loads.append(Workload(rate=12.0, burst=random.choice((3, 6, 12)), size=min(largest, random.choice((20, 400)))))
        return tuple(loads)

    def clocks(self) -> tuple[Clock, ...]:
        """Clocks of nodes differ by less than delta."""
        if self.random.random() < 0.6:
            return ()
        ahead = {node: self.random.randrange(2 * MS) for node in self.nodes}
        return tuple(Clock(process=name, offset=ahead[_node(name)]) for name in self.members)

    # --- what fails ---

    def draw(self) -> None:
        several = self.random.randint(1, 4)
        kinds = {
            "steady": [],
            "crashes": self.random.choices(("crash", "crash", "relay", "processor"), k=several),
            "boxes": ["box", *self.random.choices(("box", "box_again", "box_again", "crash", "relay", "gap"), k=several)],
            "primitives": [
                *self.random.choices(("crash_inside", "box_inside"), k=several + 1),
                *self.random.choices(("crash", "box"), k=1),
            ],
            "nodes": ["node", *self.random.choices(("node", "crash", "relay", "box"), k=several - 1)],
            "churn": [
                *["join" for _ in self.later],
                *self.random.choices(("leave", "crash", "box", "leave", "relay"), k=several),
            ],
            "hung": self._hung_kinds(several) if self.family == "hung" else [],
            "pressure": [
                *self.random.choices(("sluggish", "sluggish", "sluggish", "short_pause"), k=several),
                *self.random.choices(("relay", "box", "node"), k=self.random.randint(0, 2)),
            ],
            "lans": ["lan", *self.random.choices(("lan", "relay", "node", "crash", "box"), k=several)],
            "pauses": ["long_pause", *self.random.choices(("long_pause", "relay", "crash", "box", "leave"), k=several - 1)],
            "within": [
                *["join" for _ in self.later],
                *self.random.choices(("crash", "box", "box_again", "box_again", "leave", "sluggish"), k=several + 1),
            ],
            "primitives within": [
                *["join" for _ in self.later],
                *self.random.choices(("crash_inside", "box_inside", "leave", "box"), k=several + 1),
            ],
        }[self.family]
        for kind in kinds:
            getattr(self, f"_{kind}")(self._moment())
        if self.family not in ("steady", "pauses", "hung") and self.random.random() < 0.2:
            self._short_pause(self._moment())

    def _hung_kinds(self, several: int) -> list[str]:
        return [
            *["join" for _ in self.later],
            *self.random.choices(("hang", "hang", "hang_relay", "unread"), k=self.random.randint(1, 2)),
            *self.random.choices(("hang", "unread", "box", "relay", "crash", "leave"), k=several),
        ]

    def _moment(self) -> Duration:
        return Duration(self.random.randrange(10 * MS, int(0.7 * self.duration)))

    def _victim(self, among: Iterable[ProcessId]) -> ProcessId | None:
        possible = [name for name in among if name not in self.stays and name not in self.lost]
        if not possible:
            return None
        process = self.random.choice(possible)
        self.lost.add(process)
        return process

    def _crash(self, at: Duration, among: Sequence[ProcessId] | None = None) -> None:
        process = self._victim(self.members if among is None else among)
        if process is None:
            return
        how = self.random.choice(("time", "events", "sending"))
        if how == "events":
            self.faults.append(Fault(kind="crash", process=process, after_events=self.random.randint(20, 600)))
        else:
            self.faults.append(Fault(kind="crash", at=at, process=process, mid_broadcast=how == "sending"))
        if self.random.random() < 0.5:
            self._back(process, at)

    def _back(self, process: ProcessId, at: Duration) -> None:
        back = at + self.random.randrange(5 * MS, 250 * MS)
        if back < self.duration:
            self.faults.append(Fault(kind="restart", at=Duration(back), process=process))

    def _relay(self, at: Duration) -> None:
        """The process that most likely relays on some node crashes."""
        self._crash(at, self._relays())

    def _relays(self) -> list[ProcessId]:
        """The first networked process of each node."""
        firsts: dict[str, ProcessId] = {}
        for name in self.members:
            if name not in self.lost and (not self.networked or name in self.networked):
                firsts.setdefault(_node(name), name)
        return list(firsts.values())

    def _processor(self, at: Duration) -> None:
        processors = {name.rpartition(".")[0] for name in self.members if name.count(".") == 2}
        for processor in sorted(processors):
            there = {name for name in self.members if name.rpartition(".")[0] == processor}
            if not there & (self.stays | self.lost):
                self.lost |= there
                self.faults.append(Fault(kind="processor", at=at, processor=processor))
                return
        self._crash(at)

    def _node(self, at: Duration) -> None:
        possible = [node for node in self.nodes if not any(_node(name) == node for name in self.stays | self.lost)]
        if not possible:
            return
        node = self.random.choice(possible)
        there = [name for name in self.members if _node(name) == node]
        self.lost.update(there)
        self.faults.append(Fault(kind="node", at=at, node=node))
        if self.random.random() < 0.5:
            for name in self.random.sample(there, self.random.randint(1, len(there))):
                self._back(name, at)

    def _box(self, at: Duration) -> None:
        possible = [node for node, left in self.boxes_left.items() if left > 1]
        if possible:
            node = self.random.choice(possible)
            gone = [fault.module for fault in self.faults if fault.kind == "module" and fault.node == node]
            left = [number + 1 for number in range(self.boxes) if number + 1 not in gone]
            module = left[0] if self.random.random() < 0.8 else self.random.choice(left)
            self.boxes_left[node] -= 1
            self.faults.append(Fault(kind="module", at=at, module=module, node=node))

    def _box_again(self, at: Duration) -> None:
        """Another box crashes while somebody recovers it, or soon after its predecessor."""
        dead = [fault for fault in self.faults if fault.kind == "module" and self.boxes_left[fault.node] > 1]
        if not dead:
            self._box(at)
            return
        fault = self.random.choice(dead)
        gone = [other.module for other in self.faults if other.kind == "module" and other.node == fault.node]
        module = next(number + 1 for number in range(self.boxes) if number + 1 not in gone)
        self.boxes_left[fault.node] -= 1
        if self.random.random() < 0.3:
            later = Duration(fault.at + self.random.randrange(1, self.random.choice((1, 3, 12)) * MS))
            self.faults.append(Fault(kind="module", at=later, module=module, node=fault.node))
        else:
            there = [name for name in self.receivers if _node(name) == fault.node and name not in self.senders]
            operation = self.random.choice(("start", "start", "recover") if self.within else ("restore", "restore", "present"))
            for process in there:
                self.after[f"{process} {operation} {module}"] = f"module {module}"

    def _gap(self, at: Duration) -> None:
        """A box crashes when nobody on its node has read for a while."""
        possible = [node for node, left in self.boxes_left.items() if left == self.boxes > 1]
        if possible:
            node = self.random.choice(possible)
            for process in self.receivers:
                if _node(process) == node and process not in self.senders:
                    self.faults.append(Fault(kind="sluggish", at=at, process=process, length=Duration(60 * MS), count=1))
            self.boxes_left[node] -= 1
            later = Duration(at + self.random.randrange(10 * MS, 60 * MS))
            self.faults.append(Fault(kind="module", at=later, module=1, node=node))

    def _operation(self) -> str:
        if self.within:
            name = self.random.choice(("send", "receive", "list", "join", "start", "recover", "present", "delete"))
        else:
            name = self.random.choice(
                ("store", "store", "read", "purge", "list", "restore", "present", "promise", "turn", "delete", "look")
            )
        often = name in ("store", "read", "purge", "look", "send", "receive")
        number = self.random.randint(1, self.random.choice((4, 40)) if often else 2)
        copy = self.random.choice((1, 1, 1, 2, 2, 3)[: 3 + self.boxes])
        return f"{name} {min(copy, self.boxes)}" + (f" #{number}" if number > 1 else "")

    def _crash_inside(self, at: Duration) -> None:
        """A process crashes right after an operation."""
        process = self._victim(self.members)
        if process is not None:
            self.after[f"{process} {self._operation()}"] = process
            if self.random.random() < 0.4:
                self._back(process, at)

    def _box_inside(self, at: Duration) -> None:
        """A box crashes right after an operation of somebody."""
        possible = [node for node, left in self.boxes_left.items() if left > 1]
        if possible:
            node = self.random.choice(possible)
            process = self.random.choice([name for name in self.members if _node(name) == node])
            self.boxes_left[node] -= 1
            gone = self.boxes - self.boxes_left[node]
            self.after[f"{process} {self._operation()}"] = f"module {gone}"

    def _join(self, at: Duration) -> None:
        asked = [fault.process for fault in self.faults if fault.kind == "join"]
        process = next((process for process in self.later if process not in asked), None)
        if process is not None:
            self.faults.append(Fault(kind="join", at=at, process=process, group="g"))

    def _leave(self, at: Duration) -> None:
        process = self._victim(self.receivers)
        if process is not None:
            self.faults.append(Fault(kind="leave", at=at, process=process))

    def _sluggish(self, at: Duration) -> None:
        receiving = [name for name in self.receivers if name not in self.senders]
        length, count = ms(20, 150, self.random), self.random.choice((1, 2, 8))
        self.faults.append(Fault(kind="sluggish", at=at, process=self.random.choice(receiving), length=length, count=count))

    def _short_pause(self, at: Duration) -> None:
        process = self.random.choice(self.members)
        self.faults.append(Fault(kind="pause", at=at, process=process, length=ms(1, 40, self.random)))

    def _long_pause(self, at: Duration) -> None:
        process = self._victim(self._relays() if self.random.random() < 0.7 else self.members)
        if process is not None:
            length = Duration(self.random.randrange(int(0.7 * SILENCE), 3 * SILENCE))
            self.faults.append(Fault(kind="pause", at=at, process=process, length=length))

    def _hang(self, at: Duration, among: Sequence[ProcessId] | None = None) -> None:
        """A process hangs for longer than every timeout; it goes on before the run ends, or after."""
        process = self._victim(self.members if among is None else among)
        if process is not None:
            length = Duration(self.random.randrange(4 * SILENCE, 12 * SILENCE))
            self.faults.append(Fault(kind="pause", at=at, process=process, length=length))

    def _hang_relay(self, at: Duration) -> None:
        self._hang(at, self._relays())

    def _unread(self, at: Duration) -> None:
        """An application stops reading for longer than it may."""
        process = self._victim([name for name in self.receivers if name not in self.senders])
        if process is not None:
            length, count = ms(400, 1500, self.random), self.random.choice((1, 2, 8))
            self.faults.append(Fault(kind="sluggish", at=at, process=process, length=length, count=count))

    def _lan(self, at: Duration) -> None:
        ends = [fault.at + fault.length for fault in self.faults if fault.kind == "lan"]
        start = max([int(at), *(end + SILENCE for end in ends)])
        if start < self.duration:
            length = ms(60, 400, self.random)
            self.faults.append(Fault(kind="lan", at=Duration(start), lan=self.random.choice((1, 1, 2)), length=length))

    def sorted(self) -> tuple[Fault, ...]:
        return tuple(sorted(self.faults, key=lambda fault: fault.at))


def _node(process: ProcessId) -> str:
    return process.partition(".")[0]
