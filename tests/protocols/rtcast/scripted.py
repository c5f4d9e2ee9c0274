"""Made by hand, for what a random scenario of ``sweep`` hardly ever comes to: scenarios, and courses of one member's turns."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from random import Random
from typing import Any

from plainchant.core.model import MS, SECOND, Duration, ProcessId
from plainchant.protocols.rtcast.analysis import Demand, Turn
from plainchant.protocols.rtcast.parameters import Parameters
from plainchant.scenario.model import Delay, Fault, LinkOverride, Network, Scenario, Workload

from ..mutating import Applied
from .sweep import GROUP, Outcome
from .turns import Turns

BANDWIDTH = 10_000_000


@dataclasses.dataclass(frozen=True)
class Script:
    """A scenario, and who stops in it and why; nobody else may."""

    scenario: Scenario
    stops: Mapping[ProcessId, str] = dataclasses.field(default_factory=dict)

    def violated(self, outcome: Outcome) -> list[str]:
        """The promises that are not kept, ``halted`` if others stop than those that have to, ``shut out`` if a joiner is refused,
        ``apart`` if those that are left are not together, and ``taken back`` if what was promised is not any more."""
        stopped = {row["process"]: row["detail"]["reason"] for row in outcome.rows("crash") if row["detail"].get("by") != "fault"}
        names = outcome.broken()
        if stopped != dict(self.stops):
            names.append("halted")
        if outcome.shut_out():
            names.append("shut out")
        last = {row["process"]: tuple(row["members"]) for row in outcome.rows("view")}
        if len({last.get(row["process"]) for row in outcome.rows("end")}) > 1:
            names.append("apart")
        if outcome.taken_back():
            names.append("taken back")
        return names


def _time(milliseconds: float) -> Duration:
    return Duration(round(milliseconds * MS))


def _crash(process: ProcessId, at: float) -> Fault:
    return Fault(kind="crash", at=_time(at), process=process)


def _omit(process: ProcessId, source: ProcessId, packet: str, at: float, count: int = 1) -> Fault:
    return Fault(kind="omit", at=_time(at), process=process, source=source, packet=packet, count=count)


def _cut(source: ProcessId, target: ProcessId, at: float, length: float) -> Fault:
    return Fault(kind="cut", at=_time(at), source=source, target=target, length=_time(length))


def _slow(source: ProcessId, target: ProcessId) -> LinkOverride:
    return LinkOverride(source=source, target=target, delay=Delay("constant", _time(2)))


def _scenario(
    name: str,
    members: str,
    parameters: dict[str, Any],
    faults: tuple[Fault, ...],
    *loads: Workload,
    later: str = "",
    network: Network | None = None,
    duration: float = 300,
    seed: int = 0,
) -> Scenario:
    names = tuple(members)
    return Scenario(
        protocol="rtcast",
        name=name,
        seed=seed,
        duration=_time(duration),
        drain=Duration(10 * SECOND),
        members=names,
        later=tuple(later),
        groups={GROUP: names},
        parameters={"idle_hold": _time(2), "gather": _time(120), **parameters},
        fault=faults,
        workload=loads or (Workload(rate=50.0),),
        network=network or Network(delay=Delay("constant", _time(1))),
    )


def _long_hold(*loads: Workload, duration: float, gather: float = 120) -> Scenario:
    """q joins, and keeps the token for up to 60 ms; the others, for 4."""
    return _scenario(
        "long-hold",
        "abc",
        {
            "retransmissions": 0,
            "crashes": 0,
            "heartbeats": 1,
            "hold": _time(60),
            "holds": dict.fromkeys("abc", _time(4)),
            "gather": _time(gather),
        },
        (Fault(kind="join", at=_time(60), process="q"),),
        *loads,
        Workload(senders=("q",), rate=800.0, size=1300),
        later="q",
        network=SHARED,
        duration=duration,
        seed=KNOCKS_EARLY,
    )


SHARED = Network(delay=Delay("constant", _time(1)), bandwidth=BANDWIDTH, shared=True)
KNOCKS_EARLY = 2
"""A seed with which q, whose T is long, does not wait for long before it knocks."""
REACHES_D = 3
"""The seed with which the half of c's last broadcast goes to d."""
REACHES_A = 1
"""The same, to a, where c dies as the second."""
_ELIMINATOR_DIES = (_crash("b", 100), Fault(kind="crash", process="c", at=_time(117.5), mid_broadcast=True))

NEAR = Network(delay=Delay("constant", _time(1.9)), bandwidth=BANDWIDTH, shared=True, wire=True)
"""One medium of 10 Mbit/s on which packets have their real size and take nearly d_max."""


def _sixteen(
    name: str, *faults: Fault, r: int = 1, later: tuple[ProcessId, ...] = (), network: Network = NEAR, size: int = 16
) -> Scenario:
    """Sixteen members on one medium."""
    members = tuple(f"p{number}" for number in range(size))
    return Scenario(
        protocol="rtcast",
        name=name,
        duration=_time(1500),
        drain=Duration(10 * SECOND),
        members=members,
        later=later,
        groups={GROUP: members},
        parameters={"retransmissions": r, "header": 64 + network.header},
        fault=faults,
        workload=(Workload(rate=5.0, size=20),),
        network=network,
    )


CROWDED = dataclasses.replace(NEAR, header=64, delay=Delay("uniform", _time(0.2), _time(1.9)))


def _forty(name: str, *, r: int, network: Network = CROWDED) -> Scenario:
    """Forty processes join a ring of four at one instant. Some of their knocks come before the packets of each turn."""
    later = tuple(f"q{number:02}" for number in range(40))
    return dataclasses.replace(
        _sixteen(
            name,
            *(Fault(kind="join", at=_time(602.430558), process=process) for process in later),
            later=later,
            network=network,
            size=4,
        ),
        seed=7,
        parameters={
            "retransmissions": r,
            "header": 128,
            "heartbeats": 1,
            "hold": _time(4),
            "gather": _time(1000),
            "admission": False,
        },
        duration=_time(700),
        workload=(Workload(rate=3.0, size=20),),
    )


def _stalls(seed: int) -> Scenario:
    """The machine of all four members stands still again and again for longer than d_max, with parameters as live."""
    random, at, faults = Random(f"stalls {seed}"), 1000.0, []
    for _ in range(6):
        length = random.uniform(130, 400)
        faults += [
            Fault(
                kind="pause", at=_time(at + random.uniform(0, 3)), process=process, length=_time(length + random.uniform(0, 20))
            )
            for process in "abcd"
        ]
        at += length + random.uniform(20, 400)
    live = {"timing": "soft", "delay_max": _time(100), "slack": _time(25), "hold": _time(20), "idle_hold": _time(4)}
    return _scenario(
        "stalls",
        "abcd",
        {**live, "bandwidth": 3 * BANDWIDTH, "gather": _time(3000)},
        tuple(faults),
        Workload(rate=50.0, size=64),
        duration=5000,
        seed=seed,
        network=Network(delay=Delay("uniform", _time(0.2), _time(2))),
    )


_SEVENTEENTH = Fault(kind="join", at=_time(1050), process="q")


def _deaf(process: ProcessId, at: float, length: float) -> Fault:
    return Fault(kind="cut", at=_time(at), target=process, length=_time(length))


SCENARIOS: Mapping[str, Script] = {
    # One of sixteen dies: its successor asks, fifteen answer, and their answers are on the medium that the token needs.
    "one of sixteen dies, r = 0": Script(_sixteen("sixteen-0", _crash("p5", 1050), r=0)),
    "one of sixteen dies, r = 1": Script(_sixteen("sixteen-1", _crash("p5", 1050))),
    "one of sixteen dies, large headers": Script(
        _sixteen("sixteen-headers", _crash("p5", 1050), network=dataclasses.replace(NEAR, header=64))
    ),
    # The question goes out six times, as heartbeats do. If each copy were answered six times, the elimination would be late.
    "one of sixteen dies, six heartbeats": Script(
        dataclasses.replace(
            _sixteen("sixteen-six", _crash("p5", 1050), network=dataclasses.replace(NEAR, header=64)),
            parameters={"header": 128, "heartbeats": 6, "hold": _time(9)},
        )
    ),
    # The token comes with the first of eight heartbeats. The other seven are on the medium still, before this turn's packets.
    "one of sixteen dies, eight heartbeats": Script(
        dataclasses.replace(
            _sixteen(
                "sixteen-eight",
                _crash("p3", 1032),
                network=dataclasses.replace(NEAR, header=64, delay=Delay("uniform", _time(0.1), _time(1.9))),
            ),
            parameters={"retransmissions": 0, "header": 128, "heartbeats": 8, "hold": _time(9)},
            workload=(Workload(rate=20.0, size=20),),
        )
    ),
    # A whole answer names all members: twenty-nine of them would take the medium for longer than the time to ask.
    "one of thirty dies": Script(
        dataclasses.replace(
            _sixteen("thirty-dies", _crash("p5", 1050), r=0, size=30), parameters={"retransmissions": 0, "hold": _time(6)}
        )
    ),
    "a seventeenth joins": Script(_sixteen("seventeen", _SEVENTEENTH, later=("q",))),
    "a seventeenth joins, large headers": Script(
        _sixteen("seventeen-headers", _SEVENTEENTH, later=("q",), network=dataclasses.replace(NEAR, header=64))
    ),
    # Their knocks took the medium when members' turns began: one member did not hear itself, another had an omission.
    "forty join at one instant, r = 0": Script(_forty("forty-0", r=0)),
    "forty join at one instant, r = 1": Script(_forty("forty-1", r=1)),
    "forty join at one instant, switched": Script(
        _forty("forty-switched", r=0, network=dataclasses.replace(CROWDED, shared=False))
    ),
    # What was under way when it stood still was thrown away as too old, r times in a row: well members had an omission.
    "the machine stands still": Script(_stalls(4)),
    # It asks again and again while the ring turns, and fifteen could answer.
    "one of sixteen is deaf": Script(
        _sixteen("deaf-of-sixteen", _deaf("p5", 1032, 400), network=dataclasses.replace(NEAR, header=64)), {"p5": "deaf"}
    ),
    # Each packet takes 64 bytes more on the wire: thirty rings of one that speak all the time would fill the medium.
    "thirty find each other": Script(_sixteen("thirty-find", network=dataclasses.replace(NEAR, header=64), size=30)),
    # p2 wakes up with a token from before its elimination, when it is the turn of another member on the same medium.
    "one of three wakes up": Script(
        dataclasses.replace(
            _sixteen("wakes-up", Fault(kind="pause", at=_time(1063), process="p2", length=_time(209)), size=3),
            parameters={"clocks": "none", "heartbeats": 1},
            workload=(Workload(rate=40.0, size=1300),),
        ),
        {"p2": "eliminated"},
    ),
    # p2 hears nothing for so long that it is eliminated, and of that it hears nothing either; then it asks, while the ring turns.
    "one of sixteen is deaf for a while": Script(
        dataclasses.replace(
            _sixteen("deaf-for-a-while", _deaf("p2", 1032, 100)),
            parameters={"clocks": "none", "hold": _time(7), "heartbeats": 1},
            workload=(Workload(rate=10.0, size=1300),),
        ),
        {"p2": "eliminated"},
    ),
    # They ask a for places in one slot, again and again. While one waited to ask again, it formed a group of its own.
    "those who form the group collide": Script(
        _scenario(
            "collide",
            "abcdef",
            {"retransmissions": 0, "heartbeats": 1, "admission": False, "clocks": "none", "collisions": True, "backoff": 8},
            tuple(Fault(kind="join", at=_time(at), process=process) for process, at in (("y", 64), ("z", 62))),
            later="yz",
            duration=900,
            seed=12,
        ),
    ),
    # dan has left, P is kept, and gus asks for more of it than there is: the others' promises do not allow a larger P.
    "a joiner is offered less": Script(
        _scenario(
            "offered",
            "abcd",
            {"retransmissions": 0, "hold": _time(12), "holds": dict.fromkeys("abcd", _time(4)), "reclaim_after": _time(10_000)},
            (Fault(kind="leave", at=_time(400), process="d"), Fault(kind="join", at=_time(700), process="q")),
            Workload(senders=("a", "b"), rate=8.0, size=64, deadline=_time(100)),
            later="q",
            duration=2500,
        ),
    ),
    # h hears nothing of d's heartbeats for some rotations, and everybody else does; then f and g die, and h times out.
    "Fig. 5": Script(
        _scenario(
            "figure-5",
            "abcdefgh",
            {"heartbeats": 1, "crashes": 2},
            (_omit("h", "d", "Beat", 80, 6), _crash("f", 110), _crash("g", 110)),
            duration=140,
        )
    ),
    # b hears itself and nobody else, and everybody hears b.
    "the deaf": Script(
        _scenario("deaf", "abcd", {}, tuple(_cut(other, "b", 120, 200) for other in "acd")),
        {"b": "deaf"},
    ),
    # Two of five are cut off: one finds out and stops, and then the other hears nobody.
    "two parts": Script(
        _scenario(
            "parts",
            "abcde",
            {"partitions": "majority"},
            (Fault(kind="partition", at=_time(120), parts=(("a", "b"), ("c", "d", "e")), length=_time(180)),),
        ),
        {"a": "minority", "b": "deaf"},
    ),
    # With r = 0, c dies in the middle of a packet that only d has heard, whose turn it is next: one has to stop, and it is d.
    "half said, r = 0": Script(
        _scenario(
            "half-said",
            "abcd",
            {"retransmissions": 0},
            (Fault(kind="crash", at=_time(150), process="c", mid_broadcast=True),),
            duration=180,
            seed=REACHES_D,
        ),
        {"d": "omission"},
    ),
    # b dies right after its turn, and nobody has heard its heartbeat; d has the first two of its three packets.
    "d misses the end of b's last turn": Script(
        _scenario(
            "unfinished",
            "abcd",
            {"retransmissions": 0, "heartbeats": 1, "hold": _time(8)},
            (_omit("d", "b", "Data", 122.5), *(_omit(process, "b", "Beat", 120) for process in "acd"), _crash("b", 124)),
            Workload(senders=("b",), rate=60.0, burst=3, size=1300, count=9, start=_time(60)),
            Workload(senders=("a", "d"), rate=20.0),
            network=SHARED,
            duration=220,
        ),
        {"d": "omission"},
    ),
    # b dies; c, which finds out, dies in the middle of saying so, and only a has heard it.
    "the eliminator dies, r = 0": Script(
        _scenario("eliminator-0", "abcd", {"retransmissions": 0}, _ELIMINATOR_DIES, duration=200, seed=REACHES_A),
        {"a": "omission"},
    ),
    "the eliminator dies, r = 1": Script(
        _scenario("eliminator-1", "abcd", {"retransmissions": 1}, _ELIMINATOR_DIES, duration=200, seed=REACHES_A),
    ),
    # q keeps the token longer than the others: what was promised with the old P cannot be kept when it is in.
    "a joiner with a long T": Script(
        _long_hold(
            *(
                Workload(senders=("a",), rate=0.9, size=12_000 + number, deadline=_time(1000), start=_time(20))
                for number in range(9)
            ),
            duration=1100,
        )
    ),
    # q is in already when a asks for more than it can have with the new P.
    "streams after a vote": Script(
        _long_hold(
            *(
                Workload(senders=("a",), rate=1.6, size=3000 + number, deadline=_time(600), start=_time(300))
                for number in range(18)
            ),
            duration=1500,
        )
    ),
    # a and d are far from each other, and the token comes to d quicker than what a says to it.
    "a request is slower than the token": Script(
        _scenario(
            "slow-request",
            "abcd",
            {"idle_hold": _time(0.4)},
            (_omit("a", "d", "Data", 80),),
            duration=110,
            network=Network(delay=Delay("constant", _time(0.1)), link=(_slow("a", "d"), _slow("d", "a"))),
        )
    ),
    # a has a message under way at any moment: q gets in because those that come during the vote are planned with the new P.
    "messages without a pause": Script(
        _long_hold(
            *(Workload(senders=("a",), rate=3.99, size=1000, deadline=_time(250), start=_time(start)) for start in (20, 140)),
            duration=750,
            gather=60,
        )
    ),
}


def worst_turns(applied: Applied) -> list[str]:
    """One member promises streams until it refuses one; then every turn comes as late as it may, and has everything in it that
    the ring may have to send. Whether each message is sent within the n P that its deadline has (Lemma 2)."""
    parameters = Parameters(retransmissions=1, heartbeats=1)
    rotation, packet = 40 * MS, 700
    honest = Turn(parameters, "p1", rotation, packet)
    with applied():
        turn = Turn(parameters, "p1", rotation, packet)
        demands: list[Demand] = []
        used = turn.reserved
        for number in range(100):
            deadline = turn.delay + (1 + number % 2) * rotation
            demand = Demand(f"s{number}", deadline, deadline, 40)
            verdict = turn.judge(demand, used)
            if not verdict.is_admitted:
                break
            used = verdict.load
            demands.append(demand)
    turns = Turns(honest, demands, max_packet=packet, phases=[0] * len(demands))
    late = [
        sent
        for sent in turns.run(60, gap=rotation)
        if sent.is_last and sent.end - sent.arrived > honest.visits(sent.demand.deadline) * rotation
    ]
    return ["deadline"] if late else []


COURSES: Mapping[str, Callable[[Applied], list[str]]] = {"turns at their worst": worst_turns}
