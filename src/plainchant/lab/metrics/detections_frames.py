"""The definitions of ``detections`` on Spark, for traces of any size.

Only the few rows about faults, ends, views and retransmissions are joined; what comes out is a row a run.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pyarrow as pa
from pyspark.sql import Window
from pyspark.sql import functions as F

from .detections import COLUMNS, DETECTIONS, KINDS

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_PLACE: Final = ["run", "process"]
_MEMBER: Final = ["run", "group", "process"]
_WAYS: Final = ("halted", "repaired", "eliminated", "without_effect")


def match_frame(trace: DataFrame) -> pa.Table:
    """What :func:`~plainchant.lab.metrics.detections.match` gives, for a DataFrame with the columns of the trace format."""
    trace = trace.select(*COLUMNS)
    rows = trace.where(F.col("kind").isin(*KINDS)).withColumn("clock", F.coalesce("true_time", "time"))
    stops = rows.where("kind = 'crash'").select(*_PLACE, F.col("clock").alias("stopped"), _said("by").alias("by"))
    dropped = _dropped(rows)
    eliminated = _eliminated(rows, stops, dropped)
    omissions = _omissions(rows)
    counts = (
        _crashes(rows, stops, dropped),
        _judged(rows, stops, omissions, eliminated),
        _eliminations(omissions, eliminated),
        _halts(stops, omissions, eliminated),
    )
    found = trace.select("run").distinct()
    for counted in counts:
        found = found.join(counted, "run", "left")
    return found.fillna(0).select(*DETECTIONS.names).toArrow().cast(DETECTIONS).sort_by("run")


def _said(path: str) -> Column:
    """What a detail says; null where it does not."""
    return F.get_json_object("detail", f"$.{path}")


def _is(condition: Column) -> Column:
    """False where it cannot be told."""
    return F.coalesce(condition, F.lit(False))


def _dropped(rows: DataFrame) -> DataFrame:
    """(run, group, process, clock): another process goes to a view without a process that its view before had."""
    history = Window.partitionBy(*_MEMBER).orderBy("index")
    views = rows.where("kind = 'view'").withColumn("before", F.lag("members").over(history))
    staying = F.array_union(F.coalesce("members", F.array().cast("array<string>")), F.array("process"))
    gone = F.explode(F.array_except("before", staying))
    return views.where("before is not null").select("run", "group", gone.alias("process"), "clock")


def _eliminated(rows: DataFrame, stops: DataFrame, dropped: DataFrame) -> DataFrame:
    """(run, group, process, at): when a process was first dropped that had neither stopped nor left."""
    left = rows.where("kind = 'leave'").groupBy(*_MEMBER).agg(F.min_by("clock", "index").alias("left"))
    standing = dropped.join(stops, _PLACE, "left").join(left, _MEMBER, "left")
    is_gone = _is(F.col("stopped") <= F.col("clock")) | _is(F.col("left") <= F.col("clock"))
    return standing.where(~is_gone).groupBy(*_MEMBER).agg(F.min("clock").alias("at"))


def _crashes(rows: DataFrame, stops: DataFrame, dropped: DataFrame) -> DataFrame:
    injected = rows.where((F.col("kind") == "fault") & (_said("fault") == "crash"))
    seen = dropped.groupBy(*_PLACE).agg(F.max("clock").alias("dropped"))
    judged = injected.join(stops.where("by = 'fault'"), _PLACE).join(seen, _PLACE, "left").join(_until(rows), _PLACE, "left")
    is_seen, is_dropped = _is(F.col("until") >= F.col("stopped")), _is(F.col("dropped") >= F.col("stopped"))
    return judged.groupBy("run").agg(
        F.count_if(is_seen).alias("crashes"),
        F.count_if(is_seen & is_dropped).alias("crashes_matched"),
        F.count_if(~is_seen).alias("crashes_unseen"),
    )


def _until(rows: DataFrame) -> DataFrame:
    """(run, process, until): how long the last view of another process that names it was in force."""
    history = Window.partitionBy(*_MEMBER).orderBy("index")
    views = rows.where("kind = 'view'").withColumn("until", F.coalesce(F.lead("clock").over(history), F.lit(2**63 - 1)))
    named = views.select("run", "until", F.explode(F.array_remove("members", F.col("process"))).alias("process"))
    return named.groupBy(*_PLACE).agg(F.max("until").alias("until"))


def _omissions(rows: DataFrame) -> DataFrame:
    """The injected omissions, with what was dropped, where that is told, and the last one of each process."""
    injected = rows.where((F.col("kind") == "fault") & (_said("fault") == "omit"))
    is_told = _said("identity[3]").isNotNull() & _said("identity[4]").isNull()
    packet = F.when(is_told, F.concat_ws("/", *(_said(f"identity[{place}]") for place in (1, 2, 3))))
    omissions = injected.select(*_PLACE, "index", "clock", packet.alias("packet"), _said("source").alias("source"))
    history = Window.partitionBy(*_PLACE)
    last = F.max(F.struct("index", "packet")).over(history)
    return omissions.withColumn("latest", last)


def _judged(rows: DataFrame, stops: DataFrame, omissions: DataFrame, eliminated: DataFrame) -> DataFrame:
    """What became of the omissions."""
    names = F.from_json(_said("to"), "array<string>")
    again = F.concat_ws("/", "sender", _said("visit"), _said("number")).alias("packet_again")
    sent = rows.where("kind = 'retransmit'").select("run", F.explode(names).alias("process"), F.col("clock").alias("sent"), again)
    is_later = (F.col("packet") == F.col("packet_again")) & (F.col("sent") >= F.col("clock"))
    repaired = omissions.join(sent, _PLACE).where(is_later).select(*_PLACE, "index").distinct()
    ends = eliminated.groupBy(*_PLACE).agg(F.max("at").alias("at"))
    judged = omissions.join(stops.where("by = 'protocol'"), _PLACE, "left").join(ends, _PLACE, "left")
    judged = judged.join(repaired.withColumn("repaired", F.lit(True)), [*_PLACE, "index"], "left")
    is_last = (F.col("index") == F.col("latest.index")) | _is(F.col("packet") == F.col("latest.packet"))
    became = (
        F.when(F.col("stopped").isNotNull() & is_last, "halted")
        .when(F.col("repaired"), "repaired")
        .when(F.col("at") >= F.col("clock"), "eliminated")
        .otherwise("without_effect")
    )
    return judged.groupBy("run").agg(
        F.count("*").alias("omissions"), *(F.count_if(became == way).alias(f"omissions_{way}") for way in _WAYS)
    )


def _eliminations(omissions: DataFrame, eliminated: DataFrame) -> DataFrame:
    sources = omissions.groupBy("run", F.col("source").alias("process")).agg(F.min("clock").alias("omitted"))
    is_provoked = _is(F.col("omitted") <= F.col("at"))
    return (
        eliminated.join(sources, _PLACE, "left")
        .groupBy("run")
        .agg(F.count_if(is_provoked).alias("eliminations_provoked"), F.count_if(~is_provoked).alias("eliminations_false"))
    )


def _halts(stops: DataFrame, omissions: DataFrame, eliminated: DataFrame) -> DataFrame:
    ends = eliminated.groupBy(*_PLACE).agg(F.min("at").alias("at"))
    halts = stops.where("by = 'protocol'").join(omissions.select(*_PLACE).distinct(), _PLACE, "left_anti")
    unprovoked = halts.join(ends, _PLACE, "left").where(~_is(F.col("at") <= F.col("stopped")))
    return unprovoked.groupBy("run").agg(F.count("*").alias("halts_unprovoked"))
