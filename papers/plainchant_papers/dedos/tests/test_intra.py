"""Paper 002, appendix C: reliable multicast within a node.

Each rule is taken away in the smallest run that breaks without it; the same run is clean with it. An operation takes 10 µs in
these runs. In all of them lemmas C.1 to C.6 are asserted after every operation.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from plainchant.core.memory import Connection, Copy, Entry, Header, Layout
from plainchant.core.model import Batch
from plainchant.protocols.dedos import invariants
from plainchant.protocols.dedos.box import Element
from plainchant.scenario.model import Workload
from plainchant.sim.memory import SimCopy
from plainchant.sim.scripted import Script
from plainchant_papers.dedos.variants import RULES
from tests.protocols.dedos.within import WithinRun, fault, message, run, us

LATE = us(3000)
"""A poll so long that nobody looks at the mailbox but for news: the third look of a receiver is for the first message."""
SLOW = {"b receive 1": [1, 1, 60], "c receive 1": [1, 1, 60]}
"""b and c take 600 µs to read the first message."""


# --- C.1: the communication protocol ------------------------------------------------------------------------------------------


def test_c_1_a_message_is_one_operation_for_its_sender_and_one_for_each_receiver() -> None:
    result = run("s a b c", message("s", 1000), senders=("s",), poll=LATE, length=2000)
    assert result.clean
    then = [row for row in result.of("operation") if us(1000) < row["true_time"] < us(2000)]
    done = [(row["process"], '"send"' in row["detail"]) for row in then]
    assert done == [("s", True), ("a", False), ("b", False), ("c", False)]
    assert all(result.delivered(name) == [("s", 1)] for name in "abc")


def test_c_1_during_normal_operation_only_the_active_mailbox_is_used() -> None:
    result = run("a b c", Workload(rate=5000.0, start=us(500)), boxes=3, length=2000)
    assert result.clean
    used = {name for name, box in (step for who in "abc" for step in result.operations(who)) if box > 1}
    assert used == {"list"}


def test_c_1_all_receive_in_the_order_of_the_sequence_numbers() -> None:
    result = run("a b c", Workload(rate=8000.0, start=us(500)), script=None, length=3000)
    assert result.clean
    orders = [result.delivered(name) for name in "abc"]
    assert orders[0] == orders[1] == orders[2]
    assert len(orders[0]) == len(result.of("send")) > 30
    assert result.ranks("a") == sorted(result.ranks("a"))


def test_c_1_a_sender_waits_for_a_free_element_and_goes_on_when_there_is_one() -> None:
    load = Workload(senders=("a",), closed=9, count=9, start=us(500), size=200)
    slow_reader = fault("sluggish", 400, process="c", length=2000, count=1)
    result = run("a b c", load, elements=2, faults=[slow_reader], poll=us(20_000), length=6000)
    assert result.clean
    assert [detail["reason"] for detail in result.details("block", "a")] == ["full"] * len(result.of("unblock", "a"))
    assert result.of("block", "a")
    assert all(len(result.delivered(name)) == 9 for name in "abc")
    # It is told when there is room: it does not wait for its next look.
    assert result.of("deliver", "b")[-1]["true_time"] < us(4000)


# --- C.1: the recovery protocol -----------------------------------------------------------------------------------------------


def both(rule: str, *given: Any, **settings: Any) -> tuple[WithinRun, WithinRun]:
    """The same run with a rule and without."""
    whole = run(*given, **settings)
    with RULES[rule].applied(must_act=True):
        return whole, run(*given, **settings)


def test_c_1_senders_keep_what_they_send() -> None:
    """The mailbox crashes before anybody has read it."""
    script = Script(usual=1, after={"s send 1": "module 1"})
    kept, lost = both("senders_keep", "s a b", message("s", 1000), script=script, senders=("s",))
    assert kept.clean
    assert kept.delivered("a") == kept.delivered("b") == [("s", 1)]
    assert ("recover", 2) in kept.operations("s")
    assert lost.violated == ["validity"]


def test_c_1_receivers_keep_what_they_read() -> None:
    """a has read it, b has not, when the sender and the mailbox crash."""
    kept, lost = both(
        "restore_buffers",
        "s a b",
        message("s", 1000),
        script=Script({"b receive 1": [1, 1, 5]}, usual=1),
        senders=("s",),
        poll=LATE,
        faults=[fault("crash", 1022, process="s"), fault("module", 1023, module=1)],
    )
    assert kept.clean
    assert kept.delivered("a") == kept.delivered("b") == [("s", 1)]
    assert lost.violated == ["agreement"]
    assert lost.broken[0].startswith("read_is_kept")


def test_c_1_senders_wait_until_all_p_flags_are_set() -> None:
    """t does not know that s has used a number; s is slow to restore what has it."""
    script = Script({"a receive 1": 20, "s start 2": 200}, usual=1)
    waits, hurries = both(
        "restore_flags",
        "s t a",
        message("s", 1000),
        message("t", 1600),
        senders=("s", "t"),
        script=script,
        faults=[fault("module", 1060, module=1)],
    )
    assert waits.clean
    assert sorted(waits.delivered("a")) == [("s", 1), ("t", 1)]
    assert hurries.violated == ["validity"]


def test_c_1_receivers_skip_a_number_only_when_all_p_flags_are_set() -> None:
    """t restores its message before s, whose has a lower number."""
    script = Script({"a receive 1": 10, "s start 2": 20}, usual=1)
    waits, skips = both(
        "skip_when_restored",
        "s t a",
        message("s", 1000),
        message("t", 1005),
        senders=("s", "t"),
        script=script,
        faults=[fault("module", 1030, module=1)],
    )
    assert waits.clean
    assert waits.delivered("a") == [("s", 1), ("t", 1)]
    assert skips.violated == ["validity"]


def test_c_1_a_number_that_nobody_knows_is_skipped_when_all_p_flags_are_set() -> None:
    """The first message is lost with its sender and its box; the second is restored."""
    script = Script({"a receive 1": 20, "b receive 1": 20}, usual=1)
    result = run(
        "s t a b",
        message("s", 1000),
        message("t", 1015),
        senders=("s", "t"),
        script=script,
        faults=[fault("crash", 1012, process="s"), fault("module", 1030, module=1)],
    )
    assert result.clean
    assert result.delivered("a") == result.delivered("b") == [("t", 1)]
    assert result.ranks("a") == [3]


def test_errata_8_who_restores_sets_its_flag_on_what_others_have_restored() -> None:
    load = [message("s", 1000 + 300 * count) for count in range(6)]
    sets, leaves = both(
        "own_flag",
        "s a b c",
        *load,
        senders=("s",),
        elements=2,
        script=Script({"c receive 1": 8}, usual=1),
        faults=[fault("module", 1325, module=1)],
    )
    assert sets.clean
    assert leaves.broken[0].startswith("flags_in_order")


def test_errata_appendix_c_nobody_sets_its_flag_on_what_it_has_sent_and_not_read() -> None:
    script = Script(usual=1, after={"a send 1": "module 1"})
    reads, loses = both("flag_of_read", "a b", message("a", 1000), script=script)
    assert reads.clean
    assert reads.delivered("a") == reads.delivered("b") == [("a", 1)]
    assert loses.violated == ["validity", "agreement"]
    assert loses.broken[0].startswith("flags_mean_read")


def test_errata_appendix_c_numbers_go_on_after_a_crash_of_the_mailbox() -> None:
    """Everybody has read everything, so there is nothing to restore: as printed numbers begin at 1 again."""
    goes_on, begins_again = both(
        "numbers_go_on", "a b", message("a", 1000), message("a", 3000), faults=[fault("module", 2500, module=1)]
    )
    assert goes_on.clean
    assert goes_on.ranks("b") == [2, 3]
    assert begins_again.violated == ["validity"]
    assert begins_again.broken[0].startswith("numbers_go_up")


def test_errata_10_flags_are_not_set_in_spare_boxes() -> None:
    script = Script({"a receive 1": 20, "s start 2": 200}, usual=1)
    load = [message("s", 1000), message("t", 1040), message("t", 1600)]
    unset, was_set = both(
        "spares_unset", "s t a", *load, senders=("s", "t"), script=script, faults=[fault("module", 1060, module=1)]
    )
    assert unset.clean
    assert was_set.violated


def test_trap_who_does_not_read_recovers_all_the_same() -> None:
    """The application of c takes nothing from 500 to 5000; a's second message does not have to wait for that."""
    faults = [fault("sluggish", 500, process="c", length=60_000, count=1), fault("module", 2000, module=1)]
    load = [message("a", 1000), message("b", 1500), message("a", 3500)]
    recovers, sleeps = both("idle_recovery", "a b c", *load, faults=faults)
    assert recovers.clean
    assert recovers.of("deliver", "b")[-1]["true_time"] < us(3600)
    assert sleeps.of("deliver", "b")[-1]["true_time"] > us(5000)


def test_c_1_the_second_spare_box_is_used_when_the_first_crashes_in_the_middle_of_a_recovery() -> None:
    script = Script(usual=1, after={"a send 1": "module 1", "b start 2": "module 2"})
    result = run("a b c", message("a", 1000), boxes=3, script=script)
    assert result.clean
    assert {box for name, box in result.operations("c") if name == "present"} == {3}
    assert all(result.delivered(name) == [("a", 1)] for name in "abc")


def test_c_1_without_a_box_everybody_halts() -> None:
    result = run("a b", message("a", 3000), faults=[fault("module", 1000, module=1), fault("module", 1500, module=2)])
    assert {detail["reason"] for detail in result.details("crash")} == {"no box"}
    assert {end.state for end in result.summary.processes.values()} == {"halted"}


# --- C.1: dynamic group membership --------------------------------------------------------------------------------------------


def test_c_1_a_joiner_begins_with_the_next_number_and_is_seen_by_all_at_the_same_one() -> None:
    load = Workload(senders=("a", "b"), rate=4000.0, start=us(500))
    result = run("a b", load, later="d", faults=[fault("join", 1500, process="d", group="g")], script=None, length=3000)
    assert result.clean
    begin = result.of("join", "d")[0]["rank"]
    ranked = zip(result.delivered("a"), result.ranks("a"), strict=True)
    assert result.delivered("d") == [each for each, rank in ranked if rank > begin]
    assert 0 < len(result.delivered("d")) < len(result.delivered("a"))
    assert [[(view.rank, view.members) for view in result.views[name]] for name in "ab"] == [
        [(1, ("a", "b")), (begin, ("a", "b", "d"))]
    ] * 2
    assert [(view.rank, view.joined) for view in result.views["d"]] == [(begin, ("d",))]


def test_c_1_nobody_goes_on_in_a_spare_box_without_one_who_has_just_joined() -> None:
    """d has entered and sent when the mailbox crashes; only d knows its message."""
    script = Script({"a receive 1": 30, "b receive 1": 30}, usual=1, after={"d send 1": "module 1"})
    result = run(
        "a b",
        message("d", 1000),
        message("a", 2500),
        later="d",
        script=script,
        faults=[fault("join", 900, process="d", group="g")],
    )
    assert result.clean
    assert result.delivered("a") == result.delivered("b") == [("d", 1), ("a", 1)]


def test_errata_appendix_c_a_joiner_keeps_what_it_has_not_read() -> None:
    """b has not read the first message of s; a, which has, and s crash with the box. d joined between the two messages and has
    read the second: without the first in its Hbuffer b gets the second alone."""
    keeps, forgets = both(
        "joiner_keeps", "s a b", message("s", 1000), message("s", 1200), later="d", senders=("s",), poll=LATE,
        script=Script({"b receive 1": [1, 1, 60]}, usual=1),
        faults=[fault("join", 1050, process="d", group="g"), fault("crash", 1300, process="s"), fault("crash", 1300, process="a"),
                fault("module", 1310, module=1)],
    )  # fmt: skip
    assert keeps.clean
    assert keeps.delivered("b") == [("s", 1), ("s", 2)]
    assert keeps.delivered("d") == forgets.delivered("d") == [("s", 2)]
    assert forgets.violated == ["fifo"]


@pytest.mark.parametrize("step", ["look 1", "list 3", "list 2", "join 1", "receive 1"])
def test_trap_who_dies_in_the_middle_of_a_join_holds_up_nobody(step: str) -> None:
    script = Script(usual=1, after={f"d {step}": "d"})
    result = run(
        "a b",
        message("a", 1500),
        message("a", 3500),
        later="d",
        boxes=3,
        script=script,
        faults=[fault("join", 1000, process="d", group="g"), fault("module", 3000, module=1)],
    )
    assert result.clean
    assert result.delivered("b") == [("a", 1), ("a", 2)]
    assert result.views["b"][-1].members == ("a", "b")


def test_errata_9_who_has_crashed_is_deleted_from_all_boxes() -> None:
    """Otherwise everybody waits for its P-flag after the next crash of a box."""
    faults = [fault("crash", 1500, process="c"), fault("module", 3000, module=1)]
    everywhere, one = both("delete_everywhere", "a b c", message("a", 1000), message("a", 3500), faults=faults)
    assert everywhere.clean
    assert {"quiet", "validity"} <= set(one.violated)


@pytest.mark.parametrize("only_sends", [True, False])
def test_errata_9_senders_are_deleted_too(only_sends: bool) -> None:
    faults = [fault("crash", 1500, process="c"), fault("module", 3000, module=1)]
    result = run("a b c", message("c", 1000), message("a", 3500), faults=faults, senders=("c",) if only_sends else ())
    assert result.clean
    assert result.delivered("b") == [("c", 1), ("a", 1)]


def test_errata_9_who_leaves_restores_what_it_keeps_in_the_spare_boxes() -> None:
    """a has left, and its message was read by nobody else, when the mailbox crashes."""
    stores, goes = both(
        "leave_restores",
        "a b c",
        message("a", 1000),
        poll=LATE,
        faults=[fault("leave", 1005, process="a")],
        script=Script(SLOW, usual=1, after={"a delete 1": "module 1"}),
    )
    assert stores.clean
    assert stores.delivered("b") == stores.delivered("c") == [("a", 1)]
    assert stores.views["b"][-1].members == ("b", "c")
    assert goes.delivered("a") == [("a", 1)]
    assert goes.delivered("b") == goes.delivered("c") == []


def test_trap_who_dies_in_the_middle_of_a_leave_leaves_nothing_that_comes_back() -> None:
    """a restores its messages in box 3 and dies. They are not in box 2, which is next, and their numbers are given again. As
    printed, box 3 has the old messages under these numbers when box 2 crashes."""
    load = [Workload(senders=("a",), closed=2, count=2, start=us(1000), size=200), message("b", 2500)]
    script = Script({**SLOW, "c receive 2": [1, 1, 60]}, usual=1, after={"a recover 3 #2": "a", "b send 2": "module 2"})
    ascending, descending = both(
        "leave_ascending",
        "a b c",
        *load,
        boxes=3,
        poll=LATE,
        script=script,
        faults=[fault("leave", 1005, process="a"), fault("module", 1120, module=1)],
    )
    assert ascending.clean
    assert ascending.delivered("c") == [("a", 1), ("a", 2), ("b", 1)]
    assert "validity" in descending.violated
    assert ("b", 1) not in descending.delivered("c")


def test_c_1_who_leaves_reads_its_own_messages_first() -> None:
    result = run("a b", Workload(senders=("a",), closed=3, count=9, start=us(500)), faults=[fault("leave", 600, process="a")])
    assert result.clean
    assert result.delivered("a") == result.sent("a") == result.delivered("b")
    assert result.of("leave", "a")[0]["rank"] == result.ranks("a")[-1]


# --- C.2: the lemmas ----------------------------------------------------------------------------------------------------------


def test_c_2_the_lemmas_hold_between_all_operations() -> None:
    """Crashes of two boxes and of two processes, one of them while it restores."""
    faults = [fault("module", 1500, module=1), fault("crash", 1525, process="d"), fault("module", 2500, module=2),
              fault("crash", 3000, process="b")]  # fmt: skip
    result = run("a b c d", Workload(rate=5000.0, start=us(500)), boxes=3, script=None, faults=faults, length=4000)
    assert result.clean
    assert result.asked > 1000


class _Reader:
    def __init__(self, last: int, *kept: int, sender: str = "s") -> None:
        self.last = last
        self.kept = {number: Element(sender, number, 0, Batch(number, 1, b"")) for number in kept}


def _box(header: Header, *elements: tuple[int, int]) -> SimCopy:
    """A box with receivers p and q in places 0 and 1, and elements of s: number and who has read it."""
    copy = SimCopy(Layout(1, 4, 4, 64))
    copy.put_header(header)
    copy.connect(0, Connection("p", entry=1, present=True))
    copy.connect(1, Connection("q", entry=1, present=True))
    for slot, (number, done) in enumerate(elements):
        copy.put(slot, Entry(number, 2, "s", listed=0b11, done=done, number=number))
    return copy


_SOUND = _box(Header(4, 2), (2, 0b01), (3, 0b01))
_READERS = {"p": _Reader(3, 2, 3), "q": _Reader(1)}


def test_c_2_the_lemmas_are_true_of_a_sound_mailbox() -> None:
    assert [sentence for lemma in invariants.WITHIN for sentence in lemma(_SOUND, _READERS)] == []
    assert invariants.consecutive(_SOUND) == invariants.sent_is_there(_SOUND, {"s": 3}) == []


@pytest.mark.parametrize(
    ("lemma", "copy", "readers"),
    [
        (invariants.flags_in_order, _box(Header(4, 2), (2, 0b00), (3, 0b01)), _READERS),
        (invariants.flags_mean_read, _SOUND, {**_READERS, "p": _Reader(2, 2)}),
        (invariants.removed_is_read, _box(Header(4, 3), (3, 0b01)), _READERS),
        (invariants.read_is_kept, _SOUND, {**_READERS, "p": _Reader(3, 3)}),
        (invariants.kept_is_there, _box(Header(4, 2), (2, 0b01)), _READERS),
        (invariants.kept_is_there, _SOUND, {"p": _Reader(3, 2, 3, sender="t")}),
        (invariants.numbers_go_up, _box(Header(3, 2), (2, 0b01), (3, 0b01)), {}),
        (invariants.numbers_go_up, _box(Header(3, 2), (2, 0b01)), _READERS),
    ],
)
def test_c_2_each_lemma_can_fail(lemma: Callable[[Copy, Any], list[str]], copy: Copy, readers: Any) -> None:
    assert lemma(copy, readers)


def test_b_and_3_6_2_each_invariant_between_nodes_can_fail() -> None:
    gap = _box(Header(5, 2), (2, 0), (4, 0))
    gap.connect(2, Connection("s", sends=True, last=1))
    assert invariants.consecutive(gap) == ["[3] are missing between 2 and 4"]
    assert invariants.sent_is_there(gap, {"s": 4}) == [
        "messages [3] of s are not in its mailbox, and not everybody has read them"
    ]
    assert invariants.history_consecutive([2, 3], 4) == invariants.history_consecutive([], 4) == []
    assert invariants.history_consecutive([2, 4], 5)
    assert invariants.history_consecutive([2, 3], 5)
    assert invariants.acknowledged_is_read(1, _READERS) == []
    assert invariants.acknowledged_is_read(3, _READERS) == ["everything up to 3 is acknowledged, and q has read up to 1"]
