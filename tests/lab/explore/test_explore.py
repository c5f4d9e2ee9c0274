"""The explorer: what it proves of small cases, what it finds when a rule is missing, and that it looks everywhere.

Durations are varied where that matters, so that each case takes a second or two; docs/explore.md has the larger ones.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from plainchant.cli import main
from plainchant.core.engine import Engine, Host
from plainchant.core.memory import Connect, Connection, Copy, Entry, Header, Layout, Operate, Request
from plainchant.core.model import Form, GroupId, Join, Propose, Reason, UsageError, View
from plainchant.lab.explore.memory import ExploredMemory
from plainchant.lab.explore.search import Result, explore, replay, retell
from plainchant.lab.explore.state import digest
from plainchant.lab.explore.story import timeline, write
from plainchant.lab.properties import verify
from plainchant.protocols.exploration import GROUP, Case
from plainchant.protocols.mailbox.exploration import mailbox_case
from plainchant.protocols.mailbox.variants import VALUES
from plainchant.protocols.variants import Replacement, Variant
from plainchant.trace import TraceBuffer
from tests.protocols.mailbox.test_busy import BARS

DECIDE = frozenset({"decide"})


def of(
    *,
    copies: int = 2,
    timing: bool = False,
    rules: dict[str, Any] | None = None,
    numbers: dict[str, int] | None = None,
    **settings: Any,
) -> Case:
    """A case of ``mailbox``."""
    parameters = {"copies": copies, "tolerate": "timing" if timing else "crash", **(numbers or {})}
    return mailbox_case(rules=rules, parameters=parameters, **settings)


# --- what is proved -------------------------------------------------------------------------------------------------------


SMALL = {
    "first, any process and a module crash": of(
        numbers={"skew": 0}, varied=DECIDE, struck=frozenset({"flag", "decide"}), phases=(0,), detections=(1,)
    ),
    "second, a module crashes": of(timing=True, numbers={"skew": 0}, crashes=0, varied=DECIDE, phases=(1,)),
    "second, the sender crashes": of(timing=True, numbers={"skew": 0}, modules=0, varied=DECIDE, phases=(1,), detections=(1,)),
}


@pytest.mark.parametrize("name", SMALL)
def test_no_run_of_a_small_case_breaks_a_promise(name: str) -> None:
    found = explore(SMALL[name], limit=20_000)
    assert found.complete
    assert found.violation is None
    assert found.states > 200
    assert found.runs > 5


TINY: dict[str, dict[str, Any]] = {
    "first, any process crashes": {"copies": 1, "numbers": {"skew": 0}},
    "first, clocks differ": {"copies": 1, "crashes": 0},
    "first, a module crashes": {"numbers": {"skew": 0}, "crashes": 0, "struck": DECIDE},
    "second, the sender crashes": {"copies": 1, "timing": True, "numbers": {"skew": 0}, "phases": (1,)},
    "second, clocks differ": {"copies": 1, "timing": True, "crashes": 0, "phases": (1,)},
}


@pytest.mark.parametrize("name", TINY)
def test_what_is_not_tried_would_end_like_something_that_is(name: str) -> None:
    settings: dict[str, Any] = {"varied": DECIDE, "phases": (0,), "detections": (1,), **TINY[name]}
    few, all_ = (explore(of(**settings, reduced=reduced)) for reduced in (True, False))
    assert few.complete
    assert all_.complete
    assert few.states < all_.states
    assert few.outcomes == all_.outcomes
    assert len(few.outcomes) > 2


# --- what is found --------------------------------------------------------------------------------------------------------

BREAKS = {
    "expiry": ("validity", of(timing=True, rules={"expiry": "printed"}, crashes=0, phases=(1,))),
    "wait": ("validity", of(timing=True, rules={"wait": "printed"}, crashes=0, phases=(1,))),
    "atomic_votes": ("validity", of(timing=True, rules={"atomic_votes": False}, crashes=0, phases=(1,))),
    "decision_field": (
        "consensus",
        of(timing=True, rules={"decision_field": False}, late={"s1": 60}, crashes=0, varied=DECIDE, phases=(0,)),
    ),
    "look_again": ("consensus", of(copies=1, rules={"look_again": False}, senders=2, phases=(11, 12, 13, 14), crashes=0)),
    "atomic_remove": (
        "termination",
        of(rules={"atomic_remove": False}, messages=2, numbers={"slots": 1}, crashes=0, modules=0, phases=(0,)),
    ),
    "early receiver, first protocol": ("validity", of(early={"r1": 70}, crashes=0, modules=0, phases=(0,))),
    "late sender, first protocol": (  # a copy that is barred keeps the receivers of this run together
        "consensus",
        dataclasses.replace(
            of(late={"s1": 100}, crashes=0, varied=DECIDE, phases=(0,)),
            variant=Variant("bars only what was rejected", (Replacement(*BARS),)),
        ),
    ),
    "two early receivers of three": (
        "validity",
        of(timing=True, receivers=3, early={"r1": 70, "r2": 70}, crashes=0, modules=0, phases=(1,)),
    ),
}


@pytest.mark.parametrize("name", BREAKS)
def test_a_run_that_breaks_a_promise_is_found(name: str) -> None:
    promise, case = BREAKS[name]
    found = explore(case, probes=1_000, limit=1, promise=promise)
    assert found.violation is not None
    assert found.violation.promise == promise
    _, again = replay(found)
    assert again is not None


@pytest.fixture(scope="module")
def overtaken() -> Result:
    struck = frozenset({"flag", "decide"})
    case = of(rules={"extra": "printed"}, failures=0, varied=DECIDE, struck=struck, phases=(0,), detections=(1,))
    return explore(case, limit=20_000)


def test_the_printed_extra_delay_lets_a_receiver_be_overtaken(overtaken: Result) -> None:
    assert overtaken.violation is not None
    assert overtaken.violation.promise == "consensus"
    assert overtaken.faults == 2
    world, _ = replay(overtaken)
    story = [" ".join(line.split()) for line in timeline(world)]
    assert any("s1 crashes before flag in copy 2" in line for line in story)
    assert any("module 1 crashes" in line for line in story)
    assert "BROKEN: " in story[-1]


def test_the_trace_of_a_run_that_breaks_consensus_is_refused_by_the_verifier(overtaken: Result) -> None:
    world, _ = replay(overtaken)
    trace = TraceBuffer()
    write(world, trace)
    verification = verify(trace.table())
    assert {violation.property for violation in verification.violations} & {"agreement", "uniform", "unanimity"}


def test_runs_that_break_nothing_are_accepted_by_the_verifier() -> None:
    trace = TraceBuffer()
    for number in range(6):
        case = of(timing=bool(number % 2), senders=2)
        world, violation = retell(case, [number >> bit & 1 for bit in range(3)])
        assert violation is None
        write(world, trace, f"r{number}")
    verification = verify(trace.table())
    assert not verification.violations
    assert verification.properties["validity"].cases
    assert verification.properties["bounded"].cases


def test_one_early_receiver_of_three_does_not_stop_the_second_protocol() -> None:
    case = of(timing=True, receivers=3, early={"r1": 70}, crashes=0, modules=0, phases=(1,))
    assert explore(case, probes=100, limit=1).violation is None


# --- that it looks everywhere ---------------------------------------------------------------------------------------------


LAYOUT = Layout(1, 2, 1, 8)


class Toy(Engine):
    """Who comes first decides, by its own name. In two steps, which others can come between; or in one."""

    def __init__(self, host: Host, steps: int) -> None:
        self.host = host
        self.steps = steps
        self.has_decided = False

    def join(self, group: GroupId, how: Form | Join | Propose) -> None:
        self.host.spawn("join", self._join(how))

    def _join(self, how: Any) -> Generator[Request, Any, None]:
        yield Connect(GROUP, LAYOUT)
        self.has_decided = True
        self.host.install(View(GROUP, 1, how.members))

    def ready(self, group: GroupId) -> None:
        self.has_decided = False
        self.host.spawn("decide", self._decide())

    def _decide(self) -> Generator[Request, Any, None]:
        self.host.take(GROUP, 64)
        mine = self.host.me == "r1"

        def read(copy: Copy) -> bool | None:
            entry = copy.entry(0)
            return entry.decision if entry is not None else None

        def write(copy: Copy) -> bool:
            copy.put(0, Entry(0, 0, self.host.me, decision=mine, removed=True))
            return mine

        def both(copy: Copy) -> bool:
            decided = read(copy)
            return write(copy) if decided is None else decided

        if self.steps == 1:
            decision = yield Operate(GROUP, 0, "decide", both, 2)
        else:
            decision = yield Operate(GROUP, 0, "read", read, 2)
            if decision is None:
                decision = yield Operate(GROUP, 0, "write", write, 2)
        self.host.record("decide", GROUP, sender="r1", seq=0, decision=int(decision))
        self.has_decided = True

    def waiting(self) -> Reason | None:
        return None if self.has_decided else Reason("undecided", "it has not decided yet")


def toy(steps: int, **settings: Any) -> Case:
    return Case(
        receivers=("r1", "r2"),
        senders=("r1", "r2"),
        copies=1,
        make=lambda host: Toy(host, steps),
        skew=0,
        poll=10,
        complete=1,
        bounds={"send": 10, "deliver": 100},
        phases=(0,),
        **{"crashes": 0, **settings},
    )


def test_every_order_of_two_steps_is_tried() -> None:
    found = explore(toy(2), promise="consensus")
    assert found.violation is not None
    assert "accepts" in found.violation.text
    one = explore(toy(1), promise="consensus")
    assert one.complete
    assert one.violation is None


def test_what_nobody_delivers_is_missed_at_the_end() -> None:
    found = explore(toy(1))
    assert found.violation is not None
    assert found.violation.promise == "validity"


def test_exploring_again_gives_the_same() -> None:
    first, second = (explore(toy(1, crashes=1), promise="consensus") for _ in range(2))
    assert (first.states, first.branches, first.transitions) == (second.states, second.branches, second.transitions)


def test_crashes_add_runs() -> None:
    without, with_one = (explore(toy(1, crashes=count), promise="consensus") for count in (0, 1))
    assert with_one.complete
    assert with_one.states > without.states


def test_a_limit_leaves_the_rest_to_runs_that_are_drawn() -> None:
    found = explore(toy(2, crashes=1), limit=1, random=200, promise="consensus")
    assert not found.complete
    assert found.violation is not None
    assert found.sampled


# --- where a run stands ---------------------------------------------------------------------------------------------------


def procedure(first: int, second: int) -> Generator[int, None, None]:
    yield first
    yield second


def test_the_memory_of_the_explorer_is_one() -> None:
    memory = ExploredMemory(2)
    layout = Layout(2, 3, 1, 10)
    for mailbox, process in (("g", "p2"), ("g", "p1"), ("a", "p2")):
        memory.connect(mailbox, layout, process, 0)
    memory.disconnect("g", 0, "p2")
    memory.connect("g", layout, "p2", 0)
    assert memory.directory() == {"a": ("p2",), "g": ("p1", "p2")}
    copy: Copy = memory.mailboxes["g"][0]
    assert copy.header() == Header()
    copy.put_header(Header(next=3))
    copy.connect(1, Connection("p1"))
    copy.disconnect(1)
    assert (copy.header(), copy.connection(1)) == (Header(next=3), None)


def test_a_generator_is_where_it_stands_and_what_it_will_read() -> None:
    begun = [procedure(1, 7), procedure(2, 7), procedure(1, 8)]
    for each in begun:
        next(each)
    one, other_first, other_second = (digest([each], {}) for each in begun)
    assert one == other_first  # the first number is read no more
    assert one != other_second
    next(begun[0])
    assert digest([begun[0]], {}) != one


def test_sharing_counts() -> None:
    shared = [1]
    assert digest([shared, shared], {}) != digest([[1], [1]], {})
    assert digest([lambda: shared], {}) != digest([lambda: None], {})


# --- the command ----------------------------------------------------------------------------------------------------------


def test_the_command_says_what_it_tried(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["--copies", "1", "--crashes", "0", "--vary", "decide", "--phase", "0", "--set", "skew=0", "--probes", "0"]
    assert main(["explore", "mailbox", *arguments]) == 0
    assert "everything was tried; no promise is broken" in capsys.readouterr().out


def test_the_command_shows_a_run_that_breaks_a_promise(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    arguments = ["--early", "r1=70", "--crashes", "0", "--modules", "0", "--phase", "0"]
    assert main(["explore", "mailbox", *arguments, "--json", "--trace", str(tmp_path / "run")]) == 1
    document = json.loads(capsys.readouterr().out)
    assert document["violation"]["promise"] == "validity"
    assert document["timeline"][-1].endswith(document["violation"]["text"])
    assert list((tmp_path / "run" / "trace").glob("*.parquet"))


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["sequencer"], "cannot be explored"),
        (["mailbox", "--rules", "extra=long"], "extra is one of: corrected, printed, none"),
        (["mailbox", "--rules", "patience=true"], "there is no rule 'patience'"),
        (["mailbox", "--early", "r1"], "a whole number of units"),
        (["mailbox", "--late", "r9=3"], "there is no process 'r9'"),
        (["mailbox", "--modules", "2"], "has to remain"),
        (["mailbox", "--senders", "3", "--both"], "cannot send"),
        (["mailbox", "--detection", "0"], "after 1 unit at least"),
        (["mailbox", "--vary", "dance"], "there is no operation 'dance'"),
        (["mailbox", "--set", "colour=3"], "there is no number 'colour'"),
        (["mailbox", "--promise", "peace"], "there is no promise 'peace'"),
    ],
)
def test_mistakes_are_told_in_a_sentence(arguments: list[str], sentence: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explore", *arguments]) == 2
    assert sentence in capsys.readouterr().err


def test_every_rule_can_be_changed() -> None:
    for name, values in VALUES.items():
        for value in values.values():
            of(rules={name: value})
    with pytest.raises(UsageError):
        mailbox_case(receivers=0)
