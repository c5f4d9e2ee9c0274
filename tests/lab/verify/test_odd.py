"""Malformed rows in large runs: only rows that may be malformed are validated; the result is that of validating the whole run."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from plainchant.lab.properties.certificates.unit import Unit
from plainchant.lab.verify.check import Found, judge_alone, look_closely
from plainchant.trace.schema import SCHEMA
from plainchant.trace.validation import validate

from ..layouts import ORDER
from ..random_traces import table
from .test_malformed import PROBLEMS, places, spoilt
from .test_narrowing import flat

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Row = dict[str, Any]

SPOILS: dict[str, tuple[str, Callable[[Row], Row]]] = {
    "no group": ("deliver", lambda row: {"group": None}),
    "no sender": ("deliver", lambda row: {"sender": None}),
    "no number": ("send", lambda row: {"seq": None}),
    "another's send": ("send", lambda row: {"sender": "zz"}),
    "sent twice": ("send", lambda row: {"seq": row["seq"] - 1 or 2}),
    "sent long ago": ("send", lambda row: {"seq": 1 + row["seq"] // 2}),
    "a number too high": ("send", lambda row: {"seq": row["seq"] + 5}),
    "another view": ("deliver", lambda row: {"view": 7}),
    "a view of another group": ("deliver", lambda row: {"group": "h", "view": 1}),
    "a view without members": ("view", lambda row: {"members": []}),
    "a view without a number": ("view", lambda row: {"view": None}),
    "a view with another number": ("view", lambda row: {"view": 9}),
    "a crash on the way": ("deliver", lambda row: {"kind": "crash", "view": None}),
    "an end on the way": ("send", lambda row: {"kind": "end"}),
    "no JSON": ("send", lambda row: {"detail": "{"}),
    "a time in words": ("send", lambda row: {"detail": '{"took_ns":"long"}'}),
    "a leave of nothing": ("deliver", lambda row: {"kind": "leave", "group": None}),
    "a newer version": ("start", lambda row: {"detail": '{"version":2}'}),
}


def judged(rows: pa.Table, unit: int) -> tuple[Found, bool]:
    """A run taken for a large one, and whether it was known where it may be malformed."""
    units = [Unit(rows.slice(first, unit)) for first in range(0, rows.num_rows, unit)]
    found = judge_alone(rows["run"][0].as_py(), [each.slice(0, alone=True) for each in units], ["fifo"], narrow_from=0)
    is_known = found.odd is not None
    if found.is_open:
        look_closely(found, rows, (), ["fifo"])
    return found, is_known


def spoil(rows: list[Row], kind: str, random: Random) -> None:
    about, change = SPOILS[kind]
    row = random.choice([row for row in rows if row["kind"] == about and (about != "send" or row["seq"] is not None)])
    row.update(change(row))


@pytest.mark.parametrize("kind", SPOILS)
def test_one_malformed_row_in_a_long_run_is_told_as_by_the_plain_validation(kind: str) -> None:
    for seed in range(4):
        rows = table([flat(300)]).sort_by(ORDER).to_pylist()
        spoil(rows, kind, Random(seed))
        made = pa.Table.from_pylist(rows, SCHEMA)
        for unit in (40, 211, 10_000):
            found, is_known = judged(made, unit)
            assert is_known
            assert found.malformed == validate(made)
            assert found.malformed


@pytest.mark.sweep
def test_several_malformed_rows_are_told_as_by_the_plain_validation(times: int) -> None:
    for seed in range(60 * times):
        random = Random(f"odd {seed}")
        rows = table([flat(200, views=3)]).sort_by(ORDER).to_pylist()
        for _ in range(1 + seed % 4):
            kind = random.choice(list(SPOILS))
            if any(row["kind"] == SPOILS[kind][0] and row["seq"] is not None for row in rows) or SPOILS[kind][0] in (
                "view",
                "start",
            ):
                try:
                    spoil(rows, kind, random)
                except TypeError:
                    continue  # a number that another spoil has taken away
        made = pa.Table.from_pylist(rows, SCHEMA)
        found, is_known = judged(made, random.choice((23, 97, 400)))
        assert is_known
        assert found.malformed == validate(made)


@pytest.mark.parametrize("kind", [kind for kind in PROBLEMS if " is null" not in PROBLEMS[kind][3]])
def test_hand_written_runs_are_told_in_any_pieces(kind: str) -> None:
    made = pa.Table.from_pylist(spoilt(kind, "r0"), SCHEMA).sort_by(ORDER)
    for unit in (2, 5, 100):
        assert judged(made, unit)[0].malformed == validate(made)


@pytest.mark.parametrize("chunk_rows", [10**6, 300], ids=["in one task", "over tasks"])
def test_spark_reads_what_may_be_malformed(spark: SparkSession, tmp_path: Path, chunk_rows: int) -> None:
    from plainchant.lab.verify import verify

    for number, kind in enumerate(["a number too high", "another view", "an end on the way", "a newer version"]):
        rows = table([flat(300)]).sort_by(ORDER).to_pylist()
        spoil(rows, kind, Random(number))
        made = pa.Table.from_pylist(rows, SCHEMA)
        path = tmp_path / f"{number}.parquet"
        pq.write_table(made, path, row_group_size=150)
        found = verify(spark, [str(path)], ["fifo"], chunk_rows=chunk_rows, least_rows=1, large_rows=200).to_json()["malformed"]
        assert places(found) == places([{**problem.to_json(), "file": str(path)} for problem in validate(made)])
