"""From the spools of a run's processes to its trace.

Theory of operation
-------------------
Every spool is read twice, block by block. The first pass notes when each message was sent (a range at a time, because that is how
a host takes them), how the history ends and whether it is whole. The second makes rows, tens of thousands at a time: a record is
one entry of each column, entries are repeated for each message of the record, and numbers, digests and sizes are filled in by
array arithmetic. So a spool may be much larger than the memory; what is kept for a run is 24 bytes for each batch that was sent.

**The end.** A history without ``crash`` or ``end`` that did not leave its last group either is one of a process that was killed.
A flush comes before its packets, so whatever others have of it is in the spool, and the collector appends ``crash`` with ``{"by":
"collector"}``. Not if the process lives: then more may follow, and its history stays cut.

**The beginning.** A spool that kept only its last files cannot be verified: views and numbers of messages are missing. It is
refused, or, with ``tail``, made into a trace to look at: the history gets a ``start`` row that tells how many rows are missing,
its ``send`` rows are called ``taken`` (numbers of ``send`` rows begin at 1), rows say no view before the first that was
installed, and no process of the run promises anything.
"""

from __future__ import annotations

import dataclasses
from array import array
from collections.abc import Callable, Collection, Iterator, Sequence
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple, TypeAlias

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ..core.model import TRACE_VERSION, TraceError
from .columns import FILE_SCHEMA, column_of, repeated_column, sparse_column, spread_column
from .schema import FINAL_KINDS
from .spool import Accepted, Delivered, Other, Sent
from .spool_reader import DIGEST_BYTES, SpoolBlock, SpoolReader, open_spools
from .writer import TraceWriter

Integers: TypeAlias = np.ndarray[Any, np.dtype[np.int64]]
Booleans: TypeAlias = np.ndarray[Any, np.dtype[np.bool_]]
Ending: TypeAlias = Literal["end", "crash", "left", "killed", "alive"]
"""Of a history: what its last fact is; ``killed`` if the collector appended a ``crash``."""

_TABLE_ROWS: Final = 65_536
_LARGEST: Final = 2**31 - 1
_decode_detail: Final = msgspec.json.Decoder(dict[str, Any]).decode
_encode_detail: Final = msgspec.json.Encoder(order="sorted").encode


@dataclasses.dataclass(frozen=True, slots=True)
class CollectedProcess:
    """What was made of one spool."""

    run: str
    process: str
    rows: int  # in the trace
    ending: Ending
    torn: int  # bytes at the end that are no whole block: a write that a kill interrupted, or one still under way
    missing: int  # rows at the beginning that are gone with old files


@dataclasses.dataclass(frozen=True, slots=True)
class CollectSummary:
    """What was made of all spools, in the order (run, process)."""

    processes: tuple[CollectedProcess, ...]
    events: dict[str, int]  # rows of each kind, in the order of kinds
    empty: tuple[Path, ...]  # spools of processes that were stopped before they had recorded anything; they are not in the trace

    @property
    def runs(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(process.run for process in self.processes))


def collect(
    spools: Sequence[str | Path],
    out: str | Path,
    *,
    alive: Collection[str] | None = None,
    tail: bool = False,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> CollectSummary:
    """Writes the trace ``out/trace`` from the spools in these directories, at any depth.

    ``alive`` names processes that still run: their histories get no ``crash``. Without it, that is found out by the
    locks that living writers on this machine hold. ``tail`` takes histories without their beginning. ``progress`` is told how
    many bytes of how many were read. Raises TraceError for spools that are damaged, and then writes nothing.

    >>> import tempfile
    >>> from plainchant.trace import read
    >>> from plainchant.trace.spool import Spool
    >>> with tempfile.TemporaryDirectory() as directory:
    ...     with Spool(directory, run="r0", process="p1", start={"version": 1}) as spool:
    ...         spool.send(5, "g", None, 1, [b"one", b"two"])
    ...     summary = collect([directory], directory + "/out")
    ...     table = read(directory + "/out").table
    >>> summary.processes[0].ending, table.column("kind").to_pylist(), table.column("seq").to_pylist()
    ('killed', ['start', 'send', 'send', 'crash'], [None, 1, 2, None])
    """
    readers = open_spools(spools)
    if not tail:
        _refuse_tails(readers)
    done = _Progress(progress, 2 * sum(reader.size for reader in readers))
    collected: list[CollectedProcess] = []
    events: dict[str, int] = {}
    empty = [reader.directory for reader in readers if reader.header is None]
    with TraceWriter(out) as trace:
        begun = [(reader.header.run, reader) for reader in readers if reader.header is not None]
        for _, of_run in groupby(begun, key=itemgetter(0)):
            surveys = [_Survey(reader, done) for _, reader in of_run]
            empty += [survey.reader.directory for survey in surveys if not survey.rows]
            surveys = [survey for survey in surveys if survey.rows]
            sent = {key: times.index() for survey in surveys for key, times in survey.sent.items()}
            for survey in surveys:
                survey.sent.clear()  # it is in the index now
            run = _Run(sent, whole=not any(survey.reader.first for survey in surveys))
            for survey in surveys:
                collected.append(_expand(survey, run, trace, events, done, survey.ending(alive)))
        if not collected:
            raise TraceError("none of these processes had recorded anything when it stopped; there is nothing to collect")
    return CollectSummary(tuple(collected), dict(sorted(events.items())), tuple(empty))


def _refuse_tails(readers: Sequence[SpoolReader]) -> None:
    for reader in readers:
        if reader.first:
            raise TraceError(
                f"the first {reader.first} rows of {reader.directory} are gone: its process kept only the last files; such a "
                "history can be looked at (--tail), but not verified; to verify, record without a limit of files (keep = 0)"
            )


@dataclasses.dataclass
class _Progress:
    """Adds up what the passes over all spools have read."""

    _tell: Callable[[int, int], None]
    _total: int
    _before: int = 0

    def blocks(self, reader: SpoolReader) -> Iterator[SpoolBlock]:
        """One pass over a spool."""
        for block in reader.blocks():
            yield block
            self._tell(self._before + block.read, self._total)
        self._before += reader.size
        self._tell(self._before, self._total)


@dataclasses.dataclass
class _Sent:
    """When the messages of one sender in one group were sent."""

    _ranges: array[int] = dataclasses.field(default_factory=lambda: array("q"))

    def add(self, first: int, count: int, time: int) -> None:
        self._ranges.extend((first, count, time))

    def index(self) -> _SentTimes:
        ranges = np.frombuffer(self._ranges, dtype=np.int64).reshape(-1, 3)
        return _SentTimes(*ranges[np.argsort(ranges[:, 0], kind="stable")].T)


class _SentTimes(NamedTuple):
    """The same, to look up: ranges of numbers in their order."""

    firsts: Integers
    counts: Integers
    times: Integers

    def look_up(self, numbers: Integers) -> tuple[Integers, Booleans]:
        """The times of these messages, and whether each is known."""
        places = np.searchsorted(self.firsts, numbers, side="right") - 1
        known = (places >= 0) & (numbers - self.firsts[places] < self.counts[places])
        return self.times[places], known


class _Survey:
    """The first pass over a spool: what must be known of it before rows are made, of any process of its run."""

    def __init__(self, reader: SpoolReader, progress: _Progress) -> None:
        assert reader.header is not None
        self.reader = reader
        self.header = reader.header
        self.rows = 0
        self.first_time: int | None = None
        self.last_time = 0
        self.sent: dict[tuple[str, str], _Sent] = {}
        self._final: Ending | None = None
        self._groups: set[str] = set()  # those it takes part in
        self._left = False
        for block in progress.blocks(reader):
            self._add(block)

    def ending(self, alive: Collection[str] | None) -> Ending:
        """How the history ends, by what is in it and by whether its process is known to live."""
        if self._final is not None:
            return self._final
        if self.reader.alive if alive is None else self.header.process in alive:
            return "alive"
        return "left" if self._left and not self._groups else "killed"

    def _add(self, block: SpoolBlock) -> None:
        self.rows += block.rows
        for record in block.block.records:
            self.last_time = record.time
            self.first_time = record.time if self.first_time is None else self.first_time
            if isinstance(record, Other):
                self._other(block.names[record.kind], None if record.group is None else block.names[record.group])
            elif not isinstance(record, Accepted):
                group = block.names[record.group]
                self._groups.add(group)
                if isinstance(record, Sent):
                    sent = self.sent.setdefault((group, self.header.process), _Sent())
                    sent.add(record.first, len(record.digests) // DIGEST_BYTES, record.time)

    def _other(self, kind: str, group: str | None) -> None:
        if kind in FINAL_KINDS:
            self._final = "end" if kind == "end" else "crash"
        elif group is not None and kind in ("join", "view"):
            self._groups.add(group)
        elif group is not None and kind == "leave":
            self._groups.discard(group)
            self._left = True


class _Part(NamedTuple):
    """What the rows of one record have in common; message ``seq`` is the first of them."""

    kind: str
    time: int
    group: str | None
    view: int | None
    sender: str | None
    seq: int | None
    rank: int | None
    sizes: int | bytes = 0
    digests: bytes | None = None  # None if it is one row, and not about a message's contents

    @property
    def rows(self) -> int:
        return 1 if self.digests is None else len(self.digests) // DIGEST_BYTES


_COMMON: Final = _Part._fields[:7]  # the columns that are the same in all rows of a part, or nearly: `seq` is counted on


class _Run(NamedTuple):
    """What all histories of a run share."""

    sent: dict[tuple[str, str], _SentTimes]
    whole: bool  # all of them have their beginning


def _expand(
    survey: _Survey, run: _Run, trace: TraceWriter, events: dict[str, int], progress: _Progress, ending: Ending
) -> CollectedProcess:
    """The second pass over a spool: its rows go into the trace."""
    rows = _Rows(survey, run)
    for block in progress.blocks(survey.reader):
        rows.add(block)
        if rows.count >= _TABLE_ROWS:
            trace.append(rows.take(events))
    if ending == "killed":
        rows.single("crash", survey.last_time, detail='{"by":"collector"}')
    if rows.count:
        trace.append(rows.take(events))
    reader = survey.reader
    return CollectedProcess(survey.header.run, survey.header.process, rows.index, ending, reader.torn, reader.first)


class _Rows:
    """Rows of one history that are not yet in a table, as *parts*: what the rows of one record have in common. ``count`` is how
    many rows these are, ``index`` how many were taken before."""

    def __init__(self, survey: _Survey, run: _Run) -> None:
        self._run = run
        self._header = survey.header
        self._integers = np.dtype(np.uint32).newbyteorder("<" if survey.header.order == "little" else ">")
        self._headless = survey.reader.first > 0
        self._installed: set[str] = set()
        self.index = 0
        self._clear()
        if self._headless:
            assert survey.first_time is not None
            missing = {"version": TRACE_VERSION, "promises": [], "missing": survey.reader.first}
            self.single("start", survey.first_time, detail=_encode_detail(missing).decode())

    def _clear(self) -> None:
        self.count = 0
        self._parts: list[_Part] = []
        self._sparse: dict[str, dict[int, Any]] = {"members": {}, "deadline": {}, "detail": {}, "packets": {}}

    def add(self, read: SpoolBlock) -> None:
        """Adds the rows of a block."""
        for record in read.block.records:
            part = self._other(record, read.names) if isinstance(record, Other) else self._messages(record, read.names)
            self._parts.append(part)
            self.count += part.rows
        if read.block.packets:
            self._sparse["packets"][self.count - 1] = read.block.packets

    def single(self, kind: str, time: int, *, detail: str) -> None:
        """Adds a row that no spool has."""
        self._sparse["detail"][self.count] = detail
        self._parts.append(_Part(kind, time, None, None, None, None, None))
        self.count += 1

    def _messages(self, record: Sent | Delivered | Accepted, names: Sequence[str]) -> _Part:
        time, group, sizes, digests = record.time, names[record.group], record.sizes, record.digests
        me = self._header.process
        if isinstance(record, Accepted):
            return _Part("accept", time, group, None, me, None, None, sizes, digests)
        view = self._view(group, record.view)
        if isinstance(record, Sent):
            if record.deadline is not None:
                places = range(self.count, self.count + len(digests) // self._integers.itemsize)
                self._sparse["deadline"] |= dict.fromkeys(places, record.deadline)
            return _Part("taken" if self._headless else "send", time, group, view, me, record.first, None, sizes, digests)
        return _Part("deliver", time, group, view, names[record.sender], record.first, record.rank, sizes, digests)

    def _other(self, record: Other, names: Sequence[str]) -> _Part:
        """Its part; what only such rows have is noted at their place."""
        kind = names[record.kind]
        group = None if record.group is None else names[record.group]
        sender = None if record.sender is None else names[record.sender]
        if kind == "view" and group is not None:
            self._installed.add(group)
        detail = _without_promises(record.detail) if kind == "start" and not self._run.whole else record.detail
        members = None if record.members is None else [names[member] for member in record.members]
        for column, value in (("members", members), ("deadline", record.deadline), ("detail", detail)):
            if value is not None:
                self._sparse[column][self.count] = value
        return _Part(kind, record.time, group, self._view(group, record.view), sender, record.seq, record.rank)

    def _view(self, group: str | None, view: int | None) -> int | None:
        """The view of a row, if the history has it."""
        return None if self._headless and group not in self._installed else view

    def take(self, events: dict[str, int]) -> pa.Table:
        """A table of these rows; they are counted by kind and forgotten."""
        parts = self._parts
        counts = np.array([part.rows for part in parts], dtype=np.int64)
        starts = np.cumsum(counts) - counts
        offsets = np.arange(self.count) - np.repeat(starts, counts)
        spread = pa.array(np.repeat(np.arange(len(parts)), counts))
        columns: dict[str, pa.Array] = {
            name: spread_column(column_of(name, [part[place] for part in parts]), spread) for place, name in enumerate(_COMMON)
        }
        columns["seq"] = pc.add(columns["seq"], pa.array(offsets))
        columns["sent"] = self._sent(counts, columns["seq"])
        columns["digest"], columns["size"] = self._payloads(counts, starts)
        for name, values in self._sparse.items():
            columns[name] = sparse_column(name, list(values), list(values.values()), self.count)
        columns["true_time"] = pa.nulls(self.count, pa.int64())
        columns["run"] = repeated_column([self._header.run], [self.count])
        columns["process"] = repeated_column([self._header.process], [self.count])
        columns["index"] = pa.array(np.arange(self.index, self.index + self.count))
        for part in parts:
            events[part.kind] = events.get(part.kind, 0) + part.rows
        self.index += self.count
        self._clear()
        return pa.table([columns[field.name] for field in FILE_SCHEMA], schema=FILE_SCHEMA)

    def _sent(self, counts: Integers, seq: pa.Array) -> pa.Array:
        """When the delivered messages were sent, where that is known."""
        codes: dict[tuple[str, str], int] = {}
        of_parts = [self._sender_code(part, codes) for part in self._parts]
        of_rows = np.repeat(np.array(of_parts, dtype=np.int64), counts)
        numbers = pc.fill_null(seq, 0).to_numpy()
        times = np.zeros(self.count, dtype=np.int64)
        unknown = np.ones(self.count, dtype=np.bool_)
        for key, code in codes.items():
            rows = np.flatnonzero(of_rows == code)
            times[rows], known = self._run.sent[key].look_up(numbers[rows])
            unknown[rows] = ~known
        return pa.array(times, mask=unknown)

    def _sender_code(self, part: _Part, codes: dict[tuple[str, str], int]) -> int:
        """A number for the group and sender of delivered messages whose times are known, else -1."""
        key = (part.group or "", part.sender or "")
        if part.kind != "deliver" or key not in self._run.sent:
            return -1
        return codes.setdefault(key, len(codes))

    def _payloads(self, counts: Integers, starts: Integers) -> tuple[pa.Array, pa.Array]:
        """Digests and sizes of the messages; rows that are not about messages have none."""
        parts = self._parts
        absent = np.repeat(np.array([part.digests is None for part in parts]), counts)
        digests = np.zeros(self.count, dtype=np.int64)
        digests[~absent] = np.frombuffer(b"".join(part.digests or b"" for part in parts), dtype=self._integers)
        common = [part.sizes if isinstance(part.sizes, int) else 0 for part in parts]
        sizes = np.repeat(np.array(common, dtype=np.int64), counts)
        for part, start in zip(parts, starts.tolist(), strict=True):
            if isinstance(part.sizes, bytes):
                sizes[start : start + part.rows] = np.frombuffer(part.sizes, dtype=self._integers)
        if sizes.max() > _LARGEST:
            raise TraceError(f"a message of {sizes.max()} bytes does not fit into a trace, which has room for {_LARGEST}")
        return pa.array(digests, mask=absent), pa.array(sizes, pa.int32(), mask=absent)


def _without_promises(detail: str | None) -> str:
    try:
        given = {} if detail is None else _decode_detail(detail)
    except msgspec.MsgspecError as error:
        raise TraceError(f"the detail of a 'start' row cannot be read: {error}; its host is defective") from error
    return _encode_detail({**given, "promises": []}).decode()
