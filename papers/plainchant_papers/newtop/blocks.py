"""Claims 23 to 31 (chapters 3 and 4): block numbers, completion, and total order over overlapping groups."""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from collections.abc import Sequence
from itertools import combinations
from typing import Any, Final

from plainchant.core.model import MS, Batch, Duration, GroupId, Packet, ProcessId
from plainchant.lab.properties import verify
from plainchant.protocols.newtop.matrix import BlockMatrix
from plainchant.protocols.newtop.packets import Data, Null
from plainchant.scenario.model import Scenario, Workload

from ..claims import Context, Measured, Table, judge, named_rows, rows, totals
from ..observe import Observer, trace_of
from ..runs import rows_of
from .causes import Causes, Relay
from .structures import ORDERS, Groups, delayed, random_run, static
from .variants import VARIANTS, advances


# 23 and 31: numbers of messages
@dataclasses.dataclass(frozen=True, slots=True)
class Numbers:
    """What was found about the numbers of a run's messages."""

    messages: int
    equal: int  # Pairs with equal numbers.
    own: int  # Messages whose number is not above that of what their sender sent before (pr1).
    delivered: int  # or of what it had delivered (pr2).
    related: int  # Pairs with equal numbers of which one happened before the other (pr3).
    multicasts: int
    nulls: int
    in_group: int  # Multicasts, null or not, whose number is not above that of the one before in their group (Lemma I).
    across: int  # Messages whose number is not above that of their sender's last in any group (Lemma II).


class _Numbers(Causes):
    multicasts = nulls = after_delivery = in_group = across = 0

    def __init__(self) -> None:
        super().__init__()
        self._last: dict[tuple[ProcessId, GroupId], int] = {}
        self._last_of: dict[ProcessId, int] = {}
        self._delivered: dict[ProcessId, int] = {}

    def sending(self, me: ProcessId, to: Sequence[ProcessId], packet: Packet) -> None:
        if isinstance(packet, Data | Null):
            self.multicasts += 1
            self.nulls += isinstance(packet, Null)
            self.in_group += packet.block <= self._last.get((me, packet.group), 0)
            self._last[me, packet.group] = packet.block
        if isinstance(packet, Data):
            self.across += packet.block <= self._last_of.get(me, 0)
            self.after_delivery += packet.block <= self._delivered.get(me, 0)
            self._last_of[me] = packet.block
        super().sending(me, to, packet)

    def delivering(self, me: ProcessId, group: GroupId, sender: ProcessId, batch: Batch, rank: int | None) -> None:
        super().delivering(me, group, sender, batch, rank)
        self._delivered[me] = max(self._delivered.get(me, 0), self.sent[group, sender, batch.first].packet.block)


def numbers_of(run: Scenario) -> Numbers:
    seen = _Numbers()
    seen.run(run)
    by_block = defaultdict(list)
    for sent in seen.sent.values():
        by_block[sent.packet.block].append(sent)
    pairs = [pair for messages in by_block.values() for pair in combinations(messages, 2)]
    related = sum(1 for one, other in pairs if one.before(other) or other.before(one))
    counts = (seen.across, seen.after_delivery, related, seen.multicasts, seen.nulls, seen.in_group, seen.across)
    return Numbers(len(seen.sent), len(pairs), *counts)


def numbers(context: Context) -> list[Numbers]:
    """The runs of claims 23 and 31."""
    runs = [random_run(seed, order) for order in ORDERS for seed in range(context.of(6, 60))]
    return context.sweep(numbers_of, runs)


def properties(context: Context) -> Measured:
    runs = context.once("numbers", numbers)
    messages, equal, own, delivered, related = totals(runs, "messages", "equal", "own", "delivered", "related")
    return Measured(
        f"{messages:,} messages in {len(runs)} runs (total, slow, fast, relative): {own} break pr1, {delivered} pr2; of "
        f"{equal:,} pairs with equal numbers {related} are causally related (pr3)",
        judge(holds=bool(messages and equal) and not own + delivered + related),
        "a counter that only grows, and is at least as large as everything sent or delivered, gives the next message a larger "
        "number",
        rows(runs),
    )


def lemmas(context: Context) -> Measured:
    runs = context.once("numbers", numbers)
    multicasts, nulls, messages, first, second = totals(runs, "multicasts", "nulls", "messages", "in_group", "across")
    return Measured(
        f"{multicasts:,} multicasts, {nulls:,} of them null, in {len(runs)} runs: {first} not above the one before of their "
        f"sender in their group (Lemma I); of {messages:,} messages {second} not above the one before in any group (Lemma II)",
        judge(holds=bool(nulls and messages) and not first + second),
        "a null message goes out only where the group has no block as large (4.4), or where its sender has completed none (4.3)",
        rows(runs),
    )


# 24 and 26: the figures of chapter 3
_FIG_3_1: Final = {"p1": (1, 3, 4), "p2": (2, 5), "p3": (3,), "p4": (1, 3), "p5": (2, 4), "p6": (2,)}
_FIG_3_4: Final = {"p1": ((1, 0), (3, 1), (5, 3)), "p2": ((2, 0), (4, 2)), "p3": ((1, 0), (4, 3)), "p4": ((1, 0), (5, 1))}
"""Member to its messages, each with the number of the one before it: of p3 the one with number 3 is missing."""


def _enter(matrix: BlockMatrix, process: str, block: int, previous: int) -> None:
    matrix.represent(matrix.columns[process], Null("g", block, previous, block, 0, 0, 0))


def last_received(context: Context) -> Measured:
    matrix = BlockMatrix(tuple(_FIG_3_1), fifo=True)
    for process, blocks in _FIG_3_1.items():
        for block in blocks:
            _enter(matrix, process, block, 0)
    vector = tuple(column.last for column in matrix.members)
    complete = [block for block in range(1, matrix.largest + 1) if matrix.is_complete(block)]
    return Measured(
        f"LRV = {vector}; complete: {_listed(complete)}; incomplete: {matrix.largest - matrix.complete}",
        judge(holds=vector == (4, 5, 3, 3, 4, 2) and complete == [1, 2] and matrix.complete == 2 and matrix.largest == 5),
        "a block is complete when everybody has sent something with its number or a larger one",
        [{"block": block, "complete": matrix.is_complete(block)} for block in range(1, matrix.largest + 1)],
    )


def out_of_order(context: Context) -> Measured:
    matrix = BlockMatrix(tuple(_FIG_3_4))
    for process, messages in _FIG_3_4.items():
        for block, previous in messages:
            _enter(matrix, process, block, previous)
    complete = [block for block in range(1, matrix.largest + 1) if matrix.is_complete(block)]
    missing = matrix.columns["p3"].minus()
    prefix = matrix.complete
    _enter(matrix, "p3", 3, 1)
    after = [block for block in range(1, matrix.largest + 1) if matrix.is_complete(block)]
    return Measured(
        f"complete: {_listed(complete)}; of p3 is missing: {_listed(missing)}; the complete prefix ends at {prefix}; when the "
        f"missing message has come, complete: {_listed(after)}",
        judge(holds=complete == [1, 4] and missing == [3] and prefix == 1 and after == [1, 2, 3, 4]),
        "p3's 4 is there, so that block 4 lacks nobody; before its 3 has come nobody knows whether it sent a 2",
    )


# 25 and 28: completion
@dataclasses.dataclass(frozen=True, slots=True)
class Completion:
    arrivals: int
    late: int  # Multicasts that came with a number up to which everything had been complete.
    differs: int  # Times that the engine's matrix said something else than the definition.
    blocks: int
    incomplete: int  # Blocks that exist at the end and are not complete, over all members and groups.
    nulls: int
    quiet: bool


class _Completion(Observer):
    """Completion by the definition of 3.4, from what arrives alone."""

    def __init__(self, groups: dict[str, tuple[str, ...]], compare: bool) -> None:
        super().__init__()
        self._last = {(me, group): dict.fromkeys(members, 0) for group, members in groups.items() for me in members}
        self._seen: set[tuple[ProcessId, ProcessId, GroupId, int]] = set()
        self._compare = compare
        self.arrivals = self.late = self.differs = self.nulls = 0

    def receiving(self, me: ProcessId, source: ProcessId, packet: Packet) -> None:
        if isinstance(packet, Data | Null):
            last = self._last[me, packet.group]
            if (me, source, packet.group, packet.block) in self._seen:
                return
            self._seen.add((me, source, packet.group, packet.block))
            self.arrivals += 1
            self.late += packet.block <= min(last.values())
            last[source] = max(last[source], packet.block)

    def received(self, me: ProcessId, source: ProcessId, packet: Packet) -> None:
        if self._compare and isinstance(packet, Data | Null):
            self.differs += self.engines[me].parts[packet.group].matrix.complete != min(self._last[me, packet.group].values())

    def sending(self, me: ProcessId, to: Sequence[ProcessId], packet: Packet) -> None:
        if isinstance(packet, Data | Null):
            self._last[me, packet.group][me] = packet.block
            self.nulls += isinstance(packet, Null)


def completion_of(run: Scenario) -> Completion:
    seen = _Completion(run.groups, run.parameters["transport"] == "fifo")
    summary, _ = seen.run(run)
    matrices = [part.matrix for engine in seen.engines.values() for part in engine.parts.values()]
    blocks = sum(matrix.largest for matrix in matrices)
    incomplete = sum(matrix.largest - matrix.complete for matrix in matrices)
    return Completion(seen.arrivals, seen.late, seen.differs, blocks, incomplete, seen.nulls, summary.quiet)


def in_order(context: Context) -> Measured:
    seeds = context.of(6, 60)
    fifo = context.once("completion", completions)
    lossy = context.sweep(completion_of, [random_run(seed, "total", lossy=True) for seed in range(seeds)])
    arrivals, late, differs = totals(fifo, "arrivals", "late", "differs")
    arrived, overtaken = totals(lossy, "arrivals", "late")
    return Measured(
        f"{arrivals:,} multicasts arrived in {len(fifo)} runs over FIFO links: {late} with a number up to which all blocks "
        f"were complete; the engine's matrix differed from the definition {differs} times. Over links that lose and overtake "
        f"it would have been {overtaken:,} of {arrived:,}",
        judge(holds=bool(arrivals and overtaken) and not late and not differs),
        "each member's numbers grow, and arrive as they were sent, so that the smallest of the last ones bounds all that is "
        "to come; where they are overtaken, the number of the message before (m.pb, 3.7) has to be looked at",
        rows(fifo, lossy),
    )


def completions(context: Context) -> list[Completion]:
    """The runs of claims 25 and 28."""
    return context.sweep(completion_of, [random_run(seed, "total") for seed in range(context.of(10, 120))])


def every_block(context: Context) -> Measured:
    runs = context.once("completion", completions)
    blocks, incomplete, nulls = totals(runs, "blocks", "incomplete", "nulls")
    not_quiet = sum(not run.quiet for run in runs)
    return Measured(
        f"{blocks:,} blocks (member by member and group by group) in {len(runs)} runs with silent members: {incomplete} "
        f"incomplete when the run was over, {not_quiet} runs never over; {nulls:,} null messages",
        judge(holds=bool(blocks and nulls) and not incomplete and not not_quiet),
        "whoever has sent nothing for a block sends a null message with the largest number of the group",
        rows(runs),
    )


# 27: CA2
@dataclasses.dataclass(frozen=True, slots=True)
class Advances:
    deliveries: int
    advanced: int  # Deliveries that advanced the block counter.


def advances_of(run: Scenario) -> Advances:
    observer = Observer()
    summary, _ = observer.run(run, VARIANTS["counting advances"])
    return Advances(summary.messages_delivered, sum(advances(engine) for engine in observer.engines.values()))


def redundant(context: Context) -> Measured:
    seeds = range(context.of(6, 60))
    found = {order: context.sweep(advances_of, [random_run(seed, order) for seed in seeds]) for order in ("total", "slow")}
    total, slow = (totals(runs, "deliveries", "advanced") for runs in found.values())
    return Measured(
        f"total order: {total[1]} of {total[0]:,} deliveries advanced a block counter; slow causal order: {slow[1]:,} of "
        f"{slow[0]:,}",
        judge(holds=bool(total[0]) and not total[1] and bool(slow[1])),
        "a block is not complete before the process itself has sent something with its number, and has advanced its counter for "
        "that; slow order delivers before completion (5.4), so that the rule is needed there",
        [{"order": order, **dataclasses.asdict(run)} for order, runs in found.items() for run in runs],
    )


# 29 and 30: overlapping groups
_SILENCE: Final[dict[str, Any]] = {"silence_by": "timeout", "silence": Duration(20 * MS)}
_FIG_4_2A: Final[Groups] = {"g1": ("p", "q", "r"), "g2": ("p", "q", "s")}


def fig_4_2a(seed: int = 0) -> Scenario:
    """r's messages in g1 arrive at once; s's message with the same number is long under way to p, and quickly at q."""
    network = delayed({("s", "p"): 80.0, ("p", "s"): 2.0, ("s", "q"): 0.5 + seed, ("r", "p"): 0.5, ("r", "q"): 0.5 + seed / 2})
    first = Workload(senders=("r",), group="g1", rate=500.0, count=4, size=16)
    second = Workload(senders=("s",), group="g2", rate=500.0, count=1, size=16)
    return static(_FIG_4_2A, first, second, network=network, order="total", seed=seed, **_SILENCE)


@dataclasses.dataclass(frozen=True, slots=True)
class Verified:
    violations: int
    quiet: bool
    first: str


def verified(item: tuple[Scenario, str, tuple[str, ...]]) -> Verified:
    """Runs a scenario with a variant of the engine (its name; empty: as it is), and verifies properties."""
    run, variant, wanted = item
    summary, table = trace_of(run, VARIANTS[variant])
    result = verify(table, wanted)
    violations = sum(result.properties[name].violations for name in wanted)
    return Verified(violations, summary.quiet, str(result.violations[0]) if result.violations else "")


def safe(context: Context) -> Measured:
    seeds = range(context.of(6, 40))
    runs = [fig_4_2a(seed) for seed in range(context.of(3, 10))] + [random_run(seed, "total", most_groups=4) for seed in seeds]
    wanted = ("total",)
    weak = context.sweep(verified, [(run, "safe1", wanted) for run in runs])
    strong = context.sweep(verified, [(run, "", wanted) for run in runs])
    broken = sum(bool(run.violations) for run in weak)
    return Measured(
        f"{len(runs)} runs of overlapping groups, Fig. 4.2(a) among them: with safe1 total order is violated in {broken} (in "
        f"Fig. 4.2(a) {'yes' if weak[0].violations else 'no'}), with safe1' in {sum(bool(run.violations) for run in strong)}",
        judge(holds=bool(weak[0].violations) and not any(run.violations or not run.quiet for run in strong)),
        "with safe1 a process delivers in one group what is complete there, while the other group's message with the same "
        "number is under way to it and not to another process",
        named_rows("rule", {"safe1": weak, "safe1'": strong}),
    )


_FIG_4_2B: Final[Groups] = {"g1": ("p", "q"), "g2": ("p", "r"), "g3": ("q", "r")}


def fig_4_2b() -> Scenario:
    """p sends m1 to r, which is long under way, and m2 to q, which sends m3 to r."""
    first = Workload(senders=("p",), group="g2", rate=1000.0, count=1, size=16)
    second = Workload(senders=("p",), group="g1", rate=1000.0, count=1, size=16, start=Duration(1 * MS))
    return static(_FIG_4_2B, first, second, network=delayed({("p", "r"): 60.0}), order="total", **_SILENCE)


@dataclasses.dataclass(frozen=True, slots=True)
class Cycle:
    order: tuple[str, ...]  # What r delivered, as group and sender.
    at: tuple[float, ...]  # When, in ms.
    quiet: bool


def cycle_of(variant: str) -> Cycle:
    relay = Relay("g1", "g3", b"m3")
    summary, table = trace_of(fig_4_2b(), VARIANTS[variant], applications={"q": relay})
    rows = list(rows_of(table, "deliver", "r"))
    return Cycle(
        tuple(f"{row['sender']} in {row['group']}" for row in rows), tuple(row["true_time"] / MS for row in rows), summary.quiet
    )


def cycle(context: Context) -> Measured:
    whole, safe1, without = context.sweep(cycle_of, ["", "safe1", "no second liveness"])
    right = ("p in g2", "q in g3")
    cells = [
        (rule, _told_at(run, 0), _told_at(run, 1), "yes" if run.quiet else "no")
        for rule, run in (("safe1' and 4.4", whole), ("safe1", safe1), ("without 4.4", without))
    ]
    return Measured(
        f"r delivers {_told(whole)}; with safe1: {_told(safe1)}; without the second liveness mechanism: {_told(without)}, and "
        f"the run {'ends' if without.quiet else 'never ends'}",
        judge(holds=whole.order == right and whole.quiet and safe1.order != right),
        "m3's block has to be complete in g2 as well, p sends a null message with that number there, and it arrives behind m1",
        tables=(Table("what r delivers in Fig. 4.2(b)", ("rule", "first", "second", "the run ends"), cells),),
    )


def _told(run: Cycle) -> str:
    return ", then ".join(f"{what} at {at:g} ms" for what, at in zip(run.order, run.at, strict=True)) or "nothing"


def _told_at(run: Cycle, place: int) -> str:
    return f"{run.order[place]} at {run.at[place]:g} ms" if place < len(run.order) else "nothing"


def _listed(blocks: Sequence[int]) -> str:
    return ", ".join(str(block) for block in blocks) or "none"
