"""The sections that show what happened: a sweep's runs, a run over time, distributions, and an example of a message."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from ...core.words import natural, short
from . import html, words
from .charts import bars, histogram, summary
from .choose import telling_message
from .overview import Overview, in_bins
from .source import Subject
from .stories import message_story
from .timeline import left_out, timeline
from .words import duration

_POINTS: Final = 50
_TROUBLED: Final = 10
_BARS: Final = 24
_METRICS: Final = (
    ("messages/s", "messages_per_s", lambda value: f"{value:,.0f}"),
    ("latency p50", "latency_p50_ns", duration),
    ("latency p99", "latency_p99_ns", duration),
    ("packets a multicast", "packets_per_multicast", lambda value: f"{value:.2f}"),
    ("bytes a multicast", "bytes_per_multicast", lambda value: f"{value:,.0f}"),
    ("null messages", "nulls", lambda value: f"{value:,}"),
    ("retransmissions", "retransmissions", lambda value: f"{value:,}"),
    ("longest standstill", "standstill_max_ns", duration),
    ("view changes", "view_changes", lambda value: f"{value:,}"),
    ("failure detection", "detection_max_ns", duration),
    ("fairness", "fairness", lambda value: f"{value:.3f}"),
)


def runs_of_sweep(subject: Subject) -> str:
    """How the runs of each grid point ended, and those that failed or did not get quiet."""
    if subject.runs is None:
        return ""
    points: dict[tuple[str, ...], Counter[str]] = {}
    verdicts = subject.runs.column("verdict").to_pylist()
    for point, verdict in zip(subject.runs.column("point").to_pylist(), verdicts, strict=True):
        points.setdefault(tuple(point or ()), Counter())[verdict] += 1
    kinds = [kind for kind in ("holds", "violated", "restless", "failed") if kind in verdicts]
    kinds += sorted(set(verdicts) - set(kinds))
    rows = []
    for point, counts in list(points.items())[:_POINTS]:
        name = html.text(", ".join(point) or "as in the scenario", 200)
        rows.append(("", [name, f"{counts.total():,}", *(f"{counts[kind]:,}" for kind in kinds)]))
    caption = "Every grid point with its runs, one a seed, by how they ended."
    caption += words.showing(_POINTS, len(points), " points; all are in runs/")
    table = html.table(("grid point", "runs", *kinds), rows, caption, right=range(1, len(kinds) + 2))
    return f"<h2>Runs</h2>{table}{_troubled(subject.runs)}"


def _troubled(runs: pa.Table) -> str:
    """Runs that failed or did not get quiet: no property says so, and nobody should miss them."""
    bad = runs.filter(pc.is_in(runs.column("verdict"), pa.array(["failed", "restless"])))
    if not bad.num_rows:
        return ""
    rows = []
    for row in bad.slice(0, _TROUBLED).to_pylist():
        told = [html.text(row[name] or "", 300) for name in ("run", "verdict", "problem", "replay")]
        rows.append(("", [*told[:3], f"<code>{told[3]}</code>"]))
    caption = "Runs that failed, or did not get quiet though they were to."
    caption += words.showing(_TROUBLED, bad.num_rows, "; all are in runs/")
    return html.table(("run", "ended", "why", "run it again"), rows, caption)


def over_time(subject: Subject, seen: Overview) -> str:
    """The time line of the run, or of the one of many that matters most."""
    run = chosen_run(subject, seen)
    if run is None or subject.rows is None:
        return ""
    binned = in_bins(subject.rows, run, seen.runs[run])
    processes = words.count(len(binned.processes), "process", "processes")
    span = duration(binned.last - binned.first)
    title = f"Time line of run {run}: {processes}, {span}; messages a second, views and faults"
    told = ["Every lane is a process, its bars are the views it installed (same colour: same view)."]
    told.append("⚡ and the lines down through the picture are injected faults, × is a process that stops, ◇ a suspicion.")
    told += [f"{sentence[:1].upper()}{sentence[1:]}." for sentence in left_out(binned)]
    if not seen.has_true_time:
        told.append("The trace has no global clock: times are the processes' own, which may differ, counted from the first row.")
    is_one = len(seen.runs) > 1 or subject.kind == "sweep"
    why = "the run of the first violation shown below" if subject.violations else "the first of the runs"
    which = html.paragraph(f"This is run {run}: {why}.", "lead") if is_one else ""
    head = "One run over time" if is_one else "The run over time"
    picture = html.figure(timeline(binned, short(title, 300)), html.text(" ".join(told)))
    metrics = _metrics(subject, run)
    counts = [(name, *binned.processes[name]) for name in sorted(binned.processes, key=natural)[:_BARS]]
    caption = "<b>Messages by process.</b> What each sent, and what it delivered of everybody's."
    caption += words.showing(_BARS, len(binned.processes), " processes")
    by_process = html.figure(bars(counts, "Messages sent and delivered, by process", names=("sent", "delivered")), caption)
    return f'<h2>{head}</h2>{which}{picture}<div class="charts">{by_process}{metrics}</div>'


def chosen_run(subject: Subject, seen: Overview) -> str | None:
    """The run to draw: that of the first violation shown, else the first."""
    violated = (violation.run for violation in subject.violations if violation.run in seen.runs)
    return next(violated, min(seen.runs, key=natural, default=None))


def _metrics(subject: Subject, run: str) -> str:
    """The run's metrics, group by group."""
    measured = subject.metrics_of(run)
    if not measured:
        return ""
    rows = []
    for name, column, told in _METRICS:
        values = [row.get(column) for row in measured[:6]]
        if any(value is not None for value in values):
            rows.append(("", [name, *("not recorded" if value is None else html.text(told(value)) for value in values)]))
    headings = ("metric", *(short(row["group"] or "no group", 20) for row in measured[:6]))
    caption = "In numbers, by group."
    caption += words.showing(6, len(measured), " groups; `plainchant metrics` has all")
    return f"<figure>{html.table(headings, rows, caption, right=range(1, len(headings)))}</figure>"


def distributions(subject: Subject, seen: Overview) -> str:
    """How latency, messages and packets are distributed."""
    charts = []
    if subject.metrics is not None:
        charts += _of_metrics(subject.metrics)
    elif seen.latencies:
        clocks = " By the processes' own clocks: they must agree for this to mean anything." if seen.by_own_clocks else ""
        what = "Delivery latency: from the send of a message to its delivery, every delivery counted."
        charts.append(chart(seen.latencies, what + clocks, duration, "deliveries"))
    if subject.runs is not None or len(seen.runs) > 1:
        own = [facts.sends for facts in seen.runs.values()]
        sent = subject.runs.column("sent").to_pylist() if subject.runs is not None else own
        counts = Counter(value for value in sent if value is not None)
        charts.append(chart(counts, "Messages a run: how many each run sent.", _whole, "runs"))
    if subject.runs is None and len(seen.runs) > 1:
        sending = [facts for facts in seen.runs.values() if facts.sends and facts.packets]
        packets = Counter(round(facts.packets / facts.sends * 100) for facts in sending)
        charts.append(chart(packets, "Packets a multicast, run by run: packets sent for each message.", _hundredth, "runs"))
    told = "".join(charts)
    return f'<h2>Distributions</h2><div class="charts">{told}</div>' if told else ""


def _of_metrics(metrics: pa.Table) -> list[str]:
    wanted: tuple[tuple[str, str, int, Callable[[float], str]], ...] = (
        ("latency_p50_ns", "Usual delivery latency: the median of each run and group.", 1, duration),
        ("latency_p99_ns", "Late deliveries: the 99th percentile of the latency of each run and group.", 1, duration),
        ("packets_per_multicast", "Packets a multicast, of each run and group.", 100, _hundredth),
        ("messages_per_s", "Throughput: messages delivered a second, of each run and group.", 1, _whole),
    )
    charts = []
    for column, what, factor, told in wanted:
        if column in metrics.column_names:
            values = [value for value in metrics.column(column).to_pylist() if value is not None]
            charts.append(chart(Counter(round(value * factor) for value in values), what, told, "runs and groups"))
    return charts


def chart(counts: dict[int, int] | Counter[int], what: str, told: Callable[[float], str], unit: str) -> str:
    """A histogram with its caption, which begins with a name and a colon or comma; nothing if nothing was counted."""
    if not counts:
        return ""
    name, _, rest = what.partition(":") if ":" in what else what.partition(",")
    head = f"<b>{html.text(name)}</b>: {html.text(rest.strip())}"
    if len(counts) == 1:
        ((value, many),) = counts.items()
        return f"<figure><figcaption>{head} {html.text(told(value))} for all {many:,} {html.text(unit)}.</figcaption></figure>"
    return html.figure(histogram(counts, name, told=told, what=unit), f"{head} {html.text(summary(counts, told))}.")


def _whole(value: float) -> str:
    return f"{value:,.0f}"


def _hundredth(value: float) -> str:
    return f"{value / 100:.2f}"


def example(subject: Subject, seen: Overview) -> str:
    """Where nothing is violated, one message's life, to show what a correct run looks like."""
    run = chosen_run(subject, seen)
    if run is None or subject.rows is None:
        return ""
    trouble = subject.rows.select(run, pc.field("kind").isin(["fault", "crash", "suspect"])).num_rows > 0
    message = telling_message(subject.rows, run, troubled=trouble)
    if message is None:
        return ""
    name = "/".join(str(part) for part in message)
    slowest = f"Of all messages of this run, {name} took longest to be delivered: here is what happened to it."
    why = slowest if trouble else f"{name} took as long as most messages of this run: here is all that happened to it."
    return f"<h2>The life of one message</h2>{message_story(subject.rows, run, message, why)}"
