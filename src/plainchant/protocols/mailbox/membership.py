"""The list of receivers: Join and Leave with their timestamps (A.1), and collecting what a process leaves behind (3.3.2).

A receiver enters at a timestamp so far ahead that every copy lists it when the first message after it is sent, and leaves in the
same way; then it reads what is earlier. No process waits for one that has crashed, or left: each that hears of it marks it in
every copy, votes and sets decision flags in its name, and tells the mailbox server. Several may do so at once; each step changes
nothing that was done."""

from __future__ import annotations

from collections.abc import Callable, Generator
from functools import partial
from typing import Any

from ...core.memory import FAILED, Connection, Copy, Disconnect, Request, Until
from ...core.model import ProcessId
from .box import Box, changed
from .sending import LONGEST_LEAD
from .times import TICK


def wait_for_place(box: Box) -> Generator[Request, Any, None]:
    """Waits until all have seen in the list that the process that had this place is gone: then another may be listed there."""

    def left(copy: Copy) -> int:
        connection = copy.connection(box.place)
        return connection.exit if connection is not None and connection.gone else 0

    for copy in range(box.copies):
        exit_ = yield box.look(copy, left)
        if exit_ is not FAILED and exit_:
            exit_ = exit_ if is_plausible(box, exit_) else box.clock
            seen = box.times.settled + box.times.period + box.copies * box.parameters.decide
            yield Until(exit_ + seen + 2 * box.parameters.skew)


def enter(box: Box) -> Generator[Request, Any, int]:
    """Adds this process to the list of receivers; its entry timestamp, or 0 if it is too slow."""
    entry, is_final = yield from _list(box, lambda time: Connection(box.host.me, time))
    return entry if is_final else 0


def leave(box: Box, entry: int) -> Generator[Request, Any, int]:
    """Says when this process stops receiving; its exit timestamp. What is later and has a flag for it is excused in the end."""
    leaving, _ = yield from _list(box, lambda time: Connection(box.host.me, entry, time))
    return leaving


def _list(box: Box, at: Callable[[int], Connection]) -> Generator[Request, Any, tuple[int, bool]]:
    """Lists a change in every copy before its timestamp; the timestamp, and whether that is so.

    A process that is not done in time takes a later timestamp, as long as no other can have acted upon the first: all place the
    view with the change at its timestamp. A slow sender may have written a message that lies ahead: the change is later still. It
    may have written it into some copies before, into others after, with a flag of the one that enters: that is excused."""
    ahead = box.times.join + box.parameters.notice + TICK
    listed = latest = 0
    while True:
        time = max(box.clock + ahead + box.parameters.skew, latest + TICK)
        latest = 0
        for copy in range(box.copies):
            found = yield box.list(copy, partial(_change, box, at(time), listed))
            if found is None:
                return listed, False
            if found is not FAILED:
                latest = max(latest, found)
        listed = time
        if box.clock <= time - box.parameters.skew and latest < time:
            return time, True
        ahead *= 2


def _change(box: Box, connection: Connection, listed: int, copy: Copy) -> int | None:
    """Puts this process's connection into a copy. Gives the latest timestamp of what is there, since a receiver enters after that
    whatever its own timestamp says; or None if it is too late for another timestamp."""
    if listed and box.host.clock() >= listed + box.times.settled - box.parameters.skew - TICK:
        return None
    there = copy.connection(box.place)
    if there is not None and there.gone and there.process == connection.process:
        return None  # it was excluded meanwhile
    copy.connect(box.place, connection)
    if not connection.exit:
        _excuse(box, copy, box.mask)
    return max((entry.stamp for _, entry in copy.entries() if is_plausible(box, entry.stamp)), default=0)


def is_plausible(box: Box, stamp: int) -> bool:
    """Whether a timestamp can be that of a process whose clock is right. One that lies further ahead than a slow sender's is not,
    and with the second protocol no process that is well waits for that time, which may be an hour away. A receiver that enters
    before such a message listens in, and the message is removed only when that receiver has had time to read it."""
    return box.times.first or stamp <= box.host.clock() + LONGEST_LEAD + box.parameters.skew + box.parameters.schedule


def connect(box: Box) -> Generator[Request, Any, None]:
    """Adds this process to those that only send."""
    yield from _write(box, Connection(box.host.me))


def _write(box: Box, connection: Connection) -> Generator[Request, Any, None]:
    for copy in range(box.copies):
        yield box.list(copy, lambda copy: copy.connect(box.place, connection))


def collect(box: Box, place: int, process: ProcessId) -> Generator[Request, Any, None]:
    """Sees to it that nobody waits for a process that is gone."""
    yield from spread(box, place, process)
    yield Disconnect(box.group, place, process)


def spread(box: Box, place: int, process: ProcessId, reports: int = 0) -> Generator[Request, Any, None]:
    """Marks a process as gone in every copy; ``reports``: those that excluded it."""
    exit_ = exit_time(box)

    def mark(copy: Copy) -> int:
        connection = copy.connection(place)
        if connection is None or connection.process != process:
            return 0
        if reports and not connection.gone:
            connection = changed(connection, reports=reports)
        return mark_gone(box, copy, place, connection, exit_)

    for copy in range(box.copies):
        left = yield box.list(copy, mark)
        if left is not FAILED and left:
            exit_ = left


def exit_time(box: Box) -> int:
    """Exit timestamp of a process that is marked as gone now."""
    return box.clock + box.times.join + box.parameters.skew + TICK


def mark_gone(box: Box, copy: Copy, place: int, connection: Connection, exit_: int) -> int:
    """Part of a step: no process waits for this one any more in this copy. Gives its exit timestamp, which the first mark set."""
    left = connection.exit or exit_
    mask = 1 << place
    if not connection.gone:
        copy.connect(place, Connection(connection.process, connection.entry, left, gone=True, reports=connection.reports))
        for other, there in list(copy.connections()):
            if there.reports & mask and not there.gone:  # the next process in this place has reported nothing
                copy.connect(other, changed(there, reports=there.reports & ~mask))
    _excuse(box, copy, mask)
    return left


def _excuse(box: Box, copy: Copy, mask: int) -> None:
    """Votes and sets decision flags in a process's name in all that is there."""
    for slot, entry in list(copy.entries()):
        if entry.listed & mask and not entry.done & mask:
            copy.put(slot, changed(entry, voted=entry.voted | mask, done=entry.done | mask))
    box.sweep(copy)
