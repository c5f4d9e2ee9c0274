"""Halts, the part of ``progress`` about processes that their protocol stops: what explains one, and what does not.

Times are 1 ns, the bound for messages is 10 and that for answers 20, so that a cause lies within the 20 ns before a halt.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from plainchant.lab.properties.growing import Growing
from plainchant.trace.fact import facts_of

from ...trace.build import assert_flagged, assert_passes, check, trace
from .test_progress import BOUNDS, PAUSES, SOME_LOSS, fault

ABC = "view 1 a,b,c time=0"
ON = "end time=900"


def halt(time: int, **more: object) -> str:
    """The ``crash`` row of a process that its protocol halts."""
    return f"crash time={time} detail={json.dumps({'by': 'protocol', 'reason': 'excluded', **more}, separators=(',', ':'))}"


REPAIRS = {**BOUNDS, "despite": ["omit<=1"]}


def dropped(time: int, count: int) -> str:
    """The ``fault`` row of a process that drops one packet ``count`` times."""
    return fault("omit", time, count=count, drop=1, identity='["b","c",3,1]')


BAD: list[tuple[str, dict[str, Any], dict[str, str], str]] = [
    ("a member is halted out of the blue", BOUNDS, {
        "a": f"{ABC} | {ON}", "b": f"{ABC} | {halt(100)}", "c": f"{ABC} | {ON}",
    }, "b"),
    ("only the time of answers is stated", {"bounds": {"answer": 20}}, {
        "a": f"{ABC} | {ON}", "b": f"{ABC} | {halt(100)}", "c": f"{ABC} | {ON}",
    }, "b"),
    ("another member is paused, which the protocol tolerates", PAUSES, {
        "a": f"{ABC} | {fault('pause', 90, length=50)} | {ON}", "b": f"{ABC} | {halt(100)}", "c": f"{ABC} | {ON}",
    }, "b"),
    ("another member crashes, and two of three are left", BOUNDS, {
        "a": f"{ABC} | crash time=95", "b": f"{ABC} | {halt(100)}", "c": f"{ABC} | {ON}",
    }, "b"),
    ("a crash in the middle of a broadcast, where the protocol tolerates loss", SOME_LOSS, {
        "a": f"{ABC} | {fault('crash', 95, mid_broadcast='true')} | crash time=95",
        "b": f"{ABC} | {halt(100)}", "c": f"{ABC} | {ON}",
    }, "b"),
    ("a crash in the middle of a broadcast, where the protocol repairs omissions", REPAIRS, {
        "a": f"{ABC} | {fault('crash', 95, mid_broadcast='true')} | crash time=95",
        "b": f"{ABC} | {halt(100)}", "c": f"{ABC} | {ON}",
    }, "b"),
    ("a process that acts for another one is paused", {**PAUSES, "acting": {"c": "a"}}, {
        "a": f"{ABC} | {fault('pause', 90, length=50)} | {ON}", "b": f"{ABC} | {halt(100)}", "c": f"{ABC} | {ON}",
    }, "b"),
    ("packets are lost at a rate that the protocol tolerates", SOME_LOSS, {
        "a": f"{ABC} | {fault('loss', 1, rate=0.3, background='true')} | {ON}", "b": f"{ABC} | {halt(100)}", "c": f"{ABC} | {ON}",
    }, "b"),
    ("it dropped a packet once, which the protocol repairs", REPAIRS, {
        "a": f"{ABC} | {ON}", "b": f"{ABC} | {dropped(95, 1)} | {halt(100)}", "c": f"{ABC} | {ON}",
    }, "b"),
    ("another member dropped a packet once, which the protocol repairs", REPAIRS, {
        "a": f"{ABC} | {dropped(95, 1)} | {ON}", "b": f"{ABC} | {halt(100)}", "c": f"{ABC} | {ON}",
    }, "b"),
    ("the network was parted long ago", BOUNDS, {
        "a": f"{ABC} | {fault('partition', 50, length=29)} | {ON}", "b": f"{ABC} | {halt(100)}", "c": f"{ABC} | {ON}",
    }, "b"),
    ("the process itself was paused long ago", BOUNDS, {
        "a": f"{ABC} | {ON}", "b": f"{ABC} | {fault('pause', 50, length=29)} | {halt(100)}", "c": f"{ABC} | {ON}",
    }, "b"),
    ("another process joins", BOUNDS, {
        "a": f"{ABC} | {ON}", "b": f"{ABC} | {halt(100)}", "c": f"{ABC} | {ON}",
        "d": f"{fault('join', 95)} | request join time=95 | {ON}",
    }, "b"),
    ("all members are halted: the first of them without a cause", BOUNDS, {
        "a": f"{ABC} | {halt(102)}", "b": f"{ABC} | {halt(100)}", "c": f"{ABC} | {halt(101)}",
    }, "b"),
    ("half of the members of one group have crashed, but not in the group's last 20 ns: the rest are the majority", BOUNDS, {
        "a": "view 1 a,b,c,d time=0 | crash time=10", "b": "view 1 a,b,c,d time=0 | crash time=20",
        "c": f"view 1 a,b,c,d time=0 | view 2 c,d,e time=40 | {halt(100)}",
        "d": f"view 1 a,b,c,d time=0 | view 2 c,d,e time=40 | {ON}", "e": f"view 2 c,d,e time=40 | {ON}",
    }, "c"),
    ("a founder, and a member crashes soon after", BOUNDS, {
        "a": "view 1 a,b,c time=90 | crash time=95", "b": f"request form a,b,c time=70 | view 1 a,b,c time=90 | {halt(100)}",
        "c": f"view 1 a,b,c time=90 | {ON}",
    }, "b"),
    ("a joiner, and nobody has a fault", BOUNDS, {
        "a": f"view 1 a,c time=0 | view 2 a,b,c time=90 | {ON}",
        "b": f"request join time=70 | view 2 a,b,c time=90 | {halt(100)}",
        "c": f"view 1 a,c time=0 | view 2 a,b,c time=90 | {ON}",
    }, "b"),
    ("a member of a group without views", BOUNDS, {
        "a": f"join time=0 | {ON}", "b": f"join time=0 | {halt(100)}", "c": f"join time=0 | {ON}",
    }, "b"),
    ("an exception in the protocol, while the network is parted", BOUNDS, {
        "a": f"{ABC} | {fault('partition', 50, length=900)} | {ON}",
        "b": f"{ABC} | {halt(100, reason='exception', text='KeyError:3')}", "c": f"{ABC} | {ON}",
    }, "b"),
    ("an exception in the protocol at a process that is no member yet", BOUNDS, {
        "a": f"view 1 a time=0 | {ON}", "b": f"request join time=90 | {halt(100, reason='exception', text='KeyError:3')}",
    }, "b"),
]  # fmt: skip

GOOD: list[tuple[str, dict[str, Any], dict[str, str]]] = [
    ("the process itself was paused", PAUSES, {
        "a": f"{ABC} | {ON}", "b": f"{ABC} | {fault('pause', 50, length=31)} | {halt(100)}", "c": f"{ABC} | {ON}",
    }),
    ("the process itself has a timing fault", BOUNDS, {
        "a": f"{ABC} | {ON}", "b": f"{ABC} | {fault('timing', 95, timing='true')} | {halt(100)}", "c": f"{ABC} | {ON}",
    }),
    ("its application did not read, as its host says", BOUNDS, {
        "a": f"{ABC} | {ON}", "b": f"{ABC} | {halt(100, unread=True)}", "c": f"{ABC} | {ON}",
    }),
    ("the network was parted, even if the protocol tolerates that", {**BOUNDS, "despite": ["partition"]}, {
        "a": f"{ABC} | {fault('partition', 50, length=31)} | {ON}", "b": f"{ABC} | {halt(100)}", "c": f"{ABC} | {ON}",
    }),
    ("another member is paused, which the protocol does not tolerate", BOUNDS, {
        "a": f"{ABC} | {fault('pause', 85, length=5)} | {ON}", "b": f"{ABC} | {halt(100)}", "c": f"{ABC} | {ON}",
    }),
    ("it dropped a packet more often than the protocol repairs it", REPAIRS, {
        "a": f"{ABC} | {ON}", "b": f"{ABC} | {dropped(95, 2)} | {halt(100)}", "c": f"{ABC} | {ON}",
    }),
    ("it dropped packets of which it is not known what they carry", REPAIRS, {
        "a": f"{ABC} | {ON}", "b": f"{ABC} | {fault('omit', 95, count=1)} | {halt(100)}", "c": f"{ABC} | {ON}",
    }),
    ("packets are lost at a higher rate than the protocol tolerates", SOME_LOSS, {
        "a": f"{ABC} | {fault('loss', 1, rate=0.31, background='true')} | {ON}",
        "b": f"{ABC} | {halt(100)}", "c": f"{ABC} | {ON}",
    }),
    ("a crash in the middle of a broadcast, where the protocol tolerates no loss", BOUNDS, {
        "a": f"{ABC} | {fault('crash', 95, mid_broadcast='true')} | crash time=95",
        "b": f"{ABC} | {halt(100)}", "c": f"{ABC} | {ON}",
    }),
    ("the process that acts for it is paused, which the protocol tolerates", {**PAUSES, "acting": {"b": "a"}}, {
        "a": f"{ABC} | {fault('pause', 90, length=50)} | {ON}", "b": f"{ABC} | {halt(100)}", "c": f"{ABC} | {ON}",
    }),
    ("the process that acts for it crashes", {**BOUNDS, "acting": {"b": "a"}}, {
        "a": f"{ABC} | crash time=95", "b": f"{ABC} | {halt(100)}", "c": f"{ABC} | {ON}",
    }),
    ("a joiner, and a member crashes that may have let it in", BOUNDS, {
        "a": "view 1 a,c,d time=0 | view 2 a,b,c,d time=90 | crash time=95",
        "b": f"request join time=70 | view 2 a,b,c,d time=90 | {halt(100)}",
        "c": f"view 1 a,c,d time=0 | view 2 a,b,c,d time=90 | {ON}", "d": f"view 1 a,c,d time=0 | view 2 a,b,c,d time=90 | {ON}",
    }),
    ("a memory module fails", BOUNDS, {
        "a": f"{ABC} | {fault('module', 95)} | {ON}", "b": f"{ABC} | {halt(100)}", "c": f"{ABC} | {ON}",
    }),
    ("two of three crash", BOUNDS, {
        "a": f"{ABC} | crash time=95", "b": f"{ABC} | {halt(100)}", "c": f"{ABC} | crash time=90",
    }),
    ("one of three crashes, another is paused, which the protocol tolerates", PAUSES, {
        "a": f"{ABC} | crash time=95", "b": f"{ABC} | {halt(100)}", "c": f"{ABC} | {fault('pause', 90, length=50)} | {ON}",
    }),
    ("half of the members of one of two groups crash", BOUNDS, {
        "a": f"{ABC} | {ON}", "b": f"{ABC} | view 1 b,d group=h time=0 | {halt(100)}", "c": f"{ABC} | {ON}",
        "d": "view 1 b,d group=h time=0 | crash time=95",
    }),
    ("half of the members leave", BOUNDS, {
        "a": "view 1 a,b time=0 | leave time=95", "b": f"view 1 a,b time=0 | view 2 b time=96 | {halt(100)}",
    }),
    ("the history of another member is cut, and it counts as crashed", BOUNDS, {
        "a": "view 1 a,b time=0 | null time=95", "b": f"view 1 a,b time=0 | {halt(100)}",
    }),
    ("half of the members of a group without views crash", BOUNDS, {
        "a": "join time=0 | crash time=95", "b": f"join time=0 | {halt(100)}",
    }),
]  # fmt: skip

NOTHING: list[tuple[str, dict[str, Any], dict[str, str]]] = [
    ("no time is stated", {}, {"a": f"{ABC} | {halt(100)}", "b": f"{ABC} | {ON}"}),
    ("a process is killed", BOUNDS, {
        "a": f"{ABC} | {ON}", "b": f'{ABC} | crash time=100 detail={{"by":"fault"}}', "c": f"{ABC} | {ON}",
    }),
    ("a process that was let into no group", {"bounds": {"progress": 10}}, {
        "a": f"{ABC} | {ON}", "d": f"request join time=0 | {halt(100)}",
    }),
    ("a process that has left its group", {"bounds": {"progress": 10}}, {
        "a": f"view 1 a,b time=0 | leave time=90 | {halt(100)}", "b": f"view 1 a,b time=0 | {ON}",
    }),
    ("a process whose clock was set, and there is no other", BOUNDS, {
        "a": f"{ABC} | {ON}", "b": f"{ABC} | {fault('step', 5)} | {halt(100)}", "c": f"{ABC} | {ON}",
    }),
]  # fmt: skip


@pytest.mark.parametrize(("options", "histories", "culprit"), [pytest.param(o, h, c, id=i) for i, o, h, c in BAD])
def test_a_halt_without_a_cause_is_flagged(options: dict[str, Any], histories: dict[str, str], culprit: str) -> None:
    violation = assert_flagged(histories, "progress", culprit, **options)
    assert "halted by" in violation.sentence
    assert violation.processes == (culprit,)


@pytest.mark.parametrize(("options", "histories"), [pytest.param(o, h, id=i) for i, o, h in GOOD])
def test_a_halt_with_a_cause_passes(options: dict[str, Any], histories: dict[str, str]) -> None:
    assert_passes(histories, "progress", **options)


@pytest.mark.parametrize(("options", "histories"), [pytest.param(o, h, id=i) for i, o, h in NOTHING])
def test_some_stops_are_no_cases(options: dict[str, Any], histories: dict[str, str]) -> None:
    assert check(histories, "progress", **options).properties["progress"].verdict == "nothing to check"


@pytest.mark.parametrize(
    ("options", "histories", "is_bad"),
    [pytest.param(o, h, True, id=i) for i, o, h, _ in BAD] + [pytest.param(o, h, False, id=i) for i, o, h in GOOD],
)
def test_a_growing_trace_gives_the_same_verdict(options: dict[str, Any], histories: dict[str, str], *, is_bad: bool) -> None:
    """At the end; and what is said on the way is never withdrawn."""
    growing = Growing("r0")
    said: set[str] = set()
    for fact in sorted(facts_of(trace(histories, **options)), key=lambda fact: (fact.kind != "start", fact.time)):
        growing.feed([fact])
        growing.tick()
        said |= {finding.sentence for finding in growing.findings()}
    growing.finish()
    found = {finding.sentence for finding in growing.findings() if finding.property == "progress"}
    assert bool(found) == is_bad
    assert {sentence for sentence in said if "halted by" in sentence} <= found


def test_a_halt_is_reported_while_the_others_go_on() -> None:
    """As soon as every history is known up to it, and not before: a fault that is read late may explain it."""
    on = " | ".join(f"null time={time}" for time in (90, 101, 110))
    members = {"a": f"{ABC} | {on}", "b": f"{ABC} | {halt(100)}", "c": f"{ABC} | {on}"}
    facts = list(facts_of(trace(members, bounds=BOUNDS["bounds"])))
    growing = Growing("r0")
    growing.feed(fact for fact in facts if fact.process != "c" or fact.time <= 90)
    for _ in range(3):
        growing.tick()
    assert not growing.findings()
    growing.feed(facts)
    growing.tick()
    (finding,) = growing.findings()
    assert finding.sentence == "b is halted by its protocol (excluded), and nothing in the 20 ns before it explains that"
