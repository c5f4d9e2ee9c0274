"""Progress: standstills, what excuses them, and requests without an answer.

Times are 1 ns, the bound for messages is 10 and that for answers 20. Disturbances are part of every trace: a ``start`` row, a
view and a crash each restart the clock, so most traces begin at time 0 and are judged from 10 on.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import pyarrow as pa
import pytest

from plainchant.core.model import MS, SECOND, Duration
from plainchant.lab.properties import verify
from plainchant.lab.verify.check import check as check_of_tasks
from plainchant.protocols.registry import Progress, describe, promised
from plainchant.scenario.model import Fault, Network, Scenario, Workload
from plainchant.sim.simulation import Make, Simulation
from plainchant.trace import TraceBuffer

from ...trace.build import assert_flagged, assert_passes, check, trace

BOUNDS = {"bounds": {"progress": 10, "answer": 20}}
PAUSES = {**BOUNDS, "despite": ["pause"]}
SOME_LOSS = {**BOUNDS, "despite": ["loss<=0.3"]}
AB = "view 1 a,b time=0"
ABC = "view 1 a,b,c time=0"
SENT = "accept time=20 | send time=20"
OWN = f"{SENT} | deliver a 1 time=21"


def fault(kind: str, time: int, **more: object) -> str:
    """A ``fault`` row."""
    parts = [f'"fault":"{kind}"', *(f'"{name}":{value}' for name, value in more.items())]
    return f"fault time={time} detail={{{','.join(parts)}}}"


BAD: list[tuple[str, dict[str, Any], dict[str, str], str]] = [
    ("a message is taken and delivered late", BOUNDS, {
        "a": f"{AB} | {OWN} | end time=90",
        "b": f"{AB} | deliver a 1 time=31 | end time=90",
    }, "b"),
    ("a message is taken late, and delivered at once when it is", BOUNDS, {
        "a": f"{AB} | accept time=20 | send time=31 | deliver a 1 time=31 | end time=90",
    }, "a"),
    ("a message is never taken", BOUNDS, {
        "a": f"{AB} | accept time=20 | end time=90",
        "b": f"{AB} | end time=90",
    }, "a"),
    ("the second message is never taken, the first is", BOUNDS, {
        "a": "view 1 a time=0 | accept time=20 | accept time=20 | send time=20 | deliver a 1 time=21 | end time=32",
    }, "a"),
    ("a message is never delivered by one that owes it", BOUNDS, {
        "a": f"{AB} | {OWN} | end time=90",
        "b": f"{AB} | end time=31",
    }, "b"),
    ("a message is late by the global clock, not by the receiver's own", BOUNDS, {
        "a": "view 1 a,b time=0 true_time=0 | accept time=20 true_time=20 | send time=20 true_time=20 | end time=90 true_time=90",
        "b": "view 1 a,b time=0 true_time=0 | deliver a 1 time=25 true_time=31 | end time=80 true_time=90",
    }, "b"),
    ("nothing tells when a message was accepted: its send starts the clock", BOUNDS, {
        "a": f"{AB} | send time=20 | deliver a 1 time=21 | end time=90",
        "b": f"{AB} | deliver a 1 time=31 | end time=90",
    }, "b"),
    ("a fault is over for longer than the bound", BOUNDS, {
        "a": f"{AB} | {OWN} | {fault('partition', 22, length=10)} | end time=90",
        "b": f"{AB} | deliver a 1 time=43 | end time=90",
    }, "b"),
    ("the network heals, and nothing moves", BOUNDS, {
        "a": f"{AB} | {OWN} | {fault('cut', 22)} | {fault('heal', 40)} | end time=90",
        "b": f"{AB} | deliver a 1 time=51 | end time=90",
    }, "b"),
    ("the time of faults ends, and nothing moves", BOUNDS, {
        "a": f"{AB} | {OWN} | {fault('loss', 0, rate=0.9, background='true')} | {fault('heal', 30)} | {fault('calm', 40)}"
             " | end time=90",
        "b": f"{AB} | deliver a 1 time=51 | end time=90",
    }, "b"),
    ("another process is paused, which the protocol tolerates", PAUSES, {
        "a": f"{ABC} | {OWN} | end time=190",
        "b": f"{ABC} | deliver a 1 time=53 | end time=190",
        "c": f"{ABC} | {fault('pause', 22, length=100)} | deliver a 1 time=124 | end time=190",
    }, "b"),
    ("packets are lost at a rate that the protocol tolerates", SOME_LOSS, {
        "a": f"{AB} | {OWN} | {fault('loss', 22, rate=0.3)} | end time=90",
        "b": f"{AB} | deliver a 1 time=33 | end time=90",
    }, "b"),
    ("the receiver was paused, and has had time to catch up", PAUSES, {
        "a": f"{AB} | {OWN} | end time=90",
        "b": f"{AB} | {fault('pause', 22, length=10)} | deliver a 1 time=53 | end time=90",
    }, "b"),
    ("views change for ever between the same members", BOUNDS, {
        "a": f"{AB} | view 2 a time=10 | view 3 a,b time=19 | {SENT} | view 4 a,b time=25 | view 5 a,b time=30"
             " | view 6 a,b time=36 | end time=40",
        "b": f"{AB} | view 2 b time=10 | view 3 a,b time=19 | view 4 a,b time=25 | view 5 a,b time=30 | view 6 a,b time=36"
             " | end time=40",
    }, "a"),
    ("a process that crashes later was slow before", BOUNDS, {
        "a": f"{AB} | {OWN} | end time=90",
        "b": f"{AB} | crash time=32",
    }, "b"),
    ("the sender crashes when the bound has passed", BOUNDS, {
        "a": f"{AB} | {OWN} | crash time=32",
        "b": f"{AB} | end time=90",
    }, "b"),
    ("a process that is cut was slow before", BOUNDS, {
        "a": f"{AB} | {OWN} | end time=90",
        "b": f"{AB} | drop a 1 time=32",
    }, "b"),
    ("a process leaves when the bound has passed", BOUNDS, {
        "a": f"{AB} | {OWN} | end time=90",
        "b": f"{AB} | leave time=32",
    }, "b"),
    ("a message of the second group waits, those of the first do not", BOUNDS, {
        "a": f"{AB} | view 1 a,b group=h time=0 | {OWN} | accept group=h time=22 | send group=h time=22 | end time=90",
        "b": f"{AB} | view 1 a,b group=h time=0 | deliver a 1 time=21 | deliver a 1 group=h time=33 | end time=90",
    }, "b"),
    ("a member of a group without views waits", BOUNDS, {
        "a": f"join time=0 | {OWN} | end time=90",
        "b": "join time=0 | deliver a 1 time=31 | end time=90",
    }, "b"),
    ("a member of a group without views never delivers, others do", BOUNDS, {
        "a": f"join time=0 | {OWN} | end time=90",
        "b": "join time=0 | end time=90",
    }, "b"),
    ("nobody delivers a message of a process that only sends", BOUNDS, {
        "a": f"{SENT} | end time=90",
        "b": "view 1 b time=0 | end time=90",
    }, "b"),
    ("one member delivers late what a process that only sends has sent", BOUNDS, {
        "a": f"{SENT} | end time=90",
        "b": "view 1 b,c time=0 | deliver a 1 time=22 | end time=90",
        "c": "view 1 b,c time=0 | deliver a 1 time=33 | end time=90",
    }, "c"),
    ("two parts have merged, and one member lacks what was sent since", BOUNDS, {
        "a": f"{AB} | view 2 a time=5 | view 4 a,b time=10 | {OWN} | end time=90",
        "b": f"{AB} | view 3 b time=5 | view 4 a,b time=10 | end time=90",
    }, "b"),
    ("a process that has come back lacks what was sent since", BOUNDS, {
        "a": f"{AB} | view 2 a time=5 | view 3 a,b time=9 | {OWN} | end time=90",
        "b": f"{AB} | leave time=4 | view 3 a,b time=9 | end time=90",
    }, "b"),
    ("the next incarnation lacks what was sent since it is there", BOUNDS, {
        "a": f"{AB} | view 2 a time=5 | view 3 a,b#1 time=9 | {OWN} | end time=90",
        "b": f"{AB} | crash time=4",
        "b#1": "view 3 a,b#1 time=9 | end time=90",
    }, "b#1"),
    ("a request to join has no answer", BOUNDS, {
        "a": "view 1 a time=0 | end time=90",
        "b": "request join time=10 | end time=31",
    }, "b"),
    ("a request to join is answered late", BOUNDS, {
        "a": "view 1 a time=0 | view 2 a,b time=31 | end time=90",
        "b": "request join time=10 | view 2 a,b time=31 | end time=90",
    }, "b"),
    ("a request to leave has no answer", BOUNDS, {
        "a": f"{AB} | request leave time=10 | end time=31",
        "b": f"{AB} | end time=90",
    }, "a"),
    ("all have asked to form a group, and one waits", BOUNDS, {
        "a": "request form a,b time=10 | view 1 a,b time=12 | end time=90",
        "b": "request form a,b time=12 | end time=33",
    }, "b"),
    ("a proposal is refused late", BOUNDS, {
        "a": "request propose a,b time=10 | refused time=31 | end time=90",
    }, "a"),
]  # fmt: skip

GOOD: list[tuple[str, dict[str, Any], dict[str, str]]] = [
    ("in the last nanosecond", BOUNDS, {
        "a": f"{AB} | {OWN} | end time=90",
        "b": f"{AB} | deliver a 1 time=30 | end time=90",
    }),
    ("a queue moves on, one message at a time", BOUNDS, {
        "a": "view 1 a time=0 | accept time=20 | accept time=20 | accept time=20 | send time=20 | deliver a 1 time=29"
             " | send time=29 | deliver a 2 time=38 | send time=38 | deliver a 3 time=47 | end time=90",
    }),
    ("a queue moves on until the history ends, and its last messages wait for each other", BOUNDS, {
        "a": "view 1 a,b time=0 | accept time=20 | accept time=20 | accept time=20 | accept time=20 | send time=20 | send time=20"
             " | send time=20 | deliver a 1 time=21 | deliver a 2 time=22 | deliver a 3 time=23 | send time=30"
             " | deliver a 4 time=31 | end time=40",
        "b": "view 1 a,b time=0 | deliver a 1 time=26 | deliver a 2 time=35 | end time=40",
    }),
    ("a queue moves on until the history ends, and its last message is not taken yet", BOUNDS, {
        "a": "view 1 a,b time=0 | accept time=20 | accept time=20 | accept time=20 | send time=20 | deliver a 1 time=21"
             " | send time=22 | deliver a 2 time=29 | end time=38",
        "b": "view 1 a,b time=0 | deliver a 1 time=29 | end time=38",
    }),
    ("a fault comes before the bound has passed", BOUNDS, {
        "a": f"{AB} | {OWN} | {fault('omit', 29)} | end time=90",
        "b": f"{AB} | deliver a 1 time=39 | end time=90",
    }),
    ("a fault lasts", BOUNDS, {
        "a": f"{AB} | {OWN} | {fault('partition', 22, length=50)} | end time=90",
        "b": f"{AB} | deliver a 1 time=82 | end time=90",
    }),
    ("a fault without a length lasts to the end", BOUNDS, {
        "a": f"{AB} | {OWN} | {fault('clog', 22)} | end time=990",
        "b": f"{AB} | end time=990",
    }),
    ("a network loses packets all the time, and healing does not change that", BOUNDS, {
        "a": f"{AB} | {fault('loss', 1, rate=0.1, background='true')} | {OWN} | {fault('heal', 30)} | end time=90",
        "b": f"{AB} | deliver a 1 time=80 | end time=90",
    }),
    ("packets are lost at a higher rate than the protocol tolerates", SOME_LOSS, {
        "a": f"{AB} | {OWN} | {fault('loss', 22, rate=0.31)} | end time=90",
        "b": f"{AB} | deliver a 1 time=80 | end time=90",
    }),
    ("another process is paused, which the protocol does not tolerate", BOUNDS, {
        "a": f"{ABC} | {OWN} | end time=190",
        "b": f"{ABC} | deliver a 1 time=124 | end time=190",
        "c": f"{ABC} | {fault('pause', 22, length=100)} | deliver a 1 time=124 | end time=190",
    }),
    ("the receiver itself is paused, and catches up within the bound", PAUSES, {
        "a": f"{AB} | {OWN} | end time=190",
        "b": f"{AB} | {fault('pause', 22, length=100)} | deliver a 1 time=131 | end time=190",
    }),
    ("the sender itself does not read for a while", {**BOUNDS, "despite": ["sluggish"]}, {
        "a": f"{AB} | {SENT} | {fault('sluggish', 22, length=60)} | deliver a 1 time=80 | end time=90",
        "b": f"{AB} | deliver a 1 time=80 | end time=90",
    }),
    ("a process whose clock was set is not judged", BOUNDS, {
        "a": f"{AB} | {OWN} | end time=90",
        "b": f"{AB} | {fault('step', 5)} | deliver a 1 time=500 | end time=600",
    }),
    ("the receiver is excluded before the bound has passed", BOUNDS, {
        "a": f"{AB} | {OWN} | view 2 a time=30 | end time=90",
        "b": f"{AB} | end time=90",
    }),
    ("the two part, each with a view of its own", BOUNDS, {
        "a": f"{AB} | {OWN} | view 2 a time=28 | view 4 a,b time=50 | end time=90",
        "b": f"{AB} | view 3 b time=29 | view 4 a,b time=50 | end time=90",
    }),
    ("the receiver is a member only later", BOUNDS, {
        "a": f"view 1 a time=0 | {OWN} | view 2 a,b time=60 | end time=90",
        "b": "view 2 a,b time=60 | end time=90",
    }),
    ("a message was accepted long before the receiver came, and is taken then", BOUNDS, {
        "a": f"view 1 a time=0 | {fault('pause', 20, length=20)} | accept time=20 | view 2 a,b time=46 | send time=48"
             " | deliver a 1 time=49 | end time=90",
        "b": "view 2 a,b time=46 | deliver a 1 time=56 | end time=90",
    }),
    ("the receiver leaves, and comes back", BOUNDS, {
        "a": f"{AB} | {OWN} | view 2 a time=40 | view 3 a,b time=60 | end time=90",
        "b": f"{AB} | leave time=30 | view 3 a,b time=60 | end time=90",
    }),
    ("an incarnation crashes, the next one owes nothing", BOUNDS, {
        "a": f"{AB} | {OWN} | view 2 a time=32 | view 3 a,b#1 time=50 | end time=90",
        "b": f"{AB} | crash time=25",
        "b#1": "view 3 a,b#1 time=50 | end time=90",
    }),
    ("a sender leaves with messages in its queue", BOUNDS, {
        "a": f"{AB} | {OWN} | accept time=30 | leave time=35",
        "b": f"{AB} | deliver a 1 time=22 | end time=90",
    }),
    ("a stream was not admitted, so its message is never taken", BOUNDS, {
        "a": "view 1 a time=0 | accept time=20 digest=5 | reject time=20 | accept time=20 digest=7"
             " | send time=21 digest=7 | deliver a 1 time=22 digest=7 | end time=90",
    }),
    ("a later message overtakes an earlier one", BOUNDS, {
        "a": "view 1 a time=0 | accept time=20 digest=5 | accept time=25 digest=7 | send time=25 digest=7 | deliver a 1 time=26"
             " | send time=27 digest=5 | deliver a 2 time=28 | end time=90",
    }),
    ("requests of two groups are answered, each in its own", BOUNDS, {
        "a": "view 1 a time=0 | view 1 a group=h time=0 | view 2 a,b time=30 | view 2 a,b group=h time=45 | end time=90",
        "b": "request join time=10 | request join group=h time=25 | view 2 a,b time=30 | view 2 a,b group=h time=45"
             " | end time=90",
    }),
    ("nobody is there to answer a request to join", BOUNDS, {
        "a": "request join time=10 | end time=900",
    }),
    ("a request to join is refused", BOUNDS, {
        "a": "view 1 a time=0 | end time=90",
        "b": "request join time=10 | refused time=30 | end time=90",
    }),
    ("the process that asks stops", BOUNDS, {
        "a": "view 1 a time=0 | end time=90",
        "b": "request join time=10 | crash time=30",
    }),
    ("a request to leave is answered", BOUNDS, {
        "a": f"{AB} | request leave time=10 | leave time=30",
        "b": f"{AB} | view 2 b time=31 | end time=90",
    }),
    ("a message of a process that only sends comes in time", BOUNDS, {
        "a": f"{SENT} | end time=90",
        "b": "view 1 b time=0 | deliver a 1 time=30 | end time=90",
    }),
]  # fmt: skip

NOTHING: list[tuple[str, dict[str, Any], dict[str, str]]] = [
    ("no time is stated", {}, {
        "a": f"{AB} | {SENT} | end time=900",
    }),
    ("another bound is stated", {"bounds": {"deliver": 10}}, {
        "a": f"{AB} | {SENT} | end time=900",
    }),
    ("the history ends within the bound", BOUNDS, {
        "a": "view 1 a time=0 | accept time=20 | end time=30",
    }),
    ("only answers are bounded, and there is no request", {"bounds": {"answer": 20}}, {
        "a": f"{AB} | {SENT} | end time=900",
    }),
    ("a message is larger than bounds are for", {"bounds": {"progress": 10, "size": 100}}, {
        "a": "view 1 a time=0 | accept time=20 size=101 | send time=20 size=101 | end time=900",
    }),
    ("not all members have asked to form the group", BOUNDS, {
        "a": "request form a,b time=10 | end time=900",
        "b": "end time=900",
    }),
    ("a process that is no member yet has accepted a message", {"bounds": {"progress": 10}}, {
        "a": "request join time=10 | accept time=20 | end time=900",
        "b": "view 1 b time=0 | end time=900",
    }),
]  # fmt: skip


@pytest.mark.parametrize(("options", "histories", "culprit"), [pytest.param(o, h, c, id=i) for i, o, h, c in BAD])
def test_standstills_are_flagged(options: dict[str, Any], histories: dict[str, str], culprit: str) -> None:
    assert_flagged(histories, "progress", culprit, **options)


@pytest.mark.parametrize(("options", "histories"), [pytest.param(o, h, id=i) for i, o, h in GOOD])
def test_what_moves_or_is_excused_passes(options: dict[str, Any], histories: dict[str, str]) -> None:
    assert_passes(histories, "progress", **options)


@pytest.mark.parametrize(("options", "histories"), [pytest.param(o, h, id=i) for i, o, h in NOTHING])
def test_there_may_be_nothing_to_check(options: dict[str, Any], histories: dict[str, str]) -> None:
    assert check(histories, "progress", **options).properties["progress"].verdict == "nothing to check"


def test_a_standstill_is_told_with_the_acceptance_and_the_delivery() -> None:
    _, options, histories, culprit = BAD[0]
    violation = assert_flagged(histories, "progress", culprit, **options)
    assert violation.sentence == (
        "b delivers message 1 of a in g late: it waits 11 ns while nothing disturbs the run; the bound is 10 ns"
    )
    assert (violation.group, violation.processes, violation.events) == ("g", ("a", "b"), (("a", 2), ("b", 2)))


def test_of_messages_that_wait_for_each_other_the_first_is_told() -> None:
    stuck = {"a": f"{AB} | {'accept time=20 | send time=20 | ' * 5} end time=90", "b": f"{AB} | end time=90"}
    found = check(stuck, "progress", **BOUNDS)
    assert found.properties["progress"].violations == 2  # at a and at b
    assert {violation.messages for violation in found.violations} == {(("g", "a", 1),)}


def test_processes_that_state_different_times_are_judged_by_the_longest_and_the_kinds_that_all_tolerate() -> None:
    one = trace({"a": f"{AB} | {OWN} | end time=90"}, bounds={"progress": 10}, despite=["pause", "loss"])
    other = trace({"b": f"{AB} | deliver a 1 time=40 | end time=90"}, bounds={"progress": 20}, despite=["loss"])
    assert verify(pa.concat_tables([one, other]), ["progress"]).ok
    assert verify(pa.concat_tables([other, one]), ["progress"]).ok


# --- real runs --------------------------------------------------------------------------------------------------------


def run(scenario: Scenario, make: Make | None = None, **stated: Any) -> pa.Table:
    """The trace of a run whose protocol states these times."""
    description = dataclasses.replace(describe(scenario.protocol), progress=lambda parameters, groups: Progress(**stated))
    buffer = TraceBuffer()
    Simulation(scenario, trace=buffer, description=description, make=make).run()
    return buffer.table()


def scenario(protocol: str, members: int, *faults: Fault, **more: Any) -> Scenario:
    names = tuple(f"p{number}" for number in range(1, members + 1))
    settings: dict[str, Any] = {"duration": 8 * SECOND, "drain": 8 * SECOND, "workload": (Workload(rate=20.0),)} | more
    return Scenario(protocol=protocol, members=names, fault=faults, **settings)


CHANGES = (
    Fault(kind="crash", process="p3", at=Duration(2 * SECOND)),
    Fault(kind="restart", process="p3", at=Duration(4 * SECOND)),
    Fault(kind="leave", process="p2", at=Duration(6 * SECOND)),
)


@pytest.mark.parametrize("protocol", ["sequencer", "newtop"])
def test_a_run_with_a_crash_a_return_and_a_leave_makes_progress(protocol: str) -> None:
    table = run(scenario(protocol, 4, *CHANGES), within=2 * SECOND, answered=2 * SECOND)
    for verification in (verify(table), check_of_tasks(table)):
        outcome = verification.properties["progress"]
        assert (outcome.verdict, outcome.runs) == ("holds", 1)
        assert outcome.cases > 1_000


def test_a_bound_that_is_too_short_is_flagged_for_messages_and_requests() -> None:
    table = run(scenario("sequencer", 4, *CHANGES), within=1 * MS, answered=1 * MS)
    for verification in (verify(table), check_of_tasks(table)):
        told = [violation.sentence for violation in verification.violations if violation.property == "progress"]
        assert any("waits" in sentence and "deliver" in sentence for sentence in told)
        assert any("asks to" in sentence for sentence in told)


class Withholding:
    """A host whose messages the engine cannot take any more from some time on."""

    def __init__(self, host: Any, until: int) -> None:
        self._host = host
        self._until = until

    def __getattr__(self, name: str) -> Any:
        return getattr(self._host, name)

    def take(self, *arguments: Any, **more: Any) -> Any:
        return self._host.take(*arguments, **more) if self._host.clock() < self._until else None


def test_a_protocol_that_takes_no_messages_any_more_violates_nothing_but_progress() -> None:
    """What it never takes is in no other property, because those begin with ``send``."""
    make = describe("sequencer").make

    def withholding(host: Any, parameters: Any) -> Any:
        return make(Withholding(host, 3 * SECOND) if host.me == "p2" else host, parameters)

    table = run(scenario("sequencer", 3), withholding, within=2 * SECOND)
    for verification in (verify(table), check_of_tasks(table)):
        told = {(violation.property, violation.sentence.partition(":")[0]) for violation in verification.violations}
        stuck = "does not deliver a message that p2 accepted in g and never sent"
        assert told == {("progress", f"{name} {stuck}") for name in ("p1", "p2", "p3")}


def test_start_rows_promise_progress_exactly_if_a_time_is_stated() -> None:
    description = describe("sequencer")
    parameters, groups = description.parameters(), {"g": ("a", "b", "c")}

    def stated(progress: Progress) -> dict[str, Any]:
        return promised(dataclasses.replace(description, progress=lambda *_: progress), parameters, groups)

    without = stated(Progress(because="it waits for the slowest"))
    assert "progress" not in without["promises"]
    assert "despite" not in without
    with_one = stated(Progress(within=5, despite=frozenset({"pause", "loss<=0.3"})))
    assert with_one["promises"] == [*without["promises"], "progress"]
    assert with_one["bounds"] == {**without["bounds"], "progress": 5}
    assert with_one["despite"] == ["loss<=0.3", "pause"]
    assert stated(Progress(answered=7))["bounds"]["answer"] == 7


def test_a_simulated_run_writes_what_progress_needs_only_where_it_is_promised() -> None:
    lossy = scenario("sequencer", 4, *CHANGES, network=Network(loss=0.01))
    table = run(lossy, within=2 * SECOND)
    rows = table.to_pylist()
    requests = [(row["process"], row["group"], row["detail"]) for row in rows if row["kind"] == "request"]
    assert [name for name, _, detail in requests if '"form"' in detail] == ["p1", "p2", "p3", "p4"]
    assert [name for name, _, detail in requests if '"join"' in detail] == ["p3#1"]
    assert [name for name, _, detail in requests if '"leave"' in detail] == ["p2"]
    assert sum(row["kind"] == "accept" for row in rows) == sum(row["kind"] == "send" for row in rows)
    faults = [row["detail"] for row in rows if row["kind"] == "fault"]
    assert '{"background":true,"fault":"loss","rate":0.01}' in faults
    assert '{"fault":"calm"}' in faults
    plain = {row["kind"] for row in run(lossy, because="none").to_pylist()}
    assert not plain & {"request", "accept"}
