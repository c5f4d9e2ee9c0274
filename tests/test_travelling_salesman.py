"""The example of the travelling salesman: the right tour whoever crashes or comes, what sharing the bound is worth, and real
processes, one of them killed."""

from __future__ import annotations

import asyncio
import dataclasses
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest

import plainchant
from examples import travelling_salesman
from examples.travelling_salesman import (
    NODE_COST,
    NOTHING,
    Outcome,
    Problem,
    Worker,
    exact,
    free_peers,
    live,
    problems,
    serial,
    simulate,
)
from plainchant import View
from plainchant.lab.properties import verify
from plainchant.sim import Unfinished
from plainchant.trace import read
from plainchant.trace.collect import collect

SMALL = Problem(13, seed=4)
"""48,608 nodes: a quarter of a second for one on virtual time."""
MIDDLE = "60ms"
QUICK = {"suspect_after": "400ms", "patience": "2s"}


@pytest.fixture(scope="module")
def shortest() -> int:
    return serial(SMALL)[0]


@pytest.fixture(scope="module")
def four() -> Outcome:
    return simulate(SMALL, 4)


# --- the search -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("cities", range(5, 11))
@pytest.mark.parametrize("seed", range(3))
def test_branch_and_bound_finds_what_dynamic_programming_finds(cities: int, seed: int) -> None:
    problem = Problem(cities, seed)
    length, tour, nodes = serial(problem)
    assert length == exact(problem) == problem.length(tour)
    assert sorted(tour) == list(range(cities))
    assert nodes > 0


def test_the_same_seed_is_the_same_problem_and_another_is_another() -> None:
    assert Problem(9, 5).distances == Problem(9, 5).distances != Problem(9, 6).distances


def test_jobs_are_all_beginnings_the_most_promising_first() -> None:
    problem = Problem(7, 1, beginning=3)
    assert len(set(problem.jobs)) == len(problem.jobs) == 6 * 5
    bounds = [problem.bound(job) for job in problem.jobs]
    assert bounds == sorted(bounds)


def test_a_problem_without_jobs_is_refused() -> None:
    with pytest.raises(plainchant.UsageError, match="take 3 to 30 cities"):
        Problem(4, beginning=4)


# --- on virtual time --------------------------------------------------------------------------------------------------


def test_four_workers_find_it_almost_four_times_as_fast(four: Outcome, shortest: int) -> None:
    assert problems(four, shortest) == []
    alone = serial(SMALL)[2] * NODE_COST
    assert 3 < alone / four.seconds < 5
    assert all(report.jobs > 0 for report in four.reports.values())


def test_a_broadcast_costs_about_two_packets(four: Outcome) -> None:
    """Seed 004, section 1: one packet to the sequencer and one to everybody; the rest is coming, going, and acknowledging."""
    summary = four.result.summary
    assert 1.5 < summary.packets_sent / summary.messages_sent < 2.5
    bounds = sum(report.bounds for report in four.reports.values())
    jobs = sum(report.jobs for report in four.reports.values())
    assert summary.messages_sent == bounds + jobs
    assert bounds > 0


def test_without_the_bounds_of_others_more_is_searched(four: Outcome, shortest: int) -> None:
    apart = simulate(SMALL, 4, share=False)
    assert problems(apart, shortest) == []
    assert apart.nodes > 1.2 * four.nodes
    assert apart.seconds > 1.2 * four.seconds


@pytest.mark.parametrize("seed", range(3))
def test_who_crashes_leaves_its_jobs_to_the_others(seed: int, shortest: int) -> None:
    faults = [{"kind": "crash", "process": process, "at": at} for process, at in (("p1", "20ms"), ("p3", MIDDLE))]
    outcome = simulate(SMALL, 5, seed=seed, faults=faults, network={"delay": "100us", "loss": 0.05})
    assert problems(outcome, shortest) == []
    assert set(outcome.reports) == {"p2", "p4", "p5"}
    assert all(report.inherited > 0 for report in outcome.reports.values())


def test_who_comes_later_helps(shortest: int) -> None:
    faults = [{"kind": "crash", "process": "p2", "at": "5ms"}, {"kind": "restart", "process": "p2", "at": "10ms"}]
    outcome = simulate(SMALL, 3, faults=faults, parameters={"suspect_after": "60ms"})
    assert problems(outcome, shortest) == []
    assert set(outcome.reports) == {"p1", "p3", "p2#1"}
    assert outcome.reports["p2#1"].jobs > 0


class Careless(Worker):
    """Forgets what the dead had."""

    def _see(self, view: View) -> None:
        for member in [member for member in self.hands if member not in view.members]:
            self.hands[member].clear()
        super()._see(view)


class Stubborn(Worker):
    """Waits for the dead."""

    def _see(self, view: View) -> None:
        before = dict(self.hands)
        self.hands = {}
        super()._see(dataclasses.replace(view, members=tuple(dict.fromkeys((*before, *view.members)))))
        self.hands.update({member: jobs for member, jobs in before.items() if jobs})


class Blind(Worker):
    """Finds tours and tells nobody."""

    async def _say(self, *words: Any) -> None:
        if words[0] != "bound":
            await super()._say(*words)


def test_jobs_that_nobody_takes_over_are_missed(shortest: int) -> None:
    """The shortest tour is in two jobs, one for each direction; some two workers have both when they crash."""
    few = dataclasses.replace(SMALL, beginning=2)
    lost = []
    for pair in combinations(("p1", "p2", "p3", "p4", "p5"), 2):
        faults = [{"kind": "crash", "process": process, "at": "1ms"} for process in pair]
        assert problems(simulate(few, 5, faults=faults, verify=False), shortest) == []
        lost += problems(simulate(few, 5, faults=faults, verify=False, worker=Careless), shortest)
    assert any(f"the shortest is {shortest}" in problem for problem in lost)


def test_who_waits_for_the_dead_waits_for_ever() -> None:
    with pytest.raises(Unfinished):
        simulate(SMALL, 4, worker=Stubborn, faults=[{"kind": "crash", "process": "p1", "at": "1ms"}], limit="2s")


def test_tours_that_nobody_is_told_of_are_missed(shortest: int) -> None:
    assert "p1 has no tour through every city once" in problems(simulate(SMALL, 2, worker=Blind), shortest)


def test_what_is_wrong_is_told(four: Outcome, shortest: int) -> None:
    report = four.reports["p2"]

    def changed(**changes: Any) -> list[str]:
        return problems(Outcome(SMALL, {**four.reports, "p2": dataclasses.replace(report, **changes)}, four.result), shortest)

    assert changed() == []
    assert changed(tour=report.tour[::-1]) == ["p2 has another tour than p1"]
    assert changed(length=1) == [f"p2 says that its tour is 1 long, and it is {shortest}"]
    assert changed(tour=report.tour[:-1])[1:] == ["p2 has no tour through every city once"]
    assert problems(four, 1)[0] == f"p1 has a tour of {shortest}; the shortest is 1"


# --- real processes ---------------------------------------------------------------------------------------------------


def test_real_processes_find_it_though_one_is_killed(shortest: int, tmp_path: Path) -> None:
    outcome = asyncio.run(live(SMALL, free_peers(3), kill=["w2"], parameters=QUICK, trace=str(tmp_path / "spools")))
    assert problems(outcome, shortest) == []
    assert set(outcome.reports) == {"w1", "w3"}
    assert all(report.inherited > 0 for report in outcome.reports.values())
    collect([tmp_path / "spools"], tmp_path)
    result = verify(read(tmp_path / "trace").table)
    assert [violation.sentence for violation in result.violations] == []


def test_a_worker_that_cannot_start_ends_the_run(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(plainchant.PlainchantError, match="has ended with status 1"):
        asyncio.run(live(SMALL, free_peers(1), parameters={"history": 0}))
    assert "history" in capfd.readouterr().err


def test_one_command_prints_the_table(capsys: pytest.CaptureFixture[str]) -> None:
    assert travelling_salesman.main(["--simulated", "--cities", "9", "--seed", "2", "--workers", "1", "3"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("9 cities (seed 2), 336 jobs; the shortest tour is")
    assert [line.split()[0] for line in lines[-2:]] == ["1", "3"]
    assert str(NOTHING) not in "".join(lines)


def test_a_wrong_number_of_cities_is_told_without_a_traceback(capsys: pytest.CaptureFixture[str]) -> None:
    assert travelling_salesman.main(["--cities", "99"]) == 2
    assert "take 3 to 30 cities" in capsys.readouterr().err
    assert travelling_salesman.main(["--workers", "2", "0"]) == 2
    assert "take at least one" in capsys.readouterr().err
