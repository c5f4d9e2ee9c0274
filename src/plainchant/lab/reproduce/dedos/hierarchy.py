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

from ....model import MS, US, Duration
from ..claims import Context, Figure, Series, Table
from ..runs import fault, rows_of
from .runs import FORMED, Plan, Run, load, node, plan, town

RATE: Final = 200.0
"""Messages a second, of all members together."""
ALIKE: Final[Mapping[str, Any]] = {
    "heartbeat": Duration(100 * MS), "quiet_after": Duration(100 * MS), "suspect_after": Duration(550 * MS),
    "patience": Duration(2000 * MS),
}  # fmt: skip
"""Parameters with which members of the sequencer speak as often as nodes of dedos do."""
PROTOCOLS: Final = ("dedos", "sequencer", "sequencer alike")


def parameters_of(protocol: str, members: int) -> dict[str, Any]:
    if protocol == "dedos":
        return {"places": members + 1, "room": 65536}
    return dict(ALIKE) if protocol == "sequencer alike" else {}


def steady(protocol: str, nodes: int, members: int, seconds: float, rate: float = RATE) -> Plan:
    """All members send now and then, and nothing fails."""
    names = town(nodes, members)
    end = FORMED + 1000 * seconds
    return plan(
        names, load(names, rate, FORMED - 100, end), length=end, drain=0, counted=(FORMED, end), protocol=protocol.split()[0],
        label=protocol, **parameters_of(protocol, members),
    )  # fmt: skip


@dataclasses.dataclass(frozen=True, slots=True)
class Cost:
    """What messages cost in one installation; a message's share of everything that happened meanwhile."""

    protocol: str
    nodes: int
    members: int
    messages: int
    packets: float
    """On the LAN, a message."""
    idle: float
    """Those of them that would be there without messages (presents, dummy messages, announcements), a second."""
    bytes: float
    lan_time: float
    """µs a message."""
    interrupts: float
    """Packets that processes handle, a message."""
    busiest: float
    """Packets that the busiest process handles or sends, a message."""
    operations: float
    """On common memory, a message."""
    latency: float
    """Mean of all deliveries, µs."""
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
        quiet * 1000 / (end - begin), meter.bytes / messages, meter.lan_time / messages,
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


def ratios(found: Sequence[Cost], against: str = "sequencer") -> list[tuple[Any, ...]]:
    """For each installation: what the flat protocol needs, as a multiple of what the hierarchy needs."""
    by = {(cost.nodes, cost.members, cost.protocol): cost for cost in found}
    rows = []
    for (nodes, members, protocol), ours in by.items():
        flat = by.get((nodes, members, against))
        if protocol == "dedos" and flat is not None:
            rows.append((
                nodes, members, flat.packets / ours.packets, flat.lan_time / ours.lan_time, flat.interrupts / ours.interrupts,
                flat.busiest / ours.busiest, flat.latency / ours.latency,
            ))
    return rows


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
        rows = ratios(found, "sequencer alike") or ratios(found)
        series = tuple(
            Series(
                f"{nodes} nodes", [row[1] for row in rows if row[0] == nodes], [row[index] for row in rows if row[0] == nodes]
            )
            for nodes in sorted({row[0] for row in rows})
        )
        drawn.append(
            Figure(f"hierarchy-{name}", f"flat sequencer against dedos: {title}", "members a node", "ratio", series, log_x=True)
        )
    return tuple(drawn)


# --- recovery -------------------------------------------------------------------------------------------------------

NODES: Final = 4
MEMBERS: Final = 4
CRASHES: Final = ("none", "receiver", "sender", "box", "relay", "distributor", "node", "distributor's node")
FLAT_CRASHES: Final = ("none", "receiver", "sender", "distributor", "node", "distributor's node")
"""The flat protocol's distributor is the sequencer; it has no boxes and no relays."""
_EVERY: Final = 4.0
"""A message every so many ms."""


def crash(protocol: str, kind: str, at: float, seed: int = 0) -> Plan:
    """Four nodes with four members each. The second process of the second node sends; the first process of the first node is the
    distributor, or the sequencer, and something crashes."""
    names = town(NODES, MEMBERS)
    sender = "n0002.p02"
    faults = {
        "none": [],
        "receiver": [fault("crash", at, process="n0003.p03")],
        "sender": [fault("crash", at, process="n0003.p02")],
        "box": [fault("module", at, module=1, node="n0003")],
        "relay": [fault("crash", at, process="n0003.p01")],
        "distributor": [fault("crash", at, process="n0001.p01")],
        "node": _whole_node(protocol, "n0003", at),
        "distributor's node": _whole_node(protocol, "n0001", at),
    }[kind]
    senders = [sender, "n0003.p02"] if kind == "sender" else [sender]
    streams = [load([name], 1000 / _EVERY, FORMED, at + 1500, arrivals="regular") for name in senders]
    room: dict[str, Any] = {"history": 1024, "elements": 1024} if protocol == "dedos" else {"history": 1024}
    return plan(
        names, *streams, length=at + 1700, faults=faults, protocol=protocol.split()[0], seed=seed, label=f"{protocol}, {kind}",
        **room, **parameters_of(protocol, MEMBERS),
    )  # fmt: skip


def _whole_node(protocol: str, where: str, at: float) -> list[Any]:
    if protocol == "dedos":
        return [fault("node", at, node=where)]
    return [fault("crash", at, process=name) for name in town(NODES, MEMBERS) if node(name) == where]


@dataclasses.dataclass(frozen=True, slots=True)
class Recovery:
    """A crash, and how long it was felt; ms."""

    protocol: str
    kind: str
    usual: float
    """The longest that a message took before the crash,"""
    stall: float
    """and after it."""
    noticed: float
    """From the crash until its victims are out of the group, at everybody; -1: nobody is out."""
    distributors: int
    """How many were started, the first one included."""
    violated: tuple[str, ...]


def recovery_of(item: tuple[str, str, float, int]) -> Recovery:
    protocol, kind, at, seed = item
    one = crash(protocol, kind, at, seed)
    run = Run(one)
    before = run.latencies(FORMED + 50, at - 50)
    after = run.latencies(at - 50, at + 1500)
    gone = [
        row["true_time"] / MS - at
        for name in ("state", "view")
        for row in rows_of(run.table, name)
        if row["true_time"] > at * MS and (row["detail"].get("gone") or row["detail"].get("left"))
    ]
    started = sum(row["detail"].get("stage") == "start" for row in rows_of(run.table, "elect"))
    return Recovery(
        protocol, kind, max(before) * US / MS, max(after) * US / MS, max(gone, default=-1.0), started, run.violated
    )


def recoveries(context: Context) -> list[Recovery]:
    moments = [FORMED + 200 + 7.3 * number for number in range(context.of(1, 10))]
    kinds = {"dedos": CRASHES, "sequencer": FLAT_CRASHES}
    if not context.quick:
        kinds["sequencer alike"] = FLAT_CRASHES
    items = [(protocol, kind, at, number) for protocol in kinds for kind in kinds[protocol] for number, at in enumerate(moments)]
    return context.sweep(recovery_of, items)


def recovery_table(found: Sequence[Recovery]) -> Table:
    rows = []
    for protocol, kind in dict.fromkeys((one.protocol, one.kind) for one in found):
        mine = [one for one in found if (one.protocol, one.kind) == (protocol, kind)]
        noticed = [one.noticed for one in mine if one.noticed >= 0]
        rows.append((
            protocol, kind, len(mine), f"{max(one.usual for one in mine):.2f}", f"{mean(one.stall for one in mine):.1f}",
            f"{max(one.stall for one in mine):.1f}", f"{max(noticed):.0f}" if noticed else "-",
        ))
    return Table(
        f"crashes, {NODES} nodes with {MEMBERS} members each, a message every {_EVERY:g} ms (ms)",
        ("protocol", "what crashes", "runs", "longest before", "longest after, mean", "longest after", "out of the group"),
        rows,
    )
