"""Real time: deadlines, admission, the token's way round, crashes and joins, sends and decisions in common memory, in tables and
two histograms.

What the figures mean is defined in ``lab.metrics``. There is no such section where nothing of it was recorded. Runs of a sweep
are told by its metrics. A large run has figures if it was verified for the report, and no histograms.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from ...core.words import short
from ..metrics import METRICS, REAL_TIME, Timings, timings
from . import html
from .overview import count_values
from .sections import chart
from .source import Subject
from .words import NAME_MAX, duration, showing

_GROUPS_MAX: Final = 8
_TOLD: Final[tuple[tuple[str, str], ...]] = (
    ("messages due at their destinations", "due"),
    ("deadlines missed", "missed"),
    ("lateness, median (negative: early)", "lateness_p50_ns"),
    ("lateness, 99 % are at most", "lateness_p99_ns"),
    ("lateness, largest", "lateness_max_ns"),
    ("streams admitted", "admitted"),
    ("streams rejected", "rejected"),
    ("rotations of the token", "rotations"),
    ("rotation, median", "rotation_p50_ns"),
    ("rotation, 99 % are at most", "rotation_p99_ns"),
    ("rotation, longest", "rotation_max_ns"),
    ("rotation, stated bound", "rotation_bound_ns"),
    ("crash to view without it, longest", "exclusion_max_ns"),
    ("crash to view without it, stated bound", "detection_bound_ns"),
    ("joins", "joins"),
    ("time to join, longest", "join_max_ns"),
    ("assumptions broken", "broken"),
    ("Send, median", "send_p50_ns"),
    ("Send, longest", "send_max_ns"),
    ("Send, stated bound", "send_bound_ns"),
    ("delivery, stated bound", "deliver_bound_ns"),
    ("decisions of receivers", "decisions"),
    ("decisions to reject", "decided_against"),
    ("decision, median", "decision_p50_ns"),
    ("decision, longest", "decision_max_ns"),
    ("timing faults", "timing_faults"),
    ("memory modules that crashed", "module_crashes"),
)
_ALWAYS: Final = ("exclusion_p50_ns", "exclusion_max_ns")
"""Any run with a crash has these: by themselves they are no reason for a section."""


def real_time(subject: Subject, run: str | None) -> str:
    """The section; nothing if nothing of it was recorded."""
    if subject.metrics is not None:
        return _section([("all runs", _together(subject.metrics))], []) if _tells(subject.metrics) else ""
    measured = subject.metrics_of(run) if run is not None else []
    if run is None or not _tells(pa.Table.from_pylist(measured, schema=METRICS)):
        return ""
    whole = subject.rows.whole(run) if subject.rows is not None else None
    columns = [(row["group"], row) for row in measured]
    return _section(columns[:_GROUPS_MAX], timings(whole) if whole is not None else [], len(columns))


def _tells(measured: pa.Table) -> bool:
    names = [name for name in REAL_TIME if name not in _ALWAYS and name in measured.column_names]
    return any(measured.column(name).null_count < measured.num_rows for name in names)


def _together(metrics: pa.Table) -> dict[str, Any]:
    """What all runs and groups come to: sums of counts, and of times the largest."""
    found: dict[str, Any] = {}
    for _, name in _TOLD:
        if name in metrics.column_names and "p50" not in name and "p99" not in name:
            column = metrics.column(name)
            found[name] = (pc.max(column) if name.endswith("_ns") else pc.sum(column)).as_py()
    return found


def _section(columns: Sequence[tuple[str, Mapping[str, Any]]], values: Sequence[Timings], count: int = 1) -> str:
    rows = []
    for label, name in _TOLD:
        if any(row.get(name) is not None for _, row in columns):
            rows.append(("", [html.text(label), *(html.text(_text(name, row.get(name))) for _, row in columns)]))
    headings = ("", *(short(group, NAME_MAX) for group, _ in columns))
    caption = "What was guaranteed, and what came of it."
    caption += showing(len(columns), count, " groups; `plainchant metrics` has all")
    table = html.table(headings, rows, caption, right=range(1, len(headings)))
    charts = [drawn for each in values[:_GROUPS_MAX] for drawn in _charts(each, len(values) == 1)]
    pictures = f'<div class="charts">{"".join(charts)}</div>' if charts else ""
    return f"<h2>Real time</h2>{table}{pictures}"


def _charts(values: Timings, is_alone: bool) -> list[str]:
    where = "" if is_alone else f" in {values.group}"
    wanted = (
        (values.rotations, f"Rotation{where}: from a turn of a process to its next, without a view between.", "rotations"),
        (-values.lateness, f"Slack{where}: what was left to the deadline when a message was delivered.", "deliveries"),
    )
    charts = []
    for times, what, unit in wanted:
        counts: dict[int, int] = {}
        count_values(counts, times)
        charts.append(chart(counts, what, duration, unit))
    return charts


def _text(name: str, value: float | None) -> str:
    if value is None:
        return ""
    return duration(value) if name.endswith("_ns") else f"{value:,}"
