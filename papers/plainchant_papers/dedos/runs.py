"""Runs of ``dedos``, and of the flat ``sequencer`` on the same network: what is on the LAN, what is done in memory, and times.

Theory of operation
-------------------
A :class:`Plan` is a scenario that can travel to a task. A :class:`Meter` stands between every process's host and engine, and
counts during a window of time: packets whose destinations are on another node (what stays on a node is no packet on the LAN), the
bytes that ``wire`` makes of them, and how long these occupy an Ethernet of 100 Mbit/s. Times of scenarios are in ms.

With lemmas, the seed's invariants (``protocols.dedos.invariants``) are asked after every operation on common memory. Processes
that do nothing just now, because they are paused, have not seen the results of their steps, and are left out.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import pyarrow as pa

from plainchant.core.engine import Engine, Host, Layer, PerGroup
from plainchant.core.memory import Operate
from plainchant.core.model import MS, SECOND, US, Duration, Packet, ProcessId
from plainchant.core.wire import Codec
from plainchant.lab.properties import verify
from plainchant.protocols.dedos import invariants
from plainchant.protocols.dedos.distributor import Distributor
from plainchant.protocols.dedos.engine import Dedos
from plainchant.protocols.dedos.intra import Intra
from plainchant.protocols.dedos.nodes_packets import NewGroup
from plainchant.protocols.registry import describe
from plainchant.scenario.model import Delay, Fault, Memory, Network, RandomFaults, Scenario, Workload
from plainchant.sim import Simulation, Summary
from plainchant.sim.host import SimHost
from plainchant.sim.memory import SimMemory
from plainchant.trace import TraceBuffer

from ..runs import milliseconds, rows_of
from .variants import variant

PROMISES: Final = ("integrity", "fifo", "identical", "validity", "agreement")
BANDWIDTH: Final = 100_000_000
HEADER: Final = 66
"""Bytes that a packet adds on the wire: UDP and IP 28, an Ethernet frame with preamble and gap 38."""
SMALLEST: Final = 84
"""Bytes of the smallest Ethernet frame, with preamble and gap."""
LAN: Final = Network(
    delay=Delay("constant", Duration(100 * US)), bandwidth=BANDWIDTH, shared=True, header=HEADER, minimum_frame=SMALLEST
)
LOADED: Final = 300.0
"""By then every group here has formed (ms): senders may begin. All of them send their first message at once."""
FORMED: Final = 700.0
"""By then that is over: counting may begin."""


def town(nodes: int, members: int) -> tuple[str, ...]:
    """Names of processes: so many on each of so many nodes.

    >>> town(2, 2)
    ('n0001.p01', 'n0001.p02', 'n0002.p01', 'n0002.p02')
    """
    return tuple(f"n{node:04d}.p{member:02d}" for node in range(1, nodes + 1) for member in range(1, members + 1))


def node(process: ProcessId) -> str:
    return process.partition(".")[0]


def frame_time(size: int) -> float:
    """How long a packet of so many bytes occupies the LAN, in µs."""
    return max(size + HEADER, SMALLEST) * 8 * SECOND / BANDWIDTH / US


# --- what is run ----------------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True, slots=True)
class Plan:
    """A run that can travel to a task."""

    scenario: Scenario
    variants: tuple[str, ...] = ()
    """By name: the rules that are taken out, and other choices (``variants``)."""
    begin: int = 0
    """The window in which is counted, ns;"""
    end: int = 1 << 62
    lemmas: bool = False
    """Whether the seed's invariants are asked."""
    handled: tuple[str, ...] = ()
    """Whose incoming packets are counted; none given: everybody's. It takes time with many nodes."""
    label: str = ""


def plan(
    members: Sequence[str],
    *workload: Workload,
    length: float,
    drain: float = 20_000,
    variants: Sequence[str] = (),
    groups: Mapping[str, tuple[str, ...]] | None = None,
    later: Sequence[str] = (),
    network: Network = LAN,
    memory: Mapping[str, Any] | None = None,
    faults: Sequence[Fault] = (),
    random_faults: RandomFaults | None = None,
    counted: tuple[float, float] | None = None,
    seed: int = 0,
    protocol: str = "dedos",
    lemmas: bool = False,
    handled: Sequence[str] = (),
    label: str = "",
    **parameters: Any,
) -> Plan:
    """A group of these processes, or several; ``counted`` is from when to when packets and operations are. Times in ms."""
    scenario = Scenario(
        protocol=protocol, name="reproduce", seed=seed, members=tuple(members), later=tuple(later), groups=dict(groups or {}),
        parameters=parameters, network=network, memory=Memory(**(memory or {})), workload=workload, fault=tuple(faults),
        random=random_faults if random_faults is not None else RandomFaults(), duration=milliseconds(length),
        drain=milliseconds(drain),
    )  # fmt: skip
    begin, end = (0, 1 << 62) if counted is None else (round(counted[0] * MS), round(counted[1] * MS))
    return Plan(scenario, tuple(variants), begin, end, lemmas, tuple(handled), label)


def load(
    senders: Sequence[str], rate: float, begin: float, end: float, *, size: int = 64, group: str = "", arrivals: str = "poisson"
) -> Workload:
    """So many messages a second, of all these senders together."""
    return Workload(
        senders=tuple(senders), rate=rate / len(senders), start=milliseconds(begin), stop=milliseconds(end), size=size,
        group=group, arrivals=arrivals,
    )  # fmt: skip


def message(sender: str, at: float, *, count: int = 1, size: int = 64, group: str = "") -> Workload:
    """Messages at a time, as many as wanted at once."""
    return Workload(senders=(sender,), closed=count, count=count, start=milliseconds(at), size=size, group=group)


# --- what came of it ------------------------------------------------------------------------------------------------


class Meter:
    """Counts during a window."""

    def __init__(self, one: Plan) -> None:
        self.one = one
        self.packets: Counter[str] = Counter()
        """On the LAN, by kind."""
        self.bytes: Counter[str] = Counter()
        """Theirs, by kind, without headers."""
        self.lan_time = 0.0
        """How long the LAN was occupied, µs."""
        self.interrupts: Counter[str] = Counter()
        """Packets from other nodes that processes handled, by process."""
        self.sent: Counter[str] = Counter()
        """Packets to other nodes, by process."""
        self.operations: Counter[str] = Counter()
        """On common memory, by name."""
        self.hails: dict[str, int] = {}
        """When each node has asked for a new group, the first time."""
        self._codec = Codec(describe(one.scenario.protocol).packets)
        self._broadcast = one.scenario.network.broadcast

    def _counts(self, now: int) -> bool:
        return self.one.begin <= now < self.one.end

    def sending(self, me: ProcessId, to: Sequence[ProcessId], packet: Packet, now: int) -> None:
        if isinstance(packet, NewGroup):
            self.hails.setdefault(node(me), now)
        if not self._counts(now):
            return
        home = node(me)
        elsewhere = sum(1 for name in to if node(name) != home)
        if not elsewhere:
            return
        copies = 1 if self._broadcast else elsewhere
        size = len(self._codec.encode(packet))
        self.packets[type(packet).__name__] += copies
        self.sent[me] += copies
        self.bytes[type(packet).__name__] += size * copies
        self.lan_time += frame_time(size) * copies

    def receiving(self, me: ProcessId, source: ProcessId, now: int) -> None:
        if self._counts(now) and node(me) != node(source):
            self.interrupts[me] += 1

    def operated(self, request: Operate, now: int) -> None:
        if self._counts(now):
            self.operations[request.name] += 1


class _Metered(Layer):
    """The layer that tells the meter."""

    def __init__(self, host: Host, meter: Meter, inside: Callable[[Host], Engine]) -> None:
        self._meter = meter
        super().__init__(host, inside)

    def send(self, to: Sequence[ProcessId], packet: Packet, lan: int = 0) -> None:
        self._meter.sending(self.me, to, packet, self.host.now)
        self.host.send(to, packet, lan)


class _Handled(_Metered):
    """Tells it of incoming packets, too."""

    def receive(self, source: ProcessId, packet: Packet) -> None:
        self._meter.receiving(self.me, source, self.host.now)
        self.inner.receive(source, packet)


class Run:
    """A finished run, with everything that can be read off it."""

    def __init__(self, one: Plan) -> None:
        self.one = one
        self.meter = Meter(one)
        self.engines: dict[ProcessId, Any] = {}
        """What each process ran."""
        self.broken: list[str] = []
        self.asked: Counter[str] = Counter()
        """How often each lemma was asked."""
        self.holes = 0
        """How often numbers in a mailbox had a gap."""
        trace = TraceBuffer()
        with variant(*one.variants).applied():
            self.simulation = Simulation(one.scenario, trace=trace, make=self._make, watch=self._watch)
            self.summary: Summary = self.simulation.run()
        self.table: pa.Table = trace.table()

    def _make(self, host: Host, parameters: Any) -> Engine:
        def inside(inner: Host) -> Engine:
            engine = describe(self.one.scenario.protocol).make(inner, parameters)
            self.engines[host.me] = engine
            return engine

        wanted = self.one.handled
        layer = _Handled if not wanted or host.me in wanted else _Metered
        return layer(host, self.meter, inside)

    # --- the seed's invariants --------------------------------------------------------------------------------------

    def _watch(self, host: SimHost, request: Operate, memory: SimMemory) -> None:
        self.meter.operated(request, host.now)
        if not self.one.lemmas or self.broken:
            return
        mailbox = memory.server.mailboxes.get(request.mailbox)
        if mailbox is None or not memory.working or request.mailbox.startswith("@"):
            return
        copy = mailbox.copies[min(memory.working) - 1]
        if self.simulation.parameters.reach == "node":
            self._ask_within(request.mailbox, copy)
        else:
            self._ask_between(request.mailbox, copy, node(host.me))

    def _listening(self) -> list[tuple[ProcessId, Any]]:
        return [
            (host.me, self.engines[host.me])
            for host in self.simulation.hosts
            if host.alive and not host.processor.busy and host.me in self.engines
        ]

    def _ask(self, name: str, wrong: list[str]) -> None:
        self.asked[name] += 1
        self.broken.extend(f"{name}: {sentence}" for sentence in wrong)

    def _ask_within(self, group: str, copy: Any) -> None:
        receivers: dict[ProcessId, Intra] = {}
        for me, engine in self._listening():
            assert isinstance(engine, PerGroup)
            member = engine.instances.get(group)
            if isinstance(member, Intra) and member.entry and not member.only_sends and not member.departing:
                receivers[me] = member
        for lemma in invariants.WITHIN:
            self._ask(lemma.__name__, lemma(copy, receivers))

    def _ask_between(self, group: str, copy: Any, where: str) -> None:
        members: dict[ProcessId, Any] = {}
        distributors: list[Distributor] = []
        for me, engine in self._listening():
            assert isinstance(engine, Dedos)
            member = engine.members.get(group)
            if member is not None and member.entered and not member.gone:
                members[me] = member
            if group in engine.distributors:
                distributors.append(engine.distributors[group])
        receivers = {me: member for me, member in members.items() if not member.only_sends}
        here = {me: member for me, member in receivers.items() if node(me) == where}
        for lemma in invariants.BETWEEN:
            self._ask(lemma.__name__, lemma(copy, here))
        stored = {me: member.number - member.sending for me, member in members.items() if node(me) == where}
        self._ask("sent_is_there", invariants.sent_is_there(copy, stored))
        self._ask("removed_is_read", invariants.acknowledged_is_read(copy.header().oldest - 1, receivers))
        self.holes += bool(invariants.consecutive(copy))
        for distributor in distributors:
            if distributor.starting or distributor.stopped:
                continue
            self._ask("history_consecutive", invariants.history_consecutive(distributor.history, distributor.next))
            for peer in distributor.peers.values():
                there = {me: member for me, member in receivers.items() if node(me) == peer.node}
                self._ask("acknowledged_is_read", invariants.acknowledged_is_read(peer.acked, there))

    # --- what is read off ---------------------------------------------------------------------------------------------

    @property
    def violated(self) -> tuple[str, ...]:
        """Promises that are not kept; ``rest`` if it did not come to rest."""
        found = [name for name, outcome in verify(self.table, PROMISES).properties.items() if outcome.violations]
        return (*found, *(() if self.summary.quiet or not self.summary.drained else ("rest",)))

    def latencies(self, begin: float = 0, end: float = 1 << 50) -> list[float]:
        """From each send between these times (ms) to each of its deliveries, in µs."""
        deliver = self.table.filter(pa.compute.equal(self.table["kind"], "deliver"))
        pairs = zip(deliver["true_time"].to_pylist(), deliver["sent"].to_pylist(), strict=True)
        return [(time - sent) / US for time, sent in pairs if begin * MS <= sent < end * MS]

    def distributor(self, group: str = "g") -> ProcessId:
        """The last one that was started."""
        rows = [row for row in rows_of(self.table, "elect") if row["group"] == group and row["detail"].get("stage") == "start"]
        return str(max(rows, key=lambda row: row["true_time"])["process"])
