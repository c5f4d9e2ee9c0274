"""What no single value of a scenario can be wrong about: names that must exist, times that fit, faults that are whole.

Every rule is a sentence for a person, at the line where the mistake stands. The rules about faults are a table: what
each kind needs and what it may have besides, so that a ``delay`` on a crash is refused instead of ignored.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import Any, Final, NoReturn, TypeAlias

from ..core.model import SECOND, Duration, format_duration
from ..core.names import place_of
from ..protocols.registry import Description
from ..trace.properties import PROPERTIES
from .locate import Path
from .model import FAULTS, Fault, Scenario, Workload, groups_ever
from .read import Reader, dotted, nearest

Document: TypeAlias = dict[str, Any]

# The keys that each kind of fault needs, and those that it may have besides.
_KEYS: Final[dict[str, tuple[tuple[str, ...], tuple[str, ...]]]] = {
    "crash": (("process",), ("at", "after_events", "mid_broadcast")),
    "restart": (("process", "at"), ()),
    "join": (("process", "at"), ("group",)),
    "leave": (("process", "at"), ("group",)),
    "form": (("process", "at", "group", "members"), ()),
    "refuse": (("process", "at"), ("group",)),
    "close": (("process", "at", "group"), ()),
    "rename": (("process", "at", "group", "name"), ()),
    "pause": (("process", "at", "length"), ()),
    "partition": (("at", "parts"), ("length",)),
    "cut": (("at",), ("source", "target", "length")),
    "clog": (("at", "delay"), ("source", "target", "length")),
    "loss": (("at", "rate"), ("source", "target", "length")),
    "omit": (("process", "at"), ("source", "packet", "count")),
    "lan": (("at", "lan"), ("length",)),
    "heal": (("at",), ()),
    "step": (("process", "at", "offset"), ()),
    "module": (("at", "module"), ("node",)),
    "node": (("at", "node"), ()),
    "processor": (("at", "processor"), ()),
    "slow": (("process", "at", "delay", "length"), ()),
    "sluggish": (("process", "at", "length"), ("count",)),
    "busy": (("process", "at", "length", "rate"), ()),
    "disk": (("process", "at"), ("room",)),
}
_IN_MEMORY: Final = ("module", "slow")  # faults of shared memory
_ON_NETWORK: Final = ("partition", "cut", "clog", "loss", "omit", "lan", "heal")  # faults of packets
_ON_NODES: Final = ("node", "processor")  # faults of more than one process
_PROPOSES: Final = ("form", "refuse", "close", "rename")  # faults that need a protocol whose processes form groups while they run
_WAIT: Final = "the others would wait for the lost member for ever"
assert _KEYS.keys() == FAULTS.keys()


def fault_keys(kind: str) -> tuple[str, ...]:
    """The keys that a fault of this kind has, needed ones first."""
    needed, others = _KEYS[kind]
    return ("kind", *needed, *others)


# Faults with which packets are lost or overtake each other.
_LOSES: Final = {kind: f"a {kind}" for kind in ("partition", "cut", "clog", "loss")} | {
    "omit": "an omission",
    "lan": "a network that crashes",
}


def check(scenario: Scenario, document: Document, reader: Reader, description: Description) -> None:
    """Fails at the first thing that cannot be; ``description`` is the protocol's."""
    _Check(scenario, document, reader, description).all()


class _Check:
    def __init__(self, scenario: Scenario, document: Document, reader: Reader, description: Description) -> None:
        self.description = description
        self.placement = description.placement
        self.scenario = scenario
        self.document = document
        self.fail = reader.fail
        self.parameters = description.parameters(**scenario.parameters)
        self.processes = (*scenario.members, *scenario.later)
        node_of = self.placement.node_of
        self.nodes = dict.fromkeys(node_of(self.parameters, name) for name in self.processes) if node_of is not None else {}
        self.groups = groups_ever(scenario.groups, scenario.fault)

    def all(self) -> None:
        for number, name in enumerate(self.scenario.verify):
            if name not in PROPERTIES:
                self.fail(("verify", number), f'there is no property "{name}"; {nearest(name, PROPERTIES)}')
        self._groups()
        self._network()
        for number, workload in enumerate(self.scenario.workload):
            self._workload(workload, ("workload", number))
        for number, clock in enumerate(self.scenario.clock):
            self._process(clock.process, ("clock", number, "process"))
        for number, fault in enumerate(self.scenario.fault):
            self._fault(fault, ("fault", number))
        self._packet(self.scenario.random.omit_packet, ("random", "omit_packet"))
        for number, name in enumerate(self.scenario.random.steady):
            self._process(name, ("random", "steady", number))
        if self.placement.memory is None:
            self._no_memory()
        else:
            self._memory(self.placement.memory(self.parameters).copies)
        self._units()
        if not self.description.changes(self.parameters):
            self._no_changes()
        if not self.description.proposes(self.parameters):
            self._no_faults(
                _PROPOSES,
                f"with these parameters processes of {self.description.name} do not form, close or rename groups while they run, "
                "so there can be no {kind}; leave the fault out, set other parameters, or take another protocol",
            )
        if self.description.lossless(self.scenario.parameters):
            self._lossless()

    def _no_faults(self, kinds: Iterable[str], fault_problem: str, random_problem: str = "") -> None:
        """Refuses faults of these kinds, those of the scenario and those to be drawn; ``{kind}`` in a problem is the kind's name,
        ``{what}`` what it does to packets."""
        for number, fault in enumerate(self.scenario.fault):
            if fault.kind in kinds:
                self.fail(("fault", number, "kind"), fault_problem.format(kind=fault.kind, what=_LOSES.get(fault.kind)))
        for kind in kinds if random_problem else ():
            if getattr(self.scenario.random, kind, 0):
                self.fail(("random", kind), random_problem.format(kind=kind, what=_LOSES.get(kind)))

    def _groups(self) -> None:
        scenario = self.scenario
        for number, name in enumerate(scenario.later):
            if name in scenario.members:
                self.fail(("later", number), f'"{name}" is named twice: it is a member from the start already')
        members = frozenset(scenario.members)
        for group, names in scenario.groups.items():
            for number, name in enumerate(names):
                if name not in members:
                    hint = nearest(name, scenario.members)
                    self.fail(("groups", group, number), f'"{name}" of group {group} is not among the members; {hint}')
        in_groups = {name for names in scenario.groups.values() for name in names}
        for number, name in enumerate(() if self.placement.idle else scenario.members):
            if name not in in_groups:
                self.fail(("members", number), f'"{name}" is in no group; name it in [groups] or leave it out of members')

    def _no_changes(self) -> None:
        """Groups that are formed once and stay so."""
        name, scenario = self.description.name, self.scenario
        other = "set other parameters, or take another protocol"
        fixed = f"with these parameters the groups of {name} do not change"
        dies = f"with these parameters {name} does not survive"
        if scenario.later:
            self.fail(("later",), f"{fixed}, so nobody can join them later; leave `later` out, {other}")
        for number, fault in enumerate(scenario.fault):
            path = ("fault", number, "kind")
            if fault.kind in ("crash", "disk", *_ON_NODES):
                self.fail(path, f"{dies} a crash: {_WAIT}; leave the fault out, {other}")
            if fault.kind in ("restart", "join", "leave"):
                self.fail(path, f"{fixed}, so there can be no {fault.kind}; leave the fault out, {other}")
        for kind in ("crash", "disk", *_ON_NODES):
            if getattr(scenario.random, kind):
                self.fail(("random", kind), f"{dies} crashes: {_WAIT}; set it to 0, {other}")
        for kind, what in (("leave", "leave"), ("restart_halted", "come back to")):
            if getattr(scenario.random, kind):
                self.fail(("random", kind), f"{fixed}, so nobody can {what} them; set it to 0, {other}")

    def _lossless(self) -> None:
        """A protocol that was told that the network is a lossless stream."""
        network, told, lossy = self.scenario.network, 'is what parameters.transport = "fifo" excludes', 'take transport = "lossy"'
        links = (((), network), *((("link", number), link) for number, link in enumerate(network.link)))
        for path, link in links:
            for rate in ("loss", "duplicate", "reorder", "corrupt"):
                if getattr(link, rate):
                    self.fail(("network", *path, rate), f"{rate} {told}; set it to 0, or {lossy}")
            if link.delay.kind != "constant":
                problem = f"a delay that varies lets packets overtake, which {told}; write a single duration, or {lossy}"
                self.fail(("network", *path, "delay"), problem)
        self._no_faults(_LOSES, f"{{what}} {told}; leave it out, or {lossy}", f"{{what}} {told}; set it to 0, or {lossy}")

    def _no_memory(self) -> None:
        """A protocol that sends packets."""
        only = f"{self.description.name} sends packets and has no common memory"
        other = "or take a protocol on common memory"
        if self.document.get("memory"):
            self.fail(("memory",), f"{only}; leave [memory] out, {other}")
        self._no_faults(
            _IN_MEMORY,
            f"{only}, so there can be no fault of kind {{kind}}; leave it out, {other}",
            f"{only}, so there can be no faults of kind {{kind}}; set it to 0, {other}",
        )

    def _memory(self, copies: int) -> None:
        """A protocol on shared memory: modules that exist, and packets only of processes that are elsewhere."""
        for number, fault in enumerate(self.scenario.fault):
            if fault.module > copies:
                path = ("fault", number, "module")
                self.fail(path, f"there is no module {fault.module}; with these parameters there are {copies}")
        if self.placement.remote(self.parameters) or (self.nodes and self.placement.lans(self.parameters)):
            return
        only = f"with these parameters nobody sends packets with {self.description.name}"
        self._no_faults(
            _ON_NETWORK,
            f"{only}, so a fault of kind {{kind}} would do nothing; leave it out",
            f"{only}, so faults of kind {{kind}} would do nothing; set it to 0",
        )

    def _units(self) -> None:
        """Nodes, processors and networks: those that exist, and where there are any."""
        processors = dict.fromkeys(self.placement.processor_of(self.parameters, name) for name in self.processes)
        lans = self.placement.lans(self.parameters)
        off_nodes = f"the processes of {self.description.name} are not on nodes"
        for number, fault in enumerate(self.scenario.fault):
            path: Path = ("fault", number)
            if not self.nodes and (fault.kind in _ON_NODES or fault.node):
                self.fail((*path, fault.kind if fault.kind in _ON_NODES else "node"), f"{off_nodes}; leave it out")
            if fault.node and fault.node not in self.nodes:
                self.fail((*path, "node"), f'there is no node "{fault.node}"; {nearest(fault.node, self.nodes)}')
            if fault.kind == "module" and len(self.nodes) > 1 and not fault.node:
                self.fail(path, f'there are {len(self.nodes)} nodes, so a module needs "node": in which of them it is')
            if fault.processor and fault.processor not in processors:
                hint = nearest(fault.processor, processors)
                self.fail((*path, "processor"), f'there is no processor "{fault.processor}"; {hint}')
            if fault.lan > lans:
                self.fail((*path, "lan"), f"there is no network {fault.lan}; with these parameters there are {lans}")
        random, nodes = self.scenario.random, len(self.nodes)
        for kind in _ON_NODES:
            if getattr(random, kind) and not self.nodes:
                self.fail(("random", kind), f"{off_nodes}; set it to 0")
        if random.lan and lans < 2:
            self.fail(("random", "lan"), "the only network never crashes by chance; set it to 0, or let there be two")
        if random.node and (kept := random.keep_nodes) >= nodes:
            problem = f"of {nodes} nodes {kept} are kept, so none could crash; keep fewer, or set node to 0"
            self.fail(("random", "keep_nodes"), problem)

    def _network(self) -> None:
        network = self.scenario.network
        if network.shared and not network.bandwidth:
            self.fail(("network", "shared"), "a shared medium needs a bandwidth: write bandwidth = 10_000_000 for 10 Mbit/s")
        self._once_each(network.machines, ("network", "machines"), "machine", "machines")
        for number, link in enumerate(network.link):
            path = ("network", "link", number)
            self._process(link.source, (*path, "source"))
            self._process(link.target, (*path, "target"))
            if not link.source and not link.target:
                problem = "a [[network.link]] needs a source, a target or both; what holds for all links goes into [network]"
                self.fail(path, problem)

    # --- workload ---

    def _workload(self, workload: Workload, path: Path) -> None:
        for number, name in enumerate(workload.senders):
            self._process(name, (*path, "senders", number))
        if workload.group:
            self._group(workload.group, (*path, "group"))
        self._no_senseless_zero(path)
        if workload.closed and workload.rate:
            problem = "a workload is an open loop (rate) or a closed one (closed), not both; leave one of them out"
            self.fail((*path, "closed"), problem)
        if workload.size == 0:
            self.fail((*path, "size"), "size must be at least 1 byte")
        self._fits(workload, (*path, "size"))
        if workload.deadline:
            self._deadline(workload, (*path, "deadline"))
        self._within(workload.start, (*path, "start"), "sending begins")
        self._within(workload.stop, (*path, "stop"), "sending ends")
        if workload.stop and workload.stop <= workload.start:
            stop, start = format_duration(workload.stop), format_duration(workload.start)
            self.fail((*path, "stop"), f"sending stops at {stop}, before it starts at {start}")

    def _fits(self, workload: Workload, path: Path) -> None:
        """A process that only sends gets nothing back, and so does not see when a piece of a message has arrived."""
        room = self.placement.room
        most = room(self.parameters) if room is not None else self.scenario.network.max_packet
        only_send = self.placement.only_send(self.parameters)
        names = [name for name in workload.senders or self.processes if name in only_send]
        if names and workload.size > most:
            self.fail(
                path,
                f"{names[0]} only sends, so its messages have at most {most} bytes, not {workload.size}: make them smaller, give "
                f"the protocol more room, or let it receive as well",
            )

    def _deadline(self, workload: Workload, path: Path) -> None:
        """Admission control has to know what comes: one message per period, or each message on its own."""
        problem = ""
        if not self.description.admits(self.parameters):
            problem = (
                f"with these parameters {self.description.name} guarantees no deadlines; leave the deadline out, set other "
                f"parameters, or take a protocol with admission control (`plainchant protocols` lists them)"
            )
        elif workload.closed or not workload.rate:
            problem = "messages with a deadline are those of an open loop, whose periods are known: write rate = 10 instead"
        elif workload.arrivals == "regular" and workload.burst > 1:
            problem = (
                "a regular workload with a deadline sends one message a period: leave burst out, write several workloads, or "
                'take arrivals = "poisson", where each message is asked for on its own'
            )
        elif workload.arrivals == "regular" and workload.deadline > (period := int(SECOND / workload.rate)):
            problem = (
                f"messages come every {format_duration(period)} and are due {format_duration(workload.deadline)} later, after "
                f"the next one; make the deadline at most that long, or the rate smaller"
            )
        if problem:
            self.fail(path, problem)

    def _no_senseless_zero(self, path: Path) -> None:
        """Zero means "no limit" here, but a person who writes it means "none": only leaving the key out means no limit."""
        table = self._table(path)
        limits = {"rate": "send as fast as accepted", "closed": "send in an open loop", "count": "send until the end"}
        for key, without in limits.items():
            if key in table and table[key] == 0:
                problem = f"{key} must be above 0; leave it out to {without}, or write workload = [] for no messages"
                self.fail((*path, key), problem)

    # --- faults ---

    def _fault(self, fault: Fault, path: Path) -> None:
        if not fault.kind:
            self.fail(path, f"a fault needs a kind, one of: {', '.join(FAULTS)}")
        self._has_its_keys(fault, path)
        for key in ("process", "source", "target"):
            self._process(getattr(fault, key), (*path, key))
        if fault.group:
            self._group(fault.group, (*path, "group"))
        for number, name in enumerate(fault.members):
            self._process(name, (*path, "members", number))
        if fault.kind in ("form", "rename"):
            self._new_name(fault, path)
        self._packet(fault.packet, (*path, "packet"))
        if fault.kind == "partition":
            self._once_each(fault.parts, (*path, "parts"), "part of a partition", "parts")
        if fault.kind == "cut" and not fault.source and not fault.target:
            self.fail(path, "a cut needs a source, a target or both")
        if fault.at >= self.scenario.duration:  # at the very end faults are over already: it would silently not happen
            self._too_late(f"the {fault.kind} happens", fault.at, (*path, "at"))
        self._membership(fault, path)

    def _new_name(self, fault: Fault, path: Path) -> None:
        """A group gets a name that no group has; one that was given up may be given again."""
        name, key = (fault.group, "group") if fault.kind == "form" else (fault.name, "name")
        ends = (other for other in self.scenario.fault if other.kind in ("close", "rename") and other.group == name)
        if name in self.scenario.groups and not any(other.at < fault.at for other in ends):
            self.fail((*path, key), f'there is a group "{name}" from the start; choose another name')

    def _membership(self, fault: Fault, path: Path) -> None:
        """Who is in cannot join and who is not cannot leave. Only what is certain before the run is refused."""
        if fault.group and fault.group not in self.scenario.groups:
            return
        groups = [fault.group] if fault.group else list(self.scenario.groups)
        is_in = all(fault.process in self.scenario.groups[group] for group in groups if not self._is_other(fault, group))
        kinds = {other.kind for other in self.scenario.fault if other.process == fault.process}
        if fault.kind == "join" and is_in and "leave" not in kinds and not self.scenario.random.leave:
            self.fail(path, f'"{fault.process}" is a member from the start; name who joins in `later` instead')
        if fault.kind == "leave" and fault.process in self.scenario.later and "join" not in kinds:
            self.fail(path, f'"{fault.process}" is not a member: it needs a fault of kind join before it can leave')

    def _is_other(self, fault: Fault, group: str) -> bool:
        """A group that the fault leaves alone: a member that names no group joins its own groups, not all."""
        mine = any(fault.process in names for names in self.scenario.groups.values())
        return not fault.group and mine and fault.process not in self.scenario.groups[group]

    def _has_its_keys(self, fault: Fault, path: Path) -> None:
        table = self._table(path)
        allowed = fault_keys(fault.kind)
        for key in table:
            if key not in allowed:
                self.fail((*path, key), f'a fault of kind {fault.kind} has no "{key}"; it has: {", ".join(allowed[1:])}')
        defaults = {field.name: field.default for field in dataclasses.fields(Fault)}
        for key in _KEYS[fault.kind][0]:
            if key not in table if key == "at" else getattr(fault, key) == defaults[key]:
                self.fail(path, f'a fault of kind {fault.kind} needs "{key}" ({_about(key)})')
        if fault.kind == "crash":
            self._crash_has_a_moment(fault, table, path)

    def _crash_has_a_moment(self, fault: Fault, table: Document, path: Path) -> None:
        events = (*path, "after_events")
        if fault.after_events and fault.at:
            self.fail(events, "a crash is at a time or after so many events, not both; leave one of them out")
        if fault.after_events and fault.process in self.scenario.later:
            absent = f'"{fault.process}" is not there at the start, so that its events cannot be counted'
            self.fail(events, f"{absent}; crash it at a time")
        if not fault.after_events and not fault.mid_broadcast and "at" not in table:
            self.fail(path, 'a fault of kind crash needs "at", "after_events" or "mid_broadcast" to say when')

    # --- shared ---

    def _once_each(self, parts: tuple[tuple[str, ...], ...], path: Path, one: str, several: str) -> None:
        """Lists of processes that have no process in common."""
        seen: dict[str, int] = {}
        for number, part in enumerate(parts):
            inside = (*path, number)
            if not part:
                self.fail(inside, f"a {one} is empty; name its processes or leave it out")
            for position, name in enumerate(part):
                self._process(name, (*inside, position))
                if name in seen:
                    where = "twice" if seen[name] == number else f"in {several} {seen[name] + 1} and {number + 1}"
                    self.fail((*inside, position), f'"{name}" is {where}; a process is in one {one}')
                seen[name] = number

    def _process(self, name: str, path: Path) -> None:
        """Empty or a known process. A scenario cannot know incarnations: the process stands for the one that runs."""
        place = place_of(name)
        if place != name and place in self.processes:
            self.fail(path, f'{dotted(path)}: write "{place}", which means whichever incarnation of it runs then')
        if name and name not in self.processes:
            self.fail(path, f'{dotted(path)}: there is no process "{name}"; {nearest(name, self.processes)}')

    def _packet(self, name: str, path: Path) -> None:
        """Empty or a kind of packet of the protocol."""
        known = [packet.__name__ for packet in self.description.packets]
        if name and name not in known:
            hint = f"there are: {', '.join(known)}" if known else "it has none"
            self.fail(path, f'{dotted(path)}: {self.description.name} has no packet "{name}"; {hint}')

    def _group(self, name: str, path: Path) -> None:
        if name not in self.groups:
            self.fail(path, f'{dotted(path)}: there is no group "{name}"; {nearest(name, self.groups)}')

    def _within(self, moment: Duration, path: Path, what: str) -> None:
        if moment > self.scenario.duration:
            self._too_late(what, moment, path)

    def _too_late(self, what: str, moment: Duration, path: Path) -> NoReturn:
        at, duration = format_duration(moment), format_duration(self.scenario.duration)
        self.fail(path, f"{what} at {at}, but the scenario lasts {duration}; make duration longer or the time earlier")

    def _table(self, path: Path) -> Document:
        """The table as it was written: what was left out and what was written as its default are not the same."""
        value: Any = self.document
        for key in path:
            if isinstance(value, dict) and key not in value:
                return {}  # a default of ours, not of the file's
            value = value[key]
        return dict(value)


def _about(key: str) -> str:
    field = next(field for field in dataclasses.fields(Fault) if field.name == key)
    return str(field.metadata["declared"].about)
