"""What the metrics are: their columns, the columns of a trace that they read, and a few figures."""

from __future__ import annotations

from typing import Any, Final

import pyarrow as pa

METRICS: Final = pa.schema(
    [
        ("run", pa.string()),
        ("group", pa.string()),
        ("processes", pa.int64()),  # with a row in this group
        ("senders", pa.int64()),
        ("sends", pa.int64()),
        ("deliveries", pa.int64()),
        ("span_ns", pa.int64()),  # first send to last delivery
        ("messages_per_s", pa.float64()),
        ("bytes_per_s", pa.float64()),
        ("latency_p50_ns", pa.int64()),
        ("latency_p90_ns", pa.int64()),
        ("latency_p99_ns", pa.int64()),
        ("latency_max_ns", pa.int64()),
        ("overhead_p50_ns", pa.int64()),
        ("overhead_p90_ns", pa.int64()),
        ("overhead_p99_ns", pa.int64()),
        ("overhead_max_ns", pa.int64()),
        ("packets", pa.float64()),  # a share of those on rows without a group included
        ("packets_per_multicast", pa.float64()),
        ("bytes_per_multicast", pa.float64()),
        ("nulls", pa.int64()),
        ("retransmissions", pa.int64()),
        ("history_max", pa.int64()),
        ("unstable_max", pa.int64()),
        ("blocked_ns", pa.int64()),
        ("sync_ns", pa.int64()),
        ("standstill_max_ns", pa.int64()),  # a member delivers nothing, and a message waits
        ("view_changes", pa.int64()),
        ("suspicions", pa.int64()),
        ("failures", pa.int64()),
        ("detected", pa.int64()),
        ("detection_p50_ns", pa.int64()),
        ("detection_max_ns", pa.int64()),
        ("fairness", pa.float64()),
        ("fairness_ratio", pa.float64()),
        ("due", pa.int64()),  # messages with a deadline, at each destination
        ("missed", pa.int64()),
        ("miss_ratio", pa.float64()),
        ("lateness_p50_ns", pa.int64()),  # negative: before the deadline
        ("lateness_p90_ns", pa.int64()),
        ("lateness_p99_ns", pa.int64()),
        ("lateness_max_ns", pa.int64()),
        ("admitted", pa.int64()),
        ("rejected", pa.int64()),
        ("admission_ratio", pa.float64()),
        ("rotations", pa.int64()),
        ("rotation_p50_ns", pa.int64()),
        ("rotation_p90_ns", pa.int64()),
        ("rotation_p99_ns", pa.int64()),
        ("rotation_max_ns", pa.int64()),
        ("rotation_bound_ns", pa.int64()),
        ("exclusion_p50_ns", pa.int64()),  # crash to view without it, at each member
        ("exclusion_max_ns", pa.int64()),
        ("detection_bound_ns", pa.int64()),
        ("joins", pa.int64()),
        ("join_p50_ns", pa.int64()),
        ("join_max_ns", pa.int64()),
        ("broken", pa.int64()),  # assumptions seen to be violated
        ("send_p50_ns", pa.int64()),  # of what sends took, where that is told
        ("send_p90_ns", pa.int64()),
        ("send_p99_ns", pa.int64()),
        ("send_max_ns", pa.int64()),
        ("send_bound_ns", pa.int64()),
        ("deliver_bound_ns", pa.int64()),
        ("decisions", pa.int64()),
        ("decided_against", pa.int64()),
        ("decision_p50_ns", pa.int64()),
        ("decision_p90_ns", pa.int64()),
        ("decision_p99_ns", pa.int64()),
        ("decision_max_ns", pa.int64()),
        ("timing_faults", pa.int64()),
        ("module_crashes", pa.int64()),
    ]
)

REAL_TIME: Final = tuple(METRICS.names[METRICS.names.index("due") :])
"""Metrics of runs with deadlines, tokens or states, or on shared memory."""

COLUMNS: Final = (
    "run", "process", "index", "time", "true_time", "kind", "group", "view", "sender", "seq", "members", "deadline",
    "sent", "rank", "size", "packets", "detail",
)  # fmt: skip
"""The columns of a trace that metrics read."""

OPTIONAL: Final = ("null", "retransmit", "suspect", "sync", "unblock", "token", "state")
"""Kinds whose absence says nothing by itself: a protocol may never do it, or may not record it."""

HISTORY_KINDS: Final = ("state", "stable", "block", "sync")
"""Kinds whose ``detail`` may say how much history is held: ``{"history": 17}``."""

STATES: Final = frozenset({"gathering", "joining", "running", "crashed"})
"""What a ``state`` row says of a member of a ring; other protocols' rows say other things."""

PERCENTS: Final = (50, 90, 99)


def ratio(amount: float | None, of: float | None, unit: float = 1.0) -> float | None:
    """The amount per unit; None if an operand is unknown or there is nothing to divide by.

    >>> ratio(3, 4), ratio(10, 2_000_000_000, 1e9), ratio(3, 0), ratio(None, 4)
    (0.75, 5.0, None, None)
    """
    return None if amount is None or of is None or of <= 0 else float(amount) * unit / float(of)


def share_of_packets(own: int, alone: int, of_groups: int) -> float | None:
    """A group's packets: those on its rows, and of those on rows without a group in proportion to them.

    >>> share_of_packets(30, 4, 40), share_of_packets(0, 0, 0), share_of_packets(0, 4, 0)
    (33.0, 0.0, None)
    """
    if not of_groups:
        return None if alone else 0.0
    return float(own) + float(alone) * float(own) / float(of_groups)


def due_and_missed(due: int, missed: int) -> dict[str, Any]:
    """Messages with deadlines at their destinations; nothing is known where there are none."""
    return {"due": due or None, "missed": missed if due else None, "miss_ratio": ratio(missed, due)}


def admission(admitted: int, rejected: int) -> dict[str, Any]:
    return {"admitted": admitted, "rejected": rejected, "admission_ratio": ratio(admitted, admitted + rejected)}
