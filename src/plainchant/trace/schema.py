"""What a trace is: its columns, its version, its kinds of event, and how something wrong with it is reported.

A trace is one table, one row an event. A row's place is (run, process, index); a process's rows of one run, in the order of their
index, are its *history*. Columns and kinds that are not listed here are kept and ignored, so that other writers can add their
own; a listed column that is missing is an error, because nobody could tell "never happened" from "not recorded".
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any, Final

import pyarrow as pa

from ..core.model import TraceError

VERSION_KEY: Final = b"plainchant.trace.version"

_TEXT, _LONG, _INT = pa.string(), pa.int64(), pa.int32()
SCHEMA: Final = pa.schema(
    [
        *(("run", _TEXT), ("process", _TEXT), ("index", _LONG), ("time", _LONG), ("true_time", _LONG), ("kind", _TEXT)),
        *(("group", _TEXT), ("view", _LONG), ("sender", _TEXT), ("seq", _LONG), ("members", pa.list_(_TEXT))),
        *(("deadline", _LONG), ("sent", _LONG), ("rank", _LONG), ("digest", _LONG), ("size", _INT), ("packets", _INT)),
        ("detail", _TEXT),
    ]
)

REQUIRED: Final = ("run", "process", "index", "time", "kind")
"""Columns without nulls. (They are not declared so in SCHEMA: other tools' files mark every column as nullable.)"""

MESSAGE_KINDS: Final = frozenset({"send", "deliver"})
"""Events that are about a message: without group, sender and seq they say nothing."""

FINAL_KINDS: Final = frozenset({"crash", "end"})  # nothing happens at a process after one of these

VERIFIED_KINDS: Final = ("start", "join", "send", "deliver", "view", "leave", "crash", "end", "fault")
"""Kinds that every verifier understands."""

KINDS: Final = (
    *VERIFIED_KINDS,
    *("accept", "receive", "null", "suspect", "refute", "confirm", "remove", "bye", "form", "refused", "retransmit", "drop"),
    *("block", "unblock", "stable", "admit", "reject", "token", "sync", "elect", "state", "usend", "udeliver", "sent", "decide"),
    *("late", "operation", "note", "request"),
)
"""Kinds with a meaning; the later ones serve metrics and explanations."""


@dataclasses.dataclass(frozen=True, slots=True)
class Malformed:
    """One thing that is wrong with a trace as a trace. It is never a violation: nothing was verified."""

    file: str | None
    run: str | None
    process: str | None
    index: int | None
    problem: str

    def __str__(self) -> str:
        place = (("run", self.run), ("process", self.process), ("index", self.index))
        where = [self.file or "trace", *(f"{name} {value}" for name, value in place if value is not None)]
        return f"{', '.join(where)}: {self.problem}"

    def to_json(self) -> dict[str, Any]:
        return dataclasses.asdict(self)


class MalformedTrace(TraceError):
    """A trace that cannot even be brought into one table, or that was refused after validation."""

    def __init__(self, malformed: Sequence[Malformed]) -> None:
        self.malformed = tuple(malformed)
        more = f" (and {len(malformed) - 1} more)" if len(malformed) > 1 else ""
        super().__init__(f"malformed trace: {malformed[0]}{more}; mend or leave out that file")
