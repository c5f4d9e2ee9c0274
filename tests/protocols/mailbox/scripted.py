"""Scenarios made for one rule each, which need a course of events that no seed is likely to find.

Times are those of ``PLAIN`` in ``plainchant_papers.mailbox.scripted``, in µs: a message of 5010 is decided from 5110 on; in
copy 1 receivers join in at 5110, vote at 5124 and settle at 5138, in copy 2 at 5148, 5162 and 5176. It expires at 5252.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from plainchant.core.model import SECOND, Duration
from plainchant.scenario.model import Clock, Fault, Memory, Scenario, Workload
from plainchant.sim.scripted import Script
from plainchant_papers.mailbox.scripted import fault, message, parameters, us


@dataclasses.dataclass(frozen=True)
class Scripted:
    """A scenario, and how long its operations take."""

    scenario: Scenario
    script: Script


def _scripted(
    members: str,
    script: Script,
    *,
    messages: Mapping[str, float],
    clocks: Mapping[str, int] | None = None,
    faults: Sequence[Fault] = (),
    later: tuple[str, ...] = (),
    drain: float = 1,
    duration: int = 12_000,
    rate: float = 0,
    **given: Any,
) -> Scripted:
    """``messages``: when each sends one; with ``rate`` these go on sending from then on."""
    names = tuple(members.split())
    workload = [message(sender, at) for sender, at in messages.items()]
    if rate:
        workload = [Workload(senders=(sender,), start=us(at), rate=rate, size=20) for sender, at in messages.items()]
    return Scripted(
        Scenario(
            protocol="mailbox",
            members=names,
            later=later,
            groups={"g": names},
            duration=us(duration),
            drain=Duration(int(drain * SECOND)),
            memory=Memory(detection=us(2_000)),
            parameters=parameters(**{"rejected": "again", "senders": (), **given}),
            fault=tuple(faults),
            workload=tuple(workload),
            clock=tuple(Clock(process=name, offset=us(ahead)) for name, ahead in (clocks or {}).items()),
        ),
        script,
    )


SCENARIOS: dict[str, Scripted] = {
    # s pauses before it sets its flags and goes on when copy 1 is decided; copy 2 dies when a has settled there, and b has not.
    "a pause between the copies' decisions": _scripted(
        "s a b",
        Script({"s flag 1": 130 / 20, "b decide 2": [0, 0, 1]}, {"a decide 2 #3": "module 2"}),
        messages={"s": 5010},
        senders=("s",),
        rejected="halt",
    ),
    # a is early and votes without having seen the message in time. Copy 1 dies when c has joined in; b finds that out at once, c
    # when it votes.
    "one finds a copy dead early, one late": _scripted(
        "s a b c",
        Script({"b decide 1": 0.5, "c decide 1": [0, 1], "c decide 2": [1, 0]}, {"c decide 1": "module 1"}),
        messages={"s": 5010},
        senders=("s",),
        rejected="halt",
        clocks={"a": 1_000},
    ),
    # s dies when its flag is set in copy 1. a settles there and copy 1 dies; b and c reject the message in copy 2; a comes late.
    "one comes late with another decision": _scripted(
        "s a b c",
        Script(
            {"b decide 1": [0, 0, 0.5], "c decide 1": [0, 0, 0.5], "a decide 2": 10},
            {"s flag 1": "s", "a decide 1 #3": "module 1"},
        ),
        messages={"s": 5010},
        senders=("s",),
    ),
    # t writes its message late, but in time. c's clock is ahead: it has delivered the message of s by then.
    "a late sender and a fast receiver": _scripted(
        "s t a b c",
        Script({"t write 1": 155 / 20}),
        messages={"s": 5010, "t": 5005},
        senders=("s", "t"),
        clocks={"c": 300},
    ),
    # t writes its message when the message of s, which has a later timestamp, is delivered.
    "a sender that is too late": _scripted(
        "s t a b c",
        Script({"t write 1": 300 / 20}),
        messages={"s": 5010, "t": 5005},
        senders=("s", "t"),
    ),
    # s's clock is ahead: its message has a timestamp after d's entry, and is written before d is in the list.
    "a fast sender and a joiner": _scripted(
        "s a b",
        Script({"d read": 1}),
        messages={"s": 6_990},
        senders=("s",),
        clocks={"s": 100},
        later=("d",),
        faults=(fault("join", 7_000, process="d", group="g"),),
    ),
    # c is stopped when its flag is set in copy 1, and not in copy 2. With one slot s sends nothing more until c is excluded.
    "stopped between two copies": _scripted(
        "s a b c",
        Script({"c finish 2": 40_000}),
        messages={"s": 5010},
        faults=(fault("pause", 7_000, process="c", length=300_000),),
        rate=200,
        duration=400_000,
        slots=1,
        senders=("s",),
        patience=us(20_000),
    ),
    # d and e are stopped at once: a minority of five.
    "two of five are stopped": _scripted(
        "a b c d e",
        Script(),
        messages={"a": 5010, "b": 5020},
        faults=tuple(fault("pause", 10_000, process=name, length=300_000) for name in "de"),
        rate=200,
        duration=400_000,
        patience=us(20_000),
    ),
    # c is stopped while it writes into copy 2, and excluded; q joins and sends. Then c's write comes.
    "a write of an excluded process": _scripted(
        "a b c",
        Script({"c write 2": [1, 1, 4_000]}),
        messages={"a": 5000, "b": 5020, "c": 5040},
        later=("q",),
        faults=(
            fault("pause", 15_060, process="c", length=200_000),
            fault("join", 60_000, process="q", group="g"),
        ),
        rate=200,
        duration=400_000,
        slots=1,
        patience=us(20_000),
    ),
    # s's clock is behind for ever.
    "a clock that is behind": _scripted(
        "s a b",
        Script(),
        messages={"s": 5010},
        senders=("s",),
        clocks={"s": -1_000},
        drain=0.2,
    ),
}
