"""Claims 107 and 108: when nodes that come and go are known, and that there is no order between groups."""

from __future__ import annotations

import dataclasses
import random
from typing import Final

from plainchant.core.model import MS, US, Duration
from plainchant.scenario.model import Delay, Network

from ..claims import Context, Measured, judge, rows
from ..runs import fault, rows_of
from . import variants
from .metered import Run
from .towns import LOADED, Plan, load, node, plan, town

# 107: nodes
DELTA: Final = 50.0  # The longest time that a broadcast takes, ms.
ROUND: Final = 100.0  # From one present to the next: pi.


def changing(seed: int) -> Plan:
    """Five nodes, one that crashes and one that comes later; packets take up to a good part of delta, and none is lost."""
    draw = random.Random(f"nodes/{seed}")
    first = town(5, 1)
    later = "n0006.p01"
    faults = [
        fault("join", draw.uniform(500, 700), process=later),
        fault("crash", draw.uniform(1100, 1300), process=draw.choice(first)),
    ]  # fmt: skip
    network = Network(delay=Delay("uniform", Duration(1 * MS), Duration(round(0.9 * DELTA * MS))))
    return plan(
        first, length=1800, drain=0, later=(later,), network=network, faults=faults, seed=seed, variants=("told",), misses=1,
        delta=Duration(round(DELTA * MS)), present_every=Duration(round(ROUND * MS)), retry=Duration(200 * MS),
        label=f"nodes {seed}",
    )  # fmt: skip


@dataclasses.dataclass(frozen=True, slots=True)
class Noticed:
    """When all were told; ms."""

    seed: int
    joined: tuple[float, ...]  # From the new-group message until each of the others knows the new node.
    gone: tuple[float, ...]  # From the round in which the crashed node was silent until each of the others knows.
    late: tuple[float, ...]  # From the crash itself.
    others: int  # How many there are to be told of each.


def noticed_of(one: Plan) -> Noticed:
    run = Run(one)
    joins, crash = one.scenario.fault
    crashed, new = node(crash.process), node(joins.process)
    told: list[tuple[int, str, str]] = []
    for name, engine in run.engines.items():
        if node(name) != crashed or name == joins.process:
            told += variants.told(engine)
    begun = run.meter.hails[new]
    joined = [(time - begun) / MS for time, what, where in told if (what, where) == ("Appeared", new)]
    gone = [time / MS for time, what, where in told if (what, where) == ("Gone", crashed)]
    # Rounds are at identity + k pi, and the last identity before the crash is that of the join, T + delta.
    origin = begun / MS + DELTA
    rounds = [origin + ROUND * number for number in range(40)]
    silent = min(time for time in rounds if time >= crash.at / MS)
    return Noticed(
        one.scenario.seed, tuple(joined), tuple(time - silent for time in gone), tuple(time - crash.at / MS for time in gone), 5
    )


def nodes(context: Context) -> Measured:
    found = context.sweep(noticed_of, [changing(seed) for seed in range(context.of(2, 200))])
    joined = [time for one in found for time in one.joined]
    gone = [time for one in found for time in one.gone]
    late = [time for one in found for time in one.late]
    # The crashed node may have heard of the new one before; it is left out.
    everybody = all(len(one.joined) == 4 and len(one.gone) == one.others for one in found)
    in_time = max(joined, default=0) <= 2 * DELTA and max(gone, default=0) <= DELTA
    return Measured(
        f"{len(found)} runs with broadcasts that take up to {0.9 * DELTA:g} ms, delta {DELTA:g} ms: a node that joins is known "
        f"to all {min(joined, default=0):.1f} to {max(joined, default=0):.1f} ms after its new-group message, one that crashes "
        f"{min(gone, default=0):.1f} to {max(gone, default=0):.1f} ms after the round in which it is silent, that is "
        f"{min(late, default=0):.0f} to {max(late, default=0):.0f} ms after the crash; all others were told in "
        f"{'all' if everybody else 'not all'} runs",
        judge(holds=in_time and everybody),
        "everybody concludes a round at the same time of his clock, whenever packets have come; by default we wait for several "
        "silent rounds, because packets are lost, and it takes so much longer",
        [{"seed": one.seed, "joined": max(one.joined, default=-1.0), "gone": max(one.gone, default=-1.0)} for one in found],
    )


# 108: no order between groups
def two_groups(seed: int) -> Plan:
    """Two groups with the same two members, whose distributors are on different nodes or not."""
    names = ("n0001.p01", "n0002.p01")
    both = {"A": names, "B": names}
    network = Network(delay=Delay("uniform", Duration(100 * US), Duration(3 * MS)))
    streams = [load([sender], 100, LOADED, LOADED + 300, group=group) for group in both for sender in names]
    return plan(names, *streams, length=LOADED + 400, groups=both, network=network, seed=seed, label=f"groups {seed}")


@dataclasses.dataclass(frozen=True, slots=True)
class Interleaving:
    """What two members delivered in two groups."""

    seed: int
    messages: int
    same_within: bool  # In each group in the same order,
    same_between: bool  # and the groups interleaved in the same way.
    example: str  # Where they first differ.
    violated: tuple[str, ...]


def interleaving_of(one: Plan) -> Interleaving:
    run = Run(one)
    orders: dict[str, list[tuple[str, str, int]]] = {name: [] for name in one.scenario.members}
    for row in sorted(rows_of(run.table, "deliver"), key=lambda row: (row["true_time"], row["index"])):
        orders[row["process"]].append((row["group"], row["sender"], row["seq"]))
    first, second = orders.values()
    within = all([m for m in first if m[0] == group] == [m for m in second if m[0] == group] for group in one.scenario.groups)
    differs = next((number for number, pair in enumerate(zip(first, second, strict=False)) if pair[0] != pair[1]), None)
    example = ""
    if differs is not None:
        example = " and ".join(
            f"{name} delivers {' '.join(group for group, _, _ in order[max(0, differs - 2) : differs + 3])}"
            for name, order in orders.items()
        )
    return Interleaving(one.scenario.seed, len(first), within, differs is None, example, run.violated)


def between_groups(context: Context) -> Measured:
    found = context.sweep(interleaving_of, [two_groups(seed) for seed in range(context.of(2, 50))])
    different = [one for one in found if not one.same_between]
    clean = all(one.same_within and not one.violated for one in found)
    example = different[0].example if different else "none"
    return Measured(
        f"two members of the same two groups, {sum(one.messages for one in found):,} messages in {len(found)} runs: the groups "
        f"are interleaved differently in {len(different)} runs (messages of A and B: {example}), and within a group the order "
        f"differs in {sum(not one.same_within for one in found)}",
        judge(holds=clean and bool(different)),
        "each group has its own numbers and its own distributor, and nothing compares them; who wants one order over groups "
        "takes newtop",
        rows(found),
    )
