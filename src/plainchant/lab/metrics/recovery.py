"""What a failure did to the survivors: when it was noticed, how deep deliveries fell, when they were back. ``docs/metrics.md``
has the definitions for people.

There is one :class:`Recovery` for each failure (a ``crash`` that the protocol did not decide itself, or a ``pause``) and each
group in which a survivor had the failed process in its view. *Survivors* are those of them that neither crash nor leave later in
the run. Throughput is what they deliver of each other's messages, so what the dead no longer send is no dip.

*The rate* at a moment is over the window that ends there, so a rate is never back before the deliveries are. *Before* is its mean
over the last two seconds, or since an earlier failure was over and what had waited for it was delivered. The window is the
shortest of :data:`WINDOWS` in which the rate never fell below 90 % of that mean before the failure: a dip is not the noise of the
load. Failures that overlap are compared with the time before the first of them.

*The dip* is looked for until the survivors have gone to a view without the failed one (or until the end of a pause that had no
consequence), and every stretch below 90 % that begins by then is followed to its end; without such a view only the first is. A
stretch in which the rate is nowhere lower than before the failure is none: with an uneven load that is ordinary. What is not over
when the last survivor sends for the last time, or after five minutes, has no end here.

*Late* is a message that takes twice as long as 99 % of those before, counted from when the application handed it over (the n-th
``accept`` row of a sender is that of its message n) or, without such rows, from when the protocol took it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from ...core.model import MS, SECOND
from ..arrays import NOTHING, Integers, coded, integers, nullable, percentile
from ..show import decode

Doubles: TypeAlias = npt.NDArray[np.float64]

COLUMNS: Final = ("process", "index", "time", "true_time", "kind", "group", "sender", "seq", "members", "sent", "detail")
WINDOWS: Final = tuple(length * MS for length in (10, 20, 50, 100, 200, 500, 1_000))  # a rate is over one of these, ns
BACK: Final = 0.9  # deliveries are back at this share of the rate before
BEFORE: Final = 2 * SECOND  # longest time before a failure that is compared with, ns
AFTER: Final = 300 * SECOND  # longest window analysed after a failure, ns
_STEPS: Final = 20  # moments in a window at which the rate is computed
_WINDOWS_BEFORE: Final = 4  # fewest windows in the time before a failure
_MESSAGES: Final = 10  # fewest messages in a window
_LATE: Final = 2  # a message is late if it takes this many times as long as 99 % of those before
KINDS_BUT_DELIVERIES: Final = ("view", "join", "leave", "crash", "fault", "suspect")  # kinds of rows that are few
KINDS: Final = (*KINDS_BUT_DELIVERIES, "accept", "send", "deliver")  # kinds of rows that are read here
TOO_LITTLE: Final = "too little was delivered before it to compare with"
LOAD_ENDED: Final = "the load ended first"
NOT_SOON: Final = "not within five minutes"
NOT_READ: Final = "there are too many deliveries to be read here"


@dataclasses.dataclass(frozen=True, slots=True)
class Recovery:
    """A failure, and what became of a group after it. Lengths of time are in ns since the failure."""

    group: str
    process: str
    how: str  # ``crash`` or ``pause``
    at: int  # when it failed, on the clock of its row
    survivors: tuple[str, ...]
    noticed: int | None  # the first suspicion of it by another process, or view without it; None: it was not noticed
    viewed: int | None  # all survivors have installed a view without it; None: not all of them did
    before: float | None = None  # messages per second that a survivor delivered before, as a mean over them
    window: int | None = None  # length of the window that rates are over, ns
    lowest_before: float | None = None  # the lowest rate before the failure, as a share of ``before``: what is ordinary
    deepest: float | None = None  # the lowest rate until all was over, as a share of ``before``
    back: int | None = None  # the rate was at 90 % again; 0: it never was below
    standstill: int | None = None  # the longest time for which one survivor delivered nothing of the others
    late: int | None = None  # messages that some survivor got late; None: when they were sent is not recorded
    slowest: int | None = None  # the longest that one of the late messages took
    remark: str = ""  # why figures are missing
    deliveries: Integers = dataclasses.field(default_factory=lambda: NOTHING, repr=False, compare=False)
    """When survivors delivered each other's messages, in order."""


def recoveries(tables: Iterable[pa.Table], *, deliveries_left_out: bool = False) -> list[Recovery]:
    """The failures of one run, in the order in which they happened; ``tables`` hold the rows of the run in any order.

    ``deliveries_left_out`` says that the deliveries were too many to be among them: then only what views and suspicions tell
    is known.

    >>> from plainchant.trace import SCHEMA
    >>> recoveries([SCHEMA.empty_table()])
    []
    """
    run = _Run()
    for table in tables:
        run.add(table)
    found = [recovery for group in run.groups() for recovery in _Group(run, group, deliveries_left_out).recoveries()]
    return sorted(found, key=lambda recovery: (recovery.at, recovery.process, recovery.group))


@dataclasses.dataclass(frozen=True, slots=True)
class _Failure:
    process: str
    how: str
    since: int
    until: int | None  # when a pause ended


class _Run:
    """The rows of one run, as far as they matter."""

    def __init__(self) -> None:
        self._few: list[dict[str, Any]] = []
        self._codes: dict[str, int] = {}
        self._parts: list[tuple[Integers, ...]] = []
        self._sent: dict[tuple[str, str], int] = {}
        self._accepted: dict[tuple[str, str], list[tuple[Integers, Integers]]] = {}
        self._joined: tuple[Integers, ...] | None = None

    def add(self, table: pa.Table) -> None:
        table = table.select(COLUMNS)
        clock = pc.coalesce(table.column("true_time"), table.column("time"))
        table = table.append_column("clock", clock)
        few = table.filter(pc.is_in(table.column("kind"), pa.array(KINDS_BUT_DELIVERIES)))
        for row in few.to_pylist():
            row["detail"] = decode(row["detail"]) if row["detail"] else None
            self._few.append(row)
        self._add_sends(table)
        self._add_accepts(table.filter(pc.equal(table.column("kind"), "accept")))
        self._add_deliveries(table.filter(pc.equal(table.column("kind"), "deliver")))

    def _add_sends(self, table: pa.Table) -> None:
        sends = table.filter(pc.is_in(table.column("kind"), pa.array(["send", "accept"])))
        last = sends.group_by(["group", "process"], use_threads=False).aggregate([("clock", "max")])
        for row in last.to_pylist():
            place = (row["group"], row["process"])
            self._sent[place] = max(self._sent.get(place, row["clock_max"]), row["clock_max"])

    def _add_accepts(self, accepted: pa.Table) -> None:
        for place in accepted.select(["group", "process"]).group_by(["group", "process"]).aggregate([]).to_pylist():
            is_here = [pc.equal(accepted.column(name), place[name]) for name in ("group", "process")]
            here = accepted.filter(pc.and_(*is_here))
            places = self._accepted.setdefault((place["group"], place["process"]), [])
            places.append((integers(here.column("index")), integers(here.column("clock"))))

    def _add_deliveries(self, delivered: pa.Table) -> None:
        if not delivered.num_rows:
            return
        sent, is_known = nullable(delivered.column("sent"))
        names = (self._coded(delivered.column(name)) for name in ("group", "process", "sender"))
        seq, clock = integers(delivered.column("seq")), integers(delivered.column("clock"))
        self._parts.append((*names, seq, clock, np.where(is_known, clock - sent, -1)))

    def _coded(self, column: pa.ChunkedArray) -> Integers:
        local = coded(column)
        codes = [self._codes.setdefault(name, len(self._codes)) for name in local.names]
        return np.array(codes, dtype=np.int64)[local.codes]

    def rows(self, *kinds: str) -> list[dict[str, Any]]:
        """Rows of these kinds, process by process, in the order in which they happened there."""
        return sorted((row for row in self._few if row["kind"] in kinds), key=lambda row: (row["process"], row["index"]))

    def groups(self) -> list[str]:
        return sorted({row["group"] for row in self._few if row["group"] is not None})

    def failures(self) -> list[_Failure]:
        """Crashes that were not the protocol's own decision, and pauses, in the order of time."""
        found = []
        for row in self.rows("crash", "fault"):
            detail = row["detail"] if isinstance(row["detail"], dict) else {}
            if row["kind"] == "crash" and detail.get("by") != "protocol":
                found.append(_Failure(row["process"], "crash", row["clock"], None))
            elif detail.get("fault") == "pause" and isinstance(detail.get("length"), int):
                found.append(_Failure(row["process"], "pause", row["clock"], row["clock"] + detail["length"]))
        return sorted(found, key=lambda failure: (failure.since, failure.process))

    def stopped(self) -> set[str]:
        return {row["process"] for row in self.rows("crash")}

    def last_send(self, group: str, processes: Sequence[str]) -> int | None:
        return max((self._sent[group, name] for name in processes if (group, name) in self._sent), default=None)

    def flow(self, group: str, processes: Sequence[str]) -> _Flow:
        """What these processes delivered of each other's messages in a group."""
        if self._joined is None:
            self._joined = tuple(np.concatenate(columns) for columns in zip(*self._parts, strict=True))
        if not self._joined or group not in self._codes:
            return _Flow(NOTHING, NOTHING, NOTHING, NOTHING)
        groups, at, sender, seq, clock, latency = self._joined
        theirs = [self._codes[name] for name in processes if name in self._codes]
        chosen = np.flatnonzero((groups == self._codes[group]) & np.isin(at, theirs) & np.isin(sender, theirs))
        chosen = chosen[np.argsort(clock[chosen], kind="stable")]
        message = sender[chosen] * (int(seq.max()) + 1) + seq[chosen]
        clock, sender, seq, latency = clock[chosen], sender[chosen], seq[chosen], latency[chosen]
        for name in processes:
            accepted = self._accepts(group, name)
            if len(accepted):
                mine = (sender == self._codes.get(name, -1)) & (seq <= len(accepted))
                latency[mine] = clock[mine] - accepted[seq[mine] - 1]
        return _Flow(clock, at[chosen], message, latency)

    def _accepts(self, group: str, process: str) -> Integers:
        """When each of a process's messages was accepted, in order: they are numbered in the order in which they are."""
        parts = self._accepted.get((group, process))
        if not parts:
            return NOTHING
        index, clock = (np.concatenate(columns) for columns in zip(*parts, strict=True))
        return clock[np.argsort(index)]


@dataclasses.dataclass(frozen=True, slots=True)
class _Flow:
    """Deliveries in the order of time: when, where, which message, and how long it took (-1: not known)."""

    clock: Integers
    process: Integers
    message: Integers
    latency: Integers

    def counted(self, times: Integers, window: int) -> Integers:
        """How many there were in the windows that end at these times."""
        until: Integers = np.searchsorted(self.clock, times, side="right")
        return until - np.searchsorted(self.clock, times - window, side="right")


@dataclasses.dataclass(frozen=True, slots=True)
class _Baseline:
    """How it was before a failure, from ``begin`` to ``end``."""

    begin: int
    end: int
    rate: float  # deliveries a ns, of all survivors
    window: int
    lowest: float
    late: int | None  # what takes longer is late


class _Group:
    """The failures that concern one group of a run."""

    def __init__(self, run: _Run, group: str, deliveries_left_out: bool) -> None:
        self._run = run
        self._group = group
        self._left_out = deliveries_left_out
        self._views: dict[str, list[tuple[int, tuple[str, ...]]]] = {}
        for row in run.rows("view"):
            if row["group"] == group:
                self._views.setdefault(row["process"], []).append((row["clock"], tuple(row["members"] or ())))
        of_group = [row for row in run.rows("join", "leave") if row["group"] == group]
        self._entered = {row["process"] for row in of_group if row["kind"] == "join"} | set(self._views)
        self._gone = {row["process"] for row in of_group if row["kind"] == "leave"} | run.stopped()
        self._suspicions: dict[str, list[int]] = {}
        for row in run.rows("suspect"):
            suspected = row["detail"].get("process") if isinstance(row["detail"], dict) else None
            if row["group"] in (group, None) and isinstance(suspected, str) and suspected != row["process"]:
                self._suspicions.setdefault(suspected, []).append(row["clock"])
        self._flow: tuple[tuple[str, ...], _Flow] | None = None

    def recoveries(self) -> list[Recovery]:
        found: list[Recovery] = []
        earlier: list[tuple[int, _Baseline | None]] = []
        for failure in self._run.failures():
            survivors = self._survivors(failure)
            if not survivors:
                continue
            views = [self._view_without(failure, name) for name in survivors]
            known = [moment for moment in views if moment is not None]
            viewed = max(known) if len(known) == len(survivors) else None
            moments = min((*known, *self._suspected(failure)), default=None), viewed
            after, gone = (None if moment is None else moment - failure.since for moment in moments)
            told = Recovery(self._group, failure.process, failure.how, failure.since, survivors, after, gone)
            if self._left_out:
                found.append(dataclasses.replace(told, remark=NOT_READ))
                continue
            flow = self._flow_of(survivors)
            baseline = self._baseline(flow, failure.since, len(survivors), earlier)
            told = dataclasses.replace(told, deliveries=flow.clock)
            if baseline is None:
                told = dataclasses.replace(told, remark=TOO_LITTLE)
                settled = failure.since if viewed is None else viewed
            else:
                told, settled = self._dip(told, failure, flow, baseline, viewed)
            earlier.append((settled, baseline))
            found.append(told)
        return found

    def _survivors(self, failure: _Failure) -> tuple[str, ...]:
        """Who had the failed one in his view then, and neither stops nor leaves."""
        staying = sorted(self._entered - self._gone - {failure.process})
        if not self._views:
            return tuple(staying) if failure.process in self._entered else ()
        return tuple(name for name in staying if failure.process in self._members(name, failure.since))

    def _members(self, process: str, moment: int) -> tuple[str, ...]:
        members: tuple[str, ...] = ()
        for installed, names in self._views.get(process, ()):
            if installed > moment:
                break
            members = names
        return members

    def _view_without(self, failure: _Failure, process: str) -> int | None:
        """When a process installed its first view without the failed one, for a pause while it lasted."""
        for installed, names in self._views.get(process, ()):
            if installed >= failure.since and failure.process not in names:
                return installed if failure.until is None or installed <= failure.until else None
        return None

    def _suspected(self, failure: _Failure) -> list[int]:
        """When another process suspected the failed one, for a pause while it lasted."""
        after = (moment for moment in self._suspicions.get(failure.process, ()) if moment >= failure.since)
        return [moment for moment in after if failure.until is None or moment <= failure.until]

    def _flow_of(self, survivors: tuple[str, ...]) -> _Flow:
        if self._flow is None or self._flow[0] != survivors:
            self._flow = (survivors, self._run.flow(self._group, survivors))
        return self._flow[1]

    def _baseline(
        self, flow: _Flow, end: int, survivors: int, earlier: Sequence[tuple[int, _Baseline | None]]
    ) -> _Baseline | None:
        """The time before a failure, or before the first of those whose effects were not over."""
        begin = max((settled for settled, _ in earlier), default=None)
        if begin is None:
            begin = int(flow.clock[0]) if len(flow.clock) else end
        found = _compared(flow, max(begin, end - BEFORE), end, survivors)
        first = earlier[-1][1] if earlier else None
        return _compared(flow, first.begin, first.end, survivors) if found is None and first is not None else found

    def _dip(
        self, told: Recovery, failure: _Failure, flow: _Flow, baseline: _Baseline, viewed: int | None
    ) -> tuple[Recovery, int]:
        """The recovery with its dip, and when deliveries were as usual again."""
        window, begin = baseline.window, failure.since
        before = baseline.rate * SECOND / len(told.survivors)
        told = dataclasses.replace(told, before=before, window=window, lowest_before=baseline.lowest)
        last = self._run.last_send(self._group, told.survivors)
        if last is None or last < begin + window:
            return dataclasses.replace(told, remark=LOAD_ENDED), begin
        end = min(last, begin + AFTER)
        times = np.arange(begin, end + 1, window // _STEPS, dtype=np.int64)
        shares = flow.counted(times, window) / (baseline.rate * window)
        acted = viewed if viewed is not None else failure.until
        back = _back(times, shares, acted, baseline.lowest)
        over = end if back is None else max(back, acted or begin)
        usual = times[(times >= over) & (shares <= 1 / BACK)]
        late, slowest = _late(flow, begin, over, baseline.late)
        deepest, standstill = float(shares[times <= over].min()), _standstill(flow, begin, over)
        since, remark = (None, LOAD_ENDED if end == last else NOT_SOON) if back is None else (back - begin, "")
        told = dataclasses.replace(told, deepest=deepest, back=since, standstill=standstill, late=late, slowest=slowest)
        return dataclasses.replace(told, remark=remark), int(usual[0]) if len(usual) else end


def _compared(flow: _Flow, begin: int, end: int, survivors: int) -> _Baseline | None:
    """The time from ``begin`` to ``end`` as one to compare with; None if too little happened in it."""
    chosen = slice(*np.searchsorted(flow.clock, [begin, end]).tolist())
    count, length = len(flow.clock[chosen]), end - begin
    known = np.sort(flow.latency[chosen][flow.latency[chosen] >= 0])
    best: _Baseline | None = None
    for window in WINDOWS:
        if window * _WINDOWS_BEFORE > length or count * window < _MESSAGES * survivors * length:
            continue
        rate = count / length
        times = np.arange(begin + window, end, window // _STEPS, dtype=np.int64)
        lowest = float(flow.counted(times, window).min()) / (rate * window)
        best = _Baseline(begin, end, rate, window, lowest, _LATE * percentile(known, 99) if len(known) else None)
        if lowest >= BACK:
            break
    return best


def _back(times: Integers, shares: Doubles, acted: int | None, lowest: float) -> int | None:
    """When the rate was back for good, as far as it is about this failure; None: not before the end of these times."""
    edges = np.flatnonzero(np.diff((shares < BACK).astype(np.int8), prepend=0, append=0)).tolist()
    stretches = [(begin, end) for begin, end in zip(edges[::2], edges[1::2], strict=True) if shares[begin:end].min() < lowest]
    concerned = [end for begin, end in stretches if acted is None or times[begin] <= acted]
    if not concerned:
        return int(times[0])
    end = concerned[0] if acted is None else concerned[-1]
    return int(times[end]) if end < len(times) else None


def _standstill(flow: _Flow, begin: int, over: int) -> int:
    """The longest time, after ``begin``, without a delivery at one process; one that lasts at ``over`` is followed to its end."""
    longest = 0
    for process in np.unique(flow.process):
        moments = flow.clock[flow.process == process]
        first, last = np.searchsorted(moments, [begin, over], side="right").tolist()
        after = moments[last : last + 1] if last < len(moments) else np.array([over])
        longest = max(longest, int(np.diff(np.concatenate([[begin], moments[first:last], after])).max()))
    return longest


def _late(flow: _Flow, begin: int, over: int, limit: int | None) -> tuple[int | None, int | None]:
    """How many of the messages that were under way until all was over some survivor got late, and how long the slowest took."""
    if limit is None:
        return None, None
    under_way = (flow.clock >= begin) & (flow.latency >= 0) & (flow.clock - flow.latency <= over)
    is_late = under_way & (flow.latency > limit)
    count = len(np.unique(flow.message[is_late]))
    return count, int(flow.latency[is_late].max()) if count else None
