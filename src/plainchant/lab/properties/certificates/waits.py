"""Certificates of ``progress``: when messages of a unit were accepted and sent, and where deliveries pause.

A wait is judged from when a message is accepted, or from when its predecessor is delivered, whichever is later. So only
deliveries after a pause, which are few, have to be compared with the time of their ``accept``. A pause is longer than a
*quantum*: the bound that the run states, where the unit knows it; else a small part of the time that the unit covers, so that
there are at most ``QUANTA`` pauses for each sender and receiver.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Final

import msgspec
import numpy as np

from .columns import Ints, Rows, starts_of
from .records import Calls, Handed, Steps, Waits

QUANTA: Final = 4096  # quanta in the time that a run's rows of a unit cover

_GOLDEN: Final = np.int64(-0x61C8864680B583EB)
_NO_DIGEST: Final = np.int64(0x2545F4914F6CDD1D)


def stated_bound(detail: str | None) -> int:
    """The time that a ``start`` row states for ``progress``; 0: none."""
    try:
        bound = msgspec.json.decode(detail or "{}")["bounds"]["progress"]
    except (msgspec.MsgspecError, KeyError, TypeError):
        return 0  # if it is malformed, its row is suspect
    return min(bound, 2**62) if isinstance(bound, int) else 0


class Waiting:
    """The waits of all runs of a unit."""

    def __init__(self, rows: Rows, place: Ints, deliveries: tuple[Ints, Ints], sends: Ints, bounds: Mapping[int, int]) -> None:
        """``place``: history and group of each row. ``deliveries``: their rows and keys, in the order of the keys. A key stands
        for a sender's deliveries in one view of a history. ``bounds``: of the runs whose bound is known."""
        self._rows = rows
        times, _ = rows.ints("time")
        true_times, there = rows.ints("true_time")
        self._at: Ints = true_times if there is None else np.where(there, true_times, times)
        self._quanta = self._quantum_of_runs()
        for run, bound in bounds.items():
            self._quanta[run] = bound
        sizes, has_size = rows.ints("size")
        self._sizes: Ints = sizes if has_size is None else np.where(has_size, sizes, -1)
        accepts = np.flatnonzero(rows.kind.equals("accept") & (rows.group.codes >= 0))
        self._largest = np.full(len(rows.run.values), -1, np.int64)
        for where in (accepts, sends, deliveries[0]):
            np.maximum.at(self._largest, rows.run.codes[where], self._sizes[where])
        self._handed = self._calls(place, accepts, sends)
        self._steps = self._pauses(*deliveries)

    def of(self, run: int) -> Waits:
        """What is known of a run, given its place among the unit's."""
        quantum, largest = int(self._quanta[run]), int(self._largest[run])
        return Waits(self._handed.get(run, []), self._steps.get(run, []), quantum, largest)

    def _quantum_of_runs(self) -> Ints:
        codes = self._rows.run.codes
        starts = starts_of(np.diff(codes) != 0)
        spans = np.maximum.reduceat(self._at, starts) - np.minimum.reduceat(self._at, starts)
        found = np.ones(len(self._rows.run.values), np.int64)
        found[codes[starts]] = np.maximum(1, spans // QUANTA)
        return found

    def _calls(self, place: Ints, accepts: Ints, sends: Ints) -> dict[int, list[Handed]]:
        rows = self._rows
        digests, has_digest = rows.ints("digest")
        contents = digests if has_digest is None else np.where(has_digest, digests, _NO_DIGEST)
        contents = contents + self._sizes * _GOLDEN
        found: dict[int, list[Handed]] = {}
        ordered = [where[np.argsort(place[where], kind="stable")] for where in (accepts, sends)]
        places = np.unique(place[np.concatenate(ordered)])
        bounds = [np.searchsorted(place[where], np.append(places, np.iinfo(np.int64).max)).tolist() for where in ordered]
        for number in range(len(places)):
            mine = [where[edges[number] : edges[number + 1]] for where, edges in zip(ordered, bounds, strict=True)]
            at = int((mine[0] if len(mine[0]) else mine[1])[0])
            calls = (Calls(rows.index[where], self._at[where], contents[where]) for where in mine)
            names = rows.process.values[rows.process.codes[at]], rows.group.values[rows.group.codes[at]]
            found.setdefault(int(rows.run.codes[at]), []).append(Handed(*names, (next(calls), next(calls))))
        return found

    def _pauses(self, where: Ints, keys: Ints) -> dict[int, list[Steps]]:
        rows = self._rows
        found: dict[int, list[Steps]] = {}
        if not len(where):
            return found
        times, numbers = self._at[where], rows.seq[where]
        changes = np.diff(keys) != 0
        pauses = np.diff(times) > self._quanta[rows.run.codes[where[1:]]]
        starts = starts_of(changes, np.diff(numbers) != 1, pauses)
        ends = np.append(starts[1:], len(where)) - 1
        columns = (numbers[starts], numbers[ends], times[starts], times[ends], rows.index[where[starts]])
        heads = starts_of(changes)
        latest = np.maximum.reduceat(times, heads).tolist()
        edges = [*np.searchsorted(starts, heads).tolist(), len(starts)]
        for at, most, (low, high) in zip(where[heads].tolist(), latest, pairwise(edges), strict=True):
            process, group, sender = (coded.values[coded.codes[at]] for coded in (rows.process, rows.group, rows.sender))
            first_numbers, lasts, begun, ended, indices = (column[low:high] for column in columns)
            first = int(rows.index[at])
            steps = Steps(process, group, sender, first, first_numbers, lasts, begun, ended, indices, most)
            found.setdefault(int(rows.run.codes[at]), []).append(steps)
        return found
