"""The story of a view change: suspicions, refutations, what is agreed, parts that separate and parts that come together."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from plainchant.core.model import MS, Duration, UsageError
from plainchant.lab.explain.explainer import Explainer, Explanation
from plainchant.lab.explain.reading import explainer_of
from plainchant.scenario import find, load
from plainchant.scenario.model import Fault
from plainchant.sim import Simulation
from plainchant.trace import TraceBuffer, validate
from tests.trace.build import trace

from .script import Script, partition, silence


def told(story: Explanation) -> list[str]:
    return [step.what for step in story.steps]


def because(story: Explanation, what: str) -> str | None:
    """The reason of the one step that begins so."""
    found = [step for step in story.steps if step.what.startswith(what)]
    assert len(found) == 1, told(story)
    return found[0].because


def test_the_scripted_traces_are_traces() -> None:
    for script in (partition(), refuted(), merged(), cascade()):
        assert validate(script.table()) == []


# --- parts that separate ----------------------------------------------------------------------------------------------


def test_the_story_of_one_part() -> None:
    story = partition().story(2, "i")
    assert story.title == "How view 2 of g {i, j} came to be, after view 1"
    assert told(story) == [
        "m crashes",
        "fault: partition, i j | k l m",
        "k suspects m",
        "l suspects m",
        "i suspects m",
        "j suspects m",
        "k goes another way: it installs view 2 {i, j, k, l}",
        "l goes another way: it installs view 2 {i, j, k, l}",
        "i suspects k and l",
        "j suspects k and l",
        "i confirms: k, l and m have failed; k, l and m count up to block 8; g/k/1 is replaced by nulls",
        "i removes k, l and m, in block 14",
        "j agrees with i: k, l and m have failed; k, l and m count up to block 8",
        "j removes k, l and m, in block 14",
        "i installs view 2, after 1 delivery in view 1, the last g/m/1",
        "j installs view 2, after 1 delivery in view 1, the last g/m/1",
    ]
    assert because(story, "i suspects m") == (
        "block 10 lacked it for 251.0 ms, and i's patience is 250.0 ms; its last here is block 8"
    )
    assert because(story, "i suspects k") == (
        "block 13 lacked them for 250.5 ms, and i's patience is 250.0 ms; their last here: k block 11 and l block 10"
    )
    assert because(story, "i confirms") == "all whom it does not suspect suspect them too, 241.0 ms after the first suspicion"
    assert because(story, "j agrees") == "i has confirmed the same, 241.0 ms after the first suspicion"
    assert story.conclusion == (
        "View 2 follows view 1 without k, l and m. All 2 members installed it. Agreed by i and j: k, l and m count up to block "
        "8. Replaced by nulls: g/k/1. It took 494.0 ms from m's crash to the first installation, 250.0 ms of them until somebody "
        "suspected it. k and l went another way, to view 2 {i, j, k, l}. i and j delivered the same 1 message between the two "
        "views."
    )


def test_without_a_process_the_larger_of_concurrent_views_is_told() -> None:
    story = partition().story(2)
    assert story.title == "How view 2 of g {i, j, k, l} came to be, after view 1"
    assert "i suspects k and l" in told(story), "why i and j went another way"
    assert not any(what.startswith(("i confirms", "i removes")) for what in told(story))
    assert "Only 2 of its 4 members installed it, within 1.0 ms; i and j did not." in story.conclusion
    assert "i and j went another way, to view 2 {i, j}." in story.conclusion
    assert "breaks" not in story.conclusion
    assert because(story, "k installs view 2") == "m has sent nothing for block 10 in 251ms; its last message had block 8"
    assert because(story, "l installs view 2") is None, "the same reason once"


def test_mutual_suspicion_is_told_as_such() -> None:
    story = partition().story(3)
    assert told(story)[0] == "k suspects i and j", "what led to view 2 is no part of it"
    assert because(story, "k suspects") == "i and j count k as failed, so the suspicion is mutual; their last here is block 12"


def test_two_processes_that_keep_each_other_in_different_views_break_view_order() -> None:
    parted = trace({"p": "view 1 p,q | view 2 p", "q": "view 1 p,q | view 2 q"})
    story = Explainer(parted).view("g", 2, "q")
    assert "p went another way, to view 2 {p}." in story.conclusion
    assert "breaks" not in story.conclusion
    broken = trace({"p": "view 1 p,q,r | view 2 p,q", "q": "view 1 p,q,r | view 2 p,q,r", "r": "view 1 p,q,r | view 2 p,q,r"})
    story = Explainer(broken).view("g", 2)
    assert "installed one with p in it, and p another one with q in it, which breaks view-order" in story.conclusion


def test_views_of_one_number_that_have_nothing_to_do_with_each_other() -> None:
    table = trace({"p": "view 1 p | view 2 p,x", "q": "view 1 q,r | view 2 q", "r": "view 1 q,r | crash"})
    story = Explainer(table).view("g", 2, "q")
    assert "Another view 2, {p, x}, was installed by p: --process p tells of it." in story.conclusion


def test_a_process_that_did_not_install_it_is_a_slip() -> None:
    with pytest.raises(UsageError, match="m did not install view 2 of group 'g'; it was installed by k, l, i and j"):
        partition().story(2, "m")


# --- refutations ------------------------------------------------------------------------------------------------------


def refuted() -> Script:
    """q's suspicion of r is refuted in time by p, its suspicion of s too late by t, and t's of s is in vain."""
    script = Script()
    everybody = "p q r s t"
    script.view(0, everybody, 1, everybody)
    script.add(100, "q", "suspect", **silence("r", last=4))
    script.add(101, "p", "refute", process="r", last=4, up_to=7, of=["q"], packets=3, situation="refutes")
    script.add(103, "q", "refute", process="r", last=4, heard=True, by="p", situation="refuted")
    script.crash(110, "s")
    script.add(300, "q r p", "suspect", **silence("s", last=9))
    script.add(301, "t", "refute", process="s", last=9, up_to=10, of=["q"], packets=1, situation="refutes")
    script.add(302, "p", "suspect", process="t", last=9, why="asked", situation="suspects")
    script.add(303, "q", "refute", process="s", late=True, by="t")
    script.add(304, "r", "refute", process="s", last=9, up_to=9, of=["t"], packets=0)
    for who in ("p", "q", "r"):
        discarded = [["s", 4, 2], ["t", 7, 1]]
        script.add(305, who, "confirm", detection={"s": 9, "t": 9}, cut={"s": 9, "t": 8}, by=who, discarded=discarded)
        script.view(306, who, 2, "p q r")
    script.add(307, "t", "confirm", detection={"s": 10}, cut={"s": 10}, by="t", discarded=[])
    script.end(400, "p q r t")
    return script


def test_refutations_and_whether_they_came_in_time() -> None:
    story = refuted().story(2)
    assert because(story, "p refutes") == "in time: q dropped its suspicion at 103.000 ms"
    assert "p refutes q's suspicion of r: it has block 7 of it, and sends 3 packets along" in told(story)
    assert because(story, "q drops its suspicion of r") == "p refuted it"
    assert because(story, "t refutes") == "too late: q discarded it at 303.000 ms"
    assert because(story, "q discards a refutation by t of the suspicion of s") == (
        "it came from somebody who is suspected here, or counts as failed"
    )
    assert because(story, "r refutes t's suspicion of s") == "in vain: t confirmed its suspicion at 307.000 ms"
    assert "Agreed by p, q and r: s counts up to block 9, and t counts up to block 8." in story.conclusion
    assert "Replaced by nulls: g/s/4 to g/s/5 and g/t/7." in story.conclusion


def test_cuts_that_differ_are_noticed() -> None:
    script = Script()
    script.view(0, "p q r", 1, "p q r")
    for who, block in (("p", 9), ("q", 10)):
        script.add(5, who, "confirm", detection={"r": 9}, cut={"r": block}, by=who, discarded=[])
        script.view(6, who, 2, "p q")
    assert "Not all of them have the same cut: r counts up to block 9 (at p); r counts up to block 10 (at q)." in (
        script.story(2).conclusion
    )


# --- cascades ---------------------------------------------------------------------------------------------------------


def cascade() -> Script:
    """r and s crash; both are suspected before the view without r is there. An earlier suspicion of s was refuted."""
    script = Script()
    script.view(0, "p q r s", 1, "p q r s")
    script.add(50, "p", "suspect", **silence("s", last=3))
    script.add(51, "p", "refute", process="s", last=3, heard=True, by="q")
    script.crash(100, "r")
    script.crash(101, "s")
    script.add(350, "p", "suspect", **silence("r", last=5))
    script.add(351, "p", "suspect", **silence("s", last=6))
    for who in ("p", "q"):
        script.view(360, who, 2, "p q s")
        script.add(361, who, "remove", failed=["r"], block=20)
        script.add(370, who, "confirm", detection={"s": 6}, cut={"s": 6}, by="p", discarded=[], suspected_for=19 * MS)
        script.view(371, who, 3, "p q")
    script.end(400, "p q")
    return script


def test_a_suspicion_from_before_the_view_before_is_told() -> None:
    story = cascade().story(3)
    assert told(story)[:3] == ["s crashes", "p suspects s", "p confirms: s has failed; s counts up to block 6"]
    assert [step.when // MS for step in story.steps if step.what == "p suspects s"] == [351], "the refuted one is over"
    assert not any("removes r" in what for what in told(story)), "r was gone before"
    assert "It took 270.0 ms from s's crash to the first installation, 250.0 ms of them until" in story.conclusion


# --- parts that come together -----------------------------------------------------------------------------------------


def merged() -> Script:
    """{p, q} and {r} come together in view 7, and s, which asked to join, with them."""
    script = Script()
    script.view(0, "p q", 2, "p q")
    script.view(0, "r", 3, "r")
    script.add(0, "s", "start", group=None, version=1)
    script.add(80, "p", "fault", group=None, fault="loss", rate=0.5, length=5 * MS)
    script.add(90, "p", "fault", group=None, fault="heal")
    script.add(100, "p", "form", stage="call", called=["r"], situation="calls")
    script.add(101, "r", "form", stage="answer", caller="p", situation="follows a call")
    script.add(103, "p", "form", stage="plan", form=5, number=7, members=["p", "q", "r", "s"], parts=[["p", "q"], ["r"], ["s"]])
    script.add(103, "p", "form", stage="plan", form=4, number=6, members=["p", "q", "r"], parts=[["p", "q"], ["r"]])
    for who, when in (("p", 104), ("q", 105), ("r", 106)):
        script.add(when, who, "form", stage="move", form=5, number=7, members=["p", "q", "r", "s"])
        text = f"{who} may not send in g: the group moves to another formation"
        script.add(when, who, "block", condition="moving", reason={"reason": "moving", "text": text})
    for who in ("p", "q", "r", "s"):
        joined = [name for name in "pqrs" if name != who and {name, who} != {"p", "q"}]
        detail: dict[str, Any] = {"joined": joined, "parts": [["p", "q"], ["r"], ["s"]], "newcomers": ["s"]}
        if who != "s":
            script.add(110, who, "form", stage="close", form=1)
        script.add(110, who, "form", stage="enter", form=5, number=7)
        script.view(110, who, 7, "p q r s", **detail)
    for who, when in (("p", 112), ("q", 112), ("r", 113)):
        script.add(when, who, "unblock", over=True, condition="view change")
    script.end(200, "p q r s")
    return script


def test_what_came_together() -> None:
    story = merged().story(7)
    assert story.title == "How view 7 of g {p, q, r, s} came to be, after view 2 {p, q} and view 3 {r}"
    assert told(story) == [
        "the loss is over",
        "the network heals",
        "p calls r to come together",
        "r follows the call of p",
        "p plans view 7 {p, q, r, s}, from {p, q} and {r} and {s}",
        "p is to move to view 7 {p, q, r, s}, and stops sending",
        "q is to move to view 7 {p, q, r, s}, and stops sending",
        "r is to move to view 7 {p, q, r, s}, and stops sending",
        "p has heard all of its part stop, and ends it",
        "p installs view 7, after 0 deliveries in view 2",
        "q has heard all of its part stop, and ends it",
        "q installs view 7, after 0 deliveries in view 2",
        "r has heard all of its part stop, and ends it",
        "r installs view 7, after 0 deliveries in view 3",
        "s installs view 7, its first",
    ]
    assert because(story, "r installs") == "{p, q} and {r} came together; s joined"
    assert story.conclusion == (
        "In view 7 came together: {p, q}, from view 2; {r}, from view 3; {s}, new. All 4 members installed it. It took 25.0 ms "
        "from the end of the loss to the first installation. Sending was blocked for 7.0 ms to 8.0 ms at 3 of them, at p the "
        "longest. p and q delivered no message between the two views."
    )


def test_a_merge_in_a_trace_without_parts_is_seen_by_where_they_came_from() -> None:
    histories = {"p": "view 1 p,q | view 4 p,q,r", "q": "view 1 p,q | view 4 p,q,r", "r": "view 3 r | view 4 p,q,r"}
    conclusion = Explainer(trace(histories)).view("g", 4).conclusion
    assert conclusion.startswith("In view 4 came together: {p, q}, from view 1; {r}, from view 3.")
    assert "The trace has no row that tells what led to it." in conclusion


def test_a_group_that_was_formed_by_a_proposal() -> None:
    script = Script()
    script.add(1, "p", "form", stage="propose", members=["p", "q", "r"], situation="proposes")
    script.add(2, "r", "form", stage="refuse", caller="p", why="r is busy")
    for who in ("p", "q"):
        script.view(5, who, 1, "p q", joined=["p", "q"], parts=[["p"], ["q"]])
    story = script.story(1)
    assert told(story) == ["p proposes the group to p, q and r", "p installs view 1", "q installs view 1"]
    assert story.conclusion == "View 1 is the first of g: p and q. All 2 members installed it."


def test_a_group_that_was_renamed() -> None:
    script = Script()
    script.view(0, "p q", 1, "p q")
    for who in ("p", "q"):
        script.add(5, who, "leave")
        script.add(5, who, "join", group="h")
        script.view(5, who, 4, "p q", group="h")
    story = Explainer(script.table()).view("h", 4)
    assert story.conclusion.startswith("View 4 is the first of h: p and q; the group was called g before.")


def test_who_leaves_and_comes_back_follows_no_view() -> None:
    script = Script()
    script.view(0, "p q", 1, "p q")
    script.add(5, "p", "bye", process="q", situation="member leaves")
    script.view(6, "p", 2, "p", left={"q": {"reason": "left", "text": "q has left"}})
    script.add(6, "q", "leave")
    script.view(9, "p", 5, "p q", joined=["q"], parts=[["p"], ["q"]], newcomers=["q"])
    script.view(9, "q", 5, "p q", joined=["p"], parts=[["p"], ["q"]], newcomers=["q"])
    story = script.story(2)
    assert told(story) == [
        "p has the last message of q, which leaves",
        "p installs view 2, after 0 deliveries in view 1",
        "q has left g",
    ]
    assert "q never" not in story.conclusion
    assert "View 2 follows view 1 without q (q has left)." in story.conclusion
    assert "In view 5 came together: {p}, from view 2; {q}, new." in script.story(5).conclusion


# --- what can be known ------------------------------------------------------------------------------------------------


def test_a_trace_with_views_alone_says_what_can_be_known() -> None:
    histories = {"p": "view 1 p,q,r | view 2 p,q | end", "q": "view 1 p,q,r | view 2 p,q | end"}
    story = Explainer(trace(histories)).view("g", 2)
    assert told(story) == ["p installs view 2, after 0 deliveries in view 1", "q installs view 2, after 0 deliveries in view 1"]
    assert because(story, "p installs") == "without r"
    assert story.conclusion == (
        "View 2 follows view 1 without r. All 2 members installed it. p and q delivered no message between the two views. "
        "The trace has no row that tells what led to it. Times are of each process's own clock."
    )


def test_details_of_other_shapes_are_left_out() -> None:
    script = Script()
    script.view(0, "p q", 1, "p q")
    script.add(1, "p", "suspect")
    script.add(2, "p", "suspect", process=7, why="silence", silence="long")
    script.add(3, "p", "confirm", detection=None, cut=3, discarded=[1, ["q"], ["q", 1, 0]])
    script.add(4, "p", "refute", of={}, process=["q"])
    script.add(5, "p", "remove", failed="q", block="last")
    script.add(6, "p", "form", stage=3, parts="p")
    script.add(7, "p", "elect", voters=3, stage="decided")
    script.view(8, "p", 2, "p", parts=[1, ["p"]], left=["q"])
    assert told(script.story(2)) == [
        "p suspects somebody",
        "p confirms",
        "p takes a suspicion back of q",
        "p removes q",
        "p takes part in a formation",
        "p takes part in an election",
        "p installs view 2, after 0 deliveries in view 1",
    ]


def test_steps_beyond_the_most_are_counted() -> None:
    script = Script()
    script.view(0, "p q", 1, "p q")
    for number in range(250):
        script.add(1 + number, "p", "refute", process="q", of=["q"], up_to=number)
    script.view(300, "p", 2, "p")
    assert "50 further steps on the way to it are not told." in script.story(2).conclusion


def test_the_views_of_a_group_are_listed() -> None:
    explainer = Explainer(partition().table())
    story = explainer.views("g")
    assert told(story) == [
        "view 1 {i, j, k, l, m}, installed by all 5",
        "view 2 {i, j, k, l}, installed by k and l only",
        "view 2 {i, j}, installed by all 2",
        "view 3 {k, l}, installed by all 2",
    ]
    assert story.conclusion == "4 views. The story of the last: --view g/3"
    assert told(explainer.views("g", "i")) == [told(story)[0], told(story)[2]]
    assert explainer.views("g", "i").conclusion == "2 views. The story of the last: --view g/2 --process i"
    with pytest.raises(UsageError, match="no view of a group 'h' is recorded in this run; its groups are g"):
        explainer.views("h")
    with pytest.raises(UsageError, match="x installed no view of group 'g'"):
        explainer.views("g", "x")


# --- real runs --------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def parted() -> pa.Table:
    """Five members in two parts, of which one loses a member, and which come together again."""
    settings = ["protocol=newtop", "duration=1300ms", "fault.0.length=700ms"]
    scenario = load(find("partition"), settings)
    crash = Fault(kind="crash", process="p4", at=Duration(510 * MS))
    buffer = TraceBuffer()
    Simulation(dataclasses.replace(scenario, fault=(*scenario.fault, crash)), trace=buffer).run()
    return buffer.table()


def test_a_real_partition_is_told_from_both_sides(parted: pa.Table) -> None:
    explainer = Explainer(parted)
    for process, others in (("p1", "p3, p4 and p5"), ("p3", "p1, p2 and p4")):
        story = explainer.view("g", 4, process)
        steps = told(story)
        assert "fault: partition, length 700ms, p1 p2 | p3 p4 p5" in steps
        assert "p4 crashes" in steps
        assert f"{process} removes {others}, in block" in " ".join(steps)
        assert any(what.startswith(f"{process} confirms: {others} have failed; ") for what in steps)
        assert "went another way, to view 4" in story.conclusion
        assert "from p4's crash to the first installation" in story.conclusion
        assert "delivered the same" in story.conclusion
        assert "break" not in story.conclusion
        evidence = [step.because or "" for step in story.steps if step.what.startswith(f"{process} suspects")]
        assert all(f"{process}'s patience is 250.0 ms" in because for because in evidence)
        assert evidence


def test_a_real_merge_is_told(parted: pa.Table) -> None:
    explainer = Explainer(parted)
    last = explainer.views("g").steps[-1]
    number = int(last.what.split()[1])
    story = explainer.view("g", number)
    assert story.title.endswith("{p1, p2, p3, p5} came to be, after view 4 {p1, p2} and view 4 {p3, p5}")
    assert story.steps[0].what == "the partition is over"
    assert f"p1 plans view {number} {{p1, p2, p3, p5}}, from {{p1, p2}} and {{p3, p5}}" in told(story)
    assert story.conclusion.startswith(f"In view {number} came together: {{p1, p2}}, from view 4; {{p3, p5}}, from view 4.")
    assert "from the end of the partition to the first installation" in story.conclusion
    assert re.search(r"Sending was blocked for [\d.]+ ms( to [\d.]+ ms)? at 4 of them", story.conclusion)


def test_every_row_of_a_real_view_change_can_be_asked_about(parted: pa.Table) -> None:
    explainer = Explainer(parted)
    kinds = ("suspect", "confirm", "remove", "form", "block", "view")
    rows = [row for row in parted.select(["process", "index", "kind"]).to_pylist() if row["kind"] in kinds]
    reasons = {row["kind"]: explainer.because(row["process"], row["index"]) for row in rows}
    assert set(reasons) == set(kinds)
    assert reasons["suspect"] is not None
    assert reasons["confirm"] is not None


def test_a_large_run_is_read_in_part_and_tells_the_same(tmp_path: Path) -> None:
    scripts = {"partition": partition(), "merged": merged(), "cascade": cascade()}
    for name, number in (("partition", 3), ("merged", 7), ("cascade", 3)):
        file = tmp_path / f"{name}.parquet"
        pq.write_table(scripts[name].table(), file)
        stories = [explainer_of(file, None, view=("g", number), small=small).explainer.view("g", number) for small in (10**6, 0)]
        assert stories[0] == stories[1]
        lists = [explainer_of(file, None, view=("g", None), small=small).explainer.views("g") for small in (10**6, 0)]
        assert lists[0] == lists[1]
