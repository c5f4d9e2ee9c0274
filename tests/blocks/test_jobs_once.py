"""``jobs-once`` on rows written by hand: what is right passes, and each thing that may be wrong is found and said."""

from __future__ import annotations

import pytest

from .planted import planted, sentences

ABOUT, NAME = "work queue", "jobs-once"
PUT = "put job=j"
ONE = "deal job=j attempt=1 worker=p"
TWO = "deal job=j attempt=2 worker=q"
BACK = "back job=j attempt=1 worker=p why=tired"
EFFECT = "effect job=j attempt=1 worker=p failed=false value=v"
GOOD = f"begin 1 p,q | work worker=p at_once=1 | {PUT} | {ONE} | {EFFECT} | end"


def wrong(p: str, q: str = "begin 1 p,q | end", **options: object) -> list[str]:
    return sentences({"p": f"begin 1 p,q | {p}", "q": q}, ABOUT, NAME, **options)  # type: ignore[arg-type]


def test_a_job_that_is_put_dealt_and_done_is_right() -> None:
    worker = GOOD.replace(EFFECT, f"start job=j attempt=1 | stop job=j attempt=1 | {EFFECT}")
    outcome = planted({"p": worker, "q": GOOD}, ABOUT, NAME)
    assert outcome.verdict == "holds"
    assert outcome.properties[NAME].cases > 5


def test_without_rows_there_is_nothing_to_check() -> None:
    assert planted({"p": "begin 1 p | end"}, ABOUT, NAME).properties[NAME].verdict == "nothing to check"


@pytest.mark.parametrize(("rows", "sentence"), [
    (f"{PUT} | {PUT} | {ONE} | {EFFECT} | end", "p puts job j into 'b' twice"),
    (f"{ONE} | end", "p deals job j of 'b' to p, which nobody put"),
    (f"{EFFECT} | end", "job j of 'b' has an effect at p, and nobody put it"),
    (f"{PUT} | {ONE} | {EFFECT} | {EFFECT} | end", "job j of 'b' has an effect at p twice: of attempts 1 and 1"),
    (f"{PUT} | {ONE} | {EFFECT} | {TWO} | end", "p deals job j of 'b' to q, though it is done"),
    (f"{PUT} | {ONE} | {TWO} | end", "p deals job j of 'b' to q, though p has it"),
    (f"{PUT} | {ONE} | {BACK} | {ONE} | {EFFECT} | end",
     "p deals job j of 'b' to p as attempt 1, and there was an attempt 1 before"),
    (f"{PUT} | {ONE} | {BACK} | {TWO} | {EFFECT} | end",
     "job j of 'b' has an effect at p of attempt 1 by p, though attempt 2 is q's"),
    (f"{PUT} | {ONE} | {BACK} | {EFFECT} | end", "job j of 'b' has an effect at p of attempt 1, which was given back before"),
    (f"{PUT} | {EFFECT} | end", "job j of 'b' has an effect at p of attempt 1, and the last one dealt is None"),
    (f"{PUT} | start job=j attempt=1 | end", "p begins attempt 1 at job j of 'b', which it was not dealt"),
    (f"{PUT} | {TWO} | start job=j attempt=2 | end", "p begins attempt 2 at job j of 'b', which it was not dealt"),
    (f"{PUT} | {ONE} | start job=j attempt=1 | start job=j attempt=1 | {EFFECT} | end",
     "p begins attempt 1 at job j of 'b' twice"),
    (f"{PUT} | {ONE} | {EFFECT} | start job=j attempt=1 | end", "p begins attempt 1 at job j of 'b', which is done"),
    (f"{PUT} | {ONE} | start job=j attempt=1 | stop job=j attempt=1 | end",
     "job j of 'b' is not done at p in the end: p has it, and does nothing about it"),
    (f"{PUT} | {TWO} | end", "job j of 'b' is not done at p in the end: q has it, and does nothing about it"),
    (f"work worker=q at_once=1 | {PUT} | end", "job j of 'b' is not done at p in the end: nobody has it, though q could"),
])
def test_what_is_wrong_at_one_copy_is_found(rows: str, sentence: str) -> None:
    assert sentence in wrong(rows)


@pytest.mark.parametrize("rows", [
    f"{PUT} | {ONE} | start job=j attempt=1 | end",                       # it is at it
    f"{PUT} | end",                                                       # nobody works
    f"work worker=q at_once=1 | rest worker=q | {PUT} | end",             # nobody works any more
    f"{PUT} | {ONE} | {BACK} | effect job=j attempt=1 worker=null failed=true value=v | end",   # given up
])
def test_what_is_not_wrong_is_not_found(rows: str) -> None:
    assert wrong(rows) == []


def test_two_copies_have_the_same_effect() -> None:
    other = EFFECT.replace("value=v", "value=w")
    told = wrong(f"{PUT} | {ONE} | {EFFECT} | end", f"begin 1 p,q | {PUT} | {ONE} | {other} | end")
    assert told == ["job j of 'b' has two effects: attempt 1 by p at p, attempt 1 by p at q"]


def test_an_attempt_has_one_worker() -> None:
    theirs = ONE.replace("worker=p", "worker=q")
    told = wrong(f"{PUT} | {ONE} | start job=j attempt=1 | end", f"begin 1 p,q | {PUT} | {theirs} | start job=j attempt=1 | end")
    assert "attempt 1 at job j of 'b' is p's and q's" in told


def test_what_a_crashed_process_was_alone_with_counts_only_if_it_began_or_where_delivery_is_uniform() -> None:
    dead = f"{PUT} | {ONE} | {EFFECT} | crash"
    alive = f"begin 1 p,q | work worker=q at_once=1 | {PUT} | deal job=j attempt=1 worker=q | start job=j attempt=1 | " \
            "effect job=j attempt=1 worker=q failed=false value=w | end"
    assert wrong(dead, alive) == []
    begun = wrong(dead.replace(EFFECT, "start job=j attempt=1"), alive)
    assert set(begun) == {"attempt 1 at job j of 'b' is p's and q's"}
    uniform = wrong(dead, alive, promises=["uniform"])
    assert any("has two effects" in sentence for sentence in uniform)


def test_who_joins_goes_on_from_its_donor() -> None:
    donor = f"begin 1 p | work worker=p at_once=1 | {PUT} | {ONE} | view 2 p,q | give at_view=2 to=q | {EFFECT} | end"
    joiner = f"take 2 p,q donor=p | {EFFECT} | end"
    assert sentences({"p": donor, "q": joiner}, ABOUT, NAME) == []
    assert sentences({"p": donor, "q": joiner.replace(f"{EFFECT} | ", "")}, ABOUT, NAME) == [
        "job j of 'b' is not done at q in the end: p has it, and does nothing about it"
    ]
    again = f"take 2 p,q donor=p | {ONE} | {EFFECT} | end"
    assert "q deals job j of 'b' to p, though p has it" in sentences({"p": donor, "q": again}, ABOUT, NAME)
