"""A member that crashes before the first block is complete is missed about as soon as one that crashes later."""

from __future__ import annotations

import pytest

from plainchant.core.model import MS, SECOND, Duration
from plainchant.scenario.model import Delay, Fault, Network, Scenario, Workload
from tests.protocols.runs import verified

from .membership_mutants import MUTANTS

OMEGA = 250
"""``suspect_after`` by default, in milliseconds."""
ABC = ("a", "b", "c")
SLOWER_WITHOUT = (6, 7, 8, 11, 18)
"""Seeds in which a suspicion is refuted before the first block is complete everywhere."""


def noticed(seed: int, *, at: int = 5, loss: float = 0.0) -> float:
    """c crashes while it sends its first message, which reaches one of the others: when (ms after that) both are without it."""
    crash = Fault(kind="crash", at=Duration(at * MS), process="c", mid_broadcast=True)
    found = verified(
        Scenario(
            protocol="newtop",
            seed=seed,
            members=ABC,
            groups={"g": ABC},
            duration=Duration(6 * SECOND),
            drain=Duration(30 * SECOND),
            workload=(Workload(rate=20.0),),
            fault=(crash,),
            network=Network(delay=Delay("uniform", Duration(MS // 2), Duration(3 * MS // 2)), loss=loss),
        )
    )
    assert not found.violated
    assert {tuple(found.of("view", name)[-1]["members"]) for name in "ab"} == {("a", "b")}
    return max(float(row["true_time"]) / MS - at for row in found.of("view") if "c" not in row["members"])


def test_a_member_that_only_some_have_heard_is_missed_within_two_omegas_and_a_round_of_words() -> None:
    assert all(noticed(seed) < 2.5 * OMEGA for seed in range(6))
    with MUTANTS.variants["what another suspects does not shorten the first omega"].applied():
        assert all(noticed(seed) > 4 * OMEGA for seed in range(6))


def test_a_refuted_suspicion_does_not_lengthen_omega() -> None:
    assert all(noticed(seed, loss=0.3) < 6 * OMEGA for seed in SLOWER_WITHOUT)
    with MUTANTS.variants["a block that was late for a suspicion is learned from"].applied():
        assert all(noticed(seed, loss=0.3) > 10 * OMEGA for seed in SLOWER_WITHOUT)


@pytest.mark.sweep
def test_an_early_crash_costs_little_more_than_a_late_one_where_much_is_lost(times: int) -> None:
    seeds = range(12 * times)
    early, late = (sorted(noticed(seed, at=at, loss=0.3) for seed in seeds) for at in (5, 2000))
    assert early[len(early) // 2] < late[len(late) // 2] + 2 * OMEGA
    assert early[-1] < 16 * OMEGA


def test_words_come_late_if_suspected_members_are_asked_for_them() -> None:
    seeds = (6, 24, 36)
    assert all(noticed(seed, loss=0.3) < 6 * OMEGA for seed in seeds)
    with MUTANTS.variants["suspected members are asked for what is missing"].applied():
        assert any(noticed(seed, loss=0.3) > 10 * OMEGA for seed in seeds)
