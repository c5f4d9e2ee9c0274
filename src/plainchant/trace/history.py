"""Rows of a trace while a run is going on: plain Python, without Arrow.

A host appends one tuple for each event to the ``rows`` of a :class:`History`. A history is two containers and nothing else,
because that append is in the innermost loop of a simulation. :class:`TraceBuffer` keeps all histories of a run in memory;
``writer.TraceWriter`` is one that writes them to files. Only :meth:`TraceBuffer.table` needs Arrow.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any, TypeAlias

from ..core.model import GroupId, ProcessId
from ..core.plugins import need

if TYPE_CHECKING:
    import pyarrow as pa

Row: TypeAlias = tuple[
    str,  # kind
    int,  # time
    int | None,  # true_time
    GroupId | None,
    int | None,  # view
    ProcessId | None,  # sender
    int | None,  # seq
    int | None,  # sent
    int | None,  # rank
    int | None,  # digest
    int | None,  # size
    dict[str, Any] | None,  # extra: members (tuple), deadline (int), detail (dict)
]


@dataclasses.dataclass(slots=True, eq=False)
class History:
    """One process's history in one run: the rows that are not converted yet. ``packets`` maps a position in ``rows`` to the
    packets that this event put on the network."""

    run: str
    process: ProcessId
    rows: list[Row] = dataclasses.field(default_factory=list)
    packets: dict[int, int] = dataclasses.field(default_factory=dict)
    first: int = 0  # the index of `rows[0]`: the number of rows that were written and cleared before

    def clear(self) -> None:
        """Forgets the rows, in place: hosts hold references to the containers."""
        self.rows.clear()
        self.packets.clear()


class TraceBuffer:
    """A trace in memory.

    >>> trace = TraceBuffer()
    >>> history = trace.history("r0", "p1")
    >>> history.rows.append(("start", 5, 5, None, None, None, None, None, None, None, None, {"detail": {"version": 1}}))
    >>> trace.table().select(["process", "index", "kind", "detail"]).to_pylist()
    [{'process': 'p1', 'index': 0, 'kind': 'start', 'detail': '{"version":1}'}]
    """

    def __init__(self) -> None:
        self._histories: dict[tuple[str, ProcessId], History] = {}

    def history(self, run: str, process: ProcessId) -> History:
        """Where this process's rows go. The same run and process give the same history."""
        return self._histories.setdefault((run, process), History(run, process))

    def table(self) -> pa.Table:
        """The rows so far as an Arrow table, in the order (run, process, index)."""
        for package in ("numpy", "pyarrow"):
            need(package, "a trace as a table needs", "cli")
        from .schema import SCHEMA
        from .writer import convert

        return convert(self._ordered()).cast(SCHEMA)

    def flush_if_full(self) -> None:
        """Does nothing: a buffer is never full. Here so that a host need not know what it writes to."""

    def close(self) -> None:
        """Does nothing: the rows stay in the buffer."""

    def abort(self) -> None:
        """Forgets everything."""
        for history in self._histories.values():
            history.clear()
            history.first = 0

    def _ordered(self) -> list[History]:
        return [self._histories[key] for key in sorted(self._histories) if self._histories[key].rows]
