"""Claims 81 to 95 (paper 000): each gives the verdict on record, and another one where something comes out differently."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from plainchant.sim.scripted import Script
from plainchant_papers import claims_of
from plainchant_papers.claims import FAILS, HOLDS, REMARK, measure
from plainchant_papers.mailbox.bounds import drawn, picture_of, received_of, slope, spans_of, typical, worst_first, worst_second
from plainchant_papers.mailbox.explored import explored_of, small
from plainchant_papers.mailbox.failures import Many, expiry_of, last_moment, late_sender, survived_of
from plainchant_papers.mailbox.groups import Distance, changing, flags_of, reached_of, unlisted
from plainchant_papers.mailbox.scripted import AS_BUILT, found_of, message, plan, times
from plainchant_papers.mailbox.theorems import crashing, line_21, overtaken, pausing, untimely
from plainchant_papers.page import write
from plainchant_papers.tests.remembered import Altered, Remembering, altered, measured, on_record

LONG = frozenset({81, 85})
"""They try small cases in every way."""

test_the_verdict_is_the_one_on_record = on_record(range(81, 96), long=LONG, mark=pytest.mark.long)


def test_the_claims_of_paper_000() -> None:
    claims = claims_of("mailbox")
    assert [claim.number for claim in claims] == list(range(81, 96))
    assert {claim.paper for claim in claims} == {"000"}
    assert {claim.number: claim.expected for claim in claims if claim.expected != HOLDS} == {
        81: REMARK,
        82: FAILS,
        84: FAILS,
        85: REMARK,
        86: REMARK,
        88: FAILS,
        90: REMARK,
        91: REMARK,
        94: REMARK,
    }


# --- a verdict can be another one -----------------------------------------------------------------------------------


WRONG: dict[str, Any] = {"violated": ("agreement",)}
CLEAN: dict[str, Any] = {"violated": (), "accused": ()}


@pytest.mark.parametrize(
    ("number", "fields", "verdict"),
    [
        (82, WRONG, FAILS),
        (83, {"accused": ("s",)}, FAILS),
        (83, WRONG, FAILS),
        (83, {"delivered": {"b": (("s", 1),), "c": (("s", 1),)}}, FAILS),
        (84, CLEAN, HOLDS),
        (84, {**CLEAN, "untimely": ()}, FAILS),
        (86, {"survived": True}, FAILS),
        (86, {"survived": False}, FAILS),
        (87, CLEAN, FAILS),
        (87, {"violated": ("unanimity",)}, FAILS),
        (87, {"broken": ""}, FAILS),
        (88, {"printed_rejects": False}, HOLDS),
        (89, {"send": 1000.0}, FAILS),
        (89, {"send": 1.0}, REMARK),
        (90, {"took": 1.0}, HOLDS),
        (90, {"took": 1000.0}, FAILS),
        (90, WRONG, FAILS),
        (91, {"latest": 5000.0}, FAILS),
        (91, {"earliest": 1.0}, FAILS),
        (91, {"latest": 1.0}, HOLDS),
        (91, {"violated": ("bounded",)}, FAILS),
        (93, {"missing": 1}, FAILS),
        (93, {"remaining": 1}, FAILS),
        (93, {"within": 0}, FAILS),
        (93, WRONG, FAILS),
        (94, {"missing": 0}, FAILS),
        (94, {"remaining": 0}, FAILS),
        (94, WRONG, FAILS),
        (94, {"delivered": ()}, FAILS),
        (95, {"latest": 10.0}, REMARK),
        (95, {"latest": 1e6}, FAILS),
        (95, {"same": False}, FAILS),
        pytest.param(81, {"broken": ""}, HOLDS, marks=pytest.mark.long),
        pytest.param(81, {"broken": "order"}, FAILS, marks=pytest.mark.long),
        pytest.param(81, {"complete": False}, FAILS, marks=pytest.mark.long),
        pytest.param(81, WRONG, FAILS, marks=pytest.mark.long),
        pytest.param(85, {"broken": "order"}, FAILS, marks=pytest.mark.long),
        pytest.param(85, {"complete": False}, FAILS, marks=pytest.mark.long),
        pytest.param(85, {"accused": ("s",)}, FAILS, marks=pytest.mark.long),
        pytest.param(85, {"untimely": ()}, FAILS, marks=pytest.mark.long),
        pytest.param(85, {"broken": "", "accused": ()}, HOLDS, marks=pytest.mark.long),
    ],
)
def test_a_different_result_gives_another_verdict(number: int, fields: dict[str, Any], verdict: str) -> None:
    assert measured(number, Altered(altered(**fields))).verdict == verdict


def test_a_curve_is_not_linear() -> None:
    a, b, share = slope([1, 2, 3], [50, 90, 130])
    assert [a, b, share] == pytest.approx([40, 10, 1])
    assert slope([1, 2, 3, 4], [1, 4, 9, 16])[2] < 0.99


# --- runs -----------------------------------------------------------------------------------------------------------


def test_a_script_says_how_long_operations_take_and_what_fails() -> None:
    script = Script({"s write": (1, 0.5)}, {"s flag 1": "s"}, usual=1)
    run = found_of(plan("s a b", message("s", 5000), script=script, tolerate="crash", senders=("s",), label="scripted"))
    assert run.decisions == {"a": (1,), "b": (1,)}
    assert run.violated == run.accused == run.untimely == ()
    assert run.row()["run"] == "scripted"
    late = found_of(plan("s a b", message("s", 5000), script=Script({"s write 1": 3}), tolerate="crash", senders=("s",)))
    assert late.untimely == ("s",)
    dead = Script(after={"a decide 1": "module 1"})
    survived = found_of(plan("s a b", message("s", 5000), script=dead, tolerate="crash", senders=("s",)))
    assert survived.delivered["b"] == (("s", 1),)


@pytest.mark.parametrize(("extra", "same"), [("none", False), ("printed", False), ("corrected", True)])
def test_who_is_not_delayed_enough_overtakes(extra: str, same: bool) -> None:
    run = found_of(overtaken(extra, 4, 0.8, 0.9))
    assert (run.decisions["a"] == run.decisions["b"]) is same
    assert ("unanimity" in run.violated) is not same


def test_drawn_runs_have_failures() -> None:
    runs = [crashing(seed).scenario for seed in range(8)]
    assert {fault.kind for run in runs for fault in run.fault} == {"crash", "module"}
    late = [untimely(seed).scenario for seed in range(8)]
    assert {fault.kind for run in late for fault in run.fault} >= {"slow", "pause", "module"}


def test_line_21_as_printed_rejects_an_intact_sender() -> None:
    assert [found_of(line_21(wait)).accused for wait in ("printed", "corrected")] == [("s",), ()]


def test_without_d_receivers_contradict_each_other() -> None:
    assert [found_of(pausing(field, 130)).violated != () for field in (False, True)] == [True, False]


def test_a_late_sender_breaks_the_first_protocol_only() -> None:
    assert [bool(found_of(late_sender(tolerate, 93 / 20)).violated) for tolerate in ("crash", "timing")] == [True, False]


def test_one_early_receiver_more_than_a_minority_is_too_many() -> None:
    assert [survived_of(Many("early", 3, failing)).survived for failing in range(3)] == [True, True, False]
    assert [survived_of(Many("crashed", 4, failing)).survived for failing in range(3)] == [True, True, False]


def test_the_least_expiry_time_is_found() -> None:
    found = expiry_of(1)
    assert found.printed < found.least <= found.corrected <= found.least + 0.01
    assert (found.printed_rejects, found.corrected_rejects) == (True, False)
    assert found_of(last_moment(1, expiry=found.least - 0.001)).accused == ("s",)


def test_the_worst_runs_are_within_the_bounds() -> None:
    first, second = spans_of(worst_first(2)), spans_of(worst_second(2))
    assert 0.99 * first.latest_bound < first.latest <= first.latest_bound
    assert 0.85 * second.latest_bound < second.latest <= second.latest_bound
    assert first.send == second.send == times(copies=2).send / 1000
    assert spans_of(drawn("timing", 2, 1)).earliest >= times(copies=2).settled / 1000


def test_a_receive_is_longer_than_printed() -> None:
    for tolerate in ("crash", "timing"):
        found = received_of((tolerate, 2))
        assert found.printed < found.took <= found.corrected + 0.001


def test_flags_are_counted() -> None:
    found = flags_of(changing("crash", 0.5, 4, 5000.0))
    assert min(found.within, found.after) > 0
    assert (found.missing, found.remaining, found.before) == (0, 0, 0)
    assert [flags_of(unlisted(100, rules)).missing > 0 for rules in ({"enter_after": False}, AS_BUILT)] == [True, False]


def test_a_remote_member_is_within_its_bound_or_untimely() -> None:
    near, beyond = (reached_of(Distance("crash", most, 0)) for most in (1000, 12_000))
    assert near.latest <= near.bound < beyond.latest
    assert (near.untimely, beyond.untimely) == ((), ("d",))
    assert near.same
    assert beyond.same


def test_a_small_case_is_tried_in_every_way() -> None:
    found = explored_of(small("a", tolerate="timing", copies=1, skew=0, receivers=3, early={"r1": 70}, crashes=0))
    assert (found.complete, found.broken, found.rules) == (True, "", "all")
    assert found.states > 100
    early = small("b", tolerate="crash", early={"r1": 70}, crashes=0, modules=0, probes=300, limit=1, varied=frozenset())
    assert explored_of(early).broken == "validity"


# --- the page -------------------------------------------------------------------------------------------------------


def test_timing_diagrams_are_on_the_page(tmp_path: Path) -> None:
    results = measure(claims_of("mailbox", [89, 90]), Remembering())
    write(tmp_path, {"mailbox": results}, quick=True)
    page = (tmp_path / "index.html").read_text(encoding="utf-8")
    for name in ("send-timing", "receive-timing-first", "receive-timing-second"):
        svg = (tmp_path / "figures" / f"{name}.svg").read_text(encoding="utf-8")
        assert svg[svg.index("<svg") :] in page
    assert "Receive (µs)" in page
    assert picture_of((typical("crash"), "a")) == picture_of((typical("crash"), "a"))
