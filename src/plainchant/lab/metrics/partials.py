"""One pass over rows: what a piece of a run adds to the run's metrics.

A *partial* is made of the rows of one run in one unit (a row group, or a whole small table) and holds counts, sums and
extremes for each group, process and sender, samples of times, the few rows that are looked at one by one, and, of each
history, what is needed where it goes on in another piece. ``merged`` brings the partials of a run together and tells the
figures. Partials are the same whatever else the unit holds, and a run gives the same figures however its rows were shared
out, if each piece of a history has successive rows.

Three things need two rows that stand anywhere: deliveries whose ``sent`` is null, and the ``accept`` of a process's own
messages (compact arrays of these are always included), and deadlines and arrivals of messages. The times of all deliveries,
which the last two need, are included where the piece shows that the run has deadlines or arrivals, or if ``everything`` is
asked for.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from functools import cached_property
from itertools import pairwise
from typing import Final, NamedTuple

import numpy as np

from ..arrays import NOTHING, Flags, Integers
from ..verify.beside import Rows
from . import standing
from .details import Detail, decode
from .realtime import Ends, Moments, Received, Sends, Turns, rotations
from .samples import Sample
from .schema import HISTORY_KINDS, STATES
from .standing import BEFORE, NEVER, Deliveries

Place = tuple[str, str]
"""A group, and a process in it."""
Pair = tuple[str, str, str]
"""A group, a process and a sender."""

STORY: Final = frozenset({"start", "join", "leave", "view", "crash", "suspect"})  # kinds that are looked at row by row


class Row(NamedTuple):
    """A row of the story."""

    process: str
    place: int  # its index
    kind: str
    group: str | None
    clock: int
    view: int | None
    members: tuple[str, ...] | None
    detail: Detail


class Traffic(NamedTuple):
    """Rows about messages: how many, the sum of their sizes, and how many have one."""

    rows: int
    size: int
    sized: int

    def plus(self, other: Traffic) -> Traffic:
        return Traffic(*map(int.__add__, self, other))


class Stability(NamedTuple):
    """Ranks in a piece of a member's history: of its deliveries, and of the ``stable`` rows that tell of a higher one than those
    before, each with how many of the deliveries stand before it."""

    ranks: Integers
    stable: Integers
    before: Integers


class Closings(NamedTuple):
    """Openings and closings in a piece of a member's history, of which each is followed by one of the other kind."""

    clocks: Integers
    closing: Flags


class Numbers(NamedTuple):
    """Messages of one sender, and a clock of each."""

    seq: Integers
    clock: Integers


@dataclasses.dataclass(slots=True)
class Partial:
    """What the rows of a piece of a run say. What is by :data:`Place` or by process is about a piece of a history."""

    extents: dict[str, tuple[int, int, int]]  # by process: first index, last index, rows
    ends: dict[str, Ends]
    kinds: dict[tuple[str | None, str], int]
    present: set[Place]
    packets: dict[str | None, int] | None  # None: no row has any
    first: dict[str, int]  # by group: the earliest moment of a send or a delivery, and
    last: dict[str, int]  # the latest of a delivery
    delivers: dict[Pair, Traffic]
    sends: dict[Pair, Traffic]
    latencies: dict[Pair, Sample]
    story: list[Row]
    history: dict[str, int]  # the largest that is told
    has_states: bool  # whether there are ``state`` rows,
    is_ring: bool  # and whether one tells of a ring's states
    broken: dict[str, int]
    rejections: dict[str | None, int]
    pauses: list[tuple[str, int, int]]  # process, clock, length
    late: int  # timing faults
    has_late: bool
    modules: set[int | None]
    took: dict[tuple[str, str], Sample]  # by group and kind (``sent``, ``decide``)
    against: dict[str, int]
    rotations: dict[str, Sample]
    turns: dict[Place, Turns]
    blocks: dict[Place, Closings]
    syncs: dict[Place, Closings]
    stability: dict[Place, Stability]
    deliveries: dict[Place, Deliveries]
    senders: list[str]  # whom the senders' codes in ``deliveries`` are
    accepts: dict[Place, Integers]  # clocks
    sent: dict[Pair, Numbers]  # ``send`` rows
    has_deadlines: bool
    lateness: dict[tuple[str, str], Sample]  # by group and sender: of deliveries that bring a deadline
    due: dict[tuple[str, str], Sends]  # by group and sender
    arrivals: dict[Pair, Numbers]  # ``receive`` rows
    received: dict[Pair, Received] | None  # None: left out

    def shipped(self) -> Partial:
        """The same in fewer bytes."""
        return dataclasses.replace(
            self,
            latencies={key: each.shipped() for key, each in self.latencies.items()},
            took={key: each.shipped() for key, each in self.took.items()},
            rotations={key: each.shipped() for key, each in self.rotations.items()},
            lateness={key: each.shipped() for key, each in self.lateness.items()},
        )


class _Column(NamedTuple):
    values: Integers
    mask: Flags | None  # None: all are there

    def has(self, rows: Integers) -> Flags:
        return np.ones(len(rows), np.bool_) if self.mask is None else self.mask[rows]


class Source:
    """The columns of a unit that metrics read, in the order (run, process, index)."""

    def __init__(self, rows: Rows) -> None:
        self.rows = rows
        self.runs: list[str] = rows.run.values
        self._bounds: list[int] = np.searchsorted(rows.run.codes, np.arange(len(self.runs) + 1)).tolist()
        self.kinds: list[str] = rows.kind.values
        self.groups: list[str] = rows.group.values
        self.processes: list[str] = rows.process.values
        self.senders: list[str] = rows.sender.values
        self.kind, self.group = rows.kind.codes, rows.group.codes
        self.process, self.sender = rows.process.codes, rows.sender.codes
        self.time = rows.ints("time")[0]
        self.true_time = self.column("true_time")
        mask, values = self.true_time.mask, self.true_time.values
        self.clock: Integers = values if mask is None else np.where(mask, values, self.time)
        self.seq = _Column(rows.seq, rows.has_seq)
        self.sent, self.size = self.column("sent"), self.column("size")
        self.rank, self.deadline, self.packets = self.column("rank"), self.column("deadline"), self.column("packets")
        self._details = rows.codes("detail")
        self._decoded: dict[int, Detail] = {-1: Detail()}
        places = {name: code for code, name in enumerate(self.processes)}
        self.owner = np.array([*(places.get(name, -1) for name in self.senders), -1], np.int64)
        """By sender's code: the process of that name; -1: it has no rows here."""

    def column(self, name: str) -> _Column:
        return _Column(*self.rows.ints(name))

    def moments(self, rows: Integers) -> Moments:
        return Moments(self.time[rows], self.true_time.values[rows], self.true_time.has(rows))

    def detail(self, row: int) -> Detail:
        code = int(self._details.codes[row])
        if code not in self._decoded:
            self._decoded[code] = decode(self._details.values[code])
        return self._decoded[code]

    @cached_property
    def members(self) -> dict[int, tuple[str, ...]]:
        """Of the unit's views, by row."""
        views = np.flatnonzero(self.rows.kind.equals("view"))
        lists = self.rows.rows(views).column("members").to_pylist() if len(views) else []
        return {row: tuple(names or ()) for row, names in zip(views.tolist(), lists, strict=True)}

    def details(self, rows: Integers) -> tuple[list[Detail], Integers]:
        """The different details of some rows, and which of them each row has."""
        codes, which = np.unique(self._details.codes[rows], return_inverse=True)
        firsts = np.zeros(len(codes), np.int64)
        firsts[which] = rows
        return [self.detail(row) for row in firsts.tolist()], which

    def partial(self, run: int, *, everything: bool = False) -> Partial:
        """The partial of a run, given its place in ``runs``."""
        return _Making(self, *self._bounds[run : run + 2], everything=everything).partial()


class _Making:
    """The partial of rows ``begin`` to ``end - 1``, which are those of one run."""

    def __init__(self, source: Source, begin: int, end: int, *, everything: bool) -> None:
        self.source = source
        self._everything = everything
        self._rows = slice(begin, end)
        process = source.process[self._rows]
        heads = np.flatnonzero(np.diff(process)) + 1
        self._begins = np.concatenate(([0], heads)).astype(np.int64) + begin
        self._ends = np.append(self._begins[1:], end)
        self._owners: list[str] = [source.processes[code] for code in source.process[self._begins].tolist()]
        self._groups, self._senders = max(1, len(source.groups)), max(1, len(source.senders))
        counts = np.bincount(source.kind[self._rows], minlength=len(source.kinds))
        # Rows by kind: sorting the codes, which are small, is sooner than looking for each kind.
        order = np.argsort(source.kind[self._rows].astype(np.uint8 if len(counts) < 256 else np.uint32), kind="stable")
        bounds = np.cumsum(counts)[:-1]
        self._of_kind = {
            name: rows + begin for name, rows in zip(source.kinds, np.split(order, bounds), strict=False) if len(rows)
        }

    def rows(self, *kinds: str) -> Integers:
        """The rows of some kinds that name a group, in order."""
        found = [self._of_kind[kind] for kind in kinds if kind in self._of_kind]
        if not found:
            return np.empty(0, np.int64)
        rows = found[0] if len(found) == 1 else np.sort(np.concatenate(found))
        grouped = self.source.group[rows] >= 0
        return rows if grouped.all() else rows[grouped]

    def _place(self, rows: Integers) -> Integers:
        """A number for each history and group; it grows with the history."""
        dense = np.searchsorted(self._begins, rows, side="right") - 1
        return dense * self._groups + self.source.group[rows]

    def _pair(self, rows: Integers) -> Integers:
        return self._place(rows) * (self._senders + 1) + self.source.sender[rows] + 1

    def place_of(self, number: int) -> Place:
        history, group = divmod(number, self._groups)
        return self.source.groups[group], self._owners[history]

    def pair_of(self, number: int) -> Pair:
        place, sender = divmod(number, self._senders + 1)
        return (*self.place_of(place), self.source.senders[sender - 1])

    def by_place(self, rows: Integers) -> Iterator[tuple[Place, Integers]]:
        """Rows that name a group, history by history and group by group, in order."""
        return ((self.place_of(key), mine) for key, mine in _Blocks(self._place(rows), rows))

    def _paired(self, rows: Integers) -> tuple[list[Pair], _Blocks]:
        """Rows about messages by group, process and sender."""
        blocks = _Blocks(self._pair(rows), rows)
        return [self.pair_of(key) for key in blocks.keys], blocks

    def by_pair(self, rows: Integers) -> Iterator[tuple[Pair, Integers]]:
        pairs, blocks = self._paired(rows[self.source.sender[rows] >= 0])
        return ((pair, blocks.rows[here]) for pair, here in zip(pairs, blocks.slices, strict=True))

    def by_group(self, rows: Integers) -> Iterator[tuple[str, Integers]]:
        return ((self.source.groups[key], mine) for key, mine in _Blocks(self.source.group[rows].astype(np.int64), rows))

    def partial(self) -> Partial:
        source = self.source
        delivers, sends = (rows[source.sender[rows] >= 0] for rows in (self.rows("deliver"), self.rows("send")))
        delivered = self._paired(delivers)
        taken = self._paired(sends)
        states = self._of_kind.get("state", np.empty(0, np.int64))
        is_ring, broken, joining = self._states(states)
        late, has_late, modules, pauses = self._faults()
        has_deadlines = bool(source.deadline.mask is None or source.deadline.mask[self._rows].any())
        arrivals = self.rows("receive")
        arrivals = arrivals[source.seq.has(arrivals) & (source.sender[arrivals] >= 0)]
        first, last = self._moments(delivers, sends)
        rotating, turns = self._turns()
        with_all = self._everything or has_deadlines or len(arrivals) > 0
        return Partial(
            extents=self._extents(),
            ends=self._histories_end(),
            kinds=self._kinds(),
            present=self._present(),
            packets=self._packets(),
            first=first,
            last=last,
            delivers=self._traffic(*delivered),
            sends=self._traffic(*taken),
            latencies=self._latencies(*delivered),
            story=[*self._story(), *self._told(joining)],
            history=self._history(),
            has_states=len(states) > 0,
            is_ring=is_ring,
            broken=broken,
            rejections=self._rejections(),
            pauses=pauses,
            late=late,
            has_late=has_late,
            modules=modules,
            took={(group, kind): sample for kind in ("sent", "decide") for group, sample in self._took(kind)},
            against=self._against(),
            rotations=rotating,
            turns=turns,
            blocks=self._blocks(),
            syncs=self._syncs(),
            stability=self._stability(),
            deliveries=self._deliveries(delivers),
            senders=source.senders,
            accepts={place: source.clock[rows] for place, rows in self.by_place(self.rows("accept"))},
            sent=self._numbers(*taken),
            has_deadlines=has_deadlines,
            lateness=self._lateness(delivers) if has_deadlines else {},
            due=self._due(sends) if has_deadlines else {},
            arrivals=self._numbers(*self._paired(arrivals)),
            received=self._received(*delivered) if with_all else None,
        )

    def _extents(self) -> dict[str, tuple[int, int, int]]:
        index = self.source.rows.index
        ends = zip(*(at.tolist() for at in (index[self._begins], index[self._ends - 1], self._ends - self._begins)), strict=True)
        return dict(zip(self._owners, ends, strict=True))

    def _histories_end(self) -> dict[str, Ends]:
        source, heads = self.source, self._begins - self._rows.start
        true_times = source.true_time.values[self._rows]
        if source.true_time.mask is not None:
            true_times = np.where(source.true_time.mask[self._rows], true_times, BEFORE)
        latest = (
            np.maximum.reduceat(each, heads).tolist() for each in (source.time[self._rows], true_times, source.clock[self._rows])
        )
        ends = (Ends(time, None if true == BEFORE else true, clock) for time, true, clock in zip(*latest, strict=True))
        return dict(zip(self._owners, ends, strict=True))

    def _kinds(self) -> dict[tuple[str | None, str], int]:
        found: dict[tuple[str | None, str], int] = {}
        names: list[str | None] = [None, *self.source.groups]
        for kind, rows in self._of_kind.items():
            counts = np.bincount(self.source.group[rows] + 1, minlength=1).tolist()
            found.update({(names[code], kind): count for code, count in enumerate(counts) if count})
        return found

    def _present(self) -> set[Place]:
        source = self.source
        found: set[Place] = set()
        for owner, begin, end in zip(self._owners, self._begins.tolist(), self._ends.tolist(), strict=True):
            counts = np.bincount(source.group[begin:end] + 1, minlength=1)[1:]
            found.update((source.groups[code], owner) for code in np.flatnonzero(counts).tolist())
        return found

    def _packets(self) -> dict[str | None, int] | None:
        column, group = self.source.packets, self.source.group[self._rows]
        if column.mask is not None and not column.mask[self._rows].any():
            return None
        sums = np.zeros(self._groups + 1, np.int64)
        np.add.at(sums, group + 1, column.values[self._rows])
        names: list[str | None] = [None, *self.source.groups]
        return {name: packets for name, packets in zip(names, sums.tolist(), strict=False) if packets}

    def _moments(self, delivers: Integers, sends: Integers) -> tuple[dict[str, int], dict[str, int]]:
        first: dict[str, int] = {}
        source = self.source
        for group, rows in self.by_group(sends):
            first[group] = int(source.clock[rows].min())
        last: dict[str, int] = {}
        for group, rows in self.by_group(delivers):
            clocks, sents = source.clock[rows], source.sent.values[rows][source.sent.has(rows)]
            last[group] = int(clocks.max())
            least = min(int(clocks.min()), int(sents.min()) if len(sents) else NEVER)
            first[group] = min(first.get(group, NEVER), least)
        return first, last

    def _traffic(self, pairs: list[Pair], blocks: _Blocks) -> dict[Pair, Traffic]:
        if not pairs:
            return {}
        size, rows = self.source.size, blocks.rows
        counts = np.diff(np.append(blocks.starts, len(rows)))
        sized = counts if size.mask is None else np.add.reduceat(size.mask[rows].astype(np.int64), blocks.starts)
        sums = np.add.reduceat(size.values[rows], blocks.starts)
        return dict(zip(pairs, map(Traffic, counts.tolist(), sums.tolist(), sized.tolist()), strict=True))

    def _latencies(self, pairs: list[Pair], blocks: _Blocks) -> dict[Pair, Sample]:
        dated = self.source.sent.has(blocks.rows)
        if not dated.all():
            pairs, blocks = self._paired(blocks.rows[dated])
        if not pairs:
            return {}
        latency = self.source.clock[blocks.rows] - self.source.sent.values[blocks.rows]
        ends = (least_or_most.reduceat(latency, blocks.starts).tolist() for least_or_most in (np.minimum, np.maximum))
        parts = [latency[here] for here in blocks.slices]
        samples = (Sample(len(part), least, most, (part, None)) for part, least, most in zip(parts, *ends, strict=True))
        return dict(zip(pairs, samples, strict=True))

    def _numbers(self, pairs: list[Pair], blocks: _Blocks) -> dict[Pair, Numbers]:
        seq, clock = self.source.seq.values[blocks.rows], self.source.clock[blocks.rows]
        return {pair: Numbers(seq[here], clock[here]) for pair, here in zip(pairs, blocks.slices, strict=True)}

    def _received(self, pairs: list[Pair], blocks: _Blocks) -> dict[Pair, Received]:
        rows = blocks.rows
        seq, dated, moments = self.source.seq.values[rows], self.source.deadline.has(rows), self.source.moments(rows)
        parts = (Received(seq[here], dated[here], moments.at(here)) for here in blocks.slices)
        return dict(zip(pairs, parts, strict=True))

    def _story(self) -> Iterator[Row]:
        found = [self._of_kind[kind] for kind in sorted(STORY) if kind in self._of_kind]
        return self._told(np.sort(np.concatenate(found))) if found else iter(())

    def _told(self, rows: Integers) -> Iterator[Row]:
        source = self.source
        for row in rows.tolist():
            group, view = int(source.group[row]), source.rows.has_view
            yield Row(
                process=source.processes[source.process[row]],
                place=int(source.rows.index[row]),
                kind=source.kinds[source.kind[row]],
                group=source.groups[group] if group >= 0 else None,
                clock=int(source.clock[row]),
                view=int(source.rows.view[row]) if view is None or view[row] else None,
                members=source.members.get(row),
                detail=source.detail(row),
            )

    def _history(self) -> dict[str, int]:
        found: dict[str, int] = {}
        for group, rows in self.by_group(self.rows(*HISTORY_KINDS)):
            told = [each.history for each in self.source.details(rows)[0] if each.history is not None]
            if told:
                found[group] = max(told)
        return found

    def _states(self, rows: Integers) -> tuple[bool, dict[str, int], Integers]:
        """Whether states of a ring are told of, how many of them say that an assumption was broken, and the rows of joining."""
        if not len(rows):
            return False, {}, rows
        told, which = self.source.details(rows)
        is_ring = any(each.state in STATES or each.broken is not None for each in told)
        joins = np.array([each.state == "joining" for each in told], np.bool_)[which]
        breaks = np.array([each.broken is not None for each in told], np.bool_)[which] & (self.source.group[rows] >= 0)
        broken = {group: len(mine) for group, mine in self.by_group(rows[breaks])}
        return is_ring, broken, rows[joins & (self.source.group[rows] >= 0)]

    def _rejections(self) -> dict[str | None, int]:
        found: dict[str | None, int] = {}
        rows = self._of_kind.get("reject", np.empty(0, np.int64))
        if len(rows):
            told, which = self.source.details(rows)
            named = rows[np.array([each.stream is not None for each in told], np.bool_)[which]]
            for code, count in zip(*np.unique(self.source.group[named], return_counts=True), strict=True):
                found[self.source.groups[code] if code >= 0 else None] = int(count)
        return found

    def _faults(self) -> tuple[int, bool, set[int | None], list[tuple[str, int, int]]]:
        rows = self._of_kind.get("fault", np.empty(0, np.int64))
        if not len(rows):
            return 0, False, set(), []
        told, which = self.source.details(rows)
        times = np.bincount(which, minlength=len(told)).tolist()
        late = [(each, often) for each, often in zip(told, times, strict=True) if each.timing is True or each.fault == "timing"]
        modules = {each.module for each in told if each.fault == "module"}
        pausing = np.array([each.fault == "pause" and each.length is not None for each in told], np.bool_)[which]
        pauses = [
            (self.source.processes[self.source.process[row]], int(self.source.clock[row]), self.source.detail(row).length or 0)
            for row in rows[pausing].tolist()
        ]
        return sum(max(each.count or 1, 1) * often for each, often in late), bool(late), modules, pauses

    def _took(self, kind: str) -> Iterator[tuple[str, Sample]]:
        for group, rows in self.by_group(self.rows(kind)):
            told, which = self.source.details(rows)
            known = np.array([each.took_ns is not None for each in told], np.bool_)
            values = np.array([each.took_ns or 0 for each in told], np.int64)[which][known[which]]
            if len(values):
                yield group, Sample.of(values)

    def _against(self) -> dict[str, int]:
        found = {}
        for group, rows in self.by_group(self.rows("decide")):
            told, which = self.source.details(rows)
            found[group] = int(np.array([each.decision == 0 for each in told], np.bool_)[which].sum())
        return found

    def _turns(self) -> tuple[dict[str, Sample], dict[Place, Turns]]:
        """How long the token's ways round took, by group, and how the pieces of histories begin and end."""
        took: dict[str, list[Integers]] = {}
        ends: dict[Place, Turns] = {}
        code = self.source.kinds.index("token") if "token" in self._of_kind else -1
        for place, rows in self.by_place(self.rows("token", "view", "leave")):
            ends[place], ways = rotations(self.source.moments(rows), self.source.kind[rows] == code)
            if len(ways):
                took.setdefault(place[0], []).append(ways)
        return {group: Sample.of(np.concatenate(ways)) for group, ways in took.items()}, ends

    def _blocks(self) -> dict[Place, Closings]:
        """``block`` rows about no message (nor the request for one) and ``unblock`` rows."""
        rows = self.rows("block", "unblock")
        if not len(rows):
            return {}
        rows = rows[~self.source.seq.has(rows)]
        closing = self.source.kind[rows] == (self.source.kinds.index("unblock") if "unblock" in self._of_kind else -1)
        told, which = self.source.details(rows)
        about_none = np.array([each.request is None for each in told], np.bool_)[which]
        return self._closings(rows[closing | about_none], closing[closing | about_none])

    def _syncs(self) -> dict[Place, Closings]:
        rows = self.rows("sync")
        if not len(rows):
            return {}
        told, which = self.source.details(rows)
        return self._closings(rows, np.array([each.over is True for each in told], np.bool_)[which])

    def _closings(self, rows: Integers, closing: Flags) -> dict[Place, Closings]:
        found = {}
        for key, order in _Blocks(self._place(rows), np.arange(len(rows))):
            mine, ends = rows[order], closing[order]
            alternating = np.append(True, np.diff(ends))
            found[self.place_of(key)] = Closings(self.source.clock[mine[alternating]], ends[alternating])
        return found

    def _stability(self) -> dict[Place, Stability]:
        rows = self.rows("stable", "deliver")
        rows = rows[self.source.rank.has(rows)]
        code = self.source.kinds.index("stable") if "stable" in self._of_kind else -1
        found = {}
        for place, mine in self.by_place(rows):
            is_stable, ranks = self.source.kind[mine] == code, self.source.rank.values[mine]
            told = np.flatnonzero(is_stable)
            before = told - np.arange(len(told))
            higher = np.append(True, ranks[told][1:] > np.maximum.accumulate(ranks[told])[:-1])[: len(told)]
            found[place] = Stability(np.sort(ranks[~is_stable]), ranks[told][higher], before[higher])
        return found

    def _deliveries(self, delivers: Integers) -> dict[Place, Deliveries]:
        source = self.source
        sents = source.sent.values
        if source.sent.mask is not None:
            sents = np.where(source.sent.mask, sents, NEVER)
        found = {}
        for place, rows in self.by_place(delivers):
            senders = source.sender[rows].astype(np.int64)
            own = source.owner[senders] == source.process[rows[0]]
            found[place] = standing.deliveries(source.clock[rows], sents[rows], senders, source.seq.values[rows], own)
        return found

    def _lateness(self, delivers: Integers) -> dict[tuple[str, str], Sample]:
        rows = delivers[self.source.deadline.has(delivers)]
        late: dict[tuple[str, str], list[Integers]] = {}
        for (group, _, sender), mine in self.by_pair(rows):
            late.setdefault((group, sender), []).append(self.source.time[mine] - self.source.deadline.values[mine])
        return {key: Sample.of(np.concatenate(values)) for key, values in late.items()}

    def _due(self, sends: Integers) -> dict[tuple[str, str], Sends]:
        source = self.source
        found = {}
        for (group, _, sender), rows in self.by_pair(sends[source.deadline.has(sends)]):
            columns = (source.rows.index[rows], source.seq.values[rows], source.deadline.values[rows])
            found[group, sender] = Sends(*columns, source.moments(rows))
        return found


class _Blocks:
    """Rows by key: those of each key together, in ascending order of the keys, and in their own order."""

    def __init__(self, keys: Integers, rows: Integers) -> None:
        if len(keys) and bool(np.any(np.diff(keys) < 0)):
            low = int(keys.min())
            narrow = int(keys.max()) - low < 65_536
            order = np.argsort((keys - low).astype(np.uint16) if narrow else keys, kind="stable")
            keys, rows = keys[order], rows[order]
        self.rows = rows
        self.starts: Integers = np.append(0, np.flatnonzero(np.diff(keys)) + 1) if len(keys) else NOTHING
        self.keys: list[int] = keys[self.starts].tolist()
        bounds = [*self.starts.tolist(), len(keys)]
        self.slices = [slice(*ends) for ends in pairwise(bounds)]

    def __iter__(self) -> Iterator[tuple[int, Integers]]:
        return ((key, self.rows[here]) for key, here in zip(self.keys, self.slices, strict=True))
