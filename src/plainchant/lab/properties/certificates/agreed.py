"""What all rows about a message must agree on (its digest, its rank), compared within a unit and hashed for the others."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence, Set
from itertools import pairwise
from types import MappingProxyType
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .columns import Ints, Mask, starts_of
from .shared import Shared

BLOCK: Final = 256  # messages of a sender that are hashed together
TOGETHER: Final = 64  # blocks whose hashes slices share
_SIZE: Final = 16  # bytes of a hash
_NEVER: Final = -(2**62)


class Blocks(NamedTuple):
    """What rows say of messages ``low`` on of one sender: hashes of whole blocks by number, values of the others, and of some
    whole ones too."""

    attribute: str
    group: str
    sender: str
    whole: dict[int, bytes]
    parts: dict[int, tuple[NDArray[np.int64], NDArray[np.int64]]]  # block to the numbers of its messages and their values
    together: Mapping[int, Shared] = MappingProxyType({})  # hashes of ``TOGETHER`` whole blocks that follow each other

    def put_together(self) -> Blocks:
        """Hashes of successive blocks in one, where they are all there, for slices to share."""
        whole, together = dict(self.whole), dict[int, Shared]()
        for number in sorted({block // TOGETHER for block in whole}):
            mine = range(number * TOGETHER, (number + 1) * TOGETHER)
            if all(block in whole for block in mine):
                together[number] = Shared(b"".join(whole.pop(block) for block in mine))
        return self._replace(whole=whole, together=together)


def taken_apart(number: int, together: Shared) -> dict[int, bytes]:
    """The blocks whose hashes were put together."""
    content, first = together.content, number * TOGETHER
    return {first + place: content[_SIZE * place : _SIZE * (place + 1)] for place in range(TOGETHER)}


class Agreed:
    """What rows say of each message: a value a message, and which rows say another.

    Messages are put into one array, by (run, group, sender) and number, where a sender's numbers lie close together. Where they
    do not, because a unit has the end of one history and the beginning of the next, or numbers are forged, they are sorted
    instead."""

    def __init__(self, name: str, key: Ints, seqs: Ints, values: Ints, is_send: Mask) -> None:
        self.name = name
        self.differing: Ints = np.zeros(0, np.int64)
        self.keys: Ints = np.zeros(0, np.int64)
        self._far: dict[int, tuple[Ints, Ints]] = {}  # by key: numbers, in order, and values
        if not len(key):
            return
        size = int(key.max()) + 1
        if size > 4 * len(key) + 65_536:
            self.keys, key = np.unique(key, return_inverse=True)
            size = len(self.keys)
        else:
            self.keys = np.arange(size)
        low, high = np.full(size, 2**62), np.full(size, _NEVER)
        np.minimum.at(low, key, seqs)
        np.maximum.at(high, key, seqs)
        counts = np.bincount(key, minlength=size)
        wide = (high - low) > 4 * counts + 64
        use = np.arange(len(key))
        if wide.any():
            far = np.flatnonzero(wide[key])
            self.differing = far[self._sort(key[far], seqs[far], values[far], is_send[far])]
            use = np.flatnonzero(~wide[key])
            counts[wide] = 0
            key, seqs, values, is_send = key[use], seqs[use], values[use], is_send[use]
        self.width: Ints = np.where(counts > 0, high - low + 1, 0)
        self.base: Ints = np.cumsum(self.width) - self.width
        self.low: Ints = low
        self.values: Ints = np.zeros(int(self.width.sum()), np.int64)
        self.there: Mask = np.zeros(len(self.values), np.bool_)
        at = self.base[key] + seqs - low[key]
        self.values[at] = values
        self.values[at[is_send]] = values[is_send]
        self.there[at] = True
        self.differing = np.concatenate([self.differing, use[self.values[at] != values]])

    def _sort(self, key: Ints, seqs: Ints, values: Ints, is_send: Mask) -> Ints:
        """Keeps numbers and values of messages that lie apart; returns the rows that differ from the one kept."""
        order = np.lexsort((~is_send, seqs, key))
        starts = starts_of(np.diff(key[order]) != 0, np.diff(seqs[order]) != 0)
        sizes = np.diff(np.append(starts, len(order)))
        kept = order[starts]
        edges = starts_of(np.diff(key[kept]) != 0)
        for a, b in pairwise([*edges.tolist(), len(kept)]):
            self._far[int(key[kept[a]])] = seqs[kept[a:b]], values[kept[a:b]]
        differing: Ints = order[values[order] != np.repeat(values[kept], sizes)]
        return differing

    def blocks(
        self,
        run: int,
        groups: int,
        senders: int,
        names: tuple[Sequence[str], Sequence[str]],
        torn: Mapping[int, Set[int]] = MappingProxyType({}),
    ) -> list[Blocks]:
        """What is known of a run's messages, in blocks; keys count runs, groups and senders, whose names these are. ``torn``:
        blocks that may be broken off elsewhere, by key; of those the values are given as well."""
        per_run = groups * senders
        low, high = np.searchsorted(self.keys, (run * per_run, (run + 1) * per_run)).tolist()
        found = []
        for place in range(low, high):
            mine = torn.get(int(self.keys[place]), frozenset())
            if place in self._far:
                whole, parts = _hash(*self._far[place], mine)
            elif self.width[place]:
                at = slice(int(self.base[place]), int(self.base[place] + self.width[place]))
                there = self.there[at]
                numbers = np.arange(self.low[place], self.low[place] + self.width[place])
                whole, parts = _hash(numbers[there], self.values[at][there], mine)
            else:
                continue
            group, sender = divmod(int(self.keys[place]) - run * per_run, senders)
            found.append(Blocks(self.name, names[0][group], names[1][sender], whole, parts))
        return found


def _hash(numbers: Ints, values: Ints, torn: Set[int]) -> tuple[dict[int, bytes], dict[int, tuple[Ints, Ints]]]:
    """Values of messages in the order of their numbers, block by block."""
    whole: dict[int, bytes] = {}
    parts: dict[int, tuple[Ints, Ints]] = {}
    blocks = numbers // BLOCK
    edges = starts_of(np.diff(blocks) != 0)
    for a, b in pairwise([*edges.tolist(), len(numbers)]):
        if b - a == BLOCK:
            whole[int(blocks[a])] = hash_block(values[a:b])
        if b - a < BLOCK or int(blocks[a]) in torn:
            parts[int(blocks[a])] = numbers[a:b], values[a:b]
    return whole, parts


def hash_block(values: Ints) -> bytes:
    """A cryptographic hash of a block's values, so that equal means equal."""
    return hashlib.blake2b(np.ascontiguousarray(values).tobytes(), digest_size=_SIZE).digest()
