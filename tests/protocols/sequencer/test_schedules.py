"""Fault schedules that hypothesis makes up, and shrinks when one of them breaks a promise."""

from __future__ import annotations

import pytest
from hypothesis import Phase, example, given, settings
from hypothesis import strategies as st

from plainchant.core.model import MS, SECOND, Duration
from plainchant.protocols.sequencer.log import Log
from plainchant.protocols.variants import Replacement, Variant
from plainchant.scenario import find, load
from plainchant.scenario.model import Delay, Fault, Network, Scenario, Workload

from . import sweep

MEMBERS = ("p1", "p2", "p3", "p4", "p5")

moments = st.integers(0, 800).map(lambda n: Duration(n * MS))
lengths = st.integers(1, 400).map(lambda n: Duration(n * MS))
names = st.sampled_from(MEMBERS)


def _parts(first: set[str]) -> tuple[tuple[str, ...], ...]:
    return tuple(sorted(first)), tuple(process for process in MEMBERS if process not in first)


faults = st.one_of(
    st.builds(Fault, kind=st.just("crash"), at=moments, process=names, mid_broadcast=st.booleans()),
    st.builds(Fault, kind=st.just("restart"), at=moments, process=names),
    st.builds(Fault, kind=st.just("leave"), at=moments, process=names),
    st.builds(Fault, kind=st.just("pause"), at=moments, process=names, length=lengths),
    st.builds(
        Fault,
        kind=st.just("partition"),
        at=moments,
        length=lengths,
        parts=st.sets(names, min_size=1, max_size=4).map(_parts),
    ),
    st.builds(Fault, kind=st.just("cut"), at=moments, length=lengths, source=names, target=names),
    st.builds(Fault, kind=st.just("clog"), at=moments, length=lengths, source=names, target=names, delay=lengths),
    st.builds(Fault, kind=st.just("loss"), at=moments, length=lengths, source=names, target=names, rate=st.just(0.7)),
)


@given(
    schedule=st.lists(faults, max_size=8),
    seed=st.integers(0, 1_000),
    history=st.sampled_from((3, 8, 64)),
    resilience=st.sampled_from((0, 0, 1, 2)),
)
@settings(max_examples=60, phases=(Phase.explicit, Phase.generate, Phase.shrink))
@example(
    # The view without the one cut off was proposed to one who had just crashed; both others are a majority.
    schedule=[
        Fault(kind="crash", at=Duration(0), process="p2"),
        Fault(kind="crash", at=Duration(0), process="p3"),
        Fault(kind="crash", at=Duration(524 * MS), process="p4"),
        Fault(kind="partition", at=Duration(512 * MS), length=Duration(172 * MS), parts=_parts({"p5"})),
    ],
    seed=0,
    history=3,
    resilience=0,
)
@example(
    # A sequencer that slept, numbered for itself, and wished to leave was excluded: it has not left, it halts.
    schedule=[
        Fault(kind="pause", at=Duration(309 * MS), process="p1", length=Duration(279 * MS)),
        Fault(kind="crash", at=Duration(378 * MS), process="p5"),
        Fault(kind="crash", at=Duration(0), process="p3"),
        Fault(kind="leave", at=Duration(410 * MS), process="p1"),
        Fault(kind="partition", at=Duration(12 * MS), length=Duration(203 * MS), parts=_parts({"p5", "p3"})),
        Fault(kind="partition", at=Duration(430 * MS), length=Duration(82 * MS), parts=_parts({"p1", "p4", "p2"})),
        Fault(kind="clog", at=Duration(566 * MS), length=Duration(60 * MS), source="p2", target="p1", delay=Duration(93 * MS)),
    ],
    seed=193,
    history=8,
    resilience=0,
)
def test_no_schedule_of_faults_breaks_a_promise(schedule: list[Fault], seed: int, history: int, resilience: int) -> None:
    scenario = Scenario(
        protocol="sequencer",
        name="schedule",
        seed=seed,
        duration=Duration(1 * SECOND),
        drain=Duration(30 * SECOND),
        members=MEMBERS,
        groups={"g": MEMBERS},
        parameters={"history": history, "window": 4, "resilience": resilience},
        network=Network(delay=Delay("uniform", Duration(MS // 2), Duration(2 * MS)), loss=0.03, duplicate=0.03, reorder=0.05),
        workload=(Workload(rate=60.0, arrivals="poisson"),),
        fault=tuple(schedule),
    )
    outcome = sweep.run(seed, scenario=scenario, least_events=0)
    # Uniformity is promised against at most `resilience` lost members, and these schedules may lose more.
    broken = [name for name in outcome.violated if name not in ("uniform", "total") or resilience == 0]
    assert not broken, [violation.sentence for violation in outcome.verification.violations[:3]]
    assert not outcome.lost_needlessly


@pytest.mark.parametrize("seed", range(6))
def test_who_leaves_under_load_is_let_go(seed: int) -> None:
    """Seed 5 once never ended: the one who had just left was noted as leaving again. The sequencer leaves here too."""
    outcome = sweep.run(seed, scenario=load(find("join-and-leave"), (f"seed={seed}",)), least_events=0)
    assert not outcome.violated
    assert [end.state for end in outcome.summary.processes.values()].count("left") == 2


def test_a_view_that_binds_the_survivors_to_the_dead_is_withdrawn() -> None:
    """p3 is cut off, the sequencer proposes {p1, p2}, and p2 dies before it answers. p1 and p3 are a majority of the view in
    force: they go on, because p1 knows that its proposal took effect nowhere. Kept, it would have to be decided by p2 too."""
    members = ("p1", "p2", "p3")
    cut = Fault(kind="partition", at=Duration(500 * MS), length=Duration(340 * MS), parts=(("p1", "p2"), ("p3",)))
    scenario = Scenario(
        protocol="sequencer",
        name="withdrawn",
        duration=Duration(1_500 * MS),
        drain=Duration(30 * SECOND),
        members=members,
        groups={"g": members},
        workload=(Workload(rate=50.0),),
        fault=(cut, Fault(kind="crash", at=Duration(640 * MS), process="p2")),
    )
    outcome = sweep.run(0, scenario=scenario, least_events=0)
    assert not outcome.violated
    assert [outcome.summary.processes[name].state for name in members] == ["alive", "crashed", "alive"]
    bound = Variant("a proposal outlives its office", (Replacement(Log, "withdraw", lambda log, number, in_force: None),))
    with bound.applied(must_act=True):
        kept = sweep.run(0, scenario=scenario, least_events=0)
    assert [kept.summary.processes[name].state for name in members] == ["halted", "crashed", "halted"]
