"""What one node does, for its own page: a spool that also keeps the last records in memory.

The host tells it what it tells a spool. It passes that on to the node's spool, if there is one, and puts it into a queue of
bounded length, which the page empties twice a second. If more happens than fits, the oldest is forgotten and counted: a node
never waits for its page.
"""

from __future__ import annotations

import json
import time as clock
from collections import deque
from collections.abc import Sequence
from typing import Any, Final

from ...trace.fact import Fact
from ...trace.spool import Spool

KEPT: Final = 20_000
"""Records between two looks."""


class Tap(Spool):
    """A spool for a process that is watched; ``inner`` is the one on disk, if there is one."""

    def __init__(self, *, run: str, process: str, start: dict[str, Any], inner: Spool | None) -> None:
        # Not Spool's: this one has no files.
        self.what = f"{process}, by itself"
        self._inner = inner
        self._run_name = run
        self._process_name = process
        self._facts: deque[Fact] = deque(maxlen=KEPT)
        self._upcoming = 0
        self._forgotten = 0
        self._is_over = False
        self._add("start", clock.time_ns(), detail=json.dumps(start, default=str))

    def send(
        self, time: int, group: str, view: int | None, first: int, payloads: Sequence[bytes], deadline: int | None = None
    ) -> None:
        if self._inner is not None:
            self._inner.send(time, group, view, first, payloads, deadline)
        self._add("send", time, group, view=view, sender=self._process_name, seq=first, count=len(payloads), deadline=deadline)

    def deliver(
        self, time: int, group: str, view: int | None, sender: str, first: int, payloads: Sequence[bytes], rank: int | None
    ) -> None:
        if self._inner is not None:
            self._inner.deliver(time, group, view, sender, first, payloads, rank)
        self._add("deliver", time, group, view=view, sender=sender, seq=first, count=len(payloads))

    def accept(self, time: int, group: str, payloads: Sequence[bytes]) -> None:
        if self._inner is not None:
            self._inner.accept(time, group, payloads)
        self._add("accept", time, group, sender=self._process_name, count=len(payloads))

    def row(
        self,
        kind: str,
        time: int,
        group: str | None = None,
        view: int | None = None,
        sender: str | None = None,
        seq: int | None = None,
        rank: int | None = None,
        members: Sequence[str] | None = None,
        deadline: int | None = None,
        detail: dict[str, Any] | None = None,
    ) -> None:
        if self._inner is not None:
            self._inner.row(kind, time, group, view, sender, seq, rank, members, deadline, detail)
        text = None if detail is None else json.dumps(detail, default=str)
        named = None if members is None else tuple(members)
        self._add(kind, time, group, view=view, sender=sender, seq=seq, members=named, detail=text)

    def packets(self, count: int) -> None:
        if self._inner is not None:
            self._inner.packets(count)

    def flush(self) -> None:
        if self._inner is not None:
            self._inner.flush()

    def close(self) -> None:
        self._is_over = True
        if self._inner is not None:
            self._inner.close()

    def _add(self, kind: str, time: int, group: str | None = None, *, count: int = 1, **more: Any) -> None:
        if count < 1:
            return
        self._forgotten += len(self._facts) == KEPT
        self._facts.append(Fact(self._run_name, self._process_name, self._upcoming, kind, time, group, count=count, **more))
        self._upcoming += count

    def poll(self) -> list[Fact]:
        """What happened since the last look."""
        facts = list(self._facts)
        self._facts.clear()
        return facts

    def now(self) -> int:
        return clock.time_ns()

    def told(self) -> dict[str, Any]:
        lost = f"{self._forgotten:,} records came faster than the page looked; they are not in its numbers"
        return {"alive": 1 - self._is_over, "behind": 0, "problems": [lost] if self._forgotten else [], "over": self._is_over}
