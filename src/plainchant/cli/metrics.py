"""``plainchant metrics``: what runs cost and how quick they were, from their traces alone."""

from __future__ import annotations

import functools
import io
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq
from rich.console import Console

from ..core.model import MS, SECOND, US, UsageError
from ..scenario.read import nearest
from ..trace.schema import MalformedTrace
from .console import guarded, moving_line, output, plain_table
from .options import TracesOrTableArgument, option
from .output import json_text, staged, write_or_print
from .spark import (
    ConfOption,
    EngineOption,
    ExplainOption,
    MasterOption,
    MemoryOption,
    RemoteOption,
    TableOption,
    UiOption,
    engine_of,
    paths_of,
    spark_for,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_FEW: Final = 4
"""So many (run, group) pairs are told one by one; more are summarised."""
_ODD: Final = 10
"""So many runs with something unmatched are named."""
_PARTS: Final = ("p50", "p90", "p99", "max")
_ENDS: Final = ("p50", "max")


def _parts(name: str, label: str = "") -> dict[str, str]:
    """The columns of a distribution, and what they are called."""
    return {f"{name}_{part}_ns": f"{label or name} {part}" for part in _PARTS}


_LABELS: Final[Mapping[str, str]] = {
    "processes": "processes",
    "senders": "senders",
    "sends": "messages sent",
    "deliveries": "deliveries",
    "span_ns": "first send to last delivery",
    "messages_per_s": "messages/s delivered",
    "bytes_per_s": "bytes/s delivered",
    **_parts("latency"),
    **_parts("overhead", "delay overhead"),
    "packets": "packets",
    "packets_per_multicast": "packets a multicast",
    "bytes_per_multicast": "payload bytes a multicast",
    "nulls": "null messages",
    "retransmissions": "retransmissions",
    "history_max": "largest history",
    "unstable_max": "most messages not yet stable",
    "blocked_ns": "blocked by flow control",
    "sync_ns": "in synchronisation",
    "standstill_max_ns": "longest standstill of a member",
    "view_changes": "view changes",
    "suspicions": "suspicions",
    "failures": "failures",
    "detected": "failures detected",
    "detection_p50_ns": "failure detection p50",
    "detection_max_ns": "failure detection max",
    "fairness": "fairness (Jain's index)",
    "fairness_ratio": "largest share over smallest",
    "due": "messages due at a destination",
    "missed": "deadlines missed",
    "miss_ratio": "share of deadlines missed",
    **_parts("lateness"),
    "lateness_p50_ns": "lateness p50 (negative: early)",
    "admitted": "streams admitted",
    "rejected": "streams rejected",
    "admission_ratio": "share admitted",
    "rotations": "rotations of the token",
    **_parts("rotation"),
    "rotation_bound_ns": "rotation, stated bound",
    "exclusion_p50_ns": "crash to view without it p50",
    "exclusion_max_ns": "crash to view without it max",
    "detection_bound_ns": "crash to view without it, stated bound",
    "joins": "joins",
    "join_p50_ns": "time to join p50",
    "join_max_ns": "time to join max",
    "broken": "assumptions broken",
    **_parts("send", "Send"),
    "send_bound_ns": "Send, stated bound",
    "deliver_bound_ns": "delivery, stated bound",
    "decisions": "decisions of receivers",
    "decided_against": "decisions to reject",
    **_parts("decision"),
    "timing_faults": "timing faults",
    "module_crashes": "memory modules crashed",
}


@guarded
def metrics(
    paths: TracesOrTableArgument = None,
    table: TableOption = None,
    run: Annotated[str | None, option("Only this run.")] = None,
    group: Annotated[str | None, option("Only this group.")] = None,
    json_file: Annotated[Path | None, option("Write the metrics as JSON; - is standard output.", "--json", of="FILE")] = None,
    csv_file: Annotated[Path | None, option("Write the metrics as CSV; - is standard output.", "--csv", of="FILE")] = None,
    out: Annotated[Path | None, option("New directory to write the metrics to, as Parquet.")] = None,
    detections: Annotated[
        bool, option("Match injected crashes and omissions with what was detected of them.", "--detections")
    ] = False,
    explain: ExplainOption = False,
    master: MasterOption = None,
    remote: RemoteOption = None,
    memory: MemoryOption = None,
    conf: ConfOption = None,
    ui: UiOption = False,
    engine: EngineOption = "auto",
) -> None:
    """Measure runs: throughput, latency, packets, retransmissions, flow control, views, failure detection, fairness.

    There is a row for each run and group. A few are printed whole; of many, the median and the spread over all of them.
    What every metric means is in docs/metrics.md; what the trace does not tell is "not recorded", which is not 0.

    A sweep has been measured already. Traces of up to 2,000,000 rows are measured in this process; larger ones, or all if an
    option is about Spark, on Spark. Both say the same.

    Examples:

      plainchant metrics result
      plainchant metrics result --json metrics.json --csv metrics.csv
      plainchant metrics sweep-directory --group g
      plainchant metrics result --detections
      plainchant metrics s3://bucket/traces --master spark://host:7077 --out measured
      plainchant metrics --table lake.traces
    """
    from ..lab.metrics.paths import HERE_UP_TO, match_paths, measure_paths

    paths = paths_of(paths, table)
    engine = engine_of(engine, master, remote, memory, conf, ui, table, explain)
    here_up_to = {"auto": HERE_UP_TO, "local": sys.maxsize, "spark": -1}[engine]
    session = functools.partial(_session, master, remote, memory, conf, ui=ui)
    if detections and (group is not None or out is not None):
        raise UsageError("--detections is about whole runs and writes --json and --csv; leave out --group and --out")
    if table is not None or explain:
        measured = _as_frame(session, paths, table, run, detections=detections, explain=explain)
        if measured is None:
            return
    else:
        measured = (match_paths if detections else measure_paths)(paths, spark=session, run=run, here_up_to=here_up_to)
    if group is not None:
        known = measured.column("group").unique().to_pylist()
        if group not in known:
            raise UsageError(f"there is no group {group!r}; {nearest(group, known)}")
        measured = measured.filter(pc.equal(measured.column("group"), group))
    _write(measured, "detections" if detections else "metrics", json_file, csv_file, out)
    if "-" not in (str(json_file), str(csv_file)):
        (_tell_detections if detections else _tell)(measured, output())


def _as_frame(
    session: Callable[[], AbstractContextManager[SparkSession]],
    paths: list[str],
    table: str | None,
    run: str | None,
    *,
    detections: bool,
    explain: bool,
) -> pa.Table | None:
    """Measures a table; None if the plan, also of files as Spark reads them, was all that was wanted."""
    from ..lab.frames import measured, source, verified
    from ..lab.verify.frame import verification_in

    if len(paths) > 1:
        raise UsageError("--explain is about one trace: give one path")
    with session() as spark:
        rows = source.table(spark, table) if table is not None else source.trace(spark, paths[0])
        rows = rows if run is None else rows.where(rows["run"] == run)
        if explain:
            return (measured.detections if detections else measured.metrics)(rows).explain("formatted")  # it prints
        if malformed := verification_in(verified.found_in(rows, []), []).malformed:
            raise MalformedTrace(malformed)
        return measured.at_once(rows, detections=detections)


@contextmanager
def _session(
    master: str | None, remote: str | None, memory: str | None, conf: list[str] | None, *, ui: bool
) -> Iterator[SparkSession]:
    """Spark, with a line for people who wait."""
    with moving_line("starting Spark") as tell, spark_for(master, remote, memory, conf, ui=ui) as spark:
        tell("measuring")
        yield spark


def _write(table: pa.Table, name: str, json_file: Path | None, csv_file: Path | None, out: Path | None) -> None:
    if json_file is not None:
        write_or_print(json_file, json_text({name: table.to_pylist()}))
    if csv_file is not None:
        sink = io.BytesIO()
        pyarrow.csv.write_csv(table, sink)
        write_or_print(csv_file, sink.getvalue().decode())
    if out is not None:
        with staged(out) as directory:
            (directory / "metrics").mkdir()
            pq.write_table(table, directory / "metrics" / "part-00000.parquet", compression="zstd")


def _tell(table: pa.Table, console: Console) -> None:
    if not table.num_rows:
        console.print("nothing to measure: no event names a group")
    elif table.num_rows <= _FEW:
        for number, row in enumerate(table.to_pylist()):
            console.print("\n" * bool(number) + f"run {row['run']}, group {row['group']}", markup=False)
            lines = plain_table("", "")
            for label, text in _lines(row):
                lines.add_row(f"  {label}", text)
            console.print(lines)
    else:
        _tell_many(table, console)


def _lines(row: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    told = {name: _text(name, row[name]) for name in _LABELS}
    yield "processes", f"{told['processes']}, {told['senders']} senders"
    yield "messages", f"{told['sends']} sent, {told['deliveries']} deliveries, in {told['span_ns']}"
    yield "throughput", f"{told['messages_per_s']} messages/s, {told['bytes_per_s']} bytes/s"
    yield "latency", _together(told, "latency")
    yield "delay overhead", _together(told, "overhead")
    yield "packets", f"{told['packets']}, {told['packets_per_multicast']} a multicast"
    yield "payload", f"{told['bytes_per_multicast']} bytes a multicast"
    counted = ("nulls", "retransmissions", "history_max", "unstable_max", "blocked_ns", "sync_ns", "standstill_max_ns")
    for name in (*counted, "view_changes", "suspicions"):
        yield _LABELS[name], told[name]
    yield "failures", f"{told['failures']}, {told['detected']} detected"
    if row["detected"]:
        yield "failure detection", _together(told, "detection", _ENDS)
    yield _LABELS["fairness"], told["fairness"]
    yield _LABELS["fairness_ratio"], told["fairness_ratio"]
    yield from _real_time(row, told)


def _real_time(row: Mapping[str, Any], told: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """What only runs with deadlines, tokens and states, or on common memory, have."""
    if row["due"] is not None:
        yield "deadlines", f"{told['missed']} missed of {told['due']} ({row['miss_ratio']:.3%})"
    if row["lateness_max_ns"] is not None:
        yield "lateness (negative: early)", _together(told, "lateness")
    if row["admitted"] is not None:
        yield "admission", f"{told['admitted']} admitted, {told['rejected']} rejected"
    if row["rotations"]:
        yield "rotations", f"{told['rotations']}: {_together(told, 'rotation')}{_bound(told['rotation_bound_ns'])}"
    if row["exclusion_max_ns"] is not None:
        yield "crash to view without it", _together(told, "exclusion", _ENDS) + _bound(told["detection_bound_ns"])
    if row["joins"]:
        yield "joins", f"{told['joins']}: {_together(told, 'join', _ENDS)}"
    if row["broken"] is not None:
        yield _LABELS["broken"], told["broken"]
    if row["send_max_ns"] is not None:
        yield "Send", _together(told, "send") + _bound(told["send_bound_ns"])
    if row["decisions"] is not None:
        spread = _together(told, "decision")
        yield "decisions", f"{told['decisions']}, {told['decided_against']} of them to reject: {spread}"
    for name in ("timing_faults", "module_crashes"):
        if row[name] is not None:
            yield _LABELS[name], told[name]


def _bound(text: str) -> str:
    return "" if text == _UNKNOWN else f"; stated bound {text}"


def _together(told: Mapping[str, str], name: str, parts: Sequence[str] = _PARTS) -> str:
    """``p50 2 ms, max 9 ms``, or once that it is not recorded."""
    texts = {part: told[f"{name}_{part}_ns"] for part in parts}
    return ", ".join(f"{part} {text}" for part, text in texts.items()) if set(texts.values()) != {_UNKNOWN} else _UNKNOWN


def _tell_many(table: pa.Table, console: Console) -> None:
    from ..lab.metrics import REAL_TIME

    runs, groups = (len(table.column(name).unique()) for name in ("run", "group"))
    console.print(f"{runs:,} runs, {groups:,} {'group' if groups == 1 else 'groups'}, {table.num_rows:,} measurements:")
    shown = plain_table("metric", "of", "median", "p90", "least", "most")
    for heading in shown.columns[1:]:
        heading.justify, heading.no_wrap = "right", True
    for name, label in _LABELS.items():
        column = table.column(name).drop_null()
        if len(column):
            values = (*pc.quantile(column, q=[0.5, 0.9]).to_pylist(), *pc.min_max(column).as_py().values())
            shown.add_row(label, f"{len(column):,}", *(_text(name, value) for value in values))
        elif name not in REAL_TIME:
            shown.add_row(label, "0", _NOTHING.get(name, _UNKNOWN), "", "", "")
    console.print(shown)


def _tell_detections(table: pa.Table, console: Console) -> None:
    """All runs together, and those in which something was not detected, or detected that was not so."""
    total = {name: f"{pc.sum(table.column(name)).as_py() or 0:,}" for name in table.column_names if name != "run"}
    became = ", ".join(f"{total[f'omissions_{way}']} {told}" for way, told in _OMISSIONS.items())
    lines = plain_table("", "")
    lines.add_row("runs", f"{table.num_rows:,}")
    unseen = f"; {total['crashes_unseen']} more of processes in nobody's view"
    lines.add_row("crashes injected", f"{total['crashes']}: {total['crashes_matched']} matched by a view without it{unseen}")
    lines.add_row("omissions injected", f"{total['omissions']}: {became}")
    false = f"{total['eliminations_false']} though nothing of theirs was dropped"
    lines.add_row("live processes eliminated", f"{total['eliminations_provoked']} after an omission of what they sent, {false}")
    lines.add_row("halts without an injection", total["halts_unprovoked"])
    console.print(lines)
    odd = [row for row in table.to_pylist() if row["crashes"] > row["crashes_matched"] or row["eliminations_false"]]
    for row in odd[:_ODD]:
        unmatched = row["crashes"] - row["crashes_matched"]
        told = f"run {row['run']}: {unmatched} crashes not matched, {row['eliminations_false']} false eliminations"
        console.print(told, markup=False)
    if len(odd) > _ODD:
        console.print(f"and {len(odd) - _ODD:,} more such runs; --json has all")


_OMISSIONS: Final = {
    "halted": "ended in a halt",
    "repaired": "repaired",
    "eliminated": "cost the process its membership",
    "without_effect": "without effect",
}
_UNKNOWN: Final = "not recorded"
_NOTHING: Final = {"detection_p50_ns": "none detected", "detection_max_ns": "none detected"}


def _text(name: str, value: float | None) -> str:
    if value is None:
        return _UNKNOWN
    if name.endswith("_ns"):
        return _duration(value)
    return f"{value:,.0f}" if float(value).is_integer() or abs(value) >= 1000 else f"{value:.3g}"


def _duration(ns: float) -> str:
    """Three digits and a unit."""
    for unit, size in (("s", SECOND), ("ms", MS), ("µs", US)):
        if abs(ns) >= size:
            return f"{ns / size:.3g} {unit}" if abs(ns) < 1000 * size else f"{ns / size:,.0f} {unit}"
    return f"{ns:.3g} ns" if ns else "0"
