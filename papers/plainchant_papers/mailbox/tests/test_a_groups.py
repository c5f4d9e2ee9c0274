"""Paper 000, appendix A: receivers that join and leave, with both protocols, and remote members."""

from __future__ import annotations

from typing import Any

import pytest

from plainchant.core.model import MS, US
from plainchant.protocols import mailbox
from plainchant.protocols.mailbox.parameters import Parameters
from plainchant.scenario.model import Delay, Network, Workload
from plainchant.sim.scripted import Script
from plainchant_papers.mailbox.scripted import AS_BUILT, Rules, fault, message, parameters, times, us

from .runs import MailboxRun, simulate

BOTH = pytest.mark.parametrize("tolerate", ["crash", "timing"])
LATER: dict[str, Any] = {"later": ("c",)}
DENSE = [Workload(senders=(name,), rate=7000.0, start=us(4600 + 33 * number), stop=us(6200)) for number, name in enumerate("st")]
"""Messages right before, at and after whatever happens at 5000."""


def changing(tolerate: str, *, usual: float = 1, **settings: Any) -> MailboxRun:
    """c joins at 5000, and leaves at 8000."""
    load = [*DENSE, *[Workload(senders=(name,), rate=7000.0, start=us(7800), stop=us(8600)) for name in "st"]]
    changes = [fault("join", 5000, process="c"), fault("leave", 8000, process="c")]
    script = Script(usual=usual)
    return simulate(
        "s t a b", *load, script=script, tolerate=tolerate, senders=("s", "t"), faults=changes, settings=LATER, **settings
    )


def stamp_of(run: MailboxRun, state: str, key: str) -> int:
    return int(next(detail[key] for detail in run.details("state", "c") if detail["state"] == state))


# --- A.1: Join and Leave --------------------------------------------------------------------------------------------------------


@BOTH
def test_a_1_entry_and_exit_lie_ahead(tolerate: str) -> None:
    """T + Dj + e, and T + Dl + e, where Dj = Dl = n df: the list is changed in every copy by then."""
    run = changing(tolerate)
    bounds = times(tolerate=tolerate)
    assert bounds.join == 2 * 20 * US
    entry, leaving = stamp_of(run, "entered", "entry"), stamp_of(run, "leaving", "exit")
    listed = [round(end * US) for _, _, _, end in run.operations("c", "list")]
    began = min(round(begin * US) for _, _, begin, _ in run.operations("c", "list"))
    assert entry - (began + bounds.join) == pytest.approx(4 * US, abs=2)
    assert listed[1] + 4 * US <= entry
    assert listed[3] + 4 * US <= leaving


@BOTH
@pytest.mark.parametrize("usual", [0, 0.5, 1])
def test_a_1_1_claim_1(tolerate: str, usual: float) -> None:
    """Messages at or after the entry, and before a Leave, have a decision flag for who joined, in every copy."""
    run = changing(tolerate, usual=usual, clocks={"s": 4})
    entry, leaving = stamp_of(run, "entered", "entry"), stamp_of(run, "leaving", "exit")
    with_flag = {(sender, stamp) for (sender, stamp, _), names in run.flagged.items() if "c" in names}
    without = {(sender, stamp) for (sender, stamp, _), names in run.flagged.items() if "c" not in names}
    assert with_flag
    assert without
    assert not with_flag & without
    assert all(stamp < entry or stamp >= leaving for _, stamp in without)
    assert all(entry <= stamp < leaving for _, stamp in with_flag)
    assert run.violated == []


@BOTH
@pytest.mark.parametrize("usual", [0, 0.5, 1])
def test_a_1_1_claim_2(tolerate: str, usual: float) -> None:
    """Messages at or after the exit have none; and who left reads what is earlier, and nothing later."""
    run = changing(tolerate, usual=usual, clocks={"t": 4})
    entry, leaving = stamp_of(run, "entered", "entry"), stamp_of(run, "leaving", "exit")
    assert not [names for (_, stamp, _), names in run.flagged.items() if stamp >= leaving and "c" in names]
    joined = run.of("join", "c")[0]["rank"]
    until = joined + (leaving - entry) * 64
    assert run.delivered("c") == [(row["sender"], row["seq"]) for row in run.of("deliver", "a") if joined <= row["rank"] < until]
    assert run.delivered("c") != []
    assert run.of("leave", "c")
    assert run.violated == []


@BOTH
def test_a_1_changes_are_consistent(tolerate: str) -> None:
    """There is one point for everybody: the same messages come before an entry, by its rank."""
    run = changing(tolerate)
    joined = run.of("join", "c")[0]["rank"]
    ranks = {(row["sender"], row["seq"]): row["rank"] for row in run.of("deliver", "a")}
    assert {message for message, rank in ranks.items() if rank > joined} >= set(run.delivered("c"))
    assert not {message for message, rank in ranks.items() if rank < joined} & set(run.delivered("c"))
    assert any(rank < joined for rank in ranks.values())


@BOTH
def test_a_1_who_only_sends_is_in_no_list(tolerate: str) -> None:
    run = changing(tolerate)
    assert not [names for names in run.flagged.values() if names & {"s", "t"}]
    assert run.of("deliver", "s") == run.of("join", "s") == []
    assert run.of("send", "s")


# --- A.1.2: with timing failures ------------------------------------------------------------------------------------------------


SEED = {"enter_after": False}
"""Entry and exit timestamps as the paper has them, by the clock alone."""


def unlisted(rules: Rules) -> MailboxRun:
    """s's clock is ahead: its message is later than c's entry, and it writes it before c is in the list."""
    script = Script({"c list": 1, "c read": 1})
    return simulate(
        "s a b",
        message("s", 5005),
        script=script,
        rules=rules,
        senders=("s",),
        clocks={"s": 100},
        faults=[fault("join", 5000, process="c")],
        settings=LATER,
    )


def test_a_1_2_claim_1_fails_with_a_sender_whose_clock_is_ahead() -> None:
    run = unlisted(SEED)
    (stamp,) = {stamp for _, stamp, _ in run.flagged}
    assert stamp >= stamp_of(run, "entered", "entry")
    assert set(map(frozenset, run.flagged.values())) == {frozenset("ab")}
    assert run.timing_faults() == ["s"]


def leaving_early(rules: Rules) -> MailboxRun:
    """s's clock is ahead: its message is later than c's exit, and it writes it before the exit is in the list."""
    return simulate(
        "s a b c",
        message("s", 5005),
        message("s", 9000),
        script=Script({"c list": 1}),
        rules=rules,
        senders=("s",),
        clocks={"s": 100},
        slots=1,
        faults=[fault("leave", 5000, process="c")],
    )


def test_a_1_2_claim_2_fails_with_a_sender_whose_clock_is_ahead() -> None:
    """The message has a flag for c, which has left before it: nobody waits for that."""
    run = leaving_early(SEED)
    first = min(stamp for _, stamp, _ in run.flagged)
    assert first >= stamp_of(run, "leaving", "exit")
    assert all("c" in names for (_, stamp, _), names in run.flagged.items() if stamp == first)
    assert run.delivered("a") == run.delivered("b") == [("s", 1), ("s", 2)]
    assert run.delivered("c") == []
    assert run.summary.quiet
    assert run.violated == []


def test_a_1_2_who_comes_and_goes_after_all_that_is_there_keeps_both_claims() -> None:
    """Here: the step that puts c into a copy's list sees what was written there without it, and c takes a later timestamp."""
    joined, left = unlisted(AS_BUILT), leaving_early(AS_BUILT)
    (stamp,) = {stamp for _, stamp, _ in joined.flagged}
    assert stamp < stamp_of(joined, "entered", "entry")
    assert joined.delivered("a") == joined.delivered("b") == [("s", 1)]
    assert joined.delivered("c") == []
    first = min(stamp for _, stamp, _ in left.flagged)
    assert first < stamp_of(left, "leaving", "exit")
    assert left.delivered("a") == left.delivered("b") == [("s", 1), ("s", 2)]
    assert left.delivered("c") == [("s", 1)]
    assert joined.violated == left.violated == []
    assert joined.timing_faults() == left.timing_faults() == ["s"]


def test_a_1_2_a_late_sender_does_not_make_it_fail() -> None:
    """The list is read when the message is written, and by the message's timestamp: claims 1 and 2 hold however late that is."""
    script = Script({"s write 1": 60, "s write 2": 3})
    run = simulate(
        "s a b",
        message("s", 4990),
        message("s", 5046),
        script=script,
        senders=("s",),
        faults=[fault("join", 5000, process="c")],
        settings=LATER,
        rejected="again",
    )
    entry = stamp_of(run, "entered", "entry")
    assert run.timing_faults() == ["s"]
    assert {stamp for _, stamp, _ in run.flagged}
    assert all(("c" in names) is (stamp >= entry) for (_, stamp, _), names in run.flagged.items())


@pytest.mark.parametrize("listen", [False, True])
def test_a_1_2_a_new_receiver_listens_in(listen: bool) -> None:
    """It has no flag, takes no part, and reads the message all the same."""
    run = unlisted({"enter_after": False, "listen": listen})
    assert run.delivered("a") == run.delivered("b") == [("s", 1)]
    assert run.delivered("c") == ([("s", 1)] if listen else [])
    assert run.violated == ([] if listen else ["agreement", "uniform"])


def test_a_1_2_who_listens_changes_nothing() -> None:
    run = unlisted(SEED)
    assert run.operations("c", "decide")
    assert run.changed["c", "decide"] == run.changed["c", "finish"] == 0
    assert run.changed["a", "decide"] > 0


@pytest.mark.parametrize("postpone", [False, True])
def test_a_1_2_removal_is_postponed(postpone: bool) -> None:
    """a and b read at once and set their flags; c, which reads slowly, comes when the message is gone, and can only stop."""
    run = unlisted({"enter_after": False, "postpone": postpone})
    assert run.delivered("c") == ([("s", 1)] if postpone else [])
    assert [detail["reason"] for detail in run.details("crash", "c")] == ([] if postpone else ["missed"])
    assert run.violated == []
    assert run.timing_faults() == ["s"]


def test_a_1_2_the_printed_postponement_is_too_short() -> None:
    """Ds + Dr + 2e after the timestamp: a receiver that looks for the last time at T + X + e may still be reading then."""
    for copies in (1, 2, 3):
        bounds = times(copies=copies)
        printed = bounds.send + (copies * (10 + 20 + 10) + 100 + 4) * US + 2 * 4 * US
        reading = bounds.settled + (4 + copies * (10 + 20)) * US
        assert printed < reading < bounds.deliver < bounds.kept


# --- A.2: remote members --------------------------------------------------------------------------------------------------------

LAN = Network(delay=Delay("uniform", us(100), us(2000)))


def remote(members: str, **settings: Any) -> MailboxRun:
    load = Workload(rate=60.0, start=us(20_000), stop=us(90_000))
    plain: dict[str, Any] = {"poll": 1000, "datagram": 5000, "length": 100_000, "settle": 0, "memory": {"operations": False}}
    return simulate(members, load, settings={"network": LAN}, drain=5, **plain, **settings)


@BOTH
def test_a_2_a_remote_process_is_a_member_like_any_other(tolerate: str) -> None:
    """Through a slave where the memory is; as reliable, and as ordered."""
    run = remote("a b c d", remote={"d": "a"}, tolerate=tolerate)
    assert run.of("send", "d")
    assert run.delivered("a") == run.delivered("b") == run.delivered("d")
    assert run.violated == run.timing_faults() == []
    assert run.summary.quiet


@BOTH
def test_a_2_time_stays_bounded_if_datagrams_are(tolerate: str) -> None:
    """By what two datagrams take: one to the slave, one back."""
    near, far = remote("a b c", tolerate=tolerate), remote("a b c d", remote={"d": "a"}, tolerate=tolerate)
    groups = {"g": ("a", "b", "c", "d")}
    values = parameters(tolerate=tolerate, poll=1000, datagram=5000)
    bound = mailbox.DESCRIPTION.bounds(Parameters(**values, remote={"d": "a"}), groups)["deliver"]
    alone = mailbox.DESCRIPTION.bounds(Parameters(**values), groups)["deliver"]
    assert near.latest() < far.latest()
    assert near.latest() <= alone / US
    assert far.latest() <= bound / US
    assert alone + 2 * 5 * MS <= bound


def test_a_2_a_remote_process_fails_with_who_acts_for_it() -> None:
    run = remote("a b c d", remote={"d": "c"}, faults=[fault("crash", 40_000, process="c")])
    assert {name: end.state for name, end in run.summary.processes.items()} == {
        "a": "alive",
        "b": "alive",
        "c": "crashed",
        "d": "halted",
    }
    assert run.delivered("a") == run.delivered("b")
    assert run.violated == []
