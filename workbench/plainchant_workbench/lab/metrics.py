"""How fast large traces are measured, beside DuckDB, which computes the same figures from the same files, in turns with us.

DuckDB is asked for what most runs have: counts, rates, fairness, packets, views, the longest standstill, latencies and delay
overheads with their percentiles. (We also tell what is recorded, flow control, failures and real time, and we validate the
trace.) Its answers are held against ours: they must be the same, percentiles as far as their stated error.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from plainchant.lab.errors import LabError
from plainchant.lab.metrics.paths import measure_paths
from plainchant.lab.metrics.samples import ERROR

from .traces import Shape, make
from .verify import FEW, MANY, MANY_MEMBERS, PLAIN, Peer, Row, apart, best_of, peer_process, said, timed_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

QUERY: Final = """
    WITH rows AS (SELECT *, coalesce(true_time, time) AS clock FROM read_parquet(?) WHERE "group" IS NOT NULL),
    waits AS (
        SELECT run, "group", process, sender, clock, size, sent, clock - sent AS latency,
               clock - greatest(coalesce(lag(clock) OVER history, -9e18), min(sent) OVER (history
                   ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING)) AS standstill
        FROM rows WHERE kind = 'deliver' WINDOW history AS (PARTITION BY run, "group", process ORDER BY "index")
    ),
    quickest AS (SELECT run, "group", process, sender, min(latency) AS best FROM waits GROUP BY ALL),
    delays AS (
        SELECT run, "group", count(*) AS deliveries, max(clock) AS last, min(least(clock, sent)) AS first,
               max(standstill) AS standstill,
               quantile_cont(latency, [0.5, 0.9, 0.99]) AS latency, max(latency) AS longest,
               quantile_cont(latency - best, [0.5, 0.9, 0.99]) AS overhead, max(latency - best) AS furthest
        FROM waits JOIN quickest USING (run, "group", process, sender) GROUP BY ALL
    ),
    places AS (
        SELECT run, "group", max(rows) AS most, max(bytes) AS bytes
        FROM (SELECT run, "group", process, count(*) AS rows, sum(size) AS bytes FROM waits GROUP BY ALL) GROUP BY ALL
    ),
    shares AS (
        SELECT run, "group", sum(share) ** 2 / (count(*) * sum(share * share)) AS fairness, count(*) AS senders
        FROM (SELECT run, "group", sender, count(*)::DOUBLE AS share FROM waits GROUP BY ALL) GROUP BY ALL
    ),
    counts AS (
        SELECT run, "group", count(DISTINCT process) AS processes, count(*) FILTER (kind = 'send') AS sends,
               count(*) FILTER (kind = 'null') AS nulls, min(clock) FILTER (kind = 'send') AS begins,
               count(DISTINCT CASE WHEN kind = 'view' THEN (view, members) END) - 1 AS view_changes, sum(packets) AS packets,
               sum(size) FILTER (kind = 'send') AS bytes
        FROM rows GROUP BY ALL
    )
    SELECT run, "group", processes, senders, sends, deliveries, last - least(first, begins) AS span_ns,
           most / ((last - least(first, begins)) / 1e9) AS messages_per_s, latency[1] AS latency_p50_ns,
           latency[2] AS latency_p90_ns, latency[3] AS latency_p99_ns, longest AS latency_max_ns, overhead[1] AS overhead_p50_ns,
           overhead[2] AS overhead_p90_ns, overhead[3] AS overhead_p99_ns, furthest AS overhead_max_ns, packets,
           packets / sends AS packets_per_multicast, counts.bytes / sends AS bytes_per_multicast, nulls, view_changes, fairness,
           greatest(0, standstill) AS standstill_max_ns
    FROM delays JOIN places USING (run, "group") JOIN shares USING (run, "group") JOIN counts USING (run, "group")
    ORDER BY run, "group"
"""


def measure(
    sizes: Sequence[int],
    directory: Path,
    *,
    rounds: int = 3,
    master: str | None = None,
    remote: str | None = None,
    progress: Callable[[str], None] = lambda what: None,
) -> tuple[Row, ...]:
    """Measures traces of these sizes, and the middle one with many members, beside DuckDB; their files go to ``directory``."""
    shapes = [*(Shape(size, FEW) for size in dict.fromkeys(sizes)), Shape(sorted(sizes)[len(sizes) // 2], MANY)]
    rows = []
    with peer_process() as peer, timed_session(master, remote) as (spark, _):
        progress("warming up")
        measured(spark, apart(make, directory, Shape(1_000)))
        for shape in shapes:
            progress(f"measuring {said(shape)}")
            turns = _Turns(spark, peer, apart(make, directory, shape))
            rows.append(best_of(peer, PLAIN if shape.members == FEW else MANY_MEMBERS, shape, rounds, turns.theirs, turns.ours))
    return tuple(rows)


class _Turns:
    """Both sides' figures of a trace, in turns."""

    def __init__(self, spark: SparkSession, peer: Peer, path: Path) -> None:
        self._spark, self._peer, self._path = spark, peer, path
        self._expected: dict[tuple[str, str], dict[str, Any]] = {}

    def theirs(self) -> float:
        seconds, rows = self._peer.answer(self._path, QUERY)
        self._expected = {(row["run"], row["group"]): row for row in rows}
        return seconds

    def ours(self) -> float:
        began = time.perf_counter()
        found = measured(self._spark, self._path)
        seconds = time.perf_counter() - began
        if differing := disagreements(found, self._expected):
            raise LabError(f"DuckDB's figures of {self._path} are others: {differing[0]}; one of the two definitions is wrong")
        return seconds


def measured(spark: SparkSession, path: Path) -> dict[tuple[str, str], dict[str, Any]]:
    table = measure_paths([str(path)], spark=lambda: nullcontext(spark), here_up_to=-1)
    return {(row["run"], row["group"]): row for row in table.to_pylist()}


def disagreements(ours: Mapping[Any, Mapping[str, Any]], theirs: Mapping[Any, Mapping[str, Any]]) -> list[str]:
    """Where figures differ from the peer's by more than they may."""
    found = [] if ours.keys() == theirs.keys() else [f"groups {sorted(ours)} and {sorted(theirs)}"]
    for key in ours.keys() & theirs.keys():
        for name in theirs[key].keys() - {"run", "group"}:
            mine, value = ours[key][name], float(theirs[key][name])
            off = 1 + 2 * ERROR * ours[key]["latency_max_ns"] if "_p" in name and name.endswith("_ns") else 1e-6 * abs(value)
            if mine is None or abs(mine - value) > off:
                found.append(f"{key}: {name} is {mine}, DuckDB says {value}")
    return found
