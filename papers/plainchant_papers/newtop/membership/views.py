"""Claims 40 to 42 (6.2: VC1 to VC3) and 46 (6.4: signatures): runs with failures of all kinds, every one verified."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Any, Final

import pyarrow as pa

from plainchant.core.model import MS, ProcessId
from plainchant.lab.properties import verify
from plainchant.scenario.model import Scenario, Workload

from ...claims import Context, Measured, judge, rows, totals
from ...observe import trace_of
from ...runs import Views, fault, milliseconds, rows_of, views_of
from ..structures import ORDERS, faulty_run, members_of, scenario, small_structure
from ..variants import VARIANTS
from .costs import figures_of_changes, figures_of_discarded
from .examples import five

_CHECKED: Final = ("view-order", "view-atomicity", "sender-in-view", "disjoint-views")


@dataclasses.dataclass(frozen=True, slots=True)
class Checked:
    """What a run with failures came to."""

    order: str
    processes: int
    groups: int
    quiet: bool
    faults: int
    views: int  # Views that were installed, after the first ones.
    pairs: int  # Pairs of members of a group that lived to the end and never suspected each other,
    alike: int  # and those of them that installed the same views, from the first that both are in.
    changed: int  # Views that such pairs installed after that one.
    intervals: int  # Cases of two members with the same two consecutive views,
    unequal: int  # and those of them that delivered different messages in between.
    violations: Mapping[str, int]
    first: str


def check(item: tuple[Scenario, str]) -> Checked:
    """Runs a scenario, with the engine or a variant of it, and looks at its views."""
    run, name = item
    summary, table = trace_of(run, VARIANTS[name])
    views = views_of(table)
    alive = [process for process, end in summary.processes.items() if end.state == "alive"]
    result = verify(table, _CHECKED)
    atomicity = result.properties["view-atomicity"]
    violations = {name: result.properties[name].violations for name in _CHECKED}
    first = str(result.violations[0]) if result.violations else ""
    of_run = (str(run.parameters["order"]), len(run.members), len(run.groups), summary.quiet, len(summary.faults))
    changes = (sum(len(installed) - 1 for installed in views.values()), *_same_sequences(table, views, alive))
    return Checked(*of_run, *changes, atomicity.cases, atomicity.violations, violations, first)


def _same_sequences(table: pa.Table, views: Views, alive: Sequence[ProcessId]) -> tuple[int, int, int]:
    """VC1, by its definition: pairs that never suspected each other, those with equal views, and how many views these are."""
    suspected = {(row["group"], row["process"], row["detail"]["process"]) for row in rows_of(table, "suspect")}
    pairs = alike = changed = 0
    for one, other in combinations(alive, 2):
        for group in dict.fromkeys(group for _, group in views):
            if (one, group) not in views or (other, group) not in views:
                continue
            if {(group, one, other), (group, other, one)} & suspected:
                continue
            first, second = (_from_both(views[process, group], one, other) for process in (one, other))
            if first or second:
                pairs += 1
                alike += first == second
                changed += len(first) - 1 if first else 0
    return pairs, alike, changed


def _from_both(
    installed: Sequence[tuple[int, int, tuple[ProcessId, ...]]], one: ProcessId, other: ProcessId
) -> list[tuple[int, tuple[ProcessId, ...]]]:
    views = [(number, tuple(sorted(members))) for _, number, members in installed]
    first = next((place for place, (_, members) in enumerate(views) if {one, other} <= set(members)), len(views))
    return views[first:]


def checks(context: Context) -> list[Checked]:
    """The runs of claims 40 and 42."""
    seeds = range(context.of(5, 50))
    settings: tuple[Mapping[str, Any], ...] = ({}, {"same_view": True})
    return context.sweep(check, [(faulty_run(seed, order, **settings[seed % 2]), "") for order in ORDERS for seed in seeds])


def same_views(context: Context) -> Measured:
    runs = context.once("membership checks", checks)
    pairs, alike, changed, views, faults = totals(runs, "pairs", "alike", "changed", "views", "faults")
    broken = sum(run.violations["view-order"] for run in runs)
    most = max(run.processes for run in runs)
    stuck = sum(not run.quiet for run in runs)
    return Measured(
        f"{len(runs)} runs of 2 to {most} processes in 1 to 3 groups, {faults:,} faults, {views:,} views after the first: of "
        f"{pairs:,} pairs that live and never suspect each other {pairs - alike} install different views ({changed:,} views "
        f"compared); view-order, which also judges those who part, is violated {broken} times; {stuck} runs never got quiet",
        judge(holds=bool(pairs and changed) and alike == pairs and not broken and not stuck),
        "a detection is confirmed when everybody who is not in it suspects all of it, with the same last messages; and Remove "
        "has one place in the order of messages, or, where there is no such order, is waited for from everybody",
        [_row(run) for run in runs],
    )


def same_messages(context: Context) -> Measured:
    runs = context.once("membership checks", checks)
    intervals, unequal = totals(runs, "intervals", "unequal")
    outside = sum(run.violations["sender-in-view"] for run in runs)
    by_order = ", ".join(f"{order} {sum(run.intervals for run in runs if run.order == order):,}" for order in ORDERS)
    return Measured(
        f"the runs of claim 40: {intervals:,} times two members installed the same two consecutive views ({by_order}); {unequal} "
        f"times they delivered different messages in between; {outside} messages were delivered in a view without their sender",
        judge(holds=all(any(run.intervals for run in runs if run.order == order) for order in ORDERS) and not unequal + outside),
        "of what the failed sent, everybody counts the same: up to the smallest last block of all of them (total order), or what "
        "no message of the failed that is missing precedes (causal orders); the rest is replaced by null messages",
        [_row(run) for run in runs],
        context.once("discarded", figures_of_discarded),
    )


def _row(run: Checked) -> dict[str, Any]:
    return {**dataclasses.asdict(run), "violations": sum(run.violations.values())}


# 41: VC2
_SETTLED: Final = 4000  # ms from the last failure to when views are looked at.


@dataclasses.dataclass(frozen=True, slots=True)
class Gone:
    """A run in which some crash and the network falls apart for good."""

    order: str
    crashed: int
    parts: int
    memberships: int  # Live processes, group by group.
    stale: int  # Views at the end that have a process that crashed or is disconnected,
    smaller: int  # and those that lack one that lives and is connected.
    slowest: float  # From the last failure to the last view, ms.


def lasting(seed: int, order: str) -> Scenario:
    """Some crash, and the network falls into parts: at random moments, close to each other, and for good."""
    draw = random.Random(f"{seed}/{order}/lasting")
    groups = small_structure(draw)
    members = members_of(groups)
    crashed = draw.sample(members, draw.randrange(0, len(members)))
    shuffled = draw.sample(members, len(members))
    cuts = sorted(draw.sample(range(1, len(members)), min(draw.randrange(3), len(members) - 1)))
    parts = tuple(tuple(shuffled[low:high]) for low, high in zip((0, *cuts), (*cuts, len(members)), strict=True))
    faults = [fault("crash", draw.uniform(300, 900), process=name, mid_broadcast=draw.random() < 0.5) for name in crashed]
    if len(parts) > 1:
        faults.append(fault("partition", draw.uniform(300, 900), parts=parts))
    load = Workload(rate=30.0, arrivals="poisson", size=16)
    return scenario(groups, load, seed=seed, faults=faults, length=900 + _SETTLED, drain=0, order=order)


def gone_of(run: Scenario) -> Gone:
    summary, table = trace_of(run)
    crashed = {process for process, end in summary.processes.items() if end.state == "crashed"}
    parts = next((one.parts for one in run.fault if one.kind == "partition"), (run.members,))
    memberships = stale = smaller = last = 0
    for (process, group), installed in views_of(table).items():
        if process in crashed:
            continue
        connected = set(run.groups[group]).intersection(next(part for part in parts if process in part)) - crashed
        members = set(installed[-1][2])
        memberships += 1
        stale += bool(members - connected)
        smaller += bool(connected - members)
        last = max(last, installed[-1][0])
    slowest = max(0, last - max((int(one.at) for one in run.fault), default=0)) / MS
    return Gone(str(run.parameters["order"]), len(crashed), len(parts), memberships, stale, smaller, slowest)


def who_fails_leaves(context: Context) -> Measured:
    runs = context.sweep(gone_of, [lasting(seed, order) for order in ORDERS for seed in range(context.of(5, 30))])
    memberships, stale, smaller, crashed = totals(runs, "memberships", "stale", "smaller", "crashed")
    parted = sum(run.parts > 1 for run in runs)
    slowest = max(run.slowest for run in runs)
    figures, tables, times = context.once("changes", figures_of_changes)
    return Measured(
        f"{len(runs)} runs, {crashed} crashes of up to all but one, {parted} partitions into two or three parts, for good: of "
        f"{memberships:,} last views of live members {stale} have one that crashed or is cut off, {smaller} lack one that lives "
        f"and is connected; the last view comes {slowest:,.0f} ms after the last failure at the latest. {times}",
        judge(holds=bool(crashed and parted and memberships) and not stale and not smaller, nearly=not stale),
        "who is silent leaves a block incomplete, which nobody can do to a suspector for longer than omega; and time-silence, "
        "extended to idle groups, sees to it that there are blocks",
        rows(runs),
        figures,
        tables,
    )


# 46: signatures
def alone(run: Scenario) -> Scenario:
    """The same without anybody who joins: as in the thesis, views only get smaller."""
    return dataclasses.replace(
        run, random=dataclasses.replace(run.random, restart=0.0), parameters={**run.parameters, "merge_after": milliseconds(0)}
    )


def disjoint(context: Context) -> Measured:
    runs = [faulty_run(seed, order, signatures=True) for order in ORDERS for seed in range(context.of(3, 20))]
    ours = context.sweep(check, [(run, "") for run in runs])
    printed = context.sweep(check, [(alone(run), "counted signatures") for run in runs])
    joined = context.sweep(check, [(run, "counted signatures") for run in runs])
    (example,) = context.sweep(five, [("", "partition")])
    counts = [
        (sum(run.views for run in found), sum(bool(run.violations["disjoint-views"]) for run in found))
        for found in (ours, printed, joined)
    ]
    (views, shared), (smaller, repeated), (_, after_joining) = counts
    by_example = example.intersect and not example.signed_intersect
    return Measured(
        f"{len(runs)} runs each: with signatures from the view's identity two different views share one in {shared} ({views:,} "
        f"views after the first, with joins and merges); with the number of excluded processes, as printed, in {repeated} if "
        f"nobody joins ({smaller:,} views), in {after_joining} otherwise. In the example of 6.3.3 views "
        f"{'intersect' if example.intersect else 'do not intersect'} by their members, and "
        f"{'also' if example.signed_intersect else 'not'} by their signatures",
        judge(
            holds=bool(views and smaller) and by_example and not shared + repeated + after_joining,
            nearly=bool(views and smaller) and by_example and not shared + repeated,
        ),
        "as printed a count: it grows with each exclusion, but a group that somebody has joined again has a count that it has "
        "had. Taken from the view's identity instead (its formation, number and members) signatures never repeat",
        [
            {"signatures": rule, **_row(run)}
            for rule, found in (("identity", ours), ("count, nobody joins", printed), ("count", joined))
            for run in found
        ],
    )
