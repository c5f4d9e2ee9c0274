"""Stories about a token ring: why members were eliminated, let in or stopped, what deliveries waited for, missed deadlines."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from plainchant.cli import main
from plainchant.core.model import MS, UsageError
from plainchant.lab.explain.explainer import Explainer, Explanation
from plainchant.lab.explain.reading import explainer_of
from plainchant.lab.show import lines
from plainchant.trace import validate

from .rings import P, crashed, omission, ring, turn, voted
from .script import Script, partition


def told(story: Explanation) -> list[str]:
    return [step.what for step in story.steps]


def because(story: Explanation, what: str) -> str | None:
    """The reason of the one step that begins so."""
    found = [step for step in story.steps if step.what.startswith(what)]
    assert len(found) == 1, told(story)
    return found[0].because


def process(script: Script, name: str) -> Explanation:
    return Explainer(script.table()).process(name)


def test_the_scripted_traces_are_traces() -> None:
    for script in (crashed(), omission(), omission(asked=False), voted(), late()):
        assert validate(script.table()) == []


# --- views ------------------------------------------------------------------------------------------------------------


def test_a_crash_is_told_with_what_its_successor_knew() -> None:
    story = crashed().story(2)
    assert told(story) == [
        "b crashes",
        "c eliminates b",
        "a installs view 2, after 1 delivery in view 1, the last g/c/1",
        "c installs view 2, after 1 delivery in view 1, the last g/c/1",
    ]
    assert because(story, "c eliminates") == (
        "no heartbeat of it came for 26.0 ms after turn 10; a answered and knows of no later turn; its last packet is number 4"
    )
    assert story.conclusion == (
        "View 2 follows view 1 without b (c heard no heartbeat of b). All 2 members installed it. It took 28.5 ms from b's "
        "crash to the first installation, 26.5 ms of them until somebody suspected it; the run states that it takes at most "
        "150.0 ms. a and c delivered the same 1 message between the two views."
    )


def test_a_join_is_told_with_its_vote_and_what_became_of_p() -> None:
    story = voted().story(2)
    assert told(story)[:5] == [
        "d looks for the group",
        "d asks a for a place on the ring, in the join slot",
        "a asks all members whether P may grow from 30.0 ms to 50.0 ms, for d to join",
        "b votes for P = 50.0 ms",
        "c votes for P = 50.0 ms",
    ]
    assert because(story, "b installs view 2") == "d joined, let in by a"
    assert "P was 30.0 ms and is now 50.0 ms." in story.conclusion


# --- why a member stopped ---------------------------------------------------------------------------------------------


def test_who_misses_something_for_good_says_what_and_what_it_did_about_it() -> None:
    story = process(omission(), "c")
    assert story.title == "What became of c"
    assert told(story) == [
        "c installs view 1 of g {a, b, c}",
        "c throws a packet of a away, which is 9.0 ms old, older than 2.0 ms",
        "c has missed packet 7 of a for good",
        "c halts: c has missed a packet before turn 5 of b",
        "a eliminates c",
    ]
    assert because(story, "c halts") == (
        "only those stay who have everything; missing was packet 7 of a, which it had asked for once, at 12.000 ms (a sent "
        "it again, in vain); 1 packet of a had come too late and was thrown away"
    )
    assert story.conclusion == (
        "At 20.000 ms, in view 1 of g {a, b, c}, c halts: c has missed a packet before turn 5 of b. The reason: only those "
        "stay who have everything; missing was packet 7 of a, which it had asked for once, at 12.000 ms (a sent it again, in "
        "vain); 1 packet of a had come too late and was thrown away. It had 1 turn, usually 6.0 ms apart, at most 6.0 ms (P "
        "was 40.0 ms at most). It asked once for packets that had not come."
    )
    assert because(process(omission(asked=False), "c"), "c halts") == (
        "only those stay who have everything; missing was packet 7 of a (with r = 0 nothing is sent again); 1 packet of a "
        "had come too late and was thrown away"
    )


def test_what_was_missing_once_and_came_is_not_what_a_member_stopped_for() -> None:
    script = ring()
    script.add(20, "c", "receive", omission=True, missing=[["a", 7, 7]])
    evidence: dict[str, Any] = {"missing": [["b", 9, -1], ["a", 8, 8]]}
    script.add(40, "c", "crash", group=None, by="protocol", reason="omission", text="c has missed a turn", evidence=evidence)
    script.end(60, "a b")
    told_why = because(process(script, "c"), "c halts")
    assert told_why == "only those stay who have everything; missing was all packets of b from 9 on"


def test_the_same_reason_stands_in_the_story_of_the_view_and_of_a_message() -> None:
    script = omission()
    reason = "missing was packet 7 of a, which it had asked for once"
    assert reason in (because(script.story(2), "c halts") or "")
    assert reason in (because(Explainer(script.table()).message(("g", "a", 1)), "c never delivers it") or "")


def test_who_was_eliminated_hears_by_whom_and_why() -> None:
    script = ring()
    script.add(30, "a", "suspect", processes=["c"], last={"c": 3}, after=9, waited=26 * MS, answers=["b"])
    script.add(35, "c", "state", state="crashed", reason="eliminated")
    script.add(35, "c", "crash", group=None, by="protocol", reason="eliminated", text="c was eliminated from g")
    script.end(60, "a b")
    assert because(process(script, "c"), "c halts") == (
        "a had eliminated it at 30.000 ms (no heartbeat of it came for 26.0 ms after turn 9; b answered and knows of no "
        "later turn; its last packet is number 3)"
    )


@pytest.mark.parametrize(
    ("code", "evidence", "words"),
    [
        ("unheard", {}, "others may not have heard it either: that is a send omission, and counts as a crash"),
        ("deaf", {}, "who hears nobody is taken to be cut off itself, and does not eliminate all the others"),
        (
            "minority",
            {"silent": ["a", "b"], "base": ["a", "b", "c"]},
            "by the majority rule only the larger part of a group goes on; of the ring {a, b, c} it did not hear a and b",
        ),
    ],
)
def test_the_rule_by_which_a_member_stops(code: str, evidence: dict[str, list[str]], words: str) -> None:
    script = ring()
    script.add(35, "c", "crash", group=None, by="protocol", reason=code, text="c stops", evidence=evidence)
    script.end(60, "a b")
    assert because(process(script, "c"), "c halts") == words


# --- messages ---------------------------------------------------------------------------------------------------------


def held_up() -> Script:
    """c lacks a packet before a's message; others deliver it at once."""
    script = ring()
    for when in range(10, 30, 2):
        script.deliver(when + 1, "a b c", "b", script.send(when, "b"))
    seq = script.send(40, "a")
    turn(script, 40, "a", 20)
    script.deliver(41, "a b", "a", seq)
    script.add(42, "c", "ask", sender="b", first=7, last=7, left=1)
    turn(script, 42, "c", 22)
    script.add(44, "b", "retransmit", sender="b", to=["c"], number=7, visit=18)
    script.deliver(45, "c", "a", seq)
    script.end(60, "a b c")
    return script


def test_a_delivery_that_waited_for_a_missing_packet() -> None:
    story = Explainer(held_up().table()).message(("g", "a", 1))
    assert because(story, "c delivers it") == (
        "packet 7 of b, which had to come before it, was missing here: c asked in its turn at 42.000 ms, and b sent it again at "
        "44.000 ms"
    )
    assert story.steps[0].what == "a sends it in view 1 {a, b, c}, in turn 20"
    assert because(story, "a delivers it") is None


def test_reading_a_clock_does_not_stop_the_group() -> None:
    script = held_up()
    clear = Explainer(script.table()).message(("g", "a", 1))
    script = ring()
    seq = script.send(10, "a")
    script.add(11, "b", "sync", master="a", error=1000, clock=11, tries=0, round_trip=900)
    script.deliver(12, "a b c", "a", seq)
    script.end(60, "a b c")
    story = Explainer(script.table()).message(("g", "a", 1))
    assert all(step.because is None for step in story.steps), story.steps
    assert "synchronisation" not in str(clear) + str(story)


def test_safe_delivery_says_what_it_waits_for() -> None:
    script = ring(delivery="safe")
    script.deliver(30, "a b c", "a", script.send(10, "a"))
    script.end(60, "a b c")
    assert "delivery is safe" in str(because(Explainer(script.table()).message(("g", "a", 1)), "a delivers it"))


# --- deadlines --------------------------------------------------------------------------------------------------------


def late() -> Script:
    """b, which was stopped for a while, delivers a message of a after its deadline; c before."""
    script = ring()
    turn(script, 5, "a", 1)
    script.add(58, "a", "state", broken="rotation", measured=55 * MS, bound=P)
    seq = script.send(60, "a", due=70)
    turn(script, 60, "a", 4, rotation=55)
    script.deliver(61, "a c", "a", seq)
    script.add(62, "b", "state", broken="reaction", measured=30 * MS, bound=MS)
    script.add(63, "b", "state", broken="reaction", measured=12 * MS, bound=MS)
    script.deliver(75, "b", "a", seq)
    script.end(90, "a b c")
    return script


def test_a_missed_deadline_is_told_with_what_was_broken_meanwhile() -> None:
    story = Explainer(late().table()).message(("g", "a", 1))
    assert told(story)[0] == (
        "a sends it in view 1 {a, b, c}, in turn 4, 55.0 ms after the turn before, and P is 40.0 ms; due 10.0 ms later"
    )
    assert "b delivers it, 15.0 ms after its send, 5.0 ms after its deadline" in told(story)
    assert "c delivers it, 1.0 ms after its send, 9.0 ms before its deadline" in told(story)
    assert (
        "Its deadline, 10.0 ms after its send, was missed at b (by 5.0 ms). Meanwhile: at 58.000 ms a gets the token after "
        "55.0 ms, and P is 40.0 ms; at 62.000 ms b reacts 30.0 ms late; at most 1.0 ms is assumed (the worst of 2)."
    ) in story.conclusion
    assert "Of its 1 message with a deadline 1 came late: g/a/1 (by 5.0 ms); --message g/a/1 tells why." in (
        process(late(), "a").conclusion
    )


def test_a_deadline_that_was_met_or_that_nobody_guarantees() -> None:
    script = ring()
    script.deliver(12, "a b c", "a", script.send(10, "a", due=30))
    script.deliver(35, "b c", "b", script.send(20, "b", due=30))
    script.crash(40, "b")
    script.end(60, "a c")
    explainer = Explainer(script.table())
    assert "Its deadline, 20.0 ms after its send, was met." in explainer.message(("g", "a", 1)).conclusion
    assert "nothing is guaranteed of b, which crashed" in explainer.message(("g", "b", 1)).conclusion
    assert "Of its 1 message with a deadline none was delivered late." in explainer.process("a").conclusion


def test_a_deadline_that_passes_where_the_message_never_comes() -> None:
    script = ring()
    script.deliver(12, "a b", "a", script.send(10, "a", due=30))
    script.end(60, "a b c")
    assert "was missed at c (for ever)" in Explainer(script.table()).message(("g", "a", 1)).conclusion


# --- processes --------------------------------------------------------------------------------------------------------


def test_streams_are_told_and_single_messages_are_counted() -> None:
    script = ring()
    periodic: dict[str, Any] = {"stream": "w0", "size": 100, "deadline_ns": 90 * MS, "period_ns": 100 * MS}
    script.add(10, "a", "admit", **periodic, visits=1, share=80_000, used=2 * MS, hold=4 * MS)
    for number in range(3):
        single: dict[str, Any] = {"stream": f"~{number}", "size": 9_000, "deadline_ns": 50 * MS, "period_ns": 0}
        script.add(20 + number, "a", "reject", **single, reason="load", text=f"sum of C/n > T: with ~{number} a turn takes 5 ms")
    script.add(30, "a", "admit", stream="~9", size=10, deadline_ns=90 * MS, period_ns=0, visits=1, share=9, used=9, hold=10)
    script.end(60, "a b c")
    story = process(script, "a")
    assert told(story)[1:] == [
        "a admits stream w0 (100 B, every 100.0 ms, due within 90.0 ms): 80 us in one turn; now 2.0 ms of T = 4.0 ms are "
        "promised",
        "a rejects a message (9,000 B, once, due within 50.0 ms); the like 2 more times, until 22.000 ms",
    ]
    assert because(story, "a rejects") == "sum of C/n > T: with ~0 a turn takes 5 ms"
    assert "It asked for the deadlines of 4 single messages, of which 1 were admitted." in story.conclusion


def test_the_process_of_any_protocol_has_a_story() -> None:
    story = process(partition(), "k")
    assert told(story)[:4] == [
        "k installs view 1 of g {i, j, k, l, m}",
        "fault: partition, i j | k l m",
        "k suspects m",
        "k installs view 2 of g {i, j, k, l}",
    ]
    assert "i suspects k" in told(story)
    assert story.conclusion.startswith("k is alive at the end, in view 3 of g {k, l}. It sent 1 message and delivered 2.")
    with pytest.raises(UsageError, match="there is no process 'z' in this run; there are i, j, k, l and m"):
        process(partition(), "z")


def test_a_large_run_tells_the_same(tmp_path: Path) -> None:
    path = tmp_path / "trace.parquet"
    pq.write_table(omission().table(), path)
    found = explainer_of(path, None, process="c", small=0)
    assert not found.is_whole
    assert found.explainer.process("c") == process(omission(), "c")


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "trace.parquet"
    pq.write_table(omission().table(), path)
    assert main(["explain", str(path), "--process", "c"]) == 0
    out = capsys.readouterr().out
    assert "What became of c" in out
    assert "because: only those stay who have everything; missing was packet 7 of a" in out


# --- listings ---------------------------------------------------------------------------------------------------------


def test_a_listing_has_the_words() -> None:
    listing = list(lines(crashed().table()))
    suspicion = "40.000 ms  c  suspect  g view 1  eliminates b (no heartbeat of it came for 26.0 ms after turn 10; a answered"
    assert any(suspicion in line for line in listing)
    assert any("token    g view 1  has turn 7, by the token, 6.0 ms after its last (P is 40.0 ms)" in line for line in listing)
