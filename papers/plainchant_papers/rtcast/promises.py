"""Claims 74, 76 and 80 (Lemmas 3 and 7, 6.1): order and atomicity under instrumented failures, and of the minimal stack."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, Final

from plainchant.core.model import MS
from plainchant.scenario.model import Fault, Network, Scenario, Workload

from ..claims import Context, Measured, judge, totals
from ..observe import trace_of
from ..runs import ONE_MILLISECOND, fault, milliseconds, rows_of, violations
from .rings import BANDWIDTH, BEGIN, HEADER, Checked, checked, halts, instrumented, ring
from .variants import variant

_ORDER: Final = ("fifo", "causal", "identical", "total")
_ATOMICITY: Final = ("agreement", "view-atomicity", "sender-in-view")
_VIEWS: Final = ("view-order", "view-exclusion")
_CHECKED: Final = ("integrity", *_ORDER, *_ATOMICITY, *_VIEWS)
MINIMAL: Final[Mapping[str, Any]] = {"admission": False, "retransmissions": 0, "overtaking": False, "clocks": "none"}
LAN: Final = Network(delay=ONE_MILLISECOND.delay, bandwidth=BANDWIDTH, header=HEADER)


def checked_of(item: tuple[Scenario, str]) -> Checked:
    run, name = item
    return checked(run, _CHECKED, *variant(name))


def _runs(context: Context) -> list[Checked]:
    return context.sweep(checked_of, [(instrumented(seed), "") for seed in range(context.of(3, 40))])


def overtaking_of(item: tuple[int, bool]) -> int:
    """Members that stop in a run where nothing fails and packets overtake each other."""
    seed, held = item
    load = Workload(rate=30.0, arrivals="poisson", size=32, start=milliseconds(BEGIN))
    run = ring(5, load, length=BEGIN + 300, seed=seed, drain=0, admission=False, retransmissions=0, overtaking=held)
    return len(halts(trace_of(run)[0]))


def _told(runs: list[Checked]) -> str:
    crashes, omissions, halted, views, deliveries = totals(runs, "crashes", "omissions", "halted", "views", "deliveries")
    return (
        f"{len(runs)} runs, {crashes} crashes, {omissions} packets dropped, {halted} members that stopped themselves, "
        f"{views:,} views, {deliveries:,} deliveries"
    )


def _violations(runs: list[Checked], names: tuple[str, ...]) -> int:
    return sum(run.violations[name] for run in runs for name in names)


def _first(runs: list[Checked]) -> str:
    return next((f"; {run.first}" for run in runs if run.first), "")


def order(context: Context) -> Measured:
    runs = context.once("instrumented", _runs)
    seeds = range(context.of(2, 8))
    held, printed = (sum(context.sweep(overtaking_of, [(seed, hold) for seed in seeds])) for hold in (True, False))
    broken = _violations(runs, _ORDER)
    cases = sum(run.cases["total"] for run in runs)
    stuck = sum(not run.quiet for run in runs)
    return Measured(
        f"{_told(runs)}: {broken} violations of fifo, causal, identical and total order ({cases:,} cases of the last); {stuck} "
        f"runs never got quiet{_first(runs) if broken else ''}. Where nothing fails, but packets of different senders overtake "
        f"each other within d_max, {printed} of {5 * len(seeds)} members stop because of omissions that were none, if packets "
        f"are taken as they come; {held} if one that is early waits",
        judge(
            holds=not broken and not stuck and cases > 0 and not printed,
            nearly=not broken and not stuck and cases > 0 and not held,
        ),
        "among those who stay there is one order. But the proof says that messages are received in the order in which they "
        "are sent, which P2 and P3 do not give: N1's packet to B may take d_max while N1's token and N2's packet take less. "
        "Only a broadcast medium has that; elsewhere a packet that is early has to wait up to d_max",
        [run.row() for run in runs],
    )


@dataclasses.dataclass(frozen=True, slots=True)
class Announced:
    """A member dies while it announces that another one is dead."""

    rule: str
    stopped: int  # Survivors that stopped.
    violations: int


def dying(seed: int, more: Sequence[Fault] = ()) -> Scenario:
    """One of five crashes."""
    load = Workload(rate=40.0, arrivals="poisson", size=32, start=milliseconds(BEGIN))
    faults = [fault("crash", BEGIN + 50 + 1.7 * seed, process="p2"), *more]
    return ring(
        5, load, length=BEGIN + 300, seed=seed, network=ONE_MILLISECOND, faults=faults, admission=False, retransmissions=0
    )


def announced_of(item: tuple[int, str]) -> Announced:
    seed, name = item
    _, before = trace_of(dying(seed), *variant(name))
    suspicion = next(rows_of(before, "suspect"))
    at, announcer = suspicion["true_time"] / MS, suspicion["process"]
    run = dying(seed, [fault("crash", at - 0.001, process=announcer, mid_broadcast=True)])
    summary, table = trace_of(run, *variant(name))
    return Announced(name or "here", len(halts(summary)), violations(table, _CHECKED))


def atomicity(context: Context) -> Measured:
    runs = context.once("instrumented", _runs)
    seeds = context.of((10, 14), tuple(range(20)))
    ours, printed = (context.sweep(announced_of, [(seed, name) for seed in seeds]) for name in ("", "at once"))
    broken = _violations(runs, _ATOMICITY)
    views = _violations(runs, _VIEWS)
    cases = sum(run.cases["view-atomicity"] for run in runs)
    here, there = (sum(run.violations for run in found) for found in (ours, printed))
    return Measured(
        f"the runs of claim 74: {broken} violations of agreement, view-atomicity and sender-in-view ({cases:,} cases of "
        f"view-atomicity), {views} of view-order and view-exclusion{_first(runs) if broken + views else ''}. {len(ours)} "
        f"members that die while they announce that another one is dead: {here} violations; if a change becomes a view at "
        f"once, as printed, {there}",
        judge(holds=not broken and not views and not here and cases > 0),
        "who misses something stops, so that those who stay have everything. A member that dies while it announces a change "
        "may leave one survivor with it, which then stops, too: the lemma allows that, but an application there has seen a "
        "view that the others never have; here views wait until all of their members are heard to know them",
        [run.row() for run in runs],
    )


def minimal_of(seed: int) -> Checked:
    return checked(instrumented(seed, network=LAN, **MINIMAL), _CHECKED)


def minimal(context: Context) -> Measured:
    runs = context.sweep(minimal_of, range(context.of(2, 24)))
    broken = _violations(runs, _CHECKED)
    stuck = sum(not run.quiet for run in runs)
    cases = min(sum(run.cases[name] for run in runs) for name in ("total", "view-atomicity", "view-order"))
    return Measured(
        "the ring alone (no admission control, no retransmission, no clocks, nothing held) on a broadcast network: "
        f"{_told(runs)}; {broken} violations of order, atomicity and agreement, {stuck} runs that never got "
        f"quiet{_first(runs) if broken else ''}",
        judge(holds=not broken and not stuck and cases > 0),
        "the layers above and below give deadlines and spare members that would stop; consistency is the ring's own",
        [run.row() for run in runs],
    )
