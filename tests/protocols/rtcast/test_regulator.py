"""The regulator: pieces, spacing, first in first out."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plainchant.core.model import ProtocolError
from plainchant.protocols.rtcast.regulator import NUMBERS, Chunk, Plan, Regulator


def drain(regulator: Regulator, now: int) -> list[Chunk]:
    """Everything that is released by then, in the order in which it is sent."""
    found = []
    while (chunk := regulator.next(now)) is not None:
        regulator.flows[chunk.stream].advance(chunk)
        found.append(chunk)
    return found


def test_a_message_is_released_piece_by_piece_a_spacing_apart() -> None:
    regulator = Regulator(100)
    regulator.add("a").begin(b"x" * 70, 5, Plan(30, 10, 0))
    spans = {now: [(chunk.start, chunk.end) for chunk in drain(regulator, now)] for now in (4, 5, 14, 15, 24, 25, 90)}
    assert spans == {4: [], 5: [(0, 30)], 14: [], 15: [(30, 60)], 24: [], 25: [(60, 70)], 90: []}


def test_a_message_that_is_shorter_than_declared_takes_fewer_pieces() -> None:
    regulator = Regulator(100)
    regulator.add("a").begin(b"x" * 30, 0, Plan(30, 10, 0))
    (chunk,) = drain(regulator, 0)
    assert chunk.is_last
    assert chunk.is_whole
    assert chunk.size == 30, "a whole message needs no number"


def test_a_piece_larger_than_a_packet_takes_several_at_once() -> None:
    regulator = Regulator(100)
    regulator.add("a").begin(b"x" * 400, 0, Plan(200, 10, 0))
    first, second = drain(regulator, 0), drain(regulator, 10)
    assert [(chunk.start, chunk.end) for chunk in first] == [(0, 98), (98, 196), (196, 200)]
    assert [(chunk.start, chunk.end) for chunk in second] == [(200, 298), (298, 396), (396, 400)]
    assert all(chunk.size <= 100 for chunk in first + second)
    assert [chunk.is_last for chunk in second] == [False, False, True]


def test_first_in_first_out_by_release_and_then_by_age_of_the_stream() -> None:
    regulator = Regulator(100)
    for name in "abc":
        regulator.add(name)
    regulator.flows["c"].begin(b"c", 1, Plan(10, 10, 0))
    regulator.flows["b"].begin(b"b", 2, Plan(10, 10, 0))
    regulator.flows["a"].begin(b"a" * 20, 2, Plan(10, 10, 0))
    assert [chunk.stream for chunk in drain(regulator, 12)] == ["c", "a", "b", "a"]


def test_a_message_that_comes_too_early_waits_for_the_spacing() -> None:
    regulator = Regulator(100)
    flow = regulator.add("a")
    flow.begin(b"x", 0, Plan(10, 50, 0))
    assert drain(regulator, 0)
    flow.begin(b"y", 1, Plan(10, 50, 0))
    assert not drain(regulator, 49)
    assert drain(regulator, 50)


def test_numbers_are_not_0_and_are_given_again_only_when_they_are_free() -> None:
    regulator = Regulator(100)
    assert [regulator.add(name).number for name in "ab"] == [1, 2]
    regulator.remove("a")
    assert regulator.add("c").number == 3
    regulator._number = NUMBERS - 1
    assert regulator.add("d").number == 1
    assert regulator.add("e").number == 4


def test_one_message_at_a_time() -> None:
    flow = Regulator(100).add("a")
    flow.begin(b"x", 0, Plan(10, 10, 0))
    with pytest.raises(ProtocolError, match="under way"):
        flow.begin(b"y", 0, Plan(10, 10, 0))


@given(st.binary(max_size=700), st.integers(1, 300), st.integers(3, 150), st.integers(1, 50))
def test_chunks_are_the_message_and_never_more_than_a_piece_a_spacing(
    payload: bytes, piece: int, max_packet: int, spacing: int
) -> None:
    regulator = Regulator(max_packet)
    regulator.add("a").begin(payload, 0, Plan(piece, spacing, 0))
    found, now = b"", 0
    while regulator.flows["a"].is_under_way:
        chunks = drain(regulator, now)
        assert sum(chunk.end - chunk.start for chunk in chunks) <= piece
        assert all(chunk.size <= max_packet for chunk in chunks)
        found += b"".join(payload[chunk.start : chunk.end] for chunk in chunks)
        now += spacing
    assert found == payload
    assert now == spacing * max(1, -(-len(payload) // piece))
