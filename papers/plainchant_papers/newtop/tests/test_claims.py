"""The claims of paper 001: each gives the verdict on record, and another one where the protocol or the model is another."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import pytest

from plainchant.core.model import MS
from plainchant.lab.properties import verify
from plainchant_papers import claims_of
from plainchant_papers.claims import FAILS, HOLDS, OPEN, REMARK, Context
from plainchant_papers.newtop import blocks, variants
from plainchant_papers.newtop.causal import Latency, one_group
from plainchant_papers.newtop.causes import Causes
from plainchant_papers.newtop.experiments import falls, rises, tendency
from plainchant_papers.newtop.sizes import Shape, bytes_of
from plainchant_papers.newtop.stations import COST, Experiment, Outcome, perform, scenario_of
from plainchant_papers.newtop.structures import EVERY_ORDER, chain, clique, members_of, random_run, ring, star
from plainchant_papers.newtop.transports import Round, compare, measure_round
from plainchant_papers.observe import trace_of
from plainchant_papers.runs import rows_of
from plainchant_papers.tests.remembered import Altered, Remembering, measured, on_record

LONG = frozenset({32, 35, 36, 49, 53, 55, 59, 60, 61})
"""They need many runs."""

test_the_verdict_is_the_one_on_record = on_record([*range(23, 40), *range(48, 62)], long=LONG)
"""Membership has tests of its own, and claim 62 is measured with sockets."""


def test_every_claim_has_a_verdict() -> None:
    assert OPEN not in {claim.expected for claim in claims_of("newtop")}


def test_chapters_3_to_5_and_8_are_about_static_groups() -> None:
    assert random_run(0, "total").parameters["suspect_after"] == 0
    assert scenario_of(Experiment(3, 100, 50)).parameters["suspect_after"] == 0


# --- a verdict can be another one -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("number", "field", "value"),
    [
        (23, "own", 1),
        (23, "delivered", 1),
        (23, "related", 1),
        (31, "in_group", 1),
        (31, "across", 1),
        (25, "late", 1),
        (25, "differs", 1),
        (28, "incomplete", 1),
        (28, "quiet", False),
        (27, "advanced", 1),
        (29, "violations", 1),
        (33, "missed", 1),
        (33, "invented", 1),
        (38, "violations", 1),
        pytest.param(55, "unstable", 21, marks=pytest.mark.sweep),
        (56, "quiet", False),
        (58, "quiet", False),
    ],
)
def test_a_single_exception_would_be_noticed(number: int, field: str, value: Any) -> None:
    altered = Altered(lambda found: dataclasses.replace(found, **{field: value}))
    assert measured(number, altered).verdict != HOLDS


def test_if_messages_as_printed_were_delivered_claims_37_and_39_would_hold() -> None:
    assert measured(37, Altered(lambda found: dataclasses.replace(found, at=2.0, prompt=0, quiet=True))).verdict == HOLDS
    assert measured(39, Altered(lambda found: dataclasses.replace(found, delivered=15, quiet=True))).verdict == HOLDS


@pytest.mark.sweep
def test_equal_delays_of_all_orders_would_hold() -> None:
    assert measured(35, Altered(lambda found: Latency(found.deliveries, 5.0, found.groups))).verdict == HOLDS


def test_a_number_a_member_in_total_order_would_be_noticed() -> None:
    context = Remembering()
    found = [bytes_of(Shape("one on another", 4, 2, order)) for order in EVERY_ORDER]
    context.once("bytes", lambda _: [dataclasses.replace(one, numbers=4) for one in found])
    assert measured(32, context).verdict == FAILS


def outcome(experiment: Experiment, **values: float) -> Outcome:
    """As if an experiment had come out so."""
    names = [f"p{number + 1}" for number in range(experiment.members)]
    return Outcome(
        experiment,
        unstable=dict.fromkeys(names, round(values.get("unstable", 2))),
        nulls=dict.fromkeys(names, round(values.get("nulls", 100))),
        delays=dict.fromkeys(names, values.get("delay", 50.0)),
        throughput=values.get("throughput", 10.0),
    )


class Made(Context):
    """A context in which experiments come out as a function says."""

    def __init__(self, made: Callable[[Experiment], Outcome]) -> None:
        super().__init__(None, quick=True)
        self._made = made

    def sweep(self, function: Callable[[Any], Any], items: Iterable[Any]) -> list[Any]:
        return [self._made(item) for item in items]


def test_experiments_that_go_the_claimed_way_hold() -> None:
    by_silence = Made(lambda e: outcome(e, unstable=e.silence, nulls=2000 - e.silence, delay=e.silence))
    assert [measured(number, by_silence).verdict for number in (48, 49, 53)] == [HOLDS, HOLDS, REMARK]
    by_interval = Made(
        lambda e: outcome(e, unstable=500 - e.interval, nulls=e.interval, delay=500 - e.interval, throughput=1000 / e.interval)
    )
    assert measured(50, by_interval).verdict == HOLDS
    steady = Made(lambda e: outcome(e, nulls=10_000 / e.silence**2 * 100))
    assert measured(51, steady).verdict == HOLDS
    assert measured(52, Made(lambda e: outcome(e, nulls=0))).verdict == HOLDS
    assert measured(53, Made(lambda e: outcome(e, delay=100 + e.silence / 10))).verdict == HOLDS
    flow = Made(lambda e: outcome(e, unstable=50 if e.blocks else 500, delay=100.0 if e.blocks or e.interval > 50 else 1000.0))
    assert measured(59, flow).verdict == HOLDS


def test_experiments_that_go_another_way_do_not() -> None:
    backwards = Made(lambda e: outcome(e, unstable=2000 - e.silence, nulls=e.silence, delay=2000 - e.silence))
    assert [measured(number, backwards).verdict for number in (48, 49, 51, 53)] == [FAILS] * 4
    assert measured(50, Made(lambda e: outcome(e, delay=e.interval))).verdict == FAILS
    assert measured(52, Made(lambda e: outcome(e, nulls=50))).verdict == FAILS
    assert measured(59, Made(lambda e: outcome(e, unstable=51, delay=100.0))).verdict == FAILS
    assert measured(59, Made(lambda e: outcome(e, delay=100.0))).verdict == FAILS, "no difference is none"


def test_what_rises_and_falls() -> None:
    assert rises([1, 2, 3])
    assert rises([100, 98, 110]), "a little less is nothing"
    assert not rises([100, 80, 110])
    assert not rises([1, 1, 1])
    assert falls([3, 2, 1])
    assert not falls([3, 1, 2])
    assert tendency([1, 2, 3, 4]) == pytest.approx(1)
    assert tendency([4, 3, 2, 1]) == pytest.approx(-1)
    assert tendency([2, 2, 2]) == 0


@pytest.mark.parametrize(
    ("message", "trip", "verdict"), [(0.5, 0.7, HOLDS), (0.7, 1.1, REMARK), (1.2, 0.9, FAILS), (0.5, 3.0, FAILS)]
)
def test_claim_62_is_judged_by_ratios(message: float, trip: float, verdict: str) -> None:
    """Not by what this machine does just now: that is for the command to say."""
    rounds = [Round("udp", 100 * message, 300 * trip), Round("tcp", 100, 300)] * 3
    assert compare(rounds).verdict == verdict


@pytest.mark.parametrize("transport", ["udp", "tcp"])
def test_a_round_with_sockets_measures_something(transport: str) -> None:
    found = measure_round(transport, 64)
    assert found.a_message > 0
    assert found.a_trip > 0


# --- what claims are measured with ----------------------------------------------------------------------------------


@pytest.mark.parametrize("order", ["total", "slow", "fast", "relative"])
def test_random_runs_keep_what_the_protocol_promises(order: str) -> None:
    for seed in range(3):
        result = verify(Causes().run(random_run(seed, order))[1])
        assert result.verdict == "holds", result.violations[0]


def test_observing_changes_nothing() -> None:
    run = random_run(1, "total")
    assert Causes().run(run)[1].equals(trace_of(run)[1])


def test_what_happened_before_is_what_the_reference_says() -> None:
    """A message that its observer puts before another one is never delivered behind it by who keeps causal order."""
    observer = Causes()
    _, table = observer.run(one_group(0, order="cbcast"))
    place: dict[str, dict[Any, int]] = {}
    for row in rows_of(table, "deliver"):
        order = place.setdefault(row["process"], {})
        order[row["group"], row["sender"], row["seq"]] = len(order)
    pairs = 0
    for one in observer.sent.values():
        for other in observer.sent.values():
            if one.before(other):
                pairs += 1
                assert all(order[one.message] < order[other.message] for order in place.values())
    assert pairs


def test_structures_overlap_as_they_say() -> None:
    def shared(groups: Mapping[str, tuple[str, ...]], one: str, other: str) -> int:
        return len(set(groups[one]) & set(groups[other]))

    assert shared(chain(3, 4), "g1", "g2") == 1
    assert shared(chain(3, 4), "g1", "g3") == 0
    assert [shared(ring(4, 3), one, other) for one, other in (("g1", "g2"), ("g4", "g1"), ("g1", "g3"))] == [1, 1, 0]
    assert {shared(star(3, 4), "g1", "g2"), shared(star(3, 4), "g1", "g3")} == {1}
    assert shared(clique(3, 4), "g1", "g3") == 4
    assert len(members_of(ring(4, 3))) == 8


def test_a_variant_breaks_what_it_is_made_to_break() -> None:
    run = blocks.fig_4_2a()
    assert blocks.verified((run, "safe1", ("total",))).violations
    assert not blocks.verified((run, "", ("total",))).violations
    assert set(variants.VARIANTS) >= {"safe1", "no second liveness", "counter a group", "fl1 alone", "N = 2"}


# --- the workstations -----------------------------------------------------------------------------------------------


def test_members_share_three_workstations() -> None:
    assert scenario_of(Experiment(6, 100, 50)).network.machines == (("p1", "p4"), ("p2", "p5"), ("p3", "p6"))
    assert scenario_of(Experiment(2, 100, 50)).network.machines == (("p1",), ("p2",))


def test_an_experiment_is_measured_as_defined() -> None:
    """One message, no costs: two null messages complete it, the slower of which is what everybody waits for."""
    found = perform(Experiment(3, 100, 100, messages=1, cost=0))
    assert found.all_nulls >= 2
    assert 50 <= found.delays["p1"] <= 102, "two ticks, and the way there and back"
    assert found.throughput == pytest.approx(1000 / (2 * 100), rel=0.5), "the message, then the replies"
    assert found.row()["unstable"] == found.most_unstable >= 1


def test_costs_occupy_the_workstations() -> None:
    calm = perform(Experiment(6, 10, 50, messages=60, cost=0))
    busy = perform(Experiment(6, 10, 50, messages=60, cost=COST))
    assert busy.delay > 4 * calm.delay
    assert busy.throughput < calm.throughput


def test_the_same_experiment_is_the_same_numbers() -> None:
    experiment = Experiment(4, 40, 100, messages=30, all_active=True, seed=3)
    assert perform(experiment) == perform(experiment)
    assert scenario_of(experiment).parameters["silence"] == 100 * MS
