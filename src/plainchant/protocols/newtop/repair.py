"""What is missing (3.7): asked for where a gap shows, probed for where nothing shows.

Theory of operation
-------------------
A message says which one came before it, so a gap shows as soon as anything later arrives; its source is asked, and, if that
does not help, the other members in turn, which keep what they have received until all have it.

The last message of a burst is followed by nothing that could show the gap. But a block stays incomplete: a member that sent the
message, or got it, misses the others' completion. A member that has an incomplete block for ``probe_after`` tells those whose
part is missing where it stands and what it has of them (``Status``). They see what they lack and ask for it, complete the block
if they owe that, and say where they stand, so that the prober sees what it lacks. Unanswered probes and questions get rarer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ...core.model import ProcessId
from .matrix import Column
from .packets import Again, Ask, Status
from .part import Part

if TYPE_CHECKING:
    from .process import Process

MOST_GAPS: Final = 8
MOST_AGAIN: Final = 64  # packets that answer one request at the most
RAREST: Final = 5  # a gap that stays is asked for at most two to this power times as rarely
SLOWEST: Final = 8  # probes are at most so many times ``probe_after`` apart


class Repair:
    """Asking and answering, for all groups of a process."""

    def __init__(self, process: Process) -> None:
        self.process = process
        self.host = process.host
        self.parameters = process.parameters

    def gap(self, part: Part, column: Column) -> None:
        """Something of this member is missing."""
        if column.tries:
            return
        column.tries = 1
        if self.parameters.gap_patience:
            self.host.set_timer(("ask", part.group, column.process), self.host.now + self.parameters.gap_patience)
        else:
            self.ask(part, column)

    def ask_again(self, part: Part, process: ProcessId) -> None:
        """The answer has not come, or not all of it."""
        column = part.matrix.columns.get(process)
        if column is not None:
            if not column.gaps():
                column.tries = 0
                return
            if column.last > column.asked_at:
                column.tries = 1
            self.ask(part, column)

    def ask(self, part: Part, column: Column) -> None:
        target = self._whom(part, column)
        for after, last in column.gaps()[:MOST_GAPS]:
            self.host.send((target,), Ask(part.group, column.process, after, last, part.form))
        situation = "asks another" if target != column.process else "gap"
        self.host.record("ask", part.group, process=column.process, asked=target, situation=situation)
        column.tries += 1
        column.asked_at = column.last
        wait = self.parameters.ask_after << min(column.tries // 2 - 1, RAREST)
        self.host.set_timer(("ask", part.group, column.process), self.host.now + wait)

    def _whom(self, part: Part, column: Column) -> ProcessId:
        """The source first, then by turns another member that is not suspected, which may be dead, and the source again."""
        suspected = part.membership.suspicions if part.membership is not None else ()
        others = [process for process in part.others if process != column.process and process not in suspected]
        if column.tries % 2 or not others:
            return column.process
        return others[(column.index + column.tries // 2) % len(others)]

    def answer(self, part: Part, source: ProcessId, ask: Ask) -> None:
        for column in part.matrix.roster:  # also of those who have left
            if column.process == ask.source:
                self.send_again(part, source, column, ask.after, ask.last)

    def send_again(self, part: Part, to: ProcessId, column: Column, after: int, last: int) -> int:
        """Sends what there is between two blocks of a column; returns how many packets that are."""
        found = [packet for packet in (*column.kept, *column.early.values()) if after < packet.block <= last][:MOST_AGAIN]
        for packet in found:
            self.host.send((to,), Again(part.group, column.process, packet, part.form))
        if found:
            situation = "sends own again" if column is part.me else "sends another's again"
            self.host.record("retransmit", part.group, to=to, source=column.process, packets=len(found), situation=situation)
        return len(found)

    def watch(self, part: Part) -> None:
        """Sees to it that an incomplete block is noticed if it stays so."""
        if not part.probe_mark and (part.blocked == "room" or self._incomplete(part)):
            part.probe_mark = max(1, part.matrix.largest)
            wait = self.parameters.probe_after << min(part.probes, SLOWEST.bit_length() - 1)
            self.host.set_timer(("probe", part.group), self.host.now + wait)

    def _incomplete(self, part: Part) -> bool:
        matrix = part.matrix
        if matrix.complete < max(matrix.largest, part.demand):
            return True
        if part.office is not None:  # nobody but the sequencer sends: the others' acknowledgements show what they have
            return part.flow.acknowledged() < matrix.largest_flow
        return matrix.largest_flow > min([column.flow for column in matrix.counted])

    def probe(self, part: Part) -> None:
        """It stayed so: those whose part is missing are told."""
        mark, part.probe_mark = part.probe_mark, 0
        matrix = part.matrix
        if part.blocked == "room":
            self.process.want_room(part)
        if not self._incomplete(part):
            part.probes = part.probes + 1 if part.blocked == "room" else 0
        elif matrix.complete < mark or matrix.complete >= matrix.largest:
            missing = self._missing(part, mark)
            part.probes += 1
            if part.desk is not None:
                self.process.emit(part)
            for column in missing:
                self.host.send((column.process,), self.process.status(part, have=column.last))
            if missing:
                names = [column.process for column in missing]
                self.host.record("probe", part.group, probed=names, block=mark, situation="probe")
        else:
            part.probes = 0
        self.watch(part)

    def _missing(self, part: Part, mark: int) -> list[Column]:
        """Whose part is missing."""
        matrix = part.matrix
        if part.office is not None:
            return [column for column in matrix.members if column.complete < matrix.largest_flow and column is not part.me]
        behind = [column for column in matrix.counted if column.last < mark or column.flow < matrix.largest_flow]
        return [column for column in behind if column is not part.me]

    def told(self, part: Part, column: Column, status: Status) -> None:
        """A member says where it stands."""
        if status.block > column.last:
            column.announced = max(column.announced, status.block)
            self.gap(part, column)
