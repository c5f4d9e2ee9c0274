"""``answers`` on rows written by hand: what is right passes, and each thing that may be wrong is found and said."""

from __future__ import annotations

import json

import pytest

from .planted import planted, sentences

ABOUT, NAME = "requests", "answers"
ALL = "p,q,r"
ASKED = 'deliver p 1 | asked question=p/1 asker=p need={need} asked=["p","q","r"] message=p/1'
GIVEN = 'given question=p/1 value="yes"'


def outcome(
    *answers: str, need: str = "majority", gone: str = "", late: str = "", failed: str = "", enough: bool = True,
    why: str = "enough", at_view: int = 1, asked: str = "pqr", value: str = "yes",
) -> str:
    def dump(value: object) -> str:
        return json.dumps(value, separators=(",", ":"))

    return " ".join([
        f"outcome question=p/1 need={need} why={why} enough={dump(enough)} at_view={at_view} asked={dump(list(asked))}",
        f"answers={dump([[member, value] for member in answers])} failed={dump([[member, 'no'] for member in failed])}",
        f"gone={dump(list(gone))} late={dump(list(late))}",
    ])


def told(end: str, *, need: str = "majority", given: str = "pqr", others: str = "end", view: str = "") -> list[str]:
    """What is said of an outcome at p (and at r, if ``others`` has one)."""
    asked = ASKED.format(need=need)
    rows = {
        name: " | ".join([f"begin 1 {ALL}", asked, *([GIVEN] if name in given else []), *([view] if view else []), *last])
        for name, last in (("p", [end, "end"]), ("q", ["end"]), ("r", [others]))
    }
    return sentences(rows, ABOUT, NAME)


@pytest.mark.parametrize(("need", "end"), [
    ("first", outcome("q", need="first", late="pr")),
    ("majority", outcome("q", "p", late="r")),
    ("all", outcome("q", "r", "p", need="all")),
    ("all", outcome("q", need="all", late="pr", enough=False, why="stopped")),
    ("majority", outcome("q", failed="p", late="r", enough=False, why="stopped")),
])
def test_outcomes_that_are_right(need: str, end: str) -> None:
    asked = f"begin 1 {ALL} | {ASKED.format(need=need)}"
    given = GIVEN.replace("yes", "no") if "failed=[[" in end else GIVEN
    rows = {"p": f"{asked} | {given} | {end} | end", **{name: f"{asked} | {GIVEN} | {end} | end" for name in "qr"}}
    found = planted(rows, ABOUT, NAME)
    assert [violation.sentence for violation in found.violations] == []
    assert found.properties[NAME].cases >= 9


@pytest.mark.parametrize(("end", "sentence"), [
    (outcome("q", late="pr"), "has 1 answers of 3 and calls that enough"),
    (outcome("q", "p", late="r", enough=False, why="stopped"), "has 2 answers of 3 and calls that not enough"),
    (outcome("q", "q", late="pr"), "does not name everybody who was asked once, and nobody else"),
    (outcome("q", "p"), "does not name everybody who was asked once, and nobody else"),
    (outcome("q", "p", late="r", value="no"), "has another answer of q than it gave"),
    (outcome("q", "p", gone="r"), "says that r is gone, which is in view 1 {p, q, r}"),
    (outcome("q", "p", late="r", at_view=7), "in view 7, which is not in force there"),
    (outcome("q", late="pr", enough=False, why="impossible"), "does not wait for p, r, though nobody stopped it"),
    (outcome("q", "p", asked="pq"), "names others as asked than were asked"),
])
def test_an_outcome_that_is_wrong_is_found(end: str, sentence: str) -> None:
    assert any(sentence in found for found in told(end)), told(end)


def test_an_answer_that_was_never_given_is_found() -> None:
    assert told(outcome("q", "p", late="r"), given="p") == [
        "the outcome of question p/1 at p has an answer of q, which it never gave"
    ]


def test_all_means_that_nobody_is_late_and_nobody_has_failed() -> None:
    assert any("calls that enough" in found for found in told(outcome("p", "q", need="all", late="r"), need="all"))
    assert any("calls that enough" in found for found in told(outcome("p", "q", need="all", failed="r"), need="all"))


def test_who_is_gone_is_not_late() -> None:
    view = "view 2 p,q"
    assert told(outcome("p", "q", gone="r", at_view=2), view=view, others="crash") == []
    late = told(outcome("p", "q", late="r", at_view=2), view=view, others="crash")
    assert late == ["the outcome of question p/1 at p says that r is late, which is gone from view 2 {p, q}"]


def test_a_question_is_to_the_view_in_which_it_is_delivered() -> None:
    rows = f"begin 1 {ALL} | view 2 p,q | {ASKED.format(need='first')} | crash"
    assert sentences({"p": rows}, ABOUT, NAME) == [
        "p takes question p/1 for one to p, q, r, and it was delivered in view 2 {p, q}"
    ]


def test_there_is_one_outcome_and_the_same_everywhere() -> None:
    end = outcome("p", "q", late="r")
    assert "p has two outcomes of question p/1" in told(f"{end} | {end}")
    others = f"{outcome('q', 'r', late='p')} | end"
    assert "question p/1 has one outcome at p and another at r" in told(end, others=others)
    assert told(end, others=others.replace("end", "crash")) == []


def test_an_outcome_needs_a_question_and_an_answer_too() -> None:
    unasked = sentences({"p": f"begin 1 {ALL} | {outcome('p', 'q', late='r')} | end"}, ABOUT, NAME)
    assert "p has an outcome of question p/1, which nobody asked" in unasked
    assert sentences({"p": f"begin 1 {ALL} | {GIVEN} | end"}, ABOUT, NAME) == ["p answers question p/1, which it was not asked"]
    twice = f"begin 1 {ALL} | {ASKED.format(need='first')} | {GIVEN} | {GIVEN} | {outcome('p', need='first', late='qr')} | end"
    assert "p answers question p/1 twice" in sentences({"p": twice}, ABOUT, NAME)


def test_a_question_of_a_correct_member_is_over_in_the_end() -> None:
    rows = f"begin 1 {ALL} | {ASKED.format(need='all')} | {GIVEN}"
    open_for_ever = {"p": f"{rows} | end", "q": f"{rows} | end", "r": f"{rows} | crash"}
    assert sentences(open_for_ever, ABOUT, NAME) == ["question p/1 of p is never over"]
    assert sentences({**open_for_ever, "q": f"{rows.replace(f' | {GIVEN}', '')} | end"}, ABOUT, NAME) == []  # q is still at it
    assert sentences({**open_for_ever, "p": f"{rows} | crash"}, ABOUT, NAME) == []
