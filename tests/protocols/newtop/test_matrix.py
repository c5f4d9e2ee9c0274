"""The Block Matrix: columns, gaps, completion, what is kept."""

from __future__ import annotations

from itertools import permutations
from random import Random

import pytest

from plainchant.core.model import Batch
from plainchant.protocols.newtop.matrix import BlockMatrix, Column, Multicast
from plainchant.protocols.newtop.packets import Data, Null


def data(block: int, previous: int = 0, flow: int = 0) -> Data:
    return Data("g", block, previous, flow or block, 0, 0, 0, Batch(block, 1, b""))


def null(block: int, previous: int = 0) -> Null:
    return Null("g", block, previous, block, 0, 0, 0)


def chain(*blocks: int) -> list[Data]:
    """Messages of one member with these blocks, each naming the one before it."""
    return [data(block, previous) for previous, block in zip((0, *blocks), blocks, strict=False)]


def column_of(matrix: BlockMatrix, name: str = "a") -> Column:
    return matrix.columns[name]


def test_in_sequence_everything_is_found_at_once() -> None:
    matrix = BlockMatrix(("a", "b"))
    for packet in chain(1, 4, 9):
        assert list(matrix.represent(column_of(matrix), packet)) == [packet]
    assert column_of(matrix).last == 9
    assert (matrix.largest, matrix.complete) == (9, 0)


@pytest.mark.parametrize("order", list(permutations(range(4))))
def test_whatever_the_order_of_arrival_each_is_found_once_and_in_sequence(order: tuple[int, ...]) -> None:
    packets = chain(2, 3, 7, 8)
    matrix = BlockMatrix(("a", "b"))
    found: list[Multicast] = []
    for index in order:
        found += matrix.represent(column_of(matrix), packets[index])
        found += matrix.represent(column_of(matrix), packets[index])
    assert found == packets
    assert column_of(matrix).last == 8
    assert column_of(matrix).early == {}
    assert column_of(matrix).gaps() == []


def test_over_a_fifo_transport_packets_name_no_predecessor() -> None:
    matrix = BlockMatrix(("a", "b"), fifo=True)
    for block in (1, 5, 6):
        assert matrix.represent(column_of(matrix), data(block))
    assert column_of(matrix).last == 6
    assert not matrix.represent(column_of(matrix), data(6))


def test_gaps_are_between_what_is_here_and_at_the_end_what_was_announced() -> None:
    matrix = BlockMatrix(("a", "b"))
    column = column_of(matrix)
    packets = chain(1, 3, 4, 8, 9, 12)
    for index in (0, 2, 4):
        matrix.represent(column, packets[index])
    assert column.gaps() == [(1, 3), (4, 8)]
    assert column.minus() == [3, 8]
    assert column.plus() == [1, 4, 9]
    column.announced = 12
    assert column.gaps() == [(1, 3), (4, 8), (9, 12)]


def test_complete_is_the_smallest_of_the_columns() -> None:
    matrix = BlockMatrix(("a", "b", "c"))
    matrix.represent(column_of(matrix, "a"), data(5))
    matrix.represent(column_of(matrix, "b"), null(2))
    assert matrix.complete == 0
    matrix.represent(column_of(matrix, "c"), data(3))
    assert matrix.complete == 2
    matrix.represent(column_of(matrix, "b"), null(4, 2))
    assert matrix.complete == 3


def test_only_counted_members_complete_blocks() -> None:
    matrix = BlockMatrix(("a", "b", "c"), counted=("b",))
    matrix.represent(column_of(matrix, "b"), data(3))
    assert matrix.complete == 3
    assert matrix.settled() == 3
    assert matrix.is_complete(3)
    assert not matrix.is_complete(4)


def by_definition(columns: list[tuple[set[int], set[int]]], block: int) -> bool:
    """3.7: a '+' here, or a blank, blanks after it and then a '+', in every column of (plus, minus)."""
    for plus, minus in columns:
        following = sorted(mark for mark in plus | minus if mark >= block)
        if not following or following[0] in minus:
            return False
    return True


def test_completion_with_gaps_is_as_defined_over_random_arrivals() -> None:
    found = 0
    for seed in range(50):
        random = Random(seed)
        matrix = BlockMatrix(("a", "b", "c"))
        arrivals = [
            (name, packet)
            for name in matrix.columns
            for packet in chain(*sorted(random.sample(range(1, 13), random.randrange(2, 8))))
        ]
        random.shuffle(arrivals)
        marks: dict[str, set[int]] = {name: set() for name in matrix.columns}
        named: dict[str, set[int]] = {name: set() for name in matrix.columns}
        for name, packet in arrivals:
            matrix.represent(matrix.columns[name], packet)
            marks[name].add(packet.block)
            named[name].add(packet.previous)
            columns = [(marks[one], named[one] - marks[one] - {0}) for one in matrix.columns]
            for block in range(1, 14):
                assert matrix.is_complete(block) == by_definition(columns, block)
                found += matrix.is_complete(block) and block > matrix.complete + 1
            assert all(matrix.is_complete(block) for block in range(1, matrix.complete + 1))
    assert found > 50, "complete although one before it is not"


def test_what_is_stable_is_forgotten_by_flow_numbers() -> None:
    matrix = BlockMatrix(("a", "b"))
    for flow, packet in enumerate((data(10, 0, 1), data(20, 10, 2), data(30, 20, 3)), 1):
        matrix.represent(column_of(matrix), packet)
        assert matrix.largest_flow == flow
    matrix.discard(2)
    assert column_of(matrix).plus() == [30]
    assert column_of(matrix).last == 30
    assert not matrix.represent(column_of(matrix), data(10, 0, 1)), "and does not come back"


def test_held_counts_what_is_kept_what_came_early_and_what_waits_although_it_is_stable() -> None:
    matrix = BlockMatrix(("a", "b"))
    column = column_of(matrix)
    packets = chain(1, 2, 3, 4, 5)
    for packet in packets[:3]:
        column.queue.extend(one for one in matrix.represent(column, packet) if isinstance(one, Data))
    matrix.represent(column, packets[4])
    assert matrix.held() == 4
    matrix.discard(2)
    assert matrix.held() == 4, "two of them are stable and not delivered"
    column.queue.clear()
    assert matrix.held() == 2


def test_settled_is_what_is_here_and_delivered() -> None:
    matrix = BlockMatrix(("a", "b"))
    first, second = chain(3, 6)
    column = column_of(matrix)
    for packet in (first, second):
        matrix.represent(column, packet)
        column.queue.append(packet)
    assert column.settled == 2
    column.queue.popleft()
    assert column.settled == 5
    column.queue.popleft()
    assert column.settled == 6
    assert matrix.settled() == 0, "b has sent nothing"


def test_a_picture_starts_where_one_wants() -> None:
    matrix = BlockMatrix(("a", "long"))
    for packet in chain(1, 2)[:2]:
        matrix.represent(column_of(matrix), packet)
    matrix.represent(column_of(matrix, "long"), data(3, 1))
    assert matrix.picture(2) == "       a long\n  2    +    .\n  3    .    +"
