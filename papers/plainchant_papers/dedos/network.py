"""Claims 103 to 106: latency with and without failures, broadcasts on the LAN, buffering, and the load of distributors."""

from __future__ import annotations

import dataclasses
from itertools import product
from statistics import mean
from typing import Final

from ..claims import Context, Figure, Measured, Table, curves, judge, rows
from ..runs import rows_of
from . import hierarchy, installation
from .hierarchy import cost_of, steady
from .metered import Run
from .towns import FORMED, LAN, LOADED, Plan, load, node, plan, town

# 103: latency
CALM: Final = ("none", "receiver", "sender", "node")  # Mailboxes and the distributor live, and so do relays;
LATE: Final = ("box", "distributor", "distributor's node", "full history")  # here something delivers late, as the paper says.
_MORE: Final = 2.0  # A delivery is late if it takes so many times as long as the longest without a failure.


def latency(context: Context) -> Measured:
    found, by_size = hierarchy.recoveries(context), hierarchy.recoveries_by_size(context)
    ours = [one for one in found if one.protocol == "dedos"]
    late = {kind: max(one.stall for one in ours if one.kind == kind) for kind in dict.fromkeys(one.kind for one in ours)}
    usual = max(one.usual for one in ours if one.kind != "full history")
    calm = all(late[kind] <= _MORE * usual for kind in CALM if kind in late)
    slow = all(late[kind] > _MORE * usual for kind in LATE if kind in late)
    bad = [one for one in ours if one.violated]
    told = ", ".join(f"{kind} {value:.2f}" for kind, value in late.items())
    return Measured(
        f"the longest delivery before any failure takes {usual:.2f} ms; in runs in which this crashes: {told}. Of {len(ours)} "
        f"runs {len(bad)} violate a promise",
        judge(holds=calm and slow and not bad and late["relay"] <= _MORE * usual, nearly=calm and slow and not bad),
        "crashes of senders, receivers and other nodes delay nobody; a mailbox, the distributor and a full history do, as 4.1 "
        "says. It forgets the intermediate: while a node has none its members get nothing, until the crash is noticed",
        rows(found, by_size),
        tables=(hierarchy.recovery_table(found), *([hierarchy.size_table(by_size)] if by_size else [])),
    )


# 104: broadcasts
def point_to_point(one: Plan) -> Plan:
    """The same without broadcasts."""
    network = dataclasses.replace(one.scenario.network, broadcast=False)
    return dataclasses.replace(one, scenario=dataclasses.replace(one.scenario, network=network), label="point to point")


def broadcasts(context: Context) -> Measured:
    counts = context.of((2, 4), (2, 4, 8, 16, 32))
    plans = [steady("dedos", nodes, 2, context.of(0.2, 0.5)) for nodes in counts]
    once, each = (context.sweep(cost_of, found) for found in (plans, [point_to_point(one) for one in plans]))
    compared = hierarchy.costs(context)
    pairs = list(zip(once, each, strict=True))
    less = {one.nodes for one, many in pairs if one.lan_time < many.lan_time}
    last, many = pairs[-1]
    flat = hierarchy.ratios(compared)
    times = {"broadcast": [one.lan_time for one in once], "point to point": [one.lan_time for one in each]}
    title = "time on the LAN of a message (µs)"
    figure = Figure("broadcast", title, "nodes", "µs", curves(counts, times), log_x=True, log_y=True)
    return Measured(
        "time on the LAN of a message, broadcast and point to point: "
        + ", ".join(f"{one.lan_time:.0f} and {two.lan_time:.0f} µs ({one.nodes} nodes)" for one, two in pairs)
        + f". Packets handled are {last.interrupts:.1f} and {many.interrupts:.1f} with {last.nodes} nodes. The flat sequencer "
        f"needs {min(row[3] for row in flat):.1f} to {max(row[3] for row in flat):.1f} times the time on the LAN, and "
        f"{min(row[4] for row in flat):.1f} to {max(row[4] for row in flat):.1f} times the packets handled",
        judge(holds=less >= {nodes for nodes in counts if nodes > 2}),
        "with two nodes there is one destination, and no difference; point to point grows with the number of nodes. Here a "
        "broadcast interrupts the relays only: who is not in the group, or not a relay, is not addressed",
        rows(once, each, compared),
        (figure, *hierarchy.figures(compared)),
        hierarchy.tables(compared),
    )


# 105: buffering
def lossy(loss: float, buffering: bool, seed: int, seconds: float) -> Plan:
    """Four nodes on a LAN that loses packets."""
    names = town(4, 2)
    end = LOADED + 1000 * seconds
    return plan(
        names, load(names, 400, LOADED, end), length=end, network=dataclasses.replace(LAN, loss=loss), seed=seed,
        variants=() if buffering else ("buffering",), label=f"{loss:g} {'kept' if buffering else 'discarded'}", places=4,
        misses=9,
    )  # fmt: skip


@dataclasses.dataclass(frozen=True, slots=True)
class Again:
    """A run, and what was sent again in it."""

    loss: float
    buffering: bool
    sent: int
    again: int  # Messages that the distributor has sent to a relay again.
    violated: tuple[str, ...]


def again_of(one: Plan) -> Again:
    run = Run(one)
    again = sum(1 for _ in rows_of(run.table, "retransmit"))
    return Again(one.scenario.network.loss, "buffering" not in one.variants, run.summary.messages_sent, again, run.violated)


def buffering(context: Context) -> Measured:
    losses = context.of((0.05,), (0.01, 0.02, 0.05, 0.1))
    seconds, seeds = context.of(0.2, 0.5), range(context.of(1, 10))
    found = context.sweep(again_of, [lossy(*each, seconds) for each in product(losses, (True, False), seeds)])

    def share(loss: float, kept: bool) -> float:
        mine = [one for one in found if (one.loss, one.buffering) == (loss, kept)]
        return sum(one.again for one in mine) / max(1, sum(one.sent for one in mine))

    kept, discarded = ([share(loss, each) for loss in losses] for each in (True, False))
    saved = all(one < other for one, other in zip(kept, discarded, strict=True))
    bad = sum(bool(one.violated) for one in found)
    told = ", ".join(
        f"{one:.2f} instead of {other:.2f} ({loss:.0%} lost)" for loss, one, other in zip(losses, kept, discarded, strict=True)
    )
    series = curves(losses, {"kept": kept, "discarded": discarded})
    return Measured(
        f"messages sent again for each that is sent (400/s, four nodes), if what comes early is kept instead of discarded: {told}"
        f"; {bad} of {len(found)} runs violate a promise",
        judge(holds=saved and not bad),
        "a gap lasts until the answer to a request is there; without a buffer everything that comes meanwhile is asked for, too",
        rows(found),
        (Figure("buffering", "messages sent again for each that is sent", "share of packets lost", "messages", series),),
    )


# 106: distributors
_NODES: Final = 4


def several(groups: int, variant: str, seconds: float) -> Plan:
    """So many groups, each with one member on each of four nodes; a process is in one group."""
    names = town(_NODES, groups)
    members = {f"g{number:02d}": tuple(name for name in names if int(name[-2:]) == number) for number in range(1, groups + 1)}
    end = FORMED + 1000 * seconds
    streams = [load(there, 40, LOADED, end, group=group) for group, there in members.items()]
    return plan(
        names, *streams, length=end, drain=0, groups=members, counted=(FORMED, end), variants=(variant,) if variant else (),
        places=max(4, groups + 1), label=variant or "a distributor a group",
    )  # fmt: skip


@dataclasses.dataclass(frozen=True, slots=True)
class Loads:
    """What nodes have to do."""

    label: str
    groups: int
    distributors: tuple[tuple[str, int], ...]
    handled: tuple[tuple[str, float], ...]  # Packets that each node has sent and handled, a message.

    @property
    def uneven(self) -> float:
        """How much more the busiest node has to do than the average one."""
        values = [value for _, value in self.handled]
        return max(values) / mean(values)


def loads_of(one: Plan) -> Loads:
    run = Run(one)
    nodes = sorted({node(name) for name in one.scenario.members})
    sends = max(1, sum(1 for row in rows_of(run.table, "send") if one.begin <= row["true_time"] < one.end))
    handled = dict.fromkeys(nodes, 0)
    for count in (run.meter.sent, run.meter.interrupts):
        for name, value in count.items():
            handled[node(name)] += value
    where = [node(run.distributor(group)) for group in one.scenario.groups]
    return Loads(
        one.label, len(one.scenario.groups), tuple((each, where.count(each)) for each in nodes),
        tuple((each, value / sends) for each, value in handled.items()),
    )  # fmt: skip


def distributors(context: Context) -> Measured:
    groups = context.of((4,), (4, 8, 16))
    seconds = context.of(0.2, 0.5)
    spread, alone = (
        context.sweep(loads_of, [several(count, variant, seconds) for count in groups]) for variant in ("", "one distributor")
    )
    model, checked, tables, figures = installation.checked(context)
    data = [*rows(spread, alone), *checked]
    columns = list(dict.fromkeys(column for row in data for column in row))
    pairs = list(zip(spread, alone, strict=True))
    better = all(one.uneven < other.uneven for one, other in pairs)
    even = all(max(count for _, count in one.distributors) <= 2 * one.groups / _NODES for one in spread)
    told = "; ".join(f"{one.groups} groups on {_NODES} nodes: {one.uneven:.2f} and {other.uneven:.2f}" for one, other in pairs)
    cells = [(one.groups, one.label, *(f"{value:.2f}" for _, value in one.handled)) for one in (*spread, *alone)]
    of_nodes = ("groups", "distributors", *(f"node {number + 1}" for number in range(_NODES)))
    return Measured(
        f"packets of the busiest node, as a multiple of the average, with a distributor a group and with one node for all: {told}"
        f". Distributors by node: {'; '.join(', '.join(str(count) for _, count in one.distributors) for one in spread)}. {model}",
        judge(holds=better and even),
        "a distributor handles every request and every acknowledgement of its group, so where it is makes the difference. What "
        "does not spread is the time on the LAN: every broadcast needs it once, whoever sends it",
        [{column: row.get(column, "") for column in columns} for row in data],
        figures,
        (Table("packets sent and handled, a message", of_nodes, cells), *tables),
    )
