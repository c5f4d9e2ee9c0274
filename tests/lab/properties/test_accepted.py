"""What was accepted of a survivor comes exactly once: the check on small traces, and every way of breaking it planted."""

from __future__ import annotations

import pyarrow as pa
import pytest

from plainchant.lab.properties.accepted import MOST, accepted_once

from ...trace.build import trace

AB = "view 1 a,b"
FINE = {
    "a": f"{AB} | accept group=g digest=1 size=3 | accept group=g digest=2 size=3 | send digest=1 size=3 | send digest=2 size=3 "
    "| deliver a 1 | deliver b 1 | deliver a 2 | end",
    "b": f"{AB} | accept group=g digest=9 size=1 | send digest=9 size=1 | deliver a 1 | deliver b 1 | deliver a 2 | end",
}


def test_what_is_delivered_once_is_fine() -> None:
    found = accepted_once(trace(FINE))
    assert (found.verdict, found.survivors, found.accepted, found.deliveries) == ("holds", 2, 3, 6)


BAD = [
    ("never sent", {"a": (" | send digest=2 size=3 ", " "), "b": (" | deliver a 2", "")}, "as number 2 was never sent"),
    ("with another content", {"a": ("send digest=2 size=3", "send digest=7 size=3")}, "as number 2 was never sent"),
    ("sent again", {"a": ("| end", "| send digest=2 size=3 | deliver a 3 | end")}, "sent 1 messages in g that nobody gave it"),
    ("overtaken", {"a": ("send digest=1 size=3 | send digest=2", "send digest=2 size=3 | send digest=1")}, "in another order"),
    ("lost at its sender", {"a": (" | deliver a 2", "")}, "a lives, and never delivers its own message 2 of a in g"),
    ("lost at another", {"b": (" | deliver a 2", "")}, "did not part, and b never delivers message 2 of a in g"),
    ("delivered twice", {"b": ("| deliver a 2", "| deliver a 2 | deliver a 2")}, "b delivers message 2 of a in g more than once"),
]


@pytest.mark.parametrize(("name", "changes", "sentence"), BAD, ids=[bad[0] for bad in BAD])
def test_what_is_planted_is_found(name: str, changes: dict[str, tuple[str, str]], sentence: str) -> None:
    histories = dict(FINE)
    for process, (before, after) in changes.items():
        assert before in histories[process]
        histories[process] = histories[process].replace(before, after)
    found = accepted_once(trace(histories))
    assert found.verdict == "violated"
    assert found.count == len(found.violations)
    assert any(sentence in violation.sentence for violation in found.violations), found.violations
    assert all(violation.property == "accepted" for violation in found.violations)


EXCUSED = [
    ("a crash", ("| end", "| crash")),
    ("a history that is cut", (" | end", "")),
    ("who left", ("| end", "| leave")),
    ("a clock that was wrong from the start", ("| end", '| fault detail={"fault":"clock","timing":true} | end')),
    ("a clock that was set where clocks count", ("| end", '| fault detail={"fault":"step","timing":true} | end')),
]


@pytest.mark.parametrize("change", [excuse[1] for excuse in EXCUSED], ids=[excuse[0] for excuse in EXCUSED])
def test_only_survivors_are_asked(change: tuple[str, str]) -> None:
    """What would be missed of a survivor is not of one of these."""
    lost = FINE["a"].replace(" | deliver a 2", "")
    assert accepted_once(trace(FINE | {"a": lost})).verdict == "violated"
    found = accepted_once(trace(FINE | {"a": lost.replace(*change)}))
    assert (found.verdict, found.survivors) == ("holds", 1)


def test_who_was_only_late_is_asked() -> None:
    late = FINE["a"].replace(" | deliver a 2", "").replace("| end", '| fault detail={"fault":"timing","timing":true} | end')
    assert accepted_once(trace(FINE | {"a": late})).verdict == "violated"


def test_who_parted_does_not_owe() -> None:
    apart = {
        "a": f"{AB} | accept group=g digest=1 size=3 | send digest=1 size=3 | view 2 a | deliver a 1 | end",
        "b": f"{AB} | view 2 b | end",
    }
    assert accepted_once(trace(apart)).verdict == "holds"
    together = {"a": apart["a"].replace("view 2 a", "view 2 a,b"), "b": f"{AB} | view 2 a,b | end"}
    assert accepted_once(trace(together)).verdict == "violated"


def test_messages_with_deadlines_overtake() -> None:
    before, after = "send digest=1 size=3 | send digest=2", "send digest=2 size=3 deadline=50 | send digest=1"
    assert accepted_once(trace(FINE | {"a": FINE["a"].replace(before, after)})).verdict == "holds"


def test_a_run_that_was_not_drained_says_nothing() -> None:
    table: pa.Table = trace(FINE, drained=False)
    assert accepted_once(table).verdict == "nothing to check"


def test_a_trace_without_what_was_accepted_says_nothing() -> None:
    assert accepted_once(trace({"a": "view 1 a | send digest=1 size=3 | deliver a 1 | end"})).verdict == "nothing to check"


def test_many_violations_are_counted_and_some_are_told() -> None:
    many = " | ".join(f"accept group=g digest={number} size=1" for number in range(50))
    found = accepted_once(trace({"a": f"view 1 a | {many} | end"}))
    assert (found.count, len(found.violations)) == (50, MOST)
