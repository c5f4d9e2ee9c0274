"""Decisions out of bytes: the same bytes make the same decisions, whoever found them."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import TypeVar

T = TypeVar("T")

BYTES = 4096
"""Bytes of decisions that a seed makes."""


class Dice:
    """Reads decisions off bytes; when they are used up everything is the first choice."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    @property
    def is_over(self) -> bool:
        return self._at >= len(self._data)

    def pick(self, choices: int) -> int:
        """A number below ``choices``."""
        if choices <= 1:
            return 0
        size = (max(1, (choices - 1).bit_length()) + 7) // 8
        taken = self._data[self._at : self._at + size]
        self._at += size
        return int.from_bytes(taken, "big") % choices

    def choose(self, choices: Sequence[T]) -> T:
        return choices[self.pick(len(choices))]

    def chance(self, one_in: int) -> bool:
        """True once in so many times; False when the bytes are used up."""
        return self.pick(one_in) == one_in - 1

    def some_bytes(self, most: int) -> bytes:
        length = self.pick(most + 1)
        taken = self._data[self._at : self._at + length]
        self._at += length
        return taken


def dice_of(seed: int | str) -> Dice:
    return Dice(Random(f"fuzz {seed}").randbytes(BYTES))
