"""A memory module that real processes share: a file, mapped by each of them, with one copy of a mailbox in it.

**One at a time.** A step holds an exclusive ``flock`` on the file. Each process has its own file description, so the kernel
gives the lock back when its holder dies. No process waits for the lock in the kernel: it tries again, soon at first, then less
often, and after :data:`PATIENCE` (the holder is stopped) makes the module crash: stopped processes must not stop others.

**All or nothing.** A record has two banks and a selector, one byte, which says where the valid one is. A step writes into the
bank that is not valid; at its end the selectors change. One change is one store. Several are first written into a journal, which
is then marked as whole: the next holder of the lock that finds it marked makes the changes again. So a process that is killed at
any instruction leaves everything as before the step or as after it; a step that raises changes nothing. The data of a message
has no second bank: it is written while no process can have a reason to read it.

**A crash of the module** is one byte, which never changes back. It is looked at when a step begins and when it has ended; from
then on every step fails, for all processes, also for one that was stopped in the middle of a step.

Entries that were read are remembered with their bytes, so that unchanged ones are not decoded again; a step that looks at all
entries several times goes through them once, as long as it puts none.
"""

from __future__ import annotations

import contextlib
import fcntl
import mmap
import os
import re
import struct
import time
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from operator import attrgetter
from pathlib import Path
from typing import Any, Final

import msgspec

from ...core.memory import FAILED, MOST_PLACES, Connection, Entry, Header, Layout
from ...core.model import PlainchantError, UsageError

PATIENCE: Final = 0.25  # seconds after which the holder of a lock is taken to be stopped
LONGEST_PROCESS: Final = 64  # bytes of a process's name
MAGIC: Final = b"plchmem4"

_CRASHED: Final = 8
_WHOLE: Final = 9  # where the file says that the module has crashed, and that the journal is whole
_LAYOUT: Final = struct.Struct("<IIII")
_LAYOUT_AT: Final = 16
_PREFACE: Final = 64
_COUNT: Final = struct.Struct("<I")
_CHANGE: Final = struct.Struct("<IB")
_HEADER: Final = struct.Struct("<qqqqqqqqq")
_CONNECTION: Final = struct.Struct(f"<qqqqqqQBB{LONGEST_PROCESS}s")
_ENTRY: Final = struct.Struct(f"<qqqqqqQQQQIHhBBB{LONGEST_PROCESS}s")
_PAGE: Final = 4096
# Selectors: nothing yet, the first or second bank; of entries also: removed, with what is left in the first or second bank.
_NOTHING: Final = 0
_REMOVED: Final = 2  # added to the selector of an entry that is there
_THERE: Final = re.compile(rb"[\x01\x02]", re.DOTALL)
_SOMEBODY: Final = re.compile(rb"[^\x00]", re.DOTALL)
_FILLED, _AVAILABLE, _LOCAL, _IS_REMOVED = 1, 2, 4, 8
_GONE, _SENDS, _PRESENT, _ONLY_SENDS = 1, 2, 4, 8
_YIELDING: Final = 3e-4  # seconds of waiting for a lock by yielding (steps are short, and waking up takes longer); then it sleeps
_SHORTEST_SLEEP: Final = 50e-6
_LONGEST_SLEEP: Final = 1e-3
_COUNTED: Final = 5e-3  # most seconds of one attempt that count as waiting: a process that was stopped has not waited


class CommonMemoryError(PlainchantError):
    """Common memory that cannot be made or used."""


def size_of(layout: Layout) -> int:
    """Bytes of a module's file."""
    return _Places(layout).end


class _Places:
    """Where in the file everything is."""

    def __init__(self, layout: Layout) -> None:
        entries = layout.places * layout.slots
        self.journal = _PREFACE
        self.header_selector = self.journal + _COUNT.size + _CHANGE.size * (1 + layout.places + entries)
        self.connection_selectors = self.header_selector + 1
        self.entry_selectors = self.connection_selectors + layout.places
        self.header = _aligned(self.entry_selectors + entries, 64)
        self.connections = self.header + 2 * _HEADER.size
        self.entries = self.connections + 2 * _CONNECTION.size * layout.places
        self.data = _aligned(self.entries + 2 * _ENTRY.size * entries, _PAGE)
        self.end = self.data + entries * layout.room


def _aligned(position: int, to: int) -> int:
    return -(-position // to) * to


def check_layout(layout: Layout) -> None:
    """Fails if a mailbox cannot be so large."""
    if not 1 <= layout.places <= MOST_PLACES or layout.copies < 1 or layout.slots < 1 or layout.room < 0:
        text = f"a mailbox has at least one copy and one slot a place, and 1 to {MOST_PLACES} places, not {layout.copies} copies"
        raise UsageError(f"{text}, {layout.slots} slots and {layout.places} places; choose others")


def make(path: Path, layout: Layout) -> None:
    """Makes the file of a module, empty; the memory for messages is there when it is reserved (:meth:`Segment.reserve`)."""
    check_layout(layout)
    size = size_of(layout)
    file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        with _in_room(path, size):
            os.ftruncate(file, size)
        _allocate(file, path, 0, _Places(layout).data)
        os.pwrite(file, _LAYOUT.pack(layout.copies, layout.places, layout.slots, layout.room), _LAYOUT_AT)
        os.pwrite(file, MAGIC, 0)
    finally:
        os.close(file)


def _allocate(file: int, path: Path, start: int, length: int) -> None:
    """Makes sure that there is memory: who writes where there is none left is killed by the system."""
    with _in_room(path, length):
        os.posix_fallocate(file, start, length)


@contextlib.contextmanager
def _in_room(path: Path, length: int) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        text = f"no room for {length} bytes of common memory in {path.parent}: {error.strerror}"
        raise CommonMemoryError(f"{text}; make room there, or choose fewer places, slots or copies, or a smaller room") from error


class Segment:
    """One module as one process has it; a ``Copy`` (:mod:`plainchant.core.memory`) for the time of a step."""

    def __init__(self, path: Path, *, patience: float = PATIENCE) -> None:
        self.path = path
        self.gave_up = False  # whether this process made the module crash, because it could not get the lock
        self._patience = patience
        self._file = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        try:
            if os.pread(self._file, len(MAGIC), 0) != MAGIC:
                raise CommonMemoryError(f"{path} is no module of a mailbox; remove it")
            self.layout = Layout(*_LAYOUT.unpack(os.pread(self._file, _LAYOUT.size, _LAYOUT_AT)))
            self._at = _Places(self.layout)
            self._memory = mmap.mmap(self._file, self._at.end)
        except BaseException:
            os.close(self._file)
            raise
        self._changes: dict[int, int] = {}  # selectors that the step that runs changes
        count = self.layout.places * self.layout.slots
        self._known_entries: list[tuple[bytes, Entry] | None] = [None] * count
        self._known_connections: list[tuple[bytes, Connection] | None] = [None] * self.layout.places
        self._listed: list[tuple[int, Entry]] | None = None  # entries as the running step has seen them; None: it has to look
        self._reserved: set[int] = set()  # places for whose messages there is memory, as far as this process knows

    def reserve(self, place: int) -> None:
        """Makes sure that there is memory for the messages of a place."""
        self._reserved.add(place)
        length = self.layout.slots * self.layout.room
        if length:
            _allocate(self._file, self.path, self._at.data + place * length, length)

    def operate(self, step: Callable[[Segment], Any]) -> Any:
        """Runs a step while nobody else does; FAILED if the module has crashed."""
        memory = self._memory
        if not self._lock():
            return FAILED
        try:
            if memory[_CRASHED]:
                return FAILED
            if memory[_WHOLE]:
                self._make_changes()
            self._listed = None
            result = step(self)
            if self._changes:
                self._commit()
        finally:
            self._changes.clear()
            fcntl.flock(self._file, fcntl.LOCK_UN)
        return FAILED if memory[_CRASHED] else result

    def _lock(self) -> bool:
        if _try_lock(self._file):
            return True
        waited, pause, before = 0.0, _SHORTEST_SLEEP, time.monotonic()
        while waited < self._patience:
            if waited < _YIELDING:
                os.sched_yield()
            else:
                time.sleep(pause)
                pause = min(2 * pause, _LONGEST_SLEEP)
            if _try_lock(self._file):
                return True
            now = time.monotonic()
            waited += min(now - before, _COUNTED)
            before = now
            if self._memory[_CRASHED]:
                return False
        self.gave_up = True
        self.crash()
        return False

    def _commit(self) -> None:
        """The step's changes become valid, all at once."""
        memory = self._memory
        if len(self._changes) == 1:
            for position, selector in self._changes.items():
                memory[position] = selector
            return
        at = self._at.journal
        _COUNT.pack_into(memory, at, len(self._changes))
        at += _COUNT.size
        for change in self._changes.items():
            _CHANGE.pack_into(memory, at, *change)
            at += _CHANGE.size
        memory[_WHOLE] = 1
        for position, selector in self._changes.items():
            memory[position] = selector
        memory[_WHOLE] = 0

    def _make_changes(self) -> None:
        """Somebody was killed while it made its changes: they are made again."""
        memory = self._memory
        (count,) = _COUNT.unpack_from(memory, self._at.journal)
        first = self._at.journal + _COUNT.size
        for at in range(first, first + count * _CHANGE.size, _CHANGE.size):
            position, selector = _CHANGE.unpack_from(memory, at)
            memory[position] = selector
        memory[_WHOLE] = 0

    @property
    def has_crashed(self) -> bool:
        return bool(self._memory[_CRASHED])

    def crash(self) -> None:
        """From here on everything in this module is lost, for everybody."""
        self._memory[_CRASHED] = 1

    def close(self) -> None:
        """Lets go of the memory; it stays for the others."""
        self._memory.close()
        os.close(self._file)

    def _selector(self, position: int) -> int:
        changed = self._changes.get(position)
        return changed if changed is not None else self._memory[position]

    def _selectors(self, first: int, count: int) -> bytes:
        """A row of selectors, as the step that runs has them."""
        selectors = self._memory[first : first + count]
        if not self._changes:
            return selectors
        changed = bytearray(selectors)
        for position, selector in self._changes.items():
            if first <= position < first + count:
                changed[position - first] = selector
        return bytes(changed)

    def header(self) -> Header:
        selector = self._selector(self._at.header_selector)
        if selector == _NOTHING:
            return Header()
        return Header(*_HEADER.unpack_from(self._memory, self._at.header + (selector - 1) * _HEADER.size))

    def put_header(self, header: Header) -> None:
        position = self._at.header_selector
        bank = 2 if self._memory[position] == 1 else 1
        at = self._at.header + (bank - 1) * _HEADER.size
        _HEADER.pack_into(self._memory, at, *msgspec.structs.astuple(header))
        self._changes[position] = bank

    def connections(self) -> Iterator[tuple[int, Connection]]:
        selectors = self._selectors(self._at.connection_selectors, self.layout.places)
        for found in _SOMEBODY.finditer(selectors):
            place = found.start()
            yield place, self._decoded_connection(place, selectors[place])

    def connection(self, place: int) -> Connection | None:
        selector = self._selector(self._at.connection_selectors + place)
        return None if selector == _NOTHING else self._decoded_connection(place, selector)

    def _decoded_connection(self, place: int, selector: int) -> Connection:
        at = self._at.connections + (2 * place + selector - 1) * _CONNECTION.size
        raw = self._memory[at : at + _CONNECTION.size]
        known = self._known_connections[place]
        if known is not None and known[0] == raw:
            return known[1]
        entry, exit_, wish, last, read, stamp, reports, flags, length, name = _CONNECTION.unpack(raw)
        process, only_sends = name[:length].decode(), bool(flags & _ONLY_SENDS)
        gone, sends, present = bool(flags & _GONE), bool(flags & _SENDS), bool(flags & _PRESENT)
        connection = Connection(process, entry, exit_, gone, sends, present, wish, last, read, only_sends, stamp, reports)
        self._known_connections[place] = (raw, connection)
        return connection

    def connect(self, place: int, connection: Connection) -> None:
        position = self._at.connection_selectors + place
        bank = 2 if self._memory[position] == 1 else 1
        name = _encoded(connection.process)
        at = self._at.connections + (2 * place + bank - 1) * _CONNECTION.size
        flags = _GONE * connection.gone | _SENDS * connection.sends
        flags |= _PRESENT * connection.present | _ONLY_SENDS * connection.only_sends
        numbers = (connection.entry, connection.exit, connection.wish, connection.last, connection.read)
        _CONNECTION.pack_into(self._memory, at, *numbers, connection.stamp, connection.reports, flags, len(name), name)
        self._changes[position] = bank

    def disconnect(self, place: int) -> None:
        self._changes[self._at.connection_selectors + place] = _NOTHING

    def entries(self) -> Iterable[tuple[int, Entry]]:
        if self._listed is None:
            selectors = self._selectors(self._at.entry_selectors, len(self._known_entries))
            slots = [found.start() for found in _THERE.finditer(selectors)]
            self._listed = [(slot, self._decoded(slot, selectors[slot])) for slot in slots]
        return self._listed

    def entry(self, slot: int) -> Entry | None:
        selector = self._selector(self._at.entry_selectors + slot)
        if selector == _NOTHING:
            return None
        return self._decoded(slot, selector - _REMOVED if selector > _REMOVED else selector)

    def _decoded(self, slot: int, bank: int) -> Entry:
        at = self._at.entries + (2 * slot + bank - 1) * _ENTRY.size
        raw = self._memory[at : at + _ENTRY.size]
        known = self._known_entries[slot]
        if known is not None and known[0] == raw:
            return known[1]
        stamp, number, first, offset, total, size, listed, done, seen, voted, *rest = _ENTRY.unpack(raw)
        count, kind, place, flags, decided, length, name = rest
        batch = (first, count, offset, total, size, bool(flags & _FILLED), bool(flags & _AVAILABLE))
        decision = (bool(flags & _LOCAL), _DECISIONS[decided], bool(flags & _IS_REMOVED))
        entry = Entry(stamp, place, name[:length].decode(), *batch, listed, done, seen, voted, *decision, number, kind)
        self._known_entries[slot] = (raw, entry)
        return entry

    def put(self, slot: int, entry: Entry) -> None:
        position = self._at.entry_selectors + slot
        bank = 2 if self._memory[position] in (1, 1 + _REMOVED) else 1
        name = _encoded(entry.sender)
        flags = _FILLED * entry.filled | _AVAILABLE * entry.available | _LOCAL * entry.local | _IS_REMOVED * entry.removed
        at = self._at.entries + (2 * slot + bank - 1) * _ENTRY.size
        decided = _DECISIONS.index(entry.decision)
        _ENTRY.pack_into(self._memory, at, *_numbers_of(entry), flags, decided, len(name), name)
        self._changes[position] = bank + _REMOVED if entry.removed else bank
        self._listed = None

    def data(self, slot: int) -> bytes:
        entry = self.entry(slot)
        if entry is None:
            return b""
        at = self._at.data + slot * self.layout.room
        return self._memory[at : at + entry.size]

    def fill(self, slot: int, data: bytes) -> None:
        if len(data) > self.layout.room:
            raise UsageError(f"a slot has room for {self.layout.room} bytes, not for {len(data)}; choose a larger room")
        if slot // self.layout.slots not in self._reserved:
            self.reserve(slot // self.layout.slots)
        at = self._at.data + slot * self.layout.room
        self._memory[at : at + len(data)] = data


_DECISIONS: Final = (None, False, True)
_NUMBERS = ("stamp", "number", "first", "offset", "total", "size", "listed", "done", "seen", "voted", "count", "kind", "place")
_numbers_of = attrgetter(*_NUMBERS)


def _try_lock(file: int) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


@cache
def _encoded(name: str) -> bytes:
    """A process's name as bytes; names come again and again."""
    known = name.encode()
    if len(known) > LONGEST_PROCESS:
        raise UsageError(f"the name {name!r} has more than {LONGEST_PROCESS} bytes; choose a shorter one")
    return known
