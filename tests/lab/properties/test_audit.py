"""Traces on which the verifier was once wrong: found by reading the definitions against it word by word."""

from __future__ import annotations

import pyarrow as pa
import pytest

from plainchant.lab.properties import verify
from plainchant.trace.validation import validate

from ...trace.build import assert_flagged, assert_passes, trace

BAD = [
    (
        "causal: a delivery proves that its message was sent before, also where its sender has no rows",
        "causal",
        {
            "r": "view 1 p,q,r | deliver p 1 | send | deliver r 1 | end",
            "q": "view 1 p,q,r | deliver r 1 | deliver p 1 | end",
        },
        "q",
    ),
    (
        "causal: the same where the sender's history is cut",
        "causal",
        {
            "p": "view 1 p,q,r",
            "r": "view 1 p,q,r | deliver p 1 | send | deliver r 1 | end",
            "q": "view 1 p,q,r | deliver r 1 | deliver p 1 | end",
        },
        "q",
    ),
    (
        "integrity: a delivery after leaving a group without joins and views",
        "integrity",
        {
            "p": "send | send | deliver p 1 | leave | deliver p 2 | end",
        },
        "p",
    ),
    (
        "integrity: a cut process delivers its own message, which it never sent",
        "integrity",
        {
            "p": "view 1 p,q | deliver p 1",
            "q": "view 1 p,q | end",
        },
        "p",
    ),
    (
        "integrity: a cut sender may have sent more than is recorded, but nothing numbered 0",
        "integrity",
        {
            "p": "view 1 p,q",
            "q": "view 1 p,q | deliver p 0 | end",
        },
        "q",
    ),
]

GOOD = [
    (
        "prompt: it waits for a message of a sender without rows",
        "prompt",
        {
            "r": "view 1 p,q,r | deliver p 1 | send | deliver r 1 | end",
            "q": "view 1 p,q,r | block r 1 | deliver p 1 | deliver r 1 | end",
        },
    ),
    (
        "causal: who has left the group owes nothing there any more",
        "causal",
        {
            "p": "view 1 p,q,r | send | crash",
            "r": "view 1 p,q,r | deliver p 1 | view 1 q,r group=h | send group=h | deliver r 1 group=h | view 2 r | end",
            "q": "view 1 p,q,r | view 1 q,r group=h | leave | deliver r 1 group=h | end",
        },
    ),
    (
        "fifo: who left and joined again does not owe what was sent in between",
        "fifo",
        {
            "p": "join time=0 | send time=1 | send time=9 | deliver p 1 | deliver p 2 | end",
            "q": "join time=0 | leave time=2 | join time=5 | deliver p 2 time=10 | end",
        },
    ),
    (
        "validity: a history is cut while one of its groups, known by deliveries alone, was not left",
        "validity",
        {
            "a": "send group=g | send group=h | send group=h | deliver a 1 group=g | deliver a 1 group=h | deliver a 2 group=h"
            " | end",
            "p": "deliver a 1 group=g | deliver a 1 group=h | leave group=g",
        },
    ),
]


@pytest.mark.parametrize(("story", "name", "histories", "culprit"), BAD, ids=[case[0] for case in BAD])
def test_it_is_found(story: str, name: str, histories: dict[str, str], culprit: str) -> None:
    assert_flagged(histories, name, culprit)


@pytest.mark.parametrize(("story", "name", "histories"), GOOD, ids=[case[0] for case in GOOD])
def test_it_passes(story: str, name: str, histories: dict[str, str]) -> None:
    assert_passes(histories, name)


def test_a_number_far_away_is_judged_in_no_time() -> None:
    table = trace({"p": "view 1 p,q | send", "q": "view 1 p,q | deliver p 300000000 | end"})
    assert verify(table, ["fifo"]).verdict == "violated"


@pytest.mark.parametrize("kind", ["join", "leave"])
def test_joining_or_leaving_no_group_is_malformed(kind: str) -> None:
    table = trace({"p": f"{kind} | end"})
    groups = table.schema.get_field_index("group")
    table = table.set_column(groups, table.schema.field(groups), pa.nulls(table.num_rows, pa.string()))
    assert [found.process for found in validate(table)] == ["p"]


@pytest.mark.parametrize(
    ("kind", "detail"), [("view", '{"signatures": ["a"]}'), ("send", '{"took_ns": "5"}'), ("view", '{"signatures": {"a": "b"}}')]
)
def test_a_detail_that_verifiers_could_not_read_is_malformed(kind: str, detail: str) -> None:
    event = "view 1 p" if kind == "view" else "send"
    table = trace({"p": f"{event} | end"})
    details = table.schema.get_field_index("detail")
    values = [detail if row == kind else None for row in table.column("kind").to_pylist()]
    table = table.set_column(details, table.schema.field(details), pa.array(values, pa.string()))
    assert ["cannot be read" in found.problem for found in validate(table)] == [True]
