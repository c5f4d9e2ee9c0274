"""Flow control: what is known to be stable, and which condition keeps a message back."""

from __future__ import annotations

import pytest

from plainchant.core.model import Batch
from plainchant.protocols.newtop.flow import Flow, OneWay
from plainchant.protocols.newtop.matrix import BlockMatrix
from plainchant.protocols.newtop.packets import Data


def matrix_of(*flows: int, counted: tuple[str, ...] = ()) -> BlockMatrix:
    """A matrix of members a, b, c, ... who have sent everything up to these flow numbers, with the same block numbers."""
    matrix = BlockMatrix([chr(ord("a") + index) for index in range(len(flows))], counted=counted)
    for column, last in zip(matrix.members, flows, strict=True):
        for flow in range(1, last + 1):
            matrix.represent(column, Data("g", flow, flow - 1, flow, 0, 0, 0, Batch(flow, 1, b"")))
    return matrix


def flow_of(matrix: BlockMatrix, bound: int = 8) -> Flow:
    return Flow(matrix, matrix.members[0], bound)


def test_complete_is_what_everybody_has_sent_as_far_as_is_known_here() -> None:
    flow = flow_of(matrix_of(5, 3, 4))
    flow.refresh()
    assert flow.mine.complete == 3
    assert flow.unstable == 5


def test_stable_is_what_everybody_says_to_have_and_is_forgotten() -> None:
    matrix = matrix_of(5, 4, 4)
    flow = flow_of(matrix)
    for column, complete in zip(matrix.members[1:], (3, 2), strict=True):
        column.complete = complete
    flow.refresh()
    assert flow.mine.stable == 2
    assert [column.plus() for column in matrix.members] == [[3, 4, 5], [3, 4], [3, 4]]
    assert flow.unstable == 3


def test_everywhere_is_what_everybody_says_to_be_stable() -> None:
    matrix = matrix_of(5, 5, 5)
    flow = flow_of(matrix)
    for column in matrix.members[1:]:
        column.complete, column.stable = 4, 2
    matrix.members[2].stable = 1
    flow.refresh()
    assert (flow.mine.complete, flow.mine.stable, flow.everywhere) == (5, 4, 1)


def test_what_waits_for_delivery_is_complete_and_not_done() -> None:
    matrix = matrix_of(5, 5)
    flow = flow_of(matrix)
    matrix.members[1].queue.extend(packet for packet in matrix.members[1].kept if isinstance(packet, Data) and packet.flow > 3)
    flow.refresh()
    assert (flow.mine.complete, flow.mine.done) == (5, 3)
    matrix.members[1].queue.clear()
    flow.refresh()
    assert flow.mine.done == 5


def test_what_an_application_without_room_gets_does_not_count_as_delivered() -> None:
    flow = flow_of(matrix_of(5, 5))
    flow.full = True
    flow.refresh()
    assert (flow.mine.complete, flow.mine.done) == (5, 0)
    flow.full = False
    flow.refresh()
    assert flow.mine.done == 5


@pytest.mark.parametrize(
    ("everywhere", "stable", "complete", "roomy", "condition", "for_null"),
    [
        (2, 3, 4, 2, "", ""),
        (1, 3, 4, 2, "fl1", "fl1"),
        (2, 2, 4, 2, "fl2", "fl2"),
        (2, 3, 3, 2, "fl3", "fl3"),
        (2, 3, 4, 1, "room", ""),
    ],
)
def test_a_message_with_number_10_waits_for_each_condition(
    everywhere: int, stable: int, complete: int, roomy: int, condition: str, for_null: str
) -> None:
    flow = flow_of(BlockMatrix("ab"), bound=8)
    flow.everywhere, flow.mine.stable, flow.mine.complete, flow.roomy = everywhere, stable, complete, roomy
    assert flow.closed(10) == condition
    assert flow.closed(10, null=True) == for_null
    assert Flow(flow.matrix, flow.mine, 0).closed(10) == "", "no flow control"


def test_one_way_the_sequencer_stays_within_N_of_what_everybody_has() -> None:
    matrix = matrix_of(10, 0, 0, counted=("a",))
    flow = OneWay(matrix, matrix.members[0], 8)
    for column in matrix.members[1:]:
        column.complete, column.done = 2, 2
    flow.refresh()
    assert [flow.closed(number) for number in (10, 11)] == ["", "fl1"]
    for column in matrix.members[1:]:
        column.complete = 5
    flow.refresh()
    assert flow.closed(11) == "room", "they have it and have not delivered it"
    assert flow.closed(11, null=True) == ""


def test_one_way_a_member_takes_the_sequencers_word_for_what_is_stable() -> None:
    matrix = matrix_of(10, 0, 0, counted=("a",))
    flow = OneWay(matrix, matrix.members[1], 8)
    matrix.members[0].stable = 6
    flow.refresh()
    assert flow.mine.stable == 6
    assert matrix.members[0].plus() == [7, 8, 9, 10]
