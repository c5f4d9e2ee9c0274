"""Claim 47 (6.4): for how long senders are stopped with ``same_view``, against stopping at every suspicion.

Both rules run in the same engine, with the same seeds. A member is *blocked* from the row that says that it may not send because
of a view change to the one that says that it may again, or to the end of the run.
"""

from __future__ import annotations

import dataclasses
import statistics
from collections.abc import Callable, Mapping, Sequence
from typing import Final

import pyarrow as pa

from plainchant.core.model import MS, ProcessId
from plainchant.scenario.model import Delay, Network, Scenario, Workload

from ...claims import Context, Figure, Measured, curves, judge, rows
from ...observe import trace_of
from ...runs import came_to_rest, fault, milliseconds, names, rows_of, violations
from ..structures import ORDERS, faulty_run, scenario
from ..variants import VARIANTS

RULES: Final[Mapping[str, str]] = {"Newtop": "", "on every suspicion": "blocks on suspicion"}
CUTS: Final = (100, 200, 300, 400, 600, 800, 1000)
DELAYS: Final = (1, 2, 5, 10, 20, 30)
_CONDITION: Final = "view change"


@dataclasses.dataclass(frozen=True, slots=True)
class Blocked:
    """The time in which members could not send because of a view change, in ms."""

    rule: str
    times: int  # How often that was.
    blocked: float  # The sum over all members.
    suspicions: int
    refuted: int
    quiet: bool
    violations: int  # Of same-view.


def blocked_of(item: tuple[Scenario, str]) -> Blocked:
    run, rule = item
    summary, table = trace_of(run, VARIANTS[RULES[rule]])
    spans = _spans(table, summary.virtual_time)
    suspicions = sum(1 for _ in rows_of(table, "suspect"))
    refuted = sum(bool(row["detail"].get("heard")) for row in rows_of(table, "refute"))
    broken = violations(table, ["same-view"])
    return Blocked(rule, len(spans), sum(spans) / MS, suspicions, refuted, came_to_rest(summary), broken)


def _spans(table: pa.Table, end: int) -> list[int]:
    """How long each stop lasted; a crash ends it, too."""
    began: dict[tuple[ProcessId, str], int] = {}
    spans: list[int] = []
    ends = {row["process"]: row["true_time"] for row in rows_of(table, "crash")}
    stops = [row for kind in ("block", "unblock") for row in rows_of(table, kind)]
    for row in sorted(stops, key=lambda row: (row["true_time"], row["index"])):
        place = (row["process"], row["group"])
        if row["kind"] == "block":
            if row["detail"].get("condition") == _CONDITION:
                began.setdefault(place, row["true_time"])
        elif place in began and row["detail"].get("over"):
            spans.append(row["true_time"] - began.pop(place))
    return spans + [ends.get(process, end) - since for (process, _), since in began.items()]


# Runs
def one_cut(length: float, seed: int) -> Scenario:
    """Five members; what the second sends does not reach the first for a while. Others have it, and refute suspicions."""
    load = Workload(rate=50.0, arrivals="poisson", size=16)
    faults = [fault("cut", 500, length=length, source="p2", target="p1")]
    return scenario({"g": names(5)}, load, seed=seed, faults=faults, length=2000, order="total", same_view=True)


def one_crash(delay: float, seed: int) -> Scenario:
    """Five members, links of this delay in ms; one crashes."""
    load = Workload(rate=50.0, arrivals="poisson", size=16)
    network = Network(delay=Delay("uniform", milliseconds(0.5 * delay), milliseconds(1.5 * delay)))
    faults = [fault("crash", 500, process="p2")]
    return scenario({"g": names(5)}, load, seed=seed, network=network, faults=faults, length=1500, order="total", same_view=True)


def _compared(context: Context, make: Callable[[float, int], Scenario], axis: Sequence[float]) -> dict[str, list[list[Blocked]]]:
    seeds = range(context.of(3, 6))
    found = {}
    for rule in RULES:
        flat = iter(context.sweep(blocked_of, [(make(x, seed), rule) for x in axis for seed in seeds]))
        found[rule] = [[next(flat) for _ in seeds] for _ in axis]
    return found


def less_blocking(context: Context) -> Measured:
    runs = [faulty_run(seed, order, same_view=True) for order in ORDERS for seed in range(context.of(2, 20))]
    ours, theirs = (context.sweep(blocked_of, [(run, rule) for run in runs]) for rule in RULES)
    cuts, delays = context.of(CUTS[2::4], CUTS), context.of(DELAYS[::3], DELAYS)
    by_cut = _compared(context, one_cut, cuts)
    by_delay = _compared(context, one_crash, delays)
    blocked, against = sum(run.blocked for run in ours), sum(run.blocked for run in theirs)
    crash = [(point[0], point[1]) for point in zip(*(_mean(by_delay[rule]) for rule in RULES), strict=True)]
    cut = [(point[0], point[1]) for point in zip(*(_mean(by_cut[rule]) for rule in RULES), strict=True)]
    broken = sum(run.violations for run in (*ours, *theirs))
    longer = sum(1 for one, other in zip(ours, theirs, strict=True) if one.blocked > other.blocked)
    never_longer = all(one <= other for one, other in (*crash, *cut))
    return Measured(
        f"{len(runs)} runs with failures: members could not send for {blocked / 1000:.1f} s in all, "
        f"{sum(run.times for run in ours):,} times; if every suspicion stops them, {against / 1000:.1f} s, "
        f"{sum(run.times for run in theirs):,} times (longer with Newtop's rule in {longer} runs). One crash of five, links of "
        f"{delays[0]:g} to {delays[-1]:g} ms: {crash[0][0]:.1f} to {crash[-1][0]:.1f} ms against {crash[0][1]:.1f} to "
        f"{crash[-1][1]:.1f} ms; a cut of {cuts[-1]:g} ms between two of five, which others refute: {cut[-1][0]:.1f} against "
        f"{cut[-1][1]:.1f} ms (sums over members). Violations of same-view: {broken}",
        judge(
            holds=blocked < against and never_longer and not broken and any(run.blocked for run in ours),
            nearly=blocked < against and not broken,
        ),
        "sending stops when a detection is confirmed, and not when it is only suspected: that saves the time of an agreement for "
        "each failure, and everything where a suspicion is refuted",
        rows(ours, theirs),
        (
            _figure("blocked-by-delay", "one of five crashes", "delay of links (ms)", delays, by_delay),
            _figure("blocked-by-cut", "five members, one link cut one way", "length of the cut (ms)", cuts, by_cut),
        ),
    )


def _mean(points: Sequence[Sequence[Blocked]]) -> list[float]:
    return [statistics.mean(run.blocked for run in point) for point in points]


def _figure(name: str, title: str, label: str, axis: Sequence[float], by: Mapping[str, Sequence[Sequence[Blocked]]]) -> Figure:
    lines = {f"blocks {rule}" if RULES[rule] else "Newtop's rule": _mean(points) for rule, points in by.items()}
    return Figure(name, title, label, "time blocked, all members (ms)", curves(axis, lines))
