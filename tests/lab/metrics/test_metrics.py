"""What each metric is, on traces of a few events, and that the two ways of computing them agree on many."""

from __future__ import annotations

import ast
import json
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest

import plainchant
from plainchant.lab.arrays import percentile
from plainchant.lab.metrics import COLUMNS, METRICS, OPTIONAL, measure
from plainchant.lab.standstills import standstills
from plainchant.protocols import registry
from plainchant.scenario import find, load
from plainchant.sim import Simulation
from plainchant.trace import SCHEMA, TraceBuffer

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def table(histories: dict[str, list[dict[str, Any]]], run: str = "r0", protocol: str | None = None) -> pa.Table:
    """A trace: for each process its rows, with ``at`` for both clocks; group g unless said otherwise."""
    rows = []
    for process, events in histories.items():
        first = [{"kind": "start", "group": None, "detail": {"protocol": protocol}}] if protocol else []
        for index, event in enumerate([*first, *events]):
            row = {"run": run, "process": process, "index": index, "group": "g", **event}
            row["time"] = row["true_time"] = row.pop("at", 0)
            if "detail" in row and not isinstance(row["detail"], str):
                row["detail"] = json.dumps(row["detail"])
            rows.append(row)
    return pa.Table.from_pylist(rows, schema=SCHEMA)


def only(histories: dict[str, list[dict[str, Any]]], **options: Any) -> dict[str, Any]:
    """The metrics of a trace with one run and one group."""
    (row,) = measure(table(histories, **options)).to_pylist()
    return dict(row)


def send(seq: int, at: int, **more: Any) -> dict[str, Any]:
    return {"kind": "send", "seq": seq, "at": at, **more}


def deliver(sender: str, seq: int, at: int, sent: int | None, **more: Any) -> dict[str, Any]:
    return {"kind": "deliver", "sender": sender, "seq": seq, "at": at, "sent": sent, **more}


# --- messages ---------------------------------------------------------------------------------------------------------


def test_throughput_is_that_of_the_process_that_delivers_most_from_first_send_to_last_delivery() -> None:
    row = only(
        {
            "p": [
                send(1, 0, sender="p", size=10),
                deliver("p", 1, 200, 0, size=10),
                send(2, 500, sender="p", size=30),
                deliver("p", 2, 2_000, 500, size=30),
            ],
            "q": [deliver("p", 1, 900, 0, size=10)],
        }
    )
    assert row["span_ns"] == 2_000
    assert (row["sends"], row["deliveries"], row["processes"], row["senders"]) == (2, 3, 2, 1)
    assert row["messages_per_s"] == 2 / 2_000 * 1e9
    assert row["bytes_per_s"] == 40 / 2_000 * 1e9
    assert row["bytes_per_multicast"] == 20.0


def test_one_delivery_without_a_size_leaves_bytes_unknown() -> None:
    row = only({"p": [send(1, 0, sender="p"), deliver("p", 1, 5, 0, size=10), deliver("p", 1, 9, 0)]})
    assert row["bytes_per_s"] is None
    assert row["bytes_per_multicast"] is None


def test_deliveries_without_sends_do_not_make_the_sends_none() -> None:
    row = only({"p": [deliver("x", 1, 5, None, packets=3)]})
    assert row["sends"] is None
    assert row["packets_per_multicast"] is None
    assert row["latency_max_ns"] is None


def test_latency_is_since_sent_or_else_since_the_send_row() -> None:
    row = only(
        {
            "p": [send(1, 100, sender="p"), send(2, 200, sender="p")],
            "q": [deliver("p", 1, 150, 110), deliver("p", 2, 260, None), deliver("x", 9, 300, None)],
        }
    )
    assert (row["latency_p50_ns"], row["latency_max_ns"]) == (50, 60)  # 40 and 60; of x/9 nothing is known


def test_without_a_global_clock_latency_is_between_the_processes_own_clocks() -> None:
    trace = table({"p": [send(1, 100, sender="p")], "q": [deliver("p", 1, 90, None)]})
    local = trace.set_column(4, "true_time", pa.nulls(trace.num_rows, pa.int64()))
    assert measure(local).to_pylist()[0]["latency_max_ns"] == -10  # q's clock is behind


def test_percentiles_lie_between_the_two_nearest_values_in_proportion() -> None:
    values = np.array([0, 10, 20, 100])
    assert [percentile(values, percent) for percent in (50, 90, 99)] == [15, 76, 97]
    assert percentile(np.array([7]), 99) == 7
    assert percentile(np.array([-10, -7]), 50) == -9  # rounded down


def test_overhead_is_what_a_delivery_took_longer_than_the_quickest_of_its_pair() -> None:
    row = only({"q": [deliver("p", 1, 10, 0), deliver("p", 2, 35, 20), deliver("x", 1, 90, 0), deliver("x", 2, 91, 0)]})
    assert row["overhead_max_ns"] == 5
    assert row["overhead_p50_ns"] == 0


def test_overhead_is_since_the_first_arrival_where_arrivals_are_recorded() -> None:
    arrivals = [{"kind": "receive", "sender": "p", "seq": 1, "at": at} for at in (30, 20)]
    row = only({"q": [*arrivals, deliver("p", 1, 50, 0), deliver("p", 2, 900, 0)]})
    assert row["overhead_max_ns"] == 30


def test_fairness_compares_the_senders_shares_of_the_deliveries() -> None:
    row = only({"q": [deliver("a", 1, 1, 0), deliver("a", 2, 1, 0), deliver("a", 3, 1, 0), deliver("b", 1, 1, 0)]})
    assert row["fairness"] == 16 / (2 * 10)
    assert row["fairness_ratio"] == 3.0


def test_a_sender_of_whom_nothing_is_delivered_counts_in_fairness() -> None:
    row = only({"a": [send(1, 0, sender="a"), deliver("b", 1, 1, 0)]})
    assert row["senders"] == 2
    assert row["fairness"] == 0.5
    assert row["fairness_ratio"] is None


# --- packets and what is recorded -------------------------------------------------------------------------------------


def test_packets_on_rows_without_a_group_are_shared_in_proportion() -> None:
    rows = measure(
        table(
            {
                "p": [
                    send(1, 0, sender="p", packets=30),
                    send(1, 0, sender="p", packets=10, group="h"),
                    {"kind": "end", "group": None, "packets": 4},
                ]
            }
        )
    ).to_pylist()
    assert [(row["group"], row["packets"], row["packets_per_multicast"]) for row in rows] == [("g", 33, 33), ("h", 11, 11)]


def test_a_run_without_any_packets_column_does_not_say_that_there_were_none() -> None:
    assert only({"p": [send(1, 0, sender="p")]})["packets"] is None


@pytest.mark.parametrize(
    ("metric", "kind"),
    [("nulls", "null"), ("retransmissions", "retransmit"), ("suspicions", "suspect"), ("sync_ns", "sync")],
)
def test_none_happened_only_where_it_would_have_been_recorded(metric: str, kind: str) -> None:
    one = {"p": [send(1, 0, sender="p")]}
    assert only(one)[metric] is None
    assert only(one, protocol="homemade")[metric] is None
    assert only(one, protocol="sequencer")[metric] == 0
    declared = {"kind": "start", "group": None, "detail": {"records": [kind]}}
    assert only({"p": [declared, send(1, 0, sender="p")]})[metric] == 0


def test_a_kind_that_one_group_has_is_recorded_in_all() -> None:
    rows = measure(table({"p": [{"kind": "null"}, send(1, 0, sender="p", group="h")]})).to_pylist()
    assert [row["nulls"] for row in rows] == [1, 0]


def test_what_is_said_to_be_recorded_of_a_protocol_is_what_its_code_records() -> None:
    for protocol, description in registry.protocols().items():
        sources = (Path(plainchant.__file__).parent / "protocols" / protocol).rglob("*.py")
        calls = (node for source in sources for node in ast.walk(ast.parse(source.read_text())) if isinstance(node, ast.Call))
        records = {
            call.args[0].value
            for call in calls
            if isinstance(call.func, ast.Attribute) and call.func.attr == "record" and isinstance(call.args[0], ast.Constant)
        }
        assert description.recorded <= records & set(OPTIONAL)


# --- history and flow control -------------------------------------------------------------------------------------------


def test_blocked_is_from_the_first_block_to_the_next_unblock_of_that_process() -> None:
    row = only(
        {
            "p": [
                {"kind": "block", "at": 10},
                {"kind": "block", "at": 20},
                {"kind": "unblock", "at": 50},
                {"kind": "unblock", "at": 70},
                {"kind": "block", "at": 80},
            ],
            "q": [{"kind": "unblock", "at": 5}, {"kind": "block", "at": 6}, {"kind": "unblock", "at": 8}],
        }
    )
    assert row["blocked_ns"] == 40 + 2


def test_a_delivery_that_waits_is_not_a_sender_that_is_blocked() -> None:
    about = {"sender": "x", "seq": 1}
    row = only({"p": [{"kind": "block", "at": 10, **about}, {"kind": "unblock", "at": 50, **about}]})
    assert row["blocked_ns"] == 0


def test_blocks_of_a_protocol_that_never_says_when_they_end_tell_no_time() -> None:
    assert only({"p": [{"kind": "block", "at": 10}]})["blocked_ns"] is None
    assert only({"p": [{"kind": "block", "at": 10}]}, protocol="sequencer")["blocked_ns"] == 0


def test_a_request_that_is_held_back_is_no_sender_that_is_blocked() -> None:
    held = {"kind": "block", "at": 10, "detail": {"request": 7, "process": "q"}}
    assert only({"p": [held, {"kind": "block", "at": 30}, {"kind": "unblock", "at": 50}]})["blocked_ns"] == 20


def accept(at: int) -> dict[str, Any]:
    return {"kind": "accept", "sender": "p", "at": at}


@pytest.mark.parametrize(
    ("rows", "longest"),
    [
        pytest.param([send(1, 10), deliver("p", 1, 14, 10)], 4, id="one message"),
        pytest.param([send(1, 10), deliver("p", 1, 14, 10), send(2, 900), deliver("p", 2, 903, 900)], 4, id="nothing to do"),
        pytest.param([accept(3), send(1, 10), deliver("p", 1, 14, 10)], 11, id="its own message waits from its accept"),
        pytest.param([deliver("q", 1, 14, 10), deliver("q", 2, 40, 12)], 26, id="a message waits while none is delivered"),
        pytest.param([deliver("q", 2, 40, 39), deliver("q", 1, 41, 12)], 28, id="the message that waits comes later"),
        pytest.param([deliver("q", 1, 14, 10), accept(20), {"kind": "end", "at": 60, "group": None}], 40, id="never taken"),
        pytest.param([send(1, 10, sender="p"), {"kind": "end", "at": 60, "group": None}], 50, id="never delivered"),
        pytest.param([send(1, 10, sender="p"), {"kind": "leave", "at": 60}], None, id="it leaves"),
        pytest.param([{"kind": "join", "at": 0}, {"kind": "end", "at": 60, "group": None}], None, id="no message"),
    ],
)
def test_a_standstill_is_a_time_without_deliveries_in_which_a_message_waits(rows: list[Any], longest: int | None) -> None:
    assert only({"p": rows})["standstill_max_ns"] == longest


def test_the_longest_standstill_of_each_member_tells_whose_message_waited_and_what_ended_it() -> None:
    histories = {
        "p": [accept(0), send(1, 5), deliver("p", 1, 8, 5), deliver("q", 1, 40, 20)],
        "q": [send(1, 20), deliver("p", 1, 9, 5), {"kind": "end", "at": 90, "group": None}],
    }
    found = standstills(table(histories))
    assert [(each.process, each.since, each.until, each.ended_by, each.sender) for each in found] == [
        ("q", 20, 90, None, "q"),
        ("p", 20, 40, 3, "q"),
    ]


def test_synchronisation_lasts_until_it_says_that_it_is_over() -> None:
    row = only({"p": [{"kind": "sync", "at": 10, "detail": {"phase": 1}}, {"kind": "sync", "at": 35, "detail": {"over": True}}]})
    assert row["sync_ns"] == 25


def test_history_is_as_large_as_the_details_say() -> None:
    row = only({"p": [{"kind": "state", "detail": {"history": 7}}, {"kind": "sync", "detail": {"history": 9}}]})
    assert row["history_max"] == 9
    assert only({"p": [{"kind": "state", "detail": {"history": "many"}}]})["history_max"] is None
    assert only({"p": [{"kind": "state", "detail": "no json"}]})["history_max"] is None


def test_unstable_is_what_was_delivered_above_the_stable_rank() -> None:
    deliveries = [deliver("x", rank, rank, 0, rank=rank) for rank in range(1, 6)]
    stable = {"kind": "stable", "rank": 3}
    assert only({"p": [*deliveries[:4], stable, deliveries[4]]})["unstable_max"] == 4
    assert only({"p": [stable, *deliveries]})["unstable_max"] == 2
    assert only({"p": deliveries})["unstable_max"] is None


# --- views and failures -------------------------------------------------------------------------------------------------


def view(number: int, members: str, at: int = 0) -> dict[str, Any]:
    return {"kind": "view", "view": number, "members": list(members), "at": at}


def test_view_changes_are_the_different_views_after_the_first() -> None:
    row = only({"p": [view(1, "pq"), view(2, "p")], "q": [view(1, "pq"), view(2, "q")]})
    assert row["view_changes"] == 2
    assert only({"p": [send(1, 0, sender="p")]})["view_changes"] is None


@pytest.mark.parametrize(
    ("noticing", "after"),
    [
        ([{"kind": "suspect", "at": 130, "detail": {"process": "q"}}, view(2, "p", 190)], 30),
        ([view(2, "p", 190)], 90),
        ([{"kind": "suspect", "at": 90, "detail": {"process": "q"}}, view(2, "p", 190)], 90),
        ([{"kind": "suspect", "at": 130, "group": None, "detail": {"process": "q"}}], 30),
        ([{"kind": "suspect", "at": 130, "detail": {"process": "r"}}], None),
        ([{"kind": "suspect", "at": 130, "detail": {"processes": ["r", "q"]}}, view(2, "p", 190)], 30),
    ],
)
def test_a_crash_is_detected_by_the_first_suspicion_or_view_without_it(noticing: list[Any], after: int | None) -> None:
    crash = {"kind": "crash", "group": None, "at": 100}
    row = only({"p": [view(1, "pq"), *noticing], "q": [view(1, "pq"), crash]})
    assert row["failures"] == 1
    assert row["detected"] == (after is not None)
    assert row["detection_max_ns"] == row["detection_p50_ns"] == after


def test_what_a_protocol_decides_itself_is_no_failure_to_detect() -> None:
    halt = {"kind": "crash", "group": None, "at": 100, "detail": {"by": "protocol"}}
    assert only({"p": [view(1, "pq")], "q": [view(1, "pq"), halt]})["failures"] == 0


def test_a_pause_counts_as_detected_only_while_it_lasts() -> None:
    pause = {"kind": "fault", "group": None, "at": 100, "detail": {"fault": "pause", "process": "q", "length": 50}}
    late = {"kind": "suspect", "at": 151, "detail": {"process": "q"}}
    row = only({"p": [view(1, "pq"), late], "q": [view(1, "pq"), pause]})
    assert (row["failures"], row["detected"], row["detection_max_ns"]) == (1, 0, None)


def test_who_has_left_does_not_fail() -> None:
    gone = [view(1, "pq"), {"kind": "leave"}, {"kind": "crash", "group": None, "at": 9}]
    assert only({"p": [view(1, "pq")], "q": gone})["failures"] == 0


# --- real time ----------------------------------------------------------------------------------------------------------


def test_a_deadline_is_carried_over_by_the_global_clock_or_stands_with_the_delivery() -> None:
    row = only(
        {
            "p": [send(1, 100, sender="p", deadline=150), send(2, 200, sender="p", deadline=230), send(3, 300, sender="p")],
            "q": [
                deliver("p", 1, 140, 100),
                deliver("p", 2, 235, 200),
                deliver("p", 2, 260, 200, deadline=261),
                deliver("p", 3, 900, 300),
            ],
        }
    )
    assert (row["due"], row["missed"], row["miss_ratio"]) == (3, 1, 1 / 3)  # -10, 5, -1
    assert (row["lateness_p50_ns"], row["lateness_max_ns"]) == (-1, 5)


def test_who_is_there_at_the_deadline_and_never_gets_the_message_has_missed_it() -> None:
    ends = {"kind": "end", "group": None}
    row = only(
        {
            "p": [view(1, "pqrs"), send(1, 10, sender="p", deadline=20), deliver("p", 1, 12, 10), {**ends, "at": 50}],
            "q": [view(1, "pqrs"), {**ends, "at": 20}],
            "r": [view(1, "pqrs"), {"kind": "crash", "group": None, "at": 19}],
            "x": [view(2, "x"), {**ends, "at": 50}],
        }
    )
    assert (row["due"], row["missed"]) == (2, 1)


def test_messages_of_senders_that_crash_and_groups_without_deadlines_have_none_due() -> None:
    crash = {"kind": "crash", "group": None, "at": 30}
    late = {"q": [view(1, "pq"), deliver("p", 1, 90, 10)]}
    row = only({"p": [view(1, "pq"), send(1, 10, sender="p", deadline=20), crash], **late})
    assert (row["due"], row["missed"], row["miss_ratio"], row["lateness_max_ns"]) == (None, None, None, None)
    assert only({"p": [send(1, 10, sender="p")], **late})["due"] is None


def test_admissions_are_of_streams_and_other_rejections_are_not_counted() -> None:
    told: list[dict[str, Any]] = [{"kind": "admit", "detail": {"stream": "a"}}, {"kind": "reject", "detail": {"stream": "b"}}]
    others: list[dict[str, Any]] = [{"kind": "reject", "detail": {"join": True}}, {"kind": "reject", "sender": "p", "seq": 1}]
    row = only({"p": [*told, told[0], *others]})
    assert (row["admitted"], row["rejected"], row["admission_ratio"]) == (2, 1, 2 / 3)
    assert only({"p": others})["admitted"] is None


def test_a_rotation_is_from_turn_to_turn_without_a_view_or_a_leave_between() -> None:
    def turn(at: int, **more: Any) -> dict[str, Any]:
        return {"kind": "token", "at": at, **more}

    start = {"kind": "start", "group": None, "detail": {"bounds": {"rotation": 40, "detection": 90}}}
    row = only({"p": [start, turn(10), turn(30), view(1, "p", 35), turn(90), turn(95), {"kind": "leave", "at": 96}, turn(200)]})
    assert (row["rotations"], row["rotation_p50_ns"], row["rotation_max_ns"]) == (2, 12, 20)
    assert (row["rotation_bound_ns"], row["detection_bound_ns"]) == (40, 90)
    assert only({"p": [view(1, "p")]})["rotations"] is None


def test_exclusion_is_from_a_crash_to_the_view_without_it_at_each_member_that_stays() -> None:
    crash = {"kind": "crash", "group": None, "at": 100}
    row = only(
        {
            "p": [view(1, "pqr"), view(2, "pr", 130)],
            "q": [view(1, "pqr"), crash],
            "r": [view(1, "pqr"), view(2, "pr", 150)],
        }
    )
    assert (row["exclusion_p50_ns"], row["exclusion_max_ns"]) == (40, 50)


def test_a_join_lasts_from_the_first_joining_to_the_view_and_broken_assumptions_are_counted() -> None:
    def state(at: int, **detail: Any) -> dict[str, Any]:
        return {"kind": "state", "at": at, "detail": detail}

    row = only(
        {
            "p": [state(5, state="joining"), state(20, state="joining"), view(1, "p", 45), view(2, "p", 50)],
            "q": [state(5, state="joining"), state(9, broken="P3", measured=8, bound=5)],
        }
    )
    assert (row["joins"], row["join_p50_ns"], row["join_max_ns"], row["broken"]) == (1, 40, 40, 1)
    assert only({"p": [state(1, history=3)]})["broken"] is None


# --- whole runs ---------------------------------------------------------------------------------------------------------


def simulated(name: str, *overrides: str) -> pa.Table:
    trace = TraceBuffer()
    Simulation(load(find(name), list(overrides)), trace=trace).run()
    return named(trace.table(), name)


def named(trace: pa.Table, run: str) -> pa.Table:
    return trace.set_column(0, "run", pa.array([run] * trace.num_rows))


def test_runs_are_measured_each_for_itself_in_any_order_of_rows() -> None:
    one, other = simulated("first-steps", "duration=100ms"), simulated("slow-member")
    both = pa.concat_tables([other, one])
    mixed = both.take(pa.array(Random(1).sample(range(both.num_rows), both.num_rows)))
    apart = pa.concat_tables([measure(one), measure(other)])
    assert measure(both).equals(apart)
    assert measure(mixed).equals(apart)


def test_dictionary_encoded_columns_are_the_same() -> None:
    trace = simulated("first-steps", "duration=100ms")
    encoded = trace.set_column(5, "kind", trace.column("kind").dictionary_encode())
    assert measure(encoded).equals(measure(trace))


# --- common memory ----------------------------------------------------------------------------------------------------


def test_sends_and_decisions_are_told_by_their_rows() -> None:
    sent = [{"kind": "sent", "sender": "p", "seq": 1, "detail": {"took_ns": took}} for took in (30, 10)]
    decided = [{"kind": "decide", "sender": "p", "seq": 1, "detail": {"decision": d, "took_ns": 5 + d}} for d in (0, 1, 1)]
    row = only({"p": [send(1, 0, sender="p"), *sent], "q": decided}, protocol="mailbox")
    assert (row["send_p50_ns"], row["send_max_ns"]) == (20, 30)
    assert (row["decisions"], row["decided_against"], row["decision_max_ns"]) == (3, 1, 6)
    assert (row["timing_faults"], row["module_crashes"]) == (0, 0)


def test_timing_faults_and_crashed_modules_are_counted_once() -> None:
    module = {"kind": "fault", "group": None, "detail": {"fault": "module", "module": 1}}
    late = {"kind": "fault", "group": None, "detail": {"fault": "timing", "timing": True, "operation": "look", "count": 3}}
    slow = {"kind": "fault", "group": None, "detail": {"fault": "slow", "timing": True}}
    row = only({"p": [send(1, 0, sender="p"), module, late], "q": [module, slow]})
    assert (row["timing_faults"], row["module_crashes"]) == (4, 1)


def test_runs_without_common_memory_have_none_of_its_metrics() -> None:
    row = only({"p": [send(1, 0, sender="p")]}, protocol="sequencer")
    assert {row[name] for name in ("decisions", "send_max_ns", "timing_faults", "module_crashes")} == {None}


def test_entering_a_mailbox_is_not_joining_a_ring() -> None:
    state = {"kind": "state", "detail": {"state": "entered", "entry": 7}}
    assert only({"p": [state, send(1, 0, sender="p")]}, protocol="mailbox")["joins"] is None


def test_a_trace_without_groups_has_no_metrics() -> None:
    assert measure(table({"p": [{"kind": "start", "group": None}]})).num_rows == 0
    assert measure(SCHEMA.empty_table()).schema == METRICS


def random_trace(random: Random, run: str) -> pa.Table:
    """Rows of every kind that metrics look at, thrown together: nothing that a protocol did, everything that can be."""
    processes = ["p", "q", "r"][: random.randint(1, 3)]
    columns = {name: random.random() < 0.7 for name in ("true_time", "sent", "size", "packets", "deadline")}
    kinds = ["send", "deliver", "deliver", "deliver", "null", "retransmit", "suspect", "block", "unblock", "sync", "state"]
    kinds += ["join", "leave", "view", "fault", "crash", "stable", *(["receive"] if random.random() < 0.5 else [])]
    kinds += ["token", "token", "state", "admit", "reject", "start", *(["sent", "decide"] if random.random() < 0.3 else [])]
    chosen = random.sample(kinds, random.randint(1, len(kinds)))
    rows: list[dict[str, Any]] = []
    for process in processes:
        clock = 0
        stays = random.random() < 0.5
        able = [kind for kind in chosen if not stays or kind not in ("crash", "leave")] or ["view"]
        for index in range(random.randint(0, 30)):
            clock += random.choice([0, 1, 7, 1_000_003])
            row = random_row(random, random.choice(able), process, processes, clock)
            row.update(run=run, process=process, index=index, time=clock + 3, rank=index if random.random() < 0.8 else None)
            row["true_time"] = clock if columns["true_time"] else None
            for name in ("sent", "size", "packets", "deadline"):
                row[name] = row.get(name) if columns[name] else None
            rows.append(row)
    accepting = Random(f"accepts of {run}")
    if accepting.random() < 0.5:
        for row in rows:
            if row["kind"] in ("suspect", "null", "unblock") and accepting.random() < 0.5:
                row.update(kind="accept", sender=row["process"], group=row["group"] or "g", detail=None)
    return pa.Table.from_pylist(rows, schema=SCHEMA)


def random_row(random: Random, kind: str, process: str, processes: list[str], clock: int) -> dict[str, Any]:
    who = random.choice(processes)
    row: dict[str, Any] = {
        "kind": kind,
        "group": random.choice(["g", "g", "h", None]),
        "size": random.choice([10, 20, None]),
        "packets": random.choice([None, None, 2]),
    }
    if kind in ("send", "deliver"):
        row["group"] = row["group"] or "g"
        row.update(sender=process if kind == "send" else who, seq=random.randint(1, 9), size=random.randint(0, 40))
        row["sent"] = clock - random.randint(-5, 2_000_000) if kind == "deliver" and random.random() < 0.9 else None
        row["deadline"] = clock + random.randint(-5, 2_000_000) if random.random() < (0.2 if kind == "deliver" else 0.7) else None
    elif kind in ("receive", "sent", "decide", "block", "unblock", "reject") and random.random() < 0.5:
        row.update(sender=who, seq=random.randint(1, 9))
    elif kind == "view":
        row.update(view=random.randint(1, 3), members=random.sample(processes, random.randint(1, len(processes))))
    row["detail"] = random.choice([None, "{", json.dumps(random_detail(random, kind, who))])
    return row


def random_detail(random: Random, kind: str, who: str) -> dict[str, Any]:
    details: dict[str, dict[str, Any]] = {
        "suspect": random.choice([{"process": who}, {"processes": [who, "p"]}]),
        "reject": random.choice([{"stream": who}, {"join": True}]),
        "sync": {"over": random.random() < 0.5, "history": random.randint(0, 9)},
        "fault": random.choice(
            [
                *[{"fault": random.choice(["pause", "cut"]), "length": random.randint(0, 50)}] * 2,
                {"fault": "timing", "timing": True, "operation": "write", "count": random.randint(1, 3)},
                {"fault": "module", "module": random.randint(1, 2)},
            ]
        ),
        "sent": {"took_ns": random.choice([random.randint(0, 2_000_000), "long", None])},
        "decide": {"decision": random.randint(0, 1), "took_ns": random.randint(0, 2_000_000)},
        "crash": {"by": random.choice(["fault", "protocol"])},
        "state": random.choice(
            [{"history": random.choice([3, "many", None])}, {"state": "joining"}, {"state": "running", "broken": "P3"}]
        ),
        "start": {"bounds": {name: random.randint(1, 9) for name in ("rotation", "detection", "send", "deliver")}},
    }
    return details.get(kind, {})


def assert_same(measured: pa.Table, wanted: pa.Table) -> None:
    assert measured.schema == wanted.schema
    for one, other in zip(measured.to_pylist(), wanted.to_pylist(), strict=True):
        assert one == other


def test_spark_gives_the_same_for_simulated_and_random_traces(spark: SparkSession) -> None:
    """In one frame: what Spark spends is for the plan, hardly for the rows."""
    from plainchant.lab.metrics.frames import MetricsOfRuns

    random = Random(14)
    made = pa.concat_tables([random_trace(random, f"r{number:03}") for number in range(160)])
    wanted = measure(made)
    for metric in METRICS.names:
        assert wanted.column(metric).null_count < wanted.num_rows, f"no random trace has {metric}"
    names = ("first-steps", "sequencer-crash", "slow-member", "join-and-leave")
    # Spark stops reading an Arrow table at its first empty chunk.
    trace = pa.concat_tables([*map(simulated, names), made]).combine_chunks()
    assert_same(MetricsOfRuns().of_frame(spark.createDataFrame(trace.select(COLUMNS))), measure(trace))
