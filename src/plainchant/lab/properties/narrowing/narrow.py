"""What a run's doubtful messages and the rest of it say together.

``narrow`` finds the doubtful messages of a run and proves the properties in question for the rest. The rows about the doubtful
messages are then a small run of their own, with all views, memberships and ends, and ``searched`` gives that to the reference
checks. ``walks`` says why each violation lies inside a window; so what the reference checks find in the windows is what they
find in the run. Cases add up:

- message by message (integrity, self-delivery, validity, agreement, sender-in-view, same-view, acyclic): the sum of both parts;
- ``view-atomicity`` compares two processes once for every two views: both parts count the same;
- ``fifo`` counts the steps from one message of a sender to the next: where a process has some in both parts, one step more;
- ``identical``, ``uniform``, ``total`` count pairs of processes that have two messages in common: counted anew for the sum;
- ``causal`` counts deliveries that have a cause among the process's deliveries: all but the first of each sender, and those too
  if something that the sender had delivered is among them; and the holes, which are in the windows.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Final, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ..catalogue import CATALOGUE
from ..certificates.columns import Mask
from ..certificates.evidence import Doubtful, Evidence
from ..certificates.prover import Prover
from ..certificates.ranges import Range, overlap
from ..certificates.woven import Woven
from ..facts import Run, runs_of
from ..order import reference as order
from ..owing import Owing
from ..report import Report
from .rest import Rest
from .split import Split, cases_of, prepare, split
from .walks import Walk, Walks

NARROWED: Final = (
    *("integrity", "fifo", "causal", "identical", "total", "acyclic", "self-delivery", "validity", "agreement", "uniform"),
    *("view-atomicity", "sender-in-view", "same-view"),
)
"""Properties whose violations are looked for in doubtful messages alone."""

ABOUT: Final = ("group", "sender", "seq")  # the columns that tell which message a row is about

Pair: TypeAlias = tuple[str, str]


@dataclasses.dataclass(frozen=True, slots=True)
class Narrowed:
    """The doubtful messages of a run, and what is known of the others."""

    messages: dict[tuple[str, str], tuple[Range, ...]]  # by group and sender
    skeleton: pa.Table  # the run's rows that are about no message
    cases: dict[str, int]  # of the rest, by property
    pairs: dict[Pair, int]  # how many messages of the rest two processes have in common
    delivered: frozenset[Pair]  # (process, sender) with deliveries in the rest
    caused: int | None  # deliveries of the whole run that have a cause; None: not asked for
    until_end: bool
    is_held: bool  # whether properties without a case are told of
    parts: Split | None = None  # how cases add up where the run has no common sequence

    def is_about(self, table: pa.Table) -> pa.ChunkedArray:
        """Which rows are about doubtful messages, given at least the columns ``group``, ``sender`` and ``seq``."""
        group, sender, seq = (table.column(name) for name in ABOUT)
        found = np.zeros(len(seq), np.bool_)
        numbers = pc.fill_null(seq, -(2**62)).to_numpy()
        for (in_group, name), ranges in self.messages.items():
            own = pc.fill_null(pc.and_(pc.equal(sender, name), pc.equal(group, in_group)), False).to_numpy()
            at = np.flatnonzero(own)
            lows, highs = (np.array(ends) for ends in zip(*ranges, strict=True))
            near = np.searchsorted(lows, numbers[at], side="right") - 1
            found[at[(near >= 0) & (numbers[at] <= highs[np.maximum(near, 0)])]] = True
        return pa.chunked_array([pa.array(found)])

    def without_skeleton(self) -> Narrowed:
        """What tells which rows are wanted."""
        return dataclasses.replace(self, skeleton=self.skeleton.slice(0, 0))

    @property
    def span(self) -> Range:
        """The lowest and the highest number of a doubtful message."""
        ends = [end for ranges in self.messages.values() for pair in ranges for end in pair]
        return min(ends), max(ends)


def narrow(evidence: Evidence, doubtful: Sequence[str], properties: Sequence[str] | None) -> Narrowed:
    """Proves some properties but for some messages; Doubtful if that cannot be done. (Narrowed for those properties that can be
    narrowed down; the others are not among its ``cases``.)"""
    wanted = [name for name in doubtful if name in NARROWED]
    if "fifo" in wanted and has_numbers_below_one(evidence):
        wanted.remove("fifo")  # of who has every message from the first on, the reference check asks for no other
    if not wanted or evidence.suspect:
        raise Doubtful
    until_end = properties is not None or evidence.facts.drained
    is_held = properties is not None or evidence.facts.promises is not None
    try:
        found = _in_one_sequence(evidence, wanted, until_end, is_held)
        if len(found.cases) == len(wanted):
            return found
    except Doubtful:
        pass
    parts, messages, skeleton = split(evidence, wanted, until_end=until_end)
    return Narrowed(messages, skeleton, parts.rest, {}, frozenset(), None, until_end, is_held, parts)


def has_numbers_below_one(evidence: Evidence) -> bool:
    return any(low < 1 for by_sender in evidence.covered.values() for ((low, _), *_) in by_sender.values())


def _in_one_sequence(evidence: Evidence, wanted: Sequence[str], until_end: bool, is_held: bool) -> Narrowed:
    """Narrows a run down that has one group and one sequence but for a few messages."""
    walks = Walks(evidence, Woven(evidence))
    if not walks.sent:
        raise Doubtful
    further = _with_contents(evidence, walks) if "integrity" in wanted else []
    found = walks.doubtful(further)
    rest = Rest(evidence, walks, found)
    cases = _prove(rest.evidence, wanted, until_end)
    caused = None
    if {"causal", "total"} & cases.keys():
        try:
            caused = sum(_caused(walks, walk, found) for walk in walks.walks)
        except Doubtful:
            cases = {name: count for name, count in cases.items() if name not in ("causal", "total")}
    if not cases:
        raise Doubtful
    sets = rest.evidence.sets or {}
    delivered = frozenset((process, sender) for (process, _), by_sender in sets.items() for sender in by_sender)
    pairs = {
        (p.name, q.name): sum(
            overlap(sets.get((q.name, walks.group), {}).get(sender, ()), *mine)
            for sender, ranges in sets.get((p.name, walks.group), {}).items()
            for mine in ranges
        )
        for p, q in combinations(evidence.facts.all, 2)
    }
    messages = {(walks.group, sender): ranges for sender, ranges in _ranges(walks, found).items()}
    return Narrowed(messages, rest.aside, cases, pairs, delivered, caused, until_end, is_held)


def _with_contents(evidence: Evidence, walks: Walks) -> list[int]:
    """The messages whose digests differ, or could not be compared."""
    if evidence.differing is None:
        raise Doubtful
    places = {sender: place for place, sender in enumerate(walks.senders)}
    found: list[int] = []
    for _, sender, low, high in (*evidence.differing, *evidence.unresolved):
        first, count = int(walks.bases[places[sender]]), int(walks.counts[places[sender]])
        found += range(first + max(low, 1) - 1, first + min(high, count))
    return found


def _prove(evidence: Evidence, wanted: Sequence[str], until_end: bool) -> dict[str, int]:
    if evidence.suspect:
        raise Doubtful
    prover = Prover(evidence, until_end, quick=True)
    cases: dict[str, int] = {}
    for name in wanted:
        find = CATALOGUE[name].proof
        assert find is not None
        try:
            cases[name] = find(prover)
        except Doubtful:
            continue
    return cases


def _ranges(walks: Walks, doubtful: Mask) -> dict[str, tuple[Range, ...]]:
    numbers: dict[str, list[int]] = {}
    for message in np.flatnonzero(doubtful).tolist():
        sender, number = walks.named(message)
        numbers.setdefault(sender, []).append(number)
    found: dict[str, tuple[Range, ...]] = {}
    for sender, own in numbers.items():
        joined: list[Range] = []
        for number in sorted(own):
            if joined and joined[-1][1] + 1 == number:
                joined[-1] = joined[-1][0], number
            else:
                joined.append((number, number))
        found[sender] = tuple(joined)
    return found


def _caused(walks: Walks, walk: Walk, doubtful: Mask) -> int:
    """How many of a process's deliveries have a cause among them. Messages that were never sent have none."""
    mine = np.flatnonzero(walk.has[: walks.sent])
    if not len(mine):
        return 0
    senders = walks.sender_of(mine)
    firsts = mine[np.flatnonzero(np.diff(senders, prepend=-1))]
    found = len(mine) - len(firsts)
    by_name = {other.history.name: other for other in walks.walks}
    start = int(walks.place[mine].min())
    for message in firsts.tolist():
        place = int(walks.sender_of(np.array([message]))[0])
        sender = by_name.get(walks.senders[place])
        if sender is None:
            raise Doubtful
        number = message - int(walks.bases[place])
        before = sender.delivered[: int(sender.sends_after[number])]
        before = before[before < walks.sent]
        before = before[walks.sender_of(before) != place]
        if not len(before):
            continue
        if walk.has[before].any():
            found += 1
        elif start <= int(walks.place[before].max()) or start < 0 or doubtful[before].any() or doubtful[mine[:1]].any():
            raise Doubtful  # a cause of those may be among them
    return found


def searched(narrowed: Narrowed, rows: pa.Table) -> list[Report]:
    """The reports of a run's narrowed properties, given its rows about the doubtful messages; with the cases of the whole run."""
    schema = narrowed.skeleton.schema
    run = next(runs_of(pa.concat_tables([narrowed.skeleton, rows.select(schema.names).cast(schema)])))
    if narrowed.parts is not None:
        prepare(narrowed.parts, run)
    owing = Owing(run)
    found = []
    for name in CATALOGUE:
        if name in narrowed.cases:
            report = Report(run, owing, name, until_end=narrowed.until_end)
            CATALOGUE[name].reference(report)
            report.cases = _cases(narrowed, run, owing, report)
            if report.cases or narrowed.is_held:
                found.append(report)
    return found


def _cases(narrowed: Narrowed, run: Run, owing: Owing, report: Report) -> int:
    if narrowed.parts is not None:
        return cases_of(narrowed.parts, run, owing, report)
    both = narrowed.cases[report.name] + report.cases
    if report.name == "view-atomicity":
        return report.cases
    if report.name == "fifo":
        here = {(h.name, sender) for h in run.all for _, sender, _ in h.first}
        return both + len(here & narrowed.delivered)
    if report.name in ("identical", "uniform", "total"):
        both += _pairs(narrowed, run, alive=report.name == "identical")
    if report.name in ("causal", "total"):
        alone = Report(run, owing, report.name, until_end=narrowed.until_end)
        order.in_causal_order(alone)
        assert narrowed.caused is not None
        rest = narrowed.cases["causal"] if report.name == "causal" else narrowed.cases["total"] - _common_twice(narrowed.pairs)
        both += narrowed.caused - alone.cases - rest
    return both


def _common_twice(pairs: Mapping[Pair, int]) -> int:
    return sum(count >= 2 for count in pairs.values())


def _pairs(narrowed: Narrowed, run: Run, *, alive: bool) -> int:
    """By how many pairs with two messages in common the whole run differs from the sum of its parts."""
    found = 0
    for p, q in combinations([h for h in run.all if not (alive and h.crashed)], 2):
        here, there = len(p.first.keys() & q.first.keys()), narrowed.pairs[p.name, q.name]
        found += (here + there >= 2) - (here >= 2) - (there >= 2)
    return found
