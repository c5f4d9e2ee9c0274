"""Claims 48 to 54 (7.3) and 59 (8.2): the thesis's experiments, by direction.

The figures of the thesis are not printed as numbers; what its text says of them is which way each measure goes. A measure
*rises* along a sweep if it is larger at the end than at the beginning and never more than ``SLACK`` below what it was before,
and *falls* if the same holds backwards; it *tends to* if the order of its values agrees with that of the sweep (Spearman's rank
correlation) by at least ``TENDS``.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from itertools import accumulate
from operator import attrgetter
from typing import Final, TypeVar

import numpy as np

from plainchant.core.model import MS, US, Packet, ProcessId
from plainchant.protocols.newtop.packets import Data, Null
from plainchant.scenario.model import Scenario, Workload

from ..claims import Context, Figure, Measured, Series, Table, Verdict, curves, judge
from ..observe import Observer
from .stations import COST, MESSAGES, SLOWER, TICK, Experiment, Outcome, perform, scenario_of

SLACK: Final = 0.05
TENDS: Final = 0.8
SILENCES: Final = tuple(range(50, 1051, 100))
INTERVALS: Final = (400, 300, 200, 150, 100, 75, 50, 35, 25, 15, 10, 6)
SIZES: Final = (2, 3, 4, 5, 6)
ALL_ACTIVE: Final = (350, 300, 250, 200, 150, 100)
MORE_ACTIVE: Final = (450, 400, 350, 300, 250, 200)
N: Final = 50
COSTS: Final = (0, 2000, 4000, 5000, 6000)  # Processor times for a packet that are tried, in µs.

Measure = Callable[[Outcome], float]
Key = TypeVar("Key", int, float)


def rises(values: Sequence[float]) -> bool:
    """Whether a measure rises along its sweep, as defined above."""
    return values[-1] > values[0] and all(
        value >= (1 - SLACK) * highest for value, highest in zip(values, accumulate(values, max), strict=True)
    )


def falls(values: Sequence[float]) -> bool:
    return rises(values[::-1])


def tendency(values: Sequence[float]) -> float:
    """Spearman's rank correlation of a measure with its place in the sweep, 0 if it is constant."""
    if min(values) == max(values):
        return 0.0
    _, inverse, counts = np.unique(np.asarray(values), return_inverse=True, return_counts=True)
    ranks = (np.cumsum(counts) - (counts - 1) / 2)[inverse]
    return float(np.corrcoef(ranks, np.arange(len(values)))[0, 1])


@dataclasses.dataclass(frozen=True, slots=True)
class Direction:
    """A measure, and which way it is said to go along a sweep."""

    name: str
    measure: Measure
    up: bool

    def holds(self, values: Sequence[float]) -> bool:
        return rises(values) if self.up else falls(values)

    def tends(self, values: Sequence[float]) -> bool:
        return tendency(values) >= TENDS if self.up else tendency(values) <= -TENDS


@dataclasses.dataclass(frozen=True, slots=True)
class Sweep:
    """Experiments along one axis, each the mean over seeds."""

    x: tuple[float, ...]
    outcomes: tuple[tuple[Outcome, ...], ...]

    def values(self, measure: Measure) -> list[float]:
        return [sum(measure(outcome) for outcome in point) / len(point) for point in self.outcomes]

    def rows(self) -> list[dict[str, object]]:
        return [outcome.row() for point in self.outcomes for outcome in point]


_unstable: Measure = attrgetter("most_unstable")
_nulls: Measure = attrgetter("all_nulls")
_nulls_each: Measure = attrgetter("nulls_a_receiver")
_delay: Measure = attrgetter("delay")
_throughput: Measure = attrgetter("throughput")
_SILENCE: Final = "time-silence (ms)"
_INTERVAL: Final = "interval between messages (ms)"
_SHOWN: Final[Mapping[str, tuple[str, Measure]]] = {
    **dict.fromkeys(("7.3", "7.6", "7.9", "7.13", "7.16"), ("unstable blocks, at most", _unstable)),
    **dict.fromkeys(("7.4", "7.14", "7.18"), ("null messages", _nulls)),
    **dict.fromkeys(("7.5", "7.8", "7.10", "7.15", "7.17"), ("delay overhead (ms)", _delay)),
    **dict.fromkeys(("7.7", "7.11"), ("null messages a receiver", _nulls_each)),
    "7.12": ("messages a second", _throughput),
}
"""Figures of the thesis: what y is, and the measure."""


def _figures(title: str, x_label: str, lines: Mapping[str, Sweep], *shown: str, log: bool = False) -> tuple[Figure, ...]:
    """Figures of the thesis, by their numbers, with a line for each sweep."""
    figures = []
    for number in shown:
        y_label, measure = _SHOWN[number]
        series = tuple(Series(label, list(line.x), line.values(measure)) for label, line in lines.items())
        name = f"fig-{number.replace('.', '-')}"
        figures.append(Figure(name, f"Fig. {number}: {title}", x_label, y_label, series, log_x=log, log_y=log))
    return tuple(figures)


def _of_members(sweeps: Mapping[int, Sweep]) -> dict[str, Sweep]:
    return {f"{size:g} members": sweep for size, sweep in sweeps.items()}


def _rows(sweeps: Mapping[Key, Sweep]) -> list[dict[str, object]]:
    return [row for sweep in sweeps.values() for row in sweep.rows()]


def _sweeps(context: Context, lines: Mapping[Key, Sequence[tuple[int, Experiment]]], seeds: int = 2) -> dict[Key, Sweep]:
    """Runs several lines of experiments at once: what each line is for, its x and its experiment without a seed."""
    each = range(context.of(1, seeds))
    flat = [
        dataclasses.replace(experiment, seed=seed, messages=context.of(experiment.messages // 4, experiment.messages))
        for line in lines.values()
        for _, experiment in line
        for seed in each
    ]
    found = iter(context.sweep(perform, flat))
    return {
        key: Sweep(tuple(x for x, _ in line), tuple(tuple(next(found) for _ in each) for _ in line))
        for key, line in lines.items()
    }


def _shown(values: Sequence[float], digits: int = 0) -> str:
    return f"{values[0]:.{digits}f} to {values[-1]:.{digits}f}"


# 48 and 49: one active, time-silence
_WITH_SILENCE: Final = (
    Direction("unstable blocks", _unstable, up=True),
    Direction("nulls", _nulls, up=False),
    Direction("delay", _delay, up=True),
)


def silence_of_three(context: Context) -> Measured:
    sweep = _sweeps(context, {3: [(silence, Experiment(3, 100, silence)) for silence in SILENCES]})[3]
    values = [sweep.values(direction.measure) for direction in _WITH_SILENCE]
    unstable, nulls, delay = values
    return Measured(
        f"time-silence of 50 to 1050 ms: unstable blocks {_shown(unstable)}, null messages {_shown(nulls)}, delay overhead "
        f"{_shown(delay)} ms",
        _judged(list(zip(_WITH_SILENCE, values, strict=True))),
        "a silent member completes all blocks that came since its last null message by one more: the rarer, the more blocks and "
        "messages wait for it",
        sweep.rows(),
        _figures("1 active, 3 members, a message every 100 ms", _SILENCE, {"simulated": sweep}, "7.3", "7.4", "7.5"),
    )


def _judged(checked: Sequence[tuple[Direction, Sequence[float]]]) -> Verdict:
    return judge(holds=all(way.holds(line) for way, line in checked), nearly=all(way.tends(line) for way, line in checked))


def silence_by_size(context: Context) -> Measured:
    sizes = context.of((2, 4, 6), SIZES)
    silences = context.of(SILENCES[::2], SILENCES)
    lines = {size: [(silence, Experiment(size, 200, silence)) for silence in silences] for size in sizes}
    sweeps = _sweeps(context, lines)
    directions = (_WITH_SILENCE[0], Direction("nulls", _nulls_each, up=False), _WITH_SILENCE[2])
    largest = sweeps[sizes[-1]]
    return Measured(
        f"groups of {sizes[0]} to {sizes[-1]}, 50 to 1050 ms; with {sizes[-1]} members unstable blocks "
        f"{_shown(largest.values(_unstable))}, nulls a receiver {_shown(largest.values(_nulls_each))}, delay overhead "
        f"{_shown(largest.values(_delay))} ms",
        _judged([(way, sweep.values(way.measure)) for sweep in sweeps.values() for way in directions]),
        "as for three members; more members change little, because a block waits for the slowest of them, which is not much "
        "slower than the others",
        _rows(sweeps),
        _figures("1 active, a message every 200 ms", _SILENCE, _of_members(sweeps), "7.6", "7.7", "7.8"),
    )


# 50: one active, interval
_WITH_INTERVAL: Final = (
    Direction("unstable blocks", _unstable, up=True),
    Direction("delay", _delay, up=True),
    Direction("nulls", _nulls_each, up=False),
    Direction("throughput", _throughput, up=True),
)


def interval_of_three(context: Context) -> Measured:
    costs = context.of((COST // US,), COSTS)
    lines = {cost: [(interval, Experiment(3, interval, 100, cost=round(cost) * US)) for interval in INTERVALS] for cost in costs}
    sweeps = _sweeps(context, lines, seeds=1)
    sweep = sweeps[COST // US]
    values = {way.name: sweep.values(way.measure) for way in _WITH_INTERVAL}
    against = [way.name for way in _WITH_INTERVAL if not way.tends(values[way.name])]
    delay = values["delay"]
    title = "1 active, 3 members, time-silence 100 ms"
    by_cost = {f"{cost / 1000:g} ms a packet": line for cost, line in sweeps.items()}
    figures = _figures(title, _INTERVAL, {"simulated": sweep}, "7.9", "7.11", "7.12")
    return Measured(
        f"intervals of 400 to 6 ms: unstable blocks {_shown(values['unstable blocks'])}, delay overhead {delay[0]:.0f} ms, least "
        f"{min(delay):.0f} ms at {sweep.x[delay.index(min(delay))]:g} ms, {delay[-1]:.0f} ms at 6 ms; nulls a receiver "
        f"{_shown(values['nulls'])}; throughput {_shown(values['throughput'], 1)} messages/s",
        judge(
            holds=all(way.holds(values[way.name]) for way in _WITH_INTERVAL),
            nearly=not against or (against == ["delay"] and delay[-1] > delay[0]),
        ),
        "a null message completes everything that came before it: the more messages share one, the less each waits, so that "
        "by itself a shorter interval shortens the mean delay. It grows only where processors are busy, so that null messages "
        "wait for them: that, and not the number of unstable blocks, which the thesis blames, lengthens it",
        _rows(sweeps),
        (*figures, *_figures(title, _INTERVAL, by_cost, "7.10", log=True)),
        (_by_cost("mean delay overhead in ms, by interval (ms)", sweeps, _delay),),
    )


def _by_cost(title: str, sweeps: Mapping[int, Sweep], measure: Measure) -> Table:
    any_line = next(iter(sweeps.values()))
    return Table(
        title,
        ("ms a packet", *(f"{x:g}" for x in any_line.x)),
        [(f"{cost / 1000:g}", *(f"{value:.1f}" for value in line.values(measure))) for cost, line in sweeps.items()],
    )


# 51 to 53: all active
_NOT_MUCH: Final = 1.25
"""A delay that changes by less than this factor has not changed much; of unstable blocks it is one more or less."""


def _ratio(values: Sequence[float]) -> float:
    return max(values) / min(values)


def all_active_of_three(context: Context) -> Measured:
    sweep = _sweeps(context, {3: [(silence, Experiment(3, 400, silence, all_active=True)) for silence in ALL_ACTIVE]})[3]
    unstable, nulls, delay = (sweep.values(measure) for measure in (_unstable, _nulls, _delay))
    steady = max(unstable) - min(unstable) <= 1 and _ratio(delay) <= _NOT_MUCH
    mostly_nulls = rises(nulls) and _ratio(nulls) > 5 * max(_ratio(unstable), _ratio(delay))
    return Measured(
        f"time-silence of 350 to 100 ms: unstable blocks {_shown(unstable, 1)}, delay overhead {_shown(delay)} ms, null messages "
        f"{_shown(nulls)}",
        judge(holds=mostly_nulls and steady, nearly=mostly_nulls),
        "members that send at their own pace complete each other's blocks; a null message comes only where the next message of a "
        "member is further away than its time-silence. Null messages also bring members' counters together, which shortens "
        "the delay somewhat, and make a few more blocks",
        sweep.rows(),
        _figures("all 3 members active, a message every 400 ms", _SILENCE, {"simulated": sweep}, "7.13", "7.14", "7.15"),
    )


def longer_than_the_interval(context: Context) -> Measured:
    silences = (450, 500, 600, 800)
    lines = {
        slower: [(silence, Experiment(3, 400, silence, all_active=True, slower=slower)) for silence in silences]
        for slower in (0.0, SLOWER)
    }
    sweeps = _sweeps(context, lines)
    exact, uneven = (max(sweep.values(_nulls)) for sweep in sweeps.values())
    messages = 3 * context.of(MESSAGES // 4, MESSAGES)
    return Measured(
        f"3 members, a message every 400 ms, time-silence of 450 to 800 ms: at most {exact:g} null messages for {messages:,} "
        f"messages at exactly equal rates, {uneven:g} if rates differ by up to {SLOWER * 2 / 3:.1%}",
        judge(holds=max(exact, uneven) <= 3, nearly=exact <= 3),
        "one or the other member has to complete the last message of a run. A member that sends more often than the others is a "
        "block ahead sooner or later: their next messages bear smaller numbers and do not complete its block, whatever the "
        "time-silence; a null message then lets them catch up",
        _rows(sweeps),
    )


def all_active_by_size(context: Context) -> Measured:
    sizes = context.of((2, 4, 6), SIZES)
    lines = {size: [(silence, Experiment(size, 500, silence, all_active=True)) for silence in MORE_ACTIVE] for size in sizes}
    sweeps = _sweeps(context, lines)
    delays = {size: sweep.values(_delay) for size, sweep in sweeps.items()}
    lower = all(falls(line) for line in delays.values())
    share = {size: 1 - line[-1] / line[0] for size, line in delays.items()}
    return Measured(
        "delay overhead with time-silence of 450 and 200 ms: "
        + ", ".join(f"{line[0]:.0f} and {line[-1]:.0f} ms ({size:g} members)" for size, line in delays.items()),
        judge(holds=lower and max(share.values()) < 0.5, nearly=all(line[-1] < line[0] for line in delays.values())),
        f"shorter by {min(share.values()):.0%} to {max(share.values()):.0%}: a null message comes before the next message would",
        _rows(sweeps),
        _figures("all active, a message every 500 ms", _SILENCE, _of_members(sweeps), "7.16", "7.17", "7.18"),
    )


# 54: ticks
_TICKS: Final = 4


class _Silences(Observer):
    """How long a silent member takes from a message to the null message that it is answered by."""

    def __init__(self) -> None:
        super().__init__()
        self._since: dict[ProcessId, int] = {}
        self.lengths: list[int] = []

    def received(self, me: ProcessId, source: ProcessId, packet: Packet) -> None:
        if isinstance(packet, Data):
            self._since.setdefault(me, self.hosts[me].now)

    def sending(self, me: ProcessId, to: Sequence[ProcessId], packet: Packet) -> None:
        if isinstance(packet, Null) and me in self._since:
            self.lengths.append(self.hosts[me].now - self._since.pop(me))


def _silences(scenario: Scenario) -> list[int]:
    observer = _Silences()
    observer.run(scenario)
    return observer.lengths


def ticks(context: Context) -> Measured:
    count = context.of(100, 400)
    base = scenario_of(Experiment(4, 1000, _TICKS * TICK // MS, messages=count, cost=0))
    load = Workload(senders=("p1",), rate=1.0, arrivals="poisson", count=count)
    base = dataclasses.replace(base, workload=(load,), network=dataclasses.replace(base.network, machines=()))
    runs = context.sweep(_silences, [dataclasses.replace(base, seed=seed) for seed in range(context.of(2, 8))])
    lengths = [length / MS for run in runs for length in run]
    least, most = min(lengths), max(lengths)
    edges = list(range(150, 201, 5))
    counts = [int(number) for number in np.histogram(lengths, bins=edges)[0]]
    whole = TICK / MS
    series = (Series("simulated", [low + 2.5 for low in edges[:-1]], counts),)
    return Measured(
        f"{len(lengths):,} time-outs of {_TICKS} ticks of {whole:g} ms: {least:.1f} to {most:.1f} ms, mean "
        f"{sum(lengths) / len(lengths):.1f} ms",
        judge(holds=least >= (_TICKS - 1) * whole and most <= _TICKS * whole and most - least > 0.9 * whole),
        "the first tick comes somewhere in the first period, the others a period after each other",
        [{"from_ms": low, "to_ms": low + 5, "count": number} for low, number in zip(edges, counts, strict=False)],
        (Figure("ticks", "Time-outs of four ticks of 50 ms", "length (ms)", "time-outs", series),),
    )


# 59: flow control
def _at_sender(outcome: Outcome) -> float:
    return outcome.delays["p1"]


def _unstable_at_sender(outcome: Outcome) -> float:
    return outcome.unstable["p1"]


def flow_control(context: Context) -> Measured:
    costs = context.of((COST // US,), COSTS[1:])
    intervals = context.of((400, 150, 75, 50, 25, 6), INTERVALS)

    def line(cost: int, blocks: int) -> list[tuple[int, Experiment]]:
        return [(interval, Experiment(6, interval, 50, blocks=blocks, cost=cost * US)) for interval in intervals]

    sweeps = _sweeps(context, {2 * cost + on: line(cost, N if on else 0) for cost in costs for on in (0, 1)}, seeds=1)
    off, on = sweeps[2 * COST // US], sweeps[2 * COST // US + 1]
    delay = "delay at the sender in ms"
    delays = list(zip(intervals, off.values(_at_sender), on.values(_at_sender), strict=True))
    better = [interval for interval, without, with_ in delays if with_ < 0.95 * without]
    worse = [interval for interval, without, with_ in delays if with_ > 1.05 * without]
    bounded = max(on.values(_unstable_at_sender)) <= N
    expected = [interval for interval in intervals if interval <= 50]
    without, with_ = delays[-1][1:]
    figures = []
    for name, title, sweep in (("2", "flow control off", off), ("3", f"flow control on (N = {N})", on)):
        measures = {"unstable blocks, at most": _unstable_at_sender, "delay overhead (ms)": _at_sender}
        series = curves(list(sweep.x), {label: sweep.values(measure) for label, measure in measures.items()})
        title = f"Fig. 8.{name}: {title}, at the sender"
        figures.append(Figure(f"fig-8-{name}", title, _INTERVAL, "blocks, or ms", series, log_x=True, log_y=True))
    return Measured(
        f"N = {N}, 6 members: at most {max(on.values(_unstable_at_sender)):.0f} unstable blocks (without flow control "
        f"{max(off.values(_unstable_at_sender)):.0f}); delay at the sender shorter at {_listed(better)} ms, longer at "
        f"{_listed(worse)}; at 6 ms {with_:,.0f} against {without:,.0f} ms",
        judge(
            holds=bounded and better == expected and not worse,
            nearly=bounded and bool(better) and max(better) <= 50 and not worse,
        ),
        "where processors cannot keep up, messages that are sent all the same wait in queues, and the null messages that would "
        "complete them wait behind; flow control keeps them with the application instead, where nobody counts their delay. From "
        "which interval on depends on what a packet costs: this is what the cost was chosen by",
        _rows(sweeps),
        tuple(figures),
        (
            _by_cost(f"{delay} without flow control, by interval", {cost: sweeps[2 * cost] for cost in costs}, _at_sender),
            _by_cost(f"{delay} with flow control (N = {N})", {cost: sweeps[2 * cost + 1] for cost in costs}, _at_sender),
        ),
    )


def _listed(values: Sequence[float]) -> str:
    return ", ".join(f"{value:g}" for value in values) if values else "none"
