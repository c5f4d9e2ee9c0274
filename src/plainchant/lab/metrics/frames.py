"""The metrics of a trace of any size: the definitions of ``metrics`` on Spark.

Theory of operation
-------------------
One pass brings the *cells*: sums, counts and extremes of each (run, group, process, sender). There are few of them however
long a run is; they are kept, and all that is counted follows from them. Percentiles are exact and take two passes: the first
counts delays in buckets of about a hundredth of their size, which tells the buckets that the percentiles fall in, the
second sorts what is in those. So one run of ten million events needs no more memory than a small one, and its work is shared
between all cores (the aggregate ``percentile`` would hold every value, a sort would be one task's). A last pass brings the
few rows that tell the *story* of a run (views, failures, flow control), each run's together, to the very code that measures
small traces. All of it is in built-in functions but that.

What comes out of each is a small table with a row a (run, group), and they are merged here, in the driver: joining them
in Spark costs more than computing them.

Costly ways that few traces need (joining deliveries with sends, with receipts, the ranks that became stable) are planned
only where the cells say that the trace needs them.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from pyspark.sql import Window
from pyspark.sql import functions as F

from .measures import measure
from .schema import COLUMNS, HISTORY_KINDS, METRICS, PERCENTS, admission, due_and_missed, ratio, share_of_packets

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_GROUP: Final = ("run", "group")
_CELL: Final = ("run", "group", "process", "sender")
_MESSAGE: Final = ("run", "group", "sender", "seq")

_STORY_KINDS: Final = tuple(
    dict.fromkeys(["start", "join", "leave", "view", "crash", "fault", "suspect", "unblock", *HISTORY_KINDS])
)
_STORY: Final = (
    "nulls", "retransmissions", "history_max", "blocked_ns", "sync_ns", "view_changes", "suspicions", "failures",
    "detected", "detection_p50_ns", "detection_max_ns", "rotation_bound_ns", "exclusion_p50_ns", "exclusion_max_ns",
    "detection_bound_ns", "joins", "join_p50_ns", "join_max_ns", "broken", "send_bound_ns", "deliver_bound_ns", "timing_faults",
    "module_crashes", "rotations",
)  # fmt: skip
"""Metrics that the story decides; of the first two and the last only whether they are recorded."""

_COUNTED: Final[Mapping[str, str]] = {"nulls": "null", "retransmissions": "retransmit"}


def measure_frame(trace: DataFrame) -> pa.Table:
    """What :func:`~plainchant.lab.metrics.measure` gives, for a DataFrame with the columns of the trace format."""
    trace = trace.select(*COLUMNS)
    events = _timed(trace)
    with _kept(_cells(events)) as cells:
        needs = _needs(cells)
        if "sends" not in needs:
            return _measured(trace, events, cells, needs)
    events = _timed(trace, with_sends=True)
    with _kept(_cells(events)) as cells:
        return _measured(trace, events, cells, needs)


def _measured(trace: DataFrame, events: DataFrame, cells: DataFrame, needs: frozenset[str]) -> pa.Table:
    runs = {row["run"]: row for row in _run_sums(cells).toArrow().to_pylist()}
    delays = _delayed(events, cells, with_receipts="receipts" in needs)
    tables = [_sums(cells), _story(trace, cells), _standstills(events, cells)]
    if "turns" in needs:
        rotations = _rotations(trace)
        delays = delays.unionByName(rotations)
        tables.append(rotations.groupBy(*_GROUP).agg(F.count(F.lit(1)).alias("rounds")))
    if "work" in needs:
        delays = delays.unionByName(_work(trace))
    if "deadlines" in needs:
        sends = _due_sends(trace)
        lateness = _lateness(trace, sends)
        delays = delays.unionByName(lateness)
        tables += [_met(lateness), _missing(trace, sends, cells)]
    if "stability" in needs:
        tables.append(_unstable(trace))
    delays = delays.withColumn("bucket", _bucket(F.col("value")))
    with _kept(_wanted(delays)) as wanted:
        wanted.count()  # so that its size is known when the join with it is planned
        tables.append(_spreads(delays, wanted))
        found = [table.toArrow().to_pylist() for table in tables]
    merged: dict[tuple[str, str], dict[str, Any]] = {}
    for row in (row for rows in found for row in rows):
        merged.setdefault((row["run"], row["group"]), {}).update(row)
    rows = [_figures(merged[key], runs[key[0]]) for key in sorted(merged)]
    return pa.Table.from_pylist(rows, schema=METRICS)


def _figures(found: dict[str, Any], run: Mapping[str, Any]) -> dict[str, Any]:
    """The columns of METRICS from what was added up for a group and for its run."""
    sends, delivers = found["send_rows"], found["deliver_rows"]
    span = found["last"] - found["first"] if delivers else None
    packets = None
    if run["packets_seen"]:
        packets = share_of_packets(found["own_packets"], run["packets_alone"], run["packets_of_groups"])
    return {
        **found,
        "sends": sends or (None if delivers else 0),
        "deliveries": delivers,
        "span_ns": span,
        "messages_per_s": ratio(found["most"], span, 1e9),
        "bytes_per_s": ratio(found["most_bytes"], span, 1e9) if not found["unsized_deliveries"] else None,
        "packets": packets,
        "packets_per_multicast": ratio(packets, sends),
        "bytes_per_multicast": ratio(found["sent_bytes"], sends) if not found["unsized_sends"] else None,
        "fairness": ratio(found["total"] * found["total"], found["senders"] * found["squares"]),
        "fairness_ratio": ratio(found["largest_share"], found["smallest_share"]),
        **{
            name: found[f"{kind}_rows"] if run[f"{kind}_rows"] or found[name] is not None else None
            for name, kind in _COUNTED.items()
        },
        "rotations": found.get("rounds", 0) if run["token_rows"] or found["rotations"] is not None else None,
        **(admission(found["admit_rows"], found["reject_rows"]) if run["admit_rows"] or run["reject_rows"] else {}),
        **({"decisions": found["decide_rows"], "decided_against": found["against_rows"]} if run["decide_rows"] else {}),
        **due_and_missed(found.get("judged", 0) + found.get("missing", 0), found.get("late", 0) + found.get("missing", 0)),
    }


@contextmanager
def _kept(frame: DataFrame) -> Iterator[DataFrame]:
    """A small table that is computed once, however often it is used."""
    kept = frame.persist()
    try:
        yield kept
    finally:
        kept.unpersist()


# --- what adds up -----------------------------------------------------------------------------------------------------


def _timed(trace: DataFrame, *, with_sends: bool = False) -> DataFrame:
    """The rows with ``clock``, and with ``latency`` at deliveries of which it is known when they were sent."""
    columns = ("index", "seq", "kind", "sent", "rank", "size", "packets", "deadline", "time", "true_time")
    is_rejection = (F.col("kind") == "reject") & F.get_json_object("detail", "$.stream").isNotNull()
    is_against = (F.col("kind") == "decide") & (F.get_json_object("detail", "$.decision") == "0")
    told = {"is_rejection": is_rejection, "is_against": F.coalesce(is_against, F.lit(False))}
    rows = trace.select(*_CELL, *columns, _clock().alias("clock"), *(value.alias(name) for name, value in told.items()))
    since: Column = F.col("sent")
    if with_sends:
        message = ["run", "group", "sender", "seq"]
        sends = rows.where(F.col("kind") == "send").groupBy(*message).agg(F.min("clock").alias("taken"))
        rows = rows.join(sends, on=message, how="left")
        since = F.coalesce("sent", "taken")
    return rows.withColumn("latency", F.when(F.col("kind") == "deliver", F.col("clock") - since))


def _clock() -> Column:
    return F.coalesce("true_time", "time")


def _cells(events: DataFrame) -> DataFrame:
    kind, size, clock = F.col("kind"), F.col("size"), F.col("clock")
    send, deliver = kind == "send", kind == "deliver"
    return events.groupBy(*_CELL).agg(
        *(F.count_if(kind == name).alias(f"{name}_rows") for name in ("send", "deliver", *_COUNTED.values())),
        F.count_if(deliver & F.col("sent").isNull()).alias("need_sends"),
        F.count_if(_is_receipt()).alias("need_receipts"),
        F.count_if((kind == "stable") & F.col("rank").isNotNull()).alias("need_stability"),
        F.count_if((kind == "token") & F.col("group").isNotNull()).alias("need_turns"),
        F.count_if((send | deliver) & F.col("deadline").isNotNull()).alias("need_deadlines"),
        F.count_if(kind == "token").alias("token_rows"),
        F.count_if(kind == "admit").alias("admit_rows"),
        F.count_if("is_rejection").alias("reject_rows"),
        F.count_if(kind.isin("sent", "decide") & F.col("group").isNotNull()).alias("need_work"),
        F.count_if(kind == "decide").alias("decide_rows"),
        F.count_if("is_against").alias("against_rows"),
        F.max("time").alias("last_time"),
        F.max("true_time").alias("last_true_time"),
        F.max("clock").alias("last_clock"),
        F.count_if(deliver & size.isNull()).alias("unsized_deliveries"),
        F.count_if(send & size.isNull()).alias("unsized_sends"),
        F.sum(F.when(deliver, size)).alias("delivered_bytes"),
        F.sum(F.when(send, size)).alias("sent_bytes"),
        F.sum("packets").alias("packets"),
        F.count("packets").alias("packets_seen"),
        F.min(F.when(deliver, F.least("clock", "sent")).when(send, clock)).alias("first"),
        F.max(F.when(deliver, clock)).alias("last"),
        F.min("latency").alias("best"),
    )


def _is_receipt() -> Column:
    return (F.col("kind") == "receive") & F.col("sender").isNotNull() & F.col("seq").isNotNull()


def _needs(cells: DataFrame) -> frozenset[str]:
    """Which of the costly ways this trace asks for."""
    ways = ("sends", "receipts", "stability", "turns", "deadlines", "work")
    found = cells.agg(*(F.max(f"need_{way}").alias(way) for way in ways)).first()
    return frozenset(way for way in ways if found is not None and found[way])


def _sums(cells: DataFrame) -> DataFrame:
    """What follows from a group's cells, the senders' shares in its deliveries included."""
    sender, process = Window.partitionBy(*_GROUP, "sender"), Window.partitionBy(*_GROUP, "process")
    delivered = F.col("deliver_rows")
    wider = cells.where(F.col("group").isNotNull()).select(
        "*",
        F.sum("deliver_rows").over(process).alias("by_process"),
        F.sum("delivered_bytes").over(process).alias("bytes_by_process"),
        F.sum("deliver_rows").over(sender).alias("of_sender"),
        (F.sum(F.col("send_rows") + delivered).over(sender) > 0).alias("takes_part"),
    )
    share = F.when(F.col("takes_part"), F.col("of_sender"))
    added = [f"{name}_rows" for name in ("send", "deliver", "admit", "reject", "decide", "against", *_COUNTED.values())]
    return wider.groupBy(*_GROUP).agg(
        *(F.sum(name).alias(name) for name in [*added, "unsized_deliveries", "unsized_sends", "sent_bytes"]),
        F.size(F.collect_set("process")).alias("processes"),
        F.coalesce(F.sum("packets"), F.lit(0)).alias("own_packets"),
        F.max("by_process").alias("most"),
        F.max("bytes_by_process").alias("most_bytes"),
        F.min("first").alias("first"),
        F.max("last").alias("last"),
        F.size(F.collect_set(F.when(F.col("takes_part"), F.col("sender")))).alias("senders"),
        F.sum("deliver_rows").alias("total"),
        # Over all cells of a sender, what each delivered times what all did is the square of what all did.
        F.sum(delivered * F.col("of_sender")).alias("squares"),
        F.max(share).alias("largest_share"),
        F.min(share).alias("smallest_share"),
    )


def _run_sums(cells: DataFrame) -> DataFrame:
    """For each run: of which kinds it has rows, and its packets with and without a group."""
    alone = F.col("group").isNull()
    return cells.groupBy("run").agg(
        F.sum("packets_seen").alias("packets_seen"),
        F.coalesce(F.sum(F.when(alone, F.col("packets"))), F.lit(0)).alias("packets_alone"),
        F.coalesce(F.sum(F.when(~alone, F.col("packets"))), F.lit(0)).alias("packets_of_groups"),
        *(F.sum(f"{kind}_rows").alias(f"{kind}_rows") for kind in (*_COUNTED.values(), "admit", "reject", "token", "decide")),
    )


# --- delays -----------------------------------------------------------------------------------------------------------


def _delayed(events: DataFrame, cells: DataFrame, *, with_receipts: bool) -> DataFrame:
    """Every delay of every delivery: (run, group, name, value), the name being latency or overhead."""
    delivers = events.where((F.col("kind") == "deliver") & F.col("group").isNotNull())
    quickest = cells.where(F.col("best").isNotNull()).select(*_CELL, "best")
    delivers = delivers.join(quickest, on=list(_CELL), how="left")
    overhead: Column = F.col("latency") - F.col("best")
    if with_receipts:
        place = [*_CELL, "seq"]
        arrivals = events.where(_is_receipt()).groupBy(*place).agg(F.min("clock").alias("arrived"))
        told = cells.where(F.col("need_receipts") > 0).select(*_GROUP).distinct().withColumn("receipts", F.lit(True))
        delivers = delivers.join(arrivals, on=place, how="left").join(told, on=list(_GROUP), how="left")
        overhead = F.when(F.col("receipts"), F.col("clock") - F.col("arrived")).otherwise(overhead)
    named = {"latency": F.col("latency"), "overhead": overhead}
    each = F.array(*(F.struct(F.lit(name).alias("name"), value.alias("value")) for name, value in named.items()))
    return delivers.select(*_GROUP, F.inline(each)).where(F.col("value").isNotNull())


def _rotations(trace: DataFrame) -> DataFrame:
    """Every way of the token round, as delays: a turn whose row before, of turns, views and leaves, is a turn too."""
    told = trace.where(F.col("kind").isin("token", "view", "leave") & F.col("group").isNotNull())
    history = Window.partitionBy(*_GROUP, "process").orderBy("index")
    before = {name: F.lag(name).over(history).alias(f"{name}_before") for name in ("kind", "time", "true_time")}
    turns = told.select(*_GROUP, "kind", "time", "true_time", *before.values())
    turns = turns.where((F.col("kind") == "token") & (F.col("kind_before") == "token"))
    took = F.coalesce(F.col("true_time") - F.col("true_time_before"), F.col("time") - F.col("time_before"))
    return turns.select(*_GROUP, F.lit("rotation").alias("name"), took.alias("value"))


def _work(trace: DataFrame) -> DataFrame:
    """What sends and decisions took, as delays."""
    told = trace.where(F.col("kind").isin("sent", "decide") & F.col("group").isNotNull())
    name = F.when(F.col("kind") == "sent", "send").otherwise("decision")
    took = F.get_json_object("detail", "$.took_ns")
    value = F.when(took.rlike("^-?[0-9]{1,18}$"), took.cast("bigint"))
    return told.select(*_GROUP, name.alias("name"), value.alias("value")).where(F.col("value").isNotNull())


def _standstills(events: DataFrame, cells: DataFrame) -> DataFrame:
    """The longest time in which a member delivers nothing although a message waits for it (``lab.standstills`` defines it)."""
    member = [*_GROUP, "process"]
    history = Window.partitionBy(*member)
    told = events.where(F.col("group").isNotNull())
    accepts = told.where(F.col("kind") == "accept").select(
        *member, F.row_number().over(history.orderBy("index")).cast("bigint").alias("seq"), F.col("clock").alias("handed_in")
    )
    delivers = told.where(F.col("kind") == "deliver")
    own = accepts.withColumn("sender", F.col("process"))
    waits = F.coalesce("handed_in", F.col("clock") - F.col("latency"))
    delivers = delivers.join(own, on=[*member, "sender", "seq"], how="left").select(
        *member, "sender", "seq", "index", "clock", waits.alias("waits")
    )
    # In descending order, for Spark recomputes a frame that ends with the partition for each row.
    later = history.orderBy(F.desc("index")).rowsBetween(Window.unboundedPreceding, Window.currentRow)
    pending = delivers.select(
        *member,
        "clock",
        F.lag("clock").over(history.orderBy("index")).alias("before"),
        F.min("waits").over(later).alias("pending"),
    ).where(F.col("pending").isNotNull())
    between = pending.select(*_GROUP, (F.col("clock") - F.greatest("before", "pending")).alias("took"))
    sends = told.where((F.col("kind") == "send") & F.col("seq").isNotNull())
    sends = sends.join(accepts.select(*member).distinct(), on=member, how="left_anti")
    handed = accepts.unionByName(sends.select(*member, "seq", F.col("clock").alias("handed_in")))
    mine = delivers.where(F.col("sender") == F.col("process")).select(*member, "seq")
    lacking = handed.join(mine, on=[*member, "seq"], how="left_anti").groupBy(*member).agg(F.min("handed_in").alias("pending"))
    lacking = lacking.join(told.where(F.col("kind") == "leave").select(*member), on=member, how="left_anti")
    lasts = delivers.groupBy(*member).agg(F.max("clock").alias("before"))
    ends = cells.groupBy("run", "process").agg(F.max("last_clock").alias("ends"))
    after = lacking.join(lasts, on=member, how="left").join(ends, on=["run", "process"], how="inner")
    last = after.select(*_GROUP, (F.col("ends") - F.greatest("before", "pending")).alias("took"))
    took = between.unionByName(last).groupBy(*_GROUP).agg(F.max("took").alias("longest"))
    return took.select(*_GROUP, F.greatest(F.lit(0), "longest").alias("standstill_max_ns"))


def _due_sends(trace: DataFrame) -> DataFrame:
    """The first send of each message with a deadline, of senders that do not crash, with the members of its view."""
    told = trace.where(F.col("kind").isin("view", "send") & F.col("group").isNotNull())
    so_far = Window.partitionBy(*_GROUP, "process").orderBy("index").rowsBetween(Window.unboundedPreceding, Window.currentRow)
    names = F.when(F.col("kind") == "view", F.coalesce("members", F.array().cast("array<string>")))
    told = told.withColumn("addressed", F.last(names, ignorenulls=True).over(so_far))
    sends = told.where((F.col("kind") == "send") & F.col("deadline").isNotNull())
    first = F.min_by(F.struct("deadline", "time", "true_time", "addressed"), "index").alias("first")
    crashed = trace.where(F.col("kind") == "crash").select("run", F.col("process").alias("sender")).distinct()
    sends = sends.groupBy(*_MESSAGE).agg(first).join(crashed, on=["run", "sender"], how="left_anti")
    moments = (F.col(f"first.{name}").alias(f"sent_{name}") for name in ("deadline", "time", "true_time"))
    return sends.select(*_MESSAGE, *moments, F.col("first.addressed").alias("addressed"))


def _lateness(trace: DataFrame, sends: DataFrame) -> DataFrame:
    """How much after its deadline each message was delivered that has one, as delays."""
    delivers = trace.where((F.col("kind") == "deliver") & F.col("group").isNotNull())
    crashed = trace.where(F.col("kind") == "crash").select("run", F.col("process").alias("sender")).distinct()
    own = delivers.where(F.col("deadline").isNotNull()).join(crashed, on=["run", "sender"], how="left_anti")
    own = own.select(*_GROUP, (F.col("time") - F.col("deadline")).alias("value"))
    others = delivers.where(F.col("deadline").isNull()).join(sends, on=list(_MESSAGE), how="inner")
    took = F.coalesce(F.col("true_time") - F.col("sent_true_time"), F.col("time") - F.col("sent_time"))
    others = others.select(*_GROUP, (took - (F.col("sent_deadline") - F.col("sent_time"))).alias("value"))
    return own.unionByName(others).select(*_GROUP, F.lit("lateness").alias("name"), "value")


def _met(lateness: DataFrame) -> DataFrame:
    return lateness.groupBy(*_GROUP).agg(F.count("value").alias("judged"), F.count_if(F.col("value") > 0).alias("late"))


def _missing(trace: DataFrame, sends: DataFrame, cells: DataFrame) -> DataFrame:
    """Messages with deadlines that a member of their view, which was still there then, never delivered."""
    ends = cells.groupBy("run", "process").agg(F.max("last_time").alias("ends"), F.max("last_true_time").alias("true_ends"))
    wanted = sends.withColumn("process", F.explode(F.array_distinct("addressed"))).join(ends, on=["run", "process"], how="inner")
    delivered = trace.where(F.col("kind") == "deliver").select(*_MESSAGE, "process").distinct()
    never = wanted.join(delivered, on=[*_MESSAGE, "process"], how="left_anti")
    true_due = F.col("sent_true_time") + F.col("sent_deadline") - F.col("sent_time")
    is_there = F.coalesce(F.col("true_ends") >= true_due, F.col("ends") >= F.col("sent_deadline"))
    return never.where(is_there).groupBy(*_GROUP).agg(F.count(F.lit(1)).alias("missing"))


def _bucket(value: Column) -> Column:
    """A number that grows with the value and is the same for values that differ by less than a hundredth or so."""
    size = F.when(value >= 0, value).otherwise(-1 - value)
    # The seven bits after the first one, and how far they had to be shifted. Where the logarithm is a hair off, next to a
    # power of two, the result is the same.
    shift = F.greatest(F.lit(0), F.floor(F.log2(size + 1)).cast("int") - 7)
    number = shift * 128 + F.call_function("shiftright", size, shift)
    return F.when(value >= 0, number).otherwise(-1 - number)


def _wanted(delays: DataFrame) -> DataFrame:
    """The buckets that hold a value next to a percentile or the last one, and how many values stand before each."""
    together = Window.partitionBy(*_GROUP, "name")
    so_far = together.orderBy("bucket").rowsBetween(Window.unboundedPreceding, Window.currentRow)
    counts = delays.groupBy(*_GROUP, "name", "bucket").agg(F.count(F.lit(1)).alias("here"))
    placed = counts.select(
        *_GROUP, "name", "bucket", F.sum("here").over(together).alias("count"),
        F.sum("here").over(so_far).alias("up_to"), (F.sum("here").over(so_far) - F.col("here")).alias("before"),
    )  # fmt: skip
    lows = [_low(percent) for percent in PERCENTS]
    places = [place for low in lows for place in (low, low + 1)] + [F.col("count") - 1]
    holds = [(F.col("before") <= place) & (place < F.col("up_to")) for place in places]
    return placed.where(functools.reduce(lambda one, other: one | other, holds)).drop("up_to")


def _steps(percent: int) -> Column:
    return (F.col("count") - 1) * percent


def _low(percent: int) -> Column:
    return F.call_function("div", _steps(percent), F.lit(100))


def _spreads(delays: DataFrame, wanted: DataFrame) -> DataFrame:
    """The percentiles and the maximum of each delay for each group, as ``percentile`` defines them."""
    key = [*_GROUP, "name", "bucket"]
    near = delays.join(wanted, on=key, how="inner")
    place = F.col("before") + F.row_number().over(Window.partitionBy(*key).orderBy("value")) - 1
    placed = near.withColumn("place", place)
    made = []
    for name in ("latency", "overhead", "lateness", "rotation", "send", "decision"):
        of_name = F.col("name") == name
        value = F.when(of_name, F.col("value"))
        for percent in PERCENTS:
            low = F.max(F.when(F.col("place") == _low(percent), value))
            high = F.max(F.when(F.col("place") == _low(percent) + 1, value))
            rest = F.max(F.when(of_name, _steps(percent) % 100))
            between = low + F.call_function("div", (high - low) * rest, F.lit(100))
            made.append(F.when(rest == 0, low).otherwise(between).alias(f"{name}_p{percent}_ns"))
        made.append(F.max(value).alias(f"{name}_max_ns"))
    return placed.groupBy(*_GROUP).agg(*made)


# --- the story --------------------------------------------------------------------------------------------------------


def _story(trace: DataFrame, cells: DataFrame) -> DataFrame:
    """What is recorded, history, flow control, views and failures: each run's few rows that tell of them, measured.

    A row that means nothing stands for each group, so that one without a story has the figures of one.
    """
    rows = trace.where(F.col("kind").isin(*_STORY_KINDS))
    groups = cells.where(F.col("group").isNotNull()).select(*_GROUP).distinct()
    stands_for = {"process": F.lit(""), "index": F.lit(-1), "time": F.lit(0), "kind": F.lit("group")}
    blank = {field.name: F.lit(None).cast(field.dataType) for field in trace.schema if field.name not in _GROUP}
    made = {name: stands_for.get(name, nothing).cast(trace.schema[name].dataType) for name, nothing in blank.items()}
    whole = rows.unionByName(groups.withColumns(made))
    return whole.groupBy("run").applyInArrow(_tell, _STORY_SCHEMA)


def _tell(rows: pa.Table) -> pa.Table:
    return measure(rows).select([*_GROUP, *_STORY])


_STORY_SCHEMA: Final = ", ".join([*(f"`{name}` string" for name in _GROUP), *(f"{name} bigint" for name in _STORY)])


def _unstable(trace: DataFrame) -> DataFrame:
    """The most deliveries of one process whose rank was above the highest that it knew to be stable.

    Ranks grow along a history, so that "how many deliveries does a rank cover" is their number up to it in the order of
    ranks, and what is unstable is how many there were so far less the most that was covered so far.
    """
    history = Window.partitionBy(*_GROUP, "process")
    up_to_rank = history.orderBy("rank").rangeBetween(Window.unboundedPreceding, Window.currentRow)
    so_far = history.orderBy("index").rowsBetween(Window.unboundedPreceding, Window.currentRow)
    stable = F.col("kind") == "stable"
    delivery = (~stable).cast("bigint")
    told = trace.where(F.col("kind").isin("stable", "deliver") & F.col("rank").isNotNull() & F.col("group").isNotNull())
    covered = told.select(
        *_GROUP, "process", "index", delivery.alias("delivery"), stable.alias("stable"),
        F.sum(delivery).over(up_to_rank).alias("covered"), F.max(stable).over(history).alias("learns"),
    )  # fmt: skip
    settled = F.max(F.when(F.col("stable"), F.col("covered")).otherwise(0)).over(so_far)
    unstable = F.when(F.col("learns"), F.sum("delivery").over(so_far) - settled).otherwise(0)
    counted = covered.select(*_GROUP, "stable", F.greatest(F.lit(0), unstable).alias("unstable"))
    return counted.groupBy(*_GROUP).agg(F.when(F.max("stable"), F.max("unstable")).alias("unstable_max"))
