"""The mailbox server: which mailboxes there are on this machine, who is connected to them, and who of them has died.

The server is no process but a directory that all processes of a user share, and rules that all of them keep. A mailbox has a
folder there, named by a digest of its name and its *namespace* (programs whose groups have the same name do not meet), with

- a file for each memory module (:mod:`.segments`),
- a *presence* file for each connected process, which holds a lock (``flock``) on it as long as it lives: a process that gets the
  lock knows that the owner has died,
- a *bell* for each (a FIFO): a time in it says that there may be something new in the memory since then,
- the *register*: who is in which place.

Folders and registers change under one lock for all of them. A register is written anew and renamed, so a killed process leaves
the old one or the new one; reading needs no lock.

**The process membership service** is made of presences (:meth:`Attachment.failures`). A process that leaves in good order is
taken out of the register before it gives up its presence, so one in the register without a presence has died. A process that
frees the place of a dead one notes its name in the register, for others that have not looked meanwhile.

**Meeting.** A namespace follows from the addresses that a process lists (``live.setup``), and a joiner may list more than the
members do, for example itself. So :meth:`MailboxServer.connect` looks under its own namespace, and then for a mailbox of that
name to which a *peer* is connected: a live process whose address is in this process's list. All under the lock, so two processes
never make two mailboxes for one group.

**Nodes** have a namespace each (:func:`namespace_of`), so their processes share memory, and news of deaths, only with each
other. :meth:`MailboxServer.directory` says which mailboxes there are and who is connected, in the order of connecting. It is
asked often, so what has not changed is not read again, unless its time is too recent to show another change (:data:`FRESH`).

**Nothing is left behind.** The last process to go removes the folder, and the directory if it is empty; dead ones do not count.
A mailbox whose processes have all been killed is *stale*: the next process that connects to that name removes it first, and
``plainchant doctor --memory --clean`` removes all such, and folders without a register, which were never completed. A forked
child lets go of the files at once, since locks on them would last as long as it lives.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import re
import shutil
import stat
import struct
import tempfile
import time
import weakref
from collections.abc import Collection, Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

import msgspec

from ...core.memory import Layout, Port
from ...core.model import UsageError
from .segments import PATIENCE, CommonMemoryError, Segment, check_layout, make

SHARED: Final = Path("/dev/shm")  # where Linux has files that are only memory
LOCK: Final = "lock"
REGISTER: Final = "register"
BUSY: Final = 5.0  # seconds after which the holder of the server's lock is taken to be stopped
MOST_FAILED: Final = 64  # names of dead processes that a register keeps
FRESH: Final = 50_000_000  # nanoseconds within which a file may be changed again without its time showing it
_ON: Final = " on node "  # between the namespace of processes that belong together and their node
_BELL: Final = struct.Struct("<q")
_BELLS: Final = 8192 * _BELL.size
_PAUSE: Final = 2e-4
_DIGITS: Final = 24
_FOLDER: Final = re.compile(f"[0-9a-f]{{{_DIGITS}}}")  # the names of mailboxes' folders; whatever else is there is not touched


class Seat(msgspec.Struct, frozen=True):
    """Who is in a place. ``token`` names its files."""

    place: int
    process: str
    token: str
    pid: int
    address: str = ""  # where it is heard; empty: it does not say


class Register(msgspec.Struct, frozen=True):
    """A mailbox, and who is connected to it."""

    namespace: str
    mailbox: str
    layout: Layout
    epoch: int
    seats: tuple[Seat, ...] = ()
    failed: tuple[str, ...] = ()  # processes whose places were freed by others
    forgotten: int = 0  # how many names there were before these


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Register).decode


class Refused(CommonMemoryError):
    """The mailbox server does not do what it was asked for, and why."""


class Found(msgspec.Struct, frozen=True):
    """A mailbox that there is, as people want to see it."""

    register: Register
    directory: str
    alive: tuple[str, ...]
    crashed: tuple[int, ...]  # modules that have crashed, from 1

    @property
    def node(self) -> str:
        """The node that it is on; empty: there are none."""
        return self.register.namespace.partition(_ON)[2]

    @property
    def is_stale(self) -> bool:
        """Whether everybody who was connected has died."""
        return bool(self.register.seats) and not self.alive


def default_root() -> Path:
    """The directory of this user's mailboxes: in memory where the system has files there, else among temporary files."""
    base = SHARED if SHARED.is_dir() and os.access(SHARED, os.W_OK | os.X_OK) else Path(tempfile.gettempdir())
    return base / f"plainchant-{os.getuid()}"


def namespace_of(namespace: str, node: str) -> str:
    """The namespace of one node of those who belong together."""
    return f"{namespace}{_ON}{node}"


class MailboxServer:
    """The mailboxes of one namespace, as one process has to do with them."""

    def __init__(
        self,
        namespace: str,
        *,
        root: Path | None = None,
        patience: float = PATIENCE,
        address: str = "",
        peers: Collection[str] = (),
    ) -> None:
        """``address`` is that of this process, ``peers`` those of processes whose mailboxes it uses (see *Meeting* above)."""
        self.namespace = namespace
        self._address = address
        self._peers = frozenset(peers) - {address}
        self._met: dict[str, str] = {}  # mailboxes of peers, with their namespaces
        self.root = root if root is not None else default_root()
        self.own: set[str] = set()  # tokens of the seats that this process has taken, for itself or for others
        self._patience = patience
        self._folders: tuple[int, tuple[str, ...]] = (0, ())  # time of the directory (0: too recent), and the folders then
        self._foreign: set[str] = set()  # folders of other namespaces
        self._registers: dict[str, tuple[tuple[int, int], Register]] = {}  # by folder: version (0, 0: too recent), register

    def create(self, mailbox: str, layout: Layout, epoch: int) -> None:
        """Makes a mailbox to which nobody is connected; ``epoch`` is the time from which its timestamps count."""
        with _telling(self.root), locked(self.root):
            if self._current(mailbox) is not None:
                raise Refused(f"there is a mailbox {mailbox!r} already; connect to it, or choose another name")
            with contextlib.ExitStack() as undo:
                register = self._make(mailbox, layout, epoch, undo)
                write_register(self._directory(mailbox), register)
                undo.pop_all()

    def connect(self, mailbox: str, layout: Layout, process: str, epoch: int) -> Attachment:
        """A place at a mailbox, which is made if there is none of that name."""
        with _telling(self.root), locked(self.root), contextlib.ExitStack() as undo:
            self._met.pop(mailbox, None)
            register = self._current(mailbox) or self._meet(mailbox)
            if register is None:
                register = self._make(mailbox, layout, epoch, undo)
            if register.layout != layout:
                text = f"mailbox {mailbox!r} has {_sizes(register.layout)}, and {process} wants {_sizes(layout)}"
                raise Refused(f"{text}; give all of them the same parameters")
            if any(seat.process == process for seat in register.seats):
                raise Refused(f"a process named {process} is connected to mailbox {mailbox!r} already; choose another name")
            taken = {seat.place for seat in register.seats}
            place = next((place for place in range(layout.places) if place not in taken), None)
            if place is None:
                raise Refused(f"all {layout.places} places of mailbox {mailbox!r} are taken; give it more places")
            seat = Seat(place, process, os.urandom(6).hex(), os.getpid(), self._address)
            attachment = self._attach(mailbox, msgspec.structs.replace(register, seats=(*register.seats, seat)), seat, undo)
            undo.pop_all()
        self.own.add(seat.token)
        return attachment

    def _attach(self, mailbox: str, register: Register, seat: Seat, undo: contextlib.ExitStack) -> Attachment:
        directory = self._directory(mailbox)
        presence = os.open(directory / f"presence-{seat.token}", os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        undo.callback(_forget_files, directory, seat)
        undo.callback(os.close, presence)
        fcntl.flock(presence, fcntl.LOCK_EX)
        os.mkfifo(directory / f"bell-{seat.token}", 0o600)
        # With a writer of its own the FIFO never ends.
        bell = os.open(directory / f"bell-{seat.token}", os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
        undo.callback(os.close, bell)
        segments = []
        for number in range(register.layout.copies):
            segments.append(Segment(module_path(directory, number), patience=self._patience))
            undo.callback(segments[-1].close)
            segments[-1].reserve(seat.place)
        write_register(directory, register)
        return Attachment(self, directory, register, seat, segments, presence, bell)

    def disconnect(self, mailbox: str, place: int, process: str) -> None:
        """Frees the place of a dead process (-1: wherever it is); a live one frees its own (:meth:`Attachment.disconnect`)."""
        with locked(self.root):
            directory = self._directory(mailbox)
            register = read_register(directory)
            if register is None:
                return
            seat = next((seat for seat in register.seats if place in (-1, seat.place) and seat.process == process), None)
            if seat is None or is_alive(directory, seat):
                return
            self.free(directory, register, seat, failed=True)

    def free(self, directory: Path, register: Register, seat: Seat, *, failed: bool) -> None:
        """Takes somebody out of a register; a mailbox to which nobody who lives is connected is removed. The lock is held."""
        seats = tuple(other for other in register.seats if other.token != seat.token)
        if not any(is_alive(directory, other) for other in seats):
            _remove(directory)
            return
        names = (*register.failed, seat.process) if failed else register.failed
        dropped = max(0, len(names) - MOST_FAILED)
        changed = msgspec.structs.replace(register, seats=seats, failed=names[dropped:], forgotten=register.forgotten + dropped)
        write_register(directory, changed)
        _forget_files(directory, seat)

    def remove(self, mailbox: str) -> None:
        """Removes a mailbox to which nobody is connected; those who have died do not count."""
        with locked(self.root):
            directory = self._directory(mailbox)
            register = read_register(directory)
            if register is None:
                raise Refused(f"there is no mailbox {mailbox!r}; look at names()")
            alive = [seat.process for seat in register.seats if is_alive(directory, seat)]
            if alive:
                raise Refused(f"mailbox {mailbox!r} is in use by {', '.join(alive)}; end them, or have them leave, first")
            _remove(directory)

    def names(self) -> list[str]:
        """The mailboxes of this namespace."""
        return sorted(found.register.mailbox for found in mailboxes(self.root) if found.register.namespace == self.namespace)

    def directory(self) -> dict[str, tuple[str, ...]]:
        """The mailboxes of this namespace, and who is connected to each, in the order of connecting; those who have died are
        among them until they are disconnected."""
        registers = [register for folder in self._candidates() if (register := self._register_in(folder)) is not None]
        return dict(sorted((register.mailbox, tuple(seat.process for seat in register.seats)) for register in registers))

    def sizes(self) -> list[int]:
        """The bytes that each file of this namespace's mailboxes may take (a module only when each of its slots was used)."""
        found = []
        for folder in self._candidates():
            if self._register_in(folder) is not None:
                with contextlib.suppress(FileNotFoundError):  # it is being removed
                    found += [entry.stat(follow_symlinks=False).st_size for entry in os.scandir(self.root / folder)]
        return found

    def _candidates(self) -> tuple[str, ...]:
        """The folders that are not known to be of other namespaces."""
        try:
            version = os.stat(self.root).st_mtime_ns
            if version != self._folders[0]:
                is_settled = time.time_ns() - version > FRESH
                there = sorted(name for name in os.listdir(self.root) if _FOLDER.fullmatch(name))
                self._foreign.intersection_update(there)
                self._registers = {name: known for name, known in self._registers.items() if name in there}
                self._folders = (version if is_settled else 0, tuple(name for name in there if name not in self._foreign))
        except FileNotFoundError:
            self._folders = (0, ())
        return self._folders[1]

    def _register_in(self, folder: str) -> Register | None:
        """The register in a folder, if it is there and of this namespace."""
        if folder in self._foreign:
            return None
        try:
            status = os.stat(f"{self.root}/{folder}/{REGISTER}")
        except FileNotFoundError:
            return None
        version = (status.st_ino, status.st_mtime_ns)
        known = self._registers.get(folder)
        if known is not None and known[0] == version:
            return known[1]
        is_settled = time.time_ns() - status.st_mtime_ns > FRESH
        register = read_register(self.root / folder)
        if register is None:
            return None
        if register.namespace != self.namespace:
            self._foreign.add(folder)
            return None
        self._registers[folder] = (version if is_settled else (0, 0), register)
        return register

    def crash_module(self, number: int) -> None:
        """Makes module ``number`` (from 1) of every mailbox of this namespace crash: for tests and injected faults."""
        if not self.root.is_dir():
            return
        with locked(self.root):
            for directory in self._directories():
                path = module_path(directory, number - 1)
                if path.exists():
                    with contextlib.closing(Segment(path)) as segment:
                        segment.crash()

    def _directories(self) -> list[Path]:
        """The folders of this namespace's mailboxes. The lock is held."""
        return [Path(found.directory) for found in _mailboxes(self.root) if found.register.namespace == self.namespace]

    def remove_all(self) -> None:
        """Removes every mailbox of this namespace, and unfinished ones: for a caller that has ended all processes."""
        if not self.root.is_dir():
            return
        with locked(self.root):
            for directory in self._directories():
                _remove(directory)
            _remove_unfinished(self.root)

    def _meet(self, mailbox: str) -> Register | None:
        """The mailbox of that name to which a peer is connected, if there is one. The lock is held."""
        node = self.namespace.partition(_ON)[2]
        for folder in sorted(self.root.iterdir()) if self._peers else ():
            register = read_register(folder) if _FOLDER.fullmatch(folder.name) else None
            if register is None or register.mailbox != mailbox or register.namespace.partition(_ON)[2] != node:
                continue
            if any(seat.address in self._peers and is_alive(folder, seat) for seat in register.seats):
                self._met[mailbox] = register.namespace
                return register
        return None

    def _directory(self, mailbox: str) -> Path:
        namespace = self._met.get(mailbox, self.namespace)
        return self.root / sha256(f"{namespace}\0{mailbox}".encode()).hexdigest()[:_DIGITS]

    def _current(self, mailbox: str) -> Register | None:
        """The register of a mailbox; what is stale, or was never made to the end, is removed. The lock is held."""
        directory = self._directory(mailbox)
        register = read_register(directory)
        stale = register is not None and register.seats and not any(is_alive(directory, seat) for seat in register.seats)
        if directory.exists() and (register is None or stale):
            _remove(directory)
            return None
        return register

    def _make(self, mailbox: str, layout: Layout, epoch: int, undo: contextlib.ExitStack) -> Register:
        """Makes a mailbox but for its register, which is written when all is done. The lock is held."""
        check_layout(layout)
        directory = self._directory(mailbox)
        directory.mkdir(mode=0o700)
        undo.callback(_remove, directory)
        for number in range(layout.copies):
            make(module_path(directory, number), layout)
        return Register(self.namespace, mailbox, layout, epoch)


class Attachment:
    """A process's place at a mailbox: its port, the modules, its bell, and what it knows of the others."""

    def __init__(
        self, server: MailboxServer, directory: Path, register: Register, seat: Seat, segments: list[Segment], *files: int
    ) -> None:
        self.port = Port(seat.place, register.epoch)
        self.segments = segments
        self._presence, self.bell = files  # when the bell is readable, a process has rung (:meth:`hear`)
        self._server, self._directory, self._seat = server, directory, seat
        self._others: dict[str, _Other] = {}
        self._version = (0, 0)
        self._told = register.forgotten + len(register.failed)  # deaths in the register that were reported already
        self._failed: list[str] = []
        self._register = str(directory / REGISTER)
        self._open = True
        _attachments.add(self)

    def ring(self) -> None:
        """Tells all others that there may be something new."""
        self._refresh()
        bell = _BELL.pack(time.time_ns())
        for other in self._others.values():
            other.ring(bell)

    def hear(self) -> int | None:
        """The time (of the system's clock) of the first ring that was not heard yet; None: nobody has rung."""
        try:
            rings = os.read(self.bell, _BELLS)
        except BlockingIOError:
            return None
        return int(_BELL.unpack_from(rings)[0])

    def failures(self) -> list[str]:
        """Those who have died since this was asked last."""
        self._refresh()
        dead = [other for other in self._others.values() if other.has_died()]
        if dead:
            # Who goes in good order leaves the register first.
            self._refresh()
            for other in dead:
                if self._others.get(other.seat.token) is other:
                    self._failed.append(other.seat.process)
                    other.close()
                    other.is_known_dead = True
        failed, self._failed = self._failed, []
        return failed

    def _refresh(self) -> None:
        try:
            status = os.stat(self._register)
        except FileNotFoundError:
            return
        version = (status.st_ino, status.st_mtime_ns)
        if version == self._version:
            return
        register = read_register(self._directory)
        if register is None:
            return
        self._version = version
        told = register.failed[max(0, self._told - register.forgotten) :]
        self._told = register.forgotten + len(register.failed)
        there = {seat.token: seat for seat in register.seats if seat.token not in self._server.own}
        known_dead = set()
        for token in list(self._others):
            if token not in there:
                other = self._others.pop(token)
                other.close()
                if other.is_known_dead:
                    known_dead.add(other.seat.process)
        for token, seat in there.items():
            if token not in self._others:
                self._others[token] = _Other(self._directory, seat)
        self._failed += [name for name in told if name not in known_dead]

    def disconnect(self) -> None:
        """Goes in good order: nobody takes this process for one that has died."""
        if not self._open:
            return
        try:
            with _telling(self._server.root), locked(self._server.root):
                register = read_register(self._directory)
                if register is not None:
                    self._server.free(self._directory, register, self._seat, failed=False)
        finally:
            self._close()

    def abandon(self) -> None:
        """Goes as if this process had died: the others find out, and who is the last removes everything."""
        if not self._open:
            return
        try:
            with _telling(self._server.root), locked(self._server.root):
                self._close()
                register = read_register(self._directory)
                if register is not None and not any(is_alive(self._directory, seat) for seat in register.seats):
                    _remove(self._directory)
        finally:
            self._close()

    def _close(self) -> None:
        if self._open:
            # Closing does not give the lock back as long as a child that was just forked has the file, too.
            fcntl.flock(self._presence, fcntl.LOCK_UN)
            self.let_go()

    def let_go(self) -> None:
        """Closes all files; locks stay with who else has them."""
        if not self._open:
            return
        self._open = False
        for other in self._others.values():
            other.close()
        self._others.clear()
        for segment in self.segments:
            segment.close()
        os.close(self._presence)
        os.close(self.bell)


_attachments: weakref.WeakSet[Attachment] = weakref.WeakSet()


def _let_go_of_all() -> None:
    """In a child that was forked: nothing of its parent's stays with it."""
    for attachment in list(_attachments):
        attachment.let_go()


os.register_at_fork(after_in_child=_let_go_of_all)


class _Other:
    """Another process at the same mailbox: how to see whether it lives, and how to ring."""

    def __init__(self, directory: Path, seat: Seat) -> None:
        self.seat = seat
        self.is_known_dead = False
        self._presence = _open_if_there(directory / f"presence-{seat.token}", os.O_RDONLY)
        self._bell = _open_if_there(directory / f"bell-{seat.token}", os.O_WRONLY | os.O_NONBLOCK)

    def has_died(self) -> bool:
        """Whether its presence can be had. (One that has just gone in good order has given it up, too.)"""
        return self._presence >= 0 and not _is_locked(self._presence)

    def ring(self, bell: bytes) -> None:
        if self._bell < 0:
            return
        try:
            os.write(self._bell, bell)
        except BlockingIOError:
            return  # it is full of bells already
        except BrokenPipeError:
            os.close(self._bell)
            self._bell = -1

    def close(self) -> None:
        for file in {self._presence, self._bell} - {-1}:
            os.close(file)
        self._presence = self._bell = -1


def _open_if_there(path: Path, flags: int) -> int:
    """A file, or -1: it is gone, or, if it is a bell, nobody hears it."""
    try:
        return os.open(path, flags | os.O_CLOEXEC)
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.ENXIO):
            return -1
        raise


def _is_locked(file: int) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    fcntl.flock(file, fcntl.LOCK_UN)
    return False


def is_alive(directory: Path, seat: Seat) -> bool:
    """Whether a process that is in the register lives."""
    file = _open_if_there(directory / f"presence-{seat.token}", os.O_RDONLY)
    if file < 0:
        return False
    try:
        return _is_locked(file)
    finally:
        os.close(file)


def module_path(directory: Path, copy: int) -> Path:
    """The file of a copy's module; copies are counted from 0, modules from 1."""
    return directory / f"module-{copy + 1}"


def read_register(directory: Path) -> Register | None:
    try:
        return _decode((directory / REGISTER).read_bytes())
    except FileNotFoundError:
        return None
    except msgspec.MsgspecError as error:
        raise CommonMemoryError(f"{directory / REGISTER} is no register of a mailbox ({error}); remove {directory}") from error


def write_register(directory: Path, register: Register) -> None:
    new = directory / f"{REGISTER}.new"
    new.write_bytes(_encode(register))
    new.replace(directory / REGISTER)


def _remove(directory: Path) -> None:
    """Removes a mailbox, its register first: who is killed in the middle leaves one that was never made to the end."""
    (directory / REGISTER).unlink(missing_ok=True)
    shutil.rmtree(directory)


def _forget_files(directory: Path, seat: Seat) -> None:
    for file in ("presence", "bell"):
        (directory / f"{file}-{seat.token}").unlink(missing_ok=True)


@contextlib.contextmanager
def _telling(root: Path) -> Iterator[None]:
    """What the system refuses is told as a problem of common memory."""
    try:
        yield
    except OSError as error:
        text = f"the mailboxes in {root} cannot be used: {error.strerror}"
        raise CommonMemoryError(f"{text}; see to its room and permissions, and to the limits of this process (ulimit)") from error


def _sizes(layout: Layout) -> str:
    return f"{layout.copies} copies, {layout.places} places, {layout.slots} slots and room for {layout.room} bytes"


def mailboxes(root: Path | None = None) -> list[Found]:
    """All mailboxes that there are now, of every namespace."""
    directory = root or default_root()
    if not directory.is_dir():
        return []
    with locked(directory):
        return _mailboxes(directory)


def _mailboxes(root: Path) -> list[Found]:
    """The same, for who holds the lock."""
    found = []
    for folder in sorted(root.iterdir()):
        register = read_register(folder) if _FOLDER.fullmatch(folder.name) else None
        if register is not None:
            alive = tuple(seat.process for seat in register.seats if is_alive(folder, seat))
            found.append(Found(register, str(folder), alive, _crashed(folder, register.layout.copies)))
    return found


def _crashed(folder: Path, copies: int) -> tuple[int, ...]:
    with contextlib.ExitStack() as stack:
        opened = [stack.enter_context(contextlib.closing(Segment(module_path(folder, number)))) for number in range(copies)]
        return tuple(number for number, segment in enumerate(opened, 1) if segment.has_crashed)


def clean(root: Path | None = None) -> list[Found]:
    """Removes what is stale, and what was never made to the end; returns the mailboxes that were removed."""
    directory = root or default_root()
    if not directory.is_dir():
        return []
    with locked(directory):
        stale = [found for found in _mailboxes(directory) if found.is_stale]
        for found in stale:
            _remove(Path(found.directory))
        _remove_unfinished(directory)
    return stale


def _remove_unfinished(root: Path) -> None:
    """Removes folders without a register. The lock is held, so nobody is making one."""
    for folder in list(root.iterdir()):
        if _FOLDER.fullmatch(folder.name) and read_register(folder) is None:
            _remove(folder)


def check_root() -> None:
    """Fails unless mailboxes can be made."""
    with locked(default_root()):
        return


@contextlib.contextmanager
def locked(root: Path) -> Iterator[None]:
    """Holds the server's lock; the directory is there as long as it is held, and if it is empty no longer."""
    file = _take_lock(root)
    try:
        yield
    finally:
        try:
            if [entry.name for entry in os.scandir(root)] == [LOCK]:
                (root / LOCK).unlink()
                # Somebody who has come meanwhile makes itself a new lock, and needs the directory.
                with contextlib.suppress(OSError):
                    root.rmdir()
        finally:
            fcntl.flock(file, fcntl.LOCK_UN)
            os.close(file)


def _take_lock(root: Path) -> int:
    """The lock's file, locked. Whoever had it before may have removed it: then it is another file, or none."""
    for _ in range(round(BUSY / _PAUSE)):
        _make_root(root)
        try:
            file = os.open(root / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except FileNotFoundError:
            continue
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            here: Any = os.stat(root / LOCK)
        except BlockingIOError:
            here = None
            time.sleep(_PAUSE)
        except FileNotFoundError:
            here = None
        if here is not None and here.st_ino == os.fstat(file).st_ino:
            return file
        os.close(file)
    raise Refused(f"the lock of {root} could not be had in {BUSY:g} s; is a process stopped there? Let it go on, or end it")


def _make_root(root: Path) -> None:
    """The directory, this user's own and nobody else's."""
    try:
        with contextlib.suppress(FileExistsError):
            root.mkdir(mode=0o700)
        status = root.lstat()
    except FileNotFoundError:
        return  # somebody has just removed it: the next attempt makes it
    except OSError as error:
        raise CommonMemoryError(
            f"no common memory can be made at {root}: {error.strerror}; mailboxes need a writable {root.parent}"
        ) from error
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid() or stat.S_IMODE(status.st_mode) & 0o077:
        raise UsageError(f"{root} is not a directory that is yours alone; remove it, or have its owner remove it")
