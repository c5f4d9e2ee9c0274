"""Queues of messages: batches are cut off so that they fit, in order, and nothing is lost."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plainchant.core.model import Stream, pack
from plainchant.core.queues import Queue, Streams, Waiting


@given(st.lists(st.binary(max_size=40), max_size=300), st.integers(1, 400), st.integers(0, 20))
def test_batches_fit_and_hold_everything_in_order(payloads: list[bytes], max_bytes: int, most: int) -> None:
    queue = Queue(payloads)
    taken: list[bytes] = []
    while queue:
        waiting = len(queue)
        part = [queue.pop()] if most == 1 else queue.cut(max_bytes, most)
        assert len(part) == 1 or len(pack(1, part).body) <= max_bytes
        assert not most or len(part) <= most
        assert len(queue) == waiting - len(part)
        taken += part
    assert taken == payloads
    assert list(queue) == []


def test_a_long_queue_frees_what_was_taken() -> None:
    queue = Queue(b"%d" % number for number in range(10_000))
    for number in range(9_000):
        assert queue.pop() == b"%d" % number
    assert len(queue) == 1_000
    assert len(queue.items) < 6_000
    queue.put_back([b"front"])
    assert queue.pop() == b"front"
    assert next(iter(queue)) == b"9000"


def test_a_message_of_a_periodic_stream_arrives_when_the_period_before_is_over() -> None:
    waiting = Waiting(Stream("s", 10, 5, period=100))
    assert [waiting.arrival(at) for at in (0, 10, 400)] == [0, 100, 400]
    ends = [waiting.is_over]
    waiting.released = True
    ends.append(waiting.is_over)
    assert ends == [False, True]
    aperiodic = Waiting(Stream("~1", 10, 5))
    assert [aperiodic.arrival(at) for at in (0, 10)] == [0, 10]


@pytest.mark.parametrize(("most", "count"), [(0, 2), (1, 1)])
def test_messages_of_a_stream_are_cut_off_like_others(most: int, count: int) -> None:
    waiting = Waiting(Stream("s", 10, 5, period=100))
    for number in range(3):
        waiting.add(b"12345678", number)
    assert [due.arrived for due in waiting.cut(40, most)] == list(range(count))


def test_streams_are_kept_by_group_and_name() -> None:
    streams = Streams()
    waiting = streams.open("g", Stream("s", 10, 5, period=100))
    waiting.add(b"x", 0)
    assert streams.find("g", "s") is waiting
    assert streams.find_admitted("g", "s") is None
    assert not streams.has_messages("g")
    waiting.admitted = True
    assert streams.has_messages("g")
    reason = streams.why_waiting("g")
    assert reason is not None
    assert reason.evidence == {"messages": 1, "stream": "s"}
    assert streams.why_waiting("h") is None
    assert streams.remove_all("g") == 1
    assert streams.find("g", "s") is None
