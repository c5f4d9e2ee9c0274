"""A run's histories in memory. ``writer.TraceWriter`` is a buffer that writes them to files. Only a table needs Arrow."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..core.model import ProcessId
from ..core.plugins import need
from .history import History

if TYPE_CHECKING:
    import pyarrow as pa


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
        from .columns import convert
        from .schema import SCHEMA

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
