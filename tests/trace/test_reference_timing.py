"""Deadlines and bounds: late, missing, excused."""

from __future__ import annotations

import pytest

from .build import assert_flagged, assert_passes

AB = "view 1 a,b"

BAD = [
    ("late by the receiver's own clock", {
        "a": f"{AB} | send time=10 deadline=20 | end time=100",
        "b": f"{AB} | deliver a 1 time=1031 deadline=1030 | end time=2000",
    }, "b"),
    ("late by the global clock, the receiver's own being behind", {
        "a": f"{AB} | send time=10 true_time=110 deadline=20 | end time=100 true_time=200",
        "b": f"{AB} | deliver a 1 time=5 true_time=121 | end time=90 true_time=200",
    }, "b"),
    ("never, and the receiver goes on beyond the deadline", {
        "a": f"{AB} | send time=10 deadline=20 | end time=100",
        "b": f"{AB} | end time=30",
    }, "b"),
    ("never, and the receiver crashes after the deadline", {
        "a": f"{AB} | send time=10 deadline=20 | deliver a 1 time=11 deadline=20 | end time=100",
        "b": f"{AB} | crash time=21",
    }, "b"),
    ("they part only after the deadline", {
        "a": f"{AB} | send time=10 deadline=20 | end time=100",
        "b": f"{AB} | view 2 b time=25 | end time=30",
    }, "b"),
]  # fmt: skip

GOOD = [
    ("in the last nanosecond", {
        "a": f"{AB} | send time=10 deadline=20 | deliver a 1 time=20 deadline=20 | end time=100",
        "b": f"{AB} | deliver a 1 time=1030 deadline=1030 | end time=2000",
    }),
    ("the receiver crashed before the deadline", {
        "a": f"{AB} | send time=10 deadline=20 | deliver a 1 time=12 deadline=20 | end time=100",
        "b": f"{AB} | crash time=19",
    }),
    ("the sender of the late one crashed", {
        "a": f"{AB} | deliver b 1 time=5 | send time=10 deadline=20 | crash time=11",
        "b": f"{AB} | send time=1 deadline=9 | deliver b 1 time=2 | deliver a 1 time=50 | end time=99",
    }),
    ("they had parted before the deadline", {
        "a": f"{AB} | send time=10 deadline=20 | deliver a 1 time=15 | end time=100",
        "b": f"{AB} | view 2 b time=15 | end time=30",
    }),
]  # fmt: skip


@pytest.mark.parametrize(("histories", "culprit"), [pytest.param(h, c, id=i) for i, h, c in BAD])
def test_missed_deadlines_are_flagged(histories: dict[str, str], culprit: str) -> None:
    assert_flagged(histories, "deadline", culprit)


@pytest.mark.parametrize("histories", [pytest.param(h, id=i) for i, h in GOOD])
def test_kept_and_excused_deadlines_pass(histories: dict[str, str]) -> None:
    assert_passes(histories, "deadline")


SLOW = {
    "a": 'join | send detail={"took_ns":51} | end',
    "b": "join | deliver a 1 sent=100 true_time=181 | end",
}


@pytest.mark.parametrize(
    ("bounds", "culprit"),
    [
        pytest.param({"send": 50}, "a", id="a send takes too long"),
        pytest.param({"deliver": 80}, "b", id="a delivery takes too long"),
        pytest.param({"delivery": 80, "send": 51}, "b", id="each kind has its bound"),
        pytest.param({"round": 80}, "b", id="a single bound is for both: the delivery"),
        pytest.param({"round": 50}, "a", id="a single bound is for both: the send"),
    ],
)
def test_what_takes_longer_than_its_bound_is_flagged(bounds: dict[str, int], culprit: str) -> None:
    assert_flagged(SLOW, "bounded", culprit, bounds=bounds)


@pytest.mark.parametrize(
    "bounds",
    [
        pytest.param({"send": 51, "deliver": 81}, id="exactly at its bound"),
        pytest.param({"send": 51}, id="no bound on deliveries"),
        pytest.param({"deliver": 81, "view": 1}, id="a bound on something else"),
    ],
)
def test_what_keeps_its_bound_passes(bounds: dict[str, int]) -> None:
    assert_passes(SLOW, "bounded", bounds=bounds)
