"""Parameters fitted to a network: what can be under way fits into the buffer, what was given stays."""

from __future__ import annotations

import itertools

import pytest

from plainchant.core.model import MS, SECOND, Duration
from plainchant.protocols.buffers import charge
from plainchant.protocols.registry import Surroundings, describe
from plainchant.protocols.sequencer.parameters import Parameters
from plainchant.protocols.sequencer.tuning import LEAST_HISTORY, LEAST_WINDOW, tune

MIB = 1 << 20


@pytest.mark.parametrize(
    ("members", "packet", "buffer"),
    list(itertools.product((2, 3, 5, 20), (1_400, 8_900, 60_000), (212_992, 1 * MIB, 4 * MIB, 64 * MIB))),
)
def test_what_can_be_on_its_way_to_one_receiver_fits_into_its_buffer(members: int, packet: int, buffer: int) -> None:
    tuned = tune(Parameters(), Surroundings(members, packet, buffer))
    requests = (members - 1) * tuned.window * charge(packet)
    broadcasts = tuned.history * charge(packet)
    assert requests <= buffer * 3 / 4 or tuned.window == LEAST_WINDOW
    assert broadcasts <= buffer * 3 / 4 or tuned.history == LEAST_HISTORY
    assert 1 <= tuned.acknowledge_every <= max(1, tuned.history // 4)


@pytest.mark.parametrize(("packet", "history", "window"), [(1_400, 1024, 128), (60_000, 47, 23)])
def test_four_mebibytes_keep_three_members_busy(packet: int, history: int, window: int) -> None:
    tuned = tune(Parameters(), Surroundings(3, packet, 4 * MIB))
    assert (tuned.history, tuned.window) == (history, window)
    assert tuned.history >= 4 * tuned.acknowledge_every


def test_a_datagram_is_charged_with_what_the_kernel_reserves() -> None:
    assert [charge(size) for size in (32, 148, 149, 1_400, 60_000)] == [768, 768, 1_280, 2_304, 65_792]


def test_where_the_transport_holds_back_the_history_is_bounded_by_memory() -> None:
    tuned = tune(Parameters(), Surroundings(3, 60_000, 0))
    assert 47 < tuned.history * 60_000 <= 16 * MIB


def test_what_is_given_stays_and_the_rest_fits_to_it() -> None:
    given = frozenset({"window", "history", "suspect_after", "retry_after"})
    own = Parameters(window=3, history=40, suspect_after=Duration(3 * SECOND), patience=Duration(6 * SECOND))
    tuned = tune(own, Surroundings(3, 60_000, 4 * MIB, given))
    assert {name: getattr(tuned, name) for name in given} == {name: getattr(own, name) for name in given}
    assert tuned.acknowledge_every == 10
    assert tuned.patience == 6 * SECOND


def test_times_are_patient_where_time_is_real_and_only_there() -> None:
    live = tune(Parameters(), Surroundings(3, 1_400, 4 * MIB))
    assert (live.suspect_after, live.patience, live.retry_after) == (SECOND, 5 * SECOND, 100 * MS)
    assert (live.heartbeat, live.quiet_after) == (20 * MS, 20 * MS)
    simulated = tune(Parameters(), Surroundings(3, 1_400, 4 * MIB, live=False))
    times = ("suspect_after", "patience", "retry_after", "sync_after", "nack_after", "nack_retries")
    assert all(getattr(simulated, name) == getattr(Parameters(), name) for name in times)


def test_times_that_were_given_bound_those_that_were_not() -> None:
    short = tune(Parameters(patience=Duration(600 * MS)), Surroundings(3, 1_400, MIB, frozenset({"patience"})))
    assert short.suspect_after == 300 * MS
    slow = Parameters(heartbeat=Duration(800 * MS), suspect_after=Duration(3 * SECOND), patience=Duration(6 * SECOND))
    assert tune(slow, Surroundings(3, 1_400, MIB, frozenset({"heartbeat"}))).suspect_after == 2_400 * MS


def test_the_registry_tunes() -> None:
    description = describe("sequencer")
    assert description.tune(Parameters(), Surroundings(3, 1_400, MIB)) == tune(Parameters(), Surroundings(3, 1_400, MIB))
