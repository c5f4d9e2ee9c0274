"""Common memory in the simulator: operations, waits, and everything that can come between them."""

from __future__ import annotations

import json
from itertools import pairwise
from random import Random
from typing import Any

import pytest

from plainchant.core.engine import Host
from plainchant.core.memory import FAILED, Connect, Connection, Disconnect, Entry, Layout, Nap, Port, Procedure, Rest, Until
from plainchant.core.model import SECOND, Batch, Duration, ProtocolError, ScenarioError, UsageError
from plainchant.group import Message
from plainchant.scenario.faults import draw_faults
from plainchant.scenario.model import Clock, Fault, Memory, RandomFaults, Scenario, Workload
from plainchant.sim import functions
from plainchant.sim import run as run_program
from plainchant.sim.clocks import ProcessClock, agreeing
from plainchant.sim.memory import SimCopy, SimMailboxServer

from .conftest import MS, US, Run, run_toy
from .memory_toy import BOUND, GROUP, MemoryRun, connect, count_up, operate, play, reading, why
from .toy import Flood

MIN, MAX = Memory(duration="min"), Memory(duration="max")
LAYOUT = Layout(2, 3, 1, 10)


def faults(run: Run, process: str | None = None) -> list[dict[str, Any]]:
    return [json.loads(row["detail"]) for row in run.of("fault", process)]


def timing(run: Run, process: str | None = None) -> list[dict[str, Any]]:
    return [detail for detail in faults(run, process) if detail["fault"] == "timing"]


class Log:
    """A script that every process runs, and what it wrote down: time, process, what."""

    def __init__(self) -> None:
        self.lines: list[tuple[int, str, Any]] = []

    def write(self, host: Host, what: Any) -> None:
        self.lines.append((host.now, host.me, what))

    def of(self, process: str) -> list[tuple[int, Any]]:
        return [(time, what) for time, name, what in self.lines if name == process]


class Counting(Log):
    """Adds one to a number in copy 0, again and again, without a pause."""

    def __init__(self, times: int = 5) -> None:
        super().__init__()
        self.times = times

    def __call__(self, host: Host) -> Procedure:
        yield connect(host)
        for _ in range(self.times):
            self.write(host, (yield operate(count_up)))


class Waiting(Log):
    """Waits for instants of its clock, and looks then."""

    def __init__(self, *instants: int) -> None:
        super().__init__()
        self.instants = instants

    def __call__(self, host: Host) -> Procedure:
        yield connect(host)
        for instant in self.instants:
            yield Until(instant)
            self.write(host, host.clock())
            yield operate(reading)


# --- operations -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "allowed"),
    [
        (MIN, {0}),
        (MAX, {BOUND}),
        (Memory(duration="extremes"), {0, BOUND}),
        (Memory(duration="max", share=0.5), {BOUND // 2}),
    ],
)
def test_operations_take_what_the_scenario_says(settings: Memory, allowed: set[int]) -> None:
    log = Counting(30)
    run = play(log, memory=settings, members=("p1",))
    times = [0, *(time for time, _ in log.of("p1"))]
    assert {later - earlier for earlier, later in pairwise(times)} == allowed
    assert timing(run) == []


def test_durations_are_spread_over_the_whole_range() -> None:
    log = Counting(80)
    play(log, members=("p1",))
    times = [time for time, _ in log.of("p1")]
    took = sorted(later - earlier for earlier, later in pairwise(times))
    assert 0 <= took[0] < BOUND // 10
    assert BOUND - BOUND // 10 < took[-1] <= BOUND


def test_a_share_above_one_exceeds_bounds_which_is_written_down() -> None:
    run = play(Counting(2), memory=Memory(duration="max", share=1.5), members=("p1",))
    late = {"fault": "timing", "timing": True, "operation": "look", "copy": 0, "took_ns": 150 * US, "bound_ns": BOUND}
    assert timing(run) == [late, late]


def test_steps_are_atomic_and_happen_at_the_end_of_their_operation() -> None:
    log = Counting(20)
    play(log, members=("p1", "p2", "p3"), memory=Memory(duration="extremes"))
    assert [number for _, _, number in log.lines] == list(range(1, 61))
    assert [time for time, _, _ in log.lines] == sorted(time for time, _, _ in log.lines)


def test_a_step_reads_the_clock_of_the_instant_at_which_it_happens() -> None:
    seen: list[int] = []

    def script(host: Host) -> Procedure:
        yield connect(host)
        yield operate(lambda copy: seen.append(host.clock()))

    play(script, members=("p1",), memory=MAX, clock=(Clock(offset=5),))
    assert seen == [BOUND + 5]


def test_what_a_procedure_asks_of_its_host_is_in_one_turn_with_the_operation() -> None:
    def script(host: Host) -> Procedure:
        yield connect(host)
        yield operate(count_up)
        batch = host.take(GROUP, 1000)
        assert batch is not None
        host.record("state", GROUP, text="took")
        host.deliver(GROUP, host.me, batch, 11)

    run = play(script, memory=MAX, members=("p1",), workload=(Workload(rate=1.0, count=1, size=5),))
    rows = [row for row in run.rows if row["kind"] in ("send", "state", "deliver")]
    assert [(row["kind"], row["true_time"]) for row in rows] == [(kind, BOUND) for kind in ("send", "state", "deliver")]
    assert rows[2]["rank"] == 11


def test_several_procedures_of_a_process_run_at_the_same_time() -> None:
    log = Counting(3)

    def script(host: Host) -> Procedure:
        yield connect(host)
        host.spawn("second", counting(host))
        yield from counting(host)

    def counting(host: Host) -> Procedure:
        for _ in range(3):
            log.write(host, (yield operate(count_up)))

    play(script, memory=MAX, members=("p1",))
    assert [(time // BOUND, number) for time, number in log.of("p1")] == [(1, 1), (1, 2), (2, 3), (2, 4), (3, 5), (3, 6)]


def test_operations_are_rows_if_wanted() -> None:
    run = play(Counting(2), memory=Memory(duration="max", operations=True), members=("p1",), fault=(module(1, 0.15),))
    rows = [(row["true_time"], row["group"], json.loads(row["detail"])) for row in run.of("operation")]
    assert rows == [
        (100 * US, GROUP, {"operation": "look", "copy": 0, "began": 0, "failed": False}),
        (200 * US, GROUP, {"operation": "look", "copy": 0, "began": 100 * US, "failed": True}),
    ]
    assert not play(Counting(2)).of("operation")


# --- arbitration ------------------------------------------------------------------------------------------------------


def test_a_module_does_one_operation_at_a_time() -> None:
    log = Counting(1)
    run = play(log, members=("p1", "p2", "p3"), memory=Memory(duration="min", service=40 * US))
    assert [(time, number) for time, _, number in log.lines] == [(40 * US, 1), (80 * US, 2), (120 * US, 3)]
    (late,) = timing(run)
    assert (late["took_ns"], late["bound_ns"]) == (120 * US, BOUND)


def test_who_has_a_module_for_himself_does_not_wait_longer_than_he_would() -> None:
    log = Counting(2)
    play(log, members=("p1",), memory=Memory(duration="max", service=40 * US))
    assert [time for time, _ in log.of("p1")] == [BOUND, 2 * BOUND]


def test_other_modules_are_free() -> None:
    log = Log()

    def script(host: Host) -> Procedure:
        yield connect(host)
        yield operate(reading, copy=0 if host.me == "p1" else 1)
        log.write(host, None)

    play(script, memory=Memory(duration="min", service=40 * US))
    assert [time for time, _, _ in log.lines] == [40 * US, 40 * US]


# --- waits and clocks -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("wait", [Until, Nap])
def test_waits_end_when_the_clock_of_the_process_shows_their_time(wait: type[Until | Nap]) -> None:
    log = Log()

    def script(host: Host) -> Procedure:
        for instant in (1 * MS, 500 * US, 2 * MS):
            yield wait(instant)
            log.write(host, host.clock())

    clocks = (Clock(process="p1", offset=30 * US), Clock(process="p2", offset=-20 * US))
    run = play(script, clock=clocks)
    assert log.of("p1") == [(970 * US, 1 * MS), (970 * US, 1 * MS), (1970 * US, 2 * MS)]
    assert log.of("p2") == [(1020 * US, 1 * MS), (1020 * US, 1 * MS), (2020 * US, 2 * MS)]
    assert faults(run) == []


def test_a_rest_lasts_as_long_when_the_clock_is_set() -> None:
    log = Log()

    def script(host: Host) -> Procedure:
        yield Rest(2 * MS)
        log.write(host, host.clock())

    run = play(script, fault=(Fault(kind="step", process="p1", at=Duration(1 * MS), offset=Duration(-3600 * SECOND)),))
    assert log.of("p1") == [(2 * MS, 2 * MS - 3600 * SECOND)]
    assert log.of("p2") == [(2 * MS, 2 * MS)]
    assert timing(run) == []


def test_a_wait_for_an_instant_that_has_passed_is_over_at_once_and_makes_nothing_late() -> None:
    log = Waiting(1 * MS, 500 * US, 600 * US)
    run = play(log, members=("p1",), memory=MAX)
    assert [time // US for time, _ in log.of("p1")] == [1000, 1100, 1200]
    assert timing(run) == []


@pytest.mark.parametrize("drift", [0.25, -0.25, 0.0001, -0.0001])
def test_a_clock_that_drifts_shows_a_time_at_the_first_instant_at_which_it_does(drift: float) -> None:
    clock = ProcessClock(17, drift)
    for shown in (18, 1000, 123_456_789, 10**12 + 1):
        now = clock.when(shown)
        assert clock.read(now) >= shown > clock.read(now - 1)


@pytest.mark.parametrize(("offset", "ends"), [(3, [2, 3]), (-1, [5, 7]), (1, [3, 5])])
def test_a_clock_that_is_set_moves_the_ends_of_waits(offset: int, ends: list[int]) -> None:
    log = Waiting(4 * MS, 6 * MS)
    run = play(log, members=("p1",), memory=MIN, fault=(Fault(kind="step", process="p1", at=2 * MS, offset=offset * MS),))
    assert [time // MS for time, _ in log.of("p1")] == ends
    assert faults(run) == [{"fault": "step", "process": "p1", "offset": offset * MS, "timing": True}]


@pytest.mark.parametrize("offset", [5, -5])
def test_a_clock_that_is_set_does_not_move_a_wait_that_is_over(offset: int) -> None:
    log = Waiting(1 * MS, 2 * MS)
    step = Fault(kind="step", process="p1", at=1500 * US, offset=offset * MS)
    play(log, members=("p1",), memory=MAX, fault=(pause(500 * US, 1200 * US), step))
    assert [time for time, _ in log.of("p1")] == [1700 * US, 1800 * US if offset > 0 else 7 * MS]


def test_steps_of_a_clock_are_timing_faults_only_where_clocks_are_compared() -> None:
    run = run_toy(Flood, fault=(Fault(kind="step", process="p1", at=2 * MS, offset=1),))
    assert faults(run) == [{"fault": "step", "process": "p1", "offset": 1}]


def test_clocks_that_differ_by_more_than_the_skew_are_written_down() -> None:
    clocks = (Clock(process="p1", offset=-30 * US), Clock(process="p3", offset=20 * US), Clock(process="p4", offset=21 * US))
    run = play(Waiting(), members=("p1", "p2", "p3", "p4"), clock=clocks)
    assert {row["process"] for row in run.of("fault")} == {"p4"}
    assert faults(run) == [{"fault": "clock", "timing": True, "offset": 21 * US, "drift": 0.0}]


def test_the_clock_of_a_process_that_is_elsewhere_is_not_compared() -> None:
    clocks = tuple(Clock(process=name, offset=1 * MS) for name in ("p2", "p3"))
    settings: dict[str, Any] = {"members": ("p1", "p2", "p3"), "clock": clocks}
    assert [row["process"] for row in play(Waiting(), **settings).of("fault")] == ["p1"]
    assert [row["process"] for row in play(Waiting(), **settings, parameters={"elsewhere": ("p3",)}).of("fault")] == ["p2"]


def test_a_process_that_comes_back_to_a_clock_that_was_set_has_a_timing_fault() -> None:
    away = (
        Fault(kind="crash", process="p1", at=1 * MS),
        Fault(kind="step", process="p1", at=2 * MS, offset=1 * MS),
        Fault(kind="restart", process="p1", at=3 * MS),
    )
    assert [detail["fault"] for detail in faults(play(Waiting(), fault=away), "p1#1")] == ["restart", "clock"]


def test_a_drift_that_exceeds_the_skew_before_the_end_is_wrong() -> None:
    right, fast = ProcessClock(), ProcessClock(0, 0.001)
    assert agreeing([right, fast, right], 50 * US, 40 * MS) == (0, 50 * US)
    assert fast.highest(40 * MS) == 40 * US
    assert fast.highest(60 * MS) == 60 * US
    assert ProcessClock(5, -0.001).lowest(60 * MS) == 5 - 60 * US


# --- crashes ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("events", range(1, 7))
def test_a_process_can_crash_between_any_two_operations(events: int) -> None:
    log = Log()

    def script(host: Host) -> Procedure:
        yield connect(host)
        for number in range(6):
            if host.me == "p1":
                log.write(host, (yield operate(count_up, copy=number % 2)))

    run = play(script, fault=(Fault(kind="crash", process="p1", after_events=events),))
    assert [copy.entry(0) for copy in run.server.mailboxes[GROUP].copies] == [
        Entry(done, 0, "p1") if done else None for done in ((events + 1) // 2, events // 2)
    ]
    assert len(log.lines) == events
    assert run.history("p1")[-2:] == ["fault", "crash"]


def test_an_operation_that_is_seen_after_a_pause_is_an_event_then() -> None:
    log = Counting()
    crash = Fault(kind="crash", process="p1", after_events=2)
    run = play(log, members=("p1",), memory=MAX, fault=(pause(150 * US, 1 * MS), crash))
    assert log.of("p1") == [(BOUND, 1), (1150 * US, 2)]
    assert run.of("crash")[0]["true_time"] == 1150 * US


def test_an_operation_that_is_under_way_in_a_crash_is_not_done() -> None:
    run = play(Counting(), members=("p1",), memory=MAX, fault=(Fault(kind="crash", process="p1", at=299 * US),))
    assert reading(run.server.mailboxes[GROUP].copies[0]) == 2


def test_a_crash_in_the_middle_of_a_broadcast_is_one_between_operations_of_a_send() -> None:
    ends = set()
    for seed in range(30):
        log = Log()

        def script(host: Host, log: Log = log) -> Procedure:
            yield connect(host)
            while host.me == "p1":
                yield operate(reading)
                for name in ("write", "flag"):
                    for copy in (0, 1):
                        log.write(host, (name, copy))
                        yield operate(count_up, copy, name=name)

        run = play(script, seed=seed, fault=(Fault(kind="crash", process="p1", at=1 * MS, mid_broadcast=True),))
        (crash,) = run.of("crash")
        detail = json.loads(crash["detail"])
        assert detail["mid_broadcast"]
        assert log.lines[-1][2] == (detail["operation"], detail["copy"])
        assert run.summary.processes["p1"].reason == "in the middle of a broadcast"
        ends.add(log.lines[-1][2])
    assert len(ends) == 4


def test_a_procedure_that_raises_halts_its_process() -> None:
    def script(host: Host) -> Procedure:
        yield connect(host)
        host.record("state", GROUP, text="lost")
        if host.me == "p1":
            raise ValueError("no")

    with pytest.raises(ProtocolError, match="the engine of p1 at 0s raised ValueError: no"):
        play(script)
    run = play(script, options={"tolerate": True})
    assert run.summary.processes["p1"].state == "halted"
    assert {row["process"] for row in run.of("state")} == {"p2"}


@pytest.mark.parametrize("request_", [operate(lambda copy: copy.fill(0, b"x" * 1001)), operate(reading, copy=2), 7])
def test_a_step_that_raises_and_what_is_no_request_halt_the_process(request_: Any) -> None:
    def script(host: Host) -> Procedure:
        yield connect(host)
        yield request_

    assert {end.state for end in play(script, options={"tolerate": True}).summary.processes.values()} == {"halted"}


def test_nobody_operates_on_a_mailbox_that_is_not_there() -> None:
    def script(host: Host) -> Procedure:
        yield operate(reading)

    with pytest.raises(ProtocolError, match="'g', which does not exist; connect to it first"):
        play(script)


def test_a_protocol_without_common_memory_cannot_spawn() -> None:
    class Eager(Flood):
        def start(self) -> None:
            self.host.spawn("eager", Waiting()(self.host))

    with pytest.raises(ProtocolError, match="without shared memory"):
        run_toy(Eager)


# --- modules ----------------------------------------------------------------------------------------------------------


def module(number: int, at_ms: float) -> Fault:
    return Fault(kind="module", at=int(at_ms * MS), module=number)  # type: ignore[arg-type]


def test_a_module_that_has_crashed_fails_for_everybody_and_for_ever() -> None:
    log = Log()

    def script(host: Host) -> Procedure:
        yield connect(host)
        for instant in range(1, 5):
            yield Until(instant * MS)
            log.write(host, ((yield operate(count_up)), (yield operate(count_up, copy=1))))

    run = play(script, memory=MIN, fault=(module(1, 2.5), module(1, 3.5)))
    assert [what for _, _, what in log.lines] == [(1, 1), (2, 2), (3, 3), (4, 4), *((FAILED, number) for number in (5, 6, 7, 8))]
    assert faults(run) == [{"fault": "module", "module": 1}] * 2
    assert {row["process"] for row in run.of("fault")} == {"p1", "p2"}


def test_an_operation_that_is_under_way_when_its_module_crashes_fails() -> None:
    log = Counting(2)
    play(log, members=("p1",), memory=MAX, fault=(module(1, 0.15),))
    assert log.of("p1") == [(BOUND, 1), (2 * BOUND, FAILED)]


# --- pauses and slow processes ----------------------------------------------------------------------------------------


def pause(at: int, length: int) -> Fault:
    return Fault(kind="pause", process="p1", at=at, length=length)  # type: ignore[arg-type]


def test_an_operation_that_was_begun_before_a_pause_is_done_and_seen_after_it() -> None:
    log = Log()

    def script(host: Host) -> Procedure:
        yield connect(host)
        if host.me == "p1":
            log.write(host, (yield operate(count_up)))
            log.write(host, (yield operate(count_up)))
        else:
            yield Until(1 * MS)
            log.write(host, (yield operate(reading)))

    run = play(script, memory=MAX, fault=(pause(50 * US, 2 * MS),))
    assert log.lines == [(1100 * US, "p2", 1), (2050 * US, "p1", 1), (2150 * US, "p1", 2)]
    assert timing(run, "p1") == [
        {"fault": "timing", "timing": True, "operation": "look", "copy": 0, "took_ns": 2050 * US, "bound_ns": BOUND}
    ]
    assert "timing" not in faults(run, "p1")[0], "the pause itself says nothing"


def test_the_next_operation_is_due_when_the_one_before_it_had_its_effect() -> None:
    def script(host: Host) -> Procedure:
        yield connect(host)
        yield operate(reading)
        yield operate(reading, bound=50 * US)

    run = play(script, members=("p1",), memory=Memory(duration="max", share=0.9), fault=(pause(85 * US, 14 * US),))
    (late,) = timing(run)
    assert (late["took_ns"], late["bound_ns"]) == ((99 + 45 - 90) * US, 50 * US)


def test_an_operation_that_is_late_and_seen_later_still_is_written_down_once() -> None:
    slow = Fault(kind="slow", process="p1", at=50 * US, length=100 * US, delay=300 * US)
    run = play(Counting(3), members=("p1",), memory=MAX, fault=(slow, pause(450 * US, 100 * US)))
    assert [late["took_ns"] // US for late in timing(run)] == [400, 150]


def test_a_wait_that_ends_in_a_pause_is_late_and_its_lateness_is_written_once() -> None:
    log = Waiting(1 * MS, 2 * MS)
    run = play(log, members=("p1",), memory=MAX, fault=(pause(900 * US, 300 * US),))
    assert [time for time, _ in log.of("p1")] == [1200 * US, 2 * MS]
    assert timing(run) == [{"fault": "timing", "timing": True, "operation": "wait", "took_ns": 200 * US, "bound_ns": 0}]


def test_a_pause_in_which_nothing_was_due_is_no_timing_fault() -> None:
    log = Waiting(1 * MS, 2 * MS)
    run = play(log, members=("p1",), memory=MAX, fault=(pause(1150 * US, 800 * US),))
    assert [time for time, _ in log.of("p1")] == [1 * MS, 2 * MS]
    assert timing(run) == []


def test_who_crashes_in_a_pause_has_done_what_he_had_begun_and_nothing_more() -> None:
    log = Counting()
    crash = Fault(kind="crash", process="p1", at=1 * MS)
    run = play(log, members=("p1",), memory=MAX, fault=(pause(50 * US, 2 * MS), crash))
    assert reading(run.server.mailboxes[GROUP].copies[0]) == 1
    assert log.lines == []


def test_operations_of_a_slow_process_take_longer_for_a_while() -> None:
    log = Counting(4)
    slow = Fault(kind="slow", process="p1", at=50 * US, length=200 * US, delay=300 * US)
    run = play(log, members=("p1",), memory=MAX, fault=(slow,))
    assert [time // US for time, _ in log.of("p1")] == [100, 500, 600, 700]
    said = faults(run)
    assert said[0] == {"fault": "slow", "process": "p1", "length": 200 * US, "delay": 300 * US, "timing": True}
    assert [detail["took_ns"] for detail in said[1:]] == [400 * US]


def test_nobody_is_slow_after_the_duration() -> None:
    log = Counting(4)
    slow = Fault(kind="slow", process="p1", at=50 * US, length=2 * MS, delay=300 * US)
    play(log, members=("p1",), memory=MAX, duration=450 * US, fault=(slow,))
    assert [time // US for time, _ in log.of("p1")] == [100, 500, 600, 700]


# --- the process membership service -----------------------------------------------------------------------------------


def test_everybody_is_told_of_a_crash_after_a_while() -> None:
    run = play(Waiting(), members=("p1", "p2", "p3"), fault=(Fault(kind="crash", process="p1", at=1 * MS),))
    assert run.failures == [(11 * MS, "p2", "p1"), (11 * MS, "p3", "p1")]


def test_a_run_does_not_end_before_everybody_was_told() -> None:
    run = play(Waiting(), memory=Memory(detection=20 * MS), fault=(Fault(kind="crash", process="p1", at=9 * MS),))
    assert run.failures == [(29 * MS, "p2", "p1")]


def test_everybody_is_told_at_once_when_somebody_reports_a_crash() -> None:
    def script(host: Host) -> Procedure:
        for instant in (1, 3, 4):
            yield Until(instant * MS)
            if host.me == "p3":
                host.report("p1", why("it is silent"))
                host.report("p2", why("it is silent"))

    run = play(script, members=("p1", "p2", "p3"), fault=(Fault(kind="crash", process="p1", at=2 * MS),))
    assert run.failures == [(3 * MS, "p2", "p1"), (3 * MS, "p3", "p1"), (4 * MS, "p3", "p1")]


def test_who_halts_has_failed_and_who_leaves_has_not() -> None:
    def script(host: Host) -> Procedure:
        yield Until(1 * MS)
        if host.me == "p1":
            host.halt(why("enough"))

    memory = Memory(detection=2 * MS)
    run = play(script, members=("p1", "p2", "p3"), memory=memory, fault=(Fault(kind="leave", process="p2", at=2 * MS),))
    assert run.failures == [(3 * MS, "p3", "p1")]


def test_who_starts_later_is_told_as_well() -> None:
    crashes = tuple(Fault(kind="crash", process=name, at=1 * MS) for name in ("p1", "p2"))
    run = play(Waiting(), memory=Memory(detection=1 * MS), fault=(*crashes, Fault(kind="restart", process="p1", at=5 * MS)))
    assert run.failures == [(6 * MS, "p1#1", "p1"), (6 * MS, "p1#1", "p2")]


def test_processes_that_somebody_is_connected_for_fail_with_him() -> None:
    ports: dict[str, Any] = {}

    def script(host: Host) -> Procedure:
        if host.me == "p1":
            ports["p3"] = yield Connect(GROUP, connect(host).layout, "p3")
            ports["p1"] = yield connect(host)
        yield Until(3 * MS)
        if host.me == "p2":
            host.report("p3", why("it is silent"))

    run = play(script, members=("p1", "p2", "p3"), fault=(Fault(kind="crash", process="p1", at=2 * MS),))
    assert ports == {"p3": Port(0, 0), "p1": Port(1, 0)}
    assert run.failures == [(3 * MS, "p2", "p1"), (3 * MS, "p3", "p1"), (3 * MS, "p2", "p3")]


# --- the mailbox server -----------------------------------------------------------------------------------------------


def test_the_server_gives_the_lowest_free_place() -> None:
    server = SimMailboxServer()
    server.create("box", LAYOUT, 77)
    assert [server.connect("box", LAYOUT, name) for name in ("a", "b", "c")] == [Port(0, 77), Port(1, 77), Port(2, 77)]
    assert server.connect("box", LAYOUT, "d") == (
        "all 3 places of mailbox 'box' are taken; wait until somebody has left, or make it with more"
    )
    server.disconnect("box", 1, "b")
    assert server.connect("box", LAYOUT, "d") == Port(1, 77)


def test_the_server_says_why_somebody_is_not_connected() -> None:
    server = SimMailboxServer()
    assert server.connect("box", LAYOUT, "a") == "there is no mailbox 'box'"
    server.create("box", LAYOUT, 0)
    server.connect("box", LAYOUT, "a")
    assert server.connect("box", LAYOUT, "a") == "a is connected to mailbox 'box' already"
    assert "give all its members the same parameters" in str(server.connect("box", Layout(3, 3, 1, 10), "b"))
    with pytest.raises(UsageError, match="there is a mailbox 'box' already"):
        server.create("box", LAYOUT, 0)


def test_a_mailbox_is_removed_when_nobody_is_connected_and_not_before() -> None:
    server = SimMailboxServer()
    server.create("other", LAYOUT, 0)
    server.create("box", LAYOUT, 0)
    server.connect("box", LAYOUT, "a")
    with pytest.raises(UsageError, match="cannot be removed while a are connected"):
        server.remove("box")
    server.disconnect("box", 0, "b")
    server.disconnect("box", 1, "a")
    server.disconnect("nowhere", 0, "a")
    assert server.names() == ("box", "other")
    server.disconnect("box", 0, "a")
    assert server.names() == ("other",)
    server.remove("other")
    with pytest.raises(UsageError, match="there is no mailbox 'other'; there are: none"):
        server.remove("other")


def test_processes_connect_by_requests_and_the_first_makes_the_mailbox() -> None:
    log = Log()

    def script(host: Host) -> Procedure:
        yield Until(host.clock() + (1 * MS if host.me == "p2" else 2 * MS))
        port = yield connect(host)
        log.write(host, port)
        yield Until(5 * MS)
        yield Disconnect(GROUP, port.place, host.me)
        log.write(host, (yield connect(host)))

    clocks = (Clock(process="p1", offset=30 * US), Clock(process="p2", offset=20 * US))
    run = play(script, clock=clocks)
    epoch = 1 * MS + 20 * US
    assert [what for _, _, what in log.lines] == [Port(0, epoch), Port(1, epoch), Port(1, epoch), Port(0, epoch)]
    assert run.server.names() == (GROUP,)


def test_a_copy_keeps_what_is_put_and_refuses_what_does_not_fit() -> None:
    copy = SimCopy(LAYOUT)
    assert (list(copy.entries()), list(copy.connections()), copy.entry(2), copy.data(2)) == ([], [], None, b"")
    here, there = Entry(5, 2, "c", size=3), Entry(4, 0, "a")
    copy.fill(2, b"abc")
    copy.put(2, here)
    copy.put(0, there)
    assert list(copy.entries()) == [(0, there), (2, here)]
    assert copy.data(2) == b"abc"
    gone = Entry(5, 2, "c", removed=True)
    copy.put(2, gone)
    assert list(copy.entries()) == [(0, there)]
    assert copy.entry(2) == gone
    copy.connect(2, Connection("c"))
    copy.connect(0, Connection("a"))
    copy.connect(2, Connection("c", gone=True))
    assert list(copy.connections()) == [(0, Connection("a")), (2, Connection("c", gone=True))]
    assert copy.connection(1) is None
    with pytest.raises(ProtocolError, match="there is no slot 3: this mailbox has 3"):
        copy.put(3, here)
    with pytest.raises(ProtocolError, match="there is no slot 3"):
        copy.fill(3, b"")
    with pytest.raises(ProtocolError, match="11 bytes do not fit into an entry, which has room for 10"):
        copy.fill(0, bytes(11))
    with pytest.raises(ProtocolError, match="there is no place 3"):
        copy.connect(3, Connection("d"))


# --- hosts ------------------------------------------------------------------------------------------------------------


def test_views_are_not_in_the_trace_where_promises_do_not_go_by_them() -> None:
    def script(host: Host) -> Procedure:
        yield Until(500 * US)
        assert host.max_packet == 1000
        batch = host.take(GROUP, 1000)
        assert batch is not None
        host.deliver(GROUP, host.me, batch, 9)

    run = play(script, workload=(Workload(rate=1.0, count=1),), fault=(Fault(kind="leave", process="p1", at=1 * MS),))
    assert run.of("view") == []
    assert [(row["process"], row["rank"]) for row in run.of("join")] == [("p1", 7), ("p2", 7)]
    assert [row["process"] for row in run.of("leave")] == ["p1"]
    assert {row["view"] for row in run.rows} == {None}
    assert len(run.of("deliver")) == 2


def test_processes_that_only_send_neither_join_nor_leave() -> None:
    def script(host: Host) -> Procedure:
        yield Until(1 * MS)
        assert isinstance(host.take(GROUP, 1000), Batch)

    leave = Fault(kind="leave", process="p2", at=5 * MS)
    run = play(script, parameters={"senders": ("p2",)}, workload=(Workload(rate=1.0, count=1),), fault=(leave,))
    assert [row["process"] for row in run.of("join")] == ["p1"]
    assert [row["process"] for row in run.of("send")] == ["p1", "p2"]
    assert run.of("leave") == []
    assert run.summary.processes["p2"].state == "left"


def test_programs_run_on_common_memory() -> None:
    async def main(group: Any) -> list[bytes]:
        await group.send(group.me.encode())
        got: list[bytes] = []
        async for event in group:
            got += [event.payload] if isinstance(event, Message) else []
            if len(got) == 3:
                break
        return got

    result = run_program(main, members=3, protocol="mailbox", memory={"duration": "max", "detection": "1ms"})
    assert sorted(result.returned["p1"]) == [b"p1", b"p2", b"p3"]
    assert result.returned["p1"] == result.returned["p2"] == result.returned["p3"]
    assert result.verdict == "holds"
    assert result.scenario.memory == Memory(duration="max", detection=1 * MS)


def test_applications_that_only_send_send_nothing_that_goes_in_pieces() -> None:
    refused: list[str] = []

    def start(member: Any) -> None:
        for size in (1000, 1001):
            try:
                member.send(GROUP, bytes(size))
            except UsageError as error:
                refused.append(f"{member.name}: {error}")

    options = {"applications": lambda name: functions(on_start=start)}
    run = play(Waiting(), parameters={"senders": ("p2",)}, options=options, drain=0)
    (said,) = refused
    assert said.startswith("p2: p2 only sends, so its messages have at most 1000 bytes, not 1001: send less")
    assert run.summary.messages_sent == 0
    with pytest.raises(ScenarioError, match="p2 only sends, so its messages have at most 1000 bytes, not 2000"):
        play(Waiting(), parameters={"senders": ("p2",)}, workload=(Workload(rate=1.0, size=2000),))
    play(Waiting(), parameters={"senders": ("p2",)}, workload=(Workload(rate=1.0, size=2000, senders=("p1",)),), drain=0)


def test_programs_that_only_send_send_nothing_that_goes_in_pieces() -> None:
    async def main(group: Any) -> str:
        try:
            await group.send(bytes(2000))
        except UsageError as error:
            return str(error)
        return "sent"

    parameters = {"senders": ("p3",), "room": 1000}
    result = run_program(main, members=3, protocol="mailbox", parameters=parameters)
    assert result.returned["p1"] == "sent"
    assert "1000 bytes" in result.returned["p3"]


# --- chance -----------------------------------------------------------------------------------------------------------


def random_run(seed: int) -> MemoryRun:
    rates = RandomFaults(crash=100.0, pause=200.0, step=50.0, module=100.0, slow=200.0, pause_length=1 * MS, restart_after=2 * MS)

    def script(host: Host) -> Procedure:
        yield connect(host)
        while True:
            host.record("state", GROUP, result=str((yield operate(count_up, name="write"))))
            yield Nap((host.clock() // (200 * US) + 1) * 200 * US)

    return play(script, members=("p1", "p2", "p3"), seed=seed, random=rates, memory=Memory(service=5 * US), drain=0)


def test_one_seed_decides_everything() -> None:
    tables = [random_run(seed).table for seed in (3, 3, 4)]
    assert tables[0].equals(tables[1])
    assert not tables[0].equals(tables[2])
    kinds = {detail["fault"] for seed in range(6) for detail in faults(random_run(seed))}
    assert kinds >= {"crash", "restart", "pause", "step", "module", "slow", "timing"}


def test_drawn_faults_leave_one_module_and_a_majority_without_timing_faults() -> None:
    rates = RandomFaults(module=500.0, slow=100.0, step=300.0, step_most=7 * US)
    scheduled = (module(2, 1.0),)
    scenario = Scenario(members=("p1", "p2", "p3", "p4", "p5"), duration=100 * MS, random=rates, fault=scheduled)
    for seed in range(5):
        drawn = draw_faults(scenario, Random(seed), 3)
        assert [fault.module in (1, 3) for fault in drawn if fault.kind == "module"] == [True]
        steps = [fault for fault in drawn if fault.kind == "step"]
        assert len({fault.process for fault in steps}) == len(steps) <= 2
        assert all(abs(fault.offset) <= 7 * US for fault in steps)
