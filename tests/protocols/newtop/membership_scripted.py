"""Made by hand, for what a random scenario of ``membership_sweep`` hardly ever comes to."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from plainchant.core.model import MS, SECOND, Duration, ProcessId
from plainchant.scenario.model import Delay, Fault, LinkOverride, Network, Scenario, Workload

from .membership_sweep import TIMES


def _time(milliseconds: float) -> Duration:
    return Duration(round(milliseconds * MS))


def _sends(sender: ProcessId, start: float, count: int = 1) -> Workload:
    """So many messages, one a millisecond."""
    return Workload(senders=(sender,), count=count, rate=1000.0, start=_time(start))


def _crash(process: ProcessId, at: float) -> Fault:
    return Fault(kind="crash", at=_time(at), process=process)


def _cut(source: ProcessId, target: ProcessId, at: float, length: float) -> Fault:
    return Fault(kind="cut", at=_time(at), source=source, target=target, length=_time(length))


def _slow(source: ProcessId, target: ProcessId, milliseconds: float) -> LinkOverride:
    return LinkOverride(source=source, target=target, delay=Delay("constant", _time(milliseconds)))


def _scenario(
    name: str,
    members: str,
    parameters: dict[str, Any],
    faults: tuple[Fault, ...],
    *loads: Workload,
    links: tuple[LinkOverride, ...] = (),
    seed: int = 0,
) -> Scenario:
    return Scenario(
        protocol="newtop",
        name=name,
        seed=seed,
        duration=_time(120),
        drain=Duration(3 * SECOND),
        members=tuple(members),
        groups={"g": tuple(members)},
        parameters={**TIMES, **parameters},
        workload=loads,
        fault=faults,
        network=Network(delay=Delay("constant", Duration(300_000)), link=links),
    )


def _whisper(name: str, **parameters: Any) -> Scenario:
    """s is heard by r alone, who delivers it and sends something more; then both crash: what r sent after it cannot count."""
    return _scenario(
        name,
        "abrs",
        parameters,
        (_cut("s", "a", 49.5, 60), _cut("s", "b", 49.5, 60), _crash("s", 50.2), _crash("r", 53.2)),
        _sends("a", 45, 20),
        _sends("b", 45.5, 20),
        _sends("s", 50),
        _sends("r", 53),
    )


def _circle(name: str, length: float, **parameters: Any) -> Scenario:
    """No member hears the one before it in a circle: each suspects another, and the only one that could refute suspects it."""
    faults = (_cut("a", "b", 30, length), _cut("b", "c", 30, length), _cut("c", "a", 30, length))
    return _scenario(name, "abc", parameters, faults, _sends("a", 10, 100), _sends("b", 10, 100))


def _far(name: str, one_way: float) -> Scenario:
    """Round trips of several omegas: parts meet when the network heals, and stay together."""
    parted = Fault(kind="partition", at=_time(0), parts=(("a",), ("b", "c")), length=_time(300))
    scenario = _scenario(name, "abc", {}, (parted,), _sends("a", 10, 2000), _sends("b", 10, 2000))
    far = Network(delay=Delay("constant", _time(one_way)))
    return dataclasses.replace(scenario, duration=_time(2400), network=far)


def _majority(
    name: str, members: str, faults: tuple[Fault, ...], rate: float, loss: float = 0.0, seed: int = 0, **parameters: Any
) -> Scenario:
    """With default times; whoever joins is in no group at first."""
    return Scenario(
        protocol="newtop",
        name=name,
        seed=seed,
        duration=_time(2500),
        drain=Duration(30 * SECOND),
        members=tuple(members),
        later=tuple(fault.process for fault in faults if fault.kind == "join"),
        groups={"g": tuple(members)},
        parameters=parameters,
        workload=(Workload(rate=rate),),
        fault=faults,
        network=Network(delay=Delay("constant", _time(5 if len(members) > 3 else 1)), loss=loss),
    )


def _leave(process: ProcessId, at: float) -> Fault:
    return Fault(kind="leave", at=_time(at), process=process)


REFUTES = 70.0
"""Just before r hears of p's suspicion, in the scenario below."""
REACHES_P = 0
"""The seed with which the half of r's last broadcast goes to p."""

SCENARIOS: Mapping[str, Scenario] = {
    "suspicions in a circle": _circle("circle", 40),
    "suspicions in a circle, majority": _circle("circle-majority", 40, partitions="majority"),
    "round trips of six omegas": _far("far", 60),
    "a circle of links that stay broken": _circle("broken-circle", 0),
    "P_r and P_s, total order": _whisper("whisper-total", order="total"),
    "P_r and P_s, fast order": _whisper("whisper-fast", order="fast"),
    "P_r and P_s, relative order": _whisper("whisper-relative", order="relative"),
    # c has left when b wakes up, and a has given b up: b still installs the view of a and b.
    "a leave while another is paused": _majority(
        "leave-in-pause",
        "abc",
        (Fault(kind="pause", at=_time(1100), process="b", length=_time(400)), _leave("c", 1137)),
        rate=5.0,
        partitions="majority",
    ),
    # b goes over to a formation with c. a does not hear b's Close, gives b up, and goes on alone, as it may: it is the first.
    "a member is lost on the way": _majority(
        "lost-on-the-way",
        "ab",
        (Fault(kind="join", at=_time(1000), process="c"), _cut("b", "a", 1003.5, 2500), _cut("c", "a", 1003.5, 2500)),
        rate=20.0,
        loss=0.2,
        seed=36,
        partitions="majority",
    ),
    # b has said three Removes before the first of the three views, because packets of d came late.
    "two leave and one crashes": _majority(
        "three-removes", "abcdef", (_leave("a", 1000), _crash("f", 1000), _leave("c", 1030)), 100.0, 0.1, 0, order="cbcast"
    ),
    # k's messages come to p later than p may wait, and to r sooner. While r's refutation is on its way to p, more of k comes to p
    # than r had when it refuted.
    "more comes before the refutation": _scenario(
        "pending",
        "kpr",
        {"transport": "fifo"},
        (),
        _sends("k", 10, 60),
        _sends("p", 5),
        links=(_slow("k", "p", 25), _slow("k", "r", 18), _slow("r", "p", 10)),
    ),
    # a and b have the view, and a sends in it, when b's Remove is still on its way to c.
    "the last Remove comes late": _scenario(
        "late-remove",
        "abck",
        {"order": "fast"},
        (_crash("k", 50),),
        _sends("a", 45, 60),
        links=(_slow("b", "c", 10),),
    ),
    # Only r has k's last message. It refutes p's suspicion, and crashes before q has heard that; then p suspects r.
    "the refuter crashes": _scenario(
        "refuter-crashes",
        "kpqr",
        {},
        (
            _cut("k", "p", 49.8, 60),
            _cut("k", "q", 49.8, 60),
            _crash("k", 50.1),
            Fault(kind="crash", at=_time(REFUTES), process="r", mid_broadcast=True),
        ),
        _sends("p", 45, 8),
        _sends("q", 45.5, 8),
        _sends("k", 50),
        links=(_slow("q", "r", 3),),
        seed=REACHES_P,
    ),
}
