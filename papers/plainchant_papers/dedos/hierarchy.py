"""Where the hierarchy pays: ``dedos`` against the flat ``sequencer``, with one member a process, on the same LAN.

In both, processes of a node reach each other without the LAN, and a packet to several nodes is one broadcast. ``sequencer`` has
its own parameters by default, with a word of every member every 20 ms, where ``dedos`` has one of every node every 100 ms. So it
is also shown with :data:`ALIKE`, in which members are heard as rarely as nodes are; then crashes are noticed as late, too.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from statistics import mean
from typing import Any, Final

from plainchant.core.model import MS, US, Duration

from ..claims import Context, Figure, Series, Table
from ..runs import fault, rows_of
from .metered import Run
from .towns import FORMED, LOADED, Plan, load, node, plan, town

RATE: Final = 200.0  # Messages a second, of all senders together.
ALIKE: Final[Mapping[str, Any]] = {
    "heartbeat": Duration(100 * MS), "quiet_after": Duration(100 * MS), "suspect_after": Duration(550 * MS),
    "patience": Duration(2000 * MS),
}  # fmt: skip
"""Parameters with which members of the sequencer speak as often as nodes of dedos do."""
PROTOCOLS: Final = ("dedos", "sequencer", "sequencer alike")


def parameters_of(protocol: str, nodes: int, members: int) -> dict[str, Any]:
    """In dedos two processes of each node are networked: its relay, and one that can take over."""
    if protocol == "dedos":
        networked = tuple(name for number in range(min(2, members)) for name in town(nodes, members)[number::members])
        return {"places": members + 1, "room": 65536, "networked": networked}
    return dict(ALIKE) if protocol == "sequencer alike" else {}


def steady(protocol: str, nodes: int, members: int, seconds: float, rate: float = RATE) -> Plan:
    """One member of each node sends now and then, and nothing fails."""
    names = town(nodes, members)
    end = FORMED + 1000 * seconds
    return plan(
        names, load(names[1::members], rate, LOADED, end), length=end, drain=0, counted=(FORMED, end),
        protocol=protocol.split()[0], label=protocol, **parameters_of(protocol, nodes, members),
    )  # fmt: skip


@dataclasses.dataclass(frozen=True, slots=True)
class Cost:
    """What messages cost in one installation; a message's share of everything that happened meanwhile."""

    protocol: str
    nodes: int
    members: int
    messages: int
    packets: float  # On the LAN, a message.
    idle: float  # Those of them that would be there without messages (presents, dummy messages, announcements), a second.
    bytes: float
    lan_time: float  # µs a message.
    interrupts: float  # Packets that processes handle, a message.
    busiest: float  # Packets that the busiest process handles or sends, a message.
    operations: float  # On shared memory, a message.
    latency: float  # Mean of all deliveries, µs.
    worst: float


def cost_of(one: Plan) -> Cost:
    """Runs and counts."""
    run = Run(one)
    meter = run.meter
    begin, end = one.begin / MS, one.end / MS
    sends = sum(1 for row in rows_of(run.table, "send") if one.begin <= row["true_time"] < one.end)
    messages = max(sends, 1)
    busy = {name: meter.interrupts[name] + meter.sent[name] for name in one.scenario.members}
    # Those sent last may be under way when the run ends.
    latencies = run.latencies(begin, end - 50) or [0.0]
    where = {node(name) for name in one.scenario.members}
    quiet = sum(meter.packets[kind] for kind in ("Present", "NewGroup", "Announce"))
    return Cost(
        one.label, len(where), len(one.scenario.members) // len(where), sends, meter.packets.total() / messages,
        quiet * 1000 / (end - begin), meter.bytes.total() / messages, meter.lan_time / messages,
        meter.interrupts.total() / messages, max(busy.values()) / messages, meter.operations.total() / messages, mean(latencies),
        max(latencies),
    )  # fmt: skip


def sizes(context: Context) -> list[tuple[int, int]]:
    return context.of([(2, 2), (4, 4)], [(nodes, members) for nodes in (2, 4, 8, 16, 32) for members in (2, 4, 8, 16)])


def costs(context: Context) -> list[Cost]:
    """All installations, with each protocol."""
    seconds = context.of(0.3, 0.5)
    protocols = context.of(("dedos", "sequencer"), PROTOCOLS)
    # The largest first, so that no task is left with one of them in the end.
    wanted = sorted(sizes(context), key=lambda size: -size[0] * size[1])
    items = [steady(protocol, *size, seconds) for size in wanted for protocol in protocols]
    return sorted(context.sweep(cost_of, items), key=lambda cost: (cost.nodes, cost.members, cost.protocol))


_COMPARED: Final = ("packets", "lan_time", "interrupts", "busiest", "latency")


def ratios(found: Sequence[Cost], against: str = "sequencer") -> list[tuple[Any, ...]]:
    """For each installation: what the flat protocol needs, as a multiple of what the hierarchy needs."""
    flat = {(cost.nodes, cost.members): cost for cost in found if cost.protocol == against}
    return [
        (ours.nodes, ours.members, *(getattr(flat[ours.nodes, ours.members], name) / getattr(ours, name) for name in _COMPARED))
        for ours in found
        if ours.protocol == "dedos" and (ours.nodes, ours.members) in flat
    ]


def tables(found: Sequence[Cost]) -> tuple[Table, ...]:
    """Costs, and ratios."""
    measured = Table(
        f"what a message costs ({RATE:g} messages/s of 64 bytes in all, 100 Mbit/s, 100 µs one way)",
        ("nodes", "members a node", "protocol", "LAN packets", "LAN bytes", "LAN time (µs)", "packets handled", "busiest process",
         "memory operations", "mean latency (µs)", "worst (µs)"),
        [
            (cost.nodes, cost.members, cost.protocol, f"{cost.packets:.2f}", f"{cost.bytes:.0f}", f"{cost.lan_time:.1f}",
             f"{cost.interrupts:.1f}", f"{cost.busiest:.1f}", f"{cost.operations:.1f}", f"{cost.latency:.0f}",
             f"{cost.worst:.0f}")
            for cost in found
        ],
    )  # fmt: skip
    compared = [
        Table(
            f"{against} as a multiple of dedos (above 1 the hierarchy pays)",
            ("nodes", "members a node", "LAN packets", "LAN time", "packets handled", "busiest process", "latency"),
            [(row[0], row[1], *(f"{value:.2f}" for value in row[2:])) for row in rows],
        )
        for against in PROTOCOLS[1:]
        if (rows := ratios(found, against))
    ]  # fmt: skip
    return (measured, *compared)


def figures(found: Sequence[Cost]) -> tuple[Figure, ...]:
    """The ratio of LAN time and of packets that have to be handled, by the members of a node."""
    drawn = []
    for index, name, title in ((3, "lan-time", "time on the LAN"), (4, "handled", "packets handled")):
        against = "sequencer alike" if ratios(found, "sequencer alike") else "sequencer"
        rows = ratios(found, against)
        series = tuple(
            Series(f"{nodes} nodes", [row[1] for row in rows if row[0] == nodes], [row[index] for row in rows if row[0] == nodes])
            for nodes in sorted({row[0] for row in rows})
        )
        full = f"{against} as a multiple of dedos: {title}"
        drawn.append(Figure(f"hierarchy-{name}", full, "members a node", "ratio", series, log_x=True))
    return tuple(drawn)


# Recovery
CRASHES: Final = ("none", "receiver", "sender", "box", "relay", "distributor", "node", "distributor's node", "full history")
"""The last one is no crash: the distributor's history holds four messages, and more come before these are acknowledged."""
FLAT_CRASHES: Final = ("none", "receiver", "sender", "distributor", "node", "distributor's node")
"""The flat protocol's distributor is the sequencer; it has no boxes and no relays."""
CRASHED_AT: Final = FORMED + 200


@dataclasses.dataclass(frozen=True, slots=True)
class Crash:
    """Something crashes; messages are sent for ``after`` ms more. The second process of the second node sends. The first process
    of each node is its relay; that of the first node is the distributor, or the sequencer."""

    protocol: str
    kind: str
    nodes: int = 4
    members: int = 4
    at: float = CRASHED_AT
    after: float = 900.0
    every: float = 4.0  # From one message to the next, ms.
    seed: int = 0

    def plan(self) -> Plan:
        names = town(self.nodes, self.members)
        at = self.at
        faults = {
            "receiver": [fault("crash", at, process=names[-1])],
            "sender": [fault("crash", at, process=names[-2])],
            "box": [fault("module", at, module=1, node=node(names[-1]))],
            "relay": [fault("crash", at, process=names[-self.members])],
            "distributor": [fault("crash", at, process=names[0])],
            "node": self._whole_node(node(names[-1])),
            "distributor's node": self._whole_node(node(names[0])),
        }.get(self.kind, [])
        full = self.kind == "full history"
        every = 0.125 if full else self.every
        senders = [names[self.members + 1], *([names[-2]] if self.kind == "sender" else [])]
        streams = [load([name], 1000 / every, FORMED, at + self.after, arrivals="regular") for name in senders]
        first = names[:: self.members] if self.protocol == "dedos" else ()
        history = 4 if full else 1024
        room: dict[str, Any] = {"history": history, "elements": 1024} if self.protocol == "dedos" else {"history": history}
        return plan(
            names, *streams, length=at + self.after + 100, faults=faults, protocol=self.protocol.split()[0], seed=self.seed,
            label=f"{self.protocol}, {self.kind}", seated=first, **room, **parameters_of(self.protocol, self.nodes, self.members),
        )  # fmt: skip

    def _whole_node(self, where: str) -> list[Any]:
        if self.protocol == "dedos":
            return [fault("node", self.at, node=where)]
        return [fault("crash", self.at, process=name) for name in town(self.nodes, self.members) if node(name) == where]


@dataclasses.dataclass(frozen=True, slots=True)
class Recovery:
    """A crash, and how long it was felt; ms."""

    protocol: str
    kind: str
    usual: float  # The longest that a message took before the crash,
    stall: float  # and after it.
    noticed: float  # From the crash until its victims are out of the group, at everybody; -1: nobody is out.
    distributors: int  # How many were started, the first one included.
    violated: tuple[str, ...]
    nodes: int
    members: int
    halted: int  # Processes that had to stop though nothing of theirs crashed.


def recovery_of(one: Crash) -> Recovery:
    run = Run(one.plan())
    before = run.latencies(FORMED + 50, one.at - 20)
    after = run.latencies(one.at - 20)
    changes = [row for row in rows_of(run.table, "state") if row["detail"].get("state") == "change"]
    changes += [row for row in rows_of(run.table, "view") if row["detail"].get("left")]
    gone = [row["true_time"] / MS - one.at for row in changes if row["true_time"] > one.at * MS]
    usual, stall = max(before) * US / MS, max(after) * US / MS
    halted = sum(end.state == "halted" for end in run.summary.processes.values())
    return Recovery(
        one.protocol, one.kind, usual, stall, max(gone, default=-1.0), run.started, run.violated, one.nodes, one.members, halted
    )


def recoveries(context: Context) -> list[Recovery]:
    if context.quick:
        small = {"nodes": 3, "members": 3, "after": 60.0}
        kinds = ("none", "receiver", "sender", "box", "relay", "distributor", "full history")
        return context.sweep(recovery_of, [Crash("dedos", kind, **small) for kind in kinds])  # type: ignore[arg-type]
    items = [
        Crash(protocol, kind, at=CRASHED_AT + 7.3 * number, seed=number)
        for protocol in PROTOCOLS
        for kind in (CRASHES if protocol == "dedos" else FLAT_CRASHES)
        for number in range(5)
    ]
    return context.sweep(recovery_of, items)


FELT: Final = ((2, 2), (2, 16), (8, 8), (32, 2))  # Nodes and members of the installations in which crashes are compared by size,
FELT_KINDS: Final = ("receiver", "box", "relay", "distributor", "node", "distributor's node")  # and what crashes there.


def recoveries_by_size(context: Context) -> list[Recovery]:
    """The same, once each, in small and large installations."""
    if context.quick:
        return []
    items = [
        Crash(protocol, kind, nodes, members)
        for nodes, members in sorted(FELT, key=lambda size: -size[0] * size[1])
        for protocol in PROTOCOLS
        for kind in FELT_KINDS
        if protocol == "dedos" or kind in FLAT_CRASHES
    ]
    return context.sweep(recovery_of, items)


def size_table(found: Sequence[Recovery]) -> Table:
    """How long a crash is felt, by size."""
    by = {(one.protocol, one.kind, one.nodes, one.members): one for one in found}
    rows = []
    for protocol, kind in dict.fromkeys((one.protocol, one.kind) for one in found):
        cells = [by[protocol, kind, *size] for size in FELT]
        rows.append((protocol, kind, *("all stop" if one.halted else f"{one.stall:.1f}" for one in cells)))
    return Table(
        "the longest delivery after a crash, by the size of the installation (ms)",
        ("protocol", "what crashes", *(f"{nodes} nodes x {members}" for nodes, members in FELT)), rows,
    )  # fmt: skip


def recovery_table(found: Sequence[Recovery]) -> Table:
    rows = []
    for protocol, kind in dict.fromkeys((one.protocol, one.kind) for one in found):
        mine = [one for one in found if (one.protocol, one.kind) == (protocol, kind)]
        stalls = [one.stall for one in mine]
        noticed = [one.noticed for one in mine if one.noticed >= 0]
        times = (f"{max(one.usual for one in mine):.2f}", f"{mean(stalls):.1f}", f"{max(stalls):.1f}")
        rows.append((protocol, kind, len(mine), *times, f"{max(noticed):.0f}" if noticed else "-"))
    return Table(
        "what crashes, and how long it is felt: a message every 4 ms, 4 nodes with 4 members each (ms)",
        ("protocol", "what crashes", "runs", "longest before", "longest after, mean", "longest after", "out of the group"), rows,
    )  # fmt: skip
