"""Claims 77 and 78 (section 2): immediate delivery against *safe* delivery as Totem has it, on the same ring."""

from __future__ import annotations

import dataclasses
import statistics
from typing import Any, Final

import pyarrow as pa

from plainchant.core.model import MS, SECOND, ProcessId
from plainchant.scenario.model import Scenario, Workload

from ..claims import Context, Figure, Measured, curves, judge, rows, totals
from ..observe import trace_of
from ..runs import ONE_MILLISECOND, fault, milliseconds, names, rows_of
from .rings import BEGIN, SIZES, halts, ring, rotations

RULES: Final = ("immediate", "safe")
_FIVE: Final = 5
_RATE: Final = 23.0  # Messages a second of each member; never in step with the token.


# 77: who is delayed
@dataclasses.dataclass(frozen=True, slots=True)
class Missed:
    """A run in which one member misses packets, against the same run without."""

    rule: str
    lost: int
    deliveries: int  # At the other members,
    others_later: int  # and those of them that came later than without the loss.
    others_most: float  # By how much at most, ms.
    most: float  # The same at the member that missed something.
    halted: int


def missing(rule: str, seed: int, lost: bool) -> Scenario:
    """Five members, one of which does not get some packets; nothing else is different."""
    sources = [names(_FIVE)[(seed + number) % (_FIVE - 1)] for number in range(6 if lost else 0)]
    at = BEGIN + 40
    faults = [fault("omit", at + 70 * n, process="p5", source=name, packet="Data") for n, name in enumerate(sources)]
    return _steady(_FIVE, 60.0, 500, delivery=rule, seed=seed, faults=faults, retransmissions=1)


def _steady(members: int, rate: float, length: float, **given: Any) -> Scenario:
    """Messages are handed over wherever the token is, and it never waits for them, so all rotations are equally long."""
    load = Workload(rate=rate, size=64, start=milliseconds(BEGIN))
    given |= {"network": ONE_MILLISECOND, "admission": False, "idle_hold": milliseconds(0)}
    return ring(members, load, length=BEGIN + length, drain=0, **given)


def missed_of(item: tuple[str, int]) -> Missed:
    rule, seed = item
    summary, table = trace_of(missing(rule, seed, True))
    _, calm = trace_of(missing(rule, seed, False))
    now, usual = _deliveries(table), _deliveries(calm)
    later = {key: (now[key] - usual[key]) / MS for key in now if key in usual}
    others = [gap for (process, _, _), gap in later.items() if process != "p5"]
    own = [gap for (process, _, _), gap in later.items() if process == "p5"]
    lost = sum(row["detail"].get("fault") == "omit" for row in rows_of(table, "fault"))
    return Missed(rule, lost, len(others), sum(gap > 0 for gap in others), max(0.0, *others), max(0.0, *own), len(halts(summary)))


def _deliveries(table: pa.Table) -> dict[tuple[ProcessId, ProcessId, int], int]:
    return {(row["process"], row["sender"], row["seq"]): row["true_time"] for row in rows_of(table, "deliver")}


def only_the_requester(context: Context) -> Measured:
    seeds = range(context.of(1, 8))
    ours, safe = (context.sweep(missed_of, [(rule, seed) for seed in seeds]) for rule in RULES)
    lost, later, of = totals(ours, "lost", "others_later", "deliveries")
    safe_later, safe_of = totals(safe, "others_later", "deliveries")
    (halted,) = totals((*ours, *safe), "halted")
    return Measured(
        f"{lost} packets that one of five members misses, in {len(ours)} runs: it delivers up to "
        f"{max(run.most for run in ours):.1f} ms late, the others {later} of {of:,} messages later than without the loss; with "
        f"safe delivery {safe_later:,} of {safe_of:,}, by up to "
        f"{max(run.others_most for run in safe):.1f} ms",
        judge(holds=lost > 0 and not later and not halted and max(run.most for run in ours) > 0 and safe_later > 0),
        "nobody waits to hear that others have a message; the retransmission itself takes time of its sender's turn, which is "
        "kept for it",
        rows(ours, safe),
    )


# 78: one round against two
@dataclasses.dataclass(frozen=True, slots=True)
class Latency:
    """How long messages of a ring take, in ms, from when the application hands them over."""

    rule: str
    members: int
    messages: int
    mean: float
    most: float
    sent: float  # From when they are sent, on average,
    sent_most: float  # and at most.
    rotation: float  # The mean rotation.
    longest: float  # The longest rotation.


def latency_of(item: tuple[str, int]) -> Latency:
    rule, members = item
    _, table = trace_of(_steady(members, _RATE, 400, delivery=rule, retransmissions=0))
    took, sent = [], []
    for row in rows_of(table, "deliver"):
        handed = BEGIN * MS + round((row["seq"] - 1) * SECOND / _RATE)
        took.append((row["true_time"] - handed) / MS)
        sent.append((row["true_time"] - row["sent"]) / MS)
    turns = [rotation / MS for rotation in rotations(table)]
    figures = [measure(times) for times in (took, sent, turns) for measure in (statistics.mean, max)]
    return Latency(rule, members, len(took), *figures)


def one_round(context: Context) -> Measured:
    sizes = context.of((2, 5), SIZES)
    found = context.sweep(latency_of, [(rule, members) for rule in RULES for members in sizes])
    ours, safe = ([run for run in found if run.rule == rule] for rule in RULES)
    above = max(run.most - run.longest for run in ours), max(run.most - 2 * run.longest for run in safe)
    after = max(run.sent_most for run in ours), max(run.sent_most - run.longest for run in safe)
    delay = 1.0
    at_once = all(run.sent_most <= delay for run in ours) and above[0] <= delay
    slower = all(one.mean < other.mean for one, other in zip(ours, safe, strict=True))
    two = all(run.most > run.longest for run in safe) and above[1] <= delay
    last = (ours[-1], safe[-1])
    lines = {f"{rule}, mean": [run.mean for run in found if run.rule == rule] for rule in RULES}
    lines |= {f"{rule}, longest": [run.most for run in found if run.rule == rule] for rule in RULES}
    printed = {"one rotation": [run.longest for run in ours], "two rotations": [2 * run.longest for run in ours]}
    title = "from the application's hand-over to delivery, links of 1 ms"
    return Measured(
        f"rings of {sizes[0]} to {sizes[-1]}, links of {delay:g} ms, from the application's hand-over: with immediate delivery "
        f"a message takes a rotation and {above[0]:.1f} ms at the most, with safe delivery two rotations and {above[1]:.1f} "
        f"ms; from when it is sent {after[0]:.1f} ms, and a rotation and {after[1]:.1f} ms. With {sizes[-1]} members "
        f"{last[0].mean:.1f} against {last[1].mean:.1f} ms on average, rotations of {last[0].rotation:.1f} ms",
        judge(holds=at_once and slower and two, nearly=slower),
        "a message waits for its sender's turn, which takes a rotation at the most, and is delivered when it comes. Safe "
        "delivery waits until everybody has said in its own turn that it has it: another rotation (heartbeats go to all; in "
        "Totem the token alone carries this, and one more round is needed to tell it)",
        rows(found),
        (Figure("latency-by-size", title, "members (n)", "ms", curves(sizes, lines, printed)),),
    )
