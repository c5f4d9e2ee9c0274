"""What no single value of a scenario can be wrong about: names that must exist, times that fit, faults that are whole.

Every rule is a sentence for a person, at the line where the mistake stands. The rules about faults are a table: what
each kind needs and what it may have besides, so that a ``delay`` on a crash is refused instead of ignored.
"""

from __future__ import annotations

import dataclasses
from typing import Any, Final, TypeAlias

from ..core.model import SECOND, Duration, format_duration
from ..core.names import place_of
from ..protocols.registry import Description
from ..trace.properties import PROPERTIES
from .locate import Path
from .model import FAULTS, Fault, Scenario, Workload, groups_ever
from .read import Reader, dotted, nearest

Document: TypeAlias = dict[str, Any]

_NEEDS: Final[dict[str, tuple[str, ...]]] = {
    "crash": ("process",),
    "restart": ("process", "at"),
    "join": ("process", "at"),
    "leave": ("process", "at"),
    "form": ("process", "at", "group", "members"),
    "refuse": ("process", "at"),
    "close": ("process", "at", "group"),
    "rename": ("process", "at", "group", "name"),
    "pause": ("process", "at", "length"),
    "partition": ("at", "parts"),
    "cut": ("at",),
    "clog": ("at", "delay"),
    "loss": ("at", "rate"),
    "omit": ("process", "at"),
    "lan": ("at", "lan"),
    "heal": ("at",),
    "step": ("process", "at", "offset"),
    "module": ("at", "module"),
    "node": ("at", "node"),
    "processor": ("at", "processor"),
    "slow": ("process", "at", "delay", "length"),
    "sluggish": ("process", "at", "length"),
    "busy": ("process", "at", "length", "rate"),
    "disk": ("process", "at"),
}
_MAY_HAVE: Final[dict[str, tuple[str, ...]]] = {
    "crash": ("at", "after_events", "mid_broadcast"),
    "restart": (),
    "join": ("group",),
    "leave": ("group",),
    "form": (),
    "refuse": ("group",),
    "close": (),
    "rename": (),
    "pause": (),
    "partition": ("length",),
    "cut": ("source", "target", "length"),
    "clog": ("source", "target", "length"),
    "loss": ("source", "target", "length"),
    "omit": ("source", "packet", "count"),
    "lan": ("length",),
    "heal": (),
    "step": (),
    "module": ("node",),
    "node": (),
    "processor": (),
    "slow": (),
    "sluggish": ("count",),
    "busy": (),
    "disk": ("room",),
}
_IN_MEMORY: Final = ("module", "slow")  # faults of shared memory
_ON_NETWORK: Final = ("partition", "cut", "clog", "loss", "omit", "lan", "heal")  # faults of packets
_ON_NODES: Final = ("node", "processor")  # faults of more than one process
_PROPOSES: Final = ("form", "refuse", "close", "rename")  # faults that need a protocol whose processes form groups while they run
_WAIT: Final = "the others would wait for the lost member for ever"
assert _NEEDS.keys() == FAULTS.keys() == _MAY_HAVE.keys()


def fault_keys(kind: str) -> tuple[str, ...]:
    """The keys that a fault of this kind has, needed ones first."""
    return ("kind", *_NEEDS[kind], *_MAY_HAVE[kind])


_LOSES: Final = {
    "partition": "a partition",
    "cut": "a cut",
    "clog": "a clog",
    "loss": "a loss",
    "omit": "an omission",
    "lan": "a network that crashes",
}
"""Faults with which packets are lost or overtake each other."""


def check(scenario: Scenario, document: Document, reader: Reader, description: Description) -> None:
    """Fails at the first thing that cannot be; ``description`` is the protocol's."""
    _Check(scenario, document, reader, description).all()


class _Check:
    def __init__(self, scenario: Scenario, document: Document, reader: Reader, description: Description) -> None:
        self.description = description
        self.scenario = scenario
        self.document = document
        self.reader = reader
        self.parameters = description.parameters(**scenario.parameters)
        self.processes = (*scenario.members, *scenario.later)
        node_of = description.placement.node_of
        self.nodes = dict.fromkeys(node_of(self.parameters, name) for name in self.processes) if node_of is not None else {}
        self.groups = groups_ever(scenario.groups, scenario.fault)

    def all(self) -> None:
        for number, name in enumerate(self.scenario.verify):
            if name not in PROPERTIES:
                self.reader.fail(("verify", number), f'there is no property "{name}"; {nearest(name, PROPERTIES)}')
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
        if self.description.placement.memory is None:
            self._no_memory()
        else:
            self._memory(self.description.placement.memory(self.parameters).copies)
        self._units()
        if not self.description.changes(self.parameters):
            self._no_changes()
        if not self.description.proposes(self.parameters):
            self._no_proposals()
        if self.description.lossless(self.scenario.parameters):
            self._lossless()

    def _groups(self) -> None:
        for number, name in enumerate(self.scenario.later):
            if name in self.scenario.members:
                self.reader.fail(("later", number), f'"{name}" is named twice: it is a member from the start already')
        members = frozenset(self.scenario.members)
        for group, names in self.scenario.groups.items():
            for number, name in enumerate(names):
                if name not in members:
                    hint = nearest(name, self.scenario.members)
                    self.reader.fail(("groups", group, number), f'"{name}" of group {group} is not among the members; {hint}')
        if self.description.placement.idle:
            return
        in_groups = {name for names in self.scenario.groups.values() for name in names}
        for number, name in enumerate(self.scenario.members):
            if name not in in_groups:
                self.reader.fail(("members", number), f'"{name}" is in no group; name it in [groups] or leave it out of members')

    def _no_changes(self) -> None:
        """Groups that are formed once and stay so."""
        name, scenario = self.description.name, self.scenario
        other = "set other parameters, or take another protocol"
        fixed = f"with these parameters the groups of {name} do not change"
        dies = f"with these parameters {name} does not survive"
        if scenario.later:
            self.reader.fail(("later",), f"{fixed}, so nobody can join them later; leave `later` out, {other}")
        for number, fault in enumerate(scenario.fault):
            path = ("fault", number, "kind")
            if fault.kind in ("crash", "disk", *_ON_NODES):
                self.reader.fail(path, f"{dies} a crash: {_WAIT}; leave the fault out, {other}")
            if fault.kind in ("restart", "join", "leave"):
                self.reader.fail(path, f"{fixed}, so there can be no {fault.kind}; leave the fault out, {other}")
        for kind in ("crash", "disk", *_ON_NODES):
            if getattr(scenario.random, kind):
                self.reader.fail(("random", kind), f"{dies} crashes: {_WAIT}; set it to 0, {other}")
        if scenario.random.leave:
            self.reader.fail(("random", "leave"), f"{fixed}, so nobody can leave them; set it to 0, {other}")
        if scenario.random.restart_halted:
            self.reader.fail(("random", "restart_halted"), f"{fixed}, so nobody can come back to them; set it to 0, {other}")

    def _no_proposals(self) -> None:
        for number, fault in enumerate(self.scenario.fault):
            if fault.kind in _PROPOSES:
                self.reader.fail(
                    ("fault", number, "kind"),
                    f"with these parameters processes of {self.description.name} do not form, close or rename groups while they "
                    f"run, so there can be no {fault.kind}; leave the fault out, set other parameters, or take another protocol",
                )

    def _lossless(self) -> None:
        """A protocol that was told that the network is a lossless stream."""
        network, told = self.scenario.network, 'is what parameters.transport = "fifo" excludes'
        links = (((), network), *((("link", number), link) for number, link in enumerate(network.link)))
        for path, link in links:
            for rate in ("loss", "duplicate", "reorder", "corrupt"):
                if getattr(link, rate):
                    self.reader.fail(("network", *path, rate), f'{rate} {told}; set it to 0, or take transport = "lossy"')
            if link.delay.kind != "constant":
                hint = 'write a single duration, or take transport = "lossy"'
                self.reader.fail(("network", *path, "delay"), f"a delay that varies lets packets overtake, which {told}; {hint}")
        for number, fault in enumerate(self.scenario.fault):
            if fault.kind in _LOSES:
                what, remedy = _LOSES[fault.kind], 'leave it out, or take transport = "lossy"'
                self.reader.fail(("fault", number, "kind"), f"{what} {told}; {remedy}")
        for kind, what in _LOSES.items():
            if getattr(self.scenario.random, kind, 0):
                self.reader.fail(("random", kind), f'{what} {told}; set it to 0, or take transport = "lossy"')

    def _no_memory(self) -> None:
        """A protocol that sends packets."""
        name = self.description.name
        only = f"{name} sends packets and has no common memory"
        other = "or take a protocol on common memory"
        if self.document.get("memory"):
            self.reader.fail(("memory",), f"{only}; leave [memory] out, {other}")
        for number, fault in enumerate(self.scenario.fault):
            if fault.kind in _IN_MEMORY:
                path = ("fault", number, "kind")
                self.reader.fail(path, f"{only}, so there can be no fault of kind {fault.kind}; leave it out, {other}")
        for kind in _IN_MEMORY:
            if getattr(self.scenario.random, kind):
                self.reader.fail(("random", kind), f"{only}, so there can be no faults of kind {kind}; set it to 0, {other}")

    def _memory(self, copies: int) -> None:
        """A protocol on common memory: modules that exist, and packets only of who is elsewhere."""
        for number, fault in enumerate(self.scenario.fault):
            if fault.module > copies:
                path = ("fault", number, "module")
                self.reader.fail(path, f"there is no module {fault.module}; with these parameters there are {copies}")
        if self.description.placement.remote(self.parameters) or (
            self.nodes and self.description.placement.lans(self.parameters)
        ):
            return
        only = f"with these parameters nobody sends packets with {self.description.name}"
        for number, fault in enumerate(self.scenario.fault):
            if fault.kind in _ON_NETWORK:
                path = ("fault", number, "kind")
                self.reader.fail(path, f"{only}, so a fault of kind {fault.kind} would do nothing; leave it out")
        for kind in _ON_NETWORK:
            if getattr(self.scenario.random, kind, 0):
                self.reader.fail(("random", kind), f"{only}, so faults of kind {kind} would do nothing; set it to 0")

    def _units(self) -> None:
        """Nodes, processors and networks: those that exist, and where there are any."""
        description, parameters = self.description, self.parameters
        processors = dict.fromkeys(description.placement.processor_of(parameters, name) for name in self.processes)
        lans = description.placement.lans(parameters)
        for number, fault in enumerate(self.scenario.fault):
            path: Path = ("fault", number)
            if not self.nodes and (fault.kind in _ON_NODES or fault.node):
                key = fault.kind if fault.kind in _ON_NODES else "node"
                self.reader.fail((*path, key), f"the processes of {description.name} are not on nodes; leave it out")
            if fault.node and fault.node not in self.nodes:
                self.reader.fail((*path, "node"), f'there is no node "{fault.node}"; {nearest(fault.node, self.nodes)}')
            if fault.kind == "module" and len(self.nodes) > 1 and not fault.node:
                self.reader.fail(path, f'there are {len(self.nodes)} nodes, so a module needs "node": in which of them it is')
            if fault.processor and fault.processor not in processors:
                hint = nearest(fault.processor, processors)
                self.reader.fail((*path, "processor"), f'there is no processor "{fault.processor}"; {hint}')
            if fault.lan > lans:
                self.reader.fail((*path, "lan"), f"there is no network {fault.lan}; with these parameters there are {lans}")
        random = self.scenario.random
        for kind in _ON_NODES:
            if getattr(random, kind) and not self.nodes:
                self.reader.fail(("random", kind), f"the processes of {description.name} are not on nodes; set it to 0")
        if random.lan and lans < 2:
            self.reader.fail(("random", "lan"), "the only network never crashes by chance; set it to 0, or let there be two")
        if random.node and random.keep_nodes >= len(self.nodes):
            self.reader.fail(
                ("random", "keep_nodes"),
                f"of {len(self.nodes)} nodes {random.keep_nodes} are kept, so none could crash; keep fewer, or set node to 0",
            )

    def _network(self) -> None:
        network = self.scenario.network
        if network.shared and not network.bandwidth:
            self.reader.fail(
                ("network", "shared"), "a shared medium needs a bandwidth: write bandwidth = 10_000_000 for 10 Mbit/s"
            )
        self._once_each(network.machines, ("network", "machines"), "machine", "machines")
        for number, link in enumerate(network.link):
            path = ("network", "link", number)
            self._process(link.source, (*path, "source"))
            self._process(link.target, (*path, "target"))
            if not link.source and not link.target:
                self.reader.fail(
                    path, "a [[network.link]] needs a source, a target or both; what holds for all links goes into [network]"
                )

    # --- workload ---

    def _workload(self, workload: Workload, path: Path) -> None:
        for number, name in enumerate(workload.senders):
            self._process(name, (*path, "senders", number))
        if workload.group:
            self._group(workload.group, (*path, "group"))
        self._no_senseless_zero(path)
        if workload.closed and workload.rate:
            self.reader.fail(
                (*path, "closed"), "a workload is an open loop (rate) or a closed one (closed), not both; leave one of them out"
            )
        if workload.size == 0:
            self.reader.fail((*path, "size"), "size must be at least 1 byte")
        self._fits(workload, (*path, "size"))
        if workload.deadline:
            self._deadline(workload, (*path, "deadline"))
        self._within(workload.start, (*path, "start"), "sending begins")
        self._within(workload.stop, (*path, "stop"), "sending ends")
        if workload.stop and workload.stop <= workload.start:
            self.reader.fail(
                (*path, "stop"),
                f"sending stops at {format_duration(workload.stop)}, before it starts at {format_duration(workload.start)}",
            )

    def _fits(self, workload: Workload, path: Path) -> None:
        """Who only sends gets nothing back, and so does not see when a piece of a message has arrived."""
        room = self.description.placement.room
        most = room(self.parameters) if room is not None else self.scenario.network.max_packet
        only_send = self.description.placement.only_send(self.parameters)
        names = [name for name in workload.senders or self.processes if name in only_send]
        if names and workload.size > most:
            self.reader.fail(
                path,
                f"{names[0]} only sends, so its messages have at most {most} bytes, not {workload.size}: make them smaller, give "
                f"the protocol more room, or let it receive as well",
            )

    def _deadline(self, workload: Workload, path: Path) -> None:
        """Admission control has to know what comes: one message a period, or each message on its own."""
        if not self.description.admits(self.parameters):
            self.reader.fail(
                path,
                f"with these parameters {self.description.name} guarantees no deadlines; leave the deadline out, set other "
                f"parameters, or take a protocol with admission control (`plainchant protocols` lists them)",
            )
        if workload.closed or not workload.rate:
            self.reader.fail(
                path, "messages with a deadline are those of an open loop, whose periods are known: write rate = 10 instead"
            )
        if workload.arrivals == "regular" and workload.burst > 1:
            self.reader.fail(
                path,
                "a regular workload with a deadline sends one message a period: leave burst out, write several workloads, or "
                'take arrivals = "poisson", where each message is asked for on its own',
            )
        if workload.arrivals == "regular" and workload.deadline > int(SECOND / workload.rate):
            period = format_duration(int(SECOND / workload.rate))
            self.reader.fail(
                path,
                f"messages come every {period} and are due {format_duration(workload.deadline)} later, after the next one; make "
                f"the deadline at most that long, or the rate smaller",
            )

    def _no_senseless_zero(self, path: Path) -> None:
        """Zero means "no limit" here, but who writes it down means "none": only leaving the key out means no limit."""
        table = self._table(path)
        for key, without in (
            ("rate", "send as fast as accepted"),
            ("closed", "send in an open loop"),
            ("count", "send until the end"),
        ):
            if key in table and table[key] == 0:
                self.reader.fail(
                    (*path, key), f"{key} must be above 0; leave it out to {without}, or write workload = [] for no messages"
                )

    # --- faults ---

    def _fault(self, fault: Fault, path: Path) -> None:
        if not fault.kind:
            self.reader.fail(path, f"a fault needs a kind, one of: {', '.join(FAULTS)}")
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
            self.reader.fail(path, "a cut needs a source, a target or both")
        self._before_the_end(fault, path)
        self._membership(fault, path)

    def _new_name(self, fault: Fault, path: Path) -> None:
        """A group gets a name that no group has; one that was given up may be given again."""
        name, key = (fault.group, "group") if fault.kind == "form" else (fault.name, "name")
        given_up = any(
            other.kind in ("close", "rename") and other.group == name and other.at < fault.at for other in self.scenario.fault
        )
        if name in self.scenario.groups and not given_up:
            self.reader.fail((*path, key), f'there is a group "{name}" from the start; choose another name')

    def _before_the_end(self, fault: Fault, path: Path) -> None:
        """At the very end faults are over already: one there would silently not happen."""
        if fault.at >= self.scenario.duration:
            self.reader.fail(
                (*path, "at"),
                f"the {fault.kind} happens at {format_duration(fault.at)}, but the scenario lasts "
                f"{format_duration(self.scenario.duration)}; make duration longer or the time earlier",
            )

    def _membership(self, fault: Fault, path: Path) -> None:
        """Who is in cannot join and who is not cannot leave. Only what is certain before the run is refused."""
        if fault.group and fault.group not in self.scenario.groups:
            return
        groups = [fault.group] if fault.group else list(self.scenario.groups)
        is_in = all(fault.process in self.scenario.groups[group] for group in groups if not self._is_other(fault, group))
        kinds = {other.kind for other in self.scenario.fault if other.process == fault.process}
        if fault.kind == "join" and is_in and "leave" not in kinds and not self.scenario.random.leave:
            self.reader.fail(path, f'"{fault.process}" is a member from the start; name who joins in `later` instead')
        if fault.kind == "leave" and fault.process in self.scenario.later and "join" not in kinds:
            self.reader.fail(path, f'"{fault.process}" is not a member: it needs a fault of kind join before it can leave')

    def _is_other(self, fault: Fault, group: str) -> bool:
        """A group that the fault leaves alone: a member that names no group joins its own groups, not all."""
        mine = any(fault.process in names for names in self.scenario.groups.values())
        return not fault.group and mine and fault.process not in self.scenario.groups[group]

    def _has_its_keys(self, fault: Fault, path: Path) -> None:
        table = self._table(path)
        allowed = fault_keys(fault.kind)
        for key in table:
            if key not in allowed:
                self.reader.fail((*path, key), f'a fault of kind {fault.kind} has no "{key}"; it has: {", ".join(allowed[1:])}')
        defaults = {field.name: field.default for field in dataclasses.fields(Fault)}
        for key in _NEEDS[fault.kind]:
            missing = key not in table if key == "at" else getattr(fault, key) == defaults[key]
            if missing:
                self.reader.fail(path, f'a fault of kind {fault.kind} needs "{key}" ({_about(key)})')
        if fault.kind == "crash":
            self._crash_has_a_moment(fault, table, path)

    def _crash_has_a_moment(self, fault: Fault, table: Document, path: Path) -> None:
        if fault.after_events and fault.at:
            self.reader.fail(
                (*path, "after_events"), "a crash is at a time or after so many events, not both; leave one of them out"
            )
        if fault.after_events and fault.process in self.scenario.later:
            self.reader.fail(
                (*path, "after_events"),
                f'"{fault.process}" is not there at the start, so that its events cannot be counted; crash it at a time',
            )
        if not fault.after_events and not fault.mid_broadcast and "at" not in table:
            self.reader.fail(path, 'a fault of kind crash needs "at", "after_events" or "mid_broadcast" to say when')

    # --- shared ---

    def _once_each(self, parts: tuple[tuple[str, ...], ...], path: Path, one: str, several: str) -> None:
        """Lists of processes that have nobody in common."""
        seen: dict[str, int] = {}
        for number, part in enumerate(parts):
            inside = (*path, number)
            if not part:
                self.reader.fail(inside, f"a {one} is empty; name its processes or leave it out")
            for position, name in enumerate(part):
                self._process(name, (*inside, position))
                if name in seen:
                    where = "twice" if seen[name] == number else f"in {several} {seen[name] + 1} and {number + 1}"
                    self.reader.fail((*inside, position), f'"{name}" is {where}; a process is in one {one}')
                seen[name] = number

    def _process(self, name: str, path: Path) -> None:
        """Empty or a known process. A scenario cannot know incarnations: the process stands for the one that runs."""
        place = place_of(name)
        if place != name and place in self.processes:
            self.reader.fail(path, f'{dotted(path)}: write "{place}", which means whichever incarnation of it runs then')
        if name and name not in self.processes:
            self.reader.fail(path, f'{dotted(path)}: there is no process "{name}"; {nearest(name, self.processes)}')

    def _packet(self, name: str, path: Path) -> None:
        """Empty or a kind of packet of the protocol."""
        known = [packet.__name__ for packet in self.description.packets]
        if name and name not in known:
            hint = f"there are: {', '.join(known)}" if known else "it has none"
            self.reader.fail(path, f'{dotted(path)}: {self.description.name} has no packet "{name}"; {hint}')

    def _group(self, name: str, path: Path) -> None:
        if name not in self.groups:
            self.reader.fail(path, f'{dotted(path)}: there is no group "{name}"; {nearest(name, self.groups)}')

    def _within(self, moment: Duration, path: Path, what: str) -> None:
        if moment > self.scenario.duration:
            self.reader.fail(
                path,
                f"{what} at {format_duration(moment)}, but the scenario lasts "
                f"{format_duration(self.scenario.duration)}; make duration longer or the time earlier",
            )

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
