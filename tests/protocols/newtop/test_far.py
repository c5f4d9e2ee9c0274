"""Round trips of several omegas, with the default parameters: members stay together, parts meet, joiners are let in."""

from __future__ import annotations

import pytest

from . import far
from .membership_mutants import MUTANTS


@pytest.mark.parametrize("members", far.SIZES)
@pytest.mark.parametrize(("round_trip", "loss"), [(0.5, 0.3), (2, 0.3), (8, 0.3), (10, 0.1), (10, 0.3)])
def test_members_stay_together(round_trip: float, loss: float, members: int) -> None:
    found = far.run("stay", members, round_trip=round_trip, members=members, loss=loss)
    assert not found.violated
    assert found.summary.quiet
    assert len(found.of("view")) == members


def test_if_members_did_not_take_the_time_for_repairs_they_would_part() -> None:
    with MUTANTS.variants["disagreement takes no account of how long blocks take"].applied():
        assert len(far.run("stay", 3, round_trip=10, members=3, loss=0.3).of("view")) > 3


@pytest.mark.parametrize(("round_trip", "loss", "members"), [(1, 0.3, 8), (5, 0.1, 3), (10, 0.1, 2), (10, 0.3, 3)])
def test_parts_meet_at_the_first_attempt(round_trip: float, loss: float, members: int) -> None:
    found = far.run("merge", 0, round_trip=round_trip, members=members, loss=loss)
    assert found.summary.quiet
    assert set(found.violated) <= ({"progress"} if round_trip > far.PROMISED else set())
    assert max(len(found.of("view", name)) for name in far.MEMBERS[:members]) <= far.expected_views("merge")
    assert far.together_at(found, members) is not None


def test_if_late_answers_taught_nothing_parts_would_meet_later() -> None:
    settings = {"round_trip": 10, "members": 2, "loss": 0.1}
    soon = far.together_at(far.run("merge", 0, **settings), 2)
    with MUTANTS.variants["late answers teach nothing"].applied():
        late = far.together_at(far.run("merge", 0, **settings), 2)
    assert soon is not None
    assert late is None or late > soon + 1


@pytest.mark.parametrize("members", [2, 3, 5])
def test_a_majority_lets_a_joiner_in(members: int) -> None:
    found = far.run("join", members, round_trip=10, members=members, loss=0.3)
    assert not found.violated
    assert not found.of("crash")
    assert far.together_at(found, members + 1) is not None


def test_if_its_distance_did_not_count_the_joiner_would_give_up() -> None:
    with MUTANTS.variants["how far a joiner is does not count"].applied():
        runs = [far.run("join", members, round_trip=10, members=members, loss=0.3) for members in (2, 3, 5)]
    assert any(far.together_at(found, members + 1) is None for found, members in zip(runs, (2, 3, 5), strict=True))
