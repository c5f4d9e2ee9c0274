"""Claims 55 to 58 and 60 (chapter 8): flow control."""

from __future__ import annotations

import dataclasses
import random
from typing import Any, Final

from plainchant.core.model import MS, Duration, Packet, ProcessId
from plainchant.protocols.newtop.flow import Flow
from plainchant.protocols.newtop.matrix import BlockMatrix
from plainchant.protocols.newtop.packets import Data
from plainchant.scenario.model import Scenario, Workload

from ..claims import Context, Measured, judge, named_rows, rows
from ..observe import Observer, trace_of
from ..runs import names
from .stations import Experiment, scenario_of
from .structures import LOSSY, members_of, static, structure, uneven
from .variants import VARIANTS

_SHORT: Final = {"silence_by": "timeout", "silence": Duration(5 * MS)}


# 55: the bound
@dataclasses.dataclass(frozen=True, slots=True)
class Bound:
    blocks: int
    unstable: int  # The most unstable blocks that a member had in a group.
    held: float  # The most messages that a member held of a group, over N times the group's size.
    blocked: int  # Times that a message was kept back.
    quiet: bool


class _Room(Observer):
    """Looks at every member after everything that happens to it."""

    unstable = blocked = 0
    held = 0.0

    def received(self, me: ProcessId, source: ProcessId, packet: Packet) -> None:
        for part in self.engines[me].parts.values():
            part.flow.refresh()
            self.unstable = max(self.unstable, part.flow.unstable)
            self.held = max(self.held, _messages(part.matrix) / (part.flow.bound * len(part.members)))
            self.blocked += bool(part.blocked)


def _messages(matrix: BlockMatrix) -> int:
    """Messages that are held: not delivered, or not known to be everywhere. Null messages have no content and are not counted."""
    return sum(
        len({packet.block for packet in (*column.kept, *column.early.values(), *column.queue) if isinstance(packet, Data)})
        for column in matrix.members
    )


def bound_of(run: Scenario) -> Bound:
    observer = _Room()
    summary, _ = observer.run(run)
    return Bound(run.parameters["blocks"], observer.unstable, observer.held, observer.blocked, summary.quiet)


def pressed(seed: int, blocks: int, *, lossy: bool = False) -> Scenario:
    """Members of overlapping groups that send as fast as they are let."""
    draw = random.Random(f"{seed}/pressed")
    groups = structure(draw, 3)
    members = members_of(groups)
    network = LOSSY if lossy else uneven(draw, members)
    senders = tuple(name for name in members if draw.random() < 0.6) or members[:1]
    parameters: dict[str, Any] = {**_SHORT, "blocks": blocks, "transport": "lossy" if lossy else "fifo"}
    return static(groups, Workload(senders=senders, count=60, size=16), seed=seed, network=network, seconds=0.3, **parameters)


def bounded(context: Context) -> Measured:
    seeds = range(context.of(3, 25))
    runs = context.sweep(
        bound_of, [pressed(seed, blocks, lossy=lossy) for blocks in (3, 4, 8, 20) for lossy in (False, True) for seed in seeds]
    )
    over = [run for run in runs if run.unstable > run.blocks]
    held = max(run.held for run in runs)
    stuck = sum(not run.quiet for run in runs)
    return Measured(
        f"{len(runs)} runs with N = 3, 4, 8, 20, senders as fast as they are let: more than N unstable blocks in {len(over)}; "
        f"a member held at most {held:.0%} of N messages of each member; {stuck} runs never ended; senders were kept back in "
        f"{sum(bool(run.blocked) for run in runs)}",
        judge(holds=not over and held <= 1 and not stuck and any(run.blocked for run in runs)),
        "a message goes out only if the block N before it is stable at everybody",
        rows(runs),
    )


# 56 and 58: N and the conditions
@dataclasses.dataclass(frozen=True, slots=True)
class Liveness:
    sent: int
    wanted: int
    quiet: bool

    @property
    def lives(self) -> bool:
        return self.quiet and self.sent == self.wanted


def liveness_of(item: tuple[int, int, str]) -> Liveness:
    """A group in which everybody sends as fast as it is let, with this N and this variant of the engine."""
    seed, blocks, variant = item
    draw = random.Random(f"{seed}/liveness")
    members = names(draw.randrange(2, 6))
    count = 40
    load, network = Workload(count=count, size=16), uneven(draw, members)
    run = static({"g": members}, load, seed=seed, network=network, seconds=1, drain=30, blocks=blocks, **_SHORT)
    summary, _ = trace_of(run, VARIANTS[variant])
    return Liveness(summary.messages_sent, count * len(members), summary.quiet)


def least_bound(context: Context) -> Measured:
    seeds = range(context.of(4, 30))
    three = context.sweep(liveness_of, [(seed, 3, "") for seed in seeds])
    two = context.sweep(liveness_of, [(seed, 3, "N = 2") for seed in seeds])
    live, dead = sum(run.lives for run in three), sum(not run.lives for run in two)
    return Measured(
        f"N = 3: everything sent and delivered in {live} of {len(three)} runs; N = 2: deadlock in {dead} of {len(two)}, after "
        f"{sum(run.sent for run in two)} of {sum(run.wanted for run in two):,} messages",
        judge(holds=live == len(three) and dead == len(two)),
        "with N = 2 the third condition asks for the block itself to be complete before it is sent; the thesis prints N <= 3 "
        "twice where it proves N >= 3",
        named_rows("blocks", {3: three, 2: two}),
    )


def one_condition(context: Context) -> Measured:
    seeds = range(context.of(4, 30))
    sizes = (3, 4, 8)
    alone = context.sweep(liveness_of, [(seed, blocks, "fl1 alone") for blocks in sizes for seed in seeds])
    whole = context.sweep(liveness_of, [(seed, blocks, "") for blocks in sizes for seed in seeds])
    dead, live = sum(not run.lives for run in alone), sum(run.lives for run in whole)
    return Measured(
        f"N = 3, 4, 8: with fl1 alone deadlock in {dead} of {len(alone)} runs; with fl2 and fl3 in {len(whole) - live} of "
        f"{len(whole)}",
        judge(holds=live == len(whole) and dead == len(alone), nearly=live == len(whole) and dead > 0),
        "who waits for fl1 waits for news of stability, which travel with messages, whose senders wait for fl1 too",
        named_rows("conditions", {"fl1": alone, "all": whole}),
    )


# 57: Fig. 8.1
_N: Final = 8


def example(context: Context) -> Measured:
    """Our blocks begin at 1, the figure's at 0."""
    matrix = BlockMatrix(names(3))
    flow = Flow(matrix, matrix.members[0], _N)
    for column in matrix.members:
        column.flow, column.complete, column.stable, column.done = 5, 4, 3, 4
    flow.refresh()
    sent = [block for block in range(5, 16) if not flow.closed(block + 1)]
    reasons = flow.closed(12)
    for column in matrix.members:
        column.flow, column.complete, column.stable, column.done = 6, 5, 4, 5
    flow.refresh()
    after = not flow.closed(12)
    return Measured(
        f"N = {_N}, blocks 0 to 2 stable at everybody, 3 stable, 4 complete: may be sent {sent[0]} to {sent[-1]}; 11 waits "
        f"({reasons}); when 3 is stable at everybody, 4 stable and 5 complete it {'may go' if after else 'still waits'}",
        judge(holds=sent == [5, 6, 7, 8, 9, 10] and bool(reasons) and after),
        "the three conditions are looked at for each number",
    )


# 60: no acknowledgements
@dataclasses.dataclass(frozen=True, slots=True)
class Extra:
    data: int
    nulls: int
    other: int  # Packets that are neither.


def extra_of(item: Experiment) -> Extra:
    summary, _ = trace_of(scenario_of(item))
    counts = dict(summary.packets_by_type)
    data, nulls = counts.pop("Data", 0), counts.pop("Null", 0)
    return Extra(data, nulls, sum(counts.values()))


def no_acknowledgements(context: Context) -> Measured:
    messages = context.of(150, 500)
    experiments = [
        Experiment(members, interval, 50, all_active=active, messages=messages, cost=0)
        for members in (3, 6)
        for interval, active in ((10, False), (50, False), (50, True), (200, True))
    ]
    found = {
        blocks: context.sweep(extra_of, [dataclasses.replace(experiment, blocks=blocks) for experiment in experiments])
        for blocks in (0, 8, 50)
    }
    off, on, wide = found.values()
    other = sum(run.other for run in (*on, *wide))
    changes, narrow = (
        [after.nulls / before.nulls - 1 for before, after in zip(off, runs, strict=True) if before.nulls] for runs in (wide, on)
    )
    return Measured(
        f"{sum(run.data for run in wide):,} message packets with flow control: {other} packets that are neither message nor "
        f"null message; null messages with N = 50 {min(changes):+.1%} to {max(changes):+.1%} of those without flow control, "
        f"with N = 8 {min(narrow):+.1%} to {max(narrow):+.1%}",
        judge(holds=not other and max(changes) <= 0.01, nearly=not other),
        "what is complete and what is stable travels with messages and null messages; where N is too small for the rate, "
        "senders wait, send later, and each of their messages finds fewer others to share a null message with",
        [
            {"blocks": blocks, "members": given.members, "interval_ms": given.interval, "all_active": given.all_active, **row}
            for blocks, runs in found.items()
            for given, row in zip(experiments, rows(runs), strict=True)
        ],
    )
