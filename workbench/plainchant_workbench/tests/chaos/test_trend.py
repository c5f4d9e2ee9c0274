"""The rule by which something grows: leaks of every shape are found, and what only looks like one is not."""

from __future__ import annotations

import math
from collections.abc import Callable
from random import Random

import pytest

from plainchant_workbench.chaos.trend import BLOCKS, FEWEST, Floor, mann_kendall, trend

MIB = 1 << 20
MEMORY = Floor(MIB, 0.02)


def series(shape: Callable[[float], float], noise: float = 0.0, count: int = 120, seed: int = 1) -> list[tuple[float, float]]:
    """Samples of a shape (of the share of the time that is over), one a second."""
    random = Random(seed)
    return [(float(t), shape(t / count) + random.gauss(0, noise)) for t in range(count)]


def grows(samples: list[tuple[float, float]], floor: Floor = MEMORY) -> bool:
    found = trend(samples, floor)
    assert found is not None
    return found.grows


LEAKS: dict[str, Callable[[float], float]] = {
    "steady": lambda t: (30 + 10 * t) * MIB,
    "in steps": lambda t: (30 + 2 * math.floor(5 * t)) * MIB,
    "faster and faster": lambda t: (30 + 8 * t**3) * MIB,
    "late": lambda t: (30 + 20 * max(0.0, t - 0.5)) * MIB,
    "under a wave": lambda t: (30 + 10 * t + 0.4 * math.sin(60 * t)) * MIB,
}


@pytest.mark.parametrize("shape", LEAKS.values(), ids=LEAKS.keys())
@pytest.mark.parametrize("noise", [0.0, 0.3 * MIB])
def test_a_leak_is_found(shape: Callable[[float], float], noise: float) -> None:
    assert grows(series(shape, noise))


HARMLESS: dict[str, Callable[[float], float]] = {
    "still": lambda t: 30 * MIB,
    "filled at the start": lambda t: (30 + 20 * min(1.0, 4 * t)) * MIB,
    "a wave": lambda t: (30 + 5 * math.sin(40 * t)) * MIB,
    "shrinks": lambda t: (40 - 10 * t) * MIB,
    "grows by less than matters": lambda t: (30 + 0.9 * t) * MIB,
    "one spike at the end": lambda t: (30 + (50 if t > 0.99 else 0)) * MIB,
    "a large process, a small growth": lambda t: (1000 + 20 * t) * MIB,
}


@pytest.mark.parametrize("shape", HARMLESS.values(), ids=HARMLESS.keys())
@pytest.mark.parametrize("noise", [0.0, 0.3 * MIB])
def test_what_is_no_leak_is_not_called_one(shape: Callable[[float], float], noise: float) -> None:
    assert not grows(series(shape, noise))


def test_noise_alone_is_hardly_ever_called_a_leak() -> None:
    """Even if every growth mattered: less than one series in a hundred."""
    flagged = sum(grows(series(lambda t: 100.0, 5.0, seed=seed), Floor(0)) for seed in range(300))
    assert flagged <= 3


def test_one_file_more_or_less_is_nothing_and_a_leak_of_files_is_something() -> None:
    floor = Floor(3)
    assert not grows([(t, 8 + t % 2) for t in range(100)], floor)
    assert not grows([(t, 8 + (t > 80)) for t in range(100)], floor)
    assert grows([(t, 8 + t // 10) for t in range(100)], floor)


def test_too_few_samples_say_nothing() -> None:
    leak = [(float(t), float(t)) for t in range(1000)]
    assert trend(leak[: 2 * FEWEST - 2], Floor(0)) is None
    assert trend(leak[: 2 * FEWEST], Floor(0)) is not None
    assert FEWEST >= BLOCKS
    assert trend([], Floor(0)) is None


def test_many_samples_take_no_longer_than_they_must() -> None:
    found = trend([(float(t), float(t)) for t in range(100_000)], Floor(0))
    assert found is not None
    assert found.samples == 50_000
    assert found.growth == pytest.approx(50_000, rel=0.01)


def test_the_statistic_by_hand() -> None:
    """Of six pairs five rise and one falls; the variance of four values is 4 * 3 * 13 / 18."""
    assert mann_kendall([1, 2, 4, 3]) == pytest.approx(3 / math.sqrt(4 * 3 * 13 / 18))
    assert mann_kendall([4, 3, 2, 1]) == -mann_kendall([1, 2, 3, 4])
    # Two of four are the same: Kendall's correction takes 2 * 1 * 9 / 18 off.
    assert mann_kendall([1, 1, 2, 3]) == pytest.approx(4 / math.sqrt((4 * 3 * 13 - 2 * 1 * 9) / 18))
