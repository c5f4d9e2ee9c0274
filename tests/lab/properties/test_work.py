"""``jobs-once`` and ``answers``: what is wrong is said in words, and who crashed or joined is judged by what it can know."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from plainchant.lab.properties import verify

from ...trace.build import trace
from .blocks_work import ANSWERS_WRONG, EFFECT, JOBS_RIGHT, JOBS_WRONG, ONE, PUT, QUEUE, START, queue, rows


def sentences(histories: Mapping[str, str], name: str, **options: Any) -> list[str]:
    return [violation.sentence for violation in verify(trace(histories, **options), [name]).violations]


@pytest.mark.parametrize(("said", "histories"), JOBS_WRONG, ids=[said for said, _ in JOBS_WRONG])
def test_what_is_wrong_with_a_job_is_said(said: str, histories: Mapping[str, str]) -> None:
    assert said in sentences(histories, "jobs-once")


@pytest.mark.parametrize(("said", "histories"), ANSWERS_WRONG)
def test_what_is_wrong_with_an_outcome_is_said(said: str, histories: Mapping[str, str]) -> None:
    told = sentences(histories, "answers")
    assert any(said in sentence for sentence in told), told


def test_what_a_crashed_process_began_counts_and_with_uniform_delivery_all_that_it_says() -> None:
    alone = dict(JOBS_RIGHT)["what a crashed process was alone with"]
    begun = {**alone, "p": queue(f"{PUT} | {ONE} | {START} | crash")["p"]}
    assert set(sentences(begun, "jobs-once")) == {"attempt 1 at job j of 'x' is p's and q's"}
    uniform = [violation.sentence for violation in verify(trace(alone, promises=["uniform"])).violations]
    assert "job j of 'x' has two effects: attempt 1 by p at p, attempt 1 by q at q" in uniform


def test_who_joins_goes_on_from_its_donor() -> None:
    donor = f"begin 1 p | work worker=p at_once=1 | {PUT} | {ONE} | view 2 p,q | give at_view=2 to=q | {EFFECT} | end"

    def joined(rest: str) -> list[str]:
        return sentences(rows(QUEUE, p=donor, q=f"take 2 p,q donor=p | {rest}"), "jobs-once")

    assert joined(f"{EFFECT} | end") == []
    assert joined("end") == ["job j of 'x' is not done at q in the end: p has it, and does nothing about it"]
    assert "q deals job j of 'x' to p, though p has it" in joined(f"{ONE} | {EFFECT} | end")
