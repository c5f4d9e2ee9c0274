"""How much memory a tree of processes takes: the sum of their proportional set sizes.

Spark is a Java process and a handful of Python workers that share much of their memory. Adding up resident sizes would
count the shared part once for each of them; the *proportional* set size divides a shared page among its users, so that
the sum is what the machine really gives. Linux tells it in ``/proc/PID/smaps_rollup``; where that does not exist the
answer is None, not a guess.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Collection
from pathlib import Path
from types import TracebackType
from typing import Final

_PROC: Final = Path("/proc")
_INTERVAL_S: Final = 0.1


def tree_bytes(root: int | None = None, *, without: Collection[int] = ()) -> int | None:
    """Summed proportional set size of a process (this one, unless said otherwise) and all its descendants.

    ``without`` names processes that are left out together with their descendants: peers that are measured beside us.

    >>> taken = tree_bytes()
    >>> taken is None or taken > 1_000_000
    True
    """
    if not (_PROC / "self" / "smaps_rollup").exists():
        return None
    return sum(_own_bytes(process) for process in _tree(root or os.getpid(), without))


class Peak:
    """The most memory that this process's tree took while the block ran, looked at ten times a second.

    >>> with Peak() as peak:
    ...     block = bytearray(1_000_000)
    >>> peak.bytes is None or peak.bytes > 1_000_000
    True
    """

    def __init__(self, *, without: Collection[int] = ()) -> None:
        self.bytes: int | None = None
        self._without = without
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="memory", daemon=True)

    def __enter__(self) -> Peak:
        self._look()
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        self._over.set()
        self._thread.join()
        self._look()

    def _watch(self) -> None:
        while not self._over.wait(_INTERVAL_S):
            self._look()

    def _look(self) -> None:
        now = tree_bytes(without=self._without)
        if now is not None:
            self.bytes = max(self.bytes or 0, now)


def _tree(root: int, without: Collection[int]) -> list[int]:
    """A process and its descendants, parents first."""
    children: dict[int, list[int]] = {}
    for entry in _PROC.iterdir():
        if entry.name.isdigit():
            parent = _parent(entry)
            if parent is not None:
                children.setdefault(parent, []).append(int(entry.name))
    found = [root]
    for process in found:
        found += [child for child in children.get(process, ()) if child not in without]
    return found


def _parent(entry: Path) -> int | None:
    """The parent of a process; None if it ended while we looked."""
    try:
        # The name in parentheses may itself hold spaces and parentheses: what follows the last one is regular.
        return int((entry / "stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()[1])
    except OSError:
        return None


def _own_bytes(process: int) -> int:
    """Proportional set size of one process; nothing if it ended meanwhile or belongs to another user."""
    try:
        text = (_PROC / str(process) / "smaps_rollup").read_text(encoding="utf-8")
    except OSError:
        return 0
    return sum(int(line.split()[1]) * 1024 for line in text.splitlines() if line.startswith("Pss:"))
