"""What a run cost and how long things took: one row of figures for each (run, group), from the trace alone. ``docs/metrics.md``
has every definition for people; ``schema`` has the columns.

:func:`measure` is the definition in NumPy, for tables of whole runs that fit into a task: sweeps call it for every run, commands
for traces of moderate size, ``frames`` for the runs of a trace of any size. Counts and times are integers, a percentile
interpolates between the two nearest values in integer arithmetic, and a ratio is one division of doubles. A run is coded once
(every string column becomes small integers); each group's figures are sums and sorts over those codes. Only the few rows whose
``detail`` matters are decoded.

*Not recorded* is null, *none happened* is 0, and a trace does not say which it is when a kind of event is missing. So a kind is
taken as recorded if the run has a row of it, if the ``start`` row says so (``"records": ["null", ...]`` in its ``detail``), or if
the run's protocol is described so (``Description.recorded``).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from itertools import zip_longest
from typing import Any, Final, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ...protocols import registry
from ..arrays import NOTHING, Flags, Integers, by_run, coded, integers, look_up, nullable, percentile, sums
from ..standstills import standstills
from .details import Detail, decode
from .realtime import Times
from .schema import (
    COLUMNS,
    HISTORY_KINDS,
    METRICS,
    PERCENTS,
    STATES,
    ratio,
    share_of_packets,
    spread_of,
)


def measure(table: pa.Table) -> pa.Table:
    """The metrics of every (run, group) in a table of whole runs, in the schema ``METRICS``, ordered by run and group.

    >>> from plainchant.trace import SCHEMA
    >>> measure(SCHEMA.empty_table()).num_rows
    0
    """
    rows: list[dict[str, Any]] = []
    for name, of_run in by_run(table.select(COLUMNS)):
        rows.extend(_Run(name, of_run).metrics())
    return pa.Table.from_pylist(rows, schema=METRICS)


@dataclasses.dataclass(frozen=True, slots=True)
class Timings:
    """The times behind a group's figures."""

    group: str
    rotations: Integers
    lateness: Integers


def timings(table: pa.Table) -> list[Timings]:
    """Every rotation and every lateness in a table of one run, for each of its groups that has one."""
    found = [each for name, of_run in by_run(table.select(COLUMNS)) for each in _Run(name, of_run).timings()]
    return [each for each in found if len(each.rotations) or len(each.lateness)]


_Noticed: TypeAlias = dict[tuple[str | None, str], list[int]]  # by group (None: any) and process: when others noticed


@dataclasses.dataclass(frozen=True, slots=True)
class _Failure:
    """A process that was silent from a moment on, for ever or for a while."""

    process: str
    since: int
    until: int


class _Run:
    """The rows of one run as arrays, and their metrics."""

    def __init__(self, name: str, table: pa.Table) -> None:
        self.name = name
        self._table = table
        self._kind = coded(table.column("kind"))
        self._group = coded(table.column("group"))
        self._process = coded(table.column("process"))
        self._sender = coded(table.column("sender"))
        self._clock = integers(pc.coalesce(table.column("true_time"), table.column("time")))
        self._seq, self._has_seq = nullable(table.column("seq"))
        self._sent, self._has_sent = nullable(table.column("sent"))
        self._size, self._has_size = nullable(table.column("size"))
        self._index: Integers | None = None
        self._of_kind = {name: np.flatnonzero(self._kind.codes == code) for code, name in enumerate(self._kind.names)}
        self._details: dict[int, Detail] = {}

    def metrics(self) -> Iterator[dict[str, Any]]:
        """A row a group, in the order of their names."""
        names = self._group.names
        if not names:
            return
        recorded = self._recorded()
        packets = self._packets()
        failures = self._failures()
        evidence = self._evidence() if failures else {}
        bounds: dict[str, int] = {}
        for row in self._rows_of("start"):
            bounds.update(self._detail(row).bounds or {})
        has_deadlines = self._table.column("deadline").null_count < self._table.num_rows
        times = self._times() if has_deadlines or "token" in self._of_kind else None
        has_states = self._has_states(recorded)
        memory = self._memory()
        standing: dict[str, int] = {}
        for each in reversed(standstills(self._table)):  # the longest is last
            standing[each.group] = each.length
        for name in sorted(names):
            group = names.index(name)
            rows = self._rows_in(group)
            told = [self._detail(int(row)).history for kind in HISTORY_KINDS for row in rows.get(kind, NOTHING)]
            took = times.rotations(rows) if times is not None else NOTHING
            late = times.lateness(rows) if times is not None and has_deadlines else None
            yield {
                "run": self.name,
                "group": name,
                "processes": len(np.unique(self._process.codes[self._group.codes == group])),
                **self._traffic(rows),
                **self._delays(rows),
                **self._cost(rows, packets[group]),
                **{name: len(rows.get(kind, ())) if kind in recorded else None for name, kind in _COUNTED.items()},
                "history_max": max((size for size in told if size is not None), default=None),
                "unstable_max": self._unstable_max(rows),
                "blocked_ns": self._blocked(rows) if "unblock" in recorded else None,
                "sync_ns": self._synchronising(rows) if "sync" in recorded else None,
                "standstill_max_ns": standing.get(name),
                "view_changes": self._view_changes(rows),
                **self._detection(name, rows, failures, evidence),
                **self._fairness(rows),
                **(late.counts() if late else {}),
                **_spread("lateness", late.values if late else NOTHING),
                **self._admission(rows),
                "rotations": len(took) if "token" in recorded else None,
                **_spread("rotation", took),
                "rotation_bound_ns": bounds.get("rotation"),
                **self._exclusion(rows, bounds.get("detection")),
                **(self._states(rows) if has_states else {}),
                **_spread("send", self._took(rows.get("sent", NOTHING))),
                "send_bound_ns": bounds.get("send"),
                "deliver_bound_ns": bounds.get("deliver", bounds.get("delivery")),
                **self._decisions(rows),
                **memory,
            }

    def timings(self) -> Iterator[Timings]:
        times = self._times()
        for name in sorted(self._group.names):
            rows = self._rows_in(self._group.names.index(name))
            yield Timings(name, times.rotations(rows), times.lateness(rows).values)

    def _times(self) -> Times:
        return Times(self._table, self._of_kind, self._process, self._sender, self._seq)

    def _rows_in(self, group: int) -> dict[str, Integers]:
        """The rows of a group, by kind."""
        return {kind: at[self._group.codes[at] == group] for kind, at in self._of_kind.items()}

    def _recorded(self) -> set[str]:
        found = set(self._of_kind)
        known = registry.protocols()
        for row in self._rows_of("start"):
            detail = self._detail(row)
            found |= set(detail.records or ())
            if detail.protocol in known:
                found |= known[detail.protocol].recorded
        return found

    def _traffic(self, rows: Mapping[str, Integers]) -> dict[str, Any]:
        sends, delivers = rows.get("send", NOTHING), rows.get("deliver", NOTHING)
        moments = [self._clock[sends], self._clock[delivers], self._sent[delivers][self._has_sent[delivers]]]
        first = min((int(times.min()) for times in moments if len(times)), default=None)
        last = int(self._clock[delivers].max()) if len(delivers) else None
        span = last - first if first is not None and last is not None else None
        counts = np.bincount(self._process.codes[delivers])
        sizes = bool(len(delivers)) and bool(self._has_size[delivers].all())
        most = int(sums(self._process.codes[delivers], self._size[delivers]).max()) if sizes else None
        return {
            "sends": len(sends) or (None if len(delivers) else 0),
            "deliveries": len(delivers),
            "span_ns": span,
            "messages_per_s": ratio(int(counts.max(initial=0)), span, 1e9),
            "bytes_per_s": ratio(most, span, 1e9),
        }

    def _fairness(self, rows: Mapping[str, Integers]) -> dict[str, Any]:
        """Jain's index over the senders' shares of the deliveries, and the largest share over the smallest."""
        sends, delivers = rows.get("send", NOTHING), rows.get("deliver", NOTHING)
        counts = np.bincount(self._sender.codes[delivers], minlength=len(self._sender.names))
        takes_part = counts > 0
        takes_part[self._sender.codes[sends]] = True
        shares = counts[takes_part]
        total = int(shares.sum())
        squares = int((shares * shares).sum())
        return {
            "senders": len(shares),
            "fairness": ratio(total * total, len(shares) * squares),
            "fairness_ratio": ratio(int(shares.max(initial=0)), int(shares.min())) if len(shares) else None,
        }

    def _delays(self, rows: Mapping[str, Integers]) -> dict[str, int | None]:
        delivers = rows.get("deliver", NOTHING)
        sent, known = self._sent_of(delivers, rows.get("send", NOTHING))
        timed = delivers[known]
        latency = self._clock[timed] - sent[known]
        receives = rows.get("receive", NOTHING)
        receives = receives[self._has_seq[receives] & (self._sender.codes[receives] >= 0)]
        overhead = self._since_receive(delivers, receives) if len(receives) else self._beyond_best(timed, latency)
        return {**_spread("latency", latency), **_spread("overhead", overhead)}

    def _sent_of(self, delivers: Integers, sends: Integers) -> tuple[Integers, Flags]:
        """When each delivered message was sent, and whether that is known."""
        sent, known = self._sent[delivers], self._has_sent[delivers]
        if known.all():
            return sent, known
        first, found = look_up(self._message(sends), self._clock[sends], self._message(delivers))
        return np.where(known, sent, first), known | found

    def _message(self, rows: Integers) -> Integers:
        """A number for the message that a row of this group is about."""
        return self._sender.codes[rows] * (int(self._seq.max(initial=0)) + 1) + self._seq[rows]

    def _since_receive(self, delivers: Integers, receives: Integers) -> Integers:
        """From the first arrival of a message at a process to its delivery there."""
        messages = self._message(np.concatenate([delivers, receives]))
        keys = messages * len(self._process.names) + self._process.codes[np.concatenate([delivers, receives])]
        arrived, found = look_up(keys[len(delivers) :], self._clock[receives], keys[: len(delivers)])
        waited: Integers = (self._clock[delivers] - arrived)[found]
        return waited

    def _beyond_best(self, timed: Integers, latency: Integers) -> Integers:
        """How much later than the quickest delivery from that sender to that process."""
        pairs = self._process.codes[timed] * len(self._sender.names) + self._sender.codes[timed]
        best = np.full(len(self._process.names) * len(self._sender.names), np.iinfo(np.int64).max)
        np.minimum.at(best, pairs, latency)
        beyond: Integers = latency - best[pairs]
        return beyond

    def _packets(self) -> list[float | None]:
        """Packets for each group: those on its rows, and of those on rows without a group in proportion."""
        column = self._table.column("packets")
        if column.null_count == len(column):
            return [None] * len(self._group.names)
        counts = nullable(column)[0]
        # The place before the first group holds what has none: its code is -1.
        alone, *own = sums(self._group.codes + 1, counts, len(self._group.names) + 1).tolist()
        return [share_of_packets(each, alone, sum(own)) for each in own]

    def _cost(self, rows: Mapping[str, Integers], packets: float | None) -> dict[str, float | None]:
        sends = rows.get("send", NOTHING)
        sized = bool(len(sends)) and bool(self._has_size[sends].all())
        return {
            "packets": packets,
            "packets_per_multicast": ratio(packets, len(sends)),
            "bytes_per_multicast": ratio(int(self._size[sends].sum()), len(sends)) if sized else None,
        }

    def _unstable_max(self, rows: Mapping[str, Integers]) -> int | None:
        """The most deliveries of one process whose rank was above the highest that it knew to be stable."""
        stable, delivers = rows.get("stable", NOTHING), rows.get("deliver", NOTHING)
        if not len(stable):
            return None
        ranks, has_rank = nullable(self._table.column("rank"))
        stable, delivers = stable[has_rank[stable]], delivers[has_rank[delivers]]
        if not len(stable):
            return None
        processes = self._process.codes
        everyone = [(stable[processes[stable] == one], delivers[processes[delivers] == one]) for one in np.unique(processes)]
        return max(self._unstable_at(ranks, *mine) for mine in everyone)

    def _unstable_at(self, ranks: Integers, stable: Integers, delivers: Integers) -> int:
        if not len(delivers) or not len(stable):
            return 0  # a process that never learns what is stable does not count
        order = self._in_order(np.concatenate([stable, delivers]))
        is_stable = np.isin(order, stable)
        covered = np.searchsorted(np.sort(ranks[delivers]), ranks[order], side="right")
        highest = np.maximum.accumulate(np.where(is_stable, covered, 0))
        return max(0, int((np.cumsum(~is_stable) - highest).max()))

    def _blocked(self, rows: Mapping[str, Integers]) -> int:
        """Time between ``block`` rows about no message (nor the request for one) and the next ``unblock``."""
        blocks, unblocks = rows.get("block", NOTHING), rows.get("unblock", NOTHING)
        blocks = blocks[~self._has_seq[blocks]]
        about_none = np.array([self._detail(int(row)).request is None for row in blocks], dtype=np.bool_)
        return self._closed_time(blocks[about_none], unblocks[~self._has_seq[unblocks]])

    def _synchronising(self, rows: Mapping[str, Integers]) -> int:
        """Time between ``sync`` rows and the next that says ``over``."""
        syncs = rows.get("sync", NOTHING)
        over = np.array([self._detail(int(row)).over is True for row in syncs], dtype=np.bool_)
        return self._closed_time(syncs[~over], syncs[over])

    def _closed_time(self, opening: Integers, closing: Integers) -> int:
        """From the first opening to the next closing at the same process, summed; what is never closed is not counted."""
        closes = set(closing.tolist())
        total, process, since = 0, -1, None
        for row in self._in_order(np.concatenate([opening, closing])).tolist():
            if self._process.codes[row] != process:
                process, since = self._process.codes[row], None
            if row not in closes:
                since = int(self._clock[row]) if since is None else since
            elif since is not None:
                total += int(self._clock[row]) - since
                since = None
        return total

    def _view_changes(self, rows: Mapping[str, Integers]) -> int | None:
        installed = rows.get("view", NOTHING)
        if not len(installed):
            return None
        numbers, members = self._values("view", installed), self._values("members", installed)
        return len({(number, tuple(names or ())) for number, names in zip(numbers, members, strict=True)}) - 1

    def _failures(self) -> list[_Failure]:
        """Crashes that were not the protocol's own decision, and pauses as long as they last."""
        found = []
        for row in self._rows_of("crash"):
            if self._detail(row).by != "protocol":
                found.append(_Failure(self._process_of(row), int(self._clock[row]), _FOR_EVER))
        for row in self._rows_of("fault"):
            detail = self._detail(row)
            if detail.fault == "pause" and detail.length is not None:
                since = int(self._clock[row])
                found.append(_Failure(self._process_of(row), since, since + detail.length))
        return found

    def _evidence(self) -> _Noticed:
        """When another process suspected a process or went to a view without it: (group or none, process) to moments."""
        found: _Noticed = {}
        for row in self._rows_of("suspect"):
            detail = self._detail(row)
            suspected = {detail.process, *(detail.processes or ())} - {None, self._process_of(row)}
            for name in suspected:
                found.setdefault((self._group_of(row), str(name)), []).append(int(self._clock[row]))
        views = self._in_order(self._of_kind.get("view", NOTHING))
        before: dict[tuple[str, str | None], list[str]] = {}
        for row, members in zip(views.tolist(), self._values("members", views), strict=True):
            place = (self._process_of(row), self._group_of(row))
            for gone in dict.fromkeys(before.get(place, ())):
                if gone not in (members or ()) and gone != place[0]:
                    found.setdefault((place[1], gone), []).append(int(self._clock[row]))
            before[place] = members or []
        return found

    def _detection(
        self, group: str, rows: Mapping[str, Integers], failures: Sequence[_Failure], evidence: _Noticed
    ) -> dict[str, int | None]:
        """How long after a member fell silent the first other one noticed."""
        members = self._members(rows) if failures else frozenset()
        concerned = [failure for failure in failures if failure.process in members]
        times = []
        for failure in concerned:
            seen = [*evidence.get((group, failure.process), ()), *evidence.get((None, failure.process), ())]
            after = [moment for moment in seen if failure.since <= moment <= failure.until]
            if after:
                times.append(min(after) - failure.since)
        return {"failures": len(concerned), "detected": len(times), **_middle("detection", times)}

    def _members(self, rows: Mapping[str, Integers]) -> frozenset[str]:
        """Processes that came into the group and did not leave it."""
        came = {self._process_of(int(row)) for kind in ("join", "view") for row in rows.get(kind, NOTHING)}
        return frozenset(came - {self._process_of(int(row)) for row in rows.get("leave", NOTHING)})

    def _admission(self, rows: Mapping[str, Integers]) -> dict[str, Any]:
        """Streams whose deadlines were guaranteed or not; a ``reject`` of something else names no stream."""
        if "admit" not in self._of_kind and not self._rejections(self._of_kind):
            return {}
        admitted, rejected = len(rows.get("admit", ())), self._rejections(rows)
        return {"admitted": admitted, "rejected": rejected, "admission_ratio": ratio(admitted, admitted + rejected)}

    def _rejections(self, rows: Mapping[str, Integers]) -> int:
        return sum(self._detail(int(row)).stream is not None for row in rows.get("reject", NOTHING))

    def _exclusion(self, rows: Mapping[str, Integers], bound: int | None) -> dict[str, Any]:
        """From each crash to the first view without the crashed one, at each member that neither crashes nor leaves."""
        members = self._members(rows)
        crashes = {self._process_of(row): int(self._clock[row]) for row in self._rows_of("crash")}
        views = self._in_order(rows.get("view", NOTHING))
        installed = list(zip(views.tolist(), self._values("members", views), strict=True))
        took = []
        for crashed, since in crashes.items():
            for process in members - crashes.keys() if crashed in members else ():
                mine = [(int(self._clock[row]), names or []) for row, names in installed if self._process_of(row) == process]
                after = _excluded(mine, crashed, since)
                took += [after] if after is not None else []
        return {**_middle("exclusion", took), "detection_bound_ns": bound}

    def _has_states(self, recorded: set[str]) -> bool:
        """Whether ``state`` rows tell of joining and of assumptions; those of some protocols tell of other things."""
        told = [self._detail(row) for row in self._rows_of("state")]
        return ("state" in recorded and not told) or any(each.state in STATES or each.broken is not None for each in told)

    def _states(self, rows: Mapping[str, Integers]) -> dict[str, Any]:
        """Assumptions that were broken, and how long it took from joining to a view."""
        told, views = rows.get("state", NOTHING), rows.get("view", NOTHING)
        took: list[int] = []
        process, since = -1, None
        is_view = set(views.tolist())
        for row in self._in_order(np.concatenate([told, views])).tolist():
            if self._process.codes[row] != process:
                process, since = self._process.codes[row], None
            if row in is_view:
                took += [int(self._clock[row]) - since] if since is not None else []
                since = None
            elif self._detail(row).state == "joining" and since is None:
                since = int(self._clock[row])
        broken = sum(self._detail(int(row)).broken is not None for row in told)
        return {"joins": len(took), **_middle("join", took), "broken": broken}

    def _decisions(self, rows: Mapping[str, Integers]) -> dict[str, Any]:
        """What receivers decided on messages, and how long that took them."""
        if "decide" not in self._of_kind:
            return {}
        decided = rows.get("decide", NOTHING)
        against = sum(decode(text).decision == 0 for text in self._values("detail", decided))
        counts = {"decisions": len(decided), "decided_against": against}
        return {**counts, **_spread("decision", self._took(decided))}

    def _took(self, rows: Integers) -> Integers:
        told = (decode(text).took_ns for text in self._values("detail", rows))
        return np.array([took for took in told if took is not None], dtype=np.int64)

    def _memory(self) -> dict[str, Any]:
        """Timing faults and crashed modules of the run; empty if it is not on shared memory and has none of them."""
        details = [self._detail(row) for row in self._rows_of("fault")]
        late = [each for each in details if each.timing is True or each.fault == "timing"]
        modules = {each.module for each in details if each.fault == "module"}
        known = registry.protocols()
        protocols = {self._detail(row).protocol for row in self._rows_of("start")}
        if not late and not modules and not any(known[name].placement.memory is not None for name in protocols if name in known):
            return {}
        return {"timing_faults": sum(max(each.count or 1, 1) for each in late), "module_crashes": len(modules)}

    def _rows_of(self, kind: str) -> list[int]:
        rows: list[int] = self._of_kind.get(kind, NOTHING).tolist()
        return rows

    def _process_of(self, row: int) -> str:
        return self._process.names[int(self._process.codes[row])]

    def _group_of(self, row: int) -> str | None:
        code = self._group.codes[row]
        return None if code < 0 else self._group.names[code]

    def _values(self, column: str, rows: Integers) -> list[Any]:
        values: list[Any] = self._table.column(column).take(pa.array(rows)).to_pylist()
        return values

    def _detail(self, row: int) -> Detail:
        if row not in self._details:
            self._details[row] = decode(self._table.column("detail")[row].as_py())
        return self._details[row]

    def _in_order(self, rows: Integers) -> Integers:
        """These rows, process by process, in the order in which they happened there."""
        if self._index is None:
            self._index = integers(self._table.column("index"))
        return rows[np.lexsort((self._index[rows], self._process.codes[rows]))]


_FOR_EVER: Final = 2**63 - 1
_COUNTED: Final = {"nulls": "null", "retransmissions": "retransmit", "suspicions": "suspect"}  # metrics that count rows


def _excluded(views: Sequence[tuple[int, Sequence[str]]], crashed: str, since: int) -> int | None:
    """How long after its crash, or after a view that names it was installed later, a process had the crashed one in its view."""
    begins: int | None = None
    for at, members in views:
        if crashed in members:
            begins = max(since, at) if begins is None else begins
        elif begins is not None and at > since:
            return at - begins
        else:
            begins = None
    return None


def _spread(name: str, values: Integers, percents: Sequence[int] = PERCENTS) -> dict[str, int | None]:
    """Percentiles of some times, and the longest."""
    ordered = np.sort(values)
    figures = [*(percentile(ordered, percent) for percent in percents), int(ordered[-1])] if len(ordered) else []
    return dict(zip_longest(spread_of(name, percents), figures))


def _middle(name: str, times: Sequence[int]) -> dict[str, int | None]:
    """The median of a few times, and the longest."""
    return _spread(name, np.array(times, dtype=np.int64), (50,))
