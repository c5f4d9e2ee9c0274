"""Histories read back from certificates: the group and the sender of each message row of a process. A tape gives the senders of
one history in one group; the weave says how the history's groups alternate. Together they are the order of all its sends and
deliveries, a few bytes each. The sets of numbers (``evidence``) then tell which message each row is about.
"""

from __future__ import annotations

from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from .columns import Ints, Mask, small_type, stable_order, starts_of
from .evidence import Evidence
from .records import Moves, Slice, Tape

Small: TypeAlias = NDArray[Any]  # small unsigned integers


class Strand(NamedTuple):
    """The message rows of a history, in order."""

    groups: Small  # places in ``Woven.groups``
    senders: Small  # 0: a send of its own; else 1 + a place in ``Woven.senders``


class Numbered(NamedTuple):
    """Of one group and sender, the numbers of the messages that a history delivers, in order, and which of its deliveries these
    are."""

    group: str
    sender: str
    numbers: Ints
    places: Ints


class Woven:
    """The strands of all histories of a run."""

    def __init__(self, evidence: Evidence) -> None:
        self.groups: list[str] = evidence.facts.groups
        self._intervals = evidence.delivered
        self._numbered: dict[tuple[str, str | None], tuple[Ints, list[Numbered]]] = {}
        known = dict.fromkeys(name for part in evidence.slices for name in part.senders)
        self.senders: list[str] = list(known)
        self._groups = {name: place for place, name in enumerate(self.groups)}
        self._senders = {name: place for place, name in enumerate(self.senders)}
        self._kinds = small_type(len(self.groups)), small_type(len(self.senders) + 1)
        self._pieces: dict[str, list[tuple[int, Strand]]] = {}
        self._moves: dict[str, dict[int, Moves]] = {}  # by process, then by the index at which a piece begins
        self._stops: dict[str, list[tuple[int, int, int]]] = {}
        for part in evidence.slices:
            self._add(part)

    def _add(self, part: Slice) -> None:
        groups = np.array([self._groups.get(name, 0) for name in part.groups], self._kinds[0])
        senders = np.array([0, *(self._senders[name] + 1 for name in part.senders)], self._kinds[1])
        places = {name: place for place, name in enumerate(part.groups)}
        begins = {extent.process: extent.first for extent in part.extents}
        weaves = {weave.process: weave.codes for weave in part.weaves}
        tapes: dict[str, dict[str, list[Tape]]] = {}
        for tape in part.tapes:
            tapes.setdefault(tape.process, {}).setdefault(tape.group, []).append(tape)
        for process, by_group in tapes.items():
            codes = {places[group]: np.concatenate([tape.codes for tape in own]) for group, own in by_group.items()}
            weave = weaves.get(process)
            if weave is None:
                only, own_codes = next(iter(codes.items()))
                strand = Strand(np.full(len(own_codes), groups[only]), senders[own_codes])
            else:
                joined = np.empty(len(weave), self._kinds[1])
                for place, own_codes in codes.items():
                    joined[weave == place] = senders[own_codes]
                strand = Strand(groups[weave], joined)
            self._pieces.setdefault(process, []).append((begins[process], strand))
        for moves in part.moves:
            self._moves.setdefault(moves.process, {})[begins[moves.process]] = moves
        for process, at, before in part.stops:
            self._stops.setdefault(process, []).append((begins[process], at, before))

    def own_code(self, process: str) -> int:
        """The code of a process as a sender, in others' strands and its own; 0 if it has none."""
        return self._senders[process] + 1 if process in self._senders else 0

    def strand(self, process: str, group: str | None = None) -> Strand:
        """All of a history, or what it has of one group."""
        strand = self._joined(process)
        if group is None:
            return strand
        kept = strand.groups == self._groups[group]
        return Strand(strand.groups[kept], strand.senders[kept])

    def _joined(self, process: str) -> Strand:
        pieces = [piece for _, piece in sorted(self._pieces.get(process, ()), key=lambda piece: piece[0])]
        if len(pieces) == 1:
            return pieces[0]
        if not pieces:
            return Strand(np.empty(0, self._kinds[0]), np.empty(0, self._kinds[1]))
        return Strand(np.concatenate([piece.groups for piece in pieces]), np.concatenate([piece.senders for piece in pieces]))

    def numbered(self, process: str, group: str | None = None) -> tuple[Ints, list[Numbered]]:
        """Where in a strand its deliveries stand, and which messages they are."""
        if (process, group) not in self._numbered:
            self._numbered[process, group] = self._number(process, self.strand(process, group))
        return self._numbered[process, group]

    def _number(self, process: str, strand: Strand) -> tuple[Ints, list[Numbered]]:
        at = np.flatnonzero(strand.senders)
        if not len(at):
            return at, []
        width = len(self.senders) + 1
        keys = strand.groups[at].astype(np.int64) * width + strand.senders[at]
        order = stable_order(keys, width * len(self.groups))
        keys = keys[order]
        starts = starts_of(keys[1:] != keys[:-1])
        found: list[Numbered] = []
        for key, first, last in zip(keys[starts].tolist(), starts.tolist(), [*starts[1:].tolist(), len(at)], strict=True):
            group, sender = self.groups[key // width], self.senders[key % width - 1]
            ranges = [np.arange(each.low, each.high + 1) for each in self._intervals[process, group][sender]]
            numbers = ranges[0] if len(ranges) == 1 else np.concatenate(ranges)
            found.append(Numbered(group, sender, numbers, order[first:last]))
        return at, found

    def stretches(self, process: str) -> list[tuple[str, int]]:
        """The groups of a history's deliveries, in order, each with the length of its stretch."""
        strand = self.strand(process)
        groups = strand.groups[strand.senders != 0]
        if not len(groups):
            return []
        starts = starts_of(groups[1:] != groups[:-1])
        sizes = np.diff(np.append(starts, len(groups))).tolist()
        return [(self.groups[group], size) for group, size in zip(groups[starts].tolist(), sizes, strict=True)]

    def moved(self, process: str) -> Mask:
        """At which rows of a strand the clock may have moved on since the row before."""
        known = self._moves.get(process, {})
        found: list[Mask] = [np.zeros(0, np.bool_)]
        before: Moves | None = None
        for begin, piece in sorted(self._pieces.get(process, ()), key=lambda piece: piece[0]):
            moves = known.get(begin)
            if moves is None:
                found.append(np.ones(len(piece.groups), np.bool_))
            else:
                found.append(np.unpackbits(moves.bits, count=len(piece.groups)).astype(np.bool_))
                if before is not None and before.last is not None and before.last == moves.first:
                    found[-1][0] = False
            before = moves
        return np.concatenate(found)

    def stops(self, process: str) -> dict[int, int]:
        """By index of each ``block`` row about a message: how many rows of the strand come before it."""
        begins = sorted((begin, len(piece.groups)) for begin, piece in self._pieces.get(process, ()))
        return {
            at: before + sum(size for begin, size in begins if begin < first)
            for first, at, before in self._stops.get(process, ())
        }
