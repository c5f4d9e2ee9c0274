"""The page of one node: what it does itself, served by its own event loop.

A node knows of the others what its views and messages tell. For all of them together, and for a verdict, let every process
record to a directory (``trace=``) and watch that.
"""

from __future__ import annotations

from typing import Any

from ...trace.fact import Fact
from ...trace.spool import Spool
from .server import Watch
from .tap import Tap
from .verdict import NoVerdict

_WHY = (
    "this page is of one process, and promises are about all of them: let all record to one directory (trace=DIR) "
    "and open the page of `plainchant watch DIR`"
)


class NodePage:
    """A source that begins with nothing and has the node's tap as soon as the node has its name."""

    def __init__(self, place: str, at: str) -> None:
        self.what = f"process {place}, by itself"
        self._tap: Tap | None = None
        self._watch = Watch(self, at, verdicts=NoVerdict(_WHY), threaded=False)

    async def open(self) -> None:
        await self._watch.__aenter__()

    async def close(self) -> None:
        await self._watch.__aexit__()

    @property
    def url(self) -> str:
        return self._watch.url

    def tap(self, run: str, process: str, start: dict[str, Any], spool: Spool | None) -> Tap:
        """What the host is to record with."""
        self._tap = Tap(run=run, process=process, start=start, inner=spool)
        return self._tap

    def poll(self) -> list[Fact]:
        return self._tap.poll() if self._tap is not None else []

    def now(self) -> int:
        return self._tap.now() if self._tap is not None else 0

    def told(self) -> dict[str, Any]:
        return self._tap.told() if self._tap is not None else {"alive": 0, "behind": 0, "problems": [], "over": False}
