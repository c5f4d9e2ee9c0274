"""What tasks give back: small tables in fixed schemas, the same whichever way a run was checked.

A sweep's directory holds, beside ``sweep.json`` and ``scenario.toml``, one sub-directory of Parquet files for each of
these: ``runs`` (a row a run), ``outcomes`` (a row a run and property), ``violations`` (all that were described),
``metrics`` (a row a run and group) and ``trace`` (the kept traces).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

import pyarrow as pa

from .properties import Violation

OUTCOMES: Final = pa.schema(
    [
        ("run", pa.string()),
        ("property", pa.string()),
        ("runs", pa.int64()),  # 1 if it was checked in this run, 0 if the run is not fit for that
        ("events", pa.int64()),
        ("cases", pa.int64()),
        ("violations", pa.int64()),
        ("in_part", pa.int64()),  # 1 if only a portion of the run was searched: there are at least so many violations
    ]
)

VIOLATIONS: Final = pa.schema(
    [
        ("run", pa.string()),
        ("property", pa.string()),
        ("group", pa.string()),
        ("processes", pa.list_(pa.string())),
        ("messages", pa.list_(pa.struct([("group", pa.string()), ("sender", pa.string()), ("seq", pa.int64())]))),
        ("events", pa.list_(pa.struct([("process", pa.string()), ("index", pa.int64())]))),
        ("sentence", pa.string()),
        ("size", pa.int64()),  # messages and events involved: the smallest are shown first
        ("seen_at", pa.int64()),  # when it can be seen, on the global clock where there is one
    ]
)

MALFORMED: Final = pa.schema(
    [
        ("file", pa.string()),  # null where the rows do not say from which file they are
        ("run", pa.string()),
        ("process", pa.string()),
        ("index", pa.int64()),
        ("problem", pa.string()),
    ]
)

RUNS: Final = pa.schema(
    [
        ("run", pa.string()),
        ("seed", pa.int64()),
        ("point", pa.list_(pa.string())),  # the overrides of the grid point, "key=value"
        ("verdict", pa.string()),  # "holds", "violated", "restless" (was to get quiet and did not) or "failed" (it raised)
        ("problem", pa.string()),  # why it is restless or failed
        ("events", pa.int64()),  # rows of its trace
        ("simulated", pa.int64()),  # events of the simulation
        ("sent", pa.int64()),
        ("delivered", pa.int64()),
        ("packets", pa.int64()),
        ("kept", pa.bool_()),
        ("replay", pa.string()),  # the one command that runs it again
    ]
)


def violation_of(row: Mapping[str, Any]) -> Violation:
    """The violation that a row of this table, or a summary's JSON, describes."""
    messages, events = (
        [each.values() if isinstance(each, dict) else each for each in row[name] or ()] for name in ("messages", "events")
    )
    return Violation(
        run=row["run"],
        property=row["property"],
        group=row["group"],
        processes=tuple(row["processes"] or ()),
        messages=tuple((group, sender, int(seq)) for group, sender, seq in messages),
        events=tuple((process, int(index)) for process, index in events),
        sentence=row["sentence"],
    )


def violation_rows(violations: Iterable[tuple[Violation, int]]) -> pa.Table:
    """Violations, each with when it can be seen, as a table."""
    rows = [
        {
            "run": violation.run,
            "property": violation.property,
            "group": violation.group,
            "processes": list(violation.processes),
            "messages": [{"group": g, "sender": s, "seq": n} for g, s, n in violation.messages],
            "events": [{"process": process, "index": index} for process, index in violation.events],
            "sentence": violation.sentence,
            "size": len(violation.messages) + len(violation.events),
            "seen_at": seen_at,
        }
        for violation, seen_at in violations
    ]
    return pa.Table.from_pylist(rows, schema=VIOLATIONS)
