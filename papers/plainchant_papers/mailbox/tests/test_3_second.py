"""Paper 000, section 3.4: what the first protocol does not tolerate, and the second, which tolerates timing failures.

Each rule is taken away in the smallest run that breaks without it; the same run is clean with it. Bounds as in the tests of the
first protocol: write 20, flag 20, decide 10, read 20, finish 10, clocks 4, looks every 100 µs.
"""

from __future__ import annotations

from typing import Any

import pytest

from plainchant.core.model import US
from plainchant.protocols.mailbox.box import majority
from plainchant.scenario.model import Workload
from plainchant.sim.scripted import Script
from plainchant_papers.mailbox.scripted import AS_BUILT, Rules, fault, message, times, us

from .runs import MailboxRun, simulate

BROKEN = ["agreement", "uniform", "unanimity"]
"""One delivers what another rejects."""


# --- 3.4.1: timing failures and the first protocol ----------------------------------------------------------------------------


def early(tolerate: str, *fast: str, receivers: str = "a b c", **settings: Any) -> MailboxRun:
    """s, which is intact, sends with all the time it has; the clocks of some receivers are far ahead."""
    clocks = {name: 150.0 + 5 * number for number, name in enumerate(fast)}
    return simulate(
        f"s {receivers}", message("s", 5010), script=Script(usual=1), tolerate=tolerate, senders=("s",), clocks=clocks, **settings
    )


def test_3_4_1_an_early_receiver_makes_the_first_protocol_reject() -> None:
    run = early("crash", "a")
    assert [run.decisions(name) for name in "abc"] == [[0], [0], [0]]
    assert run.accused() == ["s"]
    assert run.timing_faults() == ["a"]


def test_3_4_1_the_second_protocol_survives_it() -> None:
    run = early("timing", "a")
    assert [run.decisions(name) for name in "abc"] == [[1], [1], [1]]
    assert run.accused() == run.violated == []


def blocked(tolerate: str, rejected: str) -> MailboxRun:
    """a looks often, and always before the flags are set."""
    sends = [message(name, 5010 + 2000 * number) for number, name in enumerate("stu")]
    return simulate(
        "s t u a b c",
        *sends,
        script=Script(usual=1),
        tolerate=tolerate,
        senders=("s", "t", "u"),
        clocks={"a": 150},
        poll=30,
        rejected=rejected,
    )


def test_3_4_1_an_early_receiver_blocks_all_communication() -> None:
    first, second = blocked("crash", "halt"), blocked("timing", "halt")
    assert first.of("deliver") == []
    assert first.accused() == ["s", "t", "u"]
    assert second.delivered("b") == second.delivered("c") == [("s", 1), ("t", 1), ("u", 1)]
    assert second.accused() == second.violated == []


def test_3_4_1_who_sends_again_with_time_in_hand_is_heard_in_the_end_but_late() -> None:
    """Not in the paper: a timestamp that lies ahead gives the flags time to be set before even an early receiver may decide."""
    run = blocked("crash", "again")
    assert run.delivered("b") == run.delivered("c") == [("s", 1), ("t", 1), ("u", 1)]
    assert run.violated == ["bounded"]


@pytest.mark.parametrize("tolerate", ["crash", "timing"])
@pytest.mark.parametrize("stop", [3000, 5105, 5112])
def test_3_4_1_late_receivers_are_tolerated(tolerate: str, stop: float) -> None:
    """Of the first protocol, too."""
    pause = fault("pause", stop, process="c", length=6000)
    run = simulate("s a b c", message("s", 5010), tolerate=tolerate, senders=("s",), faults=[pause], script=Script(usual=0.5))
    assert [run.delivered(name) for name in "abc"] == [[("s", 1)]] * 3
    assert run.violated == run.accused() == []
    assert run.timing_faults() == ["c"]
    assert max(row["true_time"] for row in run.of("deliver") if row["process"] != "c") < 6000 * US


LATE_SENDER = Script({"s write": 93 / 20, "b look": 1})
"""s, which began first, writes after a has looked and before b has."""


@pytest.mark.parametrize("tolerate", ["crash", "timing"])
def test_3_4_1_late_senders_are_not_tolerated_by_the_first_protocol(tolerate: str) -> None:
    """3.4.1 says that late timing failures are. A sender inserts T when a has read T' > T."""
    settings: dict[str, Any] = {"tolerate": tolerate, "senders": ("s", "t"), "copies": 1}
    run = simulate("s t a b", message("s", 5010), message("t", 5020), script=LATE_SENDER, **settings)
    assert run.timing_faults() == ["s"]
    if tolerate == "crash":
        assert (run.delivered("a"), run.delivered("b")) == ([("t", 1)], [("s", 1), ("t", 1)])
        assert run.violated == ["agreement", "uniform"]
    else:
        assert run.delivered("a") == run.delivered("b")
        assert run.violated == []
        assert run.summary.quiet


# --- 3.4.1: quorum -----------------------------------------------------------------------------------------------------------


def test_3_4_1_a_quorum_is_a_majority() -> None:
    """mu = ceil((N + 1) / 2), and N is the number of flags that the message itself has."""
    assert [majority((1 << count) - 1) for count in range(1, 8)] == [1, 2, 2, 3, 3, 4, 4]
    assert majority(0b1010100) == 2


@pytest.mark.parametrize("count", [3, 4, 5])
def test_3_4_1_fewer_than_a_quorum_may_be_early_and_no_more(count: int) -> None:
    """mu - 1 = floor(N / 2) survive, which is t for odd N and t + 1 for even; with mu an intact sender's message is rejected."""
    receivers = "abcdef"[:count]
    quorum = count // 2 + 1
    survived = early("timing", *receivers[: quorum - 1], receivers=" ".join(receivers))
    assert survived.accused() == survived.violated == []
    assert [survived.decisions(name) for name in receivers] == [[1]] * count
    too_many = early("timing", *receivers[:quorum], receivers=" ".join(receivers))
    assert too_many.accused() == ["s"]


@pytest.mark.parametrize("count", [3, 4, 5])
def test_3_4_1_t_receivers_may_be_late_and_no_more(count: int) -> None:
    """With one more than t = floor((N - 1) / 2) the others wait: time is no longer bounded."""
    receivers = "abcdef"[:count]
    most = (count - 1) // 2

    def late(number: int) -> MailboxRun:
        pauses = [fault("pause", 5050, process=name, length=3000) for name in receivers[count - number :]]
        return simulate(f"s {' '.join(receivers)}", message("s", 5010), senders=("s",), faults=pauses, script=Script(usual=0.5))

    survived, stuck = late(most), late(most + 1)
    assert survived.violated == survived.accused() == []
    assert survived.delivered("a") == [("s", 1)]
    assert "bounded" in stuck.violated or stuck.accused() == ["s"]
    assert all(row["true_time"] > 8000 * US for row in stuck.of("decide", "a"))


# --- 3.4.1: expiry -----------------------------------------------------------------------------------------------------------

DEAD = [fault("module", 1000, module=1), fault("module", 1100, module=2)]
"""Two of three copies are dead from the beginning: the message is seen in the third, in its slot."""


def last_moment(rules: Rules = AS_BUILT, **given: Any) -> MailboxRun:
    """Everything takes as long as it may, and the message is complete when everybody has just looked."""
    late = times(rules, copies=3, **given).complete / US
    before = 3 * 10
    sent = message("s", 5100.001 - late - before)
    return simulate("s a b", sent, script=Script(usual=1), rules=rules, senders=("s",), copies=3, faults=DEAD, **given)


def test_3_4_1_the_printed_expiry_time_is_too_short() -> None:
    """X = Ds + p + n dd + 2e forgets that a copy takes three steps and two waits, and the look before."""
    printed, corrected = last_moment({"expiry": "printed"}), last_moment()
    assert printed.accused() == ["s"]
    assert printed.timing_faults() == []
    assert corrected.accused() == corrected.violated == []
    assert times({"expiry": "printed"}, copies=3).expiry == (120 + 100 + 3 * 10 + 2 * 4) * US
    assert times(copies=3).expiry == pytest.approx((120 + 4 + 100 + 10 + 2 * (3 * 10 + 2 * 4) + 10) * US, abs=20)


def test_3_4_1_no_smaller_expiry_time_will_do() -> None:
    """Two nanoseconds less, and the message of an intact sender is rejected."""
    least = times(copies=3).expiry
    assert last_moment(expiry=(least - 2) / US).accused() == ["s"]
    assert last_moment(expiry=least / US).accused() == []


def test_3_4_1_a_message_that_is_seen_too_late_is_rejected_by_all() -> None:
    expiry = times().expiry / US
    script = Script({"s flag 1": (expiry + 50) / 20})
    run = simulate("s a b c", message("s", 5000), script=script, senders=("s",))
    assert [run.decisions(name) for name in "abc"] == [[0]] * 3
    assert run.of("deliver") == []
    assert run.violated == []


def test_3_4_1_receivers_keep_scanning() -> None:
    """a sees s's message and b does not yet: nobody waits for a quorum that cannot come; t's, which is later, is in time."""
    run = simulate("s t a b", message("s", 5010), message("t", 5020), script=LATE_SENDER, senders=("s", "t"), copies=1)
    first = {name: min(step[2] for step in run.operations(name, "decide")) for name in "ab"}
    assert first["a"] < first["b"] + 100
    assert run.delivered("a") == run.delivered("b") == [("t", 1)]
    assert run.latest() <= times(copies=1).deliver / US
    assert run.summary.quiet


@pytest.mark.parametrize("tolerate", ["crash", "timing"])
def test_3_4_1_with_an_off_line_schedule_p_is_0(tolerate: str) -> None:
    """Sends begin at multiples of 1 ms, and receivers know when to look."""
    load = Workload(senders=("a",), rate=900.0, start=us(4500), stop=us(12_000))
    settings: dict[str, Any] = {"tolerate": tolerate, "copies": 2, "memory": {"duration": "max"}, "length": 12_500}
    polled = simulate("a b c", load, **settings)
    scheduled = simulate("a b c", load, schedule=1000, **settings)
    assert scheduled.violated == polled.violated == []
    assert {detail["stamp"] % (1000 * US) for detail in scheduled.details("sent")} == {0}
    assert times(schedule=1000).expiry == times().expiry - 100 * US
    began = {detail["after_ns"] - detail["took_ns"] for detail in scheduled.details("decide")}
    assert len(began) == 1
    assert max(began) <= times(tolerate=tolerate).complete + 10 * US
    assert scheduled.latest() < polled.latest()


# --- 3.4.2: the procedure -----------------------------------------------------------------------------------------------------


def test_3_4_2_a_copy_is_three_steps() -> None:
    """Join in, vote, settle; who has a decision from an earlier copy writes it in one."""
    run = simulate("s a b", message("s", 5010), script=Script(usual=1), senders=("s",), copies=3)
    for name in "ab":
        assert [copy for _, copy, _, _ in run.operations(name, "decide")] == [1, 1, 1, 2, 3]
        begins = [begin for _, copy, begin, _ in run.operations(name, "decide") if copy == 1]
        assert [begin - begins[0] for begin in begins] == [0, pytest.approx(14, abs=0.01), pytest.approx(28, abs=0.01)]


@pytest.mark.parametrize("dies", ["a decide 1", "a decide 1 #2", "a decide 1 #3", "b decide 1 #3"])
def test_3_4_2_a_copy_may_die_while_it_is_used(dies: str) -> None:
    """Everybody goes on to the next copy, in its slot."""
    script = Script({"b decide": 0.5}, {dies: "module 1"})
    run = simulate("s a b c", message("s", 5010), script=script, senders=("s",))
    assert [run.decisions(name) for name in "abc"] == [[1]] * 3
    assert run.violated == run.accused() == []


@pytest.mark.parametrize("field", [False, True])
def test_3_4_2_the_decision_field_is_needed(field: bool) -> None:
    """s pauses before it sets its flags, and goes on when copy 1 is decided. Copy 2 would be decided in the other way; it dies
    when a has seen that."""
    script = Script({"s flag 1": 130 / 20, "b decide 2": [0, 0, 1]}, {"a decide 2 #3": "module 2"})
    run = simulate("s a b", message("s", 5010), script=script, rules={"decision_field": field}, senders=("s",))
    assert (run.decisions("a"), run.decisions("b")) == (([0], [0]) if field else ([1], [0]))
    assert run.violated == ([] if field else BROKEN)
    assert run.timing_faults() == ["s"]


@pytest.mark.parametrize("atomic", [False, True])
def test_3_4_2_testing_and_changing_are_one_step(atomic: bool) -> None:
    """s sets its flag while a, b and c vote. a has seen it set and no quorum yet; b and c, who have not, make the quorum; b
    settles on 0; a changes LD; c, who has seen D undefined, settles on 1."""
    script = Script(
        {
            "s flag 1": 115 / 20,
            "a decide": [0, 0.6, 1],
            "b decide": [0, 0, 0.5, 0.5, 0, 0.1],
            "c decide": [0, 0, 0.5, 0.5, 0, 0.5],
        }
    )
    run = simulate("s a b c", message("s", 5010), script=script, rules={"atomic_votes": atomic}, senders=("s",), copies=1)
    assert (run.decisions("b"), run.decisions("c")) == (([0], [0]) if atomic else ([0], [1]))
    assert run.violated == ([] if atomic else BROKEN)
    assert run.timing_faults() == ["s"]


@pytest.mark.parametrize("wait", ["printed", "corrected"])
def test_3_4_2_line_21_waits_for_e_and_for_a_step(wait: str) -> None:
    """c's clock is so far ahead that the message has expired for it: it votes and has not seen. a joins in at once, waits for e
    and votes, before b, whose first step takes its time, is seen: the quorum is there, and nobody may accept."""
    script = Script({"b decide 1": 1})
    run = simulate(
        "s a b c", message("s", 5010), script=script, rules={"wait": wait}, senders=("s",), copies=1, clocks={"c": 1000}
    )
    assert run.timing_faults() == ["c"]
    assert run.accused() == (["s"] if wait == "printed" else [])
    assert [run.decisions(name) for name in "ab"] == ([[0], [0]] if wait == "printed" else [[1], [1]])
    assert run.violated == []


@pytest.mark.parametrize("placeholders", [False, True])
def test_3_4_2_a_message_that_is_absent_from_a_copy_is_decided_there_too(placeholders: bool) -> None:
    """s pauses between copy 1 and copy 2. a has seen copy 1 reject, and the copy dies; it goes to copy 2, where nothing is. s
    goes on, and b and c, who know of no decision, find the message there, flagged and in time."""
    script = Script({"s write 2": 134 / 20, "b decide 1": [0, 0, 0.5], "c decide 1": [0, 0, 0.5]}, {"a decide 1 #3": "module 1"})
    run = simulate("s a b c", message("s", 5010), script=script, rules={"placeholders": placeholders}, senders=("s",))
    assert [run.decisions(name) for name in "abc"] == ([[0]] * 3 if placeholders else [[0], [1], [1]])
    assert run.violated == ([] if placeholders else BROKEN)
    assert run.timing_faults() == ["s"]


def test_3_4_2_a_message_of_a_sender_that_crashed_while_writing_takes_no_longer() -> None:
    """It is in copy 1 only; everybody rejects it, and nobody waits for a quorum in copy 2."""
    run = simulate("s a b c", message("s", 5010), script=Script(after={"s write 1": "s"}, usual=1), senders=("s",))
    assert [run.decisions(name) for name in "abc"] == [[0]] * 3
    longest = 2 * times().slot
    assert all(detail["took_ns"] <= longest for detail in run.details("decide"))
    assert run.summary.quiet


# --- 3.4.3: Theorem 2 ---------------------------------------------------------------------------------------------------------


def test_3_4_3_nothing_is_delivered_before_t_x_e() -> None:
    """By the clock of who delivers."""
    load = Workload(senders=("a", "b"), rate=800.0, start=us(4500))
    run = simulate("a b c", load, clocks={"b": 4}, memory={"duration": "uniform"}, length=9000)
    sent = zip(run.of("sent"), run.details("sent"), strict=True)
    stamps = {(row["sender"], row["seq"]): detail["stamp"] for row, detail in sent}
    delivered = [(row["time"], (row["sender"], row["seq"])) for row in run.of("deliver")]
    waited = [time - stamps[message] for time, message in delivered if message in stamps]
    assert len(waited) >= 9
    assert min(waited) >= times().expiry + 4 * US


@pytest.mark.parametrize("seed", range(8))
def test_theorem_2(seed: int) -> None:
    """Consensus, validity, ordering and bounded time: senders that are slow or are stopped, receivers that are early, late or
    crash (a minority), copies that die."""
    kinds = [
        fault("slow", 5000, process="s", length=4000, delay=40 + 30 * seed),
        fault("pause", 6000 + 97 * seed, process="t", length=150 + 60 * seed),
        fault("module", 5500 + 501 * seed, module=1 + seed % 3),
    ]
    minority = [
        fault("crash", 6500 + 211 * seed, process="e"),
        fault("pause", 5300 + 133 * seed, process="e", length=700),
        fault("slow", 5000, process="e", length=5000, delay=90),
        fault("step", 5000 + 433 * seed, process="e", offset=-500),
    ]
    clocks = {"b": 4, "d": 2, "c": 137 if seed % 2 else -90}
    run = simulate(
        "s t a b c d e",
        Workload(senders=("s", "t", "a", "b"), rate=600.0, start=us(4000), stop=us(11_000)),
        copies=3,
        senders=("s", "t"),
        clocks=clocks,
        memory={"duration": ("extremes", "uniform")[seed % 2]},
        settings={"seed": seed},
        faults=[*kinds, minority[seed % 4]],
        rejected="again",
        length=12_000,
    )
    assert run.violated == []
    assert run.summary.quiet
    assert "c" in run.timing_faults()
    assert set(run.accused()) == set()
    assert run.delivered("a") == run.delivered("b") == run.delivered("d")
