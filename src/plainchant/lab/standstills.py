"""Standstills: the times in which a member delivers nothing although a message waits for it. Metrics and explanations read this.

A message *waits* for a member from its ``send``, or, if it is the member's own, from its ``accept`` where there are such rows
(the n-th ``accept`` of a process in a group is that of its message n), until the member delivers it. A standstill is a time
between two successive deliveries of a member in a group, as far as a message waits in it that it delivers later. What it has
handed in and never delivers waits to its last row, unless it leaves the group.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from .arrays import Integers, coded, integers, look_up, nullable

KINDS: Final = ("accept", "send", "deliver", "leave", "crash", "end")  # rows that matter, besides each process's last
COLUMNS: Final = ("process", "index", "time", "true_time", "kind", "group", "sender", "seq", "sent")

_NEVER: Final = np.iinfo(np.int64).max
_BEFORE: Final = np.iinfo(np.int64).min


@dataclasses.dataclass(frozen=True, slots=True)
class Standstill:
    """A member delivers nothing from one moment to another, ns."""

    process: str
    group: str
    since: int
    until: int
    ended_by: int | None  # the index of the delivery that ends it; None: it lasts to the end of the history
    sender: str  # whose message waited

    @property
    def length(self) -> int:
        return self.until - self.since


def standstills(table: pa.Table) -> list[Standstill]:
    """The longest standstill of each member of each group in a table of one run, the longest first."""
    columns = _Columns(table)
    found = [each for group in sorted(columns.groups.names) for each in _of_group(columns, group)]
    return sorted(found, key=lambda each: (-each.length, each.group, each.process))


class _Columns:
    """The columns of one run that standstills are read off."""

    def __init__(self, table: pa.Table) -> None:
        self.process, self.sender = coded(table.column("process")), coded(table.column("sender"))
        self.kinds, self.groups = coded(table.column("kind")), coded(table.column("group"))
        self.clock = integers(pc.coalesce(table.column("true_time"), table.column("time")))
        self.index = integers(table.column("index"))
        self.seq, self.has_seq = nullable(table.column("seq"))
        self.sent, self.has_sent = nullable(table.column("sent"))

    def of_group(self, group: str) -> dict[str, Integers]:
        """The rows of a group, by kind."""
        mine = self.groups.codes == self.groups.code(group)
        return {kind: np.flatnonzero(mine & (self.kinds.codes == self.kinds.code(kind))) for kind in KINDS}

    def in_order(self, rows: Integers) -> Integers:
        return rows[np.lexsort((self.index[rows], self.process.codes[rows]))]

    def sent_at(self, delivers: Integers, sends: Integers) -> Integers:
        """When each delivered message was sent, by its row or by the first ``send`` row of it; ``_NEVER``: not known."""
        at = np.where(self.has_sent[delivers], self.sent[delivers], _NEVER)
        if self.has_sent[delivers].all():
            return at
        width = int(self.seq.max(initial=0)) + 1
        keys, wanted = (self.sender.codes[rows] * width + self.seq[rows] for rows in (sends, delivers))
        first, is_known = look_up(keys, self.clock[sends], wanted)
        return np.where(is_known & ~self.has_sent[delivers], first, at)


def _of_group(columns: _Columns, group: str) -> Iterator[Standstill]:
    rows = columns.of_group(group)
    delivers = columns.in_order(rows["deliver"])
    waits = columns.sent_at(delivers, rows["send"])
    takes_part = {code for kind in ("deliver", "accept", "send") for code in columns.process.codes[rows[kind]].tolist()}
    for process in sorted(takes_part, key=lambda code: columns.process.names[code]):
        mine = columns.process.codes[delivers] == process
        found = _longest(columns, group, rows, process, delivers[mine], waits[mine])
        if found is not None:
            yield found


def _longest(
    columns: _Columns, group: str, rows: Mapping[str, Integers], process: int, delivers: Integers, waits: Integers
) -> Standstill | None:
    name = columns.process.names[process]
    own = (columns.sender.codes[delivers] == columns.sender.code(name)) & columns.has_seq[delivers]
    accepts = rows["accept"]
    accepts = columns.in_order(accepts[columns.process.codes[accepts] == process])
    waits = waits.copy()
    told = own & (columns.seq[delivers] >= 1) & (columns.seq[delivers] <= len(accepts))
    waits[told] = columns.clock[accepts[columns.seq[delivers][told] - 1]]
    found: list[Standstill] = []
    clock = columns.clock[delivers]
    if len(delivers):
        pending = np.minimum.accumulate(waits[::-1])[::-1]
        since = np.maximum(np.append(_BEFORE, clock[:-1]), pending)
        took = np.where(pending < _NEVER, clock - since, _BEFORE)
        at = int(np.argmax(took))
        if pending[at] < _NEVER:
            awaited = at + int(np.argmin(waits[at:]))
            sender = columns.sender.names[columns.sender.codes[delivers[awaited]]] if columns.sender.names else name
            ended = int(columns.index[delivers[at]])
            found.append(Standstill(name, group, min(int(since[at]), int(clock[at])), int(clock[at]), ended, sender))
    numbers, times = np.arange(1, len(accepts) + 1), columns.clock[accepts]
    if not len(accepts):
        sends = rows["send"]
        sends = sends[(columns.process.codes[sends] == process) & columns.has_seq[sends]]
        numbers, times = columns.seq[sends], columns.clock[sends]
    lacking = times[~np.isin(numbers, columns.seq[delivers[own]])]
    left = columns.process.codes[rows["leave"]] == process
    if len(lacking) and not left.any():
        begins = max(int(lacking.min()), int(clock.max(initial=_BEFORE)))
        last = int(columns.clock[columns.process.codes == process].max())
        found.append(Standstill(name, group, min(begins, last), last, None, name))
    return max(found, key=lambda each: each.length, default=None)
