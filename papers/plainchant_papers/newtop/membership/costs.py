"""How long it takes until a failure is noticed and the view without the failed is installed, what that costs, and what is lost.

Theory of operation
-------------------
Members of one group crash at one moment, soon after the first second. *Detected*: when a survivor suspects one of them first;
*view*: when it installs the view that has none of them; both from the crash on, the mean over survivors and seeds. In an idle
group everybody shows life every tau, so that it matters when in a tau the crash comes: seeds spread that evenly.

What one expects: a block that the failed have not completed is there at once if others send, else after the extended
time-silence (tau), of which on average half is over; then omega; then suspicions, and Remove, cross the network, one after the
other. In packets: each of the n - f survivors multicasts three words, Suspect and Confirmed to the n - 1 others, Remove to the
n - f - 1 who are left.
"""

from __future__ import annotations

import dataclasses
import statistics
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from plainchant.core.model import MS, Packet, ProcessId
from plainchant.lab.errors import LabError
from plainchant.protocols.newtop.packets import Word
from plainchant.scenario.model import Scenario, Workload

from ...claims import Context, Figure, Series, Table, curves
from ...observe import Observer
from ...runs import Given, fault, milliseconds, names, rows_of, views_of
from ..structures import scenario

OMEGAS: Final = (100, 150, 250, 400, 600, 1000)
TAUS: Final = (20, 40, 80, 120, 160, 200)
SILENCES: Final = (10, 20, 40, 80, 120, 160, 200)
SIZES: Final = (2, 3, 4, 5, 6, 8, 10, 12, 14, 16, 18, 20)
MEMBERS: Final = 10
RATES: Final = (10, 50, 100)
_FIVE: Final = 5
_BUSY: Final = 20.0  # Messages a second of each member, where they send.
_GOLDEN: Final = 0.618
_WORDS: Final = ("Suspect", "Confirmed", "Remove", "Refute")


@dataclasses.dataclass(frozen=True, slots=True)
class Crash:
    """Some of the members of a group crash at one moment. Times in ms."""

    members: int = _FIVE
    failures: int = 1
    omega: int = 250
    tau: int = 80
    silence: int = 0  # The local time-silence, as a time-out; 0: adaptive.
    rate: float = _BUSY
    seed: int = 0

    def run(self) -> Scenario:
        at = self.tau * (-(-1000 // self.tau) + (self.seed * _GOLDEN + 0.5) % 1)
        members = names(self.members)
        crashed = members[1 : self.failures + 1] if self.failures < self.members else ()
        given: Given = {"suspect_after": milliseconds(self.omega), "alive_every": milliseconds(self.tau)}
        if self.silence:
            given |= {"silence_by": "timeout", "silence": milliseconds(self.silence)}
        given["probe_after"] = milliseconds(max(60, self.silence + 20) if self.omega > 100 else 60)
        given |= {"order": "total", "merge_after": milliseconds(0), "seed": self.seed}
        load = [Workload(rate=self.rate, arrivals="poisson", size=16)] if self.rate else []
        faults = [fault("crash", at, process=name) for name in crashed]
        return scenario({"g": members}, *load, faults=faults, length=at + 4 * (self.omega + self.tau) + 500, drain=0, **given)


@dataclasses.dataclass(frozen=True, slots=True)
class Change:
    """What came of it. Times in ms, each of a survivor."""

    crash: Crash
    detected: tuple[float, ...]
    installed: tuple[float, ...]
    views: int  # How many views it took, at the survivor with the most.
    words: Mapping[str, int]  # Words that were multicast, by kind,
    copies: int  # and their copies, one for each process that they went to.
    discarded: float  # Messages of the failed that a survivor had and did not deliver.

    def row(self) -> dict[str, Any]:
        installed = self.installed
        times = {"detected_ms": _detected(self), "installed_ms": _installed(self), "installed_last_ms": max(installed)}
        words = {kind: self.words.get(kind, 0) for kind in _WORDS}
        rounded = {name: round(time, 3) for name, time in times.items()}
        counts = {"copies": self.copies, "discarded": self.discarded}
        return {**dataclasses.asdict(self.crash), **rounded, "views": self.views, **words, **counts}


class _Words(Observer):
    copies = 0

    def __init__(self) -> None:
        super().__init__()
        self.words: Counter[str] = Counter()

    def sending(self, me: ProcessId, to: Sequence[ProcessId], packet: Packet) -> None:
        if isinstance(packet, Word):
            self.words[type(packet.say).__name__] += 1
            self.copies += len(to)


def change_of(crash: Crash) -> Change:
    run = crash.run()
    observer = _Words()
    _, table = observer.run(run)
    crashed = {one.process for one in run.fault}
    at = run.fault[0].at
    survivors = [name for name in run.members if name not in crashed]
    suspected: dict[ProcessId, int] = {}
    for row in rows_of(table, "suspect"):
        if row["detail"]["process"] in crashed:
            suspected.setdefault(row["process"], row["true_time"])
    views = views_of(table)
    installed = {}
    for name in survivors:
        times = [when for when, _, members in views[name, "g"] if not crashed & set(members)]
        if not times or name not in suspected:
            raise LabError(f"{name} has no view without {', '.join(sorted(crashed))}: {crash}")
        installed[name] = times[0]
    lost: Counter[ProcessId] = Counter()
    for row in rows_of(table, "confirm"):
        lost[row["process"]] += sum(messages for _, _, messages in row["detail"]["discarded"])
    detected, changed = (tuple((times[name] - at) / MS for name in survivors) for times in (suspected, installed))
    most = max(len(views[name, "g"]) - 1 for name in survivors)
    discarded = statistics.mean(lost[name] for name in survivors)
    return Change(crash, detected, changed, most, dict(observer.words), observer.copies, discarded)


def expected_words(members: int, failures: int) -> int:
    """Suspect, Confirmed and Remove of every survivor."""
    return 3 * (members - failures)


def expected_copies(members: int, failures: int) -> int:
    """Suspect and Confirmed go to everybody, Remove to those who are left."""
    survivors = members - failures
    return survivors * (2 * (members - 1) + survivors - 1)


# Lines
Line = tuple[Sequence[float], list[list[Change]]]


def _lines(context: Context, axes: Mapping[str, Sequence[tuple[float, Crash]]], seeds: tuple[int, int]) -> dict[str, Line]:
    """Several lines at once, each point over several seeds."""
    each = range(context.of(*seeds))
    flat = [dataclasses.replace(crash, seed=seed) for line in axes.values() for _, crash in line for seed in each]
    found = iter(context.sweep(change_of, flat))
    return {name: ([x for x, _ in line], [[next(found) for _ in each] for _ in line]) for name, line in axes.items()}


def _mean(points: Iterable[Sequence[Change]], measure: Callable[[Change], float]) -> list[float]:
    return [statistics.mean(measure(change) for change in point) for point in points]


def _detected(change: Change) -> float:
    return statistics.mean(change.detected)


def _installed(change: Change) -> float:
    return statistics.mean(change.installed)


def _times(name: str, title: str, label: str, lines: Mapping[str, Line]) -> Figure:
    series = []
    for line, (x, points) in lines.items():
        for what, measure in (("detected", _detected), ("view", _installed)):
            series.append(Series(f"{line}: {what}" if len(lines) > 1 else what, x, _mean(points, measure)))
    return Figure(name, title, label, "ms after the crash", tuple(series))


def _packets(name: str, what: str, label: str, line: Line, expected: Series) -> Figure:
    x, points = line
    words = {kind: [statistics.mean(change.words.get(kind, 0) for change in point) for point in points] for kind in _WORDS[:3]}
    words["all words"] = _mean(points, lambda change: sum(change.words.values()))
    title = f"multicasts of a view change, {what}, idle group"
    return Figure(name, title, label, "multicasts", (*curves(x, words), expected))


def figures_of_changes(context: Context) -> tuple[tuple[Figure, ...], tuple[Table, ...], str]:
    """Times and packets of view changes: figures, tables, and the sentence that sums them up."""
    omegas = context.of(OMEGAS[2::3], OMEGAS)
    taus = context.of(TAUS[::5], TAUS)
    silences = context.of(SILENCES[::6], SILENCES)
    sizes = context.of((2, 5), SIZES)
    failures = context.of((1, MEMBERS - 1), tuple(range(1, MEMBERS)))
    by = {
        "omega busy": [(omega, Crash(omega=omega, tau=min(80, omega // 2))) for omega in omegas],
        "omega idle": [(omega, Crash(omega=omega, tau=min(80, omega // 2), rate=0)) for omega in omegas],
        "tau": [(tau, Crash(tau=tau, rate=0)) for tau in taus],
        "silence": [(silence, Crash(silence=silence)) for silence in silences],
        "size busy": [(size, Crash(size, rate=_BUSY * _FIVE / size)) for size in sizes],
        "size idle": [(size, Crash(size, rate=0)) for size in sizes],
        "failures busy": [(count, Crash(MEMBERS, count, rate=_BUSY / 2)) for count in failures],
        "failures idle": [(count, Crash(MEMBERS, count, rate=0)) for count in failures],
    }
    lines = _lines(context, by, (1, 4))
    size = lines["size idle"]
    failed = lines["failures idle"]
    by_size = Series("3 (n - 1)", size[0], [expected_words(round(n), 1) for n in size[0]], from_document=True)
    by_failures = Series("3 (n - f)", failed[0], [expected_words(MEMBERS, round(f)) for f in failed[0]], from_document=True)
    figures = (
        _times("change-by-omega", "one of five crashes", "suspect_after (ms)", _pair(lines, "omega")),
        _times("change-by-tau", "one of five crashes, idle group", "alive_every (ms)", {"": lines["tau"]}),
        _times("change-by-silence", "one of five crashes, busy group", "time-silence (ms)", {"": lines["silence"]}),
        _times("change-by-size", "one of n crashes", "members (n)", _pair(lines, "size")),
        _times("change-by-failures", f"several of {MEMBERS} crash at once", "simultaneous failures", _pair(lines, "failures")),
        _packets("packets-of-a-change", "one crash", "members (n)", size, by_size),
        _packets("packets-by-failures", f"{MEMBERS} members", "simultaneous failures (f)", failed, by_failures),
    )
    title = f"times (ms) and packets by failures: {MEMBERS} members, idle group"
    tables = (
        _table("times (ms) and packets by group size: one crash, idle group", "members", size, lambda x: (round(x), 1)),
        _table(title, "failures", failed, lambda x: (MEMBERS, round(x))),
    )
    changes = [change for line in lines.values() for point in line[1] for change in point]
    after = statistics.mean(_installed(change) - _detected(change) for change in changes)
    exact = [
        change for change in changes if sum(change.words.values()) == expected_words(change.crash.members, change.crash.failures)
    ]
    first, last = _mean(size[1], _installed)[0], _mean(size[1], _installed)[-1]
    sentence = (
        f"In {len(changes)} further runs (figures) a survivor's view comes {after:.1f} ms after its first suspicion, with links "
        f"of 1 ms; in idle groups of {round(size[0][0])} and {round(size[0][-1])} {first:.0f} and {last:.0f} ms after the crash; "
        f"{len(exact)} of them took exactly 3(n - f) words"
    )
    return figures, tables, sentence


def _pair(lines: Mapping[str, Line], name: str) -> dict[str, Line]:
    return {kind: lines[f"{name} {kind}"] for kind in ("busy", "idle")}


def _table(title: str, what: str, line: Line, of: Callable[[float], tuple[int, int]]) -> Table:
    columns = (what, "detected", "view", "view, at the last", *_WORDS, "words", "3(n - f)", "copies", "expected copies")
    rows = []
    for value, point in zip(*line, strict=True):
        sizes = of(value)
        mean = [statistics.mean(change.words.get(kind, 0) for change in point) for kind in _WORDS]
        times = [statistics.mean(map(measure, point)) for measure in (_detected, _installed)]
        times.append(max(max(change.installed) for change in point))
        copies = f"{statistics.mean(change.copies for change in point):.1f}"
        measured = [f"{each:.1f}" for each in (*times, *mean, sum(mean))]
        rows.append((f"{value:g}", *measured, expected_words(*sizes), copies, expected_copies(*sizes)))
    return Table(title, columns, rows)


# What is lost at the cut
def figures_of_discarded(context: Context) -> tuple[Figure, ...]:
    """Messages of the failed that survivors have and discard, by how often members send and how many fail."""
    failures = context.of((1, MEMBERS - 1), tuple(range(1, MEMBERS)))
    rates = context.of(RATES[1:2], RATES)
    by = {f"{rate} messages/s each": [(count, Crash(MEMBERS, count, rate=rate)) for count in failures] for rate in rates}
    lines = _lines(context, by, (1, 3))
    series = tuple(Series(name, x, _mean(points, lambda change: change.discarded)) for name, (x, points) in lines.items())
    title = f"several of {MEMBERS} crash at once, total order"
    return (Figure("discarded-at-the-cut", title, "simultaneous failures", "messages discarded at a survivor", series),)
