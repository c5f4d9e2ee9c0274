"""Time-silence: when a null message is due."""

from __future__ import annotations

from typing import Any

import pytest

from plainchant.core.model import MS, Duration
from plainchant.protocols.newtop.parameters import Parameters
from plainchant.protocols.newtop.silence import Silence
from tests.fakes import FakeHost, as_host


def silence(**parameters: Any) -> Silence:
    settings = {"silence": Duration(20 * MS), "tick": Duration(5 * MS), **parameters}
    return Silence(as_host(FakeHost()), Parameters(**settings))


def test_a_time_out_is_always_as_long() -> None:
    timer = silence(silence_by="timeout")
    for now in (0, 3 * MS, 1000 * MS):
        timer.sent(now)
        assert timer.due(now) == now + 20 * MS


def test_ticks_end_on_a_tick_and_last_more_than_all_but_one_of_them() -> None:
    timer = silence(silence_by="ticks")
    due = {timer.due(now) for now in range(100 * MS, 200 * MS, MS)}
    assert len({at % (5 * MS) for at in due}) == 1
    for now in range(100 * MS, 200 * MS, MS // 3):
        assert 15 * MS < timer.due(now) - now <= 20 * MS


def test_adaptive_who_has_never_sent_answers_at_once() -> None:
    assert silence(silence_by="adaptive").due(7 * MS) == 7 * MS


def test_adaptive_who_has_sent_once_answers_at_once_as_long_as_no_interval_is_known() -> None:
    timer = silence(silence_by="adaptive")
    timer.sent(0)
    assert timer.due(1 * MS) == 1 * MS


def test_adaptive_who_sends_regularly_waits_for_its_next_message() -> None:
    timer = silence(silence_by="adaptive")
    for now in range(0, 50 * MS, 5 * MS):
        timer.sent(now)
    now = 46 * MS
    assert now < timer.due(now) <= now + 20 * MS
    assert timer.due(now) >= 50 * MS, "it does not go out before the message that is expected"


def test_adaptive_who_has_stopped_sending_answers_at_once_again() -> None:
    timer = silence(silence_by="adaptive")
    for now in range(0, 50 * MS, 5 * MS):
        timer.sent(now)
    assert timer.due(500 * MS) == 500 * MS


def test_adaptive_who_sends_rarely_answers_at_once() -> None:
    timer = silence(silence_by="adaptive")
    for now in range(0, 1000 * MS, 100 * MS):
        timer.sent(now)
    assert timer.due(901 * MS) == 901 * MS


@pytest.mark.parametrize("interval", [1, 3, 7, 12, 19, 21, 50])
@pytest.mark.parametrize("after", [0, 1, 5, 30])
def test_adaptive_never_later_than_the_time_silence(interval: int, after: int) -> None:
    timer = silence(silence_by="adaptive")
    for now in range(0, 40 * interval * MS, interval * MS):
        timer.sent(now)
    now = 39 * interval * MS + after * MS
    assert now <= timer.due(now) <= now + 20 * MS
