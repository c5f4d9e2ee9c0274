"""The injector on a backend that only writes down what it is asked to do."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from random import Random
from typing import Any

import pytest

from plainchant.core.model import MS, Duration, UsageError
from plainchant.core.names import place_of
from plainchant.scenario.faults import Action, Injector, State
from plainchant.scenario.model import FAULTS, Fault, RandomFaults


class Paper:
    """A backend whose processes are their names. ``done`` is what it was asked for, ``states`` is how places' processes are."""

    def __init__(self) -> None:
        self.latest = {"p1": "p1", "p2": "p2#1", "p3": "p3"}
        self.states: dict[str, State] = {"p3": "gone"}
        self.groups = {"p1": ("g",), "p2": ("g",), "p3": ("g",)}
        self.nodes = ("n",)
        self.now = 0
        self.agenda: list[tuple[int, Action]] = []
        self.done: list[tuple[Any, ...]] = []

    def at(self, moment: int, action: Action) -> None:
        self.agenda.append((moment, action))

    def run(self) -> None:
        """Performs everything on the agenda, also what is added meanwhile."""
        while self.agenda:
            self.agenda.sort(key=lambda entry: entry[0])
            self.now, action = self.agenda.pop(0)
            asyncio.run(action())

    def running(self, place: str) -> str | None:
        return None if self.states.get(place) == "gone" else self.latest.get(place)

    def name_of(self, process: str) -> str:
        return process

    async def state_of(self, process: str) -> State:
        return self.states.get(place_of(process), "alive")

    async def record(self, processes: Sequence[str], fault: Fault) -> None:
        self.done.append(("record", fault.kind, *processes))

    def crash(self, process: str, why: str, detail: dict[str, Any]) -> None:
        self.done.append(("crash", process, why, detail))

    def doom(self, process: str, fault: Fault) -> None:
        self.done.append(("doom", process))

    def pause(self, process: str, until: int) -> None:
        self.done.append(("pause", process, until))

    def keep_busy(self, process: str, until: int, share: float) -> None:
        self.done.append(("busy", process, until, share))

    def inflict(self, process: str, fault: Fault) -> None:
        self.done.append((fault.kind, process))

    def step_clock(self, fault: Fault) -> None:
        self.done.append(("step", fault.process))

    def groups_of(self, place: str) -> tuple[str, ...]:
        return self.groups[place]

    def entered(self, process: str) -> tuple[str, ...]:
        return self.groups[place_of(process)]

    def joined(self, process: str) -> tuple[str, ...]:
        return self.groups[place_of(process)]

    async def come(self, place: str, groups: Sequence[str], fault: Fault) -> None:
        self.done.append(("come", place, *groups))
        self.latest[place] = f"{place} again"

    def enter(self, process: str, groups: Sequence[str], fault: Fault) -> None:
        self.done.append(("enter", process, *groups))

    def node_of(self, place: str) -> str:
        return "n"

    def processor_of(self, place: str) -> str:
        return place

    def has_module(self, node: str, module: int) -> bool:
        return module == 1

    def crash_module(self, node: str, module: int) -> None:
        self.done.append(("module", node, module))

    async def lose_memory(self, node: str, processes: Sequence[str]) -> None:
        self.done.append(("lose", node, *processes))

    def spoil(self, fault: Fault, recording: Sequence[str]) -> None:
        self.done.append((fault.kind, *recording))

    def mend(self, fault: Fault) -> None:
        self.done.append(("mend", fault.kind, self.now))

    def calm(self) -> None:
        self.done.append(("calm",))


def injected(*faults: Fault, paper: Paper | None = None) -> tuple[Paper, Injector[str]]:
    """A backend and an injector that have carried out these faults."""
    paper = paper if paper is not None else Paper()
    injector = Injector(paper, paper, RandomFaults(), Random(1))
    injector.schedule(faults)
    paper.run()
    return paper, injector


def test_every_kind_of_fault_is_in_the_table() -> None:
    assert set(injected()[1].actions) == set(FAULTS)


@pytest.mark.parametrize(
    ("fault", "done"),
    [
        (Fault("crash", process="p2"), [("record", "crash", "p2#1"), ("crash", "p2#1", "by a fault", {})]),
        (Fault("crash", process="p2", mid_broadcast=True), [("doom", "p2#1")]),
        (Fault("crash", process="p2", after_events=3), [("doom", "p2#1")]),
        (Fault("restart", process="p3"), [("come", "p3", "g")]),
        (Fault("join", process="p3", group="h"), [("come", "p3", "h")]),
        (Fault("join", process="p1", group="h"), [("enter", "p1", "h")]),
        (Fault("leave", process="p1"), [("leave", "p1")]),
        (Fault("close", process="p1", group="g"), [("close", "p1")]),
        (Fault("step", process="p3"), [("step", "p3")]),
        (
            Fault("pause", Duration(5), process="p1", length=Duration(7)),
            [("record", "pause", "p1"), ("pause", "p1", 12)],
        ),
        (
            Fault("busy", Duration(5), process="p1", length=Duration(7), rate=0.5),
            [("record", "busy", "p1"), ("busy", "p1", 12, 0.5)],
        ),
        (Fault("module", module=1), [("record", "module", "p1", "p2#1"), ("module", "n", 1)]),
        (Fault("module", module=2), []),
        (
            Fault("node", node="n"),
            [
                ("record", "node", "p1", "p2#1"),
                ("crash", "p1", "with node n", {"node": "n"}),
                ("crash", "p2#1", "with node n", {"node": "n"}),
                ("lose", "n", "p1", "p2#1"),
            ],
        ),
        (
            Fault("processor", processor="p2"),
            [("record", "processor", "p2#1"), ("crash", "p2#1", "with processor p2", {"processor": "p2"})],
        ),
        (Fault("partition", parts=(("p3", "p2"), ("p1",))), [("partition", "p2#1", "p1")]),
        (Fault("cut", source="p2", target="p1"), [("cut", "p2#1")]),
        (Fault("clog", target="p1", length=Duration(4)), [("clog", "p1"), ("mend", "clog", 4)]),
        (Fault("loss", rate=0.5), [("loss", "p1")]),
        (Fault("lan", lan=1), [("lan", "p1")]),
        (Fault("heal"), [("heal", "p1")]),
    ],
)
def test_what_a_fault_does_and_which_processes_record_it(fault: Fault, done: list[tuple[Any, ...]]) -> None:
    paper, injector = injected(fault)
    assert paper.done == done
    assert injector.skipped == []


@pytest.mark.parametrize(
    ("fault", "why"),
    [
        (Fault("crash", process="p3"), "p3 was not there"),
        (Fault("restart", process="p4"), "p4 was never there"),
        (Fault("restart", process="p2"), "p2#1 was alive"),
        (Fault("rename", process="p2", group="h", name="i"), "p2#1 was not in h"),
        (Fault("processor", processor="p3"), "no process was there"),
        (Fault("join", process="p1"), "p1 has been in g; only a new process returns to a group"),
    ],
)
def test_a_fault_that_finds_no_process_is_skipped_with_a_reason(fault: Fault, why: str) -> None:
    assert injected(fault)[1].skipped == [(fault, why)]


def test_a_process_that_is_not_there_at_the_start_cannot_crash_after_events() -> None:
    with pytest.raises(UsageError, match="p4 is not there at the start: crash it at a time"):
        injected(Fault("crash", process="p4", after_events=3))


def test_a_process_that_is_leaving_restarts_when_it_has_left() -> None:
    paper = Paper()
    paper.states["p3"] = "leaving"
    _, injector = injected(Fault("restart", process="p3"), paper=paper)
    assert paper.done == []
    injector.gone("p3", "p3", halted=False)
    paper.run()
    assert paper.done == [("come", "p3", "g")]


def test_a_process_that_never_leaves_does_not_restart() -> None:
    paper = Paper()
    paper.states["p3"] = "leaving"
    fault = Fault("restart", process="p3")
    _, injector = injected(fault, paper=paper)
    injector.stop()
    injector.gone("p3", "p3", halted=False)
    assert paper.done == [("calm",)]
    assert paper.agenda == []
    assert injector.skipped == [(fault, "p3 was still leaving when the time of faults was over")]


def test_a_halted_process_comes_back_after_a_while_if_the_rates_say_so() -> None:
    paper = Paper()
    injector = Injector(paper, paper, RandomFaults(restart_halted=1.0, restart_after=Duration(1)), Random(1))
    injector.gone("p3", "p3", halted=True)
    assert [moment for moment, _ in paper.agenda] == [injector.returns["p3"]] == [1 * MS]
    paper.run()
    assert paper.done == [("come", "p3", "g")]


def test_faults_after_the_end_do_not_happen() -> None:
    paper = Paper()
    injector = Injector(paper, paper, RandomFaults(restart_halted=1.0), Random(1))
    injector.schedule([Fault("crash", process="p1")], begin=10)
    injector.stop()
    paper.run()
    injector.gone("p3", "p3", halted=True)
    assert (paper.done, paper.agenda, injector.skipped) == ([("calm",)], [], [])
