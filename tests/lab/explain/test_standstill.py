"""Why a member stood still: from when to when, what it waited for, what ended it."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest

from plainchant.cli import main
from plainchant.core.model import UsageError
from plainchant.lab.explain.explainer import Explainer, Explanation
from plainchant.lab.explain.reading import explainer_of
from tests.trace.build import trace


def told(story: Explanation) -> list[str]:
    return [step.what for step in story.steps]


def rows(**histories: str) -> pa.Table:
    return trace(histories)


def test_a_standstill_is_told_from_the_last_delivery_to_the_one_that_ends_it() -> None:
    suspicion = 'suspect time=400 detail={"process":"a"}'
    story = Explainer(trace({
        "a": "view 1 a,b time=0 | send time=10 | deliver a 1 time=12 | send time=30 | deliver a 2 time=700 | end time=800",
        "b": f"view 1 a,b time=0 | deliver a 1 time=13 | {suspicion} | deliver a 2 time=705 | end time=800",
    })).standstill()  # fmt: skip
    assert story.title == "The longest standstill: b delivered nothing in g for 675 ns"
    assert told(story) == [
        "b delivers g/a/1, and then nothing for 675 ns",
        "a sends g/a/2, which waits",
        "b suspects a",
        "b delivers g/a/2, which ends the standstill",
    ]
    assert "from 0.000 ms to 0.001 ms, while a message of a waited. What it waited for: b suspects a." in story.conclusion
    assert "The longest of others: a in g for 670 ns; --process NAME tells theirs." in story.conclusion


def test_the_standstill_of_one_process_can_be_asked_for() -> None:
    explainer = Explainer(rows(a="view 1 a time=0 | send time=10 | deliver a 1 time=12", b="view 1 b time=0"))
    assert explainer.standstill("a").title == "The longest standstill of a: a delivered nothing in g for 2 ns"
    assert explainer.standstill("b").conclusion == "b never stood still: no message waited for a delivery."
    with pytest.raises(UsageError, match="there is no process 'c' in this run"):
        explainer.standstill("c")


def test_a_run_without_messages_has_no_standstill() -> None:
    assert Explainer(rows(a="view 1 a time=0 | end time=9")).standstill().conclusion.startswith("No member stood still")


def test_a_message_that_is_never_taken_waits_to_the_end_and_the_block_says_why() -> None:
    blocked = 'block time=30 detail={"text":"receiver-b-reads-nothing"}'
    story = Explainer(
        rows(a=f"view 1 a,b time=0 | {blocked} | accept time=40 | end time=900", b="view 1 a,b time=0 | end time=900")
    )
    found = story.standstill()
    assert told(found) == ["a hands in a message, which waits", "the history of a ends, and the message still waits"]
    assert "it was blocked from 0.000 ms on (receiver-b-reads-nothing)" in found.conclusion
    assert "It lasted to the end of its history." in found.conclusion


def test_faults_in_force_and_what_happened_meanwhile_are_told() -> None:
    pause = 'fault time=20 detail={"fault":"pause","process":"b","length":600}'
    story = Explainer(rows(
        a=f"view 1 a,b time=0 | {pause} | send time=50 | view 2 a time=400 | deliver a 1 time=401 | end time=900",
        b="view 1 a,b time=0 | crash time=620",
    )).standstill()  # fmt: skip
    assert told(story) == [
        "fault: pause, length 600ns at b",
        "a sends g/a/1, which waits",
        "a installs view 2 of g {a}",
        "a delivers g/a/1, which ends the standstill",
    ]
    assert "What it waited for: fault: pause, length 600ns at b; view 2 {a} at 0.000 ms." in story.conclusion


def test_the_command_tells_the_same_of_a_large_run_as_of_a_small_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = str(tmp_path / "out")
    assert main(["run", "sequencer-crash", "--out", out, "--no-verify"]) == 0
    capsys.readouterr()
    assert main(["explain", out, "--standstill", "--process", "p3"]) == 0
    printed = capsys.readouterr().out
    assert "The longest standstill of p3: p3 delivered nothing in g for" in printed
    assert "What it waited for: the crash of p1; the election of p2" in printed
    whole, part = (explainer_of(out, None, process="p3", is_standstill=True, small=small) for small in (10**9, 1))
    assert (whole.is_whole, part.is_whole) == (True, False)
    one, other = (found.explainer.standstill("p3") for found in (whole, part))
    assert one.title == other.title
    assert one.conclusion == other.conclusion
    assert {step.what for step in other.steps} >= {step.what for step in one.steps if "and then nothing" not in step.what}


def test_the_story_as_json_and_what_cannot_be_asked_together(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = str(tmp_path / "out")
    assert main(["run", "first-steps", "--out", out, "--no-verify"]) == 0
    capsys.readouterr()
    assert main(["explain", out, "--standstill", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["title"].startswith("The longest standstill: ")
    assert main(["explain", out, "--standstill", "--view", "g"]) != 0
    assert "explain what? Give one of" in capsys.readouterr().err
