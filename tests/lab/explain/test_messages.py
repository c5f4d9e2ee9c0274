"""Explanations: the life of a message, the story of a view, and why a delivery waited."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from plainchant.core.model import MS, UsageError
from plainchant.lab.explain.explainer import Explainer, Explanation
from plainchant.lab.explain.reading import explainer_of
from plainchant.protocols.story import Message
from plainchant.scenario import find, load
from plainchant.sim import Simulation
from plainchant.trace import MalformedTrace, TraceBuffer
from tests.trace.build import trace


class Script:
    """A trace written by hand, an event a call, times in ms on a global clock."""

    def __init__(self) -> None:
        self._trace = TraceBuffer()

    def add(
        self,
        when: float,
        at: str,
        kind: str,
        message: str = "",
        *,
        view: int | None = None,
        rank: int | None = None,
        members: str = "",
        **detail: Any,
    ) -> None:
        sender, _, seq = message.partition("/")
        extra: dict[str, Any] = {"detail": detail} if detail else {}
        if members:
            extra["members"] = members.split()
        time = int(when * MS)
        row = (kind, time, time, "g", view, sender or None, int(seq) if seq else None, None, rank, None, None, extra or None)
        self._trace.history("r0", at).rows.append(row)

    def start(self, members: str, **parameters: Any) -> None:
        for name in members.split():
            self.add(0, name, "start", version=1, protocol="sequencer", parameters=parameters)
            self.add(0, name, "view", view=1, members=members)

    def table(self) -> pa.Table:
        return self._trace.table()

    def message(self, sender: str, seq: int) -> Explanation:
        return Explainer(self.table()).message(("g", sender, seq))


def because(story: Explanation, what: str) -> str | None:
    """The reason of the one step that begins so."""
    found = [step for step in story.steps if step.what.startswith(what)]
    assert len(found) == 1, [step.what for step in story.steps]
    return found[0].because


# --- the life of a message --------------------------------------------------------------------------------------------


def test_an_uneventful_life_has_no_reasons() -> None:
    script = Script()
    script.start("p q")
    script.add(1, "p", "send", "p/1", view=1)
    script.add(1, "p", "deliver", "p/1", view=1)
    script.add(2, "q", "deliver", "p/1", view=1)
    story = script.message("p", 1)
    assert [step.what for step in story.steps] == [
        "p sends it in view 1 {p, q}",
        "p delivers it, at once",
        "q delivers it, 1.0 ms after its send",
    ]
    assert [step.because for step in story.steps] == [None, None, None]
    assert story.conclusion.startswith("Delivered by all 2 that were members when it was sent.")


def test_a_packet_that_was_missing_is_the_reason() -> None:
    script = Script()
    script.start("p q")
    script.add(1, "p", "send", "p/1", view=1)
    script.add(1, "p", "deliver", "p/1", view=1, rank=7)
    script.add(3, "q", "retransmit", view=1, first=7, last=7)
    script.add(5, "q", "deliver", "p/1", view=1, rank=7)
    assert because(script.message("p", 1), "q delivers") == "its packet (number 7) was missing here: q asked for it at 3.000 ms"


def test_an_earlier_message_that_was_missing_is_the_reason() -> None:
    script = Script()
    script.start("p q")
    for seq, when in ((1, 1), (2, 2)):
        script.add(when, "p", "send", f"p/{seq}", view=1)
        script.add(when, "p", "deliver", f"p/{seq}", view=1, rank=6 + seq)
    script.add(3, "q", "retransmit", view=1, first=7, last=7)
    script.add(9, "q", "deliver", "p/1", view=1, rank=7)
    script.add(9, "q", "deliver", "p/2", view=1, rank=8)
    expected = "g/p/1 (number 7), which comes before it, was missing here: q asked for it at 3.000 ms"
    assert because(script.message("p", 2), "q delivers") == expected


def test_without_such_rows_the_reason_is_called_probable() -> None:
    script = Script()
    script.start("p q r")
    for seq in range(1, 8):
        script.add(seq, "p", "send", f"p/{seq}", view=1)
        for name in ("p", "r"):
            script.add(seq + 0.5, name, "deliver", f"p/{seq}", view=1)
        if seq < 6:
            script.add(seq + 0.5, "q", "deliver", f"p/{seq}", view=1)
    for seq in (6, 7):
        script.add(20, "q", "deliver", f"p/{seq}", view=1)
    assert because(script.message("p", 6), "q delivers") == (
        "it came 13.5 ms after p's delivery; probably its packet was late, or lost and sent again: the trace does not say"
    )
    assert because(script.message("p", 7), "q delivers") == (
        "it probably waited for g/p/6, which comes before it and came at the same instant"
    )


def test_a_block_row_that_names_the_message_is_quoted() -> None:
    script = Script()
    script.start("p q")
    script.add(1, "p", "send", "p/1", view=1)
    script.add(1, "p", "deliver", "p/1", view=1)
    script.add(2, "q", "block", "p/1", view=1, text="g/r/3 happened before it")
    script.add(5, "q", "deliver", "p/1", view=1)
    assert because(script.message("p", 1), "q delivers") == ("it was held back from 2.000 ms on: g/r/3 happened before it")


def test_an_election_in_between_held_up_everybody() -> None:
    script = Script()
    script.start("p q r")
    script.add(1, "q", "send", "q/1", view=1)
    script.add(2, "p", "crash")
    script.add(50, "q", "elect", view=1, stage="elected", why="q has not heard p for 48 ms", base=0)
    script.add(60, "q", "deliver", "q/1", view=1, rank=1)
    script.add(61, "r", "deliver", "q/1", view=1, rank=1)
    story = script.message("q", 1)
    expected = "the group had nobody to order it until q was elected at 50.000 ms (q has not heard p for 48 ms)"
    assert because(story, "q delivers") == expected
    assert because(story, "r delivers") is None
    assert Explainer(script.table()).because("r", 2) == f"like everybody's: {expected}"
    assert because(story, "p never delivers") == "at 2.000 ms p crashes"


def test_a_message_that_was_ordered_twice_says_so() -> None:
    script = Script()
    script.start("p q r")
    script.add(1, "q", "send", "q/1", view=1)
    script.add(2, "p", "deliver", "q/1", view=1, rank=5)
    script.add(3, "p", "crash")
    script.add(50, "q", "elect", view=1, stage="elected", why="p is silent", base=4)
    for name in ("q", "r"):
        script.add(60, name, "deliver", "q/1", view=1, rank=6)
    for seq in range(1, 6):
        script.add(70, "q", "send", f"q/{seq + 1}", view=1)
        script.add(71, "q", "deliver", f"q/{seq + 1}", view=1, rank=6 + seq)
    story = script.message("q", 1)
    assert because(story, "r delivers") == ("the group had nobody to order it until q was elected at 50.000 ms (p is silent)")
    assert "under different numbers, 5 (at p) and 6 (at q)" in story.conclusion


def test_resilience_is_waiting_for_acknowledgements() -> None:
    script = Script()
    script.start("p q", resilience=1)
    script.add(1, "p", "send", "p/1", view=1)
    script.add(2, "q", "null", view=1, ack=1)
    script.add(3, "p", "deliver", "p/1", view=1, rank=1)
    script.add(4, "q", "deliver", "p/1", view=1, rank=1)
    assert because(script.message("p", 1), "p delivers") == (
        "with resilience 1 nobody delivers it before 1 other member holds it: acknowledged by q at 2.000 ms"
    )


def test_a_message_that_was_lost_says_with_whom() -> None:
    script = Script()
    script.start("p q")
    script.add(0.5, "p", "fault", fault="cut", source="p")
    script.add(1, "p", "send", "p/1", view=1)
    script.add(1, "p", "deliver", "p/1", view=1, rank=5)
    script.add(2, "p", "crash")
    script.add(9, "q", "elect", view=1, stage="elected", base=4)
    script.add(20, "q", "end")
    story = script.message("p", 1)
    assert because(story, "q never delivers") == (
        "only p had it, and crashed: it was lost with that process; in force: cut, source p (since 0.500 ms); "
        "q, elected at 9.000 ms, goes on after number 4, and number 5 is given anew"
    )
    assert story.conclusion.startswith("Delivered by 1 of 2 that were members when it was sent; not by q:")


def test_what_an_alive_member_of_the_same_view_misses_is_probably_a_violation() -> None:
    histories = {"p": "view 1 p,q | send | deliver p 1 | end", "q": "view 1 p,q | end"}
    story = Explainer(trace(histories)).message(("g", "p", 1))
    assert "probably a violation" in str(because(story, "q never delivers"))


def test_a_trace_with_nothing_but_deliveries_can_be_explained() -> None:
    story = Explainer(trace({"p": "send | deliver p 1", "q": "deliver p 1"})).message(("g", "p", 1))
    assert len(story.steps) == 3
    assert story.conclusion.endswith("Times are of each process's own clock.")


def test_a_second_delivery_says_so() -> None:
    table = trace({"p": "send | deliver p 1 | deliver p 1"})
    assert Explainer(table).because("p", 2) == "it was delivered here before"


def test_an_accepted_message_tells_how_long_the_protocol_let_it_wait() -> None:
    script = Script()
    script.add(1, "p", "accept", "p/")
    script.add(4, "p", "send", "p/1")
    assert script.message("p", 1).steps[0].what == "p accepts it from its application; the protocol takes it 3.0 ms later"


def test_an_unknown_message_is_a_sentence() -> None:
    with pytest.raises(UsageError, match="there is no message g/p/9 in this run"):
        Explainer(trace({"p": "send"})).message(("g", "p", 9))


# --- the story of a view ----------------------------------------------------------------------------------------------


def changed() -> Script:
    script = Script()
    script.start("p q r")
    script.add(5, "r", "crash")
    script.add(9, "p", "suspect", view=1, process="r", text="p has not heard r for 4 ms")
    script.add(9.5, "p", "suspect", view=1, process="r", text="p has not heard r for 4.5 ms")
    script.add(10, "p", "send", "p/1", view=1)
    return script


def test_a_view_tells_evidence_installation_and_what_was_delivered_before_it() -> None:
    script = changed()
    for when, name in ((12, "p"), (13, "q")):
        script.add(when, name, "deliver", "p/1", view=1)
        left = {"r": {"reason": "silence", "text": "r was silent"}}
        script.add(when + 1, name, "view", view=2, members="p q", left=left)
    story = Explainer(script.table()).view("g", 2)
    assert story.title == "How view 2 of g {p, q} came to be, after view 1"
    assert [(step.what, step.because) for step in story.steps] == [
        ("r crashes", None),
        ("p suspects r", "p has not heard r for 4 ms"),
        ("p installs view 2, after 1 delivery in view 1, the last g/p/1", "r was silent"),
        ("q installs view 2, after 1 delivery in view 1, the last g/p/1", None),
    ]
    assert story.conclusion == (
        "View 2 follows view 1 without r (r was silent). All 2 members installed it, within 1.0 ms. It took 8.0 ms from r's "
        "crash to the first installation, 4.0 ms of them until somebody suspected it. p and q delivered the same 1 message "
        "between the two views."
    )


def test_a_view_after_different_deliveries_says_so() -> None:
    script = changed()
    script.add(12, "p", "deliver", "p/1", view=1)
    for name in ("p", "q"):
        script.add(14, name, "view", view=2, members="p q")
    assert "not all delivered g/p/1 in it, which breaks view-atomicity" in Explainer(script.table()).view("g", 2).conclusion


def test_an_unknown_view_names_those_there_are() -> None:
    with pytest.raises(UsageError, match="its views are 1"):
        Explainer(trace({"p": "view 1 p"})).view("g", 7)


# --- from files -------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def simulated() -> pa.Table:
    """The shipped scenario with a crash, shortened."""
    buffer = TraceBuffer()
    Simulation(load(find("sequencer-crash"), ["duration=1300ms"]), trace=buffer).run()
    return buffer.table()


def test_a_large_run_is_read_in_part_and_tells_the_same(simulated: pa.Table, tmp_path: Path) -> None:
    pq.write_table(simulated, tmp_path / "t.parquet", row_group_size=500)
    questions: list[tuple[Message | None, tuple[str, int] | None]] = [
        (("g", "p4", 56), None),
        (("g", "p1", 3), None),
        (None, ("g", 2)),
    ]
    for message, view in questions:
        stories = []
        for small in (10**9, 0):
            explainer = explainer_of(tmp_path, None, small=small, message=message, view=view).explainer
            stories.append(explainer.message(message) if message is not None else explainer.view("g", 2))
        whole, part = stories
        # What is usual is measured on what was read: the only thing that may differ.
        assert [(step.process, step.index, step.what) for step in part.steps] == [
            (step.process, step.index, step.what) for step in whole.steps
        ]


def test_every_event_of_a_real_run_can_be_asked_about(simulated: pa.Table) -> None:
    explainer = Explainer(simulated)
    places = zip(simulated.column("process").to_pylist(), simulated.column("index").to_pylist(), strict=True)
    reasons = [explainer.because(process, index) for process, index in list(places)[::97]]
    assert any(reasons)


def test_one_of_several_runs_has_to_be_chosen(tmp_path: Path) -> None:
    tables = [trace({"p": "send"}, run=run) for run in ("r1", "r2")]
    pq.write_table(pa.concat_tables(tables), tmp_path / "t.parquet")
    with pytest.raises(UsageError, match="there are 2 runs in this trace; choose one with --run: r1, r2"):
        explainer_of(tmp_path, None, message=("g", "p", 1))
    with pytest.raises(UsageError, match='there is no run "r3"'):
        explainer_of(tmp_path, "r3", message=("g", "p", 1))
    assert explainer_of(tmp_path, "r2", message=("g", "p", 1)).run == "r2"


def test_a_malformed_trace_is_refused(tmp_path: Path) -> None:
    pq.write_table(trace({"p": "end | end"}), tmp_path / "t.parquet")
    with pytest.raises(MalformedTrace, match="a row after the history ended"):
        explainer_of(tmp_path, None, message=("g", "p", 1))
    pq.write_table(pa.table({"run": ["r0"]}), tmp_path / "t.parquet")
    with pytest.raises(MalformedTrace, match="is missing"):
        explainer_of(tmp_path, None, message=("g", "p", 1))
