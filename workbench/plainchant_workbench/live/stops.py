"""A member is stopped for a while and goes on: how long the others stood still, and what the stopped one was told.

Theory of operation
-------------------
Each case is a scenario with real processes (``lab.live``): members send at a steady rate, one of them gets ``SIGSTOP`` and later
``SIGCONT``. A process that its protocol halts is started again a moment later and joins as a new incarnation, as a program would
do it. Everything is read from the trace, which is also verified:

- *standstill*: at each of the others, the longest time between two deliveries of messages of processes that were not stopped,
  from the stop until senders end;
- *bound*: what the protocol states for the parameters of this run (``Description.progress``);
- *told*: what the stopped process recorded when it went on: the reason for which it halted, or the view that it installed;
- *back*: the time from ``SIGCONT`` until the place is in a view together with all others and delivers what they send.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

from plainchant.cli.live import LiveResult, execute
from plainchant.core.model import MS, SECOND, Duration
from plainchant.core.names import place_of
from plainchant.protocols.registry import describe
from plainchant.scenario.model import Fault, RandomFaults, Scenario, Workload
from plainchant.trace import read

GROUP: Final = "g"
BEGIN: Final = 3 * SECOND
"""When the member is stopped."""
AFTER: Final = 8 * SECOND
"""How long senders go on after the member has been continued."""
DRAIN: Final = 60 * SECOND
FLAT: Final = ("p1", "p2", "p3", "p4")
NODES: Final = ("n1.a", "n1.b", "n2.a", "n2.b", "n2.c")


@dataclass(frozen=True, slots=True)
class Case:
    """Which member is stopped, of which group."""

    protocol: str
    role: str
    """What the stopped member is, in words."""
    members: tuple[str, ...]
    stopped: str
    parameters: Mapping[str, Any]


CASES: Final = (
    Case("sequencer", "the sequencer", FLAT, "p1", {}),
    Case("sequencer", "a member", FLAT, "p3", {}),
    Case("newtop", "a member", FLAT, "p3", {}),
    Case("rtcast", "a member", FLAT, "p3", {}),
    Case("mailbox", "a member, first protocol", FLAT, "p3", {"tolerate": "crash"}),
    Case("mailbox", "a member, second protocol", FLAT, "p3", {"tolerate": "timing"}),
    Case("dedos", "a relay", NODES, "n2.a", {}),
    Case("dedos", "a member", NODES, "n2.b", {}),
)


@dataclass(frozen=True, slots=True)
class Stop:
    """What was measured. Times are in seconds; None: it did not happen, or is not stated."""

    protocol: str
    role: str
    standstill: float
    bound: float | None
    told: str
    back: float | None
    verdict: str
    error: str | None = None


def scenario_of(case: Case, *, seconds: float, rate: float) -> Scenario:
    """A group in which a member is stopped for these seconds while all send at this rate."""
    length = round(seconds * SECOND)
    return Scenario(
        protocol=case.protocol,
        name=f"{case.protocol}-stop",
        members=case.members,
        groups={GROUP: case.members},
        parameters=dict(case.parameters),
        duration=Duration(BEGIN + length + AFTER),
        drain=Duration(DRAIN),
        workload=(Workload(rate=rate, size=64),),
        fault=(Fault(kind="pause", at=Duration(BEGIN), process=case.stopped, length=Duration(length)),),
        random=RandomFaults(restart_halted=1.0, restart_after=Duration(100 * MS)),
    )


def run(
    cases: Sequence[Case] = CASES,
    *,
    seconds: float = 10.0,
    rate: float = 50.0,
    progress: Callable[[str], None] = lambda text: None,
) -> list[dict[str, Any]]:
    """Measures every case, one after the other; what ``plainchant bench stops --json`` prints."""
    rows = []
    for case in cases:
        progress(f"{case.protocol}, {case.role} stopped for {seconds:g} s")
        scenario = scenario_of(case, seconds=seconds, rate=rate)
        with tempfile.TemporaryDirectory(prefix="plainchant-stops-") as directory:
            result = execute(scenario, Path(directory), verify_it=True, options={"given": frozenset(case.parameters)})
            events = read(Path(directory) / "trace").table.to_pylist()
        rows.append(asdict(measured(case, result, events)))
    return rows


def measured(case: Case, result: LiveResult, events: Sequence[Mapping[str, Any]]) -> Stop:
    """What the trace of a run tells."""
    description = describe(case.protocol)
    parameters = description.parameters(**result.summary.parameters)
    bound = description.progress(parameters, {GROUP: case.members}).within
    stop, length = _stop(case, events)
    others = [member for member in case.members if member != case.stopped]
    verdict = result.verification.verdict if result.verification is not None else "not verified"
    problems = [f"{name} {text}" for name, text in result.summary.unexpected.items()]
    halted = [end.reason for name, end in result.summary.processes.items() if name in others and end.state == "halted"]
    problems += [f"another member halted: {reason}" for reason in halted]
    return Stop(
        case.protocol,
        case.role,
        max(_standstill(events, other, others, stop) for other in others) / SECOND,
        None if bound is None else bound / SECOND,
        _told(events, case.stopped, stop),
        _back(events, case, stop + length),
        verdict,
        "; ".join(problems) or None,
    )


def _stop(case: Case, events: Sequence[Mapping[str, Any]]) -> tuple[int, int]:
    """When the member was stopped, and for how long."""
    for event in events:
        if event["kind"] == "fault" and event["process"] == case.stopped:
            detail = json.loads(event["detail"])
            if detail["fault"] == "pause":
                return event["time"], detail["length"]
    raise ValueError(f"the trace does not show that {case.stopped} was stopped")


def _standstill(events: Sequence[Mapping[str, Any]], process: str, senders: Sequence[str], since: int) -> int:
    """The longest time between two deliveries of these senders' messages at a process."""
    times: list[int] = [
        event["time"]
        for event in events
        if event["kind"] == "deliver" and event["process"] == process and place_of(event["sender"]) in senders
    ]
    last_send: int = max(event["time"] for event in events if event["kind"] == "accept" and event["process"] in senders)
    moments = [since, *(time for time in sorted(times) if since < time < last_send), last_send]
    return max(later - earlier for earlier, later in pairwise(moments))


def _told(events: Sequence[Mapping[str, Any]], stopped: str, since: int) -> str:
    """What the stopped process recorded afterwards."""
    for event in events:
        if event["process"] != stopped or event["time"] <= since:
            continue
        if event["kind"] == "crash":
            detail = json.loads(event["detail"] or "{}")
            return f"halted: {detail.get('text', detail)}"
        if event["kind"] == "view":
            return f"view {event['view']} of {len(event['members'])}"
    return "nothing: it stayed a member"


def _back(events: Sequence[Mapping[str, Any]], case: Case, since: int) -> float | None:
    """Seconds until the place delivered messages of all the others again."""
    missing = {member for member in case.members if member != case.stopped}
    for event in sorted(events, key=lambda event: event["time"]):
        if event["kind"] == "deliver" and event["time"] > since and place_of(event["process"]) == case.stopped:
            sender = place_of(event["sender"])
            if event["sent"] is None or event["sent"] > since:
                missing.discard(sender)
        if not missing:
            return float(event["time"] - since) / SECOND
    return None
