"""Claims 33 to 35 and 37 to 39 (chapter 5): the three causal orders."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Iterable, Mapping, Sequence
from itertools import permutations
from typing import Any, Final

import pyarrow.compute as pc

from plainchant.core.model import MS, Duration
from plainchant.scenario.model import Scenario, Workload

from ..claims import Context, Figure, Measured, Table, curves, judge, rows, totals
from ..observe import trace_of
from ..runs import names, rows_of, violations
from .causes import Causes, Relay, Sent
from .structures import EVERY_ORDER, Groups, delayed, random_run, static, uneven
from .variants import VARIANTS

_SILENCE: Final = Duration(20 * MS)
_TIMED: Final[Mapping[str, Any]] = {"silence_by": "timeout", "silence": _SILENCE}


# 33: LDV and vector clocks
@dataclasses.dataclass(frozen=True, slots=True)
class Precision:
    pairs: int
    related: int
    missed: int  # Pairs that are related and whose vectors do not say so.
    invented: int  # Pairs whose vectors say so and that are not related.


def _ldv(sent: Sent, members: Sequence[str]) -> tuple[int, ...]:
    return sent.packet.vector[0][1] if sent.packet.vector else (0,) * len(members)


def precision_of(run: Scenario) -> Precision:
    observer = Causes()
    observer.run(run)
    (members,) = run.groups.values()
    place = {name: number for number, name in enumerate(members)}
    vectors = [(sent, _ldv(sent, members)) for sent in observer.sent.values()]
    pairs = related = missed = invented = 0
    for (one, first), (other, second) in permutations(vectors, 2):
        said = (
            all(a <= b for a, b in zip(first, second, strict=True))
            and first != second
            and one.packet.block <= second[place[one.message[1]]]
        )
        is_so = one.before(other)
        pairs += 1
        related += is_so
        missed += is_so and not said
        invented += said and not is_so
    return Precision(pairs, related, missed, invented)


def one_group(seed: int, **parameters: Any) -> Scenario:
    """One group, everybody sends, links of very different delay."""
    draw = random.Random(f"{seed}/one group")
    members = names(draw.randrange(3, 8))
    load = Workload(rate=draw.choice((20.0, 60.0)), arrivals="poisson", size=16)
    return static({"g": members}, load, seed=seed, network=uneven(draw, members), seconds=0.3, **{**_TIMED, **parameters})


def precise(context: Context) -> Measured:
    runs = context.sweep(precision_of, [one_group(seed, order="fast", vectors="keyed") for seed in range(context.of(6, 60))])
    pairs, related, missed, invented = totals(runs, "pairs", "related", "missed", "invented")
    return Measured(
        f"{pairs:,} pairs of messages in {len(runs)} runs of one group, {related:,} of them related: LDV misses {missed} "
        f"relations and invents {invented}",
        judge(holds=bool(related) and related < pairs and not missed and not invented),
        "a member's number in the vector is the block of its last message that was delivered before, which says as much as "
        "how many there were",
        rows(runs),
    )


# 34: a cycle of four groups
_FIG_5_1: Final[Groups] = {
    "g1": ("p1", "p2", "p3", "p4"), "g2": ("p3", "p4", "p5", "p6"), "g3": ("p5", "p6", "p7", "p8"), "g4": ("p1", "p2", "p7", "p8")
}  # fmt: skip


@dataclasses.dataclass(frozen=True, slots=True)
class Ring:
    first: str  # Of m1 and m4, what p2 delivers first.
    at: tuple[float, ...]  # When p2 delivers, in ms.
    quiet: bool


def ring_of(item: tuple[str, str]) -> Ring:
    order, variant = item
    load = Workload(senders=("p1",), group="g1", rate=1000.0, count=1, size=16)
    run = static(_FIG_5_1, load, network=delayed({("p1", "p2"): 200.0}), **_TIMED, **EVERY_ORDER[order])
    relays = {"p3": Relay("g1", "g2", b"m2"), "p6": Relay("g2", "g3", b"m3"), "p7": Relay("g3", "g4", b"m4")}
    summary, table = trace_of(run, VARIANTS[variant], applications=relays)
    rows = list(rows_of(table, "deliver", "p2"))
    got = [{"g1": "m1", "g4": "m4"}[row["group"]] for row in rows]
    return Ring(", ".join(got), tuple(row["true_time"] / MS for row in rows), summary.quiet)


def four_groups(context: Context) -> Measured:
    cases = [(order, "") for order in EVERY_ORDER] + [("fast, compact", "truncated GLDV"), ("fast, keyed", "truncated vectors")]
    runs = context.sweep(ring_of, cases)
    right = [run for run in runs[: len(EVERY_ORDER)] if run.first == "m1, m4" and run.quiet]
    truncated = runs[len(EVERY_ORDER) :]
    cells = [
        (order, variant or "as built", run.first, ", ".join(f"{at:g}" for at in run.at))
        for (order, variant), run in zip(cases, runs, strict=True)
    ]
    return Measured(
        f"p2 delivers m1 before m4 in {len(right)} of {len(EVERY_ORDER)} orders; if numbers of processes, or groups, that "
        f"one shares nothing with are not passed on, {' and '.join(run.first for run in truncated)} (compact and keyed)",
        judge(holds=len(right) == len(EVERY_ORDER) and all(run.first == "m4, m1" for run in truncated)),
        "p6 shares no group with p1, but p1's number has to pass through it to p7 and back to p2; the update rule of 5.5 as "
        "printed names only processes that one shares a group with, and would lose it there",
        tables=(Table("what p2 delivers in Fig. 5.1", ("order", "rule", "delivered", "at (ms)"), cells),),
    )


# 35: delays
@dataclasses.dataclass(frozen=True, slots=True)
class Latency:
    deliveries: int
    mean: float  # Mean time from send to delivery at others, in ms.
    groups: int


def latency_of(run: Scenario) -> Latency:
    _, table = trace_of(run)
    others = table.filter(pc.and_(pc.equal(table["kind"], "deliver"), pc.not_equal(table["process"], table["sender"])))
    times = pc.subtract(others["true_time"], others["sent"])
    return Latency(others.num_rows, pc.mean(times).as_py() / MS, len(run.groups))


def delays(context: Context) -> Measured:
    seeds = range(context.of(8, 60))
    timed, at_once = (_latencies(context, seeds, silence) for silence in (_TIMED, {"silence_by": "adaptive"}))
    means = {
        order: sum(run.mean * run.deliveries for run in found) / sum(run.deliveries for run in found)
        for order, found in timed.items()
    }
    fastest = all(fast.mean <= min(relative.mean, slow.mean) for fast, relative, slow in _three(timed))
    ordered, ordered_at_once = (
        sum(fast.mean <= relative.mean <= slow.mean for fast, relative, slow in _three(found)) for found in (timed, at_once)
    )
    overall = means["fast, keyed"] <= means["relative"] <= means["slow"]
    drawn = {order: [run.mean for run in timed[order]] for order in ("slow", "relative", "fast, keyed")}
    series = curves(list(range(1, len(seeds) + 1)), drawn)
    return Measured(
        f"mean time from send to delivery at others over {len(seeds)} structures: "
        + ", ".join(f"{order} {mean:.1f} ms" for order, mean in means.items())
        + f"; fast <= relative <= slow in {ordered} of them, in {ordered_at_once} if nulls that are owed are sent at once",
        judge(holds=ordered == len(seeds), nearly=fastest and overall),
        "fast waits for what happened before, relative also for blocks of other groups, slow for blocks of all groups. But the "
        "groups that slow waits for are completed at once by the second liveness mechanism (4.4), which relative has no use for: "
        "it waits for time-silence, and may so be the slower one where groups overlap much",
        [
            {"silence": silence, "order": order, "seed": seed, **dataclasses.asdict(run)}
            for silence, found in (("20 ms", timed), ("at once", at_once))
            for order, runs in found.items()
            for seed, run in zip(seeds, runs, strict=True)
        ],
        (Figure("causal-delays", "Delay of the causal orders, structure by structure", "structure", "mean delay (ms)", series),),
    )


def _latencies(context: Context, seeds: range, silence: Mapping[str, Any]) -> dict[str, list[Latency]]:
    runs = context.sweep(
        latency_of, [random_run(seed, **{**silence, **given}) for given in EVERY_ORDER.values() for seed in seeds]
    )
    return {order: runs[place * len(seeds) : (place + 1) * len(seeds)] for place, order in enumerate(EVERY_ORDER)}


def _three(found: Mapping[str, Sequence[Latency]]) -> Iterable[tuple[Latency, Latency, Latency]]:
    """The orders that are compared, structure by structure: fast, relative, slow."""
    return zip(found["fast, keyed"], found["relative"], found["slow"], strict=True)


# 37: fast order and groups that one is not in
_FOREIGN: Final[Groups] = {"g1": ("i", "j", "k"), "g3": ("j", "k")}


@dataclasses.dataclass(frozen=True, slots=True)
class Wait:
    at: float  # When i delivers j's message, in ms; negative: never.
    prompt: int  # Violations of ``prompt``.
    quiet: bool


def foreign_of(item: tuple[str, str]) -> Wait:
    """k multicasts in g3; j delivers that and multicasts in g1; i, which is in g1 alone and far from k, gets the latter."""
    vectors, variant = item
    load = Workload(senders=("k",), group="g3", rate=1000.0, count=1, size=16)
    network = delayed({("k", "i"): 50.0})
    run = static(_FOREIGN, load, network=network, seconds=0.05, drain=10, order="fast", vectors=vectors, **_TIMED)
    summary, table = trace_of(run, VARIANTS[variant], applications={"j": Relay("g3", "g1", b"m")})
    at = next((row["true_time"] / MS for row in rows_of(table, "deliver", "i")), -1.0)
    return Wait(at, violations(table, ["prompt"]), summary.quiet)


def early(context: Context) -> Measured:
    cases = {"as printed": ("compact", "GLDV of messages alone"), "compact": ("compact", ""), "keyed": ("keyed", "")}
    printed, compact, keyed = found = context.sweep(foreign_of, list(cases.values()))
    return Measured(
        f"i delivers j's message: with GLDV as printed {_when(printed)}; with null messages that tell of the other group's "
        f"numbers {_when(compact)}, which is too late (violations of prompt: {compact.prompt}); with vectors keyed by process "
        f"and group {_when(keyed)} ({keyed.prompt})",
        judge(holds=not printed.prompt and printed.quiet and printed.at >= 0),
        "false as printed: GLDV has one number a process. k's number comes from g3, where i is not, so that no message of k "
        "that i receives will ever bear it; j's message waits for ever although nothing that happened before it is missing. "
        "One number a process and delivery as early as possible exclude each other; a number for each process and group gives "
        "the latter",
        [{"rule": rule, **dataclasses.asdict(run)} for rule, run in zip(cases, found, strict=True)],
    )


def _when(run: Wait) -> str:
    return f"after {run.at:g} ms" if run.at >= 0 else "never"


# 38: relative order in one group
@dataclasses.dataclass(frozen=True, slots=True)
class Promptness:
    deliveries: int
    waited: int  # Deliveries that had to wait.
    violations: int
    causal: int  # Violations of causal order.


def promptness_of(run: Scenario) -> Promptness:
    summary, table = trace_of(run)
    waited = sum(row["seq"] is not None for row in rows_of(table, "block"))
    return Promptness(summary.messages_delivered, waited, violations(table, ["prompt"]), violations(table, ["causal"]))


def one_group_early(context: Context) -> Measured:
    seeds = range(context.of(8, 80))
    relative = context.sweep(promptness_of, [one_group(seed, order="relative") for seed in seeds])
    deliveries, waited, late, causal = totals(relative, "deliveries", "waited", "violations", "causal")
    return Measured(
        f"{deliveries:,} deliveries in {len(relative)} runs of one group: {waited:,} waited, {late} of them for something "
        f"that had not happened before; {causal} violations of causal order",
        judge(holds=bool(waited) and not late and not causal),
        "in one group the vector is exact (claim 33) and there are no other groups' blocks to wait for",
        rows(relative),
    )


# 39: relative order and liveness
_CROSSED: Final[Groups] = {"x": ("a", "c", "e", "i"), "y": ("a", "c", "d", "i")}


@dataclasses.dataclass(frozen=True, slots=True)
class Crossed:
    delivered: int  # Messages that i delivered, of sixteen.
    waits: tuple[str, ...]  # What i says that it waits for in the end.
    quiet: bool


def crossed_of(variant: str) -> Crossed:
    """a delivers seven messages of y and sends in x; c delivers six of x and sends in y; neither has seen the other's."""
    load = [
        Workload(senders=("d",), group="y", rate=1000.0, burst=7, count=7, size=16),
        Workload(senders=("e",), group="x", rate=1000.0, burst=6, count=6, size=16),
        Workload(senders=("a",), group="x", rate=1000.0, count=1, size=16, start=Duration(5 * MS)),
        Workload(senders=("c",), group="y", rate=1000.0, count=1, size=16, start=Duration(5 * MS)),
    ]
    network = delayed({("d", "c"): 40.0, ("e", "a"): 40.0})
    run = static(_CROSSED, *load, network=network, seconds=0.05, drain=20, order="relative", **_TIMED)
    summary, table = trace_of(run, VARIANTS[variant])
    return Crossed(sum(1 for _ in rows_of(table, "deliver", "i")), tuple(summary.not_quiet.values()), summary.quiet)


def crossed(context: Context) -> Measured:
    printed, ours = context.sweep(crossed_of, ["counter a group", ""])
    total = 15
    return Measured(
        f"two groups, messages that cross: with a block counter for each group i delivers {printed.delivered} of {total} "
        f"messages and the run {'ends' if printed.quiet else 'never ends'}; with one counter a process {ours.delivered} of "
        f"{total}, and it {'ends' if ours.quiet else 'never ends'}",
        judge(holds=printed.quiet and printed.delivered == total),
        "false as printed: a's message in x, with number 1 there, waits until y is delivered up to 7, c's message among it; "
        "c's, with number 1 in y, until x is delivered up to 6, a's among it. The proof of CO2 takes for granted that what a "
        "message waits for does not wait for it. With one counter for all groups a message waits only for smaller numbers "
        "than its own",
        [{"counter": name, **dataclasses.asdict(run)} for name, run in (("a group", printed), ("a process", ours))],
    )
