"""A trace of any size, read once, as a few numbers: per run what happened, all latencies as a histogram, a run in bins.

A latency is ``true_time - sent`` of a delivery. Latencies are kept with three digits, so that millions of them are some
thousand different ones; quantiles are exact to these digits. Where a trace does not carry send times, and is small, the
``send`` rows tell them, on the processes' own clocks.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from ...core.words import natural
from ...protocols.story import Story
from ..show import moments
from .source import WHOLE_RUN_MAX, Rows

BINS: Final = 120
"""Bins of a run's time line."""
LANES_MAX: Final = 40
"""So many processes are shown one by one in a time line."""
_SPARSE_MAX: Final = 2_500
"""So many of their views, crashes and suspicions are."""
SPARSE: Final = ("view", "join", "leave", "crash", "end", "fault", "suspect", "refute", "confirm", "elect", "sync", "reject")
"""Kinds that are few and that a picture of a run shows one by one."""
_COLUMNS: Final = ("run", "process", "time", "true_time", "kind", "sent", "packets")


@dataclasses.dataclass
class RunFacts:
    """What happened in a run, in numbers."""

    events: int = 0
    sends: int = 0
    deliveries: int = 0
    packets: int = 0
    first: int = 0
    last: int = 0


@dataclasses.dataclass
class Overview:
    """What happened in all runs of a trace."""

    runs: dict[str, RunFacts] = dataclasses.field(default_factory=dict)
    latencies: dict[int, int] = dataclasses.field(default_factory=dict)
    """How often each latency (three digits, ns) occurs."""
    has_true_time: bool = True
    by_own_clocks: bool = False
    """Latencies were taken from the processes' own clocks."""

    @property
    def events(self) -> int:
        return sum(facts.events for facts in self.runs.values())


def overview(rows: Rows) -> Overview:
    """Reads the whole trace once, a batch at a time; where there is no global clock, times count from a run's first row."""
    told = Overview()
    for table in rows.stream(_COLUMNS):
        _add_runs(told, table)
        delivered = table.filter(pc.equal(table.column("kind"), "deliver"))
        latency = pc.subtract(delivered.column("true_time"), delivered.column("sent")).drop_null()
        count_values(told.latencies, latency.to_numpy().astype(np.int64))
        told.has_true_time = told.has_true_time and table.column("true_time").null_count == 0
    if not told.has_true_time:
        rows.origins = {run: facts.first for run, facts in told.runs.items()}
    if not told.latencies and 0 < told.events <= WHOLE_RUN_MAX:
        _latencies_by_send(told, rows)
    return told


def _add_runs(told: Overview, table: pa.Table) -> None:
    numbers = {kind: pc.cast(pc.equal(table.column("kind"), kind), pa.int64()) for kind in ("send", "deliver")}
    numbers["packets"] = pc.cast(pc.fill_null(table.column("packets"), 0), pa.int64())
    moment = pc.coalesce(table.column("true_time"), table.column("time"))
    counted = pa.table({"run": table.column("run"), "moment": moment, **numbers})
    wanted = [("moment", "min"), ("moment", "max"), ("send", "sum"), ("deliver", "sum"), ("packets", "sum"), ("run", "count")]
    for row in counted.group_by("run", use_threads=False).aggregate(wanted).to_pylist():
        facts = told.runs.setdefault(row["run"], RunFacts(first=row["moment_min"], last=row["moment_max"]))
        facts.events += row["run_count"]
        facts.sends += row["send_sum"]
        facts.deliveries += row["deliver_sum"]
        facts.packets += row["packets_sum"]
        facts.first, facts.last = min(facts.first, row["moment_min"]), max(facts.last, row["moment_max"])


def _latencies_by_send(told: Overview, rows: Rows) -> None:
    """For traces without send times: each delivery with the send of its message."""
    keys = ["run", "group", "sender", "seq"]
    tables = list(rows.stream([*keys, "kind", "time"], ds.field("kind").isin(["send", "deliver"])))
    if not tables:
        return
    table = pa.concat_tables(tables)
    sends = table.filter(pc.equal(table.column("kind"), "send")).select([*keys, "time"]).rename_columns([*keys, "sent_at"])
    delivered = table.filter(pc.equal(table.column("kind"), "deliver")).select([*keys, "time"])
    both = delivered.join(sends, keys, join_type="inner")
    latency = pc.subtract(both.column("time"), both.column("sent_at")).to_numpy().astype(np.int64)
    if len(latency):
        told.by_own_clocks = True
        count_values(told.latencies, latency)


def count_values(counts: dict[int, int], values: npt.NDArray[np.int64]) -> None:
    """Adds how often each value occurs, with three digits of it."""
    magnitude = np.maximum(np.floor(np.log10(np.maximum(np.abs(values), 1))).astype(np.int64) - 2, 0)
    unit = np.power(10, magnitude)
    rounded, times = np.unique((values + unit // 2) // unit * unit, return_counts=True)
    for value, many in zip(rounded.tolist(), times.tolist(), strict=True):
        counts[value] = counts.get(value, 0) + many


def quantile(counts: Mapping[int, int], share: float) -> int:
    """The smallest value that so large a share of all is not above.

    >>> quantile({1: 5, 2: 4, 9: 1}, 0.5), quantile({1: 5, 2: 4, 9: 1}, 0.99)
    (1, 9)
    """
    ordered = sorted(counts)
    passed = np.cumsum([counts[value] for value in ordered])
    return ordered[min(int(np.searchsorted(passed, share * sum(counts.values()))), len(ordered) - 1)] if ordered else 0


# --- one run ----------------------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class RunInBins:
    """One run over time."""

    run: str
    first: int
    last: int
    sends: npt.NDArray[np.int64]
    deliveries: npt.NDArray[np.int64]
    processes: dict[str, tuple[int, int]]
    """Messages sent and delivered, by process."""
    lanes: list[str]
    """The processes that are shown one by one."""
    faults: list[dict[str, Any]]
    """The faults, in order, with their ``moment``."""
    sparse: list[dict[str, Any]]
    """The other rows of these processes that are few, in order, with their ``moment``."""
    sparse_left_out: int


def in_bins(rows: Rows, run: str, facts: RunFacts) -> RunInBins:
    """A run over time: counts by bin, and the rows that are few."""
    span = max(facts.last - facts.first, 1)
    sends, deliveries = np.zeros(BINS, dtype=np.int64), np.zeros(BINS, dtype=np.int64)
    by_process: dict[str, list[int]] = {}
    mine = ds.field("run") == run
    for table in rows.stream(("process", "time", "true_time", "kind"), mine):
        moment = pc.coalesce(table.column("true_time"), table.column("time")).to_numpy().astype(np.int64)
        places = np.minimum((moment - facts.first) * BINS // span, BINS - 1)
        for number, (kind, into) in enumerate((("send", sends), ("deliver", deliveries))):
            chosen = pc.equal(table.column("kind"), kind)
            np.add.at(into, places[chosen.to_numpy(zero_copy_only=False)], 1)
            for each in pc.value_counts(table.column("process").filter(chosen)).to_pylist():
                by_process.setdefault(each["values"], [0, 0])[number] += each["counts"]
        for name in table.column("process").unique().to_pylist():
            by_process.setdefault(name, [0, 0])
    chosen = rows.select(run, pc.field("kind").isin(list(SPARSE)))
    origin = rows.origins.get(run, 0)
    lanes = sorted(by_process, key=natural)[:LANES_MAX]
    sparse = with_moments(chosen, origin, rows.story(run))
    sparse.sort(key=lambda row: (row["moment"], row["process"], row["index"]))
    faults = [row for row in sparse if row["kind"] == "fault"]
    others = [row for row in sparse if row["kind"] != "fault" and row["process"] in lanes]
    return RunInBins(
        run=run,
        first=facts.first - origin,
        last=facts.last - origin,
        sends=sends,
        deliveries=deliveries,
        processes={name: (sent, delivered) for name, (sent, delivered) in by_process.items()},
        lanes=lanes,
        faults=faults,
        sparse=others[:_SPARSE_MAX],
        sparse_left_out=max(len(others) - _SPARSE_MAX, 0),
    )


def each_once(faults: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Faults, each once although it is recorded at every process that it hit."""
    once: dict[tuple[int, str | None], dict[str, Any]] = {}
    for row in faults:
        once.setdefault((row["moment"], row["detail"]), row)
    return list(once.values())


def with_moments(table: pa.Table, origin: int, story: type[Story]) -> list[dict[str, Any]]:
    """The rows of a run in the order of histories, each with its ``moment``, counted from the origin, and its ``story``."""
    found: list[dict[str, Any]] = table.to_pylist()
    for row, moment in zip(found, moments(table).tolist() if found else [], strict=True):
        row["moment"], row["story"] = moment - origin, story
    return found
