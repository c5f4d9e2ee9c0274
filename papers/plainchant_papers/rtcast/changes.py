"""Claims 67, 68 and 75 (4.5, Lemma 5): when P is voted on, how often it changes, and how soon views are equal; and how long it
takes to notice a crash and to get in.

Theory of operation
-------------------
*Noticed* is when a survivor first suspects the crashed member, *out* when a survivor installs a view without it, *in* when a
joiner installs its first view, from the moment that it begins to look for the group.
"""

from __future__ import annotations

import dataclasses
import statistics
from collections.abc import Sequence
from itertools import pairwise
from typing import Final

import pyarrow as pa

from plainchant.core.model import MS, ProcessId
from plainchant.lab.errors import LabError
from plainchant.scenario.model import Scenario, Workload
from plainchant.sim import Summary

from ..claims import Context, Figure, Measured, curves, judge, rows
from ..observe import trace_of
from ..runs import ONE_MILLISECOND, Given, fault, milliseconds, names, rows_of, views_of
from .rings import BEGIN, FULL, SIZES, instrumented, longest_rotation, ring, times_of

_FIVE: Final = 5
_KEPT: Final = 200.0  # For how long P is kept after a crash, in ms.


# 67, 68: P
SOON: Final = "back soon"
LATE: Final = "back late"
NEW: Final = "somebody new"


@dataclasses.dataclass(frozen=True, slots=True)
class Entered:
    """A run in which one process gets in."""

    kind: str
    entered: bool
    queries: int
    votes: int
    updates: int  # How often P changed after the crash, or the beginning, at a member that was there all the time.
    took: float  # From when it began to look for the group to its first view, ms.
    rotation: float  # P at the end, ms.


def entering(kind: str, seed: int) -> Scenario:
    """One of five crashes and comes back, before or after P was given back; or a sixth joins."""
    at = BEGIN + 50 + 7 * (seed % 10)
    back = at + (_KEPT / 2 if kind == SOON else 3 * _KEPT)
    if kind == NEW:
        faults = [fault("join", at, process="late")]
        back = at
    else:
        faults = [fault("crash", at, process="p3"), fault("restart", back, process="p3")]
    load = Workload(rate=20.0, arrivals="poisson", size=32, start=milliseconds(BEGIN))
    later = ("late",) if kind == NEW else ()
    return ring(_FIVE, load, length=back + 300, drain=0, seed=seed, faults=faults, later=later, reclaim_after=milliseconds(_KEPT))


def entered_of(item: tuple[str, int]) -> Entered:
    kind, seed = item
    run = entering(kind, seed)
    _, table = trace_of(run)
    joiner = "late" if kind == NEW else "p3#1"
    first = [row["true_time"] for row in rows_of(table, "view", joiner)]
    bounds = [row["detail"]["bound"] for row in rows_of(table, "token", "p1") if row["true_time"] >= run.fault[0].at]
    updates = sum(one != other for one, other in pairwise(bounds))
    took = (first[0] - run.fault[-1].at) / MS if first else 0.0
    kinds = table["kind"].to_pylist()
    return Entered(kind, bool(first), kinds.count("query"), kinds.count("udeliver"), updates, took, bounds[-1] / MS)


def _entries(context: Context) -> dict[str, list[Entered]]:
    seeds = range(context.of(1, 8))
    kinds = (SOON, LATE, NEW)
    found = iter(context.sweep(entered_of, [(kind, seed) for kind in kinds for seed in seeds]))
    return {kind: [next(found) for _ in seeds] for kind in kinds}


def no_query(context: Context) -> Measured:
    entries = context.once("entries", _entries)
    soon, others = entries[SOON], entries[LATE] + entries[NEW]
    asked = [sum(run.queries for run in runs) for runs in (soon, others)]
    took = [statistics.mean(run.took for run in entries[kind]) for kind in (SOON, LATE, NEW)]
    figure, times = context.once("times of changes", times_of_changes)
    return Measured(
        f"{len(soon)} rejoins while P is kept: {asked[0]} query rounds, in after {took[0]:.0f} ms; {len(entries[LATE])} after "
        f"P was given back, and {len(entries[NEW])} joins of a sixth: {asked[1]} query rounds with "
        f"{sum(run.votes for run in others)} votes, in after {took[1]:.0f} and {took[2]:.0f} ms. {times}",
        judge(holds=all(run.entered for run in (*soon, *others)) and not asked[0] and all(run.queries > 0 for run in others)),
        "the sponsor compares the rotation of the ring with the joiner in it to P, and asks only if it is longer; the round "
        "takes a rotation and more, since everybody votes in its turn",
        rows(soon, others),
        figure,
    )


def two_updates(context: Context) -> Measured:
    entries = context.once("entries", _entries)
    soon, late = entries[SOON], entries[LATE]
    updates = [sorted({run.updates for run in runs}) for runs in (soon, late)]
    return Measured(
        f"changes of P between a crash and the end of the run: {_list(updates[0])} if the member is back within "
        f"{_KEPT / 2:.0f} ms and P is kept for {_KEPT:.0f}; {_list(updates[1])} if it comes back after {3 * _KEPT:.0f} ms "
        f"({len(soon)} runs each)",
        judge(holds=updates == [[0], [2]] and all(run.entered for run in (*soon, *late))),
        "one update gives P back, another takes it again; who is back soon finds its place still reckoned with",
        rows(soon, late),
    )


def _list(values: Sequence[int]) -> str:
    return " or ".join(map(str, values))


# 75: views within a round
@dataclasses.dataclass(frozen=True, slots=True)
class Spread:
    """How much later than the first one members installed the same view."""

    retransmissions: int
    pairs: int  # A member that installs a view, and another one in it, both of which live for longer than the bound after that.
    late: int  # Those of them in which the other has not installed it, nor a later one, within the bound.
    longest: float  # The longest time between two of them, in rotations (P).
    outside: int  # Pairs that are not counted: the other one was to be let in by this view, and did not get in.


def spread_of(run: Scenario) -> Spread:
    summary, table = trace_of(run)
    times = times_of(run)
    bound = times["deliver"]
    views = views_of(table)
    ends = _ends(summary, table)
    pairs = late = longest = outside = 0
    for (one, group), installed in views.items():
        for when, number, members in installed:
            for other in members:
                if other == one or min(ends[one], ends.get(other, 0)) <= when + bound:
                    continue
                if views.get((other, group), [(0, 0, ())])[0][1] > number:
                    outside += 1
                    continue
                pairs += 1
                later = [at for at, known, _ in views.get((other, group), ()) if known >= number]
                gap = max(0, min(later) - when) if later else None
                late += gap is None or gap > bound
                longest = max(longest, gap or 0)
    return Spread(int(run.parameters["retransmissions"]), pairs, late, longest / times["rotation"], outside)


def _ends(summary: Summary, table: pa.Table) -> dict[ProcessId, int]:
    """When each process was last there."""
    gone = {process for process, end in summary.processes.items() if end.state != "alive"}
    ends = dict.fromkeys(summary.processes, summary.virtual_time)
    last: dict[ProcessId, int] = {}
    for process, at in zip(table["process"].to_pylist(), table["true_time"].to_pylist(), strict=True):
        last[process] = max(last.get(process, 0), at)
    return ends | {process: last[process] for process in gone}


def same_views(context: Context) -> Measured:
    seeds = range(context.of(1, 8))
    runs = context.sweep(spread_of, [instrumented(seed, retransmissions=r) for r in (0, 1, 2) for seed in seeds])
    pairs, late = sum(run.pairs for run in runs), sum(run.late for run in runs)
    longest = [max(run.longest for run in runs if run.retransmissions == r) for r in (0, 1, 2)]
    shown = ", ".join(f"{value:.2f} P (r = {r})" for r, value in enumerate(longest))
    return Measured(
        f"{len(runs)} runs with crashes, omissions and joins: {pairs:,} times a member installs a view with another one in it, "
        f"and both live for longer than (r + 1) P after that; {late} times the other one does not have it by then. The longest "
        f"time between the two: {shown}. Not counted: {sum(run.outside for run in runs)} times the other one was a joiner that "
        "did not get in",
        judge(holds=bool(pairs) and not late and all(value <= 1 for value in longest), nearly=bool(pairs) and not late),
        "a view waits until every member of the ring has been heard to know of it, so that nobody is far ahead; with "
        "retransmissions the change itself may come up to r rotations later, which the lemma, made without them, does not "
        "count. Who was to be let in and did not get every acknowledgement is as good as crashed, as in the lemma's proof",
        rows(runs),
    )


# How long it takes
@dataclasses.dataclass(frozen=True, slots=True)
class Crash:
    """One member of a ring crashes, ``moment`` (0 to 1) of a rotation after the measurement begins."""

    members: int
    moment: float
    idle: bool

    def run(self) -> Scenario:
        load = () if self.idle else (Workload(size=1000, start=milliseconds(BEGIN)),)
        rotation = longest_rotation(self.members, admission=False)
        at = BEGIN + rotation * (1 + self.moment)
        length = at + 4 * rotation + 50
        network = ONE_MILLISECOND if self.idle else FULL
        faults = [fault("crash", at, process=names(self.members)[self.members // 2])]
        return ring(
            self.members, *load, length=length, drain=0, network=network, faults=faults, admission=False, retransmissions=0
        )


@dataclasses.dataclass(frozen=True, slots=True)
class Noticed:
    """What came of it, in ms after the crash."""

    members: int
    idle: bool
    noticed: float
    out: float  # At the last survivor.
    rotation: float  # P,
    detection: float  # the bound on detection,
    printed: float  # and P as 4.2 has it, after which, by the paper, everybody can time out.


def noticed_of(crash: Crash) -> Noticed:
    run = crash.run()
    _, table = trace_of(run)
    name, at = run.fault[0].process, run.fault[0].at
    suspected = [row["true_time"] for row in rows_of(table, "suspect") if name in row["detail"]["processes"]]
    views = views_of(table)
    out = []
    for survivor in run.members:
        without = [when for when, _, members in views.get((survivor, "g"), ()) if when > at and name not in members]
        out += without[:1] if survivor != name else []
    if not suspected or len(out) < crash.members - 1:
        raise LabError(f"nobody, or not everybody, has noticed that {name} crashed: {crash}")
    bounds = [times_of(run)[name] / MS for name in ("rotation", "detection", "4.2")]
    return Noticed(crash.members, crash.idle, (min(suspected) - at) / MS, (max(out) - at) / MS, *bounds)


@dataclasses.dataclass(frozen=True, slots=True)
class Joined:
    """A process joins a ring of so many: how long it took, in ms."""

    members: int
    fits: bool  # Whether P had room for it: no query round.
    took: float
    rotation: float


def joined_of(item: tuple[int, bool, int]) -> Joined:
    members, fits, seed = item
    at = BEGIN + 50 + 3.7 * seed
    joiner = names(members)[-1] if fits else "late"
    faults = [fault("crash", at - 45, process=joiner), fault("restart", at + 200, process=joiner)] if fits else []
    faults = faults or [fault("join", at + 200, process=joiner)]
    rotation = longest_rotation(members, admission=False)
    given: Given = {"faults": faults, "later": () if fits else (joiner,), "network": ONE_MILLISECOND, "seed": seed}
    run = ring(members, length=at + 200 + 8 * rotation, drain=0, admission=False, retransmissions=0, **given)
    _, table = trace_of(run)
    name = f"{joiner}#1" if fits else joiner
    first = [row["true_time"] for row in rows_of(table, "view", name)]
    if not first:
        raise LabError(f"{name} does not get into a ring of {members} within eight rotations (seed {seed})")
    return Joined(members, fits, (first[0] - run.fault[-1].at) / MS, rotation)


def times_of_changes(context: Context) -> tuple[tuple[Figure, ...], str]:
    """How long it takes to notice a crash and to get in: figures, and the sentence that sums them up."""
    sizes = context.of((2, 4), SIZES)
    moments = context.of((0.4,), tuple(step / 3 for step in range(3)))
    crashes = context.sweep(
        noticed_of, [Crash(members, moment, idle) for idle in (True, False) for members in sizes for moment in moments]
    )
    joins = context.sweep(
        joined_of, [(members, fits, seed) for fits in (True, False) for members in sizes for seed in range(len(moments))]
    )

    def worst(idle: bool, name: str) -> list[float]:
        return [max(getattr(run, name) for run in crashes if (run.idle, run.members) == (idle, size)) for size in sizes]

    def slowest(fits: bool) -> list[float]:
        return [max(run.took for run in joins if (run.fits, run.members) == (fits, members)) for members in sizes]

    beyond = sum(run.out > run.detection for run in crashes)
    shown = {"idle ring": True, "full turns": False}
    times = {
        f"{label}, {where}": worst(idle, name)
        for where, idle in shown.items()
        for label, name in (("noticed", "noticed"), ("view", "out"))
    }
    times |= {"bound on detection here": worst(True, "detection")}
    entries = {"P has room for it": slowest(True), "query round": slowest(False), "P": worst(True, "rotation")}
    noticed = curves(sizes, times, {"printed: P of 4.2": worst(True, "printed")})
    title = "one member of n crashes: the longest time of all runs"
    detection = Figure("detection-by-size", title, "members (n)", "ms after the crash", noticed)
    title = "a process joins an idle ring of n: the longest time of all runs"
    joining = Figure("joining-by-size", title, "members (n)", "ms until its first view", curves(sizes, entries))
    return (detection, joining), (
        f"A crash in a ring of {sizes[-1]} with full turns is in everybody's view after {worst(False, 'out')[-1]:.0f} ms at the "
        f"latest (bound {worst(True, 'detection')[-1]:.0f}); above the bound in {beyond} of {len(crashes)} runs, "
        f"above P as 4.2 has it in {sum(run.out > run.printed for run in crashes)}"
    )
