"""The format itself: these tests are the promise to everybody who writes or reads traces elsewhere."""

from __future__ import annotations

import pyarrow as pa

from plainchant.core.model import TraceError
from plainchant.trace import KINDS, SCHEMA, TRACE_VERSION, Malformed, MalformedTrace
from plainchant.trace.schema import FINAL_KINDS, MESSAGE_KINDS, REQUIRED


def test_the_columns_are_these_in_this_order() -> None:
    strings, longs, ints = pa.string(), pa.int64(), pa.int32()
    assert list(zip(SCHEMA.names, SCHEMA.types, strict=True)) == [
        ("run", strings),
        ("process", strings),
        ("index", longs),
        ("time", longs),
        ("true_time", longs),
        ("kind", strings),
        ("group", strings),
        ("view", longs),
        ("sender", strings),
        ("seq", longs),
        ("members", pa.list_(strings)),
        ("deadline", longs),
        ("sent", longs),
        ("rank", longs),
        ("digest", longs),
        ("size", ints),
        ("packets", ints),
        ("detail", strings),
    ]


def test_the_version_is_one() -> None:
    assert TRACE_VERSION == 1


def test_kinds_are_named_once_and_include_the_special_ones() -> None:
    assert len(set(KINDS)) == len(KINDS)
    assert set(KINDS) >= MESSAGE_KINDS | FINAL_KINDS
    assert set(SCHEMA.names) >= set(REQUIRED)


def test_a_malformed_trace_says_where_as_text_and_as_json() -> None:
    malformed = Malformed("a.parquet", "r0", "p1", 7, "index 7 stands here twice")
    assert str(malformed) == "a.parquet, run r0, process p1, index 7: index 7 stands here twice"
    assert malformed.to_json() == {
        "file": "a.parquet",
        "run": "r0",
        "process": "p1",
        "index": 7,
        "problem": "index 7 stands here twice",
    }


def test_the_error_names_the_first_problem_and_counts_the_others() -> None:
    missing = Malformed("a.parquet", None, None, None, "column 'seq' is missing")
    error = MalformedTrace([missing, missing, missing])
    assert isinstance(error, TraceError)
    assert str(error).startswith("malformed trace: a.parquet: column 'seq' is missing (and 2 more)")
