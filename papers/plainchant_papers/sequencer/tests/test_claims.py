"""The claims of paper 004: each gives the verdict on record, and another one where the protocol or the model is another."""

from __future__ import annotations

import dataclasses

import pytest

from plainchant.core.model import SECOND, Duration
from plainchant.lab.properties import verify
from plainchant.scenario import find, load
from plainchant.sim import Simulation
from plainchant.trace import TraceBuffer
from plainchant_papers.claims import FAILS, HOLDS
from plainchant_papers.sequencer.baselines import BASELINES
from plainchant_papers.sequencer.broadcasts import Counts, baseline, count
from plainchant_papers.sequencer.ethernet import (
    FIG_6,
    FIG_7_DELAY,
    FIG_7_RATE,
    Costs,
    Load,
    Performance,
    calibration,
    perform,
    scenario_of,
)
from plainchant_papers.tests.remembered import Altered, Remembering, measured, on_record

LONG = frozenset({5, 6, 8, 9, 10, 12, 13, 14, 15, 21, 22})
"""They need many runs, or the calibration."""

test_the_verdict_is_the_one_on_record = on_record(range(1, 23), long=LONG)


# --- a verdict can be another one -----------------------------------------------------------------------------------


def one_more_packet(found: Counts) -> Counts:
    """As if every broadcast were acknowledged by somebody."""
    return dataclasses.replace(
        found, packets={**found.packets, "More": found.messages}, interrupts={**found.interrupts, "More": found.messages}
    )


@pytest.mark.parametrize("number", [1, 2, 3, 11, 16, 17])
def test_a_packet_more_for_a_broadcast_would_be_noticed(number: int) -> None:
    assert measured(number, Altered(one_more_packet)).verdict == FAILS


def test_purging_too_much_would_be_noticed() -> None:
    assert measured(4, Altered(lambda low: low + 1)).verdict == FAILS


@pytest.mark.parametrize(
    ("number", "field"),
    [
        pytest.param(5, "again", marks=pytest.mark.sweep),
        (7, "not_empty"),
        (7, "behind"),
        (18, "waited"),
        pytest.param(21, "lost_of_others", marks=pytest.mark.sweep),
    ],
)
def test_a_single_exception_would_be_noticed(number: int, field: str) -> None:
    altered = Altered(lambda found: dataclasses.replace(found, **{field: 1}))
    assert measured(number, altered).verdict == FAILS


def test_without_storage_at_the_others_claim_20_would_hold() -> None:
    assert measured(20, Altered(lambda kept: 0)).verdict == HOLDS


def test_a_perfect_prediction_would_be_called_one() -> None:
    """The document's own Fig. 7, as if the model had said it."""
    context = Remembering()
    paper = {
        senders: Performance(rate, dict.fromkeys([f"p{n + 1}" for n in range(senders)], FIG_7_DELAY[senders]), {}, 0, 0.2)
        for senders, rate in FIG_7_RATE.items()
    }
    context.once("heavy load", lambda _: paper)
    assert [measured(number, context).verdict for number in (12, 13, 14, 22)] == [HOLDS] * 4
    slow = Remembering()
    slow.once("heavy load", lambda _: {n: dataclasses.replace(run, rate=600) for n, run in paper.items()})
    assert [measured(number, slow).verdict for number in (12, 13, 22)] == [FAILS] * 3


# --- the cost model -------------------------------------------------------------------------------------------------


def shipped_costs() -> Costs:
    network = load(find("ethernet-1989")).network
    return Costs(network.send_cost, network.receive_cost)


@pytest.mark.parametrize("size", [2, 5, 10])
def test_the_shipped_scenario_has_the_costs_that_fit_fig_6(size: int) -> None:
    found = perform(scenario_of(Load(shipped_costs(), size, ("p2",), seconds=0.4)))
    assert found.delays["p2"] == pytest.approx(FIG_6[size], abs=0.01)
    assert found.lost == 0


@pytest.mark.sweep
def test_the_fit_finds_them_from_anywhere() -> None:
    found = calibration(Remembering())
    assert found.costs.send == pytest.approx(shipped_costs().send, abs=3_000)
    assert found.costs.receive == pytest.approx(shipped_costs().receive, abs=3_000)
    assert found.worst < 0.01


# --- baselines ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", BASELINES)
@pytest.mark.parametrize("members", [2, 3, 7])
def test_a_baseline_delivers_everything_everywhere(name: str, members: int) -> None:
    run = count(baseline(name, members, 20))
    assert (run.messages, run.delivered) == (20, 20 * members)


def test_a_token_site_orders_several_senders_alike() -> None:
    scenario = baseline("token-site", 4, 20)
    everybody = dataclasses.replace(scenario.workload[0], senders=())
    trace = TraceBuffer()
    Simulation(dataclasses.replace(scenario, workload=(everybody,)), trace=trace, description=BASELINES["token-site"]).run()
    found = verify(trace.table(), ["identical", "integrity", "fifo"])
    assert found.verdict == "holds"
    assert found.properties["identical"].cases > 0


def test_an_idle_token_site_costs_a_third_packet() -> None:
    """Two to three packets a broadcast, by how much there is to do (section 4)."""
    scenario = baseline("token-site", 4, 20)
    rarely = dataclasses.replace(scenario.workload[0], closed=0, rate=20.0)
    run = count(dataclasses.replace(scenario, workload=(rarely,), duration=Duration(2 * SECOND)))
    assert run.packets == {"Data": 20, "Order": 20, "Accept": 20}
