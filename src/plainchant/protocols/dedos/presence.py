"""Presence of the processes of a node (3.3.2): stamps in shared memory, and the processes whose stamps stand still.

Theory of operation
-------------------
The kernel of a node notices processes that die, but not one that hangs: an endless loop, a stopped process, a processor that is
not scheduled. So every process writes a *stamp* into its connection, larger each time, at least once per ``poll``, and looks at
the stamps of the others. A process whose stamp has not grown for ``silence`` is *silent*, and the first process that sees that
marks its connection as ``gone``, in the same atomic step. The mark is final: the node goes on without the excluded process, whose
next operation finds the mark and halts it (:class:`.box.Box`).

Clocks are not compared: an observer measures with its own clock how long it has seen the same stamp. An observer that was itself
stopped begins to observe anew; otherwise, when a whole machine is suspended, the first process to wake would exclude all others.
"""

from __future__ import annotations

from collections.abc import Iterable

from ...core.memory import Connection, Copy
from ...core.model import ProcessId, Reason, format_duration
from .box import changed
from .parameters import Parameters


class Presence:
    """What one process has seen of the stamps at one mailbox."""

    def __init__(self, parameters: Parameters) -> None:
        self._silence = parameters.longest_silence
        self._interval = int(parameters.poll) // 2
        self._seen: dict[ProcessId, tuple[int, int]] = {}  # The highest stamp of each process, and when it was first seen
        self._looked = 0  # When this process last looked; 0: never
        self._stamp, self._stamped = 0, -self._silence

    def attend(self, copy: Copy, place: int, now: int) -> list[ProcessId]:
        """Part of a step: stamps the process in this place, and excludes those that are silent. Gives all that are excluded."""
        connection = copy.connection(place)
        if connection is not None and now - self._stamped >= self._interval:
            self._stamped = now
            self._stamp = max(self._stamp, connection.stamp) + 1
            copy.connect(place, changed(connection, stamp=self._stamp))
        excluded = []
        for other, silent in self.look(copy.connections(), place, now):
            if not silent.gone:
                copy.connect(other, changed(silent, gone=True))
            excluded.append(silent.process)
        return excluded

    def look(self, connections: Iterable[tuple[int, Connection]], own: int, now: int) -> list[tuple[int, Connection]]:
        """The connections of silent processes, by place, those that are marked already among them."""
        there = [(place, connection) for place, connection in connections if place != own]
        if now - self._looked > self._silence // 2:
            self._seen.clear()
        self._looked = now
        silent = []
        for place, connection in there:
            stamp, since = self._seen.get(connection.process, (-1, now))
            if connection.stamp > stamp:
                self._seen[connection.process] = (connection.stamp, now)
            if connection.gone or (connection.stamp <= stamp and self._is_silent(now - since)):
                silent.append((place, connection))
        return silent

    def _is_silent(self, length: int) -> bool:
        """Whether a stamp that has stood still for this long belongs to a process that hangs."""
        return length >= self._silence

    def saw_silence(self, process: ProcessId, now: int) -> bool:
        """Whether this process has itself seen the silence of another one. It may only have found the mark: of a process that was
        excluded before this one came, or that has ended and another process was told so first."""
        return self._is_silent(now - self._seen.get(process, (0, now))[1])

    def why(self, process: ProcessId) -> Reason:
        """Why a process was excluded."""
        text = f"{process} has not stamped its presence for {format_duration(self._silence)}"
        return Reason("silent", text, {"process": process})
