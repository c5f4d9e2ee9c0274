"""Claims 64 to 66 (4.2, 4.3): who stays when a member is eliminated, who is eliminated, and what is said first."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Sequence
from typing import Final

from plainchant.core.model import MS, Packet, ProcessId
from plainchant.protocols.rtcast.packets import Beat, Change, Data
from plainchant.scenario.model import Scenario, Workload

from ..claims import Context, Measured, judge, rows, totals
from ..observe import Observer, trace_of
from ..runs import ONE_MILLISECOND, fault, milliseconds, names, rows_of, views_of, violations
from .rings import BEGIN, halts, instrumented, ring
from .variants import variant

_FIVE: Final = 5
_ATOMIC: Final = ("view-atomicity", "agreement", "total")


# 64: false omissions
@dataclasses.dataclass(frozen=True, slots=True)
class Stayed:
    """A run in which one member crashes: what became of the survivors."""

    cut_short: bool  # Whether it crashed in the middle of a broadcast.
    survivors: int
    stayed: int
    behind: int  # Survivors that lacked a packet which the elimination counts; they are to stop,
    stopped: int  # and those that did.
    violations: int


def one_crash(seed: int, cut_short: bool) -> Scenario:
    """One of five crashes at any moment; what is lost is not sent again."""
    draw = random.Random(f"{seed}/one crash")
    load = Workload(rate=100.0, arrivals="poisson", size=64, start=milliseconds(BEGIN))
    faults = [fault("crash", BEGIN + draw.uniform(50, 150), process=draw.choice(names(_FIVE)), mid_broadcast=cut_short)]
    return ring(_FIVE, load, length=BEGIN + 250, seed=seed, faults=faults, retransmissions=0, admission=False)


class _Packets(Observer):
    """Which packets of each sender a process was handed, and what eliminations say of the last ones."""

    def __init__(self) -> None:
        super().__init__()
        self.heard: dict[tuple[ProcessId, ProcessId], int] = {}
        self.last: dict[ProcessId, int] = {}

    def receiving(self, me: ProcessId, source: ProcessId, packet: Packet) -> None:
        if isinstance(packet, Data):
            self.heard[me, packet.sender] = packet.seq
            if isinstance(packet.word, Change):
                self.last.update(packet.word.out)


def stayed_of(item: tuple[Scenario, str]) -> Stayed:
    run, name = item
    crashed = run.fault[0].process
    observer = _Packets()
    summary, table = observer.run(run, *variant(name))
    stopped = set(halts(summary))
    survivors = [process for process in run.members if process != crashed]
    behind = {process for process in survivors if observer.heard.get((process, crashed)) != observer.last.get(crashed)}
    counts = (len(survivors), len(survivors) - len(stopped), len(behind), len(stopped & behind))
    return Stayed(run.fault[0].mid_broadcast, *counts, violations(table, _ATOMIC))


def false_omission(context: Context) -> Measured:
    seeds = range(context.of(3, 20))
    clean, cut = ([one_crash(seed, cut_short) for seed in seeds] for cut_short in (False, True))
    ours = context.sweep(stayed_of, [(run, "") for run in clean])
    short = context.sweep(stayed_of, [(run, "") for run in cut])
    without = context.sweep(stayed_of, [(run, "every omission") for run in clean])
    survivors, stayed = totals(ours, "survivors", "stayed")
    alive, behind, stopped, short_stayed = totals(short, "survivors", "behind", "stopped", "stayed")
    (kept,) = totals(without, "stayed")
    up_to_date = alive - behind
    (broken,) = totals((*ours, *short), "violations")
    return Measured(
        f"{len(ours)} crashes between broadcasts: {stayed} of {survivors} survivors, all of whom miss the dead member's turn, "
        f"stay; if every omission counts, {kept} do. {len(short)} crashes within a broadcast: {behind} survivors lack a packet "
        f"that the elimination counts, {stopped} of them stop; of the {up_to_date} who have all, "
        f"{short_stayed - (behind - stopped)} stay; violations of atomicity and order: {broken}",
        judge(holds=stayed == survivors > kept and behind == stopped > 0 and not broken and short_stayed == up_to_date),
        "the elimination says how far the dead member had come: who is just there has missed nothing; who is not would be "
        "different from the others if it stayed",
        rows(ours, short, without),
    )


# 65: Fig. 5
_FIGURE: Final = tuple("ABCDEFGH")


@dataclasses.dataclass(frozen=True, slots=True)
class Eliminated:
    """Whom those who timed out eliminated."""

    by: dict[ProcessId, tuple[ProcessId, ...]]
    live: int  # Live members among them,
    stopped: int  # and live members that stopped for whatever reason.
    views: tuple[tuple[ProcessId, ...], ...]  # The last views of those who go on, each once.


def fig_5(offset: float) -> Scenario:
    """F and G crash, and the heartbeat of D does not reach H in the same round."""
    at = BEGIN + 50 + offset
    missed = fault("omit", at, process="H", source="D", packet="Beat", count=2)
    faults = [missed, fault("crash", at, process="F"), fault("crash", at, process="G")]
    return ring(_FIGURE, length=BEGIN + 200, drain=0, network=ONE_MILLISECOND, admission=False, faults=faults)


def silent_members(seed: int) -> Scenario:
    """Some crash together, and heartbeats of others do not reach everybody."""
    draw = random.Random(f"{seed}/silent")
    members = names(draw.randrange(4, 10))
    at = BEGIN + draw.uniform(50, 100)
    crashed = draw.sample(members, draw.randrange(1, len(members) // 2))
    live = [name for name in members if name not in crashed]
    faults = [fault("crash", at, process=name) for name in crashed]
    for name in draw.sample(live, min(3, len(live))):
        source = draw.choice([other for other in live if other != name] or [name])
        faults.append(fault("omit", at + draw.uniform(-10, 10), process=name, source=source, packet="Beat", count=2))
    load = Workload(rate=20.0, arrivals="poisson", size=16, start=milliseconds(BEGIN))
    return ring(members, load, length=BEGIN + 300, drain=0, seed=seed, faults=faults, admission=False)


def eliminated_of(item: tuple[Scenario, str]) -> Eliminated:
    run, name = item
    summary, table = trace_of(run, *variant(name))
    crashed = {one.process for one in run.fault if one.kind == "crash"}
    by: dict[ProcessId, tuple[ProcessId, ...]] = {}
    for row in rows_of(table, "suspect"):
        if row["true_time"] >= BEGIN * MS:
            by[row["process"]] = (*by.get(row["process"], ()), *row["detail"]["processes"])
    stopped = halts(summary)
    views = views_of(table)
    last = {views[process, "g"][-1][2] for process in run.members if process not in crashed and process not in stopped}
    live = sum(process not in crashed for processes in by.values() for process in processes)
    return Eliminated(by, live=live, stopped=len(set(stopped) - crashed), views=tuple(sorted(last)))


def closure_only(context: Context) -> Measured:
    figure = [fig_5(step * context.of(4.0, 1.0)) for step in range(context.of(2, 16))]
    ours, theirs = (context.sweep(eliminated_of, [(run, name) for run in figure]) for name in ("", "all silent"))
    many = [silent_members(seed) for seed in range(context.of(1, 16))]
    often, rashly = (context.sweep(eliminated_of, [(run, name) for run in many]) for name in ("", "all silent"))
    meant = [
        run
        for run, other in zip(ours, theirs, strict=True)
        if "D" in other.by.get("H", ()) and run.by == {"H": ("G", "F")} and run.views == (tuple("ABCDEH"),)
    ]
    hit = sum("D" in run.by.get("H", ()) for run in theirs)
    live, stopped = totals((*ours, *often), "live", "stopped")
    (all_live,) = totals((*theirs, *rashly), "live")
    return Measured(
        f"F and G crash and H misses the heartbeat of D, at {len(figure)} moments of a rotation: in {hit} of them H has not "
        f"heard D, F and G when it times out; in {len(meant)} of these it eliminates F and G, and A, B, C, D, E and H go on. "
        f"In {len(many)} further runs in which some crash together and others miss heartbeats, and in these, {live} live "
        f"members are eliminated and {stopped} stop; if all who were not heard are eliminated, {all_live}",
        judge(holds=hit == len(meant) > 0 and not live and not stopped and all_live > 0),
        "had D been dead, E would have eliminated it before H's turn",
        [
            {"rule": rule, "live": run.live, "stopped": run.stopped, "by": str(run.by)}
            for rule, found in (("closure", (*ours, *often)), ("all silent", (*theirs, *rashly)))
            for run in found
        ],
    )


# 66: what is said first
@dataclasses.dataclass(frozen=True, slots=True)
class Turns:
    """The turns of a run in which a change was said."""

    turns: int
    changes: int
    others: int  # Other ordered packets in turns with a change,
    before: int  # and those of them that went out before it.


class _Said(Observer):
    """The ordered packets of each turn as they go out, retransmissions among them; a heartbeat ends a turn."""

    def __init__(self) -> None:
        super().__init__()
        self.turns: list[list[bool]] = []
        self._now: dict[ProcessId, list[bool]] = {}
        self._last: dict[ProcessId, int] = {}

    def sending(self, me: ProcessId, to: Sequence[ProcessId], packet: Packet) -> None:
        if isinstance(packet, Data):
            is_new = packet.sender == me and packet.visit > self._last.get(me, -1)
            self._now.setdefault(me, []).append(is_new and isinstance(packet.word, Change))
        elif isinstance(packet, Beat):
            self._last[me] = packet.visit
            if self._now.get(me):
                self.turns.append(self._now.pop(me))


def turns_of(run: Scenario) -> Turns:
    observer = _Said()
    observer.run(run)
    changed = [said for said in observer.turns if True in said]
    before = sum(said.index(True) for said in changed)
    return Turns(turns=len(observer.turns), changes=len(changed), others=sum(len(said) - 1 for said in changed), before=before)


def changes_first(context: Context) -> Measured:
    runs = context.sweep(turns_of, [instrumented(seed) for seed in range(context.of(2, 20))])
    turns, changes, others, before = totals(runs, "turns", "changes", "others", "before")
    return Measured(
        f"{turns:,} turns in {len(runs)} runs with crashes, omissions and joins: {changes:,} begin "
        f"with a change; {others:,} other ordered packets are in the same turns, {before} of them before the change",
        judge(holds=changes > 0 and others > 0 and not before),
        "a turn is made up at once, and the change first",
        rows(runs),
    )
