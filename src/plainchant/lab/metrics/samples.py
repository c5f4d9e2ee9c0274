"""Many times of one kind, of which percentiles are told: exactly while they are few, rounded where they are many.

A :class:`Sample` is made of the rows of a piece of a run and merged with those of the other pieces. Below ``EXACT_BELOW``
values percentiles are exact. From there on each value is rounded to ``BITS`` significant bits, which leaves a few thousand
different ones however many there are. A value is rounded by itself, so the percentile does not depend on how rows were shared
out among tasks, and it differs from the exact one by at most ``ERROR`` of a value. Counts, least and largest values are
always exact.
"""

from __future__ import annotations

import dataclasses
import io
import pickle
from collections.abc import Iterable, Sequence
from itertools import zip_longest
from typing import Any, Final

import numpy as np

from ..arrays import Integers, percentile
from .schema import PERCENTS, spread_of

EXACT_BELOW: Final = 1_000_000  # values of a group
BITS: Final = 10
ERROR: Final = 2.0**-BITS
"""How far a rounded value is from the true one at most, as a share of it."""
_FEW: Final = 4_096  # a shipped sample of this many values is rounded where it is merged


@dataclasses.dataclass(frozen=True, slots=True)
class Sample:
    """Some values. A shipped sample has them as bytes, and beside them, if they are many, rounded."""

    total: int
    least: int
    most: int
    exact: tuple[Integers, Integers | None] | bytes | None  # values and how often each occurs (None: once)
    rough: tuple[Integers, Integers] | None = None

    @classmethod
    def of(cls, values: Integers) -> Sample:
        return cls(len(values), int(values.min()), int(values.max()), (values, None))

    def shipped(self) -> Sample:
        """The same in fewer bytes."""
        if not isinstance(self.exact, tuple):
            return self
        values, counts = np.unique(self.exact[0], return_counts=True)
        once = None if len(values) == self.total else counts
        exact = None if self.total >= EXACT_BELOW else to_bytes((values, once))
        rough = _counted(rounded(values), counts) if len(values) > _FEW or exact is None else None
        return dataclasses.replace(self, exact=exact, rough=rough)

    def counted(self, *, exactly: bool) -> tuple[Integers, Integers | None]:
        if not exactly and self.rough is not None:
            return self.rough
        assert self.exact is not None, "a sample without its values is one of very many"
        values, counts = from_bytes(self.exact) if isinstance(self.exact, bytes) else self.exact
        if exactly:
            return values, counts
        return _counted(rounded(values), np.ones(len(values), np.int64) if counts is None else counts)

    @property
    def positive(self) -> int:
        """How many values are above 0; rounding does not change that."""
        values, counts = self.counted(exactly=self.exact is not None)
        return int((values > 0).sum() if counts is None else counts[values > 0].sum())

    def values(self) -> Integers:
        """Every value, as often as it occurs."""
        values, counts = self.counted(exactly=self.exact is not None)
        return values if counts is None else np.repeat(values, counts)


def rounded(values: Integers) -> Integers:
    """Each value in ``BITS`` significant bits: the middle of those that begin with them.

    >>> rounded(np.array([7, 1023, 100_000, 100_001, -5_000_000])).tolist()
    [7, 1023, 100032, 100032, -5001216]
    """
    size = np.abs(values)
    shift = np.frexp((size >> BITS).astype(np.float64))[1].astype(np.int64)  # the bits beyond the first ones
    middle = (size >> shift << shift) + (np.left_shift(1, shift) >> 1)
    return np.where(values < 0, -middle, middle)


def spread(
    name: str, samples: Iterable[Sample], percents: Sequence[int] = PERCENTS, less: Sequence[int] | None = None
) -> dict[str, int | None]:
    """Percentiles of the values of some samples, and the largest. ``less`` is taken off the values of each sample, of which it
    is at most the least one."""
    some = [(sample, off) for sample, off in zip_longest(samples, less or (), fillvalue=0) if isinstance(sample, Sample)]
    if not some:
        return dict.fromkeys(spread_of(name, percents))
    exactly = sum(sample.total for sample, _ in some) < EXACT_BELOW
    least, most = min(sample.least - off for sample, off in some), max(sample.most - off for sample, off in some)
    parts = [sample.counted(exactly=exactly) for sample, _ in some]
    values = np.concatenate([values - off if off else values for (values, _), (_, off) in zip(parts, some, strict=True)])
    if all(counts is None for _, counts in parts):
        values.sort()
        found = [percentile(values, percent) for percent in percents]
    else:
        counts = np.concatenate([np.ones(len(each), np.int64) if of is None else of for each, of in parts])
        order = np.argsort(values, kind="stable")
        found = _weighted(values[order], np.cumsum(counts[order]), percents)
    return dict(zip(spread_of(name, percents), [*(min(max(each, least), most) for each in found), most], strict=True))


def _weighted(ordered: Integers, ends: Integers, percents: Sequence[int]) -> list[int]:
    """The percentiles of values in ascending order that occur more than once; ``ends``: how many there are up to each."""
    found = []
    for percent in percents:
        place = (int(ends[-1]) - 1) * percent // 100
        near = np.minimum(np.searchsorted(ends, [place, place + 1], side="right"), len(ordered) - 1)
        rest = (int(ends[-1]) - 1) * percent % 100
        low, high = (int(ordered[at]) for at in near)
        found.append(low + (high - low) * rest // 100)
    return found


def _counted(values: Integers, counts: Integers) -> tuple[Integers, Integers]:
    """Each value once, and how often it occurs."""
    different, at = np.unique(values, return_inverse=True)
    return different, np.bincount(at, weights=counts, minlength=len(different)).astype(np.int64)


def to_bytes(value: object) -> bytes:
    """Pickled; of arrays of integers the differences, in as few bytes as they need."""
    sink = io.BytesIO()
    _Pickler(sink, protocol=5).dump(value)
    return sink.getvalue()


from_bytes: Final = pickle.loads

_LEAST_PACKED: Final = 16
_NARROW: Final[tuple[type[np.signedinteger[Any]], ...]] = (np.int8, np.int16, np.int32)


class _Pickler(pickle.Pickler):
    def reducer_override(self, value: Any) -> Any:
        if not isinstance(value, np.ndarray) or value.dtype != np.int64 or len(value) < _LEAST_PACKED:
            return NotImplemented
        steps = np.diff(value)  # wraps around where it must, and so does the sum
        low, high = int(steps.min()), int(steps.max())
        if low == high:
            return _evenly, (int(value[0]), low, len(value))
        for narrow in _NARROW:
            if np.iinfo(narrow).min <= low and high <= np.iinfo(narrow).max:
                return _unpacked, (int(value[0]), steps.astype(narrow))
        return NotImplemented


def _evenly(first: int, step: int, count: int) -> Integers:
    return np.arange(count, dtype=np.int64) * step + first


def _unpacked(first: int, steps: Any) -> Integers:
    values: Integers = np.empty(len(steps) + 1, np.int64)
    values[0] = first
    values[1:] = steps
    return np.cumsum(values, out=values)
