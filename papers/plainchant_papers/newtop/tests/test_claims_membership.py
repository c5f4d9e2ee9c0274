"""Claims 40 to 47 (paper 001, chapter 6): each gives the verdict on record, and another one where the protocol is another."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import pytest

from plainchant.lab.errors import LabError
from plainchant.lab.properties import verify
from plainchant_papers import claims_of
from plainchant_papers.claims import FAILS, HOLDS, REMARK, Context
from plainchant_papers.newtop.membership import costs
from plainchant_papers.newtop.membership.blocking import blocked_of, one_crash, one_cut
from plainchant_papers.newtop.membership.costs import Change, Crash, change_of, expected_copies, expected_words
from plainchant_papers.newtop.membership.examples import Five, Parting, Together, five, part_and_meet, together
from plainchant_papers.newtop.membership.stability import asked_of
from plainchant_papers.newtop.membership.views import Checked, alone, check, gone_of, lasting
from plainchant_papers.newtop.structures import ORDERS, faulty_run
from plainchant_papers.newtop.variants import VARIANTS
from plainchant_papers.observe import trace_of
from plainchant_papers.tests.remembered import Altered, altered, measured, on_record

LONG = frozenset({41, 43, 46, 47})
"""They need many runs."""

test_the_verdict_is_the_one_on_record = on_record(range(40, 48), long=LONG)


def test_the_chapter_is_part_of_the_document() -> None:
    numbers = [claim.number for claim in claims_of("membership")]
    assert numbers == list(range(40, 48))
    assert claims_of("newtop", numbers) == claims_of("membership")


# --- a verdict can be another one -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("number", "fields"),
    [
        (40, {"alike": 0}),
        (40, {"quiet": False}),
        (40, {"changed": 0}),
        (40, {"violations": {"view-order": 1, "view-atomicity": 0, "sender-in-view": 0, "disjoint-views": 0}}),
        (42, {"unequal": 1}),
        (42, {"intervals": 0}),
        (42, {"violations": {"view-order": 0, "view-atomicity": 0, "sender-in-view": 1, "disjoint-views": 0}}),
        (44, {"answer_at": ("i", "j")}),
        (44, {"causal": 1}),
        (44, {"m_at": ("s", "i")}),
        (44, {"detections": (("r",), ("r", "s"))}),
        (45, {"violations": 1}),
        (45, {"mutual": 0}),
        (45, {"split": 0.0}),
        (45, {"quiet": False}),
        pytest.param(41, {"smaller": 1}, marks=pytest.mark.sweep),
        pytest.param(41, {"stale": 1, "smaller": 1}, marks=pytest.mark.sweep),
        pytest.param(43, {"forgotten": 1}, marks=pytest.mark.sweep),
        pytest.param(43, {"asks": 0}, marks=pytest.mark.sweep),
        pytest.param(47, {"blocked": 10.0}, marks=pytest.mark.sweep),
        pytest.param(47, {"violations": 1}, marks=pytest.mark.sweep),
    ],
)
def test_a_single_exception_would_be_noticed(number: int, fields: dict[str, Any]) -> None:
    assert measured(number, Altered(altered(**fields))).verdict != HOLDS


def test_a_rule_without_which_nothing_breaks_shows_nothing() -> None:
    assert measured(44, Altered(altered(causal=0))).verdict == FAILS


@pytest.mark.sweep
def test_claim_46_holds_if_counts_never_repeat_and_fails_if_signatures_do() -> None:
    never = {"view-order": 0, "view-atomicity": 0, "sender-in-view": 0, "disjoint-views": 0}
    assert measured(46, Altered(altered(violations=never))).verdict == HOLDS
    assert measured(46, Altered(altered(violations={**never, "disjoint-views": 1}))).verdict == FAILS
    assert measured(46, Altered(altered(signed_intersect=True))).verdict == FAILS


# --- what they are measured with ------------------------------------------------------------------------------------


@pytest.mark.parametrize("order", ORDERS)
def test_random_runs_keep_what_the_protocol_promises(order: str) -> None:
    result = verify(trace_of(faulty_run(3, order))[1])
    assert result.verdict == "holds", result.violations[0]


def test_the_example_of_p_r_and_p_s() -> None:
    assert together("") == Together(
        m_at=("s",), answer_at=(), detections=(("r", "s"), ("r", "s")), discarded=2, views=(("i", "j"), ("i", "j")), causal=0
    )
    assert together("failed apart").answer_at == ("i", "j"), "m' without m"


def test_the_example_with_five_processes() -> None:
    found = five(("", "partition"))
    assert found == Five(
        "partition",
        views={"i": ("ijklm", "ij"), "j": ("ijklm", "ij"), "k": ("ijklm", "ijkl", "kl"), "l": ("ijklm", "ijkl", "kl")},
        mutual=0,
        intersect=True,
        signed_intersect=False,
        violations=0,
    )


def test_who_goes_on_hearing_is_told_that_it_is_excluded() -> None:
    assert five(("", "one way")).mutual == 4, "k and l suspect i and j, each by its own word"


def test_signatures_by_count_repeat_when_parts_meet() -> None:
    def shared(found: Checked) -> int:
        return found.violations["disjoint-views"]

    run = faulty_run(1, "total", signatures=True)
    assert not shared(check((run, "")))
    assert shared(check((run, "counted signatures")))
    assert not shared(check((alone(run), "counted signatures")))


def test_who_forgets_what_is_complete_is_asked_for_it() -> None:
    run = faulty_run(0, "total")
    assert asked_of((run, "")).forgotten == 0
    assert asked_of((run, "discards at completion")).forgotten > 0


def test_parts_of_a_group_meet_again() -> None:
    found = part_and_meet(Parting((3, 2), rate=5.0))
    assert found.as_meant
    assert [size for _, size in found.views["p1"]] == [5, 3, 5]
    assert [size for _, size in found.views["p5"]] == [5, 2, 5]
    assert found.packets["Close"] == found.packets["Opening"] == 5
    assert found.packets["Move"] == 2, "one in each part"
    assert 200 < found.split < 500
    assert "5 members" in found.said


def test_a_group_that_never_parts_is_not_as_meant() -> None:
    """The partition is over before anybody is suspected."""
    found = part_and_meet(Parting((2, 1), healed=550.0, length=700.0))
    assert found.quiet
    assert not found.as_meant


def test_who_lives_and_is_connected_is_who_is_left() -> None:
    found = gone_of(lasting(4, "total"))
    assert found.memberships
    assert (found.stale, found.smaller) == (0, 0)


def test_stopping_at_every_suspicion_stops_for_longer() -> None:
    crash = one_crash(10, 0)
    ours, theirs = (blocked_of((crash, rule)) for rule in ("Newtop", "on every suspicion"))
    assert 0 < ours.blocked < theirs.blocked
    assert ours.times == theirs.times == 4, "each survivor, once"
    cut = one_cut(600, 1)
    ours, theirs = (blocked_of((cut, rule)) for rule in ("Newtop", "on every suspicion"))
    assert ours.refuted
    assert ours.times == 0
    assert theirs.blocked > 0


# --- what view changes cost -----------------------------------------------------------------------------------------


def test_a_crash_is_noticed_after_omega_and_costs_three_words_of_each_survivor() -> None:
    found = change_of(Crash(4, rate=0, seed=1))
    assert all(250 <= time <= 250 + 80 + 5 for time in found.detected), "the next sign of life is there after tau at the latest"
    assert all(0 < after - before < 50 for before, after in zip(found.detected, found.installed, strict=True))
    assert found.words == {"Suspect": 3, "Confirmed": 3, "Remove": 3}
    assert found.copies == expected_copies(4, 1) == 3 * (3 + 3 + 2)
    assert sum(found.words.values()) == expected_words(4, 1)
    assert found.views == 1


def test_a_busy_member_that_crashes_among_others_has_messages_discarded() -> None:
    found = [change_of(Crash(5, 3, rate=50, seed=seed)) for seed in range(2)]
    assert max(change.discarded for change in found) > 0
    assert all(change.row()["Suspect"] == change.words["Suspect"] for change in found)


def test_a_crash_that_nobody_notices_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def nothing(*_: Any) -> list[Any]:
        return []

    monkeypatch.setattr(costs, "rows_of", nothing)
    with pytest.raises(LabError, match="no view without p2"):
        change_of(Crash(3))


def test_longer_patience_takes_longer() -> None:
    short, long = (change_of(Crash(3, omega=omega, rate=0)) for omega in (150, 600))
    assert min(long.detected) - max(short.detected) > 400


def test_changes_are_compared_with_what_is_expected() -> None:
    changes = {crash: change_of(crash) for crash in (Crash(3, rate=0), Crash(4, rate=0))}

    class Known(Context):
        def sweep(self, function: Callable[[Any], Any], items: Any) -> list[Any]:
            return [dataclasses.replace(changes[Crash(3, rate=0)], crash=item) for item in items]

    figures, tables, sentence = costs.figures_of_changes(Known(None, quick=True))
    assert {figure.name for figure in figures} >= {"change-by-omega", "change-by-size", "packets-of-a-change"}
    assert "exactly 3(n - f) words" in sentence
    assert all(len(row) == len(table.columns) for table in tables for row in table.rows)


def test_variants_are_known_by_name() -> None:
    assert set(VARIANTS) >= {"failed apart", "blocks on suspicion", "counted signatures", "discards at completion"}
    assert isinstance(change_of(Crash(2, rate=0)), Change)
    assert next(claim.expected for claim in claims_of("membership") if claim.number == 46) == REMARK
