"""dedos within a node: crashes of boxes and of processes after every operation, alone and together, and seeded mixtures.

In all runs what is promised is verified, views are compared, and the lemmas of appendix C are asserted after every operation.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from random import Random
from typing import Any

import pytest

from plainchant.core.model import MS, SECOND, US, Duration
from plainchant.scenario.model import Fault, Memory, Scenario, Workload
from plainchant.sim.scripted import Script

from .within import WithinRun, fault, message, run, run_scenario, us

LOAD = (
    Workload(senders=("a",), closed=2, count=3, start=us(300), size=150),
    message("b", 305),
    message("s", 310),
    message("c", 330),
    message("s", 360),
)
"""Enough for messages to be stored, read by some, and removed."""
SETTINGS: dict[str, Any] = {"senders": ("s",), "elements": 3, "length": 1200}


def _steps(process: str) -> list[str]:
    """Every operation of a process in the run without faults, as scripts call it."""
    counted: Counter[str] = Counter()
    names = []
    for operation, box in run("s a b c", *LOAD, **SETTINGS).operations(process):
        name = f"{process} {operation} {box}"
        counted[name] += 1
        names.append(name if counted[name] == 1 else f"{name} #{counted[name]}")
    return names


def _all_clean(runs: dict[str, WithinRun]) -> None:
    troubled = {name: (result.violated, result.broken) for name, result in runs.items() if not result.clean}
    assert not troubled


def test_nothing_fails() -> None:
    result = run("s a b c", *LOAD, **SETTINGS)
    assert result.clean
    assert result.delivered("a") == result.delivered("b") == result.delivered("c")
    assert len(result.delivered("a")) == 7
    assert [view.members for view in result.views["a"]] == [("a", "b", "c")]


@pytest.mark.parametrize("process", ["a", "s"])
def test_the_mailbox_crashes_after_each_operation(process: str) -> None:
    runs = {step: run("s a b c", *LOAD, script=Script(usual=1, after={step: "module 1"}), **SETTINGS) for step in _steps(process)}
    assert len(runs) > 8
    _all_clean(runs)
    assert all(len(result.delivered("a")) == 7 for result in runs.values())


@pytest.mark.parametrize("process", ["a", "b", "s"])
def test_a_process_crashes_after_each_operation(process: str) -> None:
    runs = {step: run("s a b c", *LOAD, script=Script(usual=1, after={step: process}), **SETTINGS) for step in _steps(process)}
    assert len(runs) > 8
    _all_clean(runs)
    assert all(result.views["c"][-1].members == tuple(name for name in "abc" if name != process) for result in runs.values())


@pytest.mark.parametrize("process", ["a", "s"])
@pytest.mark.parametrize("after", [1, 45])
def test_a_process_crashes_after_each_operation_and_the_mailbox_soon_after(process: str, after: float) -> None:
    plain = run("s a b c", *LOAD, **SETTINGS)
    ends = [row["true_time"] for row in plain.of("operation", process)]
    runs = {
        step: run(
            "s a b c",
            *LOAD,
            script=Script(usual=1, after={step: process}),
            faults=[fault("module", end / US + after, module=1)],
            **SETTINGS,
        )
        for step, end in zip(_steps(process), ends, strict=True)
        if end < us(1000)
    }
    _all_clean(runs)


RECOVERY = ("start", "recover", "present", "receive")


@pytest.mark.parametrize("victim", ["module 2", "a", "b", "s"])
def test_something_crashes_after_each_operation_of_a_recovery(victim: str) -> None:
    """Box 1 crashes when a's second message is there; then another box, or a process, after each step of the recovery."""
    first = {"a send 1 #2": "module 1"}
    plain = run("s a b c", *LOAD, script=Script(usual=1, after=first), boxes=3, **SETTINGS)
    runs = {}
    for process in "abcs" if victim == "module 2" else victim:
        counted: Counter[str] = Counter()
        for operation, box in plain.operations(process, *RECOVERY):
            name = f"{process} {operation} {box}"
            counted[name] += 1
            step = name if counted[name] == 1 else f"{name} #{counted[name]}"
            if box == 2:
                script = Script(usual=1, after={**first, step: victim})
                runs[step] = run("s a b c", *LOAD, script=script, boxes=3, **SETTINGS)
    assert len(runs) >= 4
    _all_clean(runs)


@pytest.mark.parametrize("victim", ["module 1", "b"])
def test_something_crashes_after_each_operation_of_a_leave(victim: str) -> None:
    leave = fault("leave", 320, process="b")
    steps = [f"b {operation} {box}" for operation, box in
             run("s a b c", *LOAD, faults=[leave], boxes=3, **SETTINGS).operations("b")]  # fmt: skip
    runs = {
        step: run("s a b c", *LOAD, script=Script(usual=1, after={step: victim}), faults=[leave], boxes=3, **SETTINGS)
        for step in dict.fromkeys(steps)
    }
    assert {"b start 2", "b recover 3", "b delete 2", "b delete 1"} <= set(runs)
    _all_clean(runs)


@pytest.mark.parametrize("victim", ["module 1", "module 2", "d"])
def test_something_crashes_after_each_operation_of_a_join(victim: str) -> None:
    join = fault("join", 320, process="d", group="g")
    settings = {**SETTINGS, "boxes": 3, "later": "d", "faults": [join]}
    steps = [f"d {operation} {box}" for operation, box in run("s a b c", *LOAD, **settings).operations("d")]
    runs = {
        step: run("s a b c", *LOAD, message("d", 800), script=Script(usual=1, after={step: victim}), **settings)
        for step in dict.fromkeys(steps)
    }
    assert {"d list 2", "d list 3", "d join 1"} <= set(runs)
    _all_clean(runs)
    if victim != "d":
        assert all(result.delivered("c")[-1] == ("d", 1) for result in runs.values())


def test_all_leave_and_the_mailbox_is_gone_and_made_again() -> None:
    faults = [fault("leave", 600 + number, process=name) for number, name in enumerate("abc")]
    faults.append(fault("join", 1500, process="d", group="g"))
    result = run("a b c", message("a", 300), message("d", 2500), faults=faults, later="d")
    assert result.clean
    assert {end.state for name, end in result.summary.processes.items() if name != "d"} == {"left"}
    assert result.ranks("d") == [2]


def test_who_comes_back_when_all_have_crashed_cleans_up_and_begins() -> None:
    faults = [fault("crash", 1000, process=name) for name in "ab"] + [fault("restart", 2000, process="a")]
    result = run("a b", message("a", 300), Workload(senders=("a",), rate=1000.0, start=us(2500), stop=us(4000)), faults=faults)
    assert not result.violated
    assert result.delivered("a#1")
    assert result.views["a#1"][-1].members == ("a#1",)


def test_there_is_no_place_left() -> None:
    joins = [fault("join", at, process=name, group="g") for at, name in ((500, "d"), (900, "e"))]
    result = run("a b", message("d", 2000), later="d e", places=3, faults=joins)
    assert result.delivered("b") == [("d", 1)]
    assert [detail["reason"] for detail in result.details("refused", "e")] == ["no place"]


def test_several_groups_do_not_disturb_each_other() -> None:
    scenario = dataclasses.replace(
        mixture(3),
        groups={"g": ("p1", "p2"), "h": ("p2", "p3"), "k": ("p1", "p3")},
        members=("p1", "p2", "p3"),
        later=(),
        fault=(fault("module", 2000, module=1),),
    )
    scenario = dataclasses.replace(scenario, parameters={**scenario.parameters, "boxes": 2, "senders": ()})
    result = run_scenario(scenario, settle=5000)
    assert result.clean
    assert {row["group"] for row in result.of("deliver", "p2")} == {"g", "h"}


# --- seeded mixtures ----------------------------------------------------------------------------------------------------------

SEEDS = 36


def mixture(seed: int) -> Scenario:
    """Everything at once, drawn: crashes, restarts, joins, leaves, pauses, slow operations, applications that do not read."""
    random = Random(seed)
    members = tuple(f"p{number}" for number in range(1, random.choice((3, 4, 5)) + 1))
    later = ("q1", "q2")[: random.randrange(3)]
    boxes = random.choice((2, 3, 3, 4))
    duration = 6 * MS

    def some_time() -> Duration:
        return Duration(random.randrange(300 * US, duration))

    faults = []
    modules = random.sample(range(1, boxes + 1), random.choice((1, boxes - 1)))
    if random.random() < 0.5:
        modules = list(range(1, boxes))
    at = some_time()
    for module in modules:
        faults.append(Fault(kind="module", at=at, module=module))
        soon = Duration(min(duration - 1, at + random.randrange(300 * US)))
        at = soon if random.random() < 0.6 else some_time()
    for process in random.sample(members, random.choice((0, 1, 1, 2))):
        near = Duration(min(duration - 1, faults[0].at + random.randrange(200 * US)))
        crash = near if random.random() < 0.5 else some_time()
        faults.append(Fault(kind="crash", at=crash, process=process))
        if random.random() < 0.5:
            again = Duration(min(duration - 1, crash + random.randrange(10 * US, 2 * MS)))
            faults.append(Fault(kind="restart", at=again, process=process))
    crashed = {each.process for each in faults}
    faults += [Fault(kind="join", at=some_time(), process=process, group="g") for process in later]
    stay = [process for process in members if process not in crashed]
    faults += [Fault(kind="leave", at=some_time(), process=process) for process in stay[1:] if random.random() < 0.3]
    for process in stay:
        kind = random.choice(("pause", "slow", "sluggish", "", ""))
        length = Duration(random.randrange(50 * US, 2 * MS))
        if kind == "slow":
            faults.append(Fault(kind=kind, at=some_time(), process=process, length=length, delay=us(200)))
        elif kind:
            faults.append(Fault(kind=kind, at=some_time(), process=process, length=length))
    senders = (members[-1],) if random.random() < 0.4 else ()
    size = random.choice((16, 200 if senders else 700))
    return Scenario(
        protocol="dedos", name=f"mixture {seed}", seed=seed, duration=Duration(duration), drain=Duration(SECOND), members=members,
        later=later, groups={"g": members}, fault=tuple(sorted(faults, key=lambda each: each.at)),
        workload=(Workload(rate=random.choice((1000.0, 3000.0)), arrivals="poisson", size=size),),
        memory=Memory(duration=random.choice(("uniform", "extremes", "max")), detection=us(random.choice((0, 100, 1000)))),
        parameters={
            "reach": "node", "boxes": boxes, "elements": random.choice((2, 4, 16)), "reserve": 0, "senders": senders, "places": 8,
            "room": 256, "poll": us(1000),
        },
    )  # fmt: skip


def test_mixtures() -> None:
    happened: Counter[str] = Counter()
    troubled = {}
    for seed in range(SEEDS):
        result = run_scenario(mixture(seed), settle=5000)
        if not result.clean:
            troubled[seed] = (result.violated, result.broken)
        states = [detail.get("state") for detail in result.details("state")]
        happened["recovered"] += "recovered" in states
        happened["again"] += len({detail["box"] for detail in result.details("state") if detail.get("state") == "recovered"}) > 1
        happened["full"] += bool(result.of("block"))
        happened["crash"] += bool(result.of("crash"))
        happened["left"] += bool(result.of("leave"))
        happened["joined"] += any(row["rank"] > 1 for row in result.of("join"))
    assert not troubled, "replay with run_scenario(mixture(SEED))"
    assert min(happened[name] for name in ("recovered", "again", "full", "crash", "left", "joined")) >= 3, happened
