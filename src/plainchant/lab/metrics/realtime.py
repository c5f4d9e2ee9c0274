"""Real time in metrics: deliveries against their deadlines, and the token's way round. The definitions in NumPy.

*Due* is a message with a deadline at a destination: each delivery of it, and each member of the view it was sent in that has a
row at its deadline or later and never delivers it. Messages of senders that crash are left out: no protocol guarantees them. A
deadline in a ``deliver`` row is on that row's own clock; one in the ``send`` row is carried over by the global clock, or, where
one of the two rows has none, taken as it is (as the property ``deadline`` does it).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from ..arrays import NOTHING, Flags, Integers
from .samples import Sample
from .schema import ratio

Moment = tuple[int, int | None]
"""A row's own time and its global one."""


class Moments(NamedTuple):
    """The times of some rows, and the global ones (0: it has none)."""

    time: Integers
    true_time: Integers
    has_true: Flags

    def at(self, rows: Any) -> Moments:
        return Moments(self.time[rows], self.true_time[rows], self.has_true[rows])

    def one(self, row: int) -> Moment:
        return int(self.time[row]), int(self.true_time[row]) if self.has_true[row] else None

    @property
    def clock(self) -> Integers:
        return np.where(self.has_true, self.true_time, self.time)


def between(ones: Moments, others: Moments) -> Integers:
    both = ones.has_true & others.has_true
    return np.where(both, others.true_time - ones.true_time, others.time - ones.time)


class Turns(NamedTuple):
    """A piece of a member's history, as far as the token goes: whether it begins and ends with a turn, and when that was."""

    first: Moment | None
    last: Moment | None


def rotations(clocks: Moments, is_turn: Flags) -> tuple[Turns, Integers]:
    """The ends of a piece of a member's history, given its tokens, views and leaves in order, and how long each way of the token
    round took in it: from a turn to the next one, without a view or a leave between."""
    whole = np.flatnonzero(is_turn[1:] & is_turn[:-1])
    ends = (clocks.one(at) if is_turn[at] else None for at in (0, -1))
    return Turns(*ends), between(clocks.at(whole), clocks.at(whole + 1))


def across(pieces: Sequence[Turns]) -> list[int]:
    """The ways round that begin in one piece of a history and end in the next."""
    found = []
    for one, other in pairwise(pieces):
        if one.last is not None and other.first is not None:
            known = one.last[1] is not None and other.first[1] is not None
            found.append((other.first[1] or 0) - (one.last[1] or 0) if known else other.first[0] - one.last[0])
    return found


class Sends(NamedTuple):
    """Sends with deadlines of one sender in a group, in order."""

    place: Integers  # indices
    seq: Integers
    due: Integers
    moments: Moments


class Received(NamedTuple):
    """Deliveries of messages of one sender at one process; ``dated``: those that bring a deadline of their own."""

    seq: Integers
    dated: Flags
    moments: Moments


class Ends(NamedTuple):
    """The latest times of a process's rows; None: none of them has a global one."""

    time: int
    true_time: int | None
    clock: int


@dataclasses.dataclass(frozen=True, slots=True)
class Lateness:
    """How much after their deadlines messages of a group were delivered (negative: before), and how many never were."""

    values: Sequence[Sample]
    missing: int

    def counts(self) -> dict[str, Any]:
        """Messages with deadlines at their destinations, and those that missed them; nothing is known where there are none."""
        due = sum(each.total for each in self.values) + self.missing
        missed = sum(each.positive for each in self.values) + self.missing
        return {"due": due or None, "missed": missed if due else None, "miss_ratio": ratio(missed, due)}


def lateness(
    sends: Mapping[str, Sends],
    received: Mapping[tuple[str, str], Received],
    views: Mapping[str, Sequence[tuple[int, Sequence[str]]]],
    ends: Mapping[str, Ends],
) -> Lateness:
    """What became of messages with deadlines in ``send`` rows of a group, given its sends by sender, its deliveries by process
    and sender, the views of each process (index and members), and when histories end."""
    values: list[Integers] = []
    missing = 0
    for sender, every in sends.items():
        firsts = np.unique(every.seq, return_index=True)[1]  # the first of a number, and in their order
        mine = Sends(every.place[firsts], every.seq[firsts], every.due[firsts], every.moments.at(firsts))
        theirs = {process: each for (process, of), each in received.items() if of == sender}
        values += [_since_deadline(mine, each) for each in theirs.values()]
        missing += _missing(mine, theirs, views.get(sender, ()), ends)
    return Lateness([Sample.of(each) for each in values if len(each)], missing)


def _since_deadline(sends: Sends, received: Received) -> Integers:
    wanted = np.flatnonzero(~received.dated)
    places = np.searchsorted(sends.seq, received.seq[wanted])
    found = places < len(sends.seq)
    found[found] = sends.seq[places[found]] == received.seq[wanted[found]]
    sent = places[found]
    took = between(sends.moments.at(sent), received.moments.at(wanted[found]))
    return took - (sends.due[sent] - sends.moments.time[sent])


def _missing(
    sends: Sends,
    received: Mapping[str, Received],
    views: Sequence[tuple[int, Sequence[str]]],
    ends: Mapping[str, Ends],
) -> int:
    """Members of the views in which a process sent that had a row at the deadline or later and never delivered."""
    segment = np.searchsorted(np.array([index for index, _ in views], np.int64), sends.place, side="left") - 1
    count = 0
    for place in np.unique(segment[segment >= 0]).tolist():
        sent = np.flatnonzero(segment == place)
        for name in set(views[place][1]) & ends.keys():
            there = received[name].seq if name in received else NOTHING
            lacking = sent[~np.isin(sends.seq[sent], there)]
            count += int(_is_there(ends[name], sends, lacking).sum())
    return count


def _is_there(end: Ends, sends: Sends, which: Integers) -> Flags:
    """Whether a process has a row at the deadline of each of these messages, or later."""
    moments = sends.moments.at(which)
    by_true = moments.has_true & (end.true_time is not None)
    due = sends.due[which] - np.where(by_true, moments.time - moments.true_time, 0)
    there: Flags = np.where(by_true, end.true_time or 0, end.time) >= due
    return there
