"""Distributions as bars: how often a value lies where."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from ...core.words import short
from ..draw.svg import Drawing, steps_between, width_of
from .overview import quantile

_WIDTH: Final = 520
_HEIGHT: Final = 190
_LEFT: Final = 52
_BOTTOM: Final = 34
_TOP: Final = 26
_BARS: Final = 32


@dataclasses.dataclass(frozen=True)
class Scale:
    """Edges of bars, even in the value or in its logarithm."""

    edges: tuple[float, ...]
    logarithmic: bool

    def place(self, value: float) -> float:
        """Where a value stands, from 0 to the number of bars."""
        low, high = self.edges[0], self.edges[-1]
        share = math.log(max(value, low) / low) / math.log(high / low) if self.logarithmic else (value - low) / (high - low)
        return min(max(share, 0.0), 1.0) * (len(self.edges) - 1)


def scale_for(counts: Mapping[int, int]) -> Scale:
    """Even in the logarithm if the largest value is far from the usual one, else even in the value.

    >>> scale_for({3: 2, 5: 1}).edges
    (3.0, 4.0, 5.0, 6.0)
    """
    low, high = min(counts), max(counts)
    if low > 0 and high > 25 * quantile(counts, 0.5):
        first, last = math.log(low), math.log(high * 1.001)
        return Scale(tuple(math.exp(first + (last - first) * each / _BARS) for each in range(_BARS + 1)), True)
    if high - low < _BARS:
        return Scale(tuple(float(each) for each in range(low, high + 2)), False)
    step = (high - low) / _BARS
    return Scale((*(low + step * each for each in range(_BARS)), high * 1.0 + step * 0.001), False)


def histogram(counts: Mapping[int, int], title: str, *, told: Callable[[float], str], what: str) -> str:
    """How often a value occurs, as bars, with the median, the 90th and the 99th percentile marked."""
    scale = scale_for(counts)
    bars = [0] * (len(scale.edges) - 1)
    for each, many in counts.items():
        bars[min(int(scale.place(each)), len(bars) - 1)] += many
    picture = Drawing(_WIDTH, _HEIGHT, f"{title}: {summary(counts, told)}")
    most = max(bars)
    inner, tall = _WIDTH - _LEFT - 14, _HEIGHT - _BOTTOM - _TOP
    one = inner / len(bars)
    floor = _HEIGHT - _BOTTOM
    for value in steps_between(0, most, 3):
        y = floor - tall * value / most
        picture.line(_LEFT, y, _WIDTH - 14, y, "grid")
        picture.text(_LEFT - 6, y + 4, compact(value), "tick right")
    for number, many in enumerate(bars):
        if many:
            tall_here = max(tall * many / most, 1)
            here = f"{told(scale.edges[number])} to {told(scale.edges[number + 1])}: {many:,} {what}"
            picture.box(_LEFT + one * number + 0.5, floor - tall_here, one - 1, tall_here, "bar", title=here)
    aside = 0.5 if scale.edges[1] - scale.edges[0] == 1 else 0
    places = [(_LEFT + one * (scale.place(value) + aside), told(value)) for value in _ticks(scale)]
    fitting = [(x, text) for x, text in places if x + width_of(text) / 2 < _WIDTH]
    picture.axis(_LEFT, _WIDTH - 14, floor, fitting, apart=6)
    free = -1.0
    for name, share in (("p50", 0.5), ("p90", 0.9), ("p99", 0.99)):
        x = _LEFT + one * (scale.place(quantile(counts, share)) + aside)
        picture.line(x, _TOP - 8, x, floor, "quantile", title=f"{name}: {told(quantile(counts, share))}")
        if x - width_of(name) / 2 > free:
            picture.text(x, _TOP - 12, name, "tick")
            free = x + width_of(name) / 2 + 4
    return str(picture)


def _ticks(scale: Scale) -> list[float]:
    low, high = scale.edges[0], scale.edges[-1]
    if not scale.logarithmic:
        return [value for value in steps_between(low, high, 5) if low <= value <= high]
    values = (factor * 10.0**power for power in range(math.floor(math.log10(low)), 20) for factor in (1, 2, 5))
    return [value for value in values if low <= value <= high]


def summary(counts: Mapping[int, int], told: Callable[[float], str]) -> str:
    """A distribution in a sentence."""
    shares = ", ".join(f"{share:.0%} are at most {told(quantile(counts, share))}" for share in (0.5, 0.9, 0.99))
    return f"{shares}; the least is {told(min(counts))}, the most {told(max(counts))}"


def bars(values: Sequence[tuple[str, int, int]], title: str, *, names: tuple[str, str]) -> str:
    """Two bars for each name, lying: how many of the one and of the other."""
    left, row = 84, 26
    picture = Drawing(_WIDTH, 30 + row * len(values), title)
    most = max((max(one, two) for _, one, two in values), default=1) or 1
    wide = _WIDTH - left - 70
    for number, (style, name) in enumerate(zip(("bar two", "bar"), names, strict=True)):
        x = left + 130 * number
        picture.box(x, 4, 12, 10, style)
        picture.text(x + 18, 13, name, "plain")
    for number, (name, one, two) in enumerate(values):
        y = 26 + row * number
        picture.text(left - 8, y + 13, short(name, 12), "plain right", title=name)
        for below, (many, style, what) in enumerate(((one, "bar two", names[0]), (two, "bar", names[1]))):
            long = wide * many / most
            picture.box(left, y + 10 * below, long, 9, style, title=f"{name}: {many:,} {what}")
            picture.text(left + long + 5, y + 8 + 10 * below, f"{many:,}", "tiny")
    return str(picture)


def even_axis(picture: Drawing, left: float, right: float, y: float, ticks: Iterable[tuple[float, str]]) -> None:
    """An axis with all its ticks; texts that would leave the picture are left out."""
    picture.line(left, y, right, y, "axis")
    for x, text in ticks:
        picture.line(x, y, x, y + 4, "axis")
        if x + width_of(text) / 2 < picture.width:
            picture.text(x, y + 17, text, "tick")


def compact(value: float) -> str:
    """A count on an axis.

    >>> compact(1500), compact(20), compact(2_000_000)
    ('1.5k', '20', '2M')
    """
    for sign, size in (("G", 1_000_000_000), ("M", 1_000_000), ("k", 1_000)):
        if value >= size:
            return f"{value / size:.3g}{sign}"
    return f"{value:.3g}"
