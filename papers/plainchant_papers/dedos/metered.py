"""Runs of ``dedos``, and of the flat ``sequencer`` on the same network: what is on the LAN, what is done in memory, and times.

A :class:`Meter` stands between every process's host and engine, and counts during a window of time: packets whose destinations
are on another node (what stays on a node is no packet on the LAN), the bytes that ``wire`` makes of them, and how long these
occupy an Ethernet of 100 Mbit/s. A :class:`Run` also asks the paper's lemmas (``watch``) if its plan says so.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, Final

import pyarrow as pa

from plainchant.core.engine import Engine, Host, Layer
from plainchant.core.memory import Operate
from plainchant.core.model import MS, US, Packet, ProcessId
from plainchant.core.wire import Codec
from plainchant.protocols.dedos.nodes_packets import NewGroup
from plainchant.protocols.registry import describe
from plainchant.sim import Summary
from plainchant.sim.host import SimHost
from plainchant.sim.memory import SimMemory
from plainchant.sim.scripted import Script, ScriptedSimulation
from plainchant.trace import TraceBuffer

from ..runs import came_to_rest, rows_of, violated
from .towns import Plan, frame_time, node
from .variants import variant
from .watch import Lemmas

PROMISES: Final = ("integrity", "fifo", "identical", "validity", "agreement")


class Meter:
    """Counts during a window."""

    def __init__(self, one: Plan) -> None:
        self.one = one
        self.packets: Counter[str] = Counter()  # On the LAN, by kind.
        self.bytes: Counter[str] = Counter()  # Theirs, by kind, without headers.
        self.lan_time = 0.0  # How long the LAN was occupied, µs.
        self.interrupts: Counter[str] = Counter()  # Packets from other nodes that processes handled, by process.
        self.sent: Counter[str] = Counter()  # Packets to other nodes, by process.
        self.operations: Counter[str] = Counter()  # On shared memory, by name.
        self.hails: dict[str, int] = {}  # When each node has asked for a new group, the first time.
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
        self.engines: dict[ProcessId, Any] = {}  # What each process ran.
        self.lemmas = Lemmas()
        trace = TraceBuffer()
        seats = {f"{process} seat": 0.0 for process in one.seated}
        script = Script(seats, usual=None) if seats else None
        with variant(*one.variants).applied():
            self.simulation = ScriptedSimulation(script, one.scenario, trace=trace, make=self._make, watch=self._watch)
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

    def _watch(self, host: SimHost, request: Operate, memory: SimMemory) -> None:
        self.meter.operated(request, host.now)
        if self.one.lemmas:
            self.lemmas(host, request, memory)

    @property
    def violated(self) -> tuple[str, ...]:
        """Promises that are not kept; ``rest`` if it did not come to rest."""
        return (*violated(self.table, PROMISES), *(() if came_to_rest(self.summary) else ("rest",)))

    def latencies(self, begin: float = 0, end: float = 1 << 50) -> list[float]:
        """From each send between these times (ms) to each of its deliveries, in µs."""
        deliver = self.table.filter(pa.compute.equal(self.table["kind"], "deliver"))
        pairs = zip(deliver["true_time"].to_pylist(), deliver["sent"].to_pylist(), strict=True)
        return [(time - sent) / US for time, sent in pairs if begin * MS <= sent < end * MS]

    def relays(self, at: float) -> dict[str, ProcessId]:
        """The relay of each node at a time (ms), as its processes have noted it."""
        rows = [
            row for row in rows_of(self.table, "state") if row["detail"].get("state") == "relay" and row["true_time"] < at * MS
        ]
        rows.sort(key=lambda row: int(row["true_time"]))
        return {row["detail"]["node"]: row["detail"]["relay"] for row in rows}

    @property
    def started(self) -> int:
        """How many distributors were started, the first one included."""
        return sum(row["detail"].get("stage") == "start" for row in rows_of(self.table, "elect"))

    def distributor(self, group: str = "g") -> ProcessId:
        """The last one that was started."""
        rows = [row for row in rows_of(self.table, "elect") if row["group"] == group and row["detail"].get("stage") == "start"]
        return str(max(rows, key=lambda row: row["true_time"])["process"])
