"""Properties of building blocks: traces with one planted violation each, and correct ones that look like it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import pytest

from plainchant.lab.properties import verify
from plainchant.trace.properties import BLOCK_PROPERTIES
from plainchant.trace.validation import validate

from ...trace.build import assert_flagged, assert_passes, check, trace
from .blocks import AB, apply, begin, history, hold
from .blocks_all import BAD, GOOD, NOTHING


@pytest.mark.parametrize(("name", "histories", "culprit"), [case[1:] for case in BAD], ids=[case[0] for case in BAD])
def test_a_planted_violation_is_found(name: str, histories: Mapping[str, str], culprit: str) -> None:
    assert validate(trace(histories)) == []
    assert_flagged(histories, name, culprit)


@pytest.mark.parametrize(("name", "histories"), [case[1:] for case in GOOD], ids=[case[0] for case in GOOD])
def test_a_correct_trace_that_looks_suspicious_passes(name: str, histories: Mapping[str, str]) -> None:
    assert validate(trace(histories)) == []
    assert_passes(histories, name)


@pytest.mark.parametrize(("name", "histories"), [case[1:] for case in NOTHING], ids=[case[0] for case in NOTHING])
def test_a_property_without_a_case_has_nothing_to_check(name: str, histories: Mapping[str, str]) -> None:
    assert check(histories, name).properties[name].verdict == "nothing to check"


@pytest.mark.parametrize("name", BLOCK_PROPERTIES)
def test_a_property_is_broken_passed_and_left_alone_in_enough_ways(name: str) -> None:
    counts = [Counter(case[1] for case in cases)[name] for cases in (BAD, GOOD, NOTHING)]
    assert counts[0] >= 3
    assert counts[1] >= 2
    assert counts[2] >= 1


def test_blocks_are_checked_wherever_they_are_whatever_the_protocol_promises() -> None:
    held = {"a": history(AB, hold(1), "end"), "b": history(AB, hold(1), "end")}
    found = verify(trace(held, promises=["fifo"]))
    assert list(found.properties) == ["fifo", "replica-agreement", "lock-exclusion"]
    assert found.properties["lock-exclusion"].violations
    assert list(verify(trace(held, promises=["fifo"]), ["fifo"]).properties) == ["fifo"]
    assert list(verify(trace({"a": history(AB, "end")}, promises=["fifo"])).properties) == ["fifo"]


def test_the_end_is_only_spoken_of_in_drained_runs() -> None:
    lazy = {"a": history(AB, "send", "deliver a 1", begin(), apply("a/1", "1"), "end"), "b": history(AB, begin(), "end")}
    assert verify(trace(lazy, drained=False, promises=[])).ok
    assert not verify(trace(lazy, promises=[])).ok
