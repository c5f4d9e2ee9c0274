"""Sections 4.3 to 4.5, 7 and Lemma 5: crashes, joins, leaving, P, partitions (claims 65 to 68 and 75)."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from plainchant.core.model import Duration, PlainchantError
from plainchant.protocols.registry import describe
from plainchant.protocols.rtcast.packets import Change, Data, JoinAck, Query, Reclaim, Request, Vote
from plainchant.protocols.rtcast.parameters import Parameters
from plainchant.scenario.load import parse
from plainchant.scenario.model import Workload

from .runs import RingRun, fault, message, ms, simulate, uneven

BUSY = Workload(rate=300.0, size=200)


# --- 4.3: crashes -----------------------------------------------------------------------------------------------------------


def figure_5(variant: str | None = None) -> RingRun:
    """H does not hear D; F and G are dead."""
    dead = [fault("crash", 55, process=name) for name in "FG"]
    unheard = fault("omit", 55, process="H", packet="Beat", source="D")
    return simulate("A B C D E F G H", faults=[unheard, *dead], variant=variant)


def test_65_only_the_closure_of_silent_predecessors_is_eliminated() -> None:
    """Claim 65, Fig. 5: H has not heard D, F and G; E has heard D."""
    run = figure_5()
    (suspects,) = run.details("suspect", "H")
    assert sorted(suspects["processes"]) == ["F", "G"]
    assert run.views("H")[-1] == ("A", "B", "C", "D", "E", "H")
    assert run.halted() == {}
    assert run.violated == []


def test_65_whoever_eliminates_all_silent_members_loses_one_that_is_alive() -> None:
    run = figure_5("AllSilent")
    assert run.halted() == {"D": "eliminated"}
    assert run.views("H")[-1] == ("A", "B", "C", "E", "H")


def test_66_membership_messages_come_first_in_the_visit() -> None:
    """Claim 66: a crash, a join and a leave, with messages waiting everywhere."""
    run = simulate(
        "a b c d",
        BUSY,
        parameters={"retransmissions": 1},
        length=500,
        later=("e",),
        faults=[fault("crash", 100, process="c"), fault("join", 200, process="e"), fault("leave", 350, process="b")],
    )
    turns: dict[tuple[str, int], list[Data]] = {}
    for sent in run.packets_of(Data):
        if sent.packet.sender == sent.source and sent.packet.ring == "a":
            packets = turns.setdefault((sent.source, sent.packet.visit), [])
            if all(packet.seq != sent.packet.seq for packet in packets):
                packets.append(sent.packet)
    changing = [packets for packets in turns.values() if any(isinstance(packet.word, Change) for packet in packets)]
    full = [packets for packets in changing if any(packet.batch is not None for packet in packets)]
    assert len(changing) >= 4
    assert full, "there was something else to say in some of these turns"
    assert all(isinstance(packets[0].word, Change) for packets in changing)
    assert run.violated == []


@pytest.mark.parametrize("seed", range(2))
def test_75_lemma_5_views_are_equal_within_a_round(seed: int) -> None:
    """Claim 75: all members of a view install it within one rotation of each other."""
    run = simulate(
        "a b c d e",
        BUSY,
        parameters={"retransmissions": 1},
        seed=seed,
        length=700,
        later=("f",),
        network=uneven("a b c d e f", seed),
        faults=[fault("crash", 250, process="c"), fault("join", 400, process="f"), fault("crash", 550, process="a")],
    )
    bound = max(max(run.bounds(name)) for name in "bde")
    installed: dict[int, list[dict[str, Any]]] = {}
    for row in run.of("view"):
        installed.setdefault(row["view"], []).append(row)
    assert len(installed) >= 4
    for rows in installed.values():
        assert len({tuple(row["members"]) for row in rows}) == 1
        times = [row["true_time"] for row in rows]
        assert max(times) - min(times) <= bound
    assert run.violated == []


@pytest.mark.parametrize("seed", range(4))
def test_lemma_5_singletons_find_each_other(seed: int) -> None:
    """Whatever order the links make of it there is one first view, with all of them, and nobody waits for ``gather`` to pass."""
    run = simulate("a b c d e", network=uneven("a b c d e", seed), length=200)
    for name in "abcde":
        (first,) = run.of("view", name)
        assert sorted(first["members"]) == ["a", "b", "c", "d", "e"]
        assert first["true_time"] < ms(200)


def test_lemma_5_a_joiner_that_meets_singletons_waits_for_the_group() -> None:
    """f joins while the others look for each other: it never makes a group of its own."""
    run = simulate("a b c", network=uneven("a b c f", 1), later=("f",), faults=[fault("join", 3, process="f")])
    assert run.views("f")[0] == run.views("a")[-1]
    assert sorted(run.views("a")[-1]) == ["a", "b", "c", "f"]
    assert run.violated == []


# --- 4.4: joining and leaving -------------------------------------------------------------------------------------------------


def test_4_4_a_joiner_waits_for_the_slot_and_for_everybody() -> None:
    run = simulate("a b c", later=("d",), faults=[fault("join", 50, process="d")])
    (request,) = run.packets_of(Request)[2:] or run.packets_of(Request)[-1:]
    assert (request.source, request.to) == ("d", ("a",)), "the member after the slot"
    acknowledged = [sent for sent in run.packets_of(JoinAck) if "d" in sent.packet.joined]
    assert {sent.source for sent in acknowledged} == {"a", "b", "c"}
    assert len({(sent.packet.members, sent.packet.seqs, sent.packet.rank) for sent in acknowledged}) == 1
    assert run.views("d") == [("a", "b", "c", "d")]
    assert run.violated == []


def test_4_4_a_joiner_that_lacks_one_acknowledgement_backs_off_and_asks_again() -> None:
    run = simulate(
        "a b c",
        later=("d",),
        length=600,
        faults=[fault("join", 50, process="d"), fault("omit", 60, process="d", packet="JoinAck", source="b")],
    )
    assert any("acknowledged" in detail["why"] for detail in run.details("reject", "d"))
    assert run.views("d")[-1] == ("a", "b", "c", "d")
    assert run.violated == []


def test_4_4_a_join_whose_change_one_member_misses() -> None:
    """b hears the change that lets d in a rotation later; d gets in all the same, at once or by asking again."""
    parameters = {"retransmissions": 1}
    calm = simulate("a b c", later=("d",), parameters=parameters, faults=[fault("join", 50, process="d")])
    changes = [sent for sent in calm.packets_of(Data) if isinstance(sent.packet.word, Change)]
    said = next(sent.time for sent in changes if "d" in sent.packet.word.joined)
    missed = dataclasses.replace(fault("omit", 0, process="b", packet="Data", source="a"), at=Duration(said + 1))
    run = simulate("a b c", later=("d",), length=600, parameters=parameters, faults=[fault("join", 50, process="d"), missed])
    assert run.of("ask", "b")
    assert run.views("a")[-1] == run.views("b")[-1] == run.views("d")[-1] == ("a", "b", "c", "d")
    assert run.violated == []


def test_4_4_two_requests_in_one_slot_collide_and_both_back_off() -> None:
    """On an Ethernet; the authors circumvented it (footnote 5). With this seed both knock before the same slot."""
    run = simulate(
        "a b c",
        later=("d", "e"),
        seed=4,
        length=900,
        parameters={"collisions": True, "backoff": 8},
        faults=[fault("join", 50, process="d"), fault("join", 50, process="e")],
    )
    assert ["d", "e"] in [sorted(detail["processes"]) for detail in run.details("collision")]
    assert run.details("reject", "d")
    assert run.details("reject", "e")
    assert set(run.views("a")[-1]) == {"a", "b", "c", "d", "e"}
    assert run.violated == []


@pytest.mark.parametrize(("seed", "joins"), [(0, 64), (0, 70)])
def test_4_4_those_who_form_the_group_and_collide_end_in_one_group(seed: int, joins: float) -> None:
    """b and c ask a for a place in one slot, three times. While they waited to ask again they formed groups of their own."""
    run = simulate(
        "a b c",
        later=("d", "e"),
        seed=seed,
        length=900,
        parameters={"collisions": True, "backoff": 8},
        faults=[fault("join", joins, process="d"), fault("join", 62, process="e")],
    )
    assert len(run.details("collision")) >= 2
    assert {frozenset(run.views(name)[-1]) for name in "abcde"} == {frozenset("abcde")}
    assert run.violated == []


def test_4_4_without_collisions_both_are_let_in_at_once() -> None:
    """With this seed both knock before the same slot."""
    joins = [fault("join", 50, process="d"), fault("join", 50, process="e")]
    run = simulate("a b c", later=("d", "e"), seed=19, faults=joins)
    assert set(run.views("a")[-1]) == {"a", "b", "c", "d", "e"}
    assert not {("a", "b", "c", "d"), ("a", "b", "c", "e")} & set(run.views("a"))


def test_4_4_a_member_leaves_by_a_change_of_its_own() -> None:
    run = simulate("a b c d", message("c", 49), faults=[fault("leave", 50, process="c")])
    (change,) = [word for word in run.words(Change) if word.left]
    assert change.left == "c"
    assert change.ring == ("a", "b", "d")
    assert run.delivered("a") == [("c", 1)], "what it had to say goes first"
    assert run.details("suspect") == []
    assert run.halted() == {}
    assert run.violated == []


@pytest.mark.parametrize("code", ["crash", "omission", "eliminated"])
def test_4_3_whoever_has_stopped_comes_back_as_a_new_incarnation(code: str) -> None:
    stops = {
        "crash": [fault("crash", 50, process="b")],
        "omission": [fault("omit", 50, process="b", packet="Data", source="a")],
        "eliminated": [fault("pause", 50, process="b", length=80)],
    }
    run = simulate("a b c", length=600, faults=[*stops[code], fault("restart", 300, process="b")])
    assert run.halted() == ({} if code == "crash" else {"b": code})
    assert run.views("a")[-1] == ("a", "c", "b#1") == run.views("b#1")[-1]
    assert run.violated == []


# --- 4.5: P -----------------------------------------------------------------------------------------------------------------


def test_67_no_query_round_if_the_joiner_fits_into_P() -> None:
    """Claim 67: the place of one that has crashed is still there."""
    run = simulate("a b c d", later=("e",), length=500, faults=[fault("crash", 50, process="d"), fault("join", 200, process="e")])
    assert run.views("a")[-1] == ("a", "b", "c", "e")
    assert run.words(Query) == []
    assert run.packets_of(Vote) == []


def test_4_4_a_query_round_if_P_has_to_grow() -> None:
    run = simulate("a b c", later=("e",), faults=[fault("join", 50, process="e")])
    (query,) = run.words(Query)
    assert {sent.source for sent in run.packets_of(Vote)} == {"b", "c"}, "the sponsor's own vote is not sent"
    assert run.bounds("b")[-1] == run.bounds("e")[-1] == query.rotation > run.bounds("b")[0]


def updates_of_P(reclaim_after: float) -> tuple[int, RingRun]:
    run = simulate(
        "a b c d",
        length=900,
        parameters={"reclaim_after": ms(reclaim_after)},
        faults=[fault("crash", 50, process="d"), fault("restart", 400, process="d")],
    )
    assert run.views("a")[-1] == ("a", "b", "c", "d#1")
    assert run.violated == []
    return len(run.bounds("b")) - 1, run


def test_68_a_quick_rejoin_avoids_two_updates_of_P() -> None:
    """Claim 68."""
    kept, run = updates_of_P(2000)
    assert kept == 0
    assert run.words(Reclaim) == []
    given_back, run = updates_of_P(50)
    assert given_back == 2
    assert len(run.words(Reclaim)) == len(run.words(Query)) == 1


def test_4_5_the_member_of_the_smallest_id_gives_P_back() -> None:
    run = simulate("c a b d", length=500, parameters={"reclaim_after": ms(50)}, faults=[fault("crash", 50, process="d")])
    reclaimed = [sent for sent in run.packets_of(Data) if isinstance(sent.packet.word, Reclaim)]
    assert [sent.source for sent in reclaimed] == ["a"]
    assert all(run.bounds(name)[-1] == reclaimed[0].packet.word.rotation < run.bounds(name)[0] for name in "abc")


# --- partitions and groups ----------------------------------------------------------------------------------------------------


def split(partitions: str, *parts: tuple[str, ...]) -> RingRun:
    return simulate(
        "a b c d e",
        BUSY,
        length=500,
        parameters={"partitions": partitions, "crashes": 3},
        faults=[fault("partition", 100, parts=parts)],
    )


def test_A2_in_a_partition_each_part_goes_on_by_itself() -> None:
    """Outside the paper's model: two groups of one name, of which neither has the other's messages."""
    run = split("any", ("a", "b"), ("c", "d", "e"))
    assert run.views("a")[-1] == ("a", "b")
    assert run.views("e")[-1] == ("c", "d", "e")
    assert run.halted() == {}
    assert len(run.alive()) == 5
    assert not {*run.delivered("a")[-20:]} & {*run.delivered("e")}


def test_A2_with_the_majority_rule_only_the_larger_part_goes_on() -> None:
    run = split("majority", ("a", "b"), ("c", "d", "e"))
    assert run.views("e")[-1] == ("c", "d", "e")
    assert run.alive() == ["c", "d", "e"]
    assert set(run.halted()) == {"a", "b"}
    assert "minority" in run.halted().values()
    assert run.violated == []


def test_7_several_groups_of_a_process_are_refused_in_a_sentence() -> None:
    check = describe("rtcast").check
    assert check is not None
    sentence = check(Parameters(), {"x": ("a", "b"), "y": ("b", "c")})
    assert sentence is not None
    assert "b is in the groups x and y" in sentence
    assert "newtop" in sentence
    assert check(Parameters(), {"x": ("a", "b"), "y": ("c", "d")}) is None
    text = 'protocol = "rtcast"\nmembers = ["a", "b", "c"]\n[groups]\nx = ["a", "b"]\ny = ["b", "c"]\n'
    with pytest.raises(PlainchantError, match="b is in the groups x and y"):
        parse(text, "two.toml")
