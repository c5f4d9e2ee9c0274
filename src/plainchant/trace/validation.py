"""What is wrong with a trace as a trace.

A verifier may assume a great deal about its input, and this is where the assumptions are checked. Everything is a
matter of single rows and single histories: a ``send`` may only stand at its own sender, so "a message sent twice" and
"numbers without gaps" are questions about one history too. So the rows are sorted by (run, process, index) and each
history is walked once, keeping the last view of each group and the numbers sent in it.

Malformed is not violated: a trace with a gap in it may be of a correct run, and no verdict about the run is made from
it. What a protocol can do wrong (deliver twice, install a view twice or one without itself, deliver what nobody sent)
is therefore *not* looked at here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby, islice
from typing import Any, Final, NamedTuple

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ..core.model import TRACE_VERSION
from .reader import Part, file_of, newer_version
from .schema import FINAL_KINDS, KINDS, MESSAGE_KINDS, REQUIRED, Malformed

_KNOWN: Final = frozenset(KINDS)
_COLUMNS: Final = ("run", "process", "index", "kind", "group", "view", "sender", "seq", "detail", "members")


class _Version(msgspec.Struct):
    version: int = TRACE_VERSION


class _Start(_Version):
    """What verifiers read in the ``detail`` of a ``start`` row."""

    protocol: str | None = None
    promises: list[str] | None = None
    bounds: dict[str, int] | None = None


class _Send(msgspec.Struct):
    """What verifiers read in the ``detail`` of a ``send`` or ``sent`` row."""

    took_ns: int | None = None


class _View(msgspec.Struct):
    """What verifiers read in the ``detail`` of a ``view`` row."""

    signatures: dict[str, int] | None = None


_decode_version: Final = msgspec.json.Decoder(_Version).decode
_decode_start: Final = msgspec.json.Decoder(_Start).decode
_decode_object: Final = msgspec.json.Decoder(dict[str, Any]).decode
_decoders: Final[dict[str, msgspec.json.Decoder[Any]]] = {
    **dict.fromkeys(("send", "sent"), msgspec.json.Decoder(_Send)),
    "view": msgspec.json.Decoder(_View),
}


class _Row(NamedTuple):
    """The part of a row that is judged; ``at`` is its position in the table."""

    at: int
    run: str
    process: str
    place: int  # its index in the history (tuples have a method of that name)
    kind: str | None
    group: str | None
    view: int | None
    sender: str | None
    seq: int | None
    detail: str | None
    members: list[str | None] | None


def validate(table: pa.Table, files: Sequence[Part] = (), *, most: int = 100) -> list[Malformed]:
    """Everything that is malformed, in the order (run, process, index); at most ``most`` of it.

    >>> from plainchant.trace import TraceBuffer
    >>> trace = TraceBuffer()
    >>> trace.history("r0", "p1").rows.extend([("end", 1) + (None,) * 10, ("end", 2) + (None,) * 10])
    >>> print(validate(trace.table())[0])
    trace, run r0, process p1, index 1: a row after the history ended with 'end'
    """
    return list(islice(_problems(table, files), most))


class Past(NamedTuple):
    """What came before some rows of a history, as far as it decides whether they are well formed."""

    begin: int = 0  # index of the first of these rows
    final: str | None = None  # the kind of a row that ended the history
    told_final: bool = False  # whether a row after that was told of
    views: Mapping[str, int] = {}  # by group: the last view
    sent: Mapping[str, tuple[tuple[int, int], ...]] = {}  # by group: the numbers, as ranges
    last_sent: Mapping[str, int] = {}


def validate_spans(
    table: pa.Table, files: Sequence[Part], pasts: Mapping[str, Sequence[Past]], *, too_new: bool, most: int = 100
) -> list[Malformed]:
    """Everything that is malformed in some rows of one run: for each process, a stretch of its history after each past.

    ``too_new``: some row of the run says that the run is of a newer version."""
    newer = frozenset(table.column("run").unique().to_pylist()) if too_new else frozenset[str]()
    return list(islice(_problems(table, files, pasts, newer), most))


def _problems(
    table: pa.Table,
    files: Sequence[Part],
    pasts: Mapping[str, Sequence[Past]] | None = None,
    too_new: frozenset[str] | None = None,
) -> Iterator[Malformed]:
    yield from null_problems(table, files)
    too_new = newer_runs(table) if too_new is None else too_new
    for (_, process), rows in groupby(_sorted_rows(table), key=lambda row: (row.run, row.process)):
        begins = {past.begin: past for past in (pasts or {}).get(process, ())}
        history = _History(Past())
        for row in rows:
            past = begins.pop(row.place, None)
            history = history if past is None else _History(past)
            # Rows of a newer format may mean something else: any further complaint about them would mislead.
            problems = _start_problems(row.kind, row.detail) if row.run in too_new else history.problems(row)
            for problem in problems:
                yield Malformed(file_of(files, row.at), row.run, row.process, row.place, problem)


def null_problems(table: pa.Table, files: Sequence[Part]) -> Iterator[Malformed]:
    """Rows without a value that every row has."""
    for name in REQUIRED:
        for at in pc.indices_nonzero(table.column(name).is_null()).to_pylist():
            row = table.slice(at, 1).select(["run", "process", "index"]).to_pylist()[0]
            yield Malformed(file_of(files, at), row["run"], row["process"], row["index"], f"column {name!r} is null")


def _sorted_rows(table: pa.Table) -> Iterator[_Row]:
    """The rows that have a place, in its order; equal places in the order of the files."""
    placed = table.select(_COLUMNS).add_column(0, "at", pa.array(np.arange(table.num_rows)))
    for name in ("run", "process", "index"):
        placed = placed.filter(pc.is_valid(placed.column(name)))
    order = [(name, "ascending") for name in ("run", "process", "index", "at")]
    for batch in placed.sort_by(order).to_batches(max_chunksize=65_536):
        yield from map(_Row._make, zip(*(column.to_pylist() for column in batch.columns), strict=True))


def newer_runs(table: pa.Table) -> frozenset[str]:
    """Runs that say they are of a newer version than ours."""
    starts = table.select(["run", "detail"]).filter(pc.equal(table.column("kind"), "start"))
    rows = zip(*(column.to_pylist() for column in starts.columns), strict=True)
    return frozenset(run for run, detail in rows if (_version(detail) or 0) > TRACE_VERSION)


def _version(detail: str | None) -> int | None:
    """The version in the detail of a start row, if it can be read at all; its other fields may be of any kind."""
    try:
        return _decode_version(detail).version if detail is not None else None
    except (msgspec.MsgspecError, RecursionError):
        return None


class _History:
    """What has been seen of a history so far."""

    def __init__(self, past: Past) -> None:
        self._expected = past.begin
        self._final = past.final
        self._told_final = past.told_final
        self._views = dict(past.views)
        self._sent = {g: {n for low, high in known for n in range(low, high + 1)} for g, known in past.sent.items()}
        self._last_sent = dict(past.last_sent)

    def problems(self, row: _Row) -> Iterator[str]:
        """What is wrong with the next row, given those before it."""
        if row.place != self._expected:
            yield misplaced(row.place, self._expected)
        self._expected = row.place + 1
        if row.kind == "view":
            yield from self._view(row)
        elif row.view is not None and row.group is not None and row.view != self._views.get(row.group):
            last = self._views.get(row.group)
            known = "no view of it was installed here" if last is None else f"the last one installed here is {last}"
            yield f"{row.kind!r} in view {row.view} of group {row.group!r}, but {known}"
        if row.kind in ("join", "leave") and row.group is None:
            yield f"a {row.kind!r} without a group"
        if row.kind in MESSAGE_KINDS:
            yield from self._message(row)
        if row.detail is not None and row.kind in _KNOWN:
            yield from detail_problems(row.kind, row.detail)
        if self._final is not None and not self._told_final:
            # One complaint is enough, however many rows follow.
            self._told_final = True
            yield f"a row after the history ended with {self._final!r}"
        if row.kind in FINAL_KINDS:
            self._final = row.kind

    def _view(self, row: _Row) -> Iterator[str]:
        if row.group is None or row.view is None:
            yield "a view without a group or a number"
        else:
            self._views[row.group] = row.view
        if not row.members:
            yield "a view without members"
        elif None in row.members:
            yield "a view with a member that is null"
        elif len(set(row.members)) < len(row.members):
            repeated = sorted({str(name) for name in row.members if row.members.count(name) > 1})
            yield f"a view with repeated members: {', '.join(repeated)}"

    def _message(self, row: _Row) -> Iterator[str]:
        if row.group is None or row.sender is None or row.seq is None:
            missing = [name for name in ("group", "sender", "seq") if getattr(row, name) is None]
            yield f"{row.kind!r} without a message: {', '.join(missing)} is null"
        elif row.kind == "send" and row.sender != row.process:
            yield f"a send of {row.sender!r}'s message {row.seq}, which stands at another process"
        elif row.kind == "send":
            yield from self._number(row.group, row.seq)

    def _number(self, group: str, seq: int) -> Iterator[str]:
        """Numbers of sent messages are 1, 2, 3, ... a group, in the order of the history."""
        sent = self._sent.setdefault(group, set())
        expected = self._last_sent.get(group, 0) + 1
        if seq in sent:
            yield f"message {seq} of group {group!r} is sent twice"
        elif seq != expected:
            yield f"seq {seq} of group {group!r} where {expected} was due: numbers are dense, from 1"
        # After a repetition the numbering goes on where it was; after a jump, from there.
        if seq not in sent:
            self._last_sent[group] = seq
        sent.add(seq)


def misplaced(place: int, due: int) -> str:
    """What is wrong with an index that is not the one that was due."""
    if place < 0:
        return "a negative index: histories count from 0"
    if place == due - 1:
        return f"index {place} stands here twice"
    upto = "" if place == due + 1 else f" to {place - 1}"
    return f"a gap: index {due}{upto} is missing"


def detail_problems(kind: str, detail: str) -> Iterator[str]:
    """Kinds with a meaning have an object as their detail; what other kinds put there is their writer's business."""
    if kind == "start":
        yield from _start_problems(kind, detail)
        return
    try:
        _decode_object(detail)
    except (msgspec.MsgspecError, RecursionError) as error:
        yield f"the detail of {kind!r} is not a JSON object: {error}"
        return
    try:
        if kind in _decoders:
            _decoders[kind].decode(detail)
    except msgspec.ValidationError as error:
        yield f"the detail of {kind!r} cannot be read: {error}"


def _start_problems(kind: str | None, detail: str | None) -> Iterator[str]:
    if kind != "start" or detail is None:
        return
    version = _version(detail)
    if version is not None and version > TRACE_VERSION:
        yield newer_version(version)
        return
    try:
        _decode_start(detail)
    except (msgspec.MsgspecError, RecursionError) as error:
        yield f"the detail of 'start' cannot be read: {error}"
