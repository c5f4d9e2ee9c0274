"""Spools back from disk: block by block, as far as they were written whole.

A spool of a process that was killed in the middle of a write ends in a torn block, and so does one that is still being
written. What is before it is whole, and that is what is read; how many bytes were left out is told. Anything else that
does not fit (a file in the middle that is torn or missing, a checksum) is damage: rows are missing in between, so the
process's history would be a wrong one, and the spool is refused.

A reader notes the sizes of the files when it is made and never reads beyond them. So it can be read several times, with
the same rows each time, while the process writes on.
"""

from __future__ import annotations

import fcntl
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import IO, Final, NamedTuple, NoReturn
from zlib import crc32

import msgspec

from ..core.model import TraceError
from .spool import ALL_BITS, BLOCK, FORMAT, MAGIC, SUFFIX, Block, Delivered, Header, Other, Record

DIGEST_BYTES: Final = 4  # of each size and each digest in a record


class _Version(msgspec.Struct):
    version: int


_UNREADABLE: Final = (msgspec.MsgspecError, ValueError, RecursionError)
"""What msgspec may raise for bytes that it cannot read; bad UTF-8 is a ValueError."""
_decode_version: Final = msgspec.msgpack.Decoder(_Version).decode
_decode_header: Final = msgspec.msgpack.Decoder(Header).decode
_decode_block: Final = msgspec.msgpack.Decoder(Block).decode


class SpoolBlock(NamedTuple):
    """One flush, all names known when it was written, and how far the reading of the spool has come with it."""

    block: Block
    names: Sequence[str]
    rows: int  # how many rows its records stand for
    read: int  # bytes of the spool up to the end of this block


class _File(NamedTuple):
    path: Path
    size: int


class SpoolReader:
    """The spool of one process; ``directory`` is where its files are. ``alive``: the process is still writing it (on this
    machine; for a copy this cannot be known). ``first`` is the index of the first row that is there, above 0 if old files were
    removed. ``torn``, known after the blocks were read, is the number of bytes at the end that are no whole block."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        # Checked first: a process that ends while we read was alive, and may have written what we do not read.
        self.alive = _is_locked(directory)
        self.files = _files(directory)
        self.torn = 0
        header = self._header(self.files[0])
        if header is None and len(self.files) > 1:
            self._damaged(self.files[0].path, 0, "it has no whole header")
        self.header = header
        """None if the process was stopped before the first file was begun; then nobody has seen anything of it."""
        self.first = 0 if header is None else header.index

    @property
    def size(self) -> int:
        """Bytes to read."""
        return sum(file.size for file in self.files)

    def blocks(self) -> Iterator[SpoolBlock]:
        """All whole blocks in order; TraceError if something is wrong with them."""
        if self.header is None:
            self.torn = self.size
            return
        index = self.first
        before = 0
        for file in self.files:
            with _opened(file.path) as stream:
                bodies = self._bodies(stream, file)
                header, at = next(bodies, (None, 0))
                names = list(self._continued(file.path, header, index).names) if header is not None else []
                for body, end in bodies:
                    block, rows = self._decoded(file.path, at, body, names)
                    at = end
                    index += rows
                    yield SpoolBlock(block, names, rows, before + end)
            if at < file.size and file is not self.files[-1]:
                self._damaged(file.path, at, "its last block is not whole, though another file follows")
            self.torn = file.size - at
            before += file.size

    def _header(self, file: _File) -> Header | None:
        with _opened(file.path) as stream:
            for body, _ in self._bodies(stream, file):
                return self._decoded_header(file.path, body)
        return None

    def _continued(self, path: Path, body: bytes, index: int) -> Header:
        """The header of a file, which must go on where the one before ended."""
        assert self.header is not None
        header = self._decoded_header(path, body)
        if (header.run, header.process, header.booted) != (self.header.run, self.header.process, self.header.booted):
            self._damaged(path, 0, f"it is of {header.process} in run {header.run}, begun at {header.booted}")
        if header.index != index:
            self._damaged(path, 0, f"it begins with row {header.index}, but the files before it end with row {index - 1}")
        return header

    def _decoded_header(self, path: Path, body: bytes) -> Header:
        try:
            version = _decode_version(body).version
            if version <= FORMAT:
                return _decode_header(body)
        except _UNREADABLE as error:
            self._damaged(path, len(MAGIC), f"its header cannot be read: {error}")
        raise TraceError(f"{path} is a spool of version {version}, newer than {FORMAT}; collect it with a newer plainchant")

    def _decoded(self, path: Path, at: int, body: bytes, names: list[str]) -> tuple[Block, int]:
        try:
            block = _decode_block(body)
        except _UNREADABLE as error:
            self._damaged(path, at, f"a block cannot be read: {error}")
        names += block.names
        counts = [_rows_of(record, len(names)) for record in block.records]
        if 0 in counts:
            self._damaged(path, at, f"a record contradicts itself: {block.records[counts.index(0)]}")
        return block, sum(counts)

    def _bodies(self, stream: IO[bytes], file: _File) -> Iterator[tuple[bytes, int]]:
        """The whole blocks of a file, each with the position of its end."""
        magic = stream.read(min(len(MAGIC), file.size))
        if not MAGIC.startswith(magic):
            raise TraceError(f"{file.path} is no spool; leave it out")
        at = len(MAGIC)
        while file.size - at >= BLOCK.size:
            length, complement, check = BLOCK.unpack(stream.read(BLOCK.size))
            if length ^ complement != ALL_BITS:
                self._damaged(file.path, at, "no block begins there")
            if length > file.size - at - BLOCK.size:
                return
            body = stream.read(length)
            if crc32(body) != check:
                self._damaged(file.path, at, "the checksum of a block is wrong")
            at += BLOCK.size + length
            yield body, at

    def _damaged(self, path: Path, at: int, problem: str) -> NoReturn:
        raise TraceError(
            f"{path} is damaged at byte {at}: {problem}; rows are missing in the middle of this history: "
            f"bring the file back, or leave {self.directory} out"
        )


def open_spools(paths: Sequence[str | Path]) -> list[SpoolReader]:
    """The spools in these directories, at any depth, in the order of run and process; those without a header last. TraceError if
    there is none, or two of one process."""
    directories: dict[Path, None] = {}
    for path in map(Path, paths):
        found = sorted({file.parent for file in path.rglob(f"*{SUFFIX}")}) if path.is_dir() else []
        if not found:
            what = "contains no *.spool file" if path.is_dir() else "is no directory" if path.exists() else "does not exist"
            raise TraceError(f"there is no spool at {path}: it {what}; give the directory that the processes recorded to")
        directories.update(dict.fromkeys(directory.resolve() for directory in found))
    readers = [SpoolReader(directory) for directory in directories]
    known: dict[tuple[str, str], SpoolReader] = {}
    for reader in readers:
        if reader.header is None:
            continue
        name = (reader.header.run, reader.header.process)
        if name in known:
            both = f"{known[name].directory} and {reader.directory} are both of process {name[1]} in run {name[0]}"
            raise TraceError(f"{both}; collect them one by one, or give each run a name of its own")
        known[name] = reader
    return [known[name] for name in sorted(known)] + [reader for reader in readers if reader.header is None]


def _files(directory: Path) -> list[_File]:
    """The files of a spool with their sizes now, without gaps in their numbers."""
    try:
        found = [_File(path, path.stat().st_size) for path in directory.glob(f"*{SUFFIX}")]
    except FileNotFoundError as error:
        raise TraceError(f"{error.filename} was removed by its process while it was read; try again") from error
    numbered = {int(file.path.stem): file for file in found if file.path.stem.isdecimal()}
    if len(numbered) < len(found) or not found:
        raise TraceError(f"{directory} has *{SUFFIX} files that no process has recorded; take them away, or leave it out")
    numbers = sorted(numbered)
    for before, number in pairwise(numbers):
        if number != before + 1:
            raise TraceError(f"{directory} lacks file {before + 1:05d}{SUFFIX}; bring it back, or leave the directory out")
    return [numbered[number] for number in numbers]


def _opened(path: Path) -> IO[bytes]:
    try:
        return open(path, "rb", buffering=1 << 20)
    except FileNotFoundError as error:
        raise TraceError(f"{path} was removed by its process while it was read; try again") from error
    except OSError as error:
        raise TraceError(f"cannot read {path}: {error.strerror}; check its permissions") from error


def _is_locked(directory: Path) -> bool:
    """Whether a process holds a file of the spool: then it lives."""
    for path in directory.glob(f"*{SUFFIX}"):
        with _opened(path) as stream:
            try:
                fcntl.flock(stream, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                return True
    return False


def _rows_of(record: Record, names: int) -> int:
    """How many rows a record stands for; 0 if its parts do not go together or it uses a name that nobody knows."""
    if isinstance(record, Other):
        codes = (record.kind, record.group or 0, record.sender or 0, *(record.members or ()))
        return int(min(codes) >= 0 and max(codes) < names)
    rows, rest = divmod(len(record.digests), DIGEST_BYTES)
    sender = record.sender if isinstance(record, Delivered) else 0
    contradicts = rest or (isinstance(record.sizes, bytes) and len(record.sizes) != len(record.digests))
    return 0 if contradicts or not 0 <= record.group < names or not 0 <= sender < names else rows
