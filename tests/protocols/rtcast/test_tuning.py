"""That live parameters fit together: a turn into the buffers, an overhead into a turn, and what was given stays."""

from __future__ import annotations

import dataclasses

import pytest

from plainchant.core.model import MS, SECOND, Duration
from plainchant.protocols.buffers import charge
from plainchant.protocols.registry import Surroundings, describe
from plainchant.protocols.rtcast import Parameters
from plainchant.protocols.rtcast.analysis import Demand, Turn
from plainchant.protocols.rtcast.interface import Interface
from plainchant.protocols.rtcast.tuning import HOLD, tune

MIB = 1 << 20
RING = ("p1", "p2", "p3")


def bytes_of_a_turn(parameters: Parameters) -> int:
    """With headers."""
    return parameters.bandwidth * int(parameters.hold) // (8 * SECOND)


@pytest.mark.parametrize("members", [2, 3, 5, 8])
@pytest.mark.parametrize("packet", [1_400, 8_000, 65_507])
@pytest.mark.parametrize("buffer", [4 * MIB, 8 * MIB, 0])
def test_what_all_send_in_a_rotation_fits_into_a_buffer(members: int, packet: int, buffer: int) -> None:
    tuned = tune(Parameters(), Surroundings(members, packet, buffer))
    packets = bytes_of_a_turn(tuned) // packet
    assert packets >= 2
    assert members * packets * charge(packet) <= (buffer or 16 * MIB)


@pytest.mark.parametrize("packet", [1_400, 65_507])
@pytest.mark.parametrize("buffer", [200_000, 4 * MIB, 0])
@pytest.mark.parametrize("retransmissions", [0, 1, 3])
def test_a_turn_has_room_for_a_full_packet_beside_its_overhead(packet: int, buffer: int, retransmissions: int) -> None:
    parameters = Parameters(retransmissions=retransmissions, resends=2)
    tuned = tune(parameters, Surroundings(3, packet, buffer, frozenset({"retransmissions", "resends"})))
    interface = Interface(tuned)
    rotation = interface.rotation(RING, [interface.hold(name) for name in RING])
    turn = Turn(tuned, "p1", rotation, packet)
    far = Duration(100 * rotation)
    assert turn.reserved + interface.cost(packet) <= turn.hold
    assert turn.judge(Demand("s", (retransmissions + 2) * rotation, far, packet), turn.reserved).is_admitted


def test_time_is_soft_where_it_is_real() -> None:
    live = tune(Parameters(), Surroundings(3, 1_400, 4 * MIB))
    assert live.timing == "soft"
    assert live.delay_max >= 100 * MS
    assert live.clocks == "synchronised"
    promised = {promise.name for promise in describe("rtcast").promises(live, {"g": RING})}
    assert "total" in promised
    assert not promised & {"deadline", "bounded"}
    assert describe("rtcast").bounds(live, {"g": RING}) == {"size": 8192}
    assert describe("rtcast").check(live, {"g": RING}) is None
    simulated = tune(Parameters(), Surroundings(3, 1_400, 4 * MIB, live=False))
    assert simulated == Parameters()


def test_a_drained_run_waits_as_long_as_a_member_is_waited_for() -> None:
    live = tune(Parameters(), Surroundings(3, 1_400, 4 * MIB))
    interface = Interface(live)
    assert (
        interface.patience([int(live.hold)]) + 2 * interface.probe(["p0", "p1", "p2"])
        < describe("rtcast").settle(live)
        < 3 * SECOND
    )


@pytest.mark.parametrize("name", [field.name for field in dataclasses.fields(Parameters)])
def test_what_was_given_stays(name: str) -> None:
    given = Parameters(holds={"p1": Duration(1 * MS)}, delivery="safe", admission=False)
    tuned = tune(given, Surroundings(3, 60_000, 4 * MIB, frozenset({name, "holds"})))
    assert getattr(tuned, name) == getattr(given, name)


def test_what_is_given_bounds_what_is_not() -> None:
    slow = tune(Parameters(bandwidth=10_000_000), Surroundings(3, 65_507, 4 * MIB, frozenset({"bandwidth"})))
    assert slow.bandwidth == 10_000_000
    assert bytes_of_a_turn(slow) >= 2 * 65_507
    assert slow.hold > HOLD
    short = tune(Parameters(hold=Duration(1 * MS)), Surroundings(3, 65_507, 4 * MIB, frozenset({"hold"})))
    assert bytes_of_a_turn(short) >= 2 * 65_507
    assert short.idle_hold <= short.hold == 1 * MS
    uneven = tune(Parameters(holds={"p1": Duration(2 * MS)}), Surroundings(3, 1_400, 4 * MIB, frozenset({"holds"})))
    assert uneven.bandwidth * 2 * MS // (8 * SECOND) >= 2 * 1_400


def test_the_description_has_it() -> None:
    surroundings = Surroundings(3, 1_400, 4 * MIB)
    assert describe("rtcast").tune(Parameters(), surroundings) == tune(Parameters(), surroundings)
