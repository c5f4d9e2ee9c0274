"""Claims 69, 70 and 79 (4.6, section 5, 6.3): what r retransmissions cost and save, Delta, and deadlines under failures."""

from __future__ import annotations

import dataclasses
import random
from itertools import product
from typing import Final

from plainchant.core.model import SECOND, Duration
from plainchant.scenario.model import Fault, Scenario, Workload

from ..claims import Context, Figure, Measured, curves, judge, rows
from ..observe import trace_of
from ..runs import ONE_MILLISECOND, Given, fault, milliseconds, names, rows_of
from .rings import BEGIN, FULL, Checked, checked, halts, longest_rotation, reasons, ring, rotations, times_of

RETRANSMISSIONS: Final = (0, 1, 2, 3)
LOSSES: Final = (0.001, 0.003, 0.01, 0.03, 0.1)
DEADLINES: Final = (60, 80, 100, 130, 160, 200, 250, 300, 400, 500)
_FOUR: Final = 4


# 69: what r costs and saves
@dataclasses.dataclass(frozen=True, slots=True)
class Lossy:
    """A ring over links that lose packets, for a second."""

    retransmissions: int
    loss: float
    seed: int

    def run(self) -> Scenario:
        load = Workload(rate=50.0, arrivals="poisson", size=64, start=milliseconds(BEGIN))
        given: Given = {"seed": self.seed, "network": ONE_MILLISECOND, "faults": [fault("loss", BEGIN, rate=self.loss)]}
        given |= {"retransmissions": self.retransmissions, "resends": 4, "admission": False, "heartbeats": 4}
        return ring(_FOUR, load, length=BEGIN + 1000, drain=0, **given)


@dataclasses.dataclass(frozen=True, slots=True)
class Survived:
    """What became of its members."""

    retransmissions: int
    loss: float
    members: int
    halted: int
    omissions: int  # Those of them that stopped because they missed a packet.


def survived_of(lossy: Lossy) -> Survived:
    summary, table = trace_of(lossy.run())
    return Survived(lossy.retransmissions, lossy.loss, _FOUR, len(halts(summary)), reasons(table)["omission"])


@dataclasses.dataclass(frozen=True, slots=True)
class Load:
    """One member asks for more and more streams, of this deadline and period, in ms."""

    retransmissions: int
    deadline: int

    @property
    def rate(self) -> float:
        """Messages a second: nearly one a deadline."""
        return 990 / self.deadline

    def run(self) -> Scenario:
        begin, deadline = milliseconds(BEGIN), milliseconds(self.deadline)
        stream = Workload(senders=("p1",), rate=self.rate, size=_SIZE, deadline=deadline, start=begin)
        given: Given = {"network": FULL, "retransmissions": self.retransmissions, "hold": milliseconds(8)}
        return ring(_FOUR, *(stream,) * _STREAMS, length=BEGIN + 200, drain=0, **given)


_SIZE: Final = 1000
_STREAMS: Final = 40


@dataclasses.dataclass(frozen=True, slots=True)
class Admitted:
    """How many it got."""

    retransmissions: int
    deadline: int
    streams: int
    load: float  # Of their messages, kbit/s.
    missed: int  # Messages that came too late.


def admitted_of(load: Load) -> Admitted:
    summary, table = trace_of(load.run())
    due = {
        (row["sender"], row["seq"]): row["true_time"] + row["deadline"] - row["time"]
        for row in rows_of(table, "send")
        if row["deadline"] is not None
    }
    late = sum(row["true_time"] > due.get((row["sender"], row["seq"]), row["true_time"]) for row in rows_of(table, "deliver"))
    count = summary.streams_admitted
    return Admitted(load.retransmissions, load.deadline, count, count * _SIZE * 8 * load.rate / 1000, late)


def more_retransmissions(context: Context) -> Measured:
    losses = context.of(LOSSES[2:3], LOSSES)
    seeds = range(context.of(2, 8))
    survived = context.sweep(survived_of, [Lossy(*each) for each in product(RETRANSMISSIONS, losses, seeds)])
    deadlines = context.of(DEADLINES[5:9:3], DEADLINES)
    admitted = context.sweep(admitted_of, [Load(r, deadline) for r in RETRANSMISSIONS for deadline in deadlines])

    def share(r: int, loss: float, field: str) -> float:
        runs = [run for run in survived if (run.retransmissions, run.loss) == (r, loss)]
        return float(sum(getattr(run, field) for run in runs)) / sum(run.members for run in runs)

    by_r = {r: [share(r, loss, "omissions") for loss in losses] for r in RETRANSMISSIONS}
    halted = {r: [share(r, loss, "halted") for loss in losses] for r in RETRANSMISSIONS}
    loads = {r: [run.load for run in admitted if run.retransmissions == r] for r in RETRANSMISSIONS}
    fewer = all(sum(by_r[r]) <= sum(by_r[r - 1]) for r in RETRANSMISSIONS[1:]) and sum(by_r[3]) < sum(by_r[0])
    less = all(one <= other for r in RETRANSMISSIONS[1:] for one, other in zip(loads[r], loads[r - 1], strict=True))
    less = less and sum(loads[3]) < sum(loads[0])
    missed = sum(run.missed for run in admitted)
    where = losses[len(losses) // 2]
    place = losses.index(where)
    middle = len(deadlines) // 2
    by_loss = curves(losses, {f"r = {r}": values for r, values in halted.items()})
    by_deadline = curves(deadlines, {f"r = {r}": values for r, values in loads.items()})
    title = f"load that one member is promised, messages of {_SIZE} bytes"
    stops = "a member stops within a second, four members"
    return Measured(
        f"members that stop within a second because they miss a packet, {where:.1%} of packets lost: "
        f"{', '.join(f'{by_r[r][place]:.0%} (r = {r})' for r in RETRANSMISSIONS)}; for any reason "
        f"{', '.join(f'{halted[r][place]:.0%}' for r in RETRANSMISSIONS)}. Load that is admitted with deadlines of "
        f"{deadlines[middle]} ms: {', '.join(f'{loads[r][middle]:.0f} kbit/s (r = {r})' for r in RETRANSMISSIONS)}; of what was "
        f"admitted, {missed} messages came late",
        judge(holds=fewer and less and not missed),
        "a retransmission more is a rotation more in Delta, which leaves fewer turns to send a message in, and time is kept "
        "for it in every turn; and a packet has to be lost once more to be missed. A member whose heartbeats are all lost is "
        "eliminated whatever r is",
        rows(survived),
        (
            Figure("halts-by-loss", stops, "share of packets lost", "probability", by_loss, log_x=True),
            Figure("admitted-by-deadline", title, "deadline and period (ms)", "kbit/s", by_deadline),
        ),
    )


# 70: Delta
@dataclasses.dataclass(frozen=True, slots=True)
class Slow:
    """A packet of one sender is lost r times at one member, again and again; the others' turns are full."""

    retransmissions: int
    members: int
    seed: int

    def run(self) -> Scenario:
        draw = random.Random(f"{self.seed}/slow")
        count = self.retransmissions
        rotation = longest_rotation(self.members, retransmissions=count, admission=False)
        others = names(self.members)[1:]
        faults: list[Fault] = []
        at = BEGIN + 50
        for _ in range(4 if count else 0):
            faults.append(fault("omit", at, process=draw.choice(others), source=_SENDER, packet="Data", count=count))
            at += (count + 2) * rotation
        own = Workload(senders=(_SENDER,), rate=4000 / rotation, size=64, start=milliseconds(BEGIN))
        full = Workload(senders=others, size=1058, start=milliseconds(BEGIN))
        given: Given = {"retransmissions": count, "admission": False, "clocks": "none", "heartbeats": 1, "network": FULL}
        return ring(self.members, own, full, length=at + 2 * rotation, drain=0, faults=faults, seed=self.seed, **given)


_SENDER: Final = "p1"


@dataclasses.dataclass(frozen=True, slots=True)
class Delayed:
    """How long that sender's messages took from when they were sent to their delivery."""

    retransmissions: int
    members: int
    deliveries: int
    lost: int
    longest: float  # In rotations (P),
    turning: float  # and in rotations as long as the longest that was measured.
    halted: int


def delayed_of(slow: Slow) -> Delayed:
    run = slow.run()
    summary, table = trace_of(run)
    took = [row["true_time"] - row["sent"] for row in rows_of(table, "deliver") if row["sender"] == _SENDER]
    longest = max(took)
    omitted = sum(row["detail"].get("fault") == "omit" for row in rows_of(table, "fault"))
    turning = longest / max(rotations(table))
    halted = len(halts(summary))
    return Delayed(slow.retransmissions, slow.members, len(took), omitted, longest / times_of(run)["rotation"], turning, halted)


def delivery_time(context: Context) -> Measured:
    sizes = context.of((3,), (2, 3, 5))
    seeds = range(context.of(1, 3))
    runs = context.sweep(delayed_of, [Slow(r, members, seed) for r in RETRANSMISSIONS for members in sizes for seed in seeds])
    worst = {r: max(run.longest for run in runs if run.retransmissions == r) for r in RETRANSMISSIONS}
    turning = {r: max(run.turning for run in runs if run.retransmissions == r) for r in RETRANSMISSIONS}
    halted = sum(run.halted for run in runs)
    lost = all(run.lost for run in runs if run.retransmissions)
    return Measured(
        f"{len(runs)} runs with full turns, a packet lost r times at one member, {sum(run.deliveries for run in runs):,} "
        f"deliveries: the longest took {', '.join(f'{worst[r]:.2f} P (r = {r})' for r in RETRANSMISSIONS)}; in rotations as "
        f"they were, {', '.join(f'{turning[r]:.2f}' for r in RETRANSMISSIONS)}; {halted} members stopped",
        judge(holds=lost and not halted and all(worst[r] <= r + 1 for r in RETRANSMISSIONS)),
        "what is missing is asked for in one's own turn and sent again in its sender's next one: at most P for each time",
        rows(runs),
    )


# 79: deadlines
def on_time(seed: int) -> Scenario:
    """Messages with and without deadlines; a member crashes and comes back; packets are lost up to r times, one after another."""
    draw = random.Random(f"{seed}/on time")
    retransmissions = seed % 4
    members = draw.randrange(3, 7)
    rotation = longest_rotation(members, retransmissions=retransmissions)
    least = (retransmissions + 2) * rotation

    def deadline() -> Duration:
        return milliseconds(least * draw.uniform(1, 3))

    every = [deadline() for _ in range(2)]
    begin = milliseconds(BEGIN)
    sizes = (16, 200, 900)
    load = [Workload(rate=0.99 * SECOND / each, deadline=each, size=draw.choice(sizes), start=begin) for each in every]
    load.append(Workload(rate=4.0, arrivals="poisson", deadline=deadline(), size=100, start=begin))
    load.append(Workload(rate=50.0, arrivals="poisson", size=300, start=begin))
    named = names(members)
    faults: list[Fault] = []
    at = BEGIN + 100
    for _ in range(3 if retransmissions else 0):
        process, source = draw.sample(named, 2)
        faults.append(fault("omit", at, process=process, source=source, packet="Data", count=draw.randint(1, retransmissions)))
        at += (retransmissions + 3) * rotation
    crashed = draw.choice(named)
    faults += [fault("crash", at, process=crashed), fault("restart", at + 4 * rotation, process=crashed)]
    length = at + 12 * rotation
    return ring(members, *load, length=length, drain=0, seed=seed, faults=faults, network=FULL, retransmissions=retransmissions)


def timely_of(seed: int) -> Checked:
    return checked(on_time(seed), ("deadline", "total", "view-atomicity"))


def timely(context: Context) -> list[Checked]:
    """The runs of claim 79, which claim 73 looks at, too."""
    return context.sweep(timely_of, range(context.of(4, 40)))


def every_deadline(context: Context) -> Measured:
    runs = context.once("timely", timely)
    cases = {r: sum(run.cases["deadline"] for run in runs if run.retransmissions == r) for r in RETRANSMISSIONS}
    missed = sum(run.violations["deadline"] for run in runs)
    others = sum(sum(run.violations.values()) for run in runs) - missed
    crashes, omissions = sum(run.crashes for run in runs), sum(run.omissions for run in runs)
    first = next((run.first for run in runs if run.first), "")
    by_r = ", ".join(f"{count:,} with r = {r}" for r, count in cases.items())
    return Measured(
        f"{len(runs)} runs with {crashes} crashes and {omissions} packets dropped: {sum(cases.values()):,} deliveries of "
        f"guaranteed messages ({by_r}), {missed} after their deadline or never at a destination that did not crash; "
        f"{others} violations of order and atomicity{'; ' + first if first else ''}",
        judge(holds=all(cases.values()) and not missed and not others and crashes > 0 and omissions > 0),
        "a deadline is promised only if it leaves time for everything that is assumed to go wrong: r losses of a packet, and "
        "as many crashes in a rotation as P has room for",
        [run.row() for run in runs],
    )
