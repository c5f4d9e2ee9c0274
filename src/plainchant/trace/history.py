"""Rows of a trace while a run is going on: plain Python, without Arrow.

A host appends one tuple for each event to the ``rows`` of a :class:`History`. A history is two containers and nothing else,
because that append is in the innermost loop of a simulation. ``buffer.TraceBuffer`` has all histories of a run.
"""

from __future__ import annotations

import dataclasses
from typing import Any, TypeAlias

from ..core.model import GroupId, ProcessId

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
