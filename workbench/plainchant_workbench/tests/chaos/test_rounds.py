"""Short rounds of chaos with real processes, disks that are full, processors that are shared, and processes that hang."""

from __future__ import annotations

import asyncio
import dataclasses
import itertools
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from plainchant.cli.live import LiveResult
from plainchant.core.model import MS, Duration
from plainchant.lab.live import control, process, supervisor
from plainchant.lab.live.faults import LiveFaults
from plainchant.lab.live.process import Process
from plainchant.lab.live.supervisor import LiveSummary
from plainchant.lab.properties import verify
from plainchant.lab.properties.accepted import accepted_once
from plainchant.live.memory.server import MailboxServer
from plainchant.scenario.faults import Injector
from plainchant.scenario.model import Fault, Network, RandomFaults
from plainchant.scenario.outcome import ProcessEnd
from plainchant.trace import read, validate
from plainchant.trace.collect import collect
from plainchant_workbench.chaos import rounds
from plainchant_workbench.chaos.figures import Figure
from plainchant_workbench.chaos.plan import DIETS, Round
from plainchant_workbench.chaos.rounds import Result, run_round
from plainchant_workbench.chaos.trend import Trend
from tests.lab.live.test_live_scenarios import Started, assert_well, injected, live, rows, scenario_of, started
from tests.trace.build import trace

__all__ = ["started"]


# --- rounds -----------------------------------------------------------------------------------------------------------


def assert_round_is_well(result: Result) -> None:
    assert result.problems == ()
    assert result.is_well
    assert result.verification is not None
    assert result.verification.verdict == "holds"
    assert result.events["deliver"] > 100
    assert len(result.summary.faults) > len(result.summary.skipped)


def test_a_short_round_is_well_and_leaves_nothing(tmp_path: Path, started: Started) -> None:
    result = run_round(Round("mailbox", 1, 3, 4.0), tmp_path / "round")
    started.assert_gone()
    assert_round_is_well(result)
    assert result.accepted.verdict == "holds"
    assert list(tmp_path.iterdir()) == []
    assert result.to_json()["accepted"]["messages"] == result.accepted.accepted > 0


@pytest.mark.long
@pytest.mark.parametrize("protocol", DIETS)
def test_a_longer_round_is_well_and_somebody_was_watched(protocol: str, tmp_path: Path, started: Started) -> None:
    result = run_round(Round(protocol, 1, 21, 20.0), tmp_path / "round")
    started.assert_gone()
    assert_round_is_well(result)


def test_what_went_wrong_is_kept_with_the_command_that_runs_it_again(
    tmp_path: Path, started: Started, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A delivery of a survivor is taken out of what the checks see: they find it, and nothing else."""
    seen: list[Any] = []

    def without(table: pa.Table) -> pa.Table:
        kept = table.select(["process", "kind", "sender", "seq", "group"]).to_pylist()
        survivor = next(row["process"] for row in kept if row["kind"] == "end")
        lost = max(
            index for index, row in enumerate(kept) if row["kind"] == "deliver" and row["process"] == row["sender"] == survivor
        )
        seen.append(kept[lost])
        return pa.concat_tables([table.slice(0, lost), table.slice(lost + 1)])

    monkeypatch.setattr(rounds, "accepted_once", lambda table: accepted_once(without(table)))
    each = Round("newtop", 1, 12, 4.0)
    result = run_round(each, tmp_path / "round", verify=lambda trace, table: verify(without(table)))
    started.assert_gone()
    lost = f"message {seen[0]['seq']} of {seen[0]['process']} in {seen[0]['group']}"
    assert any(f"never delivers its own {lost}" in problem and ": accepted: " in problem for problem in result.problems)
    assert any(": self-delivery: " in problem for problem in result.problems)
    assert all(lost in problem for problem in result.problems), result.problems
    kept = sorted(path.name for path in (tmp_path / "round").iterdir())
    assert kept == ["complaints", "scenario.toml", "summary.json", "trace"]
    assert (tmp_path / "round" / "scenario.toml").read_text().startswith(f"# Again: {each.command}\n")


LEAKY_WORKER = """
import os, threading, time
kept = []
def leak():
    while True:
        kept.append(os.open(os.devnull, os.O_RDONLY))
        time.sleep(0.25)
threading.Thread(target=leak, daemon=True).start()
import sys
from plainchant.lab.live.worker import main
sys.exit(main())
"""


@pytest.mark.long
def test_a_worker_that_leaks_is_found_in_a_round(tmp_path: Path, started: Started, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "WORKER", ("-c", LEAKY_WORKER))
    result = run_round(Round("newtop", 1, 12, 20.0), tmp_path / "round")
    assert any(problem.startswith("files of ") for problem in result.problems), result.problems


# --- what counts as a problem -----------------------------------------------------------------------------------------


def summary_of(**changes: Any) -> LiveSummary:
    plain = LiveSummary(
        run="r0",
        protocol="mailbox",
        seed=1,
        elapsed=1,
        processes={"p1": ProcessEnd("alive")},
        unexpected={},
        parameters={},
        packets_lost=0,
        packets_duplicated=0,
        packets_corrupted=0,
        faults=(),
        skipped=(),
        partitions="transport",
        not_applied=(),
        time_scale=1.0,
        drained=True,
        drain=1,
        quiet=True,
        not_quiet={},
    )
    return dataclasses.replace(plain, **changes)


def test_ends_that_nobody_meant_hangs_and_noise_are_problems() -> None:
    assert rounds._of_processes(summary_of()) == []
    assert rounds._of_processes(summary_of(unexpected={"p1": "was ended by signal 11"})) == ["p1 was ended by signal 11"]
    assert rounds._of_processes(summary_of(quiet=False, not_quiet={"p1": "it waits"})) == ["p1 is not quiet: it waits"]
    assert rounds._of_processes(summary_of(quiet=False)) == ["the run did not get quiet"]
    (problem,) = rounds._of_processes(summary_of(stuck={"p1": "Thread 1:\n  File x\n  File y\n  File z\n  File w\n"}))
    assert problem == "p1 hangs: Thread 1: < File x < File y < File z < ... (summary.json has the rest)"


def test_a_round_that_no_member_survives_is_a_problem() -> None:
    """All members were halted, and no message was left to look at: every question above has the answer "nothing to check"."""
    table = trace({"a": "view 1 a,b | send | crash", "b": "view 1 a,b | crash"})
    (problem,) = rounds._of_survivors(accepted_once(table), {"deaf": 2})
    assert problem == "no member survived, so nothing could be checked; reasons of halts: deaf (2)"
    alive = trace({"a": "view 1 a,b | accept | send | deliver a 1 | end", "b": "view 1 a,b | crash"})
    assert rounds._of_survivors(accepted_once(alive), {"deaf": 1}) == []


def test_only_who_has_a_full_disk_may_stop_for_its_trace() -> None:
    ended = {"p2#1": ProcessEnd("halted", "cannot write the spool of p2#1 to there: File too large; make room")}
    assert rounds._of_disks(summary_of(processes=ended, faults=(Fault(kind="disk", process="p2"),))) == []
    (problem,) = rounds._of_disks(summary_of(processes=ended, faults=(Fault(kind="disk", process="p3"),)))
    assert problem.startswith("p2#1 could not write its trace, and its disk was not full")


def test_what_is_left_in_common_memory_is_a_problem_where_somebody_ended_in_order() -> None:
    scenario = Round("mailbox", 1, 1, 4.0).scenario()
    assert rounds._of_memory(scenario, summary_of(left={"": 7})) == ["7 files are left in common memory"]
    crashed = {"p1": ProcessEnd("crashed")}
    assert rounds._of_memory(scenario, summary_of(left={"": 7}, processes=crashed)) == []
    nodes = Round("dedos", 1, 1, 4.0).scenario()
    ended = {"n1.a": ProcessEnd("alive"), "n2.a": ProcessEnd("crashed")}
    assert rounds._of_memory(nodes, summary_of(left={"n1": 1, "n2": 1}, processes=ended)) == [
        "1 files are left in common memory of node n1"
    ]


def test_an_engine_that_raises_is_a_problem_and_a_reason_is_none() -> None:
    table = pa.table(
        {
            "kind": ["crash", "crash", "crash"],
            "process": ["p1", "p2", "p3"],
            "detail": [
                '{"by":"protocol","reason":"excluded","text":"it was not heard"}',
                '{"by":"protocol","reason":"exception","text":"KeyError: 3"}',
                '{"by":"collector"}',
            ],
        }
    )
    codes, raised = rounds._halts(table)
    assert codes == {"excluded": 1, "exception": 1}
    assert raised == ["p2 was halted by a defect: KeyError: 3"]


def test_growth_is_told_with_its_figures() -> None:
    figure = Figure("p1", "files", 8, 40, 40, Trend(60, 20.0, 16.0, 5.2, 3.0))
    assert rounds._growth(figure) == (
        "files of p1 grow: by 16 to 40 in the last 60 samples (5.2 standard deviations; less than 3 would be allowed)"
    )


def test_many_problems_of_one_kind_are_some_and_a_number() -> None:
    assert rounds._few(str(number) for number in range(12))[-2:] == ["9", "and 2 more like these"]


# --- disks ------------------------------------------------------------------------------------------------------------

FULL = """\
protocol = "{protocol}"
members = 3
duration = "1500ms"
drain = "60s"
[[workload]]
rate = 100
[[fault]]
kind = "disk"
process = "p3"
at = "300ms"
room = {room}
"""


def test_a_process_on_common_memory_whose_disk_is_full_halts(tmp_path: Path, started: Started) -> None:
    result = live(scenario_of(FULL.format(protocol="mailbox", room=333)), tmp_path)
    started.assert_gone()
    assert_well(result)
    assert_lost_its_disk(result, tmp_path)
    assert result.summary.left == {}


def assert_lost_its_disk(result: LiveResult, tmp_path: Path) -> None:
    end = result.summary.processes["p3"]
    assert end.state == "halted"
    assert end.reason.startswith("cannot write the spool of p3")
    assert end.reason.endswith("File too large; make room or choose another directory")
    *_, last = rows(tmp_path, process="p3")
    assert (last["kind"], last["detail"]) == ("crash", '{"by":"collector"}')
    assert rows(tmp_path, process="p3", kind="fault")
    found = accepted_once(read(tmp_path / "trace").table)
    assert found.verdict == "holds"


MEMBER = """
import asyncio, pathlib, sys
import plainchant

async def main():
    peers = {"solo": "127.0.0.1:0"}
    sent = 0
    try:
        async with plainchant.join("g", me="solo", peers=peers, trace=sys.argv[1], run="r0") as group:
            while True:
                await (await group.send(bytes(100))).delivered()
                sent += 1
    except (plainchant.Halted, plainchant.Refused, plainchant.Lost) as halted:
        print(f"{type(halted).__name__}: {halted}")
    print(sent > 10, flush=True)

asyncio.run(main())
"""


def test_a_disk_that_is_really_full(tmp_path: Path) -> None:
    """A member records on a file system of 64 KiB, until there is no space left on the device."""
    if shutil.which("unshare") is None:
        pytest.skip("there is no unshare, so nobody can mount a small file system")
    small = tmp_path / "small"
    small.mkdir()
    (tmp_path / "member.py").write_text(MEMBER)
    member = f"{sys.executable} {tmp_path}/member.py {small}"
    script = f"mount -t tmpfs -o size=64k tmpfs {small} && {member} && cp -r {small} {tmp_path}/kept"
    mounted = subprocess.run(["unshare", "-rm", "sh", "-c", f"mount -t tmpfs tmpfs {small}"], capture_output=True, timeout=30)
    if mounted.returncode:
        pytest.skip(f"nobody may mount a file system here: {mounted.stderr.decode().strip()}")
    ended = subprocess.run(["unshare", "-rm", "sh", "-c", script], capture_output=True, text=True, timeout=60)
    assert ended.returncode == 0, ended.stderr
    assert "cannot write the spool of solo" in ended.stdout
    assert "No space left on device; make room or choose another directory" in ended.stdout
    assert ended.stdout.endswith("True\n")
    collect([tmp_path / "kept"], tmp_path / "out", alive=())
    found = read(tmp_path / "out" / "trace")
    assert validate(found.table, found.files) == []
    assert verify(found.table).verdict == "holds"
    assert found.table.num_rows > 30


# --- processors -------------------------------------------------------------------------------------------------------

BUSY = """\
protocol = "newtop"
members = 3
duration = "1200ms"
drain = "60s"
[[workload]]
senders = ["p2"]
rate = 1000
[[fault]]
kind = "busy"
process = "p2"
at = "200ms"
length = "600ms"
rate = 0.9
[[fault]]
kind = "disk"
process = "p3"
at = "900ms"
"""


def test_a_busy_process_is_stopped_again_and_again_and_one_without_a_disk_halts(tmp_path: Path, started: Started) -> None:
    result = live(scenario_of(BUSY), tmp_path)
    started.assert_gone()
    assert_well(result)
    assert_lost_its_disk(result, tmp_path)
    (fault,) = injected(tmp_path, process="p2")
    times = [row["time"] for row in rows(tmp_path, process="p2", kind="accept")]
    busy = [time for time in times if 0 <= time - fault["time"] <= 600 * MS]
    stops = [later - earlier for earlier, later in itertools.pairwise(busy) if later - earlier >= 10 * MS]
    assert len(stops) >= 5
    assert result.summary.processes["p2"].state == "alive"


def test_who_is_stopped_for_a_while_does_not_go_on_because_it_is_busy(tmp_path: Path) -> None:
    sent: list[signal.Signals] = []
    stopped: Any = SimpleNamespace(paused_until=0, _signal=sent.append)
    Process._go_on(stopped)
    assert sent == [signal.SIGCONT]
    stopped.paused_until = 5
    Process._go_on(stopped)
    assert sent == [signal.SIGCONT]


# --- who hangs --------------------------------------------------------------------------------------------------------

HANGING = """
import signal, sys

def hang_here(*arguments):
    while True:
        signal.pause()

signal.signal(signal.SIGUSR2, hang_here)
from plainchant.lab.live.worker import main
sys.exit(main())
"""


class Spell:
    """Makes a process hang when it is first seen."""

    every = 0.05

    def __init__(self) -> None:
        self.cast = False

    def look(self, processes: Sequence[Process], servers: Mapping[str, MailboxServer]) -> None:
        for each in processes:
            if each.place == "p3" and not self.cast:
                self.cast = True
                os.kill(each.pid, signal.SIGUSR2)


def test_who_hangs_is_named_and_says_where(tmp_path: Path, started: Started, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "WORKER", ("-c", HANGING))
    monkeypatch.setattr(process, "ANSWER_SECONDS", 0.3)
    monkeypatch.setattr(supervisor, "END_SECONDS", 0.5)
    scenario = scenario_of(FULL.format(protocol="newtop", room=0).split("[[fault]]")[0], 'duration="300ms"', 'drain="1s"')
    summary = supervisor.supervise(scenario, tmp_path / "spools", watch=Spell())
    started.assert_gone()
    assert not summary.quiet
    assert "hang_here" in summary.stuck["p3"]
    assert "p3" in summary.unexpected
    assert any(problem.startswith("p3 hangs: ") for problem in rounds._of_processes(summary))


def test_who_is_still_starting_does_not_hang(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is asked, and not sent a signal that would end it before it can say where it is."""
    starting = Process(tmp_path / "errors.txt")
    sent: list[signal.Signals] = []
    try:
        monkeypatch.setattr(starting, "_signal", sent.append)

        async def ask() -> str:
            return await starting.where()

        assert asyncio.run(ask()) == ""
        assert sent == []
        starting._heard(control.Done(1))
        asyncio.run(ask())
        assert sent == [signal.SIGUSR1]
    finally:
        starting.dismiss()


def test_what_is_said_before_a_process_can_be_spoken_to_comes_after_its_task(tmp_path: Path) -> None:
    """Between its being listed and its being connected others speak to it: nothing is lost, and nothing comes first."""
    each = Process(tmp_path / "errors.txt")
    task = control.Task(
        place="p1",
        incarnation=0,
        peers={},
        protocol="newtop",
        parameters={},
        packet=1,
        groups={},
        enter=(),
        forms=False,
        network=Network(),
        duration=1,
        seed="1",
        trace="",
        run="r0",
    )
    written: list[bytes] = []

    async def employ() -> None:
        employing = asyncio.ensure_future(each.employ(task, lambda process: None))
        await asyncio.sleep(0)
        assert each._writer is None
        each.tell(control.Quieten())
        pipe = "asyncio.unix_events._UnixWritePipeTransport.write"
        monkeypatch.setattr(pipe, lambda self, data: written.append(data))
        await employing
        each.tell(control.Begin(7))
        assert each._reading is not None
        each._reading.cancel()

    try:
        with pytest.MonkeyPatch.context() as monkeypatch:
            asyncio.run(employ())
    finally:
        each.dismiss()
    lines = b"".join(written).splitlines()
    assert [control.decode_task(lines[0]).place, *map(control.decode_command, lines[1:])] == [
        "p1",
        control.Quieten(),
        control.Begin(7),
    ]


def test_a_worker_that_is_awake_says_what_its_tasks_wait_for(tmp_path: Path, started: Started) -> None:
    """One that never gets quiet is asked where its tasks are."""
    scenario = scenario_of(FULL.format(protocol="newtop", room=0).split("[[fault]]")[0], 'duration="300ms"', 'drain="1ns"')
    summary = supervisor.supervise(scenario, tmp_path / "spools")
    if summary.not_quiet:
        assert any("_obey" in text for text in summary.stuck.values()), summary.stuck


# --- what chaos has found ---------------------------------------------------------------------------------------------


class Left:
    """A process that has left."""

    place = "p3"
    running = False
    killed = ""
    paused_until = 0
    end = ProcessEnd("left")

    def __init__(self, name: str) -> None:
        self.name = name


class Place:
    """A crew with one place; who comes is the last of it at once."""

    def __init__(self) -> None:
        self.latest = {"p3": Left("p3")}
        self.came: list[Fault] = []

    def groups_of(self, place: str) -> tuple[str, ...]:
        return ("g",)

    async def come(self, place: str, groups: tuple[str, ...], fault: Fault) -> None:
        self.came.append(fault)
        self.latest[place] = Left("p3#1")

    def heal(self) -> None:
        return


def test_a_place_that_two_faults_want_filled_gets_one_process() -> None:
    """One restart waits until its process has left; another comes at the very moment when it has. Two processes would want the
    same address, and nobody would end the first of them."""
    waiting, prompt = Fault(kind="restart", process="p3"), Fault(kind="restart", process="p3", at=Duration(1))

    async def main() -> None:
        crew: Any = Place()
        faults = LiveFaults(crew)
        injector = Injector(faults, crew, RandomFaults(), Random(1))
        injector._waiting["p3"] = waiting
        injector.gone("p3", crew.latest["p3"], halted=False)
        await injector.actions["restart"](prompt)
        await faults.run_until(time.monotonic_ns() + 50 * MS)
        assert crew.came == [prompt]
        assert injector.skipped == [(waiting, "p3#1 had come already")]

    asyncio.run(main())


def test_who_waited_alone_comes_when_its_process_has_left() -> None:
    waiting = Fault(kind="restart", process="p3")

    async def main() -> None:
        crew: Any = Place()
        faults = LiveFaults(crew)
        injector = Injector(faults, crew, RandomFaults(), Random(1))
        injector._waiting["p3"] = waiting
        injector.gone("p3", crew.latest["p3"], halted=False)
        await faults.run_until(time.monotonic_ns() + 50 * MS)
        assert crew.came == [waiting]
        assert injector.skipped == []

    asyncio.run(main())
