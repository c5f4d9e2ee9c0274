"""What one live process records of itself: a spool, append-only, written before its packets leave.

Theory of operation
-------------------
A live process may be killed at any instant, and whatever others can have seen of it must be on disk by then. So its host tells
the spool what happens during a turn and calls ``flush`` at the turn's end, before the turn's packets leave: one ``write`` of
everything. A process that is killed between two flushes loses nothing that others can know of. (Nothing calls ``fsync``, so a
power failure of the machine can lose the last seconds.)

**Ranges, not rows.** A host takes and delivers batches. A batch is one record: kind, time, group, view, sender, the first number,
the rank, the sizes (one integer where all are equal) and a CRC-32 for each message. Python cannot afford work for each message,
so the payloads are only gone over by ``map`` with functions of C. Names are written once and are then numbers. ``collect`` makes
rows of it.

**Files.** ``DIRECTORY/RUN/PROCESS/00000.spool``, ``00001.spool``, ...; signs that a file system could refuse are escaped like
those of a URL (``p3#1`` is ``p3%231``). A file is ``MAGIC``, then blocks. A block is its length, the complement of its length,
the CRC-32 of its body, each in 4 bytes, little-endian, and the body, MessagePack. The first block of a file is a :class:`Header`
with all names so far, so a file can be read without those before it; every other block is a flush, a :class:`Block`. A block at
the end that is shorter than its length says is a torn write, and everything before it is whole. A block of its full length with
another checksum was altered.

The spool holds a lock on the file that it writes (``flock``), which ends with the process: by it a collector knows which live.
"""

from __future__ import annotations

import fcntl
import os
import struct
import sys
import time as clock
from array import array
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Final, Literal, TypeAlias
from urllib.parse import quote
from zlib import crc32

import msgspec

from ..core.model import TraceError, UsageError

MAGIC: Final = b"plainchant.spool\n"
FORMAT: Final = 1  # the version of the format of spools; the trace that is made of them has a version of its own
SUFFIX: Final = ".spool"
ROTATE: Final = 64 * 1024 * 1024

BLOCK: Final = struct.Struct("<III")
ALL_BITS: Final = 0xFFFFFFFF


Code: TypeAlias = Annotated[int, msgspec.Meta(ge=0)]  # a name, by its number
Int64: TypeAlias = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]  # what fits into a column of a trace


class Header(msgspec.Struct, frozen=True):
    """The first block of each file."""

    version: int
    run: str
    process: str
    booted: int  # when the spool was begun, ns since 1970: the same in all files of a spool
    file: int
    index: int  # the index of the first row in this file
    order: Literal["little", "big"]  # of the bytes in `sizes` and `digests`
    names: list[str]  # the names that records mean by 0, 1, 2, ...; the blocks add theirs


class Sent(msgspec.Struct, frozen=True, array_like=True, gc=False, tag=0):
    """Rows ``send``: the protocol took these messages of the process's own."""

    time: Int64
    group: Code
    view: Int64 | None
    first: Int64
    sizes: int | bytes
    digests: bytes
    deadline: Int64 | None = None  # when they have to be delivered, by the clock that `time` is of


class Delivered(msgspec.Struct, frozen=True, array_like=True, gc=False, tag=1):
    """Rows ``deliver``."""

    time: Int64
    group: Code
    view: Int64 | None
    sender: Code
    first: Int64
    rank: Int64 | None
    sizes: int | bytes
    digests: bytes


class Accepted(msgspec.Struct, frozen=True, array_like=True, gc=False, tag=2):
    """Rows ``accept``: the API accepted these messages; they have no numbers yet."""

    time: Int64
    group: Code
    sizes: int | bytes
    digests: bytes


class Other(msgspec.Struct, frozen=True, array_like=True, gc=False, tag=3):
    """One row of any kind."""

    kind: Code
    time: Int64
    group: Code | None
    view: Int64 | None
    sender: Code | None
    seq: Int64 | None
    rank: Int64 | None
    members: list[Code] | None
    deadline: Int64 | None
    detail: str | None


Record: TypeAlias = Sent | Delivered | Accepted | Other


class Block(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One flush: the packets to charge to its last row, names that are new, and what happened."""

    packets: int
    names: list[str]
    records: list[Record]


_encode: Final = msgspec.msgpack.Encoder().encode
_encode_detail: Final = msgspec.json.Encoder(order="sorted").encode


class _Names(dict[str, int]):
    """Name to number; one that is asked for the first time gets the next number and is ``new`` until it is written."""

    def __init__(self) -> None:
        self.new: list[str] = []

    def __missing__(self, name: str) -> int:
        number = self[name] = len(self)
        self.new.append(name)
        return number


class Spool:
    """The spool of one incarnation of a process, which is begun with its ``start`` row.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as directory:
    ...     with Spool(directory, run="r0", process="p3#1", start={"version": 1}) as spool:
    ...         spool.send(5, "g", 1, 1, [b"one", b"two"])
    ...         spool.flush()
    ...     [str(path.relative_to(directory)) for path in Path(directory).rglob("*.spool")]
    ['r0/p3%231/00000.spool']

    ``start`` is the detail of the ``start`` row (version, protocol, parameters, promises, bounds) and ``time`` its time, by
    the clock that all other times here are of; without it, the time of day. A file that has ``rotate`` bytes is
    followed by a new one; with ``keep`` > 0 only so many files are kept, and a spool that has lost its beginning can
    be read, but not verified. Nothing is kept in memory beyond a turn, except the names.

    Raises TraceError when it cannot write: here, and in ``flush`` and ``close``. After that it writes nothing any more, and
    what was flushed before stays readable. It is the host's to decide whether the process may go on without a history.
    """

    def __init__(
        self,
        directory: str | Path,
        *,
        run: str,
        process: str,
        start: dict[str, Any],
        time: int | None = None,
        rotate: int = ROTATE,
        keep: int = 0,
    ) -> None:
        if rotate < 1 or keep < 0:
            raise UsageError(f"a spool cannot have rotate={rotate} and keep={keep}; rotate is at least 1, keep at least 0")
        self.directory = Path(directory, file_name(run), file_name(process))  # where the files of this process are
        self._run = run
        self._process = process
        self._rotate = rotate
        self._keep = keep
        self._booted = clock.time_ns()
        self._names = _Names()
        self._records: list[Record] = []
        self._rows = self._index = self._packets = self._files = self._written = 0
        self._file = -1
        self.bytes_written = 0  # in all files together
        self._problem = ""
        try:
            self.directory.mkdir(parents=True, exist_ok=True)
            occupied = any(self.directory.iterdir())
        except OSError as error:
            raise self._failed(error) from error
        if occupied:
            held = f"{self.directory} already holds a history of {process} in run {run}"
            raise TraceError(f"{held}; a restarted process has a new name (p3, then p3#1), a new run another run name")
        self.row("start", self._booted if time is None else time, detail=start)
        self.flush()

    def __enter__(self) -> Spool:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def send(
        self, time: int, group: str, view: int | None, first: int, payloads: Sequence[bytes], deadline: int | None = None
    ) -> None:
        """The protocol took messages ``first``, ``first + 1``, ... of this process; all of them have the deadline, if any."""
        if payloads:
            self._rows += len(payloads)
            self._records.append(Sent(time, self._names[group], view, first, _sizes(payloads), _digests(payloads), deadline))

    def deliver(
        self, time: int, group: str, view: int | None, sender: str, first: int, payloads: Sequence[bytes], rank: int | None
    ) -> None:
        """Messages ``first``, ``first + 1``, ... of the sender are handed to the application; they share their rank."""
        if payloads:
            self._rows += len(payloads)
            names, sizes, digests = self._names, _sizes(payloads), _digests(payloads)
            self._records.append(Delivered(time, names[group], view, names[sender], first, rank, sizes, digests))

    def accept(self, time: int, group: str, payloads: Sequence[bytes]) -> None:
        """The API accepted messages; they have no numbers yet."""
        if payloads:
            self._rows += len(payloads)
            self._records.append(Accepted(time, self._names[group], _sizes(payloads), _digests(payloads)))

    def row(
        self,
        kind: str,
        time: int,
        group: str | None = None,
        view: int | None = None,
        sender: str | None = None,
        seq: int | None = None,
        rank: int | None = None,
        members: Sequence[str] | None = None,
        deadline: int | None = None,
        detail: dict[str, Any] | None = None,
    ) -> None:
        """Anything else. ``detail`` is written as it is now, whatever becomes of it later."""
        try:
            text = None if detail is None else _encode_detail(detail).decode()
        except (TypeError, ValueError, OverflowError, RecursionError, msgspec.MsgspecError) as error:
            raise TraceError(f"the detail {detail!r} of a {kind!r} row is not JSON: {error}; its host is defective") from error
        names = self._names
        self._rows += 1
        kind_code, group_code = names[kind], None if group is None else names[group]
        sender_code = None if sender is None else names[sender]
        codes = None if members is None else [names[member] for member in members]
        self._records.append(Other(kind_code, time, group_code, view, sender_code, seq, rank, codes, deadline, text))

    @property
    def written(self) -> int:
        """Bytes of the file that is being written."""
        return self._written

    def packets(self, count: int) -> None:
        """So many packets leave in this turn. They are charged to its last row, or to the next turn's that has one."""
        self._packets += count

    @property
    def rows_written(self) -> int:
        return self._index

    @property
    def rows_waiting(self) -> int:
        """Rows that were told and are not written."""
        return self._rows

    def flush(self) -> None:
        """Writes what this turn told, if it told anything; call it before the turn's packets leave."""
        if not self._records:
            return
        records, self._records = self._records, []
        if self._problem:
            raise TraceError(self._problem)
        try:
            body = _encode(Block(self._packets, self._names.new, records))
        except (TypeError, ValueError, OverflowError) as error:
            # The names of this block are lost with it, so nothing that follows could be read.
            raise self._failed(f"a value of this turn cannot be recorded: {error}; its host is defective") from error
        try:
            if self._file < 0 or self._written >= self._rotate:
                self._next()
            self._write(body)
        except OSError as error:
            raise self._failed(error) from error
        self._names.new = []
        self._packets = 0
        self._index += self._rows
        self._rows = 0

    def close(self) -> None:
        """Writes the rest and lets go of the file. Closing again does nothing."""
        if self._file < 0:
            return
        try:
            self.flush()
        finally:
            self._let_go()
            self._problem = self._problem or f"the spool in {self.directory} is closed; it takes no more rows"

    def _let_go(self) -> None:
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def _next(self) -> None:
        """Begins a file; the lock of the one before goes when the new one has one, so a living process always has one."""
        path = self._path(self._files)
        file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(file, fcntl.LOCK_EX)
        except OSError:
            os.close(file)
            raise
        self._let_go()
        self._file = file
        written = list(self._names)[: len(self._names) - len(self._names.new)]
        header = Header(FORMAT, self._run, self._process, self._booted, self._files, self._index, sys.byteorder, written)
        self._files += 1
        self._written = 0
        self._write(_encode(header), before=MAGIC)
        if 0 < self._keep < self._files:
            self._path(self._files - 1 - self._keep).unlink(missing_ok=True)

    def _path(self, number: int) -> Path:
        return self.directory / f"{number:05d}{SUFFIX}"

    def _write(self, body: bytes, before: bytes = b"") -> None:
        length = len(body)
        data = b"".join((before, BLOCK.pack(length, length ^ ALL_BITS, crc32(body)), body))
        written = os.write(self._file, data)
        while written < len(data):
            # A disk that is nearly full takes a part; the next attempt takes the rest or says why not.
            written += os.write(self._file, data[written:])
        self._written += len(data)
        self.bytes_written += len(data)

    def _failed(self, cause: OSError | str) -> TraceError:
        """The error to raise; from now on nothing is written."""
        reason = cause if isinstance(cause, str) else f"{cause.strerror or cause}; make room or choose another directory"
        self._let_go()
        self._problem = f"cannot write the spool of {self._process} to {self.directory}: {reason}"
        return TraceError(self._problem)


def next_run(directory: str | Path, process: str) -> str:
    """The last of the runs ``r0``, ``r1``, ... there, or the one after it if this process has a history in it: a place whose
    members were all down and have come back has its old names again, and who comes later belongs to those who are there.

    >>> next_run("nowhere", "p1")
    'r0'
    """
    numbers = [int(path.name[1:]) for path in Path(directory).glob("r*") if path.name[1:].isdecimal()]
    number = max(numbers, default=0)
    return f"r{number + Path(directory, f'r{number}', file_name(process)).exists()}"


def file_name(name: str) -> str:
    """A name as a file system takes it.

    >>> file_name("p3#1"), file_name("a/b"), file_name("..")
    ('p3%231', 'a%2Fb', '%2E.')
    """
    if not name:
        raise UsageError("a run or a process without a name cannot be recorded; give it one")
    try:
        quoted = quote(name, safe="")
    except UnicodeEncodeError as error:
        raise UsageError(f"{name!r} is no text that can be a file's name; choose another name") from error
    return f"%2E{quoted[1:]}" if quoted.startswith(".") else quoted


def _digests(payloads: Sequence[bytes]) -> bytes:
    return array("I", map(crc32, payloads)).tobytes()


def _sizes(payloads: Sequence[bytes]) -> int | bytes:
    """The size of each, or one for all."""
    sizes = [*map(len, payloads)]
    return sizes[0] if sizes.count(sizes[0]) == len(sizes) else array("I", sizes).tobytes()
