"""What tasks say of runs, as rows of one Arrow schema: outcomes, violations, what is malformed, warnings.

All stages of verification pass these rows on. Some kinds of row are not for people and have bytes in ``value``: the certificates
of a part of a run (``slice``) and what several of these have in common (``shared``), what is known of a run that is not settled
(``open``), and what is computed beside verification (``partial`` of a part of a run, ``beside`` of a run). Certificates are
twenty kinds of record with NumPy arrays and a small table in them; nothing in SQL looks inside, the same code writes and reads
them within one job, and as columns they would be taken apart and put together again at both ends. All else is typed.
"""

from __future__ import annotations

import dataclasses
import pickle
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from ...trace.schema import Malformed
from ..properties import Outcome, Verification, Violation
from ..properties.certificates.records import Slice
from ..properties.certificates.shared import packed
from ..properties.facts import COLUMNS
from ..properties.narrowing.portion import WHOLE_UP_TO
from ..properties.report import Result
from ..tables import MALFORMED, OUTCOMES, VIOLATIONS, violation_of, violation_rows
from .beside import Beside

_ZSTD: Final = pa.Codec("zstd", compression_level=1)
MAX_PROBLEMS: Final = 100  # malformed rows that are reported
MAX_WARNINGS: Final = 100
_DESCRIBED: Final = 20_000  # a task that finds more violations describes one for each run and property
_DESCRIBED_IN_ALL: Final = 200_000  # what the driver gets, of however many tasks
LARGE_ROWS: Final = 200_000
"""From this size a run is not simply read again by one task: out of order, Spark sorts it, and doubts are narrowed down."""


def _without_run(schema: pa.Schema) -> pa.DataType:
    return pa.struct([field for field in schema if field.name != "run"])


RESULTS: Final = pa.schema(
    [
        ("key", pa.string()),  # rows of one key come together: those of a run, or a task's sum
        ("kind", pa.string()),
        ("run", pa.string()),  # null in a sum's outcomes
        ("outcome", _without_run(OUTCOMES)),
        ("violation", _without_run(VIOLATIONS)),
        ("malformed", _without_run(MALFORMED)),
        ("warning", pa.string()),
        ("value", pa.binary()),
    ]
)
TOLD: Final = ("outcome", "violation", "malformed", "warning")
"""The kinds of row that are results; each has its column."""


@dataclasses.dataclass(frozen=True, slots=True)
class Options:
    """What tasks have to know."""

    properties: tuple[str, ...] | None
    most: int | None
    large_rows: int = LARGE_ROWS
    whole_up_to: int = WHOLE_UP_TO  # rows of a run that one task searches; of more, it searches a portion
    beside: Beside | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "large_rows", min(self.large_rows, self.whole_up_to))  # narrowed down before it is searched

    @property
    def columns(self) -> tuple[str, ...]:
        """What is read of a trace."""
        return tuple(dict.fromkeys((*COLUMNS, *(self.beside.columns if self.beside is not None else ()))))


@dataclasses.dataclass(slots=True)
class Sum(Result):
    """What many runs come to, with a limit to what is reported."""

    beside: dict[str, bytes] = dataclasses.field(default_factory=dict)  # by run, what was computed beside

    def add(self, other: Result) -> None:
        Result.add(self, other)
        if isinstance(other, Sum):
            self.beside |= other.beside
        del self.warnings[MAX_WARNINGS:]
        del self.malformed[MAX_PROBLEMS:]

    def add_rows(self, batch: pa.RecordBatch | pa.Table) -> None:
        """Adds the results among some rows."""
        computed = batch.filter(pc.equal(batch.column("kind"), "beside"))
        self.beside |= zip(computed.column("run").to_pylist(), computed.column("value").to_pylist(), strict=True)
        for row in batch.select(["run", *TOLD]).to_pylist():
            if (outcome := row["outcome"]) is not None:
                name = outcome.pop("property")
                self.outcomes[name] = self.outcomes.get(name, Outcome()) + Outcome(**outcome)
            elif (found := row["violation"]) is not None:
                violation = violation_of({**found, "run": row["run"]})
                places = (violation.run, violation.property, violation.events, violation.messages, violation.sentence)
                self.violations.append(((found["size"], found["seen_at"], *places), violation))
            elif row["malformed"] is not None:
                self.malformed.append(Malformed(run=row["run"], **row["malformed"]))
            elif row["warning"] is not None:
                self.warnings.append(row["warning"])
        del self.warnings[MAX_WARNINGS:]
        del self.malformed[MAX_PROBLEMS:]

    def thinned(self, most: int | None, tasks: int = 1) -> Sum:
        """Limits what one of some tasks sends if everything is wrong."""
        described = min(_DESCRIBED, max(1, _DESCRIBED_IN_ALL // tasks))
        if most is not None and len(self.violations) > described:
            first: dict[tuple[str, str], tuple[tuple[Any, ...], Violation]] = {}
            for key, violation in sorted(self.violations, key=lambda pair: pair[0]):
                first.setdefault((violation.run, violation.property), (key, violation))
            self.violations = list(first.values())[:described]
        return self


def verification_of(total: Sum, options: Options) -> Verification:
    """The same result whichever task finished first."""
    total.malformed.sort(key=lambda p: (p.file or "", p.run or "", p.process or "", p.index or 0, p.problem))
    del total.malformed[MAX_PROBLEMS:]
    total.warnings = sorted(set(total.warnings))
    return total.verification(options.properties)


def rows_of(result: Result, key: str | None, run: str | None = None) -> Iterator[pa.RecordBatch]:
    """A result as rows; ``run`` is the one that its outcomes are of, if it is one."""
    rows: list[dict[str, Any]] = [
        {"kind": "outcome", "run": run, "outcome": {"property": name, **dataclasses.asdict(outcome)}}
        for name, outcome in result.outcomes.items()
    ]
    found = violation_rows((violation, at[1]) for at, violation in result.violations)
    rows += [{"kind": "violation", "run": row.pop("run"), "violation": row} for row in found.to_pylist()]
    for problem in result.malformed:
        row = problem.to_json()
        rows.append({"kind": "malformed", "run": row.pop("run"), "malformed": row})
    rows += [{"kind": "warning", "run": run, "warning": text} for text in result.warnings]
    if isinstance(result, Sum):
        rows += [{"kind": "beside", "run": of, "value": value} for of, value in result.beside.items()]
    if rows:
        yield pa.RecordBatch.from_pylist([{"key": key, **row} for row in rows], schema=RESULTS)


def packed_row(key: str, kind: str, value: object) -> pa.RecordBatch:
    """A row with an object for another task."""
    return packed_rows(kind, [(key, value)])


def packed_rows(kind: str, values: Sequence[tuple[str, object]]) -> pa.RecordBatch:
    """Rows of one kind, each with an object for another task."""
    keys = pa.array([key for key, _ in values], pa.string())
    bytes_ = pa.array([pickle.dumps(value, protocol=5) for _, value in values], pa.binary())
    return _rows_with(len(values), key=keys, kind=pa.array([kind] * len(values)), run=keys, value=bytes_)


def slice_rows(slices: Iterable[Slice], *, apart: bool = False) -> Iterator[pa.RecordBatch]:
    """Slices for another task, and what they share (``shared``), each once. ``apart``: equal shared rows of a run come together
    first, by a key of their own."""
    values: list[tuple[str, str, str, bytes]] = []
    known: set[tuple[str, bytes]] = set()
    for part in slices:
        value, named = packed(part)
        for key, content in named.items():
            if (part.run, key) not in known:
                known.add((part.run, key))
                values.append((f"{key.hex()} {part.run}" if apart else part.run, "shared", part.run, zipped(content)))
        values.append((part.run, "slice", part.run, zipped(value)))
    if values:
        columns = dict(zip(("key", "kind", "run", "value"), map(pa.array, zip(*values, strict=True)), strict=True))
        yield _rows_with(len(values), **columns)


def zipped(value: bytes) -> bytes:
    return len(value).to_bytes(8, "little") + bytes(_ZSTD.compress(value, asbytes=True))


def unzipped(value: bytes) -> bytes:
    return bytes(_ZSTD.decompress(memoryview(value)[8:], int.from_bytes(value[:8], "little"), asbytes=True))


def _rows_with(rows: int, **columns: pa.Array) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([columns.get(f.name, pa.nulls(rows, f.type)) for f in RESULTS], schema=RESULTS)


def sql_of(schema: pa.Schema) -> str:
    """A schema as Spark takes it in words: of whatever session, and without one."""
    return ", ".join(f"`{field.name}` {_sql_type(field.type)}" for field in schema)


def _sql_type(type_: pa.DataType) -> str:
    if pa.types.is_struct(type_):
        return f"struct<{', '.join(f'`{field.name}`: {_sql_type(field.type)}' for field in type_)}>"
    if pa.types.is_list(type_):
        return f"array<{_sql_type(type_.value_type)}>"
    return _SQL[type_]


_SQL: Final = {
    pa.string(): "string",
    pa.int64(): "bigint",
    pa.int32(): "int",
    pa.binary(): "binary",
    pa.float64(): "double",
    pa.bool_(): "boolean",
}
RESULTS_SQL: Final = sql_of(RESULTS)
