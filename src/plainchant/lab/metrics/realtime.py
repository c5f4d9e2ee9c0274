"""Real time in metrics: deliveries against their deadlines, and the token's way round. The definitions in NumPy.

*Due* is a message with a deadline at a destination: each delivery of it, and each member of the view it was sent in that has a
row at its deadline or later and never delivers it. Messages of senders that crash are left out: no protocol guarantees them. A
deadline in a ``deliver`` row is on that row's own clock; one in the ``send`` row is carried over by the global clock, or, where
one of the two rows has none, taken as it is (as the property ``deadline`` does it).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from ..arrays import NOTHING, Coded, Flags, Integers, integers, nullable
from .schema import ratio


@dataclasses.dataclass(frozen=True, slots=True)
class Lateness:
    """How much after their deadlines messages of a group were delivered (negative: before), and who never got theirs."""

    values: Integers
    missing: int

    def counts(self) -> dict[str, Any]:
        """Messages with deadlines at their destinations, and those that missed them; nothing is known where there are none."""
        due, missed = len(self.values) + self.missing, int((self.values > 0).sum()) + self.missing
        return {"due": due or None, "missed": missed if due else None, "miss_ratio": ratio(missed, due)}


class Times:
    """The clocks of one run's rows, and what they say of deadlines and tokens."""

    def __init__(self, table: pa.Table, kind: Mapping[str, Integers], process: Coded, sender: Coded, seq: Integers) -> None:
        self._table = table
        self._process = process
        self._sender = sender
        self._seq = seq
        self._index = integers(table.column("index"))
        self._time = integers(table.column("time"))
        self._true, self._has_true = nullable(table.column("true_time"))
        self._due, self._has_due = nullable(table.column("deadline"))
        crashed = {process.names[code] for code in process.codes[kind.get("crash", NOTHING)].tolist()}
        self._is_safe: Flags = np.array([name not in crashed for name in sender.names] + [False], np.bool_)
        """By sender: it does not crash."""
        self._lasts = self._last_clocks()

    def _last_clocks(self) -> tuple[Integers, Integers, Flags]:
        """By process: the latest time of its rows, the latest global time, and whether it has one."""
        count = len(self._process.names)
        low = np.iinfo(np.int64).min
        times, true_times = np.full(count, low), np.full(count, low)
        np.maximum.at(times, self._process.codes, self._time)
        np.maximum.at(true_times, self._process.codes[self._has_true], self._true[self._has_true])
        return times, true_times, true_times > low

    def rotations(self, rows: Mapping[str, Integers]) -> Integers:
        """How long each way of the token round took: from a turn of a process to its next, without a view or a leave between."""
        tokens = rows.get("token", NOTHING)
        if len(tokens) < 2:
            return NOTHING
        places = self._in_order(np.concatenate([tokens, rows.get("view", NOTHING), rows.get("leave", NOTHING)]))
        is_turn = np.isin(places, tokens)
        owner = self._process.codes[places]
        whole = is_turn[1:] & is_turn[:-1] & (owner[1:] == owner[:-1])
        return self._between(places[:-1][whole], places[1:][whole])

    def _between(self, ones: Integers, others: Integers) -> Integers:
        both = self._has_true[ones] & self._has_true[others]
        return np.where(both, self._true[others] - self._true[ones], self._time[others] - self._time[ones])

    def _in_order(self, rows: Integers) -> Integers:
        return rows[np.lexsort((self._index[rows], self._process.codes[rows]))]

    def lateness(self, rows: Mapping[str, Integers]) -> Lateness:
        """What became of the messages with deadlines of a group."""
        sends = rows.get("send", NOTHING)
        sends = self._in_order(sends[self._has_due[sends] & self._is_safe[self._sender.codes[sends]]])
        delivers = rows.get("deliver", NOTHING)
        delivers = delivers[self._is_safe[self._sender.codes[delivers]]]
        own = delivers[self._has_due[delivers]]
        values = [self._time[own] - self._due[own]]
        missing = 0
        for sender in np.unique(self._sender.codes[sends]).tolist():
            mine = sends[self._sender.codes[sends] == sender]
            mine = mine[np.unique(self._seq[mine], return_index=True)[1]]  # the first of a number, and in their order
            received = delivers[self._sender.codes[delivers] == sender]
            values.append(self._since_deadline(mine, received[~self._has_due[received]]))
            missing += self._missing(mine, received, rows.get("view", NOTHING))
        return Lateness(np.concatenate(values), missing)

    def _since_deadline(self, sends: Integers, delivers: Integers) -> Integers:
        places = np.searchsorted(self._seq[sends], self._seq[delivers])
        found = places < len(sends)
        found[found] = self._seq[sends[places[found]]] == self._seq[delivers[found]]
        sent = sends[places[found]]
        late: Integers = self._between(sent, delivers[found]) - (self._due[sent] - self._time[sent])
        return late

    def _missing(self, sends: Integers, delivers: Integers, views: Integers) -> int:
        """Members of the views in which a process sent that were still there at the deadline and never delivered."""
        views = self._in_order(views[self._process.codes[views] == self._process.codes[sends[0]]])
        members = self._table.column("members").take(pa.array(views)).to_pylist()
        segment = np.searchsorted(self._index[views], self._index[sends], side="left") - 1
        count = 0
        for place in np.unique(segment[segment >= 0]).tolist():
            sent = sends[segment == place]
            for name in set(members[place] or ()) & set(self._process.names):
                member = self._process.names.index(name)
                there = self._seq[delivers[self._process.codes[delivers] == member]]
                count += int((~np.isin(self._seq[sent], there) & self._is_there(member, sent)).sum())
        return count

    def _is_there(self, member: int, sends: Integers) -> Flags:
        """Whether a process has a row at the deadline of each of these messages, or later."""
        times, true_times, known = self._lasts
        by_true = self._has_true[sends] & known[member]
        due = self._due[sends] - np.where(by_true, self._time[sends] - self._true[sends], 0)
        there: Flags = np.where(by_true, true_times[member], times[member]) >= due
        return there
