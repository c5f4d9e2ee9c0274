"""Paper 002, section 1.3: processor groups by new-group and present messages, the table of server groups (claim 107)."""

from __future__ import annotations

import pytest

from plainchant.core.model import MS, Duration
from plainchant.protocols.dedos.nodes_packets import Claim
from plainchant.scenario.model import Delay, Network
from tests.protocols.dedos.speakers import DELTA, PI, Speaker, Town, fault, town_of

CLOCKS = {"n1.a": 4.0, "n2.a": -3.0, "n3.a": 0.5}
"""They differ by 7 ms."""


def slow(longest: float) -> Network:
    """Packets take up to so many milliseconds."""
    return Network(delay=Delay("uniform", Duration(0), Duration(round(longest * MS))))


def formed(town: Town, *processes: str) -> list[tuple[int, tuple[str, ...]]]:
    """The groups of these processes, which have to be the same from each one's first group on, and formed when the clock showed a
    delta after the round."""
    groups = sorted(map(town.groups, processes))
    for own in groups:
        assert all(clock == identity + DELTA for identity, clock, _ in own)
        assert own == [group for group in groups[0] if group >= own[0]]
    return [(identity, members) for identity, _, members in groups[0]]


# --- joining ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(4))
def test_107_a_join_is_agreed_by_t_plus_2_delta(seed: int) -> None:
    """n4 starts at T = 400 ms. Delays with clocks stay below delta. All four are in the group T + delta at T + 2 delta."""
    town = Town(town_of(3), fault("join", 400, process="n4.a"), later=("n4.a",), clocks=CLOCKS, network=slow(42), seed=seed)
    assert formed(town, *town.speakers)[-1] == (450 * MS, ("n1", "n2", "n3", "n4"))
    assert town.groups("n4.a") == [(450 * MS, 500 * MS, ("n1", "n2", "n3", "n4"))]


def test_107_nodes_that_start_together_form_one_group() -> None:
    town = Town(town_of(5), network=slow(42))
    assert formed(town, *town.speakers) == [(DELTA, ("n1", "n2", "n3", "n4", "n5"))]


@pytest.mark.parametrize("seed", range(4))
def test_107_a_crash_while_somebody_joins(seed: int) -> None:
    """n3 has got the new-group message, and crashes before the round at T + delta: it is not in the group that is formed then."""
    town = Town(
        town_of(3),
        fault("join", 400, process="n4.a"),
        fault("crash", 446, process="n3.a"),
        later=("n4.a",),
        clocks=CLOCKS,
        network=slow(42),
        seed=seed,
    )
    assert formed(town, "n1.a", "n2.a", "n4.a")[-1] == (450 * MS, ("n1", "n2", "n4"))
    assert town.groups("n4.a") == [(450 * MS, 500 * MS, ("n1", "n2", "n4"))]


def test_107_without_the_bound_there_is_no_agreement() -> None:
    """Packets that take up to 90 ms with a delta of 50: some presents come after T + 2 delta."""
    towns = [Town(town_of(4), network=slow(90), seed=seed, length=140) for seed in range(4)]
    assert any(len({tuple(town.groups(process)) for process in town.speakers}) > 1 for town in towns)


# --- failures ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("at", [351, 399, 440])
def test_107_a_failure_is_agreed_by_o_plus_delta(at: int) -> None:
    """Rounds are at 150 + k 100. Whenever it crashes between two of them, the survivors know it at 450 + delta."""
    clocks = {"n1.a": 2.0, "n4.a": -2.0}
    town = Town(town_of(4), fault("crash", at + 10, process="n2.a"), clocks=clocks, network=slow(40), seed=at, length=600)
    survivors = ("n1.a", "n3.a", "n4.a")
    groups = formed(town, *survivors)
    first, last = groups[-2:]
    assert first[1] == ("n1", "n2", "n3", "n4")
    assert last[1] == ("n1", "n3", "n4")
    assert (last[0] - first[0]) % PI == 0
    assert last[0] - PI < (at + 10) * MS <= last[0]
    for process in survivors:
        (gone,) = town.of("Gone", process)
        assert (gone.node, gone.clock) == ("n2", last[0] + DELTA)


def test_107_two_failures_in_one_round_make_one_group() -> None:
    town = Town(town_of(4), fault("crash", 310, process="n2.a"), fault("crash", 340, process="n4.a"), network=slow(40))
    assert formed(town, "n1.a", "n3.a")[1:] == [(350 * MS, ("n1", "n3"))]


def test_107_rests_on_atomic_broadcasts() -> None:
    """The thesis has a broadcast that all get or nobody. Ours is a packet: who crashes while it says that it is there is gone a
    round later for those that have heard it; then all agree again."""
    towns = [Town(town_of(5), fault("crash", 320, process="n2.a", mid_broadcast=True), seed=seed) for seed in range(6)]
    times = [sorted({gone.clock for gone in town.of("Gone", node="n2")}) for town in towns]
    assert [400 * MS, 500 * MS] in times
    assert {clock for clocks in times for clock in clocks} <= {400 * MS, 500 * MS}
    for town in towns:
        others = [process for process in town.speakers if process != "n2.a"]
        assert len(town.of("Gone", node="n2")) == len(others)
        assert {tuple(town.alive(process)) for process in others} == {("n1", "n3", "n4", "n5")}
        assert len({town.speakers[process].nodes.identity for process in others}) == 1


def test_107_presents_are_all_that_it_costs() -> None:
    """A broadcast a node and round, and two new-group messages a node."""
    town = Town(town_of(4), length=960)
    assert town.summary.packets_by_type == {"NewGroup": 8, "Present": 4 * 10}


# --- the table of server groups -----------------------------------------------------------------------------------------------


def test_1_3_who_joins_gets_the_table_with_what_has_changed_meanwhile() -> None:
    """n4 starts at T = 400; at 420, before the presents that answer it, n1 knows of a new distributor, and n2 does not."""

    def begin(speaker: Speaker) -> None:
        name = speaker.host.me
        if name != "n4.a":
            speaker.claims = (Claim("g", 1, "n3.a"),)
        if name == "n1.a":
            speaker.host.set_timer(("claim", 2, "n2.a"), 420 * MS)

    town = Town(town_of(3), fault("join", 400, process="n4.a"), later=("n4.a",), begin=begin, length=510)
    joined = town.speakers["n4.a"].nodes
    assert {node: state.claims for node, state in joined.alive.items() if node != "n4"} == {
        "n1": (Claim("g", 2, "n2.a"),),
        "n2": (Claim("g", 1, "n3.a"),),
        "n3": (Claim("g", 1, "n3.a"),),
    }
    assert joined.claim_of("g") == Claim("g", 2, "n2.a")
    assert joined.claim_of("other") is None


def test_1_3_the_entries_of_a_node_go_with_it() -> None:
    def begin(speaker: Speaker) -> None:
        speaker.claims = (Claim(speaker.node, 1, speaker.host.me),)

    town = Town(town_of(3), fault("crash", 320, process="n2.a"), begin=begin, length=500)
    nodes = town.speakers["n1.a"].nodes
    assert nodes.claim_of("n2") is None
    assert nodes.claim_of("n3") == Claim("n3", 1, "n3.a")
