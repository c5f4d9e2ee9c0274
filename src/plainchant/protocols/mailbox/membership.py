"""The list of receivers: Join and Leave with their timestamps (A.1), and collecting what somebody who is gone leaves behind
(3.3.2).

A receiver enters at a timestamp so far ahead that every copy lists it when the first message after it is sent, and leaves in the
same way; then it reads what is earlier. Who is not done in time takes a later timestamp.

Nobody waits for a process that has crashed, or left: whoever hears of it marks it in every copy, votes and sets decision flags
in its name, and tells the mailbox server. Several may do so at once; each step changes nothing that was done. """

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any

from ...memory import FAILED, Connection, Copy, Disconnect, Request
from ...model import ProcessId
from .box import Box, changed
from .times import TICK


def enter(box: Box) -> Generator[Request, Any, int]:
    """Adds this process to the list of receivers; its entry timestamp."""
    return (yield from _list(box, lambda time: Connection(box.host.me, time), enters=True))


def connect(box: Box) -> Generator[Request, Any, None]:
    """Adds this process to those that only send."""
    yield from _write(box, Connection(box.host.me))


def leave(box: Box, entry: int) -> Generator[Request, Any, int]:
    """Says when this process stops receiving; its exit timestamp."""
    return (yield from _list(box, lambda time: Connection(box.host.me, entry, time)))


def _list(box: Box, at: Callable[[int], Connection], *, enters: bool = False) -> Generator[Request, Any, int]:
    """Lists a change in every copy before its timestamp; who is not done in time tries again with more.

    A sender that is slow may have written a message that lies ahead, without this change: then the change is later still. It may
    have written it into some copies before, and into others after, and who enters has a flag in those: nobody waits for it."""
    ahead = box.times.join + TICK
    latest = 0
    while True:
        time = max(box.clock + ahead + box.parameters.skew, latest + TICK)
        there = yield from _write(box, at(time), enters=enters and box.rules.enter_after)
        latest = there if box.rules.enter_after else 0
        if box.clock <= time - box.parameters.skew and latest < time:
            return time
        ahead *= 2


def _write(box: Box, connection: Connection, *, enters: bool = False) -> Generator[Request, Any, int]:
    """Puts this process's connection into every copy; the latest timestamp of what is there."""

    def put(copy: Copy) -> int:
        copy.connect(box.place, connection)
        if enters:
            _excuse(box, copy, box.mask)
        return max((entry.stamp for _, entry in copy.entries()), default=0)

    latest = 0
    for copy in range(box.copies):
        found = yield box.list(copy, put)
        if found is not FAILED:
            latest = max(latest, found)
    return latest


def collect(box: Box, place: int, process: ProcessId) -> Generator[Request, Any, None]:
    """Sees to it that nobody waits for a process that is gone."""
    mask = 1 << place
    exit_ = box.clock + box.times.join + box.parameters.skew + TICK

    def mark(copy: Copy) -> int:
        connection = copy.connection(place)
        if connection is None or connection.process != process:
            return 0
        left = connection.exit or exit_
        if not connection.gone:
            copy.connect(place, Connection(process, connection.entry, left, gone=True))
        _excuse(box, copy, mask)
        return left

    for copy in range(box.copies):
        left = yield box.list(copy, mark)
        if left is not FAILED and left:
            exit_ = left
    yield Disconnect(box.group, place, process)


def _excuse(box: Box, copy: Copy, mask: int) -> None:
    """Votes and sets decision flags in a process's name in all that is there."""
    for slot, entry in list(copy.entries()):
        if entry.listed & mask and not entry.done & mask:
            copy.put(slot, changed(entry, voted=entry.voted | mask, done=entry.done | mask))
    box.sweep(copy)
