"""Claims 63 to 80 (paper 003): each gives the verdict on record, and another one where something comes out differently."""

from __future__ import annotations

import dataclasses
import random
from itertools import count
from typing import Any

import pytest

from plainchant.core.model import MS
from plainchant.lab.errors import LabError
from plainchant.scenario.model import Workload
from plainchant_papers import claims_of
from plainchant_papers.claims import FAILS, HOLDS, REMARK
from plainchant_papers.observe import trace_of
from plainchant_papers.rtcast import changes, schedulability
from plainchant_papers.rtcast.changes import LATE, SOON, Crash, entered_of, noticed_of
from plainchant_papers.rtcast.crashes import eliminated_of, fig_5, one_crash, stayed_of, turns_of
from plainchant_papers.rtcast.guarantees import Load, Slow, admitted_of, delayed_of, on_time
from plainchant_papers.rtcast.promises import MINIMAL, overtaking_of
from plainchant_papers.rtcast.rings import instrumented, ring, times_of
from plainchant_papers.rtcast.rotation import SITUATIONS, Full, rotation_of
from plainchant_papers.rtcast.schedulability import Message, P, Piece, Sent, flow, possible, served
from plainchant_papers.rtcast.variants import VARIANTS, variant
from plainchant_papers.tests.remembered import Altered, altered, measured, on_record

LONG = frozenset({65, 67, 69, 74, 76, 77, 79})
"""They need many runs."""

test_the_verdict_is_the_one_on_record = on_record(range(63, 81), long=LONG)
PROMISED = ("integrity", "fifo", "causal", "identical", "total", "agreement", "view-order", "view-atomicity", "view-exclusion")


def test_the_claims_of_paper_003() -> None:
    claims = claims_of("rtcast")
    assert [claim.number for claim in claims] == list(range(63, 81))
    assert {claim.paper for claim in claims} == {"003"}
    assert {claim.number: claim.expected for claim in claims if claim.expected != HOLDS} == {
        63: REMARK,
        71: REMARK,
        72: FAILS,
        74: REMARK,
    }


# --- a verdict can be another one -----------------------------------------------------------------------------------


def violated(*names: str) -> dict[str, int]:
    return {name: int(name in names) for name in (*PROMISED, "sender-in-view", "deadline")}


@pytest.mark.parametrize(
    ("number", "fields", "verdict"),
    [
        (63, {"longest": 1.0}, HOLDS),
        (63, {"safe": 1.0}, FAILS),
        (63, {"hops": 1.0}, FAILS),
        (63, {"slots": 0}, FAILS),
        (64, {"stayed": 3}, FAILS),
        (64, {"behind": 0}, FAILS),
        (64, {"violations": 1}, FAILS),
        (66, {"before": 1}, FAILS),
        (66, {"changes": 0}, FAILS),
        (66, {"others": 0}, FAILS),
        (68, {"updates": 2}, FAILS),
        (68, {"entered": False}, FAILS),
        (70, {"longest": 1.5}, FAILS),
        (70, {"halted": 1}, FAILS),
        (70, {"lost": 0}, FAILS),
        (71, {"late": 0}, HOLDS),
        (71, {"longest": 1.1}, FAILS),
        (71, {"beyond": 1}, FAILS),
        (71, {"turn_late": 1}, FAILS),
        (71, {"late": 1}, FAILS),
        (72, {"over_missed": 0}, HOLDS),
        (73, {"fit_missed": 1}, FAILS),
        (73, {"missed": 1}, FAILS),
        (73, {"fit_missed_early": 1}, REMARK),
        (73, {"over_possible": 0}, REMARK),
        (75, {"late": 1}, FAILS),
        (75, {"longest": 1.2}, REMARK),
        (75, {"pairs": 0}, FAILS),
        (78, {"sent_most": 2.0}, REMARK),
        (78, {"mean": 3.0}, FAILS),
        (78, {"most": 3.0}, REMARK),
        (80, {"violations": violated("total")}, FAILS),
        (80, {"quiet": False}, FAILS),
        pytest.param(65, {"live": 1}, FAILS, marks=pytest.mark.sweep),
        pytest.param(65, {"live": 0}, FAILS, marks=pytest.mark.sweep),
        pytest.param(65, {"by": {}}, FAILS, marks=pytest.mark.sweep),
        pytest.param(67, {"queries": 1}, FAILS, marks=pytest.mark.sweep),
        pytest.param(67, {"queries": 0}, FAILS, marks=pytest.mark.sweep),
        pytest.param(69, {"omissions": 1}, FAILS, marks=pytest.mark.sweep),
        pytest.param(69, {"load": 1.0}, FAILS, marks=pytest.mark.sweep),
        pytest.param(69, {"missed": 1}, FAILS, marks=pytest.mark.sweep),
        pytest.param(74, {"violations": violated("total")}, FAILS, marks=pytest.mark.sweep),
        pytest.param(74, {"value": 0}, HOLDS, marks=pytest.mark.sweep),
        pytest.param(74, {"value": 1}, FAILS, marks=pytest.mark.sweep),
        pytest.param(76, {"cases": violated()}, FAILS, marks=pytest.mark.sweep),
        pytest.param(77, {"others_later": 1}, FAILS, marks=pytest.mark.sweep),
        pytest.param(77, {"others_later": 0}, FAILS, marks=pytest.mark.sweep),
        pytest.param(79, {"violations": violated("deadline")}, FAILS, marks=pytest.mark.sweep),
        pytest.param(79, {"crashes": 0}, FAILS, marks=pytest.mark.sweep),
    ],
)
def test_a_different_result_gives_another_verdict(number: int, fields: dict[str, Any], verdict: str) -> None:
    assert measured(number, Altered(altered(**fields))).verdict == verdict


# --- the ring -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("members", [2, 3])
def test_the_token_makes_n_hops(members: int) -> None:
    found = rotation_of(Full(members, SITUATIONS[0]))
    assert found.longest == members * (4 + 2), "n times T and d_max"
    assert found.printed_41 == found.longest - 2


def test_the_times_of_a_ring() -> None:
    run = ring(4, retransmissions=2)
    times = times_of(run)
    assert times["4.1"] == 4 * 4 * MS + 3 * 2 * MS
    assert times["4.2"] == times["4.1"] + times["slot"]
    assert times["rotation"] > times["4.2"] + 2 * MS
    assert times["deliver"] == 3 * times["rotation"]
    assert times_of(run, 5)["4.1"] == times["4.1"] + 6 * MS


def test_without_the_rule_of_false_omissions_survivors_stop() -> None:
    run = one_crash(0, False)
    ours, without = (stayed_of((run, name)) for name in ("", "every omission"))
    assert (ours.stayed, ours.behind, ours.violations) == (4, 0, 0)
    assert without.stayed < 4


def test_h_eliminates_f_and_g() -> None:
    run = fig_5(4.0)
    ours, theirs = (eliminated_of((run, name)) for name in ("", "all silent"))
    assert {by: set(who) for by, who in ours.by.items()} == {"H": {"F", "G"}}
    assert ours.views == (tuple("ABCDEH"),)
    assert set(theirs.by["H"]) == {"D", "F", "G"}
    assert (ours.live, theirs.live) == (0, 1)


def test_turns_with_changes_are_found() -> None:
    found = turns_of(instrumented(1))
    assert found.changes > 0
    assert found.before == 0


def test_who_is_back_soon_finds_its_place() -> None:
    soon, late = entered_of((SOON, 0)), entered_of((LATE, 0))
    assert (soon.entered, soon.queries, soon.updates) == (True, 0, 0)
    assert (late.entered, late.updates) == (True, 2)
    assert late.queries > 0


def test_a_crash_that_nobody_notices_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(changes, "rows_of", lambda *_: [])
    with pytest.raises(LabError, match="not everybody, has noticed"):
        noticed_of(Crash(3, 0.4, True))


def test_a_crash_is_noticed_within_the_bound() -> None:
    found = noticed_of(Crash(3, 0.4, True))
    assert 0 < found.noticed < found.out <= found.detection


def test_a_packet_that_is_lost_twice_comes_two_rotations_later() -> None:
    once, twice = (delayed_of(Slow(r, 3, 0)) for r in (1, 2))
    assert 0.5 < once.turning < twice.turning <= 3
    assert (once.halted, twice.halted) == (0, 0)


def test_longer_deadlines_admit_more() -> None:
    short, long = (admitted_of(Load(1, deadline)) for deadline in (160, 400))
    assert short.streams < long.streams
    assert (short.missed, long.missed) == (0, 0)


def test_packets_that_overtake_stop_a_ring_that_does_not_wait() -> None:
    assert overtaking_of((0, True)) == 0
    assert overtaking_of((0, False)) > 0


def test_deadlines_are_asked_for_with_every_r() -> None:
    runs = [on_time(seed) for seed in range(4)]
    assert [run.parameters["retransmissions"] for run in runs] == [0, 1, 2, 3]
    for run in runs:
        omitted = [one.count for one in run.fault if one.kind == "omit"]
        assert max(omitted, default=0) <= run.parameters["retransmissions"]


def test_variants_are_known_by_name() -> None:
    assert set(VARIANTS) == {"every omission", "all silent", "at once"}
    assert variant("") is None
    summary, _ = trace_of(ring(3, Workload(rate=20.0), length=400, **MINIMAL), variant("at once"))
    assert summary.quiet


# --- schedulability -------------------------------------------------------------------------------------------------


def test_pieces_are_sent_in_turns_first_in_first_out() -> None:
    pieces = [Piece(0, 30), Piece(5, 80), Piece(150, 10)]
    every_hundred = (100 * number for number in count())
    assert served(pieces, every_hundred, 50, kept=True) == [Sent(0, 30), Sent(200, 210), Sent(200, 220)]


def test_what_comes_when_the_token_has_gone_waits_for_the_next_turn() -> None:
    pieces = [Piece(10, 5)]
    assert served(pieces, iter((0, 100)), 50, kept=True) == [Sent(0, 15)]
    assert served(pieces, iter((0, 100)), 50, kept=False) == [Sent(100, 105)]


def test_flows_never_have_more_than_a_turn_within_a_rotation() -> None:
    pieces = flow(random.Random("flow"), 100, 200)
    assert len(pieces) == 200
    for piece in pieces:
        assert sum(one.cost for one in pieces if piece.released - P < one.released <= piece.released) <= 100


def test_two_messages_that_fill_a_turn_each_cannot_both_be_sent_in_one() -> None:
    """C1 to C3 of Lemma 2 hold: each fits into T, and the mean flow is a fifth of it."""
    rare = Message(cost=100, visits=1, slack=0, period=10 * P)
    assert possible([rare], 100)
    assert not possible([rare, rare], 100)
    assert schedulability.missed([rare, rare], [0, 0], 100, random.Random(0), kept=True) > 0
    assert possible([rare, dataclasses.replace(rare, visits=2)], 100), "though the shares are more than T together"


def test_admission_control_knows_it() -> None:
    assert schedulability.both_of(2) == (1, 1)


def test_what_was_promised_is_sent_within_a_rotation() -> None:
    found = schedulability.waited_of(1)
    assert found.messages > 1
    assert 0 < found.longest <= 1
