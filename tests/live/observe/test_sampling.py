"""Which messages are samples: few of many, all of few, and none of a rhythm's."""

from __future__ import annotations

from random import Random

from plainchant.live.observe.sampling import LATENCIES, PENDING, PER_TICK, Histogram, Pace


def taken(pace: Pace, first: int, messages: int) -> list[int]:
    """The samples among messages that are accepted one by one."""
    found = []
    for number in range(first, first + messages):
        if number >= pace.next and pace.take(number):
            found.append(number)
    return found


def test_where_there_are_few_messages_all_are_samples() -> None:
    pace = Pace(Random(1))
    accepted = 0
    for _ in range(20):
        assert taken(pace, accepted + 1, PER_TICK - 1) == [*range(accepted + 1, accepted + PER_TICK)]
        accepted += PER_TICK - 1
        pace.tick(accepted)


def test_of_many_messages_about_as_many_are_as_a_tick_may_have() -> None:
    pace = Pace(Random(1))
    numbers = []
    for tick in range(50):
        numbers.append(len(taken(pace, 1 + tick * 10_000, 10_000)))
        pace.tick((tick + 1) * 10_000)
    assert numbers[0] < 12 * PER_TICK  # a burst after a silence: the stride doubles
    assert PER_TICK / 2 < sum(numbers[1:]) / 49 < 2 * PER_TICK
    assert all(numbers)


def test_the_stride_goes_back_when_the_rate_does() -> None:
    pace = Pace(Random(1))
    taken(pace, 1, 100_000)
    pace.tick(100_000)
    assert pace.stride == 100_000 // PER_TICK
    pace.tick(100_000)
    assert pace.stride == 1
    assert pace.next <= 100_001


def test_samples_are_not_in_step_with_the_application() -> None:
    pace = Pace(Random(1))
    found: list[int] = []
    for tick in range(200):
        found += taken(pace, 1 + tick * 800, 800)
        pace.tick((tick + 1) * 800)
    # Not within a tick either.
    steady = Pace(Random(1))
    steady.tick(800)
    within = taken(steady, 801, 700)
    assert len({number % 100 for number in within}) > len(within) / 2
    rests = [sum(number % 10 == rest for number in found) for rest in range(10)]
    assert min(rests) > len(found) / 20


def test_samples_that_never_come_back_are_bounded() -> None:
    pace = Pace(Random(1))
    for number in range(1, 10_000):
        if number >= pace.next and pace.take(number):
            pace.pending += 1
        if number % 50 == 0:
            pace.tick(number)
    assert pace.pending == PENDING


def test_buckets_count_what_is_no_larger() -> None:
    histogram = Histogram(LATENCIES)
    for value in (*LATENCIES, 11.0, 0.0):
        histogram.add(value)
    assert histogram.buckets()[0] == ("0.0001", 2)
    assert histogram.buckets()[-2:] == [("10.0", 1 + len(LATENCIES)), ("+Inf", 2 + len(LATENCIES))]
    assert histogram.sum == sum(LATENCIES) + 11.0
