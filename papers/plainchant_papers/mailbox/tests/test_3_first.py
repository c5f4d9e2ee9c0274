"""Paper 000, sections 2 to 3.3: shared memory, the structure of a mailbox, and the first protocol, which tolerates crashes.

Each rule is taken away in the smallest run that breaks without it; the same run is clean with it. Bounds in these runs are (µs)
write 20, flag 20, decide 10, read 20, finish 10, clocks differ by at most 4, receivers look every 100.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Generator
from typing import Any, TypeAlias

import pytest

from plainchant.core.memory import FAILED, Request, Until
from plainchant.core.model import US
from plainchant.protocols.mailbox import first
from plainchant.protocols.mailbox.box import Box
from plainchant.protocols.mailbox.message import Message
from plainchant.protocols.mailbox.times import Times
from plainchant.protocols.variants import replaced
from plainchant.scenario.model import Workload
from plainchant.sim.scripted import Script
from plainchant_papers.mailbox.scripted import AS_BUILT, Rules, fault, message, times, us

from .runs import MailboxRun, simulate

BOTH = pytest.mark.parametrize("tolerate", ["crash", "timing"])
Decide: TypeAlias = Callable[[Box, list[Message], int], Generator[Request, Any, None]]


# --- 2: the system -----------------------------------------------------------------------------------------------------------


def test_2_2_clock_readings_are_unique() -> None:
    """A process that sends several messages at one instant gives them different timestamps."""
    run = simulate("a b", Workload(senders=("a",), closed=1, count=5, start=us(5000), size=60_000), script=Script())
    stamps = [detail["stamp"] for detail in run.details("sent")]
    assert len(stamps) == 5
    assert stamps == sorted(set(stamps))


@BOTH
def test_2_3_a_module_that_has_crashed_stays_so_for_everybody(tolerate: str) -> None:
    run = simulate("a b c", message("a", 5000), tolerate=tolerate, faults=[fault("module", 5050, module=1)])
    after = [
        detail
        for row, detail in zip(run.of("operation"), run.details("operation"), strict=True)
        if detail["copy"] == 0 and row["true_time"] > 5050 * US
    ]
    assert after
    assert all(detail["failed"] for detail in after)
    assert run.violated == []
    assert all(run.delivered(name) == [("a", 1)] for name in "abc")


@BOTH
@pytest.mark.parametrize("copies", [2, 3, 4])
def test_2_3_one_copy_of_n_is_enough(tolerate: str, copies: int) -> None:
    """n > f: all copies but one crash, one after the other, while messages are sent."""
    crashes = [fault("module", 5000 + 700 * number, module=number) for number in range(1, copies)]
    load = Workload(senders=("a", "b"), rate=2000.0, start=us(4500), stop=us(9000))
    run = simulate("a b c", load, tolerate=tolerate, copies=copies, faults=crashes)
    assert run.violated == []
    assert run.summary.quiet
    assert run.delivered("a") == run.delivered("c")
    assert len(run.delivered("a")) == len(run.of("send"))


@BOTH
def test_2_3_without_a_copy_everybody_stops(tolerate: str) -> None:
    run = simulate("a b", message("a", 5000), tolerate=tolerate, faults=[fault("module", 4000 + at, module=at) for at in (1, 2)])
    assert {detail["reason"] for detail in run.details("crash")} == {"no copy"}
    assert {end.state for end in run.summary.processes.values()} == {"halted"}


# --- 3.1 and 3.2: what both protocols have in common --------------------------------------------------------------------------


@BOTH
def test_fig_1_a_send(tolerate: str) -> None:
    """The message is written into all copies, one after the other, before the first availability flag is set: n (ds + df)."""
    run = simulate("s a b", message("s", 5000), script=Script(usual=1), tolerate=tolerate, senders=("s",), copies=3)
    steps = run.operations("s", "write", "flag")
    assert [step[:2] for step in steps] == [("write", 1), ("write", 2), ("write", 3), ("flag", 1), ("flag", 2), ("flag", 3)]
    began = steps[0][2]
    assert [end - began for _, _, _, end in steps] == [20, 40, 60, 80, 100, 120]
    assert [detail["took_ns"] for detail in run.details("sent")] == [times(tolerate=tolerate, copies=3).send]


def test_fig_2_a_receive() -> None:
    """Decide in all copies, a slot of dd each; read in the first that is intact; set the flags in all."""
    run = simulate("s a b", message("s", 5000), script=Script(usual=1), tolerate="crash", senders=("s",), copies=3)
    steps = run.operations("a", "decide", "read", "finish")
    began = steps[0][2]
    told = [(name, copy, begin - began, end - began) for name, copy, begin, end in steps]
    assert told == [
        ("decide", 1, 0, 10),
        ("decide", 2, 10, 20),
        ("decide", 3, 20, 30),
        ("read", 1, 30, 50),
        ("finish", 1, 50, 60),
        ("finish", 2, 60, 70),
        ("finish", 3, 70, 80),
    ]


@BOTH
def test_3_1_nobody_decides_before_t_ds_e(tolerate: str) -> None:
    """By the receiver's own clock; clocks are up to e apart and durations are drawn."""
    for seed in range(4):
        run = simulate(
            "s a b",
            Workload(senders=("s",), rate=900.0, start=us(4500)),
            tolerate=tolerate,
            senders=("s",),
            clocks={"b": 4},
            memory={"duration": "uniform"},
            length=10_000,
            settings={"seed": seed},
        )
        complete = times(tolerate=tolerate).complete
        assert run.violated == []
        for name in "ab":
            assert run.details("decide", name)
            assert all(detail["after_ns"] - detail["took_ns"] >= complete for detail in run.details("decide", name))


@BOTH
def test_3_1_equal_timestamps_are_ordered_by_who_sent(tolerate: str) -> None:
    run = simulate("c b a", *[message(name, 5000) for name in "abc"], script=Script(), tolerate=tolerate)
    assert len({detail["stamp"] for detail in run.details("sent")}) == 1
    orders = {tuple(run.delivered(name)) for name in "abc"}
    assert orders == {(("c", 1), ("b", 1), ("a", 1))}


@BOTH
def test_3_1_messages_are_delivered_in_the_order_of_their_timestamps(tolerate: str) -> None:
    """The one that is written first is not the one that was begun first."""
    script = Script({"s write": 1})
    run = simulate("s t a b", message("s", 5000), message("t", 5005), script=script, tolerate=tolerate, senders=("s", "t"))
    assert run.operations("s", "write")[0][3] > run.operations("t", "write")[0][3]
    assert run.delivered("a") == run.delivered("b") == [("s", 1), ("t", 1)]


@BOTH
def test_3_1_reading_is_separate_from_deciding(tolerate: str) -> None:
    """The data are read once, however many copies there are, and the message stays until everybody has read it."""
    slow = Script({"b read": 1})
    run = simulate("s a b", message("s", 5000), script=slow, tolerate=tolerate, senders=("s",), copies=4)
    assert [step[:2] for step in run.operations("a", "read")] == [("read", 1)]
    finished = [step[3] for name in "ab" for step in run.operations(name, "finish")]
    assert len(finished) == 8
    assert run.operations("b", "read")[0][3] <= max(finished)
    assert run.delivered("b") == [("s", 1)]


@BOTH
def test_3_1_several_messages_are_decided_at_once(tolerate: str) -> None:
    """Those that are complete at the same look: as many steps as for one."""
    sends = [message(name, 5000 + number) for number, name in enumerate("stu")]
    few, many = (
        simulate("s t u a b", *load, script=Script(), tolerate=tolerate, senders=("s", "t", "u")) for load in (sends[:1], sends)
    )
    assert len(few.operations("a", "decide")) == len(many.operations("a", "decide")) == (2 if tolerate == "crash" else 4)
    assert many.decisions("a") == many.decisions("b") == [1, 1, 1]
    assert many.delivered("a") == [("s", 1), ("t", 1), ("u", 1)]


@BOTH
def test_3_1_who_reads_slowly_is_late_for_no_decision(tolerate: str) -> None:
    """Reading takes ten times as long as it takes for the next messages to come."""
    load = Workload(senders=("s", "t"), rate=3000.0, start=us(5000), stop=us(8000))
    run = simulate("s t a b", load, script=Script(usual=1), tolerate=tolerate, senders=("s", "t"), read=3000, length=9000)
    bounds = times(tolerate=tolerate, read=3000)
    begun = [detail["after_ns"] - detail["took_ns"] for detail in run.details("decide")]
    assert len(begun) >= 16
    assert max(begun) <= bounds.complete + bounds.detect + 10 * US
    assert set(run.decisions("a")) == {1}
    assert run.violated == []


@BOTH
@pytest.mark.parametrize("slots", [1, 2])
def test_3_1_the_buffer_does_not_overflow(tolerate: str, slots: int) -> None:
    """Who has no free slot waits, and says so; nothing is lost."""
    load = Workload(senders=("a",), closed=8, count=8, start=us(5000), size=60_000)
    run = simulate("a b c", load, tolerate=tolerate, slots=slots, faults=[fault("pause", 5050, process="c", length=4000)])
    assert run.of("block", "a")
    assert len(run.of("block", "a")) == len(run.of("unblock", "a"))
    assert run.delivered("a") == [("a", seq) for seq in range(1, 9)]
    assert run.violated == []


# --- 3.3.1: the first protocol ------------------------------------------------------------------------------------------------


@BOTH
@pytest.mark.parametrize("done", range(6))
def test_3_3_1_a_sender_that_crashes_has_sent_to_all_or_to_none(tolerate: str, done: int) -> None:
    """Whatever operation of its Send is its last: accepted if the flag in the first copy is set, and only then."""
    last = [*[f"s write {copy}" for copy in (1, 2, 3)], *[f"s flag {copy}" for copy in (1, 2, 3)]][done]
    run = simulate("s a b", message("s", 5000), script=Script(after={last: "s"}), tolerate=tolerate, senders=("s",), copies=3)
    expected = [("s", 1)] if done >= 3 else []
    assert run.delivered("a") == run.delivered("b") == expected
    assert run.decisions("a") == run.decisions("b") == [int(done >= 3)]
    assert run.violated == []
    assert run.summary.quiet


OVERTAKEN = Script({"a look": 0.8, "b decide 1": 0.9, "a decide 2": 1}, {"s flag 1": "s", "a decide 1": "module 1"})
"""s crashes after the flag in copy 1. a, whose look took a little, accepts there, and the copy dies. b finds it dead and goes on
to copy 2, where the flag is not set. a takes all the time it has to write its decision there."""


def overtaken(rules: Rules) -> MailboxRun:
    return simulate("s a b", message("s", 5010), script=OVERTAKEN, rules=rules, tolerate="crash", senders=("s",))


@pytest.mark.parametrize("extra", ["none", "printed"])
def test_3_3_1_without_enough_delay_a_receiver_overtakes(extra: str) -> None:
    """e is no more than nothing: a begins its second slot up to dd after b, and has dd to write."""
    run = overtaken({"extra": extra})
    assert (run.decisions("a"), run.decisions("b")) == ([1], [0])
    assert run.violated == ["agreement", "uniform", "unanimity"]
    assert run.timing_faults() == []


def test_3_3_1_two_steps_for_a_dead_copy_are_enough() -> None:
    run = overtaken(AS_BUILT)
    assert run.decisions("a") == run.decisions("b") == [1]
    assert run.violated == []


def test_3_3_1_the_printed_delay_is_too_short_even_if_e_is_longer_than_a_step() -> None:
    """e = 15 > dd = 10: one dead copy takes up to 2 dd, whatever the clocks say."""
    script = Script({"a look": 1, "b decide 1": 1, "a decide 2": 1}, {"s flag 1": "s", "a decide 1": "module 1"})
    settings: dict[str, Any] = {"clocks": {"a": 0.001}, "tolerate": "crash", "senders": ("s",), "skew": 15}
    runs = [
        simulate("s a b", message("s", 5000), script=script, rules=rules, **settings)
        for rules in ({"extra": "printed"}, AS_BUILT)
    ]
    assert [run.violated for run in runs] == [["agreement", "uniform", "unanimity"], []]


@pytest.mark.parametrize(("shorter", "clean"), [(0, True), (3, False), (1000, False)])
def test_3_3_1_no_shorter_delay_will_do(shorter: int, clean: bool) -> None:
    """By so many ns: a begins copy 1 right before b is done with it, and writes into copy 2 right before 2 dd have passed."""
    made = Times.__init__

    def make(self: Times, *arguments: Any) -> None:
        made(self, *arguments)
        self.extra -= shorter

    script = Script({"a look": 1, "b decide 1": 1, "a decide 2": 1}, {"s flag 1": "s", "a decide 1": "module 1"})
    with replaced(Times, "__init__", make):
        run = simulate("s a b", message("s", 5010), script=script, clocks={"a": 0.001}, tolerate="crash", senders=("s",))
    assert (run.decisions("a"), run.decisions("b")) == ([1], [int(clean)])
    assert (run.violated == []) is clean


@pytest.mark.parametrize("extra", ["none", "printed", "corrected"])
def test_3_3_1_who_looks_for_messages_may_overtake_too(extra: str) -> None:
    """Line 15. a finds copy 1 alive, accepts there, and the copy dies; b's look is slower and finds it dead. It goes on to copy 2
    after dd + e, and a is there up to 2 dd after its beginning."""
    script = Script({"a look": 0.8, "b look 1": 1, "a decide 2": 1}, {"s flag 1": "s", "a decide 1": "module 1"})
    run = simulate("s a b", message("s", 5010), script=script, rules={"extra": extra}, tolerate="crash", senders=("s",))
    clean = extra == "corrected"
    assert (run.decisions("a"), run.decisions("b")) == ([1], [int(clean)])
    assert run.violated == ([] if clean else ["agreement", "uniform", "unanimity"])


def given_back(decide: Decide) -> Decide:
    """The decision with waits that count from its beginning (lines 33 and 35), and delays of 2 dd."""

    def changed(box: Box, batch: list[Message], start: int) -> Generator[Request, Any, None]:
        steps, began, copies = decide(box, batch, start), box.clock, 0
        result: Any = None
        with contextlib.suppress(StopIteration):
            while True:
                request = steps.send(result)
                if isinstance(request, Until):
                    copies += 1
                    request = Until(began + copies * box.parameters.decide + (box.times.extra if result is FAILED else 0))
                result = yield request

    return changed


@pytest.mark.parametrize("variant", ["printed", "given back", "corrected"])
def test_3_3_1_the_delays_of_several_dead_copies_add_up(variant: str) -> None:
    """a crashes when it has written into copy 2; b follows, and copy 2 dies. c, which finds that out, must not come to copy 3
    before b, whose slot there has been moved by the first dead copy and lasts for dd."""
    script = Script(
        {"a look": 0.8, "b decide 1": 0.9, "c decide 1": 0.9, "b decide 2": 0.9, "c decide 2": 1, "b decide 3": 1},
        {"s flag 2": "s", "a decide 1": "module 1", "a decide 2": "a", "b decide 2": "module 2"},
    )
    rules = {"extra": "printed"} if variant == "printed" else AS_BUILT
    with replaced(first, "decide", given_back(first.decide)) if variant == "given back" else contextlib.nullcontext():
        run = simulate("s a b c", message("s", 5010), script=script, rules=rules, tolerate="crash", senders=("s",), copies=3)
    clean = variant == "corrected"
    assert (run.decisions("b"), run.decisions("c")) == ([1], [int(clean)])
    assert run.violated == ([] if clean else ["agreement", "uniform", "unanimity"])


@pytest.mark.parametrize("atomic", [False, True])
def test_3_3_1_check_and_remove_are_one_step(atomic: bool) -> None:
    """Both find all flags set. s removes the message and sends another, in the same slot; then a removes that."""
    script = Script({"s finish 1": [0.1, 0.2, 0.1], "a finish 1": [0.1, 0.2, 0.9]})
    run = simulate(
        "s a",
        message("s", 5010),
        message("s", 5115),
        script=script,
        rules={"atomic_remove": atomic},
        tolerate="crash",
        copies=1,
        slots=1,
        drain=0.1,
    )
    assert run.summary.quiet is atomic
    assert run.violated == ([] if atomic else ["validity"])
    assert run.delivered("a") == [("s", 1), ("s", 2)][: 1 + atomic]


def test_3_3_1_look_again_after_waiting() -> None:
    """t's message is there when a looks, and s's, which is earlier, is not yet. The copy dies. a goes on to the next, where its
    look is slower than the decision."""
    script = Script({"s write": 1, "a look 1": 0.5, "a look 2": 1})
    runs = [
        simulate(
            "s t a b",
            message("s", 5088),
            message("t", 5090),
            script=script,
            rules={"look_again": again},
            senders=("s", "t"),
            tolerate="crash",
            faults=[fault("module", 5150, module=1)],
        )
        for again in (False, True)
    ]
    assert [run.delivered("b") for run in runs] == [[("s", 1), ("t", 1)]] * 2
    assert [run.delivered("a") for run in runs] == [[("t", 1)], [("s", 1), ("t", 1)]]
    assert runs[0].violated == ["agreement", "uniform"]
    assert runs[1].violated == []


# --- 3.3.2: garbage collection ------------------------------------------------------------------------------------------------


@BOTH
def test_3_3_2_a_crashed_receiver_holds_up_senders_only_until_it_is_reported(tolerate: str) -> None:
    """The protocol cannot detect a crash: what the receiver had not read stays until the membership service speaks."""
    load = Workload(senders=("a",), closed=4, count=4, start=us(5000), size=60_000)
    run = simulate(
        "a b c",
        load,
        tolerate=tolerate,
        slots=1,
        faults=[fault("crash", 5050, process="c")],
        memory={"detection": us(3000)},
    )
    assert run.summary.quiet
    assert run.delivered("a") == run.delivered("b") == [("a", seq) for seq in range(1, 5)]
    assert run.of("deliver", "a")[1]["true_time"] > 8050 * US
    assert run.violated == []


@BOTH
def test_3_3_2_who_has_crashed_is_no_receiver_any_more(tolerate: str) -> None:
    """Once it is marked, further messages have no flag for it and are removed as if it had never been."""
    load = Workload(senders=("a",), rate=800.0, start=us(9000), stop=us(14_000))
    run = simulate("a b c", load, tolerate=tolerate, slots=1, faults=[fault("crash", 4000, process="c")], length=15_000)
    assert len(run.delivered("b")) == len(run.of("send")) >= 3
    assert not [row for row in run.of("block") if row["true_time"] > 9000 * US] or tolerate == "timing"
    assert run.violated == []


# --- 3.3.3: Theorem 1 ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(6))
def test_theorem_1(seed: int) -> None:
    """Consensus, validity, ordering and bounded time, with crashes of senders, receivers and copies at drawn moments."""
    run = simulate(
        "a b c d",
        Workload(rate=700.0, start=us(4000), stop=us(12_000)),
        tolerate="crash",
        copies=3,
        clocks={"b": 4, "d": 2},
        memory={"duration": "extremes"},
        settings={"seed": seed},
        length=12_500,
        faults=[
            fault("crash", 5000 + 613 * seed, process="a", mid_broadcast=True),
            fault("crash", 8000 + 311 * seed, process="d"),
            fault("module", 5500 + 501 * seed, module=1 + seed % 3),
            fault("module", 9000, module=1 + (seed + 1) % 3),
        ],
    )
    assert run.violated == []
    assert run.summary.quiet
    assert run.delivered("b") == run.delivered("c")
    assert run.timing_faults() == []


@pytest.mark.parametrize("first", ["a", "b"])
@pytest.mark.parametrize("flagged", [False, True])
def test_3_3_3_only_the_first_decides_by_the_flag(first: str, flagged: bool) -> None:
    """Case 1 of the proof cannot be: in one copy the second receiver finds the decision (cases 3 and 5)."""
    script = Script({"b look" if first == "a" else "a look": 1}, {"s flag 1" if flagged else "s write 2": "s"})
    run = simulate("s a b", message("s", 5010), script=script, tolerate="crash", senders=("s",))
    assert run.operations(first, "decide")[0][3] < run.operations("b" if first == "a" else "a", "decide")[0][3]
    assert run.decisions("a") == run.decisions("b") == [int(flagged)]
