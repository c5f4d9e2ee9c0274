"""The benchmark's own parts: what it must notice, what it compares, and that no process outlives it."""

from __future__ import annotations

import dataclasses
import json
import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from plainchant.core.model import Reason, View
from plainchant.group import Message
from plainchant.live.memory.server import MailboxServer, mailboxes
from plainchant.live.ports import free_ports
from plainchant_workbench.live import processes
from plainchant_workbench.live.corosync import obstacle
from plainchant_workbench.live.handover import Handover
from plainchant_workbench.live.idle import Quiet, idle_row, measure_idle, simulate_idle
from plainchant_workbench.live.link import measure_link
from plainchant_workbench.live.local import Handed, compare_local, local_row, measure_local
from plainchant_workbench.live.measure import compare_protocols, wanted
from plainchant_workbench.live.peers import corosync_rows, pysyncobj_rows
from plainchant_workbench.live.plan import LOOPBACK, PAIR, QUEUE, SMALL, Case, Idle, Local, Plan, Senders, Timed, make_plan
from plainchant_workbench.live.processes import BenchError, Crew, MemberLost
from plainchant_workbench.live.raw import measure_raw
from plainchant_workbench.live.recorder import delivered
from plainchant_workbench.live.sequences import Order, Runs
from plainchant_workbench.live.session import Flood, Session
from plainchant_workbench.live.timed import examine, measure_timed, timed_row
from plainchant_workbench.live.us import Round

SHORT = Plan((), (32,), (3,), 0.1, 0.3, 0.1, idle_seconds=0.2)
PATIENT_MS = 1_000
"""A largest delay that busy machines keep, too: nobody is given up for waiting for a processor."""
QUIET = Quiet(own=400.0, everywhere=500.0, packets=1.0, link=250.0, raw=100.0)


def messages(*runs: tuple[str, int, int]) -> list[Message]:
    return [Message(sender, b"x", first + each, "g") for sender, first, length in runs for each in range(length)]


def taken(batches: Sequence[Sequence[Any]], *, thorough: bool = False) -> Order:
    order = Order()
    runs = Runs(order, Message, 1)
    runs.thorough = thorough
    for batch in batches:
        runs.add(batch)
    return order


# --- what was delivered ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("thorough", [False, True])
@pytest.mark.parametrize("cut", [1, 2, 7, 64, 1000])
def test_the_digest_depends_on_the_order_and_not_on_the_batches(cut: int, thorough: bool) -> None:
    stream = messages(("a", 1, 100), ("b", 1, 3), ("a", 101, 1), ("c", 1, 250), ("b", 4, 40), ("a", 102, 40))
    whole = taken([stream], thorough=True)
    parts = taken([stream[at : at + cut] for at in range(0, len(stream), cut)], thorough=thorough)
    assert parts.digest == whole.digest
    assert parts.counts == whole.counts == {"a": 141, "b": 43, "c": 250}
    assert parts.total == len(stream)


def test_another_order_has_another_digest() -> None:
    one = taken([messages(("a", 1, 5), ("b", 1, 5))])
    other = taken([messages(("b", 1, 5), ("a", 1, 5))])
    later = taken([messages(("a", 1, 4), ("b", 1, 5), ("a", 5, 1))])
    assert len({one.digest, other.digest, later.digest}) == 3
    assert one.counts == other.counts == later.counts


@pytest.mark.parametrize(
    "stream",
    [
        pytest.param(messages(("a", 1, 5), ("a", 7, 3)), id="gap"),
        pytest.param(messages(("a", 1, 5), ("b", 1, 1), ("a", 5, 3)), id="repeated"),
        pytest.param(messages(("a", 1, 5), ("b", 1, 1), ("a", 4, 3)), id="back"),
    ],
)
@pytest.mark.parametrize("thorough", [False, True])
def test_a_sender_out_of_its_order_is_an_error(stream: list[Message], thorough: bool) -> None:
    with pytest.raises(BenchError, match="after message 5 of a came"):
        taken([stream], thorough=thorough)


def test_an_exchange_within_a_run_is_found_by_a_thorough_look() -> None:
    stream = messages(("a", 1, 9))
    stream[3], stream[4] = stream[4], stream[3]
    with pytest.raises(BenchError, match="after message 3 of a came its message 5"):
        taken([stream], thorough=True)


def test_a_wrong_payload_or_something_else_than_a_message_is_an_error() -> None:
    with pytest.raises(BenchError, match="has not 1 bytes"):
        taken([[Message("a", b"xx", 1, "g")]])
    for thorough in (False, True):
        with pytest.raises(BenchError, match="instead of messages"):
            taken([[*messages(("a", 1, 6)), "a view", *messages(("a", 7, 6))]], thorough=thorough)


class Answering:
    """A crew that answers what it was given."""

    def __init__(self, *answers: list[dict[str, Any]]) -> None:
        self._answers = list(answers)

    def pin(self, pinned: bool) -> None:
        """There is nobody to pin."""

    def ask(self, question: object, *, seconds: float = 0.0) -> list[dict[str, Any]]:
        return self._answers.pop(0)


@pytest.mark.parametrize(
    ("reports", "says"),
    [
        ([{"counts": {"a": 7}, "digest": 1}, {"counts": {"a": 7}, "digest": 2}], "in another order"),
        ([{"counts": {"a": 7}, "digest": 1}, {"counts": {"a": 6}, "digest": 1}], "b delivered {'a': 6}"),
    ],
)
def test_members_that_differ_are_an_error(reports: list[dict[str, Any]], says: str) -> None:
    answers = [{"sent": 7, "trips": {"count": 7, "p50": 1.0}}, {"sent": 0}]
    session = Session(Answering(answers, reports), ["a", "b"], [0])  # type: ignore[arg-type]
    with pytest.raises(BenchError, match=says):
        session.closed(0, 0.1)


def test_a_rate_is_what_was_delivered_between_two_instants() -> None:
    samples = [(10, 100, 0), (20, 300, 0), (35, 700, 0)]
    assert delivered(samples, 20, 35) == 400
    assert delivered(samples, 12, 34) == 200
    assert delivered(samples, 40, 50) == 0
    assert delivered([], 0, 50) == 0


def round_of(rate: float) -> Round:
    """A round in which nothing but the rate counts."""
    return Round(Flood(rate, None, ()), {}, None, {}, {})


def handed_of(rate: float, delay: float) -> Handed:
    """A round on one machine; the delay in µs."""
    return Handed(Flood(rate, 1.0, ()), (round(delay * 1_000),) * 3)


# --- plans and targets ----------------------------------------------------------------------------------------------


def test_the_plans_have_all_that_has_a_target_and_full_has_everything() -> None:
    quick, default, full = (make_plan(level, rounds=3, seconds=1.0) for level in ("quick", "default", "full"))
    for plan in (quick, default, full):
        figures = {"messages_per_s": 1, "rtt_ratio_to_raw_udp": 1, "rtt_ratio_to_raw_udp_same_core": 1}
        rows = [{**vars(case), **figures} for case in plan.cases]
        ratios = compare_protocols({case: [round_of(1.0)] for case in plan.cases})
        idle = [idle_row(each, [QUIET], None) for each in plan.idle if each.members == 3 and not each.silence_ms]
        local = compare_local({each: [handed_of(1.0, 1.0)] for each in plan.local})
        assert [target["what"] for target in wanted(rows, 1.0, ratios, idle, local) if target["measured"] is None] == []
        assert len(set(plan.cases)) == len(plan.cases)
    assert len(full.cases) == 2 * 3 * 2 * 2 * 2 * 2 * 2 * 3
    assert {case.rounds for case in quick.cases} == {1}
    assert {case.rounds for case in default.cases} == {1, 3}
    assert {case.protocol for case in quick.cases} == {"sequencer", "newtop", "rtcast"}
    assert {timed.flooded for timed in quick.timed} == {False, True}


def test_a_plan_has_the_protocols_that_were_asked_for() -> None:
    plan = make_plan("default", rounds=3, seconds=1.0, protocols=["newtop"])
    assert {case.protocol for case in plan.cases} == {idle.protocol for idle in plan.idle} == {"newtop"}
    assert (plan.timed, plan.local) == ((), ())
    only = make_plan("quick", rounds=3, seconds=1.0, protocols=["mailbox"])
    assert (only.cases, only.idle, only.timed) == ((), (), ())
    assert {each.how for each in only.local} >= {"mailbox", "sequencer", QUEUE, PAIR}
    targets = wanted([{**vars(case), "messages_per_s": 1} for case in plan.cases], None)
    assert all(target["reached"] is None for target in targets)


def test_protocols_are_compared_round_by_round() -> None:
    rounds = {
        Case(): [round_of(100.0), round_of(1_000.0), round_of(10.0)],
        Case(protocol="newtop"): [round_of(90.0), round_of(200.0), round_of(6.0)],
        Case(protocol="newtop", packet=SMALL): [round_of(7.0)],
    }
    (found,) = compare_protocols(rounds)
    assert (found["packet"], found["least"], found["median"], found["largest"]) == (LOOPBACK, 0.2, 0.6, 0.9)
    judged = {target["what"]: target for target in wanted([], None, [found])}
    assert judged[f"newtop's messages/s to sequencer's, 32 B in packets of {LOOPBACK}"]["reached"] is True
    assert judged[f"newtop's messages/s to sequencer's, 32 B in packets of {SMALL}"]["reached"] is None


def test_the_mailbox_is_compared_round_by_round_with_what_else_there_is_on_a_machine() -> None:
    large = Local(size=65_536)
    rounds = {
        Local(): [handed_of(100.0, 50.0), handed_of(10.0, 80.0)],
        Local("sequencer"): [handed_of(50.0, 100.0), handed_of(40.0, 160.0)],
        Local("newtop"): [handed_of(50.0, 40.0)],
        large: [handed_of(300.0, 50.0)],
        Local(QUEUE, 65_536): [handed_of(400.0, 25.0)],
        Local(PAIR, 65_536, "all"): [handed_of(400.0, 25.0)],
    }
    ratios = compare_local(rounds)
    assert {(row["to"], row["size"], row["senders"]): (row["messages_per_s"], row["delay_us_p50"]) for row in ratios} == {
        ("sequencer", 32, "one"): (1.125, 0.5),
        ("newtop", 32, "one"): (2.0, 1.25),
        (QUEUE, 65_536, "one"): (0.75, 2.0),
    }
    targets = wanted([], None, local=ratios)
    judged = {target["what"]: target["reached"] for target in targets if "mailbox" in target["what"]}
    assert list(judged.values()) == [True, False, None, None, False]
    row = local_row(Local(), rounds[Local()], None)
    assert (row["messages_per_s"], row["delay_us_p50"], row["delay_us_p99"], row["error"]) == (100, 50.0, 50.0, None)
    failed = local_row(Local(), rounds[Local()], "it hangs")
    assert (failed["messages_per_s"], failed["error"]) == (None, "it hangs")


def test_targets_are_judged() -> None:
    def row(case: Case, rate: int, ratio: float = 2.0) -> dict[str, Any]:
        return {**vars(case), "messages_per_s": rate, "rtt_ratio_to_raw_udp": ratio, "rtt_ratio_to_raw_udp_same_core": 2 * ratio}

    rows = [row(Case(), 750_000), row(Case(packet=SMALL), 249_999), row(Case(traced=True), 1)]
    rows.append(row(Case(reading="async for"), 240_000))
    targets = [target for target in wanted(rows, 0.4) if not target["what"].startswith(("newtop", "mailbox"))]
    judged = {target["what"]: target["reached"] for target in targets}
    assert judged == {
        f"messages/s, 32 B in packets of {LOOPBACK}, not traced": True,
        f"messages/s, 32 B in packets of {LOOPBACK}, traced": False,
        f"messages/s, 32 B in packets of {SMALL}, not traced": False,
        f"messages/s, 32 B in packets of {SMALL}, traced": None,
        f"messages/s, 1024 B in packets of {LOOPBACK}, not traced": None,
        f"messages/s, 1024 B in packets of {LOOPBACK}, traced": None,
        f"`async for` to `batches()`, 32 B in packets of {LOOPBACK}": False,
        f"`async for` to `batches()`, 32 B in packets of {SMALL}": None,
        "closed-loop round trip to raw UDP's, on another core than the sequencer": True,
        "closed-loop round trip to raw UDP's, on the core of the sequencer": False,
        "slowest second to median second": False,
    }


# --- processes ------------------------------------------------------------------------------------------------------


def raw_crew() -> Crew:
    ports = free_ports(2)
    return Crew("plainchant_workbench.live.raw", [{"port": ports[number], "to": ports[1 - number]} for number in range(2)])


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_processes_that_do_not_answer_are_an_error_and_are_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    with raw_crew() as crew:
        crew.answers()
        pids = [process.pid for process in crew._processes]
        assert all(map(alive, pids))
        monkeypatch.setattr(processes, "ANSWER_SECONDS", 0.1)
        with pytest.raises(BenchError, match=r"\[0, 1\] .* did not answer"):
            crew.answers()
    assert not any(map(alive, pids))


def test_a_process_that_fails_or_dies_says_why() -> None:
    with raw_crew() as crew:
        crew.answers()
        with pytest.raises(BenchError, match="KeyError: 'do'"):
            crew.ask({})
    with Crew("plainchant_workbench.live.no_such_module", [{}]) as crew, pytest.raises(BenchError, match="no_such_module"):
        crew.answers()


def test_a_link_with_a_delay_takes_that_long() -> None:
    assert measure_link(32, 20, seconds=0.1, pause=0.0) >= 40_000
    assert measure_link(32, 0, seconds=0.1, pause=0.0) > 0


def test_a_nearly_idle_group_is_measured() -> None:
    quiet = measure_idle(Idle(link_ms=20), SHORT)
    assert quiet.raw is None
    assert quiet.link >= 40_000
    assert quiet.everywhere >= quiet.own >= 40_000
    assert quiet.packets > 0
    row = idle_row(Idle(link_ms=20), [quiet, QUIET], None)
    assert row["round_trips"]["least"] <= row["round_trips"]["median"] <= row["round_trips"]["largest"]
    assert "round_trips" not in idle_row(Idle(), [], "it hangs")


@pytest.mark.parametrize("members", [2, 3, 5, 10])
def test_an_adaptive_time_silence_takes_one_round_trip_and_at_most_two_packets(members: int) -> None:
    exact = simulate_idle(Idle(members=members))
    assert exact["own"] == exact["everywhere"] == 1.0
    assert 1.0 <= exact["packets"] <= 2.0


@pytest.mark.parametrize("silence_ms", [50, 450, 1_050])
def test_a_fixed_time_silence_takes_as_long_as_it_is(silence_ms: int) -> None:
    exact = simulate_idle(Idle(silence_ms=silence_ms))
    assert exact["own"] == 1.0 + silence_ms / 2  # the link takes 2 ms there and back


# --- one machine ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [QUEUE, PAIR])
@pytest.mark.parametrize(("size", "senders"), [(32, "all"), (65_536, "one")])
def test_queues_and_socket_pairs_are_measured(kind: str, size: int, senders: Senders) -> None:
    for _ in range(20):  # on a busy machine a tenth of a second may pass without any message
        with Handover(kind, size, senders) as handover:
            flood = handover.flood(0.05, 0.1)
        if flood.messages_per_s:
            break
    assert flood.messages_per_s > 0
    assert flood.cpu_us_per_message is not None
    with Handover(kind, size, senders) as handover:
        delays = handover.delays(5, 0.001)
    assert len(delays) == 3 * 5 * (3 if senders == "all" else 1)
    assert min(delays) > 0


def test_processes_that_hand_something_over_end_with_who_started_them() -> None:
    with Handover(QUEUE, 32) as handover:
        (answer,) = handover._crew.answers()
        pids = answer["pids"]
        assert all(map(alive, pids))
        (hub,) = handover._crew._processes
        hub.kill()
        hub.wait()
        deadline = time.monotonic() + 20
        while any(map(running, pids)):
            assert time.monotonic() < deadline, pids
            time.sleep(0.01)


def running(pid: int) -> bool:
    """Whether a process that is nobody's child here runs: one that has ended may be kept for whoever inherited it."""
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0] not in "ZX"
    except FileNotFoundError:
        return False


def test_a_mailbox_is_measured_and_nothing_is_left_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[MailboxServer] = []

    def make(namespace: str) -> MailboxServer:
        made.append(MailboxServer(namespace))
        return made[-1]

    monkeypatch.setattr("plainchant_workbench.live.local.MailboxServer", make)
    handed = measure_local(Local(), SHORT)
    assert isinstance(handed.flood.messages_per_s, float)
    assert handed.delays[0] > 0
    assert len(handed.delays) == 3 * 20
    (server,) = made
    assert server.namespace not in [found.register.namespace for found in mailboxes()]


# --- deadlines --------------------------------------------------------------------------------------------------------


def trace_of(*rows: dict[str, Any]) -> pa.Table:
    """Some columns of a trace."""
    columns = ("kind", "process", "sender", "seq", "time", "deadline", "detail")
    return pa.table({name: pa.array([row.get(name) for row in rows], TYPES[name]) for name in columns})


TYPES = {
    **dict.fromkeys(("kind", "process", "sender", "detail"), pa.string()),
    **dict.fromkeys(("seq", "time", "deadline"), pa.int64()),
}


def turn_row(rotation: int | None, time: int = 50) -> dict[str, Any]:
    return {"kind": "token", "process": "a", "time": time, "detail": json.dumps({"rotation": rotation, "bound": 900})}


def test_a_message_is_missed_where_it_comes_late_or_never() -> None:
    table = trace_of(
        {"kind": "send", "process": "a", "seq": 1, "time": 10, "deadline": 110},
        {"kind": "send", "process": "a", "seq": 2, "time": 20, "deadline": None},
        {"kind": "send", "process": "b", "seq": 1, "time": 30, "deadline": 130},
        {"kind": "send", "process": "b", "seq": 2, "time": 2, "deadline": 102},
        {"kind": "deliver", "process": "a", "sender": "a", "seq": 1, "time": 110},
        {"kind": "deliver", "process": "b", "sender": "a", "seq": 1, "time": 111},
        {"kind": "deliver", "process": "a", "sender": "a", "seq": 2, "time": 140},
        {"kind": "deliver", "process": "b", "sender": "a", "seq": 2, "time": 140},
        {"kind": "deliver", "process": "b", "sender": "b", "seq": 1, "time": 40},
        turn_row(None),
        turn_row(300),
        turn_row(100),
        turn_row(7_000, time=1_000),
        {"kind": "state", "process": "a", "time": 60, "detail": json.dumps({"broken": "rotation"})},
        {"kind": "state", "process": "a", "time": 61, "detail": json.dumps({"state": "running"})},
        {"kind": "drop", "process": "a", "time": 62, "detail": json.dumps({"why": "late"})},
        {"kind": "drop", "process": "a", "time": 63, "detail": json.dumps({"why": "foreign"})},
    )
    found = examine(table, ["a", "b"], (5, 500), deadline=100, rejected=0)
    assert (found.owed, found.missed) == (4, 2)
    assert found.delays == (10, 100, 101)
    assert (found.rotations, found.bound) == ((100, 300), 900)
    assert (found.late_packets, dict(found.broken)) == (1, {"rotation": 1})
    assert found.beside_per_s > 0
    row = timed_row(Timed(), [found, found], None)
    assert (row["deliveries"], row["missed"], row["miss_ratio"]) == (8, 4, 0.5)
    with pytest.raises(BenchError, match="did not come round"):
        examine(table, ["a", "b"], (600, 2_000), deadline=100, rejected=0)


def test_a_ring_that_loses_a_member_is_a_result_and_anything_else_an_error() -> None:
    halted = timed_row(Timed(delay_ms=1), [], BenchError("process 1: Halted: it was too late", "Halted"))
    assert (halted["halted"], halted["error"]) == ("process 1: Halted: it was too late", None)
    view = View("g", 2, ("a",), (), {"b": Reason("crashed", "a heard no heartbeat of b")})
    with pytest.raises(MemberLost, match="the group lost b: a heard no heartbeat of b") as raised:
        taken([[*messages(("a", 1, 6)), view]])
    assert timed_row(Timed(), [], BenchError("...", type(raised.value).__name__))["halted"] == "..."
    failed = timed_row(Timed(), [], BenchError("it hangs"))
    assert (failed["halted"], failed["error"]) == (None, "it hangs")


def test_deadlines_of_a_ring_are_measured() -> None:
    plan = dataclasses.replace(SHORT, timed_seconds=0.4)
    timed = Timed(flooded=True, delay_ms=PATIENT_MS)
    row = timed_row(timed, [measure_timed(timed, plan)], None)
    assert row["deliveries"] > 0
    assert 0 <= row["miss_ratio"] <= 1
    assert 0 < row["rotation_ms_p50"] <= row["rotation_ms_p99"] <= row["rotation_ms_max"]
    assert row["deadline_ms"] > row["rotation_ms_bound"] > 0
    assert row["beside_per_s"] > 0


def test_raw_udp_carries_messages_larger_than_a_datagram() -> None:
    raw = measure_raw(65_536, SMALL, seconds=0.05)
    assert raw.rtt_us_p50 > 0
    assert raw.datagrams_per_s > 0


def test_pysyncobj_is_measured() -> None:
    rows = list(pysyncobj_rows(SHORT, 3, 32))
    assert [row["senders"] for row in rows] == ["all", "one"]
    for row in rows:
        assert row["why"] is None
        assert isinstance(row["messages_per_s"], int)
        assert row["rtt_us_p50"] > 0


def test_a_peer_that_is_not_there_is_listed_with_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("plainchant_workbench.live.peers.obstacle", lambda: "not found: corosync")
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    rows = [*corosync_rows(SHORT, 3, 32), *pysyncobj_rows(SHORT, 3, 32)]
    assert [row["why"] for row in rows[:2]] == ["not measured: not found: corosync"] * 2
    assert all("plainchant[bench]" in row["why"] for row in rows[2:])
    assert all(row["messages_per_s"] is None for row in rows)


@pytest.mark.skipif(obstacle() is not None, reason=f"Corosync cannot be measured here: {obstacle()}")
def test_corosync_is_measured() -> None:
    row = next(corosync_rows(SHORT, 3, 32))
    assert row["why"] is None
    assert isinstance(row["messages_per_s"], int)
    assert row["rtt_us_p50"] > 0
