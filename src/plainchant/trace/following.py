"""Spools as they are written: new bytes only, of processes that start, die and come back.

Theory of operation
-------------------
A :class:`Follower` looks at a directory in rounds. In each it finds spools that are new, and reads from every spool what was
appended since the last time, up to a number of bytes, so that a round is short and memory bounded however large the spools are.
A block that is not whole yet is left for the next round; it is torn only if its process is dead. When a file has been read to
its end and the next one is there, reading goes on in that one.

**The end of a history.** A process that is killed releases its lock. The lock is checked before reading: a process that did not
hold it then had written its last row, so if the round finds nothing new, a history that has no end gets the ``crash`` row that
``collect`` would append. If its process lives it gets none.

**What cannot be followed** (a block with a wrong checksum, files that were removed before they were read) is told once as a
*problem*, and that spool is left alone: what was read of it stays true, and nothing is made up.
"""

from __future__ import annotations

import fcntl
import os
import sys
from array import array
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final
from zlib import crc32

import msgspec

from ..core.model import TraceError
from .fact import Fact
from .schema import FINAL_KINDS
from .spool import ALL_BITS, BLOCK, FORMAT, MAGIC, SUFFIX, Accepted, Block, Delivered, Header, Other, Record, Sent

ROUND_BYTES: Final = 4 * 1024 * 1024  # of one spool in one round; at least one block
MOST_SPOOLS: Final = 1_000
MOST_PROBLEMS: Final = 50

_decode_header: Final = msgspec.msgpack.Decoder(Header).decode
_decode_block: Final = msgspec.msgpack.Decoder(Block).decode


class Follower:
    """All spools under a directory, at any depth. The directory need not exist yet."""

    def __init__(self, directory: str | Path, *, round_bytes: int = ROUND_BYTES) -> None:
        self.directory = Path(directory)
        self._round_bytes = round_bytes
        self._tails: dict[Path, Tail] = {}
        self.problems: list[str] = []  # what could not be followed, in sentences

    def poll(self) -> list[Fact]:
        """One round: everything that is new, spool by spool, each in its order."""
        for directory in _spools_under(self.directory):
            if directory not in self._tails and len(self._tails) < MOST_SPOOLS:
                self._tails[directory] = Tail(directory)
                if len(self._tails) == MOST_SPOOLS:
                    self._complain(f"{self.directory} has more than {MOST_SPOOLS} spools; the others are not followed")
        found: list[Fact] = []
        for tail in self._tails.values():
            try:
                found += tail.poll(self._round_bytes)
            except (TraceError, OSError) as error:
                tail.abandoned = True
                self._complain(str(error))
        return found

    @property
    def processes(self) -> list[Tail]:
        """The spools that have been begun, in the order in which they were found."""
        return [tail for tail in self._tails.values() if tail.header is not None]

    @property
    def behind(self) -> int:
        """Bytes that were there in the last round and are not read."""
        return sum(tail.behind for tail in self._tails.values())

    @property
    def alive(self) -> int:
        """How many processes write."""
        return sum(tail.alive for tail in self._tails.values())

    def _complain(self, problem: str) -> None:
        if len(self.problems) < MOST_PROBLEMS:
            self.problems.append(problem)


class Tail:
    """One spool, read as far as it was written whole."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.header: Header | None = None
        self.alive = True
        self.abandoned = False
        self.behind = 0
        self._file = -1
        self._at = self._index = self._time = 0
        self._names: list[str] = []
        self._final = False
        self._groups: set[str] = set()
        self._left = False

    def poll(self, most: int) -> list[Fact]:
        """What was appended, up to so many bytes."""
        if self._final or self.abandoned:
            return []
        # Looked at before reading: who is dead now has written everything that we shall find.
        self.alive = _is_locked(self.directory)
        found: list[Fact] = []
        while most > 0:
            read, more = self._read(most, found)
            most -= read
            if not more:
                break
        if not self.alive and not found and self.header is not None:
            found += self._ended()
        return found

    def _read(self, most: int, found: list[Fact]) -> tuple[int, bool]:
        """Reads from the present file, or goes on to the next; how many bytes, and whether there may be more."""
        if self._file < 0 and not self._begin():
            return 0, False
        path = self._path(self._file)
        try:
            with open(path, "rb") as stream:
                size = os.fstat(stream.fileno()).st_size
                stream.seek(self._at)
                data = stream.read(most)
                if len(data) >= BLOCK.size and self._at:
                    wanted = BLOCK.unpack_from(data)[0] + BLOCK.size
                    if wanted > len(data) and self._at + wanted <= size:
                        data += stream.read(wanted - len(data))  # a block that is larger than a round
        except FileNotFoundError:
            raise TraceError(f"{path} was removed before it was read; {self.directory} is followed no further") from None
        used = self._take(path, data, found)
        self._at += used
        self.behind = size - self._at
        following = self._path(self._file + 1)
        if used == 0 and following.exists():
            # The process begins a file when the one before is whole: what is left over now was there before we looked.
            if os.path.getsize(path) == self._at:
                self._file, self._at, self._names = self._file + 1, 0, []
                return 0, True
            if self.behind and len(data) == self.behind:
                raise self._damaged(path, "its last block is not whole, though another file follows")
            return 0, True
        return used, used > 0

    def _begin(self) -> bool:
        """Finds the first file. Who keeps only the last ones has lost its beginning."""
        numbers = [int(path.stem) for path in self.directory.glob(f"*{SUFFIX}") if path.stem.isdecimal()]
        self._file = min(numbers, default=-1)
        return self._file >= 0

    def _take(self, path: Path, data: bytes, found: list[Fact]) -> int:
        """The whole blocks at the beginning of the data become facts; how many bytes they are."""
        is_header = self._at == 0
        at = len(MAGIC) if is_header else 0
        if len(data) < at:
            return 0
        if is_header and not data.startswith(MAGIC):
            raise self._damaged(path, "it is no spool")
        while len(data) - at >= BLOCK.size:
            length, complement, check = BLOCK.unpack_from(data, at)
            if length ^ complement != ALL_BITS:
                raise self._damaged(path, "no block begins where one should")
            end = at + BLOCK.size + length
            if end > len(data):
                break
            body = data[at + BLOCK.size : end]
            if crc32(body) != check:
                raise self._damaged(path, "the checksum of a block is wrong")
            try:
                if is_header:
                    self._take_header(path, body)
                    is_header = False
                else:
                    found += self._take_block(_decode_block(body))
            except (msgspec.MsgspecError, IndexError, ValueError) as error:
                raise self._damaged(path, f"a block cannot be read: {error}") from error
            at = end
        return 0 if is_header else at

    def _take_header(self, path: Path, body: bytes) -> None:
        header = _decode_header(body)
        if header.version > FORMAT:
            raise TraceError(f"{path} is a spool of version {header.version}, newer than {FORMAT}; use a newer plainchant")
        if self.header is not None and (header.booted, header.process) != (self.header.booted, self.header.process):
            raise self._damaged(path, f"it is of another process, {header.process}")
        if self.header is None and header.index:
            raise TraceError(
                f"the first {header.index} rows of {self.directory} are gone: its process kept only the last files, so it "
                "cannot be followed from its beginning; record without a limit of files (keep = 0)"
            )
        self.header = header
        self._index = header.index
        self._names = list(header.names)

    def _take_block(self, block: Block) -> Iterator[Fact]:
        self._names += block.names
        for record in block.records:
            fact = self._fact(record)
            self._index += fact.count
            self._note(fact)
            yield fact

    def _fact(self, record: Record) -> Fact:
        assert self.header is not None
        names, run, me = self._names, self.header.run, self.header.process
        if isinstance(record, Other):
            group = None if record.group is None else names[record.group]
            sender = None if record.sender is None else names[record.sender]
            members = None if record.members is None else tuple(names[member] for member in record.members)
            place = (run, me, self._index, names[record.kind], record.time)
            return Fact(*place, group, record.view, sender, record.seq, 1, members, record.detail, record.deadline)
        digests, group = self._integers(record.digests), names[record.group]
        size = record.sizes if isinstance(record.sizes, int) else max(self._integers(record.sizes))
        kind, view, sender, first = "accept", None, me, None
        if not isinstance(record, Accepted):
            kind, view, first = "send", record.view, record.first
        if isinstance(record, Delivered):
            kind, sender = "deliver", names[record.sender]
        deadline = record.deadline if isinstance(record, Sent) else None
        place = (run, me, self._index, kind, record.time)
        more: dict[str, Any] = {"count": len(digests), "deadline": deadline, "digests": digests, "size": size}
        return Fact(*place, group, view, sender, first, **more)

    def _integers(self, data: bytes) -> tuple[int, ...]:
        assert self.header is not None
        numbers = array("I", data)
        if self.header.order != sys.byteorder:
            numbers.byteswap()
        if not numbers:
            raise ValueError("a record without messages")
        return tuple(numbers)

    def _note(self, fact: Fact) -> None:
        """What decides how the history ends if nothing follows; see ``collect``."""
        self._time = fact.time
        if fact.kind in FINAL_KINDS:
            self._final = True
        elif fact.group is not None and fact.kind in ("join", "view", "send", "deliver"):
            self._groups.add(fact.group)
        elif fact.group is not None and fact.kind == "leave":
            self._groups.discard(fact.group)
            self._left = True

    def _ended(self) -> Iterator[Fact]:
        """Its process is dead and everything is read."""
        assert self.header is not None
        self._final = True
        if not (self._left and not self._groups):
            yield Fact(self.header.run, self.header.process, self._index, "crash", self._time, detail='{"by":"collector"}')

    def _path(self, number: int) -> Path:
        return self.directory / f"{number:05d}{SUFFIX}"

    def _damaged(self, path: Path, problem: str) -> TraceError:
        return TraceError(f"{path} is damaged after byte {self._at}: {problem}; {self.directory} is followed no further")


def _spools_under(directory: Path) -> list[Path]:
    """The directories that hold spools, in the order of their names."""
    found = []
    for path, folders, files in os.walk(directory):
        folders.sort()
        if any(file.endswith(SUFFIX) for file in files):
            found.append(Path(path))
    return found


def _is_locked(directory: Path) -> bool:
    """Whether a process holds a file of the spool: then it lives."""
    for path in sorted(directory.glob(f"*{SUFFIX}"), reverse=True):
        try:
            with open(path, "rb") as stream:
                fcntl.flock(stream, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except FileNotFoundError:
            continue
        except BlockingIOError:
            return True
    return False
