"""What the metrics are: their columns, the columns of a trace that they read, and a few figures."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import pyarrow as pa

PERCENTS: Final = (50, 90, 99)


def spread_of(name: str, percents: Sequence[int] = PERCENTS) -> tuple[str, ...]:
    """The columns of some percentiles of a time, and of the longest."""
    return (*(f"{name}_p{percent}_ns" for percent in percents), f"{name}_max_ns")


_FRACTIONS: Final = frozenset(
    {"messages_per_s", "bytes_per_s", "packets", "packets_per_multicast", "bytes_per_multicast", "fairness", "fairness_ratio"}
    | {"miss_ratio", "admission_ratio"}
)
_COUNTS_AND_TIMES: Final = (
    *("processes", "senders", "sends", "deliveries", "span_ns", "messages_per_s", "bytes_per_s"),
    *(*spread_of("latency"), *spread_of("overhead"), "packets", "packets_per_multicast", "bytes_per_multicast"),
    *("nulls", "retransmissions", "history_max", "unstable_max", "blocked_ns", "sync_ns", "standstill_max_ns"),
    *("view_changes", "suspicions", "failures", "detected", *spread_of("detection", (50,)), "fairness", "fairness_ratio"),
    *("due", "missed", "miss_ratio", *spread_of("lateness"), "admitted", "rejected", "admission_ratio"),
    *("rotations", *spread_of("rotation"), "rotation_bound_ns", *spread_of("exclusion", (50,)), "detection_bound_ns"),
    *("joins", *spread_of("join", (50,)), "broken", *spread_of("send"), "send_bound_ns", "deliver_bound_ns"),
    *("decisions", "decided_against", *spread_of("decision"), "timing_faults", "module_crashes"),
)
METRICS: Final = pa.schema(
    [("run", pa.string()), ("group", pa.string())]
    + [(name, pa.float64() if name in _FRACTIONS else pa.int64()) for name in _COUNTS_AND_TIMES]
)
"""The columns; ``docs/metrics.md`` defines each."""

REAL_TIME: Final = tuple(METRICS.names[METRICS.names.index("due") :])  # of runs with deadlines, tokens, states or shared memory

COLUMNS: Final = (
    "run", "process", "index", "time", "true_time", "kind", "group", "view", "sender", "seq", "members", "deadline",
    "sent", "rank", "size", "packets", "detail",
)  # fmt: skip
"""The columns of a trace that metrics read."""

OPTIONAL: Final = ("null", "retransmit", "suspect", "sync", "unblock", "token", "state")
"""Kinds whose absence says nothing by itself: a protocol may never do it, or may not record it."""

HISTORY_KINDS: Final = ("state", "stable", "block", "sync")  # their ``detail`` may tell ``{"history": 17}``

STATES: Final = frozenset({"gathering", "joining", "running", "crashed"})  # what a ``state`` row says of a member of a ring


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
