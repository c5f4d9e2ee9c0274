"""What happens to processes: crashes, pauses, restarts, joins and leaves, by schedule or drawn from the seed."""

from __future__ import annotations

import json
from random import Random
from typing import Any

import pytest

from plainchant.core.model import Duration, UsageError
from plainchant.scenario.faults import draw_faults
from plainchant.scenario.model import Fault, Network, RandomFaults, Scenario, Workload

from .conftest import MS, SECOND, US, Run, run_toy
from .toy import Flood

FIVE = ("p1", "p2", "p3", "p4", "p5")


def fault(kind: str, at_ms: float, process: str = "", **settings: Any) -> Fault:
    return Fault(kind=kind, at=Duration(int(at_ms * MS)), process=process, **settings)


def run_faults(*faults: Fault, **settings: Any) -> Run:
    return run_toy(Flood, fault=faults, **{"workload": (Workload(rate=1000.0),), **settings})


def test_a_crash_at_a_time_is_the_end_of_a_history() -> None:
    run = run_faults(fault("crash", 20.5, "p2"))
    assert run.history("p2")[-2:] == ["fault", "crash"]
    (crash,) = run.of("crash")
    assert (crash["true_time"], crash["detail"]) == (20_500 * US, '{"by":"fault"}')
    assert len(run.delivered("p1", "p2")) == 21
    assert run.summary.processes["p2"].state == "crashed"
    assert run.summary.quiet


def test_a_crash_after_so_many_events() -> None:
    run = run_faults(Fault(kind="crash", process="p2", after_events=7))
    assert len([row for row in run.of("deliver", "p2") if row["sender"] != "p2"]) == 7
    assert run.history("p2")[-2:] == ["fault", "crash"]
    (row,) = run.of("fault")
    assert json.loads(row["detail"]) == {"fault": "crash", "process": "p2", "after_events": 7}


def test_a_crash_in_the_middle_of_a_broadcast_reaches_some_and_not_all() -> None:
    sizes = set()
    for seed in range(12):
        run = run_faults(fault("crash", 20.5, "p1", mid_broadcast=True), members=FIVE, seed=seed)
        reached = [name for name in FIVE[1:] if ("p1", 22) in run.delivered(name)]
        assert 1 <= len(reached) <= 3
        sizes.add(tuple(reached))
        assert run.of("crash")[0]["true_time"] == 21 * MS
        assert ("p1", 22) not in run.delivered("p1"), "what it asked for after that packet is lost"
        assert run.of("send", "p1")[-1]["seq"] == 22
        assert ("p1", 23) not in [pair for name in FIVE for pair in run.delivered(name)]
    assert len(sizes) > 4


def test_a_paused_process_handles_what_waited_in_order_when_it_goes_on() -> None:
    run = run_faults(fault("pause", 20.5, "p2", length=30 * MS), workload=(Workload(senders=("p1",), rate=1000.0),))
    times = [row["true_time"] for row in run.of("deliver", "p2")]
    assert [seq for _, seq in run.delivered("p2")] == list(range(1, 101))
    assert not [time for time in times if 20_500 * US < time < 50_500 * US]
    assert times.count(50_500 * US) == 30
    assert [row["detail"] for row in run.of("fault")] == ['{"fault":"pause","length":30000000,"process":"p2"}']


def test_timers_of_a_paused_process_wait_and_may_still_be_cancelled() -> None:
    expired: list[tuple[str, int]] = []

    class Timed(Flood):
        def start(self) -> None:
            if self.host.me == "p1":
                self.host.set_timer("first", 10 * MS)
                self.host.set_timer("second", 15 * MS)
                self.host.set_timer("third", 20 * MS)

        def expire(self, timer: Any) -> None:
            expired.append((timer, self.host.now))
            self.host.cancel_timer("second")

    run_toy(Timed, workload=(), fault=(fault("pause", 5, "p1", length=50 * MS),))
    assert expired == [("first", 55 * MS), ("third", 55 * MS)]


def test_a_buffer_also_bounds_what_waits_for_a_paused_process() -> None:
    run = run_faults(
        fault("pause", 20.5, "p2", length=30 * MS),
        network=Network(buffer=10),
        workload=(Workload(senders=("p1",), rate=1000.0),),
    )
    assert run.summary.packets_lost == 20


def test_a_pause_ends_when_the_run_is_drained() -> None:
    run = run_faults(fault("pause", 20.5, "p2", length=SECOND), workload=(Workload(senders=("p1",), rate=1000.0),))
    assert len(run.delivered("p2")) == 100
    assert run.of("deliver", "p2")[-1]["true_time"] >= 100 * MS


def test_a_restarted_process_is_a_new_incarnation_that_joins_by_its_contacts_and_sends_again() -> None:
    run = run_faults(
        fault("crash", 20.5, "p2"),
        fault("restart", 40.5, "p2"),
        fault("crash", 60.5, "p2"),
        fault("restart", 70.5, "p2"),
    )
    assert run.history("p2#1")[:4] == ["start", "fault", "join", "view"]
    assert run.of("view", "p2#1")[0]["members"] == ["p1", "p3", "p2#1"]
    assert run.of("view", "p2#2")[0]["members"] == ["p1", "p3", "p2#2"]
    assert run.delivered("p2#1")[0] == ("p2#1", 1)
    assert len(run.delivered("p1", "p2#2")) > 20
    assert run.history("p2#2")[-1] == "end"


def test_a_restart_of_a_live_process_does_nothing() -> None:
    run = run_faults(fault("restart", 20.5, "p2"))
    assert "p2#1" not in run.summary.processes


def test_a_later_process_joins_by_a_fault() -> None:
    run = run_faults(fault("join", 20.5, "p4"), later=("p4",))
    assert run.history("p4")[:4] == ["start", "fault", "join", "view"]
    assert run.of("view", "p4")[0]["members"] == ["p1", "p2", "p3", "p4"]
    assert len(run.delivered("p1", "p4")) > 70


def test_a_process_that_left_its_last_group_is_gone_and_may_come_back() -> None:
    run = run_faults(fault("leave", 20.5, "p2"), fault("restart", 50.5, "p2"))
    assert run.history("p2")[-1] == "leave"
    assert run.summary.processes["p2"].state == "left"
    assert run.of("deliver", "p2")[-1]["true_time"] < 21 * MS
    assert len(run.delivered("p1", "p2#1")) > 40


def test_a_process_that_leaves_one_group_stays_in_the_other() -> None:
    groups = {"g": ("p1", "p2", "p3"), "h": ("p1", "p2", "p3")}
    run = run_faults(fault("leave", 20.5, "p2", group="h"), groups=groups)
    assert run.history("p2")[-1] == "end"
    last = {group: max(row["true_time"] for row in run.of("deliver", "p2") if row["group"] == group) for group in groups}
    assert last["g"] > 90 * MS
    # What others send it afterwards is the toy's own fault: it does not look at who is a member.
    assert max(row["true_time"] for row in run.of("send", "p2") if row["group"] == "h") < 21 * MS


class Deaf(Flood):
    """Takes no messages, and needs 5 ms to leave."""

    def ready(self, group: str) -> None:
        pass

    def leave(self, group: str) -> None:
        self.host.set_timer(group, self.host.clock() + 5 * MS)

    def expire(self, timer: Any) -> None:
        self.host.left(timer)


def test_messages_that_a_process_had_not_sent_when_it_left_are_dropped_and_counted() -> None:
    run = run_toy(Deaf, fault=(fault("leave", 20.5, "p2"),), workload=(Workload(senders=("p2",), rate=1000.0),))
    assert run.history("p2")[-2:] == ["drop", "leave"]
    (drop,) = run.of("drop")
    # Handed over at 0, 1, ... 20 ms: nothing is accepted once it was asked to leave, though it left only at 25.5 ms.
    assert json.loads(drop["detail"])["messages"] == 21
    assert run.summary.messages_dropped == 21
    assert run.summary.quiet


def test_who_leaves_with_nothing_to_send_drops_nothing() -> None:
    run = run_faults(fault("leave", 20.5, "p2"))
    assert not run.of("drop")
    assert run.summary.messages_dropped == 0


def test_who_is_back_in_a_group_goes_on_at_its_rate_and_after_its_last_number() -> None:
    groups = {"g": ("p1", "p2"), "h": ("p1", "p2")}
    there_and_back = fault("leave", 20.2, "p2", group="h"), fault("join", 20.7, "p2", group="h")
    loop = Workload(senders=("p2",), group="h", closed=1)
    for workload, most in ((Workload(senders=("p2",), group="h", rate=1000.0), 101), (loop, 1 << 62)):
        run = run_faults(*there_and_back, members=("p1", "p2"), groups=groups, workload=(workload,))
        sent = [row["seq"] for row in run.of("send", "p2")]
        assert sent == list(range(1, len(sent) + 1))
        assert 90 < len(sent) <= most


def test_a_fault_after_the_duration_is_refused() -> None:
    with pytest.raises(UsageError, match="lasts 100ms"):
        run_faults(fault("crash", 105, "p2"))


def test_the_clock_of_a_process_that_is_down_can_be_set() -> None:
    step = fault("step", 30, "p2", offset=7 * MS)
    run = run_faults(fault("crash", 20.5, "p2"), step, fault("restart", 50.5, "p2"))
    assert {row["time"] - row["true_time"] for row in run.rows if row["process"] == "p2#1"} == {7 * MS}


def test_who_is_in_no_part_of_a_partition_is_lost_until_it_is_healed() -> None:
    parts = (("p1", "p2"),)
    split = Scenario(
        protocol="toy",
        members=FIVE,
        duration=20 * SECOND,
        random=RandomFaults(pause=20, most_lost=3),
        fault=(Fault(kind="partition", at=Duration(0), parts=parts), fault("heal", 10_000)),
    )
    drawn = draw_faults(split, Random("1"))
    assert min(fault.at for fault in drawn) >= 10 * SECOND
    assert {fault.process for fault in drawn} == set(FIVE)


def test_who_would_come_back_after_the_end_is_not_in_the_schedule() -> None:
    drawn = draw_faults(scenario(crash=5, restart_after=10 * SECOND), Random("1"))
    assert drawn
    assert max(fault.at for fault in drawn) < 20 * SECOND


def scenario(**rates: Any) -> Scenario:
    return Scenario(protocol="toy", members=FIVE, duration=20 * SECOND, random=RandomFaults(**rates))


def test_drawn_faults_are_the_seeds() -> None:
    everything = scenario(crash=1, pause=1, partition=1, cut=1, clog=1, leave=1, step=1)
    assert draw_faults(everything, Random("1")) == draw_faults(everything, Random("1"))
    assert draw_faults(everything, Random("1")) != draw_faults(everything, Random("2"))
    kinds = {fault.kind for fault in draw_faults(everything, Random("1"))}
    assert kinds == {"crash", "restart", "pause", "partition", "cut", "clog", "leave", "step"}


@pytest.mark.parametrize(("most_lost", "expected"), [(0, 2), (1, 1), (3, 3)])
def test_never_more_processes_are_lost_than_allowed(most_lost: int, expected: int) -> None:
    drawn = draw_faults(scenario(crash=3, pause=3, partition=1, cut=1, leave=1, most_lost=most_lost), Random("3"))
    highest = max(len(lost_at(drawn, fault.at)) for fault in drawn)
    assert highest == expected


def lost_at(faults: tuple[Fault, ...], time: int) -> set[str]:
    """Who is lost right after everything that happens at a time."""
    lost: dict[str, int] = {}
    for fault in faults:
        if fault.at > time:
            break
        end = fault.at + fault.length
        if fault.kind in ("crash", "leave"):
            lost[fault.process] = 1 << 62
        elif fault.kind == "restart":
            lost.pop(fault.process)
        elif fault.kind == "pause":
            lost[fault.process] = end
        elif fault.kind == "cut":
            lost[fault.source] = end
        elif fault.kind == "partition":
            lost.update({name: end for part in fault.parts[1:] for name in part})
    return {name for name, end in lost.items() if end > time}


def test_half_of_the_drawn_crashes_are_in_the_middle_of_a_broadcast() -> None:
    crashes = [fault for fault in draw_faults(scenario(crash=5), Random("1")) if fault.kind == "crash"]
    share = sum(fault.mid_broadcast for fault in crashes) / len(crashes)
    assert len(crashes) > 30
    assert 0.3 < share < 0.7


# --- processors that are shared, disks that are full, members that stay ---------------------------------------------------


def test_a_busy_process_runs_in_turns() -> None:
    busy = fault("busy", 20.5, "p2", length=60 * MS, rate=0.75)
    run = run_faults(busy, workload=(Workload(senders=("p1",), rate=1000.0),))
    assert [seq for _, seq in run.delivered("p2")] == list(range(1, 101))
    times = {row["true_time"] for row in run.of("deliver", "p2")}
    # Of every 20 ms it is stopped for 15, three times; what waited is handled when it goes on.
    for turn in range(3):
        start = 20_500 * US + turn * 20 * MS
        assert not [time for time in times if start < time < start + 15 * MS]
        assert start + 15 * MS in times
        assert [time for time in times if start + 15 * MS < time < start + 20 * MS]
    (row,) = run.of("fault")
    assert json.loads(row["detail"]) == {"fault": "busy", "process": "p2", "length": 60 * MS, "rate": 0.75}


def test_a_pause_is_not_ended_by_being_busy_and_both_end_with_the_run() -> None:
    run = run_faults(
        fault("busy", 20, "p2", length=10 * SECOND, rate=0.5),
        fault("pause", 25.5, "p2", length=30 * MS),
        workload=(Workload(senders=("p1",), rate=1000.0),),
    )
    times = [row["true_time"] for row in run.of("deliver", "p2")]
    assert not [time for time in times if 25_500 * US < time < 55_500 * US]
    assert len(times) == 100


def test_a_process_whose_disk_is_full_halts() -> None:
    run = run_faults(fault("disk", 20.5, "p2", room=100), fault("restart", 40.5, "p2"))
    assert run.history("p2")[-2:] == ["fault", "crash"]
    end = run.summary.processes["p2"]
    assert (end.state, end.reason) == ("halted", "its trace cannot be written: the disk is full")
    assert json.loads(run.of("crash", "p2")[0]["detail"])["reason"] == "trace"
    assert run.summary.processes["p2#1"].state == "alive"


def test_those_who_stay_are_never_lost_and_others_are() -> None:
    plan = scenario(crash=3, pause=3, partition=1, cut=1, leave=1, disk=3, busy=3, steady=("p1", "p4"))
    drawn = draw_faults(plan, Random("3"))
    lost = [each for each in drawn if each.kind in ("crash", "pause", "leave", "disk")]
    assert {each.process for each in lost} == {"p2", "p3", "p5"}
    for each in drawn:
        if each.kind == "partition":
            most = max(len(part) for part in each.parts)
            assert any({"p1", "p4"} <= set(part) for part in each.parts if len(part) == most)
        if each.kind == "cut":
            assert each.source not in ("p1", "p4")
    assert {each.process for each in drawn if each.kind == "busy"} == {"p1", "p2", "p3", "p4", "p5"}
    disks = [each for each in drawn if each.kind == "disk"]
    assert len({each.room for each in disks}) > 1
    backs = [(back.process, back.at) for back in drawn if back.kind == "restart"]
    assert all(any(process == each.process and at > each.at for process, at in backs) for each in disks)
