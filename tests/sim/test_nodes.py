"""Nodes in the simulator: memory, failures and crashes by node, naps that news end, networks, who only serves."""

from __future__ import annotations

import json
from collections import Counter
from itertools import pairwise
from random import Random
from typing import Any

import pytest

from plainchant.core.engine import Host
from plainchant.core.memory import FAILED, Connection, Copy, Directory, Disconnect, Entry, Header, Nap, Operate, Procedure, Until
from plainchant.core.model import ProtocolError, Reason, ScenarioError
from plainchant.group import Message
from plainchant.scenario.faults import Units, draw_faults
from plainchant.scenario.model import Clock, Delay, Fault, Memory, Network, RandomFaults, Scenario
from plainchant.sim import run as run_program
from plainchant.sim.host import SimHost
from plainchant.sim.memory import SimCopy, SimMemory

from .conftest import MS, US, Run
from .nodes_toy import LAYOUT, MAILBOX, TWO_BY_TWO, NodesRun, Word, connect, nothing, operate, play

MIN, MAX = Memory(duration="min"), Memory(duration="max")


def count_up(copy: Copy) -> int:
    header = copy.header()
    copy.put_header(Header(next=header.next + 1))
    return header.next


def details(run: Run, kind: str, process: str) -> list[dict[str, Any]]:
    return [json.loads(row["detail"]) for row in run.of(kind, process)]


def crash(process: str, at: int) -> Fault:
    return Fault(kind="crash", process=process, at=at * MS)


def restart(process: str, at: int) -> Fault:
    return Fault(kind="restart", process=process, at=at * MS)


def on_node(node: str, at: int) -> Fault:
    return Fault(kind="node", node=node, at=at * MS)


class Log:
    """What procedures wrote down: time, process, what."""

    def __init__(self) -> None:
        self.lines: list[tuple[int, str, Any]] = []

    def write(self, host: Host, what: Any = None) -> None:
        self.lines.append((host.now, host.me, what))

    def of(self, process: str) -> list[Any]:
        return [what for _, name, what in self.lines if name == process]

    def times(self, process: str) -> list[int]:
        return [time for time, name, _ in self.lines if name == process]


# --- memory by node ---------------------------------------------------------------------------------------------------


def test_each_node_has_its_own_mailboxes() -> None:
    log = Log()

    def script(host: Host) -> Procedure:
        yield connect()
        log.write(host, (yield operate(count_up)))

    run = play(script, memory=MAX)
    assert [log.of(name) for name in TWO_BY_TWO] == [[1], [2], [1], [2]]
    assert list(run.simulation.memories) == ["a", "b"]
    assert run.simulation.memory is None
    for memory in run.simulation.memories.values():
        assert memory.server.mailboxes[MAILBOX].copies[0].header().next == 3


def test_a_module_crashes_on_its_node_only_and_is_written_down_there() -> None:
    log = Log()

    def script(host: Host) -> Procedure:
        yield connect()
        yield Until(2 * MS)
        log.write(host, (yield operate(count_up)))

    run = play(script, fault=(Fault(kind="module", node="b", module=1, at=1 * MS),), members=("a.p1", "b.p1"))
    assert log.of("a.p1") == [1]
    assert log.of("b.p1") == [FAILED]
    assert run.of("fault", "a.p1") == []
    assert details(run, "fault", "b.p1") == [{"fault": "module", "module": 1, "node": "b"}]
    assert run.simulation.memories["b"].working == (2,)


def test_failures_are_told_on_the_same_node_only() -> None:
    run = play(nothing, fault=(crash("a.p1", 2),), memory=Memory(detection=3 * MS))
    assert run.lines == [(5 * MS, "a.p2", "a.p1 has failed")]


def test_a_report_of_a_process_of_another_node_is_in_vain() -> None:
    def script(host: Host) -> Procedure:
        yield Until(4 * MS)
        host.report("a.p1", Reason("test", "it is silent"))

    run = play(script, fault=(crash("a.p1", 2),), memory=Memory(detection=100 * MS), members=("a.p1", "b.p1"), drain=0)
    assert run.lines == []


def test_who_comes_back_finds_the_memory_of_its_node_and_hears_who_failed_there() -> None:
    log = Log()

    def script(host: Host) -> Procedure:
        yield connect()
        log.write(host, (yield operate(count_up)))

    away = (crash("a.p1", 1), crash("a.p2", 1), crash("b.p1", 1), restart("a.p2", 5))
    run = play(script, fault=away, memory=Memory(duration="min", detection=1 * MS), members=("a.p1", "a.p2", "a.p3", "b.p1"))
    assert log.of("a.p2#1") == [4]
    assert sorted(what for _, what in run.heard("a.p2#1")) == ["a.p1 has failed", "a.p2 has failed"]


def test_who_comes_back_where_all_have_died_finds_memory_made_anew() -> None:
    log = Log()

    def script(host: Host) -> Procedure:
        yield connect()
        log.write(host, (yield operate(count_up)))

    away = (crash("a.p1", 1), crash("a.p2", 1), restart("a.p2", 5))
    play(script, fault=away, memory=Memory(duration="min", detection=1 * MS), members=("a.p1", "a.p2", "b.p1"))
    assert log.of("a.p2#1") == [1]


def test_being_late_is_no_fault_on_nodes() -> None:
    def script(host: Host) -> Procedure:
        yield connect()
        for _ in range(20):
            yield operate(count_up)
            yield Until(host.clock() + 100 * US)

    slow = Fault(kind="slow", process="b.p1", at=1 * MS, delay=1 * MS, length=2 * MS)
    paused = Fault(kind="pause", process="a.p1", at=1 * MS, length=2 * MS)
    stepped = Fault(kind="step", process="a.p2", at=1 * MS, offset=5 * MS)
    run = play(script, fault=(slow, paused, stepped), clock=(Clock(process="b.p2", offset=9 * MS),))
    told = {row["process"]: details(run, "fault", row["process"]) for row in run.of("fault")}
    assert {name: [detail["fault"] for detail in rows] for name, rows in told.items()} == {
        "a.p1": ["pause"],
        "a.p2": ["step"],
        "b.p1": ["slow"],
    }
    assert not any("timing" in detail for rows in told.values() for detail in rows)


# --- the mailbox server -----------------------------------------------------------------------------------------------


def test_the_directory_has_mailboxes_of_the_node_and_who_is_connected_in_that_order() -> None:
    log = Log()

    def script(host: Host) -> Procedure:
        begins = {"a.p1": 3, "a.p2": 1, "a.p3": 2, "b.p1": 1}[host.me]
        yield Until(begins * MS)
        port = yield connect()
        if host.me == "a.p2":
            yield connect("g")
        yield Until((begins + 4) * MS)
        log.write(host, (yield Directory()))
        if host.me == "a.p2":
            yield Disconnect(MAILBOX, port.place, host.me)
            yield connect()

    play(script, members=("a.p1", "a.p2", "a.p3", "b.p1"))
    assert log.of("b.p1") == [{MAILBOX: ("b.p1",)}]
    assert log.of("a.p2") == [{MAILBOX: ("a.p2", "a.p3", "a.p1"), "g": ("a.p2",)}]
    assert log.of("a.p1") == [{MAILBOX: ("a.p3", "a.p1", "a.p2"), "g": ("a.p2",)}]


def test_a_copy_has_a_header_and_places_that_become_free() -> None:
    copy = SimCopy(LAYOUT)
    assert copy.header() == Header()
    copy.put_header(Header(next=5, oldest=3, state=1))
    assert copy.header() == Header(next=5, oldest=3, state=1)
    for place in (2, 0):
        copy.connect(place, Connection(f"p{place}", sends=True))
    copy.disconnect(2)
    copy.disconnect(1)
    assert copy.connections() == ((0, Connection("p0", sends=True)),)


# --- naps -------------------------------------------------------------------------------------------------------------


class Sleeper(Log):
    """``a.p1`` looks and naps; ``a.p2`` writes at the times given, with news or without."""

    def __init__(self, *writes: int, news: bool = True, mailbox: str = MAILBOX, latest: int = 9 * MS, copy: int = 0) -> None:
        super().__init__()
        self.writes = writes
        self.news = news
        self.mailbox = mailbox
        self.latest = latest
        self.copy = copy

    def __call__(self, host: Host) -> Procedure:
        for name in dict.fromkeys((MAILBOX, self.mailbox)):
            yield connect(name)
        if host.me == "a.p1":
            for _ in range(len(self.writes) + 1):
                yield operate(lambda copy: None)
                yield Nap(host.clock() + 1 * MS, self.latest, MAILBOX)
                self.write(host)
        elif host.me == "a.p2":
            for moment in self.writes:
                yield Until(moment)
                yield operate(count_up, news=self.news, mailbox=self.mailbox, copy=self.copy)


def test_a_nap_ends_with_news_in_its_mailbox_and_else_at_its_latest_time() -> None:
    log = Sleeper(2 * MS, 5 * MS)
    play(log, memory=MIN)
    assert log.times("a.p1") == [2 * MS, 5 * MS, 9 * MS]


def test_news_in_any_copy_end_a_nap() -> None:
    log = Sleeper(2 * MS, copy=1)
    play(log, memory=MIN)
    assert log.times("a.p1") == [2 * MS, 9 * MS]


@pytest.mark.parametrize("options", [{"news": False}, {"mailbox": "other"}])
def test_what_is_no_news_or_elsewhere_does_not_end_a_nap(options: dict[str, Any]) -> None:
    log = Sleeper(2 * MS, **options)
    play(log, memory=MIN)
    assert log.times("a.p1") == [9 * MS, 9 * MS]


def test_news_on_another_node_do_not_end_a_nap() -> None:
    log = Sleeper(2 * MS)
    writer = log.__call__

    def script(host: Host) -> Procedure:
        if host.me == "b.p1":
            yield connect()
            yield Until(1 * MS)
            yield operate(count_up, news=True)
        else:
            yield from writer(host)

    play(script, memory=MIN)
    assert log.times("a.p1") == [2 * MS, 9 * MS]


def test_without_a_latest_time_a_nap_ends_at_its_time() -> None:
    log = Sleeper(500 * US, latest=0)
    play(log, memory=MIN)
    assert log.times("a.p1") == [500 * US, 1500 * US]


def test_a_crash_of_a_module_and_what_finds_it_is_no_news() -> None:
    log = Sleeper(2 * MS)
    play(log, memory=MIN, fault=(Fault(kind="module", node="a", module=1, at=1 * MS),))
    assert log.times("a.p1") == [9 * MS, 9 * MS]


def test_news_between_the_last_look_and_the_nap_end_it_at_once() -> None:
    log = Log()

    def script(host: Host) -> Procedure:
        yield connect()
        if host.me == "a.p1":
            yield operate(lambda copy: None)
            yield Until(3 * MS)
            yield Nap(0, 9 * MS, MAILBOX)
            log.write(host)
            yield Nap(0, 9 * MS, MAILBOX)
            log.write(host)
        elif host.me == "a.p2":
            yield Until(1 * MS)
            yield operate(count_up, news=True)

    play(script, memory=MIN)
    assert log.times("a.p1") == [3 * MS, 9 * MS]


def test_ones_own_news_do_not_end_ones_nap_but_those_of_another_procedure_of_the_process_do() -> None:
    log = Log()

    def script(host: Host) -> Procedure:
        yield connect()
        host.spawn("other", other(host))
        yield operate(count_up, news=True)
        yield Nap(0, 9 * MS, MAILBOX)
        log.write(host)

    def other(host: Host) -> Procedure:
        yield Until(4 * MS)
        yield operate(count_up, news=True)

    play(script, memory=MIN, members=("a.p1",))
    assert log.times("a.p1") == [4 * MS]


def test_naps_cost_nothing_while_nothing_is_new() -> None:
    def script(host: Host) -> Procedure:
        yield connect()
        while True:
            yield operate(lambda copy: None)
            yield Nap(host.clock() + 1 * US, host.clock() + 5 * MS, MAILBOX)

    assert play(script, members=("a.p1",), memory=MIN, drain=0).summary.events == 2


def test_a_process_that_was_paused_sees_news_when_it_goes_on() -> None:
    log = Sleeper(2 * MS)
    play(log, memory=MIN, fault=(Fault(kind="pause", process="a.p1", at=1 * MS, length=3 * MS),))
    assert log.times("a.p1") == [4 * MS, 9 * MS]


@pytest.mark.parametrize(("offset", "ends"), [(3, [2, 6]), (-1, [2, 10])])
def test_a_clock_that_is_set_moves_the_latest_time_of_a_nap(offset: int, ends: list[int]) -> None:
    log = Sleeper(2 * MS)
    step = Fault(kind="step", process="a.p1", at=1 * MS, offset=offset * MS)
    play(log, memory=MIN, fault=(step,), duration=20 * MS)
    assert log.times("a.p1") == [end * MS for end in ends]


def test_a_clock_that_is_set_when_news_came_does_not_undo_them() -> None:
    log = Sleeper(2 * MS)
    step = Fault(kind="step", process="a.p1", at=2 * MS, offset=-1 * MS)
    play(log, memory=MIN, fault=(step,), duration=20 * MS)
    assert log.times("a.p1") == [2 * MS, 10 * MS]


def test_a_process_that_crashes_in_its_sleep_is_not_woken() -> None:
    log = Sleeper(2 * MS, 3 * MS)
    play(log, memory=MIN, fault=(crash("a.p1", 1),))
    assert log.times("a.p1") == []


# --- crashes of more than one process ---------------------------------------------------------------------------------


def test_a_node_crashes_with_all_its_processes_and_its_memory() -> None:
    log = Log()

    def script(host: Host) -> Procedure:
        yield connect()
        log.write(host, (yield operate(count_up)))

    faults = (Fault(kind="module", node="a", module=2, at=0 * MS), on_node("a", 1), restart("a.p1", 5))
    run = play(script, memory=Memory(duration="min", detection=10 * MS), fault=faults, duration=20 * MS)
    crashes = run.of("crash")
    assert [(row["process"], row["true_time"]) for row in crashes] == [("a.p1", 1 * MS), ("a.p2", 1 * MS)]
    assert all(json.loads(row["detail"]) == {"by": "fault", "node": "a"} for row in crashes)
    assert details(run, "fault", "a.p2")[-1] == {"fault": "node", "node": "a"}
    assert run.summary.processes["a.p1"].reason == "with node a"
    assert run.summary.processes["b.p1"].state == "alive"
    # Who comes back finds an empty node, but for what is broken, and hears of nobody who was there.
    assert log.of("a.p1#1") == [1]
    assert run.simulation.memories["a"].working == (1,)
    assert run.simulation.memories["a"].server.directory() == {MAILBOX: ("a.p1#1",)}
    assert run.lines == []


def test_a_processor_crashes_with_its_processes_only() -> None:
    members = ("a.c1.p1", "a.c1.p2", "a.c2.p1", "b.c1.p1")
    fault = Fault(kind="processor", processor="a.c1", at=2 * MS)
    run = play(nothing, members=members, fault=(fault,), memory=Memory(detection=1 * MS))
    assert [row["process"] for row in run.of("crash")] == ["a.c1.p1", "a.c1.p2"]
    assert details(run, "crash", "a.c1.p1") == [{"by": "fault", "processor": "a.c1"}]
    assert run.lines == [(3 * MS, "a.c2.p1", f"a.c1.{name} has failed") for name in ("p1", "p2")]


def test_processes_that_had_crashed_before_their_node_have_one_crash() -> None:
    run = play(nothing, fault=(crash("a.p1", 1), on_node("a", 2)))
    assert [(row["process"], row["true_time"]) for row in run.of("crash")] == [("a.p1", 1 * MS), ("a.p2", 2 * MS)]


@pytest.mark.parametrize(("names", "done"), [(("store", "store"), {1}), (("send", "look"), {1}), (("purge", "list"), {8})])
def test_a_crash_in_the_middle_of_a_broadcast_is_one_after_a_part_of_a_store(names: tuple[str, str], done: set[int]) -> None:
    """Spares come first; the last store is news."""
    counts = set()
    for seed in range(5):
        log = Log()

        def script(host: Host, log: Log = log) -> Procedure:
            yield connect()
            for _ in range(4):
                for name, copy in zip(names, (1, 0), strict=True):
                    yield operate(lambda _: log.write(host), name=name, copy=copy, news=not copy)

        doomed = Fault(kind="crash", process="a.p1", at=0 * MS, mid_broadcast=True)
        play(script, members=("a.p1", "b.p1"), fault=(doomed,), seed=seed)
        counts.add(len(log.of("a.p1")))
        assert len(log.of("b.p1")) == 8
    assert counts == done


# --- networks ---------------------------------------------------------------------------------------------------------


def speaking(*words: tuple[int, int]) -> Any:
    """``a.p1`` sends to all others: at these times, over these networks."""

    def script(host: Host) -> Procedure:
        for at, lan in words if host.me == "a.p1" else ():
            yield Until(at)
            host.send(tuple(name for name in TWO_BY_TWO if name != host.me), Word("g", f"{at // MS} over {lan}"), lan)
        yield Until(0)

    return script


def test_a_network_that_crashed_loses_its_packets_and_no_others() -> None:
    words = [(moment * MS, lan) for moment in (1, 3, 5) for lan in (0, 1)]
    faults = (Fault(kind="lan", lan=2, at=2 * MS, length=2 * MS),)
    run = play(speaking(*words), parameters={"lans": 2}, fault=faults)
    for name in TWO_BY_TWO[1:]:
        assert [what for _, what in run.heard(name)] == ["1 over 0", "1 over 1", "3 over 0", "5 over 0", "5 over 1"]
    assert run.summary.packets_sent == 6
    assert run.summary.packets_lost == 3
    assert details(run, "fault", "a.p1") == [{"fault": "lan", "lan": 2, "length": 2 * MS}]


def test_a_network_that_crashed_for_good_works_again_when_healed() -> None:
    words = [(moment * MS, 0) for moment in (1, 3, 5)]
    faults = (Fault(kind="lan", lan=1, at=2 * MS), Fault(kind="heal", at=4 * MS))
    run = play(speaking(*words), fault=faults)
    assert [what for _, what in run.heard("b.p1")] == ["1 over 0", "5 over 0"]


def test_faults_that_name_processes_are_on_all_networks() -> None:
    words = [(1 * MS, 0), (2 * MS, 1)]
    run = play(speaking(*words), parameters={"lans": 2}, fault=(Fault(kind="cut", source="a.p1", target="b.p1", at=0 * MS),))
    assert run.heard("b.p1") == []
    assert len(run.heard("b.p2")) == 2


def test_each_network_has_its_own_medium() -> None:
    network = Network(shared=True, bandwidth=8_000_000, delay=Delay("constant", 0 * MS), header=984)
    one = play(speaking((0, 0), (0, 0)), parameters={"lans": 2}, network=network)
    two = play(speaking((0, 0), (0, 1)), parameters={"lans": 2}, network=network)
    assert [time for time, _ in one.heard("b.p1")] == [1 * MS, 2 * MS]
    assert [time for time, _ in two.heard("b.p1")] == [1 * MS, 1 * MS]


def test_what_is_lost_on_one_network_says_nothing_about_the_other() -> None:
    words = [(moment * MS, lan) for moment in range(1, 90) for lan in (0, 1)]
    run = play(speaking(*words), parameters={"lans": 2}, network=Network(loss=0.5), duration=100 * MS, drain=0)
    heard = {what for _, what in run.heard("b.p1")}
    both = Counter((f"{moment} over 0" in heard, f"{moment} over 1" in heard) for moment in range(1, 90))
    assert min(both.values()) > 10
    assert len(both) == 4


def test_a_crash_in_the_middle_of_a_broadcast_says_over_which_network() -> None:
    doomed = Fault(kind="crash", process="a.p1", at=0 * MS, mid_broadcast=True)
    run = play(speaking((1 * MS, 1)), parameters={"lans": 2}, fault=(doomed,))
    (detail,) = details(run, "crash", "a.p1")
    assert detail["lan"] == 2
    assert {name for _, name, what in run.lines if what == "1 over 1"} == set(detail["reached"])


def test_a_network_that_is_not_there_is_refused() -> None:
    with pytest.raises(ProtocolError, match="sends over network 1: there are 1, counted from 0"):
        play(speaking((0, 1)))


def test_a_packet_to_a_thousand_is_one_packet_and_needs_one_path() -> None:
    members = tuple(f"n{number}.p" for number in range(1000))

    def script(host: Host) -> Procedure:
        if host.me == "n0.p":
            host.send(members, Word("g", "hello"))
        yield Until(0)

    run = play(script, members=members, drain=0)
    assert (run.summary.packets_sent, run.summary.broadcasts, run.summary.packets_delivered) == (1, 1, 999)
    assert len(run.lines) == 1000
    assert len(run.simulation._networks.lans[0]._paths) == 1


# --- who only serves --------------------------------------------------------------------------------------------------


def test_processes_in_no_group_run_and_come_back() -> None:
    log = Log()

    def script(host: Host) -> Procedure:
        yield connect()
        log.write(host, (yield operate(count_up)))

    groups = {"g": ("a.p1", "b.p1")}
    run = play(script, groups=groups, fault=(crash("a.p2", 2), restart("a.p2", 4), restart("b.p2", 4)), memory=MIN)
    assert run.history("b.p2") == ["start", "end"]
    assert run.history("a.p2#1") == ["start", "fault", "end"]
    assert log.of("a.p2#1") == [3]
    assert [row["process"] for row in run.of("join")] == ["a.p1", "b.p1"]
    assert run.summary.processes["b.p2"].state == "alive"


# --- watching ---------------------------------------------------------------------------------------------------------


def test_whoever_watches_sees_the_memory_after_every_operation() -> None:
    seen: list[tuple[str, str, int]] = []

    def watch(host: SimHost, request: Operate, memory: SimMemory) -> None:
        seen.append((memory.node, host.me, memory.server.mailboxes[request.mailbox].copies[request.copy].header().next))

    def script(host: Host) -> Procedure:
        yield connect()
        yield operate(count_up)

    play(script, memory=MAX, options={"watch": watch})
    assert seen == [("a", "a.p1", 2), ("a", "a.p2", 3), ("b", "b.p1", 2), ("b", "b.p2", 3)]


def test_what_a_watcher_raises_ends_the_run_as_it_is() -> None:
    def watch(host: SimHost, request: Operate, memory: SimMemory) -> None:
        raise AssertionError("an invariant")

    def script(host: Host) -> Procedure:
        yield connect()
        yield operate(count_up)

    with pytest.raises(AssertionError, match=r"^an invariant$"):
        play(script, options={"watch": watch, "tolerate": True})


# --- chance -----------------------------------------------------------------------------------------------------------

NINE = tuple(f"{node}.c{cpu}.p{number}" for node in "abc" for cpu, number in ((1, 1), (1, 2), (2, 1)))
UNITS = Units({name: name[0] for name in NINE}, {name: name[:4] for name in NINE}, 2)


def drawn(seed: int, *, fault: tuple[Fault, ...] = (), **rates: Any) -> tuple[Fault, ...]:
    scenario = Scenario(members=NINE, duration=1000 * MS, random=RandomFaults(**rates), fault=fault)
    return draw_faults(scenario, Random(seed), 3, UNITS)


def lost_over_time(faults: tuple[Fault, ...]) -> list[tuple[set[str], set[str]]]:
    """After each fault: who is lost with its node, and who else is."""
    alone: set[str] = set()
    with_node: set[str] = set()
    states = []
    for fault in faults:
        if fault.kind == "node":
            with_node |= {name for name in NINE if name[0] == fault.node} - alone
        elif fault.kind == "processor":
            alone |= {name for name in NINE if name[:4] == fault.processor} - with_node
        elif fault.kind == "crash":
            alone.add(fault.process)
        elif fault.kind == "restart":
            alone.discard(fault.process)
            with_node.discard(fault.process)
        states.append((set(with_node), set(alone)))
    return states


@pytest.mark.parametrize("keep", [1, 2])
def test_nodes_crash_whatever_most_lost_says_and_some_are_kept(keep: int) -> None:
    rates = {"node": 20.0, "processor": 10.0, "crash": 10.0, "restart_after": 100 * MS, "most_lost": 2, "keep_nodes": keep}
    fewest, most, kinds = 3, 0, Counter[str]()
    for seed in range(10):
        faults = drawn(seed, **rates)
        kinds.update(fault.kind for fault in faults)
        for with_node, alone in lost_over_time(faults):
            assert len(alone) <= 2
            most = max(most, len(with_node))
            fewest = min(fewest, len({name[0] for name in NINE if name not in with_node | alone}))
    assert fewest == keep
    assert most > 2
    assert min(kinds[kind] for kind in ("node", "processor", "crash", "restart")) > 10


def test_a_node_that_the_scenario_crashes_counts() -> None:
    for seed in range(5):
        faults = drawn(seed, fault=(on_node("b", 0),), node=50.0, restart=0.0)
        assert {fault.node for fault in faults} < {"a", "c"}
        assert len(faults) == 1


def test_of_the_modules_of_each_node_one_works() -> None:
    scheduled = (Fault(kind="module", node="a", module=2, at=0 * MS),)
    crashed = Counter[str]()
    for seed in range(5):
        faults = drawn(seed, fault=scheduled, module=100.0)
        assert len({(fault.node, fault.module) for fault in (*scheduled, *faults)}) == len(faults) + 1
        crashed.update(fault.node for fault in faults)
    assert crashed == {"a": 5, "b": 10, "c": 10}


def test_of_several_networks_one_works() -> None:
    both = 0
    for seed in range(5):
        faults = drawn(seed, lan=50.0)
        both += len({fault.lan for fault in faults})
        for first, second in pairwise(faults):
            assert first.lan == second.lan or first.at + first.length <= second.at
    assert both == 10


def random_run(seed: int) -> NodesRun:
    rates = RandomFaults(
        crash=50.0,
        node=100.0,
        processor=50.0,
        module=50.0,
        lan=100.0,
        sluggish=100.0,
        pause=100.0,
        restart_after=3 * MS,
        pause_length=1 * MS,
        network_length=2 * MS,
        sluggish_length=2 * MS,
    )

    def script(host: Host) -> Procedure:
        yield connect()
        host.spawn("sleeper", sleeper(host))
        number = 0
        while True:
            number += 1
            result = yield operate(count_up, copy=number % 2, news=True)
            host.record("state", None, result=str(result))
            host.send(TWO_BY_TWO, Word("g", f"{host.me} {result}"), number % 2)
            yield Until(host.clock() + 300 * US)

    def sleeper(host: Host) -> Procedure:
        while True:
            yield Nap(0, host.clock() + 2 * MS, MAILBOX)
            host.record("state", None, result="awake")
            yield operate(lambda copy: None)

    return play(script, seed=seed, random=rates, parameters={"lans": 2}, network=Network(loss=0.1), drain=0, duration=40 * MS)


def test_one_seed_decides_everything() -> None:
    runs = [random_run(seed) for seed in (3, 3, 4)]
    assert runs[0].table.equals(runs[1].table)
    assert runs[0].lines == runs[1].lines
    assert not runs[0].table.equals(runs[2].table)
    kinds = {json.loads(row["detail"])["fault"] for seed in range(4) for row in random_run(seed).of("fault")}
    assert kinds >= {"crash", "node", "processor", "module", "lan", "sluggish", "pause", "restart"}


# --- what is refused --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"fault": (Fault(kind="module", module=1),)}, 'there are 2 nodes, so a module needs "node"'),
        ({"fault": (Fault(kind="module", module=1, node="c"),)}, 'there is no node "c"'),
        ({"fault": (Fault(kind="node", node="c"),)}, 'there is no node "c"'),
        ({"fault": (Fault(kind="processor", processor="a"),)}, 'there is no processor "a"'),
        ({"fault": (Fault(kind="lan", lan=2),)}, "there is no network 2; with these parameters there are 1"),
        ({"random": RandomFaults(lan=1.0)}, "the only network never crashes by chance"),
        ({"random": RandomFaults(node=1.0, keep_nodes=2)}, "of 2 nodes 2 are kept, so none could crash"),
    ],
)
def test_units_that_are_not_there_are_refused(settings: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ScenarioError, match=sentence):
        play(nothing, **settings)


def test_entries_of_a_removed_mailbox_are_gone() -> None:
    """A mailbox that was removed and made again is empty, and its news are news even so."""
    log = Log()

    def script(host: Host) -> Procedure:
        port = yield connect()
        yield operate(lambda copy: copy.put(0, Entry(1, 0, host.me)), news=True)
        yield Disconnect(MAILBOX, port.place, host.me)
        yield connect()
        log.write(host, (yield operate(lambda copy: list(copy.entries()))))
        host.spawn("writer", writer(host))
        yield Nap(0, 9 * MS, MAILBOX)
        log.write(host, host.now)

    def writer(host: Host) -> Procedure:
        yield Until(2 * MS)
        yield operate(count_up, news=True)

    play(script, memory=MIN, members=("a.p1",))
    assert log.of("a.p1") == [[], 2 * MS]


def test_programs_run_where_some_processes_only_serve() -> None:
    async def main(groups: Any) -> list[bytes]:
        group = groups["g"]
        await group.send(group.me.encode())
        heard: list[bytes] = []
        async for event in group:
            heard += [event.payload] if isinstance(event, Message) else []
            if len(heard) == 2:
                return heard
        raise AssertionError("the group ended before both messages came")

    groups = {"g": ["a.p1", "b.p1"]}
    result = run_program(main, protocol="dedos", groups=groups, members=["a.p1", "a.p2", "b.p1"], duration="2s")
    assert set(result.returned) == {"a.p1", "b.p1"}
    assert result.returned["a.p1"] == result.returned["b.p1"]
    assert result.summary.processes["a.p2"].state == "alive"
    assert result.verdict == "holds"
