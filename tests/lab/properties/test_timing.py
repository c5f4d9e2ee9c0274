"""Deadlines and bounds: late, missing, excused."""

from __future__ import annotations

import pytest

from ...trace.build import assert_flagged, assert_passes, check

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


# --- rotation of a token, detection of a crash ------------------------------------------------------------------------

ROTATION = {"rotation": 10}
DETECTION = {"detection": 10}

BOUNDED = [
    ("a token takes too long to come back", ROTATION, {
        "a": "view 1 a | token group=g time=5 | token group=g time=16 | end",
    }, "a"),
    ("a token takes too long by the global clock, not by its own", ROTATION, {
        "a": "view 1 a | token group=g time=5 true_time=20 | token group=g time=15 true_time=31 | end",
    }, "a"),
    ("a token takes too long by its own clock, one row having no other", ROTATION, {
        "a": "view 1 a | token group=g time=5 true_time=1 | token group=g time=16 | end",
    }, "a"),
    ("a token of the second group takes too long, the other coming between", ROTATION, {
        "a": "token group=g time=1 | token group=h time=2 | view 1 a | token group=g time=9 | token group=h time=13 | crash",
    }, "a"),
    ("a token takes too long, a view of another group coming between", ROTATION, {
        "a": "token group=g time=1 | view 1 a group=h | leave group=h | token group=g time=12 | end",
    }, "a"),
    ("a crash is detected too late", DETECTION, {
        "a": "view 1 a,b true_time=0 | view 2 a true_time=31 | end true_time=99",
        "b": "view 1 a,b true_time=0 | crash true_time=20",
    }, "a"),
    ("a crash is detected in time by one, too late by another", DETECTION, {
        "a": "view 1 a,b,c true_time=0 | view 2 a,c true_time=25 | end true_time=99",
        "b": "view 1 a,b,c true_time=0 | crash true_time=20",
        "c": "view 1 a,b,c true_time=0 | view 2 a,c true_time=31 | end true_time=99",
    }, "c"),
    ("a crash is never detected", DETECTION, {
        "a": "view 1 a,b true_time=0 | end true_time=31",
        "b": "view 1 a,b true_time=0 | crash true_time=20",
    }, "a"),
    ("one that crashed before the view that names it stays in it", DETECTION, {
        "a": "view 1 a true_time=0 | view 2 a,b true_time=21 | view 3 a true_time=32 | end true_time=99",
        "b": "crash true_time=20",
    }, "a"),
    ("an incarnation is detected in time, the next one too late", DETECTION, {
        "a": "view 1 a,b true_time=0|view 2 a true_time=9 | view 3 a,b#1 true_time=12 | view 4 a true_time=31 | end true_time=99",
        "b": "view 1 a,b true_time=0 | crash true_time=5",
        "b#1": "view 3 a,b#1 true_time=12 | crash true_time=20",
    }, "b#1"),
    ("a send completes too late, which its own row tells", {"send": 50}, {
        "a": 'join | send | send | sent a 2 detail={"took_ns":51} | end',
    }, "a"),
    ("a delivery takes too long among three, one of which has a timing fault", {"deliver": 80}, {
        "a": "join | send | end",
        "b": "join | deliver a 1 sent=100 true_time=181 | end",
        "c": 'join | fault detail={"timing":true} | deliver a 1 sent=100 true_time=150 | end',
    }, "b"),
    ("a message takes too long that is as large as bounds are for", {"deliver": 80, "size": 10}, {
        "a": "join | send size=10 | end",
        "b": "join | deliver a 1 sent=100 true_time=181 size=10 | end",
    }, "b"),
    ("a message is taken late and then delivered at once", {"accepted": 10}, {
        "a": "join | accept time=20 | send time=31 | deliver a 1 time=31 | end time=90",
    }, "a"),
    ("a message is delivered too long after it was accepted", {"accepted": 10, "deliver": 10}, {
        "a": "join true_time=0 | accept true_time=20 | send true_time=25 | deliver a 1 true_time=26 sent=25 | end true_time=90",
        "b": "join true_time=0 | deliver a 1 true_time=31 sent=25 | end true_time=90",
    }, "b"),
    ("a send takes too long that is as large as bounds are for", {"send": 50, "size": 10}, {
        "a": 'join | send size=10 | sent a 1 detail={"took_ns":51} | end',
    }, "a"),
]  # fmt: skip

BOUNDED_GOOD = [
    ("a message is delivered in the last nanosecond after it was accepted", {"accepted": 10}, {
        "a": "join | accept time=20 | send time=25 | deliver a 1 time=26 | end time=90",
        "b": "join | deliver a 1 time=30 | end time=90",
    }),
    ("a process with a timing fault delivers long after the accept, and others what it sends", {"accepted": 10}, {
        "a": "join | accept time=20 | send time=25 | deliver a 1 time=26 | deliver b 1 time=80 | end time=90",
        "b": 'join|fault time=1 detail={"timing":true} | accept time=20 | send time=50 | deliver a 1 time=70 | end time=90',
    }),
    ("a token comes back in the last nanosecond", ROTATION, {
        "a": "view 1 a | token group=g time=5 | token group=g time=15 | end",
    }),
    ("a view comes between two turns", ROTATION, {
        "a": "token group=g time=0 | token group=g time=5 | view 1 a | token group=g time=50 | end",
    }),
    ("it leaves and comes back between two turns", ROTATION, {
        "a": "token group=g time=0 | token group=g time=5 | leave | token group=g time=50 | end",
    }),
    ("two processes and two incarnations have turns of their own", ROTATION, {
        "a": "token group=g time=0 | token group=g time=5 | crash",
        "a#1": "token group=g time=50 | end",
        "b": "token group=g time=99 | end",
    }),
    ("a delivery may take longer than a rotation, which alone is bounded", ROTATION, {
        "a": "token group=g time=0 | token group=g time=5 | send | end",
        "b": "deliver a 1 sent=1 true_time=20 | end",
    }),
    ("a crash is detected in the last nanosecond", DETECTION, {
        "a": "view 1 a,b true_time=0 | view 2 a true_time=30 | end true_time=99",
        "b": "view 1 a,b true_time=0 | crash true_time=20",
    }),
    ("one notices in time, others crash, leave or have a timing fault", DETECTION, {
        "a": "view 1 a,b,c,d,e true_time=0 | view 2 a true_time=30 | end true_time=99",
        "b": "view 1 a,b,c,d,e true_time=0 | crash true_time=20",
        "c": "view 1 a,b,c,d,e true_time=0 | leave true_time=90",
        "d": "view 1 a,b,c,d,e true_time=0 | fault true_time=1 detail={\"timing\":true} | end true_time=99",
        "e": "view 1 a,b,c,d,e true_time=0 | crash true_time=29",
    }),
    ("whoever joins a view later counts from there", DETECTION, {
        "a": "view 1 a true_time=0 | view 2 a,b true_time=25 | view 3 a true_time=35 | end true_time=99",
        "b": "crash true_time=20",
    }),
    ("a send completes in the last nanosecond", {"send": 50}, {
        "a": 'join | send | sent a 1 detail={"took_ns":50} | end',
        "b": 'join | sent a 1 detail={"took_ns":99} | end',
    }),
    ("larger messages are not bounded", {"send": 50, "deliver": 80, "size": 10}, {
        "a": 'join | send size=11 | sent a 1 detail={"took_ns":51} | send size=9 | sent a 2 detail={"took_ns":50} | end',
        "b": "join | deliver a 1 sent=100 true_time=181 size=11 | deliver a 2 sent=100 true_time=180 size=9 | end",
    }),
    ("who has a timing fault is late with its sends and deliveries, and others with its messages", {"send": 50, "deliver": 80}, {
        "a": "join | send | deliver b 1 sent=100 true_time=190 | deliver c 1 sent=100 true_time=180 | end",
        "b": 'join|fault detail={"timing":true} | send | sent b 1 detail={"took_ns":51} | deliver a 1 sent=1 true_time=99 | end',
        "c": "join | send | deliver a 1 sent=1 true_time=81 | end",
    }),
]  # fmt: skip

BOUNDED_NOTHING = [
    ("a message of which no row says when it was accepted", {"accepted": 10}, {
        "a": "join | send time=25 | deliver a 1 time=86 | end time=90",
    }),
    ("a message that is accepted and not delivered", {"accepted": 10}, {
        "a": "join | accept time=20 | send time=21 | end time=90",
    }),
    ("the send of a process with a timing fault", {"send": 50}, {
        "a": 'join | send detail={"took_ns":51} | fault detail={"timing":true} | end',
    }),
    ("a completed send without its duration, or of somebody else", {"send": 50}, {
        "a": 'join | send | sent a 1 | end',
        "b": 'join | sent a 1 detail={"took_ns":51} | end',
    }),
    ("a single turn", ROTATION, {"a": "view 1 a | token group=g time=5 | end"}),
    ("turns of no group", ROTATION, {"a": "token time=5 | token time=50 | end"}),
    ("a bound on clocks says nothing of sends and deliveries", {"clock": 1}, SLOW),
    ("it was dropped before it crashed", DETECTION, {
        "a": "view 1 a,b true_time=0 | view 2 a true_time=19 | end true_time=99",
        "b": "view 1 a,b true_time=0 | crash true_time=20",
    }),
    ("it had left", DETECTION, {
        "a": "view 1 a,b true_time=0 | end true_time=99",
        "b": "view 1 a,b true_time=0 | leave true_time=5 | crash true_time=20",
    }),
    ("the run ends before the bound is over", DETECTION, {
        "a": "view 1 a,b true_time=0 | end true_time=30",
        "b": "view 1 a,b true_time=0 | crash true_time=20",
    }),
    ("there is no global clock", DETECTION, {
        "a": "view 1 a,b | view 2 a time=500 | end time=999",
        "b": "view 1 a,b | crash time=20",
    }),
    ("a cut history has no moment at which it crashed", DETECTION, {
        "a": "view 1 a,b true_time=0 | end true_time=99",
        "b": "view 1 a,b true_time=0",
    }),
]  # fmt: skip


@pytest.mark.parametrize(("bounds", "histories", "culprit"), [pytest.param(b, h, c, id=i) for i, b, h, c in BOUNDED])
def test_late_tokens_and_detections_are_flagged(bounds: dict[str, int], histories: dict[str, str], culprit: str) -> None:
    assert_flagged(histories, "bounded", culprit, bounds=bounds)


@pytest.mark.parametrize(("bounds", "histories"), [pytest.param(b, h, id=i) for i, b, h in BOUNDED_GOOD])
def test_tokens_and_detections_in_time_pass(bounds: dict[str, int], histories: dict[str, str]) -> None:
    assert_passes(histories, "bounded", bounds=bounds)


@pytest.mark.parametrize(("bounds", "histories"), [pytest.param(b, h, id=i) for i, b, h in BOUNDED_NOTHING])
def test_without_a_rotation_or_a_detection_there_is_nothing_to_check(bounds: dict[str, int], histories: dict[str, str]) -> None:
    assert check(histories, "bounded", bounds=bounds).properties["bounded"].verdict == "nothing to check"


def test_a_late_token_is_told_with_its_two_turns() -> None:
    (_, bounds, histories, culprit), *_ = BOUNDED
    violation = assert_flagged(histories, "bounded", culprit, bounds=bounds)
    assert violation.sentence == "the token of g takes 11 ns to come back to a; the bound is 10 ns"
    assert (violation.group, violation.events) == ("g", (("a", 2), ("a", 3)))


def test_a_late_detection_is_told_with_the_crash_and_the_view() -> None:
    _, bounds, histories, culprit = BOUNDED[5]
    violation = assert_flagged(histories, "bounded", culprit, bounds=bounds)
    assert violation.sentence == "a has b, which crashed, in its view of g for 11 ns; the bound is 10 ns"
    assert (violation.group, violation.events) == ("g", (("b", 2), ("a", 2)))
