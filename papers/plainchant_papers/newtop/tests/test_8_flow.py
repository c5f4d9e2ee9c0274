"""Paper 001, chapter 8: flow control.

The chapter numbers blocks from 0, newtop from 1: what is block 5 there is flow number 6 here. As in the chapter, what is stable
travels with messages and nulls only (``announce_after = 0``).
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any

import pytest

from plainchant.core.model import MS, Duration, Pressure, UsageError
from plainchant.protocols.newtop.flow import Flow
from plainchant.protocols.newtop.matrix import BlockMatrix, Column
from plainchant.protocols.newtop.packets import Data, Null, Status
from plainchant.protocols.newtop.parameters import Parameters
from plainchant.scenario.model import Workload
from tests.protocols.newtop.by_hand import ORDERS, SHAPES, ByHand, link, name_of, to
from tests.protocols.newtop.runs import simulate, uneven

THREE = {"g": "a b c"}


def burst(senders: Sequence[str] = "abc", count: int = 12, **parameters: Any) -> ByHand:
    """Every sender has messages waiting; the run goes on until nothing more happens."""
    hands = ByHand(THREE, order="total", **parameters)
    for name in senders:
        hands.say(name, "g", *(f"{name}{number}" for number in range(count)))
    hands.rest()
    return hands


def messages_held(column: Column) -> int:
    """Messages of a member that are kept for others or wait for delivery, without nulls."""
    packets = [*column.kept, *column.early.values(), *column.queue]
    return len({packet.block for packet in packets if isinstance(packet, Data)})


# --- Fig. 8.1 -------------------------------------------------------------------------------------------------------------


def fig_8_1(everywhere: int, stable: int, complete: int) -> Flow:
    """A process's knowledge, N = 8: up to where blocks are n²-stable, stable and complete (in the chapter's numbers)."""
    matrix = BlockMatrix(("a", "b", "c"))
    for column in matrix.members:
        column.flow, column.complete, column.stable, column.done = complete + 1, stable + 1, everywhere + 1, complete + 1
    flow = Flow(matrix, matrix.members[0], 8)
    flow.refresh()
    return flow


def test_8_1_fig_8_1_blocks_5_to_10_can_be_sent_and_11_blocks() -> None:
    flow = fig_8_1(everywhere=2, stable=3, complete=4)
    assert [flow.closed(block + 1) for block in range(5, 11)] == [""] * 6
    assert flow.closed(11 + 1)


@pytest.mark.parametrize(
    ("known", "condition"),
    [((2, 4, 5), "fl1"), ((3, 3, 5), "fl2"), ((3, 4, 4), "fl3"), ((3, 4, 5), "")],
    ids=["3 not n²-stable", "4 not stable", "5 not complete", "all"],
)
def test_8_1_fig_8_1_11_needs_3_n2_stable_4_stable_and_5_complete(known: tuple[int, int, int], condition: str) -> None:
    flow = fig_8_1(*known)
    assert flow.closed(11 + 1) == condition


# --- 8.1 Safety and liveness ----------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("variant")
@pytest.mark.parametrize("variant", ["fl1 alone"], indirect=True)
@pytest.mark.parametrize("bound", [3, 4, 8, 50])
def test_8_1_fl1_alone_deadlocks(bound: int) -> None:
    hands = burst(count=60, blocks=bound)
    assert len(hands.data) == 3 * bound, "N messages each, all complete, none known to be stable, and nobody may say so"
    assert {reason.code for reason in hands.waiting().values()} == {"flow control"}
    assert all(part.blocked == "fl1" for _, part in hands.parts())


@pytest.mark.parametrize("bound", [3, 4, 8, 50])
@pytest.mark.parametrize("senders", ["a", "ab", "abc"])
def test_8_1_with_fl2_and_fl3_a_sender_never_blocks_for_ever(bound: int, senders: str) -> None:
    hands = burst(senders, count=60, blocks=bound)
    assert len(hands.data) == 60 * len(senders)
    assert hands.in_order()
    assert not hands.waiting()


@pytest.mark.usefixtures("variant")
@pytest.mark.parametrize("variant", ["without fl2", "without fl3"], indirect=True)
def test_8_1_without_fl2_or_fl3_senders_deadlock() -> None:
    runs = [burst(senders, count=60, blocks=bound) for bound in (4, 5) for senders in ("a", "ab", "abc")]
    for run in runs:
        assert {reason.code for reason in run.waiting().values()} == {"flow control"}


@pytest.mark.usefixtures("variant")
@pytest.mark.parametrize("variant", ["N = 2"], indirect=True)
def test_8_1_N_2_deadlocks_and_is_refused() -> None:
    """With N = 2 the first block would have to be complete before it is sent. (Printed twice as "N <= 3".)"""
    hands = burst()
    assert hands.data == {}
    assert all(part.blocked == "fl3" for _, part in hands.parts())
    with pytest.raises(UsageError, match="at least 3"):
        Parameters(blocks=2)


def test_8_1_N_3_lives() -> None:
    hands = burst(blocks=3)
    assert len(hands.data) == 36
    assert hands.in_order()


@pytest.mark.parametrize("parameters", ORDERS, ids=name_of)
@pytest.mark.parametrize("shape", ["one", "two", "ring"])
def test_8_1_unstable_blocks_never_exceed_N(shape: str, parameters: dict[str, Any]) -> None:
    """At every process and after every step; nor does a process hold more than N messages of any member."""
    for bound in (3, 5):
        most = 0
        hands = ByHand(SHAPES[shape], blocks=bound, **parameters)
        for group, members in hands.groups.items():
            for name in members:
                hands.say(name, group, *(f"{name}{group}{number}" for number in range(8)))
        for _ in hands.wander(Random(bound), 250, messages=0, timers=0.1):
            for _, part in hands.parts():
                part.flow.refresh()
                most = max(most, part.flow.unstable)
                assert part.flow.unstable <= bound
                assert max(messages_held(column) for column in part.matrix.members) <= bound
                assert part.matrix.held() <= 2 * bound * len(part.members), "with nulls, which do not wait for room"
        hands.rest()
        assert most >= bound - 1, "it is reached (in pairs, all but one)"
        assert hands.in_order()
        assert not hands.waiting()


def test_8_1_without_flow_control_unstable_blocks_grow_with_the_load() -> None:
    hands = ByHand(THREE, order="total", blocks=0)
    hands.say("a", "g", *(str(number) for number in range(100)))
    hands.carry(only=to("b"))
    assert hands.part("b", "g").flow.unstable == 100


def test_8_1_over_a_network_that_loses_flow_control_lives_and_holds() -> None:
    hands = ByHand(SHAPES["two"], order="total", transport="lossy", blocks=3)
    for group, members in hands.groups.items():
        for name in members:
            hands.say(name, group, *(f"{name}{group}{number}" for number in range(6)))
    for _ in hands.wander(Random(0), 1000, messages=0, timers=0.2, loss=0.1):
        for _, part in hands.parts():
            part.flow.refresh()
            assert part.flow.unstable <= 3
    hands.rest()
    assert hands.in_order()


def test_8_1_a_blocked_sender_is_woken_with_a_reason() -> None:
    hands = ByHand(THREE, order="total", blocks=3)
    hands.say("a", "g", "1", "2", "3", "4")
    (block,) = hands.records("a", "block")
    assert block["reason"].code == "flow control"
    assert "may not send" in block["reason"].text
    hands.rest()
    assert len(hands.records("a", "unblock")) == len(hands.records("a", "block"))
    assert len(hands.data) == 4


def test_8_1_a_null_waits_for_the_same_conditions_and_is_judged_anew() -> None:
    """b hears of a block before it has what let a send it; when that comes, one null goes out, with the number of that moment."""
    hands = ByHand(THREE, order="total", blocks=4)
    deaf = link("c", "b")
    hands.say("a", "g", "1", "2", "3")
    hands.rest(keep=deaf, most=20)
    assert max(packet.flow for packet in hands.data.values()) == 3
    (held,) = (record for record in hands.records("b", "block") if record.get("situation") == "null held back")
    assert held["null"] == 3
    assert [null.block for null in hands.sent("b", Null)] == [2]
    hands.rest()
    assert [null.block for null in hands.sent("b", Null)] == [2, 3]
    assert hands.in_order()


# --- 8 Overlapping groups -------------------------------------------------------------------------------------------------


def test_8_where_groups_overlap_flow_control_has_a_counter_of_its_own_in_each() -> None:
    hands = ByHand({"g1": "a b", "g2": "a c"}, order="fast", blocks=8)
    hands.say("a", "g2", "1", "2", "3", "4", "5")
    hands.say("a", "g1", "6")
    assert (hands.data["6"].block, hands.data["6"].flow) == (6, 1)


def test_8_a_block_that_is_stable_and_waits_for_another_group_still_counts() -> None:
    """Beyond the chapter: in g1 everything is complete and stable, but g2 holds delivery up; g1's senders stop at N."""
    hands = ByHand({"g1": "a b c", "g2": "c d"}, order="total", blocks=3)
    hands.say("a", "g1", *(str(number) for number in range(20)))
    hands.rest(keep=link("d", "c"), most=200)
    assert hands.delivered("c") == []
    assert len(hands.matrix("c", "g1").columns["a"].queue) == len(hands.data) == 3
    assert hands.part("a", "g1").blocked == "room"
    hands.rest()
    assert len(hands.data) == 20
    assert hands.in_order()


def test_8_an_application_that_does_not_read_stops_its_groups_senders() -> None:
    hands = ByHand(THREE, order="total", blocks=3)
    hands["c"].notice(Pressure("g", full=True))
    hands.say("a", "g", *(str(number) for number in range(20)))
    hands.rest(most=200)
    assert len(hands.data) == 3
    hands["c"].notice(Pressure("g", full=False))
    hands.rest()
    assert len(hands.data) == 20
    assert hands.in_order()


# --- 8.3 No extra acknowledgements ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("senders", ["a", "abc"])
def test_8_3_no_extra_packets_as_long_as_nobody_is_blocked(senders: str) -> None:
    """The same packets with and without flow control, but for the numbers that they carry anyway."""
    counted = []
    for bound in (0, 50):
        run = simulate(
            THREE, Workload(senders=tuple(senders), rate=50.0), parameters={"blocks": bound}, duration=Duration(300 * MS)
        )
        assert run.violated == []
        assert run.of("block") == []
        counted.append(run.summary.packets_by_type)
    assert counted[0] == counted[1]
    assert set(counted[0]) <= {"Data", "Null"}


@pytest.mark.parametrize("bound", [3, 4, 8])
def test_8_3_no_packets_but_messages_and_nulls_even_where_senders_are_blocked(bound: int) -> None:
    for senders in ("a", "abc"):
        hands = burst(senders, count=30, blocks=bound)
        assert hands.count(Status) == 0
        assert hands.count(Data) == 30 * len(senders)
        assert any(hands.records(name, "block") for name in senders)
        assert hands.count(Null) <= 2 * 30, "each of the others at most one a message"


def test_8_flow_control_over_uneven_links_keeps_its_promises() -> None:
    network = uneven("a b c d e f", 3)
    run = simulate(SHAPES["two"], Workload(rate=200.0), parameters={"blocks": 4}, network=network, duration=Duration(100 * MS))
    assert run.summary.quiet
    assert run.violated == []
    assert run.of("block")


# --- beyond the chapter: a group that has become idle -----------------------------------------------------------------------


@pytest.mark.parametrize("after", [0, 100])
def test_8_an_idle_group_forgets_what_everybody_has_if_it_announces_that(after: int) -> None:
    """As in the chapter the last blocks of a group that falls silent stay unstable for ever; announcements end that, and end."""
    hands = ByHand(THREE, order="total", announce_after=Duration(after * MS))
    hands.say("a", "g", "1", "2", "3")
    hands.rest()
    assert [part.matrix.held() > 0 for _, part in hands.parts()] == [not after] * 3
    assert hands.count(Status) <= 3 * 3
