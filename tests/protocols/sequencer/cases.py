"""Runs in which the group once stood still or fell apart, by name: each gives what goes wrong, which is nothing.

``test_failover`` runs them with the protocol, ``mutants`` with the variants that lack the rule which each case is for.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable
from functools import partial
from itertools import pairwise
from typing import Any, Final

from plainchant.core.model import MS, SECOND, Duration, Reason
from plainchant.protocols.sequencer.packets import Ask, Broadcast, Fetch, Held, Nack
from plainchant.protocols.sequencer.parameters import ASKS
from plainchant.scenario.model import Delay, Fault, Network, Scenario, Workload

from . import failover, regimes
from .by_hand import Letter, to
from .failover import Run, crash_of_the_sequencer, fail_over
from .packets_by_hand import Script, either, of_type, outside

TICKS: Final = 2 * 20 * MS
"""A suspicion takes ``suspect_after`` and at most two ticks more."""

Case = Callable[[], list[str]]
CASES: dict[str, Case] = {}


def case(name: str) -> Callable[[Case], Case]:
    def enter(function: Case) -> Case:
        CASES[name] = function
        return function

    return enter


def _judge(done: Run, limit: int | None, *, alive: int) -> list[str]:
    """What went wrong in a run: violations, members that are gone without a fault, a view that came late."""
    found = done.violated
    if len(done.survivors) != alive:
        ends = {name: end.reason for name, end in done.summary.processes.items() if end.state == "halted"}
        found.append(f"halted: {ends}")
    time = fail_over(done)
    if time is None or (limit is not None and time > limit):
        found.append("fail-over")
    return found


def _crashes(seeds: Iterable[int], round_trip_ms: float, *, members: int, loss: float = 0.0, jitter: float = 0.0) -> list[str]:
    """The sequencer crashes. From the crash it takes: half a round trip until its last packet has arrived, the suspicion, and
    four round trips; with loss, repetitions, for which another ``suspect_after`` is allowed for each of the four."""
    for seed in seeds:
        scenario = crash_of_the_sequencer(seed, members=members, round_trip_ms=round_trip_ms, loss=loss, jitter=jitter)
        slowest = round(round_trip_ms * MS * (1 + jitter))
        suspect_after = scenario.parameters["suspect_after"]
        limit = suspect_after + TICKS + 9 * slowest // 2 + (4 * suspect_after if loss else 0)
        if found := _judge(failover.run(scenario), limit, alive=members - 1):
            return found
    return []


for _trip in (2, 100, 200, 420, 1600):
    CASES[f"the sequencer crashes, round trip {_trip} ms"] = partial(_crashes, range(6), _trip, members=3)
    CASES[f"the sequencer of five crashes, round trip {_trip} ms"] = partial(_crashes, range(6), _trip, members=5, jitter=0.3)
for _members, _seeds in ((3, 6), (7, 4), (20, 1), (40, 1)):
    CASES[f"the sequencer of {_members} crashes, 30 % loss"] = partial(
        _crashes, range(_seeds), 20, members=_members, loss=0.3, jitter=0.3
    )


@case("a group forms, round trip above suspect_after")
def _forms() -> list[str]:
    """No process is taken for dead before its first packet can have come."""
    names = ("p1", "p2", "p3")
    scenario = Scenario(
        protocol="sequencer",
        name="forms",
        members=names,
        duration=Duration(3 * SECOND),
        network=Network(delay=Delay("constant", Duration(200 * MS))),
        workload=(Workload(rate=5.0),),
    )
    done = failover.run(scenario)
    views = [row for row in done.rows("view") if row["view"] != 1]
    return [*(["a view too many"] if views else []), *(["halted"] if len(done.survivors) != 3 else [])]


def _survivors(members: int, crashes: int, **parameters: Any) -> list[str]:
    """Of a group with ``partitions = "none"`` these crash at once; the others go on."""
    for seed in range(6):
        made = crash_of_the_sequencer(
            seed, members=members, round_trip_ms=4, crashes=crashes, loss=0.1, partitions="none", **parameters
        )
        # the last ones crash in one half of the runs, the first ones in the other
        names = made.members[-crashes:] if seed % 2 else made.members[:crashes]
        scenario = dataclasses.replace(
            made, fault=tuple(dataclasses.replace(fault, process=name) for fault, name in zip(made.fault, names, strict=True))
        )
        if found := _judge(failover.run(scenario), None, alive=members - crashes):
            return found
    return []


@case("one of two crashes, and partitions are none")
def _one_of_two() -> list[str]:
    return _survivors(2, 1)


@case("two of four crash at once, and partitions are none")
def _two_of_four() -> list[str]:
    return _survivors(4, 2) or _survivors(4, 2, resilience=2)


@case("all but one of five crash at once, and partitions are none")
def _four_of_five() -> list[str]:
    return _survivors(5, 4)


@case("twenty members at 30 % loss complete synchronisation phases")
def _twenty() -> list[str]:
    """Each of them lacks a third of the history, here and there, and has to get it before ``patience`` is over."""
    scenario = Scenario(
        protocol="sequencer",
        name="twenty",
        members=tuple(f"p{number + 1}" for number in range(20)),
        duration=Duration(5 * SECOND),
        parameters={"history": 128, "acknowledge_every": 128, **regimes.PATIENT},
        network=Network(delay=Delay("constant", Duration(50 * MS)), loss=0.3),
        workload=(Workload(senders=("p2", "p3", "p4"), rate=60.0),),
    )
    done = failover.run(scenario)
    excluded = [name for name, end in done.summary.processes.items() if end.state == "halted"]
    return [*(["excluded"] if excluded else []), *done.violated]


@case("a view is in force when all survivors hold it")
def _all_hold_it() -> list[str]:
    """p3 crashes, and p1 proposes a view without it, which p2 does not get. p1 crashes too: what it had put in force would be
    another view than the one with which p2 goes on."""
    group = Script("p1", "p2", "p3", partitions="none")
    group.broadcast("a")
    group.pass_time(100)  # all have heard of each other
    group.kill("p3")

    def lose(letter: Letter) -> bool:
        return isinstance(letter.packet, Broadcast) and letter.target == "p2"

    group.pass_time(300, lose=lose)
    if group.views("p1") != [("p1", "p2", "p3")]:
        return ["a view that p2 does not hold is in force"]
    group.kill("p1")
    group.wait_until(lambda: group.last_view("p2") == ("p2",))
    return []


@case("what a voter holds is fetched, however often it is lost")
def _fetched() -> list[str]:
    """p2 has p1's first message and p3 the second when p1 crashes. p2 wins, and the first eight answers of p3 are lost."""
    group = Script("p1", "p2", "p3")
    group.pass_time(100)
    group.broadcast("a", by="p1", lose=to("p3"))
    group.broadcast("b", by="p1", lose=either(to("p2"), of_type(Nack)))
    group.kill("p1")
    answers = [0]

    def lose(letter: Letter) -> bool:
        answers[0] += isinstance(letter.packet, Held)
        return isinstance(letter.packet, Held) and answers[0] <= 8

    group.wait_until(lambda: group.last_view("p2") == group.last_view("p3") == ("p2", "p3"), lose=lose)
    return [f"lost at {name}" for name in ("p2", "p3") if group.delivered(name) != ["a", "b"]]


@case("a view that is not in force has a voter among its members")
def _has_a_voter() -> list[str]:
    """p2 proposes {p2, p3, p4}, which p4 alone hears of; then p4, with p5 and p1, proposes {p4}, which p5 alone hears of. p1, p5
    and p2 are a majority of the view in force. But without p4 the next view would have no members."""
    group = Script("p1", "p2", "p3", "p4", "p5")
    group.pass_time(100)
    group.carry_these(group.vote("p2", "p3", "p4"), lose=lambda letter: (letter.source, letter.target) != ("p2", "p4"))
    group.carry_these(group.vote("p5", "p4", "p1"), lose=outside("p4", "p5"))
    group.expire("p4", "tick", lose=outside("p4", "p5"))
    newest = group["p5"].log.newest
    if newest is None or newest.members != ("p4",):
        return ["another story"]
    group["p1"]._elect(Reason("scripted", "the script wants an election"), binding=True)
    try:
        group.pass_time(3 * group.parameters.suspect_after // MS, lose=outside("p1", "p5", "p2"))
    except AssertionError as error:
        return [str(error)]
    return [f"{name} presides" for name in ("p1", "p5", "p2") if group[name].presides]


@case("a silent member is asked at equal intervals")
def _at_intervals() -> list[str]:
    """Losses come in bursts: one that is longer than ``ask_every`` takes one or two asks more, and not all of a tick."""
    group = Script("p1", "p2", "p3")
    group.pass_time(100)
    asked: list[int] = []

    def lose(letter: Letter) -> bool:
        asked.extend([group.time] if isinstance(letter.packet, Ask) else [])
        return letter.source == "p3"

    parameters = group.parameters
    group.pass_time((parameters.suspect_after + TICKS) // MS, lose)
    gaps = [later - earlier for earlier, later in pairwise(asked)]
    few = len(asked) < ASKS
    return [*(["few"] if few else []), *(["in bursts"] if not 0 < min(gaps) == max(gaps) <= parameters.ask_every else [])]


@case("what only a dead voter held is not waited for")
def _not_waited_for() -> list[str]:
    """The same with a fourth member, and p3 crashes when it has voted."""
    group = Script("p1", "p2", "p3", "p4", "p5")
    group.pass_time(100)
    group.broadcast("a", by="p1", lose=to("p3"))
    group.broadcast("b", by="p1", lose=either(to("p2", "p4", "p5"), of_type(Nack)))
    group.kill("p1")
    group.wait_until(lambda: group["p2"].rebuild is not None, lose=of_type(Fetch, Held))
    group.kill("p3")
    group.wait_until(lambda: group.last_view("p2") == group.last_view("p4") == ("p2", "p4", "p5"))
    return [f"other messages at {name}" for name in ("p2", "p4", "p5") if group.delivered(name) != ["a"]]


@case("two members crash and one is slow to answer, round trip above suspect_after")
def _slow() -> list[str]:
    return regimes.troubles_of(regimes.run(54))


def _quiet_run(members: int, round_trip_ms: float, seconds: float, *faults: Fault, **settings: Any) -> Scenario:
    """A group in which these faults are all that happens."""
    given: dict[str, Any] = {"seed": 0, "loss": 0.0, "rate": 10.0, "spread": 0.0, **settings}
    mean = round_trip_ms * MS / 2
    low, high = (Duration(round(mean * (1 + sign * given["spread"]))) for sign in (-1, 1))
    return Scenario(
        protocol="sequencer",
        name="standstill",
        seed=given["seed"],
        members=tuple(f"p{number + 1}" for number in range(members)),
        duration=Duration(round(seconds * SECOND)),
        drain=Duration(60 * SECOND),
        parameters=given.get("parameters", {}),
        network=Network(delay=Delay("uniform", low, high), loss=given["loss"]),
        workload=(Workload(rate=given["rate"]),) if given["rate"] else (),
        fault=faults,
    )


def _excluded(done: Run) -> list[str]:
    return ["excluded" for end in done.summary.processes.values() if end.state == "halted" and "was excluded" in end.reason][:1]


@case("seven members take turns though the history has room for two batches")
def _turns() -> list[str]:
    """All of them hand in more than can be numbered. Some once had every turn, and the sequencer itself had none."""
    few = {"history": 2, "acknowledge_every": 2, "window": 16}
    return [name for name in failover.run(_quiet_run(7, 80, 10, parameters=few)).violated if name != "quiet"]


@case("of two members the sequencer is far away and packets are lost, and partitions are none")
def _far_away() -> list[str]:
    """A number that is asked for comes later than ``nack_retries`` allow. But the sequencer is heard, so it lives."""
    times = {"suspect_after": Duration(600 * MS), "patience": Duration(3 * SECOND), "nack_retries": 8}
    for seed in range(4):
        made = _quiet_run(2, 280, 6, seed=seed, loss=0.1, spread=0.9, parameters=times | {"partitions": "none"})
        done = failover.run(made)
        if found := [*done.violated, *_excluded(done)]:
            return found
    return []


@case("eight members at 30 % loss, and the times of the simulator")
def _heavy_loss() -> list[str]:
    """The sequencer hears nothing of p3 for more than half of ``suspect_after``, and asks it."""
    names = tuple(f"p{number + 1}" for number in range(8))
    done = failover.run(
        Scenario(
            protocol="sequencer", seed=3, duration=Duration(SECOND), members=names, groups={"g": names},
            network=Network(loss=0.3), workload=(Workload(rate=2.0, arrivals="poisson"),),
        )
    )  # fmt: skip
    return [*done.violated, *_excluded(done)]


@case("a sequencer far away leaves at 30 % loss")
def _far_hand_over() -> list[str]:
    """It has heard all members, so the vote waits for them; no trial has measured how far away they are."""
    times = {"suspect_after": Duration(400 * MS), "patience": Duration(2 * SECOND)}
    leave = Fault(kind="leave", at=Duration(1500 * MS), process="p1")
    for seed in range(8):
        done = failover.run(_quiet_run(4, 320, 6, leave, seed=seed, loss=0.3, rate=2.0, parameters=times))
        if found := [*done.violated, *_excluded(done)]:
            return found
    return []


@case("a deaf member disturbs no other, where heartbeats are rare")
def _deaf() -> list[str]:
    """p3 does not hear p1 for 2 s. The others hear a heartbeat only every 60 ms, and tick every 10 ms."""
    times = {"heartbeat": Duration(60 * MS), "quiet_after": Duration(10 * MS), "suspect_after": Duration(200 * MS)}
    cut = Fault(kind="cut", at=Duration(SECOND), length=Duration(2 * SECOND), source="p1", target="p3")
    done = failover.run(_quiet_run(5, 2, 5, cut, rate=0.0, parameters=times))
    return [*done.violated, *_excluded(done), *(["a vote"] if done.epochs else [])]


@case("the sequencer crashes soon after another member, and partitions are none")
def _one_after_the_other() -> list[str]:
    """p1 has proposed the view without p2 and crashes. p3 asks both of them once, for two ``suspect_after``, and the view that p1
    had proposed does not wait for p1."""
    times = {"suspect_after": Duration(150 * MS), "patience": Duration(400 * MS), "partitions": "none"}
    crashes = [Fault(kind="crash", at=Duration(at * MS), process=name) for name, at in (("p2", 1600), ("p1", 1850))]
    done = failover.run(_quiet_run(3, 120, 5, *crashes, parameters=times))
    limit = (3 * 150 + 3 * 20 + 120 // 2) * MS
    time = done.next_view(crashes[1].at)
    return [*done.violated, *(["fail-over"] if time is None or time > limit else [])]


@case("the pace of an election is a round trip though two members are dead")
def _pace() -> list[str]:
    group = Script("p1", "p2", "p3", "p4", partitions="none")
    group.pass_time(100)
    group.kill("p1")
    group.kill("p2")
    group.wait_until(lambda: group["p3"].presides or group["p4"].presides)
    offices = [member.office for member in (group["p3"], group["p4"]) if member.office is not None]
    return ["slow"] if any(office._pace > 20 * MS for office in offices) else []
