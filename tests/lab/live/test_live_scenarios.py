"""Scenarios with real processes: every shipped one, each kind of fault, and that nothing is left behind."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest

from plainchant.cli.live import LiveResult, execute, given_parameters
from plainchant.core.model import MS, Duration, UsageError
from plainchant.lab.live import control, crew
from plainchant.lab.live.faults import LiveFaults
from plainchant.lab.live.namespaces import NamespaceError, Namespaces
from plainchant.lab.live.process import LiveError, Process
from plainchant.lab.live.supervisor import not_applied, stretched, supervise
from plainchant.live.ports import free_addresses
from plainchant.scenario import Scenario, load, shipped
from plainchant.scenario.faults import Injector
from plainchant.scenario.load import parse
from plainchant.scenario.model import Clock, Fault, Network, RandomFaults, Workload
from plainchant.scenario.outcome import ProcessEnd
from plainchant.trace import read

QUICK = ("parameters.suspect_after=300ms", "parameters.patience=1s")
"""Shorter than is good for members that share processors: who is suspected wrongly is excluded, and everything must hold."""
FEWER = {"ethernet-1989": 4, "everything-at-once": 5, "lossy-network": 3, "sweep-faults": 4}
"""Processes take time to start; these scenarios need no certain number of them."""
SEQUENCER = [name for name, path in shipped().items() if load(path).protocol == "sequencer"]


class Started:
    """The processes that a run started; all of them are ended when the test is over."""

    def __init__(self) -> None:
        self.processes: list[Process] = []

    @property
    def pids(self) -> list[int]:
        return [process._popen.pid for process in self.processes]

    def pid_of(self, place: str) -> int:
        return next(process._popen.pid for process in self.processes if process.place == place)

    def assert_gone(self) -> None:
        assert self.processes
        assert all(process._popen.poll() is not None for process in self.processes)


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> Iterator[Started]:
    found = Started()

    class Recorded(Process):
        def __init__(self, *arguments: Any) -> None:
            super().__init__(*arguments)
            found.processes.append(self)

    monkeypatch.setattr(crew, "Process", Recorded)
    try:
        yield found
    finally:
        for process in found.processes:
            process.dismiss()


def scenario_of(text: str, *overrides: str) -> Scenario:
    return parse(text, "small.toml", overrides)


def live(scenario: Scenario, directory: Path, **options: Any) -> LiveResult:
    options.setdefault("drain_at_most", 60_000 * MS)
    return execute(scenario, directory, verify_it=True, options=options)


def rows(directory: Path, **wanted: Any) -> list[dict[str, Any]]:
    table: pa.Table = read(directory / "trace").table
    return [row for row in table.to_pylist() if all(row[key] == value for key, value in wanted.items())]


def injected(directory: Path, **wanted: Any) -> list[dict[str, Any]]:
    """The faults of a run, without the rows that say that the time of faults is over."""
    found = rows(directory, kind="fault", **wanted)
    return [row for row in found if json.loads(row["detail"])["fault"] != "calm"]


def assert_well(result: LiveResult) -> None:
    """Everything that was promised held, up to the end."""
    assert result.summary.unexpected == {}
    assert result.malformed == ()
    assert result.summary.quiet, result.summary.not_quiet
    assert result.verification is not None
    assert [violation.sentence for violation in result.verification.violations] == []
    assert result.passes


# --- every shipped scenario -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", SEQUENCER)
def test_a_shipped_scenario_runs_live(name: str, tmp_path: Path, started: Started) -> None:
    path = shipped()[name]
    options = [*QUICK, *([f"members={FEWER[name]}"] if name in FEWER else [])]
    scenario = load(path, options)
    result = live(scenario, tmp_path, time_scale=0.25, given=given_parameters(path, options))
    started.assert_gone()
    if scenario.expect == "violation":
        assert result.passes
        assert result.verification is not None
    else:
        assert_well(result)
    assert result.collected.events["deliver"] > 0
    assert len(result.summary.processes) >= len(scenario.members)
    if name in CHECKS:
        CHECKS[name](result, tmp_path)


def is_disturbed(result: LiveResult) -> bool:
    """Whether the machine was so busy that somebody was taken for dead: then the story is another one."""
    reasons = [end.reason for end in result.summary.processes.values() if end.state == "halted"]
    assert all(re.search("has not heard|did not answer|a majority is needed|to be let in", reason) for reason in reasons), reasons
    return bool(reasons)


def check_crash_and_restart(result: LiveResult, directory: Path) -> None:
    summary = result.summary
    if summary.skipped or is_disturbed(result):
        return
    assert summary.processes["p1"].state == "crashed"
    assert summary.processes["p1#1"].state == "alive"
    assert [row["process"] for row in injected(directory)] == ["p1", "p1#1"]
    assert rows(directory, kind="crash", process="p1")
    assert any("p1#1" in row["members"] and "p1" not in row["members"] for row in rows(directory, kind="view"))


def check_join_and_leave(result: LiveResult, directory: Path) -> None:
    if is_disturbed(result):
        return
    states = {name: end.state for name, end in result.summary.processes.items()}
    assert states == {"ann": "left", "ben": "left", "cyd": "alive", "dan": "alive", "eve": "alive"}
    assert {row["process"] for row in rows(directory, kind="leave")} == {"ann", "ben"}
    assert sorted(rows(directory, kind="view", process="cyd")[-1]["members"]) == ["cyd", "dan", "eve"]


def check_pause(result: LiveResult, directory: Path) -> None:
    """A stopped process does nothing for as long as it is stopped."""
    paused = [row for row in injected(directory) if row["process"] == "p5"]
    assert len(paused) == 1
    times = [row["time"] for row in rows(directory, process="p5") if row["index"] >= paused[0]["index"]]
    assert max(later - earlier for earlier, later in itertools.pairwise(times)) >= 140 * MS


def check_lossy(result: LiveResult, directory: Path) -> None:
    assert result.summary.packets_lost > 0


def check_large(result: LiveResult, directory: Path) -> None:
    assert {row["size"] for row in rows(directory, kind="deliver")} == {32, 20_000}


def check_partition(result: LiveResult, directory: Path) -> None:
    small, large = (row["process"] for row in injected(directory))
    assert small in ("p1", "p2")
    assert large in ("p3", "p4", "p5")
    assert result.summary.packets_lost > 0


def check_ethernet(result: LiveResult, directory: Path) -> None:
    assert "network.send_cost" in result.summary.not_applied
    assert result.summary.parameters["history"] == 20


CHECKS: dict[str, Callable[[LiveResult, Path], None]] = {
    "sequencer-crash": check_crash_and_restart,
    "join-and-leave": check_join_and_leave,
    "slow-member": check_pause,
    "lossy-network": check_lossy,
    "large-messages": check_large,
    "partition": check_partition,
    "ethernet-1989": check_ethernet,
}


# --- what no shipped scenario has -----------------------------------------------------------------------------------

MANY = """\
protocol = "sequencer"
members = ["a", "b", "c", "d"]
duration = "600ms"
drain = "60s"
[parameters]
suspect_after = "300ms"
patience = "1s"
[network]
delay = "200us"
max_packet = 600
[groups]
red = ["a", "b", "c", "d"]
blue = ["b", "c", "d"]
[[workload]]
rate = 50
size = 1000
[[clock]]
process = "a"
offset = "1h"
[[fault]]
kind = "step"
process = "a"
at = "100ms"
offset = "2h"
[[fault]]
kind = "leave"
process = "c"
group = "blue"
at = "150ms"
[[fault]]
kind = "join"
process = "c"
group = "blue"
at = "400ms"
[[fault]]
kind = "join"
process = "a"
group = "blue"
at = "50ms"
[[fault]]
kind = "crash"
process = "d"
after_events = 150
[[fault]]
kind = "restart"
process = "d"
at = "500ms"
"""


def test_groups_clocks_and_a_crash_after_so_many_events(tmp_path: Path, started: Started) -> None:
    result = live(scenario_of(MANY), tmp_path)
    assert_well(result)
    assert result.verification is not None
    assert "causal" not in result.verification.properties  # the groups overlap
    if is_disturbed(result):
        return
    start, *_, last = rows(tmp_path, process="a")
    assert last["time"] - start["time"] >= 7_200_000 * MS  # two hours in less than a minute
    assert rows(tmp_path, kind="join", process="a", group="blue")
    assert rows(tmp_path, kind="leave", process="c", group="blue")
    assert [fault.kind for fault, _ in result.summary.skipped if fault.process == "c"] == ["join"]
    if "d#1" in result.summary.processes:
        *_, fault, crash = rows(tmp_path, process="d")
        assert (fault["kind"], crash["kind"]) == ("fault", "crash")
        assert injected(tmp_path, process="d#1")


def skip_without_namespaces() -> None:
    try:
        with Namespaces(["a", "b"]):
            return
    except NamespaceError as error:
        pytest.skip(str(error))


def test_a_partition_by_namespaces(tmp_path: Path, started: Started) -> None:
    skip_without_namespaces()
    scenario = load(shipped()["partition"], QUICK)
    result = live(scenario, tmp_path, time_scale=0.25, namespaces=True)
    assert_well(result)
    assert result.summary.partitions == "namespaces"
    assert result.summary.packets_lost == 0  # none of ours
    assert len(injected(tmp_path)) == 2
    parts = [set(row["members"]) for row in rows(tmp_path, kind="view") if len(row["members"]) < 5]
    assert {"p1", "p2"} not in parts  # a minority makes no views


def test_namespaces_are_separate_until_they_are_joined() -> None:
    skip_without_namespaces()
    with Namespaces(["a", "b", "c"]) as namespaces:
        listeners = {place: _listen(namespaces, place) for place in "abc"}
        try:
            assert _hears(namespaces, "a", "c")
            namespaces.divide([["a", "b"], ["c"]])
            assert _hears(namespaces, "a", "b")
            assert not _hears(namespaces, "a", "c", seconds=0.3)
            namespaces.divide([["a", "b", "c"]])
            assert _hears(namespaces, "c", "a")
        finally:
            for listener in listeners.values():
                listener.kill()
                listener.communicate()


_ECHO = """
import socket, sys
here = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
here.bind((sys.argv[1], 7000))
print("ready", flush=True)
while True:
    here.sendto(*here.recvfrom(100))
"""
_ASK = """
import socket, sys, time
here = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
here.settimeout(0.1)
until = time.monotonic() + float(sys.argv[2])
while time.monotonic() < until:
    try:
        here.sendto(b"?", (sys.argv[1], 7000))
        here.recvfrom(100)
        sys.exit(0)
    except OSError:
        pass
sys.exit(1)
"""


def _listen(namespaces: Namespaces, place: str) -> subprocess.Popen[bytes]:
    listener = subprocess.Popen(
        [*namespaces.inside(place), sys.executable, "-c", _ECHO, namespaces.address(place)[0]], stdout=subprocess.PIPE
    )
    assert listener.stdout is not None
    assert listener.stdout.readline() == b"ready\n"
    return listener


def _hears(namespaces: Namespaces, source: str, target: str, seconds: float = 20.0) -> bool:
    host, _ = namespaces.address(target)
    asked = subprocess.run([*namespaces.inside(source), sys.executable, "-c", _ASK, host, str(seconds)], timeout=60)
    return asked.returncode == 0


# --- what goes wrong ------------------------------------------------------------------------------------------------

SMALL = """\
protocol = "sequencer"
members = 3
duration = "300ms"
[parameters]
resilience = 1
[network]
delay = "200us"
[[workload]]
rate = 50
"""


def test_a_process_that_somebody_else_kills_is_told(tmp_path: Path, started: Started, monkeypatch: pytest.MonkeyPatch) -> None:
    def progress(text: str) -> None:
        if "%" in text and started.processes[2].running:
            os.kill(started.pid_of("p3"), signal.SIGKILL)

    monkeypatch.setattr(sys.modules[LiveResult.__module__], "moving_line", lambda: contextlib.nullcontext(progress))
    result = live(scenario_of(SMALL), tmp_path)
    summary = result.summary
    assert not result.passes
    assert [path.name for path in sorted((tmp_path / "complaints").iterdir())] == ["0-p1.txt", "1-p2.txt", "2-p3.txt"]
    assert rows(tmp_path, kind="crash")[0]["process"] == "p3"
    assert summary.unexpected == {"p3": "was ended by signal 9, without a word"}
    assert summary.processes["p3"].state == "crashed"
    assert summary.processes["p1"].state == "alive"
    started.assert_gone()


def test_an_interrupted_run_leaves_no_process(tmp_path: Path, started: Started) -> None:
    def progress(text: str) -> None:
        if "%" in text:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        supervise(scenario_of(SMALL), tmp_path / "spools", progress=progress)
    started.assert_gone()


def test_a_process_that_cannot_start_ends_the_run_with_its_reason(
    tmp_path: Path, started: Started, monkeypatch: pytest.MonkeyPatch
) -> None:
    def addresses(places: Any) -> dict[str, tuple[str, int]]:
        return {place: ("192.0.2.1", 7000) for place in places}

    monkeypatch.setattr(crew, "free_addresses", addresses)
    with pytest.raises(LiveError, match=r"was gone before the scenario began: .*p\d is at 192\.0\.2\.1:7000, .* and has no key"):
        supervise(scenario_of(SMALL), tmp_path / "spools")
    started.assert_gone()


def test_a_worker_dies_when_its_supervisor_is_gone(tmp_path: Path) -> None:
    task = control.Task(
        place="a",
        incarnation=0,
        peers=free_addresses(["a", "b"]),
        protocol="sequencer",
        parameters={},
        packet=1400,
        groups={"g": ("a", "b")},
        enter=("g",),
        forms=True,
        network=Network(),
        duration=1000 * MS,
        seed="0",
        trace=str(tmp_path),
        run="r0",
    )
    worker = subprocess.Popen([sys.executable, "-m", "plainchant.lab.live.worker"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    watchdog = threading.Timer(60, worker.kill)
    watchdog.start()
    try:
        assert worker.stdin is not None
        assert worker.stdout is not None
        worker.stdin.write(control.line(task) + control.line(control.Ask(7)))
        worker.stdin.flush()
        status = control.decode_report(worker.stdout.readline())
        assert status == control.Status(7, "it is not in group g yet", 0, 0, 0)
        worker.stdin.close()
        assert worker.wait(60) == -signal.SIGKILL
    finally:
        watchdog.cancel()
        worker.kill()
        worker.wait()
        if worker.stdout is not None:
            worker.stdout.close()


# --- small things ---------------------------------------------------------------------------------------------------


def test_faults_of_the_seed_are_those_of_the_simulation_and_stretch() -> None:
    scenario = load(shipped()["everything-at-once"], ["seed=0"])
    same, longer = stretched(scenario, 1.0), stretched(scenario, 2.0)
    assert len(same.fault) == len(longer.fault) > 3
    assert [2 * fault.at for fault in same.fault] == [fault.at for fault in longer.fault]
    assert longer.duration == 2 * scenario.duration
    assert longer.network == scenario.network


def test_what_is_left_to_reality_is_named() -> None:
    scenario = Scenario(
        protocol="sequencer",
        members=("a", "b"),
        network=Network(send_cost=Duration(MS)),
        workload=(Workload(rate=1.0, cost=Duration(MS)),),
        clock=(Clock(drift=0.1),),
        fault=(Fault(kind="heal"),),
        random=RandomFaults(),
    )
    assert not_applied(scenario) == ("network.send_cost", "workload.cost", "clock.drift")


def test_given_parameters_are_those_of_the_file_and_of_options(tmp_path: Path) -> None:
    file = tmp_path / "small.toml"
    file.write_text(SMALL)
    assert given_parameters(file, ["parameters.window=16", "seed=3"]) == {"resilience", "window"}


def test_time_does_not_stand_still(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="above 0"):
        supervise(scenario_of(SMALL), tmp_path / "spools", time_scale=0.0)


# --- omissions, and processes that come back when they were halted --------------------------------------------------

OMITTING = """\
protocol = "sequencer"
members = 3
duration = "600ms"
drain = "60s"
[network]
delay = "200us"
[[workload]]
rate = 50
size = 100
[[fault]]
kind = "omit"
process = "p2"
source = "p1"
at = "100ms"
count = 3
[[fault]]
kind = "omit"
process = "p3"
packet = "Broadcast"
at = "200ms"
"""


def test_packets_are_omitted_where_they_come_in(tmp_path: Path, started: Started) -> None:
    result = live(scenario_of(OMITTING), tmp_path)
    assert_well(result)
    dropped = injected(tmp_path)
    details = [json.loads(row["detail"]) for row in dropped]
    assert [row["process"] for row in dropped] == ["p2", "p2", "p2", "p3"]
    assert [detail["source"] for detail in details[:3]] == ["p1"] * 3
    assert [(detail["drop"], detail["count"]) for detail in details] == [(1, 3), (2, 3), (3, 3), (1, 1)]
    assert details[3]["packet"] == "Broadcast"


class Gone:
    """A process that its protocol halted."""

    place = name = "p3"
    running = False
    paused_until = 0
    end = ProcessEnd("halted", "it missed a message")


class Camp:
    """A crew whose only process is gone."""

    def __init__(self) -> None:
        self.latest = {"p3": Gone()}
        self.came: asyncio.Future[tuple[str, Fault]] = asyncio.get_running_loop().create_future()

    def groups_of(self, place: str) -> tuple[str, ...]:
        return ("g",)

    async def come(self, place: str, groups: tuple[str, ...], fault: Fault) -> None:
        self.came.set_result((place, fault))

    def heal(self) -> None:
        return


@pytest.mark.parametrize("share", [0.0, 1.0])
def test_a_process_that_its_protocol_halted_comes_back_if_it_is_to(share: float) -> None:
    async def main() -> None:
        camp: Any = Camp()
        rates = RandomFaults(restart_halted=share, restart_after=Duration(MS))
        faults = LiveFaults(camp)
        injector = Injector(faults, camp, rates, Random(1))
        injector.gone("p3", camp.latest["p3"], halted=True)
        if not share:
            assert not faults._agenda
            return
        running = asyncio.create_task(faults.run_until(time.monotonic_ns() + 60_000 * MS))
        async with asyncio.timeout(30):
            assert await camp.came == ("p3", Fault(kind="restart", process="p3"))
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        injector.stop()
        injector.gone("p3", camp.latest["p3"], halted=True)
        assert not faults._agenda

    asyncio.run(main())


class Busy:
    """A process that is too busy to answer, and may die of it."""

    place = name = "p3"
    killed = ""
    paused_until = 0
    doomed = listens = True

    def __init__(self, leaving: bool, dies: bool) -> None:
        self.running = True
        self.leaving = leaving
        self._dies = dies

    async def ask(self, make: Callable[[int], object]) -> None:
        return

    async def gone(self, seconds: float) -> bool:
        self.running = not self._dies
        return self._dies


@pytest.mark.parametrize(("leaving", "dies"), [(False, False), (True, False), (False, True), (True, True)])
def test_nobody_takes_the_place_of_a_process_that_is_too_busy_to_answer(leaving: bool, dies: bool) -> None:
    async def main() -> None:
        camp: Any = Camp()
        camp.latest["p3"] = Busy(leaving, dies)
        injector = Injector(LiveFaults(camp), camp, RandomFaults(), Random(1))
        fault = Fault(kind="restart", process="p3")
        await injector.actions["restart"](fault)
        assert camp.came.done() == dies
        assert injector._waiting == ({"p3": fault} if leaving and not dies else {})
        assert injector.skipped == ([] if leaving or dies else [(fault, "p3 was alive")])
        assert camp.latest["p3"].doomed

    asyncio.run(main())
