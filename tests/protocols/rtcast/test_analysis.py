"""Section 5 as reckoning: n, shares, what is rejected, the nearest deadline; the lemmas and Theorem 1 on simulated turns."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plainchant.core.model import MS, US, Duration
from plainchant.protocols.rtcast.analysis import Demand, Turn, overhead
from plainchant.protocols.rtcast.interface import Interface
from plainchant.protocols.rtcast.parameters import Parameters
from tests.protocols.rtcast.turns import Turns

MAX_PACKET = 1400
BYTE_A_NANOSECOND = 8_000_000_000


def parameters(**given: Any) -> Parameters:
    return Parameters(**{"retransmissions": 0, **given})


def small(hold: int, rotation: int, *, header: int = 4, max_packet: int = 200, **given: Any) -> Turn:
    """A turn in which a byte takes a nanosecond; ``hold`` is what it has beside what the ring needs."""
    settings = {"bandwidth": BYTE_A_NANOSECOND, "header": header, "idle_hold": Duration(0), **given}
    reserved = Turn(parameters(**settings), "p1", rotation, max_packet).reserved
    return Turn(parameters(**settings, hold=Duration(reserved + hold)), "p1", rotation, max_packet)


# --- n, Delta, C and G ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("retransmissions", "deadline", "visits"),
    [(0, 20, 1), (0, 19, 0), (0, 49, 3), (0, 50, 4), (1, 30, 1), (1, 29, 0), (3, 50, 1), (3, 5, -4)],
)
def test_visits_are_what_is_left_of_the_deadline_after_delta_in_whole_rotations(
    retransmissions: int, deadline: int, visits: int
) -> None:
    turn = Turn(parameters(retransmissions=retransmissions), "p1", 10 * MS, MAX_PACKET)
    assert turn.delay == (retransmissions + 1) * 10 * MS
    assert turn.visits(deadline * MS) == visits


def test_a_given_cost_is_divided_and_rounded_up() -> None:
    turn = small(1000, 10)
    assert [turn.share(Demand("m", 0, cost=100), visits) for visits in (1, 2, 3, 7)] == [100, 50, 34, 15]
    assert turn.cost(Demand("m", 0, cost=100)) == 100


def test_a_message_costs_its_packets_with_their_headers() -> None:
    turn = small(1000, 10, header=10, max_packet=100)
    assert turn.share(Demand("m", 0, size=100), 1) == 110
    assert turn.share(Demand("m", 0, size=101), 1) == 110 + (3 + 2 + 10)
    assert turn.share(Demand("m", 0, size=196), 1) == 2 * 110
    assert turn.share(Demand("m", 0, size=100), 2) == 50 + 2 + 10
    assert turn.share(Demand("m", 0, size=101), 2) == 51 + 2 + 10


def test_no_piece_is_smaller_than_the_header_that_it_costs() -> None:
    turn = small(1000, 10, header=40)
    assert [turn.pieces(Demand("m", 0, size=size), 9) for size in (0, 39, 79, 80, 120, 10_000)] == [1, 1, 1, 2, 3, 9]


def test_the_ring_s_own_packets_are_always_in_g() -> None:
    settings = parameters(heartbeats=3, retransmissions=2, resends=2)
    items = overhead(settings, Interface(settings), MAX_PACKET)
    assert [item.name.rstrip(" 123") for item in items] == [
        "membership",
        "heartbeat",
        "heartbeat",
        "heartbeat",
        "dummy",
        "join acknowledgement",
        "retransmission",
        "retransmission",
    ]
    assert all(item.cost == Interface(settings).cost(item.bytes) for item in items)
    assert [item.bytes for item in items if item.name.startswith("retransmission")] == [MAX_PACKET] * 2
    without = parameters(retransmissions=0, resends=2)
    assert not [item for item in overhead(without, Interface(without), MAX_PACKET) if "retransmission" in item.name]


def test_more_retransmissions_admit_less() -> None:
    def admitted(retransmissions: int) -> int:
        turn = Turn(parameters(retransmissions=retransmissions, hold=Duration(6 * MS)), "p1", 10 * MS, MAX_PACKET)
        verdicts, _ = turn.admit([Demand(f"m{number}", 60 * MS, 100 * MS, size=1000) for number in range(40)])
        return sum(verdict.is_admitted for verdict in verdicts)

    counts = [admitted(retransmissions) for retransmissions in range(6)]
    assert counts == sorted(counts, reverse=True)
    assert counts[0] > counts[1] > counts[4] > counts[5] == 0


# --- verdicts -------------------------------------------------------------------------------------------------------------------


def test_a_deadline_shorter_than_delta_and_a_rotation_is_rejected_with_the_nearest_one() -> None:
    verdict = small(1000, 10 * MS).judge(Demand("m", 19 * MS, size=10), 0)
    assert (verdict.term, verdict.visits, verdict.share, verdict.nearest) == ("visits", 0, 0, 20 * MS)
    assert verdict.text == "n < 1: the deadline of m (19ms) is shorter than Delta + P = 20 ms"


def test_too_much_for_a_turn_is_rejected_with_the_deadline_at_which_its_pieces_are_small_enough() -> None:
    turn = small(100, 10 * MS)
    verdict = turn.judge(Demand("m", 20 * MS, cost=250), turn.reserved)
    assert (verdict.term, verdict.visits, verdict.share, verdict.nearest) == ("load", 1, 250, 40 * MS)
    assert verdict.load == turn.reserved + 250


def test_a_deadline_longer_than_the_period_is_rejected_and_no_longer_one_helps() -> None:
    verdict = small(100, 10 * MS).judge(Demand("m", 50 * MS, 40 * MS, size=10), 0)
    assert (verdict.term, verdict.nearest) == ("period", None)
    assert verdict.hopeless == "a deadline must not be longer than the period, 40ms"


def test_where_no_deadline_helps_it_is_said_why() -> None:
    turn = small(100, 10 * MS)
    too_frequent = turn.judge(Demand("m", 20 * MS, 30 * MS, cost=250), turn.reserved)
    assert (too_frequent.term, too_frequent.nearest) == ("load", None)
    assert too_frequent.hopeless == "40ms would do, but a deadline must not be longer than the period, 30ms"
    full = turn.judge(Demand("m", 20 * MS, size=250), turn.hold)
    assert full.nearest is None
    assert "0 of T are left" in full.hopeless


def test_what_has_waited_for_its_promise_has_less_time() -> None:
    turn = small(1000, 10 * MS)
    demand = Demand("m", 30 * MS, size=10)
    assert turn.judge(demand, turn.reserved, waited=10 * MS).visits == 1
    late = turn.judge(demand, turn.reserved, waited=11 * MS)
    assert (late.term, late.nearest) == ("visits", 31 * MS)


def test_demands_are_admitted_in_their_order_and_the_rejected_are_told_what_would_do_beside_all_others() -> None:
    turn = small(100, 10 * MS)
    demands = [Demand("a", 20 * MS, cost=60), Demand("b", 20 * MS, cost=60), Demand("c", 20 * MS, cost=20)]
    verdicts, used = turn.admit(demands)
    assert [verdict.is_admitted for verdict in verdicts] == [True, False, True]
    assert used == turn.reserved + 80
    assert verdicts[1].nearest == 40 * MS, "60 in three pieces of 20"
    assert turn.demanded(demands) == turn.reserved + 140


demands = st.builds(
    Demand,
    name=st.just("m"),
    deadline=st.integers(1, 90),
    period=st.one_of(st.just(0), st.integers(1, 140)),
    size=st.integers(0, 700),
    cost=st.one_of(st.none(), st.integers(1, 60)),
)


@given(demands, st.integers(1, 400), st.integers(1, 12), st.integers(0, 2), st.integers(0, 40))
def test_the_nearest_deadline_is_what_trying_them_all_finds(
    demand: Demand, room: int, rotation: int, retransmissions: int, waited: int
) -> None:
    turn = small(room, rotation, retransmissions=retransmissions)
    verdict = turn.judge(demand, turn.reserved, waited=waited)
    longest = demand.period or turn.delay + rotation * 80 + waited
    found = None
    for deadline in range(demand.deadline, longest + 1):
        if turn.judge(Demand("m", deadline, demand.period, demand.size, demand.cost), turn.reserved, waited=waited).is_admitted:
            found = deadline
            break
    if verdict.is_admitted:
        assert found == demand.deadline
    else:
        assert verdict.nearest == found
        assert (verdict.nearest is None) == bool(verdict.hopeless)


@given(demands, st.integers(1, 400), st.integers(1, 12), st.integers(1, 12))
def test_a_larger_rotation_never_makes_a_share_smaller(demand: Demand, room: int, rotation: int, more: int) -> None:
    shorter, longer = small(room, rotation), small(room, rotation + more)
    if longer.visits(demand.deadline) >= 1:
        assert longer.share(demand, longer.visits(demand.deadline)) >= shorter.share(demand, shorter.visits(demand.deadline))


# --- Lemma 1, Lemma 2, Theorem 1 ------------------------------------------------------------------------------------------------


@st.composite
def sets(draw: st.DrawFn, rotation: int) -> list[Demand]:
    """Periodic messages of any kind; many sets of them are too much."""
    found = []
    for number in range(draw(st.integers(1, 6))):
        deadline = draw(st.integers(2 * rotation, 9 * rotation))
        period = deadline + draw(st.integers(0, 4 * rotation))
        found.append(Demand(f"m{number}", deadline, period, size=draw(st.integers(0, 900))))
    return found


@given(st.data(), st.integers(40, 500), st.sampled_from((0, 1, 2)))
def test_theorem_1_is_sufficient_and_pieces_go_out_in_a_turn_that_begins_within_p(
    data: st.DataObject, room: int, retransmissions: int
) -> None:
    rotation = 5_000
    turn = small(room, rotation, retransmissions=retransmissions)
    verdicts, _ = turn.admit(data.draw(sets(rotation)))
    admitted = [verdict.demand for verdict in verdicts if verdict.is_admitted]
    turns = Turns(turn, admitted, arrivals=data.draw, max_packet=200)
    for sent in turns.run(rotations=30, adversary=data.draw):
        assert sent.turn < sent.released + rotation
        if sent.is_last:
            visits = turn.visits(sent.demand.deadline)
            assert sent.turn <= sent.arrived + visits * rotation
            assert sent.turn + turn.delay <= sent.arrived + sent.demand.deadline, "Lemma 2: it arrives in time"


def test_theorem_1_is_not_necessary() -> None:
    """Two messages that are not worth cutting: n = 2 for each, and together they are more than a turn. But one turn for the one
    and the next for the other are enough, whichever way their periods fall."""
    rotation = 5_000
    turn = small(100, rotation, header=50)
    both = [Demand(name, 3 * rotation, 4 * rotation, size=20) for name in ("a", "b")]
    verdicts, _ = turn.admit(both)
    assert [verdict.is_admitted for verdict in verdicts] == [True, False]
    assert verdicts[1].term == "load"
    for phase in range(0, 4 * rotation, 250):
        turns = Turns(turn, both, phases=[0, phase], max_packet=200)
        last = [sent for sent in turns.run(rotations=40, gap=rotation) if sent.is_last]
        assert len(last) > 15
        assert all(sent.turn <= sent.arrived + 2 * rotation for sent in last), phase


def test_without_admission_deadlines_are_missed() -> None:
    """That the check above can fail: three of those messages are too many."""
    rotation = 5_000
    turn = small(100, rotation, header=50)
    crowd = [Demand(name, 3 * rotation, 3 * rotation, size=20) for name in ("a", "b", "c", "d")]
    turns = Turns(turn, crowd, phases=[0, 0, 0, 0], max_packet=200)
    last = [sent for sent in turns.run(rotations=40, gap=rotation) if sent.is_last]
    assert any(sent.turn > sent.arrived + 2 * rotation for sent in last)


def test_lemma_1_holds_of_the_beginning_of_the_turn_and_not_of_its_end() -> None:
    """T = 100, P = 5000. The turn at 0 has nothing to send; the token leaves at 20, and a packet of 90 is released at 5. The next
    turn begins at 4920 at the latest, within P of the release, but the packet is through at 5010."""
    rotation = 5_000
    turn = small(100, rotation, header=0)
    demand = Demand("m", 2 * rotation, 3 * rotation, size=90)
    turns = Turns(turn, [demand], phases=[5], max_packet=200, kept=20)
    first = next(turns.run(rotations=3, gap=rotation))
    assert first.released == 5
    assert first.turn - first.released < rotation
    assert first.end - first.released > rotation


def test_the_pieces_of_one_stream_are_never_closer_than_p() -> None:
    """What stands for C3 of Lemma 2: n P <= d - Delta < d <= period."""
    rotation = 7
    turn = small(1000, rotation)
    for deadline in range(2 * rotation, 20 * rotation):
        visits = turn.visits(deadline)
        last_release, next_message = (visits - 1) * rotation, deadline
        assert next_message - last_release >= 2 * rotation


def test_default_parameters_promise_something() -> None:
    """The defaults are of use: a sensor that reports every 200 ms on a ring of four."""
    settings = Parameters()
    interface = Interface(settings)
    ring = ("p1", "p2", "p3", "p4")
    rotation = interface.rotation(ring, [interface.hold(process) for process in ring])
    turn = Turn(settings, "p1", rotation, MAX_PACKET)
    assert turn.reserved < turn.hold
    assert turn.judge(Demand("sensor", 200 * MS, 200 * MS, size=64), turn.reserved).is_admitted
    assert turn.judge(Demand("sensor", 500 * US, 200 * MS, size=64), turn.reserved).term == "visits"
