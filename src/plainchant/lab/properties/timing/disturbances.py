"""What may hold a protocol up: faults and changes of members, as stretches of time. ``progress`` judges the time between them.

Times are on the global clock where rows have one, else on the clocks of the processes, which are one clock on one machine.

- *Moments*: the ``start``, ``crash``, ``join``, ``leave``, ``request`` and ``fault`` rows, the end of every fault that has
  a length, and, at each process, the first view that names a member and the first one after it that does not. Views that only
  repeat what a process has installed before are no disturbance: a protocol that changes views for ever is not excused by it.
- *Stretches*: a fault lasts from its row for its ``length``. A fault of the network is over with the next ``heal``, and
  any fault with the row ``{"fault": "calm"}`` that ends the time of faults; without a length it lasts until then, or to the end.
  A fault of a kind that the protocol tolerates (``despite``) is only two moments.
- A process with a fault of its own is *excused* while that lasts and for one bound after it: it has to catch up. A packet that it
  drops at most as often as the protocol tolerates is no such fault.

A halt asks another question: whether a fault can be its cause (``could_halt``). Crashes and changes of members cannot, as long as
a majority is left; a tolerated fault of another process cannot either; a network that fell apart always can.
"""

from __future__ import annotations

import dataclasses
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, TypeAlias

from ....core.model import ProcessId
from ..facts import History, Run, is_timing_fault

Stretch: TypeAlias = tuple[int, int]  # from one time to another, ns

NETWORK: Final = frozenset({"partition", "cut", "clog", "loss", "lan"})  # kinds of fault of the network; ``heal`` ends them
OWN: Final = frozenset({"pause", "slow", "sluggish", "busy", "omit", "step", "disk"})  # these make a process slow or deaf
APART: Final = frozenset({"partition", "cut", "clog"})  # these part members, whatever the protocol tolerates
HARMLESS: Final = frozenset({"crash", "restart", "join", "leave", "form", "refuse", "close", "rename", "heal", "calm"})
"""Kinds of ``fault`` row that halt no other process: their consequences have rows of their own."""
FOREVER: Final = 2**62


def moment(run: Run, row: int) -> int:
    """When a row was written."""
    true_time = run.columns.true_time[row]
    return run.columns.time[row] if true_time is None else true_time


def is_out_of_time(run: Run, history: History) -> bool:
    """Whether a process's rows cannot be placed in time: its clock was set, and there is no other."""
    if run.columns.true_time[history.last_row] is not None:
        return False
    return any(sets_clock(run.columns.detail(history.rows[index])) for index in history.faults)


def sets_clock(detail: dict[str, Any]) -> bool:
    """Whether a fault sets the clock of its process."""
    return detail.get("fault") in ("step", "clock")


def disturbances_of(run: Run) -> Disturbances:
    """What disturbed a whole run."""
    rows = [(history.name, history.rows[index]) for history in run.all for index in history.faults]
    faults = [(moment(run, row), name, run.columns.detail(row)) for name, row in rows]
    moments = {at for history in run.all for at in _changes(run, history)}
    return Disturbances(run.despite if run.despite is not None else frozenset(), faults, moments)


class Disturbances:
    """Disturbances, for a protocol that tolerates the kinds of fault in ``despite``."""

    def __init__(
        self, despite: frozenset[str], faults: Sequence[tuple[int, ProcessId, dict[str, Any]]], moments: Iterable[int]
    ) -> None:
        """``faults``: the ``fault`` rows, by time, process and detail. ``moments``: the times of the other rows that disturb."""
        self._despite = despite
        self._moments = set(moments)
        self._stretches: list[Stretch] = []
        self._own: dict[ProcessId, list[Stretch]] = {}
        self._causes: list[Stretch] = []  # faults that may halt any process
        self._free: dict[int, list[Stretch]] = {}
        self._heals = sorted(at for at, _, detail in faults if detail.get("fault") in ("heal", "calm"))
        self._calms = sorted(at for at, _, detail in faults if detail.get("fault") == "calm")
        for fault in faults:
            self._add_fault(*fault)

    def longest_free(self, begin: int, end: int, bound: int, processes: Iterable[ProcessId]) -> int:
        """The longest time within a stretch without a disturbance and in which none of the processes is excused, if it is longer
        than the bound; else 0."""
        if end - begin <= bound:
            return 0
        left = [*_within(self._free_of(bound), begin, end)]
        for process in dict.fromkeys(processes):
            for excused_from, excused_until in self._own.get(process, ()):
                left = [*_without(left, excused_from, excused_until + bound)]
        longest = max((until - since for since, until in left), default=0)
        return longest if longest > bound else 0

    def could_halt(self, process: ProcessId, begin: int, end: int) -> bool:
        """Whether a fault between two times may be why a process was halted: one of its own, or one that is not tolerated."""
        return any(since <= end and begin <= until for since, until in (*self._own.get(process, ()), *self._causes))

    def faulty(self, begin: int, end: int) -> set[ProcessId]:
        """The processes with a fault of their own between two times."""
        return {name for name, own in self._own.items() if any(since <= end and begin <= until for since, until in own)}

    def _free_of(self, bound: int) -> list[Stretch]:
        """The stretches without a disturbance that are longer than the bound."""
        if bound not in self._free:
            free: list[Stretch] = []
            reached = -FOREVER
            for begin, end in sorted([*self._stretches, *((at, at) for at in self._moments)]):
                if begin - reached > bound:
                    free.append((reached, begin))
                reached = max(reached, end)
            self._free[bound] = [*free, (reached, FOREVER)]
        return self._free[bound]

    def _add_fault(self, at: int, process: ProcessId, detail: dict[str, Any]) -> None:
        kind = detail.get("fault", detail.get("kind"))
        end = self._end_of(kind, at, detail)
        self._moments |= {at, end} if end < FOREVER else {at}
        if end > at and not self._is_tolerated(kind, detail):
            self._stretches.append((at, end))
        if is_timing_fault(detail) or (kind in OWN and not self._is_within_limit(kind, detail)):
            took = detail.get("took_ns")
            begin = at - took if isinstance(took, int) else at
            wrong_for_ever = is_timing_fault(detail) and kind in ("step", "clock")
            self._own.setdefault(process, []).append((begin, FOREVER if wrong_for_ever else end))
        if self._may_halt(kind, detail):
            self._causes.append((at, end))

    def _end_of(self, kind: object, at: int, detail: dict[str, Any]) -> int:
        length = detail.get("length", detail.get("length_ns"))
        if isinstance(length, int) and length:
            end = at + length
        elif kind in NETWORK:
            end = FOREVER
        else:
            return at
        ends = self._heals if kind in NETWORK and detail.get("background") is not True else self._calms
        place = bisect_right(ends, at)
        return min(end, ends[place]) if place < len(ends) else end

    def _may_halt(self, kind: object, detail: dict[str, Any]) -> bool:
        """Whether a fault of one process, or of the network, may be why another one is halted."""
        if kind in HARMLESS:
            tolerates_loss = any(entry.partition("<=")[0] in ("loss", "omit") for entry in self._despite)
            return detail.get("mid_broadcast") is True and not tolerates_loss
        return kind in APART or not (is_timing_fault(detail) or self._is_tolerated(kind, detail))

    def _is_tolerated(self, kind: object, detail: dict[str, Any]) -> bool:
        return kind in self._despite or self._is_within_limit(kind, detail)

    def _is_within_limit(self, kind: object, detail: dict[str, Any]) -> bool:
        """Whether the protocol tolerates a rate of loss, or that a process drops one packet as often as this fault makes it."""
        amount = detail.get("rate", detail.get("count") if detail.get("identity") is not None else None)
        limits = (entry.partition("<=") for entry in self._despite if entry.startswith(f"{kind}<="))
        return isinstance(amount, int | float) and any(amount <= float(limit) for _, _, limit in limits)


def _changes(run: Run, history: History) -> Iterator[int]:
    """When a process started, crashed, joined, left, asked for something or installed a view that changes its members."""
    kinds = run.columns["kind"]
    edges = (next(iter(history.rows.values())), history.last_row)
    yield from (moment(run, row) for row in edges if kinds[row] in ("start", "crash"))
    yield from (moment(run, history.rows[index]) for index in history.requests)
    for stays in history.stays.values():
        for stay in stays:
            yield from (moment(run, row) for row in (stay.begin_row, stay.end_row) if row is not None)
    for views in history.views.values():
        seen = Seen()
        for installed in views:
            if seen.changes(installed.view.members):
                yield moment(run, installed.row)


@dataclasses.dataclass(slots=True)
class Seen:
    """The members that the views of a process have named, and have ceased to name."""

    named: set[ProcessId] = dataclasses.field(default_factory=set)
    gone: set[ProcessId] = dataclasses.field(default_factory=set)

    def changes(self, members: frozenset[ProcessId]) -> bool:
        """Takes the members of the next view; whether it names one, or ceases to name one, for the first time."""
        new, lacking = members - self.named, self.named - members - self.gone
        self.named |= new
        self.gone |= lacking
        return bool(new or lacking)


def _within(stretches: Sequence[Stretch], begin: int, end: int) -> Iterable[Stretch]:
    """What of some stretches, which follow each other, lies between two times."""
    place = max(0, bisect_left(stretches, (begin, begin)) - 1)
    for since, until in stretches[place:]:
        if since >= end:
            return
        if until > begin:
            yield max(since, begin), min(until, end)


def _without(stretches: Iterable[Stretch], begin: int, end: int) -> Iterable[Stretch]:
    """What of some stretches lies before one time or after another."""
    for since, until in stretches:
        if until <= begin or since >= end:
            yield since, until
            continue
        if since < begin:
            yield since, begin
        if until > end:
            yield end, until
