"""Checks of what a machine has to give: shared memory, open files, room on disk, processors; and who may read a file."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from .finding import Finding, Subject, ok, problem, warning
from .machine import Machine
from .network import size_of

SHARED_LEAST: Final = 64 << 20
"""Bytes of shared memory with which large mailboxes do not fit."""
FILES: Final = 1024
FILES_LEAST: Final = 256
ROOM: Final = 1 << 30
ROOM_LEAST: Final = 64 << 20
STEAL: Final = 0.05
"""The share of time that other machines on the same processors take, from which on it shows."""


def shared_memory(machine: Machine, subject: Subject) -> Iterator[Finding]:
    """Where mailboxes are: there, ours to write, large enough, and without what the dead have left."""
    shared = machine.shared_memory()
    free, why = machine.space(shared) if machine.platform == "linux" else (0, "this system has none")
    if why:
        yield warning(
            f"{shared} cannot be used ({why}), so mailboxes are files: slower",
            f"mount -t tmpfs -o mode=1777 tmpfs {shared}; for a container: --shm-size=256m",
        )
    elif free < SHARED_LEAST:
        yield warning(
            f"{shared} has {size_of(free)} left; `mailbox` and `dedos` may not get what they ask for",
            f"mount -o remount,size=256m {shared}; for a container: --shm-size=256m",
        )
    else:
        yield ok(f"{shared} has {size_of(free)} left")
    found = machine.mailboxes()
    if isinstance(found, str):
        yield problem(f"mailboxes cannot be looked at: {found}", "remove that directory, or make it yours")
        return
    stale = [each for each in found if each.is_stale]
    if stale:
        names = ", ".join(each.register.mailbox for each in stale[:5])
        yield warning(
            f"left by processes that have all died: {len(stale)} mailboxes ({names})",
            "plainchant doctor --memory --clean --seconds 0",
        )
    elif found:
        yield ok(f"mailboxes that are in use: {len(found)}")


def files(machine: Machine, subject: Subject) -> Iterator[Finding]:
    """How many files a process may have open: sockets are files."""
    soft, hard = machine.file_limits()
    text = f"a process may have {soft:,} files open"
    wanted = FILES if hard < 0 else min(4096, hard)
    change = f"ulimit -n {max(wanted, FILES)} before the start (systemd: LimitNOFILE={max(wanted, FILES)})"
    if 0 <= soft < FILES_LEAST:
        yield problem(f"{text}: too few for a Spark session or a group over tcp", change)
    elif 0 <= soft < FILES:
        yield warning(f"{text}: few for a large group over tcp", change)
    else:
        yield ok(text if soft >= 0 else "a process may have any number of files open")


def disk(machine: Machine, subject: Subject) -> Iterator[Finding]:
    """Room where spools go: a process that cannot write its spool stops."""
    place = subject.spool
    free, why = machine.space(place)
    if why:
        yield problem(f"nothing can be written to {place}: {why}", "choose another directory (trace, --trace), or make it yours")
    elif free < ROOM_LEAST:
        yield problem(
            f"{size_of(free)} are left at {place}: a member that cannot write its spool halts",
            "make room, choose another directory, or leave the trace out",
        )
    elif free < ROOM:
        yield warning(
            f"{size_of(free)} are left at {place}: a busy member writes some MB a second",
            "make room, or choose another directory",
        )
    else:
        yield ok(f"{size_of(free)} are left at {place}")


def processors(machine: Machine, subject: Subject) -> Iterator[Finding]:
    """How many there are, how busy they are, and whether they are really ours."""
    number = machine.processors()
    words = (machine.read("/sys/fs/cgroup/cpu.max") or "").split()
    quota = int(words[0]) / int(words[1]) if len(words) == 2 and words[0].isdecimal() else None
    shown = f"{number} processors" if number > 1 else "1 processor"
    if quota is not None and quota < number:
        shown += f", of which a control group lets us use {quota:g}"
    load = machine.load()
    if number < 2:
        yield warning(f"{shown}: members, protocols and whoever measures them wait for each other", "use 2 or more")
    elif load > 2 * number:
        yield warning(
            f"{shown}, and {load:.1f} processes want one: time-outs may expire without a fault",
            "end what else runs, or set the protocol's suspect_after to seconds",
        )
    else:
        yield ok(f"{shown}; {load:.1f} processes want one")
    ticks = machine.ticks()
    stolen = ticks["steal"] / ticks["total"] if ticks is not None and ticks["total"] else 0
    if stolen > STEAL:
        yield warning(
            f"{stolen:.0%} of the time since the start was taken by other virtual machines",
            "use a machine with processors of its own, or set the protocol's suspect_after to seconds",
        )


def private_file(machine: Machine, check: str, path: Path, what: str) -> Iterator[Finding]:
    """A file that only its owner may read or write: a key."""
    found = machine.rights(path)
    if isinstance(found, str):
        yield problem(f"{what} at {path} cannot be read: {found}", "name the file that has it, or make it yours", check=check)
        return
    mode, owner = found
    if owner != machine.user:
        text = f"{what} at {path} belongs to user {owner}, and this is user {machine.user}"
        yield problem(text, f"chown {machine.user} {path}", check=check)
    elif mode & 0o077:
        yield problem(f"{what} at {path} can be read or written by others (mode {mode:03o})", f"chmod 600 {path}", check=check)
    else:
        yield ok(f"{what} at {path} is its owner's alone", check=check)
