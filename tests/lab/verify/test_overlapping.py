"""Eight overlapping groups as chains, rings, stars and cliques: certificates prove what is correct, and what is not is found.

Correct runs are a toy's (``overlapping_traces``); the spoilt ones differ from them in what only shows across groups. The
reference verifier is the measure in all of them.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from plainchant.lab.properties import verify
from plainchant.lab.properties.certificates.unit import Unit
from plainchant.lab.verify import job as on_spark
from plainchant.lab.verify.check import check, proved
from plainchant.trace.validation import validate

from .. import overlapping_traces as toy
from ..agreement import check_in_pieces, differences
from ..layouts import ORDER, written
from ..mutations import CAUGHT, HARMLESS, Histories, histories_of, mutated
from ..random_traces import Event, RandomRun, table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ORDERS = tuple(toy.PROMISES)
SHAPES = {**toy.SHAPES, "double": {"g": ["a", "b", "c"], "h": ["b", "c", "d"]}}
every_shape = pytest.mark.parametrize("shape", list(toy.SHAPES))
either_order = pytest.mark.parametrize("order", ORDERS)


def left_open(rows: pa.Table, size: int | None = None) -> tuple[str, ...]:
    """What the certificates of a run do not prove, made of units of so many rows."""
    units = [Unit(rows.slice(first, size)) for first in range(0, rows.num_rows, size)] if size else [Unit(rows)]
    (found,) = proved(units, None)
    assert not found.suspect
    return found.doubtful


def agrees(rows: pa.Table) -> None:
    """The check of tasks says what the reference says, of whole runs and of torn ones."""
    assert validate(rows) == []
    reference = verify(rows).to_json()
    assert differences(check(rows).to_json(), reference) == []
    assert differences(check_in_pieces(rows.sort_by(ORDER), 61, None).to_json(), reference) == []


# --- correct runs -----------------------------------------------------------------------------------------------------


@every_shape
@either_order
def test_a_correct_run_is_proved_without_a_search(shape: str, order: str) -> None:
    rows = toy.trace(shape, order, 900)
    assert verify(rows).verdict == "holds"
    assert all(outcome.cases for outcome in verify(rows).properties.values())
    agrees(rows)
    assert left_open(rows) == ()
    assert left_open(rows, 150) == ()


@pytest.mark.parametrize("clocked", [True, False], ids=["clocked", "without a global clock"])
def test_what_waited_no_longer_than_it_had_to_is_proved(clocked: bool) -> None:
    rows = toy.World(toy.ring(3), "causal", 5, clocked=clocked).run(1_500)
    assert verify(rows).properties["prompt"].cases > 20
    assert left_open(rows) == ()
    agrees(rows)


@either_order
def test_a_long_run_of_two_groups_is_proved_in_pieces(order: str) -> None:
    """More than 256 messages of each sender: ranks of row groups are then compared by hashes."""
    rows = toy.World(toy.chain(2, 2), order, 1).run(6_000)
    assert left_open(rows, 1_700) == ()
    assert differences(check_in_pieces(rows, 1_700, None).to_json(), verify(rows).to_json()) == []


def test_groups_that_nothing_connects_are_proved_together() -> None:
    apart = toy.chain(2) | {"h0": ["q1", "q2"], "h1": ["q2", "q3"]}
    for order in ORDERS:
        rows = toy.World(apart, order, 2).run(600)
        agrees(rows)
        assert left_open(rows) == ()


@every_shape
def test_total_order_without_ranks_is_proved_too(shape: str) -> None:
    run = RandomRun("r0", histories_of(toy.trace(shape, "total", 600)), [])
    for events in run.histories.values():
        for event in events:
            event.pop("rank", None)
    rows = table([run])
    agrees(rows)
    assert left_open(rows) == ()


def test_ranks_of_two_senders_may_collide() -> None:
    """Equal ranks count as ordered by the sender's name: a protocol that breaks ties in that way is proved."""
    rows = toy.World(toy.ring(3), "total", 3).run(600)
    run = RandomRun("r0", histories_of(rows), [])
    blocks = sorted({event["rank"] >> 24 for events in run.histories.values() for event in events if "rank" in event})
    places = {name: place for place, name in enumerate(sorted(run.histories))}
    ties = 0
    for events in run.histories.values():
        for event in events:
            if "rank" in event:
                event["rank"] = blocks.index(event["rank"] >> 24)
        delivered = [at for at, event in enumerate(events) if event["kind"] == "deliver"]
        ordered = sorted((events[at] for at in delivered), key=lambda e: (e["rank"], places[e["sender"]], e["seq"]))
        ties += sum(a["rank"] == b["rank"] and a["sender"] != b["sender"] for a, b in pairwise(ordered))
        for at, event in zip(delivered, ordered, strict=True):
            events[at] = event
    spoilt = table([run])
    assert ties > 10
    agrees(spoilt)
    assert left_open(spoilt) == ()


def test_what_a_crashed_sender_did_not_deliver_is_left_to_clocks() -> None:
    """Ranks prove nothing of a message that its sender does not deliver; its clock does."""
    run = RandomRun("r0", histories_of(toy.trace("ring", "total", 600)), [])
    events = run.histories["p02"]
    del events[max(at for at, event in enumerate(events) if event["kind"] == "send") + 1 :]
    events.append({"kind": "crash", "time": events[-1]["time"]})
    rows = table([run])
    agrees(rows)
    assert verify(rows).properties["causal"].verdict == "holds"
    assert left_open(rows) == ()


# --- spoilt runs ------------------------------------------------------------------------------------------------------

Corners = tuple[str, str, str, tuple[str, str, str]]


def corners(histories: Histories) -> Corners:
    """Three processes and three groups: the first is in the first two groups, the second in the last two, the third in the
    last and the first; no two of them share more than one."""
    groups = {name: {e["group"] for e in events if e["kind"] == "view"} for name, events in histories.items()}
    for x, y, z in ((x, y, z) for x in groups for y in groups for z in groups if len({x, y, z}) == 3):
        a, b, c = groups[z] & groups[x], groups[x] & groups[y], groups[y] & groups[z]
        if len(a) == len(b) == len(c) == len(a | b | c) - 2 == 1:
            return x, y, z, (*a, *b, *c)
    names = sorted(histories)
    (g, *_), (h, *_) = groups[names[0]], groups[names[1]]
    return names[0], names[1], names[0], (g, h, g)


class Tail:
    """More events at the ends of a run's histories, all later than what is there."""

    def __init__(self, histories: Histories, *, ranked: bool) -> None:
        self.histories = histories
        self.ranked = ranked
        self.ends = {name: events.pop() for name, events in histories.items()}
        self.now = max(event["time"] for event in self.ends.values())
        self.rank = max((event.get("rank", 0) for events in histories.values() for event in events), default=0)
        self.sent: dict[str, int] = {}

    def _write(self, process: str, event: Event) -> None:
        self.now += 1
        self.histories[process].append({**event, "time": self.now, "true_time": self.now})

    def send(self, process: str, group: str) -> Event:
        numbers = [e["seq"] for e in self.histories[process] if e["kind"] == "send" and e["group"] == group]
        message = {"group": group, "sender": process, "seq": max(numbers, default=0) + 1}
        self._write(process, {"kind": "send", **message})
        return message

    def deliver(self, process: str, message: Event, place: int) -> None:
        """With a rank that is so many places behind all others."""
        self._write(process, {"kind": "deliver", **message, **({"rank": self.rank + place} if self.ranked else {})})

    def deliver_elsewhere(self, message: Event, place: int, *names: str) -> None:
        """At all other members of its group, of whom none has anything else of the tail."""
        for name, events in self.histories.items():
            if name not in names and any(e["kind"] == "view" and e["group"] == message["group"] for e in events):
                self.deliver(name, message, place)

    def close(self) -> None:
        for name, events in self.histories.items():
            events.append({**self.ends[name], "time": self.now + 1})


def swap_across_groups(random: Random, histories: Histories, *, ranked: bool) -> None:
    """A process delivers two messages of different groups that others have too the wrong way round."""
    places = [
        (process, at)
        for process, events in histories.items()
        for at, (one, other) in enumerate(pairwise(events))
        if one["kind"] == other["kind"] == "deliver" and one["group"] != other["group"]
    ]
    process, at = random.choice(places)
    events = histories[process]
    events[at], events[at + 1] = events[at + 1], events[at]
    for column in ("time", "true_time"):
        events[at][column], events[at + 1][column] = events[at + 1][column], events[at][column]


def cycle_over_three_groups(random: Random, histories: Histories, *, ranked: bool, lying: int = 0) -> None:
    """Three messages of three groups, of which each of three processes delivers two: each in an order that the other two do
    not contradict."""
    x, y, z, (g, h, k) = corners(histories)
    tail = Tail(histories, ranked=ranked)
    one, two, three = tail.send(z, g), tail.send(x, h), tail.send(y, k)
    for process, first, second in ((x, (one, 1), (two, 2)), (y, (two, 2), (three, 3)), (z, (three, 3), (one, 1 + lying))):
        tail.deliver(process, *first)
        tail.deliver(process, *second)
    for number, message in enumerate((one, two, three), 1):
        tail.deliver_elsewhere(message, number, x, y, z)
    tail.close()


def cycle_with_ranks_that_grow(random: Random, histories: Histories, *, ranked: bool) -> None:
    """The same, and one of the three says another rank than the others, so that ranks grow along every history."""
    cycle_over_three_groups(random, histories, ranked=ranked, lying=3)


def cause_through_a_foreign_group(random: Random, histories: Histories, *, ranked: bool) -> None:
    """x sends in g and then in h; who gets that answers in k, and a member of g and k gets the answer first. Ranks grow along
    every history all the same, because x delivers its two messages the other way round."""
    x, y, z, (g, h, k) = corners(histories)
    tail = Tail(histories, ranked=ranked)
    cause, between = tail.send(x, g), tail.send(x, h)
    tail.deliver(y, between, 1)
    answer = tail.send(y, k)
    tail.deliver(y, answer, 2)
    tail.deliver(z, answer, 2)
    tail.deliver(z, cause, 3)
    tail.deliver(x, between, 1)
    tail.deliver(x, cause, 3)
    for number, message in ((3, cause), (1, between), (2, answer)):
        tail.deliver_elsewhere(message, number, x, y, z)
    tail.close()


def rank_below_what_was_known(random: Random, histories: Histories, *, ranked: bool) -> None:
    """x delivers a message of one group, sends in the same and crashes; everybody has its message before the first."""
    x, _, z, (g, _, _) = corners(histories)
    tail = Tail(histories, ranked=ranked)
    known = tail.send(z, g)
    tail.deliver(x, known, 2)
    late = tail.send(x, g)
    tail.deliver(z, late, 1)
    tail.deliver(z, known, 2)
    for number, message in ((1, late), (2, known)):
        tail.deliver_elsewhere(message, number, x, z)
    tail.ends[x] = {"kind": "crash"}
    tail.close()


def lack_a_cause(random: Random, histories: Histories, *, ranked: bool) -> None:
    """x sends in g and then in h; who gets that answers in k, and a member of g and k gets the answer and never the cause."""
    x, y, z, (g, h, k) = corners(histories)
    tail = Tail(histories, ranked=ranked)
    cause, between = tail.send(x, g), tail.send(x, h)
    tail.deliver(x, cause, 1)
    tail.deliver(x, between, 2)
    tail.deliver(y, between, 2)
    answer = tail.send(y, k)
    tail.deliver(y, answer, 3)
    tail.deliver(z, answer, 3)
    for number, message in ((1, cause), (2, between), (3, answer)):
        tail.deliver_elsewhere(message, number, x, y, z)
    tail.close()


SPOILERS: dict[str, tuple[Callable[..., None], set[str]]] = {
    "swap": (swap_across_groups, set()),
    "cycle": (cycle_over_three_groups, {"acyclic"}),
    "lying ranks": (cycle_with_ranks_that_grow, {"acyclic"}),
    "foreign cause": (cause_through_a_foreign_group, {"causal", "total"}),
    "low rank": (rank_below_what_was_known, {"causal", "total"}),
    "no cause": (lack_a_cause, {"causal", "total"}),
}
"""What is done, and which properties are violated by it, as far as that is always the same."""


def spoilt(shape: str, order: str, spoiler: str, seed: int, name: str) -> RandomRun:
    """A run that promises what total order does, whichever order it was made in."""
    rows = toy.World(SHAPES[shape], order, seed, batches=False).run(300)
    run = RandomRun(name, histories_of(rows), [])
    promises = '{"version": 1, "promises": ["fifo", "causal", "identical", "total", "acyclic"]}'
    for events in run.histories.values():
        events[0] = {**events[0], "detail": promises}
    SPOILERS[spoiler][0](Random(f"{spoiler} {seed}"), run.histories, ranked=order == "total")
    return run


def test_a_swap_across_groups_is_found() -> None:
    """Where two processes share two groups, every swap of neighbours shows."""
    for seed in range(5):
        rows = table([spoilt("double", "total", "swap", seed, f"r{seed}")])
        assert "total" in {violation.property for violation in verify(rows).violations}
        agrees(rows)


def test_a_swap_that_nobody_can_tell_is_none() -> None:
    """In a chain no two processes share two groups: concurrent messages of two groups have no order of their own."""
    violated = 0
    for seed in range(5):
        rows = table([spoilt("chain", "total", "swap", seed, f"r{seed}")])
        violated += not verify(rows).ok
        agrees(rows)
    assert violated < 5


@pytest.mark.parametrize("spoiler", ["cycle", "lying ranks", "foreign cause", "low rank", "no cause"])
def test_what_only_shows_across_groups_is_found(spoiler: str) -> None:
    for seed in range(3):
        rows = table([spoilt("clique", "total", spoiler, seed, f"r{seed}")])
        assert {violation.property for violation in verify(rows).violations} == SPOILERS[spoiler][1]
        assert set(left_open(rows)) >= SPOILERS[spoiler][1]
        agrees(rows)


@pytest.mark.parametrize("order", ["causal", "total"])
def test_the_same_in_runs_without_ranks_is_found(order: str) -> None:
    for spoiler in ("cycle", "foreign cause", "low rank", "no cause"):
        run = spoilt("clique", order, spoiler, 1, "r1")
        for events in run.histories.values():
            for event in events:
                event.pop("rank", None)
        rows = table([run])
        assert {violation.property for violation in verify(rows).violations} >= SPOILERS[spoiler][1]
        agrees(rows)


def test_what_waits_on_after_its_last_cause_is_found() -> None:
    """The history stands still for a moment between the last cause and what waited for it."""
    for seed in range(4):
        run = RandomRun("r0", histories_of(toy.World(toy.ring(3), "causal", seed).run(300)), [])
        events = next(events for events in run.histories.values() if any(event["kind"] == "block" for event in events))
        waited = next(event for event in events if event["kind"] == "block")
        names = ("group", "sender", "seq")
        delivery = next(at for at, e in enumerate(events) if e["kind"] == "deliver" and all(e[n] == waited[n] for n in names))
        for event in events[delivery:]:
            event |= {column: event[column] + 5 for column in ("time", "true_time")}
        rows = table([run])
        assert {violation.property for violation in verify(rows).violations} == {"prompt"}
        agrees(rows)


@pytest.mark.parametrize("groups", [toy.ring(3), toy.star(3, 2)], ids=["ring", "star"])
@either_order
def test_runs_with_any_mutation_agree(groups: toy.Groups, order: str) -> None:
    whole = RandomRun("r", histories_of(toy.World(groups, order, 7).run(120)), [])
    tried = [mutated(Random(f"{order} {m.__name__}"), whole, m.__name__, m) for m in CAUGHT + HARMLESS]
    runs = [run for run in tried if run is not None]
    assert len(runs) > 20
    agrees(table(runs))


# --- Spark ------------------------------------------------------------------------------------------------------------


def test_spark_proves_runs_that_are_split_without_a_search(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = pa.concat_tables([toy.trace("ring", order, 2_500, name=order) for order in ORDERS])
    path = written("many_files", rows, tmp_path)

    def refuse(*_: object) -> None:
        raise AssertionError("a run that certificates prove is searched")

    monkeypatch.setattr(on_spark, "_search", refuse)
    found = on_spark.verify(spark, [path], chunk_rows=2_000, least_rows=1)
    assert differences(found.to_json(), verify(rows).to_json()) == []


def test_spark_finds_what_only_shows_across_groups(spark: SparkSession, tmp_path: Path) -> None:
    runs = [spoilt("clique", order, spoiler, 3, f"{order}/{spoiler}") for order in ORDERS for spoiler in SPOILERS]
    rows = table(runs)
    path = written("many_files", rows, tmp_path)
    found = on_spark.verify(spark, [path], chunk_rows=2_000, least_rows=1)
    assert differences(found.to_json(), verify(rows).to_json()) == []
    assert {violation.run for violation in found.violations} >= {run.name for run in runs if "swap" not in run.name}
